#!/usr/bin/env python3
"""Reads the file of the reference MCP memory server, and writes what `import` takes.

That file holds a graph, one JSON object a line: entities with observations, and relations between entities. Each entity
becomes one subject: an observation says little without the entity that it is about, and has no name by which it could be
changed later, while "what is known of this entity" is a question whose answer changes by itself. Its text is the first
observation, its detail all of them and the relations, as a Markdown list. README.md beside this file has the mapping.

    python3 mcp_jsonl.py memory.jsonl > import.jsonl

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
from collections import Counter
from pathlib import Path
from typing import Any

#: The engine's limits (PROTOCOL sections 4 and 8).
TEXT_MAX = 500
DETAIL_BYTES_MAX = 32_768
LIST_MAX = 32
TAGS_MAX = 12
KEY_MAX = 80
#: Kind of line -> its names and what each must be.
SHAPES: dict[str, dict[str, type]] = {
    "entity": {"name": str, "entityType": str, "observations": list},
    "relation": {"from": str, "to": str, "relationType": str},
}
#: As the engine refuses them; newline and tab stand in a detail.
REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
                     "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]")
#: What stands in no line, and so in no path of an import.
NOT_IN_LINE = re.compile("[\t\n]|" + REFUSED.pattern)
DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)")

Operation = dict[str, Any]


class CannotRead(Exception):
    """What is to be read is damaged, ambiguous or out of reach; the text says what, and where."""


def escape(text: str, refused: re.Pattern[str] = REFUSED) -> str:
    """Return a text in which each character that the engine refuses is written as its escape."""
    return refused.sub(lambda c: "\\u%04x" % ord(c.group()), text)


def line_of(text: str) -> str:
    """Return a text as one line, refused characters escaped, cut to what a line holds."""
    line = escape(" ".join(text.split()))
    return line if len(line) <= TEXT_MAX else line[:TEXT_MAX - 1].rstrip() + "…"


def slug(text: str, signs: str) -> tuple[str, bool]:
    """Return a text in lower-case letters, digits, hyphens and ``signs``, maybe empty, and whether it lost letters or digits."""
    folded = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    word = re.sub("[^a-z0-9%s]+" % re.escape(signs), "-", folded)
    word = re.sub(r"[.-]*\.[.-]*", ".", word).strip("-.")
    return word, any(c.isalnum() and not c.isascii() for c in folded)


def make_keys(lines: dict[str, int]) -> dict[str, str]:
    """Return the key of each entity, given its line; it is made of the name alone, with a hash of it where it cannot be written.

    Raises CannotRead where two would have one: which of them is meant would depend on what else is in the file.
    """
    keys: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name, number in lines.items():
        key, lost = slug(name, ".")
        lost |= not key or len(key) > KEY_MAX
        key = key or "entity"
        key = "entity-" + key if DEVICES.match(key) else key
        if lost:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
            key = key[:KEY_MAX - 9].rstrip("-.") + "-" + digest[:8]
        other = owners.setdefault(key, name)
        if other != name:
            raise CannotRead('lines %d and %d: the names "%s" and "%s" give one key, %s: rename the one that is newer' % (
                lines[other], number, line_of(other), line_of(name), key))
        keys[name] = key
    return keys


def parse_lines(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of the file with their line numbers; raise CannotRead at the first line that is damaged."""
    found = []
    for number, raw in enumerate(data.split(b"\n"), 1):
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise CannotRead("line %d: not UTF-8 (byte %d of it is 0x%02x)" % (number, error.start, raw[error.start])) from None
        if number == 1:
            text = text[text.startswith("\ufeff"):]
        if not text:
            continue
        try:
            value = json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise CannotRead("line %d: no JSON: %s" % (number, error)) from None
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise CannotRead("line %d: no object with a `type`" % number)
        for name, kind in SHAPES.get(value["type"], {}).items():
            if not isinstance(value.get(name), kind):
                raise CannotRead("line %d: %s: %s is %s" % (number, value["type"], name, "no text" if kind is str else "no list"))
        if not all(isinstance(one, str) for one in value.get("observations", ()) if value["type"] == "entity"):
            raise CannotRead("line %d: entity: an observation is no text" % number)
        found.append((number, value))
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


