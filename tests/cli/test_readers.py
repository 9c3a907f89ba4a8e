"""What the readers of older memories print, `import` takes: with its tiers, sources, evidence and endings, once."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import readers

NOTES = {
    "MEMORY.md": "# Index\n\n- [Tabs](tabs.md) - hook\n- [Gone](gone.md)\n- Tests run with make.\n",
    "tabs.md": "---\ndescription: Tabs, never spaces.\nmetadata:\n  type: feedback\n---\n**Why:** They said so.\n",
    "tools/proxy.md": "---\nsource: user\nclaims:\n- id: port\n  text: It listens on 8080.\n"
                      "  evidence: {cmd: ss -ltn, date: 2026-04-01, exit: 0}\n"
                      "- {id: owner, text: Ana runs it., evidence: A mail said so.}\n---\nThe proxy. See [[tabs]].\n",
    "archive/old.md": "It was so.\n",
}


@pytest.fixture
def take(project):
    """Return a function that reads a store, imports what the reader prints, and returns the import's Reply."""

    def run(reader, path, *options):
        operations = readers.check(readers.load(reader).read(path, *options))
        file = project.folder / "older.jsonl"
        file.write_text("".join(json.dumps(operation, ensure_ascii=False) + "\n" for operation in operations), "utf-8")
        return project.call("import", file, "--human-approved")

    return run


@pytest.fixture
def store(tmp_path):
    """Return a folder of notes."""
    root = tmp_path / "store"
    for name, text in NOTES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def test_a_folder_of_notes_is_imported_once(project, take, store):
    """Each note and claim stands as it was, whose word it is said; the same folder again is nothing new."""
    reply = take("notes", store)
    assert reply.status == 0
    assert (reply["tiers"]["1"], reply["tiers"]["2"], reply["beside"], reply["staged"]) == (1, 4, [], 0)
    assert [one["what"] for one in reply["left"]] == ["MEMORY.md line 4: [Gone](gone.md)"]
    tabs, proxy, port = (project.current(key) for key in ("tabs", "tools.proxy", "tools.proxy.port"))
    assert (tabs["tier"], tabs["kind"], tabs["source"], tabs["why"]) == (1, "rule", "legacy", "They said so.")
    assert (proxy["source"], proxy["trust"], proxy["links"]) == ("user", "working", ["tabs"])
    assert port["evidence"] == [{"command": "ss -ltn", "date": "2026-04-01", "exit": 0}]
    assert len(project.records("journal")) == 1
    assert project.ok("recall", "old")["status"] == "closed"
    before = project.ledger()
    assert take("notes", store)["runs"] == []
    assert project.ledger() == before


def test_a_changed_folder_replaces_what_it_said(project, take, store):
    """A note that changed replaces its older value, one that was archived is closed; nothing stands beside anything."""
    take("notes", store)
    (store / "tabs.md").write_text("Spaces, never tabs.\n", "utf-8")
    (store / "tools" / "archive").mkdir()
    (store / "tools" / "proxy.md").rename(store / "tools" / "archive" / "proxy.md")
    reply = take("notes", store)
    assert (reply.status, reply["beside"]) == (0, [])
    assert project.current("tabs")["text"] == "Spaces, never tabs."
    assert {project.ok("recall", key)["status"] for key in ("tools.proxy", "tools.proxy.port", "tools.proxy.owner")} == {"closed"}


def test_bullets_and_a_graph_are_imported(project, take, store, tmp_path):
    """A file of bullet lines and the file of the MCP memory server become subjects, each of its own store."""
    assert take("notes", store / "MEMORY.md", "claude-memory")["tiers"]["2"] == 2
    graph = tmp_path / "memory.jsonl"
    graph.write_text('{"type":"entity","name":"Ana","entityType":"person","observations":["Runs the proxy."]}\n', "utf-8")
    assert take("mcp_jsonl", graph)["tiers"]["2"] == 1
    assert project.current("ana")["tags"] == ["person"]


