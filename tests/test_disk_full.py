"""A disk that refuses: full, over quota, read-only, failing or busy; what was acknowledged stays, nothing half made does.

On a real small filesystem where one can be mounted (root on Linux), and everywhere by errors that are raised at one
call of `os` that touches the vault. A command that fails exits 9 and names path and reason; one that is done warns of
what it could not write. Once there is room, the next command brings everything in line.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from crash_driver import Kept
from scratch import Scratch, engine
from small_disk import fill, mounted

ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EIO", "EBUSY")
#: Functions of `os` that fail, and the errors that each can give.
CALLS = {"open": ERRORS, "write": ("ENOSPC", "EDQUOT", "EIO"), "fsync": ("ENOSPC", "EDQUOT", "EIO"), "replace": ERRORS,
         "unlink": ("EROFS", "EIO", "EBUSY"), "mkdir": ("ENOSPC", "EROFS"), "ftruncate": ("EIO", "EROFS")}
BY = ("--tier", "2", "--new-subject", "--text")
LONG = "A long entry. " * 280


class Tried:
    """A vault in which commands are tried over and over, each time from the same state."""

    def __init__(self, folder):
        self.scratch = scratch = Scratch(folder)
        self.folder, self.root = scratch.folder, scratch.vault
        scratch.ok("init")
        self.run = scratch.json("start", "--actor", "codex")[1]["run"]
        scratch.ok("journal", "--run", self.run, "--text", "Seen.", "--ref", "log-1")
        scratch.ok("propose", "--run", self.run, "--key", "shop.next", *BY, "Retry twice.", "--now")
        scratch.run("propose", "--run", self.run, "--key", "stack.db", "--tier", "1", "--new-subject", "--text", "SQLite.", "--now")
        self.handle = scratch.json("review", "stack.db")[1]["questions"][0]["handle"]
        self.secret = scratch.json("journal", "--run", self.run, "--text", "The word is swordfish.")[1]["entry"]
        note = self.root / "notes" / "shop.next.md"
        note.write_bytes(note.read_bytes().replace(b"Retry twice.", b"Retry four times."))
        self.edit = scratch.json("review", "--all")[1]["edits"][0]["handle"]
        self.keep()

    def keep(self):
        """Take the present state as the one to come back to."""
        self.kept, self.ledgers = Kept(self.root), self.read_ledgers()

    def put_back(self):
        """Make the vault what it was."""
        self.kept.put_back()

    def read_ledgers(self):
        """Return the bytes of every ledger."""
        return {p.name: p.read_bytes() for p in sorted((self.root / ".muniment" / "ledger").iterdir())}

    def added(self):
        """Return the kinds that were added; what was there must be there to the byte, and no line may be torn."""
        kinds = []
        for name, data in self.read_ledgers().items():
            before = self.ledgers.get(name, b"")
            assert data.startswith(before), name
            assert data[-1:] in (b"", b"\n"), name
            kinds += [json.loads(line)["head"]["kind"] for line in data[len(before):].splitlines()]
        return kinds

    def check_views(self):
        """No view is half written."""
        paths = [*self.root.glob("*.md"), *(p for name in engine.FOLDERS for p in (self.root / name).glob("*.md"))]
        assert [p for p in paths if not engine.is_sealed(p.read_bytes())] == []

    def check_after(self, warns=False):
        """The next command is done, with nothing to say unless it ``warns`` of what it had to complete, and the vault is sound."""
        status, answer = self.scratch.json("start", "--actor", "next")
        assert status == 0, answer
        assert warns or not answer["warnings"], answer
        status, answer = self.scratch.json("doctor", "--strict")
        assert (status, answer["findings"]) == (0, [])
        assert [p for p in self.root.rglob("*") if ".tmp" in p.name] == []

    def judge(self, status, answer, kind, quiet=False):
        """Judge the end of a command that was to record ``kind``; return whether it did."""
        added = self.added()
        self.check_views()
        if status == 9:
            assert (answer["code"], kind in added) == ("filesystem", False), answer
            assert "/project" in answer["message"] or "state.sqlite" in answer["message"], answer
            return False
        assert (status in (0, 4), kind in added) == (True, True), answer
        assert answer["warnings"] or quiet, answer
        return True


#: Name -> (command, the kind that it records).
COMMANDS = {
    "journal": (("journal", "--run", "{run}", "--text", "New."), "journal"),
    "propose": (("propose", "--run", "{run}", "--key", "shop.next", "--text", "Retry thrice.", "--now"), "proposal"),
    "start": (("start", "--actor", "claude"), "run-open"),
    "resolve": (("resolve", "{handle}", "--choose", "accept", "--human-approved"), "resolution"),
    "adopt": (("resolve", "{edit}", "--choose", "adopt", "--human-approved"), "resolution"),
    "close": (("close", "--run", "{run}", "--outcome", "success", "--summary", "Done."), "run-close"),
}


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """A vault on the disk that the tests run on."""
    return Tried(tmp_path_factory.mktemp("tried"))


def words_of(tried, name):
    """Return a command's words and the kind that it records."""
    words, kind = COMMANDS[name]
    return [w.format(run=tried.run, handle=tried.handle, edit=tried.edit) for w in words], kind


