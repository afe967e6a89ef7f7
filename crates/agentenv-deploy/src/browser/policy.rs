//! The managed policy: what Chromium trusts, and everything that would call home switched off.

use serde_json::{Value, json};

use super::launch::HOME;

/// Where Debian's Chromium reads it, below `/etc`.
pub(super) const FILE: &str = "chromium/policies/managed/agent-env.json";

/// The policy file, with the authorities as base64 of their DER form.
pub(super) fn managed(authorities: &[String]) -> Vec<u8> {
    // Trusted besides the public authorities; certificate checks stay on.
    let mut policy = json!({ "CACertificates": authorities });
    for group in [connections(), calls_home(), comforts()] {
        if let (Some(policy), Value::Object(group)) = (policy.as_object_mut(), group) {
            policy.extend(group);
        }
    }
    serde_json::to_vec_pretty(&policy).expect("a JSON value always has a text")
}

/// Only connections that pages ask for, in ways that our sockets see.
fn connections() -> Value {
    json!({
        "BuiltInDnsClientEnabled": false,
        "DnsOverHttpsMode": "off",
        "QuicAllowed": false,
        "WebRtcIPHandling": "disable_non_proxied_udp",
        "NetworkPredictionOptions": 2,
        "DNSInterceptionChecksEnabled": false,
        "IntranetRedirectBehavior": 1,
        // `http://` means http, also where a site speaks both.
        "HttpsUpgradesEnabled": false,
        // DevTools, DNS and the forward port are on 127.x; sites are at addresses that count as public.
        "LocalNetworkAccessBlockedForUrls": ["*"],
    })
}

/// Off, because they would only fill the denied log.
fn calls_home() -> Value {
    json!({
        "AlternateErrorPagesEnabled": false,
        "AutofillAddressEnabled": false,
        "AutofillCreditCardEnabled": false,
        "BackgroundModeEnabled": false,
        "BrowserNetworkTimeQueriesEnabled": false,
        "BrowserSignin": 0,
        "ChromeVariations": 2,
        "ComponentUpdatesEnabled": false,
        "DomainReliabilityAllowed": false,
        "EnableMediaRouter": false,
        "FeedbackSurveysEnabled": false,
        "GenAILocalFoundationalModelSettings": 1,
        "MetricsReportingEnabled": false,
        "SafeBrowsingProtectionLevel": 0,
        "SearchSuggestEnabled": false,
        "SigninInterceptionEnabled": false,
        "SpellCheckServiceEnabled": false,
        "SyncDisabled": true,
        "TranslateEnabled": false,
        "UrlKeyedAnonymizedDataCollectionEnabled": false,
        "UserFeedbackAllowed": false,
    })
}

/// Off, because they would stand between an agent and a page.
fn comforts() -> Value {
    json!({
        // A bar about some of our flags, which takes its height from the page.
        "CommandLineFlagSecurityWarningsEnabled": false,
        "DefaultBrowserSettingEnabled": false,
        "DefaultSearchProviderEnabled": false,
        "DownloadDirectory": format!("{HOME}/Downloads"),
        "ExtensionInstallBlocklist": ["*"],
        "NewTabPageLocation": "about:blank",
        "PasswordLeakDetectionEnabled": false,
        "PasswordManagerEnabled": false,
        "PromotionsEnabled": false,
        "PromptForDownloadLocation": false,
        "RestoreOnStartup": 5,
    })
}
