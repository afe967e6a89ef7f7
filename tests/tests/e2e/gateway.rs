//! The gateway of a real deploy, byte by byte.

use std::time::{Duration, Instant};

use agentenv_tests::{Deploy, Home, PySite, Reply, raw_http};

use crate::desk::pods;

/// A site that shows the requests it gets, and answers as its query says.
fn mirror() -> Home {
    let show = r#"
class Site(Site):
    def do_GET(self):
        if self.path.startswith("/mirror") or self.path.startswith("/redirect"):
            lines = "".join(f"{key}: {value}\n" for key, value in self.headers.items())
            log(f"mirror {self.path}\n{lines}")
            if self.path.startswith("/redirect"):
                self.send_response(302)
                self.send_header("Location", "http://elsewhere.test:9/?" + self.headers.get("X-Reflect", ""))
                self.send_header("Content-Length", "0")
                return self.end_headers()
            return self.answer(200, lines, "text/plain")
        return super().do_GET()
"#;
    pods(&[PySite::new("alpha").before(show), PySite::new("beta")])
}

fn ask(deploy: &Deploy<'_>, head: &str) -> Reply {
    raw_http(&deploy.info.gateway_url, format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
}

#[test]
fn row_1_the_control_token_never_reaches_a_site() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let token = deploy.token();
    let heads = [
        format!("GET /svc/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"),
        format!("GET /website/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"),
        format!(
            "GET /svc/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nagentenv-control-token: {token}\r\nAuthorization: Basic c2l0ZQ=="
        ),
        format!("GET /svc/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nAUTHORIZATION: bearer {token}"),
    ];
    for head in &heads {
        let reply = ask(&deploy, head);
        assert!(!reply.raw.contains(&token), "{head}\n{}", reply.raw);
    }
    assert!(ask(&deploy, &heads[2]).raw.contains("Basic c2l0ZQ=="), "the site's own Authorization reaches it");
    let log = home.run(&["env", "logs", deploy.id(), "alpha/server"]).ok();
    assert!(log.contains("mirror /mirror") && !log.contains(&token), "{log}");
}

#[test]
fn row_2_a_folded_or_doubled_header_is_no_way_around() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let token = deploy.token();
    for head in [
        format!("GET /website/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n Authorization: Bearer {token}"),
        format!("GET /website/alpha/mirror HTTP/1.1\r\nHost: localhost\r\n: Bearer {token}"),
        format!("GET /website/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer {token}"),
        format!(
            "GET /website/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAuthorization: Bearer {token}"
        ),
    ] {
        let reply = ask(&deploy, &head);
        assert!(reply.status == 400 || !reply.body().contains(&token), "{head}\n{}", reply.raw);
    }
}

#[test]
fn row_4_a_token_in_query_or_cookie_is_refused() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let token = deploy.token();
    for head in [
        format!("GET /svc/alpha/mirror?token={token} HTTP/1.1\r\nHost: localhost"),
        format!("GET /svc/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nCookie: token={token}"),
        "GET /svc/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong".to_owned(),
        "GET /svc/alpha/mirror HTTP/1.1\r\nHost: localhost".to_owned(),
    ] {
        let reply = ask(&deploy, &head);
        assert!([400, 401].contains(&reply.status), "{head}: {}", reply.raw);
    }
    let log = home.run(&["env", "logs", deploy.id(), "alpha/server"]).ok();
    assert!(!log.contains(&token) && !log.contains("mirror /mirror"), "{log}");
}

#[test]
fn row_5_and_6_redirects_are_not_followed_and_reflect_no_token() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let token = deploy.token();
    let reply = ask(
        &deploy,
        &format!(
            "GET /svc/alpha/redirect HTTP/1.1\r\nHost: localhost\r\nX-Reflect: x\r\nAuthorization: Bearer {token}"
        ),
    );
    assert_eq!(reply.status, 302, "{}", reply.raw);
    assert!(reply.raw.contains("elsewhere.test") && !reply.raw.contains(&token), "{}", reply.raw);
}

