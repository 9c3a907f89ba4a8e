"""Edited views: what a person changed is read as that and nothing else, and no bytes are too strange to read.

`engine.read_edit` is asked about views that are rendered from small worlds in memory and then changed by hand.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("hypothesis")
import replicas
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_views import BLOCKS, FIELDS, LINES, live

import engine

OWNER = {"source": "user", "trust": "confirmed"}
SEAL = re.compile("<!-- muniment view sha256:[0-9a-f]{64} -->\n")
WHOLE = {"why": "because", "detail": "more\n\n## of it\n> and\n```\nx", "tags": ["a/b", "c"], "links": ["a.b", "z"], "until": "2026-02-01",
         "evidence": ["https://x.y"]}
GIVEN = {
    1: {"tier": 1, "kind": "decision", **WHOLE},
    2: {"tier": 2, "status": "active", "importance": 3, **WHOLE},
    3: {"tier": 3, "confidence": "developing", "falsifier": "it is not", **WHOLE},
}
PATHS = ("MEMORY.md", "INDEX.md", "notes/k.md", "notes/new.md", "notes/No Key.md", "history/k.md", "journal/R1-kkkkkkkk.md",
         "conflicts/k.md", "notes/", "notes/../k.md", "other.md", "")


def teardown_module():
    """Close what the last test opened."""
    replicas.close_last()


def make(tier=2, key="k", text="a [[b]] c", **more):
    """Return a replica on which the owner has said one value with every field that its tier has."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    given = {**GIVEN[tier], **more}
    replica.propose(run, key, text, new_subject=True, now=True, **{n: v for n, v in given.items() if v is not None}, **OWNER)
    return replica


def value_of(state, key):
    """Return the current value of a key if it is a set, else None: what a view that is not stale was rendered from."""
    current = state.subject(key).current
    value = state.body(current.id)["value"] if current else {}
    return value if value.get("op") == "set" else None


def read(replica, path, text, then=None):
    """Return what `read_edit` makes of a text or bytes; ``then`` is a dict, the current values if not given."""
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    look = (lambda key: value_of(replica.state, key)) if then is None else then.get
    return engine.read_edit(replica.state, path, data, look)


def changes(replica, path, text, then=None):
    """Return the changed fields by key of an edit all of which can be read."""
    rows, unread = read(replica, path, text, then)
    assert not unread
    return {row["key"]: row["fields"] for row in rows}


def edited(replica, path, *pairs):
    """Return a view in which each (old, new) was replaced, and old was there."""
    text = replica.files[path]
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def without_section(text, title):
    """Return a note without one of its sections."""
    cut = re.sub(r"(?ms)^## %s\n.*?(?=^## |^\[\[history|^<!-- muniment)" % title, "", text)
    assert cut != text
    return cut


# -- nothing changed --

@given(FIELDS)
def test_a_view_as_it_was_rendered_changes_nothing(said):
    """Whatever the texts are, every view read back gives no row, and of what can be edited no sentence."""
    replica = live(said)
    for path, text in replica.files.items():
        rows, unread = read(replica, path, text)
        assert rows == [], path
        assert bool(unread) == (path.split("/")[0] in ("history", "journal", "conflicts")), (path, unread)


@given(FIELDS, st.sampled_from(("\r\n", "\r")), st.booleans())
def test_line_ends_a_mark_of_order_and_cut_white_space_change_nothing(said, newline, trimmed):
    """CRLF, a lone CR, a BOM and white space cut at the ends of lines are an editor's, not a person's."""
    replica = live(said)
    for path in ("MEMORY.md", "notes/rule.md", "notes/pattern.md", "notes/next.md"):
        text = replica.files[path]
        text = "\n".join(line.rstrip(" \t") for line in text.split("\n")) if trimmed else text
        assert changes(replica, path, "\ufeff" + text.replace("\n", newline)) == {}


