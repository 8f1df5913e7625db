//! The client against real servers and against the embedded engine: the promises of each method and of each way of waiting.
//!
//! Every promise is one function of a client; the macro at the bottom makes it a test against Redis, against Sleeve's server
//! and against an embedded engine. Tests that need a misbehaving server are in the client's own crate.

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use sleeve::prelude::*;
use sleeve::{
    BitField, BitOperation, BitRange, Client, ClientFilter, ClientType, CommandFilter, Condition, CopyOptions, Effect,
    Error, ErrorKind, ExpireIf, Expiry, FlushMode, LcsOptions, PauseMode, ScanOptions, SetOptions, Switch, Unblock,
    Value,
};

fn strings(client: &Client) -> Result<(), Error> {
    client.set("s", "hello").wait()?;
    assert_eq!(client.get::<String>("s").wait()?, "hello");
    assert_eq!(client.get::<Option<String>>("missing").wait()?, None);
    assert_eq!(client.get::<String>("missing").wait().unwrap_err().kind(), ErrorKind::Conversion);
    assert_eq!(client.append("s", " there").wait()?, 11);
    assert_eq!(client.getrange::<String>("s", -5, -1).wait()?, "there");
    assert_eq!(client.substr::<String>("s", 0, 1).wait()?, "he");
    assert_eq!(client.setrange("s", 6, "world").wait()?, 11);
    assert_eq!(client.strlen("s").wait()?, 11);
    assert_eq!(client.getset::<String>("s", 5).wait()?, "hello world");
    assert_eq!(client.incr("s").wait()?, 6);
    assert_eq!(client.incrby("s", 10).wait()?, 16);
    assert_eq!(client.decr("s").wait()?, 15);
    assert_eq!(client.decrby("s", 5).wait()?, 10);
    assert_eq!(client.incrbyfloat("s", 0.5).wait()?, 10.5);
    client.mset([("a", "1"), ("b", "2")]).wait()?;
    assert_eq!(client.mget::<Vec<Option<i64>>>(["a", "missing", "b"]).wait()?, [Some(1), None, Some(2)]);
    assert!(!client.msetnx([("b", 3), ("c", 4)]).wait()?);
    assert!(!client.setnx("a", 9).wait()?);
    client.setex("t", 100, "v").wait()?;
    client.psetex("t", 100_000, "v").wait()?;
    assert!((1..=100).contains(&client.ttl("t").wait()?));
    assert_eq!(client.getex::<String>("t", Expiry::Never).wait()?, "v");
    assert_eq!(client.ttl("t").wait()?, -1);
    let in_a_minute = Expiry::At(SystemTime::now() + Duration::from_secs(60));
    assert!(client.set_with::<bool>("t", "w", SetOptions::new().if_present().expiry(in_a_minute)).wait()?);
    assert!(!client.set_with::<bool>("t", "x", SetOptions::new().if_absent()).wait()?);
    assert_eq!(client.set_with::<String>("t", "x", SetOptions::new().get().expiry(Expiry::Keep)).wait()?, "w");
    let soon = Expiry::After(Duration::from_millis(90_500));
    client.set_with::<()>("t", "x", SetOptions::new().expiry(soon)).wait()?;
    assert!(client.pttl("t").wait()? > 60_000);
    assert_eq!(client.getdel::<Option<String>>("t").wait()?.as_deref(), Some("x"));
    client.mset([("l1", "ohmytext"), ("l2", "mynewtext")]).wait()?;
    assert_eq!(client.lcs::<String>("l1", "l2").wait()?, "mytext");
    assert_eq!(client.lcs_len("l1", "l2").wait()?, 6);
    let options = LcsOptions::new().min_match_length(4).with_match_length();
    let matches = client.lcs_idx_with::<HashMap<String, Value>>("l1", "l2", options).wait()?;
    assert_eq!(matches["len"], Value::Integer(6));
    let bytes: Vec<u8> = (0..=255).collect();
    client.set("bytes", &bytes).wait()?;
    assert_eq!(client.get::<Vec<u8>>("bytes").wait()?, bytes);
    let large = vec![b'x'; 3_000_000];
    client.set("large", &large).wait()?;
    assert!(client.get::<Vec<u8>>("large").wait()? == large);
    Ok(())
}

