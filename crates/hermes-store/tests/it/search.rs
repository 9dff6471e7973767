//! Finding what was said.

use hermes_core::{DeleteReason, Op, Role, Row, Seq, Standing, ToolLink};
use hermes_store::{
    DeleteRequest, ParentKind, Record, SearchAnswer, SearchRequest, SearchSort, SessionWriter,
    Store, StoreError, TitleSource,
};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use proptest::{collection, sample};

use crate::support::*;

pub fn find(store: &Store, query: &str) -> Vec<String> {
    sessions(&store.search(&SearchRequest::new(query)).unwrap())
}

fn sessions(answer: &SearchAnswer) -> Vec<String> {
    answer.results.iter().map(|result| result.session_id.clone()).collect()
}

pub fn talk(store: &Store, name: &str, lines: &[&str]) {
    let mut writer = create(store, name);
    for (at, line) in lines.iter().enumerate() {
        let role = if at % 2 == 0 { Role::User } else { Role::Assistant };
        say(&mut writer, role, line);
    }
    writer.release().unwrap();
}

fn tool(writer: &mut SessionWriter, text: &str) -> Seq {
    let seq = writer.next_seq();
    let mut row = row(seq, Role::Tool, text);
    row.tool = Some(ToolLink { call_id: "c1".into(), name: "terminal".into() });
    let _c = writer.commit(vec![Record::Row(row)]).unwrap();
    seq
}

fn case(name: &str) -> String {
    let path = format!("{}/tests/cases/B026/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn b026_no_ordinary_query_fails_and_text_that_is_there_is_found() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "doc", &[case("doc.txt").trim()]);
    talk(&store, "other", &["nothing to see here"]);
    let queries: Vec<String> = serde_json::from_str(&case("queries_must_hit.json")).unwrap();
    for query in &queries {
        assert_eq!(find(&store, query).first().map(String::as_str), Some("doc"), "{query}");
    }
    assert_eq!(find(&store, "\"done 50% skip\""), [""; 0], "a phrase keeps its order");
    let queries: Vec<String> = serde_json::from_str(&case("queries_no_crash.json")).unwrap();
    for query in &queries {
        match store.search(&SearchRequest::new(query.as_str())) {
            Ok(_) => {}
            Err(error) => assert!(
                matches!(error, StoreError::Refused { .. })
                    && error.to_string().contains("nothing to search for"),
                "{query}: {error}"
            ),
        }
    }
    for nothing in ["", "  ", "AND", "OR", "NOT", "*", "--", "(", "))"] {
        assert!(store.search(&SearchRequest::new(nothing)).is_err(), "{nothing}");
    }
}

#[test]
fn no_query_of_whatever_signs_fails() {
    const PIECES: &[&str] = &[
        "\"",
        "'",
        "*",
        "(",
        ")",
        " AND ",
        " OR ",
        " NOT ",
        " NEAR(",
        "^",
        ":",
        "-",
        "{",
        "}",
        "+",
        "t:",
        "w : ",
        "src/a.rs",
        "C++",
        "v2.1.3",
        "sp_new1",
        "数据库",
        "タ",
        "😀",
        "é",
        "\u{301}",
        "\0",
        "\n",
        "\u{feff}",
        " ",
        "a",
        "Z",
        "42",
        "%",
        "_",
        "\\",
        "NULL",
        ";--",
        "#1",
        "$x",
        "@session:",
    ];
    let home = Home::new();
    let store = home.store();
    talk(&store, "doc", &[case("doc.txt").trim(), "数据库 src/a.rs a 42 C++"]);
    let piece = prop_oneof![3 => sample::select(PIECES).prop_map(str::to_owned), 1 => ".{0,6}"];
    let query = collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat());
    let asked = (query, any::<bool>(), any::<bool>());
    TestRunner::new(Config::with_cases(400))
        .run(&asked, |(query, inside, tools)| {
            let mut request = SearchRequest::new(query);
            request.session = inside.then(|| id("doc"));
            if tools {
                request.roles.push(Role::Tool);
            }
            match store.search(&request) {
                Ok(_) => Ok(()),
                Err(StoreError::Refused { what, .. }) if what.contains("nothing to search for") => {
                    Ok(())
                }
                Err(error) => Err(TestCaseError::fail(error.to_string())),
            }
        })
        .unwrap();
}

