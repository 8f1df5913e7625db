//! Packets of real servers, packets of chance, and packets that are known to have broken other servers.

use proptest::collection::vec;
use proptest::prelude::*;

use super::layout::{EXTENSIONS_BYTES_MAX, FULL_BYTES, GOSSIP_BYTES, MESSAGE_PACKET_BYTES_MAX};
use super::*;

/// The packets that three nodes of each server sent each other, one behind the other: joining, gossip, messages, a forgotten
/// node, a manual failover, a failed node, and a node that comes back with slots that it has lost.
const CAPTURED: [(&str, &[u8]); 3] = [
    ("Redis 7.0", include_bytes!("../../tests/packets/redis-7.0.bus")),
    ("Redis 8.6", include_bytes!("../../tests/packets/redis-8.6.bus")),
    ("Valkey 9.1", include_bytes!("../../tests/packets/valkey-9.1.bus")),
];

fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        let length = frame_length(stream).expect("a packet").expect("a whole header");
        let (frame, rest) = stream.split_at(length);
        frames.push(frame);
        stream = rest;
    }
    frames
}

fn header() -> Header {
    Header {
        sender: NodeId::new([0xab; 20]),
        flags: NodeFlags::PRIMARY.with(NodeFlags::MYSELF),
        current_epoch: 0x0102_0304_0506_0708,
        config_epoch: 0x1112_1314_1516_1718,
        offset: 0x2122_2324_2526_2728,
        slots: [0, 8, 16_383].into_iter().collect(),
        primary: Some(NodeId::new([0xcd; 20])),
        ip: "192.0.2.1".to_owned(),
        port: 0x3132,
        other_port: 0x4142,
        bus_port: 0x5152,
        is_cluster_ok: false,
        is_paused: true,
        is_forced: true,
        reads_extensions: true,
    }
}

fn heartbeat(extensions: Vec<Extension>) -> Vec<u8> {
    let body = Body::Heartbeat(Heartbeat { kind: HeartbeatKind::Ping, gossip: Vec::new(), extensions });
    Packet::Full { header: Box::new(header()), body }.encode()
}

fn publish() -> Vec<u8> {
    let message = Message { channel: b"news".to_vec(), message: b"hello".to_vec(), is_sharded: false };
    Packet::Full { header: Box::new(header()), body: Body::Publish(message) }.encode()
}

fn of_body(body: Body) -> Vec<u8> {
    Packet::Full { header: Box::new(header()), body }.encode()
}

/// Writes bytes into a packet.
fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Sets the length of a packet in its header to its length.
fn settle(packet: &mut [u8]) {
    let length = packet.len() as u32;
    put(packet, 4, &length.to_be_bytes());
}

#[test]
fn captured_packets_are_read_and_written_back_byte_for_byte() {
    for (server, stream) in CAPTURED {
        for frame in frames(stream) {
            let packet = decode(frame).unwrap_or_else(|fault| panic!("{server}: {fault}"));
            let is_known = match &packet {
                Packet::Full { body: Body::Heartbeat(heartbeat), .. } => {
                    !heartbeat.extensions.iter().any(|extension| matches!(extension, Extension::Unknown(_)))
                }
                _ => true,
            };
            if is_known {
                assert!(packet.encode() == frame, "{server}: {packet:?}");
            } else {
                assert_eq!(decode(&packet.encode()).as_ref(), Ok(&packet), "{server}");
            }
        }
    }
}

#[test]
fn captured_packets_cover_each_type_of_the_bus() {
    for (server, stream) in CAPTURED {
        let kinds: Vec<_> = frames(stream).into_iter().filter_map(|frame| decode(frame).ok()?.kind()).collect();
        for kind in PacketType::ALL {
            // No module is loaded.
            assert_eq!(kinds.contains(&kind), kind != PacketType::Module, "{server}: {}", kind.name());
        }
    }
}

#[test]
fn the_header_has_each_field_at_its_offset() {
    let bytes = heartbeat(vec![Extension::Shard(NodeId::new([1; 20]))]);
    for (at, wanted) in [
        (0, b"RCmb".as_slice()),
        (4, &(bytes.len() as u32).to_be_bytes()),
        (8, &[0, 1, 0x31, 0x32, 0, 0, 0, 0]),
        (16, &[1, 2, 3, 4, 5, 6, 7, 8]),
        (24, &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]),
        (32, &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]),
        (40, b"ab"),
        (80, &[1, 1]),
        (2_127, &[0x80]),
        (2_128, b"cd"),
        (2_168, b"192.0.2.1\0"),
        (2_214, &[0, 1]),
        (2_216, &[0; 30]),
        (2_246, &[0x41, 0x42, 0x51, 0x52, 0, 17, 1, 7, 0, 0]),
        (2_256, &[0, 0, 0, 48, 0, 3, 0, 0, b'0', b'1']),
    ] {
        assert_eq!(&bytes[at..at + wanted.len()], wanted, "at {at}");
    }
}

