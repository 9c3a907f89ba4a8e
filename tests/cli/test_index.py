"""`index`: brings the search index in line, says how it is, makes it anew or drops it; nothing else depends on it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from conftest import DAY, MONDAY, Project


def write(path, text):
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)


def index_of(project):
    """Return the path of a vault's index."""
    return project.vault / ".muniment" / "local" / "index.sqlite"


def change(project, sql):
    """Change an index as no engine does."""
    db = sqlite3.connect(index_of(project))
    db.execute(sql)
    db.commit()
    db.close()


def found(project, question):
    """Return the paths of the hits of a question, none where nothing is found."""
    reply = project.call("search", question)
    assert reply.status in (0, 5), reply
    return {hit["path"] for hit in reply["hits"]} if reply.status == 0 else set()


def content(project):
    """Return what an index holds of files and chunks, ids apart."""
    db = sqlite3.connect(index_of(project))
    files = db.execute("SELECT path, sha256, size, tags, properties, fault, skipped FROM file ORDER BY path").fetchall()
    chunks = db.execute("SELECT f.path, c.first, c.last, c.kind, c.key, c.ref, c.text FROM chunk c JOIN file f ON f.id=c.file").fetchall()
    db.close()
    return files, sorted(chunks, key=repr)


def same_folder(one, two):
    """Tell whether two paths are one folder."""
    return Path(one).resolve() == Path(two).resolve()


@pytest.fixture
def farm(project):
    """Return a project with a fact and two files of the owner's, on a Monday."""
    project.now = MONDAY
    project.fact(project.start(), "barn.door", "The llama sleeps in the barn.")
    write(project.vault / "llama.md", "# Llama\n\nThe llama is mine.\n")
    write(project.vault / "sub" / "other.md", "Nothing of that.\n")
    return project


# -- how it is --


def test_made(cli, farm):
    """The first call reads every file, the second finds nothing to do."""
    reply = cli("index")
    assert reply.status == 0
    fields = {"path", "root", "files", "chunks", "model", "why", "pending", "complete", "skipped", "faults", "sweep", "warnings"}
    assert set(reply.data) == fields
    assert Path(reply["path"]).samefile(index_of(farm))
    assert same_folder(reply["root"], farm.vault)
    files = len(list(farm.vault.rglob("*.md"))) - 2  # MEMORY.md and INDEX.md
    assert (reply["files"], reply["sweep"]) == (files, {"files": files, "changed": files, "gone": 0})
    assert (reply["chunks"], reply["model"], reply["pending"], reply["complete"]) == (3, None, 0, True)
    assert (reply["skipped"], reply["faults"], reply["warnings"]) == ([], [], [])
    assert reply["why"]
    again = cli("index")
    assert again["sweep"] == {"files": files, "changed": 0, "gone": 0}
    assert {**again.data, "sweep": None} == {**reply.data, "sweep": None}


def test_swept(farm):
    """What was changed, made and deleted since is counted."""
    farm.ok("index")
    write(farm.vault / "llama.md", "# Llama\n\nThe llama is sold.\n")
    write(farm.vault / "new.md", "A new one.\n")
    (farm.vault / "sub" / "other.md").unlink()
    sweep = farm.ok("index")["sweep"]
    assert (sweep["changed"], sweep["gone"]) == (2, 1)
    assert found(farm, "sold") == {"llama.md"}


def test_touched(farm):
    """A file that was only touched, or copied over with the same bytes, is not read anew: times are never compared."""
    farm.ok("index")
    path = farm.vault / "llama.md"
    os.utime(path, (0, 0))
    (farm.vault / "sub" / "other.md").write_bytes((farm.vault / "sub" / "other.md").read_bytes())
    before = content(farm)
    assert farm.ok("index")["sweep"]["changed"] == 0
    assert content(farm) == before


def test_status_of_none(cli, farm):
    """Where there is no index yet, the status says that all is stale and nothing was ever read; it makes none."""
    before = farm.tree()
    reply = cli("index", "--status")
    assert reply.status == 0
    assert (reply["files"], reply["chunks"], reply["gone"], reply["skipped"]) == (0, 0, [], [])
    assert set(reply["stale"]) >= {"llama.md", "sub/other.md", "notes/barn.door.md"}
    assert not {"MEMORY.md", "INDEX.md"} & set(reply["stale"])
    assert (reply["swept"], reply["indexed"], reply["indexed_root"], reply["indexed_model"], reply["size"]) == (None, None, None, None, 0)
    assert farm.tree() == before


