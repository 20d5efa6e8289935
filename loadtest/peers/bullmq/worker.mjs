// The worker: a BullMQ worker for each page, and the guide's way with a call that
// was refused. The queue is shut for a second, and the job goes back.
// https://docs.bullmq.io/guide/rate-limiting#manual-rate-limit
import http from "node:http";

import { Queue, RateLimitError, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";

import { load, pause, queueOf, workerOptions } from "./settings.mjs";

const throttled = 613; // the code of a call beyond the page's limit
const callTimeout = 10_000; // ms, as long as chatclub's own

const settings = load(process.env);
const agent = new http.Agent({ keepAlive: true });

/** post makes a call of the Send API, and resolves to the answer's status and body. */
function post(page, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(`${settings.graph}/${page}/messages`, {
      agent, method: "POST", timeout: callTimeout,
      headers: { authorization: `Bearer token-${page}`, "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => resolve({ status: response.statusCode, body: Buffer.concat(chunks).toString() }));
      response.on("error", reject);
    });
    request.on("timeout", () => request.destroy(new Error("send: no answer in time")));
    request.on("error", reject);
    request.end(body);
  });
}

/** codeOf is the error code in an answer, 0 where there is none. */
function codeOf(body) {
  try {
    return JSON.parse(body).error?.code ?? 0;
  } catch {
    return 0;
  }
}

const connection = new Redis(settings.redis, { maxRetriesPerRequest: null });
connection.on("error", (err) => console.error("redis:", err.message));

const workers = settings.pages.map((page) => {
  const options = { ...workerOptions(settings), connection };
  const queue = new Queue(queueOf(page), { prefix: options.prefix, connection });
  const worker = new Worker(queueOf(page), async (job) => {
    if (job.data.page !== page) throw new UnrecoverableError(`page ${job.data.page} on the queue of ${page}`);
    const answer = await post(page, job.data.body);
    if (answer.status === 200) return;
    const code = codeOf(answer.body);
    if (code === throttled) {
      await queue.rateLimit(pause);
      throw new RateLimitError();
    }
    throw new Error(`send: answer ${answer.status}, code ${code}`);
  }, options);
  worker.on("error", (err) => console.error("worker:", err.message));
  return worker;
});

let ending = false;
async function end() {
  if (ending) return;
  ending = true;
  await Promise.all(workers.map((worker) => worker.close())); // waits for the jobs in hand
  process.exit(0);
}
process.on("SIGTERM", end);
process.on("SIGINT", end);
process.stdin.on("end", end).resume(); // whoever started it is gone

await Promise.all(workers.map((worker) => worker.waitUntilReady()));
console.log("ready");
