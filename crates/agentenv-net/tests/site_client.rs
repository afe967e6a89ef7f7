//! The supervisor's calls to a site's server (PR-2, PR-8).

mod common;

use agentenv_net::{Role, SiteClient, SiteError};
use agentenv_protocol::{ErrorKind, SITE_KEY_HEADER, SiteKey};
use common::*;
use http::StatusCode;
use serde_json::json;

async fn client(limits: agentenv_net::Limits, site: &Echo) -> (SiteClient, SiteKey) {
    let wire = std::sync::Arc::new(Wire::default());
    wire.to(service("shop", Role::Server), site.address);
    let key = SiteKey::random();
    (SiteClient::new(wire, name("shop"), key.clone(), limits).with_host(&host("shop.test")), key)
}

fn json_answer(code: u16, body: &str) -> Reply {
    Reply::Bytes(format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

#[tokio::test]
async fn operations_carry_the_key_and_their_answers_are_typed() {
    let site = Echo::new(|request| {
        let target = request.split(' ').nth(1).unwrap();
        json_answer(200, match target {
            "/api/data/get" => r#"{"data": {"orders": [1]}}"#,
            "/api/session" => r#"{"cookies": [{"name": "s", "value": "v", "domain": "shop.test"}], "origins": []}"#,
            "/.well-known/agent-card.json" => {
                r#"{"name": "shop", "description": "", "version": "1", "supportedInterfaces": [],
                    "capabilities": {"extensions": []}, "defaultInputModes": [], "defaultOutputModes": [], "skills": []}"#
            }
            _ => "{}",
        })
    })
    .await;
    let (client, key) = client(limits(), &site).await;
    client.ready().await.unwrap();
    client.load(json!({"users": []})).await.unwrap();
    assert_eq!(client.get(Some(json!("orders"))).await.unwrap(), json!({"orders": [1]}));
    client.reset().await.unwrap();
    assert_eq!(client.session(Some("ann".to_owned())).await.unwrap().cookies[0].value, "v");
    assert_eq!(client.card().await.unwrap().name, "shop");
    let requests = site.requests();
    assert!(requests.iter().all(|request| request.contains(&format!("{SITE_KEY_HEADER}: {}\r\n", key.expose()))));
    assert!(requests.iter().all(|request| request.contains("host: shop.test\r\n")));
    for (request, (start, end)) in requests.iter().zip([
        ("GET /api/ready HTTP/1.1\r\n", "\r\n\r\n"),
        ("POST /api/data/load HTTP/1.1\r\n", r#"{"data":{"users":[]}}"#),
        ("POST /api/data/get HTTP/1.1\r\n", r#"{"selector":"orders"}"#),
        ("POST /api/data/reset HTTP/1.1\r\n", "\r\n\r\n"),
        ("POST /api/session HTTP/1.1\r\n", r#"{"user":"ann"}"#),
        ("GET /.well-known/agent-card.json HTTP/1.1\r\n", "\r\n\r\n"),
    ]) {
        assert!(request.starts_with(start) && request.ends_with(end), "{request}");
    }
}

#[tokio::test]
async fn errors_say_whose_and_what() {
    let site = Echo::new(|request| match request.split(' ').nth(1).unwrap() {
        "/api/ready" => json_answer(503, r#"{"kind": "not_ready", "message": "indexing", "hint": "wait"}"#),
        "/api/data/load" => json_answer(500, "<h1>\nTraceback</h1>"),
        "/api/data/get" => json_answer(200, "not json"),
        "/api/data/reset" => Reply::Silence,
        "/api/session" => Reply::Close(Vec::new()),
        _ => Reply::Close(b"SSH-2.0\r\n".to_vec()),
    })
    .await;
    let quick = agentenv_net::Limits { answer: std::time::Duration::from_millis(100), ..limits() };
    let (client, key) = client(quick, &site).await;
    match client.ready().await.unwrap_err() {
        SiteError::Refused { status, body, .. } => {
            assert_eq!(
                (status, body.kind, body.message.as_str()),
                (StatusCode::SERVICE_UNAVAILABLE, ErrorKind::NotReady, "indexing")
            );
        }
        other => panic!("{other}"),
    }
    let load = client.load(json!(1)).await.unwrap_err();
    assert_eq!(
        load.to_string(),
        "website `shop` answered garbage to `/api/data/load`: 500 Internal Server Error with `<h1> Traceback</h1>`"
    );
    assert!(
        matches!(client.get(None).await.unwrap_err(), SiteError::Garbage { what, .. } if what.contains("`not json`"))
    );
    assert!(matches!(client.reset().await.unwrap_err(), SiteError::Slow { operation: "/api/data/reset", .. }));
    assert!(matches!(client.session(None).await.unwrap_err(), SiteError::Down { .. }));
    let card = client.card().await.unwrap_err();
    assert!(matches!(card, SiteError::Garbage { .. }) && !card.to_string().contains(key.expose()), "{card}");
    let nobody = SiteClient::new(std::sync::Arc::new(Wire::default()), name("shop"), key, limits());
    assert!(matches!(nobody.ready().await.unwrap_err(), SiteError::Down { .. }));
}
