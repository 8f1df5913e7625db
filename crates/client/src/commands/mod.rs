//! The commands' own methods, one line each, by family.
//!
//! The rules: a method has the command's name. If it is generic, the type is that of the whole answer. The plain name takes
//! the arguments that the command needs; the same name with `_with` also takes options, as its last argument. An argument
//! that may have a fraction is any [`Number`](crate::Number).
//!
//! A line states the method's name, its arguments, the type of its result and the words on the wire, the command's name
//! first. The command table and the server's documentation explain the command; the line describes the method's result. A
//! command that may wait on the server, by its row, gets a connection of its own if other calls would wait behind it. All of
//! them are sent on any type with [`Ask`](crate::commands::ask::Ask): a client, a database, a batch, a transaction, a lease.

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

/// Defines the trait of a family, from one line for each command.
macro_rules! commands {
    ($(#[$about:meta])* $family:ident {
        $($(#[$doc:meta])* $method:ident $(<$result:ident>)? ($($argument:ident: $type:ty),*) -> $answer:ty = [$($word:tt)+];)+
    }) => {
        $(#[$about])*
        pub trait $family: $crate::commands::ask::Ask {
            $(
                $(#[$doc])*
                #[inline]
                fn $method$(<$result: $crate::resp::decode::FromReply>)?(&self $(, $argument: $type)*) -> $crate::reply::Reply<$answer>
                where
                    Self: Sized,
                {
                    let write = move |request: &mut $crate::resp::request::Request| {
                        $crate::commands::write!(request, $($word)+);
                    };
                    if const { $crate::commands::name!($($word)+).may_wait() } {
                        self.ask_waiting(write)
                    } else {
                        self.ask(write)
                    }
                }
            )+
        }

        impl<A: $crate::commands::ask::Ask> $family for A {}
    };
}

/// Writes a request: the command's name, which the compiler encodes and looks up in the command table, and then the
/// arguments.
macro_rules! write {
    ($request:expr, $name:literal, $sub:literal $(, $word:expr)* $(,)?) => {
        $crate::commands::write!(@ $request, [$name, $sub] $(, $word)*)
    };
    ($request:expr, $name:literal $(, $word:expr)* $(,)?) => {
        $crate::commands::write!(@ $request, [$name] $(, $word)*)
    };
    (@ $request:expr, $names:expr $(, $word:expr)*) => {{
        const NAMES: &[&str] = &$names;
        const HEAD: $crate::resp::request::Head<{ $crate::resp::request::head_length(NAMES) }> = $crate::resp::request::Head::new(NAMES);
        $request.begin(&HEAD)$(.arg($word))*;
    }};
}

/// Returns the name of the command that these words begin with.
macro_rules! name {
    ($name:literal, $sub:literal $(, $word:expr)* $(,)?) => {
        $crate::resp::request::name::Name::of(&[$name, $sub])
    };
    ($name:literal $(, $word:expr)* $(,)?) => {
        $crate::resp::request::name::Name::of(&[$name])
    };
}

pub(crate) use commands;
pub(crate) use name;
pub(crate) use write;
