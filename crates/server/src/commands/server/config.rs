//! CONFIG GET, SET, RESETSTAT and REWRITE: the client's access to the option table.
//!
//! The options and the values that they take are in the table (`crate::config`). This module applies a changed option: most
//! options are read when they are needed, so there is nothing to apply.

use std::sync::atomic::Ordering;

use sleeve_wire::commands::Command;

use crate::config::rewrite as write_back;
use crate::config::rewrite::Added;
use crate::config::{Opt, value};
use crate::context::Cx;
use crate::context::eviction;
use crate::context::publish;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::cluster::host::{ServerHost, time};
use crate::engine::cluster::options;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::primary;
use crate::engine::replication::role_change;
use crate::engine::watchdog::thread as watchdog_thread;
use crate::host::crash;
use crate::host::facts;
use crate::host::log;
use crate::host::oom_score;
use crate::host::panics;
use crate::host::process_title;
use crate::net::tls;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// CONFIG GET parameter \[parameter ...\]
pub fn get(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let found = cx.engine.config.get(request.args.from(2));
    let mut reply = cx.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(&name);
        reply.bulk(&value);
    }
    Ok(())
}

/// CONFIG SET parameter value \[parameter value ...\]
pub fn set(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let words: Vec<&[u8]> = request.args.from(2).iter().collect();
    let (pairs, []) = words.as_chunks::<2>() else { return Err(Error::SYNTAX) };
    let pairs: Vec<_> = pairs.iter().map(|&[name, value]| (name, value)).collect();
    let readiness = &cx.engine.lifecycle.readiness;
    if readiness.has(Hindrance::Loading) || readiness.has(Hindrance::LoadingBeside) {
        refuse_while_loading(&pairs)?;
    }
    let changed = cx.engine.config.set(&pairs, cx.is_local(), |option| apply(cx, option))?;
    if changed.contains(&Opt::Maxmemory) {
        eviction::weigh_all(cx);
    }
    if changed.contains(&Opt::TrackingTableMaxKeys) {
        publish::limit_remembered_reads(cx);
    }
    let bytes_max = cx.engine.config.memory(Opt::Maxmemory);
    let is_tighter = changed.iter().any(|option| matches!(option, Opt::Maxmemory | Opt::MaxmemoryPolicy));
    // In a transaction the held locks are not those that eviction needs; the next write will evict.
    if is_tighter && bytes_max != 0 && cx.state.multi.executing.is_none() {
        eviction::make_room(cx, bytes_max);
    }
    if !changed.contains(&Opt::Appendonly) || !waits_for_end_of_log(cx) {
        cx.reply().ok();
    }
    Ok(())
}

/// Refuses, during loading, changes to the options that say where the data is and which data is loaded, as in Redis.
fn refuse_while_loading(pairs: &[(&[u8], &[u8])]) -> Outcome {
    let is_refused = |name: &[u8]| {
        Opt::find(name).is_some_and(|option| matches!(option, Opt::Appendonly | Opt::Dir | Opt::ReplDisklessLoad))
    };
    if pairs.iter().any(|(name, _)| is_refused(name)) { Err(Error::LOADING) } else { Ok(()) }
}

/// Returns whether the client is answered later: only when the AOF that was switched off is complete and no thread writes it
/// any more, as in Redis.
fn waits_for_end_of_log(cx: &mut Cx<'_>) -> bool {
    let engine = cx.engine;
    let end = &engine.persistence.aof.end;
    if !cx.may_block() {
        // In a transaction this thread waits, with all its clients, as in Redis.
        end.wait_until_closed();
        return false;
    }
    if !end.is_begun() {
        return false;
    }
    let nothing = Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null };
    cx.block(Command::ConfigSet.row(), nothing);
    if let Some(waiter) = cx.state.blocked.clone() {
        let answering = engine.handle();
        end.when_over(Box::new(move || answering.answer(&waiter, |reply| reply.ok())));
    }
    true
}

/// CONFIG RESETSTAT
pub fn reset_stat(cx: &mut Cx<'_>) -> Outcome {
    cx.engine.observe.stats.reset();
    cx.engine.observe.rates.reset();
    cx.engine.keyspace.lazy_free.forget();
    cx.engine.acl.log.reset_counts();
    cx.engine.replication.replicas.syncs.reset();
    cx.engine.persistence.snapshots.beginnings.reset();
    cx.engine.persistence.aof.totals().reset();
    if let Some(cluster) = cx.engine.cluster.get() {
        cluster.costs.retain(|_| false);
    }
    cx.reply().ok();
    Ok(())
}

/// CONFIG REWRITE
pub fn rewrite(cx: &mut Cx<'_>) -> Outcome {
    rewrite_with(cx, Added::Changed)
}

/// Writes the options into the configuration file; `added` says which options are added to it, even at their defaults.
pub fn rewrite_with(cx: &mut Cx<'_>, added: Added) -> Outcome {
    let config = &cx.engine.config;
    let file = config.file().ok_or(Error::fixed("ERR The server is running without a config file"))?;
    // If users have a file of their own, the configuration file has none.
    let users = if config.is_set(Opt::Aclfile) { Vec::new() } else { cx.engine.acl.all() };
    let users: Vec<_> = users.iter().map(|user| user.describe()).collect();
    write_back::rewrite(config, &users, &file, added).map_err(|error| {
        let reason = value::reason(&error);
        log::warning(&format!("CONFIG REWRITE failed: {reason}"));
        Error::new(format!("ERR Rewriting config file: {reason}"))
    })?;
    log::notice("CONFIG REWRITE executed with success.");
    cx.reply().ok();
    Ok(())
}