def test_what_changes_by_itself_is_no_change():
    """Derived properties, what stands beside the claim and the links to pages are ignored, and who made it may be missing."""
    replica = live(dict.fromkeys("one two three why command note falsifier own detail entry summary words more ref".split(), "x"))
    text = re.sub(r"(?m)^(generation|changed|verified|contested): .*\n", "", replica.files["notes/pattern.md"])
    assert "## Beside it" in text
    assert changes(replica, "notes/pattern.md", without_section(text, "Beside it")) == {}
    assert changes(replica, "notes/pattern.md", text.replace("## Beside it\n", "## Beside it\n\nanything\n")) == {}
    assert changes(replica, "notes/pattern.md", re.sub(r"(?m)^[a-z]+/[a-z]+, .*\n|^\[\[history.*\n|^<!-- .*\n", "", text)) == {}


# -- one field --

def edits(tier):
    """Return a strategy of (field, value) for one field of a value of ``tier``, None where it is emptied."""
    keys, tags = st.sampled_from(("a", "b.c", "z")), st.sampled_from(("x", "a/b", "q-r"))
    fields = {
        "text": LINES, "detail": st.none() | BLOCKS, "until": st.sampled_from((None, "2026-03-01")),
        "links": st.none() | st.lists(keys, min_size=1, unique=True).map(sorted),
        "tags": st.none() | st.lists(tags, min_size=1, unique=True).map(sorted),
        **{1: {"kind": st.sampled_from(engine.KINDS_OF_FACT)},
           2: {"status": st.sampled_from(engine.STATUSES), "importance": st.integers(1, 5)},
           3: {"confidence": st.sampled_from(engine.CONFIDENCES), "falsifier": st.none() | LINES}}[tier],
    }
    return st.one_of([values.map(lambda value, name=name: (name, value)) for name, values in fields.items()])


@settings(max_examples=150)
@given(st.sampled_from(engine.TIERS).flatmap(lambda tier: st.tuples(st.just(tier), edits(tier))))
def test_one_edited_field_is_read_as_that_field_alone(case):
    """A note as it would be with one field changed gives exactly that field with exactly that value."""
    tier, (name, after) = case
    before = {**GIVEN[tier], "text": "a [[b]] c"}[name]
    if isinstance(after, str) and isinstance(before, str):
        assume(after.rstrip() != before.rstrip() and not re.search(r"[ \t\n]\Z", after))
    note = make(tier, **{name: after}).files["notes/k.md"]
    replica = make(tier)
    assert changes(replica, "notes/k.md", note) == ({} if after == before else {"k": {name: after}})


@given(LINES.filter(lambda text: text == text.strip()), BLOCKS)
def test_a_stale_note_gives_what_the_person_changed(text, detail):
    """A note rendered from an earlier generation is compared with that one, not with what is current or was when it was met."""
    assume(text != "first" and detail.strip() and detail.rstrip() == detail and detail != WHOLE["detail"])
    replica = make(text="first")
    note = edited(replica, "notes/k.md", ("> first\n", "> %s\n" % engine.escape(text)))
    run = replica.start()
    replica.propose(run, "k", "second", detail=detail, tags=["later"], now=True, **OWNER)
    rows, unread = read(replica, "notes/k.md", note)
    assert unread == []
    assert [(row["key"], row["new"], row["base"]["text"], row["fields"]) for row in rows] == [("k", False, "first", {"text": text})]
    assert changes(replica, "notes/k.md", replica.files["notes/k.md"]) == {}


def test_without_its_generation_a_note_is_compared_with_what_was_then():
    """A generation that is of another key, or none, does not count; then(key) is the base."""
    replica = make(text="first")
    then = {"k": value_of(replica.state, "k")}
    replica.propose(replica.start(), "other", "x", tier=2, new_subject=True, now=True, **OWNER)
    other = replica.state.subject("other").current.id
    named = re.search('generation: "(.*)"', replica.files["notes/k.md"]).group(1)
    note = edited(replica, "notes/k.md", ("> first", "> mine"))
    replica.propose(replica.start(), "k", "second", now=True, **OWNER)
    for name in (other, "P999-kkkkkkkk", "nothing", "\\ud800"):
        assert changes(replica, "notes/k.md", note.replace(named, name), then) == {"k": {"text": "mine"}}
    rows, unread = read(replica, "notes/k.md", note.replace(named, "nothing"), {})
    assert (rows, len(unread)) == ([], 1)


