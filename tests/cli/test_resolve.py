"""`resolve`: records the owner's answer to one question."""

from __future__ import annotations

import pytest

APPROVED = "--human-approved"


def card(project, key="a.b"):
    """Return the text of a key's card."""
    return (project.vault / "conflicts" / (key + ".md")).read_text(encoding="utf-8")


@pytest.mark.parametrize("which", [0, 1, "current"])
def test_choose_a_value(cli, project, which):
    """A value chosen by id, or the current one, is confirmed with its source kept, and replaces the card's frontier."""
    (_, first), (_, second), handle = project.conflict("a.b", "one", "two")
    chosen = which if which == "current" else (first, second)[which]
    reply = cli("resolve", handle, "--choose", chosen, APPROVED)
    assert reply.status == 0
    text = "two" if which == 1 else "one"
    assert reply.data == {
        "resolution": reply["resolution"],
        "key": "a.b",
        "answer": "choose",
        "present": True,
        "text": text,
        "warnings": [],
    }
    found = project.ok("recall", "a.b")
    assert (found["status"], found["contenders"], found["outranked"]) == ("current", [], [])
    current = found["current"]
    assert (current["id"], current["text"], current["trust"], current["source"]) == (reply["resolution"], text, "confirmed", "agent")
    ((_, body),) = project.records("resolution")
    assert (body["parents"], body["chosen"]) == (sorted([first, second]), second if which == 1 else first)
    assert project.ok("review")["counts"]["conflicts"] == 0


def test_choose_close(cli, project):
    """A conflict may be answered by closing the subject."""
    _, _, handle = project.conflict("a.b")
    reply = cli("resolve", handle, "--choose", "close", APPROVED)
    assert (reply.status, reply["present"], reply["text"]) == (0, False, None)
    assert project.ok("recall", "a.b")["status"] == "closed"


def test_own_words(cli, project):
    """The owner's own words stand over the current value's fields, source user."""
    one, two = project.start("codex"), project.start("claude")
    project.stage(one, "a.b", "one", "--tier", "2", "--new-subject", "--tag", "t", "--importance", "5")
    project.stage(two, "a.b", "two", "--tier", "2", "--new-subject")
    project.call("sync", "--run", one)
    project.call("sync", "--run", two)
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    assert cli("resolve", handle, "--text", "Neither.", APPROVED).status == 0
    current = project.current("a.b")
    assert {n: current[n] for n in ("text", "source", "trust", "tags", "importance")} == {
        "text": "Neither.",
        "source": "user",
        "trust": "confirmed",
        "tags": ["t"],
        "importance": 5,
    }


def test_own_words_from_standard_input(cli, project):
    """With --text - the owner's words are standard input."""
    _, _, handle = project.conflict("a.b")
    assert cli("resolve", handle, "--text", "-", APPROVED, stdin="Weder — noch.\n".encode()).status == 0
    assert project.current("a.b")["text"] == "Weder — noch."


def test_human_output(cli, project):
    """In words the answer names the key and what holds now."""
    (_, _), (_, second), handle = project.conflict("a.b", "one", "two")
    out = cli("resolve", handle, "--choose", second, APPROVED, plain=True).out
    assert "a.b" in out
    assert "two" in out


def test_accept(cli, project):
    """A held proposal that the owner accepts is confirmed, its source kept."""
    _, proposal, handle = project.held("a.b", "x", "--kind", "decision")
    reply = cli("resolve", handle, "--choose", "accept", APPROVED)
    assert (reply.status, reply["answer"], reply["text"]) == (0, "accept", "x")
    current = project.current("a.b")
    assert (current["tier"], current["kind"], current["trust"], current["source"]) == (1, "decision", "confirmed", "agent")
    assert project.ok("review")["counts"]["held"] == 0
    ((_, body),) = project.records("resolution")
    assert body["proposal"] == proposal


def test_accept_a_change(call, project):
    """An accepted change replaces what stands now; that is then history."""
    run = project.start()
    project.owned(run, "a.b", "old", "--tier", "1")
    call("propose", "--run", run, "--key", "a.b", "--text", "new", "--now")
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    project.ok("resolve", handle, "--choose", "accept", APPROVED)
    assert project.current("a.b")["text"] == "new"
    assert [c["text"] for c in project.ok("history", "a.b")["generations"]] == ["old"]


