"""What bad input gets: one line with a code, the exit status of its kind, and nothing recorded."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="an argument is text here, not bytes")
NEW = ("--tier", "2", "--new-subject", "--text", "x")
OWNER = ("--source", "user", "--trust", "confirmed")
URL = "https://a.example/"


@pytest.fixture
def refuse(project):
    """Return a function that runs a command line with an open run and checks how it was refused and that nothing was recorded.

    {run} in a word stands for the run. The error is one line, in JSON and in words, and says the next step or what is allowed.
    """
    run = project.start()
    project.fact(run, "checkout.next-step", "Ship it.")

    def check(words, code, stdin=b""):
        before, views = project.ledger(), project.views()
        words = [word.replace("{run}", run) if isinstance(word, str) else word for word in words]
        reply, said = project.call(*words, stdin=stdin), project.call(*words, stdin=stdin, plain=True)
        assert reply.code == code
        assert set(reply.error) >= {"code", "exit", "message", "hint", "retry"}
        assert (said.status, reply.out, said.out) == (code[0], "", "")
        for err in (reply.err, said.err):
            assert err.endswith("\n")
            assert err[:-1].isprintable()
        assert f"[{code[1]}]" in said.err
        assert project.ledger() == before
        assert project.views() == views
        return reply.error

    return check


def propose(*words):
    """Return the words of a proposal of a new tier 2 subject, which ``words`` spoil."""
    return ("propose", "--run", "{run}", "--key", "a.b", *NEW, *words)


# -- the grammar --


@pytest.mark.parametrize(
    "key",
    [
        "",
        " ",
        "A.b",
        "a b",
        "a_b",
        "a..b",
        "a.-b",
        ".a",
        "a.",
        "-",
        "a-",
        "a/b",
        "../a",
        "a\\b",
        "ä",
        "a\n",
        "con",
        "nul.txt",
        "com1.x",
        "lpt9",
        "aux",
        "k" * 81,
        "a.b\u200b",
        "\uff41",
        "a.b ",
        "%61",
    ],
)
def test_key(refuse, key):
    """A key that breaks the grammar is refused, wherever a key is given."""
    refuse(("propose", "--run", "{run}", f"--key={key}", *NEW), (3, "bad-key"))
    refuse(propose(f"--link={key}"), (3, "bad-key"))
    refuse(("recall", "--", key), (3, "bad-key"))
    refuse(("history", "--", key), (3, "bad-key"))


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("Checkout.Next-Step", "checkout.next-step"),
        ("CHECKOUT.next-step", "checkout.next-step"),
        ("checkout.next_step", "checkout.next-step"),
        ("checkout next step", "checkout-next-step"),
    ],
)
def test_key_that_differs_by_case(refuse, key, near):
    """A key that differs by case or by a sign gets the nearest key that would be one, and the position."""
    error = refuse(("propose", "--run", "{run}", "--key", key, *NEW), (3, "bad-key"))
    assert near in error["hint"]
    assert error["position"] >= 1


def test_key_that_differs_by_a_letter(refuse):
    """A key that differs by one letter gets the nearest present key."""
    for words in (
        ("propose", "--run", "{run}", "--key", "checkout.next-stop", "--op", "close"),
        ("recall", "checkout.next-stop"),
        ("history", "checkout.nextstep"),
        ("review", "checkout.next-stap"),
    ):
        assert "checkout.next-step" in refuse(words, (3, "absent-key") if words[0] == "propose" else (5, "not-found"))["hint"]


#: A refused character, and where it stands in "ab?cd", counted from 1.
CHARACTERS = [
    "\n",
    "\t",
    "\r",
    "\x1b",
    "\x00",
    "\x7f",
    "\x85",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u202a",
    "\u2066",
    "\u200b",
    "\u200e",
    "\u2060",
    "\ufeff",
    "\u061c",
    "\u180e",
    "\ufff9",
    "\ud800",
    "\udcff",
    "\U000e0041",
]


@pytest.mark.parametrize("character", CHARACTERS, ids=lambda c: "U+%04X" % ord(c))
def test_character_in_a_line(refuse, character):
    """One-line text refuses what makes or hides a line, naming the character and its position."""
    bad = f"ab{character}cd"
    for words in (
        ("propose", "--run", "{run}", "--key", "a.b", "--tier", "2", "--new-subject", f"--text={bad}"),
        propose(f"--why={bad}"),
        (
            "propose",
            "--run",
            "{run}",
            "--key",
            "a.b",
            "--tier",
            "3",
            "--new-subject",
            "--text",
            "x",
            "--evidence",
            URL,
            f"--falsifier={bad}",
        ),
        ("start", "--actor", "codex", f"--session={bad}"),
        ("journal", "--run", "{run}", "--text", "x", f"--ref={bad}"),
    ):
        error = refuse(words, (3, "bad-text"))
        assert error["position"] == 3
        assert "U+%04X" % ord(character) in error["message"]


@pytest.mark.parametrize("character", [c for c in CHARACTERS if c not in "\n\t"], ids=lambda c: "U+%04X" % ord(c))
def test_character_in_a_block(refuse, character):
    """Text of several lines takes newline and tab, and refuses the rest."""
    bad = f"a\n{character}b\t"
    for words in (
        ("journal", "--run", "{run}", f"--text={bad}"),
        ("close", "--run", "{run}", "--outcome", "success", f"--summary={bad}"),
        ("recover-run", "--run", "{run}", f"--summary={bad}", "--human-approved"),
    ):
        assert refuse(words, (3, "bad-text"))["position"] == 3


@pytest.mark.parametrize("character", ["\u200c", "\u200d", "\u00a0", "\u0301", "\u4e00", "\U0001f600"])
def test_allowed_characters(project, character):
    """The joiners and what is merely not ASCII are taken as they are."""
    project.fact(project.start(), "a.b", f"ab{character}cd")
    assert project.current("a.b")["text"] == f"ab{character}cd"


@pytest.mark.parametrize("empty", ["", " ", "\u00a0\u3000"])
def test_blank(refuse, empty):
    """Blank text is refused wherever text is given."""
    refuse(("propose", "--run", "{run}", "--key", "a.b", "--tier", "2", "--new-subject", f"--text={empty}"), (3, "bad-text"))
    refuse(propose(f"--why={empty}"), (3, "bad-text"))
    refuse(("journal", "--run", "{run}", f"--text={empty}"), (3, "bad-text"))
    refuse(("close", "--run", "{run}", "--outcome", "success", f"--summary={empty}"), (3, "bad-text"))
    refuse(("start", "--actor", "codex", f"--session={empty}"), (3, "bad-text"))


@pytest.mark.parametrize(
    ("words", "position"),
    [
        (("propose", "--run", "{run}", "--key", "a.b", "--tier", "2", "--new-subject", "--text", "é" * 501), 501),
        (propose("--why", "x" * 501), 501),
        (("journal", "--run", "{run}", "--text", "x" * 8_001), 8_001),
        (("close", "--run", "{run}", "--outcome", "fail", "--summary", "x" * 2_001), 2_001),
        (("start", "--actor", "codex", "--session", "x" * 201), 201),
        (("journal", "--run", "{run}", "--text", "x", "--ref", "x" * 201), 201),
    ],
)
def test_too_long(refuse, words, position):
    """Text past its length is refused with the position of the first character too many."""
    assert refuse(words, (3, "bad-text"))["position"] == position


@pytest.mark.parametrize("detail", ["x" * 32_769, "é" * 16_385, " ", "", "a\x1bb", "a\u202eb"])
def test_detail(refuse, detail, tmp_path):
    """A detail over 32 KiB of UTF-8, a blank one or one with a refused character is refused, from a file and standard input."""
    path = tmp_path / "detail.md"
    path.write_text(detail, encoding="utf-8")
    refuse(propose("--detail-file", str(path)), (3, "bad-text"))
    refuse(propose("--detail-file", "-"), (3, "bad-text"), detail.encode())


@pytest.mark.parametrize(
    "date",
    [
        "2026-02-30",
        "2025-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-1-1",
        "20260101",
        "tomorrow",
        "",
        "2026-01-01T00:00:00Z",
        "0999-01-01",
        "\uff12\uff10\uff12\uff16-01-01",
        " 2026-01-01",
        "2026-01-01\n",
        "10000-01-01",
    ],
)
def test_date(refuse, date):
    """What is not a day that exists, written YYYY-MM-DD, is refused wherever a date is given."""
    refuse(propose(f"--until={date}"), (3, "bad-date"))
    refuse(("log", f"--since={date}"), (3, "bad-date"))
    if date.strip() == date:
        refuse(propose("--measured", f"0,{date},pytest"), (3, "bad-date"))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("start", "--actor", "Codex"), (3, "bad-value")),
        (("start", "--actor", ""), (3, "bad-value")),
        (("start", "--actor", "a" * 41), (3, "bad-value")),
        (("start", "--actor", "a b"), (3, "bad-value")),
        (("journal", "--run", "{run}", "--text", "x", "--importance", "0"), (3, "bad-value")),
        (("journal", "--run", "{run}", "--text", "x", "--importance", "6"), (3, "bad-value")),
        (("journal", "--run", "{run}", "--text", "x", "--importance", "high"), (2, "usage")),
        (("journal", "--run", "{run}", "--text", "x", "--ref", "a b"), (3, "bad-value")),
        (("journal", "--run", "{run}", "--text", "x", "--ref", "E5-k7qdm2xw"), (3, "bad-value")),
        (propose("--tier", "0"), (3, "bad-value")),
        (propose("--tier", "4"), (3, "bad-value")),
        (propose("--tier", "two"), (2, "usage")),
        (propose("--importance", "6"), (3, "bad-value")),
        (propose("--status", "done"), (2, "usage")),
        (propose("--source", "system"), (2, "usage")),
        (propose("--source", "legacy"), (2, "usage")),
        (propose("--trust", "proven"), (2, "usage")),
        (propose("--op", "delete"), (2, "usage")),
        (propose("--clear", "why"), (2, "usage")),
        (propose("--tag", "A"), (3, "bad-value")),
        (propose("--tag", "a b"), (3, "bad-value")),
        (propose("--tag", "t" * 41), (3, "bad-value")),
        (propose(*(w for n in range(13) for w in ("--tag", f"t{n}"))), (3, "bad-value")),
        (propose(*(w for n in range(33) for w in ("--link", f"k{n}"))), (3, "bad-value")),
        (propose(*(w for n in range(33) for w in ("--evidence", f"{URL}{n}"))), (3, "bad-value")),
        (propose("--measured", "0"), (3, "bad-value")),
        (propose("--measured", "x,2026-11-30,pytest"), (3, "bad-value")),
        (propose("--measured", "0,2026-11-30,"), (3, "bad-text")),
        (propose("--measured", "99999999999999999999,2026-11-30,x"), (3, "bad-value")),
        (propose("--kind", "rule"), (3, "bad-field")),
        (propose("--confidence", "emerging"), (3, "bad-field")),
        (propose("--falsifier", "x"), (3, "bad-field")),
        (propose("--op", "touch", "--key", "checkout.next-step"), (3, "present-key")),
        (("propose", "--run", "{run}", "--key", "a.b", "--new-subject", "--text", "x"), (3, "bad-field")),
        (("propose", "--run", "{run}", "--key", "a.b", "--tier", "2", "--new-subject"), (3, "bad-text")),
        (("propose", "--run", "{run}", "--key", "a.b", "--tier", "3", "--new-subject", "--text", "x"), (3, "bad-field")),
        (("propose", "--run", "{run}", "--key", "checkout.next-step", "--op", "touch", "--text", "x"), (3, "bad-field")),
        (("propose", "--run", "{run}", "--key", "checkout.next-step", "--op", "close", "--tag", "x"), (3, "bad-field")),
        (("propose", "--run", "{run}", "--text", "x"), (2, "usage")),
        (("propose", "--key", "a.b", "--text", "x"), (2, "usage")),
        (("withdraw", "--run", "{run}"), (2, "usage")),
        (("close", "--run", "{run}", "--outcome", "done", "--summary", "x"), (2, "usage")),
    ],
)
def test_value(refuse, words, code):
    """A value outside its list or range, or a field of another tier or operation, is refused."""
    refuse(words, code)


@pytest.mark.parametrize("source", [(), ("--source", "agent"), ("--source", "external")])
def test_confirmed_from_an_agent(refuse, source):
    """Trust `confirmed` is the owner's alone."""
    refuse(propose("--trust", "confirmed", *source), (3, "needs-user"))


