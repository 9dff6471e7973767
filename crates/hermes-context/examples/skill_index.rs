//! Measures how long 300 skills take at the start of a session: cold (every header is read) and
//! warm (headers are kept from the session before).
//!
//!     cargo run --release -p hermes-context --example skill_index

#![expect(clippy::print_stdout, reason = "it reports what it measured")]

use std::path::Path;
use std::time::Instant;
use std::{fs, io};

use hermes_context::{SnapshotInput, Workspace, build_snapshot};
use hermes_core::{SessionId, Timestamp, ToolDef, ToolSet};
use hermes_home::{Config, Home};

fn main() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    write_skills(&folder.path().join("skills"))?;
    let home = Home::at(folder.path());
    let config = Config::default();
    let workspace = Workspace::discover(folder.path());
    let tools = ToolSet::new(vec![ToolDef { name: "skill_view".into(), json: "{}".into() }]);
    let session = SessionId::new("20261130_095600_abcdef");
    let mut times = Vec::new();
    for _ in 0..11 {
        let start = Instant::now();
        let built = build_snapshot(&SnapshotInput {
            home: &home,
            config: &config,
            workspace: &workspace,
            platform: "cli",
            provider: "local",
            model: "model",
            tools: &tools,
            session: &session,
            caller: None,
            now: Timestamp(1_796_032_560_000_000),
            utc_offset_seconds: 0,
            context_window: None,
            sections: &[],
        });
        times.push((start.elapsed(), built.snapshot.text.len()));
    }
    let (cold, bytes) = times.remove(0);
    times.sort();
    println!("cold {cold:?}, warm median {:?}, prompt {bytes} bytes", times[times.len() / 2].0);
    Ok(())
}

fn write_skills(root: &Path) -> io::Result<()> {
    for number in 0..300 {
        let folder = root.join(format!("cat{:02}/skill-{number:03}", number % 12));
        fs::create_dir_all(&folder)?;
        let description = format!("does thing {number} very well. ").repeat(20);
        let tags = "metadata:\n  hermes:\n    tags: [one, two]\n    requires_tools: [skill_view]";
        fs::write(
            folder.join("SKILL.md"),
            format!(
                "---\nname: skill-{number:03}\ndescription: {description}\n{tags}\n---\nBody\n"
            ),
        )?;
    }
    Ok(())
}
