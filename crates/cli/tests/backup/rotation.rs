//! The removal of the oldest snapshots, and of the remains of killed backups.

use super::*;

const OLD: [&str; 3] = ["dump-20200101-000000.rdb", "dump-20200101-000000-2.rdb", "dump-20200102-000000.rdb"];

/// Files that the command did not name.
const FOREIGN: [&str; 4] = ["dump.rdb", "dump-2020.rdb", "dump-20200101-000000.rdb.gz", "notes.sha256"];

#[test]
fn only_the_oldest_own_snapshots_are_removed() {
    let folder = Folder::new("rotation");
    let server = start(Kind::Sleeve);
    ask(&mut server.connect(), &["SET", "key", "1"]);
    for name in OLD {
        fs::write(folder.join(name), name).expect("written");
        fs::write(folder.join(format!("{name}.sha256")), name).expect("written");
    }
    FOREIGN.iter().for_each(|name| fs::write(folder.join(name), name).expect("written"));
    // The remains of killed backups: a checksum without a snapshot, and a temporary file.
    fs::write(folder.join("dump-20190101-000000.rdb.sha256"), "x").expect("written");
    fs::write(folder.join("dump-20190101-000000.rdb.7.tmp"), "x").expect("written");
    // The temporary file of one that still runs.
    let running = fs::File::create(folder.join("dump-20190102-000000.rdb.8.tmp")).expect("written");
    running.lock().expect("it is ours");
    let words = ["backup", "--keep", "2", &server.url(), folder.0.to_str().expect("letters")];
    let (code, said, complaint) = run(&words);
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
    assert!(said.contains("removed ") && said.contains(OLD[0]) && said.contains(OLD[1]), "{said}");
    let mut left = folder.names();
    let (newest, sum) = (left.remove(5), left.remove(5));
    assert_eq!(sum, format!("{newest}.sha256"));
    let mut expected = FOREIGN.map(str::to_owned).to_vec();
    expected.extend(["dump-20200102-000000.rdb", "dump-20200102-000000.rdb.sha256"].map(str::to_owned));
    expected.push("dump-20190102-000000.rdb.8.tmp".to_owned());
    expected.sort();
    assert_eq!(left, expected);
    // All backups of one second get names of their own, and the newest ones stay.
    for _ in 0..4 {
        assert_eq!(run(&words).0, Some(0));
    }
    let own: Vec<_> =
        folder.names().into_iter().filter(|name| name.starts_with("dump-202") && name.ends_with(".rdb")).collect();
    assert_eq!(own.len(), 3, "{own:?}");
    assert!(own.contains(&"dump-2020.rdb".to_owned()), "{own:?}");
}

#[test]
fn a_backup_that_failed_removes_nothing() {
    let folder = Folder::new("failed-rotation");
    OLD.iter().for_each(|name| fs::write(folder.join(name), name).expect("written"));
    let before = folder.names();
    let (code, _, complaint) = run(&["backup", "--keep", "1", "-p", "1", folder.0.to_str().expect("letters")]);
    assert!(code == Some(1) && complaint.contains("cannot connect to 127.0.0.1:1"), "{complaint}");
    assert_eq!(folder.names(), before);
}
