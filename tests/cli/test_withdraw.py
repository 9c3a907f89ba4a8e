"""`withdraw`: takes back a run's own staged proposal or working contender."""

from __future__ import annotations

import pytest


def test_staged(cli, project):
    """A withdrawn staged proposal is decided by no sync; the answer names it, its key and its run."""
    run = project.start()
    proposal = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    reply = cli("withdraw", proposal, "--run", run)
    assert reply.status == 0
    assert reply.data == {"withdrawn": proposal, "key": "a.b", "run": run, "warnings": []}
    assert project.ok("sync", "--run", run)["applied"] == []
    assert project.call("recall", "a.b").status == 5


def test_human_output(cli, project):
    """In words the answer names the proposal."""
    run = project.start()
    proposal = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    assert proposal in cli("withdraw", proposal, "--run", run, plain=True).out


def test_contender(cli, project):
    """A withdrawn working contender ends the conflict; it stays in the history."""
    _, (run, proposal), _ = project.conflict("a.b", "one", "two")
    assert cli("withdraw", proposal, "--run", run).status == 0
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["text"], found["contenders"]) == ("current", "one", [])
    assert [(c["id"], c["outcome"]) for c in project.ok("history", "a.b")["generations"]] == [(proposal, "withdrawn")]


def test_held(cli, project):
    """A run may take back what was held, so that it does not wait for ever; it is then asked no more."""
    run, proposal, handle = project.held("a.b")
    assert cli("withdraw", proposal, "--run", run).status == 0
    assert project.ok("status")["held"] == 0
    assert project.call("review", handle).code == (3, "moved")


def test_first_of_a_conflict(call, project):
    """The current value of a conflict may be withdrawn by its run too; the other is then current."""
    (run, proposal), _, _ = project.conflict("a.b", "one", "two")
    assert call("withdraw", proposal, "--run", run).status == 0
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["text"]) == ("current", "two")


def test_what_it_replaced_returns(call, project):
    """Withdrawn, a contender gives back what only it replaced."""
    (_, first), (_, second), handle = project.conflict("a.b", "one", "two")
    run = project.start("gemini")
    third = project.call("propose", "--run", run, "--key", "a.b", "--text", "three", "--now")["proposal"]
    assert project.ok("review", "a.b")["questions"][0]["answers"][:2] == [third, second]
    assert call("withdraw", third, "--run", run).status == 0
    (question,) = project.ok("review", "a.b")["questions"]
    assert (question["answers"][:2], question["handle"]) == ([first, second], handle)


@pytest.mark.parametrize("case", ["alone", "twice", "confirmed", "other-run", "touched"])
def test_not_withdrawable(call, project, case):
    """What was decided and does not stand beside another, an owner's statement, or another run's is refused."""
    run = owner = project.start()
    if case == "alone":
        proposal = project.fact(run, "a.b")
    elif case == "twice":
        proposal = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
        project.ok("withdraw", proposal, "--run", run)
    elif case == "confirmed":
        other = project.start("claude")
        proposal = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject", "--source", "user", "--trust", "confirmed")
        project.owned(other, "a.b", "y")
        assert call("sync", "--run", run).status == 4
    elif case == "touched":
        project.fact(run, "a.b")
        proposal = project.ok("propose", "--run", run, "--key", "a.b", "--op", "touch", "--now")["proposal"]
    else:
        proposal = project.stage(owner, "a.b", "x", "--tier", "2", "--new-subject")
        run = project.start("claude")
    before = project.ledger()
    assert call("withdraw", proposal, "--run", run).code == (3, "not-withdrawable")
    assert project.ledger() == before


def test_rested_upon(call, project):
    """What another run has said the same as is not taken back."""
    (run, proposal), _, _ = project.conflict("a.b", "one", "two")
    third = project.start("gemini")
    assert [r["reason"] for r in project.ok("propose", "--run", third, "--key", "a.b", "--text", "one", "--now")["unchanged"]] == ["same"]
    assert call("withdraw", proposal, "--run", run).code == (3, "not-withdrawable")


def test_unknown_proposal(call, project):
    """A proposal that the vault does not have, or an id of another kind, is refused."""
    run = project.start()
    entry = project.journal(run)
    assert call("withdraw", "P999-" + run.split("-")[1], "--run", run).code == (3, "unknown-proposal")
    assert call("withdraw", entry, "--run", run).code == (3, "bad-id")


def test_a_withdrawn_link_of_a_chain(call, project):
    """With the first of two own staged proposals withdrawn, the second has no subject to change and is held."""
    run = project.start()
    first = project.stage(run, "a.b", "one", "--tier", "2", "--new-subject")
    project.stage(run, "a.b", "two")
    project.ok("withdraw", first, "--run", run)
    call("sync", "--run", run)
    assert (call("recall", "a.b").status, project.ok("status")["held"]) == (5, 1)
