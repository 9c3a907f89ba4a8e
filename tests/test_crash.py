"""No end of a process and no refusal of the disk loses what was acknowledged, or leaves half of a record.

Each command is carried out in a prepared vault and ended at one call that touches the disk, which then is counted up.
After each, the next command works, the vault is sound, and what the ended command wrote is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from crash_driver import ROOT, Driver, Kept
from small_disk import fill, mounted

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks; this system has no fork")

ERRORS = ("ENOSPC", "EIO", "EDQUOT")
#: Where the witness of each vault is, beside it.
STATE = "state"
BY = ("--tier", "2", "--new-subject", "--text")


class Prepared:
    """A vault with all that the commands under test need, and how it was when it was prepared."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder
        self.root = folder / "memory"
        self.names = {}

    def prepare(self):
        """Two runs that have worked: a conflict, a held proposal, staged ones and entries are there."""
        for name, argv in (
            ("", ("init",)),
            ("one", ("start", "--actor", "codex")),
            ("two", ("start", "--actor", "claude")),
            ("", ("journal", "--run", "{one}", "--text", "The sandbox answers 504 to one call in ten.", "--ref", "log-1")),
            ("", ("propose", "--run", "{one}", "--key", "shop.next", *BY, "Retry twice.", "--now")),
            ("", ("sync", "--run", "{two}")),
            ("", ("propose", "--run", "{one}", "--key", "shop.next", "--text", "Retry three times.")),
            ("", ("propose", "--run", "{two}", "--key", "shop.next", "--text", "Use a queue.")),
            ("", ("sync", "--run", "{one}")),
            ("", ("sync", "--run", "{two}")),
            ("", ("propose", "--run", "{two}", "--key", "stack.db", "--tier", "1", "--new-subject", "--text", "PostgreSQL.", "--now")),
            ("", ("propose", "--run", "{one}", "--key", "shop.risk", *BY, "Payments time out.", "--evidence", "log-1")),
            ("", ("propose", "--run", "{one}", "--key", "shop.owner", *BY, "Ask Mira.")),
        ):
            outcome = self.run(*argv)
            assert outcome.status in (0, 4), outcome
            self.names[name] = outcome.json.get("run")
        self.names["conflict"] = self.run("review", "shop.next").json["questions"][0]["handle"]
        operations = [
            {"do": "journal", "text": "An entry", "ref": "log-2"},
            {"do": "propose", "key": "shop.new", "tier": 2, "new_subject": True, "text": "New.", "evidence": ["log-2"]},
            {"do": "sync"},
        ]
        (self.folder / "operations").write_text("".join(json.dumps(o) + "\n" for o in operations), encoding="utf-8")
        (self.folder / "old.md").write_bytes(b"Old.")
        older = [
            {"do": "source", "format": "notes", "name": "wiki", "files": [{"path": "old.md", "sha256": sha256(b"Old.").hexdigest()}]},
            {"do": "open", "run": "w", "actor": "bob"},
            {"do": "propose", "run": "w", "key": "old.fact", "tier": 2, "text": "Old."},
            {"do": "sync", "run": "w"},
        ]
        (self.folder / "older").write_text("".join(json.dumps(o) + "\n" for o in older), encoding="utf-8")

    def keep(self):
        """Take the present state, with what the machine remembers of it, as the one that every test starts from."""
        self.kept, self.before = Kept(self.root, self.folder / STATE), self.units()
        return self

    def run(self, *argv, **faults):
        """Run one command; `{name}` stands for what was prepared under that name."""
        return self.run_all(argv, **faults)[0]

    def run_all(self, *commands, **faults):
        """Run commands one after another."""
        return self.driver.run_all(self.folder, *([self.named(word) for word in argv] for argv in commands), **faults)

    def named(self, word):
        """Return a word of a command with what was prepared in the place of its name."""
        return re.sub(r"\{(\w+)\}", lambda m: self.names[m[1]], word)

    def units(self):
        """Return the whole units of the ledgers: (tag, kinds, lines of each), read without the engine."""
        found = []
        for path in sorted((self.root / ".muniment" / "ledger").glob("*.jsonl")):
            lines = []
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                lines.append(line)
                if "unit" in json.loads(line)["head"]:
                    found.append((path.stem, tuple(json.loads(x)["head"]["kind"] for x in lines), tuple(lines)))
                    lines = []
        return found

    def is_torn(self):
        """Tell whether a ledger ends in the middle of a line."""
        return any(p.read_bytes()[-1:] not in (b"", b"\n") for p in (self.root / ".muniment" / "ledger").iterdir())

    def added(self):
        """Return the kinds of each unit that was added; what was there before must be there still, to the byte."""
        units = self.units()
        assert [u for u in units if u in self.before] == self.before
        return [unit[1] for unit in units if unit not in self.before]


