//! Messages as a search reads them: row, flags and what is said or called, each lot in one
//! statement. A search reads a hundred of them, so it must not take three statements for each.

use hermes_core::{Row, Seq};
use rusqlite::{Connection, ToSql, params};

use crate::StoreError;
use crate::db::Doing as _;
use crate::rows::{key, part_of, row_of};

const DOING: &str = "reading messages";

/// One message. Reasoning and raw fields are not among its parts.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: i64,
    pub(super) row: Row,
    pub(super) active: bool,
    pub(super) compacted: bool,
}

const FLAGS: usize = 3;
const ROW_COLUMNS: usize = 9;

/// What is read of the rows `r` that `source` gives. `?1` is the session's number, `?2` the key of
/// its beginning.
fn sql(source: &str, condition: &str) -> String {
    format!(
        "SELECT r.id, r.active, r.compacted,
             r.seq, r.turn, r.role, r.standing, r.status, r.created_at, r.call_id, r.tool_name,
             r.finish_reason,
             p.key, p.row_key, p.slot, p.origin, p.standing, p.kind, p.created_at, p.label, p.name,
             p.ref, p.value
         FROM {source} r LEFT JOIN part p ON p.row_key = ?2 + r.seq AND p.kind IN (0, 3, 4)
         {condition}"
    )
}

fn read(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<Message>, StoreError> {
    let mut statement = connection.prepare_cached(sql).doing(DOING)?;
    let mut found = statement.query(values).doing(DOING)?;
    let mut messages: Vec<Message> = Vec::new();
    while let Some(row) = found.next().doing(DOING)? {
        let id: i64 = row.get(0).doing(DOING)?;
        if messages.last().is_none_or(|last| last.id != id) {
            messages.push(Message {
                id,
                active: row.get(1).doing(DOING)?,
                compacted: row.get(2).doing(DOING)?,
                row: row_of(row, FLAGS)?,
            });
        }
        let has_part = row.get_ref(FLAGS + ROW_COLUMNS).doing(DOING)?.as_i64().is_ok();
        if let Some(message) = messages.last_mut().filter(|_| has_part) {
            let part = part_of(row, FLAGS + ROW_COLUMNS, &message.row)?;
            message.row.parts.push(part);
        }
    }
    for message in &mut messages {
        message.row.sort_parts();
    }
    messages.sort_by_key(|message| message.row.seq);
    Ok(messages)
}

/// The message with this seq, whatever it is: a summary or a rewound one too.
pub(super) fn at(
    connection: &Connection,
    session_no: i64,
    seq: Seq,
) -> Result<Option<Message>, StoreError> {
    let sql = sql("row", "WHERE r.session_no = ?1 AND r.seq = ?3");
    let values: [&dyn ToSql; 3] = [&session_no, &key(session_no, Seq(0)), &(seq.0 as i64)];
    read(connection, &sql, &values).map(|mut found| found.pop())
}

/// Where messages are wanted.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// This many before the seq, not itself.
    Before(Seq, usize),
    /// This many after the seq, not itself.
    After(Seq, usize),
}

impl Which {
    /// The last ones of a session.
    pub(super) const fn last(count: usize) -> Self {
        Self::Before(Seq(u32::MAX as u64), count)
    }

    /// The first ones of a session.
    pub(super) const fn first(count: usize) -> Self {
        Self::After(Seq(0), count)
    }
}

/// Messages that people see, in order. Without `tools`, rows of tools are left out.
pub(super) fn near(
    connection: &Connection,
    session_no: i64,
    which: Which,
    tools: bool,
) -> Result<Vec<Message>, StoreError> {
    let (condition, order, seq, limit) = match which {
        Which::Before(seq, limit) => ("<", "DESC", seq, limit),
        Which::After(seq, limit) => (">", "ASC", seq, limit),
    };
    let role = if tools { "" } else { "AND role <> 3" };
    let source = format!(
        "(SELECT * FROM row WHERE session_no = ?1 AND seq {condition} ?3 AND standing = 0 {role}
              AND (active = 1 OR compacted = 1) ORDER BY seq {order} LIMIT {limit})"
    );
    let values: [&dyn ToSql; 3] = [&session_no, &key(session_no, Seq(0)), &(seq.0 as i64)];
    read(connection, &sql(&source, ""), &values)
}

/// How many messages people see before and after these seqs.
pub(super) fn counts(
    connection: &Connection,
    session_no: i64,
    first: Seq,
    last: Seq,
) -> Result<(u64, u64), StoreError> {
    // Rows that no operation names are all there to be seen: the index alone can count them.
    connection
        .prepare_cached(
            "SELECT CASE WHEN op_reach = 0 THEN
                 (SELECT count(*) FROM row WHERE session_no = ?1 AND seq < ?2)
             ELSE
                 (SELECT count(*) FROM row WHERE session_no = ?1 AND seq < ?2 AND standing = 0
                      AND (active = 1 OR compacted = 1))
             END, CASE WHEN op_reach = 0 THEN
                 (SELECT count(*) FROM row WHERE session_no = ?1 AND seq > ?3)
             ELSE
                 (SELECT count(*) FROM row WHERE session_no = ?1 AND seq > ?3 AND standing = 0
                      AND (active = 1 OR compacted = 1))
             END FROM sessions WHERE session_no = ?1",
        )
        .and_then(|mut statement| {
            statement.query_row(params![session_no, first.0 as i64, last.0 as i64], |row| {
                Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
            })
        })
        .doing(DOING)
}