def test_accept_a_held_close(call, project):
    """An accepted close closes."""
    run = project.start()
    project.owned(run, "a.b", "old", "--tier", "1")
    call("propose", "--run", run, "--key", "a.b", "--op", "close", "--now")
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    assert project.ok("resolve", handle, "--choose", "accept", APPROVED)["present"] is False
    assert project.ok("recall", "a.b")["status"] == "closed"


def test_accept_an_unknown_key(call, project):
    """A proposal held for its unknown key is accepted by the owner."""
    run = project.start()
    call("propose", "--run", run, "--key", "a.b", "--tier", "2", "--text", "x", "--now")
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    project.ok("resolve", handle, "--choose", "accept", APPROVED)
    assert project.current("a.b")["trust"] == "confirmed"


def test_accept_a_staged_one(project):
    """A staged proposal may be accepted before its run syncs; the sync then decides nothing of it."""
    run = project.start()
    project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    project.ok("resolve", handle, "--choose", "accept", APPROVED)
    reply = project.ok("sync", "--run", run)
    assert [reply[k] for k in ("applied", "unchanged", "held", "beside")] == [[], [], [], []]
    assert project.current("a.b")["trust"] == "confirmed"


def test_decline(cli, project):
    """A declined proposal is set aside for good: nothing stands, and it is asked no more."""
    _, _, handle = project.held("a.b")
    reply = cli("resolve", handle, "--choose", "decline", APPROVED)
    assert (reply.status, reply["answer"], reply["present"]) == (0, "decline", False)
    assert project.ok("review", "--all")["questions"] == []
    assert project.call("recall", "a.b").status == 5


def test_note_and_measurement_stay_on_the_card(cli, project):
    """--note keeps the answer word for word and --measured what settled it, on the card."""
    (_, first), _, handle = project.conflict("a.b")
    reply = cli("resolve", handle, "--choose", first, "--note", "The queue.\n# Because", "--measured", "0,2026-11-30,pytest -q", APPROVED)
    assert reply.status == 0
    ((_, body),) = project.records("resolution")
    assert (body["note"], body["evidence"]) == ("The queue.\n# Because", [{"exit": 0, "date": "2026-11-30", "command": "pytest -q"}])
    text = card(project)
    assert "\n> The queue.\n> # Because\n" in text
    assert "pytest -q" in text
    assert "\n# Because" not in text


def test_card_is_kept(project):
    """The card tells the open question; answered, it keeps the answer for ever."""
    (_, first), _, handle = project.conflict("a.b")
    assert handle in card(project)
    answer = project.ok("resolve", handle, "--choose", first, APPROVED)["resolution"]
    run = project.start()
    project.call("propose", "--run", run, "--key", "a.b", "--op", "close", "--now")
    assert answer in card(project)


@pytest.mark.parametrize("choice", ["close", "accept"])
def test_second_answer(cli, project, choice):
    """A handle is answered once: a second answer is refused as moved, and changes nothing."""
    handle = project.conflict("a.b")[2] if choice == "close" else project.held("a.b")[2]
    project.ok("resolve", handle, "--choose", choice, APPROVED)
    before = project.ledger()
    assert cli("resolve", handle, "--choose", choice, APPROVED).code == (3, "moved")
    assert project.ledger() == before


def test_moved(call, project):
    """An answer to a question whose subject has moved is refused."""
    _, _, handle = project.conflict("a.b")
    run = project.start("gemini")
    call("propose", "--run", run, "--key", "a.b", "--text", "three", "--now")
    assert call("resolve", handle, "--choose", "current", APPROVED).code == (3, "moved")


def test_held_question_moves(call, project):
    """A held proposal's question moves with its key: what it would replace is then another."""
    run = project.start()
    project.owned(run, "a.b", "old", "--tier", "1")
    call("propose", "--run", run, "--key", "a.b", "--text", "new", "--now")
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "newer", "--source", "user", "--trust", "confirmed", "--now")
    assert call("resolve", handle, "--choose", "accept", APPROVED).code == (3, "moved")
    again = project.ok("review", "a.b")["questions"][0]["handle"]
    assert again != handle
    project.ok("resolve", again, "--choose", "decline", APPROVED)
    assert project.current("a.b")["text"] == "newer"


