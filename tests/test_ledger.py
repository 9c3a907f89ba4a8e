"""The ledgers: whose they are, what an interrupted or a second writer leaves, and what happens where one is damaged.

A `Scratch` vault gives its commands in this process; ledgers, cache and what the copy knows of itself are then
changed behind its back, as a killed process, git, a copied folder or a bad disk would.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest
from crash_driver import Driver, Kept
from scratch import Chance, Scratch

import engine

TAGS = ("aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd")
KEY = "shop.next"
FACTS = {"shop.next": "Retry twice.", "shop.risk": "Payments time out."}


class World(Scratch):
    """A scratch vault with two facts, an open run `run` that has one staged proposal, and shorter ways to look at it."""

    run_id = None

    def fill(self, *how):
        """Make the vault and let one run work in it."""
        self.ok("init", *how)
        self.run_id = self.start()
        for key, text in FACTS.items():
            self.ok("propose", "--run", self.run_id, "--key", key, "--tier", "2", "--new-subject", "--text", text, "--now")
        self.propose("shop.staged", "Staged.")
        return self

    def start(self, actor="codex"):
        """Open a run and return its handle."""
        status, answer = self.json("start", "--actor", actor)
        assert status == 0, answer
        return answer["run"]

    def journal(self, run=None):
        """Journal in a run; return the exit status and the answer."""
        return self.json("journal", "--run", run or self.run_id, "--text", "What was learnt")

    def propose(self, key, text, *more):
        """Propose a new subject of tier 2 and return the id."""
        argv = ("propose", "--run", self.run_id, "--key", key, "--tier", "2", "--text", text, *more)
        return self.json(*argv, *(() if key == KEY else ("--new-subject",)))[1]["proposal"]

    @property
    def local(self):
        """The folder of this copy alone."""
        return self.vault / ".muniment" / "local"

    @property
    def cache(self):
        """The path of the cache."""
        return self.local / "state.sqlite"

    @property
    def replica(self):
        """The path of what the copy knows of its own ledgers."""
        return self.local / "replica.json"

    def copy(self, folder, chance):
        """Return a copy of the whole project folder, as another machine has it."""
        super().copy(folder, chance)
        other = World(folder, chance)
        other.now_ms = self.now_ms
        return other

    def tags(self):
        """Return the tags of the ledgers that are there."""
        return sorted(path.stem for path in self.ledger().parent.glob("*.jsonl"))

    def records(self, tag=TAGS[0]):
        """Return (kind, body) of each whole line of a ledger."""
        lines = [json.loads(line) for line in self.ledger(tag).read_bytes().split(b"\n")[:-1]]
        return [(line["head"]["kind"], line["body"]) for line in lines]

    def texts(self):
        """Return the current text of every fact."""
        status, answer = self.json("recall", "--prefix", "shop")
        assert status == 0, answer
        return {row["key"]: row["text"] for row in answer["subjects"]}

    def ledger(self, tag=TAGS[0]):
        """Return the path of a ledger."""
        return super().ledger(tag)

    def findings(self, *options):
        """Return what doctor finds, by kind."""
        return [found["kind"] for found in self.json("doctor", *options)[1]["findings"]]

    def check_sound(self, tags, *findings):
        """The facts are there, the ledgers are those, the views are what a rebuild makes, and doctor finds that and nothing else."""
        assert self.tags() == sorted(tags)
        assert self.texts().items() >= FACTS.items()
        assert self.findings("--strict") == list(findings)
        views = self.views()
        self.ok("rebuild")
        assert self.views() == views

    def drop_cache(self):
        """Delete the cache."""
        for path in self.local.glob("state.sqlite*"):
            path.unlink()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A filled vault that each test copies: never given a command itself."""
    return World(tmp_path_factory.mktemp("ledger"), Chance(TAGS)).fill()


@pytest.fixture
def world(filled, tmp_path):
    """A copy of the filled vault that takes itself for the original."""
    shutil.copytree(filled.vault, tmp_path / "memory")
    return adopt(World(tmp_path, Chance(TAGS[1:])), filled)


def place_of(world):
    """Return what tells this copy's local/ from a copy of it."""
    found = (world.local / "here").stat()
    return "%d %d" % (found.st_ino, found.st_ctime_ns)


def adopt(copy, original):
    """Let a copied vault take itself for its original: a copy is another replica."""
    known = json.loads(copy.replica.read_bytes())
    known["place"] = place_of(copy)
    copy.replica.write_text(json.dumps(known), encoding="utf-8")
    copy.chance.salts, copy.now_ms, copy.run_id = original.chance.salts, original.now_ms, original.run_id
    return copy


# -- a last unit that is not whole --


def interrupted(world, argv, keep):
    """Leave a command's last unit as a kill in the middle of its append does: ``keep`` tells from the unit what stays."""
    path, kept = world.ledger(), Kept(world.vault)
    before = path.read_bytes()
    assert world.run(*argv)[0] == 0
    torn = keep(path.read_bytes()[len(before):])
    kept.put_back()
    path.write_bytes(before + torn)
    return before, torn


