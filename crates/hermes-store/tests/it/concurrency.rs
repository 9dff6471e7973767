//! Two processes' worth of connections on one file.

use std::thread;

use hermes_core::{GenerationNo, Role, Seq};
use hermes_store::{Committed, Record, SessionFilter};

use crate::support::*;

#[test]
fn two_stores_write_their_own_sessions_at_once_while_others_read() {
    const ROWS: u64 = 40;
    let mut home = Home::new();
    home.options.busy_timeout = std::time::Duration::from_secs(20);
    let stores = [home.store(), home.store()];
    thread::scope(|scope| {
        for (which, store) in stores.iter().enumerate() {
            for session in 0..2 {
                let name = format!("s{which}{session}");
                scope.spawn(move || {
                    let mut writer = create(store, &name);
                    for n in 0..ROWS {
                        let seq = writer.next_seq();
                        let text = format!("{name} {n}");
                        let request = format!("r-{name}-{n:03}");
                        let sent = attempt(&request, &id(&name), GenerationNo(0), seq);
                        let committed = writer
                            .commit(vec![
                                Record::Row(row(seq, Role::User, &text)),
                                Record::AttemptStarted(sent),
                                Record::AttemptEnded(end(&request, 1, 1)),
                            ])
                            .unwrap();
                        assert_eq!(committed, Committed::Database);
                    }
                    writer.release().unwrap();
                });
            }
            scope.spawn(move || {
                for _ in 0..30 {
                    for info in store.sessions(&SessionFilter::default()).unwrap() {
                        let history = store.history(&info.id).unwrap();
                        let seqs: Vec<Seq> = history.rows.iter().map(|row| row.seq).collect();
                        let whole: Vec<Seq> = (1..=seqs.len() as u64).map(Seq).collect();
                        assert_eq!(seqs, whole);
                        assert!(history.rows.len() as u64 >= info.message_count);
                    }
                }
            });
        }
    });
    for name in ["s00", "s01", "s10", "s11"] {
        let info = stores[0].session(&id(name)).unwrap().unwrap();
        assert_eq!((info.message_count, info.api_calls), (ROWS, ROWS));
    }
    let raw = home.raw();
    let ids: i64 =
        raw.query_row("SELECT count(DISTINCT id) FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(ids, 4 * ROWS as i64);
    let [first, second] = stores;
    first.check().unwrap();
    first.close();
    // With a wire profile stored there is nothing to report.
    let mut writer = second.open_session(&id("s00")).unwrap();
    let _c = writer.commit(vec![Record::Profile(hermes_core::WireProfile::default())]).unwrap();
    assert_sound(&second);
}

#[test]
fn many_threads_share_one_store() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    thread::scope(|scope| {
        for _ in 0..6 {
            let store = store.clone();
            scope.spawn(move || {
                for _ in 0..20 {
                    assert!(store.session(&id("a")).unwrap().is_some());
                }
            });
        }
        for n in 0..10 {
            say(&mut writer, Role::User, &format!("{n}"));
        }
    });
    assert_eq!(texts(&store, &id("a")).len(), 10);
}
