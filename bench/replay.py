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
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import time
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


def find_sessions(folder: str) -> dict[str, list[str]]:
    """Return the operation files of each speaker, in the order of the sessions."""
    sessions: dict[str, list[str]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "S[0-9]*-*.jsonl"))):
        found = re.fullmatch(r"S[0-9]+-(.+)\.jsonl", os.path.basename(path))
        if found:
            sessions.setdefault(found.group(1), []).append(path)
    if not sessions:
        raise SystemExit("replay.py: no file named like S01-<speaker>.jsonl in %s" % folder)
    return sessions


def speak(engine: str, vault: str, speaker: str, files: list[str]) -> dict[str, Any]:
    """Go through one speaker's sessions, each a run; return the seconds of every command, and what did not go well."""
    times: dict[str, list[float]] = {"start": [], "apply": [], "close": []}
    faults: list[str] = []
    for file in files:
        run = ""
        for words in (["start", "--actor", speaker], ["apply", file], ["close", "--outcome", "success", "--summary", os.path.basename(file)]):
            status, said, took = command(engine, vault, *words, *(["--run", run] if run else []))
            run = run or said.get("run", "")
            times[words[0]].append(took)
            if status:
                rows = [row for row in said.get("results", ()) if "code" in row] + said.get("held", []) + said.get("beside", [])
                faults.append("%s: %s: exit %d, %s" % (os.path.basename(file), words[0], status, rows[:3] or said.get("message")))
    return {"times": times, "faults": faults}


def replay(engine: str, vault: str, sessions: dict[str, list[str]]) -> tuple[list[str], dict[str, list[float]], float]:
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


def expected(sessions: dict[str, list[str]]) -> tuple[int, Facts]:
    """Return how many entries the files hold, and the last text proposed for each key."""
    entries, texts = 0, {}
    for files in sessions.values():
        for file in files:
            with open(file, encoding="utf-8") as lines:
                for line in filter(str.strip, lines):
                    operation = json.loads(line)
                    entries += operation["do"] == "journal"
                    if operation["do"] == "propose" and operation.get("op", "set") == "set":
                        texts[operation["key"]] = operation["text"]
    return entries, texts


def read_entries(vault: str) -> dict[str, str | None]:
    """Return the ref of every journal entry by its id, straight from the ledgers."""
    refs = {}
    for path in glob.glob(os.path.join(glob.escape(vault), ".muniment", "ledger", "*.jsonl")):
        with open(path, encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                if record["head"]["kind"] == "journal":
                    tag = os.path.basename(path).split(".")[0]
                    refs["E%d-%s" % (record["head"]["seq"], tag)] = record["body"].get("ref")
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


def check(engine: str, vault: str, sessions: dict[str, list[str]]) -> tuple[list[str], Facts]:
    """Print what the vault holds; return what is wrong with it, and its facts."""
    entries, texts = expected(sessions)
    refs = read_entries(vault)
    _, status, _ = command(engine, vault, "status")
    exit_status, doctor, took = command(engine, vault, "doctor", "--strict")
    settings = command(engine, vault, "config")[1]["settings"]
    facts = recall_all(engine, vault, sorted(texts), refs)
    subjects, doors = sum(status["tiers"].values()), doctor["doors"]
    with open(os.path.join(vault, "MEMORY.md"), "rb") as file:
        memory = file.read()
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
    parser.add_argument("operations", help="the folder of the operation files")
    parser.add_argument("vault", help="the folder to make the vault in; it must not hold one")
    parser.add_argument("--twice", action="store_true", help="replay into VAULT-again too, and compare the facts")
    parser.add_argument("--engine", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "engine.py"))
    args = parser.parse_args()
    sessions = find_sessions(args.operations)
    print("%d sessions of %s" % (sum(map(len, sessions.values())), " and ".join(sessions)))
    faults: list[str] = []
    told: list[Facts] = []
    for vault in (args.vault, args.vault.rstrip("/\\") + "-again") if args.twice else (args.vault,):
        failed, times, took = replay(args.engine, os.path.abspath(vault), sessions)
        print("\n%s: replayed in %.1f s; medians: %s" % (vault, took, ", ".join(
            "%s %.0f ms" % (name, statistics.median(t) * 1000) for name, t in times.items())))
        wrong, facts = check(args.engine, os.path.abspath(vault), sessions)
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
