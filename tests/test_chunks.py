"""Chunks and terms: every line of a file is in one chunk or says nothing, views come back as claimed, no question is an error.

The structure of a Markdown text is read here once more, by hand: a heading is a line of marks, a fence runs to its end, what is
left are paragraphs. Views are rendered from real records, and what is read of them is compared with the records.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
import subprocess
import sys
import unicodedata

import pytest

pytest.importorskip("hypothesis")
import replicas
import test_views
from hypothesis import example, given, settings
from hypothesis import strategies as st

import engine

OWNER = {"source": "user", "trust": "confirmed"}
MOST = engine.CHUNK_CHARS_MAX


def teardown_module():
    """Close what the last test opened."""
    replicas.close_last()


# -- what a Markdown text is made of --

def heading_of(line):
    """Return the level of a heading, or 0."""
    bare = line.lstrip(" ")
    marks = len(bare) - len(bare.lstrip("#"))
    return marks if len(line) - len(bare) <= 3 and 1 <= marks <= 6 and bare[marks:marks + 1] in ("", " ", "\t") else 0


def title_of(line):
    """Return what a heading says, without the marks before it and those after it."""
    words = line.strip(" \t").lstrip("#").strip(" \t")
    bare = words.rstrip("#")
    return bare.rstrip(" \t") if not bare or bare[-1] in " \t" else words


def fence_of(line):
    """Return the marks that open a fence, perhaps as the first thing of a list's items, or None."""
    bare = line.lstrip(" \t")
    while re.match(r"([-*+]|[0-9]{1,9}[.)])[ \t]", bare):
        bare = bare.split(bare[1] if bare[0] in "-*+" else re.search("[ \t]", bare).group(), 1)[1].lstrip(" \t")
    mark = bare[:1]
    size = len(bare) - len(bare.lstrip(mark)) if mark and mark in "`~" else 0
    return mark * size if size >= 3 and not (mark == "`" and "`" in bare[size:]) else None


def read_roles(lines):
    """Return (role, unit, trail) of each line: blank and heading of no unit, the lines of a fence or paragraph of one number."""
    roles, trail, fence, unit = [], [], None, 0
    for line in lines:
        if fence:
            roles.append(("fence", unit, roles[-1][2]))
            end = line.strip(" \t")
            fence = None if end and end.strip(fence[0]) == "" and len(end) >= len(fence) else fence
            continue
        level, fence, before = heading_of(line), None, roles[-1][0] if roles else ""
        if level:
            trail = [t for t in trail if t[0] < level] + [(level, title_of(line))]
            roles.append(("heading", None, None))
            continue
        fence = fence_of(line)
        role = "fence" if fence else "text" if line.strip() else "blank"
        unit += role == "fence" or (role == "text" and before != "text")
        roles.append((role, None if role == "blank" else unit, " > ".join(title for _, title in trail if title)))
    return roles


def check_chunks(lines, chunks):
    """Assert that chunks hold each line that says something once, whole, under its headings, and as it stands; return the roles."""
    roles = read_roles(lines)
    units = {unit: [n for n, r in enumerate(roles, 1) if r[1] == unit] for _, unit, _ in roles if unit}
    texts = {unit: "\n".join(lines[n - 1] for n in numbers) for unit, numbers in units.items()}
    split = {unit for unit, numbers in units.items() if roles[numbers[0] - 1][0] == "text" and len(texts[unit]) > MOST}
    held = [0] * (len(lines) + 1)
    place = dict.fromkeys(split, 0)
    for chunk in chunks:
        own = roles[chunk.first - 1:chunk.last]
        assert 1 <= chunk.first <= chunk.last <= len(lines)
        assert "heading" not in {role for role, _, _ in own}
        assert own[0][0] != "blank"
        assert own[-1][0] != "blank"
        assert chunk.trail == own[0][2]
        assert chunk.text.strip()
        if own[0][1] in split:
            place[own[0][1]] = check_piece(chunk, units[own[0][1]][0], texts[own[0][1]], place[own[0][1]])
            continue
        assert chunk.text == "\n".join(lines[chunk.first - 1:chunk.last])
        says = sum(len(line) + 1 for line in lines[chunk.first - 1:chunk.last] if line.strip()) - 1
        assert says <= MOST or {unit for _, unit, _ in own if unit} == {own[0][1]}
        for n in range(chunk.first, chunk.last + 1):
            held[n] += 1
    assert all(held[n] == (unit not in split) for n, (_, unit, _) in enumerate(roles, 1) if unit)
    assert not [unit for unit in split if texts[unit][place[unit]:].strip()]
    assert [(c.first, c.last) for c in chunks] == sorted((c.first, c.last) for c in chunks)
    return roles


def check_piece(chunk, first, text, start):
    """Assert that a chunk is the next piece of a paragraph, nothing but space left out before it; return where it ends."""
    at = text.index(chunk.text, start)
    assert text[start:at].strip() == ""
    assert 0 < len(chunk.text) <= MOST
    assert chunk.first == first + text.count("\n", 0, at)
    assert chunk.last == chunk.first + chunk.text.count("\n")
    return at + len(chunk.text)


#: What Markdown reads as more than text, and what only looks like that.
PIECES = (
    "", "", "", " ", "\t", "# a", "## b", "### c ##", "###### d", "#", "##  ", "   # e", "    # f", "\t# g", "####### h", "#i", "\\# j",
    "# k > l", "#\tm", "- # n", "> # o", "```", "```", "````", "`````", "```py", "  ```", "\t```", "~~~", "~~~", "~~~~ x `y`", "``` x`y",
    "```x``` y", "``", "- ```", "1. ```sh", "  - ~~~", "- - ```", "* * *", "- -", "-", "> ```", "---", "===", "...", "word",
    "One. Two! Three?", "- item", "1. item", "| a | b |", "[[link]]", "<!-- x", "-->", "$$", "%%", "a b " * 90,
    "\u65e5\u672c\u8a9e\u306e\u6587\u3002", "x" * 700, "\u00a0", "\x0c", "a\x0bb", "\u2028", "\x00", "\ufeff", "tail  ")
LINES = st.lists(st.sampled_from(PIECES), max_size=30)


@settings(max_examples=400)
@given(LINES)
def test_every_line_is_in_one_chunk(lines):
    """Each line but blank ones between and headings is in exactly one chunk, as it stands; fences stay whole, headings divide."""
    check_chunks(lines, engine.chunk_markdown(lines))


@settings(max_examples=100)
@given(st.text(st.sampled_from("#`~- \t\nab.\u3002"), max_size=80))
def test_every_line_is_in_one_chunk_of_any_characters(text):
    """The same holds where marks, spaces and letters stand in any order."""
    check_chunks(text.split("\n"), engine.chunk_markdown(text.split("\n")))


@settings(max_examples=60)
@given(st.lists(st.sampled_from((
    "Some words. ", "What? ", "\u3053\u308c\u306f\u6587\u3067\u3059\u3002", "\u300c\u305d\u3046\uff01\u300d", "x" * 900, " " * 500, "\n",
    ".\n", "\u3002\n",
    "a " * 300, 'said." ')), min_size=1, max_size=120).map("".join))
