//! Fonts inside a sandbox: those of `/usr/share/fonts`, with the rules that Debian applies.

use std::{fmt::Write, fs};

/// Where the host keeps what it knows about its fonts.
const HOST_CACHE: &str = "/var/cache/fontconfig";
/// The cache of 50 fonts is 70 KB; a machine with thousands goes without, and its browsers scan at start.
const MAX_CACHE_BYTES: u64 = 4 * 1024 * 1024;

/// Debian's default rules, in their order: `/etc/fonts/conf.d` is links to these.
const RULES: [&str; 20] = [
    "10-hinting-slight.conf",
    "10-scale-bitmap-fonts.conf",
    "10-yes-antialias.conf",
    "11-lcdfilter-default.conf",
    "20-unhint-small-vera.conf",
    "30-metric-aliases.conf",
    "40-nonlatin.conf",
    "45-generic.conf",
    "45-latin.conf",
    "48-spacing.conf",
    "49-sansserif.conf",
    "60-generic.conf",
    "60-latin.conf",
    "65-fonts-persian.conf",
    "65-nonlatin.conf",
    "69-unifont.conf",
    "70-fonts-noto-cjk.conf",
    "70-no-bitmaps.conf",
    "80-delicious.conf",
    "90-synthetic.conf",
];

/// Where Liberation is installed it comes first: sites are made for Arial, Times and Courier, whose measures it has, and
/// DejaVu before it would draw emoji in black, from glyphs of its own.
const PREFERRED: &str = "\
<alias><family>sans-serif</family><prefer><family>Liberation Sans</family></prefer></alias>
<alias><family>serif</family><prefer><family>Liberation Serif</family></prefer></alias>
<alias><family>monospace</family><prefer><family>Liberation Mono</family></prefer></alias>
";

/// The text of `/etc/fonts/fonts.conf`.
pub(super) fn configuration() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"urn:fontconfig:fonts.dtd\">\n<fontconfig>\n\
         <dir>/usr/share/fonts</dir>\n\
         <cachedir>/etc/fonts/cache</cachedir>\n\
         <cachedir prefix=\"xdg\">fontconfig</cachedir>\n",
    );
    text.push_str(PREFERRED);
    for rule in RULES {
        writeln!(text, "<include ignore_missing=\"yes\">/usr/share/fontconfig/conf.avail/{rule}</include>")
            .expect("writing to a String");
    }
    // Fonts don't change during an episode.
    text.push_str("<config><rescan><int>0</int></rescan></config>\n</fontconfig>\n");
    text
}

/// Reads the host's font cache as files of the generated `/etc`: without it each browser scans every font at its start
/// (80 ms for Debian's CJK fonts). It holds no secrets and is checked against the fonts by fontconfig, so a stale or
/// missing one only costs time.
pub fn font_cache() -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(HOST_CACHE) else { return Vec::new() };
    let mut files = Vec::new();
    let mut total = 0;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() || !name.contains(".cache-") {
            continue;
        }
        total += metadata.len();
        if total > MAX_CACHE_BYTES {
            return Vec::new();
        }
        if let Ok(bytes) = fs::read(entry.path()) {
            files.push((format!("fonts/cache/{name}"), bytes));
        }
    }
    files.sort();
    files
}
