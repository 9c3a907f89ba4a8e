"""What is copied into other projects is right: the curation page, the workflow, and the skill."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import readers
import scratch

TEMPLATES = scratch.ROOT / "templates"
CURATE = (TEMPLATES / "curate.md").read_text("utf-8")
SKILL = (TEMPLATES / "skill" / "SKILL.md").read_text("utf-8")
WORKFLOW = (TEMPLATES / "doctor.yml").read_text("utf-8")
#: The subjects that the curation page speaks of.
PRESENT = {"checkout.next-step": "Retry once.", "payments.sandbox": "It answers 504 to one call in ten."}


def blocks(text, language=""):
    """Return what fenced code blocks of a language hold, their indent taken away."""
    found = re.findall(r"^( *)```([a-z]*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub("^" + indent, "", block, flags=re.MULTILINE) for indent, said, block in found if said == language]


def calls(text):
    """Return the command lines of a page's code blocks as words."""
    lines = [line for block in blocks(text) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("engine.py ")]


@pytest.fixture
def vault(tmp_path):
    """Return a scratch vault with the subjects that the pages speak of, and an entry that no proposal cites."""
    made = scratch.Scratch(tmp_path / "project")
    made.ok("init")
    _, opened = made.json("start", "--actor", "codex")
    for key, text in PRESENT.items():
        made.ok("propose", "--run", opened["run"], "--key", key, "--tier", "2", "--new-subject", "--text", text)
    made.ok("sync", "--run", opened["run"])
    _, entry = made.json("journal", "--run", opened["run"], "--text", "Twice is enough.")
    made.ok("close", "--run", opened["run"], "--outcome", "success", "--summary", "Done.")
    return made, entry["entry"]


def run_page(made, text, names):
    """Run each command of a page in turn, the placeholders filled from ``names``; return (words, exit status, result) of each."""
    done = []
    for words in calls(text):
        filled = [names.get(word, word) for word in words]
        status, result = made.json(*filled)
        if words[0] == "start":
            names["R"] = result["run"]
        if words[0] == "journal":
            names["E"] = result["entry"]
        done.append((words, status, result))
    return done


def test_the_curation_page_can_be_followed(vault):
    """Each of its commands succeeds in the order of the page; then nothing is left to curate, and the next look is silent."""
    made, entry = vault
    (batch,) = blocks(CURATE, "json")
    (made.folder / "day.jsonl").write_text(batch.replace('"E"', json.dumps(entry)), "utf-8")
    done = run_page(made, CURATE, {"E": entry, "KEY": "checkout.next-step", "in your own words": "retries"})
    assert [words[0] for words, *_ in done] == [
        "maintain", "search", "recall", "start", "apply", "sync", "maintain", "close", "doctor"]
    assert [status for _, status, _ in done] == [0] * len(done)
    first, applied, synced = done[0][2], done[4][2], done[5][2]
    assert [one["id"] for one in first["uncurated"]] == [entry]
    assert applied["failed"] == 0
    assert {one["key"] for one in synced["applied"]} >= {"checkout.next-step", "ci.login-test"}
    assert (synced["held"], synced["beside"]) == ([], [])
    _, again = made.json("maintain")
    assert (again["uncurated"], again["expired"], again["suggestions"]) == ([], [], [])
    assert made.run("doctor", "--strict")[0] == 0


def test_every_row_of_the_curation_table_is_an_operation(vault):
    """What the table says of a line of the batch, the engine takes: each kind of proposal, and tier 1 is held."""
    made, entry = vault
    lines = [
        {"key": "checkout.next-step", "text": "Retry twice.", "why": "Once was not enough.", "evidence": [entry]},
        {"key": "payments.sandbox", "op": "touch", "evidence": [entry]},
        {"key": "payments.sandbox", "op": "close", "why": "It is gone.", "evidence": [entry]},
        {"key": "a.b", "text": "New.", "new_subject": True, "tier": 2, "evidence": [entry]},
        {"key": "a.c", "text": "Again.", "new_subject": True, "tier": 3, "confidence": "emerging", "falsifier": "No.", "evidence": [entry]},
        {"key": "a.d", "text": "Always.", "new_subject": True, "tier": 1, "kind": "rule", "evidence": [entry]},
    ]
    said = {word for row in re.findall(r"^ *\|[^|]*\|([^|]*)\|$", CURATE, re.MULTILINE) for word in re.findall(r"`\"?([a-z_]+)", row)}
    assert said == {name for line in lines for name in line}
    (made.folder / "all.jsonl").write_text("".join(json.dumps({"do": "propose", **line}) + "\n" for line in lines), "utf-8")
    _, opened = made.json("start", "--actor", "curator")
    status, applied = made.json("apply", "--run", opened["run"], "all.jsonl")
    assert (status, applied["failed"]) == (0, 0)
    status, synced = made.json("sync", "--run", opened["run"])
    assert (status, [one["key"] for one in synced["held"]]) == (4, ["a.d"])


