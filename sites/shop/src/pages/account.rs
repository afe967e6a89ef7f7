//! Signing in and out, and the account.

use agentenv_sdk::{
    Error, ErrorKind, Result,
    axum::{
        Form,
        extract::{Query, State},
        response::{IntoResponse, Redirect, Response},
    },
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, Site, Visitor, layout::message};
use crate::{
    Shop,
    store::{
        accounts::{self, Account},
        carts::{self, Owner},
    },
};

/// The shortest password that the registration takes.
const MIN_PASSWORD_LEN: usize = 6;

#[derive(Default, Deserialize)]
pub struct Next {
    /// Where to go once signed in.
    #[serde(default)]
    next: String,
}

impl Next {
    /// A path of this shop; `//x` and `/\x` are other hosts to a browser.
    fn path(&self) -> &str {
        let own = self.next.starts_with('/') && !self.next[1..].starts_with(['/', '\\']);
        let clean = self.next.bytes().all(|b| b.is_ascii_graphic());
        if own && clean { &self.next } else { "/account" }
    }
}

#[derive(Default, Deserialize)]
pub struct SignInForm {
    username: String,
    password: String,
    #[serde(default)]
    next: String,
}

pub async fn sign_in_form(State(shop): Site, visitor: Visitor, Query(next): Query<Next>) -> Response {
    let filled = SignInForm { next: next.next, ..SignInForm::default() };
    Page::new(&shop, &visitor, "Sign in").show(sign_in_content(&filled, ""))
}

pub async fn sign_in(State(shop): Site, visitor: Visitor, Form(mut filled): Form<SignInForm>) -> Result<Response> {
    filled.username = filled.username.trim().to_lowercase();
    let matches = shop.store.read(|connection| accounts::check(connection, &filled.username, &filled.password))?;
    if !matches {
        let content = sign_in_content(&filled, "This username and password don't match an account.");
        return Ok(Page::new(&shop, &visitor, "Sign in").refuse(content));
    }
    enter(&shop, &visitor, &filled.username, &Next { next: filled.next })
}

fn sign_in_content(filled: &SignInForm, wrong: &str) -> Markup {
    html! {
        div.narrow {
            h1 { "Sign in" }
            (message("wrong", wrong))
            form method="post" action="/sign-in" {
                input type="hidden" name="next" value=(filled.next);
                label for="username" { "Username" }
                input #username name="username" value=(filled.username) autocomplete="username" autocapitalize="none" required;
                label for="password" { "Password" }
                input #password type="password" name="password" autocomplete="current-password" required;
                button.button type="submit" { "Sign in" }
            }
            p { "New here? " a href="/register" { "Create an account" } }
        }
    }
}

/// Signs in and takes the guest's cart along.
fn enter(shop: &Shop, visitor: &Visitor, username: &str, next: &Next) -> Result<Response> {
    if let Some(guest) = &visitor.guest {
        shop.store.change(|connection| carts::merge(connection, guest, &Owner::User(username.to_owned())))?;
    }
    Ok((visitor.session.sign_in(username), Redirect::to(next.path())).into_response())
}

pub async fn sign_out(visitor: Visitor) -> Response {
    (visitor.session.sign_out(), Redirect::to("/")).into_response()
}

#[derive(Default, Deserialize)]
pub struct RegisterForm {
    name: String,
    username: String,
    password: String,
    #[serde(default)]
    address: String,
}

pub async fn register_form(State(shop): Site, visitor: Visitor) -> Response {
    Page::new(&shop, &visitor, "Create account").show(register_content(&RegisterForm::default(), ""))
}

pub async fn register(State(shop): Site, visitor: Visitor, Form(mut filled): Form<RegisterForm>) -> Result<Response> {
    filled.username = filled.username.trim().to_lowercase();
    let account =
        Account { username: filled.username.clone(), name: filled.name.clone(), address: filled.address.clone() };
    let done = if filled.password.chars().count() < MIN_PASSWORD_LEN {
        Err(Error::bad_request(format!("the password needs at least {MIN_PASSWORD_LEN} characters")))
    } else {
        shop.store.change(|connection| accounts::register(connection, &account, &filled.password))
    };
    match done {
        Ok(()) => enter(&shop, &visitor, &filled.username, &Next::default()),
        Err(error) if error.kind() == ErrorKind::Internal => Err(error),
        Err(error) => {
            let wrong = format!("That didn't work: {error}.");
            Ok(Page::new(&shop, &visitor, "Create account").refuse(register_content(&filled, &wrong)))
        }
    }
}

fn register_content(filled: &RegisterForm, wrong: &str) -> Markup {
    html! {
        div.narrow {
            h1 { "Create account" }
            (message("wrong", wrong))
            form method="post" action="/register" {
                label for="name" { "Full name" }
                input #name name="name" value=(filled.name) autocomplete="name" required;
                label for="username" { "Username" }
                input #username name="username" value=(filled.username) autocomplete="username" autocapitalize="none" required;
                label for="password" { "Password" }
                input #password type="password" name="password" autocomplete="new-password" minlength=(MIN_PASSWORD_LEN) required;
                label for="address" { "Address (optional)" }
                textarea #address name="address" rows="3" autocomplete="street-address" { (filled.address) }
                button.button type="submit" { "Create account" }
            }
            p { "Already a customer? " a href="/sign-in" { "Sign in" } }
        }
    }
}

pub async fn show(State(shop): Site, visitor: Visitor) -> Response {
    match &visitor.account {
        Some(account) => Page::new(&shop, &visitor, "Your account").show(account_content(account, "", "")),
        None => Visitor::sign_in_first("/account"),
    }
}

#[derive(Deserialize)]
pub struct UpdateForm {
    name: String,
    #[serde(default)]
    address: String,
}

pub async fn update(State(shop): Site, visitor: Visitor, Form(filled): Form<UpdateForm>) -> Result<Response> {
    let Some(account) = &visitor.account else { return Ok(Visitor::sign_in_first("/account")) };
    let changed = Account { username: account.username.clone(), name: filled.name, address: filled.address };
    let page = Page::new(&shop, &visitor, "Your account");
    match shop.store.change(|connection| accounts::update(connection, &changed)) {
        Ok(()) => Ok(page.show(account_content(&changed, "done", "Saved."))),
        Err(error) if error.kind() == ErrorKind::Internal => Err(error),
        Err(error) => Ok(page.refuse(account_content(&changed, "wrong", error.message()))),
    }
}

fn account_content(account: &Account, kind: &str, text: &str) -> Markup {
    html! {
        div.narrow {
            h1 { "Your account" }
            p.summary { "Signed in as " strong { (account.name) } }
            (message(kind, text))
            form method="post" action="/account" {
                label for="name" { "Full name" }
                input #name name="name" value=(account.name) autocomplete="name" required;
                label for="address" { "Address" }
                textarea #address name="address" rows="3" autocomplete="street-address" { (account.address) }
                button.button type="submit" { "Save changes" }
            }
            p { a href="/orders" { "Your orders" } }
            form method="post" action="/sign-out" { button.link type="submit" { "Sign out" } }
        }
    }
}
