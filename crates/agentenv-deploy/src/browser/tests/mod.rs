//! The launch plan as data, and real Chromiums by that plan.

mod chromium;
mod plan;
mod quiet;
mod reset;
mod sign_in;
mod site;
mod tabs;

fn urls(urls: &[&str]) -> Vec<String> {
    urls.iter().map(|url| (*url).to_owned()).collect()
}
