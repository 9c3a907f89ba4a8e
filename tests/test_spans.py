"""What the engine writes into files of others is its own span; every other byte stays as it was.

Blocks of lines in Markdown and in files with `#` comments, and items of JSON documents with comments. The documents are
made from pieces by chance, and read back by a small reader that shares nothing with the engine's.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import engine

HASHES = ("# ", "")
COMMENTS = (engine.MARKDOWN, HASHES)
BEGINS = b"<!-- muniment begins: written by install, removed by uninstall -->"
MANY = settings(max_examples=150)


def sealed(*lines, newlines=0, newline=b"\n", comment=engine.MARKDOWN):
    """Return the bytes of a block as PROTOCOL.md says that they are, made without the engine."""
    content = "".join(line + "\n" for line in lines)
    words = "muniment ends: sha256:%s newlines:%d" % (hashlib.sha256(content.encode("utf-8")).hexdigest(), newlines)
    first = "muniment begins: written by install, removed by uninstall"
    text = "%s%s%s\n%s%s%s%s\n" % (comment[0], first, comment[1], content, comment[0], words, comment[1])
    return text.encode("utf-8").replace(b"\n", newline)


END = sealed().splitlines()[1]
BAD_END = END.replace(b"sha256:e", b"sha256:f")
#: Pieces of files that hold no block of ours: prose, white space, line ends, fences, what is no UTF-8, lone marker lines.
PROSE = [b"a", b"# Rules\n", b"b\r\n", b"c\r", b"\n", b"\r\n", b"\n\n", b" \n", b"\t", b"\xff\xfe", "\u00e9\u2028".encode(), b"\x00",
         b"- muniment begins\n", b"see " + BEGINS + b"\n", b" " + BEGINS + b"\n"]
FENCES = [b"```\n", b"```sh\n", b"~~~~\r\n", b"  ````\n"]
MARKS = [BEGINS + b"\n", BEGINS + b"  \r\n", BAD_END + b"\n", BAD_END + b"\r\n"]


def files(*pieces):
    """Return files of such pieces, some with a byte order mark."""
    body = st.lists(st.sampled_from([piece for several in pieces for piece in several]), max_size=9).map(b"".join)
    return st.tuples(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]), body).map(b"".join)


LINES = st.lists(st.sampled_from(["@AGENTS.md", "", "text", "\u00e9", "  indented", "# no marker"]), max_size=4)
FENCED = st.sampled_from([["```sh", "install", "```"], ["~~~", "x", "~~~", "after"]])


@MANY
@given(files(PROSE, FENCES, MARKS), LINES | FENCED, st.sampled_from(COMMENTS))
@example(b"a\r", ["x"], engine.MARKDOWN)
@example(b"a\r\nb\r", ["x"], engine.MARKDOWN)
@example(b"\xef\xbb\xbf", ["x"], engine.MARKDOWN)
@example(b"```\nopen", ["```sh", "x", "```"], engine.MARKDOWN)
def test_a_block_that_is_dropped_leaves_the_file_as_it_was(data, lines, comment):
    """drop_block(put_block(x)) is x, whatever x is; put keeps x as the beginning, is found, and putting it again changes nothing."""
    put = engine.put_block(data, lines, False, comment)
    start, end, whole = engine.find_block(put, False, comment)
    assert put.startswith(data)
    assert whole
    assert end == len(put)
    newline = b"\r\n" if re.search(rb"^[^\n]*\r\n", data) else b"\n"
    added = put[len(data):start]
    assert added in (b"", newline, newline * 2)
    assert put[start:] == sealed(*lines, newlines=len(added) // len(newline), newline=newline, comment=comment)
    assert engine.put_block(put, lines, False, comment) == put
    assert engine.drop_block(put, False, comment) == data


@MANY
@given(files(PROSE, FENCES, MARKS), LINES, LINES)
def test_a_block_is_replaced_in_place(data, lines, other):
    """To put other lines gives what putting them at once would have."""
    assert engine.put_block(engine.put_block(data, lines, False), other, False) == engine.put_block(data, other, False)


@MANY
@given(files(PROSE), LINES, LINES, files(PROSE, MARKS).filter(lambda b: b[:3] != b"\xef\xbb\xbf"), st.booleans())
def test_what_the_owner_wrote_around_a_block_stays(data, lines, other, after, known):
    """Text that was added above and below is there byte for byte after the block was changed and dropped."""
    assume(not known or BEGINS not in after)
    newline = b"\r\n" if re.match(rb"[^\n]*\r\n", data) else b"\n"
    data, put = (b"above\n" + made.removeprefix(b"\xef\xbb\xbf") for made in (data, engine.put_block(data, lines, known)))
    assume(put.startswith(data + newline) or data.endswith(b"\n"))  # else the file was empty, and there is nothing to be joined with
    changed = engine.put_block(put + after, other, known)
    start, end, _ = engine.find_block(changed, known)
    assert changed[end:] == after
    assert changed[:start].startswith(data)
    ended = newline if after and not data.endswith(b"\n") else b""
    assert engine.drop_block(changed, known) == data + ended + after


#: A file and what is found of it, unknown and known.
FOUND = {
    "no block": (b"text\n", None, None),
    "one of ours": (sealed("x"), True, True),
    "with CRLF": (sealed("x", newline=b"\r\n"), True, True),
    "with spaces behind its marks": (sealed("x").replace(b"-->\n", b"--> \t\n"), True, True),
    "an orphan begin": (BEGINS + b"\ntext\n", None, None),
    "an orphan end": (b"text\n" + END + b"\n", None, None),
    "doubled begins before one of ours": (BEGINS + b"\ntext\n" + sealed("x"), True, True),
    "an edited one": (sealed("x").replace(b"x\n", b"y\n"), None, False),
    "two edited ones": (sealed("x").replace(b"x\n", b"y\n") * 2, None, None),
    "an edited one and one of ours": (sealed("x").replace(b"x\n", b"y\n") + sealed("x"), True, True),
    "one of ours in a fence": (b"```\n" + sealed("x") + b"```\n", None, None),
    "an edited one in a fence": (b"~~~ md\n" + sealed("x").replace(b"x\n", b"y\n") + b"~~~\n", None, None),
    "one of ours below an open fence": (b"```\n" + sealed("x"), True, True),
    "one of ours with a fence below an open fence": (b"```\n" + sealed("```", "x", "```"), True, True),
    "a shorter fence closes none": (b"````\n" + sealed("x") + b"```\n", True, True),
    "a line with words closes no fence": (b"```\n```sh\n" + sealed("x") + b"```\n", None, None),
    "code within a line opens no fence": (b"```a``` b\n" + sealed("x") + b"```\n", True, True),
    "marks with text before them": (sealed("x").replace(b"<!--", b"> <!--"), None, None),
    "another comment": (sealed("x", comment=HASHES), None, None),
    "a last line of another form": (sealed("x").replace(b"newlines:0", b"newlines:3"), None, None),
    "a hash of another form": (sealed("x").replace(b"sha256:", b"sha256:A"), None, None),
    "a byte order mark before it": (b"\xef\xbb\xbf" + sealed("x"), True, True),
    "no newline behind it": (sealed("x")[:-1], True, True),
}


@pytest.mark.parametrize("name", FOUND)
def test_which_block_is_ours(name):
    """A sealed pair is ours; an edited one only if it is known and the only one; all else is prose and stays."""
    data, unknown, known = FOUND[name]
    for is_known, said in ((False, unknown), (True, known)):
        found = engine.find_block(data, is_known)
        assert (found and found[2]) == said
        if not found:
            assert engine.drop_block(data, is_known) == data
            assert engine.put_block(data, ["new"], is_known).startswith(data)


def test_fences_are_of_markdown_alone():
    """In a file with `#` comments a line of backquotes hides nothing."""
    data = b"```\n" + sealed("x", comment=HASHES) + b"```\n"
    assert engine.find_block(data, False, HASHES)
    assert engine.drop_block(data, False, HASHES) == b"```\n```\n"


def test_a_doubled_block_becomes_one():
    """What a merge doubled is put into the first place, and dropped from both."""
    data = b"a\n\n" + sealed("x", newlines=1) + b"b\n\n" + sealed("y", newlines=1) + b"c\n"
    assert engine.put_block(data, ["z"], False) == b"a\n\n" + sealed("z", newlines=1) + b"b\nc\n"
    assert engine.put_block(data, ["x"], False) == b"a\n\n" + sealed("x", newlines=1) + b"b\nc\n"
    assert engine.drop_block(data, False) == b"a\nb\nc\n"


def test_an_edited_block_that_is_known_is_replaced_and_dropped():
    """With the receipt's word the pair is ours, whatever stands in it; without it, it is left and one is added."""
    edited = b"a\n\n" + sealed("x", newlines=1).replace(b"x\n", b"y\nmore\n") + b"b\n"
    assert engine.put_block(edited, ["x"], True) == b"a\n\n" + sealed("x", newlines=1) + b"b\n"
    assert engine.drop_block(edited, True) == b"a\nb\n"
    assert engine.put_block(edited, ["x"], False) == edited + b"\n" + sealed("x", newlines=1)


