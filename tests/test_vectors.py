"""Search by meaning, with a model that is made of plain Python: what is embedded, what is kept, and what a question meets.

The model gives each word a direction of its own, and words of one meaning the same; so which text is nearest to a
question is known beforehand. Everything else is real: the index, sqlite-vec and the commands.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import random
import re
import sqlite3
import sys
import threading
import types
import zlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.packages


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


shared = _load("muniment_cli_fixtures", Path(__file__).resolve().parent / "cli" / "conftest.py")
engine, bare, project = shared.engine, shared.bare, shared.project

DIMS = 48
#: Words of one meaning.
MEANINGS = ({"car", "automobile", "vehicle"}, {"physician", "doctor", "surgeon"}, {"money", "payment", "invoice"}, {"sea", "ocean"})


def direction(word):
    """Return the place of a word among the numbers of a vector, the same for words of one meaning."""
    for place, words in enumerate(MEANINGS):
        if word in words:
            return place
    return len(MEANINGS) + zlib.crc32(word.encode()) % (DIMS - len(MEANINGS))


def count_words(texts, dims=DIMS):
    """Return the vector of each text: how often each meaning stands in it, beside a little of one that all texts share."""
    vectors = []
    for text in texts:
        vector = [0.05] * dims
        for word in re.findall(r"\w+", text.lower()):
            vector[direction(word) % dims] += 1.0
        vectors.append(vector)
    return vectors


class Fake:
    """A model in plain Python. It keeps which texts and questions it was asked for, a list for each time, and when it was loaded.

    ``before`` is called before each batch of texts, ``answer`` gives the vectors.
    """

    def __init__(self, engine):
        self.engine, self.batches, self.questions, self.loaded = engine, [], [], []
        self.before = lambda: None
        self.on_load = lambda: None
        self.answer = lambda texts, model: count_words(texts, model["dims"])

    def load(self, model):
        """Return an encoder, as `load_encoder` does."""
        fake = self

        class Counting(fake.engine.Encoder):
            def encode(self, texts, question=False):
                if question:
                    fake.questions.extend(texts)
                else:
                    fake.batches.append(list(texts))
                    fake.before()
                return super().encode(texts, question=question)

        self.loaded.append(model["name"])
        self.on_load()
        return Counting(model, "fake", lambda texts: self.answer(texts, model))

    @property
    def texts(self):
        """Every text that was embedded."""
        return [text for batch in self.batches for text in batch]

    def forget(self):
        """Forget what was asked so far."""
        self.batches, self.questions, self.loaded = [], [], []


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    """Return the folder of this machine's models, which is empty."""
    folder = tmp_path / "models"
    monkeypatch.setenv("MUNIMENT_MODELS", str(folder))
    monkeypatch.delenv("MUNIMENT_INDEX_ROOT", raising=False)
    return folder


@pytest.fixture
def add_model(project, tmp_path):
    """Return a function that makes the files of a model and adds it; another ``weight`` is another vector space."""

    def add(name, weight="w", dims=DIMS):
        folder = tmp_path / ("source-" + name)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"hidden_size": dims}), encoding="utf-8")
        (folder / "tokenizer.json").write_text('{"model": {}}', encoding="utf-8")
        (folder / "model.onnx").write_text(weight, encoding="utf-8")
        return project.ok("model", "add", folder, "--as", name)

    return add


@pytest.fixture
def fake(engine, monkeypatch, add_model):
    """Return the model that every command here uses."""
    made = Fake(engine)
    monkeypatch.setattr(engine, "load_encoder", made.load)
    monkeypatch.setattr(engine, "find_provider", lambda model: ("fake", ""))
    add_model("one")
    return made


@pytest.fixture
def write(project):
    """Return a function that writes a file of the owner's into the vault."""

    def write_file(path, text):
        file = project.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
        return file

    return write_file


@pytest.fixture
def cars(write, fake):
    """Write three notes, of which one is about cars and one about doctors; return the model."""
    write("a.md", "# Garage\n\nThe automobile is red.\n")
    write("b.md", "# Ward\n\nA physician came on Monday.\n")
    write("c.md", "# Shore\n\nThe ocean was grey.\n")
    return fake


def rows_of(project, sql, *values):
    """Return the rows of a query of the index. sqlite-vec's own tables are plain ones."""
    with contextlib.closing(sqlite3.connect(project.vault / ".muniment" / "local" / "index.sqlite")) as db:
        return db.execute(sql, values).fetchall()


def change(project, sql, *values):
    """Change the index behind the engine's back."""
    with contextlib.closing(sqlite3.connect(project.vault / ".muniment" / "local" / "index.sqlite")) as db:
        done = db.execute(sql, values)
        db.commit()
        return done.rowcount


def sha(data):
    """Return the SHA-256 of bytes or text."""
    return hashlib.sha256(data.encode("utf-8") if isinstance(data, str) else data).hexdigest()


def check_in_line(project, fake, asked=None):
    """Assert that the table which is searched holds the vector of each chunk that needs one, once, and nothing else.

    ``asked`` are all texts that the model was ever asked for, if it was told to forget them.
    """
    found = rows_of(project, "SELECT v.input, v.data, v.sha256 FROM near_rowids n LEFT JOIN vector v ON v.id=n.rowid")
    inputs = [row[0] for row in found]
    assert sorted(inputs) == [row[0] for row in rows_of(project, "SELECT DISTINCT input FROM chunk WHERE input IS NOT NULL ORDER BY input")]
    texts = {sha(text): text for text in (fake.texts if asked is None else asked)}
    model = fake.engine.find_model(os.environ["MUNIMENT_MODELS"], None)
    encoder = fake.engine.Encoder(model, "fake", lambda some: fake.answer(some, model))
    assert {row[0]: row[1] for row in found} == dict(zip(inputs, encoder.encode([texts[name] for name in inputs]) if inputs else []))
    assert all(sha(data) == kept for _, data, kept in found)


def paths(reply):
    """Return the paths of an answer's hits, in order."""
    return [hit["path"] for hit in reply["hits"]]


def ask(project, question, *words):
    """Return the answer to a question, which must have one."""
    return project.ok("search", question, *words)


# What an answer says of itself.


