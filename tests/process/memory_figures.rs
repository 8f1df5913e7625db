//! The figures of INFO memory: how they relate to each other, on an empty server, a full one and one that was emptied; and
//! the reported lag of a group of a stream.

use std::collections::HashMap;

use sleeve_tests::{Connection, Kind, Server};

use sleeve_tests::probe::{ask, wait_until};

struct Figures(HashMap<String, String>);

impl Figures {
    fn of(connection: &mut Connection) -> Self {
        let text = ask(connection, &["INFO", "memory"]);
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Self(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("{name} is not in {:?}", self.0))
    }

    fn bytes(&self, name: &str) -> i64 {
        self.text(name).parse().expect("a number")
    }

    fn ratio(&self, name: &str) -> f64 {
        self.text(name).trim_end_matches('%').parse().expect("a ratio")
    }
}

/// Checks the relations that hold at any time.
fn check(connection: &mut Connection) -> Figures {
    let told = Figures::of(connection);
    let bytes = |name: &str| told.bytes(name);
    let (used, startup, overhead) = (bytes("used_memory"), bytes("used_memory_startup"), bytes("used_memory_overhead"));
    let (resident, own) = (bytes("used_memory_rss"), bytes("allocator_resident"));
    let all = &told.0;
    assert!(0 < startup && startup <= overhead && overhead <= used && used <= bytes("used_memory_peak"), "{all:?}");
    assert_eq!(bytes("used_memory_dataset"), used - overhead, "{all:?}");
    assert!((0.0..=100.0).contains(&told.ratio("used_memory_dataset_perc")), "{all:?}");
    assert!((0.0..=100.0).contains(&told.ratio("used_memory_peak_perc")), "{all:?}");
    assert!(own <= resident && bytes("rss_overhead_bytes") == resident - own, "{all:?}");
    assert_eq!(bytes("mem_fragmentation_bytes"), resident - used, "{all:?}");
    assert!((told.ratio("mem_fragmentation_ratio") - resident as f64 / used as f64).abs() < 0.01, "{all:?}");
    assert!(told.ratio("rss_overhead_ratio") >= 1.0 && told.ratio("allocator_rss_ratio") >= 1.0, "{all:?}");
    let counted =
        ["mem_replication_backlog", "mem_clients_slaves", "mem_clients_normal", "mem_aof_buffer", "mem_tracking"];
    assert!(startup + counted.iter().map(|name| bytes(name)).sum::<i64>() <= overhead, "{all:?}");
    assert!(resident < bytes("total_system_memory"), "{all:?}");
    told
}

#[test]
fn figures_of_memory_agree_with_each_other_and_with_the_kernel() {
    let ratio = |server: &Server| Figures::of(&mut server.connect()).ratio("mem_fragmentation_ratio");
    let peers = [Kind::Redis, Kind::Valkey].map(|kind| Server::start_with(kind, &[]));
    for options in [&["--workers", "1"][..], &["--workers", "4"], &["--io", "uring"], &["--appendonly", "yes"]] {
        let server = Server::start_with(Kind::Sleeve, &[&["--enable-debug-command", "yes"], options].concat());
        let mut connection = server.connect();
        let empty = check(&mut connection);
        // If a server has no data, most of its memory is the program itself, as with the peers.
        // The peers look at their resident memory now and then.
        wait_until("a peer with a larger ratio", || {
            peers.iter().any(|peer| empty.ratio("mem_fragmentation_ratio") < ratio(peer))
        });
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("what is resident");
        let resident = line.trim().trim_end_matches(" kB").parse::<i64>().expect("a number") << 10;
        assert!((empty.bytes("used_memory_rss") - resident).abs() < resident / 4, "{resident} {:?}", empty.0);
        assert_eq!(ask(&mut connection, &["DEBUG", "POPULATE", "200000", "key", "200"]), "+OK\r\n");
        let full = check(&mut connection);
        assert!((0.9..1.7).contains(&full.ratio("mem_fragmentation_ratio")), "{options:?} {:?}", full.0);
        assert!(full.bytes("used_memory_dataset") > 40_000_000, "{:?}", full.0);
        assert_eq!(ask(&mut connection, &["FLUSHALL", "SYNC"]), "+OK\r\n");
        ask(&mut connection, &["MEMORY", "PURGE"]);
        let flushed = check(&mut connection);
        assert!(flushed.bytes("used_memory") < empty.bytes("used_memory") + (1 << 20), "{options:?} {:?}", flushed.0);
        assert!(flushed.bytes("used_memory_peak") > full.bytes("used_memory_dataset"), "{:?}", flushed.0);
        assert!(flushed.ratio("mem_fragmentation_ratio") < 60.0, "{options:?} {:?}", flushed.0);
    }
}

