//! The commands' own methods, one line each, by family.
//!
//! The rules, so that nobody need look: a method has the command's name. Where it is generic, the type is that of the whole
//! answer. The plain name takes what the command needs; the same name with `_with` takes options besides, as its last
//! argument. Where a number may have a fraction, any [`Number`](crate::Number) will do.
//!
//! A line says the method's name, its arguments, the type of its result and the words that travel, the command's name first. What a command means is
//! in the command table and the server's documentation; the line says what the method makes of it. `waits` stands before the
//! words of a command that may wait on the server. All of them begin wherever [`Ask`](crate::commands::ask::Ask) is: a client, a
//! database, a batch, a transaction, a lease.

pub mod admin;
pub(crate) mod ask;
pub mod bitmap;
pub mod blocking;
pub mod connection;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod key;
pub mod list;
pub mod pubsub;
pub mod script;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;

/// Writes a family's trait: a line a command.
macro_rules! commands {
    ($(#[$about:meta])* $family:ident {
        $($(#[$doc:meta])* $method:ident $(<$result:ident>)? ($($argument:ident: $type:ty),*) -> $answer:ty = $($waits:ident)? [$($word:tt)+];)+
    }) => {
        $(#[$about])*
        pub trait $family: $crate::commands::ask::Ask {
            $(
                $(#[$doc])*
                #[inline]
                fn $method$(<$result: $crate::values::decode::FromReply>)?(&self $(, $argument: $type)*) -> $crate::reply::Reply<$answer>
                where
                    Self: Sized,
                {
                    $crate::commands::begin!(self, [$($waits)?], move |request| {
                        $crate::commands::write!(request, $($word)+);
                    })
                }
            )+
        }

        impl<A: $crate::commands::ask::Ask> $family for A {}
    };
}

/// Writes a request: its name, made ready by the compiler and looked up in the command table, and then its arguments.
macro_rules! write {
    ($request:expr, $name:literal, $sub:literal $(, $word:expr)* $(,)?) => {
        $crate::commands::write!(@ $request, [$name, $sub] $(, $word)*)
    };
    ($request:expr, $name:literal $(, $word:expr)* $(,)?) => {
        $crate::commands::write!(@ $request, [$name] $(, $word)*)
    };
    (@ $request:expr, $names:expr $(, $word:expr)*) => {{
        const NAMES: &[&str] = &$names;
        const HEAD: $crate::request::Head<{ $crate::request::head_length(NAMES) }> = $crate::request::Head::new(NAMES);
        $request.begin(&HEAD)$(.arg($word))*;
    }};
}

/// Begins a command: one that may wait on the server gets a connection of its own where others would wait with it.
macro_rules! begin {
    ($place:ident, [], $write:expr) => {
        $place.ask($write)
    };
    ($place:ident, [waits], $write:expr) => {
        $place.ask_waiting($write)
    };
}

pub(crate) use begin;
pub(crate) use commands;
pub(crate) use write;
