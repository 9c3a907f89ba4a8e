"""What all tests share."""

from __future__ import annotations

import importlib.util

import pytest

#: The packages that the engine uses where they are installed.
OPTIONAL = ("portalocker", "jsonschema")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `packages` where an optional package is missing, naming it."""
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    if missing:
        skip = pytest.mark.skip(reason="not installed: " + ", ".join(missing))
        for item in items:
            if item.get_closest_marker("packages"):
                item.add_marker(skip)
