"""What the tests of the readers in legacy/ share: a reader as a module, and what every file that it makes must keep."""

from __future__ import annotations

import importlib.util
import json
import sys

import scratch

engine = scratch.engine
LEGACY = scratch.ROOT / "legacy"
#: Operation -> the fields that it must have, and those that it may have.
FIELDS = {
    "source": ({"format", "name"}, {"files"}),
    "open": ({"run", "actor"}, {"dated", "session", "snapshot"}),
    "journal": ({"run", "text"}, {"id", "importance", "ref", "dated"}),
    "propose": ({"run", "key"}, {
        "id", "base", "op", "tier", "text", "detail", "why", "evidence", "links", "tags", "source", "trust", "until", "kind",
        "importance", "status", "confidence", "falsifier", "dated"}),
    "sync": ({"run"}, set()),
    "withdraw": ({"run", "proposal"}, set()),
    "close": ({"run", "outcome", "summary"}, {"dated"}),
    "left": ({"what", "why"}, set()),
    "converted": ({"what", "how"}, set()),
}


def load(name):
    """Return a reader as a module."""
    spec = importlib.util.spec_from_file_location("legacy_" + name, LEGACY / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def check(operations):
    """Assert that operations are such as `import` takes, in an order that it can carry out; return them."""
    assert operations[0]["do"] == "source"
    assert engine.is_word(operations[0]["format"], engine.ACTOR_PATTERN, 40)
    assert engine.is_line(operations[0]["name"])
    runs, ids = {}, set()
    for n, operation in enumerate(operations):
        do = operation["do"]
        required, optional = FIELDS[do]
        assert required <= {*operation} - {"do"} <= required | optional, operation
        assert len(json.dumps(operation, ensure_ascii=False).encode("utf-8")) < engine.LINE_BYTES_MAX or do == "source"
        assert do != "source" or n == 0
        for name in {"what", "why", "how", "text"} & {*operation}:
            assert engine.is_block(operation[name], 8_000) if do == "journal" else engine.is_line(operation[name]), operation
        if do == "open":
            assert operation["run"] not in runs
            assert engine.is_word(operation["actor"], engine.ACTOR_PATTERN, 40)
            runs[operation["run"]] = True
        elif "run" in operation:
            assert runs[operation["run"]], operation
            runs[operation["run"]] = do != "close"
        for label in (operation.get("run", "x"), operation.get("id", "x")):
            assert engine.is_line(label, 200)
            assert " " not in label
        if "id" in operation:
            assert operation["id"] not in ids
            ids.add(operation["id"])
        assert engine.is_at(operation.get("dated", "2026-08-01T10:00:00.000Z"))
        if do == "propose":
            check_claim(operation, ids)
        elif do == "close":
            assert operation["outcome"] in engine.OUTCOMES
            assert engine.is_block(operation["summary"], engine.SUMMARY_MAX)
    assert not any(runs.values()), "a run that is not closed"
    return operations


def check_claim(operation, ids):
    """Assert that a proposal has a value that the engine takes, and evidence that is there."""
    assert engine.is_key(operation["key"])
    assert operation["source"] in (*engine.SOURCES, "system", "legacy")
    assert operation["trust"] in engine.TRUSTS
    if operation.get("op") == "close":
        assert not {*operation} & {"text", "detail", "links", "tags", "kind", "importance", "status"}
        return
    assert operation["text"]
    own = {field for tier, fields in engine.TIER_FIELDS.items() for field in fields if tier != operation["tier"]}
    assert not own & {*operation}
    for name in ("kind", "status", "confidence"):
        assert name not in operation or operation[name] in engine.CHOICES[name]
    assert "detail" not in operation or engine.is_detail(operation["detail"])
    assert all(map(engine.is_key, operation.get("links", [])))
    assert operation.get("links", []) == sorted({*operation.get("links", [])})
    assert operation["key"] not in operation.get("links", [])
    assert len(operation.get("links", [])) <= engine.LIST_MAX
    assert all(engine.is_word(tag, engine.LABEL_PATTERN, 40) for tag in operation.get("tags", []))
    assert operation.get("tags", []) == sorted({*operation.get("tags", [])})
    assert len(operation.get("tags", [])) <= engine.TAGS_MAX
    for one in operation.get("evidence", []):
        if isinstance(one, dict):
            assert engine.is_measurement(one)
        else:
            assert one in ids or engine.is_word(one, engine.URL_PATTERN, engine.TEXT_MAX)
    assert len(operation.get("evidence", [])) <= engine.LIST_MAX


def claims(operations):
    """Return the proposals of values by their keys; no key may have two."""
    found = [operation for operation in operations if operation["do"] == "propose" and operation.get("op") != "close"]
    assert len({operation["key"] for operation in found}) == len(found)
    return {operation["key"]: operation for operation in found}


def closed(operations):
    """Return the keys that are closed in the end."""
    last = {operation["key"]: operation.get("op") for operation in operations if operation["do"] == "propose"}
    return {key for key, op in last.items() if op == "close"}


def receipt(operations, do):
    """Return what was left or converted."""
    return [operation["what"] for operation in operations if operation["do"] == do]
