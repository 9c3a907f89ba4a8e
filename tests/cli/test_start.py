"""`start`: opens or resumes a run and prints the brief."""

from __future__ import annotations

import json
import re

import pytest

BRIEF_MAX = 9_500


def in_order(text, *parts):
    """Tell whether all of the parts stand in the text, each after the one before."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def test_new_run(cli, project):
    """A run is opened for the actor, and the answer has its handle and the brief."""
    reply = cli("start", "--actor", "codex")
    assert reply.status == 0
    assert set(reply.data) == {"run", "actor", "resumed", "brief", "warnings"}
    assert re.fullmatch("R[0-9]+-[2-9a-hjkmnp-z]{8}", reply["run"])
    assert (reply["actor"], reply["resumed"], reply["warnings"]) == ("codex", False, [])
    ((head, body),) = project.records("run-open")
    assert body["actor"] == "codex"
    assert "session" not in body
    assert reply["run"].startswith("R%d-" % head["seq"])


def test_human_output_is_the_brief(cli):
    """In words the answer is the brief: the handle first, then the three commands that follow."""
    reply = cli("start", "--actor", "codex", "--session", "s", plain=True)
    again = cli("start", "--actor", "codex", "--session", "s")
    assert reply.out == again["brief"]
    assert reply.out.split("\n")[0] == "run %s (codex)" % again["run"]
    assert in_order(reply.out, "journal --run " + again["run"], "propose --run " + again["run"], "close --run " + again["run"])


def test_session_is_resumed(cli, project):
    """The same actor and session get the same run back while it is open, and the record of a look."""
    first = cli("start", "--actor", "codex", "--session", "42 a")
    second = cli("start", "--actor", "codex", "--session", "42 a")
    assert (first["resumed"], second["resumed"]) == (False, True)
    assert first["run"] == second["run"]
    assert len(project.records("run-open")) == 1
    assert [body["decisions"] for _, body in project.records("revision")] == [[]]


@pytest.mark.parametrize("words", [("--actor", "claude", "--session", "42"), ("--actor", "codex", "--session", "43"), ("--actor", "codex")])
def test_another_session_is_not_resumed(call, project, words):
    """Another actor, another session or none gets a run of its own."""
    first = project.start("codex", "--session", "42")
    reply = call("start", *words)
    assert (reply.status, reply["resumed"]) == (0, False)
    assert reply["run"] != first


def test_closed_session_is_not_resumed(call, project):
    """A closed run is never resumed."""
    first = project.start("codex", "--session", "42")
    project.close(first)
    reply = call("start", "--actor", "codex", "--session", "42")
    assert (reply["resumed"], reply["run"] == first) == (False, False)


def test_resuming_looks(call, project):
    """A resumed run has seen what others did meanwhile."""
    other, mine = project.start("claude"), project.start("codex", "--session", "42")
    project.fact(other, "a.b", "one")
    assert call("propose", "--run", mine, "--key", "a.b", "--text", "two").code == (3, "stale")
    call("start", "--actor", "codex", "--session", "42")
    assert call("propose", "--run", mine, "--key", "a.b", "--text", "two", "--now").status == 0


def test_copy_does_not_resume(project):
    """A copy of the vault opens a run of its own for a session that the original has open."""
    first = project.start("codex", "--session", "42")
    import shutil

    shutil.copytree(project.vault, project.folder / "copy")
    reply = project.cli("start", "--actor", "codex", "--session", "42", "--vault", "copy")
    assert (reply["resumed"], reply["run"] == first) == (False, False)


def test_brief_in_order(cli, project):
    """The brief has the handle, what follows, what changed, own updates that lost, tier 1, tiers 3 and 2, and what waits, in order."""
    owner = project.start("owner")
    project.owned(owner, "rule.one", "Never on Friday.", "--tier", "1", "--kind", "rule")
    project.fact(owner, "work.one", "Build the cart.")
    project.fact(
        owner, "pattern.one", "Tests flake at night.", "--tier", "3", "--evidence", "https://ci.example/1", "--confidence", "established"
    )
    mine = project.start("codex")
    project.conflict("fight.one", "left", "right")
    project.held("held.one", "a secret plan")
    late = project.start("claude")
    project.stage(late, "lost.one", "the owner's", "--tier", "2", "--new-subject", "--source", "user", "--trust", "confirmed")
    lost = project.stage(mine, "lost.one", "codex's", "--tier", "2", "--new-subject")
    project.close(mine)
    project.call("sync", "--run", late)
    brief = cli("start", "--actor", "codex")["brief"]
    assert in_order(
        brief,
        "run R",
        "journal --run",
        "> lost.one: the owner's",
        "\n> lost.one: " + lost,
        "> rule.one: Never on Friday.",
        "> pattern.one: Tests flake at night. (agent)",
        "> work.one: Build the cart. (agent)",
        "1 conflicts, 1 held",
        " more in MEMORY.md",
    )


def test_brief_says_how_the_last_run_ended(call, project):
    """The run that was closed last is named with its actor, outcome and the beginning of its summary, quoted on one line."""
    assert "Last closed" not in call("start", "--actor", "codex")["brief"]
    run = project.start("claude")
    project.ok("close", "--run", run, "--outcome", "partial", "--summary", "Built it.\n# Not a heading\n" + "x" * 1_000)
    lines = call("start", "--actor", "codex")["brief"].split("\n")
    at = next(n for n, line in enumerate(lines) if run in line)
    assert "claude" in lines[at]
    assert "partial" in lines[at]
    assert lines[at + 1].startswith("> Built it. # Not a heading xxx")
    assert len(lines[at + 1]) < 500


def test_brief_has_no_questions(call, project):
    """What waits for the owner is counted; neither a contender's text nor a held proposal's is shown."""
    project.conflict("fight.one", "left", "right")
    project.held("held.one", "a secret plan")
    brief = call("start", "--actor", "gemini")["brief"]
    assert "left" in brief
    assert "right" not in brief
    assert "a secret plan" not in brief
    assert "1 conflicts, 1 held" in brief


def test_brief_quotes_claims_with_their_source(call, project):
    """Each claim is a quotation with its source behind it; only the owner's confirmed word has no mark."""
    run = project.start()
    project.fact(run, "a.agent", "Agent said.")
    project.fact(run, "a.outside", "A page said.", "--source", "external", "--until", "2027-01-31")
    project.owned(run, "a.owner", "Owner said.")
    lines = call("start", "--actor", "claude")["brief"].split("\n")
    assert "> a.agent: Agent said. (agent)" in lines
    assert "> a.outside: A page said. (external, until 2027-01-31)" in lines
    assert "> a.owner: Owner said." in lines


