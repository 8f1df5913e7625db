//! The tools of Redis against a server: redis-cli with its modes, and redis-benchmark.
//!
//! They run unchanged, as their users run them, and their output is compared. Modes that go on for ever are ended once they
//! have shown their output.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::steps::output_of;

/// A check: takes the port of a server on loopback, and returns a summary or the fault.
type Check = fn(&str) -> Result<String, String>;

/// The checks, with their names.
pub const ALL: [(&str, Check); 6] = [
    ("redis-cli", redis_cli),
    ("redis-cli --scan", scan),
    ("redis-cli --bigkeys --memkeys", biggest_keys),
    ("redis-cli --stat", stat),
    ("redis-cli --latency", latency),
    ("redis-benchmark", redis_benchmark),
];

/// The database for the modes that look at all keys; no other check uses it.
const DATABASE: &str = "13";

fn cli(port: &str) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", port]);
    command
}

fn redis_cli(port: &str) -> Result<String, String> {
    let exchanges: &[(&[&str], &str)] = &[
        (&["PING"], "PONG"),
        (&["SET", "cli:key", "a value"], "OK"),
        (&["GET", "cli:key"], "a value"),
        (&["GET", "cli:none"], ""),
        (&["-n", "3", "INCR", "cli:counter"], "1"),
        (&["-n", "3", "DEL", "cli:counter"], "1"),
        (&["-3", "--json", "MGET", "cli:key", "cli:none"], "[\"a value\",null]"),
        (&["--no-raw", "SETRANGE", "cli:key", "2", "n"], "(integer) 7"),
        (&["--csv", "MGET", "cli:key", "cli:none"], "\"a nalue\",NULL"),
        (&["--scan", "--pattern", "cli:*"], "cli:key"),
        (&["DEL", "cli:key"], "1"),
    ];
    for (arguments, expected) in exchanges {
        let said = output_of(cli(port).args(*arguments))?;
        if said.trim_end() != *expected {
            return Err(format!("{arguments:?} printed {said:?} instead of {expected:?}"));
        }
    }
    Ok(format!("{} exchanges", exchanges.len()))
}

fn redis_benchmark(port: &str) -> Result<String, String> {
    let tests = "ping_inline,ping_mbulk,set,get,incr,mset";
    let options = ["-h", "127.0.0.1", "-p", port, "-q", "--csv", "-n", "20000", "-P", "16", "-r", "10000", "-t", tests];
    let said = output_of(Command::new("redis-benchmark").args(options))?;
    if said.contains("rror") {
        return Err(said);
    }
    let lines = said.lines().filter(|line| line.starts_with('"')).count();
    // The tool prints a heading, and one line for each test.
    if lines == 7 { Ok("6 tests".to_owned()) } else { Err(format!("it printed {lines} lines\n{said}")) }
}

/// Fills the database with keys of every type, all found by a scan and by their sizes.
fn fill(port: &str) -> Result<(), String> {
    let script = "for n = 1, 300 do redis.call('SET', 'tools:string:' .. n, string.rep('x', n)) end \
                  for n = 1, 40 do redis.call('RPUSH', 'tools:list', n) \
                  redis.call('SADD', 'tools:set', n) redis.call('ZADD', 'tools:zset', n, n) \
                  redis.call('HSET', 'tools:hash', n, n) redis.call('XADD', 'tools:stream', '*', 'n', n) end \
                  return redis.call('DBSIZE')";
    output_of(cli(port).args(["-n", DATABASE, "FLUSHDB"]))?;
    let said = output_of(cli(port).args(["-n", DATABASE, "EVAL", script, "0"]))?;
    if said.trim() == "305" { Ok(()) } else { Err(format!("the keys were not made: {said}")) }
}

