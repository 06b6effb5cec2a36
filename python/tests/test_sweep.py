# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps over processes, Ray and Dask give the bytes of the command, whatever dies meanwhile."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
import wakelab

pytest.importorskip("joblib")

#: 6 cases of 2 policies with 3 to 8 seeds: intervals of 0.5 % are wide for most of them.
SWEEP = """
workload = "hackbench:groups={groups},loops={loops}"
machine = "smp-8@l3:{llcs} core:4"
policy = ["linux-4.15", "linux-6.12"]
[parameters]
groups = [1, 2]
llcs = [1, 2, 3]
loops = [LOOPS]
[seeds]
min = 3
max = 8
narrow_percent = 0.5
"""
MOMENTS = 20


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The file of a sweep that takes a second or two."""
    return _file(tmp_path_factory, 40)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """The file of a sweep in which there is time to kill."""
    return _file(tmp_path_factory, 400)


def _file(tmp_path_factory, loops):
    path = tmp_path_factory.mktemp("sweep") / "sweep.toml"
    path.write_text(SWEEP.replace("LOOPS", str(loops)))
    return path


@pytest.fixture
def expected(command):
    """Returns the result of the command, and what it prints."""

    def run(file):
        output = file.with_suffix(".parquet")
        if not output.exists():
            printed = command("sweep", str(file), "-o", str(output))
            file.with_suffix(".txt").write_text(printed)
        return output.read_bytes(), file.with_suffix(".txt").read_text()

    return run


def runs(journal):
    """The runs in a journal. None may be there twice."""
    if not journal.exists():
        return set()
    lines = journal.read_bytes().split(b"\n")[1:-1]
    found = [tuple(json.loads(line)[key] for key in ("case", "policy", "seed")) for line in lines]
    assert len(set(found)) == len(found), "a run is there twice"
    return set(found)


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_give_the_bytes_of_the_command(small, expected, tmp_path, workers):
    output = tmp_path / "a.parquet"
    answer = wakelab.sweep(small, output, workers=workers)
    data, printed = expected(small)
    assert output.read_bytes() == data
    assert str(answer) == printed and "cases got more seeds" in printed
    assert not (tmp_path / "a.parquet.runs").exists()


def test_keywords_are_the_keys_of_the_file(small, expected, tmp_path):
    answer = wakelab.sweep(
        workload="hackbench:groups={groups},loops={loops}",
        machine="smp-8@l3:{llcs} core:4",
        policy=["linux-4.15", wakelab.Policy("linux-6.12")],
        parameters={"groups": range(1, 3), "llcs": [1, 2, 3], "loops": [40]},
        seeds={"min": 3, "max": 8, "narrow_percent": 0.5},
        workers=1,
        chunk_s=0.01,
    )
    answer.table.to_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == expected(small)[0]
    assert len(answer) > 36
    columns = answer.gains.columns
    assert columns[:4] == ["case", "groups", "llcs", "loops"] and "gain_percent" in columns


def test_wrong_sweeps_are_refused(tmp_path, small):
    with pytest.raises(ValueError, match="linux-6.13"):
        wakelab.sweep(workload="pingpong", machine="smp-2", policy="linux-6.13")
    with pytest.raises(ValueError, match="backend='rey'; expected"):
        wakelab.sweep(small, backend="rey")
    with pytest.raises(TypeError, match="got a file and the keyword 'policy'"):
        wakelab.sweep(small, policy="linux-6.12")
    with pytest.raises(TypeError, match="expected texts"):
        wakelab.sweep(workload="pingpong", machine=object(), policy="linux-6.12")
    (tmp_path / "a.parquet").touch()
    with pytest.raises(ValueError, match="is there already"):
        wakelab.sweep(small, tmp_path / "a.parquet")


def test_a_recording_and_a_machine_file_go_to_the_workers(root, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(wakelab.Machine("smp-8").with_costs("wakeup=700").to_toml())
    text = 'workload = "RECORDING"\nmachine = "{name}@l3:2 core:4"\npolicy = ["linux-4.15", "linux-6.12"]\n[parameters]\n'
    text = text.replace("RECORDING", str(root / "fixtures/hackbench.perf.txt")) + 'name = ["./mine.toml", "smp-8"]\n'
    (tmp_path / "sweep.toml").write_text(text)
    answer = wakelab.sweep("sweep.toml", "a.parquet", workers=2, chunk_s=0.001)
    printed = command("sweep", "sweep.toml", "-o", "b.parquet", folder=tmp_path)
    assert str(answer) == printed
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def killed_once(journal, victims, least=4):
    """Kills one of the processes that `victims` returns, once the journal has some runs. Returns the thread that does."""
    killed = []

    def kill():
        while len(runs(journal)) < least:
            time.sleep(0.01)
        killed.append(victims()[0])
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.killed = killed
    thread.start()
    return thread


def children(word):
    """The processes below this one whose command has a word."""
    psutil = pytest.importorskip("psutil")
    every = psutil.Process().children(recursive=True)
    return [child.pid for child in every if word in " ".join(child.cmdline())]


def check_with_a_kill(file, expected, tmp_path, victims, **place):
    output = tmp_path / "a.parquet"
    thread = killed_once(tmp_path / "a.parquet.runs", victims)
    wakelab.sweep(file, output, chunk_s=0.05, **place)
    thread.join(1)
    assert thread.killed, "nothing was killed"
    assert output.read_bytes() == expected(file)[0]


def test_a_process_that_dies(long, expected, tmp_path):
    pytest.importorskip("psutil")
    check_with_a_kill(long, expected, tmp_path, lambda: children("LokyProcess"), workers=2)


def test_ray_and_a_worker_that_dies(long, small, expected, tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        wakelab.sweep(small, tmp_path / "whole.parquet", backend="ray")
        assert (tmp_path / "whole.parquet").read_bytes() == expected(small)[0]
        check_with_a_kill(long, expected, tmp_path, lambda: children("ray::_call"), backend="ray")
    finally:
        ray.shutdown()


def test_ray_by_its_address(small, expected, tmp_path):
    ray = pytest.importorskip("ray")
    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        code = "import sys, wakelab; wakelab.sweep(sys.argv[1], sys.argv[2], backend='ray', address=sys.argv[3])"
        address = context.address_info["gcs_address"]
        arguments = [sys.executable, "-c", code, str(small), str(tmp_path / "a.parquet"), address]
        subprocess.run(arguments, check=True)
        assert (tmp_path / "a.parquet").read_bytes() == expected(small)[0]
    finally:
        ray.shutdown()


def test_dask_and_a_worker_that_dies(long, small, expected, tmp_path):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        wakelab.sweep(small, tmp_path / "whole.parquet", backend="dask", address=cluster.scheduler_address)
        assert (tmp_path / "whole.parquet").read_bytes() == expected(small)[0]
        pids = lambda: list(client.run(os.getpid).values())  # noqa: E731
        check_with_a_kill(long, expected, tmp_path, pids, backend="dask", address=client)


def test_a_sweep_that_is_killed_goes_on(long, expected, tmp_path):
    """The whole sweep is killed at random moments, and the same call goes on each time."""
    output, journal = tmp_path / "a.parquet", tmp_path / "a.parquet.runs"
    code = "import sys, wakelab; wakelab.sweep(sys.argv[1], sys.argv[2], workers=int(sys.argv[3]), chunk_s=0.02)"
    moments, before = random.Random(1), set()
    for moment in range(MOMENTS):
        # Every other time it runs in its own process, and the kill is then in the middle of a run.
        arguments = [sys.executable, "-c", code, str(long), str(output), str(1 + moment % 2)]
        child = subprocess.Popen(arguments, start_new_session=True)
        more = moments.randint(1, 3)
        while len(runs(journal)) < len(before) + more:
            assert child.poll() is None, f"moment {moment}: it has ended by itself"
            time.sleep(0.001)
        time.sleep(moments.random() * 0.02)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        after = runs(journal)
        assert after >= before, f"moment {moment}: runs were lost"
        before = after
    wakelab.sweep(long, output, workers=2)
    assert output.read_bytes() == expected(long)[0]
    assert not journal.exists()
