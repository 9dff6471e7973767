//! The Python side, embedded in the binary and unpacked once below the home folder, so that its
//! compiled form is kept by Python from start to start.

use std::path::{Path, PathBuf};
use std::{fs, io};

include!(concat!(env!("OUT_DIR"), "/python_files.rs"));

/// The folder that holds `start.py`, unpacked if it is not there yet.
pub(crate) fn unpack(home: &Path) -> io::Result<PathBuf> {
    let parent = home.join("cache").join("plugin-host");
    let folder = parent.join(MARK);
    if folder.join("complete").is_file() {
        return Ok(folder);
    }
    fs::create_dir_all(&parent)?;
    // Another process may be doing the same: each writes its own copy, one of them gets the name.
    let own = parent.join(format!("{MARK}.{}", std::process::id()));
    drop(fs::remove_dir_all(&own));
    for (name, text) in FILES {
        let path = own.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    fs::write(own.join("complete"), MARK)?;
    if let Err(error) = fs::rename(&own, &folder)
        && !folder.join("complete").is_file()
    {
        drop(fs::remove_dir_all(&folder));
        fs::rename(&own, &folder).map_err(|_| error)?;
    }
    drop(fs::remove_dir_all(&own));
    Ok(folder)
}
