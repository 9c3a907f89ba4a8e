"""The laws of engine.py's rooms, read from its syntax tree.

Every check takes a Module and yields findings as text. Each is also run on a small engine
that breaks its law in one place, so that no check is one that cannot fail.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parent.parent / "engine.py"

HEADER = "header"
_STATE = ("ERRORS", "GRAMMAR", "SECRETS", "RECORDS", "REDUCER", "VIEWS", "EDITS", "VAULT", "LOCK", "LEDGER", "CACHE")
#: Each room, in order, with the rooms that it may use beside itself and the header.
ROOMS = {
    HEADER: (),
    "ERRORS": (),
    "GRAMMAR": ("ERRORS",),
    "SECRETS": ("GRAMMAR",),
    "RECORDS": ("ERRORS", "GRAMMAR"),
    "REDUCER": ("ERRORS", "GRAMMAR", "RECORDS"),
    "VIEWS": ("ERRORS", "GRAMMAR", "RECORDS", "REDUCER"),
    "EDITS": ("ERRORS", "GRAMMAR", "RECORDS", "REDUCER", "VIEWS"),
    "SPANS": ("ERRORS", "GRAMMAR"),
    "VAULT": ("ERRORS", "GRAMMAR"),
    "LOCK": ("ERRORS", "VAULT"),
    "LEDGER": ("ERRORS", "GRAMMAR", "RECORDS", "REDUCER", "VIEWS", "VAULT", "LOCK"),
    "CACHE": ("ERRORS", "GRAMMAR", "RECORDS", "REDUCER", "VIEWS", "VAULT", "LOCK", "LEDGER"),
    "CHUNKS": ("ERRORS", "GRAMMAR", "VIEWS"),
    "EMBEDDING": ("ERRORS", "GRAMMAR", "RECORDS", "VAULT"),
    "INDEX": ("ERRORS", "GRAMMAR", "VIEWS", "VAULT", "CACHE", "CHUNKS", "EMBEDDING"),
    "RANKING": ("GRAMMAR", "CHUNKS", "INDEX"),
    "SITE": ("ERRORS", "GRAMMAR", "SPANS", "VAULT"),
    "COMMANDS": (*_STATE, "INDEX"),
    "PROOFS": (*_STATE, "SITE", "COMMANDS"),
    "FINDING": (*_STATE, "CHUNKS", "EMBEDDING", "INDEX", "RANKING", "COMMANDS"),
    "REPAIR": (*_STATE, "INDEX", "COMMANDS"),
    "IMPORTS": (*_STATE, "COMMANDS"),
    "EXPORTS": (*_STATE, "COMMANDS", "IMPORTS"),
    "INSTALL": ("ERRORS", "GRAMMAR", "SPANS", "VAULT", "SITE", "COMMANDS", "IMPORTS"),
    "HOOKS": (*_STATE, "SITE", "COMMANDS"),
    "MCP": ("ERRORS", "GRAMMAR", "VIEWS", "VAULT", "COMMANDS", "FINDING"),
    "CLI": (*_STATE, "EMBEDDING", "FINDING", "COMMANDS", "PROOFS", "REPAIR", "IMPORTS", "EXPORTS", "INSTALL", "HOOKS", "MCP"),
}
#: Rooms above the waterline: no disk, clock, chance or environment.
PURE = ("ERRORS", "GRAMMAR", "SECRETS", "RECORDS", "REDUCER", "VIEWS", "EDITS", "SPANS")
#: The header has no banner, so its budget stands here.
HEADER_LINES_MAX = 114
FUNCTION_LINES_MAX = 60

BANNER = re.compile(r"# == (?P<name>[A-Z]+) == (?P<duty>\S.*\S) == (?P<budget>[0-9]+) ==")

#: Modules that a pure room may use.
PURE_MODULES = frozenset(
    "bisect collections functools hashlib heapq itertools json math operator re string textwrap unicodedata".split()
)
#: Built-ins that touch disk, chance (an address, a salted hash) or the environment, or could reach anything.
IMPURE_BUILTINS = frozenset(
    "__import__ breakpoint compile eval exec exit globals hash help id input open print quit".split()
)
#: Names that get round a check of names.
DYNAMIC = frozenset("__import__ eval exec globals".split())
#: What only CLI may touch: it prints, reads the environment and exits.
CLI_ONLY = frozenset(
    """
    print input exit quit SystemExit
    sys.argv sys.exit sys.stdin sys.stdout sys.stderr sys.__stdin__ sys.__stdout__ sys.__stderr__
    os.environ os.environb os.getenv os.getenvb os.putenv os.unsetenv os._exit os.abort
    os.path.expandvars os.path.expanduser
    """.split()
)
#: Modules that may be imported at the top: each is cheap, or the floor of every command.
CHEAP = frozenset(
    """
    __future__ argparse binascii bisect collections contextlib errno fcntl functools hashlib heapq io itertools
    json math msvcrt operator os re signal sqlite3 stat string struct sys textwrap time types unicodedata zlib
    """.split()
)
#: Modules whose import costs more than a plain function does. None may be loaded by importing the engine.
DEAR = (
    """
    asyncio dataclasses datetime difflib email http importlib.metadata inspect jsonschema logging multiprocessing
    pathlib platform portalocker random secrets shutil socket ssl subprocess tempfile threading typing unittest
    urllib uuid
    """
).split()
#: What a cheap module loads by itself, on some version of Python.
BROUGHT = {"sqlite3": {"datetime"}}
#: Packages outside the standard library, each imported only by the command that uses it.
PACKAGES = frozenset(
    """
    huggingface_hub jsonschema mcp numpy onnx onnxruntime portalocker referencing sentence_transformers tokenizers torch
    transformers
    """.split()
)

#: Calls that change the disk.
DISK_WRITES = frozenset(
    """
    os.chmod os.fdatasync os.fsync os.ftruncate os.link os.makedirs os.mkdir os.pwrite os.remove os.removedirs
    os.rename os.renames os.replace os.rmdir os.symlink os.truncate os.unlink os.utime os.write os.writev
    """.split()
)
#: Methods of a file that change it.
FILE_WRITES = frozenset("truncate write writelines".split())
WRITE_FLAGS = frozenset("os.O_APPEND os.O_CREAT os.O_RDWR os.O_TRUNC os.O_WRONLY".split())
#: Methods of built-in values, which say nothing about who is called.
PLAIN_METHODS = frozenset(name for kind in (bytearray, dict, list, set, str, tuple) for name in dir(kind))
#: Names of named tuples that only look private.
NAMED_TUPLE = frozenset("_asdict _field_defaults _fields _make _replace".split())

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Scope = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Module:
    """A module in rooms: its tree, who owns which name, and every use of a module-level name."""

    def __init__(self, source):
        self.lines = source.splitlines()
        self.tree = ast.parse(source)
        self.banners = [
            (token.start[0], token.string)
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT and token.start[1] == 0 and token.string.startswith("# ==")
        ]
        self.room_of_line = [HEADER] * (len(self.lines) + 2)
        for line, text in self.banners:
            found = BANNER.fullmatch(text)
            self.room_of_line[line:] = [found["name"] if found else text] * (len(self.room_of_line) - line)
        #: The nodes below `if TYPE_CHECKING:`, which run nowhere, and the names that only they import.
        self.typing_only = self._typing_only()
        importing = list(self.nodes(ast.Import, ast.ImportFrom))
        self.typing_names = {name for node in importing if id(node) in self.typing_only for name in bound_by(node)}
        self.typing_names -= {name for node in importing if id(node) not in self.typing_only for name in bound_by(node)}
        #: Name -> the dotted path of what an import binds, wherever it stands.
        self.imports = self._imports()
        #: Module-level name -> the lines that bind it.
        self.bound = {}
        for statement in self.statements():
            for name in bound_by(statement):
                self.bound.setdefault(name, []).append(statement.lineno)
        #: (line, name, node) of every use of a name that no function binds.
        self.uses = []
        self._walk(self.tree, [])

    def room(self, node_or_line):
        """Return the name of the room in which a node or line stands."""
        return self.room_of_line[getattr(node_or_line, "lineno", node_or_line)]

    def statements(self, body=None):
        """Yield module-level statements, those inside `if`, `try`, `for` and `with` too."""
        for node in self.tree.body if body is None else body:
            yield node
            if not isinstance(node, Scope):
                for field in ("body", "orelse", "finalbody"):
                    yield from self.statements(getattr(node, field, []))
                for handler in getattr(node, "handlers", []):
                    yield from self.statements(handler.body)

    def functions(self):
        """Yield every function, methods and nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def nodes(self, *kinds):
        """Yield every node of the given kinds."""
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def path(self, node):
        """Return the dotted path that an expression names, imports resolved, or None."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base, name = self.path(node.value), node.attr
        elif is_getattr(node):
            base, name = self.path(node.args[0]), node.args[1].value
        else:
            return None
        return None if base is None else base + "." + name

    def _typing_only(self):
        return {
            id(inner)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for statement in node.body
            for inner in ast.walk(statement)
        }

    def _imports(self):
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    found[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name] = "%s.%s" % (node.module, alias.name)
        return found

    def _walk(self, node, scopes):
        """Collect the uses of names below ``node``; ``scopes`` are the sets of names that functions bind."""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and not any(node.id in scope for scope in scopes):
                self.uses.append((node.lineno, node.id, node))
        elif isinstance(node, ast.Global):
            self.uses.extend((node.lineno, name, node) for name in node.names)
        elif isinstance(node, Scope):
            self._walk_scope(node, scopes)
        elif isinstance(node, Comprehension):
            self._walk_all(ast.iter_child_nodes(node), [*scopes, stored_in(node)])
        else:
            self._walk_annotation(node, scopes)
            self._walk_all(ast.iter_child_nodes(node), scopes)

    def _walk_scope(self, node, scopes):
        """Decorators, defaults, bases and annotations belong to the scope outside; the body has its own."""
        arguments = getattr(node, "args", None)
        outside = [*getattr(node, "decorator_list", ()), *getattr(node, "bases", ()), *getattr(node, "keywords", ())]
        if arguments is not None:
            outside += [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
            for argument in arguments_of(node):
                self._walk_annotation(argument, scopes)
                outside += [argument.annotation] if argument.annotation is not None else []
        if getattr(node, "returns", None) is not None:
            outside.append(node.returns)
        self._walk_all(outside, scopes)
        # What a class binds is not seen by name from its methods, so it hides nothing here.
        inner = scopes if isinstance(node, ast.ClassDef) else [*scopes, stored_in(node)]
        self._walk_all(node.body if isinstance(node.body, list) else [node.body], inner)

    def _walk_annotation(self, node, scopes):
        """An annotation in quotes uses names like any other."""
        for text in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                for inner in ast.walk(ast.parse(text.value, mode="eval")):
                    if isinstance(inner, ast.Name):
                        inner.lineno = text.lineno
                        self._walk(inner, scopes)

    def _walk_all(self, nodes, scopes):
        for node in nodes:
            self._walk(node, scopes)


def arguments_of(node):
    """Return the arguments of a function or lambda, in any position."""
    given = node.args
    starred = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]


def bound_by(statement):
    """Yield the names that one statement binds, without those of functions inside it."""
    if isinstance(statement, (*Function, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".")[0]
    else:
        # Nested statements are visited by themselves; names stored here are targets and walruses.
        for field, value in ast.iter_fields(statement):
            if field not in ("body", "orelse", "finalbody", "handlers"):
                for node in value if isinstance(value, list) else [value]:
                    if isinstance(node, ast.AST):
                        yield from (inner.id for inner in ast.walk(node) if is_store(inner))
        yield from (handler.name for handler in getattr(statement, "handlers", []) if handler.name)


def is_getattr(node):
    """Tell whether a node asks whether a thing has an attribute of a written name, or for that attribute."""
    asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
    return asks and len(node.args) > 1 and is_text(node.args[1])


def is_text(node):
    """Tell whether a node is a text, as in `__slots__`."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_store(node):
    """Tell whether a node binds or deletes a name."""
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def stored_in(scope):
    """Return the names that a function, lambda or comprehension binds for itself."""
    names, outer = set(), set()
    if not isinstance(scope, Comprehension):
        names.update(argument.arg for argument in arguments_of(scope))
    pending = [scope.body] if isinstance(scope, ast.Lambda) else list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if is_store(node):
            names.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outer.update(node.names)
        elif isinstance(node, (*Function, ast.ClassDef, ast.Import, ast.ImportFrom)):
            names.update(bound_by(node))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        if not isinstance(node, (*Scope, *Comprehension)):
            pending.extend(ast.iter_child_nodes(node))
    return names - outer


