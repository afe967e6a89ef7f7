//! One connection: requests as bytes.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The longest head: far over what proxies pass on.
const MAX_HEAD_BYTES: usize = 1024 * 1024;
/// The longest body that is kept to be said back; `/sink` takes longer ones.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

pub struct Connection {
    pub stream: TcpStream,
    pub number: u64,
    /// Read, and not yet part of a request.
    ahead: Vec<u8>,
}

/// A request's head.
pub struct Head {
    pub bytes: Vec<u8>,
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The path, without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.parameters().into_iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// All parameters of the query, decoded.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect()
    }

    /// A parameter that is a number.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.parameter(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// Whether the client wants no further answer on this connection.
    pub fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.to_ascii_lowercase().contains("close"))
            || self.bytes.split(|b| *b == b'\n').next().is_some_and(|line| line.ends_with(b"HTTP/1.0\r"))
    }
}

/// Percent-decodes; what isn't an escape stays.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        match escaped.and_then(|digits| hex::decode(digits).ok()) {
            Some(byte) => {
                out.extend(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Connection {
    pub fn new(stream: TcpStream, number: u64) -> Self {
        Self { stream, number, ahead: Vec::new() }
    }

    /// The stream, and what was read of it beyond the last request.
    pub fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.ahead)
    }

    /// The next head; none once the client has closed.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        let end = loop {
            if let Some(end) = find(&self.ahead, b"\r\n\r\n") {
                break end + 4;
            }
            if self.ahead.len() > MAX_HEAD_BYTES {
                return Err(io::Error::other("the head is too long"));
            }
            if !self.fill().await? {
                return if self.ahead.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        let rest = self.ahead.split_off(end);
        let bytes = std::mem::replace(&mut self.ahead, rest);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut lines = text.split("\r\n");
        let mut line = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (line.next().unwrap_or_default().to_owned(), line.next().unwrap_or_default().to_owned());
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Some(Head { bytes, method, target, headers }))
    }

    /// The body as it came, chunks and all.
    pub async fn body(&mut self, head: &Head) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.each_piece(head, |piece| {
            body.extend_from_slice(piece);
            if body.len() > MAX_BODY_BYTES { Err(io::Error::other("the body is too long")) } else { Ok(()) }
        })
        .await?;
        Ok(body)
    }

    /// Reads the body past, whatever its length.
    pub async fn skip_body(&mut self, head: &Head) -> io::Result<u64> {
        let mut length = 0;
        self.each_piece(head, |piece| {
            length += piece.len() as u64;
            Ok(())
        })
        .await?;
        Ok(length)
    }

    async fn each_piece(&mut self, head: &Head, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let chunked =
            head.header("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
        if !chunked {
            let length = head.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
            return self.pieces(length, &mut take).await;
        }
        loop {
            let line = self.line(&mut take).await?;
            let size = line.split(';').next().unwrap_or_default().trim().to_owned();
            let size = usize::from_str_radix(&size, 16).map_err(|_| io::Error::other("a chunk has no size"))?;
            if size == 0 {
                // Trailers, and the empty line after them.
                while !self.line(&mut take).await?.is_empty() {}
                return Ok(());
            }
            self.pieces(size + 2, &mut take).await?;
        }
    }

    async fn pieces(&mut self, mut left: usize, take: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        while left > 0 {
            if self.ahead.is_empty() && !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let piece: Vec<u8> = self.ahead.drain(..left.min(self.ahead.len())).collect();
            left -= piece.len();
            take(&piece)?;
        }
        Ok(())
    }

    async fn line(&mut self, take: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<String> {
        let end = loop {
            if let Some(end) = find(&self.ahead, b"\r\n") {
                break end;
            }
            if self.ahead.len() > MAX_HEAD_BYTES || !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let line: Vec<u8> = self.ahead.drain(..end + 2).collect();
        take(&line)?;
        Ok(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Reads on; false at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.ahead).await? > 0)
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn requests(sent: &'static [u8]) -> Vec<(String, Vec<u8>)> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let mut connection = Connection::new(listener.accept().await.unwrap().0, 1);
        let mut requests = Vec::new();
        while let Some(head) = connection.head().await.unwrap() {
            let body = connection.body(&head).await.unwrap();
            requests.push((head.target.clone(), [head.bytes, body].concat()));
        }
        requests
    }

    #[tokio::test]
    async fn pipelined_requests_come_apart_byte_for_byte() {
        let (first, second, third) = (
            &b"POST /a?x=%41 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"[..],
            &b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n"[..],
            &b"GET /\xff HTTP/1.1\r\nhOsT:  b \r\n\r\n"[..],
        );
        let sent: &'static [u8] = Vec::leak([first, second, third].concat());
        let came = requests(sent).await;
        let bytes: Vec<&[u8]> = came.iter().map(|(_, bytes)| &bytes[..]).collect();
        assert_eq!(bytes, [first, second, third]);
        assert_eq!(came[1].0, "/b");
    }

    #[test]
    fn parameters_are_decoded() {
        let target = "/p?to=%2Fx%3Fy&n=12&flag&bad=%zz".to_owned();
        let head = Head { bytes: Vec::new(), method: String::new(), target, headers: Vec::new() };
        assert_eq!((head.path(), head.parameter("to").as_deref()), ("/p", Some("/x?y")));
        assert_eq!((head.number("n", 1), head.number("flag", 7)), (12, 7));
        assert_eq!(head.parameter("bad").as_deref(), Some("%zz"));
    }
}
