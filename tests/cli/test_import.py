"""`import`: what an older memory held comes in as one unit, beside what is there, once."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

APPROVED = "--human-approved"
SOURCE = {"do": "source", "format": "notes", "name": "wiki"}
TIME = "2025-03-01T09:00:00.000Z"
#: What has the form of an AWS access key.
KEY_LIKE = "AKIA" + "ZQ3KXW7PLM2RTV5N"


def sha256(data):
    """Return the hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def lines(*operations):
    """Return operations as the bytes of a file, one JSON object a line."""
    return "".join((op if isinstance(op, str) else json.dumps(op)) + "\n" for op in operations).encode()


def opened(run="r", **more):
    """Return the operation that opens a run."""
    return {"do": "open", "run": run, "actor": "bob", **more}


def claim(key="a.b", text="x", run="r", **more):
    """Return an operation that proposes a tier 2 value."""
    return {"do": "propose", "run": run, "key": key, "tier": 2, "text": text, **more}


def synced(run="r"):
    """Return the operation that decides."""
    return {"do": "sync", "run": run}


def history(*texts, key="a.b", run="r", **more):
    """Return the operations by which one value follows the other, each decided; ids are RUN:KEY:0 and so on."""
    return [op for n, text in enumerate(texts) for op in (claim(key, text, run, id="%s:%s:%d" % (run, key, n), **more), synced(run))]


def give(project, *operations, status=0, source=SOURCE, words=(APPROVED,)):
    """Import operations; return the result or, of what is refused, the failure."""
    reply = project.call("import", "-", *words, stdin=lines(*([source] if source else []), *operations))
    assert reply.status == status, reply
    return reply.data if status in (0, 4) else reply.error


def told(project, key):
    """Return the text of a key's current value, of what stands beside it, and of what came before."""
    said = project.ok("recall", key, "--history")
    words = [[c.get("text") for c in said[name]] for name in ("contenders", "outranked", "history")]
    return said["current"].get("text"), words[0] + words[1], words[2]


def kept(project):
    """Return the bytes of every file in recovery/ by its name."""
    return {path.name: path.read_bytes() for path in (project.vault / ".muniment" / "recovery").iterdir()}


def test_a_whole_file(cli, project, tmp_path):
    """Runs, entries and claims come in as they were, with their origin and times, as one unit; the receipt says so."""
    path = tmp_path / "older.jsonl"
    path.write_bytes(lines(
        SOURCE,
        opened("w-9", session="chat-1", dated=TIME),
        {"do": "journal", "run": "w-9", "id": "e", "text": "one\ntwo", "importance": 5, "ref": "D1:3", "dated": TIME},
        claim("a.rule", "Never.", "w-9", tier=1, kind="rule", source="legacy", trust="confirmed", evidence=["e"], why="Because.",
              detail="# More\n", links=["a.b"], tags=["x"], until="2999-01-01", dated=TIME, id="p"),
        claim("a.pattern", "Mondays.", "w-9", tier=3, confidence="established", falsifier="A Tuesday.", evidence=[
            "https://ci.example/7", {"command": "pytest", "exit": 0, "date": "2025-03-01"}], source="system"),
        claim("a.b", "Now.", "w-9", importance=5, status="watch"),
        synced("w-9"),
        claim("a.b", "Perhaps.", "w-9"),
        {"do": "close", "run": "w-9", "outcome": "fail", "summary": "It ended.", "dated": TIME},
        opened("w-10"),
        {"do": "left", "what": "a.png", "why": "it is no text"},
        {"do": "converted", "what": "a.md", "how": "cut"},
    ))
    before = len(project.records())
    reply = cli("import", path, APPROVED)
    assert reply.status == 0, reply
    result = reply.data
    assert result["source"] == {"format": "notes", "name": "wiki"}
    assert result["kept"] == [{"path": str(path), "sha256": sha256(path.read_bytes())}]
    assert [row["label"] for row in result["runs"]] == ["w-9", "w-10"]
    assert [result[name] for name in ("entries", "proposals", "applied", "same", "staged")] == [1, 4, 3, 0, 1]
    assert (result["tiers"], result["beside"], result["skipped"]) == ({"1": 1, "2": 1, "3": 1}, [], [])
    assert result["left"] == [{"what": "a.png", "why": "it is no text"}]
    assert result["converted"] == [{"what": "a.md", "how": "cut"}]
    made = project.records()[before:]
    assert len({head["at"] for head, _ in made if head["kind"] != "replica"}) == 1
    assert [head["unit"] for head, _ in made if "unit" in head] == [len(made)]
    (_, first), (_, second) = project.records("run-open")
    assert first["origin"] == {"format": "notes", "name": "wiki", "id": "w-9", "sha256": sha256(path.read_bytes())}
    assert (first["actor"], first["session"], first["dated"], second["origin"]["id"]) == ("bob", "chat-1", TIME, "w-10")
    assert {body["dated"] for _, body in project.records("journal")} == {TIME}
    assert all(body["imported"] for _, body in project.records("proposal"))
    ends = [(body["outcome"], body["summary"], body["how"], body.get("dated")) for _, body in project.records("run-close")]
    assert ends == [("fail", "It ended.", "imported", TIME), ("partial", "Imported.", "imported", None)]
    rule = project.current("a.rule")
    entry = project.ok("show", rule["evidence"][0])["entry"]
    assert (entry["text"], entry["importance"], entry["ref"]) == ("one\ntwo", 5, "D1:3")
    assert (rule["trust"], rule["source"], rule["kind"], rule["dated"]) == ("confirmed", "legacy", "rule", TIME)
    assert (rule["why"], rule["detail"], rule["links"], rule["tags"]) == ("Because.", "# More\n", ["a.b"], ["x"])
    assert told(project, "a.b") == ("Now.", [], [])
    assert [q["about"] for q in project.ok("review", "a.b")["questions"]] == ["staged"]
    assert kept(project) == {sha256(path.read_bytes()): path.read_bytes()}
    reply = project.call("import", path, APPROVED)
    assert (reply.status, reply["runs"], reply["skipped"], reply["kept"]) == (0, [], ["w-9", "w-10"], [])
    assert len(project.records()) == before + len(made)


