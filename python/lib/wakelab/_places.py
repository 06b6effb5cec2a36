# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the chunks of a sweep run: processes of this machine, or a cluster of Ray or Dask, all through joblib.

A place puts what all chunks share (the scenarios) once where its workers find it, and each worker process reads it once.
Ray and Dask start a chunk again elsewhere if its worker dies. joblib's own backends for them are not used: Ray's keeps
actors that it does not replace, and Dask's waits for ever for a chunk that was given up.
"""

import ctypes
import hashlib
import os
import tempfile
from functools import partial
from typing import Any, Callable, Optional, Protocol, Union

from joblib import cpu_count
from joblib.parallel import ParallelBackendBase

from ._native import SweepWorker

#: How often a cluster starts a chunk whose worker died again.
RETRIES = 5

#: What a worker returns for a chunk: the chunk, its rows, and how long each run took in nanoseconds.
Done = tuple[str, str, list[int]]

_worker: Optional[tuple[str, SweepWorker]] = None


def _keep_memory() -> None:
    """Lets this process keep memory that a run has freed, for the next run.

    Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, with which glibc gives memory back after each run: a sweep
    then takes twice the CPU time. The numbers are M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(-1, 128 << 20)
        mallopt(-3, 32 << 20)


def _prepared(key: str, load: Callable[[], str]) -> SweepWorker:
    """This process's worker for the sweep of this key."""
    global _worker
    if _worker is None or _worker[0] != key:
        _keep_memory()
        _worker = (key, SweepWorker(load()))
    return _worker[1]


def run_chunk(key: str, load: Callable[[], str], chunk: str, limit_s: float) -> Done:
    """Runs a chunk in a worker's process."""
    rows, run_ns = _prepared(key, load).run(chunk, limit_s)
    return chunk, rows, run_ns


def key_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Place(Protocol):
    """Where chunks run."""

    #: The number of chunks that run at once.
    workers: int
    #: Whether chunks run in this process.
    is_here: bool
    #: What a task costs the place's own scheduler, in seconds, on a cluster of hundreds of machines.
    task_s: float
    #: joblib's backend.
    backend: Union[str, ParallelBackendBase]

    def share(self, text: str) -> Callable[[], str]:
        """Puts a text where all workers find it, and returns what reads it there."""

    def close(self) -> None: ...


class Processes:
    """Processes of this machine."""

    task_s = 0.0
    backend: Union[str, ParallelBackendBase] = "loky"

    def __init__(self, workers: Optional[int]) -> None:
        self.workers = workers or cpu_count()
        self.is_here = self.workers == 1
        self._file: Optional[str] = None

    def share(self, text: str) -> Callable[[], str]:
        if self._file is None:
            handle, self._file = tempfile.mkstemp(prefix="wakelab-sweep-")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
        return partial(_read, self._file)

    def close(self) -> None:
        if self._file is not None:
            os.unlink(self._file)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class _Futures(ParallelBackendBase):
    """joblib's calls as the futures of a cluster."""

    supports_retrieve_callback = True

    def __init__(self, start: Callable[[Any], Any], workers: int) -> None:
        super().__init__()
        self._start, self._workers = start, workers
        self._running: set[Any] = set()

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def effective_n_jobs(self, n_jobs: int) -> int:
        # joblib would run what is for one worker in this process.
        return max(self._workers, 2)

    def submit(self, func: Any, callback: Any = None) -> Any:
        future = self._start(func)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Any) -> Any:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        for future in list(self._running):
            future.cancel()


class Ray:
    """A cluster of Ray: that of an address, the one this process is connected to, or a new one on this machine."""

    is_here = False
    # Its release benchmark many_tasks, on 2,500 CPUs, ends 440 to 600 tasks a second.
    task_s = 1 / 440

    def __init__(self, address: Optional[str], workers: Optional[int]) -> None:
        import ray

        self._is_own = not ray.is_initialized()
        if self._is_own:
            here: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
            ray.init(address=address, log_to_driver=False, **here)
        self.workers = workers or int(ray.cluster_resources().get("CPU", 1))
        call = ray.remote(max_retries=RETRIES, num_cpus=1)(_call)
        self.backend: Union[str, ParallelBackendBase] = _Futures(
            lambda func: call.remote(func).future(), self.workers
        )

    def share(self, text: str) -> Callable[[], str]:
        import ray

        return partial(_from_ray, [ray.put(text)])

    def close(self) -> None:
        import ray

        if self._is_own:
            ray.shutdown()


def _call(func: Callable[[], Any]) -> Any:
    return func()


def _from_ray(reference: list[Any]) -> str:
    import ray

    return ray.get(reference[0])


class Dask:
    """A cluster of Dask: that of an address, of a cluster or client object, or a new one on this machine."""

    is_here = False
    # What a chunk costs the scheduler and this process together (docs/guide/sweeps.md: 3.3 ms); the documentation of
    # Dask names up to a millisecond for its scheduler.
    task_s = 1 / 300

    def __init__(self, address: Any, workers: Optional[int]) -> None:
        from distributed import Client

        self._is_own = not isinstance(address, Client)
        if not self._is_own:
            self._client = address
        elif address is None:
            self._client = new_dask(workers or cpu_count())
        else:
            self._client = Client(address)
        self._client.wait_for_workers(1)
        self.workers = workers or sum(self._client.nthreads().values())
        self._key, self._text = "", None
        self.backend: Union[str, ParallelBackendBase] = _Futures(self._start, self.workers)

    def _start(self, func: Any) -> Any:
        return self._client.submit(_call_with, func, self._key, self._text, pure=False, retries=RETRIES)

    def share(self, text: str) -> Callable[[], str]:
        self._key = key_of(text)
        self._text = self._client.scatter(text, broadcast=True, hash=False)
        return _already_there

    def close(self) -> None:
        self._text = None
        if self._is_own:
            self._client.close()


def new_dask(workers: int) -> Any:
    """The client of a new cluster of Dask on this machine."""
    import dask
    from distributed import Client

    # Workers look at their own stack 100 times a second. That takes a CPU some of its time, and shows nothing of a run,
    # which is not Python.
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)


def _call_with(func: Callable[[], Any], key: str, text: str) -> Any:
    _prepared(key, lambda: text)
    return func()


def _already_there() -> str:
    raise LookupError("Dask did not bring what the chunks share")


def place(backend: Optional[str], address: Any, workers: Optional[int]) -> Place:
    """The place of a name: `processes`, `ray` or `dask`."""
    if backend in (None, "processes"):
        if address is not None:
            raise ValueError(f"address={address!r}: processes run on this machine; expected backend='ray' or 'dask'")
        return Processes(workers)
    if backend == "ray":
        return Ray(address, workers)
    if backend == "dask":
        return Dask(address, workers)
    raise ValueError(f"backend={backend!r}; expected 'processes', 'ray' or 'dask'")
