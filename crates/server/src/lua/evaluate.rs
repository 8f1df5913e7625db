//! Running a script or a function: the common part of EVAL and FCALL.
//!
//! A script holds all shards, because it may touch keys that its request has not named; with one worker that is the one lock
//! that its batch holds anyway. On a node of a cluster it holds the shard of its slot, and takes the others only if it calls
//! a command that needs them; so scripts of different slots run at the same time. It sees one instant, its writes are recorded
//! as one piece, and its own choice of database and protocol ends with it. The reply is the value that it returned; an error
//! that it did not catch is answered with the place where it was raised. Runs on the thread that received the request.

use std::cell::RefCell;
use std::panic;

use mlua::{Lua, Value};
use sleeve_wire::number;
use sleeve_wire::reply::Protocol;
use sleeve_wire::request::Args;

use super::from_lua::Sender;
use super::interpreter::Interpreter;
use super::interpreter::compiled_scripts;
use super::interpreter::compiled_scripts::{Compiled, CompiledScripts};
use super::interpreter::interpreters;
use super::interpreter::interpreters::Interpreters;
use super::interpreter::loaded_libraries::LoadedLibraries;
use super::native::current_invocation;
use super::native::current_invocation::RunningScript;
use super::native::errors;
use super::native::errors::Uncaught;
use super::native::interrupt;
use super::native::invocation::{Invocation, Permits, Words};
use super::native::raw_call::{Given, Returned, Seen};
use crate::config::Opt;
use crate::context::Cx;
use crate::context::eviction;
use crate::context::worker_handoff::{NoWorker, WorkerHandoff};
use crate::engine::observe::stats;
use crate::engine::readiness::Hindrance;
use crate::engine::scripts::flags;
use crate::engine::scripts::flags::ScriptFlags;
use crate::engine::scripts::running;
use crate::engine::scripts::running::ScriptKind;
use crate::engine::scripts::{Digest, Library, digest_from, digest_of};
use crate::host::clock;
use crate::request::Request;
use crate::request::error::{Error, Outcome};
use crate::request::output::Output;

/// The way in which a request names its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The request has the script's text (EVAL).
    Text,
    /// The request has the digest of the script's text (EVALSHA).
    Digest,
}

/// Answers EVAL, EVALSHA and their read-only forms.
///
/// # Errors
/// A fault of the request, or of the script, that is found before the script begins.
pub fn eval(cx: &mut Cx<'_>, request: Request<'_>, named: Named, read_only: bool) -> Outcome {
    let words = split(request.args, Error::NOT_INTEGER)?;
    let scripts = std::sync::Arc::clone(&cx.engine.scripts);
    interpreters::with(&scripts, |interpreters| {
        let (digest, compiled) = find_script(cx, interpreters, request.arg(1), named)?;
        let permits = permits(cx, compiled.flags, read_only)?;
        let run = Run { request, name: &digest, kind: ScriptKind::Script, permits };
        let Interpreters { scripts: Some(room), words: memory, .. } = interpreters else {
            return Err(compiled_scripts::NO_MEMORY);
        };
        let function = &compiled.function;
        let call = |interpreter| Interpreter::play(interpreter, function, Given::Globals, words.keys, words.args);
        let is_sound = play(cx, run, &room.interpreter, memory, call);
        if !is_sound {
            interpreters.scripts = None;
        }
        Ok(())
    })
}

/// Answers FCALL and FCALL_RO.
///
/// # Errors
/// A fault of the request, or of the function, that is found before the function begins.
pub fn fcall(cx: &mut Cx<'_>, request: Request<'_>, read_only: bool) -> Outcome {
    let scripts = std::sync::Arc::clone(&cx.engine.scripts);
    interpreters::with(&scripts, |interpreters| {
        let room = library_room(cx, interpreters)?;
        let callable = room.function(&scripts, request.arg(1))?;
        let words = split(request.args, Error::fixed("ERR Bad number of keys provided"))?;
        let permits = permits(cx, Some(callable.flags), read_only)?;
        let run = Run { request, name: request.arg(1), kind: ScriptKind::Function, permits };
        let Interpreters { libraries: Some(room), words: memory, .. } = interpreters else {
            return Err(compiled_scripts::NO_MEMORY);
        };
        let function = &callable.function;
        let call = |interpreter| Interpreter::play(interpreter, function, Given::Tables, words.keys, words.args);
        let is_sound = play(cx, run, &room.interpreter, memory, call);
        if !is_sound {
            interpreters.libraries = None;
        }
        Ok(())
    })
}

