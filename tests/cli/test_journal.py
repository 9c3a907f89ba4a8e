"""`journal`: records one entry."""

from __future__ import annotations

import json
import re

import pytest


def test_entry(cli, project):
    """The answer is the entry's id and run; the record has the text, importance 3 and no ref."""
    run = project.start()
    reply = cli("journal", "--run", run, "--text", "The sandbox answers 504.")
    assert reply.status == 0
    assert reply.data == {"entry": reply["entry"], "run": run, "warnings": []}
    ((head, body),) = project.records("journal")
    assert reply["entry"].startswith("E%d-" % head["seq"])
    assert {name: body[name] for name in body if name != "salt"} == {"run": run, "text": "The sandbox answers 504.", "importance": 3}


def test_human_output_is_the_id(cli, project):
    """In words the answer is the id alone, for a script to take."""
    reply = cli("journal", "--run", project.start(), "--text", "x", plain=True)
    assert re.fullmatch("E[0-9]+-[a-z0-9]{8}\n", reply.out)
    assert reply.err == ""


def test_importance_and_ref(cli, project):
    """Importance and an outside id are kept, and evidence may name that id."""
    run = project.start()
    entry = cli("journal", "--run", run, "--text", "x", "--importance", "5", "--ref", "D1:3")["entry"]
    ((_, body),) = project.records("journal")
    assert (body["importance"], body["ref"]) == (5, "D1:3")
    project.fact(run, "a.b", "A fact.", "--evidence", "D1:3")
    assert project.current("a.b")["evidence"] == [entry]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\ntwo\r\n", "one\ntwo"),
        (b"one", "one"),
        ("\tZwölf — 十二\n\nend".encode(), "\tZwölf — 十二\n\nend"),
    ],
)
def test_standard_input(cli, project, given, kept):
    """With - the text is standard input, several lines long; CRLF is read as LF and the last newline is dropped."""
    assert cli("journal", "--run", project.start(), "--text", "-", stdin=given).status == 0
    ((_, body),) = project.records("journal")
    assert body["text"] == kept


def test_longest_text(call, project):
    """8,000 characters are taken, whatever their bytes."""
    run = project.start()
    assert call("journal", "--run", run, "--text", "記" * 8_000).status == 0
    ((_, body),) = project.records("journal")
    assert len(body["text"]) == 8_000


@pytest.mark.parametrize("importance", [1, 5])
def test_importance_bounds(call, project, importance):
    """1 and 5 are the least and the most importance."""
    assert call("journal", "--run", project.start(), "--text", "x", "--importance", importance).status == 0
    ((_, body),) = project.records("journal")
    assert body["importance"] == importance


def test_view(call, project):
    """The run's journal quotes every entry, so that no text makes a heading of its own."""
    run = project.start()
    call("journal", "--run", run, "--text", "# not a heading\n- [ ] not a task", "--ref", "D1")
    page = (project.vault / "journal" / (run + ".md")).read_text(encoding="utf-8")
    assert "\n> # not a heading\n> - [ ] not a task\n" in page
    assert "\n# not" not in page


def test_pages(call, project):
    """A page of the journal has 200 entries; the 201st begins the second."""
    run = project.start()
    lines = [json.dumps({"do": "journal", "text": f"entry {n}."}) for n in range(200)]
    project.ok("apply", "--run", run, "-", stdin="\n".join(lines).encode())
    second = project.vault / "journal" / (run + "_2.md")
    assert not second.exists()
    call("journal", "--run", run, "--text", "entry 200.")
    assert "entry 200." in second.read_text(encoding="utf-8")
    first = (project.vault / "journal" / (run + ".md")).read_text(encoding="utf-8")
    assert first.count("\n## E") == 200
    assert "entry 200." not in first


def test_journalling_does_not_look(call, project):
    """To journal is not to look: a key that moved is still refused."""
    mine, other = project.start("codex"), project.start("claude")
    project.fact(other, "a.b")
    project.journal(mine)
    assert call("propose", "--run", mine, "--key", "a.b", "--text", "x").code == (3, "stale")


def test_clock_that_goes_back(call, project):
    """A clock that stands still or goes back is no error: each record is later than the one before."""
    project.now = 1_796_025_600_000
    run = project.start()
    for now in (1_796_025_600_000, 1_796_025_600_000 - 86_400_000, 1_796_025_600_000):
        project.now = now
        assert call("journal", "--run", run, "--text", "x").status == 0
    times = [head["at"] for head, _ in project.records() if "unit" in head]
    assert times == sorted(set(times))
    assert times[-1] == "2026-11-30T08:00:00.003Z"
