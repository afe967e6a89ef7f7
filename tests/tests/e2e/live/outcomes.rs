//! Live sites that do not work: typed outcomes with their own reasons, never a hang.

use super::*;

/// How long a site that never gets ready is waited for here, in seconds.
const SHORT: &str = "3";

#[test]
fn a_live_site_that_does_not_work_fails_by_kind_with_its_own_reason() {
    let home = home();
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = ["env", "deploy", "github", "--ready-timeout", SHORT];
    for (mode, exit, reasons) in [
        ("captcha", ExitCode::Failed, &["github", "a page for people instead of data"][..]),
        (
            "refuse",
            ExitCode::TimedOut,
            &["github", "GitHub refuses the account: Bad credentials", "agent-env secret set"],
        ),
        ("hang", ExitCode::TimedOut, &["github", "was not ready within 3 s"]),
    ] {
        internet.set_mode(mode);
        let outcome = home.run(&deploy);
        outcome.fails(exit, reasons);
        assert!(outcome.took < Duration::from_secs(20), "{mode}: {outcome:?}");
    }
    internet.set_mode("");
    let captcha = || {
        internet.set_mode("captcha");
        home.run(&["env", "deploy", "github", "--json"])
    };
    let error: Value =
        serde_json::from_str(captcha().stderr.lines().last().unwrap_or_default()).expect("an error as JSON");
    assert_eq!(error["error"]["kind"], "blocked_by_site", "{error}");
    internet.set_mode("");

    // No name server answers; then one does, and the site's certificate is of an authority that nobody trusts.
    let mut command = home.command(deploy);
    command.env("AGENTENV_DNS_SERVERS", "203.0.113.254");
    run_within(PATIENCE, &mut command, None).fails(ExitCode::TimedOut, &["github", "GitHub can't be reached"]);
    let mut command = home.command(deploy);
    command.env_remove("AGENTENV_CA_BUNDLE");
    let outcome = run_within(PATIENCE, &mut command, None);
    outcome.fails(ExitCode::TimedOut, &["github", "GitHub can't be reached", "certificate"]);
    home.assert_idle();
    assert_only_the_reach(&internet);
}

#[test]
fn row_44_a_start_tab_whose_certificate_is_bad_fails_the_deploy() {
    let home = home();
    for (env, host) in [("late", "expired.github.com"), ("self", "self-signed.github.com")] {
        home.put(&Bundle::new(&format!(
            "format = 1\nkind = \"browser\"\nname = \"{env}\"\nstart_tabs = [\"https://{host}/\"]\n"
        )));
        home.put(&Bundle::multi(&format!("{env}-office"), &["github"], Some(env)));
    }
    office(&home, &["github"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home);
    for (env, host, reason) in [
        ("late-office", "expired.github.com", "ERR_CERT_DATE_INVALID"),
        ("self-office", "self-signed.github.com", "ERR_CERT_AUTHORITY_INVALID"),
    ] {
        home.run(&["env", "deploy", env]).fails(ExitCode::Infrastructure, &[host, reason]);
    }
    let deploy = home.deploy("office");
    let seen = playwright(
        &deploy,
        r#"
seen = []
for host in ("expired", "self-signed"):
    page = context.new_page()
    try: seen.append(page.goto(f"https://{host}.github.com/").status)
    except Error as error: seen.append(str(error).split(" at ")[0].split("net::")[-1])
result(seen)"#,
    );
    assert_eq!(seen, json!(["ERR_CERT_DATE_INVALID", "ERR_CERT_AUTHORITY_INVALID"]));
    deploy.close();
    assert_only_the_reach(&internet);
}

#[test]
fn an_account_is_used_by_one_deploy_at_a_time_unless_it_is_shared() {
    let home = home();
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("github");
    home.run(&["env", "deploy", "github"])
        .fails(ExitCode::Refused, &["secret:github/token", deploy.id(), "--share-account"]);
    assert_eq!(home.deploy_ids(), [deploy.id()], "the refused one leaves no trace");
    home.deploy_with("github", &["--share-account"]).close();
    deploy.close();
    home.deploy("github").close();
    assert_only_the_reach(&internet);
}
