//! The connections of the option `http`: how many, for how long, and which has to go for another.
//!
//! A connection carries one request: its head has to come in time, and so has its end. So a client that says nothing, that sends
//! byte by byte or that never reads holds its place for seconds at most. Where all places are taken, a new connection takes that
//! of the oldest that has its answer and does not go, or of the oldest: a client that asks at once has its answer long before it
//! is the oldest, however many come behind it. A client that asks again connects again, which costs a page a connection a second.
//! All of it runs on the one thread of HTTP.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::{Shutdown, shutdown};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, spawn_blocking, yield_now};
use tokio::time::{sleep, timeout};

use super::probes::Probe;

/// The most connections at a time. Each has at most a head of a request and one answer in memory.
const CONNECTIONS_MAX: usize = 256;

/// The most connections that the kernel may hold before they are accepted, as far as its own limit allows.
const BACKLOG: u32 = 4096;

/// The timeouts of a client.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// The timeout of the request's head.
    pub head: Duration,
    /// The timeout of a connection, from its beginning until its answer has left.
    pub life: Duration,
}

/// The deadlines of the option `http`.
pub const DEADLINES: Deadlines = Deadlines { head: Duration::from_secs(5), life: Duration::from_secs(10) };

/// The most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The longest wait for bytes behind the request, and the most of them. If bytes are unread when a socket closes, the kernel
/// takes the answer back.
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// The number of connections that are accepted before the earlier ones are served: fewer than the runtime runs tasks in one
/// turn. Otherwise the kernel's queue would fill up while the answers are made, and so many connections would come from it
/// that the oldest would have to make room.
const ACCEPTED_AT_ONCE: u32 = 32;

/// The pause after a connection could not be accepted, as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The answer to a request of a client at an address.
pub type Answer = dyn Fn(IpAddr, &Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync;

/// Listens at the first of these addresses that is available. The caller is in the runtime that will serve.
///
/// # Errors
/// That of the last address.
pub fn listen(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        result = listen_at(*address);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts and answers for ever.
pub async fn serve(listener: TcpListener, deadlines: Deadlines, answer: Arc<Answer>) {
    let mut open: VecDeque<Open> = VecDeque::new();
    let mut left = ACCEPTED_AT_ONCE;
    loop {
        left -= 1;
        if left == 0 {
            left = ACCEPTED_AT_ONCE;
            yield_now().await;
        }
        match listener.accept().await {
            Ok((stream, from)) => {
                make_room(&mut open);
                let is_answered = Arc::new(AtomicBool::new(false));
                let (answer, answered) = (Arc::clone(&answer), Arc::clone(&is_answered));
                let one = async move {
                    let mut stream = stream;
                    answer_one(&mut stream, from.ip(), deadlines.head, answer).await;
                    answered.store(true, Ordering::Relaxed);
                    _ = timeout(LINGER_TIME_MAX, linger(&stream)).await;
                };
                let task = tokio::spawn(async move { _ = timeout(deadlines.life, one).await });
                open.push_back(Open { task: task.abort_handle(), is_answered });
            }
            // The client has left before its connection was accepted, or there are too many open files for the moment.
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A connection.
#[derive(Debug)]
struct Open {
    task: AbortHandle,
    /// True if the answer has been handed to the kernel; the connection then only waits for its client to close.
    is_answered: Arc<AtomicBool>,
}

/// Closes a connection if all places are taken: the oldest one with its answer, otherwise the oldest.
fn make_room(open: &mut VecDeque<Open>) {
    if open.len() >= CONNECTIONS_MAX {
        open.retain(|one| !one.task.is_finished());
    }
    if open.len() >= CONNECTIONS_MAX {
        let answered = open.iter().position(|one| one.is_answered.load(Ordering::Relaxed));
        if let Some(one) = open.remove(answered.unwrap_or(0)) {
            one.task.abort();
        }
    }
}

async fn answer_one(stream: &mut TcpStream, from: IpAddr, head_time_max: Duration, answer: Arc<Answer>) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Arc::clone(&answer);
        async move {
            // A probe is answered at once. Other answers wait for locks of the data, which a script may hold for long.
            if Probe::of(request.uri().path(), "").is_some() {
                return Ok::<_, Infallible>(answer(from, &request));
            }
            let made = spawn_blocking(move || answer(from, &request)).await;
            Ok(made.unwrap_or_else(|_| {
                let mut response = Response::new(Full::new(Bytes::from_static(b"the answer could not be made\n")));
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }))
        }
    });
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(head_time_max).max_buf_size(HEAD_BYTES_MAX);
    connection.keep_alive(false).half_close(true);
    // A fault of a connection concerns only its client.
    _ = connection.serve_connection(TokioIo::new(stream), service).without_shutdown().await;
}

/// Closes this side of the connection, and reads the bytes that the client still sends until it has closed its side.
async fn linger(stream: &TcpStream) {
    let mut is_open = shutdown(stream, Shutdown::Write).is_ok();
    let (mut waste, mut left) = ([0; 4096], LINGER_BYTES_MAX);
    while is_open && left > 0 {
        is_open = stream.readable().await.is_ok();
        match stream.try_read(&mut waste) {
            Ok(0) => is_open = false,
            Ok(count) => left = left.saturating_sub(count),
            Err(error) => is_open &= error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as Client;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// More than sockets hold between two programs.
    const BODY_BYTES: usize = 32 << 20;

    /// Runs a client against a port with these deadlines, the other one far away.
    fn with_deadlines<T: Send + 'static>(
        (head_ms, life_ms): (u64, u64),
        client: impl FnOnce(Client, &mpsc::Receiver<()>) -> T + Send + 'static,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = listen(&[SocketAddr::from(([127, 0, 0, 1], 0))]).unwrap();
            let address = listener.local_addr().unwrap();
            let (answered, was_answered) = mpsc::channel();
            let answer = move |_: IpAddr, _: &Request<Incoming>| {
                answered.send(()).unwrap();
                Response::new(Full::new(Bytes::from(vec![b'x'; BODY_BYTES])))
            };
            let deadlines = Deadlines { head: Duration::from_millis(head_ms), life: Duration::from_millis(life_ms) };
            tokio::spawn(serve(listener, deadlines, Arc::new(answer)));
            let client = thread::spawn(move || client(Client::connect(address).unwrap(), &was_answered));
            while !client.is_finished() {
                sleep(Duration::from_millis(5)).await;
            }
            client.join().unwrap()
        })
    }

    #[test]
    fn a_client_that_sends_nothing_or_byte_by_byte_is_let_go() {
        let silent =
            with_deadlines((50, 60_000), |mut stream, _| stream.read(&mut [0; 16]).map_err(|error| error.kind()));
        assert!(matches!(silent, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "{silent:?}");
        with_deadlines((50, 60_000), |mut stream, was_answered| {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-a: ").unwrap();
            // It ends although there is always another byte.
            while stream.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
            assert!(was_answered.try_recv().is_err());
        });
    }

    #[test]
    fn a_client_that_reads_nothing_is_let_go_with_its_answer() {
        let read = with_deadlines((60_000, 300), |mut stream, was_answered| {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            was_answered.recv().unwrap();
            // The other side has ended when a write to it is refused.
            while stream.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
            let mut answer = Vec::new();
            _ = stream.read_to_end(&mut answer);
            answer.len()
        });
        assert!(read < BODY_BYTES, "{read}");
    }
}
