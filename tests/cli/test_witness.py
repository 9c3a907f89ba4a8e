"""`witness`: what this machine remembers, outside the vault, of how far its own ledgers went.

A vault that went back behind it is told by every command, until it comes back or the owner takes the present as right.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import Remembering

OWNER = "--human-approved"
ACCEPT = ("witness", "--accept", OWNER)
#: Commands that only read, and must say it; `doctor` says it as a finding.
READING = (("status",), ("recall", "--prefix", "a"), ("log",), ("review",), ("history", "a.b"), ("search", "one"), ("witness",))


class Watched(Remembering):
    """A Project whose machine remembers in a folder of the test's."""

    def tag(self):
        """Return the only ledger's tag."""
        (name,) = self.ledger()
        return name[:8]

    def lines(self, tag):
        """Return the lines of a ledger."""
        return self.path(tag).read_bytes().splitlines(keepends=True)

    def behind(self):
        """Return what the machine says is missing: (tag, records there, records that were, runs, revisions)."""
        names = ("tag", "records", "was", "runs", "revisions")
        return [tuple(row[name] for name in names) for row in self.ok("witness")["behind"]]

    def gone_back(self, *options):
        """Return the status of doctor and the severities of what it finds gone back."""
        reply = self.call("doctor", *options)
        return reply.status, [f["severity"] for f in reply["findings"] if f["kind"] == "gone-back"]

    def fill(self):
        """Let a run write fourteen lines; return it, open, with the ledger's tag."""
        run = self.start()
        self.fact(run, "a.b", "One.")
        self.journal(run, "It was seen.")
        self.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")
        other = self.start("claude")
        self.fact(other, "a.c", "One.")
        self.ok("sync", "--run", other)
        self.journal(run, "The last word.")
        return run, self.tag()


@pytest.fixture
def states(tmp_path, monkeypatch):
    """Return the folder in which the machine remembers."""
    monkeypatch.setenv("MUNIMENT_STATE", str(tmp_path / "states"))
    return tmp_path / "states"


