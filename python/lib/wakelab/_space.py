# SPDX-License-Identifier: GPL-2.0-or-later
"""Which choices a tuner may make: axes with values, and tunables with ranges, as texts.

`idle=scan,nearest` is a choice between two values; `migration-cost-ns=50000..5000000` is a whole number from a range, in
which equal steps are equal factors. The choices of the policy itself are always the first trial.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Union

from ._native import Policy

#: What is tuned unless other choices are named. Values that other axes override change nothing, and cost nothing.
DEFAULT = (
    "idle=scan,nearest,smt-balance,two-choices",
    "affine=off,always,flips,wide",
    "cluster=off,spread,spread-and-pack",
    "queue=cfs-2018,fair,fair-2023,fair-2024,fair-2025",
    "push=off,on",
    "min-granularity-ns=100000..12000000",
    "wakeup-granularity-ns=100000..12000000",
    "migration-cost-ns=20000..5000000",
)

Choice = Union[list[str], tuple[int, int]]


def parse(texts: Sequence[str]) -> dict[str, Choice]:
    """The choices by axis or tunable."""
    axes, tunables = dict(Policy.axes()), Policy.tunables()
    space: dict[str, Choice] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if name in space:
            raise ValueError(f"{text}: {name} is given twice; expected it once")
        if name in axes:
            space[name] = _values(text, values.split(","), axes[name])
        elif name in tunables:
            space[name] = _range(text, values)
        else:
            raise ValueError(f"{text}: no axis and no tunable; expected one of {', '.join([*axes, *tunables])}")
    if not space:
        raise ValueError("nothing to tune; expected at least one axis or tunable")
    return space


def _values(text: str, values: list[str], known: list[str]) -> list[str]:
    for value in values:
        if value not in known:
            raise ValueError(f"{text}: no value '{value}'; expected some of {', '.join(known)}")
    if len(set(values)) < len(values):
        raise ValueError(f"{text}: a value is there twice; expected each once")
    return values


def _range(text: str, values: str) -> tuple[int, int]:
    low, _, high = values.partition("..")
    if not (low.isdigit() and high.isdigit() and 0 < int(low) < int(high)):
        raise ValueError(f"{text}: expected LOW..HIGH, whole nanoseconds with LOW above 0 and below HIGH")
    return int(low), int(high)


def suggest(trial: Any, policy: str, space: dict[str, Choice]) -> Policy:
    """The policy of a trial. A tunable that is not set follows the machine's size."""
    words = [word for word in policy.split("+") if word.partition("=")[0] not in space]
    for name, choice in space.items():
        if isinstance(choice, list):
            words.append(f"{name}={trial.suggest_categorical(name, choice)}")
        elif trial.suggest_categorical(is_set(name), [False, True]):
            words.append(f"{name}={trial.suggest_int(name, *choice, log=True)}")
    return _shortest(words)


def _shortest(words: list[str]) -> Policy:
    """The policy without the words that change nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of words without effect
        same = Policy("+".join(words)).canonical()
        for word in words[1:]:
            rest = [other for other in words if other != word]
            if Policy("+".join(rest)).canonical() == same:
                words = rest
        return Policy("+".join(words))


def is_set(tunable: str) -> str:
    """The parameter that says whether a tunable is set."""
    return f"{tunable} is set"


def of_policy(policy: str, space: dict[str, Choice]) -> dict[str, Any]:
    """The parameters with which a trial is the policy itself. Puts its own values into the space."""
    own: dict[str, str] = dict(Policy(policy).choices())
    own.update(word.split("=", 1) for word in policy.split("+")[1:])  # type: ignore[misc]
    first: dict[str, Any] = {}
    for name, choice in space.items():
        if isinstance(choice, list):
            if own[name] not in choice:
                choice.insert(0, own[name])
            first[name] = own[name]
        else:
            first[is_set(name)] = name in own
            if name in own:
                value = int(own[name])
                space[name] = (min(choice[0], value), max(choice[1], value))
                first[name] = value
    return first
