"""`recover-run`: closes an orphaned run for its absent agent."""

from __future__ import annotations

import shutil

import pytest


def test_orphan(cli, project):
    """The run is closed as recovered, outcome partial, and what it had staged is decided."""
    run = project.start()
    made = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    reply = cli("recover-run", "--run", run, "--summary", "The session died.", "--human-approved")
    assert reply.status == 0
    assert (reply["run"], reply["outcome"], reply["how"]) == (run, "partial", "recovered")
    assert [row["proposal"] for row in reply["applied"]] == [made]
    assert project.current("a.b")["id"] == made
    ((_, body),) = project.records("run-close")
    assert (body["how"], body["outcome"], body["summary"]) == ("recovered", "partial", "The session died.")
    assert project.ok("status")["open"] == []


@pytest.mark.parametrize("outcome", ["success", "partial", "overflow", "fail"])
def test_outcome(project, outcome):
    """Another outcome may be given."""
    run = project.start()
    assert project.ok("recover-run", "--run", run, "--summary", "x", "--outcome", outcome, "--human-approved")["outcome"] == outcome


def test_human_output(cli, project):
    """In words the answer names the run."""
    run = project.start()
    assert run in cli("recover-run", "--run", run, "--summary", "x", "--human-approved", plain=True).out


def test_owner_only(cli, project):
    """Without the owner's word nothing is closed."""
    run = project.start()
    before = project.ledger()
    assert cli("recover-run", "--run", run, "--summary", "x").code == (3, "needs-approval")
    assert project.ledger() == before


def test_staged_that_is_held(call, project):
    """What is held on the way makes the exit 4."""
    run = project.start()
    project.stage(run, "a.rule", "x", "--tier", "1", "--new-subject")
    assert call("recover-run", "--run", run, "--summary", "x", "--human-approved").status == 4


def test_closed_and_unknown(call, project):
    """A closed run and one that the vault does not have are refused."""
    run = project.start()
    project.close(run)
    assert call("recover-run", "--run", run, "--summary", "x", "--human-approved").code == (3, "closed-run")
    assert call("recover-run", "--run", "R99-" + run.split("-")[1], "--summary", "x", "--human-approved").code == (3, "unknown-run")


def test_run_of_another_copy(project):
    """The owner may close a run that another copy of the vault opened."""
    run = project.start()
    made = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    shutil.copytree(project.vault, project.folder / "copy")
    reply = project.cli("recover-run", "--vault", "copy", "--run", run, "--summary", "x", "--human-approved")
    assert (reply.status, [row["proposal"] for row in reply["applied"]]) == (0, [made])
    assert project.cli("doctor", "--vault", "copy", "--strict").status == 0
