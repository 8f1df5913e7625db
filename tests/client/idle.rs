//! A server with `timeout` set closes connections that it hears nothing from; the client learns that from the first close.

use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Config};
use sleeve_tests::probe::{ask, wait_until};
use sleeve_tests::{Connection, Kind, Server};

const NAME: &str = "idle";

/// The age in seconds of an idle connection that is older than the server lets it be. Without PINGs none gets there.
const OLD_S: u64 = 6;

/// Returns the id and the age in seconds of the client's connection, as the server lists it.
fn connection_of(admin: &mut Connection) -> Option<(String, u64)> {
    let list = ask(admin, &["CLIENT", "LIST"]);
    let line = list.lines().find(|line| line.contains(&format!(" name={NAME} ")))?.to_owned();
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).map(str::to_owned);
    Some((field("id=")?, field("age=")?.parse().ok()?))
}

#[test]
fn an_idle_client_keeps_its_connection_once_the_server_has_closed_one() {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        for silence_max in [Some(Duration::from_secs(5)), None] {
            let server = Server::start_with(kind, &["--timeout", "1"]);
            let mut admin = server.connect();
            let config = Config::from_url(&server.url()).expect("a URL").name(NAME).silence_max(silence_max);
            let client = Client::connect_with(config).expect("it is served");
            let (first, _) = connection_of(&mut admin).expect("it is connected");
            wait_until("another connection", || connection_of(&mut admin).is_some_and(|(id, _)| id != first));
            wait_until("an old connection", || connection_of(&mut admin).is_some_and(|(_, age_s)| age_s >= OLD_S));
            assert_eq!(
                client.db(0).get::<Option<String>>("absent").wait().expect("it answers"),
                None,
                "{}",
                kind.name()
            );
        }
    }
}
