"""`search` by words: what is found, what it is said to be, and that nothing is ever found that is not there."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import sys
from collections import namedtuple

import pytest
from conftest import DAY, MONDAY, Project

#: A fact is (language, key, text, questions that must find it first).
Fact = namedtuple("Fact", "key text questions")


def write(project, name, text):
    """Write a file of the owner's into the vault; return its path."""
    path = project.vault / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def find(project, *words):
    """Return the hits of a search, none where it exits 5."""
    reply = project.call("search", *words)
    assert reply.status in (0, 5), reply
    assert reply.status == 0 or reply.code == (5, "not-found")
    return reply["hits"] if reply.status == 0 else []


def first(project, *words):
    """Return the first hit of a search that must find something."""
    found = find(project, *words)
    assert found, words
    return found[0]


def by_ref(project, *words):
    """Return ref -> hit of a search."""
    return {hit["ref"]: hit for hit in find(project, *words)}


def places(found):
    """Return where hits stand, those that are folded into others too."""
    return {(place["path"], place["first"]) for hit in found for place in (hit, *hit["also"])}


def lines_of(project, hit):
    """Return the lines that a hit names; they must be there."""
    lines = (project.vault / hit["path"]).read_bytes().decode("utf-8-sig").splitlines()
    assert 1 <= hit["first"] <= hit["last"] <= len(lines), hit
    return lines[hit["first"] - 1 : hit["last"]]


def words_in(text):
    """Return the words of a text, marks of a snippet left out."""
    return set(re.findall(r"\w+", text))


@pytest.fixture(scope="module")
def full_zoo(tmp_path_factory, engine):
    """Return a project that says the word zebra in every way there is; ``ids`` names what said it. Tests get copies of it."""
    project = Project(tmp_path_factory.mktemp("zoo"), engine)
    project.ok("init", project.vault)
    project.now = MONDAY
    run = project.start()
    ids = {"run": run, "entry": project.journal(run, "The zebra gateway timed out at noon.", "--ref", "log-1")}
    ids["old"] = project.fact(run, "net.gateway", "The zebra gateway retries twice.", "--tag", "net/zebra", "--evidence", ids["entry"])
    project.now += DAY
    change = ("propose", "--run", run, "--key", "net.gateway", "--text", "A zebra gateway retries five times.", "--now")
    ids["new"] = project.ok(*change)["proposal"]
    ids["rule"] = project.owned(run, "rule.friday", "Never restart the zebra gateway on Fridays.", "--tier", "1")
    ids["seen"] = project.fact(run, "seen.abroad", "Others say that a zebra gateway is slow.", "--source", "external")
    ids["late"] = project.fact(run, "move.date", "The zebra gateway moves soon.", "--until", "2026-12-02")
    ids["shut"] = project.fact(run, "cage.door", "The cage of the zebra is open.")
    closing = ("propose", "--run", run, "--key", "cage.door", "--op", "close", "--why", "No zebra lives there now.", "--now")
    ids["closing"] = project.ok(*closing)["proposal"]
    (_, ids["one"]), (_, ids["two"]), ids["handle"] = project.conflict("zebra.food", "The zebra eats hay.", "The zebra eats grass.")
    text = "---\ntags: [Animals]\nstatus: done\ntopics:\n  - Stripes\n  - herds\ndate: 2026-12-01\n---\n# My zebra\n\n"
    text += "The zebra is mine. #wild/horse\n\n## Its stripes\n\n" + "A zebra has stripes and a mane. " * 30 + "\n"
    write(project, "mine.md", text)
    project.ids = ids
    assert project.doctor() == []
    return project


@pytest.fixture
def zoo(tmp_path, full_zoo):
    """Return a copy of the full zoo."""
    shutil.copytree(full_zoo.folder, tmp_path / "zoo")
    project = Project(tmp_path / "zoo", full_zoo.engine)
    project.now, project.ids = full_zoo.now, full_zoo.ids
    return project


# -- what a hit is --


def test_current_fact(zoo):
    """A current fact is said to be one, with all that is known of it."""
    reply = zoo.cli("search", "zebra gateway retries five")
    assert reply.status == 0
    hit = reply["hits"][0]
    assert {name: hit[name] for name in ("path", "kind", "key", "ref", "status", "trust", "source", "outside", "also")} == {
        "path": "notes/net.gateway.md",
        "kind": "note",
        "key": "net.gateway",
        "ref": zoo.ids["new"],
        "status": "current",
        "trust": "working",
        "source": "agent",
        "outside": None,
        "also": [],
    }
    assert hit["at"][:10] == "2026-12-01"


def test_owners_word(zoo):
    """What the owner said is confirmed and the user's."""
    hit = by_ref(zoo, "restart on Fridays")[zoo.ids["rule"]]
    assert (hit["kind"], hit["status"], hit["trust"], hit["source"]) == ("note", "current", "confirmed", "user")


def test_earlier_generation(zoo):
    """An earlier generation is said to be replaced, on which day and by what."""
    hit = by_ref(zoo, "gateway retries twice")[zoo.ids["old"]]
    assert (hit["kind"], hit["path"], hit["key"]) == ("history", "history/net.gateway.md", "net.gateway")
    assert hit["status"] == f"replaced on 2026-12-01 by {zoo.ids['new']}"
    assert (hit["trust"], hit["source"], hit["at"][:10]) == ("working", "agent", "2026-11-30")


def test_conflict(zoo):
    """Both values of an open conflict are found, and both are contested."""
    found = by_ref(zoo, "zebra eats")
    one, two = found[zoo.ids["one"]], found[zoo.ids["two"]]
    assert (one["status"], two["status"]) == ("contested", "contested")
    assert (one["key"], two["key"], two["kind"]) == ("zebra.food", "zebra.food", "conflict")
    assert {hit["ref"] for hit in find(zoo, "zebra eats", "--in", "conflict")} == {zoo.ids["one"], zoo.ids["two"]}


def test_answered_conflict(zoo):
    """After the owner's answer, what stood beside it is replaced by that answer."""
    answer = zoo.ok("resolve", zoo.ids["handle"], "--choose", zoo.ids["two"], "--note", "Grass.", "--human-approved")["resolution"]
    found = by_ref(zoo, "zebra eats")
    assert (found[answer]["status"], found[answer]["kind"], found[answer]["trust"]) == ("current", "note", "confirmed")
    assert answer not in by_ref(zoo, "zebra eats", "--in", "history")
    earlier = by_ref(zoo, "zebra eats", "--in", "history")
    assert {earlier[zoo.ids[name]]["status"] for name in ("one", "two")} == {f"replaced on 2026-12-01 by {answer}"}


def test_outranked(project):
    """A working value that stands beside the owner's word is outranked."""
    mine, owner = project.start("codex"), project.start("claude")
    ref = project.stage(mine, "a.b", "The wolf is grey.", "--tier", "2", "--new-subject")
    owned = project.owned(owner, "a.b", "The wolf is white.")
    assert project.call("sync", "--run", mine).status == 4
    found = by_ref(project, "wolf")
    assert (found[owned]["status"], found[ref]["status"]) == ("current", "outranked")


def test_withdrawn(project):
    """A value that was taken back is said to be withdrawn."""
    _, (run, second), _ = project.conflict("a.b", "The mole naps.", "The mole hunts.")
    project.ok("withdraw", second, "--run", run)
    assert by_ref(project, "mole hunts")[second]["status"] == "withdrawn"


def test_closed(zoo):
    """What a closed subject said is replaced by its closing, and what the closing said is closed."""
    found = by_ref(zoo, "zebra cage lives")
    assert found[zoo.ids["shut"]]["status"] == f"replaced on 2026-12-01 by {zoo.ids['closing']}"
    assert found[zoo.ids["closing"]]["status"] == "closed"
    assert not [hit for hit in find(zoo, "cage", "--current") if hit["key"] == "cage.door"]


