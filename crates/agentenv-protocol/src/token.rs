//! Tokens: made at random, compared in constant time, never printed by `Debug`.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

macro_rules! token {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $type(SecretString);

        impl $type {
            /// Makes a new one of 256 random bits.
            pub fn random() -> Self {
                Self(hex::encode(rand::random::<[u8; 32]>()).into())
            }

            /// Takes a stored one.
            pub fn from_stored(text: String) -> Self {
                Self(text.into())
            }

            /// Whether the text is this token, in time that depends on lengths only.
            pub fn matches(&self, text: &[u8]) -> bool {
                self.0.expose_secret().as_bytes().ct_eq(text).into()
            }

            /// The text, for the one place that hands it out.
            pub fn expose(&self) -> &str {
                self.0.expose_secret()
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($type), "(…)"))
            }
        }
    };
}

token!(
    /// Opens the gateway's control routes (GW-2); reaches no site and no agent.
    ///
    /// There is no comparison but [`ControlToken::matches`], whose time depends on lengths only (row 18 of the attacks):
    ///
    /// ```compile_fail,E0369
    /// let token = agentenv_protocol::ControlToken::random();
    /// assert!(token == token.clone());
    /// ```
    ControlToken
);
token!(
    /// Opens the gateway's agent routes; part of every `cdp_url`.
    AgentToken
);
token!(
    /// Opens the `/api/` operations of one website's server (PR-8).
    SiteKey
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_and_never_shown() {
        let token = ControlToken::random();
        assert!(
            token.matches(token.expose().as_bytes())
                && !token.matches(b"")
                && !token.matches(&token.expose().as_bytes()[1..])
        );
        assert_eq!(token.expose().len(), 64);
        assert!(!format!("{token:?}").contains(token.expose()));
    }
}
