//! A type as it was declared: its name, its generics, and its fields or words.
//!
//! A type for which nothing can be derived is refused here, with an error that lists the supported forms. The types of fields
//! are skipped, not examined: the compiler decides whether a field can be read or written.

use proc_macro::{Delimiter, Ident, Span, TokenStream, TokenTree};

use crate::tokens::{Failure, Tokens, code};

/// A type for which something is to be derived.
pub(crate) struct Input {
    pub(crate) name: Ident,
    pub(crate) generics: Generics,
    pub(crate) shape: Shape,
}

/// The form of a type.
pub(crate) enum Shape {
    /// A struct with fields that have names.
    Fields(Vec<Part>),
    /// A tuple struct of one field, and that field's type.
    One(String),
    /// An enum with variants that are words.
    Words(Vec<Part>),
}

/// A field of a struct, or a word of an enum.
pub(crate) struct Part {
    pub(crate) ident: Ident,
    /// The name in requests and replies, as a literal.
    pub(crate) name: String,
    /// True if the value may be missing where the type is read.
    pub(crate) has_default: bool,
}

/// The parameters of a type.
#[derive(Default)]
pub(crate) struct Generics {
    /// As they are declared, without defaults: `'a, T: Clone, const N: usize`.
    pub(crate) declared: Vec<String>,
    /// As they are named: `'a, T, N`.
    pub(crate) named: Vec<String>,
    /// The names of the type parameters.
    pub(crate) types: Vec<String>,
    /// The text behind `where`.
    pub(crate) bounds: String,
}

/// The contents of a `#[sleeve(…)]` attribute.
#[derive(Default)]
struct Said {
    rename: Option<String>,
    has_default: bool,
    /// The place in the source of the first such attribute.
    place: Option<Span>,
}

impl Input {
    /// Reads a declaration.
    pub(crate) fn read(item: TokenStream) -> Result<Self, Failure> {
        let mut tokens = Tokens::of(item);
        if let Some(place) = attributes(&mut tokens)?.place {
            return Err(Failure::at(place, "`sleeve` says something of a field or of a word, and not of a whole type"));
        }
        visibility(&mut tokens);
        let keyword = tokens.ident("`struct` or `enum`")?;
        let name = tokens.ident("the name of a type")?;
        let mut generics = if tokens.takes('<') { Generics::read(tokens.up_to_closing()) } else { Generics::default() };
        let shape = match keyword.to_string().as_str() {
            "struct" => structure(&mut tokens, &mut generics, &name)?,
            "enum" => {
                generics.bounds = bounds(&mut tokens);
                let body = tokens.takes_group(Delimiter::Brace).unwrap_or_default();
                Shape::Words(words(body, &name)?)
            }
            _ => return Err(Failure::at(keyword.span(), "nothing can be derived for a union")),
        };
        Ok(Self { name, generics, shape })
    }
}

fn structure(tokens: &mut Tokens, generics: &mut Generics, name: &Ident) -> Result<Shape, Failure> {
    if let Some(body) = tokens.takes_group(Delimiter::Parenthesis) {
        generics.bounds = bounds(tokens);
        return one(body, name);
    }
    generics.bounds = bounds(tokens);
    match tokens.takes_group(Delimiter::Brace) {
        Some(body) => fields(body, name).map(Shape::Fields),
        None => Err(Failure::at(name.span(), "a struct without fields has nothing to be read or written")),
    }
}

/// Takes the text behind `where`, up to the body.
fn bounds(tokens: &mut Tokens) -> String {
    if tokens.takes_word("where") { code(tokens.up_to_body(Delimiter::Brace)) } else { String::new() }
}

fn one(body: TokenStream, name: &Ident) -> Result<Shape, Failure> {
    let mut tokens = Tokens::of(body);
    if let Some(place) = attributes(&mut tokens)?.place {
        return Err(Failure::at(place, "the field of a tuple struct has no name and cannot be missing"));
    }
    visibility(&mut tokens);
    let kind = tokens.up_to_comma();
    if kind.is_empty() || !tokens.is_empty() {
        let message = "a tuple struct must have one field; give the fields names, or use a tuple";
        return Err(Failure::at(name.span(), message));
    }
    Ok(Shape::One(code(kind)))
}

fn fields(body: TokenStream, name: &Ident) -> Result<Vec<Part>, Failure> {
    let mut tokens = Tokens::of(body);
    let mut fields = Vec::new();
    while !tokens.is_empty() {
        let said = attributes(&mut tokens)?;
        visibility(&mut tokens);
        let ident = tokens.ident("the name of a field")?;
        if !tokens.takes(':') {
            return Err(Failure::at(ident.span(), "a field has a type"));
        }
        tokens.up_to_comma();
        push(&mut fields, ident, said)?;
    }
    if fields.is_empty() {
        return Err(Failure::at(name.span(), "a struct without fields has nothing to be read or written"));
    }
    Ok(fields)
}

