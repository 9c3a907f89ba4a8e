#!/usr/bin/env python3
"""Reads a folder of one-fact notes, or one file of bullet lines, and writes what `import` takes.

For folders of Markdown notes with frontmatter and, mostly, an index MEMORY.md (Claude Code's auto memory, Bermuda, a card
wiki, a plain Obsidian folder), and for a single MEMORY.md or CLAUDE.md of bullet lines. README.md beside this file has the
whole mapping as tables.

    python3 notes.py FOLDER-OR-FILE [--format notes|claude-memory] > notes.jsonl

Only reads: exit 0, or 3 with the reason and nothing on standard output. The same bytes give the same lines.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

FORMATS = ("notes", "claude-memory")
#: The engine's limits (PROTOCOL sections 4 and 8).
TEXT_MAX = 500
DETAIL_BYTES_MAX = 32_768
LIST_MAX = 32
TAGS_MAX = 12
KEY_MAX = 80

#: What `type` says -> the fields of the tier that it means.
TYPES = {
    "user": {"tier": 1, "kind": "pref"},
    "feedback": {"tier": 1, "kind": "rule"},
    "reference": {"tier": 1, "kind": "fact"},
    "project": {"tier": 2, "importance": 3, "status": "active"},
}
NO_TYPE = {"tier": 2, "importance": 3, "status": "active"}
#: What a card's `source` says -> whose word it is.
SOURCES = {"user": "user", "medicao": "agent", "deducao": "agent", "documento": "external"}
#: A card's or claim's `status` that says that it holds no more.
CLOSED = ("historico", "obsoleto")
#: Properties with the time of the last change, the first that is there counts.
DATES = ("updated", "modified", "created", "date")
#: Properties that have a field of their own, or that a tool keeps for itself: not said again in the detail.
MAPPED = {"description", "title", "type", "tags", "related", "claims", "pageType", "node_type", "originSessionId", *DATES}
#: Files about a folder or for every agent: no fact, and no note.
NO_NOTES = {"readme.md", "claude.md", "claude.local.md", "agents.md", "gemini.md"}
INDEX = "memory.md"
SUFFIXES = (".md", ".markdown")

#: As the engine refuses them; newline and tab stand in a detail.
REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
                     "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]")
#: What stands in no line, and so in no path of an import.
NOT_IN_LINE = re.compile("[\t\n]|" + REFUSED.pattern)
#: The escapes of YAML's double quotes, but those of a number, and how many digits these have.
ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ",
           '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
DIGITS = {"x": 2, "u": 4, "U": 8}
ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
                    r"|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")
PROPERTY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'#\[\]{}&*!|>%@`,?-][^:]*?|-[^\s:][^:]*?)\s*:(?:\s+(.*))?$""")
BULLET = re.compile(r"( *)([-*+])( +|$)(.*)$")
HEADING = re.compile(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
BLOCK = re.compile(r" *(?:\d+[.)]\s|>|\||<|[-*_]{3})")  # what ends a paragraph without an empty line
FENCE = re.compile(r" *(`{3,}|~{3,})")
INDEX_LINE = re.compile(r"\[(?!\[)(?P<title>[^\]]*)\]\(<?(?P<file>[^)>]+?)>?\)|\[\[(?P<wiki>[^\[\]|#]{1,500})[^\[\]]{0,500}\]\]")
WIKILINK = re.compile(r"\[\[([^\[\]|#^]{1,500})[^\[\]]{0,500}\]\]|\bvault:([\w./-]*[\w-])")
#: No target goes on over the beginning of another link: a text of links that do not end takes no square of its length.
FILELINK = re.compile(r"\]\(<?((?:(?!\]\()[^)>\s]){1,500}?\.(?:md|markdown))(?:#[^)>]{0,500})?>?(?:\s+\"[^\"]*\")?\)", re.IGNORECASE)
WHOLE_LINK = re.compile(r"%s|\[[^\[\]]{0,500}%s" % (WIKILINK.pattern, FILELINK.pattern), re.IGNORECASE)
SENTENCE = re.compile("(?s).+?[.!?…](?=\\s|$)|.+?[。\uff01\uff1f]")  # the last three are full stops of Chinese and Japanese
URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s]+")
TIME = re.compile(r"([1-9]\d{3})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d\d:?\d\d)?)?$")

Operation = dict[str, Any]


class CannotRead(Exception):
    """What is to be read is damaged, ambiguous or out of reach; the text says what, and where."""


class File(NamedTuple):
    """A file as it was read: its path within the folder, where it lies, the hash of its bytes, its text with LF alone."""

    path: str
    place: str
    sha256: str
    text: str


class Note(NamedTuple):
    """A note: its file, its properties, the lines of its body, whether it lies in an archive, its path but for that, and its key."""

    file: File
    properties: dict[str, Any]
    body: list[str]
    archived: bool
    identity: str
    key: str


class Receipt:
    """What could not be converted (`left`) and what had to be changed in form (`converted`), for the owner to read."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def left(self, what: str, why: str) -> None:
        """Say that something was not converted."""
        self.operations.append({"do": "left", "what": line_of(what), "why": line_of(why)})

    def converted(self, what: str, how: str) -> None:
        """Say that something was changed in form."""
        self.operations.append({"do": "converted", "what": line_of(what), "how": line_of(how)})


# Text, times and keys


def escape(text: str, refused: re.Pattern[str] = REFUSED) -> str:
    """Return a text in which each character that the engine refuses is written as its escape."""
    return refused.sub(lambda c: "\\u%04x" % ord(c.group()), text)


def line_of(text: str, most: int = TEXT_MAX) -> str:
    """Return a text as one line, refused characters escaped, cut to ``most`` characters."""
    line = escape(" ".join(text.split()))
    return line if len(line) <= most else line[:most - 1].rstrip() + "…"


def fit_detail(text: str, file: File, what: str, receipt: Receipt) -> str:
    """Return a text as a detail: refused characters escaped, cut at a line's end where it is too long, with what is kept whole."""
    text = escape(text).strip("\n")
    if len(text.encode("utf-8")) <= DETAIL_BYTES_MAX:
        return text
    end = "\n\n(Cut here. All of it is in the kept file %s.)" % file.sha256
    start = text.encode("utf-8")[:DETAIL_BYTES_MAX - len(end.encode("utf-8"))].decode("utf-8", "ignore")
    receipt.converted(what, "%d bytes, %d at most in a detail: cut; all of it is in the kept file" % (
        len(text.encode("utf-8")), DETAIL_BYTES_MAX))
    return (start[:start.rfind("\n")] if "\n" in start[-4_000:] else start).rstrip() + end


