// One workload through ioredis: node ioredis.mjs HOST PORT WORKLOAD. It prints one line of JSON as the programs for Rust do
// (README.md). What is called in one turn of the event loop leaves together (enableAutoPipelining).

import Redis from 'ioredis';

const [KEY, VALUE, COUNTER, DATABASES] = ['clients:key', 'a value of some length', 'clients:counter', 5];

const [host, port, workload] = process.argv.slice(2);
if (workload === undefined) {
  console.error('usage: node ioredis.mjs HOST PORT WORKLOAD');
  process.exit(1);
}
const connect = (db) => new Redis({ host, port: Number(port), db, enableAutoPipelining: true });
const clients = Array.from({ length: DATABASES }, (_, db) => connect(db));
const [client] = clients;

const many = (count, call) => Promise.all(Array.from({ length: count }, (_, number) => call(number)));

function check(value) {
  if (value !== VALUE) throw new Error(`GET gave ${value}`);
}

async function callers(tasks) {
  const calls = Math.floor((tasks === 1 ? 4_000 : 80_000) / tasks);
  const latencies = [];
  await many(tasks, async () => {
    for (let call = 0; call < calls; call += 1) {
      const begun = performance.now();
      check(await client.get(KEY));
      latencies.push(performance.now() - begun);
    }
  });
  return [calls * tasks, latencies];
}

async function run() {
  const [name, tasks] = workload.split('-');
  if (name === 'callers') return callers(Number(tasks));
  switch (workload) {
    case 'pings':
      for (let round = 0; round < 40; round += 1) await many(1_000, () => client.ping());
      return [40_000, []];
    case 'increments':
      for (let round = 0; round < 8; round += 1) await many(5_000, (n) => clients[n % DATABASES].incr(COUNTER));
      return [40_000, []];
    case 'fan-out':
      for (let round = 0; round < 20; round += 1) (await many(10_000, () => client.get(KEY))).forEach(check);
      return [200_000, []];
    case 'mass-set': {
      for (let first = 0; first < 200_000; first += 10_000) {
        const pipeline = client.pipeline();
        for (let number = first; number < first + 10_000; number += 1) {
          pipeline.set(`set:${String(number).padStart(12, '0')}`, '0123456789abcdef');
        }
        await pipeline.exec();
      }
      return [200_000, []];
    }
    default:
      throw new Error(`there is no workload ${workload}`);
  }
}

await client.set(KEY, VALUE);
const [begun, cpu] = [performance.now(), process.cpuUsage()];
const [calls, latencies] = await run();
const seconds = (performance.now() - begun) / 1e3;
const used = process.cpuUsage(cpu);
latencies.sort((a, b) => a - b);
const p99 = latencies.length > 0 ? latencies[Math.floor((latencies.length * 99) / 100)] * 1e3 : null;
console.log(JSON.stringify({ calls, seconds, cpu_seconds: (used.user + used.system) / 1e6, p99_us: p99 }));
clients.forEach((each) => each.disconnect());
