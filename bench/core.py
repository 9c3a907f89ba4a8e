#!/usr/bin/env python3
"""Measure what the everyday commands cost, and that the cost does not grow with history.

    python bench/core.py [--sizes 100,1000,10000] [--repeats 15] [--python PYTHON] [--keep DIR]

Makes a clean environment, installs the checkout into it, grows one vault for each size, and
prints Markdown tables. A run of a grown vault has two journal entries and two proposals: one
changes the one subject that every run changes, the other is a new subject in two of three
runs and changes an earlier one else. Texts are long enough that 100 runs fill MEMORY.md, so
that the vaults differ in their history alone. Every time is of a whole process, the median of
the repeats. Before each measured command the floor is measured: the same Python importing
argparse, json, hashlib and sqlite3 and doing nothing, so that drift of the machine hits both.

The figures are of one run on one machine. They prove nothing elsewhere; the ratios travel.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: What every command must import; it can be no faster than this.
FLOOR = "import argparse, json, hashlib, sqlite3"
COMMANDS = ("start", "journal", "propose", "propose new", "sync", "close", "recall", "status")
#: The subject that every run changes.
FOCUS = "project.focus"
#: A kept vault is measured in place, so each measuring adds runs; smaller ones are grown anew.
KEPT_RUNS_MIN = 2_000
TEXT_WORDS = 60
APPLY_OPERATIONS = 10_000
#: Runs one command of the engine in this process and says what it opened and synced.
PROBE = """
import importlib.util, io, json, os, sys
spec = importlib.util.spec_from_file_location("engine", sys.argv[1])
engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine)
counts = {"opens": 0, "fsyncs": 0}
fsync = os.fsync
def counted(descriptor):
    counts["fsyncs"] += 1
    fsync(descriptor)
os.fsync = counted
root = os.path.realpath(sys.argv[2])
def hook(event, args):
    if event == "sqlite3.connect" or (event == "open" and isinstance(args[0], str) and os.path.realpath(args[0]).startswith(root)):
        counts["opens"] += 1
sys.addaudithook(hook)
out, sys.stdout = sys.stdout, io.StringIO()
status = engine.main(sys.argv[3:] + ["--vault", sys.argv[2], "--json"])
said, sys.stdout = sys.stdout.getvalue(), out
print(json.dumps({"status": status, "said": json.loads(said), **counts}))
"""


def environment() -> dict[str, str]:
    """Return this process's environment without what would change Python's or the engine's start."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MUNIMENT", "VIRTUAL_ENV"))}


def make_venv(folder: Path, python: str, checkout: Path) -> Path:
    """Make an environment with the checkout installed, and return the folder of its programs."""
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True, env=environment())
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(checkout)]
    subprocess.run(install, check=True, env=environment())
    return programs


