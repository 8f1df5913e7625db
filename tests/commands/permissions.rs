//! Permissions beside real servers: the answer of COMMAND INFO for every command, the members of every category, and random
//! rules with random commands, as ACL DRYRUN judges them and as a real request is judged.
//!
//! The random pairs are a soak in their long form; `SLEEVE_SEED` says which they are.

use std::collections::{BTreeMap, BTreeSet};

use sleeve_tests::random::{Random, seed};
use sleeve_tests::transcript::frame::{children, leaves, rewritten, sorted};
use sleeve_tests::transcript::play::Target;
use sleeve_tests::{Connection, Kind, Server, soak};
use sleeve_wire::commands::{self, Begin, Categories, Find, Flags, Group, Row};

fn texts(connection: &mut Connection, words: &[&str]) -> Vec<String> {
    let reply = connection.command(words).expect("a reply");
    leaves(&reply).into_iter().map(|leaf| String::from_utf8_lossy(&leaf).into_owned()).collect()
}

fn names(connection: &mut Connection, words: &[&str]) -> BTreeSet<String> {
    texts(connection, words).into_iter().collect()
}

/// Returns the names of every command and subcommand of a server.
fn all_names(connection: &mut Connection) -> BTreeSet<String> {
    names(connection, &["COMMAND", "LIST"])
}

/// Returns the answer of COMMAND INFO for one command, without its subcommands, in a fixed order.
fn facts(connection: &mut Connection, name: &str) -> BTreeMap<&'static str, Vec<String>> {
    let reply = connection.command(&["COMMAND", "INFO", name]).expect("a reply");
    let command = children(&reply).expect("an array")[0].to_vec();
    let parts = children(&command).unwrap_or_else(|| panic!("{name} is missing"));
    let kinds = ["name", "arity", "flags", "first", "last", "step", "categories", "tips", "keys"];
    let text = |part: &[u8]| leaves(&sorted(part, true)).iter().map(|leaf| lossy(leaf)).collect();
    kinds.into_iter().zip(parts).map(|(kind, part)| (kind, text(part))).collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The commands that our server has and redis-server 7.0 has not.
const NEWER: [&str; 44] = [
    "blmovem",
    "client|capa",
    "client|no-touch",
    "client|setinfo",
    "cluster|flushslot",
    "cluster|myshardid",
    "cluster|slot-stats",
    "commandlog",
    "commandlog|get",
    "commandlog|help",
    "commandlog|len",
    "commandlog|reset",
    "delex",
    "delifeq",
    "digest",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hotkeys",
    "hotkeys|get",
    "hotkeys|help",
    "hotkeys|reset",
    "hotkeys|start",
    "hotkeys|stop",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
    "increx",
    "lmovem",
    "msetex",
    "script|show",
    "sdiffcard",
    "sunioncard",
    "waitaof",
    "xackdel",
    "xcfgset",
    "xdelex",
    "xnack",
];

/// The commands that Redis 7.2 changed, or that Valkey 9 answers while it loads, and the facts about them that changed.
const CHANGED: [(&str, &str); 12] = [
    ("acl|deluser", "tips"),
    ("acl|save", "tips"),
    ("acl|setuser", "tips"),
    ("cluster|info", "flags"),
    ("cluster|myid", "flags"),
    ("cluster|nodes", "flags"),
    ("cluster|shards", "flags"),
    ("cluster|slots", "flags"),
    ("wait", "flags"),
    ("wait", "categories"),
    ("zrank", "arity"),
    ("zrevrank", "arity"),
];

/// The commands that scripts may run since 7.2: they have lost the flag `noscript`, and every other fact is as it was.
const RUN_BY_SCRIPTS: [&str; 6] = ["blmove", "blpop", "brpop", "brpoplpush", "bzpopmax", "bzpopmin"];

/// The commands that no other server has.
const OUR_OWN: [&str; 3] = ["client|journal", "client|rings", "hotkeys|top"];

#[test]
fn every_command_is_described_as_redis_describes_it() {
    let servers = [Kind::Sleeve, Kind::Redis].map(Server::start);
    let [mut ours, mut redis] = servers.each_ref().map(Server::connect);
    let [our_names, redis_names] = [all_names(&mut ours), all_names(&mut redis)];
    let lacking: Vec<_> = redis_names.difference(&our_names).collect();
    assert!(lacking.is_empty(), "commands that are missing: {lacking:?}");
    let newer = our_names.difference(&redis_names).map(String::as_str);
    let newer: Vec<_> = newer.filter(|name| !OUR_OWN.contains(name)).collect();
    assert_eq!(newer, NEWER);
    for name in &redis_names {
        let [mut ours, mut redis] = [&mut ours, &mut redis].map(|connection| facts(connection, name));
        for (_, fact) in CHANGED.iter().filter(|(changed, _)| changed == name) {
            assert_ne!(ours.remove(fact), redis.remove(fact), "{name} is as it was in 7.0");
        }
        if RUN_BY_SCRIPTS.contains(&name.as_str()) {
            let flags = redis.get_mut("flags").expect("it has flags");
            let place = flags.iter().position(|flag| flag == "noscript");
            flags.remove(place.expect("Redis 7.0 lets no script run it"));
            [&mut ours, &mut redis].into_iter().for_each(|facts| facts.get_mut("flags").expect("it has flags").sort());
        }
        assert_eq!(ours, redis, "{name}");
    }
}

