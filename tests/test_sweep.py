"""The sweep: whatever became of the files, the index is what a fresh one over them would be.

The content of two indexes is compared row by row, ids apart, with the words that are found in them. Sweeps are also
killed between and within transactions, and given in several processes at once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scratch import ROOT, Scratch

import engine

#: Words that texts are made of; each is looked for.
WORDS = ("zebra", "gnu", "tapir", "ibex")
NAMES = ("a.md", "b.md", "sub/a.md", "sub/deep/c.md", "ü ö.md", "notes/mine.md", "sub.md")
TEXTS = (
    "The zebra runs.\n",
    "---\ntags: [x, y]\nstatus: done\n---\n# Gnu\n\nA gnu. #herd\n\n## Tapir\n\nA tapir.\n",
    "# Ibex\n\n" + "The ibex climbs. " * 30 + "\n\n" + "The zebra does not. " * 30 + "\n",
    "---\nbroken\n---\nA gnu and a zebra.\n",
    "- [[a]]\n- [[b]]\n- [[zebra]]\n",
    "",
)
#: With the largest size of a file that is indexed in these tests, in bytes, the longest text is still below it.
LARGEST = 2_000


def create(path, text):
    """Write a file, whatever stands in its place."""
    clear(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def clear(path):
    """Take away what stands at a path, and any file that stands where a folder above it must be."""
    for above in path.parents:
        if above.is_file() or above.is_symlink():
            above.unlink()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()


def edit(path, text):
    """Add to a file that is there."""
    if path.is_file() and not path.is_symlink():
        path.write_bytes(path.read_bytes() + text.encode("utf-8"))


def truncate(path, _):
    """Leave nothing of a file that is there."""
    if path.is_file() and not path.is_symlink():
        path.write_bytes(b"")


def shorten(path, _):
    """Leave half of a file that is there."""
    if path.is_file() and not path.is_symlink():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])


def touch(path, _):
    """Change nothing but the times of a file that is there."""
    if path.is_file():
        os.utime(path, (1, 1))


def with_crlf(path, _):
    """Write a file's lines with the ends that another system gives them, or back."""
    if path.is_file() and not path.is_symlink():
        data = path.read_bytes()
        path.write_bytes(data.replace(b"\r\n", b"\n") if b"\r\n" in data else data.replace(b"\n", b"\r\n"))


def by_folder(path, text):
    """Put a folder with a note in the place of a file."""
    clear(path)
    path.mkdir(parents=True)
    (path / "in.md").write_bytes(text.encode("utf-8"))


def by_link(path, _):
    """Put a symbolic link in the place of a file."""
    clear(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # where a link needs rights that are not there
        path.symlink_to("a.md")


def by_too_much(path, _):
    """Put a file that is too large in the place of one."""
    create(path, "zebra " * LARGEST)


def by_garbage(path, text):
    """Put a file that is not UTF-8 in the place of one."""
    create(path, text)
    path.write_bytes(path.read_bytes() + b"\xff")


def rename(path, text):
    """Give what stands at a path another name; a text says which."""
    target = path.with_name(f"was{TEXTS.index(text)}.md")
    if path.exists() or path.is_symlink():
        clear(target)
        path.rename(target)


def rename_folder(path, text):
    """Give the folder of a path another name, if it is not the vault's own."""
    target = path.parent.with_name(f"were{TEXTS.index(text)}")
    if path.parent.name in ("sub", "deep") and path.parent.is_dir() and not target.exists():
        path.parent.rename(target)


def delete(path, _):
    """Delete what stands at a path."""
    clear(path)


OPERATIONS = (create, edit, delete, rename, rename_folder, truncate, shorten, touch, with_crlf, by_folder, by_link, by_too_much, by_garbage)
#: An operation, the place and the text of it, and whether a sweep follows at once.
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(NAMES), st.sampled_from(TEXTS), st.booleans()), max_size=14)


