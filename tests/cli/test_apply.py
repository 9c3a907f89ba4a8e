"""`apply`: many operations in one call, one JSON object a line."""

from __future__ import annotations

import json

import pytest


def lines(*operations):
    """Return operations as the bytes of a file, one JSON object a line."""
    return "".join((op if isinstance(op, str) else json.dumps(op)) + "\n" for op in operations).encode()


def propose(key, **more):
    """Return an operation that proposes a new tier 2 subject."""
    return {"do": "propose", "key": key, "tier": 2, "new_subject": True, "text": "x", **more}


def test_operations(cli, project):
    """Journal, propose, withdraw and sync in one file: a row for each, with its line, what it did and its id."""
    run = project.start()
    staged = project.stage(run, "a.old", "x", "--tier", "2", "--new-subject")
    reply = cli(
        "apply",
        "--run",
        run,
        "-",
        stdin=lines(
            {"do": "journal", "text": "one\ntwo", "importance": 5, "ref": "D1:3"},
            propose("a.b", evidence=["D1:3"]),
            {"do": "withdraw", "proposal": staged},
            {"do": "sync"},
        ),
    )
    assert reply.status == 0
    assert set(reply.data) == {"run", "operations", "failed", "results", "warnings"}
    assert (reply["run"], reply["operations"], reply["failed"]) == (run, 4, 0)
    first, second, third, fourth = reply["results"]
    assert [(row["line"], row["do"]) for row in reply["results"]] == [(1, "journal"), (2, "propose"), (3, "withdraw"), (4, "sync")]
    assert third["withdrawn"] == staged
    assert [row["proposal"] for row in fourth["applied"]] == [second["proposal"]]
    assert project.current("a.b")["evidence"] == [first["entry"]]


def test_file(cli, project, tmp_path):
    """The operations may stand in a file; blank lines are skipped, and CRLF is an end of line."""
    path = tmp_path / "operations.jsonl"
    path.write_bytes(b'\n{"do":"journal","text":"x"}\r\n   \n{"do":"journal","text":"y"}')
    reply = cli("apply", "--run", project.start(), path)
    assert (reply.status, [row["line"] for row in reply["results"]]) == (0, [2, 4])


def test_human_output(cli, project):
    """In words there is a line for each operation and a count."""
    reply = cli(
        "apply", "--run", project.start(), "-", stdin=lines({"do": "journal", "text": "x"}, "{", propose("a.b"), {"do": "sync"}), plain=True
    )
    out = reply.out.strip().split("\n")
    assert [line.split(" ")[:2] for line in out[:4]] == [["line", str(n)] for n in (1, 2, 3, 4)]
    assert "[bad-json]" in out[1]
    assert out[4].startswith("4 operations, 1 failed")


def test_nothing(cli, project):
    """An empty file is done at once and records nothing."""
    run = project.start()
    before = project.ledger()
    reply = cli("apply", "--run", run, "-")
    assert (reply.status, reply["operations"], reply["results"]) == (0, 0, [])
    assert project.ledger() == before


#: A bad line and the code that its row must have.
BAD = [
    ("{", "bad-json"),
    ("[]", "bad-operation"),
    ('"x"', "bad-operation"),
    ("null", "bad-operation"),
    ("{}", "bad-operation"),
    ('{"do":"dance"}', "bad-operation"),
    ('{"do":["sync"]}', "bad-operation"),
    ('{"do":"sync","key":"a.b"}', "bad-operation"),
    ('{"do":"journal","text":"x","Text":"y"}', "bad-operation"),
    ('{"do":"journal"}', "bad-text"),
    ('{"do":"journal","text":7}', "bad-text"),
    ('{"do":"journal","text":"x","text":"y"}', "bad-json"),
    ('{"do":"journal","text":"x","importance":1.0}', "bad-json"),
    ('{"do":"journal","text":"x","importance":1e2}', "bad-json"),
    ('{"do":"journal","text":"x","importance":NaN}', "bad-json"),
    ('{"do":"journal","text":"x","importance":true}', "bad-value"),
    ('{"do":"journal","text":"x","importance":"3"}', "bad-value"),
    ('{"do":"journal","text":"x","importance":0}', "bad-value"),
    ('{"do":"journal","text":"x","importance":%s}' % ("9" * 40), "bad-value"),
    ('{"do":"journal","text":"\\ud800"}', "bad-text"),
    ('{"do":"journal","text":"x","ref":"a b"}', "bad-value"),
    ('{"do":"journal","text":"x","ref":"E5-k7qdm2xw"}', "bad-value"),
    ('{"do":"journal","text":"\\u0000"}', "bad-text"),
    ('{"do":"propose","key":"a.b","text":"x"}', "bad-field"),
    ('{"do":"propose","text":"x"}', "bad-key"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":1,"text":"x"}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":4,"new_subject":true,"text":"x"}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":true,"new_subject":true,"text":"x"}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","links":"a.b"}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","links":[7]}', "bad-key"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","tags":[["x"]]}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","op":["set"]}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","status":{}}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","evidence":"D1"}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","evidence":{}}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","evidence":0}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","evidence":["\\ud800"]}', "unknown-evidence"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","evidence":[7]}', "unknown-evidence"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","evidence":[{"command":"x","exit":0}]}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","clear":"detail"}', "bad-value"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","clear":["why"]}', "bad-field"),
    ('{"do":"propose","key":"a.b","tier":2,"new_subject":true,"text":"x","why":"a\\nb"}', "bad-text"),
    ('{"do":"withdraw"}', "bad-id"),
    ('{"do":"withdraw","proposal":7}', "bad-id"),
    ('{"do":"withdraw","proposal":"P9-k7qdm2xw"}', "unknown-proposal"),
    ('{"do":"journal","text":' + "[" * 30 + "]" * 30 + "}", "bad-json"),
    ('{"do":"journal","text":' + "[" * 100_000 + "]" * 100_000 + "}", "bad-json"),
    ('{"do":"journal","text":"%s"}' % ("x" * 262_144), "bad-json"),
    ("\ufeff{}", "bad-json"),
    ("{} {}", "bad-json"),
]