@pytest.mark.parametrize(("old", "new", "fields"), [
    ("> a \\[[b\\]] c", "a \\[[b\\]] d", {"text": "a [[b]] d"}),
    ("> a \\[[b\\]] c", "> a [[b]] d", {"text": "a [[b]] d"}),
    ("> a \\[[b\\]] c", "it's *new*", {"text": "it's *new*"}),
    ('status: "active"', "status: watch", {"status": "watch"}),
    ('status: "active"', "status: 'watch'", {"status": "watch"}),
    ("importance: 3", 'importance: "5"', {"importance": 5}),
    ('until: "2026-02-01"', "until: 2026-02-02", {"until": "2026-02-02"}),
    ('until: "2026-02-01"', "until:", {"until": None}),
    ('until: "2026-02-01"', "until: null", {"until": None}),
    ('until: "2026-02-01"\n', "", {"until": None}),
    ('tags:\n  - "a/b"\n  - "c"\n', "", {"tags": None}),
    ('tags:\n  - "a/b"\n  - "c"\n', "tags: []\n", {"tags": None}),
    ('tags:\n  - "a/b"\n  - "c"\n', "tags: [d, '#a', \"a\"]\n", {"tags": ["a", "d"]}),
    ('tags:\n  - "a/b"\n  - "c"\n', "tags: d\n", {"tags": ["d"]}),
    ('tags:\n  - "a/b"\n  - "c"\n', "tags: a/b, c\n", {}),
    ('tags:\n  - "a/b"\n  - "c"\n', "tags:\n- a/b\n- '#c'\n- e\n", {"tags": ["a/b", "c", "e"]}),
    ("- [[notes/a.b]]\n", "", {"links": ["z"]}),
    ("- [[notes/a.b]]\n", "q\n* [[r|an r]]\n- [[notes/s.md#x]]\n", {"links": ["q", "r", "s", "z"]}),
    ("> more\n>\n> ## of it\n> > and\n> ```\n> x\n", "", {"detail": None}),
    ("> more\n>\n> ## of it\n> > and\n> ```\n> x\n", "One.\n\n```\n## no heading\n> as it is\n```\n\n    two\n",
     {"detail": "One.\n\n```\n## no heading\n> as it is\n```\n\n    two"}),
    ("> ## of it\n", "> ## of *that*\n> \\<b>\n", {"detail": "more\n\n## of *that*\n<b>\n> and\n```\nx"}),
])
def test_a_hand_writes_it_in_many_ways(old, new, fields):
    """Quotes, lists and links count as YAML, Markdown and Obsidian write them; a quotation needs no mark."""
    replica = make()
    assert changes(replica, "notes/k.md", edited(replica, "notes/k.md", (old, new))) == ({"k": fields} if fields else {})


@pytest.mark.parametrize("title", ["Detail", "Falsified by", "Links"])
def test_a_section_that_is_gone_empties_its_field(title):
    """A removed section is an emptied field, unless the claim is gone too or a section that no note has stands there."""
    field = {"Detail": "detail", "Falsified by": "falsifier", "Links": "links"}[title]
    replica = make(3)
    note = without_section(replica.files["notes/k.md"], title)
    assert changes(replica, "notes/k.md", note) == {"k": {field: None}}
    for cut in (note.replace("> a \\[[b\\]] c\n", ""), note.replace("## Why", "## Which\n\nx\n\n## Why")):
        rows, unread = read(replica, "notes/k.md", cut)
        assert (rows, len(unread)) == ([], 1)


# -- what cannot be read --

