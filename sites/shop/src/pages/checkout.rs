//! Ordering, and what was ordered.

use agentenv_sdk::{
    ErrorKind, ExposeSecret, Result,
    axum::{
        Form,
        extract::{Path, Query, State},
        response::{IntoResponse, Redirect, Response},
    },
};
use hmac::{Hmac, Mac};
use maud::{Markup, html};
use serde::Deserialize;
use sha2::Sha256;

use super::{Page, Site, Visitor, cart::sum_rows, layout::message, money};
use crate::{
    Shop,
    store::{
        carts::{self, Line, Owner},
        orders::{self, Checkout, Order},
    },
};

pub async fn form(State(shop): Site, visitor: Visitor) -> Result<Response> {
    let Some(account) = &visitor.account else { return Ok(Visitor::sign_in_first("/checkout")) };
    let filled = Checkout { name: account.name.clone(), address: account.address.clone(), ..Checkout::default() };
    match content(&shop, &account.username, &filled, "")? {
        Some(content) => Ok(Page::new(&shop, &visitor, "Checkout").show(content)),
        None => Ok(Redirect::to("/cart").into_response()),
    }
}

pub async fn place(State(shop): Site, visitor: Visitor, Form(filled): Form<Checkout>) -> Result<Response> {
    let Some(account) = &visitor.account else { return Ok(Visitor::sign_in_first("/checkout")) };
    match shop.store.change(|connection| orders::place(connection, &account.username, &filled)) {
        Ok(number) => Ok(Redirect::to(&format!("/orders/{number}?new=1")).into_response()),
        Err(error) if error.kind() == ErrorKind::Internal => Err(error),
        Err(error) => match content(&shop, &account.username, &filled, error.message())? {
            Some(content) => Ok(Page::new(&shop, &visitor, "Checkout").refuse(content)),
            // Ordered already, by a second click.
            None => Ok(Redirect::to("/orders").into_response()),
        },
    }
}

/// The form; nothing where the cart is empty.
fn content(shop: &Shop, user: &str, filled: &Checkout, wrong: &str) -> Result<Option<Markup>> {
    let lines = shop.store.read(|connection| carts::lines(connection, &Owner::User(user.to_owned())))?;
    if lines.is_empty() {
        return Ok(None);
    }
    let goods: i64 = lines.iter().map(Line::total_cents).sum();
    let express = filled.delivery == "express";
    let (standard_cents, express_cents) = (carts::delivery_cents(goods, false), carts::delivery_cents(goods, true));
    let standard_cost = if standard_cents == 0 { "free".to_owned() } else { money(standard_cents) };
    let standard_text = format!("Standard, 3 to 5 working days ({standard_cost})");
    let express_text = format!("Express, next working day ({})", money(express_cents));
    Ok(Some(html! {
        h1 { "Checkout" }
        (message("wrong", wrong))
        form.checkout method="post" action="/checkout" data-goods=(goods) {
            div {
                fieldset {
                    legend { "Delivery address" }
                    label for="name" { "Full name" }
                    input #name name="name" value=(filled.name) autocomplete="name" required;
                    label for="address" { "Address" }
                    textarea #address name="address" rows="3" autocomplete="street-address" required { (filled.address) }
                }
                fieldset {
                    legend { "Delivery" }
                    (radio("delivery", "standard", &standard_text, !express, Some(standard_cents)))
                    (radio("delivery", "express", &express_text, express, Some(express_cents)))
                }
                fieldset {
                    legend { "Payment" }
                    @let on_delivery = filled.payment == "on-delivery";
                    (radio("payment", "invoice", "Invoice, payable in 14 days", !on_delivery, None))
                    (radio("payment", "on-delivery", "Card on delivery", on_delivery, None))
                }
                label for="note" { "Note for us (optional)" }
                textarea #note name="note" rows="2" { (filled.note) }
            }
            aside.sums aria-label="Your order" {
                h2 { "Your order" }
                ul.short { @for line in &lines { li { span { (line.quantity) " × " (line.product.name) } span { (money(line.total_cents())) } } } }
                (sum_rows(goods, carts::delivery_cents(goods, express)))
                button.button type="submit" { "Place order" }
            }
        }
    }))
}

fn radio(name: &str, value: &str, text: &str, checked: bool, cents: Option<i64>) -> Markup {
    html! {
        label.radio { input type="radio" name=(name) value=(value) checked[checked] data-cents=[cents]; " " (text) }
    }
}

