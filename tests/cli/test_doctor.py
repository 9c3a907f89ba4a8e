"""`doctor`: proves the vault, and changes nothing without --fix."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def busy(project):
    """Return a project with something of everything: decisions, a conflict with its answer, history, a closed run, an open one."""
    run = project.start()
    entry = project.journal(run, "It was seen.", "--ref", "D1")
    project.fact(run, "a.b", "One.", "--evidence", entry)
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")
    project.owned(run, "rule.one", "Never.", "--tier", "1")
    _, (_, second), handle = project.conflict("fight.one")
    project.ok("resolve", handle, "--choose", second, "--note", "So.", "--human-approved")
    project.conflict("fight.two")
    project.held("held.one")
    project.close(run)
    return project


def findings(reply):
    """Return (severity, kind) of each finding, notices apart."""
    return [(f["severity"], f["kind"]) for f in reply["findings"] if f["severity"] != "notice"]


def test_healthy(cli, busy):
    """A healthy vault has no finding, exit 0, and every subject exactly one door."""
    reply = cli("doctor", "--strict")
    assert reply.status == 0
    assert set(reply.data) >= {"vault", "records", "views", "doors", "errors", "warnings_count", "findings", "fixed", "strict"}
    assert (reply["errors"], reply["warnings_count"], reply["findings"], reply["fixed"]) == (0, 0, [], None)
    assert reply["records"] == len(busy.records())
    assert reply["views"] == len(busy.views())
    assert reply["doors"] == {"hot": 4, "index": 0, "counted": 0, "subjects": 4, "broken": 0, "redundant": 0, "missing": 0}


def test_human_output(cli, busy):
    """In words the records, views and doors are counted."""
    out = cli("doctor", plain=True).out
    assert f"{len(busy.records())} records" in out
    assert "hot 4 + index 0 + counted 0 = 4" in out


def test_changes_nothing(cli, busy):
    """Without --fix not a byte changes, whatever is found."""
    (busy.vault / "MEMORY.md").write_bytes(b"mine")
    (busy.vault / "notes" / "a.b.md").unlink()
    before = busy.tree()
    reply = cli("doctor", "--strict")
    assert (reply.status, findings(reply)) == (7, [("warning", "view-edited"), ("warning", "view-missing"), ("warning", "doors")])
    assert cli("doctor").status == 0
    assert busy.tree() == before
    busy.ok("rebuild")


@pytest.mark.parametrize(
    "derived", ["MEMORY.md", "INDEX.md", "notes", "history", "journal", "conflicts", ".muniment/local", ".muniment/local/state.sqlite"]
)
def test_fix(cli, busy, derived):
    """What is derived may be deleted: --fix brings it back byte for byte."""
    views = busy.views()
    path = busy.vault / derived
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not path.exists()
    reply = cli("doctor", "--fix")
    assert (reply.status, reply["fixed"]["records"]) == (0, len(busy.records()))
    assert busy.views() == views
    assert busy.doctor() == []


def test_fix_keeps_edits(cli, busy):
    """--fix keeps the bytes of every view that was edited before it restores it."""
    views = busy.views()
    for name in views:
        (busy.vault / name).write_bytes(b"mine: " + name.encode())
    assert cli("doctor", "--fix").status == 0
    assert busy.views() == views
    kept = {p.read_bytes() for p in (busy.vault / ".muniment" / "recovery").iterdir()}
    assert kept == {b"mine: " + name.encode() for name in views}
    assert {e["path"] for e in busy.ok("review", "--all")["edits"]} == set(views)


def test_stale_view(call, busy):
    """A view that is an older rendering of ours is told from an edited one."""
    note = busy.vault / "notes" / "a.b.md"
    old = note.read_bytes()
    run = busy.start()
    busy.ok("propose", "--run", run, "--key", "a.b", "--text", "Three.", "--now")
    note.write_bytes(old)
    assert [f["kind"] for f in busy.doctor()] == ["view-stale"]
    assert call("doctor", "--fix").status == 0


def test_orphan(busy):
    """A view of ours that nothing asks for is reported; a file of the owner's in the same folder is not."""
    (busy.vault / "notes" / "zz.md").write_bytes((busy.vault / "notes" / "a.b.md").read_bytes())
    (busy.vault / "notes" / "mine.md").write_text("mine")
    assert [f["kind"] for f in busy.doctor()] == ["orphan"]
    (busy.vault / "notes" / "zz.md").unlink()


