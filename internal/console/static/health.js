// RabbitMQ and the programs beside dispatchers, by what they say of themselves.
import { el, make, newList, setClass, setText } from "./dom.js";
import { count } from "./format.js";

function build() {
  const root = make("li"), p = { root, name: make("b"), says: make("span"), queues: make("small") };
  root.append(p.name, p.says, p.queues);
  return p;
}

function show(p, x) {
  setClass(p.root, "program" + (x.bad ? " bad" : ""));
  setText(p.name, x.title);
  setText(p.says, x.says);
  setText(p.queues, x.queues ?? "");
  p.root.title = x.hint ?? "";
}

// ready is what lies on the queues of each kind. A kind that was not counted is not said to be 0.
const ready = kinds => kinds?.every(k => k.ready < 0) ? "what is on queues is not known" : (kinds ?? []).map(k => k.name + " " + (k.ready < 0 ? "not known" : count(k.ready))).join(" · ");

function broker(b) {
  const idle = b.idle ?? [];
  return {
    key: "rabbitmq", title: "RabbitMQ" + (b.version ? " " + b.version : ""), bad: Boolean(b.error) || idle.length > 0,
    says: b.error ? "takes no messages: " + b.error : "ready", queues: ready(b.kinds),
    hint: [...idle.map(q => q.queue + " has " + count(q.ready) + " messages and no consumer"), b.count_error ?? ""].join("\n").trim(),
  };
}

const program = h => ({
  key: h.program + " " + h.name, title: h.program + " " + h.name, bad: Boolean(h.says),
  says: !h.says ? "ready" : h.answers ? "not ready: " + h.says : h.says,
});

const list = newList(el("programs"), build, show);

export function showHealth(s) {
  const items = (s.programs ?? []).filter(h => h.program !== "dispatcher").map(program);
  if (s.broker) items.unshift(broker(s.broker));
  el("programs").hidden = items.length === 0;
  list.update(items, x => x.key);
}

// notReady returns why a dispatcher that answers is not ready, by its name.
export const notReady = s => new Map((s.programs ?? []).filter(h => h.program === "dispatcher" && h.answers && h.says).map(h => [h.name, h.says]));
