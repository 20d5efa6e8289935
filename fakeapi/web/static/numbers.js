// The verdict, the ledger's counts, the chart of one page and the list of the busiest.
import { ask } from "./ask.js";
import { bars, drawSpark, steps } from "./bars.js";
import { palette, plot, slots } from "./canvas.js";
import { newCursor } from "./cursor.js";
import { el, make } from "./dom.js";
import { clock, count, pageName } from "./format.js";
import { forgetLimits, limitsOf, noteLimits } from "./limits.js";
import { notify } from "./notice.js";

const kinds = ["accepted", "refused", "errors", "pending", "events"];

// share returns a part in percent. What is there is never shown as nothing.
function share(part, whole) {
  if (part === 0) return "0 %";
  const percent = 100 * part / whole;
  return percent < 0.1 ? "< 0.1 %" : percent.toFixed(percent < 10 ? 1 : 0) + " %";
}

function showCount(e, n, word, bad) {
  e.textContent = count(n) + " " + word;
  e.className = bad ? "bad" : "";
}

// showVerdict says what was lost. While ids are awaited that is not known.
function showVerdict(t) {
  showCount(el("missing"), t.pending, t.pending > 0 ? "awaited" : "lost", false);
  showCount(el("doubled"), t.duplicated, "doubled", t.duplicated > 0);
  showCount(el("unexpected"), t.unexpected, "unexpected", true);
  el("unexpected").hidden = t.unexpected === 0;
  el("expected").textContent = "of " + count(t.expected) + " messages";
}

function showCards(r) {
  const t = r.totals, calls = t.calls + t.refused + t.rejected + t.errors;
  const notes = {
    accepted: t.calls < t.accepted ? "in " + count(t.calls) + " calls" : "",
    refused: t.refused > 0 ? share(t.refused, calls) + " of calls" : "",
    errors: t.errors > 0 ? share(t.errors, calls) + " of calls" : "",
    pending: t.pending > 0 ? "oldest " + r.pending_age_max.toFixed(1) + " s" : "",
    events: "",
  };
  const show = (key, text, note, zero) => {
    const box = el("card-" + key), [dd, small] = box.querySelectorAll("dd");
    dd.textContent = text;
    small.textContent = note;
    box.className = zero ? "zero" : "";
  };
  for (const key of kinds) show(key, count(t[key]), notes[key], t[key] === 0);
  show("inversions", share(t.inversions, t.accepted), t.inversions > 0 ? count(t.inversions) + " copies" : "", t.inversions === 0);
}

let latest = null; // what was shown last
let chosen = null; // the page that the reader chose
let order = [], orderedAt = 0;
let chose = () => {};
const rows = new Map();

export const selected = () => chosen;
export const onSelect = f => { chose = f; };

function choose(page) {
  chosen = page;
  if (latest) show(latest);
  chose();
}

function row(id) {
  const li = make("li"), button = make("button");
  const cell = (tag, name) => { const e = make(tag, name); button.append(e); return e; };
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
    ok.textContent = count(lastFull(page.accepted)) + "/s";
    no.textContent = lastFull(page.refused) > 0 ? "+" + count(lastFull(page.refused)) + "/s" : "–";
    no.className = lastFull(page.refused) > 0 ? "n bad" : "n zero";
    drawSpark(spark, "green", page.accepted, page.refused, page.limit);
  });
  el("pages-hint").hidden = r.all <= r.pages.length;
  el("pages-hint").textContent = "The busiest " + r.pages.length + " of " + count(r.all) + " pages";
  return byID.get(shown);
}

let at = null; // the second under the cursor, counted from the left
let drawn = null; // what the chart shows

// tell returns what the chart shows in a slot, as lines of text.
function tell(i) {
  if (!drawn) return [];
  const { page, limits, last } = drawn;
  return [
    clock((last - slots + 1 + i) * 1000),
    count(page.accepted[i]) + " accepted",
    count(page.refused[i]) + " refused",
    "limit " + count(limits[i]),
  ];
}

const cursor = newCursor(el("chart"), el("tip"), tell, i => {
  at = i;
  again();
});

function drawChart(canvas, page, limits) {
  const color = palette();
  const most = Math.max(4, Math.max(...limits) * 1.1, ...page.accepted.map((ok, i) => ok + page.refused[i]));
  const p = plot(canvas, { top: 10, most, label: count, slot: at });
  bars(p, { fill: color.green, accepted: page.accepted, refused: page.refused, first: 0, running: true });
  steps(p, limits, 0, { color: color.ink, width: 1.5, dash: [5, 4] });
}

function showChart(page, last) {
  const canvas = el("chart"), ok = lastFull(page.accepted), no = lastFull(page.refused);
  const limits = limitsOf(page.page, page.limit, last, slots);
  drawn = { page, limits, last };
  el("chart-title").textContent = page.page ? pageName(page.page) + ", sends/s" : "Sends/s";
  el("rate-accepted").textContent = count(ok);
  el("rate-refused").textContent = count(no);
  el("rate-limit").textContent = count(page.limit);
  canvas.setAttribute("aria-label", "Page " + page.page + ", last second: " + ok + " accepted, " + no + " refused, the limit is " + page.limit + ". Choose a second with the arrow keys.");
  Object.assign(canvas.dataset, { page: page.page, limit: page.limit, accepted: page.accepted.join(), refused: page.refused.join(), limits: limits.join() });
  drawChart(canvas, page, limits);
  cursor.show(at);
}

const second = r => Math.floor(Date.parse(r.now) / 1000);

function show(r) {
  showVerdict(r.totals);
  showCards(r);
  const page = showPages(r), nothing = Array(slots).fill(0);
  showChart(page ?? { page: "", limit: r.limit, accepted: nothing, refused: nothing }, second(r));
}

export function showNumbers(r) {
  if (latest && latest.started !== r.started) {
    forgetLimits();
    notify("The platform was restarted at " + clock(r.started) + ".", 15000);
  }
  latest = r;
  noteLimits(r.pages, second(r), slots);
  show(r);
}

const again = () => { if (latest) show(latest); };
new ResizeObserver(again).observe(el("chart"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

el("reset").addEventListener("click", () => {
  const awaited = latest?.totals.pending ?? 0;
  el("reset-text").textContent = "Clear the ledger? Its counts are gone for good." +
    (awaited > 0 ? " The " + count(awaited) + " that are awaited will be unexpected when they come." : "");
  el("reset-question").showModal();
});
el("reset-no").addEventListener("click", () => el("reset-question").close());
el("reset-yes").addEventListener("click", () => {
  el("reset-question").close();
  ask("POST", "ledger/reset");
});
