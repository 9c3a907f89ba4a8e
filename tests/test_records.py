"""Records: one canonical form, lines that read back as they were written, and two checks that agree.

The engine checks records with plain code (`check_record`, `decode_head`) and publishes JSON Schemas that say the same.
Here both judge many records, sound ones and ones with a part replaced, taken away or added.
"""

from __future__ import annotations

import collections
import copy
import json
import random
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")
import replicas
from hypothesis import given, settings
from hypothesis import strategies as st

import engine

SCHEMAS = Path(engine.__file__).resolve().parent / "templates" / "schema"


# -- canonical JSON --

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2**53 + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12)


def shuffled(value, rng):
    """Return an equal value whose names were added in another order."""
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: shuffled(value[name], rng) for name in names}
    return [shuffled(v, rng) for v in value] if isinstance(value, list) else value


@settings(max_examples=200)
@given(JSON, st.randoms(use_true_random=False))
def test_canonical_json_round_trips(value, rng):
    """A value has one text: it reads back as the value, whatever the order of its names, and through both readers."""
    text = engine.canonical(value)
    assert json.loads(text) == value
    assert engine.canonical(shuffled(value, rng)) == text
    assert engine.canonical(json.loads(text)) == text
    assert engine.parse_json(text) == value
    assert "\n" not in text


def test_canonical_json_has_the_form_of_the_protocol():
    """Names are sorted, nothing is spaced, and characters stand for themselves."""
    assert engine.canonical({"b": [1, None, True],
                             "a": "\u00e9\u2028\U0001f600\n"}) == '{"a":"\u00e9\u2028\U0001f600\\n","b":[1,null,true]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udfff": 1}, b"x", {1, 2}, {("a",): 1}], ids=repr)
def test_what_has_no_canonical_form_is_refused(value):
    """What JSON cannot say, or UTF-8 cannot carry, is no record."""
    with pytest.raises(engine.BadRecord):
        engine.canonical({"x": value})


@pytest.mark.parametrize("text", ["1.0", "1e3", "NaN", "-Infinity", "{", "", '{"a":1,"a":1}', '{"b":{"a":1,"a":2}}', "[" * 21 + "]" * 21,
                                  "[" * 200_000, '{"a":' * 21 + "1" + "}" * 21], ids=lambda t: t[:12])
def test_json_from_outside_is_refused_with_its_code(text):
    """A number that is no integer, a doubled name, more than 20 levels, or no JSON: bad-json, and no traceback."""
    with pytest.raises(engine.Usage) as refused:
        engine.parse_json(text)
    assert refused.value.code == "bad-json"


def test_twenty_levels_are_read():
    """The limit of depth is 20, not less."""
    assert engine.parse_json("[" * 20 + "]" * 20)


# -- sound records by chance --

TAG, AT, HASH, SALT = "k7qdm2xw", "2026-11-30T08:12:45.123Z", "ab12" * 16, "0f" * 16


def ids(letters, most=3):
    """Return a maker of a sorted list of ids."""
    return lambda rng: sorted({one(letters)(rng) for _ in range(rng.randint(0, most))})


def one(letters):
    """Return a maker of one id."""
    return lambda rng: "%s%d-%s" % (rng.choice(letters), rng.choice((0, 1, 7, 42, 10**15)), rng.choice((TAG, "23456789", "zzzzzzzz")))


def some(*values):
    """Return a maker of one of these values."""
    return lambda rng: copy.deepcopy(rng.choice(values))


def listing(make, most):
    """Return a maker of a sorted list without twins, of at least one."""
    return lambda rng: sorted({make(rng) for _ in range(rng.choice((1, 2, most)))})


LINE = some("a", "x" * 500, "# h", "> q \u200d\u0600", "\U0001f600" * 500, " a ", "a\u00a0b", "\ufffe")
SHORT = some("s", "x" * 200, "two words")
BLOCK = some("a", "a\n\tb", "\nx", "x" * 2000, "> q\n# h\n---\n")
KEY = some("a", "a.b-c", "9", "x" * 80, "cons.x", "a.con", "com", "comx.y", "null")
WORD = some("codex", "a_b.c-d", "x" * 40, "0")
DATE = some("2026-02-28", "2028-02-29", "1000-01-01", "9999-12-31", "2000-02-29")
TIME = some(AT, "2028-02-29T23:59:59.999Z", "1000-01-01T00:00:00.000Z")
HEX = some(HASH, "0" * 64)
LEDGER = ".muniment/ledger/%s.jsonl" % TAG
INTEGER = some(0, -1, 2**53 - 1, -2**53 + 1)
NATURAL = some(0, 1, 2**53 - 1)
SEEN = some({}, {TAG: 0}, {TAG: 2**53 - 1, "23456789": 3})
MEASURED = some({"command": "pytest -q", "exit": 0, "date": "2026-02-28"}, {"command": "x", "exit": -1, "date": "2028-02-29", "note": "n"})


def evidence(rng):
    """Return evidence of some length."""
    makers = (one("E"), some("https://a.b/c", "x+y-z.9://q", "a://b://c"), MEASURED)
    return [rng.choice(makers)(rng) for _ in range(rng.choice((1, 2, 32)))]


def set_value(rng, tier=None):
    """Return the value of a set."""
    tier = tier or rng.choice(engine.TIERS)
    own = {1: {"kind": some(*engine.KINDS_OF_FACT)}, 2: {"importance": some(1, 3, 5), "status": some(*engine.STATUSES)},
           3: {"confidence": some(*engine.CONFIDENCES)}}[tier]
    more = {"detail": some("a", "a\n\tb", "x" * 32_768), "until": DATE, "links": listing(KEY, 9), "tags": listing(
        lambda r: r.choice("ab") + "/" + r.choice("cdefghi"), 9)}
    more.update({"falsifier": LINE} if tier == 3 else {})
    return {"op": "set", "tier": tier, **made(rng, {"text": LINE, **own}, more)}


def closing(rng):
    """Return the value of a close."""
    return {"op": "close", "tier": rng.choice(engine.TIERS)}


def made(rng, required, optional):
    """Return an object of all required and some optional fields."""
    chosen = [name for name in optional if rng.random() < 0.5]
    return {name: make(rng) for name, make in (*required.items(), *((n, optional[n]) for n in chosen))}


