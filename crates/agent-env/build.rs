//! The program carries the SDK's source: a file that is new there makes it be built again.

fn main() {
    for name in ["agentenv-macros", "agentenv-protocol", "agentenv-sdk"] {
        println!("cargo:rerun-if-changed=../{name}");
    }
    println!("cargo:rerun-if-changed=../../Cargo.toml");
}
