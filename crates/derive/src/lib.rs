//! Derive macros of the package `sleeve`, which exports them beside its traits of the same names: `use sleeve::{FromReply,
//! ToArgs}`.
//!
//! The traits `FromReply`, `ToArgs`, `ToArg` and `Fields` document the accepted types and the generated code. The macros need
//! no other crate: a struct with plain fields, a tuple struct of one field and an enum of words are few forms, and are read
//! here token by token.

// The rooms, from top to bottom; a room uses only rooms below it.
//
// | room | contents |
// | --- | --- |
// | `output` | Writes the implementations of the traits for a type. |
// | `input` | A type as it was declared: its name, its generics, its fields or words. |
// | `tokens` | Tokens one after the other, and errors that point at one. |

use proc_macro::TokenStream;

mod input;
mod output;
mod tokens;

use input::Input;
use tokens::Failure;

/// Derives reading from a reply: a struct from a reply that names its fields (HGETALL, an entry of a stream), a tuple struct
/// of one field from the reply of that field, an enum of words from such a word.
///
/// `#[sleeve(rename = "name")]` on a field or a word gives it another name, `#[sleeve(default)]` lets a field be missing.
#[proc_macro_derive(FromReply, attributes(sleeve))]
pub fn from_reply(item: TokenStream) -> TokenStream {
    derived(item, output::from_reply)
}

/// Derives writing as arguments: a struct as its fields' names and values in turn (HSET, XADD), without the fields that are
/// `None`; a tuple struct of one field as that field; an enum of words as its word.
///
/// `#[sleeve(rename = "name")]` on a field or a word gives it another name.
#[proc_macro_derive(ToArgs, attributes(sleeve))]
pub fn to_args(item: TokenStream) -> TokenStream {
    derived(item, output::to_args)
}

/// Writes a tuple struct of one field, or an enum of words, as one argument: a key, a member, a value. `ToArgs` comes with it.
#[proc_macro_derive(ToArg, attributes(sleeve))]
pub fn to_arg(item: TokenStream) -> TokenStream {
    derived(item, output::to_arg)
}

fn derived(item: TokenStream, write: impl FnOnce(&Input) -> Result<TokenStream, Failure>) -> TokenStream {
    Input::read(item).and_then(|input| write(&input)).unwrap_or_else(Failure::into_tokens)
}
