"""The reader of note folders and of bullet files makes of each note one claim, and says what it could not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest
import readers
from hypothesis import example, given
from hypothesis import strategies as st

notes = readers.load("notes")


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes files into a folder and reads it, every operation checked."""
    root = tmp_path / "notes"
    root.mkdir()

    def read(files, kind="notes"):
        for path, text in files.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return readers.check(notes.read(root, kind))

    read.root = root
    return read


def note(body="The body.", **properties):
    """Return the text of a note with these properties."""
    return "---\n%s---\n%s\n" % ("".join("%s: %s\n" % pair for pair in properties.items()), body)


def one(operations):
    """Return the only claim of these operations."""
    (claim,) = readers.claims(operations).values()
    return claim


@pytest.mark.parametrize(("kind", "fields"), [
    ("user", {"tier": 1, "kind": "pref"}),
    ("feedback", {"tier": 1, "kind": "rule"}),
    ("reference", {"tier": 1, "kind": "fact"}),
    ("project", {"tier": 2, "importance": 3, "status": "active"}),
    ("'Feedback'", {"tier": 1, "kind": "rule"}),
    ("recipe", {"tier": 2, "importance": 3, "status": "active", "tags": ["recipe"]}),
    ("", {"tier": 2, "importance": 3, "status": "active"}),
])
def test_the_type_of_a_note_says_its_tier(folder, kind, fields):
    """Each type has the tier and kind of the table; another is a tag, and none means current work."""
    claim = one(folder({"a.md": note(type=kind)}))
    assert {name: claim[name] for name in fields} == fields
    assert ("kind" in claim) == (claim["tier"] == 1)


def test_what_claude_code_nests_below_metadata_counts(folder):
    """Type and time are found below `metadata` too; the names on top win; what the tool keeps for itself is not said."""
    text = ("---\nname: a\ndescription: Said.\nmetadata: \n  node_type: memory\n  type: feedback\n  originSessionId: 1f-2\n"
            "  modified: 2026-09-03T01:02:03.456Z\n  description: Not this.\n---\n")
    claim = one(folder({"a.md": text}, "claude-memory"))
    assert (claim["tier"], claim["kind"], claim["text"]) == (1, "rule", "Said.")
    assert claim["dated"] == "2026-09-03T01:02:03.456Z"
    assert "detail" not in claim


@pytest.mark.parametrize(("text", "said", "detail"), [
    (note("# Head\n\nBody.", description="Described."), "Described.", "# Head\n\nBody."),
    (note("# Head\n\nBody.", title="Titled"), "Titled", "# Head\n\nBody."),
    (note("# Titled\n\nBody.", title="Titled"), "Titled", "Body."),
    ("# Head #\n\nBody.\n", "Head", "Body."),
    ("Before.\n\n## Head\n\nBody.\n", "Head", "Before.\n\n## Head\n\nBody."),
    ("First one. Second one.\n", "First one.", "First one. Second one."),
    ("\n> - Quoted item\n> goes on.\n\nBody\n", "Quoted item goes on.", "> - Quoted item\n> goes on.\n\nBody"),
    ("```\n# no heading\n```\n\nVersion 3.5 it is\n", "Version 3.5 it is", "```\n# no heading\n```\n\nVersion 3.5 it is"),
    ("Only this.", "Only this.", None),
    ("# A\n\nFirst one. Second one.\n\n## Head\n", "First one.", "First one. Second one.\n\n## Head"),
    ("# a.md\n\nOnly this.\n", "Only this.", None),
    ("# a\n\n> Quoted. All\n> of it.\n\nBody.\n", "Quoted. All of it.", "> Quoted. All\n> of it.\n\nBody."),
    ("# a\n\n> %s. B\n" % ("x" * 499), "x" * 499 + ".", "> %s. B" % ("x" * 499)),
    ("# a\n\n## Head\n\n- One\n- Two\n", "One", "## Head\n\n- One\n- Two"),
    ("# a\n\n```\ncode\n```\n", "a", "```\ncode\n```"),
    ("# a\n", "a", None),
    ("# A+\n\nBody.\n", "A+", "Body."),
    ("Before.\n\n# a\n\nBody.\n", "Before.", "Before.\n\n# a\n\nBody."),
    (note("# a\n\nBody.", description="Described."), "Described.", "Body."),
    ("---\n\nA thematic break.\n", "A thematic break.", "---\n\nA thematic break."),
])
def test_text_is_description_or_heading_or_first_sentence(folder, text, said, detail):
    """The first of them that is there is the text; the body is the detail, without a heading that says the same."""
    claim = one(folder({"a.md": text}))
    assert (claim["text"], claim.get("detail")) == (said, detail)


def test_a_long_text_is_whole_in_the_detail(folder):
    """A description that is too long begins in the text and stands whole in the detail, and that is said."""
    long = "word " * 200
    operations = folder({"a.md": note("Body.", description=long)})
    claim = one(operations)
    assert len(claim["text"]) <= 500
    assert claim["text"].rstrip("…") in long
    assert claim["detail"] == long.strip() + "\n\nBody."
    assert readers.receipt(operations, "converted") == ["a.md"]


