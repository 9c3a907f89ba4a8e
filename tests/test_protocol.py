"""Every example in PROTOCOL.md runs, and what it shows is what the engine does.

A fenced block says by its info string how it is run:

    console        commands, each after `$ `, with what they print; `[4]` is an exit status other than 0
    file NAME      a file that the commands read
    view PATH      the bytes of a file of the vault, as they are when the blocks before it have run
    record         lines of the scratch vault's ledgers, as they are at the end
    body           `KIND BODY`: bodies of kinds and variants that this engine only reads
    layout         the names in a vault
    grammar, canonical, handle, escape, heat, subject, join, decide, block, items     one JSON object a line

All commands are given in one scratch vault, in the order of the page. `python3 tests/test_protocol.py`
prints the page as the engine makes it; `--write` puts it in place, for the difference to be read.
"""

from __future__ import annotations

import collections
import json
import re
import shlex
import sys
import tempfile
from typing import NamedTuple

import pytest
import scratch

engine = scratch.engine
PROTOCOL = scratch.ROOT / "PROTOCOL.md"


class Block(NamedTuple):
    """One fenced block: the line of its fence, the words of its info string, and what stands in it."""

    line: int
    info: str
    words: list
    text: str


FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def find_blocks(page):
    """Return the fenced blocks of the page in order."""
    blocks = []
    for found in FENCE.finditer(page):
        info, *words = found["info"].split() or [""]
        blocks.append(Block(page.count("\n", 0, found.start()) + 1, info, words, found["text"]))
    return blocks


class Runner:
    """Runs the blocks of a page in one scratch vault; each `run_` returns the block's text as it should be."""

    def __init__(self, folder):
        self.vault = scratch.Scratch(folder)
        self.examples = collections.defaultdict(list)

    def run(self, block):
        """Return what the block should hold; KeyError for an info string that is none."""
        known = {name[4:]: getattr(self, name) for name in dir(self) if name.startswith("run_")}
        return known[block.info](block)

    def run_console(self, block):
        """Give the commands; return them with what they print."""
        said = []
        for line in re.findall(r"^\$ (?:.*\\\n)*.*", block.text, re.MULTILINE):
            words = shlex.split(line[2:].replace("\\\n", " "))
            assert words[0] == "muniment", line
            status, out, err = self.vault.run(*words[1:])
            said += [line + "\n", re.sub(r"\b[0-9]+ ms\b", "N ms", out), err, "[%d]\n" % status if status else ""]
        return "".join(said)

    def run_file(self, block):
        """Write the file."""
        path = self.vault.folder / block.words[0]
        path.write_bytes(block.text.encode("utf-8"))
        return block.text

    def run_view(self, block):
        """Return the file of the vault."""
        return (self.vault.vault / block.words[0]).read_bytes().decode("utf-8")

    def run_layout(self, block):
        """Find every name in the vault."""
        folders = {}
        for line in block.text.splitlines():
            indent, name = len(line) - len(line.lstrip()), line.split()[0]
            folders[indent] = name
            if name != "...":
                path = "/".join(folders[depth].rstrip("/") for depth in sorted(folders) if depth < indent) + "/" + name.rstrip("/")
                assert list(self.vault.folder.glob(re.sub("<[a-z0-9]+>", "*", path.lstrip("/")))), path
                folders = {depth: folders[depth] for depth in folders if depth <= indent}
        return block.text

    def run_record(self, block):
        """Return the lines of the ledger that the block names, by their numbers or as they were."""
        made = []
        for line in block.text.splitlines():
            seq = int(line) if line.isdigit() else json.loads(line)["head"]["seq"]
            made.append(self.vault.ledger().read_text("utf-8").split("\n")[seq])
        return "".join(line + "\n" for line in made)

    def run_body(self, block):
        """Check the bodies."""
        for kind, body in (line.split(" ", 1) for line in block.text.splitlines()):
            assert engine.canonical(json.loads(body)) == body
            engine.check_record(kind, json.loads(body))
            self.examples["body"].append((kind, json.loads(body)))
        return block.text

    def _each(self, block, check):
        made = []
        for line in block.text.splitlines():
            example = json.loads(line)
            checked = check(dict(example))
            made.append((line if checked == example else json.dumps(checked, ensure_ascii=False)) + "\n")
            self.examples[block.info].append(example)
        return "".join(made)

    def run_grammar(self, block):
        """Check what has a form and what has not."""
        return self._each(block, check_grammar)

    def run_canonical(self, block):
        """Add the canonical text and its hash."""
        return self._each(block, lambda e: dict(
            e, canonical=engine.canonical(e["value"]), sha256=engine.sha256(engine.canonical(e["value"]))))

    def run_skeleton(self, block):
        """Add what stays of the body, and its hash."""
        def check(example):
            text = engine.canonical(engine.skeleton_of(example["kind"], example["body"]))
            return dict(example, skeleton=text, sha256=engine.sha256(text))

        return self._each(block, check)

    def run_handle(self, block):
        """Add the handle."""
        return self._each(block, check_handle)

    def run_escape(self, block):
        """Add how the text is shown."""
        return self._each(block, check_escape)

    def run_heat(self, block):
        """Add the heat."""
        return self._each(block, lambda e: dict(e, heat=engine.heat_of(e["value"], e["used"])))

    def run_subject(self, block):
        """Add the order of the frontier and its parts."""
        return self._each(block, check_subject)

    def run_join(self, block):
        """Add the frontier."""
        return self._each(block, check_join)

    def run_decide(self, block):
        """Add the decision."""
        return self._each(block, check_decide)

    def run_block(self, block):
        """Add the file with the block and the file without."""
        return self._each(block, check_block)

    def run_items(self, block):
        """Add the document with the items and the document without."""
        return self._each(block, check_items)