@pytest.fixture
def watched(tmp_path, engine, states):
    """Return a Project whose vault the machine watches."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    project = Watched(folder, engine, states)
    project.ok("init", project.vault)
    return project


def cut(watched, tag):
    """Cut the ledger at a whole unit: its second run, its last two revisions and an entry are gone."""
    watched.path(tag).write_bytes(b"".join(watched.lines(tag)[:7]))


def empty(watched, tag):
    """Empty the ledger."""
    watched.path(tag).write_bytes(b"")


def remove(watched, tag):
    """Remove the ledger."""
    watched.path(tag).unlink()


#: How a ledger goes back: (what is done, records left, runs and revisions that are missing).
BACK = {"cut": (cut, 7, 1, 2), "emptied": (empty, 0, 2, 4), "gone": (remove, 0, 2, 4)}


def test_nothing_to_say(watched):
    """A vault that is as it was left is told of by nobody, and what is remembered is how far its ledger goes."""
    run, tag = watched.fill()
    for words in READING:
        assert watched.call(*words)["warnings"] == [], words
    assert watched.behind() == []
    said = watched.ok("witness")
    assert list(said["tags"]) == [tag]
    assert (said["tags"][tag]["seq"], said["tags"][tag]["runs"], said["tags"][tag]["revisions"]) == (len(watched.lines(tag)) - 1, 2, 4)
    assert Path(said["path"]).parent == watched.states
    assert watched.gone_back("--strict") == (0, [])
    assert watched.close(run).status == 0


def test_remembers_no_text(watched):
    """What is kept outside the vault says how far, and nothing of what was written."""
    watched.fill()
    data = b"".join(path.read_bytes() for path in watched.states.iterdir())
    assert data
    assert not re.search(rb"One\.|Two\.|word|a\.b|codex", data)
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in watched.states.iterdir()} == {0o600}


@pytest.mark.parametrize("how", BACK)
def test_went_back(watched, how):
    """Every command says what is missing, and doctor fails under --strict; a damaged view or lock file is no part of it."""
    _, tag = watched.fill()
    change, records, runs, revisions = BACK[how]
    was = len(watched.lines(tag))
    change(watched, tag)
    for words in READING:
        reply = watched.call(*words)
        assert words[0] in ("recall", "history", "search") or reply.status == 0, (words, reply)
        told = reply["warnings"] if reply.out else reply.error["warnings"]
        assert len(told) == 1, (words, reply)
        assert {tag, str(records), str(was), str(runs), str(revisions)} <= set(re.findall(r"\w+", told[0])), words
    assert watched.behind() == [(tag, records, was, runs, revisions)]
    assert watched.gone_back("--strict") == (7, ["warning"])
    assert watched.gone_back() == (0, ["warning"])
    started = watched.call("start", "--actor", "gemini")
    assert (started.status, len(started["warnings"])) == (0, 1)
    assert tag in started["brief"]


@pytest.mark.parametrize("how", BACK)
def test_writing_goes_on_elsewhere(watched, how):
    """What is written then gets a new tag, so that nothing forks; with a backup the old lines come back beside it."""
    _, tag = watched.fill()
    backup = watched.folder.parent / "backup.jsonl"
    shutil.copy(watched.path(tag), backup)
    whole = backup.read_bytes()
    BACK[how][0](watched, tag)
    left = watched.path(tag).read_bytes() if watched.path(tag).exists() else None
    new = watched.start("gemini")
    assert new[-8:] != tag
    watched.fact(new, "a.d", "Three.")
    assert (watched.path(tag).read_bytes() if watched.path(tag).exists() else None) == left
    assert [row[0] for row in watched.behind()] == [tag]
    reply = watched.call("restore", "--from", backup)
    assert (reply.status, [row["tag"] for row in reply["restored"]]) == (0, [tag])
    assert watched.path(tag).read_bytes() == whole
    assert watched.behind() == []
    assert watched.ok("status")["warnings"] == []
    assert watched.gone_back("--strict") == (0, [])
    assert (watched.current("a.b")["text"], watched.current("a.d")["text"]) == ("Two.", "Three.")
    assert watched.close(new).status == 0
    assert watched.doctor() == []


@pytest.mark.parametrize("how", BACK)
def test_accept(watched, how):
    """The owner takes the present as right: nothing more is said, and the old tag still gets no more lines."""
    _, tag = watched.fill()
    BACK[how][0](watched, tag)
    assert watched.call("witness", "--accept").code == (3, "needs-approval")
    assert len(watched.behind()) == 1
    reply = watched.call(*ACCEPT)
    assert (reply.status, [row["tag"] for row in reply["accepted"]], reply["behind"]) == (0, [tag], [])
    assert watched.behind() == []
    assert watched.ok("status")["warnings"] == []
    assert watched.gone_back("--strict")[1] == []
    left = watched.path(tag).read_bytes() if watched.path(tag).exists() else None
    run = watched.start("gemini")
    assert run[-8:] != tag
    watched.fact(run, "a.d", "Three.")
    assert (watched.path(tag).read_bytes() if watched.path(tag).exists() else None) == left
    assert watched.ok("status")["warnings"] == []
    assert watched.call(*ACCEPT)["accepted"] == []


def test_accepted_and_then_damaged(watched):
    """A ledger that was taken as right as it is can be mended by itself: what the owner gave up is not asked for again."""
    _, tag = watched.fill()
    cut(watched, tag)
    watched.ok(*ACCEPT)
    whole = watched.path(tag).read_bytes()
    watched.path(tag).write_bytes(whole.replace(b"\n", b"\r\n"))
    assert watched.call("restore").status == 0
    assert watched.path(tag).read_bytes() == whole
    assert watched.ok("status")["warnings"] == []


def test_accepted_and_then_come_back(watched):
    """Lines that were given up may still come back from a backup, as lines of the same ledger."""
    _, tag = watched.fill()
    backup = watched.folder.parent / "backup.jsonl"
    shutil.copy(watched.path(tag), backup)
    cut(watched, tag)
    watched.ok(*ACCEPT)
    run = watched.start("gemini")
    assert watched.call("restore", "--from", backup).status == 0
    assert watched.path(tag).read_bytes() == backup.read_bytes()
    watched.journal(run, "After it.")
    assert watched.ok("status")["warnings"] == []
    assert watched.doctor() == []


def test_older_copy_of_the_whole_vault(watched):
    """The whole vault put back from an older copy, local/ included, is told; what is written then forks nothing."""
    run, tag = watched.fill()
    old = watched.folder.parent / "old"
    shutil.copytree(watched.vault, old, symlinks=True)
    was = len(watched.lines(tag))
    watched.journal(run, "Since then.")
    watched.fact(run, "a.z", "Since then.")
    shutil.rmtree(watched.vault)
    shutil.copytree(old, watched.vault, symlinks=True)
    assert watched.behind() == [(tag, was, was + 3, 0, 1)]
    assert len(watched.ok("status")["warnings"]) == 1
    assert watched.gone_back("--strict") == (7, ["warning"])
    new = watched.start("gemini")
    assert new[-8:] != tag
    assert len(watched.lines(tag)) == was
    watched.ok(*ACCEPT)
    assert watched.ok("status")["warnings"] == []


def put_back_in_place(folder, old):
    """Write the files of an older copy over those of a folder, as a program does that keeps the folder itself."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and not (old / path.relative_to(folder)).exists():
            path.unlink()
    for path in old.rglob("*"):
        there = folder / path.relative_to(old)
        if path.is_file() and not (there.exists() and there.read_bytes() == path.read_bytes()):
            there.write_bytes(path.read_bytes())