fn scan(port: &str) -> Result<String, String> {
    fill(port)?;
    let modes: [(&[&str], usize); 4] = [
        (&["--scan"], 305),
        (&["--scan", "--pattern", "tools:string:*"], 300),
        (&["--scan", "-i", "0"], 305),
        (&["--scan", "--quoted-pattern", "\"tools:z\\x73et\""], 1),
    ];
    for (mode, wanted) in modes {
        let said = output_of(cli(port).args(["-n", DATABASE]).args(mode))?;
        let mut names: Vec<&str> = said.lines().collect();
        names.sort_unstable();
        names.dedup();
        if names.len() != wanted {
            return Err(format!("{mode:?} found {} keys instead of {wanted}", names.len()));
        }
    }
    Ok(format!("{} scans", modes.len()))
}

fn biggest_keys(port: &str) -> Result<String, String> {
    fill(port)?;
    let bytes = output_of(cli(port).args(["-n", DATABASE, "MEMORY", "USAGE", "tools:stream"]))?;
    let sizes = [
        ("--bigkeys", "hash", "'\"tools:hash\"' has 40 fields".to_owned()),
        ("--bigkeys", "list", "'\"tools:list\"' has 40 items".to_owned()),
        ("--bigkeys", "string", "'\"tools:string:300\"' has 300 bytes".to_owned()),
        ("--bigkeys", "stream", "'\"tools:stream\"' has 40 entries".to_owned()),
        ("--bigkeys", "set", "'\"tools:set\"' has 40 members".to_owned()),
        ("--bigkeys", "zset", "'\"tools:zset\"' has 40 members".to_owned()),
        ("--memkeys", "stream", format!("'\"tools:stream\"' has {} bytes", bytes.trim())),
    ];
    for mode in ["--bigkeys", "--memkeys"] {
        let said = output_of(cli(port).args(["-n", DATABASE, mode, "-i", "0"]))?;
        let has =
            |wanted: &str| if said.contains(wanted) { Ok(()) } else { Err(format!("{mode}: no {wanted}\n{said}")) };
        has("Sampled 305 keys in the keyspace!")?;
        for (_, kind, wanted) in sizes.iter().filter(|(of, ..)| *of == mode) {
            has(&format!("Biggest {kind:>6} found {wanted}"))?;
        }
    }
    output_of(cli(port).args(["-n", DATABASE, "FLUSHDB"]))?;
    Ok("305 keys".to_owned())
}

/// Checks `--stat`, which prints lines for ever: keys, memory, clients, blocked, requests, connections.
fn stat(port: &str) -> Result<String, String> {
    const LINES: usize = 5;
    output_of(cli(port).args(["SET", "tools:stat", "1"]))?;
    let mut command = cli(port);
    let spawned = command.args(["--stat", "-i", "0.01"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("cannot run redis-cli: {error}"))?;
    let output = child.stdout.take().ok_or("it has no output")?;
    let lines: Result<Vec<String>, _> = BufReader::new(output).lines().take(2 + LINES).collect();
    let ended = child.kill().and_then(|()| child.wait());
    let lines = lines.and_then(|lines| ended.map(|_| lines)).map_err(|error| error.to_string())?;
    output_of(cli(port).args(["DEL", "tools:stat"]))?;
    for line in lines.iter().skip(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
        let memory = words.get(1).is_some_and(|word| word.ends_with(['B', 'K', 'M', 'G']));
        if !memory || number(0) < Some(1) || number(2) < Some(1) || number(4) < Some(1) {
            return Err(format!("it printed {line:?}"));
        }
    }
    if lines.len() == 2 + LINES { Ok(format!("{LINES} lines")) } else { Err(format!("it ended after {lines:?}")) }
}

/// Checks `--latency`: without a terminal it ends after a second, and prints the least, the greatest and the mean in
/// milliseconds, and the number of samples.
fn latency(port: &str) -> Result<String, String> {
    let said = output_of(cli(port).arg("--latency"))?;
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        [least, most, mean, samples] if least <= mean && mean <= most && *samples >= 1.0 => {
            Ok(format!("{samples} samples"))
        }
        _ => Err(format!("it printed {said:?}")),
    }
}
