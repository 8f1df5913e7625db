//! `sleeve check rdb --salvage`: snapshots of real servers are damaged in every way, and every record outside of the damage is
//! saved as it was.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};

use sleeve_store::HashKey;
use sleeve_store::rdb::Limits;
use sleeve_store::rdb::file::salvage::salvage;
use sleeve_store::rdb::file::{Event, Reader};
use sleeve_tests::probe::{ask, fill};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Kind, Server, soak};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// The records of a file: the bytes of each value with its key, and the place of the record.
type Records = BTreeMap<Vec<u8>, (Vec<u8>, Range<usize>)>;

fn limits() -> Limits {
    Limits::usual(HashKey::new([7; 16]))
}

/// Returns a record from its type on: a damaged record that grew may have taken the deadline and the access clock of the next
/// one, and is whole by itself.
fn value(record: &[u8]) -> &[u8] {
    match record {
        [0xfc, rest @ ..] => value(&rest[8..]),
        [0xf8, 0x80..=0xff, rest @ ..] => value(&rest[4..]),
        [0xf8, 0x40..=0x7f, _, rest @ ..] | [0xf8, _, rest @ ..] | [0xf9, _, rest @ ..] => value(rest),
        _ => record,
    }
}

/// Reads a file that has to be whole.
fn records(file: &[u8]) -> Records {
    let mut reader = Reader::new(file, limits());
    let mut all = Records::new();
    loop {
        match reader.next_event().unwrap_or_else(|error| panic!("{error}")) {
            Event::Key(record) => {
                let place = record.offset as usize..reader.offset() as usize;
                all.insert(record.key, (value(&file[place.clone()]).to_vec(), place));
            }
            Event::End => return all,
            _ => {}
        }
    }
}

/// Writes many small values of each type besides those of [`fill`], some of them with deadlines.
fn fill_more(server: &Server) {
    let mut connection = server.connect();
    for index in 0..60 {
        let text = format!("value {index} {}", "ab".repeat(index));
        let bytes: String = (0..index * 3).map(|at| char::from((at * 37 + index) as u8 & 31)).collect();
        let number = (index * index * 7919).to_string();
        ask(&mut connection, &["SET", &format!("more:string:{index}"), &text]);
        ask(&mut connection, &["SET", &format!("more:number:{index}"), &number, "EX", "100000"]);
        ask(&mut connection, &["SET", &format!("more:bytes:{index}"), &bytes]);
        ask(&mut connection, &["RPUSH", &format!("more:list:{index}"), &text, &number, &bytes]);
        ask(&mut connection, &["SADD", &format!("more:numbers:{index}"), &number, "1", "2"]);
        ask(&mut connection, &["SADD", &format!("more:set:{index}"), &text, "b", &number]);
        ask(&mut connection, &["HSET", &format!("more:hash:{index}"), "a", &text, "b", &bytes]);
        ask(&mut connection, &["ZADD", &format!("more:sorted:{index}"), "1.5", &text, &number, "b"]);
        ask(&mut connection, &["XADD", &format!("more:stream:{index}"), "1-1", "field", &text]);
    }
}

/// Returns a snapshot of a server of this kind with values of all types.
fn snapshot(kind: Kind, options: &[&str]) -> Vec<u8> {
    let server = Server::start_with(kind, &[&["--repl-diskless-sync-delay", "0"], options].concat());
    fill(&server);
    fill_more(&server);
    let file = server.folder().join("saved.rdb");
    let saved = Command::new(SLEEVE).args(["backup", &server.url()]).arg(&file).output().expect("it runs");
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    std::fs::read(file).expect("a snapshot")
}

/// Damages a file, and returns the bytes of the original that are no longer there as they were.
fn damage(file: &mut Vec<u8>, random: &mut Random) -> (&'static str, Range<usize>) {
    let at = 9 + random.below(file.len() - 9);
    let run = at..(at + 1 + random.below(64)).min(file.len());
    match random.below(6) {
        0 => {
            file[at] ^= 1 << random.below(8);
            ("one bit", at..at + 1)
        }
        1 => {
            file[at] ^= 1 + random.below(255) as u8;
            ("one byte", at..at + 1)
        }
        2 => {
            run.clone().for_each(|at| file[at] = random.bits() as u8);
            ("random bytes", run)
        }
        3 => {
            file[run.clone()].fill(0);
            ("zeros", run)
        }
        4 => {
            file.drain(run.clone());
            ("a run removed", run)
        }
        _ => {
            let whole = file.len();
            file.truncate(at);
            ("a cut", at..whole)
        }
    }
}

