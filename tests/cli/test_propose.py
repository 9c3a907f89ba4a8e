"""`propose`: stages a change of one subject, with what the run had seen of it."""

from __future__ import annotations

import json
import re

import pytest

URL = "https://ci.example/runs/7"
#: Every field of a value, by tier, as flags and as recall shows it.
FIELDS = {
    1: (("--kind", "decision"), {"kind": "decision"}),
    2: (("--importance", "5", "--status", "watch"), {"importance": 5, "status": "watch"}),
    3: (
        ("--confidence", "established", "--falsifier", "It passes at night.", "--evidence", URL),
        {"confidence": "established", "falsifier": "It passes at night."},
    ),
}
DEFAULTS = {1: {"kind": "fact"}, 2: {"importance": 3, "status": "active"}, 3: {"confidence": "emerging"}}
OWNER = ("--source", "user", "--trust", "confirmed")


def value(project, key):
    """Return the current value of a key without its provenance."""
    return {
        name: v
        for name, v in project.current(key).items()
        if name not in ("id", "key", "trust", "source", "run", "actor", "at", "outcome", "evidence", "why")
    }


def test_staged(cli, project):
    """Without --now a proposal is recorded and decided by nobody yet: the subject is not there."""
    run = project.start()
    reply = cli("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "One.")
    assert reply.status == 0
    assert reply.data == {"proposal": reply["proposal"], "key": "a.b", "nearest": [], "run": run, "warnings": []}
    ((head, body),) = project.records("proposal")
    assert reply["proposal"].startswith("P%d-" % head["seq"])
    assert (body["base"], body["staged"], body["depth"], body["new_subject"]) == ([], [], 1, True)
    assert project.call("recall", "a.b").code == (5, "not-found")


def test_now(cli, project):
    """With --now what the run has staged is decided in the same call, earlier proposals too."""
    run = project.start()
    first = project.stage(run, "a.a", "One.", "--tier", "2", "--new-subject")
    reply = cli("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "Two.", "--now")
    assert reply.status == 0
    assert [(row["proposal"], row["reason"]) for row in reply["applied"]] == [(first, "alone"), (reply["proposal"], "alone")]
    assert (reply["unchanged"], reply["held"], reply["beside"], reply["changed"]) == ([], [], [], [])
    assert len(project.records("revision")) == 1


@pytest.mark.parametrize("words", [(), ("--now",)])
def test_human_output(cli, project, words):
    """In words the answer names the proposal, and with --now what became of it."""
    run = project.start()
    reply = cli("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "One.", *words, plain=True)
    assert re.match(r"P[0-9]+-\S{8} for a\.b", reply.out)
    assert ("applied: a.b" in reply.out) == bool(words)


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_defaults_of_a_tier(project, tier):
    """A new subject that gives no field of its tier has the defaults."""
    words = ("--evidence", URL) if tier == 3 else OWNER
    project.fact(project.start(), "a.b", "One.", "--tier", str(tier), *words)
    assert value(project, "a.b") == {"op": "set", "tier": tier, "text": "One.", **DEFAULTS[tier]}


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_every_field(cli, project, tier, tmp_path):
    """Each flag of a value is kept: a tier's own fields, detail, links, tags, until, why, source and trust."""
    flags, fields = FIELDS[tier]
    detail = tmp_path / "detail.md"
    detail.write_bytes("# Why\r\n\r\n\tzwölf\r\n".encode())
    reply = cli(
        "propose",
        "--run",
        project.start(),
        "--key",
        "a.b",
        "--new-subject",
        "--tier",
        tier,
        "--text",
        "One.",
        *flags,
        "--detail-file",
        detail,
        "--link",
        "z.z",
        "--link",
        "a.a",
        "--link",
        "z.z",
        "--tag",
        "x/y",
        "--tag",
        "a_b",
        "--until",
        "2028-02-29",
        "--why",
        "It was measured.",
        *OWNER,
        "--now",
    )
    assert reply.status == 0
    assert value(project, "a.b") == {
        "op": "set",
        "tier": tier,
        "text": "One.",
        **fields,
        "detail": "# Why\n\n\tzwölf",
        "links": ["a.a", "z.z"],
        "tags": ["a_b", "x/y"],
        "until": "2028-02-29",
    }
    current = project.current("a.b")
    assert (current["source"], current["trust"], current["why"]) == ("user", "confirmed", "It was measured.")


def test_detail_from_standard_input(cli, project):
    """With --detail-file - the detail is standard input, CRLF read as LF."""
    reply = cli(
        "propose",
        "--run",
        project.start(),
        "--key",
        "a.b",
        "--new-subject",
        "--tier",
        "2",
        "--text",
        "One.",
        "--detail-file",
        "-",
        "--now",
        stdin="a\r\nb — c\r\n".encode(),
    )
    assert reply.status == 0
    assert project.current("a.b")["detail"] == "a\nb — c"


def test_text_from_standard_input(cli, project):
    """With --text - the text is standard input without its last newline."""
    reply = cli(
        "propose",
        "--run",
        project.start(),
        "--key",
        "a.b",
        "--new-subject",
        "--tier",
        "2",
        "--text",
        "-",
        "--now",
        stdin="Zwölf.\r\n".encode(),
    )
    assert reply.status == 0
    assert project.current("a.b")["text"] == "Zwölf."


def test_longest_values(project, tmp_path):
    """Text of 500 characters, a detail of 32 KiB of UTF-8 and a key of 80 are taken."""
    detail = tmp_path / "detail.md"
    detail.write_text("é" * 16_384, encoding="utf-8")
    key = "k" * 80
    project.fact(project.start(), key, "\U0001f600" * 500, "--detail-file", str(detail))
    current = project.current(key)
    assert (len(current["text"]), len(current["detail"].encode())) == (500, 32_768)


# -- inheritance --


@pytest.mark.parametrize("tier", [1, 2, 3])
def test_an_update_inherits(project, tier):
    """An update keeps tier, its fields, detail, links and tags; never source, trust, why, until or evidence."""
    flags, fields = FIELDS[tier]
    run = project.start()
    project.fact(
        run,
        "a.b",
        "One.",
        "--tier",
        str(tier),
        *flags,
        "--detail-file",
        "-",
        "--link",
        "c.d",
        "--tag",
        "x",
        "--until",
        "2027-01-01",
        "--why",
        "Because.",
        *OWNER,
        stdin=b"More.",
    )
    evidence = ("--evidence", "https://other.example/") if tier == 3 else ()
    proposal = project.stage(run, "a.b", "Two.", *evidence)
    (body,) = (b for h, b in project.records("proposal") if proposal.startswith("P%d-" % h["seq"]))
    assert body["value"] == {"op": "set", "tier": tier, "text": "Two.", **fields, "detail": "More.", "links": ["c.d"], "tags": ["x"]}
    assert (body["source"], body["trust"], "why" in body) == ("agent", "working", False)
    assert body.get("evidence") == (["https://other.example/"] if tier == 3 else None)


def test_an_update_inherits_from_what_the_run_staged(call, project):
    """The run's latest staged value is inherited, not the current one."""
    run = project.start()
    project.fact(run, "a.b", "One.", "--tag", "old")
    project.stage(run, "a.b", "Two.", "--tag", "new", "--importance", "5")
    project.stage(run, "a.b", "Three.")
    call("sync", "--run", run)
    current = project.current("a.b")
    assert (current["text"], current["tags"], current["importance"]) == ("Three.", ["new"], 5)


@pytest.mark.parametrize(
    ("field", "flags"),
    [("detail", ("--detail-file", "-")), ("links", ("--link", "c.d")), ("tags", ("--tag", "x")), ("falsifier", ("--falsifier", "No."))],
)
def test_clear(cli, project, field, flags):
    """--clear empties one inherited field and leaves the others."""
    run = project.start()
    project.fact(
        run,
        "a.b",
        "One.",
        "--tier",
        "3",
        "--evidence",
        URL,
        "--detail-file",
        "-",
        "--link",
        "c.d",
        "--tag",
        "x",
        "--falsifier",
        "No.",
        stdin=b"More.",
    )
    assert cli("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--evidence", URL, "--clear", field, "--now").status == 0
    current = project.current("a.b")
    assert {name for name in ("detail", "links", "tags", "falsifier") if name in current} == {"detail", "links", "tags", "falsifier"} - {
        field
    }
    given = call_with_both(project, run, field, flags)
    assert given.code == (3, "bad-field")


def call_with_both(project, run, field, flags):
    """Return the reply to a proposal that gives a field and clears it at once."""
    return project.call(
        "propose", "--run", run, "--key", "a.b", "--text", "Three.", "--evidence", URL, "--clear", field, *flags, stdin=b"x"
    )


def test_several_fields_are_cleared(project):
    """--clear may be repeated."""
    run = project.start()
    project.fact(run, "a.b", "One.", "--link", "c.d", "--tag", "x")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--clear", "links", "--clear", "tags", "--now")
    assert value(project, "a.b") == {"op": "set", "tier": 2, "text": "Two.", **DEFAULTS[2]}


def test_a_change_of_tier_drops_the_old_tiers_fields(project):
    """Promoted to a pattern, a subject has a pattern's fields, and keeps links and tags."""
    run = project.start()
    project.fact(run, "a.b", "One.", "--importance", "5", "--tag", "x")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "One.", "--tier", "3", "--evidence", URL, "--now")
    assert value(project, "a.b") == {"op": "set", "tier": 3, "text": "One.", "confidence": "emerging", "tags": ["x"]}


# -- evidence --


def test_evidence(cli, project):
    """Evidence may be an entry id, a ref (kept as the entry's id), a URL, and measurements, which are never executed."""
    run = project.start()
    first, second = project.journal(run), project.journal(run, "x", "--ref", "D1:3")
    trap = project.folder / "trap"
    reply = cli(
        "propose",
        "--run",
        run,
        "--key",
        "a.b",
        "--tier",
        "3",
        "--new-subject",
        "--text",
        "One.",
        "--evidence",
        first,
        "--evidence",
        "D1:3",
        "--evidence",
        URL,
        "--measured",
        f"-1,2026-11-30,touch {trap}, twice",
        "--measured",
        "0,2026-11-29,pytest -q",
        "--now",
    )
    assert reply.status == 0
    assert project.current("a.b")["evidence"] == [
        first,
        second,
        URL,
        {"exit": -1, "date": "2026-11-30", "command": f"touch {trap}, twice"},
        {"exit": 0, "date": "2026-11-29", "command": "pytest -q"},
    ]
    assert not trap.exists()


def test_evidence_from_another_run(project):
    """An entry or ref of any run of the vault is evidence."""
    entry = project.journal(project.start("claude"), "x", "--ref", "D9")
    project.fact(project.start("codex"), "a.b", "One.", "--evidence", entry, "--evidence", "D9")
    assert project.current("a.b")["evidence"] == [entry, entry]


def test_a_ref_that_looks_like_a_url(project):
    """A URL that was journalled as a ref names its entry."""
    run = project.start()
    entry = project.journal(run, "x", "--ref", URL)
    project.fact(run, "a.b", "One.", "--evidence", URL)
    assert project.current("a.b")["evidence"] == [entry]


# -- touch and close --


def test_touch(cli, project):
    """A touch is a noop that records use; with evidence the subject is verified on that date."""
    run = project.start()
    made = project.fact(run, "a.b")
    assert project.ok("recall", "a.b")["verified"] is None
    reply = cli("propose", "--run", run, "--key", "a.b", "--op", "touch", "--evidence", URL, "--now")
    assert reply.status == 0
    assert [(row["key"], row["reason"]) for row in reply["unchanged"]] == [("a.b", "touched")]
    after = project.ok("recall", "a.b")
    assert (after["current"]["id"], after["earlier"]) == (made, 0)
    assert re.match("[0-9]{4}-", after["verified"])


def test_touch_without_evidence_verifies_nothing(project):
    """A touch alone does not verify."""
    run = project.start()
    project.fact(run, "a.b")
    project.ok("propose", "--run", run, "--key", "a.b", "--op", "touch", "--now")
    assert project.ok("recall", "a.b")["verified"] is None


def test_close_and_new_again(cli, project):
    """A closed subject has no door; its past stays, and --new-subject opens it again."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    assert cli("propose", "--run", run, "--key", "a.b", "--op", "close", "--why", "Done.", "--now").status == 0
    assert project.ok("recall", "a.b")["status"] == "closed"
    assert not (project.vault / "notes" / "a.b.md").exists()
    assert "a.b" not in (project.vault / "MEMORY.md").read_text(encoding="utf-8")
    project.fact(run, "a.b", "Two.")
    assert project.ok("recall", "a.b")["status"] == "current"
    assert project.ok("history", "a.b")["total"] == 2


# -- what a run has seen --


def test_stale_then_sync(cli, project):
    """A key that moved since the run looked is refused with its present value; after a sync the proposal goes through."""
    mine, other = project.start("codex"), project.start("claude")
    project.fact(other, "a.b", "Theirs.")
    reply = cli("propose", "--run", mine, "--key", "a.b", "--text", "Mine.", "--now")
    assert reply.code == (3, "stale")
    assert (reply.error["key"], "Theirs." in reply.error["message"], "sync" in reply.error["hint"]) == ("a.b", True, True)
    assert project.ok("sync", "--run", mine)["changed"] == ["a.b"]
    assert cli("propose", "--run", mine, "--key", "a.b", "--text", "Mine.", "--now").status == 0
    assert project.current("a.b")["text"] == "Mine."


def test_other_keys_are_not_stale(call, project):
    """What others did to another key refuses nothing."""
    mine, other = project.start("codex"), project.start("claude")
    project.fact(mine, "a.b")
    project.fact(other, "a.c")
    assert call("propose", "--run", mine, "--key", "a.b", "--text", "x").status == 0
    assert call("propose", "--run", mine, "--key", "a.c", "--text", "x").code == (3, "stale")


def test_own_move_is_not_stale(project):
    """A run's own accepted change is seen by it."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "Three.", "--now")
    assert [c["text"] for c in project.ok("history", "a.b")["generations"]] == ["One.", "Two."]


def test_beside(project):
    """A change made without having seen another's stands beside it, exit 4; the first stays current."""
    project.conflict("a.b", "one", "two")
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["text"], [c["text"] for c in found["contenders"]]) == ("contested", "one", ["two"])


def test_beside_now(cli, project):
    """With --now the exit is 4, and the row says where the question stands."""
    one, two = project.start("codex"), project.start("claude")
    project.stage(two, "a.b", "two", "--tier", "2", "--new-subject")
    project.fact(one, "a.b", "one")
    reply = cli("propose", "--run", two, "--key", "c.d", "--tier", "2", "--new-subject", "--text", "x", "--now")
    assert reply.status == 4
    assert ([r["key"] for r in reply["applied"]], [r["key"] for r in reply["beside"]]) == (["c.d"], ["a.b"])
    assert "a.b" in reply["beside"][0]["next"]


# -- retries and chains --


def test_retry_returns_the_same_id(cli, project):
    """The same proposal twice, while it is staged, is one."""
    run = project.start()
    words = (
        "propose",
        "--run",
        run,
        "--key",
        "a.b",
        "--tier",
        "2",
        "--new-subject",
        "--text",
        "One.",
        "--evidence",
        URL,
        "--why",
        "Because.",
    )
    first, second = cli(*words), cli(*words)
    assert (first.status, second.status, first["proposal"]) == (0, 0, second["proposal"])
    assert len(project.records("proposal")) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--text", "Two."),
        ("--text", "One.", "--why", "Because."),
        ("--text", "One.", "--evidence", URL),
        ("--text", "One.", "--source", "external"),
        ("--text", "One.", "--tag", "x"),
    ],
)
def test_another_proposal_is_no_retry(project, words):
    """A proposal that differs in value or provenance is another."""
    run = project.start()
    base = ("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject")
    first = project.ok(*base, "--text", "One.")["proposal"]
    second = project.call("propose", "--run", run, "--key", "a.b", *words)
    assert second.status == 0
    assert second["proposal"] != first
    assert len(project.records("proposal")) == 2


