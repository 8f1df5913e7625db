//! Hostile commands: every row of the command table, and hand-made ones where the grammar knows too little.
//!
//! Hand-made are commands with arguments in a language of their own (scripts, rules of users, options, DEBUG), and commands
//! that would end the server or the run if a number in them was chosen badly: a pause of all clients for ever cannot be taken
//! back, here as in Redis. One thread uses it at a time.

use sleeve_server::config::table::{self, Change};
use sleeve_tests::generator::{Generator, Scope, Words, edges};
use sleeve_tests::random::Random;
use sleeve_wire::commands::{Row, all};

use super::lua;

/// The command that ends the server, and one that takes no argument and seconds of work.
const LEFT_OUT: &[&str] = &["shutdown", "pfselftest"];

/// Commands after which a connection gets more than one reply for a command, or none.
const UNCOUNTED: &[&str] = &[
    "monitor",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "client|reply",
    "quit",
    "replconf",
    "sync",
    "psync",
];

/// Commands that end other connections, or forget how many ended.
const UNQUIET: &[&str] = &["client|kill", "config|resetstat"];

/// Commands that are sent rarely, because they delete the data or take much time.
const RARE: &[&str] =
    &["flushall", "flushdb", "swapdb", "script|flush", "function|flush", "migrate", "command", "command|docs"];

/// Commands that are sent more often than others, because their effect takes its time.
const OFTEN: &[&str] = &["replicaof"];

/// Options that stay as the run has set them: they keep the run itself alive, or end connections.
const FIXED: &[&str] = &[
    "bind",
    "port",
    "tls-port",
    "maxclients",
    "timeout",
    "requirepass",
    "client-output-buffer-limit",
    "client-query-buffer-limit",
    "maxmemory-clients",
    "maxmemory",
    "proto-max-bulk-len",
    "busy-reply-threshold",
    "oom-score-adj",
    "oom-score-adj-values",
    "dir",
];

/// The variable that names commands to leave out, by their beginnings and with commas between: it lets a run pass a known
/// fault before it is mended.
const WITHOUT: &str = "SLEEVE_WITHOUT";

/// The number of hostile primaries.
pub const PEERS: usize = 3;

/// The commands that a generator leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// True if every command must have exactly one reply.
    pub counted: bool,
    /// A client does not kill other connections.
    pub quiet: bool,
    /// The server's port, for commands that connect to a server.
    pub port: u16,
    /// The ports of the hostile primaries.
    pub peers: [u16; PEERS],
}

/// Makes hostile commands, each from the same seed the same.
#[derive(Debug)]
pub struct Hostile {
    generator: Generator,
    rows: Vec<&'static Row>,
    manners: Manners,
}

impl Hostile {
    /// Returns a generator of commands that depend on `seed` and `manners` only.
    pub fn new(seed: u64, manners: Manners) -> Hostile {
        let without = std::env::var(WITHOUT).unwrap_or_default();
        let is_wanted = |row: &&Row| {
            let name = row.full_name;
            let is_avoided = without.split(',').any(|start| !start.is_empty() && name.starts_with(start));
            !(is_avoided
                || LEFT_OUT.contains(&name)
                || (manners.counted && UNCOUNTED.contains(&name))
                || (manners.quiet && UNQUIET.contains(&name)))
        };
        let times = |row: &Row| if OFTEN.contains(&row.full_name) { 4 } else { 1 };
        let rows: Vec<&'static Row> =
            all().iter().filter(is_wanted).flat_map(|row| std::iter::repeat_n(row, times(row))).collect();
        let scope = Scope { rows: rows.clone(), hostile: true, ..Scope::default() };
        Hostile { generator: Generator::new(seed, scope), rows, manners }
    }

    /// Returns the source of the choices.
    pub fn random(&mut self) -> &mut Random {
        self.generator.random()
    }

    /// Returns the next command.
    pub fn command(&mut self) -> Words {
        let row = loop {
            let rows = &self.rows;
            let row = rows[self.generator.random().below(rows.len())];
            if !RARE.contains(&row.full_name) || self.random().once_in(10) {
                break row;
            }
        };
        let mut words = self.by_hand(row).unwrap_or_else(|| self.generator.command_of(row));
        if is_name(&words, &["client", "pause"]) || is_name(&words, &["debug", "sleep"]) {
            return words;
        }
        if self.random().once_in(300) {
            let word = self.random().below(words.len());
            words[word] = edges::bytes(self.random());
        }
        words
    }