#: before the block was put -> before its end, what the owner put in the place, after dropping
MOVED = {
    "a last line without an end, text below": (b"a", lambda put: put + b"more", b"a\nmore"),
    "the same with CRLF": (b"a\r\nb", lambda put: put + b"more", b"a\r\nb\r\nmore"),
    "text right above the block": (b"a\n", lambda put: put.replace(BEGINS, b"more\n" + BEGINS), b"a\n\nmore\n"),
    "the blank line is gone": (b"a\n", lambda put: put.replace(b"\n\n", b"\n"), b"a\n"),
    "all above is gone": (b"a\n", lambda put: put[put.index(BEGINS):], b""),
    "all but the blank line is gone": (b"a\n", lambda put: put[2:], b""),
    "git turned the file into CRLF": (b"a\n", lambda put: put.replace(b"\n", b"\r\n"), b"a\r\n"),
    "git turned the file into LF": (b"a\r\nb", lambda put: put.replace(b"\r\n", b"\n"), b"a\nb"),
}


@pytest.mark.parametrize("name", MOVED)
def test_only_newlines_that_were_added_are_taken_back(name):
    """What stands before the block is cut only where it still is what was added."""
    data, edit, after = MOVED[name]
    assert engine.drop_block(edit(engine.put_block(data, ["x"], False)), False) == after


