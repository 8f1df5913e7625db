"""RQ: jobs are enqueued, `rq worker` works them off, and their results are read."""

import pathlib
import subprocess
import sys
from datetime import timedelta

import redis
import rq
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry

import rq_jobs
from eventually import done, eventually, expect, server


def work(host, port, *options):
    """Runs a worker until the queues are empty."""
    here = pathlib.Path(__file__).parent
    program = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--quiet", *options]
    program += ["--url", f"redis://{host}:{port}/7", "--path", str(here), "high", "low"]
    subprocess.run(program, check=True, timeout=120, cwd=here)


def main():
    host, port = server()
    connection = redis.Redis(host=host, port=port, db=7)
    connection.flushdb()
    high, low = rq.Queue("high", connection=connection), rq.Queue("low", connection=connection)

    sums = [low.enqueue(rq_jobs.add, n, n) for n in range(5)]
    bad = high.enqueue(rq_jobs.refuse, "on purpose")
    retried = high.enqueue(rq_jobs.succeed_at_last, "tries", retry=rq.Retry(max=3))
    last = high.enqueue(rq_jobs.dependencies, depends_on=sums)
    first = low.enqueue(rq_jobs.total, 1, 2, 3, at_front=True)
    later = low.enqueue_in(timedelta(hours=1), rq_jobs.add, 1, 1)
    expect((len(high), len(low)), (2, 6))
    expect(last.get_status(), rq.job.JobStatus.DEFERRED)
    expect(low.job_ids[0], first.id)

    work(host, port, "--worker-class", "rq.SimpleWorker")
    expect([job.return_value(refresh=True) for job in sums], [0, 2, 4, 6, 8])
    expect(first.return_value(refresh=True), 6)
    expect(retried.return_value(refresh=True), 3)
    expect(last.return_value(refresh=True), 20)
    expect(bad.get_status(), rq.job.JobStatus.FAILED)
    expect("on purpose" in bad.latest_result().exc_string, True)
    expect(FailedJobRegistry(queue=high).get_job_ids(), [bad.id])
    expect(len(FinishedJobRegistry(queue=low)), 6)
    expect(ScheduledJobRegistry(queue=low).get_job_ids(), [later.id])
    expect((len(high), len(low)), (0, 0))

    # As RQ works by default: each job in a process of its own.
    forked = high.enqueue(rq_jobs.add, 20, 22)
    bad.requeue()
    work(host, port)
    expect(forked.return_value(refresh=True), 42)
    expect(bad.get_status(), rq.job.JobStatus.FAILED)
    eventually(lambda: rq.Worker.all(connection=connection), [])
    connection.flushdb()
    done("RQ", rq.VERSION)


main()
