// The drawer with the phones. It lies over the page, which stays usable.
import { el, setText } from "./dom.js";
import { count, pageName } from "./format.js";
import { arrives } from "./pages.js";
import { newPhones } from "./phones.js";

const drawer = el("drawer"), opener = el("open-phones");
let pages = new Map();

const nameOf = id => pages.get(id)?.name ?? pageName(id);
const phones = newPhones(el("phones"), el("add-phone"), nameOf, v => pages.get(v.page)?.color ?? 0);

function open(yes) {
  drawer.hidden = !yes;
  document.body.classList.toggle("with-phones", yes);
  opener.setAttribute("aria-expanded", String(yes));
  (yes ? el("drawer-title") : opener).focus();
}

opener.addEventListener("click", () => open(drawer.hidden));
el("close-phones").addEventListener("click", () => open(false));
drawer.addEventListener("keydown", e => { if (e.key === "Escape") open(false); });

// showPhones shows the phones, and the button for them where there can be some.
export function showPhones(r) {
  opener.hidden = r.max === 0;
  if (r.max === 0 && !drawer.hidden) open(false);
  phones.show(r);
}

// showWaiting tells each phone on a page in excess how many wait before it.
export function showWaiting(s) {
  pages = new Map(s.pages.map(p => [p.id, p]));
  phones.rename(v => {
    const page = pages.get(v.page), waits = page?.state === "excess" && page.waiting > 0 && (v.state === "joining" || v.state === "joined");
    v.queue.hidden = !waits;
    if (waits) setText(v.queue, count(page.waiting) + " wait on " + page.name + " before you. " + arrives(page));
  });
}
