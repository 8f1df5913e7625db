//! Tests of the option `encodings`: small lists and sets are reported as in Redis 7.2, or as in 7.0.

use sleeve_server::{Config, Engine, Local, Opt};

fn session(version: &str) -> Local {
    let config = Config::default();
    config.assign(Opt::Encodings, &[version.as_bytes()]).expect("a version");
    Local::open(&Engine::new(config), || {})
}

/// Returns the encodings of these keys after some commands.
fn encodings(local: &mut Local, commands: &str, keys: &[&str]) -> Vec<String> {
    let mut replies = Vec::new();
    local.exchange(commands.as_bytes(), &mut replies).expect("the session lives");
    let name_of = |key: &&str| {
        let mut reply = Vec::new();
        local.exchange(format!("OBJECT ENCODING {key}\r\n").as_bytes(), &mut reply).expect("the session lives");
        String::from_utf8_lossy(&reply).lines().nth(1).unwrap_or("absent").to_owned()
    };
    keys.iter().map(name_of).collect()
}

const COMMANDS: &str = "RPUSH l a b c\r\nSADD s a b\r\nSADD i 1 2\r\nSADD m 1\r\nSADD m a\r\nHSET h f v\r\nZADD z 1 a\r\n\
    SORT s ALPHA STORE d\r\nCOPY l c\r\nLPOP l 2\r\nSUNIONSTORE u s i\r\n";
const KEYS: [&str; 9] = ["l", "s", "i", "m", "h", "z", "d", "c", "u"];

#[test]
fn small_lists_and_sets_are_as_in_the_version_that_is_asked_for() {
    let (packed, chain, table) = ("listpack", "quicklist", "hashtable");
    let new = encodings(&mut session("7.2"), COMMANDS, &KEYS);
    assert_eq!(new, [packed, packed, "intset", packed, packed, packed, packed, packed, packed]);
    let old = encodings(&mut session("7.0"), COMMANDS, &KEYS);
    assert_eq!(old, [chain, table, "intset", table, packed, packed, chain, chain, table]);
}

#[test]
fn the_option_changes_names_and_nothing_else() {
    let mut local = session("7.0");
    encodings(&mut local, COMMANDS, &[]);
    let memory_of = |local: &mut Local| {
        let mut replies = Vec::new();
        local
            .exchange(b"MEMORY USAGE l\r\nMEMORY USAGE s\r\nDUMP l\r\nDUMP s\r\n", &mut replies)
            .expect("the session lives");
        replies
    };
    let old = memory_of(&mut local);
    assert_eq!(encodings(&mut local, "", &["l", "s", "c"]), ["quicklist", "hashtable", "quicklist"]);
    let new = encodings(&mut local, "CONFIG SET encodings 7.2\r\n", &["l", "s", "c"]);
    assert_eq!(new, ["listpack", "listpack", "listpack"]);
    assert_eq!(memory_of(&mut local), old);
}

#[test]
fn a_chain_is_packed_again_when_it_has_become_small() {
    let mut local = session("7.2");
    let grown = format!("CONFIG SET list-max-listpack-size 4\r\nRPUSH l {}\r\n", "e ".repeat(5));
    assert_eq!(encodings(&mut local, &grown, &["l"]), ["quicklist"]);
    assert_eq!(encodings(&mut local, "RPOP l 1\r\n", &["l"]), ["quicklist"]);
    assert_eq!(encodings(&mut local, "RPOP l 2\r\n", &["l"]), ["listpack"]);
}
