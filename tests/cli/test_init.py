"""`init`: makes a vault, and touches nothing that was there."""

from __future__ import annotations

import json
import os
import uuid

import pytest

ENGINES_OWN = {"MEMORY.md", "INDEX.md", ".gitignore", ".muniment"}


def names(folder):
    """Return the names in a folder."""
    return {path.name for path in folder.iterdir()}


def test_default_folder(bare):
    """Without a name the vault is memory/ of the folder where one stands, and the answer says where and what comes next."""
    reply = bare.cli("init")
    assert reply.status == 0
    assert set(reply.data) == {"vault", "id", "tracked", "next", "warnings"}
    assert reply["vault"] == os.path.realpath(bare.vault)
    assert reply["tracked"] is False
    assert reply["next"].split()[0] == "start"
    assert reply["warnings"] == []
    assert reply.err == ""


def test_layout(bare):
    """A new vault has its format file, folder of ledgers, both views, and nothing of the owner's."""
    bare.cli("init")
    assert names(bare.vault) == ENGINES_OWN
    assert names(bare.vault / ".muniment") >= {"format.json", "ledger", "local"}


def test_format_file(bare):
    """format.json holds the version and a random UUID, in its one form."""
    vault_id = bare.cli("init")["id"]
    assert (bare.vault / ".muniment" / "format.json").read_text() == f'{{"format":1,"vault":"{vault_id}"}}\n'
    assert uuid.UUID(vault_id).version == 4
    assert bare.cli("init", "other")["id"] != vault_id


def test_a_new_vault_is_healthy(bare):
    """The strictest check finds nothing in a vault that was only made."""
    bare.cli("init")
    reply = bare.cli("doctor", "--strict")
    assert (reply.status, reply["findings"]) == (0, [])


@pytest.mark.parametrize("name", ["notes vault", "Gedächtnis", "a/b/c", "記憶 memory"])
def test_named_folder(bare, name):
    """A named folder is made with what is missing above it, whatever letters its name has, and works."""
    reply = bare.cli("init", name)
    folder = bare.folder / name
    assert (reply.status, reply["vault"]) == (0, os.path.realpath(folder))
    run = bare.cli("start", "--actor", "codex", "--vault", name)["run"]
    assert bare.cli("journal", "--run", run, "--text", "Grüße", cwd=folder).status == 0
    assert "Grüße" in (folder / "journal" / (run + ".md")).read_text(encoding="utf-8")


def test_absolute_and_option_and_environment(bare):
    """The folder may be named by the argument, by --vault or by $MUNIMENT_VAULT; the argument is strongest."""
    one, two, three = (bare.folder / name for name in ("one", "two", "three"))
    assert bare.cli("init", one, "--vault", two)["vault"] == os.path.realpath(one)
    assert bare.cli("init", "--vault", two, env={"MUNIMENT_VAULT": str(three)})["vault"] == os.path.realpath(two)
    assert bare.cli("init", env={"MUNIMENT_VAULT": str(three)})["vault"] == os.path.realpath(three)


def test_human_output(bare):
    """In words the answer names the folder and the next command."""
    reply = bare.cli("init", plain=True)
    assert reply.status == 0
    assert os.path.realpath(bare.vault) in reply.out
    assert "start --actor" in reply.out


def test_a_vault_is_there(project):
    """A folder that is a vault already is refused and stays as it is."""
    before = project.tree()
    assert project.cli("init").code == (3, "vault-exists")
    assert project.cli("init", "--tracked").code == (3, "vault-exists")
    assert project.tree() == before


def test_a_file_is_there(bare):
    """A file in the folder's place is refused and stays."""
    bare.vault.write_text("mine")
    assert bare.cli("init").code == (9, "not-a-folder")
    assert bare.vault.read_text() == "mine"


@pytest.mark.parametrize("name", ["MEMORY.md", "INDEX.md", "notes", "history", "journal", "conflicts", "notes/"])
def test_reserved_name(bare, name):
    """A name that the vault needs for itself is refused where it is taken, and nothing is added."""
    bare.vault.mkdir()
    taken = bare.vault / name.rstrip("/")
    taken.mkdir() if name.endswith("/") else taken.write_text("mine")
    assert bare.cli("init").code == (3, "reserved-name")
    assert names(bare.vault) == {taken.name}


