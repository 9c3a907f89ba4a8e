"""`install`, `upgrade` and `uninstall` in projects of many shapes: what is laid works, and is undone to the byte."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bimri_stores

posix = pytest.mark.skipif(os.name != "posix", reason="needs symbolic links, modes or a shell as POSIX has them")
AGENTS = ("claude", "codex", "gemini", "cursor")
ALL = ",".join(AGENTS)
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
#: This engine, from the bytecode that the tests have made of it already.
IMPORTED = "import sys; sys.path.insert(0, %r); import engine; engine.run()" % str(TEMPLATES.parent)
#: Ends the process once so many files were put in their places.
STOP = """
import os
real, left = os.replace, [%d]
def replace(one, other):
    real(one, other)
    left[0] -= 1
    left[0] or os._exit(9)
os.replace = replace
"""
LONG = "# Rules\n\n" + "".join("%d. Keep rule %d, and `code` as it is.\n" % (n, n) for n in range(400))
SETTINGS = """{
    // the owner's own
    "permissions": {"allow": ["Bash(npm test:*)"]},
    "hooks": {
        "SessionStart": [
            {"hooks": [{"type": "command", "command": "echo hello"}]},
        ],
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}] /* kept */
    },
    "model": "opus"
}
"""
SHAPES = {
    "bare": {},
    "long rules": {"AGENTS.md": LONG},
    "imports": {"CLAUDE.md": "# Claude\n\n@docs/style.md\n@README.md\n", "docs/style.md": "Short.\n", "README.md": "Hello.\n"},
    "own import": {"CLAUDE.md": "@AGENTS.md\n", "AGENTS.md": "Be brief.\n"},
    "settings": {".claude/settings.local.json": SETTINGS, ".claude/settings.json": '{"env": {"A": "1"}}',
                 "~/.codex/hooks.json": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}',
                 "~/.gemini/settings.json": '// mine\n{\n\t"ui": {"theme": "x"},\n}\n',
                 "~/.cursor/hooks.json": '{\n  "version": 1,\n  "hooks": {}\n}'},
    "windows": {"AGENTS.md": "\ufeff# Rules\r\n\r\nKeep.\r\n", "CLAUDE.md": "one\r\ntwo",
                ".claude/settings.local.json": '{\r\n  "a": 1\r\n}\r\n'},
    "no last newline": {"AGENTS.md": "Keep this", "GEMINI.md": "and\n\n\nthis\n\n\n"},
    "markers in prose": {"AGENTS.md": "x\n<!-- muniment begins -->\ny\n<!-- muniment ends -->\n<!-- muniment begins -->\n",
                         "CLAUDE.md": "```\n@AGENTS.md\n```\n"},
    "empty files": {"AGENTS.md": "", "CLAUDE.md": ""},
}


class Site:
    """A project folder with a home of its own, the engine called in it, and both as bytes."""

    def __init__(self, folder, files=(), git=True):
        self.project, self.home = folder / "my shop", folder / "home"
        self.vault = self.project / "memory"
        for place in (self.project, self.home):
            place.mkdir(parents=True)
        if git:
            (self.project / ".git" / "info").mkdir(parents=True)
            (self.project / ".git" / "info" / "exclude").write_bytes(b"# git ls-files --others --exclude-from\n*~\n")
        for name, text in dict(files).items():
            path = self.home / name[2:] if name.startswith("~/") else self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
        self.environ = {**{n: v for n, v in os.environ.items() if not n.startswith("MUNIMENT")}, "HOME": str(self.home),
                        "USERPROFILE": str(self.home), "PATH": os.defpath, "MUNIMENT_STATE": str(folder / "state")}

    def run(self, words, stdin=b"", cwd=None):
        """Run a program; return (exit status, standard output, standard error)."""
        done = subprocess.run(list(map(str, words)), input=stdin, capture_output=True, cwd=cwd or self.project, env=self.environ,
                              timeout=120, check=False)
        return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")

    def engine(self, *words, program=None, stdin=b""):
        """Call an engine with --json: this one, or another file; return (exit status, the object that it printed)."""
        status, out, err = self.run([sys.executable, *([program] if program else ("-c", IMPORTED)), *words, "--json"], stdin)
        return status, json.loads(out or err)

    def with_fault(self, code, *words):
        """Call this engine after some lines of Python that change it; return (exit status, the object that it printed)."""
        faulty = "%s\n%s\nengine.run()" % (IMPORTED.replace("; ", "\n").replace("engine.run()", ""), code)
        status, out, err = self.run([sys.executable, "-c", faulty, *words, "--json"])
        lines = (out or err).strip().split("\n")
        return status, json.loads(lines[-1]) if lines[-1].startswith("{") else lines[-1]

    def ok(self, *words, **options):
        """Call an engine that must succeed; return its object."""
        status, said = self.engine(*words, **options)
        assert status == 0, said
        return said

    def install(self, *words, agents=ALL):
        """Install for all agents, unless others are named."""
        return self.ok("install", "--target", self.project, "--agents", agents, *words)

    def healthy(self):
        """Tell whether `doctor --strict` finds nothing, notices apart."""
        return [f for f in self.ok("doctor", "--strict")["findings"] if f["severity"] != "notice"] == []

    def files(self):
        """Return everything outside the vault, with bytes and rights; links as what they name."""
        return {path: (str(path.readlink()) if path.is_symlink() else path.read_bytes(), stat.S_IMODE(path.lstat().st_mode))
                for root in (self.project, self.home) for path in sorted(root.rglob("*"))
                if (path.is_symlink() or path.is_file()) and self.vault not in path.parents}

    def config(self, agent, kind="private"):
        """Return the path of an agent's configuration."""
        named = json.loads((TEMPLATES / "agents" / (agent + ".json")).read_text("utf-8"))["config"][kind]
        return self.home / named[2:] if named.startswith("~/") else self.project / named

    def hooks(self, agent):
        """Return the command of each of an agent's hooks, in our words for events, as the agent would run it."""
        adapter = json.loads((TEMPLATES / "agents" / (agent + ".json")).read_text("utf-8"))
        text = self.config(agent).read_text("utf-8")
        said = json.loads("\n".join(line for line in text.splitlines() if not line.strip().startswith("//"))) if "/*" not in text else None
        assert said is not None, "this configuration is not for reading here"
        found = {}
        for event, names in adapter["events"].items():
            items = said["hooks"][names["name"]]
            ours = [one for item in items for one in item.get("hooks", [item]) if "muniment.py" in json.dumps(one)]
            assert len(ours) == 1, items
            found[event] = [ours[0]["command"], *ours[0]["args"]] if "args" in ours[0] else ["/bin/sh", "-c", ours[0]["command"]]
        return found, adapter


