//! Which conversation a message or session belongs to, and the names of that conversation's files.
//!
//! One function, [`lane`], serves writing and reading alike. Invariants: places that differ in any
//! id never share a lane or a file, equal ones always do, whatever the ids hold; the key holds the
//! ids whole, and only the file name is shortened.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hermes_core::{Digest, Lane};

/// Where a message comes from or a session is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// The command line: the git root, else the working directory.
    Cli {
        /// The git root.
        git_root: Option<&'a Path>,
        /// The working directory.
        cwd: &'a Path,
    },
    /// A chat platform.
    Chat(Chat<'a>),
    /// The HTTP API: the session key that the caller declared.
    Api {
        /// The key; without one there is no conversation to go on with.
        session_key: Option<&'a str>,
    },
}

/// A chat. Empty ids count as missing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chat<'a> {
    /// The platform, such as `telegram`.
    pub platform: &'a str,
    /// The chat.
    pub chat: Option<&'a str>,
    /// The thread or topic in it.
    pub thread: Option<&'a str>,
    /// Who speaks.
    pub participant: Option<&'a str>,
    /// Whether several people write in it.
    pub group: bool,
}

/// Where each participant has a session of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerUser {
    /// In groups, outside threads.
    pub groups: bool,
    /// In threads.
    pub threads: bool,
}

impl Default for PerUser {
    fn default() -> Self {
        Self { groups: true, threads: false }
    }
}

/// Most characters of a key that stands in a file name as it is, and of what a longer one keeps.
const LONGEST: usize = 120;
/// Hexadecimal digits of the hash behind a changed name.
const HASH: usize = 20;

/// The lane of a place; None where a capsule can only be handed on by its id.
pub fn lane(place: &Place<'_>, per_user: PerUser) -> Option<Lane> {
    match *place {
        Place::Cli { git_root, cwd } => Some(Lane::cli(&folder(git_root.unwrap_or(cwd)))),
        Place::Api { session_key } => {
            let key = given(session_key)?;
            Some(Lane::from_key(format!("api:{key}")))
        }
        Place::Chat(chat) => chat_lane(&chat, per_user),
    }
}

/// A folder as it is shown. Of one whose name is no text two that look the same stay two.
fn folder(path: &Path) -> String {
    // `/a//b/.` is `/a/b`.
    let path: PathBuf = path.components().collect();
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => format!("{}%{}", path.display(), hash(path.as_os_str().as_encoded_bytes())),
    }
}

fn given(id: Option<&str>) -> Option<&str> {
    id.filter(|id| !id.is_empty())
}

fn chat_lane(chat: &Chat<'_>, per_user: PerUser) -> Option<Lane> {
    let (room, thread) = (given(chat.chat), given(chat.thread));
    let own = match (chat.group, thread) {
        (true, None) => per_user.groups,
        (_, Some(_)) => chat.group && per_user.threads,
        (false, None) => false,
    };
    // A direct message without a chat id is told by who writes it.
    let participant = given(chat.participant).filter(|_| own || room.is_none());
    if room.is_none() && thread.is_none() && participant.is_none() {
        return None;
    }
    let mut key = String::new();
    escape(&mut key, chat.platform, true);
    key.push(':');
    escape(&mut key, room.unwrap_or_default(), false);
    for (name, id) in [("thread", thread), ("user", participant)] {
        if let Some(id) = id {
            let _ = write!(key, ";{name}=");
            escape(&mut key, id, false);
        }
    }
    Some(Lane::from_key(key))
}

/// Ids keep their characters but for those that separate; in a platform that is the colon too, and
/// a platform cannot take the name of another kind of place.
fn escape(key: &mut String, id: &str, platform: bool) {
    let reserved = platform && matches!(id, "cli" | "api");
    for (at, character) in id.chars().enumerate() {
        match character {
            '%' | ';' => {
                let _ = write!(key, "%{:02X}", character as u32);
            }
            ':' if platform => key.push_str("%3A"),
            other if reserved && at == 0 => {
                let _ = write!(key, "%{:02X}", other as u32);
            }
            other => key.push(other),
        }
    }
}

/// What stands for the lane in the names of its files. In a confidential lane nothing of the ids
/// is left, because an id may be a phone number.
pub fn stem(lane: &Lane, confidential: bool) -> String {
    let key = lane.key();
    if confidential {
        let kind = key.split(':').next().unwrap_or_default();
        let kind: String = kind.chars().take(16).map(readable).collect();
        return format!("{kind}-{}", hash(key));
    }
    let name = if is_safe(key) {
        key.to_owned()
    } else {
        let prefix: String = key.chars().take(LONGEST).map(readable).collect();
        format!("{prefix}-{}", hash(key))
    };
    platform_name(name)
}

/// The stem of a capsule that is handed on by its id.
pub(crate) fn stem_of_id(id: &str) -> String {
    format!("id-{}", hermes_home::fsio::safe_file_name(id))
}

fn hash(key: impl AsRef<[u8]>) -> String {
    let mut digest = Digest::of(key).to_string();
    digest.truncate(HASH);
    digest
}

/// A colon cannot stand in a file name on Windows; no safe key has an exclamation mark.
fn platform_name(name: String) -> String {
    if cfg!(windows) { name.replace(':', "!") } else { name }
}

fn is_plain(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | ':' | ';' | '=' | '@' | '+')
}

