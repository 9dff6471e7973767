//! Delegated tasks.

use hermes_core::{Origin, RowStatus, Verdict};
use hermes_store::{ParentKind, SessionFilter, SessionInfo};

use crate::world::World;

fn children(world: &World) -> Vec<SessionInfo> {
    let filter = SessionFilter { delegates: true, ..SessionFilter::default() };
    let mut found = world.services.store.sessions(&filter).unwrap();
    found.retain(|info| matches!(info.parent, Some((_, ParentKind::Delegate))));
    found
}

#[test]
fn a_child_has_its_own_prompt_the_context_it_was_given_and_a_record_of_what_it_inherited() {
    let world = World::new(None);
    let mut conversation = world.start();
    world.say(&mut conversation, "my secret plan is PLAN-1");
    world.say(&mut conversation, "delegate read backend/probe.txt knowing CONTEXT-1 is the place");
    let [child] = &children(&world)[..] else { panic!("one child") };
    assert_eq!(child.parent, Some((conversation.id().clone(), ParentKind::Delegate)));
    assert_eq!(child.lane, None, "no capsule is for it");
    let store = &world.services.store;
    let history = store.history(&child.id).unwrap();
    let snapshot = store.snapshot(&child.id, history.head.unwrap()).unwrap();
    assert!(snapshot.text.contains("CONTEXT-1") && snapshot.text.contains("ROOT-1"));
    for absent in ["SOUL-1", "MEMORY-1", "USER-1", "PLAN-1"] {
        assert!(!snapshot.text.contains(absent), "{absent}");
    }
    let of = |id: &str| snapshot.blocks.iter().find(|block| block.id == id).unwrap();
    for id in ["identity", "memory", "user"] {
        let verdict = &of(id).verdict;
        assert!(
            matches!(verdict, Verdict::Blocked { why } if why.contains("not inherited")),
            "{id}: {verdict:?}"
        );
    }
    let tools = store.text(&history.generations[0].tools).unwrap().unwrap();
    assert!(!tools.contains("delegate_task") && !tools.contains("\"memory\""), "{tools}");
    // Its goal is its first message, and says who spoke.
    let goal = &history.rows[0].parts[0];
    assert_eq!(goal.as_text(), Some("read backend/probe.txt"));
    assert!(goal.label.as_deref().unwrap().contains(conversation.id().as_str()));

    let result = conversation.rows().iter().rev().find(|row| row.tool.is_some()).unwrap();
    let text = result.text_of(Origin::Tool);
    assert!(text.contains("## Task 1: completed"), "{text}");
    assert!(text.contains(&format!("child session {}, rows r1 to r", child.id)), "{text}");
    assert!(text.contains("its tool results: r3 read_file"), "{text}");
    assert!(text.contains("not inherited: this conversation, memory, user profile"), "{text}");
}

#[test]
fn a_child_that_dies_says_so_and_the_others_report() {
    let script = r#"[
        {"call":{"name":"delegate_task","arguments":{"tasks":[{"goal":"the first of two"}]}}},
        {"status":401,"body":{"error":{"message":"bad key"}}},
        {"say":"I see that it failed."}]"#;
    let world = World::new(Some(script));
    let mut conversation = world.start();
    world.say(&mut conversation, "go");
    let result = conversation.rows().iter().find(|row| row.tool.is_some()).unwrap();
    assert_eq!(result.status, RowStatus::Failed);
    let text = result.text_of(Origin::Tool);
    assert!(text.contains("## Task 1: failed") && text.contains("It died before"), "{text}");
    assert!(text.contains(children(&world)[0].id.as_str()), "{text}");
}

#[test]
fn limits_hold() {
    let check = |arguments: &str, expected: &str| {
        let script = format!(
            r#"[{{"call":{{"name":"delegate_task","arguments":{arguments}}}}},{{"say":"ok"}}]"#
        );
        let world = World::new(Some(&script));
        let mut conversation = world.start();
        world.say(&mut conversation, "go");
        let result = conversation.rows().iter().find(|row| row.tool.is_some()).unwrap();
        let text = result.text_of(Origin::Tool);
        assert!(text.contains(expected), "{text}");
        assert_eq!(children(&world).len(), 0);
    };
    let many: Vec<&str> = (0..11).map(|_| r#"{"goal":"one of many tasks"}"#).collect();
    check(&format!(r#"{{"tasks":[{}]}}"#, many.join(",")), "at most 10 run at once");
    check(r#"{"tasks":[]}"#, "no task was given");
    check(r#"{"tasks":[{"goal":"todo"}]}"#, "is a placeholder");

    // Ten at once, and a child cannot delegate.
    let tasks: Vec<&str> = (0..10).map(|_| r#"{"goal":"delegate again and again"}"#).collect();
    let script = format!(
        r#"[{{"call":{{"name":"delegate_task","arguments":{{"tasks":[{}]}}}}}}]"#,
        tasks.join(",")
    );
    let world = World::new(Some(&script));
    let mut conversation = world.start();
    world.say(&mut conversation, "go");
    let found = children(&world);
    assert_eq!(found.len(), 10);
    for child in found {
        let rows = world.services.store.history(&child.id).unwrap().rows;
        let last = rows.last().unwrap().text_of(Origin::Model);
        assert!(last.contains("I would need the tool delegate_task"), "{last}");
    }
}

#[test]
fn a_child_that_reaches_its_limit_is_ended_and_says_so() {
    let calls: Vec<String> = (0..5)
        .map(|_| r#"{"call":{"name":"read_file","arguments":{"path":"notes.txt"}}}"#.to_owned())
        .collect();
    let script = format!(
        r#"[{{"call":{{"name":"delegate_task","arguments":{{"tasks":[{{"goal":"read it for ever"}}]}}}}}},{}]"#,
        calls.join(",")
    );
    let mut world = World::new(Some(&script));
    let mut config = (*world.services.config).clone();
    config.delegation.max_iterations = 3;
    world.services.config = std::sync::Arc::new(config);
    let mut conversation = world.start();
    world.say(&mut conversation, "go");
    let result = conversation.rows().iter().find(|row| row.tool.is_some()).unwrap();
    let text = result.text_of(Origin::Tool);
    assert!(text.contains("limit reached") && text.contains("after 3 model calls"), "{text}");
}
