// The chart of the delay of all pages but the chosen one and those in excess: a
// line for each. It shows whether a page in excess harms the others.
import { at, plot, slots } from "./canvas.js";
import { el, setText } from "./dom.js";
import { clock, duration } from "./format.js";

// ceiling is the least that the scale shows, so that some milliseconds look like
// what they are.
const ceiling = 200;

const others = (s, id) => s.pages.filter(p => p.id !== id && p.state !== "excess");

export function drawDelays(s, id, slot) {
  const list = others(s, id), canvas = el("delay");
  const worst = Math.max(0, ...list.map(p => p.delay));
  setText(el("now-delay"), list.length > 0 ? "now " + duration(worst) + (list.length > 1 ? " at most" : "") : "–");
  const most = Math.max(ceiling, ...list.flatMap(p => p.history.delay)) * 1.05;
  const { c, color, x, y } = plot(canvas, { top: 8, most, label: v => duration(v / 1000), slot });
  c.lineWidth = 1.5;
  c.lineJoin = "round";
  for (const p of list) {
    const first = slots - p.history.delay.length;
    c.strokeStyle = color["p" + p.color];
    c.beginPath();
    p.history.delay.forEach((v, i) => c.lineTo(x(first + i + 0.5), y(v)));
    c.stroke();
  }
}

// tellDelays returns what the chart shows in a slot, as lines of text.
export function tellDelays(s, id, slot) {
  const lines = [];
  let second = 0;
  for (const p of others(s, id)) {
    const n = p.history.delay.length, i = at(slot, n);
    if (i < 0) continue;
    second = p.history.end - n + 1 + i;
    lines.push(p.name + " " + duration(p.history.delay[i] / 1000));
  }
  return second ? [clock(second * 1000), ...lines] : [];
}