fn bitmaps(client: &Client) -> Result<(), Error> {
    client.set("b", "foobar").wait()?;
    assert_eq!(client.bitcount("b").wait()?, 26);
    assert_eq!(client.bitcount_range("b", BitRange::new(1, 1)).wait()?, 6);
    assert_eq!(client.bitcount_range("b", BitRange::new(5, 30).bits()).wait()?, 17);
    assert_eq!(client.bitpos("b", true).wait()?, 1);
    assert_eq!(client.bitpos_range("b", true, BitRange::starting(2)).wait()?, 17);
    assert!(!client.setbit("b", 0, true).wait()?);
    assert!(client.getbit("b", 0).wait()?);
    assert_eq!(client.bitop(BitOperation::Not, "n", "b").wait()?, 6);
    assert_eq!(client.bitop(BitOperation::Xor, "n", ["n", "b"]).wait()?, 6);
    let steps = BitField::new().set("u8", 0, 255).get("u8", 0).overflow("FAIL").incrby("u8", "#0", 1);
    assert_eq!(client.bitfield("f", steps).wait()?, [Some(0), Some(255), None]);
    assert_eq!(client.bitfield_ro("f", BitField::new().get("i8", 0)).wait()?, [-1]);
    Ok(())
}

fn keys(client: &Client) -> Result<(), Error> {
    client.mset([("k1", "v"), ("k2", "v")]).wait()?;
    assert_eq!(client.exists(["k1", "k1", "missing"]).wait()?, 2);
    assert_eq!(client.touch(["k1", "k2"]).wait()?, 2);
    assert_eq!(client.type_of("k1").wait()?, "string");
    assert!(client.copy("k1", "k3").wait()?);
    assert!(client.copy_with("k1", "k3", CopyOptions::new().database(4).replace()).wait()?);
    assert!(client.expire("k1", 100).wait()?);
    assert!(!client.expire_if("k1", 50, ExpireIf::Later).wait()?);
    assert!(client.pexpire("k1", 200_000).wait()?);
    assert!(client.pexpire_if("k1", 100_000, ExpireIf::Sooner).wait()?);
    assert!(client.expireat("k1", 4_000_000_000).wait()?);
    assert!(client.expireat_if("k1", 4_000_000_001, ExpireIf::Present).wait()?);
    assert_eq!(client.expiretime("k1").wait()?, 4_000_000_001);
    assert!(client.pexpireat("k1", 4_000_000_000_000).wait()?);
    assert!(!client.pexpireat_if("k1", 4_000_000_000_000, ExpireIf::Absent).wait()?);
    assert_eq!(client.pexpiretime("k1").wait()?, 4_000_000_000_000);
    assert!(client.persist("k1").wait()?);
    assert_eq!((client.ttl("k1").wait()?, client.pttl("missing").wait()?), (-1, -2));
    assert!(client.move_to("k2", 5).wait()?);
    assert_eq!(client.db(5).get::<String>("k2").wait()?, "v");
    client.rename("k3", "k4").wait()?;
    assert!(!client.renamenx("k4", "k1").wait()?);
    assert_eq!(client.object_encoding("k1").wait()?.as_deref(), Some("embstr"));
    assert_eq!(client.object_refcount("k1").wait()?, Some(1));
    assert!(client.object_idletime("k1").wait()?.is_some());
    assert!(client.object_freq("k1").wait().unwrap_err().message().contains("LFU"));
    assert!(client.object_help().wait()?.len() > 3);
    assert!(client.randomkey::<Option<String>>().wait()?.is_some());
    let mut names = client.keys::<Vec<String>>("k*").wait()?;
    names.sort();
    assert_eq!(names, ["k1", "k4"]);
    let options = ScanOptions::new().pattern("k*").count(100).kind("string");
    let (cursor, mut scanned) = client.scan_with::<Vec<String>>(0, options).wait()?;
    scanned.sort();
    assert_eq!((cursor, scanned), (0, names));
    assert_eq!(client.unlink("k4").wait()?, 1);
    assert_eq!(client.del(["k1", "missing"]).wait()?, 1);
    Ok(())
}

