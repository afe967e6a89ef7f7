use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::*,
    chromium::{LIMIT, Running},
    site::Internet,
    urls,
};
use crate::cdp::Cdp;

async fn targets(cdp: &Cdp) -> Vec<(String, String)> {
    let answer = cdp.call("Target.getTargets", json!({})).await.unwrap();
    let text = |target: &Value, field: &str| target[field].as_str().unwrap().to_owned();
    answer["targetInfos"].as_array().unwrap().iter().map(|t| (text(t, "url"), text(t, "targetId"))).collect()
}

/// Evaluates in the tab at the URL.
pub(super) async fn evaluate(cdp: &Cdp, url: &str, expression: &str) -> Value {
    let targets = targets(cdp).await;
    let (_, target) = targets.iter().find(|(at, _)| at == url).unwrap_or_else(|| panic!("{url} in {targets:?}"));
    let page = cdp.attach(target).await.unwrap();
    let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
    page.call("Runtime.evaluate", params).await.unwrap()["result"]["value"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn start_tabs_are_open_and_loaded_over_trusted_https_and_http() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let tabs = urls(&[
        "https://shop.test/",
        "http://tracker.test/",
        "https://tracker.test/onward",
        "https://shop.test/dialog",
    ]);
    running.browser.open_start_tabs(&tabs, LIMIT).await.unwrap();

    let client = running.client().await;
    let at: Vec<String> = targets(&client).await.into_iter().map(|(url, _)| url).collect();
    let wanted = ["https://shop.test/", "http://tracker.test/", "https://tracker.test/", "https://shop.test/dialog"];
    assert_eq!(at.len(), wanted.len(), "{at:?}");
    assert!(wanted.iter().all(|url| at.iter().any(|at| at == url)), "{at:?}");
    let seen = "[document.readyState, document.title, history.length, innerWidth, innerHeight, screen.width, \
                navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone, document.visibilityState, isSecureContext, \
                !!document.createElement('canvas').getContext('webgl')]";
    assert_eq!(
        evaluate(&client, "https://shop.test/", seen).await,
        json!(["complete", "shop.test", 1, 1280, 720, 1280, "en-US", "UTC", "visible", true, true])
    );
    // The dialog of another start tab was answered, its page went on.
    assert_eq!(evaluate(&client, "https://shop.test/dialog", "document.body.innerText").await, json!("after"));
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_of_a_tab_behind_another_one_comes_too() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let tabs = urls(&["https://shop.test/", "https://tracker.test/", "https://shop.test/account"]);
    running.browser.open_start_tabs(&tabs, LIMIT).await.unwrap();
    let client = running.client().await;
    let mut pages = Vec::new();
    for (url, target) in targets(&client).await {
        let page = client.attach(&target).await.unwrap();
        page.call("Page.enable", json!({})).await.unwrap();
        pages.push((url, page));
    }
    for (url, page) in pages {
        let picture = page.call("Page.captureScreenshot", json!({})).await;
        assert!(picture.is_ok_and(|picture| picture["data"].as_str().unwrap().len() > 1000), "{url}");
    }
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_tab_that_does_not_load_names_tab_host_and_reason() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let short = Duration::from_secs(1);
    for (url, limit, why) in [
        ("https://nowhere.test/", LIMIT, "net::ERR_TUNNEL_CONNECTION_FAILED"),
        ("https://shop.test/error", LIMIT, "the site answered 503"),
        ("https://shop.test/empty-error", LIMIT, "the site answered 500"),
        ("https://shop.test/gone", LIMIT, "the site answered 204"),
        ("https://shop.test/file", LIMIT, "the site sent a download, not a page"),
        ("https://shop.test/slow", short, "it was still loading after 1000 ms"),
        ("https://shop.test/never", short, "it was still loading after 1000 ms"),
        ("https://shop.test/out", LIMIT, "`https://nowhere.test/`, where it leads, can't be reached"),
    ] {
        let error = running.browser.open_start_tabs(&urls(&[url]), limit).await.unwrap_err();
        let host = if url.contains("nowhere") { "nowhere.test" } else { "shop.test" };
        let text = format!("browser `browser`: start tab `{url}` did not load from `{host}`: {why}");
        assert_eq!(error.to_string(), text);
    }
    // A page of a 4xx is a page.
    running.browser.open_start_tabs(&urls(&["https://shop.test/nothing-here"]), LIMIT).await.unwrap();
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_authority_is_refused() {
    let internet = Internet::start().await;
    let other = Internet::start().await;
    let mut running = Running::start_with(&internet, |launch| {
        let spec = BrowserSpec::forward(internet.proxy, Viewport::default());
        *launch = chromium(&find_chromium().unwrap(), &spec, &other.ca_pem, &[]).unwrap();
    })
    .await;
    let error = running.browser.open_start_tabs(&urls(&["https://shop.test/"]), LIMIT).await.unwrap_err();
    assert!(error.to_string().ends_with("net::ERR_CERT_AUTHORITY_INVALID"), "{error}");
    assert!(error.hint().contains("certificates"), "{}", error.hint());
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_events_arrive_and_a_crashed_tab_is_told() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let client = running.client().await;
    let mut events = client.events();
    client.call("Target.setDiscoverTargets", json!({ "discover": true })).await.unwrap();
    let made = client.call("Target.createTarget", json!({ "url": "about:blank" })).await.unwrap();
    let target = made["targetId"].as_str().unwrap();
    let created = async {
        loop {
            let event = events.next().await.unwrap();
            if event.method == "Target.targetCreated" && event.text("/targetInfo/targetId") == target {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, created).await.expect("Target.targetCreated");
    let page = client.attach(target).await.unwrap();
    for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
        page.call(domain, json!({})).await.unwrap();
    }
    for event in [
        "Network.requestWillBeSent",
        "Network.responseReceived",
        "Page.frameNavigated",
        "Runtime.executionContextCreated",
        "Page.loadEventFired",
    ] {
        let mut events = client.events();
        page.call("Page.navigate", json!({ "url": "https://shop.test/" })).await.unwrap();
        let arrives = async { while !events.next().await.unwrap().is(&page, event) {} };
        tokio::time::timeout(LIMIT, arrives).await.unwrap_or_else(|_| panic!("{event}"));
    }

    let mut events = running.browser.cdp.events();
    // It never answers.
    let crash = tokio::spawn(async move { page.call("Page.crash", json!({})).await });
    let told = async {
        loop {
            let event = events.next().await.unwrap();
            if event.method == "Target.targetCrashed" && event.text("/targetId") == target {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, told).await.expect("Target.targetCrashed");
    crash.abort();

    running.kill().await;
    let ended = async { while events.next().await.is_ok() {} };
    tokio::time::timeout(LIMIT, ended).await.expect("a killed browser's connection closes");
    let gone = running.browser.open_start_tabs(&urls(&["https://shop.test/"]), LIMIT).await.unwrap_err();
    assert_eq!(gone.to_string(), "browser `browser`: the browser closed its DevTools connection");
}