/// Compiles a script, enters it in the engine's scripts and returns its digest: SCRIPT LOAD.
///
/// # Errors
/// The first line or the text of the script is not valid.
pub fn load_script(cx: &Cx<'_>, source: &[u8]) -> Result<Digest, Error> {
    let digest = digest_of(source);
    let scripts = &cx.engine.scripts;
    if scripts.find(&digest).is_none() {
        interpreters::with(scripts, |interpreters| {
            let room = script_room(cx, interpreters)?;
            compiled_scripts::make_known(room, scripts, digest, source)
        })?;
    }
    Ok(digest)
}

/// Forgets all scripts: SCRIPT FLUSH. This thread frees its Lua state at once, other threads do so when they next run a
/// script.
pub fn forget_scripts(cx: &Cx<'_>) {
    cx.engine.scripts.forget();
    interpreters::forget_scripts(&cx.engine.scripts);
}

/// Loads a library in this thread, without entering it in the engine's libraries: FUNCTION LOAD.
///
/// # Errors
/// The first line or the text of the library is not valid, or it raises an error.
pub fn load_library(cx: &Cx<'_>, code: &[u8]) -> Result<std::sync::Arc<Library>, Error> {
    let name = flags::library_name(code)?;
    interpreters::with(&cx.engine.scripts, |interpreters| library_room(cx, interpreters)?.load(name, code))
}

fn bytes_max(cx: &Cx<'_>) -> usize {
    usize::try_from(cx.engine.config.memory(Opt::LuaMemoryMax)).unwrap_or(usize::MAX)
}

fn script_room<'a>(cx: &Cx<'_>, interpreters: &'a mut Interpreters) -> Result<&'a mut CompiledScripts, Error> {
    if interpreters.scripts.as_ref().is_some_and(|room| !room.is_current(&cx.engine.scripts)) {
        interpreters.scripts = None;
    }
    match &mut interpreters.scripts {
        Some(room) => Ok(room),
        none => Ok(none.insert(Box::new(CompiledScripts::new(&cx.engine.scripts, bytes_max(cx))?))),
    }
}

fn library_room<'a>(cx: &Cx<'_>, interpreters: &'a mut Interpreters) -> Result<&'a mut LoadedLibraries, Error> {
    match &mut interpreters.libraries {
        Some(room) => Ok(room),
        none => Ok(none.insert(Box::new(LoadedLibraries::new(&cx.engine.scripts, bytes_max(cx))?))),
    }
}

