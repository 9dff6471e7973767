//! The floor: what is refused even when a person or the configuration allows it. A table, and the
//! few tests its rows name.

use std::path::{Component, Path, PathBuf};

use super::shell::{Parsed, Simple, base};

/// Folders that the floor protects besides the system's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The person's home folder.
    pub user_home: Option<PathBuf>,
    /// This program's home.
    pub hermes_home: PathBuf,
}

/// What makes a command of these programs forbidden.
enum Test {
    /// Naming the program is enough.
    Always,
    /// It deletes recursively and an operand is a protected folder or everything in it.
    RecursiveOnProtected,
    /// `find` that deletes what it finds in a protected folder, with nothing to narrow it.
    FindDeletes,
    /// An operand (after this prefix) is a device that holds data.
    Device(&'static str),
    /// The last operand is this.
    Last(&'static str),
    /// One operand is one of these words.
    Word(&'static [&'static str]),
}

struct Rule {
    why: &'static str,
    programs: &'static [&'static str],
    test: Test,
}

const FLOOR: &[Rule] = &[
    Rule {
        why: "it deletes the root, a system folder or a home folder recursively",
        programs: &["rm", "srm", "unlink"],
        test: Test::RecursiveOnProtected,
    },
    Rule {
        why: "it deletes everything that find meets in the root, a system folder or a home folder",
        programs: &["find", "fd"],
        test: Test::FindDeletes,
    },
    Rule {
        why: "it makes a file system, which destroys what the device holds",
        programs: &["mkfs", "mke2fs", "mkswap", "mkdosfs", "newfs", "wipefs"],
        test: Test::Always,
    },
    Rule {
        why: "it writes to a device that holds data",
        programs: &["dd"],
        test: Test::Device("of="),
    },
    Rule {
        why: "it writes to a device that holds data",
        programs: &["tee", "cp", "mv", "shred", "blkdiscard"],
        test: Test::Device(""),
    },
    Rule {
        why: "it stops or restarts the machine",
        programs: &["shutdown", "reboot", "halt", "poweroff"],
        test: Test::Always,
    },
    Rule {
        why: "it stops or restarts the machine",
        programs: &["init", "telinit"],
        test: Test::Word(&["0", "6"]),
    },
    Rule {
        why: "it stops or restarts the machine",
        programs: &["systemctl", "loginctl"],
        test: Test::Word(&["poweroff", "reboot", "halt", "kexec"]),
    },
    Rule { why: "it ends every process", programs: &["kill"], test: Test::Last("-1") },
    Rule {
        why: "it gives sudo a password that was not typed by a person",
        programs: &["sudo"],
        test: Test::Word(&["-S", "--stdin"]),
    },
];

/// Folders of the system whose recursive deletion is forbidden.
const SYSTEM_FOLDERS: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local",
    "/var",
    "/var/lib",
    "/mnt",
    "/media",
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/Volumes",
    "/private",
    "/nix",
    "/snap",
];

/// Devices that only look like targets.
const HARMLESS_DEVICES: &[&str] =
    &["null", "zero", "full", "stdout", "stderr", "stdin", "tty", "random", "urandom"];

/// Options of `find` that narrow what it meets.
const NARROWING: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-regex",
    "-iregex",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-newer",
    "-size",
    "-empty",
    "-user",
    "-group",
    "-perm",
];

/// Why the command is on the floor; None if it is not.
pub(super) fn forbidden(
    normal: &str,
    parsed: &Parsed,
    cwd: &Path,
    places: &Places,
) -> Option<String> {
    if is_fork_bomb(normal) {
        return Some("it is a fork bomb".to_owned());
    }
    let mut cwd = cwd.to_owned();
    for simple in parsed.commands() {
        if let Some(device) = simple.writes_to.iter().find(|target| is_data_device(target)) {
            return Some(format!("it writes to the device {device}"));
        }
        for words in simple.unwrapped() {
            let Some((program, operands)) = words.split_first() else { continue };
            let name = base(program);
            // `mkfs.ext4` is `mkfs`.
            let family = name.split('.').next().unwrap_or(name);
            let rules =
                FLOOR.iter().filter(|r| r.programs.contains(&name) || r.programs.contains(&family));
            for rule in rules {
                if holds(&rule.test, operands, &cwd, places) {
                    return Some(rule.why.to_owned());
                }
            }
        }
        follow_cd(simple, &mut cwd, places);
    }
    None
}

