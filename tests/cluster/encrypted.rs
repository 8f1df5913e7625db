//! A cluster of Sleeve and Redis 7.0 with a bus and a replication that speak TLS only (`tls-cluster`, `tls-replication`).

use std::io::{Read, Write};
use std::net::TcpStream;

use sleeve_tests::probe::{ask, info};
use sleeve_tests::{Cluster, Kind};

use super::shards::{Load, fail_over, kill_primary};
use crate::connections::tls::Authority;

#[test]
fn nodes_of_two_kinds_seal_their_bus_and_replace_each_other() {
    let authority = Authority::new("cluster");
    let (certificate, key, ca) = (authority.file("server.crt"), authority.file("server.key"), authority.file("ca.crt"));
    let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let rest = ["--tls-cluster", "yes", "--tls-replication", "yes", "--cluster-node-timeout", "2000"];
    let kinds = [Kind::Sleeve, Kind::Redis, Kind::Sleeve, Kind::Redis, Kind::Sleeve, Kind::Sleeve];
    let words = [&files[..], &rest, &["--cluster-require-full-coverage", "no"]].concat();
    let mut cluster = Cluster::start_with_tls(&kinds, 3, &words);
    for node in &cluster.servers {
        // A peer without TLS is sent away from the bus: by a fatal alert of TLS, or without an answer.
        let bus = ask(&mut node.connect(), &["CONFIG", "GET", "cluster-port"]);
        let port = bus.lines().last().and_then(|port| port.parse::<u16>().ok()).expect("a port");
        let mut plain = TcpStream::connect((node.host(), port)).expect("the bus listens");
        plain.write_all(&[b'R'; 4096]).expect("it is sent");
        let mut answer = Vec::new();
        // A reset is an end as well.
        _ = plain.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == 21, "{:?}: {answer:?}", node.kind());
    }
    assert_ne!(info(&cluster.servers[3], "master_port"), cluster.servers[0].port().to_string());
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        kill_primary(cluster, load, 0);
        fail_over(cluster, load, 0, None);
        fail_over(cluster, load, 1, None);
    });
}