#[test]
fn a_length_is_known_from_sixteen_bytes_and_refused_from_the_first() {
    let bytes = publish();
    for end in 0..16 {
        assert_eq!(frame_length(&bytes[..end]), Ok(None), "of {end} bytes");
    }
    assert_eq!(frame_length(&bytes[..16]), Ok(Some(bytes.len())));
    assert_eq!(frame_length(b"G"), Err(Malformed::Signature));
    assert_eq!(frame_length(b"RCmG"), Err(Malformed::Signature));
    let mut other = bytes.clone();
    put(&mut other, 8, &[0, 2]);
    assert_eq!(frame_length(&other), Err(Malformed::Version(2)));
}

#[test]
fn a_stated_length_beyond_the_bounds_of_its_type_is_refused() {
    let gossip = 3;
    for (kind, least, most) in [
        (
            PacketType::Ping,
            FULL_BYTES + gossip * GOSSIP_BYTES,
            FULL_BYTES + gossip * GOSSIP_BYTES + EXTENSIONS_BYTES_MAX,
        ),
        (PacketType::Fail, 2_296, 2_296),
        (PacketType::Publish, 2_264, MESSAGE_PACKET_BYTES_MAX),
        (PacketType::VoteRequest, 2_256, 2_256),
        (PacketType::Vote, 2_256, 2_256),
        (PacketType::Update, 4_352, 4_352),
        (PacketType::ManualFailover, 2_256, 2_256),
        (PacketType::Module, 2_269, MESSAGE_PACKET_BYTES_MAX),
    ] {
        let head = |length: usize| {
            let mut head = b"RCmb".to_vec();
            head.extend_from_slice(&(length as u32).to_be_bytes());
            head.extend_from_slice(&[0, 1, 0, 0, 0, kind.code() as u8, 0, gossip as u8]);
            head
        };
        for length in [least, most] {
            assert_eq!(frame_length(&head(length)), Ok(Some(length)), "{}", kind.name());
        }
        for stated in [0, 8, 16, least - 1, most + 1, u32::MAX as usize] {
            let refused = Err(Malformed::Length { kind: kind.code(), stated });
            assert_eq!(frame_length(&head(stated)), refused, "{}", kind.name());
        }
    }
}

#[test]
fn a_packet_that_forgets_its_own_sender_is_refused() {
    let forgotten = |node| heartbeat(vec![Extension::Forgotten { node, ttl_s: 60 }]);
    assert_eq!(decode(&forgotten(header().sender)), Err(Malformed::ForgetsSender));
    assert!(decode(&forgotten(NodeId::new([9; 20]))).is_ok());
}

#[test]
fn the_length_of_an_extension_is_judged_with_all_32_bits() {
    // With 16 bits the length would be 48, which fits.
    let mut bytes = heartbeat(vec![Extension::Shard(NodeId::new([1; 20]))]);
    put(&mut bytes, FULL_BYTES, &0x0001_0030_u32.to_be_bytes());
    assert_eq!(decode(&bytes), Err(Malformed::Part("extension")));
    for stated in [0_u32, 7, 9, 47] {
        put(&mut bytes, FULL_BYTES, &stated.to_be_bytes());
        assert_eq!(decode(&bytes), Err(Malformed::Extension { kind: 3, stated }));
    }
}

#[test]
fn a_length_below_the_parts_of_the_packet_is_refused() {
    // More extensions, and more entries of gossip, than the packet has bytes for.
    let mut bytes = heartbeat(vec![Extension::Shard(NodeId::new([1; 20]))]);
    put(&mut bytes, 2_214, &[0, 2]);
    assert_eq!(decode(&bytes), Err(Malformed::Part("extension")));
    put(&mut bytes, 2_214, &[0, 0]);
    assert_eq!(decode(&bytes), Err(Malformed::Part("extensions")));
    let stated = bytes.len();
    put(&mut bytes, 14, &[0, 1]);
    assert_eq!(decode(&bytes), Err(Malformed::Length { kind: 0, stated }));
}

#[test]
fn the_lengths_of_a_message_are_judged_without_overflow() {
    for (channel, message) in [(5, 5), (4, 4), (u32::MAX, 5), (4, u32::MAX), (u32::MAX, u32::MAX), (u32::MAX - 3, 12)] {
        let mut bytes = publish();
        put(&mut bytes, FULL_BYTES, &u32::to_be_bytes(channel));
        put(&mut bytes, FULL_BYTES + 4, &u32::to_be_bytes(message));
        assert_eq!(decode(&bytes), Err(Malformed::Part("message")), "{channel} and {message}");
    }
}