def test_bad_lines_fail_alone(call, project):
    """Each bad line fails with its number and code, the others stand, the exit is 4."""
    run = project.start()
    good = [propose(f"good.n{n}") for n in range(len(BAD))]
    reply = call("apply", "--run", run, "-", stdin=lines(*(line for n in range(len(BAD)) for line in (BAD[n][0], good[n])), {"do": "sync"}))
    assert reply.status == 4
    assert reply["failed"] == len(BAD)
    rows = reply["results"]
    assert [row["line"] for row in rows] == list(range(1, 2 * len(BAD) + 2))
    assert [(line[:60], row.get("code")) for (line, _), row in zip(BAD, rows[:-1:2])] == [(line[:60], code) for line, code in BAD]
    assert all({"code", "message", "hint", "exit", "retry"} <= set(row) for row in rows[:-1:2])
    assert len(rows[-1]["applied"]) == len(BAD)
    assert len(project.records("proposal")) == len(BAD)
    assert project.records("journal") == []


def test_bad_lines_by_command(cli, project):
    """As a command of its own: exit 4, the result on standard output, the good line recorded."""
    reply = cli("apply", "--run", project.start(), "-", stdin=lines("{", {"do": "journal", "text": "x"}))
    assert (reply.status, reply["failed"], reply.err) == (4, 1, "")
    assert (reply["results"][0]["line"], reply["results"][0]["code"]) == (1, "bad-json")
    assert len(project.records("journal")) == 1


def test_atomic_refused(cli, project):
    """With --atomic one bad line refuses the file, exit 3, naming line and cause, and nothing is recorded."""
    run = project.start()
    before = project.ledger()
    reply = cli("apply", "--run", run, "-", "--atomic", stdin=lines({"do": "journal", "text": "x"}, propose("a.b"), {"do": "sync"}, "{"))
    assert reply.code == (3, "atomic")
    assert (reply.error["line"], reply.error["cause"]) == (4, "bad-json")
    assert project.ledger() == before
    assert project.call("recall", "a.b").status == 5
    assert not (project.vault / "notes" / "a.b.md").exists()


def test_atomic(call, project, monkeypatch):
    """With --atomic the whole file is one append, however long."""
    monkeypatch.setattr(project.engine, "BATCH_OPERATIONS", 10)
    run = project.start()
    reply = call("apply", "--run", run, "-", "--atomic", stdin=lines(*(propose(f"k{n}") for n in range(25)), {"do": "sync"}))
    assert (reply.status, len(reply["results"][-1]["applied"])) == (0, 25)
    assert [head["unit"] for head, _ in project.records() if "unit" in head][-1] == 26


def test_batches(call, project, monkeypatch):
    """Without --atomic there is at most one append for each 1,000 operations."""
    assert project.engine.BATCH_OPERATIONS == 1_000
    monkeypatch.setattr(project.engine, "BATCH_OPERATIONS", 10)
    run = project.start()
    assert call("apply", "--run", run, "-", stdin=lines(*({"do": "journal", "text": "x"} for _ in range(21)))).status == 0
    assert [head["unit"] for head, _ in project.records() if "unit" in head][-3:] == [10, 10, 1]


