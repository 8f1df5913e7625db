//! The command table: names are found, keys are found, facts are consistent.

use sleeve_wire::commands::{self, Categories, Command, Flags, KeyFlags, Place, Shape, Share, Timeout, Unit};
use sleeve_wire::grammar::{self, Kind};
use sleeve_wire::request::OwnedArgs;

fn owned(line: &str) -> OwnedArgs {
    OwnedArgs::collect(line.split(' ').map(str::as_bytes))
}

/// Returns the keys of a command line, as COMMAND GETKEYS would list them.
fn keys(line: &str) -> Vec<String> {
    let owned = owned(line);
    let args = owned.args();
    let row = commands::find(args.arg(0)).expect("a command of the table");
    let row = args.get(1).and_then(|sub| commands::find_sub(row.id, sub)).unwrap_or(row);
    let positions: Vec<usize> = row.key_positions(args).collect();
    assert_eq!(positions, row.key_uses(args).map(|(index, _)| index).collect::<Vec<_>>());
    positions.into_iter().map(|index| String::from_utf8_lossy(args.arg(index)).into_owned()).collect()
}

#[test]
fn every_name_is_found_in_any_case_and_nothing_else_is() {
    for row in commands::all() {
        let found = |name: &[u8]| commands::find_full(name).map(|row| row.id);
        let name = row.full_name.as_bytes();
        assert_eq!(found(name), Some(row.id));
        assert_eq!(found(&name.to_ascii_uppercase()), Some(row.id));
        assert_eq!(row.id.row().id, row.id);
        assert_eq!(row.parent.is_some(), row.full_name.contains('|'));
        for at in 0..name.len() {
            for change in [0x01, 0x10, 0x80, 0xff] {
                let mut other = name.to_vec();
                other[at] ^= change;
                let expected = commands::all().iter().find(|row| row.full_name.as_bytes().eq_ignore_ascii_case(&other));
                assert_eq!(found(&other), expected.map(|row| row.id), "{}", other.escape_ascii());
            }
        }
    }
    let long = vec![b'a'; 5000];
    for nothing in [&b""[..], b"g", b"ge", b"gett", b"client|", b"|", b"list", b"no\revict", b"\0\0\0", &long] {
        assert!(commands::find_full(nothing).is_none());
        assert!(commands::find_sub(Command::Client, nothing).is_none_or(|row| row.id == Command::ClientList));
    }
    assert_eq!(commands::find_sub(Command::Config, b"LIST").map(|row| row.id), None);
}

#[test]
fn a_name_that_repeats_the_one_before_is_found_as_any_other() {
    let mut last = commands::LastName::default();
    let names =
        ["", "get", "get", "GET", "got", "getrange", "GETRANGE", "g", "", "ping", "pingping", "georadiusbymember_ro"];
    let long =
        ["georadiusbymember_ro", "georadiusbyfolder_ro", "GEORADIUSBYMEMBER_RO", "georadiusby", &"g".repeat(5_000)];
    for name in names.into_iter().chain(long) {
        for time in 0..2 {
            let found = last.find(name.as_bytes()).map(|row| row.id);
            assert_eq!(found, commands::find(name.as_bytes()).map(|row| row.id), "{name}, {time}");
        }
    }
}

#[test]
fn keys_are_found_by_position() {
    assert_eq!(keys("get k"), ["k"]);
    assert_eq!(keys("mset a 1 b 2 c 3"), ["a", "b", "c"]);
    assert_eq!(keys("del a b c"), ["a", "b", "c"]);
    assert_eq!(keys("bitop and d a b"), ["d", "a", "b"]);
    assert_eq!(keys("lcs a b LEN"), ["a", "b"]);
    assert_eq!(keys("rename a b"), ["a", "b"]);
    assert_eq!(keys("object encoding k"), ["k"]);
    assert_eq!(keys("memory usage k"), ["k"]);
    assert_eq!(keys("get"), [""; 0]);
    assert_eq!(keys("mset"), [""; 0]);
    assert_eq!(keys("ping x"), [""; 0]);
}

