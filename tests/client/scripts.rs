//! Scripts and functions through the client: against Redis, against Sleeve's server, and against an embedded engine.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Error, ErrorKind, FlushMode, RestorePolicy, Script, Value};

fn scripts_by_text_and_digest(client: &Client) -> Result<(), Error> {
    assert_eq!(client.eval::<i64>("return 1 + #KEYS + #ARGV", ["a", "b"], (1, "x", 2.5)).wait()?, 6);
    assert_eq!(client.eval_ro::<Option<String>>("return redis.call('get', KEYS[1])", "none", ()).wait()?, None);
    let digest = client.script_load("return ARGV[1]").wait()?;
    assert_eq!(client.evalsha::<String>(&digest, (), "x").wait()?, "x");
    assert_eq!(client.evalsha_ro::<String>(&digest, (), "y").wait()?, "y");
    assert_eq!(client.script_exists([&digest, "none"]).wait()?, [true, false]);
    client.script_flush_with(FlushMode::Sync).wait()?;
    assert_eq!(client.script_exists(&digest).wait()?, [false]);
    assert_eq!(client.evalsha::<String>(&digest, (), "x").wait().unwrap_err().code(), Some("NOSCRIPT"));
    assert_eq!(client.script_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    client.script_flush().wait()
}

fn functions(client: &Client) -> Result<(), Error> {
    let library = |body: &str| format!("#!lua name=numbers\n{body}");
    let add = library("redis.register_function('add', function(keys, args) return #keys + args[1] end)");
    assert_eq!(client.function_load(&add).wait()?, "numbers");
    assert_eq!(client.function_load(&add).wait().unwrap_err().kind(), ErrorKind::Server);
    assert_eq!(client.fcall::<i64>("add", ["a", "b"], 40).wait()?, 42);
    let dump = client.function_dump().wait()?;
    let zero = "redis.register_function{function_name='zero', callback=function() return 0 end, flags={'no-writes'}}";
    assert_eq!(client.function_load_replace(library(zero)).wait()?, "numbers");
    assert_eq!(client.fcall_ro::<i64>("zero", (), ()).wait()?, 0);
    assert_eq!(client.function_list().wait()?.len(), 1);
    assert_eq!(client.function_list_with_code("other*").wait()?.len(), 0);
    assert!(matches!(client.function_stats().wait()?, Value::Map(_) | Value::Array(_)));
    assert!(client.function_restore(&dump).wait().is_err());
    client.function_restore_with(&dump, RestorePolicy::Replace).wait()?;
    assert_eq!(client.fcall::<i64>("add", (), 1).wait()?, 1);
    client.function_delete("numbers").wait()?;
    assert!(client.fcall::<i64>("add", (), 1).wait().is_err());
    assert_eq!(client.function_kill().wait().unwrap_err().code(), Some("NOTBUSY"));
    client.function_flush_with(FlushMode::Async).wait()?;
    client.function_flush().wait()
}

/// Takes replies in each way, of a script that the server does not know and of one that it knows.
fn the_text_travels_when_the_digest_is_unknown(client: &Client) -> Result<(), Error> {
    let count = Script::new("return redis.call('incrby', KEYS[1], ARGV[1])");
    let forget = || client.script_flush().wait();
    for round in 0..2 {
        if round == 0 {
            forget()?;
        }
        assert_eq!(count.run::<i64>(client, "n", 1).wait()?, 5 * round + 1);
        assert_eq!(client.script_exists(count.digest()).wait()?, [true]);
        if round == 0 {
            forget()?;
        }
        assert_eq!(count.run::<i64>(client, "n", 1).wait_for(Duration::from_secs(20))?, 5 * round + 2);
        if round == 0 {
            forget()?;
        }
        let (sender, receiver) = channel();
        count.run::<i64>(client, "n", 1).then(move |result| sender.send(result).expect("somebody listens"));
        assert_eq!(receiver.recv().expect("called back")?, 5 * round + 3);
        if round == 0 {
            forget()?;
        }
        count.run::<i64>(client, "n", 1).forget();
        while client.get::<i64>("n").wait()? != 5 * round + 4 {}
        if round == 0 {
            forget()?;
        }
        drop(count.run::<i64>(client, "n", 1));
        while client.get::<i64>("n").wait()? != 5 * round + 5 {}
    }
    Ok(())
}

fn scripts_are_awaited(client: &Client) -> Result<(), Error> {
    let double = Script::read_only("return 2 * redis.call('get', KEYS[1])");
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
    runtime.block_on(async {
        let other = client.db(1);
        other.set("n", 21).await?;
        for _ in 0..2 {
            let both = (double.run::<i64>(&other, "n", ()), double.run::<i64>(&other, "n", ()));
            assert_eq!((both.0.await?, both.1.await?), (42, 42));
        }
        let writing = Script::read_only("return redis.call('set', KEYS[1], 1)").run::<()>(&other, "n", ()).await;
        assert_eq!(writing.unwrap_err().kind(), ErrorKind::Server);
        Ok(())
    })
}

fn a_script_that_fails_says_so_once(client: &Client) -> Result<(), Error> {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&failures);
    let config = client.config().clone();
    let client = Client::connect_with(
        config.on_error(move |error: &Error| heard.lock().expect("whole").push(error.message().to_owned())),
    )?;
    Script::new("return redis.error_reply('OWN no')").run::<()>(&client, (), ()).forget();
    while failures.lock().expect("whole").is_empty() {
        client.cmd("PING").send::<Value>().wait()?;
    }
    assert_eq!(*failures.lock().expect("whole"), ["OWN no"]);
    let broken = Script::new("return (").run::<()>(&client, (), ()).wait().unwrap_err();
    assert!(broken.message().contains("Error compiling script"), "{broken}");
    Ok(())
}

