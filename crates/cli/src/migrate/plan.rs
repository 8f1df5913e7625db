//! The releases of the two servers, whether one may take the other's place, and the objections to it. Changes nothing.

use super::options::MigrateOptions;
use super::release::Release;
use super::server::{Fault, Server};
use super::settings::Settings;
use crate::output;
use crate::replies::info::{Info, Replica};

/// The findings.
#[derive(Debug)]
pub struct Plan {
    /// FROM's release.
    pub from: Release,
    /// TO's release.
    pub to: Release,
    /// True if TO is already a replica of FROM.
    pub is_following: bool,
    /// True if FROM can load TO's dumps.
    pub has_way_back: bool,
    /// Facts that the operator should know.
    notes: Vec<String>,
}

/// Looks at both servers; refuses if there is an objection.
pub fn look(from: &Server, to: &Server, options: &MigrateOptions) -> Result<Plan, Fault> {
    let (old, new) = (from.info()?, to.info()?);
    check_servers((from, &old), (to, &new))?;
    let is_following = new.is_replica()
        && new.text("master_replid") == old.text("master_replid")
        && (target(from, to)?.is_some() || is_sent_to((&options.from_address, from), &new));
    if !is_following {
        check_empty(to, &new, options)?;
    }
    let (from_release, to_release) = (Release::of(&old), Release::of(&new));
    let has_way_back = check_releases((from, &from_release), (to, &to_release), options)?;
    let databases = to.option("databases")?.and_then(|number| number.parse::<u64>().ok());
    if let (Some(last), Some(databases)) = (old.last_database(), databases)
        && last >= databases
    {
        return Err(Fault::refused(format!("{from} uses database {last}, and {to} has {databases} of them")));
    }
    let mut plan = Plan { from: from_release, to: to_release, is_following, has_way_back, notes: Vec::new() };
    plan.note_differences((from, &old), (to, &new))?;
    Ok(plan)
}

/// Returns TO's entry in FROM's list of replicas, if TO is one and can be told from the others.
pub fn target(from: &Server, to: &Server) -> Result<Option<Replica>, Fault> {
    let is_set = |value: &String| !value.is_empty() && value != "0";
    let option = |name| Ok::<_, Fault>(to.option(name)?.filter(is_set));
    let port = if to.option("tls-replication")?.as_deref() == Some("yes") { option("tls-port")? } else { None };
    let port = match (option("replica-announce-port")?, port) {
        (Some(port), _) | (None, Some(port)) => Some(port),
        (None, None) => option("port")?,
    };
    let (port, ip) = (port.and_then(|port| port.parse().ok()), option("replica-announce-ip")?);
    let mut replicas = from.info()?.replicas();
    replicas.retain(|replica| Some(replica.port) == port && ip.as_ref().is_none_or(|ip| *ip == replica.ip));
    if let [_, other, ..] = replicas.as_slice() {
        return Err(Fault::refused(format!(
            "{from} has several replicas at port {}: set replica-announce-ip of {to} so that it can be told from them",
            other.port
        )));
    }
    Ok(replicas.pop())
}

/// Returns whether TO was told to follow the server at FROM's address, with its link up or not.
fn is_sent_to((address, from): (&Option<(String, u16)>, &Server), new: &Info) -> bool {
    let (host, port) = address.clone().unwrap_or_else(|| from.place());
    new.text("master_host") == host && new.number("master_port") == u64::from(port)
}

/// Refuses servers that cannot be each other's primary or replica.
fn check_servers((from, old): (&Server, &Info), (to, new): (&Server, &Info)) -> Result<(), Fault> {
    if old.text("run_id") == new.text("run_id") {
        return Err(Fault::refused("FROM and TO are the same server"));
    }
    for (server, info) in [(from, old), (to, new)] {
        if info.number("cluster_enabled") != 0 {
            return Err(Fault::refused(format!(
                "{server} is a node of a cluster, which moves slots and fails over itself"
            )));
        }
    }
    if old.is_replica() {
        let (host, port) = (old.text("master_host"), old.text("master_port"));
        return Err(Fault::refused(format!("{from} is a replica: give its primary, which it knows as {host}:{port}")));
    }
    Ok(())
}

/// Refuses to replace data that the user has not allowed it to replace.
fn check_empty(to: &Server, new: &Info, options: &MigrateOptions) -> Result<(), Fault> {
    if options.replace {
        return Ok(());
    }
    let why = if new.is_replica() {
        format!("follows {}:{}", new.text("master_host"), new.text("master_port"))
    } else if new.keys() > 0 {
        format!("has data (keys: {})", new.keys())
    } else if new.number("number_of_functions") > 0 {
        "has functions".to_owned()
    } else {
        return Ok(());
    };
    Err(Fault::refused(format!("{to} {why}: --replace says that this may go")))
}

