# SPDX-License-Identifier: GPL-2.0-or-later
"""Types of the extension. Keywords are the options of the command, ``_`` for ``-``."""

from os import PathLike
from typing import Any, Optional, Sequence, TypedDict, Union, final

from typing_extensions import Unpack

_Path = Union[str, PathLike[str]]
_Texts = Union[str, Sequence[str]]
_Machine = Union[str, PathLike[str], "Machine"]
_Machines = Union[_Machine, Sequence[_Machine]]
_Policy = Union[str, "Policy"]
_Policies = Union[_Policy, Sequence[_Policy]]
_Input = Union[str, PathLike[str], "Workload", "Recording"]

class _Import(TypedDict, total=False):
    recorded_on: Optional[_Machine]
    of: _Texts
    open_loop: _Texts
    closed_loop: _Texts
    recorded_waits_only: bool
    repeat: Optional[int]
    strict: bool

class _WhatIf(TypedDict, total=False):
    faster: _Texts
    nice: _Texts
    slice: _Texts
    cpus: _Texts
    weight: _Texts
    quota: _Texts

class _Kernel(TypedDict, total=False):
    host: str
    limit_s: Optional[float]
    limit_events: int

class _Seeds(TypedDict, total=False):
    seeds: int
    seed: int
    threads: Optional[int]

class _Compare(_Import, _WhatIf, _Kernel, _Seeds, total=False):
    cost: _Texts
    without: _Texts
    uncertainty: Optional[int]

class _Run(_Import, _WhatIf, _Kernel, total=False):
    seed: int
    cost: _Texts
    without: _Texts
    slowest: int

class _Why(_Import, _WhatIf, _Kernel, _Seeds, total=False):
    cost: _Texts
    slowest: int

class _Check(_Import, _WhatIf, _Kernel, _Seeds, total=False): ...

class _Map(_Kernel, _Seeds, total=False):
    metric: Optional[str]
    over_best: bool

class _Experiments(TypedDict, total=False):
    quick: bool
    uncertainty: Optional[int]
    seed: int
    seeds: Optional[int]
    threads: Optional[int]

class _Verdict(TypedDict):
    policy: str
    decided: Optional[str]
    sentences: list[str]

class _OfPolicy(TypedDict):
    policy: str
    mean: Optional[float]
    values: list[Optional[float]]
    gain_percent: Optional[float]
    ci_percent: Optional[float]

__version__: str

@final
class Machine:
    """A machine: its topology, and what things cost there."""
    def __new__(cls, name: str) -> Machine: ...
    @staticmethod
    def from_toml(text: str, name: str = "machine") -> Machine: ...
    @staticmethod
    def names() -> list[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def cpus(self) -> int: ...
    def costs(self) -> list[tuple[str, str, str, str]]: ...
    def with_costs(self, *costs: str) -> Machine: ...
    def to_toml(self) -> str: ...

@final
class Policy:
    """A policy: a name, and choices of axes and tunables."""
    def __new__(cls, name: str, **choices: Union[str, int]) -> Policy: ...
    @staticmethod
    def names() -> list[str]: ...
    @staticmethod
    def axes() -> list[tuple[str, list[str]]]: ...
    @staticmethod
    def tunables() -> list[str]: ...
    @property
    def name(self) -> str: ...

@final
class Workload:
    """What tasks do."""
    def __new__(cls, spec: str, **parameters: Union[str, int]) -> Workload: ...
    @staticmethod
    def from_json(text: str) -> Workload: ...
    @staticmethod
    def names() -> list[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def tasks(self) -> int: ...
    def to_json(self) -> str: ...

@final
class Recording:
    """A recording, and how to read it."""
    def __new__(cls, path: _Path, **options: Unpack[_Import]) -> Recording: ...
    @property
    def path(self) -> str: ...
    def machine(self) -> Machine: ...
    def workload(self) -> Workload: ...

@final
class Table:
    """A table of Arrow: pyarrow.table, polars.DataFrame, pandas and DuckDB take it."""
    @property
    def columns(self) -> list[str]: ...
    def to_parquet(self, path: _Path) -> None: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class Comparison:
    """Runs of several policies side by side."""
    def to_json(self, with_scenario: bool = False) -> str: ...
    def to_csv(self) -> str: ...
    def text(self, width: Optional[int] = None, all: bool = False) -> str: ...
    @property
    def policies(self) -> list[str]: ...
    @property
    def seeds(self) -> list[int]: ...
    @property
    def verdicts(self) -> list[_Verdict]: ...
    @property
    def tidy(self) -> Table: ...
    def metric(self, name: str) -> list[_OfPolicy]: ...
    def slices(self) -> Table: ...
    def report(self, path: _Path) -> None: ...
    def perfetto(self, path: _Path) -> None: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class Check:
    """A recording beside its own replay."""
    def to_json(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    def text(self, width: Optional[int] = None) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Why:
    """Two sides of a comparison, axis by axis."""
    def to_json(self) -> str: ...
    @property
    def sentences(self) -> list[str]: ...
    def text(self, width: Optional[int] = None) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Map:
    """Where policies help and where they hurt."""
    def to_json(self) -> str: ...
    def svg(self) -> str: ...
    def text(self, width: Optional[int] = None) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Experiments:
    """Published experiments beside what the lab predicts."""
    def to_json(self) -> str: ...
    def text(self, width: Optional[int] = None) -> str: ...
    def failures(self) -> list[str]: ...
    def _repr_html_(self) -> str: ...

def compare(
    input: _Input, machine: _Machines, policy: _Policies, *, check: bool = True, **options: Unpack[_Compare]
) -> Comparison: ...
def again(path: _Path, *, threads: Optional[int] = None) -> Comparison: ...
def run(input: _Input, machine: _Machine, policy: _Policy, **options: Unpack[_Run]) -> Comparison: ...
def check(
    recording: Union[_Path, Recording],
    machine: Optional[_Machine] = None,
    policy: Optional[_Policy] = None,
    *,
    against: Optional[_Path] = None,
    **options: Unpack[_Check],
) -> Check: ...
def why(
    input: _Input,
    machine: _Machines,
    policy: _Policies,
    *,
    metric: Optional[str] = None,
    check: bool = True,
    **options: Unpack[_Why],
) -> Why: ...
def map(
    workload: str,
    policy: _Policies,
    machine: Optional[_Machines] = None,
    *,
    load: Union[str, int, Sequence[Union[str, int]], None] = None,
    **options: Unpack[_Map],
) -> Map: ...
def experiments(names: Optional[_Texts] = None, **options: Unpack[_Experiments]) -> Experiments: ...