def test_cache_is_checked(call, busy):
    """A cache that is not what the ledgers make is an error, exit 7; --fix makes it anew."""
    import sqlite3

    db = sqlite3.connect(busy.vault / ".muniment" / "local" / "state.sqlite")
    db.execute("UPDATE claim SET depth=9 WHERE key='a.b'")
    db.commit()
    db.close()
    reply = call("doctor")
    assert (reply.status, findings(reply)) == (7, [("error", "cache-differs")])
    assert call("doctor", "--fix").status == 0


@pytest.mark.parametrize("damage", ["garbage", "empty", "folder-gone"])
def test_broken_cache(cli, busy, damage):
    """A cache that is no database is no damage: the next command makes it anew, with the same facts."""
    path = busy.vault / ".muniment" / "local" / "state.sqlite"
    if damage == "folder-gone":
        shutil.rmtree(path.parent)
    else:
        path.write_bytes(b"not a database" * 1_000 if damage == "garbage" else b"")
    views = busy.views()
    assert cli("recall", "a.b")["current"]["text"] == "Two."
    assert cli("doctor").status == 0
    assert busy.views() == views


#: What is done to a ledger's lines, and the kind of fault that must be named.
DAMAGE = {
    "flipped": (lambda lines: [*lines[:2], lines[2].replace(b'"salt":"', b'"salt":"0', 1), *lines[3:]], "bad-hash"),
    "dropped": (lambda lines: [*lines[:2], *lines[3:]], "bad-seq"),
    "doubled": (lambda lines: [*lines[:3], lines[2], *lines[3:]], "bad-seq"),
    "swapped": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "bad-seq"),
    "garbage": (lambda lines: [*lines[:2], b"garbage\n", *lines[3:]], "bad-json"),
    "blank": (lambda lines: [*lines[:2], b"\n", *lines[2:]], "bad-json"),
    "too-long": (lambda lines: [*lines, b"x" * 300_000 + b"\n"], "too-long"),
    "too-long-and-torn": (lambda lines: [*lines, b"x" * 300_000], "too-long"),
    "not-utf8": (lambda lines: [*lines[:2], b"\xff" + lines[2], *lines[3:]], "bad-json"),
    "other-head": (lambda lines: [*lines[:2], lines[2].replace(b'"at":"2', b'"at":"1', 1), *lines[3:]], "bad-at"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_ledger(call, busy, damage):
    """Damage is found, exit 7, with file, line and kind; reading goes on from what is whole, decisions pause, nothing is written over."""
    busy.healthy = False
    path = next((busy.vault / ".muniment" / "ledger").iterdir())
    change, kind = DAMAGE[damage]
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    (busy.vault / ".muniment" / "local" / "state.sqlite").unlink()
    before = path.read_bytes()
    reply = call("doctor")
    assert reply.status == 7
    (fault,) = [f for f in reply["findings"] if f["severity"] == "error" and f["kind"] != "cache-differs"]
    assert (fault["kind"], os.path.realpath(fault["path"])) == (kind, os.path.realpath(path))
    assert fault["line"] >= 3
    status = call("status")
    assert (status.status, status["ledgers"][0]["damaged"], len(status["warnings"])) == (0, True, 1)
    refused = call("config", "hot-lines", "100", "--human-approved")
    assert (refused.code, refused.error["line"], refused.error["kind"]) == ((7, "damaged"), fault["line"], kind)
    assert path.read_bytes() == before


def test_torn_unit_is_a_warning(call, busy):
    """A last unit that is not whole is a warning: 0, and 7 only under --strict; the next command that writes clears it."""
    path = next((busy.vault / ".muniment" / "ledger").iterdir())
    path.write_bytes(path.read_bytes() + b'{"body"')
    assert (call("doctor").status, findings(call("doctor"))) == (0, [("warning", "torn")])
    assert call("doctor", "--strict").status == 7
    busy.start()
    assert call("doctor", "--strict").status == 0


def test_read_only(bound_by_modes, read_only, busy):
    """Doctor needs no writable vault, and with --fix says which path refuses."""
    read_only()
    reply = busy.cli("doctor", "--strict", prefix=bound_by_modes)
    assert (reply.status, findings(reply)) == (0, [])
    assert busy.cli("doctor", "--fix", prefix=bound_by_modes).status == 9


@pytest.mark.packages
def test_schema(busy):
    """--schema checks every record against the published schemas and finds nothing in what the engine wrote."""
    reply = busy.cli("doctor", "--schema")
    assert (reply.status, reply["findings"]) == (0, [])


def test_schema_without_the_package(busy, tmp_path):
    """Without jsonschema --schema says what to install, exit 8; --strict does without."""
    (tmp_path / "jsonschema.py").write_text("raise ImportError")
    env = {"PYTHONPATH": str(tmp_path)}
    reply = busy.cli("doctor", "--schema", env=env)
    assert (reply.code, "jsonschema" in reply.error["hint"]) == ((8, "missing-package"), True)
    assert busy.cli("doctor", "--strict", env=env).status == 0


def test_github(cli, busy):
    """--github prints a workflow annotation for each finding, its path and text escaped."""
    (busy.vault / "notes" / "a.b.md").write_bytes(b"mine")
    out = cli("doctor", "--github", plain=True).out
    (annotation,) = [line for line in out.split("\n") if line.startswith("::")]
    head, text = annotation[2:].split("::", 1)
    assert head.startswith("warning file=")
    assert head.endswith("a.b.md,line=1")
    assert text.startswith("view-edited")
    assert cli("doctor", "--github").code == (2, "usage")
    busy.ok("rebuild")


@pytest.mark.skipif(os.name != "posix", reason="links and modes are POSIX's")
def test_links_and_modes(busy):
    """A link that leaves the vault and a file that others may write are reported; a link within it is not."""
    (busy.vault / "out").symlink_to(busy.folder)
    (busy.vault / "in").symlink_to(busy.vault / "notes")
    (busy.vault / "mine.md").write_text("mine")
    (busy.vault / "mine.md").chmod(0o666)
    assert {(f["kind"], Path(f["path"]).name) for f in busy.doctor()} == {("writable-by-others", "mine.md"), ("link-outside", "out")}
    (busy.vault / "out").unlink()
    (busy.vault / "mine.md").unlink()


def test_false_decision(call, busy):
    """A decision that the rules would not have made is found, although the chain is whole."""
    busy.healthy = False
    engine, path = busy.engine, next((busy.vault / ".muniment" / "ledger").iterdir())
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    tail, forged = engine.first_prev(busy.ok("status")["id"], path.stem), []
    for line in lines:
        head, body = line["head"], line["body"]
        for decision in body.get("decisions", ()):
            if decision["outcome"] == "held":
                decision.update(outcome="accepted", reason="alone", parents=[])
        head["prev"] = tail
        data, tail = engine.encode_record(head, body)
        forged.append(data)
    path.write_bytes(b"".join(forged))
    reply = call("doctor")
    assert reply.status == 7
    assert {f["kind"] for f in reply["findings"]} >= {"false-decision", "not-owner"}
    assert call("recall", "held.one").status == 5