fn connections_and_server(client: &Client) -> Result<(), Error> {
    assert_eq!(client.ping().wait()?, "PONG");
    assert_eq!(client.echo::<i64>(12).wait()?, 12);
    client.client_setname("tester").wait()?;
    assert_eq!(client.client_getname().wait()?.as_deref(), Some("tester"));
    let id = client.client_id().wait()?;
    assert!(client.client_info().wait()?.contains(&format!("id={id} ")));
    assert!(client.client_list().wait()?.contains(&format!("id={id} ")));
    assert!(client.client_list_ids([id]).wait()?.contains("name=tester"));
    assert!(client.client_list_type(ClientType::Normal).wait()?.contains("name=tester"));
    assert!(client.client_help().wait()?.len() > 3);
    client.client_no_evict(Switch::Off).wait()?;
    assert_eq!(client.client_kill(ClientFilter::new().id(999_999)).wait()?, 0);
    assert_eq!(client.client_kill_address("1.2.3.4:5").wait().unwrap_err().code(), Some("ERR"));
    assert!(!client.client_unblock(999_999, Unblock::Timeout).wait()?);
    client.client_unpause().wait()?;
    assert!(client.command_count().wait()? > 50);
    assert!(!client.command::<Vec<Value>>().wait()?.is_empty());
    assert!(client.command_list().wait()?.contains(&"get".to_owned()));
    let filtered = client.command_list_filtered(CommandFilter::Pattern("incrby*".to_owned())).wait()?;
    assert_eq!(filtered.len(), 2);
    assert_eq!(client.command_info::<Vec<Value>>(["get", "set"]).wait()?.len(), 2);
    assert!(!client.command_docs::<Vec<Value>>("get").wait()?.is_empty());
    assert_eq!(client.command_getkeys::<Vec<String>>(["SET", "k", "v"]).wait()?, ["k"]);
    assert_eq!(client.command_getkeysandflags::<Vec<(String, Value)>>(["SET", "k", "v"]).wait()?[0].0, "k");
    assert!(client.command_help().wait()?.len() > 3);
    client.config_set([("tcp-keepalive", "77")]).wait()?;
    assert_eq!(client.config_get::<HashMap<String, i64>>("tcp-keep*").wait()?["tcp-keepalive"], 77);
    client.config_resetstat().wait()?;
    assert!(client.config_help().wait()?.len() > 3);
    assert!(client.info("server").wait()?.contains("redis_version"));
    assert!(client.time().wait()?.0 > 1_600_000_000);
    client.set("k", 1).wait()?;
    client.swapdb(0, 1).wait()?;
    assert_eq!((client.dbsize().wait()?, client.db(1).dbsize().wait()?), (0, 1));
    client.db(1).flushdb_with(FlushMode::Sync).wait()?;
    client.flushdb().wait()?;
    client.flushall_with(FlushMode::Async).wait()?;
    client.flushall().wait()?;
    assert_eq!(client.db(1).dbsize().wait()?, 0);
    Ok(())
}

fn a_pause_holds_commands_up_and_then_they_run(client: &Client) -> Result<(), Error> {
    client.client_pause(100, PauseMode::All).wait()?;
    let first = client.incr("held");
    let second = client.db(2).incr("held");
    let third = client.incr("held");
    assert_eq!((third.wait()?, second.wait()?, first.wait()?), (2, 1, 1));
    Ok(())
}

