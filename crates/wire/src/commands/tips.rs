//! The tips of a row, as COMMAND INFO gives them: how a client of a cluster sends a command that is not about keys of one slot,
//! and combines the replies, and whether the reply depends on more than the data. Pure functions; any thread.

use std::ops::Deref;

/// The nodes of a cluster to which a client sends a command, where its keys do not decide that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPolicy {
    /// All nodes, replicas too.
    AllNodes,
    /// All nodes that own slots.
    AllShards,
    /// The owners of the request's keys; each gets the part of the request with its own keys.
    MultiShard,
    /// A rule of the command's own.
    Special,
}

/// The rule by which a client combines the replies of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePolicy {
    /// Any reply that is no error.
    OneSucceeded,
    /// Any of the replies, if none is an error.
    AllSucceeded,
    /// The logical AND of the replies, element by element.
    LogicalAnd,
    /// The logical OR of the replies, element by element.
    LogicalOr,
    /// The least of the replies.
    Min,
    /// The greatest of the replies.
    Max,
    /// The sum of the replies.
    Sum,
    /// A rule of the command's own.
    Special,
}

/// The tips of a command, which this derefs to.
#[derive(Clone, Copy, Debug)]
pub struct Tips(pub(super) &'static [&'static str]);

impl Deref for Tips {
    type Target = [&'static str];

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl Tips {
    /// Returns the nodes of a cluster to which the command is sent, if its keys do not decide that; none if any node may
    /// answer.
    pub fn request_policy(self) -> Option<RequestPolicy> {
        self.0.iter().find_map(|tip| match *tip {
            "request_policy:all_nodes" => Some(RequestPolicy::AllNodes),
            "request_policy:all_shards" => Some(RequestPolicy::AllShards),
            "request_policy:multi_shard" => Some(RequestPolicy::MultiShard),
            "request_policy:special" => Some(RequestPolicy::Special),
            _ => None,
        })
    }

    /// Returns the rule by which the replies of several nodes are combined; without a rule, arrays are concatenated.
    pub fn response_policy(self) -> Option<ResponsePolicy> {
        self.0.iter().find_map(|tip| match *tip {
            "response_policy:one_succeeded" => Some(ResponsePolicy::OneSucceeded),
            "response_policy:all_succeeded" => Some(ResponsePolicy::AllSucceeded),
            "response_policy:agg_logical_and" => Some(ResponsePolicy::LogicalAnd),
            "response_policy:agg_logical_or" => Some(ResponsePolicy::LogicalOr),
            "response_policy:agg_min" => Some(ResponsePolicy::Min),
            "response_policy:agg_max" => Some(ResponsePolicy::Max),
            "response_policy:agg_sum" => Some(ResponsePolicy::Sum),
            "response_policy:special" => Some(ResponsePolicy::Special),
            _ => None,
        })
    }

    /// Returns whether the reply depends on more than the data: whether one of the tips is `nondeterministic_output` alone.
    /// The longer tip that names the order says only that the elements come in any order.
    pub(super) const fn is_nondeterministic(self) -> bool {
        let mut tip = 0;
        while tip < self.0.len() {
            if is_same(self.0[tip].as_bytes(), b"nondeterministic_output") {
                return true;
            }
            tip += 1;
        }
        false
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use super::super::{Command, all};
    use super::*;

    #[test]
    fn a_policy_is_read_from_the_row() {
        let of = |command: Command| (command.row().tips.request_policy(), command.row().tips.response_policy());
        assert_eq!(of(Command::Get), (None, None));
        assert_eq!(of(Command::DbSize), (Some(RequestPolicy::AllShards), Some(ResponsePolicy::Sum)));
        assert_eq!(of(Command::Keys), (Some(RequestPolicy::AllShards), None));
        assert_eq!(of(Command::MGet), (Some(RequestPolicy::MultiShard), None));
        assert_eq!(of(Command::Del), (Some(RequestPolicy::MultiShard), Some(ResponsePolicy::Sum)));
        assert_eq!(of(Command::ScriptLoad), (Some(RequestPolicy::AllNodes), Some(ResponsePolicy::AllSucceeded)));
    }

    #[test]
    fn every_hint_about_policies_is_understood() {
        for row in all() {
            let says = |what: &str| row.tips.iter().any(|tip| tip.starts_with(what));
            assert_eq!(says("request_policy:"), row.tips.request_policy().is_some(), "{}", row.full_name);
            assert_eq!(says("response_policy:"), row.tips.response_policy().is_some(), "{}", row.full_name);
        }
    }
}