class Graph:
    """The entities by name (types, observations; the line of the first) and the relations of each, all once, with a receipt of the rest."""

    def __init__(self, lines: list[tuple[int, dict[str, Any]]]) -> None:
        self.entities: dict[str, tuple[list[str], list[str]]] = {}
        self.lines: dict[str, int] = {}
        self.relations: dict[tuple[str, str, str], int] = {}
        self.receipt: list[Operation] = []
        unknown: Counter[str] = Counter()
        for number, value in lines:
            kind = value["type"]
            if kind not in SHAPES:
                self.left("line %d: %s" % (number, kind), "neither entity nor relation")
                continue
            unknown.update("%s.%s" % (kind, name) for name in {*value} - {*SHAPES[kind]} - {"type"})
            if kind == "relation":
                self.relations.setdefault((value["from"], value["relationType"], value["to"]), number)
            else:
                self._add(number, value)
        for name, count in sorted(unknown.items()):
            self.left("%s of %d lines" % (name, count), "not of the reference format")
        self.of: dict[str, list[tuple[str, str, str]]] = {name: [] for name in self.entities}
        for relation, number in self.relations.items():
            self._join(relation, number)

    def _add(self, number: int, value: dict[str, Any]) -> None:
        if value["name"] in self.entities:
            self.converted("line %d: entity %s" % (number, value["name"]), "one of this name is above: what both say stands together")
        self.lines.setdefault(value["name"], number)
        types, observations = self.entities.setdefault(value["name"], ([], []))
        types += [value["entityType"]] if value["entityType"] not in types else []
        observations += [one for one in dict.fromkeys(value["observations"]) if one.strip() and one not in observations]

    def _join(self, relation: tuple[str, str, str], number: int) -> None:
        ends = dict.fromkeys((relation[0], relation[2]))
        here = [name for name in ends if name in self.entities]
        for name in here:
            self.of[name].append(relation)
        what = "line %d: %s" % (number, " ".join(relation))
        if not here:
            self.left(what, "there is no entity of these names")
        elif len(here) < len(ends):
            self.converted(what, "one of the two is no entity: it is said in the detail of the other")

    def left(self, what: str, why: str) -> None:
        """Say that something was not converted."""
        self.receipt.append({"do": "left", "what": line_of(what), "why": line_of(why)})

    def converted(self, what: str, how: str) -> None:
        """Say that something was changed in form."""
        self.receipt.append({"do": "converted", "what": line_of(what), "how": line_of(how)})


