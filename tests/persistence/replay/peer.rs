//! A real server that loads a journal as its own AOF, and its data afterwards.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use sleeve_server::Engine;
use sleeve_server::Local;
use sleeve_tests::generator::Words;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::transcript::frame::{leaves, sorted};
use sleeve_tests::{Connection, Kind, Server};

use super::content::ask;

/// The number of databases that are read: more than any test here uses.
const DATABASES: usize = 12;

/// Fields of XINFO that may differ between servers: times of activity, the lag, the layout.
const OWN_AFFAIRS: &[&[u8]] = &[b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time", b"lag"];

/// The server.
pub struct Peer {
    server: Server,
    connection: Connection,
}

impl Peer {
    /// Starts a server with an empty AOF.
    pub fn start(kind: Kind) -> Peer {
        let options = ["--appendonly", "yes", "--appendfsync", "no", "--enable-debug-command", "yes"];
        let server = Server::start_with(kind, &options);
        let connection = server.connect();
        Peer { server, connection }
    }

    /// Returns whether the server has this command.
    pub fn knows(&mut self, command: &str) -> bool {
        let told = self.connection.command(&["COMMAND", "INFO", command]);
        told.is_ok_and(|told| !leaves(&told).is_empty())
    }

    /// Loads a journal in the place of the present data.
    pub fn load(&mut self, journal: &[u8]) {
        let folder = self.server.folder().join("appendonlydir");
        let is_increment = |path: &Path| path.to_string_lossy().ends_with(".incr.aof");
        let files = fs::read_dir(&folder).expect("it has a log").map(|file| file.expect("a file").path());
        let file = files.into_iter().find(|path| is_increment(path)).expect("it has an increment");
        fs::write(&file, journal).expect("the disk has room");
        let reply = self.connection.command(&["DEBUG", "LOADAOF"]);
        assert!(reply.is_ok_and(|reply| reply == b"+OK\r\n"), "it does not load the journal: {}", self.server.log());
    }

    /// Returns its data.
    pub fn contents(&mut self) -> Vec<String> {
        let kind = self.server.kind();
        contents(kind, &mut |words| self.connection.command(words).expect("it answers"))
    }

    /// Returns an engine's data in a form that a server of this kind can show as well.
    pub fn contents_of(&self, engine: &Arc<Engine>) -> Vec<String> {
        let mut local = Local::open(engine, || {});
        contents(self.server.kind(), &mut |words| ask(&mut local, words))
    }
}

type Asked<'a> = &'a mut dyn FnMut(&[Vec<u8>]) -> Vec<u8>;

/// Returns the data of a server with these answers, in a form that a server of this kind can show as well.
pub fn contents(kind: Kind, asked: Asked<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for database in 0..DATABASES {
        asked(&words(&format!("SELECT {database}"), &[]));
        let mut names = leaves(&asked(&words("KEYS *", &[])));
        names.sort();
        for name in &names {
            lines.push(format!("db{database} {} {}", escape(name), describe(kind, asked, name)));
        }
    }
    let libraries = asked(&words("FUNCTION LIST WITHCODE", &[]));
    lines.push(format!("functions {}", escape(&sorted(&libraries, false))));
    // Each later server writes scores and deadlines of fields into its digests in its own way.
    if kind == Kind::Redis {
        lines.push(format!("digest {}", escape(&asked(&words("DEBUG DIGEST", &[])))));
    }
    lines
}

fn describe(kind: Kind, asked: Asked<'_>, name: &[u8]) -> String {
    let about = |question: &str, asked: Asked<'_>| asked(&words(question, &[name]));
    let of = leaves(&about("TYPE", asked)).concat();
    let content = match of.as_slice() {
        b"string" => about("GET", asked),
        b"list" => asked(&[words("LRANGE", &[name]), words("0 -1", &[])].concat()),
        b"set" => sorted(&about("SMEMBERS", asked), false),
        b"zset" => scored(&asked(&[words("ZRANGE", &[name]), words("0 -1 WITHSCORES", &[])].concat())),
        b"hash" => hash(kind, asked, name),
        _ => stream(&asked(&[words("XINFO STREAM", &[name]), words("FULL COUNT 0", &[])].concat())),
    };
    let digest = if kind == Kind::Redis { about("DEBUG DIGEST-VALUE", asked) } else { Vec::new() };
    let deadline = about("PEXPIRETIME", asked);
    format!("{} {} {} {}", escape(&of), escape(&deadline), escape(&digest), escape(&content))
}

/// Returns the members of a sorted set with their scores, as numbers: servers write large ones in more ways than one.
fn scored(told: &[u8]) -> Vec<u8> {
    let leaves = leaves(told);
    let score = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let pairs = leaves.chunks(2).map(|pair| format!("{} {:?} ", escape(&pair[0]), score(&pair[1])));
    pairs.collect::<String>().into_bytes()
}

/// Returns the fields of a hash in order, each with its value and its deadline.
fn hash(kind: Kind, asked: Asked<'_>, name: &[u8]) -> Vec<u8> {
    let mut fields = leaves(&asked(&words("HKEYS", &[name])));
    fields.sort();
    let values = asked(&[words("HMGET", &[name]), fields.clone()].concat());
    if kind == Kind::Redis {
        return [fields.concat(), values].concat();
    }
    let count = fields.len().to_string();
    let head = [words("HPEXPIRETIME", &[name]), words(&format!("FIELDS {count}"), &[])].concat();
    let deadlines = asked(&[head, fields.clone()].concat());
    [fields.concat(), values, deadlines].concat()
}

/// Fields of Redis 8.6 about producers that never existed; Sleeve omits them.
const NO_PRODUCERS: &[&str] = &[
    "idmp-duration",
    "100",
    "idmp-maxsize",
    "100",
    "pids-tracked",
    "0",
    "iids-tracked",
    "0",
    "iids-added",
    "0",
    "iids-duplicates",
    "0",
];

/// Returns a stream's description without the fields that may differ between servers.
fn stream(told: &[u8]) -> Vec<u8> {
    let (mut kept, mut skips, mut leaves) = (Vec::new(), false, leaves(told));
    let is_none =
        |leaves: &[Vec<u8>]| leaves.iter().map(Vec::as_slice).eq(NO_PRODUCERS.iter().map(|word| word.as_bytes()));
    if let Some(at) = leaves.windows(NO_PRODUCERS.len()).position(is_none) {
        leaves.drain(at..at + NO_PRODUCERS.len());
    }
    for leaf in leaves {
        let is_own_affair = OWN_AFFAIRS.contains(&leaf.as_slice());
        // An unknown lag is nil, which is no leaf; the next leaf is then this one.
        skips &= leaf != b"pel-count";
        if !is_own_affair && !skips {
            kept.extend_from_slice(&leaf);
            kept.push(b' ');
        }
        skips = is_own_affair;
    }
    kept
}

fn words(text: &str, more: &[&[u8]]) -> Words {
    text.split(' ').map(|word| word.as_bytes().to_vec()).chain(more.iter().map(|word| word.to_vec())).collect()
}
