//! Programs that read the file themselves, with the columns they know.

use hermes_core::{Cause, GenerationNo, Op, PartBody, Role, Seq, Standing, ToolLink, slot};
use hermes_store::Record;
use rusqlite::{Connection, OpenFlags};

use crate::support::*;

#[test]
fn the_columns_that_other_programs_read_have_their_names_types_and_order() {
    let home = Home::new();
    let store = home.store();
    let mut init = init("a");
    init.title = Some("A title".to_owned());
    let mut writer = store.create_session(init, opening()).unwrap();
    let mut beside = create(&store, "b");
    say(&mut writer, Role::User, "first");
    say(&mut beside, Role::User, "of another session");
    let mut called = row(Seq(2), Role::Assistant, "thinking aloud");
    for (seq, slot, body) in [
        (
            3,
            slot::REASONING,
            PartBody::Reasoning { field: "reasoning_content".into(), text: "hm".into() },
        ),
        (
            4,
            slot::CALLS,
            PartBody::ToolCall { id: "c1".into(), name: "terminal".into(), arguments: "{}".into() },
        ),
        (5, 160, PartBody::Raw { field: "codex_reasoning_items".into(), json: "[{}]".into() }),
    ] {
        called.parts.push(hermes_core::Part {
            slot,
            body,
            ..part(Seq(seq), Seq(2), hermes_core::Origin::Model, "")
        });
    }
    let mut result = row(Seq(6), Role::Tool, "ok");
    result.tool = Some(ToolLink { call_id: "c1".into(), name: "terminal".into() });
    let mut summary = row(Seq(8), Role::User, "sum of the first");
    summary.standing = Standing::ByOp;
    let hook = hermes_core::Part {
        slot: slot::LATE,
        ..part(Seq(9), Seq(7), hermes_core::Origin::Hook, "from a hook")
    };
    let cover = Op::Cover { from: Seq(1), to: Seq(6), by: Seq(8) };
    let _c = writer
        .commit(vec![
            Record::Row(called),
            Record::Row(result),
            Record::Row(row(Seq(7), Role::User, "second")),
            Record::Row(summary),
            Record::Part(hook),
            generation(1, Cause::Compaction, vec![cover]),
            Record::Profile(hermes_core::WireProfile::default()),
            Record::AttemptStarted(attempt("r1", &id("a"), GenerationNo(1), Seq(9))),
            Record::AttemptEnded(end("r1", 11, 22)),
        ])
        .unwrap();
    say(&mut beside, Role::User, "again of another session");

    let reader =
        Connection::open_with_flags(home.paths().db, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let session: (String, String, String, String, f64, Option<f64>, i64, i64, i64, String) = reader
        .query_row(
            "SELECT id, source, model, title, started_at, ended_at, message_count, input_tokens,
                 output_tokens, billing_provider FROM sessions
             WHERE cwd = '/work/project/sub' AND parent_session_id IS NULL
               AND cache_read_tokens = 0 AND cache_write_tokens = 0 AND reasoning_tokens = 0
               AND billing_base_url = 'http://127.0.0.1:1/v1'
               AND estimated_cost_usd IS NULL AND actual_cost_usd IS NULL
             ORDER BY id LIMIT 1",
            [],
            |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                    row.get(6)?,
                    row.get(7)?,
                    row.get(8)?,
                    row.get(9)?,
                ))
            },
        )
        .unwrap();
    assert_eq!(session.0, "a");
    assert_eq!((session.3.as_str(), session.4), ("A title", START.as_seconds_f64()));
    assert_eq!((session.6, session.7, session.8), (2, 11, 22));

    let mut statement = reader
        .prepare(
            "SELECT id, session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp,
                 reasoning, codex_reasoning_items, active, compacted, _compressed_summary,
                 api_content, typeof(id), typeof(timestamp), typeof(active)
             FROM messages WHERE session_id = 'a' ORDER BY id",
        )
        .unwrap();
    let mut shown = Vec::new();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let text = |at| row.get::<_, Option<String>>(at).unwrap().unwrap_or_default();
        let flags: (u8, u8, u8) =
            (row.get(10).unwrap(), row.get(11).unwrap(), row.get(12).unwrap());
        assert_eq!(
            (text(14), text(15), text(16)),
            ("integer".to_owned(), "real".to_owned(), "integer".to_owned())
        );
        shown.push(format!(
            "{} | {} | {}{}{} | {} | {} | {}",
            text(2),
            text(3),
            flags.0,
            flags.1,
            flags.2,
            text(4),
            text(6),
            text(8),
        ));
        if text(2) == "assistant" {
            let calls: serde_json::Value = serde_json::from_str(&text(5)).unwrap();
            assert_eq!(calls[0]["function"]["name"], "terminal");
            assert_eq!(text(9), "[{}]");
        }
        if text(3) == "second" {
            assert_eq!(text(13), "second\n\nfrom a hook");
        }
    }
    assert_eq!(
        shown,
        [
            "user | first | 010 |  |  | ",
            "assistant | thinking aloud | 010 |  |  | hm",
            "tool | ok | 010 | c1 | terminal | ",
            "user | sum of the first | 101 |  |  | ",
            "user | second | 100 |  |  | ",
        ]
    );
    let prompt: String = reader
        .query_row(
            "SELECT resolved_system_prompt FROM sessions_resolved WHERE id = 'a'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(prompt, PROMPT);
    let joined = "SELECT r.system_prompt, p.prompt FROM sessions_resolved r
                  JOIN sessions s ON s.id = r.id
                  JOIN system_prompts p ON p.hash = s.system_prompt_hash WHERE s.id = 'a'";
    let prompts: (String, String) =
        reader.query_row(joined, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(prompts, (PROMPT.to_owned(), PROMPT.to_owned()));
    assert_sound(&store);
}

#[test]
fn summaries_stand_where_people_see_them_however_often_a_session_is_compacted() {
    let home = Home::new();
    let store = home.store();
    let mut other = create(&store, "other");
    let mut writer = create(&store, "a");
    let mut said = Vec::new();
    for n in 0..12 {
        said.push(say(&mut writer, Role::User, &format!("line {n}")));
        // Others write in between, so that ids of a session are not neighbours.
        say(&mut other, Role::User, "noise");
    }
    for (n, last) in [(1_u32, 2), (2, 5), (3, 8)] {
        let seq = writer.next_seq();
        let mut summary = row(seq, Role::User, &format!("summary {n}"));
        summary.standing = Standing::ByOp;
        let cover = Op::Cover { from: said[0], to: said[last], by: seq };
        let records = vec![Record::Row(summary), generation(n, Cause::Compaction, vec![cover])];
        let _c = writer.commit(records).unwrap();
        let raw = home.raw();
        let mut statement = raw
            .prepare(
                "SELECT content FROM messages WHERE session_id = 'a' AND active = 1 ORDER BY id",
            )
            .unwrap();
        let shown: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let mut wanted = vec![format!("summary {n}")];
        wanted.extend((last + 1..12).map(|n| format!("line {n}")));
        assert_eq!(shown, wanted);
        assert_sound(&store);
    }
}

#[test]
fn the_view_finds_a_session_by_index_and_not_by_reading_everything() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "a"));
    let raw = home.raw();
    let mut statement = raw
        .prepare("EXPLAIN QUERY PLAN SELECT content FROM messages WHERE session_id = 'a'")
        .unwrap();
    let plan: Vec<String> =
        statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
    // The only things read from end to end are the few parts of one row, put in order.
    let scans = plan.iter().filter(|line| line.starts_with("SCAN"));
    let others = scans.filter(|line| !line.contains("CONSTANT") && *line != "SCAN p").count();
    assert_eq!(others, 0, "{plan:#?}");
    let lines = |text: &str| plan.iter().filter(|line| line.starts_with(text)).count();
    assert_eq!(lines("SCAN p"), lines("SEARCH p USING INDEX part_row"), "{plan:#?}");
}

#[test]
fn check_notices_what_other_hands_did_to_the_file() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    writer.release().unwrap();
    assert_sound(&store);
    for (sql, finding) in [
        ("UPDATE row SET active = 0", "differently"),
        ("UPDATE row SET active = 1; UPDATE sessions SET message_count = 9", "message_count"),
        ("UPDATE sessions SET message_count = 1; UPDATE part SET row_key = 1", "no row"),
        ("UPDATE part SET row_key = key; UPDATE text SET body = 'x' WHERE body = '[]'", "bytes"),
        ("UPDATE gen SET ops = '[{\"op\":\"swap\",\"part\":1,\"by\":1}]'", "names nothing"),
        ("UPDATE gen SET ops = '{'", "generation 0"),
    ] {
        home.raw().execute_batch(sql).unwrap();
        let findings = store.check().unwrap();
        assert!(
            findings.iter().any(|found| found.what.contains(finding)),
            "{sql} gave {findings:?}"
        );
    }
}
