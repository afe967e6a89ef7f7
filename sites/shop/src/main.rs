//! `shop.test`: a shop for the kitchen table. Catalogue, search, cart, checkout, accounts, orders.
//!
//! Its pages work with and without JavaScript. Its data is described in [`store::data`].

mod pages;
mod pictures;
mod store;

use std::{path::Path, process::ExitCode, sync::Arc};

use agentenv_sdk::{
    Error, Result, SecretString, Settings, SignIn, Value, Website, axum::Router, from_data, website, website_methods,
};

use crate::store::{Store, accounts, data};

/// What a deploy can choose.
#[derive(Settings)]
struct ShopSettings {
    /// The shop's name, on every page.
    #[setting(default = "Kiln & Kettle")]
    title: String,
    /// The key of the payment provider: it makes the payment reference on each order's page.
    payment_key: Option<SecretString>,
}

/// The shop of one deploy.
#[website(domains = ["shop.test", "www.shop.test"])]
struct Shop {
    settings: ShopSettings,
    store: Store,
}

#[website_methods]
impl Website for Shop {
    fn open(settings: ShopSettings, data_dir: &Path) -> Result<Self> {
        Ok(Self { settings, store: Store::open(data_dir)? })
    }

    fn load(&self, data: Value) -> Result<()> {
        if !data.is_object() {
            return Err(Error::bad_request("the data is not an object").hint("{users?, products?, orders?}"));
        }
        let load: data::Load = from_data(data)?;
        self.store.change(|connection| data::load(connection, load))
    }

    fn get(&self, selector: Option<Value>) -> Result<Value> {
        self.store.read(|connection| data::get(connection, selector.as_ref()))
    }

    fn reset(&self) -> Result<()> {
        self.store.restore()
    }

    fn ready(&self) -> Result<()> {
        self.store.read(|connection| accounts::list(connection).map(drop))
    }

    fn pages(self: Arc<Self>) -> Router {
        pages::router(self)
    }

    fn sign_in(&self, user: Option<String>) -> Result<SignIn> {
        let hint = "load it: {\"users\": [{\"username\": \"ada\", \"password\": \"...\", \"name\": \"Ada Lovelace\"}]}";
        let Some(user) = user else {
            return Err(Error::bad_request("the shop has no default user").hint("say which user to sign in"));
        };
        match self.store.read(|connection| accounts::find(connection, &user))? {
            Some(account) => Ok(SignIn::new(&user).verify("/account", account.name)),
            None => Err(Error::not_found(format!("the shop has no user “{user}”")).hint(hint)),
        }
    }
}

fn main() -> ExitCode {
    agentenv_sdk::serve::<Shop>()
}

#[cfg(test)]
mod tests;
