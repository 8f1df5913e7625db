//! Users from the outside: files of users, the configuration file, and the fate of clients when their user changes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sleeve_tests::server::free_port;
use sleeve_tests::{Connection, Kind, Server, Settings};

fn text(bytes: std::io::Result<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.expect("a reply")).into_owned()
}

fn ask(connection: &mut Connection, line: &str) -> String {
    text(connection.command(&line.split(' ').collect::<Vec<_>>()))
}

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sleeve-users-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_of_users_is_loaded_changed_and_saved() {
    let folder = Folder::new("file");
    let before = "user alice on nopass ~* resetchannels -@all +@all\nuser default on nopass ~* &* +@all\n";
    let path = folder.write("users.acl", before);
    let server = Server::start_with(Kind::Sleeve, &["--aclfile", &path]);
    let (mut admin, mut alice, mut bob) = (server.connect(), server.connect(), server.connect());
    assert_eq!(ask(&mut alice, "AUTH alice x"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "ACL SETUSER bob on nopass ~b* +get"), "+OK\r\n");
    assert_eq!(ask(&mut bob, "AUTH bob x"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "ACL SAVE"), "+OK\r\n");
    let saved = std::fs::read_to_string(&path).unwrap();
    let expected = "user alice on nopass sanitize-payload ~* resetchannels +@all\nuser bob on nopass sanitize-payload ~b* resetchannels -@all +get\nuser default on nopass sanitize-payload ~* &* +@all\n";
    assert_eq!(saved, expected);
    folder.write("users.acl", "user alice on nopass ~* -@all +get\n");
    assert_eq!(ask(&mut admin, "ACL LOAD"), "+OK\r\n");
    assert_eq!(bob.read_to_end().unwrap(), b"", "whose user has gone is gone");
    assert_eq!(alice.read_to_end().unwrap(), b"", "and so is whose user was loaded anew");
    let mut alice = server.connect();
    assert_eq!(ask(&mut alice, "AUTH alice x"), "+OK\r\n");
    assert_eq!(ask(&mut alice, "SET k v"), "-NOPERM User alice has no permissions to run the 'set' command\r\n");
    assert_eq!(ask(&mut admin, "ACL WHOAMI"), "$7\r\ndefault\r\n");
    folder.write("users.acl", "user alice on +nosuch\n");
    let refused = ask(&mut admin, "ACL LOAD");
    assert!(refused.starts_with("-ERR ") && refused.contains("users.acl:1: Error in applying operation '+nosuch'"));
    assert!(refused.ends_with("no change to the previously active ACL rules was performed\r\n"), "{refused}");
    assert_eq!(ask(&mut alice, "GET k"), "$-1\r\n");
}

#[test]
fn users_of_the_configuration_file_are_loaded_and_rewritten() {
    let folder = Folder::new("configuration");
    let lines = "user alice on >secret ~a* (+get ~shared)\nrequirepass word\n# kept\nuser bob off\n";
    let path = folder.write("sleeve.conf", lines);
    let mut server = WithFile::start(&path);
    let mut admin = server.connect();
    ask(&mut admin, "AUTH word");
    assert_eq!(ask(&mut admin, "AUTH alice secret"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "AUTH bob x").get(..10), Some("-WRONGPASS"));
    ask(&mut admin, "AUTH word");
    assert_eq!(ask(&mut admin, "ACL DELUSER bob"), ":1\r\n");
    assert_eq!(ask(&mut admin, "ACL SETUSER carol on +@read -get"), "+OK\r\n");
    assert_eq!(ask(&mut admin, "CONFIG REWRITE"), "+OK\r\n");
    let rewritten = std::fs::read_to_string(&path).unwrap();
    let users: Vec<&str> = rewritten.lines().filter(|line| line.starts_with("user ")).collect();
    assert!(
        users[0].starts_with("user alice on sanitize-payload #2bb80d53")
            && users[0].ends_with("(~shared resetchannels -@all +get)")
    );
    assert_eq!(users[1], "user carol on sanitize-payload resetchannels -@all +@read -get");
    assert!(users[2].starts_with("user default on sanitize-payload #98c1eb4e") && users.len() == 3, "{users:?}");
    assert!(rewritten.contains("\n# kept\n"));
}

