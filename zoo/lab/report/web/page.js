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

function figure(id, height, spec) {
  const holder = document.getElementById(id + '-plot');
  if (!holder || !spec || holder.closest('[hidden]')) return;
  const before = figures[id];
  if (!before || before.holder !== holder) {
    figures[id] = new Figure(holder, height);
    // The zoom is kept when a newer page replaces this one.
    if (before) Object.assign(figures[id], { spec: before.spec, zoom: before.zoom });
  }
  figures[id].show(spec);
}

function hidden(id, value) {
  const part = document.getElementById(id);
  if (part) part.hidden = value;
}

function drawCurves() {
  if (!data.metrics.length) return;
  const spec = curvesSpec(state);
  figure('curves', () => (narrow() ? 340 : 460), spec);
  hidden('curves-cut', !spec.cut);
  hidden('curves-smoothing', !isNoisy(data.metrics[state.metric]));
}

function drawAll() {
  if (data.metrics.length) {
    const spec = curvesSpec({ ...state, metric: 0, x: 'step', logX: false, logY: false, late: false, seeds: false, minus: -1 });
    figure('overview', () => (narrow() ? 280 : 330), spec);
    hidden('overview-cut', !spec.cut);
  }
  drawCurves();
  data.plots.forEach((plot) => figure(plot.id, () => (narrow() ? 320 : 390), plainSpec(plot)));
  if (data.differences) figure('differences', () => 300, differencesSpec(data.differences));
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
  name.textContent = arm.label;
  const pressed = button('', '', (event) => {
    if (event.altKey) state.hidden = new Set([...data.arms.keys()].filter((other) => other !== index));
    else if (!state.hidden.delete(index)) state.hidden.add(index);
    buildLegends();
    drawAll();
  });
  pressed.setAttribute('aria-pressed', String(!state.hidden.has(index)));
  const light = (only) => document.querySelectorAll('[data-arm]').forEach((part) => {
    part.style.opacity = only && Number(part.dataset.arm) !== index ? 0.08 : '';
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

function buildLegends() {
  document.querySelectorAll('.legend').forEach((list) => {
    const focused = [...list.querySelectorAll('button')].indexOf(document.activeElement);
    const entries = data.arms.map(legendEntry);
    if (data.arms.length > 6) {
      const item = document.createElement('li');
      item.className = 'all';
      item.append(...[['all', () => new Set()], ['none', () => new Set(data.arms.keys())]].map(([label, hide]) => button(label, label + ' arms', () => {
        state.hidden = hide();
        buildLegends();
        drawAll();
      })));
      entries.push(item);
    }
    list.replaceChildren(...entries);
    if (focused >= 0) list.querySelectorAll('button')[focused].focus();
  });
}

function buildControls() {
  if (!document.getElementById('curves-x') || !data.metrics.length) return;
  const axes = AXES.filter(({ key }) => key !== 'flops' || knowsFlops());
  state.metric = Math.min(state.metric, data.metrics.length - 1);
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
  Object.entries({ 'curves-log-x': 'logX', 'curves-log-y': 'logY', 'curves-late': 'late', 'curves-seeds': 'seeds' }).forEach(([id, key]) => {
    const box = document.getElementById(id);
    box.checked = state[key];
    box.onchange = () => { state[key] = box.checked; drawCurves(); };
  });
}

/* The Tab key reaches the selected tab, arrow keys the others. */
function select(name, focus) {
  const panels = [...document.querySelectorAll('main > [role=tabpanel]')];
  const chosen = panels.find((panel) => panel.id === name) || panels[0];
  panels.forEach((panel) => { panel.hidden = panel !== chosen; });
  document.querySelectorAll('[role=tab]').forEach((tab) => {
    const here = tab.getAttribute('aria-controls') === chosen.id;
    tab.setAttribute('aria-selected', String(here));
    tab.tabIndex = here ? 0 : -1;
    if (here && focus) tab.focus();
    if (here) tab.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  });
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
  history.replaceState(null, '', '#' + name);
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
  buildTheme();
  buildTabs();
  buildLegends();
  buildControls();
  document.querySelectorAll('.scroll').forEach(buildTable);
  select(location.hash.slice(1));
  buildHeat();
}

/* While runs continue, polls for a newer page and replaces the contents; selections and filters stay. */
async function follow(version) {
  const status = document.getElementById('live');
  const say = (text) => { status.textContent = text; };
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, 2000); });
    try {
      const latest = await (await fetch('version', { cache: 'no-store' })).text();
      if (latest === version || document.hidden) { say(latest === version ? 'live' : 'live, waiting'); continue; }
      const fresh = new DOMParser().parseFromString(await (await fetch('.', { cache: 'no-store' })).text(), 'text/html');
      exchange(fresh);
      version = fresh.body.dataset.version;
      say('live, updated at ' + new Date().toLocaleTimeString());
    } catch (error) {
      say('disconnected');
    }
  }
}

function exchange(fresh) {
  const fields = [...document.querySelectorAll('.tools input')].map((field) => [field.getAttribute('aria-label'), field.value]);
  const open = new Set([...document.querySelectorAll('details[open] > summary')].map((summary) => summary.textContent));
  const sorted = [...document.querySelectorAll('th[aria-sort]')].map((head) => [head.closest('table').caption.textContent, head.cellIndex, head.getAttribute('aria-sort')]);
  const active = document.activeElement;
  const [name, scroll, metric] = [location.hash.slice(1), window.scrollY, data.metrics[state.metric]];
  const shownHeat = heatChoice();
  data = JSON.parse(fresh.getElementById('report-data').textContent);
  chooseHeat(shownHeat);
  state.metric = Math.max(0, data.metrics.indexOf(metric));
  document.querySelector('main').replaceWith(document.adoptNode(fresh.querySelector('main')));
  document.querySelector('.head').replaceChildren(...document.adoptNode(fresh.querySelector('.head')).childNodes);
  build();
  if (name) select(name);
  fields.forEach(([label, value]) => {
    const field = [...document.querySelectorAll('.tools input')].find((other) => other.getAttribute('aria-label') === label);
    if (field && value) { field.value = value; field.dispatchEvent(new Event('input')); }
  });
  sorted.forEach(([caption, column, order]) => {
    const table = [...document.querySelectorAll('table')].find((other) => other.caption.textContent === caption);
    const heads = table ? [...table.tHead.rows[0].cells] : [];
    for (let times = 0; heads[column] && times < (order === 'descending' ? 2 : 1); times += 1) sortBy(table, column, heads);
  });
  document.querySelectorAll('details > summary').forEach((summary) => { if (open.has(summary.textContent)) summary.parentElement.open = true; });
  const label = active && active.getAttribute('aria-label');
  const again = [...document.querySelectorAll('input, select, button, [tabindex]')].find((other) => (
    active && other.tagName === active.tagName && (active.id ? other.id === active.id : label && other.getAttribute('aria-label') === label)));
  if (again) again.focus({ preventScroll: true });
  window.scrollTo(0, scroll);
}

build();
darkScheme.addEventListener('change', () => { buildLegends(); drawAll(); });
window.addEventListener('hashchange', () => select(location.hash.slice(1)));
let wasNarrow = narrow();
window.addEventListener('resize', () => { if (narrow() !== wasNarrow) { wasNarrow = narrow(); drawAll(); } });
if (document.body.dataset.version) follow(document.body.dataset.version);
