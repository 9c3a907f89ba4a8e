"""A world of replicas in memory: the real commands, over ledgers that are lists.

Each Replica is one copy of a vault with a cache and views of its own, a skewed clock and one or two tags. Its
commands run through `engine.cmd_*`; only the disk is replaced. What it appends stands in the World's ledgers, from
which another replica fetches whole units, as much of any file as it likes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
from collections import namedtuple

import engine

#: 2026-01-01T00:00:00Z
START_MS = 1_767_225_600_000
TAGS = ("kkkkkkkk", "bbbbbbbb", "zzzzzzzz", "mmmmmmmm", "cccccccc", "yyyyyyyy")
SKEWS_MS = (0, 3_600_000, -7_200_000)
DAY_MS = 86_400_000
#: What proposals say: few, so that runs often say the same.
TEXTS = ("one", "two", "three", "> x", "# y")
VAULT = "0f0e0d0c-1111-4222-8333-444455556666"
_ORDER = {"fact": "1, 2, 3", "lost": "1, 2, 3", **dict.fromkeys(
    ("look", "cite", "move", "verification", "parent", "awaited", "erased"), "1, 2")}

Unit = namedtuple("Unit", "tag records")


class Place:
    """What a Desk needs of a vault: that it can be named, and that no file stands in it."""

    id, root, ledgers = VAULT, "memory", "no such folder"

    def path(self, name):
        """Return the path of a view, which is not there."""
        return self.ledgers + "/" + name

    def is_writable(self):
        """Tell that commands may write."""
        return True


class Desk(engine.Work):
    """A Work whose disk is its replica: `engine.Work` for commands that run in memory."""

    def __init__(self, call, run=""):
        self.call, self.replica, self.vault = call, call.replica, Place()
        self.warnings, self.records, self.at, self.position = [], [], "", None
        self._run, self._known = run, {"tags": dict.fromkeys(call.replica.tags)}

    def __enter__(self):
        self.state = self.replica.state
        self.state.begin()
        return self

    def __exit__(self, *_):
        self.state.rollback()

    def _writer(self):
        tag = self.replica.writer
        new = tag not in self.state.positions
        if new:
            self.state.positions[tag] = engine.Position(tag, -1, engine.first_prev(VAULT, tag), "")
        self.position = self.state.positions[tag]
        self._stamp()
        if new:
            self._put("replica", vault=VAULT, tag=tag, engine=engine.VERSION)

    def save(self):
        """Append what was added to the World's ledger and commit it to the cache."""
        if self.records:
            self.replica.world.append(self.position, self.records, self.at)
        self.state.flush()
        self.state.commit()
        self.state.begin()
        self.records = []

    def commit(self):
        """Append what was added, and bring cache and views in line."""
        self.save()
        self.replica.render()
        self.state.commit()
        self.state.begin()


class Glance:
    """`engine.Reading` for commands that run in memory."""

    def __init__(self, call):
        self.vault, self.state, self.warnings = Place(), call.replica.state, []


@contextlib.contextmanager
def in_memory():
    """Let the commands of engine.py work on replicas instead of folders."""
    kept = engine.Work, engine.Reading
    engine.Work, engine.Reading = Desk, Glance
    try:
        yield
    finally:
        engine.Work, engine.Reading = kept


class Chance:
    """Bytes that look random and are the same each time."""

    def __init__(self, seed=0):
        self.seed, self.count = seed, 0

    def __call__(self, size):
        self.count += 1
        return hashlib.sha512(b"%d %d" % (self.seed, self.count)).digest()[:size]


#: Every database that was opened here and not yet closed.
OPENED = []


@functools.lru_cache(maxsize=1)
def _empty():
    """Return a cache of empty tables, which take longer to make than to copy."""
    return engine.create_cache(Place(), ":memory:")


def open_state():
    """Return an empty cache in memory."""
    state = engine.State(":memory:")
    _empty().db.backup(state.db)
    state.meta = dict(_empty().meta)
    OPENED.append(state)
    state.begin()
    return state


