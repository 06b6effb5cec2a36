# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares Linux scheduling policies on machines that you need not own: docs/guide/python.md.

Every function has the name of a command, and its keywords are the command's options. The answers hold the same
bytes: ``compare(...).to_json()`` is what ``wakelab compare ... --format json`` prints.
"""

from ._native import (
    Check,
    Comparison,
    Experiments,
    Machine,
    Map,
    Policy,
    Recording,
    Table,
    Why,
    Workload,
    __version__,
    again,
    check,
    compare,
    experiments,
    map,
    run,
    why,
)

__all__ = [
    "Check",
    "Comparison",
    "Experiments",
    "Machine",
    "Map",
    "Policy",
    "Recording",
    "Table",
    "Why",
    "Workload",
    "__version__",
    "again",
    "check",
    "compare",
    "experiments",
    "map",
    "run",
    "why",
]
