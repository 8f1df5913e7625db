"""redis-py's locks: one at a time, renewed, released only by their holder, and gone when their time is over."""

import threading
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError

from eventually import done, eventually, expect, server


def exclusion(r):
    counter = {"value": 0, "inside": 0, "most": 0}

    def work():
        for _ in range(25):
            with r.lock("many", timeout=60, sleep=0.001):
                counter["inside"] += 1
                counter["most"] = max(counter["most"], counter["inside"])
                seen = counter["value"]
                time.sleep(0)
                counter["value"] = seen + 1
                counter["inside"] -= 1

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect((counter["value"], counter["most"]), (200, 1))
    expect(r.exists("many"), 0)


def holding(r):
    mine, yours = r.lock("one", timeout=60), r.lock("one", timeout=60)
    expect(mine.acquire(), True)
    expect(yours.acquire(blocking=False), False)
    expect(yours.acquire(blocking_timeout=0.05), False)
    expect((mine.locked(), mine.owned(), yours.owned()), (True, True, False))
    expect(mine.extend(60), True)
    expect(60_000 < r.pttl("one") <= 120_000, True)
    expect(mine.reacquire(), True)
    expect(r.pttl("one") <= 60_000, True)
    for refused in (yours.release, lambda: yours.extend(1)):
        try:
            refused()
            expect("released", "refused")
        except LockError:
            pass
    mine.release()
    expect(yours.acquire(blocking=False), True)
    yours.release()


def expiry(r):
    short = r.lock("short", timeout=0.05)
    expect(short.acquire(), True)
    eventually(lambda: r.exists("short"), 0)
    expect(r.lock("short", timeout=60).acquire(blocking=False), True)
    try:
        short.release()
        expect("released", "refused")
    except LockNotOwnedError:
        pass


def main():
    host, port = server()
    for protocol in (2, 3):
        r = redis.Redis(host=host, port=port, db=11, protocol=protocol)
        r.flushdb()
        exclusion(r)
        holding(r)
        expiry(r)
        r.flushdb()
    done("redis-py's locks", redis.__version__)


main()
