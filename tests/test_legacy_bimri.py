"""The reader of BIMRI stores: all that a store holds comes over, in its order, and nothing that it does not hold."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import json
import random
import re
import shutil
import subprocess
import sys

import pytest
import scratch
from bimri_stores import CA, V1, V2, V3, V4, V4_LOGS, Store5, make_ca, make_v4, make_v5, make_v51, sha256, some_v4, some_v5, write

engine = scratch.engine
READER = scratch.ROOT / "legacy" / "bimri.py"
#: Operation -> the names that it must have, and those that it may have.
NAMES = {
    "source": ("format name files", ""), "open": ("run actor", "dated snapshot"), "journal": ("run text", "id importance ref dated"),
    "propose": ("run id key op source trust",
                "base tier text detail why evidence tags kind importance status confidence falsifier dated"),
    "sync": ("run", ""), "withdraw": ("run proposal", ""), "close": ("run outcome summary", "dated"),
    "left": ("what why", ""), "converted": ("what how", ""),
}
#: All that the reader says of its own.
PHRASES = ("No summary was recorded.", "unknown")
SEEDS = range(5)
EFFECT = ("op", "tier", "text", "detail", "kind", "importance", "status", "confidence", "falsifier", "tags")


@pytest.fixture(scope="module")
def bimri():
    """Return the reader as a module."""
    spec = importlib.util.spec_from_file_location("legacy_bimri", READER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def read(bimri):
    """Return a function that reads a store twice and checks what every output must keep."""
    def both(folder):
        operations = bimri.read(str(folder))
        assert operations == bimri.read(str(folder))
        return check(operations)
    return both


def check(operations):
    """Assert that the operations are such as `import` takes, in an order that it can carry out; return them."""
    runs, ids = {}, set()
    for n, op in enumerate(operations):
        must, may = (set(names.split()) for names in NAMES[op["do"]])
        assert must <= {*op} - {"do"} <= must | may, op
        assert (op["do"] == "source") == (n == 0)
        assert len(json.dumps(op, ensure_ascii=False).encode("utf-8")) < engine.LINE_BYTES_MAX
        assert engine.is_at(op.get("dated", "2026-01-01T00:00:00.000Z")), op
        if op["do"] == "open":
            assert op["run"] not in runs
            assert engine.is_word(op["actor"], engine.ACTOR_PATTERN, 40), op
        elif "run" in op:
            assert runs[op["run"]], op
        if "run" in op:
            runs[op["run"]] = op["do"] != "close"
            assert engine.is_line(op["run"], 200)
        if "id" in op:
            assert op["id"] not in ids
            assert engine.is_line(op["id"], 200)
            assert " " not in op["id"]
        for name in {"what", "why", "how", "falsifier", "name"} & {*op}:
            assert engine.is_line(op[name]), op
        if op["do"] == "journal":
            assert engine.is_block(op["text"], 8000)
            assert engine.is_ref(op.get("ref", "x"))
        if op["do"] == "close":
            assert op["outcome"] in engine.OUTCOMES
            assert engine.is_block(op["summary"], engine.SUMMARY_MAX)
        if op["do"] == "propose":
            value = {name: op[name] for name in EFFECT if name in op}
            assert engine.is_key(op["key"])
            assert engine.is_value(value), value
            own = {"bimri:///bimri.md#" + op["key"]} if (op["run"][:4], op["op"], op.get("tier")) == ("now-", "set", 3) else set()
            assert own <= {*op.get("evidence", ())}
            assert {*op.get("base", ()), *op.get("evidence", ())} - own <= ids
            assert op.get("evidence") or op.get("tier") != 3 or op["op"] != "set"
        ids.add(op.get("id"))
    return operations


def fold(operations):
    """Carry the operations out as section 8.1 says; return what came of each key, and what was staged or withdrawn.

    The run that says all of the store as it is now changes nothing of it.
    """
    last = [op["run"] for op in operations if op.get("snapshot")]
    assert last == [op["run"] for op in operations if op["do"] == "open"][-len(last):]
    found, after = carry_out(without_now(operations)), carry_out(operations)
    for key, subject in found[0].items():
        assert {**after[0][key], "again": 0} == {**subject, "again": 0}
    return found


def without_now(operations):
    """Return the operations without the run that says again what they end in."""
    return [op for op in operations if not op.get("run", "").startswith("now-")]


def carry_out(operations):
    """Carry the operations out."""
    claims, state = {}, collections.defaultdict(lambda: {"now": None, "beside": [], "past": []})
    staged, withdrawn = [], []
    for op in operations:
        if op["do"] == "propose":
            claims[op["id"]] = op
            staged.append(op["id"])
        elif op["do"] == "withdraw":
            staged.remove(op["proposal"])
            withdrawn.append(op["proposal"])
        elif op["do"] == "sync":
            for name in [name for name in staged if claims[name]["run"] == op["run"]]:
                staged.remove(name)
                decide(state[claims[name]["key"]], claims[name])
    return state, [claims[name] for name in staged], [claims[name] for name in withdrawn]


def decide(subject, claim):
    """Decide a claim as the engine does, of the cases that an import has."""
    said = [subject["now"], *subject["beside"]]
    if claim["op"] == "touch":
        subject["touched"] = claim["run"]
    elif any(other and effect(other) == effect(claim) and (
            claim["trust"] != "confirmed" or ("base" not in claim and fields(other, "trust source") == fields(claim, "trust source")))
            for other in said):
        subject["again"] = claim["run"]
    elif claim.get("base") == [] and subject["now"]:
        assert subject["now"]["trust"] == claim["trust"], "it would not be a question for the owner"
        subject["beside"].append(claim)
    else:
        subject["past"] += [subject["now"]] if subject["now"] else []
        subject["now"] = claim


def effect(claim):
    """Return what of a claim counts when two are compared."""
    return {"op": "close"} if claim["op"] == "close" else {name: claim[name] for name in EFFECT if name in claim}


def texts(subject):
    """Return the texts of a subject's generations in order; None for a close."""
    return [claim.get("text") for claim in [*subject["past"], subject["now"]]]


def current(operations):
    """Return the claims that hold by key."""
    return {key: subject["now"] for key, subject in fold(operations)[0].items() if subject["now"] and subject["now"]["op"] == "set"}


def entries(operations):
    """Return run, text and importance of the entries in order."""
    return [(op["run"], op["text"], op.get("importance")) for op in operations if op["do"] == "journal"]


def fields(claim, names):
    """Return some fields of a claim; None for one that it has not."""
    return tuple(claim.get(name) for name in names.split())


def notes(operations, do="left"):
    """Return what is said to be left, or converted, as one text."""
    return "\n".join("%s: %s" % (op["what"], op.get("why") or op.get("how")) for op in operations if op["do"] == do)


def source_text(folder):
    """Return all text of a store, with JSON unescaped and bullets and lines as they are."""
    found = [folder.name]
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            found += [text, *values(json.loads(text))] if path.suffix == ".json" else [text]
    return "\n".join(found)


