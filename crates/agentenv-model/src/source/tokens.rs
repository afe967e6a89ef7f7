//! Text to syntax: functions lose their bodies, in which no site is declared, and what would take the parser too deep is refused.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// The deepest nesting of brackets; people write a dozen.
const MAX_NESTING: usize = 256;
/// The longest way down that the parser goes, in tokens: `- - - 1` and `a + a + a` nest without brackets.
const MAX_DEPTH: usize = 4000;

/// Why a file cannot be read.
pub(super) struct Unreadable {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) reason: String,
}

impl Unreadable {
    fn at(span: Span, reason: impl Into<String>) -> Self {
        let start = span.start();
        Self { line: start.line, column: start.column + 1, reason: reason.into() }
    }
}

/// Parses a Rust file.
pub(super) fn parse(text: &str) -> Result<syn::File, Unreadable> {
    let tokens = TokenStream::from_str(without_shebang(text)).map_err(|error| {
        Unreadable::at(error.span(), "brackets or quotes do not match, or a character is none of Rust's")
    })?;
    check_nesting(&tokens)?;
    let bare = without_bodies(tokens);
    check_depth(&bare)?;
    syn::parse2(bare).map_err(|error| Unreadable::at(error.span(), error.to_string()))
}

/// A first line `#!/usr/bin/…` is no Rust; `#![…]` is. The line's end stays, so that lines keep their numbers.
fn without_shebang(text: &str) -> &str {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    match bare.strip_prefix("#!") {
        Some(rest) if !rest.trim_start().starts_with('[') => &bare[bare.find('\n').unwrap_or(bare.len())..],
        _ => bare,
    }
}

fn check_nesting(tokens: &TokenStream) -> Result<(), Unreadable> {
    let mut open = vec![tokens.clone().into_iter()];
    while let Some(inner) = open.last_mut() {
        match inner.next() {
            None => drop(open.pop()),
            Some(TokenTree::Group(group)) if open.len() < MAX_NESTING => open.push(group.stream().into_iter()),
            Some(TokenTree::Group(group)) => {
                return Err(Unreadable::at(group.span_open(), format!("brackets are nested {MAX_NESTING} deep")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The same items, each function with an empty body.
fn without_bodies(tokens: TokenStream) -> TokenStream {
    let mut bare = Vec::new();
    let mut in_function = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let token = match token {
            TokenTree::Ident(word) => {
                // `fn(u8)` is a type, `fn name(u8)` a function.
                in_function |= word == "fn" && matches!(tokens.peek(), Some(TokenTree::Ident(_)));
                TokenTree::Ident(word)
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner = if in_function { TokenStream::new() } else { without_bodies(group.stream()) };
                in_function = false;
                let mut kept = Group::new(Delimiter::Brace, inner);
                kept.set_span(group.span());
                TokenTree::Group(kept)
            }
            TokenTree::Punct(mark) => {
                in_function &= mark.as_char() != ';';
                TokenTree::Punct(mark)
            }
            other => other,
        };
        bare.push(token);
    }
    bare.into_iter().collect()
}

fn check_depth(tokens: &TokenStream) -> Result<(), Unreadable> {
    struct Level {
        tokens: proc_macro2::token_stream::IntoIter,
        above: usize,
        /// Tokens since something that ends an expression or an item.
        run: usize,
        after_brace: bool,
    }
    let level = |tokens: TokenStream, above| Level { tokens: tokens.into_iter(), above, run: 0, after_brace: false };
    let mut open = vec![level(tokens.clone(), 0)];
    while let Some(inner) = open.last_mut() {
        let Some(token) = inner.tokens.next() else {
            open.pop();
            continue;
        };
        // After `{ … }` the next item begins, unless an `else` or an operator goes on.
        let begins = match &token {
            TokenTree::Ident(word) => word != "else" && word != "as",
            TokenTree::Punct(mark) => mark.as_char() == '#',
            TokenTree::Group(_) | TokenTree::Literal(_) => false,
        };
        let ends = matches!(&token, TokenTree::Punct(mark) if matches!(mark.as_char(), ',' | ';'));
        inner.run = if ends || (inner.after_brace && begins) { 0 } else { inner.run + 1 };
        inner.after_brace = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let depth = inner.above + inner.run;
        if depth > MAX_DEPTH {
            return Err(Unreadable::at(token.span(), format!("an expression has more than {MAX_DEPTH} parts")));
        }
        if let TokenTree::Group(group) = token {
            open.push(level(group.stream(), depth + 1));
        }
    }
    Ok(())
}