@pytest.mark.parametrize(("mode", "named"), [((), "hybrid"), (("--mode", "hybrid"), "hybrid"), (("--mode", "vector"), "vector")])
def test_meaning(project, cars, mode, named):
    """A question that shares no word with its answer finds it first, and the answer says by which mode, and that it is whole."""
    answer = ask(project, "vehicle", *mode)
    assert paths(answer)[0] == "a.md"
    assert {name: answer[name] for name in ("mode", "complete", "pending", "why")} == {
        "mode": named, "complete": True, "pending": 0, "why": None}
    assert cars.questions == ["vehicle"]
    assert len(cars.loaded) == 1


def test_lexical_by_request(project, cars):
    """Words alone are looked for where that is asked: no model is loaded, and what is not said is not found."""
    answer = ask(project, "physician", "--mode", "lexical")
    assert (paths(answer), answer["mode"], answer["complete"], answer["pending"]) == (["b.md"], "lexical", True, 0)
    assert answer["why"]
    assert project.call("search", "vehicle", "--mode", "lexical").code == (5, "not-found")
    assert cars.loaded == []


@pytest.mark.usefixtures("cars")
def test_hybrid_sees_both(project, write):
    """A hybrid question finds what only its words say, and what only its meaning says."""
    write("d.md", "# Codes\n\nXK77 is the code of the gate.\n")
    assert paths(ask(project, "XK77"))[0] == "d.md"
    assert set(paths(ask(project, "XK77 vehicle"))[:2]) == {"a.md", "d.md"}


@pytest.mark.usefixtures("cars")
def test_vector_mode_ignores_words(project):
    """By meaning alone, no word of a hit is marked as the one that was found, and its words count nothing."""
    hit = ask(project, "automobile", "--mode", "vector", "--explain")["hits"][0]
    assert hit["path"] == "a.md"
    assert not hit["explain"]["words"]
    assert hit["explain"]["meaning"] > 0


def test_many_questions_load_once(project, cars):
    """Many questions of one call load the model once."""
    found = project.ok("search", "--queries", "-", stdin=b"vehicle\nsurgeon\nsea\n")["answers"]
    assert [paths(answer)[0] for answer in found] == ["a.md", "b.md", "c.md"]
    assert len(cars.loaded) == 1


@pytest.mark.usefixtures("cars", "write")
def test_skipped_is_not_complete(project):
    """An answer over a vault of which something could not be indexed is not complete, though every vector is there."""
    (project.vault / "d.md").write_bytes(b"\xff\xfe")
    answer = ask(project, "vehicle")
    assert (answer["complete"], answer["pending"]) == (False, 0)
    assert [row["path"] for row in answer["skipped"]] == ["d.md"]


# Edges.


@pytest.mark.parametrize("mode", ["hybrid", "vector", "lexical"])
@pytest.mark.parametrize("question", ["vehicle", "   ", "\t\n", "", "...", "\u3042"])
@pytest.mark.usefixtures("fake")
def test_empty_vault(project, mode, question):
    """Nothing answers where nothing is."""
    assert project.call("search", question, "--mode", mode).code == (5, "not-found")


@pytest.mark.parametrize("mode", ["hybrid", "vector", "lexical"])
@pytest.mark.usefixtures("fake")
def test_one_chunk(project, write, mode):
    """The only chunk is found."""
    write("a.md", "The automobile is red.\n")
    answer = ask(project, "automobile", "--mode", mode)
    assert (paths(answer), answer["mode"]) == (["a.md"], mode)


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("count", [2, 7, 40])
def test_equal_vectors(project, fake, write, mode, count):
    """Where all vectors are equal, words decide, or nothing does: scores are finite and the order is the same every time."""
    fake.answer = lambda texts, model: [[1.0] * DIMS for _ in texts]
    for n in range(count):
        write("n%d.md" % n, "Note number%d.\n" % n)
    answers = [ask(project, "number1", "--mode", mode, "--most", "50") for _ in range(2)]
    assert paths(answers[0]) == paths(answers[1])
    assert len(answers[0]["hits"]) == count
    assert all(abs(hit["score"]) < 1e6 for hit in answers[0]["hits"])
    if mode == "hybrid":
        assert paths(answers[0])[0] == "n1.md"


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_question_of_nothing(project, cars, mode):
    """A question of blanks has no answer, and no model is asked what it means."""
    assert project.call("search", "  ", "--mode", mode).code == (5, "not-found")
    assert cars.questions == []


@pytest.mark.parametrize("mode", ["hybrid", "vector", "lexical"])
@pytest.mark.usefixtures("cars")
def test_filter_allows_nothing(project, mode):
    """Where no chunk passes the filters, nothing is found."""
    assert project.call("search", "automobile", "--mode", mode, "--tag", "none").code == (5, "not-found")
    assert project.call("search", "automobile", "--mode", mode, "--key", "no.such").code == (5, "not-found")


def test_only_lists_of_links(project, fake, write):
    """A vault in which nothing needs a vector can be asked all the same, and its words be found."""
    write("a.md", "# Links\n\n- [[automobile]]\n- [[ocean]]\n")
    assert paths(ask(project, "automobile")) == ["a.md"]
    assert project.call("search", "vehicle", "--mode", "vector").code == (5, "not-found")
    assert fake.texts == []


def test_list_of_links(project, cars, write):
    """A list of links has no vector: it points to what others say."""
    project.ok("index")
    cars.forget()
    write("d.md", "# Links\n\n- [[automobile]]\n- [The car](car.md)\n")
    assert "d.md" in paths(ask(project, "automobile"))
    assert cars.texts == []
    assert "d.md" not in paths(ask(project, "vehicle", "--mode", "vector"))


# What is embedded, and what is not.


def test_nothing_to_do(project, cars):
    """Where nothing changed, nothing is embedded and no model is loaded."""
    project.ok("index")
    assert len(cars.texts) == 3
    cars.forget()
    assert project.ok("index")["pending"] == 0
    assert (cars.loaded, cars.texts) == ([], [])


def test_edit(project, cars, write):
    """Of an edited file only what changed is embedded."""
    parts = ["## Part %d\n\n%s\n\n" % (n, "Sentence %d of it. " % n * 10) for n in range(8)]
    write("d.md", "".join(parts))
    project.ok("index")
    asked = cars.texts
    cars.forget()
    parts[3] = "## Part 3\n\nNow of automobile and invoice.\n\n"
    write("d.md", "".join(parts))
    project.ok("index")
    assert len(cars.texts) == 1
    assert "invoice" in cars.texts[0]
    check_in_line(project, cars, asked + cars.texts)


