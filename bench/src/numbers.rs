//! Durations, their median, and how two of them are told.

use std::time::Duration;

use crate::say::say;

/// What was measured of one thing.
#[derive(Clone)]
pub struct Numbers(Vec<f64>);

impl Numbers {
    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a duration.
    pub fn add(&mut self, duration: Duration) {
        self.add_ms(duration.as_secs_f64() * 1000.0);
    }

    /// Adds milliseconds.
    pub fn add_ms(&mut self, ms: f64) {
        self.add_value(ms);
    }

    /// Adds something that is no time.
    pub fn add_value(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The median, in milliseconds where those were added.
    pub fn median(&self) -> f64 {
        match self.0.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => self.0[count / 2],
            count => f64::midpoint(self.0[count / 2 - 1], self.0[count / 2]),
        }
    }

    fn range(&self) -> String {
        let (first, last) = (self.0.first().copied().unwrap_or(f64::NAN), self.0.last().copied().unwrap_or(f64::NAN));
        format!("{first:.1}..{last:.1}")
    }
}

/// Prints one line: median and range, the same of the floor, and the ratio of the medians.
pub fn tell(what: &str, ours: &Numbers, floor: &Numbers) {
    let ratio = ours.median() / floor.median();
    let (ours_range, floor_range) = (ours.range(), floor.range());
    say!(
        "{what:<44} {:>8.1} ms ({ours_range})   floor {:>8.1} ms ({floor_range})   ratio {ratio:.2}",
        ours.median(),
        floor.median()
    );
}

/// Prints one line of a thing that has no floor.
pub fn tell_alone(what: &str, ours: &Numbers) {
    say!("{what:<44} {:>8.1} ms ({})", ours.median(), ours.range());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let mut numbers = Numbers::new();
        assert!(numbers.median().is_nan());
        for (ms, median) in [(3.0, 3.0), (1.0, 2.0), (2.0, 2.0), (10.0, 2.5)] {
            numbers.add_ms(ms);
            assert!((numbers.median() - median).abs() < 1e-9, "{median}");
        }
    }
}
