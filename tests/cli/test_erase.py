"""`erase`: the text of records goes for ever, wherever the vault holds it, and does not come back; ids and parents stay.

What is promised is judged by the bytes: after an erasure the text, in any form in which the engine writes one, is in no
file below the vault, nor in what this machine remembers of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3

import pytest
from conftest import Remembering
from crash_driver import Kept

OWNER = "--human-approved"
#: What must go: with letters, marks and brackets that JSON and Markdown write in another way.
TEXT = 'Müller & Söhne <b>owe</b> "4,711 €" [[secretly]] since ^May'
#: Text of two lines, as a detail or an entry has it.
LINES = "Its first line is <i>Zürich</i> alone.\nIts second line says [[Basel]] too."


def forms(engine, text):
    """Return the bytes in which a text may stand in a file: as it is, as JSON, as Markdown, and line by line as a quotation."""
    found = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    found |= {engine.escape(line) for line in text.split("\n")} | set(text.split("\n"))
    return {form.encode() for form in found}


class Keeper(Remembering):
    """A Project whose machine remembers in a folder of the test's, and that can be searched for bytes."""

    def holding(self, *texts):
        """Return the paths of all files, of the vault and of what the machine remembers, that hold any of the texts in any form."""
        wanted = set().union(*(forms(self.engine, text) for text in texts))
        files = [p for root in (self.vault, self.states) for p in sorted(root.rglob("*")) if p.is_file()]
        return [
            p.name if self.vault not in p.parents else p.relative_to(self.vault).as_posix()
            for p in files
            if any(form in data for data in (p.read_bytes(),) for form in wanted)
        ]

    def erase(self, *words, **options):
        """Erase, and return what was answered."""
        return self.ok("erase", *words, OWNER, **options)

    def skeletons(self):
        """Return the ids of the records whose text is gone."""
        letters = self.engine.LETTERS
        return {
            "%s%d-%s" % (letters[line["head"]["kind"]], line["head"]["seq"], name[:8])
            for name, data in self.ledger().items()
            for line in map(json.loads, data.splitlines())
            if line["body"].get("erased")
        }


@pytest.fixture
def keeper(tmp_path, engine, monkeypatch):
    """Return a Project whose machine remembers in a folder of the test's."""
    states = tmp_path / "states"
    monkeypatch.setenv("MUNIMENT_STATE", str(states))
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    project = Keeper(folder, engine, states)
    project.ok("init", project.vault)
    yield project
    if project.healthy:
        assert project.doctor() == []


def tell(keeper, place):
    """Say the text in one place of the vault; return the ids of the records that hold it."""
    return PLACES[place](keeper, keeper.start())


def tell_generations(keeper, run):
    """An earlier generation, and a later one that says it within more words."""
    first = keeper.fact(run, "a.b", TEXT)
    second = keeper.stage(run, "a.b", "Still: %s!" % TEXT, "--now")
    keeper.stage(run, "a.b", "It is over.", "--now")
    return [first, second]


def tell_detail(keeper, run):
    """A detail, and updates that inherit it."""
    words = ("--detail-file", "-")
    made = [keeper.fact(run, "a.b", "One.", *words, stdin=("# Head\n\n%s\n" % LINES).encode())]
    return [*made, keeper.stage(run, "a.b", "Two.", "--now"), keeper.stage(run, "a.b", "Three.", "--now")]


def tell_retry(keeper, run):
    """Two runs that say the same, and one that stays staged."""
    first = keeper.fact(run, "a.b", TEXT)
    other = keeper.start("claude")
    second = keeper.ok("propose", "--run", other, "--key", "a.b", "--text", TEXT, "--now")["proposal"]
    return [first, second, keeper.stage(other, "a.c", TEXT, "--new-subject", "--tier", "2")]


def tell_held(keeper, _):
    """A held proposal and the owner's answer that took its value, with a note."""
    _, proposal, handle = keeper.held("a.b", TEXT)
    said = keeper.ok("resolve", handle, "--choose", "accept", "--note", "Yes: " + TEXT, OWNER)["resolution"]
    return [proposal, said]


def tell_conflict(keeper, _):
    """A value that stands beside another, and the owner's own words."""
    (_, first), _, handle = keeper.conflict("a.b", TEXT, "Another.")
    return [first, keeper.ok("resolve", handle, "--text", "Both: " + TEXT, OWNER)["resolution"]]


def tell_journal(keeper, run):
    """Entries, one of several lines, and the summary of a run."""
    first = keeper.journal(run, "Before.\n\n%s\nAfter." % TEXT)
    keeper.journal(run, "Beside it.")
    second = keeper.journal(run, "Said again: " + TEXT)
    other = keeper.start("claude")
    keeper.ok("close", "--run", other, "--outcome", "success", "--summary", "Done.\n" + TEXT)
    ends = [head["seq"] for head, _ in keeper.records("run-close")]
    return [first, second, "Q%d-%s" % (ends[-1], run[-8:])]


