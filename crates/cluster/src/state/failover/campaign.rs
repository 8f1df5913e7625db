//! The election in which this node, a replica, replaces its primary.

use crate::action::LogLevel;
use crate::epochs;
use crate::host::{Host, ReplicationLink, Time};
use crate::id::NodeId;
use crate::node::Node;
use crate::packet::{Body, Header, HeartbeatKind};
use crate::planted::{self, Fault};
use crate::slots::Slot;
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::send::Audience;
use crate::state::{members, send};

/// The delay of an election in milliseconds, in which the news of the failure spreads, and the largest random part of it.
pub(crate) const DELAY_MS: u64 = 500;
const RANDOM_MS: u64 = 500;

/// The delay for each replica with more data, and for each shard with a failed primary that goes first, in milliseconds.
const RANK_MS: u64 = 1_000;
const SHARD_RANK_MS: u64 = 500;

/// The shortest time in milliseconds for which an election is valid.
const ELECTION_MS_MIN: u64 = 2_000;

/// The milliseconds after which primaries that have not voted are asked again in the same epoch.
const ASK_AGAIN_MS: u64 = 1_000;

/// Obstacles are not logged within this many milliseconds and the node timeout after a failure: most elections are over then.
const QUIET_MS: u64 = 5_000;

/// An obstacle is logged again after this many milliseconds.
const OBSTACLE_LOG_MS: u64 = 300_000;

/// Returns the milliseconds for which an election is valid: two node timeouts. After twice that, another may begin.
fn election_ms(state: &ClusterState) -> u64 {
    (state.options.node_timeout_ms * 2).max(ELECTION_MS_MIN)
}

/// Moves the election on: plans it, asks for votes, counts them, and takes over the slots of the primary.
pub(crate) fn advance(state: &mut ClusterState, now: Time, host: &mut dyn Host) {
    let is_manual = state.manual_failover.is_active() && state.manual_failover.can_start;
    let Some(primary) = replaced_primary(state, is_manual) else {
        state.election.obstacle = None;
        return;
    };
    if !is_manual && !has_recent_data(state, host) {
        obstacle(state, "Disconnected from primary for longer than allowed.", now);
        return;
    }
    let age = now.ms.saturating_sub(state.election.start_ms);
    let is_over = state.election.start_ms == 0 || age > election_ms(state) * 2;
    if is_over {
        plan(state, primary, is_manual, now, host);
    } else if !state.election.is_asked() && !is_manual {
        update_ranks(state, primary);
    }
    if now.ms < state.election.start_ms {
        obstacle(state, "Waiting the delay before I can start a new failover.", now);
        return;
    }
    if now.ms.saturating_sub(state.election.start_ms) > election_ms(state) {
        obstacle(state, "Failover attempt expired.", now);
        return;
    }
    if !state.election.is_asked() {
        return begin(state, primary, is_manual, now);
    }
    let needed = state.quorum() - usize::from(planted::has(Fault::WinsByMinority));
    if state.election.votes.len() < needed && now.ms - state.election.asked_ms >= ASK_AGAIN_MS {
        ask_again(state, primary, is_manual, now);
    }
    if state.election.votes.len() >= needed {
        win(state, primary);
    } else {
        obstacle(state, "Waiting for votes, but majority still not reached.", now);
    }
}

/// Returns the primary that this node may replace.
fn replaced_primary(state: &ClusterState, is_manual: bool) -> Option<NodeId> {
    let me = state.myself();
    let primary = state.nodes.get(&me.primary.filter(|_| me.is_replica())?)?;
    let may = primary.has_failed() && primary.is_voter() && !state.options.is_no_failover;
    (may || is_manual).then_some(primary.id)
}

/// Returns whether the data is recent enough. The node timeout is taken off its age, for so long a failure is not seen.
fn has_recent_data(state: &ClusterState, host: &dyn Host) -> bool {
    let options = &state.options;
    let age = match host.replication_link() {
        ReplicationLink::Up => 0,
        ReplicationLink::Down { for_ms } => for_ms,
    };
    let age = if age > options.node_timeout_ms { age - options.node_timeout_ms } else { age };
    let oldest = options.node_timeout_ms.saturating_mul(options.replica_validity_factor);
    options.replica_validity_factor == 0 || age <= oldest.saturating_add(options.replica_ping_period_ms)
}

