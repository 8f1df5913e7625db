//! Backups that fail: the reason is given, and no file stays.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use sleeve_tests::Settings;
use sleeve_tests::probe::wait_until;

use super::*;

/// A listener that speaks as a server up to the front of a snapshot, and then does something else with the connection.
fn false_server(end: impl FnOnce(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let (mut seen, mut chunk) = (Vec::new(), [0; 1024]);
        let mut answered = 0;
        while !seen.ends_with(b"SYNC\r\n") {
            let length = stream.read(&mut chunk).expect("requests");
            assert!(length > 0, "it hung up");
            seen.extend_from_slice(&chunk[..length]);
            let asked = seen.windows(8).filter(|word| word == b"REPLCONF").count();
            (answered..asked).for_each(|_| stream.write_all(b"+OK\r\n").expect("a reply"));
            answered = asked;
        }
        stream.write_all(b"$100000\r\nREDIS0011\xfa\x01a\x01b").expect("the front of a snapshot");
        end(stream);
    });
    port
}

/// Keeps a connection open and silent.
fn stay_silent(stream: TcpStream) {
    _ = (&stream).read(&mut [0]);
}

#[test]
fn each_fault_is_reported_with_a_way_out() {
    let folder = Folder::new("faults");
    let settings = Settings {
        arguments: ["--requirepass", "secret"].map(str::to_owned).to_vec(),
        password: Some("secret".into()),
    };
    let server = Server::try_start(Kind::Sleeve, settings).expect("it starts");
    ask(&mut server.connect(), &["ACL", "SETUSER", "reader", "on", ">secret", "+get", "~*"]);
    let (port, place) = (server.port().to_string(), folder.0.to_str().expect("letters").to_owned());
    let absent = format!("{place}/absent/");
    let absent_parent = format!("{place}/absent/x.rdb");
    let file = format!("{place}/x.rdb");
    let cut = false_server(drop).to_string();
    let silent = false_server(stay_silent).to_string();
    for (words, reason, next) in [
        (&["-p", "1", &place][..], "Connection refused", "Is the server running"),
        (&["-p", &port, &place], "NOAUTH", "give it in the URL, with -a, or in REDISCLI_AUTH"),
        (&["-p", &port, "-a", "wrong", &place], "WRONGPASS", "Give the right user and password"),
        (&["-p", &port, "--user", "reader", "-a", "secret", &place], "NOPERM", "+replconf +sync"),
        (&["-p", &port, &absent], "is not there", "make it first"),
        (&["-p", &port, &absent_parent], "is not there", "make it first"),
        (&["-p", &port, "--keep", "2", &file], "--keep needs a folder", "leave --keep out"),
        (&["-p", &port, "--force", &place], "--force means nothing", "a name that is free"),
        (&["-p", &port, "/dev/null"], "it is a device", "a regular file or a folder"),
        (&["-p", &cut, &place], "ended early", "try again"),
        (&["-p", &silent, "--patience", "1", &place], "sent nothing for 1 seconds", "try again"),
    ] {
        let (code, said, complaint) = run(&[&["backup"], words].concat());
        assert_eq!((code, said.as_str()), (Some(1), ""), "{words:?}: {complaint}");
        assert!(complaint.contains(reason) && complaint.contains(next), "{words:?}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(folder.names().is_empty(), "{words:?}: {:?}", folder.names());
    }
    let good = command(&["backup", "-p", &port, &place]).env("REDISCLI_AUTH", "secret").output().expect("it runs");
    assert_eq!(told(good).0, Some(0));
}

#[test]
fn a_folder_that_must_not_be_written_is_named() {
    // Root may write anywhere but here, and another user may not write here either.
    let (code, _, complaint) = run(&["backup", "-p", "1", "/proc/self"]);
    assert!(code == Some(1) && complaint.contains("cannot make /proc/self/dump-"), "{complaint}");
}

#[test]
fn a_full_disk_leaves_no_file() {
    let folder = Folder::new("full");
    let server = start(Kind::Sleeve);
    ask(&mut server.connect(), &["CONFIG", "SET", "rdbcompression", "no"]);
    ask(&mut server.connect(), &["SET", "large", &"x".repeat(200_000)]);
    let words = ["backup", &server.url(), folder.0.to_str().expect("letters")];
    let limited = Command::new("prlimit").arg("--fsize=50000").arg(SLEEVE).args(words).output().expect("util-linux");
    let (code, _, complaint) = told(limited);
    assert_eq!(code, Some(1), "{complaint}");
    assert!(complaint.contains("File too large. Make room, or choose another folder"), "{complaint}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_snapshot_that_is_damaged_on_its_way_is_not_kept() {
    let folder = Folder::new("way");
    let port = false_server(|mut stream| {
        stream.write_all(&vec![7; 100_000 - 14]).expect("the rest");
        stay_silent(stream);
    });
    let (code, _, complaint) = run(&["backup", "-p", &port.to_string(), folder.0.to_str().expect("letters")]);
    assert!(code == Some(1) && complaint.contains("is damaged at byte"), "{complaint}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_backup_that_is_killed_leaves_nothing_under_the_name() {
    for signal in ["KILL", "TERM"] {
        let folder = Folder::new(&format!("killed-{signal}"));
        let port = false_server(stay_silent).to_string();
        let mut backup = command(&["backup", "-p", &port, folder.0.to_str().expect("letters")])
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        wait_until("the front of the snapshot", || {
            let sizes = folder.names().into_iter().filter_map(|name| fs::metadata(folder.join(name)).ok());
            sizes.map(|found| found.len()).sum::<u64>() > 0
        });
        let killed = Command::new("kill").args(["-s", signal, &backup.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let code = backup.wait().expect("it ends").code();
        let left = folder.names();
        match signal {
            "TERM" => assert!(code == Some(130) && left.is_empty(), "{code:?} {left:?}"),
            _ => assert!(left.iter().all(|name| name.ends_with(".tmp")), "{left:?}"),
        }
    }
}