def values(value):
    """Yield the texts in JSON."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from values(inner)


# == Flat files ==

@pytest.mark.parametrize(("text", "prefix"), [(V1, "v1"), (V2, "v2")])
def test_a_v1_and_a_v2_file_come_over(tmp_path, read, text, prefix):
    """Each entry is a subject of its tier, with its fields, keys as the v5 engine makes them, and days as times."""
    operations = read(write(tmp_path / "greenhouse", {"bimri.md": text, "bimri-backup.md": "An older one."}))
    found = current(operations)
    assert {key.partition(prefix + ".")[2]: fields(claim, "tier kind importance status tags dated text")
            for key, claim in found.items() if claim["tier"] != 3} == {
        "t1-0001": (1, "fact", None, None, None, None, "The greenhouse controller is written for a board with 64 KB of memory."),
        "t1-0002": (1, "fact", None, None, None, None, "Valves fail shut."),
        "t1-0003": (1, "fact", None, None, ["owner-wish", "safety"], "2025-03-01T00:00:00.000Z", "Never open two valves at once."),
        "t2-legacy-0001": (2, None, 3, "active", ["pumps"], "2025-03-30T00:00:00.000Z", "Pump two is replaced in April."),
        "t2-legacy-0002": (2, None, 4, "active", None, "2025-04-01T00:00:00.000Z", "The humidity curve is wrong above 90 %."),
    }
    assert {(claim["source"], claim["trust"]) for claim in found.values()} == {("legacy", "working")}
    assert found["legacy.%s.t2-legacy-0002" % prefix]["detail"].endswith("It was measured with the old sensor.")
    pattern = found["legacy.%s.pattern-0001" % prefix]
    assert fields(pattern, "confidence text tags detail") == (
        "developing", "The owner asks for tables, not prose.", ["style"], "[OBSERVATIONS:4]")
    written = "[PATTERN] [CONFIDENCE:DEVELOPING] [OBSERVATIONS:4] [TAGS:style]\nThe owner asks for tables, not prose."
    assert entries(operations) == [(pattern["run"], written, None)]
    opened, = (op for op in operations if op["do"] == "open")
    assert opened["dated"] == "2025-04-02T00:00:00.000Z"
    assert operations[0]["name"] == (tmp_path.resolve() / "greenhouse").as_posix()
    assert "importance 5" in notes(operations)


def test_a_v3_file_comes_over_with_its_sessions(tmp_path, read):
    """The sessions that an entry names are runs: it is said in the first, again in the last, and in the run that says all."""
    operations = read(write(tmp_path, {"BIMRI.md": V3, "BIMRI-backup.md": "An older one."}))
    subjects, _, _ = fold(operations)
    poster = subjects["legacy.v3.t2-20250601-01"]
    assert fields(poster["now"], "run importance tags dated") == ("session-2", 4, ["contrast", "print"], "2025-06-01T00:00:00.000Z")
    assert [op["run"] for op in operations if op.get("key") == "legacy.v3.t2-20250601-01"] == [
        "session-2", "session-5", "R0-" + sha256(V3)[:12]]
    assert set(subjects) == {"legacy.v3.t1-0001", "legacy.v3.t2-20250601-01", "legacy.v3.t2-20250608-01", "legacy.v3.pattern-0001"}
    assert subjects["legacy.v3.pattern-0001"]["now"]["confidence"] == "established"
    assert {op["run"]: op.get("dated") for op in operations if op["do"] == "open"} == {
        "session-2": "2025-06-01T00:00:00.000Z", "session-5": "2025-06-08T00:00:00.000Z",
        "R0-" + sha256(V3)[:12]: "2025-06-09T00:00:00.000Z"}


def test_another_state_of_a_flat_file_is_another_run(tmp_path, read):
    """A run is imported once by its label, so that a file which was rewritten must not have the label of before."""
    folder = write(tmp_path, {"bimri.md": V1})
    before = {op["run"] for op in read(folder) if op["do"] == "open"}
    after = {op["run"] for op in read(write(folder, {"bimri.md": V1.replace("April", "May")})) if op["do"] == "open"}
    assert not before & after


def test_what_is_no_entry_of_a_flat_file_is_left(tmp_path, read):
    """What stands under a heading of another kind is named, and the entries come over."""
    operations = read(write(tmp_path, {"bimri.md": V1 + "\n## Diary\nDear diary.\n[IMPORTANCE:9] or so.\n"}))
    for said in ("[IMPORTANCE:9] or so", "Dear diary"):
        assert said in notes(operations)
    assert len(current(operations)) == 6


# == v2.1-ca and v4 ==

def test_a_v2_1_ca_store_comes_over(tmp_path, read):
    """Entries come with first and last run, prose and samples do not; archived and closed ones are set and closed."""
    operations = read(make_ca(tmp_path))
    subjects, _, _ = fold(operations)
    assert {key: fields(claim, "tier kind importance status text tags run") for key, claim in current(operations).items()} == {
        "legacy.r001-e01": (1, "decision", None, None, "Scores are kept as fractions.", ["arch"], "R001"),
        "legacy.r002-e01": (2, None, 4, "active", "The old score sheets are half typed in.", ["import"], "R002"),
        "legacy.pattern-p001": (3, None, None, None, "Rounding was the cause of every dispute.", None, "R002"),
    }
    assert (subjects["legacy.r001-e01"]["again"], subjects["legacy.r002-e01"]["again"]) == ("R002", "R003")
    assert texts(subjects["legacy.r001-e02"]) == ["The club's colours are green and white.", None]
    assert texts(subjects["legacy.r002-e02"]) == ["Ask the club for the missing year.", None]
    pattern = subjects["legacy.pattern-p001"]["now"]
    assert fields(pattern, "confidence falsifier evidence") == (
        "emerging", "a dispute comes up about something else.", ["R001-E01", "R002-E01"])
    assert entries(operations) == [
        ("R001", "Scores are kept as fractions.", None), ("R002", "The old score sheets are half typed in.", None)]
    assert "TTL 5r/14d" in notes(operations)
    assert ".bimri/inbox/R003-note.md" in notes(operations)
    assert next(op for op in operations if op["do"] == "open" and op["run"] == "R003")["dated"] == "2025-11-20T10:00:00.000Z"


def test_a_v4_store_comes_over(tmp_path, read):
    """Every line of its memory is a subject as it stands, and its pattern has its evidence."""
    operations = read(make_v4(tmp_path))
    one, two, three = ("2026-01-%02dT08:00:00.000Z" % day for day in (5, 6, 7))
    assert {key: fields(claim, "tier kind importance status tags run evidence dated text")
            for key, claim in current(operations).items()} == {
        "legacy.r001-e01": (1, "decision", None, None, ["arch", "units"], "R001", ["R001-E01"], one, "Weights are grams -> never ounces"),
        "legacy.r002-e01": (1, "rule", None, None, None, "R002", ["R002-E01"], two, "Read [the old note] first | then ask -> maybe"),
        "legacy.r001-e02": (2, None, 3, "watch", ["oven"], "R001", ["R001-E02"], one, "The thermometer drifts by 2 °C."),
        "legacy.r002-e02": (2, None, 4, "watch", ["flour"], "R002", ["R002-E02"], two, "Rye comes from the mill in Ås."),
        "legacy.pattern-p001": (3, None, None, None, None, "R003", ["R001-E02", "R003-E01"], three, "Loaves fail on damp days."),
        "legacy.pattern-p002": (3, None, None, None, None, "R009", ["R009-entry"], None, "The apprentice forgets salt."),
    }
    assert {(claim["source"], claim["trust"]) for claim in current(operations).values()} == {("legacy", "working")}
    pattern = current(operations)["legacy.pattern-p001"]
    assert fields(pattern, "confidence falsifier detail") == (
        "developing", "a loaf fails on a dry day.", "[obs:3] [ev:R001-E02,R003-E01]")


def test_a_v4_store_keeps_its_journals(tmp_path, read):
    """Every line with an id is an entry, wherever it stands in the log; text without one is an entry too."""
    operations = read(make_v4(tmp_path))
    assert entries(operations) == [
        ("R000-migrated", "The first oven burned wood.", 2),
        ("R001", "Grams were chosen because the mill's bills are in grams; ounces gave 3.527396 in every recipe.", 5),
        ("R001", "The oven's thermometer reads low.", 3),
        ("R001", "A thought without a number.\n### It goes on here.", None),
        ("R002", "The old note on sourdough is worth reading, see R001-E02.", 4),
        ("R002", "Rye is bought in Ås now.", 4),
        ("R003", "Three loaves failed; it had rained.", 2),
        ("R003", "The same number was given twice.", 1),
        ("R009", "[P002] [emerging] [obs:1] [ev:R009-E01] The apprentice forgets salt.", None),
    ]
    assert [op["ref"] for op in operations if op["do"] == "journal" and "ref" in op] == [
        "R000-E01", "R001-E01", "R001-E02", "R002-E01", "R002-E02", "R003-E01"]


def test_a_v4_store_keeps_how_its_runs_ended(tmp_path, read):
    """A dead run that was stamped is closed as it was stamped; one that nobody closed is left open, and said."""
    operations = read(make_v4(tmp_path))
    assert [tuple(op[name] for name in ("run", "outcome", "summary", "dated")) for op in operations if op["do"] == "close"] == [
        ("R001", "success", "Recipes are converted.", "2026-01-05T09:30:00.000Z"),
        ("R002", "overflow", "run ended without closure, stamped by R003", "2026-01-07T08:00:00.000Z")]
    assert "run R003: it was never closed" in notes(operations, "converted")


def test_a_v4_archive_holds_earlier_values_and_closed_subjects(tmp_path, read):
    """A line whose subject is still in memory is an earlier value of it; any other is set and closed."""
    subjects, _, _ = fold(read(make_v4(tmp_path)))
    assert texts(subjects["legacy.r001-e02"]) == ["The thermometer may drift.", "The thermometer drifts by 2 °C."]
    assert texts(subjects["legacy.r001-e03"]) == ["Clean the flue.", None]
    assert texts(subjects["legacy.pattern-p003"]) == ["Bills are wrong in spring.", None]
    assert texts(subjects["legacy.r000-e02"]) == ["The club's colours are green and white.", None]
    assert texts(subjects["legacy.r003-e02"]) == ["Sweep the floor.", None]
    closed = subjects["legacy.r001-e03"]["now"]
    assert fields(closed, "run why dated") == ("R003", "status:closed", "2026-01-07T00:00:00.000Z")
    assert fields(subjects["legacy.r001-e03"]["past"][0], "status run") == ("active", "R001")


def test_what_is_no_line_of_a_v4_store_is_left(tmp_path, read):
    """Lines that the old engine passed over are named, in the memory and in the archive."""
    said = notes(read(make_v4(tmp_path)))
    for what in ("A line of nobody.", "bimri.md, line 16: - half a line", "bimri.md, line 17: A word in passing."):
        assert what in said


def test_v4_kept_by_hand_is_read_without_a_state(tmp_path, read):
    """The header, or a line in its form, is enough."""
    for text in (V4, V4.replace("BIMRI v4", "notes")):
        write(tmp_path, {"bimri.md": text, **{".bimri/log/%s.md" % run: log for run, log in V4_LOGS.items()}})
        assert len(current(read(tmp_path))) == 6


# == v5 ==

def test_a_v5_store_comes_over(tmp_path, read):
    """The head revision's lines are current, with tier, fields, trust, source and the run that said them."""
    make_v5(tmp_path)
    found = current(read(tmp_path))
    assert {key: fields(claim, "tier kind importance status trust source tags run text") for key, claim in found.items()} == {
        "pier.depth": (1, "fact", None, None, "confirmed", "user", ["pier", "survey"], "R000001", "The pier is 4.20 m deep."),
        "boats.next": (2, None, 3, "active", "working", "agent", None, "R000001", "Paint the ferry green."),
        "ropes.old": (2, None, 3, "active", "confirmed", "agent", None, "R000002", "Ropes are nylon."),
        "crew.habit": (3, None, None, None, "working", "agent", None, "R000001", "Storms follow a red dawn."),
    }
    pattern = found["crew.habit"]
    assert fields(pattern, "confidence falsifier evidence") == ("emerging", "a calm day after one", ["R000001-E001", "R000001-E004"])
    assert found["boats.next"]["evidence"] == ["R000001-E004"]


