//! The probes of orchestrators and load balancers: whether the server lives, serves, and in which role. Pure functions.
//!
//! They need no password and tell no data. A proxy that sends HTTP/1.0 without a host, and a kubelet that asks by the address
//! of the pod, are answered too.

use hyper::StatusCode;
use sleeve_server::engine::Service;

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

    /// Returns the answer: status 200 for yes and 503 for no, and the reason in a line.
    pub fn answer(self, service: Service) -> (StatusCode, &'static str) {
        match self.judge(service) {
            Ok(yes) => (StatusCode::OK, yes),
            Err(no) => (StatusCode::SERVICE_UNAVAILABLE, no),
        }
    }

    fn judge(self, service: Service) -> Result<&'static str, &'static str> {
        match (self, service.replica_is_linked) {
            (Self::Live, _) => Ok("the process answers\n"),
            _ if service.is_loading => Err("the data is being loaded\n"),
            _ if service.is_ending => Err("the server is shutting down\n"),
            (Self::Primary, Some(_)) => Err("this is a replica\n"),
            (Self::Replica, None) => Err("this is a primary\n"),
            (Self::Ready { stale: false } | Self::Replica, Some(false)) => Err("the link to the primary is down\n"),
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
        let primary = Service { is_loading: false, is_ending: false, replica_is_linked: None };
        let replica = |is_linked| Service { replica_is_linked: Some(is_linked), ..primary };
        let cases = [
            (primary, [true, true, true, true, false]),
            (Service { is_loading: true, ..primary }, [true, false, false, false, false]),
            (Service { is_ending: true, ..primary }, [true, false, false, false, false]),
            (replica(true), [true, true, true, false, true]),
            (replica(false), [true, false, true, false, false]),
            (Service { is_loading: true, ..replica(false) }, [true, false, false, false, false]),
        ];
        for (service, wanted) in cases {
            assert_eq!(probes.map(|probe| probe.answer(service).0 == StatusCode::OK), wanted, "{service:?}");
        }
        assert_eq!(Probe::of("/metrics", ""), None);
    }
}
