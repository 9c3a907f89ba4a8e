"""The lock: one writer at a time, whoever it is, and nothing that outlives its holder."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import engine

ROOT = Path(__file__).resolve().parent.parent
posix = pytest.mark.skipif(os.name != "posix", reason="there is no flock on this system")

#: A process that takes the engine's lock, says so, and keeps it until its input ends.
OURS = """
import sys
import engine
vault = engine.open_vault(sys.argv[1])
with engine.hold(vault, 5, {"pid": 4711, "command": "sync", "run": "", "since": "2026-11-30T08:12:45.123Z"}):
    print("held", flush=True)
    sys.stdin.read()
"""
#: The same with portalocker, whose default is LOCK_EX | LOCK_NB by flock.
THEIRS = """
import os, sys
import portalocker
with portalocker.Lock(os.path.join(sys.argv[1], ".muniment", "local", "lock"), mode="a+", timeout=5):
    print("held", flush=True)
    sys.stdin.read()
"""
#: Tries portalocker once: exits 0 if the lock was free, 6 if not.
TRY_THEIRS = """
import os, sys
import portalocker
try:
    with portalocker.Lock(os.path.join(sys.argv[1], ".muniment", "local", "lock"), mode="a+", timeout=0, fail_when_locked=True):
        pass
except portalocker.LockException:
    sys.exit(6)
"""


def call(*argv, **options):
    """Run a Python of this one with the engine on its path."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *argv], env=environment, capture_output=True, text=True, check=False, **options)


def command(vault, *argv):
    """Run a command of the engine here and return its exit status and what it answered."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = engine.main([*argv, "--vault", str(vault), "--json"])
    return status, json.loads(out.getvalue() or err.getvalue())


@contextlib.contextmanager
def holder(code, vault):
    """Let another process hold the lock."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words, pipes = [sys.executable, "-c", code, str(vault)], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, env=environment, text=True, **pipes) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.stdin.close()
            process.wait()


@pytest.fixture(scope="module")
def vault(tmp_path_factory):
    """A vault with a run's worth of nothing in it."""
    folder = tmp_path_factory.mktemp("lock")
    assert call("-c", "import engine; engine.run()", "init", cwd=folder).returncode == 0
    return folder / "memory"


def lock_file(vault):
    """Return the path of the lock."""
    return vault / ".muniment" / "local" / "lock"


def test_a_second_writer_waits_its_time_and_is_told_who_holds_the_lock(vault):
    """While another command holds the lock, a writer exits 6 after --lock-wait, naming the holder; then it works."""
    with holder(OURS, vault):
        started = time.monotonic()
        status, answer = command(vault, "start", "--actor", "codex", "--lock-wait", "0.2")
        assert time.monotonic() - started >= 0.2
        assert (status, answer["code"], answer["exit"], answer["retry"]) == (6, "busy", 6, True)
        # Windows lets nobody read what is locked.
        assert os.name != "posix" or all(word in answer["message"] for word in ("4711", "sync", "2026-11-30T08:12:45.123Z"))
    assert command(vault, "start", "--actor", "codex", "--lock-wait", "0")[0] == 0


def test_a_writer_that_waits_gets_the_lock_when_it_is_free(vault):
    """A command that waits goes on as soon as the holder leaves."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with holder(OURS, vault) as other:
        waiting = subprocess.Popen(
            [sys.executable, "-c", "import engine; engine.run()", "start", "--actor", "codex", "--vault", str(vault)],
            env=environment, stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        assert waiting.poll() is None
        other.stdin.close()
        assert waiting.wait(10) == 0


def test_reading_needs_no_lock(vault):
    """While a writer holds the lock, what only reads answers at once."""
    assert command(vault, "status")[0] == 0
    with holder(OURS, vault):
        assert command(vault, "status", "--lock-wait", "0")[0] == 0
        assert command(vault, "log", "--lock-wait", "0")[0] == 0


def test_a_killed_holder_frees_the_lock(vault):
    """A holder that is killed leaves no lock behind."""
    with holder(OURS, vault) as other:
        other.kill()
        other.wait()
        assert command(vault, "start", "--actor", "codex", "--lock-wait", "0")[0] == 0


def test_the_lock_file_is_never_unlinked(vault):
    """After commands, a refusal and a busy one, the lock is the very file that it was."""
    before = lock_file(vault).stat()
    assert command(vault, "start", "--actor", "codex")[0] == 0
    assert command(vault, "journal", "--run", "R1-22222222", "--text", "x")[0] == 3
    with holder(OURS, vault):
        assert command(vault, "start", "--actor", "codex", "--lock-wait", "0")[0] == 6
    after = lock_file(vault).stat()
    assert (after.st_dev, after.st_ino) == (before.st_dev, before.st_ino)


def test_no_child_process_inherits_the_lock(vault):
    """What a process starts while it holds the lock neither has the file open nor keeps the lock."""
    code = OURS.replace('    print("held", flush=True)\n    sys.stdin.read()\n', """
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False)
    print("held", flush=True)
    sys.stdin.read()
with engine.hold(vault, 0, {}):
    assert child.poll() is None
    child.communicate()
print("free", flush=True)
""")
    done = call("-c", code, str(vault), input="")
    assert done.stdout.split() == ["held", "free"], done.stderr


@posix
def test_a_symbolic_link_in_the_place_of_the_lock_is_not_followed(vault, tmp_path):
    """A lock file that is a link is refused, and what it points to is left as it was."""
    shutil.copytree(vault, tmp_path / "memory")
    target = tmp_path / "target"
    target.write_bytes(b"the owner's")
    lock_file(tmp_path / "memory").unlink()
    lock_file(tmp_path / "memory").symlink_to(target)
    status, answer = command(tmp_path / "memory", "start", "--actor", "codex")
    assert (status, answer["exit"], target.read_bytes()) == (9, 9, b"the owner's")


@pytest.mark.packages
def test_portalocker_is_excluded_while_the_engine_holds_the_lock(vault):
    """A portalocker.Lock on the same file does not get it while the engine has it, and does afterwards."""
    with holder(OURS, vault):
        assert call("-c", TRY_THEIRS, str(vault)).returncode == 6
    assert call("-c", TRY_THEIRS, str(vault)).returncode == 0


@pytest.mark.packages
def test_the_engine_is_excluded_while_portalocker_holds_the_lock(vault):
    """A command does not get the lock while a portalocker.Lock on the same file is held, and does afterwards."""
    with holder(THEIRS, vault):
        status, answer = command(vault, "start", "--actor", "codex", "--lock-wait", "0")
        assert (status, answer["code"]) == (6, "busy")
    assert command(vault, "start", "--actor", "codex", "--lock-wait", "0")[0] == 0


@pytest.mark.packages
def test_a_killed_portalocker_frees_the_lock(vault):
    """The lock that portalocker had goes with its process."""
    with holder(THEIRS, vault) as other:
        other.kill()
        other.wait()
        assert command(vault, "start", "--actor", "codex", "--lock-wait", "0")[0] == 0