@pytest.mark.parametrize("make", [make_v5, make_v51])
def test_a_v5_store_keeps_all_entries_and_values_in_order(tmp_path, read, make):
    """Each run's entries stand in their order, the rationale of each proposal among them; each key's values in theirs."""
    store = make(tmp_path)
    operations = read(tmp_path)
    told = entries(operations)
    assert sorted(told) == sorted(store.entries)
    for run in store.runs:
        assert [entry for entry in told if entry[0] == run] == [entry for entry in store.entries if entry[0] == run]
    subjects, _, _ = fold(operations)
    for key, past in store.past.items():
        expected = [text or None for _, text in past]
        assert texts(subjects[key]) == expected, key
    assert {key for key, subject in subjects.items() if subject["now"]} == set(store.past)


def test_what_no_decision_accepted_is_not_told_as_memory(tmp_path, read):
    """A leftover revision, a backup and the view are not read for memory, and only what was read is among the files."""
    make_v5(tmp_path)
    operations = read(tmp_path)
    assert "Burn the ferry" not in json.dumps(operations)
    assert "V000099.md: no accepted decision names them" in notes(operations)
    files = {file["path"]: file["sha256"] for file in operations[0]["files"]}
    assert not [path for path in files if "V000099" in path or "backups" in path or "lock" in path or "inbox" in path]
    assert all(sha256((tmp_path / path).read_bytes()) == digest for path, digest in files.items())
    for kind in ("log", "proposals", "decisions", "conflicts", "resolutions", "archive"):
        present = {str(path) for path in (tmp_path / ".bimri" / kind).iterdir()}
        assert present <= set(files)
    assert {str(tmp_path / "bimri.md"), str(tmp_path / ".bimri/state.json")} <= set(files)


def test_a_question_about_an_edited_view_is_left(tmp_path, read):
    """It has no subject and no value; the question and the kept bytes are named."""
    store = Store5(tmp_path)
    kept = ".bimri/recovery/manual-hot-%s.md" % ("0" * 64)
    store.record("conflicts", "C000001", {
        "conflict_id": "C000001", "type": "manual-edit", "key": "manual.bimri", "created_at": store.now,
        "question": "What of this edit holds?", "current_line": None, "current_hash": "absent", "proposal_ids": [], "proposal_hashes": {},
        "extra": {"recovery_file": kept, "recovery_files": [kept]}})
    operations = read(tmp_path)
    assert "What of this edit holds?" in notes(operations)
    assert kept in notes(operations)


def test_an_open_question_is_two_values_beside_each_other(tmp_path, read):
    """The current value stays, and the proposal that is in question stands beside it."""
    make_v5(tmp_path)
    operations = read(tmp_path)
    subjects, staged, _ = fold(operations)
    assert [claim["text"] for claim in subjects["boats.next"]["beside"]] == ["Sell the ferry."]
    assert [claim["text"] for claim in staged] == ["Trim the wick.", "Order glass."]
    assert "Which of these is it for boats.next?" in notes(operations, "converted")


def test_a_question_that_is_none_between_equals_is_staged(tmp_path, read):
    """Beside the owner's word, or where nothing stands, a value that waits for an answer must not become current."""
    store = Store5(tmp_path)
    run = store.start()
    store.set(run, "wall.colour", "The wall is white.", tier=1, trust="confirmed", source="user")
    for key in ("wall.colour", "door.colour"):
        store.contest(store.propose(run, key, "It is red.", tier=1), kind="confirmed-change")
    subjects, staged, _ = fold(read(tmp_path))
    assert [(claim["key"], claim["text"]) for claim in staged] == [("wall.colour", "It is red."), ("door.colour", "It is red.")]
    assert subjects["wall.colour"]["now"]["trust"] == "confirmed"
    assert subjects["door.colour"]["now"] is None


def test_an_owners_word_in_question_is_a_working_value_until_it_is_answered(tmp_path, read):
    """Else it would win over the current value without an answer."""
    store = Store5(tmp_path)
    one, two = store.start(), store.start()
    store.set(one, "wall.colour", "The wall is white.")
    store.contest(store.propose(two, "wall.colour", "The wall is green.", trust="confirmed", source="user"))
    subjects, _, _ = fold(read(tmp_path))
    beside, = subjects["wall.colour"]["beside"]
    assert fields(beside, "text trust source base") == ("The wall is green.", "working", "user", [])
    assert subjects["wall.colour"]["now"]["text"] == "The wall is white."


def test_a_question_is_past_once_its_value_was_accepted(tmp_path, read):
    """What was in question and later accepted does not come back when memory has moved on since."""
    store = Store5(tmp_path)
    one, two = store.start(), store.start()
    store.set(one, "wall.colour", "The wall is white.")
    store.contest(store.propose(two, "wall.colour", "The wall is green."))
    store.set(one, "wall.colour", "The wall is green.")
    store.set(one, "wall.colour", "The wall is blue.")
    subjects, staged, withdrawn = fold(read(tmp_path))
    assert (subjects["wall.colour"]["beside"], staged, len(withdrawn)) == ([], [], 1)


@pytest.mark.parametrize("finish", [True, False])
def test_the_owners_choice_is_confirmed_and_the_rest_withdrawn(tmp_path, read, finish):
    """The chosen value is confirmed and keeps its source, whether or not the decisions were brought in line."""
    store = Store5(tmp_path)
    one, two = store.start(), store.start()
    store.set(one, "wall.colour", "The wall is white.")
    red, green = (store.propose(two, "wall.colour", text, source="external") for text in ("Red.", "Green."))
    store.resolve(store.contest(red, green), red, finish)
    habit = store.propose(two, "wall.habit", "It peels in May.", tier=3, evidence=["R000001-E001"], falsifier="none does")
    store.resolve(store.contest(habit), habit, finish)
    store.resolve(store.contest(store.propose(one, "wall.colour", "Grey.")), "current", finish)
    subjects, staged, withdrawn = fold(read(tmp_path))
    assert fields(subjects["wall.colour"]["now"], "text trust source run") == ("Red.", "confirmed", "external", "R000002")
    assert fields(subjects["wall.habit"]["now"], "text trust source") == ("It peels in May.", "confirmed", "agent")
    assert subjects["wall.colour"]["beside"] == staged == []
    assert [claim["text"] for claim in withdrawn] == ["Green.", "Grey."]


def test_undecided_proposals_stay_staged_when_their_run_syncs_again(tmp_path, read):
    """A sync decides what its run has staged, so that what was never decided comes after the last one."""
    store = Store5(tmp_path)
    run = store.start()
    store.propose(run, "a.pending", "Nobody decided this.")
    store.decide(store.propose(run, "a.held", "Held."), "held", reason="classification-required", revision=0)
    store.set(run, "a.accepted", "Accepted.")
    store.close(run)
    subjects, staged, _ = fold(read(tmp_path))
    assert {claim["key"] for claim in staged} == {"a.pending", "a.held"}
    assert subjects["a.accepted"]["now"]


def test_first_and_last_run_of_a_subject_come_over(tmp_path, read):
    """A touch is told in its run, and one that only the line shows is told too."""
    store = Store5(tmp_path)
    one, two = store.start(), store.start()
    store.set(one, "wall.colour", "White.")
    store.set(one, "door.colour", "Brown.")
    store.look(two)
    store.accept(store.propose(two, "wall.colour", op="touch"))
    store.hot["door.colour"] = store.hot["door.colour"].replace("[L:R000001]", "[L:R000002]")
    store.commit()
    subjects, _, _ = fold(read(tmp_path))
    for key in ("wall.colour", "door.colour"):
        assert (subjects[key]["now"]["run"], subjects[key]["touched"]) == ("R000001", "R000002")


