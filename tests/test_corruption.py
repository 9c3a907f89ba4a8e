"""Whatever one thing is damaged, `doctor --strict` says so, or nothing has changed.

One file of a vault is damaged by chance, seeded. The oracle does not use doctor: it folds the ledgers, renders every
view, and compares with what the sound vault made; the bytes of recovery files and views count too. Damage that is
neither reported nor harmless breaks the law, and so does a traceback or a command that does not end.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from damage import FORGERIES, MUTATIONS, Case, mutate
from scratch import ROOT, Scratch, engine

#: What a refusal to read a damaged vault may be: exit status and codes.
REFUSALS = {
    5: {"no-vault"}, 7: {"damaged"}, 8: {"newer-format", "newer-index"},
    9: {"not-a-folder", "linked", "foreign-owner", "filesystem"},
}
MANY, CHUNK = 10_000, 500
#: Damage is done to one file; a vault without its local/ has less to compare with.
CLONE = tuple(name for name in MUTATIONS if name.startswith(("line", "field", "forged", "half", "ledger")))
#: Damage of a line, which has a number.
LINES = tuple(name for name in MUTATIONS if name.startswith(("line", "field", "half")))
#: Commands that read, write and repair.
COMMANDS = (("status",), ("recall", "--prefix", "shop"), ("review", "--all"), ("history", "shop.next"), ("log",),
            ("start", "--actor", "codex"), ("config", "hot-lines", "50", "--human-approved"), ("status",), ("rebuild",))

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, links and open databases that are written are of POSIX systems")


class Hung(AssertionError):
    """A command did not end."""


@contextlib.contextmanager
def within(seconds):
    """Fail what takes longer."""
    def ring(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


#: What is told of the sound clone, without its being damage.
OF_A_CLONE = {"no-cache", "no-views"}


class Sound:
    """A case, with what its sound vault makes."""

    def __init__(self, folder, of=None):
        self.case = Case(folder, of)
        self.tables, self.cached = self.case.tables(), self.case.cached()
        findings = self.case.scratch.json("doctor")[1]["findings"]
        assert {f["kind"] for f in findings} <= {"given-up"} | OF_A_CLONE  # else doctor would be right whatever is damaged

    def break_law(self, seed, ask, names=tuple(MUTATIONS)):
        """Damage one thing, ask doctor, and return what is wrong with its answer, or None."""
        with damaged(self.case, seed, *names) as what:
            wrong = self.judge(*ask(self.case))
        return wrong and "seed %d, %s: %s" % (seed, what, wrong)

    def judge(self, status, answer):
        """Return what is wrong with an answer of doctor, or None."""
        if "code" in answer:
            return None if answer["code"] in REFUSALS.get(status, ()) else "refused with %s" % answer
        found = [f["kind"] for f in answer["findings"] if f["severity"] != "notice"]
        if bool(found) != bool(status):
            return "exit %d with findings %s" % (status, found)
        told = any(f["kind"] == "kept-missing" for f in answer["findings"])  # a notice where another copy erased something
        return None if found or told else self.find_change()

    def find_change(self):
        """Return what the damage has changed, or None. Without a finding, it must be nothing."""
        now = self.case.tables()
        changed = ["%s %s" % (part, name) for part, before in self.tables.items() for name in sorted({*before, *now[part]})
                   if before.get(name) != now[part].get(name) and not is_owners(part, name, before)]
        if changed and self.ends_unseen():
            return None
        if not changed and self.cached and (cached := self.case.cached()) is not None:
            (rows, sound), (rows_before, _) = cached, self.cached
            changed = ["cached %s" % name for name in rows_before if name != "ledger" and rows_before[name] != rows.get(name)]
            changed += [] if sound == [("ok",)] else ["cached, %s" % str(sound[0])[:60]]
        return "unsaid: " + ", ".join(changed[:6]) if changed else None

    def ends_unseen(self):
        """Tell whether a clone's ledger only ends earlier, at a unit that no other has read past: nothing there can show it."""
        name, case = self.case.changed, self.case
        if not case.clone or "/ledger/" not in name or not (case.root / name).is_file():
            return False
        now, before = (case.root / name).read_bytes(), case.files[name]
        read = max((seen.get(Path(name).stem, -1) for tag in case.tags for seen in case.seen(tag)), default=-1)
        return before.startswith(now) and now.count(b"\n") > read


@contextlib.contextmanager
def damaged(case, seed, *names):
    """Damage one thing by chance and put it back; the value is what was done."""
    try:
        yield mutate(case, seed, names)
    finally:
        case.put_back()


def is_owners(part, name, before):
    """Tell whether a Markdown file was added, which is the owner's."""
    return part == "kept" and name.endswith(".md") and name not in before


def told(answer):
    """Return what doctor found, but for lines that the owner gave up: of these it tells for ever."""
    return [f for f in answer["findings"] if f["kind"] != "given-up"]


def doctor_here(case):
    """Ask doctor in this process."""
    with within(30):
        return case.scratch.json("doctor", "--strict")