/// Capital letters are changed, because some file systems do not tell them from small ones.
fn readable(character: char) -> char {
    match character.to_ascii_lowercase() {
        plain if is_plain(plain) => plain,
        _ => '_',
    }
}

fn is_safe(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= LONGEST
        && key.chars().all(is_plain)
        && !looks_changed(key)
        // Names of these shapes are given to other things.
        && !key.starts_with("id-")
}

/// Whether it ends as a changed name does.
fn looks_changed(key: &str) -> bool {
    key.rsplit_once('-').is_some_and(|(_, tail)| {
        tail.len() == HASH && tail.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat<'a>(platform: &'a str, chat: &'a str) -> Chat<'a> {
        Chat { platform, chat: Some(chat), thread: None, participant: None, group: false }
    }

    fn of(chat: Chat<'_>) -> String {
        lane(&Place::Chat(chat), PerUser::default()).unwrap().key().to_owned()
    }

    #[test]
    fn a_private_chat_is_its_platform_and_id() {
        let lane = lane(&Place::Chat(chat("telegram", "1033877751")), PerUser::default()).unwrap();
        assert_eq!(lane.key(), "telegram:1033877751");
        if !cfg!(windows) {
            assert_eq!(stem(&lane, false), "telegram:1033877751");
        }
    }

    #[test]
    fn threads_and_participants_tell_lanes_apart_where_sessions_do() {
        let group = Chat { group: true, participant: Some("7"), ..chat("telegram", "-100") };
        assert_eq!(of(group), "telegram:-100;user=7");
        let thread = Chat { thread: Some("5"), ..group };
        assert_eq!(of(thread), "telegram:-100;thread=5");
        let own = lane(&Place::Chat(thread), PerUser { groups: true, threads: true }).unwrap();
        assert_eq!(own.key(), "telegram:-100;thread=5;user=7");
        let shared = lane(&Place::Chat(group), PerUser { groups: false, threads: false }).unwrap();
        assert_eq!(shared.key(), "telegram:-100");
        let private = Chat { participant: Some("7"), ..chat("telegram", "9") };
        assert_eq!(of(private), "telegram:9");
        let roomless = Chat { chat: None, participant: Some("7"), ..chat("signal", "") };
        assert_eq!(of(roomless), "signal:;user=7");
        let nobody = Chat { chat: Some(""), ..chat("signal", "") };
        assert_eq!(lane(&Place::Chat(nobody), PerUser::default()), None);
    }

    #[test]
    fn the_command_line_has_the_workspace_and_the_api_its_declared_key() {
        let root = Place::Cli { git_root: Some(Path::new("/w/p")), cwd: Path::new("/w/p/src") };
        let bare = Place::Cli { git_root: None, cwd: Path::new("/w/p") };
        assert_eq!(lane(&root, PerUser::default()), Some(Lane::cli("/w/p")));
        assert_eq!(lane(&root, PerUser::default()), lane(&bare, PerUser::default()));
        let untidy = Place::Cli { git_root: None, cwd: Path::new("/w//p/./") };
        assert_eq!(lane(&untidy, PerUser::default()), Some(Lane::cli("/w/p")));
        let api = |key| lane(&Place::Api { session_key: key }, PerUser::default());
        assert_eq!(api(Some("k1")).unwrap().key(), "api:k1");
        assert_eq!(api(Some("")), None);
        assert_eq!(api(None), None);
        // A platform of that name is something else.
        assert_eq!(of(chat("api", "k1")), "%61pi:k1");
        assert_eq!(of(chat("cli", "/w/p")), "%63li:/w/p");
    }

    #[cfg(unix)]
    #[test]
    fn folders_whose_names_are_no_text_have_lanes_of_their_own() {
        use std::os::unix::ffi::OsStrExt as _;
        let of = |bytes: &'static [u8]| {
            let cwd = Path::new(std::ffi::OsStr::from_bytes(bytes));
            lane(&Place::Cli { git_root: None, cwd }, PerUser::default()).unwrap()
        };
        assert_eq!(of(b"/w/\xff"), of(b"/w/\xff"));
        assert_ne!(of(b"/w/\xff"), of(b"/w/\xfe"));
        assert_ne!(of(b"/w/\xff"), of("/w/\u{fffd}".as_bytes()));
    }

    #[test]
    fn ids_that_agree_for_120_characters_have_different_files() {
        let long = |end: &str| format!("19:abc-def-1234:topic:{}{end}", "a".repeat(116));
        let (one, two) = (long("x"), long("y"));
        assert_eq!(one.len(), 139);
        let name = |id: &str| stem(&Lane::from_key(of(chat("teams", id))), false);
        assert_ne!(name(&one), name(&two));
        assert_eq!(name(&one), name(&one));
        let (prefix, hash) =
            name(&one).rsplit_once('-').map(|(a, b)| (a.to_owned(), b.len())).unwrap();
        assert_eq!(hash, 20);
        assert!(prefix.contains("abc-def-1234"), "{prefix}");
        assert!(name(&one).len() <= LONGEST + 1 + HASH);
    }

    #[test]
    fn a_confidential_file_name_holds_nothing_of_the_ids() {
        let lane = Lane::from_key(of(chat("signal", "+491701234567")));
        let name = stem(&lane, true);
        assert!(name.starts_with("signal-"), "{name}");
        assert!(!name.contains("170123"), "{name}");
    }
}
