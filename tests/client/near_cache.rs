//! The near cache over real servers: Sleeve, Redis and Valkey, and the embedded engine.
//!
//! A repeated read costs the server nothing; a key that any client changed is read anew; a lost connection empties the cache.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{CacheOptions, Cached, Client, Condition, Config, Effect, ErrorKind, Value};
use sleeve_tests::{Kind, Server};

/// A place with a near cache, and a client of its own that writes there.
struct Place {
    name: &'static str,
    client: Client,
    other: Client,
    _server: Option<Server>,
}

impl Place {
    fn over(kind: Kind) -> Self {
        let server = Server::start_with(kind, if kind == Kind::Sleeve { &["--workers", "2"] } else { &[] });
        let connect = || Client::connect(&server.url()).expect("a connection");
        Self { name: kind.name(), client: connect(), other: connect(), _server: Some(server) }
    }

    fn inside(name: &'static str) -> Self {
        let connect = || Client::connect(&format!("embedded://{name}")).expect("an engine");
        Self { name: "the engine inside", client: connect(), other: connect(), _server: None }
    }

    /// Returns the number of GETs that the server has executed.
    fn gets(&self) -> i64 {
        let info: String = self.other.cmd("INFO").arg("commandstats").send().wait().expect("figures");
        let line = info.lines().find(|line| line.starts_with("cmdstat_get:"));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1));
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    }
}

/// Runs `check` at every place; `name` is its engine's.
fn everywhere(name: &'static str, check: impl Fn(&Place)) {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        check(&Place::over(kind));
    }
    check(&Place::inside(name));
}

/// Reads until the value is `wanted`: the invalidation of another client's write arrives some time later.
fn until_read(cached: &Cached, key: &str, wanted: Option<&str>) {
    while cached.get::<Option<String>>(key).wait().expect("an answer").as_deref() != wanted {}
}

/// Reads until the cache answers: a value that was just written is kept once its invalidation has arrived.
fn until_kept(cached: &Cached, key: &str) {
    let hits = cached.stats().hits;
    while cached.stats().hits == hits {
        cached.cmd("GET").arg(key).send::<Value>().wait().expect("an answer");
    }
}

#[test]
fn repeated_reads_send_nothing_to_the_server() {
    everywhere("near-again", |place| {
        let cached = place.client.cached().expect("a cache");
        place.other.set("k", "v").wait().expect("it is set");
        until_kept(&cached, "k");
        let (before, hits) = (place.gets(), cached.stats().hits);
        for _ in 0..1_000 {
            assert_eq!(cached.get::<String>("k").wait().expect("an answer"), "v");
        }
        assert_eq!(place.gets(), before, "{}", place.name);
        let stats = cached.stats();
        assert_eq!((stats.hits, stats.entries), (hits + 1_000, 1), "{}", place.name);
        assert!(stats.bytes > 0 && stats.hit_rate() > 0.9, "{stats:?}");
    });
}

#[test]
fn a_key_changed_by_another_client_is_read_again() {
    everywhere("near-changes", |place| {
        let cached = place.client.cached().expect("a cache");
        let other = &place.other;
        until_read(&cached, "k", None);
        until_kept(&cached, "k"); // that nothing is there is kept as well
        other.set("k", "one").wait().expect("it is set");
        until_read(&cached, "k", Some("one"));
        until_kept(&cached, "k");
        other.append("k", "more").wait().expect("it is set");
        until_read(&cached, "k", Some("onemore"));
        until_kept(&cached, "k");
        other.rename("k", "else").wait().expect("it is renamed");
        until_read(&cached, "k", None);
        until_read(&cached, "else", Some("onemore"));
        until_kept(&cached, "else");
        other.flushall().wait().expect("it is empty");
        until_read(&cached, "else", None);
        other.hset("h", [("f", "1")]).wait().expect("it is set");
        assert_eq!(cached.hget::<i64>("h", "f").wait().expect("an answer"), 1);
        assert_eq!(cached.hgetall::<Vec<(String, i64)>>("h").wait().expect("an answer"), [("f".to_owned(), 1)]);
        other.hincrby("h", "f", 1).wait().expect("it is added");
        while cached.hget::<i64>("h", "f").wait().expect("an answer") != 2 {}
        while cached.hgetall::<Vec<(String, i64)>>("h").wait().expect("an answer") != [("f".to_owned(), 2)] {}
    });
}

