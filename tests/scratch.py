"""A vault in a folder of its own, with a clock and chance that give the same bytes every time."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # also where a test file is run as a script
engine = importlib.import_module("engine")
# What this machine has set, or which models it has, is nothing to a test.
for name in ("MUNIMENT_VAULT", "MUNIMENT_INDEX_ROOT"):
    os.environ.pop(name, None)
os.environ.pop("PYTHONUNBUFFERED", None)  # it hides what becomes of output that cannot be written
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts would compile the engine anew
os.environ["MUNIMENT_MODELS"] = os.devnull
os.environ["MUNIMENT_STATE"] = os.devnull  # many tests put an older vault back in its place: only tests of the witness have one

#: The version that pinned bytes carry, whatever the engine's own is by now.
PINNED_VERSION = "0.1.0"
#: 2026-11-30T08:12:45.000Z: when the first command of a scratch vault is given.
FIRST_MS = 1_796_026_365_000
#: The tags that a scratch vault's replicas get, in turn.
SCRATCH_TAGS = ("k7qdm2xw", "m3rtw9zh", "p4npy8vj")


def stream_of(data):
    """Return bytes as a standard input: a real file, since the engine may ask the system for it."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with what wraps it
    file.write(data)
    file.seek(0)
    return io.TextIOWrapper(file, encoding="utf-8")


class Chance:
    """Bytes that count up: 8 of them are the next tag, 16 the next salt or vault id."""

    def __init__(self, tags=SCRATCH_TAGS):
        self.tags, self.salts = list(tags), 0

    def __call__(self, count):
        """Return ``count`` bytes."""
        if count == 8:
            return bytes(engine.TAG_LETTERS.index(letter) for letter in self.tags.pop(0))
        self.salts += 1
        return self.salts.to_bytes(count, "big")


class Scratch:
    """A folder in which commands are given, each a second after the one before; its vault is memory/.

    ``now_ms`` is the time of the last command and may be set. Outputs name the folder as /project.
    """

    def __init__(self, folder, chance=None):
        self.folder = Path(os.path.realpath(folder))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.chance = chance or Chance()
        self.now_ms = FIRST_MS - 1000
        self.vault = self.folder / "memory"

    def run(self, *words, stdin=b""):
        """Give one command; return (exit status, standard output, standard error)."""
        self.now_ms += 1000
        out, err, before = io.StringIO(), io.StringIO(), (Path.cwd(), sys.stdin, engine.VERSION)
        try:
            os.chdir(self.folder)
            sys.stdin = stream_of(stdin)
            engine.VERSION = PINNED_VERSION
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = engine.main(list(words), lambda: self.now_ms, self.chance)
        finally:
            os.chdir(before[0])
            sys.stdin.close()
            sys.stdin, engine.VERSION = before[1:]
        return status, self._named(out.getvalue()), self._named(err.getvalue())

    def ok(self, *words, stdin=b""):
        """Give one command that must succeed; return its standard output."""
        status, out, err = self.run(*words, stdin=stdin)
        assert status in (0, 4), "%s: exit %d: %s%s" % (" ".join(words), status, out, err)
        return out

    def json(self, *words, stdin=b""):
        """Give one command with --json; return (exit status, the object that it printed)."""
        status, out, err = self.run(*words, "--json", stdin=stdin)
        return status, json.loads(out or err)

    def ledger(self, tag=SCRATCH_TAGS[0]):
        """Return the path of a ledger."""
        return self.vault / ".muniment" / "ledger" / (tag + ".jsonl")

    def views(self):
        """Return the text of every Markdown file of the vault by its path, in order."""
        found = sorted(path.relative_to(self.vault).as_posix() for path in self.vault.rglob("*.md"))
        return {name: (self.vault / name).read_bytes().decode("utf-8") for name in found}

    def copy(self, folder, chance):
        """Return a copy of the whole project folder, as another machine has it."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        other = Scratch(folder, chance)
        other.now_ms = self.now_ms
        return other

    def take(self, other):
        """Take over what another copy's ledgers have more, as git would carry it."""
        for theirs in other.ledger().parent.glob("*.jsonl"):
            ours = self.ledger(theirs.stem)
            if not ours.exists() or ours.stat().st_size < theirs.stat().st_size:
                shutil.copy(theirs, ours)

    def _named(self, text):
        for root in (str(self.folder), json.dumps(str(self.folder))[1:-1]):
            text = text.replace(root, "/project")
        return text.replace("/project\\\\", "/project/").replace("/project\\", "/project/") if os.sep == "\\" else text
