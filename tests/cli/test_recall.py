"""`recall`: what is known of a key, now or then, or under a prefix."""

from __future__ import annotations

import pytest

URL = "https://ci.example/runs/7"


def test_current(cli, project):
    """The answer has the current value with its provenance, and says that nothing stands beside it."""
    run = project.start()
    made = project.fact(run, "a.b", "One.")
    reply = cli("recall", "a.b")
    assert reply.status == 0
    assert set(reply.data) == {
        "key",
        "status",
        "current",
        "contenders",
        "outranked",
        "earlier",
        "expired",
        "verified",
        "handle",
        "warnings",
    }
    assert (reply["key"], reply["status"], reply["earlier"], reply["expired"], reply["handle"]) == ("a.b", "current", 0, False, None)
    current = reply["current"]
    assert {name: current[name] for name in ("id", "key", "text", "tier", "trust", "source", "run", "actor", "op")} == {
        "id": made,
        "key": "a.b",
        "text": "One.",
        "tier": 2,
        "trust": "working",
        "source": "agent",
        "run": run,
        "actor": "codex",
        "op": "set",
    }


def test_human_output(cli, project):
    """In words the claim is quoted, with id, source and trust."""
    made = project.fact(project.start(), "a.b", "One.", "--detail-file", "-", "--tag", "t", "--evidence", URL, stdin=b"More\nof it.")
    lines = [line.strip() for line in cli("recall", "a.b", plain=True).out.split("\n")]
    assert any(line.startswith("> One.") and made in line and "agent/working" in line for line in lines)
    assert "| of it." in lines


def test_closed(call, project):
    """A closed subject is still found, as closed."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    project.ok("propose", "--run", run, "--key", "a.b", "--op", "close", "--now")
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["op"]) == ("closed", "close")
    assert call("recall", "a.b", plain=True).out.strip()


def test_contested(cli, project):
    """A subject in conflict shows current and contenders, and the handle by which the owner answers."""
    (_, first), (_, second), handle = project.conflict("a.b")
    reply = cli("recall", "a.b")
    assert (reply.status, reply["status"], reply["handle"]) == (0, "contested", handle)
    assert (reply["current"]["id"], [c["id"] for c in reply["contenders"]]) == (first, [second])


def test_outranked(call, project):
    """A working value beside an owner's statement is outranked, not a contender."""
    mine, owner = project.start("codex"), project.start("claude")
    project.stage(mine, "a.b", "mine", "--tier", "2", "--new-subject")
    project.owned(owner, "a.b", "owner's")
    call("sync", "--run", mine)
    found = project.ok("recall", "a.b")
    assert (found["status"], found["current"]["text"], found["contenders"]) == ("current", "owner's", [])
    assert [c["text"] for c in found["outranked"]] == ["mine"]


def test_history(cli, project):
    """With --history the earlier values come too, oldest first."""
    run = project.start()
    project.fact(run, "a.b", "One.")
    for text in ("Two.", "Three."):
        project.ok("propose", "--run", run, "--key", "a.b", "--text", text, "--now")
    assert "history" not in cli("recall", "a.b").data
    reply = cli("recall", "a.b", "--history")
    assert [c["text"] for c in reply["history"]] == ["One.", "Two."]
    assert reply["earlier"] == 2


