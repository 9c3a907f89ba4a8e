"""`demo`: the newcomer's first minute."""

from __future__ import annotations

import os


def test_demo(bare):
    """It makes a vault in the folder it is told, shows an accepted, a held and a contested change and the answer, and MEMORY.md."""
    place = bare.folder / "my demo é"
    reply = bare.cli("demo", "--in", place, plain=True)
    assert (reply.status, reply.err) == (0, "")
    bare.vault = place / "memory"
    assert bare.doctor() == []
    memory = (bare.vault / "MEMORY.md").read_text(encoding="utf-8")
    assert memory in reply.out
    for word in ("applied: ", "held: ", "beside: ", "needs-owner", "resolve C-", "resolve H-", "0 errors, 0 warnings"):
        assert word in reply.out, word
    status = bare.ok("status")
    assert (status["runs"], status["open"], status["conflicts"], status["held"]) == (2, [], 0, 0)
    assert len(bare.records("resolution")) == 2


def test_json(bare):
    """With --json it prints one object that says where the vault is."""
    reply = bare.cli("demo", "--in", bare.folder)
    assert reply.status == 0
    assert os.path.realpath(reply["vault"]) == os.path.realpath(bare.vault)


def test_temporary_folder(bare, tmp_path):
    """Without --in the vault is in a temporary folder, and the folder where one stands stays as it is."""
    before = sorted(bare.folder.rglob("*"))
    reply = bare.cli("demo", env={"TMPDIR": str(tmp_path), "TEMP": str(tmp_path), "TMP": str(tmp_path)})
    assert reply.status == 0
    assert os.path.realpath(reply["vault"]).startswith(os.path.realpath(tmp_path))
    assert sorted(bare.folder.rglob("*")) == before


def test_taken(bare):
    """A folder that has a vault is refused, and the vault stays."""
    bare.ok("init", bare.vault)
    before = bare.tree()
    assert bare.cli("demo", "--in", bare.folder).code == (3, "vault-exists")
    assert bare.tree() == before


def test_ignores_the_vault_it_stands_in(bare):
    """The demo writes to its own vault only, whatever $MUNIMENT_VAULT names."""
    bare.ok("init", bare.vault)
    before = bare.tree()
    assert bare.cli("demo", "--in", bare.folder / "elsewhere", env={"MUNIMENT_VAULT": str(bare.vault)}).status == 0
    assert bare.tree() == before
