/* A chart in the page: as wide as the page, read by pointer or arrow keys, zoomed by dragging, saved as PNG or SVG. */
const SAVED = { width: 760, height: 470, scale: 3 };

function save(content, name, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const fileName = (text) => (document.title + ' ' + text).toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 80) || 'figure';

function savedSvg(spec) {
  const height = spec.savedHeight || SAVED.height;
  const extra = hasLegend(spec) ? legendNode(spec.legend, themes.light, 0, SAVED.width - 28, 12).height : 0;
  return paint(spec, SAVED.width, height + extra, themes.light, true).svg;
}

function saveFigure(spec, kind) {
  const svg = savedSvg(spec);
  const text = '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(svg);
  if (kind === 'svg') return save(text, fileName(spec.title) + '.svg', 'image/svg+xml');
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement('canvas');
    canvas.width = svg.getAttribute('width') * SAVED.scale;
    canvas.height = svg.getAttribute('height') * SAVED.scale;
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, fileName(spec.title) + '.png', 'image/png'), 'image/png');
  };
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
}

function button(label, describes, act) {
  const made = document.createElement('button');
  made.type = 'button';
  made.textContent = label;
  if (describes) made.setAttribute('aria-label', describes);
  made.addEventListener('click', act);
  return made;
}

class Figure {
  /* `onZoom` is called with {x, y}, or null for the whole plot. */
  constructor(holder, height, onZoom) {
    this.holder = holder;
    this.height = height;
    this.onZoom = onZoom || (() => {});
    this.zoom = this.at = null;
    this.picture = document.createElement('div');
    this.picture.className = 'picture';
    this.picture.tabIndex = 0;
    this.picture.setAttribute('role', 'img');
    this.picture.setAttribute('aria-label', holder.dataset.about || 'chart');
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    this.tip.hidden = true;
    this.said = document.createElement('div');
    this.said.className = 'unseen';
    this.said.setAttribute('aria-live', 'polite');
    this.tools = document.createElement('div');
    this.tools.className = 'tools';
    this.back = button('reset', 'show the whole plot', () => this.zoomTo(null));
    this.back.hidden = true;
    this.tools.append(this.back, button('PNG', 'save this figure as PNG', () => saveFigure(this.now(), 'png')),
      button('SVG', 'save this figure as SVG', () => saveFigure(this.now(), 'svg')));
    holder.replaceChildren(this.tools, this.picture, this.tip, this.said);
    this.picture.addEventListener('pointermove', (event) => this.point(event));
    this.picture.addEventListener('pointerleave', () => { if (!this.start) this.unpoint(); });
    this.picture.addEventListener('pointerdown', (event) => this.press(event));
    this.picture.addEventListener('pointerup', (event) => this.release(event));
    this.picture.addEventListener('dblclick', () => this.zoomTo(null));
    this.picture.addEventListener('keydown', (event) => this.key(event));
    this.picture.addEventListener('blur', () => this.unpoint());
    new ResizeObserver(() => { if (this.spec && this.picture.clientWidth !== this.drawn) this.draw(); }).observe(this.picture);
  }

  show(spec) {
    // The zoom is lost if the axis or metric changes.
    const same = !this.spec || ['x', 'y'].every((name) => this.spec[name].title === spec[name].title && this.spec[name].log === spec[name].log);
    this.spec = spec;
    if (same || !this.zoom) this.draw(); else this.zoomTo(null);
  }

  zoomTo(zoom) {
    this.zoom = zoom;
    this.draw();
    this.onZoom(zoom);
  }

  now() {
    if (!this.zoom) return this.spec;
    const { x, y } = this.spec;
    return { ...this.spec, x: { ...x, range: this.zoom.x }, y: { ...y, range: this.zoom.y || y.range } };
  }

  draw() {
    const width = this.picture.clientWidth;
    this.drawn = width;
    if (!width || !this.spec) return;
    this.unpoint();
    this.back.hidden = !this.zoom;
    if (this.spec.empty) {
      this.painted = null;
      this.picture.replaceChildren('No arm is shown: all are hidden or filtered out.');
      return;
    }
    this.painted = paint(this.now(), width, this.spec.height || this.height(), theme(), false);
    this.painted.svg.setAttribute('aria-hidden', 'true');
    this.over = svgNode('g', { 'pointer-events': 'none' });
    this.painted.svg.append(this.over);
    this.picture.replaceChildren(this.painted.svg);
  }

