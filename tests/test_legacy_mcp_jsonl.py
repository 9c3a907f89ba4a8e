"""The reader of the reference MCP memory server's file makes a subject of each entity, and refuses what is damaged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import readers
from hypothesis import given
from hypothesis import strategies as st

mcp = readers.load("mcp_jsonl")


def entity(name, *observations, kind="person"):
    """Return an entity's line."""
    return {"type": "entity", "name": name, "entityType": kind, "observations": [*observations]}


def relation(start, verb, to):
    """Return a relation's line."""
    return {"type": "relation", "from": start, "to": to, "relationType": verb}


@pytest.fixture
def graph(tmp_path):
    """Return a function that writes a memory file, of objects or of bytes, and reads it, every operation checked."""

    def read(*lines):
        data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode("utf-8") for line in lines)
        read.path.write_bytes(data)
        return readers.check(mcp.read(read.path))

    read.path = tmp_path / "memory.jsonl"
    return read


def test_an_entity_is_a_subject(graph):
    """Text is the first observation, the detail has all of them and the relations of both sides, links name the others."""
    operations = graph(entity("John_Smith", "Speaks Spanish", "Two\nlines"), entity("Acme Inc.", kind="Organi_zation"),
                       relation("John_Smith", "works_at", "Acme Inc."), relation("John_Smith", "knows", "John_Smith"))
    claims = readers.claims(operations)
    john, acme = claims["john-smith"], claims["acme-inc"]
    assert (john["tier"], john["text"], john["source"], john["trust"]) == (2, "Speaks Spanish", "agent", "working")
    assert john["detail"] == ("**John_Smith** (person)\n\n- Speaks Spanish\n- Two\n  lines\n\nRelations:\n\n"
                              "- works_at: Acme Inc.\n- knows: John_Smith")
    assert (john["links"], john["tags"]) == (["acme-inc"], ["person"])
    assert (acme["text"], acme["links"], acme["tags"]) == ("John_Smith works_at Acme Inc.", ["john-smith"], ["organi-zation"])
    assert "- John_Smith works_at this" in acme["detail"]


@pytest.mark.parametrize(("name", "key"), [
    ("engine.py", "engine.py"),
    ("A & B", "a-b"),
    ("Zoë", "zoe"),
    ("con", "entity-con"),
    ("CON.x", "entity-con.x"),
    ("../x", "x"),
])
def test_keys_are_of_names(graph, name, key):
    """A name becomes a key of the grammar; names of devices are kept off."""
    assert [*readers.claims(graph(entity(name, "x")))] == [key]


@pytest.mark.parametrize("name", ["日本", "", "  ", "a" * 100, "\ud800"])
def test_names_that_cannot_be_written_have_a_hash(graph, name):
    """The key is of the name alone, whatever else is in the file."""
    line = json.dumps(entity(name, "x")).encode("ascii")
    (key,) = readers.claims(graph(line))
    assert key[-9] == "-"
    assert key in readers.claims(graph(entity("other", "y"), line))


@pytest.mark.parametrize(("first", "second"), [("A b", "a_b"), ("a-b", "A-B"), ("a-b", "a b"), ("a\u202eb", "a b")])
def test_two_names_with_one_key_are_refused(graph, first, second):
    """No entity takes another's key, nor gives it one: names and lines of both are said, and nothing is read."""
    assert [*readers.claims(graph(entity(first, "1")))] == ["a-b"]
    for one, other in ((first, second), (second, first)):
        said = 'lines 2 and 3: the names "%s" and "%s" give one key, a-b' % (mcp.escape(one), mcp.escape(other))
        with pytest.raises(mcp.CannotRead, match=re.escape(said)):
            graph(entity("x", "0"), entity(one, "1"), entity(other, "2"))
    assert [*readers.claims(graph(entity(first, "1"), entity(first, "2")))] == ["a-b"]


