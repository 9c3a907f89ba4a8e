"""`model`: the models of this machine, by which `search` can be asked for meaning.

Nothing here needs a package: what would load a model is not asked for, and what is installed is hidden where it matters.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

#: What could run or fetch a model.
PACKAGES = ("huggingface_hub", "numpy", "onnx", "onnxruntime", "sentence_transformers", "sqlite_vec", "tokenizers", "torch")


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """Return the folder of this machine's models, which is not there yet."""
    folder = tmp_path / "models"
    monkeypatch.setenv("MUNIMENT_MODELS", str(folder))
    monkeypatch.delenv("MUNIMENT_INDEX_ROOT", raising=False)
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path, monkeypatch):
    """Hide every package that could run a model, here and in processes that are started."""
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules.update(dict.fromkeys(%r))\n" % (PACKAGES,), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    for name in PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a folder as a model's is. A file may be given as bytes, text or what JSON holds, or None for none."""

    def make_folder(name="tiny", **files):
        folder = tmp_path / "sources" / name
        folder.mkdir(parents=True)
        given = {"config.json": {"hidden_size": 8}, "tokenizer.json": {"model": {}}, "model.onnx": "weights",
                 **{file.replace("_json", ".json").replace("_onnx", ".onnx"): text for file, text in files.items()}}
        for file, text in given.items():
            if text is not None:
                data = text if isinstance(text, (str, bytes)) else json.dumps(text)
                (folder / file).write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
        return folder

    return make_folder


def listed(project):
    """Return the names of the models that are there, and of those in use."""
    rows = project.ok("model")["models"]
    return [row["name"] for row in rows], [row["name"] for row in rows if row["used"]]


def left(models):
    """Return the names in the folder of models."""
    return sorted(path.name for path in models.iterdir()) if models.is_dir() else []


# What can be done.


@pytest.mark.usefixtures("project")
def test_none(cli, models):
    """On a machine without models there are none, and asking makes no folder."""
    assert cli("model").data == {"folder": str(models), "models": [], "warnings": []}
    assert cli("model", "list").data["models"] == []
    assert cli("model", plain=True).status == 0
    assert not models.exists()


@pytest.mark.usefixtures("project")
def test_add(cli, models, make):
    """A folder becomes a model under its own name, is the one in use, and stays where it is; what is missing to run it is said."""
    source = make()
    before = sorted(path.name for path in source.iterdir())
    reply = cli("model", "add", source)
    assert reply.status == 0, reply
    assert (reply["add"], reply["provider"], reply["agreement"], reply["folder"]) == ("tiny", None, None, str(models))
    assert reply["warnings"]
    row = cli("model").data["models"][0]
    assert {name: row[name] for name in ("name", "source", "dims", "precision", "agreement", "provider", "used", "fingerprint")} == {
        "name": "tiny",
        "source": str(source.resolve()),
        "dims": 8,
        "precision": "float32",
        "agreement": None,
        "provider": None,
        "used": True,
        "fingerprint": reply["fingerprint"],
    }
    assert row["missing"]
    assert sorted(path.name for path in source.iterdir()) == before
    assert left(models) == ["in-use", "tiny"]


@pytest.mark.usefixtures("project")
def test_relative_folder(cli, make):
    """A folder is named from where the command runs."""
    source = make()
    assert cli("model", "add", ".", cwd=source).data["add"] == "tiny"
    assert cli("model", "add", "../tiny/", "--as", "again", cwd=source).data["add"] == "again"


def test_without_a_vault(bare, make):
    """Models are of the machine: no vault is needed."""
    assert bare.cli("model", "add", make()).status == 0
    assert bare.cli("model").data["models"][0]["name"] == "tiny"


@pytest.mark.usefixtures("project")
def test_human_output(cli, make):
    """In words the models stand a line each, the one in use marked."""
    for name in ("one", "two"):
        assert cli("model", "add", make(name), plain=True).status == 0
    lines = [line for line in cli("model", plain=True).out.split("\n") if line]
    assert next(line for line in lines if "one" in line).split()[:2] == ["*", "one"]
    assert any("two" in line and not line.startswith("*") for line in lines)


def test_use(call, project, make):
    """The first model is in use until another is chosen."""
    for name in ("one", "two"):
        project.ok("model", "add", make(name))
    assert listed(project) == (["one", "two"], ["one"])
    assert call("model", "use", "two").data["use"] == "two"
    assert listed(project) == (["one", "two"], ["two"])
    assert call("model", "use", "two").status == 0