#[test]
fn a_name_weighs_more_than_other_words_though_it_is_in_many_messages() {
    let home = Home::new();
    let store = home.store();
    let mut lines = vec!["Ben: I enrolled, welding it is, first lesson on Monday"];
    lines.extend(["Ben: a quiet week", "Ben: nothing new"].repeat(6));
    talk(&store, "ben", &lines);
    for name in ["a", "b", "c", "d", "e", "f"] {
        talk(&store, name, &["Guess what, the welding class starts at noon", "good for you"]);
    }
    assert_eq!(find(&store, "When does the welding class of Ben start?")[0], "ben");
}

/// Sixty lines; those at the given places say something.
fn long_talk(store: &Store, name: &str, said: &[(usize, &str)]) {
    let mut lines = vec!["Nothing is known of that yet."; 60];
    for (at, line) in said {
        lines[*at] = line;
    }
    talk(store, name, &lines);
}

fn shows(store: &Store, query: &str, text: &str) -> bool {
    let answer = store.search(&SearchRequest::new(query)).unwrap();
    answer.results[0].messages.iter().any(|message| message.content == text)
}

#[test]
fn a_name_leads_to_its_session_but_does_not_take_the_places_in_it() {
    let home = Home::new();
    let store = home.store();
    let settled = "Fine, the proxy moves to 8443.";
    let mut said = vec![(52, settled), (4, "Look at the proxy."), (8, "Is that the proxy?")];
    said.extend((10..46).step_by(4).map(|at| (at, "Tern builds.")));
    long_talk(&store, "tern", &said);
    for name in ["a", "b", "c"] {
        talk(&store, name, &["The proxy is slow", "Tests pass"]);
    }
    let question = "on which port did we put the proxy of Tern?";
    assert_eq!(find(&store, question)[0], "tern");
    assert!(shows(&store, question, settled));
}

#[test]
fn what_is_shown_around_a_better_hit_takes_no_place_of_its_own() {
    let home = Home::new();
    let store = home.store();
    let last = "A kite stood over the barn.";
    let mut said: Vec<(usize, &str)> = (20..27).map(|at| (at, "The red kite again.")).collect();
    said.extend([(34, "One kite."), (38, "One more kite."), (46, last)]);
    long_talk(&store, "birds", &said);
    talk(&store, "other", &["Nothing flies here", "red is the barn"]);
    assert!(shows(&store, "where is the red kite", last));
}

#[test]
fn words_of_every_kind_are_found() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "zh", &["请检查数据库的连接设置"]);
    talk(&store, "ja", &["東京タワーに行きました"]);
    talk(&store, "ko", &["데이터베이스 연결을 확인하세요"]);
    talk(&store, "short", &["the go to R and C took 7 days"]);
    talk(&store, "accents", &["Ein Café in der Großstadt, naïve résumé"]);
    talk(&store, "stems", &["we were deploying the services yesterday"]);
    talk(&store, "path", &["look at crates/hermes-store/src/search.rs:42 please"]);
    talk(&store, "digest", &["commit a3f9c1d2e4b5a6978812 broke it"]);
    talk(&store, "camel", &["call getUserById in HttpServer"]);
    for (query, wanted) in [
        ("数据库", "zh"),
        ("连", "zh"),
        ("库的", "zh"),
        ("タワー", "ja"),
        ("京", "ja"),
        ("연결", "ko"),
        ("R", "short"),
        ("7", "short"),
        ("cafe", "accents"),
        ("GROSSSTADT", "accents"),
        ("resume", "accents"),
        ("deployed service", "stems"),
        ("search.rs", "path"),
        ("hermes-store/src", "path"),
        ("a3f9c1d", "digest"),
        ("getuserbyid", "camel"),
        ("user by id", "camel"),
        ("deplo*", "stems"),
    ] {
        assert_eq!(find(&store, query).first().map(String::as_str), Some(wanted), "{query}");
    }
}