  place(event) {
    const area = this.picture.getBoundingClientRect();
    return [event.clientX - area.left, event.clientY - area.top];
  }

  point(event) {
    if (!this.painted) return;
    const [across, down] = this.place(event);
    const { box } = this.painted;
    if (this.start) return this.stretch(across, down);
    if (across < box.left || across > box.right || down < box.top || down > box.bottom) return this.unpoint();
    this.tell(this.painted.x.invert(across), down, across);
    this.at = null;
  }

  tell(at, down, across) {
    const { x, y, box } = this.painted;
    if (this.spec.tell) return this.label(this.spec.tell(at, y.invert(down)), across, null, []);
    if (this.spec.rows) return this.label(this.spec.rows[Math.round(y.invert(down))] || '', across, null, []);
    const found = [];
    this.spec.series.forEach((series) => {
      if (!series.hover || !series.y || !series.x.length) return;
      const index = nearest(series.x, at);
      const value = series.y[index];
      const place = value === null || value === undefined ? NaN : x(series.x[index]);
      // A line that has no point near here is left out.
      if (!(Math.abs(place - across) < Math.max(24, (box.right - box.left) / series.x.length))) return;
      const end = index === 0 || index === series.x.length - 1;
      found.push({ series, value, index, end, x: series.x[index], aside: Math.abs(place - across), away: Math.abs(y(value) - down) });
    });
    if (!found.length) return this.unpoint();
    const first = found.reduce((a, b) => (b.aside < a.aside ? b : a));
    // A line that ends before this point has nothing to tell here.
    const there = found.filter((one) => !one.end || one.aside < first.aside + 3);
    const close = there.sort((a, b) => a.away - b.away).slice(0, 12).sort((a, b) => b.value - a.value);
    // The line stands at the point that is told, and not at the pointer.
    this.label(shown(first.x, 5) + ' ' + this.spec.x.unit, x(first.x), there.length > 12 ? `and ${there.length - 12} more` : null, close);
  }