def edit_memory(vault):
    """Edit MEMORY.md by hand."""
    with (vault.root / "MEMORY.md").open("ab") as file:
        file.write(b"- by hand\n")


def edit_text(vault):
    """Change the text of a subject in MEMORY.md by hand, and let the owner see it."""
    path = vault.root / "MEMORY.md"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"Retry three times.", b"Retry four times."))
    assert path.read_bytes() != data
    assert vault.run("review", "--all").json["edits"]


def tear_ledger(vault):
    """Leave half a line at the end of the vault's own ledger."""
    with next((vault.root / ".muniment" / "ledger").iterdir()).open("ab") as file:
        file.write(b'{"body":{"run":"R1')


def drop_cache(vault):
    """Delete the cache."""
    (vault.root / ".muniment" / "local" / "state.sqlite").unlink()


def drop_replica(vault):
    """Delete what the vault knows of its own ledgers."""
    (vault.root / ".muniment" / "local" / "replica.json").unlink()


START = ("start", "--actor", "gemini")
JOURNAL = ("journal", "--run", "{one}", "--text", "What was learnt")
PROPOSE = ("propose", "--run", "{one}", "--key", "shop.door", *BY, "Blue.")
#: Name -> (command, status, units that it adds, what a second one gets once the first was recorded, what is changed before).
CASES = {
    "start": (START, 0, ["run-open"], 0, None),
    "journal": (JOURNAL, 0, ["journal"], 0, None),
    "propose": (PROPOSE, 0, ["proposal"], 0, None),
    "propose-now": ((*PROPOSE, "--now"), 0, ["proposal revision"], "present-key", None),
    "sync": (("sync", "--run", "{one}"), 0, ["revision"], 0, None),
    "close": (("close", "--run", "{one}", "--outcome", "success", "--summary", "Done."), 0, ["revision run-close"], "closed-run", None),
    "resolve": (("resolve", "{conflict}", "--choose", "current", "--human-approved"), 0, ["resolution"], "moved", None),
    "apply-atomic": (("apply", "--run", "{one}", "--atomic", "operations"), 0, ["journal proposal revision"], "atomic", None),
    "import": (("import", "older", "--human-approved"), 0, ["run-open proposal revision run-close"], 0, None),
    "start-in-a-new-copy": (START, 0, ["replica run-open"], 0, drop_replica),
    "journal-over-an-edit": (JOURNAL, 0, ["recovery", "journal"], 0, edit_memory),
    "adopt-an-edit": (("resolve", "edits", "--choose", "adopt", "--human-approved"), 0, ["recovery", "resolution resolution"], "moved",
                      edit_text),  # the recovery is of the change before
    "journal-after-a-torn-unit": (JOURNAL, 0, None, 0, tear_ledger),
    "journal-without-a-cache": (JOURNAL, 0, ["journal"], 0, drop_cache),
}

#: Those that between them take every way of writing.
FEW = ("propose-now", "start-in-a-new-copy", "journal-over-an-edit", "journal-after-a-torn-unit", "journal-without-a-cache")