def test_a_changed_folder_brings_no_question_about_what_it_says_as_before(project, take, tmp_path):
    """A note that did not change asks nothing again when another did, though somebody changed its subject in the vault since."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "one.md").write_text("---\ndescription: One.\n---\n", "utf-8")
    (folder / "two.md").write_text("---\ndescription: Two.\n---\n", "utf-8")
    take("notes", folder)
    run = project.start("codex")
    project.stage(run, "one", "Another.", "--now")
    (folder / "two.md").write_text("---\ndescription: Two, changed.\n---\n", "utf-8")
    said = take("notes", folder).data
    assert (said["same"], said["applied"], said["beside"]) == (1, 1, [])
    assert {key: project.ok("recall", key)["status"] for key in ("one", "two")} == {"one": "current", "two": "current"}
    assert [project.current(key)["text"] for key in ("one", "two")] == ["Another.", "Two, changed."]
    assert take("notes", folder).data["left"] == []


@pytest.mark.parametrize("reader", ["bimri", "notes", "mcp_jsonl"])
def test_readers_refuse_the_engines_characters(reader):
    """Each reader, which must run without the engine, escapes exactly what a line of the engine may not hold."""
    module = readers.load(reader)
    pattern = module.NOT_IN_LINE if reader == "bimri" else re.compile("[\t\n]|" + module.REFUSED.pattern)
    for number in [*range(0x3100), *range(0xFE00, 0x10000), 0x1F600]:
        character = chr(number)
        if 0xD800 <= number < 0xE000:
            continue
        assert bool(pattern.search(character)) == (readers.engine.find_refused(character) is not None), hex(number)


def test_a_store_that_says_again_what_it_had_said_is_believed(project, take, tmp_path):
    """From one value to another and back, each reading brings what the store says then; an unchanged one brings nothing."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for text in ("Fly.", "AWS.", "Fly.", "AWS."):
        (folder / "host.md").write_text("---\ndescription: %s\n---\n" % text, "utf-8")
        assert len(take("notes", folder)["runs"]) == 1
        assert project.current("host")["text"] == text
        assert take("notes", folder)["runs"] == []
    assert project.ok("maintain")["uncurated"] == []


def test_a_store_that_holds_a_credential_is_not_kept(project, take, tmp_path):
    """What a reader left out is kept with the rest of its file: a credential there refuses the import, unless it is allowed."""
    path = tmp_path / "rules.md"
    path.write_text("# Log\n\nThe token is %s today.\n\n- It runs on Fly.\n" % ("ghp_" + "zQ8wLr2TmX9cVb4NkJ7hGf5dSa3PoIuYtRe1"), "utf-8")
    reply = take("notes", path)
    assert (reply.code, reply.error["cause"]) == ((3, "atomic"), "secret")
    assert list((project.vault / ".muniment" / "recovery").iterdir()) == []
    assert project.call("import", project.folder / "older.jsonl", "--human-approved", "--allow-secret").status == 0


def test_an_export_of_notes_is_read_back(project, tmp_path):
    """Each note of an export says its subject's text under its key, whatever the key is, and the index fits."""
    run, out = project.start("codex"), tmp_path / "out"
    texts = {"readme": "About the shop.", "agents": "Two. Of them.", "claude": "One.", "gemini": "None.", "memory": "Short.",
             "stack.db": "It is 17."}
    for key, text in texts.items():
        project.fact(run, key, text)
    project.ok("export", "--format", "notes", "--to", out)
    operations = readers.load("notes").read(out)
    assert {key: claim["text"] for key, claim in readers.claims(readers.check(operations)).items()} == texts
    assert readers.receipt(operations, "left") == ["MEMORY.md line 3"]
    assert readers.receipt(operations, "converted") == []


def test_a_second_note_or_entity_of_one_key_imports_nothing(project, take, tmp_path):
    """A store that comes to hold two names of one key is refused, and what was imported stands as it was."""
    folder, graph = tmp_path / "notes", tmp_path / "memory.jsonl"
    folder.mkdir()
    (folder / "use_jq.md").write_text("Always.\n", "utf-8")
    line = '{"type":"entity","name":"%s","entityType":"host","observations":["port %d"]}\n'
    graph.write_text(line % ("A b", 80), "utf-8")
    take("notes", folder)
    take("mcp_jsonl", graph)
    before = project.ledger()
    (folder / "Use jq.md").write_text("Never.\n", "utf-8")
    graph.write_text(line % ("A b", 8080) + line % ("a_b", 80), "utf-8")
    for reader, path in (("notes", folder), ("mcp_jsonl", graph)):
        module = readers.load(reader)
        with pytest.raises(module.CannotRead):
            module.read(path)
    assert project.ledger() == before
