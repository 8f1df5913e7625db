//! The option `http`: metrics for Prometheus and a page for people, over HTTP.
//!
//! | path | what it is |
//! | --- | --- |
//! | `/` | a page that shows `/status` and goes on asking for it |
//! | `/status` | INFO, the logs of commands and the keys that are used most, as JSON (`status`) |
//! | `/keys` | a step of a walk that looks for large keys, as JSON (`keys`) |
//! | `/metrics` | INFO in Prometheus's text format (`metrics`) |
//!
//! One thread with a runtime of its own serves all of it, apart from the workers; who asks is a user of the server (`asking`),
//! with HTTP's Basic authentication where there is a password. There is no TLS: whoever listens beyond this machine puts a proxy
//! in front. It refuses to change anything: only GET and HEAD are understood.

mod asking;
mod keys;
mod metrics;
mod status;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sleeve_server::{Engine, Opt};
use tokio::sync::Semaphore;

use asking::{Asking, Refusal};
use metrics::Besides;

/// Connections at a time; more wait.
const CONNECTIONS_MAX: usize = 32;

/// How long a request's head may take, and how long a connection may say nothing.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);

const PAGE: &str = include_str!("page.html");

/// Serves where the option `http` says, if it says anything, until the process ends; what the log is to say of it.
///
/// # Errors
/// A sentence for the log: what cannot be listened on.
pub fn start(engine: &Arc<Engine>) -> Result<Option<String>, String> {
    let place = engine.config.text(Opt::Http);
    let place = String::from_utf8_lossy(&place);
    if place.is_empty() {
        return Ok(None);
    }
    let cannot = |why: String| format!("Cannot serve HTTP at '{place}': {why}");
    let addresses = addresses(&place).map_err(cannot)?;
    let listener = TcpListener::bind(&addresses[..]).map_err(|error| cannot(error.to_string()))?;
    let address = listener.local_addr().map_err(|error| cannot(error.to_string()))?;
    listener.set_nonblocking(true).map_err(|error| cannot(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| cannot(error.to_string()))?;
    let engine = Arc::clone(engine);
    let thread = thread::Builder::new().name("http".to_owned());
    let running = thread.spawn(move || _ = runtime.block_on(accept(listener, engine)));
    running.map_err(|error| cannot(error.to_string()))?;
    Ok(Some(format!("Metrics and a page are served at http://{address}/")))
}

/// A port of this machine's loopback, or an address with a port.
fn addresses(place: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(port) = place.parse::<u16>() {
        return Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]);
    }
    let found = place.to_socket_addrs().map_err(|error| format!("give a port, or an address and a port: {error}"))?;
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err("the name has no address".to_owned()) } else { Ok(found) }
}

async fn accept(listener: TcpListener, engine: Arc<Engine>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Somebody left before he was let in, or there are too many open files for the moment.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = answer(&engine, from.ip(), &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(16 * 1024);
            // What is wrong with a connection is its client's affair.
            _ = connection.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

fn answer(engine: &Arc<Engine>, from: IpAddr, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is understood here\n");
    }
    let authorization = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let told = Asking::begin(engine, from, authorization).and_then(|mut asking| match request.uri().path() {
        // A browser asks for a password where the page itself does.
        "/" => asking.ask(&["INFO", "server"]).map(|_| Some((PAGE.to_owned(), "text/html; charset=utf-8"))),
        "/status" => status::json(&mut asking).map(|text| Some((text, "application/json"))),
        "/keys" => {
            let query = request.uri().query().unwrap_or_default();
            keys::json(&mut asking, query).map(|text| Some((text, "application/json")))
        }
        "/metrics" => {
            let info = asking.text(&["INFO", "everything"])?;
            let slow = asking
                .ask(&["SLOWLOG", "LEN"])
                .ok()
                .and_then(|reply| String::from_utf8(reply).ok()?.strip_prefix(':')?.trim_end().parse().ok());
            let besides = Besides { slow, hottest_share: status::hottest_share(&mut asking) };
            Ok(Some((metrics::text(&info, &besides), "text/plain; version=0.0.4; charset=utf-8")))
        }
        _ => Ok(None),
    });
    match told {
        Ok(Some((text, kind))) => {
            let mut response = plain(StatusCode::OK, text);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            let policy =
                "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            response
        }
        Ok(None) => plain(StatusCode::NOT_FOUND, "there are /, /status, /keys and /metrics\n"),
        Err(Refusal::Unknown) => {
            let mut response = plain(StatusCode::UNAUTHORIZED, "a user of the server and the password are needed\n");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"sleeve\""));
            response
        }
        Err(Refusal::Forbidden(why)) => plain(StatusCode::FORBIDDEN, format!("{why}\n")),
        Err(Refusal::Later(why)) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        assert_eq!(addresses("9121"), Ok(vec![SocketAddr::from(([127, 0, 0, 1], 9121))]));
        assert_eq!(addresses("0.0.0.0:80"), Ok(vec![SocketAddr::from(([0, 0, 0, 0], 80))]));
        assert_eq!(addresses("[::1]:80").unwrap().len(), 1);
        for wrong in ["99999", "localhost", "127.0.0.1:x"] {
            assert!(addresses(wrong).unwrap_err().contains("give a port"), "{wrong}");
        }
    }
}