def tell_evidence(keeper, run):
    """The command of a measurement, a URL, and why."""
    first = keeper.fact(run, "a.b", "One.", "--measured", "0,2026-11-30,pytest -k '%s'" % TEXT)
    second = keeper.fact(run, "a.c", "One.", "--why", TEXT)
    fourth = keeper.fact(run, "a.e", "One.", "--evidence", "https://example.com/%s" % URL)
    third = keeper.fact(run, "a.d", "One.", "--tier", "3", "--measured", "0,2026-11-30,true", "--falsifier", TEXT)
    return [first, second, third, fourth]


def tell_session(keeper, _):
    """The session of a run and the reference of an entry."""
    session = keeper.start("claude", "--session", TEXT)
    return [session, keeper.journal(session, "It was seen.", "--ref", URL)]


URL = "customer-4711-owes-everything"
PLACES = {
    "generations": tell_generations,
    "detail": tell_detail,
    "retry": tell_retry,
    "held": tell_held,
    "conflict": tell_conflict,
    "journal": tell_journal,
    "evidence": tell_evidence,
    "session": tell_session,
}


@pytest.mark.parametrize("place", PLACES)
def test_text_is_gone(keeper, place):
    """The text goes from every record, view and database; the ids stay, doctor is content, and a rebuild brings nothing back."""
    ids = tell(keeper, place)
    keeper.ok("search", "Zürich Söhne owe")
    said = [LINES] if place == "detail" else [TEXT, URL] if place in ("evidence", "session") else [TEXT]
    assert keeper.holding(*said)
    targets = set()
    for text in said:
        targets |= set(keeper.erase("--text", "-", stdin=text.encode())["targets"])
    assert targets == set(ids)
    assert keeper.holding(*said) == []
    assert keeper.skeletons() == set(ids)
    assert keeper.doctor() == []
    views = keeper.views()
    keeper.ok("rebuild")
    assert keeper.views() == views
    assert keeper.holding(*said) == []
    for words in (("log",), ("recall", "--prefix", "a"), ("review", "--all"), ("search", "Zürich Söhne owe"), ("status",)):
        reply = keeper.call(*words)
        assert reply.status in (0, 5), reply
        assert not any(form.decode() in reply.out + reply.err for text in said for form in forms(keeper.engine, text))


def test_by_id(keeper):
    """A record named by its id goes, with those that say the same; others stay."""
    run = keeper.start()
    made = keeper.fact(run, "a.b", TEXT)
    other = keeper.fact(run, "a.c", "Another thing is said.")
    entry = keeper.journal(run, TEXT)
    assert keeper.erase(made)["targets"] == sorted([made, entry])
    assert keeper.holding(TEXT) == []
    assert keeper.current("a.c")["id"] == other
    assert keeper.holding("Another thing is said.")


def test_no_more_than_is_named(keeper):
    """What a record has in common with others besides its words, a command, a URL, a session, takes none of these away."""
    run = keeper.start("codex", "--session", "chat-of-monday")
    common = ("--measured", "0,2026-11-30,pytest -q", "--evidence", "https://example.com/runs", "--why", "It was measured.")
    made = keeper.fact(run, "a.b", TEXT, *common)
    other = keeper.fact(run, "a.c", "It was measured twice.", *common)
    third = keeper.journal(run, "We ran pytest -q and saw https://example.com/runs in chat-of-monday.")
    assert keeper.erase(made)["targets"] == [made]
    assert keeper.current("a.c")["id"] == other
    assert third not in keeper.skeletons()


def test_short_words_are_taken_by_id(keeper):
    """A text too short to be looked for goes with the record that is named."""
    run = keeper.start()
    made = keeper.fact(run, "a.b", "Xq7.")
    assert keeper.erase(made)["targets"] == [made]
    assert keeper.call("recall", "a.b").status in (0, 5)
    assert b"Xq7." not in b"".join(keeper.tree().values())


def test_tags(keeper):
    """A tag is text too: a value that bears it goes, or the answer says what still holds it."""
    run = keeper.start()
    keeper.fact(run, "a.b", "One.", "--tag", "customer-mueller")
    reply = keeper.call("erase", "--text", "customer-mueller", OWNER)
    assert reply.status == 0, reply
    assert keeper.holding("customer-mueller") == []


# -- what it asks for --