@pytest.mark.usefixtures("cars")
def test_edit_is_seen(project, write):
    """The old meaning of an edited text is found no more, and the new one at once."""
    assert paths(ask(project, "vehicle"))[0] == "a.md"
    write("a.md", "# Garage\n\nThe invoice is red.\n")
    write("d.md", "# Road\n\nAn automobile.\n")
    assert paths(ask(project, "vehicle"))[0] == "d.md"
    assert paths(ask(project, "payment"))[0] == "a.md"


def test_back_again(project, cars, write):
    """A text that comes back is not embedded again."""
    project.ok("index")
    write("a.md", "# Garage\n\nThe invoice is red.\n")
    project.ok("index")
    asked = cars.texts
    cars.forget()
    write("a.md", "# Garage\n\nThe automobile is red.\n")
    assert paths(ask(project, "vehicle"))[0] == "a.md"
    assert cars.texts == []
    check_in_line(project, cars, asked)


def test_same_text_twice(project, cars, write):
    """A text that stands in two files is embedded once, and found in both; one file's going leaves the other."""
    for name in ("d.md", "e.md"):
        write(name, "# Bill\n\nAn invoice.\n")
    answer = ask(project, "payment", "--mode", "vector")
    assert set(paths(answer)[:2]) == {"d.md", "e.md"}
    assert len([text for text in cars.texts if "invoice" in text]) == 1
    (project.vault / "d.md").unlink()
    assert "e.md" in paths(ask(project, "payment", "--mode", "vector"))
    check_in_line(project, cars)


@pytest.mark.parametrize(("text", "new", "embedded"), [
    ("# Garage\n\nThe automobile is red.\n", "z.md", 0),
    ("The automobile is red.\n", "z.md", 1),
    ("# Garage\n\nThe automobile is red.\n", "deep/a.md", 1),
], ids=["headed", "headless", "moved"])
def test_rename(project, cars, write, text, new, embedded):
    """A rename embeds nothing but where name or folder are part of what a note is about; the file is found by its new name."""
    file = write("a.md", text)
    project.ok("index")
    cars.forget()
    (project.vault / new).parent.mkdir(exist_ok=True)
    file.rename(project.vault / new)
    assert paths(ask(project, "vehicle"))[0] == new
    assert len(cars.texts) == embedded


def test_touch(project, cars):
    """Another time of a file embeds nothing."""
    project.ok("index")
    cars.forget()
    for file in project.vault.glob("*.md"):
        os.utime(file, (1, 1))
    assert paths(ask(project, "vehicle"))[0] == "a.md"
    assert cars.texts == []


def test_deletion(project, cars):
    """A deleted file embeds nothing, and is not found again by its meaning."""
    project.ok("index")
    asked = cars.texts
    cars.forget()
    (project.vault / "a.md").unlink()
    assert "a.md" not in paths(ask(project, "vehicle", "--mode", "vector"))
    assert cars.texts == []
    check_in_line(project, cars, asked)


def test_exact_inputs(project, cars):
    """What a model is asked names the texts exactly: the name of each vector is the hash of what was asked for."""
    run = project.start()
    project.fact(run, "stack.database", "Orders live in PostgreSQL.")
    project.journal(run, "A `payment` of **ten** was [refused](https://x.example/y).")
    project.ok("index")
    assert sorted(map(sha, cars.texts)) == sorted(row[0] for row in rows_of(project, "SELECT input FROM vector"))
    check_in_line(project, cars)


def test_any_sequence(project, cars, write):
    """After any sequence of changes the vectors are those of a fresh index, and so are the answers."""
    dice, words = random.Random(11), [*sorted(set().union(*MEANINGS)), *"red grey monday gate code north".split()]
    asked = []
    for step in range(25):
        names = sorted(path.name for path in project.vault.glob("n*.md"))
        do = dice.choice(["new", "new", "edit", "rename", "delete", "truncate"]) if names else "new"
        if do in ("new", "edit", "truncate"):
            name = "n%d.md" % step if do == "new" else dice.choice(names)
            sections = ["## %s\n\n%s.\n\n" % (dice.choice(words), " ".join(dice.choices(words, k=6))) for _ in range(dice.randrange(4))]
            write(name, "" if do == "truncate" else "# Note\n\n" + "".join(sections))
        elif do == "rename":
            (project.vault / dice.choice(names)).rename(project.vault / ("n%d.md" % (100 + step)))
        else:
            (project.vault / dice.choice(names)).unlink()
        if dice.random() < 0.6:
            project.ok("index")
            check_in_line(project, cars)
    asked = [ask(project, question, "--mode", "vector", "--most", "100") for question in ("vehicle", "sea north", "payment")]
    project.ok("index", "--rebuild")
    again = [ask(project, question, "--mode", "vector", "--most", "100") for question in ("vehicle", "sea north", "payment")]
    for one, other in zip(asked, again):
        assert sorted((hit["score"], hit["path"], hit["first"]) for hit in one["hits"]) == \
            sorted((hit["score"], hit["path"], hit["first"]) for hit in other["hits"])


# Another model.


def test_other_model(project, cars, add_model):
    """Vectors of another vector space are made anew, and the command says so; those of the first are still there to go back to."""
    project.ok("index")
    add_model("two", "v")
    cars.forget()
    project.ok("model", "use", "two")
    first = project.ok("index")
    assert (len(cars.texts), first["pending"], first["model"]) == (3, 0, "two")
    assert first["warnings"]
    assert project.ok("index")["warnings"] == []
    check_in_line(project, cars)
    asked = cars.texts
    cars.forget()
    project.ok("model", "use", "one")
    assert project.ok("index")["warnings"]
    assert cars.texts == []
    check_in_line(project, cars, asked)


@pytest.mark.usefixtures("cars")
def test_other_length(project, add_model):
    """A model of vectors of another length takes the place of the first."""
    project.ok("index")
    add_model("two", "v", dims=16)
    project.ok("model", "use", "two")
    assert paths(ask(project, "vehicle", "--mode", "vector"))[0] == "a.md"
    assert {len(row[0]) for row in rows_of(project, "SELECT v.data FROM near_rowids n JOIN vector v ON v.id=n.rowid")} == {16}


