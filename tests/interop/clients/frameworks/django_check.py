"""Django's own Redis cache: values come back as they went in, and go when their time is over."""

import django
from django.conf import settings

from eventually import done, eventually, expect, server

host, port = server()
LOCATION = f"redis://{host}:{port}/10"
BACKEND = "django.core.cache.backends.redis.RedisCache"
settings.configure(
    CACHES={
        "default": {"BACKEND": BACKEND, "LOCATION": LOCATION, "KEY_PREFIX": "shop", "TIMEOUT": 300},
        "other": {"BACKEND": BACKEND, "LOCATION": LOCATION, "KEY_PREFIX": "blog", "VERSION": 2},
    },
    INSTALLED_APPS=["django.contrib.sessions"],
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402  (it wants the settings)
from django.core.cache import cache, caches  # noqa: E402


def values():
    for value in ("grün", 7, 2.5, None, {"a": [1, (2, 3)]}, b"\0\r\n" * 1000):
        cache.set("value", value)
        expect(cache.get("value", "missing"), value)
    expect(cache.get("nothing", "missing"), "missing")
    expect(cache.add("value", 1), False)
    expect(cache.add("fresh", 1), True)
    expect(cache.get_or_set("made", lambda: "here"), "here")
    expect(cache.incr("fresh", 41), 42)
    expect(cache.decr("fresh"), 41)
    try:
        cache.incr("nothing")
        expect("counted", "refused")
    except ValueError:
        pass
    expect("fresh" in cache, True)
    expect(cache.delete("fresh"), True)
    expect(cache.delete("fresh"), False)


def many():
    pairs = {f"many:{n}": n for n in range(500)}
    expect(cache.set_many(pairs), [])
    expect(cache.get_many([*pairs, "nothing"]), pairs)
    expect(caches["other"].get("many:1"), None)
    cache.set("versioned", "one")
    expect(cache.incr_version("versioned"), 2)
    expect(cache.get("versioned", version=2), "one")
    cache.delete_many(pairs)
    expect(cache.get_many(pairs), {})


def expiry():
    cache.set("short", "lived", timeout=1)
    expect(cache.get("short"), "lived")
    cache.set("kept", "on", timeout=1)
    expect(cache.touch("kept", timeout=None), True)
    eventually(lambda: cache.get("short", "gone"), "gone")
    expect(cache.get("kept"), "on")
    cache.set("over", "already", timeout=0)
    expect(cache.get("over"), None)


def sessions():
    session = SessionStore()
    session["cart"] = ["a lamp", "a chair"]
    session.save()
    expect(SessionStore(session.session_key)["cart"], ["a lamp", "a chair"])
    session.flush()
    expect(SessionStore().exists(session.session_key), False)


def main():
    cache.clear()
    for part in (values, many, expiry, sessions):
        part()
    cache.clear()
    expect(cache.get("kept"), None)
    done("Django", django.get_version())


main()