fn every_way_of_waiting(client: &Client) -> Result<(), Error> {
    assert_eq!(client.incr("n").wait()?, 1);
    assert_eq!(client.incr("n").wait_for(Duration::from_secs(20))?, 2);
    let (sender, receiver) = channel();
    client.incr("n").then(move |result| sender.send(result).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap()?, 3);
    client.incr("n").forget();
    drop(client.incr("n"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (six, seven) = runtime.block_on(async { tokio::join!(client.incr("n"), client.incr("n")) });
    assert_eq!((six?, seven?), (6, 7));
    let many: Vec<_> = (0..1000).map(|_| client.incr("n")).collect();
    for (index, reply) in many.into_iter().enumerate() {
        assert_eq!(reply.wait()?, 8 + index as i64);
    }
    Ok(())
}

/// Checks that a caller that joins a lone caller is not left waiting: a lone caller reads its replies itself.
fn a_lone_caller_may_be_joined_at_any_time(client: &Client) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut count = 0;
    let mut next = || {
        count += 1;
        count
    };
    for round in 0..60 {
        for _ in 0..40 {
            assert_eq!(client.incr("n").wait()?, next());
        }
        match round % 6 {
            0 => assert_eq!(runtime.block_on(client.incr("n").into_future())?, next()),
            1 => {
                let (sender, receiver) = channel();
                client.incr("n").then(move |result| sender.send(result).unwrap());
                assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap()?, next());
            }
            2 => {
                client.incr("n").forget();
                next();
            }
            3 => {
                drop(client.incr("n"));
                next();
            }
            4 => {
                let reply = client.incr("n");
                assert_eq!(thread::scope(|scope| scope.spawn(|| reply.wait()).join().unwrap())?, next());
            }
            _ => {
                let replies = [client.incr("n"), client.db(1).incr("n"), client.incr("n")];
                let [first, _other, third] = replies.map(|reply| reply.wait());
                assert_eq!((first?, third?), (next(), next()));
            }
        }
    }
    Ok(())
}

fn databases_do_not_mix(client: &Client) -> Result<(), Error> {
    for round in 1..=50 {
        let replies: Vec<_> = (0..16).map(|database| client.db(database).incr("n")).collect();
        for reply in replies {
            assert_eq!(reply.wait()?, round);
        }
    }
    let error = client.db(4000).set("n", 1).wait().unwrap_err();
    assert_eq!((error.message(), error.effect()), ("ERR DB index is out of range", Effect::None));
    assert_eq!(client.get::<i64>("n").wait()?, 50);
    Ok(())
}