def test_same_space(project, cars, add_model):
    """A model of another name but of the same files is the same vector space: nothing is made anew."""
    project.ok("index")
    add_model("two")
    project.ok("model", "use", "two")
    cars.forget()
    answer = ask(project, "vehicle")
    assert (paths(answer)[0], answer["warnings"], cars.texts) == ("a.md", [], [])


@pytest.mark.usefixtures("cars")
def test_never_meets_the_old(project, add_model, engine, monkeypatch):
    """Until its own vectors are made, a question to the new model is answered by words, never by vectors of the old one."""
    project.ok("index")
    add_model("two", "v")
    project.ok("model", "use", "two")
    monkeypatch.setattr(engine, "SEARCH_FILL_S", -1.0)
    assert project.call("search", "vehicle", "--mode", "vector").code == (5, "not-found")
    answer = ask(project, "automobile")
    assert (paths(answer), answer["complete"], answer["pending"]) == (["a.md"], False, 3)


@pytest.mark.parametrize("dims", [DIMS, 16])
def test_model_changes_meanwhile(project, cars, add_model, dims):
    """If another command turns to another model while a question's vector is made, the question does not meet those vectors."""
    add_model("two", "v", dims=dims)
    project.ok("index")
    answers = []

    def answer(texts, model):
        if texts == ["vehicle"] and model["name"] == "one":
            project.ok("model", "use", "two")
            project.ok("index")
        if model["name"] == "two":  # what is about doctors lies where the first model has cars
            texts = [text.replace("physician", "car").replace("automobile", "ocean") for text in texts]
        answers.append(model["name"])
        return count_words(texts, model["dims"])

    cars.answer = answer
    reply = project.call("search", "vehicle")
    assert "two" in answers
    assert reply.status in (0, 5, 6), reply
    assert reply.status or paths(reply)[:1] == ["a.md"]


# Damage.


def damage(kind):
    """Return the statement that damages every cached vector."""
    return {
        "checksum": "UPDATE vector SET sha256='0'",
        "bytes": "UPDATE vector SET data=zeroblob(length(data))",
        "short": "UPDATE vector SET data=substr(data, 1, 7)",
        "long": "UPDATE vector SET data=data || x'01'",
        "empty": "UPDATE vector SET data=x''",
    }[kind]


@pytest.mark.parametrize("kind", ["checksum", "bytes", "short", "long", "empty"])
@pytest.mark.parametrize("command", [("search", "vehicle"), ("index",)], ids=["search", "index"])
def test_damaged_vector(project, cars, add_model, kind, command):
    """A cached vector that is not what was put there is an error, never a hit; making the index anew heals it."""
    project.ok("index")
    add_model("two", "v")
    project.ok("model", "use", "two")
    project.ok("index")
    project.ok("model", "use", "one")
    assert change(project, damage(kind)) == 6
    assert project.call(*command).code == (7, "bad-vector")
    assert project.call(*command).code == (7, "bad-vector")
    assert paths(ask(project, "automobile", "--mode", "lexical")) == ["a.md"]
    assert project.ok("index", "--rebuild")["pending"] == 0
    assert paths(ask(project, "vehicle"))[0] == "a.md"
    check_in_line(project, cars)


@pytest.mark.usefixtures("cars")
def test_damaged_in_place(project, write):
    """A vector that was damaged while it is in use is at least never taken up again: the next that needs it fails."""
    project.ok("index")
    (project.vault / "a.md").unlink()
    project.ok("index")
    change(project, damage("checksum"))
    write("a.md", "# Garage\n\nThe automobile is red.\n")
    assert project.call("search", "vehicle").code == (7, "bad-vector")


@pytest.fixture
def alike(project, cars):
    """Write four facts that are alike; return the model."""
    run = project.start()
    for n in range(4):
        project.fact(run, "fleet.v%d" % n, "The automobile of the shop number %d is red." % n)
    assert project.ok("search", "--suggest")["suggestions"]
    return cars


@pytest.mark.parametrize("kind", ["checksum", "bytes", "short", "long", "empty"])
@pytest.mark.usefixtures("alike")
def test_damaged_vector_suggests(project, kind):
    """Nothing is suggested by a cached vector that is not what was put there: that is an error."""
    change(project, damage(kind))
    assert project.call("search", "--suggest").code == (7, "bad-vector")
    assert project.ok("index", "--rebuild")["pending"] == 0
    assert project.ok("search", "--suggest")["suggestions"]


@pytest.mark.parametrize("kind", ["checksum", "bytes", "short"])
@pytest.mark.usefixtures("alike")
def test_maintain_without_an_index(project, add_model, kind):
    """The curation brief does without suggestions where the index is damaged, and says so."""
    brief = project.ok("maintain")
    assert (bool(brief["suggestions"]), brief["warnings"]) == (True, [])
    add_model("two", "v")
    project.ok("model", "use", "two")
    project.ok("index")
    project.ok("model", "use", "one")
    change(project, damage(kind))
    damaged = project.ok("maintain")
    assert (damaged["suggestions"], bool(damaged["warnings"])) == ([], True)
    assert damaged["cooling"] == brief["cooling"]


def test_maintain_loads_nothing(project, cars):
    """The curation brief embeds nothing, and loads no model for it."""
    project.fact(project.start(), "fleet.van", "The automobile is red.")
    project.ok("maintain")
    assert (cars.loaded, cars.texts) == ([], [])


@pytest.mark.parametrize("answer", [
    lambda texts: [[float("nan")] * DIMS] * len(texts),
    lambda texts: [[1.0] * (DIMS - 1) + [float("inf")]] * len(texts),
    lambda texts: [[0.0] * DIMS] * len(texts),
    lambda texts: [[1.0] * (DIMS - 1)] * len(texts),
    lambda texts: [[1.0] * DIMS] * (len(texts) - 1),
    lambda texts: [[1.0] * DIMS] * (len(texts) + 1),
    lambda texts: [[[1.0] * DIMS]] * len(texts),
    lambda texts: [[1e-43] * DIMS] * len(texts),
    lambda texts: [],
], ids=["nan", "infinite", "zero", "short", "too-few", "too-many", "nested", "too-small", "none"])
def test_bad_model(project, cars, answer):
    """What a model gives and is no direction is an error, and nothing of it is stored; a model that is right goes on."""
    good, cars.answer = cars.answer, lambda texts, model: answer(texts)
    for command in (("search", "automobile"), ("index",)):
        assert project.call(*command).code == (7, "bad-vector")
        assert rows_of(project, "SELECT count(*) FROM vector") == [(0,)]
        assert rows_of(project, "SELECT count(*) FROM near_rowids") == [(0,)]
    cars.answer = good
    cars.forget()
    assert paths(ask(project, "vehicle"))[0] == "a.md"
    check_in_line(project, cars)


