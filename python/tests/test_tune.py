# SPDX-License-Identifier: GPL-2.0-or-later
"""The tuner finds what is there to find, and says so if nothing is."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import wakelab

pytest.importorskip("optuna")

#: On idle=none, tasks stay where they are: a search is far better. The other value of the axis is as good as the best.
BAD = "linux-6.12+idle=none"
INPUT = "hackbench:groups=1,loops=50"
SPACE = ["idle=none,scan", "push=off,on", "migration-cost-ns=100000..1000000"]
#: A machine of 12 CPUs, which the tuner does not see. With two CPUs an LLC, a search gains less than seeds differ.
HELD_OUT = ["smp-8@l3:2 core:6"]
SMALL = {"space": SPACE, "trials": 12, "seeds": 3, "draws": 0}


@pytest.fixture(scope="module")
def tuned():
    return wakelab.tune(INPUT, ["smp-8", "smp-8@l3:2 core:4"], BAD, held_out=HELD_OUT, **SMALL)


def test_the_winner_searches(tuned):
    assert tuned.winner is not None, str(tuned)
    assert dict(wakelab.Policy(tuned.winner).choices())["idle"] == "scan"
    assert tuned.score.worse_in == 0 and tuned.score.ci[0] > 100
    best = max(tuned.choices, key=lambda choice: choice[3])
    assert best[:3] == ("idle", "none", "scan") and best[3] > 1
    assert tuned.held_out.score > 100
    assert tuned.command == f"scx_wakelab --policy {tuned.winner}"
    text = str(tuned)
    assert tuned.winner in text and "held out" in text and "load it: scx_wakelab" in text
    document = json.loads(tuned.to_json())
    assert document["winner"] == tuned.winner and document["score"]["kind"] == "score"


def test_the_same_seed_finds_the_same(tuned):
    again = wakelab.tune(INPUT, ["smp-8", "smp-8@l3:2 core:4"], BAD, held_out=HELD_OUT, **SMALL)
    assert again.to_json() == tuned.to_json()


def test_nothing_to_find():
    """With one task for each CPU that never sleeps, all policies do the same."""
    tuned = wakelab.tune("spin:tasks=2", "smp-2", "linux-6.12", **{**SMALL, "trials": 5}, metric=["result"])
    assert tuned.winner is None and tuned.command is None
    assert "no policy is better" in str(tuned)


def test_a_journal_goes_on(tmp_path):
    journal = tmp_path / "journal"
    first = wakelab.tune(INPUT, "smp-8", BAD, **{**SMALL, "trials": 4}, journal=journal)
    assert first.trials == 4
    told = []
    second = wakelab.tune(INPUT, "smp-8", BAD, **{**SMALL, "trials": 6}, journal=journal, progress=told.append)
    assert second.trials == 6
    assert len([line for line in told if line.startswith("trial ")]) + second.pruned - first.pruned == 2


def test_several_objectives():
    metrics = ["p50", "p99", "throughput", "migrations"]
    tuned = wakelab.tune(INPUT, "smp-8", BAD, **{**SMALL, "trials": 10}, metric=metrics, multi=True)
    assert tuned.front and len(tuned.finalists) > 0
    assert [name for name, _ in tuned.finalists[0][1].metrics] == metrics


def test_machines_with_other_figures():
    tuned = wakelab.tune(INPUT, "smp-8", BAD, **{**SMALL, "draws": 8})
    (figures,) = tuned.figures
    assert figures.machine == "smp-8" and 0 <= figures.sign_holds_percent <= 100
    assert figures.range_percent[0] <= figures.range_percent[1]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (["idel=scan"], "no axis and no tunable"),
        (["idle=scan,scam"], "no value 'scam'"),
        (["idle=scan,scan"], "there twice"),
        (["idle=scan,none", "idle=scan,none"], "given twice"),
        (["migration-cost-ns=9..3"], "expected LOW..HIGH"),
        ([], "nothing to tune"),
    ],
)
def test_wrong_spaces_are_refused(space, message):
    with pytest.raises(ValueError, match=message):
        wakelab.tune(INPUT, "smp-8", BAD, space=space)


def test_the_command_starts_it(command, monkeypatch):
    """`wakelab tune` runs the installed program, and says how to get it where there is none."""
    program = shutil.which("wakelab-tune")
    assert program is not None, "wakelab-tune is not installed"
    arguments = ["spin:tasks=2", "-m", "smp-2", "--space", "push=off,on", "--trials", "2", "--draws", "0"]
    small = [*arguments, "--seeds", "2", "--metric", "result", "--policy", "linux-6.12"]
    assert "no policy is better" in command("tune", *small)
    assert json.loads(command("tune", *small, "--format", "json"))["winner"] is None
    assert "wakelab: nothing" not in command("tune", "--help")
    refused = command("tune", *arguments, "--policy", "linux-6.13", code=2)
    assert "linux-6.13" in refused and "Traceback" not in refused
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "wakelab-tune").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    assert "pip install './python[tune]'" in command("tune", *small, code=1)


def test_without_optuna_the_program_says_how_to_get_it(tmp_path):
    (tmp_path / "optuna.py").write_text("raise ImportError('no optuna here')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = shutil.which("wakelab-tune")
    done = subprocess.run([program, "spin:tasks=2", "-m", "smp-2"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install './python[tune]'" in done.stderr, done.stderr
