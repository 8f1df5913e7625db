//! Writes the implementations of the traits for a type.
//!
//! The generated code is short: it calls the package `sleeve` (`values/fields`) and adds only the type's own names. A
//! compiler error about a field points at that field.

use proc_macro::{Span, TokenStream};

use crate::input::{Input, Part, Shape};
use crate::tokens::{Failure, placed};

const RESULT: &str = "::core::result::Result";
const FRAME: &str = "::sleeve::Frame<'_>";

/// Writes `FromReply`, and `Fields` for a type with named fields.
pub(crate) fn from_reply(input: &Input) -> Result<TokenStream, Failure> {
    match &input.shape {
        Shape::Fields(fields) => Ok(fields_from_reply(input, fields)),
        Shape::One(kind) => Ok(one_from_reply(input, kind)),
        Shape::Words(words) => Ok(word_from_reply(input, words)),
    }
}

/// Writes `ToArgs`.
pub(crate) fn to_args(input: &Input) -> Result<TokenStream, Failure> {
    let body = match &input.shape {
        Shape::Fields(fields) => {
            let structure = plain(input);
            let write = |field: &Part| {
                let (ident, name) = (&field.ident, &field.name);
                let code = format!("::sleeve::derived::write_field(request, {structure:?}, {name}, &self.{ident});");
                placed(&code, ident.span())
            };
            fields.iter().map(write).collect()
        }
        Shape::One(_) => here("::sleeve::ToArgs::write_to(&self.0, request);"),
        Shape::Words(words) => word(words),
    };
    Ok(written(input, "::sleeve::ToArgs", body))
}

/// Writes `ToArgs` and `ToArg`.
pub(crate) fn to_arg(input: &Input) -> Result<TokenStream, Failure> {
    let body = match &input.shape {
        Shape::Fields(_) => {
            let message = "a struct with fields is several arguments, a name and a value each: derive `ToArgs`";
            return Err(Failure::at(input.name.span(), message));
        }
        Shape::One(_) => here("::sleeve::derived::write_one(request, &self.0);"),
        Shape::Words(words) => word(words),
    };
    let mut tokens = written(input, "::sleeve::ToArg", body);
    tokens.extend(implemented(input, "::sleeve::ToArg", "::sleeve::ToArg", TokenStream::new()));
    Ok(tokens)
}

/// Writes the word of a variant.
fn word(words: &[Part]) -> TokenStream {
    let arms: String = words.iter().map(|word| format!("Self::{} => {},", word.ident, word.name)).collect();
    here(&format!("request.word(match self {{ {arms} }});"))
}

/// Writes `ToArgs` with this body, for parameters that have `bound`.
fn written(input: &Input, bound: &str, body: TokenStream) -> TokenStream {
    let head = here("fn write_to(&self, request: &mut ::sleeve::Request)");
    implemented(input, "::sleeve::ToArgs", bound, with_body(head, body))
}

fn fields_from_reply(input: &Input, fields: &[Part]) -> TokenStream {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let read = |(index, field): (usize, &Part)| {
        let call = if field.has_default { "or_default" } else { "required" };
        placed(&format!("{}: found.{call}({index})?,", field.ident), field.ident.span())
    };
    let values: TokenStream = fields.iter().enumerate().map(read).collect();
    let value = with_body(here("Self"), values);
    let mut body = here(&format!(
        "const STRUCTURE: &'static str = {:?}; const NAMES: &'static [&'static str] = &[{}];",
        plain(input),
        names.join(", ")
    ));
    let mut made = here(&format!("{RESULT}::Ok"));
    made.extend(in_parentheses(value));
    let head = here(&format!("fn from_found(found: &::sleeve::derived::Found<'_>) -> {RESULT}<Self, ::sleeve::Error>"));
    body.extend(with_body(head, made));
    let mut tokens = implemented(input, "::sleeve::Fields", "::sleeve::FromReply", body);
    let reply = here(&format!(
        "const MAY_SHARE: bool = true;
         fn from_reply(frame: {FRAME}) -> {RESULT}<Self, ::sleeve::Error> {{ ::sleeve::derived::by_name(frame) }}
         fn is_absent(frame: &{FRAME}) -> bool {{ ::sleeve::derived::is_nothing(frame) }}"
    ));
    tokens.extend(implemented(input, "::sleeve::FromReply", "::sleeve::FromReply", reply));
    tokens
}

