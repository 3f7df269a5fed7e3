/* What is chosen in the page, kept in its address: #TAB?metric=...&x=... Defaults are left out. */
let data = JSON.parse(document.getElementById('report-data').textContent);

const DEFAULTS = { x: 'step', metric: 0, logX: false, logY: false, late: false, whole: false, seeds: true, band: 'range', smoothing: 3,
  minus: -1, baseline: data.baseline, filter: '', zoom: null };
const state = { tab: '', ...DEFAULTS, beside: [], hidden: new Set() };
const FLAGS = { logX: 'log-x', logY: 'log-y', late: 'late', whole: 'whole' };

function writeState() {
  const words = new URLSearchParams();
  const add = (key, name, value) => { if (state[key] !== DEFAULTS[key]) words.append(name, value ?? state[key]); };
  add('metric', 'metric', data.metrics[state.metric]);
  add('x', 'x');
  Object.entries(FLAGS).forEach(([key, name]) => add(key, name, '1'));
  add('seeds', 'seeds', '0');
  add('band', 'band');
  add('smoothing', 'smoothing');
  add('minus', 'minus');
  add('baseline', 'baseline');
  add('filter', 'filter');
  state.beside.forEach((index) => words.append('beside', data.metrics[index]));
  if (state.hidden.size) words.append('hide', [...state.hidden].sort((a, b) => a - b).join(','));
  if (state.zoom) words.append('zoom', [...state.zoom.x, ...(state.zoom.y || [])].map((value) => Number(value.toPrecision(6))).join(','));
  const text = [state.tab, words.toString()].filter(Boolean).join('?');
  if (text !== location.hash.slice(1)) history.replaceState(null, '', '#' + text);
}

function readState() {
  const [tab, ...rest] = location.hash.slice(1).split('?');
  const words = new URLSearchParams(rest.join('?'));
  const numbers = (name) => (words.get(name) || '').split(',').filter(Boolean).map(Number).filter(Number.isFinite);
  const metric = (name) => data.metrics.indexOf(name);
  Object.assign(state, DEFAULTS, { tab });
  state.metric = Math.max(0, metric(words.get('metric')));
  if (AXES.some(({ key }) => key === words.get('x'))) state.x = words.get('x');
  Object.entries(FLAGS).forEach(([key, name]) => { state[key] = words.get(name) === '1'; });
  state.seeds = words.get('seeds') !== '0';
  if (BANDS.some(([key]) => key === words.get('band'))) state.band = words.get('band');
  if (words.has('smoothing')) state.smoothing = numbers('smoothing')[0] ?? DEFAULTS.smoothing;
  const minus = numbers('minus')[0];
  if (minus !== undefined && data.arms[minus]) state.minus = minus;
  const baseline = numbers('baseline')[0];
  if (baseline !== undefined && document.querySelector(`[data-baseline="${baseline}"]`)) state.baseline = baseline;
  state.beside = words.getAll('beside').map(metric).filter((index) => index >= 0);
  state.hidden = new Set(numbers('hide').filter((index) => data.arms[index]));
  const zoom = numbers('zoom');
  if (zoom.length >= 2 && zoom[0] < zoom[1]) state.zoom = { x: zoom.slice(0, 2), y: zoom.length === 4 && zoom[2] < zoom[3] ? zoom.slice(2) : null };
  setArmFilter(words.get('filter') || '');
}
