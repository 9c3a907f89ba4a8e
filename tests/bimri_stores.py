"""Small BIMRI stores of each version, made from the rules of their formats with invented content."""

from __future__ import annotations

import hashlib
import json

V1 = """\
<!-- BIMRI v1.0 | Last Maintained: 2025-04-02 | Sessions: 7 | Token Est: ~300 -->
<!-- Target: under 12,000 tokens -->

# BIMRI: Memory File

## Tier 1: Core Intelligence
<!-- Durable purpose. -->
- The greenhouse controller is written for a board with 64 KB of memory.
2) Valves fail shut.

[IMPORTANCE:5] [TIMESTAMP:2025-03-01] [TAGS:Owner Wish, safety] [WEIGHT:5.0]
Never open two valves at once.

## Tier 2: Active Context
[IMPORTANCE:3] [TIMESTAMP:2025-03-30] [TAGS:pumps] [WEIGHT:2.4]
Pump two is replaced in April.
[IMPORTANCE:4] [TIMESTAMP:2025-04-01] [TAGS:] [WEIGHT:4.0]
The humidity curve is wrong above 90 %.
It was measured with the old sensor.

## Tier 3: Pattern Recognition
[PATTERN] [CONFIDENCE:DEVELOPING] [OBSERVATIONS:4] [TAGS:style]
The owner asks for tables, not prose.
"""
V2 = V1.replace("v1.0", "v2.0-cc").replace("# BIMRI: Memory File", "# BIMRI Memory") + "\n<!-- END BIMRI -->\n"
V3 = """\
<!-- BIMRI v3.0 | Last Maintained: 2025-06-09 | Sessions: 5 | Token Est: ~250 -->
<!-- Target: under 12,000 tokens | Hard Ceiling: 15,000 tokens -->

# BIMRI: Memory File

## Tier 1: Core Intelligence
The ferry timetable is read by people with poor sight.

## Tier 2: Active Context
[ID:T2-20250601-01] [IMP:4] [CREATED:2025-06-01] [SESSION:2] [LAST_USED:2025-06-08] [LAST_USED_SESSION:5] [TAGS:print,contrast] [W:4.0]
Posters are printed at A2 from September.
[ID:T2-20250608-01] [IMP:2] [CREATED:2025-06-08] [SESSION:5] [LAST_USED:2025-06-08] [LAST_USED_SESSION:5] [TAGS:] [W:2.0]
The summer column may go.

## Tier 3: Pattern Recognition
[Pattern] [Confidence:established] [Observations:6] [Tags:review]
Every poster is read aloud before it is printed.
"""
CA = """\
# BIMRI Memory

<!-- BIMRI v2.1-ca | Active memory only. -->

## Tier 1: Core Intelligence

Permanent project facts.

[ID:R001-E01] [I:5] [STATUS:decision] [FIRST:R001] [LAST:R002] [TAGS:arch]
Scores are kept as fractions.

## Tier 2: Active Context

Entry format:

```text
[ID:R001-E01] [I:3] [STATUS:active] [TTL:5r/14d] [FIRST:R001] [LAST:R001] [TAGS:example] [WEIGHT:3.0]
One concise sentence describing useful active context.
```

[ID:R002-E01] [I:4] [STATUS:active] [TTL:5r/14d] [FIRST:R002] [LAST:R003] [TAGS:import] [WEIGHT:4.0]
The old score sheets are half typed in.
[ID:R002-E02] [I:2] [STATUS:closed] [TTL:2r/4d] [FIRST:R002] [LAST:R002] [TAGS:] [WEIGHT:1.0]
Ask the club for the missing year.

## Tier 3: Pattern Recognition

[PATTERN:P001] [CONFIDENCE:emerging] [OBS:2] [EVIDENCE:R001-E01,R002-E01]
Rounding was the cause of every dispute.
Falsify if: a dispute comes up about something else.

<!-- END BIMRI -->
"""
CA_ARCHIVE = """\
[ID:R001-E02] [I:2] [STATUS:archived] [TTL:5r/14d] [FIRST:R001] [LAST:R001] [TAGS:club] [WEIGHT:0.2]
The club's colours are green and white.
"""
V4 = """\
# BIMRI Memory

<!-- BIMRI v4 | Headlines and pointers only. -->

## Tier 1: Core Intelligence

<!-- Format: [Rnnn-Enn] [decision|fact|pref|rule] [tags] text -->
[R001-E01] [decision] [arch,Units] Weights are grams -> never ounces -> .bimri/log/R001.md
[R002-E01] [rule] [] Read [the old note] first | then ask -> maybe

## Tier 2: Active Context

[R001-E02] [I:3] [watch] [F:R001] [L:R003] [oven,oven] The thermometer drifts by 2 °C. -> log/R001.md
[R002-E02] [I:4] [decision] [F:R002] [L:R002] [flour] Rye comes from the mill in Ås. -> .bimri/log/R002.md
[R003-E02] [I:1] [closed] [F:R003] [L:R003] [] Sweep the floor.
- half a line
A word in passing.

## Tier 3: Pattern Recognition

[P001] [developing] [obs:3] [ev:R001-E02,R003-E01] Loaves fail on damp days. | Falsify: a loaf fails on a dry day.
[P002] [emerging] [obs:1] [ev:R009-E01] The apprentice forgets salt.

<!-- END BIMRI -->
"""
V4_LOGS = {
    "R000-migrated": "# Run R000-migrated\n\n## Journal\n\n[ID:R000-E01] [I:2] The first oven burned wood.\n",
    "R001": """\
# Run R001 | 2026-01-05T08:00:00Z | interactive

## Journal

<!-- Append [ID:R001-Enn] entries as decisions happen. -->
[ID:R001-E01] [I:5] Grams were chosen because the mill's bills are in grams; ounces gave 3.527396 in every recipe.
[ID:R001-E02] [I:3] The oven's thermometer reads low.
  A thought without a number.
### It goes on here.

## Outcome

<!-- Close with: [OUTCOME:success|partial|overflow|fail] one line why -->
[OUTCOME:success] Recipes are converted.
[CLOSED:R001 2026-01-05T09:30Z]
""",
    "R002": """\
# Run R002 | 2026-01-06T08:00Z | interactive

## Journal

## Outcome

<!-- Close with: [OUTCOME:success|partial|overflow|fail] one line why -->
[ID:R002-E01] [I:4] The old note on sourdough is worth reading, see R001-E02.
[ID:R002-E02] [I:4] Rye is bought in Ås now.

[OUTCOME:overflow] run ended without closure, stamped by R003
[CLOSED:R003 2026-01-07T08:00:00Z auto]
""",
    "R003": """\
# Run R003 | 2026-01-07T08:00:00Z | interactive

## Journal
[ID:R003-E01] [I:2] Three loaves failed; it had rained.
[ID:R003-E01] [I:1] The same number was given twice.

## Outcome

<!-- Close with: [OUTCOME:success|partial|overflow|fail] one line why -->
""",
}
V4_ARCHIVE = """\
[ARCHIVED:R003 2026-01-07] [status:closed] [R001-E03] [I:2] [closed] [F:R001] [L:R002] [oven] Clean the flue. -> .bimri/log/R001.md
[ARCHIVED:R002 2026-01-06] [decayed w=0.1 I1] [R001-E02] [I:2] [active] [F:R001] [L:R001] [oven] The thermometer may drift.
[ARCHIVED:R003 2026-01-07] [P003] [emerging] [obs:1] [ev:R001-E01] Bills are wrong in spring. | Falsify: a spring without one.
""" + CA_ARCHIVE.replace("R001-E02", "R000-E02").replace("R001", "R000") + "A line of nobody.\n"
V4_STATE = {"bimri_version": "4.0", "project_id": "unset", "run_count": 3, "current_run_id": "R003", "run_dates": {"R001": "2026-01-05"},
            "last_started_at": "2026-01-07T08:00:00Z", "orphans_stamped": ["R002"]}


