//! For a marker in every kind of source: what `trace` and `why` say before and after the event
//! that moves it.

use hermes_agent::Conversation;
use hermes_agent::inspect::{TraceReport, WhyState};
use hermes_home::{Vars, set};

use crate::world::World;

/// Where a text is: in a file; in a prompt in force (block ids); in a prompt no longer in force; in
/// live rows (origins). Whether any request carried it.
fn places(report: &TraceReport) -> String {
    let mut words: Vec<String> = Vec::new();
    if !report.files.is_empty() {
        words.push("file".to_owned());
    }
    for place in &report.snapshots {
        let word = if place.in_force { "prompt" } else { "old prompt" };
        let sent = if place.carried.requests > 0 { " sent" } else { "" };
        words.push(format!("{word} {}{sent}", place.blocks.join("+")));
    }
    for row in &report.rows {
        let sent = if row.carried.requests > 0 { " sent" } else { "" };
        let live = if row.live { "" } else { "gone " };
        words.push(format!("{live}{}{sent}", row.origin));
    }
    words.join(", ")
}

fn check(world: &World, conversation: &Conversation, text: &str, expected: &str) {
    assert_eq!(places(&world.trace(conversation, text)), expected, "{text}");
}

fn check_why(world: &World, conversation: &Conversation, name: &str, expected: &[WhyState]) {
    let report = world.why(conversation, name);
    let states: Vec<WhyState> = report.answers.iter().map(|answer| answer.state).collect();
    assert_eq!(states, expected, "{report:?}");
}

#[test]
fn files_of_the_prompt_move_with_a_refresh() {
    for (path, name, block, word) in [
        ("SOUL.md", "identity", "identity", "SOUL"),
        ("memories/MEMORY.md", "memory", "memory", "MEMORY"),
        ("memories/USER.md", "user", "user", "USER"),
        ("work/AGENTS.md", "project", "project:AGENTS.md", "ROOT"),
    ] {
        let world = World::new(None);
        let mut conversation = world.start();
        world.say(&mut conversation, "hello");
        let (old, new) = (format!("{word}-1"), format!("{word}-2"));
        check(&world, &conversation, &old, &format!("file, prompt {block} sent"));
        check_why(&world, &conversation, world.path(path).to_str().unwrap(), &[WhyState::Loaded]);

        world.put(path, &format!("{new} now\n"));
        world.say(&mut conversation, "hello again");
        check(&world, &conversation, &old, &format!("prompt {block} sent"));
        check(&world, &conversation, &new, "file");
        let why = world.why(&conversation, world.path(path).to_str().unwrap());
        assert!(why.answers[0].sentence.contains("differs since"), "{why:?}");
        assert!(why.answers[0].sentence.contains("/refresh"), "{why:?}");

        let report = conversation.refresh(&world.services, &[name.to_owned()]).unwrap();
        assert_eq!(report.differences.len(), 1, "{:?}", report.differences);
        check(&world, &conversation, &old, &format!("old prompt {block} sent"));
        check(&world, &conversation, &new, &format!("file, prompt {block}"));
        world.say(&mut conversation, "hello once more");
        check(&world, &conversation, &new, &format!("file, prompt {block} sent"));
        let traced = world.trace(&conversation, &old);
        assert_eq!(traced.snapshots[0].carried.requests, 2);
    }
}

#[test]
fn nested_and_shadowed_project_files() {
    let world = World::new(None);
    let mut conversation = world.start();
    world.say(&mut conversation, "hello");
    check(&world, &conversation, "NESTED-1", "file");
    check_why(&world, &conversation, "backend/AGENTS.md", &[WhyState::Waiting]);
    world.say(&mut conversation, "read backend/probe.txt");
    // The rehearsal model repeats what a tool gave.
    check(&world, &conversation, "NESTED-1", "file, hint sent, model");
    check_why(&world, &conversation, "backend/AGENTS.md", &[WhyState::InHistory]);
    let row = &world.trace(&conversation, "NESTED-1").rows[0];
    assert_eq!(row.label.as_deref(), Some("backend/AGENTS.md"));
    assert!(row.tool.as_deref().unwrap().starts_with("read_file "), "{row:?}");

    check(&world, &conversation, "SHADOW-1", "file");
    check_why(&world, &conversation, "CLAUDE.md", &[WhyState::Shadowed]);
    std::fs::remove_file(world.path("work/AGENTS.md")).unwrap();
    conversation.refresh(&world.services, &[]).unwrap();
    world.say(&mut conversation, "hello");
    check(&world, &conversation, "SHADOW-1", "file, prompt project:CLAUDE.md sent");
    check_why(&world, &conversation, "CLAUDE.md", &[WhyState::Loaded]);
    check(&world, &conversation, "ROOT-1", "old prompt project:AGENTS.md sent");
}