def test_status(cli, farm):
    """The status says what is indexed, what is stale and what is gone, and changes nothing."""
    farm.ok("index")
    reply = cli("index", "--status")
    fields = {"path", "root", "files", "chunks", "model", "why", "pending", "skipped", "faults", "stale", "gone", "swept", "indexed"}
    assert set(reply.data) == fields | {"swept_ms", "indexed_root", "indexed_model", "size", "warnings"}
    assert (reply["stale"], reply["gone"], reply["chunks"]) == ([], [], 3)
    assert same_folder(reply["indexed_root"], farm.vault)
    assert reply["size"] == index_of(farm).stat().st_size
    write(farm.vault / "llama.md", "The llama is sold.\n")
    write(farm.vault / "new.md", "A new one.\n")
    write(farm.vault / "latin.md", b"Z\xfcrich\n")
    (farm.vault / "sub" / "other.md").unlink()
    before, held = farm.tree(), content(farm)
    reply = cli("index", "--status")
    assert (sorted(reply["stale"]), reply["gone"]) == (["latin.md", "llama.md", "new.md"], ["sub/other.md"])
    assert (farm.tree(), content(farm)) == (before, held)
    assert cli("index", "--status").data == reply.data
    farm.ok("index")
    reply = cli("index", "--status")
    assert (reply["stale"], reply["gone"], [row["path"] for row in reply["skipped"]]) == ([], [], ["latin.md"])


def test_two_times(farm):
    """When it was last looked, and when something was last indexed, are two times."""
    farm.ok("index")
    status = farm.ok("index", "--status")
    assert status["swept"] == status["indexed"] == "2026-11-30T08:00:00.000Z"
    assert status["swept_ms"] >= 0
    farm.now += DAY
    farm.ok("search", "llama")
    status = farm.ok("index", "--status")
    assert (status["swept"][:10], status["indexed"][:10]) == ("2026-12-01", "2026-11-30")
    farm.now += DAY
    write(farm.vault / "new.md", "A new one.\n")
    farm.ok("search", "llama")
    status = farm.ok("index", "--status")
    assert (status["swept"][:10], status["indexed"][:10]) == ("2026-12-02", "2026-12-02")


def test_human_output(cli, farm):
    """In words the counts and the folder are said, and what is skipped or broken with its reason."""
    write(farm.vault / "latin.md", b"Z\xfcrich\n")
    write(farm.vault / "front.md", "---\nstatus: done\nno property\n---\nText.\n")
    for option in ("--status", "", "--status", "--rebuild", "--drop", "--drop"):
        reply = cli("index", *filter(None, [option]), plain=True)
        assert reply.status == 0
        assert reply.out.strip(), option
    out = cli("index", plain=True).out
    assert "latin.md" in out
    assert "front.md" in out


def test_broken_frontmatter(farm):
    """Frontmatter that cannot be read is text, which is found, and the fault is said; a second block is left alone."""
    write(farm.vault / "open.md", "---\nstatus: done\n\nThe marten is not closed.\n")
    write(farm.vault / "odd.md", "---\nstatus: done\nmarten without a colon\n---\nText.\n")
    write(farm.vault / "two.md", "---\nstatus: done\n---\nText.\n\n---\ncolour: marten\n---\n\nMore.\n")
    write(farm.vault / "rule.md", "---\n\nA marten under a rule.\n")
    reply = farm.ok("index")
    assert {row["path"] for row in reply["faults"]} == {"open.md", "odd.md"}
    assert all(row["reason"] for row in reply["faults"])
    assert farm.ok("index", "--status")["faults"] == reply["faults"]
    assert found(farm, "marten") == {"open.md", "odd.md", "two.md", "rule.md"}
    assert [h["path"] for h in farm.ok("search", "text", "--property", "status=done")["hits"]] == ["two.md"]
    write(farm.vault / "open.md", "---\nstatus: done\n---\nThe marten is closed.\n")
    assert [row["path"] for row in farm.ok("index")["faults"]] == ["odd.md"]


# -- drop and rebuild --


