//! Different conversations never share a lane or a file, equal ones always do.

use std::path::Path;

use hermes_handoff::lane::{Chat, PerUser, Place, lane, stem};
use proptest::prelude::*;

type Ids = (String, Option<String>, Option<String>, Option<String>, bool);

/// Ids that are likely to collide if anything is joined carelessly.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab:;=%/]{0,4}",
        "(thread=|user=|;thread=a|%3A|%3B|api|cli|id-a){1,2}",
        "[aA]{118,124}[bB]{0,2}",
        "\\PC{0,6}",
        "a-[0-9a-f]{20}",
    ]
}

fn ids() -> impl Strategy<Value = Ids> {
    let maybe = || proptest::option::of(piece());
    ("(telegram|teams|cli|api|a:b|)", maybe(), maybe(), maybe(), any::<bool>())
}

fn place(ids: &Ids) -> Place<'_> {
    Place::Chat(Chat {
        platform: &ids.0,
        chat: ids.1.as_deref(),
        thread: ids.2.as_deref(),
        participant: ids.3.as_deref(),
        group: ids.4,
    })
}

/// What makes a conversation, by the rules for sessions; empty ids are missing ones.
fn identity(ids: &Ids, per_user: PerUser) -> (String, String, String, String) {
    let given = |id: &Option<String>| id.clone().unwrap_or_default();
    let (chat, thread) = (given(&ids.1), given(&ids.2));
    let own = ids.4 && if thread.is_empty() { per_user.groups } else { per_user.threads };
    let participant = if own || chat.is_empty() { given(&ids.3) } else { String::new() };
    (ids.0.clone(), chat, thread, participant)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chats_share_a_lane_exactly_if_they_are_the_same(
        a in ids(), b in ids(), groups in any::<bool>(), threads in any::<bool>()
    ) {
        let per_user = PerUser { groups, threads };
        let (one, two) = (lane(&place(&a), per_user), lane(&place(&b), per_user));
        prop_assert_eq!(&one, &lane(&place(&a.clone()), per_user));
        if let (Some(one), Some(two)) = (one, two) {
            let same = identity(&a, per_user) == identity(&b, per_user);
            prop_assert_eq!(one == two, same, "{} {}", one, two);
            for confidential in [false, true] {
                prop_assert_eq!(stem(&one, confidential) == stem(&two, confidential), same);
            }
        }
    }

    #[test]
    fn places_of_different_kinds_never_share_one(a in ids(), key in piece(), folder in piece()) {
        let per_user = PerUser::default();
        let lanes = [
            lane(&place(&a), per_user),
            lane(&Place::Api { session_key: Some(&key) }, per_user),
            lane(&Place::Cli { git_root: None, cwd: Path::new(&folder) }, per_user),
        ];
        let lanes: Vec<_> = lanes.into_iter().flatten().collect();
        for (at, one) in lanes.iter().enumerate() {
            for other in &lanes[at + 1..] {
                prop_assert_ne!(one, other);
                prop_assert_ne!(stem(one, false), stem(other, false));
            }
        }
    }

    #[test]
    fn a_stem_is_safe_in_a_file_name_on_every_platform(a in ids()) {
        if let Some(lane) = lane(&place(&a), PerUser::default()) {
            for confidential in [false, true] {
                let stem = stem(&lane, confidential);
                prop_assert!(stem.len() <= 141, "{}", stem);
                let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-:;=@+!".contains(c);
                prop_assert!(stem.chars().all(safe), "{}", stem);
                let known = stem.clone();
                // No two stems differ in case alone.
                prop_assert_eq!(known.to_lowercase(), stem);
            }
        }
    }
}
