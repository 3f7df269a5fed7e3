/* Charts as SVG: axes, lines, bands, marks and notes from a plain description. A chart is painted twice, in the colours of the page
   and for a file on white, so every colour is an attribute of its element and no style sheet is needed.

   A description: {title, x, y, series, marks, rules, notes, ends, columns, clipped, legend, image, height}. An axis is {title, log,
   range, ticks}; a series has x, y, or low and high for a band, and {colour, dash, width, opacity, points, label, hover}. `ends` are
   labels at the ends of lines, `columns` {head, texts} in the right margin, and `clipped` says in the plot what it leaves out. Colours are
   indices of the palette. */
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
  left: (size) => `M${-size} 0L${size * 0.7} ${-size}L${size * 0.7} ${size}Z`,
  right: (size) => `M${size} 0L${-size * 0.7} ${-size}L${-size * 0.7} ${size}Z`,
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

/* Draws a legend in rows below the plot, its entries after its title; returns its group and its height. */
function legendNode({ title, entries }, theme, left, width, size) {
  const group = svgNode('g', { 'data-part': 'legend' });
  let [x, y] = [left, 0];
  if (title && entries.length) {
    const text = shorten(title + ':', width, size);
    group.append(svgNode('text', { x, y: y + size * 0.36, 'font-size': size, 'font-weight': 600, fill: theme.ink }, text));
    x += widthOf(text, size, 600) + 14;
  }
  entries.forEach((entry) => {
    const text = shorten(entry.name, width - 44, size);
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

const hasLegend = (spec) => Boolean(spec.legend && spec.legend.entries.length > 1);

/* Returns the room that labels at the ends of lines need; 0 if there is none for them. */
const END_GAP = 16;
function endRoom(spec, width, size) {
  if (!spec.ends || !spec.ends.length || width < 420) return 0;
  return Math.min(width * 0.25, Math.max(...spec.ends.map(({ label }) => widthOf(label, size))) + END_GAP);
}

/* Names lines at their ends, one below the other where they end close together. A line that leaves the plot is named from its
   last point inside. */
function endNodes(spec, room, x, y, box, size, theme) {
  const pace = size + 2;
  const placed = spec.ends.map((end) => {
    const places = end.x.map((at, index) => (at === null || end.y[index] === null ? [NaN, NaN] : [x(at), y(end.y[index])]));
    const inside = places.findLastIndex(([across, down]) => across >= box.left && across <= box.right + 1 && down >= box.top - 1 && down <= box.bottom + 1);
    return inside < 0 ? null : { ...end, from: places[inside] };
  }).filter(Boolean).sort((a, b) => a.from[1] - b.from[1]);
  if (placed.length * pace > box.bottom - box.top) return [];
  placed.forEach((end, index) => { end.at = Math.max(end.from[1], index ? placed[index - 1].at + pace : box.top); });
  placed.reverse().forEach((end, index) => { end.at = Math.min(end.at, index ? placed[index - 1].at - pace : box.bottom); });
  return placed.flatMap(({ from, at, label, colour, arm }) => [
    svgNode('path', { d: `M${from[0].toFixed(1)} ${from[1].toFixed(1)}L${(box.right + 9).toFixed(1)} ${at.toFixed(1)}`, fill: 'none',
      stroke: theme.colour(colour), 'stroke-width': 1, opacity: 0.75, 'stroke-dasharray': from[0] < box.right - 30 ? '2 3' : null, 'data-arm': arm }),
    svgNode('text', { x: box.right + 12, y: at + size * 0.35, fill: theme.ink, 'data-arm': arm, 'data-end': '' }, shorten(label, room - END_GAP + 2, size))]);
}

let painted = 0;

/* Returns {svg, x, y, box}: the picture, its two scales, and the area of the plot in it. */
function paint(spec, width, height, theme, withLegend) {
  const size = width < 480 ? 11 : 12;
  const rangeX = extent(spec, 'x'), rangeY = extent(spec, 'y');
  const ends = endRoom(spec, width, size);
  const columns = width < 560 ? [] : (spec.columns || []).map((column) => ({ ...column,
    width: Math.max(widthOf(column.head, size, 600), ...column.texts.map(({ text }) => widthOf(text, size))) + 16 }));
  const margin = columns.reduce((sum, column) => sum + column.width, 0);
  const box = { left: 12, top: spec.clipped ? 26 : 14, right: width - 14 - (spec.room || 0) - ends - margin, bottom: height - 42 };
  const legend = withLegend && hasLegend(spec) ? legendNode(spec.legend, theme, 0, width - 28, size) : null;
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
  const names = spec.y.names ? { fill: theme.ink } : {};
  ticksY.forEach((tick) => svg.append(text(tick.text, { x: box.left - 8, y: y(tick.at) + size * 0.35, 'text-anchor': 'end', ...names })));
  let edge = width - 14 - margin;
  columns.forEach((column) => {
    edge += column.width;
    svg.append(text(column.head, { x: edge, y: box.top + size, 'text-anchor': 'end', 'font-weight': 600 }),
      ...column.texts.map((line) => text(line.text, { x: edge, y: y(line.y) + size * 0.35, 'text-anchor': 'end', fill: theme.ink,
        style: 'font-variant-numeric: tabular-nums' })));
  });
  if (spec.clipped) svg.append(text(shorten(spec.clipped, width - 28, 11), { x: box.left, y: box.top - 10, 'font-size': 11, 'data-part': 'clipped' }));
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
  // Where no names fit at the ends of lines, floors have theirs on the line.
  if (!ends) spec.series.filter(({ floor, y: values }) => floor && values.length).forEach((line) => {
    const level = y(line.y[0]);
    if (level > box.top + size && level < box.bottom) svg.append(text(line.name, { x: box.left + 4, y: level - 3, 'font-size': 11 }));
  });
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
  if (ends) svg.append(...endNodes(spec, ends, x, y, box, size, theme));
  if (spec.extra) spec.extra(svg, box, theme);
  return { svg, x, y, box };
}
