// The head of the page: the verdict, the sentence and the caption of the tour.
import { el, setClass, setText } from "./dom.js";
import { count } from "./format.js";

const speakEvery = 10000;
let spokenLevel = "", spokenAt = 0;

// showCount shows a number that is bad when it is more than what is explained.
function showCount(e, n, word, explained) {
  setText(e, count(n) + " " + word);
  setClass(e, n > explained ? "bad" : "");
}

function showVerdict(v) {
  el("verdict").hidden = !v;
  if (!v) return;
  showCount(el("lost-count"), v.lost, "lost", 0);
  showCount(el("doubled-count"), v.duplicated, "doubled", v.explained);
  showCount(el("unexpected-count"), v.unexpected, "unexpected", 0);
  el("unexpected-count").hidden = v.unexpected === 0;
  setText(el("expected-count"), "of " + count(v.expected) + " messages");
  el("doubled-count").title = v.explained > 0 ? "Calls that a killed dispatcher had in flight are made again by the next." : "";
  el("verdict").title = count(v.expected) + " copies expected, " + count(v.accepted) + " accepted, " +
    count(v.waiting) + " waiting, " + count(v.refused) + " calls refused";
}

// speak has the sentence read out, not as often as its numbers change.
function speak(sentence) {
  const now = Date.now();
  if (sentence.level === spokenLevel && now - spokenAt < speakEvery) return;
  spokenLevel = sentence.level;
  spokenAt = now;
  setText(el("spoken"), sentence.text);
}

function showTour(tour) {
  document.body.classList.toggle("touring", Boolean(tour));
  el("caption").hidden = !tour;
  if (!tour) return;
  setText(el("caption-step"), tour.step + " of " + tour.of);
  setText(el("caption-text"), tour.text);
}

export function showHead(s) {
  el("logout").hidden = !s.login;
  showVerdict(s.verdict);
  setText(el("sentence"), s.sentence.text);
  setClass(el("sentence"), "sentence " + s.sentence.level);
  speak(s.sentence);
  el("machine").hidden = !s.machine;
  setText(el("machine").querySelector("span"), s.machine ?? "");
  setText(el("strategy"), s.strategy === "article" ? "working the article’s way" : "they share nothing but the queues");
  showTour(s.tour);
}