@posix
@pytest.mark.parametrize("shape", SHAPES)
def test_a_project_gets_its_bytes_back(tmp_path, shape):
    """Install adds to each file and changes nothing else in it; a second install changes nothing; uninstall gives every byte back."""
    site = Site(tmp_path, SHAPES[shape])
    before = site.files()
    said = site.install()
    there = site.files()
    for path, (data, mode) in before.items():
        assert there[path][1] == mode
        if path.suffix == ".md":
            assert there[path][0].startswith(data), path
    assert {row["path"] for row in said["files"]} >= {str(p) for p in there if there[p] != before.get(p)}
    assert site.install()["files"] == []
    assert site.ok("install", "--target", site.project, "--agents", ALL, program=site.vault / "muniment.py")["files"] == []
    assert site.files() == there
    assert site.ok("doctor", "--strict", program=site.vault / "muniment.py")["findings"] == []
    status, _, err = site.run(shlex.split(said["undo"]), cwd=tmp_path)
    assert (status, err) == (0, "")
    assert site.files() == before
    assert (site.vault / "MEMORY.md").exists()
    assert not (site.vault / "engine.py").exists()
    assert site.ok("doctor", "--strict", "--vault", site.vault)["errors"] == 0


@posix
@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_runs_through_the_hooks_that_were_laid(tmp_path, agent):
    """The laid commands, given the agent's own JSON, open a run with a brief and close it; nothing else is needed on the machine."""
    site = Site(tmp_path, SHAPES["bare"])
    site.install(agents=agent)
    hooks, adapter = site.hooks(agent)
    for event in ("session-start", "pre-compact", "session-end"):
        given = {**adapter["examples"][event], "cwd": str(site.project), "workspace_roots": [str(site.project)]}
        status, out, err = site.run(hooks[event], json.dumps(given).encode())
        assert status == 0, err
        if event == "session-start":
            run = site.ok("status")["open"][0]
            assert run["actor"] == agent
            assert run["run"] in json.dumps(json.loads(out))
            site.ok("journal", "--run", run["run"], "--text", "Seen.", program=site.vault / "muniment.py")
    assert site.ok("status")["open_count"] == 0


@posix
@pytest.mark.parametrize("agent", AGENTS)
def test_hooks_of_one_project_are_nothing_to_another(tmp_path, agent):
    """A hook that runs in another folder than its project creates nothing and says nothing."""
    site = Site(tmp_path, SHAPES["bare"])
    site.install(agents=agent)
    hooks, adapter = site.hooks(agent)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    given = {**adapter["examples"]["session-start"], "cwd": str(elsewhere), "workspace_roots": [str(elsewhere)]}
    status, out, _ = site.run(hooks["session-start"], json.dumps(given).encode(), cwd=elsewhere)
    assert (status, out.strip() in ("", "{}")) == (0, True)
    assert site.ok("status")["runs"] == 0


@pytest.mark.long
def test_two_projects_share_the_users_files(tmp_path):
    """Each project's hooks stand once in the user's own files, and uninstalling one leaves the other's."""
    one = Site(tmp_path / "a", SHAPES["bare"])
    other = Site(tmp_path / "b", SHAPES["bare"])
    other.environ["HOME"] = other.environ["USERPROFILE"] = str(one.home)
    other.home = one.home
    one.install()
    laid = one.files()
    other.install()
    assert one.install()["files"] == []
    other.ok("uninstall", "--target", other.project)
    assert {p: d for p, d in one.files().items() if one.home in p.parents} == {p: d for p, d in laid.items() if one.home in p.parents}
    one.ok("uninstall", "--target", one.project)
    assert not any(path.is_file() for path in one.home.rglob("*"))


def test_what_others_wrote_meanwhile_stays(tmp_path):
    """Uninstall takes out what is ours alone where a file was changed after install."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n", ".claude/settings.local.json": '{"a": 1}'})
    site.install()
    rules, config = site.project / "AGENTS.md", site.config("claude")
    rules.write_bytes(b"Above.\n" + rules.read_bytes() + b"Below.\n")
    config.write_text(config.read_text("utf-8").replace('"a": 1', '"a": 2'), "utf-8")
    site.ok("uninstall", "--target", site.project)
    assert rules.read_bytes() == b"Above.\nBefore.\nBelow.\n"
    assert json.loads(config.read_text("utf-8")) == {"a": 2}


@pytest.mark.long
def test_a_machine_that_remembers_nothing_undoes_it_too(tmp_path):
    """Without local/ (a clone, another machine) blocks and hooks are known by their form."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n"})
    before = site.files()
    site.install()
    shutil.rmtree(site.vault / ".muniment" / "local")
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before
    assert not (site.vault / "muniment.py").exists()


def test_a_vault_that_was_deleted_leaves_a_project_that_can_be_cleaned(tmp_path):
    """Who deletes the folder first still gets rid of blocks and hooks."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n"})
    before = site.files()
    site.install()
    shutil.rmtree(site.vault)
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before


def test_a_dry_run_changes_nothing_and_shows_all(tmp_path):
    """--dry-run prints the difference of each file, and no file is made or changed."""
    site = Site(tmp_path, SHAPES["settings"])
    before = site.files()
    said = site.ok("install", "--target", site.project, "--agents", ALL, "--dry-run")
    assert site.files() == before
    assert not site.vault.exists()
    assert "+## Memory" in said["differences"]
    site.install()
    laid = site.files()
    assert site.ok("uninstall", "--target", site.project, "--dry-run")["differences"]
    assert site.files() == laid


def test_a_failed_self_check_puts_every_file_back(tmp_path):
    """Where the installed engine does not pass, each touched file has its bytes again, and a new vault is gone."""
    site = Site(tmp_path, SHAPES["settings"])
    before = site.files()
    broken = tmp_path / "source"
    shutil.copytree(TEMPLATES, broken / "templates")
    shutil.copy(TEMPLATES.parent / "engine.py", broken / "engine.py")
    (broken / "templates" / "muniment.py").write_text("raise SystemExit('broken')\n", "utf-8")
    status, said = site.engine("install", "--target", site.project, "--agents", "claude", program=broken / "engine.py")
    assert (status, said["code"]) == (9, "self-check")
    assert site.files() == before
    assert not site.vault.exists()
    site.install()
    laid = site.files()
    tree = {p: p.read_bytes() for p in site.vault.rglob("*.py")}
    (broken / "engine.py").write_text((broken / "engine.py").read_text("utf-8") + "\n", "utf-8")
    status, said = site.engine("install", "--target", site.project, "--agents", "claude", program=broken / "engine.py")
    assert (status, said["code"]) == (9, "self-check")
    assert site.files() == laid
    assert {p: p.read_bytes() for p in site.vault.rglob("*.py")} == tree


def test_a_configuration_that_cannot_be_read_stops_it_before_anything_is_written(tmp_path):
    """A broken settings file is refused, named, and nothing at all was made."""
    site = Site(tmp_path, {".claude/settings.local.json": '{"a": '})
    before = site.files()
    status, said = site.engine("install", "--target", site.project, "--agents", "claude")
    assert (status, said["code"]) == (3, "bad-config")
    assert site.files() == before
    assert not site.vault.exists()


def test_names_that_are_taken_are_refused(tmp_path):
    """A folder that holds an engine.py or a reserved name of somebody else's is not written over."""
    for name in ("engine.py", "muniment.py", "MEMORY.md"):
        site = Site(tmp_path / name, {"memory/" + name: "mine"})
        status, said = site.engine("install", "--target", site.project, "--agents", "none")
        assert (status, said["code"]) == (3, "reserved-name")
        assert (site.vault / name).read_text("utf-8") == "mine"
        assert list(site.vault.iterdir()) == [site.vault / name]


