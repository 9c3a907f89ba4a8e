"""`config`: the settings, and a new value of one."""

from __future__ import annotations

import pytest

#: Setting: default, least, most.
SETTINGS = {"hot-bytes": (24_576, 4_096, 1_048_576), "hot-lines": (200, 40, 10_000), "index-lines": (1_000, 0, 100_000)}


def test_all(cli, engine):
    """Without a name every setting is shown, with its default."""
    reply = cli("config")
    assert reply.status == 0
    assert set(reply.data) == {"settings", "warnings"}
    assert reply["settings"] == {**{name: default for name, (default, _, _) in engine.SETTINGS.items()}, "index-root": "."}
    assert {name: reply["settings"][name] for name in SETTINGS} == {name: default for name, (default, _, _) in SETTINGS.items()}
    assert cli("config", plain=True).out.count("\n") == len(reply["settings"])


def test_one(cli):
    """With a name that setting alone is shown."""
    assert cli("config", "hot-lines")["settings"] == {"hot-lines": 200}


@pytest.mark.parametrize("name", SETTINGS)
def test_new_value(cli, project, name):
    """A new value within its limits is recorded, and counts from then on."""
    _, least, most = SETTINGS[name]
    for value in (least, most):
        reply = project.call("config", name, value, "--human-approved")
        assert (reply.status, reply["settings"]) == (0, {name: value})
    assert cli("config", name)["settings"] == {name: most}
    assert [(body["name"], body["value"]) for _, body in project.records("setting")] == [(name, least), (name, most)]


@pytest.mark.parametrize("name", SETTINGS)
def test_limits(call, project, name):
    """A value past a limit, or no integer, is refused and nothing is recorded."""
    _, least, most = SETTINGS[name]
    before = project.ledger()
    for value in (least - 1, most + 1, "-1", "many", "1.5", "1e3", "0x10", "", " 100", "1_000", "\uff19\uff19", "9" * 30):
        assert call("config", name, value, "--human-approved").code == (3, "bad-value"), value
    assert project.ledger() == before


def test_owner_only(cli, project):
    """Without the owner's word no setting changes."""
    before = project.ledger()
    assert cli("config", "hot-lines", "100").code == (3, "needs-approval")
    assert project.ledger() == before
    assert cli("config", "hot-lines")["settings"] == {"hot-lines": 200}


def test_unknown(cli):
    """An unknown setting is not found, whether it is read or written."""
    assert cli("config", "heat").code == (5, "not-found")
    assert cli("config", "heat", "1", "--human-approved").code == (5, "not-found")


def test_views_follow(call, project):
    """A smaller ceiling takes effect at once: MEMORY.md keeps within it and INDEX.md has the rest."""
    run = project.start()
    for n in range(50):
        project.fact(run, f"a.n{n}")
    memory, index = project.vault / "MEMORY.md", project.vault / "INDEX.md"
    assert memory.read_text(encoding="utf-8").count("- **a.n") == 50
    project.ok("config", "hot-lines", "40", "--human-approved")
    hot = memory.read_text(encoding="utf-8").count("- **a.n")
    assert memory.read_bytes().count(b"\n") <= 40
    assert 0 < hot < 40
    assert index.read_text(encoding="utf-8").count("- [[notes/a.n") == 50 - hot
    project.ok("config", "index-lines", "0", "--human-approved")
    assert index.read_text(encoding="utf-8").count("- [[notes/a.n") == 0
    assert f"- a: {50 - hot}" in index.read_text(encoding="utf-8")
    assert call("doctor").data["doors"]["counted"] == 50 - hot


def test_byte_ceiling(project):
    """MEMORY.md keeps within its bytes."""
    run = project.start()
    project.ok("config", "hot-bytes", "4096", "--human-approved")
    for n in range(20):
        project.fact(run, f"a.n{n}", "é" * 250)
    data = (project.vault / "MEMORY.md").read_bytes()
    assert 3_000 < len(data) <= 4_096


def test_index_root(cli, project):
    """The one setting that is text names a folder that holds the vault or lies in it; a dot is the default."""
    (project.folder / "docs").mkdir()
    assert cli("config", "index-root", "../docs", "--human-approved").code == (3, "bad-value")
    assert cli("config", "index-root", "../nowhere", "--human-approved").code == (3, "bad-value")
    assert cli("config", "index-root", "a\nb", "--human-approved").code == (3, "bad-text")
    assert cli("config", "index-root", "..", "--human-approved")["settings"] == {"index-root": ".."}
    assert cli("config", "index-root")["settings"] == {"index-root": ".."}
    assert cli("config", "index-root", ".", "--human-approved")["settings"] == {"index-root": "."}
    assert [body["value"] for _, body in project.records("setting")] == ["..", "."]
