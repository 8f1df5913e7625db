//! The option `http`: metrics for Prometheus and a page for people, over HTTP.
//!
//! | path | contents |
//! | --- | --- |
//! | `/` | a page that shows `/status` and goes on asking for it |
//! | `/status` | INFO, the logs of commands, the keys that are used most, and the samples for charts (`status`, `history`), as JSON |
//! | `/clients` | the clients that take most memory, as JSON (`clients`) |
//! | `/keys` | a step of a walk that looks for large keys, as JSON (`keys`) |
//! | `/metrics` | INFO in Prometheus's text format (`metrics`) |
//! | `/live`, `/ready`, `/primary`, `/replica` | status 200 or 503, for orchestrators and load balancers (`probes`) |
//!
//! One thread with a runtime of its own serves all connections, apart from the workers (`connections`), under names that are
//! its own (`host`). It answers probes itself. Two more threads ask the engine, because a script may hold the data for long. A
//! request is made as a user of the server (`asking`), with HTTP's Basic authentication where there is a password. Its
//! commands are in no statistic. There is no TLS: a server that listens beyond its machine has a proxy in front. It refuses to
//! change anything: only GET and HEAD are understood.

mod asking;
mod budget;
mod clients;
mod connections;
mod history;
mod host;
mod info;
mod keys;
mod metrics;
mod probes;
mod shown;
mod status;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use sleeve_server::engine::Service;
use sleeve_server::{Engine, Opt};
use tokio::time::{MissedTickBehavior, interval};

use asking::{Asking, Refusal};
use budget::{Budget, Recent};
use history::History;
use host::Hosts;
use metrics::besides::Besides;
use probes::Probe;

/// The page and its parts: the path, the text and its kind. `uplot` is a library (its licence lies beside it).
const FILES: [(&str, &str, &str); 5] = [
    ("/", include_str!("page/page.html"), "text/html; charset=utf-8"),
    ("/page.js", include_str!("page/page.js"), "text/javascript; charset=utf-8"),
    ("/page.css", include_str!("page/page.css"), "text/css; charset=utf-8"),
    ("/uplot.js", include_str!("page/uplot.js"), "text/javascript; charset=utf-8"),
    ("/uplot.css", include_str!("page/uplot.css"), "text/css; charset=utf-8"),
];

/// The threads that ask the engine: one for the samples, one for the answers.
const ASKING_THREADS: usize = 2;

const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Headers of every response: nothing of another site is loaded, and no other site shows or loads these pages.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

/// The state from which requests are answered.
struct Site {
    engine: Arc<Engine>,
    hosts: Hosts,
    history: History,
    budget: Mutex<Budget>,
    scrapes: Mutex<Recent<Bytes>>,
}

/// Serves at the address that the option `http` names, if any, until the process ends; returns a line for the server log.
///
/// # Errors
/// A sentence for the server log: the address at which it cannot listen, and the reason.
pub fn start(engine: &Arc<Engine>) -> Result<Option<String>, String> {
    let place = text(engine, Opt::Http);
    if place.is_empty() {
        return Ok(None);
    }
    let cannot = |why: String| format!("Cannot serve HTTP at '{place}': {why}");
    let addresses = addresses(&place).map_err(cannot)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().max_blocking_threads(ASKING_THREADS).build();
    let runtime = runtime.map_err(|error| cannot(error.to_string()))?;
    let entered = runtime.enter();
    let listener = connections::listen(&addresses).map_err(|error| cannot(error.to_string()))?;
    drop(entered);
    let address = listener.local_addr().map_err(|error| cannot(error.to_string()))?;
    let hosts = Hosts::new(&text(engine, Opt::HttpHosts), &place);
    let site = Arc::new(Site {
        engine: Arc::clone(engine),
        hosts,
        history: History::default(),
        budget: Mutex::new(Budget::new(Instant::now())),
        scrapes: Mutex::default(),
    });
    let thread = thread::Builder::new().name("http".to_owned());
    let running = thread.spawn(move || {
        runtime.spawn(remember(Arc::clone(&site)));
        let answer = Arc::new(move |from, request: &_| site.answer(from, request));
        runtime.block_on(connections::serve(listener, connections::DEADLINES, answer));
    });
    running.map_err(|error| cannot(error.to_string()))?;
    Ok(Some(format!("Metrics and a page are served at http://{address}/")))
}