/// Refuses two servers if TO cannot follow FROM; returns whether the way back is open.
fn check_releases(
    (from, old): (&Server, &Release),
    (to, new): (&Server, &Release),
    options: &MigrateOptions,
) -> Result<bool, Fault> {
    for (server, release) in [(from, old), (to, new)] {
        if !release.has_failover() {
            return Err(Fault::refused(format!(
                "{server} is {release}, which has no FAILOVER: docs/migration.md says how to go on by hand"
            )));
        }
    }
    if !new.loads(old.writes()) {
        return Err(Fault::refused(format!(
            "{to} is {new}, which does not load what {old} sends (a dump of {}); a Sleeve in between loads it and sends what it does",
            old.writes()
        )));
    }
    let has_way_back = old.loads(new.writes());
    if !has_way_back && !options.one_way {
        return Err(Fault::refused(format!(
            "{from} is {old}, which does not load what {new} sends (a dump of {}), so that there would be no way back: --one-way \
             says that none is needed",
            new.writes()
        )));
    }
    Ok(has_way_back)
}

impl Plan {
    /// Prints the facts about the move, before it begins.
    pub fn print(&self, from: &Server, to: &Server) -> Result<(), Fault> {
        let (old, new) = (from.info()?, to.info()?);
        let size =
            |info: &Info| format!("keys: {}, memory: {:.1} MB", info.keys(), info.number("used_memory") as f64 / 1e6);
        output::line(format_args!(
            "{from} is {}; {}, replicas: {}",
            self.from,
            size(&old),
            old.number("connected_slaves")
        ));
        output::line(format_args!("{to} is {}; {}", self.to, size(&new)));
        output::line(format_args!(
            "{}",
            match self.has_way_back {
                true => "FROM can load what TO sends: the way back stays open",
                false =>
                    "FROM cannot load a dump of TO: it follows TO only as long as it loses no more than TO's backlog has",
            }
        ));
        for note in &self.notes {
            output::line(format_args!("note: {note}"));
        }
        output::flush();
        Ok(())
    }

    /// Prints the steps of the move, for a dry run.
    pub fn print_steps(&self, from: &Server, to: &Server, options: &MigrateOptions) -> Result<(), Fault> {
        let say = |text: &str| output::line(format_args!("would {text}"));
        let set = |replica: &Server, primary: &Server| -> Result<(), Fault> {
            let differing = Settings::differing(replica, primary)?;
            if !differing.is_empty() {
                say(&format!("set {} of {replica}", differing.join(", ")));
            }
            Ok(())
        };
        if !self.is_following {
            set(to, from)?;
            let (host, port) = options.from_address.clone().unwrap_or_else(|| from.place());
            say(&format!("have {to} follow {host}:{port}, which replaces what it has"));
        }
        set(from, to)?;
        say(&format!(
            "hand over by FAILOVER, holding writers for {} ms at most; tries: {}",
            options.pause, options.attempts
        ));
        if !options.keep_clients {
            say(&format!("close the clients of {from}, but for subscribers, replicas and this program"));
        }
        output::flush();
        Ok(())
    }

    /// Notes differences that do not prevent the move, but may surprise.
    fn note_differences(&mut self, (from, old): (&Server, &Info), (to, new): (&Server, &Info)) -> Result<(), Fault> {
        if self.is_following {
            self.notes.push("TO follows FROM already".to_owned());
        }
        let (used, limit) = (old.number("used_memory"), new.number("maxmemory"));
        if limit > 0 && limit < used {
            self.notes.push(format!("TO's maxmemory is {limit} bytes, and FROM uses {used}: it will evict, or refuse"));
        }
        let keeps = |server: &Server| -> Result<bool, Fault> {
            Ok(server.option("appendonly")?.as_deref() == Some("yes")
                || server.option("save")?.is_some_and(|save| !save.is_empty()))
        };
        if keeps(from)? && !keeps(to)? {
            self.notes.push("FROM saves its data (appendonly, save), and TO does not".to_owned());
        }
        let clients: String = from.ask(&["CLIENT", "LIST"])?;
        if clients.contains(" name=sentinel-") {
            self.notes.push("a Sentinel watches FROM: have it forget FROM before (SENTINEL REMOVE)".to_owned());
        }
        Ok(())
    }
}