def test_an_upgrade_goes_forward_only(tmp_path):
    """A newer engine takes the older one's place, the ledger untouched; the older one is refused afterwards."""
    site = Site(tmp_path, SHAPES["bare"])
    site.install(agents="claude")
    newer = tmp_path / "newer"
    shutil.copytree(TEMPLATES, newer / "templates")
    text = (TEMPLATES.parent / "engine.py").read_text("utf-8").replace('VERSION = "0.1.0"', 'VERSION = "0.10.0"')
    (newer / "engine.py").write_text(text, "utf-8")
    ledger = {p: p.read_bytes() for p in (site.vault / ".muniment" / "ledger").iterdir()}
    site.ok("upgrade", program=newer / "engine.py")
    assert {p: p.read_bytes() for p in (site.vault / ".muniment" / "ledger").iterdir()} == ledger
    assert site.run([sys.executable, site.vault / "muniment.py", "--version"])[1].strip() == "0.10.0"
    for words in (("upgrade",), ("install", "--target", site.project)):
        status, said = site.engine(*words)
        assert (status, said["code"]) == (3, "older-engine")
    assert (site.vault / "engine.py").read_text("utf-8") == text


def test_doctor_names_what_drifted(tmp_path):
    """A changed block, hook, launcher or engine, and an interpreter that is gone, are each found; install puts them right."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n"})
    site.install()
    for path in (site.project / "AGENTS.md", site.vault / "muniment.py", site.config("claude"), site.config("codex")):
        data = path.read_bytes()
        path.write_bytes(data.replace(b"muniment", b"monument", 1) if path.suffix == ".md" else data.replace(b"hook", b"hok") + b"\n")
        found = site.engine("doctor")[1]["findings"]
        assert str(path) in {f["path"] for f in found if f["kind"] == "drifted"}, path
        path.write_bytes(data)
    receipt = site.vault / ".muniment" / "local" / "install.json"
    receipt.write_text(receipt.read_text("utf-8").replace(json.dumps(sys.executable), json.dumps("/nowhere/python3")), "utf-8")
    assert "broken-binding" in {f["kind"] for f in site.engine("doctor")[1]["findings"]}
    site.install()
    assert site.ok("doctor", "--strict")["findings"] == []


def test_a_tracked_vault_works_in_a_clone_with_nothing_installed(tmp_path, git):
    """Git carries engine, launcher, block and hooks; in the clone they run as they are, and name nothing of the first machine."""
    site = Site(tmp_path, SHAPES["bare"], git=False)
    git(site.project, "init", "-q")
    said = site.install("--tracked")
    assert said["tracked"]
    run = site.ok("start", "--actor", "codex")["run"]
    site.ok("propose", "--run", run, "--key", "a.b", "--tier", "2", "--new-subject", "--text", "Carried.", "--now")
    git(site.project, "add", "-A")
    git(site.project, "commit", "-qm", "all")
    clone = Site(tmp_path / "other", git=False)
    shutil.rmtree(clone.project)
    git(tmp_path, "clone", "-q", site.project, clone.project)
    assert clone.ok("recall", "a.b", program=clone.vault / "muniment.py")["current"]["text"] == "Carried."
    carried = {path: data for path, (data, _) in clone.files().items() if ".git" not in path.parts}
    assert not any(str(tmp_path).encode() in data for data in carried.values())
    assert clone.install("--tracked")["files"] == []


@posix
def test_a_private_vault_is_out_of_gits_sight(tmp_path, git):
    """Git shows AGENTS.md and CLAUDE.md alone: not the vault, not the agents' uncommitted files; as a link neither."""
    site = Site(tmp_path, SHAPES["bare"], git=False)
    git(site.project, "init", "-q")
    notes = tmp_path / "obsidian" / "shop"
    notes.mkdir(parents=True)
    (notes / "mine.md").write_text("A note.\n", "utf-8")
    site.vault.symlink_to(notes)
    site.install()
    shown = git(site.project, "status", "--porcelain", "--untracked-files=all").split("\n")
    assert sorted(line[3:] for line in shown if line) == ["AGENTS.md", "CLAUDE.md", "GEMINI.md"]
    assert (notes / "mine.md").read_text("utf-8") == "A note.\n"
    assert (notes / "MEMORY.md").exists()
    assert site.ok("doctor", "--strict")["findings"] == []
    site.ok("uninstall", "--target", site.project)
    assert git(site.project, "status", "--porcelain", "--ignored") in ("", "?? memory\n")


@posix
def test_links_are_followed_within_the_project_and_left_outside(tmp_path):
    """CLAUDE.md as a link to AGENTS.md needs nothing; a link that leads out of project and home is left and said."""
    site = Site(tmp_path, {"AGENTS.md": "One.\n"})
    (site.project / "CLAUDE.md").symlink_to("AGENTS.md")
    outside = tmp_path / "outside.md"
    outside.write_text("Theirs.\n", "utf-8")
    (site.project / "GEMINI.md").symlink_to(outside)
    before = site.files()
    said = site.install()
    assert len(said["left"]) == 1
    assert outside.read_text("utf-8") == "Theirs.\n"
    assert (site.project / "CLAUDE.md").is_symlink()
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before


@posix
def test_a_read_only_file_stays_one(tmp_path):
    """A file without the right to write gets its block, keeps its rights, and gets its bytes back."""
    site = Site(tmp_path, {"AGENTS.md": "One.\n"})
    (site.project / "AGENTS.md").chmod(0o444)
    before = site.files()
    site.install()
    assert stat.S_IMODE((site.project / "AGENTS.md").stat().st_mode) == 0o444
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before


def test_agents_are_found_by_their_signs(tmp_path):
    """`auto` takes those of which project, home or path shows a sign, and none else."""
    site = Site(tmp_path, {".cursor/rules/a.mdc": "x", "~/.gemini/settings.json": "{}"})
    assert site.ok("install", "--target", site.project, "--dry-run")["agents"] == ["cursor", "gemini"]
    status, said = site.engine("install", "--target", site.project, "--agents", "emacs")
    assert (status, said["code"]) == (3, "bad-value")


@pytest.mark.long
def test_an_agent_that_is_left_out_loses_its_hooks(tmp_path):
    """A second install for fewer agents takes the others' hooks and imports out, and leaves the files they were in as before."""
    site = Site(tmp_path, SHAPES["settings"])
    before = site.files()
    site.install(agents="none")
    plain = site.files()
    site.install()
    site.install(agents="none")
    assert site.files() == plain
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before