def processor_s() -> float:
    """Return the seconds of processor time that ended child processes took; POSIX only."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def load_engine(path: Path) -> Any:
    """Return the engine at ``path`` as a module."""
    spec = importlib.util.spec_from_file_location("engine", path)
    if spec is None or spec.loader is None:
        raise SystemExit("core.py: cannot load %s" % path)
    engine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(engine)
    return engine


def grow(path: Path, vault: Path, runs: int, seed: int = 1) -> None:
    """Grow a vault to ``runs`` runs by the engine's own commands, called in this process.

    Waits for no disk and renders no view meanwhile; `rebuild` renders them all at the end.
    """
    engine, dice = load_engine(path), random.Random(seed)  # noqa: S311 - the same vault each time, no secret
    now = time.time_ns() // 1_000_000 - runs * 600_000

    def do(command: Callable[[Any, dict[str, Any]], dict[str, Any]], **args: Any) -> dict[str, Any]:
        call = engine.Call("grow", str(vault), str(Path.cwd()), lambda: now, os.urandom, 30.0)
        try:
            return command(call, args)
        finally:
            call.close()

    write_views, fsync = engine.write_views, os.fsync
    engine.write_views, os.fsync = lambda _work: None, lambda fd: None  # noqa: ARG005 - as os.fsync has it
    try:
        do(engine.cmd_init, dir=str(vault), tracked=False)
        keys: list[str] = []
        for n in range(runs):
            now += 600_000
            new = n % 3 > 0 or not keys
            if new:
                keys.append("%s.topic-%d" % (dice.choice(AREAS), n))
            lines = [entry("Run %d, entry %d: %s." % (n, m, words(dice, 30))) for m in range(2)]
            lines += [proposal(FOCUS, n == 0, dice), proposal(keys[-1] if new else dice.choice(keys), new, dice)]
            run = do(engine.cmd_start, actor="agent-%d" % (n % 7), session=None)["run"]
            if do(engine.cmd_apply, run=run, lines=lines, atomic=False, allow_secret=False)["failed"]:
                raise SystemExit("core.py: run %d of the vault to grow failed" % n)
            do(engine.cmd_close, run=run, outcome="success", summary="Run %d: %s." % (n, words(dice, 8)), allow_secret=False)
    finally:
        engine.write_views, os.fsync = write_views, fsync
    do(engine.cmd_rebuild)


def prepare(engine: Path, vault: Path, size: int) -> None:
    """Grow a vault, or bring one that was kept in line with this engine."""
    if size >= KEPT_RUNS_MIN and vault.is_dir():
        load_engine(engine).main(["rebuild", "--vault", str(vault)])
        return
    shutil.rmtree(vault, ignore_errors=True)
    started = time.monotonic()
    grow(engine, vault, size)
    print("grew %d runs in %.0f s" % (size, time.monotonic() - started), file=sys.stderr)


AREAS = ("auth", "build", "cache", "checkout", "deploy", "docs", "email", "export", "import", "infra", "login", "metrics",
         "mobile", "orders", "payments", "queue", "reports", "search", "stock", "users")
WORDS = ("the", "retry", "queue", "timeout", "of", "request", "is", "measured", "when", "index", "after", "deploy", "not",
         "flaky", "test", "slow", "page", "user", "token", "and", "order", "cache", "key", "expires", "before", "build")


def words(dice: random.Random, count: int) -> str:
    """Return ``count`` words."""
    return " ".join(dice.choices(WORDS, k=count))


def entry(text: str, **more: Any) -> str:
    """Return the line of `apply` that journals an entry."""
    return json.dumps({"do": "journal", "text": text, **more})


def proposal(key: str, new: bool, dice: random.Random, **more: Any) -> str:
    """Return the line of `apply` that proposes a new text of a subject."""
    text = "%s, %d." % (words(dice, TEXT_WORDS), dice.randrange(10**6))
    return json.dumps({"do": "propose", "key": key, "text": text, **({"tier": 2, "new_subject": True} if new else {}), **more})


class Bench:
    """The programs that are measured, and the times that were taken of them."""

    def __init__(self, programs: Path, engine: Path, now: Callable[[], float]) -> None:
        self.python, self.engine, self.now = str(programs / "python"), str(engine), now
        self.modes = {"installed": [str(programs / "muniment")], "script": [self.python, str(engine)]}
        self.times: dict[tuple[str, str, int], list[float]] = {}
        self.floors: dict[str, list[float]] = {name: [] for name in self.modes}
        self.env = environment()

    def clock(self, words: list[str]) -> tuple[float, str]:
        """Return how many seconds a process took, and what it printed."""
        started = self.now()
        done = subprocess.run(words, capture_output=True, env=self.env, check=False)
        took = self.now() - started
        if done.returncode:
            raise SystemExit("core.py: %s: exit %d\n%s" % (" ".join(words), done.returncode, done.stderr.decode("utf-8", "replace")))
        return took, done.stdout.decode("utf-8")

    def measure(self, mode: str, vaults: dict[int, Path], n: int) -> None:
        """Measure each everyday command once in every vault, each after the floor: what is compared is near in time."""
        runs: dict[int, str] = {}
        for name, command in everyday(n):
            for size, vault in vaults.items():
                words = [*self.modes[mode], *(runs[size] if w == "{run}" else w for w in command), "--vault", str(vault)]
                self.floors[mode].append(self.clock([self.python, "-c", FLOOR])[0])
                took, said = self.clock(words)
                self.times.setdefault((mode, name, size), []).append(took)
                if name == "start":
                    runs[size] = said.split()[1]

    def median_ms(self, mode: str, name: str, size: int) -> float:
        """Return the median of a command's times, in milliseconds."""
        return statistics.median(self.times[mode, name, size]) * 1000

    def floor_ms(self, mode: str) -> float:
        """Return the median of the floors that were measured between a mode's commands, in milliseconds."""
        return statistics.median(self.floors[mode]) * 1000

    def compile_ms(self) -> float:
        """Return how long this Python takes to compile the engine, the median of 9, in milliseconds."""
        code = ("import time; text = open(%r, encoding='utf-8').read(); t = time.process_time(); compile(text, 'engine.py', 'exec');"
                " print(time.process_time() - t)" % self.engine)
        return statistics.median(float(self.clock([self.python, "-c", code])[1]) for _ in range(9)) * 1000

    def count(self, vault: Path) -> dict[str, dict[str, int]]:
        """Return what each everyday command opens below the vault and how often it syncs.

        No new subject is proposed: one may push another from MEMORY.md to INDEX.md, which is then written too, or not.
        """
        counts, run = {}, ""
        for name, command in everyday(0):
            if name == "propose new":
                continue
            words = [self.python, "-c", PROBE, self.engine, str(vault), *(run if w == "{run}" else w for w in command)]
            said = json.loads(self.clock(words)[1])
            run = said["said"]["run"] if name == "start" else run
            counts[name] = said
        return counts

    def json(self, *words: str) -> tuple[float, dict[str, Any]]:
        """Return the seconds and the result of an installed command."""
        took, said = self.clock([*self.modes["installed"], *words, "--json"])
        return took, json.loads(said)


