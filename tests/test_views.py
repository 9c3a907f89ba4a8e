"""Views: no text can be more than the text it is, every subject has one door, and nothing passes its ceiling.

Whatever agents may write is written here into every field at once, and the rendered views are read line by line: each
line is one that the engine makes, or a quotation of exactly one line that was claimed.
"""

from __future__ import annotations

import collections
import json
import random
import re

import pytest

pytest.importorskip("hypothesis")
import replicas
from hypothesis import given, settings
from hypothesis import strategies as st

import engine

OWNER = {"source": "user", "trust": "confirmed"}


def teardown_module():
    """Close what the last test opened."""
    replicas.close_last()


# -- texts that would like to be more --

#: What Markdown, YAML, Obsidian or the engine itself reads as something else than text.
PIECES = (
    "#", "# h", "###### h", "> ", ">", "- ", "* ", "+ ", "1. ", "- [ ] ", "|", "| a | b |", "`", "```", "~~~", "---", "***", "===", "___",
    "[", "]", "[[", "]]", "![[", "![x](y)", "[x](y)", "[x]: y", "[^1]: z", "[^1]", "^[z]", "[!note]", "%", "%%", "<!--", "-->", "<", "<b>",
    "</b>", "<?", "<https://x.y>", "https://x.y", "^", "^id", " ^id", "key: value", "key:: value", "tags: [x]", "$", "$$", "\\", "\\\\",
    "\\(", "!", "*", "**", "_", "==", "~~", "{{", "}}", "&lt;", "&#35;", "#tag", "@", "'", '"', "...", "    ", " ", " ", "a", "\u00e9",
    "\U0001f600",
    "\u200d", "\u00a0", "\u3000", "\u0600", "\ufffe", "<!-- muniment view sha256:%s -->" % ("0" * 64), "[[notes/a|note]]", "(agent)",
    "- **a** x [[notes/a|note]]", "P1-kkkkkkkk", "R1-kkkkkkkk", "E1-kkkkkkkk", "C-abcdef", "(closed)", "## Counted", "Every subject is in")
LINES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map(lambda p: "".join(p)[:300]).filter(engine.is_line)
BLOCKS = st.lists(st.one_of(LINES, st.sampled_from(("", "\t", "    x", "---", "```", "\tx", "x  "))), min_size=1, max_size=5).map(
    "\n".join).filter(lambda text: engine.is_block(text, 2000))
WORDS = LINES.map(lambda text: text.replace(" ", "")[:200]).filter(engine.is_ref)
ANY_LINE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(engine.is_line)


@settings(max_examples=300)
@given(st.one_of(LINES, ANY_LINE))
def test_unescape_is_the_inverse_of_escape(text):
    """What is shown of a line tells the line, and no two lines are shown alike."""
    shown = engine.escape(text)
    assert engine.unescape(shown) == text
    assert not find_markup(shown), shown
    assert shown.replace("\\", "") == text.replace("\\", "")


@given(st.lists(st.sampled_from("\\<[]%$^!:( ab"), max_size=9).map("".join))
def test_unescape_is_the_inverse_over_what_is_escaped(text):
    """Runs of backslashes and of what they stand before come back as they were."""
    assert engine.unescape(engine.escape(text)) == text
    assert not find_markup(engine.escape(text))


def find_markup(shown):
    """Return what in a shown line would open a link, an embed, a definition, a comment, HTML, a formula or an anchor, or None."""
    bare = re.sub(r"\\[\\<\[\]%$^!]", "\ue000", shown)
    found = re.search(r"\[\[|\]\]|!\[|\]\(|\]:|%%|\$\$|<[A-Za-z/!?]|(?:^|\s)\^", bare)
    return found and found.group()


# -- a day on which every field holds such a text --

FIELDS = st.fixed_dictionaries({
    **{name: LINES for name in ("one", "two", "three", "why", "command", "note", "falsifier", "own")},
    **{name: BLOCKS for name in ("detail", "entry", "summary", "words", "more")}, "ref": WORDS})