def test_resolved_stays_resolved(project):
    """Once answered, an agent that saw the answer cannot reopen the question by a value: tier 2 is replaced, not contested."""
    _, (_, second), handle = project.conflict("a.b", "one", "two")
    project.ok("resolve", handle, "--choose", second, APPROVED)
    run = project.start("gemini")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "three", "--now")
    assert project.ok("recall", "a.b")["status"] == "current"


def test_conflict_of_two_owners_words(call, project):
    """Two of the owner's statements that had not seen each other are both kept until the owner answers."""
    one, two = project.start("codex"), project.start("claude")
    for run, text in ((one, "first"), (two, "second")):
        project.stage(run, "a.b", text, "--tier", "1", "--new-subject", "--source", "user", "--trust", "confirmed")
    assert call("sync", "--run", one).status == 0
    assert call("sync", "--run", two).status == 4
    (question,) = project.ok("review")["questions"]
    assert [v["text"] for v in question["values"]] == ["first", "second"]
    project.ok("resolve", question["handle"], "--text", "third", APPROVED)
    assert project.current("a.b")["text"] == "third"


def test_close_against_a_change(call, project):
    """A close and an unseen change stand beside each other, the change first; the owner may choose the close by its id."""
    base = project.start("base")
    project.fact(base, "a.b", "zero")
    one, two = project.start("codex"), project.start("claude")
    closing = project.ok("propose", "--run", one, "--key", "a.b", "--op", "close")["proposal"]
    project.stage(two, "a.b", "two")
    call("sync", "--run", one)
    call("sync", "--run", two)
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["text"], [c["op"] for c in found["contenders"]]) == ("contested", "two", ["close"])
    project.ok("resolve", found["handle"], "--choose", closing, APPROVED)
    assert project.ok("recall", "a.b")["status"] == "closed"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--choose", "current"), (3, "needs-approval")),
        ((APPROVED,), (2, "usage")),
        (("--choose", "current", "--text", "x", APPROVED), (2, "usage")),
        (("--choose", "P999-k7qdm2xw", APPROVED), (3, "bad-choice")),
        (("--choose", "accept", APPROVED), (3, "bad-choice")),
        (("--choose", "", APPROVED), (3, "bad-choice")),
        (("--text", "", APPROVED), (3, "bad-text")),
        (("--text", "a\nb", APPROVED), (3, "bad-text")),
        (("--choose", "current", "--note", " ", APPROVED), (3, "bad-text")),
        (("--choose", "current", "--note", "x" * 2_001, APPROVED), (3, "bad-text")),
        (("--choose", "current", "--measured", "0,yesterday,x", APPROVED), (3, "bad-date")),
    ],
)
def test_refused_for_a_conflict(call, project, words, code):
    """What is no answer to a conflict is refused, and the question stays open."""
    _, _, handle = project.conflict("a.b")
    before = project.ledger()
    assert call("resolve", handle, *words).code == code
    assert project.ledger() == before
    assert project.ok("review")["counts"]["conflicts"] == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--choose", "current", APPROVED), (3, "bad-choice")),
        (("--choose", "close", APPROVED), (3, "bad-choice")),
        (("--text", "x", APPROVED), (3, "bad-choice")),
        (("--choose", "accept"), (3, "needs-approval")),
    ],
)
def test_refused_for_a_held_proposal(call, project, words, code):
    """What is no answer to a held proposal is refused."""
    _, _, handle = project.held("a.b")
    before = project.ledger()
    assert call("resolve", handle, *words).code == code
    assert project.ledger() == before


@pytest.mark.parametrize(
    ("handle", "code"), [("C-xyz", (3, "bad-id")), ("a.b", (3, "bad-id")), ("C-000000", (3, "moved")), ("H-000000", (3, "moved"))]
)
def test_no_such_question(call, project, handle, code):
    """What is no handle is refused by its form, one that asks nothing as moved."""
    project.conflict("a.b")
    assert call("resolve", handle, "--choose", "current", APPROVED).code == code
