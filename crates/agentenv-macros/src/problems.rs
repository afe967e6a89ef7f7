//! Problems of one declaration, collected so that they are reported together.

use proc_macro2::TokenStream;

#[derive(Default)]
pub struct Problems(Option<syn::Error>);

impl Problems {
    pub fn add(&mut self, spanned: impl quote::ToTokens, message: impl std::fmt::Display) {
        self.add_error(syn::Error::new_spanned(spanned, message));
    }

    pub fn add_error(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// The problems as `compile_error!`s; nothing where there are none.
    pub fn into_tokens(self) -> TokenStream {
        self.0.map(|all| all.to_compile_error()).unwrap_or_default()
    }
}