fn plan(state: &mut ClusterState, primary: NodeId, is_manual: bool, now: Time, host: &mut dyn Host) {
    if is_manual {
        state.election.plan(now.ms, 0, 0);
    } else {
        let (rank, shard_rank) = (rank(state, primary), shard_rank(state, now));
        let delay = DELAY_MS + host.random() % RANDOM_MS + rank * RANK_MS + shard_rank * SHARD_RANK_MS;
        state.election.plan(now.ms + delay, rank, shard_rank);
        let offset = state.myself().offset;
        let line = format!(
            "Start of election delayed for {delay} milliseconds (rank #{rank}, primary rank #{shard_rank}, offset {offset})."
        );
        state.log(LogLevel::Notice, line);
    }
    // The other replicas compare this node's offset with theirs.
    send::announce(state, HeartbeatKind::Pong, Audience::FellowReplicas, now, host);
}

/// Returns the number of replicas of the same primary with more data. At equal offsets the lower id goes first, so that two
/// replicas do not ask in the same moment and share the votes.
fn rank(state: &ClusterState, primary: NodeId) -> u64 {
    if planted::has(Fault::HasNoRank) {
        return 0;
    }
    let me = state.myself();
    let competes = |node: &&Node| node.id != me.id && !node.flags.has(crate::node::NodeFlags::NO_FAILOVER);
    let is_ahead = |node: &&Node| node.offset > me.offset || (node.offset == me.offset && node.id < me.id);
    state.replicas_of(primary).filter(competes).filter(is_ahead).count() as u64
}

/// Returns the number of shards with a failed primary that ask first, so that the votes of one epoch are not shared by shards.
fn shard_rank(state: &ClusterState, now: Time) -> u64 {
    let options = &state.options;
    let shard = state.myself().shard;
    let oldest = options.node_timeout_ms.saturating_mul(options.replica_validity_factor);
    let is_recent =
        |node: &Node| options.replica_validity_factor == 0 || now.ms.saturating_sub(node.contact.fail_ms) <= oldest;
    let goes_first = |node: &&Node| {
        node.has_failed()
            && node.is_voter()
            && node.shard < shard
            && is_recent(node)
            && state.replicas_of(node.id).next().is_some()
    };
    state.nodes.values().filter(goes_first).count() as u64
}

/// Moves the start of the election if a replica has told a greater offset since it was planned.
fn update_ranks(state: &mut ClusterState, primary: NodeId) {
    let rank = rank(state, primary);
    if rank > state.election.rank {
        let added = (rank - state.election.rank) * RANK_MS;
        state.election.start_ms += added;
        state.election.rank = rank;
        state.log(LogLevel::Notice, format!("Replica rank updated to #{rank}, added {added} milliseconds of delay."));
    }
}

/// Begins a new epoch and asks for votes in it.
fn begin(state: &mut ClusterState, primary: NodeId, is_manual: bool, now: Time) {
    state.epochs.current = epochs::by_vote(state.epochs.current);
    state.election.epoch = state.epochs.current;
    state.config_changed(Save::Synced);
    state.log(LogLevel::Notice, format!("Starting a failover election for epoch {}.", state.epochs.current));
    ask(state, primary, is_manual, now);
}

/// Asks again the primaries that have not voted. If the epoch has moved on, they would refuse, so a new epoch begins.
fn ask_again(state: &mut ClusterState, primary: NodeId, is_manual: bool, now: Time) {
    if state.election.epoch == state.epochs.current {
        ask(state, primary, is_manual, now);
    } else {
        let (rank, shard_rank) = (state.election.rank, state.election.shard_rank);
        state.election.plan(now.ms, rank, shard_rank);
        begin(state, primary, is_manual, now);
    }
}

fn ask(state: &mut ClusterState, primary: NodeId, is_manual: bool, now: Time) {
    state.election.asked_ms = now.ms.max(1);
    let heard_ms = state.nodes.get(&primary).map_or(0, |node| node.contact.data_ms);
    if !is_manual && now.ms.saturating_sub(heard_ms) > state.options.node_timeout_ms {
        // A primary that has not heard of the failure would refuse its vote.
        send::to_all(state, Body::Fail(primary));
    }
    send::vote_request(state, is_manual);
}

