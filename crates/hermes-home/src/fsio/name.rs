//! File names made from ids.

use hermes_core::Digest;

/// Most characters of a name that is taken as it stands.
const LONGEST: usize = 120;

/// A file name for an id, safe on every platform, and different for different ids.
///
/// Lower-case letters, digits, `-`, `_` and `.` stand as they are. Where anything else stands, or
/// the name is too long, reserved, or could be taken for a changed one, it is changed and ends with
/// 16 digits of the id's digest. Capital letters count as changed, because some file systems do
/// not tell them from small ones.
pub fn safe_file_name(id: &str) -> String {
    if is_safe(id) {
        return id.to_owned();
    }
    let digest = Digest::of(id).to_string();
    let mut name: String = id
        .chars()
        .take(LONGEST - 17)
        .map(|c| match c {
            'a'..='z' | '0'..='9' | '-' | '_' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            '.' => '.',
            _ => '_',
        })
        .collect();
    if name.starts_with('.') || is_reserved_name(&name) {
        name.insert(0, '_');
    }
    format!("{name}-{}", &digest[..16])
}

fn is_safe(id: &str) -> bool {
    let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    !id.is_empty()
        && id.len() <= LONGEST
        && id.bytes().all(allowed)
        && !id.starts_with('.')
        && !id.ends_with('.')
        && !is_reserved_name(id)
        && !looks_changed(id)
}

/// Whether it ends as a changed name does.
fn looks_changed(id: &str) -> bool {
    id.rsplit_once('-').is_some_and(|(_, tail)| {
        tail.len() == 16 && tail.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Device names of Windows, with any extension.
pub(crate) fn is_reserved_name(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    matches!(stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
        || (stem.len() == 4
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.ends_with(|c: char| c.is_ascii_digit()))
}