@pytest.fixture(scope="module")
def driver():
    """The process that runs the commands."""
    with Driver(STATE) as running:
        yield running


@pytest.fixture(scope="module")
def base(driver, tmp_path_factory):
    """A vault in which two runs have worked."""
    vault = Prepared(driver, tmp_path_factory.mktemp("crash"))
    vault.prepare()
    return vault.keep()


class Case:
    """One command in the prepared vault: how it goes undisturbed, and how it goes with a fault."""

    def __init__(self, vault, name):
        self.vault = vault
        self.argv, self.status, units, self.again, self.change = CASES[name]
        self.kept = None
        self.reset()
        if self.change is edit_text:  # it records, and must have done so the same each time
            self.kept = Kept(vault.root, vault.folder / STATE)
        outcome = vault.run(*self.argv)
        assert outcome.status == self.status, outcome
        self.calls, self.units = outcome.calls, vault.added()
        assert units is None or [" ".join(kinds) for kinds in self.units] == units
        self.main = next(kinds for kinds in self.units if set(kinds) != {"recovery"})

    def reset(self):
        """Make the vault what it was when it was prepared, with this case's change."""
        (self.kept or self.vault.kept).put_back()
        if self.change and not self.kept:
            self.change(self.vault)

    def run(self, fault):
        """Run the command in the prepared vault with a fault."""
        self.reset()
        return self.vault.run(*self.argv, fault=fault)

    def check_after(self, outcome, look):
        """What must hold after the command was ended or refused; return whether its own unit is recorded.

        With ``look`` a reader comes first and brings the vault in line; else the next writer must.
        """
        if look:
            looked = self.vault.run("status")
            assert looked.status == 0, (outcome, looked)
        main = self.count_main()
        assert main in (0, 1), outcome
        again, after, health = self.vault.run_all(self.argv, ("start", "--actor", "next"), ("doctor",))
        assert (again.code or again.status) == (self.again if main else self.status), (outcome, again)
        assert after.status == 0, (outcome, after)
        self.check_health(outcome, health)
        return main

    def count_main(self):
        """Return how often the command's own unit was added; beside it there may be only repairs."""
        units = self.vault.added()
        assert all(unit == self.main or set(unit) == {"recovery"} for unit in units), units
        return units.count(self.main)

    def check_sound(self, outcome):
        """Nothing is wrong, not even by the published schemas."""
        self.check_health(outcome, self.vault.run("doctor", "--strict"))

    def check_health(self, outcome, health):
        """Nothing is wrong, and nothing half made is left."""
        assert (health.status, health.json["findings"]) == (0, []), (outcome, health)
        assert [p for p in self.vault.root.rglob("*") if ".tmp" in p.name] == [], outcome


@pytest.fixture
def case(base, request):
    """The case that the test is about."""
    return Case(base, request.param)


def is_change(call):
    """Tell whether a call leaves anything on the disk that a process after it can meet."""
    name, path = call
    return name not in ("fsync", "mkdir", "BEGIN IMMEDIATE") and not path.endswith("lock") and (name, path[-6:]) != ("open", ".jsonl")


def is_witness(call):
    """Tell whether a call writes what the machine remembers of the vault."""
    return call[1].startswith(STATE + "/") and call[0] != "mkdir"


def ends(case, action, numbers):
    """End the command at each of the calls; return whether it was recorded at the last: once it is, it stays so."""
    recorded = 0
    for number in numbers:
        outcome = case.run({"at": number, "action": action})
        assert outcome.status is None, (case.calls[number - 1], outcome)
        now = case.check_after(outcome, look=number % 2)
        assert now >= recorded, case.calls[number - 1]
        recorded = now
    case.check_sound(outcome)
    return recorded


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_process_that_ends_leaves_all_or_nothing(case):
    """Ended after a call that changes the disk, a command has left all of each unit or nothing, in a sound vault."""
    changes = [n for n, call in enumerate(case.calls, 1) if is_change(call)]
    witnessed = [k for k, n in enumerate(changes) if is_witness(case.calls[n - 1])]
    assert case.calls[changes[witnessed[-1]] - 1][0] == "replace"
    assert ends(case, "after", [*changes[:witnessed[-1] + 1], changes[-1]]) == 1