def live(said):
    """Return a replica on which runs, conflicts, answers and closes hold the texts in ``said``, in every field that takes one."""
    world = replicas.World(2, shown=True)
    here, there = world.replicas
    first, second = here.start("codex"), here.start("claude")
    here.call("journal", run=first, text=said["entry"], importance=3, ref=said["ref"])
    here.call("journal", run=first, text=said["more"], importance=None, ref=None)
    measured = {"command": said["command"], "exit": 1, "date": "2026-01-01", "note": said["note"]}
    cited = [said["ref"], "https://x.y/[[a]]%%<b>$$", measured]
    whole = {"why": said["why"], "evidence": cited, "detail": said["detail"], "tags": ["a/b", "c"], "links": ["a.b", "z"],
             "until": "2026-02-01"}
    here.propose(first, "rule", said["one"], tier=1, new_subject=True, **whole, **OWNER)
    here.propose(first, "pattern", said["two"], tier=3, new_subject=True, falsifier=said["falsifier"], **whole)
    here.propose(first, "next", said["three"], tier=2, new_subject=True, **whole)
    here.propose(first, "closed", said["one"], tier=2, new_subject=True, **whole)
    here.sync(first)
    here.propose(first, "closed", None, op="close", why=said["why"], now=True)
    here.propose(second, "held", said["one"], tier=1, new_subject=True, now=True, **whole)
    here.sync(first)
    here.sync(second)
    for run, text in ((first, said["one"] + " 1"), (second, said["two"] + " 2")):
        here.propose(run, "next", text, **whole)
        here.propose(run, "pattern", text, **whole)
    here.sync(first)
    here.sync(second)
    there.fetch_all()
    for key, answer in (("held", {"choose": "accept"}), ("next", {"text": said["own"]})):
        question = here.call("review", about=key)["questions"][0]
        here.call("resolve", handle=question["whole"], note=said["words"], measured="0,2026-01-02," + said["command"].strip(), **answer)
    here.call("close", run=first, outcome="success", summary=said["summary"])
    return here


def claimed(said):
    """Return every line that was claimed."""
    texts = [*said.values(), said["one"] + " 1", said["two"] + " 2", said["command"].strip()]
    return {line for text in texts for line in text.split("\n")} | {"(closed)", "https://x.y/[[a]]%%<b>$$"}


KEY, ID, DAY = r"[a-z0-9.-]+", r"[A-Z][0-9]+-[a-z0-9]{8}", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
AT = DAY + r"T[0-9:.]{12}Z"
MARKS = r"(?: \((?:(?:agent|user|external|closed|contested C-[0-9a-f]{6}|until %s|expired %s|verified %s)(?:, )?)+\))?" % (DAY, DAY, DAY)
WHO = r"[a-z]+/[a-z]+, (?:run \[\[journal/%s\|%s\]\] \([a-z]+\)|the owner)(?:, taken by the owner)?, %s" % (ID, ID, DAY)
SEAL = r"<!-- muniment view sha256:[0-9a-f]{64} -->"
#: The lines that the engine makes, by the first folder of a view's path; `TEXT` stands for one claimed line.
MADE = {
    "MEMORY.md": (r"# MEMORY", r"What this .*", r"instructions\. .*", r"## (?:Decisions, facts, preferences, rules|Patterns|Current work)",
                  r"- \*\*%s\*\* TEXT \[\[notes/%s\|note\]\]%s" % (KEY, KEY, MARKS), r"[0-9]+ of [0-9]+ subjects are here.*"),
    "INDEX.md": (r"# INDEX", r"Doors of .*", r"Every subject is in \[\[MEMORY\]\]\.", r"## Counted",
                 r"- \[\[notes/%s\|%s\]\] TEXT%s" % (KEY, KEY, MARKS),
                 r"- (?:%s|all others): [0-9]+(?:, listed by `recall --prefix %s`)?" % (KEY, KEY)),
    "notes": (r"# %s" % KEY, r"%s\." % WHO, r"## (?:Detail|Falsified by|Why|The owner's words|Evidence|Links|Beside it)",
              r"- \[\[notes/%s\]\]" % KEY,
              r"%s:" % ID, r"\[\[(?:history|conflicts)/%s\|[a-z ]+\]\](?:, \[\[conflicts/%s\|conflict\]\])?" % (KEY, KEY)),
    "history": (r"# History of %s" % KEY, r"## %s %s(?:, [a-z]+)?" % (AT, ID)),
    "journal": (r"# Journal of %s" % ID, r"Actor [a-z]+, opened %s(?:, closed %s, outcome [a-z]+(?: \([a-z]+\))?)?\." % (AT, AT),
                r"## %s" % ID,
                r"%s, importance [1-5](?:, ref TEXT)?" % AT),
    "conflicts": (r"# Conflict: %s" % KEY, r"## Open: C-[0-9a-f]{6}", r"Which holds\? .*", r"No question is open\.", r"## %s %s" % (AT, ID),
                  r"To [CH]-[0-9a-f]{6}: [a-z]+(?: %s)?\." % ID, r"Instead of %s:" % ID, r"%s(?: \(current\))?:" % ID),
}
#: What history, cards and notes share: all that a generation says beside its text.
BLOCK_LINES = (r"%s; tier [123][a-z0-9 ,/.-]*\." % WHO, r"(?:Detail|Why|Evidence|The owner's words):", r"Detail: as before\.")
QUOTED = (r"TEXT", r"- \[\[journal/%s#%s\|%s\]\]" % (ID, ID, ID), r"- exit -?[0-9]+ on %s: TEXT" % DAY, r"  TEXT", r"- TEXT")


