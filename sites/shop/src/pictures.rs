//! Pictures of the products, drawn: a shape in the product's colours on a table.

use crate::store::catalogue::Product;

/// The picture as an SVG document.
pub fn draw(product: &Product) -> String {
    let paint = Paint::new(&product.color, &product.accent);
    let body = match product.shape.as_str() {
        "mug" => mug(&paint, &dipped(&paint)),
        "mug-speckled" => mug(&paint, &speckles(&paint)),
        "mug-enamel" => mug(&paint, &enamel_rim(&paint)),
        "mug-drip" => mug(&paint, &drips(&paint)),
        "cup" => cup(&paint),
        "tumbler" => tumbler(&paint),
        "teapot" => teapot(&paint),
        "kettle" => kettle(&paint),
        "press" => press(&paint),
        "dripper" => dripper(&paint),
        "grinder" => grinder(&paint),
        "scoop" => scoop(&paint),
        "box" => carton(&paint),
        "plate" => plate(&paint),
        "bowl" => bowl(&paint),
        "jug" => jug(&paint),
        "board" => board(&paint),
        "towel" => towel(&paint),
        "apron" => apron(&paint),
        "tin" => tin(&paint),
        "bag" => bag(&paint),
        "jar" => jar(&paint),
        _ => mug(&paint, ""),
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

const MUG: &str = "M108 124 L114 300 Q116 326 142 328 H218 Q244 326 246 300 L252 124 Z";

fn mug(p: &Paint, glaze: &str) -> String {
    format!(
        r##"{shadow}<path d="M246 162 C330 146 334 268 244 272" fill="none" stroke="{dark}" stroke-width="22" stroke-linecap="round"/><path d="M248 158 C324 146 326 256 246 264" fill="none" stroke="{color}" stroke-width="15" stroke-linecap="round"/><clipPath id="m"><path d="{MUG}"/></clipPath><path d="{MUG}" fill="url(#b)"/><g clip-path="url(#m)">{glaze}<path d="M128 128 L134 318" stroke="#fff" stroke-opacity=".3" stroke-width="9" fill="none"/></g><ellipse cx="180" cy="124" rx="72" ry="17" fill="{light}"/><ellipse cx="180" cy="126" rx="62" ry="12" fill="{dark}"/><ellipse cx="180" cy="130" rx="54" ry="8" fill="#3b2416"/>"##,
        shadow = shadow(190, 328, 120),
        dark = p.dark,
        color = p.color,
        light = p.light
    )
}

fn dipped(p: &Paint) -> String {
    format!(r##"<path d="M90 236 Q140 222 184 238 T270 230 V340 H90Z" fill="{}" opacity=".92"/>"##, p.accent)
}

fn speckles(p: &Paint) -> String {
    // A fixed scatter: squares modulo primes look like chance.
    (0..64)
        .map(|i| {
            let (x, y, r) = (110 + (i * i * 7 + i * 31) % 139, 142 + (i * i * 11 + i * 17) % 181, 1 + i % 3);
            format!(r##"<circle cx="{x}" cy="{y}" r="{r}" fill="{}" opacity=".75"/>"##, p.accent)
        })
        .collect()
}

fn enamel_rim(p: &Paint) -> String {
    format!(
        r##"<path d="M100 118H260V140H100Z" fill="{a}"/><path d="M104 312H256V330H104Z" fill="{a}" opacity=".85"/><path d="M204 214a24 24 0 1 1-48 0 24 24 0 1 1 48 0" fill="none" stroke="#fff" stroke-opacity=".75" stroke-width="4"/><path d="M180 194v40M160 214h40" stroke="#fff" stroke-opacity=".75" stroke-width="4"/>"##,
        a = p.accent
    )
}

fn drips(p: &Paint) -> String {
    format!(
        r##"<path d="M96 116H264V176 q-6 44-18 6 t-22 10 q-8 62-20 2 t-26 4 q-8 34-20-2 t-24 12 q-8 40-18-8 t-20-4Z" fill="{}" opacity=".9"/>"##,
        p.accent
    )
}

fn cup(p: &Paint) -> String {
    format!(
        r##"{shadow}<ellipse cx="194" cy="310" rx="128" ry="26" fill="{dark}"/><ellipse cx="194" cy="304" rx="128" ry="26" fill="url(#b)"/><ellipse cx="194" cy="303" rx="70" ry="12" fill="{dark}" opacity=".35"/><path d="M252 206 C318 196 316 268 240 268" fill="none" stroke="{color}" stroke-width="14"/><path d="M120 186 C120 268 154 302 190 302 S260 268 260 186Z" fill="url(#b)"/><path d="M138 200 C142 254 158 280 176 290" stroke="#fff" stroke-opacity=".4" stroke-width="8" fill="none" stroke-linecap="round"/><ellipse cx="190" cy="186" rx="70" ry="16" fill="{light}" stroke="{accent}" stroke-width="4"/><ellipse cx="190" cy="189" rx="58" ry="11" fill="#4a2c18"/><ellipse cx="186" cy="188" rx="36" ry="6" fill="#9b6a3c" opacity=".7"/>"##,
        shadow = shadow(194, 326, 150),
        dark = p.dark,
        color = p.color,
        light = p.light,
        accent = p.accent
    )
}

fn tumbler(p: &Paint) -> String {
    let ribs: String = (0..9)
        .map(|i| {
            let x = 140 + i * 15;
            format!(
                r##"<path d="M{x} 150 L{} 318" stroke="{}" stroke-opacity=".45" stroke-width="4"/>"##,
                x + (4 - i),
                p.accent
            )
        })
        .collect();
    format!(
        r##"{shadow}<path d="M128 134 L142 308 Q146 328 170 328 H230 Q254 328 258 308 L272 134Z" fill="url(#b)"/>{ribs}<ellipse cx="200" cy="134" rx="72" ry="17" fill="{light}"/><ellipse cx="200" cy="137" rx="62" ry="12" fill="{dark}"/>"##,
        shadow = shadow(200, 328, 110),
        light = p.light,
        dark = p.dark
    )
}

fn teapot(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M282 214 C366 186 372 306 276 290" fill="none" stroke="{dark}" stroke-width="20"/><path d="M284 210 C356 188 360 292 278 282" fill="none" stroke="{color}" stroke-width="12"/><path d="M118 270 C78 262 76 206 42 186 L64 176 C96 188 104 222 134 222Z" fill="url(#b)"/><ellipse cx="200" cy="244" rx="98" ry="84" fill="url(#b)"/><path d="M128 214 C138 188 156 176 174 170" stroke="#fff" stroke-opacity=".45" stroke-width="11" fill="none" stroke-linecap="round"/><path d="M104 258 Q200 300 296 258" stroke="{accent}" stroke-width="6" fill="none" opacity=".8"/><path d="M146 172 Q200 132 254 172 Q200 190 146 172Z" fill="url(#b)" stroke="{dark}" stroke-opacity=".4" stroke-width="2"/><circle cx="200" cy="143" r="13" fill="{accent}"/><path d="M156 322 H244" stroke="{dark}" stroke-width="10" stroke-linecap="round"/>"##,
        shadow = shadow(200, 326, 140),
        dark = p.dark,
        color = p.color,
        accent = p.accent
    )
}

fn kettle(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M126 300 C70 306 96 196 56 158 L40 166" fill="none" stroke="{color}" stroke-width="13" stroke-linecap="round"/><path d="M132 316 L152 190 H256 L276 316 Q276 326 262 326 H146 Q132 326 132 316Z" fill="url(#b)"/><path d="M166 198 L152 314" stroke="#fff" stroke-opacity=".35" stroke-width="10" stroke-linecap="round"/><path d="M152 190 Q204 158 256 190Z" fill="{dark}"/><circle cx="204" cy="164" r="11" fill="{accent}"/><path d="M264 214 C352 190 360 292 282 298" fill="none" stroke="{accent}" stroke-width="17" stroke-linecap="round"/><path d="M134 306 H274" stroke="{dark}" stroke-opacity=".6" stroke-width="6"/>"##,
        shadow = shadow(204, 328, 130),
        dark = p.dark,
        color = p.color,
        accent = p.accent
    )
}

fn press(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M268 176 C330 172 330 288 268 286" fill="none" stroke="{color}" stroke-width="18"/><rect x="138" y="150" width="130" height="174" rx="10" fill="#dfeaec" opacity=".85"/><path d="M140 214 H266 V314 Q266 322 258 322 H148 Q140 322 140 314Z" fill="#4a2c18"/><rect x="140" y="206" width="126" height="10" fill="#a9b3b5"/><path d="M152 160 V312" stroke="#fff" stroke-opacity=".6" stroke-width="8"/><path d="M132 150 H276 V168 H132Z M132 300 H276 V326 H132Z" fill="url(#b)"/><path d="M140 150 V320 M266 150 V320" stroke="{color}" stroke-width="7"/><path d="M134 150 Q204 112 274 150Z" fill="{color}"/><path d="M204 90 V206" stroke="#8f999b" stroke-width="6"/><circle cx="204" cy="84" r="15" fill="{accent}"/>"##,
        shadow = shadow(204, 328, 120),
        color = p.color,
        accent = p.accent
    )
}

fn dripper(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M150 218 C150 236 112 262 112 296 Q112 326 144 326 H256 Q288 326 288 296 C288 262 250 236 250 218Z" fill="#dfeaec" opacity=".88"/><path d="M118 282 Q200 268 282 282 V298 Q282 320 256 320 H144 Q118 320 118 298Z" fill="#5a341b"/><path d="M136 250 C126 266 122 276 122 290" stroke="#fff" stroke-width="8" stroke-opacity=".7" fill="none" stroke-linecap="round"/><rect x="146" y="206" width="108" height="18" rx="6" fill="url(#a)"/><path d="M108 110 H292 L236 206 H164Z" fill="url(#b)"/><path d="M138 118 L178 200 M166 118 L190 200 M200 118 V200 M234 118 L210 200 M262 118 L222 200" stroke="{dark}" stroke-opacity=".28" stroke-width="4"/><ellipse cx="200" cy="110" rx="92" ry="16" fill="{light}"/><path d="M118 112 Q200 132 282 112 Q200 92 118 112Z" fill="#a5764c"/>"##,
        shadow = shadow(200, 328, 128),
        dark = p.dark,
        light = p.light
    )
}

fn grinder(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M200 96 H296" stroke="#7e8788" stroke-width="10" stroke-linecap="round"/><circle cx="300" cy="84" r="18" fill="url(#a)"/><path d="M200 92 V128" stroke="#7e8788" stroke-width="12"/><path d="M152 132 Q200 106 248 132 V146 H152Z" fill="{dark}"/><rect x="150" y="144" width="100" height="112" rx="8" fill="url(#b)"/><rect x="146" y="222" width="108" height="20" fill="url(#a)"/><rect x="154" y="254" width="92" height="72" rx="10" fill="url(#b)"/><path d="M170 150 V320" stroke="#fff" stroke-opacity=".25" stroke-width="10"/>"##,
        shadow = shadow(200, 328, 92),
        dark = p.dark
    )
}

fn scoop(p: &Paint) -> String {
    let beans: String = (0..9)
        .map(|i| {
            let (x, y) = (108 + (i * 29) % 86, 196 + (i * 17) % 30);
            format!(
                r##"<ellipse cx="{x}" cy="{y}" rx="13" ry="9" transform="rotate({} {x} {y})" fill="#3b2416"/><path d="M{} {y}h18" stroke="#8a5a33" stroke-width="2"/>"##,
                i * 40,
                x - 9
            )
        })
        .collect();
    format!(
        r##"{shadow}<path d="M214 214 L342 146 Q360 142 356 160 L226 252Z" fill="url(#a)"/>{beans}<path d="M84 210 C84 286 120 312 158 312 S232 286 232 210 Q158 232 84 210Z" fill="url(#b)"/><path d="M102 232 C106 270 124 290 140 298" stroke="#fff" stroke-opacity=".3" stroke-width="8" fill="none" stroke-linecap="round"/><path d="M84 210 Q158 236 232 210" stroke="{light}" stroke-width="6" fill="none"/>"##,
        shadow = shadow(166, 316, 110),
        light = p.light
    )
}

fn carton(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M104 152 L200 128 L296 152 V306 L200 328 L104 306Z" fill="url(#b)"/><path d="M200 176 V328 L296 306 V152Z" fill="{dark}" opacity=".35"/><path d="M104 152 L200 176 L296 152 L200 128Z" fill="{light}"/><path d="M124 206 L180 220 V282 L124 268Z" fill="{accent}"/><path d="M134 222 L170 230 L152 264Z" fill="{light}"/>"##,
        shadow = shadow(200, 328, 130),
        dark = p.dark,
        light = p.light,
        accent = p.accent
    )
}

fn plate(p: &Paint) -> String {
    format!(
        r##"{shadow}<ellipse cx="200" cy="262" rx="158" ry="78" fill="{dark}" opacity=".6"/><ellipse cx="200" cy="252" rx="158" ry="78" fill="url(#b)"/><ellipse cx="200" cy="252" rx="151" ry="73" fill="none" stroke="{accent}" stroke-width="7"/><ellipse cx="200" cy="254" rx="106" ry="48" fill="{light}"/><ellipse cx="200" cy="256" rx="106" ry="48" fill="none" stroke="{dark}" stroke-opacity=".25" stroke-width="3"/><path d="M70 232 Q96 196 152 186" stroke="#fff" stroke-opacity=".7" stroke-width="8" fill="none" stroke-linecap="round"/>"##,
        shadow = shadow(200, 332, 170),
        dark = p.dark,
        light = p.light,
        accent = p.accent
    )
}

fn bowl(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M68 188 C74 280 134 320 200 320 S326 280 332 188Z" fill="url(#b)"/><path d="M150 316 H250 L242 330 H158Z" fill="{dark}"/><path d="M92 218 C102 262 126 286 152 300" stroke="#fff" stroke-opacity=".3" stroke-width="10" fill="none" stroke-linecap="round"/><ellipse cx="200" cy="188" rx="132" ry="36" fill="{light}"/><ellipse cx="200" cy="191" rx="122" ry="30" fill="url(#a)"/><path d="M92 198 Q200 246 308 198" fill="{accent_dark}" opacity=".5"/>"##,
        shadow = shadow(200, 328, 120),
        dark = p.dark,
        light = p.light,
        accent_dark = p.accent_dark
    )
}

fn jug(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M256 170 C330 158 330 276 250 284" fill="none" stroke="{color}" stroke-width="16"/><path d="M140 132 C150 178 116 214 116 262 Q116 326 160 326 H228 Q272 326 272 262 C272 214 248 178 256 132Z" fill="url(#b)"/><path d="M140 132 L108 116 Q134 108 160 122Z" fill="{color}"/><ellipse cx="198" cy="130" rx="58" ry="14" fill="{light}"/><ellipse cx="198" cy="132" rx="48" ry="9" fill="#fffdf7"/><path d="M118 246 Q194 262 270 246" stroke="{accent}" stroke-width="6" fill="none"/><path d="M118 258 Q194 274 270 258" stroke="{accent}" stroke-width="3" fill="none"/><path d="M142 196 C132 226 132 260 138 292" stroke="#fff" stroke-opacity=".7" stroke-width="10" fill="none" stroke-linecap="round"/>"##,
        shadow = shadow(196, 328, 120),
        color = p.color,
        light = p.light,
        accent = p.accent
    )
}

fn board(p: &Paint) -> String {
    let grain: String = (0..6)
        .map(|i| {
            let y = 150 + i * 27;
            format!(
                r##"<path d="M84 {y} Q170 {} 292 {y}" stroke="{}" stroke-opacity=".35" stroke-width="3" fill="none"/>"##,
                y + if i % 2 == 0 { 12 } else { -10 },
                p.accent
            )
        })
        .collect();
    format!(
        r##"{shadow}<g transform="rotate(-9 200 220)"><path d="M76 132 Q76 118 92 118 H268 Q292 118 298 160 Q318 196 366 198 Q382 208 366 220 Q318 224 298 262 Q292 308 268 308 H92 Q76 308 76 294Z" fill="{dark}" transform="translate(3 10)"/><path d="M76 132 Q76 118 92 118 H268 Q292 118 298 160 Q318 196 366 198 Q382 208 366 220 Q318 224 298 262 Q292 308 268 308 H92 Q76 308 76 294Z" fill="url(#b)"/>{grain}<circle cx="346" cy="209" r="6" fill="{dark}"/></g>"##,
        shadow = shadow(200, 330, 160),
        dark = p.dark
    )
}

fn towel(p: &Paint) -> String {
    let stripes: String = [164, 180, 262, 278]
        .iter()
        .map(|y| format!(r##"<path d="M96 {y} H304" stroke="{}" stroke-width="7"/>"##, p.accent))
        .collect();
    format!(
        r##"{shadow}<path d="M88 300 H312 V322 Q200 334 88 322Z" fill="{dark}" opacity=".7"/><path d="M92 128 Q200 112 308 128 V316 Q200 328 92 316Z" fill="{color}"/><path d="M200 120 Q254 120 308 128 V316 Q254 322 200 322Z" fill="{dark}" opacity=".14"/><g opacity=".85">{stripes}</g><path d="M200 120 V320" stroke="{dark}" stroke-opacity=".22" stroke-width="3"/><path d="M130 124 V318 M270 124 V318" stroke="#fff" stroke-opacity=".25" stroke-width="10"/><path d="M284 122 q14-28 26-4" stroke="{dark}" stroke-width="5" fill="none"/>"##,
        shadow = shadow(200, 326, 150),
        color = p.color,
        dark = p.dark
    )
}

fn apron(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M156 82 Q200 40 244 82" fill="none" stroke="{accent}" stroke-width="9"/><path d="M154 84 H246 L252 160 Q290 172 304 186 L292 330 H108 L96 186 Q110 172 148 160Z" fill="url(#b)"/><path d="M96 190 L58 214 M304 190 L342 214" stroke="{accent}" stroke-width="8" stroke-linecap="round"/><path d="M140 232 H194 V286 H140Z M206 232 H260 V286 H206Z" fill="{dark}" opacity=".35"/><path d="M140 232 H194 M206 232 H260" stroke="{accent}" stroke-width="4"/><path d="M154 96 H246" stroke="{accent}" stroke-width="3" stroke-dasharray="6 5"/>"##,
        shadow = shadow(200, 334, 130),
        dark = p.dark,
        accent = p.accent
    )
}

fn tin(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M124 142 V310 Q124 328 200 328 T276 310 V142Z" fill="url(#b)"/><path d="M124 190 Q200 208 276 190 V274 Q200 292 124 274Z" fill="{accent}"/><path d="M200 212 c22 8 24 34 0 52 c-24-18-22-44 0-52 M200 220 V262" fill="none" stroke="{color}" stroke-width="5"/><path d="M118 112 V146 Q118 164 200 164 T282 146 V112Z" fill="url(#b)" stroke="{dark}" stroke-opacity=".35" stroke-width="2"/><ellipse cx="200" cy="112" rx="82" ry="18" fill="{light}"/><path d="M146 150 V312" stroke="#fff" stroke-opacity=".28" stroke-width="11"/>"##,
        shadow = shadow(200, 328, 112),
        accent = p.accent,
        color = p.color,
        dark = p.dark,
        light = p.light
    )
}

fn bag(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M128 128 H272 L284 316 Q284 328 270 328 H130 Q116 328 116 316Z" fill="url(#b)"/><path d="M126 92 H274 V132 H126Z" fill="{dark}"/><path d="M126 104 H274" stroke="{accent}" stroke-width="5"/><rect x="146" y="176" width="108" height="104" rx="6" fill="{accent}"/><ellipse cx="200" cy="220" rx="25" ry="17" transform="rotate(-28 200 220)" fill="{color}"/><path d="M178 230 Q200 222 222 210" stroke="{accent}" stroke-width="4" fill="none"/><path d="M164 260 H236" stroke="{color}" stroke-width="5"/><path d="M142 136 L134 318" stroke="#fff" stroke-opacity=".22" stroke-width="9"/>"##,
        shadow = shadow(200, 328, 118),
        dark = p.dark,
        accent = p.accent,
        color = p.color
    )
}

fn jar(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M136 148 Q118 160 118 186 V300 Q118 328 148 328 H252 Q282 328 282 300 V186 Q282 160 264 148Z" fill="#f7f3ea" opacity=".8"/><path d="M126 186 Q200 198 274 186 V298 Q274 320 250 320 H150 Q126 320 126 298Z" fill="url(#b)"/><rect x="130" y="112" width="140" height="40" rx="8" fill="#d8c9a3"/><path d="M130 126 H270 M130 138 H270" stroke="#a8976c" stroke-width="3"/><path d="M146 216 H254 V286 H146Z" fill="{accent}"/><path d="M200 228 l15 9 v17 l-15 9 -15-9 v-17Z" fill="{color}"/><path d="M164 276 H236" stroke="{color}" stroke-width="4"/><path d="M140 178 V306" stroke="#fff" stroke-opacity=".5" stroke-width="8" stroke-linecap="round"/>"##,
        shadow = shadow(200, 328, 112),
        accent = p.accent,
        color = p.color
    )
}
