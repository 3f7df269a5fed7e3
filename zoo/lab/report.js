/* Draws the plots of a report from the JSON beside it. Names reach the page as text only: textContent in the document,
   and plotText() for Plotly, which reads a subset of HTML in every string it is given. */
(function () {
  'use strict';

  const data = JSON.parse(document.getElementById('report-data').textContent);
  const darkScheme = window.matchMedia('(prefers-color-scheme: dark)');
  const state = { x: 'step', metric: 0, logarithmic: false, late: false, seeds: true, smoothing: 3, hidden: new Set() };
  const axisTitles = { step: 'updates', tokens: 'tokens', seconds: 'seconds of training' };
  const svgDashes = { solid: '', dash: '7 4', dot: '2 3', dashdot: '7 3 2 3', longdash: '11 4', longdashdot: '11 3 2 3' };

  const plotText = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  const shorten = (text, length) => (text.length > length ? text.slice(0, length - 1) + '…' : text);
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 620;
  const colour = (arm) => {
    const palette = darkScheme.matches ? data.palette.dark : data.palette.light;
    return palette[arm.colour % palette.length];
  };
  const dash = (arm) => data.dashes[arm.dash % data.dashes.length];
  const faded = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, '0');
  const visibleArms = () => data.arms.filter((arm, index) => !state.hidden.has(index));

  function layout(xTitle, yTitle) {
    const grid = { gridcolor: variable('--grid'), zeroline: false, linecolor: variable('--line'), automargin: true };
    return {
      paper_bgcolor: variable('--paper'), plot_bgcolor: variable('--paper'), showlegend: false,
      font: { family: variable('--text'), size: narrow() ? 11 : 13, color: variable('--ink') },
      margin: { l: narrow() ? 48 : 64, r: 16, t: 12, b: 48 },
      xaxis: { ...grid, title: { text: plotText(xTitle), standoff: 8 } },
      yaxis: { ...grid, title: { text: plotText(yTitle), standoff: 8 } },
      hoverlabel: { namelength: narrow() ? 18 : 40, font: { family: variable('--text') } },
      dragmode: narrow() ? false : 'zoom',
    };
  }

  function draw(id, traces, plotLayout) {
    const bar = ['select2d', 'lasso2d', 'autoScale2d'];
    const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: bar, displayModeBar: narrow() ? false : 'hover' };
    window.Plotly.react(document.getElementById(id), traces, plotLayout, config);
  }

  /* Centred moving mean over a share of the points. The window shrinks symmetrically at the start, where the curve is steep,
     and is cut off at the end, where it is flat. */
  function smooth(values, percent) {
    const half = Math.round(values.length * percent / 200);
    if (!half) return values;
    return values.map((value, index) => {
      const reach = Math.min(half, index);
      const near = values.slice(index - reach, index + reach + 1).filter((item) => item !== null);
      return value === null || !near.length ? null : near.reduce((sum, item) => sum + item, 0) / near.length;
    });
  }

  const isNoisy = (metric) => metric.startsWith('train/') && metric !== 'train/learning_rate';

  function curveTraces(arm, index, ranges) {
    const traces = [];
    const band = arm.bands[index];
    const percent = isNoisy(data.metrics[index]) ? state.smoothing : 0;
    const line = colour(arm);
    const several = arm.runs.length > 1;
    if (band && several && band.mean.length > 1) {
      const low = smooth(band.low, percent);
      const high = smooth(band.high, percent);
      const edge = { x: band[state.x], mode: 'lines', line: { width: 0 }, hoverinfo: 'skip' };
      traces.push({ ...edge, y: low }, { ...edge, y: high, fill: 'tonexty', fillcolor: faded(line, 0.16) });
    }
    arm.runs.forEach((run) => {
      const curve = run.curves[index];
      if (!curve) return;
      const x = curve[state.x];
      ranges.push({ x, y: band && several ? smooth(curve.value, percent) : curve.value });
      const alone = !band || band.mean.length < 2;
      if (alone || (state.seeds && (several || percent))) {
        traces.push({ x, y: curve.value, mode: x.length > 1 ? 'lines' : 'markers', hoverinfo: 'skip',
          line: { color: faded(line, percent ? 0.2 : alone ? 0.9 : 0.55), width: 1, dash: alone ? dash(arm) : 'solid' },
          marker: { color: line, size: 6 } });
      }
      const last = curve.value.findLastIndex((value) => value !== null);
      if (last >= 0 && (run.state === 'diverged' || run.state === 'failed')) {
        traces.push({ x: [x[last]], y: [curve.value[last]], mode: 'markers', meta: 'end', text: [plotText(run.label + ' ' + run.state)],
          name: plotText(arm.label), hovertemplate: '%{text}', cliponaxis: false,
          marker: { color: line, size: 10, symbol: run.state === 'diverged' ? 'x' : 'circle-open', line: { width: 2, color: line } } });
      }
    });
    if (band && band.mean.length) {
      traces.push({ x: band[state.x], y: smooth(band.mean, percent), mode: band.mean.length > 1 ? 'lines' : 'markers',
        name: plotText(shorten(arm.label, 60)), hovertemplate: '%{y:.4~g}', line: { color: line, width: 2.2, dash: dash(arm) },
        marker: { color: line, size: 8 } });
    }
    return traces;
  }

  /* A run that blows up must not flatten all others: the axis ends a little above the highest start. */
  function verticalRange(ranges) {
    let low = Infinity, high = -Infinity, limit = -Infinity;
    const end = Math.max(...ranges.map((range) => range.x[range.x.length - 1] || 0));
    ranges.forEach((range) => {
      const first = range.y.find((value) => value !== null);
      if (first !== undefined) limit = Math.max(limit, first);
      range.y.forEach((value, index) => {
        if (value === null || (state.late && range.x[index] < end / 2)) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    });
    if (!(low < high)) return undefined;
    const cut = high > limit + 1.5 * Math.abs(limit - low) && limit > low;
    if (!state.late && !cut) return undefined;
    const top = cut ? limit : high;
    const room = 0.06 * (top - low);
    return { range: [low - room, top + room], cut };
  }

  function drawCurves() {
    if (!data.metrics.length) return;
    const metric = data.metrics[state.metric];
    const ranges = [];
    const traces = visibleArms().flatMap((arm) => curveTraces(arm, state.metric, ranges));
    const plot = layout(axisTitles[state.x], metric + data.units[state.metric]);
    plot.hovermode = narrow() ? 'closest' : 'x unified';
    plot.hoverlabel.bgcolor = variable('--raised');
    if (state.logarithmic) plot.xaxis.type = 'log';
    const vertical = ranges.length ? verticalRange(ranges) : undefined;
    if (vertical) {
      plot.yaxis.range = vertical.range;
      // The mark of a run that left the plot stays on its edge.
      traces.filter((trace) => trace.meta === 'end').forEach((trace) => { trace.y = [Math.min(trace.y[0], vertical.range[1])]; });
    }
    if (state.late && ranges.length) {
      const end = Math.max(...ranges.map((range) => range.x[range.x.length - 1] || 0));
      plot.xaxis.range = state.logarithmic ? [Math.log10(end / 2 || 1), Math.log10(end || 1)] : [end / 2, end * 1.01];
    }
    document.getElementById('curves-cut').hidden = !(vertical && vertical.cut);
    document.getElementById('curves-smoothing').hidden = !isNoisy(metric);
    draw('curves-plot', traces, plot);
  }

  function drawLengths() {
    if (!data.lengths) return;
    const traces = [];
    data.lengths.arms.forEach((entry, index) => {
      if (state.hidden.has(index) || !entry.length.length) return;
      const arm = data.arms[index];
      const error = { type: 'data', symmetric: false, array: entry.high.map((high, i) => high - entry.mean[i]),
        arrayminus: entry.mean.map((mean, i) => mean - entry.low[i]), thickness: 1.2, width: 3, color: colour(arm) };
      traces.push({ x: entry.length, y: entry.mean, error_y: error, mode: 'lines+markers', name: plotText(shorten(arm.label, 60)),
        hovertemplate: '%{y:.4~g}', line: { color: colour(arm), width: 2.2, dash: dash(arm) }, marker: { color: colour(arm), size: 7 } });
    });
    const plot = layout('evaluation length (tokens, doubling)', data.lengths.title);
    Object.assign(plot.xaxis, { type: 'log', tickvals: data.lengths.lengths, ticktext: data.lengths.lengths.map(String) });
    plot.hovermode = narrow() ? 'closest' : 'x unified';
    plot.hoverlabel.bgcolor = variable('--raised');
    if (data.lengths.trained) {
      plot.margin.t = 28;
      const line = { color: variable('--soft'), width: 1, dash: 'dot' };
      const x = data.lengths.trained;
      plot.shapes = [{ type: 'line', x0: x, x1: x, y0: 0, y1: 1, yref: 'paper', line }];
      plot.annotations = [{ x: Math.log10(x), y: 1, yref: 'paper', yanchor: 'bottom', showarrow: false, text: 'trained length',
        xanchor: x === data.lengths.lengths[0] ? 'left' : 'center', font: { size: 11, color: variable('--soft') } }];
    }
    draw('lengths-plot', traces, plot);
  }

  /* Each arm has its name on a line of its own above its interval, so that long names need no left margin. */
  function drawDifferences() {
    if (!data.differences) return;
    const rows = data.differences.rows.filter((row) => !state.hidden.has(row.arm));
    const traces = [];
    const notes = [];
    rows.forEach((row, position) => {
      const arm = data.arms[row.arm];
      const y = -position;
      const line = colour(arm);
      traces.push({ x: row.points, y: row.points.map(() => y - 0.2), mode: 'markers', text: row.seeds.map((seed) => 'seed ' + seed),
        hovertemplate: '%{text}: %{x:.4~g}<extra></extra>', marker: { color: faded(line, 0.45), size: 7, symbol: 'circle' } });
      if (row.low !== null) {
        traces.push({ x: [row.low, row.high], y: [y, y], mode: 'lines', line: { color: line, width: 2.5 }, hoverinfo: 'skip' });
      }
      traces.push({ x: [row.mean], y: [y], mode: 'markers', hovertemplate: 'mean %{x:.4~g}<extra></extra>',
        marker: { color: line, size: 11, symbol: 'diamond' } });
      notes.push({ x: 0, xref: 'paper', xanchor: 'left', y: y + 0.24, yanchor: 'bottom', showarrow: false, align: 'left',
        text: plotText(shorten(arm.label, narrow() ? 46 : 110)), font: { size: narrow() ? 11 : 12.5 }, bgcolor: variable('--paper') });
    });
    const plot = layout(data.differences.title, '');
    plot.margin.l = 16;
    Object.assign(plot.yaxis, { range: [-rows.length + 0.6, 0.75], showticklabels: false, showgrid: false, fixedrange: true });
    const ends = rows.flatMap((row) => [0, row.mean, ...row.points, ...(row.low === null ? [] : [row.low, row.high])]);
    const room = 0.06 * (Math.max(...ends) - Math.min(...ends)) || 0.01;
    plot.xaxis.range = [Math.min(...ends) - room, Math.max(...ends) + room];
    plot.annotations = notes;
    plot.hovermode = 'closest';
    const ink = { color: variable('--soft'), width: 1.2, dash: 'dash' };
    plot.shapes = [{ type: 'line', x0: 0, x1: 0, y0: 0, y1: 1, yref: 'paper', line: ink, layer: 'below' }];
    document.getElementById('differences-plot').style.height = 70 + 58 * Math.max(1, rows.length) + 'px';
    draw('differences-plot', traces, plot);
  }

  const drawAll = () => { drawCurves(); drawLengths(); drawDifferences(); };

  function swatch(arm) {
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    const line = document.createElementNS(space, 'line');
    Object.entries({ width: 34, height: 10, 'aria-hidden': 'true' }).forEach(([key, value]) => svg.setAttribute(key, value));
    const stroke = { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour(arm), 'stroke-width': 3, 'stroke-dasharray': svgDashes[dash(arm)] };
    Object.entries(stroke).forEach(([key, value]) => line.setAttribute(key, value));
    svg.appendChild(line);
    return svg;
  }

  function legendEntry(arm, index) {
    const item = document.createElement('li');
    const button = document.createElement('button');
    const name = document.createElement('span');
    name.textContent = arm.label;
    button.type = 'button';
    button.setAttribute('aria-pressed', String(!state.hidden.has(index)));
    button.append(swatch(arm), name);
    if (arm.note) {
      const note = document.createElement('small');
      note.textContent = arm.note;
      button.append(note);
    }
    button.addEventListener('click', () => {
      if (!state.hidden.delete(index)) state.hidden.add(index);
      buildLegends();
      drawAll();
    });
    item.appendChild(button);
    return item;
  }

  function buildLegends() {
    document.querySelectorAll('.legend').forEach((list) => {
      const focused = [...list.querySelectorAll('button')].indexOf(document.activeElement);
      list.replaceChildren(...data.arms.map(legendEntry));
      if (focused >= 0) list.querySelectorAll('button')[focused].focus();
    });
  }

  function choice(id, labels, selected, onSelect) {
    const box = document.getElementById(id);
    const buttons = labels.map((label, index) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = label;
      button.setAttribute('aria-pressed', String(index === selected));
      button.addEventListener('click', () => {
        buttons.forEach((other) => other.setAttribute('aria-pressed', String(other === button)));
        onSelect(index);
        drawCurves();
      });
      return button;
    });
    box.replaceChildren(...buttons);
  }

  function checkbox(id, key) {
    const box = document.getElementById(id);
    box.checked = state[key];
    box.addEventListener('change', () => { state[key] = box.checked; drawCurves(); });
  }

  document.querySelectorAll('.without-script').forEach((element) => element.remove());
  buildLegends();
  if (data.metrics.length) {
    const axes = ['step', 'tokens', 'seconds'];
    choice('curves-x', axes, 0, (index) => { state.x = axes[index]; });
    choice('curves-metric', data.metrics, 0, (index) => { state.metric = index; });
    checkbox('curves-log', 'logarithmic');
    checkbox('curves-late', 'late');
    checkbox('curves-seeds', 'seeds');
    const select = document.getElementById('curves-window');
    select.value = String(state.smoothing);
    select.addEventListener('change', () => { state.smoothing = Number(select.value); drawCurves(); });
  }
  drawAll();
  darkScheme.addEventListener('change', () => { buildLegends(); drawAll(); });
  let wasNarrow = narrow();
  window.addEventListener('resize', () => {
    if (narrow() !== wasNarrow) { wasNarrow = narrow(); drawAll(); }
  });
})();
