//! Messages of the person that never got an answer are labelled once, with absolute time, before
//! the next one is sent (hermes-agent issue 107070: a stale request was executed days later).

use hermes_core::{Origin, Part, PartBody, Role, Row, Seq, Timestamp, View, slot};

/// The rows at the end of `view` that the person sent in earlier turns and that nothing answered,
/// and that carry no label yet: row and the text of its label.
pub(crate) fn labels(view: &View) -> Vec<(Seq, String)> {
    let mut found: Vec<(Seq, String)> = view
        .rows
        .iter()
        .rev()
        .map(|shown| &shown.row)
        .take_while(|row| row.role == Role::User)
        .filter(|row| is_from_person(row) && !is_labelled(row))
        .map(|row| (row.seq, label(row.created_at)))
        .collect();
    found.reverse();
    found
}

fn is_from_person(row: &Row) -> bool {
    row.parts.iter().any(|part| matches!(part.origin, Origin::User | Origin::Steer))
}

fn is_labelled(row: &Row) -> bool {
    row.parts.iter().any(|part| part.origin == Origin::Notice && part.slot == slot::NOTICE)
}

fn label(sent: Timestamp) -> String {
    format!(
        "This message was sent at {sent} and was never answered: its turn failed or was stopped, \
         and it was not executed. Do not act on it now unless the person asks for it again."
    )
}

/// The label as a late part of its row.
pub(crate) fn label_part(row: Seq, seq: Seq, text: String, now: Timestamp) -> Part {
    Part {
        seq,
        row,
        slot: slot::NOTICE,
        origin: Origin::Notice,
        standing: hermes_core::Standing::InOrder,
        created_at: now,
        label: Some("unanswered".into()),
        body: PartBody::text(text),
    }
}

#[cfg(test)]
mod tests {
    use hermes_core::{RowStatus, Standing, TurnNo, ViewRow};

    use super::*;

    fn row(seq: u64, role: Role, origin: Origin) -> ViewRow {
        let part = Part {
            seq: Seq(seq),
            row: Seq(seq),
            slot: slot::BODY,
            origin,
            standing: Standing::InOrder,
            created_at: Timestamp::from_seconds(1_767_603_600),
            label: None,
            body: PartBody::text("x"),
        };
        ViewRow {
            position: Seq(seq),
            row: Row {
                seq: Seq(seq),
                turn: TurnNo(1),
                role,
                standing: Standing::InOrder,
                status: RowStatus::Complete,
                created_at: Timestamp::from_seconds(1_767_603_600),
                tool: None,
                finish_reason: None,
                parts: vec![part],
            },
        }
    }

    #[test]
    fn only_trailing_messages_of_the_person_are_labelled_and_only_once() {
        let mut view = View {
            rows: vec![
                row(1, Role::User, Origin::User),
                row(2, Role::Assistant, Origin::Model),
                row(3, Role::User, Origin::User),
                row(4, Role::User, Origin::User),
            ],
        };
        let found = labels(&view);
        assert_eq!(found.iter().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [3, 4]);
        assert!(found[0].1.contains("2026-01-05T09:00:00Z"), "{}", found[0].1);
        assert!(found[0].1.contains("not executed"), "{}", found[0].1);

        let part = label_part(Seq(3), Seq(5), found[0].1.clone(), Timestamp(0));
        view.rows[2].row.parts.push(part);
        assert_eq!(labels(&view).len(), 1);
        view.rows.push(row(6, Role::Assistant, Origin::Model));
        assert_eq!(labels(&view).len(), 0);
    }
}