/// A server started with a configuration file as its first argument, and its port.
struct WithFile(Child, u16);

impl WithFile {
    fn start(path: &str) -> Self {
        let port = free_port();
        let mut command = Command::new(Kind::Sleeve.binary().expect("a binary"));
        command.args(["serve", path, "--port", &port.to_string(), "--bind", "127.0.0.1"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        Self(child, port)
    }

    fn connect(&mut self) -> Connection {
        loop {
            assert_eq!(self.0.try_wait().expect("a child"), None, "it has ended");
            match Connection::open(SocketAddr::from(([127, 0, 0, 1], self.1))) {
                Ok(connection) => return connection,
                Err(_) => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for WithFile {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn users_are_in_one_place_only() {
    let folder = Folder::new("both");
    let users = folder.write("users.acl", "user alice on\n");
    for (words, reason) in [
        (vec!["--user", "bob", "on", "--aclfile", &users], "but not both"),
        (vec!["--aclfile", "/missing/users.acl"], "Error loading ACLs, opening file '/missing/users.acl'"),
        (vec!["--user", "bob", "+nosuch"], "Error in user declaration '+nosuch'"),
    ] {
        let arguments = words.iter().map(|&word| word.to_owned()).collect();
        let error = Server::try_start(Kind::Sleeve, Settings { arguments, password: None }).map(drop).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn listeners_go_when_their_channels_are_taken_away() {
    for workers in ["1", "2"] {
        let server = Server::start_with(Kind::Sleeve, &["--workers", workers]);
        let mut admin = server.connect();
        for (subscribe, rules, stays) in [
            ("SUBSCRIBE news:1", "resetchannels &news:*", true),
            ("SUBSCRIBE news:1", "resetchannels &other", false),
            ("SUBSCRIBE news:1", "resetchannels", false),
            ("PSUBSCRIBE news:*", "resetchannels &news:*", true),
            ("PSUBSCRIBE news:*", "resetchannels &news:1", false),
            ("SSUBSCRIBE shard", "resetchannels &x", false),
        ] {
            ask(&mut admin, "ACL SETUSER u reset on nopass +@all allchannels");
            let mut listener = server.connect();
            assert_eq!(ask(&mut listener, "AUTH u x"), "+OK\r\n");
            assert!(ask(&mut listener, subscribe).starts_with("*3"), "{subscribe}");
            assert_eq!(ask(&mut admin, &format!("ACL SETUSER u {rules}")), "+OK\r\n");
            if stays {
                assert!(ask(&mut listener, "PING").contains("pong"), "{rules}");
            } else {
                assert_eq!(listener.read_to_end().unwrap(), b"", "{subscribe} with {rules}");
            }
        }
    }
}

#[test]
fn a_blocked_clients_permissions_are_checked_again() {
    let server = Server::start(Kind::Sleeve);
    let (mut admin, mut waiter) = (server.connect(), server.connect());
    ask(&mut admin, "ACL SETUSER u on nopass ~* +@all");
    assert_eq!(ask(&mut waiter, "AUTH u x"), "+OK\r\n");
    waiter.send(b"BLPOP list 0\r\n").unwrap();
    while !ask(&mut admin, "CLIENT LIST").contains("flags=b ") {
        std::thread::yield_now();
    }
    ask(&mut admin, "ACL SETUSER u resetkeys ~other");
    assert_eq!(ask(&mut admin, "RPUSH list x"), ":1\r\n");
    assert_eq!(text(waiter.reply()), "-NOPERM No permissions to access a key\r\n");
    assert_eq!(ask(&mut admin, "LLEN list"), ":1\r\n");
}
