//! Homes of the Python program.

use hermes_core::{DeleteReason, SessionId};
use hermes_import::{ImportOptions, SourceKind};
use hermes_store::{DeleteRequest, ParentKind, SearchRequest, SessionFilter};
use rusqlite::Connection;

use crate::rig::{Rig, bytes_of};

fn original_counts(db: &std::path::Path) -> (i64, i64) {
    let connection = Connection::open(db).unwrap();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get(0)).unwrap();
    (count("SELECT count(*) FROM sessions"), count("SELECT count(*) FROM messages"))
}

#[test]
fn stores_of_schema_22_26_and_31_come_in_whole_and_are_not_touched() {
    for (fixture, schema) in
        [("hermes-0.19-schema22", 22), ("hermes-0.22-schema31", 31), ("hermes-0.22-schema31", 26)]
    {
        let rig = Rig::new();
        let source = rig.python_home(fixture);
        let db = source.join("state.db");
        if schema == 26 {
            // What 0.20.1 had: the same without the columns that came later.
            let connection = Connection::open(&db).unwrap();
            connection
                .execute_batch(
                    "UPDATE schema_version SET version = 26;
                     DROP TRIGGER IF EXISTS messages_message_uid_insert;",
                )
                .unwrap();
        }
        let (sessions, messages) = original_counts(&db);
        let before = bytes_of(&source);
        let plan =
            rig.import_with(&source, ImportOptions { dry_run: true, ..ImportOptions::default() });
        assert_eq!(rig.store.sessions(&SessionFilter::default()).unwrap(), []);
        let report = rig.import(&source);
        assert_eq!((report.kind, report.schema), (SourceKind::Hermes, Some(schema)));
        assert_eq!(report.sessions.len() as i64, sessions, "{fixture}");
        assert_eq!(report.messages as i64, messages, "{fixture}");
        assert_eq!(plan.sessions, report.sessions);
        assert_eq!(report.skipped, []);
        let (compacted, tip) = ("20261104_000000_parent", "20261104_010000_child0");
        assert_eq!(rig.store.tip(&SessionId::new(compacted)).unwrap(), SessionId::new(tip));
        assert_eq!(bytes_of(&source), before, "{fixture}: the source is only read");
        rig.sound();

        let long = rig.store.session(&SessionId::new("20261101_090000_aaaaaa")).unwrap().unwrap();
        assert_eq!(long.message_count, 800);
        let original = Connection::open(&db).unwrap();
        let mut statement = original
            .prepare(
                "SELECT role, ifnull(content, '') FROM messages
                 WHERE session_id = '20261101_090000_aaaaaa' ORDER BY id",
            )
            .unwrap();
        let wanted: Vec<(String, String)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rig.said("20261101_090000_aaaaaa"), wanted, "{fixture}");

        let child = rig.store.session(&SessionId::new("20261104_010000_child0")).unwrap().unwrap();
        let parent = SessionId::new("20261104_000000_parent");
        assert_eq!(child.parent, Some((parent, ParentKind::Compaction)));
        let helper = rig.store.session(&SessionId::new("20261104_020000_subagt")).unwrap().unwrap();
        assert_eq!(helper.parent.unwrap().1, ParentKind::Delegate);

        // Started again, it goes on where it was: nothing is left to do.
        let again = rig.import(&source);
        assert_eq!((again.sessions.len(), again.already_there as i64), (0, sessions));
    }
}

#[test]
fn an_interrupted_import_goes_on_and_deleted_sessions_stay_deleted() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    let all = rig.import(&source).sessions;
    let gone = SessionId::new(all[0].as_str());
    rig.store.delete_session(DeleteRequest::new(vec![gone.clone()], DeleteReason::Delete)).unwrap();
    let again = rig.import(&source);
    assert_eq!(again.sessions.len(), 0);
    assert!(again.skipped.iter().any(|skipped| skipped.why.contains("deleted here")));
    let back = rig.import_with(&source, ImportOptions { again: true, ..ImportOptions::default() });
    assert!(back.sessions.contains(&gone.to_string()));
    rig.sound();
}

