"""`mcp`: the tools and resources of one client, over a process's standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[2] / "engine.py"
SCHEMAS = ENGINE.parent / "templates" / "schema"
TOOLS = ["memory_start", "memory_record", "memory_search", "memory_recall", "memory_close"]
#: The least and the last revision of the protocol that begins with `initialize`, and the first that does not.
OLDEST, OLDER, CURRENT = "2024-11-05", "2025-11-25", "2026-07-28"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": CURRENT, "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}
FIRST = {"method": "initialize", "params": {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
#: Seconds in which anything here is over, unless it hangs.
PATIENCE = 30
#: Tokens that what the tools say of themselves may cost, at four characters each.
TOKENS_MAX, CHARACTERS_A_TOKEN = 1_200, 4
#: What is put before `engine.run()`, for an engine that is not as it stands.
WITHOUT_PACKAGE = "sys.modules['mcp'] = None"
KEY_LIKE = "AKIA" + "ZQ3KXW7PLM2RTV5N"
posix = pytest.mark.skipif(os.name != "posix", reason="signals, links and parents as POSIX has them")
needs_mcp = pytest.mark.mcp


def words_of(*options, before=None):
    """Return the command line of a server; ``before`` is Python that is run before the engine in its process."""
    if before is None:
        return [sys.executable, str(ENGINE), "mcp", *map(str, options)]
    code = "import sys\nsys.path.insert(0, %r)\nimport engine\n%s\nsys.argv = ['engine.py', 'mcp', *sys.argv[1:]]\nengine.run()"
    return [sys.executable, "-c", code % (str(ENGINE.parent), before), *map(str, options)]


class Server:
    """A server's process, spoken to line by line. What it says on standard error goes to a file."""

    def __init__(self, folder, words):
        self.errors = folder / ("stderr-%d" % time.monotonic_ns())
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.lines, self.last, self.early = queue.Queue(), 0, {}
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, data):
        """Write bytes to the server's standard input."""
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def tell(self, method, **params):
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def send(self, method, **params):
        """Send a request and return its id."""
        self.last += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}).encode() + b"\n")
        return self.last

    def take(self, number):
        """Return the answer to a request: every line that comes is one of the protocol's."""
        while number not in self.early:
            line = self.lines.get(timeout=PATIENCE)
            assert line is not None, self.said()
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if "method" not in message:
                self.early[message["id"]] = message
        return self.early.pop(number)

    def ask(self, method, **params):
        """Send a request; return its answer."""
        return self.take(self.send(method, **params))

    def open(self, revision=OLDER):
        """Begin as the protocol wants it; return self."""
        told = self.ask("initialize", protocolVersion=revision, capabilities={}, clientInfo={"name": "test", "version": "1"})
        self.told = told["result"]
        assert self.told["protocolVersion"] == revision
        self.tell("notifications/initialized")
        return self

    def result(self, answer):
        """Return the object that a tool's answer holds, and whether it is marked as an error."""
        assert "result" in answer, answer
        (block,) = answer["result"]["content"]
        assert block["type"] == "text"
        return json.loads(block["text"]), answer["result"].get("isError", False)

    def begin(self, name, **arguments):
        """Ask for a tool and return the request's id."""
        return self.send("tools/call", name=name, arguments=arguments)

    def call(self, name, **arguments):
        """Call a tool; return what `result` does."""
        return self.result(self.take(self.begin(name, **arguments)))

    def ok(self, name, **arguments):
        """Call a tool that must not fail; return its object."""
        found, failed = self.call(name, **arguments)
        assert not failed, found
        return found

    def code(self, name, **arguments):
        """Call a tool that must fail; return the code, after looking at the form of the failure."""
        found, failed = self.call(name, **arguments)
        assert failed, found
        assert found["message"]
        return found["code"]

    def start(self, actor="claude", **arguments):
        """Open a run and return its handle."""
        return self.ok("memory_start", actor=actor, **arguments)["run"]

    def fact(self, run, key, text="A fact.", **fields):
        """Make a new subject, of tier 2 unless the fields say another; return the sync's row."""
        operation = {"do": "propose", "key": key, "tier": 2, "new_subject": True, "text": text, **fields}
        return self.ok("memory_record", run=run, operations=[operation], sync=True)["results"][-1]

    def read(self, uri):
        """Read a resource; return its text, or the error of the protocol."""
        answer = self.ask("resources/read", uri=uri)
        return answer["error"] if "error" in answer else answer["result"]["contents"][0]["text"]

    def said(self):
        """Return what it said on standard error."""
        return self.errors.read_text("utf-8", "replace")

    def end(self):
        """Close its standard input; return its exit status, once every answer is taken."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            message = json.loads(line)
            self.early[message.get("id")] = message
        return status

    def kill(self):
        """End it if it still runs, and close what is open to it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()


