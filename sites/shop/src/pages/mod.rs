//! The shop's pages.

mod account;
mod cart;
mod catalogue;
mod checkout;
mod layout;
mod visitor;

use std::sync::Arc;

use agentenv_sdk::{
    Error, Result,
    axum::{
        Router,
        extract::{Path, State},
        response::{IntoResponse, Response},
        routing::{get, post},
    },
};
use maud::html;

use self::{layout::Page, visitor::Visitor};
use crate::{Shop, pictures, store};

type Site = State<Arc<Shop>>;

pub fn router(shop: Arc<Shop>) -> Router {
    Router::new()
        .route("/", get(catalogue::home))
        .route("/shop", get(catalogue::all))
        .route("/search", get(catalogue::search))
        .route("/category/{slug}", get(catalogue::category))
        .route("/product/{slug}", get(catalogue::product))
        .route("/cart", get(cart::show).post(cart::add))
        .route("/cart/update", post(cart::update))
        .route("/checkout", get(checkout::form).post(checkout::place))
        .route("/orders", get(checkout::history))
        .route("/orders/{number}", get(checkout::order))
        .route("/sign-in", get(account::sign_in_form).post(account::sign_in))
        .route("/sign-out", post(account::sign_out))
        .route("/register", get(account::register_form).post(account::register))
        .route("/account", get(account::show).post(account::update))
        .route("/delivery", get(delivery))
        .route("/about", get(about))
        .route("/pictures/{file}", get(picture))
        .route("/assets/style.css", get(style))
        .route("/assets/shop.js", get(script))
        .route("/favicon.ico", get(icon))
        .route("/favicon.svg", get(icon))
        .fallback(missing)
        .with_state(shop)
}

async fn picture(State(shop): Site, Path(file): Path<String>) -> Result<Response> {
    let slug = file.strip_suffix(".svg").unwrap_or_default();
    let product = shop.store.read(|connection| store::catalogue::find(connection, slug))?;
    let product = product.ok_or_else(|| Error::not_found("There is no such picture."))?;
    Ok(svg(pictures::draw(&product)))
}

async fn icon() -> Response {
    svg(include_str!("../../assets/favicon.svg"))
}

fn svg(text: impl IntoResponse) -> Response {
    ([("content-type", "image/svg+xml"), ("cache-control", "max-age=3600")], text).into_response()
}

async fn style() -> Response {
    ([("content-type", "text/css; charset=utf-8")], include_str!("../../assets/style.css")).into_response()
}

async fn script() -> Response {
    ([("content-type", "text/javascript; charset=utf-8")], include_str!("../../assets/shop.js")).into_response()
}

async fn delivery(State(shop): Site, visitor: Visitor) -> Response {
    Page::new(&shop, &visitor, "Delivery & returns").show(html! {
        article.prose {
            h1 { "Delivery & returns" }
            p { "We pack in paper and straw, and we send every working day before three." }
            table.facts {
                thead { tr { th scope="col" { "Delivery" } th scope="col" { "Time" } th scope="col" { "Cost" } } }
                tbody {
                    tr { td { "Standard" } td { "3 to 5 working days" } td { "$4.90, free from $60" } }
                    tr { td { "Express" } td { "Next working day" } td { "$12.00" } }
                }
            }
            h2 { "Returns" }
            p { "Thirty days, no questions. If something arrives broken, send us a picture and keep the pieces: they make good drainage." }
        }
    })
}

async fn about(State(shop): Site, visitor: Visitor) -> Response {
    Page::new(&shop, &visitor, "About us").show(html! {
        article.prose {
            h1 { "About us" }
            p { "We began in 2011 with one kiln, one kettle and a market stall by the harbour. Today we are nine people, four potters and a very old van." }
            p { "Everything that we sell stands on our own tables. If we stop using something, we stop selling it." }
            h2 { "Write to us" }
            p { "Harbour Row 4, Falmouth. The door is open from nine to five, and the kettle is on." }
        }
    })
}

async fn missing(State(shop): Site, visitor: Visitor) -> Response {
    Page::new(&shop, &visitor, "Page not found").missing(html! {
        p { "We looked on every shelf." }
    })
}

/// An amount as people read it.
fn money(cents: i64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}