fn holds(test: &Test, operands: &[String], cwd: &Path, places: &Places) -> bool {
    match test {
        Test::Always => true,
        Test::RecursiveOnProtected => {
            operands.iter().any(|word| is_recursive(word))
                && operands
                    .iter()
                    .any(|word| word == "--no-preserve-root" || is_protected(word, cwd, places))
        }
        Test::FindDeletes => {
            let deletes = operands.iter().any(|word| word == "-delete")
                || operands.windows(2).any(|pair| {
                    matches!(pair, [option, program]
                        if option.starts_with("-exec") && base(program) == "rm")
                });
            let roots = operands.iter().take_while(|word| !word.starts_with('-'));
            let narrowed = operands.iter().any(|word| NARROWING.contains(&word.as_str()));
            let nowhere = operands.first().is_none_or(|word| word.starts_with('-'));
            deletes
                && !narrowed
                && (roots.into_iter().any(|word| is_protected(word, cwd, places))
                    || (nowhere && is_protected(".", cwd, places)))
        }
        Test::Device(prefix) => {
            operands.iter().filter_map(|word| word.strip_prefix(prefix)).any(is_data_device)
        }
        Test::Last(last) => operands.len() > 1 && operands.last().is_some_and(|word| word == last),
        Test::Word(words) => operands.iter().any(|word| words.contains(&word.as_str())),
    }
}

fn is_recursive(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => !long.is_empty() && "recursive".starts_with(long),
        None => word.starts_with('-') && word.contains(['r', 'R']),
    }
}

fn is_data_device(target: &str) -> bool {
    let Some(name) = target.strip_prefix("/dev/") else { return false };
    !name.is_empty()
        && !HARMLESS_DEVICES.contains(&name)
        && !["fd/", "shm/", "pts/", "tty"].iter().any(|safe| name.starts_with(safe))
}

/// Whether `word` names a protected folder, or everything in one.
fn is_protected(word: &str, cwd: &Path, places: &Places) -> bool {
    if word.starts_with('-') {
        return false;
    }
    let Some(mut path) = resolve(word, cwd, places) else { return false };
    // `/*`, `~/.*`: everything in the folder is as good as the folder.
    while path.file_name().is_some_and(|name| !has_letters(&name.to_string_lossy())) {
        path.pop();
    }
    let within = |inner: &Path| inner.starts_with(&path);
    SYSTEM_FOLDERS.iter().any(|folder| path == Path::new(folder))
        || places.user_home.as_deref().is_some_and(within)
        || within(&places.hermes_home)
}

fn has_letters(name: &str) -> bool {
    name.chars().any(|c| c.is_alphanumeric() || c == '_')
}

/// The path a word stands for, by its text alone; None where it depends on a variable.
fn resolve(word: &str, cwd: &Path, places: &Places) -> Option<PathBuf> {
    let home = places.user_home.as_deref();
    let expanded = ["~", "$HOME", "${HOME}"]
        .iter()
        .find_map(|form| {
            let rest = word.strip_prefix(form)?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| home.map(|home| home.join(rest.trim_start_matches('/'))))?
        })
        .unwrap_or_else(|| {
            let word = word
                .replace("$PWD", &cwd.to_string_lossy())
                .replace("${PWD}", &cwd.to_string_lossy());
            cwd.join(word)
        });
    let mut path = PathBuf::from("/");
    for part in expanded.components() {
        match part {
            Component::Normal(name) => {
                if name.to_string_lossy().starts_with('$') {
                    return None;
                }
                path.push(name);
            }
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

/// `cd X` changes what the words after it mean.
fn follow_cd(simple: &Simple, cwd: &mut PathBuf, places: &Places) {
    if let [program, rest @ ..] = simple.words.as_slice()
        && (program == "cd" || program == "pushd")
    {
        let target = rest.iter().find(|word| !word.starts_with('-'));
        let word = target.map_or("~", String::as_str);
        if let Some(path) = resolve(word, cwd, places) {
            *cwd = path;
        }
    }
}

/// `name(){ name|name& };name`, whatever the name and spacing.
fn is_fork_bomb(normal: &str) -> bool {
    let dense: String = normal.chars().filter(|c| !c.is_whitespace()).collect();
    dense.match_indices("(){").any(|(at, open)| {
        let before = dense.get(..at).unwrap_or_default();
        let name_at =
            before.rfind([';', '&', '|', '{', '}', '(', ')', '\'', '"']).map_or(0, |i| i + 1);
        let name = before.get(name_at..).unwrap_or_default();
        let name = name.strip_prefix("function").filter(|n| !n.is_empty()).unwrap_or(name);
        let body = dense.get(at + open.len()..).unwrap_or_default();
        !name.is_empty() && body.contains(&format!("{name}|{name}"))
    })
}