# The checks.


def check_banners(module):
    """The rooms are those of the design, in its order, each opened once by a whole banner."""
    for line, text in module.banners:
        if not BANNER.fullmatch(text):
            yield "line %d: not a banner: %s" % (line, text)
    names = [HEADER, *(found["name"] for _, text in module.banners if (found := BANNER.fullmatch(text)))]
    if names != list(ROOMS):
        yield "the rooms are %s" % ", ".join(names)


def check_budgets(module):
    """No room has more lines than its banner allows, and the header none more than its own."""
    budgets = {HEADER: HEADER_LINES_MAX}
    for _, text in module.banners:
        if found := BANNER.fullmatch(text):
            budgets[found["name"]] = int(found["budget"])
    for name, budget in budgets.items():
        size = module.room_of_line[1:-1].count(name)
        if size > budget:
            yield "%s has %d lines, %d allowed" % (name, size, budget)


def check_functions(module):
    """No function is longer than a screen."""
    for node in module.functions():
        size = node.end_lineno - node.lineno + 1
        if size > FUNCTION_LINES_MAX:
            yield "line %d: %s has %d lines" % (node.lineno, node.name, size)


def check_directions(module):
    """A module-level name is used only in its own room and in the rooms that may use it."""
    for line, name, _ in module.uses:
        here = module.room(line)
        for home in {module.room(bound) for bound in module.bound.get(name, ())}:
            if home not in (here, HEADER, *ROOMS.get(here, ())):
                yield "line %d: %s uses %s of %s" % (line, here, name, home)


