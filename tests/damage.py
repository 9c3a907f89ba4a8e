"""A vault with every kind of record, and every way to damage one file of it by chance.

`build` makes the vault, the same bytes each time: two copies that have exchanged their ledgers. A mutation is a
function of (rng, case) that changes exactly one thing; it returns what it did, or None where it does not apply.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import shutil
import stat

from scratch import FIRST_MS, Chance, Scratch, engine

#: The tags of the two copies, and of a vault that has nothing to do with them.
TAGS = ("k7qdm2xw", "m3rtw9zh")
#: The tag of a copy whose ledger lost a line, and that of a vault that has nothing to do with them.
LOST, FOREIGN = "r8bcd3fg", "p4npy8vj"
BY = ("--tier", "2", "--new-subject", "--now", "--text")
LOCAL = ".muniment/local/"


# -- the vault --


def build(folder):
    """Make the vault and return the Scratch whose copy it is; its cache and views are in line."""
    one = Scratch(folder / "one", Chance([TAGS[0]]))
    one.ok("init")
    first = work_alone(one)
    other = one.copy(folder / "other", Chance([TAGS[1]]))
    other.chance.salts = 1000
    second = work_apart(one, other, first)
    answer_all(one, other, second)
    end(one, other, first, second)
    one.take(other)
    edit(one)
    repair(one, other, folder / "third")
    erase(one)
    one.ok("rebuild")
    return one


def start(scratch, actor):
    """Open a run and return its handle."""
    return scratch.json("start", "--actor", actor)[1]["run"]


def propose(scratch, run, key, *words):
    """Propose a value and return the proposal's id."""
    return scratch.json("propose", "--run", run, "--key", key, *words)[1]["proposal"]


def work_alone(one):
    """What the first copy does before there is a second: entries, a held proposal and its answer, an edit, a torn append."""
    run = start(one, "codex")
    entry = one.json("journal", "--run", run, "--text", "The sandbox answers 504\nto one call in ten.", "--ref", "log-1")[1]["entry"]
    propose(one, run, "shop.next", *BY, "Retry twice.", "--evidence", entry, "--tag", "pay", "--link", "stack.db")
    owned = ("--source", "user", "--trust", "confirmed")
    propose(one, run, "shop.rule", "--tier", "1", "--new-subject", "--now", "--text", "Ask Mira.", *owned)
    propose(one, run, "stack.db", "--tier", "1", "--new-subject", "--now", "--text", "PostgreSQL.")
    handle = one.json("review", "stack.db")[1]["questions"][0]["handle"]
    one.ok("resolve", handle, "--choose", "accept", "--note", "Yes.", "--human-approved")
    propose(one, run, "shop.pattern", "--tier", "3", "--new-subject", "--now", "--text", "It is slow at noon.", "--evidence", "log-1")
    propose(one, run, "shop.next", "--now", "--op", "touch", "--measured", "0,2026-11-30,pytest -q")
    one.ok("withdraw", "--run", run, propose(one, run, "shop.gone", "--tier", "2", "--new-subject", "--text", "Never mind."))
    one.ok("config", "hot-lines", "60", "--human-approved")
    (one.vault / "MEMORY.md").write_bytes(b"mine, by hand\n")
    one.ok("maintain", "--mark", "--run", run)
    with one.ledger(TAGS[0]).open("ab") as file:
        file.write(b'{"body":{"run":"R1')
    one.ok("journal", "--run", run, "--text", "After the torn append.", "--importance", "5")
    return run


def work_apart(one, other, first):
    """Both copies change the same subjects, unseen by each other; return the second copy's run."""
    second = start(other, "claude")
    other.ok("journal", "--run", second, "--text", "Seen from elsewhere.", "--ref", "log-2")
    for scratch, run, text in ((one, first, "Use a queue."), (other, second, "Retry thrice.")):
        propose(scratch, run, "shop.next", "--now", "--text", text)
        propose(scratch, run, "shop.risk", *BY, "Payments time out: %s" % text)
        propose(scratch, run, "shop.over", *BY, "It goes on: %s" % text)
        propose(scratch, run, "%s.own" % scratch.folder.name, *BY, "Of one copy.", "--until", "2026-12-31")
    for scratch, theirs, run in ((one, other, first), (other, one, second)):
        scratch.take(theirs)
        scratch.run("sync", "--run", run)
    one.take(other)
    one.run("sync", "--run", first)
    return second


def answer_all(one, other, second):
    """The owner answers one conflict by a choice, another by words of their own; a held proposal is declined."""
    run = start(one, "gemini")
    for key, words in (("shop.next", ("--choose", "current")), ("shop.risk", ("--text", "Both, in turn.")),
                       ("shop.over", ("--choose", "close"))):
        one.ok("resolve", one.json("review", key)[1]["questions"][0]["handle"], *words, "--human-approved")
    propose(one, run, "stack.db", "--now", "--text", "SQLite.")
    one.ok("resolve", one.json("review", "stack.db")[1]["questions"][0]["handle"], "--choose", "decline", "--human-approved")
    propose(one, run, "shop.owner", "--tier", "1", "--new-subject", "--now", "--text", "Held for ever.")
    other.take(one)
    other.ok("sync", "--run", second)
    propose(other, second, "one.own", "--now", "--text", "Of the other copy now.", "--detail-file", detail(other))
    propose(other, second, "other.own", "--now", "--op", "close", "--why", "It is over.")
    propose(other, second, "one.own", "--now", "--text", "Of the other copy now.")


