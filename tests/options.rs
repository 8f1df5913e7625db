//! Options as Redis has them: what a configuration file of Redis becomes here.

use sleeve_server::config::{Config, arguments, load};
use sleeve_tests::transcript::frame::leaves;
use sleeve_tests::{Kind, Server};

#[test]
fn a_file_with_every_option_of_redis_at_its_default_starts_this_server() {
    let redis = Server::start(Kind::Redis);
    let reply = redis.connect().command(&["CONFIG", "GET", "*"]).expect("a reply");
    let words: Vec<String> = leaves(&reply).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let lines: Vec<String> = words.chunks_exact(2).map(|pair| format!("{} \"{}\"\n", pair[0], pair[1])).collect();
    assert!(lines.len() > 150, "{lines:?}");
    for line in &lines {
        let arguments = arguments::parse(&[b"-".to_vec()]);
        let loaded = load::load(&Config::default(), &arguments, line.as_bytes());
        loaded.unwrap_or_else(|error| panic!("{line}{error}"));
    }
}
