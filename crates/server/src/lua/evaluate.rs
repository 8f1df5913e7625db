//! Running a script or a function: what EVAL and FCALL have in common.
//!
//! A script holds all shards, because it may touch keys that nobody has named; with one worker that is the one lock that
//! its batch holds anyway. It sees one instant, its writes are recorded as one piece, and its own choice of database and
//! protocol ends with it. The reply is what it returned; an error that it did not catch is answered with where it was
//! raised. Runs on the thread that got the request.

use std::panic;

use mlua::Value;
use sleeve_wire::number;
use sleeve_wire::reply::Protocol;
use sleeve_wire::request::Args;

use super::bare::{Given, Returned, Seen};
use super::flags::{self, ScriptFlags};
use super::libraries::LibraryRoom;
use super::outbound::Sender;
use super::raised::{self, Uncaught};
use super::realm::Realm;
use super::running::Kind;
use super::scene::{Permits, Scene, Words};
use super::script_room::{self, Compiled, ScriptRoom};
use super::scripts::{Digest, Library, digest_from, digest_of};
use super::stage;
use super::station::{self, Station};
use crate::clock;
use crate::config::Opt;
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::request::Request;

/// How a request names its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// By its text.
    Text,
    /// By the digest of its text.
    Digest,
}

/// EVAL, EVALSHA and their read-only forms.
///
/// # Errors
/// What is wrong with the request or the script before it begins.
pub fn eval(cx: &mut Cx<'_>, request: Request<'_>, named: Named, read_only: bool) -> Outcome {
    let words = split(request.args, Error::NOT_INTEGER)?;
    let scripts = std::sync::Arc::clone(&cx.engine.scripts);
    station::with(&scripts, |station| {
        let (digest, compiled) = find_script(cx, station, request.arg(1), named)?;
        let permits = permits(cx, compiled.flags, read_only)?;
        let run = Run { request, name: &digest, kind: Kind::Script, permits };
        let Station { scripts: Some(room), words: memory, .. } = station else { return Err(script_room::NO_MEMORY) };
        let function = &compiled.function;
        let call = |realm| Realm::play(realm, function, Given::Globals, words.keys, words.args);
        let is_sound = play(cx, run, &room.realm, memory, call);
        if !is_sound {
            station.scripts = None;
        }
        Ok(())
    })
}

/// FCALL and FCALL_RO.
///
/// # Errors
/// What is wrong with the request or the function before it begins.
pub fn fcall(cx: &mut Cx<'_>, request: Request<'_>, read_only: bool) -> Outcome {
    let scripts = std::sync::Arc::clone(&cx.engine.scripts);
    station::with(&scripts, |station| {
        let room = library_room(cx, station)?;
        let callable = room.function(&scripts, request.arg(1))?;
        let words = split(request.args, Error::fixed("ERR Bad number of keys provided"))?;
        let permits = permits(cx, Some(callable.flags), read_only)?;
        let run = Run { request, name: request.arg(1), kind: Kind::Function, permits };
        let Station { libraries: Some(room), words: memory, .. } = station else { return Err(script_room::NO_MEMORY) };
        let function = &callable.function;
        let call = |realm| Realm::play(realm, function, Given::Tables, words.keys, words.args);
        let is_sound = play(cx, run, &room.realm, memory, call);
        if !is_sound {
            station.libraries = None;
        }
        Ok(())
    })
}

/// Makes a script known and returns its digest: SCRIPT LOAD.
///
/// # Errors
/// Its first line or its text is wrong.
pub fn load_script(cx: &Cx<'_>, source: &[u8]) -> Result<Digest, Error> {
    let digest = digest_of(source);
    let scripts = &cx.engine.scripts;
    if scripts.find(&digest).is_none() {
        station::with(scripts, |station| {
            let room = script_room(cx, station)?;
            script_room::make_known(room, scripts, digest, source)
        })?;
    }
    Ok(digest)
}

/// Forgets all scripts: SCRIPT FLUSH. This thread frees its Lua state at once, others do when they next run a script.
pub fn forget_scripts(cx: &Cx<'_>) {
    cx.engine.scripts.forget();
    station::with(&cx.engine.scripts, |station| station.scripts = None);
}

