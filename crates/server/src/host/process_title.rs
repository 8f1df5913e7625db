//! The process's title, as `ps` shows it: written over the arguments with which the program was started.
//!
//! The kernel reads the title from the memory of the initial arguments, which the environment follows. There is no call to
//! choose other memory that every kernel and every sandbox has. So the environment is moved away first, to make room. That is
//! safe only while the process has one thread, so [`claim`] is called at the start of a server process. If it finds more
//! threads, the title gets the memory of the arguments alone. An embedded engine never claims the memory, and [`show`] does
//! nothing there.
//!
//! If the memory cannot be claimed, there is no title: it is a convenience.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::config::title_template;
use crate::config::title_template::Facts;
use crate::config::{Config, Opt};

/// The most bytes of a title: the kernel shows one page.
const BYTES_MAX: usize = 4_096;

/// The memory for the title.
#[derive(Debug, Clone, Copy)]
struct TitleMemory {
    /// Address of the first argument.
    start: usize,
    /// Bytes of all arguments, their zeros included.
    arguments_len: usize,
    /// Bytes that may be written, a closing zero included.
    room: usize,
}

#[derive(Debug)]
struct Title {
    /// The first argument: the name of the program as it was called.
    program: Vec<u8>,
    memory: Mutex<TitleMemory>,
}

static TITLE: OnceLock<Title> = OnceLock::new();

/// Makes the memory of the arguments ready for a title. Afterwards nothing may read the program's arguments.
pub fn claim() {
    let program = env::args_os().next().unwrap_or_default().into_vec();
    if let Some(memory) = memory() {
        _ = TITLE.set(Title { program, memory: Mutex::new(memory) });
    }
}

/// Shows the title that the options ask for, if the process has memory for one.
pub fn show(config: &Config) {
    let Some(title) = TITLE.get() else { return };
    if let Some(text) = title_template::fill(&config.text(Opt::ProcTitleTemplate), &facts(title, config)) {
        write(*title.memory.lock(), &text);
    }
}

fn facts(title: &Title, config: &Config) -> Facts {
    let (port, tls_port) = (config.number(Opt::Port), config.number(Opt::TlsPort));
    let (bind, unix_socket) = (config.text(Opt::Bind), config.text(Opt::UnixSocket).to_vec());
    let address = match (port, tls_port) {
        (0, 0) => [b"unixsocket:", unix_socket.as_slice()].concat(),
        _ => {
            let first = bind.split(|&byte| byte == b' ').next().filter(|first| !first.is_empty()).unwrap_or(b"*");
            let port = if port == 0 { tls_port } else { port };
            [first, format!(":{port}").as_bytes()].concat()
        }
    };
    let file = config.file().map_or_else(|| b"-".to_vec(), |file| file.into_os_string().into_vec());
    let mode: &[u8] = if config.flag(Opt::ClusterEnabled) { b"[cluster]" } else { b"" };
    Facts { program: title.program.clone(), address, mode: mode.to_vec(), port, tls_port, unix_socket, file }
}

/// Returns the memory of arguments and environment, as the kernel reports it.
fn memory() -> Option<TitleMemory> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may contain any characters; the other fields are counted from
    // its end.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let address = |index: usize| fields.get(index).and_then(|text| text.parse::<usize>().ok());
    let (start, end) = (address(45)?, address(46)?);
    let (environment, environment_end) = (address(47)?, address(48)?);
    if start == 0 || end <= start {
        return None;
    }
    let follows = environment == end && environment_end >= environment;
    let room_end = if follows && move_environment() { environment_end } else { end };
    Some(TitleMemory { start, arguments_len: end - start, room: room_end - start })
}

/// Moves the environment to other memory. Returns whether all of it was moved.
fn move_environment() -> bool {
    let is_alone = fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1);
    let variables: Vec<_> = env::vars_os().collect();
    let names: HashSet<_> = variables.iter().map(|(name, _)| name).collect();
    // Names with `=` cannot be set, and of two variables with one name only one would be moved.
    let is_plain = names.len() == variables.len() && names.iter().all(|name| !name.as_bytes().contains(&b'='));
    if !is_alone || !is_plain {
        return false;
    }
    for (name, value) in &variables {
        // SAFETY: there is no other thread that could read the environment at this time.
        unsafe { env::set_var(name, value) };
    }
    true
}

/// Writes a title and clears the memory behind it.
fn write(memory: TitleMemory, title: &[u8]) {
    let title = title.get(..memory.room.min(BYTES_MAX) - 1).unwrap_or(title);
    let start: *mut u8 = ptr::with_exposed_provenance_mut(memory.start);
    // SAFETY: the kernel says that these bytes hold arguments and environment: they are mapped and writable for as long as
    // the process lives. If the environment's bytes are used, the environment was moved out of them; nothing reads the
    // arguments any more; the memory is locked; and a title is cut to the room less one byte.
    unsafe {
        ptr::write_bytes(start, 0, memory.room);
        ptr::copy_nonoverlapping(title.as_ptr(), start, title.len());
        // If the last byte of the arguments is not zero, the kernel takes this for a title that ends at the first zero;
        // otherwise it would show all the zeros too.
        if title.len() + 1 < memory.arguments_len {
            start.add(memory.arguments_len - 1).write(b'.');
        }
    }
}
