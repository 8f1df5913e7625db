//! Options as Redis and Valkey have them, and the effect of their configuration files here.

use sleeve_server::config::{Config, arguments, load, table};
use sleeve_tests::transcript::frame::leaves;
use sleeve_tests::{Kind, Server, Settings};

/// The configuration files that come with servers, without their comments.
const STOCK: [&str; 4] = ["redis-6.2.conf", "redis-7.0.conf", "redis-8.conf", "valkey-9.conf"];

fn stock(name: &str) -> String {
    format!("{}/interop/stock/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn stock_files_of_redis_and_valkey_start_this_server() {
    for name in STOCK {
        let file = stock(name);
        // The options of the harness stand in front of the file. Nothing may be written outside of its folder.
        let server = Server::start_with(Kind::Sleeve, &[&file, "--daemonize", "no", "--pidfile", ""]);
        let reply = server.connect().command(&["CONFIG", "GET", "tcp-keepalive", "list-compress-depth"]);
        assert_eq!(leaves(&reply.expect("a reply")).len(), 4, "{name}");
        let info = server.connect().command(&["INFO", "server"]).expect("a reply");
        let shown = String::from_utf8_lossy(&info).into_owned();
        assert!(shown.contains(&format!("config_file:{file}")), "{name}: {shown}");
        assert!(!server.log().contains("has no effect"), "{name}: {}", server.log());
    }
}

#[test]
fn a_file_with_every_default_of_another_server_starts_this_one() {
    for kind in [Kind::Redis, Kind::Redis8, Kind::Valkey] {
        let server = Server::start(kind);
        let reply = server.connect().command(&["CONFIG", "GET", "*"]).expect("a reply");
        let words: Vec<String> = leaves(&reply).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let lines: Vec<String> = words.chunks_exact(2).map(|pair| format!("{} \"{}\"\n", pair[0], pair[1])).collect();
        assert!(lines.len() > 150, "{lines:?}");
        for line in &lines {
            let arguments = arguments::parse(&[b"-".to_vec()]);
            let loaded = load::load(&Config::default(), &arguments, line.as_bytes());
            let warnings = loaded.unwrap_or_else(|error| panic!("{}: {line}{error}", kind.name()));
            assert!(warnings.is_empty(), "{}: {warnings:?}", kind.name());
        }
    }
}

#[test]
fn an_option_by_its_old_and_its_new_name_is_set_as_by_the_others() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let server = Server::start(kind);
        let mut connection = server.connect();
        let mut answer =
            |words: &[&str]| String::from_utf8_lossy(&connection.command(words).expect("a reply")).into_owned();
        let (old, new) = ("slave-read-only", "replica-read-only");
        assert_eq!(answer(&["CONFIG", "SET", old, "yes", new, "no"]), "+OK\r\n", "{}", kind.name());
        assert!(answer(&["CONFIG", "GET", old]).ends_with("\r\nno\r\n"));
        assert_eq!(answer(&["CONFIG", "SET", new, "no", old, "yes"]), "+OK\r\n");
        assert!(answer(&["CONFIG", "GET", new]).ends_with("\r\nyes\r\n"));
        assert!(answer(&["CONFIG", "SET", old, "no", new, "maybe"]).contains("argument must be 'yes' or 'no'"));
        assert!(answer(&["CONFIG", "GET", new]).ends_with("\r\nyes\r\n"), "nothing of it stays");
        assert!(answer(&["CONFIG", "SET", old, "no", "SLAVE-read-only", "no"]).contains("duplicate parameter"));
    }
}

/// A dump of the string 12345 without its sum, and sums that are wrong and right.
const DUMP: &[u8] = b"\x00\xc190\n\x00";
const SUMS: [&[u8]; 2] = [b"12345678", b"\x9d\x94\xea'\x93\xfc\x08\xb9"];