def test_drop(cli, farm):
    """--drop removes the index and what SQLite keeps beside it, and says whether there was one; a search makes it again."""
    hits = cli("search", "llama")["hits"]
    held = content(farm)
    reply = cli("index", "--drop")
    assert (reply.status, reply["dropped"]) == (0, True)
    assert not list(index_of(farm).parent.glob("index.sqlite*"))
    assert cli("index", "--drop")["dropped"] is False
    assert cli("search", "llama")["hits"] == hits
    assert content(farm) == held


def test_rebuild(cli, farm):
    """--rebuild makes the same index anew, also from one that says what is not so."""
    farm.ok("index")
    held = content(farm)
    change(farm, "UPDATE chunk SET text='The dodo lives.', key='dodo'")
    reply = cli("index", "--rebuild")
    assert (reply.status, reply["sweep"]["changed"]) == (0, reply["sweep"]["files"])
    assert content(farm) == held
    assert found(farm, "dodo") == set()


@pytest.mark.parametrize("words", [("--status", "--drop"), ("--status", "--rebuild"), ("--drop", "--rebuild")])
def test_one_of_three(farm, words):
    """Only one of --status, --rebuild and --drop can be meant."""
    farm.ok("index")
    before = farm.tree()
    assert farm.call("index", *words).code == (2, "usage")
    assert farm.tree() == before


def test_nothing_else_depends_on_it(project):
    """No command that does not search answers otherwise for an index that is there, was dropped, or is damaged."""
    project.now = MONDAY
    run = project.start()
    entry = project.journal(run, "The llama was seen.")
    made = project.fact(run, "barn.door", "One.", "--evidence", entry)
    project.ok("propose", "--run", run, "--key", "barn.door", "--text", "Two.", "--now")
    project.conflict("fight.one")

    def answers():
        """Return what the other commands answer; how long they took apart."""
        asked = [("recall", "barn.door"), ("recall", "--prefix", "b"), ("history", "barn.door"), ("review",), ("review", "--all"), ("log",)]
        asked += [("show", made), ("status",), ("config",), ("doctor", "--strict")]
        replies = [project.call(*words) for words in asked]
        return [(r.status, {name: value for name, value in r.data.items() if not name.endswith("_ms")}, r.err) for r in replies]

    before, views = answers(), project.views()
    project.ok("index")
    assert index_of(project).is_file()
    assert answers() == before
    index_of(project).write_bytes(b"no database")
    assert answers() == before
    project.ok("index", "--drop")
    assert answers() == before
    assert project.views() == views
    project.ok("index")
    held = content(project)
    project.ok("rebuild")
    assert content(project) == held
    assert project.ok("index")["sweep"]["changed"] == 0


@pytest.mark.parametrize("index", ["none", "sound", "damaged", "later pages", "newer", "no root"])
def test_maintain_does_not_need_it(farm, index, monkeypatch):
    """`maintain` suggests what a search finds, but its brief is the same whatever is wrong with the index."""
    run = farm.start()
    farm.journal(run, "A llama was seen.")
    kept = ("limits", "past", "cooling", "expired", "unverified", "uncurated", "uncurated_count", "open_long", "overflow")
    before = farm.ok("maintain")
    if index == "none":
        farm.ok("index", "--drop")
    elif index == "damaged":
        garbage(index_of(farm))
    elif index == "later pages":
        later_pages(index_of(farm))
    elif index == "newer":
        change(farm, "UPDATE manifest SET value='99' WHERE name='format'")
    elif index == "no root":
        monkeypatch.setenv("MUNIMENT_INDEX_ROOT", str(farm.vault / "nowhere"))
    reply = farm.call("maintain")
    assert reply.status == 0, reply
    assert {name: reply[name] for name in kept} == {name: before[name] for name in kept}
    assert farm.call("maintain", "--check").status == 0
    assert farm.call("maintain", "--mark", "--run", run).status == 0


def test_private(farm):
    """The index is a file for its owner alone, and git is told to leave it alone with the rest of local/."""
    farm.ok("index")
    assert index_of(farm).parent == farm.vault / ".muniment" / "local"
    if os.name == "posix":
        assert index_of(farm).stat().st_mode & 0o077 == 0


def test_local_is_gone(farm):
    """Where all that is of this machine was deleted, a search makes it again."""
    farm.ok("index")
    shutil.rmtree(farm.vault / ".muniment" / "local")
    assert found(farm, "llama") == {"notes/barn.door.md", "llama.md"}


# -- an index that is not sound, or not ours --


