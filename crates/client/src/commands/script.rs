//! The commands about scripts and functions as methods, one line each. For a script that is run more than once there is
//! [`Script`](crate::Script).

use crate::resp::counted::Counted;
use crate::resp::options::{FlushMode, RestorePolicy};
use crate::resp::request::{ToArg, ToArgs};
use crate::resp::value::Value;

super::commands! {
    /// Commands that run and keep Lua on the server.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// let sum: i64 = client.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", "n", 5).wait()?;
    /// assert_eq!(sum, 5);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    ScriptCommands {
        /// Runs a script. `keys` are the keys that it uses, `args` its other arguments.
        eval<T>(text: impl ToArg, keys: impl ToArgs, args: impl ToArgs) -> T = ["EVAL", text, Counted(&keys), args];
        /// Works as `eval` does; the script may not write.
        eval_ro<T>(text: impl ToArg, keys: impl ToArgs, args: impl ToArgs) -> T = ["EVAL_RO", text, Counted(&keys), args];
        /// Runs a script that the server knows, by its digest.
        evalsha<T>(digest: impl ToArg, keys: impl ToArgs, args: impl ToArgs) -> T = ["EVALSHA", digest, Counted(&keys), args];
        /// Works as `evalsha` does; the script may not write.
        evalsha_ro<T>(digest: impl ToArg, keys: impl ToArgs, args: impl ToArgs) -> T = ["EVALSHA_RO", digest, Counted(&keys), args];
        /// Makes a script known to the server and returns its digest.
        script_load(text: impl ToArg) -> String = ["SCRIPT", "LOAD", text];
        /// Returns for each of these digests whether the server knows it.
        script_exists(digests: impl ToArgs) -> Vec<bool> = ["SCRIPT", "EXISTS", digests];
        /// Forgets all scripts.
        script_flush() -> () = ["SCRIPT", "FLUSH"];
        /// Forgets all scripts; the mode says when their memory is freed.
        script_flush_with(mode: FlushMode) -> () = ["SCRIPT", "FLUSH", mode];
        /// Ends the script that runs, unless it has written.
        script_kill() -> () = ["SCRIPT", "KILL"];
        /// Runs a function of a library.
        fcall<T>(function: impl ToArg, keys: impl ToArgs, args: impl ToArgs) -> T = ["FCALL", function, Counted(&keys), args];
        /// Works as `fcall` does, for functions with the flag `no-writes` alone.
        fcall_ro<T>(function: impl ToArg, keys: impl ToArgs, args: impl ToArgs) -> T = ["FCALL_RO", function, Counted(&keys), args];
        /// Loads a library and returns its name; an error if a library of this name exists.
        function_load(code: impl ToArg) -> String = ["FUNCTION", "LOAD", code];
        /// Loads a library in place of the one of its name; returns the name.
        function_load_replace(code: impl ToArg) -> String = ["FUNCTION", "LOAD", "REPLACE", code];
        /// Removes a library with its functions.
        function_delete(library: impl ToArg) -> () = ["FUNCTION", "DELETE", library];
        /// Removes all libraries.
        function_flush() -> () = ["FUNCTION", "FLUSH"];
        /// Removes all libraries; the mode says when their memory is freed.
        function_flush_with(mode: FlushMode) -> () = ["FUNCTION", "FLUSH", mode];
        /// Returns the libraries with their functions, as the server describes them.
        function_list() -> Vec<Value> = ["FUNCTION", "LIST"];
        /// Returns the libraries with names that match a glob pattern, with their code.
        function_list_with_code(pattern: impl ToArg) -> Vec<Value> = ["FUNCTION", "LIST", "LIBRARYNAME", pattern, "WITHCODE"];
        /// Returns all libraries as bytes that `function_restore` takes.
        function_dump() -> Vec<u8> = ["FUNCTION", "DUMP"];
        /// Loads the libraries of a dump in addition to existing ones; an error if a name is taken.
        function_restore(dump: impl ToArg) -> () = ["FUNCTION", "RESTORE", dump];
        /// Loads the libraries of a dump; the policy decides about existing ones.
        function_restore_with(dump: impl ToArg, policy: RestorePolicy) -> () = ["FUNCTION", "RESTORE", dump, policy];
        /// Ends the function that runs, unless it has written.
        function_kill() -> () = ["FUNCTION", "KILL"];
        /// Returns the running function, and the numbers of libraries and functions, as the server describes them.
        function_stats() -> Value = ["FUNCTION", "STATS"];
    }
}
