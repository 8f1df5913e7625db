//! The starter itself: each kind of server comes up, answers and is gone after the drop.

use sleeve_tests::{Connection, Kind, Server, Settings};

fn comes_up_and_goes(kind: Kind) {
    let server = Server::start(kind);
    let address = server.address();
    let mut connection = server.connect();
    assert_eq!(connection.command(&["PING"]).unwrap(), b"+PONG\r\n");
    assert_eq!(connection.command(&["ECHO", "a\r\nb"]).unwrap(), b"$4\r\na\r\nb\r\n");
    drop(server);
    assert!(Connection::open(address).is_err(), "{} still listens", kind.name());
}

#[test]
fn redis_comes_up_and_goes() {
    comes_up_and_goes(Kind::Redis);
}

#[test]
fn valkey_comes_up_and_goes() {
    comes_up_and_goes(Kind::Valkey);
}

#[test]
fn a_server_comes_back_on_its_port() {
    let mut server = Server::start_with(Kind::Redis, &["--databases", "3"]);
    let port = server.port();
    server.kill();
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    let mut connection = server.connect();
    assert_eq!(connection.command(&["SELECT", "3"]).unwrap(), b"-ERR DB index is out of range\r\n");
}

#[test]
fn a_password_is_given_before_the_first_ping() {
    let arguments = vec!["--requirepass".to_owned(), "secret".to_owned()];
    let settings = Settings { arguments, password: Some("secret".to_owned()) };
    let server = Server::try_start(Kind::Redis, settings).unwrap();
    assert_eq!(server.connect().command(&["PING"]).unwrap(), b"+PONG\r\n");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let settings = Settings { arguments: vec!["--databases".to_owned(), "none".to_owned()], password: None };
    let reason = Server::try_start(Kind::Redis, settings).unwrap_err();
    assert!(reason.contains("databases"), "{reason}");
}