    /// Makes the row's command by hand, if the row is one of these.
    fn by_hand(&mut self, row: &Row) -> Option<Words> {
        let often = !self.random().once_in(10);
        Some(match row.full_name {
            "client|pause" => self.pause(),
            "debug" => self.debug(),
            "config|set" => self.option(),
            "acl|setuser" => self.user(),
            "acl|deluser" | "acl|getuser" | "acl|dryrun" => {
                let user = self.name_of_user();
                let mut words = head(row.full_name);
                words.push(user);
                if row.full_name == "acl|dryrun" {
                    words.extend(self.command());
                }
                words
            }
            "auth" => vec![b"AUTH".to_vec(), self.name_of_user(), b"p".to_vec()],
            "migrate" => self.migrate(),
            "replicaof" | "slaveof" if often => self.replica_of(row),
            "replconf" if often => self.repl_conf(),
            "psync" if often => self.psync(),
            "failover" if often => self.failover(),
            "eval" | "eval_ro" if often => self.script(row),
            "script|load" if often => [head(row.full_name), vec![lua::body(&mut self.generator)]].concat(),
            "function|load" if often => {
                [head(row.full_name), vec![b"REPLACE".to_vec(), lua::library(&mut self.generator)]].concat()
            }
            "fcall" | "fcall_ro" if often => {
                let mut words = head(row.full_name);
                words.extend([self.random().pick(lua::FUNCTIONS).as_bytes().to_vec(), b"1".to_vec(), b"k0".to_vec()]);
                words.push(edges::any(self.random()));
                words
            }
            _ => return None,
        })
    }

    /// Pauses writes for any time, or everything for a short one; never both in one turn, because a pause takes the longest
    /// time that was asked for, and one of everything cannot be ended.
    fn pause(&mut self) -> Words {
        let (time, mode) = match self.manners.quiet {
            true => (edges::number(self.random()), b"WRITE".to_vec()),
            false => (b"3".to_vec(), b"ALL".to_vec()),
        };
        [head("client|pause"), vec![time, mode]].concat()
    }

    fn debug(&mut self) -> Words {
        let forms: &[&[&str]] = &[
            &["DIGEST"],
            &["DIGEST-VALUE", "k0", "l0", "s0", "h0", "z0", "x0", "g0", "p0", "none"],
            &["OBJECT", "h0"],
            &["OBJECT", "none"],
            &["ERROR", "A\r\nB"],
            &["LOG", "a\r\nb\u{1}"],
            &["POPULATE", "50", "populated", "-1"],
            &["POPULATE", "-1"],
            &["POPULATE", "20", "", "70000"],
            &["SET-ACTIVE-EXPIRE", "0"],
            &["SET-ACTIVE-EXPIRE", "1"],
            &["SLEEP", "0.001"],
            &["SLEEP", "-1"],
            &["SLEEP", "nan"],
            &["QUICKLIST-PACKED-THRESHOLD", "1"],
            &["QUICKLIST-PACKED-THRESHOLD", "0"],
            &["CONFIG-REWRITE-FORCE-ALL"],
            &["HELP"],
            &[],
        ];
        let protocols = [
            "string", "integer", "double", "null", "array", "set", "map", "attrib", "push", "verbatim", "true",
            "false", "bignum",
        ];
        let mut words = head("debug");
        if self.random().once_in(8) {
            words.extend([b"PROTOCOL".to_vec(), self.random().pick(&protocols).as_bytes().to_vec()]);
            return words;
        }
        let form = *self.random().pick(forms);
        words.extend(form.iter().map(|word| word.as_bytes().to_vec()));
        words
    }

    /// Makes a CONFIG SET of an option that does not decide whether the run goes on.
    fn option(&mut self) -> Words {
        let mut words = head("config|set");
        let live = |row: &&table::Row| {
            row.change == Change::Live && !FIXED.contains(&row.name) && !row.name.starts_with("tls-")
        };
        let rows: Vec<&table::Row> = table::ROWS.iter().filter(live).collect();
        for _ in 0..=self.random().below(2) {
            let row = *self.random().pick(&rows);
            let value = match self.random().below(3) {
                0 => row.default.as_bytes().to_vec(),
                1 => self
                    .random()
                    .pick(&["yes", "no", "4", "64", "KEA", "allkeys-lfu", "volatile-ttl", "7.2"])
                    .as_bytes()
                    .to_vec(),
                _ => edges::any(self.random()),
            };
            words.extend([row.name.as_bytes().to_vec(), value]);
        }
        words
    }

    /// Returns the name of a user other than the one that the run itself needs.
    fn name_of_user(&mut self) -> Vec<u8> {
        self.random().pick(&["u1", "u2", "u3", "nobody"]).as_bytes().to_vec()
    }

    fn user(&mut self) -> Words {
        let rules = [
            "on",
            "off",
            "nopass",
            ">p",
            "<p",
            "#zz",
            "resetpass",
            "reset",
            "~*",
            "~k*",
            "%R~l*",
            "%W~*",
            "%X~",
            "allkeys",
            "resetkeys",
            "&*",
            "&c*",
            "allchannels",
            "resetchannels",
            "+@all",
            "-@all",
            "+@read",
            "-@dangerous",
            "+get",
            "-set",
            "+client|id",
            "-config|set",
            "+@nosuch",
            "+nosuch",
            "nocommands",
            "allcommands",
            "(+get ~a*)",
            "(+@write %W~z*",
            ")",
            "clearselectors",
            "sanitize-payload",
            "skip-sanitize-payload",
        ];
        let mut words = [head("acl|setuser"), vec![self.name_of_user()]].concat();
        for _ in 0..self.random().below(6) {
            let rule = if self.random().once_in(6) {
                edges::any(self.random())
            } else {
                self.random().pick(&rules).as_bytes().to_vec()
            };
            words.push(rule);
        }
        words
    }

