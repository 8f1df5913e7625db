//! RDB files between the store's reader and writer and real servers, in both directions.
//!
//! A real server fills itself with random values of every type and encoding and saves them; the store reads the file and writes
//! it again, in each version that another real server reads; and that server, started with the file, has the same digest. So a
//! value that is read wrongly and one that is written wrongly both show.

mod old;

use std::cell::Cell;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use sleeve_store::dump_file::Inserter;
use sleeve_store::rdb::file::{About, Access, Batch, Event, Format, Reader, Writer};
use sleeve_store::rdb::{Limits, Version};
use sleeve_store::snapshot::{Budget, Progress, Snapshot, SnapshotWriter};
use sleeve_store::{Options, Store};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Connection, Kind, Server};

const PEERS: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];
const DATABASES: [usize; 3] = [0, 1, 9];

fn start(kind: Kind) -> Server {
    Server::start_with(kind, &["--enable-debug-command", "yes"])
}

fn ask(connection: &mut Connection, words: &[String]) -> String {
    String::from_utf8_lossy(&connection.command(words).expect("a reply")).into_owned()
}

fn say(connection: &mut Connection, line: &str) -> String {
    ask(connection, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

/// Returns a word, a number of any size, or a long text that can be compressed or cannot.
fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => random.between(i64::MIN, i64::MAX).to_string(),
        1 => random.between(-70_000, 70_000).to_string(),
        2 => "ab".repeat(random.below(150)),
        3 => (0..random.below(200)).map(|_| char::from(b' ' + random.below(90) as u8)).collect(),
        4 => "é".repeat(random.below(3000)),
        _ => format!("word-{}", random.below(500)),
    }
}

/// Returns the words of a command that makes or changes a key.
fn change(random: &mut Random, has_field_deadlines: bool) -> Vec<String> {
    let key = format!("{}:{}", ["s", "l", "t", "z", "h", "x", "i"][random.below(7)], random.below(25));
    let count = [1, 1, 3, 3, 20, 20, 200, 600][random.below(8)];
    let many = |random: &mut Random, command: &str, each: usize| {
        let mut words = vec![command.to_owned(), key.clone()];
        words.extend((0..count * each).map(|_| value(random)));
        words
    };
    match key.as_bytes()[0] {
        b's' => match count {
            1 => vec!["PFADD".into(), format!("p{key}"), value(random), value(random)],
            3 => vec!["SETBIT".into(), key, random.below(200_000).to_string(), "1".into()],
            _ => vec!["SET".into(), key, value(random)],
        },
        b'l' => {
            let command = if random.once_in(2) { "RPUSH" } else { "LPUSH" };
            many(random, command, 1)
        }
        b't' => many(random, "SADD", 1),
        b'i' => {
            let mut words = vec!["SADD".to_owned(), key];
            let most = [100, 100_000, i64::MAX][random.below(3)];
            words.extend((0..count).map(|_| random.between(-most, most).to_string()));
            words
        }
        b'z' => {
            let mut words = vec!["ZADD".to_owned(), key];
            for _ in 0..count {
                let score = ["inf", "-inf", "1e300", "0.1"][random.below(4)].to_owned();
                words.push(if random.once_in(3) {
                    score
                } else {
                    (random.between(-999, 999) as f64 / 8.0).to_string()
                });
                words.push(value(random));
            }
            words
        }
        b'h' if has_field_deadlines && random.once_in(3) => {
            let seconds = random.between(10_000, 1 << 30).to_string();
            ["HEXPIRE", &key, &seconds, "FIELDS", "3", "word-1", "word-2", "word-3"].map(str::to_owned).to_vec()
        }
        b'h' => {
            let mut words = many(random, "HSET", 2);
            words.extend((1..4).flat_map(|number| [format!("word-{number}"), "value".to_owned()]));
            words
        }
        _ => stream_change(random, key),
    }
}

fn stream_change(random: &mut Random, key: String) -> Vec<String> {
    let id = format!("{}-{}", random.below(3000), random.below(5));
    match random.below(9) {
        0 => vec!["XDEL".to_owned(), key, id],
        1 => ["XGROUP", "CREATE", &key, &format!("g{}", random.below(3)), &id, "MKSTREAM"].map(str::to_owned).to_vec(),
        2 => ["XGROUP", "CREATECONSUMER", &key, "g1", "idler"].map(str::to_owned).to_vec(),
        3 | 4 => {
            let (group, consumer) = (format!("g{}", random.below(3)), format!("c{}", random.below(3)));
            ["XREADGROUP", "GROUP", &group, &consumer, "COUNT", "5", "STREAMS", &key, ">"].map(str::to_owned).to_vec()
        }
        5 => ["XACK", &key, "g1", &id].map(str::to_owned).to_vec(),
        6 => ["XTRIM", &key, "MAXLEN", &(20 + random.below(300)).to_string()].map(str::to_owned).to_vec(),
        _ => {
            let mut words = ["XADD", &key, "*"].map(str::to_owned).to_vec();
            (0..1 + random.below(3)).for_each(|number| words.extend([format!("name-{number}"), value(random)]));
            words
        }
    }
}

