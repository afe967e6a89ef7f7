//! Gateway, site proxy, DNS, TLS minting and the one decision function.