def test_a_long_file_of_open_fences_is_read_in_time():
    """Fences that nothing closes are not looked at again and again."""
    data = b"".join(b"```a%d\n~~~b\n" % n for n in range(20_000))
    assert engine.drop_block(engine.put_block(data, ["x"], False), False) == data


# JSON: a reader of its own, and documents with comments.

PATH = ["hooks"]
OURS = {"hooks": [{"type": "command", "command": "muniment", "timeout": 5}]}
OLD = {"hooks": [{"type": "command", "command": "muniment old"}]}
FRESH = {"version": 1}


def is_ours(value):
    """Tell whether an item is one of ours, old or new."""
    return isinstance(value, dict) and "muniment" in json.dumps(value)


def plain(data):
    """Return what a JSON document with comments and trailing commas says, pairs of names and values for each object."""
    text = data.decode("utf-8-sig", "surrogateescape")
    string = r'("(?:[^"\\]|\\.)*")'
    text = re.sub(string + r"|//[^\r\n]*|/\*.*?\*/", lambda m: m[1] or " ", text, flags=re.DOTALL)
    text = re.sub(string + r"|,(?=\s*[\]}])", lambda m: m[1] or " ", text)
    return json.loads(text, object_pairs_hook=lambda pairs: [("", name, value) for name, value in pairs] or {})


