//! Tests of nodes.conf: files that real servers wrote, torn files, and hostile ones.

use proptest::prelude::*;

use super::*;
use crate::node::NodeFlags;
use crate::slots::{SLOTS, SlotSet};

const NOW: Time = Time { ms: 5_000, unix_ms: 1_700_000_000_000 };

const A: &str = "07c37dfeb235213a872192d90877d0cd55635b91";
const B: &str = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1";
const C: &str = "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca";

fn id(digits: &str) -> NodeId {
    NodeId::parse(digits.as_bytes()).expect("40 digits")
}

/// Returns the contents and the repairs of a text that says which node this is.
fn read_text(text: &str) -> (Contents, Vec<Repair>) {
    read(text.as_bytes(), false, NOW).expect("the file names this node").expect("the file is not empty")
}

fn write_contents(contents: &Contents) -> String {
    let Contents { nodes, slots, epochs, .. } = contents;
    write(&Stored { nodes, slots, epochs: *epochs, has_tls: false, now: NOW })
}

/// Returns the lines of a file with the times of PINGs and PONGs set to 0 or 1.
fn without_times(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        for at in [4, 5] {
            if let Some(word) = words.get_mut(at).filter(|word| **word != "0") {
                *word = "1";
            }
        }
        // Each node is disconnected after a restart, except this one.
        if let Some(word) = words.get_mut(7).filter(|_| line.contains("myself")) {
            *word = "connected";
        }
        words.join(" ").replace(" connected", " link").replace(" disconnected", " link")
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

/// Three nodes: this one with a slot that leaves and one that comes, another primary, and a replica of it.
fn three_nodes() -> String {
    format!(
        "{B} 127.0.0.1:7001@17001,,tls-port=0,nodename=second,shard-id={B} master - 0 1 2 connected 5461-16383\n\
         {A} 127.0.0.1:7000@17000,host-a,tls-port=7100,shard-id={A} myself,master - 0 0 3 connected 0-5460 \
         [93->-{B}] [6000-<-{B}]\n\
         {C} ::1:7002@17002,,tls-port=0,shard-id={B} slave,fail {B} 1 1 2 disconnected\n\
         vars currentEpoch 7 lastVoteEpoch 6\n"
    )
}

/// Files of clusters of three nodes and a silent one, as the servers wrote them.
const GOLDEN: [(&str, &str); 9] = [
    ("redis-7.0-primary", include_str!("golden/redis-7.0-primary.conf")),
    ("redis-7.0-neighbour", include_str!("golden/redis-7.0-neighbour.conf")),
    ("redis-7.0-replica", include_str!("golden/redis-7.0-replica.conf")),
    ("redis-8-primary", include_str!("golden/redis-8-primary.conf")),
    ("redis-8-neighbour", include_str!("golden/redis-8-neighbour.conf")),
    ("redis-8-replica", include_str!("golden/redis-8-replica.conf")),
    ("valkey-9-primary", include_str!("golden/valkey-9-primary.conf")),
    ("valkey-9-neighbour", include_str!("golden/valkey-9-neighbour.conf")),
    ("valkey-9-replica", include_str!("golden/valkey-9-replica.conf")),
];

/// Returns a line without the names that Redis 7.0 does not write.
fn without_names(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if let Some(address) = words.get_mut(1).filter(|_| !line.starts_with("vars")) {
        let parts: Vec<&str> = address.split(',').filter(|part| !part.is_empty() && !part.contains('=')).collect();
        *address = parts.join(",");
    }
    words.join(" ")
}

#[test]
fn files_of_real_servers_are_read_and_written_the_same() {
    for (name, text) in GOLDEN {
        let (contents, repairs) = read_text(text);
        assert_eq!(repairs, [], "{name}");
        assert_eq!(contents.nodes.len(), 4, "{name}");
        assert_eq!(contents.epochs.current, 4, "{name}");
        assert_eq!(
            contents.slots.owner(5461),
            contents.nodes.values().find(|node| !node.address.hostname.is_empty()).map(|node| node.id)
        );
        let written = without_times(&write_contents(&contents));
        if name.starts_with("redis-7.0") {
            let written: Vec<String> = written.iter().map(|line| without_names(line)).collect();
            assert_eq!(written, without_times(text), "{name}");
        } else {
            assert_eq!(written, without_times(text), "{name}");
        }
    }
}

#[test]
fn a_file_is_read_and_written_back_the_same() {
    let (contents, repairs) = read_text(&three_nodes());
    assert_eq!(repairs, []);
    assert_eq!(contents.me, id(A));
    assert_eq!(contents.epochs, Epochs { current: 7, last_vote: 6 });
    assert_eq!(contents.slots.owner(5460), Some(id(A)));
    assert_eq!(contents.slots.owner(5461), Some(id(B)));
    assert_eq!(contents.slots.migrating.get(&93), Some(&id(B)));
    assert_eq!(contents.slots.importing.get(&6000), Some(&id(B)));
    let replica = &contents.nodes[&id(C)];
    assert_eq!((replica.address.ip.as_str(), replica.primary, replica.shard), ("::1", Some(id(B)), id(B)));
    assert!(replica.has_failed() && replica.contact.fail_ms == NOW.ms && replica.contact.ping_sent_ms == NOW.ms);
    assert_eq!(without_times(&write_contents(&contents)), without_times(&three_nodes()));
    let (again, repairs) = read_text(&write_contents(&contents));
    assert_eq!((again, repairs), (contents, vec![]));
}

#[test]
fn an_empty_file_is_a_first_boot() {
    assert_eq!(read(b"", false, NOW), Ok(None));
}

#[test]
fn a_file_without_this_nodes_line_is_refused() {
    for text in ["\n", "vars currentEpoch 1 lastVoteEpoch 1\n", "\0\0\0\0", "myself"] {
        assert_eq!(read(text.as_bytes(), false, NOW), Err(Unreadable::NoMyself), "{text:?}");
    }
    let text = three_nodes().replace("myself,", "");
    assert_eq!(read(text.as_bytes(), false, NOW), Err(Unreadable::NoMyself));
    let text = vec![b'\n'; TEXT_MAX + 1];
    assert_eq!(read(&text, false, NOW), Err(Unreadable::TooLong));
}

#[test]
fn each_cut_behind_the_flags_of_this_node_keeps_its_id() {
    let text = three_nodes();
    let known = text.find("myself").expect("a line of this node") + "myself".len();
    for end in 0..text.len() {
        match read(&text.as_bytes()[..end], false, NOW) {
            Ok(None) => assert_eq!(end, 0),
            Ok(Some((contents, repairs))) => {
                assert!(end >= known, "{end}");
                assert_eq!(contents.me, id(A));
                assert!(!repairs.is_empty(), "{end}");
                // If the epoch of the last vote may be cut, no vote in the current epoch is possible.
                assert!(contents.epochs.last_vote == contents.epochs.current, "{end}");
                // A range that may be cut is not taken.
                let own = &contents.nodes[&id(A)].slots;
                assert!(own.is_empty() || own.ranges() == [(0, 5460)], "{end}: {own:?}");
            }
            Err(why) => assert!(end < known && why == Unreadable::NoMyself, "{end}"),
        }
    }
}

#[test]
fn a_new_text_over_a_part_of_an_old_one_keeps_the_new() {
    let old = three_nodes();
    let new = old.replace("0-5460 ", "0-100 ").replace("Epoch 7", "Epoch 9").replace("connected 5461", "connected 101");
    let cut = new.find(C).expect("a third line");
    let (contents, repairs) = read_text(&format!("{}{}", &new[..cut], &old[cut - 60..]));
    assert_eq!(contents.nodes[&id(A)].slots.ranges(), [(0, 100)]);
    assert_eq!(contents.slots.owner(101), Some(id(B)));
    assert!(repairs.iter().all(|repair| matches!(repair, Repair::Line { .. })), "{repairs:?}");
}

#[test]
fn the_greater_epoch_keeps_a_slot_that_two_nodes_claim() {
    let text = format!(
        "{B} :0@0 master - 0 0 2 connected 0-9\n{A} :0@0 myself,master - 0 0 3 connected 5-14\n\
         {C} :0@0 master - 0 0 3 connected 14-20\nvars currentEpoch 3 lastVoteEpoch 0\n"
    );
    let (contents, repairs) = read_text(&text);
    let ranges = |node: &str| contents.nodes[&id(node)].slots.ranges();
    assert_eq!((ranges(A), ranges(B), ranges(C)), (vec![(5, 14)], vec![(0, 4)], vec![(15, 20)]));
    let twice = |node: &str, slots| Repair::ClaimedTwice { node: id(node), slots };
    assert_eq!(repairs, [twice(C, 1), twice(B, 5)]);
}

#[test]
fn each_contradiction_drops_one_thing() {
    let me = format!("{A} 1.1.1.1:1@2 myself,master - 0 0 1 connected 0-9\n");
    let vars = "vars currentEpoch 5 lastVoteEpoch 4\n";
    let (a, b, c) = (id(A), id(B), id(C));
    let field = |node, field| Repair::Field { node, field };
    let cases = [
        (format!("{B} 1.1.1.1:99999@2 master - 0 0 1 connected\n"), vec![field(b, "address")]),
        (format!("{B} 1.1.1.1:1@2 master,strange - 0 0 1 connected\n"), vec![field(b, "unknown flag")]),
        (format!("{B} 1.1.1.1:1@2 master - 0 0 x connected\n"), vec![field(b, "configuration epoch")]),
        (
            format!("{B} 1.1.1.1:1@2 master - 0 0 1 connected 20-16384 30 40-35\n"),
            vec![field(b, "slots"), field(b, "slots")],
        ),
        (format!("{B} 1.1.1.1:1@2,,shard-id=x master - 0 0 1 connected\n"), vec![field(b, "shard")]),
        (format!("{B} 1.1.1.1:1@2,,new-name=x master - 0 0 1 connected\n"), vec![]),
        (format!("{B} 1.1.1.1:1@2 slave {C} 0 0 1 connected\n"), vec![Repair::Primary { node: b }]),
        (format!("{B} 1.1.1.1:1@2 slave {A} 0 0 1 connected 11\n"), vec![Repair::SlotsOfReplica { node: b }]),
        (format!("{B} 1.1.1.1:1@2,,shard-id={C} slave {A} 0 0 1 connected\n"), vec![Repair::Shard { node: b }]),
        (format!("{B} 1.1.1.1:1@2 myself,master - 0 0 1 connected\n"), vec![Repair::SecondMyself { node: b }]),
        (format!("{A} 1.1.1.1:1@2 master - 0 0 1 connected 20\n"), vec![Repair::SecondLine { node: a }]),
        (format!("{B} 1.1.1.1:1@2 master - 0 0 1 connected [5->-{A}]\n"), vec![Repair::Move { slot: 5, node: a }]),
        (format!("{B} 1.1.1.1:1@2 handshake - 0 0 0 connected\n"), vec![field(b, "node in handshake")]),
        (format!("{B} 1.1.1.1:1@2 master - 0\n"), vec![Repair::Line { line: 2 }]),
        ("vars strange 1\n".to_owned(), vec![Repair::Variable]),
        (format!("{C} 1.1.1.1:1@2 master - 0 0 6 connected\n"), vec![Repair::CurrentEpoch { raised_to: 6 }]),
    ];
    for (line, repairs) in cases {
        let (contents, made) = read_text(&format!("{me}{line}{vars}"));
        assert_eq!(made, repairs, "{line}");
        assert_eq!(contents.me, a, "{line}");
        assert_eq!(contents.nodes[&a].slots.ranges(), [(0, 9)], "{line}");
        assert!(!contents.nodes.contains_key(&c) || line.starts_with(C), "{line}");
    }
}

#[test]
fn a_replica_keeps_a_primary_without_a_line() {
    let (contents, repairs) = read_text(&format!("{A} 1.1.1.1:1@2 myself,slave {B} 0 0 4 connected\n"));
    assert_eq!(contents.nodes[&id(A)].primary, Some(id(B)));
    assert!(contents.nodes[&id(B)].flags.has(NodeFlags::NO_ADDRESS));
    assert!(repairs.contains(&Repair::Primary { node: id(A) }));
}

#[test]
fn a_lost_last_vote_forbids_a_vote_in_the_current_epoch() {
    let me = format!("{A} 1.1.1.1:1@2 myself,master - 0 0 4 connected\n");
    for (vars, epochs) in [
        ("", (4, 4)),
        ("vars currentEpoch 9\n", (9, 9)),
        ("vars lastVoteEpoch 9\n", (9, 9)),
        ("vars currentEpoch 9 lastVoteEpoch x\n", (9, 9)),
        ("vars currentEpoch 9 lastVoteEpoch 8", (9, 9)),
        ("vars currentEpoch 9 lastVoteEpoch 8\nvars currentEpoch 7 lastVoteEpoch 3\n", (9, 8)),
    ] {
        let (contents, _) = read_text(&format!("{me}{vars}"));
        assert_eq!((contents.epochs.current, contents.epochs.last_vote), epochs, "{vars:?}");
    }
}

#[test]
fn names_that_would_break_a_line_are_not_written() {
    let (mut contents, _) = read_text(&three_nodes());
    let address = &mut contents.nodes.get_mut(&id(A)).expect("this node").address;
    address.hostname = "a b\nvars currentEpoch 99".to_owned();
    address.human_name = "x,shard-id=y".to_owned();
    let (again, repairs) = read_text(&write_contents(&contents));
    assert_eq!(repairs, []);
    assert_eq!((again.nodes[&id(A)].address.hostname.as_str(), again.epochs.current), ("", 7));
}

#[test]
fn nodes_and_repairs_have_bounds() {
    let mut text = format!("{A} 1.1.1.1:1@2 myself,master - 0 0 1 connected\n");
    for number in 0..NODES_MAX + 9 {
        _ = std::fmt::Write::write_fmt(&mut text, format_args!("{number:040x} x slave {C} 0 0 1 connected\n"));
    }
    let (contents, repairs) = read_text(&text);
    assert_eq!(contents.nodes.len(), NODES_MAX);
    assert!(repairs.len() <= 101 && matches!(repairs.last(), Some(Repair::More { .. })));
}

#[test]
fn many_ranges_of_all_slots_are_read_at_once() {
    let ranges = " 0-16383".repeat((TEXT_MAX - 200) / 8);
    let text = format!("{A} 1.1.1.1:1@2 myself,master - 0 0 1 connected{ranges}\n");
    assert_eq!(read_text(&text).0.nodes[&id(A)].slots.len(), usize::from(SLOTS));
}

proptest! {
    /// The contents of a file have slots that agree with their owners, and are written and read again without a repair.
    #[test]
    fn mutated_files_are_refused_or_repaired(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..30),
        start in any::<prop::sample::Index>(),
        is_doubled in any::<bool>(),
    ) {
        let mut text = three_nodes().into_bytes();
        if is_doubled {
            let from = start.index(text.len());
            text.extend_from_within(from..);
        }
        for (place, byte, kind) in changes {
            let at = place.index(text.len().max(1)).min(text.len().saturating_sub(1));
            match kind {
                0 => text.insert(at, byte),
                1 if text.len() > 1 => _ = text.remove(at),
                2 => text.truncate(at.max(200)),
                _ => text[at] = byte,
            }
        }
        let Ok(Some((contents, _))) = read(&text, false, NOW) else { return Ok(()) };
        let mut owned = 0;
        for node in contents.nodes.values() {
            owned += node.slots.len();
            prop_assert!(node.slots.iter().all(|slot| contents.slots.owner(slot) == Some(node.id)));
        }
        prop_assert_eq!(owned, (0..SLOTS).filter(|slot| contents.slots.owner(*slot).is_some()).count());
        prop_assert!(contents.nodes[&contents.me].flags.has(NodeFlags::MYSELF));
        prop_assert!(contents.epochs.last_vote <= contents.epochs.current);
        let (again, repairs) = read_text(&write_contents(&contents));
        prop_assert_eq!(repairs, vec![]);
        prop_assert_eq!(again.nodes.len(), contents.nodes.len());
        prop_assert_eq!(again.slots, contents.slots);
    }

    #[test]
    fn random_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..2_000)) {
        _ = read(&text, false, NOW);
    }

    #[test]
    fn slots_of_any_set_are_written_and_read(slots in prop::collection::vec(0..SLOTS, 0..200)) {
        let slots: SlotSet = slots.into_iter().collect();
        let (mut contents, _) = read_text(&format!("{A} 1.1.1.1:1@2 myself,master - 0 0 1 connected\n"));
        contents.nodes.get_mut(&id(A)).expect("this node").slots = slots.clone();
        let (again, _) = read_text(&write_contents(&contents));
        prop_assert_eq!(&again.nodes[&id(A)].slots, &slots);
    }
}