# -- errors at one call --


class Faulty:
    """Functions of `os` that raise an error, or let a file vanish first, at one of the calls that touch a vault."""

    def __init__(self, tried, monkeypatch, at=0, error=""):
        self.root, self.at, self.error, self.calls, self.names = str(tried.root), at, error, [], {}
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name)))

    def wrap(self, name, real):
        """Return a function that counts its calls and fails at one."""
        def wrapped(first, *args, **named):
            path = str(args[0] if name == "replace" else self.names.get(first, first))
            writes = name != "open" or (args[0] if args else named["flags"]) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if path.startswith(self.root) and writes:
                self.calls.append((name, path))
                if len(self.calls) == self.at:
                    number = getattr(errno, self.error)
                    raise OSError(number, os.strerror(number), *([] if name in ("write", "fsync", "ftruncate") else [path]))
            result = real(first, *args, **named)
            if name == "open":
                self.names[result] = path
            return result
        return wrapped


def count_calls(tried, words):
    """Return the calls that a command makes undisturbed, as (name, path)."""
    tried.put_back()
    with pytest.MonkeyPatch.context() as patch:
        faulty = Faulty(tried, patch)
        status, answer = tried.scratch.json(*words)
    assert status in (0, 4), answer
    return faulty.calls


def fail_each(tried, name, errors, step=1):
    """Let each call of a command fail with each of some errors; return the set of whether it was recorded."""
    words, kind = words_of(tried, name)
    calls, recorded = count_calls(tried, words), set()
    for at, (call, path) in list(enumerate(calls, 1))[::step]:
        for error in set(errors) & set(CALLS[call]):
            tried.put_back()
            with pytest.MonkeyPatch.context() as patch:
                Faulty(tried, patch, at, error)
                status, answer = tried.scratch.json(*words)
            quiet = call == "mkdir" or path.endswith(("lock", ".sqlite", ".sqlite-wal", ".sqlite-shm"))
            try:
                recorded.add(tried.judge(status, answer, kind, quiet))
                tried.check_after()
            except AssertionError as error_found:
                raise AssertionError("%s at call %d, %s of %s" % (error, at, call, path)) from error_found
    tried.put_back()
    return recorded


@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_that_is_refused_loses_nothing(tried, name):
    """If one call that touches the vault is refused, for lack of room, right or peace, nothing is lost or half made."""
    assert fail_each(tried, name, ("ENOSPC", "EBUSY"), step=3) == {False, True}


@pytest.mark.long
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", COMMANDS)
def test_any_call_that_is_refused_loses_nothing(tried, name, error):
    """If any one call that touches the vault is refused, in whichever way, nothing is lost or half made."""
    assert False in fail_each(tried, name, (error,))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_rename_onto_a_busy_file_is_said(tried, name):
    """A view, or replica.json, that cannot be replaced for now stays whole as it was; the command is done and warns."""
    words, kind = words_of(tried, name)
    for at, (call, _) in enumerate(count_calls(tried, words), 1):
        if call == "replace":
            tried.put_back()
            with pytest.MonkeyPatch.context() as patch:
                Faulty(tried, patch, at, "EBUSY")
                status, answer = tried.scratch.json(*words)
            assert tried.judge(status, answer, kind) is True
            tried.check_after()
    tried.put_back()


def test_a_derived_file_that_vanishes_does_no_harm(tried, monkeypatch):
    """A view that is gone between two calls is made again; a command ends with 0 or with 9."""
    real, reads = engine.read_file, []

    def read(path):
        if not path.endswith((".jsonl", "format.json", "replica.json")):
            reads.append(path)
            if len(reads) == vanishes:
                Path(path).unlink()
        return real(path)

    monkeypatch.setattr(engine, "read_file", read)
    words, kind = words_of(tried, "propose")
    for vanishes in range(1, 40):
        tried.put_back()
        del reads[:]
        status, answer = tried.scratch.json(*words)
        if len(reads) < vanishes:
            break
        tried.judge(status, answer, kind, quiet=True)
        tried.check_after()
    tried.put_back()
    assert vanishes > 3