GRAMMAR = {
    "key": engine.is_key,
    "actor": lambda v: engine.is_word(v, engine.ACTOR_PATTERN, 40),
    "tag of a value": lambda v: engine.is_word(v, engine.LABEL_PATTERN, 40),
    "line": engine.is_line,
    "block": lambda v: engine.is_block(v, engine.JOURNAL_MAX),
    "ref": engine.is_ref,
    "url": engine.is_url,
    "date": engine.is_date,
    "at": engine.is_at,
    "run": lambda v: engine.is_id(v, "R"),
    "measurement": engine.is_measurement,
    "value": engine.is_value,
}


def check_grammar(example):
    """What is said to be of a field's form is, and what is said not to be is not."""
    is_good = GRAMMAR[example["field"]]
    example["good"] = [v for v in example["good"] if is_good(v)]
    example["bad"] = [v for v in example["bad"] if not is_good(v)]
    return example


def check_handle(example):
    """The question has this handle."""
    if "edit" in example:
        return dict(example, handle=engine.edit_handle(example["edit"], example["frontiers"])[:8])
    key, frontier = example["key"], example["frontier"]
    held = "proposal" in example
    whole = engine.held_handle(key, frontier, example["proposal"]) if held else engine.conflict_handle(key, frontier)
    return dict(example, handle=whole[:8])


def check_escape(example):
    """A text is shown as the example says, and comes back from that."""
    example["shown"] = engine.escape(example["text"])
    assert engine.unescape(example["shown"]) == example["text"]
    return example


def claim_of(given, number, new_subject=False):
    """Return a claim with the defaults that PROTOCOL.md names; ``number`` says how it stands in the list."""
    value = {"op": given.get("op", "set"), "tier": given.get("tier", 2), "text": given.get("text", "")}
    claim_id = given.get("id", "P9")
    return engine.Claim(
        claim_id, given.get("key", "k"), given.get("run", "R1"), given.get("tag", "a"), given.get("seq", number), "at",
        given.get("depth", 1), given.get("trust", "working"), given.get("source", "agent"), value["tier"], value["op"],
        engine.effect_of(value), given.get("imported", False), given.get("new_subject", new_subject), tuple(given.get("base", ())),
        tuple(given.get("staged", ())), given.get("outcome", "accepted"), given.get("made", "2026-11-30"), True, False, None)


