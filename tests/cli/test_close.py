"""`close`: decides what a run has staged and closes it."""

from __future__ import annotations

import shutil

import pytest


def test_close(cli, project):
    """The answer has the outcome and what was decided; the record has summary and how."""
    run = project.start()
    made = project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    reply = cli("close", "--run", run, "--outcome", "success", "--summary", "Built it.\nTested it.")
    assert reply.status == 0
    assert set(reply.data) == {"revision", "applied", "unchanged", "held", "beside", "changed", "run", "outcome", "how", "warnings"}
    assert (reply["run"], reply["outcome"], reply["how"]) == (run, "success", "close")
    assert [row["proposal"] for row in reply["applied"]] == [made]
    ((_, body),) = project.records("run-close")
    assert (body["run"], body["outcome"], body["summary"], body["how"]) == (run, "success", "Built it.\nTested it.", "close")


def test_one_unit(project):
    """Decisions and close are one append."""
    run = project.start()
    project.stage(run, "a.b", "x", "--tier", "2", "--new-subject")
    project.close(run)
    assert [(head["kind"], head.get("unit")) for head, _ in project.records()[-2:]] == [("revision", None), ("run-close", 2)]


def test_human_output(cli, project):
    """In words the answer names the run and the outcome."""
    run = project.start()
    reply = cli("close", "--run", run, "--outcome", "fail", "--summary", "It broke.", plain=True)
    assert run in reply.out
    assert "fail" in reply.out


@pytest.mark.parametrize("outcome", ["success", "partial", "overflow", "fail"])
def test_outcomes(call, project, outcome):
    """Each outcome is recorded and shown in the run's journal with the summary."""
    run = project.start()
    assert call("close", "--run", run, "--outcome", outcome, "--summary", "The end.")["outcome"] == outcome
    page = (project.vault / "journal" / (run + ".md")).read_text(encoding="utf-8")
    assert f"outcome {outcome}" in page
    assert "\n> The end.\n" in page


def test_held_and_beside(cli, project):
    """A decision that was held makes the exit 4, and the run is closed all the same."""
    run = project.start()
    project.stage(run, "a.rule", "x", "--tier", "1", "--new-subject")
    reply = cli("close", "--run", run, "--outcome", "success", "--summary", "x")
    assert (reply.status, [row["reason"] for row in reply["held"]]) == (4, ["needs-owner"])
    assert project.ok("status")["open"] == []


def test_closed_run_does_nothing_more(call, project):
    """Every command of a closed run is refused."""
    run = project.start()
    project.close(run)
    before = project.ledger()
    for words in (
        ("journal", "--text", "x"),
        ("propose", "--key", "a.b", "--tier", "2", "--text", "x"),
        ("sync",),
        ("close", "--outcome", "success", "--summary", "x"),
        ("withdraw", "P1-" + run.split("-")[1]),
        ("apply", "-"),
        ("maintain", "--mark"),
    ):
        assert call(*words, "--run", run).code == (3, "closed-run"), words
    assert project.ledger() == before


def test_without_run_one_open(cli, project):
    """Without --run the one open run is closed."""
    project.close(project.start())
    run = project.start()
    reply = cli("close", "--outcome", "success", "--summary", "x")
    assert (reply.status, reply["run"]) == (0, run)


def test_without_run_several_open(cli, project):
    """Without --run and with several open runs of this machine nothing is closed, and they are named."""
    runs = project.start("codex"), project.start("claude")
    before = project.ledger()
    reply = cli("close", "--outcome", "success", "--summary", "x")
    assert reply.code == (3, "several-runs")
    assert all(run in reply.error["message"] for run in runs)
    assert project.ledger() == before


def test_without_run_none_open(cli, project):
    """Without --run and with none open the answer says so."""
    project.close(project.start())
    assert cli("close", "--outcome", "success", "--summary", "x").code == (3, "unknown-run")


def test_empty_run_is_not_no_run(cli, project):
    """An empty handle, as a shell makes of an unset variable, closes nobody's run."""
    project.start()
    before = project.ledger()
    reply = cli("close", "--run", "", "--outcome", "success", "--summary", "x")
    assert reply.code == (3, "bad-id")
    assert project.ledger() == before


def test_a_copys_runs_are_not_ones_own(project):
    """Without --run, a run that was open in the vault that this one was copied from is not closed."""
    project.start()
    shutil.copytree(project.vault, project.folder / "copy")
    assert project.cli("close", "--vault", "copy", "--outcome", "success", "--summary", "x").code == (3, "unknown-run")


@pytest.mark.parametrize("words", [("--outcome", "success"), ("--summary", "x"), ("--outcome", "done", "--summary", "x")])
def test_usage(call, project, words):
    """Outcome and summary are needed, and the outcome is one of four."""
    run = project.start()
    assert call("close", "--run", run, *words).code == (2, "usage")
    assert [row["run"] for row in project.ok("status")["open"]] == [run]
