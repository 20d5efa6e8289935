// The feeder: puts messages into the queues of their pages, in bulk, and says in
// the end what is left there.
import { createInterface } from "node:readline";

import { Queue } from "bullmq";
import { Redis } from "ioredis";

import { jobOptions, load, queueOf } from "./settings.mjs";

const settings = load(process.env);
const connection = new Redis(settings.redis, { maxRetriesPerRequest: null });
connection.on("error", (err) => console.error("redis:", err.message));

const queues = new Map(); // by page
function queue(page) {
  if (!queues.has(page)) queues.set(page, new Queue(queueOf(page), { prefix: settings.namespace, connection }));
  return queues.get(page);
}

/** put adds a job for each message, in order. */
async function put(messages) {
  await Promise.all([...group(messages)].map(([page, list]) =>
    queue(page).addBulk(list.map((m) => ({ name: "send", data: { page, body: m.body }, opts: jobOptions(m.id) })))));
  return { put: messages.length };
}

/** group returns the messages by page. Node.js 20 lacks Map.groupBy. */
function group(messages) {
  const byPage = new Map();
  for (const m of messages) {
    if (!byPage.has(m.page)) byPage.set(m.page, []);
    byPage.get(m.page).push(m);
  }
  return byPage;
}

/**
 * left lists the jobs by their states. An active one is of a worker that was
 * killed: BullMQ tries it again when its lock has ended, after 30 s, and somebody
 * has looked, every 30 s.
 */
async function left() {
  const found = { waiting: [], dead: [] };
  for (const page of settings.pages) {
    const list = async (state, to) => {
      for (const id of await queue(page).getRanges([state], 0, -1)) to.push(id);
    };
    for (const state of ["waiting", "active", "delayed", "prioritized"]) await list(state, found.waiting);
    await list("failed", found.dead);
  }
  return { left: found };
}

/** remove deletes the keys of all queues. */
async function remove() {
  for await (const keys of connection.scanStream({ match: `${settings.namespace}:*`, count: 1000 })) {
    if (keys.length > 0) await connection.unlink(keys);
  }
}

/** answer does a command. */
async function answer(command) {
  if (command.left) return left();
  if (command.put) return put(command.put);
  throw new Error("neither put nor left is in the command");
}

process.on("SIGINT", () => {}); // a Ctrl-C is for whoever started it
await connection.ping();
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const result = await answer(JSON.parse(line)).catch((err) => ({ error: err.message }));
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
await remove();
process.exit(0);
