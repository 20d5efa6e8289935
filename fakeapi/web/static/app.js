// The page has one stream, for numbers, phones and settings. When it is lost the
// browser opens it again, and everything is complete at once.
import { showNumbers, selected, onSelect } from "./numbers.js";
import { showPhones } from "./phones.js";
import { showSettings } from "./switches.js";

const state = document.getElementById("state");
let source = null;

function say(text, kind) {
  if (state.textContent !== text) state.textContent = text;
  state.className = "state " + kind;
}

function listen() {
  source?.close();
  source = new EventSource("events?page=" + encodeURIComponent(selected() ?? ""));
  source.addEventListener("open", () => say("Live", "live"));
  source.addEventListener("error", () => say("Connection lost", "off"));
  source.addEventListener("numbers", e => showNumbers(JSON.parse(e.data)));
  source.addEventListener("phones", e => showPhones(JSON.parse(e.data)));
  source.addEventListener("settings", e => showSettings(JSON.parse(e.data)));
}

onSelect(listen); // the selected page's numbers come even when others are busier
listen();
