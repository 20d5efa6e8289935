// The receipts: what came of each action, the latest first.
import { el, make, newList, setClass, setText } from "./dom.js";
import { clock } from "./format.js";

let spoken = null; // number of the latest receipt that was read out

function build() {
  const root = make("li"), p = { root, time: make("time"), text: make("p") };
  root.append(p.time, p.text);
  return p;
}

function show(p, r) {
  setClass(p.root, r.level);
  setText(p.time, clock(r.at));
  setText(p.text, r.text);
}

const list = newList(el("receipts"), build, show);

export function showReceipts(s) {
  el("receipts-box").hidden = !s.demo && s.receipts.length === 0;
  el("no-receipts").hidden = s.receipts.length > 0;
  list.update(s.receipts, r => r.n);
  const done = s.receipts.find(r => r.done)?.n ?? 0;
  // Those from before the page was opened are not read out.
  if (spoken !== null && done > spoken) setText(el("spoken-receipt"), s.receipts.find(r => r.done).text);
  spoken = done;
}
