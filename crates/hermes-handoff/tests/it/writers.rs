//! The ways in which a writer can fail, and where each is said.

use std::sync::{Arc, Mutex, OnceLock};

use hermes_handoff::capsule::status_line;
use hermes_handoff::writer::{WriterError, WriterFault};
use hermes_handoff::{Handoffs, Start, Status};

use crate::support::*;

/// What a test's subscriber heard: level and all fields.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<String>>);

impl Heard {
    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    /// Runs `work` while everything that is logged is heard.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        // While there is one subscriber only, whichever thread comes first to a place that logs
        // decides whether anybody hears it.
        static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| tracing::Dispatch::new(Self::default()));
        tracing::subscriber::with_default(self.clone(), work)
    }
}

impl tracing::Subscriber for Heard {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields<'a>(&'a mut String);
        impl tracing::field::Visit for Fields<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                use std::fmt::Write as _;
                let _ = write!(self.0, " {}={value:?}", field.name());
            }
        }
        let mut all = self.0.lock().unwrap();
        all.push_str(event.metadata().level().as_str());
        event.record(&mut Fields(&mut all));
        all.push('\n');
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// An answer, or the client's failure, and the fault that it is.
fn ways() -> Vec<(WriterFault, Result<String, WriterError>)> {
    use WriterFault as F;
    let failed =
        |fault, detail: &str| (fault, Err(WriterError { fault, detail: detail.to_owned() }));
    let answered = |fault, text: String| (fault, Ok(text));
    vec![
        failed(F::NoCandidate, ""),
        failed(F::Unauthorized, "401: bad key"),
        failed(F::PaymentRequired, "402: no credit"),
        failed(F::RateLimited, "429 after 3 tries"),
        failed(F::Timeout, "no answer in 120 s"),
        failed(F::ConnectionLost, "reset by peer"),
        answered(F::Empty, " \n".to_owned()),
        answered(F::Refused, "I'm sorry, but I can't help with that.".to_owned()),
        failed(F::CutOff, "finish reason length"),
        answered(F::WrongHeadings, GOOD.replace("## Decisions", "## Choices")),
        answered(F::NoCapsule, "The conversation was about a parser.".to_owned()),
        answered(
            F::Emptier,
            "## Working on\nx\n## State\n## Decisions\n## Pointers\n## Next\n".to_owned(),
        ),
    ]
}

/// A capsule of a lane's earlier session, long enough to compare with.
fn earlier(world: &World, handoffs: &Handoffs) {
    let session = talked(&world.store(), "earlier", &TALK);
    let long =
        GOOD.replace("- keep comments", &format!("- keep {}", "every comment and ".repeat(40)));
    assert_eq!(built(handoffs, &session, &saying(&long)).status, Status::Ok);
}

#[test]
fn every_failure_of_the_writer_is_said_everywhere_with_its_cause() {
    for (fault, answer) in ways() {
        let world = World::new();
        let handoffs = world.handoffs();
        earlier(&world, &handoffs);
        let session = talked(&world.store(), "old", &TALK);
        let heard = Heard::default();
        let writer = Scripted::new(move || answer.clone());
        let result = heard.during(|| built(&handoffs, &session, &writer));
        let cause = fault.sentence();
        let names = |text: &str| assert!(text.contains(cause), "{fault:?}: {text}");

        assert_eq!((result.status, result.status.exit_code()), (Status::Fallback, 8), "{fault:?}");
        assert_eq!(result.writer.as_deref(), Some("deterministic"));
        names(result.reason.as_deref().unwrap());
        names(&serde_json::to_string(&result).unwrap());
        names(&result.sentence());
        assert!(
            result.sentence().contains("WITHOUT a model") && result.sentence().contains("hint:")
        );
        names(&heard.text());
        assert!(heard.text().starts_with("INFO"), "{}", heard.text());

        let file = std::fs::read_to_string(result.path.as_ref().unwrap()).unwrap();
        assert!(status_line(&file).unwrap().starts_with("fallback; reason: "), "{file}");
        names(status_line(&file).unwrap());
        names(file.split("\n\n").next().unwrap());
        assert_eq!(file.lines().filter(|line| line.starts_with("## ")).count(), 6);

        let listed = &handoffs.list().unwrap()[0].record;
        assert_eq!(listed.status, "fallback");
        names(listed.reason.as_deref().unwrap());
        names(&std::fs::read_to_string(handoffs.pending_path(listed)).unwrap());
        let offer = handoffs.offer(&lane(), &id("next"), Start::ByPerson).unwrap().unwrap();
        assert!(offer.sentence(result.path.as_ref().unwrap()).contains("no model wrote"));
    }
    let told: std::collections::BTreeSet<WriterFault> =
        ways().into_iter().map(|(f, _)| f).collect();
    assert_eq!(told.len(), 12);
}

#[test]
fn a_capsule_that_no_model_wrote_or_that_a_person_made_huge_shuts_out_no_good_one() {
    let good = "## Working on\nThe parser of the config file; comments are kept where they stand.\n\
        ## State\n- The tokens are done and proven, the tests are not written yet.\n\
        ## Decisions\n- Comments are kept, because people annotate their settings.\n\
        ## Pointers\n- src/parser.rs\n## Next\n- Test the parser with the files of the examples.";
    let long: Vec<String> = (0..80)
        .map(|n| {
            format!("We decided to file report {n} under shelf K-{n}; never move ledger L-{n}.")
        })
        .collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let first = talked(&store, "first", &long);
    let down = failing(WriterError::bare(WriterFault::Timeout));
    let fallback = built(&handoffs, &first, &down);
    assert!(fallback.chars > 6_000, "{fallback:?}");
    let second = talked(&store, "second", &TALK);
    let poor = "## Working on\nx\n## State\ny\n## Decisions\nz\n## Pointers\nnone\n## Next\nnone";
    let empty = built(&handoffs, &second, &saying(poor));
    assert!(empty.reason.unwrap().contains("much less"), "an empty one is still told");
    let result = built(&handoffs, &second, &saying(good));
    assert_eq!(result.status, Status::Ok, "{result:?}");

    // By hand, to many times what a capsule may have.
    let path = result.path.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let huge =
        text.replace("- The tokens", &format!("{}\n- The tokens", "more and more ".repeat(60_000)));
    std::fs::write(&path, huge).unwrap();
    let third = talked(&store, "third", &TALK);
    let writer = saying(&good.replace("are done", &format!("are {}done", "very ".repeat(600))));
    let result = built(&handoffs, &third, &writer);
    assert_eq!(result.status, Status::Ok, "{result:?}");
    assert!(writer.asked.lock().unwrap()[0].user.chars().count() < 16_000);
}