def test_expired(zoo):
    """A fact whose last day is over is expired."""
    assert by_ref(zoo, "gateway moves soon")[zoo.ids["late"]]["status"] == "current"
    zoo.now += 5 * DAY
    zoo.fact(zoo.start(), "some.thing")
    assert by_ref(zoo, "gateway moves soon")[zoo.ids["late"]]["status"] == "expired"


def test_entry(zoo):
    """A journal entry is an entry, with its id, its ref elsewhere, its actor and its time; nobody's trust is claimed for it."""
    hit = by_ref(zoo, "timed out at noon")[zoo.ids["entry"]]
    assert (hit["kind"], hit["status"], hit["outside"], hit["actor"]) == ("journal", "entry", "log-1", "codex")
    assert (hit["path"], hit["key"], hit["trust"], hit["source"]) == (f"journal/{zoo.ids['run']}.md", None, None, None)
    assert hit["at"][:10] == "2026-11-30"


def test_free_note(zoo):
    """A file of the owner's is a free note, with its headings; nothing else is claimed of it."""
    hit = first(zoo, "zebra mane", "--in", "free")
    assert (hit["path"], hit["kind"], hit["status"], hit["trail"]) == ("mine.md", "free", "free", "My zebra > Its stripes")
    assert [hit[name] for name in ("key", "ref", "outside", "trust", "source", "actor")] == [None] * 6


def test_edited_view(project):
    """A view that was edited by hand is restored before it is asked, its bytes kept: the fact is found as it was recorded."""
    project.fact(project.start(), "a.b", "The heron stands.")
    note = project.vault / "notes" / "a.b.md"
    kept = note.read_bytes()
    edited = kept.replace(b"heron stands", b"heron falls")
    note.write_bytes(edited)
    assert {(hit["kind"], hit["status"], hit["trust"]) for hit in find(project, "heron falls")} == {("note", "current", "working")}
    assert len(find(project, "heron", "--current")) == 1
    assert note.read_bytes() == kept
    assert edited in [path.read_bytes() for path in (project.vault / ".muniment" / "recovery").iterdir()]


def test_stale_view(project):
    """A view of an earlier time that came back says what it said then: it is replaced, and no current fact."""
    run = project.start()
    old = project.fact(run, "a.b", "The first lynx.")
    note = project.vault / "notes" / "a.b.md"
    stale = note.read_bytes()
    new = project.ok("propose", "--run", run, "--key", "a.b", "--text", "The second one.", "--now")["proposal"]
    kept, project.healthy = note.read_bytes(), False
    note.write_bytes(stale)
    assert {ref: hit["status"].split()[-1] for ref, hit in by_ref(project, "lynx").items()} == {old: new}
    assert find(project, "lynx", "--current") == []
    note.write_bytes(kept)
    assert [hit["status"] for hit in find(project, "second one", "--current")] == ["current"]
    project.healthy = True


def test_all_that_a_claim_says(project):
    """A claim is found by its detail, its reason, what would refute it and its evidence as well."""
    run = project.start()
    words = ("--tier", "3", "--falsifier", "A toucan is seen.", "--why", "The macaw said so.", "--evidence", "https://ci.example/heron/7")
    detail = b"# On birds\n\nThe ostrich runs.\n\n```\nrun egret\n```\n"
    ref = project.fact(run, "a.b", "It rains.", *words, "--detail-file", "-", stdin=detail)
    for question in ("toucan", "macaw", "heron", "ostrich", "egret", "birds", "rains"):
        hit = first(project, question, "--current")
        assert (hit["ref"], hit["kind"], hit["status"]) == (ref, "note", "current"), question


def test_later_pages(monkeypatch, engine, project):
    """What stands on a later page of a history or journal is what it is there too."""
    monkeypatch.setattr(engine, "PAGE_ITEMS", 2)
    run = project.start()
    change = ("propose", "--run", run, "--key", "a.b", "--now", "--text")
    ids = [project.fact(run, "a.b", "The value is one.")]
    ids += [project.ok(*change, f"The value is {name}.")["proposal"] for name in ("two", "three", "four", "five", "six")]
    entries = [project.journal(run, f"We saw the {name} of them.", "--ref", f"log-{name}") for name in ("first", "second", "third")]
    hit = first(project, "value five", "--in", "history")
    assert (hit["path"], hit["key"], hit["ref"]) == ("history/a.b_3.md", "a.b", ids[4])
    assert hit["status"].split()[-1] == ids[5]
    assert [hit["status"] for hit in find(project, "value six", "--current")] == ["current"]
    hit = first(project, "saw the third")
    assert (hit["path"], hit["ref"], hit["outside"], hit["actor"]) == (f"journal/{run}_2.md", entries[2], "log-third", "codex")


def test_view_of_another_vault(project, bare, tmp_path):
    """A view that came from another vault is of a subject that is not known here: no state of it is claimed."""
    other = Project(tmp_path / "other", bare.engine)
    (tmp_path / "other").mkdir()
    other.ok("init", other.vault)
    run = other.start()
    other.fact(run, "far.away", "The okapi rests.")
    other.ok("propose", "--run", run, "--key", "far.away", "--text", "The okapi walks.", "--now")
    for name in ("notes/far.away.md", "history/far.away.md"):
        write(project, name, (other.vault / name).read_bytes())
    project.healthy = False  # `doctor` warns of what nothing asks for
    assert {hit["status"] for hit in find(project, "okapi")} == {"foreign"}
    assert find(project, "okapi", "--current") == []


def test_claim_with_markup(project):
    """A claim is found, shown and marked as it was made, not as its view has to write it."""
    text = r"See [[notes/x]] and <b>bold</b> %%hidden%% $$d$$ ^anchor C:\dir, `code` and ![p](q)"
    ref = project.fact(project.start(), "a.b", text)
    for question in ("bold", "hidden", "anchor", "dir", "code"):
        hit = first(project, question)
        assert (hit["ref"], hit["snippet"].replace("«", "").replace("»", "")) == (ref, text), question


def test_lines_hold_the_text(zoo):
    """Every hit names a file, and lines of it, that hold what the snippet shows."""
    found = find(zoo, "zebra", "--most", "100")
    assert {hit["kind"] for hit in found} == {"note", "history", "journal", "conflict", "free"}
    for hit in found:
        assert words_in(hit["snippet"]) <= words_in("\n".join(lines_of(zoo, hit))), hit
    for path, line in places(found):
        assert "zebra" in (zoo.vault / path).read_text("utf-8").split("\n", line - 1)[-1], (path, line)


def test_lines_of_a_long_paragraph(project):
    """A piece of a paragraph that was split names the lines that it stands on."""
    lines = [f"Sentence {n} says that all is well here, and then that all is well there." for n in range(80)]
    lines[61] = "Here the quokka sits on a line of its own, and nothing else does so at all."
    write(project, "long.md", "# Long\n\n" + "\n".join(lines) + "\n")
    hit = first(project, "quokka")
    assert any("quokka" in line for line in lines_of(project, hit))
    assert 2 < hit["first"] <= 64 <= hit["last"] < 82
    assert "«quokka»" in hit["snippet"]


def test_byte_order_mark_and_line_ends(project):
    """A file with a byte order mark and CRLF is read as any other."""
    write(project, "dos.md", b"\xef\xbb\xbf---\r\nstatus: done\r\n---\r\n# Title\r\n\r\nThe ibex climbs.\r\n")
    hit = first(project, "ibex", "--property", "status=done")
    assert (hit["first"], hit["last"], hit["trail"]) == (6, 6, "Title")
    assert "\r" not in hit["snippet"]


# -- order --


def test_current_before_earlier(project):
    """A current fact stands before its own earlier generations, also where those answer better."""
    run = project.start()
    old = project.fact(run, "a.b", "Retries: retry twice, and twice more, of the ibis gateway.")
    new = project.ok("propose", "--run", run, "--key", "a.b", "--text", "The ibis has no such thing.", "--now")["proposal"]
    assert [hit["ref"] for hit in find(project, "ibis gateway retry twice")] == [new, old]


