# SPDX-License-Identifier: GPL-2.0-or-later
"""What several tests share: the project's folder, and the command with which Python is compared."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def command():
    """Calls the command `wakelab` that WAKELAB names, and returns what it prints."""
    program = os.environ.get("WAKELAB")
    if program is None:
        pytest.fail("WAKELAB names no command; `cargo xtask test --only python` sets it")

    def run(*arguments: str, code: int = 0, folder: Path = ROOT) -> str:
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run
