"""Busy processes that are killed at random moments lose nothing that was acknowledged, and block nobody.

Eight workers, each a process that gives one command after another and writes down what was acknowledged to it. They
are killed at moments by chance and started again; what is in the ledgers then is read without the engine.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys

import pytest
from scratch import ROOT, engine

WORKERS, KILLS = 8, 500
#: Seconds between two kills, in the mean.
MOMENT_S = 0.25

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process as the test does")
#: A worker: it acknowledges a record by one line in its own file, in one write, after the command's exit status was 0 or 4.
WORKER = """
import contextlib, io, json, os, random, sys
import engine

vault, acknowledged, seed = sys.argv[1:]
rng, descriptor = random.Random(seed), os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

def give(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = engine.main([*argv, "--vault", vault, "--json", "--lock-wait", "60"])
    answer = json.loads(out.getvalue() or err.getvalue().splitlines()[-1])
    if status not in (0, 3, 4, 5):
        os.write(descriptor, (json.dumps({"failed": [status, argv, answer]}) + "\\n").encode())
        sys.exit("failed")
    return status, answer

def acknowledge(what, text, kind):
    if what:
        os.write(descriptor, (json.dumps({"id": what, "text": text, "kind": kind}) + "\\n").encode())

def resolve():
    questions = give("review")[1].get("questions", [])
    for question in questions[:1]:
        if question["handle"].startswith("C-"):
            text = "Settled %d." % rng.randrange(10 ** 9)
            status, answer = give("resolve", question["handle"], "--text", text, "--human-approved")
            acknowledge(status == 0 and answer["resolution"], text, "resolution")

def work():
    actor = "worker-%s" % seed.replace(".", "-")
    status, answer = give("start", "--actor", actor)
    run = answer["run"]
    acknowledge(run, actor, "run-open")
    for n in range(rng.randrange(3, 9)):
        text, what = "Text %d of %s." % (rng.randrange(10 ** 9), seed), rng.randrange(6)
        if what < 2:
            status, answer = give("journal", "--run", run, "--text", text)
            acknowledge(answer.get("entry"), text, "journal")
        elif what < 5:
            key = "own.k%d" % rng.randrange(40) if what < 4 else "shared.k%d" % rng.randrange(3)
            new = ("--tier", "2", "--new-subject") if give("recall", key)[0] else ()
            status, answer = give("propose", "--run", run, "--key", key, "--text", text, *new, *rng.choice(((), ("--now",))))
            acknowledge(answer.get("proposal") if status in (0, 4) else None, text, "proposal")
            if status == 3:
                give("sync", "--run", run)
        else:
            resolve()
    status, answer = give("close", "--run", run, "--outcome", "success", "--summary", "Closed %s." % run)
    acknowledge(status in (0, 4) and "close " + run, "Closed %s." % run, "run-close")

while True:
    work()
"""


def give(vault, *argv):
    """Give one command here; return its exit status and answer."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = engine.main([*argv, "--vault", str(vault), "--json"])
    return status, json.loads(out.getvalue() or err.getvalue())


class Soak:
    """Workers on one vault that are killed one after another."""

    def __init__(self, folder, seed):
        self.vault, self.said, self.rng = folder / "memory", folder / "said", random.Random(seed)
        self.said.mkdir()
        assert give(self.vault, "init")[0] == 0
        self.workers, self.count = {}, 0
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def begin(self, place):
        """Start a worker in a place."""
        self.count += 1
        words = [sys.executable, "-c", WORKER, str(self.vault), str(self.said / str(place)), "%d.%d" % (place, self.count)]
        self.workers[place] = subprocess.Popen(words, env=self.environment, stderr=subprocess.DEVNULL, cwd=self.said)

    def kill(self, place):
        """Let a worker work until a moment that chance names, then kill it; one that ended by itself had a command that failed."""
        worker = self.workers[place]
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(self.rng.uniform(0, 2 * MOMENT_S))
            raise AssertionError(self.failed())
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        del self.workers[place]

    def run(self, workers, kills):
        """Kill workers at moments by chance, as many as asked for, then all that are left."""
        for place in range(workers):
            self.begin(place)
        for _ in range(kills):
            place = self.rng.randrange(workers)
            self.kill(place)
            self.begin(place)
        for place in list(self.workers):
            self.kill(place)

    def acknowledged(self):
        """Yield what was acknowledged; a last line that a kill cut short was not."""
        for path in sorted(self.said.iterdir()):
            for line in path.read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    def failed(self):
        """Return the commands that failed."""
        return [row["failed"] for row in self.acknowledged() if "failed" in row]

    def records(self):
        """Return the records of the ledgers by id, read without the engine."""
        found = {}
        for path in (self.vault / ".muniment" / "ledger").iterdir():
            for line in path.read_bytes().splitlines():
                record = json.loads(line)
                head, body = record["head"], record["body"]
                found["%s%d-%s" % (engine.LETTERS[head["kind"]], head["seq"], path.stem)] = (head["kind"], body)
                if head["kind"] == "run-close":
                    found.setdefault("close " + body["run"], (head["kind"], body))
        return found


def text_of(body):
    """Return the text that a record was given."""
    return body.get("text") or body.get("summary") or body.get("actor") or body["value"]["text"]


def soak(folder, seed, workers, kills):
    """Kill, then check: every acknowledged record is there with its text, no lock stays, one command makes all of it sound."""
    soaked = Soak(folder, seed)
    try:
        soaked.run(workers, kills)
    finally:
        for worker in soaked.workers.values():
            worker.kill()
            worker.wait()
    assert soaked.failed() == []
    status, answer = give(soaked.vault, "start", "--actor", "next", "--lock-wait", "0")
    assert status == 0, answer
    records, acknowledged = soaked.records(), list(soaked.acknowledged())
    missing = [row for row in acknowledged if row["id"] not in records or records[row["id"]][0] != row["kind"]
               or text_of(records[row["id"]][1]) != row["text"]]
    assert missing == []
    health = give(soaked.vault, "doctor", "--strict")
    assert (health[0], health[1]["findings"]) == (0, [])
    assert [p.name for p in soaked.vault.rglob("*.tmp")] == []
    return len(acknowledged)


@pytest.mark.long
def test_500_kills_lose_nothing_that_was_acknowledged(tmp_path):
    """Of 8 busy processes with 500 kills among them every acknowledged record is there, the vault is sound, no lock stays."""
    assert soak(tmp_path, 0, WORKERS, KILLS) > WORKERS
