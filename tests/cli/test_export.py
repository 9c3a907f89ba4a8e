"""`export`: all there is, in forms that are read without the engine; what `import` makes of it is the same vault."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import re
import shutil

import pytest
import replicas
from hypothesis import given, settings
from hypothesis import strategies as st

APPROVED = "--human-approved"
KEYS = (*replicas.KEYS, "ed.it")
FEW = replicas.TEXTS
#: Texts of which hardly two are the same.
MANY = ["text %d" % n for n in range(100_000)]
POSIX = pytest.mark.skipif(os.name != "posix", reason="such modes and links are POSIX's")
STEPS = st.lists(st.tuples(*(st.integers(0, n) for n in (20, 2, 4, 5))), min_size=10, max_size=60)
#: What a claim says that another may say too.
EFFECT = ("op", "tier", "text", "detail", "until", "links", "tags", "kind", "importance", "status", "confidence", "falsifier")


def effect(claim):
    """Return what a claim says: of a close, that it is one."""
    return "close" if claim["op"] == "close" else json.dumps({name: claim[name] for name in EFFECT if name in claim}, sort_keys=True)


def told(claim):
    """Return what a claim says, and whose word it is."""
    return effect(claim), claim["trust"], claim["source"]


def recalled(project, key):
    """Return what `recall` says of a key, its whole history included, or None."""
    reply = project.call("recall", key, "--history")
    assert reply.status in (0, 5), reply
    return reply.data if reply.status == 0 else None


def entries(project):
    """Return what every entry says, as often as it stands there; those of an export's making apart."""
    said = [(body.get("text", "(erased)"), body["importance"], body.get("ref")) for _, body in project.records("journal")]
    return collections.Counter(one for one in said if one[0] not in ("The owner said so.", "(not here)"))


def assert_same(here, there, key):
    """Assert that two vaults have the same current values, contenders, trust, sources and earlier values of a key."""
    one, other = recalled(here, key), recalled(there, key)
    if one is None:
        assert other is None
        return
    assert other is not None, one
    assert one["status"] == other["status"]
    assert told(one["current"]) == told(other["current"])
    assert sorted(map(told, one["contenders"])) == sorted(map(told, other["contenders"]))
    shown = {effect(c) for c in one["contenders"]}
    beside = [sorted(told(c) for c in said["outranked"] if effect(c) not in shown) for said in (one, other)]
    assert beside[0] == beside[1]
    earlier = [collections.Counter(map(told, said["history"])) for said in (one, other)]
    generations = [effect(c) for c in (*one["history"], one["current"], *one["contenders"], *one["outranked"])]
    if len(set(generations)) == len(generations):
        assert earlier[0] == earlier[1]
    else:  # of values that say the same at once one may be left
        assert not earlier[1] - earlier[0]
        stands = {effect(c) for c in (other["current"], *other["contenders"], *other["outranked"])}
        assert {effect(c) for c in one["history"]} <= {effect(c) for c in other["history"]} | stands


def another(project, folder):
    """Return a Project like this one, in a folder of its own, with no vault yet."""
    (folder / ".git").mkdir(parents=True)
    return type(project)(folder, project.engine)


def take(project, text, status=(0, 4)):
    """Import a text; return the result."""
    reply = project.call("import", "-", APPROVED, stdin=text.encode())
    assert reply.status in status, reply
    return reply.data


def disturb(project, rng):
    """Do by chance what only a vault on a disk can have: an edit that is adopted, and erased text."""
    with contextlib.suppress(AssertionError):
        project.fact(project.start(), "ed.it", "Before.")
        note = project.vault / "notes" / "ed.it.md"
        note.write_bytes(note.read_bytes().replace(b"Before.", b"After."))
        project.call("review", "--all")
        project.call("resolve", "edits", "--choose", "adopt", APPROVED)
    heads = [(tag[:8], json.loads(line)["head"]) for tag, data in project.ledger().items() for line in data.splitlines()]
    letters = {"journal": "E", "proposal": "P", "resolution": "S"}
    ids = [letters[head["kind"]] + "%d-%s" % (head["seq"], tag) for tag, head in heads
           if head["kind"] in letters and tag in replicas.TAGS]  # not of the tag that was minted here, by chance
    for one in rng.sample(ids, min(len(ids), rng.choice((0, 0, 1, 4)))):
        assert project.call("erase", one, APPROVED).status in (0, 4)


