//! Slots that move, and moves that were interrupted.

use sleeve_tests::{Cluster, Kind, Server};

use super::{BOTH, KINDS, Pair, Program, ask, busy_slot, id, pair_with_keys, shown};

#[test]
fn slots_are_moved_as_with_redis_cli() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let reshard = ["--cluster", "reshard", "<0>", "--cluster-from", "<id 1>", "--cluster-to", "<id 0>"];
        let (lines, code) = pair.compare(&[&reshard[..], &["--cluster-slots", "3200", "--cluster-yes"]].concat(), "");
        assert!(code == Some(0) && lines.iter().any(|line| line.ends_with(": ..........")), "{lines:#?}");
        pair.settle();
        let all = ["--cluster", "reshard", "<2>", "--cluster-from", "all", "--cluster-to", "<id 1>"];
        pair.compare(&[&all[..], &["--cluster-slots", "40", "--cluster-pipeline", "3"]].concat(), "yes\n");
        pair.settle();
        pair.compare(&["--cluster", "info", "<1>"], "");
        // The order in which a node lists the others decides which of them gets a slot more.
        for program in BOTH {
            let words = pair.filled(program, &["--cluster", "rebalance", "<0>", "--cluster-weight", "<id 2>=1.1"]);
            let balanced = program.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), "");
            assert!(balanced.status.success(), "{balanced:?}");
        }
        pair.settle();
        let summary = pair.filled(Program::Ours, &["--cluster", "info", "<0>"]);
        let (out, ..) = shown(&Program::Ours.run(&summary.iter().map(String::as_str).collect::<Vec<_>>(), ""));
        let shares: Vec<u32> =
            out.lines().filter_map(|line| line.split(" | ").nth(1)?.split(' ').next()?.parse().ok()).collect();
        assert!(shares.iter().all(|share| (5284..=5287).contains(share) || (5812..=5815).contains(share)), "{out}");
        // The questions come one by one; an end of the input ends ours.
        let id = id(&pair.of(Program::Ours)[0]);
        let first = pair.of(Program::Ours)[0].address().to_string();
        let asked = Program::Ours.run(&["--cluster", "reshard", &first], &format!("0\n20\n{id}\nall\nyes\n"));
        assert!(asked.status.success(), "{asked:?}");
        let ended = Program::Ours.run(&["--cluster", "reshard", &first], "20\n");
        assert_eq!(ended.status.code(), Some(1));
        assert!(shown(&ended).1.contains("Standard input has ended"), "{ended:?}");
    }
}

#[test]
fn keys_of_the_target_are_overwritten_only_on_request() {
    let pair =
        Pair::new([(); 2].map(|()| Cluster::start(Kind::Redis, 3, 0, &["--enable-debug-command", "yes"]).servers));
    let slot =
        ask(&pair.of(Program::Ours)[0], &["CLUSTER", "KEYSLOT", "{t0}"]).trim().trim_start_matches(':').to_owned();
    let mut first = String::new();
    for servers in BOTH.map(|program| pair.of(program)) {
        let done = Program::Theirs
            .run(&["-c", "-p", &servers[0].port().to_string()], "SET {t0}:0 v\nSET {t0}:1 v\nSET {t0}:2 v\n");
        assert!(done.status.success(), "{done:?}");
        let (_, owner, other) = busy_slot(servers);
        first = format!("<{owner}>");
        for (value, key) in [("v", "{t0}:0"), ("w", "{t0}:1")] {
            assert_eq!(
                ask(&servers[other], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(&servers[owner])]),
                "+OK\r\n"
            );
            let mut connection = servers[other].connect();
            connection.command(&["ASKING"]).unwrap();
            assert_eq!(connection.command(&["SET", key, value]).unwrap(), b"+OK\r\n");
        }
        assert_eq!(ask(&servers[owner], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(&servers[other])]), "+OK\r\n");
    }
    let (lines, code) = pair.compare(&["--cluster", "fix", &first], "");
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(lines.iter().any(|line| line.ends_with("- {t0}:1")), "{lines:#?}");
    let (lines, code) = pair.compare(&["--cluster", "fix", &first, "--cluster-replace"], "");
    assert_eq!(code, Some(0), "{lines:#?}");
    pair.settle();
    pair.each(|servers| {
        let port = servers[0].port().to_string();
        // The owner has most keys, so the importing node's value moves there.
        assert_eq!(shown(&Program::Ours.run(&["-c", "-p", &port, "GET", "{t0}:1"], "")).0, "w\n");
    });
}

/// Opens a slot at some nodes, repairs it with both programs, and checks that no key is lost.
fn repaired(pair: &Pair, open: impl Fn(&[Server], &str), case: &str, input: &str) {
    pair.each(|servers| open(servers, &busy_slot(servers).0));
    let (lines, code) = pair.compare(&["--cluster", "fix", "<0>"], input);
    assert!(lines.iter().any(|line| line.contains(case)), "{case}: {lines:#?}");
    assert_eq!(code, Some(0), "{lines:#?}");
    pair.settle();
    let (lines, _) = pair.compare(&["--cluster", "info", "<0>"], "");
    assert!(lines.iter().any(|line| line.starts_with("[OK] 400 keys in ")), "{case}: {lines:#?}");
}

#[test]
fn interrupted_moves_are_repaired_as_with_redis_cli() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let set = |server: &Server, slot: &str, state: &[&str]| {
            let words = [&["CLUSTER", "SETSLOT", slot], state].concat();
            assert_eq!(ask(server, &words), "+OK\r\n", "{words:?}");
        };
        let begin = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            set(&servers[other], slot, &["IMPORTING", &id(&servers[owner])]);
            set(&servers[owner], slot, &["MIGRATING", &id(&servers[other])]);
        };
        let go_on = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            begin(servers, slot);
            let (host, port) = ("127.0.0.1", servers[other].port().to_string());
            assert_eq!(ask(&servers[owner], &["MIGRATE", host, &port, "{t0}:0", "0", "5000"]), "+OK\r\n");
        };
        repaired(&pair, begin, ">>> Case 1: ", "");
        repaired(&pair, go_on, ">>> No single clear owner for the slot", "");
        let import_alone = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            set(&servers[other], slot, &["IMPORTING", &id(&servers[owner])]);
        };
        repaired(&pair, import_alone, ">>> Case 2: ", "");
        let import_twice = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            for number in (0..3).filter(|number| *number != owner) {
                set(&servers[number], slot, &["IMPORTING", &id(&servers[owner])]);
            }
            set(&servers[owner], slot, &["MIGRATING", &id(&servers[other])]);
        };
        repaired(&pair, import_twice, ">>> Case 3: Moving", "");
        let migrate_alone = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            set(&servers[owner], slot, &["MIGRATING", &id(&servers[other])]);
        };
        repaired(&pair, migrate_alone, ">>> Case 4: ", "");
        let lose = |servers: &[Server], slot: &str| {
            for server in servers {
                ask(server, &["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
                ask(server, &["CLUSTER", "DELSLOTS", slot]);
            }
        };
        repaired(&pair, lose, "[ERR] Not all 16384 slots are covered", "yes\n");
    }
}
