"""`completion`: scripts that a shell takes, and that know every command, option and choice."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import scratch

engine = scratch.engine
OPTIONS = [(c.name, flags[0]) for c in engine.COMMANDS for flags, _ in c.args if flags[0].startswith("-")]
NEED = {shell: pytest.mark.skipif(shutil.which(shell) is None, reason=shell + " is not here to be asked") for shell in engine.SHELLS}
SHELLS = [pytest.param(shell, marks=NEED[shell]) for shell in engine.SHELLS]
#: Asks a shell, after its script, what it offers for the last of some words; a line each. Of zsh only our own part is run.
ASK = {
    "bash": "COMP_WORDS=(%(words)s); COMP_CWORD=%(last)d; _muniment; printf '%%s\\n' \"${COMPREPLY[@]}\"",
    "fish": "complete -C \"%(line)s\" | string replace -r '\\t.*' ''",
    "zsh": "words=(%(words)s); CURRENT=%(last)d+1; _muniment",
}
ZSH = "compdef() { }; _describe() { print -l -- $commands }; _arguments() { print -l -- $words[1] $@ }; _files() { print FILES }\n"


@pytest.mark.parametrize("shell", engine.SHELLS)
def test_a_script_names_every_command_and_option(bare, shell):
    """Nothing of the command table is missing."""
    script = bare.ok("completion", shell)["script"]
    assert bare.call("completion", shell, plain=True).out == script
    for name, option in OPTIONS:
        forms = {"bash": r"    %s\) .*(?<![\w-])%s(?![\w-])", "zsh": r"    %s\) .*'\*?%s\[", "fish": r".*contains -- %s .* -l %s "}
        assert re.search(forms[shell] % (name, option[2:] if shell == "fish" else option), script, re.MULTILINE), (name, option)


@pytest.fixture
def offered(bare):
    """Return a function that asks a shell what it offers for the last of some words."""
    def ask(shell, *words):
        script = (ZSH if shell == "zsh" else "") + bare.ok("completion", shell)["script"]
        line = " ".join(word.replace(" ", "\\\\ ") for word in words)
        asked = ASK[shell] % {"words": " ".join("'%s'" % word for word in words), "last": len(words) - 1, "line": line}
        done = subprocess.run([shutil.which(shell), *{"fish": ["--no-config"], "zsh": ["-f"]}.get(shell, ["--norc"]), "-c", script + asked],
                              capture_output=True, text=True, check=False, timeout=60, cwd=bare.folder,
                              env={"HOME": str(bare.folder), "PATH": "/usr/bin:/bin"})
        assert done.stderr == "", done
        return done.stdout.split("\n")[:-1]

    return ask


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("before", [(), ("--vault", "a folder"), ("--json",), ("--lock-wait", "3", "--json")])
def test_a_shell_offers_commands_then_options_then_choices(offered, shell, before):
    """A first word is a command, also behind options with a value; then come its options, and what an option may be."""
    first = offered(shell, "muniment", *before, "st")
    then = offered(shell, "muniment", *before, "propose", "--o")
    last = offered(shell, "muniment", *before, "propose", "--op", "")
    if shell == "zsh":
        assert {word.split(":")[0] for word in first} == {command.name for command in engine.COMMANDS}
        assert then[0] == last[0] == "propose"
        assert any(word.startswith("--op[") and word.endswith(":value:(%s)" % " ".join(engine.OPS)) for word in then)
    else:
        assert set(first) == {"start", "status"}
        assert then == ["--op"]
        assert set(last) == set(engine.OPS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_offers_what_a_word_of_a_command_may_be(offered, shell):
    """`model` takes one of its own words; the value of `--vault` is a file's name, which the shell finds by itself."""
    words = offered(shell, "muniment", "--json", "model", "")
    assert any("remove" in word for word in words)
    assert offered(shell, "muniment", "--vault", "") == {"zsh": ["FILES"], "bash": [""], "fish": []}[shell]


def test_an_unknown_shell_is_refused(bare):
    """Only the three shells have a script."""
    assert bare.call("completion", "tcsh").code == (2, "usage")
