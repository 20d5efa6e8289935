// The page has one stream, for numbers, phones and settings. When it is lost the
// browser opens it again, and everything is complete at once.
import { clock } from "./names.js";
import { showNumbers, selected, onSelect } from "./numbers.js";
import { showPhones } from "./phones.js";
import { showSettings } from "./switches.js";

const silence = 3000; // milliseconds without numbers, which come four times a second
const state = document.getElementById("state"), lostSince = document.getElementById("lost-since");
let source = null, heard = Date.now(), live = null;

function setLive(yes) {
  if (live === yes) return;
  live = yes;
  state.textContent = yes ? "Live" : "Connection lost";
  state.className = yes ? "state live" : "state off";
  document.body.classList.toggle("lost", !yes);
  lostSince.textContent = yes ? "" : "No data since " + clock(heard);
  lostSince.hidden = yes;
}

function listen() {
  source?.close();
  source = new EventSource("events?page=" + encodeURIComponent(selected() ?? ""));
  source.addEventListener("error", () => setLive(false));
  for (const [name, show] of Object.entries({ numbers: showNumbers, phones: showPhones, settings: showSettings })) {
    source.addEventListener(name, e => {
      heard = Date.now();
      setLive(true);
      show(JSON.parse(e.data));
    });
  }
}

onSelect(listen); // the selected page's numbers come even when others are busier
listen();
setInterval(() => {
  if (Date.now() - heard > silence) setLive(false);
  if (source.readyState === EventSource.CLOSED) listen(); // the browser does not after an answer that is no stream
}, 1000);
