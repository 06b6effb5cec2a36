// SPDX-License-Identifier: GPL-2.0-or-later
// Draws a run on a canvas: a row of pixels for each CPU or task, stretched to the height of a row.
//
// Where several slices share a pixel, it has the colour of the longest, as strong as the part of it that is covered. Far
// out, rows come from pictures of the whole run that are made once, so that a frame does not depend on the number of
// slices; closer in, only the slices that are seen are touched.

/** The most pixels of a picture of a whole run, and the columns of the smallest and the largest. */
const PICTURE_PIXELS = 1 << 24;
const PICTURE_COLUMNS = 1 << 10;
const PICTURE_COLUMNS_MAX = 1 << 14;
const GUTTER = 92;
const AXIS = 20;
const ROW_MIN = 2;
const ROW_MAX = 18;
const ARROWS_MAX = 500;
const LABELS_MAX = 4000;

/** Reads the colours of the page as numbers for pictures (0xBBGGRR) and as text for strokes. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const text = (name) => style.getPropertyValue(name).trim();
  const number = (hex) => parseInt(hex.slice(5, 7) + hex.slice(3, 5) + hex.slice(1, 3), 16);
  const tasks = [0, 1, 2, 3, 4, 5].map((index) => text(`--task-${index}`)).concat(text("--other"));
  return {
    tasks,
    pixels: tasks.map(number),
    wait: text("--wait"),
    waitPixel: number(text("--wait")),
    ink: text("--ink"),
    faint: text("--faint"),
    line: text("--line"),
    ground: text("--ground"),
  };
}

/** Fills pixels of the rows from `top` on, with x from `x0` on and `scale` pixels for each unit of x. */
function fill(run, view, pixels, columns, top, count, x0, scale) {
  const { order, first } = view.rows(run);
  const { begin, end, wait } = run.x;
  const cover = new Float32Array(columns);
  const longest = new Float32Array(columns);
  const colour = new Uint32Array(columns);
  const x1 = x0 + columns / scale;
  const add = (from, to, what) => {
    const low = Math.max((from - x0) * scale, 0);
    const high = Math.min((to - x0) * scale, columns);
    for (let column = Math.floor(low); column < high; column++) {
      const part = Math.min(high, column + 1) - Math.max(low, column);
      cover[column] += part;
      if (part > longest[column]) {
        longest[column] = part;
        colour[column] = what;
      }
    }
  };
  for (let line = 0; line < count; line++) {
    const row = view.rowAt(top + line);
    cover.fill(0);
    longest.fill(0);
    for (let place = firstAfter(run, { order, first }, row, x0); place < first[row + 1]; place++) {
      const slice = order[place];
      if ((view.isTasks ? wait : begin)[slice] > x1) break;
      add(begin[slice], end[slice], view.pixelOf(run.task[slice]));
      if (view.isTasks) add(wait[slice], begin[slice], view.palette.waitPixel);
    }
    for (let column = 0; column < columns; column++) {
      if (cover[column] === 0) continue;
      // Even a short slice stays visible.
      const alpha = Math.min(55 + 200 * cover[column], 255) << 24;
      pixels[line * columns + column] = colour[column] | alpha;
    }
  }
}

/** Returns a canvas with `count` rows of pixels. */
function picture(run, view, columns, top, count, x0, scale) {
  const canvas = new OffscreenCanvas(columns, Math.max(count, 1));
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  fill(run, view, new Uint32Array(image.data.buffer), columns, top, count, x0, scale);
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Returns the rows that are seen, as a canvas as wide as the plot. There are pictures of the whole run for several widths,
 * each twice that of the one before; the one that is used has one or two columns for each pixel.
 */
function rowsSeen(run, view, columns, top, count) {
  const scale = columns / (view.x1 - view.x0);
  const all = view.rowCount(run);
  const wide = PICTURE_COLUMNS << Math.max(Math.ceil(Math.log2((scale * view.max) / PICTURE_COLUMNS)), 0);
  if (wide * all > PICTURE_PIXELS || wide > PICTURE_COLUMNS_MAX) {
    return picture(run, view, columns, top, count, view.x0, scale);
  }
  const key = `${view.key},${wide}`;
  run.pictures ??= new Map();
  if (!run.pictures.has(key)) run.pictures.set(key, picture(run, view, wide, 0, all, 0, wide / view.max));
  const canvas = new OffscreenCanvas(columns, Math.max(count, 1));
  const left = (view.x0 / view.max) * wide;
  const width = ((view.x1 - view.x0) / view.max) * wide;
  canvas.getContext("2d").drawImage(run.pictures.get(key), left, top, width, count, 0, 0, columns, count);
  return canvas;
}

/** Returns a step of 1, 2 or 5 times a power of ten, so that `span` has at most `most` of them. */
function niceStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => span / step <= most);
}

