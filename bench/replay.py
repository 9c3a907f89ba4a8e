#!/usr/bin/env python3
"""Replay a folder of operation files with two agents at once, and check that all of it is there.

    python bench/replay.py OPERATIONS VAULT [--twice] [--engine engine.py]

OPERATIONS holds files named S01-<speaker>.jsonl, S02-<speaker>.jsonl and so on, each with the
operations of one run, as `apply` takes them. Each speaker is a process of its own that goes
through its sessions in order: `start`, `apply`, `close`, by real commands on one vault. Then
every entry and subject must be there, `recall` must find each key with its last text, `doctor
--strict` must be clean, and MEMORY.md must keep its ceilings with INDEX.md holding the rest.
--twice replays into another vault beside the first and compares the facts: text, tier, tags,
and evidence by ref. Exit status 1 if anything is not as it should be.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def command(engine: str, vault: str, *words: str) -> tuple[int, dict[str, Any], float]:
    """Run one command of the engine; return its exit status, its result or error, and the seconds it took."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, engine, *words, "--vault", vault, "--json"], capture_output=True, check=False)
    took = time.perf_counter() - started
    said = done.stdout or done.stderr
    try:
        return done.returncode, json.loads(said), took
    except ValueError:
        raise SystemExit("replay.py: %s: exit %d\n%s" % (" ".join(words), done.returncode, said.decode("utf-8", "replace"))) from None


def find_sessions(folder: Path) -> dict[str, list[Path]]:
    """Return the operation files of each speaker, in the order of the sessions."""
    sessions: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        found = re.fullmatch(r"S[0-9]+-(.+)\.jsonl", path.name)
        if found:
            sessions.setdefault(found.group(1), []).append(path)
    if not sessions:
        raise SystemExit("replay.py: no file named like S01-<speaker>.jsonl in %s" % folder)
    return sessions


def speak(engine: str, vault: str, speaker: str, files: list[Path]) -> dict[str, Any]:
    """Go through one speaker's sessions, each a run; return the seconds of every command, and what did not go well."""
    times: dict[str, list[float]] = {"start": [], "apply": [], "close": []}
    faults: list[str] = []
    for file in files:
        run = ""
        close = ["close", "--outcome", "success", "--summary", file.name]
        for words in (["start", "--actor", speaker], ["apply", str(file)], close):
            status, said, took = command(engine, vault, *words, *(["--run", run] if run else []))
            run = run or said.get("run", "")
            times[words[0]].append(took)
            if status:
                rows = [row for row in said.get("results", ()) if "code" in row] + said.get("held", []) + said.get("beside", [])
                faults.append("%s: %s: exit %d, %s" % (file.name, words[0], status, rows[:3] or said.get("message")))
    return {"times": times, "faults": faults}


def replay(engine: str, vault: str, sessions: dict[str, list[Path]]) -> tuple[list[str], dict[str, list[float]], float]:
    """Make a vault and let all speakers at it at once; return what failed, the times of the commands, and the seconds in all."""
    status, said, _ = command(engine, vault, "init", vault)
    if status:
        raise SystemExit("replay.py: init: %s" % said["message"])
    faults: list[str] = []
    times: dict[str, list[float]] = {}
    started = time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(len(sessions)) as pool:
        for done in [pool.submit(speak, engine, vault, speaker, files) for speaker, files in sessions.items()]:
            result = done.result()
            faults += result["faults"]
            for name, took in result["times"].items():
                times.setdefault(name, []).extend(took)
    return faults, times, time.perf_counter() - started


def expected(sessions: dict[str, list[Path]]) -> tuple[int, Facts]:
    """Return how many entries the files hold, and the last text proposed for each key."""
    entries, texts = 0, {}
    for files in sessions.values():
        for file in files:
            for operation in map(json.loads, filter(str.strip, file.read_text(encoding="utf-8").split("\n"))):
                entries += operation["do"] == "journal"
                if operation["do"] == "propose" and operation.get("op", "set") == "set":
                    texts[operation["key"]] = operation["text"]
    return entries, texts


def read_entries(vault: str) -> dict[str, str | None]:
    """Return the ref of every journal entry by its id, straight from the ledgers."""
    refs = {}
    for path in Path(vault, ".muniment", "ledger").glob("*.jsonl"):
        for record in map(json.loads, path.read_bytes().splitlines()):
            if record["head"]["kind"] == "journal":
                refs["E%d-%s" % (record["head"]["seq"], path.stem)] = record["body"].get("ref")
    return refs