def as_dict(value):
    """Return a value of `plain` with objects as dicts."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: as_dict(inner) for _, name, inner in value}
    return [as_dict(inner) for inner in value] if isinstance(value, list) else value


def comments(data):
    """Return the comments of a document in order."""
    text = data.decode("utf-8-sig", "surrogateescape")
    return [found for found in re.findall(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', text, re.DOTALL) if found]


class Writer:
    """Writes a value as JSON with white space, comments and trailing commas by chance."""

    def __init__(self, chance, newline, strict):
        self.chance, self.newline, self.strict = chance, newline, strict

    def gap(self):
        """Return white space and comments."""
        pieces = ["", "", " ", self.newline, self.newline + "  ", "\t"]
        pieces += [] if self.strict else ['// a, ] } "' + self.newline, "/* b /* \u00e9 \udcff */", "//" + self.newline + " "]
        return self.chance.choice(pieces) + self.chance.choice(pieces)

    def write(self, value):
        """Return the text of a value; pairs of names and values are an object."""
        if not isinstance(value, (list, dict)):
            return value if isinstance(value, str) and value[:1] in '"-0123456789' and value else json.dumps(value)
        if is_ours(value):
            return json.dumps(value)  # what stands within an item of ours is ours
        if isinstance(value, dict):
            inner = [self.gap() + json.dumps(n) + self.gap() + ":" + self.gap() + self.write(v) + self.gap() for n, v in value.items()]
        else:
            inner = [self.gap() + self.write(v) + self.gap() for v in value]
        last = "," + self.gap() if inner and not self.strict and self.chance.random() < 0.3 else ""
        return "[{"[isinstance(value, dict)] + (",".join(inner) + last or self.gap()) + "]}"[isinstance(value, dict)]


VALUES = st.recursive(st.sampled_from([None, True, 1, '"x"', '"// no /* comment"', "1.50", "-1e3", '"\\u00e9\\""', '"]"']),
                      lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2), max_leaves=5)
ITEMS = st.lists(VALUES | st.sampled_from([OURS, OLD]), max_size=4)
EVENTS = st.dictionaries(st.sampled_from(["Start", "Stop", "Other", "old/"]), ITEMS, max_size=4)


@st.composite
def documents(draw, events=EVENTS):
    """Return a document with comments, and whether it is strict JSON."""
    value = draw(st.dictionaries(st.sampled_from(["a", "b", "//c"]), VALUES, max_size=2))
    if draw(st.booleans()):
        value["hooks"] = draw(events)
        value = dict(draw(st.permutations(list(value.items()))))
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    writer = Writer(draw(st.randoms(use_true_random=False)), newline, draw(st.booleans()))
    bom = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return bom + (writer.gap() + writer.write(value) + writer.gap()).encode("utf-8", "surrogateescape")


def merged(value, wanted):
    """Return what a document should say once our items are in it, by the words of PROTOCOL.md."""
    value = copy.deepcopy(value)
    events = value.get("hooks", {})
    for event, items in list(events.items()):
        ours = [k for k, item in enumerate(items) if is_ours(item)] if isinstance(items, list) else []
        if event in wanted:
            same = [k for k in ours if items[k] == wanted[event]]
            kept = (same or ours)[:1]
            events[event] = [wanted[event] if k in kept else item for k, item in enumerate(items) if k in kept or k not in ours]
        elif ours:
            events[event] = [item for k, item in enumerate(items) if k not in ours]
    for event, item in wanted.items():
        if not any(is_ours(other) for other in events.get(event, [])):
            events.setdefault(event, []).append(item)
    return {**value, **({"hooks": events} if events or "hooks" in value else {})}


def without_empty(value):
    """Return a document without what is empty at and below `hooks`."""
    events = {name: items for name, items in value.get("hooks", {}).items() if items != []}
    return {**{name: inner for name, inner in value.items() if name != "hooks"}, **({"hooks": events} if events else {})}


WANTED = st.sampled_from([{"Start": OURS}, {"Start": OURS, "Stop": {"a": "muniment"}}, {"New": OURS, "Other": OURS}, {}])


@MANY
@given(documents(), WANTED)
def test_a_document_gets_each_wanted_item_once(data, wanted):
    """It says what it did, with our items as wanted; what was not ours keeps its order; a second time changes nothing."""
    made = engine.merge_items(data, PATH, wanted, is_ours, FRESH)
    assert without_empty(as_dict(plain(made))) == without_empty(merged(as_dict(plain(data)), wanted))
    assert engine.find_items(made, PATH, is_ours) == {event: [item] for event, item in wanted.items()}
    assert engine.merge_items(made, PATH, wanted, is_ours, FRESH) == made


@MANY
@given(documents(), WANTED)
def test_dropping_takes_every_item_of_ours(data, wanted):
    """What is left says what the document did, but for ours and what is empty by that."""
    made = engine.drop_items(engine.merge_items(data, PATH, wanted, is_ours, FRESH), PATH, is_ours)
    assert engine.find_items(made, PATH, is_ours) == {}
    assert without_empty(as_dict(plain(made))) == without_empty(merged(as_dict(plain(data)), {}))
    assert engine.drop_items(made, PATH, is_ours) == made


@MANY
@given(documents(), WANTED)
def test_no_comment_is_lost_or_moved_past_another(data, wanted):
    """All comments around items of ours are there, in order, whatever is merged or dropped; the byte order mark and newlines too."""
    made = engine.merge_items(data, PATH, wanted, is_ours, FRESH)
    for changed in (made, engine.drop_items(made, PATH, is_ours), engine.drop_items(data, PATH, is_ours)):
        assert comments(changed) == comments(data)
        assert changed.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")


FULL = st.dictionaries(st.sampled_from(["Start", "Stop", "Other"]), st.lists(VALUES, min_size=1, max_size=2), min_size=1, max_size=3)


@MANY
@given(documents(FULL), WANTED)
def test_dropping_what_was_merged_leaves_the_bytes_that_were_there(data, wanted):
    """Where nothing on the path was empty, drop_items(merge_items(x)) is x byte for byte."""
    value = as_dict(plain(data))
    assume(value)
    made = engine.merge_items(data, PATH, wanted, is_ours, FRESH)
    assert engine.drop_items(made, PATH, is_ours) == data


BLANK = [b"", b" \n", b"\r\n\t"]


@pytest.mark.parametrize("data", BLANK)
def test_a_blank_document_is_made(data):
    """It is what a new one holds besides, and our items, with two spaces and a final newline."""
    value = {"version": 1, "hooks": {"Start": [OURS]}}
    assert engine.merge_items(data, PATH, {"Start": OURS}, is_ours, FRESH) == (json.dumps(value, indent=2) + "\n").encode("ascii")
    assert engine.find_items(data, PATH, is_ours) == {}
    assert engine.drop_items(data, PATH, is_ours) == data


def merge(text, wanted, path=("hooks",)):
    """Return the text of a document with items in it, and check that it is given back."""
    made = engine.merge_items(text.encode("utf-8"), path, wanted, is_ours, FRESH)
    assert engine.drop_items(made, path, is_ours).decode("utf-8") == text
    return made.decode("utf-8")


ITEM = {"run": "muniment"}
#: document -> the same with ITEM under Stop
LAID_OUT = {
    "{}": '{\n  "hooks": {\n    "Stop": [\n      {\n        "run": "muniment"\n      }\n    ]\n  }\n}',
    '{"a":1}': '{"a":1, "hooks": {"Stop": [{"run": "muniment"}]}}',
    '{ "hooks": { "Stop": [ 1 ] } }\n': '{ "hooks": { "Stop": [ 1, {"run": "muniment"} ] } }\n',
    '{"hooks": {"Stop": [1, /* c */]}}': '{"hooks": {"Stop": [1, /* c */ {"run": "muniment"},]}}',
    '{\n   "hooks": {\n      "Stop": [\n         1 // one\n         // two\n      ]\n   }\n}\n':
        '{\n   "hooks": {\n      "Stop": [\n         1, // one\n         // two\n'
        '         {\n            "run": "muniment"\n         }\n      ]\n   }\n}\n',
    '{\n\t"hooks": {\n\t\t"Stop": [{\n\t\t\t"run": "x"\n\t\t}]\n\t}\n}':
        '{\n\t"hooks": {\n\t\t"Stop": [{\n\t\t\t"run": "x"\n\t\t}, {\n\t\t\t"run": "muniment"\n\t\t}]\n\t}\n}',
    '{\r\n  "b": [1e2, 0.10],\r\n  "b": "\\u00e9"\r\n}\r\n':
        '{\r\n  "b": [1e2, 0.10],\r\n  "b": "\\u00e9",\r\n  "hooks": {\r\n    "Stop": [\r\n'
        '      {\r\n        "run": "muniment"\r\n      }\r\n    ]\r\n  }\r\n}\r\n',
    '{"hooks": {"Stop": [1 // c\n]}}': '{"hooks": {"Stop": [1, // c\n  {\n    "run": "muniment"\n  }\n]}}',
    '{"hooks": {"Stop": [\n1 // c\n,]}}': '{"hooks": {"Stop": [\n1 // c\n,\n{\n  "run": "muniment"\n},]}}',
    ' {"a": [\n\t\t1]}':
        ' {"a": [\n\t\t1], "hooks": {\n\t\t  "Stop": [\n\t\t    {\n\t\t      "run": "muniment"\n\t\t    }\n\t\t  ]\n\t\t}}',
    '{"hooks": { /* none yet */ }}': '{"hooks": { /* none yet */ "Stop": [{"run": "muniment"}] }}',
    '{\n  "hooks": {\n    // none yet\n  }\n}':
        '{\n  "hooks": {\n    // none yet\n    "Stop": [\n      {\n        "run": "muniment"\n      }\n    ]\n  }\n}',
}


@pytest.mark.parametrize("text", LAID_OUT)
def test_what_is_added_is_laid_out_as_its_neighbours(text):
    """Indentation, newlines, commas and comments are the document's."""
    assert merge(text, {"Stop": ITEM}) == LAID_OUT[text]


