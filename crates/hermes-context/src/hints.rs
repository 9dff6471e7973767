//! Nested project files: found when a tool touches a path in their folder.
use std::path::Path;
pub(crate) fn is_hint_name(_path: &Path) -> bool {
    false
}