def test_cold_subjects_of_v5_1_are_current(tmp_path, read):
    """What the view does not carry is as current as what it carries; a closed one is closed, cold or not."""
    store = make_v51(tmp_path)
    operations = read(tmp_path)
    assert set(current(operations)) == {*store.hot, *store.cold}
    assert current(operations)["nets.mesh"]["text"] == "The mesh is 45 mm."
    _, staged, _ = fold(operations)
    assert "The pier is 5 m deep." in {claim["text"] for claim in staged}
    assert "confirmed-user-authority-required" in notes(operations, "converted")


def test_a_v5_store_that_was_v4_comes_over_whole(tmp_path, read):
    """Its first revision has the lines of v4 with keys; logs and archive are v4's; all is told once, v4's runs first."""
    make_v4(tmp_path)
    (tmp_path / "bimri.md").unlink()
    store = Store5(tmp_path, first=4)
    store.tier = {"legacy.r001-e01": 1, "legacy.r001-e02": 2}
    store.hot = {
        "legacy.r001-e01": "[R001-E01] [K:legacy.r001-e01] [decision] [T:working] [SRC:legacy] [arch] Weights are grams -> never ounces"
                           " -> .bimri/log/R001.md",
        "legacy.r001-e02": "[R001-E02] [K:legacy.r001-e02] [I:3] [watch] [T:working] [SRC:legacy] [F:R001] [L:R003] [] The thermometer"
                           " drifts by 2 °C."}
    store.commit()
    run = store.start()
    store.set(run, "legacy.r001-e02", "The thermometer is new.")
    operations = read(tmp_path)
    subjects, _, _ = fold(operations)
    assert texts(subjects["legacy.r001-e02"]) == [
        "The thermometer may drift.", "The thermometer drifts by 2 °C.", "The thermometer is new."]
    assert texts(subjects["legacy.r001-e01"]) == ["Weights are grams -> never ounces"]
    assert subjects["legacy.r001-e02"]["again"] == "R003"
    assert texts(subjects["legacy.r001-e03"]) == ["Clean the flue.", None]
    assert ("R001", "The oven's thermometer reads low.", 3) in entries(operations)
    assert [op["run"] for op in without_now(operations) if op["do"] == "open"] == ["R000-migrated", "R000", "R001", "R002", "R003", run]


def test_lines_that_no_proposal_explains_are_told_all_the_same(tmp_path, read):
    """The head is the truth: what is there comes over, what is not is closed, and it is said."""
    store = Store5(tmp_path)
    run = store.start()
    name = store.set(run, "wall.colour", "White.")
    store.set(run, "door.colour", "Brown.")
    for kind in ("proposals", "decisions"):
        stub = {"record_type": "authority-quarantine", "record_kind": kind[:-1], "record_id": name, "recovery_file": "x"}
        write(tmp_path, {".bimri/%s/%s.json" % (kind, name): stub})
    del store.hot["door.colour"]
    store.head += 1
    store.commit()
    operations = read(tmp_path)
    subjects, _, _ = fold(operations)
    assert texts(subjects["wall.colour"]) == ["White."]
    assert texts(subjects["door.colour"]) == ["Brown.", None]
    assert "quarantined" in notes(operations)
    assert "door.colour: no longer in memory" in notes(operations, "converted")


def test_values_of_proposals_that_are_gone_come_from_their_revisions(tmp_path, read):
    """An accepted decision whose proposal is gone still tells what it made, in its place; a revision that is gone is made up for."""
    store = Store5(tmp_path)
    run = store.start()
    names = [store.set(run, "wall.colour", text) for text in ("White.", "Grey.", "Blue.", "Green.")]
    (tmp_path / ".bimri/proposals" / (names[1] + ".json")).unlink()
    (tmp_path / ".bimri/revisions/V000003.md").unlink()
    operations = read(tmp_path)
    assert texts(fold(operations)[0]["wall.colour"]) == ["White.", "Grey.", "Blue.", "Green."]
    for said in ("V000003.md: it is not there", names[1] + ".json: the proposal is not there", "[PROPOSE:%s]" % names[1]):
        assert said in notes(operations)


def test_what_was_contested_by_a_line_is_working(tmp_path, read):
    """Trust `contested` has no like here: the value is working, and that is said."""
    store = Store5(tmp_path)
    store.set(store.start(), "wall.colour", "White.", trust="contested", tier=1)
    operations = read(tmp_path)
    assert current(operations)["wall.colour"]["trust"] == "working"
    assert len([op for op in without_now(operations) if op["do"] == "propose"]) == 1
    assert "trust contested" in notes(operations, "converted")


def test_a_closed_line_is_set_and_closed(tmp_path, read):
    """A line that says of itself that it is closed does not become current work."""
    store = Store5(tmp_path)
    run = store.start()
    store.set(run, "wall.colour", "White.", status="closed")
    store.set(run, "door.colour", "Brown.")
    subjects, _, _ = fold(read(tmp_path))
    assert texts(subjects["wall.colour"]) == ["White.", None]


def test_a_noop_counts_as_said_again_only_if_it_says_what_stands(tmp_path, read):
    """One that was decided for another reason is withdrawn, and leaves everything as it is."""
    store = Store5(tmp_path)
    run = store.start()
    store.set(run, "wall.colour", "White.")
    for fields in ({"text": "White."}, {"text": "Grey."}, {"text": "White.", "trust": "confirmed", "source": "user"}, {"op": "touch"}):
        store.decide(store.propose(run, "wall.colour", **fields), "noop", reason="proposal produced no memory change", revision=1)
    subjects, staged, withdrawn = fold(read(tmp_path))
    assert fields_of(subjects["wall.colour"]["now"]) == ("White.", "working")
    assert [fields_of(claim) for claim in withdrawn] == [("Grey.", "working"), ("White.", "confirmed")]
    assert (staged, subjects["wall.colour"]["again"], subjects["wall.colour"]["touched"]) == ([], run, run)


def fields_of(claim):
    """Return text and trust of a claim."""
    return fields(claim, "text trust")


def test_a_view_that_was_edited_by_hand_is_left(tmp_path, read):
    """The accepted revision is read, the edit is named, and its bytes are among the files."""
    make_v5(tmp_path)
    write(tmp_path, {"bimri.md": "Anything at all."})
    operations = read(tmp_path)
    assert "bimri.md: it is not the accepted revision" in notes(operations)
    assert str(tmp_path / "bimri.md") in {file["path"] for file in operations[0]["files"]}
    assert len(current(operations)) == 4
    (tmp_path / "bimri.md").unlink()
    assert "bimri.md: it is not the accepted revision" in notes(read(tmp_path))


# == Limits, names, order, damage ==

def test_what_does_not_fit_is_changed_and_said(tmp_path, read):
    """Long texts go whole into detail or on, refused characters are escapes, tags, keys and actors take the engine's form."""
    store = Store5(tmp_path)
    run = store.start("code__x-.")
    long = "word " * 1500 + "end"
    note = store.journal(run, "left\u202eright\u2028" + long * 2)
    store.set(run, "con.long", "Tabs\there, " + "and on " * 80, tags=["v1.2", "a_", "_", *("t%02d" % n for n in range(12))],
              rationale="because " * 100)
    store.set(run, "wall.habit", "x" * 600, tier=3, evidence=[note, "R000099-E001"], falsifier="y" * 501)
    store.close(run, summary="z" * 2500)
    operations = read(tmp_path)
    found = current(operations)
    claim = found["legacy.con.long"]
    assert claim["detail"].startswith("Tabs\\u0009here, and on")
    assert claim["detail"].startswith(claim["text"])
    assert claim["detail"].endswith("and on")
    assert (len(claim["tags"]), claim["tags"][0]) == (12, "a")
    assert "v1-2" in claim["tags"]
    assert len(claim["why"]) <= 500
    pattern = found["wall.habit"]
    assert pattern["detail"] == "%s\n\n%s\n\n[obs:1] [ev:%s,R000099-E001]" % ("x" * 600, "y" * 501, note)
    assert pattern["evidence"] == [note]
    told = [text for _, text, _ in entries(operations)]
    assert " ".join(told[:2]) == "left\\u202Eright\\u2028" + long * 2
    assert "z" * 2500 in told
    assert "because " * 99 + "because" in told
    assert [op["actor"] for op in without_now(operations) if op["do"] == "open"] == ["code_x"]
    said = notes(operations, "converted")
    for what in ("key con.long", "tag v1.2", "actor code__x-.", "the close of R000001", "an entry of R000001", note):
        assert what in said
    assert "tag t11" in notes(operations)


@pytest.mark.parametrize(("one", "two"), [("x" * 85 + ".one", "x" * 85 + ".two"), ("con.a", "legacy.con.a")])
def test_two_keys_that_would_be_one_are_refused_by_name(tmp_path, bimri, one, two):
    """Neither value is lost behind the other."""
    store = Store5(tmp_path)
    run = store.start()
    store.set(run, one, "First.")
    assert len(current(bimri.read(str(tmp_path)))) == 1
    store.set(run, two, "Second.")
    with pytest.raises(bimri.CannotRead) as caught:
        bimri.read(str(tmp_path))
    assert {one, two} <= set(re.findall(r"[a-z.]+", str(caught.value)))


