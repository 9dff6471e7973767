//! A look at a plugin's files before it runs for the first time, and who agreed to it when.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use hermes_home::Home;
use hermes_home::fsio::{self, Privacy};
use hermes_plugins::Found;
use hermes_plugins::scan::{Concern, ScanReport};
use serde::{Deserialize, Serialize};

use crate::out::{self, Paint};

/// Findings shown; the rest is counted.
const SHOWN: usize = 12;
/// The largest file of agreements, in bytes.
const MOST: u64 = 1 << 20;

/// An agreement about one plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// The plugin's version then.
    #[serde(default)]
    pub version: Option<String>,
    /// Digest of the files that were looked at.
    #[serde(default)]
    pub digest: String,
    /// What the look came to.
    #[serde(default)]
    pub verdict: String,
    /// `command` if a person was shown it, `settings` if the settings named the plugin already.
    #[serde(default)]
    pub by: String,
    /// When.
    #[serde(default)]
    pub at: String,
}

/// All agreements of a home.
#[derive(Debug)]
pub struct Agreements {
    path: PathBuf,
    plugins: BTreeMap<String, Agreement>,
}

impl Agreements {
    /// Those of a home; none where the file is missing or damaged, so that the person is told again.
    pub fn of(home: &Home) -> Self {
        let path = home.root().join("plugins").join(".consents.json");
        let plugins = fsio::read_text(&path, MOST)
            .ok()
            .and_then(|read| serde_json::from_str(&read.text).ok())
            .unwrap_or_default();
        Self { path, plugins }
    }

    /// Whether somebody was shown this plugin.
    pub fn has(&self, key: &str) -> bool {
        self.plugins.contains_key(key)
    }

    /// The agreement about a plugin.
    pub fn get(&self, key: &str) -> Option<&Agreement> {
        self.plugins.get(key)
    }

    /// Remembers one.
    pub fn add(&mut self, found: &Found, scan: &ScanReport, by: &str, at: &str) {
        let agreement = Agreement {
            version: found.version.clone(),
            digest: scan.digest.clone(),
            verdict: scan.verdict.to_string(),
            by: by.to_owned(),
            at: at.to_owned(),
        };
        self.plugins.insert(found.key.clone(), agreement);
    }

    /// Forgets one.
    pub fn remove(&mut self, key: &str) {
        self.plugins.remove(key);
    }

    /// Writes them down.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fsio::create_private_dir(folder)?;
        }
        let text = serde_json::to_string_pretty(&self.plugins)?;
        fsio::write_atomic(&self.path, format!("{text}\n").as_bytes(), Privacy::Private)
    }
}

/// The look in a few words.
pub fn in_short(scan: &ScanReport) -> String {
    match scan.findings.len() {
        0 => format!("{} ({} files)", scan.verdict, scan.files),
        1 => format!("{} (one place)", scan.verdict),
        count => format!("{} ({count} places)", scan.verdict),
    }
}

/// The look line by line.
pub fn lines(scan: &ScanReport, paint: Paint) -> Vec<String> {
    let verdict = scan.verdict.to_string();
    let verdict = match scan.verdict {
        Concern::Safe => paint.green(&verdict),
        Concern::Caution => paint.yellow(&verdict),
        Concern::Dangerous => paint.red(&verdict),
    };
    let mut out = vec![format!("a look at its files ({}): {verdict}", scan.files)];
    let mut findings: Vec<_> = scan.findings.iter().collect();
    // The worst first, each file in order.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.concern));
    for finding in findings.iter().take(SHOWN) {
        let place = format!("{}:{}", finding.file, finding.line);
        out.push(format!("  {:<10} {place:<28} {}", finding.concern.as_str(), finding.what));
    }
    if findings.len() > SHOWN {
        out.push(format!("  and {} more places", findings.len() - SHOWN));
    }
    if scan.cut {
        out.push("  there were more files than were looked at".to_owned());
    }
    out
}

/// Shows the look to the person who is to decide.
pub fn show(name: &str, scan: &ScanReport) {
    let paint = Paint::stderr();
    out::note(format!("plugin {}", paint.bold(name)));
    for line in lines(scan, paint) {
        out::note(line);
    }
    out::note(
        "It runs with your rights: a process of its own keeps its crashes away, not its intentions.",
    );
}

#[cfg(test)]
mod tests {
    use hermes_plugins::scan::ScanFinding;

    use super::*;

    #[test]
    fn the_worst_findings_come_first_and_the_rest_is_counted() {
        let finding = |line, concern| ScanFinding {
            file: "a.py".to_owned(),
            line,
            what: "starts programs",
            concern,
        };
        let mut findings: Vec<_> = (1..=20).map(|line| finding(line, Concern::Caution)).collect();
        findings.push(finding(99, Concern::Dangerous));
        let scan =
            ScanReport { verdict: Concern::Dangerous, findings, files: 1, ..ScanReport::default() };
        let told = lines(&scan, Paint::off());
        assert!(told[1].contains("a.py:99"), "{told:?}");
        assert_eq!(told.last().map(String::as_str), Some("  and 9 more places"));
        assert_eq!(in_short(&scan), "dangerous (21 places)");
    }
}
