"""`show`: what a revision decided, and MEMORY.md as it was then."""

from __future__ import annotations

import pytest


def test_revision(cli, project):
    """A revision shows its run and each decision with key and text."""
    run = project.start()
    project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    project.stage(run, "a.rule", "y", "--tier", "1", "--new-subject")
    revision = project.call("sync", "--run", run)["revision"]
    reply = cli("show", revision)
    assert reply.status == 0
    assert set(reply.data) == {"revision", "at", "run", "decisions", "warnings"}
    assert (reply["revision"], reply["run"], reply["at"]) == (revision, run, project.records("revision")[-1][0]["at"])
    assert [(d["key"], d["text"], d["outcome"], d["reason"]) for d in reply["decisions"]] == [
        ("a.b", "x", "accepted", "alone"),
        ("a.rule", "y", "held", "needs-owner"),
    ]
    out = cli("show", revision, plain=True).out
    assert "accepted/alone" in out
    assert "a.rule" in out


def test_resolution(cli, project):
    """An owner's answer can be shown by its id."""
    (_, first), _, handle = project.conflict("a.b")
    answer = project.ok("resolve", handle, "--choose", first, "--note", "Because.", "--human-approved")["resolution"]
    reply = cli("show", answer)
    assert (reply.status, reply["answer"]["key"], reply["answer"]["chosen"], reply["answer"]["note"]) == (0, "a.b", first, "Because.")
    assert "Because." in cli("show", answer, plain=True).out


def test_view(cli, project):
    """With --view the answer is MEMORY.md, byte for byte, as it was after each revision."""
    run, memory = project.start(), project.vault / "MEMORY.md"
    then = {}
    for key, text in (("a.b", "One."), ("a.b", "Two."), ("c.d", "Three.")):
        words = () if text == "Two." else ("--tier", "2", "--new-subject")
        revision = project.ok("propose", "--run", run, "--key", key, "--text", text, *words, "--now")["revision"]
        then[revision] = memory.read_text(encoding="utf-8")
    project.close(run)
    for revision, text in then.items():
        assert cli("show", revision, "--view")["view"] == text
    assert cli("show", revision, "--view", plain=True).out == text


def test_view_of_a_resolution(project):
    """MEMORY.md can be shown as it was after an owner's answer, and before it."""
    _, (run, second), handle = project.conflict("a.b", "one", "two")
    memory = project.vault / "MEMORY.md"
    before, sync = memory.read_text(encoding="utf-8"), "V%d-%s" % (project.records("revision")[-1][0]["seq"], run.split("-")[1])
    answer = project.ok("resolve", handle, "--choose", second, "--human-approved")["resolution"]
    after = memory.read_text(encoding="utf-8")
    project.fact(project.start(), "c.d")
    assert project.ok("show", answer, "--view")["view"] == after
    assert project.ok("show", sync, "--view")["view"] == before


def test_view_has_the_settings_of_then(project):
    """What the view shows follows from the records of then, settings among them."""
    run = project.start()
    for n in range(50):
        project.fact(run, f"a.n{n}")
    revision = project.ok("sync", "--run", run)["revision"]
    wide = (project.vault / "MEMORY.md").read_text(encoding="utf-8")
    project.ok("config", "hot-lines", "40", "--human-approved")
    assert project.ok("show", revision, "--view")["view"] == wide


def test_proposal_and_entry(cli, project):
    """A proposal shows its claim with what became of it, an entry what was said."""
    run = project.start()
    entry = project.journal(run, "It was seen.", "--ref", "D1", "--importance", "4")
    proposal = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject", "--why", "w", "--evidence", "D1")
    reply = cli("show", proposal)
    assert (reply.status, set(reply.data)) == (0, {"proposal", "warnings"})
    assert {n: reply["proposal"][n] for n in ("id", "key", "text", "outcome", "why", "evidence")} == {
        "id": proposal,
        "key": "a.b",
        "text": "x",
        "outcome": "staged",
        "why": "w",
        "evidence": [entry],
    }
    reply = cli("show", entry)
    assert (reply.status, set(reply.data)) == (0, {"entry", "warnings"})
    assert {n: reply["entry"][n] for n in ("id", "run", "ref", "importance", "text")} == {
        "id": entry,
        "run": run,
        "ref": "D1",
        "importance": 4,
        "text": "It was seen.",
    }
    assert "It was seen." in cli("show", entry, plain=True).out
    assert proposal in cli("show", proposal, plain=True).out


@pytest.mark.parametrize(
    ("revision", "code"),
    [
        ("V999-k7qdm2xw", (5, "not-found")),
        ("P999-k7qdm2xw", (5, "not-found")),
        ("E999-k7qdm2xw", (5, "not-found")),
        ("R1-k7qdm2xw", (3, "bad-id")),
        ("now", (3, "bad-id")),
        ("", (3, "bad-id")),
    ],
)
def test_refused(cli, revision, code):
    """What is no revision's id is refused, one that is not there is not found."""
    assert cli("show", revision).code == code
