//! Past conversations as the model asks for them.

use std::path::Path;
use std::sync::Arc;

use hermes_core::{
    Env, Origin, Part, PartBody, Role, Row, RowStatus, ScriptedEnv, SessionId, Standing, Timestamp,
    TurnNo, slot,
};
use hermes_store::{OpenMode, Record, SessionInit, Store, StorePaths};
use serde_json::{Value, json};

use crate::rig::Rig;

fn fill(home: &Path, name: &str, lines: &[&str]) {
    let paths = StorePaths {
        db: home.join("state.db"),
        spool_dir: home.join("spool"),
        drafts_dir: home.join("drafts"),
    };
    let now = Timestamp(1_796_032_560_000_000);
    let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(now, 1, 7));
    let store = Store::open(paths, env, OpenMode::ReadWrite).unwrap();
    let init = SessionInit {
        id: SessionId::new(name),
        source: "cli".to_owned(),
        lane: None,
        cwd: None,
        git_root: None,
        git_branch: None,
        model: "m".to_owned(),
        provider: "p".to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: now,
    };
    let mut writer = store.create_session(init, vec![]).unwrap();
    for line in lines {
        let seq = writer.next_seq();
        let row = Row {
            seq,
            turn: TurnNo(1),
            role: Role::User,
            standing: Standing::InOrder,
            status: RowStatus::Complete,
            created_at: now,
            tool: None,
            finish_reason: None,
            parts: vec![Part {
                seq,
                row: seq,
                slot: slot::BODY,
                origin: Origin::User,
                standing: Standing::InOrder,
                created_at: now,
                label: None,
                body: PartBody::text(*line),
            }],
        };
        let _c = writer.commit(vec![Record::Row(row)]).unwrap();
    }
    writer.release().unwrap();
    store.close();
}

fn ask(rig: &Rig, arguments: Value) -> Value {
    serde_json::from_str(&rig.ok("session_search", arguments)).unwrap()
}

#[test]
fn past_sessions_are_found_read_scrolled_and_listed() {
    let rig = Rig::new();
    fill(&rig.path("home"), "one", &["the quince jam", "more of it"]);
    fill(&rig.path("home"), "two", &["something else"]);
    let found = ask(&rig, json!({"query": "quince"}));
    assert_eq!((&found["mode"], &found["count"]), (&json!("discover"), &json!(1)));
    let result = &found["results"][0];
    assert_eq!(result["session_id"], "one");
    assert_eq!(result["link"], "@session:default/one");
    for field in [
        "when",
        "source",
        "model",
        "title",
        "matched_role",
        "match_message_id",
        "snippet",
        "bookend_start",
        "messages",
        "bookend_end",
        "messages_before",
        "messages_after",
        "detail",
    ] {
        assert!(result.get(field).is_some(), "{field}");
    }
    let inside = ask(&rig, json!({"query": "quince", "session_id": "default/one"}));
    assert_eq!(inside["mode"], "inside");
    // An id's beginning will do, and lists may be lists.
    assert_eq!(ask(&rig, json!({"session_id": "on"}))["session_id"], "one");
    let asked = json!({"query": "quince", "role_filter": ["user", "tool"],
                       "exclude_session_ids": ["@session:default/one"]});
    assert_eq!(ask(&rig, asked)["count"], 0);
    let read = ask(&rig, json!({"session_id": "@session:default/one"}));
    assert_eq!((&read["mode"], &read["message_count"]), (&json!("read"), &json!(2)));
    let id = result["match_message_id"].clone();
    let around = ask(&rig, json!({"session_id": "one", "around_message_id": id, "window": 1}));
    assert_eq!(around["messages"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&rig, json!({}))["count"], 2);
    rig.fails("session_search", json!({"query": "()"}), "nothing to search for");
    rig.fails("session_search", json!({"query": "x", "role_filter": "robot"}), "unknown role");
    rig.fails("session_search", json!({"query": "x", "after": "soon"}), "no point in time");
    rig.fails("session_search", json!({"query": "x", "profile": "nobody"}), "no profile");
    rig.fails("session_search", json!({"session_id": "nobody"}), "nobody");
    rig.fails("session_search", json!({"session_id": "latest"}), "latest");
    rig.fails("session_search", json!({"around_message_id": 5}), "needs session_id");
}

#[test]
fn another_profile_is_searched_by_name() {
    let rig = Rig::new();
    fill(&rig.path("home/profiles/work"), "theirs", &["the persimmon plan"]);
    let found = ask(&rig, json!({"query": "persimmon", "profile": "work"}));
    assert_eq!(found["results"][0]["link"], "@session:work/theirs");
    assert_eq!(ask(&rig, json!({"query": "persimmon"}))["count"], 0);
}
