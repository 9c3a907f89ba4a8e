"""Start the engine that lies beside this file, from bytecode that is kept in the vault's local/: no start compiles it.

Laid by `install`. A script is compiled anew each time that it is run; what is imported is not. The bytecode is checked against
the engine's time and size by Python itself; one that was cut short is removed, and made again.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

vault = os.path.dirname(os.path.abspath(__file__))
path = os.path.join(vault, "engine.py")
if "hook" in sys.argv[1:2] and not os.path.isfile(path):
    print("muniment: the engine is gone from %s" % vault, file=sys.stderr)
    sys.exit(0)  # an agent waits for its hook: a memory that is gone is no failure of its session
loader = SourceFileLoader("engine", path)
before = sys.pycache_prefix, sys.dont_write_bytecode
sys.pycache_prefix, sys.dont_write_bytecode = os.path.join(vault, ".muniment", "local", "bytecode"), False
try:
    code = loader.get_code("engine")
except (EOFError, ValueError, TypeError):  # a full disk left half of it
    from importlib.util import cache_from_source

    os.unlink(cache_from_source(path))
    code = loader.source_to_code(loader.get_data(path), path)
sys.pycache_prefix, sys.dont_write_bytecode = before  # what the engine imports is kept where it always was
engine = type(sys)("engine")
engine.__file__ = path
sys.modules["engine"] = engine
exec(code, engine.__dict__)  # noqa: S102 - this is what an import does
engine.run()