def plain(text: Any) -> str:
    """Return a word of the frontmatter as it is compared: lower case, without accents and what follows a `#`."""
    word = unicodedata.normalize("NFKD", str(text or "").split(" #")[0].strip().casefold())
    return "".join(c for c in word if not unicodedata.combining(c))


def parse_time(value: Any) -> str | None:
    """Return a date or time of the frontmatter as the engine writes times (no zone is read as UTC), or None."""
    from datetime import datetime, timedelta, timezone

    found = TIME.match(str(value or "").strip())
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        time = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0),
                        int((fraction or "0").ljust(6, "0")[:6]), timezone.utc)
        if zone and zone != "Z":
            ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            time += -ahead if zone[0] == "+" else ahead
    except (ValueError, OverflowError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (time.microsecond // 1000) if time.year > 999 else None


def slug(text: str) -> tuple[str, bool]:
    """Return a text as a part of a key, maybe empty, and whether it lost letters or digits by that."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    lost = any(c.isalnum() and not c.isascii() for c in folded)
    word = re.sub(r"[^a-z0-9.]+", "-", "".join(c for c in folded if not unicodedata.combining(c)))
    return re.sub(r"[.-]*\.[.-]*", ".", word).strip("-."), lost


def make_key(parts: list[str], identity: str) -> str:
    """Return a key of these parts; it gets a hash of ``identity`` where they could not be written whole."""
    slugs = [slug(part) for part in parts]
    key = ".".join(word or "note" for word, _ in slugs)
    if DEVICES.match(key):
        key = "note-" + key
    lost = any(lost or not word for word, lost in slugs)
    return with_hash(key, identity) if lost or len(key) > KEY_MAX else key


def with_hash(key: str, identity: str, digits: int = 6) -> str:
    """Return a key that ends with a hash of ``identity``, within the limit."""
    return key[:KEY_MAX - digits - 1].rstrip("-.") + "-" + hashlib.sha256(identity.encode("utf-8")).hexdigest()[:digits]


# Frontmatter: a small part of YAML


class Frontmatter:
    """The properties between the lines `---`: scalars, quoted or not, `|` and `>`, lists and mappings, inline and as blocks.

    Everything is text, or None where there is nothing. What follows a `#` on a line of plain text stays text, since who writes
    such notes seldom means a comment by it. Anchors, aliases, types and doubled names are refused.
    """

    def __init__(self, path: str, lines: list[str], first: int) -> None:
        """Take the lines and the number that the first of them has in the file."""
        self.path, self.first = path, first
        self.lines = lines
        self.at = 0

    def fail(self, what: str, at: int | None = None) -> CannotRead:
        """Return the error that names file, line and what is wrong."""
        return CannotRead("%s line %d: %s" % (self.path, self.first + (self.at if at is None else at), what))

    def peek(self) -> int:
        """Go to the next line that says something; return its indent, or -1 at the end."""
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.lines[self.at].lstrip().startswith("#")):
            self.at += 1
        if self.at == len(self.lines):
            return -1
        line = self.lines[self.at]
        indent = len(line) - len(line.lstrip())
        if "\t" in line[:indent]:
            raise self.fail("a tab indents it")
        return indent

    def parse(self) -> dict[str, Any]:
        """Return all properties."""
        indent = self.peek()
        if indent < 0:
            return {}
        if self.is_item():
            raise self.fail("an item of a list, and no name above it")
        try:
            found = self.mapping(indent)
        except RecursionError:
            raise CannotRead("%s: its frontmatter is nested too deep" % self.path) from None
        if self.peek() >= 0:
            raise self.fail("its indent fits nothing above it")
        return found

    def is_item(self) -> bool:
        """Tell whether the line is an item of a list."""
        return re.match(r" *-(?: |$)", self.lines[self.at]) is not None

    def block(self, least: int, items: int) -> Any:
        """Return what stands indented by ``least`` or more below a name (items of a list by ``items``), or None."""
        indent = self.peek()
        if indent >= items and self.is_item():
            return self.sequence(indent)
        return self.mapping(indent) if indent >= least else None

    def mapping(self, indent: int) -> dict[str, Any]:
        """Return the names and values at one indent."""
        found: dict[str, Any] = {}
        while self.peek() == indent and not self.is_item():
            at = self.at
            match = PROPERTY.match(self.lines[at].strip())
            if not match:
                raise self.fail("no `name: value`")
            name = str(self.scalar(match[1], at)) if match[1][0] in "\"'" else match[1]
            if name in found:
                raise self.fail("%s stands there twice" % json.dumps(name))
            self.at += 1
            found[name] = self.value(match[2] or "", indent, indent)
        return found

    def sequence(self, indent: int) -> list[Any]:
        """Return the items of a list at one indent."""
        found = []
        while self.peek() == indent and self.is_item():
            rest = self.lines[self.at][indent + 1:].strip()
            if PROPERTY.match(rest) or re.match(r"-(?: |$)", rest):
                inner = self.lines[self.at].index(rest, indent + 1)
                self.lines[self.at] = " " * inner + rest
                found.append(self.sequence(inner) if self.is_item() else self.mapping(inner))
            else:
                self.at += 1
                found.append(self.value(rest, indent, indent + 1))
        return found

    def value(self, rest: str, indent: int, items: int) -> Any:
        """Return the value that begins with ``rest`` and goes on in what is indented deeper."""
        at = self.at - 1
        end = self.lines[at][len(self.lines[at].rstrip()):]
        if not rest or rest.startswith("# "):
            return self.block(indent + 1, items)
        if re.fullmatch(r"[|>][-+0-9]*", rest):
            return self.literal(rest[0], indent)
        said = [rest + end]
        while self.at < len(self.lines) and self.peek() > indent:
            if rest[0] not in "\"'[{" and (PROPERTY.match(self.lines[self.at].strip()) or self.is_item()):
                raise self.fail("it is indented below a value")
            said.append(self.lines[self.at])
            self.at += 1
        return self.scalar(join_lines(said, rest[0] in '"[{'), at)

    def literal(self, style: str, indent: int) -> str | None:
        """Return the text of a `|` or `>`."""
        start = self.at
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.lines[self.at].startswith(" " * (indent + 1))):
            self.at += 1
        lines = self.lines[start:self.at]
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        text = "\n".join(line[margin:] for line in lines).strip("\n")
        return (text if style == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", text)) or None

    def scalar(self, text: str, at: int) -> Any:
        """Return what one value says: text, None, a list or a mapping."""
        if text[0] in "\"'[{" and not re.fullmatch(r"\[\[[^\[\]]*\]\]", text):
            found, end = self.flow(text, 0, at)
            if text[end:].strip() and not text[end:].lstrip().startswith("#"):
                raise self.fail("%s follows what was closed" % json.dumps(text[end:].strip()[:40]), at)
            return found
        if re.match(r"&|!|\*(?!\*)", text):
            raise self.fail("anchors, aliases and types of YAML are not read here; quote the value if it is text", at)
        return None if text in ("~", "null", "Null", "NULL") else text

    def flow(self, text: str, n: int, at: int) -> tuple[Any, int]:
        """Return what begins at ``n`` with a quote or bracket, or is plain within brackets, and where it ends."""
        quoted = re.compile(r"""("(?:[^"\\]|\\.)*")|('(?:[^']|'')*')|(\[\[[^\[\]]*\]\])""").match(text, n)
        if not quoted and text[n] in "[{":
            return self.inside(text, n, at, "]" if text[n] == "[" else "}")
        if not quoted and text[n] in "\"'":
            raise self.fail("what begins with %s is not closed" % text[n], at)
        if not quoted:
            found = re.compile(r"[^,\[\]{}]*?(?=\s*(?:[,\[\]{}]|:\s|$))").match(text, n)
            word = found.group() if found else ""
            return (None if word in ("", "~", "null") else word), n + len(word)
        if quoted[1]:
            try:
                return ESCAPE.sub(parse_escape, quoted[1][1:-1]), quoted.end()
            except ValueError as error:
                raise self.fail(str(error), at) from None
        return (quoted[2][1:-1].replace("''", "'") if quoted[2] else quoted[3]), quoted.end()

    def inside(self, text: str, n: int, at: int, close: str) -> tuple[Any, int]:
        """Return the list or mapping whose bracket opens at ``n``, and where it ends."""
        items: list[Any] = []
        names: dict[str, Any] = {}
        n += 1
        while True:
            n = _skip_blank(text, n)
            if n < len(text) and text[n] == close:
                return (items if close == "]" else names), n + 1
            if n == len(text) or text[n] in ",]}":
                raise self.fail("a list or mapping that is not closed, or empty between commas", at)
            found, n = self.flow(text, n, at)
            n = _skip_blank(text, n)
            if close == "}":
                if text[n:n + 1] != ":" or not isinstance(found, str) or found in names:
                    raise self.fail("no `name: value` between the braces, or one name twice", at)
                n = _skip_blank(text, n + 1)
                names[found], n = self.flow(text, n, at) if n < len(text) and text[n] not in ",}" else (None, n)
                n = _skip_blank(text, n)
            else:
                items.append(found)
            if text[n:n + 1] == ",":
                n += 1
            elif text[n:n + 1] != close:
                raise self.fail("a comma or %s is missing" % close, at)