def test_held_makes_it_4(call, project):
    """A decision that was held makes the exit 4 although no line failed."""
    reply = call("apply", "--run", project.start(), "-", stdin=lines(propose("a.b", tier=1), {"do": "sync"}))
    assert (reply.status, reply["failed"], [r["reason"] for r in reply["results"][1]["held"]]) == (4, 0, ["needs-owner"])


def test_atomic_with_a_held_decision(call, project):
    """A held decision is no refusal: the atomic file is recorded, exit 4."""
    reply = call("apply", "--run", project.start(), "-", "--atomic", stdin=lines(propose("a.b", tier=1), {"do": "sync"}))
    assert (reply.status, len(project.records("proposal"))) == (4, 1)


def test_evidence_within_the_file(call, project):
    """A ref journalled earlier in the file is evidence; one journalled later or twice is not."""
    reply = call(
        "apply",
        "--run",
        project.start(),
        "-",
        stdin=lines(
            propose("a.early", evidence=["D1"]),
            {"do": "journal", "text": "x", "ref": "D1"},
            propose("a.b", evidence=["D1"]),
            {"do": "journal", "text": "y", "ref": "D1"},
            propose("a.c", evidence=["D1"]),
        ),
    )
    rows = reply["results"]
    assert [row.get("code") for row in rows] == ["unknown-evidence", None, None, None, "ambiguous-evidence"]


def test_retry_within_the_file(call, project):
    """The same proposal twice in a file is one."""
    reply = call("apply", "--run", project.start(), "-", stdin=lines(propose("a.b"), propose("a.b")))
    one, two = reply["results"]
    assert (reply.status, two.get("proposal")) == (0, one["proposal"])
    assert len(project.records("proposal")) == 1


def test_sync_in_the_middle(call, project):
    """A sync in the file decides and looks: what follows it sees the decision."""
    other, run = project.start("claude"), project.start("codex")
    project.fact(other, "a.theirs", "one")
    reply = call(
        "apply",
        "--run",
        run,
        "-",
        stdin=lines(
            {"do": "propose", "key": "a.theirs", "text": "two"},
            propose("a.b"),
            {"do": "sync"},
            {"do": "propose", "key": "a.theirs", "text": "two"},
            {"do": "propose", "key": "a.b", "op": "close"},
            {"do": "sync"},
        ),
    )
    rows = reply["results"]
    assert [row.get("code") for row in rows] == ["stale", None, None, None, None, None]
    assert [r["key"] for r in rows[2]["applied"]] == ["a.b"]
    assert [r["key"] for r in rows[5]["applied"]] == ["a.theirs", "a.b"]
    assert project.ok("recall", "a.b")["status"] == "closed"


def test_withdraw_within_the_file(call, project):
    """What the run staged before may be withdrawn in the file, and staged anew."""
    run = project.start()
    first = project.stage(run, "a.b", "one", "--tier", "2", "--new-subject")
    reply = call("apply", "--run", run, "-", stdin=lines({"do": "withdraw", "proposal": first}, propose("a.b", text="two"), {"do": "sync"}))
    assert (reply.status, project.current("a.b")["text"]) == (0, "two")


def test_null_is_absent(call, project):
    """A field that is null counts as not given."""
    reply = call("apply", "--run", project.start(), "-", stdin=lines(propose("a.b", detail=None, why=None, until=None), {"do": "sync"}))
    assert reply.status == 0
    assert not {"detail", "why", "until"} & set(project.current("a.b"))


@pytest.mark.parametrize("words", [(), ("--atomic",)])
def test_not_utf8(cli, project, words):
    """A file that is not UTF-8 is refused whole, with the byte's position, and nothing is recorded."""
    run = project.start()
    before = project.ledger()
    data = lines({"do": "journal", "text": "x"})
    reply = cli("apply", "--run", run, "-", *words, stdin=data + b"\xff\n")
    assert (reply.code, reply.error["position"]) == ((2, "bad-encoding"), len(data) + 1)
    assert project.ledger() == before


def test_no_such_file(cli, project):
    """A file that is not there, or none, is usage, and the error names it."""
    run = project.start()
    for name in ("nothing.jsonl", "memory"):
        reply = cli("apply", "--run", run, name)
        assert (reply.code, name in reply.error["message"]) == ((2, "usage"), True)


def test_bad_run(call, project):
    """A run that is not open refuses the file whole."""
    run = project.start()
    project.close(run)
    before = project.ledger()
    assert call("apply", "--run", run, "-", stdin=lines({"do": "journal", "text": "x"})).code == (3, "closed-run")
    assert project.ledger() == before
