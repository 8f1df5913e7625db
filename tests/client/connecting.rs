//! The client's connections to servers: passwords, protocols, kinds of address, servers that are not there yet.

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, ErrorKind};

#[test]
fn passwords_and_names_are_given_on_each_connection() {
    let arguments = vec!["--requirepass".to_owned(), "se cret".to_owned()];
    let settings = sleeve_tests::Settings { arguments, password: Some("se cret".to_owned()) };
    let server = sleeve_tests::Server::try_start(sleeve_tests::Kind::Redis, settings).unwrap();
    let place = server.url().trim_start_matches("redis://").to_owned();
    for protocol in [2, 3] {
        let client = Client::connect(&format!("redis://:se%20cret@{place}?name=one&protocol={protocol}")).unwrap();
        assert_eq!(client.client_getname().wait().unwrap().as_deref(), Some("one"));
        let error = Client::connect(&format!("redis://:wrong@{place}?protocol={protocol}")).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert!(error.message().contains("WRONGPASS"), "{error}");
        let error = Client::connect(&format!("redis://{place}?protocol={protocol}")).map(drop).unwrap_err();
        assert!(error.message().contains("NOAUTH"), "{error}");
    }
}

#[test]
fn a_server_that_does_not_know_hello_is_greeted_in_resp2() {
    let server = sleeve_tests::Server::start_with(sleeve_tests::Kind::Redis, &["--rename-command", "HELLO", ""]);
    let client = Client::connect(&format!("{}/3", server.url())).unwrap();
    assert!(client.client_info().wait().unwrap().contains(" db=3 "));
    assert_eq!(client.get::<Option<i64>>("missing").wait().unwrap(), None);
}

#[test]
fn a_server_that_hides_its_configuration_is_asked_by_trying() {
    let hidden = ["--rename-command", "CONFIG", "", "--databases", "11"];
    let server = sleeve_tests::Server::start_with(sleeve_tests::Kind::Redis, &hidden);
    let client = Client::connect(&server.url()).unwrap();
    client.db(10).set("k", 1).wait().unwrap();
    assert_eq!(client.db(11).set("k", 1).wait().unwrap_err().message(), "ERR DB index is out of range");
}

#[test]
fn unix_sockets_work_as_well() {
    let probe = sleeve_tests::Server::start(sleeve_tests::Kind::Redis);
    let path = probe.folder().join("s.sock");
    let path = path.to_str().unwrap();
    let server = sleeve_tests::Server::start_with(sleeve_tests::Kind::Redis, &["--unixsocket", path]);
    let client = Client::connect(&format!("unix://{path}?db=1")).unwrap();
    client.set("k", 1).wait().unwrap();
    assert_eq!(Client::connect(&server.url()).unwrap().db(1).get::<i64>("k").wait().unwrap(), 1);
}

#[test]
fn a_refused_connection_is_an_error_at_once() {
    let mut server = sleeve_tests::Server::start(sleeve_tests::Kind::Redis);
    server.kill();
    let error = Client::connect(&server.url()).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Connect, Effect::None));
}

#[test]
fn calls_before_the_server_is_up_go_out_when_it_comes() {
    let mut server = sleeve_tests::Server::start(sleeve_tests::Kind::Redis);
    let url = server.url();
    server.kill();
    let client = Client::open(&url).unwrap();
    let replies: Vec<_> = (0..100).map(|index| client.db(index % 16).incr("n")).collect();
    let nowhere = client.db(99).incr("n");
    server.restart().unwrap();
    for (index, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.wait().unwrap(), index as i64 / 16 + 1);
    }
    assert_eq!(nowhere.wait().unwrap_err().message(), "ERR DB index is out of range");
}

#[test]
fn an_embedded_engine_can_be_shared_by_name_and_served() {
    let client = Client::connect("embedded://shop").unwrap();
    client.set("k", "v").wait().unwrap();
    assert_eq!(Client::connect("embedded://shop").unwrap().get::<String>("k").wait().unwrap(), "v");
    assert_eq!(Client::connect("embedded://").unwrap().get::<Option<String>>("k").wait().unwrap(), None);
    let address = client.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let over_tcp = Client::connect(&format!("redis://{address}")).unwrap();
    assert_eq!(over_tcp.get::<String>("k").wait().unwrap(), "v");
    over_tcp.db(1).set("k", "w").wait().unwrap();
    assert_eq!(client.db(1).get::<String>("k").wait().unwrap(), "w");
    assert!(over_tcp.listen("127.0.0.1:0".parse().unwrap()).is_err());
}

#[test]
fn a_configuration_without_url_connects_too() {
    let server = sleeve_tests::Server::start(sleeve_tests::Kind::Redis);
    let endpoint = sleeve::Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: server.port() };
    let client = Client::connect_with(Config::new(endpoint).database(2).name("two")).unwrap();
    assert!(client.client_info().wait().unwrap().contains(" db=2 "));
}