def round_trip(project, folder):
    """Export a vault and import it into a new one; assert that they are the same, and return the new one."""
    text = project.ok("export")["text"]
    made = another(project, folder)
    made.ok("init", made.vault)
    result = take(made, text)
    assert result["left"] == []
    for key in KEYS:
        assert_same(project, made, key)
    assert entries(project) == entries(made)
    assert made.doctor() == []
    for one in (made, project):
        before = one.ledger()
        again = take(one, text, (0,))
        assert (again["runs"], again["left"], one.ledger()) == ([], [], before)
    return made


def check_history(bare, folder, count, steps, texts):
    """Assert that a generated history comes through twice."""
    world = replicas.play(count, steps, texts=texts)
    project = another(bare, folder / "1")
    replicas.write_vault(project.vault, world.units())
    disturb(project, random.Random(repr(steps)))
    made = round_trip(project, folder / "2")
    round_trip(made, folder / "3")


def check_histories(bare, tmp_path_factory, count, texts, examples):
    """Assert that so many generated histories come through."""

    @settings(max_examples=examples)
    @given(STEPS)
    def check(steps):
        check_history(bare, tmp_path_factory.mktemp("export"), count, steps, texts)

    check()


HISTORIES = pytest.mark.parametrize(
    ("count", "texts"), [(1, MANY), pytest.param(1, FEW, marks=pytest.mark.long), (2, MANY), pytest.param(3, FEW, marks=pytest.mark.long)],
    ids=["1-many", "1-few", "2-many", "3-few"])


@HISTORIES
def test_a_vault_comes_back_from_its_export(bare, tmp_path_factory, count, texts):
    """What stands, and all that stood, is the same in a new vault; importing again, or where it came from, adds nothing.

    There are conflicts, touches, closes, reopenings, answers, withdrawals, joined copies, adopted edits and erased text.
    """
    check_histories(bare, tmp_path_factory, count, texts, 5)


@pytest.mark.long
@HISTORIES
def test_many_vaults_come_back_from_their_exports(bare, tmp_path_factory, count, texts):
    """The same of many more histories."""
    check_histories(bare, tmp_path_factory, count, texts, 200)


@pytest.fixture
def work(project):
    """Return a project with something of everything: values that were replaced, contested, closed, staged, held, declined, answered."""
    run = project.run = project.start("codex", "--session", "chat-7")
    project.entry = project.journal(run, "Seen.\n# Not a heading", "--ref", "D1:3", "--importance", "5")
    project.fact(run, "a.next", "One.", "--evidence", "D1:3", "--tag", "x", "--link", "a.rule", "--until", "2999-01-01")
    project.stage(run, "a.next", "Two. <b>[[x]]</b>", "--why", "It changed.", "--detail-file", "-", "--now", stdin=b"# More\n\n- of it")
    project.owned(run, "a.rule", "Never.", "--tier", "1", "--kind", "rule")
    project.fact(run, "a.gone", "Short.")
    project.ok("propose", "--run", run, "--key", "a.gone", "--op", "close", "--now")
    project.fact(run, "memory", "A name of its own.", "--tier", "3", "--evidence", "https://ci.example/7", "--falsifier", "A name.")
    project.conflict("a.fight")
    (_, second), handle = project.conflict("a.settled")[1:]
    project.ok("resolve", handle, "--choose", second, "--note", "The second,\nof course.", APPROVED)
    project.ok("resolve", project.held("a.held")[2], "--choose", "accept", APPROVED)
    project.ok("resolve", project.held("a.declined")[2], "--choose", "decline", "--note", "Not now.", APPROVED)
    project.held("a.waiting")
    project.stage(run, "a.staged", "Perhaps.", "--tier", "2", "--new-subject")
    project.ok("sync", "--run", project.start("claude"))
    return project