def test_a_path_of_several_names_is_made_and_removed():
    """Objects on the path are made as far as they are missing; `[]` is the document itself."""
    assert merge('{"a": {"x": 1}}', {"Stop": ITEM}, ["a", "b", "c"]) == '{"a": {"x": 1, "b": {"c": {"Stop": [{"run": "muniment"}]}}}}'
    assert merge('{"x": 1}', {"Stop": ITEM}, []) == '{"x": 1, "Stop": [{"run": "muniment"}]}'


#: document with items of ours -> the same without
DROPPED = {
    '{"hooks": {"Stop": ["muniment", 2, "muniment", 3]}}': '{"hooks": {"Stop": [2, 3]}}',
    '{"hooks": {"Stop": [1, "muniment"], "x": []}}': '{"hooks": {"Stop": [1], "x": []}}',
    '{"hooks": {"Stop": ["muniment"], "x": []}}': '{"hooks": {"x": []}}',
    '{"a": 1, "hooks": {"Stop": ["muniment",],},}': '{"a": 1,}',
    '{"hooks": {"Stop": ["muniment"], "Stop": ["muniment"]}}': "{}",
    '{"hooks": {"Stop": [ // c\n "muniment", 2]}}': '{"hooks": {"Stop": [ // c\n 2]}}',
    '{"hooks": {"Stop": [1, // c\n "muniment"]}}': '{"hooks": {"Stop": [1 // c\n ]}}',
    '{"hooks": {"Stop": [1,\n "muniment"]}}': '{"hooks": {"Stop": [1]}}',
    '{"hooks": {"Stop": [\n "muniment", // ours?\n 2\n]}}': '{"hooks": {"Stop": [\n // ours?\n 2\n]}}',
    '{"hooks": {"Stop": [ // mine\n "muniment"]}}': '{"hooks": {"Stop": [ // mine\n ]}}',
    '{"hooks": /* mine */ {"Stop": ["muniment"]}}': '{"hooks": /* mine */ {}}',
    '{"hooks": {"Stop": ["muniment" /* a */ , /* b */ 2]}}': '{"hooks": {"Stop": [/* a */  /* b */ 2]}}',
    '{"hooks": {"Stop": "muniment", "a": {"muniment": []}}}': '{"hooks": {"Stop": "muniment", "a": {"muniment": []}}}',
    "{}": "{}",
}


