/* Layer statistics of runs as heat maps: a row for each part of the model, a column for each step. */
const SHADES = ['#440154', '#482878', '#3e4a89', '#31688e', '#26828e', '#1f9e89', '#35b779', '#6dcd59', '#b4de2c', '#fde725'].map(
  (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

function shade(share) {
  const at = Math.max(0, Math.min(1, share)) * (SHADES.length - 1);
  const low = Math.min(SHADES.length - 2, Math.floor(at));
  return 'rgb(' + SHADES[low].map((value, index) => Math.round(value + (at - low) * (SHADES[low + 1][index] - value))).join(',') + ')';
}

/* Decodes 16-bit codes between the lowest and the highest value; the last code is a missing value. */
function decoded(packed) {
  const bytes = Uint8Array.from(atob(packed.codes), (sign) => sign.charCodeAt(0));
  const codes = new Uint16Array(bytes.length / 2).map((_, index) => bytes[2 * index] + 256 * bytes[2 * index + 1]);
  const value = (code) => packed.low + code / 65534 * (packed.high - packed.low);
  const values = Array.from(codes, (code) => (code === 65535 ? null : packed.log ? 10 ** value(code) : value(code)));
  return packed.rows.map((_, row) => values.slice(row * packed.steps.length, (row + 1) * packed.steps.length));
}

const heatState = { statistic: 0, runs: [] };

/* Returns the selection by name, because a newer page may have other indices. */
function heatChoice() {
  if (!data.dynamics) return null;
  return { statistic: data.dynamics.statistics[heatState.statistic], runs: heatState.runs.map((index) => (data.dynamics.runs[index] || {}).label) };
}

function chooseHeat(before) {
  if (!before || !data.dynamics) return;
  heatState.statistic = Math.max(0, data.dynamics.statistics.indexOf(before.statistic));
  heatState.runs = before.runs.map((label) => data.dynamics.runs.findIndex((run) => run.label === label));
}

function heatSpec(statistic, run, low, high, log) {
  const packed = run.statistics[statistic];
  const values = decoded(packed);
  const [rows, columns] = [packed.rows.length, packed.steps.length];
  // Below the 1st percentile there may be zeros, and by rounding negative values.
  const share = (value) => (high === low ? 0.5 : !log ? (value - low) / (high - low) : value > 0 ? Math.log(value / low) / Math.log(high / low) : 0);
  const height = Math.max(150, Math.min(640, 76 + 17 * rows));
  const every = Math.max(1, Math.ceil(rows * 13 / (height - 56)));
  const canvas = document.createElement('canvas');
  const cell = [Math.max(2, Math.round(800 / columns)), Math.max(2, Math.round(480 / rows))];
  [canvas.width, canvas.height] = [columns * cell[0], rows * cell[1]];
  const brush = canvas.getContext('2d');
  values.forEach((line, row) => line.forEach((value, column) => {
    if (value === null) return;
    brush.fillStyle = shade(share(value));
    brush.fillRect(column * cell[0], row * cell[1], ...cell);
  }));
  const picture = canvas.toDataURL();
  const strip = document.createElement('canvas');
  [strip.width, strip.height] = [1, 128];
  for (let at = 0; at < 128; at += 1) {
    const ink = strip.getContext('2d');
    ink.fillStyle = shade(1 - at / 127);
    ink.fillRect(0, at, 1, 1);
  }
  const many = Math.max(1, Math.ceil(columns / 7));
  return {
    title: `${statistic}, ${run.label}`, height, savedHeight: height + 30, still: true, room: 66,
    x: { title: 'updates', unit: 'updates', range: [0, columns],
      ticks: packed.steps.map((step, index) => ({ at: index + 0.5, text: shown(step, 5) })).filter((_, index) => index % many === 0) },
    y: { title: '', range: [0, rows], down: true, bare: true,
      ticks: packed.rows.map((text, index) => ({ at: index + 0.5, text })).filter((_, index) => index % every === 0) },
    series: [], stops: packed.steps.map((_, index) => index + 0.5),
    image: (x, y, box) => svgNode('image', { href: picture, x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top,
      preserveAspectRatio: 'none', 'image-rendering': 'optimizeSpeed' }),
    extra: (svg, box, ink) => {
      svg.append(svgNode('image', { href: strip.toDataURL(), x: box.right + 12, y: box.top, width: 10, height: box.bottom - box.top,
        preserveAspectRatio: 'none' }));
      [[high, box.top + 9], [log ? Math.sqrt(low * high) : (low + high) / 2, (box.top + box.bottom) / 2 + 4], [low, box.bottom]].forEach(
        ([value, y]) => svg.append(svgNode('text', { x: box.right + 26, y, fill: ink.soft, 'font-size': 11 }, shown(value, 3))));
    },
    tell: (at, level) => {
      const [column, row] = [Math.floor(at), Math.floor(level)];
      if (!(values[row] && column in values[row])) return '';
      return `${packed.rows[row]}, update ${packed.steps[column]}: ${values[row][column] === null ? 'no value' : shown(values[row][column], 4)}`;
    },
  };
}

function drawHeat() {
  const box = document.getElementById('dynamics-maps');
  if (!box || !data.dynamics) return;
  const statistic = data.dynamics.statistics[heatState.statistic];
  const runs = heatState.runs.map((index) => data.dynamics.runs[index]).filter((run) => run && run.statistics[statistic]);
  // Maps next to each other share one scale.
  const all = runs.flatMap((run) => decoded(run.statistics[statistic]).flat()).filter((value) => value !== null).sort((a, b) => a - b);
  // A single outlier must not use up the colours.
  const [low, high] = [all[Math.floor(all.length * 0.01)], all[Math.ceil(all.length * 0.99) - 1]];
  const log = low > 0 && high / low > 50;
  box.replaceChildren();
  if (!all.length) box.textContent = 'No selected run has this statistic.';
  (all.length ? runs : []).forEach((run) => {
    const [title, holder] = [document.createElement('h3'), document.createElement('div')];
    title.textContent = run.label;
    holder.className = 'plot';
    holder.dataset.about = `${statistic} of ${run.label}, by part of the model and update`;
    box.append(title, holder);
    new Figure(holder, () => 300).show(heatSpec(statistic, run, low, high, log));
  });
}

function buildHeat() {
  if (!document.getElementById('dynamics-maps') || !data.dynamics) return;
  const arms = [...new Map(data.dynamics.runs.map((run, index) => [run.arm, index]).reverse()).values()].sort((a, b) => a - b);
  if (!heatState.runs.length) heatState.runs = arms.slice(0, 2);
  choice('dynamics-statistic', data.dynamics.statistics.map((name) => name.replaceAll('_', ' ')), heatState.statistic, (index) => {
    heatState.statistic = index;
    drawHeat();
  });
  const box = document.getElementById('dynamics-runs');
  box.replaceChildren(...[0, 1].map((place) => {
    const [label, select] = [document.createElement('label'), document.createElement('select')];
    label.append(place ? 'next to ' : 'run ', select);
    const names = data.dynamics.runs.map((run, index) => new Option(run.label, index));
    select.append(...(place ? [new Option('none', -1)] : []), ...names);
    select.value = String(heatState.runs[place] ?? -1);
    select.addEventListener('change', () => { heatState.runs[place] = Number(select.value); drawHeat(); });
    return label;
  }));
  drawHeat();
}
