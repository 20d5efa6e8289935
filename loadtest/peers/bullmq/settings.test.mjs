import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { jobOptions, load, workerOptions } from "./settings.mjs";

const right = { GRAPH_URL: "http://127.0.0.1:1/v23.0", REDIS_URL: "redis://127.0.0.1:1/0", NAMESPACE: "n", LIMIT: "300", REPLICAS: "4" };

// The guide: max jobs in duration ms, of all workers of the queue together.
test("each worker is told the whole limit of its page", () => {
  const { limiter, concurrency } = workerOptions({ namespace: "n", limit: 300, replicas: 4 });
  assert.deepEqual(limiter, { max: 300, duration: 1000 });
  assert.equal(concurrency, 150); // 300/s × 2 s of 4 workers
});

test("a failed call is made again", () => {
  const { attempts, backoff, jobId } = jobOptions("1/m/2");
  assert.deepEqual([attempts, backoff, jobId], [10, { type: "exponential", delay: 1000 }, "1/m/2"]);
});

test("settings", (t) => {
  const dir = mkdtempSync(join(tmpdir(), "bullmq-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "pages");
  writeFileSync(file, "1\n1001\n");
  const got = load({ ...right, PAGES_FILE: file });
  assert.deepEqual([got.limit, got.replicas, got.pages], [300, 4, ["1", "1001"]]);
  assert.throws(() => load({ LIMIT: "x", PAGES_FILE: join(dir, "none") }), (err) => {
    for (const name of ["GRAPH_URL", "REDIS_URL", "NAMESPACE", "LIMIT", "REPLICAS", "PAGES_FILE"]) assert.match(err.message, new RegExp(name));
    return true;
  });
});
