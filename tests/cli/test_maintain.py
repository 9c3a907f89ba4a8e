"""`maintain`: the curation brief for a night job."""

from __future__ import annotations

import pytest

MONDAY = 1_796_025_600_000
DAY = 86_400_000
LIMITS = ["tier1-target", "tier2-target", "tier3-target", "uncurated-max", "hot-bytes", "hot-lines"]


def test_fresh(cli):
    """A new vault has nothing to curate and is within its limits."""
    reply = cli("maintain")
    assert reply.status == 0
    assert set(reply.data) == {
        "today",
        "uncurated",
        "uncurated_count",
        "cooling",
        "limits",
        "past",
        "overflow",
        "expired",
        "unverified",
        "open_long",
        "suggestions",
        "warnings",
    }
    assert (
        reply["uncurated"],
        reply["uncurated_count"],
        reply["cooling"],
        reply["past"],
        reply["overflow"],
        reply["expired"],
        reply["open_long"],
    ) == ([], 0, [], [], 0, [], [])
    assert [limit["name"] for limit in reply["limits"]] == LIMITS
    assert cli("maintain", plain=True).out.strip()


def test_uncurated(cli, project):
    """Journal entries that no proposal cites are listed in order, with their run, importance and ref."""
    run = project.start()
    first, second, third = (project.journal(run, f"Entry {n}.", "--ref", f"D{n}", "--importance", str(n + 1)) for n in range(3))
    project.stage(run, "a.b", "x", "--tier", "2", "--new-subject", "--evidence", "D1")
    reply = cli("maintain")
    assert reply["uncurated_count"] == 2
    assert [(e["id"], e["run"], e["importance"], e["ref"], e["text"]) for e in reply["uncurated"]] == [
        (first, run, 1, "D0", "Entry 0."),
        (third, run, 3, "D2", "Entry 2."),
    ]
    assert second not in cli("maintain", plain=True).out
    assert third in cli("maintain", plain=True).out


def test_most(call, project):
    """--most bounds the entries that are shown, and not their count."""
    run = project.start()
    entries = [project.journal(run) for _ in range(5)]
    reply = call("maintain", "--most", "2")
    assert (reply["uncurated_count"], [e["id"] for e in reply["uncurated"]]) == (5, entries[:2])


def test_mark(cli, project):
    """--mark records that the entries up to here are curated; those that follow are listed again. No memory changes."""
    run = project.start()
    project.journal(run)
    memory = project.views()["MEMORY.md"]
    reply = cli("maintain", "--mark", "--run", run)
    assert reply.status == 0
    assert set(reply.data) == {"mark", "run", "warnings"}
    ((head, body),) = project.records("mark")
    assert reply["mark"].startswith("M%d-" % head["seq"])
    assert (body["run"], body["upto"]) == (run, {run.split("-")[1]: head["seq"] - 1})
    assert project.ok("maintain")["uncurated_count"] == 0
    assert project.views()["MEMORY.md"] == memory
    later = project.journal(run)
    assert [e["id"] for e in project.ok("maintain")["uncurated"]] == [later]
    assert cli("maintain", "--mark", "--run", run, plain=True).out.strip()


def test_mark_needs_a_run(call, project):
    """--mark without --run takes the one open run; with none, several or an empty handle it is refused."""
    assert call("maintain", "--mark").code == (3, "unknown-run")
    run = project.start()
    assert call("maintain", "--mark")["run"] == run
    assert call("maintain", "--mark", "--run", "").code == (3, "bad-id")
    project.start()
    assert call("maintain", "--mark").code == (3, "several-runs")
    assert len(project.records("mark")) == 1


def test_check(cli, project):
    """--check exits 4 past a limit and names it; within all of them 0."""
    run = project.start()
    assert cli("maintain", "--check").status == 0
    project.ok("config", "tier2-target", "2", "--human-approved")
    for n in range(2):
        project.fact(run, f"a.n{n}")
    assert cli("maintain", "--check").status == 0
    project.fact(run, "a.n2")
    reply = cli("maintain", "--check")
    assert (reply.status, reply["past"]) == (4, ["tier2-target"])
    assert {"name": "tier2-target", "is": 3, "limit": 2} in reply["limits"]
    assert cli("maintain").status == 0


