/* Tabs, colours, controls, and the updates while runs are followed. */
const themes = {
  light: { paper: '#ffffff', ink: '#1b2027', soft: '#58626e', line: '#b9c1ca', grid: '#e6e9ee' },
  dark: { paper: '#14181d', ink: '#e4e8ed', soft: '#a0abb8', line: '#4a5561', grid: '#29313a' },
};
['light', 'dark'].forEach((name) => {
  themes[name].colour = (index) => (index < 0 ? themes[name].ink : data.palette[name][index % data.palette[name].length]);
});
const darkScheme = window.matchMedia('(prefers-color-scheme: dark)');
const root = document.documentElement;
const theme = () => themes[(root.dataset.theme || (darkScheme.matches ? 'dark' : 'light'))];
const narrow = () => window.innerWidth < 620;
// From here on the answer and the curves stand side by side.
const WIDE = 1600;
const figures = {};

// A page opened from a file may have no storage.
const remembered = { get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* not saved */ } } };

function choice(id, labels, selected, onSelect) {
  const box = document.getElementById(id);
  const buttons = labels.map((label, index) => button(label, '', () => {
    buttons.forEach((other, place) => other.setAttribute('aria-pressed', String(place === index)));
    onSelect(index);
  }));
  buttons.forEach((made, index) => made.setAttribute('aria-pressed', String(index === selected)));
  box.replaceChildren(...buttons);
}

function figure(id, height, spec, onZoom) {
  const holder = document.getElementById(id + '-plot');
  if (!holder || !spec || holder.closest('[hidden]')) return;
  const before = figures[id];
  if (!before || before.holder !== holder) {
    figures[id] = new Figure(holder, height, onZoom);
    // The zoom is kept when a newer page replaces this one.
    if (before) Object.assign(figures[id], { spec: before.spec, zoom: before.zoom });
  }
  figures[id].show(spec);
}

function hidden(id, value) {
  const part = document.getElementById(id);
  if (part) part.hidden = value;
}

// Higher on wide screens, but never so high that the controls leave the screen.
const tall = (height) => Math.max(height, Math.min(window.innerHeight * 0.62, window.innerWidth * 0.3));
const curvesHeight = () => (narrow() ? 340 : state.beside.length ? 360 : tall(460));

function drawCurves() {
  if (!data.metrics.length) return;
  const spec = curvesSpec(state);
  const first = !figures.curves;
  figure('curves', curvesHeight, spec, (zoom) => {
    state.zoom = zoom;
    drawBeside();
    writeState();
  });
  if (first && figures.curves && state.zoom) figures.curves.zoomTo(state.zoom);
  hidden('curves-smoothing', ![state.metric, ...state.beside].some((index) => isNoisy(data.metrics[index])));
  drawBeside();
  writeState();
}

/* More metrics, on the same horizontal axis as the first. */
function drawBeside() {
  const grid = document.getElementById('curves-grid');
  if (!grid || grid.closest('[hidden]')) return;
  grid.classList.toggle('several', state.beside.length > 0);
  [...grid.querySelectorAll('.beside')].forEach((part) => { if (!state.beside.includes(Number(part.dataset.metric))) part.remove(); });
  state.beside.forEach((metric) => {
    const id = 'beside-' + metric;
    if (!document.getElementById(id + '-plot')) {
      const [part, holder] = [document.createElement('div'), document.createElement('div')];
      const name = data.metrics[metric];
      Object.assign(part, { className: 'beside' });
      Object.assign(holder, { className: 'plot', id: id + '-plot' });
      part.dataset.metric = metric;
      holder.dataset.about = name + ' of all arms';
      const close = button('remove ' + name, '', () => { state.beside = state.beside.filter((other) => other !== metric); drawCurves(); });
      close.className = 'close';
      part.append(close, holder);
      grid.append(part);
    }
    figure(id, curvesHeight, curvesSpec({ ...state, metric }));
    figures[id].zoom = state.zoom && { x: state.zoom.x, y: null };
    figures[id].draw();
  });
}

function drawAll() {
  if (data.metrics.length) {
    const spec = curvesSpec({ ...state, ...DEFAULTS, seeds: false });
    figure('overview', () => (narrow() ? 280 : window.innerWidth >= WIDE ? 420 : 330), spec);
  }
  drawCurves();
  data.plots.forEach((plot) => figure(plot.id, () => (narrow() ? 320 : 390), plainSpec(plot)));
  const compared = data.differences[state.baseline];
  hidden('differences-plot', !compared);
  if (compared) figure('differences', () => 300, differencesSpec(compared));
  if (data.effects) figure('effects', () => 300, differencesSpec(data.effects));
  const maps = document.getElementById('dynamics-maps');
  if (maps && !maps.closest('[hidden]')) drawHeat();
}