def test_bad_question_vector(project, cars):
    """A question's vector that is no direction is an error too."""
    project.ok("index")
    cars.answer = lambda texts, model: [[float("nan")] * DIMS] * len(texts)
    assert project.call("search", "automobile").code == (7, "bad-vector")
    assert paths(ask(project, "automobile", "--mode", "lexical")) == ["a.md"]


def test_one_bad_batch(project, fake, write):
    """What was made before a model went wrong is kept."""
    write("a.md", "".join("## Part %d\n\nText %d.\n\n" % (n, n) for n in range(100)))
    good = fake.answer
    fake.answer = lambda texts, model: good(texts, model) if len(fake.batches) < 2 else [[0.0] * DIMS] * len(texts)
    assert project.call("index").code == (7, "bad-vector")
    kept = rows_of(project, "SELECT count(*) FROM vector")[0][0]
    assert kept == len(fake.batches[0])
    asked, fake.answer = fake.batches[0], good
    fake.forget()
    assert project.ok("index")["pending"] == 0
    assert len(fake.texts) == 100 - kept
    check_in_line(project, fake, asked + fake.texts)


# Long work.


class Clock:
    """A stand-in for the engine's `time`, on which only what a test says takes time."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        """Return the seconds so far."""
        return self.now


@pytest.fixture
def clock(engine, monkeypatch):
    """Return the clock by which the engine measures how long something took."""
    made, real = Clock(), engine.time
    stand_in = types.SimpleNamespace(monotonic=made.monotonic, time_ns=real.time_ns, sleep=real.sleep, time=real.time)
    monkeypatch.setattr(engine, "time", stand_in)
    return made


@pytest.fixture
def many(write, fake):
    """Write 300 texts into one file; return the model."""
    write("a.md", "".join("## Part %d\n\nText number%d of it.\n\n" % (n, n) for n in range(300)))
    return fake


def test_search_stops(project, many, clock):
    """`search` embeds for about two seconds, answers with what it has and says how much is left; the next goes on from there."""

    def tick():
        clock.now += 0.5

    many.before = tick
    answer = ask(project, "number7")
    done = len(many.texts)
    assert 0 < done < 300
    assert 2.0 <= clock.now - 1000 <= 3.0
    assert (answer["pending"], answer["complete"], answer["mode"]) == (300 - done, False, "hybrid")
    assert paths(answer)[0] == "a.md"
    status = project.ok("index", "--status")
    assert status["pending"] == 300 - done
    assert ask(project, "number7")["pending"] == 300 - len(many.texts)
    assert len(many.texts) > done
    result = project.ok("index")
    assert (result["pending"], result["complete"], len(many.texts)) == (0, True, 300)
    assert len(set(many.texts)) == 300
    check_in_line(project, many)


def test_index_does_not_stop(project, many, clock):
    """`index` finishes, however long it takes."""

    def tick():
        clock.now += 3600

    many.before = tick
    assert project.ok("index")["pending"] == 0
    assert len(many.texts) == 300


def test_slow_to_load(project, cars, clock):
    """A model that takes long to load still gets its two seconds to embed: else what changed would never be found by meaning."""

    def wait():
        clock.now += 10

    cars.on_load = wait
    answer = ask(project, "vehicle")
    assert (answer["pending"], paths(answer)[0]) == (0, "a.md")


def test_interrupted(project, many):
    """An interrupted fill keeps what was done and goes on where it was."""

    def interrupt():
        if len(many.batches) == 3:
            raise KeyboardInterrupt

    many.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        project.call("index")
    done = many.batches[0] + many.batches[1]
    kept = {row[0] for row in rows_of(project, "SELECT input FROM vector")}
    assert kept == {sha(text) for text in done}
    many.before = lambda: None
    many.forget()
    assert project.ok("index")["pending"] == 0
    assert len(many.texts) == 300 - len(kept)
    assert not kept & {sha(text) for text in many.texts}
    check_in_line(project, many, done + many.texts)


def test_status_changes_nothing(project, many):
    """`index --status` says how much is left, loads no model and embeds nothing."""
    project.ok("search", "number7", "--mode", "lexical")
    before = rows_of(project, "SELECT count(*) FROM chunk") + rows_of(project, "SELECT count(*) FROM vector")
    assert project.ok("index", "--status")["pending"] == 300
    assert (many.loaded, many.texts) == ([], [])
    assert rows_of(project, "SELECT count(*) FROM chunk") + rows_of(project, "SELECT count(*) FROM vector") == before


def test_words_while_pending(project, fake, write, clock):
    """While most vectors are missing, texts that hold the word that is asked for stand before those that do not."""
    for n in range(20):
        write("z%d.md" % n, "The zebra of herd%d grazes on a plain that is far from here, and it is seen by nobody.\n" % n)
    for n in range(60):
        write("n%d.md" % n, "Short%d.\n" % n)

    def tick():
        clock.now += 5

    fake.before = tick
    answer = ask(project, "zebra", "--most", "20")
    assert answer["pending"] > 0
    assert all(path.startswith("z") for path in paths(answer)), answer


# Beside others.


def test_no_lock_while_embedding(project, many):
    """While vectors are made, no lock is held: another command writes at once, and another question is answered."""
    seen = []

    def others():
        if not seen:
            seen.append(1)
            seen.append(project.ok("start", "--actor", "codex", "--lock-wait", "0")["run"])
            seen.append(ask(project, "number7", "--mode", "lexical")["hits"][0]["path"])
            (project.vault / "b.md").write_text("# Garage\n\nThe automobile is red.\n", encoding="utf-8")
            seen.append(paths(ask(project, "vehicle"))[0])

    many.before = others
    result = project.ok("index")
    assert len(seen) == 4
    assert seen[2:] == ["a.md", "b.md"]
    assert result["pending"] == 0
    many.before = lambda: None
    project.ok("index")
    check_in_line(project, many)


def test_changed_while_embedding(project, many):
    """A file that changes or goes while its vectors are made leaves no vector of what it said."""

    def edit():
        many.before = lambda: None
        (project.vault / "a.md").write_text("# Shore\n\nThe ocean.\n\n- [[a]]\n\n## Links\n\n- [[b]]\n", encoding="utf-8")
        project.ok("search", "ocean", "--mode", "lexical")

    many.before = edit
    project.ok("index")
    project.ok("index")
    check_in_line(project, many)
    assert rows_of(project, "SELECT count(*) FROM vector WHERE input IS NULL") == [(0,)]


@pytest.mark.parametrize("words", [("index", "--rebuild"), ("index", "--drop")], ids=["rebuild", "drop"])
@pytest.mark.parametrize("command", [("index",), ("search", "number7")], ids=["index", "search"])
def test_thrown_away_while_embedding(project, many, command, words):
    """An index that is thrown away while another command fills it does that command no harm, and is whole after the next."""

    def throw_away():
        many.before = lambda: None
        project.ok(*words)

    many.before = throw_away
    assert project.call(*command).status == 0
    assert project.ok("index")["pending"] == 0
    check_in_line(project, many)


def test_fill_within_a_fill(project, many):
    """A second fill that comes and ends while a first one embeds leaves each vector once."""

    def second():
        many.before = lambda: None
        assert project.ok("index")["pending"] == 0

    many.before = second
    assert project.ok("index")["pending"] == 0
    assert len(many.texts) < 300 + 65
    check_in_line(project, many)
    assert rows_of(project, "SELECT count(*) FROM vector") == [(300,)]


def run_index(engine, project):
    """Do what `index` does, without the streams of this process, and return how many texts are left."""
    call = engine.Call("index", str(project.vault), str(project.folder), lambda: shared.MONDAY, os.urandom, 5.0)
    call.models = os.environ["MUNIMENT_MODELS"]
    try:
        return engine.Searching(call, None, float("inf")).pending
    finally:
        call.close()


@pytest.fixture
def together(engine, project, monkeypatch):
    """Return a function that runs commands which need vectors in some threads at once; it returns what each gave or raised.

    Each command is a process of its own in earnest. To register sqlite-vec is a thing of the process, so here they do that in turn.
    """
    real, turn, kept = engine.load_sqlite_vec, threading.Lock(), sys.getswitchinterval()

    def load(index):
        with turn:
            return real(index)

    def run(count):
        results, gate = [None] * count, threading.Barrier(count)

        def work(n):
            gate.wait()
            try:
                results[n] = run_index(engine, project)
            except (sqlite3.Error, OSError, engine.MunimentError) as error:
                results[n] = error

        threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    monkeypatch.setattr(engine, "load_sqlite_vec", load)
    sys.setswitchinterval(1e-5)
    yield run
    sys.setswitchinterval(kept)


def test_two_fills_at_once(project, many, together):
    """Two fills of one index at once both succeed, and leave each vector once."""
    project.ok("search", "number7", "--mode", "lexical")
    assert together(2) == [0, 0]
    check_in_line(project, many)
    assert rows_of(project, "SELECT count(*) FROM vector") == [(300,)]


def test_first_ones_at_once(project, cars, together):
    """Commands that are the first to need an index, or its vectors, make it together: none fails, and none's work is lost."""
    for _ in range(8):
        project.ok("index", "--drop")
        assert together(4) == [0] * 4
        check_in_line(project, cars)