def write(folder, files):
    """Write files of text, bytes or JSON below a folder."""
    for path, content in files.items():
        full = folder / path
        full.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, (str, bytes)) else json.dumps(content, indent=2, sort_keys=True) + "\n"
        full.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return folder


def make_ca(folder):
    """Make a v2.1-ca store."""
    state = {"bimri_version": "2.1-ca", "project_id": "score-sheets", "run_count": 3, "current_run_id": "R003",
             "last_started_at": "2025-11-20T10:00:00Z"}
    return write(folder, {"bimri.md": CA, ".bimri/archive/2025-11.md": CA_ARCHIVE, ".bimri/inbox/R003-note.md": "Loose.\n",
                          ".bimri/state.json": state})


def make_v4(folder):
    """Make a v4 store with every kind of line, by an engine and by hand."""
    logs = {".bimri/log/%s.md" % run: text for run, text in V4_LOGS.items()}
    return write(folder, {"bimri.md": V4, ".bimri/state.json": V4_STATE, ".bimri/archive/2026-01.md": V4_ARCHIVE,
                          ".bimri/index.tsv": "id\tloc\n", ".bimri/backups/bimri-20260105-080000.md": "An older copy.\n", **logs})


def sha256(data):
    """Return the SHA-256 of text or bytes."""
    return hashlib.sha256(data.encode("utf-8") if isinstance(data, str) else data).hexdigest()