def operations(text):
    """Return the operations of a text."""
    return [json.loads(line) for line in text.splitlines()]


def test_operations_name_only_what_comes_before(work):
    """Each operation names runs and ids of lines before it, with the original times; each claim is there once."""
    text = work.ok("export")["text"]
    ops = operations(text)
    assert ops[0] == {"do": "source", "format": "muniment", "name": work.ok("status")["id"]}
    known = set()
    for op in ops[1:]:
        names = [*op.get("base", ()), *([op["proposal"]] if "proposal" in op else []), *([] if op["do"] == "open" else [op["run"]])]
        names += [one for one in op.get("evidence", ()) if isinstance(one, str) and "://" not in one]
        assert set(names) <= known, op
        known |= {op.get("id"), op["run"]}
    times = {head["kind"][0].upper() + "%d" % head["seq"]: head["at"] for head, _ in work.records()}
    assert {op["dated"] for op in ops if op["do"] == "open"} <= set(times.values())
    claims = [op for op in ops if op["do"] == "propose"]
    answers = [body for _, body in work.records("resolution") if "value" in body]
    assert len({op["id"] for op in claims}) == len(claims) == len(work.records("proposal")) + len(answers)
    assert {op["actor"] for op in ops if op["do"] == "open"} == {"codex", "claude", "owner"}
    assert {op["summary"] for op in ops if op["do"] == "close"} >= {"The second,\nof course.", "Not now."}


def test_another_vault_by_its_export(work, tmp_path):
    """What was held or staged waits again, what was declined does not; times, sessions, reasons and evidence are kept, also twice over."""
    first, second = another(work, tmp_path / "1"), another(work, tmp_path / "2")
    texts = [work.ok("export")["text"]]
    for made in (first, second):
        made.ok("init", made.vault)
        take(made, texts[-1])
        texts.append(made.ok("export")["text"])
        for key in ("a.next", "a.rule", "a.gone", "memory", "a.fight", "a.settled", "a.held", "a.declined", "a.waiting", "a.staged"):
            assert_same(work, made, key)
        assert {key: len(made.ok("review", key)["questions"]) for key in ("a.waiting", "a.staged", "a.fight")} == {
            "a.waiting": 1, "a.staged": 1, "a.fight": 1}
        assert made.call("review", "a.declined").status in (0, 5)
        assert made.doctor() == []
        now, then = made.current("a.next"), work.current("a.next")
        assert [now[name] for name in ("text", "why", "detail", "tags", "links", "dated")] == [
            *(then[name] for name in ("text", "why", "detail", "tags", "links")), then["at"]]
        opened = {body["origin"]["id"][0] + body["actor"]: body for _, body in made.records("run-open")}
        assert opened["Rcodex"].get("session", "chat-7") == "chat-7"
    times = [sorted(op["dated"] for op in operations(text) if op["do"] in ("journal", "propose")) for text in texts]
    assert times[0] == times[1] == times[2]


def test_a_vault_that_grew_since(work, tmp_path):
    """A second export brings what new runs and the owner said since, on top of what the first brought."""
    made = another(work, tmp_path / "1")
    made.ok("init", made.vault)
    first = take(made, work.ok("export")["text"])
    run = work.start("gemini")
    work.ok("propose", "--run", run, "--key", "a.next", "--text", "Three.", "--now")
    work.fact(run, "a.new", "New.", "--evidence", work.entry)
    for key, answer in (("a.fight", ("--text", "Neither.")), ("a.waiting", ("--choose", "accept")), ("a.staged", ("--choose", "accept"))):
        work.ok("resolve", work.ok("review", key)["questions"][0]["handle"], *answer, APPROVED)
    work.ok("propose", "--run", work.start("gpt"), "--key", "a.fight", "--op", "close", "--source", "user", "--trust", "confirmed", "--now")
    result = take(made, work.ok("export")["text"], (0,))
    assert (sorted(result["skipped"]), len(result["runs"]), result["left"]) == (sorted(row["label"] for row in first["runs"]), 5, [])
    for key in ("a.next", "a.rule", "a.gone", "a.new", "a.fight", "a.settled", "a.held", "a.waiting", "a.staged"):
        assert_same(work, made, key)
    assert made.doctor() == []


