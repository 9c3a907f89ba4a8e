"""A person edits what the engine renders, while agents work: the bytes are kept, the view is back, and the owner answers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil

import pytest
from crash_driver import Kept

APPROVED = "--human-approved"
SEALED = re.compile(rb"<!-- muniment view sha256:([0-9a-f]{64}) -->\n$")


def sha256(data):
    """Return the hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def kept(project):
    """Return the bytes of every file in recovery/ by its name."""
    return {path.name: path.read_bytes() for path in (project.vault / ".muniment" / "recovery").iterdir() if path.is_file()}


def edits(project):
    """Return the open edits as `review --all` shows them."""
    return project.ok("review", "--all")["edits"]


def answer(project, choice, handle="edits", *words):
    """Answer one edit or all of them."""
    return project.ok("resolve", handle, "--choose", choice, APPROVED, *words)


def edit(project, name, *pairs):
    """Change a view by (old, new) pairs as a person does, and return the bytes that were written."""
    path = project.vault / name
    data = path.read_bytes()
    for old, new in pairs:
        assert old.encode() in data, (old, data)
        data = data.replace(old.encode(), new.encode(), 1)
    path.write_bytes(data)
    return data


@pytest.fixture
def work(project):
    """Return a project with one view of each kind; ``run`` is open, ``second`` is another agent's."""
    project.run = project.start("codex")
    project.second = project.start("claude")
    project.journal(project.run, "It was seen.")
    project.ok("propose", "--run", project.run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "One.", "--tag", "x", "--now")
    project.ok("propose", "--run", project.run, "--key", "a.b", "--text", "Two.", "--now")
    project.owned(project.run, "rule.one", "Never.", "--tier", "1")
    _, (_, second), handle = project.conflict("fight.one")
    project.ok("resolve", handle, "--choose", second, APPROVED)
    project.ok("sync", "--run", project.run)
    project.ok("sync", "--run", project.second)
    project.ok("config", "index-lines", "50", APPROVED)
    return project


def some(kinds, *everyday):
    """Return kinds as parameters of a test, of which only some are run every day."""
    return [kind if kind in everyday else pytest.param(kind, marks=pytest.mark.long) for kind in kinds]


KINDS = ("memory", "index", "note", "history", "journal", "card")


def views_of(project):
    """Return the name of one view of each kind."""
    return {"memory": "MEMORY.md", "index": "INDEX.md", "note": "notes/a.b.md", "history": "history/a.b.md",
            "journal": "journal/%s.md" % project.run, "card": "conflicts/fight.one.md"}


# -- what stands in a view's place --

