# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures sweeps: what Python adds to a run, how much faster two workers are than one on Ray and Dask, and what it costs
this process to hand a chunk out.

    python python/tests/throughput.py SWEEP.toml [ROUNDS]

Each round runs everything once, one after the other, so that what else the machine does hits all alike; the medians are
what counts. WAKELAB names the command that Python is compared with.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import wakelab
import wakelab._places


def overhead(sweep: str) -> float:
    """How much more CPU time a sweep takes in Python's process than by the command on one thread, in percent."""

    def command(folder: str) -> None:
        words = [os.environ["WAKELAB"], "sweep", sweep, "-o", f"{folder}/a.parquet", "--threads", "1"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def python(folder: str) -> None:
        wakelab.sweep(sweep, f"{folder}/a.parquet", workers=1)

    own = cpu_s(resource.RUSAGE_SELF, python)
    return 100 * (own / cpu_s(resource.RUSAGE_CHILDREN, command) - 1)


def cpu_s(who: int, run: Callable[[str], None]) -> float:
    begin = resource.getrusage(who)
    with tempfile.TemporaryDirectory() as folder:
        run(folder)
    end = resource.getrusage(who)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def chunk_cost_s(backend: str, sweep: str) -> float:
    """The CPU time that a chunk costs this process: a sweep with a chunk for each run."""
    runs = 0

    def every_run_alone(folder: str) -> None:
        nonlocal runs
        runs = len(cluster.sweep(sweep, f"{folder}/a.parquet", chunk_s=1e-9))

    with Cluster(backend, 2) as cluster:
        return cpu_s(resource.RUSAGE_SELF, every_run_alone) / runs


class Cluster:
    """A cluster of one backend on this machine, alone: no other one takes time beside it."""

    def __init__(self, backend: str, workers: int) -> None:
        self.backend = backend
        if backend == "dask":
            self.address = wakelab._places.new_dask(workers)
        else:
            import ray

            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
            self.address = None

    def __enter__(self) -> "Cluster":
        # Workers start at the first chunk.
        self.sweep(None, workload="pingpong:pairs=1,loops=10", machine="smp-2", policy="linux-6.12", seeds=8)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.backend == "dask":
            self.address.shutdown()
        else:
            import ray

            ray.shutdown()

    def sweep(self, *spec: Any, **keys: Any) -> Any:
        return wakelab.sweep(*spec, backend=self.backend, address=self.address, **keys)


def run(backend: str, workers: int, sweep: str) -> tuple[float, bytes]:
    """Returns how long a sweep takes on workers that have started, and its result."""
    with Cluster(backend, workers) as cluster, tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        cluster.sweep(sweep, f"{folder}/a.parquet")
        return time.monotonic() - begin, Path(folder, "a.parquet").read_bytes()


def main() -> None:
    sweep, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    # Before there is a cluster: Dask changes this process's environment, and with it the allocator of its children.
    overheads = [overhead(sweep) for _ in range(rounds)]
    every = ", ".join(f"{one:+.1f}" for one in overheads)
    print(f"Python's CPU time over the command's: {statistics.median(overheads):+.1f} % ({every})", flush=True)
    results = set()
    kinds = [(backend, workers) for backend in ("ray", "dask") for workers in (1, 2)]
    took: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            seconds, result = run(*kind, sweep)
            took[kind].append(seconds)
            results.add(result)
    for backend in ("ray", "dask"):
        one, two = (took[backend, workers] for workers in (1, 2))
        ratios = [first / second for first, second in zip(one, two)]
        print(f"{backend}: {statistics.median(one):.1f} s with one worker, {statistics.median(two):.1f} s with two: "
              f"x{statistics.median(ratios):.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})", flush=True)  # fmt: skip
        cost_s = chunk_cost_s(backend, sweep)
        print(f"  a chunk costs this process {1e3 * cost_s:.2f} ms")
    print(f"results: {'identical' if len(results) == 1 else 'they differ'}")


if __name__ == "__main__":
    main()
