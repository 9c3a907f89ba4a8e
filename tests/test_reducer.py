"""The reducer by properties: whatever happens, in whatever order it is read, the state is the one of PROTOCOL.

Most tests play commands on one to three replicas with skewed clocks (replicas.py), let them share ledgers in parts,
and compare. `Reading` of the rules is independent: `plain_state` says again, slowly, what PROTOCOL section 5 says.
"""

from __future__ import annotations

import inspect
import itertools
import random
import sys

import pytest

pytest.importorskip("hypothesis")
import replicas
from hypothesis import given, settings
from hypothesis import strategies as st

import engine


def teardown_module():
    """Close what the last test opened."""
    replicas.close_last()


STEP = st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 3), st.integers(0, 5))
STEPS = st.lists(STEP, min_size=10, max_size=32)
COUNT = st.integers(1, 3)
SEED = st.integers(0, 2**32 - 1)
FEWER = settings(max_examples=12)


# -- any order --


def check_any_order(world, rng):
    """Compare every replica, and folds in other orders, with the first replica: tables, and bytes of every view."""
    for replica in world.replicas:
        has = {tag: replica.has(tag) for tag in world.ledgers}
        fresh = replicas.fold_fresh(replicas.interleave(world.units(has), rng), lambda: rng.random() < 0.2)
        assert not replicas.differences(replicas.tables(replica.state), replicas.tables(fresh))
        assert not world.shown or not replicas.differences(replica.files, replicas.views(fresh))
    for replica in world.replicas:
        while any(replica.has(tag) < len(units) for tag, units in world.ledgers.items()):
            replica.fetch(rng.choice(sorted(world.ledgers)), rng.choice((1, 2, 5, 50)))
    known, shown = replicas.tables(world.replicas[0].state), replicas.views(world.replicas[0].state)
    for replica in world.replicas:
        assert not replicas.differences(known, replicas.tables(replica.state))
        assert not world.shown or not replicas.differences(shown, replica.files)
    for flush in (None, lambda: True, lambda: rng.random() < 0.2):
        fresh = replicas.fold_fresh(replicas.interleave(world.ledgers, rng), flush)
        assert not replicas.differences(known, replicas.tables(fresh))
        assert not replicas.differences(shown, replicas.views(fresh))


@given(COUNT, STEPS, SEED)
def test_any_admissible_order_joins_to_the_same_state_and_views(count, steps, seed):
    """Replay equals live state, and every order that keeps each file's own gives the same tables and view bytes."""
    world = replicas.play(count, steps, shown=True)
    check_any_order(world, random.Random(seed))


@FEWER
@given(COUNT, STEPS, SEED)
def test_small_pages_join_to_the_same_views_too(count, steps, seed):
    """Views of several pages are marked and rendered as those of one page are: no page is stale, none is left over."""
    kept, engine.PAGE_ITEMS = engine.PAGE_ITEMS, 2
    try:
        world = replicas.play(count, steps, shown=True)
        check_any_order(world, random.Random(seed))
    finally:
        engine.PAGE_ITEMS = kept


def test_views_are_rendered_again_when_what_they_name_arrives_late():
    """An entry, a run or a value that a claim names, in a ledger that comes after the claim's own, is then shown with it."""
    world = replicas.World(3, shown=True)
    here, there, third = world.replicas
    run = here.start("codex")
    entry = here.call("journal", run=run, text="seen", ref="r1")["entry"]
    here.propose(run, "a", "of the first", tier=1, new_subject=True, now=True)
    there.fetch_all()
    other = there.start("claude")
    there.propose(other, "b", "cites the first", tier=2, new_subject=True, evidence=["r1"], now=True)
    question = there.call("review", about="a")["questions"][0]
    there.call("resolve", handle=question["whole"], choose="accept")
    there.writer = there.tags[1]  # the run goes on under another tag of its copy
    there.propose(other, "c", "under another tag", tier=2, new_subject=True, now=True)
    third.start("ci")
    for tag in (there.tags[1], there.tags[0], here.tags[0]):
        before = dict(third.files)
        third.fetch(tag)
        assert third.files != before
        assert not replicas.differences(third.files, replicas.views(third.state))
    for path in ("notes/a.md", "notes/b.md", "notes/c.md"):
        assert third.files[path] == there.files[path]
    assert entry in third.files["notes/b.md"]


def test_two_copies_at_once_join_to_the_first_close_and_the_latest_of_all_else():
    """Of two closes of a run the earlier counts; of settings, marks and verifications the later; in every order of the ledgers."""
    world = replicas.World(2)
    here, there = world.replicas
    run = here.start("codex")
    generation = here.propose(run, "a", tier=2, new_subject=True, now=True)
    there.fetch_all()
    touches = []
    for n, replica in enumerate((here, there, here, there)):
        toucher = replica.start("claude")
        touches.append(replica.propose(toucher, "a", None, op="touch", evidence=["https://example.invalid/%d" % n], now=True))
        replica.call("maintain", mark=True, run=toucher)
        replica.call("config", key="hot-lines", value=str(50 + n))
    for replica in (there, here):  # the clock of the first is an hour ahead
        replica.call("recover_run", run=run, outcome="partial", summary="by " + replica.tags[0])
    bodies = [body for units in world.ledgers.values() for unit in units for head, body, _ in unit.records if head["kind"] == "mark"]
    marked = {tag: max(body["upto"].get(tag, -1) for body in bodies) for tag in world.ledgers}
    for tags in (sorted(world.ledgers), sorted(world.ledgers, reverse=True)):
        fresh = replicas.fold_fresh([unit for tag in tags for unit in world.ledgers[tag]])
        assert fresh.ending(run)["summary"] == "by " + here.tags[0]
        assert fresh.find_run(run)["closed"] == fresh.ending(run)["at"]
        assert fresh.setting("hot-lines") == 53
        assert fresh.door("a")["verified"] == max(fact.at for touch in touches for fact in fresh.facts(touch))
        assert dict(fresh.rows("SELECT tag, seq FROM mark")) == marked
        assert fresh.subject("a").current.id == generation


# -- the rules once more --


def plain_state(units):
    """Return (claims by id, frontier by key) of records, as PROTOCOL section 5 says it, from nothing but the records."""
    claims, facts, origins = {}, [], set()
    for unit in units:
        for head, body, _ in unit.records:
            row = {"id": "%s%d-%s" % (engine.LETTERS[head["kind"]], head["seq"], unit.tag), "at": head["at"],
                   "seq": head["seq"], "tag": unit.tag, **body}
            if head["kind"] == "proposal" or ("value" in body and head["kind"] == "resolution"):
                claims[row["id"]] = dict({"run": None, "trust": "confirmed", "base": body.get("parents", []), "staged": []}, **row)
            if head["kind"] == "run-open" and "origin" in body:
                origins.add(row["id"])
            if head["kind"] == "withdrawal":
                facts.append(dict(row, outcome="withdrawn"))
            if head["kind"] == "resolution" and "proposal" in body:
                facts.append(dict(row, outcome="declined" if body["answer"] == "decline" else "answered"))
            facts += [dict(d, at=head["at"], run=body["run"]) for d in body.get("decisions", ())]
    for claim in claims.values():
        claim["flawed"] = _plain_flawed(claims, claim, origins)
    for claim in claims.values():
        claim["parents"], claim["outcome"], claim["made"] = _plain_outcome(claims, claim, facts)
        claim["standing"] = claim["outcome"] == "accepted" and not claim["flawed"]
    return claims, _plain_frontiers(claims)


def _plain_flawed(claims, claim, origins):
    base, staged = ([claims[i] for i in claim[n] if i in claims] for n in ("base", "staged"))
    deepest = max((c["depth"] for c in base), default=0)
    all_there = len(base) == len(claim["base"]) and len(staged) == len(claim["staged"])
    return (any(c["key"] != claim["key"] for c in base + staged) or any(c["run"] != claim["run"] for c in staged)
            or claim["depth"] <= deepest or (all_there and claim["depth"] != deepest + 1)
            or (claim.get("imported", False) and claim["run"] not in origins))