def test_places(work, tmp_path):
    """It goes to standard output, a new file or, of notes, a new or empty folder; a taken name, and the vault, are refused."""
    text = work.ok("export")["text"]
    assert work.call("export", plain=True).out == text
    path = tmp_path / "all.jsonl"
    result = work.ok("export", "--to", path)
    assert (path.read_text("utf-8"), result["text"], result["path"]) == (text, None, str(path))
    (tmp_path / "empty").mkdir()
    for form, name, code in (
        ("jsonl", "all.jsonl", (3, "taken-name")), ("jsonl", "empty", (3, "taken-name")),
        ("jsonl", "none/x", (9, "filesystem")), ("markdown", "all.jsonl", (3, "taken-name")), ("notes", "all.jsonl", (3, "taken-name")),
        ("notes", ".", (3, "taken-name")), ("jsonl", work.vault / "x", (3, "bad-value")), ("notes", work.vault / "x", (3, "bad-value")),
        ("notes", work.vault, (3, "bad-value")),
    ):
        assert work.call("export", "--format", form, "--to", tmp_path / name).code == code, (form, name)
    assert work.call("export", "--format", "notes").code == (2, "usage")
    assert work.call("export", "--format", "yaml").code == (2, "usage")
    for name in ("empty", "new"):
        assert work.ok("export", "--format", "notes", "--to", tmp_path / name)["text"] is None
        assert (tmp_path / name / "MEMORY.md").is_file()
    assert path.read_text("utf-8") == text


@POSIX
def test_links_and_rights(work, tmp_path):
    """No link is written over, none leads into the vault, and what is written has the vault's rights."""
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "way").symlink_to(work.vault)
    assert work.call("export", "--to", tmp_path / "link").code == (3, "taken-name")
    assert work.call("export", "--to", tmp_path / "way" / "x").code == (3, "bad-value")
    work.ok("export", "--to", tmp_path / "file")
    work.ok("export", "--format", "notes", "--to", tmp_path / "notes")
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "file", tmp_path / "notes", *(tmp_path / "notes").iterdir())} == {0}


def test_nothing_is_changed(work):
    """An export writes nothing in the vault."""
    before = work.tree()
    work.ok("export")
    work.ok("export", "--format", "markdown")
    assert work.tree() == before


def test_what_was_begun_is_removed(work, tmp_path, monkeypatch):
    """Where the disk refuses, nothing half written is left, and what others wrote there stays."""
    written = []

    def write_some(descriptor, data):
        written.append(data)
        if len(written) == 3:
            (tmp_path / "notes" / "mine.txt").write_bytes(b"mine")
            raise OSError(28, "No space left on device")
        real(descriptor, data)

    real = work.engine.write_all
    monkeypatch.setattr(work.engine, "write_all", write_some)
    assert work.call("export", "--format", "notes", "--to", tmp_path / "notes").code == (9, "filesystem")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.txt"]


def test_what_is_written_meanwhile_is_not_in_it(work, monkeypatch):
    """An export is of one moment, whatever is recorded while it is made."""
    text, real = work.ok("export")["text"], vars(work.engine)["_list_runs"]

    def list_runs(state):
        runs = real(state)
        assert work.cli("propose", "--run", work.run, "--key", "late.one", "--tier", "2", "--new-subject", "--text", "x", "--vault",
                        work.vault).status == 0
        return runs

    monkeypatch.setattr(work.engine, "_list_runs", list_runs)
    assert work.ok("export")["text"] == text


@POSIX
def test_a_vault_that_cannot_be_written_or_is_damaged(work, read_only):
    """What can be read can be given out, with a warning where that is not all."""
    text = work.ok("export")["text"]
    read_only()
    assert work.ok("export")["text"] == text
    (work.vault / ".muniment").chmod(0o700)
    path = next((work.vault / ".muniment" / "ledger").iterdir())
    path.chmod(0o600)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:8], b"x" + lines[8], *lines[9:]]))
    work.healthy = False
    result = work.ok("export")
    assert result["warnings"]
    assert 0 < result["text"].count("\n") < text.count("\n")