def detail(scratch):
    """Write a detail and return its path."""
    (scratch.folder / "detail").write_bytes("# A heading\n\nMore of it, with ü.\n".encode())
    return "detail"


def end(one, other, first, second):
    """Runs are closed, one of them by the other copy; the last units see each other."""
    other.ok("recover-run", "--run", first, "--outcome", "partial", "--summary", "It was left open.", "--human-approved")
    other.ok("close", "--run", second, "--outcome", "success", "--summary", "Done.\nIn two lines.")
    one.take(other)
    third = next(run["run"] for run in one.json("status")[1]["open"] if run["actor"] == "gemini")
    one.ok("close", "--run", third, "--outcome", "success", "--summary", "Answered.")
    last = start(one, "codex")
    one.ok("journal", "--run", last, "--text", "The last word.")
    other.take(one)
    start(other, "claude")


def edit(one):
    """The owner edits a note, which is adopted, and dismisses what else was edited."""
    path = one.vault / "notes" / "shop.rule.md"
    path.write_bytes(path.read_bytes().replace(b"Ask Mira.", b"Ask Mira, or Tom."))
    for question in one.json("review", "--all")[1]["edits"]:
        one.ok("resolve", question["handle"], "--choose", "adopt" if question["changes"] else "dismiss", "--human-approved")


def repair(one, other, folder):
    """A ledger is restored from a copy; of another, which has none, a line is given up."""
    third = other.copy(folder, Chance([LOST]))
    third.chance.salts = 2000
    run = start(third, "gemini")
    for text in ("To be lost.", "To be kept."):
        third.ok("journal", "--run", run, "--text", text)
    one.take(third)
    flip(one.ledger(TAGS[1]), b"Seen from elsewhere.")
    one.ok("restore", "--from", str(other.ledger(TAGS[1])))
    flip(one.ledger(LOST), b"To be lost.")
    one.ok("restore", "--accept-loss", "--human-approved")


def flip(path, text):
    """Change a letter of a text in a ledger."""
    path.write_bytes(path.read_bytes().replace(text, text[:-1] + b"?"))


def erase(one):
    """An entry and a proposal are erased; more follows them."""
    run = start(one, "codex")
    entry = one.json("journal", "--run", run, "--text", "The password is swordfish.")[1]["entry"]
    claim = propose(one, run, "shop.secret", *BY, "The door opens to swordfish.")
    propose(one, run, "shop.secret", "--text", "The door is open.", "--now")
    propose(one, run, "shop.left", "--tier", "2", "--new-subject", "--text", "Staged for ever.")
    one.ok("erase", entry, claim, "--human-approved")
    one.ok("journal", "--run", run, "--text", "After the erasure.")


def foreign(folder):
    """Return the ledger of another vault, as lines."""
    scratch = Scratch(folder, Chance([FOREIGN]))
    scratch.chance.salts = 5000
    scratch.ok("init")
    run = start(scratch, "codex")
    scratch.ok("journal", "--run", run, "--text", "Of another vault.")
    propose(scratch, run, "shop.next", *BY, "Something else.")
    return scratch.ledger(FOREIGN).read_bytes().splitlines(keepends=True)


# -- a case: one vault, damaged and put back --


