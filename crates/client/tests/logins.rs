//! Credentials that are renewed on a living connection: errors of a provider or a server that should not happen.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Config, Credentials, ErrorKind, Event};

use crate::scripted::{Requests, config, echo, greet, serve_all, until};

/// The shortest time after which a provider is asked again.
const SOON: Duration = Duration::from_millis(1);

/// The AUTH and HELLO requests that a server got, in words.
type Logins = Arc<Mutex<Vec<String>>>;

/// Starts a server that records the logins, and answers AUTH with this reply. Returns its port and the logins.
fn serve(auth: &'static str) -> (u16, Logins) {
    let logins = Logins::default();
    let noted = Arc::clone(&logins);
    let port = serve_all(move |words| {
        if words.iter().any(|word| word == "AUTH") {
            noted.lock().unwrap().push(words.join(" "));
        }
        if words[0] == "AUTH" { Some(auth.into()) } else { greet(words).or_else(|| echo(words)) }
    });
    (port, logins)
}

/// Opens a client of this configuration; returns it and its reports of refusals.
fn open(config: Config) -> (Client, Receiver<String>) {
    let (sender, refusals) = channel();
    let config = config.on_event(move |event| {
        if let Event::Refused { .. } = event {
            // The receiver no longer exists when the test has ended.
            _ = sender.send(format!("{event} {event:?}"));
        }
    });
    (Client::open_with(config).unwrap(), refusals)
}

/// Returns the first refusal that is about a renewal.
fn told_of_renewal(refusals: &Receiver<String>) -> String {
    loop {
        let told = refusals.recv_timeout(Duration::from_secs(60)).expect("it is told of");
        if told.contains("its credentials are not renewed") {
            return told;
        }
    }
}

/// Connects to a server that refuses every login with this text, on a thread and in async code. Returns the error.
fn refused(login: &str, text: &str) -> String {
    let text = format!("-{text}\r\n");
    let port = serve_all(move |words| Some(if words[0] == "CLIENT" { b"+OK\r\n".into() } else { text.clone().into() }));
    let url = format!("redis://{login}127.0.0.1:{port}");
    let error = Client::connect(&url).map(drop).unwrap_err();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let same = runtime.block_on(Client::connect_async(&url)).map(drop).unwrap_err();
    assert_eq!((error.kind(), &error), (ErrorKind::Connect, &same));
    error.message().to_owned()
}

#[test]
fn a_refused_login_says_which_part_the_url_lacks() {
    let error = refused("", "NOAUTH Authentication required.");
    assert!(error.ends_with("required; give the password in the URL: redis://:password@host"), "{error}");
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    let error = refused("right@", wrong);
    assert!(error.contains("this is a user without a password") && !error.contains("right"), "{error}");
    let error = refused(":wrong@", wrong);
    assert!(error.ends_with(wrong), "{error}");
}

#[test]
fn a_provider_that_hangs_is_told_of_and_asked_again() {
    let (port, logins) = serve("+OK\r\n");
    let (release, released) = channel::<()>();
    let (asked, released) = (AtomicU32::new(0), Mutex::new(released));
    let config = config(port).connect_timeout(Duration::from_millis(300)).credentials(move || {
        Ok::<_, std::io::Error>(match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Credentials::new("first").user("shop").refresh_after(SOON),
            1 => {
                // This call returns after its login has stopped waiting for it.
                _ = released.lock().unwrap().recv();
                Credentials::new("second").user("shop")
            }
            _ => Credentials::new("third").user("shop"),
        })
    });
    let (client, refusals) = open(config);
    let told = told_of_renewal(&refusals);
    assert!(told.contains("nobody has provided credentials within 300ms"), "{told}");
    until("it is asked again", || logins.lock().unwrap().iter().any(|login| login == "AUTH shop third"));
    release.send(()).unwrap();
    assert_eq!(client.echo::<String>("on").wait().as_deref(), Ok("on"));
    assert!(logins.lock().unwrap().iter().all(|login| !login.contains("second")));
}

#[test]
fn an_error_of_a_renewal_is_reported_without_the_password() {
    let (port, _) = serve("-ERR unknown command 'AUTH', with args beginning with: 'shop' 'opensesame' \r\n");
    let (_client, refusals) = open(
        config(port)
            .credentials(|| Ok::<_, std::io::Error>(Credentials::new("opensesame").user("shop").refresh_after(SOON))),
    );
    let told = told_of_renewal(&refusals);
    assert!(told.contains("unknown command 'AUTH'") && !told.contains("opensesame"), "{told}");
}

/// Answers on a connection until this request arrives; returns all requests.
fn converse_until(stream: &mut TcpStream, requests: &mut Requests, last: &str) -> Vec<Vec<String>> {
    let mut heard = Vec::new();
    while requests.receive(stream) {
        while let Some(words) = requests.next() {
            let answer = greet(&words).or_else(|| echo(&words)).unwrap();
            stream.write_all(&answer).unwrap();
            let is_last = words[0] == last;
            heard.push(words);
            if is_last {
                return heard;
            }
        }
    }
    panic!("it hung up before it said {last}: {heard:?}")
}

#[test]
fn a_login_that_has_not_left_ends_with_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (release, released) = channel::<()>();
    let (asked, released) = (AtomicU32::new(0), Mutex::new(released));
    let config = config(port).silence_max(None).credentials(move || {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        let credentials = Credentials::new(format!("token-{number}"));
        Ok::<_, std::io::Error>(match number {
            0 => credentials.refresh_after(SOON),
            _ => {
                if number == 1 {
                    released.lock().unwrap().recv().unwrap();
                }
                credentials
            }
        })
    });
    let client = Client::open_with(config).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    converse_until(&mut stream, &mut Requests::default(), "PING");
    until("it is connected", || client.metrics()[0].is_connected);
    // The value is larger than the system takes at once, and the server does not read.
    let large = client.db(1).set("large", vec![0; 32 << 20]);
    let queued = client.metrics()[0].queued_bytes;
    release.send(()).unwrap();
    until("it is to log in anew", || client.metrics()[0].queued_bytes > queued);
    let behind = client.db(1).echo::<String>("behind");
    drop(stream);
    let (mut stream, _) = listener.accept().unwrap();
    let heard = converse_until(&mut stream, &mut Requests::default(), "ECHO");
    let logins: Vec<_> = heard.iter().filter(|words| words.iter().any(|word| word == "AUTH")).collect();
    assert_eq!(logins, [&["HELLO", "3", "AUTH", "default", "token-2"]]);
    assert_eq!(behind.wait().as_deref(), Ok("behind"));
    large.wait().unwrap();
    assert_eq!(client.metrics()[0].queued_bytes, 0);
}