/// Applies a changed option where its value is kept a second time.
fn apply(cx: &Cx<'_>, option: Opt) -> Result<(), String> {
    let config = &cx.engine.config;
    match option {
        Opt::JournalMaxBytes => {
            let bytes = usize::try_from(config.memory(option)).unwrap_or(usize::MAX);
            cx.engine.journal.set_bytes_max(bytes);
        }
        Opt::Appendonly => {
            let aof = &cx.engine.persistence.aof;
            if config.flag(option) && cx.state.multi.executing.is_some() && !aof.exists() {
                log::warning(
                    "AOF was enabled during a transaction. An AOF background was scheduled to start when possible.",
                );
            }
            aof.toggle(&cx.engine.handle(), config.flag(option))?;
        }
        Opt::ReplBacklogSize => cx.engine.journal.set_backlog_bytes(config.memory(option)),
        Opt::MinReplicasToWrite | Opt::MinReplicasMaxLag => primary::weigh_replicas(cx.engine, cx.now),
        Opt::Appendfsync => cx.engine.persistence.aof.apply_sync_policy(cx.engine),
        Opt::AofDisableAutoGc => cx.engine.persistence.aof.remove_history_aside(&cx.engine.handle())?,
        Opt::ReplicaReadOnly | Opt::ReplicaServeStaleData => role_change::note_role(cx.engine),
        Opt::Save | Opt::StopWritesOnBgsaveError => cx.engine.persistence.snapshots.apply_save_rules(cx.engine),
        Opt::Requirepass => cx.engine.acl.set_default_password(&config.text(option)),
        Opt::WatchdogPeriod => watchdog_thread::apply_period(&cx.engine.handle())?,
        Opt::Loglevel => log::set_level(config.log_level()),
        Opt::Port | Opt::TlsPort | Opt::Bind => {
            if option == Opt::TlsPort && config.number(option) != 0 {
                load_certificate(cx)?;
            }
            let refusal = match option {
                Opt::Port | Opt::TlsPort => "Unable to listen on this port. Check server logs.",
                _ => "Failed to bind to specified addresses.",
            };
            cx.engine.network.listeners.reopen(config, refusal)?;
            cx.engine.network.port.store(config.number(Opt::Port) as u32, Ordering::Relaxed);
            process_title::show(config);
            apply_to_cluster(cx);
        }
        Opt::TlsCertFile
        | Opt::TlsKeyFile
        | Opt::TlsKeyFilePass
        | Opt::TlsCaCertFile
        | Opt::TlsCaCertDir
        | Opt::TlsAuthClients
        | Opt::TlsProtocols
        | Opt::TlsCiphers
        | Opt::TlsCiphersuites
        | Opt::TlsPreferServerCiphers
        | Opt::TlsSessionCaching
        | Opt::TlsSessionCacheSize
        | Opt::TlsSessionCacheTimeout
            if config.number(Opt::TlsPort) != 0 =>
        {
            load_certificate(cx)?;
        }
        Opt::HideUserDataFromLog => log::hide_user_data(config.flag(option)),
        Opt::UseExitOnPanic => panics::exit_on_panic(config.flag(option)),
        Opt::CrashLogEnabled => crash::set_wanted(config.flag(option)),
        Opt::ProcTitleTemplate => process_title::show(config),
        Opt::OomScoreAdj | Opt::OomScoreAdjValues => oom_score::apply(config)?,
        Opt::TcpKeepalive => cx.engine.network.listeners.set_keepalive(config.number(option) as u64),
        Opt::Workers => cx.engine.network.crews.resize(config.number(option) as usize)?,
        Opt::Maxclients => return raise_clients(config.number(option) as u64),
        _ if options::contain(option) => apply_to_cluster(cx),
        _ => {}
    }
    Ok(())
}

/// Hands the present options to the node of a cluster. The thread of the bus tells the other nodes, and shows the new view.
fn apply_to_cluster(cx: &Cx<'_>) {
    let Some(cluster) = cx.engine.cluster.get() else { return };
    let mut host = ServerHost::without_locks(cx.engine, cx.dice, cx.now);
    cluster.state.lock().set_options(options::of(&cx.engine.config), time(cx.now), &mut host);
    cluster.wake();
}

/// Loads the TLS options and their files, for new connections.
fn load_certificate(cx: &Cx<'_>) -> Result<(), String> {
    let made = tls::load(&cx.engine.config).map_err(|reason| {
        log::warning(&reason);
        "Unable to update TLS configuration. Check server logs.".to_owned()
    })?;
    cx.engine.network.tls.set(made);
    Ok(())
}

/// Raises the limit of open files so that there can be so many clients.
fn raise_clients(wanted: u64) -> Result<(), String> {
    match facts::clients_possible(wanted) {
        possible if possible >= wanted => Ok(()),
        possible => Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {possible}"
        )),
    }
}
