// BullMQ: jobs are added, workers process them, and their results are read, in order of priority, with delays, repeated
// tries and parents that wait for their children.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import bullmq from "bullmq";

const { FlowProducer, Job, Queue, QueueEvents, Worker } = bullmq;

const connection = { host: process.argv[2], port: Number(process.argv[3]), db: 12 };
const { version } = JSON.parse(readFileSync(new URL("node_modules/bullmq/package.json", import.meta.url)));
let checks = 0;
const expect = (found, wanted) => {
  checks += 1;
  assert.deepEqual(found, wanted, `check ${checks}`);
};
const LIMIT_MS = 60_000;

const queue = new Queue("work", { connection });
await queue.obliterate({ force: true });
const events = new QueueEvents("work", { connection });
await events.waitUntilReady();

const order = [];
const done = new Set();
const perform = async (job) => {
  order.push(job.data.n ?? job.name);
  if (job.name === "refused") throw new Error("on purpose");
  if (job.name === "twice" && job.attemptsMade < 2) throw new Error(`try ${job.attemptsMade}`);
  if (job.name === "parent") return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0);
  await job.updateProgress(50);
  return (job.data.n ?? 0) * 2;
};

// Enqueued while nobody works, so that the order is the queue's.
await queue.addBulk([3, 1, 2].map((n) => ({ name: "ranked", data: { n }, opts: { priority: n } })));
const plain = await queue.add("plain", { n: 21 });
expect(await queue.getJobCounts("waiting", "prioritized", "delayed"), { waiting: 1, prioritized: 3, delayed: 0 });
const worker = new Worker("work", perform, { connection, concurrency: 1 });
worker.on("error", (error) => { console.error(error); process.exit(1); });
worker.on("completed", (job) => done.add(job.id));
expect(await plain.waitUntilFinished(events, LIMIT_MS), 42);
const ranked = await queue.add("ranked", { n: 9 }, { priority: 9 });
expect(await ranked.waitUntilFinished(events, LIMIT_MS), 18);
expect(order, [21, 1, 2, 3, 9]);

const many = await queue.addBulk(Array.from({ length: 200 }, (_, n) => ({ name: "many", data: { n } })));
const results = await Promise.all(many.map((job) => job.waitUntilFinished(events, LIMIT_MS)));
expect(results, Array.from({ length: 200 }, (_, n) => n * 2));

const delayed = await queue.add("delayed", { n: 1 }, { delay: 100 });
expect(await delayed.getState(), "delayed");
expect(await delayed.waitUntilFinished(events, LIMIT_MS), 2);

const twice = await queue.add("twice", { n: 5 }, { attempts: 3, backoff: { type: "fixed", delay: 10 } });
expect(await twice.waitUntilFinished(events, LIMIT_MS), 10);
expect((await Job.fromId(queue, twice.id)).attemptsMade, 3);

const refused = await queue.add("refused", {});
await assert.rejects(() => refused.waitUntilFinished(events, LIMIT_MS), /on purpose/);
expect(await refused.getState(), "failed");
expect((await queue.getFailed()).map((job) => job.id), [refused.id]);

const flow = new FlowProducer({ connection });
const child = (n) => ({ name: "child", queueName: "work", data: { n } });
const tree = await flow.add({ name: "parent", queueName: "work", data: {}, children: [1, 2, 3].map(child) });
expect(await tree.job.waitUntilFinished(events, LIMIT_MS), 12);

await queue.pause();
const held = await queue.add("held", { n: 4 });
expect(await queue.isPaused(), true);
await queue.resume();
expect(await held.waitUntilFinished(events, LIMIT_MS), 8);

const counts = await queue.getJobCounts("waiting", "active", "completed", "failed");
expect([counts.waiting, counts.active, counts.failed], [0, 0, 1]);
expect(counts.completed, 3 + 1 + 1 + 200 + 1 + 1 + 4 + 1);
await Promise.all([worker.close(), events.close(), flow.close()]);
expect(done.size, counts.completed);
await queue.obliterate({ force: true });
await queue.close();
console.log(`BullMQ ${version}: ${checks} checks`);
process.exit(0);
