//! Looking at what there is.

use agentenv_sdk::{
    Result,
    axum::{
        extract::{Path, Query, State},
        response::Response,
    },
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, Site, Visitor, money};
use crate::store::{
    carts::MAX_QUANTITY,
    catalogue::{self, Product, Sort},
};

#[derive(Default, Deserialize)]
pub struct Look {
    #[serde(default)]
    q: String,
    #[serde(default)]
    sort: Sort,
}

pub async fn home(State(shop): Site, visitor: Visitor) -> Result<Response> {
    let (categories, products) = shop.store.read(|connection| {
        Ok((catalogue::categories(connection)?, catalogue::list(connection, None, Sort::Featured)?))
    })?;
    let first_of = |slug: &str| products.iter().find(|product| product.category == slug);
    let favourites = ["harbour-mug", "iris-teapot", "pour-over-set", "ramen-bowl"];
    let favourites = favourites.iter().filter_map(|slug| products.iter().find(|product| product.slug == *slug));
    Ok(Page::new(&shop, &visitor, "Things for the kitchen table").show(html! {
        section.hero {
            div {
                p.eyebrow { "The autumn firing is here" }
                h1 { "Things you reach for every morning." }
                p { "Mugs, teapots and bowls from small kilns, and what belongs inside them." }
                p { a.button href="/category/mugs" { "Shop mugs" } " " a.button.quiet href="/shop" { "See everything" } }
            }
            div.hero-picture {
                img src="/pictures/harbour-mug.svg" alt="Harbour Mug, blue over cream" width="400" height="400";
                img src="/pictures/iris-teapot.svg" alt="Iris Teapot" width="400" height="400";
                img src="/pictures/moss-mug.svg" alt="Moss Drip Mug" width="400" height="400";
            }
        }
        section aria-labelledby="by-category" {
            h2 #by-category { "Shop by category" }
            ul.tiles {
                @for category in &categories {
                    li {
                        a href={ "/category/" (category.slug) } {
                            @if let Some(product) = first_of(&category.slug) {
                                img src={ "/pictures/" (product.slug) ".svg" } alt="" width="120" height="120";
                            }
                            span { strong { (category.name) } span { (category.blurb) } }
                        }
                    }
                }
            }
        }
        section aria-labelledby="favourites" {
            h2 #favourites { "Favourites this week" }
            (grid(favourites))
        }
    }))
}

pub async fn all(State(shop): Site, visitor: Visitor, Query(look): Query<Look>) -> Result<Response> {
    let products = shop.store.read(|connection| catalogue::list(connection, None, look.sort))?;
    let page = Page::new(&shop, &visitor, "Everything").within("all");
    Ok(page.show(html! {
        div.heading { h1 { "Everything" } p { (products.len()) " products" } (sorting("/shop", "", look.sort)) }
        (grid(products.iter()))
    }))
}

pub async fn category(
    State(shop): Site,
    visitor: Visitor,
    Path(slug): Path<String>,
    Query(look): Query<Look>,
) -> Result<Response> {
    let (category, products) = shop.store.read(|connection| {
        Ok((catalogue::category(connection, &slug)?, catalogue::list(connection, Some(&slug), look.sort)?))
    })?;
    let Some(category) = category else {
        return Ok(Page::new(&shop, &visitor, "Page not found").missing(html! { p { "There is no such category." } }));
    };
    let page = Page::new(&shop, &visitor, &category.name).within(&slug);
    Ok(page.show(html! {
        div.heading {
            h1 { (category.name) }
            p { (category.blurb) }
            (sorting(&format!("/category/{slug}"), "", look.sort))
        }
        (grid(products.iter()))
    }))
}

pub async fn search(State(shop): Site, visitor: Visitor, Query(look): Query<Look>) -> Result<Response> {
    let query = look.q.trim();
    let found = shop.store.read(|connection| catalogue::search(connection, query, look.sort))?;
    let page = Page::new(&shop, &visitor, "Search").searching(query);
    Ok(page.show(html! {
        div.heading {
            h1 { @if query.is_empty() { "Search" } @else { "Results for “" (query) "”" } }
            p role="status" {
                @match (query.is_empty(), found.len()) {
                    (true, _) => { "Type what you are looking for into the field above." }
                    (_, 0) => { "Nothing found. Try a shorter word, or look through " a href="/shop" { "everything" } "." }
                    (_, 1) => { "1 product" }
                    (_, count) => { (count) " products" }
                }
            }
            @if found.len() > 1 { (sorting("/search", query, look.sort)) }
        }
        (grid(found.iter()))
    }))
}

