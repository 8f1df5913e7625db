//! Judging by made-up numbers: each cause alone, numbers just below its limits, and the order of two causes.

use super::figures::{percent, size, time};
use super::finding::{Cause, SHARE_MIN};
use super::*;
use crate::doctor::evidence::{
    Bursts, Calls, Forks, Log, MonitorSample, Path, Server, SlowCommand, Sockets, Times, Traffic, Usage,
};

/// Returns a program that sends twenty commands together every ten milliseconds, over a way of 100 us.
fn healthy() -> Evidence {
    Evidence {
        path: Path {
            round_trip_us: Times { count: 1_000, p10: 90.0, p50: 100.0, p99: 200.0, max: 900.0 },
            alone_per_second: 10_000.0,
            together_per_second: 500_000.0,
            connect_us: 300.0,
            bytes_per_second: Some(1e8),
        },
        traffic: Traffic {
            seconds: 10.0,
            commands: 20_000,
            reads: 1_000,
            bytes_in: 800_000,
            bytes_out: 200_000,
            clients: 1.0,
            ..Traffic::default()
        },
        calls: vec![Calls { name: "set".to_owned(), count: 20_000, time_us: 40_000.0 }],
        probe_us: Times { count: 200, p10: 90.0, p50: 105.0, p99: 300.0, max: 1_200.0 },
        server: Server {
            workers: 1.0,
            busy_share: Some(0.05),
            used_bytes: 100 << 20,
            resident_bytes: 120 << 20,
            ..Server::default()
        },
        ..Evidence::default()
    }
}

fn causes(evidence: &Evidence) -> Vec<Cause> {
    judge(evidence, None).iter().map(|finding| finding.cause).collect()
}

/// Returns the report's text of the only cause.
fn only(evidence: &Evidence, cause: Cause) -> String {
    let findings = judge(evidence, None);
    assert_eq!(findings.iter().map(|finding| finding.cause).collect::<Vec<_>>(), [cause], "{findings:?}");
    let finding = &findings[0];
    assert!((SHARE_MIN..=1.0).contains(&finding.weight), "{finding:?}");
    format!("{}\n{}", finding.numbers.join("\n"), finding.remedy)
}

#[test]
fn a_healthy_program_has_no_cause() {
    assert_eq!(causes(&healthy()), []);
    // One at a time, but seldom; and with nothing known of the server.
    let seldom = Evidence { traffic: Traffic { commands: 1_000, ..healthy().traffic }, ..healthy() };
    assert_eq!(causes(&seldom), []);
    let unknown = Evidence { calls: Vec::new(), server: Server::default(), ..healthy() };
    assert_eq!(causes(&unknown), []);
    assert_eq!(causes(&Evidence::default()), []);
}

#[test]
fn connections_that_serve_for_a_command() {
    let evidence = Evidence {
        traffic: Traffic { commands: 20_000, connects: 20_000, reads: 40_000, ..healthy().traffic },
        ..healthy()
    };
    let findings = causes(&evidence);
    assert_eq!(findings, [Cause::ConnectionPerCommand, Cause::NoPipelining]);
    let server = Server { busy_share: Some(0.5), ..healthy().server };
    let crowded = Evidence {
        traffic: Traffic { commands: 300, connects: 300, reads: 300, ..healthy().traffic },
        server,
        ..healthy()
    };
    assert_eq!(causes(&crowded), [Cause::ConnectionPerCommand], "the server has more to do with them");
    let few = Evidence { traffic: Traffic { connects: 15, ..healthy().traffic }, ..healthy() };
    assert_eq!(causes(&few), [], "a pool opens its connections");
    let long = Evidence { traffic: Traffic { connects: 1_000, reads: 2_000, ..healthy().traffic }, ..healthy() };
    assert_eq!(causes(&long), [], "a connection for twenty commands at a time, seldom");
}

#[test]
fn waiting_for_each_reply() {
    let evidence = Evidence { traffic: Traffic { commands: 80_000, reads: 80_000, ..healthy().traffic }, ..healthy() };
    assert!(only(&evidence, Cause::NoPipelining).contains("1.0 commands a round trip of 100 us"));
    let shared = Evidence { traffic: Traffic { clients: 8.0, ..evidence.traffic }, ..evidence };
    assert_eq!(causes(&shared), [], "eight connections have each an eighth of the waiting");
}

