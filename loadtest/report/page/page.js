"use strict";
// Draws every chart of the report with uPlot. Axes are linear for uPlot:
// values are put where the axis' own scale wants them, and its ticks say what
// they are.
(() => {
  const place = { linear: v => v, log: Math.log10, log1p: Math.log1p };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const stroke = style => dark.matches ? style.dark : style.light;
  const digits = v => v.toLocaleString("en", { maximumSignificantDigits: 4 });

  const says = {
    "": digits,
    s: v => digits(v) + " s",
    ms: v => v >= 10000 ? digits(v / 1000) + " s" : digits(v) + " ms",
    percentile: v => digits(100 - 100 / v) + " %",
  };

  // Labels that would touch the one before are left out.
  function labels(ticks, scale, room) {
    return (u, splits) => {
      let last = -Infinity;
      return splits.map((at, i) => {
        const pos = u.valToPos(at, scale), text = ticks[i].text;
        if (!text || Math.abs(pos - last) < room(text)) return "";
        last = pos;
        return text;
      });
    };
  }

  // What the axes of small charts side by side are, is said above them all.
  function axis(a, horizontal, small) {
    const font = (small ? "11px" : "12px") + " system-ui, sans-serif";
    return {
      stroke: colour("--soft"), font, labelFont: font, label: small ? undefined : a.label, labelSize: 18, labelGap: horizontal ? 0 : 4,
      size: horizontal ? (small ? 24 : 30) : Math.max(small ? 28 : 40, 14 + 7 * Math.max(...a.ticks.map(t => t.text.length))), gap: 4,
      grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1, size: 4 },
      splits: () => a.ticks.map(t => place[a.scale](t.at)),
      values: horizontal ? labels(a.ticks, "x", text => 12 + 6 * text.length) : labels(a.ticks, "y", () => 14),
    };
  }

  function series(l, alone) {
    const c = stroke(l.style);
    const s = { label: l.name, stroke: c, width: l.style.width, dash: l.style.dash ?? undefined, spanGaps: true, points: { show: false } };
    if (l.points) Object.assign(s, { paths: () => null, points: { show: true, size: 10, width: 2, stroke: c, fill: colour("--panel") } });
    else if (l.step) s.paths = uPlot.paths.stepped({ align: 1 });
    if (alone && l.step && l.role === "measured") s.fill = c + "2b";
    return s;
  }

  // One button a line: it shows the line's look and its value under the
  // cursor, and hides and shows the line.
  function legend(host, lines, hidden, toggle) {
    return lines.map((l, i) => {
      const b = document.createElement("button");
      const c = stroke(l.style);
      b.type = "button";
      b.innerHTML = `<svg width="22" height="10" aria-hidden="true"></svg><span></span><output aria-live="off"></output>`;
      const mark = document.createElementNS("http://www.w3.org/2000/svg", l.points ? "circle" : "path");
      const look = l.points ? { cx: 11, cy: 5, r: 4, "stroke-width": 2 } : { d: "M0 5H22", "stroke-width": l.style.width, "stroke-dasharray": (l.style.dash ?? []).join(" ") };
      for (const [k, v] of Object.entries({ ...look, stroke: c, fill: "none" })) mark.setAttribute(k, v);
      b.firstChild.append(mark);
      b.children[1].textContent = l.name;
      b.setAttribute("aria-pressed", String(!hidden.has(i)));
      b.addEventListener("click", () => {
        hidden.has(i) ? hidden.delete(i) : hidden.add(i);
        b.setAttribute("aria-pressed", String(!hidden.has(i)));
        toggle(i, !hidden.has(i));
      });
      host.append(b);
      return b.lastChild;
    });
  }

  function draw(figure, panel, sync, hidden) {
    const plot = figure.querySelector(".plot"), below = figure.querySelector(".legend"), at = figure.querySelector(".at");
    plot.replaceChildren();
    below?.replaceChildren();
    const x = place[panel.x.scale], y = place[panel.y.scale];
    const order = panel.lines.map((_, i) => i).sort((a, b) => panel.lines[a].layer - panel.lines[b].layer);
    const data = uPlot.join(order.map(i => panel.lines[i]).map(l => [l.x.map(x), l.y.map(y)]));
    const raw = panel.lines.map(l => new Map(l.x.map((v, i) => [x(v), l.y[i]])));
    const back = new Map(panel.lines.flatMap(l => l.x.map(v => [x(v), v])));
    let u;
    const outputs = below ? legend(below, panel.lines, hidden, (i, show) => u.setSeries(order.indexOf(i) + 1, { show })) : [];
    const alone = panel.lines.length <= 2;
    u = new uPlot({
      width: plot.clientWidth, height: sync ? (plot.clientWidth < 240 ? 120 : 150) : 320,
      legend: { show: false }, padding: sync ? [8, 14, 0, 0] : undefined,
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 }, sync: sync ? { key: sync } : undefined },
      scales: { x: { time: false, range: () => [x(panel.x.min), x(panel.x.max)] }, y: { range: () => [y(panel.y.min), y(panel.y.max)] } },
      axes: [axis(panel.x, true, sync), axis(panel.y, false, sync)],
      series: [{}, ...order.map(i => ({ ...series(panel.lines[i], alone), show: !hidden.has(i) }))],
      hooks: {
        setCursor: [u => {
          const pos = u.cursor.idx == null ? undefined : data[0][u.cursor.idx];
          const values = raw.map(line => line.get(pos)).map(v => v === undefined ? "" : says[panel.y.unit](v));
          outputs.forEach((out, i) => { out.textContent = values[i]; });
          const here = pos === undefined ? "" : says[panel.x.unit](back.get(pos));
          at.textContent = here && (below ? "at " + here : values.join(" of ") + " at " + here);
        }],
      },
    }, data, plot);
    return u;
  }

  const charts = JSON.parse(document.getElementById("charts").textContent) ?? [];
  const all = charts.flatMap(({ host, chart }) => {
    const figures = document.getElementById(host).children;
    return chart.panels.map((panel, i) => ({ figure: figures[i], panel, sync: chart.shared ? host : "", hidden: new Set(), u: null }));
  });
  // A chart that is folded away has no width; it is drawn when it gets one.
  function drawAll() {
    for (const c of all) {
      c.u?.destroy();
      const folded = c.figure.querySelector(".plot").clientWidth === 0;
      c.u = folded ? null : draw(c.figure, c.panel, c.sync, c.hidden);
    }
  }
  drawAll();
  dark.addEventListener("change", drawAll);
  new ResizeObserver(() => {
    for (const c of all) {
      const width = c.figure.querySelector(".plot").clientWidth;
      if (width > 0 && !c.u) c.u = draw(c.figure, c.panel, c.sync, c.hidden);
      else if (width > 0 && width !== c.u.width) c.u.setSize({ width, height: c.u.height });
    }
  }).observe(document.querySelector("main"));
})();