def test_remove(call, project, models, make):
    """A removed model is gone; its source stays."""
    source = make()
    project.ok("model", "add", source)
    assert call("model", "remove", "tiny").data["remove"] == "tiny"
    assert listed(project) == ([], [])
    assert (source / "model.onnx").exists()
    assert "tiny" not in left(models)
    assert call("model", "remove", "tiny").code == (5, "not-found")


def test_add_again(project, make):
    """What was removed can be added again, and is in use if it is alone."""
    source = make()
    first = project.ok("model", "add", source)
    project.ok("model", "remove", "tiny")
    again = project.ok("model", "add", source)
    assert again["fingerprint"] == first["fingerprint"]
    assert listed(project) == (["tiny"], ["tiny"])


def test_add_after_the_used_one_went(project, make):
    """Where the model in use was removed, the next that is added is in use: a machine that has a model is not without one."""
    project.ok("model", "add", make("one"))
    project.ok("model", "remove", "one")
    project.ok("model", "add", make("two"))
    assert listed(project) == (["two"], ["two"])


def test_other_name(project, make):
    """A model may be called otherwise than its folder, and one folder be two models."""
    source = make("A folder with blanks")
    assert project.ok("model", "add", source, "--as", "one.v2_x-3")["add"] == "one.v2_x-3"
    project.ok("model", "add", source, "--as", "Two")
    assert listed(project)[0] == ["Two", "one.v2_x-3"]


# The name of a vector space.


def test_fingerprint(project, make):
    """The fingerprint is that of what makes the vectors: weights, tokenizer, pooling, length; not of names and places."""
    made = {
        "one": make("one"),
        "same": make("same"),
        "weights": make("weights", model_onnx="other"),
        "tokenizer": make("tokenizer", tokenizer_json={"version": "1.0", "model": {}}),
        "length": make("length", sentence_bert_config_json={"max_seq_length": 128}),
        "pooling": make("pooling"),
    }
    (made["pooling"] / "1_Pooling").mkdir()
    (made["pooling"] / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', encoding="utf-8")
    prints = {name: project.ok("model", "add", folder)["fingerprint"] for name, folder in made.items()}
    assert prints.pop("same") == prints["one"]
    assert len(set(prints.values())) == len(prints)


def test_length(project, make):
    """The length is the reference's, else the tokenizer's, and never one that no model has."""
    cases = {
        "a": ({"sentence_bert_config_json": {"max_seq_length": 128}}, 128),
        "b": ({"tokenizer_config_json": {"model_max_length": 64}}, 64),
        "c": ({"tokenizer_config_json": {"model_max_length": 10**30}}, 512),
        "d": ({"tokenizer_config_json": {"model_max_length": None}}, 512),
        "e": ({"sentence_bert_config_json": {"max_seq_length": None}, "tokenizer_config_json": {"model_max_length": 99}}, 99),
        "f": ({}, 512),
    }
    for name, (files, _) in cases.items():
        assert project.call("model", "add", make(name, **files)).status == 0
    assert {row["name"]: row["length"] for row in project.ok("model")["models"]} == {name: length for name, (_, length) in cases.items()}


def test_onnx_below(project, make):
    """The onnx file may stand in a folder onnx, as on the hub."""
    source = make(model_onnx=None)
    (source / "onnx").mkdir()
    (source / "onnx" / "model.onnx").write_text("weights", encoding="utf-8")
    other = make("other")
    assert project.ok("model", "add", source)["fingerprint"] == project.ok("model", "add", other)["fingerprint"]


# What is refused.


@pytest.mark.parametrize("files", [
    {"tokenizer_json": None},
    {"model_onnx": None},
    {"config_json": None, "tokenizer_json": None, "model_onnx": None},
    {"config_json": "{"},
    {"config_json": "[]"},
    {"config_json": b"\xff\xfe{}"},
    {"config_json": {"no": "size"}},
    {"config_json": {"hidden_size": 0}},
    {"config_json": {"hidden_size": "many"}},
    {"sentence_bert_config_json": "no JSON"},
    {"tokenizer_config_json": "[1]"},
], ids=["no-tokenizer", "no-weights", "empty", "config-cut", "config-list", "config-text", "config-without-size", "size-0", "size-word",
        "settings-text", "settings-list"])
def test_no_model(call, project, models, make, files):
    """A folder that is no model is refused, and nothing of it is left."""
    assert call("model", "add", make(**files)).code == (3, "bad-model")
    assert left(models) == []
    assert listed(project) == ([], [])


@pytest.mark.parametrize("files", [
    {"tokenizer_config_json": {"model_max_length": "long"}},
    {"tokenizer_config_json": {"model_max_length": -1}},
    {"sentence_bert_config_json": {"max_seq_length": []}},
    {"config_sentence_transformers_json": {"prompts": 3}},
    {"config_sentence_transformers_json": {"prompts": {"query": 3}}},
], ids=["length-word", "length-below-0", "length-list", "prompts", "prompt-number"])
def test_odd_settings(call, project, models, make, files):
    """Settings that say nothing sound are refused or left aside; a length that is taken is one that a model can have."""
    reply = call("model", "add", make(**files))
    assert reply.status in (0, 3), reply
    assert left(models) == (["in-use", "tiny"] if reply.status == 0 else [])
    assert all(row["length"] > 0 for row in project.ok("model")["models"])


@pytest.mark.usefixtures("project")
def test_pooling(call, models, make):
    """A model that pools in a way that is not known here is refused."""
    source = make()
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}', encoding="utf-8")
    assert call("model", "add", source).code == (3, "bad-model")
    assert left(models) == []


