//! Who looks at a page, and what is in their cart.

use std::sync::Arc;

use agentenv_sdk::{
    Error, Result, Session,
    axum::{
        extract::FromRequestParts,
        http::{HeaderMap, header, request::Parts},
        response::{IntoResponse, Redirect, Response},
    },
};

use crate::{
    Shop,
    store::{
        accounts::{self, Account},
        carts::{self, Owner},
    },
};

const GUEST_COOKIE: &str = "shop_cart";

pub struct Visitor {
    pub session: Session,
    pub account: Option<Account>,
    /// Of the account, or of a guest who has put something into a cart.
    pub owner: Option<Owner>,
    /// A guest's cart, also once they have signed in.
    pub guest: Option<Owner>,
    pub cart_count: i64,
    /// Whether the page's own script asks, and not a person.
    pub wants_json: bool,
}

impl FromRequestParts<Arc<Shop>> for Visitor {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shop: &Arc<Shop>) -> Result<Self> {
        let session = Session::from_request_parts(parts, shop).await?;
        let guest = guest(&parts.headers);
        let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let wants_json = accept.is_some_and(|accept| accept.starts_with("application/json"));
        shop.store.read(|connection| {
            let account = match session.user() {
                Some(user) => accounts::find(connection, user)?,
                None => None,
            };
            let owner = account.as_ref().map(|account| Owner::User(account.username.clone())).or(guest.clone());
            let cart_count = match &owner {
                Some(owner) => carts::count(connection, owner)?,
                None => 0,
            };
            Ok(Self { session, account, owner, guest, cart_count, wants_json })
        })
    }
}

impl Visitor {
    /// The way to the sign-in page and back here.
    pub fn sign_in_first(here: &str) -> Response {
        Redirect::to(&format!("/sign-in?next={here}")).into_response()
    }
}

/// The cookie of a guest's cart.
pub fn guest_cookie(owner: &Owner) -> Option<String> {
    match owner {
        Owner::Guest(token) => Some(format!("{GUEST_COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax")),
        Owner::User(_) => None,
    }
}

fn guest(headers: &HeaderMap) -> Option<Owner> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let token = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == GUEST_COOKIE)
        .map(|(_, token)| token)?;
    let ours = token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit());
    ours.then(|| Owner::Guest(token.to_owned()))
}