/// Loads a library in this thread, without making it known: FUNCTION LOAD.
///
/// # Errors
/// Its first line or its text is wrong, or it raises an error.
pub fn load_library(cx: &Cx<'_>, code: &[u8]) -> Result<std::sync::Arc<Library>, Error> {
    let name = flags::library_name(code)?;
    station::with(&cx.engine.scripts, |station| library_room(cx, station)?.load(name, code))
}

fn bytes_max(cx: &Cx<'_>) -> usize {
    usize::try_from(cx.engine.config.memory(Opt::LuaMemoryMax)).unwrap_or(usize::MAX)
}

fn script_room<'a>(cx: &Cx<'_>, station: &'a mut Station) -> Result<&'a mut ScriptRoom, Error> {
    if station.scripts.as_ref().is_some_and(|room| !room.is_current(&cx.engine.scripts)) {
        station.scripts = None;
    }
    match &mut station.scripts {
        Some(room) => Ok(room),
        none => Ok(none.insert(Box::new(ScriptRoom::new(&cx.engine.scripts, bytes_max(cx))?))),
    }
}

fn library_room<'a>(cx: &Cx<'_>, station: &'a mut Station) -> Result<&'a mut LibraryRoom, Error> {
    match &mut station.libraries {
        Some(room) => Ok(room),
        none => Ok(none.insert(Box::new(LibraryRoom::new(&cx.engine.scripts, bytes_max(cx))?))),
    }
}

/// The script that a request names, compiled in this thread.
fn find_script(cx: &Cx<'_>, station: &mut Station, name: &[u8], named: Named) -> Result<(Digest, Compiled), Error> {
    const NO_SCRIPT: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");
    let scripts = &cx.engine.scripts;
    let room = script_room(cx, station)?;
    let digest = match named {
        Named::Text => digest_of(name),
        Named::Digest => digest_from(name).ok_or(NO_SCRIPT)?,
    };
    if let Some(compiled) = room.get(&digest) {
        return Ok((digest, compiled.clone()));
    }
    if named == Named::Text {
        script_room::make_known(room, scripts, digest, name)?;
    }
    let script = scripts.find(&digest).ok_or(NO_SCRIPT)?;
    if room.get(&digest).is_none() {
        room.compile(digest, &script.source)?;
    }
    room.get(&digest).cloned().map(|compiled| (digest, compiled)).ok_or(NO_SCRIPT)
}

/// The keys and the other arguments of a request.
#[derive(Debug)]
struct Split<'a> {
    keys: Args<'a>,
    args: Args<'a>,
}