fn one_from_reply(input: &Input, kind: &str) -> TokenStream {
    let structure = plain(input);
    let body = here(&format!(
        "const MAY_SHARE: bool = <{kind} as ::sleeve::FromReply>::MAY_SHARE;
         fn from_reply(frame: {FRAME}) -> {RESULT}<Self, ::sleeve::Error> {{
             ::sleeve::derived::within({structure:?}, <{kind} as ::sleeve::FromReply>::from_reply(frame)).map(Self)
         }}
         fn from_shared(string: &::std::sync::Arc<[u8]>) -> {RESULT}<Self, ::sleeve::Error> {{
             ::sleeve::derived::within({structure:?}, <{kind} as ::sleeve::FromReply>::from_shared(string)).map(Self)
         }}
         fn is_absent(frame: &{FRAME}) -> bool {{ <{kind} as ::sleeve::FromReply>::is_absent(frame) }}
         fn missing() -> ::core::option::Option<Self> {{ <{kind} as ::sleeve::FromReply>::missing().map(Self) }}"
    ));
    implemented(input, "::sleeve::FromReply", "::sleeve::FromReply", body)
}

fn word_from_reply(input: &Input, words: &[Part]) -> TokenStream {
    let names: Vec<&str> = words.iter().map(|word| word.name.as_str()).collect();
    let values: Vec<String> = words.iter().map(|word| format!("Self::{}", word.ident)).collect();
    let body = here(&format!(
        "fn from_reply(frame: {FRAME}) -> {RESULT}<Self, ::sleeve::Error> {{
             ::sleeve::derived::word({:?}, &[{}], [{}], frame)
         }}",
        plain(input),
        names.join(", "),
        values.join(", ")
    ));
    implemented(input, "::sleeve::FromReply", "::sleeve::FromReply", body)
}

/// Returns the type's name as error messages print it.
fn plain(input: &Input) -> String {
    let name = input.name.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

/// Writes the `impl` of a trait for the type, with `bound` on the type's own parameters.
fn implemented(input: &Input, of: &str, bound: &str, body: TokenStream) -> TokenStream {
    let generics = &input.generics;
    let bounds: Vec<String> =
        generics.types.iter().map(|kind| format!("{kind}: {bound}")).chain(whole(&generics.bounds)).collect();
    let head = format!(
        "#[automatically_derived] impl<{}> {of} for {}<{}> where {}",
        generics.declared.join(", "),
        input.name,
        generics.named.join(", "),
        bounds.join(", ")
    );
    with_body(here(&head), body)
}

/// Returns the text behind `where`, without a comma at its end.
fn whole(bounds: &str) -> Option<String> {
    let bounds = bounds.trim().trim_end_matches(',');
    (!bounds.is_empty()).then(|| bounds.to_owned())
}

fn here(code: &str) -> TokenStream {
    placed(code, Span::call_site())
}

fn with_body(mut head: TokenStream, body: TokenStream) -> TokenStream {
    head.extend([grouped(proc_macro::Delimiter::Brace, body)]);
    head
}

fn in_parentheses(content: TokenStream) -> TokenStream {
    grouped(proc_macro::Delimiter::Parenthesis, content).into()
}

fn grouped(delimiter: proc_macro::Delimiter, content: TokenStream) -> proc_macro::TokenTree {
    proc_macro::Group::new(delimiter, content).into()
}