@example("\u3042\u3002\n" * 1500)
@example("x" * 2399 + "\u3002\n" + "y" * 9)
@example("a." + " " * 9000 + "b")
@example("x" * 9000)
def test_long_paragraphs_are_split_and_lose_nothing(text):
    """The pieces of a long paragraph are at most 2,400 characters, in order, on the right lines, and nothing but space is between them."""
    lines = ["# T", "", *text.split("\n"), "", "end"]
    check_chunks(lines, engine.chunk_markdown(lines))


@pytest.mark.parametrize("sentence", [
    "Each of these says something of its own. ", "Is it so? ", 'He said "no." ', "It was (so it seems.) ",
    "\u8fd9\u662f\u4e00\u4e2a\u53e5\u5b50\u3002", "\u672c\u5f53\uff01", "\u300c\u305d\u3046\u3067\u3059\u3002\u300d",
    "\uadf8\uac83\uc740 \ubb38\uc7a5\uc785\ub2c8\ub2e4. ", "One line.\n"])
def test_long_paragraphs_are_split_at_sentences(sentence):
    """Each piece ends where a sentence does, its closing quotation marks with it; joined they are the text."""
    text = (sentence * (6000 // len(sentence))).strip()
    pieces = [chunk.text for chunk in engine.chunk_markdown(text.split("\n"))]
    assert len(pieces) >= 3
    assert all(piece.rstrip().endswith(sentence.rstrip()) for piece in pieces)
    assert ("\n" if "\n" in sentence else "").join(pieces) == text
    assert all(len(piece) > MOST // 2 for piece in pieces[:-1])


def test_a_text_without_any_space_is_split_anywhere():
    """What has neither sentence nor space is cut at the limit, and joined it is the text; what fits is one piece."""
    for text in ("\u6f22" * 6001, "0123456789" * 500, "ab-" * 1700):
        chunks = engine.chunk_markdown([text])
        assert "".join(chunk.text for chunk in chunks) == text
        assert {len(chunk.text) for chunk in chunks[:-1]} == {MOST}
        assert {(chunk.first, chunk.last) for chunk in chunks} == {(1, 1)}
    assert [chunk.text for chunk in engine.chunk_markdown(["x" * MOST])] == ["x" * MOST]


FENCED = (
    "```\n# a\n```", "~~~ py\n# a\n\n\n# b\n~~~", "````\n```\n# a\n```\n````", "~~~\n```\n# a\n~~~", "- item\n  ```\n  # a\n  ```",
    "- ```sh\n  # a\n  ```", "1. x\n   - ~~~\n     # a\n     ~~~", "```\n# a", "```\n" + "# a\n\n" * 2000 + "```", "```\n```",
    "~~~~\n~~~\n# a\n~~~~~")


@pytest.mark.parametrize("fenced", FENCED)
def test_a_fence_is_whole_and_its_headings_are_text(fenced):
    """A fence is in one chunk from its first to its last line; what looks like a heading in it is none."""
    lines = ["# T", "before", *fenced.split("\n")]
    closed = fenced != "```\n# a"
    chunks = engine.chunk_markdown([*lines, "# U", "after"])
    start = next(n for n, line in enumerate(lines) if "```" in line or "~~~" in line)
    whole = "\n".join(lines[start:])
    assert [whole in chunk.text for chunk in chunks].count(True) == 1
    assert [chunk.trail for chunk in chunks if whole in chunk.text] == ["T"]
    assert (chunks[-1].text, chunks[-1].trail) == (("after", "U") if closed else (chunks[-1].text, "T"))


@pytest.mark.parametrize("line", ["```x``` is code", "``` a`b", "``x", "`` ` ``", "\\```", "x ```"])
def test_code_within_a_line_opens_no_fence(line):
    """Backticks that end on their line, or follow something, are text: what comes after is read as it is."""
    assert [(c.trail, c.text) for c in engine.chunk_markdown([line, "# H", "y"])] == [("", line), ("H", "y")]


@pytest.mark.parametrize(("line", "title"), [
    ("# a", "a"), ("#\ta", "a"), ("   ## a  ", "a"), ("# a #", "a"), ("## a ## ", "a"), ("# a#", "a#"), ("# a #b", "a #b"), ("#", ""),
    ("# #", ""), ("###### ######", ""), ("# [[x|y]] `z`", "[[x|y]] `z`"), ("# \\#", "\\#"), ("#a", None), ("####### a", None),
    ("    # a", None), ("\\# a", None), ("> # a", None), ("\u00a0# a", None)])
def test_headings(line, title):
    """A heading is one to six marks with a space or nothing after them, at most three spaces in; marks that end it are not of it."""
    chunks = engine.chunk_markdown([line, "x"])
    assert [(c.first, c.trail, c.text) for c in chunks] == ([(1, "", line + "\nx")] if title is None else [(2, title, "x")])


def test_trail():
    """The trail names the headings above a chunk, from the outermost; one of the same level or above ends those before it."""
    lines = "x\n# A\na\n### C\nc\n## B\nb\n### D\n#\ny\n## E\nz".split("\n")
    assert [(c.text, c.trail) for c in engine.chunk_markdown(lines)] == [
        ("x", ""), ("a", "A"), ("c", "A > C"), ("b", "A > B"), ("y", ""), ("z", "E")]


@pytest.mark.parametrize("text",
    ["", "\n", "# a", "# a\n", "# a\n\n## b\n \n# c\n", "---\na: b\n---\n", "---\na: b\n---\n# c\n\t\n", "\n\n\u00a0\n"])
def test_a_heading_with_nothing_under_it_is_in_no_chunk(text):
    """What has only headings, properties and blank lines has no chunk."""
    assert engine.read_page("x.md", text, None).chunks == []


def test_paragraphs_are_merged_until_they_are_worth_a_vector():
    """Short paragraphs under one heading become one chunk, of some hundred characters, with the blank lines between them."""
    lines = ["# T", *itertools.chain.from_iterable(("word " * 20, "") for _ in range(60))]
    chunks = engine.chunk_markdown(lines)
    check_chunks(lines, chunks)
    assert all(800 <= len(chunk.text) <= MOST for chunk in chunks[:-1])
    assert len(engine.chunk_markdown(["a", "", "b", "", "```", "c", "```", "d"])) == 1
    for size in (MOST - 4, MOST - 3, MOST - 2, MOST - 1, MOST):
        chunks = engine.chunk_markdown(["a", "", "b" * size])
        assert max(len(chunk.text) for chunk in chunks) <= MOST


# -- a page, and its properties --

@settings(max_examples=150)
@given(LINES, st.sampled_from(((), ("---", "a: b", "tags: [x]", "---"), ("---", "---"), ("---", "no property", "---"), ("---", "a: b"))))
def test_a_page_has_the_same_chunks_however_its_lines_end(lines, above):
    """CRLF and a missing last newline change nothing; the properties are in no chunk, and broken ones are text with a fault."""
    lines = [*above, *(lines or [""]), "end"]
    page = engine.read_page("x.md", "\n".join(lines), None)
    assert engine.read_page("x.md", "\n".join(lines) + "\n", None) == page
    assert engine.read_page("x.md", "\r\n".join(lines) + "\r\n", None) == page
    properties, taken, fault = engine.parse_properties(lines)
    assert (page.properties, page.fault) == (properties, fault)
    assert fault is None or (taken, properties) == (0, {})
    assert taken == 0 or (lines[0] == "---" and lines[taken - 1] in ("---", "..."))
    check_chunks(["", *[""] * (taken - 1), *lines[taken:]] if taken else lines, page.chunks)


@pytest.mark.parametrize(("text", "properties", "taken", "is_sound"), [
    ("x", {}, 0, True), ("---", {}, 0, True), ("---\n---", {}, 2, True), ("--- \na: 1\n---\t\nb", {"a": "1"}, 3, True),
    ("---\na: 1\n...\nb", {"a": "1"}, 3, True), ("---\na: 1\n---\n---\nb: 2\n---", {"a": "1"}, 3, True), ("x\n---\na: 1\n---", {}, 0, True),
    ("----\na: 1\n----", {}, 0, True), (" ---\na: 1\n---", {}, 0, True), ("---\na: 1", {}, 0, False), ("---\n\nprose", {}, 0, True),
    ("---\n- a\n---", {}, 0, False), ("---\na:1\n---", {}, 0, False), ("---\na: 1\nprose\n---", {}, 0, False),
    ("---\n  a: 1\n---", {}, 0, False), ("---\n# note\na: 1\n\nb: 2\n---", {"a": "1", "b": "2"}, 6, True)])
def test_properties_are_taken_or_are_text(text, properties, taken, is_sound):
    """Only a block that opens the file, is closed and holds nothing but properties is taken; else it is text, with a fault."""
    found = engine.parse_properties(text.split("\n"))
    assert found[:2] == (properties, taken)
    assert (found[2] is None) == is_sound
    if not taken:
        assert "\n".join(c.text for c in engine.read_page("x.md", text, None).chunks) == text


@pytest.mark.parametrize(("said", "value"), [
    ("a:", ""), ("a: b c", "b c"), ("a:   b  ", "b"), ("a:\tb", "b"), ("a: http://x:8/y", "http://x:8/y"), ("a: 12:30", "12:30"),
    ("a: b: c", "b: c"), ('a: "b: c"', "b: c"), ('a: "b \\"c\\" \\u00e9"', 'b "c" \u00e9'), ("a: 'b'", "b"), ("a: 'it''s'", "it's"),
    ('a: "', '"'), ("a: '", "'"), ('a: ""', ""), ('a: "b" "c"', 'b" "c'), ("a: true", "true"), ("a: 2026-01-02", "2026-01-02"),
    ("a: [b, c]", ["b", "c"]), ("a: []", []), ("a: [b]", ["b"]), ("a: ['b', \"c\"]", ["b", "c"]), ('a: ["b, c", d]', ["b, c", "d"]),
    ("a: [b, c,]", ["b", "c"]), ("a: [b, c]  # d", ["b", "c"]), ("a:\n  - b\n  - c", ["b", "c"]), ("a:\n- b\n- c", ["b", "c"]),
    ("a:\n  - 'b'\n  - \"c: d\"", ["b", "c: d"]), ("a:\n  - b\n  # c\n  - d", ["b", "d"]), ("a:\n  - b\n  \n\n  - d", ["b", "d"]),
    ("a:\n  - b\n    c", ["b c"]), ("a:\n  - n: b\n    m: c\n  - n: d", ["n: b m: c", "n: d"]), ("a: b\n  c\n\td", "b c d"),
    ("a:\n  n: b\n  m: c", "n: b m: c"), ("a: |\n  b\n  c", "b c"), ("a: >-\n  b\n\n  c", "b c"), ("a: {b: c}", "{b: c}")])
def test_values_of_properties(said, value):
    """A value is text without its quotes, or a list of texts in brackets or by hyphens; what is nested stays as it is written."""
    lines = ["---", *said.split("\n"), "z: end", "---"]
    assert engine.parse_properties(lines) == ({"a": value, "z": "end"}, len(lines), None)


YAML = (
    "a:", "b: c", "tags: [a, b", "tags: [a, [b, c], d]", "t: [[x]]", "e: [", "e: ]", 'f: "g', 'f: "\\ud800"', 'f: "\\u0000"', "f: 'g",
    "  h: i", "- j", "  - k", "  - [l, m]", "   n", "# o", "  # p", "", "  ", "q: |", 'r: ["s, t", u]', 'v: ["w, x]', "-", "  -", "y: - z",
    '"k": v', "? k", 't: "a" "b"')


@settings(max_examples=300)
@given(st.lists(st.sampled_from(YAML), max_size=8), st.sampled_from(("", "---")))
def test_any_properties_are_text_or_lists_of_texts(lines, end):
    """Whatever stands there, a value is text or a flat list of texts, all of it can be stored, and it says nothing that is not there."""
    lines = ["---", *lines, end, "body"]
    page = engine.read_page("x.md", "\n".join(lines), None)
    for value in page.properties.values():
        assert isinstance(value, (str, list))
        for text in value if isinstance(value, list) else [value]:
            assert isinstance(text, str)
            assert text.encode("utf-8")[:0] == b""
            assert set(text) <= {*"\n".join(lines), " ", "\x00"}
    assert page.title.encode("utf-8")
    assert all(tag and tag.encode("utf-8") for tag in page.tags)
    assert page.chunks[-1].text.endswith("body")


@pytest.mark.parametrize("depth", [10, 100_000])
def test_brackets_of_any_depth(depth):
    """A list in lists, however deep, is a value like another."""
    value = engine.parse_properties(["---", "a: " + "[" * depth + "b" + "]" * depth, "---"])[0]["a"]
    assert all(isinstance(item, str) for item in value)
    assert "b" in "".join(value)


@pytest.mark.parametrize(("text", "tags"), [
    ("---\ntags: [A, b/c]\n---", "a b/c"), ('---\ntags:\n  - a\n  - "b"\n---', "a b"), ("---\ntags: a, b c\n---", "a b c"),
    ("---\ntags: '#a, #b'\n---", "a b"), ("---\ntag: a\n---\nx #b", "a b"), ("---\ntags:\n---\n#b", "b"), ("---\ntags: '#'\n---", ""),
    ("---\ntags: [a, '#']\n---", "a"), ("x #a, #B-1/\u00e9 (y) #c.", "a b-1/\u00e9 c"), ("a#b x#y &#35; [[n#h]] https://x.y/#z", ""),
    ("#1984 #y1984 ## #-a #", "y1984"), ("- #a\n> #b\n| #c |", "a b c"), ("#\u6f22\u5b57 #\uce74", "\u6f22\u5b57 \uce74"),
    ("# T #a\n\nx\n\n## #b\n", ""), ("```\n#include <a>\n#a\n```\nx #b", "b"), ("- ~~~\n  #a\n  ~~~", ""), ("```\n#a", ""),
    ("`#a` `x #b y` #c", "c"), ("#a #A #a", "a"), ("---\nbroken\n---\n#a", "a")])
def test_tags(text, tags):
    """Tags come from the properties and from words after a mark in paragraphs: not from headings, fences, code, links or numbers."""
    assert engine.read_page("x.md", text, None).tags == sorted(tags.split())


@pytest.mark.parametrize(("text", "title"), [
    ("x", "a b"), ("", "a b"), ("# T\n\nx", "T"), ("# T #\n\nx", "T"), ("## T\nx\n# U\ny", "T"), ("# A > B\n\nx", "A > B"),
    ("# A\n## B\n\nx", "A"), ("---\ntitle: P\n---\n# T\n\nx", "P"), ('---\ntitle: "P: q"\n---\nx', "P: q"),
    ("---\ntitle:\n---\n# T\nx", "T"), ("---\ntitle: 7\n---\nx", "7"), ("#\n\nx", "a b")])
def test_title(text, title):
    """A page is called what its properties say, else as the heading that it opens with, else as its file."""
    assert engine.read_page("f/a b.md", text, None).title == title


@pytest.mark.parametrize("text", [
    "# " + "a" * 50_000 + "\n" + "x\n## b\n" * 500, "# a\n" + "## %s\nx\n" % ("b " * 500) * 90,
    "---\ntitle: " + "a" * 50_000 + "\n---\n" + "# b\nx\n" * 500,
    "---\ntags: [" + ", ".join(map("t{}".format, range(9000))) + "]\n---\n" + "# b\nx\n" * 500,
    "# a\n\n" + "".join(map("#t{} ".format, range(20_000))), "---\ntags: %s\n---\n" % ("a" * 50_000) + "# b\nx\n" * 500])
def test_what_each_chunk_repeats_is_bounded(text):
    """Headings, title and tags stand in each chunk's record: however long they are, all chunks together stay near the file's size."""
    page = engine.read_page("x.md", text, None)
    repeated = sum(len(page.title) + len(chunk.trail) + sum(map(len, page.tags)) for chunk in page.chunks)
    assert repeated <= 30 * len(text)
    assert "".join(chunk.text for chunk in page.chunks).count("x") == text.count("x")


@pytest.mark.parametrize(("said", "day"), [
    ("date: 2026-01-02", "2026-01-02"), ('date: "2026-01-02T10:00:00Z"', "2026-01-02"), ("created: 2026-01-02", "2026-01-02"),
    ("date: 2026-02-30", None), ("date: soon\nupdated: 2026-01-03", "2026-01-03"),
    ("created: 2026-01-01\nmodified: 2026-01-04", "2026-01-04"), ("date: [2026-01-02]", None), ("x: y", None)])
def test_day_of_a_page(said, day):
    """A chunk has the day that the properties name: the date, else the last change, else the making."""
    chunks = engine.read_page("x.md", "---\n%s\n---\n# T\nx\n# U\ny" % said, None).chunks
    assert [(c.kind, c.at) for c in chunks] == [("free", day)] * 2


def make_index(folder, files):
    """Return the rows of an index in memory over a folder with some files."""
    for path, data in files.items():
        place = folder.joinpath(*path.split("/"))
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
    (folder / ".muniment").mkdir(exist_ok=True)
    index = engine.Index(":memory:")
    engine.sweep(index, str(folder), engine.Vault(str(folder), replicas.VAULT), replicas.START_MS, lambda *_: None)
    rows = index.dicts("SELECT f.path, f.fault, f.tags, c.* FROM file f LEFT JOIN chunk c ON c.file=f.id ORDER BY f.path, c.id")
    index.close()
    return rows


def test_indexed_files(tmp_path):
    """A byte order mark, CRLF and no last newline are no part of the text; what JSON may quote but UTF-8 cannot hold is no error."""
    rows = make_index(tmp_path, {
        "bom.md": b"\xef\xbb\xbf---\r\ntitle: T\r\ntags: [a]\r\n---\r\n\r\none\r\ntwo", "empty.md": b"", "mark.md": b"\xef\xbb\xbf",
        "half.md": b'---\ntitle: "\\ud800"\ntags: ["\\udfff", "\\u0000"]\n---\nx', "late.md": b"x\n\xef\xbb\xbf---\na: b\n---\n"})
    assert [(row["path"], row["first"], row["last"], row["text"]) for row in rows] == [
        ("bom.md", 6, 7, "one\ntwo"), ("empty.md", None, None, None), ("half.md", 5, 5, "x"), ("late.md", 1, 4, "x\n\ufeff---\na: b\n---"),
        ("mark.md", None, None, None)]
    assert (rows[0]["title"], rows[0]["tags"].split()) == ("T", ["a"])


# -- views --

KINDS = {"notes": "note", "history": "history", "journal": "journal", "conflicts": "conflict"}


def said_of(state, claim, falsifier=None, whole=False):
    """Return what a view quotes of a claim: its text and grounds, its detail unless one that it had seen was the same."""
    value, grounds = state.body(claim.id)["value"], engine.grounds_of(state, claim)
    seen = [] if whole else [state.body(base)["value"].get("detail") for base in claim.base if state.find_claim(base)]
    detail = value.get("detail")
    parts = [value["text"] if claim.op == "set" else "(closed)", None if detail in seen else detail, falsifier, grounds.get("why"),
             state.body(claim.id).get("note"), evidence_of(state, grounds.get("evidence", []))]
    return "\n\n".join(part for part in parts if part)


def evidence_of(state, items):
    """Return what a view quotes of evidence; an entry of a run is a link, which says nothing itself."""
    lines = []
    for item in items:
        if isinstance(item, dict):
            lines += ["- exit %d on %s: %s" % (item["exit"], item["date"], item["command"]),
                *(["  " + item["note"]] if "note" in item else [])]
        elif not (engine.is_id(item, "E") and state.run_of_entry(item)):
            lines.append("- " + item)
    return "\n".join(lines)


def standing(state, claims):
    """Return what is to be read of claims that stand beside each other."""
    return [(c.id, None, (c.made or c.at)[:10], c.source, c.trust, None, said_of(state, c)) for c in claims]


def read_note(state, key, _):
    """Return (ref, outside, at, source, trust, actor, text) of what a note says."""
    subject = state.subject(key)
    claim = subject.current
    said = said_of(state, claim, state.body(claim.id)["value"].get("falsifier"), whole=True)
    own = [] if said == "(closed)" else [(claim.id, None, claim.made[:10], claim.source, claim.trust, None, said)]
    return own + standing(state, subject.contenders() + subject.outranked())


def read_history(state, key, page):
    """Return the same of a page of earlier generations."""
    made = [(c, said_of(state, c)) for c in state.history(key, page)]
    return [(c.id, None, c.made, c.source, c.trust, None, said) for c, said in made if said != "(closed)"]


def read_journal(state, run, page):
    """Return the same of a page of entries, and of how the run ended."""
    about, ending = state.find_run(run), state.ending(run)
    actor = about["actor"] if page == 1 else None  # the pages after the first do not say it
    summary = [(run, None, ending["at"], None, None, actor, ending["summary"])] if ending and page == 1 else []
    return summary + [(e["id"], e["ref"], e["at"], None, None, actor, e["text"]) for e in state.entries(run, page)]


def read_card(state, key, page):
    """Return the same of a page of answers, with what they replaced, and of the open question."""
    subject, door = state.subject(key), state.door(key)
    found = standing(state, [subject.current, *subject.contenders()]) if page == 1 and door and door["handle"] else []
    for answer in state.answers(key, page):
        body = answer["body"]
        text = body["value"]["text"] if body.get("value", {}).get("op") == "set" else None
        parts = [part for part in (text, body.get("note"), evidence_of(state, body.get("evidence", []))) if part]
        found += [(answer["id"], None, answer["at"], None, None, None, "\n\n".join(parts))] if parts else []
        others = [c for c in map(state.find_claim, body["parents"]) if c and c.id not in (body.get("chosen"), body.get("proposal"))]
        found += standing(state, others)
    return found


READERS = {"notes": read_note, "history": read_history, "journal": read_journal, "conflicts": read_card}


def check_view(state, path, text):
    """Assert that the chunks of a view are what its records say: of each thing one, or pieces of a long one; return its page."""
    folder, name = path[:-3].split("/")
    name, _, number = name.partition("_")
    page = engine.read_page(path, text, KINDS[folder])
    assert page.fault is None
    key = None if folder == "journal" else name
    found = []
    for (ref, _), chunks in ((g, list(c)) for g, c in itertools.groupby(page.chunks, lambda c: (c.ref, c.first))):
        found.append((ref, *chunks[0][7:], "".join(c.text for c in chunks)))
        assert all(c[7:] == chunks[0][7:] for c in chunks)
        assert len(chunks) == 1 or all(len(c.text) <= MOST for c in chunks)
    wanted = READERS[folder](state, name, int(number or 1))
    assert found == [(*about, said.strip("\n")) for *about, said in wanted]
    assert {c.key for c in page.chunks} <= {key}
    beside = "conflict" if folder == "notes" else KINDS[folder]
    current = state.subject(name).current.id if folder == "notes" else None
    assert all(c.kind == (KINDS[folder] if c.ref == current else beside) for c in page.chunks)
    check_places(text, page.chunks)
    return page


def check_places(text, chunks):
    """Assert that the lines of each chunk are those that quote it, that no two share one, and that the seal is in none."""
    lines = text.split("\n")[:-1]
    spans = sorted({(c.first, c.last) for c in chunks})
    assert all(1 <= first <= last < len(lines) for first, last in spans)
    assert all(one[1] < other[0] for one, other in zip(spans, spans[1:]))
    for chunk in chunks:
        own = [line for line in lines[chunk.first - 1:chunk.last] if line.startswith(">") and not line.startswith("> - [[journal/")]
        quoted = "\n".join(engine.unescape(line[2:]) for line in own)
        assert re.sub(r"\n+", "\n", chunk.text).strip("\n") in re.sub(r"\n+", "\n", quoted)


@settings(max_examples=30)
@given(test_views.FIELDS)
def test_views_come_back_as_they_were_claimed(said):
    """Each fact, generation, entry, answer and value beside is one chunk that says whose and of when it is, its text as claimed."""
    said = {name: text.strip("\n") for name, text in said.items()}
    replica = test_views.live(said)
    shown = {path: text for path, text in replica.files.items() if "/" in path}
    assert {path.split("/")[0] for path in shown} == set(READERS)
    for path, text in shown.items():
        page = check_view(replica.state, path, text)
        assert page.tags == (["a/b", "c"] if path.startswith("notes/") else [])


HOSTILE = (
    "# x", "> y", "```", "~~~", "[[z]]", "## E1-k7qdm2xw", "## 2026-01-01T00:00:00.000Z P1-kkkkkkkk", "P1-kkkkkkkk:",
    "P1-kkkkkkkk (current):", "Instead of P1-kkkkkkkk:", "## Beside it", "## Open: C-abcdef", "agent/working, run x, 2026-01-01.",
    "2026-01-01T00:00:00.000Z, importance 3, ref x", "- [[journal/R1-kkkkkkkk#E1-kkkkkkkk|E1-kkkkkkkk]]",
    "Actor x, opened 2026-01-01T00:00:00.000Z.", "---", 'key: "b"', "<!-- muniment view sha256:%s -->" % ("0" * 64), "\\", "\\[", "\\\\<b>",
    "%%x%%", "#tag", "^id", "  indented  ", "\ttab", "(closed) ", "\u3000")


@pytest.mark.parametrize("line", HOSTILE)
def test_a_line_that_looks_like_a_views_own_is_text(line):
    """In text, detail, reason, entry and summary, alone or between empty lines, it comes back and makes nothing of itself."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    block = "a\n\n%s\n\n\n%s\nz" % (line, line)
    text = line if engine.is_line(line) else "a" + line.replace("\t", " ")
    replica.call("journal", run=run, text=block, importance=None, ref=None)
    for say in (text, text + " 2"):
        replica.propose(run, "a.b", say, tier=1, new_subject=say == text, detail=block + say, why=text, now=True, evidence=["https://x.y"],
            **OWNER)
    replica.call("close", run=run, outcome="success", summary=block)
    pages = [check_view(replica.state, path, shown) for path, shown in sorted(replica.files.items()) if "/" in path]
    assert [[chunk.kind for chunk in page.chunks] for page in pages] == [["history"], ["journal", "journal"], ["note"]]


def test_empty_lines_at_the_edges_are_left_out():
    """Empty lines before and after a text say nothing; those within it stay."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    replica.call("journal", run=run, text="\n\n a\n\n\nb \n\n", importance=None, ref=None)
    replica.propose(run, "a.b", "t", tier=1, new_subject=True, detail="\n\nd\n\n\ne\n\n", why="w", now=True, evidence=["https://x.y"],
        **OWNER)
    entry, fact = (engine.read_page(path, replica.files[path], kind).chunks for path,
        kind in (("journal/%s.md" % run, "journal"), ("notes/a.b.md", "note")))
    assert [chunk.text for chunk in entry] == [" a\n\n\nb "]
    assert re.fullmatch("t\n+d\n\n\ne\n+w\n\n- https://x.y", fact[0].text)


def test_a_close_without_a_reason_says_nothing():
    """It is in no chunk; an entry with the words that stand for a close is one like another."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    replica.call("journal", run=run, text="(closed)", importance=None, ref=None)
    replica.propose(run, "a.b", "x", tier=2, new_subject=True, now=True)
    replica.propose(run, "a.b", None, op="close", now=True)
    shown = {path: check_view(replica.state, path, text).chunks for path, text in replica.files.items() if "/" in path}
    assert {path: [chunk.text for chunk in chunks] for path, chunks in shown.items()} == {
        "history/a.b.md": ["x"], "journal/%s.md" % run: ["(closed)"]}


@pytest.mark.parametrize("ref", ["log-1", "a\u00a0b", "\u3000", "[[x|y]]", "#1,", "x,\u3000ref", "E1-short"])
def test_refs_come_back(ref):
    """An entry's outside id is found as it was given, whatever characters it has."""
    assert engine.is_ref(ref) == bool(ref.strip())
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    replica.call("journal", run=run, text="x", importance=5, ref=ref if ref.strip() else "a" + ref)
    check_view(replica.state, "journal/%s.md" % run, replica.files["journal/%s.md" % run])


@pytest.mark.parametrize("line", ["> y. ", "\u6f22\u3002", *(pytest.param(slow, marks=pytest.mark.long) for slow in ("```\n\n", "[["))])
def test_a_detail_of_32_kib(line):
    """A fact with the longest detail is pieces that, joined, are what was proposed: in its note, its history and its card."""
    replica = replicas.World(1, shown=True).replicas[0]
    first, second = replica.start("codex"), replica.start("claude")
    details = [(mark + line * 32_768)[:(32_768 - 1) // len(line.encode("utf-8")) * len(line)].strip("\n") for mark in "abc"]
    replica.propose(first, "a.b", "0", tier=2, new_subject=True, detail=details[0], now=True)
    replica.sync(second)
    for run, detail in zip((first, second), details[1:]):
        replica.propose(run, "a.b", "say " + detail[0], detail=detail)
    replica.sync(first)
    replica.sync(second)
    shown = {path: text for path, text in replica.files.items() if path.endswith("/a.b.md")}
    assert len(shown) == 3
    for path, text in shown.items():
        page = check_view(replica.state, path, text)
        assert len(page.chunks) > len(details[0]) // MOST
    assert details[0] in "".join(c.text for c in engine.read_page("history/a.b.md", shown["history/a.b.md"], "history").chunks)


@pytest.fixture(scope="module")
def pages():
    """Return a replica with a journal and a history of two pages each."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    lines = ['{"do":"journal","text":"entry %d","ref":"r-%d"}' % (n, n) for n in range(203)]
    lines += ['{"do":"propose","key":"a.b","tier":2,"new_subject":%s,"text":"value %d"}\n{"do":"sync"}' % ("false" if n else "true",
        n) for n in range(203)]
    replica.call("apply", run=run, lines="\n".join(lines).split("\n"))
    files = {path: text for path, text in replica.files.items() if "/" in path}
    checked = {path: check_view(replica.state, path, text) for path, text in files.items()}
    return run, files, checked


def test_two_pages(pages):
    """The second page of a journal or history is read as the first: its items, and the key that they are of."""
    run, files, checked = pages
    assert sorted(files) == ["history/a.b.md", "history/a.b_2.md", "journal/%s.md" % run, "journal/%s_2.md" % run, "notes/a.b.md"]
    assert [len(checked[path].chunks) for path in sorted(files)] == [200, 2, 200, 3, 1]
    assert {checked[path].title for path in files if path.startswith("history/")} == {"a.b"}


def test_the_second_page_of_a_journal_is_its_actors(pages, tmp_path):
    """In the index an entry has its run's actor, on whatever page it stands."""
    _, files, _ = pages
    rows = make_index(tmp_path, {path: text.encode("utf-8") for path, text in files.items()})
    entries = [row for row in rows if row["kind"] == "journal"]
    assert [row["outside"] for row in entries] == ["r-%d" % n for n in range(203)]
    assert {row["actor"] for row in entries} == {"codex"}


def test_a_view_that_was_edited_is_a_free_page(tmp_path):
    """A file in a view's place without its seal is read as any Markdown; a view in another place too, as said by others."""
    replica = replicas.World(1, shown=True).replicas[0]
    replica.propose(replica.start(), "a.b", "x", tier=2, new_subject=True, now=True)
    view = replica.files["notes/a.b.md"].encode("utf-8")
    rows = make_index(tmp_path, {"notes/a.b.md": view, "notes/c.md": view.replace(b"> x", b"> y"), "other/a.b.md": view})
    assert [(row["path"], row["kind"], row["source"], row["key"]) for row in rows] == [
        ("notes/a.b.md", "note", "agent", "a.b"), ("notes/c.md", "free", None, None), ("other/a.b.md", "free", "external", None)]


# -- questions --

@pytest.fixture(scope="module")
def words():
    """Return a function that puts texts into a table of words as the index has one, and gives who matches a query."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(text, parts, tokenize='porter unicode61 remove_diacritics 2')")

    def match(query, *texts):
        db.execute("DELETE FROM words")
        db.executemany("INSERT INTO words VALUES(?,?)", [(text, engine.parts_of(text)) for text in texts])
        return [row[0] - 1 for row in db.execute("SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid", (query,))]

    yield match
    db.close()


QUERY_MARKS = (
    '"', "'", "*", "^", ":", "-", "+", "(", ")", "{", "}", "NEAR(", " AND ", " OR ", " NOT ", "text:", "a", "b1", "\u6f22", "\uac00",
    "e\u0301", "\x00", "\ud800", "\udfff", "_", ".", "\u2019", "\U0001f600", "\u00df", "\u0130", "\u00b2", " ", "\n")
QUESTIONS = st.one_of(st.text(st.characters(exclude_categories=()), max_size=40),
    st.lists(st.sampled_from(QUERY_MARKS), max_size=20).map("".join))


@settings(max_examples=400)
@given(QUESTIONS)
def test_no_question_is_an_error(words, text):
    """Any text, halves of surrogate pairs included, is a list of terms, and a table of words takes each term and all at once."""
    for asked in (text, text.encode("utf-8", "replace").decode("utf-8")):
        terms = engine.parse_question(asked)
        assert len(terms) <= engine.TERMS_MAX
        assert len({term.word for term in terms}) == len(terms)
        for term in terms:
            assert term.word.strip()
            words(term.query, "a b1")
        if terms:
            words(" OR ".join(term.query for term in terms), "a b1")


@pytest.mark.parametrize("text", [
    "a-" * 10_000 + "b", "a1" * 10_000, "aB" * 10_000, "\u6f22" * 20_000, "x" * 200_000, "a b " * 10_000, " ".join(map(str, range(5000)))])
def test_a_long_question_is_no_error(words, text):
    """A question of ten thousand words or joints, or a word of a hundred thousand letters, is answered like another."""
    terms = engine.parse_question(text)
    assert 1 <= len(terms) <= engine.TERMS_MAX
    words(" OR ".join(term.query for term in terms), text[:1000])


#: Letters of many scripts, marks and joints; combining marks only after what they compose with.
LETTERS = (
    "a", "B", "z", "7", "3", "_", "-", ".", "/", " ", " ", "'", "\u00e9", "e\u0301", "\u00fc", "\u00df", "\u0130", "\u0436", "\u0416",
    "\u03c9", "\u0905", "\u0939\u093f", "\u0e01", "\u05d0", "\u0627", "\u6f22", "\u5b57", "\u3042", "\u30fc", "\u3005", "\uac00", "\ub098",
    "\uff76", "\u3002", "\u00b2", "\u2167", "#", "@", "\n")


@settings(max_examples=400)
@given(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=12).map("".join))
def test_every_term_finds_the_text_it_is_from(words, text):
    """What a text is made of, asked for, finds it: words of any script, mixed words and CJK pairs; only whole names may span scripts."""
    for term in engine.parse_question(text):
        if " " not in term.word or re.fullmatch("[A-Za-z0-9 ]+", term.word):
            alone = " " in term.word and re.search("[^\x00-\x7f]", text)
            assert alone or words(term.query, text, "nothing of it") == [0], term


IDENTIFIERS = {
    "os.path.join": ("os path join", "path", "join"), "--no-verify": ("no verify", "verify"), "E1234": ("e1234", "e 1234"),
    "snake_case": ("snake case", "snake", "case"), "camelCase": ("camelcase", "camel case"), "src/a/b.py": ("src a b py", "src", "b", "py"),
    "utf8": ("utf8", "utf 8"), "ES7": ("es7", "es 7"), "HTTPServer": ("httpserver", "http server"), "v1.2.3": ("v1 2 3", "v1"),
    "ECONNREFUSED": ("econnrefused",), "a@b.example": ("a b example", "b", "example"), "C:\\dir\\f.txt": ("c dir f txt", "dir", "f", "txt"),
    "x-api-key": ("x api key", "api", "key"), "pkg::mod::fn": ("pkg mod fn", "pkg", "mod", "fn"), "#42": ("42",)}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_identifiers_are_terms_whole_and_by_part(words, name):
    """An identifier, path, flag or error code is asked for as a whole and by its parts, and found in a sentence by each."""
    asked = {term.word: term.query for term in engine.parse_question("How does %s work?" % name)}
    assert asked.keys() >= set(IDENTIFIERS[name])
    for part in IDENTIFIERS[name]:
        assert words(asked[part], "Then (%s) is used." % name, "Then it is used.") == [0]


@pytest.mark.parametrize(("asked", "text"), [
    ("join", "os.path.join(x)"), ("utf", "as utf8"), ("1234", "error E1234"), ("camel", "a camelCase name"),
    ("server", "class HTTPServer2:"), ("camelCase", "in camel case"), ("utf-8", "as utf8"), ("utf8", "as UTF-8"),
    ("snake_case", "a snake case"), ("no-verify", "git commit --no-verify"), ("caf\u00e9", "a cafe"), ("cafe", "a caf\u00e9"),
    ("caf\u00e9s", "the cafe\u0301s"), ("cafe\u0301s", "the caf\u00e9s"), ("Z\u00dcRICH", "in z\u00fcrich"), ("retrying", "it retries"),
    ("Redis", "\u4f7f\u7528Redis\u4f5c\u4e3a\u961f\u5217"), ("PostgreSQL", "PostgreSQL\u3092\u4f7f\u3046"), ("3", "3\u6708"),
    ("\ud55c\uad6d", "\u1112\u1161\u11ab\u1100\u116e\u11a8")])
def test_one_way_of_writing_finds_another(words, asked, text):
    """A part finds the name that it is of, and a name what is written apart; case, accents and endings do not count."""
    assert any(words(term.query, text, "-") == [0] for term in engine.parse_question(asked))


CJK_WORDS = (
    "\u6570\u636e", "\u961f\u5217", "\u91cd\u8bd5", "\u6771\u4eac", "\u691c\u7d22", "\u8a2d\u5b9a", "\u30e1\u30e2", "\u4eba\u3005",
    "\u6642\u3005", "\u3059\u3057", "\uff92\uff93", "\ud55c\uad6d", "\uac80\uc0c9", "\uc124\uc815", "\U00020000\U00020001", "\uf900\u8c48")


@pytest.mark.parametrize("word", CJK_WORDS)
@pytest.mark.parametrize("text",
    ["%s", "\u8fd9\u662f%s\u7684\u3002", "\u3053\u306e%s\u3092", "\uadf8 %s\uc740", "a%sb", "1%s2", "\u300c%s\u300d"])
def test_words_of_two_characters_are_found(words, word, text):
    """A Chinese, Japanese or Korean word of two characters is one term, which is a part of every text with it."""
    terms = engine.parse_question(word)
    assert [unicodedata.normalize("NFC", term.word) for term in terms] == [unicodedata.normalize("NFC", word)]
    assert terms[0].word in engine.parts_of(text % word).split()
    assert words(terms[0].query, text % word, text % "\u4e00") == [0]


def test_a_single_character_finds_what_begins_with_it_and_what_ends(words):
    """A Chinese, Japanese or Korean character by itself is found wherever it stands in a run."""
    (term,) = engine.parse_question("\u6f22")
    assert words(term.query, "\u6f22", "\u6f22\u5b57", "\u7f85\u6f22", "\u5b57\u6f22\u5b57", "a\u6f22b", "\u5b57") == [0, 1, 2, 3, 4]


@settings(max_examples=100)
@given(st.text(st.sampled_from("\u6f22\u5b57\u3042\u30a2\u30fc\u3005\uac00\uff71\U00020000"), min_size=1, max_size=9))
def test_cjk_terms_are_pairs_of_what_is_asked(text):
    """A run of characters is asked for by its pairs, and one that is longer holds them; a single one by what begins with it."""
    pairs = {text[n:n + 2] for n in range(len(text) - 1)}
    assert {term.word for term in engine.parse_question(text)} == (pairs or {text})
    assert pairs <= set(engine.parts_of("a " + text + "\u6f22").split())
    assert text[-1] in engine.parts_of(text).split()


def test_words_that_say_nothing_are_dropped():
    """They are dropped where others are left, and asked for where there are none but them; order and case do not count."""
    def asked(text):
        return [term.word for term in engine.parse_question(text)]

    assert asked("What is the timeout of a Request, and why?") == ["timeout", "request"]
    assert asked("what is it") == ["what", "is", "it"]
    assert asked("THE The the") == ["the"]
    assert asked("What is it of \u6771\u4eac?")[0] == "\u6771\u4eac"
    assert asked("don't you") != []
    assert asked("?! -- *") == asked("") == asked("\x00") == []


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_parts_words_and_plain_text_of_anything(text):
    """Parts are of the text's letters, words are whole runs of 4 to 24 letters, and plain text is a part of the text."""
    assert set(unicodedata.normalize("NFC", engine.parts_of(text))) <= {*unicodedata.normalize("NFC", text), " "}
    runs = set(re.findall(r"[^\W\d_]+", text.lower()))
    assert all(4 <= len(word) <= 24 and word in runs for word in engine.words_of(text))
    plain = iter(text)
    assert all(letter in plain for letter in engine.plain_text(text))


@pytest.mark.parametrize(("text", "found"), [
    ("", ""), ("One two three four", "three four"), ("Retry retry", "retry"), ("utf8 E1234 snake_case", "snake case"),
    ("\u00c9cole d'\u00e9t\u00e9", "\u00e9cole"), ("\u6f22\u5b57\u6f22\u5b57", ""), ("x" * 24 + " " + "y" * 25, "x" * 24),
    ("\u0436\u0438\u0437\u043d\u044c", "\u0436\u0438\u0437\u043d\u044c")])
def test_words_for_which_another_may_be_meant(text, found):
    """They are runs of 4 to 24 letters, in lower case, of scripts that have words."""
    assert engine.words_of(text) == set(found.split())


@pytest.mark.parametrize(("text", "plain"), [
    ("a [b c](https://x.y/z) d", "a b c d"), ("![b](c.png)", "b"), ("see https://x.y/z now", "see  now"),
    ("**a** *b* _c_ __d__ `e` ***f***", "a b c d e f"), ("call snake_case and a_b_c", "call snakecase and abc"),
    ("2 * 3 * 4, a _ b", "2 * 3 * 4, a _ b"), ("a[0] and (b)", "a[0] and (b)"), ("[a] (b)", "[a] (b)"), ("```py\nx = 1\n```", "\nx = 1\n"),
    ("  ~~~\ny\n  ~~~", "\ny\n"), ("[a](b) [c](d)", "a c"), ("- item\n> q", "- item\n> q"), ("\u6f22\u5b57", "\u6f22\u5b57")])
def test_plain_text(text, plain):
    """Targets of links, addresses, fences' lines, marks of emphasis and code, and underscores go; all words and code stay."""
    assert engine.plain_text(text) == plain


@pytest.mark.parametrize(("text", "points"), [
    ("- [[a]]\n- [[b|c]]", True), ("[a](b)\n\n[c](d)", True), ("1. [a](b)\n2) [[c]]", True), ("  * [[a]],\n  + [[b]].", True),
    ("- [[a]]\nwords", True), ("- [[a]]\nb\nc", False), ("- [[a]]: what it is", False), ("words", False), ("- [ ] [[a]]", False),
    ("[[a]] [[b]]", False), ("- a [[b]]", False), ("[[a", False)])
def test_lists_of_links(text, points):
    """A text is a list of links if half of its lines or more are nothing but a link each."""
    assert engine.is_list_of_links(text) == points


def edits_of(word, letters):
    """Return what one edit makes of a word: a letter more, less, other, or two swapped."""
    cuts = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    made = {a + b[1:] for a, b in cuts if b} | {a + c + b for a, b in cuts for c in letters} | {a + c + b[1:] for a,
        b in cuts if b for c in letters}
    return made | {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}


@settings(max_examples=150)
@given(st.text(st.sampled_from("abc"), min_size=1, max_size=7), st.text(st.sampled_from("abc"), min_size=1, max_size=8))
def test_a_short_word_may_be_one_edit_off(one, other):
    """Of up to 7 letters, exactly what one edit makes of a word is near it."""
    assert engine.is_near_word(one, other) == (other in edits_of(one, "abc") | {one})
    assert all(engine.is_near_word(one, made) for made in edits_of(one, "abc"))


@settings(max_examples=80)
@given(st.text(st.sampled_from("abcdefgh"), min_size=8, max_size=12), st.data())
def test_a_longer_word_may_be_two_edits_off(word, data):
    """From 8 letters on, two edits in different places are near, and what is near is two edits off at most."""
    one = data.draw(st.sampled_from(sorted(edits_of(word[:4], "ax"))))
    two = data.draw(st.sampled_from(sorted(edits_of(word[4:], "ax"))))
    assert engine.is_near_word(word, one + two)
    other = data.draw(st.text(st.sampled_from(sorted(set(word))), min_size=len(word) - 2, max_size=len(word) + 2))
    letters = set(word) | set(other)
    twice = {far for near in edits_of(word, letters) for far in edits_of(near, letters)} if engine.is_near_word(word, other) else {other}
    assert other in twice | {word}


# -- long texts --

#: Texts of 80,000 characters on which a rule that looks from each place at all others takes minutes; another process makes them.
LONG = r"""
n = 80_000
said = {
    "letter": "a" * n, "digit": "1" * n, "word": "word " * (n // 5), "cjk": "\u6f22" * n, "mixed": "a1" * (n // 2),
    "camel": "aB" * (n // 2),
    "spaces": "x" + " " * n + "y", "lead": " " * n + "x", "tabs": "\t" * n + "x", "blank": "\n" * n, "apart": "a\n\n" * (n // 3),
    "heading": "# a" + " " * n + "b", "headings": "#\n" * (n // 2), "marks": "#" * n, "marks apart": "# " * (n // 2),
    "tick": "`" * n, "ticks": "`\n" * (n // 2), "fences": "```\n" * (n // 4), "tildes": "~~~~~\n~~~\n" * (n // 10),
    "open": "[" * n, "wiki": "[[" * (n // 2), "link": "[a](" * (n // 4), "close": "](" * (n // 2), "image": "![" * (n // 2),
    "quote": "> \n" * (n // 3), "quotes": ">" * n, "items": "- " * (n // 2), "numbers": "1. " * (n // 3), "links": "- [[a]]\n" * (n // 8),
    "tag": "#" + "a" * n, "tags": "#a " * (n // 3), "under": "_" * n, "star": "*" * n, "stars": "*a" * (n // 2), "dash": "a-" * (n // 2),
    "accents": "e" + "\u0301\u0323" * (n * 2), "address": "http://" * (n // 7),
    "stop": "." * n, "stops": ". " * (n // 2), "said": '."' * (n // 2), "end": "." + '"' * n,
}
said.update({"fenced " + name: "```\n" + text for name, text in list(said.items())})
front = {
    "items": "a:\n" + "- b\n" * (n // 4), "goes on": "a:\n" + " b\n" * (n // 3), "names": "".join("a%d:\n" % i for i in range(n // 8)),
    "open": "a: " + "[" * n, "deep": "a: " + "[" * n + "]" * n, "letter": "a" * n, "spaces": "a: x" + " " * n + "y", "colons": ":" * n,
    "quote": "a: [" + '"a, ' * (n // 4) + "]", "escape": "a: [" + '"\\' * (n // 2) + "]", "mark": "a: [" + "] #" * (n // 3),
    "comma": "a: [" + "," * n + "]", "dash": "a:\n-" + " " * n, "hyphens": "a:\n" + "-" * n,
}
said.update({"front " + name: "---\n" + text + "\n---\nx" for name, text in front.items()})
for name, text in said.items():
    print(name, flush=True)
    for chunk in engine.read_page("x.md", text, None).chunks:
        for read in (engine.parts_of, engine.plain_text, engine.words_of, engine.is_list_of_links):
            read(chunk.text)
    engine.parse_question(text)
print("all", flush=True)
"""


@pytest.mark.long
def test_no_long_text_takes_for_ever():
    """A page of one endless line, of nothing but marks or of endless properties is read; what takes a minute never ends."""
    root = engine.__file__.rpartition("engine.py")[0]
    script = "import sys\nsys.path.insert(0, %r)\nimport engine\n%s" % (root, LONG)
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
        said = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode("utf-8")
    assert said.split("\n")[-2] == "all"