def erase_with_faults(tried, step):
    """Let an erasure fail at each call; what was recorded of it is completed by the next command, what was not is undone."""
    words, recorded = ("erase", tried.secret, "--human-approved"), set()
    for at, (call, path) in list(enumerate(count_calls(tried, words), 1))[::step]:
        tried.put_back()
        with pytest.MonkeyPatch.context() as patch:
            Faulty(tried, patch, at, CALLS[call][0])
            status, answer = tried.scratch.json(*words)
        is_recorded = any(b'"kind":"erase"' in data for data in tried.read_ledgers().values())
        assert is_recorded or (status, answer["code"]) == (9, "filesystem"), (at, call, path, answer)
        tried.check_after(warns=is_recorded)
        if not is_recorded:
            assert tried.scratch.json("show", tried.secret)[1]["entry"]["text"] == "The word is swordfish."
            tried.scratch.ok(*words)
        holding = [str(p) for p in tried.root.rglob("*") if p.is_file() and b"swordfish" in p.read_bytes()]
        assert holding == [], (at, call, path)
        recorded.add(is_recorded)
    tried.put_back()
    return recorded


def test_an_erasure_that_is_refused_is_completed_or_undone(tried):
    """If a call of an erasure is refused, the text is still whole, or the next command leaves no byte of it in the vault."""
    assert erase_with_faults(tried, step=3) == {False, True}


@pytest.mark.long
def test_an_erasure_may_be_refused_at_any_call(tried):
    """The same for each call."""
    assert erase_with_faults(tried, step=1) == {False, True}


# -- a real small disk --


@pytest.fixture
def small(tmp_path):
    """A vault on a filesystem of 1 MiB of its own."""
    with mounted(tmp_path) as folder:
        yield Tried(folder)


def journal_until_full(small):
    """Record entries until the disk refuses one; return the ids that were acknowledged, and the refusal."""
    acknowledged = []
    for number in range(300):
        status, answer = small.scratch.json("journal", "--run", small.run, "--text", "%d. %s" % (number, LONG))
        if status:
            return acknowledged, answer
        acknowledged.append((answer["entry"], number))
    raise AssertionError("the disk never filled up")


@pytest.mark.parametrize("left", [0, 20_000, 120_000])
def test_a_vault_may_fill_its_disk(small, left):
    """However often a full disk refuses, every acknowledged entry is there, readers work, and room is all that is needed."""
    filler = fill(small.folder, left)
    acknowledged, answer = journal_until_full(small)
    assert (answer["exit"], answer["code"]) == (9, "filesystem")
    assert "/project" in answer["message"] or "state.sqlite" in answer["message"], answer
    assert small.added() == ["journal"] * len(acknowledged)
    small.check_views()
    for words in (("status",), ("recall", "shop.next"), ("log",), ("doctor",)):
        assert small.scratch.json(*words)[0] == 0, words
    filler.unlink()
    small.check_after()
    for entry, number in acknowledged:
        assert small.scratch.json("show", entry)[1]["entry"]["text"].startswith("%d. " % number)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_on_a_disk_that_is_nearly_full(small, name):
    """With whatever room is left a command is done, or exits 9 with nothing recorded; nothing half made stays."""
    words, kind = words_of(small, name)
    ended = []
    for left in (0, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 400_000):
        small.put_back()
        filler = fill(small.folder, left)
        status, answer = small.scratch.json(*words)
        try:
            ended.append(small.judge(status, answer, kind, quiet=True))
        finally:
            filler.unlink()
        small.check_after()
    assert ended[-1]


def test_a_disk_that_is_read_only_for_a_while(small):
    """On a read-only mount commands that write exit 9 with path and reason, readers work; afterwards all is as it was."""
    mount = shutil.which("mount")
    subprocess.run([mount, "-o", "remount,ro", small.folder], check=True)
    try:
        for name in COMMANDS:
            status, answer = small.scratch.json(*words_of(small, name)[0])
            assert (status, answer["code"]) == (9, "filesystem"), answer
            assert "/project" in answer["message"], answer
        for words in (("status",), ("recall", "shop.next"), ("review",), ("doctor", "--strict")):
            assert small.scratch.json(*words)[0] == 0, words
    finally:
        subprocess.run([mount, "-o", "remount,rw", small.folder], check=True)
    assert small.added() == []
    small.check_after()