def sweep(index, vault, root=None, now=1):
    """Bring an index in line; return how many files there are, were changed and are gone."""
    answer = engine.sweep(index, root or vault.root, vault, now, lambda *_: None)
    return {name: answer[name] for name in ("files", "changed", "gone")}


def content(index):
    """Return what an index holds, ids apart, and what is found in it; the entries of a file must stand side by side."""
    index.db.execute("INSERT INTO words(words, rank) VALUES('integrity-check', 1)")
    files = index.dicts("SELECT path, sha256, size, tags, properties, fault, skipped FROM file ORDER BY path")
    chunks = index.dicts("SELECT f.path AS path, c.* FROM chunk c JOIN file f ON f.id=c.file ORDER BY f.path, c.id")
    for one, two in zip(chunks, chunks[1:]):
        assert one["path"] != two["path"] or two["id"] == one["id"] + 1, "entries are found beside each other by their ids"
    rows = [{name: value for name, value in chunk.items() if name not in ("id", "file")} for chunk in chunks]
    sql = "SELECT f.path, c.first FROM words w JOIN chunk c ON c.id=w.rowid JOIN file f ON f.id=c.file WHERE words MATCH ? ORDER BY 1, 2"
    found = {word: index.db.execute(sql, (word,)).fetchall() for word in (*WORDS, "herd", "done", "mine", "codex")}
    assert index.count("SELECT count(*) FROM chunk") == len(rows), "every chunk is of a file"
    return files, rows, found, index.get("root")


def fresh(vault, root=None):
    """Return the content of a fresh index over the same files."""
    index = engine.Index(":memory:")
    sweep(index, vault, root)
    held = content(index)
    index.close()
    return held


@pytest.fixture(scope="module")
def empty_vault(tmp_path_factory):
    """Return the folder of a vault without a record; tests get copies of it."""
    scratch = Scratch(tmp_path_factory.mktemp("empty") / "project")
    scratch.ok("init")
    return scratch.folder


@pytest.fixture
def vault(empty_vault, tmp_path):
    """Return a vault of its own."""
    shutil.copytree(empty_vault, tmp_path / "project")
    return engine.open_vault(str(tmp_path / "project" / "memory"))


def note(n):
    """Return the text of a note of a number."""
    return f"# Note {n}\n\nThe {WORDS[n % 4]} of number {n}.\n"


def fill(vault, count=23):
    """Write some notes, more than one transaction takes where that is set to 5 files; return their folder."""
    folder = Path(vault.root, "many")
    folder.mkdir()
    for n in range(count):
        (folder / f"{n:02}.md").write_text(note(n), encoding="utf-8")
    return folder


@settings(max_examples=80)
@given(steps=STEPS)
@example(steps=[(by_too_much, "a.md", "", True), (truncate, "a.md", "", True)])
@example(steps=[(by_link, "b.md", "", True), (create, "b.md", "", True)])
@example(steps=[(by_link, "a.md", "", True)])
@example(steps=[(by_garbage, "a.md", TEXTS[0], True), (by_too_much, "a.md", "", True), (by_garbage, "a.md", TEXTS[0], True)])
@example(steps=[(create, "sub.md", TEXTS[1], True), (by_folder, "sub.md", TEXTS[1], True), (create, "sub.md", TEXTS[1], True)])
@example(steps=[(create, "sub/a.md", TEXTS[1], True), (rename_folder, "sub/a.md", "", True), (create, "sub/a.md", TEXTS[2], False)])
def test_any_sequence(tmp_path_factory, empty_vault, steps):
    """After any sequence of changes, with sweeps anywhere between them, the index is that of a fresh sweep."""
    folder = tmp_path_factory.mktemp("any") / "project"
    shutil.copytree(empty_vault, folder)
    vault = engine.open_vault(str(folder / "memory"))
    index, largest = engine.Index(":memory:"), engine.INDEXED_BYTES_MAX
    engine.INDEXED_BYTES_MAX = LARGEST
    try:
        for operation, name, text, looks in steps:
            operation(folder / "memory" / name, text)
            if looks:
                sweep(index, vault)
        sweep(index, vault)
        assert content(index) == fresh(vault)
        assert sweep(index, vault)["changed"] == 0
    finally:
        engine.INDEXED_BYTES_MAX = largest
        index.close()
    shutil.rmtree(folder)


