//! The server and an unmodified Roundup over one data folder, as in a deploy.

mod running;

use std::io::Write as _;

use running::{Running, form_value};
use serde_json::{Value, json};

fn office() -> Value {
    json!({
        "users": [
            {"username": "mara", "password": "linden-42", "roles": "User"},
            {"username": "jonas", "password": "birch-17"},
        ],
        "issues": [
            {"title": "Kitchen is out of mugs", "status": "in-progress", "assignedto": "mara", "creator": "jonas",
             "messages": ["Only two are left.", "And one of them leaks."]},
            {"title": "Coffee machine drips"},
        ],
    })
}

#[test]
fn what_is_loaded_is_read_back_and_shown_on_the_pages() {
    let site = Running::start();
    assert_eq!(site.load(&office()).status, 200);
    let data = site.get(None);
    assert_eq!(data["users"][2], json!({"username": "mara", "roles": "User"}));
    assert_eq!(
        data["issues"],
        json!([
            {"id": 1, "title": "Kitchen is out of mugs", "status": "in-progress", "priority": "bug",
             "assignedto": "mara", "creator": "jonas", "messages": ["Only two are left.", "And one of them leaks."]},
            {"id": 2, "title": "Coffee machine drips", "status": "unread", "priority": "bug", "assignedto": null,
             "creator": "admin", "messages": []},
        ])
    );
    let page = site.page("/issues/issue1", None).text();
    for shown in ["Kitchen is out of mugs", "And one of them leaks.", "in-progress", "jonas"] {
        assert!(page.contains(shown), "{shown} is not on {page}");
    }
    // The words of a load are found, as the words of a form are.
    let found = site.page("/issues/issue?@search_text=leaks&@columns=id,title", None).text();
    assert!(found.contains("Kitchen is out of mugs"), "{found}");
}

#[test]
fn a_selector_leaves_out_what_it_does_not_ask_for() {
    let site = Running::start();
    site.load(&office());
    for (selector, expected) in [
        (json!({"issues": {"creator": "jonas"}}), json!({"issues": [1]})),
        (json!({"issues": {"title_contains": "machine"}}), json!({"issues": [2]})),
        (json!({"issues": {"assignedto": null, "status": "unread"}}), json!({"issues": [2]})),
        (json!({"issues": {"status": "resolved"}}), json!({"issues": []})),
        (json!({}), json!({})),
    ] {
        let mut answer = site.get(Some(&selector));
        for issue in answer.get_mut("issues").and_then(Value::as_array_mut).into_iter().flatten() {
            *issue = issue["id"].take();
        }
        assert_eq!(answer, expected, "{selector}");
    }
    let users = site.get(Some(&json!({"users": {"username": "jonas"}})));
    assert_eq!(users, json!({"users": [{"username": "jonas", "roles": "User"}]}));
}

#[test]
fn a_session_signs_in_and_what_its_user_files_is_read() {
    let site = Running::start();
    site.load(&office());
    let state = site.session(Some("mara")).json();
    assert_eq!(state["verify"], json!({"url": "https://tracker.test/issues/", "contains": "Hello, mara</b>"}));
    let cookie = &state["cookies"][0];
    assert_eq!(
        (&cookie["domain"], &cookie["path"], &cookie["secure"], &cookie["httpOnly"], &cookie["sameSite"]),
        (&json!("tracker.test"), &json!("/issues/"), &json!(true), &json!(true), &json!("Lax"))
    );
    let cookie = format!("{}={}", cookie["name"].as_str().unwrap(), cookie["value"].as_str().unwrap());
    assert!(site.page("/issues/", Some(&cookie)).text().contains("Hello, mara</b>"));

    let form = site.page("/issues/issue?@template=item", Some(&cookie)).text();
    let filed = site.submit(
        "/issues/issue",
        Some(&cookie),
        &[
            ("title", "Order 1042: two mugs"),
            ("priority", "4"),
            ("@note", "Bought today.\r\nThey arrive on Friday."),
            ("@action", "new"),
            ("@csrf", &form_value(&form, "@csrf")),
        ],
    );
    assert_eq!(filed.status, 302, "{}", filed.text());
    assert_eq!(
        site.get(Some(&json!({"issues": {"creator": "mara"}}))),
        json!({"issues": [
            {"id": 3, "title": "Order 1042: two mugs", "status": "unread", "priority": "feature", "assignedto": null,
             "creator": "mara", "messages": ["Bought today.\nThey arrive on Friday."]},
        ]})
    );
}

#[test]
fn without_a_user_the_administrator_is_signed_in_and_an_unknown_one_is_named() {
    let site = Running::start();
    assert_eq!(site.session(None).json()["verify"]["contains"], "Hello, admin</b>");
    for name in ["nobody", "anonymous"] {
        let refused = site.session(Some(name));
        assert_eq!(refused.status, 404);
        assert_eq!(refused.json()["kind"], "not_found");
        assert_eq!(refused.json()["message"], format!("the tracker has no user `{name}`"));
    }
}

#[test]
fn a_loaded_password_signs_in_by_the_form() {
    let site = Running::start();
    site.load(&office());
    for (password, signed_in) in [("linden-42", true), ("linden-43", false)] {
        let page = site.page("/issues/", None).text();
        let done = site.submit(
            "/issues/",
            None,
            &[
                ("__login_name", "mara"),
                ("__login_password", password),
                ("__came_from", "https://tracker.test/issues/"),
                ("@action", "Login"),
                ("@csrf", &form_value(&page, "@csrf")),
            ],
        );
        assert_eq!(done.status, 302);
        assert_eq!(!done.text().contains("Invalid+login"), signed_in, "{password}: {}", done.text());
    }
}

