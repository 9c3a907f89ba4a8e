"""`restore`: a damaged or missing ledger comes back from sound lines of any copy, or the lines that are lost are recorded.

While it is damaged, `start`, `journal` and `propose` go on in a fresh ledger; what they recorded joins with what comes back.
"""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest
from conftest import Project
from crash_driver import Kept

OWNER = "--human-approved"
LOSS = ("restore", "--accept-loss", OWNER)


class Shelf:
    """A project's vault and another copy of it, each with a ledger of its own that the other has taken over."""

    def __init__(self, project):
        self.one = project
        self.one.ok("init", "--tracked", self.one.vault)
        self.run = fill(self.one, "one")
        self.other = self.copy("other")
        fill(self.other, "other")
        self.tags = {"own": self.one.tag(), "other": self.other.tag(of_others=[self.one.tag()])}
        self.give(self.other, self.one)
        self.one.ok("sync", "--run", self.run)
        self.give(self.one, self.other)
        self.views = self.one.views()
        self.facts = facts(self.one)

    def copy(self, name):
        """Make another copy of the vault: what git carries, and nothing of this machine."""
        other = Vault(self.one.folder.parent / name, self.one.engine)
        (other.vault / ".muniment" / "ledger").mkdir(parents=True)
        shutil.copy(self.one.vault / ".muniment" / "format.json", other.vault / ".muniment" / "format.json")
        self.give(self.one, other)
        return other

    def give(self, one, other):
        """Take over the ledgers of a copy that the other does not write."""
        for name, data in one.ledger().items():
            there = other.vault / ".muniment" / "ledger" / name
            if not there.exists() or there.stat().st_size < len(data):
                there.write_bytes(data)

    def backup(self, whose):
        """Copy a ledger to a file and return its path."""
        path = self.one.folder.parent / "backup.jsonl"
        shutil.copy(self.one.path(self.tags[whose]), path)
        return path

    def damage(self, whose, name):
        """Damage a ledger and return its bytes before and after, by line."""
        path = self.one.path(self.tags[whose])
        lines = path.read_bytes().splitlines(keepends=True)
        foreign = self.one.path(self.tags["other" if whose == "own" else "own"]).read_bytes().splitlines(keepends=True)
        data = DAMAGE[name](list(lines), foreign)
        assert data != b"".join(lines)
        path.write_bytes(data)
        return lines, data


class Vault(Project):
    """A Project that knows its ledgers by tag."""

    def tag(self, of_others=()):
        """Return the tag of the only ledger but those of others."""
        (name,) = {name[:8] for name in self.ledger()} - set(of_others)
        return name

    def path(self, tag):
        """Return the path of a ledger."""
        return self.vault / ".muniment" / "ledger" / (tag + ".jsonl")

    def repairs(self):
        """Return the bodies of the records of repairs."""
        return [body for _, body in self.records("recovery") if body["what"] in ("restored", "loss")]

    def kept(self):
        """Return the bytes of every file in recovery/."""
        folder = self.vault / ".muniment" / "recovery"
        return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}

    def state(self):
        """Return what the vault holds that a refused command must not change: all but the lock and the cache."""
        return {
            name: data for name, data in self.tree().items() if not name.startswith(".muniment/local/") or name.endswith("replica.json")
        }


def fill(project, name):
    """Let a run do something of everything; return it, open."""
    run = project.start()
    entry = project.journal(run, "Seen by %s." % name)
    project.fact(run, name + ".first", "First of %s." % name, "--evidence", entry)
    project.ok("propose", "--run", run, "--key", name + ".first", "--text", "Second of %s." % name, "--now")
    project.journal(run, "Seen again by %s." % name)
    project.fact(run, name + ".more", "More of %s." % name)
    project.owned(run, name + ".rule", "A rule of %s." % name, "--tier", "1")
    project.journal(run, "The last word of %s." % name)
    return run


def facts(project):
    """Return what the vault says of every subject and run."""
    return {name: data for name, data in project.views().items() if name.startswith(("notes/", "history/", "journal/", "conflicts/"))}


@pytest.fixture(scope="module")
def built(tmp_path_factory, engine):
    """Two copies of a vault that have exchanged their ledgers, and how they were then."""
    folder = tmp_path_factory.mktemp("restore") / "project"
    (folder / ".git").mkdir(parents=True)
    shelf = Shelf(Vault(folder, engine))
    return shelf, Kept(folder.parent)


@pytest.fixture
def shelf(built):
    """Return the two copies as they were made; they are put back in place, so that to the engine nothing has happened."""
    shelf, kept = built
    kept.put_back()
    return shelf