def make_replica(rng):
    """Return the body of a replica."""
    vault = rng.choice((replicas.VAULT, "0" * 8 + "-0000-4000-b000-" + "f" * 12))
    return {"vault": vault, "tag": TAG, "engine": rng.choice(("0.1.0", "x" * 40))}


def make_run_open(rng):
    """Return the body of a run-open."""
    return made(rng, {"actor": WORD, "seen": SEEN}, {"session": SHORT, "dated": TIME, "origin": lambda r: made(
        r, {"format": WORD, "name": LINE}, {"id": LINE, "sha256": HEX})})


def make_journal(rng):
    """Return the body of an entry."""
    return made(rng, {"run": one("R"), "text": some("a", "a\n\tb", "x" * 8000), "importance": some(1, 5)},
                {"ref": some("D1:3", "r", "x" * 200, "E01-k7qdm2xw"), "dated": TIME})


def make_proposal(rng):
    """Return the body of a proposal."""
    body = made(rng, {"run": one("R"), "key": KEY, "base": ids("PS"), "staged": ids("P"), "depth": some(1, 9),
                      "new_subject": some(True, False), "value": lambda r: r.choice((set_value, closing, some({"op": "touch"})))(r)},
                {"why": LINE, "evidence": evidence, "dated": TIME})
    if body["value"].get("confidence"):
        body.setdefault("evidence", evidence(rng))
    kind = rng.randrange(3)
    body.update(({"source": some(*engine.SOURCES)(rng), "trust": "working"}, {"source": "user", "trust": "confirmed"},
                 {"source": some("system", "legacy", *engine.SOURCES)(rng), "trust": some(*engine.TRUSTS)(rng), "imported": True})[kind])
    return body


def make_withdrawal(rng):
    """Return the body of a withdrawal."""
    return {"run": one("R")(rng), "proposal": one("P")(rng)}


def make_revision(rng):
    """Return the body of a revision."""
    kinds = [("accepted", "alone", "parents"), ("accepted", "beside", "parents"), ("noop", "same", "rests"), ("noop", "touched", None),
             ("held", "unknown-key", None), ("held", "needs-owner", None)]
    decisions = []
    for outcome, reason, more in rng.sample(kinds, rng.randint(0, 6)):
        said = {"proposal": "P%d-%s" % (len(decisions), rng.choice((TAG, "zzzzzzzz"))), "outcome": outcome, "reason": reason}
        said.update({"parents": {"parents": ids("PS")(rng)}, "rests": {"rests": one("PS")(rng)}}.get(more, {}))
        decisions.append(said)
    return {"run": one("R")(rng), "seen": SEEN(rng), "decisions": decisions}


def make_run_close(rng):
    """Return the body of a run-close."""
    return made(rng, {"run": one("R"), "outcome": some(*engine.OUTCOMES), "summary": BLOCK,
                      "how": some("close", "recovered", "lazy", "imported")}, {"dated": TIME})


def make_resolution(rng):
    """Return the body of a resolution."""
    answer = rng.choice(("choose", "close", "text", "accept", "adopt", "decline", "dismiss"))
    body = made(rng, {"handle": some("C-abcdef", "H-" + "0" * 64, "X-0123456789"), "seen": SEEN}, {"note": BLOCK, "evidence": evidence})
    more = {"choose": ("chosen", one("PS")), "accept": ("proposal", one("P")), "adopt": ("edit", one("K")),
            "decline": ("proposal", one("P")), "dismiss": ("edit", one("K"))}.get(answer)
    body.update({more[0]: more[1](rng)} if more else {})
    if answer in ("decline", "dismiss"):
        body.update({"key": KEY(rng)} if answer == "decline" else {}, parents=[], depth=0)
    else:
        value = closing(rng) if answer == "close" or rng.random() < 0.2 else set_value(rng)
        body.update(key=KEY(rng), parents=ids("PS")(rng), depth=some(1, 9)(rng), value=value,
                    source=some("agent", "user", "external", "system", "legacy")(rng))
    return dict(body, answer=answer)


def make_setting(rng):
    """Return the body of a setting."""
    return {"name": some("hot-bytes", "a.b", "x" * 80)(rng), "value": rng.choice((INTEGER, LINE))(rng)}


def make_mark(rng):
    """Return the body of a mark."""
    return {"run": one("R")(rng), "upto": SEEN(rng)}


def make_recovery(rng):
    """Return the body of a recovery."""
    what = rng.choice(("view", "torn", "restored", "loss"))
    optional = {"sha256": HEX, "size": NATURAL, "lines": some([[0, 0]], [[1, 4], [9, 2**53 - 1]]), "note": BLOCK}
    needed = {"view": ("sha256", "size"), "torn": ("sha256", "size"), "restored": (), "loss": ("lines",)}[what]
    path = LINE if what in ("view", "torn") else some(LEDGER, ".muniment/ledger/zzzzzzzz.jsonl")
    return {"what": what, **made(rng, {"path": path, **{n: optional[n] for n in needed}},
                                 {n: optional[n] for n in optional if n not in needed})}


def make_erase(rng):
    """Return the body of an erase."""
    body = made(rng, {"targets": lambda r: sorted({*ids("REPQSKX", 5)(r), "X9-zzzzzzzz"})}, {"files": listing(HEX, 2), "note": BLOCK})
    return dict(body, bodies=[HEX(rng) for _ in body["targets"]])


MAKERS = {"replica": make_replica, "run-open": make_run_open, "journal": make_journal, "proposal": make_proposal,
          "withdrawal": make_withdrawal, "revision": make_revision, "run-close": make_run_close, "resolution": make_resolution,
          "setting": make_setting, "mark": make_mark, "recovery": make_recovery, "erase": make_erase}


def make_record(kind, rng):
    """Return a sound record of a kind, as the object that its line holds."""
    seq = 0 if kind == "replica" else rng.choice((1, 7, 2**53 - 1))
    head = {"at": TIME(rng), "body": HEX(rng), "kind": kind, "prev": HEX(rng), "seq": seq}
    if rng.random() < 0.5:
        head["unit"] = rng.choice((1, 3, 2**53 - 1))
    return {"body": dict(MAKERS[kind](rng), salt=SALT), "head": head}


def test_every_kind_is_made():
    """The maker knows every kind of record, and no other."""
    assert MAKERS.keys() == engine.LETTERS.keys() == engine.FIELDS.keys()


# -- lines --