fn batches_and_transactions_take_the_text(client: &Client) -> Result<(), Error> {
    let count = Script::new("return redis.call('incr', KEYS[1])");
    let (batch, transaction) = (client.batch(), client.transaction());
    let first = count.run_text::<i64>(&batch, "n", ());
    batch.send();
    assert_eq!(first.wait()?, 1);
    let second = count.run_text::<i64>(&transaction, "n", ());
    transaction.exec().wait()?;
    assert_eq!(second.wait()?, 2);
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

/// A client that asks while a script holds the server is not told of it: the command waits, and runs when the script is over.
#[test]
fn callers_wait_for_a_long_script_to_end_and_get_their_replies() {
    for kind in [sleeve_tests::Kind::Sleeve, sleeve_tests::Kind::Redis] {
        let server = sleeve_tests::Server::start_with(kind, &["--busy-reply-threshold", "20"]);
        let [runner, other] = [(); 2].map(|()| Client::connect(&server.url()).unwrap());
        let ended = runner.cmd("EVAL").arg(("while true do end", 0)).send::<()>();
        let written: Vec<_> = (0..100).map(|_| other.incr("n")).collect();
        let mut plain = server.connect();
        while !plain.command(&["PING"]).unwrap().starts_with(b"-BUSY") {}
        // It is sent behind them on the same connection.
        while other.script_kill().wait().is_err() {}
        assert!(ended.wait().unwrap_err().message().contains("killed by user"));
        let counted: Vec<i64> = written.into_iter().map(|reply| reply.wait().unwrap()).collect();
        assert!(counted.into_iter().eq(1..=100), "{}", kind.name());
    }
}

fn on_server(kind: sleeve_tests::Kind, promise: fn(&Client) -> Result<(), Error>) {
    let server = sleeve_tests::Server::start(kind);
    promise(&Client::connect(&server.url()).unwrap()).unwrap();
    // The same checks run in the other protocol, on an empty server.
    let client = Client::connect(&format!("{}?protocol=2", server.url())).unwrap();
    client.flushall().wait().unwrap();
    client.script_flush().wait().unwrap();
    promise(&client).unwrap();
}

everywhere! {
    scripts_by_text_and_digest,
    functions,
    the_text_travels_when_the_digest_is_unknown,
    scripts_are_awaited,
    a_script_that_fails_says_so_once,
    batches_and_transactions_take_the_text,
}