fn split(args: Args<'_>, no_number: Error) -> Result<Split<'_>, Error> {
    let rest = args.from(3);
    let count = number::parse_i64(args.get(2).unwrap_or_default()).ok_or(no_number)?;
    let Ok(count) = usize::try_from(count) else {
        return Err(Error::fixed("ERR Number of keys can't be negative"));
    };
    if count > rest.len() {
        return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
    }
    Ok(Split { keys: rest.first(count), args: rest.from(count) })
}

/// What a script may do: what it says of itself, what the command allows, and whether memory is left.
fn permits(cx: &mut Cx<'_>, flags: Option<ScriptFlags>, read_only: bool) -> Result<Permits, Error> {
    let is_full = is_memory_full(cx);
    let Some(flags) = flags else { return Ok(Permits { read_only, denies_growth: is_full }) };
    let no_writes = flags.contains(ScriptFlags::NO_WRITES);
    if read_only && !no_writes {
        return Err(Error::fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    let allows_oom = no_writes || flags.contains(ScriptFlags::ALLOW_OOM);
    if is_full && !allows_oom {
        return Err(Error::fixed(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
        ));
    }
    Ok(Permits { read_only: read_only || no_writes, denies_growth: is_full && !allows_oom })
}

/// Inside EXEC the question was asked before it began, and the shards are locked.
fn is_memory_full(cx: &Cx<'_>) -> bool {
    let bytes_max = cx.engine.config.memory(Opt::Maxmemory);
    bytes_max != 0 && cx.state.executing.is_none() && cx.engine.estimated_bytes() > bytes_max
}

/// One run.
struct Run<'s> {
    request: Request<'s>,
    name: &'s [u8],
    kind: Kind,
    permits: Permits,
}

/// Runs what `call` calls, with all shards locked, and replies; false when the realm should not be used again.
fn play<'r>(
    cx: &mut Cx<'_>,
    run: Run<'_>,
    realm: &'r Realm,
    memory: &mut Words,
    call: impl FnOnce(&'r Realm) -> Result<Returned<'r>, Uncaught>,
) -> bool {
    let is_outermost = cx.state.executing.is_none();
    if is_outermost {
        cx.state.executing = Some(1);
        cx.begin_transaction();
    }
    let (database, mut outer) = (cx.state.database, Output::default());
    std::mem::swap(cx.out, &mut outer);
    cx.engine.scripts.running.begin(run.kind, clock::monotonic_ms());
    let mut scene = Scene {
        cx,
        request: run.request,
        name: run.name,
        kind: run.kind,
        permits: run.permits,
        protocol: Protocol::Resp2,
        has_written: false,
        words: std::mem::take(memory),
        failure: None,
        panic: None,
    };
    let returned = stage::enter(&mut scene, || call(realm));
    let (protocol, panic) = (scene.protocol, scene.panic);
    *memory = scene.words;
    if let Some(panic) = panic {
        cx.engine.scripts.running.end();
        panic::resume_unwind(panic);
    }
    realm.weigh();
    let running = &cx.engine.scripts.running;
    let was_killed = running.is_killed();
    running.end();
    *cx.out = outer;
    cx.state.database = database;
    cx.keep_record(true);
    if is_outermost {
        cx.end_transaction();
        cx.state.executing = None;
    }
    reply(cx, returned, (protocol, run.name, run.request)) && !(was_killed && realm.recover().is_err())
}

/// Answers what a script returned or raised; false when it ran out of memory.
fn reply(
    cx: &mut Cx<'_>,
    returned: Result<Returned<'_>, Uncaught>,
    (script, name, request): (Protocol, &[u8], Request<'_>),
) -> bool {
    match returned {
        Ok(returned) => {
            let mark = cx.out.mark();
            let (mut reply, mut error) = (cx.reply(), None);
            let sent = returned.look().and_then(|seen| {
                match seen {
                    Seen::Bytes(text) => reply.bulk(text),
                    Seen::Number(number) => reply.integer(number as i64),
                    Seen::Other(value) => {
                        if let Value::Table(table) = &value
                            && let Ok(Value::String(text)) = table.raw_get("err")
                        {
                            error = Some((text.as_bytes().to_vec(), raised::is_counted(table)));
                        }
                        return Sender { reply: &mut reply, script }.value(&value);
                    }
                }
                Ok(())
            });
            if let Some((text, is_counted)) = error {
                fail(cx, request, &text, is_counted);
            }
            if sent.is_err() {
                cx.out.rewind(mark);
                cx.refuse(&script_room::NO_MEMORY);
                return false;
            }
            true
        }
        Err(Uncaught { mut text, place, is_counted }) => {
            fail(cx, request, &text, is_counted);
            let is_exhausted = text.starts_with(b"ERR not enough memory");
            if let Some((source, line)) = place {
                text.extend_from_slice(b" script: ");
                text.extend_from_slice(name);
                text.extend_from_slice(format!(", on {source}:{line}.").as_bytes());
            }
            cx.reply().error(&text);
            !is_exhausted
        }
    }
}

/// Counts a request that a script answers with an error, and the error unless the command that it comes from has been
/// counted with it.
fn fail(cx: &Cx<'_>, request: Request<'_>, text: &[u8], is_counted: bool) {
    cx.counters.commands[request.row.id as usize].failed.add(1);
    if is_counted {
        return;
    }
    let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
    cx.counters.errors_replied.add(1);
    cx.engine.stats.count_error(&String::from_utf8_lossy(code));
}