def test_a_key_that_is_written_otherwise_stays_one_subject(tmp_path, read):
    """It is changed, renewed, closed and lost as any other."""
    store = Store5(tmp_path)
    run = store.start()
    for key in ("con.a", "con.b", "con.c"):
        store.set(run, key, "It is.")
    later = store.start()
    store.set(later, "con.a", "It was.", status="closed")
    store.accept(store.propose(later, "con.b", op="touch"))
    del store.hot["con.c"]
    store.head += 1
    store.commit()
    subjects, _, _ = fold(read(tmp_path))
    assert {key: subject["now"]["op"] for key, subject in subjects.items()} == {
        "legacy.con.a": "close", "legacy.con.b": "set", "legacy.con.c": "close"}


MAKERS = {
    "v1": lambda folder: write(folder, {"bimri.md": V1}), "v2.0-cc": lambda folder: write(folder, {"bimri.md": V2}),
    "v3": lambda folder: write(folder, {"BIMRI.md": V3}), "2.1-ca": make_ca, "4.0": make_v4,
    "5.0.2": make_v5, "5.1.0": make_v51,
}


@pytest.mark.parametrize("version", MAKERS)
def test_nothing_is_invented(tmp_path, read, version):
    """Every text of the output occurs in the source, whole or as parts of it, or is one of the few fixed phrases."""
    folder = tmp_path / "somewhere"
    MAKERS[version](folder)
    text = source_text(folder)
    for op in read(folder)[1:]:
        if op["do"] in ("left", "converted"):
            continue
        for name in {"text", "summary", "why", "detail", "falsifier", "actor", "ref"} & {*op}:
            for line in op[name].splitlines():
                assert line in text or line in PHRASES, op


@pytest.mark.parametrize("version", MAKERS)
def test_a_store_is_told_the_same_wherever_it_lies(tmp_path, read, version):
    """A copy in another place gives the same, but for its name, which is its real path, and the paths of the files."""
    MAKERS[version](tmp_path / "a" / "shop")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    here, there = read(tmp_path / "a" / "shop"), read(tmp_path / "b" / "shop")
    assert here[1:] == there[1:]
    assert (here[0]["name"], there[0]["name"]) == tuple((tmp_path.resolve() / place / "shop").as_posix() for place in "ab")


def test_two_stores_of_one_project_id_are_two(tmp_path, read):
    """What the project calls itself is no name: the path tells stores apart, and of one that is too long its hash."""
    places = [tmp_path / "one", tmp_path / "two", tmp_path / "/".join("long" * 40 for _ in range(4)) / "three"]
    for place in places:
        make_ca(place)
    names = [read(place)[0]["name"] for place in places]
    assert len(set(names)) == 3
    assert names[2][:483] == places[2].resolve().as_posix()[:483]
    (tmp_path / "link").symlink_to(tmp_path / "one")
    assert read(tmp_path / "link")[0]["name"] == names[0]


@pytest.mark.parametrize("version", MAKERS)
def test_a_store_is_recognised_without_being_read_whole(tmp_path, bimri, version):
    """`detect` names the version; a folder without a store is none, and one that cannot be read is said."""
    assert bimri.detect(str(tmp_path)) is None
    assert bimri.detect(str(tmp_path / "absent")) is None
    MAKERS[version](tmp_path)
    assert version.lstrip("v") in bimri.detect(str(tmp_path))
    write(tmp_path, {".bimri/state.json": "{"})
    assert "cannot be read" in bimri.detect(str(tmp_path))


def test_a_grown_store_tells_its_earlier_runs_the_same(tmp_path, read):
    """What was told before is told again with the same labels and ids, so that only new runs are new."""
    store = make_v5(tmp_path)
    before = read(tmp_path)
    run = store.start("later")
    store.set(run, "pier.lamp", "The lamp is lit at dusk.")
    store.close(run)
    after = read(tmp_path)
    for old in store.runs:
        assert [op for op in after if op.get("run") == old] == [op for op in before if op.get("run") == old] or old == run
    assert after[0]["name"] == before[0]["name"]
    assert [op["do"] for op in after if op.get("run") == run] == ["open", "journal", "propose", "sync", "close"]


def state_with(**changes):
    """Return a function that changes state.json."""
    def change(folder):
        path = folder / ".bimri/state.json"
        write(folder, {".bimri/state.json": dict(json.loads(path.read_text(encoding="utf-8")), **changes)})
    return change


def head_of(folder):
    """Return the file of a store's head revision."""
    state = json.loads((folder / ".bimri/state.json").read_text(encoding="utf-8"))
    return folder / (".bimri/revisions/V%06d.md" % state["head_revision"])


def text_with(path, old, new):
    """Return a function that changes a file's text."""
    def change(folder):
        text = (folder / path).read_text(encoding="utf-8")
        assert old in text
        write(folder, {path: text.replace(old, new)})
    return change


def flat(text):
    """Return a function that makes a store of one file."""
    return lambda folder: write(folder, {"bimri.md": text})


def cut_at(path, mark):
    """Cut a file off some characters after a mark, or where it begins if it is a heading or a comment."""
    text = path.read_text(encoding="utf-8")
    write(path.parent, {path.name: text[:text.index(mark) + (0 if mark[0] in "#<T" else 9)]})


