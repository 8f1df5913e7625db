//! Tests of the configuration: the replies of CONFIG SET, the effects of files and command lines, and the results of CONFIG
//! REWRITE.
//!
//! The texts were recorded from redis-server 7.0.15. Each test has its own folder and needs no server.

use std::path::{Path, PathBuf};

use sleeve_server::config::{Config, Opt, arguments, load, rewrite};

/// The recorded replies of CONFIG SET: an option, its value, and the reply, which is empty for OK.
const RECORDED: &[(&str, &str, &str)] = &[
    ("port", "abc", "argument couldn't be parsed into an integer"),
    ("port", "70000", "argument must be between 0 and 65535 inclusive"),
    ("port", "-1", "argument must be between 0 and 65535 inclusive"),
    ("port", "", "argument couldn't be parsed into an integer"),
    ("timeout", "-1", "argument must be between 0 and 2147483647 inclusive"),
    ("timeout", "4294967296", "argument must be between 0 and 2147483647 inclusive"),
    ("timeout", "1 ", "argument couldn't be parsed into an integer"),
    ("timeout", "08", "argument couldn't be parsed into an integer"),
    ("tcp-keepalive", "-1", "argument must be between 0 and 2147483647 inclusive"),
    ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
    ("maxclients", "4294967295", ""),
    ("databases", "5", "can't set immutable config"),
    ("daemonize", "yes", "can't set immutable config"),
    ("logfile", "x", "can't set immutable config"),
    ("pidfile", "x", "can't set immutable config"),
    ("tcp-backlog", "5", "can't set immutable config"),
    ("unixsocket", "x", "can't set immutable config"),
    ("unixsocketperm", "700", "can't set immutable config"),
    ("supervised", "no", "can't set immutable config"),
    ("enable-debug-command", "yes", "can't set immutable config"),
    ("enable-module-command", "yes", "can't set immutable config"),
    ("dir", "/nonexistent", "can't set protected config"),
    ("protected-mode", "maybe", "argument must be 'yes' or 'no'"),
    ("protected-mode", "YES", ""),
    ("proto-max-bulk-len", "1mb", ""),
    ("proto-max-bulk-len", "1", "argument must be between 1048576 and 9223372036854775807 inclusive"),
    ("proto-max-bulk-len", "2xb", "argument must be a memory value"),
    ("proto-max-bulk-len", "-1", "argument must be a memory value"),
    ("client-query-buffer-limit", "1", "argument must be between 1048576 and 9223372036854775807 inclusive"),
    ("client-output-buffer-limit", "normal", "Wrong number of arguments in buffer limit configuration."),
    ("client-output-buffer-limit", "normal 1 2 3", ""),
    ("client-output-buffer-limit", "foo 1 2 3", "Invalid client class specified in buffer limit configuration."),
    ("client-output-buffer-limit", "master 1 2 3", "Invalid client class specified in buffer limit configuration."),
    (
        "client-output-buffer-limit",
        "normal a 2 3",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit",
        "normal 1 2 -3",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    ("hz", "0", ""),
    ("hz", "600", ""),
    ("hz", "1e1", "argument couldn't be parsed into an integer"),
    ("dynamic-hz", "x", "argument must be 'yes' or 'no'"),
    ("loglevel", "foo", "argument(s) must be one of the following: debug, verbose, notice, warning"),
    (
        "maxmemory-policy",
        "foo",
        "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, \
         allkeys-lru, allkeys-lfu, allkeys-random, noeviction",
    ),
    ("maxmemory", "-1", "argument must be a memory value"),
    ("maxmemory", "10%", "argument must be a memory value"),
    ("maxmemory", "18446744073709551616", ""),
    ("maxmemory", "", ""),
    ("lfu-log-factor", "-1", "argument must be between 0 and 2147483647 inclusive"),
    ("active-expire-effort", "11", "argument must be between 1 and 10 inclusive"),
    ("lazyfree-lazy-user-del", "x", "argument must be 'yes' or 'no'"),
    ("shutdown-on-sigterm", "nosave force", ""),
    ("shutdown-on-sigterm", "save", ""),
    ("set-proc-title", "no", "can't set immutable config"),
    ("lua-memory-max", "1gb", ""),
    ("lua-memory-max", "1mb", "can't set immutable config"),
    ("lua-memory-max", "much", "can't set immutable config"),
    ("masterauth", "", ""),
    ("replicaof", "no one", "can't set immutable config"),
    ("save", "", ""),
    ("save", "900 1 300 10", ""),
    ("save", "900", "Invalid save parameters"),
    ("save", "0 1", "Invalid save parameters"),
    ("appendonly", "no", ""),
    ("appendfsync", "often", "argument(s) must be one of the following: everysec, always, no"),
    ("appendfilename", "a.aof", "can't set immutable config"),
    ("dbfilename", "a/b", "can't set protected config"),
    ("requirepass", "abc", ""),
];

/// The recorded output of CONFIG GET for values that are stored in another form than the given one.
const SHOWN: &[(&str, &str, &str)] = &[
    ("hz", "0", "1"),
    ("hz", "600", "500"),
    ("proto-max-bulk-len", "1mb", "1048576"),
    ("maxmemory", "1gb", "1073741824"),
    ("maxmemory", "9223372036854775808", "9223372036854775808"),
    ("maxmemory", "18446744073709551616", "18446744073709551615"),
    ("maxmemory", "", "0"),
    (
        "client-output-buffer-limit",
        "normal 0 0 0 slave 1mb 1mb 10",
        "normal 0 0 0 slave 1048576 1048576 10 pubsub 33554432 8388608 60",
    ),
];

fn set(config: &Config, pairs: &[(&str, &str)]) -> Result<Vec<Opt>, String> {
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    config.set(&pairs, true, |_| Ok(())).map_err(|error| String::from_utf8_lossy(error.text()).into_owned())
}

fn get(config: &Config, patterns: &[&str]) -> Vec<String> {
    let found = config.get(patterns.iter().map(|pattern| pattern.as_bytes()));
    found
        .into_iter()
        .flat_map(|(name, value)| [name, value])
        .map(|part| String::from_utf8(part).expect("text"))
        .collect()
}

fn failed(name: &str, reason: &str) -> Result<Vec<Opt>, String> {
    Err(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"))
}

/// A folder of a test. It is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sleeve-config-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        Self(folder)
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn load_line(config: &Config, line: &[&str]) -> Result<(), String> {
    let line: Vec<_> = line.iter().map(|word| word.as_bytes().to_vec()).collect();
    load::load(config, &arguments::parse(&line), std::io::empty()).map(drop).map_err(|error| error.to_string())
}

fn load_text(config: &Config, text: &str) -> Result<(), String> {
    let arguments = arguments::parse(&[b"-".to_vec()]);
    load::load(config, &arguments, text.as_bytes()).map(drop).map_err(|error| error.to_string())
}

#[test]
fn what_only_tunes_what_is_not_here_is_warned_of_at_the_start() {
    let config = Config::default();
    let text = "port 7\nsave 900 1\nsave 300 10\nAppendFsync always\nactivedefrag yes\ndisable-thp yes\nhz 20\n";
    let warnings = load::load(&config, &arguments::parse(&[b"-".to_vec()]), text.as_bytes()).expect("it starts");
    assert_eq!(
        warnings,
        [
            "'activedefrag yes', line 5 of the configuration, has no effect: memory is not defragmented; MEMORY PURGE gives \
             free memory back to the system",
        ]
    );
    assert_eq!(
        get(&config, &["port", "save", "appendfsync", "hz"]),
        ["port", "7", "save", "900 1 300 10", "appendfsync", "always", "hz", "20"]
    );
    assert!(load_text(&Config::default(), "syslog-enabled yes").is_err(), "a promise that is not kept");
    let refused = set(&config, &[("activedefrag", "yes")]).expect_err("it is not there");
    assert!(refused.contains("'yes' is not supported yet, only 'no' is: memory is not defragmented"), "{refused}");
}

#[test]
fn what_has_nothing_to_tune_is_refused_with_the_reason() {
    let config = Config::default();
    for (name, value, reason) in [
        ("Bind-Source-Addr", "127.0.0.1", "the system chooses the address of connections to other servers"),
        ("ignore-warnings", "ARM64-COW-BUG", "the warnings that it silences are not given"),
        ("bio_cpulist", "0", "there are no threads or processes for that"),
    ] {
        assert_eq!(set(&config, &[(name, value)]), failed(name, reason));
    }
    assert!(set(&config, &[("tls-session-cache-timeout", "5"), ("crash-log-enabled", "no")]).is_ok());
    let shown = ["tls-session-cache-timeout", "5", "crash-log-enabled", "no"];
    assert_eq!(get(&config, &["tls-session-cache-timeout", "crash-log-enabled"]), shown);
}

#[test]
fn config_set_answers_as_recorded() {
    for &(name, value, reason) in RECORDED {
        let answer = set(&Config::default(), &[(name, value)]);
        match reason {
            "" => assert!(answer.is_ok(), "{name} {value}: {answer:?}"),
            _ => assert_eq!(answer, failed(name, reason), "{name} {value}"),
        }
    }
}

#[test]
fn config_get_shows_as_recorded() {
    for &(name, value, shown) in SHOWN {
        let config = Config::default();
        set(&config, &[(name, value)]).expect("accepted");
        assert_eq!(get(&config, &[name]), [name, shown]);
    }
    let rules = "3600 1 300 100 60 10000";
    let defaults = ["bind", "* -::*", "port", "6379", "timeout", "0", "databases", "16", "save", rules, "hz", "10"];
    for pair in defaults.chunks(2) {
        assert_eq!(get(&Config::default(), &pair[..1]), pair);
    }
    let limits = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
    assert_eq!(get(&Config::default(), &["client-output-buffer-limit"])[1], limits);
}

#[test]
fn config_set_takes_all_pairs_or_none() {
    let config = Config::default();
    assert_eq!(
        set(&config, &[("hz", "20"), ("timeout", "-5")]),
        failed("timeout", "argument must be between 0 and 2147483647 inclusive")
    );
    assert_eq!(set(&config, &[("hz", "20"), ("HZ", "30")]), failed("HZ", "duplicate parameter"));
    assert_eq!(set(&config, &[("hz", "33"), ("databases", "5")]), failed("databases", "can't set immutable config"));
    assert_eq!(
        set(&config, &[("hz", "33"), ("daemonize", "yes"), ("nosuch", "1")]),
        failed("daemonize", "can't set immutable config")
    );
    assert_eq!(
        set(&config, &[("hz", "20"), ("nosuch", "30"), ("nosuch2", "3")]),
        Err("ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'".into())
    );
    assert_eq!(config.number(Opt::Hz), 10);
    assert_eq!(
        set(&config, &[("hz", "20"), ("timeout", "0"), ("loglevel", "debug")]),
        Ok(vec![Opt::Hz, Opt::Loglevel])
    );
    assert_eq!(set(&config, &[("HZ", "abc")]), failed("hz", "argument couldn't be parsed into an integer"));
}

#[test]
fn a_change_that_cannot_be_applied_is_taken_back() {
    let config = Config::default();
    let mut seen = Vec::new();
    let pairs: [(&[u8], &[u8]); 3] = [(b"hz", b"20"), (b"bind", b"1.2.3.4"), (b"timeout", b"3")];
    let answer = config.set(&pairs, true, |option| {
        seen.push((option, config.number(Opt::Hz)));
        if option == Opt::Bind { Err("Failed to bind to specified addresses.".into()) } else { Ok(()) }
    });
    assert_eq!(
        answer.map_err(|error| String::from_utf8_lossy(error.text()).into_owned()),
        failed("bind", "Failed to bind to specified addresses.")
    );
    assert_eq!(seen, [(Opt::Hz, 20), (Opt::Bind, 20), (Opt::Hz, 10)]);
    assert_eq!(get(&config, &["bind", "timeout"]), ["bind", "* -::*", "timeout", "0"]);
}

#[test]
fn what_is_not_built_is_refused_and_says_so() {
    assert!(load_text(&Config::default(), "loadmodule x.so").is_err_and(|text| {
        text.ends_with("This directive is not supported yet: leave the line out, there are no modules")
    }));
}

#[test]
fn config_get_keeps_written_names_and_lists_nothing_twice() {
    let config = Config::default();
    assert_eq!(get(&config, &["HZ", "h?", "nosuch", "hz"]), ["HZ", "10"]);
    assert_eq!(get(&config, &["maxmemory-p*", "maxmem*ry"]), ["maxmemory-policy", "noeviction", "maxmemory", "0"]);
    assert_eq!(get(&config, &["slaveo*"]), ["slaveof", ""]);
    assert!(get(&config, &["*"]).len() > 100);
}

#[test]
fn choices_are_the_words_of_the_table() {
    let config = Config::default();
    for word in [
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "noeviction",
    ] {
        config.assign(Opt::MaxmemoryPolicy, &[word.as_bytes()]).expect("a policy");
        assert_eq!(format!("{:?}", config.maxmemory_policy()).to_lowercase(), word.replace('-', ""));
        assert_eq!(config.choice(Opt::MaxmemoryPolicy), word);
    }
    for word in ["debug", "verbose", "notice", "warning"] {
        config.assign(Opt::Loglevel, &[word.as_bytes()]).expect("a level");
        assert_eq!(format!("{:?}", config.log_level()).to_lowercase(), word);
    }
    for word in ["no", "yes", "local"] {
        config.assign(Opt::EnableDebugCommand, &[word.as_bytes()]).expect("an access");
        assert_eq!(format!("{:?}", config.access(Opt::EnableDebugCommand)).to_lowercase(), word);
    }
}

#[test]
fn rounds_double_with_the_clients_until_the_most() {
    let config = Config::default();
    assert_eq!(
        [0, 2_009, 2_010, 8_000, 1_000_000].map(|clients| config.rounds_a_second(clients)),
        [10, 10, 20, 40, 500]
    );
    set(&config, &[("dynamic-hz", "no")]).expect("a flag");
    assert_eq!(config.rounds_a_second(1_000_000), 10);
}

#[test]
fn file_errors_name_line_and_reason() {
    let headline = format!("\n*** FATAL CONFIG FILE ERROR (Sleeve {}) ***\n", env!("CARGO_PKG_VERSION"));
    let cases = [
        ("foo bar", 1, "foo bar", "Bad directive or wrong number of arguments"),
        ("# x\n\n  port   99999 \n", 3, "port   99999", "argument must be between 0 and 65535 inclusive"),
        ("port 1 2", 1, "port 1 2", "wrong number of arguments"),
        ("port", 1, "port", "wrong number of arguments"),
        ("requirepass \"abc\"d", 1, "requirepass \"abc\"d", "Unbalanced quotes in configuration line"),
        ("dir /nonexistent", 1, "dir /nonexistent", "No such file or directory"),
        ("include", 1, "include", "Bad directive or wrong number of arguments"),
        ("unixsocketperm 9", 1, "unixsocketperm 9", "argument couldn't be parsed as an octal number"),
        ("unixsocketperm 7777", 1, "unixsocketperm 7777", "argument must be between 0 and 777 inclusive"),
        ("replicaof a b", 1, "replicaof a b", "Invalid master port"),
        ("replicaof a 70000", 1, "replicaof a 70000", "Invalid master port"),
        ("replicaof a", 1, "replicaof a", "wrong number of arguments"),
        ("io-threads 129", 1, "io-threads 129", "argument must be between 1 and 128 inclusive"),
        ("maxmem 5", 1, "maxmem 5", "Bad directive or wrong number of arguments\nDid you mean 'maxmemory'?"),
        ("Maxmemroy 1gb", 1, "Maxmemroy 1gb", "Bad directive or wrong number of arguments\nDid you mean 'maxmemory'?"),
        ("PORT abc", 1, "PORT abc", "argument couldn't be parsed into an integer"),
        (
            "bind 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7",
            1,
            "bind 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7",
            "Too many bind addresses specified.",
        ),
    ];
    for (text, line, shown, reason) in cases {
        let expected = format!("{headline}Reading the configuration file, at line {line}\n>>> '{shown}'\n{reason}");
        assert_eq!(load_text(&Config::default(), text), Err(expected));
    }
}

#[test]
fn the_command_line_follows_file_and_standard_input() {
    let folder = Folder::new("order");
    let file = folder.join("a.conf");
    std::fs::write(&file, "hz 11\nport 1\ntimeout 1\n").expect("written");
    let config = Config::default();
    let line = [file.as_os_str().as_encoded_bytes().to_vec(), b"--timeout".to_vec(), b"3".to_vec(), b"-".to_vec()];
    load::load(&config, &arguments::parse(&line), b"port 2\ntimeout 2\n".as_slice()).expect("loaded");
    assert_eq!([Opt::Hz, Opt::Port, Opt::Timeout].map(|option| config.number(option)), [11, 2, 3]);
    assert_eq!(config.file(), Some(file));
    let bogus = load_line(&Config::default(), &["--hz", "10", "--bogus"]);
    assert!(bogus.is_err_and(|text| text.contains("at line 3\n>>> 'bogus'\n")), "a blank line stands for the file");
    let missing = load_line(&Config::default(), &["/nonexistent.conf"]);
    assert_eq!(
        missing,
        Err("Fatal error, can't open config file '/nonexistent.conf': No such file or directory".into())
    );
}

#[test]
fn the_threads_of_a_configuration_of_redis_are_workers() {
    for (text, workers) in [("io-threads 4", "4"), ("workers 3\nio-threads 4", "3"), ("io-threads 4\nworkers 3", "3")] {
        let config = Config::default();
        load_text(&config, text).expect("a configuration");
        assert_eq!(get(&config, &["workers"]), ["workers", workers], "{text}");
    }
}

#[test]
fn include_takes_patterns_and_refuses_circles() {
    let folder = Folder::new("include");
    let main = folder.join("main.conf");
    let path = folder.display();
    std::fs::write(folder.join("1.part"), "hz 20\ntimeout 5\n").expect("written");
    std::fs::write(folder.join("2.part"), "hz 30\n").expect("written");
    std::fs::write(&main, format!("hz 1\ninclude {path}/*.part\ninclude {path}/*.none\n")).expect("written");
    let config = Config::default();
    load_line(&config, &[&main.display().to_string()]).expect("loaded");
    assert_eq!([Opt::Hz, Opt::Timeout].map(|option| config.number(option)), [30, 5]);
    std::fs::write(&main, format!("include {}\n", main.display())).expect("written");
    let circle = load_line(&Config::default(), &[&main.display().to_string()]);
    assert!(circle.is_err_and(|text| text.ends_with("Too many levels of include; does a file include itself?")));
}

#[test]
fn rewrite_keeps_the_file_and_changes_the_values() {
    let folder = Folder::new("rewrite");
    let file = folder.join("a.conf");
    let old = "# a comment\nport 7398\n\ndatabases 16\n# Another\nhz 15\nrequirepass \"a b\"\nmaxmemory 3mb\n\n\nhz 20\n\
               include inc.conf\nclient-output-buffer-limit normal 1mb 2mb 3\nappendonly no\nbogus x\nloglevel notice\n";
    std::fs::write(&file, old).expect("written");
    let config = Config::default();
    let readable = old.replace("include inc.conf\n", "").replace("bogus x\n", "");
    load_text(&config, &readable).expect("loaded");
    config.assign(Opt::Workers, &[b"3"]).expect("a number");
    let bytes = folder.display().to_string();
    config.assign(Opt::Dir, &[bytes.as_bytes()]).expect("a folder");
    let pairs = [
        ("hz", "10"),
        ("maxmemory", "100mb"),
        ("loglevel", "verbose"),
        ("maxclients", "50"),
        ("requirepass", "x\"y\n"),
    ];
    set(&config, &pairs).expect("accepted");
    rewrite::rewrite(&config, &[], &file, rewrite::Added::Changed).expect("rewritten");
    let new = std::fs::read_to_string(&file).expect("read");
    let expected = format!(
        "# a comment\nport 7398\n\ndatabases 16\n# Another\nhz 10\nrequirepass \"x\\\"y\\n\"\nmaxmemory 100mb\n\n\
         include inc.conf\nclient-output-buffer-limit normal 1mb 2mb 3\nappendonly no\n# ??? bogus x\nloglevel verbose\n\n\
         # Generated by CONFIG REWRITE\nmaxclients 50\n\
         workers 3\ndir \"{}\"\n",
        folder.canonicalize().expect("exists").display()
    );
    assert_eq!(new, expected);
    rewrite::rewrite(&config, &[], &file, rewrite::Added::Changed).expect("rewritten");
    assert_eq!(std::fs::read_to_string(&file).expect("read"), expected, "a second rewrite changes nothing");
    let again = Config::default();
    load_text(&again, &expected.replace("include inc.conf\n", "")).expect("what was written can be read");
    assert_eq!(again.get([b"*".as_slice()]), config.get([b"*".as_slice()]));
}

#[test]
fn rewrite_keeps_what_was_passed_over_and_what_renames() {
    let config = Config::default();
    let old = "save 900 1\nsave 300 10\nshutdown-timeout 60\nbind-source-addr a\nRename-Command get \"\"\nreplicaof no one\nappendonly no\n";
    load_text(&config, old).expect("loaded");
    assert_eq!(get(&config, &["save"]), ["save", "900 1 300 10"]);
    let new = String::from_utf8(rewrite::merge(&config, &[], old.as_bytes())).expect("text");
    let kept = old.replace("replicaof no one\n", "\n").replace("save 900 1\nsave 300 10\n", "save 900 1 300 10\n\n");
    assert!(new.starts_with(&kept), "{new}");
    load_text(&Config::default(), &new).expect("what was written can be read");
}

#[test]
fn rewrite_keeps_the_limits_of_each_class_that_the_file_names() {
    let config = Config::default();
    let old = "client-output-buffer-limit pubsub 32mb 8mb 60\n# Ours\nclient-output-buffer-limit slave 1mb 1mb 5 normal 0 0 0\n";
    load_text(&config, old).expect("loaded");
    let rewritten = |config: &Config| String::from_utf8(rewrite::merge(config, &[], old.as_bytes())).expect("text");
    let named = "client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit replica 1mb 1mb 5\n";
    assert!(
        rewritten(&config).starts_with(&format!("client-output-buffer-limit pubsub 32mb 8mb 60\n# Ours\n{named}")),
        "{}",
        rewritten(&config)
    );
    let file = "hz 20\n";
    let new = String::from_utf8(rewrite::merge(&config, &[], file.as_bytes())).expect("text");
    assert!(new.contains("\nclient-output-buffer-limit replica 1mb 1mb 5\n") && !new.contains("pubsub"), "{new}");
}

#[test]
fn rewrite_names_the_primary_as_long_as_there_is_one() {
    let config = Config::default();
    let old = "slaveof a.example 7\nmasterauth hush\n";
    load_text(&config, old).expect("loaded");
    assert_eq!(get(&config, &["replicaof", "masterauth"]), ["replicaof", "a.example 7", "masterauth", "hush"]);
    let rewritten = |config: &Config| String::from_utf8(rewrite::merge(config, &[], old.as_bytes())).expect("text");
    assert!(rewritten(&config).starts_with("replicaof a.example 7\nmasterauth \"hush\"\n"), "{}", rewritten(&config));
    config.assign(Opt::Replicaof, &[b"10.0.0.1", b"6380"]).expect("another");
    assert!(rewritten(&config).starts_with("replicaof 10.0.0.1 6380\n"), "{}", rewritten(&config));
    config.assign(Opt::Replicaof, &[b"no", b"one"]).expect("nobody");
    assert!(!rewritten(&config).contains("replicaof"), "{}", rewritten(&config));
}

#[test]
fn rewrite_does_not_name_the_primary_of_a_node_of_a_cluster() {
    let config = Config::default();
    let old = "cluster-enabled yes\n";
    load_text(&config, old).expect("loaded");
    config.assign(Opt::Replicaof, &[b"10.0.0.1", b"6380"]).expect("the cluster has decided");
    let new = String::from_utf8(rewrite::merge(&config, &[], old.as_bytes())).expect("text");
    assert!(!new.contains("replicaof"), "{new}");
    load_text(&Config::default(), &new).expect("the node starts again");
}

#[test]
fn what_cannot_be_had_is_refused_unless_a_later_line_counts() {
    let both = "log-format json\nsyslog-enabled yes\nhz 20\nLog-Format legacy\n";
    let refused = load_text(&Config::default(), both);
    assert!(
        refused.is_err_and(|text| text.contains("at line 2\n>>> 'syslog-enabled yes'\n'yes' is not supported yet"))
    );
    load_text(&Config::default(), &format!("{both}syslog-enabled no\n")).expect("the last line counts");
    assert!(load_text(&Config::default(), "syslog-enabled no\nsyslog-enabled yes\n").is_err());
}