def check_line(line, patterns, lines, cut=False):
    """Assert that a line is one of the forms, with a claimed line, and nothing that opens anything, where TEXT stands."""
    for pattern in patterns:
        found = re.fullmatch(pattern.replace("TEXT", "(.*)"), line)
        if found and (found.lastindex is None or found.group(1) is None):
            return
        if found and not find_markup(found.group(1)):
            text = engine.unescape(found.group(1))
            if text in lines or (cut and len(text) == 80 and any(whole.startswith(text[:79]) for whole in lines)):
                return
    raise AssertionError(line)


def check_view(path, text, lines):
    """Assert that a view is made of the engine's own lines and of quotations of claimed ones, and is sealed."""
    assert text.endswith("\n")
    assert text.splitlines() == text.split("\n")[:-1]
    assert engine.is_sealed(text.encode("utf-8"))
    shown = text.splitlines()
    assert re.fullmatch(SEAL, shown.pop())
    folder = path.split("/")[0]
    if folder == "notes":
        end = shown.index("---", 1)
        check_properties(shown[:end + 1], path)
        shown = shown[end + 1:]
    assert [line for line in shown if line.startswith("# ")] == [next(line for line in shown if line)]
    made = MADE[folder] + (BLOCK_LINES if "/" in path else ())
    for line in shown:
        if line.startswith("> "):
            check_line(line[2:], QUOTED, lines)
        elif line not in ("", ">"):
            check_line(line, made, lines, path == "INDEX.md")


def check_properties(lines, path):
    """Assert that a note opens with flat properties that hold only words of the grammar."""
    assert (lines[0], lines[-1]) == ("---", "---")
    names = []
    for line in lines[1:-1]:
        if line.startswith("  - "):
            assert engine.is_word(json.loads(line[4:]), engine.LABEL_PATTERN, 40)
            continue
        name, value = re.fullmatch(r"([a-z]+):(?: (.*))?", line).groups()
        names.append(name)
        assert (value is None) == (name == "tags")
        assert value is None or re.fullmatch(r'[0-9]+|"[A-Za-z0-9 .-]+"', value)
        assert name != "key" or json.loads(value) == path[6:-3]
    assert len(names) == len(set(names))


@given(FIELDS)
def test_no_text_makes_a_line_heading_anchor_or_property_of_its_own(said):
    """Every line of every view is the engine's own, or quotes one claimed line; headings and properties are the engine's alone."""
    replica = live(said)
    lines = claimed(said)
    for index_lines in (1000, 1):
        shown = replicas.views(replica.state)
        assert shown == replica.files
        assert {path.split("/")[0] for path in shown} == set(MADE)
        for path, text in shown.items():
            check_view(path, text, lines)
        replica.call("config", key="index-lines", value=str(index_lines))
        replica.call("config", key="hot-lines", value="40")


def skeleton(view):
    """Return the lines of a view without what they quote, the texts of doors and refs, and the seal's hash."""
    texts = r"(\*\* ).*( \[\[)|(\|[a-z.]+\]\] ).*|(, ref ).*|sha256:.*"
    return [">" if line.startswith(">") else re.sub(texts, r"\1\2\3\4", line) for line in view.split("\n")]