#[test]
fn flags_of_keys_follow_the_options() {
    let uses = |line: &str| {
        let owned = owned(line);
        let row = commands::find(owned.args().arg(0)).expect("a command of the table");
        row.key_uses(owned.args()).next().map(|(_, flags)| flags.names().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(uses("set k v").as_deref(), Some("OW update"));
    assert_eq!(uses("set k v NX GET").as_deref(), Some("RW access update"));
    assert_eq!(uses("bitfield k get u8 0").as_deref(), Some("RO access"));
    assert_eq!(uses("bitfield k incrby u8 0 1").as_deref(), Some("RW access update"));
    assert_eq!(uses("bitfield k overflow sat get u8").as_deref(), Some("RW access update"));
    assert_eq!(uses("bitfield k nonsense").as_deref(), Some("RW access update"));
    assert_eq!(uses("del k").as_deref(), Some("RM delete"));
}

#[test]
fn timeouts_stand_where_the_grammar_has_them() {
    for row in commands::all() {
        let name = row.full_name;
        let arguments = grammar::arguments(row);
        let unit = |kind| if kind == Kind::Double { Unit::Seconds } else { Unit::Milliseconds };
        let place = match row.timeout {
            None => {
                assert!(!row.flags.contains(Flags::BLOCKING), "{name}");
                continue;
            }
            Some(Timeout { place: Place::Behind(word), .. }) => arguments.iter().find(|one| one.token == Some(word)),
            Some(Timeout { place: Place::At(index), .. }) => arguments.get(index - 1),
            Some(Timeout { place: Place::Last, .. }) => arguments.last(),
        };
        let argument = place.unwrap_or_else(|| panic!("{name} has no argument there"));
        assert!(["timeout", "milliseconds"].contains(&&*argument.name), "{name}: {}", argument.name);
        assert_eq!(row.timeout.map(|timeout| timeout.unit), Some(unit(argument.kind)), "{name}");
        // A number counts from the start, so nothing before it may be left out or repeated.
        let before = arguments.iter().take_while(|one| one.name != argument.name);
        let is_fixed = before.into_iter().all(|one| !one.optional && !one.multiple);
        assert!(is_fixed || !matches!(row.timeout, Some(Timeout { place: Place::At(_), .. })), "{name}");
    }
}

#[test]
fn a_timeout_is_found_behind_names_that_look_like_options() {
    let position = |line: &str| {
        let owned = owned(line);
        let row = commands::find(owned.args().arg(0)).expect("a command of the table");
        row.timeout.expect("it may wait").position(owned.args().len(), |index| owned.args().arg(index))
    };
    assert_eq!(position("blpop a b 2"), Some(3));
    assert_eq!(position("blmpop 2 1 a left"), Some(1));
    assert_eq!(position("xread count 1 block 5 streams a $"), Some(4));
    assert_eq!(position("xread streams block 0"), None);
    assert_eq!(position("xreadgroup group streams block block 0 streams a >"), Some(5));
    assert_eq!(position("xread block"), Some(2));
    assert_eq!(position("blpop"), Some(0));
}

#[test]
fn facts_agree_with_each_other() {
    for row in commands::all() {
        let name = row.full_name;
        assert!(!(row.flags.contains(Flags::WRITE) && row.flags.contains(Flags::READONLY)), "{name}");
        assert_eq!(row.categories.contains(Categories::FAST), row.flags.contains(Flags::FAST), "{name}");
        assert_ne!(row.categories.contains(Categories::FAST), row.categories.contains(Categories::SLOW), "{name}");
        assert!(row.takes(row.arity.unsigned_abs().into()) && !row.takes(0), "{name}");
        assert_eq!(row.takes(100), row.arity < 0, "{name}");
        // Redis does not state the complexity of these either.
        let is_untold = ["lolwut", "monitor", "psync", "sync"].contains(&name);
        assert!(!row.docs.summary.is_empty() && (is_untold || !row.docs.complexity.is_empty()), "{name}");
        let writes = row.keys.iter().any(|spec| !spec.flags.intersects(KeyFlags::RO.or(KeyFlags::NOT_KEY)));
        // A count of a HyperLogLog is kept in its key, which Redis does not call a write.
        assert!(!writes || row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE)), "{name}");
    }
    assert!(Command::Client.row().is_container() && !Command::Get.row().is_container());
    assert_eq!(Command::Object.row().subcommands().count(), 5);
    assert_eq!(Command::BitOp.row().legacy_range(), (2, -1, 1));
    assert_eq!(Command::Copy.row().legacy_range(), (1, 2, 1));
    assert_eq!(Command::MSet.row().legacy_range(), (1, -1, 2));
    assert_eq!(Command::Ping.row().legacy_range(), (0, 0, 0));
    assert_eq!(Categories::named(b"Keyspace"), Some(Categories::KEYSPACE));
    assert_eq!(Flags::named(b"nothing"), None);
}

#[test]
fn what_touches_no_keys_but_those_that_it_names_is_known() {
    let names = |name: &str| commands::find(name.as_bytes()).unwrap().names_its_keys();
    for name in ["get", "rename", "mset", "del", "zunionstore", "lmpop", "migrate"] {
        assert!(names(name), "{name}");
    }
    for name in ["move", "copy", "eval", "fcall_ro", "sort", "flushall", "scan", "randomkey"] {
        assert!(!names(name), "{name}");
    }
}

#[test]
fn what_calls_become_says_the_same_of_more() {
    let mut told = Vec::new();
    for row in commands::all() {
        let Some(merge) = row.sharing.merge else { continue };
        let into = merge.into.row();
        // A user that may send the one command may send the other, as far as the table says; a write stays a write.
        assert_eq!(into.flags.contains(Flags::WRITE), row.flags.contains(Flags::WRITE), "{}", row.name);
        assert_eq!(into.group, row.group, "{}", row.name);
        // Each call names keys at the same places as the merged call, so that no other key is touched.
        assert_eq!(
            row.keys.lone.is_some(),
            merge.shape.shares_key() || row.arity == 2 || row.name == "set",
            "{}",
            row.name
        );
        let adds = matches!(merge.shape, Shape::Step(_) | Shape::Amount(_));
        assert_eq!(adds, merge.share == Share::Sum, "{}", row.name);
        assert!(adds || into.arity < 0, "{} takes no more than one", into.name);
        told.push(format!("{}>{} {:?}", row.name, into.name, merge.share));
    }
    told.sort();
    assert_eq!(
        told,
        [
            "decr>incrby Sum",
            "decrby>incrby Sum",
            "del>del Nobody",
            "exists>exists Nobody",
            "get>mget EachOrError",
            "hdel>hdel Nobody",
            "hget>hmget Each",
            "hset>hset Nobody",
            "incr>incrby Sum",
            "incrby>incrby Sum",
            "lpush>lpush Length",
            "pfadd>pfadd Nobody",
            "rpush>rpush Length",
            "sadd>sadd Nobody",
            "set>mset Same",
            "sismember>smismember Each",
            "srem>srem Nobody",
            "touch>touch Nobody",
            "unlink>unlink Nobody",
            "zadd>zadd Nobody",
            "zrem>zrem Nobody",
            "zscore>zmscore Each",
        ]
    );
}
