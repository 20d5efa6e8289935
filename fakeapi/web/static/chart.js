// The chart has a bar a second, accepted below and refused on top, and a line at
// the limit.

const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

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

export function drawChart(canvas, page) {
  for (const name of ["good", "bad", "limit", "soft", "grid"]) color[name] = color(name);
  const { c, width, height } = fit(canvas);
  const left = 40, right = 4, top = 10, bottom = 22, n = page.accepted.length;
  const tallest = Math.max(...page.accepted.map((ok, i) => ok + page.refused[i]));
  const tick = round(Math.max(page.limit * 1.1, tallest, 4) / 4), ceiling = Math.max(page.limit * 1.1, tallest, tick * 3);
  const step = (width - left - right) / n;
  const x = i => left + i * step, y = v => top + (1 - v / ceiling) * (height - top - bottom);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.textAlign = "right";
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
  c.moveTo(left, y(page.limit));
  c.lineTo(width - right, y(page.limit));
  c.stroke();
  c.setLineDash([]);
  c.fillStyle = color.soft;
  c.textBaseline = "alphabetic";
  for (const [back, text, align] of [[n, n / 60 + " min ago", "left"], [n / 2, n / 120 + " min ago", "center"], [0, "now", "right"]]) {
    c.textAlign = align;
    c.fillText(text, x(n - back), height - 5);
  }
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
