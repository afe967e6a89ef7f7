//! A screen of more pixels for the same things.

use agentenv_tests::{Bundle, Hand, Home, PATIENCE, Picture, PySite, eventually, playwright_at};

/// The panel's own colour.
const PANEL: [u8; 3] = [0x20, 0x27, 0x33];
/// The terminal's.
const TERMINAL: [u8; 3] = [0x1d, 0x23, 0x30];
/// Where the panel has the terminal's icon, in pixels at scale 1: from the left and from below.
const ICON: [f64; 2] = [117.0, 18.0];

/// How many rows of a picture, from below, begin with the panel.
fn panel_height(picture: &Picture) -> usize {
    let row_is = |row: &&[u8]| row[..3] == PANEL;
    picture.rgb.chunks(3 * picture.width).rev().take_while(row_is).count()
}

#[test]
fn everything_grows_with_the_scale() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    for (name, scale, width, height) in [("half", 1.5, 1280, 800), ("double", 2.0, 1600, 1000)] {
        home.put(&Bundle::new(&format!(
            "format = 1\nkind = \"computer\"\nname = \"{name}\"\nstart_tabs = [\"https://alpha.test/\"]\n\
             resolution = {{ width = {width}, height = {height} }}\n[settings]\nscale = {scale}\n"
        )));
    }
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"alpha\"]\ncomputers = [\"half\", \"double\"]\n",
    ));
    let deploy = home.deploy("work");
    for (computer, scale) in deploy.info.computers.iter().zip([1.5, 2.0]) {
        let hand = Hand::new(&computer.cdp_url);
        let screen = hand.look(None);
        let [panel, wide] = [36.0, 500.0].map(|pixels| (pixels * scale) as usize);
        assert_eq!(panel_height(&screen), panel, "{}", computer.name);
        let page = "result(context.pages[0].evaluate('devicePixelRatio'))";
        assert_eq!(playwright_at(&deploy, &computer.cdp_url, page).as_f64(), Some(scale), "{}", computer.name);
        // A terminal of letters that are as large, all of it to be seen.
        let [left, below] = ICON.map(|pixels| (pixels * scale) as usize);
        hand.click([left, screen.height - below]);
        let [middle, row] = eventually("a terminal is there", PATIENCE, || hand.look(None).find(TERMINAL, wide));
        let screen = hand.look(None);
        screen.keep(&format!("computer-scale-{}", computer.name));
        let right = screen.rgb[3 * (row * screen.width + middle)..3 * (row + 1) * screen.width]
            .chunks(3)
            .take_while(|pixel| *pixel == TERMINAL);
        assert!(middle + right.count() < screen.width, "{}: its frame is not on the screen", computer.name);
    }
    deploy.close();
}
