# SPDX-License-Identifier: GPL-2.0-or-later
"""SALib works on the ranges that the command draws from."""

import json

import pytest
import wakelab

pytest.importorskip("SALib")

INPUT = "pingpong:pairs=2,loops=50"
POLICY = "linux-4.15"


def test_the_ranges_are_those_of_the_command(command):
    arguments = ["compare", INPUT, "-m", "smp-8", "-p", POLICY, "-p", "linux-6.12", "--seeds", "1"]
    document = json.loads(command(*arguments, "--uncertainty=8", "--format", "json"))
    keys = ("figure", "unit", "low", "value", "high", "rule")
    figures = document["uncertainty"]["figures"]
    # The workload has figures, too; they are not the machine's.
    of_machine = [figure for figure in figures if not figure["figure"].startswith("pingpong.")]
    expected = [tuple(figure[key] for key in keys) for figure in of_machine]
    assert wakelab.Machine("smp-8").uncertain() == expected


def test_places_in_a_range():
    machine = wakelab.Machine("smp-8")
    figures = {figure[0]: figure for figure in machine.uncertain()}
    assert machine.drawn({"wakeup_ns": 0.5}).costs() == machine.costs()
    cost = lambda own: next(value for key, value, *_ in own.costs() if key == "wakeup_ns")  # noqa: E731
    assert cost(machine.drawn({"wakeup_ns": 0.0})) == figures["wakeup_ns"][2]
    assert cost(machine.drawn({"wakeup_ns": 1.0})) == figures["wakeup_ns"][4]
    with pytest.raises(ValueError, match="figure 'wakeup'; expected one of"):
        machine.drawn({"wakeup": 0.5})
    with pytest.raises(ValueError, match="expected a place from 0 to 1"):
        machine.drawn({"wakeup_ns": 1.5})


@pytest.mark.parametrize(("method", "samples", "first"), [("morris", 4, "mu_star"), ("sobol", 8, "S1")])
def test_what_a_wakeup_costs_decides_how_fast_messages_are(method, samples, first):
    """Messages wait for wake-ups, and nobody waits for a fork. Morris's effects are exact where a figure does nothing."""
    figures = ["wakeup_ns", "fork_ns"]
    found = wakelab.sensitivity(INPUT, "smp-8", POLICY, method=method, samples=samples, seeds=1, figures=figures)
    assert found.metric == "rate_per_s"
    assert found.samples == {"morris": 4 * 3, "sobol": 8 * 4}[method]
    assert [row["figure"] for row in found.rows][0] == "wakeup_ns"
    assert found.rows[0][first] > 5 * abs(found.rows[1][first])
    assert "wakeup_ns" in str(found).splitlines()[2]


def test_a_gain_and_wrong_arguments():
    found = wakelab.sensitivity(INPUT, "smp-8", [POLICY, "linux-6.12"], samples=2, seeds=1, figures=["wakeup_ns"])
    assert len(found.rows) == 1 and found.samples == 4
    with pytest.raises(ValueError, match="method='fast'; expected one of"):
        wakelab.sensitivity(INPUT, "smp-8", POLICY, method="fast")
    with pytest.raises(ValueError, match="3 policies; expected one, or two"):
        wakelab.sensitivity(INPUT, "smp-8", [POLICY] * 3)
    with pytest.raises(ValueError, match="figure 'wake'"):
        wakelab.sensitivity(INPUT, "smp-8", POLICY, figures=["wake"])
