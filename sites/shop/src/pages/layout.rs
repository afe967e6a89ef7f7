//! What every page has around it.

use agentenv_sdk::axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

use super::Visitor;
use crate::{Shop, store::catalogue};

pub struct Page<'a> {
    shop: &'a Shop,
    visitor: &'a Visitor,
    title: &'a str,
    query: &'a str,
    category: &'a str,
}

impl<'a> Page<'a> {
    pub fn new(shop: &'a Shop, visitor: &'a Visitor, title: &'a str) -> Self {
        Self { shop, visitor, title, query: "", category: "" }
    }

    /// Marks the category that is open.
    pub fn within(self, category: &'a str) -> Self {
        Self { category, ..self }
    }

    /// Keeps what was searched for in the field.
    pub fn searching(self, query: &'a str) -> Self {
        Self { query, ..self }
    }

    pub fn show(&self, content: Markup) -> Response {
        self.answer(StatusCode::OK, content)
    }

    /// A form that has to be filled in again.
    pub fn refuse(&self, content: Markup) -> Response {
        self.answer(StatusCode::UNPROCESSABLE_ENTITY, content)
    }

    pub fn missing(&self, content: Markup) -> Response {
        let content = html! {
            article.prose.missing {
                h1 { "We can't find that" }
                (content)
                p { a.button href="/shop" { "See everything we have" } }
            }
        };
        self.answer(StatusCode::NOT_FOUND, content)
    }

    fn answer(&self, status: StatusCode, content: Markup) -> Response {
        let categories = self.shop.store.read(catalogue::categories).unwrap_or_default();
        let shop_title = &self.shop.settings.title;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) " · " (shop_title) }
                    link rel="icon" href="/favicon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="/assets/style.css";
                    script src="/assets/shop.js" type="module" {}
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    p.notice { "Free standard delivery from $60 · 30 days to return" }
                    (self.header(shop_title))
                    nav.categories aria-label="Categories" {
                        a href="/shop" aria-current=[(self.category == "all").then_some("page")] { "Everything" }
                        @for category in &categories {
                            a href={ "/category/" (category.slug) }
                                aria-current=[(self.category == category.slug).then_some("page")] { (category.name) }
                        }
                    }
                    main #content tabindex="-1" { (content) }
                    (footer(shop_title))
                    div.toast role="status" aria-live="polite" {}
                }
            }
        };
        (status, [("cache-control", "no-store")], page).into_response()
    }

    fn header(&self, shop_title: &str) -> Markup {
        let count = self.visitor.cart_count;
        html! {
            header.top {
                a.brand href="/" {
                    svg viewBox="0 0 40 40" width="34" height="34" aria-hidden="true" {
                        path d="M8 14h18v12a7 7 0 0 1-7 7h-4a7 7 0 0 1-7-7z" fill="currentColor" {}
                        path d="M26 17c8-1 8 10-1 10" fill="none" stroke="currentColor" stroke-width="3" {}
                        path d="M13 10c-3-3 2-4 0-7M20 10c-3-3 2-4 0-7" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" {}
                    }
                    span { (shop_title) }
                }
                form.search role="search" action="/search" {
                    label.hidden for="search" { "Search the shop" }
                    input #search type="search" name="q" value=(self.query) placeholder="Search for mugs, tea, linen…";
                    button type="submit" { "Search" }
                }
                nav.you aria-label="Your account" {
                    @if let Some(account) = &self.visitor.account {
                        a href="/account" { "Hello, " (account.first_name()) }
                        a href="/orders" { "Orders" }
                    } @else {
                        a href="/sign-in" { "Sign in" }
                        a href="/register" { "Create account" }
                    }
                    a.cart href="/cart" {
                        "Cart "
                        span.count data-count aria-label={ (count) " in the cart" } { (count) }
                    }
                }
            }
        }
    }
}

fn footer(shop_title: &str) -> Markup {
    html! {
        footer.bottom {
            div {
                strong { (shop_title) }
                p { "Harbour Row 4, Falmouth" br; "Open from nine to five" }
            }
            nav aria-label="Service" {
                a href="/delivery" { "Delivery & returns" }
                a href="/about" { "About us" }
                a href="/orders" { "Your orders" }
            }
            p.fine { "Prices include tax. Made by hand, so expect small differences." }
        }
    }
}

/// A message above a form: what was wrong, or what was done.
pub fn message(kind: &str, text: &str) -> Markup {
    html! {
        @if !text.is_empty() {
            p.message.(kind) role=(if kind == "wrong" { "alert" } else { "status" }) { (text) }
        }
    }
}
