"use strict";
// Draws the charts out of report.json, which stands in the page.
(() => {
  const { names, report } = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const digits = v => v == null ? "" : v.toLocaleString("en", { maximumSignificantDigits: 4 });
  const time = v => v == null ? "" : v >= 1000 ? digits(v / 1000) + " s" : digits(v) + " ms";

  // The colours of the strategies in the order they come in, on white and on black.
  // They differ in lightness, and each has its dashes, for those who see no colours.
  const hues = [
    ["#0064c2", "#5aa9ff"], ["#d55e00", "#ff8b3d"], ["#882255", "#e58bb9"], ["#117733", "#4cc37a"], ["#7a7a10", "#d0cd5a"],
    ["#9a3fa0", "#d99be6"], ["#158fa8", "#6fd3e6"], ["#b07d00", "#f0c75e"], ["#6b7280", "#a7b0bd"], ["#332288", "#a396ff"],
  ];
  const dashes = [[], [7, 3], [2, 2], [10, 3, 2, 3], [5, 2], [4, 4], [8, 2, 2, 2, 2, 2], [12, 4], [3, 3], [9, 3, 3, 3]];
  const strategies = [...new Set(["chatclub", "article", ...report.runs.map(run => run.strategy)])];
  function look(i) {
    const own = report.runs[i].strategy === "chatclub", at = strategies.indexOf(report.runs[i].strategy);
    const before = report.runs.slice(0, i).filter(run => run.strategy === report.runs[i].strategy).length;
    return { stroke: () => hues[at % hues.length][+dark.matches], width: own ? 2.5 : 1.5, dash: dashes[(at + before) % dashes.length] };
  }
  const limit = { label: "limit", stroke: () => colour("--ink"), width: 1.25, dash: [4, 3] };

  // What was accepted of a page, its limit, and all calls: a panel for each run,
  // all with the same axes.
  function sends() {
    const panels = [];
    report.runs.forEach((run, i) => {
      const s = run.series?.[0];
      if (!s?.sent?.length) return;
      const held = list => [...list, list.at(-1)]; // a value holds until the end of its step
      const step = { stepped: true };
      const x = held(s.sent).map((_, k) => k * s.step_ms / 1000), own = look(i);
      const lines = [{ ...step, ...own, label: "accepted", width: 1.5, dash: [], fill: true, x, y: held(s.sent) }];
      if (s.refused) lines.push({ ...step, label: "calls", stroke: () => colour("--bad"), width: 1.25, x, y: held(s.sent.map((n, k) => n + s.refused[k])) });
      if (s.limit) lines.push({ ...step, ...limit, x, y: held(s.limit) });
      panels.push({ title: names[i] + (s.name ? " · " + s.name : ""), x: "seconds", y: "a second", per: 1000 / s.step_ms, says: digits, lines });
    });
    const most = (list, of) => Math.max(...list.flatMap(of));
    const right = most(panels, p => p.lines[0].x.at(-1)), top = most(panels, p => p.lines.flatMap(l => l.y.map(v => v * p.per)));
    for (const p of panels) {
      for (const l of p.lines) l.y = l.y.map(v => v * p.per);
      p.ranges = [[0, right], [0, top * 1.08 || 1]];
    }
    return panels;
  }

  // The latency that so many percent did not exceed: a panel for each class, at
  // 100 / (100 − percent), so that 90 %, 99 % and 99.9 % are as far from each other.
  function latency() {
    const panels = new Map();
    report.runs.forEach((run, i) => run.latency?.forEach(l => {
      const points = (l.percentiles ?? []).filter(p => p.percent < 100);
      if (!points.length) return;
      if (!panels.has(l.class)) panels.set(l.class, { title: l.class, x: "percent", y: "latency", logX: true, logY: true, says: time, lines: [] });
      panels.get(l.class).lines.push({ ...look(i), label: names[i], x: points.map(p => 100 / (100 - p.percent)), y: points.map(p => Math.max(p.ms, 0.1)) });
    }));
    const shown = [1, 2, 10, 100, 1e3, 1e4, 1e5];
    return [...panels.values()].map(p => ({ ...p, ticks: shown, tick: v => digits(100 - 100 / v) + " %" }));
  }

  // ticks returns round numbers from 0 to most, some so many of them.
  function ticks(most, some) {
    const power = 10 ** Math.floor(Math.log10(most / some));
    const step = power * [1, 2, 5, 10].find(m => m * power >= most / some);
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, k) => k * step);
  }

  // scale maps a range to pixels.
  function scale([low, high], [from, to], log) {
    const f = log ? Math.log : v => v, a = f(low), b = f(high);
    const of = v => from + (f(v) - a) / (b - a) * (to - from);
    of.back = px => { const v = a + (px - from) / (to - from) * (b - a); return log ? Math.exp(v) : v; };
    return of;
  }

  // valueAt returns what a line shows at x: a step holds its value, else the nearest point.
  function valueAt(l, x) {
    const next = l.x.findIndex(v => v > x), last = next < 0 ? l.x.length - 1 : next - 1;
    if (l.stepped || next <= 0) return l.y[Math.max(0, last)];
    return l.y[x - l.x[last] < l.x[next] - x ? last : next];
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
    const xs = p.lines.flatMap(l => l.x), ys = p.lines.flatMap(l => l.y), power = (v, round) => 10 ** round(Math.log10(v));
    const rangeX = p.ranges?.[0] ?? [1, Math.max(...xs, 10)];
    const rangeY = p.ranges?.[1] ?? [power(Math.min(...ys), Math.floor), power(Math.max(...ys) * 1.01, Math.ceil)];
    const x = scale(rangeX, [left, right], p.logX), y = scale(rangeY, [bottom, top], p.logY);
    c.font = "12px system-ui, sans-serif";
    const text = (s, px, py, align) => { c.textAlign = align; c.fillText(s, px, py); };
    const rule = (...points) => { c.beginPath(); points.forEach(([px, py]) => c.lineTo(px, py)); c.stroke(); };
    c.strokeStyle = colour("--grid");
    c.fillStyle = colour("--soft");
    for (const v of (p.ticks ?? ticks(rangeX[1], (right - left) / 80)).filter(v => v <= rangeX[1])) {
      rule([x(v), top], [x(v), bottom + 4]);
      text((p.tick ?? digits)(v), x(v), bottom + 18, "center");
    }
    const powers = Array.from({ length: 12 }, (_, k) => 10 ** (k - 2)).filter(v => v >= rangeY[0] && v <= rangeY[1]);
    for (const v of p.logY ? powers : ticks(rangeY[1], (bottom - top) / 36)) {
      rule([left - 4, y(v)], [right, y(v)]);
      text(p.says(v), left - 8, y(v) + 4, "right");
    }
    text(p.x, (left + right) / 2, bottom + 36, "center");
    c.save();
    c.rotate(-Math.PI / 2);
    text(p.y, -(top + bottom) / 2, 12, "center");
    c.restore();
    for (const l of p.lines) {
      const path = new Path2D();
      l.x.forEach((v, k) => {
        if (l.stepped && k > 0) path.lineTo(x(v), y(l.y[k - 1]));
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
      item.append(mark, l.label + (at === null ? "" : ": " + p.says(valueAt(l, at))));
      return item;
    }));
    return x;
  }

  const all = [];
  for (const [id, panels] of Object.entries({ sends: sends(), latency: latency() })) {
    const host = document.getElementById(id);
    host.hidden = panels.length === 0;
    const group = panels.map(p => {
      const figure = document.createElement("figure"), plot = document.createElement("div"), legend = document.createElement("p");
      const canvas = document.createElement("canvas");
      figure.append(document.createElement("figcaption"), plot, legend);
      figure.firstChild.textContent = p.title;
      plot.append(canvas);
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", `${p.title}: ${p.y} by ${p.x}; the table has the figures`);
      legend.className = "legend";
      host.lastElementChild.append(figure);
      return { canvas, legend, p, height: id === "sends" ? 190 : 320 };
    });
    for (const panel of group) {
      const shown = id === "sends" ? group : [panel]; // these have one axis
      panel.canvas.addEventListener("pointermove", e => {
        const at = draw(panel, null).back(e.offsetX), far = Math.max(...panel.p.lines.flatMap(l => l.x));
        shown.forEach(other => draw(other, Math.min(far, Math.max(panel.p.logX ? 1 : 0, at))));
      });
      panel.canvas.addEventListener("pointerleave", () => shown.forEach(other => draw(other, null)));
    }
    all.push(...group);
  }
  const drawAll = list => list.forEach(panel => draw(panel, null));
  drawAll(all);
  dark.addEventListener("change", () => drawAll(all));
  new ResizeObserver(() => drawAll(all.filter(({ canvas, width }) => canvas.parentElement.clientWidth !== width))).observe(document.querySelector("main"));
})();
