//! The state that another worker sees when a reply is sent. A client that was killed is gone. A command is slow if the
//! threshold at its end makes it slow.

use sleeve_tests::connection::request;
use sleeve_tests::transcript::frame::leaves;
use sleeve_tests::{Connection, Kind, Server};

use super::ask;

/// The number of attempts to hit a race.
const ROUNDS: usize = 300;

fn id_of(connection: &mut Connection) -> String {
    ask(connection, &["CLIENT", "ID"]).trim_start_matches(':').trim().to_owned()
}

#[test]
fn a_killed_client_is_gone_from_client_list() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "4"]);
    let mut looks: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    for round in 0..ROUNDS {
        let mut victim = server.connect();
        let id = id_of(&mut victim);
        // The victim kills itself, or another client kills it.
        let killed = if round % 2 == 0 {
            ask(&mut victim, &["CLIENT", "KILL", "ID", &id, "SKIPME", "no"])
        } else {
            ask(&mut looks[0], &["CLIENT", "KILL", "ID", &id])
        };
        assert_eq!(killed, ":1\r\n");
        let list = ask(&mut looks[round % 4], &["CLIENT", "LIST"]);
        assert!(!list.contains(&format!("id={id} ")), "round {round}: {list}");
        assert!(victim.reply().is_err(), "the connection is closed");
    }
}

/// Returns the commands in the slow log, the latest first.
fn slow_commands(connection: &mut Connection) -> Vec<String> {
    let reply = connection.command(&["SLOWLOG", "GET", "128"]).expect("a reply");
    let words = leaves(&reply).into_iter().map(|word| String::from_utf8_lossy(&word).into_owned());
    words.filter(|word| word.starts_with("slow:")).collect()
}

#[test]
fn a_command_is_judged_by_the_slow_threshold_at_its_end() {
    let never = ["CONFIG", "SET", "slowlog-log-slower-than", "1000000000"];
    let always = ["CONFIG", "SET", "slowlog-log-slower-than", "0"];
    let told: Vec<Vec<String>> = [Kind::Redis, Kind::Sleeve]
        .map(|kind| {
            let server = Server::start_with(kind, if kind == Kind::Sleeve { &["--workers", "2"] } else { &[] });
            let mut connection = server.connect();
            let steps: [&[&str]; 13] = [
                &never,
                &["SLOWLOG", "RESET"],
                &["SET", "slow:0", "x"],
                &["MULTI"],
                &["LRANGE", "slow:1", "0", "-1"],
                &always,
                &["GET", "slow:2"],
                &["LRANGE", "slow:3", "0", "-1"],
                &["EXEC"],
                &["GET", "slow:4"],
                &never,
                &["GET", "slow:5"],
                &["LRANGE", "slow:6", "0", "-1"],
            ];
            let bytes: Vec<u8> = steps.iter().flat_map(|words| request(words)).collect();
            connection.send(&bytes).expect("the server listens");
            for _ in steps {
                connection.reply().expect("a reply");
            }
            slow_commands(&mut connection)
        })
        .to_vec();
    assert_eq!(told[0], ["slow:4", "slow:3", "slow:2"]);
    assert_eq!(told[1], told[0]);
}
