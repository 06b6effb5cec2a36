// SPDX-License-Identifier: GPL-2.0-or-later
// The slices of a run: unpacks what html_data.rs packed, and places them on the axis.
//
// A run has its slices in typed arrays, sorted by CPU and then by time. `rows.cpus` and `rows.tasks` are two orders of
// them: a row is `order[first[row]]` up to `order[first[row + 1]]`, and inside a row slices never overlap.

/** How the wait before a slice began, as html_data.rs counts it. */
const WAKERS = ["", "", "an idle CPU", "a timer", "a device", "an interrupt"];
const GAVE_WAY = 0;
const WOKEN = 2;
const BY_TASK = 6;
const BY_NAMED_TASK = 8;
/** Steps of the work axis: between two of them the service's rate counts as constant. */
const WORK_STEPS = 1 << 14;

async function inflate(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index++) bytes[index] = letters.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Returns the numbers from 0 on. */
function countedUp(size) {
  const numbers = new Uint32Array(size);
  for (let index = 0; index < size; index++) numbers[index] = index;
  return numbers;
}

/**
 * Returns a function that fills an array of zeros with the next column: the lowest 7 bits of all numbers, the next ones of
 * those that have more, and so on; the highest bit of a byte says that there are more.
 */
function columnsOf(bytes) {
  let at = 0;
  return (array) => {
    const which = countedUp(array.length);
    for (let count = which.length, scale = 1; count > 0; scale *= 128) {
      let more = 0;
      for (let place = 0; place < count; place++) {
        const byte = bytes[at++];
        array[which[place]] += (byte & 0x7f) * scale;
        if (byte & 0x80) which[more++] = which[place];
      }
      count = more;
    }
    return array;
  };
}

/** Fills an array with values that are told as ranks among those that their keys had before, the last first, from 1. */
function recall(next, keys, values) {
  const ranks = next(new Uint32Array(keys.length));
  const fresh = next(new Uint32Array(ranks.reduce((count, rank) => count + (rank === 0), 0)));
  const known = new Map();
  let used = 0;
  for (let index = 0; index < keys.length; index++) {
    let list = known.get(keys[index]);
    if (!list) known.set(keys[index], (list = []));
    if (ranks[index] === 0) {
      list.push((values[index] = fresh[used++]));
      continue;
    }
    let place = list.length - ranks[index];
    const value = (values[index] = list[place]);
    for (; place < list.length - 1; place++) list[place] = list[place + 1];
    list[place] = value;
  }
  return values;
}

/** Unpacks a run; html_data.rs says how it was packed. Times are in nanoseconds from here on. */
async function unpack(meta, text, tasks, states) {
  const next = columnsOf(await inflate(text));
  const size = meta.slices;
  const unit = meta.unit_ns;
  const perCpu = next(new Uint32Array(meta.cpus));
  const gap = next(new Float64Array(size));
  const end = next(new Float64Array(size));
  const state = next(new Uint16Array(size));
  const begin = new Float64Array(size);
  const cpu = new Uint16Array(size);
  const first = new Uint32Array(meta.cpus + 1);
  for (let row = 0, index = 0; row < meta.cpus; row++) {
    let now = 0;
    for (const last = index + perCpu[row]; index < last; index++) {
      now += gap[index];
      begin[index] = now * unit;
      now += end[index];
      end[index] = now * unit;
      cpu[index] = row;
    }
    first[row + 1] = index;
  }
  const task = recall(next, cpu, new Uint32Array(size));
  const run = { ...meta, states, state, cpu, begin, end, task, wait: new Float64Array(size), from: new Uint16Array(size) };
  run.rows = { cpus: { order: countedUp(size), first }, tasks: byTask(run, tasks) };
  const began = Uint8Array.from(states, ([began]) => began);
  const since = (from) => run.rows.cpus.order.filter((index) => began[state[index]] >= from);
  const told = since(GAVE_WAY + 1);
  const waits = next(new Float64Array(told.length));
  for (let place = 0; place < told.length; place++) run.wait[told[place]] = waits[place] * unit;
  const { order } = run.rows.tasks;
  for (let place = 0; place < size; place++) {
    const index = order[place];
    if (began[state[index]] === GAVE_WAY) run.wait[index] = begin[index] - end[order[place - 1]];
  }
  const woken = since(WOKEN);
  const from = recall(next, woken.map((index) => task[index]), new Uint16Array(woken.length));
  for (let place = 0; place < woken.length; place++) run.from[woken[place]] = from[place];
  const named = since(BY_NAMED_TASK);
  const wakers = next(new Uint32Array(named.length));
  run.named = new Map(Array.from(named, (index, place) => [index, wakers[place]]));
  run.x = { wait: new Float64Array(size), begin: new Float64Array(size), end: new Float64Array(size), max: 1 };
  return run;
}

/** Returns the order by task and then by time. */
function byTask(run, tasks) {
  const first = new Uint32Array(tasks.length + 1);
  for (const task of run.task) first[task + 1]++;
  for (let task = 0; task < tasks.length; task++) first[task + 1] += first[task];
  const order = new Uint32Array(run.slices);
  const place = first.slice();
  for (let index = 0; index < run.slices; index++) order[place[run.task[index]]++] = index;
  for (let task = 0; task < tasks.length; task++) {
    const row = order.subarray(first[task], first[task + 1]);
    // Slices on one CPU are sorted.
    const isSorted = row.every((index, at) => at === 0 || run.begin[row[at - 1]] <= run.begin[index]);
    if (!isSorted) row.sort((a, b) => run.begin[a] - run.begin[b]);
  }
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

/** Returns the task that woke a slice's task; -1 if none did. If it is not named, it is the one that ran there then. */
function wakerTask(run, slice) {
  const began = run.states[run.state[slice]][0];
  if (began < BY_TASK) return -1;
  if (began >= BY_NAMED_TASK) return run.named.get(slice);
  const { first } = run.rows.cpus;
  const time = run.begin[slice] - run.wait[slice];
  let low = first[run.from[slice]];
  let high = first[run.from[slice] + 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (run.begin[middle] > time) high = middle;
    else low = middle + 1;
  }
  return run.task[low - 1];
}

/** Whether something woke the slice's task, instead of that it gave way or began. */
function isWoken(run, slice) {
  return run.states[run.state[slice]][0] >= WOKEN;
}

/** Returns what made a slice's task runnable, in words; empty if the task only gave way before. */
function wakerOf(run, slice, tasks) {
  const began = run.states[run.state[slice]][0];
  if (began < BY_TASK) return WAKERS[began];
  return nameOf(wakerTask(run, slice), tasks) + ((began - BY_TASK) & 1 ? " (its parent)" : "");
}

function nameOf(task, tasks) {
  return `${tasks[task].comm} ${task + 1}`;
}

/** Returns a time in words, with up to four digits. */
function timeText(ns) {
  const [divisor, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / divisor).toPrecision(4))} ${unit}`;
}
