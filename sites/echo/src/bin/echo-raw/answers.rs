//! What each path answers.

use std::{io, time::Duration};

use echo::Log;
use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

use crate::connection::{Connection, Head};

/// The longest that anything waits, whatever a request asks for.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// The longest answer.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024 * 1024;
/// A piece of a long answer.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers the requests of one connection.
pub async fn serve(mut connection: Connection, log: &Log) -> io::Result<()> {
    while let Some(head) = connection.head().await? {
        if head.path() == "/ws" && head.header("upgrade").is_some() {
            log.add(connection.number, &head.target, &head.bytes)?;
            return web_socket(connection, &head).await;
        }
        let raw = if head.path() == "/sink" {
            log.add(connection.number, &head.target, &head.bytes)?;
            head.bytes.clone()
        } else {
            let body = connection.body(&head).await?;
            let raw = [&head.bytes[..], &body].concat();
            log.add(connection.number, &head.target, &raw)?;
            raw
        };
        let keep = answer(&mut connection, &head, &raw).await?;
        if !keep || head.closes() {
            connection.stream.shutdown().await?;
            return Ok(());
        }
    }
    Ok(())
}

/// Answers one request; false ends the connection.
async fn answer(connection: &mut Connection, head: &Head, raw: &[u8]) -> io::Result<bool> {
    match head.path() {
        "/" => send(connection, head, "200 OK", &[("Content-Type", "text/html; charset=utf-8")], &page(raw)).await?,
        "/events" => return events(connection, head).await,
        "/slow" => {
            wait(head.number("ms", 1000)).await;
            echo(connection, head, raw).await?;
        }
        "/drip" => drip(connection, head).await?,
        "/big" => big(connection, head).await?,
        "/sink" => {
            let length = connection.skip_body(head).await?;
            send(connection, head, "200 OK", &[], format!("{length}\n").as_bytes()).await?;
        }
        "/redirect" => {
            let to = clean(&head.parameter("to").unwrap_or_else(|| "/".to_owned()));
            let status = format!("{} Redirect", head.number("status", 302));
            send(connection, head, &status, &[("Location", &to)], b"").await?;
        }
        "/set-cookie" => set_cookies(connection, head).await?,
        "/status" => {
            let status = format!("{} Status", head.number("code", 404));
            send(connection, head, &status, &[], b"status\n").await?;
        }
        "/early" => {
            connection.stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </big>; rel=preload\r\n\r\n").await?;
            echo(connection, head, raw).await?;
        }
        "/trailers" => {
            let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\n\
                X-Sum: 5\r\n\r\n";
            connection.stream.write_all(answer.as_bytes()).await?;
        }
        "/hang" => wait(u64::MAX).await,
        "/cut" => return Ok(false),
        "/short" => {
            connection.stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello").await?;
            return Ok(false);
        }
        "/garbage" => {
            connection.stream.write_all(b"\x16\x03this is not HTTP\r\n\r\n").await?;
            return Ok(false);
        }
        // The operations are the server's: here they are no pages.
        path if path.starts_with("/api/") => send(connection, head, "404 Not Found", &[], b"not found\n").await?,
        _ => echo(connection, head, raw).await?,
    }
    Ok(true)
}

async fn echo(connection: &mut Connection, head: &Head, raw: &[u8]) -> io::Result<()> {
    send(connection, head, "200 OK", &[("Content-Type", "text/plain; charset=utf-8")], raw).await
}

async fn send(
    connection: &mut Connection,
    head: &Head,
    status: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    connection.stream.write_all(text.as_bytes()).await?;
    if head.method != "HEAD" {
        connection.stream.write_all(body).await?;
    }
    Ok(())
}

fn page(raw: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(raw).replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<html lang=\"en\"><title>echo</title>\n<h1>What you sent</h1>\n<pre id=\"request\">{text}</pre>\n\
         </html>\n"
    )
    .into_bytes()
}

async fn events(connection: &mut Connection, head: &Head) -> io::Result<bool> {
    let start =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
    connection.stream.write_all(start.as_bytes()).await?;
    for number in 1..=head.number("count", 20) {
        connection.stream.write_all(format!("id: {number}\ndata: {number}\n\n").as_bytes()).await?;
        wait(head.number("ms", 50)).await;
    }
    Ok(false)
}

async fn drip(connection: &mut Connection, head: &Head) -> io::Result<()> {
    let bytes = head.number("bytes", 10).min(MAX_ANSWER_BYTES);
    connection.stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes()).await?;
    for _ in 0..bytes {
        wait(head.number("ms", 100)).await;
        connection.stream.write_all(b".").await?;
    }
    Ok(())
}

async fn big(connection: &mut Connection, head: &Head) -> io::Result<()> {
    let mut left = head.number("bytes", 1_000_000).min(MAX_ANSWER_BYTES);
    connection.stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n").as_bytes()).await?;
    // The same bytes in every answer, and no piece like the one before: 251 is prime.
    let pattern: Vec<u8> = (0..PIECE_BYTES + 251).map(|index| (index % 251) as u8).collect();
    let mut at = 0;
    while left > 0 {
        let piece = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
        connection.stream.write_all(&pattern[at..at + piece]).await?;
        at = (at + piece) % 251;
        left -= piece as u64;
    }
    Ok(())
}

async fn set_cookies(connection: &mut Connection, head: &Head) -> io::Result<()> {
    let cookies: Vec<String> = head
        .parameters()
        .into_iter()
        .map(|(name, value)| clean(&if name == "raw" { value } else { format!("{name}={value}; Path=/") }))
        .collect();
    let headers: Vec<(&str, &str)> = cookies.iter().map(|cookie| ("Set-Cookie", cookie.as_str())).collect();
    send(connection, head, "200 OK", &headers, b"set\n").await
}

/// A header's value out of a query: no line ends in it.
fn clean(text: &str) -> String {
    text.replace(['\r', '\n'], "")
}

async fn wait(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms).min(MAX_WAIT)).await;
}

async fn web_socket(mut connection: Connection, head: &Head) -> io::Result<()> {
    let key = head.header("sec-websocket-key").unwrap_or_default();
    let accept = derive_accept_key(key.as_bytes());
    let mut answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
    );
    // The first subprotocol that is offered is as good as any.
    if let Some(offered) = head.header("sec-websocket-protocol") {
        let first = offered.split(',').next().unwrap_or_default().trim();
        answer.push_str(&format!("Sec-WebSocket-Protocol: {first}\r\n"));
    }
    answer.push_str("\r\n");
    connection.stream.write_all(answer.as_bytes()).await?;
    let (stream, ahead) = connection.into_parts();
    let mut socket = WebSocketStream::from_partially_read(stream, ahead, Role::Server, None).await;
    while let Some(message) = socket.next().await {
        let message = message.map_err(io::Error::other)?;
        if matches!(message, Message::Text(_) | Message::Binary(_)) {
            socket.send(message).await.map_err(io::Error::other)?;
        }
    }
    Ok(())
}