def test_older_copy_in_place(watched):
    """Put back file by file, so that this copy's own mark fits, the vault would go on where it was: only the witness knows better."""
    run, tag = watched.fill()
    old = watched.folder.parent / "old"
    shutil.copytree(watched.vault, old, symlinks=True)
    was = len(watched.lines(tag))
    watched.journal(run, "Since then.")
    newer = watched.path(tag).read_bytes()
    put_back_in_place(watched.vault, old)
    assert watched.behind() == [(tag, was, was + 1, 0, 0)]
    new = watched.start("gemini")
    watched.journal(run, "Instead of it.")
    assert new[-8:] != tag
    assert len(watched.lines(tag)) == was
    watched.ok(*ACCEPT)
    watched.journal(run, "After the answer.")
    assert len(watched.lines(tag)) == was
    backup = watched.folder.parent / "backup.jsonl"
    backup.write_bytes(newer)
    assert watched.call("restore", "--from", backup).status == 0
    assert watched.path(tag).read_bytes() == newer
    page = watched.views()["journal/%s.md" % run].decode()
    assert all(text in page for text in ("Since then.", "Instead of it.", "After the answer."))
    assert watched.doctor() == []


@pytest.fixture
def tracked(tmp_path, engine, states, git):
    """Return a Project with a tracked vault in a repository."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    project = Watched(folder, engine, states)
    project.ok("init", "--tracked", project.vault)
    return project


def test_inside_git(tracked, git):
    """In a tracked vault it is a notice: a branch may be older. Doctor fails under --strict; back on the branch nothing is said."""
    run, tag = tracked.fill()
    git(tracked.folder, "add", "-A")
    git(tracked.folder, "commit", "-q", "-m", "one")
    git(tracked.folder, "branch", "older")
    tracked.journal(run, "Since then.")
    git(tracked.folder, "commit", "-q", "-a", "-m", "two")
    whole = tracked.path(tag).read_bytes()
    git(tracked.folder, "checkout", "-q", "older")
    told = tracked.ok("status")["warnings"]
    assert len(told) == 1
    assert "notice" in told[0]
    assert tracked.gone_back() == (0, ["notice"])
    assert tracked.gone_back("--strict") == (7, ["warning"])
    new = tracked.start("gemini")
    assert new[-8:] != tag
    git(tracked.folder, "add", "-A")
    git(tracked.folder, "commit", "-q", "-m", "on the branch")
    git(tracked.folder, "checkout", "-q", "-")
    assert tracked.path(tag).read_bytes() == whole
    told = tracked.ok("status")["warnings"]
    assert len(told) == 1  # now the branch's own ledger is not here
    assert new[-8:] in told[0]
    tracked.journal(run, "On the first branch again.")
    assert len(tracked.lines(tag)) == len(whole.splitlines()) + 1
    git(tracked.folder, "commit", "-q", "-a", "-m", "three")
    git(tracked.folder, "merge", "-q", "older")
    assert tracked.ok("status")["warnings"] == []
    assert tracked.doctor() == []


def test_only_own_ledgers(watched, engine):
    """Another replica's ledger that goes back or away is no matter of this machine's memory."""
    watched.fill()
    there = watched.folder.parent / "there"
    other = Watched(there, engine, watched.states)
    (there / "memory" / ".muniment").mkdir(parents=True)
    shutil.copy(watched.vault / ".muniment" / "format.json", other.vault / ".muniment")
    shutil.copytree(watched.vault / ".muniment" / "ledger", other.vault / ".muniment" / "ledger")
    run = other.start("claude")
    tag = run[-8:]
    shutil.copy(other.path(tag), watched.path(tag))
    watched.journal(watched.start(), "It was read.")
    assert watched.ok("status")["warnings"] == []
    watched.path(tag).write_bytes(b"")
    assert watched.behind() == []
    watched.path(tag).unlink()
    assert watched.behind() == []
    assert watched.ok("status")["warnings"] == []
    assert watched.gone_back("--strict")[1] == []


def test_another_vault_at_the_path(watched):
    """Another vault made where one was is told once; its own ledgers are watched then, and the old one's are forgotten."""
    watched.fill()
    shutil.rmtree(watched.vault)
    made = watched.call("init", watched.vault)
    assert made.status == 0
    assert watched.behind() == []
    run = watched.start()
    assert watched.ok("status")["warnings"] == []
    watched.journal(run, "It was seen.")
    tag = watched.tag()
    cut_at = watched.lines(tag)[:2]
    watched.path(tag).write_bytes(b"".join(cut_at))
    assert [row[0] for row in watched.behind()] == [tag]