SEED = st.integers(0, 2**32 - 1)
KIND = st.sampled_from(sorted(MAKERS))


@settings(max_examples=150)
@given(KIND, SEED)
def test_a_record_reads_back_as_it_was_written(kind, seed):
    """A line holds the record, its hash is that of the head, and it is the only line of that record."""
    record = make_record(kind, random.Random(seed))
    line, top = engine.encode_record(dict(record["head"]), record["body"])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    head, body, *_, read = engine.decode_record(line)
    assert body == record["body"]
    assert head == dict(record["head"], body=engine.sha256(engine.canonical(body)))
    assert read == top == engine.sha256(engine.canonical(head))
    assert engine.canonical({"body": body, "head": head}) + "\n" == line.decode("utf-8")


@settings(max_examples=300)
@given(KIND, SEED, st.integers(0, 255), st.sampled_from(("replace", "insert", "delete", "swap")))
def test_no_byte_of_a_line_changes_unnoticed(kind, seed, byte, how):
    """A line with a byte changed is refused, or is another record with another hash: the chain breaks there."""
    rng = random.Random(seed)
    record = make_record(kind, rng)
    line, top = engine.encode_record(dict(record["head"]), record["body"])
    at = rng.randrange(len(line))
    changed = bytearray(line)
    if how == "insert":
        changed.insert(at, byte)
    elif how == "delete":
        del changed[at]
    elif how == "swap":
        changed[at], changed[at - 1] = changed[at - 1], changed[at]
    else:
        changed[at] = byte
    if bytes(changed) != line:
        try:
            read = engine.decode_record(bytes(changed))[-1]
        except engine.BadRecord:
            return
        assert read != top


@pytest.mark.parametrize("change", [
    lambda line: line.replace(b'"head":{', b'"head": {'), lambda line: line.replace(b'"seq":7', b'"seq":07'),
    lambda line: line.replace(b'"seq":7', b'"seq":7.0'), lambda line: line.replace(b'"seq":7', b'"seq":7,"seq":7'),
    lambda line: line.replace(b'"seq":7', b'"seq":9007199254740992'), lambda line: b" " + line, lambda line: line[:-1] + b" \n",
    lambda line: line.replace(b'{"body":', b'{"a":1,"body":'), lambda line: line.replace(b',"head"', b',"c":1,"head"'),
    lambda line: line[:-2] + b',"z":1}\n', lambda line: line[:-1], lambda line: line[:-1] + b"\r\n", lambda line: b"\n",
    lambda line: b'{"body":' + b"[" * 100_000 + b',"head":{}}\n'], ids=range(14))
def test_another_spelling_of_a_line_is_refused(change):
    """A ledger line has one spelling: spaces, doubled or foreign names, other numbers and other ends are damage."""
    record = make_record("withdrawal", random.Random(1))
    record["head"].update(seq=7, unit=1)
    line, _ = engine.encode_record(record["head"], record["body"])
    assert change(line) != line
    with pytest.raises(engine.BadRecord):
        engine.decode_record(change(line))


def test_a_record_too_large_for_a_line_is_refused():
    """A line has at most 262,144 bytes, and what would be longer is refused with its code."""
    record = make_record("revision", random.Random(1))
    record["body"]["decisions"] = [{"proposal": "P%d-k7qdm2xw" % n, "outcome": "noop", "reason": "touched"} for n in range(4000)]
    with pytest.raises(engine.Refused) as refused:
        engine.encode_record(record["head"], record["body"])
    assert refused.value.code == "too-large"


@given(KIND, SEED)
def test_what_a_proposal_can_hold_fits_into_a_line(kind, seed):
    """No sound record of one thing is longer than a line may be, with every limit reached."""
    record = make_record(kind, random.Random(seed))
    assert len(engine.encode_record(record["head"], record["body"])[0]) <= engine.LINE_BYTES_MAX


def test_the_largest_proposal_fits_into_a_line():
    """The limits of a proposal's fields keep it within a ledger line, whatever characters it holds."""
    wide, backslashes = "\U0001f600" * 500, "\\" * 32_768
    measured = {"command": wide, "exit": -2**53 + 1, "date": "2026-02-28", "note": wide}
    key = "x" * 77
    body = engine.make_body(
        "proposal", SALT, run="R1-" + TAG, key=key, base=[], staged=[], depth=1, new_subject=True, source="external", trust="working",
        why=wide, evidence=[measured] * 32, value={
            "op": "set", "tier": 3, "text": wide, "confidence": "developing", "falsifier": wide, "detail": backslashes,
            "links": sorted(key + "%03d" % n for n in range(32)), "tags": sorted("t" * 37 + "%03d" % n for n in range(12))})
    assert len(engine.encode_record({"at": AT, "kind": "proposal", "prev": HASH, "seq": 1, "unit": 1}, body)[0]) <= engine.LINE_BYTES_MAX


# -- skeletons --

#: Kinds whose records hold text, and can be erased.
ERASABLE = ("run-open", "journal", "proposal", "run-close", "resolution", "recovery", "erase")
#: Fields by which records are told apart and judged: erasing takes none of them away.
JUDGED = {"run", "key", "base", "staged", "parents", "depth", "seen", "handle", "answer", "proposal", "chosen", "edit", "source", "trust",
          "new_subject", "imported", "actor", "outcome", "how", "importance", "dated", "what", "path", "sha256", "size", "lines",
          "targets", "bodies", "files"}
SPOKEN = "It-names-Ada"


def speak(body):
    """Return a copy of a body in which every field that holds words says SPOKEN, and what only other fields hold stays."""
    body = copy.deepcopy(body)
    body.update({name: SPOKEN for name in ("text", "why", "note", "summary", "ref", "session") if name in body})
    if body.get("value", {}).get("op") == "set":
        body["value"].update(text=SPOKEN, detail=SPOKEN, tags=["ada"], links=["ada"])
        body["value"].update({"falsifier": SPOKEN} if body["value"]["tier"] == 3 else {})
    if "origin" in body:
        body["origin"] = {"format": body["origin"]["format"], "name": SPOKEN, "id": SPOKEN, "sha256": HASH}
    if "evidence" in body:
        body["evidence"] = ["E5-" + TAG, "https://a.b/" + SPOKEN, {"command": SPOKEN, "exit": 0, "date": "2026-02-28", "note": SPOKEN}]
    return body


