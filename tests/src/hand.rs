//! The hand and the eye of an agent at a computer: what a test does by picture, mouse and keyboard, through the gateway.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{PATIENCE, eventually, target};

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A part of the screen: left, top, width, height.
pub type Part = [u32; 4];

/// An agent at a computer.
pub struct Hand {
    /// Host and port of the gateway.
    address: String,
    /// The computer's path there, token included.
    base: String,
}

/// A picture of a screen.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels.
    pub width: usize,
    /// Pixels.
    pub height: usize,
    /// Red, green, blue, row by row.
    pub rgb: Vec<u8>,
    /// The file as it came.
    pub png: Vec<u8>,
}

impl Picture {
    #[track_caller]
    fn decode(png: Vec<u8>) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(&png)).read_info().expect("a PNG");
        let mut rgb = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut rgb).expect("a whole PNG");
        assert_eq!(info.color_type, png::ColorType::Rgb);
        let (width, height) = (info.width as usize, info.height as usize);
        drop(reader);
        Self { width, height, rgb, png }
    }

    /// How many pixels differ; all of them where the sizes do.
    pub fn differs(&self, other: &Self) -> usize {
        if (self.width, self.height) != (other.width, other.height) {
            return self.width * self.height;
        }
        self.rgb.chunks(3).zip(other.rgb.chunks(3)).filter(|(a, b)| a != b).count()
    }

    /// How many colours there are, up to a hundred.
    pub fn colours(&self) -> usize {
        let mut seen = std::collections::HashSet::new();
        self.rgb
            .chunks(3)
            .take_while(|pixel| {
                seen.insert(pixel.to_vec());
                seen.len() < 100
            })
            .for_each(drop);
        seen.len()
    }

    /// The upper edge of the first thing of a colour that is at least this wide: the middle of it, and its row.
    pub fn find(&self, colour: [u8; 3], wide: usize) -> Option<[usize; 2]> {
        self.rgb.chunks(3 * self.width).enumerate().find_map(|(y, row)| {
            let mut begin = 0;
            let pixels: Vec<bool> = row.chunks(3).map(|pixel| pixel == colour).chain([false]).collect();
            for (x, &is) in pixels.iter().enumerate() {
                if !is {
                    if x - begin >= wide {
                        return Some([begin + (x - begin) / 2, y]);
                    }
                    begin = x + 1;
                }
            }
            None
        })
    }

    /// Keeps it for people, below `target/screenshots`.
    pub fn keep(&self, name: &str) {
        let path: PathBuf = target().join("screenshots").join(format!("{name}.png"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(&path, &self.png).expect("the picture can be kept");
    }
}

impl Hand {
    /// An agent at the computer of this `cdp_url`.
    pub fn new(cdp_url: &str) -> Self {
        let rest = cdp_url.strip_prefix("http://").expect("a plain URL");
        let (address, path) = rest.split_once('/').expect("a path");
        Self { address: address.to_owned(), base: format!("/{path}") }
    }

    /// The status and the body of an answer.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("the gateway is there");
        stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a limit");
        let (base, length) = (&self.base, body.len());
        let head = format!(
            "{method} {base}{path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}",
            self.address
        );
        stream.write_all(head.as_bytes()).expect("the request can be sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let status = String::from_utf8_lossy(&answer[..end]).split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), answer.split_off(end + 4))
    }

    /// Does something; it must be done.
    #[track_caller]
    pub fn act(&self, action: &Value) -> Value {
        let (status, body) = self.ask("POST", "/act", &action.to_string());
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(status, 200, "{action}: {body}");
        body
    }

    /// Tries something that is refused; gives status, kind and message.
    #[track_caller]
    pub fn refused(&self, action: &str) -> (u16, String, String) {
        let (status, body) = self.ask("POST", "/act", action);
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        (status, text("kind"), text("message"))
    }

    /// Clicks.
    #[track_caller]
    pub fn click(&self, [x, y]: [usize; 2]) {
        self.act(&json!({ "action": "left_click", "coordinate": [x, y] }));
    }

    /// Presses keys.
    #[track_caller]
    pub fn key(&self, keys: &str) {
        self.act(&json!({ "action": "key", "text": keys }));
    }

    /// Types.
    #[track_caller]
    pub fn write(&self, text: &str) {
        self.act(&json!({ "action": "type", "text": text }));
    }

    /// The screen, or a part of it.
    #[track_caller]
    pub fn look(&self, part: Option<Part>) -> Picture {
        let query = part.map(|[x, y, width, height]| format!("?region={x},{y},{width},{height}")).unwrap_or_default();
        let (status, body) = self.ask("GET", &format!("/screenshot{query}"), "");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        Picture::decode(body)
    }

    /// Does something, and waits until at least this many pixels of a part have changed and come to rest.
    #[track_caller]
    pub fn changing(&self, part: Part, pixels: usize, work: impl FnOnce(&Self)) {
        let before = self.look(Some(part));
        work(self);
        let mut last = before.clone();
        eventually("the picture changed and came to rest", PATIENCE, || {
            let now = self.look(Some(part));
            let rests = now == last;
            last = now;
            (rests && last.differs(&before) >= pixels).then_some(())
        });
    }
}
