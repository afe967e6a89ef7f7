//! The shop, called the way a browser and a deploy call it.

mod harness;

use std::time::{Duration, Instant};

use agentenv_sdk::{Value, axum::http::StatusCode, json};

use self::harness::{Browser, Deploy};

const ADDRESS: [(&str, &str); 2] = [("name", "Ada Lovelace"), ("address", "12 St James Square")];

#[tokio::test]
async fn every_link_of_the_shop_leads_somewhere() {
    let deploy = Deploy::with_users().await;
    let browser = deploy.signed_in("ada").await;
    let (mut seen, mut next) = (vec!["/".to_owned()], vec!["/".to_owned()]);
    while let Some(path) = next.pop() {
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        for attribute in ["href=\"/", "src=\"/", "action=\"/"] {
            for part in page.text.split(attribute).skip(1) {
                let link = format!("/{}", part.split(['"', '#']).next().unwrap());
                if !seen.contains(&link) && !["/cart/update", "/sign-out"].contains(&link.as_str()) {
                    seen.push(link.clone());
                    next.push(link);
                }
            }
        }
    }
    let products = seen.iter().filter(|path| path.starts_with("/product/")).count();
    let pictures = seen.iter().filter(|path| path.starts_with("/pictures/")).count();
    assert!(products >= 24 && pictures == products, "{products} products, {pictures} pictures");
    assert_eq!(browser.get("/product/nothing").await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get("/nowhere").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn search_finds_by_every_word() {
    let deploy = Deploy::new(json!({})).await;
    let browser = deploy.browser();
    for (query, found, missing) in [
        ("mugs", "Harbour Mug", "Ramen Bowl"),
        ("speckled%20mug", "Speckled Stoneware Mug", "Harbour Mug"),
        ("LINEN", "Linen Tea Towel", "French Press"),
        ("glass%20press", "French Press", "Pour-Over Set"),
    ] {
        let text = browser.get(&format!("/search?q={query}")).await.text;
        let (found, missing) = (format!("<h3>{found}</h3>"), format!("<h3>{missing}</h3>"));
        assert!(text.contains(&found) && !text.contains(&missing), "{query}");
    }
    assert!(browser.get("/search?q=submarine").await.text.contains("Nothing found"));
    let sorted = browser.get("/category/mugs?sort=price-up").await.text;
    assert!(sorted.find("Campfire").unwrap() < sorted.find("Moss Drip").unwrap());
    let attack = browser.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E%22").await.text;
    assert!(!attack.contains("<script>alert") && attack.contains("&lt;script&gt;"));
}

#[tokio::test]
async fn a_new_customer_registers_buys_and_finds_the_order() {
    let deploy = Deploy::new(json!({})).await;
    let browser = deploy.browser();
    let cart = browser.post("/cart", &[("product", "harbour-mug"), ("quantity", "2")]).await;
    assert!(cart.path == "/cart" && cart.text.contains("$37.00"), "{}", cart.path);
    assert_eq!(browser.get("/checkout").await.path, "/sign-in?next=/checkout");
    let fields = [("name", "Alan Turing"), ("username", "Alan"), ("password", "bombe1")];
    assert!(browser.post("/register", &fields).await.text.contains("Signed in as <strong>Alan Turing"));
    let checkout = browser.get("/checkout").await;
    assert!(checkout.path == "/checkout" && checkout.text.contains("2 × Harbour Mug"), "the guest's cart came along");
    let fields = [("name", "Alan Turing"), ("address", ""), ("delivery", "express")];
    let refused = browser.post("/checkout", &fields).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text.contains("value=\"express\" checked"), "what was filled in stays");
    let fields = [("name", "Alan Turing"), ("address", "Bletchley"), ("delivery", "express"), ("note", "At the gate")];
    let order = browser.post("/checkout", &fields).await;
    let number = order.path.strip_prefix("/orders/").unwrap().split('?').next().unwrap().to_owned();
    assert!(order.text.contains("Thank you, Alan!") && order.text.contains(&number), "{}", order.path);
    assert!(browser.get("/orders").await.text.contains(&number));
    assert_eq!(browser.post("/checkout", &fields).await.path, "/orders", "a second click orders nothing");

    let data = deploy.data(json!({"orders": {"user": "alan"}, "carts": {}, "users": {}})).await;
    let order = &data["orders"][0];
    assert_eq!(order["number"], json!(number));
    assert_eq!(
        order["items"][0],
        json!({"product": "harbour-mug", "name": "Harbour Mug", "price_cents": 1850, "quantity": 2})
    );
    assert_eq!((&order["shipping_cents"], &order["total_cents"]), (&json!(1200), &json!(4900)));
    assert_eq!(data["carts"], json!([]));
    assert_eq!(data["users"], json!([{"username": "alan", "name": "Alan Turing", "address": ""}]));
    let mug = deploy.data(json!({"products": {"slug": "harbour-mug"}})).await["products"][0]["stock"].clone();
    assert_eq!(mug, json!(40));
}

#[tokio::test]
async fn the_script_is_answered_in_json() {
    let deploy = Deploy::new(json!({})).await;
    let browser = Browser { json: true, ..deploy.browser() };
    let added: Value = serde_json::from_str(&browser.post("/cart", &[("product", "moss-mug")]).await.text).unwrap();
    assert_eq!(added, json!({"count": 1, "message": "Added Moss Drip Mug to your cart."}));
    for (product, quantity, part) in [
        ("fjord-cup", "1", "sold out"),
        ("moss-mug", "18", "only 18"),
        ("harbour-mug", "21", ""),
        ("nothing", "1", "don't sell"),
    ] {
        let page = browser.post("/cart", &[("product", product), ("quantity", quantity)]).await;
        assert!(page.text.contains(part), "{}", page.text);
    }
    let carts = deploy.data(json!({"carts": {"user": null}})).await;
    let items = json!([{"product": "moss-mug", "quantity": 1}, {"product": "harbour-mug", "quantity": 20}]);
    assert_eq!(carts, json!({"carts": [{"user": null, "items": items}]}));
}

#[tokio::test]
async fn a_cart_is_changed_without_a_script() {
    let deploy = Deploy::with_users().await;
    let browser = deploy.signed_in("grace").await;
    browser.post("/cart", &[("product", "harbour-mug")]).await;
    browser.post("/cart", &[("product", "ramen-bowl")]).await;
    assert!(
        browser.post("/cart/update", &[("product", "harbour-mug"), ("quantity", "3")]).await.text.contains("$55.50")
    );
    let page = browser.post("/cart/update", &[("product", "ramen-bowl"), ("quantity", "0")]).await;
    assert!(!page.text.contains("Ramen Bowl"));
    let refused = browser.post("/cart/update", &[("product", "harbour-mug"), ("quantity", "999")]).await;
    assert!(refused.status == 422 && refused.text.contains("role=\"alert\""));
    let carts = deploy.data(json!({"carts": {"user": "grace"}})).await;
    assert_eq!(carts["carts"][0]["items"], json!([{"product": "harbour-mug", "quantity": 3}]));
}

#[tokio::test]
async fn people_sign_in_with_their_password_and_see_their_own_orders() {
    let deploy = Deploy::with_users().await;
    let ada = deploy.browser();
    for (username, password) in [("ada", "wrong"), ("nobody", "x"), ("ada", "")] {
        let page = ada.post("/sign-in", &[("username", username), ("password", password)]).await;
        assert!(page.status == 422 && page.text.contains("don&#39;t match") || page.text.contains("don't match"));
    }
    let fields = [("username", " ADA "), ("password", "analytical"), ("next", "/orders")];
    assert_eq!(ada.post("/sign-in", &fields).await.path, "/orders");
    ada.post("/cart", &[("product", "iris-teapot")]).await;
    let order = ada.post("/checkout", &ADDRESS).await;
    let path = order.path.split('?').next().unwrap();
    let grace = deploy.signed_in("grace").await;
    assert_eq!(grace.get(path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(deploy.browser().get(path).await.path, format!("/sign-in?next={path}"));
    ada.post("/sign-out", &[]).await;
    assert_eq!(ada.get("/account").await.path, "/sign-in?next=/account");
    for next in ["//evil.test", "https://evil.test", "/\\evil.test", ""] {
        let fields = [("username", "ada"), ("password", "analytical"), ("next", next)];
        assert_eq!(deploy.browser().post("/sign-in", &fields).await.path, "/account", "{next}");
    }
}

#[tokio::test]
async fn session_names_a_page_that_proves_it() {
    let deploy = Deploy::with_users().await;
    let (_, state) = deploy.operate("session", json!({"user": "ada"})).await;
    let verify = &state["verify"];
    assert_eq!(verify, &json!({"url": "https://shop.test/account", "contains": "Ada Lovelace"}));
    assert!(deploy.signed_in("ada").await.get("/account").await.text.contains("Ada Lovelace"));
    assert!(!deploy.browser().get("/account").await.text.contains("Ada Lovelace"));
    assert_eq!(deploy.operate("session", json!({"user": "eve"})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(deploy.operate("session", json!({})).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn load_adds_everything_or_nothing() {
    let deploy = Deploy::with_users().await;
    let before = deploy.data(Value::Null).await;
    let user = json!({"username": "alan", "password": "p", "name": "Alan"});
    let mug = json!({"slug": "tin-mug", "name": "Tin Mug", "category": "mugs", "price_cents": 700});
    let order = |items: Value| json!({"user": "ada", "items": items});
    for (data, part) in [
        (json!({"users": [user, {"username": "ada", "password": "p", "name": "Other"}]}), "taken"),
        (json!({"users": [user, {"username": "a b", "password": "p", "name": "Other"}]}), "can't be a username"),
        (
            json!({"users": [user], "products": [{"slug": "x", "name": "X", "category": "boats", "price_cents": 1}]}),
            "boats",
        ),
        (json!({"users": [user], "products": [mug, mug]}), "already"),
        (json!({"products": [mug], "orders": [order(json!([{"product": "tin-mug", "quantity": 11}]))]}), "only 10"),
        (json!({"users": [user], "orders": [order(json!([{"product": "boat", "quantity": 1}]))]}), "boat"),
        (json!({"users": [user], "orders": [order(json!([]))]}), "no items"),
        (json!({"users": [user], "order": []}), "order"),
        (json!([]), "not an object"),
    ] {
        let (status, error) = deploy.operate("data/load", json!({"data": data})).await;
        assert_eq!((status, &error["kind"]), (StatusCode::BAD_REQUEST, &json!("bad_request")), "{data}");
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        assert_eq!(deploy.data(Value::Null).await, before, "{data}");
    }
    let good = json!({"users": [user], "products": [mug], "orders": [
        {"user": "alan", "items": [{"product": "tin-mug", "quantity": 2}], "number": "KK-1", "status": "delivered",
            "placed_at": "2026-01-02T03:04:05Z"}]});
    assert_eq!(deploy.operate("data/load", json!({"data": good})).await, (StatusCode::OK, json!({})));
    let order = deploy.data(json!({"orders": {"number": "KK-1"}})).await["orders"][0].clone();
    assert_eq!((&order["total_cents"], &order["status"]), (&json!(1890), &json!("delivered")));
    assert!(deploy.signed_in("alan").await.get("/orders").await.text.contains("2026-01-02"));
}

#[tokio::test]
async fn a_selector_that_names_nothing_is_refused() {
    let deploy = Deploy::new(json!({})).await;
    for (selector, part) in [
        (json!("orders"), "not an object"),
        (json!({"order": {}}), "no list `order`"),
        (json!({"orders": {"username": "ada"}}), "no member `username`"),
        (json!({"orders": []}), "not an object"),
    ] {
        let (status, error) = deploy.operate("data/get", json!({"selector": selector})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
}

#[tokio::test]
async fn row_82_a_reset_leaves_nothing_of_the_episode() {
    let deploy = Deploy::new(json!({})).await;
    let at_deploy = deploy.data(Value::Null).await;
    for round in 0..3 {
        let users = json!({"users": [{"username": "ada", "password": "analytical", "name": "Ada Lovelace"}]});
        assert_eq!(deploy.operate("data/load", json!({"data": users})).await.0, StatusCode::OK, "round {round}");
        let browser = deploy.signed_in("ada").await;
        browser.post("/cart", &[("product", "harbour-mug")]).await;
        assert!(browser.post("/checkout", &ADDRESS).await.path.starts_with("/orders/"));
        deploy.browser().post("/cart", &[("product", "moss-mug")]).await;
        assert_eq!(deploy.operate("data/reset", json!({})).await, (StatusCode::OK, json!({})));
        assert_eq!(deploy.data(Value::Null).await, at_deploy);
        assert_eq!(browser.get("/account").await.path, "/sign-in?next=/account");
    }
}

#[tokio::test]
async fn a_restarted_shop_keeps_its_data_and_can_still_be_reset() {
    let deploy = Deploy::with_users().await;
    let loaded = deploy.data(Value::Null).await;
    let Deploy { app, data } = deploy;
    drop(app);
    let deploy = Deploy { app: Deploy::start(data.path(), json!({})).await, data };
    assert_eq!(deploy.data(Value::Null).await, loaded);
    deploy.operate("data/reset", json!({})).await;
    assert_eq!(deploy.data(json!({"users": {}})).await, json!({"users": []}));
    assert!(deploy.data.path().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_cannot_buy_more_than_there_is() {
    let deploy = Deploy::new(json!({})).await;
    let users: Vec<Value> = (0..12)
        .map(|i| json!({"username": format!("u{i}"), "password": "p", "name": format!("U {i}"), "address": "x"}))
        .collect();
    deploy.operate("data/load", json!({"data": {"users": users}})).await;
    // Five copper kettles for twelve customers, each with one in the cart.
    let mut customers = Vec::new();
    for i in 0..12 {
        let browser = deploy.signed_in(&format!("u{i}")).await;
        browser.post("/cart", &[("product", "copper-kettle")]).await;
        customers.push(browser);
    }
    let checkout = |browser: Browser| tokio::spawn(async move { browser.post("/checkout", &ADDRESS).await });
    let crowd: Vec<_> = customers.into_iter().map(checkout).collect();
    let mut sold = 0;
    for customer in crowd {
        let page = customer.await.unwrap();
        sold += usize::from(page.path.starts_with("/orders/KK-"));
        assert!(page.status == 200 || page.text.contains("Copper Stovetop Kettle has just sold out."));
    }
    let data = deploy.data(json!({"orders": {}, "products": {"slug": "copper-kettle"}})).await;
    assert_eq!((sold, data["orders"].as_array().unwrap().len()), (5, 5));
    assert_eq!(data["products"][0]["stock"], json!(0));
}

#[tokio::test]
async fn settings_name_the_shop_and_the_secret_stays_one() {
    let deploy = Deploy::new(json!({"title": "Mugs <& More>", "payment_key": "hunter2"})).await;
    let users = json!({"users": [{"username": "ada", "password": "p", "name": "Ada", "address": "x"}]});
    deploy.operate("data/load", json!({"data": users})).await;
    let browser = deploy.signed_in("ada").await;
    assert!(browser.get("/").await.text.contains("Mugs &lt;&amp; More&gt;"));
    browser.post("/cart", &[("product", "harbour-mug")]).await;
    let order = browser.post("/checkout", &ADDRESS).await.text;
    assert!(order.contains("Payment reference ") && !order.contains("hunter2"));
    assert!(!deploy.data(Value::Null).await.to_string().contains("hunter2"));
}

#[tokio::test]
async fn a_reset_takes_as_long_after_much_as_after_little() {
    let deploy = Deploy::new(json!({})).await;
    let mut fastest = [Duration::MAX; 2];
    for round in 0..6 {
        let count = if round % 2 == 0 { 1 } else { 2000 };
        let users: Vec<Value> =
            (0..count).map(|i| json!({"username": format!("u{i}"), "password": "p", "name": "U"})).collect();
        assert_eq!(deploy.operate("data/load", json!({"data": {"users": users}})).await.0, StatusCode::OK);
        let start = Instant::now();
        deploy.operate("data/reset", json!({})).await;
        fastest[round % 2] = fastest[round % 2].min(start.elapsed());
    }
    let [little, much] = fastest;
    assert!(much < little * 3 + Duration::from_millis(2), "{little:?} after 1 user, {much:?} after 2000");
}
