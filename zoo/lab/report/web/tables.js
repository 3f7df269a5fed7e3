/* Tables are sorted by clicking a column's name, filtered by words, and saved as CSV, Markdown and LaTeX, as shown. */
// A cell may hold invisible digits that align its column; its own text is then an attribute.
const cellText = (cell) => (cell.dataset.text ?? cell.textContent).replace(/\s+/g, ' ').trim();

function sortKey(text) {
  const plain = text.replaceAll('−', '-').replaceAll(',', '');
  const found = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?/i.exec(plain);
  return found ? Number(found[0]) : null;
}

function compared(a, b, down) {
  const empty = (text) => text === '–' || text === '';
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  const [first, second] = [sortKey(a), sortKey(b)];
  const order = first !== null && second !== null && first !== second ? first - second : a.localeCompare(b, 'en', { numeric: true });
  return down ? -order : order;
}

function sortBy(table, column, heads) {
  const head = heads[column];
  const order = head.getAttribute('aria-sort') === 'ascending' ? 'descending' : 'ascending';
  heads.forEach((other) => other.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', order);
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [cellText(row.cells[column]), row]);
  rows.sort((a, b) => compared(a[0], b[0], order === 'descending'));
  body.append(...rows.map(([, row]) => row));
}

/* A cell's values without rounding, one for each column of a CSV file; a dash is a missing value. */
const csvValues = (cell) => (cell.dataset.csv ? JSON.parse(cell.dataset.csv) : [cellText(cell) === '–' ? null : cellText(cell)]);

function contentOf(table) {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const heads = [...table.tHead.rows[0].cells];
  const titles = heads.map(csvValues);
  const values = rows.map((row) => [...row.cells].flatMap((cell, column) => {
    const found = csvValues(cell);
    return titles[column].map((_, place) => found[place] ?? null);
  }));
  return { caption: cellText(table.caption), right: heads.map((head) => head.classList.contains('number')), values: [titles.flat(), ...values],
    rows: [heads.map(cellText), ...rows.map((row) => [...row.cells].map(cellText))] };
}

function asCsv({ values }) {
  // A spreadsheet would treat "=..." as a formula; a number may begin with a sign.
  const isNumeric = (text) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  const safe = (text) => (/^[=+@\t\r-]/.test(text) && !isNumeric(text) && text.length > 1 ? "'" + text : text);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return values.map((row) => row.map((value) => quoted(safe(String(value ?? '')))).join(',')).join('\r\n') + '\r\n';
}

function asMarkdown({ rows, right }) {
  const line = (row) => '| ' + row.map((text) => text.replace(/[\\|<>*_`[\]]/g, '\\$&')).join(' | ') + ' |';
  return [line(rows[0]), '|' + right.map((numbers) => (numbers ? '---:' : '---')).join('|') + '|', ...rows.slice(1).map(line)].join('\n') + '\n';
}

const LATEX = { '\\': '\\textbackslash{}', '&': '\\&', '%': '\\%', $: '\\$', '#': '\\#', _: '\\_', '{': '\\{', '}': '\\}', '~': '\\textasciitilde{}',
  '^': '\\textasciicircum{}', '<': '\\textless{}', '>': '\\textgreater{}', '|': '\\textbar{}', '−': '$-$', '±': '$\\pm$', '×': '$\\times$', '–': '--',
  '…': '\\ldots{}' };

function asLatex({ caption, rows, right }) {
  const line = (row) => row.map((text) => text.replace(/[\\&%$#_{}~^<>|−±×–…]/g, (sign) => LATEX[sign])).join(' & ') + ' \\\\';
  return ['% needs \\usepackage{booktabs}', '\\begin{table}', '  \\centering', `  \\caption{${line([caption]).slice(0, -3)}}`,
    `  \\begin{tabular}{${right.map((numbers) => (numbers ? 'r' : 'l')).join('')}}`, '    \\toprule', '    ' + line(rows[0]), '    \\midrule',
    ...rows.slice(1).map((row) => '    ' + line(row)), '    \\bottomrule', '  \\end{tabular}', '\\end{table}'].join('\n') + '\n';
}

const FORMATS = [['CSV', 'csv', 'text/csv', asCsv], ['Markdown', 'md', 'text/markdown', asMarkdown], ['LaTeX', 'tex', 'text/x-tex', asLatex]];

/* Hides the rows that the table's own filter or the filter of arms leaves out. */
function filterRows(table) {
  const { test, status } = table.filter || {};
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].map(cellText);
  const armOf = new Map(data.arms.map((arm, index) => [arm.label, index]));
  rows.forEach((row) => {
    const cells = [...row.cells].map(cellText);
    const arms = [...row.querySelectorAll('[data-arm-label]')].map((part) => armOf.get(part.dataset.armLabel)).filter((arm) => arm !== undefined);
    const fields = Object.assign({}, ...arms.map((arm) => data.arms[arm].fields), Object.fromEntries(cells.map((text, at) => [heads[at], text])));
    row.hidden = Boolean(arms.length && !arms.some(armMatches)) || Boolean(test && !test({ text: cells.join(' '), fields }));
  });
  const left = rows.filter((row) => !row.hidden).length;
  if (status) status.textContent = test === null ? 'not a regular expression' : left < rows.length ? `${left} of ${rows.length} rows` : '';
}

function buildTable(scroll) {
  const table = scroll.querySelector('table');
  const heads = [...table.tHead.rows[0].cells];
  const tools = document.createElement('div');
  tools.className = 'tools of-table';
  if (table.tBodies[0].rows.length > 5) {
    const [field, status] = [document.createElement('input'), document.createElement('span')];
    field.type = 'search';
    field.placeholder = 'words, key=value, /regex/';
    field.setAttribute('aria-label', 'filter rows of: ' + table.caption.textContent);
    status.setAttribute('aria-live', 'polite');
    table.filter = { test: undefined, status };
    field.addEventListener('input', () => {
      table.filter.test = field.value.trim() ? matcher(field.value) : undefined;
      filterRows(table);
    });
    tools.append(field, status);
  }
  tools.append(...FORMATS.map(([label, ending, type, written]) => button(label, `save this table as ${label}`, () => {
    save(written(contentOf(table)), fileName(table.caption.textContent.replace(/[(,].*/, '')) + '.' + ending, type);
  })));
  scroll.before(tools);
  if (armTest) filterRows(table);
  if (table.tBodies[0].rows.length < 2) return;
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const pressed = button('', '', () => sortBy(table, column, heads));
    pressed.className = 'sort';
    pressed.append(...head.childNodes);
    head.replaceChildren(pressed);
  });
}