def check_one_home(module):
    """A module-level name is bound in one room only, so that whose it is has one answer."""
    for name, lines in module.bound.items():
        homes = sorted({module.room(line) for line in lines})
        if len(homes) > 1 and name != "_":
            yield "%s is bound in %s" % (name, " and ".join(homes))


def check_known_names(module):
    """Every name that no function binds is a module-level name or a built-in: nothing hides from the checks."""
    of_classes = {name for node in module.nodes(ast.ClassDef) for inner in node.body for name in bound_by(inner)}
    for line, name, _ in module.uses:
        if not (name in module.bound or name in of_classes or hasattr(builtins, name) or name == "__file__"):
            yield "line %d: where does %s come from?" % (line, name)


def check_private_names(module):
    """A module-level name that starts with an underscore never leaves its room."""
    for line, name, _ in module.uses:
        if name.startswith("_") and not name.startswith("__"):
            for home in {module.room(bound) for bound in module.bound.get(name, ())} - {module.room(line)}:
                yield "line %d: %s of %s is used in %s" % (line, name, home, module.room(line))


def check_private_attributes(module):
    """An attribute that starts with an underscore is used only in a room that defines it."""
    homes = set()
    for node in module.nodes(ast.ClassDef):
        for inner in node.body:
            homes.update((module.room(inner), name) for name in bound_by(inner))
        homes.update((module.room(text), text.value) for text in ast.walk(node) if is_text(text))
    attributes = list(module.nodes(ast.Attribute))
    homes.update((module.room(node), node.attr) for node in attributes if isinstance(node.ctx, ast.Store))
    for node in attributes:
        private = node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in NAMED_TUPLE
        foreign = isinstance(node.value, ast.Name) and node.value.id in module.imports
        if private and not foreign and (module.room(node), node.attr) not in homes:
            yield "line %d: %s is not defined in %s" % (node.lineno, node.attr, module.room(node))