def garbage(path):
    """Put something else in the place of an index."""
    path.write_bytes(b"this is not a database" * 400)


def empty(path):
    """Leave nothing of an index."""
    path.write_bytes(b"")


def half(path):
    """Cut an index off in the middle."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def first_page(path):
    """Overwrite the page by which SQLite knows its own."""
    path.write_bytes(b"\xff" * 4096 + path.read_bytes()[4096:])


def later_pages(path):
    """Overwrite all but the first pages."""
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xff" * (len(data) - 8192))


def sql(*statements):
    """Return a function that changes an index by SQL."""

    def damage(path):
        db = sqlite3.connect(path)
        for statement in statements:
            db.execute(statement)
        db.commit()
        db.close()

    damage.__name__ = statements[0].replace(" ", "-")
    return damage


DAMAGES = [
    garbage,
    half,
    first_page,
    later_pages,
    sql("DROP TABLE chunk"),
    sql("DROP TABLE file"),
    sql("DROP TABLE words"),
    sql("DELETE FROM words_data"),
    sql("DELETE FROM manifest"),
    sql("UPDATE manifest SET value='x' WHERE name='format'"),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_index(farm, damage):
    """A damaged index is made anew, the answer is right, and it says so once."""
    farm.ok("index")
    held = content(farm)
    damage(index_of(farm))
    reply = farm.call("search", "llama")
    assert reply.status == 0, reply
    assert {hit["path"] for hit in reply["hits"]} == {"notes/barn.door.md", "llama.md"}
    assert reply["warnings"]
    assert farm.ok("search", "llama")["warnings"] == []
    assert content(farm) == held


@pytest.mark.parametrize("damage", [garbage, later_pages], ids=lambda damage: damage.__name__)
def test_damaged_index_is_brought_in_line(farm, damage):
    """`index` and `eval` make a damaged index anew too."""
    asked = farm.folder / "asked.jsonl"
    write(asked, '{"q": "llama", "answers": ["llama.md"]}\n')
    for words in (("index",), ("eval", asked)):
        farm.ok("index")
        damage(index_of(farm))
        reply = farm.call(*words)
        assert reply.status == 0, reply
        assert reply["warnings"]


def test_empty_index(farm):
    """An empty file in the place of the index is one that was just begun."""
    empty(index_of(farm))
    assert found(farm, "llama") == {"notes/barn.door.md", "llama.md"}


@pytest.mark.parametrize(
    "damage", [garbage, half, later_pages, sql("UPDATE manifest SET value='0' WHERE name='format'")], ids=lambda damage: damage.__name__
)
def test_status_changes_nothing(farm, damage):
    """--status leaves a damaged or older index as it is, and says that it is one, in a warning or as a refusal."""
    farm.ok("index")
    damage(index_of(farm))
    before = farm.tree()
    reply = farm.call("index", "--status")
    assert reply["warnings"] if reply.status == 0 else reply.code == (7, "damaged")
    assert farm.tree() == before


@pytest.mark.parametrize("name", ["format", "chunker"])
def test_older_index(farm, name):
    """The index of an older engine is made anew, and that is said."""
    farm.ok("index")
    held = content(farm)
    change(farm, f"UPDATE manifest SET value='0' WHERE name='{name}'")
    reply = farm.ok("search", "llama")
    assert {hit["path"] for hit in reply["hits"]} == {"notes/barn.door.md", "llama.md"}
    assert reply["warnings"]
    assert content(farm) == held
    assert farm.ok("search", "llama")["warnings"] == []


def test_newer_index(farm):
    """The index of a newer engine is refused and left as it is, until the owner has it made anew or dropped."""
    farm.ok("index")
    asked = farm.folder / "asked.jsonl"
    write(asked, '{"q": "llama", "answers": ["llama.md"]}\n')
    change(farm, "UPDATE manifest SET value='99' WHERE name='format'")
    before = farm.tree()
    for words in (("search", "llama"), ("index",), ("index", "--status"), ("eval", asked)):
        assert farm.cli(*words).code == (8, "newer-index"), words
    assert farm.tree() == before
    assert farm.cli("index", "--rebuild").status == 0
    assert found(farm, "llama") == {"notes/barn.door.md", "llama.md"}
    change(farm, "UPDATE manifest SET value='99' WHERE name='format'")
    assert farm.ok("index", "--drop")["dropped"] is True
    assert found(farm, "llama") == {"notes/barn.door.md", "llama.md"}


def test_read_only(farm, read_only, bound_by_modes):
    """In a vault that cannot be written `index` reads into memory, and says so; it can be neither dropped nor made."""
    farm.ok("index")
    read_only()
    before = farm.tree()
    reply = farm.cli("index", prefix=bound_by_modes)
    assert reply.status == 0, reply
    assert reply["warnings"]
    assert not Path(reply["path"]).is_file()
    assert reply["chunks"] == 3
    assert farm.cli("index", "--drop", prefix=bound_by_modes).code == (9, "filesystem")
    assert farm.tree() == before


def test_locked_index(farm, engine, monkeypatch):
    """An index that another command is writing for longer than is waited is busy: it is not damaged, and nobody throws it away."""
    farm.ok("index")
    write(farm.vault / "new.md", "A llama more.\n")
    connect = sqlite3.connect
    monkeypatch.setattr(engine, "_connect", lambda path: connect(path, isolation_level=None, timeout=0.05))
    db = connect(index_of(farm), isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    inode = index_of(farm).stat().st_ino
    try:
        for words in (("search", "llama"), ("index",)):
            reply = farm.call(*words)
            assert reply.status == 6, reply
            assert (reply.error["code"], reply.error["retry"]) == ("busy", True)
        assert farm.call("index", "--status").status == 0
    finally:
        db.execute("ROLLBACK")
        db.close()
    assert index_of(farm).stat().st_ino == inode
    assert found(farm, "llama") == {"notes/barn.door.md", "llama.md", "new.md"}


@pytest.mark.parametrize("obstacle", ["local, no index", "local", "no right to read", "no right to write", "a folder", "a link to nothing"])
def test_index_that_cannot_be_had(farm, bound_by_modes, obstacle):
    """Where the index alone cannot be opened or written, a search is made in memory and says so; nothing is destroyed for it."""
    index = index_of(farm)
    if obstacle in ("local", "no right to read", "no right to write"):
        farm.ok("index")
    if obstacle == "a folder":
        index.mkdir()
        write(index / "mine.txt", "mine")
    elif obstacle == "a link to nothing":
        index.symlink_to("no-such-folder/index.sqlite")
    elif obstacle.startswith("local"):
        index.parent.chmod(0o500)
    else:
        index.chmod(0o400 if obstacle == "no right to write" else 0)
    for words in (("search", "llama"), ("maintain",)):
        reply = farm.cli(*words, prefix=bound_by_modes)
        assert reply.status == 0, reply
        if words[0] == "search":
            assert {hit["path"] for hit in reply["hits"]} == {"notes/barn.door.md", "llama.md"}
            assert reply["warnings"]
    index.parent.chmod(0o700)
    assert obstacle != "a folder" or (index / "mine.txt").read_bytes() == b"mine"


# -- which folder --


@pytest.fixture
def wide(farm):
    """Return the farm with a note beside the vault, where an Obsidian vault around it would have it."""
    write(farm.folder / "beside.md", "A llama beside the vault.\n")
    write(farm.folder / "MEMORY.md", "A llama in the owner's own memory.\n")
    return farm


def test_obsidian_vault_around(wide):
    """An Obsidian vault around the vault is indexed whole; the vault's own files stay what they are."""
    assert found(wide, "llama") == {"notes/barn.door.md", "llama.md"}
    (wide.folder / ".obsidian").mkdir()
    write(wide.folder / ".obsidian" / "a.md", "A llama.\n")
    reply = wide.ok("search", "llama")
    assert same_folder(reply["root"], wide.folder)
    assert reply["warnings"]
    assert {hit["path"]: hit["status"] for hit in reply["hits"]} == {
        "memory/notes/barn.door.md": "current",
        "memory/llama.md": "free",
        "beside.md": "free",
        "MEMORY.md": "free",
    }
    assert wide.ok("search", "llama")["warnings"] == []
    (wide.folder / ".obsidian").rename(wide.folder / "obsidian")
    assert found(wide, "llama") == {"notes/barn.door.md", "llama.md"}