def test_retry_of_what_was_decided_is_another(project):
    """Once decided, the same value is a new proposal, and a noop."""
    run = project.start()
    first = project.fact(run, "a.b", "One.")
    reply = project.ok("propose", "--run", run, "--key", "a.b", "--text", "One.", "--now")
    assert reply["proposal"] != first
    assert [row["reason"] for row in reply["unchanged"]] == ["same"]


def test_chain_of_own_staged_proposals(project):
    """Several staged proposals for one key are decided in order, each replacing the one before."""
    run = project.start()
    first = project.stage(run, "a.b", "One.", "--tier", "2", "--new-subject")
    second = project.stage(run, "a.b", "Two.")
    reply = project.ok("sync", "--run", run)
    assert [row["proposal"] for row in reply["applied"]] == [first, second]
    assert (project.current("a.b")["text"], project.ok("history", "a.b")["total"]) == ("Two.", 1)


def test_new_subject_after_own_staged_close(project):
    """A run that staged a close may open the key anew before the sync, and the last word counts."""
    run = project.start()
    project.fact(run, "a.b", "One.", "--tag", "x")
    project.ok("propose", "--run", run, "--key", "a.b", "--op", "close")
    assert project.call("propose", "--run", run, "--key", "a.b", "--op", "touch").code == (3, "absent-key")
    project.stage(run, "a.b", "Two.", "--new-subject", "--tier", "2")
    project.ok("sync", "--run", run)
    current = project.current("a.b")
    assert (current["text"], "tags" in current) == ("Two.", False)


