//! The treatment of a request that a node has refused, or that never left.
//!
//! MOVED names the owner of the slot, and ASK the node that has the key while the slot moves; other errors mean that a retry
//! may succeed later. Foreign bytes: after a redirect that cannot be read there is a retry later. Pure functions.

use sleeve_wire::slot::SLOTS;

use crate::error::{Error, ErrorKind};
use crate::transport::node::Address;

/// The treatment of a request that its node has returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot belongs to this node from now on.
    Moved { slot: u16, to: Address },
    /// This request goes to this node, behind ASKING: the slot is being moved to it.
    Ask { to: Address },
    /// A retry may succeed in a moment.
    Later,
    /// A retry may succeed in a moment, and the slot may have another owner by then.
    Changing,
    /// The connection to the node was lost before the request had left.
    Lost,
}

impl Redirect {
    /// Returns the treatment of a request that a node on this host has returned with this error.
    pub(super) fn of(why: &Error, host: &str) -> Self {
        if why.kind() != ErrorKind::Server {
            return Self::Lost;
        }
        let mut words = why.message().split(' ');
        let code = words.next().unwrap_or_default();
        let mut place = || {
            let slot = words.next()?.parse().ok().filter(|&slot: &u16| slot < SLOTS)?;
            Some((slot, Address::read(words.next()?, host)?))
        };
        match code {
            "MOVED" => place().map_or(Self::Changing, |(slot, to)| Self::Moved { slot, to }),
            "ASK" => place().map_or(Self::Changing, |(_, to)| Self::Ask { to }),
            "TRYAGAIN" | "LOADING" | "BUSY" => Self::Later,
            _ => Self::Changing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_says_whither() {
        let of = |text: &str| Redirect::of(&Error::server(text.as_bytes()), "asked");
        let to = |host: &str, port| Address { host: host.to_owned(), port };
        assert_eq!(of("MOVED 5 h:1"), Redirect::Moved { slot: 5, to: to("h", 1) });
        assert_eq!(of("MOVED 5 :1"), Redirect::Moved { slot: 5, to: to("asked", 1) });
        assert_eq!(of("MOVED 5 ::1:7000"), Redirect::Moved { slot: 5, to: to("::1", 7000) });
        assert_eq!(of("ASK 16383 h:1"), Redirect::Ask { to: to("h", 1) });
        assert_eq!(of("TRYAGAIN Multiple keys request"), Redirect::Later);
        assert_eq!(of("LOADING is loading the dataset in memory"), Redirect::Later);
        for changing in
            ["CLUSTERDOWN The cluster is down", "READONLY You can't", "MOVED 16384 h:1", "MOVED", "MOVED x", "ASK 1 h"]
        {
            assert_eq!(of(changing), Redirect::Changing, "{changing}");
        }
        assert_eq!(Redirect::of(&Error::closed("it was"), "asked"), Redirect::Lost);
    }
}
