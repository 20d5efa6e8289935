// The chart has a bar a second, accepted below and refused on top, and a line at
// the limit that was in force.

const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const left = 44, right = 4, top = 10, bottom = 22; // around the bars

// fit makes the canvas as sharp as the screen and returns its size.
function fit(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width, height };
}

// round returns the next number upwards that begins with 1, 2, 2.5 or 5.
function round(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  for (const m of [1, 2, 2.5, 5]) if (n <= m * power) return m * power;
  return 10 * power;
}

function bars(c, page, x, y, step) {
  const gap = step > 3 ? 1 : 0, base = y(0);
  page.accepted.forEach((ok, i) => {
    // The last second still runs.
    c.globalAlpha = i === page.accepted.length - 1 ? 0.55 : 1;
    if (ok > 0) {
      c.fillStyle = color.good;
      c.fillRect(x(i), y(ok), step - gap, base - y(ok));
    }
    const no = page.refused[i];
    if (no > 0) {
      c.fillStyle = color.bad;
      c.fillRect(x(i), y(ok + no), step - gap, y(ok) - y(ok + no));
    }
  });
  c.globalAlpha = 1;
}

// drawChart draws a page with its limit in each second. The second at index at is
// the one under the pointer, null for none.
export function drawChart(canvas, page, limits, at) {
  for (const name of ["good", "bad", "limit", "soft", "grid", "line"]) color[name] = color(name);
  const { c, width, height } = fit(canvas), n = page.accepted.length;
  const most = Math.max(Math.max(...limits) * 1.1, ...page.accepted.map((ok, i) => ok + page.refused[i]));
  const tick = round(Math.max(most, 4) / 4), ceiling = Math.max(most, tick * 3);
  const step = (width - left - right) / n;
  const x = i => left + i * step, y = v => top + (1 - v / ceiling) * (height - top - bottom);
  c.font = "13px " + getComputedStyle(canvas).fontFamily;
  c.textBaseline = "middle";
  c.textAlign = "right";
  if (at !== null) {
    c.fillStyle = color.line;
    c.fillRect(x(at), top, Math.max(step, 2), y(0) - top);
  }
  for (let v = 0; v <= ceiling; v += tick) {
    c.fillStyle = color.grid;
    c.fillRect(left, Math.round(y(v)), width - left - right, 1);
    c.fillStyle = color.soft;
    c.fillText(v.toLocaleString("en"), left - 8, y(v));
  }
  bars(c, page, x, y, step);
  c.strokeStyle = color.limit;
  c.lineWidth = 2;
  c.setLineDash([6, 4]);
  c.beginPath();
  limits.forEach((limit, i) => {
    c.lineTo(x(i), y(limit));
    c.lineTo(x(i + 1), y(limit));
  });
  c.stroke();
  c.setLineDash([]);
  c.fillStyle = color.soft;
  c.textBaseline = "alphabetic";
  for (const [back, text, align] of [[n, n / 60 + " min ago", "left"], [n / 2, n / 120 + " min ago", "center"], [0, "now", "right"]]) {
    c.textAlign = align;
    c.fillText(text, x(n - back), height - 5);
  }
}

// secondAt returns the index of the second at a place of the screen.
export function secondAt(canvas, clientX, seconds) {
  const r = canvas.getBoundingClientRect();
  const i = Math.floor((clientX - r.left - left) / (r.width - left - right) * seconds);
  return Math.max(0, Math.min(seconds - 1, i));
}

// drawSpark draws the same, small and without words, for the last half minute.
export function drawSpark(canvas, page) {
  for (const name of ["good", "bad"]) color[name] = color(name);
  const { c, width, height } = fit(canvas);
  const last = { accepted: page.accepted.slice(-30), refused: page.refused.slice(-30) };
  const ceiling = Math.max(page.limit, ...last.accepted.map((ok, i) => ok + last.refused[i]));
  const step = width / last.accepted.length;
  bars(c, last, i => i * step, v => (1 - v / ceiling) * height, step);
}
