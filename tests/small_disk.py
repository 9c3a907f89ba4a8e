"""A real small filesystem, for what happens on a full one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess

import pytest


@contextlib.contextmanager
def mounted(folder):
    """Mount a tmpfs of 1 MiB on a folder as long as the context lasts; skip the test where that cannot be done."""
    mount = shutil.which("mount")
    if mount is None or not hasattr(os, "geteuid") or os.geteuid():
        pytest.skip("no tmpfs can be mounted here: it takes root on Linux")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "muniment", folder], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here: the system refuses it to this user")
    try:
        yield folder
    finally:
        subprocess.run([shutil.which("umount"), "-l", folder], check=True)


def fill(folder, left):
    """Fill a filesystem up to so many bytes, and return the file that does."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while (place := os.statvfs(folder)).f_bavail * place.f_frsize > left:
            file.write(bytes(place.f_frsize))
    return filler