#[test]
fn compacted_rewound_and_odd_rows_keep_their_standing() {
    let rig = Rig::new();
    let source = rig.put("python/config.yaml", "{}\n").parent().unwrap().to_owned();
    let db = Connection::open(source.join("state.db")).unwrap();
    db.execute_batch(
        "CREATE TABLE schema_version (version INTEGER NOT NULL);
         INSERT INTO schema_version VALUES (31);
         CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL, title TEXT,
             model_config TEXT, system_prompt TEXT);
         CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT,
             timestamp REAL, active INTEGER, compacted INTEGER, _compressed_summary INTEGER,
             api_content TEXT, reasoning_content TEXT);
         INSERT INTO sessions (id, source, started_at, title, model_config, system_prompt)
         VALUES ('s', 'cli', 1700000000.5, 'Named', '{}', 'You are old.');
         INSERT INTO messages (session_id, role, content, timestamp, active, compacted)
         VALUES ('s', 'user', 'first', 1700000001, 0, 1), ('s', 'assistant', 'second', 1700000002, 0, 1),
                ('s', 'user', 'rewound', 1700000003, 0, 0),
                ('s', 'session_meta', 'meta', 1700000003, 1, 0);
         INSERT INTO messages (session_id, role, content, timestamp, active, compacted, _compressed_summary)
         VALUES ('s', 'user', 'what was', 1700000004, 1, 0, 1);
         INSERT INTO messages (session_id, role, content, timestamp, active, compacted, api_content, reasoning_content)
         VALUES ('s', 'user', char(0) || 'json:[{\"type\":\"text\",\"text\":\"see\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,aGk=\"}}]', 99999999999.0, 1, 0, NULL, NULL),
                ('s', 'assistant', 'yes', 1700000006, 1, 0, 'yes!', 'because');",
    )
    .unwrap();
    drop(db);
    let report = rig.import(&source);
    assert_eq!(report.sessions, ["s"]);
    assert_eq!(report.left_out["row that is no message (session_meta)"], 1);
    assert_eq!(report.left_out["impossible time of a message"], 1);
    rig.sound();
    let value: serde_json::Value = serde_json::from_str(&rig.jsonl("s")).unwrap();
    let flags: Vec<(String, u64, u64)> = value["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| {
            let text = m["content"].as_str().map_or("image".to_owned(), str::to_owned);
            (text, m["active"].as_u64().unwrap(), m["compacted"].as_u64().unwrap())
        })
        .collect();
    let expected = [
        ("first", 0, 1),
        ("second", 0, 1),
        ("what was", 1, 0),
        ("rewound", 0, 0),
        ("image", 1, 0),
        ("yes", 1, 0),
    ];
    assert_eq!(flags, expected.map(|(text, a, c)| (text.to_owned(), a, c)));
    assert_eq!(value["system_prompt"], "You are old.");
    let info = rig.store.session(&SessionId::new("s")).unwrap().unwrap();
    assert_eq!((info.title.as_deref(), info.compactions), (Some("Named"), 1));
    let mut inside = SearchRequest::new("first");
    inside.session = Some(SessionId::new("s"));
    assert_eq!(rig.store.search(&inside).unwrap().count, 1, "what was compacted is found");
}

#[test]
fn a_log_that_was_not_written_back_is_read_too() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    let db = Connection::open(source.join("state.db")).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
         INSERT INTO sessions (id, source, started_at) VALUES ('in-the-log', 'cli', 1700000000.0);",
    )
    .unwrap();
    let before = bytes_of(&source);
    let report = rig.import(&source);
    assert!(report.sessions.contains(&"in-the-log".to_owned()));
    assert_eq!(bytes_of(&source), before);
    drop(db);
}

