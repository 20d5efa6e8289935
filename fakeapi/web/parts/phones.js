// The phones, as the stream tells of them.
import { ask } from "./ask.js";
import { make, newList, setClass, setText } from "./dom.js";
import { newPhone, showPhone } from "./phone.js";

// A phone of the same number but of another user is another one: the program was
// restarted.
const keyOf = p => p.id + " " + p.user;

// newPhones shows phones in box. form adds one for the page that its select has.
// nameOf returns a page's name, and colorOf the number of a phone's colour.
export function newPhones(box, form, nameOf, colorOf) {
  const select = form.querySelector("select");
  let waiting = false;
  const name = v => {
    setText(v.where, nameOf(v.page));
    setClass(v.root, "phone p" + colorOf(v));
  };
  const list = newList(box, newPhone, (v, p) => {
    showPhone(v, p, waiting);
    name(v);
  });
  form.addEventListener("submit", async e => {
    e.preventDefault();
    await ask("POST", "phones", { page: select.value });
  });
  return {
    show(r) {
      if (r.full) {
        select.replaceChildren(...(r.pages ?? []).map(id => {
          const o = make("option", "", nameOf(id));
          o.value = id;
          return o;
        }));
      }
      waiting = r.waiting;
      form.querySelector("button").disabled = r.phones.length >= r.max;
      list.update(r.phones, keyOf);
    },
    // rename shows the new names, and calls f with each phone.
    rename(f) {
      for (const o of select.options) setText(o, nameOf(o.value));
      list.each(v => {
        name(v);
        f(v);
      });
    },
  };
}