#[test]
fn operators_include_and_exclude() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "a", &["red bicycle"]);
    talk(&store, "b", &["red car"]);
    talk(&store, "c", &["blue car"]);
    let check = |query: &str, expected: &[&str]| {
        let mut found = find(&store, query);
        found.sort();
        assert_eq!(found, expected, "{query}");
    };
    check("red", &["a", "b"]);
    check("red AND car", &["b"]);
    check("red NOT car", &["a"]);
    check("\"red car\"", &["b"]);
    check("bicycle OR blue", &["a", "c"]);
    assert_eq!(find(&store, "red car").first().map(String::as_str), Some("b"));
}

#[test]
fn tool_output_is_found_in_full_and_only_when_asked_for() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "run it");
    let long = format!("{} needle-at-the-end", "hay ".repeat(20_000));
    tool(&mut writer, &long);
    writer.release().unwrap();
    assert_eq!(find(&store, "needle-at-the-end"), [""; 0]);
    let mut request = SearchRequest::new("needle-at-the-end");
    request.roles.push(Role::Tool);
    let answer = store.search(&request).unwrap();
    let result = &answer.results[0];
    assert_eq!((&*result.session_id, &*result.matched_role), ("a", "tool"));
    assert!(result.snippet.contains("needle-at-the-end"), "{}", result.snippet);
    let hit = result.messages.iter().find(|message| message.anchor).unwrap();
    assert!(hit.content_truncated && hit.content.contains("needle-at-the-end"));
    assert_eq!(hit.tool_name.as_deref(), Some("terminal"));
}

#[test]
fn a_query_with_a_session_searches_inside_that_session() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "a", &["apples here", "one", "two", "pears there", "three", "apples again"]);
    talk(&store, "b", &["apples elsewhere"]);
    let mut request = SearchRequest::new("apples");
    request.session = Some(id("a"));
    let answer = store.search(&request).unwrap();
    assert_eq!((answer.mode, sessions(&answer)), ("inside", vec!["a".to_owned(); 2]));
    let anchors: Vec<&str> = answer
        .results
        .iter()
        .flat_map(|result| &result.messages)
        .filter(|message| message.anchor)
        .map(|message| message.content.as_str())
        .collect();
    assert!(anchors.contains(&"apples here") && anchors.contains(&"apples again"), "{anchors:?}");
    request.session = Some(id("nobody"));
    assert!(matches!(store.search(&request), Err(StoreError::NotFound { .. })));
}

#[test]
fn a_name_is_known_by_its_use_where_the_question_has_no_capitals() {
    let home = Home::new();
    let store = home.store();
    let make = |name: &str, said: &[String]| {
        let mut writer = store.create_session(init(name), opening()).unwrap();
        for text in said {
            say(&mut writer, Role::User, text);
        }
        writer.release().unwrap();
    };
    // Anna is spoken of all the time in one session; another has more of the question's words.
    let mut with_anna: Vec<String> =
        (0..12).map(|day| format!("On day {day} Anna went to the market.")).collect();
    with_anna.push("Anna cooked lentils then.".to_owned());
    make("of anna", &with_anna);
    make("of nobody", &["We cooked in the evening.".to_owned()]);
    for number in 0..6 {
        make(&format!("other {number}"), &["The tyre was flat.".to_owned()]);
    }
    for question in ["what did Anna cook in the evening", "what did anna cook in the evening"] {
        let answer = store.search(&SearchRequest::new(question)).unwrap();
        assert_eq!(sessions(&answer), ["of anna", "of nobody"], "{question}");
    }
}