@pytest.fixture
def serve(project):
    """Return a function that starts a server on the test's vault."""
    servers = []

    def start(*options, before=None):
        servers.append(Server(project.folder, words_of("--vault", project.vault, *options, before=before)))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Yield one server for many tests, and the folder in which it looks for the vault: it keeps nothing of one between two calls."""
    folder = tmp_path_factory.mktemp("shared")
    servers = []

    def get():
        if not servers or servers[-1].process.poll() is not None:
            servers.append(Server(folder, words_of("--vault", folder / "memory", "--lock-wait", "1")).open())
        return servers[-1]

    yield folder, get
    for server in servers:
        server.kill()


@pytest.fixture
def server(shared, bare):
    """Return the shared server on a vault that is new, which `doctor --strict` must find healthy when the test is over.

    ``server.project`` gives the commands on the same vault.
    """
    folder, get = shared
    shutil.rmtree(folder / "memory", ignore_errors=True)
    bare.vault = folder / "memory"
    bare.ok("init", bare.vault)
    running = get()
    running.project = bare
    yield running
    assert running.process.poll() is None, running.said()
    if bare.healthy:
        assert bare.doctor() == []


# Without a client.


def test_without_the_package(bare):
    """Where the protocol's package is missing, `mcp` says so, with or without a vault, and every other command works."""
    bare.ok("init", bare.vault)
    words = words_of("--json", before=WITHOUT_PACKAGE)
    done = subprocess.run(words, cwd=bare.folder, input=b"", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (8, b"")
    assert json.loads(done.stderr)["code"] == "missing-package"
    code = "import sys\nsys.path.insert(0, %r)\nimport engine\n%s\nengine.run()" % (str(ENGINE.parent), WITHOUT_PACKAGE)
    done = subprocess.run([sys.executable, "-c", code, "status"], cwd=bare.folder, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_line_that_is_wrong(cli):
    """`mcp` takes its options as any command does."""
    assert cli("mcp", "--actr", "claude").code == (2, "usage")


# With the protocol's own client.


@contextlib.asynccontextmanager
async def client_of(words, folder, mode):
    """Yield the package's client on a server of its own, and the revision of the protocol that they speak."""
    import mcp
    from mcp.client.stdio import stdio_client

    parameters = mcp.StdioServerParameters(command=words[0], args=words[1:], cwd=str(folder), env=dict(os.environ))
    if hasattr(mcp, "Client"):
        async with mcp.Client(stdio_client(parameters), mode=mode) as client:
            yield client, client.protocol_version
    else:
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as client:
            yield client, (await client.initialize()).protocolVersion


@needs_mcp
@pytest.mark.parametrize(("mode", "revision"), [("auto", CURRENT), ("legacy", OLDER)])
def test_a_session_with_the_packages_client(project, mode, revision):
    """A whole session by the package's own client, in the current revision and in the one that begins with `initialize`."""
    import mcp

    if mode == "auto" and not hasattr(mcp, "Client"):
        pytest.skip("this version of the package speaks no revision without `initialize`")

    async def run():
        async with client_of(words_of("--vault", project.vault), project.folder, mode) as (client, spoken):

            async def tool(name, **arguments):
                answer = await client.call_tool(name, arguments)
                return json.loads(answer.content[0].text)

            names = [found.name for found in (await client.list_tools()).tools]
            run = (await tool("memory_start", actor="claude", session="s-1"))["run"]
            key = "checkout.next-step"
            operations = [{"do": "journal", "text": "The sandbox answers 504.", "ref": "log-1"},
                          {"do": "propose", "key": key, "tier": 2, "new_subject": True, "text": "Retry.", "evidence": ["log-1"]}]
            recorded = await tool("memory_record", run=run, operations=operations, sync=True)
            found = await tool("memory_search", question="sandbox")
            known = await tool("memory_recall", key=key)
            listed = [str(one.uri) for one in (await client.list_resources()).resources]
            note = (await client.read_resource(listed[1])).contents[0].text
            closed = await tool("memory_close", run=run, outcome="success", summary="Done.")
            return spoken, names, recorded, found, known, listed, note, closed

    spoken, names, recorded, found, known, listed, note, closed = asyncio.run(run())
    assert (spoken, names) == (revision, TOOLS)
    assert [row["do"] for row in recorded["results"]] == ["journal", "propose", "sync"]
    assert [hit["status"] for hit in found["hits"]] == ["entry"]
    assert known["current"]["evidence"] == [recorded["results"][0]["entry"]]
    assert listed == ["muniment:///MEMORY.md", "muniment:///notes/checkout.next-step.md"]
    assert note.encode() == (project.vault / "notes" / "checkout.next-step.md").read_bytes()
    assert closed["outcome"] == "success"
    assert project.ok("status")["open_count"] == 0


# What the tools say of themselves.


@needs_mcp
def test_what_the_tools_say_costs_little(server):
    """All that a client gets to know of the tools is fewer than 1,200 tokens, counted as a quarter of its characters."""
    tools = server.ask("tools/list")["result"]["tools"]
    text = json.dumps(tools, ensure_ascii=False, separators=(",", ":")) + server.told["instructions"]
    assert len(text) / CHARACTERS_A_TOKEN < TOKENS_MAX
    assert [tool["name"] for tool in tools] == TOOLS
    assert all(tool["description"] for tool in tools)
    assert [tool["name"] for tool in tools if tool.get("annotations", {}).get("readOnlyHint")] == ["memory_search", "memory_recall"]


@needs_mcp
def test_operations_are_those_of_apply(server, engine):
    """`memory_record` names each field of each operation of `apply`, with the words that it may hold; filters are those of `search`."""
    forms = {tool["name"]: tool["inputSchema"] for tool in server.ask("tools/list")["result"]["tools"]}
    assert all(form["type"] == "object" and {*form.get("required", ())} <= {*form["properties"]} for form in forms.values())
    fields = forms["memory_record"]["properties"]["operations"]["items"]["properties"]
    assert fields.pop("do")["enum"] == list(engine.OPERATIONS)
    assert set(fields) == {name for names in engine.OPERATIONS.values() for name in names}
    assert {name: form["enum"] for name, form in fields.items() if "enum" in form} == {
        name: list(engine.CHOICES[name]) for name in fields if name in engine.CHOICES}
    assert forms["memory_search"]["properties"]["in"]["enum"] == list(engine.HIT_KINDS)
    assert forms["memory_close"]["properties"]["outcome"]["enum"] == list(engine.OUTCOMES)


# What they do.


@needs_mcp
def test_every_answer_is_as_its_schema_says(server):
    """A day of calls: each answer is one object that result-mcp.json takes, without anything that is null, false or empty."""
    import jsonschema
    import referencing

    found = [json.loads(path.read_text("utf-8")) for path in sorted(SCHEMAS.glob("*.json"))]
    registry = referencing.Registry().with_resources((one["$id"], referencing.Resource.from_contents(one)) for one in found)
    (schema,) = [one for one in found if one["$id"].endswith("/result-mcp.json")]
    check = jsonschema.Draft202012Validator(schema, registry=registry)
    forms = [check.evolve(schema={**one, "$id": schema["$id"], "$defs": schema["$defs"]}) for one in schema["oneOf"]]
    seen = [set() for _ in schema["oneOf"]]

    def call(name, **arguments):
        answer, failed = server.call(name, **arguments)
        fits = [n for n, form in enumerate(forms) if form.is_valid(answer)]
        assert len(fits) == 1, (name, answer)
        assert not check.is_valid({**answer, "unheard_of": 1})
        assert ("code" in answer) == (fits == [len(seen) - 1])
        assert failed or "code" not in answer
        seen[fits[0]].update(answer)
        return answer

    project = server.project
    run = call("memory_start", actor="claude", session="s")["run"]
    assert call("memory_start", actor="claude", session="s")["resumed"]
    new = {"do": "propose", "tier": 2, "new_subject": True}
    call("memory_record", run=run, sync=True, operations=[
        {"do": "journal", "text": "The payment sandbox answers 504.", "ref": "log-1"},
        {**new, "key": "checkout.next-step", "text": "Retry twice.", "evidence": ["log-1"], "detail": "Then stop.", "until": "2020-01-01"},
        {**new, "key": "checkout.next-stop", "text": "Draw it."},
        {"do": "propose", "key": "checkout.next-stops", "text": "Unknown.", "tier": 2},
        {**new, "key": "stack.database", "tier": 1, "text": "PostgreSQL."},
        {"do": "jump"}])
    staged = call("memory_record", run=run, operations=[{"do": "propose", "key": "checkout.next-step", "text": "Retry thrice."}])
    assert staged["results"][0]["kept"] == ["detail"]
    measured = {"command": "true", "exit": 0, "date": "2026-11-30"}
    call("memory_record", run=run, sync=True, operations=[
        {"do": "withdraw", "proposal": staged["results"][0]["proposal"]},
        {"do": "propose", "key": "checkout.next-step", "op": "touch", "evidence": [measured]}])
    call("memory_record", run=run, operations=[])
    call("memory_record", run=run, operations=[{"do": "journal"}, {"do": "journal", "text": "Whole."}], atomic=True)
    (project.vault / "broken.md").write_bytes(b"\xff\n")
    call("memory_search", question="payment sandbox")
    call("memory_search", question="retry", most=1, current=True, key="checkout")
    call("memory_search", question="nothing of this kind", tags=["none"])
    (project.vault / "broken.md").unlink()
    for n in range(12):
        call("memory_record", run=run, sync=True, operations=[{"do": "propose", "key": "checkout.next-stop", "text": "Draw %d." % n}])
    other = server.start("codex")
    assert project.call("propose", "--run", other, "--key", "checkout.next-stop", "--text", "Theirs.", "--now").status == 0
    call("memory_record", run=run, operations=[{"do": "propose", "key": "checkout.next-stop", "text": "Mine."}])
    call("memory_record", run=run, operations=[{"do": "sync"}, {"do": "propose", "key": "checkout.next-stop", "text": "Mine."}])
    project.ok("propose", "--run", other, "--key", "checkout.next-stop", "--text", "Theirs again.", "--now")
    assert call("memory_record", run=run, operations=[], sync=True)["results"][0]["beside"]
    known = call("memory_recall", key="checkout.next-stop", history=True)
    assert (known["status"], len(known["history"]), known["more"]) == ("contested", 10, known["earlier"] - 10)
    call("memory_recall", key="checkout.next-step")
    call("memory_recall", key="checkout.next-step", at="2099-01-01")
    call("memory_recall", prefix="checkout.")
    call("memory_recall", prefix="")
    call("memory_recall", key="no.such.key")
    note = project.vault / "MEMORY.md"
    note.write_bytes(b"Edited.\n")
    assert call("memory_recall", prefix="checkout")["warnings"]
    call("memory_record", run=other, operations=[{"do": "propose", "key": "checkout.next-step", "op": "close"}])
    call("memory_close", run=other, outcome="partial", summary="Something is left.")
    call("memory_close", run=run, outcome="success", summary="Done.")
    named = [set(one["properties"]) for one in schema["oneOf"][:-1]]
    seldom = {"warnings", "pending", "outranked", "more", "held", "unchanged", "beside", "changed"}
    assert [names - found - seldom for names, found in zip(named, seen)] == [set()] * len(named)


@needs_mcp
def test_a_brief_is_what_start_prints(server):
    """The brief of `memory_start` is that of `start`, but for the commands that follow it."""
    run = server.start()
    server.fact(run, "a.b", "Snow ☃ lies.")
    server.ok("memory_close", run=run, outcome="success", summary="Done.")
    first = server.ok("memory_start", actor="claude", session="one")
    again = server.project.ok("start", "--actor", "claude", "--session", "one")
    assert again["run"] == first["run"]
    assert first["brief"].splitlines() == [line for line in again["brief"].splitlines() if not line.startswith("  ")]
    assert "Snow ☃ lies." in first["brief"]
    assert first["run"] in first["brief"]


@needs_mcp
def test_a_batch_is_apply(server):
    """A refused operation fails alone unless the batch is atomic, then nothing is recorded; `sync` decides what was staged before too."""
    run = server.start()
    bad = {"do": "propose", "key": "A", "text": "x"}
    operations = [{"do": "propose", "key": "a.b", "tier": 2, "new_subject": True, "text": "One."}, bad]
    found, failed = server.call("memory_record", run=run, operations=operations, atomic=True)
    assert (failed, found["code"], found["line"], found["cause"]) == (True, "atomic", 2, "bad-key")
    assert server.project.records("proposal") == []
    found, failed = server.call("memory_record", run=run, operations=operations)
    assert (failed, found["failed"], found["results"][1]["code"]) == (False, 1, "bad-key")
    assert server.code("memory_recall", key="a.b") == "not-found"
    assert server.ok("memory_record", run=run, operations=[], sync=True)["results"][0]["applied"][0]["key"] == "a.b"
    assert server.ok("memory_recall", key="a.b")["current"]["text"] == "One."
    found, failed = server.call("memory_record", run=run, operations=[bad])
    assert (failed, found["failed"], found["results"][0]["code"]) == (True, 1, "bad-key")


@needs_mcp
def test_what_the_owner_decides(server):
    """An agent's tier 1 claim is held and says so; only what the owner said may be confirmed."""
    run = server.start()
    assert server.fact(run, "stack.database", tier=1, kind="decision")["held"][0]["reason"] == "needs-owner"
    refused = [{"do": "propose", "key": "x", "tier": 1, "new_subject": True, "text": "y", "trust": "confirmed"}]
    assert server.call("memory_record", run=run, operations=refused)[0]["results"][0]["code"] == "needs-user"
    assert server.fact(run, "stack.cache", tier=1, source="user", trust="confirmed")["applied"]


@needs_mcp
def test_a_secret_is_refused(server):
    """What looks like a credential is not recorded unless the call allows it, and the answer does not repeat it."""
    run = server.start()
    operation = {"do": "journal", "text": "The key is %s." % KEY_LIKE}
    found, failed = server.call("memory_record", run=run, operations=[operation])
    assert (failed, found["results"][0]["code"]) == (True, "secret")
    assert KEY_LIKE not in json.dumps(found)
    assert server.code("memory_close", run=run, outcome="success", summary=operation["text"]) == "secret"
    assert server.ok("memory_record", run=run, operations=[operation], allow_secret=True)["results"][0]["entry"]


#: (code, tool, arguments): what is refused. RUN and CLOSED stand for handles.
REFUSED = [
    ("usage", "memory_start", {}),
    ("usage", "memory_start", {"actor": 5}),
    ("bad-value", "memory_start", {"actor": "Two Words"}),
    ("usage", "memory_start", {"actor": "claude", "human_approved": True}),
    ("usage", "memory_record", {"run": "RUN"}),
    ("usage", "memory_record", {"run": "RUN", "operations": {"do": "sync"}}),
    ("usage", "memory_record", {"run": "RUN", "operations": [], "sync": 1}),
    ("unknown-run", "memory_record", {"run": "R999-k7qdm2xw", "operations": []}),
    ("bad-id", "memory_record", {"run": "mine", "operations": []}),
    ("closed-run", "memory_record", {"run": "CLOSED", "operations": []}),
    ("usage", "memory_search", {"question": None}),
    ("usage", "memory_search", {"question": ["a"]}),
    ("usage", "memory_search", {"question": "a", "in": "nowhere"}),
    ("usage", "memory_search", {"question": "a", "tags": [5]}),
    ("usage", "memory_search", {"question": "a", "most": True}),
    ("bad-value", "memory_search", {"question": "a", "most": 0}),
    ("bad-date", "memory_search", {"question": "a", "since": "yesterday"}),
    ("not-found", "memory_search", {"question": "zebra"}),
    ("not-found", "memory_search", {"question": ""}),
    ("usage", "memory_recall", {}),
    ("usage", "memory_recall", {"key": "a", "prefix": "b"}),
    ("bad-key", "memory_recall", {"key": "../a"}),
    ("not-found", "memory_recall", {"key": "no.such"}),
    ("usage", "memory_close", {"run": "RUN", "outcome": "success"}),
    ("usage", "memory_close", {"run": "RUN", "outcome": "great", "summary": "x"}),
    ("bad-text", "memory_close", {"run": "RUN", "outcome": "success", "summary": " "}),
    ("closed-run", "memory_close", {"run": "CLOSED", "outcome": "success", "summary": "x"}),
]


@needs_mcp
def test_what_is_refused(server):
    """Each refusal is an answer with code, message and hint, marked as an error; nothing is recorded, and the server goes on."""
    runs = {"RUN": server.start(), "CLOSED": server.start()}
    server.ok("memory_close", run=runs["CLOSED"], outcome="fail", summary="x")
    before = server.project.ledger()
    for code, name, arguments in REFUSED:
        given = {n: runs.get(v, v) if isinstance(v, str) else v for n, v in arguments.items()}
        assert server.code(name, **given) == code, (name, arguments)
    assert server.project.ledger() == before
    for answer in (server.ask("tools/call", name="memory_erase", arguments={}), server.ask("prompts/list")):
        assert isinstance(answer["error"]["code"], int)


#: Operations that are none, or hold what none may hold.
ODD = [
    None, 5, "sync", [], {}, {"do": None}, {"do": "propose"}, {"do": "journal", "text": 5},
    {"do": "journal", "text": "x", "importance": 1.0},
    {"do": "journal", "text": "x", "importance": 10 ** 30}, {"do": "journal", "text": "x", "importance": 10 ** 4000},
    {"do": "journal", "text": "\u202e"}, {"do": "journal", "text": "x" * 300_000}, {"do": "propose", "key": ["a"], "text": "x"},
    {"do": "propose", "key": "a", "tier": 2, "text": "x", "evidence": {"a": [[[[[[]]]]]]}},
    {"do": "propose", "key": "a", "tier": 2, "text": "x", "tags": [float("nan")]},
    json.loads('{"do": "journal", "text": ' + "[" * 160 + "]" * 160 + "}"),
]


@needs_mcp
def test_an_operation_of_any_form(server):
    """No operation ends the server or is recorded as something else: it fails with a code, or its line is refused as a request."""
    run = server.start()
    numbers = [server.begin("memory_record", run=run, operations=[operation]) for operation in ODD]
    server.start("codex")  # calls are carried out in order: those before are over
    answers = [server.take(number) for number in numbers]
    for answer in answers:
        if "error" in answer:
            assert answer["error"]["code"] == -32600
            continue
        found, failed = server.result(answer)
        assert failed
        assert found["results"][0]["code"] in ("bad-operation", "bad-json", "bad-text", "bad-value", "bad-key"), found
    assert server.project.records("journal") == server.project.records("proposal") == []


# Resources.


@needs_mcp
def test_resources_are_the_views(server):
    """MEMORY.md and every present note can be read, byte for byte; what is listed has an end."""
    run = server.start()
    assert server.read("muniment:///MEMORY.md").encode() == (server.project.vault / "MEMORY.md").read_bytes()
    operations = [{"do": "propose", "key": "shelf.n%d" % n, "tier": 2, "new_subject": True, "text": "Shelf."} for n in range(130)]
    server.ok("memory_record", run=run, operations=operations, sync=True)
    listed = server.ask("resources/list")["result"]
    assert len(listed["resources"]) == 101
    assert "nextCursor" not in listed
    assert listed["resources"][0]["uri"] == "muniment:///MEMORY.md"
    notes = ["muniment:///notes/shelf.n%d.md" % n for n in (0, 129)]
    for uri in ("muniment:///MEMORY.md", *notes, listed["resources"][-1]["uri"]):
        assert server.read(uri).encode() == (server.project.vault / uri.partition(":///")[2]).read_bytes()
    (template,) = server.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert template["uriTemplate"].replace("{key}", "shelf.n1") == "muniment:///notes/shelf.n1.md"


@needs_mcp
def test_no_name_leads_out_of_the_vault(server):
    """A name that is no resource's is an error that shows no file, whatever it leads to."""
    run = server.start()
    server.fact(run, "a.b")
    (server.project.vault / "mine.md").write_text("Of the owner.", "utf-8")
    (server.project.vault.parent / "secret.md").write_text("Out of the vault.", "utf-8")
    views = [(server.project.vault / path).read_text("utf-8") for path in ("MEMORY.md", "notes/a.b.md")]
    for name in ("", "INDEX.md", "mine.md", "notes/mine.md", "../secret.md", "notes/../../secret.md", "notes/%2e%2e/%2e%2e/secret.md",
                 "notes//a.b.md", "notes/a.b.md/", "notes/a.b", "notes/A.B.md", "/MEMORY.md", ".muniment/format.json", "notes/a.b.md?x",
                 "notes/a.b.md#x", "history/a.b.md", "journal/%s.md" % run, "notes/con.md", "notes/a.b.md\u0000", "x" * 5000):
        found = server.read("muniment:///" + name)
        assert found in views or found["code"] == -32602, (name, found)  # a package before 2.0 cleans names before it hands them on
    for uri in ("file:///etc/passwd", "memory://MEMORY.md", "muniment://notes/a.b.md", "MEMORY.md", "notes/a.b.md"):
        assert server.read(uri)["code"] == -32602, uri


@needs_mcp
@posix
def test_a_link_is_not_followed(server):
    """What stands in a view's place is not read, a link's target least of all: the resource is what the state makes it."""
    run = server.start()
    server.fact(run, "a.b", "The claim.")
    secret = server.project.vault.parent / "secret.md"
    secret.write_text("Out of the vault.", "utf-8")
    paths = ("MEMORY.md", "notes/a.b.md")
    texts = [(server.project.vault / path).read_text("utf-8") for path in paths]
    for path in paths:
        (server.project.vault / path).unlink()
        (server.project.vault / path).symlink_to(secret)
    assert [server.read("muniment:///" + path) for path in paths] == texts
    notes = server.project.vault / "notes"
    notes.rename(server.project.vault.parent / "elsewhere")
    notes.symlink_to(server.project.vault.parent / "elsewhere")
    found = server.read("muniment:///notes/a.b.md")
    assert (found["code"], found["data"]["code"]) == (-32603, "linked")
    assert server.code("memory_recall", key="a.b") == "linked"
    notes.unlink()
    (server.project.vault.parent / "elsewhere").rename(notes)
    server.project.healthy = False  # the note's place still holds the link
    found = [server.ok("memory_recall", key="a.b"), server.ok("memory_search", question="vault claim")]
    assert "Out of the vault." not in json.dumps(found)


# Beside other processes.


@needs_mcp
def test_a_command_writes_meanwhile(server):
    """What a command records is in the next answer, and the other way; no lock and no transaction is open between two calls."""
    project = server.project
    run = server.start()
    server.fact(run, "a.b", "One.")
    assert server.ok("memory_search", question="one")["hits"]
    other = project.call("start", "--actor", "codex", "--lock-wait", "0")["run"]
    assert project.call("propose", "--run", other, "--key", "a.b", "--text", "Two.", "--now", "--lock-wait", "0").status == 0
    assert server.ok("memory_recall", key="a.b")["current"]["text"] == "Two."
    assert "Two." in server.read("muniment:///MEMORY.md")
    (project.vault / "free.md").write_text("A zebra of the owner's.\n", "utf-8")
    assert [hit["status"] for hit in server.ok("memory_search", question="zebra")["hits"]] == ["free"]
    (project.vault / "free.md").unlink()
    assert server.code("memory_search", question="zebra") == "not-found"
    operations = [{"do": "sync"}, {"do": "propose", "key": "a.b", "text": "Three."}]
    stale = server.ok("memory_record", run=run, operations=operations, sync=True)
    assert (stale["results"][0]["changed"], stale["results"][2]["applied"][0]["key"]) == (["a.b"], "a.b")
    assert project.current("a.b")["text"] == "Three."
    project.ok("rebuild", "--lock-wait", "0")
    assert server.ok("memory_recall", key="a.b")["earlier"] == 2
    shutil.rmtree(project.vault / ".muniment" / "local")  # and what it would have kept is not missed
    assert server.ok("memory_recall", key="a.b")["earlier"] == 2


@needs_mcp
def test_a_locked_vault(server, engine):
    """A vault that is locked is an answer, `busy`, that says to try again; the server lives, reads, and writes once it is free."""
    run = server.start()
    vault = engine.open_vault(str(server.project.vault))
    with engine.hold(vault, 0, {"pid": os.getpid(), "command": "test", "run": "", "since": ""}):
        found, failed = server.call("memory_record", run=run, operations=[{"do": "journal", "text": "x"}])
        assert (failed, found["code"], found["retry"]) == (True, "busy", True)
        assert server.code("memory_recall", key="a.b") == "not-found"
    assert server.ok("memory_record", run=run, operations=[{"do": "journal", "text": "x"}])["results"][0]["entry"]


@needs_mcp
def test_calls_at_once(server):
    """Many calls that are sent at once are all answered, each its own, carried out in the order in which they came."""
    run = server.start()
    numbers = [server.begin("memory_record", run=run, operations=[{"do": "journal", "text": "Entry %d." % n}]) for n in range(20)]
    numbers.append(server.begin("memory_recall", key="no.such"))
    numbers.append(server.send("resources/read", uri="muniment:///MEMORY.md"))
    answers = {number: server.take(number) for number in reversed(numbers)}
    entries = [server.result(answers[number])[0]["results"][0]["entry"] for number in numbers[:20]]
    assert [body["text"] for _, body in server.project.records("journal")] == ["Entry %d." % n for n in range(20)]
    assert entries == sorted(entries, key=lambda entry: int(entry[1:].split("-")[0]))
    assert server.result(answers[numbers[20]])[0]["code"] == "not-found"
    assert answers[numbers[21]]["result"]["contents"][0]["text"].startswith("# MEMORY")


@needs_mcp
def test_two_servers_on_one_vault(server):
    """Two clients with a server each share a vault: runs and values are kept apart, and what both set stands beside each other.

    One of them is registered with --actor: its client need not say who runs, and may.
    """
    other = Server(server.project.folder, words_of("--vault", server.project.vault, "--actor", "codex")).open(OLDEST)
    try:
        assert "required" not in other.ask("tools/list")["result"]["tools"][0]["inputSchema"]
        runs = server.start("claude", session="one"), other.ok("memory_start", session="two")["run"]
        assert {row["run"]: row["actor"] for row in server.project.ok("status")["open"]} == dict(zip(runs, ("claude", "codex")))
        for one, run, text in ((server, runs[0], "Mine."), (other, runs[1], "Theirs.")):
            operation = {"do": "propose", "key": "a.b", "tier": 2, "new_subject": True, "text": text}
            one.ok("memory_record", run=run, operations=[operation])
        asked = [(one, one.begin("memory_record", run=run, operations=[{"do": "journal", "text": text}] * 10, sync=True))
                 for one, run, text in ((server, runs[0], "Mine."), (other, runs[1], "Theirs."))]
        rows = [one.result(one.take(number))[0]["results"][-1] for one, number in asked]
        assert sorted(sum(len(row.get(name, ())) for row in rows) for name in ("applied", "beside")) == [1, 1]
        assert server.ok("memory_recall", key="a.b")["handle"] == other.ok("memory_recall", key="a.b")["handle"]
        assert len(server.project.records("journal")) == 20
        assert server.start("codex", session="two") == runs[1]
        assert other.start("claude", session="two") not in runs
        assert other.end() == 0
        assert server.ok("memory_close", run=runs[1], outcome="partial", summary="For the other.")["run"] == runs[1]
    finally:
        other.kill()


@needs_mcp
def test_a_damaged_ledger(server):
    """Over a damaged ledger entries and proposals are recorded, with a warning, and decisions are refused; the server lives."""
    project = server.project
    server.fact(server.start(), "a.b")
    (path,) = (project.vault / ".muniment" / "ledger").glob("*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"A fact.", b"A fake."))
    shutil.rmtree(project.vault / ".muniment" / "local")
    run = server.start("codex")
    operations = [{"do": "journal", "text": "x"}, {"do": "propose", "key": "c.d", "tier": 2, "new_subject": True, "text": "y"}]
    found = server.ok("memory_record", run=run, operations=operations)
    assert found["warnings"]
    assert server.code("memory_record", run=run, operations=[], sync=True) == "damaged"
    withdrawal = {"do": "withdraw", "proposal": found["results"][1]["proposal"]}
    assert server.code("memory_record", run=run, operations=[*operations, withdrawal]) == "damaged"
    path.write_bytes(whole)
    assert server.ok("memory_record", run=run, operations=[], sync=True)["results"][0]["applied"]
    assert server.ok("memory_recall", key="a.b")["current"]["text"] == "A fact."
    assert len(project.records("journal")) == 1


@needs_mcp
def test_no_vault(server):
    """A server may be there before a vault is: each call says that there is none, until there is one."""
    aside = server.project.vault.with_name("aside")
    server.project.vault.rename(aside)
    assert server.code("memory_start", actor="claude") == "no-vault"
    assert server.read("muniment:///MEMORY.md")["data"]["code"] == "no-vault"
    aside.rename(server.project.vault)
    assert server.start()


@needs_mcp
def test_nothing_is_open_between_calls(server):
    """A server that waits holds no file of the vault open, after any kind of call."""
    run = server.start()
    server.fact(run, "a.b")
    server.ok("memory_search", question="fact")
    server.code("memory_recall", key="no.such")
    server.read("muniment:///MEMORY.md")
    folder = Path("/proc/%d/fd" % server.process.pid)
    if not folder.exists():
        pytest.skip("no /proc to look at")
    held = [os.readlink(path) for path in folder.iterdir()]  # noqa: PTH115 - what it names may be no path
    assert held
    assert not [path for path in held if path.startswith(str(server.project.vault))]


# The process.


@needs_mcp
def test_the_end_of_the_input(serve):
    """At the end of its input a server exits with 0, and what was asked before is answered; nothing else was on its output."""
    server = serve()
    assert server.end() == 0
    assert (server.early, server.said()) == ({}, "")
    server = serve().open()
    run = server.begin("memory_start", actor="claude")
    assert server.end() == 0
    assert server.result(server.early.pop(run))[0]["run"]
    assert (server.early, server.said()) == ({}, "")


@needs_mcp
def test_the_current_revision_by_hand(serve):
    """Without `initialize` each request says which revision it is of; lists are not to be kept by the client."""
    server = serve()
    found = server.ask("server/discover", _meta=ENVELOPE)
    if "error" in found:
        pytest.skip("this version of the package speaks no revision without `initialize`")
    assert CURRENT in found["result"]["supportedVersions"]
    assert found["result"]["instructions"]
    listed = server.ask("tools/list", _meta=ENVELOPE)["result"]
    assert [tool["name"] for tool in listed["tools"]] == TOOLS
    assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")
    answer = server.ask("tools/call", _meta=ENVELOPE, name="memory_recall", arguments={"key": "no.such"})
    assert server.result(answer)[0]["code"] == "not-found"


@needs_mcp
@posix
def test_a_dead_parent(project, tmp_path):
    """When the process that started it is gone, a server ends, though its input stays open."""
    code = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    errors = (tmp_path / "errors").open("wb")
    words = [sys.executable, "-c", code, *words_of("--vault", project.vault)]
    parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    with errors, parent.stdin, parent.stdout:
        parent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, **FIRST}).encode() + b"\n")
        parent.stdin.flush()
        assert json.loads(parent.stdout.readline())["id"] == 1
        parent.send_signal(signal.SIGKILL)
        parent.wait(PATIENCE)
        done = queue.Queue()
        threading.Thread(target=lambda: done.put(parent.stdout.read()), daemon=True).start()
        assert done.get(timeout=PATIENCE) == b""  # the server had the other end


