// The page's own wiring: the state goes in, the parts show it.
import { showActions } from "./actions.js";
import { ask } from "./ask.js";
import { setSlots } from "./canvas.js";
import { newCursor } from "./cursor.js";
import { showDead } from "./dead.js";
import { drawDelays, tellDelays } from "./delays.js";
import { newDispatchers } from "./dispatchers.js";
import { el } from "./dom.js";
import { showPhones, showWaiting } from "./drawer.js";
import { clock } from "./format.js";
import { showHead } from "./head.js";
import { showHealth } from "./health.js";
import { notify } from "./notice.js";
import { newPages } from "./pages.js";
import { showReceipts } from "./receipts.js";
import { drawSends, tellSends } from "./sends.js";
import { listen } from "./stream.js";
import { newWires } from "./wires.js";

let latest = null; // the state that was shown last
let chosen = ""; // id of the page whose chart is shown
let byReader = false; // the reader chose it
let drawn = 0; // the second that the charts show last
let slot = null; // the second under the pointer, counted from the left

const pages = newPages(id => {
  chosen = id;
  byReader = true;
  show(latest, true);
});
const dispatchers = newDispatchers();
const wires = newWires(pages.row, dispatchers.card);
const cursors = [
  newCursor(el("chart"), el("chart-tip"), i => tellSends(latest, chosen, i), move),
  newCursor(el("delay"), el("delay-tip"), i => tellDelays(latest, chosen, i), move),
];

function move(i) {
  slot = i;
  if (latest) draw();
}

// choose returns the page that the reader chose. Until then it is one in excess,
// if there is one.
function choose(s) {
  const now = s.pages.find(p => p.id === chosen);
  if (now && (byReader || now.state === "excess")) return now;
  return s.pages.find(p => p.state === "excess") ?? now ?? s.pages[0];
}

function draw() {
  setSlots(Math.max(...latest.pages.map(p => p.history.sent.length)));
  pages.draw(latest);
  drawSends(latest, chosen, slot);
  drawDelays(latest, chosen, slot);
  for (const c of cursors) c.show(slot);
}

// show shows a state. The charts have news once a second, unless forced.
function show(s, forced) {
  if (!s) return;
  if (latest && latest.started !== s.started) notify("The system was restarted at " + clock(s.started) + ".", 15000);
  latest = s;
  const page = choose(s);
  chosen = page?.id ?? "";
  showHead(s);
  showHealth(s);
  pages.show(s, chosen);
  dispatchers.show(s);
  showActions(s, page);
  showReceipts(s);
  showDead(s);
  showWaiting(s);
  wires.show(s);
  const end = page?.history.end ?? 0;
  if (!forced && end === drawn) return;
  drawn = end;
  draw();
}

const again = () => show(latest, true);
const size = new ResizeObserver(again);
for (const id of ["flow", "chart", "delay"]) size.observe(el(id));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
document.fonts.ready.then(again);

el("logout").addEventListener("click", async () => {
  if (await ask("POST", "logout")) location.reload();
});

listen(() => "state", { state: s => show(s, false), phones: showPhones, login: () => location.reload() });
