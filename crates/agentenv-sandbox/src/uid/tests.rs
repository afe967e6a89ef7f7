use super::*;

#[test]
fn ordinary_users_get_what_the_files_give_them() {
    let files = "root:100000:65536\nann:165536:65536\nann:900000:100\n1007:231072:10\nbad:x:1\nzero:1:0\n";
    let mode = |euid, name, helpers: bool| ordinary_mode(euid, name, files, files, |_| helpers);
    let range = Range { first: 165_536, count: 65_536 };
    assert_eq!(mode(1000, Some("ann"), true), UidMode::Subordinate { uids: range, gids: range });
    let range = Range { first: 231_072, count: 10 };
    assert_eq!(mode(1007, None, true), UidMode::Subordinate { uids: range, gids: range });
    for single in [mode(1000, Some("ann"), false), mode(1001, Some("bob"), true), mode(1001, Some("bad"), true)] {
        assert!(matches!(single, UidMode::Single { .. }), "{single:?}");
    }
    assert!(matches!(ordinary_mode(1000, Some("ann"), files, "", |_| true), UidMode::Single { .. }));
}

#[test]
fn a_claim_ends_with_its_last_holder() {
    // Far above what root hands out, so that no other test meets it.
    let pairs = || (2_000_000_000..2_000_000_002).map(|id| (id, id));
    let allocator = UidAllocator::with_mode(UidMode::Root);
    let free = |pairs| allocator.first_free(0, pairs, MapBy::Helpers);
    let first = free(pairs()).unwrap();
    let copy = first.clone();
    let second = free(pairs()).unwrap();
    assert_ne!(first.uid(), second.uid());
    assert!(matches!(free(pairs()), Err(SandboxError::NoUid { tried: 2, .. })));
    drop(first);
    assert!(free(pairs()).is_err());
    drop(copy);
    assert!(free(pairs()).is_ok());
}

#[test]
fn keeps_out_of_ranges_and_of_running_processes() {
    let taken = vec![Range { first: 2_000_000_010, count: 5 }];
    let allocator = UidAllocator { mode: UidMode::Root, taken };
    let got = allocator.first_free(0, (2_000_000_010..2_000_000_020).map(|id| (id, id)), MapBy::Helpers).unwrap();
    assert_eq!(got.uid(), 2_000_000_015);
    assert!(in_use(rustix::process::geteuid().as_raw()));
    assert!(!in_use(2_000_000_001));
}

#[test]
fn a_single_uid_says_that_it_is_shared() {
    let allocator = UidAllocator::with_mode(UidMode::Single { reason: "test".into() });
    assert!(allocator.allocate().unwrap().is_shared());
}

#[test]
fn root_of_a_container_knows_which_ids_it_has() {
    assert!(maps("         0          0 4294967295\n", FIRST));
    assert!(!maps("0 100000 65536\n", FIRST));
    assert!(!maps("0 1000 1\n1 100000 65536\n", FIRST) && maps("0 1000 1\n1 100000 65536\n", 65_536));
    assert!(!maps("", FIRST) && !maps("x", FIRST));
}