def erased_line(record, stays):
    """Return the line of a record whose body was erased: its head is as it was and names the hash of the body that is gone."""
    head = dict(record["head"], body=engine.sha256(engine.canonical(record["body"])))
    return ('{"body":%s,"head":%s}\n' % (engine.canonical(stays), engine.canonical(head))).encode("utf-8")


def fault_of(line, erased=None):
    """Return the kind of damage that a line is, or None."""
    try:
        engine.decode_record(line, erased)
    except engine.BadRecord as bad:
        return bad.fault
    return None


def pin(stays):
    """Return what tells of any head that this skeleton, and no other, may stand there."""
    return lambda head: {engine.sha256(engine.canonical(stays))}


@settings(max_examples=150)
@given(st.sampled_from(ERASABLE), SEED)
def test_a_skeleton_stands_in_the_place_of_its_body(kind, seed):
    """With its hash pinned the skeleton is read under the same head and chain hash; without, or with another's, it is damage."""
    record = make_record(kind, random.Random(seed))
    _, top = engine.encode_record(dict(record["head"]), record["body"])
    stays = engine.skeleton_of(kind, record["body"])
    line = erased_line(record, stays)
    head, body, text, read = engine.decode_record(line, pin(stays))
    assert (body, text, read) == (stays, engine.canonical(stays), top)
    assert head == dict(record["head"], body=engine.sha256(engine.canonical(record["body"])))
    assert fault_of(line) == "erased"
    assert fault_of(line, lambda head: None) == "erased"
    assert fault_of(line, pin({**stays, "erased": False})) == "erased"
    assert fault_of(erased_line(record, {**stays, "erased": False}), pin(stays)) == "bad-hash"
    whole, _ = engine.encode_record(dict(record["head"]), record["body"])
    assert engine.decode_record(whole, pin(stays))[1] == record["body"]  # the fold puts the skeleton in its place


@settings(max_examples=150)
@given(st.sampled_from(ERASABLE), SEED)
def test_a_skeleton_holds_no_text_and_all_by_which_it_is_judged(kind, seed):
    """Ids, parents and all else that decides stay as they were; no word, salt or value does; the skeleton of a skeleton is itself."""
    body = dict(speak(MAKERS[kind](random.Random(seed))), salt=SALT)
    engine.check_record(kind, body)
    stays = engine.skeleton_of(kind, body)
    judged = JUDGED & body.keys()
    assert {name: stays.get(name) for name in judged} == {name: body[name] for name in judged}
    assert stays.keys() <= judged | {"erased", "value", "evidence", "origin"}
    assert stays["erased"] is True
    assert SPOKEN not in engine.canonical(stays)
    assert SALT not in engine.canonical(stays)
    assert "ada" not in engine.canonical(stays)
    assert stays.get("evidence", []) == [i for i in body.get("evidence", ()) if i == "E5-" + TAG]
    if "value" in body:
        tier = body["value"].get("tier")
        assert stays["value"] == ({"op": "touch"} if tier is None else {"op": "close", "tier": tier})
    assert engine.skeleton_of(kind, stays) == stays
    assert len(engine.canonical(stays)) <= len(engine.canonical(body))


@settings(max_examples=150)
@given(st.sampled_from(ERASABLE), SEED, st.sampled_from(("text", "why", "note", "summary", "salt", "session", "ref", "value", "drop")))
def test_what_is_no_skeleton_is_none_though_its_hash_is_pinned(kind, seed, what):
    """A pinned body that holds text, or lacks what it is judged by, is damage: an erasure cannot put words into a record."""
    rng = random.Random(seed)
    record = make_record(kind, rng)
    stays = engine.skeleton_of(kind, record["body"])
    if what == "drop":
        del stays[rng.choice(sorted(set(stays) & {*engine.FIELDS[kind][0], "erased"}))]
    elif what == "value":
        stays["value"] = set_value(rng)
    else:
        stays[what] = SALT if what == "salt" else "x"
    assert fault_of(erased_line(record, stays), pin(stays)) == "bad-body"


@pytest.mark.parametrize("kind", sorted(set(engine.LETTERS) - set(ERASABLE)))
def test_a_record_without_text_has_no_skeleton(kind):
    """No erasure may name a record of a kind that holds no text."""
    with pytest.raises(engine.BadRecord):
        engine.make_body("erase", SALT, targets=["%s1-%s" % (engine.LETTERS[kind], TAG)], bodies=[HASH])


# -- the plain checks and the published schemas --

