//! `#[website_methods]`: the methods of `website/v1`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{FnArg, ImplItem, ImplItemFn, ItemImpl, ReturnType, Type, spanned::Spanned};

use crate::problems::Problems;

/// Methods that the trait declares as futures; without `async` they are given it.
const ASYNC: [&str; 6] = ["open", "load", "get", "reset", "ready", "sign_in"];

pub fn expand(arguments: &TokenStream, item: &TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let error = error.to_compile_error();
            return quote! { #error #item };
        }
    };
    let mut problems = Problems::default();
    if !arguments.is_empty() {
        problems.add(arguments, "`#[website_methods]` takes no arguments: a site is declared on its struct");
    }
    let implemented = block.trait_.as_ref().and_then(|(path, _)| path.segments.last());
    if implemented.is_none_or(|last| last.ident != "Website") {
        problems.add(&block.self_ty, "`#[website_methods]` stands on `impl Website for ...`");
        let problems = problems.into_tokens();
        return quote! { #problems #block };
    }
    let marked = take_marked(&mut block, &mut problems);
    let pages = block.items.iter().find_map(|item| match item {
        ImplItem::Fn(method) if method.sig.ident == "pages" => Some(method.sig.ident.span()),
        _ => None,
    });
    complete(&mut block, &mut problems);
    let site = &block.self_ty;
    let (has_pages, has_session) = (pages.is_some(), !marked.is_empty());
    let mut constants = quote! {
        const HAS_PAGES: bool = #has_pages;
        const HAS_SESSION: bool = #has_session;
    };
    if let Some(method) = marked.first() {
        let name = &method.sig.ident;
        let wait = method.sig.asyncness.map(|_| quote!(.await));
        constants.extend(quote_spanned! {method.sig.span()=>
            async fn session(
                &self,
                user: ::core::option::Option<::std::string::String>,
            ) -> ::agentenv_sdk::Result<::agentenv_sdk::SessionState> {
                Self::#name(self, user)#wait
            }
        });
    }
    block.items.push(ImplItem::Verbatim(constants));
    let pages_rule = pages.map(|span| {
        quote_spanned! {span=>
            const _: () = ::core::assert!(!<#site as ::agentenv_sdk::Declared>::LIVE, #LIVE_WITH_PAGES);
        }
    });
    let session_rule = (!has_session).then(|| {
        quote_spanned! {site.span()=>
            const _: () = ::core::assert!(!<#site as ::agentenv_sdk::Declared>::LIVE, #LIVE_WITHOUT_SESSION);
        }
    });
    let problems = problems.into_tokens();
    let inherent = (!marked.is_empty()).then(|| quote! { impl #site { #(#marked)* } });
    quote! {
        #problems
        #block
        #inherent
        #pages_rule
        #session_rule
    }
}

const LIVE_WITH_PAGES: &str = "a live site's pages are the real ones: remove `pages`, or remove `live = true`";
const LIVE_WITHOUT_SESSION: &str = "a live site says itself how a user signs in: add `#[session_state] async fn \
    session(&self, user: Option<String>) -> Result<SessionState>` to this block, or remove `live = true`";

/// Takes the methods marked `#[session_state]` out of the block: they are the site's own, the trait has none of them.
fn take_marked(block: &mut ItemImpl, problems: &mut Problems) -> Vec<ImplItemFn> {
    let mut marked: Vec<ImplItemFn> = Vec::new();
    let mut kept = Vec::new();
    for item in std::mem::take(&mut block.items) {
        match item {
            ImplItem::Fn(mut method) if is_marked(&method) => {
                method.attrs.retain(|attribute| !is_mark(attribute));
                if !marked.is_empty() {
                    problems.add(&method.sig.ident, "one method answers `session`: mark one with `#[session_state]`");
                    continue;
                }
                if method.sig.receiver().is_none() || method.sig.inputs.len() != 2 {
                    let write = "a session method is `async fn session(&self, user: Option<String>) -> \
                        Result<SessionState>`";
                    problems.add(&method.sig, write);
                    // One that fits stands in for it, so that it is refused once.
                    method.sig = syn::parse_quote!(fn session(
                        &self,
                        _user: ::core::option::Option<::std::string::String>
                    ) -> ::agentenv_sdk::Result<::agentenv_sdk::SessionState>);
                    method.block = syn::parse_quote!({ ::core::unreachable!() });
                }
                marked.push(method);
            }
            ImplItem::Fn(method) if method.sig.ident == "session" => {
                problems.add(&method.sig.ident, "mark the method that answers `session`: put `#[session_state]` on it");
            }
            other => kept.push(other),
        }
    }
    block.items = kept;
    marked
}

fn is_marked(method: &ImplItemFn) -> bool {
    method.attrs.iter().any(is_mark)
}

fn is_mark(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "session_state")
}

/// Adds `async` where it was left out, and `type Settings` from what `open` takes.
fn complete(block: &mut ItemImpl, problems: &mut Problems) {
    let mut settings = None;
    let mut has_settings = false;
    for item in &mut block.items {
        match item {
            ImplItem::Type(associated) if associated.ident == "Settings" => has_settings = true,
            ImplItem::Fn(method) => {
                let name = method.sig.ident.to_string();
                if name == "open" {
                    match method.sig.inputs.first() {
                        Some(FnArg::Typed(first)) if method.sig.inputs.len() == 2 => settings = Some(first.ty.clone()),
                        _ => {
                            let write = "`open` is `fn open(settings: MySettings, data_dir: &Path) -> Result<Self>`; \
                                a site without settings takes `_settings: ()`";
                            problems.add(&method.sig, write);
                            settings = Some(Box::new(syn::parse_quote!(())));
                        }
                    }
                }
                if ASYNC.contains(&name.as_str()) && method.sig.asyncness.is_none() && !returns_future(method) {
                    method.sig.asyncness = Some(syn::Token![async](method.sig.fn_token.span));
                }
            }
            _ => {}
        }
    }
    if let (Some(settings), false) = (settings, has_settings) {
        block.items.push(syn::parse_quote!(type Settings = #settings;));
    }
}

fn returns_future(method: &ImplItemFn) -> bool {
    matches!(&method.sig.output, ReturnType::Type(_, answer) if matches!(**answer, Type::ImplTrait(_)))
}
