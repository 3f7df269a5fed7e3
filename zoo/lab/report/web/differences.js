/* Describes the charts of final values: a line for each arm over lengths or rates, and differences with their intervals. */

/* A plot with a description of its own: a line for each arm, with its range over seeds. */
function plainSpec(plot) {
  const shownLines = plot.lines.filter((line) => line.arm === undefined || isShown(line.arm));
  const look = (line, index) => (line.arm === undefined ? { colour: index, dash: 'solid', label: line.label, name: line.label }
    : { colour: data.arms[line.arm].colour, dash: dashOf(data.arms[line.arm]), label: data.arms[line.arm].label, name: data.arms[line.arm].name });
  const drawn = shownLines.map((line, index) => ({ line, look: look(line, index) }));
  const there = drawn.filter(({ line }) => line.x.length);
  const floors = floorLines(plot.floors, []);
  return {
    title: plot.title, legend: { title: data.legend, entries: drawn.map((one) => one.look) },
    x: { title: plot.x.title, unit: plot.x.unit || '', log: plot.x.log, ticks: plot.x.ticks && plot.x.ticks.map((at) => ({ at, text: String(at) })) },
    y: { title: plot.y.title, log: plot.y.log },
    series: [...floors.series, ...there.map(({ line, look: looks }) => ({ ...looks, arm: line.arm, x: line.x, y: line.mean, dots: true, hover: true,
      spread: line.low && { low: line.low, high: line.high, n: line.n },
      bars: line.low && line.low.map((low, place) => [low, line.high[place]]) }))],
    rules: plot.mark ? [{ x: plot.mark.x, text: plot.mark.text }] : [],
    ends: [...(there.length > 1 ? there.map(({ line, look: looks }) => ({ x: line.x, y: line.mean, label: looks.name, colour: looks.colour,
      arm: line.arm })) : []), ...floors.ends],
  };
}

const reachOf = (row) => Math.max(...[row.low, row.high, row.mean, ...row.points].filter(Number.isFinite).map(Math.abs));

/* Returns how far the axis reaches: rows far beyond most others do not stretch it. */
function axisReach(rows) {
  const reaches = rows.map(reachOf).sort((a, b) => a - b);
  const kept = reaches.findIndex((reach, index) => index + 1 >= reaches.length / 2 && reaches[index + 1] > 4 * reach && reach > 0);
  return kept < 0 ? Infinity : reaches[kept];
}

/* Shows the tables and menus of the chosen baseline. */
function showBaseline() {
  document.querySelectorAll('[data-baseline]').forEach((part) => { part.hidden = Number(part.dataset.baseline) !== state.baseline; });
  document.querySelectorAll('select.baseline').forEach((menu) => {
    menu.value = String(state.baseline);
    menu.onchange = () => { state.baseline = Number(menu.value); showBaseline(); redraw(); };
  });
}

/* Arms keep their colours. Effects of factors have none, because a factor is no arm. Names are in the left margin, and above the intervals
   where the page is narrow; numbers are in the right margin. */
function differencesSpec(found) {
  const rows = found.rows.filter((row) => row.arm === undefined || isShown(row.arm));
  const series = [], marks = [];
  const reach = axisReach(rows);
  const drawn = rows.filter((row) => reachOf(row) <= reach).flatMap((row) => [row.low, row.high, row.mean, ...row.points]).filter(Number.isFinite);
  const [low, high] = [Math.min(0, ...drawn), Math.max(0, ...drawn)];
  const room = 0.06 * (high - low || 1);
  const clipped = reach < Infinity ? [low - room, high + room] : null;
  const above = narrow();
  const nameOf = (row) => (row.arm === undefined ? row.label : data.arms[row.arm].name);
  rows.forEach((row, place) => {
    const colour = row.arm === undefined ? -1 : data.arms[row.arm].colour;
    const label = row.arm === undefined ? row.label : data.arms[row.arm].label;
    series.push({ x: row.points, y: row.points.map(() => place + 0.22), points: true, opacity: 0.45, colour, size: 3.4 });
    if (row.low !== null) series.push({ x: [row.low, row.high], y: [place, place], width: 2.6, colour, dash: 'solid' });
    marks.push({ x: row.mean, y: place, symbol: 'diamond', size: 6, colour, text: `${label}: ${row.text}` });
    if (!clipped) return;
    const ends = [row.low ?? row.mean, row.high ?? row.mean];
    if (ends[0] < clipped[0]) marks.push({ x: clipped[0], y: place, symbol: 'left', colour, text: `${label}: ${row.text}` });
    if (ends[1] > clipped[1]) marks.push({ x: clipped[1], y: place, symbol: 'right', colour, text: `${label}: ${row.text}` });
  });
  const height = above ? 56 : 38;
  return {
    title: found.title, height: (above ? 82 : 98) + height * Math.max(1, rows.length), savedHeight: 126 + 38 * Math.max(1, rows.length), still: true,
    clipped: clipped && 'the axis is cut: where there is an arrow, an interval goes on',
    x: { title: found.title, unit: '', include: 0, grid: true, range: clipped || undefined },
    y: { title: '', range: [above ? -0.85 : -1.1, rows.length - 0.4], down: true, bare: true, names: true,
      ticks: above ? [] : rows.map((row, place) => ({ at: place, text: nameOf(row) })) },
    columns: above ? [] : [0, 1].map((at) => ({ head: found.heads[at], texts: rows.map((row, place) => ({ y: place, text: row.texts[at] })) })), series, marks, rules: [{ x: 0 }],
    notes: above ? rows.map((row, place) => ({ y: place - 0.3, text: `${nameOf(row)}: ${row.text}` })) : [],
    rows: rows.map((row) => `${row.arm === undefined ? row.label : data.arms[row.arm].label}: ${row.text}`),
  };
}
