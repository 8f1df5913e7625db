//! Requests of a primary that a replica cannot apply, by `propagation-error-behavior`.

use sleeve_tests::Kind;

use super::writable::play;
use super::{assert_same, caught_up, follow, info, its_log_gives_the_same, primary, replica};
use sleeve_tests::probe::{ask, wait_until};

#[test]
fn a_replica_skips_inapplicable_requests_if_configured() {
    let (primary, mut replica) = (
        primary(Kind::Sleeve),
        replica(&["--appendonly", "yes", "--replica-read-only", "no", "--propagation-error-behavior", "ignore"]),
    );
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    wait_until("the log's first base", || info(&replica, "aof_rewrite_in_progress") == "0");
    let (mut writer, mut client) = (primary.connect(), replica.connect());
    play(&mut client, &["SET n text"]);
    play(&mut writer, &["INCRBY n 1", "MULTI", "SET a 1", "INCRBY n 1", "SET b 1", "EXEC"]);
    play(
        &mut writer,
        &["DEBUG REPLICATE NOTHING x", "DEBUG REPLICATE SET", "DEBUG REPLICATE CONFIG SET hz 7", "SET c 1"],
    );
    let offset = caught_up(&replica, &primary);
    assert_eq!(
        ask(&mut client, &["MGET", "n", "a", "b", "c"]),
        "*4\r\n$4\r\ntext\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n"
    );
    let log = replica.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("== CRITICAL ==")).collect();
    assert_eq!(lines.len(), 5, "{log}");
    for (line, words) in lines.iter().zip(["'incrby'", "'incrby'", "'NOTHING'", "wrong number", "no primary sends"]) {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(info(&replica, "unexpected_error_replies"), "5");
    assert_eq!(ask(&mut client, &["CONFIG", "GET", "hz"]), "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n");
    assert_eq!((info(&primary, "sync_full"), info(&replica, "master_link_status")), ("1".into(), "up".into()));
    wait_until("the log", || info(&replica, "aof_written_offset").parse::<u64>().expect("a number") >= offset);
    // Its AOF has the applied requests; the failing request of the transaction is passed over once more.
    replica.restart().expect("it loads its log");
    let values = ask(&mut replica.connect(), &["MGET", "a", "b", "c"]);
    assert_eq!(values, "*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n");
    assert_eq!(ask(&mut replica.connect(), &["CONFIG", "GET", "hz"]), "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n");
}

#[test]
fn a_replica_panics_at_an_inapplicable_request_if_configured() {
    for behavior in ["panic", "panic-on-replicas"] {
        let (primary, mut replica) = (primary(Kind::Sleeve), replica(&["--propagation-error-behavior", behavior]));
        follow(&replica, &primary);
        caught_up(&replica, &primary);
        let (mut writer, mut client) = (primary.connect(), replica.connect());
        play(&mut client, &["CONFIG SET replica-read-only no"]);
        play(&mut writer, &["DEBUG REPLICATE NOTHING x", "SET a 1"]);
        caught_up(&replica, &primary);
        assert_eq!(info(&replica, "unexpected_error_replies"), "1");
        play(&mut client, &["CONFIG SET replica-read-only yes"]);
        play(&mut writer, &["DEBUG REPLICATE SOMETHING x"]);
        wait_until("its end", || client.command(&["PING"]).is_err());
        wait_until("its reason", || {
            replica.log().contains("The engine is over: replica has met what its primary should not")
        });
        assert!(replica.log().contains("SOMETHING"));
        replica.kill();
    }
}

#[test]
fn by_default_a_replica_that_cannot_apply_something_is_given_all_data() {
    let (primary, replica) = (primary(Kind::Sleeve), replica(&[]));
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    play(&mut primary.connect(), &["DEBUG REPLICATE NOTHING x", "SET a 1"]);
    wait_until("all data once more", || info(&primary, "sync_full") == "2");
    caught_up(&replica, &primary);
    assert!(replica.log().contains("NOTHING") && !replica.log().contains("== CRITICAL =="));
    assert_eq!(info(&replica, "unexpected_error_replies"), "0");
}

#[test]
fn a_replica_takes_the_last_stream_id_that_an_older_primary_set() {
    let (primary, replica) = (primary(Kind::Redis), replica(&["--appendonly", "yes"]));
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    play(&mut primary.connect(), &["XADD x 40-0 f v", "XDEL x 40-0", "XSETID x 27-0", "XADD x 30-0 f v"]);
    assert_same(&replica, &primary);
    assert_eq!((info(&primary, "sync_full"), info(&replica, "master_link_status")), ("1".into(), "up".into()));
    its_log_gives_the_same(replica, &primary);
}