fn words(body: TokenStream, name: &Ident) -> Result<Vec<Part>, Failure> {
    let mut tokens = Tokens::of(body);
    let mut words = Vec::new();
    while !tokens.is_empty() {
        let said = attributes(&mut tokens)?;
        let ident = tokens.ident("a variant")?;
        if said.has_default {
            return Err(Failure::at(said.place.unwrap_or_else(|| ident.span()), "a word cannot be missing"));
        }
        // The variant's discriminant has no meaning in requests and replies.
        let behind = tokens.up_to_comma();
        if matches!(behind.first(), Some(TokenTree::Group(_))) {
            let message = "an enum travels as one word, so its variants have no fields (JSON has: `sleeve::Json`)";
            return Err(Failure::at(ident.span(), message));
        }
        push(&mut words, ident, said)?;
    }
    if words.is_empty() {
        return Err(Failure::at(name.span(), "an enum without variants has nothing to be read or written"));
    }
    Ok(words)
}

/// Adds a field or a word under its name, which no other may have.
fn push(parts: &mut Vec<Part>, ident: Ident, said: Said) -> Result<(), Failure> {
    let plain = ident.to_string();
    let name = said.rename.unwrap_or_else(|| format!("{:?}", plain.strip_prefix("r#").unwrap_or(&plain)));
    if parts.iter().any(|part| part.name == name) {
        return Err(Failure::at(ident.span(), format!("two have the name {name}")));
    }
    parts.push(Part { ident, name, has_default: said.has_default });
    Ok(())
}

fn visibility(tokens: &mut Tokens) {
    if tokens.takes_word("pub") {
        tokens.takes_group(Delimiter::Parenthesis);
    }
}

/// Takes the attributes that come next, and reads those that are ours.
fn attributes(tokens: &mut Tokens) -> Result<Said, Failure> {
    let mut said = Said::default();
    while tokens.takes('#') {
        let Some(attribute) = tokens.takes_group(Delimiter::Bracket) else { continue };
        let mut attribute = Tokens::of(attribute);
        if attribute.takes_word("sleeve") {
            said.place.get_or_insert(attribute.place);
            let list = attribute.takes_group(Delimiter::Parenthesis);
            said.read(list.unwrap_or_default(), attribute.place)?;
        }
    }
    Ok(said)
}

impl Said {
    fn read(&mut self, list: TokenStream, place: Span) -> Result<(), Failure> {
        const KNOWN: &str = "`rename = \"name\"` and `default` are what can be said here";
        if list.is_empty() {
            return Err(Failure::at(place, KNOWN));
        }
        let mut tokens = Tokens::of(list);
        while !tokens.is_empty() {
            let key = tokens.ident("`rename` or `default`")?;
            let value = if tokens.takes('=') { tokens.next() } else { None };
            match (key.to_string().as_str(), value) {
                ("default", None) => self.has_default = true,
                ("rename", Some(TokenTree::Literal(name))) if name.to_string().starts_with('"') => {
                    self.rename = Some(name.to_string());
                }
                _ => return Err(Failure::at(key.span(), KNOWN)),
            }
            if !tokens.takes(',') && !tokens.is_empty() {
                return Err(Failure::at(key.span(), KNOWN));
            }
        }
        Ok(())
    }
}

impl Generics {
    /// Reads the generics between `<` and `>`.
    fn read(tokens: Vec<TokenTree>) -> Self {
        let mut tokens = Tokens::of(tokens.into_iter().collect());
        let mut generics = Self::default();
        while !tokens.is_empty() {
            let mut parameter = Tokens::of(tokens.up_to_comma().into_iter().collect());
            let mut declared = Vec::new();
            let mut named = Vec::new();
            let mut depth = 0usize;
            let mut is_named = false;
            let mut is_type = true;
            while !(parameter.sees('=') && depth == 0) {
                let Some(token) = parameter.next() else { break };
                match &token {
                    TokenTree::Punct(punct) if punct.as_char() == '\'' && !is_named => {
                        is_type = false;
                        named.push(token.clone());
                    }
                    TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
                    TokenTree::Punct(punct) if punct.as_char() == '>' => depth = depth.saturating_sub(1),
                    TokenTree::Ident(ident) if !is_named && ident.to_string() == "const" => is_type = false,
                    TokenTree::Ident(_) if !is_named => {
                        is_named = true;
                        named.push(token.clone());
                    }
                    _ => {}
                }
                declared.push(token);
            }
            if !is_named {
                continue;
            }
            let named = code(named);
            if is_type {
                generics.types.push(named.clone());
            }
            generics.named.push(named);
            generics.declared.push(code(declared));
        }
        generics
    }
}