#[test]
fn newer_commands_are_in_the_categories_in_which_newer_servers_have_them() {
    let servers = [Kind::Sleeve, Kind::Valkey, Kind::Redis8].map(Server::start);
    let [mut ours, mut valkey, mut redis8] = servers.each_ref().map(Server::connect);
    let [of_valkey, of_redis8] = [all_names(&mut valkey), all_names(&mut redis8)];
    let redis_version = Target::of(&servers[2]).version;
    for name in NEWER {
        let newer = if of_valkey.contains(name) { &mut valkey } else { &mut redis8 };
        if !of_valkey.contains(name) && !of_redis8.contains(name) {
            let since =
                commands::find_full(name.as_bytes()).map(|row| row.docs.since.split('.')).expect("it is in the table");
            let since: Vec<u32> = since.map(|part| part.parse().expect("a number")).collect();
            assert!((since[0], since[1]) > redis_version, "{name} is nowhere");
            continue;
        }
        assert_eq!(facts(&mut ours, name)["categories"], facts(newer, name)["categories"], "{name}");
    }
}

#[test]
fn every_category_has_the_members_that_it_has_in_redis() {
    let servers = [Kind::Sleeve, Kind::Redis].map(Server::start);
    let [mut ours, mut redis] = servers.each_ref().map(Server::connect);
    let shared = all_names(&mut redis);
    assert_eq!(names(&mut ours, &["ACL", "CAT"]), names(&mut redis, &["ACL", "CAT"]));
    for category in names(&mut redis, &["ACL", "CAT"]) {
        let [ours, redis] = [&mut ours, &mut redis].map(|connection| names(connection, &["ACL", "CAT", &category]));
        let is_same = |name: &String| !CHANGED.contains(&(name, "categories"));
        let ours: BTreeSet<_> = ours.intersection(&shared).filter(|name| is_same(name)).collect();
        assert_eq!(ours, redis.iter().filter(|name| is_same(name)).collect(), "@{category}");
    }
}

/// The number of commands with which one list of rules is tried.
const COMMANDS_A_LIST: usize = 10;

/// Returns whether a command can be sent to both servers just to see its refusal: it waits for nothing, ends nothing and
/// changes neither the connection nor the server.
fn is_harmless(row: &Row) -> bool {
    let about_data = row.flags.intersects(Flags::WRITE.or(Flags::READONLY)) || row.name.ends_with("publish");
    let heavy = row.flags.intersects(Flags::BLOCKING.or(Flags::ADMIN)) || row.runs_script() || row.name == "migrate";
    about_data && !heavy && row.group != Group::Server
}

#[test]
fn random_rules_allow_and_refuse_the_commands_that_redis_does() {
    let pairs = soak::count(1_500);
    let servers = [Kind::Sleeve, Kind::Redis].map(Server::start);
    let mut admins = servers.each_ref().map(Server::connect);
    let mut users = servers.each_ref().map(Server::connect);
    let shared = all_names(&mut admins[1]);
    let is_same = |row: &&Row| shared.contains(row.full_name) && CHANGED.iter().all(|(name, _)| *name != row.full_name);
    let rows: Vec<_> = commands::all().iter().filter(is_same).collect();
    let seed = seed(7);
    let mut random = Random::new(seed);
    let (mut allowed, mut refused) = (0, 0);
    for list in 0..usize::div_ceil(pairs, COMMANDS_A_LIST) {
        let rules = rules(&mut random, &rows);
        let context = format!("seed {seed}, list {list}, rules {}", rules.join(" "));
        let set: Vec<_> = ["ACL", "SETUSER", "u"].into_iter().chain(rules.iter().map(String::as_str)).collect();
        same(&mut admins, &set, &context);
        same(&mut users, &["AUTH", "u", "x"], &context);
        for _ in 0..COMMANDS_A_LIST {
            let row = *random.pick(&rows);
            let request = request(&mut random, row);
            let request: Vec<_> = request.iter().map(String::as_str).collect();
            let dry: Vec<_> = ["ACL", "DRYRUN", "u"].into_iter().chain(request.iter().copied()).collect();
            let verdict = same(&mut admins, &dry, &context);
            *if verdict == "+OK\r\n" { &mut allowed } else { &mut refused } += 1;
            if is_harmless(row) {
                sent(&mut users, &request, &context);
            }
        }
    }
    assert!(allowed > pairs / 10 && refused > pairs / 10, "{allowed} were allowed and {refused} refused");
}

