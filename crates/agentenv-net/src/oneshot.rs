//! One HTTP request on a connection of its own, with an answer of bounded size.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use tokio::net::TcpStream;

use crate::hop;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OneshotError {
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error("its body is broken, or longer than {0} bytes")]
    Body(usize),
}

/// Sends the request and reads the answer. The caller limits the time.
pub(crate) async fn send(
    stream: TcpStream,
    mut request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<Response<Bytes>, OneshotError> {
    let _ = stream.set_nodelay(true);
    let (mut sender, connection, interim) = hop::handshake(stream).await?;
    interim.count(&mut request);
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, limit).collect().await.map_err(|_| OneshotError::Body(limit))?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answer = answer.as_mut() => answer,
        ended = connection.as_mut() => {
            // The last bytes may have come with the end.
            ended?;
            answer.await
        }
    }
}
