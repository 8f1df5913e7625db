//! Servers that follow a test's script after their greeting.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sleeve::{Config, Endpoint, Frame};
use sleeve_wire::frame::{Scanner, decode};

/// The reply of a scripted server to one request: bytes to send back, or `None` to hang up.
pub type Script = Arc<dyn Fn(&[String]) -> Option<Vec<u8>> + Send + Sync>;

/// The longest time that a test may exceed the time that it measures, on however slow a machine.
pub const SLACK: Duration = Duration::from_secs(3);

/// Starts a server that greets well and then follows its script. Returns its port.
pub fn serve(script: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    serve_all(move |words| greet(words).or_else(|| script(words)))
}

/// Starts a server that follows its script from the first request. Returns its port.
pub fn serve_all(script: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    let script: Script = Arc::new(script);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let script = script.clone();
            thread::spawn(move || converse(stream.unwrap(), &script));
        }
    });
    port
}

fn converse(mut stream: TcpStream, script: &Script) {
    // Every server does so. Otherwise the second of two replies waits until the client acknowledges the first, which it does
    // with its next request or after 40 ms; and so does the next, for as long as no caller waits for that long.
    stream.set_nodelay(true).unwrap();
    let mut requests = Requests::default();
    while requests.receive(&mut stream) {
        while let Some(words) = requests.next() {
            let Some(reply) = script(&words) else { return };
            if stream.write_all(&reply).is_err() {
                return;
            }
        }
    }
}

/// The bytes that have arrived on a connection, cut into requests at any cut of the stream.
#[derive(Default)]
pub struct Requests {
    received: Vec<u8>,
    scanner: Scanner,
    /// The words of the whole requests that were not taken yet.
    whole: VecDeque<Vec<String>>,
}

impl Requests {
    /// Waits for more bytes. Returns false if the client has hung up. If the stream has a timeout, the wait may end without
    /// bytes.
    pub fn receive(&mut self, stream: &mut TcpStream) -> bool {
        self.receive_at_most(stream, 65536)
    }

    /// Waits as `receive` does, and takes at most this many bytes.
    pub fn receive_at_most(&mut self, stream: &mut TcpStream, count_max: usize) -> bool {
        let mut room = [0; 65536];
        match stream.read(&mut room[..count_max.min(65536)]) {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&room[..count]);
                self.cut();
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn cut(&mut self) {
        while let Ok(Some(length)) = self.scanner.scan(&self.received) {
            let Ok((Frame::Array(items), _)) = decode(&self.received) else { panic!("no request") };
            let words = items.map(|item| match item {
                Ok(Frame::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
                other => panic!("no word: {other:?}"),
            });
            self.whole.push_back(words.collect());
            self.received.drain(..length);
        }
    }

    /// Returns the words of the oldest request that was not taken.
    pub fn next(&mut self) -> Option<Vec<String>> {
        self.whole.pop_front()
    }

    /// Returns whether a part of a request has arrived, and its end has not.
    pub fn is_amid_one(&self) -> bool {
        !self.received.is_empty()
    }

    /// Returns whether a whole request was not taken.
    pub fn is_waiting(&self) -> bool {
        !self.whole.is_empty()
    }
}

/// Returns whether this request begins a connection. (A HELLO that asks for a Unix socket comes later.)
pub fn begins(words: &[String]) -> bool {
    words[0] == "HELLO" && !words.iter().any(|word| word == "UNIXSOCKET")
}

/// Returns the reply to a request of the greeting, as a server without faults gives it; none for other requests.
pub fn greet(words: &[String]) -> Option<Vec<u8>> {
    match words[0].as_str() {
        "HELLO" => Some(b"%1\r\n+mode\r\n+standalone\r\n".to_vec()),
        "CONFIG" => Some(b"%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n".to_vec()),
        "CLIENT" | "SELECT" => Some(b"+OK\r\n".to_vec()),
        "PING" => Some(b"+PONG\r\n".to_vec()),
        _ => None,
    }
}

/// Returns a configuration with short pauses between attempts to connect.
pub fn config(port: u16) -> Config {
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    Config::new(endpoint).backoff(Duration::from_millis(1), Duration::from_millis(10))
}

/// Answers with the first argument.
pub fn echo(words: &[String]) -> Option<Vec<u8>> {
    let word = words.get(1).map_or("", String::as_str);
    Some(format!("${}\r\n{word}\r\n", word.len()).into_bytes())
}

/// Waits until a condition holds; `what` names it if it never does.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}
