"""`eval`: how well questions with known answers are answered by words, in figures that are worked out by hand here."""

from __future__ import annotations

import json

import pytest

FIGURES = ("hit1", "hit5", "hit10", "recall5", "recall10", "mrr10", "wrong")


def write(project, name, text):
    """Write a file of the owner's into the vault."""
    path = project.vault / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def case(question, *answers, **fields):
    """Return a line of a file of questions."""
    return json.dumps({"q": question, "answers": list(answers), **fields}, ensure_ascii=False)


@pytest.fixture
def shelf(project):
    """Return a project whose notes are found in a known order: equals by their names, and what holds more words of a question first."""
    for n in range(1, 13):
        write(project, f"row/{n:02}.md", "The quokka.\n")
    write(project, "one.md", "The ocelot.\n")
    write(project, "far/a.md", "Amber birch cedar.\n")
    write(project, "far/b.md", "The amber thing.\n")
    write(project, "far/c.md", "The amber thing.\n")
    write(project, "near/a.md", "Dahlia elder fern.\n")
    write(project, "near/b.md", "Here a dahlia, an elder and a fern stand side by side, as they did in the year before.\n")
    write(project, "near/c.md", "The dahlia thing.\n")
    return project


@pytest.fixture
def asked(shelf):
    """Return a function that writes lines into a file and evaluates them on the shelf; it returns the answer."""

    def evaluate(*lines, words=(), ok=True):
        path = shelf.folder / "asked.jsonl"
        path.write_bytes("\n".join(lines).encode("utf-8"))
        reply = shelf.call("eval", path, *words)
        assert not ok or reply.status == 0, reply
        return reply.data if ok else reply

    return evaluate


def figures(answer, group="all"):
    """Return the figures of a group, which must be there once."""
    (run,) = [run for run in answer["runs"] if run["group"] == group]
    assert run["mode"] == "lexical"
    return {name: run[name] for name in FIGURES}


def all_of(**values):
    """Return figures, those that are not named being 0."""
    return {**dict.fromkeys(FIGURES, 0.0), **values}


FOUND = {"hit1": 1.0, "hit5": 1.0, "hit10": 1.0, "recall5": 1.0, "recall10": 1.0, "mrr10": 1.0}


def test_first(asked):
    """An answer in the first place counts in full everywhere."""
    assert figures(asked(case("ocelot", "one.md"))) == all_of(**FOUND)


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (2, {"hit5": 1.0, "hit10": 1.0, "recall5": 1.0, "recall10": 1.0, "mrr10": 0.5}),
        (5, {"hit5": 1.0, "hit10": 1.0, "recall5": 1.0, "recall10": 1.0, "mrr10": 0.2}),
        (6, {"hit10": 1.0, "recall10": 1.0, "mrr10": 0.1667}),
        (10, {"hit10": 1.0, "recall10": 1.0, "mrr10": 0.1}),
        (11, {}),
    ],
)
def test_place(asked, place, wanted):
    """An answer in a later place counts where it is within reach, and by the inverse of its place up to the tenth."""
    assert figures(asked(case("quokka", f"row/{place:02}.md"))) == all_of(**wanted)


def test_recall(asked):
    """Recall is the share of a question's answers that were found, named twice or not; the first of them gives the place."""
    answers = ("row/03.md", "row/05.md", "row/07.md", "row/12.md", "row/03.md")
    wanted = all_of(hit5=1.0, hit10=1.0, recall5=0.5, recall10=0.75, mrr10=0.3333)
    assert figures(asked(case("quokka", *answers))) == wanted


def test_nothing_found(asked):
    """A question that finds nothing counts as one that was missed, and not as confidently wrong."""
    assert figures(asked(case("xyzzyplugh", "one.md"))) == all_of()