@pytest.mark.parametrize("text", DROPPED)
def test_only_ours_and_what_is_empty_by_that_is_dropped(text):
    """An array and an object go only if one of ours was the last that they held, and no comment stands in them."""
    assert engine.drop_items(text.encode("ascii"), PATH, lambda value: value == "muniment").decode("ascii") == DROPPED[text]


def test_ours_are_changed_in_place_and_once():
    """The first of ours that is equal stays, else the first is replaced; others go, under every event."""
    data = (b'{"hooks": {"A": ["muniment 0", 1, "muniment"], "B": [2, "muniment 0", "muniment 1"],'
            b' "C": ["muniment", "muniment"], "D": ["muniment"]}}')
    made = engine.merge_items(data, PATH, dict.fromkeys("ABC", "muniment"), lambda value: "muniment" in str(value), {})
    assert made == b'{"hooks": {"A": [1, "muniment"], "B": [2, "muniment"], "C": ["muniment"]}}'


def test_what_stood_in_an_empty_object_or_in_our_place_is_laid_out_anew():
    """An object of blank lines takes its members between its brackets; a plain value on a line of its own becomes an object of several."""
    assert engine.merge_items(b"{\n\n}", [], {"a": 1}, lambda value: True, {}) == b'{\n  "a": [\n    1\n  ]\n\n}'
    assert engine.merge_items(b"{ }", [], {"a": 1}, lambda value: True, {}) == b'{\n  "a": [\n    1\n  ]\n}'
    assert engine.merge_items(b'{"a": [\n  1\n]}', [], {"a": {"b": 1}}, lambda value: True, {}) == b'{"a": [\n  {\n    "b": 1\n  }\n]}'
    assert engine.merge_items(b'{"a": [\n  {"b": 0}\n]}', [], {"a": {"b": 1}}, lambda value: True, {}) == b'{"a": [\n  {"b": 1}\n]}'


