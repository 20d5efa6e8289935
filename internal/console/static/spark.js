// The small chart in a page's row: what was sent in the last half minute, and
// the limit.
import { fit, palette } from "./canvas.js";

const seconds = 30;

export function drawSpark(canvas, page) {
  const { c, width, height } = fit(canvas), color = palette();
  const sent = page.history.sent.slice(-seconds), refused = page.history.refused.slice(-seconds);
  const ceiling = Math.max(1, page.limit * 1.08, ...sent.map((n, i) => n + refused[i]));
  const step = width / seconds, first = seconds - sent.length, y = v => (1 - v / ceiling) * height;
  sent.forEach((n, i) => {
    const x = (first + i) * step, gap = step > 3 ? 1 : 0;
    c.fillStyle = color["p" + page.color];
    c.fillRect(x, y(n), step - gap, height - y(n));
    c.fillStyle = color.red;
    c.fillRect(x, y(n + refused[i]), step - gap, y(n) - y(n + refused[i]));
  });
  if (page.limit === 0) return; // unknown
  c.fillStyle = color.soft;
  c.fillRect(0, Math.round(y(page.limit)), width, 1);
}