def test_the_curation_page_is_short_and_asks_for_nothing_forbidden():
    """It is at most 70 lines, and what it forbids stands in none of its commands."""
    assert len(CURATE.splitlines()) <= 70
    forbidden = {"--human-approved", "--trust", "--allow-secret", "confirmed", "user", "resolve", "erase", "recover-run", "config"}
    assert not forbidden & {word for words in calls(CURATE) for word in words}
    never = CURATE.split("**Never**")[1]
    assert all("`%s`" % word in never for word in ("--human-approved", "--trust confirmed", "--allow-secret", "resolve"))
    assert not {"source", "trust"} & {name for line in blocks(CURATE, "json")[0].splitlines() for name in json.loads(line)}


def frontmatter(text):
    """Return the properties of a page and its body."""
    _, head, body = re.split(r"(?m)^---\n", text, maxsplit=2)
    return readers.load("notes").Frontmatter("page", head.splitlines(), 2).parse(), body


def test_the_skill_keeps_the_rules_of_skills():
    """Name, description and compatibility are within the limits; no other field; the body is short and says its folder's name."""
    head, body = frontmatter(SKILL)
    assert {*head} == {"name", "description", "license", "compatibility"}
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", head["name"])
    assert len(head["name"]) <= 64
    assert len(head["description"]) < 1_024
    assert len(head["compatibility"]) <= 500
    assert not re.search(r"[<>]|: | #", head["description"]), "YAML or a skill's list would take it for something else"
    comment = re.match(r"<!-- (.*?) -->", body)[1]
    assert re.search(r"a folder named %s\b" % re.escape(head["name"]), comment)
    assert len(body.splitlines()) < 60


def test_the_commands_of_the_skill_can_be_followed(vault):
    """Each of them succeeds in the order of the page, from a start to a close."""
    made, _ = vault
    names = {"KEY": "payments.sandbox", "K": "payments.sandbox", "NAME": "claude", "ID": "chat-1", "T": "Text."}
    done = run_page(made, SKILL, {**names, "in your own words": "sandbox 504"})
    assert [words[0] for words, *_ in done] == ["start", "search", "recall", "journal", "propose", "sync", "close"]
    assert [status for _, status, _ in done] == [0] * len(done)
    assert made.run("doctor", "--strict")[0] == 0


def parse_workflow():
    """Return the workflow as data: by PyYAML where it is there, else by the reader's part of YAML; both must agree."""
    ours = readers.load("notes").Frontmatter("doctor.yml", WORKFLOW.splitlines(), 1).parse()
    try:
        import yaml
    except ImportError:
        return ours
    theirs = yaml.load(WORKFLOW, yaml.BaseLoader)  # noqa: S506 - it makes nothing but text, lists and mappings
    for step in theirs["jobs"]["memory"]["steps"]:
        if "run" in step:
            step["run"] = step["run"].rstrip("\n")
    assert json.dumps(theirs).replace('""', "null") == json.dumps(ours)
    return ours


