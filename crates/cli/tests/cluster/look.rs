//! Commands that change nothing, refusals, and redirections.

use sleeve_tests::{Cluster, Server};

use super::{BOTH, KINDS, Program, ask, busy_slot, id, lone_node, pair_with_keys, shown};

/// Commands that change nothing. `A` is a node of the cluster and `HOST PORT` its address in two words, `ID0` and `ID1` are ids
/// of primaries, `LONE` is a node that knows no other, `PLAIN` a server that is no node, and on `CLOSED` nothing listens.
const COMMANDS: &[&str] = &[
    "check A",
    "check HOST PORT",
    "check A --cluster-search-multiple-owners",
    "fix A",
    "info A",
    "info LONE",
    "check LONE",
    "check PLAIN",
    "check CLOSED",
    "check nonsense",
    "check",
    "cheque A",
    "help",
    "call A DBSIZE",
    "call A ECHO a --cluster-only-masters",
    "call --cluster-only-replicas A LRANGE none 0 1",
    "call A NOSUCHCOMMAND",
    "rebalance A",
    "rebalance A --cluster-simulate --verbose --cluster-weight ID0=2 ID1=0.5",
    "rebalance --cluster-weight ID0=2 A --cluster-simulate",
    "rebalance A --cluster-weight zz=1",
    "rebalance A --cluster-threshold 0",
    "reshard A --cluster-slots 7 --cluster-to ID0 --cluster-from all",
    "reshard A --cluster-slots 7 --cluster-to ID0 --cluster-from ID1",
    "reshard A --cluster-slots 7 --cluster-to 0000 --cluster-from all",
    "reshard A --cluster-slots 7 --cluster-to ID0 --cluster-from 0000",
    "reshard A --cluster-slots 7 --cluster-to ID0 --cluster-from ID0",
    "del-node A 0000",
    "del-node A ID1",
    "add-node A A",
    "add-node LONE nonsense",
    "add-node LONE A --cluster-slave --cluster-master-id 0000",
    "set-timeout A 50",
    "import A",
    "import A --cluster-from nonsense",
    "import A --cluster-from A",
    "create LONE PLAIN",
    "create LONE nonsense",
    "create LONE LONE",
    "create A LONE",
];

#[test]
fn commands_that_look_at_a_cluster_print_the_same() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 3, 1, &[]);
        let (lone, plain) = (lone_node(kind), Server::start(kind));
        let first = &cluster.servers[0];
        let places = [
            ("ID0", cluster.id(0)),
            ("ID1", cluster.id(1)),
            ("HOST", first.host().to_string()),
            ("PORT", first.port().to_string()),
            ("LONE", lone.address().to_string()),
            ("PLAIN", plain.address().to_string()),
            ("CLOSED", format!("127.0.0.1:{}", sleeve_tests::free_port())),
            ("A", first.address().to_string()),
        ];
        let fill = |word: &str| match places.iter().find(|(name, _)| word.split('=').next() == Some(name)) {
            Some((name, value)) => word.replace(name, value),
            None => word.to_owned(),
        };
        for command in COMMANDS {
            let words: Vec<String> = ["--cluster"].into_iter().chain(command.split(' ')).map(fill).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let [ours, theirs] = BOTH.map(|program| shown(&program.run(&words, "no\n")));
            assert_eq!(ours, theirs, "{words:?} on {kind:?}");
        }
    }
}

#[test]
fn redirections_are_followed_as_with_redis_cli() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let servers = pair.of(Program::Ours);
        let port = servers[0].port().to_string();
        let same = |words: &[&str], input: &str| {
            let [ours, theirs] = BOTH.map(|program| shown(&program.run(&[&["-p", &port], words].concat(), input)));
            assert_eq!(ours, theirs, "{words:?} {input:?} on {kind:?}");
            ours
        };
        for number in 0..6 {
            let key = format!("{{t{number}}}:{number}");
            same(&["-c", "GET", &key], "");
            same(&["-c", "-r", "2", "SET", &key, "x"], "");
            same(&["-c", "--no-raw", "-e", "GET", &key], "");
        }
        let lines: String =
            (0..6).map(|number| format!("GET {{t{number}}}:{number}\nSET k{number} 1\nSELECT 0\n")).collect();
        let (out, ..) = same(&["-c"], &lines);
        assert!(out.contains("-> Redirected to slot ["), "{out}");
        same(&["-c", "MGET", "a", "b"], "");
        assert!(same(&[], &lines).0.contains("MOVED "));

        let (slot, owner, other) = busy_slot(servers);
        let [from, to] = [owner, other].map(|number| id(&servers[number]));
        assert_eq!(ask(&servers[other], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]), "+OK\r\n");
        assert_eq!(ask(&servers[owner], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]), "+OK\r\n");
        let (out, ..) = same(&["-c"], "SET {t0}:new 1\nGET {t0}:0\nGET {t0}:new\n");
        assert!(out.matches("-> Redirected").count() >= 2, "{out}");
        same(&["-c", "GET", "{t0}:new"], "");
    }
}

#[test]
fn options_that_a_cluster_command_ignores_are_refused() {
    for (words, named) in [
        (&["--cluster", "check", "h:1", "--cluster-copy"][..], "--cluster-copy means nothing to check"),
        (&["--cluster", "info", "h:1", "-p", "7000"], "-p means nothing to --cluster"),
        (&["--cluster", "reshard", "h:1", "--cluster-slots", "16385"], "16385"),
        (&["-c", "--scan"], "-c means nothing to --scan"),
    ] {
        let refused = Program::Ours.run(words, "");
        assert_eq!(refused.status.code(), Some(1));
        assert!(shown(&refused).1.contains(named), "{refused:?}");
    }
}

#[test]
fn the_doctor_names_the_faults_of_a_cluster() {
    for kind in KINDS {
        let mut cluster = Cluster::start(kind, 3, 1, &[]);
        let doctor = |server: &Server| {
            let arguments = ["doctor", &server.url(), "--for", "300ms", "--no-monitor"];
            let output = std::process::Command::new(super::SLEEVE).args(arguments).output().unwrap();
            (shown(&output).0, shown(&output).1, output.status.code())
        };
        let (_, error, code) = doctor(&cluster.servers[0]);
        assert!(code == Some(2) && error.contains("asked for anything"), "{error}");

        let (slot, to) = (cluster.slot_of("k").to_string(), id(&cluster.servers[1]));
        let owner = (0..3).find(|number| ask(&cluster.servers[*number], &["GET", "k"]) == "$-1\r\n").unwrap();
        let to = if owner == 1 { id(&cluster.servers[2]) } else { to };
        assert_eq!(ask(&cluster.servers[owner], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]), "+OK\r\n");
        cluster.servers[3].kill();
        let first = cluster.servers[1].address().to_string();
        super::until("the replica is missed", || {
            shown(&Program::Theirs.run(&["--cluster", "call", &first, "CLUSTER", "NODES"], ""))
                .0
                .contains("slave,fail ")
        });
        let (text, _, code) = doctor(&cluster.servers[1]);
        assert_eq!(code, Some(1), "{text}");
        for fault in ["a failed node", "an open slot", "a primary without a replica"] {
            assert!(text.contains(fault), "{fault}: {text}");
        }
        assert!(text.contains("Seen: no command.") && !text.contains("uncovered slots"), "{text}");
    }
}
