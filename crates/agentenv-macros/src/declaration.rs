//! `#[website(...)]`: what a site is called, where it answers, whether it is real.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Expr, ExprArray, ExprLit, Ident, ItemStruct, Lit, LitStr, Meta, Token, parse::Parser, punctuated::Punctuated,
    spanned::Spanned,
};

use crate::problems::Problems;

const KEYS: &str = "`domains`, `name`, `live` and `allow_hosts`";

/// One value of the declaration: readable here, or left to the compiler.
enum Value<T> {
    Known(T),
    Expression(Box<Expr>),
}

#[derive(Default)]
struct Declaration {
    name: Option<Value<LitStr>>,
    domains: Option<Value<Vec<LitStr>>>,
    live: Option<Value<bool>>,
    allow_hosts: Option<Value<Vec<LitStr>>>,
}

pub fn expand(arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let site: ItemStruct = match syn::parse2(item.clone()) {
        Ok(site) => site,
        Err(_) => {
            let message = "`#[website(...)]` stands on the struct that holds the site's state";
            return quote! { ::core::compile_error!(#message); #item };
        }
    };
    let mut problems = Problems::default();
    if !site.generics.params.is_empty() {
        problems.add(&site.generics, "a website is one site: remove the generic parameters of its struct");
    }
    let declaration = parse(arguments, &mut problems);
    let name = declaration.name(&site.ident, &mut problems);
    declaration.check(&site.ident, &mut problems);
    let problems = problems.into_tokens();
    if !problems.is_empty() {
        // A declaration all the same, so that the rest of the file is not blamed for what is missing here.
        let (ident, (params, arguments, bounds)) = (&site.ident, site.generics.split_for_impl());
        return quote! {
            #site
            #problems
            impl #params ::agentenv_sdk::Declared for #ident #arguments #bounds {
                const NAME: &'static str = "";
                const DOMAINS: &'static [&'static str] = &[];
                const LIVE: bool = false;
                const ALLOW_HOSTS: &'static [&'static str] = &[];
            }
        };
    }
    declaration.into_tokens(&site, &name)
}

fn parse(arguments: TokenStream, problems: &mut Problems) -> Declaration {
    let mut declaration = Declaration::default();
    let metas = match Punctuated::<Meta, Token![,]>::parse_terminated.parse2(arguments) {
        Ok(metas) => metas,
        Err(error) => {
            problems.add_error(error);
            // The domains may well be there: their absence is no second problem.
            declaration.domains = Some(Value::Expression(Box::new(syn::parse_quote!(&[]))));
            return declaration;
        }
    };
    for meta in metas {
        let key = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
        let Meta::NameValue(pair) = &meta else {
            problems.add(&meta, format_args!("write `key = value`; the keys are {KEYS}"));
            // Counted as given, so that it is refused once.
            if key == "domains" {
                declaration.domains = Some(Value::Expression(Box::new(syn::parse_quote!(&[]))));
            }
            continue;
        };
        let value = &pair.value;
        let repeated = match key.as_str() {
            "name" => declaration.name.replace(text(value, problems)).is_some(),
            "domains" => declaration.domains.replace(texts(value, problems)).is_some(),
            "live" => declaration.live.replace(boolean(value, problems)).is_some(),
            "allow_hosts" => declaration.allow_hosts.replace(texts(value, problems)).is_some(),
            _ => {
                problems.add(&pair.path, format_args!("a website declares {KEYS}, nothing else"));
                false
            }
        };
        if repeated {
            problems.add(&pair.path, format_args!("`{key}` is declared twice: keep one"));
        }
    }
    declaration
}

fn text(value: &Expr, problems: &mut Problems) -> Value<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => return Value::Known(text.clone()),
        Expr::Lit(_) | Expr::Array(_) => problems.add(value, "a name is a string: `name = \"shop\"`"),
        _ => {}
    }
    Value::Expression(Box::new(value.clone()))
}