#[test]
fn inside_a_session_full_of_its_words_a_name_of_two_words_is_found() {
    let home = Home::new();
    let store = home.store();
    let check = |name: &str, stated: &str, others: u64| {
        let mut writer = store.create_session(init(name), opening()).unwrap();
        say(&mut writer, Role::User, stated);
        let first = writer.next_seq().0;
        let others = (0..others).map(|number| {
            let text =
                format!("The harbour was quiet on day {number}, and so was the old lantern.");
            Record::Row(row(Seq(first + number), Role::Assistant, &text))
        });
        let _at = writer.commit(others.collect()).unwrap();
        writer.release().unwrap();
        let mut request = SearchRequest::new("which number does the harbour lantern have");
        request.session = Some(id(name));
        let answer = store.search(&request).unwrap();
        let best = answer.results[0].messages.iter().find(|message| message.anchor).unwrap();
        assert_eq!(best.content, stated);
    };
    check("long", "The harbour lantern gets X-1.", 120);
    check("turned round", "The lantern at the harbour gets X-1.", 120);
    check("longer than a common word is asked for", "The lantern of our harbour: X-1.", 1_600);
}

#[test]
fn roles_times_order_and_exclusions_are_kept_to() {
    let home = Home::new();
    let store = home.store();
    for (name, days) in [("old", 0), ("mid", 10), ("new", 20)] {
        let mut init = init(name);
        init.started_at = START.plus_millis(days * 86_400_000);
        let mut writer = store.create_session(init, opening()).unwrap();
        say(&mut writer, Role::User, "the walnut question");
        say(&mut writer, Role::Assistant, &format!("the answer of {name}"));
        writer.release().unwrap();
    }
    let ask = |change: &dyn Fn(&mut SearchRequest)| {
        let mut request = SearchRequest::new("walnut");
        change(&mut request);
        sessions(&store.search(&request).unwrap())
    };
    assert_eq!(ask(&|_| {}), ["new", "mid", "old"], "the newest first where all else is equal");
    assert_eq!(ask(&|r| r.sort = SearchSort::Oldest), ["old", "mid", "new"]);
    assert_eq!(ask(&|r| r.sort = SearchSort::Newest), ["new", "mid", "old"]);
    assert_eq!(ask(&|r| r.limit = 1), ["new"]);
    assert_eq!(ask(&|r| r.exclude = vec![id("new")]), ["mid", "old"]);
    assert_eq!(ask(&|r| r.after = Some(START.plus_millis(86_400_000))), ["new", "mid"]);
    assert_eq!(ask(&|r| r.before = Some(START.plus_millis(86_400_000))), ["old"]);
    assert_eq!(ask(&|r| r.roles = vec![Role::Assistant]), [""; 0]);
    assert_eq!(ask(&|r| r.current = Some(id("new"))), ["mid", "old"]);
}

#[test]
fn a_title_is_found_and_goes_with_its_change() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "a", &["hello there"]);
    store.set_title(&id("a"), Some("Gardening plans"), TitleSource::User).unwrap();
    let answer = store.search(&SearchRequest::new("gardening")).unwrap();
    assert_eq!(answer.results[0].matched_role, "session_title");
    store.set_title(&id("a"), Some("Cooking"), TitleSource::User).unwrap();
    assert_eq!(find(&store, "gardening"), [""; 0]);
    assert_eq!(find(&store, "cooking"), ["a"]);
    assert_sound(&store);
}

#[test]
fn what_was_compacted_is_found_and_what_was_rewound_is_not() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "the pelican fact");
    say(&mut writer, Role::User, "the ostrich fact");
    let mut summary: Row = row(Seq(3), Role::User, "birds were talked about");
    summary.standing = Standing::ByOp;
    let ops = vec![
        Op::Cover { from: Seq(1), to: Seq(1), by: Seq(3) },
        Op::Hide { from: Seq(2), to: Seq(2) },
    ];
    let _c = writer
        .commit(vec![Record::Row(summary), generation(1, hermes_core::Cause::Compaction, ops)])
        .unwrap();
    writer.release().unwrap();
    assert_eq!(find(&store, "pelican"), ["a"]);
    assert_eq!(find(&store, "ostrich"), [""; 0]);
    // The session itself is shown only what it no longer has before it.
    let mut request = SearchRequest::new("pelican birds");
    request.current = Some(id("a"));
    let answer = store.search(&request).unwrap();
    assert_eq!(answer.results[0].messages.iter().filter(|m| m.anchor).count(), 1);
    assert!(answer.results[0].snippet.contains("pelican"));
}