def check_purity(module):
    """Above the waterline nothing touches disk, clock, chance or environment, nor keeps state of the module."""
    for line, name, node in module.uses:
        if module.room(line) not in PURE or id(node) in module.typing_only:
            continue
        if isinstance(node, ast.Global):
            yield "line %d: global %s" % (line, name)
        elif name in module.bound and name in module.imports:
            if name not in module.typing_names and module.imports[name].split(".")[0] not in PURE_MODULES:
                yield "line %d: %s" % (line, module.imports[name])
        elif name in IMPURE_BUILTINS and name not in module.bound:
            yield "line %d: %s" % (line, name)
    for node in module.nodes(ast.Import, ast.ImportFrom):
        if module.room(node) in PURE and not set(roots_of(node)) <= PURE_MODULES:
            yield "line %d: imports %s" % (node.lineno, ", ".join(roots_of(node)))


def roots_of(node):
    """Return the top-level modules that an import statement names."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or ".").split(".")[0]]
    return [alias.name.split(".")[0] for alias in node.names]


def check_dynamic(module):
    """No name is reached by a way that a reader of names cannot follow."""
    for line, name, _ in module.uses:
        if name in DYNAMIC and name not in module.bound:
            yield "line %d: %s" % (line, name)
    for node in module.nodes(ast.Import, ast.ImportFrom):
        looks = isinstance(node, ast.ImportFrom) and node.module == "importlib.util" and [n.name for n in node.names] == ["find_spec"]
        if "importlib" in roots_of(node) and not looks:
            yield "line %d: importlib" % node.lineno
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield "line %d: import *" % node.lineno
    parents = {id(node.value) for node in module.nodes(ast.Attribute)}
    parents |= {id(node.args[0]) for node in module.nodes(ast.Call) if is_getattr(node)}
    for line, name, node in module.uses:
        if module.imports.get(name) in ("os", "sys", "time") and id(node) not in parents:
            yield "line %d: the module %s is passed about" % (line, name)


def check_lock(module):
    """COMMANDS alone takes the lock, LOCK alone makes what proves it, and both are there to be checked."""
    for name in ("hold", "Held"):
        if [module.room(line) for line in module.bound.get(name, ())] != ["LOCK"]:
            yield "%s is not bound once, in LOCK" % name
    for line, name, _ in module.uses:
        if name == "hold" and module.room(line) != "COMMANDS":
            yield "line %d: %s takes the lock" % (line, module.room(line))
    if not any(name == "hold" for _, name, _ in module.uses):
        yield "nothing takes the lock"
    for node in module.nodes(ast.Call):
        if module.path(node.func) == "Held" and module.room(node) != "LOCK":
            yield "line %d: %s makes a Held" % (node.lineno, module.room(node))


def check_held(module):
    """Every function of LEDGER that writes, itself or through another, has a parameter `held` without a default."""
    writers = writers_of(module, ("VAULT", "LOCK", "LEDGER"))
    own = [node for node in writers if module.room(node) == "LEDGER"]
    if not own:
        yield "LEDGER writes nothing"
    for node in own:
        needed = [argument.arg for argument in required_of(node)]
        if "held" not in needed:
            yield "line %d: %s writes without `held`" % (node.lineno, node.name)


def required_of(function):
    """Return the arguments that a call must give."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    named = [argument for argument, default in zip(given.kwonlyargs, given.kw_defaults) if default is None]
    return positional[: len(positional) - len(given.defaults)] + named


