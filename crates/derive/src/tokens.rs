//! Tokens one after the other, and errors that point at one.
//!
//! This file groups tokens (between commas, or between `<` and `>`) and knows nothing of their meaning.

use proc_macro::{Delimiter, Ident, Span, TokenStream, TokenTree};
use std::iter::Peekable;
use std::vec::IntoIter;

/// The reason why nothing can be derived, and its place in the source.
pub(crate) struct Failure {
    message: String,
    place: Span,
}

impl Failure {
    pub(crate) fn at(place: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), place }
    }

    /// Returns the error as the compiler reports it.
    pub(crate) fn into_tokens(self) -> TokenStream {
        placed(&format!("::core::compile_error!({:?});", self.message), self.place)
    }
}

/// Parses code and places its errors at `place`.
pub(crate) fn placed(code: &str, place: Span) -> TokenStream {
    let tokens: TokenStream = match code.parse() {
        Ok(tokens) => tokens,
        Err(error) => {
            let message = format!("::core::compile_error!({:?});", format!("this cannot be derived for: {error}"));
            message.parse().unwrap_or_default()
        }
    };
    respanned(tokens, place.resolved_at(Span::call_site()))
}

fn respanned(tokens: TokenStream, place: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        if let TokenTree::Group(group) = &token {
            token = TokenTree::Group(proc_macro::Group::new(group.delimiter(), respanned(group.stream(), place)));
        }
        token.set_span(place);
        token
    });
    moved.collect()
}

/// Tokens that are read from the left to the right.
pub(crate) struct Tokens {
    rest: Peekable<IntoIter<TokenTree>>,
    /// The place in the source of the last token that was taken.
    pub(crate) place: Span,
}

impl Tokens {
    pub(crate) fn of(stream: TokenStream) -> Self {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let place = tokens.first().map_or_else(Span::call_site, TokenTree::span);
        Self { rest: tokens.into_iter().peekable(), place }
    }

    pub(crate) fn next(&mut self) -> Option<TokenTree> {
        let token = self.rest.next()?;
        self.place = token.span();
        Some(token)
    }

    pub(crate) fn is_empty(&mut self) -> bool {
        self.rest.peek().is_none()
    }

    /// Returns whether the next token is this sign.
    pub(crate) fn sees(&mut self, sign: char) -> bool {
        matches!(self.rest.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
    }

    /// Takes this sign, if it comes next.
    pub(crate) fn takes(&mut self, sign: char) -> bool {
        self.sees(sign) && self.next().is_some()
    }

    /// Takes this word, if it comes next.
    pub(crate) fn takes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.rest.peek(), Some(TokenTree::Ident(ident)) if ident.to_string() == word);
        is_next && self.next().is_some()
    }

    /// Takes a group in brackets of this kind, if it comes next.
    pub(crate) fn takes_group(&mut self, delimiter: Delimiter) -> Option<TokenStream> {
        match self.rest.peek() {
            Some(TokenTree::Group(group)) if group.delimiter() == delimiter => {
                let stream = group.stream();
                self.next();
                Some(stream)
            }
            _ => None,
        }
    }

    /// Takes a name, which must come next.
    pub(crate) fn ident(&mut self, what: &str) -> Result<Ident, Failure> {
        match self.next() {
            Some(TokenTree::Ident(ident)) => Ok(ident),
            _ => Err(Failure::at(self.place, format!("{what} is expected here"))),
        }
    }

    /// Takes all up to a comma that is in no angle brackets, and that comma.
    pub(crate) fn up_to_comma(&mut self) -> Vec<TokenTree> {
        self.up_to(|sign| sign == ',')
    }

    /// Takes the tokens up to the `>` that closes a `<` taken before, and that `>`.
    pub(crate) fn up_to_closing(&mut self) -> Vec<TokenTree> {
        self.up_to(|sign| sign == '>')
    }

    /// Takes all up to such a sign that is in no angle brackets of its own, and that sign.
    fn up_to(&mut self, is_end: impl Fn(char) -> bool) -> Vec<TokenTree> {
        let (mut taken, mut depth, mut before) = (Vec::new(), 0usize, ' ');
        while let Some(token) = self.next() {
            let sign = match &token {
                TokenTree::Punct(punct) => punct.as_char(),
                _ => ' ',
            };
            // The second half of an arrow closes nothing.
            let is_arrow = sign == '>' && before == '-';
            if depth == 0 && is_end(sign) && !is_arrow {
                break;
            }
            match sign {
                '<' => depth += 1,
                '>' if !is_arrow => depth = depth.saturating_sub(1),
                _ => {}
            }
            before = sign;
            taken.push(token);
        }
        taken
    }

    /// Takes all up to a group of this kind, or to a semicolon; the group or the semicolon stays.
    pub(crate) fn up_to_body(&mut self, delimiter: Delimiter) -> Vec<TokenTree> {
        let mut taken = Vec::new();
        loop {
            match self.rest.peek() {
                None => return taken,
                Some(TokenTree::Group(group)) if group.delimiter() == delimiter => return taken,
                Some(TokenTree::Punct(punct)) if punct.as_char() == ';' => return taken,
                Some(_) => taken.extend(self.next()),
            }
        }
    }
}

/// Returns the source text of tokens.
pub(crate) fn code(tokens: impl IntoIterator<Item = TokenTree>) -> String {
    tokens.into_iter().collect::<TokenStream>().to_string()
}
