// SPDX-License-Identifier: GPL-2.0-or-later
// The timeline: two runs under each other, and what the user does with them.
//
// One view (axis, rows, range, pinned task) is shared by both panels, so that they show the same part of the work. The
// page has the runs as JSON in #runs, and the slices of run n in #slices-n.

const WORST = 10;
const ZOOM = 1.25;
/** Frames of a measurement, which the address ending in #measure asks for. */
const FRAMES = 60;

const byId = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Makes the view: what both panels show. Tasks of one name have one colour; the largest names have their own. */
function makeView(data) {
  const tasks = data.tasks.map(([comm, judged]) => ({ comm: data.comms[comm], judged: judged === 1, colour: comm }));
  const view = { tasks, axis: "work", isTasks: false, x0: 0, x1: 1, max: 1, pinned: null, lines: [], palette: palette() };
  const colour = (task) => Math.min(tasks[task].colour, view.palette.tasks.length - 1);
  return Object.assign(view, {
    rows: (run) => (view.isTasks ? run.rows.tasks : run.rows.cpus),
    rowCount: (run) => (view.isTasks ? view.lines.length : run.cpus),
    rowAt: (line) => (view.isTasks ? view.lines[line] : line),
    rowName: (line) => (view.isTasks ? nameOf(view.lines[line], tasks) : `CPU ${line}`),
    lineOf: (row) => (view.isTasks ? view.lines.indexOf(row) : row),
    pixelOf: (task) => view.palette.pixels[colour(task)],
  });
}

/** Returns the tasks that ran in any of the runs: those of the service first. */
function tasksThatRan(runs, tasks) {
  const ran = (task) => runs.some(({ rows: { tasks: { first } } }) => first[task + 1] > first[task]);
  const all = [...tasks.keys()].filter(ran);
  return all.filter((task) => tasks[task].judged).concat(all.filter((task) => !tasks[task].judged));
}

/** Returns what the tip says about a slice. */
function describe(run, slice, view) {
  const wait = run.wait[slice];
  const waker = wakerOf(run, slice, view.tasks);
  const [, reason, left] = run.states[run.state[slice]];
  const lines = [
    `${nameOf(run.task[slice], view.tasks)} on CPU ${run.cpu[slice]}`,
    `ran ${timeText(run.end[slice] - run.begin[slice])} from ${timeText(run.begin[slice])} on; then ` +
      ["it gave way", "it waited", "it ended", "the run ended"][left],
    waker ? `woken by ${waker} on CPU ${run.from[slice]}, ${timeText(wait)} before` : `runnable for ${timeText(wait)} before`,
  ];
  if (reason) lines.push(`CPU chosen because: ${reason}`);
  return lines.join("\n");
}

class Timeline {
  constructor(data, runs) {
    this.data = data;
    this.runs = runs;
    this.view = makeView(data);
    this.view.lines = tasksThatRan(runs, this.view.tasks);
    this.panels = ["upper", "lower"].filter((id) => byId(id)).map((id) => new Panel(byId(id), this.view));
    this.panels.forEach((panel, index) => {
      const choice = byId(`${panel.canvas.id}-run`);
      choice.value = String(index);
      panel.run = runs[index];
      choice.addEventListener("change", () => {
        panel.run = runs[Number(choice.value)];
        this.showWorst();
        this.setAxis(this.view.axis);
      });
      this.listen(panel);
    });
    for (const input of document.querySelectorAll(".controls input")) {
      input.addEventListener("change", () => this.set(input.name, input.value));
    }
    byId("whole").addEventListener("click", () => this.zoomTo(0, this.view.max));
    dark.addEventListener("change", () => this.recolour());
    addEventListener("resize", () => this.draw());
    this.showNames();
    this.showWorst();
    this.setAxis("work");
  }

  set(name, value) {
    if (name === "axis") return this.setAxis(value);
    this.view.isTasks = value === "tasks";
    this.panels.forEach((panel) => (panel.top = 0));
    this.draw();
  }

  /** Changes the axis, and shows everything. */
  setAxis(axis) {
    this.view.axis = axis;
    const shown = this.panels.map((panel) => panel.run);
    shown.forEach((run) => {
      if (run.placed !== axis) place(run, axis, this.view.tasks);
      run.placed = axis;
    });
    this.view.max = Math.max(...shown.map((run) => run.x.max), 1e-9);
    this.zoomTo(0, this.view.max);
  }

  recolour() {
    this.view.palette = palette();
    this.showNames();
    this.draw();
  }

  /** Says which colour is which name. */
  showNames() {
    const { tasks, wait } = this.view.palette;
    const { comms } = this.data;
    const own = tasks.slice(0, -1).map((colour, index) => [comms[index], colour]).filter(([name]) => name !== undefined);
    if (comms.length >= tasks.length) own.push(["other names", tasks.at(-1)]);
    own.push(["waits for a CPU (in rows of tasks)", wait]);
    byId("names").replaceChildren(...own.map(([name, colour]) => {
      const entry = document.createElement("span");
      const mark = document.createElement("i");
      mark.style.background = colour;
      entry.append(mark, name);
      return entry;
    }));
  }

  zoomTo(x0, x1) {
    const { view } = this;
    const span = Math.min(Math.max(x1 - x0, view.max * 1e-9), view.max);
    view.x0 = Math.min(Math.max(x0, 0), view.max - span);
    view.x1 = view.x0 + span;
    this.draw();
  }

  zoom(factor, x) {
    const { x0, x1 } = this.view;
    this.zoomTo(x - (x - x0) * factor, x + (x1 - x) * factor);
  }

  pan(part) {
    const step = (this.view.x1 - this.view.x0) * part;
    this.zoomTo(this.view.x0 + step, this.view.x1 + step);
  }

