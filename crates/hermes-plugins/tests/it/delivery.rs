//! Events that must be heard, from the store to the callbacks.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_core::{DeleteReason, OutboxEvent, PostCompaction, SessionDelete, SessionId, Timestamp};
use hermes_home::{Home, SystemEnv};
use hermes_store::{OpenMode, Record, SessionInit, SessionWriter, Store, StorePaths};

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

/// A plugin with callbacks `h0`, `h1`, ... for `post_compaction`, each with this body.
fn hearers(bodies: &[&str]) -> String {
    let mut code = String::from(
        "import os, time\nHOME = os.environ['HERMES_HOME']\n\
         def note(text):\n    open(HOME + '/heard', 'a').write(text + ' ')\n",
    );
    let mut register = String::from("def register(ctx):\n");
    for (number, body) in bodies.iter().enumerate() {
        write!(code, "def h{number}(**event):\n    {body}\n").unwrap();
        writeln!(register, "    ctx.register_hook('post_compaction', h{number})").unwrap();
    }
    code + &register
}

fn committed(store: &Store, count: usize) -> (SessionId, SessionWriter) {
    let id = SessionId::generate(&SystemEnv::new("UTC"));
    let mut writer = store.create_session(init(&id), Vec::new()).unwrap();
    let events = (0..count).map(|_| Record::Event(compaction(&id))).collect();
    drop(writer.commit(events).unwrap());
    (id, writer)
}

/// Waits for what goes on by itself.
async fn until(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(2);
    while !there() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_event_whose_deliverer_died_is_heard_again_at_once_and_says_so() {
    let rig = Rig::new().plugin("hears", HEARS);
    let first = store(&rig);
    let (id, writer) = committed(&first, 1);
    // Claimed, and then nothing: the process is gone.
    assert_eq!(first.claim_events(None, 1).unwrap().len(), 1);
    drop(writer);
    first.close();
    let plugins = rig.start();
    assert_eq!(plugins.deliver(&store(&rig), Some(&id)).await.unwrap(), 1);
    let heard = rig.read("heard");
    assert!(heard.contains("\"redelivered\": true"), "{heard}");
    plugins.close().await;
}

#[tokio::test]
async fn twenty_bad_callbacks_hold_a_session_for_one_time_limit_and_the_event_until_they_are_through()
 {
    let mut bodies = vec!["raise ValueError('no')"; 20];
    bodies[1] = "time.sleep(600)";
    bodies[5] = "time.sleep(600)";
    bodies[7] = "os._exit(3)";
    bodies[19] = "note('last')";
    let mut rig = Rig::new().plugin("bad", &hearers(&bodies));
    rig.config.hook_callback_timeout = 2.0;
    let store = store(&rig);
    let (id, _writer) = committed(&store, 2);
    let plugins = rig.start();
    plugins.ready().await;
    let began = Instant::now();
    // One limit for both: what stands behind an event that took too long is not waited for either.
    assert_eq!(plugins.deliver(&store, Some(&id)).await.unwrap(), 0);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!((rig.read("heard").as_str(), store.pending_events().unwrap()), ("", 2));
    // Nor is it waited for a second time.
    let again = Instant::now();
    assert_eq!(plugins.deliver(&store, Some(&id)).await.unwrap(), 0);
    assert!(again.elapsed() < began.elapsed());
    until("it is delivered when it is through", || store.pending_events().unwrap() == 0).await;
    assert_eq!(rig.read("heard"), "last last ");
    plugins.close().await;
}

#[tokio::test]
async fn an_event_that_was_not_told_whole_is_the_next_process_s() {
    let hangs = "time.sleep(0 if event.get('redelivered') else 600)";
    let bodies = ["note(str(event.get('redelivered')))", hangs, hangs, hangs, hangs, "note('end')"];
    let mut rig = Rig::new().plugin("slow", &hearers(&bodies));
    rig.config.hook_callback_timeout = 3.0;
    let store = store(&rig);
    let (id, _writer) = committed(&store, 1);
    let plugins = rig.start();
    plugins.ready().await;
    assert_eq!(plugins.deliver(&store, Some(&id)).await.unwrap(), 0);
    // The program ends while callbacks are still to be asked.
    plugins.close().await;
    assert_eq!((rig.read("heard").as_str(), store.pending_events().unwrap()), ("None ", 1));
    let next = rig.start();
    assert_eq!(next.deliver(&store, Some(&id)).await.unwrap(), 1);
    assert_eq!(rig.read("heard"), "None True end ");
    next.close().await;
}

#[tokio::test]
async fn a_callback_that_hung_lately_still_hears_what_must_be_heard() {
    let body = "note('heard') if os.path.exists(HOME + '/again') else time.sleep(600)";
    let mut rig = Rig::new().plugin("once", &hearers(&[body]));
    rig.config.hook_callback_timeout = 1.0;
    let store = store(&rig);
    let plugins = rig.start();
    plugins.ready().await;
    let (first, _a) = committed(&store, 1);
    plugins.deliver(&store, Some(&first)).await.unwrap();
    until("the first event is through", || store.pending_events().unwrap() == 0).await;
    std::fs::write(rig.home().join("again"), "").unwrap();
    let (second, _b) = committed(&store, 1);
    assert_eq!(plugins.deliver(&store, Some(&second)).await.unwrap(), 1);
    assert_eq!(rig.read("heard"), "heard ");
    plugins.close().await;
}
