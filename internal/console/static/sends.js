// The chart of one page: a bar a second, accepted below and refused on top, what
// was asked as a line, the limit as it was in each second, and markers.
import { bars, steps } from "./bars.js";
import { at, plot, slotOf, slots } from "./canvas.js";
import { el, setText } from "./dom.js";
import { clock, count } from "./format.js";

const rowHeight = 18;

// markerRows is how many rows of words there is room for.
const markerRows = canvas => canvas.clientHeight < 240 ? 2 : 3;

const markersOf = (s, id) => s.markers.filter(m => !m.page || m.page === id);

export function drawSends(s, id, slot) {
  const page = s.pages.find(p => p.id === id), canvas = el("chart");
  const title = page ? page.name + ": sends per second" : "Sends per second";
  setText(el("chart-title"), title);
  canvas.setAttribute("aria-label", title + ", choose a second with the arrow keys");
  for (const key of ["sent", "refused", "asked"]) setText(el("now-" + key), count(page?.[key] ?? 0));
  setText(el("now-limit"), page?.limit > 0 ? count(page.limit) : "unknown");
  el("chart-title").closest("section").className = "panel sends p" + (page?.color ?? 0);
  el("clock-note").hidden = true;
  if (!page) return;
  const h = page.history, first = slots - h.sent.length;
  const most = Math.max(4, page.limit * 1.1, ...h.limit, ...h.asked, ...h.sent.map((n, i) => n + h.refused[i]));
  const moments = markersOf(s, id), rows = Math.min(moments.length, markerRows(canvas));
  const p = plot(canvas, { top: 8 + rows * rowHeight, most, label: count, slot });
  excess(p, h, first);
  bars(p, { fill: p.color["p" + page.color], accepted: h.sent, refused: h.refused, first });
  steps(p, h.asked, first, { color: p.color.soft, width: 1, dash: [] });
  steps(p, h.limit, first, { color: p.color.ink, width: 1.5, dash: [5, 4] });
  markers(p, moments, h.end, rows);
  canvas.dataset.page = id;
  el("clock-note").hidden = !h.sent.some((n, i) => h.limit[i] > 0 && n > h.limit[i]);
}

// excess marks what was asked beyond the limit, and must wait.
function excess({ c, color, x, y, step }, h, first) {
  c.globalAlpha = 0.12;
  c.fillStyle = color.amber;
  h.asked.forEach((asked, i) => {
    if (h.limit[i] > 0 && asked > h.limit[i]) c.fillRect(x(first + i), y(asked), step, y(h.limit[i]) - y(asked));
  });
  c.globalAlpha = 1;
}

// markers puts a line at each moment, and its words where there is room.
function markers({ c, color, x, y, top, width }, list, end, rows) {
  const taken = Array(rows).fill(-Infinity); // right ends of the words in each row
  const words = [];
  c.textBaseline = "middle";
  c.textAlign = "left";
  for (const m of list) {
    const i = slotOf(m.at, end);
    if (i < 0) continue;
    const px = Math.round(x(Math.min(i, slots))), w = c.measureText(m.text).width;
    const left = Math.max(0, Math.min(px + 6, width - w - 2)), row = taken.findIndex(r => r + 12 < left);
    const above = row < 0 ? top : 4 + row * rowHeight;
    c.fillStyle = color.soft;
    c.fillRect(px, above, 1, y(0) - above);
    if (row < 0) continue;
    taken[row] = left + w;
    words.push({ text: m.text, left, above, w });
  }
  for (const { text, left, above, w } of words) { // after the lines, so that none crosses them
    c.fillStyle = color.panel;
    c.fillRect(left - 2, above, w + 4, rowHeight);
    c.fillStyle = color.ink;
    c.fillText(text, left, above + rowHeight / 2);
  }
}

// tellSends returns what the chart shows in a slot, as lines of text.
export function tellSends(s, id, slot) {
  const page = s.pages.find(p => p.id === id), h = page?.history, i = h ? at(slot, h.sent.length) : -1;
  if (i < 0) return [];
  const second = h.end - h.sent.length + 1 + i;
  return [
    clock(second * 1000),
    count(h.sent[i]) + " accepted" + (h.limit[i] > 0 ? " of " + count(h.limit[i]) : ""),
    count(h.refused[i]) + " refused",
    count(h.asked[i]) + " asked",
    count(h.waiting[i]) + " waiting",
    ...markersOf(s, id).filter(m => Math.floor(new Date(m.at) / 1000) === second).map(m => m.text),
  ];
}
