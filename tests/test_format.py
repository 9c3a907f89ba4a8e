"""The bytes of the format are pinned: an accidental change of a record or a view fails here.

`tests/data/format-1*` hold what a scripted day in two copies of one vault writes. `python3 tests/test_format.py
--write` makes them anew. A ledger's bytes must never change for the same commands while the format is 1; a view's
bytes may, with a line in CHANGELOG.md.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
import scratch

engine = scratch.engine
DATA = Path(__file__).resolve().parent / "data"
FIRST, SECOND, LOST = scratch.SCRATCH_TAGS
#: The last one has lost lines.
LEDGERS = {FIRST: "format-1.jsonl", SECOND: "format-1-second.jsonl", LOST: "format-1-lost.jsonl"}
FORM, VIEWS, UNWRITTEN = "format-1.json", "format-1-views.txt", "format-1-unwritten.jsonl"
#: What this engine writes: values of fields that the script must have made.
WRITTEN = {
    "how": {"close", "recovered"},
    "answer": {"choose", "close", "text", "accept", "decline", "adopt", "dismiss"},
    "what": {"view", "torn", "restored", "loss"},
    "op": {"set", "touch", "close"},
    "trust": set(engine.TRUSTS),
    "source": set(engine.SOURCES),
    "reason": {"alone", "beside", "same", "touched", "unknown-key", "needs-owner"},
    "outcome": {"accepted", "noop", "held", "success", "partial"},
}
#: Fields that only other engines write.
READ_ONLY = {"origin", "dated", "imported"}

#: Bodies of kinds and variants that this engine takes, and does not write or not so.
BODIES = (
    ("run-open", {"actor": "codex", "seen": {}, "dated": "2025-03-01T09:00:00.000Z", "origin": {
        "format": "chatlog", "name": "chat.sqlite", "id": "session-12", "sha256": "0" * 64}}),
    ("journal", {"run": "R1-k7qdm2xw", "text": "Imported.", "importance": 1, "ref": "D1:3", "dated": "2025-03-01T09:00:00.000Z"}),
    ("proposal", {"run": "R1-k7qdm2xw", "key": "a.b", "value": {"op": "set", "tier": 1, "kind": "rule", "text": "Ask first."},
                  "base": [], "staged": [], "depth": 1, "new_subject": True, "source": "legacy", "trust": "confirmed",
                  "imported": True, "dated": "2025-03-01T09:00:00.000Z"}),
    ("proposal", {"run": "R1-k7qdm2xw", "key": "a.b", "value": {"op": "close", "tier": 1}, "base": ["P3-k7qdm2xw", "S1-m3rtw9zh"],
                  "staged": ["P4-k7qdm2xw"], "depth": 2, "new_subject": False, "source": "system", "trust": "working",
                  "imported": True}),
    ("run-close", {"run": "R1-k7qdm2xw", "outcome": "overflow", "summary": "Imported.", "how": "imported",
                   "dated": "2025-03-01T09:00:00.000Z"}),
    ("run-close", {"run": "R1-k7qdm2xw", "outcome": "fail", "summary": "The session ended.", "how": "lazy"}),
    ("resolution", {"handle": "X-7f3a91", "answer": "adopt", "key": "a.b", "edit": "K9-k7qdm2xw", "parents": ["P3-k7qdm2xw"], "depth": 2,
                    "seen": {}, "source": "user", "value": {"op": "set", "tier": 1, "kind": "rule", "text": "Ask twice."}}),
    ("resolution", {"handle": "X-" + "7" * 64, "answer": "dismiss", "edit": "K9-k7qdm2xw", "parents": [], "depth": 0,
                    "seen": {"m3rtw9zh": 4}}),
    ("setting", {"name": "model.name", "value": "a line"}),
    ("recovery", {"what": "restored", "path": ".muniment/ledger/k7qdm2xw.jsonl", "sha256": "0" * 64, "size": 0, "note": "From\na copy."}),
    ("recovery", {"what": "loss", "path": ".muniment/ledger/k7qdm2xw.jsonl", "lines": [[3, 3], [5, 9]]}),
    ("erase", {"targets": ["E3-k7qdm2xw", "P4-k7qdm2xw"], "bodies": ["1" * 64, "2" * 64], "files": ["0" * 64], "note": "A name."}),
)


def make_day(folder):
    """Give the commands of a day in two copies of one vault; return both."""
    one = scratch.Scratch(folder / "one")
    one.ok("init", "--tracked")
    codex = started(one, "codex")
    claude = started(one, "claude", "--session", "chat 7")
    by_codex, by_claude = (functools.partial(one.ok, "propose", "--run", run) for run in (codex, claude))
    text = "The sandbox answers 504.\n\n> one call in ten \u2014 <b>%%\u200d"
    one.ok("journal", "--run", codex, "--text", text, "--importance", "5", "--ref", "D1:3")
    one.ok("journal", "--run", claude, "--text", "-", stdin=b"From outside.\r\nTwo lines.\n")
    (one.folder / "detail.md").write_bytes(b"# Not a heading\r\n\r\n\t- [[x]] ^y\n\n")
    by_codex("--key", "shop.next-step", "--tier", "2", "--new-subject", "--text", "Retry twice. [[x]] $$y$$", "--importance", "4",
             "--status", "watch", "--until", "2026-12-01", "--detail-file", "detail.md", "--tag", "web/shop", "--tag", "pay",
             "--link", "shop.db", "--why", "Measured.", "--evidence", "D1:3", "--evidence", "https://ci.example/7",
             "--measured", "1,2026-11-29,make test", "--now")
    by_codex("--key", "shop.db", "--tier", "1", "--kind", "decision", "--new-subject", "--text", "PostgreSQL 16.", "--now")
    answer(one, "shop.db", "--choose", "accept", "--note", "Yes.\nPostgreSQL.")
    by_claude("--key", "shop.mondays", "--tier", "3", "--new-subject", "--text", "Mondays fail.", "--falsifier", "A good Monday.",
              "--confidence", "developing", "--evidence", "D1:3", "--source", "external", "--now")
    by_claude("--key", "shop.owner", "--tier", "1", "--new-subject", "--text", "Ada decides.", "--source", "user",
              "--trust", "confirmed", "--now")
    by_claude("--key", "shop.typo", "--tier", "2", "--text", "Held.", "--now")
    answer(one, "shop.typo", "--choose", "decline")
    two = diverge(one, folder / "two", codex)
    for run in (claude, codex):
        one.ok("sync", "--run", run)
    by_claude("--key", "shop.next-step", "--text", "Use a queue.", "--clear", "detail", "--clear", "tags", "--now")
    answer(one, "shop.next-step", "--text", "A queue, from January on.", "--note", "Mine.", "--measured", "0,2026-11-30,true")
    both_change(one, codex, claude, "shop.cache")
    answer(one, "shop.cache", "--choose", "current")
    both_change(one, codex, claude, "shop.mail")
    answer(one, "shop.mail", "--choose", "close")
    both_change(one, codex, claude, "shop.tax")
    one.ok("withdraw", one.json("recall", "shop.tax")[1]["contenders"][-1]["id"], "--run", claude)
    both_change(one, codex, claude, "shop.open")
    by_codex("--key", "shop.done", "--tier", "2", "--new-subject", "--text", "Short.", "--now")
    by_codex("--key", "shop.done", "--op", "close", "--why", "Done.", "--now")
    by_codex("--key", "shop.sale", "--tier", "2", "--new-subject", "--text", "Prices are cut.", "--until", "2026-12-01", "--now")
    one.ok("config", "hot-lines", "100", "--human-approved")
    (one.vault / "MEMORY.md").write_bytes(b"Edited.\n")
    with one.ledger().open("ab") as ledger:
        ledger.write(b'{"body":{"importa')
    one.ok("maintain", "--mark", "--run", codex)
    two.take(one)
    two.now_ms = one.now_ms + 3 * 86_400_000
    two.ok("recover-run", "--run", codex, "--summary", "It was lost.", "--human-approved")
    one.take(two)
    one.ok("close", "--run", claude, "--outcome", "success", "--summary", "Done.\n\nAll of it.")
    two.take(one)
    harm(one, two, folder / "three")
    two.ok("status")
    return one, two


def harm(one, two, folder):
    """Edit views, damage two ledgers and erase a text, and let the owner answer to all of it."""
    run = started(one, "codex")
    edit(one, "MEMORY.md", "Prices are cut.", "Prices are halved.")
    edit(one, "notes/shop.owner.md", "> Ada decides.", "> Ada decides, or Bob.")
    one.ok("review", "--all")
    one.ok("resolve", "edits", "--choose", "adopt", "--note", "As I wrote.", "--human-approved")
    two.take(one)
    three = two.copy(folder, scratch.Chance([LOST]))
    theirs = started(three, "claude")
    for text in ("It was seen by one.", "It was seen by nobody else.", "It was seen again."):
        three.ok("journal", "--run", theirs, "--text", text)
    three.ok("propose", "--run", theirs, "--key", "shop.third", "--tier", "2", "--new-subject", "--text", "Count them.", "--now")
    two.take(three)
    damage(two.ledger(LOST), b"by nobody else")
    two.ok("restore", "--accept-loss", "--human-approved")
    damage(two.ledger(), b"Use a queue")
    two.ok("restore", "--from", str(one.ledger()))
    one.take(two)
    one.ok("sync", "--run", run)
    for text in ("Her number is 555-0123.", "Call her at 555-0123, or not."):
        one.ok("journal", "--run", run, "--text", text, "--ref", "call-%d" % len(text))
    one.ok("propose", "--run", run, "--key", "shop.number", "--tier", "2", "--new-subject", "--text", "Call 555-0123.", "--now")
    (one.vault / "INDEX.md").write_bytes(b"555-0123\n")
    one.ok("erase", "--text", "555-0123", "--note", "A number.", "--human-approved")
    (one.vault / "MEMORY.md").write_bytes(b"Edited again.\n")
    one.ok("review", "--all")
    one.ok("resolve", "edits", "--choose", "dismiss", "--human-approved")
    shutil.copy(one.ledger(), two.ledger())  # shorter than the one that holds the text


def edit(vault, name, old, new):
    """Change a view by hand."""
    path = vault.vault / name
    before = path.read_bytes()
    path.write_bytes(before.replace(old.encode("utf-8"), new.encode("utf-8")))
    assert path.read_bytes() != before


def damage(ledger, text):
    """Change a letter of the line that holds a text."""
    data = ledger.read_bytes()
    assert text in data
    ledger.write_bytes(data.replace(text, text[:-1] + b"~", 1))


def diverge(one, folder, codex):
    """Let a copy of the vault and the vault itself change the same subject, and bring that to the vault; return the copy."""
    two = one.copy(folder, scratch.Chance([SECOND]))
    run = started(two, "claude")
    propose = functools.partial(two.ok, "propose", "--run", run)
    propose("--key", "shop.next-step", "--text", "Use a queue.", "--clear", "detail", "--clear", "tags", "--now")
    propose("--key", "shop.mondays", "--op", "touch", "--evidence", "D1:3", "--now")
    propose("--key", "shop.lost", "--tier", "2", "--new-subject", "--text", "Staged by a run that is lost.")
    one.ok("sync", "--run", codex)
    one.ok("propose", "--run", codex, "--key", "shop.next-step", "--text", "Retry three times.", "--now")
    one.take(two)
    return two


def started(vault, actor, *more):
    """Return the handle of a run that is opened."""
    return vault.ok("start", "--actor", actor, *more).split()[1]


def answer(vault, key, *words):
    """Answer the question about a key."""
    handle = re.search(r"^([CH]-[0-9a-f]{6}) ", vault.ok("review", key), re.MULTILINE)[1]
    vault.ok("resolve", handle, *words, "--human-approved")


def both_change(vault, one, other, key):
    """Let two runs make values of one key, neither having seen the other's."""
    vault.ok("sync", "--run", one)
    vault.ok("sync", "--run", other)
    for run, text in ((one, "A."), (other, "B.")):
        vault.ok("propose", "--run", run, "--key", key, "--tier", "2", "--new-subject", "--text", text)
    vault.ok("sync", "--run", one)
    vault.ok("sync", "--run", other)