def doctor_command(case):
    """Ask doctor as a command."""
    words = [sys.executable, str(ROOT / "engine.py"), "doctor", "--strict", "--json", "--vault", str(case.root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, json.loads(done.stdout or done.stderr)


@pytest.fixture(autouse=True)
def engines_own(monkeypatch):
    """Let doctor ask no schema, which takes most of its time: what the engine reads must be found without."""
    monkeypatch.setattr(engine, "_schemas", lambda *_: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A vault with its cache and views."""
    return Sound(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def clone(whole, tmp_path_factory):
    """The same vault as git would carry it: its ledgers, and nothing that was made of them."""
    return Sound(tmp_path_factory.mktemp("clone"), whole.case)


def check_all(sound, seeds, ask=doctor_here, names=tuple(MUTATIONS)):
    """No damage of these seeds breaks the law."""
    broken = [said for seed in seeds if (said := sound.break_law(seed, ask, names))]
    assert broken == []


def test_the_vault_has_every_kind_of_record(whole):
    """What is damaged holds every kind of record that this engine writes, and doctor finds it sound."""
    records = [json.loads(line) for tag in whole.case.tags for line in whole.case.lines(tag)]
    kinds = {record["head"]["kind"] for record in records}
    assert kinds == set(engine.LETTERS)
    assert {record["body"]["what"] for record in records if record["head"]["kind"] == "recovery"} == set(engine.RECOVERIES)
    assert {record["body"]["answer"] for record in records if record["head"]["kind"] == "resolution"} >= {
        "choose", "close", "text", "accept", "decline", "adopt", "dismiss"}
    assert told(doctor_here(whole.case)[1]) == []


def test_what_is_put_back_is_sound(whole):
    """After each kind of damage the vault is put back to the byte: else one case would be judged by another's."""
    for seed in range(len(MUTATIONS)):
        mutate(whole.case, seed)
        whole.case.put_back()
    assert whole.case.tables() == whole.tables
    assert told(doctor_here(whole.case)[1]) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_damage_is_said_or_harmless(whole, name):
    """Of each kind of damage, a few by chance: doctor reports it, or nothing has changed."""
    check_all(whole, range(5 if name != "forged" else 20), names=(name,))


@pytest.mark.parametrize("rule", FORGERIES)
def test_a_forged_tail_that_breaks_a_rule_is_said(clone, whole, rule, monkeypatch):
    """A tail with every hash right but one rule broken is reported, with nothing to compare it with but the rules."""
    monkeypatch.setitem(MUTATIONS, "forged", FORGERIES[rule])
    check_all(whole if rule.endswith("-kept") else clone, range(3), names=("forged",))  # git carries no recovery files


@pytest.mark.parametrize("how", ["older", "gone", "emptied"])
def test_a_vault_that_went_back_is_said(tmp_path, monkeypatch, how):
    """An older copy of the whole vault in its place, or one whose ledger is gone or empty, is reported by what this machine remembers."""
    monkeypatch.setenv("MUNIMENT_STATE", str(tmp_path / "state"))
    scratch = Scratch(tmp_path / "one")
    scratch.ok("init")
    run = scratch.json("start", "--actor", "codex")[1]["run"]
    older = tmp_path / "older"
    for text in ("One.", "Two."):
        scratch.ok("journal", "--run", run, "--text", text)
        if not older.exists():
            shutil.copytree(scratch.vault, older)
    assert scratch.json("doctor", "--strict")[1]["findings"] == []
    if how == "older":
        shutil.rmtree(scratch.vault)
        older.rename(scratch.vault)
    else:
        shutil.rmtree(scratch.vault / ".muniment" / "local")
        scratch.ledger().unlink() if how == "gone" else scratch.ledger().write_bytes(b"")
    status, answer = scratch.json("doctor", "--strict")
    assert (status, "gone-back" in [f["kind"] for f in answer["findings"]]) == (7, True), answer


@pytest.mark.parametrize("name", LINES)
def test_damage_of_a_line_names_it(whole, name):
    """What is wrong with a line is reported with its file, line and kind, and the record where it has an id."""
    for seed in range(50, 52):
        with damaged(whole.case, seed, name) as what:
            path, (_, answer) = "/project/memory/" + whole.case.changed, doctor_here(whole.case)
        assert any(f["path"] == path and f["line"] > 0 and f["kind"] for f in answer["findings"] if "line" in f), (what, answer)


def check_commands(sound, seeds, names):
    """Over damage of these seeds each command has a result or a code; what is put back is sound."""
    for seed in seeds:
        with damaged(sound.case, seed, *names) as what:
            for words in COMMANDS:
                with within(30):
                    status, answer = sound.case.scratch.json(*words)
                assert status in (0, 4) or (answer["exit"], bool(answer["code"])) == (status, True), (seed, what, words, status, answer)
    assert told(doctor_here(sound.case)[1]) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_no_command_breaks_over_damage(whole, name):
    """Over each kind of damage every command comes to an end, with a result or a refusal that has a code."""
    check_commands(whole, (100,), (name,))


@pytest.mark.long
@pytest.mark.parametrize("first", range(30_000, 31_000, 100))
def test_no_command_breaks_over_any_damage(whole, first):
    """The same for 1,000 mutations."""
    check_commands(whole, range(first, first + 100), tuple(MUTATIONS))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, MANY, CHUNK))
def test_every_damage_is_said_or_harmless(whole, first):
    """10,000 mutations: doctor reports each, or nothing has changed."""
    check_all(whole, range(first, first + CHUNK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(MANY, MANY + 4 * CHUNK, CHUNK))
def test_every_damage_of_a_clone_is_said_or_harmless(clone, first):
    """2,000 mutations of ledgers that nothing is known of elsewhere: doctor reports each, or nothing has changed."""
    check_all(clone, range(first, first + CHUNK), names=CLONE)


@pytest.mark.long
def test_every_damage_is_said_by_the_command(whole):
    """100 mutations, with doctor as a process: no traceback, and the same law."""
    check_all(whole, range(20_000, 20_100), ask=doctor_command)