/// Steps back for a replica of the same primary that asks for votes and has as much data or more. Two candidates that ask at
/// the same time share the votes, and neither wins.
pub(crate) fn saw_request(state: &mut ClusterState, candidate: NodeId, request: &Header, now: Time) {
    let me = state.myself();
    let is_fellow = me.is_replica() && me.primary.is_some() && request.primary == me.primary;
    let is_better = request.offset > me.offset || (request.offset == me.offset && candidate < me.id);
    let is_manual = state.manual_failover.is_active();
    if state.election.start_ms == 0 || !is_fellow || !is_better || is_manual {
        return;
    }
    let (rank, shard_rank) = (state.election.rank.max(1), state.election.shard_rank);
    let start_ms = state.election.start_ms.max(now.ms + election_ms(state));
    state.election.plan(start_ms, rank, shard_rank);
}

/// Counts a vote. The header of a vote has the epoch of the request.
pub(crate) fn vote(state: &mut ClusterState, voter: NodeId, header: &Header) {
    let is_voter = state.nodes.get(&voter).is_some_and(Node::is_voter);
    let is_of_epoch = header.current_epoch == state.election.epoch || planted::has(Fault::CountsOldVotes);
    if is_voter && state.election.is_asked() && is_of_epoch {
        state.election.votes.insert(voter);
    }
}

/// Begins the election anew if a primary has seen a later epoch, in which it will refuse its vote. The random pause keeps two
/// candidates from overtaking each other without end.
pub(crate) fn saw_epoch(state: &mut ClusterState, sender: NodeId, header: &Header, now: Time, host: &mut dyn Host) {
    let election = &state.election;
    let is_late = election.is_asked() && header.current_epoch > election.epoch && !election.votes.contains(&sender);
    if is_late && state.nodes.get(&sender).is_some_and(Node::is_voter) {
        let pause = 200 + host.random() % 400;
        let (rank, shard_rank) = (state.election.rank, state.election.shard_rank);
        state.election.plan(now.ms + pause, rank, shard_rank);
    }
}

fn win(state: &mut ClusterState, primary: NodeId) {
    state.log(LogLevel::Notice, "Failover election won: I'm the new primary.");
    let epoch = state.election.epoch;
    state.election.won_epoch = epoch;
    let me = state.myself_mut();
    me.config_epoch = me.config_epoch.max(epoch);
    replace(state, primary);
}

/// Takes the place and all slots of the primary. The caller has given this node a new configuration epoch.
pub(crate) fn replace(state: &mut ClusterState, primary: NodeId) {
    let me = state.me;
    members::make_primary(state, me);
    let slots: Vec<Slot> = state.nodes.get(&primary).map(|node| node.slots.iter().collect()).unwrap_or_default();
    for slot in slots {
        state.assign_slot(slot, Some(me));
    }
    // This node counts among the voters now. It has had its say in this epoch: with its vote for another candidate two nodes
    // could win in one epoch.
    state.epochs.last_vote = state.epochs.last_vote.max(state.myself().config_epoch);
    state.config_changed(Save::Synced);
    state.duties.announce = true;
    state.election.reset();
    members::end_manual_failover(state);
}

/// Notes the reason why there is no failover, and logs it if it is new.
fn obstacle(state: &mut ClusterState, reason: &'static str, now: Time) {
    let is_known =
        |(known, logged_ms): (&str, u64)| known == reason && now.ms.saturating_sub(logged_ms) < OBSTACLE_LOG_MS;
    let primary = state.own_primary().and_then(|id| state.node(id)).filter(|node| node.has_failed());
    let quiet_ms = state.options.node_timeout_ms + QUIET_MS;
    let is_young = primary.is_some_and(|node| now.ms.saturating_sub(node.contact.fail_ms) < quiet_ms);
    if !is_young && !state.election.obstacle.is_some_and(is_known) {
        state.election.obstacle = Some((reason, now.ms));
        state.log(LogLevel::Notice, format!("Currently unable to failover: {reason}"));
    }
}