/// Writes random values of every type and encoding into three databases, some with deadlines, and a library of functions.
pub fn fill(connection: &mut Connection, random: &mut Random, has_field_deadlines: bool) {
    for database in DATABASES {
        assert_eq!(say(connection, &format!("SELECT {database}")), "+OK\r\n");
        for _ in 0..120 {
            ask(connection, &change(random, has_field_deadlines));
        }
        for _ in 0..30 {
            let key = format!("{}:{}", ["s", "l", "t", "z", "h", "x", "i"][random.below(7)], random.below(25));
            say(connection, &format!("PEXPIRE {key} {}", random.between(10_000_000, 1 << 40)));
        }
    }
    if say(connection, "FUNCTION LIST") != "*0\r\n" {
        return;
    }
    let library = "#!lua name=greetings\nredis.register_function('hello', function() return 'hello' end)";
    let loaded = ask(connection, &["FUNCTION".to_owned(), "LOAD".to_owned(), library.to_owned()]);
    assert_eq!(loaded, "$9\r\ngreetings\r\n");
}

/// Returns the contents of a file: its keys, and its functions.
fn read(file: &[u8]) -> (Store, Vec<Vec<u8>>) {
    let store = Store::new(Options { shards: 8, ..Options::new([3; 16]) });
    let limits = Limits::usual(store.hash_key());
    let (mut reader, mut batch, mut inserter) = (Reader::new(file, limits), Batch::default(), Inserter::new(limits, 0));
    let (mut functions, uses) = (Vec::new(), Cell::new(0));
    // Each key, which comes by itself, has been used in another way.
    let clock = |_| uses.replace(uses.get() + 1);
    loop {
        let event = reader.next_batch(&mut batch, 1);
        inserter.insert(&store, &mut batch, &clock).expect("nothing is there twice");
        match event.unwrap_or_else(|error| panic!("a real server's file is read: {error}")) {
            Some(Event::Function(code)) => functions.push(code),
            Some(Event::End) => return (store, functions),
            _ => {}
        }
    }
}

fn written(store: &Store, functions: &[Vec<u8>], format: Format) -> Vec<u8> {
    let begun = Snapshot::begin(store, &mut store.lock_all(), Arc::default());
    let mut snapshot = begun.expect("no other is unfinished");
    assert_eq!(snapshot.has_timed_fields(), format.version != Version::Ten);
    let (mut writer, mut snapshot_writer) = (Writer::new(format), SnapshotWriter::new(snapshot.sizes()));
    writer.about(&About {
        server_version: "7.2.4",
        written_s: 1_700_000_000,
        used_memory: 1 << 20,
        is_log_base: false,
    });
    writer.aux("sleeve-offset", b"1000");
    functions.iter().for_each(|code| writer.function(code));
    let access = |clock| match clock % 8 {
        1 => Access::Idle(1000),
        2 => Access::Frequency(9),
        _ => Access::Unknown,
    };
    let budget = Budget { bytes: 1 << 18, pieces: 500 };
    let mut step = || snapshot.step(store, budget, &mut |record| snapshot_writer.write(&mut writer, record, access));
    while step().expect("nobody tears it") != Progress::Done {}
    writer.end().expect("the version knows all values");
    writer.drain(<[u8]>::to_vec)
}

/// Starts a server again with this file as its data.
fn start_again_with(server: &mut Server, file: &[u8]) {
    server.kill();
    fs::write(server.folder().join("dump.rdb"), file).expect("the folder of the server");
    server.restart().unwrap_or_else(|reason| panic!("{} loads the file: {reason}", server.kind().name()));
}

fn saved(server: &Server, connection: &mut Connection) -> Vec<u8> {
    assert_eq!(say(connection, "SAVE"), "+OK\r\n");
    fs::read(server.folder().join("dump.rdb")).expect("the server has saved")
}

fn digest(connection: &mut Connection) -> String {
    say(connection, "DEBUG DIGEST")
}

/// Returns the digest of the data, and the deadlines, because a digest says only whether there are any.
fn state(connection: &mut Connection, has_field_deadlines: bool) -> Vec<String> {
    let mut state = vec![digest(connection)];
    for database in DATABASES {
        say(connection, &format!("SELECT {database}"));
        for number in 0..25 {
            state.push(say(connection, &format!("PEXPIRETIME z:{number}")));
            if has_field_deadlines {
                state.push(say(connection, &format!("HPEXPIRETIME h:{number} FIELDS 3 word-1 word-2 word-3")));
            }
        }
    }
    state
}

