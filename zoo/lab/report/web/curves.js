/* Describes the charts of curves. Names enter the page as text only. */
const AXES = [
  { key: 'step', name: 'steps', title: 'updates', unit: 'updates' }, { key: 'tokens', name: 'tokens', title: 'tokens', unit: 'tokens' },
  { key: 'flops', name: 'FLOPs', title: 'training FLOPs', unit: 'FLOPs' },
  { key: 'seconds', name: 'seconds', title: 'seconds of training', unit: 's' }];
const BANDS = [['range', 'lowest to highest'], ['interval', 't interval of the mean'], ['none', 'none']];
// Lines before this share of the plot do not stretch the axis of a loss, which falls most at the start.
const START = 0.1;
// Later starts for lines that end close together: the axis spans at most so many times the distance between their ends.
const LATER_STARTS = [0, 0.1, 0.2, 0.35, 0.5];
const MOST_TIMES_APART = 25;

const isNoisy = (metric) => metric.startsWith('train/') && metric !== 'train/learning_rate';
const visible = () => data.arms.filter((arm, index) => isShown(index));
const legendOf = (arms) => ({ title: data.legend, entries: arms.map((arm) => ({ name: arm.name, colour: arm.colour, dash: dashOf(arm) })) });
const dashOf = (arm) => data.dashes[arm.dash % data.dashes.length];
const COLUMNS = ['step', 'tokens', 'seconds', 'flops'];
const knowsFlops = () => data.arms.some((arm) => arm.runs.some((run) => run.curves.some((curve) => curve?.x.length === COLUMNS.length)));

/* Returns the x values of a run's curve or an arm's band; none where they are not known. */
const places = (curve, axis) => data.columns[curve.x[COLUMNS.indexOf(axis)]] ?? [];

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

/* Returns half the width of Student's t interval of a mean of n values. */
const halfWidth = (sd, n) => (n > 1 && sd !== null ? data.quantiles[n] * sd / Math.sqrt(n) : null);

/* Returns {mean, low, high, sd, n, x, singles} of an arm, or of its differences from another arm at equal x, seed by seed. */
function lines(arm, index, axis, minus) {
  const band = arm.bands[index];
  const runs = arm.runs.filter((run) => run.curves[index]);
  const bare = (run) => ({ run, x: places(run.curves[index], axis), y: run.curves[index].value });
  if (minus < 0) {
    const singles = runs.map(bare);
    if (band) return { ...band, x: places(band, axis), singles };
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
  const x = places(band, axis);
  const columns = x.map((at) => singles.map((single) => interpolated(single.x, single.y, at)));
  const over = (reduce) => columns.map((values) => (values.includes(null) ? null : reduce(values)));
  const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const deviation = (values) => Math.sqrt(values.reduce((sum, value) => sum + (value - meanOf(values)) ** 2, 0) / (values.length - 1));
  return { x, singles, n: singles.length, mean: over(meanOf), sd: over(deviation), low: over((values) => Math.min(...values)), high: over((values) => Math.max(...values)) };
}

function curveSeries(arm, view, seen, many) {
  const series = [], marks = [];
  const percent = isNoisy(data.metrics[view.metric]) ? view.smoothing : 0;
  const found = lines(arm, view.metric, view.x, view.minus);
  const base = { colour: arm.colour, dash: dashOf(arm), label: arm.label, arm: data.arms.indexOf(arm) };
  let end = null;
  const line = (x, y, more) => { series.push({ ...base, x, y, width: many ? 1.3 : 2.1, hover: true, ...more }); seen.push({ x, y, main: true }); end = end || { x, y, label: arm.name, colour: arm.colour, arm: base.arm }; };
  const alone = !found.mean;
  const [low, high] = alone ? [] : bounds(found, view.band).map((values) => smooth(values, percent));
  if (!alone && view.band !== 'none') {
    // With two seeds a t interval may be wider than the plot, and does not stretch it.
    series.push({ ...base, x: found.x, low, high, opacity: 0.14, faint: view.band === 'interval' });
  }
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
    line(found.x, smooth(found.mean, percent), { spread: { low, high, n: found.n } });
    ['high', 'low'].forEach((side) => seen.push({ x: found.x, y: smooth(found[side], percent) }));
  }
  return { series, marks, end };
}

/* Returns the lower and the upper line of a band; without a band the range, which is told at the pointer. */
function bounds(found, band) {
  if (band !== 'interval') return [found.low, found.high];
  const half = found.sd.map((sd) => halfWidth(sd, found.n));
  return [-1, 1].map((sign) => found.mean.map((mean, index) => (mean === null || half[index] === null ? null : mean + sign * half[index])));
}

/* Returns the top of an axis on which lines that end close together can be told apart: the highest value from the earliest of a few
   places on from which the axis spans no more than some times the distance between their ends; infinite for a single line. */