function swatch(arm) {
  return svgNode('svg', { width: 34, height: 10, 'aria-hidden': 'true' }, svgNode('line', {
    x1: 0, x2: 34, y1: 5, y2: 5, stroke: theme().colour(arm.colour), 'stroke-width': 3, 'stroke-dasharray': DASHES[dashOf(arm)] }));
}

function legendEntry(arm, index) {
  const item = document.createElement('li');
  const name = document.createElement('span');
  name.textContent = arm.name;
  const pressed = button('', '', (event) => {
    if (event.altKey) state.hidden = new Set([...data.arms.keys()].filter((other) => other !== index));
    else if (!state.hidden.delete(index)) state.hidden.add(index);
    redraw();
  });
  pressed.setAttribute('aria-pressed', String(!state.hidden.has(index)));
  const light = (only) => document.querySelectorAll('[data-arm]').forEach((part) => {
    part.style.opacity = only && isShown(index) && Number(part.dataset.arm) !== index ? 0.08 : '';
  });
  ['pointerenter', 'focus'].forEach((event) => pressed.addEventListener(event, () => light(true)));
  ['pointerleave', 'blur'].forEach((event) => pressed.addEventListener(event, () => light(false)));
  pressed.append(swatch(arm), name);
  if (arm.note) {
    const note = document.createElement('small');
    note.textContent = arm.note;
    pressed.append(note);
  }
  item.append(pressed);
  return item;
}

function redraw() {
  buildLegends();
  drawAll();
  writeState();
}

/* One text filters the arms of legends, charts and tables. */
function filterField(list) {
  const [label, field, status] = ['label', 'input', 'span'].map((name) => document.createElement(name));
  label.className = 'arm-filter controls';
  Object.assign(field, { type: 'search', placeholder: 'words, key=value, /regex/', value: state.filter });
  status.setAttribute('aria-live', 'polite');
  label.append('filter arms ', field, status);
  field.addEventListener('input', () => {
    const valid = setArmFilter(field.value.trim());
    document.querySelectorAll('.arm-filter input').forEach((other) => { if (other !== field) other.value = field.value; });
    document.querySelectorAll('.arm-filter span').forEach((other) => {
      const left = data.arms.filter((arm, index) => armMatches(index)).length;
      other.textContent = !valid ? 'not a regular expression' : armTest ? `${left} of ${data.arms.length} arms` : '';
    });
    document.querySelectorAll('.scroll table').forEach(filterRows);
    redraw();
  });
  list.before(label);
}

function buildLegends() {
  document.querySelectorAll('.legend').forEach((list) => {
    if (data.arms.length > 2 && !(list.previousElementSibling || list).matches('.arm-filter')) filterField(list);
    const focused = [...list.querySelectorAll('button')].indexOf(document.activeElement);
    const entries = data.arms.map((arm, index) => (armMatches(index) ? legendEntry(arm, index) : null)).filter(Boolean);
    if (data.legend) {
      const title = document.createElement('li');
      title.className = 'title';
      title.textContent = data.legend + ':';
      entries.unshift(title);
    }
    if (data.arms.length > 6) {
      const item = document.createElement('li');
      item.className = 'all';
      item.append(...[['all', () => new Set()], ['none', () => new Set(data.arms.keys())]].map(([label, hide]) => button(label, label + ' arms', () => {
        state.hidden = hide();
        redraw();
      })));
      entries.push(item);
    }
    list.replaceChildren(...entries);
    if (focused >= 0 && list.querySelectorAll('button')[focused]) list.querySelectorAll('button')[focused].focus();
  });
}

function buildControls() {
  if (!document.getElementById('curves-x') || !data.metrics.length) return;
  const axes = AXES.filter(({ key }) => key !== 'flops' || knowsFlops());
  state.metric = Math.min(state.metric, data.metrics.length - 1);
  const beside = document.getElementById('curves-beside');
  beside.replaceChildren(new Option('add a metric', -1), ...data.metrics.map((name, index) => new Option(name, index)));
  beside.onchange = () => {
    const index = Number(beside.value);
    if (index >= 0 && !state.beside.includes(index)) state.beside.push(index);
    beside.value = '-1';
    drawCurves();
  };
  const band = document.getElementById('curves-band');
  band.replaceChildren(...BANDS.map(([key, text]) => new Option(text, key)));
  band.value = state.band;
  band.onchange = () => { state.band = band.value; drawCurves(); };
  choice('curves-x', axes.map(({ name }) => name), Math.max(0, axes.findIndex(({ key }) => key === state.x)), (index) => {
    state.x = axes[index].key;
    drawCurves();
  });
  const metric = document.getElementById('curves-metric');
  metric.replaceChildren(...data.metrics.map((name, index) => new Option(name, index)));
  const minus = document.getElementById('curves-minus');
  minus.replaceChildren(new Option('none', -1), ...data.arms.map((arm, index) => new Option(arm.label, index)));
  [[metric, 'metric'], [minus, 'minus'], [document.getElementById('curves-window'), 'smoothing']].forEach(([select, key]) => {
    select.value = String(state[key]);
    select.onchange = () => { state[key] = Number(select.value); drawCurves(); };
  });
  Object.entries({ 'curves-log-x': 'logX', 'curves-log-y': 'logY', 'curves-late': 'late', 'curves-whole': 'whole', 'curves-seeds': 'seeds' }).forEach(([id, key]) => {
    const box = document.getElementById(id);
    box.checked = state[key];
    box.onchange = () => { state[key] = box.checked; drawCurves(); };
  });
}

