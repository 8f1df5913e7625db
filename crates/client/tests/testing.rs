//! The engine as a test double: time that a test turns, seeds, faults, and clients of every kind at its address.
#![cfg(feature = "embedded")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, UNIX_EPOCH};

use sleeve::prelude::*;
use sleeve::testing::{Engine, Fault};
use sleeve::{Client, Config, Effect, ErrorKind, Expiry, SetOptions, SubscriptionEvent, Value};

const SECOND: Duration = Duration::from_secs(1);

fn expiring(time: Duration) -> SetOptions {
    SetOptions::new().expiry(Expiry::After(time))
}

/// Runs a check with a client in this process, and with one at the engine's address.
fn both_ways(check: impl Fn(&Engine, &Client)) {
    let engine = Engine::new();
    check(&engine, &engine.client());
    let engine = Engine::new();
    check(&engine, &engine.connect().unwrap());
}

#[test]
fn time_passes_when_the_test_turns_it() {
    both_ways(|engine, client| {
        let began = engine.now();
        client.set_with::<()>("a", 1, expiring(10 * SECOND)).wait().unwrap();
        for _ in 0..3 {
            assert_eq!(client.pttl("a").wait(), Ok(10_000));
        }
        engine.advance(4 * SECOND);
        assert_eq!(client.pttl("a").wait(), Ok(6_000));
        assert_eq!(engine.now(), began + 4 * SECOND);
        let told: (u64, u64) = client.cmd("TIME").send().wait().unwrap();
        assert_eq!(UNIX_EPOCH + Duration::from_secs(told.0) + Duration::from_micros(told.1), engine.now());
        engine.advance(6 * SECOND);
        assert_eq!(client.pttl("a").wait(), Ok(0), "its last millisecond, as in a server");
        engine.advance(Duration::from_millis(1));
        assert_eq!(client.exists("a").wait(), Ok(0));
        assert_eq!(client.get::<Option<i64>>("a").wait(), Ok(None));
    });
}

#[test]
fn expiries_are_announced_before_the_turn_is_over() {
    let engine = Engine::new();
    let client = engine.client();
    client.config_set([("notify-keyspace-events", "Ex")]).wait().unwrap();
    let events = client.subscribe("__keyevent@0__:expired").unwrap();
    client.set_with::<()>("a", 1, expiring(SECOND)).wait().unwrap();
    engine.advance(2 * SECOND);
    let event = events.recv().wait_for(Duration::from_secs(60)).unwrap();
    assert!(matches!(event, Some(SubscriptionEvent::Message(message)) if message.payload == b"a"));
    assert_eq!(client.dbsize().wait(), Ok(0));
}

#[test]
fn a_wait_for_a_time_waits_for_the_turn() {
    both_ways(|engine, client| {
        let waiting = client.blpop::<Option<(String, String)>>("jobs", 5 * SECOND);
        while !client.info("clients").wait().unwrap().contains("blocked_clients:1") {
            std::thread::yield_now();
        }
        engine.advance(4 * SECOND);
        client.ping().wait().unwrap();
        assert!(!waiting.is_ready());
        engine.advance(SECOND);
        assert_eq!(waiting.wait(), Ok(None));
        let served = client.blpop::<Option<(String, String)>>("jobs", 5 * SECOND);
        client.rpush("jobs", "sweep").wait().unwrap();
        assert_eq!(served.wait().unwrap().unwrap().1, "sweep");
    });
}