@pytest.mark.parametrize(("old", "new"), [
    ('key: "k"', 'key: "other"'), ("tier: 2", "tier: 1"), ('trust: "confirmed"', "trust: working"), ('source: "user"', "source: agent"),
    ("tier: 2\n", "tier: 2\nauthor: me\n"), ("tier: 2\n", "tier: 2\nkind: rule\n"), ("tier: 2\n", "tier: 2\nnonsense\n"),
    ('status: "active"\n', ""), ('status: "active"', "status: done"), ("importance: 3", "importance: 9"),
    ("importance: 3", "importance: high"),
    ("2026-02-01", "2026-02-31"), ('  - "c"', "  - C D!"),
    ("# k\n", "# another\n"), ("> a \\[[b\\]] c\n", "> one\n> two\n"), ("> a \\[[b\\]] c\n", ""), ("> a \\[[b\\]] c\n", "> \u202e\n"),
    ("> a \\[[b\\]] c\n", "> a \\[[b\\]] c\n\nand more\n"), ("> a \\[[b\\]] c\n", "> " + "x" * 501 + "\n"),
    ("> because\n", "> because not\n"), ("https://x.y", "https://x.z"), ("## Why\n\n> because\n", ""),
    ("## Why", "## The owner's words\n\nso be it\n\n## Why"), ("## Why", "## Else\n\nx\n\n## Why"),
    ("## Why", "## Falsified by\n\nx\n\n## Why"), ("> more\n", "> " + "y" * 33_000 + "\n"), ("[[notes/z]]", "[[notes/No key]]"),
    ("## Links", "## Detail\n\nx\n\n## Links"), ("---\n\n#", "\n#"), (" -->\n", " -->\n\nBelow all.\n"),
])
def test_what_cannot_be_read_is_said_in_one_sentence(old, new):
    """What no edit may change, or what breaks the grammar, gives no row and a sentence; what else was changed is still read."""
    replica = make()
    note = edited(replica, "notes/k.md", (old, new))
    rows, unread = read(replica, "notes/k.md", note)
    assert (rows, len(unread)) == ([], 1)
    rows, more = read(replica, "notes/k.md", note.replace("- [[notes/a.b]]\n", ""))
    if old == "---\n\n#" or "nonsense" in new:  # where the properties are broken, nothing is
        assert rows == []
    elif old != "[[notes/z]]":
        assert ([row["fields"] for row in rows], more) == ([{"links": ["z"]}], unread)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("data", [b"", b"\n \r\n\t", b"\xef\xbb\xbf", b"\xff\xfe# k", "> \u00fc".encode("latin-1")])
def test_no_text_is_no_change(path, data):
    """An emptied file and one that is not UTF-8 change nothing, and one sentence says so."""
    rows, unread = read(make(), path, data)
    assert (rows, len(unread)) == ([], 1)


@pytest.mark.parametrize("path", ["history/k.md", "journal/R1-kkkkkkkk.md", "conflicts/k.md", "journal/R1-kkkkkkkk_2.md"])
def test_what_happened_is_not_changed_by_an_edit(path):
    """Histories, journals and cards are never read."""
    rows, unread = read(make(), path, "# anything\n\n> more\n")
    assert (rows, len(unread)) == ([], 1)


def test_a_closed_subject_is_not_changed_by_its_note():
    """The note of a close that is contested is read back as it is; a change of it is said and gives no row."""
    world = replicas.World(2, shown=True)
    here, there = world.replicas
    run = here.start()
    here.propose(run, "k", "a", tier=2, new_subject=True, now=True, **OWNER)
    there.fetch_all()
    other = there.start()
    here.propose(run, "k", "b", now=True, **OWNER)
    here.propose(run, "k", None, op="close", now=True, **OWNER)  # deeper than what stands beside it, and so before it
    there.propose(other, "k", "beside", now=True, **OWNER)
    here.fetch_all()
    for replica in world.replicas:
        replica.fetch_all()
        assert replica.state.door("k")
        assert replica.state.subject("k").current.op == "close"
        assert changes(replica, "notes/k.md", replica.files["notes/k.md"]) == {}
        assert changes(replica, "MEMORY.md", replica.files["MEMORY.md"]) == {}
        for path, shown in (("notes/k.md", "> (closed)"), ("MEMORY.md", engine.CLOSED_DOOR)):
            rows, unread = read(replica, path, edited(replica, path, (shown, "> open")))
            assert (rows, len(unread)) == ([], 1)