def recall_all(engine: str, vault: str, keys: list[str], refs: dict[str, str | None]) -> Facts:
    """Return what `recall` says of every key that it finds: text, tier, tags, and evidence with refs for ids."""
    facts = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for key, (status, said, _) in zip(keys, pool.map(functools.partial(command, engine, vault, "recall"), keys)):
            if status == 0 and said["status"] == "current":
                now = said["current"]
                facts[key] = (now["text"], now["tier"], now.get("tags"), [refs.get(e, e) if isinstance(e, str) else e
                                                                         for e in now.get("evidence", ())])
    return facts


def check(engine: str, vault: str, sessions: dict[str, list[Path]]) -> tuple[list[str], Facts]:
    """Print what the vault holds; return what is wrong with it, and its facts."""
    entries, texts = expected(sessions)
    refs = read_entries(vault)
    _, status, _ = command(engine, vault, "status")
    exit_status, doctor, took = command(engine, vault, "doctor", "--strict")
    settings = command(engine, vault, "config")[1]["settings"]
    facts = recall_all(engine, vault, sorted(texts), refs)
    subjects, doors = sum(status["tiers"].values()), doctor["doors"]
    memory = Path(vault, "MEMORY.md").read_bytes()
    size, lines = len(memory), memory.count(b"\n")
    print("entries            %d of %d" % (len(refs), entries))
    print("subjects           %d of %d" % (subjects, len(texts)))
    print("recall             %d keys found, %d with the text proposed" % (len(facts), sum(facts[k][0] == texts[k] for k in facts)))
    print("doctor --strict    exit %d, %d errors, %d warnings, %d records, %d views, %.2f s" % (
        exit_status, doctor["errors"], doctor["warnings_count"], doctor["records"], doctor["views"], took))
    print("MEMORY.md          %d of %d bytes, %d of %d lines, %d subjects" % (
        size, settings["hot-bytes"], lines, settings["hot-lines"], doors["hot"]))
    print("INDEX.md           %d subjects by line, %d counted" % (doors["index"], doors["counted"]))
    faults = ["doctor: %s" % finding for finding in doctor["findings"][:5]]
    for wrong, what in ((len(refs) != entries, "entries are missing"), (subjects != len(texts), "subjects are missing"),
                        (any(facts.get(key, [None])[0] != text for key, text in texts.items()), "recall misses a key or its text"),
                        (exit_status != 0, "doctor --strict is not clean"),
                        (size > settings["hot-bytes"] or lines > settings["hot-lines"], "MEMORY.md is over its ceilings"),
                        (doors["hot"] + doors["index"] + doors["counted"] != len(texts), "the doors do not add up")):
        if wrong:
            faults.append(what)
    return faults, facts


def main() -> None:
    """Replay, check and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("operations", type=Path, help="the folder of the operation files")
    parser.add_argument("vault", help="the folder to make the vault in; it must not hold one")
    parser.add_argument("--twice", action="store_true", help="replay into VAULT-again too, and compare the facts")
    parser.add_argument("--engine", default=str(Path(__file__).resolve().parent.parent / "engine.py"))
    args = parser.parse_args()
    sessions = find_sessions(args.operations)
    print("%d sessions of %s" % (sum(map(len, sessions.values())), " and ".join(sessions)))
    faults: list[str] = []
    told: list[Facts] = []
    first = str(Path(args.vault).resolve())
    for vault in (first, first + "-again") if args.twice else (first,):
        failed, times, took = replay(args.engine, vault, sessions)
        print("\n%s: replayed in %.1f s; medians: %s" % (Path(vault).name, took, ", ".join(
            "%s %.0f ms" % (name, statistics.median(t) * 1000) for name, t in times.items())))
        wrong, facts = check(args.engine, vault, sessions)
        faults += failed + wrong
        told.append(facts)
    if args.twice:
        differ = [key for key in told[0].keys() | told[1].keys() if told[0].get(key) != told[1].get(key)]
        print("\nsecond replay      %d of %d facts are the same" % (len(told[0]) - len(differ), len(told[0])))
        faults += ["the replays differ in %s" % ", ".join(sorted(differ)[:5])] if differ else []
    for fault in faults:
        print("WRONG: " + fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
