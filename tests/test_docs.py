"""What the documents say of commands, codes, settings, kinds and fields is all there is, and all of it is there."""

from __future__ import annotations

import ast
import re

import pytest
import scratch

engine = scratch.engine
PROTOCOL = (scratch.ROOT / "PROTOCOL.md").read_text("utf-8")
TREE = ast.parse((scratch.ROOT / "engine.py").read_text("utf-8"))
AGENTS_LINES_MAX = 120
#: Options that every command takes.
COMMON = {"--vault", "--json", "--lock-wait", "--help", "--version"}


def section(title, level="## "):
    """Return the text below one heading of PROTOCOL.md, up to the next of its level."""
    found = re.search(r"^%s%s\n(.*?)(?=^#{2,%d} |\Z)" % (level, title, len(level) - 1), PROTOCOL, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(text):
    """Return the cells of every row of the tables in a text, heads and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {n - 1 for n, line in enumerate(lines) if re.fullmatch(r"\|[-|]+\|", line)}
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")]
            for n, line in enumerate(lines) if n not in heads and n - 1 not in heads]


def words(text):
    """Return what stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def options_of(command):
    """Return the options and the names of the arguments of one command of the table."""
    return {name for flags, given in command.args
            for name in (flags if flags[0].startswith("-") else given["metavar"].split("|"))}


@pytest.mark.parametrize("command", engine.COMMANDS, ids=lambda c: c.name)
def test_a_command_is_documented_with_every_option(command):
    """PROTOCOL.md has a section for the command, and its table has exactly the command's options."""
    text = section(command.name, "### ")
    assert ("`%s" % command.name) in text
    said = {word for head, *_ in rows(text) for word in words(head) if word.startswith("--") or word.isupper()}
    assert said == options_of(command)
    assert re.search(r"(?s)Result: .*?`[a-z_]+`.*?Exits: [0-9]", text)


@pytest.mark.parametrize("command", engine.COMMANDS, ids=lambda c: c.name)
def test_a_command_has_help(command):
    """The command and each of its options say in a phrase what they are for."""
    assert command.help
    assert not command.help.endswith(".")
    assert all(given.get("help") for _, given in command.args)
    assert command.name in engine.find_parser(command).format_help()


def test_no_other_command_is_documented():
    """Section 12 has no section of a command that is none, and names its commands in the prose rightly."""
    text = PROTOCOL.split("## 12. ")[1].split("## 13. ")[0]
    assert {*re.findall(r"^### (.+)$", text, re.MULTILINE)} == {c.name for c in engine.COMMANDS}
    assert {*re.findall(r"`(--[a-z-]+)", text.split("**Results.**")[0])} >= {"--vault", "--json", "--lock-wait"}


@pytest.mark.parametrize("name", ["README.md", "AGENTS.md", "INSTALL.md", "PROTOCOL.md", "templates/curate.md", "templates/skill/SKILL.md"])
def test_commands_that_a_document_names_exist(name):
    """Each `muniment COMMAND` or `engine.py COMMAND` in code is a command, with options of that command."""
    path = scratch.ROOT / name
    assert path.exists(), "%s is missing" % name
    text = path.read_text("utf-8")
    code = [found[1] for found in re.finditer(r"^ *```[^\n]*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)]
    code += [line for line in text.splitlines() if re.match(r"    \S", line)]
    code += re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))
    known = {c.name: options_of(c) | COMMON for c in engine.COMMANDS}
    call = re.compile(r"(?<!<!-- )(?<!# )(?:muniment|engine\.py) +([a-z][a-z-]*)\b((?:[^\n`|])*)")
    calls = [found for block in code for found in call.findall(block.replace("\\\n", " "))]
    assert name == "PROTOCOL.md" or calls
    for command, rest in calls:
        assert command in known or command == "help", command
        given = re.sub(r'"[^"]*"|\'[^\']*\'', "", rest)
        unknown = {*re.findall(r"(?<=\s)--[a-z][a-z-]*", given.split("&&")[0].split("#")[0])} - known.get(command, COMMON)
        assert not unknown, (command, unknown)


def test_agents_page_is_short():
    """AGENTS.md is loaded into every agent's context."""
    lines = (scratch.ROOT / "AGENTS.md").read_text("utf-8").splitlines()
    assert len(lines) < AGENTS_LINES_MAX


def test_error_codes_are_those_of_the_table():
    """Each code stands once in PROTOCOL.md, with its exit status and whether a retry may help."""
    table = [(words(code)[0], exit_status, retry) for code, exit_status, retry, _ in
             (row for row in rows(section("10. Exit statuses and errors")) if len(row) == 4)]
    assert len(table) == len({code for code, *_ in table})
    retries = {c.exit_status for c in classes_of_errors() if c.retry}
    assert {code: (exit_status, retry) for code, exit_status, retry in table} == {
        code: (str(exit_status), "yes" if exit_status in retries else "no") for code, (exit_status, _) in engine.CODES.items()}


def test_exit_statuses_are_those_of_the_classes():
    """Each exit status stands in PROTOCOL.md, and each code's is that of a class."""
    table = {int(row[0]) for row in rows(section("10. Exit statuses and errors")) if len(row) == 2}
    assert table == set(range(10))
    assert {status for status, _ in engine.CODES.values()} == {c.exit_status for c in classes_of_errors()}


def classes_of_errors():
    """Return the classes of errors that are raised, one for each outcome."""
    return engine.MunimentError.__subclasses__()


def calls_of(*names):
    """Return the calls of functions or classes of these names in engine.py."""
    calls = [node for node in ast.walk(TREE) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [call for call in calls if call.func.id in names]


def raised():
    """Return (line, class, code) of every error that engine.py makes with a literal code."""
    calls = calls_of(*(c.__name__ for c in classes_of_errors()))
    assert all(isinstance(c.args[0], ast.Constant) for c in calls), "a code must be written where it is raised"
    return [(c.lineno, c.func.id, c.args[0].value) for c in calls]


def test_every_code_that_is_raised_is_in_the_table():
    """A code is a word of CODES, with the exit status of the class that carries it."""
    for line, name, code in raised():
        assert code in engine.CODES, "line %d" % line
        assert engine.CODES[code][0] == getattr(engine, name).exit_status, "line %d: %s" % (line, code)


def test_every_code_of_the_table_is_raised():
    """CODES has no word that nothing raises."""
    assert {code for _, _, code in raised()} == set(engine.CODES)


def test_damage_kinds_are_those_of_the_table():
    """Each fault that a line may have stands in section 3.3, and no other."""
    faults = {call.args[0].value for call in calls_of("BadRecord")}
    assert {words(row[0])[0] for row in rows(section("3.3 Damage", "### "))} == faults


def test_findings_of_doctor_are_those_of_the_table():
    """Each kind that doctor reports stands in its table with its severity, and no other."""
    reported = {}
    for call in calls_of("report"):
        severity, kind = call.args[:2]
        if isinstance(kind, ast.Constant):
            said = {node.value for node in ast.walk(severity) if isinstance(node, ast.Constant)} & {"error", "warning", "notice"}
            said |= {reported.get(kind.value, "notice")}  # the harshest, where it depends
            reported[kind.value] = min(said, key=("error", "warning", "notice").index)
        elif isinstance(kind, ast.Name) and kind.id == "kind":
            reported.update({"view-missing": "warning", "view-stale": "warning", "view-edited": "warning"})
    table = {row[0]: row[1] for row in rows(section("doctor", "### ")) if re.match("`[a-z]", row[0])}
    assert table == {"`%s`" % kind: severity for kind, severity in reported.items()}


def test_rules_that_count_for_nothing_are_those_of_the_table():
    """Each flaw that the reducer finds stands in section 5."""
    reducer = {"_judge", "_fact_flaw", "_parent_flaw", "_owner_flaw"}
    functions = [node for node in TREE.body if isinstance(node, ast.FunctionDef) and node.name in reducer]
    returned = [node.value for function in functions for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
    flaws = {node.value for value in returned for node in ast.walk(value) if isinstance(node, ast.Constant)}
    flaws -= {"accepted", "confirmed", "withdrawn", "touch", None, 1, 3}
    assert {words(row[0])[0] for row in rows(section("5. Subjects: a join"))} == flaws


def test_settings_are_those_of_the_table():
    """Each setting stands in section 9 with its default and bounds."""
    table = {words(name)[0]: tuple(map(int, numbers)) for name, *numbers, _ in rows(section("9. Settings"))}
    assert table == engine.SETTINGS
    assert all("`%s`" % name in section("9. Settings") for name in engine.TEXT_SETTINGS)


def test_kinds_and_their_fields_are_those_of_the_table():
    """Each kind stands in section 3.1 with its letter, its fields, and which of them may be absent."""
    table = {}
    for kind, letter, fields in (row for row in rows(section("3.1 Kinds", "### ")) if len(row) == 3):
        optional = set(re.findall(r"`([a-z0-9_]+)`\?", fields))
        table[words(kind)[0]] = (letter, set(words(fields)) - optional, optional)
    assert table == {
        kind: (engine.LETTERS[kind], set(required) - {"salt"}, set(optional)) for kind, (required, optional) in engine.FIELDS.items()}


def test_each_field_of_a_record_has_its_form():
    """The table of forms names every field of every kind."""
    named = {word for row in rows(section("3.1 Kinds", "### ")) if len(row) == 2 for word in words(row[0])}
    assert named >= {name for required, optional in engine.FIELDS.values() for name in (*required, *optional)}


def test_answers_have_the_fields_of_the_table():
    """Each answer of a resolution stands in section 3.1."""
    said = {words(row[0])[0] for row in rows(section("3.1 Kinds", "### ").split("**Resolutions.**")[1]) if len(row) == 2}
    answers = re.search(r"\| `answer` \| (.*) \|", PROTOCOL)[1]
    assert said == set(words(answers))


def test_operations_and_their_fields_are_those_of_the_table():
    """Each field of each operation stands in section 8, with the flag of the command that does the same."""
    table, found = {}, rows(section("8. Operations of `apply`").split("\n### ")[0])
    for name, do, flag, _ in found:
        for operation in do.split(", ") if do else ():
            table.setdefault(operation, set()).add(words(name)[0])
            options = options_of(next(c for c in engine.COMMANDS if c.name == operation))
            assert {*words(flag)} <= options, name
    assert table == {name: set(fields) for name, fields in engine.OPERATIONS.items() if fields}
    assert set(words(found[0][3])) == set(engine.OPERATIONS)


def test_operations_of_import_are_those_of_the_table():
    """Each operation of `import` stands in section 8.1 with its names."""
    table = {words(do)[0]: set(words(names)) for do, names, _ in rows(section("8.1 Operations of `import`", "### "))}
    assert table == {name: set(fields) for name, fields in engine.IMPORTED.items()}


def test_fields_and_choices_of_a_value_are_documented():
    """Section 4 names every field of a tier and every word that a field may hold."""
    text = section("4. Tiers, fields and grammar")
    named = set(words(text))
    assert named >= {name for fields in engine.TIER_FIELDS.values() for name in fields}
    assert named >= {word for name, choices in engine.CHOICES.items() if name != "op" for word in choices}
    assert set(words(re.search(r"`--clear\s+FIELD` empties (.*?);", text, re.DOTALL)[1])) == set(engine.CLEARABLE)


def test_limits_are_documented():
    """Section 14 says each limit as it is."""
    said = [row[1] for row in rows(section("14. Threat model"))]
    numbers = {int(number.replace(",", "")) for cell in said for number in re.findall(r"[0-9][0-9,]*", cell)}
    assert numbers == {
        engine.LINE_BYTES_MAX, engine.JSON_DEPTH_MAX, engine.TEXT_MAX, engine.JOURNAL_MAX, engine.SUMMARY_MAX, engine.DETAIL_BYTES_MAX,
        engine.LIST_MAX, engine.TAGS_MAX, engine.PAGE_ITEMS, engine.BRIEF_MAX, engine.BATCH_OPERATIONS, engine.INDEXED_BYTES_MAX,
        engine.CHUNK_CHARS_MAX, engine.TERMS_MAX}
    assert "from -%d to %d" % (engine.INTEGER_MAX, engine.INTEGER_MAX) in PROTOCOL
    assert engine.TAG_LETTERS in PROTOCOL


def test_grammar_is_that_of_the_engine():
    """The expressions that the page shows are those of the engine."""
    for pattern in (engine.KEY_PATTERN, engine.ACTOR_PATTERN, engine.LABEL_PATTERN):
        assert "`%s`" % pattern in PROTOCOL
    assert engine.URL_PATTERN.startswith("[a-z][a-z0-9+.-]*://")
    assert "`[a-z][a-z0-9+.-]*://`" in PROTOCOL


def test_words_are_defined_once():
    """The glossary has no word twice."""
    defined = [row[0] for row in rows(section("1. Words"))]
    assert len(defined) == len(set(defined))
    assert "claim" in defined


@pytest.mark.parametrize("name", [
    "README.md", "AGENTS.md", "INSTALL.md", "PROTOCOL.md", "CHANGELOG.md", "engine.py", "legacy/README.md", "templates/curate.md",
    "templates/skill/SKILL.md"])
def test_documents_name_no_machine(name):
    """No path of one machine stands in a document."""
    text = (scratch.ROOT / name).read_text("utf-8")
    assert not re.search(r"/root/|/home/[a-z]|/Users/[a-z]", text)
