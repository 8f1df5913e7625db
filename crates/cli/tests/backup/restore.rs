//! Restoring: the refusals, the older data put aside, and how servers with an AOF start on the snapshot.

use super::*;

/// Saves a server with one key, and returns the folder and the file.
fn saved(name: &str) -> (Folder, PathBuf, Server) {
    let folder = Folder::new(name);
    let server = start(Kind::Sleeve);
    ask(&mut server.connect(), &["SET", "key", "saved"]);
    let file = folder.join("saved.rdb");
    back_up(&server, &file);
    (folder, file, server)
}

fn restore(words: &[&str], file: &Path, folder: &Path) -> (Option<i32>, String, String) {
    let words = ["restore"].iter().chain(words).map(OsStr::new);
    run(&words.chain([file.as_os_str(), folder.as_os_str()]).collect::<Vec<_>>())
}

#[test]
fn a_file_that_is_not_the_saved_one_changes_nothing() {
    let (folder, file, _server) = saved("damaged");
    let data = folder.join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("dump.rdb"), "old").expect("written");
    let (whole, sum) = (fs::read(&file).expect("a file"), folder.join("saved.rdb.sha256"));
    let mut changed = whole.clone();
    let at = whole.windows(5).position(|window| window == b"saved").expect("the value");
    changed[at] ^= 1;
    let refused = |words: &[&str], reason: &str| {
        let (code, said, complaint) = restore(words, &file, &data);
        assert!(code == Some(1) && said.is_empty() && complaint.contains(reason), "{said}{complaint}");
        assert_eq!(names(&data), ["dump.rdb"]);
        assert_eq!(fs::read(data.join("dump.rdb")).expect("a file"), b"old");
    };
    fs::write(&file, &changed).expect("written");
    refused(&["--force"], "is damaged at byte");
    // A file that is whole, and another one.
    let mut other = whole[..whole.len() - 8].to_vec();
    other[at] ^= 1;
    other.extend_from_slice(&[0; 8]);
    fs::write(&file, &other).expect("written");
    refused(&["--force"], "is not the file of which");
    fs::write(&file, [&whole[..], b"more"].concat()).expect("written");
    refused(&["--force"], "goes on behind the end of the snapshot, with 4 bytes");
    fs::write(&file, &whole).expect("written");
    refused(&["--force", "--no-checksum"], "leave --no-checksum out");
    fs::write(&sum, "no line of sha256sum\n").expect("written");
    refused(&["--force"], "has no line of sha256sum for");
    fs::remove_file(&sum).expect("it was there");
    refused(&["--force"], "bring it, or add --no-checksum");
    assert_eq!(restore(&["--force", "--no-checksum"], &file, &data).0, Some(0));
    assert_eq!(fs::read(data.join("dump.rdb")).expect("a file"), whole);
    assert_eq!(fs::read(data.join("dump.rdb.before-restore")).expect("a file"), b"old");
}

#[test]
fn older_data_is_put_aside_by_force_alone() {
    let (_folder, file, _server) = saved("older");
    let mut server = Server::start_with(Kind::Sleeve, &["--appendonly", "yes"]);
    ask(&mut server.connect(), &["SET", "key", "old"]);
    let data = server.folder().to_owned();
    // The lock of the AOF says that a server runs.
    let (code, _, complaint) = restore(&["--force"], &file, &data);
    assert!(code == Some(1) && complaint.contains("Stop it first"), "{complaint}");
    server.kill();
    fs::write(data.join("dump.rdb"), "old").expect("written");
    let (code, _, complaint) = restore(&[], &file, &data);
    assert_eq!(code, Some(1));
    for part in ["dump.rdb", "appendonlydir", "would load the AOF and not the snapshot", "Add --force"] {
        assert!(complaint.contains(part), "{part} is missing in {complaint}");
    }
    for number in ["", "-2"] {
        let (code, said, complaint) = restore(&["--force"], &file, &data);
        assert_eq!((code, complaint.as_str()), (Some(0), ""));
        assert!(said.contains(&format!("dump.rdb.before-restore{number}\n")), "{said}");
        assert!(said.contains(&format!("appendonlydir.before-restore{number}\n")), "{said}");
        // With an AOF the server begins it with the snapshot.
        server.restart().expect("it starts on the snapshot");
        assert_eq!(ask(&mut server.connect(), &["GET", "key"]), "$5\r\nsaved\r\n");
        server.restart().expect("it starts on its AOF");
        assert_eq!(ask(&mut server.connect(), &["GET", "key"]), "$5\r\nsaved\r\n");
        server.kill();
    }
    assert_eq!(fs::read(data.join("dump.rdb.before-restore")).expect("a file"), b"old");
}

/// Checks the reason for the advice about `appendonly yes`: when Redis and Valkey change, the help text has to.
#[test]
fn redis_and_valkey_with_an_aof_start_empty_on_a_snapshot() {
    let (_folder, file, _server) = saved("empty");
    for kind in [Kind::Redis, Kind::Valkey] {
        let mut server = Server::start_with(kind, &["--dbfilename", "own.rdb"]);
        let data = server.folder().to_owned();
        let place = |words: &[&str]| restore(&[&["--dbfilename", "own.rdb"], words].concat(), &file, &data);
        if kind == Kind::Redis {
            // The server works in its folder, as the kernel says. (Valkey may have been started through a loader of programs.)
            let (code, _, complaint) = place(&[]);
            assert!(code == Some(1) && complaint.contains("is a server that works in"), "{complaint}");
        }
        server.kill();
        let (code, _, complaint) = place(&[]);
        assert_eq!((code, complaint.as_str()), (Some(0), ""));
        server.restart().expect("it starts");
        assert_eq!(ask(&mut server.connect(), &["GET", "key"]), "$5\r\nsaved\r\n", "{}", kind.name());
        let mut server = Server::start_with(kind, &["--appendonly", "yes"]);
        server.kill();
        fs::remove_dir_all(server.folder().join("appendonlydir")).expect("its AOF");
        let (code, _, complaint) = restore(&[], &file, server.folder());
        assert_eq!((code, complaint.as_str()), (Some(0), ""));
        server.restart().expect("it starts");
        assert_eq!(ask(&mut server.connect(), &["DBSIZE"]), ":0\r\n", "{}", kind.name());
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let (folder, file, _server) = saved("arguments");
    for (words, data, reason) in [
        (&[][..], folder.join("absent"), "is not there: make it first"),
        (&["--dbfilename", "a/b"], folder.0.clone(), "DIR is the folder"),
        (&["--dbfilename", ".."], folder.0.clone(), "the name of a file is wanted"),
    ] {
        let (code, _, complaint) = restore(words, &file, &data);
        assert!(code == Some(1) && complaint.contains(reason), "{complaint}");
    }
    let (code, _, complaint) = restore(&["--no-checksum"], &folder.join("absent"), &folder.0);
    assert!(code == Some(1) && complaint.contains("No such file"), "{complaint}");
}
