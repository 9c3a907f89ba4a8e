"""Fuzz what reads text from outside: ledger lines, lines of `apply`, edited notes.

A target checks one input and raises if a promise is broken. With atheris (a coverage-guided fuzzer) it is driven by
what code an input reaches, without it by chance alone:

    python tests/fuzz.py --target ledger --seconds 3600 [--keep DIR] [--plain] [--seed N]

An input that breaks a promise is written to DIR (by default tests/data/fuzz) as TARGET-HASH; tests/test_fuzz.py
replays what is kept there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for _path in (str(ROOT), str(ROOT / "tests")):
    if _path not in sys.path:
        sys.path.insert(0, _path)

if __name__ == "__main__" and "--plain" not in sys.argv and importlib.util.find_spec("atheris"):
    import atheris

    with atheris.instrument_imports(include=["engine"]):  # what an input reaches is seen only in what is imported here
        importlib.import_module("engine")

import damage  # noqa: E402 - the folder of the tests comes first, and what is instrumented
import replicas  # noqa: E402
from scratch import engine  # noqa: E402

KEPT = ROOT / "tests" / "data" / "fuzz"
#: The kind of each letter, as inputs name it.
KINDS = {letter: kind for kind, letter in engine.LETTERS.items()}


class Ledger:
    """Lines of a ledger. An input is the number of sound lines that are kept, then lines that follow them.

    A line that begins with a letter of an id is that kind's body, and is chained as it must be into one unit with the
    others; any other line is put as it is.
    """

    name = "ledger"

    def __init__(self, folder):
        self.case = damage.Case(folder / "clone", damage.Case(folder))
        self.tag = self.case.tags[0]
        self.lines = self.case.lines(self.tag)
        self.ends = [0] + [n + 1 for n, line in enumerate(self.lines) if "unit" in json.loads(line)["head"]]
        self.path = self.case.root / self.case.name(self.tag)

    def seeds(self):
        """Return inputs to begin with: each unit where it stands, and at the end."""
        found = [b"%d\n" % self.ends[-1] + self.case.foreign[1], b"0\n" + b"".join(self.lines[:1])]
        for first, last in zip(self.ends, self.ends[1:]):
            bodies = []
            for line in self.lines[first:last]:
                record = json.loads(line)
                bodies.append(engine.LETTERS[record["head"]["kind"]] + engine.canonical(record["body"]))
            found += [("%d\n%s" % (n, "\n".join(bodies))).encode() for n in (first, self.ends[-1])]
        return found

    def compose(self, data):
        """Return the ledger that an input makes."""
        first, _, rest = data.partition(b"\n")
        wanted = int(first) if first.isdigit() and len(first) < 6 else 10 ** 6
        kept = self.lines[:max(n for n in self.ends if n <= wanted)]
        more = rest.split(b"\n")
        last = json.loads(kept[-1])["head"] if kept else {"at": engine.format_at(damage.FIRST_MS), "seq": -1}
        prev = engine.sha256(engine.canonical(last)) if kept else engine.first_prev(self.case.vault_id, self.tag)
        at, out = engine.format_at(engine.parse_at(last["at"]) + 1), []
        for n, line in enumerate(more, 1):
            kind = KINDS.get(line[:1].decode("latin-1"))
            if kind is None:
                out.append(line + b"\n")
                continue
            head = {"at": at, "body": engine.sha256(line[1:]), "kind": kind, "prev": prev, "seq": last["seq"] + n}
            if n == len(more):
                head["unit"] = n
            top = engine.canonical(head)
            prev = engine.sha256(top)
            out.append(b'{"body":' + line[1:] + b',"head":' + top.encode() + b"}\n")
        return b"".join([*kept, *out]), out

    def check(self, data):
        """Each line is decoded or refused; the fold is the same in either order; doctor and the views come to an end."""
        ledger, lines = self.compose(data)
        for line in lines:
            with contextlib.suppress(engine.BadRecord):
                head, body, text, _ = engine.decode_record(line)
                if engine.canonical(body) == text:
                    assert engine.encode_record(dict(head), body)[0] == line
        self.path.write_bytes(ledger)
        vault = engine.open_vault(str(self.case.root))
        one, two = self.fold(vault, False), self.fold(vault, True)
        with contextlib.closing(one), contextlib.closing(two):
            assert replicas.tables(one) == replicas.tables(two), "the fold depends on the order of the ledgers"
            replicas.views(one)
        status, answer = self.case.scratch.json("doctor")
        assert status in (0, 7, 8), answer

    def fold(self, vault, backwards):
        """Return the fold of the ledgers, one after another."""
        state = engine.create_cache(vault, ":memory:")
        state.begin()
        for tag, stat in sorted(engine.list_ledgers(vault).items(), reverse=backwards):
            engine.fold(state, vault, engine.first_position(vault, tag), stat.st_size)
        state.flush()
        state.commit()
        return state


class Apply:
    """Lines of `apply`. An input is a file of operations; one that begins with a blank line is atomic."""

    name = "apply"
    prepared = (
        {"do": "journal", "text": "Seen.", "ref": "log-1"},
        {"do": "propose", "key": "a.b", "tier": 2, "new_subject": True, "text": "One."},
        {"do": "propose", "key": "c", "tier": 1, "new_subject": True, "text": "Said.", "source": "user", "trust": "confirmed"},
        {"do": "propose", "key": "d", "tier": 3, "new_subject": True, "text": "Often.", "evidence": ["log-1"]},
        {"do": "sync"},
    )
    more = (
        {"do": "propose", "key": "a.b", "text": "Two.", "why": "New.", "tags": ["x", "y/z"], "links": ["c"],
         "until": "2026-12-31", "importance": 5},
        {"do": "propose", "key": "a.b", "op": "touch", "evidence": ["https://a.b/c", {"command": "make", "date": "2026-11-30", "exit": 0}]},
        {"do": "propose", "key": "c", "op": "close"},
        {"do": "propose", "key": "e", "tier": 2, "new_subject": True, "text": "x", "detail": "# Head\n\n- item\n", "status": "watch"},
        {"do": "propose", "key": "d", "clear": ["falsifier"], "confidence": "established", "evidence": ["E2-kkkkkkkk"]},
        {"do": "propose", "key": "c", "kind": "rule", "text": "Agent's.", "source": "external"},
        {"do": "withdraw", "proposal": "P12-kkkkkkkk"},
        {"do": "journal", "text": "a\nb", "importance": 1},
        {"do": "sync"},
    )

    def __init__(self, _):
        pass

    def seeds(self):
        """Return inputs to begin with."""
        lines = [json.dumps(o, ensure_ascii=False).encode() for o in self.more]
        return [*lines, b"\n".join(lines), b"\n" + b"\n".join(lines[:4]), b"\n".join(lines[:1] + lines[-1:] + lines[2:3] + lines[-1:])]

    def check(self, data):
        """Each line is done or refused with a code, and what was recorded replays to the same state and views."""
        try:
            lines = data.decode("utf-8-sig").split("\n")
        except UnicodeDecodeError:
            return  # refused before a line is looked at
        world = replicas.World(1)
        replica = world.replicas[0]
        run = replica.start()
        replica.call("apply", run=run, lines=[json.dumps(o) for o in self.prepared], atomic=False)
        atomic = not lines[0].strip()
        try:
            result = replica.call("apply", run=run, lines=lines, atomic=atomic)
        except engine.Refused as refused:
            if not atomic or refused.code != "atomic":
                raise
            result = {"results": []}
        for row in result["results"]:
            assert "code" in row or {"entry", "proposal", "withdrawn", "revision"} & set(row), row
        replica.sync(run)
        folded = replicas.fold_fresh([unit for units in world.ledgers.values() for unit in units])
        assert replicas.tables(folded) == replicas.tables(replica.state), "replay is not what was live"
        replicas.views(folded)
        for units in world.ledgers.values():
            for unit in units:
                for head, body, line in unit.records:
                    assert engine.decode_record(line)[:2] == (head, body)
        replicas.close_all()


class Edit:
    """Edited notes. An input is what a person made of the file of a subject."""

    name = "edit"

    def __init__(self, folder):
        self.case = damage.Case(folder)
        self.vault = engine.open_vault(str(self.case.root))
        self.state = engine.fold_fresh(self.vault)
        self.notes = sorted(n for n in self.case.files if n.endswith(".md"))

    def seeds(self):
        """Return every view as it is, and with a word more: the first line names its path."""
        found = [n.encode() + b"\n" + self.case.files[n] for n in self.notes]
        return found + [seed.replace(b"Retry", b"Do not retry").replace(b"\n", b"\r\n") for seed in found]

    def check(self, data):
        """It is read as statements of the owner, each of which could be recorded, or refused with a reason."""
        first, _, rest = data.partition(b"\n")
        path = first.decode("latin-1")
        if path not in self.case.files:
            path = self.notes[len(first) % len(self.notes)]
        rows, unread = engine.read_edit(self.state, path, rest, self.then)
        assert all(isinstance(said, str) for said in unread)
        for row in rows:
            assert engine.is_key(row["key"])
            assert row["fields"]
            assert not row["new"] or engine.is_value({**row["fields"], "op": "set"})
        if rest.replace(b"\r\n", b"\n") == self.case.files[path]:
            assert rows == [], "a view that was not edited changes something"

    def then(self, key):
        """Return the value that the views show, as they were last written by this state."""
        current = self.state.subject(key).current
        return dict(self.state.body(current.id)["value"]) if current and current.op == "set" else None


def list_targets():
    """Return the targets that this engine has."""
    return [Ledger, Apply] + ([Edit] if hasattr(engine, "read_edit") else [])


# -- inputs by chance --

WORDS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b"null", b"true", b"-1", b"0", b"9007199254740991", b"9007199254740992", b"1e400", b"1.5",
    b'""', b"[]", b"{}", b"\n", b"\r\n", b"\t", b"\0", b"\xe2\x80\xae", b"\xed\xa0\x80", b"\\ud800", b"\xff", b"[[x]]", b"---\n",
    b"# ", b"> ", b"<!-- ", b" -->", b"```", b"2026-02-30", b"R1-kkkkkkkk", b"P7-kkkkkkkk", b"P4-k7qdm2xw", b"S8-k7qdm2xw",
    b"E3-k7qdm2xw", b"set", b"close", b"touch", b"user", b"confirmed", b"agent", b"notes/", b"../", b"\x1b[31m", b"]" * 30,
    b"[" * 30, b"\xc3\xbc", b"a" * 501)
VALUES = (
    None, True, False, 0, 1, 2, 3, -1, 5, 10 ** 15, 2 ** 53, 1.5, "", " ", "a", "x\ny", "\u202e", "a" * 501, [], {}, [[]], ["a"],
    {"a": 1}, "set", "close", "touch", "user", "confirmed", "agent", "external", "system", "legacy", "a.b", "c", "shop.next",
    "P4-k7qdm2xw", "S9-k7qdm2xw", ["P4-k7qdm2xw"], "R1-k7qdm2xw", "P10-m3rtw9zh", {"k7qdm2xw": 3}, {"m3rtw9zh": 5}, "accepted",
    "held", "noop", "alone", "beside", "same", "2026-12-31")
NAMES = ("text", "value", "parents", "rests", "evidence", "until", "detail", "falsifier", "tier", "imported", "dated", "note")


def change_json(rng, line):
    """Change one value, name or item of a JSON text; None if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    places = []

    def walk(node):
        for name in node if isinstance(node, dict) else range(len(node)):
            places.append((node, name))
            if isinstance(node[name], (dict, list)):
                walk(node[name])

    if isinstance(value, (dict, list)):
        walk(value)
    if not places:
        return None
    node, name = rng.choice(places)
    how = rng.randrange(5)
    if how == 0:
        del node[name]
    elif how == 1:
        other, at = rng.choice(places)
        node[name] = json.loads(json.dumps(other[at])) if at in other or (isinstance(at, int) and at < len(other)) else None
    elif how == 2 and isinstance(node, dict):
        node[rng.choice(NAMES)] = rng.choice(VALUES)
    elif isinstance(node[name], int) and how == 3:
        node[name] += rng.choice((-1, 1, 2, 100))
    else:
        node[name] = rng.choice(VALUES)
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=rng.random() < 0.1, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return None