#[test]
fn memory_of_lua_states_evicts_nothing_and_has_its_own_figure() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "1"]);
    let mut connection = server.connect();
    (0..100).for_each(|key| _ = ask(&mut connection, &["SETRANGE", &format!("key{key}"), "10000", "x"]));
    let before = Figures::of(&mut connection);
    let limit = (before.bytes("used_memory") + (200 << 10)).to_string();
    ask(&mut connection, &["CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", &limit]);
    let code = "local held = {} for i = 1, 300000 do held[i] = 'number ' .. i end return #held";
    assert_eq!(ask(&mut connection, &["EVAL", code, "0"]), ":300000\r\n");
    let grown = |told: &Figures, name: &str| told.bytes(name) - before.bytes(name);
    let after = Figures::of(&mut connection);
    assert!(grown(&after, "used_memory_vm_eval") > 1 << 20, "{:?}", after.0);
    assert!(grown(&after, "used_memory") < 100 << 10, "{:?}", after.0);
    ask(&mut connection, &["SET", "one", "more"]);
    assert_eq!(ask(&mut connection, &["DBSIZE"]), ":101\r\n");
}

/// Returns the lag of a group after each of these lines; `s` has ten entries before, and `g` reads it.
fn lags(server: &Server, lines: &[&str]) -> Vec<String> {
    let mut connection = server.connect();
    let mut run = |line: &str| ask(&mut connection, &line.split(' ').collect::<Vec<_>>());
    run("DEL s");
    (1..=10).for_each(|number| _ = run(&format!("XADD s {number}-0 f v")));
    run("XGROUP CREATE s g 0");
    let mut told = Vec::new();
    for line in lines {
        run(line);
        let text = run("XINFO GROUPS s");
        let mut words = text.split("\r\n");
        let mut after =
            |name: &str| words.by_ref().skip_while(|word| *word != name).nth(1).unwrap_or("none").to_owned();
        told.push(format!("{line}: {} read, {} left", after("entries-read"), after("lag")));
    }
    told
}

#[test]
fn the_lag_of_a_group_after_entries_were_trimmed_unread_is_redis_8_s() {
    let servers = [Kind::Sleeve, Kind::Redis8].map(|kind| Server::start_with(kind, &[]));
    let (three, one) = ("XREADGROUP GROUP g c COUNT 3 STREAMS s >", "XREADGROUP GROUP g c COUNT 1 STREAMS s >");
    for lines in [
        &[three, "XTRIM s MAXLEN 4", one, "XADD s 20-0 f v", three][..],
        &[three, "XTRIM s MAXLEN 8", one],
        &[three, "XTRIM s MAXLEN 0", "XADD s 20-0 f v", one],
        &[three, "XDEL s 5-0", "XTRIM s MAXLEN 3", one],
        &[three, "XDEL s 5-0", "XTRIM s MAXLEN 7", one],
        &[three, "XDEL s 2-0", "XDEL s 1-0"],
        &[three, "XDEL s 1-0 2-0 3-0 4-0", one],
        &[three, "XDEL s 10-0", "XTRIM s MAXLEN 2", one],
        &["XTRIM s MAXLEN 4", one],
        &[three, "XGROUP SETID s g 5-0", "XTRIM s MAXLEN 7", "XTRIM s MAXLEN 3", one],
        &[three, three, "XDEL s 7-0", "XTRIM s MINID 6-0", "XTRIM s MINID 8-0", one],
        &[three, "XGROUP SETID s g 5-0 ENTRIESREAD 3", "XTRIM s MAXLEN 4", one],
        &["XGROUP SETID s g $", "XTRIM s MAXLEN 0", "XADD s 21-0 f v", one],
    ] {
        let [ours, theirs] = [0, 1].map(|at| lags(&servers[at], lines));
        assert_eq!(ours, theirs);
    }
}
