# SPDX-License-Identifier: GPL-2.0-or-later
"""`wakelab.sweep`: the cases of a sweep in chunks over processes, or over a cluster of Ray or Dask.

The extension knows which runs are missing, cuts chunks of them by measured run times, and keeps the journal. Here chunks
go to workers and rows come back, in waves: a wave ends when no run is waiting and none is under way, or when its workers
fail. Then whatever is missing begins again, so that nothing is lost, and a run that was done twice counts once.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, Optional, Union

from ._native import Sweep
from ._progress import Progress

#: The part of the time that a scheduler may need for all chunks: this process, or that of the cluster.
SCHEDULER_SHARE = 0.05
#: Bounds of the length of a chunk.
CHUNK_S_MIN, CHUNK_S_MAX = 0.5, 120.0
#: A chunk ends early if it has taken this number of times its length.
OVERRUN = 2.0
#: Waves without a new row after which a sweep gives up.
FAILURES_MAX = 3

_Spec = Union[str, PathLike[str], Mapping[str, Any]]


def sweep(
    spec: Optional[_Spec] = None,
    output: Union[str, PathLike[str], None] = None,
    *,
    backend: Optional[str] = None,
    address: Any = None,
    workers: Optional[int] = None,
    chunk_s: Optional[float] = None,
    progress: Optional[bool] = None,
    **keys: Any,
) -> Sweep:
    """Runs a sweep, and returns its rows; docs/guide/sweeps.md.

    `spec` is the file of a sweep, or a mapping with its keys, which may be keywords too. With `output`, the result goes
    to that Parquet file, and an interrupted sweep goes on from the journal beside it.

    `backend` is `processes` (the default), `ray` or `dask`; `address` is that of a cluster; `workers` is the number of
    processes, or of CPUs of a new cluster; an existing cluster uses all it has. `chunk_s` is how long a chunk lasts, in seconds: by default as long as is needed so that
    handing chunks out takes less than 5 % of the time, here and in the cluster's scheduler. `progress`: whether to show it on stderr; by default on a terminal.
    """
    from . import _places

    plan = _plan(spec, keys)
    if output is not None:
        plan._open(os.fspath(output))
    if plan._begin_again() > 0:
        place = _places.place(backend, address, workers)
        try:
            _run(plan, place, chunk_s, Progress(progress))
        finally:
            place.close()
    plan._finish()
    return plan


def _plan(spec: Optional[_Spec], keys: dict[str, Any]) -> Sweep:
    if isinstance(spec, (str, PathLike)):
        if keys:
            raise TypeError(f"sweep() got a file and the keyword '{next(iter(keys))}'; expected one of them")
        path = os.fspath(spec)
        with open(path, encoding="utf-8") as file:
            return Sweep(file.read(), path)
    given = {**(spec or {}), **keys}
    if isinstance(given.get("policy"), (str, *_text_types())):
        given["policy"] = [given["policy"]]
    if isinstance(given.get("seeds"), int):
        given["seeds"] = {"min": given["seeds"]}
    return Sweep(Sweep._text_of_json(json.dumps(given, default=_plain)), "sweep")


def _text_types() -> tuple[type, ...]:
    from ._native import Policy

    return (Policy,)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, _text_types()):
        return str(value)
    if isinstance(value, PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # an array of numpy, or one of its numbers
        return value.tolist()
    if isinstance(value, (range, tuple, set, frozenset)):
        return list(value)
    raise TypeError(f"a sweep cannot have {value!r}; expected texts, numbers, lists and mappings")


def _run(plan: Sweep, place: Any, chunk_s: Optional[float], progress: Progress) -> None:
    """Runs everything that is missing, wave after wave."""
    from joblib import Parallel, delayed

    from ._places import key_of, run_chunk

    packed = plan._pack()
    key, failures = key_of(packed), 0
    while plan._begin_again() > 0:
        new = 0
        pace = _Pace(place, chunk_s)
        # Again in each wave: what was shared may be lost with the workers that had it.
        load = place.share(packed)

        def chunks() -> Iterator[Any]:
            while True:
                with pace.own_time():
                    chunk_s = pace.chunk_s()
                    chunk = plan._chunk(chunk_s, place.workers)
                if chunk is None:
                    return
                yield delayed(run_chunk)(key, load, chunk[0], OVERRUN * chunk_s)

        parallel = Parallel(
            n_jobs=place.workers,
            backend=place.backend,
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch="2*n_jobs",
        )
        try:
            for chunk, rows, run_ns in parallel(chunks()):
                with pace.own_time():
                    new += plan._done(chunk, rows, run_ns)
                pace.chunk_done()
                progress.show(*plan._tally())
        except Exception:
            failures = 0 if new else failures + 1
            if failures >= FAILURES_MAX:
                raise
    progress.end()


class _Pace:
    """How long chunks are: long enough that all of them keep this process and the cluster's scheduler busy for a small
    part of the time only."""

    def __init__(self, place: Any, chunk_s: Optional[float]) -> None:
        self._place, self._fixed_s = place, chunk_s
        self._own_s, self._chunks = 0.0, 0

    @contextmanager
    def own_time(self) -> Iterator[None]:
        """Counts the time inside as spent on a chunk. What else this process does, such as to wait, grows with time and
        not with chunks, so that longer chunks would not save it."""
        begin_s = time.thread_time()
        yield
        self._own_s += time.thread_time() - begin_s

    def chunk_done(self) -> None:
        self._chunks += 1

    def chunk_s(self) -> float:
        if self._fixed_s is not None:
            return self._fixed_s
        # If chunks run in this process, its time is that of the runs.
        if self._place.is_here:
            return CHUNK_S_MIN
        own_s = self._own_s / self._chunks if self._chunks else 0.0
        chunk_s = max(own_s, self._place.task_s) * self._place.workers / SCHEDULER_SHARE
        return min(max(chunk_s, CHUNK_S_MIN), CHUNK_S_MAX)