/// Returns the script that a request names, compiled in this thread.
fn find_script(
    cx: &Cx<'_>,
    interpreters: &mut Interpreters,
    name: &[u8],
    named: Named,
) -> Result<(Digest, Compiled), Error> {
    const NO_SCRIPT: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");
    let scripts = &cx.engine.scripts;
    let room = script_room(cx, interpreters)?;
    let digest = match named {
        Named::Text => digest_of(name),
        Named::Digest => digest_from(name).ok_or(NO_SCRIPT)?,
    };
    if let Some(compiled) = room.get(&digest) {
        return Ok((digest, compiled.clone()));
    }
    if named == Named::Text {
        compiled_scripts::make_known(room, scripts, digest, name)?;
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

/// Returns the permissions of a script. They follow from its own flags, from the command, and from the free memory. For most
/// calls the gates have made these checks already; but not for a script in a transaction with earlier commands that have changed
/// the state that is checked.
fn permits(cx: &mut Cx<'_>, flags: Option<ScriptFlags>, read_only: bool) -> Result<Permits, Error> {
    let is_full = is_memory_full(cx);
    let readiness = &cx.engine.lifecycle.readiness;
    // The commands of an AOF or of the primary were checked when they were first run.
    let is_asked = !cx.state.origin.is_replaying;
    let is_stale = readiness.has(Hindrance::Stale);
    let Some(flags) = flags else {
        return if is_stale {
            Err(Error::NO_PRIMARY)
        } else {
            Ok(Permits { read_only, denies_growth: is_full, allows_cross_slot: true })
        };
    };
    if flags.contains(ScriptFlags::NO_CLUSTER) && cx.engine.cluster.get().is_some() {
        return Err(Error::fixed("ERR Can not run script on cluster, 'no-cluster' flag is set."));
    }
    if is_stale && !flags.contains(ScriptFlags::ALLOW_STALE) {
        return Err(Error::fixed(
            "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set \
             on the script.",
        ));
    }
    let no_writes = flags.contains(ScriptFlags::NO_WRITES);
    if !no_writes && is_asked {
        readiness.check_script_that_writes()?;
    }
    if read_only && !no_writes {
        return Err(Error::fixed("ERR Can not execute a script with write flag using *_ro command."));
    }
    if !no_writes && is_asked {
        readiness.check_replicas()?;
    }
    let allows_oom = no_writes || flags.contains(ScriptFlags::ALLOW_OOM);
    if is_full && !allows_oom {
        return Err(Error::fixed(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
        ));
    }
    Ok(Permits {
        read_only: read_only || no_writes,
        denies_growth: is_full && !allows_oom,
        allows_cross_slot: flags.contains(ScriptFlags::ALLOW_CROSS_SLOT),
    })
}

/// Returns whether memory had run out before the command began that runs the script, or in a transaction before EXEC.
fn is_memory_full(cx: &Cx<'_>) -> bool {
    if cx.state.multi.executing.is_some() {
        cx.has_no_room
    } else {
        cx.has_no_room && eviction::is_over_limit(cx.engine)
    }
}

/// A run of a script or function: its request, name, kind and permissions.
struct Run<'s> {
    request: Request<'s>,
    name: &'s [u8],
    kind: ScriptKind,
    permits: Permits,
}

/// Runs the script through `call`, with its shards locked, and replies. Returns false if the interpreter must not be used
/// again.
fn play<'r>(
    cx: &mut Cx<'_>,
    asked: Run<'_>,
    interpreter: &'r Interpreter,
    memory: &mut Words,
    call: impl FnOnce(&'r Interpreter) -> Result<Returned<'r>, Uncaught>,
) -> bool {
    let engine = cx.engine;
    let Run { request, name, kind, permits } = asked;
    if cx.state.multi.executing.is_none() {
        cx.state.multi.slot = request.key_places.first().map(|key| key.hash.slot());
    }
    let running = &engine.scripts.running;
    let run = running.begin(cx.locks.first().unwrap_or(0), kind, clock::monotonic_ms());
    interrupt::begin(interpreter.bytes_max);
    let (mut others, mut none) = (cx.others.take(), NoWorker);
    let lent: &mut dyn WorkerHandoff = match &mut others {
        Some(others) => *others,
        None => &mut none,
    };
    let lent = RefCell::new(lent);
    let is_sound =
        current_invocation::with_script(&RunningScript { engine, request, name, kind, run, others: lent }, || {
            let (returned, protocol) = perform(cx, (run, permits), memory, || call(interpreter));
            interpreter.weigh();
            reply(cx, &interpreter.lua, returned, (protocol, name, request))
        });
    if interrupt::is_ended() && others.as_ref().is_some_and(|others| others.is_stopping(true)) {
        // The client's next commands would delay the shutdown, and their replies would reach no client.
        cx.state.closing = true;
    }
    cx.others = others;
    running.end(run);
    interrupt::end();
    if cx.state.multi.executing.is_none() {
        // The script may have taken long, so the commands after it get a new time. The commands of one transaction see one
        // instant.
        cx.look_at_clock();
    }
    if let Some(panic) = interrupt::take_panic() {
        panic::resume_unwind(panic);
    }
    is_sound
}

/// Runs `call` with an output of its own, and records its effects as one piece; returns the script's result and the protocol
/// that it asked for.
fn perform<'r>(
    cx: &mut Cx<'_>,
    (run, permits): (&running::Run, Permits),
    memory: &mut Words,
    call: impl FnOnce() -> Result<Returned<'r>, Uncaught>,
) -> (Result<Returned<'r>, Uncaught>, Protocol) {
    let is_outermost = cx.state.multi.executing.is_none();
    if is_outermost {
        cx.state.multi.executing = Some(1);
        cx.locks.recorder.begin_transaction();
    }
    let (database, mut outer) = (cx.state.database, Output::default());
    std::mem::swap(cx.out, &mut outer);
    let mut invocation = Invocation {
        cx,
        run,
        permits,
        protocol: Protocol::Resp2,
        has_written: false,
        words: std::mem::take(memory),
        failure: None,
        panic: None,
    };
    let returned = current_invocation::enter(&mut invocation, call);
    let (protocol, panic) = (invocation.protocol, invocation.panic);
    *memory = invocation.words;
    if let Some(panic) = panic {
        cx.engine.scripts.running.end(run);
        panic::resume_unwind(panic);
    }
    *cx.out = outer;
    cx.state.database = database;
    cx.locks.recorder.keep_record(true);
    if is_outermost {
        cx.locks.recorder.end_transaction(cx.engine.scripts.running.has_left_half());
        cx.state.multi.executing = None;
    }
    (returned, protocol)
}

