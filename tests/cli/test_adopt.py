"""`adopt claude-memory`: what Claude Code noted itself becomes unconfirmed proposals, and nothing of Claude's is changed unasked."""

from __future__ import annotations

import json
import re

import pytest

NOTES = {
    "MEMORY.md": "# Memory\n\n- [Package manager](pnpm.md) - use pnpm\n- [Deploys](deploys.md) - Fridays\n",
    "pnpm.md": "---\nname: pnpm\ndescription: The owner wants pnpm and not npm.\ntype: feedback\n---\nSaid twice.\n",
    "deploys.md": "---\nname: deploys\ndescription: Deploys happen on Fridays.\ntype: project\n---\nBy hand.\n",
}


@pytest.fixture
def home(project, tmp_path, monkeypatch):
    """Return a home of the test's own, in which Claude Code keeps a memory of the project."""
    home = tmp_path / "home"
    folder = home / ".claude" / "projects" / re.sub("[^A-Za-z0-9]", "-", str(project.folder)) / "memory"
    folder.mkdir(parents=True)
    for name, text in NOTES.items():
        (folder / name).write_text(text, "utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(project.folder)
    return home


def tree(folder):
    """Return every file below a folder with its bytes."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_its_notes_become_unconfirmed_proposals(project, home):
    """Tier 2 stands as an agent's working claim, tier 1 waits for the owner, and the run says where it comes from."""
    before = tree(home)
    reply = project.call("adopt", "claude-memory")
    said = reply["imported"]
    assert (reply.status, [row["key"] for row in said["held"]]) == (4, [q["key"] for q in project.ok("review")["questions"]])
    assert tree(home) == before
    assert said["proposals"] == 2
    claims = {body["key"]: body for _, body in project.records("proposal")}
    assert {(body["source"], body["trust"]) for body in claims.values()} == {("agent", "working")}
    assert not any("imported" in body for body in claims.values())
    (run,) = [body for _, body in project.records("run-open")]
    assert (run["actor"], run["origin"]["format"]) == ("claude", "claude-memory")
    held = [q["proposal"]["text"] for q in project.ok("review")["questions"]]
    assert held == ["The owner wants pnpm and not npm."]
    assert [s["text"] for s in project.ok("recall", "--prefix", "")["subjects"]] == ["Deploys happen on Fridays."]


def test_it_is_adopted_once_and_replaces_nothing(project, home):
    """A second call records nothing; a key that is there already keeps its value, and the adopted one stands beside it."""
    run = project.start("codex")
    key = next(body["key"] for _, body in _records_of(project, home) if "Fridays" in body["value"]["text"])
    project.fact(run, key, "Deploys happen on Mondays.")
    project.call("adopt", "claude-memory")
    ledger = project.ledger()
    again = project.call("adopt", "claude-memory")["imported"]
    assert (again["runs"], again["proposals"]) == ([], 0)
    assert project.ledger() == ledger
    found = project.ok("recall", key)
    assert (found["status"], found["current"]["text"]) == ("contested", "Deploys happen on Mondays.")
    assert [c["text"] for c in found["contenders"]] == ["Deploys happen on Fridays."]


def _records_of(project, home):
    """Return the proposals that adopting makes, from a vault of its own."""
    other = type(project)(home / "other", project.engine)
    (other.folder / ".git").mkdir(parents=True)
    other.ok("init", other.vault)
    folder = next((home / ".claude" / "projects").glob("*/memory"))
    other.call("adopt", "claude-memory", "--from", folder)
    return other.records("proposal")


def test_the_inbox_needs_the_owner_and_an_installation(project, home):
    """With the owner's word, and only then, Claude's setting names the vault's inbox, files are copied, and uninstall undoes it."""
    before = tree(home)
    assert project.call("adopt", "claude-memory", "--inbox").code == (3, "needs-approval")
    assert project.call("adopt", "claude-memory", "--inbox", "--human-approved").code == (5, "not-found")
    settings = project.folder / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    settings.write_bytes(b'{"model": "opus"}')
    assert project.cli("install", "--agents", "none", cwd=project.folder).status == 0
    said = project.call("adopt", "claude-memory", "--inbox", "--human-approved").data
    assert json.loads(settings.read_text("utf-8")) == {"model": "opus", "autoMemoryDirectory": said["inbox"]}
    assert {name: (project.vault / "inbox" / "claude" / name).read_text("utf-8") for name in NOTES} == NOTES
    assert tree(home) == before
    (project.vault / "inbox" / "claude" / "new.md").write_text("---\nname: new\ndescription: It rains.\ntype: project\n---\n", "utf-8")
    assert project.call("adopt", "claude-memory")["imported"]["proposals"] == 1
    assert project.cli("uninstall", cwd=project.folder).status == 0
    assert settings.read_bytes() == b'{"model": "opus"}'


def test_damaged_notes_change_nothing(project, home):
    """A note that the reader cannot read is named, and nothing is recorded."""
    folder = next((home / ".claude" / "projects").glob("*/memory"))
    (folder / "broken.md").write_bytes(b"---\nname: [\n---\n")
    ledger = project.ledger()
    assert project.call("adopt", "claude-memory").code == (3, "unreadable")
    assert project.ledger() == ledger


def test_no_memory_is_said(project, home):
    """Where Claude Code keeps nothing of this project, the place that was looked at is named."""
    assert project.call("adopt", "claude-memory", "--from", home / "nothing").code == (5, "not-found")
    (home / ".claude").rename(home / ".other")
    assert project.call("adopt", "claude-memory").code == (5, "not-found")
