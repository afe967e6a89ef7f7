#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentenv_net::fuzz::dns_message(data));
