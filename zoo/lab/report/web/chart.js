/* Charts as SVG: axes, lines, bands, marks and notes from a plain description. A chart is painted twice, in the colours of the page
   and for a file on white, so every colour is an attribute of its element and no style sheet is needed.

   A description: {title, x, y, series, marks, rules, notes, legend, image, height}. An axis is {title, log, range, ticks}; a series has
   x, y, or low and high for a band, and {colour, dash, width, opacity, points, label, hover}. Colours are indices of the palette. */
const SVG = 'http://www.w3.org/2000/svg';
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';
const DASHES = { solid: null, dash: '8 4', dot: '1.5 3.5', dashdot: '8 3 2 3', longdash: '13 4', longdashdot: '13 3 2 3' };
const pen = document.createElement('canvas').getContext('2d');

function svgNode(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  Object.entries(attributes || {}).forEach(([key, value]) => { if (value !== null && value !== undefined) node.setAttribute(key, value); });
  children.forEach((child) => node.append(child));
  return node;
}

function widthOf(text, size, weight) {
  pen.font = `${weight || 400} ${size}px ${FONT}`;
  return pen.measureText(text).width;
}

function shorten(text, room, size) {
  if (widthOf(text, size) <= room) return text;
  let end = text.length;
  while (end > 1 && widthOf(text.slice(0, end) + '…', size) > room) end -= Math.max(1, Math.floor(end / 24));
  return text.slice(0, end) + '…';
}

/* Formats a number for an axis: 1.25 M, 3×10¹⁵, 0.0012. Neighbouring ticks may need more digits. */
const SUPERSCRIPT = { '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' };
const trimmed = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
function shown(value, digits) {
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size >= 1e15 || size < 1e-4) {
    const power = Math.floor(Math.log10(size) + 1e-9);
    const factor = trimmed((value / 10 ** power).toFixed(Math.max(0, (digits || 3) - 1)));
    const raised = '10' + [...String(power)].map((sign) => SUPERSCRIPT[sign]).join('');
    return (factor === '1' ? raised : factor === '-1' ? '−' + raised : `${factor}×${raised}`).replace('-', '−');
  }
  const [power, letter] = [[1e12, ' T'], [1e9, ' G'], [1e6, ' M'], [1e3, ' k']].find(([limit]) => size >= limit && size >= 1e4) || [1, ''];
  return (trimmed(Number((value / power).toPrecision(digits || 4)).toLocaleString('en', { maximumFractionDigits: 10, useGrouping: false })) +
    letter).replace('-', '−');
}

function ticksOf(axis, low, high, room) {
  if (axis.ticks) return axis.ticks.filter((tick) => tick.at >= low && tick.at <= high);
  if (axis.log) {
    const [first, last] = [Math.log10(low), Math.log10(high)];
    if (last - first >= 1.2) {
      const found = [];
      const every = Math.max(1, Math.ceil((last - first) / Math.max(2, room)));
      for (let power = Math.ceil(first - 1e-9); power <= last + 1e-9; power += every) found.push(10 ** power);
      if (last - first < 3) [2, 5].forEach((factor) => {
        for (let power = Math.floor(first); power <= last; power += 1) found.push(factor * 10 ** power);
      });
      return found.filter((at) => at >= low * 0.999 && at <= high * 1.001).sort((a, b) => a - b).map((at) => ({ at, text: shown(at) }));
    }
  }
  const raw = (high - low) / Math.max(1, room);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((size) => size >= raw * 0.999);
  const digits = Math.max(1, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step) + 2));
  const found = [];
  for (let index = Math.ceil(low / step - 1e-6); index * step <= high + step * 1e-6; index += 1) {
    const at = Math.abs(index) < 1e-9 ? 0 : index * step;
    found.push({ at, text: shown(Number(at.toPrecision(12)), digits) });
  }
  const places = found.map(({ text }) => (text.split('.')[1] || '').length);
  const maxPlaces = Math.max(0, ...places);
  if (maxPlaces && found.every(({ text }) => /^−?[\d.]+$/.test(text))) {
    found.forEach((tick, index) => { tick.text += (places[index] ? '' : '.') + '0'.repeat(maxPlaces - places[index]); });
  }
  return found;
}