# -- refusals of the key, and nearest keys --


def test_present_key(cli, project):
    """--new-subject for a present key is refused with its value; so is one for a key that the run itself has staged."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    reply = cli("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "Two.")
    assert (reply.code, "One." in reply.error["message"]) == ((3, "present-key"), True)
    project.stage(run, "a.c", "One.", "--tier", "2", "--new-subject")
    assert project.call("propose", "--run", run, "--key", "a.c", "--tier", "2", "--new-subject", "--text", "Two.").code == (
        3,
        "present-key",
    )


@pytest.mark.parametrize("op", ["touch", "close"])
def test_absent_key(cli, project, op):
    """Touch or close of a key that is not present is refused, naming the nearest."""
    run = project.start()
    project.fact(run, "checkout.next-step")
    reply = cli("propose", "--run", run, "--key", "checkout.next-stop", "--op", op)
    assert (reply.code, "checkout.next-step" in reply.error["hint"]) == ((3, "absent-key"), True)


@pytest.mark.parametrize("key", ["checkout.next-stop", "checkout.nextstep", "chekout.next-step"])
def test_unknown_key_is_held_with_the_nearest(call, project, key):
    """A set of an unknown key without --new-subject is held, exit 4, and the reply names the key that it may have meant."""
    run = project.start()
    project.fact(run, "checkout.next-step")
    project.fact(run, "unrelated")
    reply = call("propose", "--run", run, "--key", key, "--tier", "2", "--text", "x", "--now")
    assert (reply.status, reply["nearest"]) == (4, ["checkout.next-step"])
    assert [(row["key"], row["reason"]) for row in reply["held"]] == [(key, "unknown-key")]
    assert call("recall", key).code == (5, "not-found")


def test_nearest_is_told_for_a_new_subject_too(call, project):
    """A new subject whose key is almost another's is accepted, and the reply names that other."""
    run = project.start()
    project.fact(run, "checkout.next-step")
    reply = call("propose", "--run", run, "--key", "checkout.next-steps", "--tier", "2", "--new-subject", "--text", "x", "--now")
    assert (reply.status, reply["nearest"]) == (0, ["checkout.next-step"])


