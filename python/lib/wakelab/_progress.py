# SPDX-License-Identifier: GPL-2.0-or-later
"""Progress on a terminal."""

import sys
import time
from typing import Optional


class Progress:
    """One line on stderr: runs done, runs a second, and the time that is left."""

    def __init__(self, wanted: Optional[bool]) -> None:
        self._is_shown = sys.stderr.isatty() if wanted is None else wanted
        self._begin_s = self._shown_s = time.monotonic()
        self._first: Optional[int] = None

    def show(self, done: int, known: int) -> None:
        now_s = time.monotonic()
        # Runs that an earlier process has done say nothing about the time that is left.
        if self._first is None:
            self._first, self._begin_s = done, now_s
        if not self._is_shown or now_s - self._shown_s < 0.2:
            return
        self._shown_s = now_s
        rate = (done - self._first) / max(now_s - self._begin_s, 1e-9)
        left = f"{(known - done) / rate:.0f} s left" if rate > 0 else "no rate yet"
        print(f"\r{done}/{known} runs, {rate:.1f} a second, {left}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
