//! The end-to-end tests: real deploys, real namespaces, real Chromium. Tests are grouped by topic; those that concern a row of
//! the list of attacks carry its number.

mod bad_input;
mod browser;
mod coalescing;
mod computer;
mod computer_attacks;
mod crashes;
mod declared;
mod desk;
mod egress;
mod escape;
mod gateway;
mod inside;
mod late_names;
mod lifecycle;
mod limits;
mod live;
mod live_refused;
mod main_job;
mod mcp;
mod nothing_left;
mod owner;
mod pages;
mod probed;
mod python;
mod reset;
mod runs;
mod sealed;
mod secrets;
mod single_uid;
mod spares;
mod stand_alone;
mod store;
mod stored_secrets;
mod traffic;
mod traffic_collect;