@pytest.mark.long
def test_what_was_written_between_two_installations_stays_without_ours(tmp_path):
    """A file that its owner changed after one install, and another install changed again, comes back as the owner's text alone."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n"})
    site.install()
    rules = site.project / "AGENTS.md"
    rules.write_bytes(rules.read_bytes().replace(b"Journal what", b"Write what") + b"Later.\n")
    assert str(rules) in {row["path"] for row in site.install()["files"]}
    site.ok("uninstall", "--target", site.project)
    text = rules.read_text("utf-8")
    assert (text.splitlines()[0], text.splitlines()[-1], len(text.splitlines())) == ("Before.", "Later.", 3)
    assert "Write what you learn" in text
    assert "Journal what you learn" not in text


@pytest.mark.long
def test_a_copied_project_leaves_the_other_alone_and_a_moved_one_takes_its_hooks_along(tmp_path):
    """What a copy remembers of the first project's files is nothing to it; a moved project's hooks are written anew."""
    site = Site(tmp_path / "a", {"AGENTS.md": "Before.\n"})
    site.install()
    laid = site.files()
    copy = Site(tmp_path / "b")
    shutil.rmtree(copy.project)
    shutil.copytree(site.project, copy.project)
    copy.ok("uninstall", "--target", copy.project)
    assert (copy.project / "AGENTS.md").read_text("utf-8") == "Before.\n"
    assert site.files() == laid
    moved = Site(tmp_path / "c")
    shutil.rmtree(moved.project)
    site.project.rename(moved.project)
    moved.home, moved.environ = site.home, site.environ
    assert "moved-install" in {f["kind"] for f in moved.engine("doctor")[1]["findings"]}
    moved.install()
    assert not any(str(site.project).encode() in data for data, _ in moved.files().values())
    assert moved.ok("doctor", "--strict")["findings"] == []
    moved.ok("uninstall", "--target", moved.project)
    assert not any(path.is_file() for path in moved.home.rglob("*"))


@pytest.mark.long
def test_two_installations_at_once_end_in_one(tmp_path):
    """Whoever comes second finds everything in place or is refused, and takes nothing of the first one's away."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n"})
    words = [sys.executable, "-c", IMPORTED, "install", "--target", site.project, "--agents", "claude", "--json"]
    running = [subprocess.Popen(list(map(str, words)), env=site.environ, cwd=site.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for _ in range(4)]
    ends = [(process.communicate(timeout=120), process.returncode) for process in running]
    assert 0 in [status for _, status in ends], ends
    assert {status for _, status in ends} <= {0, 3, 6, 9}, ends
    assert site.install(agents="claude")["files"] == []
    assert site.ok("doctor", "--strict")["findings"] == []


@pytest.mark.long
def test_an_installation_that_was_killed_is_completed_or_undone(tmp_path, driver):
    """Ended at any of its writes, the next install completes it, and uninstall gives every byte back."""
    del driver  # only where a process can be ended by a signal
    dry = Site(tmp_path / "dry")
    count = len(dry.ok("install", "--target", dry.project, "--agents", "claude", "--dry-run")["files"])
    for limit in (2, 8, count, count + 3):
        site = Site(tmp_path / str(limit), {"AGENTS.md": "Before.\n", "CLAUDE.md": "x"})
        before = site.files()
        code = "%s\n%s" % (STOP % limit, IMPORTED.replace("; ", "\n"))
        status, _, _ = site.run([sys.executable, "-c", code, "install", "--target", site.project, "--agents", "claude"])
        assert status == 9, limit
        other = site.files()
        if limit != 8:
            site.install(agents="claude")
            assert site.healthy()
        assert set(other) <= {*site.files(), *(p for p in other if ".muniment-" in p.name)}
        site.ok("uninstall", "--target", site.project)
        assert site.files() == before


def test_an_older_memory_in_the_project_comes_along(tmp_path):
    """A BIMRI store is imported with a receipt, once, and left as it is; one that is damaged is said, and the installation stands."""
    site = Site(tmp_path / "a")
    bimri_stores.make_v5(site.project)
    before = site.files()
    said = site.install(agents="claude")["imported"]
    assert said["source"]["format"] == "bimri"
    assert said["entries"] > 0
    assert said["kept"]
    assert sum(said["tiers"].values()) == len(site.ok("recall", "--prefix", "")["subjects"])
    assert {path: site.files()[path] for path in before if "exclude" not in path.name} == {
        path: data for path, data in before.items() if "exclude" not in path.name}
    assert site.install(agents="claude")["imported"]["runs"] == []
    assert site.healthy()
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before
    broken = Site(tmp_path / "b")
    bimri_stores.make_v5(broken.project)
    (broken.project / ".bimri" / "state.json").write_text("{", "utf-8")
    assert broken.install(agents="claude")["imported"]["code"] == "unreadable"
    assert broken.ok("status")["runs"] == 0


@posix
def test_a_vault_by_another_name_is_undone_from_anywhere(tmp_path):
    """The line that the receipt gives takes it out from any folder, with the engine that lies there."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n"})
    before = site.files()
    site.vault = site.project / "the brain"
    said = site.install("--vault", "the brain")
    hooks, adapter = site.hooks("codex")
    given = {**adapter["examples"]["session-start"], "cwd": str(site.project)}
    assert "run R" in site.run(hooks["session-start"], json.dumps(given).encode(), cwd=tmp_path)[1]
    status, _, err = site.run(shlex.split(said["undo"]), cwd=tmp_path)
    assert (status, err) == (0, "")
    assert site.files() == before
    assert (site.vault / "MEMORY.md").exists()


@posix
def test_a_clone_brings_no_receipt_that_is_believed(tmp_path):
    """What a repository plants in local/ runs nothing and removes nothing."""
    site = Site(tmp_path, SHAPES["bare"])
    site.ok("init")
    mine, evil, ran = site.home / "mine", site.project / "evil", tmp_path / "ran"
    mine.write_text("mine", "utf-8")
    evil.write_text("#!/bin/sh\ntouch '%s'\n" % ran, "utf-8")
    evil.chmod(0o755)
    local = site.vault / ".muniment" / "local"
    local.mkdir(exist_ok=True)
    for name in ("python", "project", "vault"):
        said = {"engine": "0.1.0", "python": str(evil), "project": str(site.project), "vault": str(site.vault), "agents": ["../../evil"],
                "files": {str(mine): {"before": None, "after": hashlib.sha256(b"mine").hexdigest()}}, "folders": [], "place": "1 2"}
        (local / "install.json").write_text(json.dumps(dict(said, **{name: "memory"} if name != "python" else {})), "utf-8")
        assert site.healthy()
        site.ok("uninstall", "--target", site.project)
        assert mine.exists()
        assert not ran.exists()


@posix
def test_links_below_the_vault_are_not_followed(tmp_path):
    """A folder or file of the engine's that is a link is refused, and nothing is written behind it."""
    for name in ("templates", "engine.py", "templates/agents"):
        site = Site(tmp_path / name.replace("/", "-"))
        site.ok("init")
        outside = site.home / "outside"
        outside.mkdir()
        (site.vault / name).parent.mkdir(exist_ok=True)
        (site.vault / name).symlink_to(outside if "." not in name else outside / "x")
        status, said = site.engine("install", "--target", site.project, "--agents", "none")
        assert (status, said["code"]) == (9, "linked")
        assert list(outside.iterdir()) == []


def test_a_hook_of_the_owners_in_our_group_is_never_lost(tmp_path):
    """A group that holds another's command beside ours is refused by install, and left by uninstall."""
    site = Site(tmp_path)
    site.install(agents="claude")
    path = site.config("claude")
    said = json.loads(path.read_text("utf-8"))
    said["hooks"]["SessionStart"][0]["hooks"].append({"type": "command", "command": "echo mine"})
    path.write_text(json.dumps(said), "utf-8")
    mixed = path.read_bytes()
    assert site.engine("install", "--target", site.project, "--agents", "claude")[1]["code"] == "bad-config"
    assert path.read_bytes() == mixed
    site.ok("uninstall", "--target", site.project)
    assert "echo mine" in path.read_text("utf-8")


@pytest.mark.long
def test_what_the_owner_put_into_the_vaults_templates_stays(tmp_path):
    """Uninstall removes what was laid and nothing else, by whichever engine and on whichever machine; a changed file is left and said."""
    site = Site(tmp_path)
    for program in (None, site.vault / "muniment.py"):
        site.install(agents="none")
        (site.vault / "templates" / "mine.md").write_text("mine", "utf-8")
        (site.vault / "templates" / "curate.md").write_text("changed", "utf-8")
        assert {f["kind"] for f in site.engine("doctor", program=program)[1]["findings"]} == {"drifted"}
        left = site.ok("uninstall", "--target", site.project, program=program)["left"]
        assert len(left) == 1
        assert {p.name for p in (site.vault / "templates").rglob("*") if p.is_file()} == {"mine.md", "curate.md"}
        shutil.rmtree(site.vault / "templates")


@pytest.mark.long
def test_projects_within_one_work_tree_share_gits_list(tmp_path, git):
    """In a monorepo each project's uncommitted files are out of git's sight, and leaving one keeps the other's."""
    root = Site(tmp_path, git=False)
    git(root.project, "init", "-q")
    sites = []
    for name in ("one", "two [x]"):
        site = Site(tmp_path / "unused" / name, git=False)
        site.project = root.project / name
        site.vault = site.project / "memory"
        site.project.mkdir()
        site.install(agents="claude")
        sites.append(site)

    def shown():
        lines = git(root.project, "status", "--porcelain", "--untracked-files=all").splitlines()
        return sorted(Path(line[3:].strip('"')).name for line in lines)

    assert shown() == ["AGENTS.md", "AGENTS.md", "CLAUDE.md", "CLAUDE.md"]
    sites[0].ok("uninstall", "--target", sites[0].project)
    assert shown() == ["AGENTS.md", "CLAUDE.md"]
    sites[1].ok("uninstall", "--target", sites[1].project)
    assert shown() == []


@pytest.mark.long
def test_what_somebody_wrote_between_our_markers_stays(tmp_path):
    """Text that was typed into a block is no part of it: install puts it behind the block, uninstall leaves it, and CLAUDE.md too."""
    for name in ("CLAUDE.md", "AGENTS.md"):
        for again in (False, True):
            site = Site(tmp_path / name / str(again))
            site.install(agents="claude")
            path = site.project / name
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join([*lines[:-1], b"# My own rules\n", b"Be kind.\n", lines[-1]]))
            if again:
                site.install(agents="claude")
                assert site.healthy()
            site.ok("uninstall", "--target", site.project)
            assert path.read_bytes() == b"# My own rules\nBe kind.\n"


