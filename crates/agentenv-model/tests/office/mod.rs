//! The multi env `office`.

use agentenv_model::{
    Abilities, EnvSpec, EnvVersion, FileSpec, MultiFile, Plan, PlanInput, Problems, parse_env, plan, resolve_multi,
};

/// The env as it is written, by its members.
pub fn multi(text: &str) -> MultiFile {
    let text = format!("format = 1\nkind = 'multi'\nname = 'office'\n{text}");
    let FileSpec::Multi(multi) = parse_env("env.toml", &text).unwrap_or_else(|problems| panic!("{problems}")).spec
    else {
        panic!()
    };
    multi
}

/// Its version 7, planned.
pub fn office(text: &str, members: &[EnvVersion], abilities: Abilities) -> Result<Plan, Problems> {
    let spec = EnvSpec::Multi(resolve_multi(&multi(text), members, false)?);
    let env = EnvVersion { name: "office".parse().unwrap(), version: 7, spec, tree: None };
    plan(&PlanInput { env, members: members.to_vec(), abilities, capture_traffic: None })
}
