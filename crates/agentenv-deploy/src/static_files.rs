//! Serves a static folder: the process of a website whose frontend is `static` (CAP-2).

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Component, Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// The hidden command of the program that serves the folder named by its argument on `$PORT`.
pub const STATIC_COMMAND: &str = "internal-static";
/// The largest file served: it is read whole, in the site's own sandbox.
const FILE_LIMIT: u64 = 256 << 20;

/// Serves until it is killed.
pub fn static_main(arguments: &[String]) -> ExitCode {
    let port = std::env::var("PORT").ok().and_then(|port| port.parse().ok());
    let (Some(folder), Some(port)) = (arguments.first(), port) else { return ExitCode::from(2) };
    let served = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(serve(PathBuf::from(folder), port)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, port, "static folder");
            ExitCode::FAILURE
        }
    }
}

async fn serve(folder: PathBuf, port: u16) -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let router = Router::new().fallback(answer).with_state(Arc::new(folder));
    axum::serve(listener, router).await
}

async fn answer(State(folder): State<Arc<PathBuf>>, request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let Some(path) = relative(request.uri().path()) else { return StatusCode::NOT_FOUND.into_response() };
    let read = tokio::task::spawn_blocking(move || find(&folder, &path)).await;
    match read {
        Ok(Ok((path, bytes))) => ([(header::CONTENT_TYPE, media_type(&path))], bytes).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A request's path within the folder; `None` where it is none.
fn relative(path: &str) -> Option<PathBuf> {
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let path = Path::new(path.trim_start_matches('/'));
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !path.as_os_str().as_encoded_bytes().contains(&0)).then(|| path.to_owned())
}

fn find(folder: &Path, path: &Path) -> io::Result<(PathBuf, Vec<u8>)> {
    let root = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let read = |path: &Path| -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = std::fs::File::from(openat2(&root, path, flags, Mode::empty(), ResolveFlags::BENEATH)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() > FILE_LIMIT {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, FILE_LIMIT), &mut bytes)?;
        Ok(bytes)
    };
    let index = path.join("index.html");
    if path.as_os_str().is_empty() {
        return read(&index).map(|bytes| (index, bytes));
    }
    read(path).map(|bytes| (path.to_owned(), bytes)).or_else(|_| read(&index).map(|bytes| (index, bytes)))
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "xml" => "application/xml",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_folder() {
        for (path, within) in [
            ("/", Some("")),
            ("/a/b.css", Some("a/b.css")),
            ("/%61", Some("a")),
            ("/../x", None),
            ("/%2e%2e/x", None),
            ("/a%00", None),
        ] {
            assert_eq!(relative(path).as_deref(), within.map(Path::new), "{path}");
        }
    }

    #[test]
    fn row_55_links_out_of_the_folder_and_pipes_are_not_served() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "hello").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        assert_eq!(find(folder.path(), Path::new("")).unwrap().1, b"hello");
        assert!(find(folder.path(), Path::new("link")).is_err());
        assert!(find(folder.path(), Path::new("pipe")).is_err());
    }
}