def test_needs_the_owner(keeper):
    """Without the owner's word nothing changes, and what would go is named."""
    ids = tell(keeper, "generations")
    before = keeper.ledger(), keeper.views()
    reply = keeper.call("erase", "--text", TEXT)
    assert reply.code == (3, "needs-approval")
    assert all(one in reply.error["message"] for one in ids)
    assert (keeper.ledger(), keeper.views()) == before
    assert TEXT not in reply.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), (2, "usage")),
        (("--text", "few"), (3, "bad-value")),
        (("--text", ""), (3, "bad-value")),
        (("--text", " " * 20), (3, "bad-value")),
        (("E99-k7qdm2xw",), (5, "not-found")),
        (("--text", "Nobody ever said that."), (5, "not-found")),
        (("V4-k7qdm2xw",), (3, "bad-id")),
        (("A0-k7qdm2xw",), (3, "bad-id")),
        (("W4-k7qdm2xw",), (3, "bad-id")),
        (("T4-k7qdm2xw",), (3, "bad-id")),
        (("a.b",), (3, "bad-id")),
    ],
)
def test_refused(keeper, words, code):
    """What is no record with text, or not here, or too little to be looked for, is refused, and nothing changes."""
    tell(keeper, "generations")
    before = keeper.ledger()
    assert keeper.call("erase", *words, OWNER).code == code
    assert keeper.ledger() == before


def test_note_that_says_it_again(keeper):
    """A note that holds the text that goes is refused: it would stay for ever."""
    tell(keeper, "generations")
    before = keeper.ledger()
    assert keeper.call("erase", "--text", TEXT, "--note", "He asked: " + TEXT, OWNER).status == 3
    assert keeper.ledger() == before
    keeper.erase("--text", TEXT, "--note", "He asked for it.")
    assert keeper.holding(TEXT) == []
    assert any(body.get("note") == "He asked for it." for _, body in keeper.records("erase"))


def test_twice(keeper):
    """Erasing again what is erased does nothing, by its id as by its text, and records nothing."""
    ids = tell(keeper, "generations")
    keeper.erase(ids[0])
    before = keeper.ledger()
    again = keeper.call("erase", ids[0], OWNER)
    assert (again.status, again["targets"]) == (0, [])
    assert keeper.call("erase", "--text", TEXT, OWNER).code == (5, "not-found")
    assert keeper.ledger() == before


def test_over_damage(keeper):
    """Over a damaged ledger nothing is erased (exit 7)."""
    keeper.healthy = False
    tell(keeper, "generations")
    (path,) = (keeper.vault / ".muniment" / "ledger").iterdir()
    path.write_bytes(path.read_bytes() + b"garbage\n")
    before = keeper.ledger()
    assert keeper.call("erase", "--text", TEXT, OWNER).code == (7, "damaged")
    assert keeper.ledger() == before


def test_human_output(keeper):
    """In words it is said how many records went, and nothing of the text."""
    tell(keeper, "generations")
    out = keeper.call("erase", "--text", TEXT, OWNER, plain=True).out
    assert "2" in out
    assert TEXT not in out


# -- what it means --


def test_current_generation(keeper):
    """Erasing the current generation closes the subject; its history shows what was erased, and a new value may come."""
    run = keeper.start()
    keeper.fact(run, "a.b", "One.")
    made = keeper.stage(run, "a.b", TEXT, "--now")
    keeper.erase(made)
    assert keeper.ok("recall", "a.b")["status"] == "closed"
    assert not (keeper.vault / "notes" / "a.b.md").exists()
    page = (keeper.vault / "history" / "a.b.md").read_text(encoding="utf-8")
    assert made in page
    assert "(erased)" in page
    keeper.ok("sync", "--run", run)
    keeper.fact(run, "a.b", "Three.")
    assert keeper.current("a.b")["text"] == "Three."


def test_earlier_generation(keeper):
    """Erasing an earlier generation leaves the current one as it is."""
    run = keeper.start()
    first = keeper.fact(run, "a.b", TEXT)
    second = keeper.stage(run, "a.b", "Two.", "--now")
    keeper.erase(first)
    assert keeper.current("a.b")["id"] == second
    found = keeper.ok("history", "a.b")
    assert first in json.dumps(found)


@pytest.mark.parametrize("depth", [1, 2])
def test_contended(keeper, depth):
    """Where another value stands beside the erased one, that becomes current, however often the erased one was changed before."""
    one, two = keeper.start("codex"), keeper.start("claude")
    made = keeper.stage(one, "a.b", TEXT if depth == 1 else "First.", "--new-subject", "--tier", "2")
    if depth == 2:
        made = keeper.stage(one, "a.b", TEXT)
    other = keeper.stage(two, "a.b", "Another.", "--new-subject", "--tier", "2")
    keeper.ok("sync", "--run", one)
    assert keeper.call("sync", "--run", two).status == 4
    assert keeper.current("a.b")["id"] == made
    keeper.erase(made)
    assert keeper.current("a.b")["id"] == other


def test_owners_word(keeper):
    """The owner's erased statement is no statement any more: what an agent said beside it is not outranked by nothing."""
    run = keeper.start()
    made = keeper.owned(run, "a.b", TEXT)
    keeper.erase(made)
    assert keeper.ok("recall", "a.b")["status"] == "closed"
    keeper.ok("sync", "--run", run)
    keeper.fact(run, "a.b", "Two.")
    assert keeper.current("a.b")["text"] == "Two."