def _plain_outcome(claims, claim, facts):
    """Return (parents, outcome, when it was made) by what counts of all that was said of a claim."""
    mine, owner = [f for f in facts if f["proposal"] == claim["id"]], claim["trust"] == "confirmed"
    if claim["run"] is None:
        return set(claim["parents"]), "accepted", claim["at"]
    accepted = []
    for fact in mine:
        if fact["outcome"] == "accepted" and claim["value"]["op"] != "touch" and {*fact["parents"]} <= {*claim["base"], *claim["staged"]}:
            replaced = [claims[i] for i in fact["parents"] if i in claims and i not in claim["staged"]]
            tiers = [(c, {c["value"].get("tier"), claim["value"]["tier"]}) for c in replaced]
            asks = claim["value"]["tier"] == 1 or any(
                c["value"].get("tier") == 1 or (c["trust"] == "confirmed" and 3 in both) for c, both in tiers)
            if owner or claim.get("imported") or not asks:
                accepted.append(fact)
    rested = any(f.get("rests") == claim["id"] and f["proposal"] in claims and claims[f["proposal"]]["run"] != claim["run"] for f in facts)
    withdrawn = any(f["outcome"] == "withdrawn" and f["run"] == claim["run"] for f in mine) and not rested and not (owner and accepted)
    said = {f["outcome"] for f in mine if f["outcome"] != "answered" or not claims[f["id"]]["flawed"]}
    said = said - {"accepted", "withdrawn"} | {"staged"}
    said |= ({"accepted"} if accepted else set()) | ({"withdrawn"} if withdrawn else set())
    outcome = next(o for o in ("declined", "withdrawn", "accepted", "answered", "held", "noop", "staged") if o in said)
    return {p for f in accepted for p in f["parents"]}, outcome, min((f["at"] for f in accepted), default=None)


def _plain_frontiers(claims):
    replaced, todo = set(), [p for c in claims.values() if c["standing"] for p in c["parents"]]
    while todo:
        target = todo.pop()
        if target not in replaced:
            replaced.add(target)
            if target in claims and not claims[target]["standing"] and not claims[target]["flawed"]:
                todo += claims[target]["parents"]
    frontiers = {}
    for claim in claims.values():
        if claim["standing"] and claim["id"] not in replaced:
            frontiers.setdefault(claim["key"], []).append(claim)
    for frontier in frontiers.values():
        frontier.sort(key=lambda c: (c["trust"] != "confirmed", -c["depth"], c["value"]["op"] != "set", c["made"], c["seq"], c["tag"]))
    return frontiers


def check_plain(state, units):
    """Compare a state with what PROTOCOL section 5 says of the same records."""
    claims, frontiers = plain_state(units)
    for row in state.rows("SELECT id, outcome, made, standing, flaw IS NOT NULL FROM claim"):
        claim = claims[row[0]]
        assert row[1:] == (claim["outcome"], None if claim["flawed"] else claim["made"], claim["standing"], claim["flawed"]), row[0]
    for key in {claim["key"] for claim in claims.values()}:
        assert [c.id for c in state.subject(key).frontier] == [c["id"] for c in frontiers.get(key, ())], key
    assert state.tally("held") == len(state.waiting("held"))
    assert state.tally("conflicts") == len(state.conflicts()) == sum(
        len({engine.effect_of(c["value"]) for c in frontier if c["trust"] == frontier[0]["trust"]}) > 1
        for frontier in frontiers.values())


@given(COUNT, STEPS)
def test_the_frontier_is_what_the_protocol_says(count, steps):
    """Outcome, standing, frontier, rank and the counts are those that a plain reading of PROTOCOL section 5 gives."""
    world = replicas.play_merged(count, steps)
    check_plain(world.replicas[0].state, itertools.chain(*world.ledgers.values()))


# -- looking back, looking ahead --


def _facts_of(subject):
    return [(c.id, c.outcome, c.made, c.standing) for c in subject.frontier]


def check_within(world, rng):
    """Compare `subject_within` with the fold of as much of each ledger, and with the whole fold."""
    state = world.replicas[0].state
    upto = {tag: rng.randint(0, len(units)) for tag, units in world.ledgers.items()}
    part = world.units(upto)
    seqs = {tag: units[-1].records[-1][0]["seq"] if units else -1 for tag, units in part.items()}
    then = replicas.fold_fresh(replicas.interleave(part, rng))
    moment = rng.choice([unit.records[0][0]["at"] for units in world.ledgers.values() for unit in units])
    early = {tag: [unit for unit in units if unit.records[0][0]["at"] <= moment] for tag, units in world.ledgers.items()}
    at_moment = replicas.fold_fresh(replicas.interleave(early, rng))
    for key in replicas.KEYS:
        claims, facts = state.records_of(key)
        rng.shuffle(claims)
        rng.shuffle(facts)
        for due, within in ((state, lambda *_: True), (then, lambda tag, seq, at: seq <= seqs[tag]),
                            (at_moment, lambda tag, seq, at: at <= moment)):
            assert _facts_of(engine.subject_within(claims, facts, within)) == _facts_of(due.subject(key))


@given(COUNT, STEPS, SEED)
def test_subject_within_is_the_fold_of_what_was_there(count, steps, seed):
    """A subject made of the records within a point is the fold of these records alone; of all, the present one."""
    world = replicas.play_merged(count, steps)
    check_within(world, random.Random(seed))


@given(COUNT, STEPS)
def test_a_record_says_how_far_its_copy_had_read(count, steps):
    """What a run-open, revision or resolution had seen is what its copy then held, though each says only what is new."""
    counts = {}

    def check(replica):
        tag, ledgers = replica.writer, replica.world.ledgers
        before, counts[tag] = counts.get(tag), len(ledgers.get(tag, ()))
        if before is None or before == counts[tag]:
            return  # only what this step has written
        held = {t: ledgers[t][replica.has(t) - 1].records[-1][0]["seq"] for t in ledgers if replica.has(t)}
        for head, body, _ in ledgers[tag][-1].records:
            if "seen" in body:
                assert replica.state.seen_at(tag, head["seq"]) == {**held, tag: head["seq"]}

    replicas.play(count, steps, check)


@given(COUNT, STEPS)
def test_advance_is_the_fold_of_the_decisions(count, steps):
    """What the next decision of a revision sees is what the state is once the revision is folded."""
    world = replicas.play(count, steps)
    for replica in world.replicas:
        for run in [r["id"] for r in replica.state.open_runs() if r["tag"] in replica.tags]:
            state, due = replica.state, {}
            for claim in state.staged(run):
                base = [state.find_claim(i) for i in (*claim.base, *claim.staged)]
                if None in base:
                    continue
                subject = due.get(claim.key) or state.subject(claim.key)
                subject = engine.Subject(subject.frontier, [c for c in (*base, *subject.known.values()) if c.made])
                due[claim.key] = engine.advance(subject, claim, engine.decide(subject, claim), "2026-02-01T00:00:00.000Z")
            replica.sync(run)
            for key, subject in due.items():
                assert {c.id for c in subject.frontier} == {c.id for c in state.subject(key).frontier}, key


@FEWER
@given(COUNT, STEPS)
def test_doctor_finds_no_fault_in_what_the_commands_wrote(tmp_path_factory, count, steps):
    """Every decision replays to what was recorded, no rule is broken, and the chain holds, whatever was merged when."""
    world = replicas.play(count, steps)
    folder = tmp_path_factory.mktemp("vault")
    assert not _errors(replicas.write_vault(folder, world.ledgers))


def _findings(vault):
    call = engine.Call("doctor", vault, ".", lambda: replicas.START_MS, replicas.Chance(), 1.0)
    result = engine.cmd_doctor(call, {"fix": False, "schema": False, "strict": False, "github": False})
    call.close()
    return result["findings"]


def _errors(vault):
    return [f for f in _findings(vault) if f["severity"] == "error"]


# -- nothing is lost --


