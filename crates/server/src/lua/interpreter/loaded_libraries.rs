//! The libraries that a thread has loaded.
//!
//! A library is run once in each thread that calls one of its functions; its registered functions are kept until the library
//! is replaced. While it is loaded it sees only `redis` with `register_function` and the log, as in Redis; its functions see
//! all of `redis`. Owned and used by one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::Interpreter;
use super::compiled_scripts::NO_MEMORY;
use crate::engine::scripts::flags::{BAD_NAME, ScriptFlags, is_name};
use crate::engine::scripts::{FunctionFacts, Library, Scripts};
use crate::lua::native::errors::raise;
use crate::lua::native::interrupt;
use crate::lua::native::raw_call::Kept;
use crate::lua::redis::api;
use crate::request::error::Error;

/// The libraries that are loaded into one Lua state, and the functions that they registered.
pub struct LoadedLibraries {
    /// The Lua state.
    pub interpreter: Interpreter,
    /// The globals that libraries see while they are loaded.
    loading: Table,
    registered: Rc<RefCell<Option<Vec<Registered>>>>,
    loaded: HashMap<String, Loaded>,
    callable: HashMap<Vec<u8>, Callable>,
    generation: u64,
}

/// A library with its functions in this state.
struct Loaded {
    library: Arc<Library>,
    functions: HashMap<String, Function>,
}

/// A function that can run.
#[derive(Clone)]
pub struct Callable {
    /// The function's body.
    pub function: Rc<Kept>,
    /// The function's flags.
    pub flags: ScriptFlags,
}

/// The arguments of one `redis.register_function`.
struct Registered {
    facts: FunctionFacts,
    function: Function,
}