@pytest.mark.long
@pytest.mark.parametrize("action", ["before", "after"])
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_process_that_ends_at_any_call_leaves_all_or_nothing(case, action):
    """Ended before or after each call that touches the disk, a command leaves all of each unit or nothing, in a sound vault."""
    assert ends(case, action, range(1, len(case.calls) + 1)) == 1


@pytest.mark.parametrize("case", FEW, indirect=True)
def test_a_process_that_ends_in_the_middle_of_a_write_leaves_all_or_nothing(case):
    """Half a write leaves nothing of its unit; half a line of the own ledger is kept in recovery/, cut off and recorded."""
    writes = [n for n, call in enumerate(case.calls, 1) if call[0] == "write"]
    assert ends(case, "half", [n for n in writes if not case.calls[n - 1][1].endswith("lock")]) == 1


@pytest.mark.parametrize("case", FEW, indirect=True)
def test_a_write_may_take_less_than_it_was_given(case):
    """A write that takes half of the bytes is no fault: the command does what it does undisturbed."""
    for number, call in enumerate(case.calls, 1):
        if call[0] == "write" and not call[1].endswith("lock"):
            outcome = case.run({"at": number, "action": "short"})
            assert (outcome.status, case.vault.added()) == (case.status, case.units), call
    case.check_sound(outcome)


def durable(calls):
    """Return the paths of what a command's calls made durable: fsynced, or put in its place after it was."""
    synced = set()
    for name, path in calls:
        if name == "fsync":
            synced.add(path)
        elif name == "open":
            synced.discard(path)
        elif name == "replace" and any(p.endswith("beside.tmp") for p in synced):
            synced.add(path)
    return {path for path in map(Path, synced) if path.is_file()}


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_what_was_acknowledged_is_there_without_what_was_not_synced(case):
    """Of a command that was done, what it fsynced is enough: with all else as before, its unit is recorded."""
    case.reset()
    outcome = case.vault.run(*case.argv)
    kept = {path: path.read_bytes() for path in durable(outcome.calls)}
    case.reset()
    for path, data in kept.items():
        path.write_bytes(data)
    assert case.check_after(outcome, look=False) == 1


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_records_are_durable_before_anything_refers_to_them(case):
    """Each append is one write and one fsync of the ledger, before cache, tail, witness and views are touched; kept bytes before it."""
    made = [(name, path.rpartition("/")[2]) for name, path in case.calls]
    appends = [n for n, (name, path) in enumerate(made) if name == "write" and path.endswith(".jsonl")]
    units = case.units[case.change is edit_text:]  # what was recorded before
    assert len(appends) == len(units)
    for n in appends:
        commit = made.index(("COMMIT", "state.sqlite"), n)
        assert [name for name, path in made[n:commit] if path.endswith(".jsonl")] == ["write", "fsync"]
        assert "replica.json" in [path for name, path in made[commit:] if name == "replace"]
        remembered = [k for k, call in enumerate(case.calls) if is_witness(call) and k > n]
        assert remembered
        assert commit < made.index(("replace", "replica.json"), n) < remembered[0]
    assert ("replace", "MEMORY.md") not in made[:appends[0]]
    if case.change is edit_memory:
        kept = next(k for k, (name, path) in enumerate(made) if name == "replace" and len(path) == 64)
        assert ("fsync", "beside.tmp") in made[:kept]
        assert kept < appends[0]
        assert made.index(("replace", "MEMORY.md")) < appends[1]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", [(), ("--tracked",)], ids=["private", "tracked"])