def test_commands_between(tmp_path):
    """After any commands of the engine, with sweeps between them, the index is that of a fresh sweep."""
    scratch = Scratch(tmp_path / "project")
    scratch.ok("init")
    vault = engine.open_vault(str(scratch.vault))
    index = engine.open_index(vault.index, True)

    def look():
        sweep(index, vault)
        assert content(index) == fresh(vault)

    look()
    run = scratch.json("start", "--actor", "codex")[1]["run"]
    scratch.ok("journal", "--run", run, "--text", "The zebra was seen.", "--ref", "log-1")
    look()
    make = ("--tier", "2", "--new-subject", "--now")
    scratch.ok("propose", "--run", run, "--key", "a.b", "--text", "The zebra runs.", "--tag", "herd", "--evidence", "log-1", *make)
    look()
    for text in ("The gnu runs.", "The tapir runs."):
        scratch.ok("propose", "--run", run, "--key", "a.b", "--text", text, "--now")
        scratch.ok("journal", "--run", run, "--text", text)
        look()
    other = scratch.json("start", "--actor", "claude")[1]["run"]
    for who, text in ((run, "The ibex rests."), (other, "The ibex climbs.")):
        scratch.ok("propose", "--run", who, "--key", "c.d", "--tier", "2", "--new-subject", "--text", text)
    scratch.ok("sync", "--run", run)
    scratch.ok("sync", "--run", other)
    look()
    question = scratch.json("review", "c.d")[1]["questions"][0]
    scratch.ok("resolve", question["handle"], "--choose", question["values"][1]["id"], "--note", "It climbs.", "--human-approved")
    look()
    scratch.ok("propose", "--run", run, "--key", "a.b", "--op", "close", "--why", "No tapir is there.", "--now")
    look()
    scratch.ok("close", "--run", run, "--outcome", "success", "--summary", "Done.")
    (scratch.vault / "notes" / "c.d.md").write_text("mine, of a zebra\n", encoding="utf-8")
    look()
    scratch.ok("doctor", "--fix")
    look()
    assert index.count("SELECT count(DISTINCT kind) FROM chunk") == 4
    index.close()


def test_nothing_to_do(vault):
    """Where nothing changed, nothing is written: not a row, and not when something was last indexed."""
    fill(vault)
    index = engine.open_index(vault.index, True)
    assert sweep(index, vault)["changed"] == 23
    before = index.db.total_changes
    assert sweep(index, vault, now=99) == {"files": 23, "changed": 0, "gone": 0}
    assert (index.db.total_changes, index.get("indexed")) == (before, "1")
    index.close()


def test_rename_keeps_what_stands_for_a_text(vault):
    """A note that has a heading is, under another name, the same input of a model: a rename costs no embedding."""
    folder = fill(vault, 3)
    index = engine.Index(":memory:")
    sweep(index, vault)
    before = {row[0] for row in index.db.execute("SELECT input FROM chunk")}
    (folder / "00.md").rename(folder / "renamed.md")
    assert sweep(index, vault) == {"files": 3, "changed": 1, "gone": 1}
    assert {row[0] for row in index.db.execute("SELECT input FROM chunk")} == before
    index.close()


def test_words_that_are_gone(vault):
    """A mistyped word means words that are there: those of texts that were deleted take no place from them."""
    gone = Path(vault.root, "gone.md")
    gone.write_text("harbor harbos harbot harbox\n", encoding="utf-8")
    Path(vault.root, "stays.md").write_text("A harbour is here.\n", encoding="utf-8")
    index = engine.Index(":memory:")
    sweep(index, vault)
    gone.unlink()
    sweep(index, vault)
    other = engine.Index(":memory:")
    sweep(other, vault)
    for which in (other, index):
        assert len(engine.search_chunks(which, "harbou", None, words=True, allowed=None).scores) == 1
        which.close()