def test_at_revision(cli, project):
    """With --at REVISION the answer is what stood when that revision was made."""
    run = project.start()
    first = project.ok("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "One.", "--now")["revision"]
    second = project.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")["revision"]
    project.ok("propose", "--run", run, "--key", "a.b", "--op", "close", "--now")
    assert cli("recall", "a.b", "--at", first)["current"]["text"] == "One."
    assert cli("recall", "a.b", "--at", second)["current"]["text"] == "Two."
    assert project.ok("recall", "a.b")["status"] == "closed"


def test_at_resolution(project):
    """With --at an owner's answer, the answer is what stood then; before it the conflict stands."""
    _, (run, second), handle = project.conflict("a.b")
    before = project.records("revision")[-1][0]
    answer = project.ok("resolve", handle, "--choose", second, "--human-approved")["resolution"]
    then = project.ok("recall", "a.b", "--at", "V%d-%s" % (before["seq"], run.split("-")[1]))
    assert (then["status"], len(then["contenders"])) == ("contested", 1)
    assert project.ok("recall", "a.b", "--at", answer)["current"]["id"] == answer


def test_at_date(cli, project):
    """With --at DATE the answer is what stood at the end of that day, UTC; before the first value nothing is found."""
    project.now = 1_798_761_599_000  # 2026-12-31T23:59:59Z
    run = project.start()
    project.fact(run, "a.b", "One.")
    project.now += 2_000
    project.ok("propose", "--run", run, "--key", "a.b", "--text", "Two.", "--now")
    assert cli("recall", "a.b", "--at", "2026-12-31")["current"]["text"] == "One."
    assert cli("recall", "a.b", "--at", "2027-01-01")["current"]["text"] == "Two."
    assert cli("recall", "a.b", "--at", "2026-12-30").code == (5, "not-found")


def test_expired(project):
    """A subject whose last day has passed, by the newest revision, is marked as expired and still known."""
    project.now = 1_798_761_599_000
    run = project.start()
    project.fact(run, "a.b", "One.", "--until", "2026-12-31")
    assert project.ok("recall", "a.b")["expired"] is False
    project.now += 2_000
    project.fact(run, "c.d", "x")
    assert project.ok("recall", "a.b")["expired"] is True
    assert "(agent, expired 2026-12-31)" in (project.vault / "MEMORY.md").read_text(encoding="utf-8")


def test_prefix(cli, project):
    """With --prefix the present keys that begin so are listed in order with their texts; closed ones are not."""
    run = project.start()
    for key in ("checkout.a", "checkout.b", "checkout", "checkoutx", "other"):
        project.fact(run, key, "About " + key)
    project.ok("propose", "--run", run, "--key", "checkout.b", "--op", "close", "--now")
    reply = cli("recall", "--prefix", "checkout.")
    assert (reply.status, reply["prefix"]) == (0, "checkout.")
    assert [(s["key"], s["text"]) for s in reply["subjects"]] == [("checkout.a", "About checkout.a")]
    assert [s["key"] for s in cli("recall", "--prefix", "checkout")["subjects"]] == ["checkout", "checkout.a", "checkoutx"]
    assert cli("recall", "--prefix", "checkout.", plain=True).out.startswith("checkout.a")


def test_empty_prefix_lists_all(project):
    """An empty prefix begins every key."""
    run = project.start()
    for key in ("0", "a", "z9"):
        project.fact(run, key)
    assert [s["key"] for s in project.ok("recall", "--prefix", "")["subjects"]] == ["0", "a", "z9"]


def test_prefix_has_contested_closes(call, project):
    """A subject that is closed with an open question is present, and listed."""
    base = project.start("base")
    project.fact(base, "a.b", "zero")
    one, two = project.start("codex"), project.start("claude")
    for run in (one, two):
        call("propose", "--run", run, "--key", "a.b", *(("--op", "close") if run == one else ("--text", "two")))
    call("sync", "--run", one)
    call("sync", "--run", two)
    (subject,) = project.ok("recall", "--prefix", "a.")["subjects"]
    assert (subject["key"], bool(subject["handle"])) == ("a.b", True)


def test_not_found(cli, project):
    """An unknown key or prefix is exit 5, naming the nearest key."""
    project.fact(project.start(), "checkout.next-step")
    for words in (("checkout.next-stop",), ("--prefix", "checkout.next-stop")):
        reply = cli("recall", *words)
        assert (reply.code, "checkout.next-step" in reply.error["hint"]) == ((5, "not-found"), True)
    assert cli("recall", "zzz").code == (5, "not-found")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), (2, "usage")),
        (("a.b", "--at", "2026-02-30"), (3, "bad-date")),
        (("a.b", "--at", "yesterday"), (3, "bad-date")),
        (("a.b", "--at", "V99-k7qdm2xw"), (5, "not-found")),
        (("A.b",), (3, "bad-key")),
        (("a.b", "--at", ""), (3, "bad-date")),
        (("a.b", "--prefix", "a."), (2, "usage")),
        (("--prefix", "a.", "--at", "2026-01-01"), (2, "usage")),
        (("--prefix", "a.", "--history"), (2, "usage")),
    ],
)
def test_refused(call, project, words, code):
    """A call that names no key, no time that is one, or what does not go together is refused."""
    project.fact(project.start(), "a.b")
    assert call("recall", *words).code == code
