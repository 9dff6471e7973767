//! kill -9 in the middle of append, delete, import, repair and migration: afterwards everything
//! that was acknowledged holds, and the store is sound.
//!
//! The test is its own child: with `HERMES_CRASH_WORK` set it does that work until it is killed.
//! `HERMES_CRASH_KILLS` is the number of kills (`bench/crash.sh` runs 500), `HERMES_CRASH_SEED`
//! their points.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{DeleteReason, Env, Role, ScriptedEnv, Seq, Timestamp};
use hermes_store::{
    DeleteRequest, ImportedSession, OpenMode, Record, SearchRequest, Store, StorePaths, repair,
};

use crate::support::*;

const WORKS: [&str; 5] = ["append", "delete", "import", "repair", "migrate"];
const DEFAULT_KILLS: u64 = 10;
const LATEST_KILL_MS: u64 = 120;

pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the child has seen acknowledged.
pub fn acknowledge(folder: &Path, line: &str) {
    let mut file =
        fs::OpenOptions::new().append(true).create(true).open(folder.join("acknowledged")).unwrap();
    writeln!(file, "{line}").unwrap();
}

pub fn acknowledged(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("acknowledged"))
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

pub fn imported(name: &str) -> ImportedSession {
    let mut records = opening();
    records.extend(
        (1..=20)
            .map(|n| Record::Row(row(Seq(n), Role::User, &format!("{name} imported line {n}")))),
    );
    ImportedSession { init: init(name), facts: vec![], compactions: 0, records, again: false }
}

pub fn old_store() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v2.db.zst");
    zstd::decode_all(fs::read(path).unwrap().as_slice()).unwrap()
}

/// Does the work again and again. Never returns.
fn work(what: &str, folder: &Path) {
    let paths = StorePaths {
        db: folder.join("state.db"),
        spool_dir: folder.join("spool"),
        drafts_dir: folder.join("drafts"),
    };
    let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(START, 1000, 8));
    let open = || Store::open(paths.clone(), Arc::clone(&env), OpenMode::ReadWrite).unwrap();
    for n in 0_u64.. {
        match what {
            "repair" => drop(repair(&paths, &env).unwrap()),
            "migrate" => {
                open().close();
                acknowledge(folder, "migrated");
            }
            _ => {
                let store = open();
                let name = format!("{what}-{}-{n}", std::process::id());
                match what {
                    "append" => {
                        let mut writer = create(&store, &name);
                        for line in 0..50 {
                            say(&mut writer, Role::User, &format!("{name} line {line}"));
                            acknowledge(folder, &format!("{name} {line}"));
                        }
                    }
                    "delete" => {
                        let mut writer = create(&store, &name);
                        (0..10).for_each(|line| {
                            say(&mut writer, Role::User, &format!("{name} line {line}"));
                        });
                        writer.release().unwrap();
                        let request = DeleteRequest::new(vec![id(&name)], DeleteReason::Delete);
                        store.delete_session(request).unwrap();
                        acknowledge(folder, &name);
                    }
                    _ => {
                        store.import_session(&imported(&name)).unwrap();
                        acknowledge(folder, &name);
                    }
                }
                store.close();
            }
        }
    }
}

/// What the work begins with.
pub fn prepare(what: &str, home: &Home) {
    match what {
        "migrate" => fs::write(home.paths().db, old_store()).unwrap(),
        "repair" => {
            let store = home.store();
            for name in ["a", "b", "c"] {
                let mut writer = create(&store, name);
                for n in 0..40 {
                    let text = format!("{name} line {n} {}", "word ".repeat(60));
                    say(&mut writer, Role::User, &text);
                }
            }
            store.optimize().unwrap();
            store.close();
            let mut bytes = fs::read(home.paths().db).unwrap();
            let needle = b"b line 20 ";
            let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
            bytes[at / 4096 * 4096..][..4096].fill(0xa5);
            fs::write(home.paths().db, bytes).unwrap();
        }
        _ => home.store().close(),
    }
}

fn verify(what: &str, home: &Home, acknowledged: &[String]) {
    if what == "repair" {
        let env: Arc<dyn Env> = home.env.clone();
        assert_eq!(repair(&home.paths(), &env).unwrap().left, []);
    }
    let store = home.store();
    let recovered = store.recover_all().unwrap();
    assert!(
        recovered
            .iter()
            .all(|one| !matches!(one.outcome, hermes_store::RecoveredOutcome::Failed(_))),
        "{recovered:?}"
    );
    for line in acknowledged {
        match what {
            "append" => {
                let (name, at) = line.split_once(' ').unwrap();
                let found = texts(&store, &id(name));
                let at: usize = at.parse().unwrap();
                assert_eq!(found.get(at).unwrap(), &format!("{name} line {at}"));
            }
            "delete" => {
                assert!(store.session(&id(line)).unwrap().is_none(), "{line}");
                let phrase = format!("\"{line} line\"");
                assert_eq!(store.search(&SearchRequest::new(phrase)).unwrap().count, 0, "{line}");
            }
            "import" => assert_eq!(store.history(&id(line)).unwrap().rows.len(), 20, "{line}"),
            _ => {}
        }
    }
    match what {
        "migrate" => {
            assert_eq!(texts(&store, &id("frozen")), ["frozen question", "frozen answer"]);
            assert_eq!(store.search(&SearchRequest::new("frozen question")).unwrap().count, 1);
        }
        "repair" => {
            for name in ["a", "c"] {
                assert_eq!(store.history(&id(name)).unwrap().rows.len(), 40, "{name}");
            }
        }
        _ => {}
    }
    assert_sound(&store);
}

#[cfg(unix)]
#[test]
fn a_process_killed_in_any_work_leaves_the_store_whole() {
    if let Some(what) = std::env::var_os("HERMES_CRASH_WORK") {
        let folder = PathBuf::from(std::env::var_os("HERMES_CRASH_FOLDER").unwrap());
        return work(&what.to_string_lossy(), &folder);
    }
    let kills = setting("HERMES_CRASH_KILLS", DEFAULT_KILLS);
    let seed = setting("HERMES_CRASH_SEED", 20_261_130);
    println!("seed {seed}");
    let chance = ScriptedEnv::new(Timestamp(0), 0, seed);
    let mut did_something = 0;
    for kill in 0..kills {
        let what = WORKS[(kill % WORKS.len() as u64) as usize];
        let home = Home::new();
        prepare(what, &home);
        let mut random = [0; 8];
        chance.random(&mut random);
        let after = Duration::from_millis(5 + u64::from_le_bytes(random) % LATEST_KILL_MS);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::a_process_killed_in_any_work_leaves_the_store_whole"])
            .env("HERMES_CRASH_WORK", what)
            .env("HERMES_CRASH_FOLDER", home.dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = acknowledged(home.dir.path());
        did_something += u64::from(!acknowledged.is_empty() || what == "repair");
        verify(what, &home, &acknowledged);
    }
    assert!(did_something > 0, "every kill came before the work began");
}