@given(FIELDS)
def test_views_have_the_same_lines_whatever_the_texts(said):
    """The lines that quote nothing are the same for any text, but for the doors and a ref: texts move nothing."""
    plain = {name: "\n".join("%s%d" % (name, n) if line else "" for n, line in enumerate(text.split("\n"))) for name, text in said.items()}
    one, other = (live(texts).files for texts in (said, plain))
    assert one.keys() == other.keys()
    for path, text in one.items():
        assert skeleton(text) == skeleton(other[path]), path


def test_what_the_reading_of_views_refuses():
    """The check of views itself fails for a line, a heading, a property or an anchor that a text has made."""
    said = dict.fromkeys("one two three why command note falsifier own detail entry summary words more ref".split(), "x")
    replica = live(said)
    path = "notes/rule.md"
    view = replica.files[path][:-len("<!-- muniment view sha256: -->\n") - 64]
    check_view(path, engine.seal(view), claimed(said))
    for bad in ("# h\n", "x\n", "> y\n", "> x ^id\n", "> [[a]]\n", "- x\n", "---\n", "key: value\n", "> x\x0cx\n"):
        with pytest.raises(AssertionError):
            check_view(path, engine.seal(view + bad), claimed(said) | {"x ^id", "[[a]]"})
    with pytest.raises(AssertionError):
        check_view(path, engine.seal(view.replace("tier: 1\n", "tier: 1\ntier: 2\n")), claimed(said))


# -- the seal --

@given(st.binary(max_size=200), st.integers(0, 400), st.integers(1, 255))
def test_a_seal_fits_its_bytes_alone(data, at, change):
    """A sealed view is known by its last line; with any byte changed, added or taken away it is not."""
    text = data.decode("utf-8", "replace")
    sealed = engine.seal(text).encode("utf-8")
    assert engine.is_sealed(sealed)
    assert engine.seal(text).startswith(text)
    at %= len(sealed)
    assert not engine.is_sealed(sealed[:at] + bytes([sealed[at] ^ change]) + sealed[at + 1:])
    assert not engine.is_sealed(sealed[:at] + sealed[at + 1:])
    assert not engine.is_sealed(sealed[:at] + bytes([change]) + sealed[at:])
    assert not engine.is_sealed(data)


# -- ceilings and doors --

def fill(rng, counts, settings_by_name, width):
    """Return a state with so many subjects of each tier, of texts up to ``width`` characters, closed and contested ones among them."""
    world = replicas.World(2)
    here, there = world.replicas
    run, lines, keys = here.start(), [], []
    for tier, count in zip(engine.TIERS, counts):
        for n in range(count):
            key = "%s.t%d-%d" % (rng.choice(("alpha", "beta", "g%d" % rng.randrange(300))), tier, n)
            text = rng.choice(("x", "[", "\u00e9", "\U0001f600")) * rng.randint(1, width)
            op = {"do": "propose", "key": key, "tier": tier, "new_subject": True, "text": text, "evidence": ["https://x.y"]}
            op.update(OWNER if tier == 1 or rng.random() < 0.2 else {})
            op.update({"until": rng.choice(("2025-12-31", "2026-12-31"))} if rng.random() < 0.2 else {})
            op.update({"importance": rng.randint(1, 5)} if tier == 2 else {})
            lines.append(json.dumps(op))
            keys.append(key)
    here.call("apply", run=run, lines=[*lines, '{"do":"sync"}'])
    there.fetch_all()
    other = there.start()
    for key in rng.sample(keys, min(len(keys), 12)):
        here.propose(run, key, None, op="close", now=True, **OWNER)
        if rng.random() < 0.5:
            there.propose(other, key, "beside", now=True, evidence=["https://x.y"], **OWNER)
    here.fetch_all()
    here.sync(run)
    for key in rng.sample(keys, min(len(keys), 12)):
        if here.state.door(key):
            here.propose(run, key, None, op="touch", now=True, evidence=["https://x.y"])
    for name, value in settings_by_name.items():
        here.call("config", key=name, value=str(value))
    return here


