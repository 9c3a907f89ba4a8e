"""`status`: where the vault is, and its counts."""

from __future__ import annotations

import os

import pytest


def test_fresh(cli, project):
    """A new vault has counts of 0."""
    reply = cli("status")
    assert reply.status == 0
    assert set(reply.data) == {
        "vault",
        "id",
        "engine",
        "runs",
        "open",
        "open_count",
        "tiers",
        "conflicts",
        "held",
        "edits",
        "newest",
        "ledgers",
        "warnings",
    }
    assert reply["vault"] == os.path.realpath(project.vault)
    assert (reply["runs"], reply["open"], reply["open_count"], reply["tiers"], reply["newest"]) == (
        0,
        [],
        0,
        {"1": 0, "2": 0, "3": 0},
        None,
    )
    assert reply["engine"] == project.engine.VERSION


def test_counts(cli, project):
    """Runs, open runs, subjects by tier and what waits for the owner are counted."""
    run = project.start()
    project.owned(run, "a.one", "x", "--tier", "1")
    project.fact(run, "a.two")
    project.fact(run, "a.three", "x", "--tier", "3", "--evidence", "https://a.example/")
    project.fact(run, "a.gone")
    project.ok("propose", "--run", run, "--key", "a.gone", "--op", "close", "--now")
    project.close(run)
    (one, _), (two, _), _ = project.conflict("a.fight")
    held, _, _ = project.held("a.held")
    reply = cli("status")
    assert (reply["runs"], reply["open_count"], [(r["run"], r["actor"]) for r in reply["open"]]) == (
        4,
        3,
        [(one, "codex"), (two, "claude"), (held, "codex")],
    )
    assert (reply["tiers"], reply["conflicts"], reply["held"], reply["edits"]) == ({"1": 1, "2": 2, "3": 1}, 1, 1, 0)
    assert reply["newest"] == project.records("revision")[-1][0]["at"]
    assert [(ledger["records"], ledger["damaged"]) for ledger in reply["ledgers"]] == [(len(project.records()), False)]


def test_human_output(cli, project):
    """In words it names the vault and the open runs."""
    run = project.start()
    out = cli("status", plain=True).out
    assert os.path.realpath(project.vault) in out
    assert run in out


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("recall", "a.b"),
        ("recall", "--prefix", "a"),
        ("review",),
        ("log",),
        ("history", "a.b"),
        ("maintain",),
        ("config",),
        ("doctor",),
    ],
)
def test_reading_changes_nothing(call, project, command):
    """A reading command leaves every byte of the vault as it is, but for the search index that `maintain` asks."""
    project.fact(project.start(), "a.b")
    call("status")
    before = project.tree()
    assert call(*command).status == 0
    assert {path: data for path, data in project.tree().items() if "index.sqlite" not in str(path)} == before


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("recall", "a.b"),
        ("review", "--all"),
        ("log",),
        ("history", "a.b"),
        ("maintain", "--check"),
        ("config",),
        ("show", "{revision}"),
        ("show", "{revision}", "--view"),
        ("recall", "a.b", "--at", "{revision}"),
        ("doctor", "--strict"),
    ],
)
@pytest.mark.parametrize("cache", ["cached", "uncached"])
def test_read_only_vault(bound_by_modes, read_only, project, command, cache):
    """Every reading command answers on a vault where nothing can be written, with and without a cache."""
    run = project.start()
    revision = project.ok("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "x", "--now")["revision"]
    project.ok("status")
    if cache == "uncached":
        (project.vault / ".muniment" / "local" / "state.sqlite").unlink()
    before = project.tree()
    read_only()
    reply = project.cli(*(word.format(revision=revision) for word in command), prefix=bound_by_modes)
    assert reply.status == 0, reply
    assert project.tree() == before


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_reads_while_another_command_writes(cli, project, words):
    """Reading takes no lock: it answers while another command holds it."""
    project.fact(project.start(), "a.b")
    with project.engine.hold(project.engine.open_vault(str(project.vault)), 0, {"pid": 1, "command": "x", "since": "y"}):
        assert cli("recall", "a.b", "--lock-wait", "0", *words, plain=True).status == 0
