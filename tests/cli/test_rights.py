"""Who may read and write what the engine makes: the owner alone in a private vault and in local/, else as the umask says."""

from __future__ import annotations

import os
import shutil
import stat

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")

UMASKS = (0o022, 0o000, 0o027, 0o077)
ONLY_OWNER = 0o077


class Shell:
    """Commands on the vault of a bare project, each given with a umask."""

    def __init__(self, project, umask):
        self.project, self.umask = project, umask
        self.state = project.folder / "state"

    def run(self, *words, status=0):
        """Give one command; return what it printed."""
        before = os.umask(self.umask)
        told = os.environ["MUNIMENT_STATE"]
        os.environ["MUNIMENT_STATE"] = str(self.state)
        try:
            reply = self.project.call(*words)
        finally:
            os.umask(before)
            os.environ["MUNIMENT_STATE"] = told
        assert reply.status == status, reply
        return reply.data

    def work(self):
        """Make every kind of file: views, ledgers of two replicas, kept bytes of every sort, the index, what eval keeps."""
        vault = self.project.vault
        run = self.run("start", "--actor", "codex")["run"]
        self.run("journal", "--run", run, "--text", "It was seen.")
        self.run("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "One.", "--now")
        self.run("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")
        other = self.run("start", "--actor", "claude")["run"]
        for text, by in (("x", run), ("y", other)):
            self.run("propose", "--run", by, "--key", "fight.one", "--tier", "2", "--new-subject", "--text", text)
        self.run("sync", "--run", run)
        self.run("sync", "--run", other, status=4)
        (vault / "MEMORY.md").write_bytes(b"Mine.\n")
        self.run("status")
        ledger = next((vault / ".muniment" / "ledger").iterdir())
        with ledger.open("ab") as file:
            file.write(b'{"body"')
        self.run("journal", "--run", run, "--text", "It was seen again.")
        self.run("search", "seen")
        cases = self.project.folder / "cases"
        cases.write_text('{"q": "seen", "answers": ["a.b"]}\n')
        self.run("eval", cases)
        (vault / ".muniment" / "local" / "replica.json").unlink()
        self.run("start", "--actor", "gemini")
        assert len(list((vault / ".muniment" / "ledger").iterdir())) == 2


def modes(root):
    """Return the mode of every file and folder below a folder, itself too, by its path."""
    paths = [root, *root.rglob("*")]
    return {path.relative_to(root).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in paths if not path.is_symlink()}


def wrong(root, expected):
    """Return the modes that are not as ``expected`` says of a path and of whether it is a folder."""
    return {name: oct(mode) for name, mode in modes(root).items() if mode != expected(name, (root / name).is_dir())}


@pytest.mark.parametrize("umask", UMASKS)
def test_private(bare, umask):
    """In a private vault every folder is 0700 and every file 0600, whatever the umask says."""
    shell = Shell(bare, umask)
    shell.run("init", bare.vault)
    shell.work()
    assert wrong(bare.vault, lambda name, folder: 0o700 if folder else 0o600) == {}


@pytest.mark.parametrize("umask", UMASKS)
def test_tracked(bare, umask):
    """In a tracked vault folders and files have what the umask leaves, but in local/ the owner's rights alone."""
    shell = Shell(bare, umask)
    shell.run("init", bare.vault, "--tracked")
    shell.work()

    def expected(name, folder):
        mode = 0o777 if folder else 0o666
        if name.startswith(".muniment/local/"):
            return 0o700 if folder else 0o600
        return mode & ~umask

    found = wrong(bare.vault, expected)
    assert found.pop(".muniment/local", "0o700") == "0o700"
    assert found == {}


@pytest.mark.parametrize("tracked", [(), ("--tracked",)])
@pytest.mark.parametrize("umask", UMASKS)
def test_witness(bare, umask, tracked):
    """What this machine remembers of a vault is for its owner alone, with the folder that is made for it."""
    shell = Shell(bare, umask)
    shell.run("init", bare.vault, *tracked)
    shell.work()
    assert modes(shell.state)
    assert {name: mode for name, mode in modes(shell.state).items() if mode & ONLY_OWNER} == {}


@pytest.mark.parametrize("umask", UMASKS)
def test_what_is_made_anew(bare, umask):
    """Every derived file that was deleted comes back with the rights that it had."""
    shell = Shell(bare, umask)
    shell.run("init", bare.vault, *(["--tracked"] if umask == 0o027 else []))
    shell.work()
    before = modes(bare.vault)
    for name in ("notes", "history", "journal", "conflicts", ".muniment/local"):
        shutil.rmtree(bare.vault / name)
    (bare.vault / "MEMORY.md").unlink()
    shell.run("rebuild")
    after = modes(bare.vault)
    assert {name: (oct(before[name]), oct(mode)) for name, mode in after.items() if before.get(name) != mode} == {}


def test_umask_may_change(bare):
    """The rights of a private vault do not depend on who comes later with which umask; of a tracked one nobody gets more than it has."""
    for tracked in ((), ("--tracked",)):
        shell = Shell(bare, 0o077)
        shell.run("init", bare.vault, *tracked)
        shell.umask = 0
        shell.work()
        assert {name: oct(mode) for name, mode in modes(bare.vault).items() if mode & ONLY_OWNER} == {}
        shutil.rmtree(bare.vault)
        shutil.rmtree(shell.state)


def test_an_interrupted_tracked_init(bare):
    """What an interrupted `init --tracked` left makes no private vault that others may read."""
    shell = Shell(bare, 0o022)
    (bare.vault / ".muniment" / "ledger").mkdir(parents=True)
    shell.run("init", bare.vault)
    shell.work()
    found = {name: oct(mode) for name, mode in modes(bare.vault).items() if mode & ONLY_OWNER}
    assert set(found) <= {"."}


@pytest.mark.parametrize(
    "where",
    ["MEMORY.md", "notes", "notes/a.b.md", ".muniment", ".muniment/ledger", "ledger", ".muniment/local", ".muniment/format.json", "."],
)
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_doctor_tells_what_others_may_write(project, where, bits):
    """What the group or everyone may write is a warning, which fails under --strict, and names the path; --fix is not needed to go on."""
    project.fact(project.start(), "a.b")
    path = next((project.vault / ".muniment" / "ledger").iterdir()) if where == "ledger" else project.vault / where
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(before | bits)
    found = [(f["kind"], os.path.realpath(f["path"])) for f in project.doctor()]
    assert found == [("writable-by-others", os.path.realpath(path))]
    assert project.call("doctor").status == 0
    assert project.call("doctor", "--strict").status == 7
    path.chmod(before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("where", ["ledger", ".muniment/format.json", ".muniment/local/replica.json", ".muniment/recovery"])
def test_doctor_tells_what_others_own(project, where):
    """A file of the engine's that belongs to another user than the vault is a warning."""
    project.fact(project.start(), "a.b")
    path = next((project.vault / ".muniment" / "ledger").iterdir()) if where == "ledger" else project.vault / where
    os.chown(path, 65534, -1)
    found = [(f["kind"], os.path.realpath(f["path"])) for f in project.doctor()]
    assert found == [("foreign-file", os.path.realpath(path))]
    os.chown(path, os.geteuid(), -1)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("whose", ["all", "vault", ".muniment"])
def test_a_planted_vault_is_not_adopted(bare, whose):
    """A vault upward, or its own part alone, that belongs to another user is found by no search; naming it is consent."""
    bare.ok("init", bare.vault)
    planted = {"all": [bare.vault, *bare.vault.rglob("*")], "vault": [bare.vault], ".muniment": [bare.vault / ".muniment"]}[whose]
    for path in planted:
        os.chown(path, 65534, -1)
    below = bare.folder / "src" / "deep"
    below.mkdir(parents=True)
    before = bare.tree()
    for words in (("status",), ("start", "--actor", "x"), ("search", "x")):
        assert bare.cli(*words, cwd=below).code == (9, "foreign-owner")
    assert bare.tree() == before
    assert bare.cli("status", "--vault", bare.vault, cwd=below).status == 0
    assert bare.cli("status", cwd=below, env={"MUNIMENT_VAULT": str(bare.vault)}).status == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to another user")
def test_the_search_stops_at_another_owner(bare):
    """A vault in a parent folder of another owner is not found at all."""
    bare.ok("init", bare.vault)
    mine = bare.folder / "theirs" / "mine"
    mine.mkdir(parents=True)
    os.chown(mine.parent, 65534, -1)
    assert bare.cli("status", cwd=mine).code == (5, "no-vault")