class Store5:
    """A v5 store as its engine would write it: the same records and revisions, decided as the caller says.

    ``hot`` and ``cold`` are the current lines by key, ``past`` all the accepted values of a key in order, as (op, text).
    """

    def __init__(self, folder, version="5.0.2", first=1):
        self.folder, self.version, self.first = folder, version, first
        self.clock, self.head, self.conflicts = 0, 0, 0
        self.hot, self.cold, self.past, self.tier = {}, {}, {}, {}
        self.runs, self.counts, self.seen, self.proposals, self.decisions = {}, {}, {}, {}, {}
        self.entries = []  # (run, text, importance)
        self.archive, self.cooled = [], {}
        self.commit()

    @property
    def now(self):
        """The time; every look at it takes a second."""
        self.clock += 1
        return "2026-02-03T%02d:%02d:%02dZ" % (8 + self.clock // 3600, self.clock // 60 % 60, self.clock % 60)

    def view(self):
        """Return the head revision's text."""
        tiers = ["", *("\n".join([line for key, line in self.hot.items() if self.tier[key] == tier]) for tier in (1, 2, 3))]
        return ("# BIMRI Memory\n\n<!-- BIMRI v5.0.2 | Generated view. Do not edit directly. -->\n\n## Tier 1: Core Intelligence\n\n"
                "<!-- Capacity: state.json. -->\n%s\n\n## Tier 2: Active Context\n\n%s\n\n## Tier 3: Pattern Recognition\n\n%s\n\n"
                "<!-- END BIMRI -->\n" % tuple(tiers[1:]))

    def record(self, kind, name, value):
        """Write a JSON record and return its bytes' hash."""
        data = json.dumps(dict(value, bimri_version=self.version), indent=2, sort_keys=True) + "\n"
        write(self.folder, {".bimri/%s/%s.json" % (kind, name): data})
        return sha256(data)

    def commit(self):
        """Write the current lines as the head revision, and the view."""
        view = self.view()
        write(self.folder, {".bimri/revisions/V%06d.md" % self.head: view, "bimri.md": view})
        self.state()

    def state(self):
        """Write state.json."""
        active = {run: {"actor": actor, "base_revision": 0, "session_key": None} for run, (actor, is_open) in self.runs.items() if is_open}
        state = {"bimri_version": self.version, "project_id": "unset", "head_revision": self.head, "head_hash": sha256(self.view()),
                 "active_runs": active, "run_count": len(self.runs), "cold_current": self.cooled}
        write(self.folder, {".bimri/state.json": state})

    def log(self, run, line):
        """Append a line to a run's log."""
        with (self.folder / ".bimri/log" / (run + ".md")).open("a", encoding="utf-8", newline="") as file:
            file.write(line + "\n")

    def start(self, actor="tester"):
        """Open a run."""
        run = "R%06d" % (len(self.runs) + self.first)
        self.runs[run], self.counts[run] = (actor, True), [0, 0]
        stub = ("# Run %s | %s | actor:%s | base:V%06d\n\n## Journal\n\n<!-- Use the host. -->\n\n## Proposals\n\n## Outcome\n\n"
                % (run, self.now, actor, self.head))
        write(self.folder, {".bimri/log/%s.md" % run: stub})
        self.look(run)
        self.state()
        return run

    def look(self, run):
        """Let a run see what stands."""
        self.seen[run] = dict(self.hot, **self.cold)

    def journal(self, run, text, importance=3):
        """Add an entry."""
        self.counts[run][0] += 1
        entry = "%s-E%03d" % (run, self.counts[run][0])
        self.log(run, "[ID:%s] [I:%d] %s" % (entry, importance, text))
        self.entries.append((run, text, importance))
        return entry

    def propose(self, run, key, text="", op="set", tier=2, rationale=None, **fields):
        """Propose; fields as in the record."""
        base = self.seen[run].get(key)
        text = text or base.split("] ")[-1]
        entry = self.journal(run, rationale or text, fields.get("importance", 3))
        self.counts[run][1] += 1
        name = "%s-Q%03d" % (run, self.counts[run][1])
        proposal = {
            "proposal_id": name, "run_id": run, "actor": self.runs[run][0], "created_at": self.now, "operation": op, "tier": tier,
            "key": key, "text": text, "entry_id": entry, "target_id": None, "base_revision": 0,
            "base_hash": sha256(base) if base else "absent",
            "kind": "fact", "importance": 3, "status": "active", "first_run": run, "confidence": "emerging", "observations": 1,
            "evidence": [], "falsifier": "", "pattern_id": "P%04d" % len(self.proposals) if tier == 3 else None, "trust": "working",
            "source": "agent", "tags": [], "rationale": rationale or text, "needs_human": False, "question": "", **fields}
        digest = self.record("proposals", name, proposal)
        self.proposals[name] = (proposal, digest)
        self.log(run, "[PROPOSE:%s] [%s] [K:%s] [BASE:%s] %s" % (name, op, key, proposal["base_hash"], text))
        return name

    def decide(self, name, outcome, **fields):
        """Write a decision."""
        self.decisions[name] = dict({"proposal_id": name, "outcome": outcome, "recorded_at": self.now}, **fields)
        self.record("decisions", name, self.decisions[name])

    def line(self, p, confirmed, before):
        """Return the line that a proposal makes of the one before."""
        tags, trust = ",".join(p["tags"]), "confirmed" if confirmed else p["trust"]
        if p["tier"] == 1:
            return "[%s] [K:%s] [%s] [T:%s] [SRC:%s] [%s] %s -> .bimri/log/%s.md" % (
                p["entry_id"], p["key"], p["kind"], trust, p["source"], tags, p["text"], p["run_id"])
        if p["tier"] == 2:
            first = (before or "").partition("[F:")[2].partition("]")[0] or p["run_id"]
            return "[%s] [K:%s] [I:%d] [%s] [T:%s] [SRC:%s] [F:%s] [L:%s] [%s] %s -> .bimri/log/%s.md" % (
                p["entry_id"], p["key"], p["importance"], p["status"], trust, p["source"], first, p["run_id"], tags, p["text"], p["run_id"])
        return "[%s] [K:%s] [%s] [obs:%d] [ev:%s] %s | Falsify: %s" % (
            p["pattern_id"], p["key"], p["confidence"], p["observations"], ",".join(p["evidence"]), p["text"], p["falsifier"])

    def apply(self, name, confirmed=False):
        """Change the memory by a proposal; return the new revision."""
        p, _ = self.proposals[name]
        before = self.hot.pop(p["key"], None) or self.cold.pop(p["key"], None)
        self.cooled.pop(p["key"], None)
        if p["operation"] == "touch":
            head, _, rest = before.partition("[L:")
            rest = rest.partition("]")[2].rpartition(" -> ")[0]
            self.hot[p["key"]] = "%s[L:%s]%s -> .bimri/log/%s.md" % (head, p["run_id"], rest, p["run_id"])
        else:
            if before and (p["operation"] == "close" or self.version == "5.1.0"):
                self.keep(name, "closed" if p["operation"] == "close" else "replaced", before)
            if p["operation"] == "set":
                self.hot[p["key"]], self.tier[p["key"]] = self.line(p, confirmed, before), p["tier"]
            self.past.setdefault(p["key"], []).append((p["operation"], p["text"] if p["operation"] == "set" else ""))
        self.head += 1
        self.commit()
        return self.head

    def keep(self, name, reason, line):
        """Append a line to the archive."""
        self.archive.append("[ARCHIVED:2026-02-03] [BY:%s] [%s] %s\n" % (name, reason, line))
        write(self.folder, {".bimri/archive/2026-02.md": "".join(self.archive)})

    def accept(self, *names):
        """Accept proposals, each in a revision of its own."""
        for name in names:
            self.decide(name, "accepted", revision=self.apply(name))

    def set(self, run, key, text, **fields):
        """Propose and accept; return the proposal."""
        name = self.propose(run, key, text, **fields)
        self.accept(name)
        self.look(run)
        return name

    def cool(self, name, key):
        """Take a subject out of the view (v5.1), as done for a proposal."""
        line = self.cold[key] = self.hot.pop(key)
        self.keep(name, "cooled", line)
        self.cooled[key] = {"key": key, "entry_id": line[1:].partition("]")[0], "tier": 2, "raw_line": line, "line_hash": sha256(line),
                            "archived_by": name, "archived_on": "2026-02-03"}
        self.commit()

    def contest(self, *names, kind="stale-base"):
        """Ask the owner about proposals for one key; return the question's id."""
        self.conflicts += 1
        conflict = "C%06d" % self.conflicts
        p, line = self.proposals[names[0]][0], None
        line = self.hot.get(p["key"]) or self.cold.get(p["key"])
        for name in names:
            self.decide(name, "contested", conflict_id=conflict, revision=self.head)
        self.record("conflicts", conflict, {
            "conflict_id": conflict, "type": kind, "key": p["key"], "created_at": self.now,
            "question": "Which of these is it for %s?" % p["key"], "current_line": line,
            "current_hash": sha256(line) if line else "absent", "proposal_ids": list(names),
            "proposal_hashes": {name: self.proposals[name][1] for name in names}})
        return conflict

    def resolve(self, conflict, choice, finish=True):
        """Record the owner's answer; unless ``finish``, the decisions are not brought in line yet."""
        names = [name for name, decision in self.decisions.items() if decision.get("conflict_id") == conflict]
        before = self.head
        after = self.apply(choice, confirmed=self.proposals[choice][0]["tier"] != 3) if choice in names else self.head
        self.record("resolutions", conflict, {
            "conflict_id": conflict, "proposal_ids": names, "choice": choice, "status": "resolved", "by": "user",
            "authority": "human-asserted", "started_at": self.now, "revision_before": before, "revision_after": after,
            "resolved_at": self.now})
        for name in names if finish else ():
            self.decide(name, "accepted" if name == choice else "noop", conflict_id=conflict, initial_outcome="contested",
                        resolution_id=conflict, resolution_choice=choice, resolved_at=self.now, revision=after)

    def close(self, run, outcome="success", summary="Done."):
        """Close a run."""
        self.log(run, "[OUTCOME:%s] %s" % (outcome, summary))
        self.log(run, "[CLOSED:%s %s]" % (run, self.now))
        self.runs[run] = (self.runs[run][0], False)
        self.state()


def make_v5(folder, version="5.0.2"):
    """Make a v5 store with something of everything; return it."""
    store = Store5(folder, version)
    one, two = store.start("codex"), store.start("claude_2")
    note = store.journal(one, "The pier was measured at low water: 4.20 m.", 5)
    store.set(one, "pier.depth", "The pier is 4.20 m deep.", tier=1, kind="fact", trust="confirmed", source="user", tags=["pier", "survey"])
    store.set(one, "boats.next", "Paint the ferry.", rationale="The owner said so on the quay.", importance=4)
    store.look(two)
    late, later = store.propose(two, "boats.next", "Sell the ferry."), store.propose(one, "boats.next", "Paint the ferry green.")
    store.accept(later)
    store.contest(late)
    same = store.propose(one, "boats.next", "Paint the ferry green.")
    store.decide(same, "noop", reason="current memory already matches", revision=store.head)
    store.set(one, "crew.habit", "Storms follow a red dawn.", tier=3, evidence=[note], falsifier="a calm day after one", observations=1)
    store.set(one, "crew.habit", "Storms follow a red dawn.", tier=3, evidence=[note, same.replace("-Q", "-E")],
              falsifier="a calm day after one", observations=2)
    store.set(one, "ropes.old", "Ropes are hemp.")
    store.look(two)
    left, right = store.propose(two, "ropes.old", "Ropes are nylon."), store.propose(two, "ropes.old", "Ropes are steel.")
    store.set(one, "ropes.old", "Ropes are jute.")
    store.resolve(store.contest(left, right), left, finish=False)
    store.accept(store.propose(one, "boats.next", op="touch"))
    store.look(one)
    store.set(one, "lamp.oil", "Buy oil.", status="watch", source="external")
    store.accept(store.propose(one, "lamp.oil", op="close"))
    store.decide(store.propose(two, "lamp.wick", "Trim the wick."), "applying", base_hash="absent", revision_before=store.head)
    store.propose(two, "lamp.glass", "Order glass.")
    write(folder, {".bimri/revisions/V%06d.md" % 99: store.view().replace("Paint", "Burn"), ".bimri/backups/state.json": "{}",
                   ".bimri/engine.lock": "", ".bimri/inbox/note.md": "Loose.\n"})
    store.close(one, "partial", "Half of the boats are painted.")
    return store


def make_v51(folder):
    """Make a v5.1 store: as v5, with replaced, cooled and held ones."""
    store = make_v5(folder, "5.1.0")
    run = store.start("gemini")
    first = store.set(run, "nets.mesh", "The mesh is 40 mm.", importance=1)
    store.cool(first, "nets.mesh")
    second = store.set(run, "nets.mesh", "The mesh is 45 mm.", importance=2)
    store.cool(second, "nets.mesh")
    third = store.set(run, "nets.cork", "Corks are missing.")
    store.cool(third, "nets.cork")
    store.accept(store.propose(run, "nets.cork", op="close"))
    held = store.propose(run, "pier.depth", "The pier is 5 m deep.", tier=1, hold_reason="confirmed-user-authority-required")
    store.decide(held, "held", reason="confirmed-user-authority-required", revision=store.head)
    store.close(run)
    return store


WORDS = "ask | -> the [mill] for Ås, 90 % \u2192 # <!-- `x` R001-E01 [K:a] end".split(" ")


def some_text(rng):
    """Return a text that a line may hold, with what could be taken for brackets, pointers and ends."""
    return " ".join(["A", *rng.choices(WORDS, k=rng.randrange(1, 9)), "z%d." % rng.randrange(10_000)])


def some_v5(folder, rng):
    """Make a v5 store of chance; return it, the proposals that nobody decided, and those in question by key."""
    store = Store5(folder, rng.choice(["5.0", "5.0.1", "5.0.2", "5.1.0"]))
    runs = [store.start("actor-%d" % n) for n in range(3)]
    keys = ["k%d.x" % n for n in range(5)]
    staged, asked = [], {}
    for _ in range(40):
        run, key = rng.choice(runs), rng.choice(keys)
        here = key in store.hot or key in store.cold
        what = rng.choice(["set", "set", "set", "close", "touch", "note", "pend", "ask", "cool", "look"])
        if what == "look":
            store.look(run)
        elif what == "note":
            store.journal(run, some_text(rng), rng.randrange(1, 6))
        elif what == "pend":
            staged.append(store.propose(run, key, some_text(rng)))
        elif what == "set":
            owner = {"trust": "confirmed", "source": "user"} if rng.random() < 0.3 else {"source": rng.choice(["agent", "external"])}
            tier = {1: {"kind": "rule"}, 2: {"importance": rng.randrange(1, 6)},
                    3: {"evidence": ["R000001-E001"], "falsifier": some_text(rng)}}
            n = rng.choice([1, 2, 2, 3])
            store.set(run, key, some_text(rng), tier=n, **tier[n], **owner, rationale=rng.choice([None, some_text(rng)]))
        elif what == "ask" and here:
            asked.setdefault(key, []).append(store.propose(run, key, some_text(rng), tags=["asked"]))
            store.contest(asked[key][-1])
        elif what in ("close", "touch") and here and (what == "close" or store.tier[key] == 2) and key in {**store.hot, **store.cold}:
            store.look(run)
            store.accept(store.propose(run, key, op=what, tier=store.tier[key]))
        elif what == "cool" and key in store.hot and store.tier[key] == 2 and store.version == "5.1.0" and store.proposals:
            store.cool(list(store.proposals)[-1], key)
    for run in rng.sample(runs, 2):
        store.close(run)
    return store, staged, asked


def some_v4(folder, rng):
    """Make a v4 store of chance; return its lines by tier, the archived ones, and the entries."""
    hot, archived, told, logs = {1: {}, 2: {}, 3: {}}, {}, [], {}
    for n in range(1, 6):
        run = "R%03d" % n
        logs[run] = "# Run %s | 2026-01-%02dT08:00:00Z | interactive\n\n## Journal\n" % (run, n)
        for m in range(1, rng.randrange(2, 6)):
            entry, text = "%s-E%02d" % (run, m), some_text(rng)
            logs[run] += "[ID:%s] [I:%d] %s\n" % (entry, m % 5 + 1, text)
            told.append((run, text, m % 5 + 1))
            line = "[%s] [I:%d] [active] [F:%s] [L:R%03d] [a,b] " % (entry, m % 5 + 1, run, rng.randrange(n, 6))
            place = rng.choice(["one", "two", "archive", "both", "none"])
            if place == "one":
                hot[1][entry] = ("[%s] [fact] [] " % entry, some_text(rng), rng.choice(["", " -> .bimri/log/%s.md" % run]))
            if place in ("two", "both"):
                hot[2][entry] = (line, some_text(rng), rng.choice(["", " -> log/%s.md" % run]))
            if place in ("archive", "both"):
                archived[entry] = (line, some_text(rng), "")
    for n in (1, 2):
        hot[3]["P%03d" % n] = ("[P%03d] [emerging] [obs:1] [ev:R001-E01] " % n, some_text(rng), " | Falsify: %s" % some_text(rng))
    memory = "<!-- BIMRI v4 -->\n"
    for tier, lines in hot.items():
        memory += "\n## Tier %d: It\n%s" % (tier, "".join("".join(line) + "\n" for line in lines.values()))
    rows = "".join("[ARCHIVED:R005 2026-01-31] [mechanical] %s\n" % "".join(line) for line in archived.values())
    memory += "\n<!-- END BIMRI -->\n"
    write(folder, {"bimri.md": memory, ".bimri/state.json": {"bimri_version": "4.0", "current_run_id": "R005"},
                     ".bimri/archive/2026-01.md": rows, **{".bimri/log/%s.md" % run: text for run, text in logs.items()}})
    return hot, archived, told