def test_a_file_that_is_no_utf8_text_is_left_alone(tmp_path):
    """A UTF-16 AGENTS.md is refused before anything is written."""
    site = Site(tmp_path)
    (site.project / "AGENTS.md").write_bytes("Rules.\n".encode("utf-16"))
    before = site.files()
    assert site.engine("install", "--target", site.project, "--agents", "none")[1]["code"] == "bad-config"
    assert site.files() == before


@posix
def test_a_file_with_two_names_keeps_both(tmp_path):
    """A hard link is written as it is, and stays one file."""
    site = Site(tmp_path, {"AGENTS.md": "One.\n"})
    (site.project / "other.md").hardlink_to(site.project / "AGENTS.md") if hasattr(Path, "hardlink_to") else os.link(
        site.project / "AGENTS.md", site.project / "other.md")
    before = site.files()
    site.install(agents="none")
    assert (site.project / "other.md").read_bytes() == (site.project / "AGENTS.md").read_bytes()
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before
    assert (site.project / "AGENTS.md").stat().st_nlink == 2


@posix
@pytest.mark.long
def test_a_project_by_two_names_is_one(tmp_path):
    """Installed through a link and uninstalled without it, or the other way round, nothing is doubled or left."""
    site = Site(tmp_path, {"AGENTS.md": "One.\n"})
    before = site.files()
    link = tmp_path / "link"
    link.symlink_to(site.project)
    site.ok("install", "--target", link, "--agents", ALL)
    assert site.install()["files"] == []
    site.ok("uninstall", "--target", link)
    assert site.files() == before


@posix
def test_one_odd_file_does_not_keep_the_rest_from_being_undone(tmp_path):
    """What cannot be read or leads elsewhere by now is left and said; all else is taken out."""
    site = Site(tmp_path, {"AGENTS.md": "One.\n"})
    site.install()
    (site.project / "AGENTS.md").unlink()
    (site.project / "AGENTS.md").mkdir()
    site.config("codex").unlink()
    site.config("codex").symlink_to(os.devnull)
    (site.project / "GEMINI.md").unlink()
    (site.project / "GEMINI.md").symlink_to(tmp_path / "elsewhere.md")
    (tmp_path / "elsewhere.md").write_text("Theirs.\n", "utf-8")
    left = site.ok("uninstall", "--target", site.project)["left"]
    assert any("AGENTS.md" in sentence for sentence in left)
    assert not site.config("claude").exists()
    assert not (site.vault / "engine.py").exists()
    assert (tmp_path / "elsewhere.md").read_text("utf-8") == "Theirs.\n"


@posix
def test_places_that_cannot_hold_a_memory_are_refused(tmp_path, git):
    """The project itself, what is around it, git's folder, a vault as the project, another's vault, a linked worktree."""
    site = Site(tmp_path, git=False)
    git(site.project, "init", "-q")
    git(site.project, "commit", "-qm", "x", "--allow-empty")
    before = site.files()
    for words in (("--vault", "."), ("--vault", ".."), ("--vault", ".git/m")):
        assert site.engine("install", "--target", site.project, *words)[1]["code"] == "bad-value", words
    assert site.engine("install", "--target", site.project, "--tracked", "--vault", tmp_path / "far")[1]["code"] == "bad-value"
    assert site.files() == before
    site.install(agents="none")
    assert site.engine("install", "--target", site.vault)[1]["code"] == "bad-value"
    git(site.project, "worktree", "add", "-q", tmp_path / "tree")
    assert site.engine("install", "--target", tmp_path / "tree")[1]["code"] == "bad-value"
    other = Site(tmp_path / "b")
    other.vault.symlink_to(site.vault)
    assert other.engine("install", "--target", other.project)[1]["code"] == "vault-exists"


