//! The options of the state machine, from those of the configuration. Any thread.

use sleeve_cluster::node::Address;
use sleeve_cluster::state::Options;
use sleeve_cluster::state::options::EndpointType;

use crate::config::{Config, Opt, load};

/// Returns the options of the state machine.
pub fn of(config: &Config) -> Options {
    let number = |option| u64::try_from(config.number(option)).unwrap_or(0);
    Options {
        node_timeout_ms: number(Opt::ClusterNodeTimeout),
        replica_validity_factor: number(Opt::ClusterReplicaValidityFactor),
        migration_barrier: usize::try_from(config.number(Opt::ClusterMigrationBarrier)).unwrap_or(0),
        allows_replica_migration: config.flag(Opt::ClusterAllowReplicaMigration),
        requires_full_coverage: config.flag(Opt::ClusterRequireFullCoverage),
        is_no_failover: config.flag(Opt::ClusterReplicaNoFailover),
        replica_ping_period_ms: number(Opt::ReplPingReplicaPeriod).saturating_mul(1_000),
        has_tls: config.flag(Opt::TlsCluster),
        endpoint_type: match config.number(Opt::ClusterPreferredEndpointType) {
            1 => EndpointType::Hostname,
            2 => EndpointType::UnknownEndpoint,
            _ => EndpointType::Ip,
        },
        address: address(config),
    }
}

/// Returns whether the options of the state machine depend on this option, besides the ports for clients.
pub fn contain(option: Opt) -> bool {
    matches!(
        option,
        Opt::ClusterNodeTimeout
            | Opt::ClusterRequireFullCoverage
            | Opt::ClusterReplicaNoFailover
            | Opt::ClusterReplicaValidityFactor
            | Opt::ClusterMigrationBarrier
            | Opt::ClusterAllowReplicaMigration
            | Opt::ClusterPreferredEndpointType
            | Opt::ClusterAnnounceIp
            | Opt::ClusterAnnounceHostname
            | Opt::ClusterAnnounceHumanNodename
            | Opt::ClusterAnnouncePort
            | Opt::ClusterAnnounceTlsPort
            | Opt::ClusterAnnounceBusPort
            | Opt::ReplPingReplicaPeriod
            | Opt::TlsCluster
    )
}

/// Returns the address under which this node announces itself.
fn address(config: &Config) -> Address {
    let text = |option| String::from_utf8_lossy(&config.text(option)).into_owned();
    let port = |options: [Opt; 2]| {
        let set = options.map(|option| u16::try_from(config.number(option)).unwrap_or(0));
        if set[0] == 0 { set[1] } else { set[0] }
    };
    Address {
        ip: text(Opt::ClusterAnnounceIp),
        port: port([Opt::ClusterAnnouncePort, Opt::Port]),
        tls_port: port([Opt::ClusterAnnounceTlsPort, Opt::TlsPort]),
        bus_port: match u16::try_from(config.number(Opt::ClusterAnnounceBusPort)) {
            Ok(announced @ 1..) => announced,
            // A port that is too high has ended the start.
            _ => load::bus_port(config).unwrap_or(0),
        },
        hostname: text(Opt::ClusterAnnounceHostname),
        human_name: text(Opt::ClusterAnnounceHumanNodename),
        ..Address::default()
    }
}