pub async fn product(State(shop): Site, visitor: Visitor, Path(slug): Path<String>) -> Result<Response> {
    let found = shop.store.read(|connection| {
        let Some(product) = catalogue::find(connection, &slug)? else { return Ok(None) };
        let others = catalogue::list(connection, Some(&product.category), Sort::Featured)?;
        Ok(Some((catalogue::category(connection, &product.category)?, product, others)))
    })?;
    let Some((category, product, others)) = found else {
        return Ok(Page::new(&shop, &visitor, "Page not found").missing(html! { p { "We don't sell that." } }));
    };
    let category_name = category.map_or_else(String::new, |category| category.name);
    let page = Page::new(&shop, &visitor, &product.name).within(&product.category);
    Ok(page.show(html! {
        nav.crumbs aria-label="Breadcrumb" {
            ol {
                li { a href="/" { "Home" } }
                li { a href={ "/category/" (product.category) } { (category_name) } }
                li aria-current="page" { (product.name) }
            }
        }
        article.product {
            img src={ "/pictures/" (product.slug) ".svg" } alt={ "Picture of " (product.name) } width="400" height="400";
            div {
                h1 { (product.name) }
                p.summary { (product.summary) }
                p.price { (money(product.price_cents)) }
                p.stock.out[product.stock == 0] { (availability(&product)) }
                @if product.stock > 0 { (add_form(&product)) }
                div.prose { h2 { "Details" } p { (product.description) } }
                dl.facts {
                    dt { "Article" } dd { (product.slug) }
                    dt { "Delivery" } dd { "3 to 5 working days, or the next one by express" }
                }
            }
        }
        @let others: Vec<_> = others.iter().filter(|other| other.slug != product.slug).take(4).collect();
        @if !others.is_empty() {
            section aria-labelledby="others" { h2 #others { "Goes well with it" } (grid(others.into_iter())) }
        }
    }))
}

fn availability(product: &Product) -> String {
    match product.stock {
        0 => "Sold out. It will be back with the next firing.".to_owned(),
        1..=9 => format!("Only {} left", product.stock),
        _ => "In stock".to_owned(),
    }
}

fn add_form(product: &Product) -> Markup {
    html! {
        form.add method="post" action="/cart" data-add {
            input type="hidden" name="product" value=(product.slug);
            label for="quantity" { "Quantity" }
            input #quantity type="number" name="quantity" value="1" min="1" max=(product.stock.min(MAX_QUANTITY));
            button.button type="submit" { "Add to cart" }
        }
    }
}

fn grid<'a>(products: impl Iterator<Item = &'a Product>) -> Markup {
    html! {
        ul.grid {
            @for product in products {
                li.card {
                    a href={ "/product/" (product.slug) } {
                        img src={ "/pictures/" (product.slug) ".svg" } alt="" width="400" height="400" loading="lazy";
                        h3 { (product.name) }
                    }
                    p.summary { (product.summary) }
                    div.buy {
                        span.price { (money(product.price_cents)) }
                        @if product.stock > 0 {
                            form method="post" action="/cart" data-add {
                                input type="hidden" name="product" value=(product.slug);
                                button type="submit" aria-label={ "Add " (product.name) " to cart" } { "Add to cart" }
                            }
                        } @else {
                            span.sold-out { "Sold out" }
                        }
                    }
                }
            }
        }
    }
}

fn sorting(action: &str, query: &str, sort: Sort) -> Markup {
    html! {
        form.sorting action=(action) data-submit-on-change {
            @if !query.is_empty() { input type="hidden" name="q" value=(query); }
            label for="sort" { "Sort by" }
            select #sort name="sort" {
                @for (each, key, name) in Sort::ALL { option value=(key) selected[each == sort] { (name) } }
            }
            button type="submit" { "Sort" }
        }
    }
}