#[test]
fn skills_by_description_and_body() {
    let world = World::new(None);
    let mut conversation = world.start();
    world.say(&mut conversation, "hello");
    check(&world, &conversation, "SKILLDESC-1", "file, prompt skills sent");
    check(&world, &conversation, "SKILLBODY-1", "file");
    check_why(&world, &conversation, "deploy", &[WhyState::Indexed]);
    world.say(&mut conversation, "load skill deploy");
    check(&world, &conversation, "SKILLBODY-1", "file, skill sent");
    check_why(&world, &conversation, "deploy", &[WhyState::InHistory, WhyState::Indexed]);
    check_why(&world, &conversation, "nosuch", &[WhyState::NeverConsidered]);
    check_why(&world, &conversation, "skill_view", &[WhyState::Loaded]);
    let prompt = conversation.snapshot().digest;
    world.put(
        "skills/ops/deploy/SKILL.md",
        "---\nname: deploy\ndescription: SKILLDESC-2 here.\n---\nSKILLBODY-2\n",
    );
    world.say(&mut conversation, "hello");
    assert_eq!(conversation.snapshot().digest, prompt);
    check(&world, &conversation, "SKILLDESC-2", "file");
    conversation.refresh(&world.services, &["skills".to_owned()]).unwrap();
    check(&world, &conversation, "SKILLDESC-2", "file, prompt skills");
    check(&world, &conversation, "SKILLBODY-2", "file");
    check(&world, &conversation, "SKILLBODY-1", "skill sent");
}

#[test]
fn configuration_moves_with_a_new_process_and_a_refresh() {
    let mut world = World::new(None);
    let mut conversation = world.start();
    world.say(&mut conversation, "hello");
    let id = conversation.id().clone();
    conversation.release().unwrap();
    drop(conversation);
    let home = world.services.home.clone();
    set(&home, &Vars::default(), "agent.environment_hint", "CONFIG-1").unwrap();
    world.reload();
    let mut conversation = world.resume(&id);
    world.say(&mut conversation, "hello");
    check(&world, &conversation, "CONFIG-1", "file");
    check_why(&world, &conversation, "environment:hint", &[WhyState::Later]);
    conversation.refresh(&world.services, &[]).unwrap();
    world.say(&mut conversation, "hello");
    check(&world, &conversation, "CONFIG-1", "file, prompt environment:hint sent");
    check_why(&world, &conversation, "environment:hint", &[WhyState::Loaded]);
}

#[test]
fn what_was_said_read_and_delegated() {
    let world = World::new(None);
    let mut conversation = world.start();
    check(&world, &conversation, "SAID-1", "");
    check(&world, &conversation, "PROBE-1", "");
    world.say(&mut conversation, "I say SAID-1");
    check(&world, &conversation, "SAID-1", "user sent, model");
    world.say(&mut conversation, "read backend/probe.txt");
    check(&world, &conversation, "PROBE-1", "tool sent, model");
    check_why(&world, &conversation, "backend/probe.txt", &[WhyState::NeverConsidered]);

    world.say(&mut conversation, "delegate say CHILD-1 to nobody knowing CHILDCONTEXT-1");
    let traced = world.trace(&conversation, "CHILDCONTEXT-1");
    assert_eq!(traced.snapshots.len(), 1);
    assert_eq!(traced.snapshots[0].blocks, ["caller"]);
    assert_ne!(traced.snapshots[0].session, *conversation.id());
    let traced = world.trace(&conversation, "CHILD-1");
    let rows: Vec<(bool, &str)> =
        traced.rows.iter().map(|row| (row.session == *conversation.id(), row.origin)).collect();
    assert!(rows.contains(&(false, "user")), "the child's goal: {rows:?}");
    assert!(rows.contains(&(true, "tool")), "the report: {rows:?}");
    assert!(rows.contains(&(true, "user")), "what the person said: {rows:?}");
}

#[test]
fn a_deleted_session_is_nowhere() {
    let world = World::new(None);
    let mut conversation = world.start();
    world.say(&mut conversation, "SAID-2");
    let id = conversation.id().clone();
    conversation.release().unwrap();
    let request = hermes_store::DeleteRequest::new(vec![id], hermes_core::DeleteReason::Delete);
    world.services.store.delete_session(request).unwrap();
    check(&world, &conversation, "SAID-2", "");
}