# -- tiers and trust --


@pytest.mark.parametrize(
    "words",
    [
        ("--tier", "1", "--new-subject"),
        ("--tier", "1", "--new-subject", "--source", "user"),
        ("--tier", "1", "--new-subject", "--source", "external"),
    ],
)
def test_tier_1_needs_the_owner(cli, project, words):
    """An agent's tier 1 subject is held, exit 4, whoever it says the source is, and the reply says who answers."""
    reply = cli("propose", "--run", project.start(), "--key", "a.b", "--text", "x", *words, "--now")
    assert reply.status == 4
    (row,) = reply["held"]
    assert (row["reason"], "review a.b" in row["next"]) == ("needs-owner", True)


def test_the_owners_tier_1(project):
    """What the owner said, attested, is accepted as tier 1."""
    project.owned(project.start(), "a.b", "x", "--tier", "1", "--kind", "pref")
    assert (project.current("a.b")["trust"], project.current("a.b")["kind"]) == ("confirmed", "pref")


@pytest.mark.parametrize("words", [("--text", "y"), ("--op", "close"), ("--text", "x", "--tier", "2")])
def test_tier_1_is_changed_by_nobody_else(call, project, words):
    """An agent's change, close or demotion of a tier 1 subject is held."""
    run = project.start()
    project.owned(run, "a.b", "x", "--tier", "1")
    reply = call("propose", "--run", run, "--key", "a.b", *words, "--now")
    assert (reply.status, [row["reason"] for row in reply["held"]]) == (4, ["needs-owner"])
    assert project.current("a.b")["text"] == "x"