def test_entry(keeper):
    """The page of a run stays, with the entry's id; what cites it still does."""
    run = keeper.start()
    entry = keeper.journal(run, TEXT)
    keeper.journal(run, "Beside it.")
    made = keeper.fact(run, "a.b", "One.", "--evidence", entry)
    keeper.erase(entry)
    page = (keeper.vault / "journal" / (run + ".md")).read_text(encoding="utf-8")
    assert entry in page
    assert "(erased)" in page
    assert "Beside it." in page
    assert keeper.current("a.b")["id"] == made
    assert entry in json.dumps(keeper.ok("recall", "a.b"))
    assert keeper.call("show", entry).status == 0


def test_staged(keeper):
    """A staged proposal that is erased closes nothing when its run syncs, and can be withdrawn or proposed anew."""
    run = keeper.start()
    keeper.fact(run, "a.b", "One.")
    made = keeper.stage(run, "a.b", TEXT)
    keeper.erase(made)
    assert keeper.call("sync", "--run", run).status in (0, 4)
    assert keeper.ok("recall", "a.b")["current"]["text"] == "One."
    keeper.stage(run, "a.b", "Two.", "--now")
    assert keeper.current("a.b")["text"] == "Two."
    assert keeper.close(run).status == 0


def test_held_question(keeper):
    """A held change that is erased cannot be accepted: there is nothing left to accept, and the subject stays as it is."""
    run = keeper.start()
    keeper.owned(run, "a.b", "One.", "--tier", "1")
    reply = keeper.call("propose", "--run", run, "--key", "a.b", "--text", TEXT, "--now")
    assert reply.status == 4
    keeper.erase(reply["proposal"])
    for question in keeper.ok("review", "a.b")["questions"]:
        answer = keeper.call("resolve", question["handle"], "--choose", "accept", OWNER)
        assert answer.status == 3, answer
        assert keeper.ok("resolve", question["handle"], "--choose", "decline", OWNER)["answer"] == "decline"
    assert keeper.current("a.b")["text"] == "One."
    assert keeper.close(run).status == 0


def test_decisions_that_rested_on_it(keeper):
    """Decisions of other proposals that rested on the erased text stand, and doctor does not judge them anew."""
    first, second = keeper.start("codex"), keeper.start("claude")
    made = keeper.fact(first, "a.b", TEXT)
    keeper.ok("sync", "--run", second)
    same = keeper.ok("propose", "--run", second, "--key", "a.b", "--text", TEXT, "--now")["proposal"]
    after = keeper.stage(second, "a.b", "Two.", "--now")
    touched = keeper.ok("propose", "--run", second, "--key", "a.b", "--op", "touch", "--now")["proposal"]
    keeper.erase("--text", TEXT)
    assert keeper.skeletons() == {made, same}
    assert keeper.current("a.b")["id"] == after
    assert keeper.call("show", touched).status == 0


def test_retry_after_it(keeper):
    """What was erased may be said anew: it is a new record, and the erased one stays so."""
    run = keeper.start()
    made = keeper.stage(run, "a.b", TEXT, "--new-subject", "--tier", "2")
    keeper.erase(made)
    again = keeper.stage(run, "a.b", TEXT, "--new-subject", "--tier", "2")
    assert again != made
    assert keeper.skeletons() == {made}


# -- where else it stands --


def test_edited_views(keeper):
    """Edited views that were kept, whether recorded before or met by the erasure, go with the text."""
    ids = tell(keeper, "generations")
    (keeper.vault / "MEMORY.md").write_bytes(b"mine: " + TEXT.encode())
    keeper.ok("status")
    (keeper.vault / "notes" / "a.b.md").write_bytes(b"mine too: " + keeper.engine.escape(TEXT).encode())
    (keeper.vault / "INDEX.md").write_bytes(b"something else")
    answer = keeper.erase("--text", TEXT)
    assert set(ids) <= set(answer["targets"])
    assert len(answer["files"]) == 2
    assert keeper.holding(TEXT) == []
    assert b"something else" in [p.read_bytes() for p in (keeper.vault / ".muniment" / "recovery").iterdir()]
    edits = keeper.ok("review", "--all")["edits"]
    for edit in edits:
        assert keeper.call("resolve", edit["handle"], "--choose", "dismiss", OWNER).status == 0
    assert keeper.ok("review", "--all")["edits"] == []


