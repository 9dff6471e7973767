//! Titles: written by a helper after the first exchange, and never in anybody's way.

use hermes_agent::title::TitleError;
use hermes_agent::{Services, UserInput};
use hermes_core::SessionId;
use hermes_provider::JobError;
use hermes_store::{RequestFilter, TitleSource};

use crate::bench::{Bench, say};
use crate::compacting::server;

fn helper(url: &str, more: &str) -> String {
    format!(
        "auxiliary:\n  title:\n    provider: custom\n    model: namer\n    base_url: {url}\n{more}"
    )
}

fn configured(more: &str) -> Bench {
    let bench = Bench::new(Some(r#"[{"kind":"any","say":"Port 8080 it is.","repeat":50}]"#));
    let path = bench.folder.path().join("config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}{more}")).unwrap();
    bench
}

/// The title that comes of it; None where nothing is to be done.
fn title(services: &Services, id: &SessionId) -> Option<Result<String, TitleError>> {
    let job = services.title_for(id).unwrap()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Some(runtime.block_on(job.run()))
}

fn stored(services: &Services, id: &SessionId) -> Option<String> {
    services.store.session(id).unwrap().unwrap().title
}

#[test]
fn a_session_gets_a_title_after_its_first_exchange_from_the_task_s_own_model() {
    let own = server(r#"[{"say":"\"Ports of the harbour relay.\"","repeat":9}]"#);
    let bench = configured(&helper(&own.base_url(), ""));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let secret = "sk-test-EEEE5555FFFF6666GGGG7777HHHH8888";
    let said = format!("Which port does the harbour relay get? My key is {secret}");
    say(&services, &mut conversation, UserInput::text(said));
    let id = conversation.id().clone();
    // The conversation still holds the session: its next turn comes first, the title's records
    // go in between.
    conversation.release().unwrap();
    let written = title(&services, &id).unwrap();
    assert_eq!(written.unwrap(), "Ports of the harbour relay");
    assert_eq!(stored(&services, &id).as_deref(), Some("Ports of the harbour relay"));
    let asked = String::from_utf8(own.received().remove(0)).unwrap();
    assert!(asked.contains("harbour relay") && asked.contains("Port 8080 it is."));
    assert!(!asked.contains(secret), "secrets are taken out");
    let ledger = services.store.requests(&RequestFilter::default()).unwrap();
    let attempt = ledger.iter().find(|it| it.attempt.task.as_str() == "title").unwrap();
    assert!(attempt.end.is_some() && attempt.has_kept_body);

    assert!(title(&services, &id).is_none(), "it has one");
    assert_eq!(services.store.history(&id).unwrap().rows.len(), 2, "no row is added");

    // A second session of the same name is told apart; what the person says counts more.
    conversation.release().unwrap();
    let mut second = bench.start(&services);
    say(&services, &mut second, UserInput::text("Which port again?"));
    second.release().unwrap();
    let job = services.title_for(second.id()).unwrap().unwrap();
    services.store.set_title(second.id(), Some("mine"), TitleSource::User).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(job.run()).unwrap(), "mine");
    let mut third = bench.start(&services);
    say(&services, &mut third, UserInput::text("And the port?"));
    third.release().unwrap();
    assert_eq!(title(&services, third.id()).unwrap().unwrap(), "Ports of the harbour relay #2");
}

#[test]
fn a_title_that_nobody_writes_is_a_typed_failure_and_the_conversation_goes_on() {
    let own = server(r#"[{"status":401,"body":{"error":{"message":"no"}},"repeat":9}]"#);
    let bench = configured(&helper(&own.base_url(), ""));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("hello"));
    conversation.release().unwrap();
    let failed = title(&services, conversation.id()).unwrap().unwrap_err();
    assert!(matches!(&failed, TitleError::Job(JobError::Failed(_))), "{failed:?}");
    assert!(failed.to_string().contains("namer answered 401"), "{failed}");
    assert_eq!(stored(&services, conversation.id()), None);
    say(&services, &mut conversation, UserInput::text("and on"));
    conversation.release().unwrap();
    assert!(title(&services, conversation.id()).is_none(), "only after the first exchange");
    assert_eq!(own.received().len(), 1);

    // Switched on and nothing more, the task goes to the conversation's model.
    let bench = configured("auxiliary:\n  title:\n    enabled: true\n");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("hello"));
    conversation.release().unwrap();
    assert_eq!(title(&services, conversation.id()).unwrap().unwrap(), "Port 8080 it is");
}

#[test]
fn switched_off_or_with_the_rehearsal_provider_nobody_is_asked_for_a_title() {
    for more in [
        "",
        "auxiliary:\n  title:\n    enabled: false\n",
        "auxiliary:\n  title_generation:\n    enabled: false\n",
    ] {
        let bench = configured(more);
        let services = bench.services();
        let mut conversation = bench.start(&services);
        say(&services, &mut conversation, UserInput::text("hello"));
        conversation.release().unwrap();
        assert!(title(&services, conversation.id()).is_none(), "{more}");
    }
    let bench = Bench::new(None);
    std::fs::write(bench.folder.path().join("config.yaml"), "model:\n  provider: rehearsal\n")
        .unwrap();
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("hello"));
    conversation.release().unwrap();
    assert!(title(&services, conversation.id()).is_none());
}