#[test]
fn a_late_part_is_found_with_its_row() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let first = say(&mut writer, Role::User, "begin");
    let seq = writer.next_seq();
    let steer = part(seq, first, hermes_core::Origin::Steer, "rather use the marmalade");
    let _c = writer.commit(vec![Record::Part(steer)]).unwrap();
    writer.release().unwrap();
    assert_eq!(find(&store, "marmalade"), ["a"]);
    assert_eq!(find(&store, "begin"), ["a"]);
    assert_sound(&store);
}

#[test]
fn deleted_text_is_not_found_and_children_are_not_offered() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "a", &["quicksilver"]);
    talk(&store, "b", &["mercury"]);
    let mut init = init("child");
    init.parent = Some((id("b"), ParentKind::Delegate));
    let mut writer = store.create_session(init, opening()).unwrap();
    say(&mut writer, Role::User, "mercury task");
    writer.release().unwrap();
    assert_eq!(find(&store, "mercury"), ["b"]);
    store.delete_session(DeleteRequest::new(vec![id("a")], DeleteReason::Delete)).unwrap();
    assert_eq!(find(&store, "quicksilver"), [""; 0]);
    assert_sound(&store);
}

#[test]
fn one_result_stands_for_a_conversation() {
    let home = Home::new();
    let store = home.store();
    talk(&store, "root", &["the obsidian plan"]);
    let mut init = init("tip");
    init.parent = Some((id("root"), ParentKind::Compaction));
    let mut writer = store.create_session(init, opening()).unwrap();
    say(&mut writer, Role::User, "obsidian again");
    writer.release().unwrap();
    assert_eq!(find(&store, "obsidian").len(), 1);
}

#[test]
fn sessions_are_read_scrolled_and_browsed() {
    let home = Home::new();
    let store = home.store();
    let lines: Vec<String> = (0..60).map(|n| format!("line {n}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    talk(&store, "a", &lines);
    let read = store.read_session(&id("a"), false, "default").unwrap();
    assert_eq!((read.message_count, read.messages.len(), read.truncated), (60, 30, true));
    assert_eq!(read.link, "@session:default/a");
    let anchor = read.messages[10].id;
    let window = store.scroll(&id("a"), anchor, 3, "default").unwrap();
    let contents: Vec<&str> = window.messages.iter().map(|m| m.content.as_str()).collect();
    assert_eq!(
        contents,
        ["line 7", "line 8", "line 9", "line 10", "line 11", "line 12", "line 13"]
    );
    assert_eq!((window.messages_before, window.messages_after), (7, 46));
    assert!(matches!(store.scroll(&id("a"), 3, 3, "default"), Err(StoreError::NotFound { .. })));
    let browsed = store.browse(5, "default").unwrap();
    assert_eq!(browsed.results[0].preview, "line 0");
    assert_eq!(browsed.results[0].message_count, 60);
}

#[test]
fn an_old_fact_is_found_among_many_common_words() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "old");
    say(&mut writer, Role::User, "common words and the heliotrope");
    say(&mut writer, Role::User, "alpha beta meet only here");
    writer.release().unwrap();
    for chunk in 0..40_u64 {
        let mut writer = create(&store, &format!("bulk-{chunk}"));
        let word = if chunk % 2 == 0 { "alpha" } else { "beta" };
        let text = format!("common words {word} again");
        let rows = (1..=100_u64).map(|n| Record::Row(row(Seq(n), Role::User, &text))).collect();
        let _c = writer.commit(rows).unwrap();
        writer.release().unwrap();
    }
    assert_eq!(find(&store, "common heliotrope")[0], "old");
    assert_eq!(find(&store, "alpha beta")[0], "old");
}
