//! Embeds the Python side: every file of `python/hermes_host` and `python/start.py`, and a mark
//! that changes with any of them and names the folder they are unpacked to.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../python");
    let root = root.canonicalize()?;
    let mut files = vec![root.join("start.py")];
    collect(&root.join("hermes_host"), &mut files)?;
    files.sort();
    let mut mark: u64 = 0xcbf2_9ce4_8422_2325;
    let mut code = String::from("pub(super) const FILES: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let text = fs::read(file)?;
        for byte in name.bytes().chain(text) {
            // FNV-1a: a name for a folder, not a proof of anything.
            mark = (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let _ = writeln!(code, "    ({name:?}, include_str!({:?})),", file.to_string_lossy());
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let _ = writeln!(code, "];\npub(super) const MARK: &str = \"{mark:016x}\";");
    println!("cargo::rerun-if-changed={}", root.join("hermes_host").display());
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default()).join("python_files.rs");
    fs::write(out, code)
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "__pycache__" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_none_or(|end| end != "pyc") {
            into.push(path);
        }
    }
    Ok(())
}
