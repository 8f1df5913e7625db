//! Settings of an embedded engine, as its URL and its configuration give them.
#![cfg(feature = "embedded")]

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, ErrorKind};

#[test]
fn an_engine_is_made_with_the_settings_of_its_url() {
    let client = Client::connect("embedded://?maxmemory=10mb&databases=64&maxmemory-policy=noeviction").unwrap();
    let shown: Vec<(String, String)> =
        client.cmd("CONFIG").arg(("GET", "maxmemory", "databases")).send().wait().unwrap();
    assert!(shown.contains(&("maxmemory".to_owned(), "10485760".to_owned())), "{shown:?}");
    client.db(63).set("a", 1).wait().unwrap();
    let refused =
        client.set("large", "x".repeat(11 << 20)).wait().and_then(|()| client.set("b", 1).wait()).unwrap_err();
    assert_eq!((refused.code(), refused.effect()), (Some("OOM"), Effect::Refused), "{refused}");
    assert!(refused.to_string().ends_with("(refused, not applied)"), "{refused}");
}

#[test]
fn a_setting_without_effect_is_refused() {
    for (url, part) in [
        ("embedded://?maxmemory=lots", "\"maxmemory\" cannot be had"),
        ("embedded://?port=6379", "one of servers"),
        ("embedded://?tls-port=6379", "one of servers"),
        ("embedded://?maxmemmory=1mb", "\"maxmemmory\" is unknown"),
        ("embedded://?appendonly=yes", "\"appendonly\" cannot be had"),
        ("embedded://?db=16", "out of range"),
    ] {
        let error = Client::connect(url).unwrap_err();
        assert!(error.message().contains(part), "{url}: {error}");
    }
}

#[test]
fn an_engine_that_is_there_already_keeps_its_settings() {
    let config = Config::new(Endpoint::Embedded(Some("settings".to_owned()))).engine("databases", "3");
    let first = Client::connect_with(config).unwrap();
    first.db(2).set("a", 1).wait().unwrap();
    let again = Client::connect("embedded://settings?databases=3&db=2").unwrap();
    assert_eq!(again.get::<i64>("a").wait(), Ok(1));
    let error = Client::connect("embedded://settings?databases=4").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.message().contains("runs already with another \"databases\""), "{error}");
}

#[test]
fn an_engine_with_a_folder_has_its_data_again_and_is_exclusive() {
    let folder = std::env::temp_dir().join(format!("sleeve-embedded-{}/deep", std::process::id()));
    let url = format!("embedded://{}", folder.display());
    for round in 1..=5 {
        let client = Client::connect(&url).unwrap();
        assert_eq!(client.incr("rounds").wait(), Ok(round));
        // Another client of this process uses the same engine.
        let other = Client::connect(&format!("{url}?db=1")).unwrap();
        other.set("elsewhere", round).wait().unwrap();
    }
    let client = Client::connect(&url).unwrap();
    assert_eq!(client.db(1).get::<i64>("elsewhere").wait(), Ok(5));
    let lock =
        std::fs::OpenOptions::new().read(true).write(true).open(folder.join("appendonlydir/appendonly.aof.lock"));
    let lock = lock.expect("the lock of the log");
    assert!(matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock)), "the folder is free for another");
    drop(client);
    std::fs::remove_dir_all(folder.parent().expect("it has one")).expect("removed");
}
