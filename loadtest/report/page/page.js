"use strict";
// Draws the charts with uPlot, out of report.json, which stands in the page.
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
      const step = { paths: uPlot.paths.stepped({ align: 1 }) };
      const x = held(s.sent).map((_, k) => k * s.step_ms / 1000), own = look(i);
      const lines = [{ ...step, ...own, label: "accepted", width: 1.5, dash: [], fill: () => own.stroke() + "2b", x, y: held(s.sent) }];
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

  function draw(figure, p, sync) {
    const small = sync !== "", font = "12px system-ui, sans-serif";
    const axis = more => ({ stroke: () => colour("--soft"), font, labelFont: font, labelSize: 18, grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { stroke: () => colour("--grid"), width: 1, size: 4 }, ...more });
    const x = axis({ label: p.x, size: 30 }), y = axis({ label: p.y, size: 62, values: (u, all) => all.map(p.says) });
    if (p.ticks) Object.assign(x, { splits: () => p.ticks, filter: (u, all) => all, values: (u, all) => all.map(p.tick) });
    const far = Math.max(...p.lines.flatMap(l => l.x));
    return new uPlot({
      width: figure.clientWidth, height: small ? 190 : 320,
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 }, sync: small ? { key: sync } : undefined },
      scales: {
        x: { time: false, distr: p.logX ? 3 : 1, range: p.ranges?.[0] ?? (p.ticks ? [1, Math.max(far, 10)] : undefined) },
        y: { distr: p.logY ? 3 : 1, range: p.ranges?.[1] ?? (p.logY ? undefined : (u, low, high) => [0, high * 1.08 || 1]) },
      },
      axes: [x, y],
      series: [{ label: p.x, value: (u, v) => v == null ? "" : (p.tick ?? digits)(v) },
        ...p.lines.map(l => ({ spanGaps: true, points: { show: false }, ...l, value: (u, v) => p.says(v) }))],
    }, uPlot.join(p.lines.map(l => [l.x, l.y])), figure);
  }

  const all = [];
  for (const [id, panels] of Object.entries({ sends: sends(), latency: latency() })) {
    const host = document.getElementById(id);
    host.hidden = panels.length === 0;
    for (const p of panels) {
      const figure = document.createElement("figure"), plot = document.createElement("div");
      figure.append(document.createElement("figcaption"), plot);
      figure.firstChild.textContent = p.title;
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", `${p.title}: ${p.y} by ${p.x}; the table has the figures`);
      host.lastElementChild.append(figure);
      all.push({ plot, u: draw(plot, p, id === "sends" ? id : "") });
    }
  }
  dark.addEventListener("change", () => all.forEach(({ u }) => u.redraw(false, true)));
  new ResizeObserver(() => all.forEach(({ plot, u }) => {
    if (plot.clientWidth !== u.width) u.setSize({ width: plot.clientWidth, height: u.height });
  })).observe(document.querySelector("main"));
})();