def close_all():
    """Close every database that was opened here."""
    while OPENED:
        OPENED.pop().close()


def close_last():
    """Close every database, that of `_empty` too."""
    close_all()
    _empty().close()
    _empty.cache_clear()


class World:
    """Ledgers by tag, each a list of Units, and the replicas that write them. There is one at a time."""

    def __init__(self, count=1, skews=SKEWS_MS, shown=False, texts=TEXTS):
        close_all()
        self.ledgers, self.tick, self.chance, self.shown, self.texts = {}, 0, Chance(), shown, texts
        self.replicas = [Replica(self, TAGS[2 * n:2 * n + 2], skews[n % len(skews)]) for n in range(count)]

    def append(self, position, records, at):
        """Add one unit to a ledger, as `engine.append` would to a file."""
        unit, seq, tail = [], position.seq, position.tail
        for n, (kind, body) in enumerate(records, 1):
            seq += 1
            head = {"at": at, "kind": kind, "prev": tail, "seq": seq}
            if n == len(records):
                head["unit"] = n
            line, tail = engine.encode_record(head, body)
            unit.append((head, body, line))
        position.seq, position.tail, position.at = seq, tail, at
        self.ledgers.setdefault(position.tag, []).append(Unit(position.tag, unit))

    def units(self, upto=None):
        """Return the units of every ledger by tag, the first ``upto[tag]`` of each if given."""
        return {tag: units if upto is None else units[:upto.get(tag, 0)] for tag, units in self.ledgers.items()}


class Arguments(dict):
    """A command's arguments; one that is not given is None."""

    def __missing__(self, name):
        """Return None."""
        return


class Replica:
    """One copy of the vault: its cache, its views as they would stand on disk, and its commands."""

    def __init__(self, world, tags, skew_ms):
        self.world, self.tags, self.writer, self.skew_ms = world, tags, tags[0], skew_ms
        self.state = open_state()
        self.files, self.folded, self.runs = residency_views(self.state), {}, []
        self.state.flush()
        self.state.commit()

    def clock(self):
        """Return the time of this replica's machine."""
        self.world.tick += 1
        return START_MS + self.world.tick * 60_000 + self.skew_ms

    def call(self, command, **args):
        """Run one command and return its result."""
        call = engine.Call(command, None, ".", self.clock, self.world.chance, 1.0)
        call.replica, call.vault = self, Place
        with in_memory():
            result = getattr(engine, "cmd_" + command)(call, Arguments(args, human_approved=True))
        self.folded.update({tag: len(self.world.ledgers[tag]) for tag in self.tags if tag in self.world.ledgers})
        return result

    def start(self, actor="codex"):
        """Open a run and return its handle."""
        return self.call("start", actor=actor)["run"]

    def propose(self, run, key, text="a", **more):
        """Propose a set, staged, and return its id; ``now=True`` decides it."""
        return self.call("propose", run=run, key=key, text=text, **more)["proposal"]

    def sync(self, run):
        """Decide what a run has staged, and look; return the result."""
        return self.call("sync", run=run)

    def has(self, tag):
        """Return how many units of a ledger this copy holds."""
        return self.folded.get(tag, 0)

    def fetch(self, tag, count=None):
        """Take up to ``count`` further units of another ledger, or all, and bring the views in line."""
        if tag in self.tags:
            return
        units = self.world.ledgers.get(tag, [])[self.has(tag):]
        units = units if count is None else units[:count]
        self.state.begin()
        fold_units(self.state, units)
        self.state.flush()
        self.state.commit()
        self.folded[tag] = self.has(tag) + len(units)
        self.render()

    def fetch_all(self):
        """Take everything that any replica has written."""
        for tag in list(self.world.ledgers):
            self.fetch(tag)

    def render(self):
        """Write the views that the cache says have changed, and no others; nothing, if views are not asked for."""
        if not self.world.shown:
            return
        state = self.state
        rows = state.rows("SELECT kind, name, page FROM dirty ORDER BY 1, 2, 3")
        for row in rows:
            if row[0] == "memory":
                self.files.update(residency_views(state))
            else:
                path, text = engine.view_path(*row), engine.render_view(state, *row)
                if text is None:
                    self.files.pop(path, None)
                else:
                    self.files[path] = text
        state.db.execute("DELETE FROM dirty")


