"""What a command costs in fsyncs and opened files: counted, since time is no test.

bench/core.py measures times, and the same counts in vaults of 100 and 10,000 runs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
from pathlib import Path

import pytest

import engine

MONDAY = 1_796_025_600_000
HOUR = 3_600_000
EVERYDAY = ("start", "journal", "propose", "sync", "close", "recall", "status")
#: Commands that commit once.
COMMITTING = ("start", "journal", "propose", "sync", "close")
FOCUS = "project.focus"
#: What the audit hook has seen below the watched folder; None while nothing is watched.
_seen: list[str] | None = None
_watched = ""


def _hook(event, args):
    """Note what is opened or listed below the watched folder. A hook stays for the life of its process."""
    if _seen is not None and event in {"open", "sqlite3.connect", "os.listdir", "os.scandir"} and isinstance(args[0], str):
        path = os.path.abspath(args[0])  # noqa: PTH100 - a path that is opened is not resolved first
        if path.startswith(_watched):
            _seen.append(path)


sys.addaudithook(_hook)


@contextlib.contextmanager
def opened(folder):
    """Give the list of what is opened or listed below ``folder`` while the context lasts."""
    global _seen, _watched  # noqa: PLW0603 - an audit hook cannot be taken back, only left without anything to do
    _seen, _watched = [], str(folder.resolve())
    try:
        yield _seen
    finally:
        _seen = None


class Agent:
    """A vault whose commands run in this process, an hour apart."""

    def __init__(self, folder):
        self.vault, self.now, self.run = folder / "memory", MONDAY, ""
        self.dice = random.Random(7)
        self("init", str(self.vault))

    def __call__(self, *words):
        """Carry out a command and return what it printed."""
        self.now += HOUR
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            status = engine.main([*words, "--vault", str(self.vault), "--json"], lambda: self.now, self.dice.randbytes)
        assert status == 0, errors.getvalue()
        return json.loads(said.getvalue())

    def do(self, name):
        """Carry out one everyday command, on the run that `start` opened last."""
        run = ("--run", self.run)
        text = ("--text", "Seen at %d." % self.now)
        said = self(name, *{
            "start": ("--actor", "codex"), "journal": (*run, *text), "propose": (*run, "--key", FOCUS, *text), "sync": run,
            "close": (*run, "--outcome", "success", "--summary", "Done."), "recall": (FOCUS,), "status": ()}[name])
        self.run = said["run"] if name == "start" else self.run

    def work(self, runs):
        """Go through runs with two entries and two proposals each: of the one subject that all change, and of a new one."""
        for _ in range(runs):
            self.do("start")
            present = self.now > MONDAY + 3 * HOUR
            self("propose", "--run", self.run, "--key", FOCUS, "--text", "Focus at %d." % self.now,
                 *(() if present else ("--tier", "2", "--new-subject")))
            self("propose", "--run", self.run, "--key", "topic.n%d" % self.now, "--text", "A new subject.", "--tier", "2", "--new-subject")
            self.do("journal")
            self.do("journal")
            self.do("close")


@pytest.fixture
def agent(tmp_path):
    """A new vault."""
    return Agent(tmp_path)


def count_fsyncs(agent, monkeypatch, *words):
    """Return how many fsyncs of a ledger, and of anything, a command waits for."""
    synced = []
    kept = os.fsync

    def fsync(descriptor):
        synced.append(os.fstat(descriptor))
        kept(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(engine.os, "fsync", fsync)
        agent.do(*words) if words[0] in EVERYDAY else agent(*words)
    ledgers = [path.stat() for path in (agent.vault / ".muniment" / "ledger").iterdir()]
    return sum(any(os.path.samestat(found, ledger) for ledger in ledgers) for found in synced), len(synced)


def test_one_commit_waits_for_one_fsync_of_its_ledger(agent, monkeypatch):
    """Each committing command waits once for its ledger, and for nothing else."""
    agent.work(3)
    agent.do("start")
    counts = {name: count_fsyncs(agent, monkeypatch, name) for name in COMMITTING}
    assert counts == dict.fromkeys(COMMITTING, (1, 1))


def test_reading_waits_for_no_fsync(agent, monkeypatch):
    """A command that records nothing syncs nothing."""
    agent.work(2)
    assert [count_fsyncs(agent, monkeypatch, name) for name in ("recall", "status")] == [(0, 0), (0, 0)]


@pytest.mark.parametrize(("atomic", "fsyncs"), [(True, 1), (False, 3)])
def test_apply_waits_once_for_a_thousand_operations(agent, monkeypatch, tmp_path, atomic, fsyncs):
    """An atomic file is one append; any other is one for each 1,000 operations, and one for what is left."""
    agent.do("start")
    file = tmp_path / "operations.jsonl"
    file.write_text('{"do":"journal","text":"One more."}\n' * 2_100, encoding="utf-8")
    words = ("apply", str(file), "--run", agent.run, *(["--atomic"] if atomic else []))
    assert count_fsyncs(agent, monkeypatch, *words) == (fsyncs, fsyncs)


def test_a_command_opens_as_many_files_in_an_old_vault_as_in_a_young_one(agent):
    """What an everyday command opens or lists does not depend on how many runs there were."""

    def count():
        """Return how many files and folders each everyday command opens or lists."""
        counts = {}
        for name in EVERYDAY:
            with opened(agent.vault) as seen:
                agent.do(name)
            counts[name] = len(seen)
        return counts

    agent.work(5)
    young = count()
    agent.work(55)
    assert count() == young
    assert min(young.values()) > 0


def test_the_count_of_opened_files_counts(agent):
    """The audit hook sees a file that is opened below the vault, and none beside it."""
    with opened(agent.vault) as seen:
        (agent.vault / "MEMORY.md").read_bytes()
        (agent.vault.parent / "beside").write_bytes(b"")
    assert {Path(path).name for path in seen} == {"MEMORY.md"}  # Python 3.9 tells of some opens twice


def test_the_past_of_a_key_costs_what_it_holds(tmp_path):
    """To read all claims of one key takes the same steps of the database among few keys and among many."""
    steps = {}
    for keys in (20, 400):
        agent = Agent(tmp_path / str(keys))
        run = agent("start", "--actor", "codex")["run"]
        path = tmp_path / "operations.jsonl"
        operation = {"do": "propose", "tier": 2, "new_subject": True, "text": "Shelf."}
        path.write_text("".join(json.dumps(dict(operation, key="shelf.n%d" % n)) + "\n" for n in range(keys)), "utf-8")
        agent("apply", "--run", run, str(path))
        agent("sync", "--run", run)
        state = engine.open_cache(engine.open_vault(str(agent.vault)))
        count = [0]

        def step(count=count):
            count[0] += 1
            return 0

        state.db.set_progress_handler(step, 1)
        assert len(state.claims_of("shelf.n7")) == 1
        steps[keys] = count[0]
        state.close()
    assert steps[400] < 2 * steps[20]
