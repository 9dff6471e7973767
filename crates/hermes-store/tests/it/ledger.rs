//! The request ledger.

use hermes_core::{
    AttemptOutcome, ErrorClass, GenerationNo, RequestId, Role, Seq, Task, Usage, WireProfile,
};
use hermes_store::{Record, RequestFilter, StoreError};

use crate::support::*;

#[test]
fn an_attempt_comes_back_with_every_field_and_its_kept_body() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let mut first = attempt("r0001", &id("a"), GenerationNo(0), Seq(1));
    first.kept_body = Some(br#"{"odd":1e5}"#.repeat(100));
    let mut second = attempt("r0002", &id("a"), GenerationNo(0), Seq(1));
    second.retries = Some(RequestId::new("r0001"));
    second.attempt = 2;
    second.task = Task::Auxiliary("title_generation".into());
    let mut failed = end("r0001", 0, 0);
    failed.outcome = AttemptOutcome::Error;
    failed.error_class = Some(ErrorClass::RateLimit);
    failed.error = Some("slow down".into());
    failed.http_status = Some(429);
    failed.usage = Usage::default();
    let _c = writer
        .commit(vec![
            Record::Profile(WireProfile::default()),
            Record::AttemptStarted(first.clone()),
            Record::AttemptStarted(second.clone()),
        ])
        .unwrap();
    assert_eq!(store.request("r0002").unwrap().end, None);
    let _c = writer.commit(vec![Record::AttemptEnded(failed.clone())]).unwrap();

    let found = store.request("r0001").unwrap();
    assert_eq!(found.end, Some(failed));
    assert!(found.has_kept_body && !found.session_deleted);
    assert_eq!(store.kept_body(&first.id).unwrap(), first.kept_body);
    first.kept_body = None;
    assert_eq!(found.attempt, first);
    assert_eq!(store.request("r0002").unwrap().attempt, second);
    assert_eq!(store.kept_body(&second.id).unwrap(), None);
    assert!(matches!(store.request("r000"), Err(StoreError::Ambiguous { .. })));
    assert!(matches!(store.request("x"), Err(StoreError::NotFound { .. })));
    assert_sound(&store);
}

#[test]
fn requests_are_listed_by_session_id_task_order_and_limit() {
    let home = Home::new();
    let store = home.store();
    for (session, requests) in [("a", ["r1", "r3"]), ("b", ["r2", "r4"])] {
        let mut writer = create(&store, session);
        say(&mut writer, Role::User, "one");
        for name in requests {
            let mut started = attempt(name, &id(session), GenerationNo(0), Seq(1));
            if name == "r4" {
                started.task = Task::Auxiliary("compression".into());
            }
            let _c = writer.commit(vec![Record::AttemptStarted(started)]).unwrap();
        }
    }
    let list = |filter: RequestFilter| -> Vec<String> {
        store.requests(&filter).unwrap().iter().map(|r| r.attempt.id.to_string()).collect()
    };
    let all = RequestFilter::default();
    assert_eq!(list(all.clone()), ["r1", "r2", "r3", "r4"]);
    assert_eq!(
        list(RequestFilter { newest_first: true, limit: Some(2), ..all.clone() }),
        ["r4", "r3"]
    );
    assert_eq!(list(RequestFilter { session: Some(id("b")), ..all.clone() }), ["r2", "r4"]);
    assert_eq!(list(RequestFilter { main_only: true, ..all.clone() }), ["r1", "r2", "r3"]);
    let ids = vec![RequestId::new("r2"), RequestId::new("r3"), RequestId::new("r9")];
    assert_eq!(list(RequestFilter { ids, ..all }), ["r2", "r3"]);
}
