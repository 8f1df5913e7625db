//! The caller on the way that `cargo xtask walk` follows: it sends one command again and again, and waits for each answer.
//!
//! `walk URL TIMES [COUNT WORD...]...`, where `COUNT` says how many words a command has: all but the last are run once,
//! before, and the last one `TIMES` times. Between two calls stands a system call that nothing else here makes (`getppid`),
//! so that a tracer of this process sees where one call ends and the next begins. When all calls are done it says so, and
//! lives on until its input ends, so that its memory map can be read.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::process::parent_id;

use sleeve::prelude::*;
use sleeve::{Client, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [url, times, commands @ ..] = words.as_slice() else {
        // `cargo bench` gives none, and there is nothing to time here.
        println!("this is the caller that cargo xtask walk follows");
        return Ok(());
    };
    let client = Client::connect(url)?;
    let commands = split(commands).ok_or("each command is a count and so many words")?;
    let (command, before) = commands.split_last().ok_or("which command?")?;
    for command in before {
        any(&client, command)?;
    }
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    for _ in 0..times.parse()? {
        call(&client, &command)?;
        let _ = parent_id();
    }
    println!("done");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The commands one by one; nothing where a count does not fit.
fn split(mut words: &[String]) -> Option<Vec<&[String]>> {
    let mut commands = Vec::new();
    while let [count, rest @ ..] = words {
        let (command, rest) = rest.split_at_checked(count.parse().ok()?)?;
        commands.push(command);
        words = rest;
    }
    Some(commands)
}

/// A command as a program would call it: by its method where it is one of those that are used most.
fn call(client: &Client, command: &[&str]) -> Result<(), sleeve::Error> {
    match *command {
        ["PING"] => client.ping().wait().map(drop),
        ["GET", key] => client.get::<Option<Vec<u8>>>(key).wait().map(drop),
        ["SET", key, value] => client.set(key, value).wait(),
        ["INCR", key] => client.incr(key).wait().map(drop),
        ["LPUSH", key, element] => client.lpush(key, element).wait().map(drop),
        ["LPOP", key] => client.lpop::<Option<Vec<u8>>>(key).wait().map(drop),
        ["SADD", key, member] => client.sadd(key, member).wait().map(drop),
        ["HSET", key, field, value] => client.hset(key, [(field, value)]).wait().map(drop),
        ["HGET", key, field] => client.hget::<Option<Vec<u8>>>(key, field).wait().map(drop),
        ["ZADD", key, score, member] => client.zadd(key, [(score, member)]).wait().map(drop),
        ["MGET", ref keys @ ..] => client.mget::<Vec<Option<Vec<u8>>>>(keys).wait().map(drop),
        ["EVALSHA", digest, "1", key] => client.evalsha::<Value>(digest, key, ()).wait().map(drop),
        _ => any(client, command),
    }
}

/// A command by its name.
fn any(client: &Client, command: &[impl AsRef<str>]) -> Result<(), sleeve::Error> {
    let mut words = command.iter().map(AsRef::as_ref);
    let begun = client.cmd(words.next().unwrap_or_default());
    words.fold(begun, |begun, word| begun.arg(word)).send::<Value>().wait().map(drop)
}
