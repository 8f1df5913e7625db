"""What the workers of `rq_check.py` run; they import it by its name."""

from rq import get_current_job


def add(first, second):
    return first + second


def total(*numbers):
    return sum(numbers)


def refuse(reason):
    raise ValueError(reason)


def succeed_at_last(key):
    """Fails twice, then succeeds."""
    tries = get_current_job().connection.incr(key)
    if tries < 3:
        raise RuntimeError(f"try {tries}")
    return tries


def dependencies():
    """The sum of what the jobs returned that this one waited for."""
    return sum(job.return_value() for job in get_current_job().fetch_dependencies())