DAMAGE = {
    "the head is not what the state says": (make_v5, lambda folder: text_with(head_of(folder), "ferry", "Ferry")(folder)),
    "the head is missing": (make_v5, lambda folder: head_of(folder).unlink()),
    "the state is no JSON": (make_v5, text_with(".bimri/state.json", "{", "")),
    "the state is no object": (make_v5, lambda folder: write(folder, {".bimri/state.json": "[]"})),
    "the state is missing": (make_v5, lambda folder: (folder / ".bimri/state.json").unlink()),
    "the state names no head": (make_v5, state_with(head_revision=None)),
    "an unknown version": (make_v5, state_with(bimri_version="6.0")),
    "no version": (make_v5, state_with(bimri_version=None)),
    "a flat version with a state": (make_v5, state_with(bimri_version="3.0")),
    "an older revision has a line of no form": (make_v5, text_with(".bimri/revisions/V000002.md", "[I:4]", "[I:44]")),
    "an older revision names a key twice": (make_v5, text_with(".bimri/revisions/V000002.md", "\n[R000001-E003]", "\n%s\n[R000001-E003]" % (
        "[R000009-E001] [K:boats.next] [I:3] [active] [T:working] [SRC:agent] [F:R000001] [L:R000001] [] Twice."))),
    "a proposal is not what was in question": (make_v5, text_with(".bimri/proposals/R000002-Q001.json", "Sell", "Lend")),
    "a proposal lacks a field": (make_v5, text_with(".bimri/proposals/R000001-Q001.json", '"entry_id"', '"entry"')),
    "a key of no form": (make_v5, text_with(".bimri/proposals/R000001-Q001.json", "pier.depth", "Pier Depth")),
    "a decision beyond the head": (make_v5, text_with(".bimri/decisions/R000001-Q001.json", '"revision": 1', '"revision": 77')),
    "a cold line is not what its hash says": (make_v51, text_with(".bimri/state.json", "45 mm", "46 mm")),
    "a log that is no UTF-8": (make_v4, lambda folder: write(folder, {".bimri/log/R002.md": b"# Run R002\n\xff\n"})),
    "a proposal with a broken list": (make_v5, text_with(".bimri/proposals/R000001-Q001.json", '"evidence": []', '"evidence": "x"')),
    "a link out of the project": (make_v4, lambda folder: ((folder / ".bimri/log/R001.md").unlink(),
                                                           (folder / ".bimri/log/R001.md").symlink_to(READER))),
    "two memory files that differ": (flat(V1), lambda folder: write(folder, {"BIMRI.md": V3})),
    "two headers": (flat(V1), text_with("bimri.md", "# BIMRI", "<!-- BIMRI v3.0 -->\n# BIMRI")),
    "v4 is cut off": (make_v4, lambda folder: cut_at(folder / "bimri.md", "Loaves fail")),
    "v4 is cut off before a section": (make_v4, lambda folder: cut_at(folder / "bimri.md", "## Tier 3")),
    "v4 is empty": (make_v4, lambda folder: write(folder, {"bimri.md": ""})),
    "v4 without its last line": (make_v4, text_with("bimri.md", "<!-- END BIMRI -->\n", "")),
    "v4 with half its last line": (make_v4, text_with("bimri.md", "END BIMRI -->\n", "END BIM")),
    "v4 with two ends": (make_v4, text_with("bimri.md", "<!-- END BIMRI -->", "<!-- END BIMRI -->\n<!-- END BIMRI -->")),
    "v4 twice": (make_v4, text_with("bimri.md", V4, V4 + V4)),
    "v4 without a section": (make_v4, text_with("bimri.md", "## Tier 2: Active Context\n", "")),
    "v4 with two sections changed": (make_v4, lambda folder: (text_with("bimri.md", "Tier 2", "Tier 9")(folder), text_with(
        "bimri.md", "Tier 3", "Tier 2")(folder), text_with("bimri.md", "Tier 9", "Tier 3")(folder))),
    "v4 with a section twice": (make_v4, text_with("bimri.md", "## Tier 3", "## Tier 2: Active Context\n\n## Tier 3")),
    "a line of v4 with a damaged field": (make_v4, text_with("bimri.md", "[I:3] [watch]", "[I:x] [watch]")),
    "a line of v4 with a damaged id": (make_v4, text_with("bimri.md", "[R001-E02] [I", "[R0x1-E02] [I")),
    "a line of v4 without its start": (make_v4, text_with("bimri.md", "[R001-E02] [I:3] [w", "[w")),
    "a line of v4 without its text": (make_v4, text_with("bimri.md", "oven] The thermometer drifts by 2 °C. -> log/R001.md", "oven")),
    "a line of v4 in the wrong section": (make_v4, text_with("bimri.md", "[R001-E02] [I", "[R001-E09] [fact] [] It is.\n[R001-E02] [I")),
    "a line of v4 under another heading": (make_v4, text_with("bimri.md", "[R003-E02] [I:1]", "## Notes\n[R003-E02] [I:1]")),
    **{"a line of v4 with %r before it" % before: (make_v4, text_with("bimri.md", "[R001-E01] [d", before + "[R001-E01] [d"))
       for before in ("- ", "> ", "\0", "\u200b", "see ", "12. ")},
    **{"a line of v4 without its first %d characters" % count: (make_v4, text_with(
        "bimri.md", "[R001-E01] [decision] [a", "[R001-E01] [decision] [a"[count:])) for count in range(1, 21)},
    "a pattern of v4 with a dash before it": (make_v4, text_with("bimri.md", "[P002]", "- [P002]")),
    "half a line of v4 with a dash before it": (make_v4, text_with("bimri.md", "- half", "- [R003-E09] half")),
    "half a line of v4 in a fence that does not end": (make_v4, text_with("bimri.md", "- half", "```\n- [R003-E09] half")),
    "half a line of v4 between fences of two tiers": (make_v4, lambda folder: (text_with(
        "bimri.md", "- half", "```\n- [R003-E09] half")(folder), text_with("bimri.md", "[P001]", "```\n[P001]")(folder))),
    "a comment of v4 that ends in a later text": (make_v4, lambda folder: (text_with("bimri.md", "[tags] text -->", "[tags] text")(
        folder), text_with("bimri.md", "then ask -> maybe", "then ask --> maybe")(folder))),
    "an entry of v4 in a comment": (make_v4, text_with("bimri.md", "[R003-E02] [I:1]", "<!-- [R003-E02] [I:1]")),
    "an entry of v4 after a comment": (make_v4, text_with("bimri.md", "[R003-E02] [I:1]", "<!-- x --> [R003-E02] [I:1]")),
    "the rest of an entry of v4 after a comment": (make_v4, text_with("bimri.md", "[R003-E02] [I:1]", "<!-- x --> 2] [I:1]")),
    "an entry of v4 behind a hash": (make_v4, text_with("bimri.md", "[R003-E02] [I:1]", "# [R003-E02] [I:1]")),
    "an entry of v4 joined to its heading": (make_v4, text_with("bimri.md", "Active Context\n\n[R", "Active Context[R")),
    "two entries of v4 in one line": (make_v4, text_with("bimri.md", "-> .bimri/log/R001.md\n[R002-E01]", "[R002-E01]")),
    "two entries of v4 in one line, with a part lost": (make_v4, text_with("bimri.md", "-> .bimri/log/R001.md\n[R002-E01]", "-E01]")),
    "two entries of v4 in one line, cut in the first one's fields": (make_v4, text_with(
        "bimri.md", "arch,Units] Weights are grams -> never ounces -> .bimri/log/R001.md\n[R002", "arch[R002")),
    "two patterns of v4 in one line": (make_v4, text_with("bimri.md", "dry day.\n[P002]", "dry day. [P002]")),
    "a comment of v4 that does not end": (make_v4, text_with("bimri.md", "[tags] text -->", "[tags] text")),
    "another file in the place of v4's": (make_v4, lambda folder: write(folder, {"bimri.md": "# Readme\n\nIt is a project.\n"})),
    "another version's file in the place of v4's": (make_v4, lambda folder: write(folder, {"bimri.md": CA})),
    "v2.1-ca is cut off": (make_ca, lambda folder: cut_at(folder / "bimri.md", "<!-- END")),
    "a line of v2.1-ca with a damaged field": (make_ca, text_with("bimri.md", "[STATUS:closed]", "[STATUS:clos]")),
    "a line of v2.1-ca without its text": (make_ca, text_with("bimri.md", "Ask the club for the missing year.\n", "")),
    "a line of v2.1-ca in the wrong section": (make_ca, text_with("bimri.md", "[PATTERN:P001]", "[ID:R009-E01] [I:4] [STATUS:active] "
                                               "[FIRST:R002] [LAST:R003] [TAGS:]\nA task.\n[PATTERN:P001]")),
    "a fence of v2.1-ca that does not end": (make_ca, text_with("bimri.md", "context.\n```\n", "context.\n")),
    "v2.0-cc is cut off": (flat(V2), lambda folder: cut_at(folder / "bimri.md", "<!-- END")),
    "v1 is cut off": (flat(V1), lambda folder: cut_at(folder / "bimri.md", "## Tier 3")),
    "v1 is cut off in an entry": (flat(V1), lambda folder: cut_at(folder / "bimri.md", "The owner asks")),
    "v1 with a section twice": (flat(V1), text_with("bimri.md", V1[V1.index("## Tier 3"):], V1[V1.index("## Tier 3"):] * 2)),
    "a line of v1 with a damaged field": (flat(V1), text_with("bimri.md", "IMPORTANCE:3", "IMPORTANCE:9")),
    "a pattern of v1 with a damaged field": (flat(V1), text_with("bimri.md", "DEVELOPING", "MAYBE")),
    "a line of v3 without its text": (flat(V3), text_with("bimri.md", "The summer column may go.\n", "")),
    "an older revision is cut off": (make_v5, lambda folder: cut_at(folder / ".bimri/revisions/V000003.md", "<!-- END")),
    "an older revision has a line in the wrong tier": (make_v5, text_with(
        ".bimri/revisions/V000003.md", "\n\n## Tier 2: Active Context", "")),
    "no headings": (flat(V1), text_with("bimri.md", "## Tier", "## Level")),
    "no memory file": (make_ca, lambda folder: (folder / "bimri.md").unlink()),
    "no store": (make_ca, lambda folder: shutil.rmtree(folder / ".bimri") or write(folder, {"bimri.md": "Nothing.\n"})),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_damaged_or_ambiguous_is_not_read(tmp_path, bimri, case):
    """The reader says so before it says anything else."""
    make, harm = DAMAGE[case]
    make(tmp_path)
    if case == "two memory files that differ" and (tmp_path / "BIMRI.md").exists():
        pytest.skip("this disk does not tell the names apart")
    bimri.read(str(tmp_path))
    harm(tmp_path)
    with pytest.raises(bimri.CannotRead) as caught:
        bimri.read(str(tmp_path))
    assert re.search(r"\.md|\.json|no BIMRI store|BIMRI .* is no version", str(caught.value))


@pytest.mark.parametrize("text", ["As R001-E02 has it.", "See [R001-E02].", "It replaces [R001-E02] [see the log].", "[R001-E02] had it.",
                                  "Kinds are [fact] [rule] [pref].", "It ends --> here.", "Read [R001-E02](log/R001.md) [fact]."])
def test_a_text_of_v4_may_name_an_entry(tmp_path, read, text):
    """Only another entry's own brackets are damage."""
    make_v4(tmp_path)
    text_with("bimri.md", "Sweep the floor.", text)(tmp_path)
    text_with("bimri.md", "[R003-E02] [I:1] [closed]", "[R003-E02] [I:1] [active]")(tmp_path)
    assert current(read(tmp_path))["legacy.r003-e02"]["text"] == text


def test_what_follows_a_comment_of_v4_is_left(tmp_path, read):
    """It is no part of the comment."""
    make_v4(tmp_path)
    text_with("bimri.md", "- half a line", "<!-- a comment,\nsee R001-E02 --> and prose")(tmp_path)
    assert "bimri.md, line 17: and prose" in notes(read(tmp_path))


@pytest.mark.parametrize("prose", ["A word in passing.", "[a link](https://example.org)", "- [ ] something to do", "[1] as they say",
                                   "> R001-E02 was discussed", "### A heading of the third level", "[like so][1]",
                                   "Note: see [a] [b], and [ev:none]", "see [R001-E02](.bimri/log/R001.md)", "Fix [P1] first",
                                   "```\n- [R001-E09] [fact] as it is written\n[R001-E09] [fact] [tags] text\n```"])
def test_prose_of_a_v4_memory_is_no_damage(tmp_path, read, prose):
    """The format allows it anywhere; it is left, and said."""
    make_v4(tmp_path)
    text_with("bimri.md", "[R002-E02] [I:4]", prose + "\n[R002-E02] [I:4]")(tmp_path)
    operations = read(tmp_path)
    assert len(current(operations)) == 6
    for number, line in enumerate(prose.split("\n"), 14):
        assert "bimri.md, line %d: %s" % (number, line) in notes(operations)


def test_the_command_writes_all_or_nothing(tmp_path, bimri):
    """Exit 0 with the operations; 3 with the reason and nothing on standard output."""
    make_v4(tmp_path)
    done = subprocess.run([sys.executable, str(READER), str(tmp_path)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()] == bimri.read(str(tmp_path))
    write(tmp_path, {".bimri/state.json": "{"})
    done = subprocess.run([sys.executable, str(READER), str(tmp_path)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b".bimri/state.json" in done.stderr


def test_reading_changes_nothing(tmp_path, read):
    """Every file of the store is as it was."""
    make_v51(tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}
    read(tmp_path)
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()} == before


# == Stores by chance ==

@pytest.mark.parametrize("seed", SEEDS)
def test_any_v5_store_comes_over(tmp_path, read, seed):
    """Whatever runs did side by side: current values, all values in order, open questions, staged ones and entries are there."""
    store, staged, asked = some_v5(tmp_path, random.Random(seed))
    compare(store, read(tmp_path), staged, asked)


def compare(store, operations, staged, asked):
    """Assert that what was told is what the store holds."""
    subjects, still, _ = fold(operations)
    assert sorted(entries(operations)) == sorted(store.entries)
    for key, past in store.past.items():
        assert texts(subjects[key]) == [text or None for _, text in past], key
    lines = {**store.hot, **store.cold}
    assert set(lines) == {key for key, subject in subjects.items() if subject["now"] and subject["now"]["op"] == "set"}
    for key, line in lines.items():
        now = subjects[key]["now"]
        assert " %s" % now["text"] in line
        assert now["tier"] == store.tier[key]
        assert now["tier"] == 3 or "[T:%s] [SRC:%s]" % (now["trust"], now["source"]) in line
    expected = set(staged)
    for key, names in asked.items():
        if key not in lines or subjects[key]["now"]["trust"] == "confirmed":
            expected |= set(names)
        else:
            assert {claim["id"] for claim in subjects[key]["beside"]} == set(names)
    assert {claim["id"] for claim in still} == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_any_v4_store_comes_over(tmp_path, read, seed):
    """Every line of the memory is current, every archived one closed or earlier, every entry there."""
    hot, archived, told = some_v4(tmp_path, random.Random(seed))
    operations = read(tmp_path)
    subjects, _, _ = fold(operations)
    assert entries(operations) == told
    assert {key for key, subject in subjects.items() if subject["now"]["op"] == "set"} == {
        "legacy." + ("pattern-" if tier == 3 else "") + entry.lower() for tier in hot for entry in hot[tier]}
    for tier, lines in hot.items():
        for entry, (_, text, _) in lines.items():
            subject = subjects["legacy." + ("pattern-" if tier == 3 else "") + entry.lower()]
            assert (subject["now"]["text"], subject["now"]["tier"]) == (text, tier)
            assert texts(subject)[:-1] == ([archived[entry][1]] if entry in archived else [])
    for entry, (_, text, _) in archived.items():
        assert entry in hot[2] or texts(subjects["legacy." + entry.lower()]) == [text, None]


def mutate(value, rng):
    """Return JSON with one value changed or taken away."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        rest = {n: v for n, v in value.items() if n != name}
        return rest if rng.random() < 0.2 else {**rest, name: mutate(value[name], rng)}
    return rng.choice([None, -1, 99, 10 ** 30, 1.5, True, "", "x", "\ud800", [], {}, ["x"], "R000001-Q001", "C000001", "accepted",
                       "resolved"])


@pytest.mark.parametrize("version", MAKERS)
def test_a_store_with_any_damage_is_told_or_refused(tmp_path, bimri, version):
    """A reader that meets what it did not expect says so; it never fails otherwise, and what it tells can be carried out."""
    MAKERS[version](tmp_path / "whole")
    files = sorted(path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*") if path.is_file())
    told = 0
    for seed in range(15):
        rng, folder = random.Random(seed), tmp_path / str(seed)
        shutil.copytree(tmp_path / "whole", folder)
        path = folder / rng.choice(files)
        lines = path.read_bytes().split(b"\n")
        if path.suffix == ".json" and rng.random() < 0.7:
            path.write_text(json.dumps(mutate(json.loads(b"\n".join(lines)), rng)), encoding="utf-8")
        else:
            place = rng.randrange(len(lines))
            lines[place:place + 1] = rng.choice([[], [lines[place]] * 2, [lines[place][:9]], [rng.choice(lines) + lines[place]]])
            path.write_bytes(b"\n".join(lines))
        with contextlib.suppress(bimri.CannotRead):
            fold(check(bimri.read(str(folder))))
            told += 1
    assert told


MAKERS_AND_CHANCE = {**MAKERS, **{"chance %d" % seed: lambda folder, seed=seed: some_v5(folder, random.Random(seed)) for seed in SEEDS},
                     **{"chance of v4, %d" % seed: lambda folder, seed=seed: some_v4(folder, random.Random(seed)) for seed in SEEDS}}


@pytest.mark.parametrize("store", MAKERS_AND_CHANCE)
def test_the_engine_takes_in_what_the_reader_tells(tmp_path, read, store):
    """The vault holds the same current values, contenders and earlier values, every entry, and is whole; once is enough."""
    MAKERS_AND_CHANCE[store](tmp_path / "store")
    operations = read(tmp_path / "store")
    write(tmp_path, {"told.jsonl": "".join(json.dumps(op) + "\n" for op in operations)})
    vault = scratch.Scratch(tmp_path / "vault")
    vault.ok("init")
    status, result = vault.json("import", str(tmp_path / "told.jsonl"), "--human-approved")
    assert status in (0, 4), result
    assert (result["entries"], len(result["kept"])) == (len(entries(operations)), len(operations[0]["files"]) + 1)
    subjects, staged, _ = fold(operations)
    assert result["staged"] == len(staged)
    for key, subject in subjects.items():
        if not subject["now"]:
            continue
        said = vault.json("recall", key)[1]
        assert alike(said["current"]) == alike(subject["now"])
        assert sorted(claim["text"] for claim in said["contenders"]) == sorted(claim["text"] for claim in subject["beside"])
        past = [claim.get("text") for claim in vault.json("history", key)[1]["generations"]]
        assert past == texts(subject)[:len(past)]
        assert len(past) == len(subject["past"]) + (subject["now"]["op"] == "close")
    vault.ok("doctor", "--strict")
    before = vault.ledger().read_bytes()
    assert vault.json("import", str(tmp_path / "told.jsonl"), "--human-approved")[1]["runs"] == []
    assert vault.ledger().read_bytes() == before


def take_in(vault, operations, folder):
    """Import what a reader said, and return what became of it."""
    write(folder, {"told.jsonl": "".join(json.dumps(op) + "\n" for op in operations)})
    status, result = vault.json("import", str(folder / "told.jsonl"), "--human-approved")
    assert status in (0, 4), result
    return result


@pytest.mark.parametrize("grow", ["v5", "v4", "v1"])
def test_the_engine_takes_in_what_a_store_has_grown_by(tmp_path, read, grow):
    """Read and imported again, a store brings its new runs, and what they changed takes the place of what it said before."""
    vault, folder = scratch.Scratch(tmp_path / "vault"), tmp_path / "store"
    vault.ok("init")

    def take():
        return take_in(vault, read(folder), tmp_path)

    store = make_v5(folder) if grow == "v5" else make_v4(folder) if grow == "v4" else write(folder, {"bimri.md": V1})
    take()
    if grow == "v5":
        store.set(store.start("later"), "boats.next", "Paint the ferry blue.")
        key, expected = "boats.next", "Paint the ferry blue."
    elif grow == "v4":
        line = "[F:R001] [L:R003] [oven,oven] The thermometer drifts by 2 °C."
        write(folder, {"bimri.md": V4.replace(line, "[F:R001] [L:R004] [oven] The thermometer was replaced."),
                       ".bimri/log/R004.md": V4_LOGS["R001"].replace("R001", "R004")})
        key, expected = "legacy.r001-e02", "The thermometer was replaced."
    else:
        write(folder, {"bimri.md": V1.replace("April", "May")})
        key, expected = "legacy.v1.t2-legacy-0001", "Pump two is replaced in May."
    result = take()
    said = vault.json("recall", key)[1]
    assert (said["current"]["text"], len(result["runs"])) == (expected, 1 if grow == "v1" else 2)
    assert [claim["text"] for claim in said["contenders"]] == (["Sell the ferry."] if grow == "v5" else [])
    vault.ok("doctor", "--strict")


def more_v5(change):
    """Return a function that goes on in the first run of a v5 store, which the vault has already."""
    def go_on(folder):
        shutil.rmtree(folder)
        store = make_v5(folder)
        store.look("R000001")
        change(store, "R000001")
    return go_on


def with_habit(store, run):
    """Add a pattern that rests on an entry of the same run."""
    store.set(run, "crew.song", "They sing at dawn.", tier=3, evidence=[store.journal(run, "They sang.")], falsifier="a silent dawn")


T2_OF_V4 = "[R001-E02] [I:3] [watch] [F:R001] [L:R003] [oven,oven] The thermometer drifts by 2 °C. -> log/R001.md\n"
DRIFT = "The thermometer drifts by 2 °C."
#: What is changed without a run of its own -> (maker, change, key, what it says before, what it says then; None for nothing).
CHANGES = {
    "a line of v4": (make_v4, text_with("bimri.md", "by 2 °C", "by 5 °C"), "legacy.r001-e02", DRIFT, DRIFT.replace("2", "5")),
    "a field of v4": (make_v4, text_with("bimri.md", "[I:3] [watch]", "[I:5] [watch]"), "legacy.r001-e02", DRIFT, DRIFT),
    "a tier 1 line of v4": (
        make_v4, text_with("bimri.md", "[rule] [] Read [the old note] first", "[rule] [] Read nothing"), "legacy.r002-e01",
        "Read [the old note] first | then ask -> maybe", "Read nothing | then ask -> maybe"),
    "a line more of an old run of v4": (
        make_v4, text_with("bimri.md", T2_OF_V4, T2_OF_V4 + T2_OF_V4.replace("E02", "E08").replace("drifts", "leads")),
        "legacy.r001-e08", None, DRIFT.replace("drifts", "leads")),
    "a pattern of v4": (
        make_v4, text_with("bimri.md", "fail on damp", "rise on damp"), "legacy.pattern-p001",
        "Loaves fail on damp days.", "Loaves rise on damp days."),
    "a pattern without its evidence": (
        make_v4, text_with("bimri.md", "forgets salt", "forgets yeast"), "legacy.pattern-p002",
        "The apprentice forgets salt.", "The apprentice forgets yeast."),
    "a line of v4 that is closed": (make_v4, text_with("bimri.md", "[I:3] [watch]", "[I:3] [closed]"), "legacy.r001-e02", DRIFT, None),
    "a line of v4 that is archived by hand": (
        make_v4, lambda folder: (text_with("bimri.md", T2_OF_V4, "")(folder), text_with(
            ".bimri/archive/2026-01.md", "A line of nobody.", "[ARCHIVED:R003 2026-01-08] " + T2_OF_V4)(folder)),
        "legacy.r001-e02", DRIFT, None),
    "a line of v2.1-ca": (
        make_ca, text_with("bimri.md", "half typed", "fully typed"), "legacy.r002-e01",
        "The old score sheets are half typed in.", "The old score sheets are fully typed in."),
    "a pattern more of v2.1-ca": (
        make_ca, text_with("bimri.md", "[PATTERN:P001]", "[PATTERN:P002] [CONFIDENCE:emerging] [OBS:1] [EVIDENCE:R002-E02]\n"
                           "Years are missing.\nFalsify if: none is.\n[PATTERN:P001]"),
        "legacy.pattern-p002", None, "Years are missing."),
    "a line of v3": (
        flat(V3), text_with("bimri.md", "A2 from", "A1 from"), "legacy.v3.t2-20250601-01",
        "Posters are printed at A2 from September.", "Posters are printed at A1 from September."),
    "a line of v1": (
        flat(V1), text_with("bimri.md", "April", "May"), "legacy.v1.t2-legacy-0001",
        "Pump two is replaced in April.", "Pump two is replaced in May."),
    "a subject of v5 in a run that is here": (
        make_v5, more_v5(lambda store, run: store.set(run, "pier.depth", "5 m.", tier=1)), "pier.depth",
        "The pier is 4.20 m deep.", "5 m."),
    "the owner's word of v5 in a run that is here": (
        make_v5, more_v5(lambda store, run: store.set(run, "boats.next", "Sail.", trust="confirmed", source="user")), "boats.next",
        "Paint the ferry green.", "Sail."),
    "a new subject of v5 in a run that is here": (make_v5, more_v5(lambda store, run: store.set(run, "a.b", "New.")), "a.b", None, "New."),
    "a pattern of v5 in a run that is here": (make_v5, more_v5(with_habit), "crew.song", None, "They sing at dawn."),
    "a close of v5 in a run that is here": (
        make_v5, more_v5(lambda store, run: store.accept(store.propose(run, "pier.depth", op="close", tier=1))), "pier.depth",
        "The pier is 4.20 m deep.", None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_that_was_changed_without_a_new_run_is_taken_in_as_it_is(tmp_path, read, change):
    """What it says now reaches the vault in one run, also when it goes back to what it said; unchanged it brings nothing."""
    make, alter, key, before, after = CHANGES[change]
    vault, folder = scratch.Scratch(tmp_path / "vault"), tmp_path / "store"
    vault.ok("init")

    def take():
        return take_in(vault, read(folder), tmp_path)

    make(folder)
    shutil.copytree(folder, tmp_path / "old")
    take()
    alter(folder)
    shutil.copytree(folder, tmp_path / "new")
    gone = before is None  # what is gone from the store stays in the vault
    for state, says in (("new", after), ("old", after if gone else before), ("new", after)):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / state, folder)
        result = take()
        assert ([run["label"][:3] for run in result["runs"]], result["beside"]) == ([result["runs"][0]["label"][:3]], [])
        now = vault.json("recall", key)[1]
        assert (now["current"]["text"] if now["status"] == "current" else None) == says
        marks = vault.ledger().read_bytes()
        assert take()["runs"] == []
        assert vault.ledger().read_bytes() == marks
    vault.ok("doctor", "--strict")


def test_what_the_vault_made_of_a_changed_store_since_is_no_question(tmp_path, read):
    """Only what the store says otherwise stands beside the vault's own; what it says as before asks nothing."""
    vault, folder = scratch.Scratch(tmp_path / "vault"), make_v4(tmp_path / "store")
    vault.ok("init")

    def take():
        write(tmp_path, {"told.jsonl": "".join(json.dumps(op) + "\n" for op in read(folder))})
        return vault.json("import", str(tmp_path / "told.jsonl"), "--human-approved")[1]

    take()
    run = vault.json("start", "--actor", "codex")[1]["run"]
    vault.ok("propose", "--run", run, "--key", "legacy.r001-e02", "--tier", "2", "--text", "It is new.", "--now")
    text_with("bimri.md", "mill in Ås", "mill in Oslo")(folder)
    assert take()["beside"] == []
    assert vault.json("recall", "legacy.r001-e02")[1]["current"]["text"] == "It is new."
    assert vault.json("recall", "legacy.r002-e02")[1]["current"]["text"] == "Rye comes from the mill in Oslo."


@pytest.mark.parametrize("answer", ["current", "choice", "decline"])
def test_a_store_whose_questions_were_answered_since_is_told_again(tmp_path, read, answer):
    """What stands comes in one run more, once; what the vault asks of its own is still for the owner to answer."""
    vault, folder = scratch.Scratch(tmp_path / "vault"), tmp_path / "store"
    vault.ok("init")
    store = Store5(folder)
    one, two = store.start(), store.start()
    store.set(one, "wall.colour", "White.")
    question = store.contest(red := store.propose(two, "wall.colour", "Red."))
    pending = store.propose(two, "wall.width", "Two metres.")

    def take():
        return [run["label"][:4] for run in take_in(vault, read(folder), tmp_path)["runs"]]

    assert len(take()) == 3
    assert take() == []
    if answer == "decline":
        store.decide(pending, "declined", revision=store.head)
    else:
        store.resolve(question, "current" if answer == "current" else red)
    assert (take(), take()) == (["now-"], [])
    assert vault.json("recall", "wall.colour")[1]["current"]["text"] == ("Red." if answer == "choice" else "White.")
    keys = {one["key"] for one in vault.json("review", "--all")[1]["questions"]}
    assert keys == {"current": {"wall.width"}, "choice": {"wall.width"}, "decline": {"wall.colour"}}[answer]
    assert "in the store" in notes(read(folder), "converted")
    vault.ok("doctor", "--strict")


def alike(claim):
    """Return what of a claim must be the same in the file and in the vault."""
    return {name: claim[name] for name in (*EFFECT, "trust", "source", "why", "dated") if name in claim}


def test_the_reader_imports_nothing_of_the_engine_and_runs_on_3_9():
    """It stands alone beside any engine: the standard library, and no syntax newer than 3.9."""
    import ast
    tree = ast.parse(READER.read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= {"__future__", "collections", "datetime", "hashlib", "json", "pathlib", "re", "sys", "typing", "unicodedata"}
