"""One workload through a client library for Python: bench.py redis-py|glide HOST PORT WORKLOAD.

Prints one line of JSON as the programs for Rust do (../README.md). redis-py's idiom is a pool: each call takes a connection of
its own. GLIDE's is one multiplexed connection. Both gather many commands in pipelines.
"""

import asyncio
import json
import sys
import time

KEY, VALUE, COUNTER = "clients:key", b"a value of some length", "clients:counter"
DATABASES = 5
PIPELINE = 10_000


class RedisPy:
    """redis-py's asyncio client of one database."""

    def __init__(self, client):
        self.client = client

    @classmethod
    async def connect(cls, host, port, database):
        from redis.asyncio import Redis

        return cls(Redis(host=host, port=port, db=database, max_connections=2_000))

    async def get(self):
        return await self.client.get(KEY)

    async def several(self, commands):
        async with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()

    async def close(self):
        await self.client.aclose()


class Glide:
    """Valkey GLIDE's client of one database."""

    def __init__(self, client):
        self.client = client

    @classmethod
    async def connect(cls, host, port, database):
        from glide import GlideClient, GlideClientConfiguration, NodeAddress

        configuration = GlideClientConfiguration([NodeAddress(host, port)], database_id=database, request_timeout=60_000)
        return cls(await GlideClient.create(configuration))

    async def get(self):
        return await self.client.get(KEY)

    async def several(self, commands):
        from glide import Batch

        batch = Batch(is_atomic=False)
        for command in commands:
            batch.custom_command(list(command))
        return await self.client.exec(batch, raise_on_error=True)

    async def close(self):
        await self.client.close()


LIBRARIES = {"redis-py": RedisPy, "glide": Glide}


async def callers(client, tasks):
    calls = (4_000 if tasks == 1 else 40_000) // tasks
    latencies = []

    async def caller():
        for _ in range(calls):
            begun = time.perf_counter()
            assert await client.get() == VALUE
            latencies.append(time.perf_counter() - begun)

    await asyncio.gather(*(caller() for _ in range(tasks)))
    return calls * tasks, latencies


async def pings(client):
    for _ in range(20):
        await client.several([("PING",)] * 1_000)
    return 20_000, []


async def increments(clients):
    for _ in range(4):
        await asyncio.gather(*(client.several([("INCR", COUNTER)] * (5_000 // DATABASES)) for client in clients))
    return 20_000, []


async def fan_out(client):
    for _ in range(10):
        assert set(await client.several([("GET", KEY)] * PIPELINE)) == {VALUE}
    return 100_000, []


async def mass_set(client):
    for first in range(0, 100_000, PIPELINE):
        numbers = range(first, first + PIPELINE)
        await client.several([("SET", f"set:{number:012}", "0123456789abcdef") for number in numbers])
    return 100_000, []


async def main(library, host, port, workload):
    clients = [await LIBRARIES[library].connect(host, int(port), database) for database in range(DATABASES)]
    first = clients[0]
    await first.several([("SET", KEY, VALUE)])
    begun, cpu = time.perf_counter(), time.process_time()
    match workload.split("-"):
        case ["callers", tasks]:
            calls, latencies = await callers(first, int(tasks))
        case ["pings"]:
            calls, latencies = await pings(first)
        case ["increments"]:
            calls, latencies = await increments(clients)
        case ["fan", "out"]:
            calls, latencies = await fan_out(first)
        case ["mass", "set"]:
            calls, latencies = await mass_set(first)
        case _:
            sys.exit(f"there is no workload {workload!r}")
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    p99 = sorted(latencies)[len(latencies) * 99 // 100] * 1e6 if latencies else None
    print(json.dumps({"calls": calls, "seconds": seconds, "cpu_seconds": cpu, "p99_us": p99}))
    for client in clients:
        await client.close()


if len(sys.argv) != 5 or sys.argv[1] not in LIBRARIES:
    sys.exit("usage: bench.py redis-py|glide HOST PORT WORKLOAD")
asyncio.run(main(*sys.argv[1:]))
