use super::*;

#[test]
fn who_is_silent_for_too_long_hangs() {
    let began = Instant::now();
    let index = Index::new(began);
    let after = |seconds| began + Duration::from_secs(seconds);
    assert_eq!(index.health(after(5)), Health::Running);
    assert_eq!(index.health(after(6)), Health::Hung { r#for: Duration::from_secs(6) });
    index.beat(after(6));
    assert_eq!(index.health(after(11)), Health::Running);
    assert_eq!(index.health(after(12)), Health::Hung { r#for: Duration::from_secs(6) });
    // A look from before the last beat: instants of two threads.
    assert_eq!(index.health(began), Health::Running);
    index.update(|state| state.end = Some(End::Failed("a full disk".to_owned())));
    assert_eq!(index.health(after(100)), Health::Ended { reason: "a full disk".to_owned() });
}

#[test]
fn waiting_ends_with_the_change_or_the_limit() {
    let index = Index::new(Instant::now());
    assert!(!index.wait(Duration::from_millis(1), |state| state.flushed >= 1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| index.wait(Duration::from_secs(60), |state| state.flushed >= 1));
        index.update(|state| state.flushed = 1);
        assert!(waiting.join().unwrap());
    });
}