#: Operations after the source, the last of them refused, and the code of that.
REFUSED = {
    "no json": (["{"], "bad-json"),
    "no operation": ([{"do": "jump"}], "bad-operation"),
    "a field too many": ([opened(colour="red")], "bad-operation"),
    "no clearing": ([opened(), claim(clear=["tags"])], "bad-operation"),
    "no new_subject": ([opened(), claim(new_subject=True)], "bad-operation"),
    "a second source": ([SOURCE], "bad-operation"),
    "no actor": ([{"do": "open", "run": "r"}], "bad-value"),
    "a bad actor": ([opened(actor="Bob")], "bad-value"),
    "no label": ([{"do": "open", "actor": "bob"}], "bad-text"),
    "an empty label": ([opened("")], "bad-text"),
    "a label with a space": ([opened("a b")], "bad-value"),
    "a label with a line": ([opened("a\nb")], "bad-text"),
    "a hidden label": ([opened("a\u202eb")], "bad-text"),
    "a long label": ([opened("x" * 201)], "bad-text"),
    "a label that is a list": ([opened(["r"])], "bad-text"),
    "a run twice": ([opened(), opened()], "bad-value"),
    "a run that is not opened": ([synced()], "unknown-run"),
    "an entry without a run": ([{"do": "journal", "text": "x"}], "bad-text"),
    "after its close": ([opened(), {"do": "close", "run": "r", "outcome": "success", "summary": "x"}, synced()], "closed-run"),
    "a bad outcome": ([opened(), {"do": "close", "run": "r", "outcome": "done", "summary": "x"}], "bad-value"),
    "no summary": ([opened(), {"do": "close", "run": "r", "outcome": "success"}], "bad-text"),
    "no text": ([opened(), {"do": "journal", "run": "r"}], "bad-text"),
    "a bad importance": ([opened(), {"do": "journal", "run": "r", "text": "x", "importance": 6}], "bad-value"),
    "a ref like an id": ([opened(), {"do": "journal", "run": "r", "text": "x", "ref": "E3-k7qdm2xw"}], "bad-value"),
    "a bad time": ([opened(dated="2025-03-01")], "bad-date"),
    "a day that is none": ([opened(), claim(dated="2025-02-30T00:00:00.000Z")], "bad-date"),
    "a number for a time": ([opened(dated=5)], "bad-date"),
    "a bad key": ([opened(), claim("A")], "bad-key"),
    "a device": ([opened(), claim("con.x")], "bad-key"),
    "no tier": ([opened(), {"do": "propose", "run": "r", "key": "a.b", "text": "x"}], "bad-field"),
    "a tier 4": ([opened(), claim(tier=4)], "bad-value"),
    "a field of another tier": ([opened(), claim(kind="fact")], "bad-field"),
    "a claim of two lines": ([opened(), claim(text="a\nb")], "bad-text"),
    "a long claim": ([opened(), claim(text="x" * 501)], "bad-text"),
    "a source that is none": ([opened(), claim(source="me")], "bad-value"),
    "a source that is a list": ([opened(), claim(source=["user"])], "bad-value"),
    "a trust that is none": ([opened(), claim(trust="sure")], "bad-value"),
    "an op that is none": ([opened(), claim(op="drop")], "bad-value"),
    "a pattern on nothing": ([opened(), claim(tier=3)], "bad-field"),
    "evidence of nothing": ([opened(), claim(evidence=["e"])], "unknown-evidence"),
    "evidence that comes later": ([opened(), claim(evidence=["e"]), {"do": "journal", "run": "r", "id": "e", "text": "x"}],
                                  "unknown-evidence"),
    "evidence that is a claim": ([opened(), claim(id="p"), claim("a.c", evidence=["p"])], "unknown-evidence"),
    "evidence that is a word": ([opened(), claim(evidence="e")], "bad-value"),
    "evidence that is a number": ([opened(), claim(evidence=[5])], "unknown-evidence"),
    "an id twice": ([opened(), claim(id="p"), claim("a.c", id="p")], "bad-value"),
    "an id of both kinds": ([opened(), {"do": "journal", "run": "r", "id": "p", "text": "x"}, claim(id="p")], "bad-value"),
    "an id with a space": ([opened(), claim(id="a b")], "bad-value"),
    "an id that is a number": ([opened(), claim(id=7)], "bad-text"),
    "a base of nothing": ([opened(), claim(base=["p"])], "unknown-proposal"),
    "a base of itself": ([opened(), claim(id="p", base=["p"])], "unknown-proposal"),
    "a cycle": ([opened(), claim(id="p", base=["q"]), claim(id="q", base=["p"])], "unknown-proposal"),
    "a base of another key": ([opened(), claim(id="p"), claim("a.c", base=["p"])], "bad-value"),
    "a base that is an entry": ([opened(), {"do": "journal", "run": "r", "id": "e", "text": "x"}, claim(base=["e"])], "bad-value"),
    "a base that is a word": ([opened(), claim(id="p"), claim(base="p")], "bad-value"),
    "a base of lists": ([opened(), claim(base=[["p"]])], "bad-value"),
    "a close of nothing": ([opened(), {"do": "propose", "run": "r", "key": "c.d", "op": "close"}], "bad-field"),
    "a close with a text": ([opened(), {"do": "propose", "run": "r", "key": "a.b", "op": "close", "tier": 2, "text": "x"}], "bad-field"),
    "a touch with a tier": ([opened(), {"do": "propose", "run": "r", "key": "a.b", "op": "touch", "tier": 2}], "bad-field"),
    "a withdrawal of nothing": ([opened(), {"do": "withdraw", "run": "r", "proposal": "p"}], "unknown-proposal"),
    "a withdrawal of a list": ([opened(), {"do": "withdraw", "run": "r", "proposal": ["p"]}], "unknown-proposal"),
    "a withdrawal of an entry": ([opened(), {"do": "journal", "run": "r", "id": "e", "text": "x"}, {
        "do": "withdraw", "run": "r", "proposal": "e"}], "bad-id"),
    "a withdrawal of what stands alone": ([opened(), claim(id="p"), synced(), {"do": "withdraw", "run": "r", "proposal": "p"}],
                                          "not-withdrawable"),
    "a withdrawal of another's": ([opened(), claim(id="p"), opened("s"), {"do": "withdraw", "run": "s", "proposal": "p"}],
                                  "not-withdrawable"),
    "what was left, of nothing": ([{"do": "left", "what": "x"}], "bad-text"),
    "a secret in an entry": ([opened(), {"do": "journal", "run": "r", "text": KEY_LIKE}], "secret"),
    "a secret in a claim": ([opened(), claim(why=KEY_LIKE)], "secret"),
    "a secret in a summary": ([opened(), {"do": "close", "run": "r", "outcome": "success", "summary": KEY_LIKE}], "secret"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_refused_line_refuses_all(project, name):
    """The first line that is refused ends the import, named by its number and cause; nothing is recorded or kept."""
    operations, cause = REFUSED[name]
    before = project.ledger()
    error = give(project, opened("before"), claim(run="before"), synced("before"), "", *operations, status=3)
    last = len(operations) if name not in ("evidence that comes later", "a cycle") else 2
    assert (error["code"], error["cause"], error["line"]) == ("atomic", cause, 5 + last)
    assert error["hint"]
    assert project.ledger() == before
    assert kept(project) == {}
    assert project.call("recall", "a.b").status == 5


@pytest.mark.parametrize(("operations", "cause"), [
    ([opened()], "bad-operation"),
    ([{"do": "source"}], "bad-value"),
    ([{"do": "source", "format": "no format", "name": "x"}], "bad-value"),
    ([{"do": "source", "format": "x"}], "bad-text"),
    ([{"do": "source", "format": "x", "name": "a\nb"}], "bad-text"),
    ([{"do": "source", "format": "x", "name": "y", "files": {}}], "bad-value"),
    ([{"do": "source", "format": "x", "name": "y", "files": ["z"]}], "bad-value"),
    ([{"do": "source", "format": "x", "name": "y", "files": [{"path": "z"}]}], "bad-value"),
    ([{"do": "source", "format": "x", "name": "y", "files": [{"path": "z", "sha256": "0"}]}], "bad-value"),
    ([{"do": "source", "format": "x", "name": "y", "files": [{"path": "z\x00", "sha256": "0" * 64}]}], "bad-text"),
    ([{"do": "source", "format": "x", "name": "y", "files": [{"path": "z", "sha256": "0" * 64}]}], "source-changed"),
    ([{"do": "source", "format": "x", "name": "y", "files": [{"path": ".", "sha256": "0" * 64}]}], "source-changed"),
])
def test_a_source_that_is_refused(project, operations, cause):
    """The first line must say whose memory it is, and of which files, and these must be what they were."""
    error = give(project, *operations, source=None, status=3)
    assert (error["code"], error["cause"], error["line"]) == ("atomic", cause, 1)


def test_an_empty_file_is_refused(project):
    """A file without a source says nothing."""
    assert project.call("import", "-", APPROVED, stdin=b"\n \n").code == (2, "bad-operation")
    assert project.call("import", project.folder / "none.jsonl", APPROVED).code == (2, "usage")


def test_only_the_owner_imports(project):
    """Without the owner's word nothing is read."""
    assert give(project, opened(), words=(), status=3)["code"] == "needs-approval"


def test_a_secret_may_be_allowed(project):
    """What only looks like a credential is recorded if that is said."""
    assert give(project, opened(), claim(text=KEY_LIKE), words=(APPROVED, "--allow-secret"))["proposals"] == 1


def test_a_file_by_an_editor(project):
    """A byte order mark and CR LF are no fault; null and an empty list are as if they were absent, but of `base`."""
    text = lines(SOURCE, opened(session=None), claim(tags=[], evidence=[], why=None), synced()).replace(b"\n", b"\r\n")
    assert project.ok("import", "-", APPROVED, stdin=b"\xef\xbb\xbf" + text)["applied"] == 1


def test_over_a_damaged_ledger_nothing_is_imported(project):
    """Decisions wait while a ledger is damaged."""
    project.journal(project.start(), "Where it goes.")
    path = next((project.vault / ".muniment" / "ledger").iterdir())
    path.write_bytes(path.read_bytes().replace(b"goes", b"went"))
    project.healthy = False
    assert give(project, opened(), status=7)["code"] == "damaged"


# -- what it replaces, and what it stands beside --


def test_what_the_source_made_is_replaced(project):
    """Without a base a claim follows what lines before made of its key, decided or staged, by any run."""
    give(project, opened(), claim(text="one"), claim(text="two"), claim(text="three"), synced(), opened("s"),
         claim(text="four", run="s"), {"do": "propose", "run": "s", "key": "a.b", "op": "touch"}, claim(text="five", run="s"), synced("s"))
    assert told(project, "a.b") == ("five", [], ["one", "two", "three", "four"])


def test_a_base_says_what_is_replaced(project):
    """A base replaces what it names, an empty one nothing; a claim that was said again stands for what said it first."""
    result = give(project, opened(), *history("one", "two"), opened("s"), claim(text="three", run="s", base=["r:a.b:0"]), synced("s"),
                  claim("c.d", run="s", id="q"), claim("c.d", "y", "s", base=[]), synced("s"), status=4)
    assert told(project, "a.b") == ("two", ["three"], ["one"])
    assert told(project, "c.d") == ("x", ["y"], [])
    assert [row["key"] for row in result["beside"]] == ["a.b", "c.d"]
    give(project, opened("t"), *history("z", key="e.f", run="t"), opened("u"), claim("e.f", "z", "u", id="again"), synced("u"),
         claim("e.f", "last", "u", base=["again"]), synced("u"), source=dict(SOURCE, name="other"))
    assert told(project, "e.f") == ("last", [], ["z"])


def test_a_staged_base_of_the_same_run(project):
    """What the run has staged can be named before it is decided, also if it then says only what stood."""
    give(project, opened(), claim(id="a"), synced(), claim(id="b"), claim(text="y", id="c", base=["b"]), claim(text="z", base=["c"]),
         synced())
    assert told(project, "a.b") == ("z", [], ["x", "y"])


def test_what_another_run_has_not_decided_is_not_seen(project):
    """A base of what another run has staged replaces nothing: when that is decided, both stand."""
    give(project, opened(), claim(id="p"), opened("s"), claim(text="y", run="s", base=["p"]), synced("s"), synced(), status=4)
    assert told(project, "a.b") == ("x", ["y"], [])


def test_a_close_and_what_comes_after(project):
    """A close takes the tier that it says or that of its base; a key may be opened again."""
    give(project, opened(), claim(id="p", tier=1), synced(), {"do": "propose", "run": "r", "key": "a.b", "op": "close"}, synced())
    assert project.ok("recall", "a.b")["status"] == "closed"
    assert project.current("a.b")["tier"] == 1
    give(project, opened("s"), {"do": "propose", "run": "s", "key": "a.b", "op": "set", "tier": 2, "text": "again"}, synced("s"))
    assert told(project, "a.b") == ("again", [], ["x", None])
    give(project, opened("t"), {"do": "propose", "run": "t", "key": "c.d", "op": "close", "tier": 3}, synced("t"))
    assert project.ok("recall", "c.d")["status"] == "closed"


def test_what_is_not_synced_stays_staged(project):
    """Nothing is decided that no line decides, and a run's own proposal can be taken back before."""
    result = give(project, opened(), claim(id="p"), claim("c.d", id="q"), {"do": "withdraw", "run": "r", "proposal": "q"})
    assert (result["staged"], result["applied"]) == (1, 0)
    assert [project.call("recall", key).status for key in ("a.b", "c.d")] == [5, 5]
    question = project.ok("review", "a.b")["questions"][0]
    project.ok("resolve", question["handle"], "--choose", "accept", APPROVED)
    assert told(project, "a.b")[0] == "x"


@pytest.mark.parametrize("trust", ["working", "confirmed"])
@pytest.mark.parametrize("tier", [1, 2, 3])
def test_the_vault_s_own_values_stand(project, tier, trust):
    """An import replaces nothing that others made: confirmed or not, of any tier, its value stands beside."""
    more = {"evidence": ["https://example.invalid/x"], "tier": tier, "trust": trust}
    run = project.start()
    words = ("--tier", str(tier), "--evidence", "https://example.invalid/x")
    project.owned(run, "a.b", "The owner's.", *words)
    give(project, opened(), *history("one", "two", **more), status=4)
    current, beside, earlier = told(project, "a.b")
    assert ({current, *beside}, earlier) == ({"The owner's.", "two"}, ["one"])
    assert project.ok("recall", "a.b")["status"] == ("contested" if trust == "confirmed" else "current")
    assert trust == "confirmed" or current == "The owner's."


def test_what_is_here_already_is_said_once(project):
    """A value that the vault has is not repeated, and what the source itself gave up for it does not stand beside it."""
    run = project.start()
    project.fact(run, "a.b", "three")
    project.fact(run, "c.d", "two")
    result = give(project, opened(), *history("one", "two", "three"), *history("two", "three", key="c.d"), status=4)
    assert result["same"] == 2
    assert told(project, "a.b") == ("three", [], ["one", "two"])
    assert told(project, "c.d") == ("two", ["three"], [])
    assert [row["key"] for row in result["beside"]] == ["c.d"]


def test_the_same_store_under_two_names(project):
    """A store that is read again under another name adds no conflict, whatever its history."""
    ops = [op for key in ("a.b", "c.d", "e.f") for op in history("one", "two", "three", "four", key=key)]
    give(project, opened(), *ops)
    result = give(project, opened(), *ops, source=dict(SOURCE, name="moved"))
    assert (result["beside"], result["same"]) == ([], 3)
    assert [told(project, key)[:2] for key in ("a.b", "c.d", "e.f")] == [("four", [])] * 3


def test_what_agents_changed_since_stands_beside_what_the_source_changed(project):
    """A grown source replaces what it made; where an agent changed that meanwhile, both stand."""
    give(project, opened(), *history("one"), *history("one", key="c.d"))
    run = project.start()
    project.ok("propose", "--run", run, "--key", "c.d", "--text", "An agent's.", "--now")
    give(project, opened(), *history("one"), opened("s"), *history("two", run="s"), claim("c.d", "two", "s"), synced("s"), status=4)
    assert told(project, "a.b") == ("two", [], ["one"])
    assert told(project, "c.d") == ("An agent's.", ["two"], ["one"])


# -- again --


def test_a_grown_file(project):
    """Runs that are here are passed over, new ones come in, and their bases and evidence name what is here."""
    first = [opened(), {"do": "journal", "run": "r", "id": "e", "text": "seen"}, *history("one", "two"), {
        "do": "close", "run": "r", "outcome": "success", "summary": "x"}]
    give(project, *first)
    more = [opened("s"), claim(text="three", run="s", base=["r:a.b:1"], evidence=["e"]), synced("s")]
    result = give(project, *first, *more)
    assert ([row["label"] for row in result["runs"]], result["skipped"], result["left"]) == (["s"], ["r"], [])
    assert told(project, "a.b") == ("three", [], ["one", "two"])
    assert project.current("a.b")["evidence"] == ["E2-" + project.current("a.b")["id"][-8:]]
    assert give(project, *first, *more)["skipped"] == ["r", "s"]


def test_a_run_that_has_grown_is_left(project):
    """Of a run that is here nothing more comes in: that is said, and what names its new lines does without them."""
    give(project, opened(), *history("one"))
    grown = {"do": "journal", "run": "r", "id": "e", "text": "new"}
    result = give(project, opened(), *history("one", "two"), grown, opened("s"),
                  claim(text="three", run="s", base=["r:a.b:1"], evidence=["e"]), claim("p.q", tier=3, run="s", evidence=["e"]),
                  synced("s"))
    assert [row["what"] for row in result["left"]] == ["p.q", "run r"]
    assert told(project, "a.b") == ("three", [], ["one"])
    assert project.call("recall", "p.q").status == 5
    assert "evidence" not in project.current("a.b")


def test_a_grown_file_whose_older_claims_said_the_same(project):
    """What an earlier import decided `same` stands for what it rests on, in later imports too."""
    first = [opened(), *history("one"), opened("s"), claim(run="s", text="one", id="again"), synced("s")]
    assert give(project, *first)["same"] == 1
    give(project, *first, opened("t"), claim(run="t", text="two", base=["again"]), synced("t"))
    assert told(project, "a.b") == ("two", [], ["one"])


def test_lines_of_a_run_that_is_here_may_come_in_another_order(project):
    """What the lines of a run that is here name is found by what they say."""
    first = [claim(id="p"), claim("c.d", "y", id="q")]
    give(project, opened(), *first, synced())
    give(project, opened(), *reversed(first), synced(), opened("s"), claim(text="z", run="s", base=["p"]), synced("s"))
    assert told(project, "a.b") == ("z", [], ["x"])


def test_two_copies_import_the_same_store(project, tmp_path):
    """Imported in two copies that are then joined, a store's values are one choice each, and it grows as one."""
    other = type(project)(tmp_path / "copy", project.engine)
    shutil.copytree(project.vault, other.vault)
    first = [opened(), *history("one", "two"), *history("one", key="c.d")]
    give(project, *first)
    give(other, *first)
    for path in (other.vault / ".muniment" / "ledger").iterdir():
        if not (project.vault / ".muniment" / "ledger" / path.name).exists():
            shutil.copy(path, project.vault / ".muniment" / "ledger")
    assert told(project, "a.b")[:2] == ("two", [])
    assert project.ok("status")["conflicts"] == 0
    result = give(project, *first, opened("s"), claim(text="three", run="s", base=["r:a.b:1"]), claim("c.d", "two", "s"), synced("s"))
    assert (result["skipped"], result["beside"]) == (["r"], [])
    assert told(project, "a.b")[:2] == ("three", [])
    assert told(project, "c.d")[:2] == ("two", [])


def test_a_file_that_says_it_is_of_this_vault(project):
    """Of the vault's own export nothing is new; and a file in its name can no more replace what the vault says than any other."""
    run = project.start()
    owned = project.owned(run, "a.b", "The owner's.")
    entry = project.journal(run, "Seen.")
    own = {"do": "source", "format": "muniment", "name": project.ok("status")["id"]}
    ops = [json.loads(line) for line in project.ok("export")["text"].splitlines()[1:]]
    assert give(project, *ops, source=own)["skipped"] == [run]
    result = give(project, *ops, opened("x"), claim(text="Mine.", run="x", trust="confirmed", base=[owned], evidence=[entry]), synced("x"),
                  source=own, status=4)
    assert (result["left"], told(project, "a.b")) == ([], ("The owner's.", ["Mine."], []))
    grown = {"do": "journal", "run": run, "id": "more", "text": "And more."}
    assert [row["what"] for row in give(project, *ops, grown, source=own)["left"]] == ["run " + run]


def test_the_same_label_of_another_store(project):
    """A label is one of its store: format and name tell stores apart."""
    for source in (SOURCE, dict(SOURCE, name="wiki 2"), dict(SOURCE, format="bimri")):
        assert len(give(project, opened(), claim("a.x%d" % len(source["name"] + source["format"])), synced(), source=source)["runs"]) == 1


def test_erased_text_does_not_come_back(project):
    """What was erased here stays erased when its file is imported again."""
    said = {"do": "journal", "run": "r", "id": "e", "text": "Call 555-0123."}
    operations = [opened(), said, claim(text="Call 555-0123.", evidence=["e"]), synced()]
    give(project, *operations)
    assert project.call("erase", "--text", "555-0123", APPROVED).status == 0
    result = give(project, *operations)
    assert ([row["what"] for row in result["left"]], result["runs"]) == (["run r"], [])
    assert b"555-0123" not in b"".join(project.tree().values())


# -- what is kept --


def test_the_source_s_files_are_kept(project):
    """The exact bytes that were read, from the import file's folder or by their whole path, are in recovery/."""
    store = project.folder / "store"
    store.mkdir()
    (store / "a.md").write_bytes(b"\xff\x00 raw")
    (project.folder / "b.md").write_bytes(b"b")
    files = [{"path": "a.md", "sha256": sha256(b"\xff\x00 raw")}, {"path": str(project.folder / "b.md"), "sha256": sha256(b"b")}]
    path = store / "file.jsonl"
    path.write_bytes(lines(dict(SOURCE, files=files), opened()))
    result = project.ok("import", path, APPROVED)
    assert [row["sha256"] for row in result["kept"]] == [*(one["sha256"] for one in files), sha256(path.read_bytes())]
    assert kept(project) == {sha256(data): data for data in (b"\xff\x00 raw", b"b", path.read_bytes())}
    (store / "a.md").write_bytes(b"other")
    path.write_bytes(lines(dict(SOURCE, files=files), opened("s")))
    error = project.call("import", path, APPROVED).error
    assert (error["code"], error["cause"], error["line"]) == ("atomic", "source-changed", 1)


def test_a_long_list_of_files(project):
    """The line of the source may be longer than an operation, since it names every file."""
    (project.folder / "a.md").write_bytes(b"a")
    files = [{"path": "./" * n + "a.md", "sha256": sha256(b"a")} for n in range(1, 500)]
    path = project.folder / "file.jsonl"
    path.write_bytes(lines(dict(SOURCE, files=files), opened()))
    assert len(path.read_bytes().split(b"\n")[0]) > 262_144
    assert len(project.ok("import", path, APPROVED)["kept"]) == 500


def test_in_words(cli):
    """Without --json it is said in lines, none of which a text can make."""
    receipt = {"do": "left", "what": "a", "why": "b"}, {"do": "converted", "what": "c", "how": "d"}
    reply = cli("import", "-", APPROVED, plain=True, stdin=lines(SOURCE, opened(), claim(), synced(), claim("c.d"), *receipt))
    assert reply.status == 0
    assert reply.out.count("\n") == 5
    assert cli("import", "-", APPROVED, plain=True, stdin=lines(SOURCE, opened())).out.count("\n") == 1


def test_what_has_gathered_is_put_down_on_the_way(project, monkeypatch):
    """A long import derives its subjects in parts, with the same result."""
    monkeypatch.setattr(project.engine.State, "flush_some", project.engine.State.flush)
    run = project.start()
    project.fact(run, "c.d", "two")
    operations = [opened(), *history("one", "two", "three"), *history("one", "two", key="c.d"), opened("s"),
                  claim(run="s", text="four", base=["r:a.b:2"], id="p"), claim(run="s", text="five"), synced("s")]
    assert give(project, *operations)["beside"] == []
    assert told(project, "a.b") == ("five", [], ["one", "two", "three", "four"])
    assert told(project, "c.d") == ("two", [], ["one"])


@pytest.mark.long
def test_many_operations_are_quick_enough_to_be_one_unit(project):
    """Some thousand operations are one unit, each key's history followed without a look at all of the others."""
    operations = []
    for run in map("r%d".__mod__, range(30)):
        operations += [opened(run), *(claim("k%d.x" % n, "Text %d of %s." % (n, run), run) for n in range(30)), synced(run)]
    result = give(project, *operations)
    assert (result["proposals"], result["applied"], result["tiers"]["2"]) == (900, 900, 30)
    assert len([head for head, _ in project.records() if "unit" in head]) == 1
    assert project.ok("recall", "k7.x")["earlier"] == 29


# -- by chance --

KEYS = ("a.b", "c.d", "e.f")
CHOICES = st.lists(st.lists(st.tuples(*(st.integers(0, n) for n in (11, 2, 4, 9))), min_size=1, max_size=8), min_size=1, max_size=5)


def by_chance(choices):
    """Return an import in runs: operations made of small numbers, some of which may be refused where they stand."""
    runs, ids = [], {key: [] for key in KEYS}
    for n, steps in enumerate(choices):
        run, ops = "r%d" % n, [opened("r%d" % n)]
        for what, key, text, number in steps:
            made = ids[KEYS[key]]
            if what < 8:
                op = claim(KEYS[key], "text %d" % text, run, id="%d.%d" % (n, len(ops)), trust=("working", "confirmed")[number % 5 == 0])
                if what == 7:
                    op = {name: op[name] for name in op if name != "text"}
                    op["op"] = "close"
                op.update([{}, {}, {"base": []}, {"base": made[-1:]}, {"base": made[number % 3:][-2:]}][number % 5])
                made.append(op["id"])
                ops.append(op)
            elif what == 8 and made:
                ops.append({"do": "withdraw", "run": run, "proposal": made[-1]})
            elif what == 9:
                ops.append({"do": "journal", "run": run, "text": "entry %d" % text})
            else:
                ops.append(synced(run))
        runs.append([*ops, *([synced(run)] if len(steps) % 3 else [])])
    return runs


def stands(project):
    """Return of each key what stands, by what is said, and the ids of what was replaced or withdrawn."""
    found = {}
    for key in KEYS:
        reply = project.call("recall", key, "--history")
        said = [reply["current"], *reply["contenders"], *reply["outranked"]] if reply.status == 0 else []
        past = {c["id"] for c in reply["history"]} - {c["id"] for c in said} if said else set()
        found[key] = sorted((c["op"], c.get("text", ""), c["trust"]) for c in said), past
    return found


def vault_of_its_own(bare, folder):
    """Return a Project with a vault that has values of its own, and their ids."""
    (folder / ".git").mkdir(parents=True)
    project = type(bare)(folder, bare.engine)
    project.ok("init", project.vault)
    run = project.start()
    return project, {project.fact(run, KEYS[0], "text 1"), project.owned(run, KEYS[1], "text 2")}


def check_by_chance(bare, folder, choices, cut):
    """Import operations made by chance, whole and in two parts: both must end alike, replace nothing of others, and be sound."""
    (whole, own), (grown, _) = (vault_of_its_own(bare, folder / name) for name in ("whole", "grown"))
    runs, before, ledger = by_chance(choices), stands(whole), whole.ledger()
    reply = whole.call("import", "-", APPROVED, stdin=lines(SOURCE, *(op for run in runs for op in run)))
    if reply.status == 3:
        assert reply.error["cause"] in ("not-withdrawable", "bad-field")
        assert (whole.ledger(), stands(whole)) == (ledger, before)
        return False
    assert reply.status in (0, 4), reply
    after = stands(whole)
    assert not any(past & own for _, past in after.values())
    again = whole.call("import", "-", APPROVED, stdin=lines(SOURCE, *(op for run in runs for op in run)))
    assert (again.status, again["runs"], again["left"], stands(whole)) == (0, [], [], after)
    for part in (runs[:cut], runs):
        assert grown.call("import", "-", APPROVED, stdin=lines(SOURCE, *(op for run in part for op in run))).status in (0, 4)
    assert {key: said for key, (said, _) in stands(grown).items()} == {key: said for key, (said, _) in after.items()}
    assert whole.doctor() == []
    assert grown.doctor() == []
    return True


def test_imports_by_chance(bare, tmp_path_factory):
    """Whatever a file holds, it comes in as a whole or not at all, once, beside what others said, also when it grew between."""
    taken = []

    @settings(max_examples=10)
    @given(CHOICES, st.integers(0, 4))
    def check(choices, cut):
        taken.append(check_by_chance(bare, tmp_path_factory.mktemp("chance"), choices, cut))

    check()
    assert sum(taken) > len(taken) / 3


@pytest.mark.long
def test_many_imports_by_chance(bare, tmp_path_factory):
    """The same of many more files."""

    @settings(max_examples=500)
    @given(CHOICES, st.integers(0, 4))
    def check(choices, cut):
        check_by_chance(bare, tmp_path_factory.mktemp("chance"), choices, cut)

    check()


def test_a_file_in_the_vaults_own_name_replaces_nothing(project):
    """Ids of this vault's claims, said with other words, are no base: the owner's decision stands, and what comes in stands beside it."""
    run = project.start()
    owned = project.owned(run, "stack.database", "PostgreSQL.", "--tier", "1", "--kind", "decision")
    vault = json.loads((project.vault / ".muniment" / "format.json").read_text("utf-8"))["vault"]
    lines = [{"do": "source", "format": "muniment", "name": vault}, {"do": "open", "run": run, "actor": "owner"},
             {"do": "propose", "run": run, "id": owned, "key": "stack.database", "tier": 2, "text": "Anything."},
             {"do": "open", "run": "other", "actor": "owner"},
             {"do": "propose", "run": "other", "base": [owned], "key": "stack.database", "tier": 1, "kind": "decision", "text": "MongoDB."},
             {"do": "sync", "run": "other"}]
    reply = project.call("import", "-", "--human-approved", stdin="".join(json.dumps(line) + "\n" for line in lines).encode())
    assert reply.status in (0, 3, 4)
    assert (project.current("stack.database")["text"], project.current("stack.database")["trust"]) == ("PostgreSQL.", "confirmed")


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="needs a file without a size")
def test_a_source_file_without_a_size_is_not_waited_for(project):
    """A device, or a file of the system's that never ends, is refused at once."""
    for path in ("/proc/kmsg", "/dev/zero", "/dev/tty"):
        lines = [{"do": "source", "format": "notes", "name": "x", "files": [{"path": path, "sha256": "0" * 64}]},
                 {"do": "open", "run": "r", "actor": "x"}]
        reply = project.call("import", "-", "--human-approved", stdin="".join(json.dumps(line) + "\n" for line in lines).encode())
        assert (reply.code, reply.error["cause"]) == ((3, "atomic"), "source-changed")


def test_a_credential_in_any_line_is_refused(project):
    """The name of the store, a session, a label and what was left out are looked through too."""
    token = "ghp_" + "zQ8wLr2TmX9cVb4NkJ7hGf5dSa3PoIuYtRe1"
    for source, more in (({"name": token}, {}), ({"name": "x"}, {"session": token}), ({"name": "x"}, {"run": token})):
        lines = [{"do": "source", "format": "notes", **source}, {"do": "open", "run": "r", "actor": "x", **more}]
        reply = project.call("import", "-", "--human-approved", stdin="".join(json.dumps(line) + "\n" for line in lines).encode())
        assert (reply.code, reply.error["cause"]) == ((3, "atomic"), "secret")
    lines = [{"do": "source", "format": "notes", "name": "x"}, {"do": "left", "what": token, "why": "It is no text."}]
    reply = project.call("import", "-", "--human-approved", stdin="".join(json.dumps(line) + "\n" for line in lines).encode())
    assert reply.error["cause"] == "secret"
