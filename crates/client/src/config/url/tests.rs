//! URLs of every kind: their parts, their errors, and no error that repeats a password.

use super::*;

fn read(text: &str) -> Result<Config, Error> {
    super::read(text, PLAIN)
}

#[test]
fn urls_say_where_and_how() {
    let config = read("redis://ann:p%40ss:1@[::1]:7000/3?name=x&command_timeout=250ms&queue=16mb&queue_full=fail");
    let config = config.unwrap();
    assert_eq!(config.endpoint, Endpoint::Tcp { host: "::1".to_owned(), port: 7000 });
    assert_eq!((config.login.user.as_deref(), config.login.password.as_deref()), (Some("ann"), Some("p@ss:1")));
    assert_eq!((config.database, config.name.as_deref()), (3, Some("x")));
    assert_eq!(config.command_timeout, Some(Duration::from_millis(250)));
    assert_eq!((config.limits.queue_bytes_max, config.limits.queue_full), (16 << 20, QueueFull::Fail));
    assert_eq!(
        (config.limits.reply_bytes_max, read("redis://?reply_bytes_max=4gb").unwrap().limits.reply_bytes_max),
        (1 << 30, 4 << 30)
    );
    let config = read("redis://").unwrap();
    assert_eq!(config.endpoint, Endpoint::Tcp { host: "localhost".to_owned(), port: 6379 });
    let config = read("redis://:secret@host?db=2&command_timeout=none&protocol=2").unwrap();
    assert_eq!((config.login.user, config.login.password.as_deref(), config.database), (None, Some("secret"), 2));
    assert_eq!((config.command_timeout, config.protocol), (None, Protocol::Resp2));
    assert_eq!(read("redis://?silence_max=750ms").unwrap().silence_max, Some(Duration::from_millis(750)));
    assert_eq!(read("redis://?silence_max=none").unwrap().silence_max, None);
    assert_eq!(
        ["", "?resend=overwrites", "?resend=nothing"].map(|end| read(&format!("redis://{end}")).unwrap().retry.resend),
        [Resend::Reads, Resend::Overwrites, Resend::Nothing]
    );
    assert!(read("redis://?resend=writes").unwrap_err().message().contains("reads, overwrites or nothing"));
    assert_eq!(
        ["", "?unix_socket=yes", "?unix_socket=no"]
            .map(|end| read(&format!("redis://{end}")).unwrap().same_machine.moves_to_unix_socket),
        [true, true, false]
    );
    assert!(read("redis://?unix_socket=maybe").unwrap_err().message().contains("yes or no"));
    assert!(read("redis://?silence_max=soon").unwrap_err().message().contains("silence_max"));
    assert_eq!(read("unix:///run/a.sock").unwrap().endpoint, Endpoint::Unix("/run/a.sock".into()));
    assert_eq!(read("embedded://").unwrap().endpoint, Endpoint::Embedded(None));
    assert_eq!(read("embedded://x").unwrap().endpoint, Endpoint::Embedded(Some("x".to_owned())));
}

#[test]
fn urls_name_nodes_of_a_cluster() {
    let config = read("redis+cluster://ann:p@a:7000,b,[::1]:7002/3?name=x").unwrap();
    let seeds = vec![("a".to_owned(), 7000), ("b".to_owned(), 6379), ("::1".to_owned(), 7002)];
    assert_eq!(config.endpoint.to_string(), "the cluster of a:7000,b:6379,[::1]:7002");
    assert_eq!(config.endpoint, Endpoint::Cluster(seeds));
    assert_eq!((config.login.user.as_deref(), config.database, config.name.as_deref()), (Some("ann"), 3, Some("x")));
    let config = read("valkey+cluster://").unwrap();
    assert_eq!(config.endpoint, Endpoint::Cluster(vec![("localhost".to_owned(), 6379)]));
}

#[test]
fn urls_of_sentinels_name_them_and_the_service() {
    let config =
        read("redis+sentinel://ann:p%40ss@a,[::1]:5,b:7/my%20shop/3?sentinel_user=s&sentinel_password=t&name=x");
    let config = config.unwrap();
    let sentinels = vec![("a".to_owned(), 26379), ("::1".to_owned(), 5), ("b".to_owned(), 7)];
    assert_eq!(config.endpoint, Endpoint::Sentinel { sentinels, service: "my shop".to_owned() });
    assert_eq!((config.login.user.as_deref(), config.login.password.as_deref()), (Some("ann"), Some("p@ss")));
    assert_eq!(
        (config.sentinel_login.user.as_deref(), config.sentinel_login.password.as_deref()),
        (Some("s"), Some("t"))
    );
    assert_eq!((config.database, config.name.as_deref()), (3, Some("x")));
    assert!(!format!("{config:?}").contains("\"t\""), "{config:?}");
    let config = read("valkey+sentinel:///shop?sentinel_password=t&db=2").unwrap();
    let sentinels = vec![("localhost".to_owned(), 26379)];
    assert_eq!(config.endpoint, Endpoint::Sentinel { sentinels, service: "shop".to_owned() });
    assert_eq!((config.sentinel_login.user, config.sentinel_login.password.as_deref()), (None, Some("t")));
    assert_eq!((config.login.password, config.database), (None, 2));
}