@pytest.mark.parametrize("place", [".agents/memory", "node_modules/memory", "a/.b/c"])
def test_vault_in_a_folder_that_is_left_out(bare, place):
    """A vault that lies in a dot folder of an Obsidian vault is indexed all the same; what else is in such folders is not."""
    bare.healthy = False
    (bare.folder / ".obsidian").mkdir()
    bare.vault = bare.folder / place
    bare.ok("init", bare.vault)
    bare.fact(bare.start(), "barn.door", "The llama sleeps.")
    write(bare.folder / "beside.md", "A llama beside it.\n")
    write(bare.folder / ".other" / "a.md", "A llama that is left out.\n")
    reply = bare.ok("search", "llama")
    assert {hit["path"]: hit["status"] for hit in reply["hits"]} == {place + "/notes/barn.door.md": "current", "beside.md": "free"}


def test_obsidian_vault_of_another_user(wide):
    """An Obsidian vault around that is another user's is not taken: their files are not the owner's notes."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only the superuser can give a folder to another user")
    (wide.folder / ".obsidian").mkdir()
    for path in (wide.folder, wide.folder / ".obsidian"):
        os.chown(path, 12345, -1)
    assert same_folder(wide.ok("search", "llama")["root"], wide.vault)
    assert found(wide, "llama") == {"notes/barn.door.md", "llama.md"}


def test_another_vault_below_the_root(wide, engine):
    """Views of another vault under the same root are not taken for the owner's notes: no trust of this vault is claimed for them."""
    (wide.folder / ".obsidian").mkdir()
    other = Project(wide.folder / "other", engine)
    other.folder.mkdir()
    other.ok("init", other.vault)
    run = other.start()
    other.fact(run, "far.away", "A llama elsewhere.")
    other.journal(run, "A llama was seen elsewhere.")
    hits = wide.ok("search", "llama elsewhere", "--most", "50")["hits"]
    theirs = [hit for hit in hits if hit["path"].startswith("other/")]
    assert {hit["path"] for hit in theirs} >= {"other/memory/notes/far.away.md", f"other/memory/journal/{run}.md"}
    assert {(hit["status"], hit["trust"], hit["key"]) for hit in theirs} == {("foreign", None, None)}
    assert {hit["status"] for hit in hits if not hit["path"].startswith("other/")} == {"free", "current"}