@pytest.mark.parametrize(
    "evidence", ["E999-k7qdm2xw", "D1:3", "nothing", "", "ftp//x", "R1-k7qdm2xw", "http:// space", "\ud800", "a\nb", "https://a.example/\n"]
)
def test_evidence_that_does_not_exist(refuse, evidence):
    """Evidence that names no entry and is no URL is refused."""
    refuse(propose(f"--evidence={evidence}"), (3, "unknown-evidence"))


def test_evidence_that_names_two_entries(refuse, project):
    """A ref that was journalled twice names nothing for certain; both entries are named."""
    run = project.start()
    entries = [project.journal(run, "x", "--ref", "D1") for _ in range(2)]
    error = refuse(propose("--evidence", "D1"), (3, "ambiguous-evidence"))
    assert all(entry in error["message"] for entry in entries)


# -- runs and ids --


@pytest.mark.parametrize(
    "words",
    [
        ("journal", "--text", "x"),
        ("propose", "--key", "a.b", *NEW),
        ("sync",),
        ("withdraw", "P1-k7qdm2xw"),
        ("apply", "-"),
        ("close", "--outcome", "success", "--summary", "x"),
        ("recover-run", "--summary", "x", "--human-approved"),
        ("maintain", "--mark"),
    ],
)
def test_run(refuse, project, words):
    """An unknown, closed or foreign run, and what is no run's id, is refused by every command that takes one."""
    run = project.start("claude")
    tag = run.split("-")[1]
    project.close(run)
    refuse((*words, "--run", run), (3, "closed-run"))
    refuse((*words, "--run", "R999-" + tag), (3, "unknown-run"))
    refuse((*words, "--run", "R1-k7qdm2xw"), (3, "unknown-run"))
    for bad in (
        "",
        "x",
        "E1-" + tag,
        "R01-" + tag,
        "R1",
        "R1-" + tag + "x",
        "r1-" + tag,
        "R1-" + tag.upper(),
        "R-1-" + tag,
        "R1-aaaaaaa1",
        "R%s-%s" % ("9" * 30, tag),
        " " + run,
    ):
        refuse((*words, "--run=" + bad), (3, "bad-id"))


