/* Describes the charts of curves, lengths and differences. Names enter the page as text only. */
const AXES = [
  { key: 'step', name: 'steps', title: 'updates', unit: 'updates' }, { key: 'tokens', name: 'tokens', title: 'tokens', unit: 'tokens' },
  { key: 'flops', name: 'FLOPs', title: 'training FLOPs', unit: 'FLOPs' },
  { key: 'seconds', name: 'seconds', title: 'seconds of training', unit: 's' }];

let data = JSON.parse(document.getElementById('report-data').textContent);
const state = { x: 'step', metric: 0, logX: false, logY: false, late: false, seeds: true, smoothing: 3, minus: -1, hidden: new Set() };

const isNoisy = (metric) => metric.startsWith('train/') && metric !== 'train/learning_rate';
const visible = () => data.arms.filter((arm, index) => !state.hidden.has(index));
const legendOf = (arms) => arms.map((arm) => ({ label: arm.label, colour: arm.colour, dash: dashOf(arm) }));
const dashOf = (arm) => data.dashes[arm.dash % data.dashes.length];
const knowsFlops = () => data.arms.some((arm) => arm.work);

/* Returns the x values of a run's curve or an arm's band. */
function places(curve, work, axis) {
  if (axis !== 'flops') return data.columns[curve.x[['step', 'tokens', 'seconds'].indexOf(axis)]];
  return work ? data.columns[curve.x[0]].map((step) => step * work) : [];
}

/* Centred moving mean over a share of the points. The window shrinks symmetrically at the start, where the curve is steep,
   and is truncated at the end, where it is flat. */
function smooth(values, percent) {
  const half = Math.round(values.length * percent / 200);
  if (!half) return values;
  return values.map((value, index) => {
    const reach = Math.min(half, index);
    const near = values.slice(index - reach, index + reach + 1).filter((item) => item !== null);
    return value === null || !near.length ? null : near.reduce((sum, item) => sum + item, 0) / near.length;
  });
}

function interpolated(xs, ys, at) {
  if (!xs.length || at === null || at < xs[0] || at > xs[xs.length - 1]) return null;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= at) low = middle; else high = middle;
  }
  const share = xs[high] === xs[low] ? 0 : (at - xs[low]) / (xs[high] - xs[low]);
  return ys[low] === null || ys[high] === null ? (share === 0 ? ys[low] : share === 1 ? ys[high] : null) : ys[low] + share * (ys[high] - ys[low]);
}