def test_values_are_the_same_only_if_they_are_written_alike():
    """1, 1.0 and true are equal in Python and not in JSON; the order of names does not count."""
    for text, kept in (("[1,2]", False), ("[1.0,2]", False), ("[true,2]", True)):
        data = b'{"a": [%s]}' % text.encode("ascii")
        assert (engine.merge_items(data, [], {"a": [True, 2]}, lambda value: True, {}) == data) == kept
    data = b'{"a": [{"x": 1, "y": 2}]}'
    assert engine.merge_items(data, [], {"a": {"y": 2, "x": 1}}, lambda value: True, {}) == data


def test_text_that_is_no_utf_8_stays_and_is_never_written():
    """Bytes of the owner's part come back; a path that is not UTF-8 is written as an escape."""
    item = {"run": "muniment \u00e9", "folder": "\udcff"}
    made = engine.merge_items(b'{"\xff": "\xe9" /* \xc3 */}', PATH, {"Stop": item}, is_ours, {})
    assert made.startswith(b'{"\xff": "\xe9", /* \xc3 */ "hooks": ')
    assert b"\\udcff" in made
    assert engine.find_items(made, PATH, is_ours) == {"Stop": [item]}
    assert "\u00e9".encode() in engine.merge_items(b"", PATH, {"Stop": {"run": "muniment \u00e9"}}, is_ours, {})


