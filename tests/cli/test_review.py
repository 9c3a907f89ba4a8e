"""`review`: what waits for the owner, as closed questions."""

from __future__ import annotations

import hashlib
import json

import pytest

NOTHING = {"conflicts": 0, "held": 0, "edits": 0}


def test_nothing(cli):
    """With nothing waiting the list is empty, the counts are 0, and words say so."""
    reply = cli("review")
    assert reply.status == 0
    assert reply.data == {"questions": [], "counts": NOTHING, "warnings": []}
    assert cli("review", plain=True).out.strip()


def test_conflict(cli, project):
    """A conflict's question shows each value with its provenance, and every answer that may be given."""
    (_, first), (_, second), handle = project.conflict("a.b", "one", "two")
    reply = cli("review")
    assert reply.status == 0
    assert reply["counts"] == {**NOTHING, "conflicts": 1}
    (question,) = reply["questions"]
    assert (question["handle"], question["key"], question["about"]) == (handle, "a.b", "conflict")
    assert [(v["id"], v["text"], v["actor"]) for v in question["values"]] == [(first, "one", "codex"), (second, "two", "claude")]
    assert question["answers"] == [first, second, "close", "--text"]
    text = cli("review", plain=True).out
    assert all(word in text for word in (handle, first, second, "one", "two"))


def test_handle_is_made_from_key_and_frontier(call, project):
    """A conflict's handle is the beginning of the hash of its key and frontier, as PROTOCOL section 7 says."""
    (_, first), (_, second), handle = project.conflict("a.b")
    text = json.dumps({"frontier": sorted([first, second]), "key": "a.b"}, separators=(",", ":"), sort_keys=True)
    whole = "C-" + hashlib.sha256(text.encode()).hexdigest()
    assert handle == whole[:8]
    for digits in (6, 12, 64):
        assert project.ok("review", whole[: 2 + digits])["questions"][0]["key"] == "a.b"
    assert call("review", whole[: 2 + 12] + "000000").code == (3, "moved")


def test_held(cli, project):
    """A held proposal's question asks to accept or decline it, beside what stands now."""
    run = project.start()
    project.owned(run, "a.b", "now", "--tier", "1")
    proposal = project.call("propose", "--run", run, "--key", "a.b", "--text", "then", "--why", "w", "--now")["proposal"]
    (question,) = cli("review")["questions"]
    assert (question["about"], question["answers"]) == ("held", ["accept", "decline"])
    assert (question["proposal"]["id"], question["proposal"]["text"], question["proposal"]["why"]) == (proposal, "then", "w")
    assert [v["text"] for v in question["values"]] == ["now"]
    assert question["handle"].startswith("H-")
    assert all(word in cli("review", plain=True).out for word in (question["handle"], "now", "then"))


def test_three_at_a_time(cli, project):
    """At most three questions are asked at once, conflicts first; --all asks all, the counts tell how many there are."""
    for n in range(2):
        project.conflict(f"fight.n{n}")
        project.held(f"rule.n{n}")
    assert [q["key"] for q in cli("review")["questions"]] == ["fight.n0", "fight.n1", "rule.n0"]
    reply = cli("review", "--all")
    assert [q["key"] for q in reply["questions"]] == ["fight.n0", "fight.n1", "rule.n0", "rule.n1"]
    assert reply["counts"] == {"conflicts": 2, "held": 2, "edits": 0}


def test_by_handle_and_key(cli, project):
    """One question may be asked for by handle, those of a key by the key."""
    _, _, fight = project.conflict("fight.one")
    _, _, rule = project.held("rule.one")
    for about, handle in ((fight, fight), (rule, rule), ("fight.one", fight), ("rule.one", rule)):
        assert [q["handle"] for q in cli("review", about)["questions"]] == [handle]


def test_key_without_a_question(call, project):
    """A known key with no question has an empty list; an unknown one is not found."""
    project.fact(project.start(), "checkout.next-step")
    assert project.ok("review", "checkout.next-step")["questions"] == []
    reply = call("review", "checkout.next-stop")
    assert (reply.code, "checkout.next-step" in reply.error["hint"]) == ((5, "not-found"), True)


def test_staged_of_a_key(project):
    """A staged proposal is asked about under its key, and can be answered there."""
    proposal = project.stage(project.start(), "a.b", "x", "--tier", "2", "--new-subject")
    (question,) = project.ok("review", "a.b")["questions"]
    assert (question["about"], question["proposal"]["id"]) == ("staged", proposal)
    assert project.ok("review")["questions"] == []


def test_staged_of_a_dead_run(project):
    """What a run has staged for over 24 hours is listed with --all, and not before."""
    project.now = 1_796_025_600_000
    project.stage(project.start(), "a.b", "x", "--tier", "2", "--new-subject")
    project.now += 86_300_000
    assert project.ok("review", "--all")["questions"] == []
    project.now += 200_000
    assert [q["key"] for q in project.ok("review", "--all")["questions"]] == ["a.b"]
    assert project.ok("review")["questions"] == []


