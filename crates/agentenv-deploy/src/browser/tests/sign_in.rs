use agentenv_protocol::{Name, SessionState};
use serde_json::{Value, json};

use super::{
    super::*,
    chromium::{LIMIT, Running},
    site::Internet,
    tabs::evaluate,
    urls,
};

fn state(value: Value) -> SessionState {
    serde_json::from_value(value).unwrap()
}

fn cookie(change: &Value) -> Value {
    let mut cookie =
        json!({ "name": "sid", "value": "alice", "domain": "shop.test", "httpOnly": true, "secure": true });
    for (key, value) in change.as_object().unwrap() {
        cookie[key] = value.clone();
    }
    cookie
}

async fn sign_in(running: &Running, value: Value) -> Result<bool, BrowserError> {
    running.browser.sign_in(&Name::parse("shop").unwrap(), "alice", &state(value)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proved_sign_in_shows_no_page_to_the_agent() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    running.browser.open_start_tabs(&urls(&["https://shop.test/account"]), LIMIT).await.unwrap();
    let agent = running.client().await;
    let mut events = agent.events();
    agent.call("Target.setDiscoverTargets", json!({ "discover": true })).await.unwrap();
    let before = internet.log().len();

    let verified = sign_in(
        &running,
        json!({
            "cookies": [cookie(&json!({ "name": "__Host-sid" })), cookie(&json!({})), cookie(&json!({ "name": "all", "domain": ".shop.test" }))],
            "origins": [
                { "origin": "https://shop.test", "localStorage": [{ "name": "token", "value": "t\u{2028}\"</script>" }, { "name": "", "value": "" }] },
                { "origin": "http://tracker.test/", "localStorage": [{ "name": "theme", "value": "dark" }] },
            ],
            "verify": { "url": "https://shop.test/account", "contains": "Signed in as alice" },
        }),
    )
    .await
    .unwrap();
    assert!(verified);

    // Of the whole sign-in the sites saw the one page that proves it.
    let asked: Vec<String> = internet
        .log()
        .split_off(before)
        .into_iter()
        .filter(|line| line.starts_with("GET") && !line.ends_with("favicon.ico"))
        .collect();
    assert_eq!(asked, ["GET https://shop.test/account"]);
    // The agent's client saw no page but its own.
    agent.call("Target.createTarget", json!({ "url": "https://shop.test/late" })).await.unwrap();
    loop {
        let event = events.next().await.unwrap();
        let (kind, url) = (event.text("/targetInfo/type"), event.text("/targetInfo/url"));
        if url == "https://shop.test/late" {
            break;
        }
        assert!(kind != "page" || ["https://shop.test/account", "about:blank", ""].contains(&url), "{kind} {url}");
    }
    // And its tabs are signed in.
    let seen = "fetch('/account', { cache: 'no-store' }).then(r => r.text()).then(text => [text, localStorage.token, localStorage.length])";
    let expected = json!(["Signed in as alice", "t\u{2028}\"</script>", 2]);
    assert_eq!(evaluate(&agent, "https://shop.test/account", seen).await, expected);
    running.close().await;
    assert_eq!(running.files_with("Please sign in").len(), 1, "the start tab, in the cache");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_that_fails_leaves_the_browser_signed_out() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let verify = |url: &str, contains: &str| json!({ "url": url, "contains": contains });
    for (cookies, verify, why) in [
        // The text is in a script of the page for strangers: no proof.
        (
            json!([cookie(&json!({ "name": "other" }))]),
            verify("https://shop.test/account", "Signed in as alice"),
            "`https://shop.test/account` does not contain `Signed in as alice`",
        ),
        (
            json!([cookie(&json!({}))]),
            verify("https://shop.test/account", "Signed in as bob"),
            "`https://shop.test/account` does not contain `Signed in as bob`",
        ),
        (
            json!([cookie(&json!({}))]),
            verify("https://shop.test/forbidden", "Signed in as alice"),
            "`https://shop.test/forbidden` did not load: the site answered 403",
        ),
        (
            json!([cookie(&json!({}))]),
            verify("https://nowhere.test/", "x"),
            "`https://nowhere.test/` did not load: net::ERR_TUNNEL_CONNECTION_FAILED",
        ),
    ] {
        let error = sign_in(&running, json!({ "cookies": cookies, "verify": verify })).await.unwrap_err();
        assert_eq!(error.to_string(), format!("browser `browser`: `alice` is not signed in to `shop`: {why}"));
        let (residue, storage) = running.residue(&urls(&["https://shop.test"])).await;
        assert!(residue.is_clean(&[]) && storage.is_empty(), "{residue:?} {storage:?}");
    }
    // The hidden context that the proof was looked for in is gone, with the state that was put into it.
    let contexts = running.client().await.call("Target.getBrowserContexts", json!({})).await.unwrap();
    assert_eq!(contexts["browserContextIds"], json!([]), "{contexts}");
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_proof_everything_is_read_back() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let entry = json!([{ "name": "token", "value": "1" }]);
    let good = json!({ "cookies": [cookie(&json!({}))], "origins": [{ "origin": "https://shop.test", "localStorage": entry }] });
    assert!(!sign_in(&running, good).await.unwrap());
    let (residue, storage) = running.residue(&urls(&["https://shop.test", "http://shop.test"])).await;
    assert_eq!(residue.cookies, ["sid@shop.test"]);
    assert_eq!(storage, ["1 local storage of https://shop.test"]);

    for (bad, why) in [
        (json!({ "name": "old", "expires": 1000.0 }), "cookie `old` of `shop.test` was set and the browser has none"),
        (
            json!({ "name": "open", "secure": false, "sameSite": "None" }),
            "cookie `open` of `shop.test` was set and the browser has none",
        ),
        (json!({ "name": "wide", "domain": ".test" }), "cookie `wide` of `.test` was set and the browser has none"),
        (
            json!({ "name": "__Secure-x", "secure": false }),
            "the browser refused cookie `__Secure-x` of `shop.test`: Invalid cookie fields",
        ),
        (
            json!({ "name": "ctl", "value": "secret\n" }),
            "the browser refused cookie `ctl` of `shop.test`: Invalid cookie fields",
        ),
    ] {
        let error = sign_in(&running, json!({ "cookies": [cookie(&bad)] })).await.unwrap_err();
        assert_eq!(error.to_string(), format!("browser `browser`: `alice` is not signed in to `shop`: {why}"));
        assert!(!format!("{error:?}").contains("secret"));
    }
    let too_much = json!([{ "name": "big", "value": "x".repeat(6 << 20) }]);
    for (origin, entries, why) in [
        ("file:///etc", entry.clone(), "`file:///etc` is no origin such as `https://shop.test`"),
        ("https://shop.test/path", entry.clone(), "`https://shop.test/path` is no origin such as `https://shop.test`"),
        ("shop.test", entry, "`shop.test` is no origin such as `https://shop.test`"),
        ("https://shop.test", too_much, "local storage of `https://shop.test` can't be written: QuotaExceededError"),
    ] {
        let origins = json!([{ "origin": origin, "localStorage": entries }]);
        let error = sign_in(&running, json!({ "origins": origins })).await.unwrap_err().to_string();
        let text = format!("browser `browser`: `alice` is not signed in to `shop`: {why}");
        assert!(error.starts_with(&text), "{error}");
        assert!(error.len() < 400);
    }
    running.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_shows_the_user_by_script_proves_it_too() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let state = |token: &str| {
        json!({
            "origins": [{ "origin": "https://shop.test", "localStorage": [{ "name": "token", "value": token }] }],
            "verify": { "url": "https://shop.test/late", "contains": "token 42" },
        })
    };
    assert!(sign_in(&running, state("42")).await.unwrap());
    assert!(sign_in(&running, state("41")).await.is_err());
    running.close().await;
}