#[test]
fn a_seed_gives_the_same_replies() {
    let run = |seed| {
        let engine = Engine::seeded(seed);
        let client = engine.client();
        let mut said = vec![format!("{:?}", engine.now())];
        client.sadd("numbers", (0..100).collect::<Vec<i64>>()).wait().unwrap();
        for _ in 0..20 {
            engine.advance(Duration::from_millis(7));
            said.push(client.xadd("log", ("a", 1)).wait().unwrap());
            said.push(client.spop::<String>("numbers").wait().unwrap());
        }
        let (_, keys): (u64, Vec<String>) = client.cmd("SSCAN").arg(("numbers", 0)).send().wait().unwrap();
        said.extend(keys);
        assert_eq!(engine.seed(), seed);
        said
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert!(run(7).contains(&"1735689600007-0".to_owned()));
}

#[test]
fn engines_have_nothing_in_common() {
    let (one, other) = (Engine::new(), Engine::new());
    one.client().set("a", 1).wait().unwrap();
    assert_eq!(other.client().dbsize().wait(), Ok(0));
    assert_eq!(one.client().get("a").wait(), Ok(1));
    assert_ne!(one.address().unwrap(), other.address().unwrap());
    let limited = Engine::seeded_with(1, [("maxmemory", "3mb")]).unwrap().client();
    let text = "x".repeat(1 << 20);
    let full = (0..10).find_map(|key| limited.set(key, &text).wait().err()).expect("it is full");
    assert_eq!(full.code(), Some("OOM"));
    assert_eq!(Engine::seeded_with(1, [("port", "1")]).unwrap_err().kind(), ErrorKind::Configuration);
    let error = one.client().listen(([127, 0, 0, 1], 0).into()).unwrap_err();
    assert!(error.message().contains("testing::Engine has an address of its own"), "{error}");
}

#[test]
fn anybody_may_come_to_the_address() {
    let engine = Engine::new();
    let mut stream = TcpStream::connect(engine.address().unwrap()).unwrap();
    let mut say = |bytes: &[u8], answer: &str| {
        stream.write_all(bytes).unwrap();
        let mut heard = vec![0; answer.len()];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), answer);
    };
    say(b"PING\r\n", "+PONG\r\n");
    say(b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\n$4\r\nPI", "$2\r\nhi\r\n");
    say(b"NG\r\n", "+PONG\r\n");
    say(b"SUBSCRIBE news\r\n", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    engine.client().publish("news", "hi").wait().unwrap();
    say(b"", "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
    say(b"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    assert_eq!(engine.connect().unwrap().ping().wait(), Ok("PONG".to_owned()));
}

#[test]
fn a_fault_happens_when_and_where_it_was_said() {
    let engine = Engine::new();
    let client = engine.connect().unwrap();
    engine.fault(Fault::error("OOM not now: command not allowed when used memory is short").on_writes().skip(1));
    assert_eq!(client.incr("a").wait(), Ok(1));
    assert_eq!(client.get("a").wait(), Ok(1));
    let error = client.incr("a").wait().unwrap_err();
    assert_eq!((error.code(), error.effect()), (Some("OOM"), Effect::Refused));
    assert_eq!(client.incr("a").wait(), Ok(2));

    engine.fault(Fault::cut_before().on("INCR"));
    assert_eq!(client.incr("a").wait().unwrap_err().effect(), Effect::Unknown);
    assert_eq!(client.get("a").wait(), Ok(2));
    engine.fault(Fault::cut_after().on("INCR"));
    assert_eq!(client.incr("a").wait().unwrap_err().effect(), Effect::Unknown);
    assert_eq!(client.get("a").wait(), Ok(3));
    engine.fault(Fault::cut_amid().on("INCR"));
    assert_eq!(client.incr("a").wait().unwrap_err().kind(), ErrorKind::Disconnected);
    assert_eq!(client.get("a").wait(), Ok(4));

    engine.fault(Fault::error("ERR never").times(u64::MAX).on("INCR"));
    for _ in 0..3 {
        assert_eq!(client.incr("a").wait().unwrap_err().message(), "ERR never");
    }
    engine.heal();
    assert_eq!(client.incr("a").wait(), Ok(5));
    engine.fault(Fault::error("ERR unheard"));
    assert_eq!(engine.client().incr("a").wait(), Ok(6));
}

#[test]
fn a_late_answer_comes_when_time_is_up() {
    let engine = Engine::new();
    let config = Config::from_url(&engine.url().unwrap()).unwrap();
    let client = Client::connect_with(config.command_timeout(Some(Duration::from_millis(50)))).unwrap();
    engine.fault(Fault::delay(Duration::from_millis(400)).on("INCR"));
    let error = client.incr("a").wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    // The command arrives at some later time, however busy the machine is.
    while engine.client().get::<Option<i64>>("a").wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_transaction_with_a_fault_is_refused_as_a_whole() {
    let engine = Engine::new();
    let client = engine.connect().unwrap();
    engine.fault(Fault::error("ERR no").on_writes().skip(1));
    let transaction = client.transaction();
    let (one, two) = (transaction.incr("a"), transaction.incr("b"));
    let error = transaction.exec().wait().unwrap_err();
    assert!(error.message().starts_with("EXECABORT") || error.message() == "ERR no", "{error}");
    assert!(one.wait().is_err() && two.wait().is_err());
    assert_eq!(client.mget::<Value>(["a", "b"]).wait(), Ok(Value::Array(vec![Value::Nil, Value::Nil])));
}

#[test]
fn a_server_goes_down_and_comes_up_again() {
    let engine = Engine::new();
    let client = engine.connect().unwrap();
    client.set("a", 1).wait().unwrap();
    engine.cut();
    until_served(&client);
    engine.down();
    let waiting = client.get::<i64>("a");
    assert_eq!(engine.client().get("a").wait(), Ok(1));
    assert!(Client::connect(&engine.url().unwrap()).is_err());
    engine.up();
    match waiting.wait() {
        Ok(value) => assert_eq!(value, 1),
        // The command had left before the client noticed that the connection is broken.
        Err(error) => assert_eq!(error.kind(), ErrorKind::Disconnected),
    }
    until_served(&client);
}

/// Sends requests until one is served. Requests that leave before the client has noticed that its connection is broken are
/// lost; later ones are served.
fn until_served(client: &Client) {
    loop {
        match client.get::<i64>("a").wait() {
            Ok(value) => return assert_eq!(value, 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Disconnected),
        }
    }
}

#[test]
fn an_address_ends_with_its_engine() {
    let engine = Engine::new();
    let (address, client) = (engine.address().unwrap(), engine.client());
    let mut stream = TcpStream::connect(address).unwrap();
    drop(engine);
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or_default(), 0);
    assert_eq!(client.incr("a").wait(), Ok(1), "a client in the process goes on");
}
