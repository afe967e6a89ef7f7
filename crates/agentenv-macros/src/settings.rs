//! `#[derive(Settings)]`: a struct read from the settings of a deploy.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, DeriveInput, Expr, Field, Fields, GenericArgument, Lit, PathArguments, Token, Type, spanned::Spanned};

use crate::problems::Problems;

/// What a field is when the deploy says nothing.
enum Fallback {
    None,
    OfType,
    Expression(Box<Expr>),
}

pub fn expand(item: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut problems = Problems::default();
    if !input.generics.params.is_empty() {
        problems.add(&input.generics, "settings are one type: remove the generic parameters");
    }
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) => named.named.iter().collect(),
            Fields::Unit => Vec::new(),
            Fields::Unnamed(_) => {
                problems.add(&data.fields, "settings have names: use a struct with named fields");
                Vec::new()
            }
        },
        _ => {
            problems.add(&input.ident, "settings are a struct: one field a setting");
            Vec::new()
        }
    };
    let (mut reads, mut inits) = (Vec::new(), Vec::new());
    for (index, field) in fields.iter().enumerate() {
        let Some(ident) = &field.ident else { continue };
        let text = ident.to_string();
        let key = text.trim_start_matches("r#");
        let fallback = fallback(field, &mut problems);
        if is_secret(&field.ty) && !matches!(fallback, Fallback::None) {
            problems.add(&field.ty, format_args!("the secret setting `{key}` takes no default: remove it"));
        }
        let fallback = match fallback {
            Fallback::None => quote!(::core::option::Option::None),
            Fallback::OfType => quote!(::core::option::Option::Some(::core::default::Default::default)),
            Fallback::Expression(value) if is_string(&value) => {
                quote!(::core::option::Option::Some(|| ::core::convert::Into::into(#value)))
            }
            Fallback::Expression(value) => quote!(::core::option::Option::Some(|| #value)),
        };
        let ty = &field.ty;
        let shown = shown(ty);
        let local = quote::format_ident!("field_{index}");
        reads.push(quote_spanned! {ty.span()=>
            let #local = reader.read::<#ty>(#key, #shown, #fallback);
        });
        // `read` returned nothing only where it noted a problem, and then `finish` has ended this.
        inits.push(quote!(#ident: #local?));
    }
    let problems = problems.into_tokens();
    if !problems.is_empty() {
        return problems;
    }
    let ident = &input.ident;
    quote! {
        impl ::agentenv_sdk::Settings for #ident {
            fn read(reader: &mut ::agentenv_sdk::SettingsReader) -> ::core::option::Option<Self> {
                #(#reads)*
                ::core::option::Option::Some(Self { #(#inits),* })
            }
        }
    }
}

fn fallback(field: &Field, problems: &mut Problems) -> Fallback {
    let mut fallback = Fallback::None;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("setting")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("default") {
                return Err(meta.error("a setting takes `default` or `default = EXPRESSION`, nothing else"));
            }
            fallback = if meta.input.peek(Token![=]) {
                Fallback::Expression(Box::new(meta.value()?.parse()?))
            } else {
                Fallback::OfType
            };
            Ok(())
        });
        if let Err(error) = parsed {
            problems.add_error(error);
        }
    }
    fallback
}

/// Whether the type is `SecretString`, or one inside `Option<...>`.
fn is_secret(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match &last.arguments {
        PathArguments::AngleBracketed(inner) if last.ident == "Option" => {
            inner.args.iter().any(|argument| matches!(argument, GenericArgument::Type(ty) if is_secret(ty)))
        }
        _ => last.ident == "SecretString",
    }
}

/// Whether a default is a string literal, which becomes whatever text type the field has.
fn is_string(value: &Expr) -> bool {
    matches!(value, Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)))
}

/// The type as people write it: `Option<u16>`.
fn shown(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "")
}
