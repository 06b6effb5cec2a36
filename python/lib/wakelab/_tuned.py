# SPDX-License-Identifier: GPL-2.0-or-later
"""What tuning comes to."""

import html
import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Optional

from ._native import Score


@dataclass
class Figures:
    """Whether the winner's result holds if the machine's figures are others."""

    input: str
    machine: str
    metric: str
    #: The share of draws in which the gain has its sign.
    sign_holds_percent: float
    #: Where the gains of 90 % of the draws are.
    range_percent: tuple[float, float]
    #: The figures that decide the result, the largest share first.
    deciding: list[str]


@dataclass
class Tuned:
    """The winner with its evidence, or the finding that there is none."""

    #: The policy that was tuned, which is the baseline of all scores.
    policy: str
    trials: int
    #: Trials that were given up before their end.
    pruned: int
    #: The best trials with their scores by fresh seeds.
    finalists: list[tuple[str, Score]]
    #: The best policy; none if no finalist is better beyond its interval and worse nowhere.
    winner: Optional[str] = None
    #: The winner's score with seeds that no trial has seen.
    score: Optional[Score] = None
    #: Its score on machines that were held out.
    held_out: Optional[Score] = None
    #: Each choice of the winner: axis or tunable, the policy's value, the winner's, and what it adds to the score.
    choices: list[tuple[str, str, str, float]] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)
    #: The policies that no other one beats in all metrics, with several objectives; otherwise the best trial.
    front: list[str] = field(default_factory=list)

    @property
    def command(self) -> Optional[str]:
        """The command that loads the winner."""
        return None if self.winner is None else f"scx_wakelab --policy {self.winner}"

    def text(self) -> str:
        """The result for people."""
        lines = [f"{self.policy}: {self.trials} trials, {self.pruned} given up early"]
        if self.winner is None or self.score is None:
            lines.append("no policy is better beyond its interval and worse nowhere, by fresh seeds; the best trials:")
            lines += [f"  {_score(score)}  {name}" for name, score in self.finalists]
            return "\n".join(lines) + "\n"
        lines += [f"winner: {self.winner}", f"score by fresh seeds, {self.policy} has 100: {_score(self.score)}"]
        for name, value in self.score.metrics:
            lines.append(f"  {name}: {'-' if value is None else f'{value:.2f}'}")
        lines += [f"  {input} on {machine}: {_number(score)}" for input, machine, score, _ in self.score.cases]
        lines.append("what each choice adds to the score:")
        lines += [f"  {added:+.2f}  {name}: {before} -> {after}" for name, before, after, added in self.choices]
        if self.held_out is not None:
            lines.append(f"on machines that were held out: {_score(self.held_out)}")
            for input, machine, score, worse in self.held_out.cases:
                lines.append(f"  {input} on {machine}: {_number(score)}{' (worse)' if worse else ''}")
        if self.figures:
            lines.append("if the machines' figures are others:")
        for figures in self.figures:
            low, high = figures.range_percent
            decided = f"; decided by {', '.join(figures.deciding)}" if figures.deciding else ""
            lines.append(
                f"  {figures.input} on {figures.machine}: the sign of {figures.metric} holds in "
                f"{figures.sign_holds_percent:.0f} % of draws, 90 % of them from {low:+.1f} to {high:+.1f} %{decided}"
            )
        return "\n".join([*lines, f"load it: {self.command}"]) + "\n"

    def document(self) -> dict[str, Any]:
        """The result as plain data."""
        own = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        return {"schema_version": 1, "kind": "tune", **own, "command": self.command}

    def to_json(self) -> str:
        return json.dumps(self.document(), indent=2)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.25">{html.escape(self.text())}</pre>'


def _plain(value: Any) -> Any:
    if isinstance(value, Score):
        return json.loads(value.to_json())
    if isinstance(value, Figures):
        return asdict(value)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _number(score: Optional[float]) -> str:
    return "-" if score is None else f"{score:.2f}"


def _score(score: Score) -> str:
    interval = f" ({score.ci[0]:.2f} to {score.ci[1]:.2f})" if score.ci else ""
    worse = f", worse in {score.worse_in} cases" if score.worse_in else ""
    return f"{score.score:.2f}{interval}{worse}"