#: What is refused -> where, as line and position.
REFUSED = {
    "[]": (1, 1), "1": (1, 1), "\x00": (1, 1), "// only this": (1, 13), '{"a": 1} x': (1, 10),
    '{"a": 1': (1, 8), '{"a": 1]': (1, 8), '{"a": [1}}': (1, 9), '{"a": 1 "b": 2}': (1, 9), '{"a": 1 /* }': (1, 9),
    '{"a" 1}': (1, 6), "{a: 1}": (1, 2), "{'a': 1}": (1, 2), '{"\\u00zz": 1}': (1, 2), '{\r\n"a": 1\r"b"}': (3, 1),
    '{"a": 01}': (1, 8), '{"a": .5}': (1, 7), '{"a": NaN}': (1, 7), '{"a": tru}': (1, 7), '{"a": [1,, 2]}': (1, 10), '{"a": [,]}': (1, 8),
    '{"a": "': (1, 7), '{"a": "\n"}': (1, 7), '{"a": "\\x"}': (1, 7),
    '{"hooks": []}': (1, 11), '{"hooks": null}': (1, 11), '{"hooks": {}, "hooks": {}}': (1, 15),
    '{"hooks": {"Stop": {}}}': (1, 20), '{"hooks": {"Stop": [],\n "Stop": []}}': (2, 2),
    '{"a": ' + "[" * 200 + "]" * 200 + "}": (1, 206), '{"a": ' * 5000: (1, 1201),
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_cannot_be_read_is_refused(text):
    """Nothing is guessed: the code, the line and the character say where reading ended."""
    with pytest.raises(engine.Refused) as refused:
        engine.merge_items(text.encode("utf-8"), PATH, {"Stop": ITEM}, is_ours, {})
    assert refused.value.code == "bad-config"
    assert (refused.value.details["line"], refused.value.details["position"]) == REFUSED[text]
    if "Stop" not in text:
        for ask in (engine.find_items, engine.drop_items):
            with pytest.raises(engine.Refused):
                ask(text.encode("utf-8"), PATH, is_ours)


def test_a_document_may_be_deep_and_long():
    """Two hundred containers within each other are read, and numbers that Python would not."""
    deep = '{"a": ' + "[" * 199 + "9" * 5000 + "]" * 199 + "}"
    assert merge(deep, {"Stop": ITEM}).startswith(deep[:-1])
    long = b'{"a": [%s%%s]}' % (b"9" * 5000)
    assert engine.drop_items(long % b', "muniment"', [], lambda value: value == "muniment") == long % b""


def test_an_item_that_would_not_be_known_again_is_not_written():
    """It could not be found, changed or removed later."""
    with pytest.raises(ValueError, match="known as ours"):
        engine.merge_items(b"{}", PATH, {"Stop": {"run": "other"}}, is_ours, {})


def test_the_protocol_shows_blocks_as_they_are_made_here():
    """The examples of section 16.3 hold the bytes that are made here without the engine, and cover both newlines and comments."""
    page = (Path(__file__).resolve().parent.parent / "PROTOCOL.md").read_text("utf-8")
    found = re.search(r"^```block\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    seen = set()
    for shown in map(json.loads, found[1].splitlines()):
        comment, known = tuple(shown.get("comment", engine.MARKDOWN)), shown.get("known", False)
        assert engine.put_block(shown["file"].encode("utf-8"), shown["lines"], known, comment).decode("utf-8") == shown["put"]
        start, end, _ = engine.find_block(shown["put"].encode("utf-8"), known, comment)
        block = shown["put"].encode("utf-8")[start:end]
        made = [(n, newline) for n in (0, 1, 2) for newline in (b"\n", b"\r\n")
                if sealed(*shown["lines"], newlines=n, newline=newline, comment=comment) == block]
        seen |= {*made, comment, known}
        assert made, shown["file"]
    assert seen >= {(0, b"\n"), (1, b"\n"), (2, b"\r\n"), *COMMENTS, True, False}
