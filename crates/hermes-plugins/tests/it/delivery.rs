//! Events that must be heard, from the store to the callbacks.

use std::sync::Arc;

use hermes_core::{
    DeleteReason, OutboxEvent, PostCompaction, ScriptedEnv, SessionDelete, SessionId, Timestamp,
};
use hermes_home::{Home, SystemEnv};
use hermes_store::{OpenMode, Record, SessionInit, Store, StorePaths};

use crate::rig::Rig;

const HEARS: &str = r#"
import json, os
def hear(name):
    def callback(**event):
        event.pop("telemetry_schema_version")
        with open(os.environ["HERMES_HOME"] + "/heard", "a") as out:
            out.write(json.dumps([name, event], sort_keys=True) + "\n")
    return callback
def register(ctx):
    for name in ("post_compaction", "on_session_delete"):
        ctx.register_hook(name, hear(name))
"#;

fn store(rig: &Rig) -> Store {
    let home = Home::at(rig.home());
    home.ensure().unwrap();
    let paths = StorePaths {
        db: home.store_path(),
        spool_dir: home.spool_dir(),
        drafts_dir: home.drafts_dir(),
    };
    Store::open(paths, Arc::new(SystemEnv::new("UTC")), OpenMode::ReadWrite).unwrap()
}

fn init(id: &SessionId) -> SessionInit {
    SessionInit {
        id: id.clone(),
        source: "cli".into(),
        lane: None,
        cwd: None,
        git_root: None,
        git_branch: None,
        model: "m".into(),
        provider: "p".into(),
        base_url: None,
        parent: None,
        title: None,
        started_at: Timestamp(1_796_032_560_000_000),
    }
}

fn compaction(session: &SessionId) -> OutboxEvent {
    OutboxEvent::PostCompaction(PostCompaction {
        session_id: session.clone(),
        old_session_id: None,
        kind: "summarize".into(),
        reason: "manual".into(),
        before_tokens: Some(900),
        after_tokens: None,
        messages_removed: Some(7),
    })
}

#[tokio::test]
async fn events_of_the_outbox_are_heard_once_with_the_fields_of_the_articles() {
    let rig = Rig::new().plugin("hears", HEARS);
    let store = store(&rig);
    let id = SessionId::generate(&SystemEnv::new("UTC"));
    let mut writer = store.create_session(init(&id), Vec::new()).unwrap();
    let delete = OutboxEvent::OnSessionDelete(SessionDelete {
        session_id: id.clone(),
        reason: DeleteReason::Prune,
        profile: "default".into(),
        deleted_ids: vec![id.clone(), id.clone()],
        sessions_dir: None,
    });
    drop(writer.commit(vec![Record::Event(compaction(&id)), Record::Event(delete)]).unwrap());

    let plugins = rig.start();
    assert_eq!(plugins.deliver(&store, Some(&id)).await.unwrap(), 2);
    assert_eq!(plugins.deliver(&store, None).await.unwrap(), 0);
    let heard = rig.read("heard").replace(id.as_str(), "ID");
    assert_eq!(
        heard,
        "[\"post_compaction\", {\"after_tokens\": null, \"before_tokens\": 900, \"kind\": \"summarize\", \"messages_removed\": 7, \"old_session_id\": \"\", \"reason\": \"manual\", \"session_id\": \"ID\"}]\n\
         [\"on_session_delete\", {\"deleted_ids\": [\"ID\", \"ID\"], \"profile\": \"default\", \"reason\": \"prune\", \"session_id\": \"ID\", \"sessions_dir\": null}]\n"
    );
    assert_eq!(store.pending_events().unwrap(), 0);
    plugins.close().await;
}

#[tokio::test]
async fn without_a_subscriber_an_event_is_delivered_at_once() {
    let rig = Rig::new();
    let store = store(&rig);
    let id = SessionId::generate(&SystemEnv::new("UTC"));
    let mut writer = store.create_session(init(&id), Vec::new()).unwrap();
    drop(writer.commit(vec![Record::Event(compaction(&id))]).unwrap());
    let plugins = rig.start();
    assert_eq!(plugins.deliver(&store, None).await.unwrap(), 1);
    assert_eq!(store.pending_events().unwrap(), 0);
}

#[tokio::test]
async fn an_event_whose_deliverer_died_is_heard_again_and_says_so() {
    let rig = Rig::new().plugin("hears", HEARS);
    let home = Home::at(rig.home());
    home.ensure().unwrap();
    let paths = StorePaths {
        db: home.store_path(),
        spool_dir: home.spool_dir(),
        drafts_dir: home.drafts_dir(),
    };
    let env = Arc::new(ScriptedEnv::new(Timestamp(1_796_032_560_000_000), 1, 7));
    let store = Store::open(paths, Arc::clone(&env) as _, OpenMode::ReadWrite).unwrap();
    let id = SessionId::generate(&*env);
    let mut writer = store.create_session(init(&id), Vec::new()).unwrap();
    drop(writer.commit(vec![Record::Event(compaction(&id))]).unwrap());
    // Claimed, and then nothing: the process is gone.
    assert_eq!(store.claim_events(None, 1).unwrap().len(), 1);
    env.advance_millis(24 * 3600 * 1000);
    let plugins = rig.start();
    assert_eq!(plugins.deliver(&store, Some(&id)).await.unwrap(), 1);
    let heard = rig.read("heard");
    assert!(heard.contains("\"redelivered\": true"), "{heard}");
    plugins.close().await;
}
