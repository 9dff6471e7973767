//! Ways of making a conversation fit: this project's, and the baselines it is measured against.
//!
//! Each baseline gets as many tokens as this project's way kept, and fills what its own rule leaves
//! free with more of the newest history. None has a model: where a rule wants a summary, it gets the
//! beginnings of messages, evenly over what it summarises.

use hermes_compaction::{
    CommitInput, Keep, PlanInput, Planned, Policy, Reason, Rejection, Writing, apply, build, plan,
    row_tokens, view_tokens,
};
use hermes_context::estimate_tokens;
use hermes_core::{
    Cause, Digest, Generation, GenerationNo, Origin, PartBody, Role, Row, Seq, SessionId, Snapshot,
    Standing, Timestamp, Tokens, ToolSet, TurnNo, fold_view,
};

use crate::LabError;

/// What the next request would hold of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The text of all of it.
    pub text: String,
    /// The summaries alone.
    pub summary: String,
    /// Tokens, without prompt and tools.
    pub tokens: u64,
    /// Compactions that took effect.
    pub compactions: u32,
    /// Rows that are no longer shown as they were.
    pub gone: Vec<Seq>,
}

/// The window that the conversations are held in.
pub const WINDOW: u64 = 200_000;

/// This project's way, without a model: `times` compactions at even distances.
///
/// # Errors
/// If a history does not fit together.
pub fn ours(rows: &[Row], times: u32) -> Result<Held, LabError> {
    let snapshot = Snapshot { text: "".into(), digest: Digest::of(""), blocks: Vec::new() };
    let tools = ToolSet::new(Vec::new());
    let mut generations = vec![Generation {
        n: GenerationNo(0),
        parent: None,
        cause: Cause::Start,
        created_at: Timestamp(0),
        prompt: snapshot.digest,
        tools: tools.digest,
        ops: Vec::new(),
    }];
    let policy = Policy::default();
    let sizes = policy.sizes(WINDOW, 0);
    let session = SessionId::new("lab");
    let because = Rejection::NoSummary { error: "no model in this run".to_owned() };
    let mut known: Vec<Row> = Vec::new();
    // Summaries take numbers beyond those of the conversation.
    let mut last = rows.iter().flat_map(|row| &row.parts).map(|part| part.seq.0).max().unwrap_or(0);
    let mut compactions = 0;
    let ends = ends(rows, times);
    let mut from = 0;
    for end in ends {
        known.extend(rows[from..end].iter().cloned());
        from = end;
        let head = generations.last().map(|it| it.n).unwrap_or_default();
        let view = fold_view(&known, &generations, head, Seq(last)).map_err(LabError::History)?;
        let planned = plan(PlanInput {
            view: &view,
            policy: &policy,
            sizes,
            before: Tokens::exact(view_tokens(&view)),
            reason: Reason::Manual,
            keep: Keep::Tail,
            base: head,
            cut: Seq(last),
            turn: known.last().map_or(TurnNo(0), |row| row.turn),
        });
        let Planned::Plan(plan) = planned else { continue };
        let writing =
            Writing::prepare(&plan, &known, &generations, &policy).map_err(LabError::History)?;
        let Ok(summaries) = writing.derived(&because) else { continue };
        let input = CommitInput {
            session: &session,
            plan: &plan,
            summaries: &summaries,
            rows: &known,
            generations: &generations,
            head,
            snapshot: &snapshot,
            tools: &tools,
            compactions,
            asked_at: Timestamp(0),
            now: Timestamp(0),
            model: None,
            hold_on: 0,
        };
        let Ok(commit) = build(&input, &mut || {
            last += 1;
            Seq(last)
        }) else {
            continue;
        };
        apply(&commit, &mut known, &mut generations);
        compactions += 1;
    }
    let newest = generations.last().map(|it| it.n).unwrap_or_default();
    let view = fold_view(&known, &generations, newest, Seq(last)).map_err(LabError::History)?;
    let mut held = Held { tokens: view_tokens(&view), compactions, ..Held::default() };
    let mut shown = std::collections::HashSet::new();
    for row in view.rows.iter().map(|shown| &shown.row) {
        let text = text_of(row);
        if row.standing == Standing::ByOp {
            push(&mut held.summary, &text);
        } else if row.parts.iter().all(|part| part.standing == Standing::InOrder) {
            shown.insert(row.seq);
        }
        push(&mut held.text, &text);
    }
    held.gone = rows.iter().map(|row| row.seq).filter(|seq| !shown.contains(seq)).collect();
    Ok(held)
}

