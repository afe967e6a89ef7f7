//! The items of a server's packages, by module.

use std::collections::BTreeMap;

use syn::{
    Attribute, Expr, ExprLit, Item, ItemImpl, ItemStruct, Lit, Meta, MetaNameValue, Token, Type, UseTree,
    punctuated::Punctuated, spanned::Spanned,
};

use super::{RustPackage, tokens};
use crate::{Place, Problem};

/// How deep `cfg_attr` in `cfg_attr` is followed.
const MAX_CFG_DEPTH: usize = 8;

/// The value of a constant.
pub(super) enum Constant {
    /// As it is written.
    Written(Box<Expr>),
    /// Under a `cfg`: which one is compiled is not known here.
    Conditional,
}

/// One module: a file, or `mod name { … }` in one.
#[derive(Default)]
pub(super) struct Module {
    pub(super) package: usize,
    pub(super) file: usize,
    /// From the root of its crate.
    pub(super) path: Vec<String>,
    /// What names are imported as: `Hidden` for `a::SecretString`.
    pub(super) uses: BTreeMap<String, Vec<String>>,
    pub(super) constants: Vec<(String, Constant)>,
    pub(super) structs: Vec<ItemStruct>,
    pub(super) aliases: Vec<(String, Type)>,
    pub(super) impls: Vec<ItemImpl>,
}

/// A struct that is marked as a site.
pub(super) struct Site {
    pub(super) module: usize,
    /// Its index among the module's structs.
    pub(super) index: usize,
    /// The `website(...)` on it.
    pub(super) mark: Meta,
}

/// Everything that was read.
pub(super) struct Source<'a> {
    pub(super) packages: &'a [RustPackage],
    pub(super) modules: Vec<Module>,
    /// Files that may declare a site and cannot be read.
    pub(super) unreadable: Vec<Problem>,
}

impl<'a> Source<'a> {
    pub(super) fn of(packages: &'a [RustPackage]) -> Self {
        let mut source = Self { packages, modules: Vec::new(), unreadable: Vec::new() };
        for (index, package) in packages.iter().enumerate() {
            let mut only_tests = Vec::new();
            for (file, text) in package.files.iter().enumerate() {
                match tokens::parse(&text.text) {
                    Ok(parsed) if is_for_tests(&parsed.attrs) => {}
                    Ok(parsed) => {
                        let path = module_path(&text.inner);
                        let mut reading =
                            Reading { source: &mut source, package: index, file, only_tests: &mut only_tests };
                        reading.module(path, parsed.items);
                    }
                    Err(error) if text.text.contains("website") => {
                        let message = format!("it is not Rust that can be read: {}", error.reason);
                        let place = Place::File { file: text.path.clone(), line: error.line, column: error.column };
                        source.unreadable.push(Problem::new(
                            place,
                            message,
                            "mend it; the site's declaration is read from it",
                        ));
                    }
                    Err(_) => {}
                }
            }
            let is_test = |module: &Module| {
                let inner = &package.files[module.file].inner;
                let beneath = |path: &String| {
                    inner == path || inner.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
                };
                module.package == index && only_tests.iter().any(beneath)
            };
            source.modules.retain(|module| !is_test(module));
        }
        source
    }

    /// Every struct that is marked as a site.
    pub(super) fn sites(&self) -> Vec<Site> {
        let mut sites = Vec::new();
        for (module, inner) in self.modules.iter().enumerate() {
            for (index, found) in inner.structs.iter().enumerate() {
                let marks = metas(&found.attrs).into_iter().filter(|meta| self.is_website(module, meta));
                sites.extend(marks.map(|mark| Site { module, index, mark }));
            }
        }
        // A mark on one struct twice is one site that rustc refuses.
        sites.dedup_by_key(|site| (site.module, site.index));
        sites
    }

    pub(super) fn struct_of(&self, site: &Site) -> &ItemStruct {
        &self.modules[site.module].structs[site.index]
    }