#[test]
fn files_come_along_and_nothing_here_is_overwritten() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    for (path, content) in [
        ("python/SOUL.md", "old soul"),
        ("python/memories/MEMORY.md", "a note"),
        ("python/memories/USER.md", "a person"),
        ("python/config.yaml", "timezone: UTC\n"),
        ("python/.env", "KEY=sk-test-not-a-key\n"),
        ("python/skills/notes/SKILL.md", "---\nname: notes\n---\n"),
        ("python/handoffs/CONFIDENTIAL", ""),
        ("python/handoffs/handoff-cli.md", "# Working on\n"),
        ("python/handoffs/pending-cli.json", "{}"),
        ("home/SOUL.md", "new soul"),
    ] {
        rig.put(path, content);
    }
    let report = rig.import(&source);
    let here = |path: &str| std::fs::read_to_string(rig.home.root().join(path)).ok();
    assert_eq!(here("SOUL.md").as_deref(), Some("new soul"));
    assert_eq!(here("memories/MEMORY.md").as_deref(), Some("a note"));
    assert_eq!(here("skills/notes/SKILL.md").as_deref(), Some("---\nname: notes\n---\n"));
    assert_eq!(here("handoffs/CONFIDENTIAL").as_deref(), Some(""), "the mark stays");
    assert!(here(".env").is_none() && here("handoffs/pending-cli.json").is_none());
    let left: Vec<&str> = report.files_left_out.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(left, ["SOUL.md", "handoffs/pending-cli.json", ".env"]);
    assert!(report.files_left_out.iter().all(|file| !file.why.is_empty()));
}

#[test]
fn what_is_not_copied_is_named_with_its_reason() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    for path in [
        "auth.json",
        "profiles/work/state.db",
        "cron/jobs.json",
        "plugins/mine/plugin.yaml",
        "memories/OTHER.md",
        "state.db-backup",
        "something.txt",
    ] {
        rig.put(&format!("python/{path}"), "x");
    }
    let report = rig.import(&source);
    let left: Vec<&str> = report.files_left_out.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(left, ["auth.json", "cron", "memories", "plugins", "profiles", "something.txt"]);
    assert!(report.files_left_out[4].why.contains("hermes -p NAME import"));
}

/// Whatever the mark is in the source, it is a file here, before any session is.
#[cfg(unix)]
#[test]
fn the_mark_of_confidential_lanes_is_kept_in_every_form() {
    type Mark = fn(&std::path::Path);
    let marks: [Mark; 5] = [
        |home| std::os::unix::fs::symlink("nowhere", home.join("handoffs/CONFIDENTIAL")).unwrap(),
        |home| std::fs::create_dir(home.join("handoffs/CONFIDENTIAL")).unwrap(),
        |home| {
            std::fs::create_dir(home.join("elsewhere")).unwrap();
            std::fs::write(home.join("elsewhere/CONFIDENTIAL"), "").unwrap();
            std::fs::remove_dir_all(home.join("handoffs")).unwrap();
            std::os::unix::fs::symlink("elsewhere", home.join("handoffs")).unwrap();
        },
        |home| {
            std::fs::write(home.join(".env"), "A=b\nexport HANDOFF_CONFIDENTIAL=\"1\"\n").unwrap();
        },
        |home| std::fs::write(home.join("state.db"), "no store").unwrap(),
    ];
    for (n, mark) in marks.into_iter().enumerate() {
        let rig = Rig::new();
        let source = rig.python_home("hermes-0.22-schema31");
        std::fs::create_dir(source.join("handoffs")).unwrap();
        if n == 4 {
            std::fs::write(source.join("handoffs/CONFIDENTIAL"), "").unwrap();
        }
        mark(&source);
        let options = ImportOptions { kind: Some(SourceKind::Hermes), ..ImportOptions::default() };
        let outcome = hermes_import::import(&source, &rig.home, &rig.store, options);
        assert_eq!(outcome.is_ok(), n != 4, "{n}: {outcome:?}");
        assert!(rig.home.root().join("handoffs/CONFIDENTIAL").is_file(), "{n}");
    }
}

