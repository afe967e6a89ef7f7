#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Accepted or refused with places that are in the text.
    if let Err(problems) = agentenv_model::parse_env("env.toml", text) {
        assert!(!problems.to_string().is_empty());
    }
});
