//! Tests of embedded sessions, in the test's own thread and at chosen times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use sleeve_server::engine::origin::Origin;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Closed, Config, Engine, Local, Opt};

fn engine() -> Arc<Engine> {
    Engine::new(Config::default())
}

fn ask(local: &mut Local, text: &str) -> String {
    ask_at(local, Instant::now(), text)
}

fn ask_at(local: &mut Local, now: Instant, text: &str) -> String {
    let mut replies = Vec::new();
    local.exchange_at(now, format!("{text}\r\n").as_bytes(), &mut replies).expect("the session lives");
    String::from_utf8_lossy(&replies).into_owned()
}

fn later(now: Instant, ms: i64) -> Instant {
    Instant { wall_us: now.wall_us + ms * 1_000, monotonic_us: now.monotonic_us + ms as u64 * 1_000 }
}

#[test]
fn a_refused_exec_ends_the_transaction() {
    let engine = engine();
    let (mut local, mut other) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    ask(&mut local, "WATCH a\r\nMULTI\r\nSET a 1");
    let refused = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n";
    assert_eq!(ask(&mut local, "EXEC foo"), refused);
    assert_eq!(ask(&mut local, "EXEC"), "-ERR EXEC without MULTI\r\n");
    ask(&mut local, "MULTI\r\nSET a 1");
    ask(&mut other, "CONFIG SET maxmemory 1");
    let refused =
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(ask(&mut local, "EXEC"), format!("{refused}\r\n"));
    assert_eq!(ask(&mut local, "PING"), "+PONG\r\n");
}

#[test]
fn what_a_client_asks_for_amid_a_batch_holds_from_the_next_request_on() {
    let mut local = Local::open(&engine(), || {});
    let told = ask(&mut local, "SET a 1\r\nMULTI\r\nGET a\r\nINCR a\r\nEXEC\r\nGET a");
    assert_eq!(told, "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\n1\r\n:2\r\n$1\r\n2\r\n");
    let told = ask(&mut local, "GET a\r\nCLIENT REPLY SKIP\r\nINCR a\r\nGET a\r\nCLIENT REPLY OFF\r\nINCR a\r\nGET a");
    assert_eq!(told, "$1\r\n2\r\n$1\r\n3\r\n");
    assert_eq!(ask(&mut local, "GET a\r\nnosuch\r\nCLIENT REPLY ON\r\nGET a"), "+OK\r\n$1\r\n4\r\n");
    // The client has no subscriptions. UNSUBSCRIBE still sends a message, even with replies off.
    let told =
        ask(&mut local, "UNSUBSCRIBE\r\nCLIENT REPLY OFF\r\nGET a\r\nUNSUBSCRIBE\r\nGET a\r\nCLIENT REPLY ON\r\nGET a");
    let message = "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n";
    assert_eq!(told, format!("{message}{message}+OK\r\n$1\r\n4\r\n"));
    let told = ask(&mut local, "SUBSCRIBE c\r\nGET a\r\nUNSUBSCRIBE c\r\nGET a");
    assert!(told.contains(":1\r\n-ERR Can't execute 'get'") && told.ends_with(":0\r\n$1\r\n4\r\n"), "{told}");
    let told =
        ask(&mut local, "HELLO 3\r\nCLIENT TRACKING ON\r\nGET a\r\nSET a 5\r\nCLIENT TRACKING OFF\r\nGET a\r\nSET a 6");
    assert!(
        told.ends_with("$1\r\n4\r\n+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n+OK\r\n$1\r\n5\r\n+OK\r\n"),
        "{told}"
    );
    let told = ask(
        &mut local,
        "ACL SETUSER default -get\r\nGET a\r\nACL SETUSER default +get\r\nGET a\r\nMULTI\r\nRESET\r\nGET a",
    );
    assert!(told.contains("-NOPERM") && told.ends_with("+OK\r\n$1\r\n6\r\n+OK\r\n+RESET\r\n$1\r\n6\r\n"), "{told}");
}

