/* Filters of arms and of rows: words, key=value and /regex/, all of which must apply. */

/* Returns a test of {text, fields}, where fields are values by name; the test of a regular expression that is none is null. */
function matcher(written) {
  const text = written.trim();
  const parts = /^\/.*\/$/.test(text) ? [text] : text.split(/\s+/).filter(Boolean);
  const tests = parts.map((part) => {
    if (part.length > 2 && part.startsWith('/') && part.endsWith('/')) {
      try {
        const pattern = new RegExp(part.slice(1, -1), 'i');
        return (one) => pattern.test(one.text);
      } catch {
        return null;
      }
    }
    const found = /^([^=]+)=(.+)$/.exec(part);
    const plain = (one) => one.text.toLowerCase().includes(part.toLowerCase());
    if (!found) return plain;
    const [key, value] = found.slice(1).map((word) => word.toLowerCase());
    // A key is a column, a factor, or a field of the config by its full name or its last part. A text may have "=" in it too.
    return (one) => {
      const named = Object.entries(one.fields).filter(([name]) => name.toLowerCase() === key || name.toLowerCase().endsWith('.' + key));
      return named.length ? named.some(([, there]) => there.toLowerCase() === value) : plain(one);
    };
  });
  return tests.includes(null) ? null : (one) => tests.every((test) => test(one));
}

let armTest = null;

function setArmFilter(text) {
  const test = text ? matcher(text) : null;
  armTest = test;
  state.filter = text;
  return !text || test !== null;
}

const armMatches = (index) => !armTest || armTest({ text: data.arms[index].label, fields: data.arms[index].fields });
const isShown = (index) => !state.hidden.has(index) && armMatches(index);