def read_doors(memory, index):
    """Return the keys that have a line in MEMORY.md and in INDEX.md, and the counts there by name."""
    hot = re.findall(r"^- \*\*([a-z0-9.-]+)\*\* ", memory, re.MULTILINE)
    cold = re.findall(r"^- \[\[notes/([a-z0-9.-]+)\|", index, re.MULTILINE)
    counted = {name: int(n) for name, n in re.findall(r"^- ([a-z0-9-]+|all others): ([0-9]+)", index, re.MULTILINE)}
    return hot, cold, counted


def check_doors(state):
    """Assert that MEMORY.md keeps its ceilings and its order, and that every present subject has exactly one door."""
    views = replicas.residency_views(state)
    memory, index = views["MEMORY.md"], views["INDEX.md"]
    assert len(memory.encode("utf-8")) <= state.setting("hot-bytes")
    assert memory.count("\n") <= state.setting("hot-lines")
    hot, cold, counted = read_doors(memory, index)
    doors = {row[0]: state.door(row[0]) for row in state.rows("SELECT key FROM subject WHERE present=1")}
    assert len(hot) + len(cold) == len({*hot, *cold})
    assert {*hot, *cold} <= doors.keys()
    assert len(hot) + len(cold) + sum(counted.values()) == len(doors) == state.count_present()
    assert len(cold) <= state.setting("index-lines")
    assert not counted or len(cold) == state.setting("index-lines")
    left = collections.Counter(key.split(".")[0] for key in doors.keys() - {*hot, *cold})
    named = {name: n for name, n in counted.items() if name != "all others"}
    assert named.items() <= left.items()
    assert len(named) == min(200, len(left))
    assert counted.get("all others", 0) == sum(left.values()) - sum(named.values())

    def place(key):
        return (doors[key]["tier"] != 1, doors[key]["expired"], -doors[key]["heat"], key)

    order = sorted(doors, key=place)
    assert set(hot) == set(order[:len(hot)])
    assert cold == sorted(doors.keys() - set(hot), key=lambda key: place(key)[1:])[:len(cold)] or state.tally("tier1") > len(hot)
    for key in (*hot, *cold):
        text = doors[key]["text"] if doors[key]["op"] == "set" else "closed, with an open question"
        cut = text if len(text) <= 80 else text[:79] + "\u2026"
        assert ("\n- **%s** %s [[notes/%s|note]]" % (key, engine.escape(text), key) in memory) == (key in hot)
        assert ("\n- [[notes/%s|%s]] %s" % (key, key, engine.escape(cut)) in index) == (key in cold)
    residency = engine.Residency(state)
    first = sum(doors[key]["tier"] == 1 for key in hot)
    assert residency.overflow == state.tally("tier1") - first
    assert not residency.overflow or first == len(hot)
    return hot, cold, counted


CEILINGS = st.fixed_dictionaries({}, optional={
    "hot-bytes": st.sampled_from((4096, 5000, 24_576)), "hot-lines": st.sampled_from((40, 60, 200)),
    "index-lines": st.sampled_from((0, 1, 7, 1000))})


@settings(max_examples=20)
@given(st.tuples(*[st.sampled_from((0, 1, 9, 60))] * 3), CEILINGS, st.sampled_from((1, 90, 500)), st.integers(0, 2**32 - 1))
def test_memory_keeps_its_ceilings_and_every_subject_has_one_door(counts, ceilings, width, seed):
    """For any mix of subjects MEMORY.md is within hot-bytes and hot-lines, and hot + index + counted are all subjects, once each."""
    replica = fill(random.Random(seed), counts, ceilings, width)
    check_doors(replica.state)


def test_a_full_tier_1_leaves_no_room_for_others_and_is_said():
    """If tier 1 alone overflows, its coldest and all others are in INDEX.md, past its limit counted, and the brief says so."""
    replica = fill(random.Random(1), (260, 40, 40), {"hot-lines": 40, "index-lines": 3}, 20)
    hot, cold, counted = check_doors(replica.state)
    assert len(hot) > 10
    assert len(cold) == 3
    assert sum(counted.values()) > 200
    assert "all others" in counted or len(counted) <= 200
    overflow = engine.Residency(replica.state).overflow
    assert "%d tier 1" % overflow in replica.call("start", actor="claude")["brief"]


