//! Servers that do what a test tells them: the greeting, and then a script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sleeve::{Config, Endpoint, Frame};
use sleeve_wire::frame::{Scanner, decode};

/// What a scripted server does with one request: bytes to send back, or `None` to hang up.
pub type Script = Arc<dyn Fn(&[String]) -> Option<Vec<u8>> + Send + Sync>;

/// What no test of time may take longer than beyond what it measures, on however slow a machine.
pub const SLACK: Duration = Duration::from_secs(3);

/// A server that greets well and then follows its script. Returns its port.
pub fn serve(script: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    serve_all(move |words| greet(words).or_else(|| script(words)))
}

/// A server that follows its script from the first word. Returns its port.
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
    let (mut received, mut scanner) = (Vec::new(), Scanner::new());
    let mut room = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        received.extend_from_slice(&room[..count]);
        while let Ok(Some(length)) = scanner.scan(&received) {
            let Ok((Frame::Array(items), _)) = decode(&received) else { return };
            let words: Vec<String> = items
                .map(|item| match item {
                    Ok(Frame::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
                    other => panic!("no word: {other:?}"),
                })
                .collect();
            received.drain(..length);
            let Some(reply) = script(&words) else { return };
            if stream.write_all(&reply).is_err() {
                return;
            }
        }
    }
}

/// A well-behaved greeting.
pub fn greet(words: &[String]) -> Option<Vec<u8>> {
    match words[0].as_str() {
        "HELLO" => Some(b"%1\r\n+mode\r\n+standalone\r\n".to_vec()),
        "CONFIG" => Some(b"%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n".to_vec()),
        "CLIENT" | "SELECT" => Some(b"+OK\r\n".to_vec()),
        "PING" => Some(b"+PONG\r\n".to_vec()),
        _ => None,
    }
}

/// A configuration that comes back quickly.
pub fn config(port: u16) -> Config {
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    Config::new(endpoint).backoff(Duration::from_millis(1), Duration::from_millis(10))
}

/// The first argument as the answer.
pub fn echo(words: &[String]) -> Option<Vec<u8>> {
    let word = words.get(1).map_or("", String::as_str);
    Some(format!("${}\r\n{word}\r\n", word.len()).into_bytes())
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}
