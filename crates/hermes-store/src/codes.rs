//! The small integers that stand for the core's words in the tables. A code is never given
//! another meaning; `migrations/` names them too.

use hermes_core::{AttemptOutcome, Cause, ErrorClass, Origin, Role, RowStatus, Standing};

use crate::ParentKind;

/// Two directions of one table.
macro_rules! codes {
    ($to:ident, $from:ident, $type:ty, $code:ty { $($value:path => $number:expr),+ $(,)? }) => {
        pub(crate) const fn $to(value: $type) -> $code {
            match value { $($value => $number),+ }
        }
        pub(crate) fn $from(code: $code) -> Option<$type> {
            [$(($number, $value)),+].into_iter().find(|(known, _)| *known == code).map(|(_, v)| v)
        }
    };
}

/// The same for words.
macro_rules! words {
    ($to:ident, $from:ident, $type:ty { $($value:path => $word:expr),+ $(,)? }) => {
        pub(crate) const fn $to(value: $type) -> &'static str {
            match value { $($value => $word),+ }
        }
        pub(crate) fn $from(word: &str) -> Option<$type> {
            [$(($word, $value)),+].into_iter().find(|(known, _)| *known == word).map(|(_, v)| v)
        }
    };
}

codes!(role_code, role_of, Role, i64 {
    Role::System => 0,
    Role::User => 1,
    Role::Assistant => 2,
    Role::Tool => 3,
});

codes!(standing_code, standing_of, Standing, i64 {
    Standing::InOrder => 0,
    Standing::ByOp => 1,
});

codes!(status_code, status_of, RowStatus, i64 {
    RowStatus::Complete => 0,
    RowStatus::Interrupted => 1,
    RowStatus::Failed => 2,
});

codes!(origin_code, origin_of, Origin, i64 {
    Origin::User => 0,
    Origin::Model => 1,
    Origin::Tool => 2,
    Origin::Hint => 3,
    Origin::Skill => 4,
    Origin::Hook => 5,
    Origin::Memory => 6,
    Origin::Capsule => 7,
    Origin::Summary => 8,
    Origin::Notice => 9,
    Origin::Steer => 10,
    Origin::Reference => 11,
});

words!(cause_word, cause_of_word, Cause {
    Cause::Start => "start",
    Cause::Compaction => "compaction",
    Cause::UndoCompaction => "undo_compaction",
    Cause::Prune => "prune",
    Cause::Rewind => "rewind",
    Cause::Refresh => "refresh",
    Cause::Identity => "identity",
    Cause::Branch => "branch",
    Cause::Retry => "retry",
});

words!(outcome_word, outcome_of_word, AttemptOutcome {
    AttemptOutcome::Ok => "ok",
    AttemptOutcome::Error => "error",
    AttemptOutcome::Cancelled => "cancelled",
});

words!(parent_word, parent_of_word, ParentKind {
    ParentKind::Compaction => "compaction",
    ParentKind::Delegate => "delegate",
    ParentKind::Branch => "branch",
    ParentKind::Reset => "reset",
});

/// The class of this name.
pub(crate) fn error_class_of(word: &str) -> Option<ErrorClass> {
    use ErrorClass as C;
    [
        C::Connect,
        C::Disconnected,
        C::Timeout,
        C::Auth,
        C::Quota,
        C::RateLimit,
        C::Server,
        C::NotFound,
        C::ContextOverflow,
        C::OutputOverflow,
        C::BadRequest,
        C::ContentFilter,
        C::Malformed,
        C::Local,
    ]
    .into_iter()
    .find(|class| class.as_str() == word)
}
