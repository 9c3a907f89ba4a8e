"""`rebuild`: makes the cache and every view anew."""

from __future__ import annotations

import pytest


def test_counts(cli, project):
    """The answer counts records and views and says how long each took."""
    run = project.start()
    project.fact(run, "a.b")
    reply = cli("rebuild")
    assert reply.status == 0
    assert set(reply.data) == {"records", "views", "fold_ms", "views_ms", "warnings"}
    assert (reply["records"], reply["views"]) == (len(project.records()), len(project.views()))
    assert cli("rebuild", plain=True).out.strip()


def test_same_bytes(cli, project):
    """Every view and every answer is as before, and nothing is recorded."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")
    project.conflict("a.c")
    project.held("a.d")
    views, ledger, asked = (
        project.views(),
        project.ledger(),
        [project.ok(*words) for words in (("review", "--all"), ("recall", "a.c"), ("log",))],
    )
    for path in project.vault.glob("*/*.md"):
        path.unlink()
    assert cli("rebuild").status == 0
    assert project.views() == views
    assert project.ledger() == ledger
    assert [project.ok(*words) for words in (("review", "--all"), ("recall", "a.c"), ("log",))] == asked


@pytest.mark.parametrize("gone", ["MEMORY.md", ".muniment/local/state.sqlite"])
def test_deleted_parts_come_back_by_any_command(cli, project, gone):
    """A deleted MEMORY.md or cache comes back with the next command, byte for byte where it is a view."""
    run = project.start()
    project.fact(run, "a.b")
    views = project.views()
    (project.vault / gone).unlink()
    assert cli("recall", "a.b").status == 0
    assert (project.vault / gone).exists()
    assert project.views() == views


def test_deleted_local_folder(cli, project):
    """Without local/ the vault is as a copy: facts are there, a new run gets a ledger of its own, old runs are another copy's."""
    import shutil

    run = project.start()
    project.fact(run, "a.b")
    shutil.rmtree(project.vault / ".muniment" / "local")
    assert cli("recall", "a.b").status == 0
    assert cli("journal", "--run", run, "--text", "x").code == (3, "foreign-run")
    assert cli("start", "--actor", "codex").status == 0
    assert len(project.ledger()) == 2


def test_owners_files_stay(project):
    """What the owner put into the vault's folders is not touched."""
    project.fact(project.start(), "a.b")
    mine = project.vault / "notes" / "Mine.md"
    mine.write_text("mine")
    project.ok("rebuild")
    assert mine.read_text() == "mine"