def views_of(vault):
    """Return all views of a vault as one text."""
    return "".join("==== %s\n%s" % item for item in vault.views().items())


def unwritten_lines():
    """Return the ledger lines of the bodies that this engine does not write."""
    lines = []
    for n, (kind, fields) in enumerate(BODIES, 1):
        body = engine.make_body(kind, "%032x" % n, **fields)
        head = {"at": "2026-11-30T08:12:45.%03dZ" % n, "kind": kind, "prev": "0" * 64, "seq": n, "unit": 1}
        lines.append(engine.encode_record(head, body)[0])
    return b"".join(lines)


def make_files(folder):
    """Return the bytes of every pinned file by its name."""
    one, two = make_day(folder)
    assert one.views() == two.views()
    made = {name: two.ledger(tag).read_bytes() for tag, name in LEDGERS.items()}
    form = (one.vault / ".muniment" / "format.json").read_bytes()
    made.update({FORM: form, VIEWS: views_of(one).encode("utf-8"), UNWRITTEN: unwritten_lines()})
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return what the script makes now."""
    folder = tmp_path_factory.mktemp("format")
    return make_files(folder)


@pytest.mark.parametrize("name", [*LEDGERS.values(), FORM, VIEWS, UNWRITTEN])
def test_the_same_commands_make_the_same_bytes(name, made):
    """Commands, clock and chance decide every byte of ledgers and views."""
    assert made[name].decode("utf-8") == (DATA / name).read_bytes().decode("utf-8")


@pytest.fixture
def pinned(tmp_path):
    """Return a vault that holds the pinned ledgers and nothing else."""
    vault = scratch.Scratch(tmp_path)
    for tag, name in LEDGERS.items():
        vault.ledger(tag).parent.mkdir(parents=True, exist_ok=True)
        vault.ledger(tag).write_bytes((DATA / name).read_bytes())
    (vault.vault / ".muniment" / "format.json").write_bytes((DATA / FORM).read_bytes())
    return vault


def test_pinned_ledgers_give_the_pinned_views(pinned):
    """Folding old ledgers afresh gives every view byte for byte, and nothing in them is found wrong; what was lost is said."""
    pinned.ok("rebuild")
    assert views_of(pinned) == (DATA / VIEWS).read_bytes().decode("utf-8")
    status, found = pinned.json("doctor")
    assert (status, [(f["severity"], f["kind"]) for f in found["findings"]]) == (0, [("notice", "given-up")])


def test_pinned_ledgers_can_be_written_on(pinned):
    """A vault of old ledgers takes a new replica, whose first run has seen all of them."""
    pinned.chance.tags = ["q5t2w8xz"]
    run = started(pinned, "codex")
    pinned.ok("propose", "--run", run, "--key", "shop.open", "--text", "C.", "--now")
    line = pinned.ledger("q5t2w8xz").read_bytes().split(b"\n")[1]
    ends = {tag: json.loads((DATA / name).read_bytes().splitlines()[-1])["head"]["seq"] for tag, name in LEDGERS.items()}
    assert engine.decode_record(line + b"\n")[1]["seen"] == ends


def struck():
    """Return from the pinned lines, read as plain JSON, the spans of lost lines by tag, and the erased ids with their skeletons' hashes."""
    lost, erased = {}, {}
    for name in LEDGERS.values():
        for line in (DATA / name).read_bytes().splitlines():
            body = json.loads(line)["body"]
            if body.get("what") == "loss":
                lost.setdefault(body["path"][-14:-6], []).extend(body["lines"])
            erased.update(zip(body.get("targets", ()), body.get("bodies", ())))
    return lost, erased


