//! Texts as people, programs and plugins write them, and what is found in them.

use hermes_core::{Origin, Part, Role, slot};
use hermes_store::{Record, SearchRequest, Store};

use crate::search::{find, talk};
use crate::support::*;

#[test]
fn a_text_is_found_in_whatever_way_it_is_spelled() {
    let home = Home::new();
    let store = home.store();
    for (name, text) in [
        ("vi", "Ti\u{1ebf}ng Vi\u{1ec7}t"),
        ("vi-apart", "Đa\u{300} La\u{323}t"),
        ("ko-apart", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}어.txt"),
        ("ja-apart", "か\u{3099}っこう"),
        ("ja-half", "ﾃﾞｰﾀﾍﾞｰｽ"),
        ("el", "Η Αθήνα, της Αθήνας"),
        ("ru", "Ёлка и чай"),
        ("ar", "مَرْحَبًا"),
        ("he", "מַיִם"),
        ("joined", "soft\u{feff}ware \u{200e}left"),
        ("terminal", "\u{1b}[1;31merror\u{1b}[0m[E0599]: no me\u{1b}[4mthod\u{1b}[0m"),
    ] {
        talk(&store, name, &[text]);
    }
    for (query, wanted) in [
        ("tieng viet", "vi"),
        ("VIỆT", "vi"),
        ("Đà Lạt", "vi-apart"),
        ("da lat", "vi-apart"),
        ("한국어", "ko-apart"),
        ("がっこう", "ja-apart"),
        ("データベース", "ja-half"),
        ("ΑΘΗΝΑΣ", "el"),
        ("елка", "ru"),
        ("чаи\u{306}", "ru"),
        ("مرحبا", "ar"),
        ("מים", "he"),
        ("software", "joined"),
        ("left", "joined"),
        ("error", "terminal"),
        ("E0599", "terminal"),
        ("method", "terminal"),
    ] {
        assert_eq!(find(&store, query).first().map(String::as_str), Some(wanted), "{query}");
    }
    let found = store.search(&SearchRequest::new("E0599")).unwrap();
    assert_eq!(found.results[0].snippet, "error[E0599]: no method");
    assert_sound(&store);
}

#[test]
fn conditions_are_about_things_not_about_their_pieces() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "a", &["red paint in src/main.py"]);
    talk(&store, "b", &["red paint of the main hall"]);
    talk(&store, "c", &["blue paint"]);
    let check = |query: &str, expected: &[&str]| {
        let mut found = find(&store, query);
        found.sort();
        assert_eq!(found, expected, "{query}");
    };
    check("red NOT src/main.py", &["b"]);
    check("paint NOT \"red paint\"", &["c"]);
    check("src/main.py AND red", &["a"]);
    check("hall AND src/main.py", &[]);
    check("\"main hall\" OR \"blue paint\"", &["b", "c"]);
    check("(hall OR blue) AND paint", &["a", "b", "c"]);
    check("\u{201c}main hall\u{201d}", &["b"]);
    check("NOT red AND paint", &["c"]);
}

#[test]
fn the_beginning_of_a_word_finds_it_where_nothing_else_is_found() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "a", &["orange marmalade"]);
    talk(&store, "b", &["a marm, whatever that is"]);
    let begun = store.search(&SearchRequest::new("marmal")).unwrap();
    assert_eq!(begun.results[0].session_id, "a");
    assert!(begun.message.unwrap().contains("begin so"));
    let exact = store.search(&SearchRequest::new("marm")).unwrap();
    assert_eq!((exact.count, exact.message), (1, None), "{:?}", exact.results);
    assert_eq!(find(&store, "marmelade"), [""; 0]);
    assert_eq!(find(&store, "café*"), [""; 0]);
    talk(&store, "c", &["cafeteria"]);
    assert_eq!(find(&store, "café*"), ["c"]);
}

#[test]
fn what_a_plugin_answered_is_found_and_says_whose_it_is_and_what_it_added_is_not() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let question = say(&mut writer, Role::User, "may I deploy?");
    let late = writer.next_seq();
    let hook = |part: Part| Part { origin: Origin::Hook, label: Some("gate".into()), ..part };
    let added = hook(Part {
        slot: slot::LATE,
        ..part(late, question, Origin::Hook, "the moon is in Capricorn")
    });
    let seq = writer.next_seq();
    let mut answer = row(seq, Role::Assistant, "not before the pelican has landed");
    answer.parts = answer.parts.into_iter().map(hook).collect();
    let _c = writer.commit(vec![Record::Part(added), Record::Row(answer)]).unwrap();
    writer.release().unwrap();
    let check = |store: &Store| {
        let found = store.search(&SearchRequest::new("pelican")).unwrap();
        let hit = found.results[0].messages.iter().find(|message| message.anchor).unwrap();
        assert_eq!((hit.role, hit.plugin.as_deref()), ("assistant", Some("gate")));
        assert_eq!(hit.content, "not before the pelican has landed");
        assert_eq!(found.results[0].messages[0].plugin, None);
        assert_eq!(find(store, "Capricorn"), [""; 0]);
        assert_sound(store);
    };
    check(&store);
    // Closing takes the rows into the index.
    store.close();
    check(&home.store());
    let sql = "SELECT content, api_content FROM messages WHERE role = 'assistant'";
    let shown: (String, Option<String>) =
        home.raw().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(shown, ("not before the pelican has landed".to_owned(), None));
}