def test_unknown_run_names_the_open_ones(refuse, project):
    """The hint names runs that are open here."""
    run = project.start("claude")
    assert run in refuse(("sync", "--run", "R999-k7qdm2xw"), (3, "unknown-run"))["hint"]


def test_foreign_run(project):
    """A run that another copy of the vault opened is refused there."""
    run = project.start()
    shutil.copytree(project.vault, project.folder / "copy")
    before = project.ledger()
    for words in (
        ("journal", "--text", "x"),
        ("propose", "--key", "a.b", *NEW),
        ("sync",),
        ("close", "--outcome", "success", "--summary", "x"),
    ):
        assert project.cli(*words, "--run", run, "--vault", "copy").code == (3, "foreign-run")
    assert {p.name: p.read_bytes() for p in (project.folder / "copy" / ".muniment" / "ledger").iterdir()} == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("withdraw", "E1-k7qdm2xw", "--run", "{run}"), (3, "bad-id")),
        (("withdraw", "S1-k7qdm2xw", "--run", "{run}"), (3, "bad-id")),
        (("show", "R1-k7qdm2xw"), (3, "bad-id")),
        (("show", "P1-k7qdm2xw", "--view"), (5, "not-found")),
        (("recall", "checkout.next-step", "--at", "P1-k7qdm2xw"), (3, "bad-date")),
        (("log", "--run", "V1-k7qdm2xw"), (3, "bad-id")),
        (("resolve", "P1-k7qdm2xw", "--choose", "accept", "--human-approved"), (3, "bad-id")),
        (("resolve", "Q-123456", "--choose", "accept", "--human-approved"), (3, "bad-id")),
    ],
)
def test_id_of_another_kind(refuse, words, code):
    """An id of the wrong letter is refused."""
    refuse(words, code)