@posix
@pytest.mark.long
def test_a_project_that_is_gone_is_no_failure_of_hooks_elsewhere(tmp_path):
    """A user's own hook of a deleted project, or of one without its engine, ends quietly."""
    for name in ("codex", "gemini", "cursor"):
        site = Site(tmp_path / name)
        site.install(agents=name)
        hooks, adapter = site.hooks(name)
        given = json.dumps({**adapter["examples"]["session-start"], "cwd": str(site.home)}).encode()
        for path in (site.vault / "engine.py", site.project):
            (path.unlink if path.is_file() else lambda path=path: shutil.rmtree(path))()
            status, out, _ = site.run(hooks["session-start"], given, cwd=site.home)
            assert (status, out) == (0, "")


@pytest.mark.long
def test_bytecode_that_was_cut_short_is_made_again(tmp_path):
    """A full disk may leave half of it: the launcher runs all the same, and the next start has it whole."""
    site = Site(tmp_path)
    site.install(agents="none")
    (kept,) = (site.vault / ".muniment" / "local" / "bytecode").rglob("*.pyc")
    whole = kept.read_bytes()
    for size in (20, len(whole) // 2, len(whole) - 1):
        kept.write_bytes(whole[:size])
        assert site.run([sys.executable, site.vault / "muniment.py", "status"])[0] == 0
        assert site.run([sys.executable, site.vault / "muniment.py", "status"])[0] == 0
        assert len(kept.read_bytes()) == len(whole)


@posix
def test_tracked_hooks_find_the_project_in_a_subfolder(tmp_path, git):
    """The committed hook of a project below the repository's root opens that project's run, from any folder of it."""
    site = Site(tmp_path, git=False)
    git(site.project, "init", "-q")
    site.project = site.project / "svc"
    site.vault = site.project / "memory"
    (site.project / "src").mkdir(parents=True)
    site.install("--tracked", agents="codex,cursor")
    for name in ("codex", "cursor"):
        path = site.config(name, "tracked")
        line = json.dumps(json.loads(path.read_text("utf-8"))["hooks"])
        assert str(tmp_path) not in line
    said = json.loads(site.config("codex", "tracked").read_text("utf-8"))["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    given = {"session_id": "s-1", "hook_event_name": "SessionStart", "cwd": str(site.project / "src"), "source": "startup"}
    status, out, err = site.run(["/bin/sh", "-c", said], json.dumps(given).encode(), cwd=site.project / "src")
    assert status == 0, err
    assert "run R" in out


@posix
@pytest.mark.long
def test_an_upgrade_names_its_project_and_another_python_changes_nothing(tmp_path):
    """Upgrade --target works from anywhere; the Python that is bound stays bound while it works."""
    site = Site(tmp_path)
    site.install(agents="claude")
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    words = ["install", "--target", site.project, "--agents", "claude", "--json"]
    status, out, _ = site.run([python, "-c", IMPORTED, *words])
    assert (status, json.loads(out)["files"]) == (0, [])
    status, out, err = site.run([sys.executable, "-c", IMPORTED, "upgrade", "--target", site.project, "--json"], cwd=tmp_path)
    assert (status, json.loads(out or err)["files"]) == (0, [])


#: Lets the bytes of a file be written over in part, and then fails as a full disk does; once, or always.
FULL = """
import errno, os
real, left = engine._overwrite, [%d]
def fail(descriptor, data):
    left[0] -= 1
    if left[0] < 0:
        return real(descriptor, data)
    os.write(descriptor, b"half")
    raise OSError(errno.ENOSPC, "no room")
engine._overwrite = fail
"""


@posix
def test_a_file_that_was_half_written_gets_its_bytes_back(tmp_path):
    """A disk that is full in the middle of a file that must stay the same file costs nothing; where it stays full, the bytes are kept."""
    for times in (1, 99):
        site = Site(tmp_path / str(times), {".claude/settings.local.json": SETTINGS})
        path = site.config("claude")
        os.link(path, site.home / "another name")
        before = site.files()
        status, said = site.with_fault(FULL % times, "install", "--target", site.project, "--agents", "claude")
        assert (status, said["code"]) == (9, "filesystem" if times == 1 else "not-restored")
        assert str(path) in said["message"]
        if times == 1:
            assert site.files() == before
            assert not site.vault.exists()
        else:
            kept = site.vault / ".muniment" / "recovery" / hashlib.sha256(SETTINGS.encode()).hexdigest()
            assert str(kept) in said["message"]
            assert kept.read_text("utf-8") == SETTINGS


def test_an_installation_that_is_interrupted_is_undone(tmp_path):
    """An interrupt, or a bug, in the middle of the self-check leaves every file as it was, and no vault."""
    for error, expected in (("KeyboardInterrupt", 130), ("ZeroDivisionError", 1)):
        site = Site(tmp_path / error, {"AGENTS.md": "Before.\n"})
        before = site.files()
        code = "def prove(site):\n    raise %s\nengine._prove = prove" % error
        assert site.with_fault(code, "install", "--target", site.project, "--agents", "claude")[0] == expected
        assert site.files() == before
        assert not site.vault.exists()


def test_a_file_that_is_written_meanwhile_is_left_alone(tmp_path):
    """What somebody writes between the look and the write stays, the rest is put back, and the same call may be made again."""
    site = Site(tmp_path, {"AGENTS.md": "Before.\n", "CLAUDE.md": "x\n"})
    code = """
real = engine.write_foreign
def write(path, data, check=lambda: None):
    if path.endswith("CLAUDE.md") and b"@AGENTS" in data:
        open(path, "a").write("theirs\\n")
    return real(path, data, check)
engine.write_foreign = write
"""
    status, said = site.with_fault(code, "install", "--target", site.project, "--agents", "claude")
    assert (status, said["code"]) == (9, "not-restored") or (status, said["code"], said["retry"]) == (6, "changed-meanwhile", True)
    assert (site.project / "CLAUDE.md").read_text("utf-8") == "x\ntheirs\n"
    assert (site.project / "AGENTS.md").read_text("utf-8") == "Before.\n"
    site.install(agents="claude")
    assert site.healthy()


def test_a_damaged_list_of_what_was_laid(tmp_path):
    """It is named by doctor, never taken for an empty one, and made again by a whole copy."""
    site = Site(tmp_path)
    site.install(agents="none")
    listed = site.vault / "templates" / "supplies.json"
    listed.write_text("<<<<<<< ours\n" + listed.read_text("utf-8"), "utf-8")
    own = site.vault / "muniment.py"
    for words in ((), ("--strict",)):
        found = site.engine("doctor", *words, program=own)[1]["findings"]
        assert [(f["kind"], f["path"]) for f in found] == [("drifted", str(listed))]
    assert site.engine("install", program=own)[1]["code"] == "bad-config"
    said = site.ok("uninstall", "--dry-run", program=own)
    assert any(str(listed) in sentence for sentence in said["left"])
    assert {row["path"] for row in said["files"]} <= {str(site.project / "AGENTS.md")}
    assert [row["path"] for row in site.install(agents="none")["files"]] == [str(listed)]
    assert site.healthy()


def test_a_damaged_table_of_an_agent(tmp_path):
    """What is not whole is refused by install, named by doctor, left by uninstall, and stops no hook of another agent's."""
    site = Site(tmp_path)
    site.install(agents="codex")
    own, table = site.vault / "muniment.py", site.vault / "templates" / "agents" / "claude.json"
    for text in ("{", '{"name": "claude", "title": "x"}'):
        table.write_text(text, "utf-8")
        assert str(table) in [f["path"] for f in site.engine("doctor", program=own)[1]["findings"]]
        status, said = site.engine("install", program=own)
        assert (status, said["code"], said["path"]) == (3, "bad-config", str(table))
        assert any(str(table) in sentence for sentence in site.ok("uninstall", "--dry-run", program=own)["left"])
        assert site.run([sys.executable, own, "hook", "session-end", "--agent", "codex"], b"{}")[0] == 0


def test_a_template_that_a_newer_engine_has_not_goes(tmp_path):
    """It is shown by a dry run and removed by an upgrade, unless its owner changed it."""
    site, copy = Site(tmp_path), tmp_path / "source"
    shutil.copytree(TEMPLATES, copy / "templates")
    shutil.copy(TEMPLATES.parent / "engine.py", copy / "engine.py")
    for name in ("gone.md", "mine.md"):
        (copy / "templates" / name).write_text("x", "utf-8")
    site.ok("install", "--agents", "none", program=copy / "engine.py")
    (site.vault / "templates" / "mine.md").write_text("mine", "utf-8")
    assert "removed: memory/templates/gone.md, 1 bytes" in site.ok("upgrade", "--dry-run")["differences"]
    site.ok("upgrade")
    assert not (site.vault / "templates" / "gone.md").exists()
    assert (site.vault / "templates" / "mine.md").read_text("utf-8") == "mine"


def test_a_tracked_vault_below_the_users_home(tmp_path, git):
    """It is laid, and taken out of a clone, as anywhere else."""
    site = Site(tmp_path)
    for name in ("src/shop", "src/clone"):
        project = site.home / name
        project.mkdir(parents=True)
        if name == "src/shop":
            git(project, "init", "-q")
            site.ok("install", "--target", project, "--agents", ALL, "--tracked")
            git(project, "add", "-A")
            git(project, "commit", "-qm", "x")
            continue
        project.rmdir()
        git(site.home, "clone", "-q", str(site.home / "src/shop"), str(project))
        site.project, site.vault = project, project / "memory"
        status, _, _ = site.run([sys.executable, site.vault / "muniment.py", "uninstall"], cwd=project / "memory" / "templates")
        assert status == 0
        assert not any(b"muniment.py" in path.read_bytes() for path in project.rglob("*.json") if path.is_file())
        assert not (project / "AGENTS.md").exists()
        assert "worktree" not in (site.home / "src/shop/AGENTS.md").read_text("utf-8")


@posix
def test_an_engine_in_a_vault_serves_that_vault(tmp_path):
    """Whatever the vault is called, and wherever a call comes from, also with another memory around it."""
    outer = Site(tmp_path)
    outer.install(agents="codex")
    inner = Site(tmp_path / "x")
    inner.home, inner.environ = outer.home, outer.environ
    inner.project = outer.project / "inner"
    inner.project.mkdir()
    for name in ("brain", "docs/.brain", "m $(touch x) 'v"):
        inner.vault = inner.project / name
        before = inner.files()
        inner.install("--vault", name, agents="codex")
        line = next(line for line in (inner.project / "AGENTS.md").read_text("utf-8").splitlines() if "begin with" in line)
        words = shlex.split(line.rsplit("`")[-2])
        assert words[2:] == ["start", "--actor", "NAME", "--session", "ID"]
        status, out, err = inner.run([sys.executable, *words[1:], "--json"])
        assert status == 3, "NAME is no actor"
        status, out, err = inner.run([sys.executable, words[1], "start", "--actor", "codex", "--json"])
        assert status == 0, err
        run = json.loads(out)["run"]
        assert inner.run([sys.executable, inner.vault / "muniment.py", "journal", "--run", run, "--text", "x"], cwd=inner.home)[0] == 0
        laid = json.loads(inner.config("codex").read_text("utf-8"))["hooks"]["SessionStart"]
        given = json.dumps({"session_id": name, "hook_event_name": "SessionStart", "cwd": str(inner.project), "source": "startup"}).encode()
        answers = [inner.run(["/bin/sh", "-c", item["hooks"][0]["command"]], given)[1] for item in laid]
        briefs = [json.loads(answer)["hookSpecificOutput"]["additionalContext"] for answer in answers if answer]
        assert str(inner.vault) in briefs[-1]
        status, out, _ = inner.run([sys.executable, inner.vault / "muniment.py", "uninstall"], cwd=inner.home)
        assert status == 0
        assert inner.files() == before
    assert outer.healthy()
    assert not (inner.project / "x").exists()


def test_what_a_repository_plants_is_not_run(tmp_path):
    """Neither a file named as a module of the library's, nor bytecode, nor a table of an agent's that the list does not name."""
    site = Site(tmp_path, SHAPES["bare"])
    site.ok("init")
    ran = tmp_path / "ran"
    (site.vault / "argparse.py").write_text("open(%r, 'w')\n" % str(ran), "utf-8")
    claude = json.loads((TEMPLATES / "agents" / "claude.json").read_text("utf-8"))
    planted = dict(claude, name="zed", entry={"command": "{command}", "args": ["touch", str(ran), "{args}"]})
    (site.vault / "templates" / "agents").mkdir(parents=True)
    (site.vault / "templates" / "agents" / "zed.json").write_text(json.dumps(planted), "utf-8")
    bytecode = site.vault / ".muniment" / "local" / "bytecode"
    bytecode.mkdir(parents=True)
    (bytecode / "planted").write_text("x", "utf-8")
    site.install(agents="claude")
    assert not (bytecode / "planted").exists()
    site.ok("install", program=site.vault / "muniment.py")
    assert not any(str(ran).encode() in data for data, _ in site.files().values())
    assert site.engine("hook", "session-start", "--agent", "zed", program=site.vault / "muniment.py", stdin=b"{}")[1]["did"] == "nothing"
    assert not ran.exists()


@posix
def test_a_memory_that_is_gone_disturbs_no_session(tmp_path):
    """The hooks that are left of a project that was moved do nothing, and fail nothing."""
    site = Site(tmp_path)
    site.install()
    hooks = {agent: site.hooks(agent) for agent in AGENTS}
    site.project.rename(tmp_path / "moved")
    for found, adapter in hooks.values():
        for event, words in found.items():
            assert site.run(words, json.dumps(adapter["examples"][event]).encode(), cwd=tmp_path) == (0, "", "")


def test_a_file_beside_one_of_ours_is_the_owners(tmp_path):
    """No name that somebody may have chosen is taken for one of our own half-written files."""
    site = Site(tmp_path, {"AGENTS.md": "x\n", "AGENTS.md.muniment-tmp": "mine", "AGENTS.md.muniment-0123456789abcdef": "mine"})
    before = site.files()
    site.install()
    site.ok("uninstall")
    assert site.files() == before


def test_a_submodule_has_its_own_list_of_what_is_ignored(tmp_path, git):
    """What is laid in it shows in no status of git, as in any other project."""
    site = Site(tmp_path, git=False)
    library, above = tmp_path / "library", tmp_path / "above"
    for place in (library, above):
        place.mkdir()
        git(place, "init", "-q")
        git(place, "commit", "-q", "--allow-empty", "-m", "x")
    git(above, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
    site.project, site.vault = above / "sub", above / "sub" / "memory"
    assert site.install(agents="claude")["left"] == []
    assert git(site.project, "status", "--porcelain").split() == ["??", "AGENTS.md", "??", "CLAUDE.md"]
    assert site.healthy()


@pytest.mark.long
def test_starts_at_once_with_bytecode_that_was_cut_short(tmp_path):
    """None of them fails because another one was faster, and what the launcher makes is its user's alone."""
    site = Site(tmp_path)
    site.install("--tracked", agents="none")
    local = site.vault / ".muniment" / "local"
    shutil.rmtree(local)
    for _ in range(4):
        words = [sys.executable, str(site.vault / "muniment.py"), "status"]
        running = [subprocess.Popen(words, env=site.environ, cwd=site.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for _ in range(4)]
        ends = [(process.communicate(timeout=120)[1], process.returncode) for process in running]
        assert ends == [(b"", 0)] * 4
        (kept,) = (local / "bytecode").rglob("*.pyc")
        kept.write_bytes(kept.read_bytes()[:1000])
    assert stat.S_IMODE(local.stat().st_mode) == 0o700


def test_a_moved_or_renamed_memory_undoes_itself_and_no_other(tmp_path):
    """The receipt of where it lay is no word about what lies there now."""
    site, other = Site(tmp_path / "a"), Site(tmp_path / "b")
    other.home, other.environ = site.home, site.environ
    site.install(agents="claude")
    moved = site.project.parent / "moved"
    site.project.rename(moved)
    site.project.mkdir()
    site.install(agents="claude")
    laid = site.files()
    assert site.run([sys.executable, moved / "memory" / "muniment.py", "uninstall"])[0] == 0
    assert not (moved / "AGENTS.md").exists()
    assert not (moved / "memory" / "engine.py").exists()
    assert {path: data for path, data in site.files().items() if moved not in path.parents} == {
        path: data for path, data in laid.items() if moved not in path.parents}
    site.vault.rename(site.project / "brain")
    status, said = site.engine("uninstall", program=site.project / "brain" / "muniment.py")
    assert (status, said["code"]) == (3, "bad-value")
    site.ok("uninstall", "--target", site.project, "--vault", "brain", program=site.project / "brain" / "muniment.py")
    assert not (site.project / "brain" / "engine.py").exists()
    assert site.engine("uninstall", "--target", site.home)[1]["code"] == "not-found"


def test_a_project_that_is_named_is_the_one_that_is_meant(tmp_path, git):
    """Neither upgrade nor uninstall climbs to a project around it, or from a linked worktree to the main one."""
    site = Site(tmp_path, git=False)
    git(site.project, "init", "-q")
    git(site.project, "commit", "-q", "--allow-empty", "-m", "x")
    site.install(agents="claude")
    inner = site.project / "inner"
    inner.mkdir()
    site.ok("install", "--target", inner, "--vault", "brain", "--agents", "none")
    assert site.ok("upgrade", "--target", inner)["vault"] == str(inner / "brain")
    assert site.engine("upgrade", "--target", site.home)[1]["code"] == "not-found"
    git(site.project, "worktree", "add", "-q", str(tmp_path / "linked"))
    before = site.files()
    assert site.engine("uninstall", "--target", tmp_path / "linked")[0] == 3
    assert site.files() == before


@posix
def test_a_signal_lets_it_put_every_file_back(tmp_path):
    """What stops a program that takes too long leaves nothing half installed."""
    code = "import os, signal, time\ndef prove(site):\n    os.kill(os.getpid(), signal.%s)\n    time.sleep(60)\nengine._prove = prove"
    for name in ("SIGTERM", "SIGHUP"):
        site = Site(tmp_path / name, {"AGENTS.md": "Before.\n"})
        before = site.files()
        assert site.with_fault(code % name, "install", "--target", site.project, "--agents", "claude")[0] == 130
        assert site.files() == before
        assert not site.vault.exists()


@posix
def test_what_a_repositorys_settings_name_is_not_run(tmp_path, git):
    """Git is asked without the programs that a project's own configuration names."""
    site = Site(tmp_path, git=False)
    git(site.project, "init", "-q")
    (site.project / "x").write_text("x", "utf-8")
    git(site.project, "add", "x")
    git(site.project, "config", "core.fsmonitor", "touch '%s';false" % (tmp_path / "ran"))
    site.install("--tracked", agents="none")
    assert not (tmp_path / "ran").exists()


def test_a_list_that_names_a_folder(tmp_path):
    """What is no file is passed over, and install makes the list again."""
    site = Site(tmp_path)
    site.install(agents="none")
    (site.vault / "templates" / "supplies.json").write_text(json.dumps({"templates/agents": "0" * 64}), "utf-8")
    site.install(agents="none")
    assert site.healthy()


@posix
def test_a_launcher_behind_a_link_and_a_damaged_engine(tmp_path):
    """A link starts the engine beside the launcher; half an engine is no failure of an agent's session."""
    site = Site(tmp_path)
    site.install(agents="none")
    link = tmp_path / "m"
    link.symlink_to(site.vault / "muniment.py")
    assert site.run([sys.executable, link, "status"])[0] == 0
    engine = site.vault / "engine.py"
    engine.write_text("def broken(:\n", "utf-8")
    assert site.run([sys.executable, link, "hook", "session-start", "--agent", "claude"], b"{}")[:2] == (0, "")
    assert site.run([sys.executable, link, "status"])[0] == 1


def test_a_copy_of_muniment_that_is_a_project_itself(tmp_path):
    """The block in its own AGENTS.md is not laid as a rule for agents: the second install changes nothing, as anywhere."""
    site = Site(tmp_path)
    shutil.copytree(TEMPLATES, site.project / "templates")
    for name in ("engine.py", "AGENTS.md"):
        shutil.copy(TEMPLATES.parent / name, site.project / name)
    before = site.files()
    own = site.project / "engine.py"
    assert site.ok("install", "--target", site.project, "--agents", "none", program=own)["files"]
    assert (site.vault / "templates" / "AGENTS.md").read_bytes() == (TEMPLATES.parent / "AGENTS.md").read_bytes()
    assert site.ok("install", "--target", site.project, "--agents", "none", program=own)["files"] == []
    site.ok("uninstall", "--target", site.project)
    assert site.files() == before