  pin(task) {
    this.view.pinned = this.view.pinned === task ? null : task;
    this.draw();
  }

  /** Draws at the next frame, however often it is asked before. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    const { view } = this;
    view.key = [view.axis, view.isTasks, view.max, dark.matches].join();
    this.panels.forEach((panel) => panel.draw());
  }

  listen(panel) {
    const { canvas } = panel;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      drag = { x: event.offsetX, y: event.offsetY, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return this.tip(panel, panel.sliceAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
      const rows = Math.trunc((drag.y - event.offsetY) / panel.rowHeight());
      drag.moved ||= Math.abs(event.offsetX - drag.x) + Math.abs(event.offsetY - drag.y) > 3;
      if (!drag.moved) return undefined;
      this.pan((drag.x - event.offsetX) / panel.plotWidth());
      panel.scroll(rows);
      drag.x = event.offsetX;
      drag.y -= rows * panel.rowHeight();
      return undefined;
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        const slice = panel.sliceAt(event.offsetX, event.offsetY);
        this.pin(slice < 0 ? this.view.pinned : panel.run.task[slice]);
      }
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => this.tip(panel, -1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey) panel.scroll(Math.sign(event.deltaY || event.deltaX) * 3);
      else return this.zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, panel.xAt(event.offsetX));
      return this.draw();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(panel, event));
  }

  key(panel, event) {
    const middle = (this.view.x0 + this.view.x1) / 2;
    const actions = {
      ArrowLeft: () => this.pan(-0.1),
      ArrowRight: () => this.pan(0.1),
      ArrowUp: () => panel.scroll(-3),
      ArrowDown: () => panel.scroll(3),
      "+": () => this.zoom(1 / ZOOM, middle),
      "=": () => this.zoom(1 / ZOOM, middle),
      "-": () => this.zoom(ZOOM, middle),
      0: () => this.zoomTo(0, this.view.max),
      Escape: () => this.pin(this.view.pinned),
    };
    if (event.ctrlKey || event.metaKey || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
    this.draw();
  }

  /** Shows what a slice is beside the pointer, or hides it. */
  tip(panel, slice, left = 0, down = 0) {
    const tip = byId(`${panel.canvas.id}-tip`);
    tip.hidden = slice < 0;
    if (slice < 0) return;
    tip.textContent = describe(panel.run, slice, this.view);
    tip.style.left = `${Math.min(left + 14, Math.max(panel.canvas.clientWidth - tip.offsetWidth, 0))}px`;
    tip.style.top = `${down + 16}px`;
  }

  /** Lists the longest waits of the service in both runs; each leads to its place. */
  showWorst() {
    for (const panel of this.panels) {
      const list = byId(`${panel.canvas.id}-worst`);
      const { run, view } = { run: panel.run, view: this.view };
      const items = longestWaits(run, view.tasks, WORST).map((slice) => {
        const button = document.createElement("button");
        button.textContent = `${timeText(run.wait[slice])}: ${nameOf(run.task[slice], view.tasks)} on CPU ` +
          `${run.cpu[slice]}, from ${timeText(run.begin[slice] - run.wait[slice])} on`;
        button.addEventListener("click", () => this.showSlice(panel, slice));
        const item = document.createElement("li");
        item.append(button);
        return item;
      });
      list.replaceChildren(...items);
    }
  }

  /** Shows the wait before a slice, in the middle, and pins its task. */
  showSlice(panel, slice) {
    const { run, view } = { run: panel.run, view: this.view };
    view.pinned = run.task[slice];
    const [from, to] = [run.x.wait[slice], Math.max(run.x.begin[slice], run.x.wait[slice] + view.max * 1e-6)];
    this.zoomTo(from - (to - from) * 0.5, to + (to - from) * 0.5);
    this.drawNow();
    panel.scroll(Math.round(panel.middleOf(slice) / panel.rowHeight() - panel.rowsThatFit() / 2));
    this.draw();
    const status = byId("status");
    status.textContent = describe(run, slice, view);
    panel.canvas.focus({ preventScroll: true });
    panel.canvas.scrollIntoView({ block: "nearest" });
  }

  /** Returns milliseconds for each frame while the view is panned at a tenth of the whole width. */
  measure() {
    const { max } = this.view;
    this.zoomTo(0, max / 10);
    this.drawNow();
    const begin = performance.now();
    for (let frame = 0; frame < FRAMES; frame++) {
      this.pan(0.15);
      this.drawNow();
      // Reading a pixel back makes the browser finish the frame.
      this.panels.forEach((panel) => panel.canvas.getContext("2d").getImageData(0, 0, 1, 1));
    }
    return (performance.now() - begin) / FRAMES;
  }
}

async function open() {
  const data = JSON.parse(byId("runs").textContent);
  const tasks = data.tasks.map(([, judged]) => ({ judged: judged === 1 }));
  const runs = await Promise.all(data.runs.map((meta, index) => unpack(meta, byId(`slices-${index}`).textContent, tasks, data.states)));
  const timeline = new Timeline(data, runs);
  timeline.drawNow();
  // For tests and measurements.
  const said = document.body.dataset;
  const sum = (of) => timeline.panels.reduce((total, panel) => total + of(panel), 0);
  said.slices = String(sum(({ run }) => run.slices));
  said.openMs = performance.now().toFixed(0);
  if (location.hash === "#check") {
    said.ranNs = String(sum(({ run }) => run.end.reduce((total, end, index) => total + end - run.begin[index], 0)));
    said.painted = String(sum((panel) => panel.painted()) / timeline.panels.length);
  }
  if (location.hash === "#measure") said.frameMs = timeline.measure().toFixed(2);
}

open().catch((error) => {
  byId("status").textContent = `The timeline cannot be drawn: ${error.message}`;
  document.body.dataset.error = error.message;
});