function extent(spec, name) {
  const axis = spec[name];
  if (axis.range) return axis.range;
  let low = Infinity, high = -Infinity;
  const see = (value) => {
    if (value === null || value === undefined || (axis.log && value <= 0)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  spec.series.forEach((series) => {
    if (series.faint) return;
    (name === 'x' ? [series.x] : [series.y, series.low, series.high]).forEach((values) => values && values.forEach(see));
  });
  (spec.marks || []).forEach((mark) => { if (!mark.faint) see(mark[name]); });
  if (axis.include !== undefined) see(axis.include);
  if (!(low <= high)) return axis.log ? [1, 10] : [0, 1];
  if (axis.log) {
    const factor = low === high ? 2 : (high / low) ** (axis.tight ? 0.005 : 0.04);
    return [low / factor, high * factor];
  }
  const room = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * (axis.tight ? 0.012 : 0.05);
  return [axis.tight && low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

function scaleOf(axis, [low, high], start, end) {
  const to = axis.log ? Math.log10 : (value) => value;
  const from = axis.log ? (value) => 10 ** value : (value) => value;
  const [a, b] = [to(low), to(high)];
  const scale = (value) => start + (to(value) - a) / (b - a || 1) * (end - start);
  scale.invert = (place) => from(a + (place - start) / (end - start) * (b - a));
  scale.range = [low, high];
  return scale;
}

function pathOf(xs, ys, x, y, logX, logY) {
  let path = '', drawing = false;
  for (let index = 0; index < xs.length; index += 1) {
    const [a, b] = [xs[index], ys[index]];
    if (a === null || b === null || a === undefined || b === undefined || (logX && a <= 0) || (logY && b <= 0)) { drawing = false; continue; }
    path += `${drawing ? 'L' : 'M'}${x(a).toFixed(1)} ${y(b).toFixed(1)}`;
    drawing = true;
  }
  return path;
}

function bandPath(series, x, y, logX, logY) {
  // One closed shape per stretch without gaps.
  let path = '', stretch = [];
  const close = () => {
    if (stretch.length) {
      const there = stretch.map((index) => `${x(series.x[index]).toFixed(1)} ${y(series.high[index]).toFixed(1)}`);
      const back = stretch.reverse().map((index) => `${x(series.x[index]).toFixed(1)} ${y(series.low[index]).toFixed(1)}`);
      path += `M${[...there, ...back].join('L')}Z`;
    }
    stretch = [];
  };
  series.x.forEach((value, index) => {
    const [low, high] = [series.low[index], series.high[index]];
    if (value === null || low === null || high === null || (logX && value <= 0) || (logY && low <= 0)) close();
    else stretch.push(index);
  });
  close();
  return path;
}

const SYMBOLS = {
  cross: (size) => `M${-size} ${-size}L${size} ${size}M${-size} ${size}L${size} ${-size}`,
  ring: (size) => `M${-size} 0A${size} ${size} 0 1 0 ${size} 0A${size} ${size} 0 1 0 ${-size} 0Z`,
  dot: (size) => `M${-size} 0A${size} ${size} 0 1 0 ${size} 0A${size} ${size} 0 1 0 ${-size} 0Z`,
  diamond: (size) => `M0 ${-size}L${size} 0L0 ${size}L${-size} 0Z`,
  spike: (size) => `M0 ${-size}L${size * 0.9} ${size * 0.7}L${-size * 0.9} ${size * 0.7}Z`,
};

function symbolNode(mark, x, y, colour, theme) {
  const hollow = mark.symbol === 'cross' || mark.symbol === 'ring';
  const node = svgNode('path', {
    d: SYMBOLS[mark.symbol](mark.size || 5), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, opacity: mark.opacity,
    fill: hollow ? 'none' : colour, stroke: hollow ? colour : theme.paper, 'stroke-width': hollow ? 2 : 1 });
  if (mark.text) node.append(svgNode('title', {}, mark.text));
  return node;
}

/* Draws a legend in rows below the plot; returns its group and its height. */
function legendNode(entries, theme, left, width, size) {
  const group = svgNode('g', { 'data-part': 'legend' });
  let [x, y] = [left, 0];
  entries.forEach((entry) => {
    const text = shorten(entry.label, width - 44, size);
    const room = 40 + widthOf(text, size) + 18;
    if (x > left && x + room > left + width) { x = left; y += size + 8; }
    group.append(
      svgNode('line', { x1: x, x2: x + 32, y1: y, y2: y, stroke: theme.colour(entry.colour), 'stroke-width': 2.4,
        'stroke-dasharray': DASHES[entry.dash] }),
      svgNode('text', { x: x + 39, y: y + size * 0.36, 'font-size': size, fill: theme.ink }, text));
    x += room;
  });
  return { group, height: entries.length ? y + size + 8 : 0 };
}

let painted = 0;

/* Returns {svg, x, y, box}: the picture, its two scales, and the area of the plot in it. */
function paint(spec, width, height, theme, withLegend) {
  const size = width < 480 ? 11 : 12;
  const rangeX = extent(spec, 'x'), rangeY = extent(spec, 'y');
  const box = { left: 12, top: 14, right: width - 14 - (spec.room || 0), bottom: height - 42 };
  const legend = withLegend && spec.legend && spec.legend.length > 1 ? legendNode(spec.legend, theme, 0, width - 28, size) : null;
  if (legend) box.bottom -= legend.height;
  if (withLegend && spec.title) box.top += 24;
  const ticksY = spec.y.hidden ? [] : ticksOf(spec.y, ...rangeY, Math.max(2, Math.round((box.bottom - box.top) / 58)));
  const maxWidth = width * 0.42;
  ticksY.forEach((tick) => { tick.text = shorten(tick.text, maxWidth, size); });
  box.left += Math.max(0, ...ticksY.map((tick) => widthOf(tick.text, size))) + (ticksY.length ? 8 : 0) + (spec.y.title ? size + 10 : 0);
  const ticksX = ticksOf(spec.x, ...rangeX, Math.max(2, Math.round((box.right - box.left) / 105)));
  const x = scaleOf(spec.x, rangeX, box.left, box.right);
  const y = scaleOf(spec.y, rangeY, spec.y.down ? box.top : box.bottom, spec.y.down ? box.bottom : box.top);
  const svg = svgNode('svg', { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, 'font-family': FONT, 'font-size': size });
  const text = (content, attributes) => svgNode('text', { fill: theme.soft, ...attributes }, content);
  if (withLegend) svg.append(svgNode('rect', { width, height, fill: theme.paper }));
  if (withLegend && spec.title) svg.append(text(shorten(spec.title, width - 28, 14), {
    x: 14, y: 22, fill: theme.ink, 'font-size': 14, 'font-weight': 600 }));
  const clip = `clip-${painted += 1}`;
  svg.append(svgNode('defs', {}, svgNode('clipPath', { id: clip }, svgNode('rect', {
    x: box.left, y: box.top - 1, width: Math.max(1, box.right - box.left), height: Math.max(1, box.bottom - box.top + 2) }))));
  const grid = svgNode('g', { 'stroke-width': 1, 'shape-rendering': 'crispEdges' });
  if (!spec.y.bare) ticksY.forEach((tick) => grid.append(svgNode('line', {
    x1: box.left, x2: box.right, y1: y(tick.at), y2: y(tick.at), stroke: theme.grid })));
  ticksX.forEach((tick) => grid.append(svgNode('line', {
    x1: x(tick.at), x2: x(tick.at), y1: spec.x.grid ? box.top : box.bottom, y2: box.bottom + 4,
    stroke: spec.x.grid ? theme.grid : theme.line })));
  grid.append(svgNode('line', { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, stroke: theme.line }));
  svg.append(grid);
  ticksY.forEach((tick) => svg.append(text(tick.text, { x: box.left - 8, y: y(tick.at) + size * 0.35, 'text-anchor': 'end' })));
  let end = -Infinity;
  ticksX.forEach((tick) => {
    const half = widthOf(tick.text, size) / 2;
    const at = Math.min(x(tick.at), width - half - 2);
    if (at - half < end + 8) return;
    end = at + half;
    svg.append(text(tick.text, { x: at, y: box.bottom + size + 7, 'text-anchor': 'middle' }));
  });
  svg.append(text(spec.x.title, { x: (box.left + box.right) / 2, y: box.bottom + 2 * size + 13, 'text-anchor': 'middle' }));
  if (spec.y.title) {
    const middle = (box.top + box.bottom) / 2;
    svg.append(text(shorten(spec.y.title, box.bottom - box.top + 20, size), {
      x: 12, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 12 ${middle})`, dy: size * 0.35 }));
  }
  const inside = svgNode('g', { 'clip-path': `url(#${clip})`, fill: 'none', 'stroke-linejoin': 'round', 'data-part': 'data' });
  if (spec.image) inside.append(spec.image(x, y, box));
  (spec.rules || []).forEach((rule) => {
    const place = rule.x === undefined ? { x1: box.left, x2: box.right, y1: y(rule.y), y2: y(rule.y) }
      : { x1: x(rule.x), x2: x(rule.x), y1: box.top, y2: box.bottom };
    inside.append(svgNode('line', { ...place, stroke: theme.soft, 'stroke-width': 1, 'stroke-dasharray': '4 4' }));
    if (rule.text) svg.append(text(rule.text, { x: Math.min(x(rule.x), width - widthOf(rule.text, 11) / 2 - 4), y: box.top - 3,
      'text-anchor': 'middle', 'font-size': 11 }));
  });
  spec.series.forEach((series) => {
    const colour = theme.colour(series.colour);
    if (series.low) {
      inside.append(svgNode('path', { d: bandPath(series, x, y, spec.x.log, spec.y.log), fill: colour, opacity: series.opacity || 0.15,
        'data-arm': series.arm }));
    }
    if (!series.y) return;
    if (!series.points) {
      inside.append(svgNode('path', { d: pathOf(series.x, series.y, x, y, spec.x.log, spec.y.log), stroke: colour,
        'stroke-width': series.width || 2, 'stroke-dasharray': DASHES[series.dash], opacity: series.opacity, 'data-line': '', 'data-arm': series.arm }));
    }
    if (series.points || series.dots || series.y.length === 1) {
      series.x.forEach((at, index) => {
        if (at === null || series.y[index] === null) return;
        inside.append(symbolNode({ symbol: 'dot', size: series.size || 3.4, opacity: series.opacity }, x(at), y(series.y[index]), colour, theme));
      });
    }
    (series.bars || []).forEach(([low, high], index) => inside.append(svgNode('line', {
      x1: x(series.x[index]), x2: x(series.x[index]), y1: y(low), y2: y(high), stroke: colour, 'stroke-width': 1.3 })));
  });
  svg.append(inside);
  (spec.marks || []).forEach((mark) => {
    if ((spec.x.log && mark.x <= 0) || (spec.y.log && mark.y <= 0)) return;
    const [at, level] = [x(mark.x), y(mark.y)];
    if (!(at >= box.left - 1 && at <= box.right + 1)) return;
    // The mark of a run that left the plot is drawn on its edge.
    svg.append(symbolNode(mark, at, Math.max(box.top, Math.min(box.bottom, level)), theme.colour(mark.colour), theme));
  });
  (spec.notes || []).forEach((note) => svg.append(text(shorten(note.text, box.right - box.left, size), {
    x: box.left, y: y(note.y), fill: theme.ink, stroke: theme.paper, 'stroke-width': 4, 'paint-order': 'stroke' })));
  if (legend) {
    legend.group.setAttribute('transform', `translate(14 ${height - legend.height + 12})`);
    svg.append(legend.group);
  }
  if (spec.extra) spec.extra(svg, box, theme);
  return { svg, x, y, box };
}