@pytest.mark.parametrize("change", ["crlf", "bom", "indented", "one-line"])
def test_edited_view_with_other_line_ends(keeper, change):
    """An edited view that an editor saved in its own way, with a text of several lines, goes as well."""
    tell(keeper, "detail")
    note = keeper.vault / "notes" / "a.b.md"
    data = note.read_bytes()
    assert b"alone." in data
    note.write_bytes(
        {
            "crlf": data.replace(b"\n", b"\r\n"),
            "bom": b"\xef\xbb\xbf" + data + b"mine\n",
            "indented": data.replace(b"\n> ", b"\n  > "),
            "one-line": data.replace(b"\n> ", b" "),
        }[change]
    )
    keeper.ok("rebuild")
    keeper.erase("--text", "-", stdin=LINES.encode())
    assert keeper.holding(LINES) == []


def test_edit_that_alone_holds_it(keeper):
    """Text that only an edited view says goes too."""
    run = keeper.start()
    keeper.fact(run, "a.b", "One.")
    note = keeper.vault / "notes" / "a.b.md"
    note.write_bytes(note.read_bytes().replace(b"One.", TEXT.encode()))
    keeper.ok("rebuild")
    assert keeper.holding(TEXT)
    assert len(keeper.erase("--text", TEXT)["files"]) == 1
    assert keeper.holding(TEXT) == []


def test_kept_ledger(keeper):
    """A damaged ledger that was kept, and a torn append, go with the text."""
    run = keeper.start()
    keeper.fact(run, "a.b", TEXT)
    (path,) = (keeper.vault / ".muniment" / "ledger").iterdir()
    with path.open("ab") as file:
        file.write(b'{"body":{"text":%s' % json.dumps(TEXT).encode())
    keeper.journal(run, "After it.")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    keeper.ok("restore")
    assert len(keeper.holding(TEXT)) > 2
    keeper.erase("--text", TEXT)
    assert keeper.holding(TEXT) == []


def test_databases(keeper):
    """Neither free pages, nor the log beside a database, nor the search index hold it; another process may have them open."""
    run = keeper.start()
    for n in range(40):
        keeper.journal(run, "%s number %d" % (TEXT, n))
    keeper.fact(run, "a.b", TEXT)
    keeper.ok("index")
    local = keeper.vault / ".muniment" / "local"
    reader = sqlite3.connect(local / "state.sqlite")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM claim").fetchone()
    keeper.journal(run, "While it is read.")
    try:
        keeper.erase("--text", TEXT)
        assert keeper.holding(TEXT) == []
    finally:
        reader.close()
    assert keeper.holding(TEXT) == []
    assert keeper.call("search", "number").status in (0, 5)


def test_saved_evaluation(keeper):
    """What `eval --save` kept of a question's own fields goes too: it is the engine's file."""
    run = keeper.start()
    keeper.fact(run, "a.b", TEXT)
    case = {"q": "Who owes?", "answers": ["notes/a.b.md"], "about": TEXT}
    path = keeper.folder / "questions.jsonl"
    path.write_text(json.dumps(case) + "\n", encoding="utf-8")
    assert keeper.call("eval", path, "--save").status == 0
    assert ".muniment/local/eval.jsonl" in keeper.holding(TEXT)
    keeper.erase("--text", TEXT)
    assert keeper.holding(TEXT) == []


def test_owners_own_note(keeper):
    """A note of the owner's that says it too is named (exit 4) and left as it is; so it is when all else is gone already."""
    tell(keeper, "generations")
    note = keeper.vault / "mine.md"
    note.write_bytes(b"My own: " + TEXT.encode() + b"\n")
    for n in range(2):
        reply = keeper.call("erase", "--text", TEXT, OWNER)
        assert (reply.status, reply["remains"], bool(reply["targets"])) == (4, [str(note)], not n)
        assert note.read_bytes() == b"My own: " + TEXT.encode() + b"\n"
    assert keeper.holding(TEXT) == ["mine.md"]
    note.unlink()


def test_unreadable_file_of_the_owners(keeper, bound_by_modes):
    """A file of the owner's that may not be read stops nothing."""
    tell(keeper, "generations")
    note = keeper.vault / "closed.md"
    note.write_text("closed")
    note.chmod(0)
    reply = keeper.cli("erase", "--text", TEXT, OWNER, "--vault", keeper.vault, prefix=bound_by_modes)
    note.chmod(0o600)
    assert reply.status in (0, 4), reply
    assert keeper.holding(TEXT) == []


def test_git_is_named(tmp_path, engine, git, monkeypatch):
    """In a tracked vault the repository is named: what was committed is not the engine's to change."""
    monkeypatch.setenv("MUNIMENT_STATE", str(tmp_path / "states"))
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    keeper = Keeper(folder, engine, tmp_path / "states")
    keeper.ok("init", "--tracked", keeper.vault)
    tell(keeper, "generations")
    assert os.path.realpath(keeper.erase("--text", TEXT)["git"]) == os.path.realpath(folder)
    assert keeper.holding(TEXT) == []


