// The theme's search runs in a worker, which a page opened from a file may start only from text that it holds,
// and reads an index, which such a page may only load as a script. WORKER is the text of the theme's worker, which
// offline.py writes above. A page of a server takes the index from the same script, so that the site has it once.
const INDEX = new URL("search_index.js", document.currentScript.src);

window.Worker = class extends Worker {
  constructor(address) {
    const fromFile = location.protocol === "file:";
    super(fromFile ? URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })) : address);
  }

  postMessage(message) {
    // The first message, of type 0, has the index.
    if (message.type !== 0 || message.data.docs.length) return super.postMessage(message);
    const script = document.createElement("script");
    script.src = INDEX;
    script.onload = () => super.postMessage({ ...message, data: { ...message.data, docs: __index.docs } });
    document.head.append(script);
  }
};