class Case:
    """The vault with one thing changed at a time. ``files`` are its bytes by path; `put_back` makes it whole again.

    Files are written in place and keep their times, as far as a system lets them: to the engine nothing has happened.
    ``of`` makes it a clone of another case: its ledgers, and nothing that was made of them.
    """

    def __init__(self, folder, of=None):
        self.clone = of is not None
        self.scratch = of.scratch.copy(folder / "clone", None) if of else build(folder)
        self.scratch.chance = random.Random(0).randbytes  # it never runs out of tags
        self.foreign = foreign(folder / "foreign")
        self.root, self.aside = self.scratch.vault, folder / "aside"
        self.aside.mkdir()
        if self.clone:
            for name in ("local", "recovery"):
                shutil.rmtree(self.root / ".muniment" / name)
            for path in [*self.root.glob("*.md"), *(self.root / n for n in engine.FOLDERS)]:
                path.unlink() if path.is_file() else shutil.rmtree(path)
        self.read()
        self.changed = None
        self.vault_id = json.loads(self.files[".muniment/format.json"])["vault"]
        self.tags = [t for t in TAGS if self.name(t) in self.files]

    def read(self):
        """Take the present bytes and times as those to come back to."""
        paths = [p for p in sorted(self.root.rglob("*")) if p.is_file() and not p.name.endswith(("-wal", "-shm"))]
        self.files = {p.relative_to(self.root).as_posix(): p.read_bytes() for p in paths}
        self.times = {n: (self.root / n).stat() for n in self.files}
        self.folders = {p for p in self.root.rglob("*") if p.is_dir()}
        self.place = self.here()

    def name(self, tag):
        """Return the path of a ledger within the vault."""
        return ".muniment/ledger/%s.jsonl" % tag

    def lines(self, tag):
        """Return the lines of a ledger."""
        return self.files[self.name(tag)].splitlines(keepends=True)

    def write(self, name, data, touched=True):
        """Put other bytes in the place of a file; without ``touched`` its time stays, as of a disk that rots."""
        path, self.changed = self.root / name, name
        path.write_bytes(data)
        if not touched and name in self.times:
            os.utime(path, ns=(self.times[name].st_atime_ns, self.times[name].st_mtime_ns))

    def take_away(self, name):
        """Take a file away; it keeps its inode, to be put back."""
        self.changed = name
        (self.root / name).rename(self.aside / "kept")

    def put_back(self):
        """Make the vault what it was."""
        if (self.aside / "kept").exists():
            path = self.root / self.changed
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            (self.aside / "kept").replace(path)
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if path not in self.folders:
                    path.rmdir()
            elif path.relative_to(self.root).as_posix() not in self.files:
                path.unlink()
        for name, data in self.files.items():
            path, was = self.root / name, self.times[name]
            there = path.lstat() if os.path.lexists(path) else None
            if there and not stat.S_ISREG(there.st_mode):
                path.rmdir() if stat.S_ISDIR(there.st_mode) else path.unlink()
            if not there or (there.st_mtime_ns, there.st_size) != (was.st_mtime_ns, was.st_size) or name == self.changed:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        if self.here() != self.place:
            self.know_here()
        self.changed = None

    def here(self):
        """Return the inode and change time of `here`, as replica.json names them, or nothing."""
        path = self.root / LOCAL / "here"
        return "%d %d" % (path.stat().st_ino, path.stat().st_ctime_ns) if path.exists() else ""

    def know_here(self):
        """Name the present `here` in replica.json: its change time cannot be put back."""
        path = self.root / LOCAL / "replica.json"
        known = json.loads(path.read_bytes())
        known["place"] = self.here()
        path.write_bytes(json.dumps(known, sort_keys=True).encode())
        self.read()

    def has_kept(self):
        """Tell whether there are recovery files: git carries none."""
        return any(map(_is_kept, self.files))

    def ledger(self, rng):
        """Return the tag of one ledger by chance."""
        return rng.choice(self.tags)

    def records(self, tag):
        """Yield head and body of each record of a ledger."""
        for line in self.lines(tag):
            record = json.loads(line)
            yield record["head"], record["body"]

    def seen(self, tag):
        """Yield what each record of a ledger says that it has seen."""
        for _, body in self.records(tag):
            yield body.get("seen", {})

    def tables(self):
        """Return what the fold of the ledgers makes: rows, views, and the bytes that are kept or shown on the disk."""
        vault = engine.open_vault(str(self.root))
        state = engine.fold_fresh(vault)
        try:
            rows = {table: sorted(map(repr, state.rows("SELECT * FROM %s" % table))) for table in engine.COMPARED}
            residency = engine.Residency(state)
            views = {"MEMORY.md": engine.render_memory(residency), "INDEX.md": engine.render_index(residency)}
            views.update((engine.view_path(*view), engine.render_view(state, *view)) for view in engine.list_views(state))
        finally:
            state.close()
        return {"rows": rows, "views": views, "kept": self.kept()}

    def kept(self):
        """Return the bytes of the recovery files and the views on the disk; what stands in their place as its kind."""
        places = [p for p in self.root.rglob("*") if p.suffix == ".md" or p.parent.name == "recovery"]
        return {p.relative_to(self.root).as_posix(): p.read_bytes() if p.is_file() and not p.is_symlink() else b"no file" for p in places}

    def cached(self):
        """Return every row of the cache and what SQLite says of its soundness, or None where there is none that can be read."""
        vault = engine.open_vault(str(self.root))
        state = engine.open_cache(vault)
        if state is None:
            return None
        with contextlib.closing(state):
            names = [name for (name,) in state.rows("SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")]
            rows = {name: sorted(map(repr, state.rows("SELECT * FROM %s" % name))) for name in names}
            return rows, state.rows("PRAGMA integrity_check")


# -- bytes --


def _flip(rng, data):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:], "bit flipped at %d" % at


def _set(rng, data):
    at = rng.randrange(len(data))
    new = rng.choice([b for b in range(256) if b != data[at]])
    return data[:at] + bytes([new]) + data[at + 1:], "byte %d set to %d" % (at, new)


def _insert(rng, data):
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at:], "byte inserted at %d" % at


def _delete(rng, data):
    at = rng.randrange(len(data))
    return data[:at] + data[at + 1:], "byte deleted at %d" % at


def _cut_short(rng, data):
    at = rng.randrange(len(data))
    return data[:at], "cut at %d" % at


def _cut_out(rng, data):
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.choice((2, 16, 512)))
    return data[:at] + data[end:], "bytes %d to %d cut out" % (at, end)


def _zero(rng, data):
    at = rng.randrange(len(data))
    size = min(rng.choice((1, 64, 512, 4096)), len(data) - at)
    return data[:at] + bytes(size) + data[at + size:], "%d NULs at %d" % (size, at)


def _append(rng, data):
    more = rng.choice((b"\n", b" ", b"\0", b"x", b"{}\n", bytes(512), b"\r\n"))
    return data + more, "%r appended" % more[:4]