@pytest.mark.parametrize("now", [253_402_300_800_000, 10**18])
@pytest.mark.parametrize("words", [("start", "--actor", "a"), ("journal", "--run", "{run}", "--text", "x"), ("sync", "--run", "{run}")])
def test_clock(call, project, words, now):
    """A clock outside the years 1000 to 9999 is refused: no record can have that time."""
    run = project.start()
    before = project.ledger()
    project.now = now
    assert call(*(word.replace("{run}", run) for word in words)).code == (3, "bad-clock")
    assert project.ledger() == before
    project.now = None


# -- bytes --


@posix
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((b"journal", b"--text", b"a\xffb"), (3, "bad-text")),
        ((b"propose", b"--key", b"a.b", b"--tier", b"2", b"--text", b"a\xffb"), (3, "bad-text")),
        ((b"propose", b"--key", b"a\xff", b"--tier", b"2", b"--text", b"x"), (3, "bad-key")),
        (
            (b"propose", b"--key", b"a.b", b"--tier", b"2", b"--text", b"x", b"--new-subject", b"--evidence", b"a\xff"),
            (3, "unknown-evidence"),
        ),
        ((b"propose", b"--key", b"a.b", b"--tier", b"2", b"--text", b"x", b"--tag", b"\xff"), (3, "bad-value")),
    ],
)
def test_argument_that_is_not_utf8(cli, project, words, code):
    """Bytes of an argument that are not UTF-8 are refused like any other character that text may not hold."""
    run = project.start()
    before = project.ledger()
    reply = cli(*words, b"--run", run.encode())
    assert (reply.code, reply.err.count("\n")) == (code, 1)
    assert project.ledger() == before