def test_a_body_beyond_the_limit_is_cut_and_names_the_kept_file(folder):
    """A detail holds 32 KiB; the file whose hash stands at its end has the rest."""
    operations = folder({"a.md": "# Head\n\n" + "ü line of text\n" * 4_000})
    claim = one(operations)
    assert len(claim["detail"].encode("utf-8")) <= 32_768
    assert operations[0]["files"][0]["sha256"] in claim["detail"].splitlines()[-1]
    assert readers.receipt(operations, "converted") == ["a.md"]


def test_why_is_the_paragraph_that_says_so(folder):
    """The paragraph up to the next bold one is the reason; it stays in the detail, since an update drops the reason."""
    body = "No mocks.\n\n**Why:** They passed\nand production failed.\n**How to apply:** always\n"
    claim = one(folder({"a.md": note(body, description="No mocks in tests.")}))
    assert claim["why"] == "They passed and production failed."
    assert claim["detail"] == body.strip()


def test_links_are_those_to_notes_that_exist(folder):
    """Wikilinks, links to files, `related` and `vault:` name notes by path, name or id; what names none, and code, is none."""
    body = ("See [[b]], [[sub/c|the c]], [[nothing]], [d](sub/d%20d.md#x), [[Titled]], vault:sub/e, [[a]] and `[[f]]`.\n"
            "\n```\n[[g]]\n```\n")
    operations = folder({
        "a.md": '---\nrelated:\n  - "[[h]]"\n  - sub/i\n---\n' + body, "b.md": "b", "sub/c.md": "c", "sub/d d.md": "d",
        "t.md": note(name="Titled"), "sub/e.md": "e", "f.md": "f", "g.md": "g", "h.md": "h", "sub/i.md": "i"})
    assert readers.claims(operations)["a"]["links"] == ["b", "h", "sub.c", "sub.d-d", "sub.e", "sub.i", "t"]


@pytest.mark.parametrize(("related", "links", "detail"), [
    ("[[gone]]", None, "- related: [[gone]]"),
    ("gone", None, "- related: gone"),
    ("b", ["b"], None),
    ("b, c.md", ["b", "c"], None),
    ("b, gone", ["b"], "- related: gone"),
    ("\n  - '[[b]]'\n  - '[[gone|that one]]'\n  - sub/none\n  - vault:tools/none\n  - c", ["b", "c"],
     "- related: [[gone|that one]], sub/none, vault:tools/none"),
    ("\n  - '[[b]], [[c]]'\n  - '[the c](c.md)'\n  - vault:b\n  - '[[a]]'", ["b", "c"], None),
    ("\n  - '[[b]], since it says why'", ["b"], "- related: [[b]], since it says why"),
    ("\n  - {see: '[[b]]', also: x}", ["b"], "- related.1.see: [[b]]\n- related.1.also: x"),
    ("", None, None),
])
def test_what_is_related_and_no_note_is_kept(folder, related, links, detail):
    """An item of `related` that is more than a link to a note is a line of the detail, like a property that has no field."""
    claim = readers.claims(folder({"a.md": note("Body. All.", related=related), "b.md": "b", "c.md": "c"}))["a"]
    assert claim.get("links") == links
    assert claim["detail"] == "Body. All." + ("\n\n" + detail if detail else "")


@pytest.mark.parametrize("said", ["](a", "[x](a", "[x](a.md#", ".md#", '](a.md "', "[[a", "vault:"])
def test_links_that_do_not_end_are_read_in_bounded_time(said):
    """A text of links that are never closed takes time by its length, not by the square of it."""
    start = time.process_time()
    notes.targets_in("](a" + said * 20_000)
    notes.WHOLE_LINK.sub("", "](a" + said * 20_000)
    assert time.process_time() - start < 10


def test_a_name_that_several_notes_have_is_no_link_from_elsewhere(folder):
    """A name of two notes is taken from the same folder, else it is nothing."""
    operations = folder({"x/a.md": "[[n]]", "x/n.md": "n", "y/n.md": "n", "z/a.md": "[[n]]"})
    assert readers.claims(operations)["x.a"]["links"] == ["x.n"]
    assert "links" not in readers.claims(operations)["z.a"]


def test_more_links_and_tags_than_fit_are_said(folder):
    """The first 32 links and 12 tags are kept; the others are left, by name."""
    names = ["n%02d" % n for n in range(40)]
    operations = folder({"a.md": note(" ".join("[[%s]]" % n for n in names), tags=" ".join(names[:14])), **{n + ".md": n for n in names}})
    claim = readers.claims(operations)["a"]
    assert claim["links"] == names[:32]
    assert claim["tags"] == names[:12]
    assert len(readers.receipt(operations, "left")) == 2


def test_notes_of_an_archive_are_set_and_closed(folder):
    """An archived note keeps the key of the place that it came from; what has taken its place since is current."""
    operations = folder({"archive/a.md": "Was.", "archive/b.md": "Old.", "b.md": "New.", "c/archive/d.md": "Done.",
                         "archive/card.md": note("Moved.", id="tools/card")})
    said = [(o["key"], o.get("text")) for o in operations if o["do"] == "propose"]
    assert said == [("a", "Was."), ("a", None), ("b", "Old."), ("b", None), ("tools.card", "Moved."), ("tools.card", None),
                    ("c.d", "Done."), ("c.d", None), ("b", "New.")]