@pytest.mark.parametrize("keep", [
    lambda unit: unit[:1],
    lambda unit: unit[: unit.index(b"\n") // 2],
    lambda unit: unit[: unit.index(b"\n") + 1],
    lambda unit: unit[: unit.index(b"\n") + 9],
    lambda unit: unit[:-1],
], ids=["first-byte", "half-a-line", "whole-first-line", "into-the-second-line", "all-but-the-newline"])
def test_a_torn_unit_of_the_own_ledger_is_kept_cut_off_and_recorded(world, keep):
    """What is left of an interrupted append goes to recovery/, is cut off and recorded; the ledger goes on from before."""
    before, torn = interrupted(world, ("close", "--run", world.run_id, "--outcome", "success", "--summary", "Done."), keep)
    status, answer = world.journal()
    assert (status, len(answer["warnings"])) == (0, 1)
    name = hashlib.sha256(torn).hexdigest()
    assert (world.vault / ".muniment" / "recovery" / name).read_bytes() == torn
    assert world.ledger().read_bytes().startswith(before)
    repairs = [body for kind, body in world.records() if kind == "recovery"]
    assert [(r["what"], r["sha256"], r["size"]) for r in repairs] == [("torn", name, len(torn))]
    assert "recovery" in {event["kind"] for event in world.json("log")[1]["events"]}
    world.check_sound(TAGS[:1])


def test_a_reader_leaves_a_torn_unit_alone(world):
    """Reading folds whole units only, says nothing of the rest, and changes no byte of a ledger."""
    interrupted(world, ("journal", "--run", world.run_id, "--text", "Lost"), lambda unit: unit[:40])
    bytes_before = world.ledger().read_bytes()
    assert world.texts().items() >= FACTS.items()
    assert world.findings() == ["torn"]
    assert world.ledger().read_bytes() == bytes_before


def test_a_refused_command_does_not_lose_the_record_of_a_repair(world):
    """A command that cut a torn unit off and then is refused has recorded the repair all the same."""
    _, torn = interrupted(world, ("journal", "--run", world.run_id, "--text", "Lost"), lambda unit: unit[:40])
    operations = world.folder / "operations"
    operations.write_text('{"do":"journal","text":"Good"}\n{"do":"journal","text":""}\n', encoding="utf-8")
    assert world.json("apply", "--run", world.run_id, "--atomic", "operations")[1]["code"] == "atomic"
    assert torn not in world.ledger().read_bytes()
    assert [body["size"] for kind, body in world.records() if kind == "recovery"] == [len(torn)]
    world.check_sound(TAGS[:1])


def test_lines_after_the_known_tail_are_the_own_ones_of_an_interrupted_command(world):
    """A whole unit whose writer was ended before it could note it is adopted: the same ledger goes on after it."""
    interrupted(world, ("journal", "--run", world.run_id, "--text", "Written, not noted"), lambda unit: unit)
    assert world.journal()[0] == 0
    assert [body["text"] for kind, body in world.records() if kind == "journal"] == ["Written, not noted", "What was learnt"]
    world.check_sound(TAGS[:1])


def test_a_torn_ledger_of_another_is_folded_to_its_whole_units(world, tmp_path):
    """Of another replica's ledger that ends in a torn unit the whole ones count; it is not touched, and may grow on."""
    other = world.copy(tmp_path / "other", Chance(("zzzzzzzz",)))
    theirs = other.json("start", "--actor", "claude")[1]["run"]
    other.ok("propose", "--run", theirs, "--key", "shop.theirs", "--tier", "2", "--new-subject", "--text", "Theirs.", "--now")
    whole = other.ledger("zzzzzzzz").read_bytes()
    other.ok("journal", "--run", theirs, "--text", "Later")
    all_of_it = other.ledger("zzzzzzzz").read_bytes()
    world.ledger("zzzzzzzz").write_bytes(all_of_it[: len(whole) + 50])
    assert world.texts()["shop.theirs"] == "Theirs."
    assert world.journal()[0] == 0
    assert world.ledger("zzzzzzzz").read_bytes() == all_of_it[: len(whole) + 50]
    assert world.findings() == ["torn"]
    world.ledger("zzzzzzzz").write_bytes(all_of_it)
    assert world.journal()[0] == 0
    world.check_sound([TAGS[0], "zzzzzzzz"])
    assert "Later" in world.views()["journal/%s.md" % theirs]


def test_an_own_ledger_that_went_back_is_not_written_to(world):
    """A ledger that ends before the tail that this copy wrote is left as it is: a new tag is minted, nothing is lost."""
    path = world.ledger()
    older = path.read_bytes()
    assert world.journal()[0] == 0
    path.write_bytes(older)
    run = world.start()
    assert run.endswith(TAGS[1])
    assert path.read_bytes() == older
    world.check_sound(TAGS[:2])


# -- what a copy knows of itself --

GARBAGE = {
    "empty": b"", "cut": b'{"place":', "list": b"[]", "null": b"null", "bytes": b"\xff\xfe\x00", "deep": b"[" * 100_000,
    "no-tags": b'{"place":"%s"}', "tags-a-list": b'{"place":"%s","tags":[],"writer":"aaaaaaaa"}',
    "tail-a-number": b'{"place":"%s","tags":{"aaaaaaaa":[1,2]},"writer":"aaaaaaaa"}',
    "seq-a-word": b'{"place":"%s","tags":{"aaaaaaaa":["x",null]},"writer":"aaaaaaaa"}',
    "seq-beyond": b'{"place":"%s","tags":{"aaaaaaaa":[99999,"' + b"0" * 64 + b'"]},"writer":"aaaaaaaa"}',
    "writer-a-list": b'{"place":"%s","tags":{},"writer":["aaaaaaaa"]}',
    "tag-a-path": b'{"place":"%s","tags":{"../../aaa":[1,"x"]},"writer":"../../aaa"}',
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_replica_file_that_is_not_sound_costs_a_tag_and_nothing_else(world, data):
    """What is not a sound replica.json is as none: the next write mints a tag, and everything recorded counts on."""
    world.replica.write_bytes(data.replace(b"%s", place_of(world).encode()))
    run = world.start()
    assert run.endswith(TAGS[1])
    assert world.journal(run)[0] == 0
    world.check_sound(TAGS[:2])


def test_a_lost_replica_file_costs_a_tag_and_leaves_runs_to_the_owner(world):
    """Without replica.json the open run is another copy's: closed to agents, and the owner recovers it whole."""
    world.replica.unlink()
    assert world.journal()[1]["code"] == "foreign-run"
    status, answer = world.json("recover-run", "--run", world.run_id, "--summary", "Lost.", "--human-approved")
    assert (status, [row["key"] for row in answer["applied"]]) == (0, ["shop.staged"])
    world.check_sound(TAGS[:2])


def test_an_older_replica_file_is_caught_up(world):
    """With an older replica.json the lines after its tail are adopted: the same ledger goes on, no tag is minted."""
    older = world.replica.read_bytes()
    for _ in range(3):
        assert world.journal()[0] == 0
    world.replica.write_bytes(older)
    assert world.journal()[0] == 0
    assert [kind for kind, _ in world.records()].count("journal") == 4
    world.check_sound(TAGS[:1])


def test_a_copied_folder_is_another_replica(world, tmp_path):
    """Both the folder and a copy of it may be written to: each has a ledger of its own, and together they join."""
    other = world.copy(tmp_path / "other", Chance(TAGS[2:]))
    assert other.json("journal", "--run", world.run_id, "--text", "x")[1]["code"] == "foreign-run"
    theirs = other.json("start", "--actor", "claude")[1]["run"]
    assert theirs.endswith(TAGS[2])
    other.ok("propose", "--run", theirs, "--key", KEY, "--text", "Theirs.", "--now")
    assert world.journal()[0] == 0
    world.propose(KEY, "Ours.", "--now")
    assert (world.tags(), other.ledger(TAGS[2]).exists()) == ([TAGS[0]], True)
    world.take(other)
    other.take(world)
    card = world.json("review", KEY)[1]["questions"][0]
    assert other.json("review", KEY)[1]["questions"][0] == card
    assert {value["text"] for value in card["values"]} == {"Ours.", "Theirs."}
    assert world.views() == other.views()
    assert (world.findings("--strict"), other.findings("--strict")) == ([], [])


def test_reading_mints_nothing(world):
    """No command that only reads makes a ledger or notes a tag, even where the next write would."""
    world.replica.unlink()
    for argv in (("status",), ("recall", KEY), ("log",), ("review", "--all"), ("maintain",), ("doctor",), ("history", KEY)):
        assert world.run(*argv)[0] == 0
    assert (world.tags(), world.replica.exists()) == ([TAGS[0]], False)


@pytest.mark.parametrize("known", ["before", "with-the-text", "nothing"])
def test_a_ledger_that_was_erased_elsewhere_is_whole_here(world, tmp_path, known):
    """A copy that takes over a ledger whose erased bodies are skeletons folds all of it at once, whatever it had read before."""
    other = world.copy(tmp_path / "other", Chance(TAGS[2:]))
    other.ok("status")
    entry = world.json("journal", "--run", world.run_id, "--text", "Her number is 555-0123.")[1]["entry"]
    if known == "with-the-text":
        other.take(world)
        other.ok("status")
    world.propose("shop.later", "Later.", "--now")
    world.ok("erase", entry, "--human-approved")
    if known == "nothing":
        other.drop_cache()
    shutil.copy(world.ledger(), other.ledger())
    status, answer = other.json("recall", "shop.later")
    assert (status, answer["current"]["text"], answer["warnings"]) == (0, "Later.", [])
    assert other.json("start", "--actor", "claude")[0] == 0
    assert b"555-0123" not in b"".join(path.read_bytes() for path in other.vault.rglob("*") if path.is_file())
    assert world.json("journal", "--run", world.run_id, "--text", "x")[0] == 0
    other.check_sound([TAGS[0], TAGS[2]])


# -- git --

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git on this machine")


def git(folder, *argv):
    """Run git in a folder, as somebody, with nothing of this machine's settings."""
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
        "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
        **{"GIT_%s_%s" % (who, what): "x@x.x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
    done = subprocess.run([shutil.which("git"), *argv], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def save(world):
    """Commit what git is to carry."""
    git(world.folder, "add", "-A")
    git(world.folder, "commit", "-qm", "x")


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """A tracked vault in a repository, committed: never given a command itself."""
    world = World(tmp_path_factory.mktemp("tracked"), Chance(TAGS)).fill("--tracked")
    git(world.folder, "init", "-qb", "main")
    save(world)
    return world


@pytest.fixture
def repository(tracked, tmp_path):
    """A copy of the repository that takes itself for the original."""
    shutil.copytree(tracked.folder, tmp_path / "one")
    return adopt(World(tmp_path / "one", Chance(TAGS[1:])), tracked)


@needs_git
def test_git_carries_the_ledgers_and_no_view(repository):
    """What git carries of a tracked vault is the format, the ledgers and its own two files; commands leave it clean."""
    assert git(repository.folder, "ls-files").split() == [
        "memory/.gitattributes", "memory/.gitignore", "memory/.muniment/format.json", "memory/.muniment/ledger/%s.jsonl" % TAGS[0]]
    repository.ok("rebuild")
    assert git(repository.folder, "status", "--porcelain") == ""


@needs_git
def test_a_branch_that_lacks_what_was_written_goes_on_in_a_ledger_of_its_own(repository):
    """Each branch has the own tag that ends where this copy left it: switching back and forth resumes, merging joins."""
    world = repository
    git(world.folder, "checkout", "-qb", "side")
    world.propose("shop.side", "On the side.", "--now")
    save(world)
    git(world.folder, "checkout", "-q", "main")
    assert "shop.side" not in world.texts()
    on_main = world.start()
    assert on_main.endswith(TAGS[1])
    save(world)
    git(world.folder, "checkout", "-q", "side")
    assert world.tags() == [TAGS[0]]
    assert world.texts()["shop.side"] == "On the side."
    assert world.journal()[1]["entry"].endswith(TAGS[0])
    save(world)
    git(world.folder, "checkout", "-q", "main")
    assert world.json("journal", "--run", on_main, "--text", "x")[1]["entry"].endswith(TAGS[1])
    save(world)
    git(world.folder, "merge", "-q", "--no-edit", "side")
    assert world.texts()["shop.side"] == "On the side."
    assert world.journal()[0] == 0
    world.check_sound(TAGS[:2])


@needs_git
def test_clones_that_merge_through_git_render_the_same_bytes(repository, tmp_path):
    """Two clones that both wrote, to other and to the same keys, merge without conflict and show the same, to the byte."""
    one = repository
    git(one.folder, "clone", "-q", str(one.folder), str(tmp_path / "two"))
    two = World(tmp_path / "two", Chance(TAGS[2:]))
    two.chance.salts, two.now_ms = 1000, one.now_ms + 500
    two.run_id = two.start("claude")
    one.start("gemini")
    for world, text in ((one, "One's."), (two, "Two's.")):
        world.propose(KEY, text, "--now")
        world.propose("shop.from-%s" % text[:3].lower(), text, "--now")
        save(world)
    git(two.folder, "pull", "-q", "--no-rebase", "--no-edit")
    git(one.folder, "pull", "-q", "--no-rebase", "--no-edit", str(two.folder), "main")
    for world in (one, two):
        assert world.texts().keys() >= {"shop.from-one", "shop.from-two"}
        assert len(world.json("review", KEY)[1]["questions"][0]["values"]) == 2
        assert world.findings("--strict") == []
        assert world.tags() == [TAGS[0], TAGS[2]]
    assert one.views() == two.views()
    assert one.json("resolve", one.json("review", KEY)[1]["questions"][0]["handle"], "--choose", "current", "--human-approved")[0] == 0
    save(one)
    git(two.folder, "pull", "-q", "--no-rebase", "--no-edit")
    assert two.json("review", KEY)[1]["questions"] == []
    assert one.views() == two.views()


# -- the cache --


def cache_of_other_tables(world):
    """Put another program's database in the cache's place."""
    world.drop_cache()
    other = sqlite3.connect(world.cache)
    other.execute("CREATE TABLE meta(a, b)")
    other.commit()
    other.close()


def cache_of_an_older_fold(world):
    """Make the cache one of an older engine."""
    cache = sqlite3.connect(world.cache)
    cache.execute("UPDATE meta SET value='0' WHERE name='fold'")
    cache.commit()
    cache.close()


def cache_ahead(world):
    """Let the ledger go back to what it was some commands ago, and the cache not."""
    ledger, known = world.ledger().read_bytes(), world.replica.read_bytes()
    world.propose("shop.gone", "Gone.", "--now")
    world.ledger().write_bytes(ledger)
    world.replica.write_bytes(known)


def cache_behind(world):
    """Let the cache be what it was some commands ago."""
    kept = world.cache.read_bytes()
    world.propose("shop.later", "Later.", "--now")
    world.drop_cache()
    world.cache.write_bytes(kept)


def cache_of_another_vault(world):
    """Put the cache of another vault in this one's place."""
    other = Scratch(world.folder / "other", Chance(("yyyyyyyy",)))
    other.chance.salts = 500
    other.ok("init")
    other.ok("start", "--actor", "codex")
    world.drop_cache()
    shutil.copy(other.vault / ".muniment" / "local" / "state.sqlite", world.cache)


def cache_a_folder(world):
    """Put a folder in the cache's place."""
    world.drop_cache()
    world.cache.mkdir()


#: Bytes that mean nothing, the same in every run.
NOISE = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(500))
CACHES = {
    "missing": lambda world: world.drop_cache(),
    "empty": lambda world: world.cache.write_bytes(b""),
    "garbage": lambda world: world.cache.write_bytes(NOISE),
    "cut": lambda world: world.cache.write_bytes(world.cache.read_bytes()[:9000]),
    "spoilt-pages": lambda world: world.cache.write_bytes(world.cache.read_bytes()[:8192] + bytes(world.cache.stat().st_size - 8192)),
    "stray-log": lambda world: Path(str(world.cache) + "-wal").write_bytes(NOISE),
    "other-tables": cache_of_other_tables,
    "older-fold": cache_of_an_older_fold,
    "another-vault": cache_of_another_vault,
    "behind": cache_behind,
    "ahead": cache_ahead,
    "folder": cache_a_folder,
}


@pytest.mark.parametrize("first", ["reader", "writer"])
@pytest.mark.parametrize("spoil", CACHES.values(), ids=CACHES.keys())
def test_a_cache_is_brought_in_line_whatever_it_is(world, spoil, first):
    """Whatever stands in the cache's place, the next command answers from the ledgers and everything is as it should be."""
    spoil(world)
    due = {"shop.later": "Later.", "shop.staged": "Staged."} if spoil is cache_behind else {}
    if first == "reader":
        assert world.texts() == {**FACTS, **due}
    assert world.journal()[0] == 0
    assert world.texts() == {**FACTS, **due}
    if spoil is cache_a_folder:
        assert world.findings() == ["no-cache"]
        world.cache.rmdir()
    world.check_sound(TAGS[:1])


@pytest.mark.parametrize("spoil", [lambda world: None, CACHES["missing"], CACHES["garbage"], CACHES["older-fold"]],
                         ids=["there", "missing", "garbage", "older-fold"])
def test_an_edit_is_recorded_before_what_the_command_does_itself(world, spoil):
    """Whatever the cache is, the record of an edited MEMORY.md comes first: it tells what its writer had seen."""
    memory = world.vault / "MEMORY.md"
    memory.write_bytes(memory.read_bytes().replace(b"Retry twice.", b"Retry four times."))
    spoil(world)
    world.ok("propose", "--run", world.run_id, "--key", "shop.risk", "--text", "Payments time out often.", "--now")
    assert [kind for kind, _ in world.records()][-3:] == ["recovery", "proposal", "revision"]
    edits = world.json("review", "--all")[1]["edits"]
    assert [(edit["path"], [(c["key"], c["fields"]) for c in edit["changes"]], edit["unread"]) for edit in edits] == [
        ("MEMORY.md", [("shop.next", {"text": ["Retry twice.", "Retry four times."]})], [])]
    assert world.json("resolve", "edits", "--choose", "adopt", "--human-approved")[0] == 0
    assert world.texts() == {"shop.next": "Retry four times.", "shop.risk": "Payments time out often.", "shop.staged": "Staged."}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork gives up its rights for this; this system has no fork")
@pytest.mark.parametrize("cache", ["there", "missing", "garbage"])
def test_a_vault_that_cannot_be_written_to_is_read_in_memory(world, cache):
    """In a folder without the right to write, reading answers in full, writing exits 9, and no byte changes."""
    if cache in CACHES:
        CACHES[cache](world)
    with tempfile.TemporaryDirectory() as folder, Driver() as driver:
        shutil.copytree(world.vault, Path(folder, "memory"))
        paths = [Path(folder), *Path(folder).rglob("*")]
        for path in paths:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = {path: path.read_bytes() for path in paths if path.is_file()}
        rights = {"nobody": os.geteuid() == 0}
        recalled = driver.run(folder, "recall", KEY, "--vault", "memory", **rights)
        assert (recalled.status, recalled.json["current"]["text"]) == (0, FACTS[KEY])
        assert driver.run(folder, "doctor", "--vault", "memory", **rights).json["errors"] == 0
        assert driver.run(folder, "start", "--actor", "codex", "--vault", "memory", **rights).status == 9
        assert {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()} == before
        for path in paths:
            path.chmod(0o755)


# -- what this engine does not know --


def append_kind(world, kind, body):
    """Append a record that chains as it should to the vault's ledger."""
    path = world.ledger()
    last = path.read_bytes().split(b"\n")[-2]
    head = json.loads(last)["head"]
    at = engine.format_at(engine.parse_at(head["at"]) + 1)
    new = {"at": at, "kind": kind, "prev": engine.sha256(engine.canonical(head)), "seq": head["seq"] + 1, "unit": 1}
    with path.open("ab") as file:
        file.write(engine.encode_record(new, {"salt": "0" * 32, **body})[0])


NEWER = {
    "no-fields": ("treaty", {}),
    "fields-of-its-own": ("treaty-of-parts", {"run": "R1-aaaaaaaa", "targets": [{"x": [1, None]}]}),
    "fields-of-a-known-kind": ("erasure", {"targets": ["P2-aaaaaaaa"], "bodies": ["0" * 64]}),
}


@pytest.mark.parametrize("cache", ["there", "missing"])
@pytest.mark.parametrize(("kind", "body"), NEWER.values(), ids=NEWER.keys())
def test_a_record_of_a_newer_engine_stops_writing_and_not_reading(world, kind, body, cache):
    """Met by a kind that it does not fold, the engine writes no more (exit 8), not elsewhere either, and reads what is before it."""
    append_kind(world, kind, body)
    before = world.ledger().read_bytes()
    if cache == "missing":
        world.drop_cache()
    for argv in (*RECORDING, *DECIDING, ("close", "--outcome", "success", "--summary", "x"), ("start", "--actor", "codex"),
                 ("restore",), ("erase", "P2-aaaaaaaa", "--human-approved")):
        status, answer = world.json(*in_run(argv, world.run_id))
        assert (status, answer["code"]) == (8, "newer-format"), argv
    status, answer = world.json("recall", KEY)
    assert (status, answer["current"]["text"], len(answer["warnings"])) == (0, FACTS[KEY], 1)
    assert (world.ledger().read_bytes(), world.tags()) == (before, [TAGS[0]])
    assert world.json("doctor")[0] == 7
    assert "unknown-kind" in world.findings()


@pytest.mark.parametrize("cache", ["there", "missing"])
@pytest.mark.parametrize("body", [{"what": "healed", "path": "MEMORY.md"}, {"what": "restored", "path": "MEMORY.md"}, {"what": "loss"}],
                         ids=["what", "path", "lines"])
def test_a_repair_that_is_none_is_damage(world, body, cache):
    """A recovery of an unknown sort, or one that does not say all that its sort must, is a bad body and not a newer kind."""
    whole = world.ledger().read_bytes()
    append_kind(world, "recovery", {"path": ".muniment/ledger/aaaaaaaa.jsonl", **body})
    if cache == "missing":
        world.drop_cache()
    check_damaged(world, "bad-body", len(whole.splitlines()) + 1)


@pytest.mark.parametrize("cache", ["there", "missing"])
@pytest.mark.parametrize(("kind", "body"), [
    ("recovery", {"what": "restored", "path": ".muniment/ledger/aaaaaaaa.jsonl"}),
    ("recovery", {"what": "loss", "path": ".muniment/ledger/zzzzzzzz.jsonl", "lines": [[1, 2]]}),
    ("recovery", {"what": "loss", "path": ".muniment/ledger/aaaaaaaa.jsonl", "lines": [[40, 41]]}),
    ("erase", {"targets": ["E9-zzzzzzzz"], "bodies": ["0" * 64]}),
], ids=["restored", "loss", "loss-ahead", "erase"])
def test_a_repair_or_erasure_by_another_is_folded(world, kind, body, cache):
    """`restored`, `loss` and `erase` records are known kinds: they stop nothing, and the rest stands as it was."""
    append_kind(world, kind, body)
    if cache == "missing":
        world.drop_cache()
    assert world.texts() == FACTS
    assert world.journal()[0] == 0
    assert world.json("sync", "--run", world.run_id)[0] == 0
    assert world.texts() == {**FACTS, "shop.staged": "Staged."}
    assert kind in {event["kind"] for event in world.json("log")[1]["events"]}
    is_loss = body.get("what") == "loss"
    ends = is_loss and TAGS[0] in body["path"]  # a ledger that lost lines gets no more
    world.check_sound(TAGS[:1 + ends], *["given-up"] * is_loss)


def test_a_newer_format_is_left_alone(world):
    """A vault of a newer format is neither read nor written, and nothing in it changes."""
    form = world.vault / ".muniment" / "format.json"
    form.write_text(json.dumps({**json.loads(form.read_bytes()), "format": 2}), encoding="utf-8")
    before = {path: path.read_bytes() for path in world.vault.rglob("*") if path.is_file()}
    for argv in (("status",), ("start", "--actor", "codex"), ("doctor",)):
        status, answer = world.json(*argv)
        assert (status, answer["code"]) == (8, "newer-format")
    assert {path: path.read_bytes() for path in world.vault.rglob("*") if path.is_file()} == before


# -- damage --


def line_of(data, number):
    """Return where a line begins and ends in a ledger's bytes."""
    lines = data.splitlines(keepends=True)
    start = sum(map(len, lines[:number]))
    return start, start + len(lines[number])


def flip(field):
    """Return the damage that one other letter is in the value of a field, or at the line's start where there is none."""

    def damage(data, number):
        start, end = line_of(data, number)
        at = start + data[start:end].index(field) + len(field) if field else start
        return data[:at] + (b"0" if data[at:at + 1] != b"0" else b"1") + data[at + 1:]

    return damage


def double(data, number):
    """Write a line twice."""
    start, end = line_of(data, number)
    return data[:end] + data[start:]


def drop(data, number):
    """Leave a line out."""
    start, end = line_of(data, number)
    return data[:start] + data[end:]


def swap(data, number):
    """Change the places of a line and the one after it."""
    start, end = line_of(data, number)
    _, after = line_of(data, number + 1)
    return data[:start] + data[end:after] + data[start:end] + data[after:]


def lengthen(data, number):
    """Make a line longer than one may be."""
    start, _ = line_of(data, number)
    return data[:start] + b"x" * engine.LINE_BYTES_MAX + data[start:]


def spoil_text(data, number):
    """Put a byte that no UTF-8 has into a line's text."""
    start, end = line_of(data, number)
    at = start + data[start:end].index(b'"text":"') + 8
    return data[:at] + b"\xff" + data[at + 1:]


def blank(data, number):
    """Put an empty line before a line."""
    start, _ = line_of(data, number)
    return data[:start] + b"\n" + data[start:]


def crlf(data, number):
    """End a line as Windows does."""
    _, end = line_of(data, number)
    return data[:end - 1] + b"\r" + data[end - 1:]


def mark(data, number):
    """Put a merge's marker before a line."""
    start, _ = line_of(data, number)
    return data[:start] + b"<<<<<<< HEAD\n" + data[start:]


#: What is done to line 4 -> (kind of damage that it is, the line from 1 where it shows).
DAMAGE = {
    "flipped-in-the-text": (flip(b'"text":"'), "bad-hash", 5),
    "flipped-in-the-hash": (flip(b'"body":"'), "bad-hash", 5),
    "flipped-in-the-chain": (flip(b'"prev":"'), "bad-prev", 5),
    "flipped-in-the-form": (flip(b""), "bad-json", 5),
    "not-utf-8": (spoil_text, "bad-json", 5),
    "flipped-time": (flip(b'"at":"20'), "bad-at", 5),
    "doubled": (double, "bad-seq", 6),
    "left-out": (drop, "bad-seq", 5),
    "swapped": (swap, "bad-seq", 5),
    "too-long": (lengthen, "too-long", 5),
    "blank-line": (blank, "bad-json", 5),
    "crlf": (crlf, "crlf", 5),
    "merge-marker": (mark, "merge-marker", 5),
}
#: What records without deciding, and what decides; R stands for the run.
RECORDING = (("journal", "--run", "R", "--text", "x"), ("propose", "--run", "R", "--key", KEY, "--text", "Over damage."))
DECIDING = (
    ("sync", "--run", "R"), ("propose", "--run", "R", "--key", KEY, "--text", "x", "--now"), ("withdraw", "P2-aaaaaaaa", "--run", "R"),
    ("apply", "--run", "R", "-"), ("maintain", "--mark", "--run", "R"), ("resolve", "C-abcdef", "--choose", "current", "--human-approved"),
    ("resolve", "edits", "--choose", "adopt", "--human-approved"), ("config", "hot-lines", "100", "--human-approved"),
    ("recover-run", "--run", "R", "--summary", "x", "--human-approved"), ("rebuild",),
)


def in_run(argv, run):
    """Return a command line with the run's handle in its place."""
    return [run if word == "R" else word for word in argv]


def check_refused(world, argv, kind, line, name=TAGS[0]):
    """A command is refused, naming file, line and kind of the damage."""
    status, answer = world.json(*argv)
    assert (status, answer["code"], answer["exit"]) == (7, "damaged", 7), argv
    assert (answer["line"], answer["kind"], Path(answer["path"]).name) == (line, kind, name + ".jsonl"), argv


def check_damaged(world, kind, line, deciding=DECIDING[:3]):
    """Deciding is refused, recording goes on in a fresh ledger, reading says so; the damaged file and the views keep their bytes."""
    before, views = world.ledger().read_bytes(), world.views()
    for argv in deciding:
        check_refused(world, in_run(argv, world.run_id), kind, line)
    assert world.tags() == [TAGS[0]]
    for argv in (("status",), ("recall", KEY), ("log",), ("review", "--all")):
        status, answer = world.json(*argv)
        assert (status, len(answer["warnings"])) == (0, 1), argv
    for argv in RECORDING:
        status, answer = world.json(*in_run(argv, world.run_id))
        assert (status, [made for made in answer.values() if str(made).endswith("-" + TAGS[1])]) == (0, [
            answer.get("entry") or answer["proposal"]]), argv
    check_refused(world, ("close", "--run", world.run_id, "--outcome", "success", "--summary", "x"), kind, line)
    theirs = world.start("claude")
    assert theirs.endswith(TAGS[1])
    assert world.json("close", "--run", theirs, "--outcome", "success", "--summary", "Nothing was staged.")[0] == 0
    assert world.json("recall", KEY)[1]["current"]["text"] == FACTS[KEY]
    assert {row["tag"]: row["damaged"] for row in world.json("status")[1]["ledgers"]} == {TAGS[0]: True, TAGS[1]: False}
    assert "x" in {body.get("text") for _, body in world.records(TAGS[1])}
    status, answer = world.json("doctor")
    assert status == 7
    found = {(f["kind"], f.get("line")): f for f in answer["findings"] if f["severity"] == "error"}
    assert Path(found[kind, line]["path"]).name == TAGS[0] + ".jsonl"
    assert found[kind, line]["record"].endswith("-" + TAGS[0])
    assert (world.ledger().read_bytes(), world.tags(), world.views()) == (before, [*TAGS[:2]], views)


@pytest.mark.parametrize("cache", ["there", "missing"])
@pytest.mark.parametrize(("damage", "kind", "line"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_stops_deciding_and_neither_recording_nor_reading(world, damage, kind, line, cache):
    """Over a ledger that does not prove itself nothing is decided (exit 7), and what was recorded meanwhile counts once it is whole."""
    path = world.ledger()
    whole = path.read_bytes()
    path.write_bytes(damage(whole, 4))
    if cache == "missing":
        world.drop_cache()
    check_damaged(world, kind, line)
    path.write_bytes(whole)
    assert world.journal()[0] == 0
    assert world.texts() == FACTS
    decided = world.json("sync", "--run", world.run_id)[1]
    assert {row["key"] for row in decided["applied"]} == {KEY, "shop.staged"}
    assert world.texts() == {**FACTS, KEY: "Over damage.", "shop.staged": "Staged."}
    assert world.tags() == [*TAGS[:2]]
    assert world.findings("--strict") == []


@pytest.mark.parametrize("cache", ["there", "missing"])
def test_a_record_of_another_vault_is_damage(world, cache, tmp_path):
    """Lines of another vault's ledger of the same tag do not chain: they are damage where they stand."""
    other = World(tmp_path / "other", Chance(TAGS))
    other.chance.salts = 700
    other.fill()
    path = world.ledger()
    lines, theirs = (w.ledger().read_bytes().splitlines(keepends=True) for w in (world, other))
    path.write_bytes(b"".join(lines[:4] + theirs[4:5] + lines[5:]))
    if cache == "missing":
        world.drop_cache()
    check_damaged(world, "bad-prev", 5, DECIDING)


def test_a_ledger_under_another_name_or_vault_is_damage(world, tmp_path):
    """A whole ledger that was moved to another tag's name, or from another vault, is damage from its first line on."""
    other = World(tmp_path / "other", Chance(("zzzzzzzz",)))
    other.chance.salts = 700
    other.fill()
    shutil.copy(world.ledger(), world.ledger("yyyyyyyy"))
    shutil.copy(other.ledger("zzzzzzzz"), world.ledger("zzzzzzzz"))
    for argv in DECIDING:
        check_refused(world, in_run(argv, world.run_id), "bad-prev", 1, "yyyyyyyy")
    status, answer = world.journal()
    assert (status, answer["entry"][-8:], len(answer["warnings"])) == (0, TAGS[0], 2)  # the own one is whole
    status, answer = world.json("recall", KEY)
    assert (status, len(answer["warnings"])) == (0, 2)
    found = {(f["kind"], Path(f["path"]).stem) for f in world.json("doctor")[1]["findings"] if f["severity"] == "error"}
    assert found >= {("bad-prev", "yyyyyyyy"), ("bad-prev", "zzzzzzzz")}
    assert world.texts().items() >= FACTS.items()
    for tag in ("yyyyyyyy", "zzzzzzzz"):
        world.ledger(tag).unlink()
    world.check_sound(TAGS[:1])