def decode(line, tag, erased):
    """Return head and body of a line, and the hash of its head."""
    head, body, _, top = engine.decode_record(line, lambda head: {erased.get("%s%d-%s" % (engine.LETTERS[head["kind"]], head["seq"], tag))})
    return head, body, top


def records_of(name):
    """Return (head, body) of each line of a pinned file, decoded and encoded again; of an erased record the skeleton."""
    found, erased = [], struck()[1]
    tags = {name: tag for tag, name in LEDGERS.items()}
    for line in (DATA / name).read_bytes().splitlines(keepends=True):
        head, body, _ = decode(line, tags.get(name), erased)
        if "erased" in body:
            assert engine.canonical({"body": body, "head": head}).encode("utf-8") + b"\n" == line
        else:
            engine.check_record(head["kind"], body)
            assert engine.encode_record(head, body)[0] == line
        found.append((head, body))
    return found


def test_records_are_their_canonical_bytes():
    """Every pinned line decodes, passes its kind's check and encodes to itself, those of other engines too."""
    kinds = {head["kind"] for name in (*LEDGERS.values(), UNWRITTEN) for head, _ in records_of(name)}
    assert kinds == set(engine.LETTERS)


def test_the_script_writes_every_kind_and_field_that_this_engine_writes():
    """No kind, field or word that the engine writes is missing from the pinned ledgers."""
    records = [record for name in LEDGERS.values() for record in records_of(name)]
    written = {head["kind"] for head, _ in records}
    assert written == set(engine.LETTERS)
    erased = [(head, body) for head, body in records if "erased" in body]
    assert {head["kind"] for head, _ in erased} == {"journal", "proposal", "recovery"}
    records = [record for record in records if record not in erased]
    for kind in written:
        fields = {name for head, body in records if head["kind"] == kind for name in body}
        assert fields >= {*engine.FIELDS[kind][0], *engine.FIELDS[kind][1]} - READ_ONLY - ({"note"} if kind == "recovery" else set()), kind
    said = {}
    for _, body in records:
        for part in (body, body.get("value", {}), *body.get("decisions", ())):
            for name, value in part.items() if isinstance(part, dict) else ():
                said.setdefault(name, set()).add(value if isinstance(value, str) else None)
    for name, words in WRITTEN.items():
        assert said[name] >= words, name
    values = {name for _, body in records if isinstance(body.get("value"), dict) for name in body["value"]}
    own = {name for fields in engine.TIER_FIELDS.values() for name in fields}
    assert values == own | {"op", "tier", "text", "detail", "until", "links", "tags"}


