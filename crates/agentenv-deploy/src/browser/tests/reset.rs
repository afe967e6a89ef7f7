use super::{
    super::*,
    chromium::{LIMIT, Running},
    site::Internet,
    urls,
};

#[tokio::test(flavor = "multi_thread")]
async fn row_82_a_relaunched_browser_has_nothing_of_the_last_episode() {
    let internet = Internet::start().await;
    let start_tabs = urls(&["https://shop.test/"]);
    let origins = urls(&["https://shop.test", "http://shop.test", "https://tracker.test"]);

    let mut first = Running::start(&internet).await;
    first.browser.open_start_tabs(&start_tabs, LIMIT).await.unwrap();
    let (residue, storage) = first.residue(&origins).await;
    assert!(residue.is_clean(&start_tabs) && storage.is_empty(), "{residue:?} {storage:?}");
    // An episode leaves everything that one can leave.
    let episode = urls(&["https://shop.test/", "https://shop.test/episode"]);
    first.browser.open_start_tabs(&episode, LIMIT).await.unwrap();
    let download = first.browser.open_start_tabs(&urls(&["https://shop.test/file"]), LIMIT).await;
    assert!(download.is_err());
    let (residue, storage) = first.residue(&origins).await;
    assert_eq!(residue.cookies, ["left@shop.test"]);
    assert_eq!(storage, ["1 local storage of https://shop.test", "1 databases of https://shop.test"]);
    assert!(residue.tabs.contains(&"https://shop.test/episode".to_owned()) && !residue.is_clean(&start_tabs));
    first.close().await;
    // The test can fail: cache, history, cookies and storage are on the disk now.
    let left = first.files_with("zebra-canary");
    for part in ["Cache", "History", "Local Storage"] {
        assert!(left.iter().any(|path| path.to_string_lossy().contains(part)), "{part} in {left:?}");
    }
    drop(first);

    let mut second = Running::start(&internet).await;
    second.browser.open_start_tabs(&start_tabs, LIMIT).await.unwrap();
    let (residue, storage) = second.residue(&origins).await;
    assert!(residue.is_clean(&start_tabs) && storage.is_empty(), "{residue:?} {storage:?}");
    second.close().await;
    assert_eq!(second.files_with("zebra"), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_95_a_browser_closes_while_a_client_is_connected_and_the_client_learns_it() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    let agent = running.client().await;
    let dial = || tokio::net::TcpStream::connect(("127.0.0.1", running.port));
    let name = agentenv_protocol::Name::parse("browser").unwrap();
    // A browser that an episode used is never taken for a new one.
    running.browser.open_start_tabs(&urls(&["https://shop.test/episode"]), LIMIT).await.unwrap();
    let old = Browser::connect(name.clone(), dial, running.port, LIMIT).await.unwrap_err();
    let holds = "1 cookies and 1 tabs (https://shop.test/episode)";
    assert_eq!(old.to_string(), format!("browser `browser` is not new: it holds {holds}"));
    running.close().await;
    let mut events = agent.events();
    let ended = async { while events.next().await.is_ok() {} };
    tokio::time::timeout(LIMIT, ended).await.expect("the client's connection closes");
    // Nor is what is gone.
    let dial = || tokio::net::TcpStream::connect(("127.0.0.1", running.port));
    let limit = std::time::Duration::from_millis(100);
    let gone = Browser::connect(name, dial, running.port, limit).await.unwrap_err();
    assert_eq!(gone.to_string(), "browser `browser`: the browser accepted no connection within 100 ms");
}
