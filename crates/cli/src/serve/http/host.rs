//! The check of `Host`, `Origin` and `Sec-Fetch-Site`: which requests come from pages and programs that may send them.
//!
//! A web page elsewhere can make a browser on this machine send requests here. It cannot read the replies, unless the page's
//! own name is made to lead here (DNS rebinding): then the browser takes this server for the page's own. So a name that is
//! not configured is refused. IP addresses are safe, since rebinding needs a name, and so is `localhost`, which no DNS server
//! answers for. Requests that say that another site sent them are refused too, except that a link may lead to the page. Pure
//! functions.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode, Version};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The names under which HTTP is served.
#[derive(Debug, Clone)]
pub struct Hosts {
    names: Vec<String>,
    allows_any: bool,
}

/// The answer to a request that is refused.
pub type Refused = (StatusCode, String);

impl Hosts {
    /// Returns the accepted names: those of the option `http-hosts`, and the one in `http`, if it has one.
    pub fn new(configured: &str, place: &str) -> Self {
        let of_place = place.rsplit_once(':').map(|(name, _)| name);
        let mut names: Vec<String> = configured.split_ascii_whitespace().chain(of_place).map(canonical).collect();
        names.push("localhost".to_owned());
        let allows_any = names.iter().any(|name| name == "*");
        Self { names, allows_any }
    }

    /// Checks where a request wanted to go and which site sent it.
    ///
    /// # Errors
    /// The answer to give instead.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        let headers = request.headers();
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().map(authority).transpose()?;
        if hosts.next().is_some() {
            return Err((StatusCode::BAD_REQUEST, "a request has one Host".to_owned()));
        }
        let target = request.uri().authority().cloned();
        if host.is_none() && target.is_none() && request.version() >= Version::HTTP_11 {
            return Err((StatusCode::BAD_REQUEST, "a request of HTTP/1.1 has a Host".to_owned()));
        }
        for named in host.iter().chain(&target) {
            self.check_name(named.host())?;
        }
        // If the request line names a host, it has precedence over the header (RFC 9112, 3.2.2).
        check_site(headers, target.or(host).as_ref())
    }

    fn check_name(&self, name: &str) -> Result<(), Refused> {
        let plain = canonical(name);
        if self.allows_any || is_address(&plain) || self.names.contains(&plain) {
            return Ok(());
        }
        let text =
            format!("'{plain}' is no name of this server: add it to the option 'http-hosts', or use the IP address");
        Err((StatusCode::MISDIRECTED_REQUEST, text))
    }
}

/// Returns a name in lower case and without the dot at its end, which make no difference.
fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn is_address(name: &str) -> bool {
    let in_brackets = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match in_brackets {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok(),
    }
}

fn authority(header: &HeaderValue) -> Result<Authority, Refused> {
    let parsed = Authority::try_from(header.as_bytes()).ok();
    // A name of a user belongs in no Host.
    parsed
        .filter(|parsed| !parsed.as_str().contains('@'))
        .ok_or_else(|| (StatusCode::BAD_REQUEST, "Host is no name with or without a port".to_owned()))
}

/// Refuses requests that a page of another site has sent.
fn check_site(headers: &HeaderMap, own: Option<&Authority>) -> Result<(), Refused> {
    let text =
        |name: &HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let is_same = |origin: &str| match (origin.split_once("://"), own) {
        (Some((_, from)), Some(own)) => from.eq_ignore_ascii_case(own.as_str()),
        _ => false,
    };
    let is_foreign = text(&ORIGIN).is_some_and(|origin| !is_same(&origin));
    let is_link = text(&FETCH_MODE).as_deref() == Some("navigate");
    let is_sent_elsewhere = matches!(text(&FETCH_SITE).as_deref(), Some("cross-site" | "same-site"));
    if is_foreign || is_sent_elsewhere && !is_link {
        return Err((StatusCode::FORBIDDEN, "requests of other sites are not answered".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(hosts: &Hosts, target: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        hosts.check(&request.body(()).unwrap()).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn addresses_localhost_and_configured_names_are_served() {
        let hosts = Hosts::new("Metrics.example cache", "inner.example:9121");
        for host in [
            "127.0.0.1",
            "10.1.2.3:9121",
            "[::1]:9121",
            "[fe80::1]",
            "localhost",
            "LOCALHOST.:9121",
            "metrics.EXAMPLE",
            "cache:1",
            "inner.example",
        ] {
            assert_eq!(asked(&hosts, "/", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "2130706433", "xlocalhost"] {
            assert_eq!(asked(&hosts, "/", &[("host", host)]), 421, "{host}");
        }
        for host in ["", "a b", "user@127.0.0.1", "[::1", "127.0.0.1/x"] {
            assert_eq!(asked(&hosts, "/", &[("host", host)]), 400, "{host}");
        }
        assert_eq!(asked(&Hosts::new("*", "9121"), "/", &[("host", "evil.example")]), 200);
    }

    #[test]
    fn a_target_and_a_second_host_are_looked_at_too() {
        let hosts = Hosts::new("", "9121");
        assert_eq!(asked(&hosts, "/", &[]), 400);
        assert_eq!(asked(&hosts, "http://evil.example/", &[("host", "127.0.0.1")]), 421);
        assert_eq!(asked(&hosts, "http://127.0.0.1/", &[("host", "evil.example")]), 421);
        assert_eq!(asked(&hosts, "http://127.0.0.1/", &[("host", "127.0.0.1")]), 200);
        assert_eq!(asked(&hosts, "/", &[("host", "127.0.0.1"), ("host", "127.0.0.1")]), 400);
        let old = Request::builder().version(Version::HTTP_10).uri("/").body(()).unwrap();
        assert_eq!(hosts.check(&old), Ok(()));
    }

    #[test]
    fn requests_of_another_site_are_refused_and_links_are_not() {
        let hosts = Hosts::new("", "9121");
        let with = |more: &[(&str, &str)]| asked(&hosts, "/", &[&[("host", "localhost:9121")], more].concat());
        assert_eq!(with(&[("origin", "http://localhost:9121")]), 200);
        assert_eq!(with(&[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")]), 200);
        assert_eq!(with(&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]), 200);
        assert_eq!(with(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]), 200);
        for foreign in ["http://evil.example", "null", "http://localhost:1", "http://localhost:9121.evil.example"] {
            assert_eq!(with(&[("origin", foreign)]), 403, "{foreign}");
        }
        assert_eq!(with(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]), 403);
        assert_eq!(with(&[("sec-fetch-site", "same-site")]), 403);
    }
}
