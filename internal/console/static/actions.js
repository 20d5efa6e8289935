// The buttons. Each one names its action in data-action, and what the action is
// to be done to in data-page, data-dispatcher or data-count.
import { ask } from "./ask.js";
import { el, make, setText } from "./dom.js";
import { notify } from "./notice.js";

const bar = [
  { name: "flood", text: page => "Flood " + page },
  { name: "kill", text: () => "Kill the owner" },
  { name: "hang", text: () => "Hang the owner" },
  { name: "add", text: () => "+1 dispatcher", count: 1 },
  { name: "add", text: () => "+3", count: 3 },
  { name: "halve", text: () => "Halve the limit" },
  { name: "restore", text: () => "Give the limit back" },
  { name: "outage", text: () => "API down", lasts: 10 },
  { name: "fail-recipient", text: () => "One recipient always fails" },
  { name: "article", text: () => "Do it the article’s way", lasts: 20 },
];
const buttons = bar.map(a => {
  const b = make("button");
  b.type = "button";
  b.dataset.action = a.name;
  if (a.count) {
    b.dataset.count = a.count;
    b.setAttribute("aria-label", "Add " + (a.count === 1 ? "a dispatcher" : a.count + " dispatchers"));
  }
  return b;
});
el("actions").append(...buttons);

// A button that cannot be used stays in the order of the keyboard, and says why.
document.addEventListener("click", async e => {
  const b = e.target.closest("[data-action]");
  if (!b) return;
  if (b.getAttribute("aria-disabled") === "true") {
    if (b.title) notify(b.title);
    return;
  }
  const { action, page, dispatcher, count } = b.dataset;
  await ask("POST", "actions/" + action, { page, dispatcher, count: count && Number(count) });
});

// show brings one button up to date. It tells how many seconds the action lasts,
// and while it does how many are left.
function show(b, action, text, lasts, now) {
  b.hidden = !action;
  if (!action) return;
  const left = action.until ? Math.ceil((new Date(action.until) - now) / 1000) : 0;
  setText(b, left > 0 ? text + " · " + left + " s" : lasts ? text + ", " + lasts + " s" : text);
  b.classList.toggle("on", left > 0);
  b.setAttribute("aria-disabled", String(!action.enabled));
  b.title = action.why ?? "";
}

// showActions shows what can be done. page is the chosen one.
export function showActions(s, page) {
  const actions = new Map(s.read_only ? [] : s.actions.map(a => [a.name, a])), now = new Date(s.now);
  el("actions").hidden = actions.size === 0;
  bar.forEach((a, i) => {
    let action = actions.get(a.name);
    // One of the two that undo each other is there.
    if (a.name === "restore" && !action?.enabled) action = undefined;
    if (a.name === "halve" && actions.get("restore")?.enabled) action = undefined;
    if (a.name === "flood") {
      buttons[i].dataset.page = page?.id ?? "";
      if (action?.page && action.page !== page?.id) action = { ...action, until: null }; // another page is flooded
    }
    show(buttons[i], action, a.text(page?.name ?? "a page"), a.lasts, now);
  });
  show(el("tour"), actions.get("tour"), "Show me the tour", 40, now);
  show(el("add-one"), actions.get("add"), "Add", 0, now);
}