def test_a_name_with_a_hash_and_one_that_is_it_are_refused(graph):
    """A name that is the hashed key of another cannot be told from it either."""
    (key,) = readers.claims(graph(entity("日本", "x")))
    with pytest.raises(mcp.CannotRead, match="lines 1 and 2: "):
        graph(entity(key, "x"), entity("日本", "y"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("sign", ["\n", "\x1b", "\u200e"])
def test_a_path_that_stands_in_no_line_is_refused(tmp_path, sign):
    """A store whose path the engine refuses is not read; the path is named, escaped."""
    path = tmp_path / ("me%smory.jsonl" % sign)
    path.write_text(json.dumps(entity("a", "x")), "utf-8")
    with pytest.raises(mcp.CannotRead, match=r"me\\u%04xmory" % ord(sign)):
        mcp.read(path)


def test_an_entity_without_observations_says_its_relation_or_its_name(graph):
    """The text is always something that the file says."""
    operations = graph(entity("a"), entity("b", ""), relation("b", "is", "c"))
    assert [claim["text"] for claim in readers.claims(operations).values()] == ["a", "b is c"]
    assert readers.receipt(operations, "converted") == ["line 3: b is c"]


def test_what_has_no_place_is_said(graph):
    """Lines of another type, names that the format has not, and relations of nobody are left; a doubled entity is joined."""
    operations = graph(entity("a", "1"), {**entity("a", "2", "1", kind="thing"), "mtime": 5}, {"type": "note", "x": 1},
                       relation("x", "y", "z"), relation("a", "r", "b"), relation("a", "r", "b"), entity("b", "x"))
    assert readers.receipt(operations, "left") == ["line 3: note", "entity.mtime of 1 lines", "line 4: x y z"]
    assert readers.receipt(operations, "converted") == ["line 2: entity a"]
    claim = readers.claims(operations)["a"]
    assert claim["tags"] == ["person", "thing"]
    assert claim["detail"].count("\n- 1\n- 2\n") == 1
    assert claim["detail"].count("r: b") == 1


def test_what_is_too_long_is_cut_and_said(graph):
    """A long observation begins in the text; a detail beyond 32 KiB names the kept file; more than 32 links are left."""
    names = ["n%02d" % n for n in range(40)]
    operations = graph(entity("big", "word " * 200, *("ü" * 5_000 + str(n) for n in range(5))), *(entity(n, n) for n in names),
                       *(relation("big", "has", n) for n in names))
    claim = readers.claims(operations)["big"]
    assert len(claim["text"]) <= 500
    assert "word " * 199 in claim["detail"]
    assert operations[0]["files"][0]["sha256"] in claim["detail"].splitlines()[-1]
    assert claim["links"] == names[:32]
    assert readers.receipt(operations, "converted") == ["entity big"] * 2
    assert len(readers.receipt(operations, "left")) == 1


def test_refused_characters_become_escapes(graph):
    """Nothing that the engine refuses is handed on."""
    operations = graph(entity("a", "x\u202ey\u0000", "\u200b"))
    claim = readers.claims(operations)["a"]
    assert claim["text"] == "x\\u202ey\\u0000"
    assert "- \\u200b" in claim["detail"]
    assert readers.receipt(operations, "converted") == ["entity a"]


def test_the_same_file_gives_the_same_and_a_changed_one_another_run(graph, tmp_path):
    """The label is of the bytes, the name of the place; blank lines and a byte order mark are no matter."""
    first = graph(entity("a", "x"))
    assert graph(entity("a", "x")) == first
    assert graph(entity("a", "y"))[1]["run"] != first[1]["run"]
    assert first[0]["name"] == first[0]["files"][0]["path"]
    assert readers.claims(graph(b"\xef\xbb\xbf", b"", json.dumps(entity("a", "x")).encode() + b"\r")).keys() == {"a"}
    link = tmp_path / "link"
    link.symlink_to(graph.path)
    assert mcp.read(link) == mcp.read(graph.path)


@pytest.mark.parametrize("line", [
    b"{",
    b"[]",
    b"5",
    b"{}",
    b'{"type":5}',
    b'{"type":"entity","name":"a","entityType":"t"}',
    b'{"type":"entity","name":5,"entityType":"t","observations":[]}',
    b'{"type":"entity","name":"a","entityType":"t","observations":[5]}',
    b'{"type":"entity","name":"a","name":"b","entityType":"t","observations":[]}',
    b'{"type":"relation","from":"a","to":null,"relationType":"t"}',
    b'{"type":"entity","name":"a","entityType":"t","observa',
    b"[" * 100_000,
    b"\xff",
])
def test_a_damaged_line_is_refused_with_its_number(graph, line):
    """Nothing is guessed and nothing is passed over: the server would drop the line and lose it with its next write."""
    with pytest.raises(mcp.CannotRead, match="line 2: "):
        graph(entity("a", "x"), line, entity("b", "y"))


@pytest.mark.parametrize("lines", [[], [relation("a", "b", "c")]])
def test_a_file_without_entities_is_refused(graph, lines):
    """There is nothing to import."""
    with pytest.raises(mcp.CannotRead, match="no entity"):
        graph(*lines)


TEXTS = st.text(st.characters(), max_size=8)


@given(st.lists(st.one_of(
    st.builds(lambda name, kind, said: entity(name, *said, kind=kind), TEXTS, TEXTS, st.lists(TEXTS, max_size=3)),
    st.builds(relation, TEXTS, TEXTS, TEXTS)), min_size=1, max_size=6))
def test_any_graph_is_read_or_refused(tmp_path_factory, lines):
    """Whatever names and observations hold, the engine takes what the reader makes of them."""
    path = tmp_path_factory.mktemp("any") / "memory.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    try:
        readers.check(mcp.read(path))
    except mcp.CannotRead as refused:
        assert "one key" in str(refused) or not any(line["type"] == "entity" for line in lines)  # noqa: PT017


def test_the_script_prints_lines_or_one_reason(graph):
    """Exit 0 with JSON Lines in UTF-8; 3 with the reason and nothing else."""

    def run(path):
        done = subprocess.run([sys.executable, str(readers.LEGACY / "mcp_jsonl.py"), str(path)], capture_output=True, check=False,
                              env={"PATH": "", "PYTHONUTF8": "0", "LC_ALL": "C", "SYSTEMROOT": "C:\\Windows"})
        return done.returncode, done.stdout, done.stderr

    operations = graph(entity("ü", "漢字"))
    status, out, err = run(graph.path)
    assert (status, err) == (0, b"")
    assert [json.loads(line) for line in out.decode("utf-8").splitlines()] == operations
    graph.path.write_bytes(b"{")
    assert run(graph.path)[:2] == (3, b"")
    assert run(graph.path.parent)[:2] == (3, b"")
    assert run(graph.path.parent / "nothing")[:2] == (3, b"")