/// Checks one damaged file, and returns whether the changed byte was put right, and how many strange keys it has.
fn check(original: &Records, file: Vec<u8>, what: &str, lost: &Range<usize>) -> (bool, usize) {
    let mut bytes = file;
    let salvaged = salvage(&mut bytes, &limits());
    let mut out = Vec::new();
    salvaged.write(&bytes, &mut out).expect("memory takes it");
    let saved = records(&out);
    let is_hit = |place: &Range<usize>| place.start < lost.end && lost.start < place.end;
    // Damage may turn one key into another, which is there twice then.
    let holds = |bytes: &[u8], key: &[u8]| bytes.windows(key.len()).any(|window| window == key);
    let is_taken = |key: &[u8]| {
        let mut kept = salvaged.databases.values().flatten().map(|kept| &kept.bytes);
        salvaged.doubles > 0 && kept.any(|place| is_hit(place) && holds(&bytes[place.clone()], key))
    };
    for (key, (value, place)) in original {
        if salvaged.mended.is_some() || !is_hit(place) {
            let shown = key.escape_ascii();
            let (found, _) =
                saved.get(key).unwrap_or_else(|| panic!("{what} at {lost:?}: {shown} at {place:?} is lost"));
            assert!(found == value || is_taken(key), "{what} at {lost:?}: {shown} at {place:?} has changed");
        }
    }
    let strange =
        saved.iter().filter(|(key, (value, _))| original.get(*key).is_none_or(|(true_value, _)| true_value != value));
    (salvaged.mended.is_some(), strange.count())
}

#[test]
fn every_record_outside_of_the_damage_is_saved() {
    let lfu = ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lfu"];
    let lru = ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--rdbcompression", "no"];
    let mut random = Random::new(seed(20_260_131));
    let count = soak::count(200);
    for (kind, options) in [(Kind::Sleeve, &[][..]), (Kind::Redis, &lfu), (Kind::Valkey, &lru)] {
        let file = snapshot(kind, options);
        let original = records(&file);
        assert!(original.len() > 550, "{}", original.len());
        let (mut mended, mut strange, mut by_kind) = (0, Vec::new(), BTreeMap::<&str, usize>::new());
        for _ in 0..count {
            let mut damaged = file.clone();
            let (what, lost) = damage(&mut damaged, &mut random);
            // Without the sum at the end no byte can be put right: the search has to do all.
            let is_summed = random.once_in(2);
            if !is_summed && damaged.len() == file.len() {
                let end = damaged.len();
                damaged[end - 8..].fill(0);
            }
            let (is_mended, strangers) = check(&original, damaged, what, &lost);
            mended += usize::from(is_mended);
            strange.push(strangers);
            *by_kind.entry(what).or_default() += strangers;
        }
        strange.sort_unstable();
        let median = strange[strange.len() / 2];
        println!("{}: {count} files, {mended} mended, strange keys: median {median}, {by_kind:?}", kind.name());
        // A large binary value that is hit looks like records in hundreds of places, so the sum says little.
        assert!(median <= 2, "half of the files have {median} strange keys or more");
    }
}