impl LoadedLibraries {
    /// Makes a Lua state without libraries.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn new(scripts: &Scripts, bytes_max: usize) -> Result<Self, Error> {
        Self::make(scripts, bytes_max).map_err(|_| NO_MEMORY)
    }

    fn make(scripts: &Scripts, bytes_max: usize) -> mlua::Result<Self> {
        let interpreter = Interpreter::new(bytes_max, &scripts.library_bytes)?;
        let lua = interpreter.lua.clone();
        let redis = api::table(&lua)?;
        let server = api::server_table(&lua, &redis)?;
        for (name, table) in [("redis", redis), ("server", server)] {
            interpreter.sandbox.real.raw_set(name, interpreter.sandbox.hide(&lua, table)?)?;
        }
        let registered = Rc::new(RefCell::new(None));
        let api = lua.create_table()?;
        api::add_log_and_version(&lua, &api)?;
        let registrations = Rc::clone(&registered);
        let register = move |lua: &Lua, args: MultiValue| register(lua, &registrations, &args);
        api.raw_set("register_function", lua.create_function(register)?)?;
        let strict = interpreter.sandbox.real.metatable();
        let server = api::server_table(&lua, &api)?;
        let loading = lua.create_table()?;
        for (name, table) in [("redis", api), ("server", server)] {
            table.set_metatable(strict.clone())?;
            loading.raw_set(name, interpreter.sandbox.hide(&lua, table)?)?;
        }
        loading.set_metatable(strict)?;
        Ok(Self { interpreter, loading, registered, loaded: HashMap::new(), callable: HashMap::new(), generation: 0 })
    }

    /// Loads a new library. Returns it with its functions, for the engine's libraries.
    ///
    /// # Errors
    /// The text of the library is not valid, or it raises an error or registers nothing.
    pub fn load(&mut self, name: String, code: &[u8]) -> Result<Arc<Library>, Error> {
        let body = self
            .interpreter
            .compile(code, "user_function")
            .map_err(|why| Error::new(format!("ERR Error compiling function: {why}")))?;
        let registered = self.run(&body).map_err(|text| {
            Error::new(format!("ERR Error registering functions: {}", String::from_utf8_lossy(&text)))
        })?;
        if registered.is_empty() {
            return Err(Error::fixed("ERR No functions registered"));
        }
        let mut functions = HashMap::new();
        let mut facts: Vec<FunctionFacts> = Vec::new();
        for entry in registered {
            functions.insert(entry.facts.name.clone(), entry.function);
            facts.push(entry.facts);
        }
        facts.sort_by(|a, b| a.name.cmp(&b.name));
        let library = Arc::new(Library { name: name.clone(), code: code.into(), functions: facts });
        self.loaded.insert(name, Loaded { library: Arc::clone(&library), functions });
        Ok(library)
    }

    /// Runs a library's body, which sees only the functions for loading.
    fn run(&mut self, body: &Function) -> Result<Vec<Registered>, Vec<u8>> {
        let shown = &self.interpreter.sandbox.shown;
        let swap = |table: &Table| shown.raw_set("__index", table).map_err(|error| error.to_string().into_bytes());
        swap(&self.loading)?;
        *self.registered.borrow_mut() = Some(Vec::new());
        let returned = interrupt::while_loading(self.interpreter.bytes_max, || self.interpreter.call(body));
        let registered = self.registered.borrow_mut().take().unwrap_or_default();
        swap(&self.interpreter.sandbox.real)?;
        returned.map(|_| registered).map_err(|uncaught| uncaught.text)
    }

    /// Returns a function by its name, and loads its library first if this thread has not loaded it yet.
    ///
    /// # Errors
    /// There is no such function, or its library cannot be loaded here.
    pub fn function(&mut self, scripts: &Scripts, name: &[u8]) -> Result<Callable, Error> {
        let generation = scripts.libraries_generation();
        if self.generation != generation {
            self.generation = generation;
            self.callable.clear();
            let libraries = scripts.libraries();
            self.loaded.retain(|name, loaded| libraries.get(name).is_some_and(|now| Arc::ptr_eq(now, &loaded.library)));
        }
        if let Some(callable) = self.callable.get(name) {
            return Ok(callable.clone());
        }
        let (own_name, callable) = self.find(scripts, name)?;
        self.callable.insert(own_name, callable.clone());
        Ok(callable)
    }

    fn find(&mut self, scripts: &Scripts, name: &[u8]) -> Result<(Vec<u8>, Callable), Error> {
        const NOT_FOUND: Error = Error::fixed("ERR Function not found");
        let name = std::str::from_utf8(name).map_err(|_| NOT_FOUND)?;
        let library = scripts.library_of(name).ok_or(NOT_FOUND)?;
        if !self.loaded.contains_key(&library.name) {
            self.load(library.name.clone(), &library.code)?;
            if let Some(loaded) = self.loaded.get_mut(&library.name) {
                loaded.library = Arc::clone(&library);
            }
        }
        let loaded = self.loaded.get(&library.name).ok_or(NOT_FOUND)?;
        let facts = library.function(name).ok_or(NOT_FOUND)?;
        let function = loaded.functions.get(&facts.name).ok_or(NOT_FOUND)?;
        let function = Rc::new(Kept::new(&self.interpreter.lua, function).map_err(|_| NO_MEMORY)?);
        Ok((facts.name.clone().into_bytes(), Callable { function, flags: facts.flags }))
    }
}

type Registrations = Rc<RefCell<Option<Vec<Registered>>>>;

/// `redis.register_function(name, callback)` or `redis.register_function{function_name = ..., callback = ..., ...}`
fn register(lua: &Lua, registrations: &Registrations, args: &MultiValue) -> mlua::Result<()> {
    let entry = match (args.front(), args.get(1), args.len()) {
        (Some(Value::Table(named)), _, 1) => from_table(lua, named)?,
        (_, _, 1) => {
            return Err(raise(
                "ERR calling redis.register_function with a single argument is only applicable to Lua table \
                 (representing named arguments).",
            ));
        }
        (Some(name), Some(function), 2) => {
            let Some(name) = text(name) else {
                return Err(raise("ERR first argument to redis.register_function must be a string"));
            };
            let Value::Function(function) = function else {
                return Err(raise("ERR second argument to redis.register_function must be a function"));
            };
            let facts = FunctionFacts { name, flags: ScriptFlags::default(), description: None };
            Registered { facts, function: function.clone() }
        }
        _ => return Err(raise("ERR wrong number of arguments to redis.register_function")),
    };
    let name = &entry.facts.name;
    if !is_name(name.as_bytes()) {
        return Err(raise(BAD_NAME.text()));
    }
    let mut registrations = registrations.borrow_mut();
    let Some(registered) = &mut *registrations else {
        return Err(raise("ERR redis.register_function can only be called on FUNCTION LOAD command"));
    };
    if registered.iter().any(|other| other.facts.name == *name) {
        return Err(raise("ERR Function already exists in the library"));
    }
    registered.push(entry);
    Ok(())
}