def test_a_full_tier_1_leaves_no_room_even_for_what_would_fit():
    """If tier 1 alone passes the bytes, no subject of another tier is hot, however short its line and hot its use."""
    replica = fill(random.Random(4), (40, 0, 0), {"hot-bytes": 4096}, 500)
    replica.propose(replica.start(), "z", "x", tier=2, importance=5, new_subject=True, now=True)
    hot, _, _ = check_doors(replica.state)
    left = 4096 - len(replicas.residency_views(replica.state)["MEMORY.md"].encode("utf-8"))
    assert len("- **z** x [[notes/z|note]] (agent)\n") + 60 < left
    assert "z" not in hot


def test_a_hot_memory_is_as_full_as_it_can_be():
    """MEMORY.md takes the next subject unless its line would pass a ceiling."""
    replica = fill(random.Random(2), (3, 120, 0), {"hot-bytes": 6000}, 60)
    before = replicas.residency_views(replica.state)["MEMORY.md"]
    assert len(before.encode("utf-8")) > 6000 - 60 * 4 - 200


# -- pages --

def test_journal_and_history_pages_hold_200_items():
    """Entries and earlier values fill pages of 200 in order; there is a page for each, and none after the last."""
    replica = replicas.World(1, shown=True).replicas[0]
    run = replica.start()
    lines = ['{"do":"journal","text":"entry %d"}' % n for n in range(401)]
    lines += ['{"do":"propose","key":"a.b","tier":2,"new_subject":%s,"text":"value %d"}\n{"do":"sync"}' % ("false" if n else "true", n)
              for n in range(402)]
    replica.call("apply", run=run, lines="\n".join(lines).split("\n"))
    for kind, name, word, total in (("journal", run, "entry", 401), ("history", "a.b", "value", 401)):
        pages = [engine.render_view(replica.state, kind, name, page) for page in (1, 2, 3)]
        shown = [re.findall("^> %s ([0-9]+)$" % word, page, re.MULTILINE) for page in pages]
        assert [len(items) for items in shown] == [200, 200, 1]
        assert [int(n) for items in shown for n in items] == list(range(total))
        assert engine.render_view(replica.state, kind, name, 4) is None
        assert [replica.files[engine.view_path(kind, name, page)] for page in (1, 2, 3)] == pages
        assert engine.view_path(kind, name, 4) not in replica.files


def test_a_card_keeps_every_answer_on_pages_of_200():
    """A card's answers fill pages of 200, oldest first, and a late answer of another replica moves the pages after it."""
    world = replicas.World(2, shown=True)
    here, there = world.replicas
    for replica in world.replicas:
        replica.runs = [replica.start("codex")]
        replica.propose(replica.runs[0], "a", "from " + replica.tags[0], tier=2, new_subject=True, now=True)
    here.fetch_all()
    there.fetch_all()
    here.sync(here.runs[0])
    there.sync(there.runs[0])

    def answer(replica, count):
        lines = ['{"do":"propose","key":"a","tier":1,"text":"rule %d"}' % n for n in range(count)]
        lines = [line for n in range(0, count, 30) for line in (*lines[n:n + 30], '{"do":"sync"}')]
        rows = replica.call("apply", run=replica.runs[0], lines=lines)["results"]
        frontier = [c.id for c in replica.state.subject("a").frontier]
        for row in rows:
            if row["do"] == "sync":
                continue
            replica.call("resolve", handle=engine.held_handle("a", frontier, row["proposal"]), choose="decline")

    world.shown = False
    answer(there, 3)
    world.tick += 1000
    answer(here, 203)
    world.shown = True
    here.render()
    assert here.files == replicas.views(here.state)
    here.fetch_all()
    pages = [here.files[engine.view_path("card", "a", page)] for page in (1, 2)]
    shown = [re.findall(r"^## (\S+Z) (S\S+)$", page, re.MULTILINE) for page in pages]
    assert [len(items) for items in shown] == [200, 6]
    assert [at for at, _ in shown[0] + shown[1]] == sorted(at for at, _ in shown[0] + shown[1])
    assert here.files == replicas.views(here.state)
    assert engine.render_view(here.state, "card", "a", 3) is None


# -- the brief --

DOORS = st.builds(
    lambda key, text, tier, handle: {"key": key, "tier": tier, "op": "set", "trust": "working", "source": "external", "text": text,
                                     "until": "2026-01-01", "verified": "2026-01-01T00:00:00.000Z", "heat": 1, "expired": 1,
                                     "handle": handle},
    st.sampled_from(("a", "k" * 80)), st.one_of(LINES, st.sampled_from(("x" * 500, "\U0001f600" * 500))), st.sampled_from(engine.TIERS),
    st.sampled_from((None, "C-" + "0" * 64)))
