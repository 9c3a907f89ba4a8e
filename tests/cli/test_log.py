"""`log`: the latest events."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest


def test_events(cli, project):
    """Runs opened and closed, revisions, answers, settings, marks and repairs are listed, oldest first."""
    run = project.start()
    project.fact(run, "a.b")
    _, (_, second), handle = project.conflict("a.c")
    answer = project.ok("resolve", handle, "--choose", second, "--human-approved")["resolution"]
    project.ok("config", "hot-lines", "100", "--human-approved")
    project.ok("maintain", "--mark", "--run", run)
    (project.vault / "MEMORY.md").write_bytes(b"mine")
    project.close(run)
    reply = cli("log")
    assert reply.status == 0
    assert set(reply.data) == {"events", "warnings"}
    events = reply["events"]
    assert [e["kind"] for e in events] == [
        "run-open",
        "revision",
        "run-open",
        "run-open",
        "revision",
        "revision",
        "resolution",
        "setting",
        "mark",
        "recovery",
        "run-close",
    ]
    assert all({"id", "kind", "at"} <= set(e) for e in events)
    assert (events[0]["run"], events[0]["actor"]) == (run, "codex")
    assert events[1]["decisions"] == {"accepted": 1}
    assert (events[6]["id"], events[6]["key"], events[6]["answer"], events[6]["handle"][:8]) == (answer, "a.c", "choose", handle)
    assert (events[7]["name"], events[7]["value"]) == ("hot-lines", 100)
    assert (events[9]["what"], events[9]["path"]) == ("view", "MEMORY.md")
    assert (events[10]["outcome"], events[10]["summary"]) == ("success", "Done.")


def test_answers_to_edits_and_erasures(cli, project):
    """An answer to an edit and an erasure are events too; of what was erased the text is not there."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    memory = project.vault / "MEMORY.md"
    memory.write_bytes(memory.read_bytes().replace(b"One.", b"Two."))
    project.ok("review", "--all")
    project.ok("resolve", "edits", "--choose", "adopt", "--human-approved")
    project.close(run)
    events = cli("log")["events"]
    assert [(e["kind"], e.get("answer")) for e in events] == [
        ("run-open", None), ("revision", None), ("recovery", None), ("resolution", "adopt"), ("resolution", "dismiss"), ("run-close", None)]
    project.ok("erase", events[-1]["id"], "--human-approved")
    later = cli("log")["events"]
    assert [e["kind"] for e in later[-2:]] == ["run-close", "erase"]
    assert "summary" not in later[-2]
    assert cli("log", plain=True).status == 0


def test_human_output(cli, project):
    """In words there is a line for each event."""
    run = project.start()
    project.fact(run, "a.b")
    out = cli("log", plain=True).out.strip().split("\n")
    assert len(out) == 2
    assert run in out[0]


def test_nothing(cli):
    """A new vault has no events."""
    assert cli("log")["events"] == []


def test_of_a_run(cli, project):
    """With --run only that run's events are listed."""
    one, two = project.start("codex"), project.start("claude")
    project.fact(one, "a.b")
    project.fact(two, "a.c")
    assert [(e["kind"], e["run"]) for e in cli("log", "--run", two)["events"]] == [("run-open", two), ("revision", two)]


def test_since(cli, project):
    """With --since only events of that day, UTC, and later are listed."""
    project.now = 1_798_761_599_000  # 2026-12-31T23:59:59Z
    project.start("one")
    project.now += 2_000
    two = project.start("two")
    assert [e["run"] for e in cli("log", "--since", "2027-01-01")["events"]] == [two]
    assert len(cli("log", "--since", "2026-12-31")["events"]) == 2
    assert cli("log", "--since", "2027-01-02")["events"] == []


def test_most(project):
    """With --most the latest are listed, oldest first."""
    runs = [project.start() for _ in range(5)]
    assert [e["run"] for e in project.ok("log", "--most", "2")["events"]] == runs[-2:]


def test_default_most(project):
    """Without --most 50 are listed."""
    for _ in range(55):
        run = project.start()
    events = project.ok("log")["events"]
    assert (len(events), events[-1]["run"]) == (50, run)


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("--since", "2026-02-30"), {(3, "bad-date")}),
        (("--since", ""), {(3, "bad-date")}),
        (("--run", "P1-k7qdm2xw"), {(3, "bad-id")}),
        (("--run", ""), {(3, "bad-id")}),
        (("--run", "R99-k7qdm2xw"), {(5, "not-found")}),
        (("--most", "x"), {(2, "usage")}),
        (("--most", "99999999999999999999"), {(3, "bad-value")}),
        (("--most", "-1"), {(3, "bad-value")}),
    ],
)
def test_refused(call, project, words, codes):
    """A date, run or number that is none is refused."""
    project.start()
    assert call("log", *words).code in codes


def test_a_cache_whose_row_is_damaged(project):
    """What the cache says no more is said with a code, and the next step mends it."""
    run = project.start()
    project.journal(run)
    before = project.ok("log")["events"]
    with contextlib.closing(sqlite3.connect(project.vault / ".muniment" / "local" / "state.sqlite")) as cache:
        cache.execute("UPDATE event SET body='{' WHERE id=?", (run,))
        cache.commit()
    reply = project.call("log")
    assert reply.code == (9, "filesystem")
    assert "rebuild" in reply.error["hint"]
    project.ok("rebuild")
    assert project.ok("log")["events"] == before
