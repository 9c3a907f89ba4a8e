"""Which vault a command is about: named, found from the folder where one stands, or none."""

from __future__ import annotations

import os
import shutil

import pytest


def real(path):
    """Return a path as the engine names it."""
    return os.path.realpath(path)


@pytest.fixture
def other(project):
    """Return the folder of a second vault, beside the project."""
    folder = project.folder.parent / "other vault"
    project.cli("init", folder)
    return folder


@pytest.mark.parametrize("place", [".", "src/deep/er", "memory", "memory/notes/x", "memory/.muniment"])
def test_found_upward(project, place):
    """The nearest folder upward that is a vault, or has one at memory/, is found from anywhere in the project."""
    folder = project.folder / place
    folder.mkdir(parents=True, exist_ok=True)
    assert project.cli("status", cwd=folder)["vault"] == real(project.vault)


def test_nearest_is_found(project):
    """Of two vaults upward the nearer is found."""
    inner = project.folder / "packages" / "one"
    inner.mkdir(parents=True)
    project.cli("init", cwd=inner)
    assert project.cli("status", cwd=inner)["vault"] == real(inner / "memory")
    assert project.cli("status", cwd=inner.parent)["vault"] == real(project.vault)


def test_folder_of_that_name_is_no_vault(project):
    """A folder called memory/ that is no vault is passed over."""
    (project.folder / "src" / "memory").mkdir(parents=True)
    assert project.cli("status", cwd=project.folder / "src")["vault"] == real(project.vault)


def test_stops_at_the_repository(project):
    """A vault above the repository's root is not found; the error names `init`."""
    inner = project.folder / "vendored"
    (inner / ".git").mkdir(parents=True)
    (inner / "src").mkdir()
    reply = project.cli("status", cwd=inner / "src")
    assert (reply.code, "init" in reply.error["hint"]) == ((5, "no-vault"), True)


@pytest.mark.parametrize(
    "command", [("start", "--actor", "a"), ("status",), ("doctor",), ("journal", "--run", "R1-k7qdm2xw", "--text", "x")]
)
def test_none(bare, command):
    """Where there is no vault every command says so, and makes nothing."""
    assert bare.cli(*command).code == (5, "no-vault")
    assert [path.name for path in bare.folder.iterdir()] == [".git"]


def test_precedence(project, other):
    """--vault is stronger than $MUNIMENT_VAULT, and that than what is found; an empty variable is none."""
    third = project.folder.parent / "third"
    project.cli("init", third)
    assert project.cli("status", "--vault", third, env={"MUNIMENT_VAULT": str(other)})["vault"] == real(third)
    assert project.cli("status", env={"MUNIMENT_VAULT": str(other)})["vault"] == real(other)
    assert project.cli("status", env={"MUNIMENT_VAULT": ""})["vault"] == real(project.vault)


@pytest.mark.parametrize(
    "words",
    [
        ("--vault", "{}", "status"),
        ("status", "--vault", "{}"),
        ("--vault={}", "status"),
        ("status", "--vault={}"),
        ("--lock-wait", "1", "--vault", "{}", "--json", "status"),
        ("--json", "status", "--lock-wait=1", "--vault={}"),
    ],
)
def test_global_options_stand_anywhere(project, other, words):
    """The global options may stand before the command or after it."""
    reply = project.cli(*(word.format(other) for word in words))
    assert (reply.status, reply["vault"]) == (0, real(other))


def test_relative_name(project, other):
    """A relative name is relative to the folder where one stands."""
    assert project.cli("status", "--vault", f"../{other.name}")["vault"] == real(other)
    assert project.cli("status", "--vault", ".", cwd=other)["vault"] == real(other)


def test_named_folder_is_no_vault(project):
    """A named folder that is no vault, or not there, is not searched from."""
    (project.folder / "src").mkdir()
    assert project.cli("status", "--vault", "src").code == (5, "no-vault")
    assert project.cli("status", "--vault", "nowhere").code == (5, "no-vault")
    assert project.cli("status", "--vault", ".").code == (5, "no-vault")