def _swap_blocks(rng, data):
    size = rng.choice((8, 64, 512))
    one, two = (rng.randrange(max(1, len(data) // size)) * size for _ in range(2))
    blocks = bytearray(data)
    blocks[one:one + size], blocks[two:two + size] = data[two:two + size], data[one:one + size]
    return bytes(blocks), "blocks of %d at %d and %d swapped" % (size, one, two)


def _carriage(_, data):
    return data.replace(b"\n", b"\r\n"), "line ends made CRLF"


def _mark_merge(rng, data):
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    lines[at:at] = [b"<<<<<<< HEAD\n", b"=======\n", b">>>>>>> theirs\n"][:rng.choice((1, 3))]
    return b"".join(lines), "merge markers before line %d" % (at + 1)


def _bom(_, data):
    return b"\xef\xbb\xbf" + data, "BOM"


def _empty(_, data):
    return b"", "emptied of %d bytes" % len(data)


def _space(rng, data):
    places = [n for n, b in enumerate(data) if b in b",:{}[]"]
    at = rng.choice(places or [0])
    return data[:at] + b" " + data[at:], "space at %d" % at


BYTES = (_flip, _set, _insert, _delete, _cut_short, _cut_out, _zero, _append, _swap_blocks, _carriage, _mark_merge, _bom, _empty, _space)


def _change_bytes(names):
    def mutate(rng, case):
        there = sorted(n for n in case.files if names(n))
        if not there:
            return None
        name, change = rng.choice(there), rng.choice(BYTES)
        data = case.files[name]
        if not data and change is not _append:
            return None
        new, what = change(rng, data)
        if new == data:
            return None
        touched = rng.random() < 0.5
        case.write(name, new, touched)
        return "%s: %s%s" % (name, what, "" if touched else ", its time kept")
    return mutate


def _is_ledger(name):
    return "/ledger/" in name


def _is_view(name):
    return name.endswith(".md")


def _is_kept(name):
    return "/recovery/" in name


def _is_file(*names):
    return lambda name: name in names


ledger_bytes = _change_bytes(_is_ledger)
format_bytes = _change_bytes(_is_file(".muniment/format.json"))
replica_bytes = _change_bytes(_is_file(LOCAL + "replica.json"))
here_bytes = _change_bytes(_is_file(LOCAL + "here"))
cache_bytes = _change_bytes(_is_file(LOCAL + "state.sqlite"))
kept_bytes = _change_bytes(_is_kept)
view_bytes = _change_bytes(_is_view)
git_bytes = _change_bytes(_is_file(".gitignore"))


# -- whole files --


def _any(rng, case):
    kinds = (_is_ledger, _is_view, _is_kept, lambda n: n.startswith(LOCAL), lambda n: True)
    groups = [[n for n in sorted(case.files) if is_one(n)] for is_one in kinds]
    return rng.choice(rng.choice([group for group in groups if group]))


def remove_file(rng, case):
    """Take one file away."""
    name = _any(rng, case)
    case.take_away(name)
    return "%s: removed" % name


def swap_files(rng, case):
    """Put the bytes of one file in the place of another."""
    one, two = _any(rng, case), _any(rng, case)
    if case.files[one] == case.files[two]:
        return None
    case.write(one, case.files[two])
    return "%s: the bytes of %s" % (one, two)


def block_file(rng, case):
    """Put a folder, a dangling link, a link to a sound copy or a pipe in the place of a file."""
    name, how = _any(rng, case), rng.choice(("folder", "dangling", "link", "pipe"))
    case.take_away(name)
    path = case.root / name
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(case.aside / ("kept" if how == "link" else "nowhere"))
    return "%s: %s in its place" % (name, how)


def add_file(rng, case):
    """Add a file whose name the vault could take for its own."""
    tag = case.ledger(rng)
    name, data = rng.choice((
        (case.name(FOREIGN), rng.choice((b"".join(case.foreign), case.files[case.name(tag)]))),
        (case.name(FOREIGN), b""),
        (case.name("22222222"), b"{}\n"),
        (".muniment/ledger/%s (1).jsonl" % tag, case.files[case.name(tag)]),
        (".muniment/ledger/%s.jsonl.orig" % tag, case.files[case.name(tag)]),
        (".muniment/recovery/" + "0" * 64, b"not its name"),
        ("notes/zz.md", b"mine"),
    ))
    path = case.root / name
    if not path.parent.is_dir():
        return None
    case.write(name, data)
    return "%s: added" % name


# -- lines of a ledger --


def _edit_lines(change):
    def mutate(rng, case):
        tag = case.ledger(rng)
        lines = case.lines(tag)
        before = list(lines)
        what = change(rng, case, tag, lines)
        if what is None or lines == before:
            return None
        case.write(case.name(tag), b"".join(lines))
        return "%s: %s" % (tag, what)
    return mutate


def _line_cut_short(rng, _, __, lines):
    at = rng.randrange(len(lines))
    lines[at] = lines[at][:rng.randrange(1, len(lines[at]) - 1)] + rng.choice((b"", b"\n"))
    return "line %d cut short" % (at + 1)


def _line_out(rng, _, __, lines):
    at = rng.randrange(len(lines))
    del lines[at]
    return "line %d cut out" % (at + 1)


def _line_twice(rng, _, __, lines):
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines) + 1)
    to = rng.choice((at + 1, to, len(lines)))
    lines.insert(to, lines[at])
    return "line %d doubled as line %d" % (at + 1, to + 1)


def _line_twice_with_other(rng, _, __, lines):
    at = rng.randrange(1, len(lines))
    other = _changed_text(rng, json.loads(lines[at]))
    if other is None:
        return None
    lines.insert(rng.choice((at, at + 1)), other)
    return "line %d doubled with other content" % (at + 1)


def _lines_swapped(rng, _, __, lines):
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return "lines %d and %d swapped" % (one + 1, two + 1)


def _line_from_the_other(rng, case, tag, lines):
    others = [t for t in case.tags if t != tag]
    if not others:
        return None
    line, at = rng.choice(case.lines(rng.choice(others))), rng.randrange(len(lines) + 1)
    lines[at:at + rng.randrange(2)] = [line]
    return "line of the other ledger at %d" % (at + 1)


def _line_from_elsewhere(rng, case, _, lines):
    at = rng.randrange(len(lines) + 1)
    lines[at:at + rng.randrange(2)] = [rng.choice(case.foreign)]
    return "line of another vault at %d" % (at + 1)


def _line_older_over_newer(rng, _, __, lines):
    at = rng.randrange(1, len(lines))
    old = rng.randrange(at)
    lines[at] = lines[old]
    return "line %d put over line %d" % (old + 1, at + 1)


def _half_a_unit(rng, case, tag, lines):
    line = chain(case, tag, lines[-1:], {"kind": "journal"}, _entry(tag, lines), unit=rng.choice((None, None, 2, 3)))
    lines.append(line)
    return "half a unit at the end"


def _line_begun(rng, case, tag, lines):
    line = chain(case, tag, lines[-1:], {"kind": "journal"}, _entry(tag, lines))
    lines.append(line[:rng.randrange(1, len(line))])
    return "a line begun at the end"


def _line_of_a_newer_kind(rng, case, tag, lines):
    kind, body = rng.choice((("oracle", {"salt": "0" * 32}), ("recovery", {"salt": "0" * 32, "what": "dream", "path": "MEMORY.md"})))
    lines.append(chain(case, tag, lines[-1:], {"kind": kind}, body))
    return "a line of a newer kind, %s" % kind


def _whole_units_cut(rng, _, __, lines):
    ends = [n + 1 for n, line in enumerate(lines) if "unit" in json.loads(line)["head"]]
    keep = rng.choice([0, *ends[:-1]])
    del lines[keep:]
    return "an older copy of %d lines put over it" % keep


line_cut_short = _edit_lines(_line_cut_short)
line_out = _edit_lines(_line_out)
line_twice = _edit_lines(_line_twice)
line_twice_with_other = _edit_lines(_line_twice_with_other)
lines_swapped = _edit_lines(_lines_swapped)
line_from_the_other = _edit_lines(_line_from_the_other)
line_from_elsewhere = _edit_lines(_line_from_elsewhere)
line_older_over_newer = _edit_lines(_line_older_over_newer)
half_a_unit = _edit_lines(_half_a_unit)
line_begun = _edit_lines(_line_begun)
line_of_a_newer_kind = _edit_lines(_line_of_a_newer_kind)
whole_units_cut = _edit_lines(_whole_units_cut)


# -- fields --


def encode(record):
    """Return a record as a line, its hashes as they are."""
    return ('{"body":%s,"head":%s}\n' % (engine.canonical(record["body"]), engine.canonical(record["head"]))).encode()


def chain(case, tag, before, head, body, unit=1):
    """Return a line that follows the one before it, with right hashes; ``unit`` None is in the middle of one."""
    last = json.loads(before[-1])["head"] if before else None
    full = {"at": engine.format_at(engine.parse_at(last["at"]) + 1000) if last else engine.format_at(FIRST_MS),
            "prev": engine.sha256(engine.canonical(last)) if last else engine.first_prev(case.vault_id, tag),
            "seq": last["seq"] + 1 if last else 0, "body": engine.sha256(engine.canonical(body)), **head}
    return encode({"head": dict(full, unit=unit) if unit else full, "body": body})


def rechain(case, tag, records):
    """Return the lines of records with every hash right again; an erased body keeps the hash of what it was."""
    prev, lines = engine.first_prev(case.vault_id, tag), []
    erased = {engine.canonical(body) for head, body in case.records(tag) if engine.sha256(engine.canonical(body)) != head["body"]}
    for record in records:
        text = engine.canonical(record["body"])
        record["head"].update(prev=prev, body=record["head"]["body"] if text in erased else engine.sha256(text))
        prev = engine.sha256(engine.canonical(record["head"]))
        lines.append(encode(record))
    return lines


def _entry(tag, lines):
    runs = [n for n, line in enumerate(lines) if json.loads(line)["head"]["kind"] == "run-open"]
    return {"run": "R%d-%s" % (runs[-1] if runs else 1, tag), "text": "Forged.", "importance": 3, "salt": "f" * 32}


def _other_value(rng, name, value):
    """Return another value that a field could have."""
    if name == "at":
        return engine.format_at(engine.parse_at(value) + rng.choice((-86_400_000, -1, 1, 500, 86_400_000)))
    if name in ("source", "trust"):
        return rng.choice([w for w in ("agent", "user", "external", "system", "working", "confirmed") if w != value])
    if name == "seen":
        tag = rng.choice((*TAGS, FOREIGN))
        return {**value, tag: max(0, value.get(tag, 0) + rng.choice((-1, 1, 1000)))}
    if name == "parents":
        return sorted({*value, "P%d-%s" % (rng.randrange(40), rng.choice(TAGS))}) if rng.random() < 0.5 else []
    if name in ("seq", "unit"):
        return max(0, value + rng.choice((-1, 1, 2)))
    return value + rng.choice(("!", " ü", "x"))


def _fields(record):
    """Yield (the object that has it, name) of each field that is changed here."""
    for name in ("at", "seq", "unit"):
        if name in record["head"]:
            yield record["head"], name
    body = record["body"]
    for holder in (body, body.get("value"), *body.get("decisions", ())):
        for name in ("source", "trust", "text", "parents", "seen", "summary", "note", "key", "name"):
            if isinstance(holder, dict) and name in holder and not isinstance(holder[name], int):
                yield holder, name


def _change_field(rng, record):
    found = list(_fields(record))
    if not found:
        return None
    holder, name = rng.choice(found)
    before = holder[name]
    holder[name] = _other_value(rng, name, before)
    return None if holder[name] == before else name


def _changed_text(rng, record):
    if _change_field(rng, record) is None:
        return None
    record["head"]["body"] = engine.sha256(engine.canonical(record["body"]))
    return encode(record)


def _field(rng, case, lines, mended):
    at = rng.randrange(len(lines) - (mended and case.clone))  # a clone's last line may be any that obeys the rules
    record = json.loads(lines[at])
    name = _change_field(rng, record)
    if name is None:
        return None
    if mended:
        record["head"]["body"] = engine.sha256(engine.canonical(record["body"]))
    lines[at] = encode(record)
    return "%s of line %d changed%s" % (name, at + 1, ", the body's hash mended" if mended else "")


field_changed = _edit_lines(lambda rng, case, _, lines: _field(rng, case, lines, mended=False))
field_mended = _edit_lines(lambda rng, case, _, lines: _field(rng, case, lines, mended=True))


# -- a tail that is forged whole, and breaks a rule --


def _pick(rng, records, *kinds, where=lambda body: True):
    found = [n for n, r in enumerate(records) if r["head"]["kind"] in kinds and where(r["body"])]
    return rng.choice(found) if found else None


def forge(rule):
    """Return the mutation that changes records by ``rule`` and makes every hash right again."""
    def mutate(rng, case):
        tag = case.ledger(rng)
        records = [json.loads(line) for line in case.lines(tag)]
        before = copy.deepcopy(records)
        what = rule(rng, case, tag, records)
        if what is None or records == before:
            return None
        case.write(case.name(tag), b"".join(rechain(case, tag, records)))
        return "%s: forged: %s" % (tag, what)
    return mutate


def _set_in(rng, records, kinds, changes, where=lambda body: True):
    at = _pick(rng, records, *kinds, where=where)
    if at is None:
        return None
    body = records[at]["body"]
    new = changes(body)
    for name, value in new.items():
        if value is None:
            body.pop(name, None)
        else:
            body[name] = value
    return "%s of line %d (%s)" % (new, at + 1, records[at]["head"]["kind"])


def _agents_confirmed(rng, _, __, records):
    return _set_in(rng, records, ("proposal",), lambda b: {"trust": "confirmed"}, lambda b: b["source"] != "user")


def _systems_source(rng, _, __, records):
    return _set_in(rng, records, ("proposal",), lambda b: {"source": "system"})


def _pattern_without_evidence(rng, _, __, records):
    return _set_in(rng, records, ("proposal",), lambda b: {"evidence": None}, lambda b: b["value"].get("tier") == 3)


def _decision(rng, records, change, where=lambda d: True):
    erased = {target for r in records if r["head"]["kind"] == "erase" for target in r["body"]["targets"]}

    def fits(decision):  # what rested on erased text can be judged no more
        return where(decision) and not erased & {decision["proposal"], *decision.get("parents", ())}

    at = _pick(rng, records, "revision", where=lambda b: any(map(fits, b["decisions"])))
    if at is None:
        return None
    decision = rng.choice([d for d in records[at]["body"]["decisions"] if fits(d)])
    before = dict(decision)
    change(decision)
    return "line %d, %s now %s" % (at + 1, before, decision)


def _accept(decision):
    decision.pop("rests", None)
    decision.update(outcome="accepted", reason="alone", parents=[])


def _held_accepted(rng, _, __, records):
    return _decision(rng, records, _accept, lambda d: d["outcome"] == "held")


def _touch_accepted(rng, _, __, records):
    return _decision(rng, records, _accept, lambda d: d["outcome"] == "noop")


def _accepted_held(rng, _, __, records):
    def hold(decision):
        decision.pop("parents")
        decision.update(outcome="held", reason="needs-owner")
    return _decision(rng, records, hold, lambda d: d["outcome"] == "accepted")


def _other_reason(rng, _, __, records):
    return _decision(rng, records, lambda d: d.update(reason={"alone": "beside", "beside": "alone"}[d["reason"]]),
                     lambda d: d["outcome"] == "accepted")


def _parents_dropped(rng, _, __, records):
    return _decision(rng, records, lambda d: d.update(parents=[]), lambda d: d.get("parents"))


def _parents_invented(rng, _, tag, records):
    claims = ["P%d-%s" % (n, tag) for n, r in enumerate(records) if r["head"]["kind"] == "proposal"]
    return _decision(rng, records, lambda d: d.update(parents=sorted({*d["parents"], rng.choice(claims)})), lambda d: "parents" in d)


def _decided_twice(rng, _, __, records):
    one = _pick(rng, records, "revision", where=lambda b: b["decisions"])
    two = _pick(rng, records, "revision")
    if one is None:
        return None
    records[two]["body"]["decisions"].append(rng.choice(records[one]["body"]["decisions"]))
    return "a decision of line %d also in line %d" % (one + 1, two + 1)


def _depth_raised(rng, _, __, records):
    return _set_in(rng, records, ("proposal", "resolution"), lambda b: {"depth": b["depth"] + rng.choice((1, 7))}, lambda b: b["depth"])


def _base_dropped(rng, _, __, records):
    return _set_in(rng, records, ("proposal",), lambda b: {"base": []}, lambda b: b["base"])


def _base_invented(rng, _, tag, records):
    ids = ["P%d-%s" % (n, tag) for n, r in enumerate(records) if r["head"]["kind"] == "proposal"]
    return _set_in(rng, records, ("proposal",), lambda b: {"base": sorted({*b["base"], rng.choice(ids)})})


def _base_unseen(rng, case, tag, records):
    other = next(t for t in case.tags if t != tag)
    last = max(n for n, line in enumerate(case.lines(other)) if json.loads(line)["head"]["kind"] == "proposal")
    return _set_in(rng, records[:12], ("proposal",), lambda b: {"base": sorted({*b["base"], "P%d-%s" % (last, other)})})


def _run_that_is_none(rng, _, tag, records):
    return _set_in(rng, records, ("proposal", "journal", "revision", "withdrawal", "mark", "run-close"),
                   lambda b: {"run": "R%d-%s" % (rng.choice((0, 3, len(records) + 5)), tag)})


def _after_the_close(rng, _, __, records):
    close = _pick(rng, records, "run-close")
    if close is None:
        return None
    later = [n for n, r in enumerate(records) if r["head"]["kind"] in ("journal", "proposal") and n > close]
    if not later:
        return None
    at = rng.choice(later)
    records[at]["body"]["run"] = records[close]["body"]["run"]
    return "line %d is of a run that line %d closed" % (at + 1, close + 1)


def _evidence_that_is_none(rng, _, tag, records):
    number = rng.choice((1, len(records) + 5))
    return _set_in(rng, records, ("proposal",), lambda b: {"evidence": ["E%d-%s" % (number, tag)]})


def _answer_of_another_value(rng, _, __, records):
    at = _pick(rng, records, "resolution", where=lambda b: b["answer"] in ("choose", "accept"))
    if at is None:
        return None
    records[at]["body"]["value"]["text"] = "Not what was chosen."
    return "line %d says something else than what was chosen" % (at + 1)


def _answer_of_another_handle(rng, _, __, records):
    return _set_in(rng, records, ("resolution",), lambda b: {"handle": b["handle"][:2] + "0" * 64}, lambda b: b["handle"][0] != "X")


def _answer_of_another_key(rng, _, __, records):
    return _set_in(rng, records, ("resolution",), lambda b: {"key": "shop.pattern"}, lambda b: "key" in b)


def _answer_without_parents(rng, _, __, records):
    return _set_in(rng, records, ("resolution",), lambda b: {"parents": [], "depth": 1}, lambda b: b["parents"])


def _answer_as_the_owners(rng, _, __, records):
    return _set_in(rng, records, ("resolution",), lambda b: {"source": "user"}, lambda b: b.get("source", "user") != "user")


def _withdrawn_of_another_run(rng, _, tag, records):
    at = _pick(rng, records, "withdrawal")
    runs = [n for n, r in enumerate(records) if r["head"]["kind"] == "run-open"]
    if at is None:
        return None
    records[at]["body"]["run"] = "R%d-%s" % (rng.choice(runs), tag)
    return "line %d is of another run" % (at + 1)


def _withdrawn_of_the_accepted(rng, _, __, records):
    accepted = [d["proposal"] for r in records for d in r["body"].get("decisions", ()) if d["outcome"] == "accepted"]
    return _set_in(rng, records, ("withdrawal",), lambda b: {"proposal": rng.choice(accepted)})


def _seen_beyond(rng, case, tag, records):
    other = next(t for t in case.tags if t != tag)
    last = max(n for n, r in enumerate(records) if other in r["body"].get("seen", {}))  # what is said later counts
    beyond = len(case.lines(other)) + rng.choice((0, 10))
    return _set_in(rng, records, ("revision", "run-open", "resolution"), lambda b: {"seen": {**b["seen"], other: beyond}},
                   lambda b: any(b is r["body"] for r in records[last:]))


def _seen_of_itself(rng, _, tag, records):
    return _set_in(rng, records, ("revision", "run-open", "resolution"), lambda b: {"seen": {**b["seen"], tag: 1}})


def _mark_beyond(rng, _, tag, records):
    return _set_in(rng, records, ("mark",), lambda b: {"upto": {tag: len(records) + 100}})


def _closed_twice(rng, _, __, records):
    at = _pick(rng, records, "run-close")
    if at is None:
        return None
    again = copy.deepcopy(records[at])
    again["body"].update(salt="e" * 32, outcome="fail")
    again["head"].update(seq=len(records), unit=1, at=engine.format_at(engine.parse_at(records[-1]["head"]["at"]) + 1))
    records.append(again)
    return "the close of line %d again at the end" % (at + 1)


def _other_vault(_, __, ___, records):
    records[0]["body"]["vault"] = "00000000-0000-4000-8000-00000000ffff"
    return "another vault's id in line 1"


def _size_kept(rng, case, _, records):
    return None if not case.has_kept() else _set_in(rng, records, ("recovery",), lambda b: {"size": b["size"] + 1}, lambda b: "size" in b)


def _hash_kept(rng, case, _, records):
    return None if not case.has_kept() else _set_in(rng, records, ("recovery",), lambda b: {"sha256": "0" * 64}, lambda b: "sha256" in b)


def _time_gone_back(rng, _, __, records):
    at = rng.randrange(2, len(records))
    records[at]["head"]["at"] = records[0]["head"]["at"]
    return "line %d has the time of the first" % (at + 1)


def _unit_of_another_size(rng, _, __, records):
    at = rng.choice([n for n, r in enumerate(records) if "unit" in r["head"]])
    records[at]["head"]["unit"] += rng.choice((1, 2))
    return "line %d ends a unit of %d" % (at + 1, records[at]["head"]["unit"])


def _record_dropped(rng, _, tag, records):
    at = _pick(rng, records, "proposal", "run-open", "journal")
    gone = records[at]
    name = "%s%d-%s" % (engine.LETTERS[gone["head"]["kind"]], at, tag)
    named = any(name in engine.canonical(r["body"]) for r in records[at:])  # else the rest obeys every rule
    if not named or ("unit" in gone["head"] and gone["head"]["unit"] > 1):
        return None
    del records[at]
    for n, record in enumerate(records):
        record["head"]["seq"] = n
    if "unit" not in gone["head"]:
        end_of_unit = next(r for r in records[at:] if "unit" in r["head"])
        end_of_unit["head"]["unit"] -= 1
    return "line %d dropped, and all that follow numbered anew" % (at + 1)


def _of_another_key(rng, _, __, records):
    return _set_in(rng, records, ("proposal",), lambda b: {"key": "other.key"}, lambda b: b["base"])


def _staged_of_none(rng, _, tag, records):
    return _set_in(rng, records, ("proposal",), lambda b: {"staged": ["P%d-%s" % (len(records) + 3, tag)]})


FORGERIES = {rule.__name__.strip("_").replace("_", "-"): forge(rule) for rule in (
    _agents_confirmed, _systems_source, _pattern_without_evidence, _held_accepted, _touch_accepted, _accepted_held, _other_reason,
    _parents_dropped, _parents_invented, _decided_twice, _depth_raised, _base_dropped, _base_invented, _base_unseen,
    _run_that_is_none, _after_the_close, _evidence_that_is_none, _answer_of_another_value,
    _answer_of_another_handle, _answer_of_another_key, _answer_without_parents, _answer_as_the_owners, _withdrawn_of_another_run,
    _withdrawn_of_the_accepted, _seen_beyond, _seen_of_itself, _mark_beyond, _closed_twice, _other_vault, _size_kept,
    _hash_kept, _time_gone_back, _unit_of_another_size, _record_dropped, _of_another_key, _staged_of_none)}
MUTATIONS = {
    "ledger-bytes": ledger_bytes, "format-bytes": format_bytes, "replica-bytes": replica_bytes, "here-bytes": here_bytes,
    "cache-bytes": cache_bytes, "kept-bytes": kept_bytes, "view-bytes": view_bytes, "git-bytes": git_bytes,
    "file-removed": remove_file, "file-swapped": swap_files, "file-blocked": block_file, "file-added": add_file,
    "line-cut-short": line_cut_short, "line-out": line_out, "line-twice": line_twice, "line-twice-other": line_twice_with_other,
    "lines-swapped": lines_swapped, "line-of-the-other": line_from_the_other, "line-from-elsewhere": line_from_elsewhere,
    "line-older": line_older_over_newer, "half-a-unit": half_a_unit, "line-begun": line_begun, "line-of-a-newer-kind": line_of_a_newer_kind,
    "units-cut": whole_units_cut, "field-changed": field_changed, "field-mended": field_mended,
    "forged": lambda rng, case: rng.choice(list(FORGERIES.values()))(rng, case),
}


def mutate(case, seed, names=tuple(MUTATIONS)):
    """Change one thing by chance; return its name and what was done. The same seed does the same."""
    rng = random.Random(seed)
    name = names[seed % len(names)]
    for _ in range(200):
        what = MUTATIONS[name](rng, case)
        if what is not None:
            return "%s: %s" % (name, what)
        case.put_back()
    raise AssertionError("%s never applies here" % name)
