"""What fuzzing found once stays found: each kept input is checked again, and a few seconds look for more by chance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

INPUTS = sorted(path.name for path in fuzz.KEPT.iterdir())


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """The targets by name, each made once."""
    found = {made.name: made(tmp_path_factory.mktemp(made.name)) for made in fuzz.list_targets()}
    yield found
    found["edit"].state.close()


@pytest.mark.parametrize("name", INPUTS)
def test_a_kept_input_keeps_every_promise(targets, name):
    """What once broke a promise, or came close, breaks none."""
    targets[name.partition("-")[0]].check((fuzz.KEPT / name).read_bytes())


def test_inputs_to_begin_with_keep_every_promise(targets):
    """Of what the search for inputs begins with, a third breaks no promise."""
    for target in targets.values():
        for data in target.seeds()[::3]:
            target.check(data)


@pytest.mark.parametrize("made", fuzz.list_targets(), ids=lambda made: made.name)
def test_inputs_by_chance_keep_every_promise(targets, made, tmp_path):
    """A few inputs by chance, the same each time, break no promise."""
    count, broken = fuzz.run_plain(targets[made.name], 60, 0, tmp_path, most=25)
    assert (count, broken) == (25, {})


@pytest.mark.long
def test_the_driver_runs_without_a_fuzzer(tmp_path):
    """As a script, with --plain, it ends with 0 where no promise is broken."""
    words = [sys.executable, str(Path(fuzz.__file__)), "--plain", "--seconds", "1", "--keep", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stdout + done.stderr
