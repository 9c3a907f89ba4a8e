"""What the tests of the commands share: a vault in a folder of its own, and two ways to call the engine.

`cli` runs engine.py in a process of its own, as an agent does. `call` runs the same command line in this
process, for tables of many calls and for what a command needs as its starting point.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import scratch

ENGINE = Path(__file__).resolve().parents[2] / "engine.py"
#: The engine as the installed command starts it, from bytecode: a script is compiled anew each time.
AS_COMMAND = "import os, sys; del sys.argv[0]; sys.path.insert(0, os.path.dirname(sys.argv[0])); import engine; engine.run()"
#: 2026-11-30T08:00:00.000Z
MONDAY = 1_796_025_600_000
DAY = 86_400_000


def _load():
    spec = importlib.util.spec_from_file_location("muniment_engine", ENGINE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reply:
    """What a command answered: its exit status and both streams, as text and as the JSON they hold."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return f"Reply({self.status}, {self.out!r}, {self.err!r})"

    def __getitem__(self, name):
        """Return a field of the object on standard output."""
        return self.data[name]

    @property
    def data(self):
        """The object on standard output."""
        assert self.out, self
        return json.loads(self.out)

    @property
    def error(self):
        """The object on standard error."""
        assert self.err, self
        return json.loads(self.err)

    @property
    def code(self):
        """The code of the error, with its exit status."""
        return self.status, self.error["code"]


