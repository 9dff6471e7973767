//! How the program is linked. Relocations in the packed form take a megabyte less of memory at each
//! start; the C library has to know that form, which the one of the building machine tells.

use std::process::Command;

/// The first GNU C library that reads packed relocations.
const FIRST: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(name).unwrap_or_default();
    let gnu = of_target("CARGO_CFG_TARGET_OS") == "linux"
        && of_target("CARGO_CFG_TARGET_ENV") == "gnu"
        && of_target("HOST") == of_target("TARGET");
    if gnu && library().is_some_and(|version| version >= FIRST) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library here.
fn library() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor = minor.split_once('.').map_or(minor, |(minor, _)| minor);
    Some((major.parse().ok()?, minor.parse().ok()?))
}