def fold_units(state, units, flush=None):
    """Fold whole units in the given order; ``flush()`` is asked after each whether to flush there."""
    for unit in units:
        position = state.positions.get(unit.tag) or engine.Position(unit.tag, -1, engine.first_prev(VAULT, unit.tag), "")
        state.positions[unit.tag] = position
        for head, body, _ in unit.records:
            engine.apply_record(state, unit.tag, head, body)
        position.seq, position.at = unit.records[-1][0]["seq"], unit.records[-1][0]["at"]
        if flush and flush():
            state.flush()


def fold_fresh(units, flush=None):
    """Return the fold of units in the given order, in memory."""
    state = open_state()
    fold_units(state, units, flush)
    state.flush()
    state.commit()
    return state


def interleave(ledgers, rng):
    """Return the units of all ledgers in a random order that keeps each ledger's own."""
    left = {tag: list(units) for tag, units in ledgers.items() if units}
    order = []
    while left:
        tag = rng.choice(sorted(left))
        for _ in range(rng.choice((1, 1, 2, 5, 50))):
            order.append(left[tag].pop(0))
            if not left[tag]:
                del left[tag]
                break
    return order


def tables(state):
    """Return the rows of every table that two folds of the same records share."""
    return {table: state.rows("SELECT * FROM %s%s ORDER BY %s" % (
        table, " WHERE n<>0" if table in ("part", "tally") else "", _ORDER.get(table, "1"))) for table in engine.COMPARED}


def residency_views(state):
    """Return MEMORY.md and INDEX.md."""
    residency = engine.Residency(state)
    return {"MEMORY.md": engine.render_memory(residency), "INDEX.md": engine.render_index(residency)}


def views(state):
    """Return every view that the state asks for, by path."""
    found = residency_views(state)
    for kind, name, page in engine.list_views(state):
        path, text = engine.view_path(kind, name, page), engine.render_view(state, kind, name, page)
        assert text is not None, path
        assert path not in found
        found[path] = text
    return found


def differences(one, other):
    """Return what differs between two dicts, for a message that can be read."""
    return {name: (one.get(name), other.get(name)) for name in sorted({*one, *other}) if one.get(name) != other.get(name)}


def write_vault(folder, ledgers):
    """Write the ledgers into a vault on disk, as git would carry them, and return its path."""
    (folder / ".muniment" / "ledger").mkdir(parents=True)
    (folder / ".muniment" / "format.json").write_text('{"format":1,"vault":"%s"}\n' % VAULT, encoding="ascii")
    for tag, units in ledgers.items():
        if units:
            lines = b"".join(line for unit in units for _, _, line in unit.records)
            (folder / ".muniment" / "ledger" / (tag + ".jsonl")).write_bytes(lines)
    return str(folder)


# -- worlds by chance --

KEYS = ("a", "b.next", "b.rule")
ACTORS = ("codex", "claude")


def play(count, steps, after=None, shown=False, texts=TEXTS):
    """Return a World in which ``steps``, tuples of small integers, were played as commands.

    What a command refuses is left out: a refusal records nothing. ``after(replica)`` is called after each step. With
    ``shown``, the replicas keep the files of their views. ``texts`` is what proposals may say.
    """
    world = World(count, shown=shown, texts=texts)
    for replica in world.replicas:
        replica.runs = [replica.start(actor) for actor in ACTORS]
    for n, step in enumerate(steps):
        replica = world.replicas[step[1] % count]
        with contextlib.suppress(engine.Refused):
            _play_one(world, replica, random.Random(repr((n, step))), step)
        if after:
            after(replica)
    return world


