// The ledger's cards, the chart of one page and the list of the busiest.
import { drawChart, drawSpark } from "./chart.js";
import { ask } from "./ask.js";
import { pageName } from "./names.js";

const el = id => document.getElementById(id);
const format = new Intl.NumberFormat("en").format;
const mustBeZero = new Set(["duplicated", "unexpected"]);
const kinds = ["accepted", "refused", "errors", "pending", "duplicated", "unexpected", "inversions", "events"];

const share = (part, whole) => part > 0 ? (100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0) + " % of calls" : "";

function showCards(r) {
  const t = r.totals, calls = t.calls + t.refused + t.rejected + t.errors;
  const notes = {
    accepted: "of " + format(t.expected) + (t.calls < t.accepted ? ", in " + format(t.calls) + " calls" : " expected"),
    refused: share(t.refused, calls),
    errors: share(t.errors, calls),
    pending: t.pending ? "oldest for " + r.pending_age_max.toFixed(1) + " s" : "nothing is lost",
    duplicated: "", unexpected: "", inversions: "", events: "",
  };
  for (const key of kinds) {
    const box = el("card-" + key), [dd, note] = box.querySelectorAll("dd");
    dd.textContent = format(t[key]);
    note.textContent = notes[key];
    box.className = mustBeZero.has(key) && t[key] > 0 ? "bad" : "";
  }
}

let latest = null; // what was shown last
let chosen = null; // the page that the reader chose
let order = [], orderedAt = 0;
let notify = () => {};
const rows = new Map();

export const selected = () => chosen;
export const onSelect = f => { notify = f; };

function choose(page) {
  chosen = page;
  if (latest) showPages(latest);
  notify();
}

function row(id) {
  const li = document.createElement("li"), button = document.createElement("button");
  const cell = (tag, name) => { const e = document.createElement(tag); e.className = name; button.append(e); return e; };
  button.type = "button";
  const name = cell("span", "name");
  name.textContent = pageName(id);
  button.title = "Page " + id;
  button.dataset.page = id;
  const r = { li, button, spark: cell("canvas", ""), ok: cell("span", "n"), no: cell("span", "n bad") };
  r.spark.setAttribute("aria-hidden", "true");
  button.addEventListener("click", () => choose(id));
  li.append(button);
  return r;
}

// lastFull returns the number of the last second that is over.
const lastFull = list => list.at(-2) ?? 0;

// showPages lists the pages. Their order follows their activity, but not more
// often than every five seconds, and not under the reader's pointer or focus.
function showPages(r) {
  const byID = new Map(r.pages.map(p => [p.page, p])), list = el("pages");
  const inUse = list.matches(":hover, :focus-within");
  const gone = order.some(id => !byID.has(id)), came = r.pages.some(p => !order.includes(p.page));
  if (gone || came || !inUse && Date.now() - orderedAt > 5000) {
    order = r.pages.map(p => p.page);
    orderedAt = Date.now();
  }
  for (const [id, old] of rows) if (!byID.has(id)) { old.li.remove(); rows.delete(id); }
  const shown = byID.has(chosen) ? chosen : order[0];
  order.forEach((id, i) => {
    if (!rows.has(id)) rows.set(id, row(id));
    const { li, button, spark, ok, no } = rows.get(id), page = byID.get(id);
    if (list.children[i] !== li) list.insertBefore(li, list.children[i] ?? null);
    button.setAttribute("aria-pressed", String(id === shown));
    ok.textContent = format(lastFull(page.accepted)) + "/s";
    no.textContent = lastFull(page.refused) > 0 ? "+" + format(lastFull(page.refused)) + "/s" : "–";
    no.className = lastFull(page.refused) > 0 ? "n bad" : "n zero";
    drawSpark(spark, page);
  });
  el("pages-hint").textContent = r.all > r.pages.length ? "The busiest " + r.pages.length + " of " + format(r.all) + " pages" : "";
  return byID.get(shown);
}

function showChart(page) {
  const canvas = el("chart"), ok = lastFull(page.accepted), no = lastFull(page.refused);
  el("chart-title").textContent = page.page ? pageName(page.page) + ", sends/s" : "Sends/s";
  el("rate-accepted").textContent = format(ok);
  el("rate-refused").textContent = format(no);
  el("rate-limit").textContent = format(page.limit);
  canvas.setAttribute("aria-label", "Page " + page.page + ", last second: " + ok + " accepted, " + no + " refused, the limit is " + page.limit + ".");
  Object.assign(canvas.dataset, { page: page.page, limit: page.limit, accepted: page.accepted.join(), refused: page.refused.join() });
  drawChart(canvas, page);
}

export function showNumbers(r) {
  latest = r;
  showCards(r);
  const page = showPages(r);
  showChart(page ?? { page: "", limit: r.limit, accepted: Array(120).fill(0), refused: Array(120).fill(0) });
}

const again = () => { if (latest) showNumbers(latest); };
new ResizeObserver(again).observe(el("chart"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

el("reset").addEventListener("click", () => ask("POST", "ledger/reset"));