def test_the_workflow_has_the_least_rights_and_no_text_of_a_pull_request_in_its_shell():
    """On pull requests alone; it reads, and writes comments; actions are official and pinned; scripts take what they need from env."""
    flow = parse_workflow()
    assert [*flow["on"]] == ["pull_request"]
    assert flow["permissions"] == {"contents": "read", "pull-requests": "write"}
    (job,) = flow["jobs"].values()
    assert "permissions" not in job
    checkout, python, prove, say = job["steps"]
    assert re.fullmatch(r"actions/checkout@v[0-9]+", checkout["uses"])
    assert re.fullmatch(r"actions/setup-python@v[0-9]+", python["uses"])
    assert checkout["with"] == {"fetch-depth": "0", "persist-credentials": "false"}
    assert prove["run"] == 'python "$ENGINE" doctor --strict --github'
    assert "GH_TOKEN" not in json.dumps([checkout, python, prove])
    assert not any("${{" in step.get("run", "") for step in job["steps"])
    assert {*re.findall(r"\$\{\{ (.*?) \}\}", json.dumps(say["env"]))} == {"github.token", "github.event.pull_request.number"}
    assert "head.repo.full_name == github.repository" in say["if"]


#: An engine that has the command diff, or has not, as `FAKE` says; and a gh that keeps what it was called with.
FAKE_ENGINE = """
import os, sys
if sys.argv[1:] == ["--help"]:
    print("usage: engine.py COMMAND\\n\\n  doctor       prove the vault")
    print("  diff         say what changes" if os.environ["FAKE"] else "  different    no diff")
else:
    assert sys.argv[1:] == ["diff", "--git", "--markdown"]
    sys.stdout.write(open(os.environ["CHANGES"], encoding="utf-8").read())
"""
FAKE_GH = """#!/bin/sh
printf '%s\\n' "$*" >>"$CALLS"
case "$*" in *--paginate*) printf '%s' "$FOUND";; esac
"""


@pytest.fixture
def say(tmp_path):
    """Return a function that runs the workflow's last script and returns (calls of gh, the comment or None)."""
    shell = shutil.which("bash")
    if shell is None or os.name != "posix":
        pytest.skip("the script needs bash, as the machine of the workflow has it")
    script = parse_workflow()["jobs"]["memory"]["steps"][-1]["run"]
    (tmp_path / "engine.py").write_text(FAKE_ENGINE, "utf-8")
    (tmp_path / "gh").write_text(FAKE_GH, "utf-8")
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)

    def run(fake="yes", changes="", found=""):
        log, comment = tmp_path / "calls", tmp_path / "comment.md"
        (tmp_path / "said").write_text(changes, "utf-8")
        for path in (log, comment):
            path.unlink(missing_ok=True)
        environ = {"PATH": "%s:%s" % (tmp_path, os.environ["PATH"]), "ENGINE": str(tmp_path / "engine.py"), "RUNNER_TEMP": str(tmp_path),
                   "GITHUB_REPOSITORY": "o/r", "NUMBER": "7", "GH_TOKEN": "x", "PYTHONUTF8": "1", "CALLS": str(log), "FAKE": fake,
                   "CHANGES": str(tmp_path / "said"), "FOUND": found}
        done = subprocess.run([shell, "--noprofile", "--norc", "-eo", "pipefail", "-c", script], env=environ, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr
        return (log.read_text("utf-8").splitlines() if log.exists() else [], comment.read_text("utf-8") if comment.exists() else None)

    return run


def test_the_workflow_says_nothing_without_the_command(say):
    """An engine that has no diff makes no comment and no failure."""
    assert say(fake="") == ([], None)


def test_the_workflow_posts_one_comment(say):
    """The first time it posts, then it writes the same comment anew; what is long is cut to what a comment holds."""
    asked, comment = say(changes="- **a** `$(touch x)` ü\n")
    assert [line.split()[1:4] for line in asked[1:]] == [["--silent", "--method", "POST"]]
    assert asked[1].split()[4] == "repos/o/r/issues/7/comments"
    assert comment.splitlines()[2] == "- **a** `$(touch x)` ü"
    asked, again = say(changes="x" * 200_000, found="41\n42\n")
    assert asked[1].split()[3:5] == ["PATCH", "repos/o/r/issues/comments/41"]
    assert len(again) < 65_536
    assert again.splitlines()[0] == comment.splitlines()[0]
    assert comment.splitlines()[0] in asked[0], "the comment is found by its first line"


def test_the_workflow_is_silent_where_nothing_changes(say):
    """Without changes no comment is made, and one that is there says so."""
    assert len(say()[0]) == 1
    asked, comment = say(found="41")
    assert asked[1].split()[3] == "PATCH"
    assert len(comment.splitlines()) == 3