#[test]
fn keys_and_names_that_nearly_repeat_each_other_are_told_apart() {
    let mut local = Local::open(&engine(), || {});
    let keys = ["first:key:00000001", "other:key:00000001", "other:key:00000002", "k", "K", "other:key:00000002"];
    let set: Vec<String> = keys.iter().enumerate().map(|(number, key)| format!("SET {key} {number}")).collect();
    assert_eq!(ask(&mut local, &set.join("\r\n")), "+OK\r\n".repeat(keys.len()));
    let get: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
    let told = [0, 1, 5, 3, 4, 5].map(|number| format!("$1\r\n{number}\r\n")).concat();
    assert_eq!(ask(&mut local, &get.join("\r\n")), told);
    assert_eq!(ask(&mut local, &format!("MGET {}", keys.join(" "))), format!("*6\r\n{told}"));
    let mixed = "GET k\r\nget k\r\nGEt k\r\nGOT k\r\nGET k\r\nGET\r\nDECR k\r\nINCR k";
    let told = ask(&mut local, mixed);
    assert_eq!(told.matches("$1\r\n3\r\n").count(), 4, "{told}");
    assert!(
        told.contains("-ERR unknown command 'GOT'")
            && told.contains("-ERR wrong number")
            && told.ends_with(":2\r\n:3\r\n")
    );
}

