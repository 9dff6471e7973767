//! How long it takes in idle moments until an index with the tokens of an older program is renewed,
//! and what searches and commits notice of it.

use std::path::Path;
use std::time::{Duration, Instant};

use hermes_store::SearchRequest;
use rusqlite::Connection;

use crate::{START, begin, row, size, store};

/// Between two looks; so much of the time nobody wants anything.
const PAUSE: Duration = Duration::from_millis(10);
/// A message is said this often.
const SAID: Duration = Duration::from_millis(500);

/// Marks the index as older, waits until it is renewed, searches and says something meanwhile.
pub fn run(folder: &Path) {
    let raw = Connection::open(folder.join("state.db")).unwrap();
    raw.execute_batch(
        "INSERT OR REPLACE INTO state_meta (key, value) VALUES ('index_tokens', '1');
         DELETE FROM state_meta WHERE key = 'index_renewed';",
    )
    .unwrap();
    let note = |name: &str| -> Option<String> {
        raw.query_row("SELECT value FROM state_meta WHERE key = ?1", [name], |row| row.get(0)).ok()
    };
    let bytes = size(folder);
    let store = store(folder);
    let mut writer = begin(&store, &format!("awake-{bytes}"), START);
    let finds = |word: &str| {
        let answer = store.search(&SearchRequest::new(word)).unwrap();
        answer.results.first().is_some_and(|result| result.snippet.contains(word))
    };
    let begun = Instant::now();
    let (mut searches, mut wrong, mut said) = (Vec::new(), 0, Vec::new());
    let mut spoke = Instant::now();
    while note("index_tokens").as_deref() == Some("1") {
        for n in 0..10 {
            let asked = Instant::now();
            let found = finds(&format!("planted{n}"));
            searches.push(asked.elapsed().as_secs_f64() * 1000.0);
            wrong += usize::from(!found);
        }
        if spoke.elapsed() >= SAID {
            spoke = Instant::now();
            let seq = writer.next_seq();
            let text = format!("meanwhile{bytes}n{}", said.len());
            let committing = Instant::now();
            let _where = writer.commit(vec![row(seq, "user", &text, START)]).unwrap();
            said.push(committing.elapsed().as_secs_f64() * 1000.0);
            wrong += usize::from(!finds(&text));
        }
        std::thread::sleep(PAUSE);
    }
    let seconds = begun.elapsed().as_secs_f64();
    writer.release().unwrap();
    searches.sort_by(f64::total_cmp);
    said.sort_by(f64::total_cmp);
    let most = |times: &[f64]| times.last().copied().unwrap_or_default();
    let middle = |times: &[f64]| times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "{{\"renewed_after_s\":{seconds:.1},\"searches\":{},\"wrong\":{wrong},\
         \"search_median_ms\":{:.2},\"search_most_ms\":{:.1},\
         \"commits\":{},\"commit_median_ms\":{:.1},\"commit_most_ms\":{:.1},\
         \"bytes_before\":{bytes},\"bytes_after\":{}}}",
        searches.len(),
        middle(&searches),
        most(&searches),
        said.len(),
        middle(&said),
        most(&said),
        size(folder)
    );
}
