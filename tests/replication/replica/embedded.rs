//! An engine in this process that follows a primary.

use sleeve::Client;
use sleeve::prelude::*;
use sleeve_tests::Kind;

use super::{info, primary};
use sleeve_tests::probe::{ask, wait_until};

#[test]
fn an_embedded_replica_ends_with_its_last_client_and_frees_its_folder() {
    let primary = primary(Kind::Redis);
    ask(&mut primary.connect(), &["SET", "a", "1"]);
    let folder = primary.folder().join("embedded");
    let url = format!("embedded://{}", folder.display());
    let client = Client::connect(&url).expect("an engine");
    let port = primary.port().to_string();
    client.cmd("REPLICAOF").arg("127.0.0.1").arg(&*port).send::<()>().wait().expect("it follows");
    wait_until("its data", || client.get::<Option<i64>>("a").wait() == Ok(Some(1)));
    wait_until("a replica", || info(&primary, "connected_slaves") == "1");
    drop(client);
    wait_until("its end", || info(&primary, "connected_slaves") == "0");
    let again = Client::connect(&url).expect("the folder is free");
    assert_eq!(again.get::<i64>("a").wait(), Ok(1));
    again.set("b", 1).wait().expect("it is nobody's replica");
}