def subject_of(example):
    """Return the Subject of an example's `frontier` and `past`."""
    past = [claim_of(g, n) for n, g in enumerate(example.get("past", ()))]
    return engine.Subject([claim_of(g, n + len(past)) for n, g in enumerate(example["frontier"])], past)


def check_subject(example):
    """The frontier has this order, and its members these parts."""
    subject = subject_of(example)
    example["order"] = [c.id for c in subject.frontier]
    example["contenders"] = [c.id for c in subject.contenders()]
    example["outranked"] = [c.id for c in subject.outranked()]
    example["present"] = subject.is_present()
    return example


def check_join(example):
    """These claims and what is said of them, in either order, leave this frontier and these outcomes."""
    claims = [claim_of(g, n)._replace(made=None, outcome="staged", standing=False) for n, g in enumerate(example["claims"])]
    claims = [c._replace(run=None) if c.id.startswith("S") else c for c in claims]
    facts = [engine.Fact(f["of"], "a", 10 + n, "2026-11-30", f.get("run", "R1"), f["says"], f.get("reason", f["says"]),
                         tuple(f.get("parents", ())), f.get("rests")) for n, f in enumerate(example["facts"])]
    joined = [engine.subject_within(claims, told, lambda *_: True) for told in (facts, facts[::-1])]
    assert [c.id for c in joined[0].frontier] == [c.id for c in joined[1].frontier]
    example["frontier"] = [c.id for c in joined[0].frontier]
    return example


def check_decide(example):
    """The proposal is decided so."""
    proposal = claim_of(example["proposal"], 90)
    decision = engine.decide(subject_of(example), proposal)
    example["decision"] = [decision.outcome, decision.reason]
    for name, value in (("parents", list(decision.parents) if decision.outcome == "accepted" else None), ("rests", decision.rests)):
        if value is not None:
            example[name] = value
        else:
            example.pop(name, None)
    return example


def check_block(example):
    """A block of lines that is put into a file gives these bytes, and dropped again those."""
    known, comment = example.get("known", False), tuple(example.get("comment", engine.MARKDOWN))
    put = engine.put_block(example["file"].encode("utf-8"), example["lines"], known, comment)
    return dict(example, put=put.decode("utf-8"), dropped=engine.drop_block(put, known, comment).decode("utf-8"))


def check_items(example):
    """Items that are merged into a document give these bytes, and dropped again those."""
    def is_ours(value):
        return "muniment" in json.dumps(value)

    data, path = example["file"].encode("utf-8"), example["path"]
    made = engine.merge_items(data, path, example["wanted"], is_ours, example.get("fresh", {}))
    return dict(example, merged=made.decode("utf-8"), dropped=engine.drop_items(made, path, is_ours).decode("utf-8"))


def make_page(page, folder):
    """Return the page with every block as the engine makes it, and the runner."""
    runner = Runner(folder)
    made, late = {}, []
    for block in find_blocks(page):
        if block.info in ("record", "layout") or block.words[:1] == [".muniment/format.json"]:
            late.append(block)  # what commands further down make may stand further up
        else:
            made[block.line] = runner.run(block)
    made.update((block.line, runner.run(block)) for block in late)
    return made, runner


@pytest.fixture(scope="module")
def page():
    """Return PROTOCOL.md."""
    return PROTOCOL.read_text("utf-8")


@pytest.fixture(scope="module")
def run(page, tmp_path_factory):
    """Return every block's text as it should be, and the runner that made them."""
    return make_page(page, tmp_path_factory.mktemp("protocol"))


