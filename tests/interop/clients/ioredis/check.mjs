// The scenario of ../README.md through ioredis.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import Redis from "ioredis";

const [host, port] = [process.argv[2], Number(process.argv[3])];
const { version } = createRequire(import.meta.url)("ioredis/package.json");
let checks = 0;
const expect = (found, wanted) => {
  checks += 1;
  assert.deepEqual(found, wanted, `check ${checks}`);
};

const redis = new Redis({ host, port, db: 4, connectionName: "node" });
await redis.flushdb();

expect(await redis.set("js:text", "grün"), "OK");
expect(await redis.get("js:text"), "grün");
expect(await redis.get("js:none"), null);
const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
expect(await redis.set("js:bytes", bytes), "OK");
expect(await redis.getBuffer("js:bytes"), bytes);
expect(await redis.set("js:text", "x", "NX"), null);
expect(await redis.set("js:text", "y", "EX", 100, "GET"), "grün");
expect(await redis.persist("js:text"), 1);
expect(await redis.incrby("js:n", 41), 41);
expect(await redis.incr("js:n"), 42);
expect(await redis.incrbyfloat("js:n", 0.5), "42.5");
expect(await redis.mset({ "js:a": 1, "js:b": 2 }), "OK");
expect(await redis.mget("js:a", "js:none", "js:b"), ["1", null, "2"]);
expect(await redis.bitfield("js:bits", "SET", "u8", 0, 255, "GET", "u8", 0), [0, 255]);
expect(await redis.lcs("js:a", "js:b", "LEN"), 0);

const pipeline = redis.pipeline();
for (let n = 0; n < 1000; n++) pipeline.set(`js:pipe:${n}`, n).get(`js:pipe:${n}`);
const replies = await pipeline.exec();
expect(replies.length, 2000);
expect(replies.every(([error]) => error === null), true);
expect(replies[1999][1], "999");

const together = await Promise.all(Array.from({ length: 1000 }, () => redis.incr("js:together")));
expect(together[999], 1000);

expect(await redis.multi().incr("js:tx").incr("js:tx").exec(), [[null, 1], [null, 2]]);
const other = redis.duplicate();
await redis.watch("js:tx");
await other.incr("js:tx");
expect(await redis.multi().incr("js:tx").exec(), null);
expect(await redis.get("js:tx"), "3");

expect(await redis.rpush("js:list", 1, 2, 3), 3);
expect(await redis.lmove("js:list", "js:other", "LEFT", "RIGHT"), "1");
expect(await redis.lrange("js:list", 0, -1), ["2", "3"]);
expect(await redis.sadd("js:set", "a", "b"), 2);
expect((await redis.smembers("js:set")).sort(), ["a", "b"]);
expect(await redis.hset("js:hash", { name: "Ann", age: 36 }), 2);
expect(await redis.hgetall("js:hash"), { name: "Ann", age: "36" });
expect(await redis.zadd("js:zset", 30, "ann", 20.5, "bob"), 2);
expect(await redis.zrange("js:zset", 0, -1, "WITHSCORES"), ["bob", "20.5", "ann", "30"]);
expect(await redis.zpopmin("js:zset"), ["bob", "20.5"]);
expect(await redis.pfadd("js:hll", "a", "b"), 1);
const id = await redis.xadd("js:stream", "*", "field", "value");
expect(await redis.xgroup("CREATE", "js:stream", "group", "0"), "OK");
const entries = [["js:stream", [[id, ["field", "value"]]]]];
expect(await redis.xreadgroup("GROUP", "group", "ann", "STREAMS", "js:stream", ">"), entries);
expect(await redis.xack("js:stream", "group", id), 1);
redis.defineCommand("addTo", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
expect([await redis.addTo("js:scripted", 5), await redis.addTo("js:scripted", 5)], [5, 10]);
const listener = redis.duplicate();
const heard = new Promise((resolve) => listener.on("message", (...message) => resolve(message)));
await listener.subscribe("js:news");
expect(await redis.publish("js:news", "hello"), 1);
expect(await heard, ["js:news", "hello"]);
const waiter = redis.duplicate();
const job = waiter.blpop("js:jobs", 60);
await redis.rpush("js:jobs", "sweep");
expect(await job, ["js:jobs", "sweep"]);
await Promise.all([listener.quit(), waiter.quit()]);

const seen = new Set();
for await (const batch of redis.scanStream({ match: "js:pipe:*", count: 50 })) batch.forEach((key) => seen.add(key));
expect(seen.size, 1000);
expect(await redis.unlink(...seen), 1000);

expect(await redis.client("GETNAME"), "node");
expect((await redis.client("LIST")).includes("name=node"), true);
expect((await redis.info()).includes("redis_version:"), true);
expect(await redis.config("GET", "maxmemory-policy"), ["maxmemory-policy", "noeviction"]);
expect((await redis.command("COUNT")) > 60, true);
await assert.rejects(() => redis.call("NOSUCH", "x"), /unknown command/);
expect(await redis.ping(), "PONG");
await redis.flushdb();
await Promise.all([redis.quit(), other.quit()]);
console.log(`ioredis ${version}: ${checks} checks`);
