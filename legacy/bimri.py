#!/usr/bin/env python3
"""Read a BIMRI store (v1 to v5.1) and write it as operations of `import`.

    python3 legacy/bimri.py PROJECT > store.jsonl

Exit 0; or 3 with the reason on stderr and nothing on stdout, where the store is damaged or can be read in
two ways. Only reads. Flat files (v1, v2.0-cc, v3) and v2.1-ca are a state without history, v4 is a state
with run logs, v5 a history, which is told in the order of its accepted revisions.

Last comes a run that says all of the store as it is now, under a name made from what it says: whatever was changed
without a run of its own, the vault hears of it.

Made here, since they were not there: keys of what had none (`legacy.r001-e02`, `legacy.pattern-p001`,
`legacy.v3.t2-20260101-01`), that last run (`now-...`, of a flat file `R0-...`), and an actor `unknown`. The store is named
by the path at which it really lies.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

LINE_MAX = 500
TEXT_MAX = 8000  # characters of an entry
SUMMARY_MAX = 2000
DETAIL_BYTES_MAX = 32768

NO_SUMMARY = "No summary was recorded."
UNKNOWN = "unknown"
MADE = ("accepted", "chosen")  # what a proposal is in memory by
DECIDED = (*MADE, "noop", "declined")

REFUSED = ("\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
           "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f")
NOT_IN_BLOCK = re.compile("[%s]" % REFUSED)
NOT_IN_LINE = re.compile("[\t\n%s]" % REFUSED)

Line = dict  # what a line of memory says: field name -> text; besides `tier` and `raw`


class CannotRead(Exception):
    """The store is damaged, of an unknown version, or can be read in two ways; the text says what and where."""


# == The forms of lines ==

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?Z"
ENTRY = r"R\d+-E\d+"
KEY = r"[a-z0-9]+(?:[.-][a-z0-9]+)*"
_ID = r"\[(?P<id>%s)\]\s+" % ENTRY
_PATTERN_ID = r"\[(?P<id>P\d+)\]\s+"
_SUBJECT = r"\[K:(?P<key>%s)\]\s+" % KEY
_KIND = r"\[(?P<kind>decision|fact|pref|rule)\]\s+"
_TRUST = r"\[T:(?P<trust>working|confirmed|contested)\]\s+\[SRC:(?P<source>user|agent|external|system|legacy)\]\s+"
_RUNS = r"\[F:(?P<first>R\d+)\]\s+\[L:(?P<last>R\d+)\]\s+"
# Only what looks like a run log is a pointer: a text may end in an arrow and a word of its own.
_TEXT = r"\[(?P<tags>[^\]]*)\]\s+(?P<text>.+?)(?:\s+->\s+(?:\.bimri/)?log/R\d+(?:-migrated)?\.md)?"
_SEEN = r"\[(?P<confidence>emerging|developing|established)\]\s+(?P<seen>\[obs:\d+\]\s+\[ev:(?P<evidence>[^\]]*)\])\s+(?P<text>.+?)"
_FALSIFY = r"\s+\|\s+Falsify:\s+(?P<falsifier>.+)"

V5_LINES = [
    (2, re.compile(_ID + _SUBJECT + r"\[I:(?P<importance>[1-5])\]\s+\[(?P<status>active|watch|closed)\]\s+" + _TRUST + _RUNS + _TEXT)),
    (1, re.compile(_ID + _SUBJECT + _KIND + _TRUST + _TEXT)),
    (3, re.compile(_PATTERN_ID + _SUBJECT + _SEEN + _FALSIFY)),
]
V4_LINES = [
    (2, re.compile(_ID + r"\[I:(?P<importance>[1-5])\]\s+\[(?P<status>active|watch|closed|decision)\]\s+" + _RUNS + _TEXT)),
    (1, re.compile(_ID + _KIND + _TEXT)),
    (3, re.compile(_PATTERN_ID + _SEEN + "(?:" + _FALSIFY + ")?")),
]
CA_LINES = [
    (2, re.compile(r"\[ID:(?P<id>%s)\]\s+\[I:(?P<importance>[1-5])\]\s+"
                   r"\[STATUS:(?P<status>active|watch|decision|closed|archived|promoted)\](?:\s+\[TTL:(?P<ttl>[^\]]*)\])?\s+\[FIRST:(?P<first>R\d+)\]\s+\[LAST:(?P<last>R\d+)\]\s+\[TAGS:(?P<tags>[^\]]*)\]"
                   r"(?:\s+\[WEIGHT:[\d.]+\])?" % ENTRY)),
    (3, re.compile(r"\[PATTERN:(?P<id>P\d+)\]\s+\[CONFIDENCE:(?P<confidence>emerging|developing|established)\]\s+"
                   r"(?P<seen>\[OBS:\d+\]\s+\[EVIDENCE:(?P<evidence>[^\]]*)\])")),
]
FLAT_LINES = [
    (2, re.compile(r"\[IMPORTANCE:(?P<importance>[1-5])\]\s+\[TIMESTAMP:(?P<created>[\d-]+)\]\s+\[TAGS:(?P<tags>[^\]]*)\]"
                   r"\s+\[WEIGHT:[\d.]+\]")),
    (2, re.compile(r"\[ID:(?P<id>T2-\d{8}-\d+)\]\s+\[IMP:(?P<importance>[1-5])\]\s+\[CREATED:(?P<created>[\d-]+)\]"
                   r"\s+\[SESSION:(?P<first>\d+)\]\s+\[LAST_USED:(?P<used>[\d-]+)\]\s+\[LAST_USED_SESSION:(?P<last>\d+)\]\s+\[TAGS:(?P<tags>[^\]]*)\]\s+\[W:[\d.]+\]")),
    (3, re.compile(r"\[PATTERN\]\s+\[CONFIDENCE:(?P<confidence>EMERGING|DEVELOPING|ESTABLISHED)\]\s+(?P<seen>\[OBSERVATIONS:\d+\])"
                   r"\s+\[TAGS:(?P<tags>[^\]]*)\]", re.IGNORECASE)),
]
FALSIFY_IF = re.compile(r"Falsify if:\s*(.+)")
ARCHIVED = re.compile(r"\[ARCHIVED:(?:(?P<run>R\d+) )?(?P<date>\d{4}-\d\d-\d\d)\](?:\s+\[BY:R\d{6}-Q\d{3}\])?"
                      r"(?:\s+\[(?P<reason>closed|replaced|cooled|status:closed|decayed w=[\d.]+ I[1-5]|hard-cap w=[\d.]+|mechanical)\])?"
                      r"\s+(?P<line>\[.+)")
LOG_HEAD = re.compile(r"#\s+Run\s+\S+(?:\s+\|\s+(?P<time>%s))?(?:\s+\|\s+actor:(?P<actor>\S+))?(?:\s+\|.*)?" % TIME)
LOG_HEADING = re.compile(r"#\s+Run\s.*|##\s+(?:Journal|Proposals|Outcome)")
JOURNAL = re.compile(r"\[ID:(?P<id>%s)\]\s+\[I:(?P<importance>[1-5])\]\s+(?P<text>.+)" % ENTRY)
PROPOSE = re.compile(r"\[PROPOSE:(?P<id>R\d{6}-Q\d{3})\] \[(?:set|touch|close)\] \[K:%s\] \[BASE:(?:absent|[0-9a-f]{64})\] .+" % KEY)
OUTCOME = re.compile(r"\[OUTCOME:(?P<outcome>success|partial|overflow|fail|unrecorded)\]\s*(?P<why>.*)")
CLOSED = re.compile(r"\[CLOSED:R\d+\s+(?P<time>%s)(?:\s+auto)?\]" % TIME)
TIER = re.compile(r"##\s+tier\s+([123])\b.*", re.IGNORECASE)
HEADER = re.compile(r"<!--\s*BIMRI\s+v(?P<version>\d[\w.-]*)(?P<rest>[^>]*)-->")
END = re.compile(r"<!--\s*END BIMRI\s*-->")
BULLET = re.compile(r"(?:[-*+]\s+|\d+[.)]\s+)(?=\S)")
#: What begins like an entry that stands below its brackets: it is one, or it is damaged.
BRACKETS = re.compile(r"\[(?:[A-Z_]+:|PATTERN\])", re.IGNORECASE)
#: An entry's id in its brackets, which prose of v4 or v2.1-ca has only as a link's text.
NAMED = re.compile(r"\[(?:(?:ID:)?%s|(?:PATTERN:)?P\d{3,})\](?!\()|\[P\d+\]\s*\[(?:emerging|developing|established)\]" % ENTRY)
#: What begins like an entry of these, or like the rest of one: prose begins with no two brackets in a row, and has no fields.
LIKE_ENTRY = re.compile(r"\[(?:[A-Z_]+:|[RP]\d)|[RP]?\d+(?:-E\d+)?\]|\[?[^\[\]]*\]\s+\["
                        r"|.*\[(?:F:R\d|L:R\d|ev:R\d|obs:\d+\]\s+\[ev:)")


_CONFIDENCE = "(?:emerging|developing|established)"
#: Where another entry begins within one: its id and first field, or the end of its id and the fields after it.
JOINED = re.compile(r"\[(?:(?:ID:)?%s|(?:PATTERN:)?P\d+)\]\s*\[(?:(?:decision|fact|pref|rule)\]|%s\]|I:|CONFIDENCE:)"
                    r"|(?<!\[I:)\d\]\s*\[(?:(?:decision|fact|pref|rule)\]\s*\[|I:[1-5]\]\s*\[|%s\]\s*\[obs:)"
                    % (ENTRY, _CONFIDENCE, _CONFIDENCE))


def parse_line(raw: str, forms: list) -> Line | None:
    """Give what one of the forms finds in a line, with its `tier` and `raw`; None if none fits."""
    for tier, form in forms:
        match = form.fullmatch(raw)
        if match:
            return dict({name: value for name, value in match.groupdict().items() if value is not None}, tier=tier, raw=raw)
    return None


def scan_lines(text: str, fences: bool = False) -> Iterator[tuple[int, str, str]]:
    """Give the lines, numbered and stripped, each with what it is: `text`, `comment`, `within` one, or `fenced` if ``fences``.

    Only CR and LF end a line here, so that a text that holds U+2028 stays one text.
    """
    fenced = comment = False
    for number, line in enumerate(re.split("\r\n|\n|\r", text), 1):
        bare = line.strip()
        part = "within" if comment else "comment" if bare.startswith("<!--") else "fenced" if fenced else "text"
        if fences and bare.startswith("```"):
            fenced, part = not fenced, "fenced"
        elif part in ("within", "comment"):
            comment = "-->" not in bare
        yield number, bare, part


def split_lines(text: str, fences: bool = False) -> Iterator[tuple[int, str]]:
    """Give the lines that are not blank, numbered and stripped, without comments; without fenced ones if ``fences``."""
    return ((number, bare) for number, bare, part in scan_lines(text, fences) if bare and part == "text")


def check_whole(path: str, text: str, ends: bool, fences: bool = False) -> None:
    """Refuse a memory file that has not the headings of its three tiers, each once and in order, and then its end if it ``ends``."""
    due, number = ["the heading of tier 1", "the heading of tier 2", "the heading of tier 3"] + ["the line <!-- END BIMRI -->"] * ends, 0
    for number, line, part in scan_lines(text, fences):
        if part == "within" and line.startswith("<!--"):
            raise CannotRead("%s, line %d: a comment begins, and the one before it never ended" % (path, number))
        heading = TIER.fullmatch(line) if part == "text" else None
        is_end = ends and part == "comment" and END.fullmatch(line)
        found = "the heading of tier %s" % heading[1] if heading else "the line <!-- END BIMRI -->" if is_end else None
        if found and found != (due.pop(0) if due else None):
            raise CannotRead("%s, line %d: %s: it stands twice, or in the place of another" % (path, number, found))
    if due:
        raise CannotRead("%s, line %d: the file ends without %s" % (path, number, due[0]))


def quoted_lines(text: str) -> set[int]:
    """Give the numbers of the lines in fences; one that does not end in its tier is none."""
    found, begun = set(), None
    for number, line, _ in scan_lines(text):
        if line.startswith("```"):
            found |= set(range(begun, number)) if begun else set()
            begun = None if begun else number
        elif TIER.fullmatch(line):
            begun = None
    return found


def check_outside(path: str, text: str, story: Story) -> None:
    """Refuse a v4 memory file in which a comment or a heading holds an entry; say what else follows a comment on its line."""
    for number, line, part in scan_lines(text):
        comment, rest = part != "text", line.rpartition("-->")[2].strip() if part != "text" else ""
        if (comment or re.match(r"##?\s", line)) and (NAMED.search(line) or ("-->" in line and rest and LIKE_ENTRY.match(rest))):
            raise CannotRead("%s, line %d: an entry in a %s: %s" % (path, number, "comment" if comment else "heading", line[:120]))
        if comment and "-->" in line and rest:
            story.left("%s, line %d: %s" % (path, number, rest), "prose that is no entry")


def split_tiers(text: str, fences: bool = False) -> Iterator[tuple[int | None, int, str]]:
    """Give the lines under the tier headings, each with its tier; None before, between and after them."""
    tier = None
    for number, line in split_lines(text, fences):
        heading = TIER.fullmatch(line)
        if heading or re.match(r"##?\s", line):
            tier = int(heading[1]) if heading else None
        else:
            yield tier, number, line


def read_entries(text: str, forms: list, free: bool = False, fences: bool = False) -> tuple[list[Line], list[tuple]]:
    """Give the entries whose text stands below their brackets, and the lines that are in none as (tier, number, line).

    ``free`` is the flat files' way: bullets, lines of tier 1 without brackets, texts of several lines (`more`).
    """
    found, others, last, where = [], [], None, None
    for tier, number, line in split_tiers(text, fences):
        last, where = (last if tier == where else None), tier
        bare = BULLET.sub("", line, count=1) if free else line
        begun = parse_line(bare, forms)
        if begun and (tier or not free):
            last = dict(begun, tier=1 if tier == 1 and begun["tier"] == 2 else begun["tier"], lines=[], at=number)
            found.append(last)
        elif BRACKETS.match(bare):
            last = None
            others.append((tier, number, line))
        elif last and (not last["lines"] or (free and tier != 1) or (last["tier"] == 3 and FALSIFY_IF.fullmatch(line))):
            last["lines"].append(line)
        elif free and tier == 1 and re.search(r"\w", line):
            found.append({"tier": 1, "raw": "", "lines": [bare]})
        else:
            others.append((tier, number, line))
    others += [(entry["tier"], entry["at"], entry["raw"]) for entry in found if not entry["lines"]]
    found = [entry for entry in found if entry["lines"]]
    for entry in found:
        lines = entry.pop("lines")
        entry.update(text=lines[0], raw="\n".join([entry["raw"], *lines]).strip())
        falsified = FALSIFY_IF.fullmatch(lines[1]) if len(lines) == 2 and entry["tier"] == 3 else None
        if falsified:
            entry["falsifier"] = falsified[1]
        elif len(lines) > 1:
            entry["more"] = "\n".join(lines)
    return found, others


def clean(text: str, block: bool = False) -> str:
    """Write each character that the engine refuses as its escape."""
    return (NOT_IN_BLOCK if block else NOT_IN_LINE).sub(
        lambda found: ("\\u%04X" if ord(found[0]) < 65536 else "\\U%08X") % ord(found[0]), text)


def cut(text: str, limit: int) -> str:
    """Give the start of a text, whole words where it can be, of at most ``limit`` characters."""
    start = text[:limit]
    if len(text) > limit and " " in start[limit // 2:]:
        start = start[:start.rfind(" ")]
    return start.strip()


def moment(text: Any) -> str | None:
    """Give a time or a day as `at` is written; None for what is none."""
    match = re.fullmatch(r"([1-9]\d{3}-\d\d-\d\d)(?:T(\d\d:\d\d)(?::(\d\d))?Z)?", text) if isinstance(text, str) else None
    if not match:
        return None
    clock = "%s:%s" % (match[2] or "00:00", match[3] or "00")
    try:
        dt.datetime.strptime(match[1] + clock, "%Y-%m-%d%H:%M:%S")  # noqa: DTZ007 - only whether it exists
    except ValueError:
        return None
    return "%sT%s.000Z" % (match[1], clock)


def run_number(run: str) -> int:
    """Give the number in a name, by which runs are ordered."""
    return int((re.search(r"\d+", run) or ["0"])[0])


def run_of(entry: str) -> str | None:
    """Give the run that an entry's id names; None if it names none."""
    return entry[:entry.index("-")] if re.fullmatch(ENTRY, entry) else None


