//! The kernel's table of sockets of a sandbox.

use std::{fs, io};

use super::sockets::Sockets;

/// The TCP ports that listen in a sandbox, read by way of its broker.
pub(crate) fn listening(sockets: &Sockets) -> Vec<u16> {
    let broker = sockets.sandbox().broker_pid();
    let read = |table: &str| fs::read_to_string(format!("/proc/{broker}/net/{table}"));
    let tables: io::Result<String> = read("tcp").map(|tcp| tcp + &read("tcp6").unwrap_or_default());
    let mut ports: Vec<u16> = tables.unwrap_or_default().lines().filter_map(listening_port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The port of a line of `/proc/net/tcp`, where it listens.
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    // 0A is TCP_LISTEN.
    if state != "0A" {
        return None;
    }
    u16::from_str_radix(local.rsplit(':').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_listen_are_read_from_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0\n\
            1: 0100007F:1F41 0200007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 20 4 30 10 -1\n";
        assert_eq!(table.lines().filter_map(listening_port).collect::<Vec<_>>(), [8000]);
    }
}
