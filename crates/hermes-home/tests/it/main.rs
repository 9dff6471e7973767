//! The home folder from outside: choosing it, loading and changing its settings.
#![expect(clippy::unwrap_used, reason = "tests")]

mod home;
mod loading;
mod secrets;
mod setting;

use std::fs;
use std::path::Path;

use hermes_home::{Home, Loaded, Overrides, ProcessVars, load};

/// A home with a settings file and a `.env`.
fn home_with(folder: &Path, config: &str, dotenv: &str) -> Home {
    let home = Home::at(folder.join("home"));
    home.ensure().unwrap();
    if !config.is_empty() {
        fs::write(home.config_path(), config).unwrap();
    }
    if !dotenv.is_empty() {
        hermes_home::fsio::write_atomic(
            &home.env_path(),
            dotenv.as_bytes(),
            hermes_home::fsio::Privacy::Private,
        )
        .unwrap();
    }
    home
}

fn vars(pairs: &[(&str, &str)]) -> ProcessVars {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn loaded(home: &Home) -> Result<Loaded, String> {
    load(home, &ProcessVars::new(), &Overrides::default()).map_err(|error| error.to_string())
}

fn case(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(path))
        .unwrap()
}
