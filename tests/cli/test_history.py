"""`history`: a subject's earlier values."""

from __future__ import annotations

import json

import pytest


def test_earlier_values(cli, project):
    """Every value that was replaced is listed, oldest first, with its provenance; the current one is not."""
    run = project.start()
    ids = [project.fact(run, "a.b", "0")]
    ids += [project.ok("propose", "--run", run, "--key", "a.b", "--text", text, "--now")["proposal"] for text in ("1", "2")]
    reply = cli("history", "a.b")
    assert reply.status == 0
    assert set(reply.data) == {"key", "total", "page", "pages", "generations", "warnings"}
    assert (reply["key"], reply["total"], reply["page"], reply["pages"]) == ("a.b", 2, 1, 1)
    assert [(c["id"], c["text"], c["actor"]) for c in reply["generations"]] == [(ids[0], "0", "codex"), (ids[1], "1", "codex")]
    out = cli("history", "a.b", plain=True).out
    assert ids[0] in out
    assert ids[2] not in out


def test_none(call, project):
    """A subject that was never changed has an empty history."""
    project.fact(project.start(), "a.b")
    reply = call("history", "a.b")
    assert (reply.status, reply["total"], reply["generations"]) == (0, 0, [])


def test_closed(project):
    """Of a closed subject all of its past is history, the close too."""
    run = project.start()
    project.fact(run, "a.b", "x")
    project.ok("propose", "--run", run, "--key", "a.b", "--op", "close", "--now")
    assert [c["op"] for c in project.ok("history", "a.b")["generations"]] == ["set", "close"]


def test_pages(cli, project):
    """A page has 200 values; the last is shown unless another is named, and the view has the same pages."""
    run = project.start()
    ops = [{"do": "propose", "key": "a.b", "text": str(n), **({"tier": 2, "new_subject": True} if n == 0 else {})} for n in range(402)]
    project.ok("apply", "--run", run, "-", stdin="".join(json.dumps(op) + '\n{"do":"sync"}\n' for op in ops).encode())
    reply = cli("history", "a.b")
    assert (reply["total"], reply["page"], reply["pages"], [c["text"] for c in reply["generations"]]) == (401, 3, 3, ["400"])
    reply = cli("history", "a.b", "--page", "2")
    assert [c["text"] for c in reply["generations"]] == [str(n) for n in range(200, 400)]
    assert [
        (project.vault / "history" / name).read_text(encoding="utf-8").count("\n## 20") for name in ("a.b.md", "a.b_2.md", "a.b_3.md")
    ] == [200, 200, 1]
    assert not (project.vault / "history" / "a.b_4.md").exists()


def test_not_found(cli, project):
    """An unknown key is not found, naming the nearest."""
    project.fact(project.start(), "checkout.next-step")
    reply = cli("history", "checkout.next-stop")
    assert (reply.code, "checkout.next-step" in reply.error["hint"]) == ((5, "not-found"), True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("A.b",), (3, "bad-key")),
        (("a.b", "--page", "0"), (3, "bad-value")),
        (("a.b", "--page", "2"), (3, "bad-value")),
        (("a.b", "--page", "-1"), (3, "bad-value")),
        (("a.b", "--page", "99999999999999999999"), (3, "bad-value")),
        ((), (2, "usage")),
    ],
)
def test_refused(call, project, words, code):
    """A page that is not there, or what is no key, is refused."""
    project.fact(project.start(), "a.b")
    assert call("history", *words).code == code