def test_an_index_that_does_not_fit_is_said(folder):
    """A line without a note is left; a note without a line is imported and said; neither is an error."""
    index = ("# Index\n\nSome prose.\n\n- [A](a.md) — hook\n- [Gone](gone.md): was here\n- [Old](old.md) - archived\n"
             "- [[w]] wiki\n- A fact of its own\n- [Page](https://example.com/x.md)\n")
    operations = folder({"MEMORY.md": index, "a.md": "A.", "b.md": "B.", "w.md": "W.", "archive/old.md": "Old."})
    assert {*readers.claims(operations)} == {"a", "b", "w", "old", "index.a-fact-of-its-own", "index.page"}
    assert readers.receipt(operations, "left") == ["MEMORY.md line 6: [Gone](gone.md): was here", "MEMORY.md line 3"]
    assert readers.receipt(operations, "converted") == ["MEMORY.md line 7: [Old](old.md) - archived", "b.md"]


def test_an_empty_note_is_not_said_to_be_imported(folder):
    """What says nothing is left, and no note that the index misses; a line that names it has its note."""
    operations = folder({"MEMORY.md": "- [A](a.md)\n- [E](e.md)\n", "a.md": "A.", "e.md": "", "x.md": "\n"})
    assert sorted(readers.receipt(operations, "left")) == ["e.md", "x.md"]
    assert readers.receipt(operations, "converted") == []


@pytest.mark.parametrize("line", ["- [readme](README.md) hook", "- [[readme]]", "- [r](./readme.md#top)"])
def test_a_page_that_the_index_names_is_a_note(folder, line):
    """README.md and its like are notes where MEMORY.md points to them; others stay pages about the folder."""
    operations = folder({"MEMORY.md": line + "\n- [b](b.md)\n", "README.md": "About.", "b.md": "See [[readme]].", "sub/README.md": "x",
                         "AGENTS.md": "Do."})
    claims = readers.claims(operations)
    assert {*claims} == {"readme", "b"}
    assert claims["b"]["links"] == ["readme"]
    assert sorted(readers.receipt(operations, "left")) == ["AGENTS.md", "sub/README.md"]
    assert readers.receipt(operations, "converted") == []


def test_an_index_below_names_the_pages_beside_it(folder):
    """A target is looked for from the index's folder first, then from the top."""
    operations = folder({"sub/MEMORY.md": "- [r](readme.md)\n- [c](../claude.md)\n", "sub/readme.md": "S.", "readme.md": "R.",
                         "claude.md": "C."})
    assert {*readers.claims(operations)} == {"sub.readme", "claude"}
    assert readers.receipt(operations, "left") == ["readme.md"]


def test_an_index_of_plain_bullets_asks_for_no_lines(folder):
    """A MEMORY.md that points to no file is a list of facts, and no index that other notes must stand in."""
    operations = folder({"MEMORY.md": "- Tests run with make.\n", "a.md": "A."})
    assert {*readers.claims(operations)} == {"a", "tests-run-with-make"}
    assert readers.receipt(operations, "converted") == []


@pytest.mark.parametrize(("path", "key"), [
    ("feedback_testing.md", "feedback-testing"),
    ("Über Uns & Mehr.md", "uber-uns-mehr"),
    ("tools/proxy.md", "tools.proxy"),
    ("v2..notes-.x.md", "v2.notes.x"),
    ("con.md", "note-con"),
    ("NUL/x.md", "note-nul.x"),
    ("x/nul.md", "x.nul"),
    ("a.MD", "a"),
    ("a.markdown", "a"),
])
def test_keys_are_of_file_names(folder, path, key):
    """Folders are the first parts; what the grammar has not becomes a hyphen; names of devices are kept off."""
    assert [*readers.claims(folder({path: "x"}))] == [key]


@pytest.mark.parametrize("path", ["日本語.md", "日本 api.md", "a" * 90 + ".md", "-.md", "x/" + "b" * 50 + "/" + "c" * 50 + ".md"])
def test_a_name_that_cannot_be_written_has_its_hash(folder, path):
    """Its key ends with a hash of the path alone, whatever lies beside it."""
    (key,) = readers.claims(folder({path: "x"}))
    assert key[-7] == "-"
    assert key in readers.claims(folder({"zz.md": "y", "0.md": "z"}))


@pytest.mark.parametrize(("first", "second", "key"), [
    ("Use jq.md", "use_jq.md", "use-jq"),
    ("use-jq.md", "use_jq.md", "use-jq"),
    ("a.markdown", "a.md", "a"),
    ("tools.proxy.md", "tools/proxy.md", "tools.proxy"),
])
def test_two_files_with_one_key_are_refused(folder, first, second, key):
    """No file takes another's key, nor gives it one: both are named, and nothing is read."""
    assert {*readers.claims(folder({first: "1", "other.md": "2"}))} == {key, "other"}
    with pytest.raises(notes.CannotRead, match=r"%s and %s .*\b%s\b" % (re.escape(first), re.escape(second), re.escape(key))):
        folder({second: "3"})