# -- killed in the middle --


class Killed(BaseException):
    """What a test raises where a process would be gone."""


@pytest.mark.parametrize("function", ["_replace", "_add"])
@pytest.mark.parametrize("after", [0, 1, 2, 7, 11])
def test_interrupted(vault, monkeypatch, function, after):
    """A sweep that ends between two transactions, or within one, leaves whole transactions; the next one completes it."""
    fill(vault)
    monkeypatch.setattr(engine, "_FILES_A_COMMIT", 5)
    real, calls = getattr(engine, function), []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise Killed
        return real(*arguments)

    index = engine.open_index(vault.index, True)
    with monkeypatch.context() as patch:
        patch.setattr(engine, function, interrupted)
        if function == "_add" or after < 5:
            with pytest.raises(Killed):
                sweep(index, vault)
            held = index.count("SELECT count(*) FROM file")
            assert held == (after * 5 if function == "_replace" else after // 5 * 5)
            assert index.count("SELECT count(DISTINCT file) FROM chunk") == held
    index.close()
    index = engine.open_index(vault.index, True)
    assert index.reasons == []
    sweep(index, vault)
    assert content(index) == fresh(vault)
    index.close()


#: Sweeps in commits of five files, and is gone at the call of ``_replace`` or ``_add`` whose number is named.
KILLED = """
import os, sys
import engine

engine._FILES_A_COMMIT = 5
name, left = sys.argv[2], [int(sys.argv[3])]
real = getattr(engine, name)

def killed(*arguments):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
    return real(*arguments)

setattr(engine, name, killed)
vault = engine.open_vault(sys.argv[1])
index = engine.open_index(vault.index, True)
engine.sweep(index, sys.argv[4], vault, 1, lambda *_: None)
"""


def kill(vault, function, after, root=None):
    """Let a process sweep until it is gone in the middle."""
    words = [sys.executable, "-c", KILLED, vault.root, function, str(after), root or vault.root]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False)
    assert done.returncode == 9, done.stderr


@pytest.mark.parametrize(("function", "after"), [("_replace", 2), ("_add", 13)])
def test_killed(vault, function, after):
    """A process that is gone in the middle leaves an index that the next sweep completes, from where it was."""
    folder = fill(vault)
    kill(vault, function, after)
    (folder / "03.md").unlink()
    index = engine.open_index(vault.index, True)
    assert index.reasons == []
    assert sweep(index, vault) == {"files": 22, "changed": 13, "gone": 1}
    assert content(index) == fresh(vault)
    index.close()


def test_killed_before_another_root(vault):
    """A first sweep that was killed does not leave what another root's files are taken for."""
    root = Path(vault.root).parent
    text = b'---\nkey: "a.b"\n---\n\n# a.b\n\n> The zebra runs.\n'
    sealed = text + (engine._SEAL % engine.sha256(text)).encode("ascii")  # noqa: SLF001 - as a view that was copied has it
    for folder in (Path(vault.root, "notes"), root / "notes"):
        folder.mkdir(exist_ok=True)
        (folder / "a.b.md").write_bytes(sealed)
    for n in range(9):
        Path(vault.root, f"z{n}.md").write_text("A gnu.\n", encoding="utf-8")
    kill(vault, "_replace", 2)
    index = engine.open_index(vault.index, True)
    sweep(index, vault, str(root))
    assert content(index) == fresh(vault, str(root))
    index.close()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_killed_while_another_root_is_read(vault, after):
    """Killed while all is read anew for another root, the index is completed for whichever root comes next."""
    folder = fill(vault)
    index = engine.open_index(vault.index, True)
    sweep(index, vault)
    index.close()
    kill(vault, "_replace", after, str(folder))
    for root in (vault.root, str(folder)):
        index = engine.open_index(vault.index, True)
        sweep(index, vault, root)
        assert content(index) == fresh(vault, root)
        index.close()