def test_git_worktree(bare, git):
    """In a git worktree the main worktree's private vault is found; one of the worktree's own is nearer."""
    git(bare.folder, "init", "-q")
    (bare.folder / "code").write_text("x")
    git(bare.folder, "add", "code")
    git(bare.folder, "commit", "-qm", "x")
    bare.cli("init")
    tree = bare.folder.parent / "work tree"
    git(bare.folder, "worktree", "add", "-q", "-b", "tree", str(tree))
    (tree / "src").mkdir()
    assert bare.cli("status", cwd=tree / "src")["vault"] == real(bare.vault)
    run = bare.cli("start", "--actor", "codex", cwd=tree)["run"]
    assert [r["run"] for r in bare.ok("status")["open"]] == [run]
    bare.cli("init", cwd=tree)
    assert bare.cli("status", cwd=tree / "src")["vault"] == real(tree / "memory")


def test_git_worktree_within_the_repository(bare, git):
    """A worktree that lies inside the main one finds its vault too."""
    git(bare.folder, "init", "-q")
    git(bare.folder, "commit", "-qm", "x", "--allow-empty")
    bare.cli("init")
    git(bare.folder, "worktree", "add", "-q", ".trees/one")
    assert bare.cli("status", cwd=bare.folder / ".trees" / "one")["vault"] == real(bare.vault)


def test_submodule_is_a_repository(bare, git):
    """A .git file that is no worktree's ends the search like a repository's root."""
    git(bare.folder, "init", "-q")
    bare.cli("init")
    module = bare.folder / "module"
    module.mkdir()
    (module / ".git").write_text("gitdir: ../.git/modules/module\n")
    assert bare.cli("status", cwd=module).code == (5, "no-vault")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owner to compare here")
def test_somebody_elses(project, engine, monkeypatch):
    """A vault of another user that is found is not adopted; naming it is consent."""
    monkeypatch.chdir(project.folder)
    mine = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(engine.FilesystemRefused) as refused:
            engine.find_vault(None, str(project.folder))
        assert (refused.value.code, refused.value.exit_status) == ("foreign-owner", 9)
        assert project.call("status").status == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_search_stops_where_the_owner_changes(project):
    """A vault above a folder of another owner is not found, and one of another owner is refused when it is."""
    (project.folder / "theirs" / "src").mkdir(parents=True)
    os.chown(project.folder / "theirs", 65_534, -1)
    os.chown(project.folder / "theirs" / "src", 65_534, -1)
    assert project.cli("status", cwd=project.folder / "theirs" / "src").code == (5, "no-vault")
    os.chown(project.vault, 65_534, -1)
    assert project.cli("status").code == (9, "foreign-owner")
    assert project.cli("status", "--vault", "memory").status == 0


def test_copy(project):
    """A copied vault writes to a ledger of its own, and both copies' facts join when the ledgers meet."""
    run = project.start()
    project.fact(run, "a.b", "one")
    copy = type(project)(project.folder.parent / "copy", project.engine)
    shutil.copytree(project.folder, copy.folder)
    assert copy.cli("journal", "--run", run, "--text", "x").code == (3, "foreign-run")
    copy.fact(copy.cli("start", "--actor", "claude")["run"], "a.copy", "two")
    project.fact(run, "a.original", "three")
    assert len(copy.ledger()) == 2
    for name, data in copy.ledger().items():
        if name not in project.ledger():
            (project.vault / ".muniment" / "ledger" / name).write_bytes(data)
    for name, data in project.ledger().items():
        (copy.vault / ".muniment" / "ledger" / name).write_bytes(data)
    for one in (project, copy):
        assert [s["key"] for s in one.cli("recall", "--prefix", "a.")["subjects"]] == ["a.b", "a.copy", "a.original"]
        assert one.cli("doctor", "--strict").status == 0
    assert project.views() == copy.views()


def test_moved_vault(project):
    """A vault that was moved goes on with its own ledger and runs."""
    run = project.start()
    moved = project.folder.parent / "moved"
    project.vault.rename(moved)
    assert project.cli("journal", "--run", run, "--text", "x", "--vault", moved).status == 0
    project.vault = moved
    assert len(project.ledger()) == 1
