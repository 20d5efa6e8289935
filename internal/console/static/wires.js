// The lines that join a page, or its lane, with the dispatcher that sends for
// it. A line moves when another dispatcher takes the page over.
import { el } from "./dom.js";

const moveFor = 300; // milliseconds
const still = matchMedia("(prefers-reduced-motion: reduce)");
const ease = t => 1 - (1 - t) ** 3;

function node(name) {
  return document.createElementNS("http://www.w3.org/2000/svg", name);
}

// reach is how far from a card its lines end, so that their dots are seen.
const reach = 5;

// newWires draws from the rows of pages to the cards of dispatchers. row and card
// return those of an id and of a name, undefined if there are none.
export function newWires(row, card) {
  const svg = el("wires"), wires = new Map();
  let moving = 0;

  function build(id) {
    const w = { group: node("g"), before: node("path"), path: node("path"), dot: node("circle"), owner: "", since: 0 };
    w.group.dataset.page = id;
    w.dot.setAttribute("r", "4");
    w.group.append(w.before, w.path, w.dot);
    svg.append(w.group);
    return w;
  }

  // place draws a wire as it is at a moment, and reports whether it still moves.
  function place(w, now) {
    const t = still.matches ? 1 : Math.min(1, (now - w.since) / moveFor), k = ease(t);
    const x = w.from.x + (w.to.x - w.from.x) * k, y = w.from.y + (w.to.y - w.from.y) * k;
    w.end = { x, y };
    w.before.setAttribute("d", w.lead);
    w.path.setAttribute("d", t < 1 || w.to.gap === null ? curve(w.start, { x, y }) : around(w.start, w.to));
    w.dot.setAttribute("cx", x);
    w.dot.setAttribute("cy", y);
    return t < 1;
  }

  function step(now) {
    moving = 0;
    let more = false;
    for (const w of wires.values()) more = place(w, now) || more;
    if (more) moving = requestAnimationFrame(step);
  }

  // ends returns where the lines of each page end: spread along the left edge of
  // their dispatcher's card, in the pages' order.
  function ends(pages, box) {
    const byOwner = Map.groupBy(pages, p => p.owner), to = new Map();
    const first = Math.min(...pages.map(p => card(p.owner).getBoundingClientRect().left)) - box.left;
    for (const [owner, list] of byOwner) {
      const r = card(owner).getBoundingClientRect();
      list.forEach((p, i) => to.set(p.id, {
        x: r.left - box.left - reach, y: r.top - box.top + r.height * (i + 1) / (list.length + 1),
        gap: r.left - box.left > first + 8 ? { x: first, y: r.bottom - box.top + 8 } : null,
      }));
    }
    return to;
  }

  return {
    show(s) {
      const box = svg.getBoundingClientRect(), pages = box.width > 0 ? s.pages.filter(p => card(p.owner)) : [];
      const to = ends(pages, box), now = performance.now();
      for (const [id, w] of wires) {
        // That of a page without an owner is kept: it moves on from where it was.
        w.group.classList.toggle("away", !to.has(id));
        if (s.pages.some(p => p.id === id)) continue;
        w.group.remove();
        wires.delete(id);
      }
      for (const p of pages) {
        const r = row(p.id), left = r.page.getBoundingClientRect(), lane = r.lane.getBoundingClientRect();
        const y = left.top + left.height / 2 - box.top, waits = r.root.classList.contains("waits");
        if (!wires.has(p.id)) wires.set(p.id, build(p.id));
        const w = wires.get(p.id), end = to.get(p.id);
        w.start = { x: (waits ? lane.right + 8 : left.right) - box.left, bend: lane.right + 8 - box.left, y };
        w.lead = waits ? `M${left.right - box.left} ${y}H${lane.left - box.left}` : "";
        if (w.owner !== p.owner) {
          w.from = w.end ?? end;
          w.since = w.owner === "" ? 0 : now;
          w.owner = p.owner;
          w.group.dataset.owner = p.owner;
        }
        w.to = end;
        w.group.setAttribute("class", "p" + p.color + " " + p.state + " " + (s.dispatchers.find(d => d.name === p.owner)?.state ?? ""));
      }
      if (!moving) step(now);
    },
  };
}

// curve goes level through the lanes, then in a bow to the card.
function curve(from, to) {
  const half = (to.x - from.bend) / 2;
  return `M${from.x} ${from.y}H${from.bend}C${from.bend + half} ${from.y} ${to.x - half} ${to.y} ${to.x} ${to.y}`;
}

// around goes to a card of the second column, below the card that is in its way.
function around(from, to) {
  const end = to.x - 16;
  return curve(from, { x: to.gap.x - 8, y: to.gap.y }) + `H${end - 8}C${end + 8} ${to.gap.y} ${end} ${to.y} ${to.x} ${to.y}`;
}