def test_obsidian_in_the_vault_itself(wide):
    """The nearest Obsidian vault is meant, which may be the vault itself."""
    (wide.folder / ".obsidian").mkdir()
    (wide.vault / ".obsidian").mkdir()
    assert same_folder(wide.ok("search", "llama")["root"], wide.vault)


def test_obsidian_is_looked_for_from_the_real_path(wide):
    """A vault that is reached by a link is looked at where it really lies."""
    if os.name != "posix":
        pytest.skip("a link may need rights here")
    other = wide.folder / "elsewhere"
    (other / ".obsidian").mkdir(parents=True)
    wide.vault.rename(wide.folder / "real")
    (other / "memory").symlink_to(wide.folder / "real")
    reply = wide.cli("--vault", other / "memory", "search", "llama")
    assert same_folder(reply["root"], wide.folder / "real")
    wide.vault = wide.folder / "real"


@pytest.mark.parametrize("named", ["ABSOLUTE", ".."])
def test_root_by_environment(wide, monkeypatch, named):
    """MUNIMENT_INDEX_ROOT names the folder, from the vault where it is relative; empty it names none."""
    monkeypatch.setenv("MUNIMENT_INDEX_ROOT", named if named == ".." else str(wide.folder))
    assert found(wide, "llama") == {"memory/notes/barn.door.md", "memory/llama.md", "beside.md", "MEMORY.md"}
    assert same_folder(wide.ok("index", "--status")["root"], wide.folder)
    monkeypatch.setenv("MUNIMENT_INDEX_ROOT", "")
    assert found(wide, "llama") == {"notes/barn.door.md", "llama.md"}


def test_root_by_setting(wide):
    """The setting index-root, which is the owner's, names the folder, from the vault where it is relative; `.` is as it was at first."""
    assert wide.ok("config", "index-root")["settings"] == {"index-root": "."}
    assert wide.call("config", "index-root", "..").code == (3, "needs-approval")
    wide.ok("config", "index-root", "..", "--human-approved")
    assert wide.ok("config", "index-root")["settings"] == {"index-root": ".."}
    assert found(wide, "llama") == {"memory/notes/barn.door.md", "memory/llama.md", "beside.md", "MEMORY.md"}
    wide.ok("config", "index-root", ".", "--human-approved")
    assert found(wide, "llama") == {"notes/barn.door.md", "llama.md"}


