#!/usr/bin/env python3
"""Measure how well questions are answered, and what search costs.

    python bench/search.py --model FOLDER --notes DIR --questions FILE [--ops DIR ...] [--copies N]

Needs sqlite-vec, numpy, onnxruntime and tokenizers; with sentence-transformers, torch and onnx too a model folder without
an onnx file is exported first. DIR of notes holds Markdown files; each DIR of operations holds files of operations for
`apply` (`ops.jsonl`, or `S01-<speaker>.jsonl` one a run) and `questions.jsonl`. Every vault is made anew.

Prints Markdown tables: quality by set, mode and group; speed against what it is compared with, in the same run; and how
many of 30 planted duplicates and contradictions among 500 facts are suggested. Figures are of one run on one machine: the
ratios travel. Times of processes are medians, of the engine with its bytecode cached as an installed command has it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = dict[str, Any]
ENGINE = Path(__file__).resolve().parent.parent / "engine.py"
FLOOR = "import argparse, json, hashlib, sqlite3"
RUN = "import engine; engine.run()"
#: What reading and hashing the notes costs in plain Python, without a start of it.
HASHING = """
import hashlib, os, sys, time
started = time.perf_counter()
for folder, folders, files in os.walk(sys.argv[1]):
    for name in files:
        if name.endswith(".md"):
            with open(os.path.join(folder, name), "rb") as file:
                hashlib.sha256(file.read()).hexdigest()