    pub(super) fn place_of(&self, site: &Site) -> Place {
        self.place(site.module, &site.mark)
    }

    /// Where a piece of syntax is.
    pub(super) fn place(&self, module: usize, syntax: &impl Spanned) -> Place {
        let module = &self.modules[module];
        let start = syntax.span().start();
        let file = self.packages[module.package].files[module.file].path.clone();
        Place::File { file, line: start.line, column: start.column + 1 }
    }
}

struct Reading<'s, 'a> {
    source: &'s mut Source<'a>,
    package: usize,
    file: usize,
    /// Files and folders of modules that only tests compile.
    only_tests: &'s mut Vec<String>,
}

impl Reading<'_, '_> {
    fn module(&mut self, path: Vec<String>, items: Vec<Item>) {
        let mut module = Module { package: self.package, file: self.file, path, ..Module::default() };
        let mut inner = Vec::new();
        for item in items {
            match item {
                Item::Mod(item) if is_for_tests(&item.attrs) => self.leave_out(&module.path, &item),
                Item::Mod(item) => {
                    if let Some((_, items)) = item.content {
                        inner.push((item.ident.to_string(), items));
                    }
                }
                Item::Struct(item) if !is_for_tests(&item.attrs) => module.structs.push(item),
                Item::Impl(item) if item.trait_.is_some() && !is_for_tests(&item.attrs) => module.impls.push(item),
                Item::Type(item) if !is_for_tests(&item.attrs) => {
                    module.aliases.push((item.ident.to_string(), *item.ty));
                }
                Item::Const(item) if !is_for_tests(&item.attrs) => {
                    module.constants.push((item.ident.to_string(), constant(&item.attrs, item.expr)));
                }
                Item::Static(item) if !is_for_tests(&item.attrs) => {
                    module.constants.push((item.ident.to_string(), constant(&item.attrs, item.expr)));
                }
                Item::Use(item) if !is_for_tests(&item.attrs) => {
                    imports(item.tree, &mut Vec::new(), &mut module.uses);
                }
                Item::ExternCrate(item) if !is_for_tests(&item.attrs) => {
                    if let Some((_, rename)) = item.rename {
                        module.uses.insert(rename.to_string(), vec![item.ident.to_string()]);
                    }
                }
                _ => {}
            }
        }
        let path = module.path.clone();
        self.source.modules.push(module);
        for (name, items) in inner {
            self.module([path.clone(), vec![name]].concat(), items);
        }
    }

    /// Notes where a `#[cfg(test)] mod name;` has its files.
    fn leave_out(&mut self, within: &[String], item: &syn::ItemMod) {
        if item.content.is_some() {
            return;
        }
        let files = &self.source.packages[self.package].files;
        let own = &files[self.file].inner;
        let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
        let join =
            |folder: &str, name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if let Some(path) = named_path(&item.attrs) {
            self.only_tests.push(join(folder, path.trim_start_matches("./")));
            return;
        }
        // `a.rs` has its modules in `a/`, and `mod.rs` and the root of a crate beside themselves.
        let from_file = module_path(own);
        let inline = within.get(from_file.len()..).unwrap_or_default();
        let stem = own.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        let beside = matches!(stem, "mod" | "main" | "lib") || from_file.is_empty();
        let folder = if beside { folder.to_owned() } else { join(folder, stem) };
        let folder = inline.iter().fold(folder, |folder, name| join(&folder, name));
        let base = join(&folder, &item.ident.to_string());
        self.only_tests.push(format!("{base}.rs"));
        self.only_tests.push(base);
    }
}

fn constant(attributes: &[Attribute], expression: Box<Expr>) -> Constant {
    let conditional = attributes.iter().any(|attribute| attribute.path().is_ident("cfg") && !is_not_test(attribute));
    if conditional { Constant::Conditional } else { Constant::Written(expression) }
}