# -- new notes --

@pytest.mark.parametrize(("text", "fields"), [
    ("just a line", {"text": "just a line"}),
    ("# Any title\n\nWrapped\n  over lines.\n\nAnd more.\n\n- of it\n", {"text": "Wrapped over lines.", "detail": "And more.\n\n- of it"}),
    ("---\ntags: [b, '#a']\nkind: rule\nuntil: 2026-05-05\n---\n> Quoted.\n\nuser/confirmed, the owner, 2026-05-05.\n",
     {"text": "Quoted.", "tags": ["a", "b"], "kind": "rule", "until": "2026-05-05"}),
    ("---\ntier: 2\nimportance: 5\n---\n\nDo it.\n\n## Detail\n\n> One \\[[a\\]]\n>\n> two\n\n## Links\n\n- [[k]]\n",
     {"tier": 2, "importance": 5, "status": "active", "text": "Do it.", "detail": "One [[a]]\n\ntwo", "links": ["k"]}),
    ("---\ntier: 3\n---\nSo it goes.\n## Falsified by\n> it does not\n## Why\n> as it is \\[[x\n\n```\n## text\n```\n",
     {"tier": 3, "confidence": "emerging", "text": "So it goes.", "falsifier": "it does not",
      "detail": "## Why\n> as it is \\[[x\n\n```\n## text\n```"}),
])
def test_a_note_of_the_owners_is_a_new_subject(text, fields):
    """Where no subject is present, the first paragraph is its claim and the rest its detail, with the defaults of its tier."""
    replica = make()
    rows, unread = read(replica, "notes/new.md", text)
    expected = {"tier": 1, **({"kind": "fact"} if fields.get("tier", 1) == 1 else {}), **fields}
    assert (rows, unread) == ([{"key": "new", "new": True, "base": None, "fields": expected}], [])
    assert engine.is_value({"op": "set", **rows[0]["fields"]})


@pytest.mark.parametrize(("path", "text"), [
    ("notes/No Key.md", "text"), ("notes/a/b.md", "text"), ("notes/.md", "text"), ("other.md", "text"), ("notes/new.txt", "text"),
    ("notes/new.md", "# title\n\n## Detail\n\nx\n"),
    ("notes/new.md", "---\ntier: 4\n---\ntext"), ("notes/new.md", "---\ntier: 2\ntext"), ("notes/new.md", "x" * 501),
    ("notes/new.md", "# title alone"),
])
def test_a_note_that_can_be_no_subject_is_said(path, text):
    """A name that is no key, no text, a tier that there is not: no row, one sentence."""
    rows, unread = read(make(), path, text)
    assert (rows, len(unread)) == ([], 1)


def test_what_is_written_at_the_end_of_a_note_is_not_lost():
    """Below the last line, even of a note with others beside its claim, a line is said, and a section is read."""
    replica = live(dict.fromkeys("one two three why command note falsifier own detail entry summary words more ref".split(), "x"))
    text = replica.files["notes/pattern.md"]
    rows, unread = read(replica, "notes/pattern.md", text + "\nBy the way.\n")
    assert (rows, len(unread)) == ([], 1)
    note = without_section(text, "Detail")
    assert changes(replica, "notes/pattern.md", note + "\n## Detail\n\nAnew.\n") == {"pattern": {"detail": "Anew."}}


