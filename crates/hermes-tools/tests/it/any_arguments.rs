//! No tool panics, hangs or leaves its folder, whatever the arguments.

use hermes_core::RowStatus;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::rig::Rig;

const TOOLS: &[&str] =
    &["read_file", "write_file", "patch", "search_files", "terminal", "memory", "no_such_tool"];

fn name() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "path",
        "content",
        "old",
        "new",
        "replace_all",
        "offset",
        "limit",
        "byte_offset",
        "pattern",
        "target",
        "file_glob",
        "context",
        "command",
        "timeout",
        "workdir",
        "action",
        "old_text",
    ];
    prop_oneof![9 => prop::sample::select(KNOWN).prop_map(str::to_owned), 1 => ".{0,6}"]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..5).prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        prop::sample::select(
            &["a.txt", "sub", ".", "", "content", "files", "add", "memory", "é\n"][..]
        )
        .prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!([1, "x"])),
        Just(json!({"a": {}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_call_comes_back_with_a_bounded_result(
        tool in prop::sample::select(TOOLS),
        pairs in prop::collection::vec((name(), value()), 0..6),
    ) {
        let rig = Rig::new();
        rig.put("work/a.txt", "eins\r\nzwei é\n");
        rig.put("work/sub/b.bin", [0, 1, 2, 255]);
        let arguments: Map<String, Value> = pairs.into_iter().collect();
        let outcome = rig.call(tool, Value::Object(arguments.clone()));
        prop_assert!(!outcome.text.is_empty());
        prop_assert!(outcome.text.len() < 500_000);
        if tool == "terminal" {
            prop_assert_eq!(outcome.status, RowStatus::Failed, "nothing is allowed: {:?}", arguments);
        }
    }

    #[test]
    fn text_that_is_no_object_is_refused(tool in prop::sample::select(TOOLS), raw in any::<String>()) {
        let outcome = Rig::new().raw(tool, &raw);
        if serde_json::from_str::<Map<String, Value>>(&raw).is_err() {
            prop_assert_eq!(outcome.status, RowStatus::Failed);
        }
    }
}
