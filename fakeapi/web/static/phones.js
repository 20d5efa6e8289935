// The phones. Texts of users and of the system enter the page as text, never as markup.
import { ask } from "./ask.js";
import { pageName } from "./names.js";

const pictures = { sun: "a sun over the sea", mountain: "two mountains", cat: "a cat", cake: "a birthday cake", tree: "a tree", rocket: "a rocket" };
const el = id => document.getElementById(id);
const shown = new Map();
const typingFor = 20000;
const states = { sending: "sending …", sent: "sent", failed: "not delivered" };

el("add").addEventListener("submit", async e => {
  e.preventDefault();
  await ask("POST", "phones", { page: el("add-page").value });
});

const isLow = talk => talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;

function build(p) {
  const article = el("phone-template").content.firstElementChild.cloneNode(true);
  const q = s => article.querySelector(s), name = "Phone " + p.id, path = "phones/" + encodeURIComponent(p.id);
  const v = {
    path, user: p.user, article, messages: new Map(), last: 0, timer: 0, low: true,
    talk: q(".talk"), typing: q(".typing"), start: q(".start"), form: q(".compose"), input: q("input"),
    leave: q(".leave"), pictures: q(".pictures"), more: q(".more"), where: q(".where"),
  };
  article.id = "phone-" + p.id;
  article.setAttribute("aria-label", name);
  q("h3").textContent = name;
  q(".avatar").textContent = p.id;
  q(".avatar").classList.add("c" + Number(p.id) % 8);
  v.talk.setAttribute("aria-label", "Conversation of " + name.toLowerCase());
  v.input.setAttribute("aria-label", "Message from " + name.toLowerCase());
  v.more.setAttribute("aria-label", "Send a picture from " + name.toLowerCase());
  v.pictures.setAttribute("aria-label", "Pictures");
  v.leave.setAttribute("aria-label", "Block the page: " + name.toLowerCase() + " gets nothing more");
  q(".remove").setAttribute("aria-label", "Remove " + name.toLowerCase());
  q(".remove").addEventListener("click", () => ask("DELETE", path));
  v.leave.addEventListener("click", () => ask("POST", path + "/leave"));
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
  picker(v, path);
  return v;
}

function picker(v, path) {
  const open = yes => {
    v.pictures.hidden = !yes;
    v.more.setAttribute("aria-expanded", String(yes));
  };
  v.more.addEventListener("click", () => {
    open(v.pictures.hidden);
    if (!v.pictures.hidden) v.pictures.querySelector("button").focus();
  });
  v.pictures.addEventListener("keydown", e => {
    if (e.key !== "Escape") return;
    open(false);
    v.more.focus();
  });
  v.closePictures = () => open(false);
  for (const [name, words] of Object.entries(pictures)) {
    const button = document.createElement("button"), img = document.createElement("img");
    button.type = "button";
    button.dataset.picture = name;
    button.setAttribute("aria-label", "Send " + words);
    img.src = "pictures/" + name + ".svg";
    img.alt = "";
    button.append(img);
    button.addEventListener("click", () => {
      open(false);
      v.input.focus();
      ask("POST", path + "/messages", { picture: name });
    });
    v.pictures.append(button);
  }
}

// A text that only says that there is a picture is shown in words: the picture comes
// after it, and not every machine has a font with the sign.
const pictureSign = /^📷(×\d+)?$/u;

// fill puts a message into its bubble. A copy may begin with the writer's name,
// as those of chatclub do. The name is set apart.
function fill(bubble, m) {
  if (m.picture) {
    const img = document.createElement("img");
    img.src = "pictures/" + encodeURIComponent(m.picture) + ".svg";
    img.alt = "Picture: " + (pictures[m.picture] ?? m.picture);
    bubble.classList.add("picture");
    bubble.append(img);
    return;
  }
  const named = m.state ? null : /^([^\n:]{1,64}): ([^]*)$/.exec(m.text ?? "");
  if (named) {
    const sign = pictureSign.test(named[2]);
    const b = document.createElement("b");
    b.textContent = named[1];
    b.append(sr(": "));
    bubble.append(b, document.createTextNode(sign ? "sent a picture" : named[2]));
    bubble.classList.toggle("sign", sign);
  } else {
    bubble.textContent = m.text ?? m.url ?? "";
  }
}