#[test]
fn round_trips_of_a_request() {
    let bursts = Bursts { count: 50, round_trips: 10.0, alike_share: 0.9, pause_share: 0.6, command: "GET".to_owned() };
    let sample = |bursts| Some(MonitorSample { clients: Some(1.0), bursts: Some(bursts), ..MonitorSample::default() });
    let evidence = Evidence {
        traffic: Traffic { commands: 40_000, reads: 40_000, ..healthy().traffic },
        sample: sample(bursts.clone()),
        ..healthy()
    };
    assert!(only(&evidence, Cause::RoundTripsPerRequest).contains("MGET instead of GET"));
    let of_all = Bursts { command: "EVALSHA".to_owned(), ..bursts.clone() };
    let scripts = Evidence { sample: sample(of_all), ..evidence.clone() };
    assert!(only(&scripts, Cause::RoundTripsPerRequest).contains("a pipeline, a transaction, or a script"));
    let chance = [
        Bursts { alike_share: 0.2, ..bursts.clone() },
        Bursts { pause_share: 0.1, ..bursts.clone() },
        Bursts { count: 4, ..bursts },
    ];
    for bursts in chance {
        only(&Evidence { sample: sample(bursts), ..evidence.clone() }, Cause::NoPipelining);
    }
}

#[test]
fn unread_replies() {
    let sockets = |left_lying| Some(Sockets { looks: 200, left_lying });
    let program = Some(Usage { busiest_share: 0.98, delayed_share: 0.0 });
    let evidence = Evidence { sockets: sockets(180), program, ..healthy() };
    assert_eq!(causes(&evidence), [Cause::StarvedExecutor, Cause::Cpu]);
    assert!(judge(&evidence, None)[0].numbers.join(" ").contains("180 of 200 looks"));
    assert_eq!(causes(&Evidence { sockets: sockets(20), ..healthy() }), []);
}

#[test]
fn values_that_are_too_big() {
    let evidence = Evidence { traffic: Traffic { bytes_out: 400 << 20, ..healthy().traffic }, ..healthy() };
    assert!(only(&evidence, Cause::BigValues).contains("21 KiB"));
    let unmeasured = Path { bytes_per_second: None, ..healthy().path };
    only(&Evidence { path: unmeasured, ..evidence.clone() }, Cause::BigValues);
    let fast = Path { bytes_per_second: Some(1e10), ..healthy().path };
    assert_eq!(causes(&Evidence { path: fast, ..evidence }), []);
}

#[test]
fn commands_that_take_long() {
    let calls = |name: &str, count, time_us| vec![Calls { name: name.to_owned(), count, time_us }];
    let slow = vec![SlowCommand { time_us: 30_000, text: "KEYS user:*".to_owned() }];
    let evidence = Evidence { calls: calls("keys", 100, 3e6), slow, ..healthy() };
    let said = only(&evidence, Cause::SlowCommands);
    assert!(said.contains("KEYS: 100 calls of 30.0 ms each, 30 %") && said.contains("KEYS user:*"), "{said}");
    assert!(said.contains("SCAN"), "{said}");
    assert_eq!(causes(&Evidence { calls: calls("blpop", 100, 3e6), ..healthy() }), [], "it waits, as it should");
    assert_eq!(causes(&Evidence { calls: calls("get", 1_000_000, 3e6), ..healthy() }), [], "many, but quick");
    assert_eq!(causes(&Evidence { calls: calls("set", 100, 3e6), ..healthy() }), [], "it is the machine that is slow");
}

#[test]
fn a_key_that_all_want() {
    let sample = |share| {
        Some(MonitorSample { key_count: 500, hottest: Some(("\"a\"".to_owned(), share)), ..MonitorSample::default() })
    };
    let server = Server { busy_share: Some(0.5), ..healthy().server };
    let evidence = Evidence { sample: sample(0.9), server, ..healthy() };
    assert!(only(&evidence, Cause::HotKey).contains("\"a\": 90 % of 500 keys"));
    assert_eq!(causes(&Evidence { sample: sample(0.9), ..healthy() }), [], "the server hardly notices");
    assert_eq!(causes(&Evidence { sample: sample(0.3), ..evidence.clone() }), []);
    let waiting = Server { delayed_share: 0.48, ..evidence.server.clone() };
    assert_eq!(causes(&Evidence { server: waiting, ..evidence }), [], "it waits for a processor, not for the key");
}

#[test]
fn pauses_of_forks() {
    let evidence = Evidence { forks: Forks { count: 2, longest_us: 20_000 }, ..healthy() };
    assert!(only(&evidence, Cause::Fork).contains("20.0 ms: as long as 200 round trips"));
    assert_eq!(causes(&Evidence { forks: Forks { count: 2, longest_us: 900 }, ..healthy() }), []);
}