fn from_table(lua: &Lua, named: &Table) -> mlua::Result<Registered> {
    let (mut name, mut function, mut description) = (None, None, None);
    let mut flags = ScriptFlags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(key) = key else {
            return Err(raise("ERR named argument key given to redis.register_function is not a string"));
        };
        match &*key.as_bytes() {
            word if word.eq_ignore_ascii_case(b"function_name") => match text(&value) {
                Some(text) => name = Some(text),
                None => {
                    return Err(raise("ERR function_name argument given to redis.register_function must be a string"));
                }
            },
            word if word.eq_ignore_ascii_case(b"description") => match lua.coerce_string(value)? {
                Some(text) => description = Some(text.as_bytes().to_vec()),
                None => {
                    return Err(raise("ERR description argument given to redis.register_function must be a string"));
                }
            },
            word if word.eq_ignore_ascii_case(b"callback") => match value {
                Value::Function(callback) => function = Some(callback),
                _ => return Err(raise("ERR callback argument given to redis.register_function must be a function")),
            },
            word if word.eq_ignore_ascii_case(b"flags") => match value {
                Value::Table(list) => flags = flags_of(&list)?,
                _ => {
                    return Err(raise(
                        "ERR flags argument to redis.register_function must be a table representing function flags",
                    ));
                }
            },
            _ => return Err(raise("ERR unknown argument given to redis.register_function")),
        }
    }
    let name = name.ok_or_else(|| raise("ERR redis.register_function must get a function name argument"))?;
    let function = function.ok_or_else(|| raise("ERR redis.register_function must get a callback argument"))?;
    Ok(Registered { facts: FunctionFacts { name, flags, description }, function })
}

fn flags_of(list: &Table) -> mlua::Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        match list.raw_get::<Value>(index)? {
            Value::Nil => break,
            Value::String(name) if flags.add(&name.as_bytes()) => {}
            _ => return Err(raise("ERR unknown flag given")),
        }
    }
    Ok(flags)
}

/// Reads a string, or converts a number to one.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string_lossy()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Number(number) => Some(crate::lua::native::numbers::general(*number, 14)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(room: &mut LoadedLibraries, body: &str) -> Result<Vec<String>, String> {
        let code = format!("#!lua name=x\n{body}");
        let library = room
            .load("x".to_owned(), code.as_bytes())
            .map_err(|error| String::from_utf8_lossy(error.text()).into_owned())?;
        Ok(library.functions.iter().map(|facts| facts.name.clone()).collect())
    }

    #[test]
    fn a_library_registers_its_functions_and_sees_nothing_else() {
        let mut room = LoadedLibraries::new(&Scripts::new(1), 64 << 20).expect("memory");
        let both = "redis.register_function('b', function() end) redis.register_function{function_name='a', \
                    callback=function() end, flags={'no-writes'}, description='d'}";
        assert_eq!(load(&mut room, both), Ok(vec!["a".to_owned(), "b".to_owned()]));
        let failed = |why: &str| Err(format!("ERR Error registering functions: {why}"));
        for (body, why) in [
            ("return foo", "ERR user_function:2: Script attempted to access nonexistent global variable 'foo'"),
            ("redis.call('get')", "ERR user_function:2: Script attempted to access nonexistent global variable 'call'"),
            ("a = 1", "ERR user_function:2: Attempt to modify a readonly table"),
            (
                "redis.register_function('a')",
                "ERR calling redis.register_function with a single argument is only \
             applicable to Lua table (representing named arguments).",
            ),
            ("redis.register_function()", "ERR wrong number of arguments to redis.register_function"),
        ] {
            assert_eq!(load(&mut room, body), failed(why), "{body}");
        }
        assert_eq!(load(&mut room, "local a = 1"), Err("ERR No functions registered".to_owned()));
        let twice = "redis.register_function('b', function() end) redis.register_function('b', function() end)";
        assert_eq!(load(&mut room, twice), failed("ERR Function already exists in the library"));
    }
}