def _skip_blank(text: str, n: int) -> int:
    while n < len(text) and text[n] in " \t":
        n += 1
    return n


def parse_escape(found: re.Match[str]) -> str:
    """Return the character that an escape of YAML's double quotes names; two halves of a pair, as JSON has them, are one."""
    high, low, *numbers, sign = found.groups()
    if high:
        return chr(0x10000 + (int(high, 16) - 0xD800 << 10) + int(low, 16) - 0xDC00)
    if sign in DIGITS:
        raise ValueError("\\%s needs %d hex digits" % (sign, DIGITS[sign]))
    if sign:
        if sign not in ESCAPES:
            raise ValueError("\\%s is no escape of YAML's double quotes" % sign)
        return ESCAPES[sign]
    number = int(next(digits for digits in numbers if digits), 16)
    if number > 0x10FFFF:
        raise ValueError("%s is beyond the last character, 10FFFF" % found.group())
    if 0xD800 <= number < 0xE000:
        raise ValueError("%s is half of a pair, and no character" % found.group())
    return chr(number)


def join_lines(lines: list[str], escapes: bool) -> str:
    """Return the lines of a value as one; where it may have ``escapes``, a backslash at a line's end takes the break away."""
    text = "\n".join(lines)
    if escapes:
        text = re.sub(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*", r"\1", text)
    return " ".join(line.strip() for line in text.split("\n"))


def split_frontmatter(file: File) -> tuple[dict[str, Any], list[str]]:
    """Return the properties of a file and the lines of its body; what Claude Code nests below `metadata` stands with the others."""
    lines = file.text.split("\n")
    if lines[0].rstrip() != "---":
        return {}, lines
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    said = lines[1:end]
    if end is None or not all(not line.strip() or line.lstrip().startswith("#") for line in said):
        if not any(PROPERTY.match(line) for line in (said if end else said[:1])):
            return {}, lines  # a thematic break, and text
        if end is None:
            raise CannotRead("%s line 1: its frontmatter is not closed by a line `---`" % file.path)
    found = Frontmatter(file.path, said, 2).parse()
    if isinstance(found.get("metadata"), dict):
        nested = found.pop("metadata")
        found.update({name: value for name, value in nested.items() if found.get(name) is None})
    return found, lines[end + 1:]


# Files


def read_file(place: str, path: str) -> File:
    """Return a file, or raise CannotRead where it cannot be read or is not UTF-8."""
    try:
        data = Path(place).read_bytes()
    except OSError as error:
        raise CannotRead("%s: it cannot be read: %s" % (path, error.strerror or error)) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CannotRead("%s line %d: not UTF-8 (byte %d is 0x%02x)" % (path, line, error.start, data[error.start])) from None
    return File(path, path_text(place), hashlib.sha256(data).hexdigest(),
                text[text.startswith("\ufeff"):].replace("\r\n", "\n").replace("\r", "\n"))


def find_files(root: str, receipt: Receipt) -> list[tuple[str, str]]:
    """Return (path within the folder, place) of each Markdown file in order; say what else lies there."""
    found, others, hidden = [], [], []
    folders = [("", root)]
    while folders:
        folder, place = folders.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            raise CannotRead("%s: it cannot be read: %s" % (folder or root, error.strerror or error)) from None
        for entry in entries:
            name = name_text(entry.name)
            path = folder + escape(name, NOT_IN_LINE)
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.is_symlink():
                receipt.left(path, "a symbolic link, which is not followed")
            elif entry.name.startswith("."):
                hidden.append(path)
            elif not is_folder and not (entry.is_file() and path.lower().endswith(SUFFIXES)):
                others.append(path)
            elif NOT_IN_LINE.search(name):
                receipt.left(path + "/" * is_folder, "its name holds a character that stands in no line: rename it")
            elif is_folder:
                folders.append((path + "/", entry.path))
            else:
                found.append((path, entry.path))
    for paths, why in ((others, "no Markdown"), (hidden, "hidden, so some program's own")):
        if paths:
            paths.sort()
            receipt.left(", ".join(paths[:8]) + (" and %d more" % (len(paths) - 8) if paths[8:] else ""), why)
    return sorted(found)


def name_text(name: str) -> str:
    """Return a file's name as text; a byte of one that is not UTF-8 is a character that stands in no line."""
    try:
        return path_text(name)
    except CannotRead:
        return name


def path_text(path: str) -> str:
    """Return a path as text with forward slashes, whatever the console's encoding made of its bytes."""
    try:
        return os.fsencode(path).decode("utf-8").replace(os.sep, "/")
    except UnicodeDecodeError:
        raise CannotRead("%s: a file's name that is not UTF-8" % ascii(path)) from None


def name_of(path: str) -> str:
    """Return the name of a file as it is compared."""
    return path.rpartition("/")[2].casefold()


# Notes


def take_note(file: File) -> Note:
    """Return a file as a note that has no key yet. Its identity is its path without suffix, and without what archiving added.

    A card that was moved into one archive for all folders still has the place that it came from in its `id`.
    """
    properties, body = split_frontmatter(file)
    *folders, name = file.path.rpartition(".")[0].split("/")
    kept = [part for part in folders if part.casefold() != "archive"]
    archived, given = len(kept) < len(folders), properties.get("id")
    if archived and not kept and isinstance(given, str) and given.endswith("/" + name):
        kept = given.split("/")[:-1]
    return Note(file, properties, body, archived, "/".join([*kept, name]), "")


def sort_notes(files: list[File]) -> list[Note]:
    """Return the notes of these files with their keys; those of an archive come first, since what took their place is later."""
    notes = [take_note(file) for file in files]
    return sorted((note._replace(key=make_key(note.identity.split("/"), note.identity)) for note in notes),
                  key=lambda note: (not note.archived, note.file.path))


def check_keys(made: list[tuple[Note, list[Operation]]]) -> None:
    """Raise CannotRead where two notes would set one subject.

    No key may depend on what else lies in the folder: a note whose key went to another would leave behind what it had said.
    A note of an archive is the past of what has its key; of two of one key none knows which one was first.
    """
    owners: dict[tuple[str, bool], str] = {}
    for note, operations in made:
        for key in [operation["key"] for operation in operations if "key" in operation]:
            other = owners.setdefault((key, note.archived), note.file.path)
            if other != note.file.path:
                raise CannotRead("%s and %s give one key, %s: rename the one that is newer" % (other, note.file.path, key))


class Links:
    """Which note a link names: by its path, from the folder that it stands in, by its id, or by its name if only one has it."""

    def __init__(self, notes: list[Note]) -> None:
        self._paths: dict[str, Note] = {}
        self._names: dict[str, dict[str, Note]] = {}
        for note in notes:  # a present note after the archived one of its name, and so in its place
            self._paths[note.file.path.rpartition(".")[0].casefold()] = note
            self._paths[note.identity.casefold()] = note
            for name in (note.identity.rpartition("/")[2], note.properties.get("id"), note.properties.get("name")):
                if isinstance(name, str) and name:
                    self._names.setdefault(name.casefold(), {})[note.key] = note

    def find(self, target: str, folder: str = "") -> Note | None:
        """Return the note that ``target`` names in a file of ``folder`` (which ends with a slash), or None."""
        name = re.sub(r"\.(?:md|markdown)$", "", target.strip(), flags=re.IGNORECASE).casefold()
        near = os.path.normpath(folder.casefold() + name).replace(os.sep, "/")
        named = self._names.get(name.lstrip("./"), {})
        return self._paths.get(near) or self._paths.get(name.lstrip("./")) or (next(iter(named.values())) if len(named) == 1 else None)

    def named_in(self, note: Note) -> list[str]:
        """Return the keys of the notes that a note links to, in the order in which it names them."""
        folder = folder_of(note)
        targets = [target for item in related_to(note) for target in targets_in(str(item)) or [str(item)]]
        targets += targets_in("\n".join(without_code(note.body)))
        found = [self.find(target, folder) for target in targets]
        return list(dict.fromkeys(other.key for other in found if other and other.key != note.key))

    def more_than_links(self, note: Note) -> list[Any]:
        """Return the items of a note's `related` that its links do not say: without a note of that name, or with other words."""
        said = []
        for item in related_to(note):
            targets = targets_in(str(item))
            words = WHOLE_LINK.sub("", str(item)).strip(" ,;") if targets else ""
            if words or not all(self.find(target, folder_of(note)) for target in targets or [str(item)]):
                said.append(item)
        return said


def related_to(note: Note) -> list[Any]:
    """Return the items of `related`: those of a list, or those of a text between its commas."""
    given = note.properties.get("related")
    if isinstance(given, str) and not targets_in(given):
        given = [part.strip() for part in given.split(",")]
    return [item for item in (given if isinstance(given, list) else [given]) if item]


def folder_of(note: Note) -> str:
    """Return the folder in which a note lies, with a slash at its end; nothing for the store's own."""
    return note.file.path[:note.file.path.rfind("/") + 1]


def targets_in(text: str) -> list[str]:
    """Return what the links of a text name, in order."""
    targets = [(m.start(), m[1] or m[2]) for m in WIKILINK.finditer(text)]
    targets += [(m.start(), unquote(m[1])) for m in FILELINK.finditer(text)]
    return [target for _, target in sorted(targets)]


def without_code(lines: list[str]) -> list[str]:
    """Return lines with those of fenced code left empty, and without code within a line."""
    return [re.sub(r"`[^`]*`", "", line) if not code else "" for line, code in with_fences(lines)]


def with_fences(lines: list[str]) -> list[tuple[str, bool]]:
    """Return each line with whether it belongs to fenced code, the fences included."""
    found, fence = [], ""
    for line in lines:
        mark = FENCE.match(line)
        inside = bool(fence or mark)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        found.append((line, inside))
    return found


def first_sentence(lines: list[str]) -> str | None:
    """Return the first sentence of the first paragraph that is text, list and quotation marks taken away, or None."""
    said: list[str] = []
    for line, code in with_fences(lines):
        text = re.sub(r"^\s*(?:(?:>|[-*+]|\d+[.)])\s+)+", "", line).strip()
        if code or not text or HEADING.match(line) or text.startswith(("<!--", "![", "---", "***", "|")):
            if said:
                break
        elif said and re.match(r"\s*(?:[-*+]|\d+[.)])\s", line):
            break
        else:
            said.append(text)
    paragraph = " ".join(said)
    found = SENTENCE.match(paragraph)
    return (found.group() if found else paragraph) or None


def find_why(lines: list[str]) -> str | None:
    """Return the paragraph that begins with `**Why:**`, up to an empty line or the next that begins in bold, or None."""
    for n, (line, code) in enumerate(with_fences(lines)):
        found = re.match(r"\s*(?:[-*+]\s+)?\*\*Why(?::\*\*|\*\*:)\s*(.*)", line, re.IGNORECASE)
        if found and not code:
            rest = lines[n + 1:]
            end = next((m for m, other in enumerate(rest) if not other.strip() or re.match(r"\s*(?:[-*+]\s+)?\*\*|\s*#", other)), len(rest))
            return " ".join([found[1], *rest[:end]]).strip() or None
    return None


def first_quote(lines: list[str]) -> str | None:
    """Return the quotation with which a text begins, if a line holds it, or None. So does an export of notes say a claim."""
    said = "\n".join(lines).strip("\n").split("\n")
    end = next((n for n, line in enumerate(said) if not line.startswith("> ")), len(said))
    quote = " ".join(line[2:].strip() for line in said[:end])
    return quote if quote.strip() and len(quote) <= TEXT_MAX else None


def is_name(heading: str, note: Note) -> bool:
    """Tell whether a heading only repeats the name of its file."""
    said, name = (re.sub(r"[\s_-]+", " ", re.sub(r"\.(?:md|markdown)$", "", word.casefold())).strip()
                  for word in (heading, note.identity.rpartition("/")[2]))
    return said == name


def text_of(note: Note) -> tuple[str | None, list[str]]:
    """Return what a note says in a line (None if nothing), and the body without it.

    That is description, title, heading or first sentence. A heading that is the file's name says nothing, and counts last.
    """
    body = list(note.body)
    first = next((n for n, (line, code) in enumerate(with_fences(body)) if not code and HEADING.match(line)), None)
    heading = HEADING.match(body[first])[2] if first is not None else ""  # type: ignore[index]
    named = first is not None and is_name(heading, note)
    leads = first is not None and not "".join(body[:first]).strip()
    given = next((str(note.properties[name]) for name in ("description", "title") if note.properties.get(name)), "").strip()
    if leads and (named or " ".join(heading.split()) == " ".join((given or heading).split())):
        body = body[first + 1:]  # type: ignore[operator]
    said = given or (not named and heading) or (named and leads and first_quote(body)) or first_sentence(body) or heading or None
    if said and "\n".join(body).strip() == said:
        body = []
    return said, body


def listed(name: str, value: Any) -> list[str]:
    """Return a property that has no field of its own as items of a Markdown list."""
    if isinstance(value, dict):
        return [line for inner, one in value.items() for line in listed("%s.%s" % (name, inner), one)]
    if isinstance(value, list):
        if any(isinstance(one, (dict, list)) for one in value):
            return [line for n, one in enumerate(value, 1) for line in listed("%s.%d" % (name, n), one)]
        value = ", ".join(str(one) for one in value if one is not None)
    return ["- %s: %s" % (name, " ".join(str(value).split()))] if value not in (None, "") else []


def other_properties(note: Note) -> list[str]:
    """Return the properties of a note that nothing else carries."""
    own = {"name": note.identity.rpartition("/")[2], "id": note.identity}
    said = []
    for name, value in note.properties.items():
        if name in own and isinstance(value, str) and slug(value)[0] == slug(own[name])[0]:
            continue
        if name in MAPPED and (name not in DATES or parse_time(value)):
            continue
        if name != "source" or plain(value) not in SOURCES:
            said += listed(name, value)
    return said


def tags_of(note: Note, receipt: Receipt) -> list[str]:
    """Return the tags of a note, with its kind of page and a type that means no tier."""
    given = note.properties.get("tags") or []
    said = given if isinstance(given, list) else re.split(r"[,\s]+", str(given))
    kind = note.properties.get("type")
    said = [*said, note.properties.get("pageType"), kind if plain(kind) not in TYPES else None]
    tags = []
    for tag in said:
        word = re.sub(r"[^a-z0-9/_]+", "-", slug(str(tag or "").lstrip("#").replace("_", "\0"))[0].replace("\0", "_"))
        word = re.sub(r"[/_-]*([/_-])[/_-]*", r"\1", word).strip("/_-")[:40].rstrip("/_-")
        if word:
            tags.append(word)
        elif str(tag or "").strip():
            receipt.left("%s: tag %s" % (note.file.path, tag), "a tag is of lower-case letters and digits")
    tags = list(dict.fromkeys(tags))
    if len(tags) > TAGS_MAX:
        receipt.left("%s: tags %s" % (note.file.path, ", ".join(tags[TAGS_MAX:])), "%d tags, %d at most" % (len(tags), TAGS_MAX))
    return sorted(tags[:TAGS_MAX])


def dated_of(properties: dict[str, Any]) -> dict[str, str]:
    """Return the field `dated` of the time of the last change that properties say, or none."""
    times = [parse_time(properties.get(name)) for name in DATES]
    return next(({"dated": time} for time in times if time), {})


def whose(note: Note, kind: str) -> str:
    """Return the source: what a card says; else `agent` where Claude Code wrote; else `legacy`, since nothing says who."""
    return SOURCES.get(plain(note.properties.get("source")), "agent" if kind == "claude-memory" else "legacy")


def convert_note(note: Note, run: str, kind: str, links: Links, receipt: Receipt) -> list[Operation]:
    """Return the operations of a note: set, close where it holds no more, and its claims."""
    path = note.file.path
    text, body = text_of(note)
    if not text and not note.properties.get("claims"):
        receipt.left(path, "it says nothing")
        return []
    text = text or note.identity.rpartition("/")[2]
    meaning = TYPES.get(plain(note.properties.get("type")), NO_TYPE)
    detail = "\n".join(body).strip("\n").rstrip()
    if len(line_of(text, 10 * TEXT_MAX)) > TEXT_MAX:
        receipt.converted(path, "more than %d characters: the beginning is the text, all of it is in the detail" % TEXT_MAX)
        detail = text if detail.strip() == text.strip() else (text + "\n\n" + detail).strip()
    rest = [*other_properties(note), *listed("related", links.more_than_links(note))]
    detail = "\n\n".join(part for part in (detail, "\n".join(rest)) if part)
    why, named = find_why(note.body), links.named_in(note)
    if len(named) > LIST_MAX:
        receipt.left("%s: links to %s" % (path, ", ".join(named[LIST_MAX:])), "%d links, %d at most" % (len(named), LIST_MAX))
    said = {"detail": fit_detail(detail, note.file, path, receipt), "why": line_of(why or ""), "links": sorted(named[:LIST_MAX]),
            "tags": tags_of(note, receipt), **dated_of(note.properties)}
    if REFUSED.search(text + detail):
        receipt.converted(path, "characters that are not seen or steer a terminal are written as their escapes")
    head = {"do": "propose", "run": run, "key": note.key}
    voice = {"source": whose(note, kind), "trust": "working"}
    operations = [{**head, **meaning, "text": line_of(text), **voice, **{name: value for name, value in said.items() if value}}]
    ended = "It lay in an archive." if note.archived else end_of(note.properties.get("status"))
    if ended:
        operations.append({**head, "op": "close", "tier": meaning["tier"], "why": ended, **voice, **dated_of(note.properties)})
    return operations + convert_claims(note, run, voice, bool(ended), receipt)


def end_of(status: Any) -> str | None:
    """Return why a card or claim of this status is closed, or None where it holds."""
    return "Its status was %s." % line_of(str(status), 80) if plain(status) in CLOSED else None


# Claims of a card


def convert_claims(note: Note, run: str, voice: dict[str, str], ended: bool, receipt: Receipt) -> list[Operation]:
    """Return the operations of a card's claims, each a subject below the card's key, with its evidence."""
    claims = note.properties.get("claims") or []
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        raise CannotRead("%s: `claims` is no list of mappings with id, text and evidence" % note.file.path)
    operations: list[Operation] = []
    taken = set()
    for n, claim in enumerate(claims, 1):
        where = "%s: claim %d" % (note.file.path, n)
        said = str(claim.get("text") or "").strip()
        if not said:
            raise CannotRead(where + " has no text")
        key = make_key([*note.key.split("."), str(claim.get("id") or "claim " + hashlib.sha256(said.encode("utf-8")).hexdigest()[:6])],
                       "%s %s" % (note.key, claim.get("id")))
        if key in taken:
            raise CannotRead("%s has the id of another" % where)
        taken.add(key)
        label = "%s-%s" % (key, hashlib.sha256(note.file.path.encode("utf-8")).hexdigest()[:16]) if note.archived else key
        entries, evidence = convert_evidence(claim.get("evidence"), run, where, label, receipt)
        rest = [line for name, value in claim.items() if name not in ("id", "text", "evidence", "source") for line in listed(name, value)]
        if len(line_of(said, 10 * TEXT_MAX)) > TEXT_MAX:
            receipt.converted(where, "more than %d characters: the beginning is the text, all of it is in the detail" % TEXT_MAX)
            rest = [said, "", *rest]
        own = {**voice, "source": SOURCES.get(plain(claim.get("source")), voice["source"])}
        dated = dated_of(claim) or dated_of(note.properties)
        extra = {"detail": fit_detail("\n".join(rest), note.file, where, receipt), "evidence": evidence, "links": [note.key], **dated}
        head = {"do": "propose", "run": run, "key": key}
        operations += entries
        operations.append({**head, **NO_TYPE, "text": line_of(said), **own, **{name: value for name, value in extra.items() if value}})
        why = end_of(claim.get("status")) or ("Its card was closed." if ended else None)
        if why:
            operations.append({**head, "op": "close", "tier": 2, "why": why, **own, **dated})
    return operations


def convert_evidence(given: Any, run: str, where: str, label: str, receipt: Receipt) -> tuple[list[Operation], list[Any]]:
    """Return the entries that a claim's evidence needs, with ids made of ``label``, and the list of evidence.

    What has a command and a day is a measurement; the note says where the card does not tell the exit status. A URL is one.
    Anything else is said in an entry.
    """
    entries: list[Operation] = []
    evidence: list[Any] = []
    for n, one in enumerate(given if isinstance(given, list) else [given] if given else [], 1):
        fields = one if isinstance(one, dict) else {"note": one}
        time = parse_time(fields.get("date"))
        if fields.get("cmd") and time:
            evidence.append(measurement(fields, time[:10], where, receipt))
        elif isinstance(one, str) and URL.fullmatch(one) and len(one) <= TEXT_MAX and escape(one) == one:
            evidence.append(one)
        else:
            said = "; ".join(line[2:] for name, value in fields.items() for line in listed(name, value))
            name = "evidence-%d-of-%s" % (n, label)
            entries.append({"do": "journal", "run": run, "id": name, "text": escape(said)[:8_000], **({"dated": time} if time else {})})
            evidence.append(name)
    if len(evidence) > LIST_MAX:
        receipt.left("%s: evidence after the first %d" % (where, LIST_MAX), "%d items, %d at most" % (len(evidence), LIST_MAX))
    return entries, evidence[:LIST_MAX]


def measurement(fields: dict[str, Any], date: str, where: str, receipt: Receipt) -> dict[str, Any]:
    """Return evidence as a measurement; 0 stands for an exit status that is not told, and its note says so."""
    told = re.fullmatch(r"-?\d{1,9}", str(fields.get("exit", "")).strip())
    known = ("cmd", "date", "exit", "kind")
    notes = [str(fields["note"])] if fields.get("note") else []
    notes += [line[2:] for name, value in fields.items() if name not in (*known, "note") for line in listed(name, value)]
    if not told:
        notes.insert(0, "Exit status not told, 0 written.")
        receipt.converted(where, "its measurement does not tell the exit status: 0 is written, and the note says so")
    command = line_of(str(fields["cmd"]))
    if len(" ".join(str(fields["cmd"]).split())) > TEXT_MAX:
        receipt.converted(where, "its command is cut to %d characters" % TEXT_MAX)
    found = {"command": command, "date": date, "exit": int(told.group()) if told else 0}
    return {**found, "note": line_of(" ".join(notes))} if notes else found


# An index, and bullet lines


class Bullet(NamedTuple):
    """A bullet line that nothing stands above: its line number, the heading it stands under, its text and what belongs to it."""

    line: int
    heading: str
    text: str
    below: list[str]


def split_bullets(lines: list[str], first: int) -> tuple[list[Bullet], list[tuple[int, int]]]:
    """Return the top-level bullets of a text whose first line has the number ``first``, and the spans of lines of anything else."""
    bullets: list[Bullet] = []
    spans: list[tuple[int, int]] = []
    heading, margin, said, blank = "", 0, "", False

    for n, (line, code) in enumerate(with_fences(lines), first):
        bullet = None if code and not FENCE.match(line) else BULLET.match(line)
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            blank = True
        elif said and bullets and indent >= margin:
            bullets[-1].below.append(("\n" if blank else "") + line[margin:])
            blank = False
        elif bullet and bullet[4].strip() and (said or indent < 4):
            margin = len(bullet[1]) + 1 + min(len(bullet[3]), 4)
            bullets.append(Bullet(n, heading, bullet[4].strip(), []))
            said, blank = "bullet", False
        elif HEADING.match(line) and not code:
            heading, said = HEADING.match(line)[2], ""  # type: ignore[index]
            blank = False
        elif said and not blank and not code and not BLOCK.match(line):  # it goes on without an indent
            bullets[-1].below.append(line.strip())
        else:
            said = ""
            spans = [*spans[:-1], (spans[-1][0], n)] if spans and spans[-1][1] == n - 1 else [*spans, (n, n)]
            blank = False
    return [join_text(bullet) for bullet in bullets], spans


def join_text(bullet: Bullet) -> Bullet:
    """Return a bullet whose text is its whole first paragraph."""
    end = next((n for n, line in enumerate(bullet.below) if line.startswith("\n") or BULLET.match(line) or FENCE.match(line)
                or re.match(r"\s*\d+[.)]\s", line)), len(bullet.below))
    return bullet._replace(text=" ".join([bullet.text, *(line.strip() for line in bullet.below[:end])]), below=bullet.below[end:])


def key_bullets(bullets: list[Bullet], file: File, taken: set[str], receipt: Receipt) -> dict[str, str]:
    """Return the key of each bullet by what it says: of its heading and its first words, none twice and none of ``taken``.

    Of those that begin alike the first has it, since lines are mostly added below; the others end with a hash of all they say.
    """
    keys: dict[str, str] = {}
    used = {*taken}
    for bullet in bullets:
        words = re.findall(r"[^\W_]+(?:['.-][^\W_]+)*", re.sub(r"\]\([^)]*\)", "]", bullet.text))
        parts = [part for part in (" ".join(bullet.heading.split()[:6])[:30], " ".join(words[:6])[:44]) if slug(part)[0] or part]
        identity = bullet.heading + "\n" + bullet.text
        if identity in keys:
            continue
        wanted = make_key([part.replace(".", " ") for part in parts], identity) if parts else with_hash("note", identity)
        key = next(key for key in (wanted, with_hash(wanted, identity), with_hash(wanted, identity, 16)) if key not in used)
        if key != wanted:
            receipt.converted("%s line %d" % (file.path, bullet.line), "something else has the key %s: its key is %s" % (wanted, key))
        keys[identity] = key
        used.add(key)
    return keys


def convert_bullets(bullets: list[Bullet], file: File, run: str, kind: str, taken: set[str], receipt: Receipt) -> list[Operation]:
    """Return an operation for each bullet: a tier 2 subject, what is nested below it in its detail."""
    operations: list[Operation] = []
    keys = key_bullets(bullets, file, taken, receipt)
    done = set()
    for bullet in bullets:
        where = "%s line %d" % (file.path, bullet.line)
        key = keys[bullet.heading + "\n" + bullet.text]
        if key in done:
            receipt.converted(where, "it says the same as another line under this heading")
            continue
        done.add(key)
        below = "\n".join(bullet.below).strip("\n")
        if len(line_of(bullet.text, 10 * TEXT_MAX)) > TEXT_MAX:
            receipt.converted(where, "more than %d characters: the beginning is the text, all of it is in the detail" % TEXT_MAX)
            below = (bullet.text + "\n\n" + below).strip()
        if REFUSED.search(bullet.text + below):
            receipt.converted(where, "characters that are not seen or steer a terminal are written as their escapes")
        detail = fit_detail(below, file, where, receipt)
        operations.append({"do": "propose", "run": run, "key": key, **NO_TYPE, "text": line_of(bullet.text),
                           **({"detail": detail} if detail.strip() else {}),
                           "source": "agent" if kind == "claude-memory" else "legacy", "trust": "working"})
    return operations


def bullets_of(file: File) -> tuple[dict[str, Any], list[Bullet], list[tuple[int, int]]]:
    """Return the properties of a file, its top-level bullets, and the spans of lines of anything else."""
    properties, lines = split_frontmatter(file)
    return (properties, *split_bullets(lines, file.text.count("\n") + 2 - len(lines)))


def find_linked(indexes: list[File], pages: list[str]) -> set[str]:
    """Return those of ``pages``, which are paths, to which an index points, from its own folder or else from the top."""
    linked: set[str] = set()
    spellings: dict[str, list[str]] = {}
    for page in pages:
        spellings.setdefault(page.casefold(), []).append(page)
    for index in indexes:
        for target in filter(None, map(door_of, bullets_of(index)[1])):
            name = target if target.lower().endswith(SUFFIXES) else target + ".md"
            for start in (index.path[:-len(INDEX)], ""):
                path = os.path.normpath(start + name).replace(os.sep, "/")
                found = spellings.get(path.casefold(), [])
                linked.update([path] if path in found else found)
                if found:
                    break
    return linked


def check_index(file: File, notes: list[Note], links: Links, receipt: Receipt) -> list[Bullet]:
    """Return the bullets of an index that point to no file; say where index and ``notes``, which say something, do not fit together."""
    properties, bullets, spans = bullets_of(file)
    folder = file.path[:-len(INDEX)]
    facts, doors = [], set()
    for bullet in bullets:
        target = door_of(bullet)
        if target is None:
            facts.append(bullet)
            continue
        note = links.find(target, folder)
        where = "%s line %d: %s" % (file.path, bullet.line, bullet.text)
        if note is None:
            receipt.left(where, "there is no note %s" % target)
        else:
            doors.add(note.key)
            if note.archived:
                receipt.converted(where, "the note lies in an archive: it is imported and closed")
    for note in notes if doors else ():
        if not note.archived and note.key not in doors and note.file.path.startswith(folder):
            receipt.converted(note.file.path, "imported, though %s has no line for it" % file.path)
    say_spans(file, spans, properties, receipt)
    return facts


def is_file(path: Path) -> bool:
    """Tell whether a file is there; a name that no file can have names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def door_of(bullet: Bullet) -> str | None:
    """Return the note that a line of an index names first, or None where it names none."""
    found = INDEX_LINE.match(bullet.text)
    target = unquote((found["file"] or found["wiki"]).split("#")[0]) if found else ""
    return target if found and "://" not in target and (found["wiki"] or target.lower().endswith(SUFFIXES)) else None


def say_spans(file: File, spans: list[tuple[int, int]], properties: dict[str, Any], receipt: Receipt) -> None:
    """Say which lines of a file of bullets are none."""
    for start, end in spans:
        receipt.left("%s line%s" % (file.path, " %d" % start if start == end else "s %d-%d" % (start, end)),
                     "no bullet line; it is in the kept file")
    if properties:
        receipt.left("%s: frontmatter %s" % (file.path, ", ".join(properties)), "it is of the file, and no fact")


# All of it


def read_folder(root: str, kind: str, receipt: Receipt) -> tuple[list[File], list[Operation]]:
    """Return the files of a folder that were read, and what they say as operations of a run that has no name yet."""
    if Path(root, ".muniment").exists():
        raise CannotRead("%s is a Muniment vault already; import what lies beside it" % root)
    found = find_files(root, receipt)
    indexes = [read_file(place, path) for path, place in found if name_of(path) == INDEX]
    pages = [path for path, _ in found if name_of(path) in NO_NOTES]
    linked = find_linked(indexes, pages)
    for path in pages:
        if path not in linked:
            receipt.left(path, "a page about the folder or for every agent, and no note; read it by itself if it holds facts")
    skipped = {*pages, *(index.path for index in indexes)} - linked
    files = [read_file(place, path) for path, place in found if path not in skipped]
    notes = sort_notes(files)
    links = Links(notes)
    said = [(note, convert_note(note, "", kind, links, receipt)) for note in notes]
    check_keys(said)
    operations = [operation for _, made in said for operation in made]
    notes = [note for note, made in said if made]
    taken = {operation["key"] for operation in operations if "key" in operation}
    for index in indexes:
        made = convert_bullets(check_index(index, notes, links, receipt), index, "", kind, taken, receipt)
        taken |= {operation["key"] for operation in made}
        operations += made
    return sorted([*files, *indexes]), operations


def read_single(place: str, kind: str, receipt: Receipt) -> tuple[list[File], list[Operation]]:
    """Return a file of bullet lines, and what they say as operations of a run that has no name yet."""
    file = read_file(place, path_text(Path(place).name))
    if re.search(r"<!-- muniment view sha256:[0-9a-f]{64} -->\s*$", file.text):
        raise CannotRead("%s is a view that Muniment made; its vault has what it says" % file.path)
    properties, bullets, spans = bullets_of(file)
    facts = []
    for bullet in bullets:
        target = door_of(bullet)
        if target and any(is_file(Path(place).parent / name) for name in (target, target + ".md")):
            receipt.left("%s line %d: %s" % (file.path, bullet.line, bullet.text), "it names a note beside the file: read the folder")
        else:
            facts.append(bullet)
    say_spans(file, spans, properties, receipt)
    return [file], convert_bullets(facts, file, "", kind, set(), receipt)


def read(path: str | os.PathLike[str], kind: str = "notes") -> list[Operation]:
    """Return what a folder of notes or a file of bullet lines says, as the operations of `import`, `source` first.

    One run holds it all. Its label is made from the bytes read: what has not changed is not imported twice, and what has
    changed is imported again, and replaces what was imported before. The store is named by the path at which it really lies.
    Raises CannotRead, and then nothing of it can be imported.
    """
    receipt = Receipt()
    root = os.path.realpath(path)
    if NOT_IN_LINE.search(path_text(root)):
        raise CannotRead("%s: a character of this path stands in no line: rename it" % escape(path_text(root), NOT_IN_LINE))
    if not Path(root).exists():
        raise CannotRead("%s: there is no such file or folder" % path)
    files, operations = (read_folder if Path(root).is_dir() else read_single)(root, kind, receipt)
    if not operations:
        raise CannotRead("%s: no note and no bullet line was found in it" % path)
    content = json.dumps([kind, *((file.path, file.sha256) for file in files)])
    run = "%s-%s" % (kind, hashlib.sha256(content.encode("utf-8")).hexdigest()[:16])
    source = {"do": "source", "format": kind, "name": store_name(root), "files": [
        {"path": file.place, "sha256": file.sha256} for file in files]}
    said = len({operation["key"] for operation in operations if operation["do"] == "propose"})
    close = {"do": "close", "run": run, "outcome": "success", "summary": "Imported: %d subjects from %d files." % (said, len(files))}
    actor = "claude" if kind == "claude-memory" else "notes"
    return [source, {"do": "open", "run": run, "actor": actor, "snapshot": True}, *({**operation, "run": run} for operation in operations),
            {"do": "sync", "run": run}, close, *receipt.operations]


def store_name(root: str) -> str:
    """Return the line that names a store: its real path, with a hash in the place of what is too long."""
    name = path_text(root)
    return name if len(name) <= TEXT_MAX else name[:TEXT_MAX - 17] + "-" + hashlib.sha256(name.encode("utf-8")).hexdigest()[:16]


def main(words: list[str] | None = None) -> int:
    """Write the operations to standard output, a line each; return the exit status: 0, or 3 with the reason on standard error."""
    parser = argparse.ArgumentParser(description="What a folder of notes, or a file of bullet lines, says, as operations of `import`.")
    parser.add_argument("path", help="the folder, or the file")
    parser.add_argument("--format", choices=FORMATS, default="notes", help="whose notes they are; default notes")
    given = parser.parse_args(words)
    try:
        lines = [json.dumps(operation, ensure_ascii=False).encode("utf-8") for operation in read(given.path, given.format)]
    except CannotRead as refused:
        sys.stderr.write(escape(str(refused)).replace("\n", " ") + "\n")
        return 3
    sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
