// The scenario of a cluster in ../README.md through ioredis.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import Redis, { Cluster } from "ioredis";

const [host, port] = [process.argv[2], Number(process.argv[3])];
const { version } = createRequire(import.meta.url)("ioredis/package.json");
let checks = 0;
const expect = (found, wanted) => {
  checks += 1;
  assert.deepEqual(found, wanted, `check ${checks}`);
};
// The caller's time limit ends a program whose condition never holds.
const until = async (holds) => {
  while (!(await holds())) await pause(10);
};
// The node that is asked first may not know all replicas yet, so the library looks again.
const connect = (options) => new Cluster([{ host, port }], { slotsRefreshInterval: 200, ...options });

const cluster = connect();
await until(() => cluster.nodes("master").length === 3 && cluster.nodes("slave").length === 3);
const node = (port) => cluster.nodes("all").find(({ options }) => options.port === port);
const masters = async () => (await cluster.cluster("SLOTS")).sort(([a], [b]) => a - b);
const owner = async (slot) => {
  const [, , [, port], [, replica] = []] = (await masters()).find(([from, to]) => from <= slot && slot <= to);
  return { master: node(port), replica: node(replica) };
};
const slotOf = (key) => cluster.cluster("KEYSLOT", key);

// Keys of all nodes.
const keys = Array.from({ length: 300 }, (_, n) => `js:${n}`);
expect(await Promise.all(keys.map((key, n) => cluster.set(key, n))), keys.map(() => "OK"));
expect(await Promise.all(keys.map((key) => cluster.get(key))), keys.map((_, n) => `${n}`));
const sizes = await Promise.all(cluster.nodes("master").map((master) => master.dbsize()));
expect([sizes.every((size) => size > 0), sizes.reduce((a, b) => a + b)], [true, 300]);
const seen = new Set();
for (const master of cluster.nodes("master")) {
  for await (const batch of master.scanStream({ match: "js:*", count: 20 })) batch.forEach((key) => seen.add(key));
}
expect(seen.size, 300);
await assert.rejects(() => cluster.mset({ "js:0": 1, "js:1": 2 }), /CROSSSLOT/);
const stray = keys.find((key) => !["js:0"].includes(key));
const strayOwner = (await owner(await slotOf(stray))).master;
const other = cluster.nodes("master").find((master) => master !== strayOwner);
await assert.rejects(() => other.get(stray), new RegExp(`^ReplyError: MOVED ${await slotOf(stray)} .*:${strayOwner.options.port}`));

// Pipelines, transactions and scripts of one slot; commands that the library gathers by itself.
const pipeline = cluster.pipeline();
for (let n = 0; n < 500; n++) pipeline.set(`{js:p}${n}`, n).get(`{js:p}${n}`);
const replies = await pipeline.exec();
expect([replies.length, replies.every(([error]) => error === null), replies[999][1]], [1000, true, "499"]);
expect(await cluster.multi().incr("{js:t}a").incr("{js:t}b").exec(), [[null, 1], [null, 1]]);
cluster.defineCommand("addTo", { numberOfKeys: 2, lua: "return {redis.call('INCR', KEYS[1]), redis.call('INCR', KEYS[2])}" });
expect([await cluster.addTo("{js:t}a", "{js:t}b"), await cluster.addTo("{js:t}a", "{js:t}b")], [[2, 2], [3, 3]]);
await assert.rejects(() => cluster.addTo("js:0", "js:1"), /CROSSSLOT/);
const gathering = connect({ enableAutoPipelining: true });
expect(await Promise.all(keys.map((key) => gathering.incr(key))), keys.map((_, n) => n + 1));

// A message is heard whichever node it is published at.
const listener = connect();
const heard = [];
listener.on("message", (channel, message) => heard.push(`${channel} ${message}`));
expect(await listener.subscribe("js:news"), 1);
for (const master of cluster.nodes("master")) await master.publish("js:news", "hello");
await until(() => heard.length >= 3);
expect(heard, Array(3).fill("js:news hello"));
const sharded = connect({ shardedSubscribers: true });
const shard = [];
sharded.on("smessage", (channel, message) => shard.push(`${channel} ${message}`));
await sharded.ssubscribe("{js:s}news");
expect(await cluster.spublish("{js:s}news", "hello"), 1);
await until(() => shard.length > 0);
expect(shard, ["{js:s}news hello"]);