def test_int8_needs_an_export(project, make):
    """Who asks for smaller weights of a model that has its onnx file already is refused or told that nothing was made smaller."""
    plain = project.ok("model", "add", make("plain"))
    reply = project.call("model", "add", make("small"), "--int8")
    if reply.status:
        assert reply.status == 3, reply
    else:
        assert len(reply["warnings"]) > len(plain["warnings"])


def test_taken_name(call, project, models, make):
    """A name that is taken is refused, and the model of that name stays as it is."""
    first = project.ok("model", "add", make("one"))
    before = {path: path.read_bytes() for path in models.rglob("*") if path.is_file()}
    assert call("model", "add", make("two", model_onnx="other"), "--as", "one").code == (3, "bad-value")
    assert {path: path.read_bytes() for path in models.rglob("*") if path.is_file()} == before
    assert project.ok("model")["models"][0]["fingerprint"] == first["fingerprint"]


@pytest.mark.parametrize("name", [".", "..", "a/b", "../a", "/a", "a b", "-a", "a-", ".a", "a..b", "\u00e4", "x" * 81, "a\n", "in-use"])
def test_bad_name(project, models, make, name):
    """A name that could be no folder's, or would stand in another file's place, is refused, and leaves nothing."""
    assert project.call("model", "add", make(), "--as=" + name).code == (3, "bad-value")
    assert left(models) == []


@pytest.mark.parametrize("name", ["in-use", "in-use/", "..", ".", "none", "a/b", "-"])
@pytest.mark.parametrize("do", ["use", "remove"])
def test_unknown_name(project, models, make, do, name):
    """Only a model that is there can be used or removed; nothing else in that folder, or outside of it."""
    project.ok("model", "add", make())
    before = left(models)
    assert project.call("model", do, "--", name).status in (2, 5)
    assert left(models) == before
    assert listed(project) == (["tiny"], ["tiny"])


@pytest.mark.usefixtures("project")
def test_name_is_a_folder_of_another(call, models, make):
    """A folder that the engine did not make is not taken for a model, and nothing is put in its place."""
    (models / "tiny").mkdir(parents=True)
    (models / "tiny" / "mine").write_text("x", encoding="utf-8")
    assert call("model").data["models"] == []
    reply = call("model", "add", make())
    assert reply.status in (3, 9), reply
    assert left(models) == ["tiny"]
    assert left(models / "tiny") == ["mine"]


@pytest.mark.parametrize("words", [("add",), ("use",), ("remove",), ("list", "tiny"), ("frob", "tiny"), ("add", "a", "b")])
@pytest.mark.usefixtures("project")
def test_usage(call, words):
    """What does not say which model, or says one too many, is malformed."""
    assert call("model", *words).code == (2, "usage")