# -- several at once --

#: Sweeps again and again until its input ends, in commits of three files; prints what was done to the index, and how often.
SWEEPER = """
import json, sys, threading
import engine

engine._FILES_A_COMMIT = 3
vault = engine.open_vault(sys.argv[1])
ended, sweeps, reasons = threading.Event(), 0, []
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print("here", flush=True)
while not ended.is_set() or not sweeps:
    index = engine.open_index(vault.index, True)
    engine.sweep(index, vault.root, vault, 1, lambda *_: None)
    reasons += index.reasons
    index.close()
    sweeps += 1
print(json.dumps({"sweeps": sweeps, "reasons": reasons}))
"""


def begin(code, vault):
    """Start a process."""
    words, environment = [sys.executable, "-c", code, vault.root], {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sweeps_at_once(vault):
    """Processes that sweep at once while files change do each other no harm: nothing is made anew, and all is right at the end."""
    folder = fill(vault)
    workers = [begin(SWEEPER, vault) for _ in range(2)]
    for worker in workers:
        assert worker.stdout.readline() == "here\n", worker.communicate()[1]
    for n in range(120):
        path = folder / f"{n % 23:02}.md"
        if n % 5 == 4 and path.exists():
            path.unlink()
        else:
            path.write_text(note(n), encoding="utf-8")
    for worker in workers:
        out, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
        answer = json.loads(out)
        assert (answer["reasons"], answer["sweeps"] > 0) == ([], True)
    index = engine.open_index(vault.index, True)
    sweep(index, vault)
    assert content(index) == fresh(vault)
    index.close()


def test_first_sweeps_at_once(vault):
    """Commands that find no index make one together: each answers, and none takes the others' for damaged."""
    fill(vault)
    words = [sys.executable, str(ROOT / "engine.py"), "index", "--json", "--vault", vault.root]
    environment = {**os.environ, "MUNIMENT_MODELS": str(Path(vault.root, ".none"))}
    started = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        answer = json.loads(out)
        assert (answer["warnings"], answer["path"], answer["files"]) == ([], vault.index, 23)


def test_another_comes_between(vault, monkeypatch):
    """Where another command saw an edit first, what was read before it stands until the next sweep at most."""
    folder = fill(vault, 4)
    index, other = engine.open_index(vault.index, True), engine.open_index(vault.index, True)
    sweep(index, vault)
    real = engine._replace

    def between(*arguments):
        monkeypatch.setattr(engine, "_replace", real)
        (folder / "01.md").write_text("# New\n\nThe new gnu.\n", encoding="utf-8")
        (folder / "02.md").unlink()
        sweep(other, vault)
        return real(*arguments)

    (folder / "01.md").write_text("# Old\n\nThe old gnu.\n", encoding="utf-8")
    monkeypatch.setattr(engine, "_replace", between)
    sweep(index, vault)
    sweep(other, vault)
    assert content(index) == content(other) == fresh(vault)
    other.close()
    index.close()


def test_searches_beside_a_sweep(tmp_path):
    """Searches beside sweeps of other processes, while files change, are all answered, with what is in files then."""
    scratch = Scratch(tmp_path / "project")
    scratch.ok("init")
    vault = engine.open_vault(str(scratch.vault))
    folder = fill(vault)
    worker = begin(SWEEPER, vault)
    assert worker.stdout.readline() == "here\n", worker.communicate()[1]
    for n in range(40):
        (folder / f"{n % 23:02}.md").write_text(f"# Note\n\nThe okapi of number x{n}.\n", encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert engine.main(["search", f"x{n}", "--mode", "lexical", "--json", "--vault", vault.root]) == 0
        assert json.loads(out.getvalue())["hits"][0]["path"] == f"many/{n % 23:02}.md"
    out, err = worker.communicate(timeout=60)
    assert (worker.returncode, json.loads(out)["reasons"]) == (0, []), err
