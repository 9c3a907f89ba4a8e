"""What commands print with --json is what the schemas in templates/schema say, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from unittest import mock

import pytest
import scratch

engine = scratch.engine
SCHEMAS = scratch.ROOT / "templates" / "schema"
pytestmark = pytest.mark.packages
TAGS = (*scratch.SCRATCH_TAGS, "q5t2w8xz", "s6v3y9zb")
#: What has the form of an AWS access key; and a text that is erased.
KEY_LIKE = "AKIA" + "ZQ3KXW7PLM2RTV5N"
NUMBER = "555-0123"
OPERATIONS = b"""{"do":"journal","text":"One.","ref":"D1:1"}
{"do":"propose","key":"apply.a","tier":2,"new_subject":true,"text":"A.","evidence":["D1:1"]}
{"do":"propose","key":"apply.a","text":"B."}
{"do":"propose","key":"apply.b","tier":2,"text":"Unknown."}
{"do":"journal","text":""}
{"do":"jump"}
{"do":"propose","key":"Bad Key"}
{"do":"propose","key":"con"}

not json
{"do":"sync"}
"""


@pytest.fixture(scope="module")
def check():
    """Return the function that asserts that a value is what one schema says."""
    import jsonschema
    import referencing

    found = [json.loads(path.read_text("utf-8")) for path in sorted(SCHEMAS.glob("*.json"))]
    registry = referencing.Registry().with_resources((s["$id"], referencing.Resource.from_contents(s)) for s in found)
    checks = {s["$id"].rsplit("/", 1)[1][:-5]: jsonschema.Draft202012Validator(s, registry=registry) for s in found}

    def assert_valid(name, value):
        errors = list(checks[name].iter_errors(value))
        assert not errors, "%s: %s" % (name, "; ".join("%s %s" % (e.json_path, e.message[:300]) for e in errors[:3]))

    assert_valid.checks = checks
    return assert_valid


class Checked(scratch.Scratch):
    """A scratch vault that checks the result of every command that is given, and counts them."""

    def __init__(self, folder, check):
        super().__init__(folder, scratch.Chance(TAGS))
        self._check, self.seen = check, {}

    def __call__(self, *words, exit_status=0, stdin=b""):
        """Give one command that must end so; return its result, or its failure."""
        status, result = self.json(*words, stdin=stdin)
        assert status == exit_status, (words, result)
        name = "result-" + words[0] if status in (0, 4) or "errors" in result else "result-error"
        self._check(name, result)
        self.seen.setdefault(words[0], []).append(result)
        return result


@pytest.fixture(scope="module")
def day(tmp_path_factory, check):
    """Return a vault in which every command was given in several variants, each result checked."""
    vault = Checked(tmp_path_factory.mktemp("results"), check)
    vault("init")
    vault("init", exit_status=3)
    vault("status")
    vault("log")
    codex = vault("start", "--actor", "codex", "--session", "7")["run"]
    assert vault("start", "--actor", "codex", "--session", "7")["resumed"]
    claude = vault("start", "--actor", "claude")["run"]
    vault("journal", "--run", codex, "--text", "An entry.", "--ref", "log-1", "--importance", "4")
    vault("journal", "--run", codex, "--text", "\u202e", exit_status=3)
    vault("journal", "--run", "R99-k7qdm2xw", "--text", "x", exit_status=3)
    propose(vault, codex, claude)
    owner(vault, codex, claude)
    vault("apply", "--run", codex, "-", stdin=OPERATIONS, exit_status=4)
    vault("apply", "--run", codex, "-", stdin=b'{"do":"journal","text":"Two."}\n{"do":"sync"}\n', exit_status=0)
    vault("apply", "--run", codex, "-", "--atomic", stdin=OPERATIONS, exit_status=3)
    vault("apply", "--run", codex, "-", stdin=b"\xff", exit_status=2)
    read(vault, codex)
    vault("config")
    vault("config", "hot-lines", "50", "--human-approved")
    vault("config", "hot-lines", "5", "--human-approved", exit_status=3)
    vault("config", "nothing", exit_status=5)
    vault("propose", "--run", codex, "--key", "left.staged", "--tier", "2", "--text", "Left.", "--new-subject")
    vault.now_ms += 2 * 86_400_000
    vault("review", "--all")
    vault("maintain")
    vault("maintain", "--most", "0")
    vault("maintain", "--check")
    vault("close", "--run", claude, "--outcome", "success", "--summary", "Nothing staged.")
    vault("maintain", "--mark", "--run", codex)
    vault("recover-run", "--run", codex, "--summary", "Lost.", exit_status=3)
    vault("recover-run", "--run", codex, "--summary", "Lost.", "--human-approved")
    vault("close", "--outcome", "fail", "--summary", "x", exit_status=3)
    search(vault)
    hooked(vault)
    ended(vault)
    run = vault("start", "--actor", "gemini")["run"]
    edited(vault, run)
    erased(vault, run)
    moved(vault)
    restored(vault, run)
    installed(vault)
    went_back(vault, run)
    return vault


def propose(vault, codex, claude):
    """Propose in every way."""
    new = ("propose", "--run", codex, "--tier", "2", "--new-subject")
    first = vault(*new, "--key", "shop.next", "--text", "A.", "--evidence", "log-1", "--measured", "0,2026-11-30,true", "--link", "shop.db",
                  "--tag", "pay", "--until", "2026-12-01", "--why", "Because.", "--detail-file", "-", stdin=b"# Detail\n")
    vault("withdraw", first["proposal"], "--run", codex)
    vault("withdraw", first["proposal"], "--run", codex, exit_status=3)
    vault(*new, "--key", "shop.next", "--text", "A.", "--until", "2026-12-01", "--tag", "pay", "--now")
    vault("propose", "--run", codex, "--key", "shop.nxt", "--tier", "2", "--text", "Typo.", "--now", exit_status=4)
    vault("propose", "--run", codex, "--key", "shop.next", "--text", "B.", "--evidence", "nothing", exit_status=3)
    vault("propose", "--run", codex, "--key", "Shop.Next", "--text", "B.", exit_status=3)
    vault("propose", "--run", claude, "--key", "shop.next", "--text", "B.", exit_status=3)
    vault("propose", "--run", codex, "--key", "shop.db", "--tier", "1", "--new-subject", "--text", "PostgreSQL.", "--now", exit_status=4)
    vault("propose", "--run", codex, "--key", "shop.days", "--tier", "3", "--new-subject", "--text", "Mondays.", "--falsifier", "None.",
          "--evidence", "https://ci.example/1", "--now")
    vault("propose", "--run", codex, "--key", "shop.days", "--op", "touch", "--evidence", "log-1", "--now")
    vault("propose", "--run", codex, "--key", "shop.gone", "--tier", "2", "--new-subject", "--text", "Short.", "--now")
    vault("propose", "--run", codex, "--key", "shop.gone", "--op", "close", "--now")
    vault("sync", "--run", claude)
    for run, text in ((codex, "B."), (claude, "C.")):
        vault("propose", "--run", run, "--key", "shop.next", "--text", text)
    vault("sync", "--run", codex)
    vault("sync", "--run", claude, exit_status=4)


def owner(vault, codex, claude):
    """Ask and answer every kind of question."""
    vault("review")
    vault("review", "shop.next")
    vault("review", "shop.gone")
    vault("review", "C-000000", exit_status=3)
    vault("review", "no.such", exit_status=5)
    conflict = vault("review", "shop.next")["questions"][0]
    vault("review", conflict["handle"])
    vault("recall", "shop.next")
    vault("recall", "--prefix", "shop.")
    vault("resolve", conflict["handle"], "--choose", "current", exit_status=3)
    vault("resolve", conflict["handle"], "--choose", "P1-k7qdm2xw", "--human-approved", exit_status=3)
    vault("resolve", conflict["handle"], "--choose", "x", "--text", "y", exit_status=3)
    vault("resolve", conflict["whole"], "--choose", "current", "--note", "Yes.", "--measured", "0,2026-11-30,true", "--human-approved")
    held = vault("review", "shop.db")["questions"][0]
    vault("resolve", held["handle"], "--choose", "accept", "--human-approved")
    vault("resolve", vault("review", "shop.nxt")["questions"][0]["handle"], "--choose", "decline", "--human-approved")
    for key, answer in (("shop.x", ("--text", "Mine.")), ("shop.y", ("--choose", "close"))):
        vault("sync", "--run", codex)
        vault("sync", "--run", claude)
        for run in (codex, claude):
            vault("propose", "--run", run, "--key", key, "--tier", "2", "--new-subject", "--text", run, "--tag", "shop")
        vault("sync", "--run", codex)
        vault("sync", "--run", claude, exit_status=4)
        vault("resolve", vault("review", key)["questions"][0]["handle"], *answer, "--human-approved")


def read(vault, codex):
    """Ask what is known in every way."""
    for key in ("shop.next", "shop.db", "shop.days", "shop.gone", "shop.y"):
        vault("recall", key)
        vault("recall", key, "--history")
        vault("history", key)
    vault("recall", "shop.next", "--at", "2026-11-30")
    vault("recall", "shop.next", "--at", "1999-01-01", exit_status=5)
    vault("recall", "shop.next", "--at", "someday", exit_status=3)
    vault("recall", "no.such", exit_status=5)
    vault("recall", "--prefix", "zz", exit_status=5)
    vault("recall", exit_status=2)
    vault("history", "shop.next", "--page", "7", exit_status=3)
    events = vault("log", "--most", "1000")["events"]
    assert {e["kind"] for e in events} >= {"run-open", "revision", "resolution"}
    vault("log", "--run", codex, "--since", "2026-11-30")
    for event in events:
        if event["kind"] in ("revision", "resolution"):
            vault("show", event["id"])
    vault("show", events[-1]["id"], "--view")
    for what in (vault.seen["journal"][0]["entry"], *(r["proposal"] for r in vault.seen["propose"][:4] if "proposal" in r)):
        vault("show", what)
    vault("show", "V99-k7qdm2xw", exit_status=5)
    vault("status")


def hooked(vault):
    """Let an agent call its hooks: with and without an event, with an old session to be closed, and where nothing can be done."""
    def hook(event, session):
        name = {"session-start": "SessionStart", "pre-compact": "PreCompress", "session-end": "SessionEnd"}[event]
        given = json.dumps({"session_id": session, "hook_event_name": name}).encode()
        return vault("hook", event, "--agent", "gemini", stdin=given)

    hook("session-start", "old")
    vault.now_ms += 2 * 86_400_000
    assert hook("session-start", "new")["closed"]
    assert hook("pre-compact", "new")["run"]
    hook("session-end", "new")
    assert hook("session-end", "new")["why"]
    vault("hook", "session-start", "--agent", "nobody")


def search(vault):
    """Ask the index, and of the index and its models, in every way."""
    vault("search", "what is next", "--explain")
    vault("search", "--queries", "-", stdin=b"What is next?\nNothing of the kind\n")
    vault("search", "zzzzzzzz", exit_status=5)
    vault("search", exit_status=2)
    vault("search", "--suggest")
    vault("search", "x", "--mode", "hybrid", exit_status=8)
    (vault.folder / "memory" / "mine.md").write_bytes(b"---\na: [\nb\n---\n\xc3\xa4")
    (vault.folder / "memory" / "none.md").write_bytes(b"\xff")
    vault("index")
    vault("index", "--status")
    vault("index", "--drop")
    vault("eval", "-", stdin=b'{"q": "next", "answers": ["shop.next"], "style": "word"}\n')
    for _ in range(2):
        vault("eval", "-", "--mode", "lexical", "--save", stdin=b'{"q": "next", "answers": ["shop.next"]}\n')
    vault("eval", "-", exit_status=2)
    model = vault.folder / "tiny"
    model.mkdir()
    for name, text in (("config.json", '{"hidden_size": 8}'), ("tokenizer.json", '{"model": {}}'), ("model.onnx", "")):
        (model / name).write_text(text)
    os.environ["MUNIMENT_MODELS"] = str(vault.folder / "models")
    vault("model", "add", "tiny")
    vault("model", "add", "tiny", exit_status=3)
    vault("model")
    vault("model", "use", "tiny")
    vault("model", "remove", "tiny")
    vault("model", "remove", "tiny", exit_status=5)
    os.environ["MUNIMENT_MODELS"] = os.devnull


def ended(vault):
    """Damage the vault in several ways, and have it proved and made again."""
    before = vault("start", "--actor", "codex")["run"]
    (vault.vault / "MEMORY.md").write_bytes(b"Edited.\n")
    vault("doctor")
    vault("doctor", "--strict", exit_status=7)
    vault("status")
    vault("review", "--all")
    vault("rebuild")
    vault("doctor", "--schema", "--fix")
    vault("log", "--most", "1000")
    vault("start", "--actor", "claude")
    data = vault.ledger().read_bytes()
    vault.ledger().write_bytes(b"claudf".join(data.rsplit(b"claude", 1)))
    vault("status")
    vault("journal", "--run", before, "--text", "x")
    vault("sync", "--run", before, exit_status=7)
    vault("recall", "no.such", exit_status=5)  # a failure that warns too
    vault("doctor", exit_status=7)
    vault.ledger().write_bytes(data)
    vault("doctor", "--fix")
    vault("status", "--vault", "nowhere", exit_status=5)


def edited(vault, run):
    """Edit views in several ways, and adopt and dismiss what was changed."""
    vault("journal", "--run", run, "--text", "The key is %s." % KEY_LIKE, exit_status=3)
    vault("journal", "--run", run, "--text", "The key is %s." % KEY_LIKE, "--allow-secret")
    failed = vault("apply", "--run", run, "-", stdin=b'{"do":"propose","key":"a","text":"%s"}\n' % KEY_LIKE.encode(), exit_status=4)
    assert failed["results"][0]["field"] == "text"
    vault("propose", "--run", run, "--key", "edit.me", "--tier", "2", "--new-subject", "--text", "Sell at once.", "--tag", "pay", "--now")
    memory, note = vault.vault / "MEMORY.md", vault.vault / "notes" / "edit.me.md"
    memory.write_bytes(memory.read_bytes().replace(b"Sell at once.", b"Sell later.") + b"Mine.\n")
    asked = vault("review", "--all")["edits"]
    assert {(bool(e["changes"]), bool(e["unread"])) for e in asked} == {(True, True), (False, True)}
    last = asked[-1]
    assert vault("review", last["handle"])["edits"] == [last]
    vault("review", "X-000000", exit_status=3)
    vault("resolve", last["handle"], "--choose", "adopt", exit_status=3)
    vault("resolve", last["handle"], "--choose", "accept", "--human-approved", exit_status=3)
    vault("resolve", "X-000000", "--choose", "adopt", "--human-approved", exit_status=3)
    done = vault("resolve", last["whole"], "--choose", "adopt", "--note", "Later.", "--human-approved")
    assert [len(done[name]) for name in ("adopted", "closed", "left")] == [1, 0, 1]
    note.write_bytes(note.read_bytes().replace(b"importance: 3", b"importance: 5").replace(b'  - "pay"', b'  - "pay"\n  - "shop"'))
    (vault.vault / "notes" / "edit.new.md").write_bytes(b"---\ntier: 2\n---\nA new one.\n\nWith a detail.\n")
    changes = [change for e in vault("review", "--all")["edits"] for change in e["changes"]]
    assert {(change["key"], change["new"], tuple(change["fields"])) for change in changes} == {
        ("edit.me", False, ("importance", "tags")), ("edit.new", True, ("detail", "importance", "status", "text", "tier"))}
    done = vault("resolve", "edits", "--choose", "adopt", "--measured", "0,2026-11-30,true", "--human-approved")
    assert [len(done[name]) > 0 for name in ("adopted", "closed", "left")] == [True] * 3
    assert vault("resolve", "edits", "--choose", "dismiss", "--human-approved")["closed"]
    vault("resolve", "edits", "--choose", "dismiss", "--human-approved", exit_status=3)
    for key in ("edit.me", "edit.new"):
        vault("recall", key, "--history")
    for event in vault("log")["events"]:
        if event["kind"] == "resolution":
            vault("show", event["id"])


def erased(vault, run):
    """Erase texts, and ask for what is left of them in every way."""
    entry = vault("journal", "--run", run, "--text", "Call %s." % NUMBER, "--ref", "call-1")["entry"]
    made = vault("propose", "--run", run, "--key", "erase.me", "--tier", "2", "--new-subject", "--text", "Her number: %s" % NUMBER, "--now")
    vault("propose", "--run", run, "--key", "erase.me", "--text", "She has none.", "--evidence", entry, "--now")
    staged = vault("propose", "--run", run, "--key", "erase.me", "--text", "Or %s." % NUMBER)["proposal"]
    vault("close", "--run", vault("start", "--actor", "gpt", "--session", NUMBER)["run"], "--outcome", "partial", "--summary", NUMBER)
    vault("erase", exit_status=2)
    vault("erase", "--text", "555", exit_status=3)
    vault("erase", "V1-k7qdm2xw", "--human-approved", exit_status=3)
    vault("erase", "E999-k7qdm2xw", "--human-approved", exit_status=5)
    vault("erase", "--text", "It stands nowhere.", "--human-approved", exit_status=5)
    vault("erase", entry, exit_status=3)
    assert vault("erase", entry, "--note", "A number.", "--human-approved")["targets"] == [entry]
    (vault.vault / "INDEX.md").write_bytes(NUMBER.encode())
    (vault.vault / "numbers.md").write_bytes(NUMBER.encode())
    done = vault("erase", "--text", NUMBER, "--human-approved", exit_status=4)
    assert {made["proposal"], staged} < set(done["targets"])
    assert [len(done[name]) > 0 for name in ("erasures", "files", "remains")] == [True] * 3
    for what in (entry, made["proposal"], staged):
        vault("show", what)
    assert [claim["erased"] for claim in vault("recall", "erase.me", "--history")["history"]] == [True]
    for words in (("recall", "erase.me"), ("history", "erase.me"), ("review", "erase.me"), ("review", "--all"), ("log",), ("maintain",), (
            "search", "number"), ("show", made["revision"])):
        vault(*words)
    vault("doctor")


def moved(vault):
    """Take in what an older memory held, and give out all there is, in every way."""
    (vault.folder / "old.md").write_bytes(b"Old.")
    digest = hashlib.sha256(b"Old.").hexdigest()
    claim = {"do": "propose", "run": "w", "tier": 2}
    operations = [
        {"do": "source", "format": "notes", "name": "wiki", "files": [{"path": "old.md", "sha256": digest}]},
        {"do": "open", "run": "w", "actor": "bob"}, {"do": "journal", "run": "w", "id": "e", "text": "Seen."},
        dict(claim, key="old.fact", text="Old."), dict(claim, key="shop.next", text="Older."), {"do": "sync", "run": "w"},
        dict(claim, key="old.fact", text="Old."), {"do": "sync", "run": "w"}, dict(claim, key="old.staged", text="Perhaps."),
        {"do": "left", "what": "a.png", "why": "it is no text"}, {"do": "converted", "what": "b.md", "how": "cut"}]
    data = "".join(json.dumps(op) + "\n" for op in operations).encode()
    vault("import", "-", stdin=data, exit_status=3)
    vault("import", "-", "--human-approved", stdin=b"", exit_status=2)
    vault("import", "-", "--human-approved", stdin=data.replace(b"old.md", b"gone.md"), exit_status=3)
    done = vault("import", "-", "--human-approved", stdin=data, exit_status=4)
    assert all(done[name] for name in ("kept", "runs", "beside", "same", "staged", "converted", "left"))
    assert vault("import", "-", "--human-approved", stdin=data)["skipped"] == ["w"]
    assert vault("export")["text"]
    assert vault("export", "--format", "markdown", "--to", "page.md")["text"] is None
    vault("export", "--format", "notes", "--to", "notes")
    vault("export", "--format", "notes", exit_status=2)
    vault("export", "--to", "page.md", exit_status=3)


def restored(vault, run):
    """Damage the ledger that is written to, and have it put together again with a copy and without."""
    path = vault.ledger(vault("journal", "--run", run, "--text", "Where it goes.")["entry"][-8:])
    whole = path.read_bytes()
    (vault.folder / "copy.jsonl").write_bytes(whole)
    path.write_bytes(whole.replace(b"Where it goes.", b"Where it went."))
    vault("restore", exit_status=3)
    vault("restore", "--from", "nowhere.jsonl", exit_status=9)
    vault("restore", "--from", "copy.jsonl", "--accept-loss", exit_status=2)
    vault("restore", "--accept-loss", exit_status=3)
    done = vault("restore", "--from", "copy.jsonl")["restored"]
    assert [(row["tag"], row["kind"], row["lost"]) for row in done] == [(path.stem, "bad-hash", [])]
    assert path.read_bytes() == whole
    assert vault("restore")["restored"] == []
    path.write_bytes(whole.replace(b"Where it goes.", b"Where it went."))
    vault("status")
    done = vault("restore", "--accept-loss", "--human-approved")["restored"]
    assert [(row["tag"], len(row["lost"]), row["before"] > row["after"]) for row in done] == [(path.stem, 1, False)]
    vault("log")
    vault("doctor")


def installed(vault):
    """Lay the memory in the project, which holds an older one, adopt what Claude Code noted, and take it out again."""
    home = vault.folder / "home"
    home.mkdir()
    with mock.patch.dict(os.environ, {"HOME": str(home), "USERPROFILE": str(home)}):
        _install_and_leave(vault)


def _install_and_leave(vault):
    folder = vault.folder / "noted"
    folder.mkdir()
    (folder / "one.md").write_text("---\ndescription: Deploys are on Fridays.\n---\n", "utf-8")
    (vault.folder / "CLAUDE.md").symlink_to("/nowhere/CLAUDE.md")
    install = ("install", "--agents", "claude")
    assert vault(*install, "--dry-run")["differences"]
    assert vault(*install)["left"]
    assert vault(*install)["files"] == []
    (vault.folder / "bimri.md").write_text("no store", "utf-8")
    assert vault(*install)["imported"]["code"]
    vault("install", "--agents", "emacs", exit_status=3)
    vault("upgrade")
    vault("completion", "bash")
    vault("adopt", "claude-memory", "--inbox", "--from", str(folder), exit_status=3)
    assert vault("adopt", "claude-memory", "--inbox", "--human-approved", "--from", str(folder))["inbox"]
    assert vault("uninstall", "--dry-run")["differences"] is not None
    (vault.vault / "muniment.py").write_text("mine", "utf-8")
    assert vault("uninstall")["left"]


def went_back(vault, run):
    """Let this machine remember the vault, put an older ledger back, and ask what is missing."""
    assert vault("witness")["tags"] == {}
    os.environ["MUNIMENT_STATE"] = str(vault.folder / "state")
    try:
        entry = vault("journal", "--run", run, "--text", "Remembered.")["entry"]
        assert vault("witness")["tags"]
        path = vault.ledger(entry[-8:])
        older = path.read_bytes()
        vault("start", "--actor", "codex")
        path.write_bytes(older)
        vault("status")
        vault("doctor")
        vault("doctor", "--strict", exit_status=7)
        behind = vault("witness")["behind"]
        assert [(row["tag"], row["runs"]) for row in behind] == [(path.stem, 1)]
        vault("witness", "--accept", exit_status=3)
        assert vault("witness", "--accept", "--human-approved")["accepted"] == behind
        assert vault("witness")["behind"] == []
        vault("start", "--actor", "codex")
    finally:
        os.environ["MUNIMENT_STATE"] = os.devnull


def test_every_command_has_results_that_fit(day):
    """Each command of the table was given, with results that its schema takes."""
    assert set(day.seen) == {c.name for c in engine.COMMANDS} - {"demo", "mcp"}  # each has a test of its own


def test_every_command_has_a_schema(check):
    """There is one schema for each command, and one for failures."""
    names = {name for name in check.checks if name.startswith("result-")}
    assert names == {"result-" + c.name for c in engine.COMMANDS} | {"result-error"}


def test_the_demo_result_fits(tmp_path, check, capsys):
    """`demo --json` says where the vault is and what its MEMORY.md holds."""
    assert engine.main(["demo", "--json", "--in", str(tmp_path)]) == 0
    check("result-demo", json.loads(capsys.readouterr().out))


def walk(schema):
    """Yield every schema inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from walk(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from walk(value)


@pytest.mark.parametrize("command", [c.name for c in engine.COMMANDS if c.name not in ("demo", "mcp")])
def test_results_are_closed_and_every_field_was_seen(day, check, command):
    """No field may come or go unsaid: a result with one more is refused, and each field of the schema came up."""
    schema = check.checks["result-" + command]
    done = [r for r in day.seen[command] if "code" not in r]
    assert done
    for result in done:
        assert list(schema.iter_errors(dict(result, unheard_of=1)))
        for name in result:
            less = {n: v for n, v in result.items() if n != name}
            optional = ("warning", "nearest", "kept", "history", "edits", "answer", "receipt")
            assert name in optional or list(schema.iter_errors(less)), name
    branches = [check.checks[one["$ref"][:-5]].schema if one.get("$ref", "").endswith(".json") else one
                for one in schema.schema.get("oneOf", [schema.schema])]
    named = {name for branch in branches for name in branch["properties"]}
    assert named <= {name for result in done for name in result}


def test_protocol_names_every_field_of_a_result(day):
    """Section 12 names each field of each result, a claim and a decided by their names."""
    page = (scratch.ROOT / "PROTOCOL.md").read_text("utf-8").split("## 12. ")[1].split("## 13. ")[0]
    shared = {"revision", "applied", "unchanged", "held", "beside", "changed"}
    for command, results in day.seen.items():
        text = page.split("### %s\n" % command)[1].split("\n### ")[0]
        text = text.replace("as of `close`", page.split("### close\n")[1].split("\n### ")[0])
        for result in results:
            for name in () if "code" in result else result:
                assert "`%s`" % name in text or (name in shared and "a decided" in text), (command, name)