#[test]
fn a_reset_undoes_loads_and_what_was_written_while_roundup_keeps_running() {
    let site = Running::start();
    let at_deploy = site.get(None);
    for _episode in 0..3 {
        assert_eq!(site.load(&office()).status, 200);
        let state = site.session(Some("mara")).json();
        let cookie = &state["cookies"][0];
        let cookie = format!("{}={}", cookie["name"].as_str().unwrap(), cookie["value"].as_str().unwrap());
        assert!(site.page("/issues/", Some(&cookie)).text().contains("Hello, mara"));

        assert_eq!(site.reset().status, 200);
        assert_eq!(site.get(None), at_deploy);
        let page = site.page("/issues/", Some(&cookie)).text();
        assert!(!page.contains("mara") && !page.contains("Kitchen"), "{page}");
        assert_eq!(site.page("/issues/issue1", None).status, 404);
    }
    // Neither old databases nor their messages are left.
    let mut left: Vec<_> = std::fs::read_dir(site.home().join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    left.sort();
    assert_eq!(left, ["db", "db-otk", "db-session"]);
}

#[test]
fn a_restarted_server_goes_on_with_its_data() {
    let mut site = Running::start();
    site.load(&office());
    let before = site.get(None);
    site.restart_server();
    assert_eq!(site.get(None), before);
    assert_eq!(site.reset().status, 200);
    assert_eq!(site.get(None)["issues"], json!([]));
}

#[test]
fn a_killed_data_process_is_started_anew() {
    let site = Running::start();
    site.load(&office());
    let before = site.get(None);
    site.kill_data_process();
    assert_eq!(site.get(None), before);
}

#[test]
fn the_first_pages_may_be_asked_for_at_once() {
    let site = Running::start();
    std::thread::scope(|scope| {
        let pages: Vec<_> = (0..8).map(|_| scope.spawn(|| site.page("/issues/", None).status)).collect();
        for page in pages {
            assert_eq!(page.join().unwrap(), 200);
        }
    });
}

#[test]
fn bad_loads_say_what_is_wrong_and_load_nothing() {
    let site = Running::start();
    let at_deploy = site.get(None);
    for (data, problem) in [
        (json!([]), "the data must be an object"),
        (json!({"user": []}), "the data has the unknown `user`; accepted are `issues`, `users`"),
        (json!({"users": {}}), "users must be a list"),
        (json!({"users": [{"username": "mara"}]}), "users[0].password is missing"),
        (json!({"users": [{"username": "admin", "password": "x"}]}), "users[0].username: `admin` is taken"),
        (
            json!({"users": [{"username": "a", "password": "x"}, {"username": "a", "password": "x"}]}),
            "users[1].username: `a` is taken",
        ),
        (json!({"users": [{"username": "a b", "password": "x"}]}), "users[0].username: `a b` may have"),
        (
            json!({"users": [{"username": "a", "password": "x", "roles": "User, Boss"}]}),
            "users[0].roles: there is no `Boss`; there are `User`, `Admin`, `Anonymous`",
        ),
        (json!({"issues": [{"title": " "}]}), "issues[0].title must be a text that isn't empty"),
        (
            json!({"issues": [{"title": "T", "status": "open"}]}),
            "issues[0].status: there is no `open`; there are `unread`",
        ),
        (
            json!({"issues": [{"title": "T"}, {"title": "T", "assignedto": "zoe"}]}),
            "issues[1].assignedto: there is no `zoe`",
        ),
        (json!({"issues": [{"title": "T", "messages": [1]}]}), "issues[0].messages[0] must be a text"),
        (json!({"issues": [{"titel": "T"}]}), "issues[0] has the unknown `titel`"),
    ] {
        let refused = site.load(&data);
        assert_eq!(refused.status, 400, "{data}");
        let body = refused.json();
        assert_eq!(body["kind"], "bad_request");
        assert!(body["message"].as_str().unwrap().contains(problem), "{data}: {body}");
    }
    let many = json!({"issues": (0..40).map(|at| json!({"title": at})).collect::<Vec<_>>()});
    assert!(site.load(&many).json()["message"].as_str().unwrap().ends_with("and 30 more"));
    assert_eq!(site.get(None), at_deploy);

    let refused = site.post("/api/data/get", &json!({"selector": {"issues": {"body": 1}}}));
    assert_eq!(refused.json()["message"], "issues can't be selected by `body`");
}

/// Roundup commits whenever it hands out an id, so a load that it refuses late would leave its first half behind.
#[test]
fn a_load_that_roundup_itself_refuses_leaves_nothing() {
    let site = Running::start();
    let mut process = site.data_process();
    // No text of a Rust program: half a surrogate pair can't be stored.
    let load = r#"{"do": "load", "data": {"users": [{"username": "half", "password": "x"}],
        "issues": [{"title": "first", "messages": ["m"]}, {"title": "\ud800"}]}}"#
        .replace('\n', " ");
    writeln!(process.stdin.take().unwrap(), "{load}").unwrap();
    let output = process.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["message"].as_str().unwrap().starts_with("issues[1]: "), "{answer}");
    let data = site.get(None);
    assert_eq!((&data["issues"], data["users"].as_array().unwrap().len()), (&json!([]), 2));
    // Its ids are free again.
    site.load(&office());
    assert_eq!(site.get(None)["issues"][0]["id"], 1);
}

#[test]
fn row_96_operations_are_not_there_without_the_key() {
    let site = Running::start();
    for path in ["/api/data/load", "/api/data/get", "/api/data/reset", "/api/session"] {
        assert_eq!(site.post_without_key(path, &json!({})).status, 404, "{path}");
    }
}
