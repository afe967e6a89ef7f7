//! The Settings type of a site, and which of its fields are secrets.

use syn::{Fields, FnArg, GenericArgument, ImplItem, ItemImpl, ItemStruct, PathArguments, Type, ext::IdentExt as _};

use super::{
    DeclaredSetting, DeclaredSettings,
    collect::{Site, Source, inner_metas, is_for_tests, metas},
    declaration::shown,
    resolve::{Found, MAX_STEPS},
};
use crate::SettingName;

/// The type that holds a secret, and the one that it is another name of.
const SECRET_TYPES: [&str; 2] = ["SecretString", "SecretBox"];

/// Reads the settings of a site: of the type that its `open` takes, or of its `settings` field.
pub(super) fn read(source: &Source<'_>, site: &Site) -> DeclaredSettings {
    let of_field = || {
        let found = source
            .struct_of(site)
            .fields
            .iter()
            .find(|field| field.ident.as_ref().is_some_and(|name| name == "settings"));
        found.map(|field| (site.module, &field.ty))
    };
    let Some((module, ty)) = of_methods(source, site).or_else(of_field) else { return DeclaredSettings::Unnamed };
    let unknown = || DeclaredSettings::Unknown { type_name: shown(ty), place: source.place(module, ty) };
    follow(source, module, ty, MAX_STEPS).unwrap_or_else(unknown)
}

/// The type that `impl Website for Site` names.
fn of_methods<'s>(source: &'s Source<'_>, site: &Site) -> Option<(usize, &'s Type)> {
    let own = Found::Own(site.module, source.struct_of(site).ident.to_string());
    for (module, inner) in source.modules.iter().enumerate() {
        if inner.package != source.modules[site.module].package {
            continue;
        }
        for block in &inner.impls {
            let is_website =
                block.trait_.as_ref().is_some_and(|(path, _)| source.find(module, path).last() == "Website");
            let is_its = || matches!(&*block.self_ty, Type::Path(path) if path.qself.is_none() && same(&source.find(module, &path.path), &own));
            if is_website && is_its() {
                return named(block).map(|ty| (module, ty));
            }
        }
    }
    None
}

/// A path that only a `*` explains is taken by its name.
fn same(found: &Found, own: &Found) -> bool {
    match found {
        Found::Own(..) => found == own,
        Found::Other(path) => path.len() == 1 && found.last() == own.last(),
    }
}

fn named(block: &ItemImpl) -> Option<&Type> {
    let written = block.items.iter().find_map(|item| match item {
        ImplItem::Type(item) if item.ident == "Settings" => Some(&item.ty),
        _ => None,
    });
    let taken = || {
        block.items.iter().find_map(|item| match item {
            ImplItem::Fn(method) if method.sig.ident == "open" => match method.sig.inputs.first() {
                Some(FnArg::Typed(first)) => Some(&*first.ty),
                _ => None,
            },
            _ => None,
        })
    };
    written.or_else(taken)
}

fn follow(source: &Source<'_>, module: usize, ty: &Type, steps: usize) -> Option<DeclaredSettings> {
    let path = match ty {
        Type::Tuple(tuple) if tuple.elems.is_empty() => {
            let place = source.place(module, ty);
            return Some(DeclaredSettings::Fields { type_name: "()".to_owned(), place, fields: Vec::new() });
        }
        Type::Paren(inner) => return follow(source, module, &inner.elem, steps.checked_sub(1)?),
        Type::Group(inner) => return follow(source, module, &inner.elem, steps.checked_sub(1)?),
        Type::Path(path) if path.qself.is_none() => &path.path,
        _ => return None,
    };
    let (module, name) = match source.find(module, path) {
        Found::Own(module, name) => (module, name),
        // A `*` may bring it in: then it is the one of this name that there is.
        Found::Other(path) => the_only(source, module, path.as_slice())?,
    };
    if let Some(alias) = source.alias(module, &name) {
        return follow(source, module, alias, steps.checked_sub(1)?);
    }
    let mut named = source.modules[module].structs.iter().filter(|item| item.ident == name);
    match (named.next(), named.next()) {
        (Some(item), None) if derives_settings(source, module, item) => Some(fields(source, module, item)),
        _ => None,
    }
}

fn the_only(source: &Source<'_>, module: usize, path: &[String]) -> Option<(usize, String)> {
    let [name] = path else { return None };
    let package = source.modules[module].package;
    let mut all = source.modules.iter().enumerate().filter(|(index, inner)| {
        inner.package == package
            && inner.structs.iter().any(|item| item.ident == name && derives_settings(source, *index, item))
    });
    match (all.next(), all.next()) {
        (Some((index, _)), None) => Some((index, name.clone())),
        _ => None,
    }
}

fn derives_settings(source: &Source<'_>, module: usize, item: &ItemStruct) -> bool {
    let derives = metas(&item.attrs).into_iter().filter(|meta| meta.path().is_ident("derive"));
    derives.flat_map(|meta| inner_metas(&meta)).any(|derive| source.find(module, derive.path()).last() == "Settings")
}

fn fields(source: &Source<'_>, module: usize, item: &ItemStruct) -> DeclaredSettings {
    let mut settings = Vec::new();
    if let Fields::Named(named) = &item.fields {
        for field in named.named.iter().filter(|field| !is_for_tests(&field.attrs)) {
            let name = field.ident.as_ref().and_then(|name| SettingName::parse(&name.unraw().to_string()).ok());
            settings.extend(name.map(|name| DeclaredSetting {
                name,
                secret: is_secret(source, module, &field.ty, MAX_STEPS),
                place: source.place(module, &field.ident),
            }));
        }
    }
    DeclaredSettings::Fields {
        type_name: item.ident.to_string(),
        place: source.place(module, &item.ident),
        fields: settings,
    }
}

/// Whether a type is `SecretString`, under whatever name, or has one in it.
fn is_secret(source: &Source<'_>, module: usize, ty: &Type, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else { return false };
    match ty {
        Type::Paren(inner) => is_secret(source, module, &inner.elem, steps),
        Type::Group(inner) => is_secret(source, module, &inner.elem, steps),
        Type::Reference(inner) => is_secret(source, module, &inner.elem, steps),
        Type::Array(inner) => is_secret(source, module, &inner.elem, steps),
        Type::Slice(inner) => is_secret(source, module, &inner.elem, steps),
        Type::Tuple(inner) => inner.elems.iter().any(|inner| is_secret(source, module, inner, steps)),
        Type::Path(path) => {
            let found = source.find(module, &path.path);
            let of_alias = match &found {
                Found::Own(module, name) => {
                    source.alias(*module, name).is_some_and(|alias| is_secret(source, *module, alias, steps))
                }
                Found::Other(_) => false,
            };
            let arguments = path.path.segments.iter().filter_map(|segment| match &segment.arguments {
                PathArguments::AngleBracketed(inner) => Some(inner),
                _ => None,
            });
            let mut inner = arguments.flat_map(|inner| &inner.args).filter_map(|argument| match argument {
                GenericArgument::Type(inner) => Some(inner),
                _ => None,
            });
            SECRET_TYPES.contains(&found.last())
                || of_alias
                || inner.any(|inner| is_secret(source, module, inner, steps))
        }
        _ => false,
    }
}
