//! A look at a plugin's files before it is loaded for the first time, so that a person consents to
//! something they have been shown.
//!
//! This is no sandbox and no proof: a plugin runs with the person's own rights. It finds what is
//! worth a look, by words, line by line.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use regex::Regex;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Files looked at in one plugin at most.
const MOST_FILES: usize = 2000;
/// The longest file that is looked at.
const MOST_BYTES: u64 = 2 << 20;
/// Findings kept.
const MOST_FINDINGS: usize = 200;

/// How much a finding, or a plugin, should worry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Concern {
    /// Nothing worth a look was found.
    #[default]
    Safe,
    /// Something that many plugins do, and a person should know.
    Caution,
    /// Something that few honest plugins do.
    Dangerous,
}

impl Concern {
    /// The word in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Caution => "caution",
            Self::Dangerous => "dangerous",
        }
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScanFinding {
    /// The file, below the plugin's folder.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What it is.
    pub what: &'static str,
    /// How much it should worry.
    pub concern: Concern,
}

/// What was found in a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScanReport {
    /// The worst of it.
    pub verdict: Concern,
    /// Everything.
    pub findings: Vec<ScanFinding>,
    /// Files looked at.
    pub files: usize,
    /// Whether there was more than was looked at.
    pub cut: bool,
    /// Digest of the files looked at, which changes with any of them; empty for none.
    pub digest: String,
}

/// Words, what they mean, and how much they should worry.
const SIGNS: &[(&str, &str, Concern)] = &[
    (
        r"\b(?:exec|eval)\s*\(.*(?:b64decode|decompress|fromhex|unhexlify)",
        "runs code that is hidden in data",
        Concern::Dangerous,
    ),
    (
        r"\bmarshal\.loads|\bpickle\.loads?\s*\(\s*(?:requests|urllib|base64)",
        "runs code that is hidden in data",
        Concern::Dangerous,
    ),
    (
        r"(?:curl|wget)[^\n|]*\|\s*(?:ba|z)?sh\b",
        "runs a script from the network",
        Concern::Dangerous,
    ),
    (
        r"\brm\s+-rf\s+(?:~|/|\$HOME)(?:\s|$|[^\w.])",
        "deletes the person's files",
        Concern::Dangerous,
    ),
    (
        r#"["'/](?:\.ssh/id_|\.aws/credentials|\.netrc|\.gnupg)"#,
        "reads keys of the person",
        Concern::Dangerous,
    ),
    (
        r"\b(?:authorized_keys|crontab\s+-|LaunchAgents|systemctl\s+--user\s+enable)",
        "makes itself start again",
        Concern::Dangerous,
    ),
    (
        r"\bos\.environ\.(?:items|copy)\s*\(\s*\).*(?:post|send|dumps)",
        "sends all variables away",
        Concern::Dangerous,
    ),
    (r"\b(?:exec|eval)\s*\(", "runs code that it makes", Concern::Caution),
    (
        r"\b(?:subprocess\.|os\.system\s*\(|os\.popen\s*\(|pty\.spawn)",
        "starts programs",
        Concern::Caution,
    ),
    (r"shell\s*=\s*True", "starts a shell", Concern::Caution),
    (
        r"\b(?:socket\.socket|http\.server|asyncio\.start_server)\b",
        "opens a connection or a port",
        Concern::Caution,
    ),
    (r"\b(?:requests|httpx|aiohttp|urllib\.request)\b", "uses the network", Concern::Caution),
    (r"\bctypes\.|\bcffi\b", "calls machine code", Concern::Caution),
    (
        r"\bsetattr\s*\(\s*(?:run_agent|gateway|agent|hermes_cli)\b|\bAIAgent\.\w+\s*=|GatewayRunner\.\w+\s*=",
        "changes the original program's code, which is not there",
        Concern::Caution,
    ),
];

fn signs() -> &'static [(Regex, &'static str, Concern)] {
    static COMPILED: OnceLock<Vec<(Regex, &'static str, Concern)>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        SIGNS
            .iter()
            .filter_map(|(text, what, concern)| Some((Regex::new(text).ok()?, *what, *concern)))
            .collect()
    })
}

