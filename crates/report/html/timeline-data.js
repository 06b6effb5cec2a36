// SPDX-License-Identifier: GPL-2.0-or-later
// The slices of a run: unpacks what html_data.rs packed, and places them on the axis.
//
// A run has its slices in typed arrays, sorted by CPU and then by time. `rows.cpus` and `rows.tasks` are two orders of
// them: a row is `order[first[row]]` up to `order[first[row + 1]]`, and inside a row slices never overlap.

/** Codes of what made a task runnable; larger ones are tasks, twice their number, and 1 more for a parent. */
const WAKERS = ["", "an idle CPU", "a timer", "a device", "an interrupt"];
const FIRST_WAKER_TASK = WAKERS.length;
/** Steps of the work axis: between two of them the service's rate counts as constant. */
const WORK_STEPS = 1 << 14;

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Returns a function that fills an array with the next numbers: 7 bits a byte, the highest bit says that more follow. */
function numbersOf(bytes) {
  let at = 0;
  return (array) => {
    for (let index = 0; index < array.length; index++) {
      let byte = bytes[at++];
      let number = byte & 0x7f;
      for (let scale = 128; byte & 0x80; scale *= 128) {
        byte = bytes[at++];
        number += (byte & 0x7f) * scale;
      }
      array[index] = number;
    }
    return array;
  };
}

/** Unpacks a run. Times are in units of `meta.unit_ns` until here, and in nanoseconds from here on. */
async function unpack(meta, text, tasks) {
  const next = numbersOf(await inflate(text));
  const size = meta.slices;
  const perCpu = next(new Uint32Array(meta.cpus));
  const gap = next(new Float64Array(size));
  const end = next(new Float64Array(size));
  const run = {
    ...meta,
    cpu: new Uint16Array(size),
    begin: new Float64Array(size),
    end,
    task: next(new Uint32Array(size)),
    wait: next(new Float64Array(size)),
    waker: next(new Uint32Array(size)),
    from: next(new Uint16Array(size)),
    reason: next(new Uint8Array(size)),
    left: next(new Uint8Array(size)),
  };
  const first = new Uint32Array(meta.cpus + 1);
  for (let cpu = 0, index = 0; cpu < meta.cpus; cpu++) {
    let now = 0;
    for (const last = index + perCpu[cpu]; index < last; index++) {
      now += gap[index];
      run.begin[index] = now * meta.unit_ns;
      now += end[index];
      end[index] = now * meta.unit_ns;
      run.wait[index] *= meta.unit_ns;
      run.cpu[index] = cpu;
    }
    first[cpu + 1] = index;
  }
  const order = Uint32Array.from({ length: size }, (_, index) => index);
  run.rows = { cpus: { order, first }, tasks: byTask(run, tasks) };
  run.x = { wait: new Float64Array(size), begin: new Float64Array(size), end: new Float64Array(size), max: 1 };
  return run;
}

/** Returns the order by task and then by time. */
function byTask(run, tasks) {
  const first = new Uint32Array(tasks.length + 1);
  for (const task of run.task) first[task + 1]++;
  for (let task = 0; task < tasks.length; task++) first[task + 1] += first[task];
  const order = Uint32Array.from(run.task.keys());
  order.sort((a, b) => run.task[a] - run.task[b] || run.begin[a] - run.begin[b]);
  return { order, first };
}

/**
 * Returns how much of the service's CPU time is over at each step of the run's time, as shares from 0 to 1. Where the
 * service does not run at all, the share stands still.
 */
function workDone(run, tasks) {
  const done = new Float64Array(WORK_STEPS + 1);
  const step = run.end_ns / WORK_STEPS;
  const isJudged = tasks.some((task) => task.judged) ? (task) => tasks[task].judged : () => true;
  for (let index = 0; index < run.slices; index++) {
    if (!isJudged(run.task[index])) continue;
    let begin = run.begin[index];
    for (let at = Math.floor(begin / step); begin < run.end[index] && at < WORK_STEPS; at++) {
      const until = Math.min(run.end[index], (at + 1) * step);
      done[at + 1] += until - begin;
      begin = until;
    }
  }
  for (let at = 0; at < WORK_STEPS; at++) done[at + 1] += done[at];
  const total = done[WORK_STEPS] || 1;
  return done.map((ns) => ns / total);
}

/** Places all slices on the axis: at their time in ns, or at the share of the service's work that is done by then. */
function place(run, axis, tasks) {
  const done = axis === "work" ? workDone(run, tasks) : null;
  const step = run.end_ns / WORK_STEPS;
  run.xOf = (ns) => {
    if (!done) return ns;
    const at = Math.min(Math.max(ns / step, 0), WORK_STEPS - 1e-9);
    const low = Math.floor(at);
    return done[low] + (done[low + 1] - done[low]) * (at - low);
  };
  for (let index = 0; index < run.slices; index++) {
    run.x.wait[index] = run.xOf(run.begin[index] - run.wait[index]);
    run.x.begin[index] = run.xOf(run.begin[index]);
    run.x.end[index] = run.xOf(run.end[index]);
  }
  run.x.max = done ? 1 : run.end_ns;
}

/** Returns the place in a row's order of the first slice that ends after x. */
function firstAfter(run, rows, row, x) {
  let low = rows.first[row];
  let high = rows.first[row + 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (run.x.end[rows.order[middle]] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns the slice of a row at x; -1 if there is none. Its wait before it counts, too, if `withWait`. */
function sliceAt(run, rows, row, x, withWait) {
  const place = firstAfter(run, rows, row, x);
  if (place >= rows.first[row + 1]) return -1;
  const slice = rows.order[place];
  return (withWait ? run.x.wait : run.x.begin)[slice] <= x ? slice : -1;
}

/** Returns the slices of the service with the longest waits before them, the longest first. */
function longestWaits(run, tasks, count) {
  const anyJudged = tasks.some((task) => task.judged);
  const worst = [];
  for (let index = 0; index < run.slices; index++) {
    if (anyJudged && !tasks[run.task[index]].judged) continue;
    if (worst.length === count && run.wait[index] <= run.wait[worst[count - 1]]) continue;
    worst.push(index);
    worst.sort((a, b) => run.wait[b] - run.wait[a]);
    worst.length = Math.min(worst.length, count);
  }
  return worst.filter((index) => run.wait[index] > 0);
}

/** Returns what made a slice's task runnable, in words; empty if the task only gave way before. */
function wakerOf(run, slice, tasks) {
  const code = run.waker[slice];
  if (code < FIRST_WAKER_TASK) return WAKERS[code];
  const task = (code - FIRST_WAKER_TASK) >> 1;
  return nameOf(task, tasks) + ((code - FIRST_WAKER_TASK) & 1 ? " (its parent)" : "");
}

function nameOf(task, tasks) {
  return `${tasks[task].comm} ${task + 1}`;
}

/** Returns a time in words, with up to four digits. */
function timeText(ns) {
  const [divisor, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / divisor).toPrecision(4))} ${unit}`;
}
