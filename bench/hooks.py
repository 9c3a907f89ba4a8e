#!/usr/bin/env python3
"""Measure what the hooks of an agent cost, and that the cost does not grow with history.

    python bench/hooks.py [--sizes 100,10000] [--repeats 15] [--python PYTHON] [--keep DIR]

Grows a project's vault for each size as bench/core.py does, and calls `hook` as an agent does: a process of its own that
gets an event on standard input, through a launcher that imports the engine, so that its bytecode is cached. Every time is of
a whole process, the median of the repeats; the floor is that of bench/core.py, measured before each. A session is started,
started again after a compaction that was noted, and ended; one elsewhere is left alone. Claude Code stops its hooks for the
end of a session after 1.5 seconds unless their settings give them more.

The figures are of one run on one machine. They prove nothing elsewhere; the ratios travel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import core

if TYPE_CHECKING:
    from collections.abc import Callable

    Times = dict[tuple[str, int], list[float]]

#: What is called, by name: the agent, the event, and what its input says else.
CALLS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("session-start", "claude", "session-start", {"hook_event_name": "SessionStart", "source": "startup"}),
    ("pre-compact", "claude", "pre-compact", {"hook_event_name": "PreCompact", "trigger": "auto"}),
    ("session-start after it", "claude", "session-start", {"hook_event_name": "SessionStart", "source": "compact"}),
    ("session-end", "claude", "session-end", {"hook_event_name": "SessionEnd", "reason": "other"}),
    ("session-start, looking for old sessions", "gemini", "session-start", {"hook_event_name": "SessionStart", "source": "startup"}),
    ("session-end of it", "gemini", "session-end", {"hook_event_name": "SessionEnd", "reason": "exit"}),
    ("session-start elsewhere", "claude", "session-start", {"hook_event_name": "SessionStart", "source": "startup", "cwd": os.sep}),
)
LAUNCHER = "import sys\nsys.path.insert(0, %r)\nimport engine\nengine.run()\n"


def clock(words: list[str], given: bytes = b"", now: Callable[[], float] = time.perf_counter) -> tuple[float, bytes]:
    """Return how many seconds a process took that was given some input, and what it printed."""
    started = now()
    done = subprocess.run(words, input=given, capture_output=True, env=core.environment(), check=False)
    took = now() - started
    if done.returncode:
        raise SystemExit("hooks.py: %s: exit %d\n%s" % (" ".join(words), done.returncode, done.stderr.decode("utf-8", "replace")))
    return took, done.stdout


def prepare(checkout: Path, folder: Path, sizes: list[int]) -> tuple[Path, dict[int, Path]]:
    """Lay the engine with its launcher, and grow a project for each size; return the launcher and the projects."""
    engine = Path(shutil.copy(checkout / "engine.py", folder))
    shutil.copytree(checkout / "templates", folder / "templates", dirs_exist_ok=True)
    launcher = folder / "launcher.py"
    launcher.write_text(LAUNCHER % str(folder), encoding="utf-8")
    projects = {size: folder / ("project-%d" % size) for size in sizes}
    for size, project in projects.items():
        project.mkdir(exist_ok=True)
        core.prepare(engine, project / "memory", size)
    return launcher, projects


def measure(call: list[str], projects: dict[int, Path], n: int, times: Times, now: Callable[[], float]) -> None:
    """Call every hook once in every project, each after the floor."""
    for name, agent, event, said in CALLS:
        for size, project in projects.items():
            times.setdefault(("floor", 0), []).append(clock([call[0], "-c", core.FLOOR], now=now)[0])
            given = json.dumps({"session_id": "bench-%d-%d" % (os.getpid(), n), "cwd": str(project), **said}).encode()
            took, answer = clock([*call, "hook", event, "--agent", agent, "--project", str(project)], given, now)
            if bool(answer) != (event == "session-start" and "cwd" not in said):
                raise SystemExit("hooks.py: %s answered %r" % (name, answer[:200]))
            times.setdefault((name, size), []).append(took)


def main() -> None:
    """Grow, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parent.parent, help="what is measured")
    parser.add_argument("--python", default=sys.executable, help="the Python that is measured; default this one")
    parser.add_argument("--sizes", default="100,10000", help="runs of the vaults, default 100,10000")
    parser.add_argument("--repeats", type=int, default=15, help="default 15")
    parser.add_argument("--cpu", action="store_true", help="take processor time instead of elapsed time, where others use the machine too")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="work here, and use the large vaults that were grown here before")
    args = parser.parse_args()
    sizes = sorted({int(size) for size in args.sizes.split(",")})
    folder = args.keep.resolve() if args.keep else Path(tempfile.mkdtemp(prefix="muniment-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        launcher, projects = prepare(args.checkout, folder, sizes)
        times: Times = {}
        for n in range(args.repeats + 1):
            measure([args.python, str(launcher)], projects, n, times, core.processor_s if args.cpu else time.perf_counter)
            if n == 0:  # the first of all brings bytecode and pages into memory
                times = {}
        floor = statistics.median(times["floor", 0]) * 1000
        version = clock([args.python, "-c", "import platform; print(platform.python_version())"])[1].decode().strip()
        print("%s, Python %s, %d processors; medians of %d, %s time.\n" % (
            platform.platform(), version, os.cpu_count() or 1, args.repeats, "processor" if args.cpu else "elapsed"))
        rows = [["`hook`, ms at runs:", *("%d" % size for size in sizes), "growth", "times the floor", "longest"]]
        for name, *_ in CALLS:
            ms = [statistics.median(times[name, size]) * 1000 for size in sizes]
            longest = max(max(times[name, size]) for size in sizes) * 1000
            rows.append([name, *("%.0f" % t for t in ms), "%.2f" % (ms[-1] / ms[0]), "%.2f" % (ms[-1] / floor), "%.0f" % longest])
        print(core.table(rows))
        print("Floor: %.0f ms." % floor)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