class Keeper:
    """Sees to it, after each step, that what was once accepted is still there to be found."""

    def __init__(self):
        self.made = {}

    def __call__(self, replica):
        """Check one replica."""
        state = replica.state
        made = {row[0]: row[1] for row in state.rows("SELECT id, key FROM claim WHERE made IS NOT NULL")}
        assert self.made.get(id(replica), set()) <= made.keys()
        self.made[id(replica)] = set(made)
        for key in set(made.values()):
            subject = state.subject(key)
            pages = range(1, engine.count_pages(state.count_history(key)) + 1)
            earlier = [c.id for page in pages for c in state.history(key, page)]
            shown = earlier + ([c.id for c in subject.frontier] if subject.is_present() else [])
            assert sorted(shown) == sorted(i for i, k in made.items() if k == key)
            standing = state.rows("SELECT 1 FROM claim WHERE key=? AND standing=1", key)
            assert bool(standing) == bool(subject.frontier)
        for child in made:
            claim = state.find_claim(child)
            assert set(state.parents_of(child)) <= {*claim.base, *claim.staged}


@given(COUNT, STEPS)
def test_no_generation_vanishes_and_none_is_replaced_unseen(count, steps):
    """Every value once accepted is shown by its note or its history, and only what had seen it replaces it."""
    replicas.play(count, steps, Keeper())


# -- who is current --


@given(COUNT, STEPS, st.integers(0, 2), st.sampled_from(replicas.KEYS), st.booleans(), st.sampled_from(("set", "close")))
def test_an_informed_update_is_current_afterwards(count, steps, where, key, owner, op):
    """A change by a run that has seen everything is current as soon as it is accepted; an owner's always is."""
    world = replicas.play_merged(count, steps)
    replica = world.replicas[where % count]
    run, subject = replica.start("late"), replica.state.subject(key)
    present, before = subject.is_present(), subject.current
    more = {"op": op, "text": "last words", "tier": 2, "new_subject": not present}
    if op == "close":
        if not present:
            return
        more = {"op": op, "text": None}
    if owner:
        more.update(source="user", trust="confirmed")
    result = replica.call("propose", run=run, key=key, now=True, **more)
    proposal, after = replica.state.find_claim(result["proposal"]), replica.state.subject(key)
    if proposal.outcome == "accepted":
        assert after.current.id == proposal.id
        if owner:
            assert len(after.frontier) == 1
    elif owner:
        assert result["unchanged"][0]["reason"] == "same"
        assert (before.op, before.trust) == (op, "confirmed")
    else:
        asks = before and (before.tier == 1 or (before.trust == "confirmed" and (before.tier == 3 or subject.contenders())))
        assert proposal.outcome == ("held" if asks else "noop")


@given(COUNT, STEPS, st.permutations((0, 1)), st.sampled_from(replicas.KEYS), st.booleans(), SEED)
def test_of_two_concurrent_equals_the_first_stays_current(count, steps, turns, key, owner, seed):
    """Of two sets of equal trust and depth, each unseen by the other, the one that was made first is current, wherever it is read."""
    world = replicas.play_merged(count, steps)
    rng = random.Random(seed)
    writers = [rng.choice(world.replicas) for _ in turns]
    pairs = [(replica, replica.start("racer%d" % n)) for n, replica in enumerate(writers)]
    before = world.replicas[0].state.subject(key)
    trust = {"source": "user", "trust": "confirmed"} if owner else {}
    made = [replica.propose(run, key, "racer %d" % n, tier=2, new_subject=not before.is_present(), **trust)
            for n, (replica, run) in enumerate(pairs)]
    for n in turns:
        pairs[n][0].sync(pairs[n][1])
    for replica in world.replicas:
        replica.fetch_all()
    claims = [world.replicas[0].state.find_claim(i) for i in made]
    if all(c.outcome == "accepted" for c in claims):
        first = min(claims, key=lambda c: (c.made, c.seq, c.tag))
        for replica in world.replicas:
            assert replica.state.subject(key).current.id == first.id
            assert {c.id for c in replica.state.subject(key).frontier} >= set(made)
    else:
        assert not owner


#: Claims from the first by rank to the last, each pair of neighbours apart in one thing: PROTOCOL section 5.
RANKED = (
    {"trust": "confirmed", "depth": 2, "op": "close", "made": "2026-01-01T00:00:09.000Z"}, {"trust": "confirmed", "depth": 1},
    {"depth": 3, "op": "close", "made": "2026-01-01T00:00:09.000Z"}, {"depth": 2, "made": "2026-01-01T00:00:08.000Z"},
    {"depth": 2, "op": "close", "made": "2026-01-01T00:00:05.000Z"}, {"depth": 2, "op": "close", "made": "2026-01-01T00:00:06.000Z"},
    {"made": "2026-01-01T00:00:06.000Z", "ident": "P7-zzzzzzzz"}, {"made": "2026-01-01T00:00:06.000Z", "ident": "P8-bbbbbbbb"},
    {"made": "2026-01-01T00:00:06.000Z", "ident": "P8-cccccccc"})


@given(st.permutations(range(len(RANKED))))
def test_rank_is_the_order_of_the_protocol(order):
    """Confirmed first, then depth, a set before a close, the earlier time, the lower seq, the tag: whatever the order they come in."""
    claims = [claim(**dict({"ident": "P%d-kkkkkkkk" % n}, **fields)) for n, fields in enumerate(RANKED)]
    subject = engine.Subject([claims[n] for n in order])
    assert subject.frontier == claims
    assert subject.current == claims[0]


# -- the owner's answers --


def _answer(replica, question, choice):
    words = {"text": "in other words"} if choice == "--text" else {"choose": choice}
    replica.call("resolve", handle=question["whole"], **words)


def _conflicts(replica):
    return [q for q in replica.call("review", all=True)["questions"] if q["about"] == "conflict"]


def _make_conflict(world, key="a", texts=("one", "two")):
    """Let each replica's first run set a new key, unseen by the others, and share everything."""
    for replica, text in zip(world.replicas, texts):
        replica.runs = [replica.start("codex")]
        replica.propose(replica.runs[0], key, text, tier=2, new_subject=True, now=True)
    for replica in world.replicas:
        replica.fetch_all()


@given(COUNT, STEPS, SEED)
def test_every_conflict_can_be_settled_once_and_stays_settled(count, steps, seed):
    """An answer ends its conflict; the same question cannot be answered again; no merge and no agent opens it anew."""
    world, rng = replicas.play_merged(count, steps), random.Random(seed)
    for n, replica in enumerate(world.replicas):
        replica.runs = [replica.start("racer%d" % n)]
    answered = set()
    owner = rng.choice(world.replicas)
    for question in _conflicts(owner):
        choice = rng.choice([*question["answers"], "current"])
        _answer(owner, question, choice)
        answered.add(question["key"])
        assert not owner.state.subject(question["key"]).contenders()
        assert len(owner.state.subject(question["key"]).frontier) == 1
        with pytest.raises(engine.Refused) as refused:
            _answer(owner, question, choice)
        assert refused.value.code == "moved"
    assert not _conflicts(owner)
    for replica in world.replicas:  # agents who have not seen the answer go on
        for key in sorted(answered):
            if replica is not owner and replica.state.subject(key).is_present():
                replica.propose(replica.runs[0], key, "unaware", tier=2, now=True)
    for replica in world.replicas:
        replica.fetch_all()
        assert not answered & {q["key"] for q in _conflicts(replica)}
        assert all(replica.state.subject(key).current.id.startswith("S") for key in answered)
    check_any_order(world, rng)


@given(st.sampled_from(("current", "other", "close", "--text")), st.sampled_from(("current", "other", "close", "--text")))
def test_two_answers_agree_or_are_the_next_question(one, other):
    """The owner's answers on two replicas are one if they say the same, else they stand beside each other to be settled."""
    world = replicas.World(2)
    _make_conflict(world)
    for replica, word in zip(world.replicas, (one, other)):
        question = _conflicts(replica)[0]
        _answer(replica, question, question["answers"][1] if word == "other" else word)
    for replica in world.replicas:
        replica.fetch_all()
        assert len(replica.state.subject("a").frontier) == 2
        assert [q["key"] for q in _conflicts(replica)] == ([] if one == other else ["a"])
    for question in _conflicts(world.replicas[0]):
        _answer(world.replicas[0], question, "current")
    world.replicas[1].fetch_all()
    assert not _conflicts(world.replicas[0]) + _conflicts(world.replicas[1])


