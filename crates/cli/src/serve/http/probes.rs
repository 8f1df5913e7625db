//! The probes of orchestrators and load balancers: whether the server lives, serves, and in which role. Pure functions.
//!
//! They need no password and tell no data. A proxy that sends HTTP/1.0 without a host, and a kubelet that asks by the address
//! of the pod, are answered too.

use hyper::StatusCode;

use super::info::Info;

/// A probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `/live`: the process answers.
    Live,
    /// `/ready`: clients can be sent here. With `stale=yes` in the query, a replica is ready too while its link is down.
    Ready { stale: bool },
    /// `/primary`: writes can be sent here.
    Primary,
    /// `/replica`: reads of a replica can be sent here.
    Replica,
}

impl Probe {
    /// Returns the probe at a path; none if there is another thing, or nothing.
    pub fn of(path: &str, query: &str) -> Option<Self> {
        Some(match path {
            "/live" => Self::Live,
            "/ready" => Self::Ready { stale: query.split('&').any(|pair| pair == "stale=yes") },
            "/primary" => Self::Primary,
            "/replica" => Self::Replica,
            _ => return None,
        })
    }

    /// Returns the answer: status 200 for yes and 503 for no, and the reason in a line. The text is that of INFO.
    pub fn answer(self, info: &str) -> (StatusCode, &'static str) {
        let verdict = if self == Self::Live { Ok("the process answers\n") } else { self.judge(&Info::new(info)) };
        match verdict {
            Ok(yes) => (StatusCode::OK, yes),
            Err(no) => (StatusCode::SERVICE_UNAVAILABLE, no),
        }
    }

    fn judge(self, info: &Info<'_>) -> Result<&'static str, &'static str> {
        let has = |name: &str, value: &str| info.text(name) == Some(value);
        if info.text("role").is_none() {
            return Err("INFO is not answered\n");
        }
        if has("loading", "1") || has("async_loading", "1") {
            return Err("the data is being loaded\n");
        }
        if info.text("shutdown_in_milliseconds").is_some() {
            return Err("the server is shutting down\n");
        }
        let (is_replica, is_linked) = (has("role", "slave"), has("master_link_status", "up"));
        match self {
            Self::Primary if is_replica => Err("this is a replica\n"),
            Self::Replica if !is_replica => Err("this is a primary\n"),
            Self::Ready { stale: true } => Ok("clients are served\n"),
            _ if is_replica && !is_linked => Err("the link to the primary is down\n"),
            _ => Ok("clients are served\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_tell_loading_the_role_and_the_link() {
        let probes = ["/live", "/ready", "/ready?stale=yes", "/primary", "/replica"].map(|uri| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            Probe::of(path, query).expect("a probe")
        });
        let cases = [
            ("loading:0\r\nrole:master\r\n", [true, true, true, true, false]),
            ("loading:1\r\nrole:master\r\n", [true, false, false, false, false]),
            ("loading:0\r\nrole:master\r\nshutdown_in_milliseconds:900\r\n", [true, false, false, false, false]),
            ("loading:0\r\nrole:slave\r\nmaster_link_status:up\r\n", [true, true, true, false, true]),
            ("loading:0\r\nrole:slave\r\nmaster_link_status:down\r\n", [true, false, true, false, false]),
            ("", [true, false, false, false, false]),
            ("async_loading:1\r\nrole:slave\r\nmaster_link_status:down\r\n", [true, false, false, false, false]),
        ];
        for (info, wanted) in cases {
            assert_eq!(probes.map(|probe| probe.answer(info).0 == StatusCode::OK), wanted, "{info}");
        }
        assert_eq!(Probe::of("/metrics", ""), None);
    }
}