def writers_of(module, rooms):
    """Return the functions of some rooms that change the disk, directly or through one another."""
    functions = [node for node in module.functions() if module.room(node) in rooms]
    writers = {id(node): node for node in functions if writes_itself(module, node)}
    found = -1
    while found != len(writers):
        found = len(writers)
        names = {node.name for node in writers.values()} - {"__init__"}
        names |= {node.name for node in module.nodes(ast.ClassDef) for inner in node.body
                  if isinstance(inner, Function) and inner.name == "__init__" and id(inner) in writers}
        writers.update((id(node), node) for node in functions if names & called_by(node))
    return list(writers.values())


def called_by(function):
    """Return the names of functions and methods that a function calls or passes on."""
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            ours = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if ours or node.attr not in PLAIN_METHODS:
                names.add(node.attr)
    return names


def writes_itself(module, function):
    """Tell whether a function holds a call that changes the disk."""
    for node in ast.walk(function):
        path = module.path(node)
        if path in DISK_WRITES or path in WRITE_FLAGS:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILE_WRITES:
            return True
        if isinstance(node, ast.Call) and module.path(node.func) in ("open", "io.open", "os.fdopen"):
            given = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "mode")]
            if any(not is_text(mode) or set(mode.value) & set("wax+") for mode in given):
                return True
    return False


def check_console(module):
    """CLI alone prints, reads the environment and exits."""
    named = [(line, module.imports.get(name, name), node) for line, name, node in module.uses]
    named += [(node.lineno, module.path(node), node) for node in module.nodes(ast.Attribute, ast.Call)]
    for node in module.nodes(ast.ImportFrom):
        named += [(node.lineno, "%s.%s" % (node.module, alias.name), node) for alias in node.names]
    for line, path, _ in named:
        if path in CLI_ONLY and module.room(line) != "CLI":
            yield "line %d: %s in %s" % (line, path, module.room(line))


def check_handlers(module):
    """Nothing swallows every exception: a bug must show its traceback.

    `except BaseException` may clean up if it ends by raising again; `except Exception` appears nowhere.
    """
    everything = {"Exception", "BaseException", "builtins.Exception", "builtins.BaseException"}
    for node in module.nodes(ast.ExceptHandler):
        last = node.body[-1]
        raises = isinstance(last, ast.Raise) and last.exc is None
        leaves = any(isinstance(inner, (ast.Return, ast.Break, ast.Continue)) for inner in ast.walk(node))
        cleans = raises and not leaves and node.type is not None and module.path(node.type) == "BaseException"
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        if any(kind is None or module.path(kind) in everything for kind in kinds) and not cleans:
            yield "line %d: catches everything" % node.lineno
    for node in module.nodes(ast.Call):
        suppresses = module.path(node.func) in ("contextlib.suppress", "suppress")
        if suppresses and any(module.path(kind) in everything for kind in node.args):
            yield "line %d: suppresses everything" % node.lineno


def check_imports(module):
    """What is imported at the top stands in the header and is cheap; packages are imported where they are used."""
    top = [node for node in module.statements() if isinstance(node, (ast.Import, ast.ImportFrom))]
    for node in top:
        if module.room(node) != HEADER:
            yield "line %d: an import outside the header and functions" % node.lineno
        if id(node) not in module.typing_only and not set(roots_of(node)) <= CHEAP:
            yield "line %d: %s is not on the list of cheap imports" % (node.lineno, ", ".join(roots_of(node)))
    standard = getattr(sys, "stdlib_module_names", None)
    for node in module.nodes(ast.Import, ast.ImportFrom):
        unknown = set() if standard is None else set(roots_of(node)) - set(standard) - PACKAGES
        if unknown or getattr(node, "level", 0):
            yield "line %d: neither the standard library nor an optional package" % node.lineno