def canonical(value):
    """Return the bytes of a value as a ledger has them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(value):
    """Return the hash of a body or head."""
    return hashlib.sha256(canonical(value)).hexdigest()


def forged(lines, at, **changes):
    """Return a line whose body is changed and whose hashes are right by themselves."""
    record = json.loads(lines[at])
    record["body"].update(changes)
    record["head"]["body"] = sha256(record["body"])
    return canonical(record) + b"\n"


def joined(*parts):
    """Return lines as bytes."""
    return b"".join(part if isinstance(part, bytes) else b"".join(part) for part in parts)


#: What is done to the lines of a ledger, given those of another: in these every line is still there.
MENDABLE = {
    "crlf": lambda lines, foreign: b"".join(lines).replace(b"\n", b"\r\n"),
    "some-crlf": lambda lines, foreign: joined(lines[:3], lines[3][:-1] + b"\r\n", lines[4:]),
    "merge-marker": lambda lines, foreign: joined(
        lines[:4], b"<<<<<<< ours\n", lines[4:6], b"=======\n", lines[4:6], b">>>>>>> theirs\n", lines[6:]
    ),
    "merge-marker-at-the-end": lambda lines, foreign: joined(lines[:-1], b"<<<<<<< ours\n", lines[-1:], b"=======\n", b">>>>>>> theirs\n"),
    "bom": lambda lines, foreign: joined(b"\xef\xbb\xbf", lines),
    "swapped": lambda lines, foreign: joined(lines[:3], lines[4], lines[3], lines[5:]),
    "reversed": lambda lines, foreign: joined(lines[::-1]),
    "doubled": lambda lines, foreign: joined(lines[:4], lines[3], lines[4:]),
    "doubled-with-other-content": lambda lines, foreign: joined(lines[:3], lines[2], forged(lines, 2, text="Never said."), lines[3:]),
    "moved-in": lambda lines, foreign: joined(lines[:5], foreign[5], lines[5:]),
    "moved-in-at-the-end": lambda lines, foreign: joined(lines, foreign[-1]),
    "moved-in-as-the-first": lambda lines, foreign: joined(foreign[0], lines),
    "blank": lambda lines, foreign: joined(lines[:4], b"\n", lines[4:]),
    "garbage-between": lambda lines, foreign: joined(lines[:4], b"\x00\xff garbage\n", lines[4:]),
}
#: In these some are not.
LOSING = {
    "flipped-body": lambda lines, foreign: joined(lines[:5], lines[5].replace(b'"run":"R', b'"run":"S', 1), lines[6:]),
    "flipped-first": lambda lines, foreign: joined(lines[0].replace(b'"engine":"', b'"engine":"x', 1), lines[1:]),
    "flipped-last": lambda lines, foreign: joined(lines[:-1], lines[-1].replace(b'"salt":"', b'"salt":"0', 1)),
    "other-at": lambda lines, foreign: joined(lines[:5], lines[5].replace(b'"at":"2', b'"at":"3', 1), lines[6:]),
    "other-at-of-one": lambda lines, foreign: joined(lines[:7], lines[7].replace(b'"at":"2', b'"at":"1', 1), lines[8:]),
    "other-source": lambda lines, foreign: joined(lines[:3], lines[3].replace(b'"source":"agent"', b'"source":"user"', 1), lines[4:]),
    "other-trust": lambda lines, foreign: joined(lines[:3], lines[3].replace(b'"trust":"working"', b'"trust":"confirmed"', 1), lines[4:]),
    "other-kind": lambda lines, foreign: joined(lines[:2], lines[2].replace(b'"kind":"journal"', b'"kind":"mark"', 1), lines[3:]),
    "unknown-kind": lambda lines, foreign: joined(lines[:2], lines[2].replace(b'"kind":"journal"', b'"kind":"jovrnal"', 1), lines[3:]),
    "cut-out": lambda lines, foreign: joined(lines[:5], lines[6:]),
    "cut-out-of-a-unit": lambda lines, foreign: joined(lines[:4], lines[5:]),
    "older-over-newer": lambda lines, foreign: joined(lines[:5], lines[2], lines[6:]),
    "too-long": lambda lines, foreign: joined(lines[:5], b"x" * 300_000 + b"\n", lines[6:]),
    "not-utf8": lambda lines, foreign: joined(lines[:7], b"\xff" + lines[7], lines[8:]),
    "garbage": lambda lines, foreign: joined(lines[:5], b"garbage\n", lines[6:]),
    "nul-bytes": lambda lines, foreign: joined(lines[:5], b"\x00" * len(joined(lines[5:8])), lines[8:]),
    "foreign-in-its-place": lambda lines, foreign: joined(lines[:5], foreign[5], lines[6:]),
    "foreign-in-the-place-of-three": lambda lines, foreign: joined(lines[:5], foreign[7], lines[8:]),
    "foreign-behind-the-end": lambda lines, foreign: joined(lines[:5], lines[6:8], foreign[12], b"garbage\n" * (len(lines) - 8)),
    "twice": lambda lines, foreign: joined(lines[:2], lines[3:8], b"{}\n", lines[9:]),
    "two-crlf": lambda lines, foreign: joined(lines[:5], lines[6:]).replace(b"\n", b"\r\n"),
    "all-of-it": lambda lines, foreign: b"nothing of it is left\n" * len(lines),
}
DAMAGE = {**MENDABLE, **LOSING}
WHOSE = ("own", "other")
#: What `doctor` finds where a ledger is damaged.
BAD = (
    *("bad-json", "bad-head", "bad-hash", "bad-body", "bad-seq", "bad-prev", "bad-at", "bad-unit", "too-long", "crlf", "merge-marker"),
    *("torn", "cache-differs", "kept-missing", "kept-differs", "view-stale", "view-edited", "view-missing", "orphan", "doors"),
)


def check_mended(shelf, whose, lines, data, records=1):
    """What must hold once a ledger is whole again: its bytes, one record, the damaged bytes, the views, and nothing more to do."""
    one = shelf.one
    assert one.path(shelf.tags[whose]).read_bytes() == b"".join(lines)
    repairs = one.repairs()
    assert [(body["what"], body["path"]) for body in repairs] == [("restored", ".muniment/ledger/%s.jsonl" % shelf.tags[whose])] * records
    assert data in one.kept().values()
    assert facts(one) == shelf.facts
    again = one.call("restore")
    assert (again.status, again["restored"]) == (0, [])
    assert one.repairs() == repairs
    assert one.doctor() == []


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("name", MENDABLE)
def test_without_a_copy(shelf, name, whose):
    """Where every line is still there, whatever stands between them, the file mends itself."""
    lines, data = shelf.damage(whose, name)
    assert shelf.one.call("doctor").status == 7
    reply = shelf.one.call("restore")
    assert (reply.status, [row["tag"] for row in reply["restored"]]) == (0, [shelf.tags[whose]])
    check_mended(shelf, whose, lines, data)


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("name", LOSING)
def test_from_a_backup(shelf, name, whose):
    """Where lines are not there, `restore` alone is refused and changes nothing; with a backup the ledger is whole again."""
    backup = shelf.backup(whose)
    lines, data = shelf.damage(whose, name)
    assert shelf.one.call("doctor").status == 7
    before = shelf.one.state()
    assert shelf.one.call("restore").code == (3, "short-copy")
    assert shelf.one.state() == before
    assert shelf.one.call("restore", "--from", backup).status == 0
    check_mended(shelf, whose, lines, data)


def lost_spans(lines, data):
    """Return the spans of those lines of which no whole unit is in the bytes: found by looking, without the engine."""
    there = {line.strip(b"\r\n") for line in data.replace(b"\xef\xbb\xbf", b"").split(b"\n")}
    lost, unit = [], []
    for seq, line in enumerate(lines):
        unit.append((seq, line.strip(b"\n") in there))
        if "unit" in json.loads(line)["head"]:
            lost += [n for n, _ in unit] if not all(is_there for _, is_there in unit) else []
            unit = []
    spans = []
    for seq in lost:
        if spans and spans[-1][1] == seq - 1:
            spans[-1][1] = seq
        else:
            spans.append([seq, seq])
    return spans


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("name", LOSING)
def test_accept_loss(shelf, name, whose):
    """The owner gives up exactly the lines of which no whole unit is left; all others count, and in a copy that has them all too."""
    lines, data = shelf.damage(whose, name)
    spans = lost_spans(lines, data)
    assert spans
    assert shelf.one.call("restore", "--accept-loss").code == (3, "needs-approval")
    reply = shelf.one.call(*LOSS)
    assert (reply.status, [row["lost"] for row in reply["restored"]]) == (0, [spans])
    assert [(body["what"], body["lines"]) for body in shelf.one.repairs()] == [("loss", spans)]
    assert data in shelf.one.kept().values()
    path = shelf.one.path(shelf.tags[whose])
    kept = [line for seq, line in enumerate(lines) if not any(first <= seq <= last for first, last in spans)]
    assert path.read_bytes() == b"".join(kept)
    assert [f for f in shelf.one.doctor() if f["kind"] in BAD] == []
    tree = shelf.one.state()
    again = shelf.one.call(*LOSS)
    assert (again.status, again["restored"]) == (0, [])
    assert shelf.one.state() == tree
    shelf.give(shelf.one, shelf.other)
    assert shelf.other.path(shelf.tags[whose]).read_bytes() == b"".join(lines)
    assert shelf.other.call("rebuild").status == 0
    assert shelf.one.call("rebuild").status == 0
    assert shelf.other.views() == shelf.one.views()


# -- where a copy may be --


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("form", ["file", "other-name", "crlf", "ledgers", "private", "vault"])
def test_forms_of_a_copy(shelf, form, whose):
    """A copy is a file of any name, with any line ends, or a folder that holds ledgers, or a copy of the vault."""
    backup = shelf.backup(whose)
    folder = shelf.one.folder.parent / "kept"
    shutil.copytree(shelf.one.vault, folder)
    paths = {
        "file": folder / ".muniment" / "ledger" / (shelf.tags[whose] + ".jsonl"),
        "other-name": backup,
        "crlf": backup,
        "ledgers": folder / ".muniment" / "ledger",
        "private": folder / ".muniment",
        "vault": folder,
    }
    if form == "crlf":
        backup.write_bytes(backup.read_bytes().replace(b"\n", b"\r\n"))
    lines, data = shelf.damage(whose, "flipped-body")
    reply = shelf.one.call("restore", "--from", paths[form])
    assert (reply.status, [(row["tag"], row["lost"]) for row in reply["restored"]]) == (0, [(shelf.tags[whose], [])])
    check_mended(shelf, whose, lines, data)


@pytest.mark.parametrize("whose", WHOSE)
def test_relative_path(shelf, whose):
    """A path is taken from the folder where the command is given; in a process of its own, as the owner does."""
    backup = shelf.backup(whose)
    lines, data = shelf.damage(whose, "cut-out")
    reply = shelf.one.cli("restore", "--from", backup.name, "--vault", shelf.one.vault, cwd=backup.parent)
    assert reply.status == 0, reply
    check_mended(shelf, whose, lines, data)


def test_human_output(shelf):
    """In words the ledger is named, with where its damaged bytes are."""
    shelf.damage("own", "swapped")
    out = shelf.one.call("restore", plain=True).out
    assert shelf.tags["own"] in out
    assert all(name in out for name in shelf.one.kept())
    assert shelf.one.call("restore", plain=True).out.strip()


@pytest.mark.parametrize("whose", WHOSE)
def test_backup_and_damaged_file_together(shelf, whose):
    """A backup that is older than the damage, and damaged itself, may do with what is still there: the chain joins them."""
    backup = shelf.backup(whose)
    lines, data = shelf.damage(whose, "flipped-body")
    backup.write_bytes(joined(lines[:2], b"gone\n", lines[3:8]))
    assert shelf.one.call("restore", "--from", backup).status == 0
    check_mended(shelf, whose, lines, data)


@pytest.mark.parametrize("whose", WHOSE)
def test_older_backup(shelf, whose):
    """A backup that does not reach as far as the ledger went is refused where the file itself does not hold the rest."""
    backup = shelf.backup(whose)
    lines, _ = shelf.damage(whose, "all-of-it")
    backup.write_bytes(joined(lines[:8]))
    before = shelf.one.state()
    assert shelf.one.call("restore", "--from", backup).code == (3, "short-copy")
    assert shelf.one.state() == before


@pytest.mark.parametrize("how", ["cut", "emptied", "gone", "folder-gone"])
@pytest.mark.parametrize("whose", WHOSE)
def test_missing_lines(shelf, whose, how):
    """A ledger that was cut at a whole unit, emptied or removed is no damage, and comes back from a backup."""
    backup = shelf.backup(whose)
    path = shelf.one.path(shelf.tags[whose])
    lines = path.read_bytes().splitlines(keepends=True)
    if how == "folder-gone":
        folder = shelf.one.folder.parent / "ledgers"
        shutil.copytree(path.parent, folder)
        shutil.rmtree(path.parent)
        backup = folder
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"".join(lines[: 8 if how == "cut" else 0]))
    assert shelf.one.call("status").status == 0
    assert shelf.one.call("restore").status == 0
    assert shelf.one.repairs() == []
    reply = shelf.one.call("restore", "--from", backup)
    assert (reply.status, shelf.tags[whose] in [row["tag"] for row in reply["restored"]]) == (0, True)
    assert path.read_bytes() == b"".join(lines)
    assert facts(shelf.one) == shelf.facts
    assert shelf.one.doctor() == []
    again = shelf.one.call("restore", "--from", backup)
    assert (again.status, again["restored"]) == (0, [])


def test_only_what_is_named(shelf):
    """A backup of one ledger mends that one, also while another is damaged and has no copy; the other is told, and stays."""
    for whose, rest in (("own", "other"), ("other", "own")):
        backup = shelf.backup(whose)
        lines, _ = shelf.damage(whose, "flipped-body")
        _, left = shelf.damage(rest, "cut-out")
        reply = shelf.one.call("restore", "--from", backup)
        assert reply.status in (0, 7), reply
        assert shelf.one.path(shelf.tags[whose]).read_bytes() == b"".join(lines)
        assert shelf.one.path(shelf.tags[rest]).read_bytes() == left
        shelf.one.path(shelf.tags[rest]).write_bytes(shelf.other.path(shelf.tags[rest]).read_bytes())


def test_refused_as_a_whole(shelf):
    """A refusal changes nothing, also where another ledger could have been mended by the same command."""
    for whose in WHOSE:
        shelf.damage(whose, "swapped" if shelf.tags[whose] == min(shelf.tags.values()) else "flipped-body")
    before = shelf.one.state()
    assert shelf.one.call("restore").code == (3, "short-copy")
    assert shelf.one.state() == before


def test_mode_is_kept(shelf):
    """A mended ledger may be read by whom it could be read before."""
    path = shelf.one.path(shelf.tags["own"])
    mode = path.stat().st_mode
    shelf.damage("own", "swapped")
    shelf.one.ok("restore")
    assert path.stat().st_mode == mode


# -- copies that do not fit --


def test_not_a_copy(shelf, tmp_path):
    """What is missing, empty, no ledger, or the ledger of another vault mends nothing and changes nothing."""
    shelf.damage("own", "flipped-body")
    foreign = Vault(tmp_path / "foreign", shelf.one.engine)
    (foreign.folder / ".git").mkdir(parents=True)
    foreign.ok("init", foreign.vault)
    fill(foreign, "foreign")
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.md").write_text("A note.")
    before = shelf.one.state()
    for path, statuses in (("absent", (5, 9)), ("empty", (3,)), ("note.md", (3,)), ("foreign/memory", (3,))):
        reply = shelf.one.call("restore", "--from", tmp_path / path)
        assert reply.status in statuses, (path, reply)
        assert shelf.one.state() == before
    renamed = tmp_path / (shelf.tags["own"] + ".jsonl")
    shutil.copy(foreign.path(foreign.tag()), renamed)
    assert shelf.one.call("restore", "--from", renamed).code == (3, "short-copy")
    assert shelf.one.state() == before


def test_copy_of_a_ledger_that_is_not_here(shelf, tmp_path):
    """A copy of another vault, offered to a whole one, brings nothing in."""
    foreign = Vault(tmp_path / "foreign", shelf.one.engine)
    (foreign.folder / ".git").mkdir(parents=True)
    foreign.ok("init", foreign.vault)
    fill(foreign, "foreign")
    before = shelf.one.state()
    reply = shelf.one.call("restore", "--from", foreign.vault)
    assert reply.status in (0, 3), reply
    assert shelf.one.state() == before


def test_usage(call):
    """Lines are given up only where no copy is named by the same command."""
    assert call("restore", "--from", "x", "--accept-loss", OWNER).status == 2
    assert call("restore", "--from-git", "--accept-loss", OWNER).status == 2
    assert call("restore", "--from-git=--output=x").status == 2


@pytest.mark.parametrize("whose", WHOSE)
def test_several_copies(shelf, whose):
    """Several copies together mend what none of them holds alone."""
    lines, data = shelf.damage(whose, "all-of-it")
    halves = [shelf.one.folder.parent / name / (shelf.tags[whose] + ".jsonl") for name in ("first", "second")]
    for half in halves:
        half.parent.mkdir()
    halves[0].write_bytes(joined(lines[:7]))
    halves[1].write_bytes(joined(lines[6:]))
    for half in halves:
        assert shelf.one.call("restore", "--from", half).code == (3, "short-copy")
    assert shelf.one.call("restore", "--from", halves[1], "--from", halves[0]).status == 0
    check_mended(shelf, whose, lines, data)


def test_nothing_to_do(call, project):
    """In a whole vault nothing is restored and nothing is recorded."""
    fill(project, "one")
    project.ok("status")
    before = project.records()
    for words in (("restore",), ("restore", "--from", project.vault), LOSS):
        reply = call(*words)
        assert (reply.status, reply["restored"]) == (0, [])
        assert project.records() == before


def test_newer_engine(shelf):
    """A line that only a newer engine folds is no damage to be mended: exit 8, and nothing changes."""
    path = shelf.one.path(shelf.tags["own"])
    lines = path.read_bytes().splitlines(keepends=True)
    head = json.loads(lines[-1])["head"]
    record = {"body": {"salt": "0" * 32}, "head": dict(head, seq=head["seq"] + 1, unit=1, kind="zebra", at="2999-01-01T00:00:00.000Z")}
    record["head"].update(body=sha256(record["body"]), prev=sha256(head))
    path.write_bytes(joined(lines, canonical(record) + b"\n"))
    before = shelf.one.state()
    for words in (("restore",), LOSS):
        assert shelf.one.call(*words).code == (8, "newer-format")
        assert shelf.one.state() == before


@pytest.mark.parametrize("whose", WHOSE)
def test_newer_engine_and_damage(shelf, whose):
    """Lines of a newer engine in a damaged ledger are kept as they are, and never given up by an older one."""
    path = shelf.one.path(shelf.tags[whose])
    lines = path.read_bytes().splitlines(keepends=True)
    head = json.loads(lines[-1])["head"]
    record = {"body": {"salt": "0" * 32}, "head": dict(head, seq=head["seq"] + 1, unit=1, kind="zebra", at="2999-01-01T00:00:00.000Z")}
    record["head"].update(body=sha256(record["body"]), prev=sha256(head))
    newer = canonical(record) + b"\n"
    path.write_bytes(joined(lines, newer).replace(b"\n", b"\r\n"))
    assert shelf.one.call("restore").status in (0, 8)
    path.write_bytes(joined(lines[:5], b"gone\n", lines[6:], newer))
    assert shelf.one.call(*LOSS).status in (0, 8)
    assert path.read_bytes().endswith(newer)
    assert all(last < len(lines) for body in shelf.one.repairs() for _, last in body.get("lines", ()))


def fork(shelf, whose, at, text):
    """Return the bytes of a ledger that goes another way behind a line: a longer one, every hash of it right."""
    lines = shelf.one.path(shelf.tags[whose]).read_bytes().splitlines(keepends=True)
    made, head = lines[:at], json.loads(lines[at - 1])["head"]
    run = "R1-" + shelf.tags[whose]
    for n in range(len(lines)):
        body = {"importance": 3, "run": run, "salt": "%032x" % n, "text": text}
        head = {"at": "2999-01-01T00:00:%02d.000Z" % n, "body": sha256(body), "kind": "journal", "prev": sha256(head), "seq": at + n}
        head["unit"] = 1
        made.append(canonical({"body": body, "head": head}) + b"\n")
    return b"".join(made)


@pytest.mark.parametrize("whose", WHOSE)
def test_fork_is_refused(shelf, whose):
    """A copy that goes another way, however long, does not take the place of lines that count here."""
    backup = shelf.one.folder.parent / "backup.jsonl"
    backup.write_bytes(fork(shelf, whose, 7, "Never said."))
    before = shelf.one.state()
    reply = shelf.one.call("restore", "--from", backup)
    assert reply.status in (0, 3), reply
    assert shelf.one.state() == before
    lines, data = shelf.damage(whose, "some-crlf")
    assert shelf.one.call("restore", "--from", backup).status in (0, 3)
    assert shelf.one.call("restore").status == 0
    check_mended(shelf, whose, lines, data)


def test_rewritten_own_ledger(shelf):
    """An own ledger whose lines were written anew from some point on, every hash right, comes back from a backup that reaches the tail."""
    path = shelf.one.path(shelf.tags["own"])
    backup = shelf.backup("own")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(fork(shelf, "own", 7, "Never said.").splitlines(keepends=True)[: len(lines)]))
    reply = shelf.one.call("restore", "--from", backup)
    assert (reply.status, [row["tag"] for row in reply["restored"]]) == (0, [shelf.tags["own"]])
    assert path.read_bytes() == b"".join(lines)
    assert facts(shelf.one) == shelf.facts
    assert shelf.one.doctor() == []


def test_lines_that_are_not_here_yet(shelf):
    """What another copy wrote and this one has not got yet is not lost, though a third has read it: it comes, and counts."""
    one, other = shelf.one, shelf.other
    run = other.start("claude")
    other.journal(run, "Seen since.")
    third = shelf.copy("third")
    shelf.give(other, third)
    third.ok("sync", "--run", third.start("gemini"))
    shelf.give(third, one)
    path = one.path(shelf.tags["other"])
    there = path.read_bytes()
    ahead = other.path(shelf.tags["other"]).read_bytes()
    cut = b"".join(ahead.splitlines(keepends=True)[:13])
    for data, words, status in ((cut.replace(b"\n", b"\r\n"), ("restore",), 0), (joined(cut[:-300], b"\n"), LOSS, 0)):
        assert len(there) >= len(cut)
        path.write_bytes(data)
        assert one.call(*words).status == status
    assert [body["lines"] for body in one.repairs() if body["what"] == "loss"] == [[[12, 12]]]
    path.write_bytes(ahead)
    assert one.call("status").status == 0
    assert "Seen since." in one.views()["journal/%s.md" % run].decode()


# -- git --


@pytest.fixture
def committed(shelf, git):
    """Return the two copies, the first in a repository in which its ledgers were committed, line ends and all."""
    folder = shelf.one.folder
    shutil.rmtree(folder / ".git", ignore_errors=True)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return shelf


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("words", [("--from-git",), ("--from-git", "HEAD"), ("--from-git", "HEAD~1"), ("--from-git", "kept")])
def test_from_git(committed, git, words, whose):
    """What git holds mends a ledger: at a revision, or at any commit; also where a later commit took the damage in."""
    shelf, folder = committed, committed.one.folder
    git(folder, "tag", "kept")
    lines, data = shelf.damage(whose, "flipped-body")
    if words != ("--from-git", "HEAD"):
        git(folder, "commit", "-q", "-a", "-m", "the damage")
    assert shelf.one.call("restore", *words).status == 0
    check_mended(shelf, whose, lines, data)


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("how", ["gone", "folder-gone", "cut"])
def test_missing_lines_from_git(committed, whose, how):
    """A ledger that is gone, or ends early, comes back from git."""
    shelf = committed
    path = shelf.one.path(shelf.tags[whose])
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(joined(data.splitlines(keepends=True)[:8]))
    elif how == "gone":
        path.unlink()
    else:
        shutil.rmtree(path.parent)
    reply = shelf.one.call("restore", "--from-git")
    assert (reply.status, shelf.tags[whose] in [row["tag"] for row in reply["restored"]]) == (0, True)
    assert path.read_bytes() == data
    assert facts(shelf.one) == shelf.facts
    assert shelf.one.doctor() == []


def test_git_holds_too_little(committed):
    """Where no commit holds what is missing, a revision does not exist, or there is no repository, it is refused, and nothing changes."""
    shelf = committed
    shelf.one.journal(shelf.run, "Not committed.")
    path = shelf.one.path(shelf.tags["own"])
    path.write_bytes(path.read_bytes().replace(b"Not committed.", b"Not forgotten."))
    before = shelf.one.state()
    for words in (("--from-git",), ("--from-git", "HEAD"), ("--from-git", "no-such-revision")):
        assert shelf.one.call("restore", *words).code == (3, "short-copy"), words
        assert shelf.one.state() == before
    assert shelf.one.call("restore", "--from-git=--output=x").status == 2
    shutil.rmtree(shelf.one.folder / ".git")
    assert shelf.one.call("restore", "--from-git").status == 3
    assert not (shelf.one.folder / "x").exists()


def test_revision_that_is_none(committed):
    """A revision that git does not know is refused in a whole vault too: nothing was looked at."""
    assert committed.one.call("restore", "--from-git", "no-such-revision").status == 3


def test_without_git(shelf, tmp_path):
    """Where the program git is not there, that is said (exit 8)."""
    shelf.damage("own", "flipped-body")
    reply = shelf.one.cli("restore", "--from-git", "--vault", shelf.one.vault, env={"PATH": str(tmp_path)})
    assert reply.code == (8, "missing-package")


# -- while it is damaged --


def commands_over_damage(open_run):
    """Return command lines and what becomes of them over a damaged ledger."""
    return (
        (("start", "--actor", "codex"), 0),
        (("journal", "--run", open_run, "--text", "Meanwhile."), 0),
        (("propose", "--run", open_run, "--key", "mean.while", "--tier", "2", "--new-subject", "--text", "Meanwhile."), 0),
        (("sync", "--run", open_run), 7),
        (("propose", "--run", open_run, "--key", "mean.other", "--tier", "2", "--new-subject", "--text", "Now.", "--now"), 7),
        (("close", "--run", open_run, "--outcome", "success", "--summary", "Done."), 7),
        (("config", "hot-lines", "50", OWNER), 7),
        (("resolve", "C-000000", "--choose", "current", OWNER), 7),
        (("rebuild",), 7),
        (("erase", "--text", "Something of that", OWNER), 7),
        (("status",), 0),
        (("recall", "--prefix", "one"), 0),
        (("log",), 0),
        (("review",), 0),
        (("search", "rule"), 0),
        (("doctor",), 7),
    )


@pytest.mark.parametrize("whose", WHOSE)
def test_work_over_damage(shelf, whose):
    """Over a damaged ledger what only adds goes on, in a fresh one where it is the own; what decides ends with 7 and records nothing."""
    one = shelf.one
    backup = shelf.backup(whose)
    lines, data = shelf.damage(whose, "flipped-body")
    run = one.start("gemini")
    for words, status in commands_over_damage(run):
        records = one.ledger()
        reply = one.call(*words)
        assert reply.status == status, (words, reply)
        if status == 7:
            assert one.ledger() == records, words
            assert words == ("doctor",) or reply.error["code"] == "damaged"
        elif words[0] in ("status", "recall", "log", "review", "search"):
            assert reply["warnings"], words
    assert one.path(shelf.tags[whose]).read_bytes() == data
    idle = one.start("idle")
    assert one.close(idle).status == 0
    assert len(one.ledger()) == (3 if whose == "own" else 2)
    assert one.call("restore", "--from", backup).status == 0
    assert one.path(shelf.tags[whose]).read_bytes() == b"".join(lines)
    assert one.ok("recall", "one.rule")["current"]["text"] == "A rule of one."
    assert one.call("sync", "--run", run).status == 0
    assert one.current("mean.while")["text"] == "Meanwhile."
    assert one.close(run).status == 0
    assert one.doctor() == []
    shelf.give(one, shelf.other)
    assert shelf.other.call("rebuild").status == 0
    assert shelf.other.views() == one.views()


def test_join_with_what_comes_back(shelf):
    """What was proposed while later lines could not be read stands beside what they say, and the owner is asked."""
    one = shelf.one
    backup = shelf.backup("own")
    shelf.damage("own", "flipped-body")  # the second value of one.first
    run = one.start("gemini")
    one.stage(run, "one.first", "Third of one.")
    assert one.call("restore", "--from", backup).status == 0
    assert one.call("sync", "--run", run).status == 4
    found = one.ok("recall", "one.first")
    assert {found["current"]["text"], *(c["text"] for c in found["contenders"])} == {"Second of one.", "Third of one."}
    assert one.doctor() == []


def test_old_run_goes_on(shelf):
    """A run of the damaged ledger that can still be read journals on, in the fresh one; after the repair its entries are one story."""
    one = shelf.one
    backup = shelf.backup("own")
    shelf.damage("own", "flipped-last")
    one.journal(shelf.run, "Meanwhile.")
    assert one.call("restore", "--from", backup).status == 0
    page = one.views()["journal/%s.md" % shelf.run].decode()
    assert page.index("The last word of one.") < page.index("Meanwhile.")
    assert one.close(shelf.run).status == 0
    assert one.doctor() == []


def test_no_more_lines_after_a_loss(shelf):
    """A ledger that lost lines gets no more: whoever has the good lines could not tell which are meant."""
    one = shelf.one
    shelf.damage("own", "flipped-last")
    one.ok(*LOSS)
    before = one.path(shelf.tags["own"]).read_bytes()
    run = one.start()
    one.journal(run, "After it.")
    assert one.path(shelf.tags["own"]).read_bytes() == before
    assert one.close(run).status == 0
    assert one.doctor() == []


def test_losses_add_up(shelf):
    """Losses of one ledger in two copies, each of other lines, join: both count nothing of either, and end with the same views."""
    one, other = shelf.one, shelf.other
    lines, _ = shelf.damage("own", "flipped-body")  # 5 and 6
    one.ok(*LOSS)
    path = other.path(shelf.tags["own"])
    path.write_bytes(joined(lines[:7], b"gone\n", lines[8:]))
    other.ok(*LOSS)
    shelf.give(one, other)
    shelf.give(other, one)
    for copy in (one, other):
        assert copy.call("rebuild").status == 0
        assert [f for f in copy.doctor() if f["kind"] in BAD] == []
    assert one.views() == other.views()
    path.write_bytes(joined(lines[:5], lines[8:]))
    assert other.call("rebuild").status == 0
    assert one.views() == other.views()


def test_loss_is_told_where_the_lines_are_whole(shelf):
    """A copy whose own whole lines were given up elsewhere is told so by doctor: nothing stops counting in silence."""
    shelf.damage("other", "flipped-body")
    shelf.one.ok(*LOSS)
    shelf.give(shelf.one, shelf.other)
    for copy in (shelf.one, shelf.other):
        found = [f for f in copy.call("doctor")["findings"] if f["kind"] == "given-up"]
        assert [(f["severity"], f["path"]) for f in found] == [("notice", str(copy.path(shelf.tags["other"])))]


def test_damage_after_a_loss(shelf):
    """A ledger that lost lines once is mended like any other, and loses again only what is lost by then."""
    one = shelf.one
    lines, _ = shelf.damage("other", "flipped-body")
    one.ok(*LOSS)
    path = one.path(shelf.tags["other"])
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"\n", b"\r\n"))
    assert one.call("restore").status == 0
    assert path.read_bytes() == whole
    path.write_bytes(joined(lines[:2], b"gone\n", lines[3:5], lines[7:]))
    assert one.call("restore").code == (3, "short-copy")
    assert one.call(*LOSS).status == 0
    assert sorted(span for body in one.repairs() if body["what"] == "loss" for span in body["lines"]) == [[2, 2], [5, 6]]
    assert path.read_bytes() == joined(lines[:2], lines[3:5], lines[7:])
    assert [f for f in one.doctor() if f["kind"] in BAD] == []


def test_good_copy_after_a_loss(shelf):
    """Lines that were given up do not count again because a good copy of them is offered."""
    one = shelf.one
    backup = shelf.backup("other")
    shelf.damage("other", "flipped-body")
    one.ok(*LOSS)
    views = one.views()
    assert one.call("restore", "--from", backup).status == 0
    assert one.call("rebuild").status == 0
    assert one.views() == views
    assert [f for f in one.doctor() if f["kind"] in BAD] == []


# -- killed --


KILLED = {
    "swapped": ("own", "swapped", ("restore",), "restored"),
    "backup": ("other", "flipped-body", ("restore", "--from", "{backup}"), "restored"),
    "loss": ("own", "flipped-body", LOSS, "loss"),
    "loss-of-another": ("other", "cut-out", LOSS, "loss"),
}


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", KILLED)
def test_killed(shelf, driver, name, every):
    """Ended at any call that touches the disk, a repair is done by the same command again, and recorded once."""
    whose, damage, words, what = KILLED[name]
    backup = shelf.backup(whose)
    _, data = shelf.damage(whose, damage)
    words = ("--vault", str(shelf.one.vault), *(word.format(backup=backup) for word in words))
    kept = Kept(shelf.one.folder)
    outcome = driver.run(shelf.one.folder, *words)
    assert outcome.status == 0, outcome
    done, views = shelf.one.path(shelf.tags[whose]).read_bytes(), facts(shelf.one)
    for at in range(1, len(outcome.calls) + 1, every):
        kept.put_back()
        ended = driver.run(shelf.one.folder, *words, fault={"at": at, "action": "before"})
        assert ended.status is None, (at, outcome.calls[at - 1])
        there = shelf.one.path(shelf.tags[whose]).read_bytes()
        assert there in (data, done), (at, outcome.calls[at - 1])
        again, once_more, health = driver.run_all(shelf.one.folder, words, words, ("--vault", str(shelf.one.vault), "doctor"))
        assert (again.status, once_more.status, once_more.json["restored"]) == (0, 0, []), (at, outcome.calls[at - 1], again, once_more)
        assert health.status == 0, (at, health)
        assert [body["what"] for body in shelf.one.repairs()] == [what], (at, outcome.calls[at - 1])
        assert shelf.one.path(shelf.tags[whose]).read_bytes() == done
        assert data in shelf.one.kept().values()
        assert facts(shelf.one) == views
