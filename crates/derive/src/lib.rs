//! Derives of the package `sleeve`, which hands them on beside its traits of the same names: `use sleeve::{FromReply, ToArgs}`.
//!
//! What they take and what they make of it is told there, at the traits `FromReply`, `ToArgs`, `ToArg` and `Fields`. They need
//! no other crate: a struct with plain fields, a tuple struct of one field and an enum of words are few forms, and are read
//! here token by token.

// The rooms, from top to bottom; a room uses only rooms below it.
//
// | room | what is in it |
// | --- | --- |
// | `output` | What is written for a type: the implementations of the traits. |
// | `input` | A type as it was declared: its name, its generics, its fields or words. |
// | `tokens` | Tokens one after the other, and errors that point at one. |

use proc_macro::TokenStream;

mod input;
mod output;
mod tokens;

use input::Input;
use tokens::Failure;

/// Reads a struct from a reply that has its fields by their names (HGETALL, an entry of a stream), a tuple struct of one field
/// from what that field is read from, an enum of words from such a word.
///
/// `#[sleeve(rename = "name")]` on a field or a word gives it another name, `#[sleeve(default)]` lets a field be missing.
#[proc_macro_derive(FromReply, attributes(sleeve))]
pub fn from_reply(item: TokenStream) -> TokenStream {
    derived(item, output::from_reply)
}

/// Writes a struct as its fields' names and values in turn (HSET, XADD), leaving out what is `None`; a tuple struct of one
/// field as that field, an enum of words as its word.
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
