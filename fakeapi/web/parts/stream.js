// The stream that feeds a page. The browser opens it again when it is lost, but not
// after an answer that is no stream, so that this does it then. The page says
// whether its figures are those of now.
import { el, setClass, setText } from "./dom.js";
import { clock } from "./format.js";

const silence = 3000; // something comes four times a second

// showLive says whether something comes. since is when the last came, 0 while it does.
function showLive(since) {
  const lost = since > 0;
  document.body.classList.toggle("lost", lost);
  document.title = (lost ? "(!) " : "") + document.title.replace(/^\(!\) /, "");
  setText(el("live"), lost ? "Connection lost" : "Live");
  setClass(el("live"), lost ? "live off" : "live on");
  el("lost-since").hidden = !lost;
  setText(el("lost-since"), lost ? "No data since " + clock(since) : "");
}

// listen opens the stream at address(), and calls the function that is named like an
// event with what arrives. It returns a function that reopens the stream.
export function listen(address, show) {
  let source = null, heard = Date.now(), live = null;

  function lose() {
    if (live === false) return;
    live = false;
    showLive(heard);
  }
  function hear(f, e) {
    heard = Date.now();
    if (!live) {
      live = true;
      showLive(0);
    }
    f(JSON.parse(e.data));
  }
  function open() {
    source?.close();
    source = new EventSource(address());
    for (const [name, f] of Object.entries(show)) source.addEventListener(name, e => hear(f, e));
    source.addEventListener("error", lose);
  }
  open();
  setInterval(() => {
    if (Date.now() - heard > silence) lose();
    if (source.readyState === EventSource.CLOSED) open();
  }, 1000);
  return open;
}
