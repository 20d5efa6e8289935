"use strict";
// Draws the charts out of report.json, which stands in the page.
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = v => v == null ? "" : v.toLocaleString("en", { maximumSignificantDigits: 4 });

  // The colours of the strategies in the order they come in, on white and on black.
  const hues = [
    ["#0064c2", "#5aa9ff"], ["#d55e00", "#ff8b3d"], ["#882255", "#e58bb9"], ["#117733", "#4cc37a"], ["#7a7a10", "#d0cd5a"],
    ["#9a3fa0", "#d99be6"], ["#158fa8", "#6fd3e6"], ["#b07d00", "#f0c75e"], ["#6b7280", "#a7b0bd"], ["#332288", "#a396ff"],
  ];
  const strategies = [...new Set(["chatclub", "article", ...report.runs.map(run => run.strategy)])];
  const hue = run => hues[strategies.indexOf(run.strategy) % hues.length][+dark.matches];
  const limit = { label: "limit", stroke: () => colour("--ink"), width: 1.25, dash: [4, 3] };

  // What was accepted of a page, its limit, and all calls: a panel for each run,
  // all with the same axes.
  function sends() {
    const panels = [];
    report.runs.forEach(run => {
      const s = run.series?.[0];
      if (!s?.sent?.length) return;
      const held = list => [...list, list.at(-1)]; // a value holds until the end of its step
      const x = held(s.sent).map((_, k) => k * s.step_ms / 1000);
      const lines = [{ label: "accepted", width: 1.5, stroke: () => hue(run), fill: true, x, y: held(s.sent) }];
      if (s.refused) lines.push({ label: "calls", stroke: () => colour("--bad"), width: 1.25, x, y: held(s.sent.map((n, k) => n + s.refused[k])) });
      if (s.limit) lines.push({ ...limit, x, y: held(s.limit) });
      panels.push({ title: (run.label || run.strategy) + (s.name ? " · " + s.name : ""), x: "seconds", y: "a second", per: 1000 / s.step_ms, lines });
    });
    const most = (list, of) => Math.max(...list.flatMap(of));
    const right = most(panels, p => p.lines[0].x.at(-1)), top = most(panels, p => p.lines.flatMap(l => l.y.map(v => v * p.per)));
    for (const p of panels) {
      for (const l of p.lines) l.y = l.y.map(v => v * p.per);
      p.ranges = [[0, right], [0, top * 1.08 || 1]];
    }
    return panels;
  }

  // A panel for each chart, with axes of its own.
  function charts() {
    return (report.charts ?? []).map(chart => {
      const lines = chart.lines.map((l, k) => ({ label: l.name, stroke: () => hues[k % hues.length][+dark.matches], width: 1.5, x: l.x, y: l.y, straight: !chart.steps }));
      const most = of => Math.max(...lines.flatMap(of));
      return { title: chart.title, x: chart.x, y: chart.y, lines, ranges: [[0, most(l => l.x)], [0, most(l => l.y) * 1.08 || 1]] };
    });
  }

  // ticks returns round numbers from 0 to most, some so many of them.
  function ticks(most, some) {
    const power = 10 ** Math.floor(Math.log10(most / some));
    const step = power * [1, 2, 5, 10].find(m => m * power >= most / some);
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, k) => k * step);
  }

  // scale maps a range to pixels.
  function scale([low, high], [from, to]) {
    const of = v => from + (v - low) / (high - low) * (to - from);
    of.back = px => low + (px - from) / (to - from) * (high - low);
    return of;
  }

  // valueAt returns the value of a line at x: a step holds the one before.
  function valueAt(l, x) {
    const next = l.x.findIndex(v => v > x), last = Math.max(0, next < 0 ? l.x.length - 1 : next - 1);
    if (!l.straight || next < 1) return l.y[last];
    return l.y[last] + (l.y[next] - l.y[last]) * (x - l.x[last]) / (l.x[next] - l.x[last]);
  }

  // draw draws a panel, with a line at the x under the pointer and its values, if any.
  function draw(panel, at) {
    const { canvas, legend, p, height } = panel, ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    panel.width = width;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = height + "px";
    const c = canvas.getContext("2d"), left = 64, right = width - 12, top = 8, bottom = height - 44;
    c.scale(ratio, ratio);
    const [rangeX, rangeY] = p.ranges, x = scale(rangeX, [left, right]), y = scale(rangeY, [bottom, top]);
    c.font = "12px system-ui, sans-serif";
    const text = (s, px, py, align) => { c.textAlign = align; c.fillText(s, px, py); };
    const rule = (...points) => { c.beginPath(); points.forEach(([px, py]) => c.lineTo(px, py)); c.stroke(); };
    c.strokeStyle = colour("--grid");
    c.fillStyle = colour("--soft");
    for (const v of ticks(rangeX[1], (right - left) / 80)) {
      rule([x(v), top], [x(v), bottom + 4]);
      text(digits(v), x(v), bottom + 18, "center");
    }
    for (const v of ticks(rangeY[1], (bottom - top) / 36)) {
      rule([left - 4, y(v)], [right, y(v)]);
      text(digits(v), left - 8, y(v) + 4, "right");
    }
    text(p.x, (left + right) / 2, bottom + 36, "center");
    c.save();
    c.rotate(-Math.PI / 2);
    text(p.y, -(top + bottom) / 2, 12, "center");
    c.restore();
    for (const l of p.lines) {
      const path = new Path2D();
      l.x.forEach((v, k) => {
        if (k > 0 && !l.straight) path.lineTo(x(v), y(l.y[k - 1]));
        path.lineTo(x(v), y(l.y[k]));
      });
      c.strokeStyle = l.stroke();
      c.lineWidth = l.width;
      c.setLineDash(l.dash ?? []);
      c.stroke(path);
      if (!l.fill) continue;
      path.lineTo(x(l.x.at(-1)), bottom);
      path.lineTo(x(l.x[0]), bottom);
      c.fillStyle = l.stroke() + "2b";
      c.fill(path);
    }
    if (at !== null) {
      c.setLineDash([4, 3]);
      c.lineWidth = 1;
      c.strokeStyle = colour("--soft");
      rule([x(at), top], [x(at), bottom]);
    }
    legend.replaceChildren(...p.lines.map(l => {
      const item = document.createElement("span"), mark = document.createElement("i");
      mark.style.borderTop = `${l.width + 0.5}px ${l.dash?.length ? "dashed" : "solid"} ${l.stroke()}`;
      item.append(mark, l.label + (at === null ? "" : ": " + digits(valueAt(l, at))));
      return item;
    }));
    return x;
  }

  const show = (host, list, height) => list.map(p => {
    const figure = document.createElement("figure"), plot = document.createElement("div"), legend = document.createElement("p");
    const canvas = document.createElement("canvas");
    figure.append(document.createElement("figcaption"), plot, legend);
    figure.firstChild.textContent = p.title;
    plot.append(canvas);
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", `${p.title}: ${p.y} by ${p.x}; the table has the figures`);
    legend.className = "legend";
    host.lastElementChild.append(figure);
    return { canvas, legend, p, height };
  });
  // follow shows the values under the pointer in all panels, which have one axis.
  const follow = panels => panels.forEach(panel => {
    panel.canvas.addEventListener("pointermove", e => {
      const at = draw(panel, null).back(e.offsetX);
      panels.forEach(other => draw(other, Math.min(panel.p.ranges[0][1], Math.max(0, at))));
    });
    panel.canvas.addEventListener("pointerleave", () => panels.forEach(other => draw(other, null)));
  });
  const host = document.getElementById("sends"), calls = show(host, sends(), 190);
  host.hidden = calls.length === 0;
  follow(calls);
  const pictures = show(document.getElementById("charts"), charts(), 260);
  pictures.forEach(panel => follow([panel]));
  const all = [...calls, ...pictures];
  const drawAll = list => list.forEach(panel => draw(panel, null));
  drawAll(all);
  dark.addEventListener("change", () => drawAll(all));
  new ResizeObserver(() => drawAll(all.filter(({ canvas, width }) => canvas.parentElement.clientWidth !== width))).observe(document.querySelector("main"));
})();
