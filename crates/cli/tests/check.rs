//! `sleeve serve --check`: the effects of a configuration, and whether a server would start at all.

use std::path::PathBuf;
use std::process::Command;

/// A folder of its own, which goes with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the answer to a configuration, with further options: whether it is valid, the output, and the complaints.
fn check(name: &str, configuration: &str, options: &[&str]) -> (bool, String, String) {
    let folder = Folder(std::env::temp_dir().join(format!("sleeve-check-{}-{name}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder of our own");
    std::fs::write(folder.0.join("a.conf"), configuration).expect("written");
    let before = std::fs::read_dir(&folder.0).expect("the folder").count();
    let output = Command::new(env!("CARGO_BIN_EXE_sleeve"))
        .current_dir(&folder.0)
        .args(["serve", "--check", "a.conf"])
        .args(options)
        .output()
        .expect("it runs");
    assert_eq!(std::fs::read_dir(&folder.0).expect("the folder").count(), before, "something was made");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", output.status);
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_good_configuration_is_reported_line_by_line() {
    let configuration = "bind 127.0.0.1\nport 7001\nsave 900 1\nmaxmemory 10mb\nmaxmemory-policy allkeys-lru\n\
                         pidfile /nonexistent/a.pid\nlogfile a.log\nunixsocket a.sock\nuser alice on nopass +@all ~*\n";
    let (is_good, said, complaint) = check("good", configuration, &["--workers", "3"]);
    assert!(is_good, "{complaint}");
    for line in [
        "warning: the pid file '/nonexistent/a.pid' could not be written: No such file or directory",
        "listens on: 127.0.0.1:7001",
        "workers: 3",
        "databases: 16",
        "memory: 10485760 bytes, then allkeys-lru",
        "data: no log; snapshots in ",
    ] {
        assert!(said.lines().any(|own| own.starts_with(line)), "{line} is missing in\n{said}");
    }
    assert!(said.contains("a.sock\n") && complaint.is_empty(), "{said}{complaint}");
}

#[test]
fn all_faults_are_reported_at_once() {
    let wrong = "prot 1\nport 99999\nrequirepass \"a\"b\nmaxmemroy 1\nio-threads 0\nsyslog-enabled yes\nlogfile /nonexistent/a.log\n\
                 include /nonexistent/b.conf\nuser alice nonsense\ntls-port 7002\n";
    let (is_good, said, complaint) = check("all", wrong, &["--bind", "256.1.1.1"]);
    assert!(!is_good && said.is_empty(), "{said}");
    for fault in [
        "line 1, 'prot 1': Bad directive or wrong number of arguments. Did you mean 'port'?",
        "line 2, 'port 99999': argument must be between 0 and 65535 inclusive",
        "line 3, 'requirepass \"a\"b': Unbalanced quotes in configuration line",
        "line 4, 'maxmemroy 1': Bad directive or wrong number of arguments. Did you mean 'maxmemory'?",
        "line 5, 'io-threads 0': argument must be between 1 and 128 inclusive",
        "line 6, 'syslog-enabled yes': 'yes' is not supported yet, only 'no' is: write 'syslog-enabled no', and start",
        "Can't open the log file '/nonexistent/a.log': No such file or directory",
        "can't open config file '/nonexistent/b.conf': No such file or directory",
        "line 9, 'user alice nonsense': ",
        "No tls-cert-file configured!",
        "Could not understand the address '256.1.1.1'",
    ] {
        assert!(complaint.lines().any(|line| line.starts_with(fault)), "{fault} is missing in\n{complaint}");
    }
    let lines = complaint.lines().count();
    assert_eq!(lines, 12, "{complaint}");
}

#[test]
fn configurations_that_stop_a_start_are_refused_with_the_reason() {
    let cases = [
        ("word", "prot 7001\n", "Bad directive or wrong number of arguments"),
        ("absent", "syslog-enabled yes\n", "'yes' is not supported yet"),
        ("user", "user alice nonsense\n", "nonsense"),
        ("nowhere", "port 0\n", "Configured to not listen anywhere"),
        ("log", "logfile /nonexistent/a.log\n", "Can't open the log file '/nonexistent/a.log'"),
        ("address", "bind 256.1.1.1\n", "256.1.1.1"),
        ("foreign", "bind 192.0.2.1\nport 7003\n", "could not create the TCP socket 192.0.2.1:7003: "),
        (
            "socket",
            "unixsocket /nonexistent/a.sock\n",
            "Failed opening Unix socket '/nonexistent/a.sock': No such file",
        ),
        ("file", "unixsocket a.conf\n", "a.conf': it is a regular file"),
        ("aof", "appendonly yes\nappenddirname a.conf\n", "a.conf' cannot be written: it is a regular file"),
        ("tls", "tls-port 7002\n", "No tls-cert-file configured!"),
    ];
    for (name, configuration, reason) in cases {
        let (is_good, said, complaint) = check(name, configuration, &[]);
        assert!(!is_good, "{name}: {said}");
        assert!(complaint.contains(reason), "{name}: {complaint}");
        assert!(complaint.ends_with("A server would not start with this configuration.\n"), "{complaint}");
    }
}

#[test]
fn addresses_in_use_and_absent_optional_ones_are_no_faults() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let (is_good, said, complaint) = check("taken", &format!("bind 127.0.0.1 -192.0.2.1\nport {port}\n"), &[]);
    assert!(is_good, "{complaint}");
    assert!(said.starts_with(&format!("warning: another server has 127.0.0.1:{port}: ")), "{said}");
    assert!(said.contains(&format!("\nlistens on: 127.0.0.1:{port}\n")) && !said.contains("192.0.2.1"), "{said}");
}

#[test]
fn a_snapshot_that_cannot_be_written_is_a_warning() {
    let folder = Folder(std::env::temp_dir().join(format!("sleeve-check-{}-snapshot", std::process::id())));
    std::fs::create_dir_all(folder.0.join("dump.rdb")).expect("a folder of our own");
    let (is_good, said, complaint) = check("folder", &format!("dir {}\n", folder.0.display()), &[]);
    let line = format!("warning: the snapshot '{}' cannot be written: ", folder.0.join("dump.rdb").display());
    assert!(is_good && said.contains(&line), "{said}{complaint}");
}

#[test]
fn an_aof_that_is_not_loaded_is_named() {
    let folder = Folder(std::env::temp_dir().join(format!("sleeve-check-{}-with-aof", std::process::id())));
    std::fs::create_dir_all(folder.0.join("appendonlydir")).expect("a folder of our own");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    std::fs::write(folder.0.join("appendonlydir/appendonly.aof.manifest"), manifest).expect("written");
    let line = "holds an AOF that is not loaded, because 'appendonly' is no. To load it, start with --appendonly yes";
    let dir = format!("dir {}\n", folder.0.display());
    let (is_good, said, complaint) = check("ignored", &dir, &[]);
    assert!(is_good && said.contains(line), "{said}{complaint}");
    let (is_good, said, complaint) = check("loaded", &dir, &["--appendonly", "yes"]);
    assert!(is_good && !said.contains(line), "{said}{complaint}");
}