/** A canvas with a run. */
class Panel {
  constructor(canvas, view) {
    this.canvas = canvas;
    this.view = view;
    this.top = 0;
    this.run = null;
  }

  /** Height of a row in CSS pixels, so that all rows fit if they can. */
  rowHeight() {
    const fits = (this.canvas.clientHeight - AXIS) / Math.max(this.view.rowCount(this.run), 1);
    return Math.min(Math.max(Math.floor(fits), ROW_MIN), ROW_MAX);
  }

  rowsThatFit() {
    return Math.floor((this.canvas.clientHeight - AXIS) / this.rowHeight());
  }

  scroll(rows) {
    const most = Math.max(this.view.rowCount(this.run) - this.rowsThatFit(), 0);
    this.top = Math.min(Math.max(this.top + rows, 0), most);
  }

  plotWidth() {
    return Math.max(this.canvas.clientWidth - GUTTER, 1);
  }

  xAt(left) {
    return this.view.x0 + ((left - GUTTER) / this.plotWidth()) * (this.view.x1 - this.view.x0);
  }

  leftOf(x) {
    return GUTTER + ((x - this.view.x0) / (this.view.x1 - this.view.x0)) * this.plotWidth();
  }

  /** Returns the slice at a point; -1 if there is none. */
  sliceAt(left, down) {
    const line = Math.floor(down / this.rowHeight()) + this.top;
    if (left < GUTTER || line < 0 || line >= this.view.rowCount(this.run)) return -1;
    const { run, view } = this;
    return sliceAt(run, view.rows(run), view.rowAt(line), this.xAt(left), view.isTasks);
  }

  /** Returns the middle of a slice's row, in pixels from the top; a CPU's row if `cpu` is given. */
  middleOf(slice, cpu = this.run.cpu[slice]) {
    const line = this.view.lineOf(this.view.isTasks ? this.run.task[slice] : cpu);
    return (line - this.top + 0.5) * this.rowHeight();
  }

  draw() {
    const { canvas, run, view } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const rowHeight = this.rowHeight();
    this.scroll(0);
    const count = Math.min(view.rowCount(run) - this.top, Math.ceil((height - AXIS) / rowHeight));
    const columns = Math.round(this.plotWidth() * ratio);
    context.save();
    context.beginPath();
    context.rect(0, 0, width, height - AXIS);
    context.clip();
    context.imageSmoothingEnabled = false;
    const gap = rowHeight >= 6 ? 1 : 0;
    const seen = rowsSeen(run, view, columns, this.top, count);
    context.drawImage(seen, 0, 0, columns, count, GUTTER, 0, this.plotWidth(), count * rowHeight);
    if (gap) {
      for (let line = 1; line <= count; line++) context.clearRect(GUTTER, line * rowHeight - 1, width, 1);
    }
    this.drawNames(context, count, rowHeight);
    this.drawLabels(context, count, rowHeight);
    this.drawPinned(context, rowHeight);
    context.restore();
    this.drawAxis(context, width, height);
  }

  /** Returns the part of the plot that is not ground. */
  painted() {
    const ratio = this.canvas.width / this.canvas.clientWidth;
    const [left, height] = [GUTTER, this.canvas.clientHeight - AXIS].map((length) => Math.round(length * ratio));
    const pixels = this.canvas.getContext("2d").getImageData(left, 0, this.canvas.width - left, height).data;
    let painted = 0;
    for (let alpha = 3; alpha < pixels.length; alpha += 4) painted += pixels[alpha] > 0 ? 1 : 0;
    return painted / (pixels.length / 4);
  }