def test_confirmed_next_step_may_be_replaced(project):
    """An agent that saw a confirmed tier 2 subject may replace it; its trust is then working again."""
    run = project.start()
    project.owned(run, "a.b", "x")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "y", "--now")
    current = project.current("a.b")
    assert (current["text"], current["trust"], current["source"]) == ("y", "working", "agent")


def test_confirmed_pattern_needs_the_owner(call, project):
    """An agent's change of a confirmed pattern is held."""
    run = project.start()
    project.owned(run, "a.b", "x", "--tier", "3", "--evidence", URL)
    reply = call("propose", "--run", run, "--key", "a.b", "--text", "y", "--evidence", URL, "--now")
    assert (reply.status, [row["reason"] for row in reply["held"]]) == (4, ["needs-owner"])


def test_owner_settles_what_it_saw(project):
    """An owner's statement replaces its whole base: a conflict that its run had seen is over."""
    project.conflict("a.b")
    run = project.start()
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "The owner's.", *OWNER, "--now")
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["text"], found["outranked"]) == ("current", "The owner's.", [])


def test_same_by_another_run(project):
    """The same value from a run that had not seen it is unchanged, not a conflict."""
    one, two = project.start("codex"), project.start("claude")
    for run in (one, two):
        project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    project.ok("sync", "--run", one)
    reply = project.ok("sync", "--run", two)
    assert [row["reason"] for row in reply["unchanged"]] == ["same"]
    assert project.ok("recall", "a.b")["status"] == "current"


