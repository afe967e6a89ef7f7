//! What a site author uses to write a website env in Rust; published, so apart.
