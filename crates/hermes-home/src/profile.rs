//! Profiles: homes beside each other, each with its own store, settings and secrets.
//!
//! The root home is the profile `default`; every other one is the folder `profiles/NAME` below it.
//! Which one is used without a word is in the file `active_profile` of the root home.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::fsio::{self, Privacy};
use crate::{Home, HomeError};

/// The name of the root home.
pub const DEFAULT_PROFILE: &str = "default";

/// The file that names the profile in use.
const ACTIVE: &str = "active_profile";

/// What a profile's copy begins with: settings and identity, no secrets and no conversations.
const COPIED: [&str; 2] = ["config.yaml", "SOUL.md"];

/// Whether this can be the name of a profile: it becomes a folder's name on every platform.
pub fn is_profile_name(name: &str) -> bool {
    let harmless = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    (1..=64).contains(&name.len())
        && name.chars().all(harmless)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

impl Home {
    /// The root home of all profiles.
    pub fn base(&self) -> PathBuf {
        let root = self.root();
        match root.parent() {
            Some(folder) if self.profile() != DEFAULT_PROFILE => {
                folder.parent().unwrap_or(root).to_owned()
            }
            _ => root.to_owned(),
        }
    }

    /// The home of a profile, whether it exists or not.
    ///
    /// # Errors
    /// If the name cannot be one of a profile.
    pub fn of_profile(&self, name: &str) -> Result<Self, HomeError> {
        if name == DEFAULT_PROFILE {
            return Ok(Self::at(self.base()));
        }
        if !is_profile_name(name) {
            return Err(HomeError::ProfileName { name: name.to_owned() });
        }
        Ok(Self::at(self.base().join("profiles").join(name)))
    }

    /// The home of a profile that is to be made. Its folder can be one on every platform.
    fn of_new_profile(&self, name: &str) -> Result<Self, HomeError> {
        if fsio::is_reserved_name(name) {
            return Err(HomeError::ProfileName { name: name.to_owned() });
        }
        let home = self.of_profile(name)?;
        if name == DEFAULT_PROFILE || home.root().exists() {
            return Err(HomeError::ProfileExists { name: name.to_owned() });
        }
        Ok(home)
    }

    /// The home of a profile that exists.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn existing_profile(&self, name: &str) -> Result<Self, HomeError> {
        let home = self.of_profile(name)?;
        if name == DEFAULT_PROFILE || home.root().is_dir() {
            return Ok(home);
        }
        Err(HomeError::NoProfile { name: name.to_owned(), known: self.profiles().join(", ") })
    }

    /// All profiles, `default` first.
    pub fn profiles(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.base().join("profiles"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_profile_name(name) && name != DEFAULT_PROFILE)
            .collect();
        names.sort();
        names.insert(0, DEFAULT_PROFILE.to_owned());
        names
    }

    /// The profile that is used without a word; None for the root home.
    pub fn active_profile(&self) -> Option<String> {
        let text = fs::read_to_string(self.base().join(ACTIVE)).ok()?;
        let name = text.trim();
        (is_profile_name(name) && name != DEFAULT_PROFILE).then(|| name.to_owned())
    }

    /// Uses this profile from now on.
    ///
    /// # Errors
    /// If there is none of this name, or the file cannot be written.
    pub fn use_profile(&self, name: &str) -> Result<(), HomeError> {
        self.existing_profile(name)?;
        let path = self.base().join(ACTIVE);
        let written = if name == DEFAULT_PROFILE {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            }
        } else {
            fsio::write_atomic(&path, format!("{name}\n").as_bytes(), Privacy::Private)
        };
        written.map_err(|source| HomeError::Io { path, source })
    }

    /// Makes a profile; with `copy`, its settings and identity are those of this home.
    ///
    /// # Errors
    /// If the name is taken or no name, or the folder cannot be made.
    pub fn create_profile(&self, name: &str, copy: bool) -> Result<Self, HomeError> {
        let home = self.of_new_profile(name)?;
        let at = |path: &std::path::Path, source: io::Error| HomeError::Io {
            path: path.to_owned(),
            source,
        };
        fsio::create_private_dir(home.root()).map_err(|source| at(home.root(), source))?;
        for file in COPIED.iter().filter(|_| copy) {
            let from = self.root().join(file);
            if from.is_file() {
                let to = home.root().join(file);
                let bytes = fs::read(&from).map_err(|source| at(&from, source))?;
                fsio::write_atomic(&to, &bytes, Privacy::Private)
                    .map_err(|source| at(&to, source))?;
            }
        }
        Ok(home)
    }

    /// Gives a profile another name. The caller makes sure that nobody uses it.
    ///
    /// # Errors
    /// If there is none of this name, the new one is taken, or the folder cannot be moved.
    pub fn rename_profile(&self, name: &str, to: &str) -> Result<Self, HomeError> {
        if name == DEFAULT_PROFILE {
            return Err(HomeError::RootProfile { what: "renamed" });
        }
        let from = self.existing_profile(name)?;
        let target = self.of_new_profile(to)?;
        fs::rename(from.root(), target.root())
            .map_err(|source| HomeError::Io { path: target.root().to_owned(), source })?;
        if self.active_profile().as_deref() == Some(name) {
            self.use_profile(to)?;
        }
        Ok(target)
    }

    /// Removes a profile with everything in it. The caller makes sure that nobody uses it.
    ///
    /// # Errors
    /// If there is none of this name, it is the root home, or a file cannot be removed.
    pub fn delete_profile(&self, name: &str) -> Result<(), HomeError> {
        if name == DEFAULT_PROFILE {
            return Err(HomeError::RootProfile { what: "deleted" });
        }
        let home = self.existing_profile(name)?;
        if self.active_profile().as_deref() == Some(name) {
            self.use_profile(DEFAULT_PROFILE)?;
        }
        // Moved first, so that a removal that stops half way leaves no half profile behind.
        let aside = home.root().with_extension(format!("deleting-{}", std::process::id()));
        fs::rename(home.root(), &aside)
            .and_then(|()| fs::remove_dir_all(&aside))
            .map_err(|source| HomeError::Io { path: aside, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_made_used_renamed_and_deleted() {
        let dir = tempfile::TempDir::new().unwrap();
        let base = Home::at(dir.path().join("h"));
        base.ensure().unwrap();
        fs::write(base.config_path(), "timezone: UTC\n").unwrap();
        fs::write(base.env_path(), "KEY=sk-test-not-a-key\n").unwrap();
        assert_eq!(base.profiles(), ["default"]);
        let work = base.create_profile("work", true).unwrap();
        assert_eq!((work.profile(), work.base()), ("work", base.root().to_owned()));
        assert!(work.config_path().exists() && !work.env_path().exists());
        assert!(!base.create_profile("blank", false).unwrap().config_path().exists());
        assert_eq!(work.profiles(), ["default", "blank", "work"]);
        work.use_profile("work").unwrap();
        assert_eq!(base.active_profile().as_deref(), Some("work"));
        base.rename_profile("work", "job").unwrap();
        assert_eq!(base.active_profile().as_deref(), Some("job"));
        base.delete_profile("job").unwrap();
        assert_eq!(
            (base.active_profile(), base.profiles()),
            (None, vec!["default".to_owned(), "blank".to_owned()])
        );
        for wrong in ["", "..", "a/b", "UPPER", ".x", "default", "nul", "com1"] {
            assert!(base.create_profile(wrong, false).is_err(), "{wrong}");
        }
        assert!(base.use_profile("nobody").is_err());
        assert!(base.delete_profile("default").is_err());
    }
}