@posix
@pytest.mark.parametrize(
    "words",
    [
        (b"recall", b"--prefix", b"\xff"),
        (b"recall", b"\xff"),
        (b"config", b"\xff"),
        (b"review", b"\xff"),
        (b"show", b"\xff"),
        (b"log", b"--run", b"\xff"),
        (b"\xff",),
        (b"status", b"\xff"),
        (b"start", b"--actor", b"\xff"),
    ],
)
def test_such_an_argument_to_any_command(cli, project, words):
    """Wherever such bytes stand, the answer is a refusal with a code, never a fault of the engine."""
    before = project.ledger()
    reply = cli(*words)
    assert (reply.status in {2, 3, 5}, reply.out, reply.err.count("\n")) == (True, "", 1)
    assert reply.error["exit"] == reply.status
    assert project.ledger() == before


@pytest.mark.parametrize(
    "words",
    [
        ("journal", "--run", "{run}", "--text", "-"),
        propose("--detail-file", "-"),
        ("apply", "--run", "{run}", "-"),
        ("propose", "--run", "{run}", "--key", "a.b", "--tier", "2", "--new-subject", "--text", "-"),
    ],
)
@pytest.mark.parametrize(
    ("data", "position"), [(b"ab\xff", 3), (b"\xc3", 1), (b"a\xed\xa0\x80", 2), (b"\xff\xfea\x00", 1), (b"\xc0\x80", 1)]
)
def test_standard_input_that_is_not_utf8(refuse, words, data, position):
    """Standard input that is not UTF-8 is refused with the position of the byte."""
    assert refuse(words, (2, "bad-encoding"), data)["position"] == position


def test_files_that_are_not_utf8(cli, project, tmp_path):
    """So are files, by a command of its own."""
    run = project.start()
    path = tmp_path / "file"
    path.write_bytes(b"ab\xff")
    before = project.ledger()
    for words in (("apply", "--run", run, path), ("propose", "--run", run, "--key", "a.b", *NEW, "--detail-file", path)):
        reply = cli(*words)
        assert (reply.code, reply.error["position"], reply.err.count("\n")) == ((2, "bad-encoding"), 3, 1)
    assert project.ledger() == before


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{", "bad-json"),
        ("not JSON", "bad-json"),
        ('{"do":"journal","text":"x","text":"y"}', "bad-json"),
        ('{"do":"journal","text":"x","importance":3.0}', "bad-json"),
        ('{"do":"journal","text":"x","importance":Infinity}', "bad-json"),
        ('{"do":"journal","text":' + "[" * 20 + "]" * 20 + "}", "bad-json"),
        ('{"do":"journal","text":' + "[" * 50_000, "bad-json"),
        ('{"do":"journal","text":"' + "x" * 262_144 + '"}', "bad-json"),
        ("[1]", "bad-operation"),
        ('{"do":"erase"}', "bad-operation"),
        ('{"do":"journal","text":"x","note":"y"}', "bad-operation"),
        ('{"do":"journal","text":"\\udfff"}', "bad-text"),
    ],
    ids=lambda value: value[:24],
)
def test_operation(refuse, line, cause):
    """JSON that is none, too deep, too large, with doubled names or floats, and unknown names: an atomic file is refused whole."""
    data = ('{"do":"journal","text":"good"}\n' + line).encode()
    error = refuse(("apply", "--run", "{run}", "-", "--atomic"), (3, "atomic"), data)
    assert (error["line"], error["cause"]) == (2, cause)


def test_operation_of_20_levels(call, project):
    """20 levels are read: the value is then refused for what it is."""
    run = project.start()
    data = ('{"do":"journal","text":' + "[" * 19 + "]" * 19 + "}").encode()
    assert call("apply", "--run", run, "-", stdin=data)["results"][0]["code"] == "bad-text"