/// Where the stretches of `times` compactions end: at the beginnings of exchanges.
fn ends(rows: &[Row], times: u32) -> Vec<usize> {
    let times = usize::try_from(times.max(1)).unwrap_or(1);
    (1..=times)
        .map(|number| {
            let at = rows.len() * number / times;
            let next = (at..rows.len()).find(|at| rows[*at].role == Role::User);
            next.unwrap_or(rows.len())
        })
        .collect()
}

/// A baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The newest history, nothing else.
    Truncate,
    /// The newest 20,000 tokens of what the person said, and a summary.
    UserMessages,
    /// At 80 % of the window everything becomes a summary.
    SummariseAll,
    /// The first 3 and the last 5 messages, and a summary of what is between.
    HeadAndTail,
    /// The original's lean policy: a tail, what the person said, an index of anchors, a summary.
    Lean,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Truncate, Self::UserMessages, Self::SummariseAll, Self::HeadAndTail, Self::Lean];

    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Truncate => "truncate",
            Self::UserMessages => "20,000 of the person's and summary",
            Self::SummariseAll => "80 %, summarise all",
            Self::HeadAndTail => "head 3, tail 5",
            Self::Lean => "the original's lean policy",
        }
    }

    /// What it keeps of `rows` in `budget` tokens.
    pub fn held(self, rows: &[Row], budget: u64) -> Held {
        match self {
            Self::Truncate => filled(rows, String::new(), &[], budget),
            Self::UserMessages => {
                let said = persons(rows, 20_000.min(budget), u64::MAX);
                let left = budget.saturating_sub(estimate_tokens(&said));
                let summary = heads(rows, left);
                filled(rows, format!("{said}\n{summary}"), &[], budget)
            }
            Self::SummariseAll => filled(rows, heads(rows, budget), &[], budget),
            Self::HeadAndTail => {
                let middle = rows.get(3..rows.len().saturating_sub(5)).unwrap_or_default();
                let ends: Vec<usize> = (0..rows.len().min(3))
                    .chain(rows.len().saturating_sub(5)..rows.len())
                    .collect();
                let used: u64 = ends.iter().map(|at| row_tokens(&rows[*at])).sum();
                filled(rows, heads(middle, budget.saturating_sub(used)), &ends, budget)
            }
            Self::Lean => {
                let anchors = anchors(rows);
                let said = persons(rows, 6_000, 1_000);
                let summary = heads(rows, 4_000);
                filled(rows, format!("{summary}\n{anchors}\n{said}"), &[], budget)
            }
        }
    }
}

/// `front`, the rows at `kept`, and of the newest rows what still fits.
fn filled(rows: &[Row], front: String, kept: &[usize], budget: u64) -> Held {
    let mut tokens = estimate_tokens(&front);
    let mut at: Vec<usize> = kept.to_vec();
    tokens += kept.iter().map(|at| row_tokens(&rows[*at])).sum::<u64>();
    for index in (0..rows.len()).rev().filter(|index| !kept.contains(index)) {
        let cost = row_tokens(&rows[index]);
        if tokens + cost > budget {
            break;
        }
        tokens += cost;
        at.push(index);
    }
    at.sort_unstable();
    let mut held = Held { summary: front.clone(), text: front, tokens, ..Held::default() };
    for index in at {
        push(&mut held.text, &text_of(&rows[index]));
    }
    held
}

