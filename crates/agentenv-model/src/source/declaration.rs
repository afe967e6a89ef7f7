//! The fields of `#[website(...)]`.

use agentenv_protocol::{HostPattern, Name};
use syn::{Expr, Lit, Meta, Token, punctuated::Punctuated};

use super::{
    Declaration, Declared,
    collect::{Site, Source},
    resolve::{Found, MAX_STEPS},
    settings,
};
use crate::{
    Place, Problem,
    problem::{bad_name, bad_pattern},
};

/// The longest expression that a message shows whole.
const MAX_SHOWN_CHARS: usize = 60;

/// Reads the declaration of a site.
pub(super) fn read(source: &Source<'_>, site: &Site, problems: &mut Vec<Problem>) -> Declaration {
    let fields = fields(source, site, problems);
    let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let reading = Reading { source, module: site.module };
    let default_name = source.struct_of(site).ident.to_string();
    Declaration {
        place: source.place_of(site),
        name: match field("name") {
            None => match Name::parse(&kebab_case(&default_name)) {
                Ok(name) => Declared::LeftOut(name),
                Err(_) => Declared::Unknown {
                    expression: default_name,
                    place: source.place(site.module, &source.struct_of(site).ident),
                },
            },
            Some(value) => {
                let text = reading.text(site.module, value, MAX_STEPS);
                let name = text.and_then(|(text, place)| {
                    let name = Name::parse(&text).ok();
                    if name.is_none() {
                        problems.push(bad_name(place, "`name`", &text));
                    }
                    name
                });
                reading.declared(value, name)
            }
        },
        domains: match field("domains") {
            None => Declared::LeftOut(Vec::new()),
            Some(value) => reading.declared(value, reading.patterns("domains", value, problems)),
        },
        live: match field("live") {
            None => Declared::LeftOut(false),
            Some(value) => reading.declared(value, reading.boolean(value)),
        },
        allow_hosts: match field("allow_hosts") {
            None => Declared::LeftOut(Vec::new()),
            Some(value) => reading.declared(value, reading.patterns("allow_hosts", value, problems)),
        },
        settings: settings::read(source, site),
    }
}

/// `key = value`, in the order in which they are written; of a key given twice the first. What is written otherwise says
/// nothing that can be trusted.
fn fields(source: &Source<'_>, site: &Site, problems: &mut Vec<Problem>) -> Vec<(String, Expr)> {
    const HINT: &str = "write `key = value`, such as `domains = [\"shop.test\"]`";
    let Meta::List(list) = &site.mark else { return Vec::new() };
    let metas = match list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) {
        Ok(metas) => metas,
        Err(error) => {
            let message = format!("`#[website(...)]` cannot be read: {error}");
            problems.push(Problem::new(source.place_of(site), message, HINT));
            return Vec::new();
        }
    };
    let mut fields = Vec::new();
    for meta in metas {
        match (meta.path().get_ident().map(ToString::to_string), meta) {
            (Some(key), Meta::NameValue(pair)) => fields.push((key, pair.value)),
            (_, other) => {
                let message = format!("`#[website(...)]` has `{}`", shown(&other));
                problems.push(Problem::new(source.place(site.module, &other), message, HINT));
            }
        }
    }
    fields
}

struct Reading<'s, 'a> {
    source: &'s Source<'a>,
    /// Where the declaration is.
    module: usize,
}

impl Reading<'_, '_> {
    fn declared<T>(&self, expression: &Expr, value: Option<T>) -> Declared<T> {
        let place = self.source.place(self.module, expression);
        match value {
            Some(value) => Declared::Written { value, place },
            None => Declared::Unknown { expression: shown(expression), place },
        }
    }

    /// A constant's value and its module.
    fn constant(&self, module: usize, expression: &Expr) -> Option<(usize, &Expr)> {
        let Expr::Path(path) = expression else { return None };
        if path.qself.is_some() {
            return None;
        }
        match self.source.find(module, &path.path) {
            Found::Own(module, name) => Some((module, self.source.constant(module, &name)?)),
            Found::Other(_) => None,
        }
    }

    /// The literal that an expression is, there or as a constant, and its module.
    fn literal<'e>(&'e self, module: usize, expression: &'e Expr, steps: usize) -> Option<(usize, &'e Lit)> {
        match bare(expression) {
            Expr::Lit(literal) => Some((module, &literal.lit)),
            other => {
                let (module, value) = self.constant(module, other)?;
                self.literal(module, value, steps.checked_sub(1)?)
            }
        }
    }

    fn boolean(&self, expression: &Expr) -> Option<bool> {
        match self.literal(self.module, expression, MAX_STEPS)? {
            (_, Lit::Bool(value)) => Some(value.value),
            _ => None,
        }
    }

    fn text(&self, module: usize, expression: &Expr, steps: usize) -> Option<(String, Place)> {
        match self.literal(module, expression, steps)? {
            (module, Lit::Str(text)) => Some((text.value(), self.source.place(module, text))),
            _ => None,
        }
    }

    fn texts(&self, module: usize, expression: &Expr, steps: usize) -> Option<Vec<(String, Place)>> {
        match bare(expression) {
            Expr::Array(array) => array.elems.iter().map(|element| self.text(module, element, steps)).collect(),
            Expr::Reference(reference) => self.texts(module, &reference.expr, steps.checked_sub(1)?),
            other => {
                let (module, value) = self.constant(module, other)?;
                self.texts(module, value, steps.checked_sub(1)?)
            }
        }
    }

    fn patterns(&self, key: &str, expression: &Expr, problems: &mut Vec<Problem>) -> Option<Vec<HostPattern>> {
        let mut patterns = Vec::new();
        for (text, place) in self.texts(self.module, expression, MAX_STEPS)? {
            match HostPattern::parse(&text) {
                Ok(pattern) if patterns.contains(&pattern) => {}
                Ok(pattern) => patterns.push(pattern),
                Err(error) => problems.push(bad_pattern(place, key, &text, &error)),
            }
        }
        Some(patterns)
    }
}

/// The expression without parentheses around it.
fn bare(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        other => other,
    }
}

/// The expression as it is written, in one line.
pub(super) fn shown(syntax: &impl syn::spanned::Spanned) -> String {
    let text = syntax.span().source_text().unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// `IssueTracker` as `issue-tracker`: the name that the SDK gives a site that declares none.
fn kebab_case(ident: &str) -> String {
    let letters: Vec<char> = ident.trim_start_matches("r#").chars().collect();
    let mut out = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_lower = index > 0 && (letters[index - 1].is_lowercase() || letters[index - 1].is_ascii_digit());
        let before_lower = index > 0
            && letters[index - 1].is_uppercase()
            && letters.get(index + 1).is_some_and(|next| next.is_lowercase());
        if *letter == '_' {
            out.push('-');
            continue;
        }
        if letter.is_uppercase() && (after_lower || before_lower) {
            out.push('-');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
