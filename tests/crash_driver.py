"""A process that has imported the engine and runs each command in a fork of itself, with faults on order.

Importing the engine once and forking makes a command cost milliseconds, so that one can be ended at each of its
calls. As a script this file answers requests, one JSON object a line; `Driver` is the other end. What is counted is
each call that touches the disk: of `os` those in PRIMITIVES, of SQLite those in STATEMENTS.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sqlite3
import subprocess
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Functions of `os` that change the disk; `os.makedirs` makes its folders with `os.mkdir`.
PRIMITIVES = ("open", "write", "fsync", "replace", "rename", "unlink", "ftruncate", "mkdir")
#: What SQLite is told that reaches the disk.
STATEMENTS = ("BEGIN IMMEDIATE", "COMMIT", "PRAGMA journal_mode=WAL")
#: What a full disk refuses.
GROWING = ("open", "write", "fsync", "mkdir", "COMMIT", "script", "change")
CHANGES = ("INSERT", "UPDATE", "DELETE")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
#: The exit status of a process that was ended by a fault.
ENDED = 77


class Fault:
    """Counts the calls of a command and does something at one of them.

    ``action`` is `before` or `after` (the process ends there), `half` (it ends in the middle of a write), `short`
    (half of a write is done, which is no error), or the name of an error: of this one call, or with ``stays`` of
    every later one that a full disk would refuse, too.
    """

    def __init__(self, at=0, action="", stays=False):
        self.at, self.action, self.stays = at, action, stays
        self.log, self.paths = [], {}

    def call(self, name, path, function, *args):
        """Count one call and carry it out, or what is on order in its place."""
        self.log.append([name, path])
        if len(self.log) < self.at or not self.at:
            return function(*args)
        if len(self.log) > self.at:
            if self.stays and name in GROWING:
                self.fail(name, path)
            return function(*args)
        if self.action == "before":
            os._exit(ENDED)
        if self.action in ("half", "short"):
            function(args[0], args[1][: len(args[1]) // 2])
            if self.action == "half":
                os._exit(ENDED)
            return len(args[1]) // 2
        if self.action == "after":
            with contextlib.suppress(OSError):
                function(*args)
            os._exit(ENDED)
        return self.fail(name, path)

    def fail(self, name, path):
        """Raise the error on order, in the form that the call would give it."""
        if name in PRIMITIVES:
            number = getattr(errno, self.action)
            raise OSError(number, os.strerror(number), *([path] if name in ("open", "replace", "unlink", "mkdir") else []))
        raise sqlite3.OperationalError("database or disk is full")

    def wrap(self, name):
        """Return a function of `os` that counts."""
        real = getattr(os, name)

        def wrapped(first, *args, **named):
            path = str(args[0] if name in ("replace", "rename") else self.paths.get(first, first))
            if name == "open" and not (args[0] if args else named["flags"]) & WRITING:
                result = real(first, *args, **named)
            else:
                result = self.call(name, path, lambda *given: real(*given, **named), first, *args)
            if name == "open":
                self.paths[result] = path
            return result

        return wrapped

    def connect(self, real):
        """Return `sqlite3.connect` for connections that count."""
        fault = self

        class Connection(sqlite3.Connection):
            path = ":memory:"

            def execute(self, sql, *args):
                name = sql if sql in STATEMENTS else "change" if fault.stays and sql.startswith(CHANGES) else ""
                if not name or self.path == ":memory:":
                    return super().execute(sql, *args)
                return fault.call(name, self.path, super().execute, sql, *args)

            def executescript(self, sql):
                if self.path == ":memory:":
                    return super().executescript(sql)
                return fault.call("script", self.path, super().executescript, sql)

        def connecting(path, **named):
            connection = real(path, factory=Connection, **named)
            connection.path = path
            return connection

        return connecting


def run_here(engine, request):
    """Run commands in this process and return of each its status, what it printed, and the calls that were made."""
    fault = Fault(**request.get("fault") or {})
    os.chdir(request["folder"])
    if request.get("nobody"):
        os.setgid(65534)
        os.setuid(65534)
    for name in PRIMITIVES:
        setattr(os, name, fault.wrap(name))
    sqlite3.connect = fault.connect(sqlite3.connect)
    answers = []
    for argv in request["commands"]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = engine.main(argv)
        answers.append({"status": status, "out": out.getvalue(), "err": err.getvalue(), "calls": fault.log})
    return answers


def run_forked(engine, request):
    """Run commands in a fork; one in whose middle a fault ended the process has the status None."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answers = run_here(engine, request)
        except BaseException:  # noqa: BLE001 - what the engine lets through is what the test must see
            answers = [{"status": 1, "out": "", "err": traceback.format_exc(), "calls": []}]
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(answers).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(data) if data else [{"status": None, "out": "", "err": "ended with %d" % code, "calls": []}]


