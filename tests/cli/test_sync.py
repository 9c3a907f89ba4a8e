"""`sync`: decides what a run has staged, in one revision, and looks."""

from __future__ import annotations

import json

KINDS = ("applied", "unchanged", "held", "beside")


def test_nothing_staged(cli, project):
    """With nothing staged a revision without decisions records the look."""
    run = project.start()
    reply = cli("sync", "--run", run)
    assert reply.status == 0
    assert reply.data == {"revision": reply["revision"], "run": run, "changed": [], "warnings": [], **{kind: [] for kind in KINDS}}
    ((head, body),) = project.records("revision")
    assert reply["revision"].startswith("V%d-" % head["seq"])
    assert body["decisions"] == []


def test_every_outcome(cli, project):
    """The reply separates applied, unchanged, held and beside, each with its reason; held or beside make the exit 4."""
    base = project.start("base")
    for key in ("a.same", "a.beside"):
        project.fact(base, key, "zero")
    mine, other = project.start("codex"), project.start("claude")
    project.stage(mine, "a.new", "x", "--tier", "2", "--new-subject")
    project.stage(mine, "a.same", "zero")
    project.stage(mine, "a.unknown", "x", "--tier", "2")
    project.stage(mine, "a.rule", "x", "--tier", "1", "--new-subject")
    project.stage(mine, "a.beside", "mine")
    project.stage(other, "a.beside", "theirs")
    project.fact(other, "a.other", "x")
    reply = cli("sync", "--run", mine)
    assert reply.status == 4
    assert {kind: [(r["key"], r["reason"]) for r in reply[kind]] for kind in KINDS} == {
        "applied": [("a.new", "alone")],
        "unchanged": [("a.same", "same")],
        "held": [("a.unknown", "unknown-key"), ("a.rule", "needs-owner")],
        "beside": [("a.beside", "beside")],
    }
    assert reply["changed"] == ["a.other"]
    assert all(row["next"] for kind in ("held", "beside") for row in reply[kind])
    assert len(project.records("revision")[-1][1]["decisions"]) == 5


def test_human_output(cli, project):
    """In words there is a line for each decision and for what others changed; none is silence."""
    run, other = project.start("codex"), project.start("claude")
    assert cli("sync", "--run", run, plain=True).out.strip()
    project.stage(run, "a.unknown", "x", "--tier", "2")
    project.fact(other, "a.other")
    lines = cli("sync", "--run", run, plain=True).out.split("\n")
    assert [line.split(" ")[0] for line in lines[:2]] == ["held:", "changed"]
    assert "a.other" in lines[1]


def test_sync_looks(cli, project):
    """After a sync what others did is seen."""
    mine, other = project.start("codex"), project.start("claude")
    project.fact(other, "a.b", "one")
    assert cli("sync", "--run", mine)["changed"] == ["a.b"]
    assert cli("sync", "--run", mine)["changed"] == []
    assert project.call("propose", "--run", mine, "--key", "a.b", "--text", "two", "--now").status == 0


def test_only_own_staged_are_decided(call, project):
    """A sync decides nothing of another run."""
    mine, other = project.start("codex"), project.start("claude")
    project.stage(other, "a.b", "x", "--tier", "2", "--new-subject")
    assert project.ok("sync", "--run", mine)["applied"] == []
    assert call("recall", "a.b").status == 5


def test_a_decision_sees_those_before_it(project):
    """Two staged proposals with one value: the second is the same as the first made it."""
    run = project.start()
    project.fact(run, "a.b", "zero")
    project.stage(run, "a.b", "one")
    project.stage(run, "a.b", "zero")
    project.stage(run, "a.b", "zero", "--why", "Measured again.")
    reply = project.ok("sync", "--run", run)
    assert [r["reason"] for kind in ("applied", "unchanged") for r in reply[kind]] == ["alone", "alone", "same"]
    assert project.current("a.b")["text"] == "zero"


def test_many_decisions_are_one_unit(call, project, monkeypatch):
    """A commit too large for one ledger line is several revisions in one unit, all or nothing."""
    monkeypatch.setattr(project.engine, "_DECISIONS_BYTES_MAX", 2_000)
    run = project.start()
    lines = [json.dumps({"do": "propose", "key": f"k{n}", "tier": 2, "new_subject": True, "text": "x"}) for n in range(50)]
    project.ok("apply", "--run", run, "-", stdin="\n".join(lines).encode())
    reply = call("sync", "--run", run)
    assert len(reply["applied"]) == 50
    revisions = project.records("revision")
    assert len(revisions) > 1
    assert [head.get("unit") for head, _ in revisions] == [None] * (len(revisions) - 1) + [len(revisions)]
    assert sum(len(body["decisions"]) for _, body in revisions) == 50


def test_a_declined_proposal_is_not_decided(call, project):
    """What the owner set aside while it was staged is decided by no sync."""
    run = project.start()
    project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    handle = project.ok("review", "a.b")["questions"][0]["handle"]
    project.ok("resolve", handle, "--choose", "decline", "--human-approved")
    reply = project.ok("sync", "--run", run)
    assert [reply[kind] for kind in KINDS] == [[], [], [], []]
    assert call("recall", "a.b").status == 5