/// The module that a file is, by its place in the package: `src/a/b.rs` is `a::b`, `src/bin/x.rs` the root of a program.
fn module_path(inner: &str) -> Vec<String> {
    let mut parts: Vec<&str> = inner.strip_suffix(".rs").unwrap_or(inner).split('/').collect();
    if let Some(at) = parts.iter().position(|part| *part == "src") {
        parts.drain(..=at);
    }
    if parts.first() == Some(&"bin") {
        parts.drain(..parts.len().min(2));
    }
    if matches!(parts.last(), Some(&("mod" | "main" | "lib"))) {
        parts.pop();
    }
    parts.into_iter().map(str::to_owned).collect()
}

fn imports(tree: UseTree, prefix: &mut Vec<String>, uses: &mut BTreeMap<String, Vec<String>>) {
    let joined = |prefix: &[String], last: &str| match last {
        "self" => prefix.to_vec(),
        last => prefix.iter().cloned().chain([last.to_owned()]).collect(),
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            imports(*path.tree, prefix, uses);
            prefix.pop();
        }
        UseTree::Name(name) => {
            let path = joined(prefix, &name.ident.to_string());
            if let Some(last) = path.last() {
                uses.insert(last.clone(), path);
            }
        }
        UseTree::Rename(rename) => {
            uses.insert(rename.rename.to_string(), joined(prefix, &rename.ident.to_string()));
        }
        UseTree::Group(group) => group.items.into_iter().for_each(|tree| imports(tree, prefix, uses)),
        UseTree::Glob(_) => {}
    }
}

/// The attributes, those inside `cfg_attr` too, unless only tests have them.
pub(super) fn metas(attributes: &[Attribute]) -> Vec<Meta> {
    let mut found = Vec::new();
    attributes.iter().for_each(|attribute| flatten(attribute.meta.clone(), MAX_CFG_DEPTH, &mut found));
    found
}

fn flatten(meta: Meta, depth: usize, found: &mut Vec<Meta>) {
    if !meta.path().is_ident("cfg_attr") {
        found.push(meta);
        return;
    }
    let mut inner = inner_metas(&meta).into_iter();
    let Some(condition) = inner.next().filter(|condition| depth > 0 && !needs_test(condition, depth)) else { return };
    drop(condition);
    inner.for_each(|meta| flatten(meta, depth - 1, found));
}

pub(super) fn inner_metas(meta: &Meta) -> Vec<Meta> {
    let Meta::List(list) = meta else { return Vec::new() };
    let parsed = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    parsed.map(|metas| metas.into_iter().collect()).unwrap_or_default()
}

/// Whether only tests compile what has these attributes.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        inner_metas(&attribute.meta).first().is_some_and(|condition| needs_test(condition, MAX_CFG_DEPTH))
    })
}

fn needs_test(condition: &Meta, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    let inner = inner_metas(condition);
    let path = condition.path();
    if path.is_ident("all") {
        inner.iter().any(|inner| needs_test(inner, depth - 1))
    } else if path.is_ident("any") {
        !inner.is_empty() && inner.iter().all(|inner| needs_test(inner, depth - 1))
    } else {
        matches!(condition, Meta::Path(_)) && (path.is_ident("test") || path.is_ident("doctest"))
    }
}

/// Whether the attribute is `#[cfg(not(test))]`, which a site always is.
fn is_not_test(attribute: &Attribute) -> bool {
    let condition = inner_metas(&attribute.meta);
    let inner = condition.first().filter(|condition| condition.path().is_ident("not")).map(inner_metas);
    inner.is_some_and(|inner| matches!(inner.as_slice(), [inner] if needs_test(inner, MAX_CFG_DEPTH)))
}

fn named_path(attributes: &[Attribute]) -> Option<String> {
    let mut named = attributes.iter().filter(|attribute| attribute.path().is_ident("path"));
    named.find_map(|attribute| match &attribute.meta {
        Meta::NameValue(MetaNameValue { value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. }) => {
            Some(text.value())
        }
        _ => None,
    })
}