/// What the person said, the newest first, at most so many tokens, and of each message so many.
fn persons(rows: &[Row], budget: u64, each: u64) -> String {
    let mut out = Vec::new();
    let mut left = budget;
    for row in rows.iter().rev().filter(|row| row.role == Role::User) {
        let text = row.text_of(Origin::User);
        let most = usize::try_from(each.saturating_mul(4)).unwrap_or(usize::MAX);
        let text: String = text.chars().take(most).collect();
        let cost = estimate_tokens(&text);
        if cost > left {
            break;
        }
        left -= cost;
        out.push(text);
    }
    out.reverse();
    out.join("\n")
}

/// The beginnings of messages, evenly over all of them.
fn heads(rows: &[Row], budget: u64) -> String {
    const HEAD: usize = 240;
    let most = usize::try_from(budget / (HEAD as u64 / 4)).unwrap_or(usize::MAX).max(1);
    let step = rows.len().div_ceil(most).max(1);
    let mut out = String::new();
    let mut left = budget;
    for row in rows.iter().step_by(step) {
        let head: String = text_of(row).chars().take(HEAD).collect();
        let cost = estimate_tokens(&head) + 1;
        if cost > left {
            break;
        }
        left -= cost;
        push(&mut out, &head);
    }
    out
}

/// Caps on the characters of the index and on the entries of each kind, as in the original.
const INDEX_CHARS: usize = 7_000;

/// The original's index: references, hexadecimal commits, slash paths with known endings, error
/// names with what follows, addresses; each ranked by frequency, then recency.
fn anchors(rows: &[Row]) -> String {
    const ENDINGS: [&str; 11] =
        ["py", "ts", "tsx", "js", "jsx", "rs", "go", "md", "json", "yaml", "toml"];
    let mut found: [Vec<(String, usize, usize)>; 4] = Default::default();
    let mut note = |kind: usize, text: &str, at: usize| {
        let entries = &mut found[kind];
        if let Some(entry) = entries.iter_mut().find(|(known, ..)| known == text) {
            entry.1 += 1;
            entry.2 = at;
        } else if entries.len() < 4_000 {
            entries.push((text.to_owned(), 1, at));
        }
    };
    for (at, row) in rows.iter().enumerate() {
        for part in &row.parts {
            let Some(text) = part.as_text() else { continue };
            for line in text.lines() {
                for (offset, word) in words(line) {
                    let is_hex = (9..=40).contains(&word.len())
                        && word.bytes().all(|b| b.is_ascii_hexdigit())
                        && word.bytes().any(|b| b.is_ascii_digit());
                    let ending = word.rsplit_once('.').map_or("", |(_, ending)| ending);
                    if word.strip_prefix('#').is_some_and(|it| it.parse::<u64>().is_ok()) {
                        note(0, word, at);
                    } else if is_hex {
                        note(1, word, at);
                    } else if word.contains('/') && ENDINGS.contains(&ending) {
                        note(2, word, at);
                    } else if word.ends_with("Error") || word.ends_with("Error:") {
                        let rest: String =
                            line.get(offset..).unwrap_or(word).chars().take(90).collect();
                        note(3, &rest, at);
                    }
                }
            }
        }
    }
    let mut out = String::new();
    for (kind, most) in found.iter_mut().zip([120, 40, 80, 40]) {
        kind.sort_by_key(|(_, times, at)| std::cmp::Reverse((*times, *at)));
        let names: Vec<String> =
            kind.iter().take(most).map(|(name, times, _)| format!("{name}(x{times})")).collect();
        let line = names.join(" ");
        if out.len() + line.len() > INDEX_CHARS {
            break;
        }
        push(&mut out, &line);
    }
    out
}

fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_whitespace().map(move |word| {
        let offset = word.as_ptr() as usize - line.as_ptr() as usize;
        (offset, word.trim_matches([',', ';', '.', ')', '(', '"', '\'']))
    })
}

/// Everything that a row says.
pub(super) fn text_of(row: &Row) -> String {
    let mut out = String::new();
    for part in &row.parts {
        match &part.body {
            PartBody::Text { text } => push(&mut out, text),
            PartBody::ToolCall { arguments, .. } => push(&mut out, arguments),
            _ => {}
        }
    }
    out
}

fn push(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}
