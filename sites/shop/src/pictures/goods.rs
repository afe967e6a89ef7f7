//! Everything that is no vessel, and coffee gear.

use super::{Paint, shadow};

pub(super) fn press(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M268 176 C330 172 330 288 268 286" fill="none" stroke="{color}" stroke-width="18"/><rect x="138" y="150" width="130" height="174" rx="10" fill="#dfeaec" opacity=".85"/><path d="M140 214 H266 V314 Q266 322 258 322 H148 Q140 322 140 314Z" fill="#4a2c18"/><rect x="140" y="206" width="126" height="10" fill="#a9b3b5"/><path d="M152 160 V312" stroke="#fff" stroke-opacity=".6" stroke-width="8"/><path d="M132 150 H276 V168 H132Z M132 300 H276 V326 H132Z" fill="url(#b)"/><path d="M140 150 V320 M266 150 V320" stroke="{color}" stroke-width="7"/><path d="M134 150 Q204 112 274 150Z" fill="{color}"/><path d="M204 90 V206" stroke="#8f999b" stroke-width="6"/><circle cx="204" cy="84" r="15" fill="{accent}"/>"##,
        shadow = shadow(204, 328, 120),
        color = p.color,
        accent = p.accent
    )
}

pub(super) fn dripper(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M150 218 C150 236 112 262 112 296 Q112 326 144 326 H256 Q288 326 288 296 C288 262 250 236 250 218Z" fill="#dfeaec" opacity=".88"/><path d="M118 282 Q200 268 282 282 V298 Q282 320 256 320 H144 Q118 320 118 298Z" fill="#5a341b"/><path d="M136 250 C126 266 122 276 122 290" stroke="#fff" stroke-width="8" stroke-opacity=".7" fill="none" stroke-linecap="round"/><rect x="146" y="206" width="108" height="18" rx="6" fill="url(#a)"/><path d="M108 110 H292 L236 206 H164Z" fill="url(#b)"/><path d="M138 118 L178 200 M166 118 L190 200 M200 118 V200 M234 118 L210 200 M262 118 L222 200" stroke="{dark}" stroke-opacity=".28" stroke-width="4"/><ellipse cx="200" cy="110" rx="92" ry="16" fill="{light}"/><path d="M118 112 Q200 132 282 112 Q200 92 118 112Z" fill="#a5764c"/>"##,
        shadow = shadow(200, 328, 128),
        dark = p.dark,
        light = p.light
    )
}

pub(super) fn grinder(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M200 96 H296" stroke="#7e8788" stroke-width="10" stroke-linecap="round"/><circle cx="300" cy="84" r="18" fill="url(#a)"/><path d="M200 92 V128" stroke="#7e8788" stroke-width="12"/><path d="M152 132 Q200 106 248 132 V146 H152Z" fill="{dark}"/><rect x="150" y="144" width="100" height="112" rx="8" fill="url(#b)"/><rect x="146" y="222" width="108" height="20" fill="url(#a)"/><rect x="154" y="254" width="92" height="72" rx="10" fill="url(#b)"/><path d="M170 150 V320" stroke="#fff" stroke-opacity=".25" stroke-width="10"/>"##,
        shadow = shadow(200, 328, 92),
        dark = p.dark
    )
}

