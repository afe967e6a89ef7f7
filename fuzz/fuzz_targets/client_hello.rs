#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentenv_net::fuzz::client_hello(data));
