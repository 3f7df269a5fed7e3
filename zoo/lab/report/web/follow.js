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
  const [scroll, metric, beside] = [window.scrollY, data.metrics[state.metric], state.beside.map((index) => data.metrics[index])];
  const shownHeat = heatChoice();
  data = JSON.parse(fresh.getElementById('report-data').textContent);
  chooseHeat(shownHeat);
  state.metric = Math.max(0, data.metrics.indexOf(metric));
  state.beside = beside.map((name) => data.metrics.indexOf(name)).filter((index) => index >= 0);
  document.querySelector('main').replaceWith(document.adoptNode(fresh.querySelector('main')));
  document.querySelector('.head').replaceChildren(...document.adoptNode(fresh.querySelector('.head')).childNodes);
  build();
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
