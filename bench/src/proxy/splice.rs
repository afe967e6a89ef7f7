//! The floor of a tunnel: two threads per connection that do nothing but `splice`.

use std::{
    net::{Shutdown, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::LIVE;

/// The command that runs it.
pub const SPLICE: &str = "proxy-splice";
/// Where it listens.
pub const PORT: u16 = 3010;
/// Bytes of a pipe.
const PIPE: usize = 1 << 20;

/// Passes connections on to the live host until it is killed.
pub fn serve() {
    let listener = TcpListener::bind(("127.0.0.1", PORT)).expect("the namespace is ours");
    for client in listener.incoming().flatten() {
        let origin = TcpStream::connect((LIVE.1, 443)).expect("the origin accepts");
        let (client, origin) = (Arc::new(client), Arc::new(origin));
        for (from, to) in [(client.clone(), origin.clone()), (origin, client)] {
            thread::spawn(move || {
                let _ = pass(&from, &to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
}

fn pass(from: &TcpStream, to: &TcpStream) -> rustix::io::Result<()> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setpipe_size(&write, PIPE)?;
    loop {
        let mut left = splice(from, None, &write, None, PIPE, SpliceFlags::MOVE)?;
        if left == 0 {
            return Ok(());
        }
        while left > 0 {
            left -= splice(&read, None, to, None, left, SpliceFlags::MOVE)?;
        }
    }
}
