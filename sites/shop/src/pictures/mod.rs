//! Pictures of the products, drawn: a shape in the product's colours on a table.

mod goods;
mod vessels;

use crate::store::catalogue::Product;

/// The picture as an SVG document.
pub fn draw(product: &Product) -> String {
    let paint = Paint::new(&product.color, &product.accent);
    let body = match product.shape.as_str() {
        "mug" => vessels::mug(&paint, &vessels::dipped(&paint)),
        "mug-speckled" => vessels::mug(&paint, &vessels::speckles(&paint)),
        "mug-enamel" => vessels::mug(&paint, &vessels::enamel_rim(&paint)),
        "mug-drip" => vessels::mug(&paint, &vessels::drips(&paint)),
        "cup" => vessels::cup(&paint),
        "tumbler" => vessels::tumbler(&paint),
        "teapot" => vessels::teapot(&paint),
        "kettle" => vessels::kettle(&paint),
        "press" => goods::press(&paint),
        "dripper" => goods::dripper(&paint),
        "grinder" => goods::grinder(&paint),
        "scoop" => goods::scoop(&paint),
        "box" => goods::carton(&paint),
        "plate" => vessels::plate(&paint),
        "bowl" => vessels::bowl(&paint),
        "jug" => vessels::jug(&paint),
        "board" => goods::board(&paint),
        "towel" => goods::towel(&paint),
        "apron" => goods::apron(&paint),
        "tin" => goods::tin(&paint),
        "bag" => goods::bag(&paint),
        "jar" => goods::jar(&paint),
        _ => vessels::mug(&paint, ""),
    };
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 400" role="img">{}{}{body}</svg>"##,
        definitions(&paint),
        table(&paint)
    )
}

/// The colours of one picture, as SVG takes them.
struct Paint {
    color: String,
    light: String,
    dark: String,
    accent: String,
    accent_dark: String,
    wall: String,
    table: String,
}

impl Paint {
    fn new(color: &str, accent: &str) -> Self {
        let (base, second) = (Rgb::parse(color), Rgb::parse(accent));
        Self {
            color: base.hex(),
            light: base.toward(WHITE, 0.28).hex(),
            dark: base.toward(BLACK, 0.38).hex(),
            accent: second.hex(),
            accent_dark: second.toward(BLACK, 0.3).hex(),
            wall: base.toward(CREAM, 0.84).hex(),
            table: base.toward(CREAM, 0.62).hex(),
        }
    }
}

#[derive(Clone, Copy)]
struct Rgb([u8; 3]);

const WHITE: Rgb = Rgb([255, 255, 255]);
const BLACK: Rgb = Rgb([24, 16, 12]);
const CREAM: Rgb = Rgb([250, 245, 236]);

impl Rgb {
    /// `#rrggbb`; anything else, which only loaded data can hold, is the colour of clay.
    fn parse(text: &str) -> Self {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii());
        let part = |at: usize| digits.and_then(|digits| u8::from_str_radix(&digits[at..at + 2], 16).ok());
        match (part(0), part(2), part(4)) {
            (Some(red), Some(green), Some(blue)) => Self([red, green, blue]),
            _ => Self([156, 122, 91]),
        }
    }

    fn toward(self, other: Self, share: f32) -> Self {
        let mix = |from: u8, to: u8| (f32::from(from) + (f32::from(to) - f32::from(from)) * share).round() as u8;
        Self([mix(self.0[0], other.0[0]), mix(self.0[1], other.0[1]), mix(self.0[2], other.0[2])])
    }

    fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0[0], self.0[1], self.0[2])
    }
}

fn definitions(p: &Paint) -> String {
    format!(
        r##"<defs><linearGradient id="b" x1="0" x2="1"><stop offset="0" stop-color="{l}"/><stop offset=".45" stop-color="{c}"/><stop offset="1" stop-color="{d}"/></linearGradient><linearGradient id="a" x1="0" x2="1"><stop offset="0" stop-color="{a}"/><stop offset="1" stop-color="{ad}"/></linearGradient><linearGradient id="w" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#fffdf9"/><stop offset="1" stop-color="{w}"/></linearGradient><radialGradient id="s"><stop offset="0" stop-color="#2a1c12" stop-opacity=".42"/><stop offset="1" stop-color="#2a1c12" stop-opacity="0"/></radialGradient></defs>"##,
        l = p.light,
        c = p.color,
        d = p.dark,
        a = p.accent,
        ad = p.accent_dark,
        w = p.wall
    )
}

fn table(p: &Paint) -> String {
    format!(
        r##"<rect width="400" height="400" fill="url(#w)"/><path d="M0 286H400V400H0Z" fill="{}"/><path d="M0 286H400" stroke="#fff" stroke-opacity=".5" stroke-width="2"/>"##,
        p.table
    )
}

fn shadow(cx: u32, cy: u32, rx: u32) -> String {
    format!(r##"<ellipse cx="{cx}" cy="{cy}" rx="{rx}" ry="{}" fill="url(#s)"/>"##, rx / 6)
}
