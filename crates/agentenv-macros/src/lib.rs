//! The macros of the agent-env SDK. They are documented where they are re-exported, in `agentenv-sdk`.
//!
//! Parsing and code generation only: each macro checks what it can see, reports every problem of one declaration at
//! once, and leaves what only the compiler knows (constants, the other macro's half) to `const` assertions.

mod declaration;
mod methods;
mod problems;
mod settings;

use proc_macro::TokenStream;

/// Declares a website on the struct that holds its state: `#[website(domains = ["shop.test"])]`.
///
/// | key | meaning |
/// |---|---|
/// | `domains` | the names it answers to: exact, or `*.suffix` for every name below |
/// | `name` | the site's name; the struct's in kebab-case without it |
/// | `live` | `true` for a real site, whose pages are not served here |
/// | `allow_hosts` | further hosts that a live site's pages need |
///
/// Values are literals, or constants of type `&str`, `bool` and `&[&str]`. Refused at compile time: a site without
/// domains, `allow_hosts` on a site that is not live, a name or pattern that is none.
#[proc_macro_attribute]
pub fn website(arguments: TokenStream, item: TokenStream) -> TokenStream {
    declaration::expand(arguments.into(), &item.into()).into()
}

/// Completes `impl Website for ...`: methods may be `async` or not, `Settings` is the type that `open` takes, and the
/// method marked `#[session_state]` answers `session`.
///
/// Refused at compile time: a live site without a marked method (PR-5), a live site with `pages`.
#[proc_macro_attribute]
pub fn website_methods(arguments: TokenStream, item: TokenStream) -> TokenStream {
    methods::expand(&arguments.into(), &item.into()).into()
}

/// Marks the method that answers `session`, within `#[website_methods]`.
#[proc_macro_attribute]
pub fn session_state(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item: proc_macro2::TokenStream = item.into();
    quote::quote! {
        ::core::compile_error!("`#[session_state]` marks a method inside `#[website_methods] impl Website for ...`");
        #item
    }
    .into()
}

/// Reads the struct from the settings of a deploy: `#[derive(Settings)]`.
///
/// A field is required unless its type is `Option<_>` or it has `#[setting(default = EXPRESSION)]`, or
/// `#[setting(default)]` for its type's default. A field typed `SecretString` is a secret setting: it takes no default.
#[proc_macro_derive(Settings, attributes(setting))]
pub fn settings(item: TokenStream) -> TokenStream {
    settings::expand(item.into()).into()
}
