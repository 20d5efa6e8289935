// The drawer with the phones. It lies over the page, which stays usable.
import { ask } from "./ask.js";
import { el, make, newList, setClass, setText } from "./dom.js";
import { count, duration } from "./format.js";
import { newPhone, showPhone } from "./phone.js";

const drawer = el("drawer"), opener = el("open-phones");
let pages = new Map(), waiting = false;

const nameOf = id => pages.get(id)?.name ?? "Page " + (id.length > 8 ? "…" + id.slice(-4) : id);

function open(yes) {
  drawer.hidden = !yes;
  document.body.classList.toggle("with-phones", yes);
  opener.setAttribute("aria-expanded", String(yes));
  (yes ? el("drawer-title") : opener).focus();
}

opener.addEventListener("click", () => open(drawer.hidden));
el("close-phones").addEventListener("click", () => open(false));
drawer.addEventListener("keydown", e => { if (e.key === "Escape") open(false); });
el("add-phone").addEventListener("submit", async e => {
  e.preventDefault();
  await ask("POST", "phones", { page: el("phone-page").value });
});

// A phone of the same number but of another user is another one: the program was
// started anew.
const keyOf = p => p.id + " " + p.user;
const list = newList(el("phones"), newPhone, (v, p) => showPhone(v, p, waiting));

// showPhones shows the phones as the stream tells of them.
export function showPhones(r) {
  opener.hidden = r.max === 0;
  if (r.max === 0 && !drawer.hidden) open(false);
  if (r.full) {
    el("phone-page").replaceChildren(...(r.pages ?? []).map(id => {
      const o = make("option", "", nameOf(id));
      o.value = id;
      return o;
    }));
  }
  waiting = r.waiting;
  el("add-phone").querySelector("button").disabled = r.phones.length >= r.max;
  list.update(r.phones, keyOf);
}

// showWaiting tells each phone on a page in excess how many wait before it.
export function showWaiting(s) {
  pages = new Map(s.pages.map(p => [p.id, p]));
  for (const o of el("phone-page").options) setText(o, nameOf(o.value));
  list.each(v => {
    const page = pages.get(v.page), waits = page?.state === "excess" && page.waiting > 0 && (v.state === "joining" || v.state === "joined");
    setText(v.where, nameOf(v.page));
    setClass(v.root, "phone p" + (page?.color ?? 0));
    v.queue.hidden = !waits;
    if (waits) setText(v.queue, count(page.waiting) + " wait on " + page.name + " before you, about " + duration(page.wait));
  });
}
