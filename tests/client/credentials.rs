//! Credentials from a provider: asked for at each greeting, and shown anew on a living connection.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Credentials, Endpoint, Event, Protocol};
use sleeve_tests::{Kind, Server};

fn config(server: &Server) -> Config {
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: server.port() };
    Config::new(endpoint).backoff(Duration::from_millis(1), Duration::from_millis(20))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn whoami(client: &Client) -> String {
    client.cmd("ACL").arg("WHOAMI").send::<String>().wait().unwrap()
}

/// Returns the number of logins by AUTH.
fn logins(server: &Server) -> u32 {
    let stats = String::from_utf8(server.connect().command(&["INFO", "commandstats"]).unwrap()).unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_auth:")).unwrap_or_default();
    let field = |name: &str| line.split(&[':', ','][..]).find_map(|field| field.strip_prefix(name)?.parse().ok());
    field("calls=").unwrap_or(0) - field("failed_calls=").unwrap_or(0)
}

#[test]
fn a_rotated_password_is_shown_while_the_connection_goes_on() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        for protocol in [Protocol::Resp3, Protocol::Resp2] {
            let server = Server::start(kind);
            let admin = |words: &str| {
                let words: Vec<&str> = words.split(' ').collect();
                assert_eq!(server.connect().command(&words).unwrap(), b"+OK\r\n", "{words:?}");
            };
            admin("ACL SETUSER shop on >first ~* &* +@all");
            let password = Arc::new(Mutex::new("first"));
            let (given, asked) = (password.clone(), Arc::new(AtomicU32::new(0)));
            let (count, (sender, refused)) = (asked.clone(), std::sync::mpsc::channel());
            let config = config(&server).protocol(protocol).credentials(move || {
                count.fetch_add(1, Ordering::SeqCst);
                let password = *given.lock().unwrap();
                let credentials = Credentials::new(password).user("shop").refresh_after(Duration::from_millis(1));
                if password.is_empty() { Err("the vault is shut") } else { Ok(credentials) }
            });
            let config = config.on_event(move |event| {
                if let Event::Refused { error, .. } = event {
                    sender.send(error.message().to_owned()).unwrap();
                }
            });
            let client = Client::connect_with(config).unwrap();
            let id = client.client_id().wait().unwrap();
            admin("ACL SETUSER shop >second");
            *password.lock().unwrap() = "second";
            let before = logins(&server);
            until("it is shown", || {
                client.incr("n").wait().unwrap();
                logins(&server) > before + 1
            });
            admin("ACL SETUSER shop <first");
            assert_eq!((whoami(&client).as_str(), client.client_id().wait().unwrap()), ("shop", id), "{}", kind.name());
            // A wrong password is reported, and costs nothing while the server keeps the connection logged in.
            for (wrong, told) in [("third", "WRONGPASS"), ("", "the vault is shut")] {
                *password.lock().unwrap() = wrong;
                let told_so = refused.iter().find(|why| why.contains(told)).unwrap();
                assert!(told_so.contains("its credentials are not renewed"), "{told_so}");
                assert_eq!(client.client_id().wait().unwrap(), id);
            }
            // Another connection is made with the credentials of that moment; until then commands wait for it.
            let killed = server.connect().command(&["CLIENT", "KILL", "ID", &id.to_string()]).unwrap();
            assert_eq!(killed, b":1\r\n");
            let waiting = client.incr("n");
            *password.lock().unwrap() = "second";
            waiting.wait().unwrap_or(0);
            until("it is there again", || client.incr("n").wait().is_ok());
            assert_ne!(client.client_id().wait().unwrap(), id);
            assert_eq!(whoami(&client), "shop");
            assert!(asked.load(Ordering::SeqCst) > 3);
        }
    }
}

#[test]
fn a_slow_provider_holds_up_no_caller() {
    let server = Server::start(Kind::Sleeve);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let slow = config(&server).credentials(move || {
        released.lock().unwrap().recv().unwrap();
        Ok::<_, std::io::Error>(Credentials::new("").user("default"))
    });
    let (waiting, other) = (Client::open_with(slow).unwrap(), Client::connect_with(config(&server)).unwrap());
    let reply = waiting.incr("n");
    for number in 0..100 {
        assert_eq!(other.incr("m").wait(), Ok(number + 1));
    }
    assert!(!reply.is_ready());
    release.send(()).unwrap();
    assert_eq!(reply.wait(), Ok(1));
    // A provider that panics counts as one that has failed.
    let broken = config(&server).credentials(|| -> Result<Credentials, std::io::Error> { panic!("on purpose") });
    let error = Client::connect_with(broken).unwrap_err();
    assert!(error.message().contains("nobody has provided credentials"), "{error}");
}