pub async fn history(State(shop): Site, visitor: Visitor) -> Result<Response> {
    let Some(account) = &visitor.account else { return Ok(Visitor::sign_in_first("/orders")) };
    let orders = shop.store.read(|connection| orders::of_user(connection, &account.username))?;
    Ok(Page::new(&shop, &visitor, "Your orders").show(html! {
        h1 { "Your orders" }
        @if orders.is_empty() {
            p { "You haven't ordered anything yet." }
            p { a.button href="/shop" { "Go shopping" } }
        } @else {
            table.orders {
                thead {
                    tr {
                        th scope="col" { "Order" }
                        th scope="col" { "Placed" }
                        th scope="col" { "Items" }
                        th scope="col" { "Total" }
                        th scope="col" { "Status" }
                    }
                }
                tbody {
                    @for order in &orders {
                        tr {
                            th scope="row" { a href={ "/orders/" (order.number) } { (order.number) } }
                            td data-label="Placed" { (day(order)) }
                            td data-label="Items" { (items(order)) }
                            td data-label="Total" { (money(order.total_cents)) }
                            td data-label="Status" { span.status { (order.status) } }
                        }
                    }
                }
            }
        }
    }))
}

#[derive(Deserialize)]
pub struct New {
    #[serde(default)]
    new: String,
}

pub async fn order(
    State(shop): Site,
    visitor: Visitor,
    Path(number): Path<String>,
    Query(new): Query<New>,
) -> Result<Response> {
    let Some(account) = &visitor.account else { return Ok(Visitor::sign_in_first(&format!("/orders/{number}"))) };
    let order = shop.store.read(|connection| orders::find(connection, &number))?;
    // Somebody else's order is as missing as none.
    let Some(order) = order.filter(|order| order.user == account.username) else {
        return Ok(Page::new(&shop, &visitor, "Order not found").missing(html! { p { "You have no such order." } }));
    };
    let title = format!("Order {}", order.number);
    Ok(Page::new(&shop, &visitor, &title).show(html! {
        @if !new.new.is_empty() {
            (message("done", &format!("Thank you, {}! We have your order and will pack it today.", account.first_name())))
        }
        h1 { "Order " span.number { (order.number) } }
        p.summary { "Placed on " (day(&order)) " · " span.status { (order.status) } }
        div.cart-page {
            table.lines {
                thead {
                    tr {
                        th scope="col" { "Product" }
                        th scope="col" { "Price" }
                        th scope="col" { "Quantity" }
                        th scope="col" { "Total" }
                    }
                }
                tbody {
                    @for item in &order.items {
                        tr {
                            th scope="row" {
                                a href={ "/product/" (item.product) } {
                                    img src={ "/pictures/" (item.product) ".svg" } alt="" width="72" height="72";
                                    span { (item.name) }
                                }
                            }
                            td data-label="Price" { (money(item.price_cents)) }
                            td data-label="Quantity" { (item.quantity) }
                            td data-label="Total" { (money(item.price_cents * item.quantity)) }
                        }
                    }
                }
            }
            aside.sums aria-label="Summary" {
                h2 { "Summary" }
                (sum_rows(order.total_cents - order.shipping_cents, order.shipping_cents))
                h3 { "Delivered to" }
                p.address { (order.recipient) br; (order.address) }
                h3 { "Payment" }
                p { @if order.payment == "invoice" { "Invoice, payable in 14 days" } @else { "Card on delivery" } }
                @if let Some(reference) = payment_reference(&shop, &order.number) {
                    p.fine { "Payment reference " (reference) }
                }
                @if !order.note.is_empty() { h3 { "Your note" } p { (order.note) } }
            }
        }
        p { a href="/orders" { "All your orders" } }
    }))
}

/// What the payment provider calls the order, where the shop has a key for it.
fn payment_reference(shop: &Shop, number: &str) -> Option<String> {
    let key = shop.settings.payment_key.as_ref()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose_secret().as_bytes()).ok()?;
    mac.update(number.as_bytes());
    Some(hex::encode_upper(&mac.finalize().into_bytes()[..5]))
}

fn day(order: &Order) -> &str {
    order.placed_at.split('T').next().unwrap_or_default()
}

fn items(order: &Order) -> String {
    let names: Vec<String> = order.items.iter().map(|item| format!("{} × {}", item.quantity, item.name)).collect();
    names.join(", ")
}
