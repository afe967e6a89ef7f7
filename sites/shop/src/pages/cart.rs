//! The cart.

use agentenv_sdk::{
    ErrorKind, Result,
    axum::{
        Form, Json,
        extract::State,
        http::{HeaderName, StatusCode, header::SET_COOKIE},
        response::{AppendHeaders, IntoResponse, Redirect, Response},
    },
    json,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, Site, Visitor, layout::message, money, visitor::guest_cookie};
use crate::{
    Shop,
    store::carts::{self, FREE_DELIVERY_CENTS, Line, MAX_QUANTITY},
};

#[derive(Deserialize)]
pub struct Change {
    product: String,
    #[serde(default = "one")]
    quantity: i64,
}

fn one() -> i64 {
    1
}

pub async fn show(State(shop): Site, visitor: Visitor) -> Result<Response> {
    let content = content(&shop, &visitor, "")?;
    Ok(Page::new(&shop, &visitor, "Your cart").show(content))
}

/// Adds to the cart: for a form the cart's page is next, for the page's script the new count.
pub async fn add(State(shop): Site, visitor: Visitor, Form(change): Form<Change>) -> Result<Response> {
    let done = shop.store.change(|connection| {
        let owner = match &visitor.owner {
            Some(owner) => owner.clone(),
            None => carts::guest(connection)?,
        };
        let product = carts::add(connection, &owner, &change.product, change.quantity)?;
        Ok((product, carts::count(connection, &owner)?, owner))
    });
    let (product, count, owner) = match done {
        Ok(done) => done,
        Err(error) if error.kind() == ErrorKind::Internal => return Err(error),
        Err(error) => return refused(&shop, &visitor, error.message()),
    };
    let cookie: Option<(HeaderName, String)> = guest_cookie(&owner).map(|cookie| (SET_COOKIE, cookie));
    let headers = AppendHeaders(cookie);
    if visitor.wants_json {
        let added = format!("Added {} to your cart.", product.name);
        return Ok((headers, Json(json!({"count": count, "message": added}))).into_response());
    }
    Ok((headers, Redirect::to("/cart")).into_response())
}

/// Sets the quantity of a line; 0 removes it.
pub async fn update(State(shop): Site, visitor: Visitor, Form(change): Form<Change>) -> Result<Response> {
    let Some(owner) = &visitor.owner else { return Ok(Redirect::to("/cart").into_response()) };
    match shop.store.change(|connection| carts::set(connection, owner, &change.product, change.quantity)) {
        Ok(_) => Ok(Redirect::to("/cart").into_response()),
        Err(error) if error.kind() == ErrorKind::Internal => Err(error),
        Err(error) => refused(&shop, &visitor, error.message()),
    }
}

fn refused(shop: &Shop, visitor: &Visitor, text: &str) -> Result<Response> {
    if visitor.wants_json {
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"message": text}))).into_response());
    }
    let content = content(shop, visitor, text)?;
    Ok(Page::new(shop, visitor, "Your cart").refuse(content))
}

fn content(shop: &Shop, visitor: &Visitor, wrong: &str) -> Result<Markup> {
    let lines = match &visitor.owner {
        Some(owner) => shop.store.read(|connection| carts::lines(connection, owner))?,
        None => Vec::new(),
    };
    Ok(html! {
        h1 { "Your cart" }
        (message("wrong", wrong))
        @if lines.is_empty() {
            p { "There is nothing in your cart yet." }
            p { a.button href="/shop" { "Go shopping" } }
        } @else {
            div.cart-page {
                table.lines {
                    thead {
                        tr {
                            th scope="col" { "Product" }
                            th scope="col" { "Price" }
                            th scope="col" { "Quantity" }
                            th scope="col" { "Total" }
                            th scope="col" { span.hidden { "Remove" } }
                        }
                    }
                    tbody { @for line in &lines { (row(line)) } }
                }
                (sums(&lines))
            }
        }
    })
}

fn row(line: &Line) -> Markup {
    let product = &line.product;
    let label = format!("Quantity of {}", product.name);
    let field = format!("quantity-{}", product.slug);
    html! {
        tr {
            th scope="row" {
                a href={ "/product/" (product.slug) } {
                    img src={ "/pictures/" (product.slug) ".svg" } alt="" width="72" height="72";
                    span { (product.name) }
                }
            }
            td data-label="Price" { (money(product.price_cents)) }
            td data-label="Quantity" {
                form.quantity method="post" action="/cart/update" data-submit-on-change {
                    input type="hidden" name="product" value=(product.slug);
                    label.hidden for=(field) { (label) }
                    input id=(field) type="number" name="quantity" value=(line.quantity) min="0"
                        max=(product.stock.min(MAX_QUANTITY));
                    button type="submit" { "Update" }
                }
            }
            td data-label="Total" { (money(line.total_cents())) }
            td {
                form method="post" action="/cart/update" {
                    input type="hidden" name="product" value=(product.slug);
                    input type="hidden" name="quantity" value="0";
                    button.link type="submit" aria-label={ "Remove " (product.name) } { "Remove" }
                }
            }
        }
    }
}

fn sums(lines: &[Line]) -> Markup {
    let goods: i64 = lines.iter().map(Line::total_cents).sum();
    let delivery = carts::delivery_cents(goods, false);
    html! {
        aside.sums aria-label="Summary" {
            h2 { "Summary" }
            (sum_rows(goods, delivery))
            @if delivery > 0 { p.fine { (money(FREE_DELIVERY_CENTS - goods)) " more and delivery is free." } }
            p { a.button href="/checkout" { "Go to checkout" } }
            p { a href="/shop" { "Continue shopping" } }
        }
    }
}

/// Goods, delivery and total as a list.
pub fn sum_rows(goods_cents: i64, delivery_cents: i64) -> Markup {
    html! {
        dl.rows {
            dt { "Goods" } dd { (money(goods_cents)) }
            dt { "Delivery" } dd { @if delivery_cents == 0 { "Free" } @else { (money(delivery_cents)) } }
            dt.total { "Total" } dd.total { (money(goods_cents + delivery_cents)) }
        }
    }
}
