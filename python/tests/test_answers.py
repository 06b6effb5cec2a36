# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's answers are the command's, byte for byte, and so are its errors."""

import json
import pickle
import threading
import time

import pytest
import wakelab

BOTH = ["linux-4.15", "linux-4.15+idle=smt-balance"]
MODEL = "hackbench:groups=1,loops=5"


def policies(names):
    return [word for name in names for word in ("--policy", name)]


def test_compare_of_a_model(command):
    printed = command("compare", MODEL, "--machine", "smp-8", *policies(BOTH), "--seeds", "3", "--format", "json")
    answer = wakelab.compare(MODEL, "smp-8", BOTH, seeds=3)
    assert answer.to_json() + "\n" == printed
    objects = wakelab.compare(
        wakelab.Workload("hackbench", groups=1, loops=5),
        wakelab.Machine("smp-8"),
        [wakelab.Policy("linux-4.15"), wakelab.Policy("linux-4.15", idle="smt-balance")],
        seeds=3,
        threads=1,
    )
    assert objects.to_json() == answer.to_json()


def test_compare_of_a_recording(command, root, monkeypatch):
    monkeypatch.chdir(root)
    path = "fixtures/hackbench.perf.txt"
    options = ["--seeds", "2", "--faster", "hackbench=20%", "--cost", "wakeup=700"]
    printed = command("compare", path, "--machine", "recorded*2", *policies(BOTH), *options, "--format", "json")
    keywords = {"seeds": 2, "faster": "hackbench=20%", "cost": ["wakeup=700"]}
    answer = wakelab.compare(path, "recorded*2", BOTH, **keywords)
    assert answer.to_json() + "\n" == printed
    again = wakelab.compare(wakelab.Recording(path), "recorded*2", BOTH, **keywords)
    assert again.to_json() + "\n" == printed


def test_csv_run_check_why_and_map(command, root, monkeypatch):
    monkeypatch.chdir(root)
    small = ["--seeds", "2"]
    printed = command("compare", MODEL, "--machine", "smp-8", *policies(BOTH), *small, "--format", "csv")
    assert wakelab.compare(MODEL, "smp-8", BOTH, seeds=2).to_csv() == printed
    printed = command("run", MODEL, "-m", "smp-8", "-p", BOTH[0], "--seed", "7", "--slowest", "3", "--format", "json")
    assert wakelab.run(MODEL, "smp-8", BOTH[0], seed=7, slowest=3).to_json() + "\n" == printed
    printed = command("check", "demo", *small, "--format", "json")
    assert wakelab.check("demo", seeds=2).to_json() + "\n" == printed
    printed = command("why", MODEL, "-m", "smp-8", *policies(BOTH), *small, "--metric", "p99", "--format", "json")
    assert wakelab.why(MODEL, "smp-8", BOTH, metric="p99", seeds=2).to_json() + "\n" == printed
    loads = ["--load", "1/2", "--load", "1"]
    printed = command("map", "pingpong:pairs={tasks/2},loops=50", "-m", "smp-8", *loads, *policies(BOTH), *small, "--format", "json")
    answer = wakelab.map("pingpong:pairs={tasks/2},loops=50", BOTH, "smp-8", load=["1/2", 1], seeds=2)
    assert answer.to_json() + "\n" == printed
    assert answer._repr_html_().startswith("<svg")


def test_an_experiment(command):
    printed = command("experiments", "none", "--seeds", "1", "--format", "json")
    assert wakelab.experiments("none", seeds=1).to_json() + "\n" == printed