@pytest.mark.parametrize(
    ("about", "code"),
    [
        ("C-zzzzzz", (3, "bad-id")),
        ("C-123", (3, "bad-id")),
        ("C-123456", (3, "moved")),
        ("H-123456", (3, "moved")),
        ("X-123456", (3, "moved")),
        ("A.b", (3, "bad-key")),
    ],
)
def test_refused(call, project, about, code):
    """What is no handle or key is refused by its form; a handle that asks nothing, as moved."""
    project.conflict("a.b")
    assert call("review", about).code == code


def test_handle_moves_with_the_key(call, project):
    """A handle names a question as it was asked: another value makes it another question."""
    _, _, handle = project.conflict("a.b")
    run = project.start("gemini")
    call("propose", "--run", run, "--key", "a.b", "--text", "three", "--now")
    assert call("review", handle).code == (3, "moved")
    assert project.ok("review", "a.b")["questions"][0]["handle"] != handle


def test_edited_view(cli, project):
    """A MEMORY.md edited by hand: its bytes are kept in recovery/, --all lists the edit, and the view is restored."""
    project.fact(project.start(), "a.b")
    memory = project.vault / "MEMORY.md"
    before = memory.read_bytes()
    edited = before.replace(b"A fact.", b"Mine. \xff")
    memory.write_bytes(edited)
    reply = cli("review", "--all")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    (edit,) = reply["edits"]
    name = hashlib.sha256(edited).hexdigest()
    assert (edit["path"], edit["sha256"], edit["size"]) == ("MEMORY.md", name, len(edited))
    assert (project.vault / ".muniment" / "recovery" / name).read_bytes() == edited
    assert memory.read_bytes() == before
    ((_, body),) = project.records("recovery")
    assert (body["what"], body["path"], body["sha256"]) == ("view", "MEMORY.md", name)
    assert cli("review")["counts"]["edits"] == 1
    assert name in cli("review", "--all", plain=True).out


@pytest.mark.parametrize("words", [("status",), ("recall", "a.b"), ("log",), ("review",), ("start", "--actor", "x"), ("doctor",)])
def test_any_command_keeps_an_edit(call, project, words):
    """Whatever command comes next looks at MEMORY.md, keeps an edit and restores the view; doctor alone only reports it."""
    project.fact(project.start(), "a.b")
    memory = project.vault / "MEMORY.md"
    before = memory.read_bytes()
    memory.write_bytes(before + b"\nMine.\n")
    reply = call(*words)
    assert reply.status == 0
    restored = words != ("doctor",)
    assert (memory.read_bytes() == before) == restored
    assert len(project.records("recovery")) == restored
    assert len(project.ok("review", "--all")["edits"]) == 1


def test_same_edit_twice(call, project):
    """The same bytes written into the same view twice are one edit."""
    project.fact(project.start(), "a.b")
    for _ in range(2):
        (project.vault / "MEMORY.md").write_bytes(b"Mine.\n")
        project.ok("status")
        assert call("doctor").data["errors"] == 0
    assert [e["sha256"] for e in project.ok("review", "--all")["edits"]] == [hashlib.sha256(b"Mine.\n").hexdigest()]
    assert len(list((project.vault / ".muniment" / "recovery").iterdir())) == 1


def test_edited_note(call, project):
    """A note edited by hand is kept and restored when it is about to be rewritten."""
    run = project.start()
    project.fact(run, "a.b")
    note = project.vault / "notes" / "a.b.md"
    note.write_bytes(b"mine")
    assert [f["kind"] for f in project.doctor()] == ["view-edited"]
    reply = call("propose", "--run", run, "--key", "a.b", "--text", "y", "--now")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    assert [e["path"] for e in project.ok("review", "--all")["edits"]] == ["notes/a.b.md"]
    assert "> y" in note.read_text(encoding="utf-8")


def test_stale_view_is_no_edit(call, project):
    """A MEMORY.md that is an older rendering is rendered again, and nothing is kept of it."""
    run = project.start()
    project.fact(run, "a.b")
    memory = project.vault / "MEMORY.md"
    old = memory.read_bytes()
    project.fact(run, "c.d")
    new = memory.read_bytes()
    memory.write_bytes(old)
    assert call("review", "--all")["edits"] == []
    assert memory.read_bytes() == new


def test_a_staged_touch_is_no_question(project):
    """What only says that a value still holds is not for the owner to accept."""
    run = project.start()
    project.ok("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "x", "--now")
    project.ok("propose", "--run", run, "--key", "a.b", "--op", "touch")
    assert project.ok("review", "a.b")["questions"] == []
