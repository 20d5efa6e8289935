// The dispatchers, a card for each, with what each one knows by itself.
import { el, fromTemplate, make, newList, setClass, setText } from "./dom.js";
import { count, plural } from "./format.js";
import { notReady } from "./health.js";

const killedFor = 6000; // milliseconds that a killed one stays to be seen
const states = { running: "", hung: "hung: it does not answer", stopping: "stopping", killed: "killed", lost: "does not answer" };

export function newDispatchers() {
  let pages = new Map(), actions = new Map(), troubles = new Map();

  function build(d) {
    const root = fromTemplate("dispatcher-template"), q = s => root.querySelector(s);
    root.dataset.dispatcher = d.name;
    setText(q("h3"), d.name);
    const buttons = [...root.querySelectorAll("[data-action]")];
    for (const b of buttons) {
      b.dataset.dispatcher = d.name;
      b.setAttribute("aria-label", b.textContent + " " + d.name);
    }
    return {
      root, buttons, role: q(".role"), calls: q(".calls-now"), inFlight: q(".in-flight"),
      partitions: q(".partitions"), word: q(".partitions-word"), chips: newList(q(".map"), buildChip, showChip),
    };
  }

  function buildChip() {
    const root = make("li", "chip");
    const p = { root, name: make("b"), text: make("span") };
    root.append(make("i", "dot"), p.name, p.text);
    return p;
  }

  function showChip(p, x) {
    const page = pages.get(x.page), owned = page?.owner === x.dispatcher;
    setClass(p.root, "chip p" + (page?.color ?? 0) + (owned ? " owned" : ""));
    setText(p.name, (page?.name ?? x.page) + (x.class && x.class !== "text" ? " (" + x.class + ")" : ""));
    const pace = page?.wait === 0 && page.waiting > 0 ? "" : Math.round(x.pace) + "/s, "; // nothing is sent
    setText(p.text, owned ? pace + count(x.waiting) + " wait" : "left to its owner");
  }

  function show(c, d) {
    const names = (d.pages ?? []).map(id => pages.get(id)?.name).filter(Boolean);
    const trouble = d.state === "running" && troubles.get(d.name);
    setClass(c.root, "card " + d.state + (trouble ? " unready" : ""));
    setText(c.role, states[d.state] || (trouble && "not ready: " + trouble) || (names.length > 0 ? "sends for " + names.join(", ") : ""));
    c.role.title = d.error || c.role.textContent;
    setText(c.calls, count(d.calls));
    setText(c.inFlight, count(d.in_flight));
    const held = (d.partitions ?? []).length;
    setText(c.partitions, count(held));
    setText(c.word, held === 1 ? "partition" : "partitions");
    c.chips.update((d.excess ?? []).map(x => ({ ...x, dispatcher: d.name })), x => x.page + " " + x.class);
    for (const b of c.buttons) {
      b.hidden = !actions.has(b.dataset.action);
      const action = actions.get(b.dataset.action), can = d.state === "running" || d.state === "hung" && b.dataset.action === "kill";
      b.setAttribute("aria-disabled", String(!can || !action?.enabled));
      b.title = action?.why ?? "";
    }
  }

  const list = newList(el("dispatchers"), build, show);
  return {
    show(s) {
      pages = new Map(s.pages.map(p => [p.id, p]));
      troubles = notReady(s);
      actions = new Map(s.read_only ? [] : s.actions.map(a => [a.name, a]));
      const shown = s.dispatchers.filter(d => d.state !== "killed" || new Date(s.now) - new Date(d.since) < killedFor);
      list.update(shown, d => d.name);
      el("dispatchers").classList.toggle("many", shown.length > 4);
      const all = shown.filter(d => d.state !== "killed").length, running = shown.filter(d => d.state === "running").length;
      setText(el("dispatchers-title").firstChild, (running < all ? count(running) + " of " : "") + plural(all, "dispatcher", "dispatchers") + " ");
    },
    card: name => list.get(name)?.root,
  };
}
