"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

#: The packages that the engine uses where they are installed.
OPTIONAL = ("portalocker", "jsonschema", "sqlite_vec", "numpy")
#: Where Linux keeps files in memory. Vaults of tests lie there unless the environment names another folder: what tests flush is
#: thrown away, and they end processes, not machines. `.ci/run` runs the long tests on a disk.
IN_MEMORY = "/dev/shm"  # noqa: S108 - pytest makes a folder of its own in it, which only this user may open
IN_MEMORY_BYTES_MIN = 2 ** 31
ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)  # `import engine` is the checkout's
importlib.import_module("scratch")  # it clears the environment


def pytest_configure() -> None:
    """Make property tests the same in every run and on every machine; those marked `long` ask for more examples."""
    if os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= IN_MEMORY_BYTES_MIN:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", IN_MEMORY)
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:
        return
    settings.register_profile("muniment", max_examples=20, derandomize=True, database=None, deadline=None,
                              suppress_health_check=list(HealthCheck))
    settings.load_profile("muniment")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `packages` or `mcp` where a package that they need is missing, naming it."""
    for mark, names in (("packages", OPTIONAL), ("mcp", ("mcp",))):
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        if missing:
            skip = pytest.mark.skip(reason="not installed: " + ", ".join(missing))
            for item in items:
                if item.get_closest_marker(mark):
                    item.add_marker(skip)


@pytest.fixture(scope="module")
def driver():
    """Yield the process that runs commands which are ended in their middle."""
    if not hasattr(os, "fork"):
        pytest.skip("the driver forks; this system has no fork")
    from crash_driver import Driver
    with Driver() as running:
        yield running
