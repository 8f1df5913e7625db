//! How whoever has a reply of an engine in this process hears that its effect is synced: the engine calls back.

use std::sync::{Arc, Weak};

use sleeve_server::{Engine, Opt};

use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::slot::{Completions, Driver, Handle, Payload, Source};
use crate::pipe::synced::IS_SYNCED;
use crate::request::name::Name;

/// Has whoever asked for a command of this name, and has its answer, told when its effect is synced.
pub(super) fn tell(engine: &Arc<Engine>, driver: Weak<dyn Driver>, name: Name) -> Result<Handle, Error> {
    if engine.known_synced_offset().is_none() {
        return Err(never(engine.config.flag(Opt::Appendonly)));
    }
    let (target, handle) = Source::new(driver).pair(name);
    // What is in the journal now has the effect, and perhaps some of others.
    engine.when_synced(move |is_synced| {
        let payload = match is_synced {
            true => Payload::of(IS_SYNCED),
            false => Payload::Failed(Error::unsynced("the engine in this process syncs no more")),
        };
        target.complete(payload, &mut Completions::default());
    });
    Ok(handle)
}

/// What is said where nothing is ever synced.
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
