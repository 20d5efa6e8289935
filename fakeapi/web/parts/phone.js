// One phone. Texts of users and of the system enter the page as text, never as
// markup.
import { ask } from "./ask.js";
import { make, setText } from "./dom.js";
import { newPicker, picture } from "./pictures.js";

const template = document.createElement("template");
template.innerHTML = `
  <article class="phone">
    <header>
      <span class="avatar" aria-hidden="true"></span>
      <div><h3></h3><p class="where"></p></div>
      <button type="button" class="block">Block</button>
      <button type="button" class="remove icon">×</button>
    </header>
    <p class="queue" hidden></p>
    <ol class="talk" role="log" tabindex="0"></ol>
    <p class="typing" aria-live="polite"></p>
    <div class="foot">
      <button type="button" class="start">Get started</button>
      <form class="compose">
        <button type="button" class="more icon" aria-expanded="false">+</button>
        <input type="text" maxlength="2000" autocomplete="off" placeholder="Message">
        <button type="submit">Send</button>
      </form>
      <div class="pictures" role="group" hidden></div>
    </div>
  </article>`;

const typingFor = 20000;
const states = { sending: "sending …", sent: "sent", failed: "not delivered" };
// A text that only says that there is a picture is not shown: the picture comes
// behind it, and the sign would be an empty box where no font has it.
const pictureSign = /^📷(×\d+)?$/u;

const isLow = talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;

export function newPhone(p) {
  const root = template.content.firstElementChild.cloneNode(true), q = s => root.querySelector(s);
  const name = "Phone " + p.id, path = "phones/" + encodeURIComponent(p.id);
  const v = {
    root, path, id: p.id, page: p.page, user: p.user, messages: new Map(), last: 0, timer: 0, low: true, wanted: false,
    talk: q(".talk"), typing: q(".typing"), start: q(".start"), form: q(".compose"), input: q("input"),
    block: q(".block"), where: q(".where"), queue: q(".queue"), state: p.state,
  };
  root.id = "phone-" + p.id;
  root.setAttribute("aria-label", name);
  setText(q("h3"), name);
  setText(q(".avatar"), p.id);
  v.talk.setAttribute("aria-label", "Conversation of " + name.toLowerCase());
  v.input.setAttribute("aria-label", "Message from " + name.toLowerCase());
  q(".more").setAttribute("aria-label", "Send a picture from " + name.toLowerCase());
  q(".pictures").setAttribute("aria-label", "Pictures");
  v.block.setAttribute("aria-label", "Block the page: " + name.toLowerCase() + " gets nothing more");
  q(".remove").setAttribute("aria-label", "Remove " + name.toLowerCase());
  q(".remove").addEventListener("click", () => ask("DELETE", path));
  v.block.addEventListener("click", () => ask("POST", path + "/leave"));
  v.start.addEventListener("click", async () => {
    v.wanted = true; // the focus goes on to the input when that is there
    await ask("POST", path + "/start");
  });
  v.form.addEventListener("submit", async e => {
    e.preventDefault();
    const text = v.input.value;
    if (text.trim() === "") return;
    v.input.value = "";
    if (!await ask("POST", path + "/messages", { text }) && v.input.value === "") v.input.value = text;
  });
  // A phone that gets narrower, because another comes, still shows its last message.
  v.talk.addEventListener("scroll", () => { v.low = isLow(v.talk); });
  new ResizeObserver(() => { if (v.low) v.talk.scrollTop = v.talk.scrollHeight; }).observe(v.talk);
  v.closePictures = newPicker(q(".pictures"), q(".more"), name => {
    v.input.focus();
    ask("POST", path + "/messages", { picture: name });
  });
  return v;
}

