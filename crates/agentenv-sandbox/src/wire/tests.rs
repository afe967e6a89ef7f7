use super::*;

#[test]
fn carries_texts_of_every_length_with_descriptors() {
    let (ours, theirs) = pair().unwrap();
    for length in [0, 1, MAX_BYTES - 3, MAX_BYTES, 1 << 20] {
        let text = "x".repeat(length);
        send(ours.as_fd(), &text, &[ours.as_fd(), theirs.as_fd()]).unwrap();
        let (got, fds): (String, _) = receive(theirs.as_fd()).unwrap();
        assert_eq!((got.len(), fds.len()), (length, 2));
    }
    drop(ours);
    assert!(matches!(receive::<String>(theirs.as_fd()), Err(WireError::Closed)));
}

#[test]
fn refuses_what_is_cut_or_too_much() {
    let (ours, theirs) = pair().unwrap();
    send_bytes(ours.as_fd(), b"i\"four\"", &[ours.as_fd()]).unwrap();
    assert!(matches!(receive_bytes(theirs.as_fd(), &mut [0; 3]), Err(WireError::Truncated)));
    send_bytes(ours.as_fd(), b"inonsense", &[]).unwrap();
    assert!(matches!(receive::<String>(theirs.as_fd()), Err(WireError::Text(_))));
    send_bytes(ours.as_fd(), b"l", &[]).unwrap();
    assert!(matches!(receive::<String>(theirs.as_fd()), Err(WireError::Count { .. })));
    let many = vec![ours.as_fd(); MAX_FDS + 1];
    assert!(matches!(send_bytes(ours.as_fd(), b"x", &many), Err(WireError::Count { .. })));
    assert!(matches!(exactly::<1>(vec![]), Err(WireError::Count { got: 0, expected: 1 })));
}