def test_erasure_of_an_erasure(keeper):
    """The note of an erasure can be erased too, by its id or by its words; what it erased stays erased, and nothing is damaged."""
    run = keeper.start()
    made = keeper.fact(run, "a.b", TEXT)
    keeper.fact(run, "a.c", "Another thing is said.")
    first = keeper.erase(made, "--note", "Somebody asked for it by name.")["erasures"][0]
    second = keeper.erase(first, "--note", "This one is too much as well.")["erasures"][0]
    assert keeper.holding("Somebody asked for it by name.") == []
    assert keeper.erase("--text", "This one is too much")["targets"] == [second]
    assert keeper.skeletons() == {made, first, second}
    assert keeper.current("a.c")["text"] == "Another thing is said."
    keeper.ok("rebuild")
    assert keeper.holding(TEXT, "This one is too much") == []
    assert keeper.doctor() == []


def test_kept_bytes_by_id(keeper):
    """Erasing the record of a kept edit takes its bytes away, whatever they say."""
    run = keeper.start()
    keeper.fact(run, "a.b", "One.")
    (keeper.vault / "MEMORY.md").write_bytes(b"\xff\xfe nothing that could be named")
    keeper.ok("status")
    (edit,) = keeper.ok("review", "--all")["edits"]
    (seq,) = [head["seq"] for head, _ in keeper.records("recovery")]
    assert len(keeper.erase("K%d-%s" % (seq, run[-8:]))["files"]) == 1
    assert keeper.holding("nothing that could be named") == []
    assert keeper.call("resolve", edit["handle"], "--choose", "adopt", OWNER).status in (0, 3, 4)
    assert keeper.call("review", "--all").status == 0


def test_edit_that_is_gone(keeper):
    """An edit whose bytes were erased can still be looked at and answered: there is nothing to adopt."""
    run = keeper.start()
    keeper.fact(run, "a.b", "One.")
    note = keeper.vault / "notes" / "a.b.md"
    note.write_bytes(note.read_bytes().replace(b"One.", TEXT.encode()))
    (edit,) = keeper.ok("review", "--all")["edits"]
    keeper.erase("--text", TEXT)
    for words in (
        ("review", "--all"),
        ("review", edit["handle"]),
        ("resolve", edit["handle"], "--choose", "adopt", OWNER),
        ("resolve", "edits", "--choose", "adopt", OWNER),
        ("resolve", "edits", "--choose", "dismiss", OWNER),
    ):
        assert keeper.call(*words).status in (0, 3, 4, 5), words
    assert keeper.current("a.b")["text"] == "One."
    assert keeper.holding(TEXT) == []


def test_cut_text(keeper):
    """A long text is cut in INDEX.md; an edited INDEX.md that was kept holds its beginning, and goes with it."""
    run = keeper.start()
    long = "Customer Müller of Zürich owes us a great deal of money, " * 4 + "and more."
    made = keeper.fact(run, "z.z", long)
    keeper.ok("config", "hot-lines", "40", OWNER)
    for n in range(40):
        keeper.fact(run, "b.n%d" % n, "Something else, number %d." % n)
    index = keeper.vault / "INDEX.md"
    assert long[:60].encode() in index.read_bytes()
    index.write_bytes(index.read_bytes() + b"mine")
    keeper.ok("rebuild")
    assert any(long[:60].encode() in data for name, data in keeper.tree().items() if "/recovery/" in name)
    keeper.erase(made)
    assert [name for name, data in keeper.tree().items() if long[:60].encode() in data] == []


# -- it does not come back --


@pytest.fixture
def other(keeper, engine):
    """Return a function that makes another copy of the vault, from what git would carry."""

    def copy(name="other"):
        made = Keeper(keeper.folder.parent / name, engine, keeper.states)
        (made.vault / ".muniment").mkdir(parents=True)
        shutil.copy(keeper.vault / ".muniment" / "format.json", made.vault / ".muniment")
        shutil.copytree(keeper.vault / ".muniment" / "ledger", made.vault / ".muniment" / "ledger")
        return made

    return copy


READING = (("status",), ("recall", "--prefix", "a"), ("log",), ("search", "Söhne"), ("history", "a.b"), ("review", "--all"))


@pytest.mark.parametrize("words", [*READING, ("start", "--actor", "gemini"), ("rebuild",), ("index",)])
def test_whole_bodies_over_skeletons(keeper, words):
    """A backup of the ledger put over the skeletons does not bring the text back: the next command, of any kind, takes it out."""
    ids = tell(keeper, "generations")
    (path,) = (keeper.vault / ".muniment" / "ledger").iterdir()
    whole = path.read_bytes()
    keeper.erase("--text", TEXT)
    scrubbed = path.read_bytes()
    path.write_bytes(whole + scrubbed[scrubbed.rfind(b'\n{"body":{"bodies"') + 1 :])
    assert keeper.holding(TEXT)
    reply = keeper.call(*words)
    assert reply.status in (0, 5), reply
    assert not any(form.decode() in reply.out + reply.err for form in forms(keeper.engine, TEXT))
    assert keeper.holding(TEXT) == []
    assert keeper.skeletons() >= set(ids)


