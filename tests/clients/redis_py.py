"""The scenario of README.md through redis-py, in RESP2 and in RESP3."""

import sys
import threading

import redis

checks = 0


def expect(found, wanted):
    global checks
    checks += 1
    if found != wanted:
        raise AssertionError(f"check {checks}: {found!r} instead of {wanted!r}")


def strings(r):
    expect(r.set("py:text", "grün"), True)
    expect(r.get("py:text"), "grün".encode())
    expect(r.set("py:bytes", bytes(range(256))), True)
    expect(r.get("py:bytes"), bytes(range(256)))
    expect(r.get("py:none"), None)
    expect(r.set("py:text", "x", nx=True), None)
    expect(r.set("py:text", "y", get=True), "grün".encode())
    expect(r.set("py:ttl", "1", ex=100), True)
    expect(0 < r.ttl("py:ttl") <= 100, True)
    expect(r.getex("py:ttl", persist=True), b"1")
    expect(r.ttl("py:ttl"), -1)
    expect(r.incr("py:n", 41), 41)
    expect(r.incr("py:n"), 42)
    expect(r.incrbyfloat("py:n", 0.5), 42.5)
    expect(r.append("py:text", "zz"), 3)
    expect(r.setrange("py:text", 1, "oo"), 3)
    expect(r.getrange("py:text", 0, -1), b"yoo")
    expect(r.mset({"py:a": 1, "py:b": 2}), True)
    expect(r.mget("py:a", "py:none", "py:b"), [b"1", None, b"2"])
    expect(r.setbit("py:bits", 7, 1), 0)
    expect(r.bitcount("py:bits"), 1)
    expect(r.bitfield("py:bits").set("u8", 8, 255).get("u8", 8).execute(), [0, 255])
    expect(r.getdel("py:a"), b"1")


def keys(r):
    names = {f"py:scan:{n}".encode() for n in range(500)}
    r.mset({name: 0 for name in names})
    expect(set(r.scan_iter("py:scan:*", count=50)), names)
    expect(r.exists("py:b", "py:none"), 1)
    expect(r.type("py:b"), b"string")
    expect(r.rename("py:b", "py:c"), True)
    expect(r.copy("py:c", "py:d"), True)
    expect(r.object("encoding", "py:c"), b"int")
    expect(r.expire("py:c", 100, gt=True), False)
    expect(r.expire("py:c", 100), True)
    expect(r.persist("py:c"), True)
    expect(r.unlink(*names), 500)


def pipelines(r):
    pipe = r.pipeline(transaction=False)
    for n in range(1000):
        pipe.set(f"py:pipe:{n}", n)
        pipe.get(f"py:pipe:{n}")
    replies = pipe.execute()
    expect(replies[1::2], [str(n).encode() for n in range(1000)])
    with r.pipeline() as pipe:
        pipe.multi()
        pipe.incr("py:tx")
        pipe.incr("py:tx")
        expect(pipe.execute(), [1, 2])
    with r.pipeline() as pipe:
        pipe.watch("py:tx")
        r.incr("py:tx")
        pipe.multi()
        pipe.incr("py:tx")
        try:
            pipe.execute()
            expect("executed", "aborted")
        except redis.WatchError:
            expect(r.get("py:tx"), b"3")


def server(r):
    expect(r.ping(), True)
    expect(r.echo("hi"), b"hi")
    expect(r.client_setname("py"), True)
    expect(r.client_getname() in ("py", b"py"), True)
    expect(any(c["name"] == "py" for c in r.client_list()), True)
    expect(r.client_id() > 0, True)
    expect("redis_version" in r.info(), True)
    expect("used_memory" in r.info("memory"), True)
    expect(r.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"})
    expect(r.config_set("maxmemory-policy", "noeviction"), True)
    expect(r.command_count() > 60, True)
    expect("get" in {name.lower() for name in r.command()}, True)
    expect(r.time()[0] > 1_600_000_000, True)
    try:
        r.execute_command("NOSUCH", "x")
        expect("answered", "refused")
    except redis.ResponseError as error:
        expect(str(error).startswith("unknown command"), True)
    expect(r.ping(), True)


def threads(host, port, protocol):
    pool = redis.Redis(host=host, port=port, protocol=protocol)

    def work():
        for _ in range(200):
            pool.incr("py:threads")

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect(pool.get("py:threads"), b"1600")


def main():
    host, port = sys.argv[1], int(sys.argv[2])
    for protocol in (2, 3):
        r = redis.Redis(host=host, port=port, protocol=protocol, db=2)
        r.flushdb()
        for part in (strings, keys, pipelines, server):
            part(r)
        threads(host, port, protocol)
        redis.Redis(host=host, port=port).delete("py:threads")
        r.flushdb()
        expect(r.dbsize(), 0)
    print(f"redis-py {redis.__version__}: {checks} checks in RESP2 and RESP3")


main()