# -- withdrawal --


@pytest.mark.parametrize("rested", [False, True])
def test_a_withdrawal_counts_for_nothing_while_another_run_rests_on_it(rested):
    """A contender that its run takes back leaves, and what only it replaced returns, unless another run said the same."""
    world = replicas.World(2)
    _make_conflict(world)
    here, there = world.replicas
    contender = here.state.subject("a").frontier[1]
    taker, other = (here, there) if contender.tag in here.tags else (there, here)
    if rested:
        run = other.start("claude")
        text = other.state.body(contender.id)["value"]["text"]
        assert other.call("propose", run=run, key="a", text=text, now=True)["unchanged"][0]["reason"] == "same"
    taker.call("withdraw", run=contender.run, proposal=contender.id)
    for replica in world.replicas:
        replica.fetch_all()
        assert (contender.id in [c.id for c in replica.state.subject("a").frontier]) is rested
    for order in itertools.permutations(world.ledgers):
        fresh = replicas.fold_fresh([unit for tag in order for unit in world.ledgers[tag]])
        assert (fresh.find_claim(contender.id).outcome == "accepted") is rested


def test_a_run_cannot_withdraw_what_another_is_seen_to_rest_on():
    """Once another run's `same` is known, a withdrawal is refused and records nothing."""
    world = replicas.World(2)
    _make_conflict(world)
    here, there = world.replicas
    contender = here.state.subject("a").frontier[1]
    taker, other = (here, there) if contender.tag in here.tags else (there, here)
    other.propose(other.start("claude"), "a", other.state.body(contender.id)["value"]["text"], now=True)
    taker.fetch_all()
    units = sum(map(len, world.ledgers.values()))
    with pytest.raises(engine.Refused) as refused:
        taker.call("withdraw", run=contender.run, proposal=contender.id)
    assert refused.value.code == "not-withdrawable"
    assert sum(map(len, world.ledgers.values())) == units


@pytest.mark.parametrize("trust", engine.TRUSTS)
def test_a_staged_proposal_can_be_withdrawn(trust):
    """A run takes back what it has staged, whatever its trust: nothing is decided of it."""
    world = replicas.World(1)
    replica = world.replicas[0]
    run = replica.start()
    proposal = replica.propose(run, "a", tier=2, new_subject=True, trust=trust, source="user")
    replica.call("withdraw", run=run, proposal=proposal)
    assert replica.state.find_claim(proposal).outcome == "withdrawn"
    result = replica.sync(run)
    assert not result["applied"] + result["unchanged"] + result["held"] + result["beside"]
    assert not replica.state.subject("a").frontier


def test_what_a_withdrawn_value_replaced_returns_through_several():
    """A value comes back when the last of those that replaced it, one after the other, no longer stands."""
    world = replicas.World(2)
    _make_conflict(world)
    here, there = world.replicas
    first = here.state.subject("a").frontier
    run = here.start("claude")
    chain = [here.propose(run, "a", "step %d" % n, now=True) for n in range(3)]
    there.fetch_all()
    for proposal in reversed(chain):
        here.call("withdraw", run=run, proposal=proposal)
    assert [c.id for c in here.state.subject("a").frontier] == [c.id for c in first]
    for _ in range(5):
        fresh = replicas.fold_fresh(replicas.interleave(world.ledgers, random.Random(_)))
        assert [c.id for c in fresh.subject("a").frontier] == [c.id for c in first]


# -- the join of what is said of one proposal --


def claim(ident="P5-kkkkkkkk", **fields):
    """Return a Claim of these fields, for the rest a working set of tier 2 that was accepted."""
    seq, tag = ident[1:].split("-")
    row = {"id": ident, "key": "a", "run": "R1-" + tag, "tag": tag, "seq": int(seq), "at": "2026-01-01T00:00:00.000Z", "depth": 1,
           "trust": "working", "source": "agent", "tier": 2, "op": "set", "effect": ident, "imported": False, "new_subject": False,
           "base": (), "staged": (), "outcome": "accepted", "made": "2026-01-01T00:00:00.%03dZ" % (int(seq) % 1000), "standing": True,
           "covered": False, "flaw": None}
    row.update(fields)
    if row["trust"] == "confirmed" and "source" not in fields:
        row["source"] = "user"
    return engine.Claim(**row)


def fact(outcome, seq=9, run="R1-kkkkkkkk", **fields):
    """Return what one record says of P5-kkkkkkkk."""
    row = {"proposal": "P5-kkkkkkkk", "tag": "kkkkkkkk", "seq": seq, "at": "2026-01-02T00:00:00.%03dZ" % seq, "run": run,
           "outcome": outcome, "reason": outcome, "parents": (), "rests": None}
    return engine.Fact(**dict(row, **fields))


@given(st.lists(st.sampled_from(engine.STRENGTH[:-1]), max_size=8), st.randoms(use_true_random=False))
def test_the_strongest_of_what_was_said_counts(outcomes, rng):
    """Declined over withdrawn over accepted over answered over held over noop, in any order and however often."""
    facts = [fact(o, n) for n, o in enumerate(outcomes)]
    joined = engine.join_facts(claim(outcome="staged", made=None, standing=False), facts, False)
    again = facts + facts
    rng.shuffle(again)
    assert engine.join_facts(claim(), again, False) == joined
    assert joined[0].outcome == min([*outcomes, "staged"], key=engine.STRENGTH.index)
    assert joined[0].standing is (joined[0].outcome == "accepted")
    assert joined[0].made == min((f.at for f in facts if f.outcome == "accepted"), default=None)


def test_strength_is_the_order_of_the_protocol():
    """The order of outcomes is the one that PROTOCOL section 5 gives."""
    said = ("declined", "withdrawn", "accepted", "held", "noop")
    assert tuple(o for o in engine.STRENGTH if o in said) == said


def test_parents_of_two_acceptances_are_united():
    """A proposal that two revisions accepted replaces what either of them let it replace, from the earlier on."""
    base = ("P1-kkkkkkkk", "P2-kkkkkkkk")
    facts = [fact("accepted", 9, parents=base[:1]), fact("accepted", 8, parents=base[1:])]
    joined, parents = engine.join_facts(claim(base=base), facts, False)
    assert parents == set(base)
    assert joined.made == facts[1].at


# -- decide --