def test_chain_too_long_for_a_line(call, project):
    """A proposal whose record would not fit a ledger line is refused by itself: the others of its file stand."""
    run = project.start()
    wide = ["https://a.example/" + "\U0001f600" * 450] * 32
    measured = [{"command": "\U0001f600" * 500, "exit": 0, "date": "2026-11-30", "note": "\U0001f600" * 500}] * 32
    op = {"do": "propose", "key": "a.b", "tier": 2, "new_subject": True, "text": "\U0001f600" * 500, "detail": "\n" * 16_000 + "x" * 16_000}
    lines = [json.dumps({**op, "key": f"a.n{n}", "evidence": evidence}, ensure_ascii=False) for n, evidence in enumerate((wide, measured))]
    reply = call("apply", "--run", run, "-", stdin="\n".join([*lines, '{"do":"sync"}']).encode())
    assert all("code" not in row or row["code"] == "too-large" for row in reply["results"])
    assert all(len(line) <= 262_144 for data in project.ledger().values() for line in data.splitlines(keepends=True))
    assert len(project.records("proposal")) == 2 - reply["failed"]


# -- the vault --


def test_vault_that_is_a_file(bare):
    """A file in the vault's place is refused by every command."""
    bare.vault.write_text("mine")
    for words in (("init",), ("status", "--vault", "memory"), ("start", "--actor", "a", "--vault", "memory")):
        assert bare.cli(*words).code == (9, "not-a-folder")
    assert bare.vault.read_text() == "mine"


def test_vault_that_is_a_link_loop(bare):
    """A loop of symbolic links is refused."""
    try:
        bare.vault.symlink_to("memory")
    except OSError:
        pytest.skip("symbolic links cannot be made here")
    for words in (("init",), ("status", "--vault", "memory"), ("start", "--actor", "a", "--vault", "memory")):
        reply = bare.cli(*words)
        assert (reply.status, reply.err.count("\n")) == (9, 1)
    assert bare.cli("status").status in {5, 9}
    assert bare.vault.is_symlink()


@pytest.mark.parametrize(
    "name", ["notes", "history", "journal", "conflicts", ".muniment", ".muniment/ledger", ".muniment/local", ".muniment/recovery"]
)
@pytest.mark.parametrize("stands", ["link", "file"])
def test_linked_folder(project, name, stands):
    """A symbolic link or a file in the place of one of the vault's folders is refused by every command, and not followed."""
    project.healthy = False
    project.fact(project.start(), "a.b")
    place, away = project.vault / name, project.folder / "away"
    place.rename(away) if place.exists() else away.mkdir()
    if stands == "link":
        try:
            place.symlink_to(away, target_is_directory=True)
        except OSError:
            pytest.skip("symbolic links cannot be made here")
    else:
        place.write_text("mine")
    before = {path: path.read_bytes() for path in away.rglob("*") if path.is_file()}
    for words in (("start", "--actor", "codex"), ("status",), ("doctor", "--fix")):
        reply = project.call(*words)
        if name == ".muniment" and stands == "file":
            assert reply.code == (5, "no-vault")
        else:
            assert reply.code == (9, "linked" if stands == "link" else "not-a-folder")
    assert {path: path.read_bytes() for path in away.rglob("*") if path.is_file()} == before


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need a right here")
def test_linked_ledger(project):
    """A ledger that is a symbolic link is refused."""
    project.healthy = False
    project.start()
    path = next((project.vault / ".muniment" / "ledger").iterdir())
    path.rename(project.folder / "away")
    path.symlink_to(project.folder / "away")
    before = path.read_bytes()
    for words in (("start", "--actor", "codex"), ("status",)):
        assert project.cli(*words).code == (9, "linked")
    assert path.read_bytes() == before