def play_merged(count, steps):
    """Return a World as `play` does, in which every replica has everything in the end."""
    world = play(count, steps)
    for replica in world.replicas:
        replica.fetch_all()
    return world


def _play_one(world, replica, rng, step):
    what, _, first, second = step
    state = replica.state
    run = replica.runs[first % len(replica.runs)]
    if what < 9:
        _propose(replica, rng, run, second)
    elif what < 12:
        replica.sync(run)
    elif what < 16:
        replica.fetch(rng.choice(sorted(world.ledgers)), None if second % 3 else 1 + second)
    elif what < 18:
        questions = replica.call("review", all=True)["questions"]
        questions += [q for key in KEYS if state.subject(key).current for q in replica.call("review", about=key)["questions"]]
        if questions:
            question = questions[second % len(questions)]
            choice = rng.choice([*question["answers"], "current"])
            more = {"text": "own %d" % (second % 2)} if choice == "--text" else {"choose": choice}
            replica.call("resolve", handle=question["whole"], note=rng.choice((None, "so\nbe it")), **more)
    elif what == 18:
        ids = [row[0] for row in state.rows("SELECT id FROM claim WHERE run IN (%s) AND outcome IN ('staged', 'accepted') ORDER BY id"
                                            % ",".join("?" * len(replica.runs)), *replica.runs)]
        if ids:
            proposal = rng.choice(ids)
            replica.call("withdraw", run=state.find_claim(proposal).run, proposal=proposal)
    elif what == 19:
        replica.call("journal", run=run, text="line\n# %d" % second, importance=1 + second % 5, ref=rng.choice((None, "r%d" % second)))
    elif what == 20:
        _turn(world, replica, rng, run)


def _turn(world, replica, rng, run):
    """Do one of the rare things: close or recover a run, open one, write under another tag, set, mark."""
    what = rng.randrange(6)
    if what == 0:
        replica.call("close", run=run, outcome="success", summary="done")
        replica.runs[replica.runs.index(run)] = replica.start(rng.choice(ACTORS))
    elif what == 1:
        runs = [r["id"] for r in replica.state.open_runs() if r["tag"] not in replica.tags]
        if runs:
            replica.call("recover_run", run=rng.choice(runs), outcome="partial", summary="gone")
    elif what == 2:
        replica.runs.append(replica.start(rng.choice(ACTORS)))
    elif what == 3:
        replica.writer = rng.choice(replica.tags)
    elif what == 4:
        replica.call("config", key="index-lines", value=str(rng.choice((0, 1, 1000))))
    else:
        replica.call("maintain", mark=True, run=run)
    if rng.random() < 0.1:
        world.tick += 60 * 24


def _propose(replica, rng, run, second):
    state, key = replica.state, rng.choice(KEYS)
    subject = state.subject(key)
    present = subject.is_present()
    op = rng.choice(("set", "set", "set", "set", "touch", "close")) if present else "set"
    fields = {"op": op}
    if op == "set":
        fields.update(text=rng.choice(replica.world.texts), tier=rng.choice((1, 2, 2, 2, 3)),
                      new_subject=rng.choice((not present, not present, False)))
        if rng.random() < 0.2:
            fields["until"] = "2026-01-0%d" % rng.randint(1, 3)
        if rng.random() < 0.2:
            fields["detail"] = "more\n- of it"
    if rng.random() < 0.25:
        fields.update(source="user", trust="confirmed")
    entries = [row[0] for row in state.rows("SELECT id FROM entry ORDER BY id")]
    if fields.get("tier") == 3 or rng.random() < 0.3:
        fields["evidence"] = [rng.choice([*entries, "https://example.invalid/x"])]
    replica.call("propose", run=run, key=key, **dict({"text": None}, **fields), now=bool(second % 2))