// Reads from replicas.
const reader = connect({ scaleReads: "slave" });
await until(() => reader.nodes("slave").length === 3);
await until(async () => (await reader.get("js:0")) === "1");
expect(await reader.get("js:299"), "300");
const reads = async (replica) => /cmdstat_get:calls=(\d+)/.exec(await replica.info("commandstats"))?.[1] ?? 0;
expect((await Promise.all(cluster.nodes("slave").map(reads))).some((calls) => calls > 0), true);

// A slot that moves: ASK and TRYAGAIN on the way, MOVED afterwards; a blocked client is sent after it.
const slot = await slotOf("{js:m}");
await cluster.mset({ "{js:m}1": 1, "{js:m}2": 2 });
const source = (await owner(slot)).master;
const target = cluster.nodes("master").find((master) => master !== source);
const [from, to] = await Promise.all([source, target].map((master) => master.cluster("MYID")));
const migrate = (key) => source.migrate(target.options.host, target.options.port, key, 0, 10_000);
const blocked = connect();
const job = blocked.blpop("{js:m}jobs", 0);
await until(async () => (await source.client("LIST")).includes("cmd=blpop"));
expect(await target.cluster("SETSLOT", slot, "IMPORTING", from), "OK");
expect(await source.cluster("SETSLOT", slot, "MIGRATING", to), "OK");
expect(await migrate("{js:m}1"), "OK");
expect([await cluster.get("{js:m}1"), await cluster.get("{js:m}2"), await cluster.get("{js:m}3")], ["1", "2", null]);
expect(await cluster.incr("{js:m}3"), 1);
await assert.rejects(() => source.mget("{js:m}1", "{js:m}2"), /^ReplyError: TRYAGAIN/);
await assert.rejects(() => source.get("{js:m}1"), new RegExp(`^ReplyError: ASK ${slot} .*:${target.options.port}`));
const both = cluster.mget("{js:m}1", "{js:m}2");
expect(await migrate("{js:m}2"), "OK");
expect(await both, ["1", "2"]);
for (const master of [target, source]) expect(await master.cluster("SETSLOT", slot, "NODE", to), "OK");
expect(await cluster.mget("{js:m}1", "{js:m}2", "{js:m}3"), ["1", "2", "1"]);
expect(await cluster.rpush("{js:m}jobs", "sweep"), 1);
expect(await job, ["{js:m}jobs", "sweep"]);

// A failover by hand: a counter goes on without a gap.
let shardOf;
await until(async () => (shardOf = await owner(await slotOf("{js:f}"))).replica !== undefined);
let counts = 0;
let isOver = false;
const counting = (async () => {
  while (!isOver) expect(await cluster.incr("{js:f}count"), (counts += 1));
})();
await until(() => counts > 20);
// The library closes its connection to the old primary while that has no slots and is no replica yet.
const [master, replica] = [shardOf.master, shardOf.replica].map(({ options }) => new Redis(options.port, options.host));
const handOver = () => replica.cluster("FAILOVER");
expect(await handOver(), "OK");
let asked = Date.now();
await until(async () => {
  if ((await replica.role())[0] === "master") return (await master.role())[0] === "slave";
  // The replica gives up after 5 seconds, and a disk that stalls takes as long. If it leads by now, it refuses.
  if (Date.now() - asked > 5_500) {
    asked = Date.now();
    await handOver().catch(() => {});
  }
  return false;
});
const before = counts;
await until(() => counts > before + 20);
isOver = true;
await counting;
expect(Number(await cluster.get("{js:f}count")), counts);

console.log(`ioredis ${version}: the scenario of a cluster`);
// The timers of its clients would keep the program alive.
process.exit();