fn text(engine: &Engine, option: Opt) -> String {
    String::from_utf8_lossy(&engine.config.text(option)).into_owned()
}

/// Takes a sample of the figures for charts each second.
async fn remember(site: Arc<Site>) {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (site, now_ms) = (Arc::clone(&site), u64::try_from(now.as_millis()).unwrap_or(0));
        _ = tokio::task::spawn_blocking(move || site.history.take(&site.engine, now_ms)).await;
    }
}

/// Returns the addresses of a port of this machine's loopback, or of an address with a port.
fn addresses(place: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(port) = place.parse::<u16>() {
        return Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]);
    }
    let found = place.to_socket_addrs().map_err(|error| format!("give a port, or an address and a port: {error}"))?;
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err("the name has no address".to_owned()) } else { Ok(found) }
}

impl Site {
    fn answer<B>(&self, from: IpAddr, request: &Request<B>) -> Response<Full<Bytes>> {
        let mut response = self.respond(from, request);
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    fn respond<B>(&self, from: IpAddr, request: &Request<B>) -> Response<Full<Bytes>> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let probe = Probe::of(path, query);
        if let Err((status, why)) = self.hosts.check(request).or_else(|refused| probe.map(drop).ok_or(refused)) {
            return plain(status, format!("{why}\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are understood here\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if let Some(probe) = probe {
            let (status, text) = probe.answer(Service::of(&self.engine));
            return plain(status, text);
        }
        let authorization = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let told =
            Asking::begin(&self.engine, from, authorization).and_then(|mut asking| self.tell(&mut asking, path, query));
        match told {
            Ok(Some((text, kind))) => {
                let mut response = plain(StatusCode::OK, text);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                response
            }
            Ok(None) => plain(
                StatusCode::NOT_FOUND,
                "there are /, /status, /clients, /keys, /metrics, and the probes /live, /ready, /primary and /replica\n",
            ),
            Err(Refusal::Unknown) => {
                let mut response =
                    plain(StatusCode::UNAUTHORIZED, "a user of the server and the password are needed\n");
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"sleeve\""));
                response
            }
            Err(Refusal::Forbidden(why)) => plain(StatusCode::FORBIDDEN, format!("{why}\n")),
            Err(Refusal::Later(why)) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
    }

    /// Returns the text at a path and its kind; none if nothing is there.
    fn tell(&self, asking: &mut Asking, path: &str, query: &str) -> Result<Option<(Bytes, &'static str)>, Refusal> {
        if let Some((_, text, kind)) = FILES.iter().find(|(own, ..)| *own == path) {
            if path == "/" {
                // A browser asks for a password where the page itself does.
                asking.ask(&["INFO", "server"])?;
            }
            return Ok(Some((Bytes::from_static(text.as_bytes()), kind)));
        }
        if path == "/metrics" {
            return self.scrape(asking, query).map(|text| Some((text, PROMETHEUS)));
        }
        let began = Instant::now();
        if !self.budget.lock().has_some(began) {
            return Err(Refusal::Later("too many requests: try again".to_owned()));
        }
        let told = self.figures(asking, path, query);
        self.budget.lock().spend(began.elapsed());
        Ok(told?.map(|text| (text.into(), JSON)))
    }

    /// Returns the data that the page shows.
    fn figures(&self, asking: &mut Asking, path: &str, query: &str) -> Result<Option<String>, Refusal> {
        Ok(Some(match path {
            "/status" => {
                let status = Value::Object(status::json(asking)?);
                // A user that may ask for INFO may read its history, too.
                format!("{{\"now\":{status},\"history\":{{{}}}}}", self.history.json(query))
            }
            "/clients" => clients::json(asking)?,
            "/keys" => keys::json(asking, query)?,
            _ => return Ok(None),
        }))
    }

    /// Returns the metrics; if the same user asked a moment ago, the same ones again.
    fn scrape(&self, asking: &mut Asking, query: &str) -> Result<Bytes, Refusal> {
        let with_old_units = query.split('&').any(|pair| pair == "names=exporter");
        let key = format!("{with_old_units} {}", asking.user());
        let now = Instant::now();
        if let Some(text) = self.scrapes.lock().find(&key, now) {
            return Ok(text);
        }
        let info = asking.info()?;
        let text = Bytes::from(metrics::text(&info, &Besides::ask(asking), with_old_units));
        self.scrapes.lock().keep(key, text.clone(), Instant::now());
        Ok(text)
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
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
