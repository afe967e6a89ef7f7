//! Envs as pure data: env.toml, name claims, and the plan of a deploy; no I/O.