def check_optional(module):
    """An optional package is imported inside a `try` that catches its absence.

    EMBEDDING looks for its packages before any of them is imported (`find_provider`): tests/cli/test_search.py hides each.
    """
    absent = ("ImportError", "ModuleNotFoundError")
    guarded = {
        id(inner)
        for node in module.nodes(ast.Try)
        if any(module.path(handler.type) in absent for handler in node.handlers)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in module.nodes(ast.Import, ast.ImportFrom):
        if module.room_of_line[node.lineno] == "EMBEDDING":
            continue
        if set(roots_of(node)) & PACKAGES and id(node) not in guarded and id(node) not in module.typing_only:
            yield "line %d: %s may be missing" % (node.lineno, ", ".join(roots_of(node)))


CHECKS = {name: check for name, check in sorted(globals().items()) if name.startswith("check_")}


# The engine keeps its laws.


@pytest.fixture(scope="module")
def engine():
    """Return engine.py, read and divided."""
    return Module(ENGINE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CHECKS)
def test_engine_keeps_its_rooms(engine, name):
    """engine.py breaks none of the laws of DESIGN: each check finds nothing."""
    assert list(CHECKS[name](engine)) == []


def modules_loaded_by(statement, folder):
    """Return the modules that a statement loads in a bare interpreter, beyond what it starts with."""
    code = "import sys; sys.path.insert(0, %a); old = set(sys.modules); %s; print(*set(sys.modules) - old)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", code % (str(folder), statement)],
        check=True, capture_output=True, text=True, timeout=60,
    )
    return set(done.stdout.split())


def dear_among(loaded):
    """Return those of the loaded modules that cost too much, without what a cheap one brings."""
    brought = set().union(*(names for module, names in BROUGHT.items() if module in loaded))
    return sorted(set(DEAR) & loaded - brought)


def test_importing_the_engine_loads_nothing_dear():
    """Starting costs no import that a plain function could replace."""
    assert dear_among(modules_loaded_by("import engine", ENGINE.parent)) == []


def test_the_import_check_finds_what_is_dear(tmp_path):
    """A dear module is found also where another one brings it."""
    (tmp_path / "between.py").write_text("import dataclasses\n", encoding="utf-8")
    (tmp_path / "engine.py").write_text("import between\n", encoding="utf-8")
    assert "dataclasses" in dear_among(modules_loaded_by("import engine", tmp_path))


# Each check finds a planted violation.

SOUND = """\
from __future__ import annotations
import hashlib
import os
import sys
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
LIMIT = 3
# == ERRORS == its duty == 40 ==
class Refused(Exception):
    code = "refused"
# == GRAMMAR == its duty == 40 ==
_LETTERS = "abc"
def parse_key(text: Any) -> Any:
    return text if text in _LETTERS else LIMIT
# == SECRETS == its duty == 40 ==
def find_secret(text):
    return parse_key(text)
# == RECORDS == its duty == 40 ==
def sha256(text):
    return hashlib.sha256(text).hexdigest()
# == REDUCER == its duty == 40 ==
def decide(subject, proposal):
    later = [subject for subject in proposal]
    return later or sha256(subject)
# == VIEWS == its duty == 40 ==
def render_note(state):
    open = state
    return open, decide(state, ())
# == EDITS == its duty == 40 ==
def read_edit(state):
    return render_note(state)
# == SPANS == its duty == 40 ==
def put_block(data):
    return parse_key(data)
# == VAULT == its duty == 40 ==
def replace_file(path, data):
    with open(path, "wb") as file:
        file.write(data)
    os.replace(path, path)
# == LOCK == its duty == 40 ==
FLAG = getattr(os, "O_BINARY", 0)
class Held:
    def __init__(self, vault):
        self._vault = vault
    def check(self):
        return self._vault
def hold(vault):
    try:
        return Held(vault)
    except BaseException:
        os.close(3)
        raise
# == LEDGER == its duty == 40 ==
def replay(path):
    with open(path, "rb") as file:
        lines = []
        lines.append(file.read())
        return lines
def append(vault, held, records):
    replace_file(vault, _encode(records))
def _encode(records):
    return sha256(records)
# == CACHE == its duty == 40 ==
def catch_up(held, vault):
    return replay(vault)
# == CHUNKS == its duty == 40 ==
def read_page(text):
    return text
# == EMBEDDING == its duty == 40 ==
def encode(text):
    return text
# == INDEX == its duty == 40 ==
def sweep(text):
    return encode(read_page(text))
# == RANKING == its duty == 40 ==
def rank_chunks(text):
    return sweep(text)
# == SITE == its duty == 40 ==
def plan_edits(data):
    return put_block(data)
# == COMMANDS == its duty == 40 ==
def cmd_start(vault):
    held = hold(vault)
    append(vault, held, ())
    return render_note(catch_up(held, vault))
# == PROOFS == its duty == 40 ==
def cmd_doctor(vault):
    return cmd_start(vault)
# == FINDING == its duty == 40 ==
def cmd_search(vault):
    return rank_chunks(vault)
# == REPAIR == its duty == 40 ==
def cmd_restore(vault):
    return cmd_start(vault)
# == IMPORTS == its duty == 40 ==
def cmd_import(vault):
    return cmd_start(vault)
# == EXPORTS == its duty == 40 ==
def cmd_export(vault):
    return cmd_import(vault)
# == INSTALL == its duty == 40 ==
def cmd_install(vault):
    return plan_edits(cmd_start(vault))
# == HOOKS == its duty == 40 ==
def cmd_hook(vault):
    return cmd_start(vault)
# == MCP == its duty == 40 ==
def serve(vault):
    return cmd_search(vault)
# == CLI == its duty == 40 ==
def run():
    print(cmd_start(os.environ["HOME"]))
    sys.exit(0)
"""