def detail_of(name: str, graph: Graph, sha256: str) -> tuple[str, bool]:
    """Return an entity as Markdown, its name and type first, and whether it had to be cut."""
    types, observations = graph.entities[name]
    kinds = ", ".join(" ".join(kind.split()) for kind in types if kind.strip())
    lines = ["**%s**" % " ".join(name.split()) + (" (%s)" % kinds if kinds else ""), ""]
    lines += ["- " + one.strip().replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\n  ") for one in observations]
    if graph.of[name]:
        said = ["- %s: %s" % (verb, to) if start == name else "- %s %s this" % (start, verb) for start, verb, to in graph.of[name]]
        lines += ["", "Relations:", "", *(" ".join(line.split()) for line in said)]
    text = escape("\n".join(lines)).strip()
    if len(text.encode("utf-8")) <= DETAIL_BYTES_MAX:
        return text, False
    end = "\n\n(Cut here. All of it is in the kept file %s.)" % sha256
    start = text.encode("utf-8")[:DETAIL_BYTES_MAX - len(end.encode("utf-8"))].decode("utf-8", "ignore")
    return (start[:start.rfind("\n")] if "\n" in start[-4_000:] else start).rstrip() + end, True


def convert_entity(name: str, graph: Graph, keys: dict[str, str], run: str, sha256: str) -> Operation:
    """Return the operation that sets an entity; what had to change is in the graph's receipt."""
    types, observations = graph.entities[name]
    what = "entity %s" % name
    said = [*observations, *(" ".join(relation) for relation in graph.of[name])]
    text = next((one for one in said if one.strip()), name if name.strip() else "An entity without a name.")
    detail, cut = detail_of(name, graph, sha256)
    if len(" ".join(escape(text).split())) > TEXT_MAX:
        graph.converted(what, "more than %d characters: the beginning is the text, all of it is in the detail" % TEXT_MAX)
    if cut:
        graph.converted(what, "more than %d bytes: its detail is cut; all of it is in the kept file" % DETAIL_BYTES_MAX)
    if REFUSED.search("".join([name, *types, *said])):
        graph.converted(what, "characters that are not seen or steer a terminal are written as their escapes")
    links = sorted({keys[end] for start, _, to in graph.of[name] for end in (start, to) if end in keys and end != name})
    if len(links) > LIST_MAX:
        graph.left("%s: links to %s" % (what, ", ".join(links[LIST_MAX:])), "%d links, %d at most" % (len(links), LIST_MAX))
    tags = sorted({slug(kind, "")[0][:40].rstrip("-") for kind in types} - {""})[:TAGS_MAX]
    optional = {"detail": detail, "links": links[:LIST_MAX], "tags": tags}
    return {"do": "propose", "run": run, "key": keys[name], "tier": 2, "importance": 3, "status": "active", "text": line_of(text),
            "source": "agent", "trust": "working", **{field: value for field, value in optional.items() if value}}


def read(path: str | os.PathLike[str]) -> list[Operation]:
    """Return what a memory file of the server says, as the operations of `import`, `source` first.

    One run holds it all; its label is made from the bytes, so what has not changed is not imported twice. The format has no
    times, and does not say who said a thing: it is the agent's word, and working. Raises CannotRead.
    """
    place = os.path.realpath(path)
    try:
        where = os.fsencode(place).decode("utf-8").replace(os.sep, "/")
        if NOT_IN_LINE.search(where):
            raise CannotRead("%s: a character of this path stands in no line: rename it" % escape(where, NOT_IN_LINE))
        data = Path(place).read_bytes()
        graph = Graph(parse_lines(data))
        keys = make_keys(graph.lines)
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRead("%s: it cannot be read: %s" % (ascii(os.fspath(path)), getattr(error, "strerror", None) or error)) from None
    except CannotRead as refused:
        raise CannotRead("%s %s" % (os.fspath(path), refused)) from None
    if not graph.entities:
        raise CannotRead("%s: there is no entity in it" % os.fspath(path))
    sha256 = hashlib.sha256(data).hexdigest()
    run = "mcp-jsonl-" + sha256[:16]
    claims = [convert_entity(name, graph, keys, run, sha256) for name in sorted(graph.entities, key=lambda name: keys[name])]
    name = where if len(where) <= TEXT_MAX else where[:TEXT_MAX - 17] + "-" + hashlib.sha256(where.encode("utf-8")).hexdigest()[:16]
    return [{"do": "source", "format": "mcp-jsonl", "name": name, "files": [{"path": where, "sha256": sha256}]},
            {"do": "open", "run": run, "actor": "mcp-memory", "snapshot": True}, *claims, {"do": "sync", "run": run},
            {"do": "close", "run": run, "outcome": "success", "summary": "Imported: %d entities, %d relations." % (
                len(claims), len(graph.relations))}, *graph.receipt]


def main(words: list[str] | None = None) -> int:
    """Write the operations to standard output, a line each; return the exit status: 0, or 3 with the reason on standard error."""
    parser = argparse.ArgumentParser(description="What a memory file of the reference MCP server says, as operations of `import`.")
    parser.add_argument("path", help="the file, mostly memory.jsonl or memory.json")
    given = parser.parse_args(words)
    try:
        lines = [json.dumps(operation, ensure_ascii=False).encode("utf-8") for operation in read(given.path)]
    except CannotRead as refused:
        sys.stderr.write(escape(str(refused)).replace("\n", " ") + "\n")
        return 3
    sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