def test_an_interrupted_init_is_completed_by_the_next(driver, tmp_path, how, step):
    """Ended after any call, init leaves either a vault, or what the next init makes one of."""
    (tmp_path / "0").mkdir()
    calls = driver.run(tmp_path / "0", "init", *how).calls
    for number, call in list(enumerate(calls, 1))[::step]:
        folder = tmp_path / str(number)
        folder.mkdir()
        assert driver.run(folder, "init", *how, fault={"at": number, "action": "after"}).status is None
        again, after, health = driver.run_all(folder, ("init", *how), ("start", "--actor", "codex"), ("doctor",))
        assert (again.status, again.code) in ((0, None), (3, "vault-exists")), (call, again)
        assert (after.status, health.status, health.json["findings"]) == (0, 0, []), (call, after, health)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("argv", [("rebuild",), ("doctor", "--fix")], ids=["rebuild", "doctor-fix"])
def test_an_interrupted_rebuild_does_no_harm(base, argv, step):
    """Ended after any call, what makes cache and views anew leaves a vault that the next command works in."""
    base.kept.put_back()
    calls = base.run(*argv).calls
    for number, call in list(enumerate(calls, 1))[::step]:
        base.kept.put_back()
        assert base.run(*argv, fault={"at": number, "action": "after"}).status is None
        after, health, again = base.run_all(("journal", "--run", "{two}", "--text", "The next command"), ("doctor",), argv)
        assert (after.status, health.status, health.json["findings"], again.status) == (0, 0, [], 0), (call, after, health)
    assert {path.name for path in (base.root / ".muniment" / "local").iterdir()} == {"here", "lock", "replica.json", "state.sqlite"}


# -- the commands of repair --


@pytest.fixture(scope="module")
def spare(driver, tmp_path_factory):
    """A prepared vault whose ledgers may be replaced: to the other tests they must be the same files."""
    vault = Prepared(driver, tmp_path_factory.mktemp("spare"))
    vault.prepare()
    return vault.keep()


def own_ledger(vault):
    """Return the path of the ledger of the prepared vault."""
    return vault.root / ".muniment" / "ledger" / (vault.before[0][0] + ".jsonl")


def harm_ledger(vault):
    """Change a letter in the middle of the own ledger, and keep a copy of it as it was; return its bytes then and now."""
    path = own_ledger(vault)
    whole = path.read_bytes()
    (vault.folder / "copy.jsonl").write_bytes(whole)
    path.write_bytes(whole.replace(b"Retry three times.", b"Retry three timex."))
    assert path.read_bytes() != whole
    return path, whole, path.read_bytes()


def prepared(vault, change):
    """Make the vault what it was, with a cache in line with ledgers that may be other files now, and change it."""
    vault.kept.put_back()
    assert vault.run("status").status == 0
    return change(vault)


#: How to end a command, and at each how many of the calls; all of them take long.
HOW_TO_END = (("after", 6), ("half", 4), *(pytest.param(action, 1, marks=pytest.mark.long) for action in ("after", "half", "before")))


def at_changes(vault, argv, change, check, action, step):
    """End a command at calls that change the disk, in the prepared vault with a change, and check what it leaves."""
    prepared(vault, change)
    undisturbed = vault.run(*argv)
    assert undisturbed.status == 0, undisturbed
    numbers = [n for n, call in enumerate(undisturbed.calls, 1) if is_change(call) and (action != "half" or call[0] == "write")]
    for number in sorted({*numbers[::step], numbers[-1]}):
        before = prepared(vault, change)
        assert vault.run(*argv, fault={"at": number, "action": action}).status is None, undisturbed.calls[number - 1]
        check(undisturbed.calls[number - 1], before)


def repairs(vault):
    """Return what the recovery records of all ledgers say was done."""
    lines = [json.loads(line) for _, _, lines in vault.units() for line in lines]
    return [line["body"]["what"] for line in lines if line["head"]["kind"] == "recovery"]


