//! New clusters, nodes that join and leave, imports and backups.

use std::path::Path;
use std::process::Command;

use sleeve_tests::{Cluster, Server};

use super::{BOTH, KINDS, Pair, Program, SLEEVE, ask, lone_node, pair_with_keys, shown, until};

#[test]
fn a_cluster_is_created_as_with_redis_cli() {
    for kind in KINDS {
        let pair = Pair::new([(); 2].map(|()| (0..4).map(|_| lone_node(kind)).collect()));
        let (lines, code) = pair.compare(&["--cluster", "create", "<0>", "<1>", "<2>", "<3>"], "yes\n");
        assert_eq!(code, Some(0), "{lines:#?}");
        pair.settle();

        let servers: Vec<Server> = (0..7).map(|_| lone_node(kind)).collect();
        let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
        let create = ["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"];
        let words: Vec<&str> = create.into_iter().chain(addresses.iter().map(String::as_str)).collect();
        let created = Program::Ours.run(&words, "");
        assert!(created.status.success(), "{created:?}");
        let (out, ..) = shown(&created);
        assert!(out.contains("Adding extra replicas...") && out.contains("Some slaves are in the same host"), "{out}");
        until("the check finds no fault", || {
            Program::Theirs.run(&["--cluster", "check", &addresses[3]], "").status.success()
        });
        let roles = |role: &str| servers.iter().filter(|server| ask(server, &["ROLE"]).contains(role)).count();
        until("four nodes are replicas", || (roles("master"), roles("slave")) == (3, 4));
    }
    let refused = Program::Ours.run(&["--cluster", "create", "127.0.0.1:1", "--cluster-from", "all"], "");
    assert!(!refused.status.success());
}

#[test]
fn nodes_join_and_leave_as_with_redis_cli() {
    for kind in KINDS {
        let pair = Pair::new([(); 2].map(|()| {
            let mut servers = Cluster::start(kind, 3, 0, &[]).servers;
            servers.extend((0..2).map(|_| lone_node(kind)));
            servers
        }));
        pair.each(|servers| {
            ask(
                &servers[0],
                &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)"],
            );
        });
        let (_, code) = pair.compare(&["--cluster", "add-node", "<3>", "<0>"], "");
        assert_eq!(code, Some(0));
        pair.each(|servers| {
            until("the node is known", || {
                servers[..4].iter().all(|server| ask(server, &["CLUSTER", "INFO"]).contains("known_nodes:4\r"))
            });
            assert!(ask(&servers[3], &["FUNCTION", "LIST"]).contains("lib"));
        });
        pair.settle();
        let replica = ["--cluster", "add-node", "<4>", "<1>", "--cluster-slave", "--cluster-master-id", "<id 2>"];
        let (_, code) = pair.compare(&replica, "");
        assert_eq!(code, Some(0));
        pair.settle();
        pair.each(|servers| until("the node is a replica", || ask(&servers[4], &["ROLE"]).contains("slave")));
        let (_, code) = pair.compare(&["--cluster", "rebalance", "<0>", "--cluster-use-empty-masters"], "");
        assert_eq!(code, Some(0));
        // The replica of a real server may have the old owners for long; removing nodes does not need its opinion.
        assert_eq!(pair.compare(&["--cluster", "del-node", "<0>", "<id 3>"], "").1, Some(1));
        assert_eq!(pair.compare(&["--cluster", "del-node", "<0>", "<id 4>"], "").1, Some(0));
        pair.each(|servers| assert!(ask(&servers[0], &["CLUSTER", "INFO"]).contains("known_nodes:4\r")));
        let (_, code) = pair.compare(&["--cluster", "set-timeout", "<0>", "3000"], "");
        assert_eq!(code, Some(0));
    }
}

#[test]
fn the_keys_of_a_single_server_are_imported() {
    for kind in KINDS {
        let pair = Pair::new([(); 2].map(|()| {
            let mut servers = Cluster::start(kind, 3, 0, &[]).servers;
            servers.push(Server::start(kind));
            servers
        }));
        pair.each(|servers| {
            for number in 0..30 {
                ask(&servers[3], &["SET", &format!("k{number}"), "v"]);
            }
        });
        let import = ["--cluster", "import", "<0>", "--cluster-from", "<3>"];
        let (lines, code) = pair.compare(&[&import[..], &["--cluster-copy"]].concat(), "");
        assert!(code == Some(0) && lines.iter().any(|line| line == "*** Importing 30 keys from DB 0"), "{lines:#?}");
        pair.each(|servers| {
            let keys = |server| ask(server, &["DBSIZE"]).trim().trim_start_matches(':').parse::<u32>().unwrap();
            assert_eq!((servers[..3].iter().map(keys).sum::<u32>(), keys(&servers[3])), (30, 30));
        });
        // Which key is the first that the cluster has already is by chance.
        let codes = BOTH.map(|program| {
            let words = pair.filled(program, &import);
            program.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), "").status.code()
        });
        assert_eq!(codes, [Some(1), Some(1)]);
        assert_eq!(pair.compare(&[&import[..], &["--cluster-replace"]].concat(), "").1, Some(0));
        pair.each(|servers| assert_eq!(ask(&servers[3], &["DBSIZE"]), ":0\r\n"));
    }
}

#[test]
fn a_backup_has_each_primarys_snapshot_and_the_configuration() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let folders = BOTH.map(|program| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("backup-{kind:?}-{program:?}"));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            let first = pair.of(program)[0].address().to_string();
            let made = program.run(&["--cluster", "backup", &first, folder.to_str().unwrap()], "");
            assert!(made.status.success(), "{made:?}");
            let (out, ..) = shown(&made);
            assert!(out.ends_with(&format!("[OK] Backup created into: {}\n", folder.display())), "{out}");
            folder
        });
        let names = |program: Program| {
            let folder = &folders[program as usize];
            let entries =
                std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let names: Vec<String> = entries.map(|name| name.replace("127.0.0.1-", "127.0.0.1:")).collect();
            pair.neutral(program, &names.join("\n"))
        };
        assert_eq!(names(Program::Ours), names(Program::Theirs));
        let json = BOTH.map(|program| {
            pair.neutral(program, &std::fs::read_to_string(folders[program as usize].join("nodes.json")).unwrap())
                .into_iter()
                .filter(|line| !line.contains("\"port\""))
                .map(|line| line.trim_end_matches(',').to_owned())
                .collect::<Vec<_>>()
        });
        assert_eq!(json[0], json[1]);
        let mut keys = 0;
        for entry in std::fs::read_dir(&folders[0]).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.extension().is_some_and(|extension| extension == "rdb") {
                let checked = Command::new(SLEEVE).args(["check", "rdb"]).arg(&entry).output().unwrap();
                assert!(checked.status.success(), "{checked:?}");
                let text = shown(&checked).0;
                let line =
                    text.lines().find(|line| line.contains("with a deadline")).unwrap_or_else(|| panic!("{text}"));
                let words: Vec<&str> = line.split_whitespace().collect();
                let at = words.iter().position(|word| word.starts_with("key")).unwrap();
                keys += words[at - 1].parse::<u32>().unwrap();
            }
        }
        assert_eq!(keys, 400);
        let missing = Program::Ours
            .run(&["--cluster", "backup", &pair.of(Program::Ours)[0].address().to_string(), "/nonexistent"], "");
        assert_eq!(missing.status.code(), Some(1));
        folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }
}
