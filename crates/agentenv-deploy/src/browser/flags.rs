//! Chromium's command line. Chromium's own sandbox stays on: nothing here may weaken it.

use super::launch::{BrowserSpec, HOME, Proxy};
use crate::sandbox_net::DEVTOOLS;

/// The height of the window's own parts above the page: headless windows have tab strip and toolbar too.
const WINDOW_CHROME_HEIGHT: u32 = 87;

/// Calls home and services around them that no policy covers.
const QUIET: [&str; 11] = [
    "--disable-background-networking",
    "--disable-component-update",
    // Components that are asked for on demand ignore the flag above (the on-device model's manifest does, at each start).
    // Port 9 is on Chromium's list of unsafe ports, so the request ends before it leaves the process.
    "--component-updater=url-source=http://127.0.0.1:9/",
    // Asks which accounts are signed in as soon as the machine is online, whatever the sign-in policy says; the same way out.
    "--gaia-url=http://127.0.0.1:9/",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-field-trial-config",
    "--disable-sync",
    "--metrics-recording-only",
];

/// What a person would have clicked away, or what only a desktop has.
const PLAIN: [&str; 7] = [
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--disable-hang-monitor",
    "--password-store=basic",
    "--mute-audio",
    // There is no GPU in a sandbox: don't look for one. WebGL stays, in software.
    "--disable-gpu",
];

/// What agents rely on: tabs behind others work as the one in front, pictures are the same everywhere, and Playwright
/// follows a page back through its history.
const STEADY: [&str; 5] = [
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-back-forward-cache",
    "--force-color-profile=srgb",
];

/// Features by their names in Chromium.
pub(super) const FEATURES_OFF: [&str; 9] = [
    // Asks a server about each form.
    "AutofillServerCommunication",
    // Asks a server about pages.
    "OptimizationHints",
    "MediaRouter",
    // Two hidden pages of the address bar, which would be targets of every CDP client and cost 100 ms at start.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    // Playwright launches its own browsers without these: contexts that end with their last page, requests that escape its
    // routes, pages that are painted late.
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "PaintHolding",
];

/// Without it a picture of a tab behind another one never comes.
pub(super) const FEATURE_ON: &str = "CDPScreenshotNewSurface";

/// What a browser draws on: nothing that anybody sees, or a window of a desktop.
fn window(spec: &BrowserSpec) -> Vec<String> {
    let (width, height) = (spec.viewport.width, spec.viewport.height + WINDOW_CHROME_HEIGHT);
    match spec.desktop {
        None => vec![
            "--headless".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--screen-info={{{width}x{height}}}"),
        ],
        Some(scale) => vec![
            "--ozone-platform=x11".to_owned(),
            "--start-maximized".to_owned(),
            format!("--force-device-scale-factor={scale}"),
        ],
    }
}

/// The arguments of one browser.
pub(super) fn of(spec: &BrowserSpec) -> Vec<String> {
    let mut flags = window(spec);
    // A person's home shows the profile to nobody who looks at their files.
    let profile = if spec.desktop.is_some() { ".config/chromium" } else { "profile" };
    flags.extend([
        format!("--user-data-dir={HOME}/{profile}"),
        format!("--remote-debugging-port={DEVTOOLS}"),
        format!("--lang={}", spec.language),
        format!("--disable-features={}", FEATURES_OFF.join(",")),
        format!("--enable-features={FEATURE_ON}"),
    ]);
    match spec.proxy {
        Proxy::Forward(address) => {
            flags.push(format!("--proxy-server=http://{address}"));
            // Chromium bypasses a proxy for localhost and link-local addresses unless told not to.
            flags.push("--proxy-bypass-list=<-loopback>".to_owned());
        }
        Proxy::None => flags.push("--no-proxy-server".to_owned()),
    }
    flags.extend(QUIET.iter().chain(&PLAIN).chain(&STEADY).map(|flag| (*flag).to_owned()));
    flags
}