def test_confirmed_before_working(project):
    """Of two that answer alike, what the owner confirmed comes first."""
    run = project.start()
    working = project.fact(run, "aa.bb", "The tapir sleeps at noon.")
    confirmed = project.owned(run, "cc.dd", "The tapir sleeps at noon.")
    assert [hit["ref"] for hit in find(project, "tapir sleeps")] == [confirmed, working]


def test_rarer_word_weighs_more(project):
    """What holds the rare word of a question stands before what holds its common one."""
    for n in range(8):
        write(project, f"common{n}.md", f"The server is up, number {n}.\n")
    write(project, "rare.md", "A flamingo stands.\n")
    assert first(project, "flamingo server")["path"] == "rare.md"


def test_entry_before_its_neighbours(project):
    """The entries around one that answers may come with it, but after it; those further away do not."""
    run = project.start()
    ids = [project.journal(run, text) for text in ("It rained.", "We looked at the pelican.", "Then we left.", "It snowed.")]
    found = [hit["ref"] for hit in find(project, "pelican")]
    assert found[0] == ids[1]
    assert set(found) <= set(ids[:3])


def test_folded_note(zoo):
    """The pieces of one free note are one hit, which names the others."""
    mine = [hit for hit in find(zoo, "zebra", "--most", "100") if hit["path"] == "mine.md"]
    assert len(mine) == 1
    assert {place["path"] for place in mine[0]["also"]} == {"mine.md"}
    assert len(places(mine)) == 2


def test_folded_generations(project):
    """Generations that say nearly the same are one hit, the current one, which names the others."""
    run = project.start()
    old = project.fact(run, "a.b", "The gnu herd of the north crosses the river at dawn in June.")
    text = "The gnu herd of the north crosses the river at dawn in June again."
    new = project.ok("propose", "--run", run, "--key", "a.b", "--text", text, "--now")["proposal"]
    (hit,) = find(project, "gnu herd")
    assert (hit["ref"], [place["ref"] for place in hit["also"]]) == (new, [old])


def test_generations_of_another_value(project):
    """Generations in nearly the same words that differ in a number, a name or a denial are hits of their own: none hides another."""
    run = project.start()
    old = project.fact(run, "a.b", "The gnu herd of the north crosses the river at 3 in the morning with all calves.")
    text = "The gnu herd of the north crosses the river at 9 in the morning with all calves."
    new = project.ok("propose", "--run", run, "--key", "a.b", "--text", text, "--now")["proposal"]
    assert [hit["ref"] for hit in find(project, "gnu herd at 3")] == [new, old]


def test_missing_note(project):
    """A note that was deleted is made again before it is asked for: a fact is never lost from the answers."""
    project.fact(project.start(), "a.b", "The okapi is rare.")
    project.fact(project.start(), "c.d", "The gnu is not.")
    find(project, "okapi")
    note = project.vault / "notes" / "a.b.md"
    kept = note.read_bytes()
    note.unlink()
    assert [hit["key"] for hit in find(project, "okapi", "--current")] == ["a.b"]
    assert note.read_bytes() == kept


def test_owner_file_beside_notes(project):
    """A file of the owner's whose name looks like a page of a note is left as it is."""
    project.fact(project.start(), "a.b", "The okapi is rare.")
    own = project.vault / "notes" / "a.b_2.md"
    own.write_text("My words of the okapi.\n", "utf-8")
    assert {hit["status"] for hit in find(project, "okapi")} == {"current", "free"}
    assert own.read_text("utf-8") == "My words of the okapi.\n"


def test_folded_pieces(project):
    """The pieces of one long entry are one hit, and so are those of one fact with a long detail."""
    run = project.start()
    long = "".join(f"The okapi of number {n} eats leaf {n * 7} near river {n * 11}.\n\n" for n in range(130))
    entry = project.journal(run, long)
    fact = project.fact(run, "a.b", "The okapi is rare.", "--detail-file", "-", stdin=(long * 2).encode())
    for kind, ref in (("journal", entry), ("note", fact)):
        assert [hit["ref"] for hit in find(project, "okapi", "--in", kind)] == [ref]


def test_like_notes_are_not_folded(project):
    """Two notes that say the same are two hits."""
    write(project, "one.md", "The kiwi walks.\n")
    write(project, "two.md", "The kiwi walks.\n")
    assert {hit["path"] for hit in find(project, "kiwi")} == {"one.md", "two.md"}


# -- filters --

FILTERS = {
    "current": ("--current",),
    "note": ("--in", "note"),
    "history": ("--in", "history"),
    "journal": ("--in", "journal"),
    "conflict": ("--in", "conflict"),
    "free": ("--in", "free"),
    "property": ("--property", "status=done"),
    "property of a list": ("--property", "topics=herds"),
    "property in another case": ("--property", "topics=stripes"),
    "property of a view": ("--property", "tier=1"),
    "tag": ("--tag", "animals"),
    "tag with its sign": ("--tag", "#ANIMALS"),
    "inline tag": ("--tag", "wild/horse"),
    "tag of a fact": ("--tag", "net/zebra"),
    "key": ("--key", "net."),
    "whole key": ("--key", "rule.friday"),
    "since": ("--since", "2026-12-01"),
    "source": ("--source", "agent"),
    "source of the owner": ("--source", "user"),
    "source elsewhere": ("--source", "external"),
    "trust": ("--trust", "working"),
    "trust of the owner": ("--trust", "confirmed"),
}


def pass_filter(zoo, *words):
    """Return where the word zebra is found that passes filters."""
    return places(find(zoo, "zebra", "--most", "100", *words))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("current", {"notes/move.date.md", "notes/net.gateway.md", "notes/rule.friday.md", "notes/seen.abroad.md", "notes/zebra.food.md"}),
        ("history", {"history/cage.door.md", "history/net.gateway.md"}),
        ("journal", {"journal/RUN.md"}),
        ("free", {"mine.md"}),
        ("property", {"mine.md"}),
        ("property of a list", {"mine.md"}),
        ("property in another case", {"mine.md"}),
        ("property of a view", {"notes/rule.friday.md"}),
        ("tag", {"mine.md"}),
        ("tag with its sign", {"mine.md"}),
        ("inline tag", {"mine.md"}),
        ("tag of a fact", {"notes/net.gateway.md"}),
        ("key", {"history/net.gateway.md", "notes/net.gateway.md"}),
        ("whole key", {"notes/rule.friday.md"}),
        ("source of the owner", {"notes/rule.friday.md"}),
        ("source elsewhere", {"notes/seen.abroad.md"}),
        ("trust of the owner", {"notes/rule.friday.md"}),
    ],
)
def test_filter(zoo, name, wanted):
    """A filter leaves exactly the files that it names."""
    assert {path.replace(zoo.ids["run"], "RUN") for path, _ in pass_filter(zoo, *FILTERS[name])} == wanted


def test_current_is_what_is_in_notes(zoo):
    """--current and --in note are one filter, and what stands beside a fact is not in it."""
    assert pass_filter(zoo, "--current") == pass_filter(zoo, "--in", "note") == pass_filter(zoo, "--in", "note", "--current")
    assert zoo.ids["two"] not in by_ref(zoo, "zebra eats grass", "--current")


def test_since(zoo):
    """--since leaves what was made, journalled or dated from that day on."""
    everything, late = pass_filter(zoo), pass_filter(zoo, "--since", "2026-12-01")
    assert {path.replace(zoo.ids["run"], "RUN") for path, _ in everything - late} == {"history/net.gateway.md", "journal/RUN.md"}
    assert pass_filter(zoo, "--since", "2026-11-30") == everything
    assert pass_filter(zoo, "--since", "2026-12-02") == set()


