# SPDX-License-Identifier: GPL-2.0-or-later
"""Three processes that take small jobs from a queue, and put their answers into another one."""

import multiprocessing

JOBS = 4000


def job(number):
    return sum(range(number % 500))


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        assert sum(pool.map(job, range(JOBS), chunksize=1)) > 0