#: Values to put in the place of others: most are wrong anywhere, each is nearly right somewhere.
POOL = [
    None, True, False, 0, 1, 2, 3, 4, 5, 6, -1, 2**53 - 1, 2**53, -2**53, "", " ", "\u00a0", "\u3000\u2003", "a", "a\n", "\n", "a\tb",
    "a\rb", "x" * 501, "x" * 500, "x" * 200, "x" * 201, "x" * 40, "x" * 41, "x" * 80, "x" * 81, "x" * 2000, "x" * 2001, "x" * 8000,
    "x" * 8001, "x" * 32_768, "x" * 32_769, "\u00e9" * 20_000, "con", "con.x", "com1-x", "nul.a.b", "lpt9", "key", "a.b-c", "a..b", "A",
    "-a", "a_b", "a/b", "P1-" + TAG, "S1-" + TAG, "E5-" + TAG, "R1-" + TAG, "K1-" + TAG, "P01-" + TAG, "P1-k7qdm2x0",
    "P1-" + TAG + "\n", "1-" + TAG, "P-" + TAG, "P10000000000000000-" + TAG, "P9999999999999999-" + TAG, TAG, TAG + "\n", HASH,
    HASH.upper(), HASH + "\n", HASH[:-1], SALT, SALT[:-1] + "g", "http://a", "http://", "http://a b", "a://b://", "HTTP://a", "1a://b",
    "http://a\u00a0b", "http://a\u200d", AT, AT + "\n", "2026-02-29", "2028-02-29", "2100-02-29", "0999-01-01", "2026-04-31",
    "2026-13-01", "2026-02-29T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T00:60:00.000Z", "2026-01-01T00:00:00Z",
    "2026-01-01", [], {}, ["P1-" + TAG], ["P1-" + TAG] * 2, ["S1-" + TAG, "P1-" + TAG], ["b", "a"], ["a"], ["a"] * 2, [1], [[]],
    {TAG: 1}, {TAG: -1}, {TAG: True}, {TAG: 2**53}, {"x": 1}, {TAG + "\n": 1}, {"command": "x", "exit": 0, "date": "2026-02-28"},
    [{"command": "x", "exit": 0, "date": "2026-02-28"}] * 32, [{"command": "x", "exit": 0, "date": "2026-02-28"}] * 33, {"op": "touch"},
    {"op": "close", "tier": 2}, {"op": "close"}, {"op": "set", "tier": 2, "text": "t", "importance": 3, "status": "active"},
    {"op": "set", "tier": 3, "text": "t", "confidence": "emerging"}, {"format": "x", "name": "n"}, "agent", "user", "external",
    "system", "legacy", "confirmed", "working", "choose", "close", "text", "accept", "adopt", "decline", "dismiss", "set", "touch",
    "accepted", "held", "noop", "same", "touched", "alone", "beside", "unknown-key", "needs-owner", "view", "loss", "torn", "restored",
    "success", "lazy", "fact", "active", "emerging", "\ud800", "a\udfff", "a\U000e0041", "a\u200d", "\u200d", "a\u202e", "a\u202f",
    "a\u2066", "a\u0085", "a\x7f", "a\ufffe", "D1:3", "D1 3", "C-abcde", "C-abcdef", "H-" + "a" * 64, "X-" + "a" * 65, "Y-abcdef",
    [[1, 2]], [[2, 1]], [[1]], [[1, 2, 3]], [[True, 2]], ["t%02d" % n for n in range(12)], ["t%02d" % n for n in range(13)],
    ["k%02d" % n for n in range(32)], ["k%02d" % n for n in range(33)], [HASH], [HASH, "0" * 64], replicas.VAULT,
    replicas.VAULT.replace("4222", "5222"), {"proposal": "P1-" + TAG, "outcome": "noop", "reason": "touched"},
]
NAMES = sorted({name for fields in engine.FIELDS.values() for part in fields for name in part} | {
    "op", "tier", "text", "kind", "detail", "links", "extra", "unit", "rests", "reason", "command", "exit", "falsifier", "status", ""})


def paths(value, path=()):
    """Yield the path of every part of a JSON value, its own apart."""
    for name in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, name)
        yield from paths(value[name], (*path, name))


def mutate(record, rng):
    """Return a copy with one or two parts replaced, taken away or added."""
    record = copy.deepcopy(record)
    for _ in range(rng.choice((1, 1, 1, 2))):
        path = rng.choice([p for p in paths(record) if p not in (("body",), ("head",))])
        outer = record
        for name in path[:-1]:
            outer = outer[name]
        what, part = rng.random(), outer[path[-1]]
        if what < 0.2:
            del outer[path[-1]]
        elif what < 0.4 and isinstance(part, dict):
            part[rng.choice(NAMES)] = copy.deepcopy(rng.choice(POOL))
        elif what < 0.4 and isinstance(part, list):
            part.insert(rng.randint(0, len(part)), copy.deepcopy(rng.choice([*part, *POOL])))
        elif what < 0.5 and len(path) == 2:
            outer[rng.choice(NAMES)] = copy.deepcopy(rng.choice(POOL))
        else:
            outer[path[-1]] = copy.deepcopy(rng.choice(POOL))
    return record


def lists_of(value, found=None):
    """Return every list within a value."""
    found = [] if found is None else found
    if isinstance(value, list):
        found.append(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        lists_of(inner, found)
    return found


def is_unsorted(record):
    """A list of ids, keys or tags is sorted as text."""
    return any(all(isinstance(v, str) for v in part) and part != sorted(part) for part in lists_of(record))


def is_span_reversed(record):
    """The first seq of a span is not greater than its last."""
    return any(len(part) == 2 and all(type(v) is int for v in part) and part[0] > part[1] for part in lists_of(record))


def is_detail_wide(record):
    """A detail's limit counts bytes of UTF-8; a schema counts characters."""
    value = record["body"].get("value")
    detail = value.get("detail") if isinstance(value, dict) else None
    return isinstance(detail, str) and len(detail) <= engine.DETAIL_BYTES_MAX < len(detail.encode("utf-8", "replace"))


def is_uneven(record):
    """There is a hash of a skeleton for each target of an erasure."""
    targets, bodies = record["body"].get("targets"), record["body"].get("bodies")
    return isinstance(targets, list) and isinstance(bodies, list) and len(targets) != len(bodies)


def is_decided_twice(record):
    """A revision decides a proposal once."""
    decisions = record["body"].get("decisions")
    said = [str(d.get("proposal")) for d in decisions if isinstance(d, dict)] if isinstance(decisions, list) else []
    return len(set(said)) < len(said)


#: What a schema cannot say, and so takes while the plain checks refuse it.
EXCEPTIONS = (is_unsorted, is_span_reversed, is_detail_wide, is_uneven, is_decided_twice)


def read_schemas():
    """Return the published schemas by file name, and a function that gives the check of a schema which may name them."""
    import jsonschema
    import referencing

    found = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in SCHEMAS.glob("*.json")}
    registry = referencing.Registry().with_resources((s["$id"], referencing.Resource.from_contents(s)) for s in found.values())
    return found, lambda schema: jsonschema.Draft202012Validator(schema, registry=registry).is_valid


def load_checks():
    """Return the schemas' checks of records, by kind, and of an operation."""
    found, is_valid_by = read_schemas()
    wanted = {kind: found["record-%s.json" % kind] for kind in MAKERS}
    wanted.update({name: {"$ref": found["common.json"]["$id"] + "#/$defs/" + name} for name in ("line", "prose")})
    wanted["operation"] = found["operation.json"]
    return {name: is_valid_by(schema) for name, schema in wanted.items()}


@pytest.fixture(scope="module", name="checks")
def _checks():
    return load_checks()


@pytest.fixture(scope="module", name="fields")
def _fields():
    """Return the plain check and the schema's of each field, by kind and name."""
    found, is_valid_by = read_schemas()
    parts = {kind: found["record-%s.json" % kind]["properties"]["body"]["properties"] for kind in MAKERS}
    return {(kind, name): (check, is_valid_by({"$id": found["common.json"]["$id"] + ".part", "allOf": [parts[kind][name]]}))
            for kind, both in engine.FIELDS.items() for part in both for name, check in part.items()}