#: What is written in a view's place, made of its bytes.
FORMS = {
    "appended": lambda data: data + b"\nMine.\n",
    "crlf": lambda data: data.replace(b"\n", b"\r\n"),
    "bom": lambda data: b"\xef\xbb\xbf" + data,
    "not-utf8": lambda data: data.replace(b"e", b"\xff\xfe", 1),
    "emptied": lambda data: b"",
    "blank": lambda data: b"\n \n",
    "cut": lambda data: data[: len(data) // 2],
    "unsealed": lambda data: SEALED.sub(b"", data),
    "one-byte": lambda data: data.replace(b"#", b"##", 1),
    "nuls": lambda data: bytes(4096),
    "large": lambda data: data + b"x" * 3_000_000,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", some(KINDS, "note"))
def test_the_bytes_are_kept_and_the_view_is_back(work, kind, form):
    """The exact bytes are in recovery/ once, under their hash; one record and one sentence say so, and the view is as it was."""
    name = views_of(work)[kind]
    before, ledgers = work.views(), work.records()
    edited = FORMS[form](before[name])
    (work.vault / name).write_bytes(edited)
    reply = work.call("review", "--all")
    assert reply.status == 0
    assert len(reply["warnings"]) == 1
    assert work.views() == before
    assert kept(work) == {sha256(edited): edited}
    ((head, body),) = work.records()[len(ledgers):]
    assert (head["kind"], body["what"], body["path"]) == ("recovery", "view", name)
    assert (body["sha256"], body["size"]) == (sha256(edited), len(edited))
    (found,) = reply["edits"]
    assert (found["path"], found["sha256"], found["size"]) == (name, sha256(edited), len(edited))
    assert work.call("review", "--all")["warnings"] == []
    assert len(work.records()) == len(ledgers) + 1
    answer(work, "dismiss")
    assert edits(work) == []
    assert work.views() == before


def test_all_views_at_once(work):
    """An edit of each kind of view at once: one command keeps all, says one sentence of each, and restores all."""
    before, edited = work.views(), {}
    for name in views_of(work).values():
        edited[name] = before[name].replace(b"\n", b"\r\n") + b"Mine.\n"
        (work.vault / name).write_bytes(edited[name])
    reply = work.call("review", "--all")
    assert (reply.status, len(reply["warnings"])) == (0, len(edited))
    assert {e["path"]: e["sha256"] for e in reply["edits"]} == {name: sha256(data) for name, data in edited.items()}
    assert kept(work) == {sha256(data): data for data in edited.values()}
    assert work.views() == before
    answer(work, "dismiss")


@pytest.mark.skipif(os.name != "posix", reason="links are POSIX's")
@pytest.mark.parametrize("form", some(("link", "dangling", "folder", "full-folder"), "link", "full-folder"))
@pytest.mark.parametrize("kind", some(KINDS, "memory", "note"))
def test_a_link_or_folder_in_its_place(work, tmp_path, kind, form):
    """A link is kept as what it names, a folder is moved whole; the edit cannot be adopted, stays listed, and is dismissed."""
    name = views_of(work)[kind]
    before, target, path = work.views(), tmp_path / "target.md", work.vault / name
    path.unlink()
    if "folder" in form:
        path.mkdir()
    else:
        target.write_bytes(before[name]) if form == "link" else None
        path.symlink_to(target)
    if form == "full-folder":
        (path / "deep" / "er").mkdir(parents=True)
        (path / "deep" / "er" / "mine").write_bytes(b"mine")
        (path / "link").symlink_to(target)
    reply = work.call("review", "--all")
    assert (reply.status, len(reply["warnings"]), work.views()) == (0, 1, before)
    (found,) = reply["edits"]
    assert (found["path"], found["changes"], bool(found["unread"])) == (name, [], True)
    place = work.vault / ".muniment" / "recovery" / found["sha256"]
    if "folder" in form:
        assert place.is_dir()
        assert form == "folder" or (place / "deep" / "er" / "mine").read_bytes() == b"mine"
    else:
        assert place.read_bytes() == b"link to " + os.fsencode(target)
        assert not target.exists() or target.read_bytes() == before[name]
    assert work.call("resolve", found["handle"], "--choose", "adopt", APPROVED).code == (3, "bad-choice")
    reply = answer(work, "adopt")
    assert ([e["path"] for e in reply["left"]], reply["adopted"], reply["closed"]) == ([name], [], [])
    assert [e["edit"] for e in edits(work)] == [found["edit"]]
    answer(work, "dismiss", found["handle"])
    assert edits(work) == []
    assert work.doctor() == []


def test_the_same_folder_twice(work):
    """A folder of the same content that comes a second time is kept beside the first, and is one edit while that is open."""
    for _ in range(2):
        (work.vault / "INDEX.md").unlink()
        (work.vault / "INDEX.md").mkdir()
        (work.vault / "INDEX.md" / "mine").write_bytes(b"mine")
        work.ok("review", "--all")
    assert len(edits(work)) == 1
    assert [p.read_bytes() for p in sorted((work.vault / ".muniment" / "recovery").rglob("mine"))] == [b"mine", b"mine"]
    answer(work, "dismiss")
    assert work.doctor() == []


#: Commands that take the lock or make the state anew, with the status that they have.
COMMANDS = {
    "status": ("status",), "recall": ("recall", "a.b"), "log": ("log",), "history": ("history", "a.b"), "review": ("review",),
    "start": ("start", "--actor", "x"), "journal": ("journal", "--run", "{run}", "--text", "New."),
    "propose": ("propose", "--run", "{run}", "--key", "a.b", "--text", "Three."),
    "propose-now": ("propose", "--run", "{run}", "--key", "a.b", "--text", "Three.", "--now"),
    "sync": ("sync", "--run", "{run}"), "close": ("close", "--run", "{run}", "--outcome", "success", "--summary", "Done."),
    "recover-run": ("recover-run", "--run", "{second}", "--summary", "Gone.", APPROVED), "maintain": ("maintain",),
    "config": ("config", "hot-lines", "100", APPROVED), "search": ("search", "seen"), "index": ("index",), "rebuild": ("rebuild",),
    "fix": ("doctor", "--fix"), "restore": ("restore",), "apply": ("apply", "--run", "{run}", "-"),
    "held": ("propose", "--run", "{run}", "--key", "rule.one", "--text", "Always.", "--now"),
    "refused": ("propose", "--run", "{run}", "--key", "a.b"),
}


@pytest.mark.parametrize(
    "name", some(COMMANDS, "recall", "start", "journal", "propose-now", "sync", "search", "restore", "held", "refused")
)
def test_any_command_goes_on_with_its_own_work(work, name):
    """Whichever command meets an edited MEMORY.md does its own work with its own status, and says one line on standard error."""
    words = [word.format(run=work.run, second=work.second) for word in COMMANDS[name]]
    edited = edit(work, "MEMORY.md", ("Two.", "Mine."))
    stdin = b'{"do":"journal","text":"New."}\n'
    reply = work.call(*words, stdin=stdin, plain=True)
    lines = [line for line in reply.err.split("\n") if sha256(edited) in line]
    assert len(lines) == 1
    assert kept(work) == {sha256(edited): edited}
    expected = {"held": 4, "refused": 3}.get(name, 0)
    assert reply.status == expected
    assert b"Mine." not in (work.vault / "MEMORY.md").read_bytes()
    assert [e["sha256"] for e in edits(work)] == [sha256(edited)]
    kinds = [head["kind"] for head, _ in work.records()]
    assert kinds.count("recovery") == 1
    assert (kinds.count("journal") == 2) == (name in ("journal", "apply"))


def test_reading_and_doctor_do_not_lose_it(work, read_only, bound_by_modes):
    """Where nothing may be written, an edited view stays as it is, and what reads goes on."""
    edited = edit(work, "MEMORY.md", ("Two.", "Mine."))
    read_only()
    for words in (("status",), ("recall", "a.b"), ("review", "--all"), ("doctor",)):
        assert work.cli(*words, prefix=bound_by_modes).status == 0
    assert (work.vault / "MEMORY.md").read_bytes() == edited
    for path in (work.vault, *work.vault.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert len(edits(work)) == 1
    answer(work, "dismiss")


# -- the same edit again --

def test_the_same_edit_twice_and_after_its_answer(work):
    """The same bytes are one edit while it is open, and a new one once it was dismissed; they are kept once."""
    path = work.vault / "notes" / "a.b.md"
    edited = path.read_bytes().replace(b"Two.", b"Mine.")
    for _ in range(2):
        path.write_bytes(edited)
        assert [e["sha256"] for e in edits(work)] == [sha256(edited)]
    first = edits(work)[0]
    answer(work, "dismiss")
    assert edits(work) == []
    path.write_bytes(edited)
    (second,) = edits(work)
    assert second["sha256"] == first["sha256"]
    assert second["edit"] != first["edit"]
    assert kept(work) == {sha256(edited): edited}
    answer(work, "adopt", second["handle"])
    assert work.current("a.b")["text"] == "Mine."


def test_an_edit_of_the_edit(work):
    """Each state of a file that a command met is an edit of its own; adopting all of them ends with the last."""
    for text in ("Mine.", "Mine!", "Ours."):
        edit(work, "notes/a.b.md", ("Two.", text))
        work.ok("review", "--all")
    assert len(edits(work)) == 3
    assert [list(e["changes"][0]["fields"]["text"]) for e in edits(work)] == [["Two.", t] for t in ("Mine.", "Mine!", "Ours.")]
    answer(work, "adopt")
    assert work.current("a.b")["text"] == "Ours."
    assert edits(work) == []


def test_two_places_at_once(work):
    """Two views of one subject, edited alike, are two edits that agree: adopting both leaves the text and no conflict."""
    edit(work, "MEMORY.md", ("Two.", "Mine."))
    edit(work, "notes/a.b.md", ("Two.", "Mine."))
    assert sorted(e["path"] for e in edits(work)) == ["MEMORY.md", "notes/a.b.md"]
    answer(work, "adopt")
    assert edits(work) == []
    assert (work.current("a.b")["text"], work.ok("status")["conflicts"]) == ("Mine.", 0)


# -- adopting --

CHANGES = {
    "text": ((("> Two.", "> Mine."),), {"text": "Mine."}),
    "importance": ((("importance: 3", "importance: 5"),), {"importance": 5}),
    "status": ((('status: "active"', "status: watch"),), {"status": "watch"}),
    "tags": ((('  - "x"', '  - "x"\n  - y'),), {"tags": ["x", "y"]}),
    "until": ((("tier: 2", "tier: 2\nuntil: 2030-01-01"),), {"until": "2030-01-01"}),
    "two": ((("> Two.", "> Mine."), ("importance: 3", "importance: 5")), {"text": "Mine.", "importance": 5}),
    "detail": ((("<!-- muniment", "## Detail\n\nMore of it.\n<!-- muniment"),), {"detail": "More of it."}),
    "detail-below-the-claim": ((("> Two.\n", "> Two.\n\n## Detail\n\nMore of it.\n"),), {"detail": "More of it."}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_adopted(work, what):
    """What was changed in a note is the owner's confirmed word, shows in the same file, and closes the edit."""
    pairs, fields = CHANGES[what]
    edit(work, "notes/a.b.md", *pairs)
    (found,) = edits(work)
    assert found["unread"] == []
    (change,) = found["changes"]
    assert (change["key"], change["new"]) == ("a.b", False)
    assert {name: after for name, (_, after) in change["fields"].items()} == fields
    reply = answer(work, "adopt", found["handle"], "--note", "As I wrote.")
    assert [(row["key"], row["edit"]) for row in reply["adopted"]] == [("a.b", found["edit"])]
    current = work.current("a.b")
    assert (current["source"], current["trust"]) == ("user", "confirmed")
    assert {name: current[name] for name in fields} == fields
    assert edits(work) == []
    note = (work.vault / "notes" / "a.b.md").read_text(encoding="utf-8")
    assert all(str(part) in note for value in fields.values() for part in (value if isinstance(value, list) else [value]))
    assert [g["text"] for g in work.ok("history", "a.b")["generations"]] == ["One.", "Two."]


def test_an_agent_moved_the_subject_after_the_edit(work):
    """An agent's update meets the edited note, keeps it, and stands; what is adopted is put on top of it."""
    edited = edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    reply = work.call("propose", "--run", work.run, "--key", "a.b", "--text", "Three.", "--importance", "5", "--now")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    assert work.current("a.b")["text"] == "Three."
    assert sha256(edited) in kept(work)
    (found,) = edits(work)
    assert found["changes"][0]["fields"] == {"text": ["Three.", "Mine."]}
    answer(work, "adopt")
    current = work.current("a.b")
    assert (current["text"], current["importance"], current["trust"]) == ("Mine.", 5, "confirmed")


def test_an_agent_moved_the_subject_before_the_edit(work):
    """A person who saves an older note takes back nothing that was decided since."""
    path = work.vault / "notes" / "a.b.md"
    old = path.read_bytes()
    work.ok("propose", "--run", work.run, "--key", "a.b", "--text", "Three.", "--now")
    path.write_bytes(old.replace(b"importance: 3", b"importance: 5"))
    (found,) = edits(work)
    assert found["changes"][0]["fields"] == {"importance": [3, 5]}
    answer(work, "adopt")
    current = work.current("a.b")
    assert (current["text"], current["importance"]) == ("Three.", 5)


def test_a_handle_moves_with_its_subject(work):
    """The handle names the change as it was shown: once the subject moved, it is refused, and the edit has another."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    (before,) = edits(work)
    work.ok("propose", "--run", work.run, "--key", "a.b", "--importance", "4", "--text", "Two.", "--now")
    for choice in ("adopt", "dismiss"):
        assert work.call("resolve", before["handle"], "--choose", choice, APPROVED).code == (3, "moved")
    assert work.call("review", before["handle"]).code == (3, "moved")
    (after,) = edits(work)
    assert after["handle"] != before["handle"]
    assert after["edit"] == before["edit"]
    assert work.ok("review", after["handle"])["edits"] == [after]
    answer(work, "adopt", after["handle"])
    assert work.call("resolve", after["handle"], "--choose", "adopt", APPROVED).code == (3, "moved")
    assert work.current("a.b")["importance"] == 4


def test_another_subject_moves_no_handle(work):
    """What happens to other subjects leaves the handle as it is."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    (before,) = edits(work)
    work.fact(work.run, "c.d")
    assert [e["handle"] for e in edits(work)] == [before["handle"]]
    answer(work, "dismiss")


@pytest.mark.parametrize("view", ["MEMORY.md", "notes/fight.two.md"])
def test_a_contested_subject(work, view):
    """An adopted edit of a contested subject replaces its whole frontier: the conflict is settled, and its card tells the answer."""
    _, _, handle = work.conflict("fight.two", "first", "second")
    edit(work, view, ("first", "neither"))
    (found,) = edits(work)
    reply = answer(work, "adopt", found["handle"])
    recalled = work.ok("recall", "fight.two")
    assert (recalled["status"], recalled["contenders"], recalled["outranked"]) == ("current", [], [])
    assert (recalled["current"]["text"], recalled["current"]["id"]) == ("neither", reply["adopted"][0]["resolution"])
    assert work.ok("status")["conflicts"] == 0
    assert work.call("resolve", handle, "--choose", "current", APPROVED).code == (3, "moved")
    assert reply["adopted"][0]["resolution"] in (work.vault / "conflicts" / "fight.two.md").read_text(encoding="utf-8")


def test_a_subject_that_becomes_contested(work):
    """Two agents who part after the edit are answered by it, when it is adopted."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    work.stage(work.run, "a.b", "x")
    work.stage(work.second, "a.b", "y")
    work.ok("sync", "--run", work.run)
    assert work.call("sync", "--run", work.second).status == 4
    answer(work, "adopt")
    assert work.ok("recall", "a.b")["contenders"] == []
    assert work.current("a.b")["text"] == "Mine."


def test_a_subject_that_was_closed(work):
    """What was edited of a subject that an agent closed since is not lost: it is shown, and nothing comes to life unasked."""
    edited = edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    work.ok("propose", "--run", work.run, "--key", "a.b", "--op", "close", "--now")
    assert work.ok("recall", "a.b")["status"] == "closed"
    assert kept(work) == {sha256(edited): edited}
    (found,) = edits(work)
    assert found["sha256"] == sha256(edited)
    assert found["unread"] or all(change["new"] for change in found["changes"])
    assert not (work.vault / "notes" / "a.b.md").exists()
    answer(work, "dismiss", found["handle"])
    assert work.ok("recall", "a.b")["status"] == "closed"


def test_memory_of_several_subjects(work):
    """One edit of MEMORY.md is a difference per subject, each adopted by a resolution of its own, in one unit with its dismissal."""
    edit(work, "MEMORY.md", ("Two.", "Mine."), ("Never.", "Seldom."), ("two [[", "deux [["))
    (found,) = edits(work)
    shown = {change["key"]: change["fields"]["text"] for change in found["changes"]}
    assert shown == {"a.b": ["Two.", "Mine."], "rule.one": ["Never.", "Seldom."], "fight.one": ["two", "deux"]}
    before = len(work.records())
    answer(work, "adopt")
    added = work.records()[before:]
    assert [body["answer"] for _, body in added] == ["adopt", "adopt", "adopt", "dismiss"]
    assert [head.get("unit") for head, _ in added] == [None, None, None, 4]
    assert {key: work.current(key)["text"] for key in shown} == {"a.b": "Mine.", "rule.one": "Seldom.", "fight.one": "deux"}


def test_what_cannot_be_read_stays(work):
    """What cannot be read as a change is said, and the edit stays listed after it was adopted, until it is dismissed."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."), ("importance: 3", "importance: many"))
    (found,) = edits(work)
    assert found["changes"]
    assert found["unread"]
    reply = answer(work, "adopt")
    assert ([e["path"] for e in reply["left"]], reply["closed"]) == (["notes/a.b.md"], [])
    assert work.current("a.b")["text"] == "Mine."
    (left,) = edits(work)
    assert (left["edit"], left["changes"], bool(left["unread"])) == (found["edit"], [], True)
    answer(work, "dismiss")
    assert edits(work) == []


@pytest.mark.parametrize("kind", ["history", "journal", "card"])
def test_what_happened_is_not_changed(work, kind):
    """An edit of a history, journal or card changes nothing: it is listed with a reason, and only dismissed."""
    name = views_of(work)[kind]
    before = work.views()
    edit(work, name, ("e", "E"))
    (found,) = edits(work)
    assert (found["path"], found["changes"], len(found["unread"])) == (name, [], 1)
    assert work.call("resolve", found["handle"], "--choose", "adopt", APPROVED).code == (3, "bad-choice")
    answer(work, "dismiss")
    assert work.views() == before


def test_choices(work):
    """An edit is adopted or dismissed by the owner, and nothing else; where none is open that is said."""
    assert work.call("resolve", "edits", "--choose", "adopt", APPROVED).code == (3, "moved")
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    handle = edits(work)[0]["handle"]
    before = work.ledger()
    for about in (handle, "edits"):
        assert work.call("resolve", about, "--choose", "adopt").code == (3, "needs-approval")
        assert work.call("resolve", about, "--choose", "accept", APPROVED).code == (3, "bad-choice")
        assert work.call("resolve", about, "--text", "x", APPROVED).code == (3, "bad-choice")
    assert work.ledger() == before
    answer(work, "dismiss")


#: A credential by its form; it is made of parts, so that no scanner takes this file for one.
CREDENTIAL = "ghp_" + "R7dQ2mZk9XvT4bWn8LsYc3HfJ6pGaE1uKoVi"


@pytest.mark.parametrize("where", ["text", "detail", "new"])
def test_a_secret_is_refused(work, where):
    """What looks like a credential is not adopted: nothing is recorded, the edit stays; --allow-secret adopts it."""
    if where == "new":
        (work.vault / "notes" / "new.one.md").write_bytes(b"The token is %s.\n" % CREDENTIAL.encode())
    else:
        text = {"text": "> It is %s.\n" % CREDENTIAL, "detail": "> Two.\n\n## Detail\n\nIt is %s.\n" % CREDENTIAL}[where]
        edit(work, "notes/a.b.md", ("> Two.\n", text))
    (found,) = edits(work)
    before = work.ledger()
    refused = work.call("resolve", found["handle"], "--choose", "adopt", APPROVED)
    assert refused.code == (3, "secret")
    reply = work.call("resolve", "edits", "--choose", "adopt", APPROVED)
    assert ([e["edit"] for e in reply["left"]], reply["adopted"], reply["closed"]) == ([found["edit"]], [], [])
    assert CREDENTIAL not in refused.out + refused.err + reply.out + reply.err
    assert work.ledger() == before
    assert [e["handle"] for e in edits(work)] == [found["handle"]]
    assert len(answer(work, "adopt", "edits", "--allow-secret")["adopted"]) == 1


def test_a_secret_keeps_no_other_edit_from_being_adopted(work):
    """Of several edits, the one with what looks like a credential stays open, and the others are adopted."""
    edit(work, "notes/a.b.md", ("> Two.", "> It is %s." % CREDENTIAL))
    edit(work, "notes/rule.one.md", ("> Never.", "> Seldom."))
    work.ok("review", "--all")
    reply = answer(work, "adopt")
    assert [row["key"] for row in reply["adopted"]] == ["rule.one"]
    assert [row["path"] for row in reply["left"]] == ["notes/a.b.md"]
    assert (work.current("a.b")["text"], work.current("rule.one")["text"]) == ("Two.", "Seldom.")
    answer(work, "dismiss")


def test_what_was_shown_to_nobody_is_not_answered(work):
    """`resolve edits` answers what was open before it: an edit that it meets itself is kept, and stays open."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    work.ok("review", "--all")
    later = edit(work, "MEMORY.md", ("Never.", "Always."))
    reply = answer(work, "adopt")
    assert [row["key"] for row in reply["adopted"]] == ["a.b"]
    assert [e["sha256"] for e in edits(work)] == [sha256(later)]
    assert work.current("rule.one")["text"] == "Never."
    edit(work, "notes/rule.one.md", ("> Never.", "> Seldom."))
    answer(work, "dismiss")
    assert [e["path"] for e in edits(work)] == ["notes/rule.one.md"]
    answer(work, "dismiss")


# -- what is gone --

@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_view_comes_back(work, kind):
    """A view that is gone is rendered again; nothing is recorded, and nothing closes."""
    before, ledgers = work.views(), work.ledger()
    (work.vault / views_of(work)[kind]).unlink()
    assert edits(work) == []
    work.ok("rebuild")
    assert (work.views(), work.ledger()) == (before, ledgers)


def test_a_deleted_folder_closes_nothing(work):
    """Without its notes, or all views, every subject stands as it did, and the views come back byte for byte."""
    before, ledgers = work.views(), work.ledger()
    for folder in ("notes", "history", "journal", "conflicts"):
        shutil.rmtree(work.vault / folder)
    (work.vault / "INDEX.md").unlink()
    assert edits(work) == []
    work.ok("search", "Never")
    assert {n: d for n, d in work.views().items() if n.startswith("notes/")} == {n: d for n, d in before.items() if n.startswith("notes/")}
    assert [s["key"] for s in work.ok("recall", "--prefix", "")["subjects"]] == ["a.b", "fight.one", "rule.one"]
    work.ok("rebuild")
    assert (work.views(), work.ledger()) == (before, ledgers)


# -- notes of the owner's own --

NEW = b"---\ntier: 2\nimportance: 4\ntags: [shop]\n---\n# new.one\n\nWe deploy\non Tuesdays.\n\nSince the outage.\n"


def test_a_new_note_becomes_a_subject(work):
    """A note of a key that is not present is kept and stays; adopted, it is a subject of the owner's with its note in the same file."""
    path = work.vault / "notes" / "new.one.md"
    path.write_bytes(NEW)
    work.ok("status")
    work.ok("rebuild")
    assert path.read_bytes() == NEW
    (found,) = edits(work)
    assert path.read_bytes() == NEW
    (change,) = found["changes"]
    assert (found["path"], found["unread"], change["key"], change["new"]) == ("notes/new.one.md", [], "new.one", True)
    assert edits(work) == [found]
    answer(work, "adopt", found["handle"])
    current = work.current("new.one")
    assert {n: current[n] for n in ("text", "detail", "tier", "importance", "tags", "source", "trust")} == {
        "text": "We deploy on Tuesdays.", "detail": "Since the outage.", "tier": 2, "importance": 4, "tags": ["shop"],
        "source": "user", "trust": "confirmed"}
    assert SEALED.search(path.read_bytes())
    assert kept(work) == {sha256(NEW): NEW}
    assert edits(work) == []


def test_a_new_note_that_is_dismissed(work):
    """Dismissed, it is the owner's file, never touched, and listed again only when it changes."""
    path = work.vault / "notes" / "new.one.md"
    path.write_bytes(NEW)
    answer(work, "dismiss", edits(work)[0]["handle"])
    before = path.stat().st_mtime_ns
    for words in (("review", "--all"), ("rebuild",), ("search", "Tuesdays"), ("doctor", "--fix"), ("status",)):
        work.ok(*words)
    assert (edits(work), path.read_bytes(), path.stat().st_mtime_ns) == ([], NEW, before)
    path.write_bytes(NEW + b"More.\n")
    (found,) = edits(work)
    assert found["sha256"] == sha256(NEW + b"More.\n")
    answer(work, "dismiss", found["handle"])


def test_a_new_note_whose_key_an_agent_takes(work):
    """An agent's subject of the same key comes in the note's place, once its bytes are kept; what the note says can still be adopted."""
    path = work.vault / "notes" / "new.one.md"
    path.write_bytes(NEW)
    reply = work.call("propose", "--run", work.run, "--key", "new.one", "--tier", "2", "--new-subject", "--text", "Mondays.", "--now")
    assert reply.status == 0
    assert SEALED.search(path.read_bytes())
    assert kept(work) == {sha256(NEW): NEW}
    (found,) = edits(work)
    assert found["sha256"] == sha256(NEW)
    answer(work, "dismiss")
    assert work.current("new.one")["text"] == "Mondays."


def test_a_new_note_that_changes_before_it_is_adopted(work):
    """What was shown is adopted; what the owner wrote since stays in the file, or is kept as an edit of it."""
    path = work.vault / "notes" / "new.one.md"
    path.write_bytes(NEW)
    (found,) = edits(work)
    later = NEW.replace(b"Tuesdays", b"Fridays")
    path.write_bytes(later)
    answer(work, "adopt", found["handle"])
    assert work.current("new.one")["text"] == "We deploy on Tuesdays."
    work.ok("review", "--all")
    assert kept(work) == {sha256(NEW): NEW, sha256(later): later}
    assert [e["sha256"] for e in edits(work)] == [sha256(later)]
    answer(work, "dismiss")


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_new_note_that_is_written_in_several_goes(work, one_by_one):
    """A new note that was met while it was being written becomes what it says at last, however many states of it were kept."""
    path = work.vault / "notes" / "new.one.md"
    for text in (b"We", b"We deploy", b"We deploy on Tuesdays."):
        path.write_bytes(text + b"\n")
        found = edits(work)
    for handle in [e["handle"] for e in reversed(found)] if one_by_one else ["edits"]:
        work.call("resolve", handle, "--choose", "adopt", APPROVED)
    assert work.current("new.one")["text"] == "We deploy on Tuesdays."
    assert SEALED.search(path.read_bytes())
    work.call("resolve", "edits", "--choose", "dismiss", APPROVED)
    assert edits(work) == []


def test_a_new_note_of_a_closed_subject(work):
    """A note that the owner writes for a closed subject is a new one; adopted, it stands, with what was before as its history."""
    work.ok("propose", "--run", work.run, "--key", "a.b", "--op", "close", "--now")
    (work.vault / "notes" / "a.b.md").write_bytes(b"Three.\n")
    (found,) = edits(work)
    assert [(change["key"], change["new"]) for change in found["changes"]] == [("a.b", True)]
    answer(work, "adopt")
    assert (work.current("a.b")["text"], work.ok("recall", "a.b")["status"]) == ("Three.", "current")
    assert len(work.ok("history", "a.b")["generations"]) == 3


#: Names in the views' folders that are no view's, and what stands there.
OTHERS = (
    "notes/No Key.md", "notes/a_b.md", "notes/A.b.md", "notes/con.md", "notes/a.b.txt", "notes/.hidden.md", "notes/sub/a.b.md",
    "notes/a.b.md~", "notes/\u00fcmlaut.md", "notes/x.md.bak", "history/mine.txt", "history/a.b_x.md", "journal/diary.md",
    "journal/2026-11-30.md", "journal/R1.md", "conflicts/Mine.md", "free.md", "deep/MEMORY.md", "memory.canvas",
)


def test_the_owners_other_files_are_never_touched(work):
    """A file whose name is no view's stays as it is, to the byte and the time, whatever the engine does around it."""
    for name in OTHERS:
        path = work.vault / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(("mine: " + name).encode())
        os.utime(path, ns=(1, 1))
    for line in ("review --all", "search mine", "rebuild", "doctor --fix", "status", "maintain", "start --actor x"):
        work.ok(*line.split())
    (work.vault / ".muniment" / "local" / "state.sqlite").unlink()
    work.ok("status")
    work.close(work.run)
    assert edits(work) == []
    for name in OTHERS:
        assert ((work.vault / name).read_bytes(), (work.vault / name).stat().st_mtime_ns) == (("mine: " + name).encode(), 1), name


# -- a second copy --

def join(project, folder):
    """Bring the ledgers of two copies together, as git does."""
    for here, there in ((project.vault, folder), (folder, project.vault)):
        for path in (here / ".muniment" / "ledger").iterdir():
            other = there / ".muniment" / "ledger" / path.name
            if not other.exists() or other.stat().st_size < path.stat().st_size:
                shutil.copy(path, other)


def test_a_second_copy(work, tmp_path):
    """Another copy sees that there is an edit, and its answer, and has not its bytes: it can dismiss it, and adopt nothing."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    (found,) = edits(work)
    other = type(work)(tmp_path / "other", work.engine)
    (other.vault / ".muniment" / "ledger").mkdir(parents=True)
    shutil.copy(work.vault / ".muniment" / "format.json", other.vault / ".muniment")
    join(work, other.vault)
    (there,) = edits(other)
    assert (there["edit"], there["changes"], len(there["unread"])) == (found["edit"], [], 1)
    assert other.call("resolve", "edits", "--choose", "adopt", APPROVED)["left"]
    assert other.current("a.b")["text"] == "Two."
    answer(work, "adopt", found["handle"])
    join(work, other.vault)
    assert edits(other) == []
    assert (other.current("a.b")["text"], other.current("a.b")["trust"]) == ("Mine.", "confirmed")
    other.start()
    join(work, other.vault)
    for copy in (work, other):
        copy.ok("status")
        assert copy.doctor() == []
    assert work.views() == other.views()


def test_two_copies_answer_apart(work, tmp_path):
    """An edit that one copy adopts and the other dismisses is answered in both, and the adopted text stands."""
    edit(work, "notes/a.b.md", ("> Two.", "> Mine."))
    (found,) = edits(work)
    other = type(work)(tmp_path / "other", work.engine)
    shutil.copytree(work.vault, other.vault)
    answer(work, "adopt", found["handle"])
    answer(other, "dismiss", found["handle"])
    join(work, other.vault)
    for copy in (work, other):
        assert edits(copy) == []
        assert copy.current("a.b")["text"] == "Mine."
        assert copy.doctor() == []


# -- killed --

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks; this system has no fork")
#: Name -> (what is edited, as name and pair of bytes, or a new note's bytes; the command that is killed).
KILLED = {
    "edit-of-memory": ("MEMORY.md", b"Two.", b"Mine.", ("status",)),
    "edit-of-a-note": ("notes/a.b.md", b"> Two.", b"> Mine.", ("review", "--all")),
    "edit-met-by-an-agent": (
        "notes/a.b.md", b"> Two.", b"> Mine.", ("propose", "--run", "{run}", "--key", "a.b", "--text", "Three.", "--now")),
    "adopt": ("notes/a.b.md", b"> Two.", b"> Mine.", ("resolve", "edits", "--choose", "adopt", APPROVED)),
    "dismiss": ("notes/a.b.md", b"> Two.", b"> Mine.", ("resolve", "edits", "--choose", "dismiss", APPROVED)),
    "new-note": ("notes/new.one.md", None, NEW, ("review", "--all")),
    "new-note-adopted": ("notes/new.one.md", None, NEW, ("resolve", "edits", "--choose", "adopt", APPROVED)),
}


@pytest.fixture
def prepared(driver, tmp_path):
    """Return (a function that gives commands in a folder with a vault, the vault), with a run and a subject."""
    names = {}

    def give(*commands, **faults):
        return driver.run_all(tmp_path, *([word.format(**names) for word in words] for words in commands), **faults)

    names["run"] = give(("init",), ("start", "--actor", "codex"))[1].json["run"]
    made = give(("propose", "--run", "{run}", "--key", "a.b", "--tier", "2", "--new-subject", "--text", "Two.", "--now"))
    assert made[0].status == 0
    return give, tmp_path / "memory"


@forks
@pytest.mark.parametrize("case", KILLED)
def test_killed(prepared, case):
    """Killed at some of its calls, a command leaves the edited bytes, the next goes on, and the edit is answered once."""
    kill_at_calls(prepared, case, 6)


@pytest.mark.long
@forks
@pytest.mark.parametrize("case", KILLED)
def test_killed_at_each_step(prepared, case):
    """The same at each of its calls, before and after it."""
    kill_at_calls(prepared, case, 1)


def kill_at_calls(prepared, case, step):
    """Kill a command at every ``step``-th of its calls, and check each time what it left."""
    give, vault = prepared
    name, old, new, words = KILLED[case]
    path = vault / name
    edited = path.read_bytes().replace(old, new) if old else new
    path.write_bytes(edited)
    os.utime(path, ns=(1, 1))
    if words[0] == "resolve":
        give(("review", "--all"))  # what was shown to nobody is not answered
    start = Kept(vault)
    (whole,) = give(words)
    calls = len(whole.calls)
    assert (whole.status, calls > 3) == (0, True)
    for number in range(1, calls + 1):
        for action in ("before", "after") if number % step == 0 or step == 1 else ():
            start.put_back()
            (outcome,) = give(words, fault={"at": number, "action": action})
            assert outcome.status is None, (number, outcome)
            places = [path, *(vault / ".muniment" / "recovery").iterdir()]
            assert [p for p in places if p.exists() and p.read_bytes() == edited], number
            check_goes_on(give, vault, case, number)


def check_goes_on(give, vault, case, number):
    """Check that after a kill the vault is sound, and that the edit is open or answered, and can be adopted."""
    key, text = ("new.one", "We deploy on Tuesdays.") if "new" in case else ("a.b", "Mine.")
    adopt = ("resolve", "edits", "--choose", "adopt", APPROVED)
    shown, adopted, recalled, again, proved = give(("review", "--all"), adopt, ("recall", key), ("review", "--all"), ("doctor", "--strict"))
    assert shown.status == 0, (number, shown)
    open_edits = shown.json["edits"]
    assert [[change["key"] for change in row["changes"]] for row in open_edits] in ([[key]], []), (number, shown)
    assert (adopted.status, adopted.code) == ((0, None) if open_edits else (3, "moved")), (number, adopted)
    if case != "dismiss" or open_edits:
        assert recalled.json["current"]["text"] == text, number
    assert (again.status, again.json["edits"]) == (0, []), number
    assert (proved.status, [f for f in proved.json["findings"] if f["severity"] != "notice"]) == (0, []), number
    told = [json.loads(line) for p in (vault / ".muniment" / "ledger").iterdir() for line in p.read_bytes().splitlines()]
    assert sum(line["body"].get("answer") == "adopt" for line in told) <= 1, number
    assert (vault / "notes" / (key + ".md")).exists(), number