def test_an_edited_note_of_a_subject_that_was_closed_since_makes_it_anew():
    """What the person changed stands on what the note showed; with nothing changed there is no row."""
    replica = make()
    note, whole = replica.files["notes/k.md"], value_of(replica.state, "k")
    replica.propose(replica.start(), "k", None, op="close", now=True, **OWNER)
    assert replica.state.door("k") is None
    assert changes(replica, "notes/k.md", note) == {}
    rows, unread = read(replica, "notes/k.md", note.replace('"active"', '"watch"').replace('until: "2026-02-01"\n', ""))
    assert unread == []
    expected = {name: value for name, value in {**whole, "status": "watch"}.items() if name not in ("op", "until")}
    assert rows == [{"key": "k", "new": True, "base": whole, "fields": expected}]
    assert engine.is_value({"op": "set", **rows[0]["fields"]})


def test_a_field_of_a_tier_that_the_subject_left_is_said():
    """An edit of a tier's own field does not fall upon a value of another tier; the rest of the edit stands."""
    replica = make()
    note = edited(replica, "notes/k.md", ("importance: 3", "importance: 4"), ("2026-02-01", "2026-02-03"))
    replica.propose(replica.start(), "k", "x", tier=1, kind="rule", now=True, **OWNER)
    rows, unread = read(replica, "notes/k.md", note)
    assert ([row["fields"] for row in rows], len(unread)) == ([{"until": "2026-02-03"}], 1)


# -- MEMORY.md and INDEX.md --

def shelf(cold=False):
    """Return a replica with ten subjects of tier 2, of which all, or if ``cold`` none, are hot."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    if cold:
        first = "f" * 500
        for n in range(60):
            replica.propose(run, "first-%d" % n, first, tier=1, new_subject=True, **OWNER)
    for n in range(10):
        text = ("t%d [x](y) " % n) * (12 if n == 5 else 1)
        replica.propose(run, "s.k%d" % n, text.strip(), tier=2, new_subject=True, until="2026-02-01" if n % 2 else None)
    replica.sync(run)
    return replica


@pytest.mark.parametrize("cold", [False, True])
@given(text=LINES.filter(lambda text: text == text.strip() and not text.startswith(("t3", ":"))))
def test_a_changed_line_is_the_text_of_its_subject(cold, text):
    """In MEMORY.md and INDEX.md a line's text, and nothing else, is changed, whatever its marks say."""
    replica, path = shelf(cold), "INDEX.md" if cold else "MEMORY.md"
    assume("(agent" not in text and (not cold or not re.search(r"\)\Z|\u2026\Z", text)))
    view = edited(replica, path, ("t3 [x\\](y)", engine.escape(text)))
    assert changes(replica, path, view) == {"s.k3": {"text": text}}
    assert changes(replica, path, view.replace("(agent", "(user")) == {"s.k3": {"text": text}}


@pytest.mark.parametrize("path", ["MEMORY.md", "INDEX.md"])
def test_a_stale_list_gives_no_more_than_was_changed(path):
    """Lines that show what was current when the list was written, or what is current now, are no change."""
    replica = shelf(path == "INDEX.md")
    then = {"s.k%d" % n: value_of(replica.state, "s.k%d" % n) for n in range(10)}
    view = edited(replica, path, ("t3 [x", "mine [x"), ("t4 [x\\](y)", "later 4"))
    run = replica.start()
    for n in range(10):
        replica.propose(run, "s.k%d" % n, "later %d" % n)
    replica.propose(run, "s.k9", None, op="close")
    replica.sync(run)
    rows, unread = read(replica, path, view, then)
    assert ([(row["key"], row["fields"], row["base"]["text"]) for row in rows], unread) == (
        [("s.k3", {"text": "mine [x](y)"}, "t3 [x](y)")], [])