print((time.perf_counter() - started) * 1000)
"""
#: Loading the model and embedding one line, by hand.
BY_HAND = """
import sys, numpy, onnxruntime
from tokenizers import Tokenizer
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
tokenizer = Tokenizer.from_file(sys.argv[2])
tokenizer.no_padding()
one = tokenizer.encode(sys.argv[3])
ids = numpy.array([one.ids])
given = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
session.run(None, {i.name: given[i.name] for i in session.get_inputs()})[0].mean(axis=1)
"""
QUESTIONS = ("loop over the items of a dictionary", "which process listens on a port", "undo the last commit", "how to center a box")
REPEATS = 9


def load_engine() -> Any:
    """Return the checkout's engine as a module."""
    spec = importlib.util.spec_from_file_location("engine", ENGINE)
    if spec is None or spec.loader is None:
        raise SystemExit("search.py: cannot load %s" % ENGINE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bench:
    """A folder in which vaults are made, the engine in this process, and the engine as a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engine = folder, load_engine()
        names = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MUNIMENT"))}
        self.environ = {**names, "PYTHONPATH": str(ENGINE.parent), "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
                        "MUNIMENT_MODELS": str(folder / "models")}
        for name in ("MUNIMENT_VAULT", "MUNIMENT_INDEX_ROOT"):
            os.environ.pop(name, None)
        os.environ["MUNIMENT_MODELS"] = self.environ["MUNIMENT_MODELS"]

    def do(self, *words: Any) -> Row:
        """Give one command in this process; return its result, or stop with its error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = self.engine.main([*map(str, words), "--json"])
        if status not in (0, 4):
            raise SystemExit("search.py: %s: exit %d: %s" % (" ".join(map(str, words)), status, err.getvalue()))
        return dict(json.loads(out.getvalue()))

    def time_ms(self, *words: Any, repeats: int = REPEATS) -> float:
        """Return the median time of a Python process in milliseconds."""
        took = []
        for _ in range(repeats):
            started = time.perf_counter()
            done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, env=self.environ, check=False)
            took.append((time.perf_counter() - started) * 1000)
            if done.returncode:
                raise SystemExit("search.py: %s: exit %d: %s" % (words[-1], done.returncode, done.stderr.decode("utf-8", "replace")))
        return statistics.median(took)

    def time_search(self, vault: Path, question: str, *options: str) -> tuple[float, float, float]:
        """Return the medians of the times of a search process and of its sweep, in milliseconds, and of the differences."""
        took, swept = [], []
        for _ in range(REPEATS):
            took.append(self.time_ms("-c", RUN, "search", question, *options, "--vault", vault, repeats=1))
            swept.append(float(self.do("index", "--status", "--vault", vault)["swept_ms"]))
        less = [whole - part for whole, part in zip(took, swept)]
        return statistics.median(took), statistics.median(swept), statistics.median(less)


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print a Markdown table."""
    head = list(head)
    print("| %s |\n|%s" % (" | ".join(head), "---|" * len(head)))
    for row in rows:
        print("| %s |" % " | ".join("%.3f" % cell if isinstance(cell, float) else str(cell) for cell in row))
    print(flush=True)


def make_notes(bench: Bench, notes: Path, copies: int = 1) -> Path:
    """Return a vault that holds the notes; each copy but the first has a tail of its own, so that no text is twice."""
    vault = bench.folder / ("notes-%d" % copies)
    bench.do("init", vault)
    dice = random.Random(1)  # noqa: S311 - the same vault each time, no secret
    for n in range(copies):
        place = vault / ("copy-%02d" % n) if n else vault
        for path in sorted(notes.rglob("*.md")):
            target = place / path.relative_to(notes)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text("utf-8")
            tail = " ".join(dice.choices(re.findall(r"[a-z]+", text) or ["nothing"], k=20))
            target.write_text(text + ("\n\n%s\n" % tail if n else ""), "utf-8")
    return vault


def make_runs(bench: Bench, operations: Path) -> Path:
    """Return a vault in which every file of operations was a run."""
    vault = bench.folder / operations.name
    bench.do("init", vault)
    for path in sorted(operations.glob("*.jsonl")):
        if path.name != "questions.jsonl":
            actor = re.sub(r"^S[0-9]+-", "", path.stem)
            run = bench.do("start", "--actor", actor, "--vault", vault)["run"]
            bench.do("apply", "--run", run, path, "--vault", vault)
            bench.do("close", "--run", run, "--outcome", "success", "--summary", "Done.", "--vault", vault)
    return vault


def report_quality(bench: Bench, sets: list[tuple[str, Path, Path, list[str]]]) -> None:
    """Print how well each set is answered, by mode and group; sets of one name are taken together."""
    names = ("hit1", "hit5", "hit10", "recall5", "mrr10", "wrong", "tokens5", "p50_ms")
    sums: dict[tuple[str, str, str], list[Row]] = {}
    for name, vault, questions, options in sets:
        for run in bench.do("eval", questions, "--mode", "all", *options, "--vault", vault)["runs"]:
            sums.setdefault((name, run["mode"], run["group"]), []).append(run)
    rows = []
    for (name, mode, group), runs in sums.items():
        total = sum(run["questions"] for run in runs)
        rows.append([name, mode, group, total, *(sum(run[n] * run["questions"] for run in runs) / total for n in names)])
    table(("set", "mode", "group", "questions", *names), rows)


def report_processes(bench: Bench, vault: Path, large: Path | None, model: Row) -> None:
    """Print what a whole process costs against its floor: a sweep, a search by words, a hybrid one."""
    floor = bench.time_ms("-c", FLOOR)
    hashed = statistics.median(float(subprocess.run([sys.executable, "-c", HASHING, vault], capture_output=True, check=True).stdout)
                               for _ in range(REPEATS))
    rows: list[list[Any]] = []
    for where in filter(None, (vault, large)):
        chunks = bench.do("index", "--status", "--vault", where)["chunks"]
        for question in QUESTIONS:
            took, swept, less = bench.time_search(where, question, "--mode", "lexical")
            rows.append(["words, %d chunks: %s" % (chunks, question), took, swept, less, floor, less / floor])
            if where == vault and question == QUESTIONS[0]:
                rows.append(["sweep with nothing to do", swept, swept, swept, hashed, swept / hashed])
    by_hand = bench.time_ms("-c", BY_HAND, model["onnx"], model["tokenizer"], QUESTIONS[0])
    took, swept, less = bench.time_search(vault, QUESTIONS[0], "--mode", "hybrid")
    rows.append(["hybrid, fresh process", took, swept, less, by_hand, less / by_hand])
    table(("process, ms", "whole", "its sweep", "less it", "compared with", "ratio"), rows)


def report_embedding(bench: Bench, vault: Path, notes: Path) -> None:
    """Print the time of an index against raw encoding of the same inputs, and of one changed note."""
    engine = bench.engine
    bench.do("index", "--rebuild", "--vault", vault)  # the model's files are in the system's cache from here on
    started = time.perf_counter()
    result = bench.do("index", "--rebuild", "--vault", vault)
    whole = time.perf_counter() - started
    encoder = engine.load_encoder(engine.find_model(os.environ["MUNIMENT_MODELS"], None))
    inputs: dict[str, int] = {}
    encode = engine.Encoder.encode

    def keep(self: Any, texts: list[str], question: bool = False) -> Any:
        inputs.update(dict.fromkeys(texts, 1))
        return encode(self, texts, question)

    engine.Encoder.encode = keep
    bench.do("index", "--rebuild", "--vault", vault)
    engine.Encoder.encode = encode
    texts = sorted(inputs, key=len)
    started = time.perf_counter()
    for n in range(0, len(texts), 64):
        encoder.encode(texts[n:n + 64])
    raw = time.perf_counter() - started
    rows: list[list[Any]] = [["index of %d files, %d chunks" % (result["files"], result["chunks"]), whole],
                             ["raw encoding of its %d texts" % len(texts), raw], ["raw over index", raw / whole]]
    path = vault / next(iter(sorted(notes.rglob("*.md")))).relative_to(notes)
    text = path.read_text("utf-8")
    took = []
    for n in range(REPEATS):
        path.write_text(text + "\n\nParagraph %d, about nothing that was here before.\n" % n, "utf-8")
        took.append(bench.time_ms("-c", RUN, "index", "--vault", vault, repeats=1) / 1000)
    path.write_text(text, "utf-8")
    bench.do("index", "--vault", vault)
    rows.append(["one changed note, fresh process", statistics.median(took)])
    table(("embedding", "s"), rows)


def report_staying(bench: Bench, vault: Path) -> None:
    """Print the median time of a question in a process that stays, less its sweep, by mode, and over how many chunks."""
    questions = bench.folder / "p50.jsonl"
    lines = [json.dumps({"q": "%s %s" % (question, n), "answers": ["none"]}) for question in QUESTIONS for n in range(20)]
    questions.write_text("\n".join(lines), "utf-8")
    runs = bench.do("eval", questions, "--mode", "all", "--vault", vault)["runs"]
    chunks = bench.do("index", "--status", "--vault", vault)["chunks"]
    table(("a process that stays", "chunks", "p50, ms"), [[run["mode"], chunks, run["p50_ms"]] for run in runs if run["group"] == "all"])


NAMES = """checkout billing search catalog cart inventory pricing shipping returns loyalty reviews accounts sessions gateway mailer
notifier reports exports imports scheduler crawler thumbnails uploads webhooks ledger payouts refunds coupons taxes addresses
geocoder translations consents audit metrics tracing alerts backups archive chat kiosk warehouse"""
#: Attribute: another name for it, three phrasings, values.
ATTRIBUTES: dict[str, tuple[str, tuple[str, str, str], tuple[str, ...]]] = {
    "port": ("endpoint", ("The {E} service listens on port {v}.", "{E} is reached on port {v}.", "Requests for {E} go to port {v}."),
             tuple(str(n) for n in range(8001, 8090, 3))),
    "store": ("database", ("{E} data lives in {v}.", "We keep the records of {E} in {v}.", "{v} is the database behind {E}."),
              ("PostgreSQL", "MySQL", "SQLite", "MongoDB", "DynamoDB", "Redis")),
    "owner": ("maintainers", ("{v} owns the {E} service.", "Questions about {E} go to {v}.", "The people who maintain {E} are {v}."),
              ("Team Heron", "Team Otter", "Team Lynx", "Team Badger")),
    "retry": ("attempts", ("{E} retries a failed call {v} times.", "After {v} failed calls {E} gives up.",
                           "A call that fails is tried {v} times by {E}."), tuple("234567")),
    "timeout": ("deadline", ("Calls to {E} time out after {v} seconds.", "{E} has {v} s to answer before the caller stops waiting.",
                             "A request to {E} is abandoned after {v} seconds."), ("5", "10", "15", "20", "30", "45")),
    "language": ("code", ("{E} is written in {v}.", "The code of {E} is {v}.", "{v} is the language of {E}."),
                 ("Go", "Rust", "Python", "Kotlin", "Elixir")),
    "release": ("deploys", ("{E} is released every {v}.", "New versions of {E} go out on {v}.", "Deployments of {E} happen each {v}."),
                ("Monday", "Tuesday", "Wednesday", "Thursday")),
    "cache": ("expiry", ("{E} caches its answers for {v} minutes.", "An answer of {E} stays in the cache for {v} minutes.",
                         "Cached responses of {E} expire after {v} minutes."), ("3", "8", "12", "25", "40", "60")),
    "logs": ("log-format", ("{E} writes its logs as {v}.", "Log lines of {E} are {v}.", "The log format of {E} is {v}."),
             ("JSON", "logfmt", "plain text", "CSV")),
    "auth": ("login", ("{E} accepts {v} tokens.", "Callers of {E} identify themselves with {v}.",
                       "{v} is how {E} authenticates its callers."),
             ("OAuth", "JWT", "SAML", "mTLS")),
    "region": ("hosting", ("{E} runs in {v}.", "The {E} machines stand in {v}.", "{v} is the region that hosts {E}."),
               ("Frankfurt", "Dublin", "Oregon", "Singapore")),
    "backfill": ("gaps", ("{E} is backfilled by the job {v}.", "The job {v} fills gaps of {E}.",
                          "Missing rows of {E} come from the job {v}."),
                 ("nightly-a", "nightly-b", "weekly-c", "hourly-d")),
}


#: Sets of facts whose suggestions are counted; none of them was looked at when the rules were made.
SEEDS = (11, 12, 13, 14, 15)


def plant(seed: int) -> tuple[list[tuple[str, str]], dict[frozenset[str], str]]:
    """Return 500 facts as (key, text), of which 15 say another again and 15 contradict one; and the pairs with what they are."""
    dice = random.Random(seed)  # noqa: S311 - the same facts each time, no secret
    subjects = [(area, attribute) for area in NAMES.split() for attribute in ATTRIBUTES]
    dice.shuffle(subjects)
    facts, values, truth = [], {}, {}
    for area, attribute in subjects[:470]:
        _, phrasings, choices = ATTRIBUTES[attribute]
        values[area, attribute] = dice.choice(choices)
        facts.append(("%s.%s" % (area, attribute), phrasings[0].format(E=area.capitalize(), v=values[area, attribute])))
    for n, (area, attribute) in enumerate(dice.sample(subjects[:470], 30)):
        other, phrasings, choices = ATTRIBUTES[attribute]
        held = values[area, attribute]
        value = held if n < 15 else dice.choice([choice for choice in choices if choice != held])
        text = phrasings[dice.choice((1, 2))].format(E=area, v=value)
        facts.append(("%s.%s" % (area, other), text[0].upper() + text[1:]))
        truth[frozenset(("%s.%s" % (area, attribute), facts[-1][0]))] = "duplicate" if n < 15 else "contradiction"
    return facts, truth


def report_suggestions(bench: Bench) -> None:
    """Print how many of the planted pairs are suggested, and how many suggestions are planted pairs, over several sets of facts."""
    counts = {name: [0, 0, 0, 0] for name in ("with vectors", "by words")}
    for seed in SEEDS:
        vault, (facts, truth) = bench.folder / ("facts-%d" % seed), plant(seed)
        bench.do("init", vault)
        run = bench.do("start", "--actor", "owner", "--vault", vault)["run"]
        lines = bench.folder / "facts.jsonl"
        lines.write_text("".join(json.dumps({"do": "propose", "key": key, "tier": 1, "kind": "fact", "new_subject": True, "text": text,
                                             "source": "user", "trust": "confirmed"}) + "\n" for key, text in facts), "utf-8")
        bench.do("apply", "--run", run, lines, "--vault", vault)
        bench.do("close", "--run", run, "--outcome", "success", "--summary", "Done.", "--vault", vault)
        bench.do("index", "--vault", vault)
        for name, options in (("with vectors", ()), ("by words", ("--mode", "lexical"))):
            found = bench.do("search", "--suggest", *options, "--vault", vault)["suggestions"]
            pairs = {frozenset(one["key"] for one in row["pair"]): row["kind"] for row in found}
            right = [pair for pair in pairs if pair in truth]
            new = (len(pairs), len(right), len(truth), sum(pairs[pair] == truth[pair] for pair in right))
            counts[name] = [old + more for old, more in zip(counts[name], new)]
    table(("suggestions", "made", "precision", "recall", "kind right, of those"), [
        [name, made, right / max(1, made), right / planted, kind / max(1, right)] for name, (made, right, planted, kind) in counts.items()])


def main() -> None:
    """Make the vaults, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path, help="a model folder")
    parser.add_argument("--notes", required=True, type=Path, help="a folder of Markdown notes")
    parser.add_argument("--questions", required=True, type=Path, help="questions about the notes")
    parser.add_argument("--ops", nargs="*", default=[], type=Path, help="folders of operations with questions.jsonl")
    parser.add_argument("--copies", type=int, default=17, help="copies of the notes in the large vault; 0 leaves it out")
    parser.add_argument("--parts", default="quality,speed,suggestions", help="what to measure")
    args = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(os.path.realpath(folder)))
        bench.do("model", "add", args.model.resolve(), "--as", "measured")
        model = bench.engine.find_model(os.environ["MUNIMENT_MODELS"], None)
        notes = make_notes(bench, args.notes)

        def quality() -> None:
            sets: list[tuple[str, Path, Path, list[str]]] = [("notes", notes, args.questions, [])]
            for path in args.ops:
                name = re.sub(r"-?[0-9]+$", "", path.name)
                sets.append((name, make_runs(bench, path), path / "questions.jsonl", ["--in", "journal"]))
            report_quality(bench, sets)

        def speed() -> None:
            report_embedding(bench, notes, args.notes)
            twice = make_notes(bench, args.notes, 2)
            bench.do("index", "--vault", twice)
            report_staying(bench, twice)
            large = make_notes(bench, args.notes, args.copies) if args.copies else None
            if large:
                bench.time_ms("-c", RUN, "search", "anything", "--mode", "lexical", "--vault", large, repeats=1)
            report_processes(bench, notes, large, model)

        parts.update(quality=quality, speed=speed, suggestions=lambda: report_suggestions(bench))
        for part in args.parts.split(","):
            parts[part]()


if __name__ == "__main__":
    main()
