//! HOTKEYS over several workers, and HOTKEYS TOP, which is ours.

use std::collections::BTreeMap;

use sleeve_tests::transcript::frame::leaves;
use sleeve_tests::{Connection, Kind, Server};

/// Returns the texts and numbers of a reply, in order.
fn told(connection: &mut Connection, words: &[&str]) -> Vec<String> {
    let reply = connection.command(words).expect("a reply");
    leaves(&reply).into_iter().map(|leaf| String::from_utf8_lossy(&leaf).into_owned()).collect()
}

/// Returns the pairs of a list behind this word, to the end of the reply.
fn pairs_behind(told: &[String], word: &str) -> BTreeMap<String, u64> {
    let place = told.iter().position(|text| text == word).expect("it is told");
    told[place + 1..].chunks(2).map(|pair| (pair[0].clone(), pair[1].parse().expect("a number"))).collect()
}

/// Sends GETs over some connections: nine of ten for one key, the others for keys that are read once.
fn use_hot_key(server: &Server, connections: usize, rounds: usize) {
    for number in 0..connections {
        let mut connection = server.connect();
        for round in 0..rounds {
            let mut sent = Vec::new();
            for at in 0..100 {
                let key = if at % 10 == 3 { format!("k{number}-{round}-{at}") } else { "hot".to_owned() };
                sent.extend_from_slice(format!("GET {key}\r\n").as_bytes());
            }
            connection.send(&sent).expect("it takes them");
            for _ in 0..100 {
                connection.reply().expect("a reply");
            }
        }
    }
}

#[test]
fn the_hottest_key_is_known_without_anybody_having_asked_before() {
    for workers in ["1", "3"] {
        let server = Server::start_with(Kind::Sleeve, &["--workers", workers]);
        let mut asking = server.connect();
        assert_eq!(asking.command(&["HOTKEYS", "TOP"]).expect("a reply"), b"*8\r\n$12\r\nsample-ratio\r\n:128\r\n$12\r\nhalf-life-ms\r\n:10000\r\n$7\r\nsamples\r\n:0\r\n$10\r\nby-samples\r\n*0\r\n");
        use_hot_key(&server, 4, 50);
        let told = told(&mut asking, &["HOTKEYS", "TOP", "3"]);
        let samples: u64 = told[5].parse().expect("a number");
        let top = pairs_behind(&told, "by-samples");
        assert_eq!(top.len(), 3);
        // The 20,000 uses may have been halved once or twice on a slow machine.
        assert!((25..250).contains(&samples), "{told:?}");
        assert!(top["hot"] * 4 > samples * 3, "{told:?}");
    }
}

#[test]
fn the_number_of_reported_keys_has_bounds() {
    let server = Server::start(Kind::Sleeve);
    let mut asking = server.connect();
    for count in ["0", "65", "-1", "x", "9223372036854775808"] {
        let refused = asking.command(&["HOTKEYS", "TOP", count]).expect("a reply");
        assert_eq!(refused, b"-ERR count must be between 1 and 64\r\n", "{count}");
    }
    let refused = asking.command(&["HOTKEYS", "TOP", "1", "2"]).expect("a reply");
    assert_eq!(refused, b"-ERR wrong number of arguments for 'hotkeys|top' command\r\n");
    asking.command(&["HELLO", "3"]).expect("a reply");
    assert!(asking.command(&["HOTKEYS", "TOP", "64"]).expect("a reply").starts_with(b"%4\r\n"));
    for words in [&["ACL", "SETUSER", "u", "on", "nopass", "+@all", "-hotkeys|top"][..], &["AUTH", "u", "x"]] {
        assert_eq!(asking.command(words).expect("a reply"), b"+OK\r\n");
    }
    assert!(asking.command(&["HOTKEYS", "TOP"]).expect("a reply").starts_with(b"-NOPERM"));
}

#[test]
fn a_collection_is_of_all_workers() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "3"]);
    let mut asking = server.connect();
    for words in [&["HOTKEYS", "START", "METRICS", "2", "NET", "CPU", "COUNT", "1"][..], &["SET", "hot", "12345"]] {
        assert_eq!(asking.command(words).expect("a reply"), b"+OK\r\n");
    }
    use_hot_key(&server, 4, 5);
    let told = told(&mut asking, &["HOTKEYS", "GET"]);
    let top = pairs_behind(&told, "by-net-bytes");
    // SET takes 38 bytes, and each of the 1,800 times that the key was got 33.
    assert_eq!(top, BTreeMap::from([("hot".to_owned(), 38 + 1_800 * 33)]), "{told:?}");
    let place = told.iter().position(|text| text == "by-cpu-time-us").expect("it is told");
    assert_eq!(told[place + 1], "hot", "{told:?}");
}