def test_confirming_raises_trust(project):
    """The owner's same words make a working value confirmed."""
    run = project.start()
    project.fact(run, "a.b", "x")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "x", *OWNER, "--now")
    assert project.current("a.b")["trust"] == "confirmed"


def test_flags_and_operations_agree(project):
    """A proposal by flags and the same one as an operation of `apply` record the same body."""
    run = project.start()
    entry = project.journal(run, "x", "--ref", "D1")
    project.stage(
        run,
        "a.b",
        "x",
        "--tier",
        "3",
        "--new-subject",
        "--detail-file",
        "-",
        "--why",
        "w",
        "--evidence",
        "D1",
        "--measured",
        "0,2026-11-30,true",
        "--link",
        "c.d",
        "--tag",
        "t",
        "--source",
        "user",
        "--trust",
        "confirmed",
        "--until",
        "2027-01-01",
        "--confidence",
        "developing",
        "--falsifier",
        "f",
        stdin=b"d",
    )
    op = {
        "do": "propose",
        "key": "a.c",
        "op": "set",
        "tier": 3,
        "new_subject": True,
        "text": "x",
        "detail": "d",
        "why": "w",
        "evidence": ["D1", {"exit": 0, "date": "2026-11-30", "command": "true"}],
        "links": ["c.d"],
        "tags": ["t"],
        "source": "user",
        "trust": "confirmed",
        "until": "2027-01-01",
        "confidence": "developing",
        "falsifier": "f",
    }
    project.ok("apply", "--run", run, "-", stdin=json.dumps(op).encode())
    one, two = ({n: v for n, v in body.items() if n not in ("salt", "key")} for _, body in project.records("proposal"))
    assert one == two
    assert one["evidence"][0] == entry


def test_kept(call, project):
    """An update is told which of detail, links and tags it inherits; one that gives or clears them is not."""
    run = project.start()
    project.fact(run, "a.b", "One.", "--detail-file", "-", "--link", "c.d", "--tag", "t", stdin=b"More.")
    words = ("propose", "--run", run, "--key", "a.b")
    assert call(*words, "--text", "Two.")["kept"] == ["detail", "links", "tags"]
    assert call(*words, "--text", "Three.", "--tag", "u", "--clear", "links")["kept"] == ["detail"]
    assert "kept" not in call(*words, "--text", "Four.", "--clear", "detail", "--clear", "tags").data


def test_until_that_has_passed(call, project):
    """A value whose last day has passed is taken, with a warning."""
    project.now = 1_796_025_600_000  # 2026-11-30T08:00:00Z
    words = ("propose", "--run", project.start(), "--tier", "2", "--new-subject", "--text", "x")
    assert call(*words, "--key", "a.b", "--until", "2026-11-29")["warning"]
    assert "warning" not in call(*words, "--key", "a.c", "--until", "2026-11-30").data


def test_retry_after_the_key_moved(call, project):
    """A proposal that is made again is the one that was made, even if another run has moved the key since."""
    one, two = project.start("codex"), project.start("claude")
    words = ("propose", "--run", one, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "one")
    first = call(*words)["proposal"]
    project.fact(two, "a.b", "two")
    reply = call(*words)
    assert (reply.status, reply["proposal"]) == (0, first)
    assert call(*words, "--why", "w").code == (3, "stale")