def test_changes_since_the_actor_last_closed(call, project):
    """What others changed since this actor last closed a run comes first; an actor that never closed one has no such part."""
    mine, other = project.start("codex"), project.start("claude")
    project.fact(mine, "a.old", "old")
    project.close(mine)
    call("sync", "--run", other)
    project.fact(other, "a.new", "new")
    call("propose", "--run", other, "--key", "a.old", "--op", "close", "--now")
    brief, fresh = call("start", "--actor", "codex")["brief"], call("start", "--actor", "gemini")["brief"]
    assert brief.count("> a.new: new") == 2
    assert "> a.old: closed" in brief.split("\n")
    assert fresh.count("> a.new: new") == 1
    assert "> a.old: closed" not in fresh


def test_own_update_that_replaced_nothing_is_not_lost(call, project):
    """An own update that still stands first is not among those that lost."""
    mine = project.start("codex")
    made = project.fact(mine, "a.b")
    project.close(mine)
    assert made not in call("start", "--actor", "codex")["brief"]


@pytest.mark.parametrize("letter", ["x", "\u8a18", "\U0001f600"])
def test_brief_is_bounded(call, project, letter):
    """However much there is, the brief has at most 9,500 characters, each part its share, and counts the rest."""
    run, text = project.start("codex"), letter * 490
    lines = [
        {"do": "propose", "key": f"{part}.n{n}", "new_subject": True, "text": text + str(n), **more}
        for n in range(30)
        for part, more in (
            ("one", {"tier": 1, "source": "user", "trust": "confirmed"}),
            ("two", {"tier": 2}),
            ("three", {"tier": 3, "evidence": ["https://a.example/" + letter * 100]}),
        )
    ]
    project.ok("close", "--run", project.start("claude"), "--outcome", "success", "--summary", letter * 2_000)
    project.ok("config", "hot-bytes", "1048576", "--human-approved")
    project.ok("apply", "--run", run, "-", stdin="".join(json.dumps(line) + "\n" for line in [*lines, {"do": "sync"}]).encode())
    reply = call("start", "--actor", "claude")
    brief = reply["brief"]
    assert reply.status == 0
    assert len(brief) <= BRIEF_MAX
    assert all(f"> {part}.n" in brief for part in ("one", "two"))
    more = re.search(r"^([0-9]+) more in MEMORY.md", brief, re.MULTILINE)
    shown = brief.split("Decided", 1)[1].count("\n> ")
    assert int(more.group(1)) == 90 - shown


def test_overflow_of_tier_1_is_said(call, project):
    """If tier 1 alone has no room in MEMORY.md, the brief counts what went to INDEX.md."""
    run = project.start()
    project.ok("config", "hot-lines", "40", "--human-approved")
    lines = [
        json.dumps(
            {
                "do": "propose",
                "key": f"rule.n{n}",
                "tier": 1,
                "new_subject": True,
                "text": f"Rule {n}.",
                "source": "user",
                "trust": "confirmed",
            }
        )
        for n in range(60)
    ]
    project.ok("apply", "--run", run, "-", stdin="\n".join([*lines, '{"do":"sync"}']).encode())
    hot = (project.vault / "MEMORY.md").read_text(encoding="utf-8").count("- **rule.")
    index = (project.vault / "INDEX.md").read_text(encoding="utf-8").count("- [[notes/rule.")
    assert 0 < hot < 60
    assert hot + index == 60
    brief = call("start", "--actor", "claude")["brief"]
    assert re.search(rf"^{60 - hot} .*INDEX\.md", brief, re.MULTILINE)


def test_interrupted_append_is_said_and_kept(cli, project):
    """Bytes of an append that was cut off go to recovery/, the run is opened, and the brief says so."""
    project.journal(project.start())
    path = next((project.vault / ".muniment" / "ledger").iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"body":{"ru')
    reply = cli("start", "--actor", "codex")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    kept = [p.read_bytes() for p in (project.vault / ".muniment" / "recovery").iterdir()]
    assert kept == [b'{"body":{"ru']
    assert path.read_bytes().startswith(whole)
    ((_, body),) = project.records("recovery")
    assert (body["what"], body["size"]) == ("torn", len(kept[0]))
    assert reply["warnings"][0] in reply["brief"]