  label(head, across, tail, entries) {
    const { x, y, box } = this.painted;
    const line = document.createElement('b');
    line.textContent = head;
    const rows = entries.map(({ series, value, index }) => {
      const row = document.createElement('div');
      const swatch = svgNode('svg', { width: 22, height: 8, 'aria-hidden': 'true' }, svgNode('line', {
        x2: 22, y1: 4, y2: 4, stroke: theme().colour(series.colour), 'stroke-width': 2.4, 'stroke-dasharray': DASHES[series.dash] }));
      const number = document.createElement('span');
      number.className = 'figure-value';
      number.textContent = shown(value, 5);
      row.append(swatch, number, ' ', series.label);
      const { low, high, n } = series.spread || {};
      if (n > 1 && Number.isFinite(low[index]) && Number.isFinite(high[index])) {
        const about = document.createElement('small');
        about.textContent = ` ${shown(low[index], 4)} to ${shown(high[index], 4)}, n = ${n}`;
        row.append(about);
      }
      return row;
    });
    this.tip.replaceChildren(line, ...rows, ...(tail ? [tail] : []));
    this.tip.hidden = false;
    const room = this.picture.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, Math.min(room, across > this.picture.clientWidth / 2 ? across - this.tip.offsetWidth - 16 : across + 16)) + 'px';
    this.tip.style.top = box.top + this.picture.offsetTop + 4 + 'px';
    this.over.replaceChildren(svgNode('line', { x1: across, x2: across, y1: box.top, y2: box.bottom, stroke: theme().soft, 'stroke-width': 1 }),
      ...entries.map((entry) => symbolNode({ symbol: 'dot', size: 4 }, x(entry.x), Math.max(box.top, Math.min(box.bottom, y(entry.value))),
        theme().colour(entry.series.colour), theme())));
  }

  unpoint() {
    this.tip.hidden = true;
    this.at = null;
    if (this.over) this.over.replaceChildren();
  }

  press(event) {
    if (event.pointerType === 'touch' || event.button || !this.painted || this.spec.still) return;
    const [across, down] = this.place(event);
    const { box } = this.painted;
    if (across < box.left || across > box.right || down > box.bottom) return;
    this.start = [across, down];
    this.picture.setPointerCapture(event.pointerId);
  }

  stretch(across, down) {
    const { box } = this.painted;
    const [left, right] = [Math.max(box.left, Math.min(this.start[0], across)), Math.min(box.right, Math.max(this.start[0], across))];
    const flat = Math.abs(down - this.start[1]) < 14;
    const [top, bottom] = flat ? [box.top, box.bottom]
      : [Math.max(box.top, Math.min(this.start[1], down)), Math.min(box.bottom, Math.max(this.start[1], down))];
    this.wanted = { left, right, top, bottom, flat };
    this.tip.hidden = true;
    this.over.replaceChildren(svgNode('rect', { x: left, y: top, width: Math.max(0, right - left), height: Math.max(0, bottom - top),
      fill: theme().soft, opacity: 0.18 }));
  }

  release() {
    const wanted = this.wanted;
    this.start = this.wanted = null;
    if (!wanted || wanted.right - wanted.left < 8) return;
    const { x, y } = this.painted;
    this.zoomTo({ x: [x.invert(wanted.left), x.invert(wanted.right)],
      y: wanted.flat ? [...y.range] : [y.invert(wanted.bottom), y.invert(wanted.top)].sort((a, b) => a - b) });
  }

  key(event) {
    if (!this.painted) return;
    const { x, box } = this.painted;
    if (event.key === 'Escape') return this.zoomTo(null);
    if ((event.key === '+' || event.key === '-') && !this.spec.still) {
      const middle = this.at === null ? (box.left + box.right) / 2 : this.at;
      const factor = event.key === '+' ? 0.5 : 2;
      const ends = [middle - (middle - box.left) * factor, middle + (box.right - middle) * factor];
      return this.zoomTo({ x: ends.map(x.invert), y: [...this.painted.y.range] });
    }
    const pace = { ArrowLeft: -1, ArrowRight: 1, ...(this.spec.rows ? { ArrowUp: -1, ArrowDown: 1 } : {}) }[event.key];
    if (!pace) return;
    event.preventDefault();
    this.move(pace * (event.shiftKey ? 10 : 1));
  }

  /* Returns the places to read at, in pixels: the rows of a list, or every point of a line that is shown. */
  stops() {
    const { x, y, box } = this.painted;
    if (this.spec.rows) return this.spec.rows.map((_, place) => y(place));
    const wanted = this.spec.stops || this.spec.series.filter((series) => series.hover && series.y).flatMap((series) => (
      series.x.filter((at, index) => at !== null && series.y[index] !== null)));
    const places = wanted.map((at) => x(at)).filter((at) => at >= box.left - 0.5 && at <= box.right + 0.5).sort((a, b) => a - b);
    return places.filter((at, index) => !index || at - places[index - 1] > 0.5);
  }

  /* Reads the next point, and none twice. */
  move(pace) {
    const stops = this.stops();
    if (!stops.length) return;
    const { x, y, box } = this.painted;
    const past = this.at === null ? -1 : stops.findIndex((stop) => stop > this.at - 0.3);
    const from = this.at === null ? (pace > 0 ? -1 : stops.length) : past < 0 ? stops.length : past;
    const at = stops[Math.max(0, Math.min(stops.length - 1, from + pace))];
    if (this.spec.rows) this.tell(0, at, (box.left + box.right) / 2); else this.tell(x.invert(at), (box.top + box.bottom) / 2, at);
    this.at = at;
    this.said.textContent = this.tip.hidden ? '' : this.tip.innerText;
  }
}

function nearest(values, at) {
  let low = 0, high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= at) low = middle; else high = middle;
  }
  return Math.abs(values[low] - at) <= Math.abs(values[high] - at) ? low : high;
}