def test_a_result_can_be_repeated(tmp_path):
    first = wakelab.compare(MODEL, "smp-8", BOTH, seeds=2).to_json(with_scenario=True)
    (tmp_path / "first.json").write_text(first)
    assert json.loads(wakelab.again(tmp_path / "first.json").to_json())["metrics"] == json.loads(first)["metrics"]


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        (["compare", "hackbensh", "-m", "smp-8", "-p", "linux-4.15"], {"input": "hackbensh"}),
        (["compare", MODEL, "-m", "smp-9", "-p", "linux-4.15"], {"machine": "smp-9"}),
        (["compare", MODEL, "-m", "smp-8", "-p", "linux-4.16"], {"policy": "linux-4.16"}),
        (["compare", MODEL, "-m", "smp-8", "-p", "linux-4.15", "--nice", "a=3"], {"nice": "a=3"}),
        (["compare", MODEL, "-m", "smp-8", "-p", "linux-4.15", "--limit-events", "9"], {"limit_events": 9}),
    ],
)
def test_errors_are_those_of_the_command(command, arguments, keywords):
    printed = command(*arguments, code=2)
    with pytest.raises(ValueError) as error:
        wakelab.compare(**{"input": MODEL, "machine": "smp-8", "policy": "linux-4.15", **keywords})
    assert printed == f"wakelab: {error.value}\n"


def test_wrong_keywords_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'seads'; did you mean 'seeds'"):
        wakelab.compare(MODEL, "smp-8", BOTH, seads=3)
    with pytest.raises(TypeError, match="seeds: "):
        wakelab.compare(MODEL, "smp-8", BOTH, seeds="three")
    with pytest.raises(ValueError, match="seeds=0; expected a number from 1"):
        wakelab.compare(MODEL, "smp-8", BOTH, seeds=0)
    with pytest.raises(ValueError, match="metric 'p98'; expected one of"):
        wakelab.compare(MODEL, "smp-8", BOTH, seeds=1).metric("p98")


def test_notes_are_warnings():
    with pytest.warns(UserWarning, match="tasks cannot ask for slices there"):
        wakelab.compare("demo", "smp-8", "linux-4.15", seeds=1, slice="hackbench=1ms", check=False)


def test_objects_can_be_pickled():
    for machine in [wakelab.Machine(name) for name in wakelab.Machine.names()]:
        assert pickle.loads(pickle.dumps(machine)) == machine
    policy = wakelab.Policy("linux-6.12", latency_ns=2_000_000)
    assert pickle.loads(pickle.dumps(policy)) == policy
    workload = wakelab.Workload(MODEL)
    assert pickle.loads(pickle.dumps(workload)) == workload
    recording = wakelab.Recording("demo", of="hackbench")
    copy = pickle.loads(pickle.dumps(recording))
    assert copy.workload() == recording.workload()
    assert recording.machine().cpus == 2


def test_a_machine_can_be_changed():
    machine = wakelab.Machine("smp-8")
    dear = machine.with_costs("wakeup=5000")
    assert machine != dear
    named = wakelab.compare(MODEL, "smp-8", "linux-4.15", seeds=1, cost="wakeup=5000").metric("makespan_ns")
    given = wakelab.compare(MODEL, dear, "linux-4.15", seeds=1).metric("makespan_ns")
    assert named[1]["mean"] == given[0]["mean"]


def test_the_interpreter_goes_on_meanwhile():
    """While one thread simulates, another one counts."""
    counted = 0
    run = threading.Thread(target=wakelab.run, args=("hackbench:groups=16,loops=100", "power9-2s22c4t", "linux-4.15"))
    run.start()
    while run.is_alive():
        time.sleep(0.001)
        counted += 1
    assert counted > 10


def test_pages_and_traces(tmp_path):
    answer = wakelab.compare("demo", "smp-8", BOTH, seeds=2)
    answer.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and answer.verdicts[0]["policy"] in page
    answer.perfetto(tmp_path / "trace")
    assert (tmp_path / "trace").stat().st_size > 10_000
    html = answer._repr_html_()
    assert "<pre" in html and "done after" in html
    assert str(answer).startswith("demo on smp-8")
    with pytest.raises(OSError):
        answer.report(tmp_path / "none" / "page.html")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["page.html", "trace"]