def test_first_vectors_at_once(project, cars, together):
    """Commands that are the first to need vectors in an index that is there do not get in each other's way."""
    for _ in range(8):
        project.ok("index", "--drop")
        project.ok("search", "automobile", "--mode", "lexical")
        assert together(3) == [0] * 3
        check_in_line(project, cars)


@pytest.mark.usefixtures("fake")
def test_hit_that_changes(project, write, engine, monkeypatch):
    """A text that another command puts in the place of one that was found is not printed as if it had been found."""
    write("a.md", "# Herd\n\nA zebra.\n")
    project.ok("index")
    real = engine.search_chunks

    def search_then_edit(*words, **named):
        found = real(*words, **named)
        monkeypatch.setattr(engine, "search_chunks", real)
        write("a.md", "# Tax\n\nThe invoice.\n")
        project.ok("index")
        return found

    monkeypatch.setattr(engine, "search_chunks", search_then_edit)
    reply = project.call("search", "zebra")
    assert reply.status in (0, 5), reply
    assert reply.status == 5 or all("invoice" not in hit["snippet"] for hit in reply["hits"])


# The table of vectors.


def sections(count, word="Text"):
    """Return a file of sections, each of which is a chunk."""
    return "".join("## Part %d\n\n%s number%d.\n\n" % (n, word, n) for n in range(count))


def test_deleted_slots(project, fake, write):
    """The table that is searched does not keep growing by what was deleted from it."""
    for word in ("Alpha", "Beta", "Gamma"):
        write("a.md", sections(1100, word))
        project.ok("index")
    write("a.md", sections(5, "automobile"))
    project.ok("index")
    project.ok("index")
    assert rows_of(project, "SELECT count(*) FROM near_chunks") == [(1,)]
    check_in_line(project, fake)
    assert paths(ask(project, "vehicle", "--mode", "vector")) == ["a.md"]


def test_old_vectors_are_forgotten(project, fake, write, engine, monkeypatch):
    """Vectors of texts that went long ago are thrown away, those in use stay."""
    monkeypatch.setattr(engine, "_SLOTS", 8)
    for n in range(12):
        write("a.md", sections(8, "Word%d" % n))
        project.ok("index")
    assert rows_of(project, "SELECT count(*) FROM vector")[0][0] < 12 * 8
    check_in_line(project, fake)


def test_table_is_gone(project, cars, engine):
    """A killed process may leave no table of vectors: it is made again of what is kept, and nothing is embedded for it."""
    project.ok("index")
    asked = cars.texts
    cars.forget()
    index = engine.Index(str(project.vault / ".muniment" / "local" / "index.sqlite"))
    assert engine.load_sqlite_vec(index) is None
    index.db.execute("DROP TABLE near")
    index.close()
    assert paths(ask(project, "vehicle"))[0] == "a.md"
    assert cars.texts == []
    check_in_line(project, cars, asked)