def test_read_only_vault(keeper, bound_by_modes):
    """Where the vault may not be written, reading does not show the text that came back."""
    tell(keeper, "generations")
    (path,) = (keeper.vault / ".muniment" / "ledger").iterdir()
    whole = path.read_bytes()
    keeper.erase("--text", TEXT)
    scrubbed = path.read_bytes()
    path.write_bytes(whole + scrubbed[scrubbed.rfind(b'\n{"body":{"bodies"') + 1 :])
    folders = [keeper.vault, *(p for p in keeper.vault.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        for words in READING:
            reply = keeper.cli(*words, "--vault", keeper.vault, prefix=bound_by_modes)
            assert not any(form.decode() in reply.out for form in forms(keeper.engine, TEXT)), words
    finally:
        for folder in folders:
            folder.chmod(0o700)
    assert keeper.ok("status")
    assert keeper.holding(TEXT) == []


def test_other_copy_takes_it_over(keeper, other):
    """A copy that has the whole bodies, and gets the erasure, loses them too, with its views, its index and what it kept."""
    ids = tell(keeper, "generations")
    there = other()
    there.ok("rebuild")
    there.ok("index")
    (there.vault / "MEMORY.md").write_bytes(b"mine: " + TEXT.encode())
    run = there.start("claude")
    there.journal(run, "Of the other copy.")
    assert len(there.holding(TEXT)) > 3
    keeper.erase("--text", TEXT)
    (path,) = keeper.ledger()
    shutil.copy(keeper.vault / ".muniment" / "ledger" / path, there.vault / ".muniment" / "ledger" / path)
    there.ok("status")
    assert there.holding(TEXT) == []
    assert there.skeletons() == set(ids)
    assert there.doctor() == []
    assert there.call("search", "Söhne").status in (0, 5)
    assert there.holding(TEXT) == []


def test_erased_in_a_new_copy(keeper, other):
    """An erasure that is the first thing that a copy records holds like any other, in both copies."""
    ids = tell(keeper, "generations")
    there = other()
    there.erase("--text", TEXT)
    assert there.holding(TEXT) == []
    assert there.skeletons() == set(ids)
    (new,) = set(there.ledger()) - set(keeper.ledger())
    shutil.copy(there.vault / ".muniment" / "ledger" / new, keeper.vault / ".muniment" / "ledger" / new)
    keeper.ok("status")
    assert keeper.holding(TEXT) == []
    assert keeper.skeletons() == set(ids)


def test_joined_afterwards(keeper, other):
    """A ledger that was not here when its records were erased elsewhere comes with its text, and loses it at once."""
    tell(keeper, "generations")
    third = other("third")
    there = other()
    (first,) = keeper.ledger()
    (third.vault / ".muniment" / "ledger" / first).unlink()
    there.erase("--text", TEXT)
    (new,) = set(there.ledger()) - {first}
    shutil.copy(there.path(new[:8]), third.path(new[:8]))
    third.ok("status")
    shutil.copy(keeper.path(first[:8]), third.path(first[:8]))
    reply = third.ok("recall", "--prefix", "a")
    assert TEXT not in json.dumps(reply, ensure_ascii=False)
    assert third.holding(TEXT) == []
    assert third.doctor() == []
    assert keeper.holding(TEXT)  # it has not heard of it


def test_in_whichever_order(keeper, other):
    """Copies that hold the same records, the one with skeletons, the other with whole bodies, end with the same views."""
    tell(keeper, "generations")
    there = other()
    keeper.erase("--text", TEXT)
    (name,) = keeper.ledger()
    scrubbed = keeper.path(name[:8]).read_bytes()
    line = scrubbed[scrubbed.rfind(b'\n{"body":{"bodies"') + 1 :]
    with there.path(name[:8]).open("ab") as file:
        file.write(line)
    for copy in (keeper, there):
        copy.ok("rebuild")
        assert copy.holding(TEXT) == []
    assert keeper.views() == there.views()
    assert keeper.ledger() == there.ledger()


def test_restored_from_an_old_backup(keeper):
    """A ledger that is mended with an old backup, whole bodies in it, is scrubbed; what was kept of it too."""
    ids = tell(keeper, "generations")
    (path,) = (keeper.vault / ".muniment" / "ledger").iterdir()
    backup = keeper.folder.parent / "backup.jsonl"
    shutil.copy(path, backup)
    keeper.erase("--text", TEXT)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *backup.read_bytes().splitlines(keepends=True)[3:], lines[-1]]))
    assert keeper.call("restore", "--from", backup).status == 0
    assert keeper.holding(TEXT) == []
    assert keeper.skeletons() >= set(ids)
    assert keeper.doctor() == []