def vary(rng, data, seeds):
    """Return another input made of one: some bytes, a value, a line, or a part of another input changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        how = rng.randrange(6)
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        if how < 3:
            head = 1 if lines[at][:1].decode("latin-1") in KINDS else 0
            changed = change_json(rng, lines[at][head:])
            if changed is not None:
                lines[at] = lines[at][:head] + changed
                data = b"\n".join(lines)
        elif how == 3:
            place = rng.randrange(len(data) + 1)
            data = data[:place] + rng.choice(WORDS) + data[place + rng.choice((0, 0, 1, 5)):]
        elif how == 4:
            other = rng.choice(seeds).split(b"\n")
            lines[at:at + rng.randrange(2)] = rng.sample(other, 1)
            data = b"\n".join(lines)
        else:
            place = rng.randrange(len(data) + 1)
            data = data[:place] + bytes([rng.randrange(256)]) + data[place + rng.randrange(2):]
    return data


def run_plain(target, seconds, seed, keep, most=sys.maxsize):
    """Try inputs by chance for so long, or so many; return how many, and those that broke a promise, by what they raised."""
    rng, seeds, count, broken = random.Random(seed), target.seeds(), 0, {}
    pool = list(seeds)
    end = time.monotonic() + seconds
    while time.monotonic() < end and count < most:
        data = vary(rng, rng.choice(pool), seeds)
        count += 1
        try:
            target.check(data)
        except Exception:  # noqa: BLE001 - whatever is raised is what is looked for
            said = traceback.format_exc().splitlines()
            path = keep_input(target, data, keep)
            broken.setdefault("%s at %s" % (said[-1][:100], next((x.strip() for x in reversed(said) if "engine.py" in x), "")), path)
        if len(data) < 20_000 and rng.random() < 0.02:
            pool.append(data)
    return count, broken


def keep_input(target, data, keep):
    """Write an input that broke a promise, and return its path."""
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / ("%s-%s" % (target.name, engine.sha256(data)[:12]))
    path.write_bytes(data)
    return str(path)


def run_guided(target, seconds, seed, keep):
    """Let atheris look for inputs for so long. It ends the process at the first that breaks a promise."""
    seeds = target.seeds()
    corpus = Path(tempfile.mkdtemp(prefix="corpus-"))
    for data in seeds:
        (corpus / engine.sha256(data)[:12]).write_bytes(data)

    def one(data):
        try:
            target.check(data)
        except Exception:
            sys.stderr.write("kept: %s\n" % keep_input(target, data, keep))
            raise

    def mutator(data, max_size, chance):
        rng = random.Random(chance)
        return vary(rng, data, seeds)[:max_size] if rng.random() < 0.7 else atheris.Mutate(data, max_size)

    words = [sys.argv[0], str(corpus), "-max_total_time=%d" % seconds, "-seed=%d" % (seed + 1), "-timeout=60", "-max_len=20000",
             "-artifact_prefix=%s/" % keep]
    keep.mkdir(parents=True, exist_ok=True)
    atheris.Setup(words, one, custom_mutator=mutator)
    atheris.Fuzz()


def main():
    """Fuzz the targets that are named, or all; return 1 if an input broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=[t.name for t in list_targets()], action="append")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=KEPT)
    parser.add_argument("--plain", action="store_true", help="by chance, without atheris")
    args = parser.parse_args()
    targets = [t for t in list_targets() if not args.target or t.name in args.target]
    failed = 0
    for made in targets:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))  # noqa: S108
        try:
            target = made(folder)
            if not args.plain and importlib.util.find_spec("atheris"):
                run_guided(target, int(args.seconds), args.seed, args.keep)
                continue
            count, broken = run_plain(target, args.seconds / len(targets), args.seed, args.keep)
        finally:
            shutil.rmtree(folder)
        sys.stdout.write("%s: %d inputs, %d promises broken\n" % (target.name, count, len(broken)))
        for said, path in sorted(broken.items()):
            sys.stdout.write("  %s: %s\n" % (path, said))
        failed += len(broken)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
