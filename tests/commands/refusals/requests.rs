//! The requests of the test: for each command one that has no effect where it runs, and scripts of each kind.
//!
//! A request has as many words as its command needs at least, and names keys and channels where it has to. A request that
//! could end the server, change the state that is looked at, or wait is given a word that the command itself refuses.

use sleeve_tests::Connection;
use sleeve_wire::commands;

/// A request of the test.
pub struct Asked {
    /// The name of the command, or the kind of the script.
    pub name: String,
    /// The words of the request.
    pub words: Vec<String>,
    /// True if a script may call it.
    pub is_command: bool,
}

/// Commands that only Sleeve has, so that no other server could be asked.
pub const OF_NOBODY_ELSE: [&str; 8] =
    ["increx", "xnack", "sdiffcard", "sunioncard", "blmovem", "lmovem", "client|rings", "hotkeys|top"];

/// Commands that answer with a stream, that leave their state, or that begin work which goes on in the background.
const NOT_ASKED: [&str; 11] = [
    "bgrewriteaof",
    "client|unpause",
    "config|resetstat",
    "config|rewrite",
    "function|kill",
    "psync",
    "save",
    "script|kill",
    "sync",
    "monitor",
    "client|journal",
];

/// The words behind a command's name, if words of `1` will not do.
const WORDS: [(&str, &str); 49] = [
    ("acl|deluser", "nobody"),
    ("acl|setuser", "probe x"),
    ("bgsave", "x"),
    ("blmove", "1 1 LEFT LEFT x"),
    ("blmovem", "1 1 LEFT LEFT x"),
    ("blmpop", "x 1 1 LEFT"),
    ("blpop", "1 x"),
    ("brpop", "1 x"),
    ("brpoplpush", "1 1 x"),
    ("bzmpop", "x 1 1 MIN"),
    ("bzpopmax", "1 x"),
    ("bzpopmin", "1 x"),
    ("client|caching", "x"),
    ("client|kill", "x"),
    ("client|no-evict", "x"),
    ("client|pause", "x"),
    ("client|reply", "x"),
    ("client|tracking", "x"),
    ("client|unblock", "x"),
    ("cluster|reset", "x"),
    ("debug", "x"),
    ("eval", "return\u{a0}1 1 1"),
    ("eval_ro", "return\u{a0}1 1 1"),
    ("failover", "x"),
    ("flushall", "x"),
    ("flushdb", "x"),
    ("function|flush", "x"),
    ("hello", "x"),
    ("hotkeys|start", "x"),
    ("info", "x"),
    ("latency|reset", "x"),
    ("lolwut", "x"),
    ("migrate", "1 1 1 1 1"),
    ("move", "1 x"),
    ("multi", ""),
    ("replconf", "x"),
    ("replicaof", "x x"),
    ("role", ""),
    ("script|flush", "x"),
    ("select", "x"),
    ("shutdown", "x"),
    ("slaveof", "x x"),
    ("swapdb", "x x"),
    ("wait", "x 1"),
    ("waitaof", "x 1 1"),
    ("xread", "STREAMS 1 1"),
    ("xreadgroup", "GROUP 1 1 STREAMS 1 1"),
    ("client|no-touch", "x"),
    ("client|rings", "x"),
];

/// Returns the commands and subcommands that are asked, by their full names.
pub fn names() -> impl Iterator<Item = &'static str> {
    let rows = commands::all().iter().filter(|row| row.subcommands().next().is_none());
    rows.map(|row| row.full_name).filter(|name| !NOT_ASKED.contains(name))
}

/// Returns all requests for a server, without those for commands that it does not know, and loads the scripts into it.
pub fn all(connection: &mut Connection) -> Vec<Asked> {
    let mut asked: Vec<Asked> =
        names().map(|name| Asked { name: name.to_owned(), words: words(name), is_command: true }).collect();
    asked.retain(|asked| is_known(connection, &asked.name));
    asked.extend(scripts(connection));
    asked
}

fn is_known(connection: &mut Connection, name: &str) -> bool {
    let info = connection.command(&["COMMAND", "INFO", name]).expect("a reply");
    !matches!(info.as_slice(), b"*1\r\n*-1\r\n" | b"*1\r\n$-1\r\n")
}

fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
    if let Some((_, rest)) = WORDS.iter().find(|(known, _)| *known == name) {
        words.extend(rest.split_ascii_whitespace().map(|word| word.replace('\u{a0}', " ")));
    } else if let Some(row) = commands::all().iter().find(|row| row.full_name == name) {
        let len = usize::from(row.arity.unsigned_abs());
        words.resize(len.max(words.len()), "1".to_owned());
    }
    words
}

/// The flags of a script; none for the form without flags.
const FLAGS: [Option<&str>; 7] = [
    None,
    Some(""),
    Some("no-writes"),
    Some("allow-oom"),
    Some("allow-stale"),
    Some("allow-oom,allow-stale"),
    Some("no-writes,allow-stale"),
];

/// Returns requests that run a script for each set of flags, one script that writes and one that reads: by EVAL, EVAL_RO,
/// EVALSHA and EVALSHA_RO, and as a function by FCALL and FCALL_RO if the script has flags. Loads these scripts and
/// functions.
fn scripts(connection: &mut Connection) -> Vec<Asked> {
    let mut asked = Vec::new();
    let mut add = |name: String, words: &[&str]| {
        asked.push(Asked { name, words: words.iter().map(|&word| word.to_owned()).collect(), is_command: false });
    };
    for (number, flags) in FLAGS.into_iter().enumerate() {
        for (does, call) in [("writes", "redis.pcall('set', '1', '1')"), ("reads", "redis.pcall('get', '1')")] {
            let head = flags.map_or(String::new(), |flags| format!("#!lua flags={flags}\n"));
            let source = format!("{head}return {call}");
            let digest = connection.command(&["SCRIPT", "LOAD", &source]).expect("a reply");
            let digest = String::from_utf8_lossy(&digest[5..45]).into_owned();
            let name = |command: &str| {
                format!("{command}:{}:{does}", flags.map_or("old".to_owned(), |flags| format!("[{flags}]")))
            };
            for (command, script) in
                [("EVAL", &source), ("EVAL_RO", &source), ("EVALSHA", &digest), ("EVALSHA_RO", &digest)]
            {
                add(name(command), &[command, script, "0"]);
            }
            let Some(flags) = flags else { continue };
            let function = format!("f{number}{does}");
            let list: String =
                flags.split(',').filter(|flag| !flag.is_empty()).map(|flag| format!("'{flag}',")).collect();
            let library = format!(
                "#!lua name=l{number}{does}\nredis.register_function{{function_name='{function}', flags={{{list}}}, \
                 callback=function() return {call} end}}"
            );
            connection.command(&["FUNCTION", "LOAD", "REPLACE", &library]).expect("a reply");
            for command in ["FCALL", "FCALL_RO"] {
                add(name(command), &[command, &function, "0"]);
            }
        }
    }
    asked
}
