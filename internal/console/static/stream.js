// The stream of the system's state. The browser opens it again when it is lost,
// but not after an answer that is no stream, so that this does it then.
const silence = 3000; // the state comes four times a second

// listen calls on.state and on.phones with what arrives, on.lost with the time of
// the last event when nothing comes any more, and on.found when something does.
export function listen(on) {
  let source = null, heard = Date.now(), live = null;

  function lose() {
    if (live === false) return;
    live = false;
    on.lost(heard);
  }
  function hear(show, e) {
    heard = Date.now();
    if (!live) {
      live = true;
      on.found();
    }
    show(JSON.parse(e.data));
  }
  function open() {
    source?.close();
    source = new EventSource("state");
    source.addEventListener("state", e => hear(on.state, e));
    source.addEventListener("phones", e => hear(on.phones, e));
    source.addEventListener("error", lose);
  }
  open();
  setInterval(() => {
    if (Date.now() - heard > silence) lose();
    if (source.readyState === EventSource.CLOSED) open();
  }, 1000);
}