def test_damaged_ledger_that_holds_it_again(keeper):
    """While a ledger is damaged, what came back behind the damage is not shown; once it is mended, it is gone."""
    tell(keeper, "generations")
    (path,) = (keeper.vault / ".muniment" / "ledger").iterdir()
    whole = path.read_bytes()
    keeper.erase("--text", TEXT)
    scrubbed = path.read_bytes()
    full = whole + scrubbed[scrubbed.rfind(b'\n{"body":{"bodies"') + 1 :]
    path.write_bytes(full.replace(b"\n", b"\r\n"))
    for words in READING:
        reply = keeper.call(*words)
        assert not any(form.decode() in reply.out for form in forms(keeper.engine, TEXT)), words
    assert keeper.call("restore").status == 0
    assert keeper.holding(TEXT) == []
    assert keeper.doctor() == []


# -- killed --


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("action", ["before", "after"])
def test_killed(keeper, driver, action, every):
    """Ended at any call that touches the disk, an erasure is not recorded yet, or the next command completes it."""
    run = keeper.start()
    keeper.fact(run, "a.b", TEXT)
    keeper.stage(run, "a.b", "Two.", "--now")
    entry = keeper.journal(run, TEXT)
    keeper.fact(run, "a.c", TEXT)
    (keeper.vault / "MEMORY.md").write_bytes(b"mine: " + TEXT.encode())
    keeper.ok("search", "Söhne")
    keeper.states.mkdir(exist_ok=True)
    erase = ("--vault", str(keeper.vault), "erase", "--text", TEXT, OWNER)
    status = ("--vault", str(keeper.vault), "status")
    kept = Kept(keeper.vault)
    outcome = driver.run(keeper.folder, *erase)
    assert outcome.status == 0, outcome
    for at in range(1, len(outcome.calls) + 1, every):
        kept.put_back()
        ended = driver.run(keeper.folder, *erase, fault={"at": at, "action": action})
        where = (at, outcome.calls[at - 1], ended)
        assert ended.status is None, where
        recorded = bool(keeper.records("erase"))
        looked = driver.run(keeper.folder, *status)
        assert looked.status == 0, where
        assert (keeper.holding(TEXT) == []) == recorded, (where, keeper.holding(TEXT))
        if not recorded:
            assert driver.run(keeper.folder, *erase).status == 0, where
        assert keeper.holding(TEXT) == [], where
        assert entry in keeper.skeletons(), where
        assert len(keeper.records("erase")) == 1, where
        assert keeper.doctor() == [], where


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", ["heard", "whole-again"])
def test_killed_elsewhere(keeper, other, driver, how, every):
    """A copy that hears of an erasure, or gets whole bodies again, and is ended at any call, completes it with its next command."""
    keeper.healthy = False
    run = keeper.start()
    keeper.fact(run, "a.b", TEXT)
    keeper.stage(run, "a.b", "Two.", "--now")
    keeper.journal(run, TEXT)
    there = other()
    there.ok("rebuild")
    there.ok("index")
    (there.vault / "MEMORY.md").write_bytes(b"mine: " + TEXT.encode())
    there.ok("status")
    (name,) = keeper.ledger()
    whole = keeper.path(name[:8]).read_bytes()
    keeper.erase("--text", TEXT)
    scrubbed = keeper.path(name[:8]).read_bytes()
    data = scrubbed if how == "heard" else whole + scrubbed[scrubbed.rfind(b'\n{"body":{"bodies"') + 1 :]
    there.path(name[:8]).write_bytes(data)
    status = ("--vault", str(there.vault), "status")
    kept = Kept(there.vault)
    outcome = driver.run(there.folder, *status)
    assert outcome.status == 0, outcome
    for at in range(1, len(outcome.calls) + 1, every):
        kept.put_back()
        ended = driver.run(there.folder, *status, fault={"at": at, "action": "before"})
        where = (at, outcome.calls[at - 1])
        assert ended.status is None, where
        assert driver.run(there.folder, *status).status == 0, where
        assert there.holding(TEXT) == [], where
        assert there.doctor() == [], where


def test_search_in_the_midst(keeper, monkeypatch):
    """A search that runs while views are being rewritten leaves nothing of the text in the index."""
    tell(keeper, "generations")
    keeper.ok("index")
    real, done = keeper.engine.write_views, []

    def write(work):
        if keeper.records("erase") and len(done) < 3:
            done.append(keeper.cli("search", "Söhne", "--vault", str(keeper.vault), "--lock-wait", "0"))
        return real(work)

    monkeypatch.setattr(keeper.engine, "write_views", write)
    keeper.erase("--text", TEXT)
    assert done
    assert keeper.holding(TEXT) == []
