//! `search_files`.

use serde_json::json;

use crate::rig::Rig;

fn rig() -> Rig {
    let rig = Rig::new();
    rig.put("work/src/a.rs", "fn one() {}\nfn two() {}\n// end\n");
    rig.put("work/src/b.rs", "fn three() {}\n");
    rig.put("work/src/deep/c.txt", "fn four\n");
    rig.put("work/.gitignore", "target/\n");
    rig.put("work/target/d.rs", "fn five() {}\n");
    rig.put("work/.hidden/e.rs", "fn six() {}\n");
    rig.put("work/blob.bin", b"fn seven\0\0");
    rig
}

fn check(arguments: serde_json::Value, expected: &str) {
    assert_eq!(rig().ok("search_files", arguments.clone()), expected, "{arguments}");
}

#[test]
fn contents_are_found_in_the_order_of_paths() {
    check(
        json!({"pattern": r"fn \w+"}),
        "src/a.rs\n1:fn one() {}\n2:fn two() {}\n\nsrc/b.rs\n1:fn three() {}\n\n\
         src/deep/c.txt\n1:fn four\n[matches 1-4, the last; in 3 files]\n",
    );
    check(
        json!({"pattern": "two", "context": 1}),
        "src/a.rs\n1-fn one() {}\n2:fn two() {}\n3-// end\n[matches 1-1, the last; in 1 files]\n",
    );
    check(json!({"pattern": "FN TWO"}), "[no matches]\n");
    check(
        json!({"pattern": "(?i)FN T", "file_glob": "*.rs", "path": "src"}),
        "src/a.rs\n2:fn two() {}\n\nsrc/b.rs\n1:fn three() {}\n[matches 1-2, the last; in 2 files]\n",
    );
    check(
        json!({"pattern": "end", "path": "src/a.rs"}),
        "src/a.rs\n3:// end\n[matches 1-1, the last; in 1 files]\n",
    );
}

#[test]
fn pages_continue_one_another() {
    check(
        json!({"pattern": "^fn", "limit": 2}),
        "src/a.rs\n1:fn one() {}\n2:fn two() {}\n[matches 1-2, more follow; go on with offset=2]\n",
    );
    check(
        json!({"pattern": "^fn", "limit": 2, "offset": 2}),
        "src/b.rs\n1:fn three() {}\n\nsrc/deep/c.txt\n1:fn four\n[matches 3-4, the last; in 2 files]\n",
    );
    check(json!({"pattern": "^fn", "offset": 9}), "[no matches after the first 4]\n");
}

#[test]
fn files_are_found_by_name() {
    check(
        json!({"pattern": "*.rs", "target": "files"}),
        "src/a.rs\nsrc/b.rs\n[files 1-2, the last]\n",
    );
    check(
        json!({"pattern": "src/**/*.txt", "target": "files"}),
        "src/deep/c.txt\n[files 1-1, the last]\n",
    );
    check(json!({"pattern": "blob", "target": "files"}), "blob.bin\n[files 1-1, the last]\n");
    check(
        json!({"pattern": "*", "target": "files", "limit": 1}),
        "blob.bin\n[files 1-1, more follow; go on with offset=1]\n",
    );
    check(json!({"pattern": "nothing", "target": "files"}), "[no files]\n");
}

#[test]
fn a_bad_pattern_is_refused_with_its_place() {
    let rig = rig();
    let message = rig.fails("search_files", json!({"pattern": "fn (open"}), "unclosed group");
    assert!(message.contains("   fn (open\n       ^"), "{message}");
    rig.fails("search_files", json!({"pattern": "{a", "target": "files"}), "no valid glob");
    rig.fails("search_files", json!({"pattern": "x", "path": "absent"}), "absent");
    rig.fails("search_files", json!({"pattern": ""}), "empty");
    rig.fails("search_files", json!({"pattern": "x{1000}{1000}"}), "size limit");
}

#[test]
fn long_lines_and_many_matches_stay_bounded() {
    let rig = rig();
    rig.put("work/long.txt", format!("needle{}\n", "x".repeat(5_000_000)).repeat(2));
    let text = rig.ok("search_files", json!({"pattern": "needle"}));
    assert!(text.len() < 2000, "{}", text.len());
    rig.put("work/many.txt", "needle in hay\n".repeat(100_000));
    let text = rig.ok("search_files", json!({"pattern": "hay", "limit": 100_000}));
    assert!(text.len() < 60_000 && text.contains("more follow"), "{}", text.len());
}

#[test]
fn secrets_are_never_in_a_result() {
    let rig = rig();
    rig.put("user/.aws/credentials", "needle\n");
    rig.put("user/x.txt", "needle\n");
    rig.put("home/auth.json", "needle\n");
    let text = rig.ok("search_files", json!({"pattern": "needle", "path": "~/.aws"}));
    assert!(text.contains("[no matches]\n[1 files with secrets were left out]"), "{text}");
    let text = rig.ok("search_files", json!({"pattern": "needle", "path": "../home"}));
    assert!(text.contains("[no matches]"), "{text}");
}
