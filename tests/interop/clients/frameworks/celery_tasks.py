"""The application of `celery_check.py`: its worker imports it by its name and finds the server in the environment."""

import os

from celery import Celery

URL = os.environ.get("CELERY_CHECK_URL", "redis://localhost")
app = Celery("check", broker=f"{URL}/8", backend=f"{URL}/9")
app.conf.update(
    broker_connection_retry_on_startup=True,
    result_expires=3600,
    task_track_started=True,
    worker_send_task_events=True,
)


@app.task
def add(first, second):
    return first + second


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def refuse(reason):
    raise ValueError(reason)


@app.task(bind=True, max_retries=3)
def succeed_at_last(self):
    """Fails twice, then succeeds."""
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries
