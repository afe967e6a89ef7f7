//! Turns a plan into a running deploy: providers, supervisor, reaper.
