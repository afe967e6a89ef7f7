use super::*;

fn sessions(data_dir: &Path) -> Sessions {
    let domains = vec![HostPattern::parse("shop.test").unwrap()];
    Sessions::open("shop", domains, Some(&SiteKey::random()), data_dir).unwrap()
}

#[test]
fn a_sign_in_link_ends_after_a_minute_and_a_cookie_does_not() {
    let data = tempfile::tempdir().unwrap();
    let sessions = sessions(data.path());
    let now = SystemTime::now();
    let link = Session { sessions: sessions.clone(), user: None }.sign_in_link("ada", "/me").unwrap();
    let link = link.split_once("?link=").unwrap().1;
    let cookie = sessions.sign(Purpose::Cookie, "ada", "", None);
    let user = |purpose, text: &str, after: u64| {
        sessions.verify(purpose, text, now + Duration::from_secs(after)).map(|claim| claim.user)
    };
    for (after, opens) in [(0, true), (50, true), (62, false), (86_400, false)] {
        assert_eq!(user(Purpose::Link, link, after).is_some(), opens, "after {after} s");
        assert_eq!(user(Purpose::Cookie, &cookie, after).as_deref(), Some("ada"), "after {after} s");
    }
}

#[test]
fn a_token_longer_than_any_is_not_looked_at() {
    let data = tempfile::tempdir().unwrap();
    let sessions = sessions(data.path());
    for (user, known) in [("a".repeat(1000), true), ("a".repeat(3000), false)] {
        let cookie = sessions.sign(Purpose::Cookie, &user, "", None);
        assert_eq!(sessions.verify(Purpose::Cookie, &cookie, SystemTime::now()).is_some(), known);
    }
}
