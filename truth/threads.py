# SPDX-License-Identifier: GPL-2.0-or-later
"""Four threads that put numbers into queues of each other, under the interpreter's lock."""

import queue
import threading

THREADS, ITEMS = 4, 4000

queues = [queue.Queue(16) for _ in range(THREADS)]


def pass_on(index):
    for item in range(ITEMS):
        queues[(index + 1) % THREADS].put(item)
        queues[index].get()


threads = [threading.Thread(target=pass_on, args=(index,)) for index in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