    /// Sends keys to a closed port, or to the server itself, never with a long timeout: the sender waits for the answer.
    fn migrate(&mut self) -> Words {
        let port = self.manners.port.to_string();
        let port = *self.random().pick(&["1", "0", "-1", "65536", "x", port.as_str()]);
        let timeout = *self.random().pick(&["-1", "0", "5", "x"]);
        let key = *self.random().pick(&["k0", "l0", "h0", "x0", "none"]);
        let database = edges::number(self.random());
        let mut words: Words =
            ["MIGRATE", "127.0.0.1", port, key].iter().map(|word| word.as_bytes().to_vec()).collect();
        // A timeout of zero would stand for a second.
        words.extend([database, timeout.replace('0', "10").into_bytes()]);
        words
    }

    /// Names no primary in many cases, because a replica takes no writes.
    fn replica_of(&mut self, row: &Row) -> Words {
        let target = match self.random().once_in(3) {
            true => {
                let host = *self.random().pick(&["127.0.0.1", "127.0.0.1", "localhost"]);
                vec![host.as_bytes().to_vec(), self.port_of_primary()]
            }
            false => vec![b"NO".to_vec(), b"ONE".to_vec()],
        };
        [head(row.full_name), target].concat()
    }

    /// Returns the port of a hostile primary, of the server itself, or of no server.
    pub fn port_of_primary(&mut self) -> Vec<u8> {
        let Manners { port, peers, .. } = self.manners;
        let peer = self.random().pick(&peers).to_string();
        let own = port.to_string();
        match self.random().once_in(4) {
            true => self.random().pick(&[own.as_str(), "1", "0", "65536", "-1", "x"]).as_bytes().to_vec(),
            false => peer.into_bytes(),
        }
    }

    /// Returns a replica's statement about itself and its offset.
    fn repl_conf(&mut self) -> Words {
        let mut words = head("replconf");
        for _ in 0..=self.random().below(3) {
            let port = self.port_of_primary();
            let number = edges::number(self.random());
            let forms: [(&str, &[u8]); 12] = [
                ("ACK", &number),
                ("ACK", b"9223372036854775807"),
                ("FACK", &number),
                ("GETACK", b"*"),
                ("listening-port", &port),
                ("ip-address", b"127.0.0.1"),
                ("capa", b"eof"),
                ("capa", b"psync2"),
                ("version", b"9.0.0"),
                ("rdb-only", b"1"),
                ("rdb-filter-only", b"functions"),
                ("nosuch", &number),
            ];
            let (option, value) = *self.random().pick(&forms);
            words.extend([option.as_bytes().to_vec(), value.to_vec()]);
        }
        words
    }

    fn psync(&mut self) -> Words {
        let id = *self.random().pick(&["?", "0123456789abcdef0123456789abcdef01234567", "x"]);
        let number = edges::number(self.random());
        let offset = self.random().pick(&[b"-1".as_slice(), b"0", b"1", b"100", &number]).to_vec();
        let mut words = [head("psync"), vec![id.as_bytes().to_vec(), offset]].concat();
        if self.random().once_in(3) {
            words.push(b"FAILOVER".to_vec());
        }
        words
    }

    fn failover(&mut self) -> Words {
        let mut words = head("failover");
        let (port, number) = (self.port_of_primary(), edges::number(self.random()));
        let forms: [&[&[u8]]; 5] =
            [&[b"TO", b"127.0.0.1", &port], &[b"FORCE"], &[b"ABORT"], &[b"TIMEOUT", b"5"], &[b"TIMEOUT", &number]];
        for _ in 0..self.random().below(4) {
            words.extend(self.random().pick(&forms).iter().map(|word| word.to_vec()));
        }
        words
    }

    fn script(&mut self, row: &Row) -> Words {
        let mut words = head(row.full_name);
        words.push(lua::body(&mut self.generator));
        words.extend([b"2".to_vec(), b"k0".to_vec(), b"l1".to_vec()]);
        let rest = self.generator.command();
        words.extend(rest);
        words
    }
}

/// Returns the words of a command's name.
fn head(full_name: &str) -> Words {
    full_name.split('|').map(|word| word.to_ascii_uppercase().into_bytes()).collect()
}

/// Returns whether a command begins with these words.
pub fn is_name(words: &Words, name: &[&str]) -> bool {
    words.len() >= name.len() && name.iter().zip(words).all(|(name, word)| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns a command as a person reads it, long words cut.
pub fn shown(words: &Words) -> String {
    let show = |word: &Vec<u8>| {
        let cut = &word[..word.len().min(1_000)];
        let more = if cut.len() < word.len() { format!("...({} bytes)", word.len()) } else { String::new() };
        format!("\"{}\"{more}", cut.escape_ascii())
    };
    words.iter().map(show).collect::<Vec<_>>().join(" ")
}
