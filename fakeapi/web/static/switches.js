// The switches lay one setting at a time over those in force. They show the
// settings in force, also those that were set elsewhere.
import { ask } from "./ask.js";
import { el, make } from "./dom.js";

const form = el("switches");
const fields = [...form.querySelectorAll("[data-path]")];
const shares = [[0, "never"], [0.01, "1 % of sends"], [0.05, "5 %"], [0.2, "20 %"], [1, "always"]];

function option(value, text) {
  const o = make("option", "", text);
  o.value = String(value);
  return o;
}

for (const f of fields) if (f.dataset.type === "share") f.append(...shares.map(([v, text]) => option(v, text)));

// patch returns {"a":{"b":value}} for the path a.b.
const patch = (path, value) => path.split(".").reverse().reduce((inner, key) => ({ [key]: inner }), value);

function read(f) {
  switch (f.dataset.type) {
    case "bool": return f.checked;
    case "number": case "share": return Number(f.value);
    default: return f.value;
  }
}

let inForce = null;

form.addEventListener("change", async e => {
  const f = e.target;
  if (!f.dataset.path) return;
  const change = patch(f.dataset.path, read(f));
  // Longer than a call may take, so that the sender gives up first.
  if (f.dataset.path === "faults.timeout") change.faults.timeout_after = "15s";
  if (!f.checkValidity() || !await ask("POST", "control", change)) {
    if (inForce) showSettings(inForce);
  }
});
form.addEventListener("submit", e => e.preventDefault());

el("calm").addEventListener("click", () => ask("POST", "control", {
  faults: { server_error: 0, reset_before: 0, reset_after: 0, timeout: 0, sent_yet: 0, swallow: 0, slow_body: 0, null_item: 0, refuse: false },
}));
el("refuse").addEventListener("click", () => ask("POST", "control", {
  faults: { refuse_until: new Date(Date.now() + 10000).toISOString() },
}));

export function showSettings(s) {
  inForce = s;
  for (const f of fields) {
    const value = f.dataset.path.split(".").reduce((o, key) => o?.[key], s);
    if (f.dataset.type === "bool") {
      f.checked = Boolean(value);
      continue;
    }
    if (f.tagName === "SELECT" && ![...f.options].some(o => o.value === String(value))) {
      f.append(option(value, f.dataset.type === "share" ? 100 * value + " %" : String(value)));
    }
    if (f !== document.activeElement || f.tagName === "SELECT") f.value = String(value);
    f.classList.toggle("on", f.dataset.type === "share" && value > 0);
  }
}
