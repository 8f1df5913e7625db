//! The notification of a caller of an engine in this process that its effect is synced, or replicated: the engine calls back.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sleeve_server::{Engine, Opt, when_replicas_have};

use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::durability::IS_SAFE;
use crate::pipe::slot::{Completions, Driver, Handle, Payload, Source};
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;

/// Returns a handle that is done when the effect of an answered command is as durable as requested. The wait for replicas
/// lasts no longer than the given time.
pub(super) fn tell(
    engine: &Arc<Engine>,
    driver: Weak<dyn Driver>,
    (level, name): (Level, Name),
    timeout: Option<Duration>,
) -> Result<Handle, Error> {
    let (applied, synced) = match level {
        Level::Synced => return tell_synced(engine, driver, name),
        Level::Replicated(count) => (count, 0),
        Level::SyncedOn(count) => (0, count),
    };
    if engine.network.port() == 0 {
        let why = "it is done, but this engine has no replicas, because it serves nobody: have it listen";
        return Err(Error::new(ErrorKind::Usage, Effect::Answered, why.to_owned()));
    }
    let (target, handle) = Source::new(driver).pair(name);
    when_replicas_have(engine, (applied, synced), timeout, move |have| {
        let payload = match have {
            true => Payload::of(IS_SAFE),
            false => {
                let message = format!("{name} was answered, but not {level} in time; whether it will be is unknown");
                Payload::Failed(Error::new(ErrorKind::Timeout, Effect::Unknown, message))
            }
        };
        target.complete(payload, &mut Completions::default());
    });
    Ok(handle)
}

fn tell_synced(engine: &Arc<Engine>, driver: Weak<dyn Driver>, name: Name) -> Result<Handle, Error> {
    if engine.persistence.known_synced_offset(engine).is_none() {
        return Err(never(engine.config.flag(Opt::Appendonly)));
    }
    let (target, handle) = Source::new(driver).pair(name);
    // The journal has the effect at this point, and perhaps later effects of other callers.
    engine.persistence.when_synced(engine, move |is_synced| {
        let payload = match is_synced {
            true => Payload::of(IS_SAFE),
            false => Payload::Failed(Error::unsynced("the engine in this process syncs no more")),
        };
        target.complete(payload, &mut Completions::default());
    });
    Ok(handle)
}

/// Returns the error for an engine that never syncs.
fn never(has_log: bool) -> Error {
    let message = match has_log {
        true => {
            "it is done, but under \"appendfsync no\" nobody knows when it is synced: open the engine with \
             ?appendfsync=everysec or always"
        }
        false => {
            "it is done, but this engine keeps nothing on a disk: give it a folder, by a URL such as embedded:///var/lib/app"
        }
    };
    Error::new(ErrorKind::Usage, Effect::Answered, message)
}