#[test]
fn options_for_tests_of_damaged_dumps_do_as_in_redis() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let words = ["--use-exit-on-panic", "yes", "--loading-process-events-interval-bytes", "1024"];
        let words = [&words[..], &["--enable-debug-command", "yes"]].concat();
        let server = Server::start_with(kind, &words);
        let mut connection = server.connect();
        let mut restore = |sum: &[u8]| {
            let dump = [DUMP, sum].concat();
            connection.command(&[b"RESTORE", b"k".as_slice(), b"0", &dump, b"REPLACE"]).expect("a reply")
        };
        let wrong = b"-ERR DUMP payload version or checksum are wrong\r\n";
        assert_eq!(SUMS.map(&mut restore), [wrong.to_vec(), b"+OK\r\n".to_vec()], "{}", kind.name());
        let mut other = server.connect();
        let mut debug = |value| other.command(&["DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", value]).expect("a reply");
        assert_eq!(debug("1"), b"+OK\r\n");
        assert_eq!(SUMS.map(&mut restore), [b"+OK\r\n", b"+OK\r\n"]);
        assert_eq!(debug("0"), b"+OK\r\n");
        assert_eq!(restore(SUMS[0]), wrong);
        let shown = other.command(&["CONFIG", "GET", "use-exit-on-panic"]).expect("a reply");
        assert!(shown.ends_with(b"\r\nyes\r\n"));
        let shown = other.command(&["CONFIG", "GET", "loading-process-events-interval-bytes"]).expect("a reply");
        assert!(shown.ends_with(b"\r\n1024\r\n"));
        let refused = other.command(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1"]).expect("a reply");
        assert!(refused.ends_with(b"- argument must be between 1024 and 2147483647 inclusive\r\n"));
    }
}

#[test]
fn log_lines_name_keys_unless_user_data_are_hidden() {
    for (hides, is_named) in [("no", true), ("yes", false)] {
        let folder = std::env::temp_dir().join(format!("sleeve-hidden-{hides}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("dump.rdb"), b"REDIS0009\x00\x06secret\x05ab").expect("written");
        let words = ["--hide-user-data-from-log", hides, "--dir", &folder.display().to_string()].map(str::to_owned);
        let settings = Settings { arguments: words.to_vec(), password: None };
        let refused = Server::try_start(Kind::Sleeve, settings).expect_err("half a record is not loaded");
        _ = std::fs::remove_dir_all(&folder);
        assert_eq!(refused.contains("the key \"secret\""), is_named, "{refused}");
        assert_eq!(refused.contains("the key \"*redacted*\""), !is_named, "{refused}");
    }
}

/// Returns a server's reply to CONFIG SET of one option.
fn set(server: &Server, name: &str, value: &str) -> String {
    let reply = server.connect().command(&["CONFIG", "SET", name, value]).expect("a reply");
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn options_that_name_written_files_are_refused_as_by_redis() {
    let (sleeve, redis) = (Server::start(Kind::Sleeve), Server::start(Kind::Redis));
    let reply = redis.connect().command(&["CONFIG", "GET", "*"]).expect("a reply");
    let words: Vec<String> = leaves(&reply).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let known: Vec<(&str, &str)> = words.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let mut written = 0;
    for (row, name) in table::names().filter(|(row, _)| row.kind.path() == table::Path::Written) {
        let refused = set(&sleeve, name, "elsewhere");
        assert!(
            refused.contains("can't set immutable config") || refused.contains("can't set protected config"),
            "{refused}"
        );
        if known.iter().any(|(known, _)| *known == row.name) {
            assert_eq!(refused, set(&redis, name, "elsewhere"));
        }
        written += 1;
    }
    assert!(written >= 9);
    // Every option that Redis, at its default configuration, protects from a client is protected from it here too.
    for (name, value) in known.iter().filter(|(name, _)| table::find(name.as_bytes()).is_some()) {
        let refused = set(&redis, name, value);
        if refused.contains("can't set protected config") {
            assert_eq!(set(&sleeve, name, value), refused);
        }
    }
    assert_eq!(set(&sleeve, "repl-spill-dir", ""), "+OK\r\n", "tools write all values back");
    let open = Server::start_with(Kind::Sleeve, &["--enable-protected-configs", "yes"]);
    for (name, value) in [("dir", "."), ("dbfilename", "other.rdb"), ("repl-spill-dir", "spilled")] {
        assert_eq!(set(&open, name, value), "+OK\r\n", "{name}");
    }
    assert!(set(&open, "pidfile", "other.pid").contains("can't set immutable config"));
}