#[test]
fn the_length_of_a_module_message_is_judged() {
    let mut bytes = of_body(Body::Module);
    assert!(decode(&bytes).is_ok());
    for length in [1, u32::MAX, u32::MAX - 12] {
        put(&mut bytes, FULL_BYTES + 8, &u32::to_be_bytes(length));
        assert_eq!(decode(&bytes), Err(Malformed::Part("module")), "{length}");
    }
    put(&mut bytes, FULL_BYTES + 8, &[0; 4]);
    bytes.push(0);
    settle(&mut bytes);
    assert_eq!(decode(&bytes), Err(Malformed::Part("body")));
}

#[test]
fn a_text_without_its_zero_byte_is_refused() {
    let mut bytes = heartbeat(vec![Extension::Hostname("seven77".to_owned())]);
    put(&mut bytes, FULL_BYTES + 15, b"7");
    assert_eq!(decode(&bytes), Err(Malformed::Text("host name")));
    // A host name of no bytes at all.
    put(&mut bytes, FULL_BYTES, &8_u32.to_be_bytes());
    bytes.truncate(FULL_BYTES + 8);
    settle(&mut bytes);
    assert_eq!(decode(&bytes), Err(Malformed::Text("host name")));
    let mut bytes = publish();
    put(&mut bytes, 2_168, &[b'1'; 46]);
    assert_eq!(decode(&bytes), Err(Malformed::Text("IP address")));
}

#[test]
fn a_text_that_would_break_a_line_of_nodes_conf_is_refused() {
    for name in ["a b", "a\nvars currentEpoch 9", "a,b", "shard-id=x", "a\"", "a\u{7f}", "a\u{2028}b"] {
        let bytes = heartbeat(vec![Extension::HumanName(name.to_owned())]);
        assert_eq!(decode(&bytes), Err(Malformed::Text("name for people")), "{name:?}");
    }
    assert!(decode(&heartbeat(vec![Extension::HumanName("Zürich-1/a".to_owned())])).is_ok());
}

#[test]
fn ids_that_are_no_ids_are_refused() {
    for (at, bytes, field) in [(40, b"Q", "sender"), (79, b"\0", "sender"), (2_128, b"\0", "primary")] {
        let mut packet = publish();
        put(&mut packet, at, bytes);
        assert_eq!(decode(&packet), Err(Malformed::Id(field)));
    }
}

#[test]
fn a_secret_of_redis_8_is_not_taken_for_an_address() {
    let mut bytes = heartbeat(vec![Extension::Shard(NodeId::new([1; 20]))]);
    put(&mut bytes, FULL_BYTES + 4, &[0, 4]);
    let Ok(Packet::Full { body: Body::Heartbeat(heartbeat), .. }) = decode(&bytes) else { panic!("a heartbeat") };
    assert_eq!(heartbeat.extensions, [Extension::Unknown(4)]);
    let packet = decode(&bytes).expect("a heartbeat");
    assert_eq!(decode(&packet.encode()), Ok(packet));
}

