// One notice at the top of the page, which goes away by itself.
import { el } from "./dom.js";

let timer = 0;

export function notify(text, milliseconds = 6000) {
  const notice = el("notice");
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { notice.hidden = true; }, milliseconds);
}