def test_kinds_part_everything(zoo):
    """Every hit is of exactly one kind."""
    parts = [pass_filter(zoo, "--in", kind) for kind in ("note", "history", "journal", "conflict", "free")]
    assert all(parts)
    assert sum(map(len, parts)) == len(pass_filter(zoo))
    assert set().union(*parts) == pass_filter(zoo)


def test_filters_together(zoo):
    """Two filters together leave what passes both, whichever two they are."""
    names = ("current", "history", "free", "property", "property of a list", "tag", "inline tag", "tag of a fact", "key", "since")
    alone = {name: pass_filter(zoo, *FILTERS[name]) for name in (*names, "source", "trust")}
    for one, two in itertools.combinations(alone, 2):
        if {one, two} in ({"current", "history"}, {"current", "free"}, {"history", "free"}):
            continue  # refused, or the second stands
        assert pass_filter(zoo, *FILTERS[one], *FILTERS[two]) == alone[one] & alone[two], (one, two)


def test_all_filters_together(zoo):
    """All filters at once leave what passes each of them."""
    given = ("--current", "--property", "tier=2", "--property", "status=active", "--tag", "net/zebra", "--key", "net")
    given += ("--since", "2026-12-01", "--trust", "working")
    assert [hit["ref"] for hit in find(zoo, "zebra", *given, "--source", "agent")] == [zoo.ids["new"]]
    assert find(zoo, "zebra", *given, "--source", "user") == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--current", "--in", "free"), (2, "usage")),
        (("--current", "--in", "history"), (2, "usage")),
        (("--in", "memory"), (2, "usage")),
        (("--property", "status"), (2, "usage")),
        (("--source", "system"), (2, "usage")),
        (("--trust", "all"), (2, "usage")),
        (("--since", "yesterday"), (3, "bad-date")),
        (("--since", "2026-02-30"), (3, "bad-date")),
        (("--since", ""), (3, "bad-date")),
        (("--most", "0"), (3, "bad-value")),
        (("--most", "1001"), (3, "bad-value")),
        (("--most", "-1"), (3, "bad-value")),
        (("--most", "many"), (2, "usage")),
        (("--mode", "words"), (2, "usage")),
        (("--mode", "vector"), (8, "missing-package")),
        (("--mode", "hybrid"), (8, "missing-package")),
        (("--queries", "-"), (2, "usage")),
        (("--tag",), (2, "usage")),
    ],
)
def test_refused(zoo, words, code):
    """A filter of another form is refused, and so is a mode that nothing here can do."""
    assert zoo.call("search", "zebra", *words).code == code


@pytest.mark.parametrize("name", ["--tag", "--key", "--property", "--since"])
def test_filter_of_any_bytes(zoo, name):
    """Whatever a filter is given, it is refused or nothing passes it."""
    for value in ("\udcff", "a\udcff=b", "'", '"', "%", "*", "\x1b[31m", "🦓", "x" * 10_000):
        reply = zoo.call("search", "zebra", name, value)
        assert reply.status in (2, 3, 5), (value, reply)
        assert reply.error["exit"] == reply.status


@pytest.mark.parametrize("value", ["", "#", " ", "##", "animals wild/horse", "animals ", "nimals", "animal", "wild", "horse", "a,b"])
def test_tag_that_is_none(zoo, value):
    """A tag that no note has is refused, or nothing has it; nor is the empty one the tag of what has no tags."""
    reply = zoo.call("search", "zebra", "--tag", value)
    assert reply.status in (2, 3, 5), reply


# -- words --


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("Set MAX_RETRY_COUNT first.", ("MAX_RETRY_COUNT", "max_retry_count", "max retry count", "RETRY_COUNT", "retry", "MAX")),
        ("Look at src/net/http_client.py again.", ("src/net/http_client.py", "http_client.py", "http_client", "net/http_client", "client")),
        ("Give --dry-run to it.", ("--dry-run", "dry-run", "dry run", "dry")),
        ("It ends with ERR_CONN_4711 often.", ("ERR_CONN_4711", "err_conn", "4711", "CONN_4711")),
        ("The compiler says E0425 here.", ("E0425", "e0425", "0425")),
        ("Call parseHTTPHeader twice.", ("parseHTTPHeader", "parsehttpheader", "parse header", "HTTP", "header")),
        ("Version v2.10.3-rc1 is broken.", ("v2.10.3-rc1", "2.10.3", "v2.10.3", "rc1")),
        ("Write to ops@example.com about it.", ("ops@example.com", "example.com", "ops")),
        ("Use std::unique_ptr<Foo> there.", ("std::unique_ptr", "unique_ptr", "unique_ptr<Foo>", "ptr")),
        (r"It lies in C:\Users\max\notes.txt now.", (r"C:\Users\max\notes.txt", "notes.txt", r"Users\max", "notes")),
        ("Commit 3f9ae1c broke the build.", ("3f9ae1c", "commit 3f9ae1c")),
        ("The port is 8080, the other one 127.0.0.1:9090.", ("8080", "127.0.0.1:9090", "127.0.0.1", "9090")),
    ],
)
def test_identifier(project, text, questions):
    """An identifier, path, flag or error code is found whole and by its parts."""
    write(project, "other.md", "Nothing of this kind is written here.\n")
    write(project, "it.md", text + "\n")
    for question in questions:
        assert first(project, "--", question)["path"] == "it.md", question


def test_whole_identifier_first(project):
    """What holds an identifier whole stands before what holds its parts apart."""
    write(project, "apart.md", "The client of the max retry is the count, max, retry and count.\n")
    write(project, "whole.md", "The setting is MAX_RETRY_COUNT here, and nothing more of it.\n")
    assert first(project, "MAX_RETRY_COUNT")["path"] == "whole.md"


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Das Café in Zürich.", "cafe zurich"),
        ("Das Cafe in Zurich.", "café zürich"),
        ("Le résumé naïf.", "RESUME naif"),
        ("Łódź i žlutý kůň.", "zluty kun"),
        ("Le re\u0301sume\u0301 nai\u0308f.", "résumé"),
        ("Le résumé naïf.", "re\u0301sume\u0301"),
        ("Das Depot in Zürich.", "Zu\u0308rich"),
        ("ΑΘΗΝΑ και Σοφία.", "αθηνα"),
        ("Ёлка стоит.", "ёлка"),
        ("STRASSE und Brücke.", "brucke"),
    ],
)
def test_diacritics(project, text, question):
    """A word is found with and without its diacritics, in either case, however its letters are composed."""
    write(project, "other.md", "Nothing.\n")
    write(project, "it.md", text + "\n")
    assert first(project, question)["path"] == "it.md"


@pytest.mark.parametrize(
    "question", ["databse", "datbaase", "databasse", "dadabase", "atabase", "conifguration", "configration", "confuguratoin", "DATABSE"]
)
def test_typing_error(project, question):
    """A mistyped word finds what was meant: a letter more, less, other, or two swapped."""
    write(project, "other.md", "Nothing of that is written here.\n")
    write(project, "it.md", "The database has a configuration.\n")
    assert first(project, question)["path"] == "it.md"


@pytest.mark.parametrize("question", ["zbera", "zexra", "zerba", "zebar", "ezbra", "zebrra", "zbra", "zebr", "xebra", "zebrx"])
def test_typing_error_in_a_short_word(project, question):
    """One edit anywhere in a word of five letters is seen through."""
    write(project, "other.md", "Nothing of that is written here.\n")
    write(project, "it.md", "The zebra stands.\n")
    assert first(project, question)["path"] == "it.md"


def test_typing_error_does_not_hide(project):
    """A word that is there is taken as it is: what is written like it does not come before it."""
    write(project, "a.md", "The house stands.\n")
    write(project, "b.md", "The horse stands.\n")
    assert [hit["path"] for hit in find(project, "horse")] == ["b.md"]