#[test]
fn a_writer_reads_its_own_write() {
    everywhere("near-own", |place| {
        let cached = place.client.cached().expect("a cache");
        let read = || cached.get::<i64>("k").wait().expect("an answer");
        for round in 0..300 {
            let (client, number) = (&place.client, round * 10);
            // Whether the reply was kept or not, and in flight or not: a caller that goes on reads its own write.
            cached.set("k", number).wait().expect("it is set");
            let _early = (cached.get::<i64>("k"), cached.get::<i64>("k"));
            client.set("k", number + 1).wait().expect("it is set");
            assert_eq!(read(), number + 1, "{}: by the client", place.name);
            cached.incr("k").forget();
            assert_eq!(read(), number + 2, "{}: not waited for", place.name);
            let batch = client.batch();
            batch.get::<i64>("k").forget();
            batch.incr("k").forget();
            batch.send();
            assert_eq!(read(), number + 3, "{}: in a batch", place.name);
            let transaction = client.transaction();
            transaction.incr("k").forget();
            assert!(transaction.exec().wait().expect("it is executed"));
            assert_eq!(read(), number + 4, "{}: in a transaction", place.name);
            let transaction = client.transaction();
            transaction.require(Condition::exists("k"));
            transaction.incr("k").forget();
            assert!(transaction.exec().wait().expect("it is executed"));
            assert_eq!(read(), number + 5, "{}: in a transaction with a condition", place.name);
            client.eval::<i64>("return redis.call('incr', KEYS[1])", "k", ()).wait().expect("it runs");
            assert_eq!(read(), number + 6, "{}: by a script", place.name);
            client.eval::<i64>("return redis.call('incr', 'k')", (), ()).wait().expect("it runs");
            assert_eq!(read(), number + 7, "{}: by a script that does not say what it changes", place.name);
            let coalescing = client.coalescing();
            coalescing.incr("k").forget();
            coalescing.set("other", 1).forget();
            coalescing.incr("k").forget();
            coalescing.flush();
            coalescing.incr("k").wait().expect("it is added");
            assert_eq!(read(), number + 10, "{}: in company", place.name);
            client.flushdb().wait().expect("it is empty");
            assert_eq!(cached.get::<Option<i64>>("k").wait(), Ok(None), "{}: with everything", place.name);
        }
    });
}

#[test]
fn databases_have_values_of_their_own() {
    everywhere("near-databases", |place| {
        let cached = place.client.cached().expect("a cache");
        for number in 0..4_u32 {
            place.client.db(number).set("k", number).wait().expect("it is set");
        }
        for _ in 0..20 {
            for number in 0..4_u32 {
                assert_eq!(cached.db(number).get::<u32>("k").wait(), Ok(number), "{}", place.name);
            }
        }
        assert!(cached.stats().hits > 0, "{}", place.name);
        let error = cached.db(9_999).get::<u32>("k").wait().expect_err("there is no such database");
        assert_eq!((error.code(), error.effect()), (Some("ERR"), Effect::None), "{}", place.name);
    });
}

#[test]
fn a_key_is_not_kept_for_longer_than_it_lives() {
    everywhere("near-lives", |place| {
        let cached = place.client.cached().expect("a cache");
        // A server may keep an expired key, and invalidate it later than a reader could notice.
        place.other.cmd("DEBUG").arg(("SET-ACTIVE-EXPIRE", 0)).send::<()>().wait().ok();
        // A busy machine may take longer than the key lives before it reads.
        while cached.get::<Option<String>>("k").wait().expect("an answer").is_none() {
            place.other.psetex("k", 150, "v").wait().expect("it is set");
        }
        until_read(&cached, "k", None);
        place.other.set("k", "w").wait().expect("it is set");
        until_read(&cached, "k", Some("w"));
    });
    let client = Client::embedded();
    let cached = client.cached_with(CacheOptions::new().ttl_max(Duration::from_millis(30))).expect("a cache");
    client.set("k", "v").wait().expect("it is set");
    until_read(&cached, "k", Some("v"));
    while cached.stats().expirations == 0 {
        until_read(&cached, "k", Some("v"));
    }
}

