// What the load test says of the run, and what BullMQ is told because of it.
import { readFileSync } from "node:fs";

// slowest is how many seconds nearly every call takes at most: the platform's
// 99th percentile is 1.9 s.
const slowest = 2;

/** load reads the settings from the environment, and throws with every wrong one named. */
export function load(env) {
  const faults = [];
  const number = (name, least) => {
    const n = Number(env[name] || NaN);
    if (!(n >= least)) faults.push(`${name}: ${JSON.stringify(env[name])} must be a number of ${least} at least`);
    return n;
  };
  const text = (name) => {
    if (!env[name]) faults.push(`${name} must be set`);
    return env[name];
  };
  const settings = {
    graph: text("GRAPH_URL"), redis: text("REDIS_URL"), namespace: text("NAMESPACE"),
    limit: number("LIMIT", 1), replicas: number("REPLICAS", 1), pages: [],
  };
  try {
    settings.pages = readFileSync(env.PAGES_FILE ?? "", "utf8").split(/\s+/).filter(Boolean);
    if (settings.pages.length === 0) faults.push("PAGES_FILE: there is no page in it");
  } catch (err) {
    faults.push(`PAGES_FILE: ${err.message}`);
  }
  if (faults.length > 0) throw new Error(faults.join("; "));
  return settings;
}

/** queueOf is the name of a page's queue. */
export const queueOf = (page) => `page-${page}`;

/**
 * workerOptions are those of a page's worker. The limiter counts the jobs of all
 * workers of a queue together, so each is told the whole limit.
 * https://docs.bullmq.io/guide/rate-limiting
 */
export function workerOptions(settings) {
  return {
    prefix: settings.namespace,
    concurrency: Math.max(50, Math.ceil((settings.limit * slowest) / settings.replicas)),
    limiter: { max: Math.floor(settings.limit), duration: 1000 },
  };
}

/** pause is how long the queue is shut after a refused call, in ms: the limit counts by seconds. */
export const pause = 1000;

/**
 * jobOptions are those of a message's job. What fails otherwise than by the
 * limit is tried again, later each time.
 * https://docs.bullmq.io/guide/retrying-failing-jobs
 */
export const jobOptions = (id) => ({
  jobId: id, attempts: 10, backoff: { type: "exponential", delay: 1000 }, removeOnComplete: true,
});