def test_environment_before_setting(wide, monkeypatch):
    """The environment stands over the setting, and both over an Obsidian vault around."""
    (wide.folder / ".obsidian").mkdir()
    wide.ok("config", "index-root", "sub", "--human-approved")
    assert same_folder(wide.ok("index")["root"], wide.vault / "sub")
    monkeypatch.setenv("MUNIMENT_INDEX_ROOT", str(wide.vault))
    assert same_folder(wide.ok("index")["root"], wide.vault)


@pytest.mark.parametrize("named", ["nowhere", "llama.md", "\x1b[31m"])
def test_root_that_is_none(wide, monkeypatch, named):
    """A root that is no folder is refused, and nothing is recorded or changed by it."""
    wide.ok("index")
    before = wide.tree()
    assert wide.call("config", "index-root", named, "--human-approved").status == 3
    monkeypatch.setenv("MUNIMENT_INDEX_ROOT", named)
    assert wide.call("search", "llama").code == (3, "bad-value")
    assert wide.call("index").code == (3, "bad-value")
    assert wide.tree() == before


def test_root_that_has_gone(wide):
    """A root that was set and is no longer there is refused, not taken for an empty one."""
    wide.ok("config", "index-root", "sub", "--human-approved")
    wide.ok("index")
    shutil.rmtree(wide.vault / "sub")
    assert wide.call("search", "llama").code == (3, "bad-value")


@pytest.mark.parametrize("root", ["notes", "."])
def test_root_within_the_vault(wide, monkeypatch, root):
    """A view is a view wherever the root is: nobody's claim becomes the owner's note by it."""
    monkeypatch.setenv("MUNIMENT_INDEX_ROOT", str(wide.vault / root))
    hits = {hit["path"].rpartition("/")[2]: hit for hit in wide.ok("search", "llama sleeps")["hits"]}
    hit = hits["barn.door.md"]
    assert (hit["kind"], hit["status"], hit["key"], hit["trust"]) == ("note", "current", "barn.door", "working")
    assert ("llama.md" in hits) == (root == ".")


def test_another_root_reads_all_anew(wide):
    """Another root makes all anew and says why, and what is outside of it is no longer found."""
    wide.ok("index")
    wide.ok("config", "index-root", "sub", "--human-approved")
    status = wide.ok("index", "--status")
    assert same_folder(status["root"], wide.vault / "sub")
    assert same_folder(status["indexed_root"], wide.vault)
    assert status["stale"] == ["other.md"]
    reply = wide.ok("index")
    assert reply["warnings"]
    assert (reply["files"], reply["sweep"]["changed"]) == (1, 1)
    assert found(wide, "llama") == set()


# -- two at once --


def test_two_make_it_at_once(engine, tmp_path, monkeypatch):
    """Of two commands that make the index at once, the later one takes what the first one made."""
    path = str(tmp_path / "index.sqlite")

    class Late:
        """A connection on which another command comes in between the look and the making."""

        def __init__(self, db):
            self.db, self.met = db, False

        def __getattr__(self, name):
            return getattr(self.db, name)

        def execute(self, statement, *values):
            rows = self.db.execute(statement, *values)
            if "sqlite_master" in statement and not self.met:
                self.met = True
                seen = rows.fetchall()
                monkeypatch.setattr(engine, "_connect", connect)
                other = engine.open_index(path, True)
                other.put(root="the first one's")
                other.close()
                return iter_cursor(seen)
            return rows

    def iter_cursor(rows):
        return type("Rows", (), {"fetchone": lambda self: rows[0] if rows else None, "fetchall": lambda self: rows})()

    connect = engine._connect  # noqa: SLF001 - where another command can come between
    monkeypatch.setattr(engine, "_connect", lambda where: Late(connect(where)))
    index = engine.open_index(path, True)
    assert (index.reasons, index.path, index.get("root")) == ([], path, "the first one's")
    index.close()


def test_waits_as_long_as_asked(farm):
    """`--lock-wait` holds for the index too: a command that may not wait says at once that another writes it."""
    farm.ok("index")
    write(farm.vault / "new.md", "A llama more.\n")
    db = sqlite3.connect(index_of(farm), isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        assert farm.call("search", "llama", "--lock-wait", "0").code == (6, "busy")
    finally:
        db.execute("ROLLBACK")
        db.close()
    assert farm.call("search", "llama", "--lock-wait", "0").status == 0