#[cfg(feature = "tls")]
#[test]
fn urls_name_the_certificates_to_trust() {
    for scheme in ["rediss+cluster", "valkeys+cluster"] {
        let config = read(&format!("{scheme}://h,i:1?insecure=yes")).unwrap();
        let seeds = vec![("h".to_owned(), 6379), ("i".to_owned(), 1)];
        assert_eq!((config.endpoint, config.tls), (Endpoint::Cluster(seeds), Some(Tls::new().insecure(true))));
    }
    for scheme in ["rediss+sentinel", "valkeys+sentinel"] {
        let config = read(&format!("{scheme}://h/shop?ca=x")).unwrap();
        assert_eq!(config.tls, Some(Tls::new().ca_file("x")));
    }
    let config = read("rediss://h:1/2?ca=a%2Fb.pem&cert=c&key=k&server_name=s&insecure=yes&name=x").unwrap();
    let tls = Tls::new().ca_file("a/b.pem").certificate("c", "k").server_name("s").insecure(true);
    assert_eq!((config.tls, config.database, config.name.as_deref()), (Some(tls), 2, Some("x")));
    assert_eq!(read("valkeys://h").unwrap().tls, Some(Tls::new()));
    let error = read("rediss://h?insecure=maybe").unwrap_err();
    assert!(error.message().contains("yes or no"), "{error}");
}

#[test]
fn urls_of_other_kinds_say_the_same() {
    assert_eq!(read("valkey://h:1/2").unwrap().database, 2);
    for scheme in ["redis+unix", "valkey+unix"] {
        let config = read(&format!("{scheme}:///run/a@b.sock?db=3")).unwrap();
        assert_eq!((config.endpoint, config.database), (Endpoint::Unix("/run/a@b.sock".into()), 3));
    }
    let config = read("unix://ann:p/s@/run/a.sock").unwrap();
    assert_eq!((config.login.user.as_deref(), config.login.password.as_deref()), (Some("ann"), Some("p/s")));
    let config = read("embedded://x?maxmemory=10mb&name=me").unwrap();
    assert_eq!(config.settings, [("maxmemory".to_owned(), "10mb".to_owned())]);
    assert_eq!(read("redis://ann@h").unwrap().login.password.as_deref(), Some(""), "a user is never left unsaid");
}

#[test]
fn a_scheme_has_no_case() {
    for (url, same) in [("REDIS://h:1/2", "redis://h:1/2"), ("Rediss://h", "rediss://h"), ("UNIX:///A", "unix:///A")] {
        assert_eq!(format!("{:?}", read(url).unwrap()), format!("{:?}", read(same).unwrap()));
    }
}

#[test]
fn a_protocol_has_the_names_of_other_clients_too() {
    for (value, protocol) in
        [("2", Protocol::Resp2), ("resp2", Protocol::Resp2), ("3", Protocol::Resp3), ("resp3", Protocol::Resp3)]
    {
        assert_eq!(read(&format!("redis://?protocol={value}")).unwrap().protocol, protocol);
    }
    let error = read("redis://?protocol=4").unwrap_err();
    assert_eq!(error.message(), "the option \"protocol\" must be 2 or 3 (or resp2 or resp3)");
}

#[test]
fn an_unknown_option_is_answered_with_the_known_ones() {
    let message = |url: &str| read(&format!("{url}?timeout=5")).unwrap_err().message().to_owned();
    let plain = message("redis://h");
    assert!(plain.starts_with("the option \"timeout\" is unknown; the options are db, name,"), "{plain}");
    assert!(plain.contains("command_timeout") && plain.contains("with TLS (rediss://) also ca,"), "{plain}");
    assert!(!plain.contains("read_from") && !plain.contains("sentinel_user"), "{plain}");
    assert!(!message("unix:///run/a.sock").contains("TLS"));
    let cluster = message("redis+cluster://h");
    assert!(cluster.contains("read_from") && !cluster.contains("sentinel_user"), "{cluster}");
    assert!(message("redis+sentinel://h/shop").contains("read_from, sentinel_user, sentinel_password"));
    #[cfg(feature = "tls")]
    assert!(
        message("rediss://h").ends_with("shared_memory, ca, ca_folder, cert, key, key_pass, server_name, insecure")
    );
}