LOST = st.tuples(st.just("k" * 80), st.just("P1000000000000000-kkkkkkkk stands beside P1000000000000000-bbbbbbbb"))


@given(st.lists(DOORS, max_size=60), st.lists(st.just("k" * 80), max_size=60), st.lists(LOST, max_size=60), st.lists(st.sampled_from(
    ("short", "d" * 300, "d" * 5000)), max_size=9), st.tuples(*[st.sampled_from((0, 60))] * 3), BLOCKS)
def test_a_brief_has_at_most_9500_characters(doors, closed, outranked, notes, counts, summary):
    """Whatever changed, was outranked, is damaged or is known: a brief has at most 9,500 characters, and quotes every claim."""
    replica = fill(random.Random(len(doors)), counts, {}, 500)
    replica.call("close", run=replica.start(), outcome="overflow", summary=summary)
    run = {"id": "R1000000000000000-kkkkkkkk", "actor": "a" * 40}
    changes = {"doors": doors, "closed": closed, "outranked": outranked, "more": True}
    brief = engine.render_brief(replica.state, run, changes, {"conflicts": 10**6, "held": 10**6, "edits": 10**6}, notes)
    assert len(brief) <= engine.BRIEF_MAX == 9_500
    shown = brief.splitlines()
    assert brief == "".join(line + "\n" for line in shown)
    assert shown[0].startswith("run R1000000000000000-kkkkkkkk")
    heads = [line for line in shown if line and not line.startswith(("> ", "  ", "note: ", "... and "))]
    forms = (r"run R\S+ \(a+\)", r"Last closed: .*:", r"Changed since a+ last closed a run:", r"Your updates .*:", r"Decided .*:",
             r"Patterns .*:",
             r"Waiting for the owner: .*", r"[0-9]+ tier 1 .*", r"(?:[0-9]+ more in MEMORY\.md.*|No subject is recorded yet\.)")
    places = [next(n for n, form in enumerate(forms) if re.fullmatch(form, line)) for line in heads]
    assert places == sorted(set(places))


def test_a_brief_with_every_part_full_is_cut_in_each():
    """With more of everything than a brief has room for, each part keeps its share and says how much it leaves out."""
    replica = fill(random.Random(6), (45, 45, 0), {"hot-bytes": 1_000_000, "hot-lines": 1000}, 500)
    replica.call("close", run=replica.start(), outcome="success", summary="s" * 2000)
    run = {"id": "R1000000000000000-kkkkkkkk", "actor": "a" * 40}
    door = {"key": "k" * 80, "tier": 2, "op": "set", "trust": "working", "source": "external", "text": "t" * 300, "until": None,
            "verified": None, "heat": 1, "expired": 0, "handle": None}
    changes = {"doors": [door] * 50, "closed": [], "outranked": [("k" * 80, "stands beside")] * 50, "more": True}
    brief = engine.render_brief(replica.state, run, changes, {"conflicts": 10**6, "held": 10**6, "edits": 10**6}, ["n" * 200] * 9)
    assert 8_000 < len(brief) <= 9_500
    assert brief.count("\n... and ") >= 5


@settings(max_examples=10)
@given(FIELDS)
def test_a_brief_quotes_each_claim_on_one_line(said):
    """In the brief that `start` prints, a line with a claim begins with its quotation mark, and there is one line for each."""
    replica = live(said)
    brief = replica.call("start", actor="codex")["brief"]
    assert brief.splitlines() == brief.split("\n")[:-1]
    keys = [line[2:].split(":")[0] for line in brief.splitlines() if line.startswith("> ") and ": " in line]
    for key in ("rule", "pattern", "next", "held"):
        assert key in keys
    texts = [re.escape(" ".join(text.split())) for text in claimed(said)]  # no run of blanks pushes the marks out of sight
    rows = [line for line in brief.splitlines() if re.match("> (?:rule|pattern|next|held): ", line)]
    for row in rows:
        assert re.fullmatch(r"> [a-z]+: (?:%s)%s" % ("|".join(texts), MARKS), row), row