def synthetic(room=None, planted="", *, instead=False):
    """Return a small engine that keeps every law but for what is planted at the end of a room, or instead of it."""
    parts = re.split("(?m)^(?=# ==)", SOUND)
    for n, part in enumerate(parts):
        found = BANNER.match(part)
        if (found["name"] if found else HEADER) == room:
            kept = part[: part.index("\n") + 1] if instead else part
            parts[n] = kept + planted + "\n"
    return "".join(parts)


#: (check, room, what is planted at its end); the check must find it.
PLANTED = [
    ("check_banners", "VIEWS", "# == TOOLS == another room == 10 =="),
    ("check_banners", "VIEWS", "# == VIEWS == once more == 10 =="),
    ("check_banners", "VIEWS", "# == Tools == misspelt == 10 =="),
    ("check_banners", "VIEWS", "# == TOOLS == without a budget =="),
    ("check_budgets", "GRAMMAR", "\n" * 40),
    ("check_budgets", HEADER, "\n" * HEADER_LINES_MAX),
    ("check_functions", "CLI", "def long():\n" + "    pass\n" * 60),
    ("check_functions", "CLI", "class C:\n    def long(self):\n" + "        pass\n" * 60),
    ("check_directions", "GRAMMAR", "def f():\n    return sha256(b'')"),
    ("check_directions", "VAULT", "def f():\n    return sha256(b'')"),
    ("check_directions", "LOCK", "def f():\n    return parse_key('')"),
    ("check_directions", "GRAMMAR", "def f(state: 'Held'):\n    return state"),
    ("check_directions", "GRAMMAR", "def f(state=sha256):\n    return state"),
    ("check_directions", "GRAMMAR", "class C:\n    sha256 = 1\n    def f(self):\n        return sha256(b'')"),
    ("check_directions", "GRAMMAR", "def f():\n    return [sha256 for x in (1,)], [sha256 for sha256 in (1,)]"),
    ("check_directions", "GRAMMAR", "@decide\ndef f():\n    pass"),
    ("check_directions", "GRAMMAR", "def f():\n    global decide\n    decide = 1"),
    ("check_directions", HEADER, "def f():\n    return Refused()"),
    ("check_one_home", "VIEWS", "def sha256():\n    pass"),
    ("check_one_home", "VIEWS", "for LIMIT in ():\n    pass"),
    ("check_one_home", "VIEWS", "if LIMIT:\n    decide, other = 1, 2"),
    ("check_known_names", "VIEWS", "def f():\n    return nowhere"),
    ("check_private_names", "RECORDS", "def f():\n    return _LETTERS"),
    ("check_private_names", "COMMANDS", "def f():\n    return _encode"),
    ("check_private_attributes", "LEDGER", "def f(held):\n    return held._vault"),
    ("check_purity", "RECORDS", "def f():\n    return open('x')"),
    ("check_purity", "RECORDS", "def f():\n    return os.getpid()"),
    ("check_purity", "VIEWS", "def f():\n    import time\n    return time.time()"),
    ("check_purity", "VIEWS", "def f():\n    from random import random\n    return random()"),
    ("check_purity", "REDUCER", "def f(key):\n    return hash(key)"),
    ("check_purity", "REDUCER", "def f():\n    global LAST\n    LAST = 1"),
    ("check_purity", "ERRORS", "def f():\n    print(1)"),
    ("check_dynamic", "COMMANDS", "def f():\n    return globals()['decide']"),
    ("check_dynamic", "COMMANDS", "def f():\n    import importlib\n    return importlib"),
    ("check_dynamic", "COMMANDS", "def f():\n    system = os\n    return system"),
    ("check_dynamic", "COMMANDS", "def f(name):\n    return getattr(os, name)"),
    ("check_dynamic", HEADER, "from json import *"),
    ("check_lock", "CLI", "def f():\n    return hold('v')"),
    ("check_lock", "LEDGER", "def f():\n    return hold"),
    ("check_lock", "COMMANDS", "def f():\n    return Held('v')"),
    ("check_lock", "CACHE", "def hold(vault):\n    return vault"),
    ("check_held", "LEDGER", "def f(vault):\n    replace_file(vault, b'')"),
    ("check_held", "LEDGER", "def f(vault, held=None):\n    replace_file(vault, b'')"),
    ("check_held", "LEDGER", "def f(path):\n    os.fsync(path)"),
    ("check_held", "LEDGER", "def f(path):\n    return open(path, 'ab')"),
    ("check_held", "LEDGER", "def f(path):\n    return open(path, mode='r+b')"),
    ("check_held", "LEDGER", "def f(path):\n    return os.open(path, os.O_RDWR)"),
    ("check_held", "LEDGER", "def f(vault):\n    append(vault, None, ())"),
    (
        "check_held",
        "LEDGER",
        "class L:\n    def __init__(self, held):\n        os.fsync(3)\ndef f():\n    return L(None)",
    ),
    ("check_held", "LEDGER", "def f(write=replace_file):\n    getattr(os, 'unlink')('x')"),
    (
        "check_held",
        "LEDGER",
        "class L:\n    def cut(self, held):\n        os.ftruncate(3, 0)\n    def f(self):\n        self.cut(None)",
    ),
    ("check_console", "COMMANDS", "def f():\n    print(1)"),
    ("check_console", "COMMANDS", "def f():\n    sys.stdout.write('')"),
    ("check_console", "LEDGER", "def f():\n    return os.environ.get('X')"),
    ("check_console", "VAULT", "def f():\n    from os import getenv\n    return getenv('X')"),
    ("check_console", "VAULT", "def f():\n    import os as system\n    return system.environ"),
    ("check_console", "COMMANDS", "def f():\n    raise SystemExit(1)"),
    ("check_console", "COMMANDS", "def f():\n    return getattr(os, 'environ')"),
    ("check_console", "LOCK", "def f():\n    os._exit(1)"),
    ("check_handlers", "CLI", "try:\n    run()\nexcept Exception:\n    pass"),
    ("check_handlers", "CLI", "try:\n    run()\nexcept:\n    pass"),
    ("check_handlers", "CLI", "try:\n    run()\nexcept Exception:\n    raise"),
    (
        "check_handlers",
        "CLI",
        "def f():\n    try:\n        run()\n    except BaseException:\n        if f: return\n        raise",
    ),
    ("check_handlers", "CLI", "try:\n    run()\nexcept (OSError, BaseException):\n    pass"),
    (
        "check_handlers",
        "CLI",
        "def f():\n    import contextlib\n    with contextlib.suppress(Exception):\n        run()",
    ),
    ("check_imports", HEADER, "import dataclasses"),
    ("check_imports", HEADER, "try:\n    import portalocker\nexcept ImportError:\n    portalocker = None"),
    ("check_imports", "CLI", "import json"),
    ("check_imports", "CLI", "def f():\n    from . import other\n    return other"),
    ("check_optional", "COMMANDS", "def f():\n    import jsonschema\n    return jsonschema"),
    (
        "check_optional",
        "COMMANDS",
        "def f():\n    try:\n        from portalocker import Lock\n    except OSError:\n        Lock = None",
    ),
]
#: (check, room, what stands in its place): laws that something must be there to keep.
MISSING = [
    ("check_banners", "VIEWS", "# == VIEWS == again == 9 =="),
    ("check_lock", "LOCK", ""),
    ("check_lock", "COMMANDS", ""),
    ("check_held", "LEDGER", "def replay(path):\n    return open(path, 'rb')"),
]


@pytest.mark.parametrize("name", CHECKS)
def test_a_sound_engine_has_no_findings(name):
    """No check finds fault where nothing is wrong: locals, parameters and comprehensions may share names."""
    assert list(CHECKS[name](Module(synthetic()))) == []


@pytest.mark.parametrize(("name", "room", "planted"), PLANTED)
def test_each_check_finds_what_is_planted(name, room, planted):
    """A violation planted in a sound engine is found by its check."""
    assert list(CHECKS[name](Module(synthetic(room, planted))))


@pytest.mark.parametrize(("name", "room", "instead"), MISSING)
def test_each_check_misses_what_must_be_there(name, room, instead):
    """A law that nothing could break, because its subject is gone, is a finding."""
    assert list(CHECKS[name](Module(synthetic(room, instead, instead=True))))


def test_every_check_has_a_planted_violation():
    """No check is one that cannot fail."""
    assert {name for name, _, _ in PLANTED} == set(CHECKS)
