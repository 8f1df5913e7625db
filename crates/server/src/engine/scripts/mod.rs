//! The scripts and libraries that an engine knows: sources, flags, names. Running them is done elsewhere (`lua`).
//!
//! Scripts are kept by the SHA-1 digest of their source, as EVALSHA names them; libraries by name, and their functions by
//! theirs. Each collection has a generation, which rises when an entry is replaced or forgotten: code that a thread has
//! compiled is valid as long as the generation stays. Any thread may call this.

pub(crate) mod flags;
pub(crate) mod running;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use sha1::{Digest as _, Sha1};
use sleeve_wire::commands::Command;

use flags::ScriptFlags;
use running::Running;

/// A script's name: its SHA-1 digest in lower-case hexadecimal.
pub type Digest = [u8; 40];

/// The scripts and libraries of one engine.
#[derive(Debug)]
pub struct Scripts {
    sources: RwLock<HashMap<Digest, Arc<Script>>>,
    generation: AtomicU64,
    libraries: RwLock<Libraries>,
    libraries_generation: AtomicU64,
    /// The running scripts.
    pub running: Running,
    /// The digests of scripts and the names of functions that have needed more than the shard of their slot.
    wide: RwLock<HashSet<Box<[u8]>>>,
    has_wide: AtomicBool,
    /// The bytes of all threads' Lua states for scripts.
    pub script_bytes: Arc<AtomicUsize>,
    /// The bytes of all threads' Lua states for libraries.
    pub library_bytes: Arc<AtomicUsize>,
}

/// A script that EVALSHA finds.
#[derive(Debug)]
pub struct Script {
    /// The script's text.
    pub source: Box<[u8]>,
    /// The flags of its shebang; None without one.
    pub flags: Option<ScriptFlags>,
}

/// All libraries.
#[derive(Debug, Default, Clone)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// The libraries by the names of their functions, in lower case.
    functions: HashMap<String, Arc<Library>>,
}

/// One library.
#[derive(Debug)]
pub struct Library {
    /// The library's name.
    pub name: String,
    /// The library's text, shebang included.
    pub code: Box<[u8]>,
    /// The functions of the library, in the order of their names.
    pub functions: Vec<FunctionFacts>,
}

/// The facts about a function that are known without running it.
#[derive(Debug, Clone)]
pub struct FunctionFacts {
    /// The function's name.
    pub name: String,
    /// The declared flags of the function.
    pub flags: ScriptFlags,
    /// The description that the library gives.
    pub description: Option<Vec<u8>>,
}

impl Scripts {
    /// Makes the empty collections of an engine with so many shards.
    pub fn new(shards: usize) -> Self {
        Self {
            sources: RwLock::default(),
            generation: AtomicU64::new(0),
            libraries: RwLock::default(),
            libraries_generation: AtomicU64::new(0),
            running: Running::new(shards),
            wide: RwLock::default(),
            has_wide: AtomicBool::new(false),
            script_bytes: Arc::default(),
            library_bytes: Arc::default(),
        }
    }

    /// Notes that a script or function needs more than the shard of its slot: it takes all shards when it runs again.
    pub fn note_wide(&self, name: &[u8]) {
        let mut wide = self.wide.write();
        if wide.len() >= WIDE_MAX {
            wide.clear();
        }
        wide.insert(name.into());
        self.has_wide.store(true, Ordering::Relaxed);
    }

    /// Returns whether a script or function has needed more than the shard of its slot.
    pub fn is_wide(&self, command: Command, name: &[u8]) -> bool {
        if !self.has_wide.load(Ordering::Relaxed) {
            return false;
        }
        let wide = self.wide.read();
        match command {
            Command::Eval | Command::EvalRo => wide.contains(digest_of(name).as_slice()),
            Command::EvalSha | Command::EvalShaRo => {
                digest_from(name).is_some_and(|name| wide.contains(name.as_slice()))
            }
            _ => wide.contains(name),
        }
    }

