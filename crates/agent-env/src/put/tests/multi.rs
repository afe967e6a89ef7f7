use std::fs;

use agentenv_model::{Abilities, plan};
use agentenv_protocol::ExitCode;

use super::{Fixture, SERVE, SERVER, write};
use crate::put::plan_input;

const BROWSER: &str = "format = 1\nkind = \"browser\"\nname = \"desk\"\nstart_tabs = [\"https://shop.test/\"]\n";

async fn with_shop() -> Fixture {
    let fixture = Fixture::new().await;
    let shop = fixture.bundle("shop", &format!("domains = [\"shop.test\"]\n{SERVER}"), &[SERVE]);
    fixture.website(&shop).await.unwrap();
    fixture
}

fn office(fixture: &Fixture, members: &str) -> std::path::PathBuf {
    let folder = fixture.path("office");
    write(&folder, "env.toml", &format!("format = 1\nkind = \"multi\"\nname = \"office\"\n{members}\n"));
    folder
}

#[tokio::test]
async fn members_are_pinned_and_planned_as_pinned() {
    let fixture = with_shop().await;
    write(fixture.folder.path(), "desk.toml", BROWSER);
    assert_eq!(fixture.env(&fixture.path("desk.toml")).await.unwrap().kind, "browser");
    let folder = office(&fixture, "websites = [\"shop\"]\nbrowsers = [\"desk\"]");
    let put = fixture.env(&folder).await.unwrap();
    assert_eq!((put.kind, put.version, put.members.len()), ("multi", 1, 0));
    // A newer shop does not change what the office deploys, and the pinned one stays.
    write(&fixture.path("shop"), "page", "x");
    assert_eq!(fixture.website(&fixture.path("shop")).await.unwrap().version, 2);
    let input = plan_input(&fixture.store, &"office".parse().unwrap(), Abilities::sandbox(), None).await.unwrap();
    let planned = plan(&input).unwrap();
    assert_eq!(planned.websites[0].version, 1);
    let error = fixture.store.remove_env(&planned.websites[0].env, Some(1)).await.unwrap_err();
    assert!(error.to_string().contains("is used by env `office@1`"), "{error}");
    assert_eq!(fixture.env(&folder).await.unwrap().version, 2, "put again it pins the newer one");
}

#[tokio::test]
async fn a_member_by_its_path_is_stored_first() {
    let fixture = with_shop().await;
    let folder = office(&fixture, "websites = [\"shop\"]\nbrowsers = [{ path = \"desk.toml\", alias = \"browser\" }]");
    let error = fixture.env(&folder).await.unwrap_err();
    assert!(error.message.contains("office/desk.toml: No such file"), "{}", error.message);
    write(&folder, "desk.toml", BROWSER);
    let put = fixture.env(&folder).await.unwrap();
    assert_eq!((put.members[0].name.as_str(), put.members[0].version), ("desk", 1));
    let input = plan_input(&fixture.store, &"office@1".parse().unwrap(), Abilities::sandbox(), None).await.unwrap();
    assert_eq!(plan(&input).unwrap().browsers[0].name.as_str(), "browser");
    assert!(!fixture.env(&folder).await.unwrap().stored);
    // Its folder is where it stops, also by a link.
    write(fixture.folder.path(), "outside.toml", BROWSER);
    fs::remove_file(folder.join("desk.toml")).unwrap();
    std::os::unix::fs::symlink("../outside.toml", folder.join("desk.toml")).unwrap();
    let error = fixture.env(&folder).await.unwrap_err();
    assert!(error.message.ends_with("office/desk.toml leads out of its folder"), "{}", error.message);
}

#[tokio::test]
async fn what_is_wrong_with_members_is_told() {
    let fixture = with_shop().await;
    let bank = fixture.bundle("bank", &format!("domains = [\"shop.test\"]\n{SERVER}"), &[SERVE]);
    fixture.website(&bank).await.unwrap();
    write(fixture.folder.path(), "desk.toml", BROWSER);
    fixture.env(&fixture.path("desk.toml")).await.unwrap();
    for (members, message, hint) in [
        ("websites = [\"shpo\"]", "env.toml:4:13: there is no env `shpo`", "did you mean `shop`?"),
        ("websites = [\"shop\", \"bank\"]", "env.toml:4:21: `shop` and `bank` both claim `shop.test`", "accepted"),
        ("websites = [\"desk\"]", "env.toml:4:13: env `desk` is a browser env", "name it under `browsers`"),
        (
            "browsers = [\"desk\"]",
            "env.toml:4:13: the start tab `https://shop.test/` of `desk` is at `shop.test`",
            "names",
        ),
    ] {
        let error = fixture.env(&office(&fixture, members)).await.unwrap_err();
        assert!(error.message.contains(message), "{}", error.message);
        assert!(error.hint.contains(hint), "{}", error.hint);
        assert_eq!(error.exit, ExitCode::Refused);
    }
    let outer = "format = 1\nkind = \"multi\"\nname = \"outer\"\nwebsites = [{ path = \"inner.toml\" }]\n";
    write(&fixture.path("outer"), "env.toml", outer);
    write(&fixture.path("outer"), "inner.toml", &outer.replace("outer", "inner"));
    let error = fixture.env(&fixture.path("outer")).await.unwrap_err();
    assert_eq!(error.message, "`inner` is a multi env inside another");
    let error = fixture.website(&office(&fixture, "websites = [\"shop\"]")).await.unwrap_err();
    assert_eq!((error.message.as_str(), error.exit), ("`office` is a multi env", ExitCode::Refused));
}