/* Returns {mean, low, high, x, singles} of an arm, or of its differences from another arm at equal x, seed by seed. */
function lines(arm, index, axis, minus) {
  const band = arm.bands[index];
  const runs = arm.runs.filter((run) => run.curves[index]);
  const bare = (run) => ({ run, x: places(run.curves[index], run.work, axis), y: run.curves[index].value });
  if (minus < 0) {
    const singles = runs.map(bare);
    if (band) return { x: places(band, arm.work, axis), mean: band.mean, low: band.low, high: band.high, singles };
    return { x: null, singles };
  }
  const others = new Map(data.arms[minus].runs.filter((run) => run.curves[index]).map((run) => [run.seed, bare(run)]));
  const singles = runs.filter((run) => others.has(run.seed)).map((run) => {
    const [mine, other] = [bare(run), others.get(run.seed)];
    return { run, x: mine.x, y: mine.x.map((at, place) => {
      const there = interpolated(other.x, other.y, at);
      return there === null || mine.y[place] === null ? null : mine.y[place] - there;
    }) };
  });
  if (singles.length < 2 || !band) return { x: null, singles };
  const x = places(band, arm.work, axis);
  const columns = x.map((at) => singles.map((single) => interpolated(single.x, single.y, at)));
  const over = (reduce) => columns.map((values) => (values.includes(null) ? null : reduce(values)));
  return { x, singles, mean: over((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
    low: over((values) => Math.min(...values)), high: over((values) => Math.max(...values)) };
}

function curveSeries(arm, view, seen, many) {
  const series = [], marks = [];
  const percent = isNoisy(data.metrics[view.metric]) ? view.smoothing : 0;
  const found = lines(arm, view.metric, view.x, view.minus);
  const base = { colour: arm.colour, dash: dashOf(arm), label: arm.label, arm: data.arms.indexOf(arm) };
  const line = (x, y, more) => { series.push({ ...base, x, y, width: many ? 1.3 : 2.1, hover: true, ...more }); seen.push({ x, y }); };
  const alone = !found.mean;
  if (!alone) series.push({ ...base, x: found.x, low: smooth(found.low, percent), high: smooth(found.high, percent), opacity: 0.14 });
  found.singles.forEach(({ run, x, y }) => {
    if (!x.length) return;
    if (percent || (!alone && view.seeds)) {
      series.push({ ...base, dash: 'solid', x, y, width: 1, opacity: percent ? 0.22 : 0.42, faint: true });
    }
    if (alone) line(x, smooth(y, percent), found.singles.length > 1 ? { width: 1.4, label: `${arm.label}, ${run.label}` } : {});
    const last = y.findLastIndex((value) => value !== null);
    if (last >= 0 && (run.state === 'diverged' || run.state === 'failed')) {
      marks.push({ x: x[last], y: y[last], symbol: run.state === 'diverged' ? 'cross' : 'ring', colour: arm.colour, faint: true,
        text: `${arm.label}, ${run.label}: ${run.state}` });
    }
    if (view.minus < 0 && data.metrics[view.metric] === 'train/loss') {
      const steps = data.columns[run.curves[view.metric].x[0]];
      run.spikes.forEach(([step, score]) => {
        const place = interpolated(steps, x, step);
        const value = interpolated(steps, smooth(y, percent), step);
        if (place !== null && value !== null) marks.push({ x: place, y: value, symbol: 'spike', size: 4.5, colour: arm.colour, faint: true,
          text: `${arm.label}, ${run.label}: loss spike at step ${step}` + (score === null ? '' : ` (${score.toFixed(1)} SD)`) });
      });
    }
  });
  if (!alone) {
    line(found.x, smooth(found.mean, percent));
    seen.push({ x: found.x, y: smooth(found.high, percent) }, { x: found.x, y: smooth(found.low, percent) });
  }
  return { series, marks };
}

/* A run that blows up must not flatten all others: the axis of a loss ends a little above the highest start. */
function verticalRange(seen, view) {
  const log = view.logY && view.minus < 0;
  let low = Infinity, high = -Infinity, limit = -Infinity;
  const end = Math.max(0, ...seen.map(({ x }) => x[x.length - 1] || 0));
  seen.forEach(({ x, y }) => {
    const first = y.find((value) => value !== null);
    if (first !== undefined) limit = Math.max(limit, first);
    y.forEach((value, index) => {
      if (value === null || (view.late && x[index] < end / 2) || (log && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
  });
  if (!(low < high)) return {};
  if (view.minus >= 0) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  const cut = data.falling[view.metric] && view.minus < 0 && high > limit + 1.5 * Math.abs(limit - low) && limit > low;
  if (!view.late && !cut) return {};
  const top = cut ? limit : high;
  const room = 0.06 * (top - low);
  return { range: log ? [low / 1.03, top * 1.03] : [low - room, top + room], cut };
}

function curvesSpec(view) {
  const metric = data.metrics[view.metric];
  const axis = AXES.find(({ key }) => key === view.x);
  const seen = [];
  const parts = visible().map((arm, _, arms) => curveSeries(arm, view, seen, arms.length > 12));
  const { range, cut } = verticalRange(seen, view);
  const end = Math.max(0, ...seen.map(({ x }) => x[x.length - 1] || 0));
  const minus = view.minus >= 0 ? `, minus that of ${data.arms[view.minus].label}` : '';
  return {
    title: metric + minus, legend: legendOf(visible()), cut,
    x: { title: axis.title, unit: axis.unit, log: view.logX, tight: true, range: view.late && end ? [end / 2, end * 1.01] : undefined },
    y: { title: (minus ? 'difference in ' : '') + metric + data.units[view.metric], log: view.logY && view.minus < 0, range,
      include: minus ? 0 : undefined },
    series: ['low', 'faint', ''].flatMap((layer) => parts.flatMap(({ series }) => series.filter((one) => (
      layer === 'low' ? one.low : layer === 'faint' ? one.faint && !one.low : !one.faint && !one.low)))),
    marks: parts.flatMap(({ marks }) => marks), rules: minus ? [{ y: 0 }] : [],
  };
}

/* A plot with a description of its own: a line for each arm, with its range over seeds. */
function plainSpec(plot) {
  const shownLines = plot.lines.filter((line) => line.arm === undefined || !state.hidden.has(line.arm));
  const look = (line, index) => (line.arm === undefined ? { colour: index, dash: 'solid', label: line.label }
    : { colour: data.arms[line.arm].colour, dash: dashOf(data.arms[line.arm]), label: data.arms[line.arm].label });
  return {
    title: plot.title, legend: shownLines.map(look),
    x: { title: plot.x.title, unit: plot.x.unit || '', log: plot.x.log, ticks: plot.x.ticks && plot.x.ticks.map((at) => ({ at, text: String(at) })) },
    y: { title: plot.y.title, log: plot.y.log },
    series: shownLines.filter((line) => line.x.length).map((line, index) => ({ ...look(line, index), x: line.x, y: line.mean, dots: true, hover: true,
      bars: line.low && line.low.map((low, place) => [low, line.high[place]]) })),
    rules: plot.mark ? [{ x: plot.mark.x, text: plot.mark.text }] : [],
  };
}

/* The name of each arm is above its interval, so that long names need no left margin. */
function differencesSpec(found) {
  const rows = found.rows.filter((row) => row.arm === undefined || !state.hidden.has(row.arm));
  const series = [], marks = [], notes = [];
  rows.forEach((row, place) => {
    const arm = row.arm === undefined ? { colour: place, label: row.label } : data.arms[row.arm];
    series.push({ x: row.points, y: row.points.map(() => place + 0.2), points: true, opacity: 0.45, colour: arm.colour, size: 3.6 });
    if (row.low !== null) series.push({ x: [row.low, row.high], y: [place, place], width: 2.6, colour: arm.colour, dash: 'solid' });
    marks.push({ x: row.mean, y: place, symbol: 'diamond', size: 6.5, colour: arm.colour, text: `${arm.label}: ${shown(row.mean)}` });
    notes.push({ y: place - 0.28, text: arm.label });
  });
  return {
    title: found.title, height: 74 + 56 * Math.max(1, rows.length), savedHeight: 100 + 48 * Math.max(1, rows.length), still: true,
    x: { title: found.title, unit: '', include: 0, grid: true },
    y: { title: '', range: [-0.75, rows.length - 0.45], hidden: true, down: true }, series, marks, notes, rules: [{ x: 0 }],
  };
}