#[test]
fn row_8_and_9_proxy_and_forwarded_headers_are_the_gateways_own() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let reply = ask(
        &deploy,
        "GET /website/alpha/mirror HTTP/1.1\r\nHost: localhost\r\nProxy-Authorization: Basic eDp5\r\n\
         X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Host: evil.test\r\nForwarded: for=6.6.6.6;host=evil.test",
    );
    assert_eq!(reply.status, 200, "{}", reply.raw);
    for forged in ["Basic eDp5", "6.6.6.6", "evil.test"] {
        assert!(!reply.body().contains(forged), "{forged} reached the site: {}", reply.raw);
    }
    assert!(reply.body().contains("alpha.test"), "the site sees its own name: {}", reply.raw);
}

#[test]
fn row_15_and_16_no_path_or_host_leads_to_another_sites_route() {
    let home = mirror();
    let deploy = home.deploy("pods");
    for path in [
        "/website/alpha/../beta/",
        "/website/alpha/%2e%2e/beta/",
        "/website/alpha/..%2fbeta/",
        "/website/alpha%2f..%2fbeta/",
        "/website/alpha;/../beta/",
        "/website/alpha/%00/../../beta/",
        "//website/beta/../alpha",
        "/website/alpha/..;/beta/",
        "/website/alpha/.%2e/svc/beta/api/ready",
    ] {
        let reply = ask(&deploy, &format!("GET {path} HTTP/1.1\r\nHost: localhost"));
        assert!(!reply.body().contains("beta at"), "{path}: {}", reply.raw);
        assert!([400, 404].contains(&reply.status), "{path}: {}", reply.raw);
    }
    let two = ask(&deploy, "GET /website/alpha/ HTTP/1.1\r\nHost: a\r\nHost: b");
    assert_eq!(two.status, 400, "{}", two.raw);
    let absolute = ask(&deploy, "GET http://other.test/website/alpha/ HTTP/1.1\r\nHost: localhost");
    assert_eq!(absolute.status, 400, "{}", absolute.raw);
    // A name that somebody let lead to 127.0.0.1.
    let rebound = ask(&deploy, "GET /website/alpha/ HTTP/1.1\r\nHost: evil.test");
    assert_eq!(rebound.status, 421, "{}", rebound.raw);
}

#[test]
fn pages_are_browsed_without_a_token_and_the_data_plane_is_not() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let pages = deploy.info.websites[0].browse_url.clone().expect("a synthetic site has pages");
    assert!(pages.starts_with(&deploy.info.gateway_url), "{pages}");
    assert_eq!(ask(&deploy, "GET /website/alpha/ HTTP/1.1\r\nHost: localhost").status, 200);
    for path in ["/website/alpha/api/data/get", "/website/alpha/api/ready", "/website/alpha/api/session"] {
        assert_eq!(
            ask(&deploy, &format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0")).status,
            404,
            "{path}"
        );
    }
    let card = ask(&deploy, "GET /.well-known/agent-card.json HTTP/1.1\r\nHost: localhost");
    assert_eq!(card.status, 200, "{}", card.raw);
}

#[test]
fn row_64_a_huge_head_is_refused_and_the_gateway_lives() {
    let home = mirror();
    let deploy = home.deploy("pods");
    let huge = format!("GET /website/alpha/ HTTP/1.1\r\nHost: localhost\r\nX-Huge: {}", "x".repeat(1 << 20));
    let reply = ask(&deploy, &huge);
    assert!(reply.status == 431 || reply.status == 400 || reply.status == 0, "{}", reply.status);
    assert_eq!(ask(&deploy, "GET /website/alpha/ HTTP/1.1\r\nHost: localhost").status, 200);
}

#[test]
fn a_site_that_answers_in_two_pieces_does_not_wait_for_the_word_that_the_first_one_came() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let ask = || {
        let began = Instant::now();
        let request = b"GET /website/alpha/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        assert_eq!(raw_http(&deploy.info.gateway_url, request).status, 200);
        began.elapsed()
    };
    // A connection's first pieces are acknowledged at once anyway; a delayed acknowledgement comes 40 ms later.
    let mut took: Vec<Duration> = (0..20).map(|_| ask()).collect();
    took.sort();
    assert!(took[10] < Duration::from_millis(30), "{took:?}");
}
