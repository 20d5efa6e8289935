// The dead letters. They are looked at when the reader asks, not all the time: looking
// holds them, so that nobody else can.
import { el, make, setText } from "./dom.js";
import { count, duration, plural } from "./format.js";
import { notify } from "./notice.js";

const chosen = new Set(); // ids
let letters = [], total = 0, readOnly = true, busy = false;
let found = {}; // what means the letters of total, and none that died later

// fetchJSON returns the answer to a request, or undefined: then the reason is shown.
async function fetchJSON(method, path, body) {
  try {
    const r = await fetch(path, {
      method, headers: body && { "Content-Type": "application/json" }, body: body && JSON.stringify(body),
    });
    const answer = await r.json();
    if (r.ok) return answer;
    notify(answer.error.charAt(0).toUpperCase() + answer.error.slice(1) + ".");
  } catch {
    notify("The server does not answer.");
  }
}

const sum = counts => Object.values(counts).reduce((n, k) => n + k, 0);
const word = reason => reason ? reason.replaceAll("_", " ") : "moved by the broker";
const byReason = counts => Object.entries(counts).sort((a, b) => b[1] - a[1]).map(([reason, n]) => count(n) + " " + word(reason)).join(", ");

// filter is what the fields say.
const filter = () => ({ page: el("dead-page").value.trim(), reason: el("dead-reason").value });

async function look() {
  const asked = filter(), answer = await fetchJSON("GET", "dead?" + new URLSearchParams(asked));
  if (!answer) return;
  found = { ...asked, before: answer.before };
  letters = answer.letters;
  total = answer.total;
  for (const reason of answer.known) {
    if ([...el("dead-reason").options].some(o => o.value === reason)) continue;
    el("dead-reason").append(new Option(word(reason), reason));
  }
  chosen.clear();
  setText(el("dead-sum"), total === 0 ? "No dead letters" : plural(total, "dead letter", "dead letters") + ": " + byReason(answer.reasons) +
    (total > letters.length ? ". The oldest " + count(letters.length) + " are shown." : ""));
  el("dead-letters").replaceChildren(...letters.map(row));
  showChoice();
}

function row(letter) {
  const tr = make("tr"), box = make("input"), codes = [...new Set([letter.first_code, letter.last_code])].filter(Boolean).join(", ");
  tr.dataset.id = letter.id;
  box.type = "checkbox";
  box.setAttribute("aria-label", "Choose " + letter.id);
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(letter.id);
    else chosen.delete(letter.id);
    showChoice();
  });
  const cell = (className, ...content) => {
    const td = make("td", className);
    td.append(...content);
    tr.append(td);
    return td;
  };
  cell("", box);
  cell("age", letter.time ? duration(Math.max(0, (Date.now() - new Date(letter.time)) / 1000)) : "–").title = letter.time ?? "";
  cell("reason", word(letter.reason));
  cell("of-page", letter.page ?? "–");
  cell("error", letter.error ?? (codes ? "code " + codes : "–")).title =
    plural(letter.attempts, "call", "calls") + (codes ? ", code " + codes : "");
  cell("id", letter.id);
  const button = make("button", "small", "Payload");
  button.type = "button";
  button.hidden = readOnly;
  button.setAttribute("aria-label", "Payload of " + letter.id);
  button.addEventListener("click", () => payload(tr, button, letter.id));
  cell("", button);
  return tr;
}

// payload shows or hides the message itself, with what its user wrote.
async function payload(tr, button, id) {
  if (tr.nextElementSibling?.classList.contains("payload")) {
    tr.nextElementSibling.remove();
    return setText(button, "Payload");
  }
  const answer = await fetchJSON("GET", "dead/payload?" + new URLSearchParams({ id }));
  if (!answer || tr.nextElementSibling?.classList.contains("payload")) return;
  const shown = make("tr", "payload"), td = make("td");
  td.colSpan = 7;
  td.append(...answer.payloads.map(text => make("pre", "", text)));
  shown.append(td);
  tr.after(shown);
  setText(button, "Hide");
}

// meant is what the buttons are for: the chosen letters, or else all that were found.
const meant = () => chosen.size > 0 ? { ids: [...chosen] } : found;
const many = () => chosen.size > 0 ? letters.filter(l => chosen.has(l.id)).length : total;

function showChoice() {
  const all = chosen.size > 0 ? plural(many(), "letter", "letters") : "all " + count(total);
  setText(el("dead-replay"), "Replay " + all);
  setText(el("dead-purge"), "Purge " + all);
  for (const id of ["dead-replay", "dead-purge"]) el(id).disabled = busy || total === 0;
  el("dead-all").checked = letters.length > 0 && letters.every(l => chosen.has(l.id));
  el("dead-question").hidden = true;
}

// work does something with the letters that are meant, says what was done, and looks
// again.
async function work(path, body, tell) {
  busy = true;
  showChoice();
  const answer = await fetchJSON("POST", path, body);
  busy = false;
  if (answer) notify(tell(answer));
  await look();
  showChoice();
}

el("dead-open").addEventListener("click", () => {
  const open = el("dead-box").hidden;
  el("dead-box").hidden = !open;
  el("dead-open").setAttribute("aria-expanded", String(open));
  setText(el("dead-open"), open ? "Hide" : "Show");
  if (open) look();
});
el("dead-filter").addEventListener("submit", e => {
  e.preventDefault();
  look();
});
el("dead-all").addEventListener("change", () => {
  chosen.clear();
  if (el("dead-all").checked) for (const l of letters) chosen.add(l.id);
  for (const tr of el("dead-letters").querySelectorAll("[data-id]")) tr.querySelector("input").checked = chosen.has(tr.dataset.id);
  showChoice();
});
el("dead-replay").addEventListener("click", () => work("dead/replay", { ...meant(), renew: el("dead-renew").checked }, answer =>
  plural(sum(answer.replayed), "letter", "letters") + " replayed." + (sum(answer.kept) > 0 ? " " + count(sum(answer.kept)) + " cannot be: they are none of our messages." : "")));
el("dead-purge").addEventListener("click", () => {
  setText(el("dead-question").firstChild, "Purge " + plural(many(), "letter", "letters") + "? What is removed is gone.");
  el("dead-question").hidden = false;
  el("dead-no").focus();
});
el("dead-no").addEventListener("click", showChoice);
el("dead-yes").addEventListener("click", () => work("dead/purge", meant(), answer => plural(sum(answer.purged), "letter", "letters") + " purged."));

// showDead shows how many there are.
export function showDead(s) {
  el("dead").hidden = !s.dead;
  if (!s.dead) return;
  readOnly = s.read_only;
  el("dead-actions").hidden = readOnly;
  setText(el("dead-count"), s.dead.count < 0 ? "" : count(s.dead.count));
  el("dead-count").title = s.dead.error ?? "";
}
