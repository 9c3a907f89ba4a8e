"""Start the engine that lies beside this file, from bytecode that is kept in the vault's local/: no start compiles it.

Laid by `install`. A script is compiled anew each time that it is run; what is imported is not. The bytecode is checked against
the engine's time and size by Python itself; one that was cut short is removed, and made again.
"""

import sys

if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the vault: a file there that is named as a module of the library's is the owner's, or a clone's

import os
from contextlib import suppress
from importlib.machinery import SourceFileLoader

vault = os.path.dirname(os.path.realpath(__file__))
path = os.path.join(vault, "engine.py")
is_hook = "hook" in sys.argv[1:2]  # an agent waits for it: a memory that is gone or damaged is no failure of its session
if is_hook and not os.path.isfile(path):
    print("muniment: the engine is gone from %s" % vault, file=sys.stderr)
    sys.exit(0)
loader = SourceFileLoader("engine", path)
local = os.path.join(vault, ".muniment", "local")
bytecode = os.path.join(local, "bytecode")
with suppress(OSError):  # of a vault that may only be read
    os.mkdir(local, 0o700)  # it is this user's alone, also where this start makes it
before = sys.pycache_prefix, sys.dont_write_bytecode
sys.pycache_prefix, sys.dont_write_bytecode = bytecode, not os.path.isdir(local)
try:
    code = loader.get_code("engine")
except (EOFError, ValueError, TypeError):  # a full disk left half of it
    for folder, _, names in os.walk(bytecode):
        for name in names:
            with suppress(OSError):  # another start was faster
                os.unlink(os.path.join(folder, name))
    code = loader.source_to_code(loader.get_data(path), path)
except SyntaxError as error:
    if not is_hook:
        raise
    print("muniment: the engine in %s is damaged: %s" % (vault, error), file=sys.stderr)
    sys.exit(0)
sys.pycache_prefix, sys.dont_write_bytecode = before  # what the engine imports is kept where it always was
engine = type(sys)("engine")
engine.__file__ = path
sys.modules["engine"] = engine
exec(code, engine.__dict__)  # noqa: S102 - this is what an import does
engine.run()