def test_a_line_of_a_new_key_is_a_new_subject_of_its_section():
    """In MEMORY.md, and there alone, a line with a bold key that is not present is a subject of the tier of its section."""
    replica = shelf()
    view = edited(replica, "MEMORY.md", ("- **s.k4**", "- **s.new** It is [[so]]\n- **s.k4**"))
    rows, unread = read(replica, "MEMORY.md", view)
    fields = {"tier": 2, "importance": 3, "status": "active", "text": "It is [[so]]"}
    assert (rows, unread) == ([{"key": "s.new", "new": True, "base": None, "fields": fields}], [])
    view = edited(replica, "MEMORY.md", ("## Current work", "## Patterns\n\n- **p**: goes\n\n## Current work"))
    assert changes(replica, "MEMORY.md", view) == {"p": {"tier": 3, "confidence": "emerging", "text": "goes"}}
    rows, unread = read(replica, "MEMORY.md", edited(replica, "MEMORY.md", ("\n10 of 10", "\n## Else\n\n- **p** goes\n\n10 of 10")))
    assert (rows, len(unread)) == ([], 2)
    for old, new in (("# MEMORY", "- **s.new** x\n# MEMORY"), ("- **s.k4**", "- **No Key** x\n- **s.k4**")):
        rows, unread = read(replica, "MEMORY.md", edited(replica, "MEMORY.md", (old, new)))
        assert (rows, len(unread)) == ([], 1)
    for line in ("- **s.new** x\n", "- [[notes/s.new|s.new]] x\n"):
        cold = shelf(True)
        rows, unread = read(cold, "INDEX.md", edited(cold, "INDEX.md", ("- [[notes/s.k4", line + "- [[notes/s.k4")))
        assert (rows, len(unread)) == ([], 1)


@pytest.mark.parametrize("path", ["MEMORY.md", "INDEX.md"])
def test_lines_that_are_gone_are_said_in_one_sentence(path):
    """Removed lines close nothing, and one sentence says so; so does a list that was written over."""
    replica = shelf(path == "INDEX.md")
    view = re.sub(r"(?m)^- .*s\.k[1-8].*\n", "", replica.files[path])
    rows, unread = read(replica, path, view)
    assert (rows, len(unread)) == ([], 1)
    rows, unread = read(replica, path, "All is forgotten.\n")
    assert (rows, len(unread)) == ([], 2)
    rows, unread = read(replica, path, "All is forgotten.\n", {})  # none of the subjects that are here now was here then
    assert (rows, len(unread)) == ([], 1)


def test_a_subject_that_had_no_room_then_is_not_gone():
    """MEMORY.md says how many lines it had: with as many there, none is gone, whichever subjects are hot by now."""
    replica = shelf()
    view = re.sub(r"(?m)^- .*s\.k1.*\n", "", replica.files["MEMORY.md"])
    assert changes(replica, "MEMORY.md", view.replace("10 of 10", "9 of 10")) == {}


def test_other_lines_are_said_a_few_of_them():
    """A line that is of no subject is said; of many, five and how many more there are."""
    replica = shelf()
    rows, unread = read(replica, "MEMORY.md", replica.files["MEMORY.md"] + "more\x1b[1m\n- [ ] a\n")
    assert (rows, len(unread)) == ([], 2)
    assert all(sentence.isprintable() for sentence in unread)
    rows, unread = read(replica, "MEMORY.md", replica.files["MEMORY.md"] + "more\n" * 1000)
    assert (rows, len(unread)) == ([], 6)


@pytest.mark.parametrize(("old", "new"), [
    ("t3 [x\\](y)", ""), ("t3 [x\\](y)", "\u200b"), ("t3 [x\\](y)", "x" * 501),
    ("- **s.k4**", "- **s.k3** other\n- **s.k3** another\n- **s.k4**"),
    ("[[notes/s.k3|note]]", "[[notes/s.k3|note]] and this too ->"),
])
def test_a_line_that_breaks_the_grammar_is_said(old, new):
    """No text, a refused character, too much of it, several texts of one key, words behind the marks: no row, a sentence."""
    replica = shelf()
    rows, unread = read(replica, "MEMORY.md", edited(replica, "MEMORY.md", (old, new)))
    assert rows == []
    assert unread