pub(super) fn scoop(p: &Paint) -> String {
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

pub(super) fn carton(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M104 152 L200 128 L296 152 V306 L200 328 L104 306Z" fill="url(#b)"/><path d="M200 176 V328 L296 306 V152Z" fill="{dark}" opacity=".35"/><path d="M104 152 L200 176 L296 152 L200 128Z" fill="{light}"/><path d="M124 206 L180 220 V282 L124 268Z" fill="{accent}"/><path d="M134 222 L170 230 L152 264Z" fill="{light}"/>"##,
        shadow = shadow(200, 328, 130),
        dark = p.dark,
        light = p.light,
        accent = p.accent
    )
}

pub(super) fn board(p: &Paint) -> String {
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

pub(super) fn towel(p: &Paint) -> String {
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

pub(super) fn apron(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M156 82 Q200 40 244 82" fill="none" stroke="{accent}" stroke-width="9"/><path d="M154 84 H246 L252 160 Q290 172 304 186 L292 330 H108 L96 186 Q110 172 148 160Z" fill="url(#b)"/><path d="M96 190 L58 214 M304 190 L342 214" stroke="{accent}" stroke-width="8" stroke-linecap="round"/><path d="M140 232 H194 V286 H140Z M206 232 H260 V286 H206Z" fill="{dark}" opacity=".35"/><path d="M140 232 H194 M206 232 H260" stroke="{accent}" stroke-width="4"/><path d="M154 96 H246" stroke="{accent}" stroke-width="3" stroke-dasharray="6 5"/>"##,
        shadow = shadow(200, 334, 130),
        dark = p.dark,
        accent = p.accent
    )
}

pub(super) fn tin(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M124 142 V310 Q124 328 200 328 T276 310 V142Z" fill="url(#b)"/><path d="M124 190 Q200 208 276 190 V274 Q200 292 124 274Z" fill="{accent}"/><path d="M200 212 c22 8 24 34 0 52 c-24-18-22-44 0-52 M200 220 V262" fill="none" stroke="{color}" stroke-width="5"/><path d="M118 112 V146 Q118 164 200 164 T282 146 V112Z" fill="url(#b)" stroke="{dark}" stroke-opacity=".35" stroke-width="2"/><ellipse cx="200" cy="112" rx="82" ry="18" fill="{light}"/><path d="M146 150 V312" stroke="#fff" stroke-opacity=".28" stroke-width="11"/>"##,
        shadow = shadow(200, 328, 112),
        accent = p.accent,
        color = p.color,
        dark = p.dark,
        light = p.light
    )
}

pub(super) fn bag(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M128 128 H272 L284 316 Q284 328 270 328 H130 Q116 328 116 316Z" fill="url(#b)"/><path d="M126 92 H274 V132 H126Z" fill="{dark}"/><path d="M126 104 H274" stroke="{accent}" stroke-width="5"/><rect x="146" y="176" width="108" height="104" rx="6" fill="{accent}"/><ellipse cx="200" cy="220" rx="25" ry="17" transform="rotate(-28 200 220)" fill="{color}"/><path d="M178 230 Q200 222 222 210" stroke="{accent}" stroke-width="4" fill="none"/><path d="M164 260 H236" stroke="{color}" stroke-width="5"/><path d="M142 136 L134 318" stroke="#fff" stroke-opacity=".22" stroke-width="9"/>"##,
        shadow = shadow(200, 328, 118),
        dark = p.dark,
        accent = p.accent,
        color = p.color
    )
}

pub(super) fn jar(p: &Paint) -> String {
    format!(
        r##"{shadow}<path d="M136 148 Q118 160 118 186 V300 Q118 328 148 328 H252 Q282 328 282 300 V186 Q282 160 264 148Z" fill="#f7f3ea" opacity=".8"/><path d="M126 186 Q200 198 274 186 V298 Q274 320 250 320 H150 Q126 320 126 298Z" fill="url(#b)"/><rect x="130" y="112" width="140" height="40" rx="8" fill="#d8c9a3"/><path d="M130 126 H270 M130 138 H270" stroke="#a8976c" stroke-width="3"/><path d="M146 216 H254 V286 H146Z" fill="{accent}"/><path d="M200 228 l15 9 v17 l-15 9 -15-9 v-17Z" fill="{color}"/><path d="M164 276 H236" stroke="{color}" stroke-width="4"/><path d="M140 178 V306" stroke="#fff" stroke-opacity=".5" stroke-width="8" stroke-linecap="round"/>"##,
        shadow = shadow(200, 328, 112),
        accent = p.accent,
        color = p.color
    )
}