function topOfNearLines(seen, low, end) {
  const ends = seen.filter((line) => line.main && line.x.length && line.x[line.x.length - 1] >= end * 0.99)
    .map(({ y }) => y.findLast((value) => value !== null)).filter((value) => value !== undefined);
  if (ends.length < 2) return Infinity;
  const apart = Math.max(...ends) - Math.min(...ends);
  if (!apart) return Infinity;
  const tops = LATER_STARTS.map((share) => Math.max(...seen.flatMap(({ x, y }) => y.filter((value, index) => value !== null && x[index] >= end * share))));
  const near = tops.findIndex((top) => top - low <= MOST_TIMES_APART * apart);
  const top = near < 0 ? tops[tops.length - 1] : near ? tops[near] : Infinity;
  return top > low ? top : Infinity;
}

/* Returns {range, cut}: what a vertical axis shows, and the value above which it leaves something out. A run that blows up, or the steep
   start of a loss, must not flatten all the rest. */
function verticalRange(seen, view) {
  const log = view.logY && view.minus < 0;
  let [low, high, limit] = [Infinity, -Infinity, -Infinity];
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
  const falls = data.falling[view.metric] && view.minus < 0 && !view.whole;
  let top = falls && limit > low && high > limit + 1.5 * (limit - low) ? limit : high;
  const afterStart = seen.flatMap(({ x, y }) => y.filter((value, index) => value !== null && value <= top && x[index] >= end * START));
  const later = afterStart.reduce((found, value) => Math.max(found, value), -Infinity);
  if (falls && !view.logX && !log && later > low && top - low > 2.2 * (later - low)) top = later;
  if (falls && !view.logX && !log) top = Math.min(top, topOfNearLines(seen, low, end));
  if (!view.late && top === high) return {};
  const room = 0.06 * (top - low);
  const range = log ? [low / 1.03, top * 1.03] : [low - room, top + room];
  return { range, cut: top < high ? range[1] : null };
}

/* Returns the floors of a metric as dashed lines, and their names at the ends: the hardest stretches the axis, others do not. */
function floorLines(floors, across) {
  const series = floors.map(({ name, x, y, hardest }) => ({ label: name, name, floor: true, colour: -1, dash: 'dash', width: 1.2, opacity: 0.7,
    x: x || across, y: x ? y : across.map(() => y), faint: !hardest }));
  return { series, ends: series.map(({ x, y, name }) => ({ x, y, label: name, colour: -1 })) };
}

function curvesSpec(view) {
  const metric = data.metrics[view.metric];
  const axis = AXES.find(({ key }) => key === view.x);
  const seen = [];
  const parts = visible().map((arm, _, arms) => curveSeries(arm, view, seen, arms.length > 12));
  const across = seen.reduce((longest, { x }) => (x && x.length > longest.length ? x : longest), []);
  const floors = floorLines(view.minus >= 0 || !across.length ? [] : data.floors[view.metric], across);
  seen.push(...floors.series.filter(({ faint }) => !faint).map(({ x, y }) => ({ x: x.slice(-1), y: y.slice(-1) })));
  const { range, cut } = verticalRange(seen, view);
  const end = Math.max(0, ...seen.map(({ x }) => x[x.length - 1] || 0));
  const minus = view.minus >= 0 ? `, minus that of ${data.arms[view.minus].label}` : '';
  const spec = {
    title: metric + minus, legend: legendOf(visible()), empty: !parts.length,
    x: { title: axis.title, unit: axis.unit, log: view.logX, tight: true, include: 0,
      range: view.late && end ? [end / 2, end * 1.01] : undefined },
    y: { title: (minus ? 'difference in ' : '') + metric + data.units[view.metric], log: view.logY && view.minus < 0, range,
      include: minus ? 0 : undefined },
    series: [...floors.series, ...['low', 'faint', ''].flatMap((layer) => parts.flatMap(({ series }) => series.filter((one) => (
      layer === 'low' ? one.low : layer === 'faint' ? one.faint && !one.low : !one.faint && !one.low))))],
    marks: parts.flatMap(({ marks }) => marks), rules: minus ? [{ y: 0 }] : [],
    ends: [...(data.arms.length > 1 && parts.length <= 14 ? parts.map(({ end: line }) => line).filter(Boolean) : []), ...floors.ends],
  };
  const cuts = [cut ? `↑ values above ${shown(cut, 2)} are not shown` : '', bandsGoOn(spec, cut) ? '↕ bands go on beyond the axis' : ''];
  return { ...spec, clipped: cuts.filter(Boolean).join('; ') || null };
}

/* Whether a band leaves the plot; above a cut axis that is said already. */
function bandsGoOn(spec, cut) {
  const [bottom, top] = extent(spec, 'y');
  const [from, to] = spec.x.range || [-Infinity, Infinity];
  return spec.series.some(({ x, low, high }) => low && x.some((at, index) => at >= from && at <= to && low[index] !== null && (
    low[index] < bottom || (!cut && high[index] > top))));
}
