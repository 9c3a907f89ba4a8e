"""Start the engine that lies beside this file, from bytecode that is kept in the vault's local/: no start compiles it.

Laid by `install`. A script is compiled anew each time that it is run; what is imported is not. The bytecode is checked against
the engine's time and size by Python itself, and made again where it does not fit or cannot be read.
"""

import os
import sys
from importlib.machinery import SourceFileLoader

vault = os.path.dirname(os.path.abspath(__file__))
path = os.path.join(vault, "engine.py")
before = sys.pycache_prefix, sys.dont_write_bytecode
sys.pycache_prefix, sys.dont_write_bytecode = os.path.join(vault, ".muniment", "local", "bytecode"), False
code = SourceFileLoader("engine", path).get_code("engine")
sys.pycache_prefix, sys.dont_write_bytecode = before  # what the engine imports is kept where it always was
engine = type(sys)("engine")
engine.__file__ = path
sys.modules["engine"] = engine
exec(code, engine.__dict__)  # noqa: S102 - this is what an import does
engine.run()