def test_confidently_wrong(asked):
    """A first hit is confidently wrong that is no answer, and further ahead of the second than that is of the last one shown."""
    assert figures(asked(case("amber birch cedar", "far/b.md")))["wrong"] == 1.0
    assert figures(asked(case("amber birch cedar", "far/a.md")))["wrong"] == 0.0
    assert figures(asked(case("amber birch cedar", "nowhere.md")))["wrong"] == 1.0
    assert figures(asked(case("quokka", "nowhere.md")))["wrong"] == 0.0
    assert figures(asked(case("dahlia elder fern", "nowhere.md")))["wrong"] == 0.0
    assert figures(asked(case("ocelot", "nowhere.md")))["wrong"] == 0.0


def test_means(asked):
    """The figures are means over all questions, and over those that share a value of another field."""
    answer = asked(
        case("ocelot", "one.md", style="short", n=1),
        "",
        case("quokka", "row/02.md", style="long", n=1),
        case("quokka", "row/07.md", "row/01.md", style="long"),
        "   ",
        case("xyzzyplugh", "one.md", style="short", n=2),
    )
    assert answer["runs"][0]["group"] == "all"
    assert {run["group"]: run["questions"] for run in answer["runs"]} == {"all": 4, "style=short": 2, "style=long": 2, "n=1": 2, "n=2": 1}
    assert figures(answer) == all_of(hit1=0.5, hit5=0.75, hit10=0.75, recall5=0.625, recall10=0.75, mrr10=0.625)
    assert figures(answer, "style=short") == all_of(hit1=0.5, hit5=0.5, hit10=0.5, recall5=0.5, recall10=0.5, mrr10=0.5)
    assert figures(answer, "style=long") == all_of(hit1=0.5, hit5=1.0, hit10=1.0, recall5=0.75, recall10=1.0, mrr10=0.75)
    assert figures(answer, "n=1") == all_of(hit1=0.5, hit5=1.0, hit10=1.0, recall5=1.0, recall10=1.0, mrr10=0.75)
    assert figures(answer, "n=2") == all_of()


def test_shape(project, asked):
    """The answer has a run for each group, what it cost, and what every search says of itself."""
    answer = asked(case("ocelot", "one.md"))
    assert set(answer) >= {"runs", "model", "change", "root", "pending", "complete", "why", "skipped", "warnings"}
    (run,) = answer["runs"]
    assert set(run) == {"mode", "group", "questions", "tokens5", "p50_ms", *FIGURES}
    assert (answer["model"], answer["change"], answer["complete"]) == (None, [], True)
    hits = project.ok("search", "quokka")["hits"]
    tokens = sum(len(hit["snippet"]) for hit in hits[:5]) / 4
    assert asked(case("quokka", "one.md"))["runs"][0]["tokens5"] == pytest.approx(tokens)
    assert run["p50_ms"] >= 0


def test_what_an_answer_may_be(project, asked):
    """An answer is a path, the id of a claim or entry, an entry's ref elsewhere, or a key."""
    run = project.start()
    entry = project.journal(run, "The pangolin was seen.", "--ref", "JIRA-7")
    old = project.fact(run, "den.place", "The caracal sleeps in the den.")
    new = project.ok("propose", "--run", run, "--key", "den.place", "--text", "It sleeps under a tree.", "--now")["proposal"]
    for answer in (f"journal/{run}.md", entry, "JIRA-7"):
        assert figures(asked(case("pangolin", answer))) == all_of(**FOUND), answer
    for answer in ("notes/den.place.md", new, "den.place"):
        assert figures(asked(case("sleeps under a tree", answer))) == all_of(**FOUND), answer
    for answer in ("history/den.place.md", old, "den.place"):
        assert figures(asked(case("caracal", answer))) == all_of(**FOUND), answer
    for answer in (run, "den", "notes/den.place", "", "None"):
        assert figures(asked(case("sleeps under a tree", answer)))["hit10"] == 0.0, answer


