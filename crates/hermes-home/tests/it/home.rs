//! Which folder is the home.

use std::fs;
use std::path::Path;

use hermes_home::{Home, HomeError, HomeReason, ProcessVars, STORE_APPLICATION_ID};

use crate::vars;

/// The first page of an SQLite file.
fn page(application_id: u32, schema: &str) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    page[68..72].copy_from_slice(&application_id.to_be_bytes());
    page[200..200 + schema.len()].copy_from_slice(schema.as_bytes());
    page
}

fn vars_of(user_home: &Path, hermes_home: Option<&str>) -> ProcessVars {
    let user_home = user_home.to_str().unwrap();
    let mut vars = vars(&[("HOME", user_home), ("USERPROFILE", user_home)]);
    vars.extend(hermes_home.map(|value| ("HERMES_HOME".to_owned(), value.to_owned())));
    vars
}

#[test]
fn the_default_is_used_unless_its_store_is_the_python_programs() {
    let folder = tempfile::tempdir().unwrap();
    let default = folder.path().join(".hermes");
    let resolve = || Home::resolve(&vars_of(folder.path(), None)).unwrap();
    assert_eq!((resolve().home.root(), resolve().reason), (&*default, HomeReason::Default));
    assert!(!default.exists(), "choosing makes nothing");

    fs::create_dir(&default).unwrap();
    for (bytes, python) in [
        (b"".to_vec(), false),
        (b"not a database".to_vec(), false),
        (page(STORE_APPLICATION_ID, "CREATE TABLE schema_version"), false),
        (page(0, "CREATE TABLE something"), false),
        (page(0x1234, "CREATE TABLE something"), false),
        (page(0x4c43_97b9, ""), true),
        (page(0x1234, "CREATE TABLE schema_version"), true),
        (page(0, "CREATE TABLE schema_version (version INTEGER NOT NULL)"), true),
    ] {
        fs::write(default.join("state.db"), bytes).unwrap();
        let choice = resolve();
        if python {
            assert_eq!(choice.home.root(), folder.path().join(".hermes-rs"));
            assert_eq!(choice.reason, HomeReason::BesidePython { python_home: default.clone() });
        } else {
            assert_eq!(choice.reason, HomeReason::Default);
        }
    }
}

#[test]
fn a_python_home_that_is_named_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("state.db"), page(0, "schema_version")).unwrap();
    let named = folder.path().to_str().unwrap();
    let error = Home::resolve(&vars_of(folder.path(), Some(named))).unwrap_err();
    assert!(matches!(error, HomeError::PythonHome { .. }));
    assert!(error.to_string().contains("hint: "));
}

#[test]
fn a_store_still_in_its_log_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("state.db"), page(0, "")).unwrap();
    fs::write(folder.path().join("state.db-wal"), "...CREATE TABLE schema_version").unwrap();
    assert!(hermes_home::is_python_store(&folder.path().join("state.db")).unwrap());
}

#[test]
fn the_variable_wins_and_a_tilde_is_the_persons_home() {
    let folder = tempfile::tempdir().unwrap();
    let choice = Home::resolve(&vars_of(folder.path(), Some("~/other"))).unwrap();
    assert_eq!(choice.home.root(), folder.path().join("other"));
    assert_eq!((choice.reason, choice.home.profile()), (HomeReason::Variable, "default"));
    assert_eq!(Home::at("/x/profiles/work").profile(), "work");
    assert!(Home::resolve(&ProcessVars::new()).unwrap_err().to_string().contains("HERMES_HOME"));
}

#[test]
fn the_folder_is_made_private_and_a_file_in_its_place_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path().join("a/b"));
    home.ensure().unwrap();
    home.ensure().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(home.root()).unwrap().permissions().mode() & 0o777, 0o700);
    }
    fs::write(home.drafts_dir(), "").unwrap();
    let error = home.ensure().unwrap_err().to_string();
    assert!(error.contains("drafts is not a folder\nhint: "), "{error}");
    fs::write(folder.path().join("file"), "").unwrap();
    let error = Home::at(folder.path().join("file")).ensure().unwrap_err();
    assert!(matches!(error, HomeError::NotAFolder { .. }));
}

#[test]
fn a_home_whose_path_is_no_unicode_is_refused_and_no_other_folder_is_made() {
    let folder = tempfile::tempdir().unwrap();
    // What `process_vars` makes of such a value.
    let odd = folder.path().join("h\u{fffd}me");
    let error = Home::resolve(&vars_of(folder.path(), odd.to_str())).unwrap_err();
    assert!(error.to_string().starts_with("HERMES_HOME is no valid UTF-8"), "{error}");
    assert!(error.to_string().contains("hint: "));
    assert!(Home::resolve(&vars_of(&odd, None)).is_err());
    assert!(Home::resolve(&vars_of(&odd, folder.path().to_str())).is_ok(), "HOME does not count");
}