#[test]
fn a_home_that_is_being_written_comes_in_session_by_session_whole() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    let path = source.join("state.db");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for log in ["DELETE", "WAL"] {
            let db = Connection::open(&path).unwrap();
            db.execute_batch(&format!(
                "PRAGMA journal_mode = {log}; PRAGMA wal_autocheckpoint = 3;"
            ))
            .unwrap();
            drop(db);
            stop.store(false, std::sync::atomic::Ordering::Relaxed);
            let (stop, path) = (&stop, &path);
            let writer = scope.spawn(move || {
                let db = Connection::open(path).unwrap();
                db.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
                for n in 0.. {
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    // Two rows that belong together.
                    db.execute_batch(&format!(
                        "BEGIN IMMEDIATE;
                         INSERT INTO sessions (id, source, started_at)
                         VALUES ('{log}-{n}', 'cli', 1700000000.0);
                         INSERT INTO messages (session_id, role, content, timestamp)
                         VALUES ('{log}-{n}', 'user', 'written meanwhile', 1700000001.0);
                         COMMIT;"
                    ))
                    .unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            for _ in 0..2 {
                let report = rig.import(&source);
                assert_eq!(report.skipped, [], "{log}");
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            writer.join().unwrap();
        }
    });
    let report = rig.import(&source);
    assert_eq!(report.skipped, []);
    let (sessions, _) = original_counts(&path);
    let all = SessionFilter { archived: true, delegates: true, ..SessionFilter::default() };
    let here = rig.store.sessions(&all).unwrap();
    assert_eq!(here.len() as i64, sessions);
    for info in here.iter().filter(|info| info.id.as_str().contains('-')) {
        let text = info.id.as_str();
        if text.starts_with("DELETE-") || text.starts_with("WAL-") {
            assert_eq!(info.message_count, 1, "{text}");
        }
    }
    rig.sound();
}

#[test]
fn a_damaged_page_of_the_source_costs_the_session_that_it_is_of() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    let (sessions, _) = original_counts(&source.join("state.db"));
    let db = Connection::open(source.join("state.db")).unwrap();
    let needle: String = db
        .query_row(
            "SELECT content FROM messages WHERE session_id = '20261101_090000_aaaaaa'
               AND length(content) BETWEEN 40 AND 900 ORDER BY id LIMIT 1 OFFSET 300",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(db);
    let mut bytes = std::fs::read(source.join("state.db")).unwrap();
    let at = bytes.windows(needle.len()).position(|w| w == needle.as_bytes()).unwrap();
    bytes[at / 4096 * 4096..][..4096].fill(0xa5);
    std::fs::write(source.join("state.db"), bytes).unwrap();
    let report = rig.import(&source);
    assert!(!report.skipped.is_empty(), "{report:?}");
    assert!(report.sessions.len() as i64 >= sessions - 3, "{report:?}");
    rig.sound();
}

#[test]
fn another_session_with_the_same_id_and_strays_are_named() {
    let rig = Rig::new();
    let source = rig.python_home("hermes-0.22-schema31");
    rig.import(&source);
    let db = Connection::open(source.join("state.db")).unwrap();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF;
         UPDATE sessions SET started_at = started_at + 5000 WHERE id = '20261104_000000_parent';
         INSERT INTO messages (session_id, role, content, timestamp)
         VALUES ('20261101_090000_aaaaaa', 'user', 'and later', 1900000000.0),
                ('nobody', 'user', 'a stray', 1700000000.0);",
    )
    .unwrap();
    drop(db);
    let report = rig.import(&source);
    let other: Vec<&str> = report.skipped.iter().map(|skipped| skipped.id.as_str()).collect();
    assert_eq!(other, ["20261104_000000_parent"]);
    assert!(report.skipped[0].why.contains("another session with this id"));
    assert_eq!(report.left_out["message of a session that is not there"], 1);
    assert_eq!(report.left_out.keys().filter(|what| what.starts_with("later messages")).count(), 1);
}

#[test]
fn a_store_of_this_program_and_a_path_that_is_not_there_are_named_as_such() {
    let rig = Rig::new();
    rig.import(&rig.put("one.jsonl", "{\"id\":\"s\",\"messages\":[]}\n"));
    let import = |source: &std::path::Path| {
        let options = ImportOptions::default();
        hermes_import::import(source, &rig.home, &rig.store, options).unwrap_err().to_string()
    };
    let own = import(rig.home.root());
    assert!(own.contains("store of this program") && own.contains("hint:"), "{own}");
    let nowhere = import(std::path::Path::new("/nowhere"));
    assert!(nowhere.contains("/nowhere") && nowhere.contains("hint:"), "{nowhere}");
    let source = rig.python_home("hermes-0.19-schema22").join("state.db");
    let file = rig.import(&source);
    assert!(file.kind == SourceKind::Hermes && !file.sessions.is_empty() && file.files.is_empty());
}