/* The Tab key reaches the selected tab, arrow keys the others. */
function select(name, focus) {
  const panels = [...document.querySelectorAll('main > [role=tabpanel]')];
  // A link may also lead to a part of a tab, such as the command of a run.
  const part = document.getElementById(name);
  const chosen = (part && part.closest('main > [role=tabpanel]')) || panels[0];
  panels.forEach((panel) => { panel.hidden = panel !== chosen; });
  document.querySelectorAll('[role=tab]').forEach((tab) => {
    const here = tab.getAttribute('aria-controls') === chosen.id;
    tab.setAttribute('aria-selected', String(here));
    tab.tabIndex = here ? 0 : -1;
    if (here && focus) tab.focus();
    if (here) tab.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  });
  state.tab = chosen.id;
  drawAll();
  if (part && part !== chosen) part.scrollIntoView({ block: 'center' });
}

/* On paper all tabs follow each other, so the figures of hidden ones are drawn too. */
function unfold(whole) {
  document.querySelectorAll('main > [role=tabpanel]').forEach((panel) => { panel.hidden = !whole && panel.id !== state.tab; });
  drawAll();
}

function buildTabs() {
  const list = document.querySelector('.tabs');
  const panels = [...document.querySelectorAll('main > [role=tabpanel]')];
  list.hidden = false;
  list.replaceChildren(...panels.map((panel) => {
    const tab = button(panel.dataset.title, '', () => go(panel.id));
    tab.setAttribute('role', 'tab');
    tab.id = 'tab-' + panel.id;
    tab.setAttribute('aria-controls', panel.id);
    panel.setAttribute('aria-labelledby', tab.id);
    return tab;
  }));
  list.onkeydown = (event) => {
    const tabs = [...list.children];
    const at = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined || at < 0) return;
    event.preventDefault();
    go(tabs[(next + tabs.length) % tabs.length].getAttribute('aria-controls'), true);
  };
}

function go(name, focus) {
  select(name, focus);
  writeState();
}

function buildTheme() {
  const toggle = document.getElementById('theme');
  const names = { '': 'colours: system', light: 'colours: light', dark: 'colours: dark' };
  const apply = (name) => {
    if (name) root.dataset.theme = name; else delete root.dataset.theme;
    toggle.textContent = names[name];
  };
  apply(['light', 'dark'].includes(remembered.get('zoo-theme')) ? remembered.get('zoo-theme') : '');
  toggle.hidden = false;
  toggle.onclick = () => {
    const order = ['', 'light', 'dark'];
    const next = order[(order.indexOf(root.dataset.theme || '') + 1) % 3];
    apply(next);
    remembered.set('zoo-theme', next);
    buildLegends();
    drawAll();
  };
}

function build() {
  document.querySelectorAll('.without-script').forEach((element) => element.remove());
  root.classList.add('scripted');
  buildTheme();
  buildTabs();
  buildLegends();
  buildControls();
  showBaseline();
  document.querySelectorAll('.scroll').forEach(buildTable);
  select(state.tab);
  buildHeat();
}

/* Shows what the address says after it was changed by hand or by a link. */
function openState() {
  readState();
  document.querySelectorAll('.arm-filter input').forEach((field) => { field.value = state.filter; });
  document.querySelectorAll('.scroll table').forEach(filterRows);
  buildLegends();
  buildControls();
  showBaseline();
  select(state.tab);
  if (figures.curves) figures.curves.zoomTo(state.zoom);
}

readState();
build();
darkScheme.addEventListener('change', () => { buildLegends(); drawAll(); });
window.addEventListener('hashchange', openState);
window.addEventListener('beforeprint', () => unfold(true));
window.addEventListener('afterprint', () => unfold(false));
let wasNarrow = narrow();
window.addEventListener('resize', () => { if (narrow() !== wasNarrow) { wasNarrow = narrow(); drawAll(); } });
if (document.body.dataset.version) follow(document.body.dataset.version);