def test_one_page(work):
    """What stands or stood, who said it, what is beside it, and the journals are on the page, and no text is more than text."""
    result = work.ok("export", "--format", "markdown")
    page = result["text"]
    assert re.findall("^#{1,3} .*", page, re.MULTILINE)[:4] == [
        "# Memory of " + work.ok("status")["id"], "## Decisions, facts, preferences, rules", "### a.held", "### a.rule"]
    for words in ("> One.", "> Two. \\<b>\\[[x\\]]\\</b>", "> # More", "> It changed.", "> Seen.", "> The second,", "status active",
                  "tier 3", "> A name.", "### History of a.gone", "## Closed", "Actor codex", "> # Not a heading", "ref D1:3"):
        assert words in page, words
    assert not re.search(r"(?<!\\)\[\[", page)
    assert "muniment view sha256" not in page
    assert (result["subjects"], result["entries"], result["runs"]) == (7, 1, len(work.records("run-open")))


def test_notes(work, tmp_path):
    """One note a present fact with properties that are read as they stand, linked among themselves, and a list of all with their texts."""
    folder = tmp_path / "notes"
    result = work.ok("export", "--format", "notes", "--to", folder)
    names = {"a.next.md", "a.rule.md", "a.fight.md", "a.settled.md", "a.held.md", "memory_.md"}
    assert {path.name for path in folder.iterdir()} == {*names, "MEMORY.md"}
    assert result["claims"] == result["subjects"] == len(names)
    index = (folder / "MEMORY.md").read_text("utf-8")
    assert set(re.findall(r"^- \[(.+)\]\((.+)\) ", index, re.MULTILINE)) == {
        ("memory" if name == "memory_.md" else name[:-3], name) for name in names}
    note = (folder / "a.next.md").read_text("utf-8")
    said, _, fault = work.engine.parse_properties(note.split("\n"))
    assert fault is None
    assert {name: said[name] for name in ("key", "tier", "status", "trust", "source", "tags")} == {
        "key": "a.next", "tier": "2", "status": "active", "trust": "working", "source": "agent", "tags": ["x"]}
    assert "- [a.rule](a.rule.md)\n" in note
    assert "[[" not in note.replace("\\[[", "")
    body = note.split("---\n")[2]
    said = [line for line in body.split("\n") if line and not line.startswith((">", "#", "- [a.rule]", "agent/working"))]
    assert said == []


def test_what_other_ledgers_hold(project, tmp_path):
    """A claim whose run and entry stand in a ledger that is not here is given out all the same, and comes in."""
    run = project.start("codex")
    entry = project.journal(run)
    other = another(project, tmp_path / "1")
    shutil.copytree(project.vault, other.vault)
    later = other.start("claude")
    other.fact(later, "a.b", "On it.", "--tier", "3", "--evidence", entry)
    for path in (other.vault / ".muniment" / "ledger").iterdir():
        if not (project.vault / ".muniment" / "ledger" / path.name).exists():
            path.rename(tmp_path / path.name)
    third = another(project, tmp_path / "2")
    third.ok("init", third.vault)
    shutil.copy(other.vault / ".muniment" / "format.json", third.vault / ".muniment" / "format.json")
    shutil.copy(next(tmp_path.glob("*.jsonl")), third.vault / ".muniment" / "ledger")
    made = another(project, tmp_path / "3")
    made.ok("init", made.vault)
    take(made, third.ok("export")["text"])
    assert made.current("a.b")["text"] == "On it."
    assert [body["text"] for _, body in made.records("journal")] == ["(not here)"]
    assert made.doctor() == []


def test_in_words(work, tmp_path):
    """Without --json an export to a file is told in one line."""
    assert work.cli("export", "--to", tmp_path / "x\u202e", plain=True).out.count("\n") == 1
