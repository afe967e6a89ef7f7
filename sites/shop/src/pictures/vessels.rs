//! Mugs, pots, plates.

use super::{Paint, shadow};

const MUG: &str = "M108 124 L114 300 Q116 326 142 328 H218 Q244 326 246 300 L252 124 Z";

pub(super) fn mug(p: &Paint, glaze: &str) -> String {
    format!(
        r##"{shadow}<path d="M246 162 C330 146 334 268 244 272" fill="none" stroke="{dark}" stroke-width="22" stroke-linecap="round"/><path d="M248 158 C324 146 326 256 246 264" fill="none" stroke="{color}" stroke-width="15" stroke-linecap="round"/><clipPath id="m"><path d="{MUG}"/></clipPath><path d="{MUG}" fill="url(#b)"/><g clip-path="url(#m)">{glaze}<path d="M128 128 L134 318" stroke="#fff" stroke-opacity=".3" stroke-width="9" fill="none"/></g><ellipse cx="180" cy="124" rx="72" ry="17" fill="{light}"/><ellipse cx="180" cy="126" rx="62" ry="12" fill="{dark}"/><ellipse cx="180" cy="130" rx="54" ry="8" fill="#3b2416"/>"##,
        shadow = shadow(190, 328, 120),
        dark = p.dark,
        color = p.color,
        light = p.light
    )
}

