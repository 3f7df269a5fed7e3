/* Elements and widths of text, numbers of axes, and scales. */
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