def test_the_beginning_of_a_text_is_no_text():
    """INDEX.md shows the beginning of a long text: what still ends with the ellipsis is not taken for all of it."""
    replica = shelf(True)
    assert "\u2026" in replica.files["INDEX.md"]
    rows, unread = read(replica, "INDEX.md", edited(replica, "INDEX.md", ("t5 [x", "mine [x")))
    assert (rows, len(unread)) == ([], 1)
    view = re.sub(r"t5 \[x.*\u2026", "all of it", replica.files["INDEX.md"])
    assert changes(replica, "INDEX.md", view) == {"s.k5": {"text": "all of it"}}
    whole = value_of(replica.state, "s.k5")["text"]
    assert changes(replica, "INDEX.md", re.sub(r"t5 \[x.*\u2026", lambda _: engine.escape(whole), replica.files["INDEX.md"])) == {}


# -- anything --

SCRAPS = (
    "---\n", "# k\n", "## Detail\n", "## Links\n", "> ", "- ", "**k**", "- **k** ", "[[notes/k|note]]", "- [[notes/k|k]] ", "key: k\n",
    "tags:\n", "until: [", "generation: ", "P2-kkkkkkkk", '"', "'", "\\ud800", "\\", "```\n", "\r", "\ufeff", "\u2026", " (agent)", "x",
    " ", "3 of 3 subjects are here.", "\n", "\x00", "tier: 3\n", "\u2028", "## Patterns\n", "## Why\n", "[", "]]", "|", "# ",
    "importance: ", "9", "agent/working, ")


@settings(max_examples=400)
@given(st.sampled_from(PATHS), st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(SCRAPS), max_size=30).map(
    lambda parts: "".join(parts).encode("utf-8"))))
def test_any_bytes_are_read(path, data):
    """Nothing raises, a row's fields are sound, and every sentence can be shown."""
    replica = KEPT.setdefault("replica", None) or KEPT.update(replica=make()) or KEPT["replica"]
    rows, unread = read(replica, path, data)
    assert all(isinstance(sentence, str) and sentence.isprintable() for sentence in unread)
    for row in rows:
        assert set(row) == {"key", "new", "base", "fields"}
        assert engine.is_key(row["key"])
        old = {} if row["new"] else value_of(replica.state, row["key"])
        value = {name: after for name, after in {**old, **row["fields"]}.items() if after is not None}
        assert row["fields"]
        assert engine.is_value({"op": "set", **value})


FRONT = '---\nkey: "k"\ntier: 2\nstatus: active\nimportance: 3\n%s---\n'
LONG = {
    "fences": "```\n## x\n", "quotes": "> x\n", "marks": ">", "sections": "## Detail\n", "other sections": "## x\n", "links": "- [[|#\n",
    "bars": "|", "hashes": "#", "escapes": "\\[[<%$^ ", "who": "agent/working, 2026-01-01", "pages": "[[history/",
    "entries": "[[journal/a|", "door": "- **k** x\n", "doors": "- [[notes/k|k]] x (agent\n", "words": ", agent",
    "open marks": " (agent, ", "tail": "1 of 1", "count": "a: 1, ", "blank": " ", "lines": "\r", "dashes": "-",
}


@pytest.mark.parametrize("name", LONG)
def test_a_hundred_thousand_hostile_characters_are_read(name):
    """No reading takes time by the square of what is read: this would not end within a test's time."""
    replica, text = make(), LONG[name] * (100_000 // len(LONG[name]))
    for path in ("MEMORY.md", "INDEX.md", "notes/k.md", "notes/new.md"):
        for view in (text, FRONT % "" + "# k\n\n> a\n\n## Links\n\n- [[" + text, FRONT % ("tags: [" + text + "]\n"),
                     FRONT % "" + "## Evidence\n> " + text):
            rows, unread = read(replica, path, view)
            assert len(unread) <= 21
            assert len(rows) <= 1


#: The replica that the test of any bytes reads against, since it changes nothing in it.
KEPT = {}