/// Returns a reply of Redis 7.0 in which a permission that the user `u` lacks is told in the words of 7.2.
pub fn in_words_of_7_2(reply: &[u8]) -> Vec<u8> {
    rewritten(reply, &|_, text| {
        let text = std::str::from_utf8(text).ok()?;
        let words = match text {
            "NOPERM this user has no permissions to access one of the keys used as arguments" => {
                "NOPERM No permissions to access a key".to_owned()
            }
            "NOPERM this user has no permissions to access one of the channels used as arguments" => {
                "NOPERM No permissions to access a channel".to_owned()
            }
            _ => match text.strip_prefix("NOPERM this user has no permissions to run ") {
                Some(command) => format!("NOPERM User u has no permissions to run {command}"),
                None => {
                    format!("User u has no permissions to {}", text.strip_prefix("This user has no permissions to ")?)
                }
            },
        };
        Some(words.into_bytes())
    })
}

fn same(both: &mut [Connection; 2], words: &[&str], context: &str) -> String {
    let [ours, redis] = both.each_mut().map(|connection| connection.command(words).expect("a reply"));
    let [ours, redis] = [ours, in_words_of_7_2(&redis)].map(|reply| lossy(&reply));
    assert_eq!(ours, redis, "{words:?} with {context}");
    ours
}

/// Sends a request as the user. Whether it was refused for lack of permission, and the error text but for the words of 7.2,
/// must be the same.
fn sent(users: &mut [Connection; 2], words: &[&str], context: &str) {
    let [ours, redis] = users.each_mut().map(|connection| connection.command(words).expect("a reply"));
    let replies = [ours, in_words_of_7_2(&redis)].map(|reply| lossy(&reply));
    let [ours, redis] = replies.each_ref().map(|reply| reply.starts_with("-NOPERM").then_some(reply));
    assert_eq!(ours, redis, "{words:?} with {context}");
}

const KEYS: [&str; 5] = ["k1", "k2", "k3", "other", "ch1"];

const OF_KEYS: [&str; 12] =
    ["~k1", "~k*", "%R~k1", "%W~k2", "%RW~k3", "%R~*", "%W~k*", "~other", "allkeys", "resetkeys", "~*", "%W~other"];
const OF_CHANNELS: [&str; 6] = ["&ch1", "&k*", "allchannels", "resetchannels", "&*", "&other"];
const OF_ALL: [&str; 8] =
    ["+@all", "-@all", "allcommands", "nocommands", "+select|0", "+nosuch", "+@nosuch", "clearselectors"];

/// Returns a list of rules that begins with a reset.
fn rules(random: &mut Random, rows: &[&'static Row]) -> Vec<String> {
    let mut rules = vec!["reset".to_owned(), "on".to_owned(), "nopass".to_owned()];
    // These rules come first, because most lists would otherwise allow next to nothing.
    for most in ["+@all", "~*"] {
        if random.once_in(3) {
            rules.push(most.to_owned());
        }
    }
    for _ in 0..1 + random.below(7) {
        if random.once_in(6) {
            let inner: Vec<_> = (0..1 + random.below(4)).map(|_| rule(random, rows)).collect();
            rules.push(format!("({})", inner.join(" ")));
        } else {
            rules.push(rule(random, rows));
        }
    }
    rules
}

fn rule(random: &mut Random, rows: &[&'static Row]) -> String {
    let sign = if random.below(3) == 0 { "-" } else { "+" };
    match random.below(12) {
        0..=3 => format!("{sign}@{}", random.pick(Categories::ALL).1),
        4..=6 => format!("{sign}{}", random.pick(rows).full_name),
        7..=9 => (*random.pick(&OF_KEYS)).to_owned(),
        10 => (*random.pick(&OF_CHANNELS)).to_owned(),
        _ => (*random.pick(&OF_ALL)).to_owned(),
    }
}

/// Returns a request of this row with arguments that are keys and channels of the rules.
fn request(random: &mut Random, row: &Row) -> Vec<String> {
    let mut words: Vec<String> = row.full_name.split('|').map(str::to_owned).collect();
    let least = usize::from(row.arity.unsigned_abs());
    let more = if row.arity < 0 { random.below(4) } else { 0 };
    while words.len() < least + more {
        words.push((*random.pick(&KEYS)).to_owned());
    }
    for spec in row.keys.specs {
        // If keys are missing at their position, Redis looks at no key at all; see docs/differences.md.
        while matches!(spec.begin, Begin::Index(begin) if words.len() <= usize::from(begin)) {
            words.push((*random.pick(&KEYS)).to_owned());
        }
        if let (Begin::Index(begin), Find::Count { count, first, .. }) = (spec.begin, spec.find) {
            let place = usize::from(begin) + usize::from(count);
            while words.len() <= usize::from(begin) + usize::from(first) {
                words.push((*random.pick(&KEYS)).to_owned());
            }
            let most = words.len() - usize::from(begin) - usize::from(first);
            words[place] = (1 + random.below(most)).to_string();
        }
    }
    words
}
