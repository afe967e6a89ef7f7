//! later
crate::trials![];

pub fn spawner(_marker: &str) -> ! {
    agentenv_sandbox::spawner_main()
}