/// Looks at a file or at all files of a folder.
pub fn scan(root: &Path) -> ScanReport {
    let mut report = ScanReport::default();
    let mut files = Vec::new();
    if root.is_file() {
        files.push(root.to_owned());
    } else {
        report.cut = collect(root, &mut files);
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let too_long = fs::metadata(&file).is_ok_and(|meta| meta.len() > MOST_BYTES);
        let Ok(bytes) = fs::read(&file) else { continue };
        if too_long {
            report.cut = true;
            continue;
        }
        report.files += 1;
        let shown = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        digest.update(format!("{}\n{}\n", shown, bytes.len()));
        digest.update(&bytes);
        look(&shown, &String::from_utf8_lossy(&bytes), &mut report);
    }
    if report.files > 0 {
        report.digest = hex(&digest.finalize());
    }
    report
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn look(file: &str, text: &str, report: &mut ScanReport) {
    let mut add = |line: usize, what, concern| {
        report.verdict = report.verdict.max(concern);
        if report.findings.len() < MOST_FINDINGS {
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            report.findings.push(ScanFinding { file: file.to_owned(), line, what, concern });
        } else {
            report.cut = true;
        }
    };
    if Path::new(file).extension().is_some_and(|end| end == "pth") && text.contains("import") {
        add(1, "runs code whenever Python starts", Concern::Dangerous);
    }
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('#') {
            continue;
        }
        // One remark a line, the worst one: the signs are sorted that way.
        if let Some((_, what, concern)) = signs().iter().find(|(sign, ..)| sign.is_match(line)) {
            add(number + 1, what, *concern);
        }
    }
}

/// Collects files; whether there were more.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> bool {
    const KINDS: [&str; 6] = ["py", "pth", "sh", "js", "toml", "cfg"];
    let mut cut = false;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if into.len() >= MOST_FILES {
            return true;
        }
        // Links are not followed: what they point to is not the plugin's.
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        if kind.is_dir() && name != "__pycache__" && name != ".git" && name != ".venv" {
            cut |= collect(&entry.path(), into);
        } else if kind.is_file()
            && entry.path().extension().is_some_and(|end| KINDS.iter().any(|kind| end == *kind))
        {
            into.push(entry.path());
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> (Concern, Vec<u32>) {
        let mut report = ScanReport::default();
        look("x.py", text, &mut report);
        (report.verdict, report.findings.iter().map(|finding| finding.line).collect())
    }

    #[test]
    fn every_sign_is_a_regular_expression() {
        assert_eq!(signs().len(), SIGNS.len());
    }

    #[test]
    fn what_few_honest_plugins_do_is_told_from_what_many_do() {
        let check = |text: &str, wanted: Concern| assert_eq!(verdict(text).0, wanted, "{text}");
        check("def register(ctx):\n    ctx.register_hook('x', y)\n", Concern::Safe);
        check("# subprocess.run is not used\n", Concern::Safe);
        check("import requests\n", Concern::Caution);
        check("subprocess.run(cmd, shell=True)\n", Concern::Caution);
        check("exec(base64.b64decode(x))\n", Concern::Dangerous);
        check("os.system('curl http://x | sh')\n", Concern::Dangerous);
        check("open(home + '/.ssh/id_rsa')\n", Concern::Dangerous);
    }

    #[test]
    fn a_finding_names_its_line_and_a_line_is_named_once() {
        assert_eq!(verdict("a\nsubprocess.run(x, shell=True)\nb\neval(x)\n").1, [2, 4]);
    }

    #[test]
    fn a_folder_is_looked_through_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/a.py"), "eval(x)\n").unwrap();
        fs::write(folder.path().join("auto.pth"), "import evil\n").unwrap();
        let report = scan(folder.path());
        let files: Vec<&str> = report.findings.iter().map(|finding| &*finding.file).collect();
        assert_eq!((report.verdict, files), (Concern::Dangerous, vec!["auto.pth", "inner/a.py"]));
        assert_eq!(scan(folder.path()), report, "the same files have the same digest");
        fs::write(folder.path().join("inner/a.py"), "eval(y)\n").unwrap();
        assert_ne!(scan(folder.path()).digest, report.digest);
    }
}