def everyday(n: int) -> list[tuple[str, list[str]]]:
    """Return the everyday commands of one run, by name; {run} stands for its handle."""
    mark = time.time_ns()
    return [
        ("start", ["start", "--actor", "agent-%d" % (n % 7)]),
        ("journal", ["journal", "--run", "{run}", "--text", "Measured again, mark %d." % mark]),
        ("propose", ["propose", "--run", "{run}", "--key", FOCUS, "--text", "Measure what a command costs, mark %d." % mark]),
        ("propose new", ["propose", "--run", "{run}", "--key", "bench.mark-%d" % mark, "--tier", "2", "--new-subject",
                         "--text", "Measured at mark %d." % mark]),
        ("sync", ["sync", "--run", "{run}"]),
        ("close", ["close", "--run", "{run}", "--outcome", "success", "--summary", "Measured."]),
        ("recall", ["recall", FOCUS]),
        ("status", ["status"]),
    ]


def operations(count: int, seed: int = 2) -> str:
    """Return a file of operations for `apply`: as many entries as proposals, half of these of new subjects."""
    dice = random.Random(seed)  # noqa: S311 - as in grow
    keys: list[str] = []
    lines: list[str] = []
    for n in range(count // 2):
        new = n % 2 == 0
        if new:
            keys.append("%s.item-%d" % (dice.choice(AREAS), n))
        lines.append(entry("Entry %d: %s." % (n, words(dice, 30)), ref="N:%d" % n))
        lines.append(proposal(keys[-1] if new else dice.choice(keys), new, dice, evidence=["N:%d" % n]))
    return "".join(line + "\n" for line in lines)


def time_apply(bench: Bench, folder: Path) -> tuple[float, float]:
    """Return the seconds that `apply` takes for its file in a new vault, and `sync` for what it staged."""
    vault, file = str(folder / "applied"), folder / "operations.jsonl"
    shutil.rmtree(vault, ignore_errors=True)
    file.write_text(operations(APPLY_OPERATIONS), encoding="utf-8")
    bench.json("init", vault)
    run = bench.json("start", "--actor", "agent", "--vault", vault)[1]["run"]
    applied, result = bench.json("apply", str(file), "--run", run, "--vault", vault)
    if result["failed"] or result["operations"] != APPLY_OPERATIONS:
        raise SystemExit("core.py: %d of %d operations failed" % (result["failed"], result["operations"]))
    return applied, bench.json("sync", "--run", run, "--vault", vault)[0]


def table(rows: list[list[str]]) -> str:
    """Return a Markdown table; the first row heads it, all columns but the first are numbers."""
    lines = ["| %s |" % " | ".join(row) for row in rows]
    lines.insert(1, "|---|%s" % ("---:|" * (len(rows[0]) - 1)))
    return "\n".join(lines) + "\n"


def report_times(bench: Bench, sizes: list[int]) -> None:
    """Print the medians of each mode, their growth from the smallest to the largest vault, and their distance from the floor."""
    compile_ms = bench.compile_ms()
    for mode in bench.modes:
        floor = bench.floor_ms(mode)
        least = floor + (compile_ms if mode == "script" else 0.0)
        title = "`muniment`, ms at runs:" if mode == "installed" else "`python engine.py`, ms at runs:"
        last = "less compiling" if mode == "script" else "above it"
        rows = [[title, *("%d" % size for size in sizes), "growth", "times the floor", last]]
        for name in COMMANDS:
            ms = [bench.median_ms(mode, name, size) for size in sizes]
            spare = "%.2f" % ((ms[-1] - compile_ms) / floor) if mode == "script" else "%.0f ms" % (ms[-1] - least)
            rows.append([name, *("%.0f" % t for t in ms), "%.2f" % (ms[-1] / ms[0]), "%.2f" % (ms[-1] / floor), spare])
        print(table(rows))
        print("Floor: %.0f ms%s.\n" % (floor, "; compiling engine.py: %.0f ms" % compile_ms if mode == "script" else ""))


def report_counts(bench: Bench, sizes: list[int], vaults: dict[int, Path]) -> None:
    """Print how many files of the vault each command opens in the smallest and the largest vault, and its fsyncs."""
    first, last = bench.count(vaults[sizes[0]]), bench.count(vaults[sizes[-1]])
    rows = [["files opened, fsyncs", "opened at %d runs" % sizes[0], "opened at %d" % sizes[-1], "fsyncs at %d" % sizes[0],
             "fsyncs at %d" % sizes[-1]]]
    rows += [[name, *(str(c[name][what]) for what in ("opens", "fsyncs") for c in (first, last))] for name in first]
    print(table(rows))


def report_whole(bench: Bench, sizes: list[int], vaults: dict[int, Path], folder: Path) -> None:
    """Print what the commands that read everything, and `apply`, do in a second."""
    vault = str(vaults[sizes[-1]])
    rebuilt, proved = bench.json("rebuild", "--vault", vault)[1], bench.json("doctor", "--vault", vault)[1]
    if proved["errors"] or proved["warnings_count"]:
        raise SystemExit("core.py: doctor found %s" % proved["findings"][:3])
    applied, synced = time_apply(bench, folder)
    rows = [["the whole vault of %d runs" % sizes[-1], "done", "s", "a second"]]
    for name, count, ms in (("`rebuild`, folding records", rebuilt["records"], rebuilt["fold_ms"]),
                            ("`rebuild`, rendering views", rebuilt["views"], rebuilt["views_ms"]),
                            ("`doctor`, proving records", proved["records"], proved["ledgers_ms"]),
                            ("`doctor`, comparing cache and views", proved["views"], proved["views_ms"]),
                            ("`apply`, a file of operations, whole process", APPLY_OPERATIONS, applied * 1000),
                            ("`sync` of what that staged, whole process", APPLY_OPERATIONS // 2, synced * 1000)):
        rows.append([name, "%d" % count, "%.2f" % (ms / 1000), "%d" % (count * 1000 / max(ms, 1))])
    print(table(rows))


def main() -> None:
    """Grow, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parent.parent, help="what is installed")
    parser.add_argument("--python", default=sys.executable, help="the Python that is measured; default this one")
    parser.add_argument("--sizes", default="100,1000,10000", help="runs of the vaults, default 100,1000,10000")
    parser.add_argument("--repeats", type=int, default=15, help="default 15")
    parser.add_argument("--cpu", action="store_true", help="take processor time instead of elapsed time, where others use the machine too")
    parser.add_argument("--keep", metavar="DIR", type=Path,
                        help="work here, and use the vaults of %d runs and more that were grown here before" % KEPT_RUNS_MIN)
    args = parser.parse_args()
    sizes = sorted({int(size) for size in args.sizes.split(",")})
    folder = args.keep.resolve() if args.keep else Path(tempfile.mkdtemp(prefix="muniment-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        programs = make_venv(folder / "venv", args.python, args.checkout)
        engine = Path(shutil.copy(args.checkout / "engine.py", folder))  # one for all: the checkout may be edited meanwhile
        vaults = {size: folder / ("vault-%d" % size) for size in sizes}
        for size, vault in vaults.items():
            prepare(engine, vault, size)
        bench = Bench(programs, engine, processor_s if args.cpu else time.perf_counter)
        for n in range(args.repeats + 1):
            for mode in bench.modes:
                bench.measure(mode, vaults, n)
            if n == 0:  # the first of all brings bytecode and pages into memory
                bench.times, bench.floors = {}, {mode: [] for mode in bench.modes}
        print("%s, Python %s, %d processors, engine.py of %d lines; medians of %d%s.\n" % (
            platform.platform(), bench.clock([bench.python, "-c", "import platform; print(platform.python_version())"])[1].strip(),
            os.cpu_count() or 1, engine.read_bytes().count(b"\n"), args.repeats, ", of processor time" if args.cpu else ""))
        report_times(bench, sizes)
        report_counts(bench, sizes, vaults)
        report_whole(bench, sizes, vaults, folder)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
