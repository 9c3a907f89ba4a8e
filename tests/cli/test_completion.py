"""`completion`: scripts that a shell takes, and that know every command, option and choice."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import scratch

engine = scratch.engine
OPTIONS = [(c.name, flags[0]) for c in engine.COMMANDS for flags, _ in c.args if flags[0].startswith("-")]


@pytest.mark.parametrize("shell", engine.SHELLS)
def test_a_script_names_every_command_and_option(bare, shell):
    """Nothing of the command table is missing, and the shell, where it is here, finds no fault with the script."""
    script = bare.ok("completion", shell)["script"]
    assert bare.call("completion", shell, plain=True).out == script
    for name, option in OPTIONS:
        forms = {"bash": r"    %s\) .*(?<![\w-])%s(?![\w-])", "zsh": r"    %s\) .*'\*?%s\[", "fish": r".*_from %s' -l %s "}
        assert re.search(forms[shell] % (name, option[2:] if shell == "fish" else option), script, re.MULTILINE), (name, option)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True, timeout=60)


def complete(script, words):
    """Return what bash offers for the last of some words."""
    asked = "%s\nCOMP_WORDS=(%s); COMP_CWORD=%d; _muniment; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
        script, " ".join("'%s'" % word for word in words), len(words) - 1)
    done = subprocess.run([shutil.which("bash"), "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here to be asked")
def test_bash_offers_commands_then_options_then_choices(bare):
    """A first word is a command, a further one an option of it, and what follows an option is one of its choices."""
    script = bare.ok("completion", "bash")["script"]
    assert complete(script, ["muniment", "st"]) == ["start", "status"]
    assert complete(script, ["muniment", "start", "--a"]) == ["--actor"]
    assert complete(script, ["muniment", "propose", "--op", ""]) == list(engine.OPS)
    assert set(complete(script, ["muniment", "--json", "model", ""])) >= {"list", "add", "use", "remove", "--download"}


def test_an_unknown_shell_is_refused(bare):
    """Only the three shells have a script."""
    assert bare.call("completion", "tcsh").code == (2, "usage")