#[test]
fn every_option_of_the_errors_is_known() {
    let mut lists = vec![OPTIONS, REPLICA_OPTIONS, SENTINEL_OPTIONS];
    lists.extend(cfg!(feature = "tls").then_some(TLS_OPTIONS));
    let scheme = if cfg!(feature = "tls") { "rediss" } else { "redis" };
    for name in lists.into_iter().flat_map(|list| list.split(", ")) {
        if let Err(error) = read(&format!("{scheme}+sentinel://h/shop?{name}=%21")) {
            assert!(!error.message().contains("unknown"), "{error}");
        }
    }
}

#[test]
fn an_unreadable_url_part_is_named() {
    for (url, part) in [
        ("localhost:6379", "no URL"),
        ("http://x", "unknown"),
        ("redis://h?ca=x", "unknown"),
        ("redis://h:x", "the port behind the host's colon is not a number up to 65535"),
        ("redis://h/x", "no database"),
        ("redis+cluster://h:1,i:x", "port"),
        ("redis://h?speed=9", "speed"),
        ("embedded://:pass@x", "no password"),
        ("redis://h?command_timeout=9", "no duration"),
        ("redis://h?queue=9x", "no size"),
        ("redis://a%zz@h", "two digits"),
        ("unix://run/a.sock", "absolute"),
        ("redis+sentinel://h:1,h:2", "no service"),
        ("redis+sentinel://h:1,h:x/shop", "port"),
        ("redis+sentinel://h/shop/x", "no database"),
        ("redis://h?sentinel_password=x", "redis+sentinel://"),
    ] {
        let error = read(url).unwrap_err();
        assert!(error.message().contains(part), "{url}: {error}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn parts_missing_in_a_url_of_a_tool_are_given_ones() {
    let read = |url| ServerUrl::read(url, "given", 7).unwrap();
    let place = |host: &str, port| Endpoint::Tcp { host: host.to_owned(), port };
    assert_eq!(read("redis://").endpoint, place("given", 7));
    assert_eq!(read("redis://:9/2").endpoint, place("given", 9));
    assert_eq!(read("redis://h").endpoint, place("h", 7));
    let lone = read("redis://secret@[::1]");
    assert_eq!((lone.user, lone.password.as_deref()), (None, Some("secret")));
    let both = read("rediss://us%40er:p%3Aw@h/3?server_name=x");
    assert_eq!((both.user.as_deref(), both.password.as_deref(), both.database), (Some("us@er"), Some("p:w"), 3));
    assert_eq!(both.tls, Some(Tls::new().server_name("x")));
    assert_eq!(read("redis://user:@h").password, None);
}

#[test]
fn no_error_repeats_a_possible_password() {
    let secrets =
        ["hunter2", "hunter2:x", "hunter2/x", "hunter2?x", "hunter2#x", "hunter2@x", "hunter2%zz", "x&hunter2"];
    let shapes = [
        "S@localhost:6379",
        ":S@localhost",
        "redis:/:S@h",
        "http://:S@h",
        "S://h",
        "redis://:S@h:x",
        "redis+cluster://h,:S@h:x",
        "redis://:S@h/x",
        "redis://S@h/x",
        "redis://ann:S@h?db=x",
        "redis://:S@h?speed=9",
        "redis://:S",
        "redis://h/S",
        "redis://h:S",
        "redis://h?S",
        "redis://h?S@h",
        "redis://h?db=S",
        "redis://h?protocol=S",
        "redis://h?queue=S",
        "redis://h?queue_full=S",
        "redis://h?command_timeout=S",
        "rediss://h?insecure=S",
        "redis://h?password=S",
        "redis+sentinel://:S@h/shop",
        "redis+sentinel://:S@h,h/shop",
        "redis+sentinel://h:S/shop",
        "redis://h?sentinel_password=S",
        "unix://:S@run/a.sock",
        "unix://S",
        "embedded://:S@x",
        "redis://:%zzS@h",
        "redis://:%ffS@h",
    ];
    for shape in shapes {
        for secret in secrets {
            let url = shape.replace('S', secret);
            match read(&url) {
                Ok(config) => assert!(!format!("{config:?}").contains("hunter2"), "{url}: {config:?}"),
                // A word that stands alone in an option's place is shown in the error as an option's name.
                Err(_) if shape == "redis://h?S" => {}
                Err(error) => assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}: {error}"),
            }
        }
    }
}
