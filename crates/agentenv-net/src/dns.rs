//! The name server of a sandbox: known names have an address each, everything else doesn't exist.

use std::{io, net::UdpSocket as StdUdpSocket, str, sync::Arc};

use agentenv_protocol::{HostName, SandboxName};
use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, RData, Record, RecordType, rdata::A},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

use crate::{
    AddressBook, DeniedLog, DenyReason, SiteTable, Verdict, decide,
    decide::printable,
    life::Life,
    limits::{ACCEPT_BACKOFF, DNS_TCP_BYTES, DNS_TCP_QUESTIONS, DNS_TCP_WAIT, DNS_TTL_S, DNS_UDP_BYTES},
};

#[cfg(test)]
mod tests;

/// Bytes of a DNS header.
const HEADER_BYTES: usize = 12;

/// What answers are made from.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) sandbox: SandboxName,
    pub(crate) table: Arc<SiteTable>,
    pub(crate) book: Arc<AddressBook>,
    pub(crate) denied: Arc<dyn DeniedLog>,
    /// Whether live hosts can be reached.
    pub(crate) direct: bool,
}

impl Resolver {
    /// The answer to a message; `None` where none is due: it is too short for an id, or an answer itself.
    pub(crate) fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let header = message.get(..HEADER_BYTES)?;
        let id = u16::from_be_bytes([header[0], header[1]]);
        if header[2] & 0x80 != 0 {
            return None;
        }
        let opcode = OpCode::from_u8((header[2] & 0x78) >> 3);
        let question = match Message::from_vec(message) {
            Ok(question) => question,
            Err(error) => {
                tracing::debug!(sandbox = %self.sandbox, %error, "malformed DNS message");
                return Message::error_msg(id, opcode, ResponseCode::FormErr).to_vec().ok();
            }
        };
        let mut answer = Message::new(id, MessageType::Response, opcode);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.metadata.authoritative = true;
        if question.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(DNS_UDP_BYTES as u16);
            answer.set_edns(edns);
        }
        answer.metadata.response_code = match question.queries.as_slice() {
            _ if opcode != OpCode::Query => ResponseCode::NotImp,
            [query] if query.query_class() != DNSClass::IN => ResponseCode::Refused,
            [query] => {
                answer.add_query(query.clone());
                self.records(query, &mut answer)
            }
            _ => ResponseCode::FormErr,
        };
        answer.to_vec().ok()
    }

    fn records(&self, query: &Query, answer: &mut Message) -> ResponseCode {
        let asked = text(query);
        match self.address(&asked) {
            Ok(address) => {
                // Known names have no other records, and they are empty: NXDOMAIN would say that the name is unknown.
                if query.query_type() == RecordType::A {
                    answer.add_answer(Record::from_rdata(query.name().clone(), DNS_TTL_S, RData::A(A(address))));
                }
                ResponseCode::NoError
            }
            Err(reason) => {
                // DNS has no port; 443 only stands for one that is allowed.
                self.denied.denied(&self.sandbox, &printable(&asked), 0, &reason);
                if reason == DenyReason::TooManyNames { ResponseCode::ServFail } else { ResponseCode::NXDomain }
            }
        }
    }

    fn address(&self, asked: &str) -> Result<std::net::Ipv4Addr, DenyReason> {
        match decide(&self.table, asked, 443) {
            Verdict::Direct if !self.direct => Err(DenyReason::DirectUnavailable),
            // The name's own address here too, never a real one: what asks upstream is a connection, not a question (row 39).
            Verdict::Site(_) | Verdict::Direct => {
                let name = HostName::parse(asked)?;
                self.book.address_of(&name).ok_or(DenyReason::TooManyNames)
            }
            Verdict::Deny(reason) => Err(reason),
        }
    }

    /// Answers over UDP until the drain signal.
    pub(crate) fn serve_udp(self, socket: StdUdpSocket, life: &Life) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        let tasks = life.clone();
        life.spawn(async move {
            let mut buffer = vec![0; DNS_UDP_BYTES];
            loop {
                let received = tokio::select! {
                    () = tasks.draining() => return,
                    received = socket.recv_from(&mut buffer) => received,
                };
                match received {
                    Ok((length, client)) => {
                        if let Some(answer) = self.answer(&buffer[..length]) {
                            // A full socket drops the answer; the client asks again.
                            let _ = socket.try_send_to(&answer, client);
                        }
                    }
                    // An answer's ICMP error comes back here and says nothing about the socket.
                    Err(error) => {
                        tracing::debug!(%error, "DNS receive failed");
                        tokio::time::sleep(ACCEPT_BACKOFF.0).await;
                    }
                }
            }
        });
        Ok(())
    }

    /// Answers the questions of one TCP connection.
    pub(crate) async fn serve_tcp(self, mut stream: TcpStream) {
        for _ in 0..DNS_TCP_QUESTIONS {
            match tokio::time::timeout(DNS_TCP_WAIT, self.one_over_tcp(&mut stream)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return,
                Ok(Err(error)) => return tracing::debug!(%error, "DNS connection ended"),
                Err(_) => return tracing::debug!("DNS connection was idle"),
            }
        }
    }

    async fn one_over_tcp(&self, stream: &mut TcpStream) -> io::Result<bool> {
        let length = usize::from(stream.read_u16().await?);
        if !(HEADER_BYTES..=DNS_TCP_BYTES).contains(&length) {
            return Ok(false);
        }
        let mut message = vec![0; length];
        stream.read_exact(&mut message).await?;
        let Some(answer) = self.answer(&message) else { return Ok(false) };
        let mut framed = u16::try_from(answer.len()).map_err(io::Error::other)?.to_be_bytes().to_vec();
        framed.extend_from_slice(&answer);
        stream.write_all(&framed).await?;
        Ok(true)
    }
}

/// The name as it was asked for. A label that holds a dot is marked, so that it never looks like two.
fn text(query: &Query) -> String {
    let labels = query.name().iter().map(|label| match str::from_utf8(label) {
        Ok(label) => label.replace('.', "\u{fffd}"),
        Err(_) => "\u{fffd}".to_owned(),
    });
    labels.collect::<Vec<_>>().join(".")
}
