"""What every command prints: UTF-8, one JSON object, nothing into a closed pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX descriptors")


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_utf8(cli, project, environment):
    """Output is UTF-8 whatever the console says, in words and as JSON."""
    project.fact(project.start(), "a.b", "Zwölf — 十二 😀.")
    assert cli("recall", "a.b", env=environment)["current"]["text"] == "Zwölf — 十二 😀."
    assert "Zwölf — 十二 😀." in cli("recall", "a.b", env=environment, plain=True).out
    reply = cli("recall", "ö", env=environment, plain=True)
    assert (reply.status, reply.out) == (3, "")


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}])
def test_utf8_arguments(cli, project, environment):
    """Arguments are taken as UTF-8 in the C locale too."""
    assert cli("journal", "--run", project.start(), "--text", "Zwölf 十二", env=environment).status == 0
    ((_, body),) = project.records("journal")
    assert body["text"] == "Zwölf 十二"


def test_json_is_not_escaped(cli, project):
    """JSON keeps characters as themselves, on one line."""
    project.fact(project.start(), "a.b", "Zwölf.")
    out = cli("recall", "a.b").out
    assert "Zwölf." in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("recall", "none.such"), "not-found"),
        (("start", "--actor", "A B"), "bad-value"),
        (("journal", "--run", "x", "--text", "y"), "bad-id"),
        (("nonsense",), "usage"),
        (("init",), "vault-exists"),
        (("status", "--unknown"), "usage"),
    ],
)
def test_failure_in_json(cli, words, code):
    """A failure with --json is one object on standard error and nothing on standard output."""
    reply = cli(*words)
    assert reply.out == ""
    assert reply.err.count("\n") == 1
    assert set(reply.error) >= {"code", "exit", "message", "hint", "retry"}
    assert reply.error["exit"] == reply.status
    assert (reply.error["code"], reply.error["retry"]) == (code, False)


@pytest.mark.parametrize(
    "words",
    [
        ("recall", "none.such"),
        ("start", "--actor", "A B"),
        ("nonsense",),
        ("status", "--x\n--y"),
        ("--vault", "a\nb\x1b[31m", "status"),
        ("apply", "--run", "R1-k7qdm2xw", "no\nfile"),
    ],
)
def test_failure_in_words(cli, words):
    """A failure in words is one line on standard error with its code, free of control characters."""
    reply = cli(*words, plain=True)
    assert (reply.status in {2, 3, 5, 9}, reply.out) == (True, "")
    assert reply.err.endswith("\n")
    assert reply.err[:-1].isprintable()
    assert "[" in reply.err


@pytest.mark.parametrize("words", [("status",), ("log",), ("doctor",), ("start", "--actor", "codex"), ("help",), ("recall", "--help")])
@posix
def test_closed_pipe(project, words):
    """A reader that has gone is no error: nothing is said, and what the command recorded is there."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, project.engine.__file__, *words],
            stdout=write,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=project.folder,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(project.records("run-open")) == (words[0] == "start")


@posix
def test_closed_pipe_of_much(project):
    """The same while more is printed than a pipe holds."""
    run = project.start()
    ops = "\n".join(json.dumps({"do": "propose", "key": f"k{n}", "tier": 2, "new_subject": True, "text": "x" * 500}) for n in range(200))
    project.ok("apply", "--run", run, "-", stdin=(ops + '\n{"do":"sync"}').encode())
    with subprocess.Popen(
        [sys.executable, project.engine.__file__, "recall", "--prefix", "k"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project.folder,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@posix
def test_closed_streams(project, closed):
    """A command that was started without a standard stream does its work."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$1" start --actor cron {closed}', sys.executable, project.engine.__file__],
        cwd=project.folder,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(project.records("run-open")) == 1


@posix
def test_no_standard_input(project):
    """Text from a standard input that is closed is empty, and refused as that."""
    run = project.start()
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$1" journal --run "$2" --text - --json <&-', sys.executable, project.engine.__file__, run],
        cwd=project.folder,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stderr)["code"]) == (3, "bad-text")


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help(cli, engine, word):
    """The help names every command."""
    reply = cli(word, plain=True)
    assert (reply.status, reply.err) == (0, "")
    assert all(command.name in reply.out for command in engine.COMMANDS)


def test_version(cli, engine):
    """--version prints the version alone."""
    reply = cli("--version", plain=True)
    assert (reply.status, reply.out) == (0, engine.VERSION + "\n")


def test_help_of_every_command(engine):
    """Every command has help for itself, with each of its options."""
    for command in engine.COMMANDS:
        text = engine.find_parser(command).format_help()
        assert all(flag in text for flags, _ in command.args for flag in flags if flag.startswith("-"))
        assert "--json" in text


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--bogus",),
        ("--vault",),
        ("--json",),
        ("-x", "status"),
        ("statu",),
        ("start", "--act", "codex"),
        ("status", "extra"),
        ("status", "--lock-wait", "nan"),
        ("status", "--lock-wait", "-1"),
        ("status", "--lock-wait", "soon"),
        ("--lock-wait",),
    ],
)
def test_usage(cli, words):
    """No command, an unknown one or option, an abbreviation or a value of the wrong type is usage, exit 2."""
    assert cli(*words).code == (2, "usage")


def test_text_that_looks_like_an_option(cli, project):
    """Text that begins with a hyphen is given with =."""
    assert cli("journal", "--run", project.start(), "--text=--json").status == 0
    ((_, body),) = project.records("journal")
    assert body["text"] == "--json"