#[test]
fn a_disk_that_is_waited_for() {
    let log = |policy: &str, delayed| Log { is_on: true, policy: Some(policy.to_owned()), delayed };
    let waiting = Server { disk_share: Some(0.6), ..healthy().server };
    let local = Evidence { log: log("always", 0), server: waiting, ..healthy() };
    assert!(only(&local, Cause::Fsync).contains("for the disk in 60 % of all looks"));
    let later = Times { p50: 400.0, ..healthy().probe_us };
    let remote = Evidence { log: log("always", 0), probe_us: later, ..healthy() };
    assert!(only(&remote, Cause::Fsync).contains("a look-up took 400 us"));
    let read_only = vec![Calls { name: "get".to_owned(), count: 20_000, time_us: 40_000.0 }];
    assert_eq!(causes(&Evidence { calls: read_only, ..remote.clone() }), []);
    assert_eq!(causes(&Evidence { log: log("everysec", 0), ..remote }), []);
    let late = Times { max: 30_000.0, ..healthy().probe_us };
    let delayed = Evidence { log: log("everysec", 3), probe_us: late, ..healthy() };
    assert!(only(&delayed, Cause::Fsync).contains("3 writes waited"));
}

#[test]
fn memory_on_a_disk() {
    let here = Server { swapped_bytes: Some(60 << 20), major_faults: 40, ..healthy().server };
    assert!(only(&Evidence { server: here.clone(), ..healthy() }, Cause::Swapping).contains("60.0 MiB"));
    let asleep = Server { major_faults: 0, ..here };
    assert_eq!(causes(&Evidence { server: asleep, ..healthy() }), [], "what nobody wants back does no harm");
    let there = Server { resident_bytes: 50 << 20, ..healthy().server };
    assert!(only(&Evidence { server: there, ..healthy() }, Cause::Swapping).contains("its data take 100.0 MiB"));
}

#[test]
fn processors_that_are_busy() {
    let server = |busy, delayed| Server { busy_share: Some(busy), delayed_share: delayed, ..healthy().server };
    let evidence = Evidence { server: server(0.97, 0.02), ..healthy() };
    assert!(only(&evidence, Cause::Cpu).contains("More workers"));
    let crowded = Evidence { server: server(0.97, 0.9), ..healthy() };
    assert!(only(&crowded, Cause::Cpu).contains("or have less run on it"));
    let lone = Evidence { traffic: Traffic { reads: 20_000, clients: 50.0, ..evidence.traffic }, ..evidence };
    assert!(only(&lone, Cause::Cpu).contains("Send commands together"));
    let busy = Usage { busiest_share: 0.99, delayed_share: 0.0 };
    assert!(only(&Evidence { program: Some(busy), ..healthy() }, Cause::Cpu).contains("The program itself"));
    let fast = Evidence {
        traffic: Traffic { commands: 4_000_000, reads: 60_000, ..healthy().traffic },
        program: Some(busy),
        ..healthy()
    };
    assert_eq!(causes(&fast), [], "it does what is possible");
}

#[test]
fn a_way_that_is_narrow_or_long_or_loses() {
    let narrow = Path { bytes_per_second: Some(1e5), ..healthy().path };
    assert!(only(&Evidence { path: narrow, ..healthy() }, Cause::Network).contains("80 %"));
    let lossy = Evidence { sent_again_share: Some(0.03), ..healthy() };
    assert!(only(&lossy, Cause::Network).contains("3.0 % of this machine's TCP segments"));
    let far = Times { p10: 9_000.0, p50: 9_500.0, ..healthy().path.round_trip_us };
    let long = Path { round_trip_us: far, ..healthy().path };
    let evidence = Evidence { path: long, ..healthy() };
    assert!(only(&evidence, Cause::Network).contains("a round trip takes 9.5 ms"));
    let server = Server { busy_share: Some(0.9), ..healthy().server };
    only(&Evidence { server, ..evidence }, Cause::Cpu);
}

#[test]
fn causes_in_the_program_come_before_exhausted_resources() {
    let server = Server { busy_share: Some(1.0), ..healthy().server };
    let calls = vec![Calls { name: "sort".to_owned(), count: 100, time_us: 2e6 }];
    let evidence = Evidence { server, calls, ..healthy() };
    assert_eq!(causes(&evidence), [Cause::SlowCommands, Cause::Cpu]);
    let both = Evidence { forks: Forks { count: 1, longest_us: 90_000 }, ..evidence };
    assert_eq!(causes(&both), [Cause::Fork, Cause::SlowCommands, Cause::Cpu], "the heavier first");
}

#[test]
fn figures_have_units_and_as_many_digits_as_they_deserve() {
    assert_eq!([0.00003, 0.0123, 0.5, 1.0].map(percent), ["under 0.1 %", "1.2 %", "50 %", "100 %"]);
    assert_eq!([45.0, 1_234.0, 2_500_000.0].map(time), ["45 us", "1.2 ms", "2.5 s"]);
    assert_eq!([100.0, 2_048.0, 3_145_728.0].map(size), ["100 bytes", "2 KiB", "3.0 MiB"]);
}
