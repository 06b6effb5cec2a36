# SPDX-License-Identifier: GPL-2.0-or-later
"""`wakelab.tune`: Optuna looks for choices of axes and tunables that are better than a baseline and worse nowhere.

A trial goes up in steps: the first part of each run with one seed, whole runs with one seed, whole runs with all seeds.
After each step it may be given up. The best trials are then judged with seeds that no trial has seen, and the first of
them that is better beyond its interval and worse in no case is the winner. It comes with its evidence: what each of its
choices adds, whether it holds if the machines' figures are others, and its score on machines that were held out.
"""

import json
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Optional, Union

from . import _native
from ._native import Policy, Score, Scorer
from ._space import DEFAULT, of_policy, parse, suggest
from ._tuned import Figures, Tuned

#: Seeds that no trial uses.
FRESH_SEED = 1_000_001
#: How many of the best trials are judged with fresh seeds.
FINALISTS = 5
#: The part of a run that the first step sees.
FIRST_PART = 0.25

_Names = Union[Any, Sequence[Any]]


def tune(
    input: _Names,
    machine: _Names,
    policy: str = "wakelab",
    *,
    space: Sequence[str] = DEFAULT,
    held_out: _Names = (),
    metric: Sequence[str] = ("result", "p99"),
    multi: bool = False,
    trials: int = 100,
    seeds: int = 8,
    seed: int = 1,
    draws: int = 16,
    journal: Union[str, PathLike[str], None] = None,
    progress: Optional[Callable[[str], None]] = None,
    **options: Any,
) -> Tuned:
    """Tunes a policy over inputs and machines; docs/guide/tune.md.

    `space` names the choices, `held_out` machines that only the winner sees. `multi`: each metric is a separate objective,
    instead of all in one score. `trials` is the number of trials in all, `seeds` that of a whole trial, `seed` the
    first one, which also seeds the sampler. With `journal` the trials are kept in that file, so that the same call goes
    on where it was, and several processes may share the work. `draws`: on how many machines with drawn figures the
    winner is tried. Further options are those of `score`.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    choices = parse(space)
    first = of_policy(policy, choices)
    cases = _Cases(_several(input), _several(machine), policy, list(metric), seed, options)
    study = _study(optuna, journal, multi, len(metric), seed)
    if not study.trials:
        study.enqueue_trial(first)
    tell = progress or (lambda line: None)

    def objective(trial: Any) -> Union[float, Sequence[float]]:
        chosen = suggest(trial, policy, choices)
        trial.set_user_attr("policy", chosen.name)
        score = _climb(optuna, study, trial, cases, chosen, seeds, seed, multi)
        trial.set_user_attr("worse_in", score.worse_in)
        trial.set_user_attr("score", score.score)
        tell(f"trial {trial.number}: {score.score:.2f}, worse in {score.worse_in}: {chosen.name}")
        return [value or 0.0 for _, value in score.metrics] if multi else score.score

    left = trials - sum(trial.state.is_finished() for trial in study.trials)
    if left > 0:
        study.optimize(objective, n_trials=left)
    return _judged(study, cases, policy, _several(held_out), seeds, draws, options, tell)


def _several(value: _Names) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


class _Cases:
    """All inputs on all machines, and the same cut short."""

    def __init__(
        self, inputs: list[Any], machines: list[Any], policy: str, metric: list[str], seed: int, options: Any
    ) -> None:
        self.inputs, self.machines, self.metric = inputs, machines, metric
        self.whole = Scorer(inputs, machines, baseline=policy, metric=metric, **options)
        self._part = self.whole.first_part(FIRST_PART, seed)

    def first_part(self, policy: Policy, seed: int) -> Optional[float]:
        """The score of the first part of each run with one seed; none if no metric has a value there."""
        try:
            return self._part.score(policy, seeds=1, seed=seed).score
        except ValueError:  # The metrics have values at the end only.
            return None


def _study(optuna: Any, journal: Any, multi: bool, objectives: int, seed: int) -> Any:
    storage = None
    if journal is not None:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        storage = JournalStorage(JournalFileBackend(str(journal)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Constraints are experimental in some versions.
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            multivariate=True,
            group=True,
            constraints_func=lambda trial: (float(trial.user_attrs.get("worse_in", 0)),),
        )
    return optuna.create_study(
        study_name="wakelab",
        storage=storage,
        load_if_exists=True,
        directions=["maximize"] * (objectives if multi else 1),
        sampler=sampler,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=8),
    )


def _climb(
    optuna: Any, study: Any, trial: Any, cases: _Cases, policy: Policy, seeds: int, seed: int, multi: bool
) -> Score:
    """Scores a trial step by step. Raises if it is given up."""
    steps: list[Callable[[], Optional[float]]] = [
        lambda: cases.first_part(policy, seed),
        lambda: cases.whole.score(policy, seeds=1, seed=seed).score,
    ]
    for number, step in enumerate(steps):
        value = step()
        if value is None:
            continue
        if _is_hopeless(optuna, study, trial, number, value, multi):
            raise optuna.TrialPruned()
    return cases.whole.score(policy, seeds=seeds, seed=seed)


def _is_hopeless(optuna: Any, study: Any, trial: Any, step: int, value: float, multi: bool) -> bool:
    if not multi:
        trial.report(value, step)
        return bool(trial.should_prune())
    # Optuna prunes trials of one objective only. The same rule by the score of all metrics: below the median of those
    # that came to their end.
    trial.set_user_attr(f"step {step}", value)
    complete = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    others = sorted(other.user_attrs[f"step {step}"] for other in complete if f"step {step}" in other.user_attrs)
    return len(others) >= 8 and value < others[len(others) // 2]


def _judged(
    study: Any,
    cases: _Cases,
    policy: str,
    held_out: list[Any],
    seeds: int,
    draws: int,
    options: dict[str, Any],
    tell: Callable[[str], None],
) -> Tuned:
    """Judges the best trials with fresh seeds."""
    own = Policy(policy)
    complete = [trial for trial in study.trials if "score" in trial.user_attrs and trial.user_attrs["worse_in"] == 0]
    complete.sort(key=lambda trial: (-trial.user_attrs["score"], trial.number))
    every = dict.fromkeys(trial.user_attrs["policy"] for trial in complete)
    names = [name for name in every if Policy(name).canonical() != own.canonical()][:FINALISTS]
    finalists = [(name, cases.whole.score(name, seeds=2 * seeds, seed=FRESH_SEED)) for name in names]
    for name, score in finalists:
        tell(f"with fresh seeds: {score.score:.2f}, worse in {score.worse_in}: {name}")
    good = [pair for pair in finalists if pair[1].worse_in == 0 and (pair[1].ci or (0.0, 0.0))[0] > 100]
    pruned = sum(trial.state.name == "PRUNED" for trial in study.trials)
    tuned = Tuned(policy, len(study.trials), pruned, finalists)
    tuned.front = [trial.user_attrs["policy"] for trial in study.best_trials if "policy" in trial.user_attrs]
    if not good:
        return tuned
    tuned.winner, tuned.score = max(good, key=lambda pair: pair[1].score)
    best = Policy(tuned.winner)
    for name, before, after in own.differences(best):
        without = best.with_choice_of(own, name)
        alone = cases.whole.score(without, seeds=2 * seeds, seed=FRESH_SEED).score
        tuned.choices.append((name, before, after, tuned.score.score - alone))
    if held_out:
        scorer = Scorer(cases.inputs, held_out, baseline=policy, metric=cases.metric, **options)
        tuned.held_out = scorer.score(tuned.winner, seeds=2 * seeds, seed=FRESH_SEED)
    if draws:
        tuned.figures = [
            figures
            for input in cases.inputs
            for machine in cases.machines
            if (figures := _figures(input, machine, policy, tuned.winner, draws, options)) is not None
        ]
    return tuned


def _figures(
    input: Any, machine: Any, policy: str, winner: str, draws: int, options: dict[str, Any]
) -> Optional[Figures]:
    """Whether the winner's result holds if the machine's figures are others."""
    answer = _native.compare(
        input, machine, [policy, winner], seeds=2, seed=FRESH_SEED, uncertainty=draws, check=False, **options
    )
    document = json.loads(answer.to_json())
    result = document["metrics"][0]
    spread = result["policies"][1].get("uncertainty")
    if spread is None or spread["sign_held_percent"] is None or spread["range_percent"] is None:
        return None
    deciding = document["uncertainty"]["deciding"][0]["figures"]
    return Figures(
        str(input),
        str(machine),
        result["name"],
        spread["sign_held_percent"],
        (spread["range_percent"][0], spread["range_percent"][1]),
        [figure["figure"] for figure in deciding],
    )