#[test]
fn prefixes_are_broadcast() {
    everywhere("near-prefixes", |place| {
        let options = CacheOptions::new().broadcast(["user:", "price:"]);
        let cached = place.client.cached_with(options).expect("a cache");
        place.other.mset([("user:1", "a"), ("price:1", "b"), ("else", "c")]).wait().expect("they are set");
        until_kept(&cached, "user:1");
        until_kept(&cached, "price:1");
        let (hits, misses) = (cached.stats().hits, cached.stats().misses);
        for _ in 0..10 {
            assert_eq!(cached.get::<String>("else").wait().expect("an answer"), "c");
        }
        assert_eq!(
            (cached.stats().hits, cached.stats().misses),
            (hits, misses),
            "what has no such prefix is not cached"
        );
        place.other.set("user:1", "z").wait().expect("it is set");
        until_read(&cached, "user:1", Some("z"));
        assert_eq!(cached.get::<String>("price:1").wait().expect("an answer"), "b");
        place.client.set("price:1", "y").wait().expect("it is set");
        assert_eq!(cached.get::<String>("price:1").wait().expect("an answer"), "y");
    });
}

#[test]
fn many_misses_send_one_read() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let place = Place::over(kind);
        let cached = place.client.cached().expect("a cache");
        until_read(&cached, "k", None);
        place.other.set("k", "v".repeat(100)).wait().expect("it is set");
        cached.clear();
        let before = place.gets();
        // The server answers no client for a while, so that most reads miss.
        place.other.cmd("CLIENT").arg(("PAUSE", 300, "ALL")).send::<()>().wait().expect("it holds");
        let replies: Vec<_> = (0..500).map(|_| cached.get::<Arc<[u8]>>("k")).collect();
        let second = cached.clone();
        let task = thread::spawn(move || second.get::<String>("k").wait().expect("an answer"));
        for reply in replies {
            assert_eq!(&*reply.wait().expect("an answer"), "v".repeat(100).as_bytes());
        }
        assert_eq!(task.join().expect("it ends"), "v".repeat(100));
        assert!(place.gets() <= before + 2, "{}: {} reads", place.name, place.gets() - before);
        let stats = cached.stats();
        assert!(stats.shared > 0 && stats.misses <= 5, "{}: {stats:?}", place.name);
    }
}

#[test]
fn shared_values_are_not_copied() {
    everywhere("near-shared", |place| {
        let cached = place.client.cached().expect("a cache");
        place.other.set("k", "v".repeat(5_000)).wait().expect("it is set");
        until_kept(&cached, "k");
        let one: Arc<[u8]> = cached.get("k").wait().expect("an answer");
        let other: Option<Arc<[u8]>> = cached.get("k").wait().expect("an answer");
        assert!(other.is_some_and(|other| Arc::ptr_eq(&one, &other)), "{}", place.name);
        assert_eq!(cached.get::<String>("k").wait().expect("an answer").len(), 5_000);
        assert_eq!(place.client.get::<Arc<[u8]>>("k").wait().expect("an answer"), one);
    });
}

#[test]
fn a_lost_connection_takes_everything_with_it() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let place = Place::over(kind);
        let cached = place.client.cached().expect("a cache");
        for round in 0..3 {
            place.other.set("k", round).wait().expect("it is set");
            while cached.get::<Option<i64>>("k").wait().unwrap_or_default() != Some(round) {}
            until_kept(&cached, "k");
            let flushes = cached.stats().flushes;
            let id = place.client.client_id().wait().expect("an id");
            place.other.cmd("CLIENT").arg(("KILL", "ID", id)).send::<Value>().wait().expect("it is killed");
            while cached.stats().flushes == flushes {
                thread::yield_now();
            }
            place.other.set("k", -round).wait().expect("it is set");
            // A read in flight may be lost; no read returns an old value.
            let reads = std::iter::repeat_with(|| cached.get::<i64>("k").wait());
            assert_eq!(reads.filter_map(Result::ok).next(), Some(-round), "{}", place.name);
        }
    }
}