def test_a_claim_with_the_key_of_a_note_is_refused(folder):
    """A card's claim and a note below a folder of the card's name cannot both be that subject."""
    with pytest.raises(notes.CannotRead, match=r"tools/proxy\.md and tools/proxy/port\.md .*tools\.proxy\.port"):
        folder({"tools/proxy.md": CARD, "tools/proxy/port.md": "It listens."})


def test_an_archived_note_is_the_past_of_what_has_its_key(folder):
    """What was archived under another spelling is set and closed before what has its key now; an empty file takes no key."""
    operations = folder({"archive/use_jq.md": "Was.", "use-jq.md": "Is.", "Use jq.md": ""})
    assert [(o["key"], o.get("text")) for o in operations if o["do"] == "propose"] == [
        ("use-jq", "Was."), ("use-jq", None), ("use-jq", "Is.")]


@pytest.mark.parametrize("live", [{}, {"a-b.md": "Is."}])
@pytest.mark.parametrize("two", ["archive/a-b.md", "archive/archive/A b.md"])
def test_two_archived_notes_of_one_key_are_refused_by_name(folder, live, two):
    """None knows which of them was first."""
    with pytest.raises(notes.CannotRead) as caught:
        folder({"archive/A b.md": "Was.", two: "Was too.", **live})
    assert "archive/A b.md" in str(caught.value)
    assert two in str(caught.value)
    folder({"archive/A b.md": "Was.", two: "", **live})


def test_a_card_and_its_archived_copy_keep_their_evidence(folder):
    """Entries that two cards of one key need do not share an id."""
    operations = folder({"tools/proxy.md": CARD, "archive/proxy.md": CARD})
    assert len([o for o in operations if o["do"] == "journal"]) == 2


def test_reading_twice_gives_the_same_and_a_change_another_run(folder):
    """The label is of the content: the same files give the same lines, a changed, added or renamed one another label."""
    first = folder({"a.md": "A.", "b.md": "B."})
    assert folder({}) == first
    labels = {first[1]["run"]}
    for change in ({"a.md": "A!"}, {"c.md": "C."}, {"a.md": "A."}):
        labels.add(folder(change)[1]["run"])
    (folder.root / "c.md").rename(folder.root / "d.md")
    labels.add(folder({})[1]["run"])
    assert len(labels) == 5
    assert folder({}, "claude-memory")[1]["run"] not in labels


def test_the_source_names_the_real_folder_and_each_file(folder, tmp_path):
    """Through a link the folder is the same store; each file that was read stands there with the hash of its bytes."""
    operations = folder({"b.md": "B.", "a.md": "\ufeffA.\r\n"})
    link = tmp_path / "link"
    link.symlink_to(folder.root)
    assert notes.read(link) == operations
    assert operations[0]["name"] == str(folder.root.resolve()).replace(os.sep, "/")
    assert [os.path.basename(file["path"]) for file in operations[0]["files"]] == ["a.md", "b.md"]  # noqa: PTH119
    assert all(os.path.isabs(file["path"]) for file in operations[0]["files"])  # noqa: PTH117
    assert readers.claims(operations)["a"]["text"] == "A."