fn boolean(value: &Expr, problems: &mut Problems) -> Value<bool> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) => return Value::Known(flag.value),
        Expr::Lit(_) | Expr::Array(_) => problems.add(value, "`live` is `true` or `false`"),
        _ => {}
    }
    Value::Expression(Box::new(value.clone()))
}

fn texts(value: &Expr, problems: &mut Problems) -> Value<Vec<LitStr>> {
    let array = match value {
        Expr::Array(array) => array,
        Expr::Reference(reference) if matches!(*reference.expr, Expr::Array(_)) => {
            let Expr::Array(array) = &*reference.expr else { unreachable!("just matched") };
            array
        }
        Expr::Lit(_) => {
            problems.add(value, "host patterns are a list: `[\"shop.test\", \"*.shop.test\"]`");
            return Value::Expression(Box::new(value.clone()));
        }
        _ => return Value::Expression(Box::new(value.clone())),
    };
    let mut known = Vec::new();
    for element in &array.elems {
        match element {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                if let Some(reason) = pattern_problem(&text.value()) {
                    problems.add(text, reason);
                }
                known.push(text.clone());
            }
            Expr::Lit(_) => problems.add(element, "a host pattern is a string: `\"shop.test\"`"),
            _ => {}
        }
    }
    if known.len() == array.elems.len() {
        Value::Known(known)
    } else {
        let elements = &array.elems;
        let array: ExprArray = syn::parse_quote!([#elements]);
        Value::Expression(Box::new(syn::parse_quote!(&#array)))
    }
}

/// What is wrong with a host pattern, as far as this crate can tell: the protocol crate's parser has the last word when
/// the site starts.
fn pattern_problem(text: &str) -> Option<String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.is_empty() {
        Some("a host pattern is not empty: `\"shop.test\"`".to_owned())
    } else if text.contains("://") || text.contains('/') {
        Some(format!("`{text}` is a URL: write the host name alone, such as `\"shop.test\"`"))
    } else if bare.parse::<std::net::IpAddr>().is_ok() || bare.starts_with('[') {
        Some(format!("`{text}` is an IP address: write a host name, such as `\"shop.test\"`"))
    } else if text.contains(':') {
        Some(format!("`{text}` has a port: write the host name alone; pages are at the standard ports"))
    } else if name.contains('*') {
        Some(format!("`{text}` has a `*` that is not its whole first label: write `\"*.shop.test\"`"))
    } else if bare.eq_ignore_ascii_case("localhost") || bare.to_ascii_lowercase().ends_with(".localhost") {
        Some(format!("`{text}` is a name of the machine itself: write a name of the site's own"))
    } else if bare.split('.').any(|label| label.is_empty() || label.starts_with('-') || label.ends_with('-'))
        || bare.contains(|c: char| c.is_whitespace() || "@?#%\\<>\"'".contains(c))
    {
        Some(format!("`{text}` is not a host name"))
    } else {
        None
    }
}

impl Declaration {
    fn name(&self, ident: &Ident, problems: &mut Problems) -> TokenStream {
        match &self.name {
            Some(Value::Expression(expression)) => quote!(#expression),
            Some(Value::Known(name)) => {
                if !is_name(&name.value()) {
                    let accepted = "lower-case letters, digits and `-`, a letter first, 63 characters at most";
                    problems.add(name, format_args!("`{}` is not a name: {accepted}", name.value()));
                }
                quote!(#name)
            }
            None => {
                let name = kebab_case(&ident.to_string());
                if !is_name(&name) {
                    problems.add(ident, "no name can be made of the struct's: add `name = \"shop\"`");
                }
                quote!(#name)
            }
        }
    }

    fn live(&self) -> Option<bool> {
        match &self.live {
            None => Some(false),
            Some(Value::Known(live)) => Some(*live),
            Some(Value::Expression(_)) => None,
        }
    }

    /// PR-5, as far as it can be read here.
    fn check(&self, ident: &Ident, problems: &mut Problems) {
        let without_domains =
            self.domains.as_ref().is_none_or(|domains| matches!(domains, Value::Known(known) if known.is_empty()));
        if without_domains && self.live() == Some(true) {
            problems.add(ident, LIVE_WITHOUT_DOMAINS);
        } else if without_domains {
            problems.add(ident, WITHOUT_DOMAINS);
        }
        if self.live() == Some(false)
            && let Some(Value::Known(hosts)) = &self.allow_hosts
            && let Some(first) = hosts.first()
        {
            problems.add(first, ALLOW_HOSTS_NOT_LIVE);
        }
    }

    fn into_tokens(self, site: &ItemStruct, name: &TokenStream) -> TokenStream {
        let ident = &site.ident;
        let list = |value: &Option<Value<Vec<LitStr>>>| match value {
            None => quote!(&[]),
            Some(Value::Known(known)) => quote!(&[#(#known),*]),
            Some(Value::Expression(expression)) => quote!(#expression),
        };
        let (domains, allow_hosts) = (list(&self.domains), list(&self.allow_hosts));
        let live = match &self.live {
            None => quote!(false),
            Some(Value::Known(live)) => quote!(#live),
            Some(Value::Expression(expression)) => quote!(#expression),
        };
        let span = self.live.as_ref().map_or_else(Span::call_site, |live| match live {
            Value::Expression(expression) => expression.span(),
            Value::Known(_) => Span::call_site(),
        });
        // What `check` could not read, the compiler evaluates.
        let assertions = quote_spanned! {span=>
            const _: () = ::core::assert!(!<#ident as ::agentenv_sdk::Declared>::DOMAINS.is_empty(), #WITHOUT_DOMAINS);
            const _: () = ::core::assert!(
                <#ident as ::agentenv_sdk::Declared>::LIVE
                    || <#ident as ::agentenv_sdk::Declared>::ALLOW_HOSTS.is_empty(),
                #ALLOW_HOSTS_NOT_LIVE
            );
        };
        quote! {
            #site
            impl ::agentenv_sdk::Declared for #ident {
                const NAME: &'static str = #name;
                const DOMAINS: &'static [&'static str] = #domains;
                const LIVE: bool = #live;
                const ALLOW_HOSTS: &'static [&'static str] = #allow_hosts;
            }
            #assertions
        }
    }
}

const WITHOUT_DOMAINS: &str = "a website needs a name to be reached at: add `domains = [\"shop.test\"]`";
const LIVE_WITHOUT_DOMAINS: &str =
    "a live site needs the names of the real site: add `domains = [\"github.com\"]`, or remove `live = true`";
const ALLOW_HOSTS_NOT_LIVE: &str =
    "`allow_hosts` is for live sites: add `live = true`, or move these names to `domains` if the site serves them";

fn is_name(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// `IssueTracker` as `issue-tracker`, `HTTPEcho2` as `http-echo2`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_name_becomes_kebab_case() {
        for (ident, name) in [
            ("Shop", "shop"),
            ("IssueTracker", "issue-tracker"),
            ("HTTPEcho2", "http-echo2"),
            ("My_Site", "my-site"),
            ("A", "a"),
        ] {
            assert_eq!(kebab_case(ident), name);
        }
    }

    #[test]
    fn patterns_that_are_none_say_what_to_write() {
        for text in ["shop.test", "*.shop.test", "bücher.example", "SHOP.test.", "a_b.test"] {
            assert_eq!(pattern_problem(text), None, "{text}");
        }
        for (text, part) in [
            ("", "not empty"),
            ("*.", "not empty"),
            ("https://shop.test", "a URL"),
            ("shop.test/x", "a URL"),
            ("shop.test:443", "a port"),
            ("127.0.0.1", "an IP address"),
            ("[::1]", "an IP address"),
            ("a.*.test", "first label"),
            ("*shop.test", "first label"),
            ("a.localhost", "the machine itself"),
            ("a..b", "not a host name"),
            ("a b", "not a host name"),
        ] {
            assert!(pattern_problem(text).is_some_and(|reason| reason.contains(part)), "{text}");
        }
    }
}
