//! What was measured of several proxies, and how it is told.

use std::time::Duration;

use super::peers::Entry;
use crate::{numbers::Numbers, say::say};

/// One turn of one proxy.
pub struct Turn {
    /// Bytes or requests.
    pub amount: f64,
    /// In this time.
    pub took: Duration,
    /// Seconds of processor that the proxy took.
    pub cpu: f64,
}

/// The turns of several proxies under one load.
pub struct Table {
    rows: Vec<(&'static str, Numbers, Numbers)>,
}

impl Table {
    /// One without turns.
    pub fn new(entries: &[Entry]) -> Self {
        Self { rows: entries.iter().map(|entry| (entry.name, Numbers::new(), Numbers::new())).collect() }
    }

    /// Adds a turn of the proxy at this place.
    pub fn add(&mut self, at: usize, turn: &Turn) {
        let (_, rate, cost) = &mut self.rows[at];
        rate.add_value(turn.amount / turn.took.as_secs_f64());
        cost.add_value(turn.cpu / turn.amount);
    }

    /// Prints medians, and the ratios of ours to these others, with what is aimed at.
    pub fn say(&self, what: &str, rate: (&str, f64), cost: (&str, f64), others: &[(&str, &str)]) {
        say!("\n{what}; medians of {} turns", super::TURNS);
        say!("{:<28} {:>14} {:>14}", "", rate.0, cost.0);
        for (name, rates, costs) in &self.rows {
            say!("{name:<28} {:>14.0} {:>14.3}", rates.median() * rate.1, costs.median() * cost.1);
        }
        let (ours, rates, costs) = &self.rows[0];
        for (other, other_rates, other_costs) in &self.rows {
            let Some((_, target)) = others.iter().find(|(name, _)| name == other) else { continue };
            let target = if target.is_empty() { String::new() } else { format!(" (target: {target})") };
            say!(
                "{ours} / {other}: {} {:.2}, {} {:.2}{target}",
                rate.0,
                rates.median() / other_rates.median(),
                cost.0,
                costs.median() / other_costs.median()
            );
        }
    }
}
