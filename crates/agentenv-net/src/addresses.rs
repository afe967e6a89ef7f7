//! An address of its own for every name (NET-1).
//!
//! With one address for all names a browser coalesces HTTP/2 connections: it takes a connection to one name for another
//! name that the certificate covers. Distinct addresses, one name a leaf and 421 each prevent it; this is the first.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentenv_protocol::HostName;

use crate::{SiteTable, limits::WILDCARD_NAMES};

/// Which name has which address, fixed for the life of the deploy.
#[derive(Debug)]
pub struct AddressBook {
    base: u32,
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: Vec<HostName>,
    places: HashMap<HostName, u32>,
}

impl AddressBook {
    /// The network that the addresses are from: public for Chromium's Local Network Access, routed nowhere (RFC 2544).
    pub const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);

    /// Assigns addresses of [`Self::NETWORK`] to the table's exact names, in their order.
    pub fn new(table: &SiteTable) -> Self {
        Self::within(table, Self::NETWORK.0)
    }

    /// The same in another network, such as `127.18.0.0` where nothing else can be made local.
    pub fn within(table: &SiteTable, base: Ipv4Addr) -> Self {
        let book = Self {
            base: base.into(),
            limit: table.exact_names().len() + WILDCARD_NAMES,
            state: Mutex::new(State::default()),
        };
        for name in table.exact_names() {
            book.address_of(name);
        }
        book
    }

    /// The address of a name that the table covers; assigns one to a name that has none yet. `None` when wildcards have
    /// used up theirs.
    pub fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let mut state = self.state();
        if let Some(place) = state.places.get(name) {
            return Some(self.at(*place));
        }
        if state.names.len() >= self.limit {
            return None;
        }
        // Numbers start at 1: the network's own address is nobody's.
        let place = u32::try_from(state.names.len()).ok()? + 1;
        state.names.push(name.clone());
        state.places.insert(name.clone(), place);
        Some(self.at(place))
    }

    /// The name that has an address.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        let place = u32::from(address).checked_sub(self.base)?.checked_sub(1)?;
        self.state().names.get(usize::try_from(place).ok()?).cloned()
    }

    fn at(&self, place: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.base + place)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way; a poisoned lock still holds a whole state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use agentenv_protocol::{HostPattern, Name, control::SiteTableEntry};

    use super::*;

    fn book() -> AddressBook {
        AddressBook::new(&SiteTable::new(["b.test", "a.test", "*.w.test"].map(|pattern| SiteTableEntry {
            pattern: HostPattern::parse(pattern).unwrap(),
            website: Name::parse("site").unwrap(),
        })))
    }

    #[test]
    fn every_name_has_its_own_address_in_the_tables_order() {
        let book = book();
        let name = |text: &str| HostName::parse(text).unwrap();
        for (text, address) in [("a.test", [198, 18, 0, 2]), ("b.test", [198, 18, 0, 1]), ("x.w.test", [198, 18, 0, 3])]
        {
            assert_eq!(book.address_of(&name(text)), Some(address.into()));
            assert_eq!(book.name_of(address.into()), Some(name(text)));
        }
        assert_eq!(book.address_of(&name("x.w.test")), Some([198, 18, 0, 3].into()));
        for address in [[198, 18, 0, 0], [198, 18, 0, 4], [127, 0, 0, 1], [255, 255, 255, 255]] {
            assert_eq!(book.name_of(address.into()), None);
        }
    }

    #[test]
    fn names_under_wildcards_are_bounded_and_stay_in_the_network() {
        let book = book();
        let mut given = 0;
        while let Some(address) = book.address_of(&HostName::parse(&format!("n{given}.w.test")).unwrap()) {
            assert_eq!(u32::from(address) & !0x1_ffff, u32::from(AddressBook::NETWORK.0));
            given += 1;
        }
        assert_eq!(given, WILDCARD_NAMES);
        assert!(book.address_of(&HostName::parse("a.test").unwrap()).is_some());
    }
}