def kept_bytes(vault):
    """Return the bytes of every file in recovery/."""
    return [path.read_bytes() for path in (vault.root / ".muniment" / "recovery").iterdir()]


@pytest.mark.parametrize(("action", "step"), HOW_TO_END)
@pytest.mark.parametrize("how", [("--from", "copy.jsonl"), ("--accept-loss", "--human-approved")], ids=["from-a-copy", "with-a-loss"])
def test_an_interrupted_restore_is_done_again(spare, how, action, step):
    """Ended anywhere, `restore` leaves the ledger as it was or mended; done again it is mended, its old bytes kept, recorded once."""
    lost = how[0] != "--from"

    def check(call, before):
        path, whole, harmed = before
        there = path.read_bytes()
        assert there in (harmed, whole) or (lost and set(there.splitlines()) < set(whole.splitlines())), call
        assert there == harmed or harmed in kept_bytes(spare), call
        again, after, health, more = spare.run_all(("restore", *how), START, ("doctor", "--strict"), ("restore", *how))
        assert (again.status, after.status, more.json.get("restored")) == (0, 0, []), (call, again, after, more)
        assert (health.status, [f for f in health.json["findings"] if f["severity"] != "notice"]) == (0, []), call
        assert [what for what in repairs(spare) if what != "torn"] == ["loss" if lost else "restored"], call
        assert path.read_bytes().startswith(whole) if not lost else set(path.read_bytes().splitlines()) < set(whole.splitlines()), call
        assert harmed in kept_bytes(spare), call

    at_changes(spare, ("restore", *how), harm_ledger, check, action, step)


def say_number(vault):
    """Let the vault hold a number in an entry, a value, an edited view's kept bytes and the search index."""
    outcomes = vault.run_all(
        ("journal", "--run", "{one}", "--text", "Her number is 555-0123."),
        ("propose", "--run", "{one}", "--key", "shop.number", *BY, "Call 555-0123.", "--now"), ("index",))
    (vault.root / "INDEX.md").write_bytes(b"555-0123\n")
    outcomes += vault.run_all(("review", "--all"), ("search", "number"))
    assert [outcome.status for outcome in outcomes] == [0] * 5
    return sorted(p for p in vault.root.rglob("*") if p.is_file() and b"555-0123" in p.read_bytes())


@pytest.mark.parametrize(("action", "step"), HOW_TO_END)
def test_an_interrupted_erase_is_completed(spare, action, step):
    """Ended anywhere, `erase` has recorded nothing and is done again, or the next command takes the text out of every file."""
    argv = ("erase", "--text", "555-0123", "--human-approved")

    def check(call, before):
        assert len(before) > 4
        recorded = any(kinds == ("erase",) for _, kinds, _ in spare.units())
        done = spare.run(*(START if recorded else argv))
        assert done.status == 0, (call, done)
        health = spare.run("doctor", "--strict")
        assert (health.status, [f for f in health.json["findings"] if f["severity"] != "notice"]) == (0, []), call
        assert [kinds for _, kinds, _ in spare.units()].count(("erase",)) == 1, call
        files = [p for p in (*spare.root.rglob("*"), *(spare.folder / STATE).iterdir()) if p.is_file()]
        assert [p for p in files if b"555-0123" in p.read_bytes()] == [], call
        assert spare.run("recall", "shop.number").json["status"] == "closed", call

    at_changes(spare, argv, say_number, check, action, step)


def go_back(vault):
    """Cut the own ledger at its last whole unit but one, as an older copy of the vault would be."""
    path = own_ledger(vault)
    path.write_bytes(b"".join(line for unit in vault.before[:-1] for line in unit[2]))
    assert vault.run("witness").json["behind"]


