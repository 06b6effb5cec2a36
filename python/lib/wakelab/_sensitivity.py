# SPDX-License-Identifier: GPL-2.0-or-later
"""`wakelab.sensitivity`: SALib on the ranges of a machine's figures, those that `--uncertainty` draws from.

Each figure is a factor from 0 (the low end of its range) to 1 (the high end), and 0.5 is the figure itself. Every sample
is a machine, on which the policies run with the same seeds.
"""

import html
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ._native import Machine, compare

#: For each method of SALib the columns of its analysis that are kept.
METHODS = {
    "morris": ("mu_star", "sigma", "mu_star_conf"),
    "sobol": ("S1", "S1_conf", "ST", "ST_conf"),
}


@dataclass
class Sensitivity:
    """How much each figure of a machine counts for a result."""

    method: str
    metric: str
    #: The machines that ran.
    samples: int
    #: For each figure: its name, unit, the ends of its range, and the columns of SALib's analysis; the most important
    #: figure first.
    rows: list[dict[str, Any]]

    def text(self, most: Optional[int] = None) -> str:
        """The table for people; `most`: that number of rows."""
        keys = list(self.rows[0]) if self.rows else []
        cells = [keys, *([_cell(row[key]) for key in keys] for row in self.rows[:most])]
        widths = [max(len(line[at]) for line in cells) for at in range(len(keys))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]
        return "\n".join([f"{self.metric}, {self.method} on {self.samples} machines", *lines]) + "\n"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.25">{html.escape(self.text())}</pre>'


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def sensitivity(
    input: Any,
    machine: Any,
    policy: Any,
    *,
    metric: Optional[str] = None,
    method: str = "morris",
    samples: int = 16,
    seeds: int = 2,
    seed: int = 1,
    figures: Optional[Sequence[str]] = None,
    **options: Any,
) -> Sensitivity:
    """Returns how much each figure of a machine counts; docs/guide/uncertainty.md.

    With two policies the result is the second one's gain in percent, with one its value. `metric` is a name in the JSON
    of `compare`; by default the one that judges the workload. `method` is `morris` (few runs, ranks) or `sobol`
    (many runs, shares of the variance); `samples` is SALib's N: `morris` runs N times the figures plus one machines,
    `sobol` N times the figures plus two. `figures` names those that vary; the others stay as they are.
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r}; expected one of {', '.join(METHODS)}")
    base = machine if isinstance(machine, Machine) else Machine(str(machine))
    policies = list(policy) if isinstance(policy, (list, tuple)) else [policy]
    if len(policies) > 2:
        raise ValueError(f"{len(policies)} policies; expected one, or two to judge the second by the first")
    known = {figure[0]: figure for figure in base.uncertain()}
    names = list(figures) if figures is not None else list(known)
    base.drawn({name: 0.5 for name in names})  # Refuses names that the machine does not have.
    problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
    columns = METHODS[method]
    places = _sampled(method, problem, samples, seed)
    found = metric
    values = []
    for row in places:
        drawn = base.drawn({name: float(place) for name, place in zip(names, row)})
        answer = compare(input, drawn, policies, seeds=seeds, seed=seed, check=False, **options)
        found = found or str(json.loads(answer.to_json())["metrics"][0]["name"])
        own = answer.metric(found)
        value = own[1]["gain_percent"] if len(own) > 1 else own[0]["mean"]
        if value is None:
            raise ValueError(f"{found}: a run has no such value on one of the machines; expected another metric")
        values.append(value)
    result = _analyzed(method, problem, places, values, seed)
    rows: list[dict[str, Any]] = [
        {
            "figure": name,
            "unit": known[name][1],
            "low": known[name][2],
            "high": known[name][4],
            **{column: float(result[column][at]) for column in columns},
        }
        for at, name in enumerate(names)
    ]
    order = {"morris": "mu_star", "sobol": "ST"}[method]
    rows.sort(key=lambda row: (-abs(row[order]), row["figure"]))
    return Sensitivity(method, str(found), len(values), rows)


def _sampled(method: str, problem: dict[str, Any], samples: int, seed: int) -> Any:
    """The places of all figures, a row for each machine."""
    sample = importlib.import_module(f"SALib.sample.{method}").sample
    second = {"calc_second_order": False} if method == "sobol" else {}
    return sample(problem, samples, seed=seed, **second)


def _analyzed(method: str, problem: dict[str, Any], places: Any, values: list[float], seed: int) -> Any:
    """SALib's analysis of the values."""
    import numpy

    analyze = importlib.import_module(f"SALib.analyze.{method}").analyze
    if method == "sobol":
        return analyze(problem, numpy.array(values), calc_second_order=False, seed=seed)
    return analyze(problem, places, numpy.array(values), seed=seed)