A, B, C = "P1-kkkkkkkk", "P2-kkkkkkkk", "P3-kkkkkkkk"
OWNER = {"trust": "confirmed"}
#: name: (frontier, known beside it, proposal, (outcome, reason), parents or what it rests on); PROTOCOL section 6.
DECISIONS = {
    "a touch records use": ([claim(A)], [], {"op": "touch", "tier": None, "base": (A,)}, ("noop", "touched"), ()),
    "a touch of what was closed meanwhile": ([claim(A, op="close", effect="close")], [], {"op": "touch", "tier": None, "base": (A,)},
                                             ("noop", "touched"), ()),
    "the same as the current one": ([claim(A, effect="x")], [], {"effect": "x", "base": (A,)}, ("noop", "same"), A),
    "the same as a contender": ([claim(A), claim(B, effect="x")], [], {"effect": "x", "base": (A,)}, ("noop", "same"), B),
    "the same as what is outranked is a change": ([claim(A, **OWNER), claim(B, effect="x")], [], {"effect": "x", "base": (A, B)},
                                                  ("accepted", "alone"), (A,)),
    "the same, unseen, by two runs": ([claim(A, effect="x")], [], {"effect": "x", "new_subject": True}, ("noop", "same"), A),
    "a close of what is closed": ([claim(A, op="close", effect="close")], [], {"op": "close", "effect": "close", "base": (A,)},
                                  ("noop", "same"), A),
    "the owner says what is confirmed": ([claim(A, effect="x", **OWNER)], [], {"effect": "x", "base": (A,), **OWNER}, ("noop", "same"), A),
    "the owner confirms a working value": ([claim(A, effect="x")], [], {"effect": "x", "base": (A,), **OWNER}, ("accepted", "alone"), (A,)),
    "the owner says the current one of a conflict": ([claim(A, effect="x", **OWNER), claim(B, **OWNER)], [],
                                                     {"effect": "x", "base": (A, B), **OWNER}, ("accepted", "alone"), (A, B)),
    "a new key without saying so": ([], [], {}, ("held", "unknown-key"), ()),
    "a closed key without saying so": ([claim(A, op="close", effect="close")], [], {"base": (A,)}, ("held", "unknown-key"), ()),
    "the owner too says so of a new key": ([], [], OWNER, ("held", "unknown-key"), ()),
    "a new key": ([], [], {"new_subject": True}, ("accepted", "alone"), ()),
    "an own staged set is a set": ([claim(A)], [], {"staged": (A,)}, ("accepted", "alone"), (A,)),
    "a staged set that was held is none": ([], [], {"staged": (A,)}, ("held", "unknown-key"), ()),
    "a set of a base that is gone": ([claim(B)], [claim(A)], {"base": (A,)}, ("accepted", "beside"), (A,)),
    "admission to tier 1": ([], [], {"tier": 1, "new_subject": True}, ("held", "needs-owner"), ()),
    "promotion to tier 1": ([claim(A)], [], {"tier": 1, "base": (A,)}, ("held", "needs-owner"), ()),
    "change of tier 1": ([claim(A, tier=1, **OWNER)], [], {"tier": 1, "base": (A,)}, ("held", "needs-owner"), ()),
    "demotion from tier 1": ([claim(A, tier=1, **OWNER)], [], {"base": (A,)}, ("held", "needs-owner"), ()),
    "close of tier 1": ([claim(A, tier=1, **OWNER)], [], {"op": "close", "effect": "close", "tier": 1, "base": (A,)},
                        ("held", "needs-owner"), ()),
    "tier 1 anew after its close": ([claim(A, tier=1, op="close", effect="close", **OWNER)], [],
                                    {"tier": 2, "new_subject": True, "base": (A,)}, ("held", "needs-owner"), ()),
    "change of what was tier 1 when it was seen": ([claim(B, depth=2, **OWNER)], [claim(A, tier=1, **OWNER)], {"base": (A,), "depth": 2},
                                                   ("held", "needs-owner"), ()),
    "change of what was a confirmed pattern": ([claim(B, depth=2, **OWNER)], [claim(A, tier=3, **OWNER)], {"base": (A,), "depth": 2},
                                               ("held", "needs-owner"), ()),
    "change of a contender of tier 1": ([claim(A), claim(B, tier=1)], [], {"base": (B,), "depth": 2}, ("held", "needs-owner"), ()),
    "an own staged tier 1 that was held does not ask": ([claim(A)], [claim(B, tier=1, outcome="held")], {"base": (A,), "staged": (B,)},
                                                        ("accepted", "alone"), (A, B)),
    "tier 1 by the owner": ([claim(A)], [], {"tier": 1, "base": (A,), **OWNER}, ("accepted", "alone"), (A,)),
    "tier 1 by an import": ([], [], {"tier": 1, "new_subject": True, "imported": True}, ("accepted", "alone"), ()),
    "change of a confirmed pattern": ([claim(A, tier=3, **OWNER)], [], {"tier": 3, "base": (A,)}, ("held", "needs-owner"), ()),
    "a confirmed next step as a pattern": ([claim(A, **OWNER)], [], {"tier": 3, "base": (A,)}, ("held", "needs-owner"), ()),
    "change of a working pattern": ([claim(A, tier=3)], [], {"tier": 3, "base": (A,)}, ("accepted", "alone"), (A,)),
    "change of a confirmed conflict": ([claim(A, **OWNER), claim(B, **OWNER)], [], {"base": (A, B)}, ("held", "needs-owner"), ()),
    "a confirmed conflict by an import": ([claim(A, **OWNER), claim(B, **OWNER)], [], {"base": (A, B), "imported": True},
                                          ("accepted", "beside"), (A,)),
    "change of a confirmed next step": ([claim(A, **OWNER)], [], {"base": (A,)}, ("accepted", "alone"), (A,)),
    "a change": ([claim(A)], [], {"base": (A,)}, ("accepted", "alone"), (A,)),
    "a close": ([claim(A)], [], {"op": "close", "effect": "close", "base": (A,)}, ("accepted", "alone"), (A,)),
    "a change beside one that it had not seen": ([claim(B, depth=2, base=(A,))], [claim(A)], {"base": (A,), "depth": 2},
                                                 ("accepted", "beside"), (A,)),
    "of a conflict the first is replaced": ([claim(A), claim(B)], [], {"base": (A, B), "depth": 2}, ("accepted", "beside"), (A,)),
    "of a conflict that it saw in part": ([claim(A), claim(B)], [], {"base": (B,), "depth": 2}, ("accepted", "beside"), (B,)),
    "equals of the first go with it": ([claim(A, effect="x"), claim(B, effect="x"), claim(C)], [], {"base": (A, B, C), "depth": 2},
                                       ("accepted", "beside"), (A, B)),
    "an unseen equal of the first stays": ([claim(A, effect="x"), claim(B, effect="x")], [], {"base": (A,), "depth": 2},
                                           ("accepted", "beside"), (A,)),
    "own working values go too": ([claim(A), claim(B, run="R7-kkkkkkkk"), claim(C)], [],
                                  {"base": (A, B, C), "depth": 2}, ("accepted", "beside"), (A, B)),
    "own staged ids whatever became of them": ([claim(A)], [], {"base": (A,), "staged": (B, C)}, ("accepted", "alone"), (A, B, C)),
    "the deepest of a base that is gone": ([claim(C, depth=3)], [claim(A), claim(B, depth=2)], {"base": (A, B), "depth": 3},
                                           ("accepted", "beside"), (B,)),
    "the owner replaces the whole base": ([claim(A), claim(B)], [], {"base": (A, B), "staged": (C,), "depth": 2, **OWNER},
                                          ("accepted", "alone"), (A, B, C)),
    "the owner leaves what was not seen": ([claim(A), claim(B)], [], {"base": (A,), "depth": 2, **OWNER}, ("accepted", "beside"), (A,)),
    "a close beside a set": ([claim(A), claim(B)], [], {"op": "close", "effect": "close", "base": (A,), "depth": 2},
                             ("accepted", "beside"), (A,)),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decide_follows_the_table(name):
    """Each row of PROTOCOL section 6, and each rule of what is replaced, decides as it says."""
    frontier, known, fields, verdict, about = DECISIONS[name]
    proposal = claim("P9-kkkkkkkk", run="R7-kkkkkkkk", outcome="staged", made=None, standing=False, **fields)
    decision = engine.decide(engine.Subject(frontier, known), proposal)
    assert (decision.outcome, decision.reason) == verdict
    assert (decision.rests if verdict[1] == "same" else decision.parents) == about
    assert decision.parents == () or verdict[0] == "accepted"


def test_every_verdict_stands_in_the_table():
    """The table has each outcome and reason that the protocol has."""
    assert {row[3] for row in DECISIONS.values()} == {
        ("noop", "touched"), ("noop", "same"), ("held", "unknown-key"), ("held", "needs-owner"), ("accepted", "alone"),
        ("accepted", "beside")}


IDS = st.sampled_from([letter + "%d-%s" % (n, tag) for letter in "PS" for n in (1, 2, 3) for tag in replicas.TAGS[:2]])
CLAIMS = st.builds(
    claim, IDS, run=st.sampled_from((None, "R1-kkkkkkkk", "R1-bbbbbbbb")), depth=st.integers(1, 3), trust=st.sampled_from(engine.TRUSTS),
    tier=st.sampled_from(engine.TIERS), op=st.sampled_from(("set", "close")), effect=st.sampled_from("xyz"), imported=st.booleans())
PROPOSALS = st.builds(
    claim, st.just("P9-kkkkkkkk"), trust=st.sampled_from(engine.TRUSTS), tier=st.sampled_from(engine.TIERS), imported=st.booleans(),
    op=st.sampled_from(engine.OPS), effect=st.sampled_from("xyz"), new_subject=st.booleans(), depth=st.integers(1, 4),
    base=st.lists(IDS, unique=True, max_size=4).map(lambda ids: tuple(sorted(ids))),
    staged=st.lists(IDS, unique=True, max_size=2).map(lambda ids: tuple(sorted(ids))))
UNIQUE = st.lists(CLAIMS, max_size=5, unique_by=lambda c: c.id)


@settings(max_examples=300)
@given(UNIQUE, UNIQUE, PROPOSALS)
def test_decide_is_total(frontier, known, proposal):
    """Whatever stands and whatever is proposed, there is one decision, of a known form, that names only what is there."""
    subject = engine.Subject(frontier, known)
    decision = engine.decide(subject, proposal)
    said = {"proposal": proposal.id, "outcome": decision.outcome, "reason": decision.reason}
    if decision.outcome == "accepted":
        said["parents"] = list(decision.parents)
    if decision.rests:
        said["rests"] = decision.rests
    engine.check_record("revision", {"run": "R1-kkkkkkkk", "seen": {}, "decisions": [said], "salt": "0" * 32})
    assert set(decision.parents) <= {*proposal.base, *proposal.staged}
    assert decision.rests is None or decision.rests in {c.id for c in frontier}
    assert engine.decide(engine.Subject(reversed(frontier), reversed(known)), proposal) == decision
    after = engine.advance(subject, proposal, decision, "2026-01-03T00:00:00.000Z")
    assert {c.id for c in after.frontier} == {c.id for c in frontier} - set(decision.parents) | (
        {proposal.id} if decision.outcome == "accepted" else set())
    if decision.outcome == "accepted":
        assert decision.reason == ("beside" if len({c.effect for c in after.frontier}) > 1 else "alone")


# -- forged records --

FORGER = "ffffffff"


class Forger:
    """Writes a ledger of records that the grammar allows and that no engine would have written."""

    def __init__(self, world, rng):
        self.world, self.rng, self.chance = world, rng, replicas.Chance(1)
        self.state, self.ms = world.replicas[0].state, replicas.START_MS + world.tick * 60_000
        self.position = engine.Position(FORGER, -1, engine.first_prev(replicas.VAULT, FORGER), "")
        self.world.ledgers.pop(FORGER, None)
        self.put("replica", vault=replicas.VAULT, tag=FORGER, engine="0")
        seen = {tag: p.seq for tag, p in sorted(self.state.positions.items())}
        self.run = self.put("run-open", actor="forger", seen=seen)
        self.other = self.put("run-open", actor="forger", seen={})

    def put(self, kind, **fields):
        """Append one record as a unit of its own; return its id."""
        self.ms += 1
        body = engine.make_body(kind, self.chance(16).hex(), **fields)
        self.world.append(self.position, [(kind, body)], engine.format_at(self.ms))
        return "%s%d-%s" % (engine.LETTERS[kind], self.position.seq, FORGER)

    def propose(self, key, base=(), staged=(), depth=None, tier=2, run=None, op="set", **fields):
        """Append a proposal, honest but for what the caller asks for."""
        value = {"op": "touch"} if op == "touch" else {"op": op, "tier": tier}
        if op == "set":
            value.update({1: {"kind": "fact"}, 2: {"importance": 3, "status": "active"}, 3: {"confidence": "emerging"}}[tier],
                         text="forged")
        honest = 1 + max((self.state.find_claim(i).depth for i in base if self.state.find_claim(i)), default=0)
        return self.put("proposal", **dict({
            "run": run or self.run, "key": key, "value": value, "base": sorted(base), "staged": sorted(staged),
            "depth": depth or honest, "new_subject": True, "source": "agent", "trust": "working",
            "evidence": ["https://example.invalid/"]}, **fields))

    def accept(self, proposal, parents=(), run=None):
        """Append a revision that accepts a proposal."""
        said = {"proposal": proposal, "outcome": "accepted", "reason": "alone", "parents": sorted(set(parents))}
        self.put("revision", run=run or self.run, seen={}, decisions=[said])

    def on(self, key):
        """Return the ids of a key's frontier."""
        return [c.id for c in self.state.subject(key).frontier]

    def find(self, sql, *values):
        """Return one of the ids that a query gives, or None."""
        rows = self.state.rows("SELECT id FROM claim WHERE %s ORDER BY id" % sql, *values)
        return self.rng.choice(rows)[0] if rows else None


OWNERS = {"source": "user", "trust": "confirmed"}


def forge_depth(forger, key):
    """An owner's statement that claims to have seen more than there is."""
    forger.accept(forger.propose(key, forger.on(key), depth=40, **OWNERS), forger.on(key))
    return "false-depth"


def forge_shallow(forger, key):
    """An answer of the owner that claims to have seen less than it replaces."""
    if forger.on(key):
        forger.put("resolution", key=key, handle="C-abcdef", answer="text", parents=sorted(forger.on(key)), depth=30, seen={},
                   source="user", value={"op": "close", "tier": 2} if forger.rng.random() < 0.5 else
                   {"op": "set", "tier": 2, "text": "forged", "importance": 3, "status": "active"})
        return "false-depth"
    return None


def forge_key(forger, key):
    """A value that would replace one of another subject."""
    other = forger.rng.choice([k for k in replicas.KEYS if k != key])
    if forger.on(other):
        forger.accept(forger.propose(key, forger.on(other), **OWNERS), forger.on(other))
        return "foreign-key"
    return None


def forge_staged(forger, key):
    """A value that rests on what another run has staged."""
    staged = forger.find("key=? AND id LIKE 'P%'", key) or forger.propose(key, run=forger.other)
    forger.accept(forger.propose(key, forger.on(key), [staged], **OWNERS), [*forger.on(key), staged])
    return "foreign-staged"


def forge_parent(forger, key):
    """A value that replaces what its proposal says it had not seen."""
    if forger.on(key):
        forger.accept(forger.propose(key, **OWNERS), forger.on(key))
        return "unseen-parent"
    return None


def forge_owner(forger, key):
    """An agent's tier 1, accepted."""
    forger.accept(forger.propose(key, forger.on(key), tier=1), forger.on(key))
    return "not-owner"


def forge_over_owner(forger, key):
    """An agent's value in the place of what only the owner may replace."""
    target = forger.find("key=? AND made IS NOT NULL AND (tier=1 OR (tier=3 AND trust='confirmed'))", key)
    if target:
        forger.accept(forger.propose(key, [target]), [target])
        return "not-owner"
    return None


def forge_and_withdraw(forger, key):
    """An agent's value in the place of the owner's, withdrawn again by its own run."""
    target = forger.find("key=? AND made IS NOT NULL AND (tier=1 OR (tier=3 AND trust='confirmed'))", key)
    if target:
        proposal = forger.propose(key, [target])
        forger.accept(proposal, [target])
        forger.put("withdrawal", run=forger.run, proposal=proposal)
        return "not-owner"
    return None


def forge_and_decline(forger, key):
    """An agent's value in the place of the owner's, declined by the owner."""
    target = forger.find("key=? AND made IS NOT NULL AND (tier=1 OR (tier=3 AND trust='confirmed'))", key)
    if target:
        proposal = forger.propose(key, [target])
        forger.put("resolution", key=key, handle="H-abcdef", answer="decline", parents=[], depth=0, seen={}, proposal=proposal)
        forger.accept(proposal, [target])
        return "not-owner"
    return None


def forge_import(forger, key):
    """An import that was none."""
    forger.accept(forger.propose(key, forger.on(key), tier=1, imported=True, source="legacy", trust="confirmed"), forger.on(key))
    return "not-imported"


def forge_withdrawal(forger, key):
    """A withdrawal of another run's value."""
    target = forger.find("key=? AND id LIKE 'P%'", key)
    if target:
        forger.put("withdrawal", run=forger.run, proposal=target)
        return "not-yours"
    return None


def forge_owners_withdrawal(forger, key):
    """A withdrawal, in its run's own name, of an owner's statement that was accepted."""
    target = forger.find("key=? AND id LIKE 'P%' AND made IS NOT NULL AND trust='confirmed'", key)
    if target:
        forger.put("withdrawal", run=forger.state.find_claim(target).run, proposal=target)
        return "not-yours"
    return None


def forge_touch(forger, key):
    """A touch that was accepted as a value."""
    forger.accept(forger.propose(key, forger.on(key), op="touch", **OWNERS), forger.on(key))
    return "touch-accepted"


def forge_held(forger, key):
    """A question to the owner about what counts for nothing."""
    proposal = forger.propose(key, forger.on(key), depth=40)
    forger.put("revision", run=forger.run, seen={}, decisions=[{"proposal": proposal, "outcome": "held", "reason": "needs-owner"}])
    return "false-depth"


def forge_answer(forger, key):
    """An acceptance by the owner, of what is held, that counts for nothing: what is held stays held."""
    target = forger.find("key=? AND outcome='held'", key)
    if target:
        parents = sorted({*forger.on(key), target})
        forger.put("resolution", key=key, handle="H-abcdef", answer="accept", parents=parents, depth=30, seen={}, source="user",
                   proposal=target, value={"op": "set", "tier": 2, "text": "forged", "importance": 3, "status": "active"})
        return "false-depth"
    return None


FORGERIES = (forge_depth, forge_shallow, forge_key, forge_staged, forge_parent, forge_owner, forge_over_owner, forge_and_withdraw,
             forge_and_decline, forge_import, forge_withdrawal, forge_owners_withdrawal, forge_touch, forge_held, forge_answer)


def _counting(state):
    """Return what counts of a state: its frontiers, its doors but for use, its conflicts, what honest claims have come to."""
    subjects = state.rows("SELECT key, current, frontier, present, tier, op, trust, source, text, until, handle FROM subject"
                          " WHERE current IS NOT NULL ORDER BY key")
    claims = state.rows("SELECT id, outcome, made, standing, covered, flaw FROM claim WHERE tag<>? ORDER BY id", FORGER)
    pasts = {key: [c.id for page in range(1, engine.count_pages(state.count_history(key)) + 1) for c in state.history(key, page)]
             for key in replicas.KEYS}
    return {"subjects": subjects, "claims": claims, "pasts": pasts, "conflicts": state.tally("conflicts"), "held": state.tally("held"),
            "tiers": [state.tally("tier%d" % t) for t in engine.TIERS], "settings": state.rows("SELECT * FROM setting ORDER BY 1")}


@given(STEPS, st.lists(st.tuples(st.sampled_from(FORGERIES), st.sampled_from(replicas.KEYS)), min_size=1, max_size=4), SEED)
def test_what_no_engine_would_have_written_counts_for_nothing(steps, forgeries, seed):
    """Forged records change no frontier, no current value and no honest claim, in whatever order they arrive."""
    world, rng = replicas.play_merged(2, steps), random.Random(seed)
    due = _counting(world.replicas[0].state)
    forger = Forger(world, rng)
    for forge, key in forgeries:
        forge(forger, key)
    known = None
    for flush in (None, lambda: True, lambda: rng.random() < 0.3, None):
        units = replicas.interleave(world.ledgers, rng)
        fresh = replicas.fold_fresh(units, flush)
        assert not replicas.differences(due, _counting(fresh))
        known = known or replicas.tables(fresh)
        assert not replicas.differences(known, replicas.tables(fresh))
        check_plain(fresh, units)
        for key in replicas.KEYS:
            whole = engine.subject_within(*fresh.records_of(key), lambda *_: True)
            assert _facts_of(whole) == _facts_of(fresh.subject(key))


def _open_world():
    """Return a world of two replicas, a run in the first, and a forger who has seen all of it."""
    world = replicas.World(2)
    here, there = world.replicas
    run = here.start()
    here.propose(run, "a", "said by the owner", tier=1, new_subject=True, now=True, **OWNERS)
    here.propose(run, "b.rule", tier=3, new_subject=True, now=True, evidence=["https://example.invalid/"], **OWNERS)
    here.propose(run, "b.next", tier=2, new_subject=True, now=True)
    here.propose(run, "a", "held", now=True)
    there.fetch_all()
    return world, run, Forger(world, random.Random(0))


@pytest.mark.parametrize("forge", FORGERIES)
def test_each_forgery_is_a_finding(forge, tmp_path):
    """Every rule of PROTOCOL section 5 names the record that breaks it, and doctor tells its line."""
    world, _, forger = _open_world()
    rule = forge(forger, "a")
    state = replicas.fold_fresh(itertools.chain(*world.ledgers.values()))
    found = {row[0] for row in state.rows("SELECT flaw FROM claim WHERE flaw IS NOT NULL")}
    for (proposal,) in state.rows("SELECT DISTINCT proposal FROM fact"):
        target = state.find_claim(proposal)
        found |= {engine.find_flaw(state, target, f) for f in state.facts(proposal)} - {None}
    assert found == {rule}
    told = [f for f in _findings(replicas.write_vault(tmp_path / "v", world.ledgers)) if f["kind"] == rule]
    assert {f["severity"] for f in told} <= {"error", "notice"}
    assert all(f["line"] and f["record"] for f in told)
    assert told


def lie_unseen(forger, run):
    """A proposal that rests on what its ledger had not seen."""
    late = forger.world.replicas[0].propose(run, "late", tier=2, new_subject=True, now=True)
    return "unseen", forger.propose("late", [late], depth=2)


def lie_unseen_decision(forger, run):
    """A decision of a proposal that its ledger had not seen."""
    late = forger.world.replicas[0].propose(run, "late", tier=2, new_subject=True)
    forger.accept(late)
    return "unseen", "V%d-%s" % (forger.position.seq, FORGER)


def lie_unseen_parent(forger, run):
    """An answer that replaces what its ledger had not seen."""
    late = forger.world.replicas[0].propose(run, "late", tier=2, new_subject=True, now=True)
    handle = engine.conflict_handle("late", [late])
    return "unseen", forger.put("resolution", key="late", handle=handle, answer="close", parents=[late], depth=2, seen={}, source="user",
                                value={"op": "close", "tier": 2})


def lie_ahead(forger, _run):
    """A proposal that rests on one of its own ledger that comes after it."""
    return "unseen", forger.propose("new", staged=["P%d-%s" % (forger.position.seq + 2, FORGER)])


def lie_mark(forger, _run):
    """A mark of what comes after it."""
    return "unseen", forger.put("mark", run=forger.run, upto={FORGER: forger.position.seq + 9})


def lie_itself(forger, _run):
    """A ledger that says it has seen itself."""
    return "bad-seen", forger.put("run-open", actor="forger", seen={FORGER: 0})


def lie_no_run(forger, _run):
    """An entry of a run that is none."""
    return "dangling", forger.put("journal", run="R0-" + FORGER, text="x", importance=3)


def lie_closed(forger, _run):
    """An entry of a run that was closed."""
    forger.put("run-close", run=forger.other, outcome="success", summary="x", how="close")
    return "closed-run", forger.put("journal", run=forger.other, text="x", importance=3)


def lie_closed_twice(forger, _run):
    """A run closed twice in one ledger."""
    forger.put("run-close", run=forger.other, outcome="success", summary="x", how="close")
    return "closed-run", forger.put("run-close", run=forger.other, outcome="fail", summary="y", how="close")


def lie_chosen(forger, _run, **wrong):
    """An answer that takes another value than the one which it names."""
    key, ids = "b.next", forger.on("b.next")
    said = {"key": key, "handle": engine.conflict_handle(key, ids), "answer": "choose", "parents": ids, "depth": 2, "seen": {},
            "source": "agent", "chosen": ids[0], "value": {"op": "close", "tier": 2}}
    return "false-answer", forger.put("resolution", **{**said, **wrong})


def lie_source(forger, run):
    """An answer that gives the value it takes another source."""
    return lie_chosen(forger, run, source="user", value=forger.state.body(forger.on("b.next")[0])["value"])


def lie_handle(forger, run):
    """An answer to a question that its parents do not make."""
    return lie_chosen(forger, run, handle="C-abcdef", value=forger.state.body(forger.on("b.next")[0])["value"])


def lie_own_words(forger, _run):
    """The owner's own words to a question that its parents do not make."""
    ids = forger.on("b.next")
    return "false-answer", forger.put(
        "resolution", key="b.next", handle="C-abcdef", answer="text", parents=ids, depth=2, seen={}, source="user",
        value=dict(forger.state.body(ids[0])["value"], text="forged"))


def lie_accepted(forger, _run):
    """An acceptance of a held proposal with another value."""
    held = forger.find("key='a' AND outcome='held'")
    parents = sorted({*forger.on("a"), held})
    return "false-answer", forger.put(
        "resolution", key="a", handle=engine.held_handle("a", forger.on("a"), held), answer="accept", parents=parents, depth=2, seen={},
        source="agent", proposal=held, value={"op": "close", "tier": 1})


def lie_declined(forger, _run):
    """A refusal of a proposal of another key."""
    held = forger.find("key='a' AND outcome='held'")
    return "false-answer", forger.put("resolution", key="b.rule", handle=engine.held_handle("b.rule", forger.on("b.rule"), held),
                                      answer="decline", parents=[], depth=0, seen={}, proposal=held)


def lie_adopted(forger, _run):
    """An adopted edit that replaces less than what stood there."""
    edit = forger.put("recovery", what="view", path="MEMORY.md", sha256="0" * 64, size=1)
    handle = engine.edit_handle(edit, {"b.next": []})
    return "false-answer", forger.put("resolution", key="b.next", handle=handle, answer="adopt", parents=[], depth=1, seen={},
                                      source="user", edit=edit, value={"op": "close", "tier": 2})


def lie_withdrawn(forger, _run):
    """A withdrawal of a value beside which no other stands."""
    proposal = forger.propose("new")
    forger.accept(proposal)
    return "not-withdrawable", forger.put("withdrawal", run=forger.run, proposal=proposal)


def lie_withdrawn_of_others(forger, run):
    """The same where another ledger spoke of the key before, which this one had read, and speaks of it later, knowing this."""
    proposal = forger.propose("b.next", forger.on("b.next"))
    forger.accept(proposal, forger.on("b.next"))
    withdrawal = forger.put("withdrawal", run=forger.run, proposal=proposal)
    here = forger.world.replicas[0]
    here.fetch_all()
    here.sync(run)
    here.propose(run, "b.next", "said later", now=True)
    return "not-withdrawable", withdrawal


LIES = (lie_unseen, lie_unseen_decision, lie_unseen_parent, lie_ahead, lie_mark, lie_itself, lie_no_run, lie_closed,
        lie_closed_twice, lie_chosen, lie_source, lie_handle, lie_own_words, lie_accepted, lie_declined, lie_adopted, lie_withdrawn,
        lie_withdrawn_of_others)


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_an_error_to_doctor(lie, tmp_path):
    """What breaks no rule of section 5, and no engine would have written at that place of its ledger, doctor finds there."""
    world, run, forger = _open_world()
    assert not _errors(replicas.write_vault(tmp_path / "before", world.ledgers))
    kind, record = lie(forger, run)
    found = [f for f in _errors(replicas.write_vault(tmp_path / "after", world.ledgers)) if f["kind"] == kind]
    assert [(f["record"], f.get("line", forger.position.seq + 1)) for f in found] == [(record, forger.position.seq + 1)] * len(found)
    assert found


# -- on disk --


def test_replay_equals_live_on_disk(tmp_path, capsys):
    """The cache that commands kept, and the views that they wrote, are those that the ledgers give."""
    vault, chance, clock = str(tmp_path / "memory"), replicas.Chance(), itertools.count(replicas.START_MS, 60_000)

    def run(*argv, status=0):
        assert engine.main([*argv, "--vault", vault], clock=lambda: next(clock), chance=chance) == status
        return capsys.readouterr().out.split()

    run("init", vault)
    one, two = (run("start", "--actor", actor)[1] for actor in replicas.ACTORS)
    run("journal", "--run", one, "--text", "seen", "--ref", "r1")
    run("propose", "--run", one, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "x", "--evidence", "r1", "--now")
    run("sync", "--run", two)
    run("propose", "--run", one, "--key", "a.b", "--text", "y")
    run("propose", "--run", two, "--key", "a.b", "--text", "z")
    run("sync", "--run", one)
    run("sync", "--run", two, status=4)
    run("propose", "--run", two, "--key", "c", "--tier", "1", "--new-subject", "--text", "rule", "--now", status=4)
    handles = [word for word in run("review") if word.startswith("C-")]
    run("resolve", handles[0], "--choose", "current", "--human-approved")
    run("close", "--run", one, "--outcome", "success", "--summary", "done")
    opened = engine.open_vault(vault)
    live, fresh = engine.open_cache(opened), engine.fold_fresh(opened)
    assert not replicas.differences(replicas.tables(live), replicas.tables(fresh))
    assert replicas.tables(live)["subject"]
    for path, text in replicas.views(fresh).items():
        assert (tmp_path / "memory" / path).read_text(encoding="utf-8") == text
    live.close()
    fresh.close()
    run("doctor", "--strict")


# -- many more --


def _steps(rng):
    return [(rng.randrange(21), rng.randrange(3), rng.randrange(4), rng.randrange(6)) for _ in range(rng.choice((15, 30, 60, 120)))]


#: How each argument of a property is made by chance alone.
BY_CHANCE = {
    "count": lambda rng: rng.randint(1, 3), "steps": _steps, "seed": lambda rng: rng.randrange(2**32),
    "where": lambda rng: rng.randrange(3),
    "key": lambda rng: rng.choice(replicas.KEYS), "owner": lambda rng: rng.random() < 0.5, "op": lambda rng: rng.choice(("set", "close")),
    "turns": lambda rng: rng.choice(((0, 1), (1, 0))),
    "forgeries": lambda rng: [(rng.choice(FORGERIES), rng.choice(replicas.KEYS)) for _ in range(rng.randint(1, 6))],
}
WORLDLY = [test for name, test in sorted(globals().items()) if name.startswith("test_") and hasattr(test, "hypothesis")
           and set(inspect.signature(test.hypothesis.inner_test).parameters) - {"tmp_path_factory"} <= BY_CHANCE.keys()]


@pytest.mark.long
@pytest.mark.parametrize("test", WORLDLY, ids=lambda test: test.__name__)
def test_many_more_and_longer_histories(test, tmp_path_factory):
    """What holds for a few short histories holds for many long ones."""
    names = inspect.signature(test.hypothesis.inner_test).parameters
    for seed in range(120):
        rng = random.Random(seed)
        args = {name: tmp_path_factory if name == "tmp_path_factory" else BY_CHANCE[name](rng) for name in names}
        sys.stdout.write("seed %d\n" % seed)  # shown where it fails
        test.hypothesis.inner_test(**args)


def test_the_long_run_knows_every_property_of_worlds():
    """A property that plays a world is among those that the long run repeats."""
    assert len(WORLDLY) >= 10


def test_generations_of_one_effect_are_one_choice():
    """Two contenders that say the same are offered once: by the first of them by rank."""
    current, first, second = claim("P1-kkkkkkkk"), claim("P2-kkkkkkkk", effect="x"), claim("P3-kkkkkkkk", effect="x")
    subject = engine.Subject([second, first, current])
    assert [c.id for c in subject.contenders()] == ["P2-kkkkkkkk"]
    assert subject.is_present()
