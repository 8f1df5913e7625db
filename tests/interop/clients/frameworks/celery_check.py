"""Celery: tasks are sent, `celery worker` runs them, and their results are read, as are its events and its remote control."""

import os
import pathlib
import subprocess
import sys

import redis

from eventually import done, eventually, expect, server

host, port = server()
os.environ["CELERY_CHECK_URL"] = f"redis://{host}:{port}"

import celery  # noqa: E402  (the application reads the environment when it is imported)

from celery_tasks import add, app, refuse, succeed_at_last, total  # noqa: E402

SECONDS = 60


def start_worker():
    program = [sys.executable, "-m", "celery", "--app", "celery_tasks", "--quiet", "worker", "--pool", "threads"]
    program += ["--concurrency", "2", "--loglevel", "error", "--hostname", "check@worker"]
    return subprocess.Popen(program, cwd=pathlib.Path(__file__).parent)


def tasks():
    expect(add.delay(2, 3).get(timeout=SECONDS), 5)
    many = celery.group(add.s(n, n) for n in range(50))()
    expect(many.get(timeout=SECONDS), [n + n for n in range(50)])
    expect(celery.chain(add.s(1, 2), add.s(4), add.s(8))().get(timeout=SECONDS), 15)
    expect(celery.chord((add.s(n, 1) for n in range(10)), total.s())().get(timeout=SECONDS), 55)
    expect(succeed_at_last.delay().get(timeout=SECONDS), 2)
    expect(add.apply_async((1, 1), countdown=0.2).get(timeout=SECONDS), 2)
    failed = refuse.delay("on purpose")
    try:
        failed.get(timeout=SECONDS)
        expect("answered", "failed")
    except ValueError as error:
        expect(str(error), "on purpose")
    expect(failed.state, "FAILURE")
    stored = add.delay(20, 22)
    expect(stored.get(timeout=SECONDS), 42)
    expect(app.AsyncResult(stored.id).result, 42)
    stored.forget()
    expect(app.AsyncResult(stored.id).state, "PENDING")


def remote_control(brokers):
    expect(app.control.ping(timeout=SECONDS, limit=1), [{"check@worker": {"ok": "pong"}}])
    eventually(lambda: brokers.llen("celery"), 0)
    eventually(lambda: brokers.hlen("unacked"), 0)


def main():
    brokers = redis.Redis(host=host, port=port, db=8)
    brokers.flushdb()
    redis.Redis(host=host, port=port, db=9).flushdb()
    early = add.delay(1, 1)
    expect(brokers.llen("celery"), 1)
    worker = start_worker()
    try:
        expect(early.get(timeout=SECONDS), 2)
        tasks()
        remote_control(brokers)
        app.control.shutdown()
        expect(worker.wait(timeout=SECONDS), 0)
    finally:
        worker.kill()
        worker.wait()
    done("Celery", celery.__version__)


main()
