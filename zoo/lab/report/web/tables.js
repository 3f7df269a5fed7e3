/* Tables are sorted by clicking a column's name, filtered by words, and saved as CSV, Markdown and LaTeX, as shown. */
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

function contentOf(table) {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const heads = [...table.tHead.rows[0].cells];
  return { caption: cellText(table.caption), right: heads.map((head) => head.classList.contains('number')),
    rows: [heads.map(cellText), ...rows.map((row) => [...row.cells].map(cellText))] };
}

function asCsv({ rows }) {
  // A spreadsheet would treat "=..." as a formula; a number may begin with a sign.
  const isNumeric = (text) => /^[+-]?[\d.,]+(e[+-]?\d+)?( ?%)?( (±|to) [+-]?[\d.,]+(e[+-]?\d+)?( ?%)?)?$/i.test(text);
  const safe = (text) => (/^[=+@\t\r-]/.test(text) && !isNumeric(text) && text.length > 1 ? "'" + text : text);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map((text) => quoted(safe(text.replaceAll('−', '-')))).join(',')).join('\r\n') + '\r\n';
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

function filterRows(table, text, status) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row) => {
    const content = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => content.includes(word));
  });
  const left = rows.filter((row) => !row.hidden).length;
  status.textContent = words.length ? `${left} of ${rows.length} rows` : '';
}

function buildTable(scroll) {
  const table = scroll.querySelector('table');
  const heads = [...table.tHead.rows[0].cells];
  const tools = document.createElement('div');
  tools.className = 'tools of-table';
  if (table.tBodies[0].rows.length > 5) {
    const [field, status] = [document.createElement('input'), document.createElement('span')];
    field.type = 'search';
    field.placeholder = 'filter rows';
    field.setAttribute('aria-label', 'filter rows of: ' + table.caption.textContent);
    status.setAttribute('aria-live', 'polite');
    field.addEventListener('input', () => filterRows(table, field.value, status));
    tools.append(field, status);
  }
  tools.append(...FORMATS.map(([label, ending, type, written]) => button(label, `save this table as ${label}`, () => {
    save(written(contentOf(table)), fileName(table.caption.textContent.replace(/[(,].*/, '')) + '.' + ending, type);
  })));
  scroll.before(tools);
  if (table.tBodies[0].rows.length < 2) return;
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const pressed = button(head.textContent, '', () => sortBy(table, column, heads));
    pressed.className = 'sort';
    head.replaceChildren(pressed);
  });
}
