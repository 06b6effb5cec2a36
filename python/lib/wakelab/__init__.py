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
    Score,
    Sweep,
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
    score,
    why,
)
from ._sensitivity import Sensitivity, sensitivity
from ._sweep import sweep
from ._tune import tune
from ._tuned import Tuned

__all__ = [
    "Check",
    "Comparison",
    "Experiments",
    "Machine",
    "Map",
    "Policy",
    "Recording",
    "Score",
    "Sensitivity",
    "Sweep",
    "Table",
    "Tuned",
    "Why",
    "Workload",
    "__version__",
    "again",
    "check",
    "compare",
    "experiments",
    "map",
    "run",
    "score",
    "sensitivity",
    "sweep",
    "tune",
    "why",
]
