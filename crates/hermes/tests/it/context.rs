//! Questions about the context on the command line.

use std::fs;

use serde_json::Value;

use crate::rig::{Rig, case, serve};
use crate::terminal::Terminal;

/// A repository with a file in every role, a profile and a skill.
fn world() -> Rig {
    let rig = Rig::new();
    rig.file(".git/HEAD", "ref: refs/heads/main\n");
    rig.file("AGENTS.md", "ROOT-1 rule\n");
    rig.file("CLAUDE.md", "SHADOW-1 rule\n");
    rig.file("backend/AGENTS.md", "NESTED-1 rule\n");
    rig.file("backend/probe.txt", "PROBE-1\n");
    fs::create_dir_all(rig.home().join("memories")).unwrap();
    fs::write(rig.home().join("memories/USER.md"), "likes AMBER\n").unwrap();
    fs::create_dir_all(rig.home().join("skills/deploy")).unwrap();
    let skill = "---\nname: deploy\ndescription: DESC-1.\n---\nBODY-1\n";
    fs::write(rig.home().join("skills/deploy/SKILL.md"), skill).unwrap();
    rig
}

fn chat(rig: &Rig, text: &str) {
    rig.ok(["-c", "chat", "-q", text]);
}

/// B034: the configured folder holds for the tools, the prompt and the command line.
#[test]
fn b034_the_configured_folder_holds_for_tools_prompt_and_commands() {
    let rig = Rig::new();
    let server = serve(None);
    let project = fs::canonicalize(case("B034")).unwrap().join("project");
    let yaml = fs::read_to_string(case("B034").join("home/config.yaml")).unwrap();
    let yaml = yaml.replace("__PROJECT__", &project.display().to_string());
    rig.endpoint(&server, &format!("{yaml}approvals:\n  allow:\n    - pwd\n"));
    let answer = rig.ok(["chat", "-Q", "-q", "run pwd"]);
    assert!(answer.contains(&project.display().to_string()), "{answer}");
    let first = String::from_utf8(server.received().remove(0)).unwrap();
    assert!(first.contains("RULE-7F"));
    let report = rig.json(["context", "--json"]);
    assert_eq!(report["cwd"], project.display().to_string());
    let files = report["project_files"].to_string();
    assert!(files.contains("project/AGENTS.md"), "{files}");
    // "latest" is that of the configured folder too.
    rig.ok(["chat", "-c", "-Q", "-q", "hello"]);
    assert_eq!(rig.json(["sessions", "list", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn the_seven_figures_are_separate_fields_in_context_and_requests() {
    let rig = world();
    rig.ok(["chat", "-q", "hello"]);
    let context = rig.json(["context", "--json"]);
    let request = rig.json(["requests", "list", "--json"])[0].clone();
    for report in [&context, &request] {
        for field in [
            "prompt_digest",
            "history_digest",
            "provider",
            "model",
            "cache_read_tokens",
            "cache_write_tokens",
            "compactions",
        ] {
            assert!(report.get(field).is_some(), "{field}: {report}");
        }
    }
    assert_eq!(context["session"], request["session_id"]);
    assert_eq!(context["prompt_digest"], request["prompt_digest"]);
    assert_eq!(context["verified"], true);
    assert_eq!(context["cache_write_tokens"], Value::Null, "not reported stays unknown");
}

#[test]
fn a_source_is_followed_from_file_to_request_and_through_a_refresh() {
    let rig = world();
    rig.ok(["chat", "-q", "read backend/probe.txt"]);
    chat(&rig, "load skill deploy");
    let all = rig.ok(["context", "all"]);
    assert!(all.contains("backend/AGENTS.md, by read_file"), "{all}");
    let report = rig.json(["context", "--json"]);
    let skill = &report["skills"][0];
    assert_eq!(skill["name"], "deploy");
    assert!(skill["index_bytes"].as_u64().unwrap() > 0 && skill["loaded"][0].is_array(), "{skill}");

    let why = |name: &str| rig.ok(["context", "why", name]);
    assert!(why("CLAUDE.md").contains("shadowed by AGENTS.md"));
    assert!(why("backend/AGENTS.md").contains("by read_file"));
    assert!(why("deploy").contains("its text is in the history"));
    assert!(why("backend/probe.txt").contains("no source of context"));

    fs::write(rig.home().join("memories/USER.md"), "likes COBALT\n").unwrap();
    assert!(why("USER.md").contains("differs since"));
    let sources = rig.ok(["context", "sources"]);
    assert!(sources.contains("differs since"), "{sources}");
    chat(&rig, "hello");
    assert!(rig.ok(["trace", "AMBER"]).contains("block user, in force"));
    let said = rig.ok(["context", "refresh", "user"]);
    assert!(said.contains("- likes AMBER") && said.contains("+ likes COBALT"), "{said}");
    assert!(said.contains("without the provider's cache once"), "{said}");
    let next = rig.json(["context", "--next", "--json"]);
    assert_eq!(next["request"], Value::Null);
    assert_ne!(next["prompt_digest"], report["prompt_digest"]);
    chat(&rig, "hello");
    let request = rig.json(["requests", "list", "-n", "1", "--json"])[0].clone();
    assert_eq!(request["prompt_digest"], next["prompt_digest"]);
    let body = rig.ok(["requests", "body", request["id"].as_str().unwrap()]);
    assert!(body.contains("had your instructions read anew") && body.contains("COBALT"));
    // Told once.
    chat(&rig, "hello");
    let all = rig.ok([
        "requests",
        "body",
        rig.json(["requests", "list", "-n", "1", "--json"])[0]["id"].as_str().unwrap(),
    ]);
    assert_eq!(all.matches("What the system prompt says now holds").count(), 1);
    assert!(rig.ok(["trace", "AMBER"]).contains("no longer in force"));
    let diff = rig.ok(["context", "diff", "latest@0", "latest"]);
    assert!(diff.contains("user: in the prompt"), "{diff}");
    assert!(rig.ok(["context", "refresh"]).contains("Nothing changed"));
    let refused = rig.run(["context", "refresh", "weather"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("hint: one of identity"), "{}", refused.stderr);
    let verified = rig.ok(["requests", "verify", "--all"]);
    assert!(!verified.contains("differs"), "{verified}");
}

#[test]
fn a_report_holds_states_and_no_texts() {
    let rig = world();
    rig.ok(["chat", "-q", "read backend/probe.txt SAID-1"]);
    let report = rig.ok(["report"]);
    for part in ["## Sources", "caused by read_file", "## Views", "| verified |", "USER.md"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    for text in ["AMBER", "ROOT-1", "NESTED-1", "PROBE-1", "SAID-1", "DESC-1"] {
        assert!(!report.contains(text), "{text}: {report}");
    }
    let home = rig.home().parent().unwrap().display().to_string();
    assert!(!report.contains(&home), "the home folder is ~: {report}");
}

#[test]
fn switching_a_skill_says_when_the_model_will_see_it() {
    let rig = world();
    let said = rig.ok(["skills", "disable", "deploy"]);
    assert!(said.contains("deploy: off") && said.contains("/refresh"), "{said}");
    assert!(rig.ok(["skills", "list"]).contains("switched off by skills.disabled"));
    rig.ok(["chat", "-q", "hello"]);
    assert!(!rig.ok(["context", "all"]).contains("DESC-1"));
    assert!(rig.ok(["skills", "enable", "deploy"]).contains("deploy: on"));
    assert!(rig.ok(["skills", "enable", "deploy"]).contains("did not change"));
    assert_ne!(rig.run(["skills", "enable", "nosuch"]).code, 0);
}

#[test]
fn the_lab_runs_without_a_key_and_its_receipts_compare() {
    let rig = Rig::new();
    let said = rig.ok(["lab", "run", "context", "--out", "one"]);
    assert!(said.contains("| P7 |") && said.contains("better"), "{said}");
    rig.ok(["lab", "run", "context", "--out", "two"]);
    assert!(rig.ok(["lab", "compare", "one", "two"]).contains("the receipts are the same"));
    let published = rig.ok(["lab", "compare", "published", "one"]);
    assert!(published.contains("P7 verdict"), "{published}");
    assert!(!rig.home().join("state.db").exists(), "the home is not touched");
}

#[test]
fn in_a_conversation_the_same_questions_are_slash_commands_and_skills_are_loaded_by_name() {
    let rig = world();
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("/skills");
    terminal.wait_for("/deploy");
    terminal.line("/deploy to staging");
    terminal.wait_for("I read \"/deploy to staging");
    terminal.wait_for_prompt();
    terminal.line("/context why deploy");
    terminal.wait_for("its text is in the history");
    fs::write(rig.home().join("memories/USER.md"), "likes COBALT\n").unwrap();
    terminal.line("/refresh user");
    terminal.wait_for("The prompt is new (generation 1)");
    terminal.line("/trace COBALT");
    terminal.wait_for("block user, in force, in no request yet");
    terminal.line("/refresh weather");
    terminal.wait_for("there is no source \"weather\"");
    terminal.line("what can you see of COBALT");
    terminal.wait_for("I can see \"COBALT\" in: system.");
    terminal.wait_for_prompt();
    terminal.line("/exit");
    assert_eq!(terminal.end().0, 0);
}
