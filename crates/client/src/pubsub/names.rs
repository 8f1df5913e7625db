//! The names that a subscription is to have, and the commands by which they are added and removed.
//!
//! Pure data; the owner of the lock on a subscription has its names.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::resp::request::Request;
use crate::transport::cluster::slots::slot_of_all;

/// The commands of a subscription, which its server confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionVerb {
    Subscribe,
    PSubscribe,
    SSubscribe,
    Unsubscribe,
    PUnsubscribe,
    SUnsubscribe,
}

impl SubscriptionVerb {
    /// The verbs that add names.
    pub(crate) const ADDING: [Self; 3] = [Self::Subscribe, Self::PSubscribe, Self::SSubscribe];

    /// Returns the command.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Subscribe => "SUBSCRIBE",
            Self::PSubscribe => "PSUBSCRIBE",
            Self::SSubscribe => "SSUBSCRIBE",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::PUnsubscribe => "PUNSUBSCRIBE",
            Self::SUnsubscribe => "SUNSUBSCRIBE",
        }
    }

    /// Returns the verb that is confirmed by a confirmation with this first word.
    pub(crate) fn confirmed(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"subscribe" => Self::Subscribe,
            b"psubscribe" => Self::PSubscribe,
            b"ssubscribe" => Self::SSubscribe,
            b"unsubscribe" => Self::Unsubscribe,
            b"punsubscribe" => Self::PUnsubscribe,
            b"sunsubscribe" => Self::SUnsubscribe,
            _ => return None,
        })
    }

    /// Returns whether the verb adds names, and the index of the set that it changes.
    fn place(self) -> (bool, usize) {
        match self {
            Self::Subscribe => (true, 0),
            Self::PSubscribe => (true, 1),
            Self::SSubscribe => (true, 2),
            Self::Unsubscribe => (false, 0),
            Self::PUnsubscribe => (false, 1),
            Self::SUnsubscribe => (false, 2),
        }
    }

    /// Returns the encoded request.
    pub(crate) fn request(self, names: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
        Request::bytes_of(|request| {
            request.word(self.command());
            names.iter().for_each(|name| _ = request.bytes(name));
        })
    }
}

/// A change of a subscription's names.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) verb: SubscriptionVerb,
    pub(crate) names: Vec<Vec<u8>>,
}

impl Change {
    /// Checks that the shard channels that the change adds lie in one slot, together with this present one.
    pub(crate) fn check_one_slot(&self, there: Option<&[u8]>) -> Result<(), Error> {
        match self.verb {
            SubscriptionVerb::SSubscribe => {
                let channels: Vec<&[u8]> = there.into_iter().chain(self.names.iter().map(Vec::as_slice)).collect();
                slot_of_all("one subscription", channels).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// The names that a subscription is to have: channels, patterns, shard channels.
#[derive(Debug, Default)]
pub(crate) struct Names([BTreeSet<Vec<u8>>; 3]);

impl Names {
    /// Applies a change. Returns those of its names that it adds or removes; without names it removes all.
    pub(crate) fn apply(&mut self, change: &mut Change) -> Vec<Vec<u8>> {
        let (adds, place) = change.verb.place();
        let Some(set) = self.0.get_mut(place) else { return Vec::new() };
        if !adds && change.names.is_empty() {
            change.names = set.iter().cloned().collect();
        }
        let names = change.names.iter();
        if adds {
            names.filter(|name| set.insert((*name).clone())).cloned().collect()
        } else {
            names.filter(|name| set.remove(*name)).cloned().collect()
        }
    }

    /// Removes names that were added by a change which the server has refused.
    pub(crate) fn take_back(&mut self, verb: SubscriptionVerb, added: &[Vec<u8>]) {
        if let (true, place) = verb.place()
            && let Some(set) = self.0.get_mut(place)
        {
            added.iter().for_each(|name| _ = set.remove(name));
        }
    }

    /// Returns the shard channels.
    pub(crate) fn shard_channels(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.0.get(2).into_iter().flatten()
    }

    /// Returns the changes that subscribe a fresh connection to all names.
    pub(crate) fn all(&self) -> Vec<Change> {
        let sets = SubscriptionVerb::ADDING.into_iter().zip(&self.0).filter(|(_, set)| !set.is_empty());
        sets.map(|(verb, set)| Change { verb, names: set.iter().cloned().collect() }).collect()
    }
}