#[test]
fn a_killed_session_executes_nothing_more_and_nobody_sees_it() {
    let engine = engine();
    let (mut local, mut other) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    let id = ask(&mut local, "WATCH a\r\nCLIENT ID").replace("+OK\r\n:", "");
    assert_eq!(ask(&mut other, &format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert_eq!(ask(&mut other, &format!("CLIENT KILL ID {id}")), ":0\r\n", "it is killed already");
    assert_eq!(ask(&mut other, "CLIENT LIST").matches("id=").count(), 1);
    let mut replies = Vec::new();
    assert_eq!(local.exchange(b"SET a 1\r\n", &mut replies), Err(Closed));
    assert_eq!((ask(&mut other, "EXISTS a").as_str(), replies.len()), (":0\r\n", 0));
    assert_eq!(engine.clients.watches.len(), 0, "what is over watches nothing");
}

#[test]
fn what_a_session_is_to_hear_is_flagged_before_whoever_caused_it_goes_on() {
    let engine = engine();
    let (mut first, second) = (Local::open(&engine, || {}), Mutex::new(Local::open(&engine, || {})));
    let (has_mail, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (flag, record) = (Arc::clone(&has_mail), Arc::clone(&seen));
    // While the first write still wakes the subscriber, another write is executed completely: it sends no further wake-up.
    let wake = move || {
        let before = flag.load(Ordering::Acquire);
        let reply = ask(&mut second.lock().unwrap(), "SET b 2");
        record.lock().unwrap().push((before, reply, flag.load(Ordering::Acquire)));
    };
    let mut listener = Local::open_with_flag(&engine, Instant::now(), Arc::clone(&has_mail), wake);
    ask(&mut listener, "HELLO 3\r\nCLIENT TRACKING ON\r\nGET a\r\nGET b");
    assert!(!has_mail.load(Ordering::Acquire), "nothing was said yet");
    assert_eq!(ask(&mut first, "SET a 1"), "+OK\r\n");
    assert_eq!(*seen.lock().unwrap(), [(true, "+OK\r\n".to_owned(), true)]);
    let mut heard = Vec::new();
    listener.exchange(b"", &mut heard).expect("the session lives");
    assert_eq!(String::from_utf8_lossy(&heard).matches("invalidate").count(), 2);
    assert!(!has_mail.load(Ordering::Acquire), "all was taken");
}

#[test]
fn a_held_session_says_when_it_is_to_be_asked() {
    let engine = engine();
    let mut local = Local::open(&engine, || {});
    assert_eq!(local.due_in_ms(), None);
    ask(&mut local, "CLIENT PAUSE 1000000");
    assert_eq!(ask(&mut local, "PING"), "");
    assert!(local.due_in_ms().is_some_and(|due_in_ms| (1..=1_000_000).contains(&due_in_ms)));
    assert_eq!(ask_at(&mut local, later(Instant::now(), 1_000_001), ""), "+PONG\r\n");
    assert_eq!(local.due_in_ms(), None);
}

#[test]
fn a_wake_may_open_and_close_sessions() {
    let engine = engine();
    let weak: Weak<Engine> = Arc::downgrade(&engine);
    let _visited = Local::open(&engine, move || drop(weak.upgrade().map(|engine| Local::open(&engine, || {}))));
    assert_eq!(ask(&mut Local::open(&engine, || {}), "CLIENT UNPAUSE"), "+OK\r\n");
}

/// Checks that WATCH of many keys takes little time. It would take minutes if each key were compared with all keys before it.
#[test]
fn watching_many_keys_at_once_is_not_quadratic() {
    const KEYS: usize = 50_000;
    let engine = engine();
    let mut local = Local::open(&engine, || {});
    let mut request = format!("*{}\r\n$5\r\nWATCH\r\n", KEYS + 1);
    (0..KEYS).for_each(|key| request.push_str(&format!("$8\r\n{key:08}\r\n")));
    let mut replies = Vec::new();
    local.exchange(request.repeat(2).as_bytes(), &mut replies).expect("the session lives");
    assert_eq!(replies, b"+OK\r\n+OK\r\n");
    assert_eq!(engine.clients.watches.len(), KEYS);
    assert_eq!(ask(&mut local, "UNWATCH"), "+OK\r\n");
    assert_eq!(engine.clients.watches.len(), 0);
}

#[test]
fn a_protocol_error_is_not_answered_where_no_reply_is_wanted() {
    let engine = engine();
    let error = "+OK\r\n-ERR Protocol error: invalid multibulk length\r\n";
    for (wanted, expected) in [("OFF", ""), ("SKIP", ""), ("ON", error)] {
        let mut replies = Vec::new();
        let request = format!("CLIENT REPLY {wanted}\r\n*x\r\n");
        assert_eq!(Local::open(&engine, || {}).exchange(request.as_bytes(), &mut replies), Err(Closed));
        assert_eq!(String::from_utf8_lossy(&replies), expected);
    }
}

#[test]
fn writing_renews_the_access_clock_unless_the_client_leaves_no_trace() {
    let engine = engine();
    let mut local = Local::open(&engine, || {});
    let start = Instant::now();
    let idle = later(start, 900_000);
    ask_at(&mut local, start, "MSET a 1 b 1");
    for write in ["INCR a", "APPEND a 1", "SETBIT a 1 1", "SETRANGE a 0 1", "BITFIELD a SET u8 0 49", "EXPIRE a 10000"]
    {
        assert_eq!(ask_at(&mut local, idle, "OBJECT IDLETIME b"), ":900\r\n");
        ask_at(&mut local, idle, write);
        assert_eq!(ask_at(&mut local, idle, "OBJECT IDLETIME a"), ":0\r\n", "{write}");
        ask_at(&mut local, start, "SET a 1");
    }
    ask_at(&mut local, start, "CLIENT NO-TOUCH ON");
    ask_at(&mut local, idle, "INCR a");
    assert_eq!(ask_at(&mut local, idle, "OBJECT IDLETIME a"), ":900\r\n");
}

/// Returns the number in this field of INFO.
fn info(local: &mut Local, field: &str) -> u64 {
    let reply = ask(local, "INFO all");
    let line = reply.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("INFO has no {field}"))
}

#[test]
fn what_is_freed_in_the_background_is_counted_by_the_object() {
    let mut local = Local::open(&engine(), || ());
    let mut others = Local::open(&engine(), || ());
    for key in ["one", "two", "three"] {
        assert_eq!(ask(&mut local, &format!("SETRANGE {key} 2000000 x")), ":2000001\r\n");
    }
    assert_eq!(ask(&mut local, "UNLINK one two"), ":2\r\n");
    for number in 0..1_500 {
        assert_eq!(ask(&mut local, &format!("SET {number} value")), "+OK\r\n");
    }
    assert_eq!(ask(&mut local, "FLUSHALL ASYNC"), "+OK\r\n");
    while info(&mut local, "lazyfree_pending_objects") > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(info(&mut local, "lazyfreed_objects"), 2 + 1_501);
    assert_eq!(info(&mut others, "lazyfreed_objects"), 0, "another engine's are its own");
    ask(&mut local, "CONFIG RESETSTAT");
    assert_eq!(info(&mut local, "lazyfreed_objects"), 0);
}

#[test]
fn overwritten_and_removed_values_are_freed_in_the_background_if_set() {
    let mut local = Local::open(&engine(), || ());
    ask(&mut local, "CONFIG SET lazyfree-lazy-server-del yes lazyfree-lazy-expire yes");
    ask(&mut local, "SADD members a");
    for write in [
        "SET long 1",
        "SUNIONSTORE long members",
        "SORT members ALPHA STORE long",
        "SUNIONSTORE long missing",
        "SORT missing STORE long",
        "ZRANGESTORE long missing 0 1",
        "BITOP AND long missing",
        "PEXPIRE long -1",
        "GETEX long PXAT 1",
    ] {
        let freed = info(&mut local, "lazyfreed_objects");
        ask(&mut local, "DEL long");
        assert_eq!(ask(&mut local, "SETRANGE long 2000000 x"), ":2000001\r\n");
        ask(&mut local, write);
        while info(&mut local, "lazyfree_pending_objects") > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(info(&mut local, "lazyfreed_objects"), freed + 1, "{write}");
    }
}

/// Returns an engine with this seed.
fn engine_of(seed: u64, now: Instant) -> Arc<Engine> {
    let config = Config::default();
    config.assign(Opt::MaxmemoryPolicy, &[b"allkeys-lfu"]).expect("a policy");
    Engine::begin(config, Origin::of_seed(seed, now))
}

/// Returns the replies of an engine with this seed to all requests that use random numbers, depend on the places of keys, or
/// read the time.
fn replies_of_a_life(seed: u64) -> Vec<u8> {
    let mut now = Instant { wall_us: 1_700_000_000_000_000, monotonic_us: 5_000_000_000 };
    let engine = engine_of(seed, now);
    let mut local = Local::open_at(&engine, now, || ());
    let mut replies = Vec::new();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..40 {
        now = later(now, 17);
        let mut requests = String::new();
        for _ in 0..60 {
            let (key, member) = (random.u32(..20), random.u32(..500));
            requests += &format!("SADD set:{key} {member} m{member}\r\nHSET hash:{key} f{member} {member}\r\n");
            requests += &format!("ZADD sorted:{key} {member} m{member}\r\nSET string:{member} {round}\r\n");
            requests += &format!("PEXPIRE string:{member} {}\r\n", random.u32(1..400));
            requests += &format!("GET string:{}\r\n", random.u32(..500));
        }
        for key in 0..20 {
            requests += &format!("SRANDMEMBER set:{key}\r\nSRANDMEMBER set:{key} 3\r\nSRANDMEMBER set:{key} -9\r\n");
            requests += &format!("SPOP set:{key}\r\nSPOP set:{key} 4\r\nHRANDFIELD hash:{key} -5 WITHVALUES\r\n");
            requests += &format!("HRANDFIELD hash:{key}\r\nHRANDFIELD hash:{key} 4\r\nZRANDMEMBER sorted:{key} 3\r\n");
            requests += &format!("ZRANDMEMBER sorted:{key}\r\nZRANDMEMBER sorted:{key} -4 WITHSCORES\r\n");
            requests += &format!("RANDOMKEY\r\nOBJECT FREQ set:{key}\r\nSMEMBERS set:{key}\r\n");
        }
        requests += "TIME\r\nSCAN 0 COUNT 50\r\nDBSIZE\r\nINFO commandstats\r\nINFO keyspace\r\n";
        requests += "EVAL \"return {redis.call('TIME'), math.random(9), redis.call('SRANDMEMBER', 'set:1')}\" 0\r\n";
        local.exchange_at(now, requests.as_bytes(), &mut replies).expect("the session lives");
    }
    local.exchange_at(now, b"CONFIG SET maxmemory 1500000\r\nSET a b\r\nDBSIZE\r\nKEYS *\r\n", &mut replies).unwrap();
    replies.extend(replies_to_listeners_and_waiters(&engine, now));
    replies
}

/// Returns the messages to clients with many subscriptions, and the replies to blocked clients with keys that all appear at
/// once. Both show an order.
fn replies_to_listeners_and_waiters(engine: &Arc<Engine>, now: Instant) -> Vec<u8> {
    let mut replies = Vec::new();
    let mut local = Local::open_at(engine, now, || ());
    let mut requests = "CONFIG SET maxmemory 0\r\nFLUSHALL\r\nHELLO 3\r\n".to_owned();
    for number in 0..20 {
        requests += &format!("SUBSCRIBE news:{number}\r\nPSUBSCRIBE n*{number}*\r\n");
    }
    requests += "PUBLISH news:0123456789 message\r\nPUBSUB CHANNELS\r\n";
    let waiters: Vec<Local> = (0..20)
        .map(|number| {
            let mut waiter = Local::open_at(engine, now, || ());
            let wait = format!("BLMOVE key:{number} order LEFT RIGHT 0\r\n");
            waiter.exchange_at(now, wait.as_bytes(), &mut Vec::new()).expect("the session lives");
            waiter
        })
        .collect();
    requests += "SELECT 1\r\n";
    for number in 0..20 {
        requests += &format!("RPUSH key:{number} {number}\r\n");
    }
    requests += "SWAPDB 0 1\r\nSELECT 0\r\nLRANGE order 0 -1\r\n";
    local.exchange_at(now, requests.as_bytes(), &mut replies).expect("the session lives");
    drop(waiters);
    replies
}

#[test]
fn one_seed_gives_the_same_replies_and_another_seed_gives_others() {
    let (first, again, other) = (replies_of_a_life(42), replies_of_a_life(42), replies_of_a_life(43));
    let differ = first.iter().zip(&again).position(|(one, other)| one != other);
    let near = differ.map(|at| String::from_utf8_lossy(&first[at.saturating_sub(200)..at + 20]).into_owned());
    assert_eq!(near, None, "they part here");
    assert_eq!(first.len(), again.len());
    assert_ne!(first, other);
    assert!(String::from_utf8_lossy(&first).contains("usec=0,"), "nothing takes time");
}

#[test]
fn a_clock_that_the_caller_stops_stands_for_a_whole_batch() {
    let mut local = Local::open(&engine(), || ());
    let epoch = Instant { wall_us: 0, monotonic_us: 0 };
    let mut requests = "SET key value PX 1000\r\n".to_owned();
    requests += &"PTTL key\r\n".repeat(1_000);
    requests += "TIME\r\n";
    let mut replies = Vec::new();
    local.exchange_at(epoch, requests.as_bytes(), &mut replies).expect("the session lives");
    let expected = format!("+OK\r\n{}*2\r\n$1\r\n0\r\n$1\r\n0\r\n", ":1000\r\n".repeat(1_000));
    assert_eq!(String::from_utf8_lossy(&replies), expected);
}

#[test]
fn others_see_what_a_client_has_set_up_whatever_it_does_between() {
    let engine = engine();
    let (mut local, mut other) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    let id = ask(&mut local, "CLIENT ID").trim_start_matches(':').trim().to_owned();
    let mut seen = |fields: &[&str]| {
        let line = ask(&mut other, &format!("CLIENT LIST ID {id}"));
        fields.iter().for_each(|field| assert!(line.contains(&format!(" {field} ")), "{field} is not in {line}"));
        ask(&mut other, "INCR watched");
    };
    for (requests, fields) in [
        ("GET k", &["flags=N", "db=0", "multi=-1", "resp=2", "cmd=get"][..]),
        ("SELECT 3\r\nGET k", &["db=3", "cmd=get"]),
        ("GET k", &["db=3", "cmd=get"]),
        ("SELECT 0\r\nWATCH watched\r\nGET k", &["db=0", "flags=N"]),
        ("GET k", &["flags=d"]),
        // The watched key has changed, so EXEC will refuse, and nothing is queued.
        ("MULTI\r\nGET k", &["flags=xd", "multi=0", "cmd=get"]),
        ("GET k", &["multi=0", "cmd=get"]),
        ("EXEC foo", &["flags=N", "multi=-1"]),
        ("MULTI\r\nSELECT 5\r\nSET k v\r\nEXEC\r\nGET k", &["multi=-1", "db=5"]),
        ("EVAL 'redis.call(\"select\", 7)' 0\r\nGET k", &["db=5"]),
        ("HELLO 3\r\nGET k", &["resp=3"]),
        ("SUBSCRIBE a b\r\nGET k", &["flags=P", "sub=2"]),
        ("UNSUBSCRIBE\r\nGET k", &["flags=N", "sub=0"]),
        ("CLIENT TRACKING ON\r\nGET k", &["flags=t", "redir=0"]),
        ("RESET", &["flags=N", "redir=-1", "resp=2", "db=0"]),
    ] {
        ask(&mut local, requests);
        seen(fields);
    }
}
