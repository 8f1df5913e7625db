//! Tests of the commands of an operator, and of the reports that show their effects.

use std::collections::BTreeMap;

use super::*;
use crate::action::Action;
use crate::host::ReplicationLink;
use crate::node::{Address, NodeFlags};
use crate::report::{self, Viewer};
use crate::slots::{SLOTS, Slot};
use crate::state::manual_failover::FailoverKind;
use crate::state::options::{EndpointType, Options};
use crate::state::{Epochs, SlotTable};

const NOW: Time = Time { ms: 60_000, unix_ms: 1_700_000_000_000 };

/// A server with keys in one slot.
#[derive(Default)]
struct TestHost {
    keys: BTreeMap<Slot, u64>,
    offset: u64,
    chance: u64,
}

impl Host for TestHost {
    fn replication_offset(&self) -> u64 {
        self.offset
    }

    fn replication_link(&self) -> ReplicationLink {
        ReplicationLink::Up
    }

    fn keys_in_slot(&self, slot: Slot) -> u64 {
        self.keys.get(&slot).copied().unwrap_or(0)
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn random(&mut self) -> u64 {
        self.chance += 1;
        self.chance.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

fn options(port: u16) -> Options {
    Options {
        node_timeout_ms: 15_000,
        replica_validity_factor: 10,
        migration_barrier: 1,
        allows_replica_migration: true,
        requires_full_coverage: true,
        is_no_failover: false,
        replica_ping_period_ms: 10_000,
        has_tls: false,
        endpoint_type: EndpointType::Ip,
        address: Address { ip: "127.0.0.1".to_owned(), port, bus_port: port + 10_000, ..Address::default() },
    }
}

fn id(number: u8) -> NodeId {
    NodeId::new([number; 20])
}

fn name(number: u8) -> Vec<u8> {
    id(number).digits().to_vec()
}

/// Returns node 1, a primary with the slots below 100; node 2, a primary with those below 200; node 3, a replica of node 2;
/// node 4, a primary without slots.
fn cluster() -> ClusterState {
    let node = |number: u8, flags| {
        let mut node = Node::new(id(number), flags, 1);
        let port = 7_000 + u16::from(number);
        node.address = Address { ip: "127.0.0.1".to_owned(), port, bus_port: port + 10_000, ..Address::default() };
        node.config_epoch = u64::from(number);
        node.links.is_connected = true;
        node
    };
    let mut nodes = BTreeMap::new();
    for number in [1, 2, 4] {
        nodes.insert(id(number), node(number, NodeFlags::PRIMARY));
    }
    let mut replica = node(3, NodeFlags::REPLICA);
    (replica.primary, replica.shard, replica.offset) = (Some(id(2)), id(2), 9);
    nodes.insert(id(3), replica);
    let epochs = Epochs { current: 4, last_vote: 0 };
    let mut state = ClusterState::restore(id(1), nodes, SlotTable::default(), epochs, options(7_001));
    (0..100).for_each(|slot| state.assign_slot(slot, Some(id(1))));
    (100..200).for_each(|slot| state.assign_slot(slot, Some(id(2))));
    state.myself_mut().flags.set(NodeFlags::MYSELF, true);
    state.take_actions();
    state
}

/// Runs a command, and returns its error as text.
fn run<T>(
    state: &mut ClusterState,
    host: &mut TestHost,
    command: impl FnOnce(&mut Operation<'_>) -> Result<T, Refusal>,
) -> Result<T, String> {
    operate(state, NOW, host, command).map_err(|why| String::from_utf8_lossy(why.text()).into_owned())
}

fn one(slot: Slot) -> Vec<Result<(Slot, Slot), Refusal>> {
    vec![Ok((slot, slot))]
}

#[test]
fn slots_are_added_and_deleted_all_or_none() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    let mut add = |ranges: Vec<(Slot, Slot)>| {
        run(&mut state, &mut host, |operation| add_slots(operation, ranges.into_iter().map(Ok)))
    };
    assert_eq!(add(vec![(300, 302), (150, 150)]), Err("Slot 150 is already busy".to_owned()));
    assert_eq!(add(vec![(300, 302), (302, 303)]), Err("Slot 302 specified multiple times".to_owned()));
    assert_eq!(add(vec![(5, 4)]), Err("start slot number 5 is greater than end slot number 4".to_owned()));
    assert_eq!(add(vec![(300, 302)]), Ok(()));
    assert_eq!(state.slots.owner(302), Some(id(1)));
    let delete = |operation: &mut Operation<'_>| delete_slots(operation, one(302));
    assert_eq!(run(&mut state, &mut host, delete), Ok(()));
    assert_eq!(run(&mut state, &mut host, delete), Err("Slot 302 is already unassigned".to_owned()));
    assert_eq!(state.myself().slots.ranges(), [(0, 99), (300, 301)]);
    host.keys.insert(1, 1);
    let refused = "DB must be empty to perform CLUSTER FLUSHSLOTS.".to_owned();
    assert_eq!(run(&mut state, &mut host, flush_slots), Err(refused));
    host.keys.clear();
    assert_eq!(run(&mut state, &mut host, flush_slots), Ok(()));
    assert!(state.myself().slots.is_empty());
    assert!(matches!(state.take_actions().first(), Some(Action::Save { .. })));
}

#[test]
fn a_slot_moves_from_its_owner_when_its_keys_have_left() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    host.keys.insert(7, 3);
    let (two, three) = (name(2), name(3));
    let set = |state: &mut ClusterState, host: &mut TestHost, slot: &str, to: SlotMove<'_>| {
        run(state, host, |operation| set_slot(operation, slot.as_bytes(), Some(to)))
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(set(&mut state, &mut host, "16384", SlotMove::Stable), error("Invalid or out of range slot"));
    assert_eq!(
        set(&mut state, &mut host, "100", SlotMove::Migrating(&two)),
        error("I'm not the owner of hash slot 100")
    );
    assert_eq!(
        set(&mut state, &mut host, "7", SlotMove::Importing(&two)),
        error("I'm already the owner of hash slot 7")
    );
    assert_eq!(set(&mut state, &mut host, "7", SlotMove::Migrating(b"x\0y")), error("I don't know about node x"));
    assert_eq!(set(&mut state, &mut host, "7", SlotMove::Migrating(&three)), error("Target node is not a master"));
    assert_eq!(set(&mut state, &mut host, "7", SlotMove::Node(b"x")), error("Unknown node x"));
    assert_eq!(set(&mut state, &mut host, "7", SlotMove::Migrating(&two)), Ok(()));
    assert_eq!(state.slots.migrating.get(&7), Some(&id(2)));
    let held = "Can't assign hashslot 7 to a different node while I still hold keys for this hash slot.";
    assert_eq!(set(&mut state, &mut host, "7", SlotMove::Node(&two)), error(held));
    host.keys.clear();
    assert_eq!(set(&mut state, &mut host, "7", SlotMove::Node(&two)), Ok(()));
    assert_eq!((state.slots.owner(7), state.slots.migrating.len()), (Some(id(2)), 0));
    let text = "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
    assert_eq!(run(&mut state, &mut host, |operation| set_slot(operation, b"7", None)), error(text));
}

#[test]
fn a_slot_that_arrives_raises_the_epoch() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    let (one, two) = (name(1), name(2));
    let set = |state: &mut ClusterState, host: &mut TestHost, to: SlotMove<'_>| {
        run(state, host, |operation| set_slot(operation, b"150", Some(to)))
    };
    assert_eq!(set(&mut state, &mut host, SlotMove::Importing(&two)), Ok(()));
    assert_eq!(set(&mut state, &mut host, SlotMove::Node(&one)), Ok(()));
    assert_eq!((state.slots.owner(150), state.slots.importing.len()), (Some(id(1)), 0));
    assert_eq!((state.epochs.current, state.myself().config_epoch), (5, 5));
    assert!(matches!(state.take_actions().first(), Some(Action::Save { sync: true, .. })));
}