class Project:
    """A folder with a vault at memory/, ways to call the engine on it, and what tests often begin with."""

    def __init__(self, folder, engine):
        self.folder, self.engine = folder, engine
        self.vault = folder / "memory"
        self.now = None
        self.healthy = True

    def cli(self, *words, stdin=b"", env=None, cwd=None, plain=False, prefix=()):
        """Run a command line in a process of its own, with --json unless ``plain``; return its Reply."""
        environ = {name: value for name, value in os.environ.items() if name != "MUNIMENT_VAULT"}
        head = [*prefix, sys.executable, "-c", AS_COMMAND, str(ENGINE), *([] if plain else ["--json"])]
        done = subprocess.run(
            [*head, *(w if isinstance(w, bytes) else str(w) for w in words)],
            input=stdin,
            capture_output=True,
            cwd=cwd or self.folder,
            env={**environ, **(env or {})},
            timeout=60,
            check=False,
        )
        return Reply(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    def call(self, *words, stdin=b"", plain=False):
        """Run a command line on the vault in this process, with --json unless ``plain``; return its Reply."""
        out, err, kept = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = scratch.stream_of(stdin)
        argv = ["--vault", str(self.vault), *([] if plain else ["--json"]), *map(str, words)]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = self.engine.main(argv, lambda: self.now or time.time_ns() // 1_000_000)
        finally:
            sys.stdin.close()
            sys.stdin = kept
        return Reply(status, out.getvalue(), err.getvalue())

    def ok(self, *words, **options):
        """Call a command that must succeed; return the object it prints."""
        reply = self.call(*words, **options)
        assert reply.status == 0, reply
        return reply.data

    def start(self, actor="codex", *words):
        """Open a run and return its handle."""
        return self.ok("start", "--actor", actor, *words)["run"]

    def close(self, run):
        """Close a run."""
        return self.call("close", "--run", run, "--outcome", "success", "--summary", "Done.")

    def journal(self, run, text="It was seen.", *words):
        """Record an entry and return its id."""
        return self.ok("journal", "--run", run, "--text", text, *words)["entry"]

    def stage(self, run, key, text, *words, **options):
        """Stage a proposal that must not be refused; return its id."""
        return self.ok("propose", "--run", run, "--key", key, "--text", text, *words, **options)["proposal"]

    def fact(self, run, key, text="A fact.", *words, **options):
        """Make a new subject, of tier 2 unless ``words`` say another, that is accepted at once; return the proposal's id."""
        tier = () if "--tier" in words else ("--tier", "2")
        return self.stage(run, key, text, "--new-subject", "--now", *tier, *words, **options)

    def owned(self, run, key, text="The owner's word.", *words):
        """Make a new subject that the owner said; return the proposal's id."""
        return self.fact(run, key, text, "--source", "user", "--trust", "confirmed", *words)

    def conflict(self, key, first="one", second="two"):
        """Let two runs set one key at once; return (run, proposal) of both and the conflict's handle."""
        runs = self.start("codex"), self.start("claude")
        made = [(run, self.stage(run, key, text, "--tier", "2", "--new-subject")) for run, text in zip(runs, (first, second))]
        assert self.call("sync", "--run", runs[0]).status == 0
        assert self.call("sync", "--run", runs[1]).status == 4
        return (*made, self.ok("review", key)["questions"][0]["handle"])

    def held(self, key, text="Orders live in PostgreSQL.", *words):
        """Let an agent propose a tier 1 subject, which is held; return (run, proposal, handle)."""
        run = self.start("codex")
        reply = self.call("propose", "--run", run, "--key", key, "--tier", "1", "--new-subject", "--text", text, "--now", *words)
        assert reply.status == 4, reply
        return run, reply["proposal"], self.ok("review", key)["questions"][0]["handle"]

    def current(self, key):
        """Return the current value of a key."""
        return self.ok("recall", key)["current"]

    def ledger(self):
        """Return the bytes of every ledger by name."""
        return {path.name: path.read_bytes() for path in sorted((self.vault / ".muniment" / "ledger").glob("*.jsonl"))}

    def records(self, kind=None):
        """Return the records of every ledger, or those of a kind, as (head, body)."""
        lines = [json.loads(line) for data in self.ledger().values() for line in data.splitlines()]
        return [(line["head"], line["body"]) for line in lines if kind in (None, line["head"]["kind"])]

    def views(self):
        """Return the bytes of every view by its path within the vault."""
        found = [
            *self.vault.glob("*.md"),
            *(p for name in ("notes", "history", "journal", "conflicts") for p in self.vault.glob(name + "/*")),
        ]
        return {path.relative_to(self.vault).as_posix(): path.read_bytes() for path in sorted(found)}

    def tree(self):
        """Return every file of the vault, with its bytes; what SQLite keeps beside an open database apart."""
        return {
            path.relative_to(self.vault).as_posix(): path.read_bytes()
            for path in sorted(self.vault.rglob("*"))
            if path.is_file() and not path.name.endswith(("-wal", "-shm"))
        }

    def doctor(self):
        """Return the findings of `doctor --strict`, notices apart.

        It is asked as without jsonschema, which takes half of its time: that plain checks and schemas agree is proved in test_records.py.
        """
        with mock.patch.dict(sys.modules, {"jsonschema": None}):
            return [f for f in self.call("doctor", "--strict").data["findings"] if f["severity"] != "notice"]


class Remembering(Project):
    """A Project whose machine remembers in a folder of the test's."""

    def __init__(self, folder, engine, states):
        super().__init__(folder, engine)
        self.states = states

    def path(self, tag):
        """Return the path of a ledger."""
        return self.vault / ".muniment" / "ledger" / (tag + ".jsonl")


@pytest.fixture(scope="session")
def engine():
    """Return engine.py as a module."""
    return _load()


@pytest.fixture
def bare(tmp_path, engine):
    """Return a Project whose folder is a repository's root, so that no vault above it is found; it has no vault yet."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return Project(folder, engine)


@pytest.fixture
def project(bare):
    """Return a Project with a vault, which `doctor --strict` must find healthy when the test is over."""
    bare.ok("init", bare.vault)
    yield bare
    if bare.healthy:
        assert bare.doctor() == []


@pytest.fixture
def cli(project):
    """Return the function that runs a command line on a new vault, as a process of its own."""
    return project.cli


@pytest.fixture
def call(project):
    """Return the function that runs a command line on a new vault in this process."""
    return project.call


@pytest.fixture(scope="session")
def git():
    """Return a function that runs git in a folder, away from the user's settings; skip where there is no git."""
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    settings = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@t",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@t",
    }
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def run(folder, *words):
        done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, env={**environ, **settings}, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def bound_by_modes():
    """Return the words to put before a command so that file modes bind it; skip where nothing makes them bind."""
    if os.name != "posix":
        pytest.skip("modes do not keep a folder from being written here")
    if os.geteuid() != 0:
        return ()
    program = shutil.which("setpriv")
    words = (program, "--inh-caps=-all", "--bounding-set=-all")
    if program is None or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("runs as root, whom modes do not bind, and setpriv cannot change that")
    return words


@pytest.fixture
def read_only(project):
    """Return a function that takes the right to write from all of the vault; it is given back when the test is over."""

    def set_modes(folders, files):
        for path in (project.vault, *sorted(project.vault.rglob("*"))):
            path.chmod(folders if path.is_dir() else files)

    yield lambda: set_modes(0o500, 0o400)
    set_modes(0o700, 0o600)