/// Replies with the value that a script returned or the error that it raised. Returns false if it ran out of memory.
fn reply(
    cx: &mut Cx<'_>,
    lua: &Lua,
    returned: Result<Returned<'_>, Uncaught>,
    (script, name, request): (Protocol, &[u8], Request<'_>),
) -> bool {
    let Uncaught { mut text, place, is_counted } = match returned {
        Ok(returned) => {
            let mark = cx.out.mark();
            match send(cx, lua, &returned, (script, request)) {
                Ok(()) => return true,
                Err(unsent) => {
                    cx.out.rewind(mark);
                    unsent
                }
            }
        }
        Err(uncaught) => uncaught,
    };
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

/// Writes the value that a script returned.
fn send(
    cx: &mut Cx<'_>,
    lua: &Lua,
    returned: &Returned<'_>,
    (script, request): (Protocol, Request<'_>),
) -> Result<(), Uncaught> {
    let unsent = |error: mlua::Error| match interrupt::ended() {
        Some(why) => Uncaught { text: why.into_bytes(), place: None, is_counted: false },
        None => Uncaught::plain(&errors::text_of(&error)),
    };
    let value = match returned.look().map_err(unsent)? {
        Seen::Bytes(text) => {
            cx.reply().bulk(text);
            return Ok(());
        }
        Seen::Number(number) => {
            cx.reply().integer(number as i64);
            return Ok(());
        }
        Seen::Other(value) => value,
    };
    let mut reply = cx.reply();
    Sender::new(&mut reply, script, lua).value(&value).map_err(unsent)?;
    if let Value::Table(table) = &value
        && let Ok(Value::String(text)) = table.raw_get("err")
    {
        fail(cx, request, &text.as_bytes(), errors::is_counted(table));
    }
    Ok(())
}

/// Counts a request that a script answers with an error. Counts the error too, unless it was counted with the command that
/// caused it.
fn fail(cx: &Cx<'_>, request: Request<'_>, text: &[u8], is_counted: bool) {
    cx.counters.commands[request.row.id as usize].failed.add(1);
    if is_counted {
        return;
    }
    cx.counters.errors_replied.add(1);
    cx.engine.observe.stats.count_error(&stats::code_of(text));
}