#[test]
fn a_primary_that_gives_its_last_slot_away_follows_the_new_owner() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    (1..100).for_each(|slot| state.assign_slot(slot, None));
    let two = name(2);
    let command = |operation: &mut Operation<'_>| set_slot(operation, b"0", Some(SlotMove::Node(&two)));
    assert_eq!(run(&mut state, &mut host, command), Ok(()));
    assert_eq!(state.myself().primary, Some(id(2)));
    let follows = |action: &Action| matches!(action, Action::Follow { node, .. } if *node == id(2));
    assert!(state.take_actions().iter().any(follows));
    let refused = Err("Please use SETSLOT only with masters.".to_owned());
    assert_eq!(run(&mut state, &mut host, command), refused);
    let refused = Err("Please use ADDSLOTS only with masters.".to_owned());
    assert_eq!(run(&mut state, &mut host, |operation| add_slots(operation, one(300))), refused);
}

#[test]
fn a_view_names_the_owner_of_each_slot() {
    let mut state = cluster();
    state.assign_slot(50, Some(id(2)));
    state.slots.migrating.insert(1, id(4));
    let view = state.view();
    let node = |index: u16| view.nodes.get(usize::from(index)).map(|node| node.id);
    for slot in 0..SLOTS {
        assert_eq!(node(view.owners[usize::from(slot)]), state.slots.owner(slot), "slot {slot}");
    }
    assert_eq!((node(view.own_primary), node(view.migrating[&1])), (Some(id(1)), Some(id(4))));
}