@pytest.mark.parametrize("name", ["tier1-target", "tier3-target", "uncurated-max"])
def test_each_limit(call, project, name):
    """Each limit is a setting, and passing it is seen."""
    run = project.start()
    project.ok("config", name, "0" if name == "uncurated-max" else "1", "--human-approved")
    for n in range(2):
        if name == "tier1-target":
            project.owned(run, f"a.n{n}", "x", "--tier", "1")
        elif name == "tier3-target":
            project.fact(run, f"a.n{n}", "x", "--tier", "3", "--evidence", "https://a.example/")
        else:
            project.journal(run)
    reply = call("maintain", "--check")
    assert (reply.status, reply["past"]) == (4, [name])


def test_check_of_overflow(call, project):
    """Tier 1 that has no room in MEMORY.md is past a limit."""
    run = project.start()
    project.ok("config", "hot-bytes", "4096", "--human-approved")
    for n in range(10):
        project.owned(run, f"a.n{n}", "x" * 500, "--tier", "1")
    reply = call("maintain", "--check")
    assert (reply.status, reply["past"]) == (4, [])
    assert 0 < reply["overflow"] < 10


def test_ceilings_are_measured(call, project):
    """The bytes and lines of MEMORY.md are those of the file."""
    run = project.start()
    for n in range(5):
        project.fact(run, f"a.n{n}", "é" * 100)
    data = (project.vault / "MEMORY.md").read_bytes()
    limits = {limit["name"]: limit["is"] for limit in call("maintain")["limits"]}
    assert (limits["hot-bytes"], limits["hot-lines"]) == (len(data), data.count(b"\n"))


def test_cooling(project):
    """Subjects are listed in the order in which they would cool: the least used and least important first, tier 1 never."""
    project.now = MONDAY
    run = project.start()
    for key, importance in (("a.low", "1"), ("a.high", "5"), ("a.mid", "3")):
        project.now += 1_000
        project.fact(run, key, "x", "--importance", importance)
    project.owned(run, "a.rule", "x", "--tier", "1")
    assert project.ok("maintain")["cooling"] == ["a.low", "a.mid", "a.high"]
    project.now += 70 * DAY
    project.ok("propose", "--run", run, "--key", "a.low", "--op", "touch", "--now")
    assert project.ok("maintain")["cooling"] == ["a.mid", "a.high", "a.low"]


def test_expired(call, project):
    """Expired facts are listed, and cool first."""
    project.now = MONDAY
    run = project.start()
    project.fact(run, "a.old", "x", "--until", "2026-11-30", "--importance", "5")
    project.fact(run, "a.new", "x", "--importance", "1")
    assert project.ok("maintain")["expired"] == []
    project.now += DAY
    project.fact(run, "a.other", "x")
    reply = call("maintain")
    assert reply["expired"] == [{"key": "a.old", "until": "2026-11-30"}]
    assert reply["cooling"][0] == "a.old"
    assert "a.old" in call("maintain", plain=True).out


def test_unverified(call, project):
    """Facts that were never verified are listed, the longest unused first; a touch with evidence takes one off."""
    project.now = MONDAY
    run = project.start()
    for key in ("a.one", "a.two"):
        project.now += 1_000
        project.fact(run, key)
    assert [row["key"] for row in project.ok("maintain")["unverified"]] == ["a.one", "a.two"]
    project.ok("propose", "--run", run, "--key", "a.one", "--op", "touch", "--evidence", "https://a.example/", "--now")
    assert [row["key"] for row in call("maintain")["unverified"]] == ["a.two"]


def test_open_long(call, project):
    """Runs open for over 24 hours are listed."""
    project.now = MONDAY
    run = project.start()
    project.now += DAY - 1_000
    assert project.ok("maintain")["open_long"] == []
    project.now += 2_000
    assert [(r["run"], r["actor"]) for r in project.ok("maintain")["open_long"]] == [(run, "codex")]
    assert run in call("maintain", plain=True).out