  drawNames(context, count, rowHeight) {
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = this.view.palette.ink;
    context.textBaseline = "middle";
    const every = Math.ceil(14 / rowHeight);
    for (let line = 0; line < count; line += every) {
      const text = this.view.rowName(this.top + line);
      context.fillText(text, 4, Math.max((line + 0.5) * rowHeight, 6), GUTTER - 8);
    }
  }

  /** Writes the names of tasks into slices that are wide enough. */
  drawLabels(context, count, rowHeight) {
    const { run, view } = this;
    if (rowHeight < 12 || view.isTasks) return;
    const rows = view.rows(run);
    context.fillStyle = "#000";
    let looked = 0;
    for (let line = 0; line < count; line++) {
      const row = view.rowAt(this.top + line);
      for (let place = firstAfter(run, rows, row, view.x0); place < rows.first[row + 1]; place++) {
        const slice = rows.order[place];
        if (run.x.begin[slice] > view.x1 || ++looked > LABELS_MAX) break;
        const left = Math.max(this.leftOf(run.x.begin[slice]), GUTTER);
        const room = Math.min(this.leftOf(run.x.end[slice]), GUTTER + this.plotWidth()) - left;
        if (room > 36) context.fillText(nameOf(run.task[slice], view.tasks), left + 3, (line + 0.5) * rowHeight, room - 6);
      }
    }
  }

  /** Frames the slices of the pinned task, and draws arrows from its wakers. */
  drawPinned(context, rowHeight) {
    const { run, view } = this;
    if (view.pinned === null) return;
    const rows = run.rows.tasks;
    context.strokeStyle = view.palette.ink;
    context.lineWidth = 1.5;
    let arrows = 0;
    for (let place = firstAfter(run, rows, view.pinned, view.x0); place < rows.first[view.pinned + 1]; place++) {
      const slice = rows.order[place];
      if (run.x.wait[slice] > view.x1) break;
      const left = Math.max(this.leftOf(run.x.begin[slice]), GUTTER);
      const right = Math.min(this.leftOf(run.x.end[slice]), GUTTER + this.plotWidth());
      const middle = this.middleOf(slice);
      if (right > left) context.strokeRect(left, middle - rowHeight / 2, Math.max(right - left, 1), rowHeight);
      if (isWoken(run, slice) && ++arrows <= ARROWS_MAX) this.drawArrow(context, slice, left, middle);
    }
  }

  /** Draws the way from the waker, when the wake-up began, to the begin of the slice. */
  drawArrow(context, slice, left, middle) {
    const { run, view } = this;
    let from = this.middleOf(slice, run.from[slice]);
    if (view.isTasks) {
      const task = wakerTask(run, slice);
      if (task < 0) return;
      from = (view.lineOf(task) - this.top + 0.5) * this.rowHeight();
    }
    const start = Math.max(this.leftOf(run.x.wait[slice]), GUTTER);
    context.save();
    context.strokeStyle = view.palette.wait;
    context.fillStyle = view.palette.wait;
    context.beginPath();
    context.moveTo(start, from);
    context.lineTo(left, middle);
    context.stroke();
    context.translate(left, middle);
    context.rotate(Math.atan2(middle - from, left - start));
    context.beginPath();
    context.moveTo(0, 0);
    context.lineTo(-7, -3);
    context.lineTo(-7, 3);
    context.fill();
    context.restore();
  }

  drawAxis(context, width, height) {
    const { view } = this;
    const span = view.x1 - view.x0;
    const step = niceStep(span, Math.max(this.plotWidth() / 110, 1));
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = view.palette.faint;
    context.strokeStyle = view.palette.line;
    context.textBaseline = "alphabetic";
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(GUTTER, height - AXIS + 0.5);
    context.lineTo(width, height - AXIS + 0.5);
    for (let x = Math.ceil(view.x0 / step) * step; x <= view.x1; x += step) {
      const left = this.leftOf(x);
      context.moveTo(left, height - AXIS);
      context.lineTo(left, height - AXIS + 5);
      const text = view.axis === "work" ? `${Number((x * 100).toPrecision(7))} %` : timeText(Math.max(x, 0));
      context.fillText(text, left + 3, height - 5, 100);
    }
    context.stroke();
    context.fillText(view.axis === "work" ? "work done" : "time", 4, height - 5);
  }
}
