//! Replacing a primary that has failed, by hand, as docs/migration.md says it, step by step.

use super::*;
use sleeve_tests::probe::heir;

#[test]
fn a_new_machine_takes_over_from_the_snapshot_of_a_replica() {
    for (failed, kept, new) in [
        (Kind::Sleeve, Kind::Sleeve, Kind::Sleeve),
        (Kind::Redis, Kind::Redis, Kind::Sleeve),
        (Kind::Sleeve, Kind::Sleeve, Kind::Redis),
        (Kind::Valkey, Kind::Sleeve, Kind::Sleeve),
    ] {
        let case = format!("{failed:?}, {kept:?}, {new:?}");
        let mut primary = primary(failed, &[]);
        fill(&primary);
        let replica = replica(kept, &primary, &[]);
        assert_eq!(ask(&mut primary.connect(), &["SET", "last", "1"]), "+OK\r\n");
        caught_up(&replica, &primary);
        // The machine of the primary is gone.
        primary.kill();
        let mut connection = replica.connect();
        assert_eq!(ask(&mut connection, &["SAVE"]), "+OK\r\n");
        let new = heir(new, &replica, &["--repl-diskless-sync-delay", "0"]);
        assert_eq!(ask(&mut new.connect(), &["GET", "last"]), "$1\r\n1\r\n", "{case}");
        assert_eq!(ask(&mut connection, &["REPLICAOF", "127.0.0.1", &new.port().to_string()]), "+OK\r\n");
        wait_until("a link", || info(&replica, "master_link_status") == "up");
        assert_same(&replica, &new);
        assert_eq!(info(&new, "sync_full"), "0", "{case}: it goes on\n{}\n{}", new.log(), replica.log());
        assert_eq!(ask(&mut new.connect(), &["SET", "last", "2"]), "+OK\r\n");
        assert_same(&replica, &new);
    }
}
