//! The option `encodings`: small lists and sets as in Redis 7.2, or as in 7.0.

use sleeve_server::{Config, Engine, Local, Opt};

fn session(version: &str) -> Local {
    let config = Config::default();
    config.assign(Opt::Encodings, &[version.as_bytes()]).expect("a version");
    Engine::new(config).connect(|| {})
}

/// The encodings of these keys after some commands.
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
fn what_is_there_changes_its_encoding_when_it_grows() {
    let mut local = session("7.2");
    encodings(&mut local, COMMANDS, &[]);
    let later =
        encodings(&mut local, "CONFIG SET encodings 7.0\r\nLLEN l\r\nRPUSH l d\r\nSADD s c\r\n", &["l", "s", "c"]);
    assert_eq!(later, ["quicklist", "hashtable", "listpack"]);
    let back = encodings(&mut local, "CONFIG SET encodings 7.2\r\nRPUSH l d\r\nLPOP l 1\r\n", &["l"]);
    assert_eq!(back, ["listpack"], "as in 7.2 a chain that has become small is packed again");
}