@pytest.mark.parametrize("block", find_blocks(PROTOCOL.read_text("utf-8")), ids=lambda b: "line-%d-%s" % (b.line, b.info))
def test_an_example_shows_what_the_engine_does(block, run):
    """The block holds, byte for byte, what running it gives."""
    assert block.text == run[0][block.line]


def test_a_block_of_an_unknown_kind_is_an_error(tmp_path):
    """No example can stand in the page and go unrun."""
    for fence in ("```\nx\n```", "```python\nx\n```", "```consol\n$ muniment status\n```"):
        with pytest.raises(KeyError):
            make_page(fence, tmp_path)


def test_no_fence_is_missed(page):
    """Every fence belongs to a block that is found."""
    fences = len(re.findall(r"^\s*(?:```|~~~)", page, re.MULTILINE))
    assert fences == 2 * len(find_blocks(page))


def test_records_decode_encode_and_chain(page, run):
    """The records of the page are canonical, whole, and follow each other from the first line on."""
    lines = {}
    for block in find_blocks(page):
        for line in block.text.splitlines() if block.info == "record" else ():
            head, body, _, tail = engine.decode_record(line.encode("utf-8") + b"\n")
            before = dict(head)
            assert engine.encode_record(head, body) == (line.encode("utf-8") + b"\n", tail)
            assert head == before
            lines[head["seq"]] = (head, tail)
    vault = json.loads((run[1].vault.vault / ".muniment" / "format.json").read_text("utf-8"))["vault"]
    assert lines[0][0]["prev"] == engine.first_prev(vault, scratch.SCRATCH_TAGS[0])
    followed = [seq for seq in lines if seq and seq - 1 in lines]
    assert followed
    for seq in followed:
        assert lines[seq][0]["prev"] == lines[seq - 1][1]


def test_every_kind_of_record_has_an_example(page, run):
    """Each kind stands in the page as a line that the engine wrote, or as a body that it would accept."""
    kinds = {kind for kind, _ in run[1].examples["body"]}
    for block in find_blocks(page):
        kinds |= {json.loads(line)["head"]["kind"] for line in block.text.splitlines() if block.info == "record"}
    assert kinds == set(engine.FIELDS)


def test_every_kind_of_view_has_an_example(page):
    """Each view of section 2 is shown whole once."""
    shown = {block.words[0] for block in find_blocks(page) if block.info == "view"}
    assert {"MEMORY.md", "INDEX.md", ".muniment/format.json"} <= shown
    assert {name.split("/")[0] for name in shown if "/" in name} == {*engine.FOLDERS, ".muniment"}


def test_every_row_and_outcome_of_decide_has_an_example(page, run):
    """The examples name every row of the table, and every outcome with its reason."""
    rows = {int(row) for row in re.findall(r"^\| ([0-9]+) \| ", page.split("## 6. ")[1].split("## 7. ")[0], re.MULTILINE)}
    examples = run[1].examples["decide"]
    assert len(rows) == 7
    assert {e["row"] for e in examples} == rows
    assert {tuple(e["decision"]) for e in examples} == {
        ("noop", "touched"), ("noop", "same"), ("held", "unknown-key"), ("held", "needs-owner"),
        ("accepted", "alone"), ("accepted", "beside")}


def test_examples_of_grammar_cover_every_form(run):
    """Each form has good and bad examples."""
    found = {e["field"]: e for e in run[1].examples["grammar"]}
    assert set(found) == set(GRAMMAR)
    assert all(e["good"] and e["bad"] for e in found.values())


def main(words):
    """Print PROTOCOL.md as the engine makes it, or write it."""
    page = PROTOCOL.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        made, _ = make_page(page, folder)
    new = FENCE.sub(lambda m: "```%s\n%s```" % (m["info"], made[page.count("\n", 0, m.start()) + 1]), page)
    if "--write" in words:
        PROTOCOL.write_bytes(new.encode("utf-8"))
    else:
        sys.stdout.write(new)


if __name__ == "__main__":
    main(sys.argv[1:])