@pytest.mark.parametrize("view", ["MEMORY.md", "notes/a.b.md"])
@pytest.mark.parametrize("holds", [(), ("mine.txt", "deep/er.md")], ids=["empty", "filled"])
def test_folder_in_place_of_a_view(project, view, holds):
    """A folder in the place of a view is moved whole into recovery/ and said, the record is made, and the view is back."""
    run = project.start()
    project.fact(run, "a.b")
    place = project.vault / view
    place.unlink()
    place.mkdir()
    for name in holds:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(name.encode())
    reply = project.cli("propose", "--run", run, "--key", "a.b", "--text", "y", "--now")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    assert project.cli("recall", "a.b")["current"]["text"] == "y"
    assert b"y" in place.read_bytes()
    edit = project.ok("review", "--all")["edits"]
    assert [(e["path"], e["changes"], bool(e["unread"])) for e in edit] == [(view, [], True)]
    moved = project.vault / ".muniment" / "recovery" / edit[0]["sha256"]
    assert {p.relative_to(moved).as_posix(): p.read_bytes() for p in moved.rglob("*") if p.is_file()} == {n: n.encode() for n in holds}
    assert project.ok("resolve", "edits", "--choose", "dismiss", "--human-approved")["closed"][0]["path"] == view
    assert moved.is_dir()


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need a right here")
@pytest.mark.parametrize("view", ["MEMORY.md", "notes/a.b.md"])
@pytest.mark.parametrize("leads", ["file", "folder", "nowhere"])
def test_link_in_place_of_a_view(project, view, leads):
    """A symbolic link in the place of a view is kept as what it names and never followed; the view is back, a file of its own."""
    run = project.start()
    project.fact(run, "a.b")
    place, away = project.vault / view, project.folder / "away"
    place.unlink()
    {"file": lambda: away.write_bytes(b"mine"), "folder": away.mkdir, "nowhere": lambda: None}[leads]()
    place.symlink_to(away)
    reply = project.cli("propose", "--run", run, "--key", "a.b", "--text", "y", "--now")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    assert (place.is_symlink(), b"y" in place.read_bytes()) == (False, True)
    assert {"file": lambda: away.read_bytes() == b"mine", "folder": lambda: not list(away.iterdir()), "nowhere": lambda: not away.exists()}[
        leads]()
    edit = project.ok("review", "--all")["edits"]
    kept = project.vault / ".muniment" / "recovery" / edit[0]["sha256"]
    assert ([e["path"] for e in edit], kept.read_bytes()) == ([view], b"link to " + os.fsencode(away))


@pytest.mark.parametrize(
    "words",
    [
        ("start", "--actor", "codex"),
        ("journal", "--run", "{run}", "--text", "x"),
        ("sync", "--run", "{run}"),
        propose("--now"),
        ("config", "hot-lines", "100", "--human-approved"),
        ("maintain", "--mark", "--run", "{run}"),
        ("rebuild",),
    ],
)
def test_read_only_vault(bound_by_modes, read_only, project, words):
    """A command that writes is refused on a vault where it cannot, with the path; nothing changes."""
    run = project.start()
    before = project.tree()
    read_only()
    reply = project.cli(*(word.replace("{run}", run) for word in words), prefix=bound_by_modes)
    assert reply.code == (9, "filesystem")
    assert str(project.vault.name) in reply.error["message"]
    assert project.tree() == before


def test_init_where_nothing_can_be_written(bound_by_modes, bare):
    """`init` in a folder that cannot be written is refused with the path."""
    bare.folder.chmod(0o500)
    try:
        assert bare.cli("init", prefix=bound_by_modes).code == (9, "filesystem")
    finally:
        bare.folder.chmod(0o700)
    assert not bare.vault.exists()