def test_what_is_no_note_is_said(folder, tmp_path):
    """Links are not followed; other files, hidden ones and pages about the folder are left, by name."""
    (tmp_path / "outside.md").write_text("Outside.", "utf-8")
    folder({"a.md": "A.", "x.png": b"\x89", ".obsidian/app.md": "{}", "README.md": "About.", "empty.md": "", "sub/CLAUDE.md": "Do."})
    (folder.root / "out.md").symlink_to(tmp_path / "outside.md")
    (folder.root / "loop").symlink_to(folder.root)
    operations = folder({})
    assert [*readers.claims(operations)] == ["a"]
    left = " ".join(readers.receipt(operations, "left"))
    assert all(name in left for name in ("x.png", ".obsidian", "README.md", "empty.md", "sub/CLAUDE.md", "out.md", "loop"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("sign", ["\n", "\t", "\x1b", "\u200e", "\u202e", "\udcff"])
def test_a_name_that_stands_in_no_line_is_left(folder, sign):
    """A file or folder whose name the engine refuses is said, the name escaped, and the others are read."""
    bad = ["x%sy.md" % sign, "sub%s/b.md" % sign, "x%sy.png" % sign, ".x%sy" % sign]
    try:
        folder({"a.md": "A. [[x]]", **dict.fromkeys(bad, "B.")})
        (folder.root / ("l%s.md" % sign)).symlink_to(folder.root)
    except OSError:
        pytest.skip("this filesystem has no such names")
    operations = folder({})
    escaped = "\\u%04x" % ord(sign)
    assert [*readers.claims(operations)] == ["a"]
    assert [file["path"].rpartition("/")[2] for file in operations[0]["files"]] == ["a.md"]
    assert sorted(readers.receipt(operations, "left")) == sorted(
        name % escaped for name in (".x%sy", "l%s.md", "sub%s/", "x%sy.md", "x%sy.png"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("sign", ["\n", "\x1b", "\u202e"])
def test_a_path_that_stands_in_no_line_is_refused(tmp_path, sign):
    """A store whose own path the engine refuses is not read; the path is named, escaped."""
    root = tmp_path / ("no%stes" % sign)
    root.mkdir()
    (root / "a.md").write_text("- A.\n", "utf-8")
    for path in (root, root / "a.md"):
        with pytest.raises(notes.CannotRead, match=r"no\\u%04xtes" % ord(sign)):
            notes.read(path)
    assert run(root)[:2] == (3, b"")


def test_refused_characters_become_escapes(folder):
    """Nothing that the engine refuses is handed on; tabs and line ends stay where a detail may have them."""
    operations = folder({"a.md": "# A\u200bb\x1b[1m\n\n\tone\x00\u202etwo\r\nthree\rfour\u2028five\n"})
    claim = one(operations)
    assert claim["text"] == "A\\u200bb\\u001b[1m"
    assert claim["detail"] == "\tone\\u0000\\u202etwo\nthree\nfour\\u2028five"
    assert readers.receipt(operations, "converted") == ["a.md"]


@pytest.mark.parametrize(("value", "dated"), [
    ("2026-05-01", "2026-05-01T00:00:00.000Z"),
    ("2026-05-01T10:11:12.3456Z", "2026-05-01T10:11:12.345Z"),
    ("2026-05-01 10:11", "2026-05-01T10:11:00.000Z"),
    ('"2026-05-01T01:00:00+02:00"', "2026-04-30T23:00:00.000Z"),
    ("2026-05-01T23:00:00-0230", "2026-05-02T01:30:00.000Z"),
    ("2026-02-30", None),
    ("yesterday", None),
])
def test_times_are_those_of_the_frontmatter(folder, value, dated):
    """A day or time is read in its zone, UTC where it has none; what is none stays in the detail."""
    claim = one(folder({"a.md": note("Body", modified=value)}))
    assert claim.get("dated") == dated
    assert ("modified" in claim.get("detail", "")) == (dated is None)


def test_the_last_change_counts(folder):
    """Of several times the first of updated, modified, created counts; a file's own time never."""
    claims = readers.claims(folder({
        "a.md": note(created="2026-01-01", modified="2026-02-02"), "b.md": note(updated="2026-03-03", created="2026-01-01"), "c.md": "C."}))
    assert [claims[key].get("dated", "")[:10] for key in "abc"] == ["2026-02-02", "2026-03-03", ""]


def test_other_properties_are_in_the_detail(folder):
    """What no field carries is not lost: it is listed below the body; a name that is the file's is not said again."""
    claim = one(folder({"a-b.md": note("Body. All.", name="A b", aliases='[x, "y, z"]', deep="{k: v, l: [1, 2]}", nothing="")}))
    assert claim["detail"] == "Body. All.\n\n- aliases: x, y, z\n- deep.k: v\n- deep.l: 1, 2"


def test_whose_word_it_is(folder):
    """Claude Code writes its memory itself; of other notes only a card says who said it; nothing is ever confirmed."""
    files = {"a.md": note(type="user"), "b.md": note(source="user"), "c.md": note(source="medição"), "d.md": note(source="documento"),
             "e.md": note(source="https://example.com", confianca="alta")}
    said = {key: claim["source"] for key, claim in readers.claims(folder(files)).items()}
    assert said == {"a": "legacy", "b": "user", "c": "agent", "d": "external", "e": "legacy"}
    operations = folder({}, "claude-memory")
    assert {claim["source"] for key, claim in readers.claims(operations).items() if key in "ae"} == {"agent"}
    assert {claim["trust"] for claim in readers.claims(operations).values()} == {"working"}


CARD = """---
pageType: tool
id: tools/proxy
title: The proxy
created: 2026-01-01
updated: 2026-04-01
verificado: 2026-04-02
source: medicao
confianca: alta
status: atual
tags: [net, "Área Web"]
related:
  - "[[entities/server]]"
claims:
- id: port
  text: "It listens on 8080."
  status: atual
  evidence:
    kind: medicao
    date: 2026-04-01
    cmd: "ss -ltn | grep 8080"
    note: one line
- id: owner
  text: Ana runs it.
  evidence:
    - {kind: user, date: 2026-03-01, note: "Said so, twice"}
    - https://wiki.example/proxy
- id: old-port
  text: It listened on 3128.
  status: histórico
  evidence: {kind: medicao, date: 2026-02-01, cmd: ss -ltn, exit: 1}
---
Between the net and [[server]].
"""


def test_a_card_keeps_its_claims_and_measurements(folder):
    """Each claim is a subject below its card's, with its evidence; a measurement stays one, and says what was not told."""
    operations = folder({"tools/proxy.md": CARD, "entities/server.md": "The server."})
    claims = readers.claims(operations)
    card = claims["tools.proxy"]
    assert (card["text"], card["source"], card["tags"], card["links"]) == (
        "The proxy", "agent", ["area-web", "net", "tool"], ["entities.server"])
    assert card["detail"] == "Between the net and [[server]].\n\n- verificado: 2026-04-02\n- confianca: alta\n- status: atual"
    (port,) = claims["tools.proxy.port"]["evidence"]
    assert (port["command"], port["date"], port["exit"]) == ("ss -ltn | grep 8080", "2026-04-01", 0)
    assert port["note"].endswith("one line")
    assert port["note"] != "one line"
    assert claims["tools.proxy.old-port"]["evidence"] == [{"command": "ss -ltn", "date": "2026-02-01", "exit": 1}]
    assert readers.closed(operations) == {"tools.proxy.old-port"}
    entry, url = claims["tools.proxy.owner"]["evidence"]
    assert url == "https://wiki.example/proxy"
    (said,) = [o for o in operations if o["do"] == "journal"]
    assert (said["id"], said["dated"][:10]) == (entry, "2026-03-01")
    assert "Said so, twice" in said["text"]
    assert readers.receipt(operations, "converted") == ["tools/proxy.md: claim 1"]


def test_a_card_that_holds_no_more_closes_with_its_claims(folder):
    """A card of the status obsoleto is set and closed, and so is each of its claims."""
    operations = folder({"a.md": CARD.replace("status: atual\ntags", "status: obsoleto\ntags")})
    assert readers.closed(operations) == {"a", "a.port", "a.owner", "a.old-port"}


@pytest.mark.parametrize(("said", "value"), [
    ("a: 1", {"a": "1"}),
    ("a: x: y", {"a": "x: y"}),
    ("a: issue #12 # and #13", {"a": "issue #12 # and #13"}),
    ("a: 'it''s'  # comment", {"a": "it's"}),
    (r'a: "q\"\u00fc\n"', {"a": 'q"ü\n'}),
    (r'a: "a\x41\U0001F600\ud83d\ude00\uD83D\uDE00"', {"a": "aA\U0001f600\U0001f600\U0001f600"}),
    (r'a: "\0\a\b\t\n\v\f\r\e\ \"\/\\\N\_\L\P"', {"a": '\0\a\b\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029'}),
    ('a: "x\ty\\\tz"', {"a": "x\ty\tz"}),
    (r'"\x61": ["\x41", "\\x41"]', {"a": ["A", r"\x41"]}),
    ('a: "one\\\n  \\ two\\\\\n  three\\ \n  four"', {"a": "one two\\ three four"}),
    ("a:\nb: ~", {"a": None, "b": None}),
    ("# c\n\na: [x, 'y, z', \"w\", [[l]], https://e.x/y]", {"a": ["x", "y, z", "w", "[[l]]", "https://e.x/y"]}),
    ("a: [[wiki link]]", {"a": "[[wiki link]]"}),
    ("a: [[x], [y, z]]\nb:\n- - 1\n  - 'c': 2\n    d: 3", {"a": [["x"], ["y", "z"]], "b": [["1", {"c": "2", "d": "3"}]]}),
    ("a: [x,\n  y]\nb: 1", {"a": ["x", "y"], "b": "1"}),
    ("a:\n- x\n-  'y'\n\n- [z]\nb: 1", {"a": ["x", "y", ["z"]], "b": "1"}),
    ("a:\n  - x: 1\n    y:\n      - z\n  - https://e.x\nb: 1", {"a": [{"x": "1", "y": ["z"]}, "https://e.x"], "b": "1"}),
    ("a:\n  b:\n    c: 1\nd: {}", {"a": {"b": {"c": "1"}}, "d": {}}),
    ("a: |\n  x\n   y: z\n\n  w\nb: >-\n  x\n  y\n\n  z", {"a": "x\n y: z\n\nw", "b": "x y\n\nz"}),
    ("a: goes\n  on\nb: 'goes\n  on: too'", {"a": "goes on", "b": "goes on: too"}),
    ("a: **bold**\nb: `code`\nc: @x", {"a": "**bold**", "b": "`code`", "c": "@x"}),
    ('"a b": 1\nc d: 2\nä: 3', {"a b": "1", "c d": "2", "ä": "3"}),
    ("a: {b: 'x, y', \"c\": [1], d: }", {"a": {"b": "x, y", "c": ["1"], "d": None}}),
])
def test_frontmatter_is_read(said, value):
    """The part of YAML that notes have is read, everything as text."""
    assert notes.Frontmatter("a.md", said.split("\n"), 2).parse() == value


@pytest.mark.parametrize(("said", "line"), [
    ("a: 1\nb", 3),
    ("a: 1\na: 2", 3),
    ("a: 1\n  b: 2", 3),
    ("a: 1\n - b", 3),
    ('a: "x', 2),
    ("a: 'x' y", 2),
    (r'a: "\q"', 2),
    ("a: [x", 2),
    ("a: [x y]]", 2),
    ("a: [,]", 2),
    ("a: {x}", 2),
    ("a: {x: 1, x: 2}", 2),
    ("a: {[x]: 1}", 2),
    ("a: &x 1", 2),
    ("a: *x", 2),
    ("a: !!str x", 2),
    ("a:\n\tb: 1", 3),
    ("  a: 1\nb: 2", 3),
    ("a:\n  - x\n y", 4),
    ("a:\n  b: 1\n   c: 2", 4),
])
def test_frontmatter_that_does_not_parse_names_file_and_line(folder, said, line):
    """Nothing is guessed: the file, the line and what is wrong are named, and nothing is read."""
    with pytest.raises(notes.CannotRead, match=r"sub/a\.md line %d: " % line):
        folder({"sub/a.md": "---\n%s\n---\nBody.\n" % said, "b.md": "B."})


@pytest.mark.parametrize(("said", "reason"), [
    (r"\q", r"\q is no escape"),
    (r"\x4", r"\x needs 2 hex"),
    (r"\u00g0", r"\u needs 4 hex"),
    (r"\U0001F60", r"\U needs 8 hex"),
    (r"\u\u0660\u0660\u0660\u0660", r"\u needs 4 hex"),
    ("\\x\u0664\u0661", r"\x needs 2 hex"),
    (r"\U00110000", r"\U00110000 is beyond"),
    (r"\ud83d", r"\ud83d is half"),
    (r"\ude00\ud83d", r"\ude00 is half"),
    (r"\ud83dx\ude00", r"\ud83d is half"),
    (r"\U0000D83D", r"\U0000D83D is half"),
])
def test_an_escape_that_names_no_character_is_refused_for_what_it_is(said, reason):
    """Of what YAML's double quotes cannot hold the reason is named."""
    with pytest.raises(notes.CannotRead, match=r"^a\.md line 2: .*" + re.escape(reason)):
        notes.Frontmatter("a.md", ['a: "%s"' % said], 2).parse()


@pytest.mark.parametrize(("files", "said"), [
    ({"a.md": "---\ntype: user\nBody.\n"}, "a.md line 1: "),
    ({"a.md": note(a="[" * 5_000)}, "a.md"),
    ({"a.md": note(a="\n" + "- " * 5_000)}, "a.md"),
    ({"a.md": b"Fine.\n\xff\n"}, "a.md line 2: "),
    ({"a.md": note("B", claims="[x]")}, "a.md: "),
    ({"a.md": "---\nclaims:\n  - id: x\n---\n"}, "a.md: claim 1"),
    ({"a.md": "---\nclaims:\n  - {id: x, text: 1}\n  - {id: X, text: 2}\n---\nB\n"}, "a.md: claim 2"),
    ({".muniment/format.json": "{}", "a.md": "A."}, "vault"),
    ({}, "no note"),
    ({"README.md": "About.", "x.txt": "x"}, "no note"),
])
def test_what_cannot_be_read_is_said(folder, files, said):
    """Damage, what has two meanings, and what holds nothing to import are refused with the place."""
    with pytest.raises(notes.CannotRead, match=said):
        folder(files)


def test_an_unreadable_file_is_no_silence(folder, monkeypatch):
    """A note that cannot be opened ends the reading: an import without it would look whole."""
    folder({"a.md": "A.", "b.md": "B."})
    whole = notes.Path.read_bytes

    def denied(path):
        if path.name == "b.md":
            raise PermissionError(13, "Permission denied")
        return whole(path)

    monkeypatch.setattr(notes.Path, "read_bytes", denied)
    with pytest.raises(notes.CannotRead, match=r"b\.md: "):
        folder({})


BULLETS = """\ufeff# Project memory

@AGENTS.md

## Build & test

- Run `make test` before a commit
  and never skip it.
  - nested one
    - deeper

  A paragraph of it.
* Python 3.9
goes on lazily.
1. an ordered step

## Con

+ Says nothing of devices.
- [link text](https://example.com) is named
- Says nothing of devices.

```
- no bullet
```
"""


def test_each_top_level_bullet_is_a_subject(tmp_path):
    """Its key is of heading and first words, what is nested is its detail, and what is no bullet is said with its lines."""
    path = tmp_path / "CLAUDE.md"
    path.write_bytes(BULLETS.replace("\n", "\r\n").encode("utf-8"))
    operations = readers.check(notes.read(path))
    claims = readers.claims(operations)
    assert [*claims] == ["build-test.run-make-test-before-a-commit", "build-test.python-3-9-goes-on-lazily",
                         "note-con.says-nothing-of-devices", "note-con.link-text-is-named"]
    first, second, *_ = claims.values()
    assert first["text"] == "Run `make test` before a commit and never skip it."
    assert first["detail"] == "- nested one\n  - deeper\n\nA paragraph of it."
    assert (first["tier"], first["importance"], first["source"]) == (2, 3, "legacy")
    assert second["text"] == "Python 3.9 goes on lazily."
    assert readers.receipt(operations, "left") == ["CLAUDE.md line 3", "CLAUDE.md line 15", "CLAUDE.md lines 23-25"]
    assert readers.receipt(operations, "converted") == ["CLAUDE.md line 21"]
    assert {c["source"] for c in readers.claims(notes.read(path, "claude-memory")).values()} == {"agent"}


def test_an_index_by_itself_makes_no_facts_of_its_doors(tmp_path):
    """A line that names a note beside the file is left, since the note has the fact; one that names nothing there is a fact."""
    path = tmp_path / "MEMORY.md"
    path.write_text("- [A](a.md) - hook\n- [[b]]\n- [C](c.md) is gone\n- A fact.\n- [x](../../x.md)\n- [[%s]]\n" % ("y" * 300), "utf-8")
    for name in "ab":
        (tmp_path / (name + ".md")).write_text(name, "utf-8")
    operations = readers.check(notes.read(path))
    assert [*readers.claims(operations)] [:3] == ["c-is-gone", "a-fact", "x"]
    assert readers.receipt(operations, "left") == ["MEMORY.md line 1: [A](a.md) - hook", "MEMORY.md line 2: [[b]]"]


def test_bullets_that_begin_alike_have_keys_of_their_own(tmp_path):
    """The first keeps its key when others follow; those have a hash of all they say, whatever else there is, and that is said."""
    path = tmp_path / "MEMORY.md"

    def keys_of(*lines):
        path.write_text("".join("- %s\n" % line for line in lines), "utf-8")
        operations = readers.check(notes.read(path))
        return {claim["text"]: key for key, claim in readers.claims(operations).items()}, readers.receipt(operations, "converted")

    one, two, three = ("one two three four five six " + letter for letter in "ABC")
    first, said = keys_of(one, "日本", "con")
    assert said == []
    more, said = keys_of(one, two, "日本", "new", "con", three)
    assert {text: more[text] for text in first} == first
    assert len({*more.values()}) == 6
    assert said == ["MEMORY.md line 2", "MEMORY.md line 6"]
    fewer, _ = keys_of(one, three)
    assert fewer.items() <= more.items()


def test_a_bullet_leaves_a_note_its_key(folder):
    """A line of the index whose words give the key of a note ends with a hash, and that is said."""
    operations = folder({"MEMORY.md": "## Tools\n\n- proxy\n", "tools/proxy.md": "The note."})
    claims = readers.claims(operations)
    assert claims.pop("tools.proxy")["text"] == "The note."
    ((key, claim),) = claims.items()
    assert (key[:12], claim["text"]) == ("tools.proxy-", "proxy")
    assert readers.receipt(operations, "converted") == ["MEMORY.md line 3"]


def test_a_view_of_a_vault_is_not_read_back(tmp_path):
    """A MEMORY.md that the engine made is no older memory."""
    path = tmp_path / "MEMORY.md"
    path.write_text("# MEMORY\n\n- **a** b\n<!-- muniment view sha256:%s -->\n" % ("0" * 64), "utf-8")
    with pytest.raises(notes.CannotRead, match="view"):
        notes.read(path)


LINES = st.lists(st.sampled_from([
    "---", "a: 1", "- x", "  - y: [1, {b: c}]", "claims:", "- text: t", "  evidence: {cmd: c, date: 2026-01-01}", "type: user",
    "related: [[b]]", "description: |", "  x", "", "# H", "- [B](b.md) - hook", "**Why:** because", "[[b]] [c](c.md)", "```", "1. z", "\tq",
    "status: obsoleto", "tags: [a, '#B c']", "con", "modified: 2026-01-01"]) | st.text(st.characters(), max_size=12), max_size=14)


@given(name=st.sampled_from(["a.md", "MEMORY.md", "archive/a.md", "Con.md"]), lines=LINES, closed=st.booleans())
@example(name="a.md", lines=["a: [", '  "x'], closed=True)
def test_any_text_is_read_or_refused(tmp_path_factory, name, lines, closed):
    """Whatever a file holds, the reader gives operations that the engine takes, or says why it cannot."""
    root = tmp_path_factory.mktemp("any")
    (root / "archive").mkdir()
    (root / "b.md").write_text("B.", "utf-8")
    text = "\n".join(["---", *lines, "---", "Text."] if closed else lines)
    (root / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    for path in (root, root / name):
        operations = read_or_none(path)
        assert operations is None or operations == readers.check(notes.read(path))


def read_or_none(path):
    """Return what the reader makes of a path, or None where it says that it cannot read it."""
    try:
        return readers.check(notes.read(path))
    except notes.CannotRead:
        return None


def run(*words):
    """Run the reader as a script; return its exit status and both streams."""
    done = subprocess.run([sys.executable, str(readers.LEGACY / "notes.py"), *map(str, words)], capture_output=True, check=False,
                          env={"PATH": "", "PYTHONUTF8": "0", "LC_ALL": "C", "SYSTEMROOT": "C:\\Windows"})
    return done.returncode, done.stdout, done.stderr


def test_the_script_prints_lines_or_one_reason(folder):
    """Exit 0 with JSON Lines in UTF-8 whatever the console says; 3 with the reason and nothing else; 2 for a wrong call."""
    operations = folder({"ü.md": "Größe 漢字."}, "claude-memory")
    status, out, err = run(folder.root, "--format", "claude-memory")
    assert (status, err) == (0, b"")
    assert [json.loads(line) for line in out.decode("utf-8").splitlines()] == operations
    (folder.root / "a.md").write_bytes(b"\xff")
    status, out, err = run(folder.root)
    assert (status, out) == (3, b"")
    assert err.startswith(b"a.md line 1")
    assert run(folder.root / "nothing")[:2] == (3, b"")
    assert run(folder.root, "--format", "bimri")[:2] == (2, b"")


def test_nothing_is_written(folder):
    """Reading leaves the folder as it was."""
    folder({"a.md": "A.", "sub/b.md": "B."})
    before = {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in folder.root.rglob("*")}
    folder({})
    assert {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in folder.root.rglob("*")} == before