function sr(text) {
  const s = document.createElement("span");
  s.className = "sr";
  s.textContent = text;
  return s;
}

// taps returns the box below a message with its buttons, which stay, or with its
// quick replies, which are there until the next message.
function taps(v, m, quick) {
  const box = document.createElement("div");
  box.className = quick ? "taps quick" : "taps";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", quick ? "Quick replies" : "Buttons");
  m.buttons.forEach((b, i) => {
    if (Boolean(b.quick) !== quick) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = b.title;
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

function showMessage(v, m) {
  let one = v.messages.get(m.n);
  if (!one) {
    const li = document.createElement("li"), bubble = document.createElement("div"), note = document.createElement("small");
    bubble.className = "bubble";
    fill(bubble, m);
    li.append(bubble);
    if (m.state) {
      li.className = m.tap ? "mine tap" : "mine";
      li.append(note);
    }
    one = { li, note, buttons: null, quick: null };
    if (m.buttons) {
      one.buttons = taps(v, m, false);
      one.quick = taps(v, m, true);
      for (const box of [one.buttons, one.quick]) if (box) li.append(box);
    }
    v.messages.set(m.n, one);
    v.last = Math.max(v.last, m.n);
    v.talk.append(li);
  }
  if (m.state) {
    one.li.dataset.state = m.state;
    one.note.textContent = states[m.state];
    one.note.className = m.state;
  }
}

function showTyping(v, yes, blocked) {
  clearTimeout(v.timer);
  v.typing.textContent = blocked ? "You blocked the page." : yes ? "typing …" : "";
  if (yes && !blocked) v.timer = setTimeout(() => { v.typing.textContent = ""; }, typingFor);
}

function showPhone(v, p, waiting) {
  const own = p.messages.some(m => m.state && !v.messages.has(m.n)); // the writer sees its own message
  const low = own || v.low;
  const before = v.talk.scrollHeight;
  for (const m of p.messages) showMessage(v, m);
  for (const [n, { li, buttons, quick }] of v.messages) {
    if (n < p.first) { li.remove(); v.messages.delete(n); }
    if (quick) quick.hidden = n !== v.last || p.state !== "joined";
    if (buttons) buttons.inert = p.state !== "joined";
  }
  if (low && v.talk.scrollHeight !== before) v.talk.scrollTop = v.talk.scrollHeight;
  v.low = low;
  showTyping(v, p.typing, p.state === "left");
  const joined = p.state === "joined";
  v.article.dataset.state = p.state;
  v.where.textContent = pageName(p.page);
  v.where.title = "Page " + p.page + ", user " + p.user;
  v.start.hidden = joined;
  v.start.disabled = p.state === "joining";
  v.start.textContent = p.state === "joining" ? (waiting ? "Waiting for the others …" : "Joining …") : p.state === "left" ? "Join again" : "Get started";
  v.form.hidden = !joined;
  v.leave.disabled = !joined;
  if (!joined) v.closePictures();
  if (joined && v.wanted) {
    v.wanted = false;
    if (document.activeElement === document.body || document.activeElement === v.start) v.input.focus({ preventScroll: true });
  }
}

export function showPhones(r) {
  el("no-phones").hidden = r.max > 0;
  el("add").hidden = el("phones").hidden = r.max === 0;
  if (r.full) {
    el("add-page").replaceChildren(...(r.pages ?? []).map(id => {
      const o = document.createElement("option");
      o.value = id;
      o.textContent = pageName(id);
      return o;
    }));
  }
  el("add").querySelector("button").disabled = r.phones.length >= r.max;
  const box = el("phones"), ids = new Set(r.phones.map(p => p.id));
  for (const [id, v] of shown) {
    const now = r.phones.find(p => p.id === id);
    if (ids.has(id) && now.user === v.user) continue;
    clearTimeout(v.timer);
    v.article.remove(); // removed, or of a program that has ended
    shown.delete(id);
  }
  for (const p of r.phones) {
    let v = shown.get(p.id);
    if (!v) {
      v = build(p);
      shown.set(p.id, v);
      box.append(v.article);
    }
    showPhone(v, p, r.waiting);
  }
}