@pytest.mark.parametrize(("action", "step"), HOW_TO_END)
def test_an_interrupted_acceptance_is_done_again(spare, action, step):
    """Ended anywhere, `witness --accept` has taken the present as right or not; done again it has, and nothing is missed any more."""
    argv = ("witness", "--accept", "--human-approved")

    def check(call, before):
        assert before is None
        again, after, asked, health = spare.run_all(argv, START, ("witness",), ("doctor", "--strict"))
        assert (again.status, after.status, asked.json["behind"]) == (0, 0, []), (call, again, after, asked)
        assert (health.status, [f for f in health.json["findings"] if f["severity"] != "notice"]) == (0, []), call
        assert [unit for unit in spare.units() if unit in spare.before] == spare.before[:-1], call

    at_changes(spare, argv, go_back, check, action, step)


# -- the disk says no --


def refuses(case, fault):
    """Carry the command out with an error; return how it ended, once it has said so and kept the promises."""
    call = case.calls[fault["at"] - 1]
    return judge(case, case.run(fault), call, quiet=is_cache(call))


def judge(case, outcome, call, quiet):
    """What must hold of a refused call: exit 9 and nothing recorded, or done and warned of (unless ``quiet``)."""
    units = case.vault.added()
    if outcome.status == 9:
        assert (outcome.code, case.main in units) == ("filesystem", False), (call, outcome)
        assert any(name in outcome.json["message"] for name in (str(case.vault.root), "state.sqlite")), (call, outcome)
        assert case.change is tear_ledger or not case.vault.is_torn(), (call, outcome)
    else:
        assert (outcome.status, case.main in units) == (case.status, True), (call, outcome)
        assert outcome.json["warnings"] or quiet, (call, outcome)
    assert case.check_after(outcome, look=False) == (outcome.status != 9), call
    return outcome.status


def is_cache(call):
    """Tell whether a call may fail unsaid: who holds the lock is information, the fold in memory serves as well as a cache.

    Where no witness can be written, nothing is promised of it.
    """
    return call[0] == "mkdir" or call[1].endswith(("lock", ".sqlite")) or is_witness(call)


def refusals(case, names, **fault):
    """Let each call of some names fail; return the statuses that the command ended with."""
    return {refuses(case, {"at": n, **fault}) for n, call in enumerate(case.calls, 1) if call[0] in names}


@pytest.mark.parametrize("case", FEW, indirect=True)
def test_an_append_that_fails_records_nothing_and_says_so(case):
    """If the ledger's write or fsync fails the command exits 9 with the path, and the ledger is what it was."""
    appends = [n for n, call in enumerate(case.calls, 1) if call[0] in ("write", "fsync") and call[1].endswith(".jsonl")]
    statuses = [refuses(case, {"at": n, "action": action}) for n, action in zip(appends, ("ENOSPC", "EIO", "EDQUOT", "EIO"))]
    due = [9 if unit == case.main or case.change is tear_ledger else case.status for unit in case.units for _ in ("write", "fsync")]
    assert statuses == due  # an edit that cannot be recorded stays where it is, and the command goes on


@pytest.mark.parametrize("case", FEW, indirect=True)
def test_a_disk_that_stays_full_is_said_and_nothing_is_half_recorded(case):
    """If from some call on everything that grows fails, it is exit 9 and nothing recorded, or done with a warning."""
    places = [n for n, call in enumerate(case.calls, 1) if is_change(call)]
    statuses = {refuses(case, {"at": n, "action": "ENOSPC", "stays": True}) for n in places[::4]}
    assert statuses == {9, case.status}


@pytest.mark.long
@pytest.mark.parametrize("action", ERRORS)
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_any_call_may_fail_once(case, action):
    """If any one call fails, it is exit 9 and nothing recorded, or done with a warning; the command works afterwards."""
    assert refusals(case, ("open", "write", "fsync", "replace", "unlink", "mkdir"), action=action) == {9, case.status}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_the_disk_may_be_full_from_any_call_on(case):
    """If from any call on everything that grows fails, it is exit 9 and nothing recorded, or done with a warning."""
    names = {name for name, _ in case.calls}
    assert refusals(case, names, action="ENOSPC", stays=True) == {9, case.status}


