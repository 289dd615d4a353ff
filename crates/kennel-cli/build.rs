//! Links the command to fixed addresses.
//!
//! A static program that can be loaded anywhere relocates itself first: 15,000 pointers of tables, on eighty pages that are
//! copied for it, in each process of each start. That is a tenth of what a start costs. What is given up is that the places of
//! code and tables differ from run to run. Heap, stacks and what is mapped have random places all the same, and what reads
//! bytes of strangers is written in safe Rust. (Musl's target has start files for each way: xtask chooses those.)

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| {
        std::env::var(name).is_ok_and(|found| found.split(',').any(|one| one == value))
    };
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        for argument in ["-static", "-no-pie"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