@pytest.mark.parametrize("how", ["short", "none", "fsync"])
@pytest.mark.parametrize(
    "words",
    [
        ("start", "--actor", "claude"),
        ("journal", "--run", "{run}", "--text", "x"),
        propose("--now"),
        ("close", "--run", "{run}", "--outcome", "success", "--summary", "x"),
    ],
)
def test_full_disk(project, monkeypatch, words, how):
    """On a full disk the ledger is as before, the command exits 9, and it succeeds once there is room."""
    run = project.start()
    before = project.ledger()
    write, fsync = os.write, os.fsync

    def refuse_write(descriptor, data):
        if refuse_write.full or b'"head":{' in bytes(data):
            refuse_write.full = True
            if how == "short" and not refuse_write.cut:
                refuse_write.cut = True
                return write(descriptor, bytes(data)[:20])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    def refuse_fsync(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    refuse_write.full = refuse_write.cut = False
    words = [word.replace("{run}", run) for word in words]
    with monkeypatch.context() as patch:
        patch.setattr(os, *(("fsync", refuse_fsync) if how == "fsync" else ("write", refuse_write)))
        reply = project.call(*words)
    assert reply.code == (9, "filesystem")
    assert os.strerror(errno.ENOSPC) in reply.error["message"]
    assert project.ledger() == before
    assert os.fsync is fsync
    assert project.call(*words).status == 0


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ('{"format":2,"vault":"x"}', (8, "newer-format")),
        ('{"format":99}', (8, "newer-format")),
        ("", (7, "damaged")),
        ("{", (7, "damaged")),
        ("[]", (7, "damaged")),
        ('{"format":0,"vault":"x"}', (7, "damaged")),
        ('{"format":true,"vault":"x"}', (7, "damaged")),
        ('{"format":1}', (7, "damaged")),
        ('{"format":1,"vault":7}', (7, "damaged")),
        ("[" * 100_000, (7, "damaged")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_format(project, form, code):
    """A vault of a newer format is refused as that, exit 8; a format file that is none, as damage, exit 7. Neither is written to."""
    project.healthy = False
    project.start()
    (project.vault / ".muniment" / "format.json").write_text(form)
    before = project.tree()
    for words in (("start", "--actor", "codex"), ("status",), ("recall", "a.b"), ("doctor",), ("doctor", "--fix"), ("rebuild",)):
        assert project.call(*words).code == code, words
    assert project.cli("start", "--actor", "codex").code == code
    assert project.tree() == before


def test_unknown_kind_of_record(project):
    """A record of a kind that this engine does not know stops writing, exit 8; reading goes on up to there, saying so."""
    project.healthy = False
    engine = project.engine
    run = project.start()
    project.fact(run, "a.b")
    path = next((project.vault / ".muniment" / "ledger").iterdir())
    last = json.loads(path.read_bytes().splitlines()[-1])["head"]
    body = engine.canonical({"salt": "0" * 32, "wish": "x"})
    head = {
        "at": "2999-01-01T00:00:00.000Z",
        "body": engine.sha256(body),
        "kind": "wish",
        "prev": engine.sha256(engine.canonical(last)),
        "seq": last["seq"] + 1,
        "unit": 1,
    }
    path.write_bytes(path.read_bytes() + ('{"body":%s,"head":%s}\n' % (body, engine.canonical(head))).encode())
    before = project.ledger()
    reply = project.cli("recall", "a.b")
    assert (reply.status, len(reply["warnings"])) == (0, 1)
    for words in (("start", "--actor", "codex"), ("journal", "--run", run, "--text", "x"), ("sync", "--run", run)):
        assert project.cli(*words).code == (8, "newer-format")
    assert project.ledger() == before


def test_ledger_line_too_long(project):
    """A ledger line over 256 KiB is damage: decisions pause, exit 7, and reading goes on."""
    project.healthy = False
    run = project.start()
    project.fact(run, "a.b")
    path = next((project.vault / ".muniment" / "ledger").iterdir())
    lines = path.read_bytes().count(b"\n")
    path.write_bytes(path.read_bytes() + b'{"body":"' + b"x" * 262_144 + b'"}\n')
    before = project.ledger()
    reply = project.cli("sync", "--run", run)
    assert (reply.code, reply.error["kind"], reply.error["line"]) == ((7, "damaged"), "too-long", lines + 1)
    assert project.cli("recall", "a.b").status == 0
    assert project.ledger() == before


def test_two_commands_at_once(project):
    """A command that finds the lock held waits as long as it is told, then says who holds it, exit 6, and may be tried again."""
    engine = project.engine
    run = project.start()
    before = project.ledger()
    vault = engine.open_vault(str(project.vault))
    with engine.hold(vault, 0, {"pid": 4711, "command": "sync", "run": run, "since": "2026-11-30T08:00:00.000Z"}):
        started = time.monotonic()
        reply = project.cli("journal", "--run", run, "--text", "x", "--lock-wait", "1")
        assert time.monotonic() - started >= 1
        assert (reply.code, reply.error["retry"], reply.err.count("\n")) == ((6, "busy"), True, 1)
        assert "4711" in reply.error["message"]
        assert project.cli("start", "--actor", "claude", "--lock-wait", "0").code == (6, "busy")
        assert project.ledger() == before
    assert project.cli("journal", "--run", run, "--text", "x", "--lock-wait", "1").status == 0


def test_the_lock_is_waited_for(project):
    """A command that waits goes on as soon as the lock is free."""
    engine = project.engine
    run = project.start()
    held = engine.hold(engine.open_vault(str(project.vault)), 0, {"pid": 4711, "command": "sync", "since": "x"})
    timer = threading.Timer(0.3, held.__exit__)
    timer.start()
    reply = project.cli("journal", "--run", run, "--text", "x", "--lock-wait", "30")
    timer.join()
    assert reply.status == 0


def test_two_processes(project):
    """Two commands that start at the same time are both done, one after the other."""
    replies = []
    threads = [threading.Thread(target=lambda n=n: replies.append(project.cli("start", "--actor", f"a{n}"))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [0] * 4
    assert len({reply["run"] for reply in replies}) == 4