@pytest.mark.parametrize("question", ["xyzzyplugh", "qq", "zzzzzzzzzzzzzzzz", "9999999"])
def test_nothing_is_meant(zoo, question):
    """A word that is like none finds nothing."""
    assert find(zoo, question) == []


@pytest.mark.parametrize(("text", "question"), [("It retries payments.", "retry payment"), ("The payment was retried.", "retries")])
def test_word_forms(project, text, question):
    """Forms of an English word find each other."""
    write(project, "it.md", text + "\n")
    assert first(project, question)["path"] == "it.md"


@pytest.mark.parametrize("question", ["what is the zebra", "where are zebra and all of them", "How does it do that, zebra?", "the zebra"])
def test_silent_words(zoo, question):
    """Words that say nothing change nothing: neither what is found nor its order."""
    assert [(hit["path"], hit["first"]) for hit in find(zoo, question)] == [(hit["path"], hit["first"]) for hit in find(zoo, "zebra")]


def test_nothing_but_silent_words(project):
    """Where a question has no other words, those that say nothing are looked for."""
    write(project, "song.md", "To be, or not to be.\n")
    write(project, "other.md", "Nothing else.\n")
    assert [hit["path"] for hit in find(project, "to be or not to be")] == ["song.md"]
    assert find(project, "they were") == []


@pytest.mark.parametrize("question", ["", " ", "\t\n", "...", "?!", "()", '"', "*", "--", "🦓", "\u202e\u200d", "\u0301"])
def test_no_word(zoo, question):
    """A question without a word finds nothing, and is no error of another kind."""
    assert find(zoo, "--", question) == []


# -- Chinese, Japanese and Korean --

FACTS = (
    Fact("db.en", "Orders are stored in the database.", ("database", "orders", "stored orders")),
    Fact("db.zh", "订单存储在数据库中。", ("数据库", "数据", "订单", "存储订单", "订单在哪里")),
    Fact("db.ja", "注文はデータベースに保存される。", ("データベース", "データ", "注文", "保存", "注文の保存")),
    Fact("db.ko", "주문은 데이터베이스에 저장된다.", ("데이터베이스", "데이터", "주문", "저장", "주문 저장")),
    Fact("pay.en", "Failed payments are retried three times.", ("payments", "failed", "retried payments")),
    Fact("pay.zh", "支付失败后重试三次。", ("支付", "失败", "重试", "支付失败")),
    Fact("pay.ja", "決済が失敗すると三回再試行する。", ("決済", "再試行", "三回", "決済の失敗")),
    Fact("pay.ko", "결제가 실패하면 세 번 재시도한다.", ("결제", "실패", "재시도", "결제 실패")),
    Fact("log.en", "Logs are deleted every week.", ("logs", "deleted", "week")),
    Fact("log.zh", "日志每周删除。", ("日志", "删除", "每周")),
    Fact("log.ja", "ログは毎週削除される。", ("ログ", "削除", "毎週")),
    Fact("log.ko", "로그는 매주 삭제된다.", ("로그", "삭제", "매주")),
)


def test_languages(project):
    """The same facts are found in Chinese, Japanese and Korean as in English, by words of two characters too."""
    run = project.start()
    for fact in FACTS:
        project.fact(run, fact.key, fact.text)
    missed = [(fact.key, question) for fact in FACTS for question in fact.questions if first(project, question)["key"] != fact.key]
    assert missed == []


@pytest.mark.parametrize("question", ["队", "列", "試", "큐"])
def test_one_character(project, question):
    """A question of one character finds the words that hold it."""
    write(project, "it.md", "队列与再試行、큐\n")
    assert first(project, question)["path"] == "it.md"


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("使用Redis作为队列\uff0c版本7。", ("Redis", "redis 队列", "使用Redis")),
        ("注文はPostgreSQLに保存する。", ("PostgreSQL", "postgresqlに保存", "PostgreSQL 注文")),
        ("주문은 PostgreSQL에 저장한다.", ("PostgreSQL", "PostgreSQL에", "주문 postgresql")),
        ("調用parse_header函數兩次。", ("parse_header", "header", "parse_header函數")),
        ("错误码E0425出现。", ("E0425", "错误码E0425", "0425")),
    ],
)
def test_latin_words_within_cjk(project, text, questions):
    """A name that is written together with the characters around it is found, as it is in these languages."""
    write(project, "other.md", "Nothing of that.\n")
    write(project, "it.md", text + "\n")
    for question in questions:
        assert first(project, question)["path"] == "it.md", question


def test_characters_apart(project):
    """Two characters that stand apart are no word."""
    write(project, "apart.md", "数学\uff0c根据。\n")
    write(project, "word.md", "数据。\n")
    assert [hit["path"] for hit in find(project, "数据")] == ["word.md"]


def test_decomposed_korean(project):
    """Korean that is written with its letters apart is found like any other."""
    import unicodedata

    write(project, "it.md", unicodedata.normalize("NFD", "주문은 데이터베이스에 저장된다.\n"))
    assert first(project, "데이터")["path"] == "it.md"
    assert first(project, unicodedata.normalize("NFD", "주문"))["path"] == "it.md"


# -- any question --


def strange_questions(count=320):
    """Return questions that a parser of queries could take for its own language, or that no tokenizer expects."""
    chance = random.Random(14)
    syntax = ['"', "'", "*", "^", "(", ")", "{", "}", ":", "+", "-", "AND", "OR", "NOT", "NEAR", "NEAR(", ", 2)", "title:", "text :"]
    syntax += ["rowid", ";", "--", "/*", "%", "_", "\\", "?", "?1", ":a", "@a", "$a", "[", "]", "<", ">", "=", "|", "&", "~", "`", "!", "#"]
    syntax += ["''", '""']
    letters = [*"aZé", "zebra", "gateway", "ze", "bra", "\u0301", "ß", "İ", "ǆ", "数据", "據", "データ", "ー", "ｶﾞ", "한국", "\u1112\u1161"]
    letters += ["שלום", "مرحبا", "ไทย", "हिन्दी", "🦓", "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "\u202e", "\u200d", "\u200b", "\ufeff", "\ufffd"]
    letters += ["\U000e0001", "\U0010ffff", "\ue000", "²", "Ⅷ", "½"]
    control = ["\x01", "\x07", "\x08", "\t", "\x1b[31m", "\x7f", "\x85", "\x9b", "\u2028", "\ud800", "\udcff", "\udc80abc"]
    pool = [*syntax, *letters, *control, " ", " ", "  ", "1", "42", "3.14", "0x1F", "a_b", "a-b", "aB", "A1b2"]
    made = ["".join(chance.choice(pool) for _ in range(chance.randrange(1, 14))) for _ in range(count - 14)]
    made += ["x" * 10_000, "a-" * 5_000, "zebra " * 1_666, "数" * 10_000, '"' * 10_000, "(" * 10_000, "aB" * 5_000, "\u0301" * 10_000]
    return [*made, "é" * 10_000, "🦓" * 10_000, "NOT " * 2_500, "zebra AND " * 1_000, "a1" * 5_000, "\udcff" * 10_000]


def test_any_question(zoo):
    """Whatever is asked, there are hits or nothing is found; and asking many at once is asking each."""
    questions = strange_questions()
    assert len(questions) == 320
    alone = {}
    for question in questions:
        alone[question] = [(hit["path"], hit["first"]) for hit in find(zoo, "--", question)]
    assert any(alone.values())
    assert not all(alone.values())
    sound = [q for q in questions if q.strip() and not re.search("[\n\r\ud800-\udfff]", q)]
    answers = zoo.ok("search", "--queries", "-", stdin="\n".join(sound).encode())["answers"]
    assert [answer["question"] for answer in answers] == sound
    assert {a["question"]: [(hit["path"], hit["first"]) for hit in a["hits"]] for a in answers} == {q: alone[q] for q in sound}


def test_any_bytes_of_a_command_line(zoo):
    """A question with bytes that are not UTF-8 is answered by its words, in a process too."""
    if sys.platform == "win32":
        pytest.skip("a command line is text here")
    assert zoo.cli("search", b"zebra \xff gateway")["hits"]
    assert zoo.cli("search", b"\xff\xfe").code == (5, "not-found")
    assert zoo.cli("search", b"zebra \xff gateway", plain=True).status == 0


def test_question_that_begins_with_a_hyphen(zoo):
    """After -- a question may begin with a hyphen; without it, it is an option that is not there."""
    assert zoo.cli("search", "--", "--zebra")["hits"]
    assert zoo.cli("search", "--zebra").code == (2, "usage")


# -- many questions, and how answers look --


def test_queries(zoo):
    """A file of questions is answered line by line in order; blank lines are none, and one answer is enough for exit 0."""
    asked = zoo.folder / "asked.txt"
    asked.write_bytes(b"zebra\r\n\n  \nxyzzyplugh\nthe zebra eats hay\n")
    reply = zoo.cli("search", "--queries", asked, "--most", "2")
    assert reply.status == 0
    assert [(a["question"].strip(), a["mode"], len(a["hits"])) for a in reply["answers"]] == [
        ("zebra", "lexical", 2),
        ("xyzzyplugh", "lexical", 0),
        ("the zebra eats hay", "lexical", 2),
    ]
    assert reply["answers"][2]["hits"] == find(zoo, "the zebra eats hay", "--most", "2")
    assert zoo.cli("search", "--queries", asked, plain=True).status == 0


def test_queries_from_standard_input(zoo):
    """Questions may come on standard input, and filters stand for all of them."""
    answers = zoo.cli("search", "--queries", "-", "--in", "free", stdin=b"zebra\nzebra mane")["answers"]
    assert [{hit["path"] for hit in answer["hits"]} for answer in answers] == [{"mine.md"}, {"mine.md"}]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"xyzzyplugh\n", (5, "not-found")),
        (b"xyzzyplugh\nqqqq\n", (5, "not-found")),
        (b"", (2, "usage")),
        (b"zebra\n\xff\n", (2, "bad-encoding")),
    ],
)
def test_queries_without_an_answer(zoo, data, code):
    """Nothing found for any question is exit 5; what is not UTF-8 is refused."""
    assert zoo.call("search", "--queries", "-", stdin=data).code == code