def find_cause(kind, record):
    """Return the field for which the plain checks refuse a record of ``kind``, or None if they take it."""
    try:
        text = json.dumps(record["head"], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        if engine.decode_head(text)["kind"] != kind:
            return "head"
        engine.check_record(kind, record["body"])
    except engine.BadRecord as bad:
        return "head" if bad.fault == "bad-head" else bad.detail.split(": ", 1)[1]
    return None


def compare(checks, kind, record, seen):
    """Assert that both checks judge a record alike, or differ for a named reason; count in ``seen`` what was refused why."""
    cause, valid = find_cause(kind, record), checks[kind](record)
    if valid == (cause is None):
        seen[kind, cause] += 1
        return
    reasons = [exception for exception in EXCEPTIONS if exception(record)]
    assert valid, (kind, cause, record)
    assert reasons, (kind, cause, record)
    for exception in reasons:
        seen[exception.__name__] += 1


@pytest.mark.packages
def test_plain_checks_and_schemas_take_every_sound_record(checks):
    """What the maker makes is sound to both, for every kind."""
    seen = collections.Counter()
    for kind in MAKERS:
        for seed in range(30):
            compare(checks, kind, make_record(kind, random.Random(seed)), seen)
    assert set(seen) == {(kind, None) for kind in MAKERS}


def _judge_mutants(checks, count, seed):
    seen, rng = collections.Counter(), random.Random(seed)
    for kind in MAKERS:
        for _ in range(count):
            compare(checks, kind, mutate(make_record(kind, rng), rng), seen)
    return seen


def _single_faults(checks, seen):
    """Judge, for every field of every kind, sound records with that field wrong or absent, and ones with a foreign field."""
    rng = random.Random(5)
    for kind, (required, optional) in engine.FIELDS.items():
        for name in (*required, *optional, "extra"):
            for _ in range(4):
                record = make_record(kind, rng)
                record["body"][name] = rng.choice((None, -2, "\n", {"x": 1}, [None]))
                compare(checks, kind, record, seen)
            record = make_record(kind, rng)
            record["body"].pop(name, None)
            compare(checks, kind, record, seen)


@pytest.mark.packages
def test_plain_checks_and_schemas_agree_on_what_is_wrong(checks):
    """Over mutated records both accept and refuse the same, every field of every kind was once the cause, and so was the head."""
    seen = _judge_mutants(checks, 60, 3)
    _single_faults(checks, seen)
    fields = {(kind, name) for kind, parts in engine.FIELDS.items() for part in parts for name in part}
    assert fields <= seen.keys()
    assert {(kind, "head") for kind in MAKERS} <= seen.keys()
    assert {(kind, "extra") for kind in MAKERS} <= seen.keys()
    judged = sum(n for name, n in seen.items() if isinstance(name, tuple))
    refused = sum(n for name, n in seen.items() if isinstance(name, tuple) and name[1] is not None)
    assert judged / 2 < refused < judged * 0.95


@pytest.mark.packages
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_each_field_alone_is_judged_alike(fields, every):
    """Each field's plain check and its part of the schema agree on every value of the pool and on what the maker makes."""
    made_values = collections.defaultdict(list)
    for kind in MAKERS:
        for seed in range(8):
            for name, value in make_record(kind, random.Random(seed))["body"].items():
                made_values[kind, name].append(value)
    own = [{**set_value(random.Random(1), tier), name: wrong} for tier in engine.TIERS for wrong in POOL
           for name in ("op", "tier", "text", "detail", "until", "links", "tags", "kind", "importance", "status", "confidence",
                        "falsifier")][::every]
    judged = collections.Counter()
    for (kind, name), (plain, is_valid) in fields.items():
        for value in (*POOL, *made_values[kind, name], *(own if (kind, name) == ("proposal", "value") else ())):
            fine, valid = bool(plain(value)), is_valid(value)
            judged[kind, name, fine] += 1
            said = {"body": {name: value}}
            assert fine == valid or (valid and any(exception(said) for exception in EXCEPTIONS)), (kind, name, value)
    assert len(judged) == 2 * len(fields)


SET = {"op": "set", "tier": 2, "text": "t", "importance": 3, "status": "active"}
PATTERN = {"op": "set", "tier": 3, "text": "t", "confidence": "emerging"}
CLOSE = {"op": "close", "tier": 2}
PROPOSAL = {"run": "R1-" + TAG, "key": "a", "value": SET, "base": [], "staged": [], "depth": 1, "new_subject": True, "source": "agent",
            "trust": "working"}
ANSWER = {"handle": "C-abcdef", "parents": [], "depth": 1, "seen": {}, "key": "a", "value": SET, "source": "user"}
PLAIN_ANSWER = {"handle": "H-abcdef", "parents": [], "depth": 0, "seen": {}}
CHOSEN, ANSWERED, EDIT = {"chosen": "P1-" + TAG}, {"proposal": "P1-" + TAG}, {"edit": "K1-" + TAG}
SAID = {"proposal": "P1-" + TAG}
KEPT = {"sha256": HASH, "size": 0}
#: Rules about several fields at once: kind, a sound body, what breaks it, the field that is named.
RULES = (
    ("proposal", PROPOSAL, {"source": "legacy"}, "source"), ("proposal", PROPOSAL, {"source": "system"}, "source"),
    ("proposal", PROPOSAL, {"trust": "confirmed"}, "trust"), ("proposal", PROPOSAL, {"trust": "confirmed", "source": "external"}, "trust"),
    ("proposal", PROPOSAL, {"value": PATTERN}, "evidence"), ("proposal", PROPOSAL, {"imported": False}, "imported"),
    ("proposal", PROPOSAL, {"depth": 0}, "depth"), ("proposal", PROPOSAL, {"staged": ["S1-" + TAG]}, "staged"),
    *(("resolution", dict(ANSWER, answer=answer, **more), {"depth": 0}, "depth") for answer, more in (
        ("choose", CHOSEN), ("text", {}), ("accept", ANSWERED), ("adopt", EDIT), ("close", {"value": CLOSE}))),
    *(("resolution", dict(ANSWER, answer=answer, **more), {name: None}, name) for answer, more in (
        ("choose", CHOSEN), ("accept", ANSWERED), ("adopt", EDIT)) for name in (*more, "key", "value", "source")),
    *(("resolution", dict(ANSWER, answer=answer, **more), extra, next(iter(extra))) for answer, more in (
        ("choose", CHOSEN), ("text", {}), ("accept", ANSWERED), ("adopt", EDIT)) for extra in (CHOSEN, ANSWERED, EDIT) if extra != more),
    ("resolution", dict(ANSWER, answer="close", value=CLOSE), {"value": SET}, "value"),
    ("resolution", dict(ANSWER, answer="text"), {"value": {"op": "touch"}}, "value"),
    *(("resolution", dict(PLAIN_ANSWER, answer="decline", key="a", **ANSWERED), more, name) for more, name in (
        ({"depth": 1}, "parents"), ({"parents": ["P1-" + TAG]}, "parents"), ({"key": None}, "key"), ({"proposal": None}, "proposal"),
        (EDIT, "edit"),
        (CHOSEN, "chosen"), ({"value": SET}, "value"), ({"source": "user"}, "source"))),
    *(("resolution", dict(PLAIN_ANSWER, answer="dismiss", **EDIT), more, name) for more, name in (
        ({"depth": 1}, "parents"), ({"key": "a"}, "key"), ({"edit": None}, "edit"), (ANSWERED, "proposal"))),
    *(("recovery", dict(KEPT, what=what, path="p"), {name: None}, name) for what in ("view", "torn") for name in KEPT),
    ("recovery", {"what": "loss", "path": LEDGER, "lines": [[1, 1]]}, {"lines": None}, "lines"),
    *(("recovery", dict({"what": what, "path": LEDGER}, **more), {"path": path}, "path") for what, more in (
        ("restored", {}), ("restored", KEPT), ("loss", {"lines": [[1, 1]]})) for path in (
        "p", "MEMORY.md", "../" + LEDGER, LEDGER + "x", LEDGER[1:], LEDGER.upper(), "/" + LEDGER, LEDGER.replace("k", "l"))),
    *(("erase", {"targets": ["E1-" + TAG], "bodies": [HASH]}, {name: wrong}, name) for name, wrong in (
        ("bodies", None), ("bodies", []), ("bodies", [HASH[1:]]), ("targets", None), ("targets", []), ("targets", ["E1-" + TAG] * 2),
        *(("targets", ["%s1-%s" % (letter, TAG)]) for letter in "AWVTM"), ("files", []), ("note", ""))),
    *(("revision", {"run": "R1-" + TAG, "seen": {}, "decisions": [dict(SAID, outcome=outcome, reason=reason, **more)]},
       {"decisions": [dict(SAID, **wrong)]}, "decisions") for outcome, reason, more, wrong in (
        ("accepted", "alone", {"parents": []}, {"outcome": "accepted", "reason": "alone"}),
        ("accepted", "beside", {"parents": []}, {"outcome": "accepted", "reason": "same", "parents": []}),
        ("accepted", "beside", {"parents": []}, {"outcome": "held", "reason": "needs-owner", "parents": []}),
        ("noop", "same", {"rests": "P1-" + TAG}, {"outcome": "noop", "reason": "same"}),
        ("noop", "touched", {}, {"outcome": "noop", "reason": "touched", "rests": "P1-" + TAG}),
        ("held", "unknown-key", {}, {"outcome": "held", "reason": "touched"}), ("held", "needs-owner", {}, {"outcome": "held"}))),
)


@pytest.mark.packages
@pytest.mark.parametrize("number", range(len(RULES)))
def test_each_rule_about_several_fields_is_kept_by_both(checks, number):
    """A sound body is taken by both checks, and refused by both once it breaks one rule; the plain check names the field."""
    kind, body, change, name = RULES[number]
    head = make_record(kind, random.Random(1))["head"]
    broken = {field: value for field, value in {**body, **change, "salt": SALT}.items() if value is not None}
    assert find_cause(kind, {"head": head, "body": dict(body, salt=SALT)}) is None
    assert checks[kind]({"head": head, "body": dict(body, salt=SALT)})
    assert find_cause(kind, {"head": head, "body": broken}) == name
    assert not checks[kind]({"head": head, "body": broken})


@pytest.mark.packages
@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_replica_stands_on_line_0_and_nothing_else_does(checks, kind):
    """Line 0 of a ledger is its replica record, to both checks, and no other line is."""
    record = make_record(kind, random.Random(1))
    record["head"]["seq"] = 1 if kind == "replica" else 0
    assert find_cause(kind, record) == "head"
    assert not checks[kind](record)


@pytest.mark.long
@pytest.mark.packages
@pytest.mark.parametrize("seed", range(2))
def test_plain_checks_and_schemas_agree_over_many_records(checks, seed):
    """What holds for some mutated records holds for many, and where both differ it is for a reason that has a name."""
    seen = _judge_mutants(checks, 2000, 100 + seed)
    assert is_unsorted.__name__ in seen


@pytest.mark.packages
@pytest.mark.parametrize(("exception", "kind", "change"), [
    (is_unsorted, "erase", {"targets": ["P2-" + TAG, "P1-" + TAG], "bodies": [HASH] * 2}),
    (is_uneven, "erase", {"targets": ["P1-" + TAG, "P2-" + TAG], "bodies": [HASH]}),
    (is_uneven, "erase", {"targets": ["P1-" + TAG], "bodies": [HASH] * 2}),
    (is_decided_twice, "revision", {"decisions": [{"proposal": "P1-" + TAG, "outcome": "noop", "reason": "touched"},
                                                  {"proposal": "P1-" + TAG, "outcome": "held", "reason": "needs-owner"}]}),
    (is_unsorted, "proposal", {"base": ["S1-" + TAG, "P1-" + TAG]}),
    (is_span_reversed, "recovery", {"what": "loss", "path": LEDGER, "lines": [[4, 1]]}),
    (is_detail_wide, "proposal", {"value": {"op": "set", "tier": 2, "text": "t", "importance": 3, "status": "active",
                                            "detail": "\u00e9" * 20_000}}),
], ids=["targets", "too-few-bodies", "too-many-bodies", "decided-twice", "base", "lines", "detail"])
def test_what_a_schema_cannot_say_is_refused_by_the_plain_checks(checks, exception, kind, change):
    """Each named exception is one: the schema takes the record, the engine refuses it."""
    record = make_record(kind, random.Random(2))
    record["body"].update(change)
    assert exception(record)
    assert checks[kind](record)
    assert find_cause(kind, record) in change


@pytest.mark.packages
def test_the_limits_of_text_are_the_same_in_both(checks):
    """Every character is allowed or refused, alone and beside another, by both checks alike, in lines and in blocks."""
    ranges = ((0, 0x700), (0x1670, 0x1690), (0x1800, 0x1820), (0x1FF0, 0x2080), (0x2FF0, 0x3010), (0xD7F0, 0xE010), (0xFDC0, 0xFE10),
              (0xFEF0, 0x10010), (0xDFFF0, 0xE0090), (0x10FFF0, 0x110000))
    for name, is_fine in (("line", engine.is_line), ("prose", lambda v: engine.is_block(v, 2000))):
        for point in (point for limits in ranges for point in range(*limits)):
            for text in (chr(point), "a" + chr(point)):
                assert checks[name](text) == is_fine(text), (name, hex(point))


# -- operations --

#: Codes that speak of the vault, or of what is inherited from it, and not of the line.
OF_STATE = {"unknown-evidence", "ambiguous-evidence", "present-key", "absent-key", "unknown-proposal", "not-withdrawable", "stale",
            "too-many-staged"}


def make_operation(rng):
    """Return an operation that `apply` takes, as far as its line goes."""
    does = rng.choice(("journal", "propose", "propose", "propose", "propose", "withdraw", "sync"))
    if does == "journal":
        more = {"importance": some(1, 5), "ref": some("r1", "D1:3", "x" * 200)}
        return {"do": does, **made(rng, {"text": some("a", "a\n\tb", "x" * 8000)}, more)}
    if does == "withdraw":
        return {"do": does, "proposal": one("P")(rng)}
    if does == "sync":
        return {"do": does}
    cited = lambda r: [r.choice((some("r0", "https://a.b"), MEASURED))(r) for _ in range(r.choice((1, 2, 32)))]  # noqa: E731
    op = rng.choice(engine.OPS)
    fields = made(rng, {"do": some("propose"), "key": lambda r: r.choice(("one", "two", "three", "k%d" % r.randrange(500)))},
                  {"why": LINE, "evidence": cited, "source": some(*engine.SOURCES), "new_subject": some(False)})
    fields.update({"source": "user", "trust": "confirmed"} if rng.random() < 0.3 else {})
    if op != "set":
        return dict(fields, op=op)
    tier = rng.choice(engine.TIERS)
    value = set_value(rng, tier)
    value.pop("op")
    if rng.random() < 0.2:
        cleared = [n for n in ("detail", "links", "tags", "falsifier") if n not in value]
        fields["clear"] = cleared
    fields.update({"evidence": cited(rng)} if tier == 3 else {}, new_subject=rng.random() < 0.5)
    return dict(fields, **value)


def says_nothing(op):
    """A name with null or an empty list is as if it were absent."""
    return isinstance(op, dict) and any(value is None or value == [] for value in op.values())


def has_crlf(op):
    """CRLF in a text of several lines is read as LF."""
    return isinstance(op, dict) and any("\r\n" in op[name] for name in ("text", "detail") if isinstance(op.get(name), str))


#: What `apply` takes and the schema, which describes an operation as it is then read, does not.
READ_AS_OTHERWISE = (says_nothing, has_crlf)


def open_world():
    """Return a replica with a run and three subjects, one of each tier."""
    replica = replicas.World(1).replicas[0]
    run = replica.start()
    replica.call("journal", run=run, text="seen", importance=None, ref="r0")
    for tier, key in enumerate(("one", "two", "three"), 1):
        replica.propose(run, key, tier=tier, new_subject=True, evidence=["r0"], source="user", trust="confirmed")
    replica.sync(run)
    return replica, run


def judge_operations(checks, operations, seen):
    """Assert that `apply` and the schema take the same lines, as far as grammar goes; count the codes."""
    replica, run = open_world()
    lines = [json.dumps(op) for op in operations]
    rows = replica.call("apply", run=run, lines=lines)["results"]
    assert [row["line"] for row in rows] == list(range(1, len(lines) + 1))
    for op, row in zip(operations, rows):
        code = row.get("code")
        assert code is None or code in engine.CODES
        seen[code] += 1
        if checks["operation"](op):
            fine = code is None or code in OF_STATE or (code == "bad-field" and "tier" not in op)
        else:
            fine = code is not None or any(reason(op) for reason in READ_AS_OTHERWISE)
        assert fine, (code, row.get("message"), op)


def mutate_operation(op, rng):
    """Return a copy with a part replaced, taken away or added."""
    names = [n for names in engine.OPERATIONS.values() for n in names]
    changed = mutate({"body": op, "head": {"x": 1}}, rng)["body"]
    if rng.random() < 0.2:
        changed[rng.choice(names)] = copy.deepcopy(rng.choice(POOL))
    return changed


@pytest.mark.packages
def test_apply_takes_what_the_schema_of_operations_takes(checks):
    """`apply` and the published schema agree on the grammar of one line, over sound and mutated operations."""
    rng, seen = random.Random(7), collections.Counter()
    operations = [make_operation(rng) for _ in range(200)]
    operations += [mutate_operation(make_operation(rng), rng) for _ in range(600)]
    operations += [{"do": "propose", "key": "two", "text": "t", "tier": 2, **more} for more in (
        {"trust": "confirmed"}, {"trust": "confirmed", "source": "external"}, {"trust": "confirmed", "source": "user"},
        {"until": "2026-02-29"}, {"until": "2028-02-29"}, {"tags": ["a"], "clear": ["tags"]}, {"tags": [], "clear": ["tags"]})]
    for does, names in engine.OPERATIONS.items():
        for name in (*names, "extra"):
            sound = next(op for op in iter(lambda: make_operation(rng), None) if op["do"] == does)
            operations += [{**sound, name: wrong} for wrong in (-1, "\n", {"x": 1}, [[]], True)]
    judge_operations(checks, operations, seen)
    assert {None, "bad-operation", "bad-key", "bad-text", "bad-date", "bad-id", "bad-value", "bad-field", "needs-user"} <= seen.keys()


@pytest.mark.long
@pytest.mark.packages
@pytest.mark.parametrize("seed", range(2))
def test_apply_and_schema_agree_over_many_operations(checks, seed):
    """What holds for some operations holds for many."""
    rng = random.Random(seed)
    judge_operations(checks, [mutate_operation(make_operation(rng), rng) for _ in range(3000)], collections.Counter())


def teardown_module():
    """Close what the last test opened."""
    replicas.close_last()
