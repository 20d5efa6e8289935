// The pages, a row for each: what it sends, and its lane while it is in excess.
import { drawSpark } from "./bars.js";
import { roundUp } from "./canvas.js";
import { el, fromTemplate, newList, setClass, setText } from "./dom.js";
import { clock, count, duration } from "./format.js";

const words = { excess: "in excess", sick: "calls fail" };
const stopped = ["paused", "suspended"];
const brief = ["limit", "answer", "person"]; // reasons that a page in excess has anyway
const still = page => page.wait === 0; // nothing is sent, and nobody knows for how long

// arrives says when a message to a page arrives that is written now.
export const arrives = page => still(page) ? "Nothing is sent for it now" : "A message written now arrives in about " + duration(page.wait) +
  (page.arrival ? " (" + duration(page.arrival.from) + " to " + duration(page.arrival.to) + ")" : "");

// newPages shows the pages, and calls choose with the id of a clicked page.
export function newPages(choose) {
  let fullLane = 1, chosen = "", can = new Set();

  function build(page) {
    const root = fromTemplate("page-template"), q = s => root.querySelector(s);
    root.dataset.page = page.id;
    q(".page").addEventListener("click", () => choose(page.id));
    return {
      root, page: q(".page"), name: q(".name"), spark: q(".spark"), sent: q(".rate b"), limit: q(".rate span"),
      state: q(".state b"), ends: q(".state small"), resume: q("[data-action=resume]"), pause: q("[data-action=pause]"), lane: q(".lane"), bar: q(".bar i"), waits: q(".waits"),
    };
  }

  function show(r, page) {
    const waits = page.waiting > 0 && page.state !== "free";
    setClass(r.root, "row p" + page.color + " " + page.state + (waits ? " waits" : "") + (can.size > 0 ? " operated" : ""));
    r.page.setAttribute("aria-pressed", String(page.id === chosen));
    r.page.title = "Page " + page.id + (page.owner ? ", which " + page.owner + " sends for" : "");
    setText(r.name, page.name);
    setText(r.sent, count(page.sent));
    setText(r.limit, page.limit > 0 ? "/" + count(page.limit) : "/s"); // it may be unknown
    const isStopped = stopped.includes(page.state), isTold = !isStopped && Boolean(page.why);
    const says = page.state === "excess" && page.short && !brief.includes(page.reason);
    setText(r.state, isTold ? "told to wait" : says ? page.short : words[page.state] ?? page.state);
    setText(r.ends, page.ends && page.state !== "free" ? (page.state === "paused" || isTold ? "until " : "probed ") + clock(page.ends) : "");
    r.resume.hidden = !(isStopped || isTold) || !can.has("resume");
    r.pause.hidden = isStopped || !can.has("pause");
    for (const [b, word] of [[r.resume, "Resume "], [r.pause, "Pause "]]) {
      b.dataset.page = page.id;
      b.setAttribute("aria-label", word + page.name);
    }
    r.state.parentNode.title = page.why || (page.waits && page.waiting > 0 ? "waits " + page.waits : page.since ? "in excess since " + clock(page.since) : "");
    setText(r.waits, waits ? count(page.waiting) + " wait · " + (still(page) ? "oldest " + duration(page.oldest) : duration(page.wait)) : "");
    r.waits.title = !waits ? "" : still(page) ? count(page.waiting) + " wait " + (page.waits ?? "") : arrives(page);
    r.bar.style.width = waits ? Math.min(100, 100 * page.waiting / fullLane) + "%" : "0";
  }

  const list = newList(el("pages"), build, show);
  return {
    // show brings the rows up to date. selected is the id of the chosen page.
    show(s, selected) {
      chosen = selected;
      can = new Set(s.read_only ? [] : s.actions.map(a => a.name).filter(name => name === "pause" || name === "resume"));
      fullLane = roundUp(Math.max(100, ...s.pages.flatMap(p => [p.waiting, ...p.history.waiting])));
      list.update(s.pages, p => p.id);
      el("pages").classList.toggle("many", s.pages.length > 6);
      setText(el("lanes-hint"), s.pages.some(p => p.state === "excess") ? "what waits for the limit" : "none: nothing waits for its limit");
      const more = s.all_pages > s.pages.length;
      el("pages-hint").hidden = !more;
      setText(el("pages-hint"), more ? "The " + s.pages.length + " of " + count(s.all_pages) + " pages with most to do" : "");
    },
    // draw draws the small charts, which have news once a second.
    draw(s) {
      for (const p of s.pages) drawSpark(list.get(p.id).spark, "p" + p.color, p.history.sent, p.history.refused, p.limit);
    },
    row: id => list.get(id),
  };
}
