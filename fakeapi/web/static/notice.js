// One notice at the top of the page, which goes away by itself.
const notice = document.getElementById("notice");
let timer = 0;

export function notify(text, milliseconds = 6000) {
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { notice.hidden = true; }, milliseconds);
}
