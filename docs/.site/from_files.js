// A page that was opened from a file may not start a worker from another file, and the search runs in one.
// It may start a worker from text that it holds: WORKER is the theme's, which offline.py writes above.
if (location.protocol === "file:") {
  const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
  const FileWorker = window.Worker;
  window.Worker = function () {
    return new FileWorker(address);
  };
}