def has_ended(line: Line) -> bool:
    """Tell whether the status of a line says that it holds no more where it stands."""
    return line.get("status") in ("closed", "archived", "promoted") and (line["tier"] == 2 or line["status"] != "promoted")


def names_in(text: str) -> list[str]:
    """Give the parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def free_name(wanted: str, taken: Container[str]) -> str:
    """Give a name that is not taken: the one that is wanted, else with a number."""
    found, number = wanted, 2
    while found in taken:
        found, number = "%s-%d" % (wanted, number), number + 1
    return found


# == The store's files ==

class Folder:
    """The project folder; it remembers the SHA-256 of what was read of it."""

    def __init__(self, root: str) -> None:
        self.root = Path(root).absolute()
        self.read: dict[str, str] = {}

    def has(self, path: str) -> bool:
        """Tell whether a file is there."""
        return (self.root / path).is_file()

    def names(self, path: str, form: str) -> list[str]:
        """Give the files of a folder whose name has a form, in the order of their numbers."""
        full = self.root / path
        found = [child.name for child in (full.iterdir() if full.is_dir() else ()) if re.fullmatch(form, child.name)]
        return sorted(found, key=lambda name: (run_number(name), name))

    def load(self, path: str) -> bytes:
        """Give a file's bytes."""
        full = self.root / path
        if self.root.resolve() not in full.resolve().parents:
            raise CannotRead("%s: a link that leads out of the project" % path)
        try:
            data = full.read_bytes()
        except OSError as error:
            raise CannotRead("%s: %s" % (path, error.strerror)) from error
        self.read[path] = hashlib.sha256(data).hexdigest()
        return data

    def text(self, path: str) -> str:
        """Give a file's text."""
        try:
            return self.load(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise CannotRead("%s: not UTF-8 at byte %d" % (path, error.start)) from error

    def json(self, path: str) -> dict[str, Any]:
        """Give a file's JSON object."""
        try:
            value = json.loads(self.text(path))
        except (ValueError, RecursionError) as error:
            raise CannotRead("%s: not JSON (%s)" % (path, error)) from error
        if not isinstance(value, dict):
            raise CannotRead("%s: not a JSON object" % path)
        return value

    def memory(self) -> str | None:
        """Give the name of the memory file; two that differ are ambiguous."""
        names = self.names(".", "(?i:bimri.md)")[::-1]
        if len({self.load(name) for name in names}) > 1:
            raise CannotRead("%s: they differ, and nothing says which one is the memory" % " and ".join(names))
        return names[0] if names else None


# == The story: runs, entries and claims in their order ==

class Story:
    """What the store tells, as operations; each call adds to it, ``operations`` orders it.

    An event's place is its time, then the order of the calls; within a run and within a key, time never goes back.
    """

    def __init__(self) -> None:
        self.events: list[tuple] = []
        self.runs: dict[str, list] = {}  # run -> [opening operation, time that it began, time of its latest event]
        self.ends: dict[str, dict] = {}
        self.entries: dict[str, tuple[str, str]] = {}  # id in the store -> (id in the file, time)
        self.lines: dict[str, Line] = {}  # id in the store -> the line of memory
        self.now: dict[str, dict] = {}  # key -> what stands: effect, trust, source, last, time, open, and the operation that said it
        self.owners: dict[str, str] = {}  # key -> the key of the store that it stands for
        self.taken: set[str] = set()
        self.notes: dict[str, dict] = {"left": {}, "converted": {}}

    def left(self, what: str, why: str) -> None:
        """Say what is not converted."""
        self.notes["left"][cut(clean(what), LINE_MAX), cut(clean(why), LINE_MAX)] = None

    def converted(self, what: str, how: str) -> None:
        """Say what is changed in form."""
        self.notes["converted"][cut(clean(what), LINE_MAX), cut(clean(how), LINE_MAX)] = None

    def name(self, wanted: str) -> str:
        """Give a name that nothing in the file has yet."""
        found = free_name(wanted, self.taken)
        self.taken.add(found)
        return found

    def put(self, run: str, time: str, *operations: dict) -> str:
        """Place operations of a run that belong together; gives their time."""
        known = self.runs[run]
        time = max(time, known[1])
        known[2] = max(time, known[2])
        self.events.append((time, len(self.events), operations))
        return time

    def open(self, run: str, dated: str | None = None, actor: str = UNKNOWN) -> None:
        """Open a run if it is not open yet; one without a time comes after those with lower numbers."""
        if run not in self.runs:
            time = dated or max((began for name, (_, began, _) in self.runs.items() if run_number(name) < run_number(run)), default="")
            form = re.sub(r"[._-]*([._-])", r"\1", re.sub(r"[^a-z0-9._-]", "-", actor.lower()))[:40].strip("._-") or UNKNOWN
            if form != actor:
                self.converted("actor %s" % actor, "written %s" % form)
            operation = {"do": "open", "run": run, "actor": form, "dated": dated}
            self.runs[run] = [operation, time, time]
            self.put(run, time, operation)

    def open_last(self, run: str, dated: str | None = None) -> None:
        """Open the run that says all of the store as it is now, after all that was told."""
        time = max([dated or "", *(time for time, _, _ in self.events)])
        self.runs[run] = [{"do": "open", "run": run, "actor": UNKNOWN, "dated": dated, "snapshot": True}, time, time]
        self.put(run, time, self.runs[run][0])

    def fit(self, what: str, text: str, block: bool = False) -> str:
        """Give a text without refused characters, and say so if there were any."""
        fitted = clean(text.strip(), block)
        if fitted != text.strip():
            self.converted(what, "characters that are refused are written as escapes")
        return fitted

    def entry(self, run: str, text: str, importance: int | None = None, name: str | None = None,
              dated: str | None = None) -> tuple[str, str]:
        """Add an entry, gives its id and time; a text that is too long goes on in entries of its own."""
        rest, first = self.fit("an entry of %s" % run, text, block=True), None
        twice = name in self.entries
        while rest:
            piece = cut(rest, TEXT_MAX)
            rest = rest[len(piece):].strip()
            told = self.name(name or "%s-entry" % run)
            ref = None if first or twice else name
            time = self.put(run, dated or "", {"do": "journal", "run": run, "id": told, "text": piece, "importance": importance,
                                               "ref": ref, "dated": dated})
            first = first or (told, time)
            if rest:
                self.converted(first[0], "longer than %d characters: continued in the next entry" % TEXT_MAX)
        if twice:
            self.converted(name, "an id that stands twice: this one is %s" % first[0])
        elif name:
            self.entries[name] = first
        return first

    def end(self, run: str, outcome: str, summary: str, dated: str | None) -> None:
        """Say how a run ended."""
        what, said = "the close of %s" % run, self.fit("the close of %s" % run, summary) or NO_SUMMARY
        if len(said) > SUMMARY_MAX:
            self.entry(run, summary, dated=dated)
            self.converted(what, "its summary is too long: whole as an entry, its start as the summary")
        if outcome == "unrecorded":
            self.converted(what, "no outcome was recorded: partial")
            outcome = "partial"
        self.ends[run] = {"do": "close", "run": run, "outcome": outcome, "summary": cut(said, SUMMARY_MAX), "dated": dated}

    def key(self, key: str) -> str:
        """Give a key of the store as the engine takes it: the first part no device name, at most 80 characters.

        Two keys that would be one are refused: what the first says would be lost as an earlier value of the second.
        """
        found = key
        if re.match(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", key) or len(key) > 80:
            found = ("legacy." + key)[:80].rstrip(".-")
            self.converted("key %s" % key, "written %s" % found)
        other = self.owners.setdefault(found, key)
        if other != key:
            raise CannotRead("the keys %s and %s of the store give one key, %s" % (other, key, found))
        return found

    def tags(self, key: str, words: list[str]) -> list[str]:
        """Give the tags as the engine takes them."""
        found: list[str] = []
        for word in words:
            plain = unicodedata.normalize("NFKD", word.casefold()).encode("ascii", "ignore").decode()
            tag = re.sub(r"[/_-]*([/_-])", r"\1", re.sub(r"[^a-z0-9/_-]+", "-", plain))[:40].strip("/_-")
            if not tag or (tag not in found and len(found) == 12):
                self.left("tag %s of %s" % (word, key), "a subject has at most 12" if tag else "it has no letter or digit")
                continue
            if tag != word:
                self.converted("tag %s of %s" % (word, key), "written %s" % tag)
            found += [tag] if tag not in found else []
        return sorted(found)

    def value(self, key: str, line: Line) -> dict[str, Any]:
        """Give what a line says as the fields of a set."""
        text, falsifier = self.fit(key, line["text"]), self.fit(key, line.get("falsifier", ""))
        detail = [line["more"]] if "more" in line else [text] if len(text) > LINE_MAX else []
        value: dict[str, Any] = {"op": "set", "tier": line["tier"], "text": cut(text, LINE_MAX)}
        status = line.get("status", "active")
        if line["tier"] == 1:
            value["kind"] = line.get("kind", "decision" if status == "decision" else "fact")
            if "importance" in line:
                self.left("importance %s of %s" % (line["importance"], key), "tier 1 has none")
        elif line["tier"] == 2:
            value.update(importance=int(line["importance"]), status={"watch": "watch", "decision": "watch"}.get(status, "active"))
            if status == "decision":
                self.converted(key, "status decision: watch")
        else:
            value.update(confidence=line["confidence"].lower(), falsifier=cut(falsifier, LINE_MAX) or None)
            detail += [falsifier] if len(falsifier) > LINE_MAX else []
            detail.append(line["seen"])  # how often and in what it was seen: there is no field for it
        if "ttl" in line:
            self.left("TTL %s of %s" % (line["ttl"], key), "a claim ends on a date, not at an age")
        if len(detail) > (line["tier"] == 3):
            self.converted(key, "no line of at most %d characters: its start is the text, all of it the detail" % LINE_MAX)
        if detail:
            whole = clean("\n\n".join(detail), block=True)
            value["detail"] = whole.encode()[:DETAIL_BYTES_MAX].decode(errors="ignore")
            if value["detail"] != whole:
                self.left("the end of the text of %s" % key, "longer than %d bytes" % DETAIL_BYTES_MAX)
        value["tags"] = self.tags(key, names_in(line.get("tags", "")))
        return value

    def cite(self, run: str, line: Line) -> tuple[list[str], str]:
        """Give the entries that a line rests on and the time of the last; a pattern has at least one."""
        named = names_in(line.get("evidence", "")) if line["tier"] == 3 else [line["id"]]
        for name in named if line["tier"] == 3 else ():
            if name not in self.entries and self.lines.get(name, line)["tier"] != 3:  # what only the memory says
                self.open(run_of(name))
                self.entry(run_of(name), self.lines[name]["text"], name=name)
        found = [self.entries[name] for name in dict.fromkeys(named) if name in self.entries][:32]
        if line["tier"] == 3 and not found:
            self.converted("pattern %s" % line["id"], "none of its evidence is there: the pattern as it was written is an entry")
            found = [self.entry(run, line["raw"])]
        return [name for name, _ in found], max((time for _, time in found), default="")

    def claim(self, run: str, key: str, line: Line, name: str, time: str = "", dated: str | None = None, why: str = "",
              fate: str = "stands") -> None:
        """Propose what a line says. Its fate: it `stands`, is said `again`, stands `beside` the rest, is `staged` or `withdrawn`."""
        key, name = self.key(key), self.name(name)
        value = {"touch": {"op": "touch"}, "close": {"op": "close", "tier": line["tier"]}}.get(line.get("op")) or self.value(key, line)
        trust, source, now = line.get("trust", "working"), line.get("source", "legacy"), self.now.get(key, {})
        if trust == "contested":
            self.converted(key, "trust contested: working")
            trust = "working"
        evidence, cited = self.cite(run, line) if value["op"] == "set" else ([], "")
        why = self.fit("why of %s" % name, why) if why != line.get("text") else ""
        if len(why) > LINE_MAX:
            self.converted("why of %s" % name, "longer than %d characters: its start; the whole is the entry of its proposal" % LINE_MAX)
        operation = {"do": "propose", "run": run, "id": name, "base": [] if fate == "beside" else None, "key": key, **value,
                     "why": cut(why, LINE_MAX) or None, "evidence": evidence, "source": source, "trust": trust, "dated": dated}
        then = {"withdrawn": [{"do": "withdraw", "run": run, "proposal": name}], "staged": []}.get(fate, [{"do": "sync", "run": run}])
        time = self.put(run, max(time, cited, now.get("time", "")), operation, *then)
        if fate == "stands" and value["op"] == "touch":
            now.update(last=run, time=time)
        elif fate == "stands":
            self.now[key] = {"effect": value, "trust": trust, "source": source, "last": run, "time": time, "open": value["op"] == "set",
                             "said": operation}

    def close(self, run: str, key: str, line: Line, why: str, **when: Any) -> None:
        """Close a subject, if it is open, as the memory has it and not by a proposal."""
        if self.now.get(self.key(key), {}).get("open"):
            said = {name: line[name] for name in ("id", "tier", "trust", "source") if name in line}
            self.claim(run, key, dict(said, op="close"), "%s-close" % key, why=why, **when)

    def stand(self, key: str, line: Line, time: str | None = None) -> None:
        """Tell a line that no proposal tells: in the run where it begins, and again in the last one that it names."""
        begun = line.get("first") if key not in self.now else None
        if not begun:  # a pattern names no run: it is not earlier than what it rests on
            named = [line["id"]] if line["tier"] != 3 else names_in(line.get("evidence", ""))
            known = [run_of(name) for name in named if run_of(name)] or [line.get("first", max(self.runs, key=run_number, default="R0"))]
            begun = max(known, key=run_number)
        for run in dict.fromkeys((begun, line.get("last", begun))):
            self.open(run)
            opened, began, _ = self.runs[run]
            self.claim(run, key, line, "%s@%s" % (key, run), began if time is None else time, opened["dated"])
        if has_ended(line):
            self.close(run, key, line, line["status"], time=began)

    def tell_now(self, asked: dict[str, str] | None = None) -> None:
        """Tell in a run of its own what the store says now: what was changed in a run that the vault has comes by this, and only by this.

        What the runs before said already is nothing new to `import`. A pattern rests on its line too, since the entries that it
        names may have been added to a run that the vault had before. What became of the proposals that were ``asked`` about is in the
        run's name, so that a store that has other answers is told again.
        """
        said = [{**now["said"], "key": key} for key, now in sorted(self.now.items())]
        words = [{name: v for name, v in operation.items() if name not in ("run", "id")} for operation in said]
        digest = hashlib.sha256(json.dumps([sorted(self.runs), words, *([asked] if asked else [])], sort_keys=True).encode()).hexdigest()
        label = "now-" + digest[:16]
        if said:
            self.open_last(label)
        for operation in said:
            own = ["bimri:///bimri.md#" + operation["key"]] if operation["op"] == "set" and operation["tier"] == 3 else []
            self.put(label, "", {**operation, "run": label, "id": self.name("%s@now" % operation["key"]),
                                 "evidence": [*operation["evidence"][:31], *own]})
        if said:
            self.put(label, "", {"do": "sync", "run": label})

    def operations(self) -> list[dict]:
        """Give all operations in order, without what they do not say."""
        for run, close in sorted(self.ends.items(), key=lambda item: (item[1]["dated"] or "", run_number(item[0]))):
            self.put(run, max(close["dated"] or "", self.runs[run][2]), close)
        ordered = [operation for _, _, group in sorted(self.events, key=lambda event: event[:2]) for operation in group]
        ordered += [{"do": "left", "what": what, "why": why} for what, why in self.notes["left"]]
        ordered += [{"do": "converted", "what": what, "how": how} for what, how in self.notes["converted"]]
        # An empty base says that nothing was known; any other empty list says nothing.
        return [{name: v for name, v in op.items() if v is not None and (v != [] or name == "base")} for op in ordered]


# == Run logs and archives, of v4 and v5 ==

def tell_logs(folder: Folder, story: Story, days: dict, proposals: dict[str, dict]) -> None:
    """Tell every run log; ``days`` are the runs' days where a log has no time, ``proposals`` those that have a file."""
    for name in folder.names(".bimri/log", r"R\d+(?:-migrated)?\.md"):
        run, path = name[:-3], ".bimri/log/" + name
        lines = list(split_lines(folder.text(path)))
        heads = [match for match in (LOG_HEAD.fullmatch(line) for _, line in lines) if match]
        dated = moment(heads[0]["time"] if heads and heads[0]["time"] else days.get(run))
        story.open(run, dated, (heads and heads[0]["actor"]) or UNKNOWN)
        tell_log(story, run, path, lines, dated, proposals)


def tell_log(story: Story, run: str, path: str, lines: list, dated: str | None, proposals: dict[str, dict]) -> None:
    """Tell one run log's entries, each at the latest time that the log has before it, and its end."""
    outcomes, closed, prose = [], None, []
    for number, line in [*lines, (0, "## Outcome")]:
        entry, proposed, outcome, end, heading = (form.fullmatch(line) for form in (JOURNAL, PROPOSE, OUTCOME, CLOSED, LOG_HEADING))
        if not (entry or proposed or outcome or end or heading):
            prose.append((number, line))
            continue
        if prose:
            story.converted("%s, line %d" % (path, prose[0][0]), "text without an id: an entry of its own")
            story.entry(run, "\n".join(text for _, text in prose), dated=dated)
            prose = []
        if entry:
            story.entry(run, entry["text"], int(entry["importance"]), entry["id"], dated)
        elif proposed and proposed["id"] in proposals:
            dated = max(dated or "", moment(proposals[proposed["id"]]["created_at"]) or "") or None
        elif proposed:
            story.left("%s, line %d: %s" % (path, number, line), "the proposal's own file is not there")
        elif outcome:
            outcomes.append(outcome)
        elif end:
            closed = closed or moment(end["time"])
    for outcome in outcomes[:-1]:
        story.left("%s: %s" % (path, outcome[0]), "a later outcome of the run takes its place")
    if closed or outcomes:
        story.end(run, outcomes[-1]["outcome"] if outcomes else "unrecorded", outcomes[-1]["why"] if outcomes else "", closed)
    else:
        story.converted("run %s" % run, "it was never closed: it ends with the import")


def read_archives(folder: Folder, story: Story) -> list[tuple[dict, Line]]:
    """Give what the archives hold, in order: what a row says, and the line that it keeps."""
    rows: list[tuple[dict, Line]] = []
    for name in folder.names(".bimri/archive", r"\d{4}-\d\d\.md"):
        path = ".bimri/archive/" + name
        entries, others = read_entries(folder.text(path), CA_LINES)
        rows += [({}, entry) for entry in entries]
        for _, number, line in others:
            row = ARCHIVED.fullmatch(line)
            kept = parse_line(row["line"], V5_LINES + V4_LINES) if row else None
            if kept:
                rows.append((row.groupdict(), kept))
            else:
                story.left("%s, line %d: %s" % (path, number, line), "no form of an archived line")
    return rows


def legacy_key(line: Line) -> str:
    """Give the key of a line that has none, as the v5 engine makes it."""
    return "legacy.%s%s" % ("pattern-" if line["tier"] == 3 else "", line["id"].lower())


def tell_archived(story: Story, rows: list[tuple[dict, Line]], current: Container[str]) -> None:
    """Tell what was archived before there were keys; a subject that is in ``current`` goes on, any other is closed."""
    last = {}
    for _, line in rows:
        story.lines.setdefault(line["id"], line)
    for row, line in rows:
        key = legacy_key(line)
        story.stand(key, dict(line, status="active") if has_ended(line) else line)
        last[key] = (row, line)
    for key, (row, line) in last.items():
        if key not in current:
            run = row.get("run") or story.now[key]["last"]
            story.open(run)
            story.close(run, key, line, row.get("reason") or "", time=story.runs[run][1], dated=moment(row.get("date")))


def tell_inbox(folder: Folder, story: Story) -> None:
    """Say which loose notes stay where they are."""
    for name in folder.names(".bimri/inbox", r"[^.].*"):
        story.left(".bimri/inbox/" + name, "a loose note: nothing says what of it is memory")


# == v1, v2.0-cc, v3: a flat file ==

def tell_flat(folder: Folder, story: Story, hot: str, state: dict[str, Any]) -> None:
    """Tell a flat memory file: the sessions that its entries name, then all of it as it is now."""
    text = folder.text(hot)
    headers = [match for match in HEADER.finditer(text) if match["version"][0] in "123"]
    if len(headers) != 1:
        raise CannotRead("%s: not one header with a version" % hot)
    check_whole(hot, text, ends=headers[0]["version"].endswith("-cc"))
    made = re.search(r"Last Maintained:\s*([\d-]+)", headers[0]["rest"])
    items, others = read_entries(text, FLAT_LINES, free=True)
    for tier, number, line in others:
        if tier and BRACKETS.match(BULLET.sub("", line, count=1)):
            raise CannotRead("%s, line %d: no form of an entry, or one without its text: %s" % (hot, number, line[:120]))
        story.left("%s, line %d: %s" % (hot, number, line), "no form of an entry")
    for day, session in sorted((moment(item[day]) or "", item[run]) for item in items for day, run in
                               (("created", "first"), ("used", "last")) if run in item):
        story.open("session-" + session, day or None)
    keyed = key_flat(items, state["bimri_version"][0])
    for key, item in keyed.items():
        for run in dict.fromkeys("session-" + item[name] for name in ("first", "last") if name in item):
            story.claim(run, key, item, item["name"], story.runs[run][1], moment(item.get("created")))
    whole = "R0-" + folder.read[hot][:12]  # another state of the file is another run
    story.open_last(whole, moment(made[1]) if made else None)
    for key, item in keyed.items():
        story.claim(whole, key, item, item["name"], "", moment(item.get("created")))
    say_made(story, hot, len(items))


def key_flat(items: list[Line], version: str) -> dict[str, Line]:
    """Give the entries by their keys, with ids and names, as the v5 engine makes them."""
    counts, keyed = {"T1": 0, "T2-LEGACY": 0, "PATTERN": 0}, {}
    for number, item in enumerate(items, 1):
        kind = ("T1", "T2-LEGACY", "PATTERN")[item["tier"] - 1]
        counts[kind] += "id" not in item
        item.setdefault("id", "%s-%04d" % (kind, counts[kind]))
        item["name"] = "R0-E%d" % number
        keyed[free_name("legacy.v%s.%s" % (version, re.sub(r"[^a-z0-9]+", "-", item["id"].lower())), keyed)] = item
    return keyed


def say_made(story: Story, hot: str, count: int) -> None:
    """Say once what every line of a store without keys got."""
    if count:
        story.converted("%d lines of %s" % (count, hot), "keys made from ids or places; source legacy, trust working")


# == v2.1-ca and v4: a state, and the runs that it names ==

def tell_state(folder: Folder, story: Story, hot: str, state: dict[str, Any]) -> None:
    """Tell a v2.1-ca or v4 store: its logs, its archives, and its memory as it stands."""
    days = state.get("run_dates") if isinstance(state.get("run_dates"), dict) else {}
    tell_logs(folder, story, days, {})
    lines = read_hot(folder, story, hot, state["bimri_version"])
    rows, keyed = read_archives(folder, story), {}
    for line in lines:
        keyed[free_name(legacy_key(line), keyed)] = line
    both = [line for _, line in rows] + lines
    named = {line[name] for line in both for name in ("first", "last") if name in line} | {run_of(line["id"]) for line in both}
    for run in sorted(named - {None}, key=run_number):
        started = state.get("last_started_at") if run == state.get("current_run_id") else None
        story.open(run, moment(days.get(run) or started))
    story.lines.update((line["id"], line) for line in lines)
    tell_archived(story, rows, keyed)
    for key, line in keyed.items():
        story.stand(key, line)
    story.tell_now()
    say_made(story, hot, len(lines))


def read_hot(folder: Folder, story: Story, hot: str, version: str) -> list[Line]:
    """Give the entries of a v2.1-ca or v4 memory file; prose is allowed in it, what is damaged is not."""
    text, fences = folder.text(hot), version == "2.1-ca"
    header = next((match for _, line, part in scan_lines(text) for match in [HEADER.match(line)] if match and part == "comment"), None)
    if header and header["version"][0] != version[0]:
        raise CannotRead("%s: it is of BIMRI v%s, the store of %s" % (hot, header["version"], version))
    check_whole(hot, text, ends=True, fences=fences)
    if not fences:
        check_outside(hot, text, story)
    lines, others = read_entries(text, CA_LINES, fences=fences)
    places, quoted = {number: tier for tier, number, _ in split_tiers(text, fences)}, quoted_lines(text)
    wrong = [(line["at"], line["raw"]) for line in lines
             if places[line["at"]] not in ((3,) if line["tier"] == 3 else (1, 2)) or JOINED.search(line["raw"], line["raw"].index("]"))]
    for tier, number, raw in others:
        line = parse_line(raw, V4_LINES)
        if line and line["tier"] == tier and not JOINED.search(raw, raw.index("]")):
            lines.append(line)
        elif number not in quoted and (line or NAMED.search(raw) or (tier and LIKE_ENTRY.match(raw))):
            wrong.append((number, raw))
        else:
            story.left("%s, line %d: %s" % (hot, number, raw), "prose that is no entry")
    if wrong:
        number, raw = min(wrong)
        raise CannotRead("%s, line %d: no form of one entry of its tier, or one without its text: %s" % (hot, number, raw[:120]))
    return lines


# == v5: a history ==

#: Kind of record -> the form of its id, and of its fields; one with "?" may be null or absent.
RECORDS = {
    "proposals": (r"R\d{6}-Q\d{3}", {
        "run_id": r"R\d+", "entry_id": ENTRY, "operation": "set|touch|close", "tier": range(1, 4), "key": KEY, "text": str,
        "created_at": str, "actor": str, "rationale?": str, "trust?": "working|confirmed|contested",
        "source?": "user|agent|external|system|legacy", "tags?": list, "evidence?": list}),
    "decisions": (r"R\d{6}-Q\d{3}", {"outcome": str, "revision?": int, "conflict_id?": str, "resolution_id?": str, "reason?": str}),
    "conflicts": (r"C\d{6}", {"question": str, "proposal_ids": list, "proposal_hashes": dict}),
    "resolutions": (r"C\d{6}", {"status": str, "choice": str}),
}


#: Tier of a proposal -> what else its fields must be; those of other tiers mean nothing.
OF_TIER = {"1": {"kind": "decision|fact|pref|rule"}, "2": {"status": "active|watch|closed", "importance?": range(1, 6)},
           "3": {"confidence": "emerging|developing|established"}}


def has_form(value: Any, form: Any) -> bool:
    """Tell whether a value is of a type, in a range, or written in a form."""
    if isinstance(form, type):
        return isinstance(value, form)
    if isinstance(form, range):
        return type(value) is int and value in form
    return isinstance(value, str) and bool(re.fullmatch(form, value))


def read_records(folder: Folder, story: Story, kind: str) -> dict[str, dict]:
    """Give the records of a kind by id; one that was quarantined counts as absent."""
    id_form, fields = RECORDS[kind]
    found = {}
    for name in folder.names(".bimri/" + kind, id_form + r"\.json"):
        path = ".bimri/%s/%s" % (kind, name)
        record = folder.json(path)
        if record.get("record_type") == "authority-quarantine":
            story.left(path, "quarantined by the old engine; the damaged original is in its recovery folder")
            continue
        of_tier = OF_TIER.get(str(record.get("tier")), {}) if kind == "proposals" else {}
        for field, form in {**fields, **of_tier}.items():
            value = record.get(field.rstrip("?"))
            words = value if form is list and isinstance(value, list) else ()
            if not (has_form(value, form) and all(isinstance(one, str) for one in words)) and not (value is None and field.endswith("?")):
                raise CannotRead("%s: no usable %r" % (path, field.rstrip("?")))
        found[name.split(".")[0]] = record
    return found


class History:
    """A v5 store's records and revisions."""

    def __init__(self, folder: Folder, story: Story, state: dict[str, Any]) -> None:
        self.folder, self.story, self.state = folder, story, state
        self.head = state.get("head_revision")
        if not isinstance(self.head, int) or hashlib.sha256(folder.load(self.path(self.head))).hexdigest() != state.get("head_hash"):
            raise CannotRead("%s: the head revision is not the one of head_revision and head_hash" % ".bimri/state.json")
        self.proposals, self.decisions, self.conflicts, self.resolutions = (read_records(folder, story, kind) for kind in RECORDS)
        self.parsed: dict[int, dict[str, Line]] = {}
        self.effects: dict[str, dict] = {}  # a line -> what it says
        self.stood: list[tuple] = []  # (key, revision, what a proposal made of it)

    @staticmethod
    def path(number: int) -> str:
        """Give the file of a revision."""
        return ".bimri/revisions/V%06d.md" % number

    def lines(self, number: int) -> dict[str, Line]:
        """Give the lines of a revision by key; none of one that is not there and not the head."""
        path, found = self.path(number), {}
        if number not in self.parsed and not self.folder.has(path):
            self.story.left(path, "it is not there: what it held comes from the proposals")
            self.parsed[number] = {}
        if number in self.parsed:
            return self.parsed[number]
        check_whole(path, self.folder.text(path), ends=True)
        for tier, at, raw in split_tiers(self.folder.text(path)):
            line = parse_line(raw, [form for form in V5_LINES if form[0] == tier])
            if tier and (not line or line["key"] in found):
                raise CannotRead("%s, line %d: %s: %s" % (path, at, "a key that stands twice" if line else "no form of a line", raw[:120]))
            if line:
                found[line["key"]] = line
        self.parsed[number] = found
        return found

    def current(self) -> dict[str, Line]:
        """Give the lines that hold now by key: those of the head, and since v5.1 the cold ones that it does not carry."""
        found, cold = dict(self.lines(self.head)), self.state.get("cold_current") or {}
        for key, entry in sorted(cold.items()) if isinstance(cold, dict) else [("", cold)]:
            raw = entry.get("raw_line") if isinstance(entry, dict) else None
            line = parse_line(raw, V5_LINES) if isinstance(raw, str) else None
            digest = hashlib.sha256(raw.encode(errors="replace")).hexdigest() if line else None
            if not line or line["key"] != key or key in found or digest != entry.get("line_hash"):
                raise CannotRead(".bimri/state.json: cold_current %s is damaged, or in the head too" % key)
            found[key] = line
        return found

    def fate(self, name: str) -> tuple[str, Any, str | None]:
        """Tell what became of a proposal: (word, revision, time)."""
        decision = self.decisions.get(name, {"outcome": "pending"})
        answer = self.resolutions.get(decision.get("resolution_id") or decision.get("conflict_id"), {})
        word, number, time = decision["outcome"], decision.get("revision"), decision.get("resolved_at") or decision.get("recorded_at")
        if answer.get("status") == "resolved":
            word = "chosen" if answer["choice"] == name else "declined"
            number, time = answer.get("revision_after"), answer.get("resolved_at")
        if word in DECIDED and not (isinstance(number, int) and 0 <= number <= self.head):
            raise CannotRead(".bimri/decisions/%s.json: %s in revision %s, the head is %d" % (name, word, number, self.head))
        return word, number, moment(time)

    def asked(self) -> dict[str, str]:
        """Give what became of each proposal that is undecided or was in question."""
        fates = {name: self.fate(name)[0] for name in sorted(self.proposals)}
        return {name: word for name, word in fates.items()
                if word not in DECIDED or self.decisions[name].get("conflict_id") in self.conflicts}

    def line_of(self, name: str, word: str, number: Any) -> Line:
        """Give what a proposal says as a line; what the owner chose is confirmed."""
        proposal = self.proposals[name]
        evidence = ",".join(map(str, proposal.get("evidence") or ()))
        line = {"source": "agent", "trust": "working"}
        line.update((field, str(proposal[field])) for field in ("text", "kind", "status", "confidence", "falsifier", "trust", "source")
                    if proposal.get(field) is not None)
        line.update(id=proposal["entry_id"], tier=int(proposal["tier"]), raw=proposal["text"], op=proposal["operation"], evidence=evidence,
                    tags=",".join(map(str, proposal.get("tags") or ())), seen="[obs:%s] [ev:%s]" % (proposal.get("observations"), evidence))
        if line["tier"] == 2:
            line["importance"] = str(proposal.get("importance") or 3)
        if word == "chosen":  # v5.0 and v5.0.1 made the owner its source: as the revision has it
            line.update(trust="confirmed", source=self.lines(number).get(proposal["key"], line).get("source", line["source"]))
            self.story.converted(name, "the owner's choice: confirmed")
        return line

    def propose(self, name: str, line: Line, time: str, fate: str) -> None:
        """Tell a proposal."""
        proposal = self.proposals[name]
        self.story.open(proposal["run_id"], actor=proposal["actor"])
        self.story.claim(proposal["run_id"], proposal["key"], line, name, time, moment(proposal["created_at"]),
                         proposal.get("rationale") or "", fate)

    def decide(self, name: str, word: str, number: int, time: str) -> None:
        """Tell a proposal that was decided, at its place in the history."""
        story, line, key = self.story, self.line_of(name, word, number), self.story.key(self.proposals[name]["key"])
        now, op = story.now.get(key, {}), line["op"]
        effect = story.value(key, line) if op == "set" else {"op": op}
        if word in MADE and (op == "set" or now.get("open")):
            self.propose(name, line, time, "stands")
            self.stood.append((key, number, effect))
            if op == "set" and has_ended(line) and line["tier"] == 2:
                story.close(self.proposals[name]["run_id"], self.proposals[name]["key"], line, "closed", time=time)
        elif word == "noop" and now.get("open") and (op == "touch" or (line["trust"] == now["trust"] and now["effect"] == effect)):
            self.propose(name, line, time, "again")
        elif word in ("noop", "declined"):
            answer = self.resolutions.get(self.decisions[name].get("conflict_id"), {}).get("choice")
            why = "the owner chose %s" % answer if answer else self.decisions[name].get("reason", word)
            story.converted(name, "in the store: %s" % why)
            self.propose(name, line, time, "withdrawn")
        else:
            story.left(name, "%s of a subject that is not there" % op)

    def reconcile(self, lines: dict[str, Line], time: str | None) -> None:
        """Tell the lines that no proposal explains."""
        for key, line in lines.items():
            now = self.story.now.get(self.story.key(key), {})
            if line["raw"] not in self.effects:
                self.effects[line["raw"]] = self.story.value(self.story.key(key), line)
            told = {"effect": self.effects[line["raw"]]}
            if line["tier"] != 3:
                told.update(trust=line["trust"].replace("contested", "working"), source=line["source"])
            if not (told.items() <= now.items() if now.get("open") else now and has_ended(line)):
                self.story.stand(key, line, time)

    def ask(self, name: str, number: Any, time: str) -> str | None:
        """Tell an open question, if what stands is open and of the same trust; else give why it is staged."""
        proposal = self.proposals[name]
        asked, key = self.decisions[name].get("conflict_id"), self.story.key(proposal["key"])
        line, now = self.line_of(name, "contested", None), self.story.now.get(key, {})
        what = "%s of %s: %s" % (name, asked, self.conflicts.get(asked, {}).get("question", ""))
        if line["op"] == "touch" or not now.get("open") or (now["trust"] == "confirmed" and line["trust"] != "confirmed"):
            return what
        effect = self.story.value(key, line) if line["op"] == "set" else {"op": "close"}
        if any(k == key and at > (number or 0) and said == effect for k, at, said in self.stood):
            self.story.converted(what, "in the store: accepted since")
            self.propose(name, line, time, "withdrawn")
            return None
        if line["trust"] == "confirmed" != now["trust"]:
            self.story.converted(name, "trust confirmed: working, while its question is open")
            line["trust"] = "working"
        self.story.converted(what, "in the store: open, beside the current value")
        self.propose(name, line, time, "beside")
        return None


def tell_v5(folder: Folder, story: Story, hot: str | None, state: dict[str, Any]) -> None:
    """Tell a v5 store."""
    history = History(folder, story, state)
    if not hot or folder.load(hot) != folder.load(history.path(history.head)):
        story.left(hot or "bimri.md", "it is not the accepted revision V%06d, which was read in its place" % history.head)
    for name, conflict in history.conflicts.items():
        for proposal in conflict["proposal_ids"]:
            if proposal not in history.proposals:
                story.left("%s of %s: %s" % (proposal, name, conflict["question"]), "the proposal is not there")
            elif folder.read[".bimri/proposals/%s.json" % proposal] != conflict["proposal_hashes"].get(proposal):
                raise CannotRead(".bimri/proposals/%s.json: its SHA-256 is not the one in %s" % (proposal, name))
        if not conflict["proposal_ids"] and history.resolutions.get(name, {}).get("status") != "resolved":
            extra = conflict.get("extra") if isinstance(conflict.get("extra"), dict) else {}
            kept = map(str, extra["recovery_files"] if isinstance(extra.get("recovery_files"), list) else [])
            story.left("%s: %s" % (name, " ".join([conflict["question"], *kept])), "a question about files, not about a subject")
    days = state.get("run_dates") if isinstance(state.get("run_dates"), dict) else {}
    tell_logs(folder, story, days, history.proposals)
    first = history.lines(0) if folder.has(history.path(0)) else {}
    for run in sorted({line.get("first") or run_of(line["id"]) for line in first.values()} - {None}, key=run_number):
        story.open(run, moment(days.get(run)))
    rows = read_archives(folder, story)
    story.lines.update((line["id"], line) for line in first.values())
    tell_archived(story, [(row, line) for row, line in rows if "key" not in line], first)
    history.reconcile(first, None)
    tell_decided(history)
    story.tell_now(history.asked())
    known = {proposal["entry_id"] for proposal in history.proposals.values()} | set(story.lines)
    for row, line in rows:
        if "key" in line and line["id"] not in known and (line["tier"] != 3 or story.key(line["key"]) not in story.now):
            story.left("archived %s: %s" % (row["date"], line["raw"]), "no accepted decision explains it")
    for name in sorted(set(history.decisions) - set(history.proposals)):
        story.left(".bimri/decisions/%s.json" % name, "the proposal is not there")
    unread = [name for name in folder.names(".bimri/revisions", r"V\d{6}\.md") if ".bimri/revisions/" + name not in folder.read]
    if unread:
        story.left("revisions %s" % " ".join(unread), "no accepted decision names them")


def tell_decided(history: History) -> None:
    """Tell what was decided in the order of the revisions, then what is open."""
    story, time, staged = history.story, "", []
    fates = {name: history.fate(name) for name in sorted(history.proposals)}
    decided: dict[tuple, list] = {}
    for name, (word, number, at) in fates.items():
        if word in DECIDED:
            decided.setdefault((number, word not in MADE), []).append((at or "", name))
    for name, decision in history.decisions.items():  # what a proposal that is gone made is in its revision
        if name not in fates and decision["outcome"] == "accepted" and decision.get("revision") in range(history.head + 1):
            decided.setdefault((decision["revision"], False), [])
    for (number, others), rows in sorted(decided.items()):
        for at, name in sorted(rows):
            time = max(time, at)
            history.decide(name, fates[name][0], number, time)
        if not others:
            history.reconcile(history.lines(number), time)
    current = history.current()
    history.reconcile(current, time)
    lines = {story.key(key): line for key, line in current.items()}
    for key, now in sorted(story.now.items()):
        if now["open"] and key not in lines:
            story.converted(key, "no longer in memory, and no decision says why: closed")
            story.close(now["last"], story.owners[key], now["effect"], "", time=time)
        elif now["open"] and lines[key].get("last", now["last"]) != now["last"]:
            story.open(lines[key]["last"])
            story.claim(lines[key]["last"], story.owners[key], dict(lines[key], op="touch"), "%s-touch" % key, time)
    for name, (word, number, at) in fates.items():
        if word == "contested":
            what = history.ask(name, number, at or "")
            staged += [(name, what)] if what else []
        elif word not in DECIDED:
            staged.append((name, "%s %s" % (name, history.decisions.get(name, {}).get("reason", ""))))
    for name, what in staged:
        story.converted(what, "in the store: %s" % fates[name][0])
        told = story.runs.get(history.proposals[name]["run_id"], ("", "", ""))  # no sync of the run must come after it
        history.propose(name, history.line_of(name, fates[name][0], None), told[2], "staged")


# == Which store, and the whole of it ==

def find_store(folder: Folder) -> tuple[str, Any, Any, dict] | None:
    """Give (version, who tells it, the memory file, the state) of the store in a folder; None where there is none."""
    hot, state = folder.memory(), {}
    if folder.has(".bimri/state.json"):
        state = folder.json(".bimri/state.json")
        version = state.get("bimri_version", "4" if "current_run_id" in state else None)
    else:
        text = folder.text(hot) if hot else ""
        header = HEADER.search(text)
        version = header["version"] if header else "4" if any(parse_line(line, V4_LINES) for _, line in split_lines(text)) else None
        if (version or "").startswith("5") or (folder.root / ".bimri" / "revisions").is_dir():
            raise CannotRead(".bimri/state.json: it is missing, so nothing says which revision is accepted")
        if version is None:
            return None
    for form, teller in ((r"5\.[01](\.\d+)?", tell_v5 if state else None), (r"4(\.\d+)*|2\.1-ca", tell_state),
                         (r"[123](\.\d+)?(-[a-z]+)?", None if state else tell_flat)):
        if teller and isinstance(version, str) and re.fullmatch(form, version):
            if not hot and teller is not tell_v5:
                raise CannotRead("bimri.md: it is missing beside .bimri/state.json")
            return version, teller, hot, dict(state, bimri_version=version)
    raise CannotRead("BIMRI %s is no version that this reader knows" % version)


def detect(folder: str) -> str | None:
    """Say which store lies in a project folder, as a phrase; None where there is none."""
    try:
        found = find_store(Folder(folder))
    except CannotRead as error:
        return "a BIMRI store that cannot be read (%s)" % error
    return "a BIMRI store of version %s" % found[0] if found else None


def store_name(folder: Folder) -> str:
    """Give the line that names a store: its real path, with a hash in the place of what is too long."""
    name = clean(folder.root.resolve().as_posix())
    return name if len(name) <= LINE_MAX else name[:LINE_MAX - 17] + "-" + hashlib.sha256(name.encode()).hexdigest()[:16]


def read(path: str) -> list[dict]:
    """Give the operations of `import` for the store in a project folder; CannotRead if it cannot be told for sure."""
    folder, story = Folder(path), Story()
    found = find_store(folder)
    if not found:
        raise CannotRead("%s: no BIMRI store" % folder.root)
    _, teller, hot, state = found
    teller(folder, story, hot, state)
    tell_inbox(folder, story)
    files = [{"path": str(folder.root / name), "sha256": digest} for name, digest in sorted(folder.read.items())]
    source = {"do": "source", "format": "bimri", "name": store_name(folder), "files": files}
    return [source, *story.operations()]


def main() -> int:
    """Write the operations to stdout, one JSON object a line."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: bimri.py PROJECT > FILE.jsonl\n")
        return 2
    try:
        operations = read(sys.argv[1])
    except CannotRead as error:
        sys.stderr.write("cannot read: %s\n" % clean(str(error)))
        return 3
    lines = [json.dumps(operation, ensure_ascii=False) + "\n" for operation in operations]
    sys.stdout.buffer.write("".join(lines).encode(errors="backslashreplace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