pub(super) fn dipped(p: &Paint) -> String {
    format!(r##"<path d="M90 236 Q140 222 184 238 T270 230 V340 H90Z" fill="{}" opacity=".92"/>"##, p.accent)
}

pub(super) fn speckles(p: &Paint) -> String {
    // A fixed scatter: squares modulo primes look like chance.
    (0..64)
        .map(|i| {
            let (x, y, r) = (110 + (i * i * 7 + i * 31) % 139, 142 + (i * i * 11 + i * 17) % 181, 1 + i % 3);
            format!(r##"<circle cx="{x}" cy="{y}" r="{r}" fill="{}" opacity=".75"/>"##, p.accent)
        })
        .collect()
}

pub(super) fn enamel_rim(p: &Paint) -> String {
    format!(
        r##"<path d="M100 118H260V140H100Z" fill="{a}"/><path d="M104 312H256V330H104Z" fill="{a}" opacity=".85"/><path d="M204 214a24 24 0 1 1-48 0 24 24 0 1 1 48 0" fill="none" stroke="#fff" stroke-opacity=".75" stroke-width="4"/><path d="M180 194v40M160 214h40" stroke="#fff" stroke-opacity=".75" stroke-width="4"/>"##,
        a = p.accent
    )
}

pub(super) fn drips(p: &Paint) -> String {
    format!(
        r##"<path d="M96 116H264V176 q-6 44-18 6 t-22 10 q-8 62-20 2 t-26 4 q-8 34-20-2 t-24 12 q-8 40-18-8 t-20-4Z" fill="{}" opacity=".9"/>"##,
        p.accent
    )
}

pub(super) fn cup(p: &Paint) -> String {
    format!(
        r##"{shadow}<ellipse cx="194" cy="310" rx="128" ry="26" fill="{dark}"/><ellipse cx="194" cy="304" rx="128" ry="26" fill="url(#b)"/><ellipse cx="194" cy="303" rx="70" ry="12" fill="{dark}" opacity=".35"/><path d="M252 206 C318 196 316 268 240 268" fill="none" stroke="{color}" stroke-width="14"/><path d="M120 186 C120 268 154 302 190 302 S260 268 260 186Z" fill="url(#b)"/><path d="M138 200 C142 254 158 280 176 290" stroke="#fff" stroke-opacity=".4" stroke-width="8" fill="none" stroke-linecap="round"/><ellipse cx="190" cy="186" rx="70" ry="16" fill="{light}" stroke="{accent}" stroke-width="4"/><ellipse cx="190" cy="189" rx="58" ry="11" fill="#4a2c18"/><ellipse cx="186" cy="188" rx="36" ry="6" fill="#9b6a3c" opacity=".7"/>"##,
        shadow = shadow(194, 326, 150),
        dark = p.dark,
        color = p.color,
        light = p.light,
        accent = p.accent
    )
}

pub(super) fn tumbler(p: &Paint) -> String {
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

pub(super) fn teapot(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M282 214 C366 186 372 306 276 290" fill="none" stroke="{dark}" stroke-width="20"/><path d="M284 210 C356 188 360 292 278 282" fill="none" stroke="{color}" stroke-width="12"/><path d="M118 270 C78 262 76 206 42 186 L64 176 C96 188 104 222 134 222Z" fill="url(#b)"/><ellipse cx="200" cy="244" rx="98" ry="84" fill="url(#b)"/><path d="M128 214 C138 188 156 176 174 170" stroke="#fff" stroke-opacity=".45" stroke-width="11" fill="none" stroke-linecap="round"/><path d="M104 258 Q200 300 296 258" stroke="{accent}" stroke-width="6" fill="none" opacity=".8"/><path d="M146 172 Q200 132 254 172 Q200 190 146 172Z" fill="url(#b)" stroke="{dark}" stroke-opacity=".4" stroke-width="2"/><circle cx="200" cy="143" r="13" fill="{accent}"/><path d="M156 322 H244" stroke="{dark}" stroke-width="10" stroke-linecap="round"/>"##,
        shadow = shadow(200, 326, 140),
        dark = p.dark,
        color = p.color,
        accent = p.accent
    )
}

pub(super) fn kettle(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M126 300 C70 306 96 196 56 158 L40 166" fill="none" stroke="{color}" stroke-width="13" stroke-linecap="round"/><path d="M132 316 L152 190 H256 L276 316 Q276 326 262 326 H146 Q132 326 132 316Z" fill="url(#b)"/><path d="M166 198 L152 314" stroke="#fff" stroke-opacity=".35" stroke-width="10" stroke-linecap="round"/><path d="M152 190 Q204 158 256 190Z" fill="{dark}"/><circle cx="204" cy="164" r="11" fill="{accent}"/><path d="M264 214 C352 190 360 292 282 298" fill="none" stroke="{accent}" stroke-width="17" stroke-linecap="round"/><path d="M134 306 H274" stroke="{dark}" stroke-opacity=".6" stroke-width="6"/>"##,
        shadow = shadow(204, 328, 130),
        dark = p.dark,
        color = p.color,
        accent = p.accent
    )
}

pub(super) fn plate(p: &Paint) -> String {
    format!(
        r##"{shadow}<ellipse cx="200" cy="262" rx="158" ry="78" fill="{dark}" opacity=".6"/><ellipse cx="200" cy="252" rx="158" ry="78" fill="url(#b)"/><ellipse cx="200" cy="252" rx="151" ry="73" fill="none" stroke="{accent}" stroke-width="7"/><ellipse cx="200" cy="254" rx="106" ry="48" fill="{light}"/><ellipse cx="200" cy="256" rx="106" ry="48" fill="none" stroke="{dark}" stroke-opacity=".25" stroke-width="3"/><path d="M70 232 Q96 196 152 186" stroke="#fff" stroke-opacity=".7" stroke-width="8" fill="none" stroke-linecap="round"/>"##,
        shadow = shadow(200, 332, 170),
        dark = p.dark,
        light = p.light,
        accent = p.accent
    )
}

pub(super) fn bowl(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M68 188 C74 280 134 320 200 320 S326 280 332 188Z" fill="url(#b)"/><path d="M150 316 H250 L242 330 H158Z" fill="{dark}"/><path d="M92 218 C102 262 126 286 152 300" stroke="#fff" stroke-opacity=".3" stroke-width="10" fill="none" stroke-linecap="round"/><ellipse cx="200" cy="188" rx="132" ry="36" fill="{light}"/><ellipse cx="200" cy="191" rx="122" ry="30" fill="url(#a)"/><path d="M92 198 Q200 246 308 198" fill="{accent_dark}" opacity=".5"/>"##,
        shadow = shadow(200, 328, 120),
        dark = p.dark,
        light = p.light,
        accent_dark = p.accent_dark
    )
}

pub(super) fn jug(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M256 170 C330 158 330 276 250 284" fill="none" stroke="{color}" stroke-width="16"/><path d="M140 132 C150 178 116 214 116 262 Q116 326 160 326 H228 Q272 326 272 262 C272 214 248 178 256 132Z" fill="url(#b)"/><path d="M140 132 L108 116 Q134 108 160 122Z" fill="{color}"/><ellipse cx="198" cy="130" rx="58" ry="14" fill="{light}"/><ellipse cx="198" cy="132" rx="48" ry="9" fill="#fffdf7"/><path d="M118 246 Q194 262 270 246" stroke="{accent}" stroke-width="6" fill="none"/><path d="M118 258 Q194 274 270 258" stroke="{accent}" stroke-width="3" fill="none"/><path d="M142 196 C132 226 132 260 138 292" stroke="#fff" stroke-opacity=".7" stroke-width="10" fill="none" stroke-linecap="round"/>"##,
        shadow = shadow(196, 328, 120),
        color = p.color,
        light = p.light,
        accent = p.accent
    )
}