@pytest.mark.parametrize("words", [(), ("--download",)])
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "someone/some-model"])
@pytest.mark.usefixtures("project")
def test_bare_name(cli, models, name, words):
    """A name that is no folder needs the package that fetches models, and says so; nothing is left."""
    reply = cli("model", "add", name, "--as", "it", *words)
    assert reply.code == (8, "missing-package")
    assert reply.error["hint"]
    assert left(models) == []


@pytest.mark.usefixtures("project")
def test_name_of_a_file(call, models, make):
    """A file is no folder."""
    assert call("model", "add", make() / "model.onnx").status in (3, 5, 8)
    assert left(models) == []


# What goes wrong on the way.


def test_failure_leaves_nothing(project, models, make, engine, monkeypatch):
    """What was begun and failed leaves nothing, whatever it failed of."""
    source = make()
    real = engine.create_file

    def fail(path, *words):
        real(path, *words)
        raise error

    monkeypatch.setattr(engine, "create_file", fail)
    error = OSError(28, "No space left on device")
    assert project.call("model", "add", source).status == 9
    assert left(models) == []
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        project.call("model", "add", source)
    assert left(models) == []
    monkeypatch.setattr(engine, "create_file", real)
    assert project.ok("model", "add", source)["add"] == "tiny"


def test_failed_export_leaves_nothing(project, models, make, engine, monkeypatch):
    """An export that fails when its file is half written leaves nothing."""
    source = make(model_onnx=None)
    (source / "model.safetensors").write_text("weights", encoding="utf-8")

    def export(row):
        (models / os.path.relpath(row["onnx"], models)).write_text("half", encoding="utf-8")
        raise engine.Refused("bad-model", "it disagrees")

    monkeypatch.setattr(engine, "has_module", lambda name: True)
    monkeypatch.setattr(engine, "_export", export)
    assert project.call("model", "add", source).code == (3, "bad-model")
    assert left(models) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '{"name": "tiny"}', "\x00"])
def test_damaged_model(project, models, make, text):
    """A model whose own file is damaged is named as such, never a crash, and can be removed and added again."""
    source = make()
    project.ok("model", "add", source)
    project.ok("model", "add", make("other"))
    (models / "tiny" / "model.json").write_text(text, encoding="utf-8")
    for words in (("model",), ("search", "anything"), ("index",), ("index", "--status"), ("model", "use", "other")):
        assert project.call(*words).status in (0, 5, 7)
    project.ok("model", "use", "other")
    assert project.call("model", "remove", "tiny").status == 0
    assert listed(project) == (["other"], ["other"])
    assert project.ok("model", "add", source)["add"] == "tiny"


@pytest.mark.parametrize("text", [b"", b"\n", b"none\n", b"..\n", b"/\n", b"\xff\xfe", b"a\x00b", b"x" * 5000])
def test_damaged_choice(project, models, make, text):
    """Where the file that says which model is in use says nothing sound, none is in use, and one can be chosen."""
    project.ok("model", "add", make())
    (models / "in-use").write_bytes(text)
    assert project.call("model").status in (0, 7)
    assert project.call("index").status in (0, 7)
    assert project.ok("model", "use", "tiny")["use"] == "tiny"
    assert listed(project) == (["tiny"], ["tiny"])


def test_what_a_killed_process_left(project, models, make):
    """What a killed `model add` left is no model, and in nobody's way."""
    project.ok("model", "add", make())
    (models / ".half.123").mkdir()
    (models / ".half.123" / "model.json").write_bytes((models / "tiny" / "model.json").read_bytes())
    assert listed(project) == (["tiny"], ["tiny"])


def test_search_without_packages(cli, project, make):
    """With a model and no package, words answer and the reason is said; asking for meaning by name is refused."""
    (project.vault / "a.md").write_text("The automobile is red.\n", encoding="utf-8")
    assert cli("search", "automobile").data["why"]
    cli("model", "add", make())
    answer = cli("search", "automobile").data
    assert (answer["mode"], [hit["path"] for hit in answer["hits"]]) == ("lexical", ["a.md"])
    assert answer["why"]
    assert cli("search", "automobile", "--mode", "vector").code == (8, "missing-package")
    assert cli("index").data["why"] == answer["why"]


@pytest.mark.parametrize("words", [("list", "--int8"), ("use", "tiny", "--download"), ("remove", "tiny", "--as", "x")])
def test_options_of_add_alone(project, words):
    """What would be ignored is refused."""
    assert project.call("model", *words).code == (2, "usage")