def test_another_vault_put_at_the_path(watched, engine):
    """Another vault that is moved to where one was is told by every command until the owner accepts it; nothing is called missing."""
    watched.fill()
    there = watched.folder.parent / "there"
    (there / ".git").mkdir(parents=True)
    other = Watched(there, engine, watched.states)
    other.ok("init", other.vault)
    run = other.start("claude")
    shutil.rmtree(watched.vault)
    shutil.move(other.vault, watched.vault)
    assert watched.behind() == []
    assert len(watched.ok("status")["warnings"]) == 1
    watched.journal(run, "It goes on.")
    assert watched.call(*ACCEPT).status == 0
    assert watched.ok("status")["warnings"] == []
    watched.journal(run, "It goes on still.")
    watched.path(run[-8:]).write_bytes(b"".join(watched.lines(run[-8:])[:2]))
    assert [row[0] for row in watched.behind()] == [run[-8:]]


def test_moved_vault(watched):
    """A vault that is moved says nothing in its new place, and is watched there from its next line on."""
    run, tag = watched.fill()
    there = watched.folder.parent / "moved"
    shutil.move(watched.folder, there)
    watched.folder, watched.vault = there, there / "memory"
    assert watched.ok("status")["warnings"] == []
    assert watched.behind() == []
    watched.journal(run, "In its new place.")
    cut(watched, tag)
    assert [row[0] for row in watched.behind()] == [tag]


def test_by_way_of_a_link(watched):
    """A vault is one, whichever way leads to it: a link to it is not another place."""
    _, tag = watched.fill()
    link = watched.folder.parent / "link"
    link.symlink_to(watched.vault)
    watched.vault = link
    run = watched.start()
    assert len(list(watched.states.iterdir())) == 1
    cut(watched, tag)
    assert [row[0] for row in watched.behind()] == [tag]
    assert run[-8:] == tag


def test_two_vaults(watched, engine):
    """Two vaults of one machine do not mix."""
    _, tag = watched.fill()
    there = watched.folder.parent / "there"
    (there / ".git").mkdir(parents=True)
    other = Watched(there, engine, watched.states)
    other.ok("init", other.vault)
    _, second = other.fill()
    assert len(list(watched.states.iterdir())) == 2
    cut(other, second)
    assert [row[0] for row in other.behind()] == [second]
    assert watched.behind() == []
    assert watched.ok("status")["warnings"] == []
    assert list(watched.ok("witness")["tags"]) == [tag]


# -- a machine that cannot remember --


@pytest.mark.parametrize("place", ["", "{tmp}/file", os.devnull, "{tmp}/a/b/c"])
def test_no_place(bare, tmp_path, monkeypatch, place):
    """Without a folder, or where it cannot be made, all works and nobody is told."""
    (tmp_path / "file").write_text("a file")
    monkeypatch.setenv("MUNIMENT_STATE", place.format(tmp=tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    bare.ok("init", bare.vault)
    run = bare.start()
    bare.fact(run, "a.b", "One.")
    for words in (("status",), ("witness",)):
        assert bare.ok(*words)["warnings"] == []
    assert bare.close(run).status == 0
    assert bare.doctor() == []
    assert (tmp_path / "file").read_text() == "a file"


def test_read_only_place(watched, bound_by_modes):
    """A folder that cannot be written remembers what it had; all goes on, and nothing is said of it."""
    run, tag = watched.fill()
    for path in watched.states.iterdir():
        path.chmod(0o400)
    watched.states.chmod(0o500)
    try:
        reply = watched.cli("journal", "--run", run, "--text", "More.", "--vault", watched.vault, prefix=bound_by_modes)
        assert (reply.status, reply["warnings"]) == (0, [])
        assert watched.ok("status")["warnings"] == []
        cut(watched, tag)
        assert [row[0] for row in watched.behind()] == [tag]
    finally:
        watched.states.chmod(0o700)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 9, b"{}", b"[]", b'{"vault": 5, "tags": []}', b'{"vault": "x", "tags": {"k7qdm2xw": {}}}', b"[" * 99_999, b"\xff"],
)
def test_damaged_memory(watched, data):
    """A memory that cannot be read is as none: nothing is said, and the next line is remembered."""
    run, tag = watched.fill()
    (path,) = watched.states.iterdir()
    path.write_bytes(data)
    reply = watched.call("status")
    assert reply.status == 0
    assert watched.behind() == []
    assert watched.call(*ACCEPT).status == 0
    watched.journal(run, "More.")
    assert json.loads(path.read_bytes())["tags"][tag]["seq"] == len(watched.lines(tag)) - 1
    assert watched.ok("status")["warnings"] == []
    assert watched.doctor() == []