fn errors_are_clear(client: &Client) -> Result<(), Error> {
    client.set("text", "abc").wait()?;
    let error = client.incr("text").wait().unwrap_err();
    assert_eq!((error.kind(), error.code(), error.effect()), (ErrorKind::Server, Some("ERR"), Effect::Answered));
    assert_eq!(error.message(), "ERR value is not an integer or out of range");
    let error = client.get::<i64>("text").wait().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conversion, "expected an integer, got the string \"abc\""));
    for (name, words) in
        [("SELECT", "1"), ("subscribe", "x"), ("MULTI", "x"), ("WAIT", "x"), ("CLIENT", "REPLY"), ("quit", "x")]
    {
        let error = client.cmd(name).arg((words, "x")).send::<()>().wait().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Usage, Effect::None), "{name}");
    }
    // A name is one word, so that nothing in it becomes an argument, or a command more.
    for name in ["GET k", "set key value", "", " ", "GET\tk", "PING\r\nFLUSHALL", "AUTH opensesame"] {
        let error = client.cmd(name).arg("x").send::<()>().wait().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Usage, Effect::None), "{name}");
        assert!(error.message().contains(").arg(..)") && !error.message().contains("opensesame"), "{error}");
    }
    client.cmd("SET").arg(("user x y", "a b")).send::<()>().wait()?;
    assert_eq!(client.cmd("GET").arg("user x y").send::<String>().wait()?, "a b");
    assert_eq!(client.set("x", f64::NAN).wait().unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(client.cmd("NOSUCH").send::<()>().wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(client.cmd("OBJECT").arg(("ENCODING", "text")).send::<String>().wait()?, "embstr");
    Ok(())
}

fn batches_are_contiguous(client: &Client) -> Result<(), Error> {
    thread::scope(|scope| {
        let noise = scope.spawn(|| (0..5000).for_each(|_| client.incr("n").forget()));
        for _ in 0..50 {
            let batch = client.batch();
            let replies: Vec<_> = (0..40).map(|_| batch.incr("n")).collect();
            let other = batch.select(3).incr("n");
            assert_eq!(batch.len(), 41);
            batch.send();
            let values = replies.into_iter().map(|reply| reply.wait()).collect::<Result<Vec<i64>, Error>>()?;
            assert!(values.windows(2).all(|pair| pair[1] == pair[0] + 1), "{values:?}");
            other.wait()?;
        }
        noise.join().unwrap();
        Ok::<(), Error>(())
    })?;
    assert_eq!(client.db(3).get::<i64>("n").wait()?, 50);
    let batch = client.batch();
    let never = batch.incr("n");
    drop(batch);
    assert_eq!(never.wait().unwrap_err().effect(), Effect::None);
    Ok(())
}

fn transactions_run_as_one_if_their_conditions_hold(client: &Client) -> Result<(), Error> {
    client.set("state", "ready").wait()?;
    let conditions: [(fn() -> Condition, bool); 8] = [
        (|| Condition::equals("state", "ready"), true),
        (|| Condition::equals("state", "other"), false),
        (|| Condition::not_equals("state", "ready"), false),
        (|| Condition::not_equals("missing", "ready"), true),
        (|| Condition::exists("state"), true),
        (|| Condition::exists("missing"), false),
        (|| Condition::not_exists("missing"), true),
        (|| Condition::not_exists("state"), false),
    ];
    let mut expected = 0;
    for (first, first_holds) in &conditions {
        for (second, second_holds) in &conditions {
            let transaction = client.transaction();
            transaction.require(first()).require(second());
            let count = transaction.incr("count");
            let echo = transaction.echo::<String>("x");
            let after = client.echo::<String>("not held for ever");
            let executed = transaction.exec().wait()?;
            assert_eq!(executed, *first_holds && *second_holds);
            if executed {
                expected += 1;
                assert_eq!((count.wait()?, echo.wait()?.as_str()), (expected, "x"));
            } else {
                assert_eq!(count.wait().unwrap_err().kind(), ErrorKind::Aborted);
            }
            after.wait()?;
        }
    }
    assert_eq!(client.get::<i64>("count").wait()?, expected);
    let transaction = client.db(2).transaction();
    let (right, wrong) = (transaction.set("a", "x"), transaction.incr("a"));
    assert!(transaction.exec().wait()?);
    right.wait()?;
    assert_eq!(wrong.wait().unwrap_err().code(), Some("ERR"));
    assert_eq!(client.db(2).get::<String>("a").wait()?, "x");
    let transaction = client.transaction();
    let refused = transaction.cmd("GET").send::<()>();
    let with_it = transaction.incr("count");
    assert_eq!(transaction.exec().wait().unwrap_err().code(), Some("EXECABORT"));
    assert!(refused.wait().unwrap_err().message().contains("wrong number of arguments"));
    assert_eq!(with_it.wait().unwrap_err().code(), Some("EXECABORT"));
    let transaction = client.transaction();
    let never = transaction.incr("count");
    drop(transaction);
    assert_eq!(never.wait().unwrap_err().effect(), Effect::None);
    Ok(())
}

/// Many threads move items under a condition; the items that they took must be exactly the items that are gone.
fn conditions_hold_under_load(client: &Client) -> Result<(), Error> {
    client.set("stock", 1000).wait()?;
    let taken = Mutex::new(0i64);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let stock: i64 = client.get("stock").wait().unwrap();
                    let transaction = client.transaction();
                    transaction.require(Condition::equals("stock", stock));
                    let left = transaction.decr("stock");
                    let logged = transaction.incr("log");
                    if transaction.exec().wait().unwrap() {
                        assert_eq!(left.wait().unwrap(), stock - 1);
                        assert_eq!(logged.wait().unwrap(), 1000 - stock + 1);
                        *taken.lock().unwrap() += 1;
                    }
                    client.incr("noise").forget();
                }
            });
        }
    });
    let taken = *taken.lock().unwrap();
    assert!(taken > 0);
    assert_eq!(client.get::<i64>("stock").wait()?, 1000 - taken);
    Ok(())
}