#[test]
fn a_record_that_another_swallows_without_a_trace_is_saved() {
    let mut random = Random::new(seed(20_261_129));
    let lru = ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"];
    for (kind, options) in [(Kind::Sleeve, &[][..]), (Kind::Redis, &lru)] {
        let file = snapshot(kind, options);
        let original = records(&file);
        let mut places: Vec<Range<usize>> = original.values().map(|(_, place)| place.clone()).collect();
        places.sort_unstable_by_key(|place| place.start);
        for _ in 0..soak::count(200) {
            let at = random.below(places.len() - 1);
            let [damaged, swallowed] = [&places[at], &places[at + 1]];
            // The damaged record lacks as many bytes as the next one has, and so ends where that ends.
            let Some(room) = damaged.len().checked_sub(swallowed.len() + 1) else { continue };
            let begin = damaged.start + 1 + random.below(room + 1);
            let removed = begin..begin + swallowed.len();
            let mut shorter = file.clone();
            shorter.drain(removed.clone());
            check(&original, shorter, "a run removed", &removed);
        }
    }
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn run(out: &Path, file: &Path) -> (Option<i32>, String, String) {
    told(Command::new(SLEEVE).args(["check", "rdb", "--salvage"]).args([out, file]).output().expect("it runs"))
}

/// Returns the number of libraries of functions, and the databases with their numbers of keys.
fn outline(file: &[u8]) -> (usize, BTreeMap<usize, usize>) {
    let mut reader = Reader::new(file, limits());
    let (mut functions, mut databases, mut selected) = (0, BTreeMap::new(), 0);
    loop {
        match reader.next_event().unwrap_or_else(|error| panic!("{error}")) {
            Event::Select(database) => selected = database,
            Event::Key(_) => *databases.entry(selected).or_default() += 1,
            Event::Function(_) => functions += 1,
            Event::End => return (functions, databases),
            _ => {}
        }
    }
}

#[test]
fn databases_and_functions_stay_and_the_place_in_the_stream_does_not() {
    let server = Server::start_with(Kind::Sleeve, &["--repl-diskless-sync-delay", "0"]);
    let mut connection = server.connect();
    let library = "#!lua name=kept\nredis.register_function('kept', function() return 1 end)";
    assert_eq!(ask(&mut connection, &["FUNCTION", "LOAD", library]), "$4\r\nkept\r\n");
    for database in ["0", "5"] {
        ask(&mut connection, &["SELECT", database]);
        (0..20).for_each(|key| _ = ask(&mut connection, &["SET", &format!("key:{key}"), &format!("of {database}")]));
    }
    let file = server.folder().join("saved.rdb");
    let saved = Command::new(SLEEVE).args(["backup", &server.url()]).arg(&file).output().expect("it runs");
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    let whole = std::fs::read(&file).expect("a snapshot");
    assert_eq!(outline(&whole), (1, BTreeMap::from([(0, 20), (5, 20)])));
    let has = |file: &[u8], name: &[u8]| file.windows(name.len()).any(|bytes| bytes == name);
    assert!(has(&whole, b"repl-id"), "a full sync tells its place");
    // The last record of database 0 ends where database 5 is selected.
    let select = whole.windows(3).position(|bytes| bytes == [0xfe, 5, 0xfb]).expect("a database");
    let about = whole.windows(9).position(|bytes| bytes == b"redis-ver").expect("a property");
    let all = BTreeMap::from([(0, 20), (5, 20)]);
    for (at, kept) in [(select - 2, BTreeMap::from([(0, 19), (5, 20)])), (about, all)] {
        let mut bytes = whole.clone();
        bytes[at - 8..at + 1].fill(0xff);
        let salvaged = salvage(&mut bytes, &limits());
        let mut out = Vec::new();
        salvaged.write(&bytes, &mut out).expect("memory takes it");
        assert_eq!(outline(&out), (1, kept), "damage at {at}");
        assert!(!has(&out, b"repl-id") && !has(&out, b"repl-offset"), "a replica would go on without the lost keys");
    }
}

#[test]
fn the_report_names_the_skipped_bytes_and_the_new_file_is_loaded() {
    let mut server = Server::start_with(Kind::Sleeve, &[]);
    let folder = server.folder().to_owned();
    for key in ["one", "two", "three", "four", "five", "six"] {
        ask(&mut server.connect(), &["SET", key, &format!("the value of {key}")]);
    }
    assert_eq!(ask(&mut server.connect(), &["SAVE"]), "+OK\r\n");
    server.kill();
    let file = folder.join("dump.rdb");
    let whole = std::fs::read(&file).expect("a snapshot");
    let out = |name: &str| folder.join(name);
    let (code, said, complaint) = run(&out("whole.rdb"), &file);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{said}");
    assert!(said.contains("saved        6 keys in ") && said.ends_with(" announces 6\n"), "{said}");
    let (_, place) = &records(&whole)[&b"three"[..]];
    // One byte is put right, and several are not.
    let mut changed = whole.clone();
    changed[place.start] = 99;
    std::fs::write(&file, &changed).expect("written");
    let (code, said, _) = run(&out("mended.rdb"), &file);
    assert!(code == Some(0) && said.contains(&format!("byte {} had been changed", place.start)), "{said}");
    assert_eq!(records(&std::fs::read(out("mended.rdb")).expect("a file")), records(&whole));
    changed[place.start + 1] = 99;
    std::fs::write(&file, &changed).expect("written");
    let (code, said, complaint) = run(&out("saved.rdb"), &file);
    assert_eq!((code, complaint.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("skipped      ") && said.contains(&format!("from byte {} to byte ", place.start)), "{said}");
    assert!(said.contains("saved        5 keys in ") && said.contains("any value may have been changed"), "{said}");
    assert_eq!(std::fs::read(&file).expect("the input"), changed, "the input is as it was");
    let (code, _, complaint) = run(&out("saved.rdb"), &file);
    assert!(code == Some(1) && complaint.contains("is there: choose another name"), "{complaint}");
    std::fs::rename(out("saved.rdb"), &file).expect("our files");
    server.restart().expect("it loads the saved keys");
    assert_eq!(ask(&mut server.connect(), &["DBSIZE"]), ":5\r\n");
    assert_eq!(ask(&mut server.connect(), &["GET", "four"]), "$17\r\nthe value of four\r\n");
}

#[test]
fn a_file_of_another_kind_is_not_salvaged() {
    let server = Server::start_with(Kind::Sleeve, &[]);
    let (file, out) = (server.folder().join("other"), server.folder().join("out.rdb"));
    for bytes in [&b""[..], b"REDIS0011", b"bind 127.0.0.1\nport 7000\nappendonly yes\n", &[0; 100_000], &[0xfb; 5_000]]
    {
        std::fs::write(&file, bytes).expect("written");
        let (code, said, complaint) = run(&out, &file);
        assert!(
            code == Some(1) && said.is_empty() && complaint.contains("has no key that can be read"),
            "{said}{complaint}"
        );
        assert!(!out.exists());
    }
}