def test_what_was_erased_or_lost_is_nowhere_in_the_pinned_bytes():
    """An erased text is in no pinned ledger or view, what was lost in no ledger, and what stands behind the gap counts."""
    data = {name: (DATA / name).read_bytes() for name in (*LEDGERS.values(), VIEWS)}
    for text in (b"555-0123", b"call-", b"by nobody else"):
        assert [name for name in data if text in data[name]] == []
    assert b"Count them." in data[VIEWS]
    assert data[VIEWS].count(b"(erased)") >= 3


def test_units_and_chain_are_whole():
    """Each ledger starts from its vault and tag, and each line follows the one before, but for lines that are recorded as lost."""
    vault = json.loads((DATA / FORM).read_bytes())["vault"]
    lost, erased = struck()
    for tag, name in LEDGERS.items():
        tail, open_unit, due = engine.first_prev(vault, tag), 0, 0
        for line in (DATA / name).read_bytes().splitlines(keepends=True):
            head, _, after = decode(line, tag, erased)
            gap = [last for first, last in lost.get(tag, ()) if first == due]
            due = gap[0] + 1 if gap else due
            open_unit += 1
            assert head["seq"] == due
            assert (head["prev"] == tail) == (not gap)
            if "unit" in head:
                assert head["unit"] == open_unit
                open_unit = 0
            tail, due = after, due + 1
        assert open_unit == 0


def main(words):
    """Say which pinned files differ from what the script makes now, or write them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in make_files(Path(folder)).items():
            path = DATA / name
            if "--write" in words:
                path.write_bytes(data)
            elif not path.exists() or path.read_bytes() != data:
                sys.stdout.write("%s differs\n" % name)


if __name__ == "__main__":
    main(sys.argv[1:])