@needs_mcp
def test_lines_that_are_no_messages(server):
    """Garbage is passed over: no line ends the server or gets an answer that belongs to another."""
    for line in (b"", b"   ", b"\xff\xfe", b"not json", b"{}", b"[]", b"null", b'{"jsonrpc":"2.0"}',
                 b'{"jsonrpc":"2.0","id":null,"method":5}', b"[" * 100_000, b'{"jsonrpc":"2.0","id":"x","method":"ping"', b"\x00" * 1000,
                 b'{"jsonrpc":"2.0","id":9999,"result":{}}', b'{"jsonrpc":"2.0","method":"notifications/unheard-of"}', b"x" * 1_000_000,
                 b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}'):
        server.write(line + b"\n")
    server.write(b'{"jsonrpc":"2.0","id":"split')
    time.sleep(0.05)
    server.write(b'","method":"ping"}\n')
    assert server.take("split")["result"] is not None
    assert server.ask("tools/call", name=5, arguments={})["error"]["code"] == -32602
    assert "error" in server.ask("no/such/method")
    assert "error" in server.ask("tools/call", arguments=[])
    assert server.start()


@needs_mcp
def test_a_request_that_would_be_changed_or_never_answered(server):
    """Half a character, bytes that are no UTF-8, a doubled name and endless nesting are refused by their id; a whole pair stays."""
    run = server.start()
    deep = [b'"a","importance":' + b"[" * size + b"]" * size for size in (300, 5_000, 200_000)]
    wrong = [(b"1", b'"x\\ud800y"'), (b'"two"', b'"caf\xe9"'), (b"3", b'"A","text":"B"'), (b"4", deep[0]), (b'"f\\u0069ve"', deep[1]),
             (b"-6", deep[2]), (b"7", b'"a","importance":' + b"7" * 5_000)]
    for number, text in wrong:
        server.write(b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"memory_record","arguments":{"run":"%s",'
                     b'"operations":[{"do":"journal","text":%s}]}}}\n' % (number, run.encode(), text))
        assert server.take(json.loads(number))["error"]["code"] == -32600
    for more in (b'"params":[1],"jsonrpc":"2.0"', b'"jsonrpc":"1.0"', b'"jsonrpc":"2.0","jsonrpc":"2.0"'):
        server.write(b'{"id":"odd","method":"ping",%s}\n' % more)
        assert server.take("odd")["error"]["code"] == -32600
    assert server.project.records("journal") == []
    texts = ("a \\ud83d b", "\U0001f600")
    said = server.ok("memory_record", run=run, operations=[{"do": "journal", "text": text} for text in texts])
    assert [server.project.ok("show", row["entry"])["entry"]["text"] for row in said["results"]] == list(texts)


@needs_mcp
def test_a_call_that_is_cancelled_before_its_turn(server, engine):
    """A call that waits for its turn when the client takes it back is not carried out; the one before it is."""
    run = server.start()
    vault = engine.open_vault(str(server.project.vault))
    with engine.hold(vault, 0, {"pid": os.getpid(), "command": "test", "run": "", "since": ""}):
        first, second = ([{"do": "journal", "text": text}] for text in ("First.", "Second."))
        numbers = [server.begin("memory_record", run=run, operations=operations) for operations in (first, second)]
        server.ask("ping")
        server.tell("notifications/cancelled", requestId=numbers[1])
        server.ask("ping")
    server.take(numbers[0])
    assert server.ok("memory_record", run=run, operations=[{"do": "journal", "text": "Third."}])
    assert [body["text"] for _, body in server.project.records("journal")][-1] == "Third."
    assert "Second." not in [body["text"] for _, body in server.project.records("journal")]


#: A `recall` that prints in every way and reads, and then has a bug, the first time.
BROKEN = """
import os, subprocess
sound, calls = engine.cmd_recall, []
def broken(call, args):
    calls.append(1)
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run([sys.executable, "-c", "import sys; print('a child read', repr(sys.stdin.read()))"], check=True)
    if len(calls) == 1:
        raise ZeroDivisionError("planted")
    return sound(call, args)
engine.cmd_recall = broken
"""


@needs_mcp
def test_a_bug_and_what_prints(serve):
    """A bug is the error of one call, with its traceback on standard error; whatever prints or reads does not meet the client's lines."""
    server = serve(before=BROKEN).open()
    run = server.start()
    server.fact(run, "a.b")
    error = server.ask("tools/call", name="memory_recall", arguments={"key": "a.b"})["error"]
    assert error["code"] == -32603
    assert "ZeroDivisionError" in error["message"]
    assert server.ok("memory_recall", key="a.b")["current"]["text"] == "A fact."
    assert server.end() == 0
    said = server.said()
    assert said.count("Traceback") == 1
    assert all(word in said for word in ("planted", "printed", "written", "a child read ''"))


@pytest.mark.long
@needs_mcp
def test_a_client_that_does_not_read(project, tmp_path):
    """A client that asks and never reads what is answered keeps a server neither from working nor from ending."""
    run = project.start()
    lines = [{"id": 1, **FIRST}, {"method": "notifications/initialized"}]
    lines += [{"id": n, "method": "tools/list", "params": {}} for n in range(2, 102)]  # far more than a pipe holds
    lines += [{"id": 102, "method": "tools/call", "params": {"name": "memory_record", "arguments": {
        "run": run, "operations": [{"do": "journal", "text": "After all of that."}]}}}]
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(words_of("--vault", project.vault), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    with process.stdin, process.stdout:
        process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in lines))
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert [body["text"] for _, body in project.records("journal")] == ["After all of that."]
