"""Many processes on one vault: what was acknowledged is decided once, and every conflict can be answered.

Each worker is a process of its own that imports the engine and gives its commands; it prints what was acknowledged to
it. What the ledgers say is then read without the engine and compared.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import engine

ROOT = Path(__file__).resolve().parent.parent
SHARED = ["shared.k%d" % n for n in range(10)]

#: What every worker begins with: `give` gives a command and returns its exit status and answer.
COMMON = """
import contextlib, io, json, sys
import engine

def give(*argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = engine.main([*argv, "--vault", sys.argv[1], "--json"])
    return status, json.loads(out.getvalue() or err.getvalue().splitlines()[-1])

def need(status, answer, *more):
    assert status in (0, 4, *more), (status, answer)
    return answer

number, count = int(sys.argv[2]), int(sys.argv[3])
proposed, decided = [], []

def meet():
    print("here", flush=True)
    sys.stdin.readline()

def take(answer):
    decided.extend((kind, row["proposal"]) for kind in ("applied", "unchanged", "held", "beside") for row in answer[kind])
"""
#: Proposes ``count`` new subjects of its own; syncs after every tenth, and closes.
OWN_KEYS = COMMON + """
run = need(*give("start", "--actor", "w%d" % number))["run"]
for n in range(count):
    argv = ["propose", "--run", run, "--key", "w%d.k%d" % (number, n), "--tier", "2", "--new-subject", "--text", "Value %d." % n]
    proposed.append(need(*give(*argv))["proposal"])
    if n % 10 == 9:
        take(need(*give("sync", "--run", run)))
take(need(*give("close", "--run", run, "--outcome", "success", "--summary", "Done.")))
print(json.dumps({"proposed": proposed, "decided": decided}))
"""
#: Proposes ``count`` changes of the shared subjects, looking again where one moved, and syncs after every third. Then all
#: meet, look, and propose one more change of the last subject before any of them closes: those stand beside each other.
SAME_KEYS = COMMON + """
keys = sys.argv[4].split(",")
run = need(*give("start", "--actor", "w%d" % number))["run"]
for n in range(count):
    while True:
        text = "Value %d of %d." % (n, number)
        status, answer = give("propose", "--run", run, "--key", keys[(number + 3 * n) % len(keys)], "--text", text)
        if status != 3:
            break
        assert answer["code"] == "stale", answer
        take(need(*give("sync", "--run", run)))
    proposed.append(need(status, answer)["proposal"])
    if n % 3 == 2:
        take(need(*give("sync", "--run", run)))
take(need(*give("sync", "--run", run)))
meet()
take(need(*give("sync", "--run", run)))
proposed.append(need(*give("propose", "--run", run, "--key", keys[-1], "--text", "Last of %d." % number))["proposal"])
meet()
take(need(*give("close", "--run", run, "--outcome", "success", "--summary", "Done.")))
print(json.dumps({"proposed": proposed, "decided": decided}))
"""
#: Reads until its input ends.
READER = COMMON + """
import threading
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
reads = 0
while not ended.is_set():
    for words in ("status", "recall shared.k0", "recall --prefix shared", "review", "log", "history shared.k0", "maintain"):
        status, answer = give(*words.split())
        assert status == 0, (words, answer)
        reads += 1
print(json.dumps(reads))
"""


def give(vault, *argv):
    """Give one command here; return its exit status and answer."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = engine.main([*argv, "--vault", str(vault), "--json"])
    return status, json.loads(out.getvalue() or err.getvalue())


def begin(code, vault, *argv):
    """Start a worker."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", code, str(vault), *map(str, argv)]
    return subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def meet(workers):
    """Let workers go on once all of them are there."""
    for worker in workers:
        assert worker.stdout.readline() == "here\n", worker.communicate()[1]
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()


def finish(workers):
    """Wait for workers and return what each printed."""
    answers = []
    for worker in workers:
        out, err = worker.communicate()
        assert worker.returncode == 0, err
        answers.append(json.loads(out))
    return answers


@pytest.fixture
def vault(tmp_path):
    """A vault in which the shared subjects are there and their run is closed."""
    folder = tmp_path / "memory"
    assert give(folder, "init")[0] == 0
    run = give(folder, "start", "--actor", "owner")[1]["run"]
    operations = [{"do": "propose", "key": key, "tier": 2, "new_subject": True, "text": "First."} for key in SHARED]
    (tmp_path / "operations").write_text("".join(json.dumps(o) + "\n" for o in operations), encoding="utf-8")
    assert give(folder, "apply", "--run", run, str(tmp_path / "operations"))[0] == 0
    assert give(folder, "close", "--run", run, "--outcome", "success", "--summary", "Prepared.")[0] == 0
    return folder


def recorded(vault):
    """Return the proposals and the decisions in the ledgers, read without the engine, those of the preparation apart."""
    proposals, decisions = [], []
    for path in (vault / ".muniment" / "ledger").iterdir():
        for seq, line in enumerate(path.read_bytes().splitlines()):
            record = json.loads(line)
            if record["head"]["kind"] == "proposal":
                proposals.append("P%d-%s" % (seq, path.stem))
            if record["head"]["kind"] == "revision":
                decisions += record["body"]["decisions"]
    first = set(proposals[: len(SHARED)])
    return [p for p in proposals if p not in first], [d for d in decisions if d["proposal"] not in first]


def check_decided(vault, answers):
    """Every acknowledged proposal is recorded and decided exactly once, as its worker was told; nothing else is there."""
    proposals, decisions = recorded(vault)
    acknowledged = [p for answer in answers for p in answer["proposed"]]
    assert sorted(acknowledged) == sorted(proposals)
    assert Counter(d["proposal"] for d in decisions) == Counter(acknowledged)
    told = {proposal: kind for answer in answers for kind, proposal in answer["decided"]}
    kinds = {"noop": "unchanged", "held": "held"}
    assert told == {d["proposal"]: kinds.get(d["outcome"]) or ("beside" if d["reason"] == "beside" else "applied") for d in decisions}
    return Counter(told.values())


def check_sound(vault, runs, subjects):
    """The counts add up, no run is open, and doctor finds nothing."""
    status = give(vault, "status")[1]
    assert (status["runs"], status["open_count"], sum(status["tiers"].values()), status["held"]) == (runs, 0, subjects, 0)
    assert [ledger["damaged"] for ledger in status["ledgers"]] == [False]
    health = give(vault, "doctor", "--strict")
    assert (health[0], health[1]["findings"], health[1]["doors"]["subjects"]) == (0, [], subjects)


def answer_all(vault):
    """Answer every conflict and return how many there were; each has its values, and once answered is gone."""
    questions = give(vault, "review", "--all")[1]["questions"]
    assert len(questions) == give(vault, "status")[1]["conflicts"]
    for question in questions:
        assert len(question["values"]) > 1
        chosen = question["values"][-1]
        status, answer = give(vault, "resolve", question["handle"], "--choose", chosen["id"], "--human-approved")
        assert (status, answer["text"]) == (0, chosen["text"])
        current = give(vault, "recall", question["key"])[1]
        assert (current["status"], current["current"]["text"], current["current"]["trust"]) == ("current", chosen["text"], "confirmed")
    assert give(vault, "review", "--all")[1]["questions"] == []
    return len(questions)


def every_value_is_kept(vault, answers):
    """Every accepted proposal is a generation of its subject: current, beside it, or in its history."""
    accepted = {proposal for answer in answers for kind, proposal in answer["decided"] if kind in ("applied", "beside")}
    found = set()
    for key in SHARED:
        now = give(vault, "recall", key)[1]
        found |= {row["id"] for row in (now["current"], *now["contenders"], *now["outranked"])}
        pages = give(vault, "history", key)[1]["pages"]
        found |= {row["id"] for page in range(1, pages + 1) for row in give(vault, "history", key, "--page", str(page))[1]["generations"]}
    return accepted <= found


def work_on_own_keys(vault, processes, count):
    """Let processes propose subjects of their own, all at once."""
    answers = finish([begin(OWN_KEYS, vault, number, count) for number in range(processes)])
    assert check_decided(vault, answers) == {"applied": processes * count}
    check_sound(vault, 1 + processes, len(SHARED) + processes * count)


def work_on_the_same_keys(vault, processes, count, keys):
    """Let processes change the same subjects, all at once, and answer the conflicts that they leave."""
    workers = [begin(SAME_KEYS, vault, number, count, ",".join(keys)) for number in range(processes)]
    meet(workers)
    meet(workers)
    answers = finish(workers)
    kinds = check_decided(vault, answers)
    assert sum(kinds.values()) == processes * (count + 1)
    assert kinds["beside"] >= processes - 1
    assert every_value_is_kept(vault, answers)
    assert 1 <= answer_all(vault) <= len(keys)
    check_sound(vault, 1 + processes, len(SHARED))


def test_processes_on_their_own_keys_do_not_meet(vault):
    """Of processes that work at once on subjects of their own every proposal is decided once, and applied."""
    work_on_own_keys(vault, 3, 10)


def test_processes_on_the_same_keys_leave_answerable_conflicts(vault):
    """Of processes that change the same subjects at once every proposal is decided once, and every conflict can be answered."""
    work_on_the_same_keys(vault, 3, 8, SHARED[:2])


@pytest.mark.long
def test_many_processes_on_their_own_keys_do_not_meet(vault):
    """32 processes with 100 proposals each, on keys of their own: every one is decided once, and applied."""
    work_on_own_keys(vault, 32, 100)


@pytest.mark.long
def test_many_processes_on_the_same_keys_leave_answerable_conflicts(vault):
    """16 processes with 20 proposals each, on the same 10 keys: every one is decided once, every conflict answerable."""
    work_on_the_same_keys(vault, 16, 20, SHARED)


@pytest.mark.long
def test_many_commands_at_once_are_each_recorded(vault):
    """200 commands, 8 at a time, each a process: every proposal that was acknowledged is decided once."""
    run = give(vault, "start", "--actor", "codex")[1]["run"]

    def command(number):
        argv = ["propose", "--run", run, "--key", "c.k%d" % number, "--tier", "2", "--new-subject", "--text", "Value.", "--now"]
        words = [sys.executable, str(ROOT / "engine.py"), *argv, "--vault", str(vault), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(command, range(200)))
    told = [{"proposed": [a["proposal"]], "decided": [("applied", row["proposal"]) for row in a["applied"]]} for a in answers]
    assert check_decided(vault, told) == {"applied": 200}
    assert give(vault, "close", "--run", run, "--outcome", "success", "--summary", "Done.")[0] == 0
    check_sound(vault, 2, len(SHARED) + 200)


def read_while_others_write(vault, readers, writers, count):
    """Let readers read as long as writers write; return how often."""
    reading = [begin(READER, vault, 0, 0) for _ in range(readers)]
    writing = [begin(SAME_KEYS, vault, number, count, ",".join(SHARED)) for number in range(writers)]
    meet(writing)
    meet(writing)
    finish(writing)
    reads = finish(reading)
    assert all(n > 0 for n in reads)


def test_readers_do_not_fail_while_others_write(vault):
    """Whatever writers are about, every command that reads succeeds."""
    read_while_others_write(vault, 1, 2, 6)


@pytest.mark.long
def test_many_readers_do_not_fail_while_many_write(vault):
    """Whatever 8 writers are about, every command of 8 readers succeeds."""
    read_while_others_write(vault, 8, 8, 20)