#[test]
fn a_node_meets_addresses_and_forgets_nodes() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    let mut meet_node = |ip: &str, port: &str, bus_port: Option<&str>| {
        let bus_port = bus_port.map(str::as_bytes);
        run(&mut state, &mut host, |operation| meet(operation, ip.as_bytes(), port.as_bytes(), bus_port))
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(meet_node("127.0.0.1", "x", None), error("Invalid TCP base port specified: x"));
    assert_eq!(meet_node("127.0.0.1", "7000", Some("y")), error("Invalid TCP bus port specified: y"));
    assert_eq!(meet_node("host", "7000", None), error("Invalid node address specified: host:7000"));
    assert_eq!(meet_node("127.0.0.1", "60000", None), error("Invalid node address specified: 127.0.0.1:60000"));
    assert_eq!(meet_node("127.0.0.1", "0", Some("1")), error("Invalid node address specified: 127.0.0.1:0"));
    assert_eq!(meet_node("0::5", "7005", None), Ok(()));
    assert_eq!(meet_node("::5", "7005", None), Ok(()));
    let met: Vec<&Node> = state.nodes().filter(|node| node.is_in_handshake()).collect();
    assert_eq!(met.len(), 1);
    assert_eq!((met[0].address.ip.as_str(), met[0].address.bus_port), ("::5", 17_005));
    let strange = met[0].id.digits();
    let mut forget_node = |name: &[u8]| run(&mut state, &mut host, |operation| forget(operation, name));
    assert_eq!(forget_node(b"x"), error("Unknown node x"));
    assert_eq!(forget_node(&name(1)), error("I tried hard but I can't forget myself..."));
    assert_eq!(forget_node(&name(2)), Ok(()));
    assert_eq!(forget_node(&name(2)), Ok(()), "another node may have told of it first");
    assert_eq!(forget_node(&strange), Ok(()));
    assert!(state.node(id(2)).is_none() && state.slots.owner(150).is_none());
    assert!(state.forgotten.contains(id(2), NOW));
}

#[test]
fn an_empty_node_replicates_a_primary_alone() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    let replicate_node = |state: &mut ClusterState, host: &mut TestHost, name: &[u8]| {
        run(state, host, |operation| replicate(operation, name))
    };
    let error = |text: &str| Err(text.to_owned());
    let empty = error("To set a master the node must be empty and without assigned slots.");
    assert_eq!(replicate_node(&mut state, &mut host, b"x"), error("Unknown node x"));
    assert_eq!(replicate_node(&mut state, &mut host, &name(1)), error("Can't replicate myself"));
    let refused = error("I can only replicate a master, not a replica.");
    assert_eq!(replicate_node(&mut state, &mut host, &name(3)), refused);
    assert_eq!(replicate_node(&mut state, &mut host, &name(2)), empty);
    (0..100).for_each(|slot| state.assign_slot(slot, None));
    host.keys.insert(1, 1);
    assert_eq!(replicate_node(&mut state, &mut host, &name(2)), empty);
    host.keys.clear();
    assert_eq!(replicate_node(&mut state, &mut host, &name(2)), Ok(()));
    assert!(state.myself().is_replica() && state.myself().shard == id(2));
    assert_eq!(replicate_node(&mut state, &mut host, &name(4)), Ok(()));
    assert_eq!(state.myself().primary, Some(id(4)));
    let forgotten = run(&mut state, &mut host, |operation| forget(operation, &name(4)));
    assert_eq!(forgotten, error("Can't forget my master!"));
}

#[test]
fn a_replica_alone_takes_over() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    let fail_over =
        |state: &mut ClusterState, host: &mut TestHost, kind| run(state, host, |operation| failover(operation, kind));
    let error = |text: &str| Err(text.to_owned());
    let refused = error("You should send CLUSTER FAILOVER to a replica");
    assert_eq!(fail_over(&mut state, &mut host, FailoverKind::Forced), refused);
    (0..100).for_each(|slot| state.assign_slot(slot, None));
    run(&mut state, &mut host, |operation| replicate(operation, &name(2))).expect("node 2 is a primary");
    state.nodes.get_mut(&id(2)).expect("node 2").links.is_connected = false;
    let down = error("Master is down or failed, please use CLUSTER FAILOVER FORCE");
    assert_eq!(fail_over(&mut state, &mut host, FailoverKind::Agreed), down);
    assert_eq!(fail_over(&mut state, &mut host, FailoverKind::Takeover), Ok(()));
    assert!(state.myself().is_primary() && state.slots.owner(150) == Some(id(1)));
    assert_eq!(state.epochs.current, 5);
}