def test_other_root(project, cars, write, monkeypatch):
    """Where another folder is indexed its texts are found, those of the first no more, and going back embeds nothing twice."""
    write("sub/x.md", "# Road\n\nA vehicle.\n")
    project.ok("index")
    asked = cars.texts
    monkeypatch.setenv("MUNIMENT_INDEX_ROOT", str(project.vault / "sub"))
    assert paths(ask(project, "automobile", "--mode", "vector")) == ["x.md"]
    check_in_line(project, cars)
    cars.forget()
    monkeypatch.delenv("MUNIMENT_INDEX_ROOT")
    assert set(paths(ask(project, "automobile", "--mode", "vector"))[:2]) == {"a.md", "sub/x.md"}
    assert cars.texts == []
    check_in_line(project, cars, asked)


# Filters.


@pytest.mark.usefixtures("cars")
def test_only_allowed(project, write):
    """Only what passes the filters comes back, by meaning too."""
    run = project.start()
    project.fact(run, "fleet.van", "The automobile of the shop.", "--tag", "fleet")
    project.fact(run, "fleet.boat", "The ocean.", "--tag", "fleet")
    project.journal(run, "An automobile was seen.")
    write("d.md", "---\nstatus: old\n---\n# Road\n\nAn automobile.\n")
    for mode in ("hybrid", "vector"):
        for words, kinds in ((("--in", "note"), {"note"}), (("--in", "journal"), {"journal"}), (("--in", "free"), {"free"})):
            assert {hit["kind"] for hit in ask(project, "vehicle", "--mode", mode, *words)["hits"]} == kinds
        assert {hit["key"] for hit in ask(project, "vehicle", "--mode", mode, "--key", "fleet.v")["hits"]} == {"fleet.van"}
        assert set(paths(ask(project, "vehicle", "--mode", mode, "--property", "status=old"))) == {"d.md"}
        assert {hit["key"] for hit in ask(project, "vehicle", "--mode", mode, "--current", "--tag", "fleet")["hits"]} == {
            "fleet.van", "fleet.boat"}


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.usefixtures("fake")
def test_rare_filter(project, write, mode):
    """What passes a filter is found by meaning though hundreds of others are nearer."""
    write("a.md", sections(600, "automobile"))
    write("b.md", "---\ntags: rare\n---\n# Lot\n\nA car, long ago and far from here.\n")
    answer = ask(project, "vehicle", "--mode", mode, "--tag", "rare")
    assert (paths(answer), answer["pending"]) == (["b.md"], 0)


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.usefixtures("fake")
def test_order_with_filter(project, write, mode):
    """Of what passes a filter the nearest stands first, also where all of it is further off than most of the vault."""
    for n in range(40):
        write("n%d.md" % n, "Vehicle vehicle vehicle part%d.\n" % n)
    write("x.md", "---\ntags: rare\n---\nOne car beside trees hills lakes roads walls doors roofs.\n")
    write("y.md", "---\ntags: rare\n---\nTrees hills lakes roads walls doors roofs stairs lamps chairs.\n")
    write("z.md", "---\ntags: rare\n---\nTrees trees trees.\n")
    found = ask(project, "vehicle", "--mode", mode, "--tag", "rare")
    assert paths(found)[0] == "x.md", found
    scores = [hit["score"] for hit in ask(project, "vehicle", "--mode", mode)["hits"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.usefixtures("fake")
def test_neighbours_pass_filters(project):
    """An entry gains by its neighbours, but none that a filter shuts out comes back for it."""
    run = project.start()
    for text in ("Trees.", "The automobile.", "Walls."):
        project.journal(run, text, *(("--ref", "r1") if text == "Walls." else ()))
    other = project.start("claude")
    project.journal(other, "Roofs.")
    found = ask(project, "vehicle", "--mode", "vector", "--in", "journal")["hits"]
    assert found[0]["snippet"] == "The automobile."
    assert {hit["kind"] for hit in found} == {"journal"}


# What is missing.


class Plain:
    """A connection of a Python whose sqlite3 was built without loadable extensions."""

    def __init__(self, db):
        self._db = db

    def __getattr__(self, name):
        if name in ("enable_load_extension", "load_extension"):
            raise AttributeError(name)
        return getattr(self._db, name)


def load_no_extensions(engine, monkeypatch):
    """Make every index's connection one that loads no extensions."""
    real = engine._connect  # noqa: SLF001 - where the engine gets a connection
    monkeypatch.setattr(engine, "_connect", lambda path: Plain(real(path)))


@pytest.fixture
def no_extensions(engine, monkeypatch):
    """Let Python's sqlite3 load no extensions."""
    load_no_extensions(engine, monkeypatch)


def hide(engine, monkeypatch, *names):
    """Let packages be as if they were not installed."""
    real = engine.find_package
    monkeypatch.setattr(engine, "find_package", lambda name: None if name in names else real(name))


@pytest.fixture
def missing(request, engine, monkeypatch, project, cars):
    """Take away one of the things that meaning needs; return its name."""
    assert cars.loaded == []
    if request.param == "sqlite-vec":
        hide(engine, monkeypatch, "sqlite_vec")
    elif request.param == "library":
        empty = project.folder / "sqlite_vec"
        empty.mkdir()
        monkeypatch.setattr(engine, "find_package", lambda name: str(empty))
    elif request.param == "broken-library":
        broken = project.folder / "sqlite_vec"
        broken.mkdir()
        (broken / "vec0.so").write_bytes(b"no library")
        monkeypatch.setattr(engine, "find_package", lambda name: str(broken))
    elif request.param == "runtime":
        monkeypatch.undo()
        monkeypatch.setenv("MUNIMENT_MODELS", str(project.folder.parent / "models"))
        hide(engine, monkeypatch, "onnxruntime", "tokenizers", "sentence_transformers")
    elif request.param == "tokenizers":
        monkeypatch.undo()
        monkeypatch.setenv("MUNIMENT_MODELS", str(project.folder.parent / "models"))
        hide(engine, monkeypatch, "tokenizers", "sentence_transformers")
    elif request.param == "model":
        project.ok("model", "remove", "one")
    elif request.param == "model-folder":
        monkeypatch.setenv("MUNIMENT_MODELS", str(project.folder / "none"))
    else:
        load_no_extensions(engine, monkeypatch)
        monkeypatch.setattr(engine.Vault, "is_writable", lambda vault: False)
    return request.param


MISSING = ["sqlite-vec", "library", "broken-library", "runtime", "tokenizers", "model", "model-folder", "memory"]


@pytest.mark.parametrize("missing", MISSING, indirect=True)
@pytest.mark.usefixtures("missing")
def test_missing(project, cars):
    """Where something that meaning needs is missing, words answer, and every answer says what is missing."""
    answer = ask(project, "automobile")
    assert (paths(answer), answer["mode"], answer["pending"]) == (["a.md"], "lexical", 0)
    assert answer["why"]
    result = project.ok("index")
    assert (result["pending"], result["why"], result["chunks"]) == (0, answer["why"], 3)
    assert project.ok("index", "--status")["why"]
    assert cars.texts == []


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("missing", MISSING, indirect=True)
@pytest.mark.usefixtures("missing")
def test_missing_is_refused(project, mode):
    """Who asks for meaning by name, and it cannot be had, is told so."""
    assert project.call("search", "automobile", "--mode", mode).code == (8, "missing-package")
    assert ask(project, "automobile", "--mode", "lexical")["mode"] == "lexical"


def test_missing_for_a_while(project, cars, write, engine, monkeypatch):
    """What changed while sqlite-vec was missing is right when it is back."""
    project.ok("index")
    with monkeypatch.context() as patch:
        hide(engine, patch, "sqlite_vec")
        write("a.md", "# Garage\n\nThe invoice is red.\n")
        (project.vault / "b.md").unlink()
        assert paths(ask(project, "invoice")) == ["a.md"]
    assert paths(ask(project, "payment", "--mode", "vector"))[0] == "a.md"
    assert "b.md" not in paths(ask(project, "doctor", "--mode", "vector"))
    check_in_line(project, cars)


@pytest.mark.usefixtures("no_extensions")
def test_registered(project, cars, write):
    """Where Python's sqlite3 loads no extensions, sqlite-vec is registered with SQLite itself."""
    assert (paths(ask(project, "vehicle", "--mode", "vector"))[0], len(cars.texts)) == ("a.md", 3)
    write("d.md", "# Bill\n\nAn invoice.\n")
    assert paths(ask(project, "payment"))[0] == "d.md"
    assert project.ok("index", "--status")["why"] is None
    check_in_line(project, cars)


@pytest.mark.usefixtures("no_extensions")
@pytest.mark.usefixtures("cars")
def test_registered_for_one(project):
    """What is registered for the index is there for no other connection of the process."""
    project.ok("index")
    with contextlib.closing(sqlite3.connect(":memory:")) as db, pytest.raises(sqlite3.OperationalError):
        db.execute("SELECT vec_version()")


@pytest.mark.usefixtures("no_extensions")
@pytest.mark.usefixtures("cars")
def test_not_registrable(project, monkeypatch):
    """A SQLite that cannot be reached either leaves words to answer."""
    monkeypatch.setitem(sys.modules, "ctypes", None)
    answer = ask(project, "automobile")
    assert (paths(answer), answer["mode"]) == (["a.md"], "lexical")
    assert answer["why"]
    assert project.call("search", "automobile", "--mode", "vector").code == (8, "missing-package")


@pytest.mark.usefixtures("cars")
def test_in_memory(project, engine, monkeypatch):
    """A vault that cannot be written is searched all the same, and nothing is written to it."""
    monkeypatch.setattr(engine.Vault, "is_writable", lambda vault: False)
    before = project.tree()
    answer = ask(project, "automobile")
    assert paths(answer)[0] == "a.md"
    assert answer["mode"] == "hybrid" or answer["why"]
    assert answer["warnings"]
    assert project.tree() == before


@pytest.mark.usefixtures("cars", "add_model")
def test_model_is_gone(project, engine, monkeypatch, tmp_path):
    """A model whose file was taken away is missing: words answer, and say so."""
    monkeypatch.undo()
    monkeypatch.setenv("MUNIMENT_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(engine, "has_module", lambda name: name in ("onnxruntime", "tokenizers"))
    (tmp_path / "source-one" / "model.onnx").unlink()
    answer = ask(project, "automobile")
    assert (paths(answer), answer["mode"]) == (["a.md"], "lexical")
    assert answer["why"]
    assert project.call("search", "automobile", "--mode", "vector").status == 8


@pytest.mark.usefixtures("project", "fake")
def test_provider_needs_weights(engine, monkeypatch, tmp_path):
    """sentence-transformers cannot run a model of which there is an onnx file alone."""
    monkeypatch.undo()
    monkeypatch.setattr(engine, "has_module", lambda name: name == "sentence_transformers")
    model = engine.find_model(str(tmp_path / "models"), "one")
    provider, why = engine.find_provider(model)
    assert provider is None
    assert why


def test_calls_that_share_what_is_loaded(project, cars, engine, add_model, tmp_path):
    """Calls of one process that share what they load load a model once, another when another is used, and none whose files changed."""
    loaded = {}
    asked = dict.fromkeys(("queries", "mode", "kind", "properties", "tags", "key", "since", "source", "trust", "explain", "current"))

    def search():
        call = engine.Call("search", str(project.vault), str(project.folder), lambda: 1_796_025_600_000, os.urandom, 1.0,
                           os.environ["MUNIMENT_MODELS"])
        call.loaded = loaded
        try:
            return engine.cmd_search(call, {**asked, "question": "automobile", "suggest": False, "most": 5})
        finally:
            call.close()

    cars.forget()
    assert [search()["mode"] for _ in range(3)] == ["hybrid"] * 3
    assert cars.loaded == ["one"]
    add_model("two", "v")
    project.ok("model", "use", "two")
    assert [search()["mode"] for _ in range(2)] == ["hybrid"] * 2
    assert (cars.loaded, len(loaded)) == (["one", "two"], 1)
    (tmp_path / "source-two" / "model.onnx").write_text("changed", encoding="utf-8")
    found = search()
    assert found["mode"] == "lexical"
    assert "two" in found["why"]
    project.ok("model", "remove", "two")
    project.ok("model", "add", tmp_path / "source-two", "--as", "two")
    project.ok("model", "use", "two")
    assert search()["mode"] == "hybrid"
    assert cars.loaded == ["one", "two", "two"]
