//! The pages of `echo.test`, by a server that parses as little as it can, so that what it says back is what came.
//!
//! | path | answer |
//! |---|---|
//! | `/` | an HTML page with the request in `<pre id="request">` |
//! | `/ws` | a WebSocket that echoes messages |
//! | `/events?count=20&ms=50` | server-sent events with the data `1`, `2`, ... |
//! | `/slow?ms=1000` | the request, after a while |
//! | `/drip?bytes=10&ms=100` | so many bytes, one at a time |
//! | `/big?bytes=1000000` | so many bytes |
//! | `/sink` | how long the body was, whatever its length |
//! | `/redirect?to=/&status=302` | a redirect |
//! | `/set-cookie?NAME=VALUE` | a cookie for each pair; `raw=...` is a whole header value |
//! | `/status?code=404` | that status |
//! | `/early` | 103, then 200 |
//! | `/trailers` | a chunked body with a trailer |
//! | `/hang` | nothing, ever |
//! | `/cut` | a closed connection |
//! | `/short` | half of the body that was announced, then a closed connection |
//! | `/garbage` | what is not HTTP |
//! | `/api/...` | 404: the operations are the server's |
//! | anything else | the request as `text/plain`, byte for byte |

mod answers;
mod connection;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use agentenv_sdk::{Error, Result};
use echo::{FOLDER, Log};
use tokio::net::TcpListener;

use crate::connection::Connection;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo-raw: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> Result<()> {
    let port = std::env::var("PORT").ok().and_then(|port| port.parse::<u16>().ok());
    let port = port.ok_or_else(|| Error::internal("PORT is not a port"))?;
    let data_dir = std::env::var_os("AGENTENV_DATA_DIR").map_or_else(|| PathBuf::from("/data"), PathBuf::from);
    let log = Arc::new(Log::within(&data_dir.join(FOLDER)));
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    eprintln!("echo-raw listens at http://{}", listener.local_addr()?);
    for number in 1.. {
        let (stream, _) = listener.accept().await?;
        // A client that is gone already is its connection's business.
        let _ = stream.set_nodelay(true);
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            if let Err(error) = answers::serve(Connection::new(stream, number), &log).await {
                eprintln!("connection {number}: {error}");
            }
        });
    }
    Ok(())
}