    /// Returns the script with this digest.
    pub fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        self.sources.read().get(digest).cloned()
    }

    /// Keeps a script.
    pub fn keep(&self, digest: Digest, script: Script) {
        self.sources.write().entry(digest).or_insert_with(|| Arc::new(script));
    }

    /// Forgets all scripts.
    pub fn forget(&self) {
        let mut sources = self.sources.write();
        self.generation.fetch_add(1, Ordering::Release);
        sources.clear();
    }

    /// Returns the generation, which rises when scripts are forgotten.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns how many scripts there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let sources = self.sources.read();
        let bytes = sources.values().map(|script| script.source.len() + SCRIPT_BYTES).sum();
        (sources.len(), bytes)
    }

    /// Returns the libraries as they are now.
    pub fn libraries(&self) -> Libraries {
        self.libraries.read().clone()
    }

    /// Returns the library that has this function; the case of the name does not matter.
    pub fn library_of(&self, function: &str) -> Option<Arc<Library>> {
        self.libraries.read().functions.get(&function.to_ascii_lowercase()).cloned()
    }

    /// Returns the flags of the script or function that a command of this kind names; None if it is unknown or declares none.
    pub fn flags_of_call(&self, command: Command, name: &[u8]) -> Option<ScriptFlags> {
        match command {
            Command::Eval | Command::EvalRo => flags::of_script(name).ok().flatten(),
            Command::EvalSha | Command::EvalShaRo => digest_from(name).and_then(|digest| self.find(&digest)?.flags),
            Command::FCall | Command::FCallRo => std::str::from_utf8(name).ok().and_then(|name| self.flags_of(name)),
            _ => None,
        }
    }

    fn flags_of(&self, function: &str) -> Option<ScriptFlags> {
        let library = self.library_of(function)?;
        let facts = library.functions.iter().find(|facts| facts.name.eq_ignore_ascii_case(function))?;
        Some(facts.flags)
    }

    /// Replaces all libraries.
    pub fn replace_libraries(&self, libraries: Libraries) {
        *self.libraries.write() = libraries;
        self.libraries_generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the generation, which rises when a library is added or removed.
    pub fn libraries_generation(&self) -> u64 {
        self.libraries_generation.load(Ordering::Acquire)
    }
}

impl Libraries {
    /// Returns all libraries in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Returns how many libraries there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns how many functions there are.
    pub fn functions_len(&self) -> usize {
        self.functions.len()
    }

    /// Returns the memory of the libraries, in bytes.
    pub fn bytes(&self) -> usize {
        self.by_name.values().map(|library| library.code.len() + SCRIPT_BYTES).sum()
    }

    /// Returns the library of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// Returns a function of `library` that another library already has.
    pub fn collision<'a>(&self, library: &'a Library) -> Option<&'a str> {
        let taken = |function: &&FunctionFacts| {
            self.functions.get(&function.name.to_ascii_lowercase()).is_some_and(|owner| owner.name != library.name)
        };
        library.functions.iter().find(taken).map(|function| function.name.as_str())
    }

    /// Adds a library, in place of the one with the same name.
    pub fn insert(&mut self, library: Arc<Library>) {
        self.remove(&library.name);
        for function in &library.functions {
            self.functions.insert(function.name.to_ascii_lowercase(), Arc::clone(&library));
        }
        self.by_name.insert(library.name.clone(), library);
    }

    /// Removes a library; returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }
}

impl Library {
    /// Returns the facts about one of its functions.
    pub fn function(&self, name: &str) -> Option<&FunctionFacts> {
        self.functions.iter().find(|function| function.name.eq_ignore_ascii_case(name))
    }
}

/// The most scripts that are known to need more than one shard. When there are more, each is noted anew when it next runs.
const WIDE_MAX: usize = 4_096;

/// The estimated memory of a script or library in addition to its text.
const SCRIPT_BYTES: usize = 120;

/// Returns the digest of a source.
pub fn digest_of(source: &[u8]) -> Digest {
    spelled(&Sha1::digest(source).into())
}

/// Returns the digest of a text that may be huge. After each piece `pause` gets its length, and may end the work.
///
/// # Errors
/// The errors of `pause`.
pub fn digest_in_pieces<E>(text: &[u8], mut pause: impl FnMut(usize) -> Result<(), E>) -> Result<Digest, E> {
    let mut hasher = Sha1::new();
    for piece in text.chunks(PIECE_BYTES) {
        hasher.update(piece);
        pause(piece.len())?;
    }
    Ok(spelled(&hasher.finalize().into()))
}

/// The number of bytes of a huge text that are digested at once.
const PIECE_BYTES: usize = 64 << 10;

/// Returns a digest in hexadecimal digits.
fn spelled(bytes: &[u8; 20]) -> Digest {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digest = [0; 40];
    for (pair, byte) in digest.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    digest
}

/// Returns the digest that these characters stand for, in upper or lower case; None if they are not 40.
pub fn digest_from(text: &[u8]) -> Option<Digest> {
    let mut digest: Digest = text.try_into().ok()?;
    digest.make_ascii_lowercase();
    Some(digest)
}