@pytest.mark.parametrize("case", FEW, indirect=True)
def test_a_cache_that_cannot_be_written_does_not_stop_a_command(case):
    """If SQLite refuses, the records count all the same: the command is done, or it exits 9 with nothing recorded."""
    assert refusals(case, ("BEGIN IMMEDIATE", "COMMIT", "script", "PRAGMA journal_mode=WAL"), action="ENOSPC") <= {9, case.status}


@pytest.fixture(scope="module")
def small_disk(driver, tmp_path_factory):
    """A prepared vault on a filesystem of 1 MiB of its own."""
    with mounted(tmp_path_factory.mktemp("disk")) as folder:
        vault = Prepared(driver, folder)
        vault.prepare()
        yield vault.keep()


def fills(case, lefts):
    """Carry the command out with so little room left; return the statuses that it ended with."""
    statuses = []
    for left in lefts:
        case.reset()
        filler = fill(case.vault.folder, left)
        outcome = case.vault.run(*case.argv)
        filler.unlink()
        statuses.append(judge(case, outcome, left, quiet=True))
    return statuses


def test_a_full_disk_records_nothing_and_a_roomy_one_all(small_disk):
    """On a real full disk a command exits 9 with nothing recorded, and is done once there is room again."""
    case = Case(small_disk, "journal-without-a-cache")  # a cache could be dropped for room
    case.argv = (*JOURNAL[:-1], "x" * 8000)
    statuses = fills(case, (0, 8192, 131_072))
    assert (statuses[0], statuses[-1]) == (9, 0)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_disk_may_fill_up_at_any_page(small_disk, name):
    """However little room is left on a real disk, a command exits 9 with nothing recorded, or is done."""
    case = Case(small_disk, name)
    statuses = fills(case, range(0, 200_000, 4096))
    assert statuses[-1] == case.status


# -- killed from outside --

CALLS = ("write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "ftruncate")


def trace(folder, argv, *options):
    """Run one command under strace and return its exit status."""
    strace = shutil.which("strace")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment.update(PYTHONPATH=str(ROOT), PYTHONPYCACHEPREFIX=str(folder / "bytecode"), MUNIMENT_STATE=STATE)
    command = [strace, "-f", "-qq", "-o", folder / "calls", *options, sys.executable, "-c", "import engine; engine.run()", *argv]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode


@pytest.fixture(scope="module")
def strace(tmp_path_factory):
    """What must be there for a process to be killed from outside at a system call."""
    if shutil.which("strace") is None or trace(tmp_path_factory.mktemp("strace"), ["help"]):
        pytest.skip("no strace that may trace a process is on this machine")


@pytest.mark.long
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_process_killed_from_outside_at_any_system_call_leaves_all_or_nothing(case):
    """Killed at each write, fsync, rename, cut or unlink, SQLite's too, a command leaves all of each unit or nothing."""
    folder = case.vault.folder
    argv = [case.vault.named(word) for word in case.argv]
    case.reset()
    trace(folder, argv)  # it writes the bytecode, whose calls are not the command's
    case.reset()
    assert trace(folder, argv, "-e", "trace=" + ",".join(CALLS)) == case.status
    made = re.findall(r"^[0-9]+ +(\w+)\(", (folder / "calls").read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    recorded = set()
    for name in CALLS:
        step = 1 + made.count(name) // 20 if name == "pwrite64" else 1  # SQLite's own, of which there may be hundreds
        for number in range(1, made.count(name) + 1, step):
            case.reset()
            status = trace(folder, argv, "-e", "inject=%s:signal=KILL:when=%d" % (name, number))
            assert status in (-9, 137), (name, number)
            recorded.add(case.check_after("%s %d" % (name, number), look=number % 2))
    assert recorded == {0, 1}