def test_folder_with_notes(bare):
    """A folder that already holds notes keeps each byte of them, now and when the engine writes."""
    (bare.vault / "Daily").mkdir(parents=True)
    (bare.vault / "Daily" / "Monday.md").write_bytes(b"mine\r\n\xff")
    (bare.vault / "README.md").write_bytes(b"# mine")
    assert bare.cli("init").status == 0
    bare.fact(bare.start(), "a.b")
    assert names(bare.vault) == ENGINES_OWN | {"Daily", "README.md", "notes", "journal"}
    assert (bare.vault / "Daily" / "Monday.md").read_bytes() == b"mine\r\n\xff"
    assert (bare.vault / "README.md").read_bytes() == b"# mine"


@pytest.mark.parametrize("words", [(), ("--tracked",)])
def test_own_gitignore(bare, words):
    """A .gitignore that was there is left as it is, and the owner is told which lines git needs."""
    bare.vault.mkdir()
    (bare.vault / ".gitignore").write_text("*.tmp\n")
    reply = bare.cli("init", *words)
    assert reply.status == 0
    assert len(reply["warnings"]) == 1
    assert (bare.vault / ".gitignore").read_text() == "*.tmp\n"


def test_through_a_link(bare):
    """The vault's root may be a symbolic link, as into an Obsidian vault; what is written goes where it leads."""
    real = bare.folder / "obsidian" / "Project memory"
    real.mkdir(parents=True)
    (real / "Note.md").write_text("mine")
    try:
        bare.vault.symlink_to(real, target_is_directory=True)
    except OSError:
        pytest.skip("symbolic links cannot be made here")
    assert bare.cli("init")["vault"] == os.path.realpath(real)
    run = bare.cli("start", "--actor", "codex")["run"]
    assert (real / "journal" / (run + ".md")).is_file()
    assert bare.vault.is_symlink()
    assert bare.cli("doctor", "--strict").status == 0


def test_what_a_killed_init_left(bare):
    """A folder in which `init` was interrupted before the format file can be completed by `init`."""
    (bare.vault / ".muniment" / "ledger").mkdir(parents=True)
    assert bare.cli("init").status == 0
    assert bare.cli("start", "--actor", "codex").status == 0


@pytest.mark.skipif(os.name != "posix", reason="modes mean nothing here")
def test_private_modes(bare):
    """Nobody else may enter a private vault or read a file of it."""
    bare.cli("init")
    run = bare.start()
    bare.fact(run, "a.b")
    private = [bare.vault, *(path for path in bare.vault.rglob("*") if path.is_file())]
    assert [path for path in private if path.stat().st_mode & 0o077] == []


def test_private_vault_and_git(bare, git):
    """Git sees nothing of a private vault."""
    git(bare.folder, "init", "-q")
    bare.cli("init")
    bare.fact(bare.start(), "a.b")
    assert git(bare.folder, "status", "--porcelain") == ""


def test_tracked_vault_and_git(bare, git):
    """Git carries of a tracked vault the format file, the ledgers and the two files that say so; never a view."""
    git(bare.folder, "init", "-q")
    assert bare.cli("init", "--tracked")["tracked"] is True
    run = bare.start()
    bare.fact(run, "a.b")
    bare.journal(run)
    git(bare.folder, "add", "-A")
    ledger = next(iter(bare.ledger()))
    assert git(bare.folder, "ls-files").split() == sorted(
        ["memory/.gitattributes", "memory/.gitignore", "memory/.muniment/format.json", "memory/.muniment/ledger/" + ledger]
    )
    said = git(bare.folder, "check-attr", "text", "merge", "--", "memory/.muniment/ledger/" + ledger).split("\n")
    assert [line.split(": ", 1)[1] for line in said if line] == ["text: unset", "merge: union"]


def test_tracked_vault_comes_back_from_git(bare, git):
    """A clone of a tracked vault has the same facts and the same bytes of every view."""
    git(bare.folder, "init", "-q")
    bare.cli("init", "--tracked")
    run = bare.start()
    bare.fact(run, "a.b", "It is so.")
    bare.journal(run)
    git(bare.folder, "add", "-A")
    git(bare.folder, "commit", "-qm", "memory")
    views = bare.views()
    git(bare.folder.parent, "clone", "-q", "project", "clone")
    clone = type(bare)(bare.folder.parent / "clone", bare.engine)
    assert clone.cli("recall", "a.b")["current"]["text"] == "It is so."
    assert clone.ok("rebuild")["warnings"] == []
    assert clone.views() == views
    assert json.loads((clone.vault / ".muniment" / "format.json").read_text())["vault"] == bare.ok("status")["id"]