#[test]
fn a_reset_forgets_the_cluster() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    host.keys.insert(1, 1);
    let reset_node = |state: &mut ClusterState, host: &mut TestHost, is_hard| {
        run(state, host, |operation| reset(operation, is_hard))
    };
    let refused = Err("CLUSTER RESET can't be called with master nodes containing keys".to_owned());
    assert_eq!(reset_node(&mut state, &mut host, false), refused);
    host.keys.clear();
    assert_eq!(reset_node(&mut state, &mut host, false), Ok(()));
    assert_eq!((state.nodes().count(), state.id(), state.epochs.current), (1, id(1), 4));
    assert!(state.slots.owner(7).is_none() && state.myself().shard != id(1));
    assert_eq!(reset_node(&mut state, &mut host, true), Ok(()));
    assert_eq!((state.nodes().count(), state.epochs.current, state.myself().config_epoch), (1, 0, 0));
    assert!(state.id() != id(1) && state.myself().id == state.id() && state.myself().shard == state.id());
}

#[test]
fn a_replica_that_is_reset_leads_before_its_data_are_deleted() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    (0..100).for_each(|slot| state.assign_slot(slot, None));
    run(&mut state, &mut host, |operation| replicate(operation, &name(2))).expect("node 2 is a primary");
    state.take_actions();
    host.keys.insert(150, 1);
    assert_eq!(run(&mut state, &mut host, |operation| reset(operation, false)), Ok(()));
    let actions = state.take_actions();
    let place = |wanted: &Action| actions.iter().position(|action| action == wanted);
    assert!(place(&Action::Lead).expect("leads") < place(&Action::FlushAll).expect("flushes"));
    assert!(state.myself().is_primary() && state.nodes().count() == 1);
}

#[test]
fn epochs_are_set_once_and_bumped_if_not_the_greatest() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    let set = |state: &mut ClusterState, host: &mut TestHost, epoch| {
        run(state, host, |operation| set_config_epoch(operation, epoch))
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(run(&mut state, &mut host, bump_epoch), Ok((true, 5)));
    assert_eq!(run(&mut state, &mut host, bump_epoch), Ok((false, 5)));
    let others = error("The user can assign a config epoch only when the node does not know any other node.");
    assert_eq!(set(&mut state, &mut host, 7), others);
    let mut alone = ClusterState::new(id(9), options(7_009));
    assert_eq!(set(&mut alone, &mut host, -1), error("Invalid config epoch specified: -1"));
    assert_eq!(set(&mut alone, &mut host, 7), Ok(()));
    assert_eq!((alone.epochs.current, alone.myself().config_epoch), (7, 7));
    assert_eq!(set(&mut alone, &mut host, 8), error("Node config epoch is already non-zero"));
}

#[test]
fn loaded_keys_take_their_slots_along() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    host.keys = [(5, 1), (150, 1), (300, 1)].into_iter().collect();
    assert_eq!(run(&mut state, &mut host, adopt_keys), Ok(()));
    assert_eq!(state.myself().slots.ranges(), [(0, 99), (300, 300)]);
    assert_eq!(state.slots.importing.iter().collect::<Vec<_>>(), [(&150, &id(2))]);
    assert!(matches!(state.take_actions().first(), Some(Action::Save { sync: true, .. })));
    assert_eq!(run(&mut state, &mut host, adopt_keys), Ok(()));
    assert!(!state.take_actions().iter().any(|action| matches!(action, Action::Save { .. })));
}

#[test]
fn failure_reports_are_counted() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    state.assign_slot(300, Some(id(4)));
    state.nodes.get_mut(&id(2)).expect("node 2").reports.insert(id(4), NOW.ms);
    let mut count = |name: &[u8]| run(&mut state, &mut host, |operation| count_failure_reports(operation, name));
    assert_eq!(count(&name(2)), Ok(1));
    assert_eq!(count(&name(4)), Ok(0));
    assert_eq!(count(b"x"), Err("Unknown node x".to_owned()));
}