def test_filters(shelf, asked):
    """Filters stand for every question."""
    project = shelf
    run = project.start()
    for n in range(3):
        project.journal(run, f"An ocelot was seen, {n}.", "--ref", f"D{n}")
    assert figures(asked(case("ocelot", "one.md"), words=("--in", "journal")))["hit10"] == 0.0
    assert figures(asked(case("ocelot", "D0", "D1", "D2"), words=("--in", "journal"))) == all_of(**FOUND)
    assert asked(case("ocelot", "one.md"), words=("--since", "x"), ok=False).code == (3, "bad-date")


def test_any_question(asked):
    """A question may be any text; one without a word is one that was missed."""
    lines = [case(q, "one.md") for q in ("", "   ", '"', "NOT (", "ocelot*", "🦓", "x" * 10_000, "ocelot\nAND \x1b[31m")]
    assert asked(*lines, '{"q": "\\ud800 ocelot", "answers": ["one.md"]}')["runs"][0]["hit10"] == pytest.approx(3 / 9, abs=1e-4)


def test_groups_of_any_value(asked):
    """The other fields of a line may hold anything that JSON holds."""
    line = '{"q": "ocelot", "answers": ["one.md"], "a": null, "b": [1, "x"], "c": {"d": 1}, "e": true, "f": 1.5, "g": ""}'
    answer = asked(line, words=("--save",))
    assert len(answer["runs"]) == 7
    assert all(run["hit1"] == 1.0 for run in answer["runs"])


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '"q"',
        "null",
        "5",
        "{}",
        '{"q": "a"}',
        '{"answers": ["one.md"]}',
        '{"q": 5, "answers": ["one.md"]}',
        '{"q": null, "answers": ["one.md"]}',
        '{"q": "a", "answers": []}',
        '{"q": "a", "answers": "one.md"}',
        '{"q": "a", "answers": [5]}',
        '{"q": "a", "answers": [null]}',
        '{"q": "a", "answers": ["one.md"]',
        '{"q": "a", "answers": ["one.md"]} {}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:40],
)
def test_bad_line(shelf, asked, line):
    """A line of another form is refused with its number, counted with the blank ones, and nothing is evaluated."""
    reply = asked(case("ocelot", "one.md"), "", line, case("ocelot", "one.md"), words=("--save",), ok=False)
    assert (reply.code, reply.error["line"]) == ((2, "bad-json"), 3)
    assert not (shelf.vault / ".muniment" / "local" / "eval.jsonl").exists()


def test_bad_file(project, asked):
    """A file without a question is refused, and so is one that cannot be read or is not UTF-8."""
    assert asked("", ok=False).code == (2, "usage")
    assert asked("", "  ", ok=False).code == (2, "usage")
    assert project.call("eval", project.folder / "none.jsonl").code == (2, "usage")
    assert project.call("eval", project.folder).code == (2, "usage")
    assert project.call("eval", "-", stdin=b"\xff").code == (2, "bad-encoding")
    assert project.call("eval").code == (2, "usage")


@pytest.mark.usefixtures("shelf")
def test_standard_input(cli):
    """Questions may come on standard input, with a byte order mark and CRLF too."""
    data = ("\ufeff" + case("ocelot", "one.md") + "\r\n" + case("quokka", "row/01.md") + "\r\n").encode("utf-8")
    reply = cli("eval", "-", stdin=data)
    assert (reply.status, figures(reply.data)) == (0, all_of(**FOUND))


def test_modes(asked):
    """All modes are those that there are, here words alone; one that cannot be had is refused."""
    line = case("ocelot", "one.md")
    for words in ((), ("--mode", "lexical"), ("--mode", "all")):
        answer = asked(line, words=words)
        assert [run["mode"] for run in answer["runs"]] == ["lexical"]
    for mode in ("vector", "hybrid"):
        assert asked(line, words=("--mode", mode), ok=False).code == (8, "missing-package")
    assert asked(line, words=("--mode", "words"), ok=False).code == (2, "usage")


