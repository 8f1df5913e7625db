//! A replica removes expired keys that its own clients wrote, and no others.

use sleeve_tests::{Connection, Kind, Server};

use super::{caught_up, follow, info, primary, replica};
use sleeve_tests::probe::{ask, wait_until};

/// Starts a writable replica and its primary, which keeps the expired key `theirs` until a client reads it.
fn writable(workers: &str) -> (Server, Server) {
    let (primary, replica) = (primary(Kind::Redis), replica(&["--workers", workers, "--replica-read-only", "no"]));
    follow(&replica, &primary);
    let mut writer = primary.connect();
    ask(&mut writer, &["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    ask(&mut writer, &["SET", "theirs", "1", "PX", "1"]);
    caught_up(&replica, &primary);
    (primary, replica)
}

/// Plays lines that all succeed.
pub fn play(connection: &mut Connection, lines: &[&str]) {
    for line in lines {
        let reply = ask(connection, &line.split(' ').collect::<Vec<_>>());
        assert!(!reply.starts_with('-') && reply != ":0\r\n", "{line}: {reply}");
    }
}

#[test]
fn a_replica_expires_only_keys_with_deadlines_of_its_own_clients() {
    for workers in ["1", "2"] {
        let (primary, replica) = writable(workers);
        let mut client = replica.connect();
        wait_until("its time", || ask(&mut client, &["EXISTS", "theirs"]) == ":0\r\n");
        play(
            &mut client,
            &[
                "SET a 1 PX 20",
                "PSETEX b 20 1",
                "SETEX c 1 1",
                "SET d 1",
                "PEXPIRE d 20",
                "SET e 1",
                "GETEX e PX 20",
                "SET f 1 PX 2000",
                "RENAME f g",
                "SET h 1 PX 2000",
                "MOVE h 1",
                "SET i 1 PX 2000",
                "COPY i i DB 2",
                "EVAL return(redis.call('set',KEYS[1],'1','PX','20')) 1 j",
                "MULTI",
                "SET k 1 PX 20",
                "EXEC",
                "SET forever 1 PX 2000",
                "PERSIST forever",
                "SET longer 1 PX 2000",
                "EXPIRE longer 1000",
            ],
        );
        let payload = client.command(&["DUMP", "forever"]).expect("it answers");
        let payload = payload.splitn(2, |byte| *byte == b'\n').nth(1).expect("a bulk string");
        let words: [&[u8]; 4] = [b"RESTORE", b"l", b"20", &payload[..payload.len() - 2]];
        assert_eq!(client.command(&words).expect("it answers"), b"+OK\r\n");
        wait_until("their end", || ask(&mut client, &["DBSIZE"]) == ":3\r\n");
        for (database, size) in [("1", ":0\r\n"), ("2", ":0\r\n"), ("0", ":3\r\n")] {
            ask(&mut client, &["SELECT", database]);
            wait_until("their end elsewhere", || ask(&mut client, &["DBSIZE"]) == size);
        }
        assert_eq!(
            ask(&mut client, &["EXISTS", "forever", "longer"]),
            ":2\r\n",
            "what is left, beside that of the primary"
        );
        assert_eq!(info(&replica, "slave_expires_tracked_keys"), "1", "the one that lives longer");
        assert_eq!(info(&replica, "expired_keys"), "12");
        // The primary's key is removed when the primary propagates that.
        ask(&mut primary.connect(), &["GET", "theirs"]);
        caught_up(&replica, &primary);
        assert_eq!(ask(&mut client, &["DBSIZE"]), ":2\r\n");
    }
}

#[test]
fn a_key_that_the_primary_has_written_since_is_the_primarys() {
    let (primary, replica) = writable("1");
    let (mut client, mut writer) = (replica.connect(), primary.connect());
    play(&mut client, &["SET a 1 PX 3000", "SET b 1 PX 3000", "SET c 1 PX 3000"]);
    play(&mut writer, &["SET a 2 PX 1000", "SET b 2"]);
    caught_up(&replica, &primary);
    wait_until("the end of what is the replica's", || ask(&mut client, &["DBSIZE"]) == ":3\r\n");
    assert_eq!(ask(&mut client, &["EXISTS", "a", "b", "c", "theirs"]), ":1\r\n");
    assert_eq!(info(&replica, "slave_expires_tracked_keys"), "0");
    assert_eq!(info(&replica, "expired_keys"), "1");
}

#[test]
fn own_deadlines_are_forgotten_at_promotion_and_after_a_full_sync() {
    let (first, replica) = writable("1");
    let second = primary(Kind::Redis);
    let mut client = replica.connect();
    play(&mut client, &["SET a 1 EX 1000"]);
    assert_eq!(info(&replica, "slave_expires_tracked_keys"), "1");
    follow(&replica, &second);
    caught_up(&replica, &second);
    assert_eq!(
        (info(&replica, "slave_expires_tracked_keys"), ask(&mut client, &["DBSIZE"])),
        ("0".into(), ":0\r\n".into())
    );
    play(&mut client, &["SET a 1 EX 1000"]);
    play(&mut client, &["REPLICAOF NO ONE"]);
    assert_eq!(info(&replica, "slave_expires_tracked_keys"), "0");
    drop(first);
}
