# SPDX-License-Identifier: GPL-2.0-or-later
"""Scores are those of the command."""

import json

import pytest
import wakelab

INPUTS = ["hackbench:groups=1,loops=20", "demo"]
MACHINES = ["smp-2", "smp-8"]


def test_the_json_is_that_of_the_command(command):
    options = ["--metric", "p99=2", "--metric", "result", "--baseline", "linux-4.15", "--seeds", "2"]
    machines = [word for name in MACHINES for word in ("--machine", name)]
    printed = command("score", *INPUTS, *machines, "--policy", "wakelab", *options, "--format", "json")
    keywords = {"metric": ["p99=2", "result"], "baseline": "linux-4.15", "seeds": 2}
    score = wakelab.score(INPUTS, MACHINES, "wakelab", **keywords)
    assert score.to_json() + "\n" == printed
    assert score.score == float(score) == json.loads(printed)["score"]
    number = command("score", *INPUTS, *machines, "--policy", "wakelab", *options)
    assert number == f"{score}\n"
    low, high = score.ci
    assert low <= score.score <= high
    assert [case[:2] for case in score.cases] == [
        ("hackbench:groups=1,loops=20", "smp-2"),
        ("hackbench:groups=1,loops=20", "smp-8"),
        ("demo", "smp-2"),
        ("demo", "smp-8"),
    ]
    assert wakelab.score(INPUTS, MACHINES, "linux-4.15", **keywords).score == 100.0


def test_a_score_below_the_limit_fails(command):
    arguments = ["score", INPUTS[0], "-m", "smp-2", "-p", "linux-4.15", "--baseline", "linux-4.15"]
    assert command(*arguments, "--fail-below", "100") == "100.00\n"
    assert "the score 100.00 is below 100.1" in command(*arguments, "--fail-below", "100.1", code=1)


def test_objects_and_wrong_names():
    recording = wakelab.Recording("demo", of="hackbench")
    mixed = wakelab.score([recording, wakelab.Workload(INPUTS[0])], wakelab.Machine("smp-8"), "wakelab", seeds=1)
    assert len(mixed.cases) == 2 and mixed.ci is None
    with pytest.raises(ValueError, match="no metric is called 'p98'"):
        wakelab.score(INPUTS[0], "smp-2", "wakelab", metric="p98", seeds=1)
    with pytest.raises(ValueError, match="p99=0: expected METRIC"):
        wakelab.score(INPUTS[0], "smp-2", "wakelab", metric="p99=0")
    with pytest.raises(ValueError, match="at least one input"):
        wakelab.score([], "smp-2", "wakelab")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
        wakelab.score(INPUTS[0], "smp-2", "wakelab", sed=1)
