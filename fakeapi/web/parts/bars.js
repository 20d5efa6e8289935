// Bars of what was sent: one a second, accepted below and refused on top.
import { fit, palette } from "./canvas.js";

// bars draws them in a plot from the slot first on. running says that the last
// second is not over yet.
export function bars({ c, color, x, y, step }, { fill, accepted, refused, first, running }) {
  const gap = step > 3 ? 1 : 0;
  accepted.forEach((ok, i) => {
    const left = x(first + i), no = refused[i];
    c.globalAlpha = running && i === accepted.length - 1 ? 0.55 : 1;
    c.fillStyle = fill;
    c.fillRect(left, y(ok), step - gap, y(0) - y(ok));
    c.fillStyle = color.red;
    c.fillRect(left, y(ok + no), step - gap, y(ok) - y(ok + no));
  });
  c.globalAlpha = 1;
}

// steps draws a line that is level in each second.
export function steps({ c, x, y }, list, first, style) {
  c.strokeStyle = style.color;
  c.lineWidth = style.width;
  c.setLineDash(style.dash);
  c.beginPath();
  list.forEach((v, i) => {
    c.lineTo(x(first + i), y(v));
    c.lineTo(x(first + i + 1), y(v));
  });
  c.stroke();
  c.setLineDash([]);
}

const sparkSeconds = 30;

// drawSpark draws the bars of the last half minute, small and without words, and the
// limit, 0 where it is unknown.
export function drawSpark(canvas, fill, accepted, refused, limit) {
  const { c, width, height } = fit(canvas), color = palette();
  accepted = accepted.slice(-sparkSeconds);
  refused = refused.slice(-sparkSeconds);
  const most = Math.max(1, limit * 1.08, ...accepted.map((n, i) => n + refused[i])), step = width / sparkSeconds;
  const x = i => i * step, y = n => (1 - n / most) * height;
  bars({ c, color, x, y, step }, { fill: color[fill], accepted, refused, first: sparkSeconds - accepted.length });
  if (limit === 0) return;
  c.fillStyle = color.soft;
  c.fillRect(0, Math.round(y(limit)), width, 1);
}