// fill puts a message into its bubble. A copy may begin with the writer's name,
// as those of chatclub do. The name is set apart.
function fill(bubble, m) {
  if (m.picture) {
    bubble.classList.add("picture");
    bubble.append(picture(m.picture));
    return;
  }
  const named = m.state ? null : /^([^\n:]{1,64}): ([^]*)$/.exec(m.text ?? "");
  const text = named ? named[2] : m.text ?? m.url ?? "";
  if (named) {
    const b = make("b", "", named[1]);
    b.append(make("span", "sr", ": "));
    bubble.append(b);
  }
  bubble.append(pictureSign.test(text) ? make("i", "", "sent a picture") : document.createTextNode(text));
}

// taps returns the box below a message with its buttons, which stay, or with its
// quick replies, which are there until the next message.
function taps(v, m, quick) {
  const box = make("div", quick ? "taps quick" : "taps");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", quick ? "Quick replies" : "Buttons");
  m.buttons.forEach((b, i) => {
    if (Boolean(b.quick) !== quick) return;
    const button = make("button", "", b.title);
    button.type = "button";
    if (b.url) {
      button.disabled = true;
      button.title = "Would open " + b.url;
    }
    button.addEventListener("click", () => {
      v.input.focus({ preventScroll: true }); // a quick reply goes away under the focus
      ask("POST", v.path + "/taps", { message: m.n, button: i });
    });
    box.append(button);
  });
  return box.childElementCount > 0 ? box : null;
}

function newMessage(v, m) {
  const li = make("li", m.state ? (m.tap ? "mine tap" : "mine") : ""), bubble = make("div", "bubble"), note = make("small");
  fill(bubble, m);
  li.append(bubble);
  if (m.state) li.append(note);
  const one = { li, note, buttons: null, quick: null };
  if (m.buttons) {
    one.buttons = taps(v, m, false);
    one.quick = taps(v, m, true);
    for (const box of [one.buttons, one.quick]) if (box) li.append(box);
  }
  return one;
}

function showMessage(v, m) {
  let one = v.messages.get(m.n);
  if (!one) {
    one = newMessage(v, m);
    v.messages.set(m.n, one);
    v.last = Math.max(v.last, m.n);
    v.talk.append(one.li);
  }
  if (!m.state) return;
  one.li.dataset.state = m.state;
  one.note.textContent = states[m.state];
  one.note.className = m.state;
}

function showTyping(v, p) {
  clearTimeout(v.timer);
  setText(v.typing, p.state === "left" ? "You have blocked the page." : p.typing ? "typing …" : "");
  if (p.typing) v.timer = setTimeout(() => setText(v.typing, ""), typingFor);
}

function showTalk(v, p) {
  const own = p.messages.some(m => m.state && !v.messages.has(m.n)); // the writer sees its own message
  const low = own || v.low;
  const before = v.talk.scrollHeight;
  for (const m of p.messages) showMessage(v, m);
  for (const [n, { li, buttons, quick }] of v.messages) {
    if (n < p.first) {
      li.remove();
      v.messages.delete(n);
    }
    if (quick) quick.hidden = n !== v.last || p.state !== "joined";
    if (buttons) buttons.inert = p.state !== "joined";
  }
  if (low && v.talk.scrollHeight !== before) v.talk.scrollTop = v.talk.scrollHeight;
  v.low = low;
}

// showPhone brings a phone up to date. waiting says that no phone may join yet.
export function showPhone(v, p, waiting) {
  const joined = p.state === "joined";
  showTalk(v, p);
  showTyping(v, p);
  v.state = v.root.dataset.state = p.state;
  v.where.title = "Page " + p.page + ", user " + p.user;
  v.start.hidden = joined;
  v.start.disabled = p.state === "joining";
  setText(v.start, p.state === "joining" ? (waiting ? "Waiting for the others …" : "Joining …") : p.state === "left" ? "Join again" : "Get started");
  v.form.hidden = !joined;
  v.block.disabled = !joined;
  if (!joined) v.closePictures();
  if (joined && v.wanted) {
    v.wanted = false;
    if (document.activeElement === document.body || document.activeElement === v.start) v.input.focus({ preventScroll: true });
  }
}