@pytest.mark.usefixtures("shelf")
def test_human_output(cli):
    """In words there is a table, with a row for each group."""
    out = cli("eval", "-", stdin=case("ocelot", "one.md", style="x|\x1b[31m").encode(), plain=True).out
    assert "mrr10" in out
    assert len([line for line in out.split("\n") if "lexical" in line and "1.000" in line]) == 2
    assert {c for c in out if not c.isprintable()} == {"\n"}


def test_save(shelf, asked):
    """--save keeps the figures of these questions, and the next time says by how much each has changed."""
    lines = [case("ocelot", "one.md", style="a"), case("quokka", "row/02.md", style="b")]
    assert asked(*lines)["change"] == []
    assert asked(*lines, words=("--save",))["change"] == []
    again = asked(*lines, words=("--save",))["change"]
    assert {row["group"] for row in again} == {"all", "style=a", "style=b"}
    assert all({name: row[name] for name in FIGURES} == all_of() for row in again)
    (shelf.vault / "one.md").unlink()
    (shelf.vault / "row" / "01.md").unlink()
    change = {row["group"]: {name: row[name] for name in FIGURES} for row in asked(*lines, words=("--save",))["change"]}
    assert change == {
        "all": all_of(hit5=-0.5, hit10=-0.5, recall5=-0.5, recall10=-0.5, mrr10=-0.25),  # hit1: one lost, one won
        "style=a": all_of(**{name: -1.0 for name in FOUND}),
        "style=b": all_of(hit1=1.0, mrr10=0.5),
    }
    assert all({row[name] for name in FIGURES} == {0.0} for row in asked(*lines, words=("--save",))["change"])


def test_saved_by_questions(shelf, asked):
    """Only a run of the same questions is compared with, in whatever file they stand; without --save nothing is kept or compared."""
    one, two = case("ocelot", "one.md"), case("quokka", "row/02.md")
    asked(one, words=("--save",))
    assert asked(two, words=("--save",))["change"] == []
    assert asked(one, two, words=("--save",))["change"] == []
    assert asked(one)["change"] == []
    assert asked("", one, "", words=("--save",))["change"] != []
    assert len((shelf.vault / ".muniment" / "local" / "eval.jsonl").read_text("utf-8").splitlines()) == 4


def test_damaged_history_of_figures(shelf, asked):
    """A line of the kept figures that is damaged is passed over; the others still are compared with."""
    line = case("ocelot", "one.md")
    asked(line, words=("--save",))
    path = shelf.vault / ".muniment" / "local" / "eval.jsonl"
    kept = path.read_bytes()
    for damaged in (kept + b"x\xff\n", kept + b'{"at": "20', kept + b'[]\n5\nnull\n{}\n"x"\n', b"{\n" + kept, b"\x00" * 50 + b"\n" + kept):
        path.write_bytes(damaged)
        assert len(asked(line, words=("--save",))["change"]) == 1, damaged
        path.write_bytes(path.read_bytes())
        assert len(asked(line, words=("--save",))["change"]) == 1, damaged


def test_history_of_figures_is_this_machines(shelf, asked):
    """What is kept is of this machine: no record is made and no view changes."""
    before, views = shelf.ledger(), shelf.views()
    asked(case("ocelot", "one.md"), words=("--save",))
    assert (shelf.ledger(), shelf.views()) == (before, views)


def test_read_only(shelf, read_only, bound_by_modes):
    """A vault that cannot be written is evaluated in memory; what cannot be kept is refused."""
    read_only()
    data = case("ocelot", "one.md").encode()
    reply = shelf.cli("eval", "-", stdin=data, prefix=bound_by_modes)
    assert (reply.status, figures(reply.data)) == (0, all_of(**FOUND))
    assert shelf.cli("eval", "-", "--save", stdin=data, prefix=bound_by_modes).code == (9, "filesystem")