#[test]
fn lines_of_nodes_are_those_of_redis() {
    let (mut state, host) = (cluster(), TestHost::default());
    state.slots.migrating.insert(7, id(2));
    let node = state.nodes.get_mut(&id(2)).expect("node 2");
    node.address.hostname = "two".to_owned();
    (node.contact.ping_sent_ms, node.contact.pong_unix_ms) = (NOW.ms - 5, NOW.unix_ms - 9);
    let viewer = Viewer { now: NOW, host: &host, is_plain: true };
    let (one, two, three, four) = (id(1), id(2), id(3), id(4));
    let expected = format!(
        "{one} 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-99 [7->-{two}]\n\
         {two} 127.0.0.1:7002@17002,two master - 1699999999995 1699999999991 2 connected 100-199\n\
         {three} 127.0.0.1:7003@17003 slave {two} 0 0 2 connected\n\
         {four} 127.0.0.1:7004@17004 master - 0 0 4 connected\n"
    );
    assert_eq!(report::nodes(&state, viewer), expected);
    let replica = expected.lines().nth(2).expect("a third line").to_owned();
    assert_eq!(report::replicas(&state, two, viewer), [replica]);
}

#[test]
fn slots_and_shards_name_primaries_with_their_replicas() {
    let (mut state, host) = (cluster(), TestHost::default());
    let viewer = Viewer { now: NOW, host: &host, is_plain: true };
    let slots = report::slots(&state, viewer);
    let ids = |range: &report::RangeReport| range.nodes.iter().map(|node| node.id).collect::<Vec<_>>();
    assert_eq!(slots.iter().map(|range| (range.first, range.last)).collect::<Vec<_>>(), [(0, 99), (100, 199)]);
    assert_eq!((ids(&slots[0]), ids(&slots[1])), (vec![id(1)], vec![id(2), id(3)]));
    let shards = report::shards(&state, viewer);
    assert_eq!(shards.iter().map(|shard| shard.members.len()).collect::<Vec<_>>(), [1, 2, 1]);
    assert_eq!(shards[1].members[1].health.word(), "online");
    let replica = state.nodes.get_mut(&id(3)).expect("node 3");
    replica.offset = 0;
    replica.address.hostname = "three".to_owned();
    state.options.endpoint_type = EndpointType::Hostname;
    let viewer = Viewer { now: NOW, host: &host, is_plain: true };
    let slots = report::slots(&state, viewer);
    assert_eq!(ids(&slots[1]), [id(2)]);
    let primary = &slots[1].nodes[0];
    assert_eq!((primary.endpoint.as_deref(), primary.ip.as_deref()), (Some("?"), Some("127.0.0.1")));
    let shards = report::shards(&state, viewer);
    let replica = &shards[1].members[1];
    assert_eq!((replica.health.word(), replica.endpoint.as_str(), replica.is_replica), ("loading", "three", true));
}

#[test]
fn the_text_of_info_has_the_fields_of_redis() {
    let mut state = cluster();
    state.nodes.get_mut(&id(2)).expect("node 2").flags.set(NodeFlags::PFAIL, true);
    let expected = "cluster_state:fail\r\ncluster_slots_assigned:200\r\ncluster_slots_ok:100\r\ncluster_slots_pfail:100\r\n\
        cluster_slots_fail:0\r\ncluster_known_nodes:4\r\ncluster_size:2\r\ncluster_current_epoch:4\r\ncluster_my_epoch:1\r\n\
        cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
        total_cluster_links_buffer_limit_exceeded:3\r\n";
    assert_eq!(report::info(&state, 3), expected);
}

#[test]
fn links_are_reported_and_closed_by_direction() {
    let (mut state, mut host) = (cluster(), TestHost::default());
    state.nodes.get_mut(&id(2)).expect("node 2").links.is_connected = false;
    state.tick(NOW, &mut host);
    let opened = report::links(&state);
    assert_eq!(opened.iter().map(|link| link.node).collect::<Vec<_>>(), [id(2), id(3), id(4)]);
    assert!(opened.iter().all(|link| link.direction.word() == "to" && link.opened_unix_ms == NOW.unix_ms));
    let mut kill = |outgoing, incoming, name: &[u8]| {
        run(&mut state, &mut host, |operation| kill_links(operation, outgoing, incoming, name))
    };
    assert_eq!(kill(true, true, b"x"), Err("Unknown node x".to_owned()));
    assert_eq!(kill(false, true, &name(2)), Ok(()));
    assert_eq!(kill(true, false, &name(3)), Ok(()));
    let left = report::links(&state);
    assert_eq!(left.iter().map(|link| link.node).collect::<Vec<_>>(), [id(2), id(4)]);
}