/// Returns the verdict of a server's own tool on a file: the server's binary, called by another name.
fn is_whole(kind: Kind, file: &Path) -> bool {
    let name = if kind == Kind::Valkey { "valkey-check-rdb" } else { "redis-check-rdb" };
    let binary = kind.binary().unwrap_or_else(|reason| panic!("{reason}"));
    let checked = Command::new(binary).arg0(name).arg(file).output().expect("it runs");
    checked.status.success() && String::from_utf8_lossy(&checked.stdout).contains("RDB looks OK!")
}

/// Returns whether a server of this kind reads the other's snapshots. The formats of Redis and Valkey differ since 7.2.
fn reads(reader: Kind, writer: Kind) -> bool {
    reader == writer || writer == Kind::Redis
}

fn exchange(from: Kind, random: &mut Random, has_field_deadlines: bool) {
    let server = start(from);
    let mut connection = server.connect();
    fill(&mut connection, random, has_field_deadlines);
    let (wanted, file) = (state(&mut connection, has_field_deadlines), saved(&server, &mut connection));
    let (store, functions) = read(&file);
    assert_eq!(functions.len(), 1);
    let redis = if has_field_deadlines { Version::Twelve } else { Version::Ten };
    let own = if from == Kind::Valkey && has_field_deadlines { Version::Valkey80 } else { redis };
    let format = |version| Format { version, is_compressing: true, is_summing: true };
    for to in PEERS {
        let version = if to == Kind::Valkey && has_field_deadlines { Version::Valkey80 } else { redis };
        if to == Kind::Redis && version != Version::Ten {
            continue;
        }
        let (mut target, route) = (start(to), format!("from {} to {} as {version:?}", from.name(), to.name()));
        // Servers write scores differently into their digests, so the expected digest comes from the same server.
        let wanted_there = reads(to, from).then(|| {
            start_again_with(&mut target, &file);
            state(&mut target.connect(), has_field_deadlines)
        });
        for (is_compressing, is_summing) in [(false, false), (true, true)] {
            let file = written(&store, &functions, Format { version, is_compressing, is_summing });
            start_again_with(&mut target, &file);
            let mut there = target.connect();
            if let Some(wanted) = &wanted_there {
                assert_eq!(&state(&mut there, has_field_deadlines), wanted, "{route}");
            }
            assert_eq!(say(&mut there, "FCALL hello 0"), "$5\r\nhello\r\n");
            assert!(is_whole(to, &target.folder().join("dump.rdb")), "{route}");
        }
        // The way back: the snapshot of that server is read as the same data.
        let (again, _) = read(&saved(&target, &mut target.connect()));
        let mut back = start(from);
        start_again_with(&mut back, &written(&again, &functions, format(own)));
        assert_eq!(state(&mut back.connect(), has_field_deadlines), wanted, "{route}, and back");
    }
}

#[test]
fn every_server_and_the_store_read_the_files_of_each_other() {
    let seed = seed(9);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for from in PEERS {
        exchange(from, &mut random, false);
    }
}

#[test]
fn deadlines_of_fields_go_to_servers_that_know_them() {
    let seed = seed(11);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for from in [Kind::Redis8, Kind::Valkey] {
        exchange(from, &mut random, true);
    }
}

/// Loads the file, and the store's own version of it, into a real server, which sees no difference.
fn reads_as(kind: Kind, file: &[u8], version: Version, keys: usize) {
    let mut server = start(kind);
    let mut state_with = |file: &[u8]| {
        start_again_with(&mut server, file);
        let mut connection = server.connect();
        let mut state = vec![digest(&mut connection)];
        for number in 0..keys {
            let name = format!("key:{number}");
            state.push(say(&mut connection, &format!("DEBUG DIGEST-VALUE {name}")));
            state.push(say(&mut connection, &format!("PEXPIRETIME {name}")));
            state.push(say(&mut connection, &format!("HPEXPIRETIME {name} FIELDS 2 timed other")));
        }
        assert_eq!(say(&mut connection, "DBSIZE"), format!(":{keys}\r\n"));
        state
    };
    let wanted = state_with(file);
    let format = Format { version, is_compressing: true, is_summing: true };
    assert_eq!(state_with(&written(&read(file).0, &[], format)), wanted);
}

#[test]
fn obsolete_encodings_are_read_as_redis_reads_them() {
    reads_as(Kind::Redis, &old::file(), Version::Ten, old::keys());
    reads_as(Kind::Redis8, &old::file_of_a_candidate(), Version::Twelve, 2);
}