def test_queries_that_cannot_be_read(zoo):
    """A file of questions that is none is refused, and so is no question, or both."""
    assert zoo.call("search", "--queries", zoo.folder).code == (2, "usage")
    assert zoo.call("search", "--queries", zoo.folder / "none.txt").code == (2, "usage")
    assert zoo.call("search").code == (2, "usage")
    assert zoo.call("search", "one", "two").code == (2, "usage")


def test_shape(zoo):
    """An answer says how it was made and what it is of, and every hit has the same fields."""
    reply = zoo.cli("search", "zebra", "--most", "100")
    assert set(reply.data) == {"question", "mode", "hits", "root", "pending", "complete", "why", "skipped", "warnings"}
    assert (reply["question"], reply["mode"], reply["pending"], reply["complete"]) == ("zebra", "lexical", 0, True)
    assert (reply["skipped"], reply["warnings"]) == ([], [])
    assert reply["why"]
    assert os.path.realpath(reply["root"]) == os.path.realpath(zoo.vault)
    fields = {"path", "first", "last", "trail", "kind", "key", "ref", "outside", "at", "source", "trust", "actor", "also"}
    for hit in reply["hits"]:
        assert set(hit) == {*fields, "score", "snippet", "status"}
        assert all(set(place) == {"path", "first", "last", "ref"} for place in hit["also"])
    scores = [hit["score"] for hit in reply["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert zoo.cli("search", "zebra", "--most", "100").data == reply.data
    many = zoo.cli("search", "--queries", "-", stdin=b"zebra\n")
    assert set(many.data) == {"answers", "root", "pending", "complete", "why", "skipped", "warnings"}
    assert set(many["answers"][0]) == {"question", "mode", "hits"}


def test_as_asked(zoo):
    """By words alone because it was asked for so, or because nothing else can be: the answer is the same."""
    asked = zoo.cli("search", "zebra", "--mode", "lexical")
    assert (asked["mode"], asked["hits"]) == ("lexical", zoo.cli("search", "zebra")["hits"])


def test_human_output(zoo):
    """In words each hit has its path and lines, what it is, and the words that match."""
    out = zoo.cli("search", "zebra gateway", plain=True).out
    shown = ("notes/net.gateway.md:", "current", "working", zoo.ids["new"], "«zebra»", "history/net.gateway.md:")
    for part in (*shown, f"replaced on 2026-12-01 by {zoo.ids['new']}"):
        assert part in out, part
    assert zoo.cli("search", "xyzzyplugh", plain=True).status == 5


def test_explain(zoo):
    """--explain gives the parts of each score, of which meaning has none here; without it there are none."""
    hits = zoo.cli("search", "zebra gateway", "--explain")["hits"]
    for hit in hits:
        assert set(hit["explain"]) == {"coverage", "bm25", "words", "meaning", "words_weight", "meaning_weight"}
        assert (hit["explain"]["meaning"], hit["explain"]["meaning_weight"]) == (None, 0)
        assert 0 < hit["explain"]["coverage"] <= 1
    assert [{name: value for name, value in hit.items() if name != "explain"} for hit in hits] == find(zoo, "zebra gateway")
    assert zoo.cli("search", "zebra gateway", "--explain", plain=True).status == 0


def test_explain_what_stands_beside(project):
    """An entry that came for what its neighbour says is explained by the same parts."""
    run = project.start()
    for text in ("It rained.", "We looked at the pelican.", "Then we left."):
        project.journal(run, text)
    hits = find(project, "pelican", "--explain")
    assert {frozenset(hit["explain"]) for hit in hits} == {frozenset(hits[0]["explain"])}


def test_most(zoo):
    """--most is how many hits there are at most, 10 where it is not given; fewer are the same first ones."""
    for n in range(15):
        write(zoo, f"more/{n:02}.md", f"A zebra of number {n}.\n")
    everything = find(zoo, "zebra", "--most", "1000")
    assert len(everything) > 15
    assert find(zoo, "zebra") == everything[:10]
    assert find(zoo, "zebra", "--most", "1") == everything[:1]


def test_most_of_all(project):
    """A thousand hits may be asked for, and as many as there are come."""
    for n in range(250):
        write(project, f"all/{n:03}.md", f"The giraffe of number {n}.\n")
    assert len(find(project, "giraffe", "--most", "1000")) == 250


def test_long_note_leaves_room(project):
    """A long note, all of which answers well, does not drive another note out."""
    write(project, "puffin.md", "".join(f"# Puffin {n}\n\nThe puffin.\n\n" for n in range(450)))
    write(project, "other.md", "Of many birds in the north " + "and of the sea there " * 10 + "one is the puffin.\n")
    assert {hit["path"] for hit in find(project, "puffin")} == {"puffin.md", "other.md"}


def test_snippet(project):
    """A snippet is one line, and shows the words that match in the piece that holds them."""
    text = "Many words come before it. " * 40 + "\nThen the axolotl\nswims. " + "Many words follow. " * 10
    write(project, "it.md", "# Title\n\n" + text + "\n")
    shown = first(project, "axolotl swims")["snippet"]
    assert "«axolotl»" in shown
    assert "\n" not in shown
    assert len(shown) < 500


@pytest.mark.parametrize(
    ("text", "question", "word"),
    [
        ("这是一个很长的段落\uff0c" * 60 + "最后重试三次。", "重试", "重试"),
        ("これはとても長い段落です。" * 60 + "最後に三回再試行する。", "再試行", "再試行"),
        ("Many words come before it. " * 40 + "Then parseHTTPHeader fails.", "header", "parseHTTPHeader"),
    ],
)
def test_snippet_holds_the_word(project, text, question, word):
    """The piece that is shown holds what was asked, also where it stands within a longer word; and it is no whole page."""
    write(project, "it.md", text + "\n")
    shown = first(project, question)["snippet"]
    assert word in shown.replace("«", "").replace("»", "")
    assert len(shown) < 500


def test_title_and_headings(project):
    """A note is found by its title, its headings, its name and its tags."""
    text = "---\ntitle: Of the marina\ntags: [seaside]\n---\n# Boats\n\n## Rowing\n\nThey lie there.\n"
    write(project, "places/harbour.md", text)
    write(project, "other.md", "Nothing.\n")
    for question in ("marina", "boats", "rowing", "harbour", "seaside", "places"):
        assert first(project, question)["path"] == "places/harbour.md", question


def test_key_is_found(project):
    """A fact is found by its key, whole and by its parts, and by its id."""
    ref = project.fact(project.start(), "checkout.next-step", "Build it.")
    for question in ("checkout.next-step", "checkout", "next-step", "next step", ref):
        assert first(project, question)["ref"] == ref, question


def test_entry_by_its_ref(project):
    """An entry is found by its ref elsewhere and by its id."""
    run = project.start()
    entry = project.journal(run, "It was seen.", "--ref", "JIRA-4711")
    project.journal(run, "Another was seen.")
    assert first(project, "JIRA-4711")["ref"] == entry
    assert first(project, entry)["ref"] == entry


# -- what is read, and what is not --


def test_memory_is_no_hit(project):
    """MEMORY.md and INDEX.md only repeat what is found elsewhere; files of these names elsewhere are the owner's."""
    project.fact(project.start(), "a.b", "The lemur sits.")
    assert {hit["path"] for hit in find(project, "lemur")} == {"notes/a.b.md"}
    assert find(project, "records instructions doors") == []
    write(project, "sub/MEMORY.md", "A lemur of mine.\n")
    write(project, "sub/INDEX.md", "A lemur of mine too.\n")
    assert {hit["path"] for hit in find(project, "lemur")} == {"notes/a.b.md", "sub/INDEX.md", "sub/MEMORY.md"}


def test_left_out(cli, project):
    """Dot folders, dot files, node_modules and other files are not read; nothing is missing without them."""
    for folder in (".git", ".obsidian-old", "sub/.trash", "node_modules", "sub/node_modules/p"):
        write(project, folder + "/a.md", "A bison.\n")
    for name in (".hidden.md", "a.txt", "md", "a.md.bak"):
        write(project, name, "A bison.\n")
    assert cli("search", "bison").code == (5, "not-found")
    for name in ("a.md", "sub/node.md", "sub/UPPER.MD", "node_modules_of_mine/a.md", "b.c.md"):
        write(project, name, "A bison.\n")
    reply = cli("search", "bison")
    assert {hit["path"] for hit in reply["hits"]} == {"a.md", "sub/node.md", "sub/UPPER.MD", "node_modules_of_mine/a.md", "b.c.md"}
    assert reply["complete"] is True


def test_skipped(cli, project, engine):
    """What cannot be read is said with its reason, in every answer and also where nothing is found; the rest is found."""
    write(project, "good.md", "A stork.\n")
    write(project, "big.md", "A stork. " * (engine.INDEXED_BYTES_MAX // 9 + 1))
    write(project, "latin.md", b"A stork in Z\xfcrich.\n")
    wanted = {"big.md", "latin.md"}
    if os.name == "posix":
        (project.vault / "link.md").symlink_to("good.md")
        (project.vault / "nowhere.md").symlink_to("no such file")
        (project.vault / "round.md").symlink_to("round.md")
        os.mkfifo(project.vault / "pipe.md")
        wanted |= {"link.md", "nowhere.md", "round.md", "pipe.md"}
    reply = cli("search", "stork")
    assert {hit["path"] for hit in reply["hits"]} == {"good.md"}
    assert {row["path"] for row in reply["skipped"]} == wanted
    assert len({row["reason"] for row in reply["skipped"]}) == (4 if os.name == "posix" else 2)
    assert reply["complete"] is False
    assert cli("search", "stork", plain=True).out.count("skipped: ") == len(wanted)
    assert cli("index")["skipped"] == cli("index", "--status")["skipped"] == reply["skipped"]
    for name in wanted:
        (project.vault / name).unlink()
    assert cli("search", "stork")["complete"] is True


def test_largest_file(project, engine, monkeypatch):
    """A file of exactly the largest size is read; one byte more is too much."""
    assert engine.INDEXED_BYTES_MAX == 2 * 1024 * 1024
    monkeypatch.setattr(engine, "INDEXED_BYTES_MAX", 100)
    write(project, "it.md", b"egret " + b"x" * 94)
    assert first(project, "egret")["path"] == "it.md"
    write(project, "it.md", b"egret " + b"x" * 95)
    assert find(project, "egret") == []


def test_skipped_until_mended(project, engine, monkeypatch):
    """What was skipped is read as soon as it can be, also where there is nothing in it then."""
    monkeypatch.setattr(engine, "INDEXED_BYTES_MAX", 100)
    write(project, "good.md", "A stork.\n")
    for broken in (b"stork " * 100, b"stork \xff"):
        for mended, count in ((b"", 1), (b"A stork is here.\n", 2)):
            path = write(project, "it.md", broken)
            reply = project.ok("search", "stork")
            assert ([row["path"] for row in reply["skipped"]], len(reply["hits"])) == (["it.md"], 1)
            path.write_bytes(mended)
            reply = project.ok("search", "stork")
            assert (reply["skipped"], len(reply["hits"]), reply["complete"]) == ([], count, True), (broken[:9], mended)


def test_unreadable(project, bound_by_modes):
    """A file or folder that may not be read is skipped, with its reason."""
    write(project, "good.md", "A crane.\n")
    shut = [write(project, "shut.md", "A crane.\n"), write(project, "closed/a.md", "A crane.\n").parent]
    for path in shut:
        path.chmod(0)
    reply = project.cli("search", "crane", prefix=bound_by_modes)
    for path in shut:
        path.chmod(0o700)
    assert {hit["path"] for hit in reply["hits"]} == {"good.md"}
    assert {row["path"] for row in reply["skipped"]} == {"shut.md", "closed"}
    assert {hit["path"] for hit in find(project, "crane")} == {"good.md", "shut.md", "closed/a.md"}


def test_folder_named_like_a_note(project):
    """A folder whose name ends as a note's is a folder: what is in it is found, and it is no hit itself."""
    write(project, "x.md/in.md", "A newt.\n")
    assert [hit["path"] for hit in find(project, "newt")] == ["x.md/in.md"]


def test_linked_folder(project):
    """A link to a folder is not followed, out of the vault or round in it, and that is said."""
    if os.name != "posix":
        pytest.skip("a link may need rights here")
    outside = project.folder / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("A newt.\n", encoding="utf-8")
    write(project, "in.md", "A newt.\n")
    (project.vault / "out").symlink_to(outside)
    (project.vault / "round").symlink_to(".")
    project.healthy = False  # `doctor` warns of what leads out of the vault
    reply = project.ok("search", "newt")
    assert [hit["path"] for hit in reply["hits"]] == ["in.md"]
    assert {row["path"] for row in reply["skipped"]} == {"out", "round"}


def test_name_that_is_not_utf8(project):
    """A file or folder whose name is not UTF-8 is skipped with its reason; the others are found."""
    try:
        for name in (b"bad\xff.md", b"bad\xfe/a.md"):
            write(project, os.fsdecode(name), "A toad.\n")
    except (OSError, UnicodeEncodeError):
        pytest.skip("names are UTF-8 here")
    write(project, "good.md", "A toad.\n")
    reply = project.cli("search", "toad")
    assert reply.status == 0, reply
    assert {hit["path"] for hit in reply["hits"]} == {"good.md"}
    assert len(reply["skipped"]) == 2
    assert all(row["reason"] for row in reply["skipped"])
    assert project.cli("search", "toad", plain=True).status == 0


@pytest.mark.parametrize(
    "name", ["a b.md", "ü — 漢字.md", "#tag [x] (y).md", "a'b\"c.md", "🦓.md", "%s %d.md", "a\nb.md", "-x.md", "sub dir/ü/a.md"]
)
def test_any_name(project, name):
    """A note may have any name that its filesystem takes."""
    try:
        write(project, name, "A skunk.\n")
    except OSError:
        pytest.skip("no such name can be here")
    assert [hit["path"] for hit in find(project, "skunk")] == [name]
    assert project.call("search", "skunk", plain=True).status == 0


def test_terminal_escapes(cli, project):
    """Nothing that a terminal would obey is printed as it is: not of names, headings, texts, questions or refs."""
    trick = "\x1b[31mred\x1b[0m \x9b31m \x07 \u202ertl\u202c \x7f"
    text = f"---\ntitle: {trick}\n---\n# Head {trick}\n\nThe okapi {trick} stands.\r over it\n"
    write(project, "okapi.md", text)
    try:
        write(project, "x\x1b[31m\x9bokapi.md", b"okapi \xff")
        write(project, "y\x1b[31m\x9bokapi.md", text)
    except OSError:
        pass  # names of this kind cannot be here
    write(project, "front.md", f"---\nstatus: {trick}\nokapi\n---\nIt.\n")
    asked = ["okapi", "okapi \x1b[31m \u202e", "\x1b[31mxyzzyplugh"]
    for words in (*(("search", question, "--explain") for question in asked), ("index",), ("index", "--status")):
        reply = cli(*words, plain=True)
        assert {c for c in reply.out + reply.err if not c.isprintable()} == {"\n"}, words
    many = cli("search", "--queries", "-", stdin="okapi \x1b[31m\x9b\n".encode(), plain=True)
    assert {c for c in many.out if not c.isprintable()} == {"\n"}
    assert "\x1b" not in cli("search", "okapi").out


# -- never what was --


def edit(path):
    """Write another text."""
    path.write_bytes(b"A gecko stands.\n")


def edit_unseen(path):
    """Edit a file so that its size and times are as they were."""
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"dodo", b"rhea"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def rename(path):
    """Give a file another name."""
    path.rename(path.with_name("other.md"))


def truncate(path):
    """Leave nothing of a file."""
    path.write_bytes(b"")


def shorten(path):
    """Cut a file off."""
    path.write_bytes(path.read_bytes()[:9])


def replace_by_folder(path):
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()


def replace_by_garbage(path):
    """Put what is not UTF-8 in the place of a file."""
    path.write_bytes(b"dodo \xff")


def hide(path):
    """Give a file a name that is left out."""
    path.rename(path.with_name(".it.md"))


@pytest.mark.parametrize("change", [os.unlink, edit, edit_unseen, rename, truncate, shorten, replace_by_folder, replace_by_garbage, hide])
def test_never_as_it_was(cli, project, change):
    """Once a file was changed, nothing that it said is found, in its old place or at all."""
    path = write(project, "sub/it.md", "# Title\n\nThe dodo walks.\n")
    write(project, "stays.md", "The emu walks.\n")
    assert {hit["path"] for hit in cli("search", "dodo walks")["hits"]} == {"sub/it.md", "stays.md"}
    change(path)
    reply = cli("search", "dodo walks")
    assert reply.status == 0
    said = [(hit["path"], "dodo" in hit["snippet"]) for hit in reply["hits"]]
    wanted = {rename: [("sub/other.md", True), ("stays.md", False)], edit_unseen: [("stays.md", False), ("sub/it.md", False)]}
    assert sorted(said) == sorted(wanted.get(change, [("stays.md", False)]))


def test_engine_changes_are_seen(project):
    """What a command has just recorded is found by the next search, and what it replaced is found as replaced."""
    run = project.start()
    old = project.fact(run, "a.b", "The auk dives.")
    assert by_ref(project, "auk")[old]["status"] == "current"
    new = project.ok("propose", "--run", run, "--key", "a.b", "--text", "The auk swims.", "--now")["proposal"]
    assert {ref: hit["status"].split()[0] for ref, hit in by_ref(project, "auk").items()} == {old: "replaced", new: "current"}
    entry = project.journal(run, "An auk was seen.")
    assert entry in by_ref(project, "auk")


def test_records_of_another_copy(project, tmp_path):
    """What came in with another copy's ledger is found by the next search, and what it replaced is replaced."""
    old = project.fact(project.start(), "a.b", "The okapi rests.")
    assert by_ref(project, "okapi")[old]["status"] == "current"
    shutil.copytree(project.folder, tmp_path / "copy")
    other = Project(tmp_path / "copy", project.engine)
    run = other.start("claude")
    new = other.ok("propose", "--run", run, "--key", "a.b", "--text", "The okapi walks.", "--now")["proposal"]
    entry = other.journal(run, "The okapi was seen walking.")
    for path in (other.vault / ".muniment" / "ledger").iterdir():
        if not (project.vault / ".muniment" / "ledger" / path.name).exists():
            shutil.copy(path, project.vault / ".muniment" / "ledger")
    assert {ref: hit["status"].split()[0] for ref, hit in by_ref(project, "okapi").items()} == {
        old: "replaced",
        new: "current",
        entry: "entry",
    }


def test_damaged_ledger(project):
    """Reading goes on over a damaged ledger, searching too; it is said, and what is before the damage is found."""
    project.fact(project.start(), "a.b", "The okapi rests.")
    (ledger,) = (project.vault / ".muniment" / "ledger").iterdir()
    kept, project.healthy = ledger.read_bytes(), False
    ledger.write_bytes(kept + b"{}\n")
    reply = project.cli("search", "okapi")
    assert (reply.status, [hit["status"] for hit in reply["hits"]]) == (0, ["current"])
    assert reply["warnings"]
    assert project.cli("search", "xyzzyplugh").status == 5
    ledger.write_bytes(kept)
    project.healthy = True


def test_read_only(project, read_only, bound_by_modes):
    """A vault that cannot be written is searched in memory; that is said, and not a byte changes."""
    project.fact(project.start(), "a.b", "The ounce rests.")
    write(project, "mine.md", "The ounce is mine.\n")
    read_only()
    before = project.tree()
    reply = project.cli("search", "ounce", prefix=bound_by_modes)
    assert reply.status == 0, reply
    assert [(hit["path"], hit["status"]) for hit in reply["hits"]] == [("notes/a.b.md", "current"), ("mine.md", "free")]
    assert reply["warnings"]
    assert project.cli("search", "xyzzyplugh", prefix=bound_by_modes).code == (5, "not-found")
    assert project.cli("index", "--status", prefix=bound_by_modes).status == 0
    assert project.tree() == before


def test_vault_with_nothing_in_it(cli):
    """A vault without a word finds nothing."""
    assert cli("search", "zebra").code == (5, "not-found")


def test_without_a_vault(bare):
    """Where there is no vault there is nothing to search."""
    bare.healthy = False
    assert bare.cli("search", "zebra").code == (5, "no-vault")
    assert bare.cli("index").code == (5, "no-vault")


def test_suggest_takes_no_filter(project):
    """What would be ignored is refused."""
    project.fact(project.start(), "a.b", "The okapi is rare.")
    assert project.cli("search", "--suggest").status == 0
    for words in (("--current",), ("--in", "note"), ("--tag", "x"), ("--key", "a"), ("--trust", "confirmed")):
        assert project.cli("search", "--suggest", *words).code == (2, "usage")