#[test]
fn a_server_without_client_tracking_is_named() {
    let server = Server::start(Kind::Redis);
    let config = Config::from_url(&format!("{}?protocol=2", server.url())).expect("a URL");
    let error = Client::connect_with(config).expect("a connection").cached().expect_err("there are no messages");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.message().contains("RESP3"), "{error}");

    // A user without permission for CLIENT TRACKING.
    let admin = Client::connect(&server.url()).expect("a connection");
    admin
        .cmd("ACL")
        .arg("SETUSER")
        .arg(("ann", "on", ">secret", "~*", "+@all", "-client|tracking"))
        .send::<()>()
        .wait()
        .expect("a user");
    let url = format!("redis://ann:secret@{}", server.address());
    let client = Client::connect(&url).expect("a connection");
    let cached = client.cached().expect("it is heard later");
    for _ in 0..3 {
        let error = cached.get::<Option<String>>("k").wait().expect_err("nothing can be cached");
        assert!(error.message().contains("NOPERM") && error.message().contains("the client itself"), "{error}");
        assert_eq!(error.effect(), Effect::None);
    }
    assert_eq!(client.get::<Option<String>>("k").wait(), Ok(None));
}

#[test]
fn one_client_has_one_cache() {
    let client = Client::embedded();
    let cached = client.cached_with(CacheOptions::new().bytes_max(1 << 20)).expect("a cache");
    let same = client.db(3).cached().expect("the same");
    same.get::<Option<String>>("k").wait().expect("an answer");
    assert_eq!(cached.stats(), same.stats());
    let error = client.cached_with(CacheOptions::new()).expect_err("it has others");
    assert!(error.message().contains("other options"), "{error}");
    let overlapping = CacheOptions::new().broadcast(["a", "ab"]);
    let error = Client::embedded().cached_with(overlapping).expect_err("the server would refuse");
    assert!(error.message().contains("overlap"), "{error}");
    let error = client.cmd("CLIENT").arg(("TRACKING", "OFF")).send::<()>().wait().expect_err("it is everybody's");
    assert!(error.message().contains("client.cached()"), "{error}");
}

#[test]
fn it_takes_no_more_than_it_may() {
    everywhere("near-bytes", |place| {
        let bytes_max = 1 << 20;
        let cached = place.client.cached_with(CacheOptions::new().bytes_max(bytes_max)).expect("a cache");
        for number in 0..3_000 {
            place.other.set(format!("k{number}"), "v".repeat(1_000)).forget();
        }
        place.other.set("large", "v".repeat(bytes_max / 4)).wait().expect("it is set");
        for _ in 0..3 {
            let replies: Vec<_> = (0..3_000).map(|number| cached.get::<Arc<[u8]>>(format!("k{number}"))).collect();
            replies.into_iter().for_each(|reply| assert_eq!(reply.wait().expect("an answer").len(), 1_000));
            assert_eq!(cached.get::<Vec<u8>>("large").wait().expect("an answer").len(), bytes_max / 4);
            assert!(cached.stats().bytes <= bytes_max as u64, "{:?}", cached.stats());
        }
        let stats = cached.stats();
        assert!(stats.evictions > 1_000 && stats.bytes > bytes_max as u64 * 3 / 4, "{}: {stats:?}", place.name);
    });
}

#[test]
fn readers_and_writers_agree_under_load() {
    everywhere("near-load", |place| {
        let cached = place.client.cached().expect("a cache");
        for key in 0..4 {
            place.other.set(key, 0).wait().expect("it is set");
        }
        thread::scope(|scope| {
            for key in 0..4_i64 {
                let (cached, client) = (cached.clone(), place.client.clone());
                scope.spawn(move || {
                    for number in 1..500_i64 {
                        client.set(key, number).wait().expect("it is set");
                        assert_eq!(cached.get::<i64>(key).wait(), Ok(number), "one's own");
                    }
                });
                let cached = place.client.cached().expect("the same");
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..3_000 {
                        let seen = cached.get::<i64>(key).wait().expect("an answer");
                        assert!(seen >= last, "{seen} was read behind {last}");
                        last = seen;
                    }
                });
            }
        });
        assert!(cached.stats().hits > 0, "{}: {:?}", place.name, cached.stats());
    });
}