fn watching_closures_begin_again(client: &Client) -> Result<(), Error> {
    client.set("n", 1).wait()?;
    let mut attempts = 0;
    let result = client.watch("n", |lease, transaction| {
        attempts += 1;
        let n: i64 = lease.get("n").wait()?;
        if attempts == 1 {
            client.set("n", 10).wait()?;
        }
        transaction.set("n", n * 2).forget();
        Ok(n * 2)
    })?;
    assert_eq!((attempts, result, client.get::<i64>("n").wait()?), (2, 20, 20));
    let refused = client.watch::<()>("n", |_, _| Err(Error::conversion("enough")));
    assert_eq!(refused.unwrap_err().message(), "enough");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tripled = runtime.block_on(client.db(0).watch_async(
        "n",
        async |lease: &sleeve::Lease, transaction: &sleeve::Transaction| {
            let n: i64 = lease.get("n").await?;
            transaction.set("n", n * 3).forget();
            Ok(n * 3)
        },
    ))?;
    assert_eq!((tripled, client.get::<i64>("n").wait()?), (60, 60));
    let lease = client.lease()?;
    assert_ne!(lease.client_id().wait()?, client.client_id().wait()?);
    Ok(())
}

fn forgotten_errors_reach_the_hook(client: &Client) -> Result<(), Error> {
    let (sender, receiver) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let config = client.config().clone().on_error(move |error| sender.lock().unwrap().send(error.clone()).unwrap());
    let client = Client::connect_with(config)?;
    client.set("text", "abc").forget();
    for _ in 0..10 {
        client.incr("text").forget();
        assert_eq!(
            receiver.recv_timeout(Duration::from_secs(60)).unwrap().message(),
            "ERR value is not an integer or out of range"
        );
    }
    client.cmd("SELECT").arg(1).send::<()>().forget();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap().kind(), ErrorKind::Usage);
    drop(client.incr("text"));
    client.set("text", "end").wait()?;
    assert!(receiver.try_recv().is_err());
    Ok(())
}

fn a_closed_client_sends_nothing(client: &Client) -> Result<(), Error> {
    let client = Client::connect_with(client.config().clone())?;
    let replies: Vec<_> = (0..1000).map(|_| client.incr("closing")).collect();
    client.close(Duration::from_secs(20))?;
    for (index, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.wait()?, index as i64 + 1);
    }
    assert_eq!(client.incr("closing").wait().unwrap_err().effect(), Effect::None);
    Ok(())
}

/// Makes each promise a test against each place.
macro_rules! everywhere {
    ($($promise:ident),* $(,)?) => {
        mod redis { $(#[test] fn $promise() { super::on_server(sleeve_tests::Kind::Redis, super::$promise); })* }
        mod embedded { $(#[test] fn $promise() { super::$promise(&sleeve::Client::embedded()).unwrap(); })* }
        mod sleeve_server { $(#[test] fn $promise() { super::on_server(sleeve_tests::Kind::Sleeve, super::$promise); })* }
    };
}

fn on_server(kind: sleeve_tests::Kind, promise: fn(&Client) -> Result<(), Error>) {
    let server = sleeve_tests::Server::start(kind);
    promise(&Client::connect(&server.url()).unwrap()).unwrap();
    // The same checks run in the other protocol, on an empty server.
    let client = Client::connect(&format!("{}?protocol=2", server.url())).unwrap();
    client.flushall().wait().unwrap();
    promise(&client).unwrap();
}

everywhere! {
    strings,
    bitmaps,
    keys,
    connections_and_server,
    a_pause_holds_commands_up_and_then_they_run,
    every_way_of_waiting,
    a_lone_caller_may_be_joined_at_any_time,
    databases_do_not_mix,
    errors_are_clear,
    batches_are_contiguous,
    transactions_run_as_one_if_their_conditions_hold,
    conditions_hold_under_load,
    watching_closures_begin_again,
    forgotten_errors_reach_the_hook,
    a_closed_client_sends_nothing,
}