@pytest.mark.parametrize("what", ["folder", "link", "dangling"])
def test_something_else_in_its_place(watched, what):
    """A folder or a link in the place of the memory harms nothing, and a link's target is not written."""
    run, _ = watched.fill()
    (path,) = watched.states.iterdir()
    path.unlink()
    target = watched.folder.parent / "target"
    if what == "folder":
        path.mkdir()
    else:
        if what == "link":
            target.write_bytes(b"mine")
        path.symlink_to(target)
    assert watched.ok("status")["warnings"] == []
    watched.journal(run, "More.")
    assert watched.ok("status")["warnings"] == []
    assert (target.read_bytes() if target.exists() else b"mine") == b"mine"


def test_interrupted_append(watched):
    """Lines that an ended command appended, and did not get to remember, are adopted, and counted from then on."""
    run, tag = watched.fill()
    (path,) = watched.states.iterdir()
    before = path.read_bytes()
    watched.start("gemini")
    path.write_bytes(before)
    assert watched.ok("status")["warnings"] == []
    watched.journal(run, "More.")
    said = watched.ok("witness")["tags"][tag]
    assert (said["seq"], said["runs"]) == (len(watched.lines(tag)) - 1, 3)


def test_after_a_repair(watched):
    """A ledger that was mended, erased from, or given up in part, is not called gone back: its heads are the same."""
    run, tag = watched.fill()
    whole = watched.path(tag).read_bytes()
    watched.path(tag).write_bytes(whole.replace(b"\n", b"\r\n"))
    watched.ok("restore")
    assert watched.ok("status")["warnings"] == []
    watched.ok("erase", "--text", "The last word.", OWNER)
    assert watched.ok("status")["warnings"] == []
    watched.path(tag).write_bytes(watched.path(tag).read_bytes().replace(b'"text":"It was', b'"text":"It has', 1))
    assert watched.call("restore", "--accept-loss", OWNER).status == 0
    assert watched.ok("status")["warnings"] == []
    assert watched.close(run).status == 0
    assert watched.gone_back("--strict")[1] == []


def test_rewritten_ledger(watched):
    """A ledger as long as it was, but with other lines and every hash right, has gone another way: it is told."""
    _, tag = watched.fill()

    def canonical(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    lines = watched.lines(tag)
    record = json.loads(lines[-1])
    record["body"]["text"] = "Another word."
    record["head"]["body"] = hashlib.sha256(canonical(record["body"])).hexdigest()
    watched.path(tag).write_bytes(b"".join(lines[:-1]) + canonical(record) + b"\n")
    assert [row[0] for row in watched.behind()] == [tag]
    assert watched.gone_back("--strict") == (7, ["warning"])
    assert watched.start("gemini")[-8:] != tag


def test_read_while_another_writes(watched, monkeypatch):
    """What another process appends while this one reads is not taken for a vault that went back."""
    run, _ = watched.fill()
    real, done = watched.engine.is_in_line, []

    def look(state, vault):
        found = real(state, vault)
        if not done:
            done.append(watched.cli("journal", "--run", run, "--text", "Meanwhile.", "--vault", str(watched.vault)))
        return found

    monkeypatch.setattr(watched.engine, "is_in_line", look)
    assert watched.ok("status")["warnings"] == []
    assert done[0].status == 0
    done.clear()
    assert [f["kind"] for f in watched.call("doctor", "--strict")["findings"] if f["kind"] == "gone-back"] == []
