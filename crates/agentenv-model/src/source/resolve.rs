//! What a path in the source means, as far as explicit imports and the package's own modules tell.

use syn::{Meta, Path, Type};

use super::collect::{Constant, Module, Source};

/// How far imports of imports are followed.
pub(super) const MAX_STEPS: usize = 16;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An item of the package: its module and name.
    Own(usize, String),
    /// Something of another package, or that only a `*` brings in; renames are undone.
    Other(Vec<String>),
}

impl Found {
    /// The last word of the path.
    pub(super) fn last(&self) -> &str {
        match self {
            Self::Own(_, name) => name,
            Self::Other(path) => path.last().map(String::as_str).unwrap_or_default(),
        }
    }
}

impl Module {
    fn has(&self, name: &str) -> bool {
        self.constants.iter().any(|(own, _)| own == name)
            || self.structs.iter().any(|own| own.ident == name)
            || self.aliases.iter().any(|(own, _)| own == name)
    }
}

impl Source<'_> {
    /// What a path means in a module.
    pub(super) fn find(&self, module: usize, path: &Path) -> Found {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_some() { Found::Other(words) } else { self.lead(module, words, MAX_STEPS) }
    }

    fn lead(&self, module: usize, words: Vec<String>, steps: usize) -> Found {
        let here = &self.modules[module];
        let (Some(first), Some(steps)) = (words.first(), steps.checked_sub(1)) else { return Found::Other(words) };
        let library = self.packages[here.package].manifest.library.as_ref();
        match first.as_str() {
            "crate" => return self.absolute(module, words[1..].to_vec(), steps),
            "self" => return self.absolute(module, [&here.path, &words[1..]].concat(), steps),
            "super" => {
                let ups = words.iter().take_while(|word| *word == "super").count();
                let kept = here.path.len().saturating_sub(ups);
                return self.absolute(module, [&here.path[..kept], &words[ups..]].concat(), steps);
            }
            _ => {}
        }
        if words.len() == 1 && here.has(first) {
            return Found::Own(module, first.clone());
        }
        if let Some(target) = here.uses.get(first) {
            let whole = [target.as_slice(), &words[1..]].concat();
            // `use website::website` would lead back to itself.
            return if target.first() == Some(first) {
                self.outside(module, whole, steps)
            } else {
                self.lead(module, whole, steps)
            };
        }
        if library == Some(first) && words.len() > 1 {
            return self.absolute(module, words[1..].to_vec(), steps);
        }
        self.outside(module, words, steps)
    }

    /// A path whose first word no import explains: a module below, or another package.
    fn outside(&self, module: usize, words: Vec<String>, steps: usize) -> Found {
        let here = &self.modules[module];
        let is_child = |other: &Module| {
            other.package == here.package && other.path.split_last() == Some((&words[0], here.path.as_slice()))
        };
        if words.len() > 1 && self.modules.iter().any(is_child) {
            return self.absolute(module, [&here.path, words.as_slice()].concat(), steps);
        }
        Found::Other(words)
    }

    /// A path from the root of the crate. A package may have several roots: the one in the same file comes first.
    fn absolute(&self, module: usize, words: Vec<String>, steps: usize) -> Found {
        let here = &self.modules[module];
        let Some((name, path)) = words.split_last() else { return Found::Other(words) };
        let at = |(_, other): &(usize, &Module)| other.package == here.package && other.path == path;
        let candidates: Vec<(usize, &Module)> = self.modules.iter().enumerate().filter(at).collect();
        let own: Vec<usize> = candidates.iter().filter(|(_, other)| other.has(name)).map(|(index, _)| *index).collect();
        let same_file = own.iter().find(|index| self.modules[**index].file == here.file);
        match (own.as_slice(), same_file) {
            (_, Some(index)) => return Found::Own(*index, name.clone()),
            ([index], None) => return Found::Own(*index, name.clone()),
            _ => {}
        }
        let importing: Vec<_> =
            candidates.iter().filter_map(|(index, other)| Some((*index, other.uses.get(name)?))).collect();
        match importing.as_slice() {
            [(index, target)] if steps > 0 && target.first() != Some(name) => {
                self.lead(*index, (*target).clone(), steps - 1)
            }
            [(_, target)] => Found::Other((*target).clone()),
            _ => Found::Other(words),
        }
    }

    /// Whether an attribute is the SDK's `website`, under whatever name.
    pub(super) fn is_website(&self, module: usize, meta: &Meta) -> bool {
        let Found::Other(path) = self.find(module, meta.path()) else { return false };
        let sdk = &self.packages[self.modules[module].package].manifest.sdk;
        match path.as_slice() {
            [name] => name == "website",
            [first, .., last] => last == "website" && (sdk.contains(first) || first == "agentenv_macros"),
            [] => false,
        }
    }

    /// The one constant of a name in a module, if its value is written there.
    pub(super) fn constant(&self, module: usize, name: &str) -> Option<&syn::Expr> {
        let mut named = self.modules[module].constants.iter().filter(|(own, _)| own == name);
        match (named.next(), named.next()) {
            (Some((_, Constant::Written(expression))), None) => Some(expression),
            _ => None,
        }
    }

    /// The type that an alias of the package stands for.
    pub(super) fn alias(&self, module: usize, name: &str) -> Option<&Type> {
        self.modules[module].aliases.iter().find(|(own, _)| own == name).map(|(_, ty)| ty)
    }
}