def serve():
    """Answer requests until the input ends."""
    sys.path.insert(0, str(ROOT))
    # What commands import when they come to it: a fork that gave up its rights could not read the files.
    import difflib
    import locale

    import engine

    loaded = [difflib, locale]
    with contextlib.suppress(ImportError):  # and what `doctor --strict` uses where it is there
        import jsonschema
        import referencing

        loaded += [jsonschema, referencing]
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run_forked(engine, json.loads(line))) + "\n")
        sys.stdout.flush()


class Outcome:
    """What became of a command: ``status`` (None: it was ended), ``json`` as printed, and the ``calls`` it made."""

    def __init__(self, answer):
        self.status, self.calls, self.err = answer["status"], answer["calls"], answer["err"]
        printed = answer["out"] or answer["err"]
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        self.json = json.loads(lines[-1]) if lines else {}
        self.code = self.json.get("code")

    def __repr__(self):
        return "<status %s, %s %s>" % (self.status, self.json, self.err)


class Driver:
    """The process that runs commands. Use it as a context. ``state`` is where witnesses are, from a command's folder; none by default."""

    def __init__(self, state=os.devnull):
        self.state = state

    def __enter__(self):
        command = [sys.executable, "-B", str(Path(__file__).resolve())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
                                        env={**os.environ, "MUNIMENT_STATE": self.state})
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def run(self, folder, *argv, fault=None, nobody=False):
        """Run one command with ``--json`` in a folder and return its Outcome."""
        return self.run_all(folder, argv, fault=fault, nobody=nobody)[0]

    def run_all(self, folder, *commands, fault=None, nobody=False):
        """Run commands with ``--json`` in a folder, one after another, and return their Outcomes."""
        request = {"folder": str(folder), "commands": [[*argv, "--json"] for argv in commands], "fault": fault, "nobody": nobody}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return [Outcome(answer) for answer in json.loads(self.process.stdout.readline())]


class Kept:
    """The bytes, times and inodes of the files of some folders, to be put back.

    Files are rewritten in place, so that to the engine nothing has happened at all: a copy would have a `local/` of
    another inode, and ledgers that look touched.
    """

    def __init__(self, *roots):
        self.roots = [Path(root) for root in roots]
        self.folders = {p for p in self._paths() if p.is_dir()}
        self.files = {p: (p.read_bytes(), p.stat()) for p in self._paths() if p.is_file()}

    def _paths(self):
        return [p for root in self.roots for p in sorted(root.rglob("*"), reverse=True)]

    def put_back(self):
        """Make the folder what it was."""
        for path in self._paths():
            if path.is_dir() and not path.is_symlink():
                if path not in self.folders:
                    path.rmdir()
            elif path not in self.files:
                path.unlink()
        for path, (data, stat) in self.files.items():
            there = path.stat() if path.exists() else None
            if there is None or (there.st_mtime_ns, there.st_size) != (stat.st_mtime_ns, stat.st_size):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


if __name__ == "__main__":
    serve()
