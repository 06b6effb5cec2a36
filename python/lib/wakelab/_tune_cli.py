# SPDX-License-Identifier: GPL-2.0-or-later
"""`wakelab-tune`, which `wakelab tune` starts."""

import argparse
import sys
from collections.abc import Sequence
from typing import Optional

from ._space import DEFAULT
from ._tune import tune

EXAMPLES = """\
Examples:
  wakelab tune demo --machine smp-8 --policy wakelab --trials 50
  wakelab tune service.rec.gz --machine recorded --held-out 'recorded*2' --host sched_ext \\
      --space idle=scan,nearest --space migration-cost-ns=50000..5000000 --journal service.journal

docs/guide/tune.md explains it.
"""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wakelab tune",
        description="Look for the choices of axes and tunables with which a policy is better, and worse nowhere.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("input", nargs="+", metavar="INPUT", help="recordings and workloads, as for `wakelab score`")
    add("-m", "--machine", action="append", required=True, metavar="MACHINE",
        help="a machine that counts; repeatable")  # fmt: skip
    add("-p", "--policy", default="wakelab", metavar="POLICY",
        help="the policy that is tuned, and the baseline (default: wakelab)")  # fmt: skip
    add("--space", action="append", metavar="CHOICE",
        help="AXIS=VALUE,VALUE... or TUNABLE=LOW..HIGH in nanoseconds; repeatable (default: " + " ".join(DEFAULT) + ")")  # fmt: skip
    add("--held-out", action="append", default=[], metavar="MACHINE",
        help="a machine that only the winner sees; repeatable")  # fmt: skip
    add("--metric", action="append", metavar="METRIC[=WEIGHT]",
        help="as for `wakelab score`; repeatable (default: result and p99)")  # fmt: skip
    add("--multi", action="store_true", help="make each metric a separate objective, instead of one score")
    add("--trials", type=int, default=100, metavar="N",
        help="the number of trials in all; more find better choices, and take longer (default: 100)")  # fmt: skip
    add("--seeds", type=int, default=8, metavar="N", help="seeds of a whole trial; more tell closer trials apart (8)")
    add("--seed", type=int, default=1, metavar="SEED", help="the first seed, which also seeds the sampler (1)")
    add("--draws", type=int, default=16, metavar="N",
        help="machines with drawn figures that the winner runs on, a power of two from 8 on, or 0 (default: 16)")  # fmt: skip
    add("--journal", metavar="FILE", help="keep trials in FILE, so that the same command goes on, or several share them")
    add("--host", choices=["mainline", "sched_ext"], default="sched_ext",
        help="the kernel model that calls the policies (default: sched_ext, as the winner is to be loaded)")  # fmt: skip
    add("--limit-s", type=float, metavar="SECONDS", help="stop a run after SECONDS of simulated time (600)")
    add("--format", choices=["text", "json"], default="text", help="what is printed on stdout (default: text)")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = _arguments()
    given = parser.parse_args(arguments)
    options = {name: value for name in ("host", "limit_s") if (value := getattr(given, name)) is not None}

    def tell(line: str) -> None:
        if sys.stderr.isatty():
            print(line, file=sys.stderr)

    try:
        tuned = tune(
            given.input,
            given.machine,
            given.policy,
            space=given.space or DEFAULT,
            held_out=given.held_out,
            metric=given.metric or ("result", "p99"),
            multi=given.multi,
            trials=given.trials,
            seeds=given.seeds,
            seed=given.seed,
            draws=given.draws,
            journal=given.journal,
            progress=tell,
            **options,
        )
    except ImportError as error:
        print(f"wakelab: {error}; pip install './python[tune]' in a clone of wakelab installs it", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"wakelab: {error}", file=sys.stderr)
        return 2
    print(tuned.to_json() if given.format == "json" else tuned.text(), end="\n" if given.format == "json" else "")
    return 0