#[test]
fn only_messages_have_light_headers() {
    let message = Message { channel: b"orders".to_vec(), message: b"paid".to_vec(), is_sharded: true };
    let bytes = Packet::Light(message.clone()).encode();
    assert_eq!(&bytes[..24], b"RCmb\0\0\0\x22\0\x01\0\0\x80\x0a\0\0\0\0\0\x06\0\0\0\x04");
    assert_eq!(decode(&bytes), Ok(Packet::Light(message)));
    for kind in PacketType::ALL {
        let mut bytes = bytes.clone();
        put(&mut bytes, 12, &(0x8000 | kind.code()).to_be_bytes());
        match kind {
            PacketType::Publish | PacketType::PublishShard => {
                assert_eq!(decode(&bytes).map(|packet| packet.kind()), Ok(Some(kind)))
            }
            _ => assert_eq!(decode(&bytes), Err(Malformed::LightType(0x8000 | kind.code()))),
        }
        // The light packet with a full type is shorter than any full packet.
        put(&mut bytes, 12, &kind.code().to_be_bytes());
        assert_eq!(decode(&bytes), Err(Malformed::Length { kind: kind.code(), stated: 34 }));
    }
    for length in 0..24 {
        assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn a_packet_of_a_later_type_is_read_up_to_its_body() {
    let bytes = of_body(Body::Unknown(11));
    let Ok(Packet::Full { body, .. }) = decode(&bytes) else { panic!("a packet") };
    assert_eq!(body, Body::Unknown(11));
}

fn id() -> impl Strategy<Value = NodeId> {
    any::<[u8; 20]>().prop_map(NodeId::new)
}

fn slots() -> impl Strategy<Value = SlotSet> {
    vec(0..crate::SLOTS, 0..20).prop_map(|slots| slots.into_iter().collect())
}

fn headers() -> impl Strategy<Value = Header> {
    let numbers = (any::<[u64; 3]>(), any::<[u16; 4]>(), any::<[bool; 4]>());
    (id(), proptest::option::of(id()), slots(), "[0-9a-f.:]{0,45}", numbers).prop_map(
        |(sender, primary, slots, ip, (longs, shorts, bits))| Header {
            sender,
            flags: NodeFlags(shorts[0]),
            current_epoch: longs[0],
            config_epoch: longs[1],
            offset: longs[2],
            slots,
            primary,
            ip,
            port: shorts[1],
            other_port: shorts[2],
            bus_port: shorts[3],
            is_cluster_ok: bits[0],
            is_paused: bits[1],
            is_forced: bits[2],
            reads_extensions: bits[3],
        },
    )
}

fn messages() -> impl Strategy<Value = Message> {
    (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..200), any::<bool>())
        .prop_map(|(channel, message, is_sharded)| Message { channel, message, is_sharded })
}

fn gossip() -> impl Strategy<Value = Gossip> {
    (id(), any::<[u32; 2]>(), "[0-9a-f.:]{0,45}", any::<[u16; 4]>()).prop_map(|(node, times, ip, numbers)| Gossip {
        node,
        ping_sent_s: times[0],
        pong_s: times[1],
        ip,
        port: numbers[0],
        bus_port: numbers[1],
        flags: NodeFlags(numbers[2]),
        other_port: numbers[3],
    })
}

fn extensions() -> impl Strategy<Value = Extension> {
    prop_oneof![
        "[a-z0-9.-]{0,60}".prop_map(Extension::Hostname),
        "[a-zä/]{0,60}".prop_map(Extension::HumanName),
        (id(), any::<u64>()).prop_map(|(node, ttl_s)| Extension::Forgotten { node, ttl_s }),
        id().prop_map(Extension::Shard),
        "[0-9.]{0,15}".prop_map(Extension::ClientIpv4),
        "[0-9a-f:]{0,45}".prop_map(Extension::ClientIpv6),
        any::<u16>().prop_map(Extension::ClientPort),
        any::<u16>().prop_map(Extension::ClientTlsPort),
        (8_u16..).prop_map(Extension::Unknown),
    ]
}

fn heartbeats() -> impl Strategy<Value = Heartbeat> {
    let kinds = prop_oneof![Just(HeartbeatKind::Ping), Just(HeartbeatKind::Pong), Just(HeartbeatKind::Meet)];
    (kinds, vec(gossip(), 0..5), vec(extensions(), 0..5)).prop_map(|(kind, gossip, extensions)| Heartbeat {
        kind,
        gossip,
        extensions,
    })
}

fn bodies() -> impl Strategy<Value = Body> {
    prop_oneof![
        4 => heartbeats().prop_map(Body::Heartbeat),
        1 => id().prop_map(Body::Fail),
        2 => messages().prop_map(Body::Publish),
        1 => (id(), any::<u64>(), slots()).prop_map(|(node, config_epoch, slots)| Body::Update { node, config_epoch, slots }),
        1 => prop_oneof![
            Just(Body::VoteRequest),
            Just(Body::Vote),
            Just(Body::ManualFailover),
            Just(Body::Module),
            (11_u16..0x8000).prop_map(Body::Unknown),
        ],
    ]
}

fn packets() -> impl Strategy<Value = Packet> {
    prop_oneof![
        4 => (headers(), bodies()).prop_map(|(mut header, body)| {
            if let Body::Heartbeat(heartbeat) = &body {
                header.reads_extensions |= !heartbeat.extensions.is_empty();
            }
            Packet::Full { header: Box::new(header), body }
        }),
        1 => messages().prop_map(Packet::Light),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn packets_read_back_as_they_were_written(packet in packets()) {
        let bytes = packet.encode();
        prop_assert_eq!(frame_length(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(decode(&bytes), Ok(packet));
    }

    #[test]
    fn damaged_packets_are_read_or_refused(packet in packets(), damage in vec((any::<u16>(), any::<u8>()), 1..6), end in any::<u16>()) {
        let mut bytes = packet.encode();
        for (at, byte) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(usize::from(end) % 5_000);
        if let Ok(packet) = decode(&bytes) {
            prop_assert_eq!(decode(&packet.encode()), Ok(packet));
        }
    }
}
