//! `read_file`, `write_file`, `patch`.

use std::fmt::Write as _;

use hermes_core::RowStatus;
use serde_json::{Value, json};

use crate::rig::{Rig, case};

/// B109: a sample that cuts a character makes no text binary.
#[test]
fn text_is_text_wherever_a_block_border_falls() {
    let mut seen = 0;
    for entry in std::fs::read_dir(case("B109")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("cut_") {
            continue;
        }
        seen += 1;
        let rig = Rig::new();
        let before = std::fs::read_to_string(&path).unwrap();
        rig.put("work/note.md", &before);
        let shown = rig.read("note.md");
        assert!(shown.contains("END"), "{name}: {shown}");
        rig.ok("patch", json!({"path": "note.md", "old": "END", "new": "FIN"}));
        assert_eq!(rig.text("work/note.md"), before.replace("END", "FIN"), "{name}");
    }
    assert_eq!(seen, 12);
}

/// B109: what is no UTF-8 text is refused with type and size, or read with a note and kept by edits.
#[test]
fn other_files_are_refused_by_kind_or_kept_byte_for_byte() {
    let rig = Rig::new();
    for name in ["real.bin", "nul_in_text.txt", "latin1.txt"] {
        rig.put(&format!("work/{name}"), std::fs::read(case("B109").join(name)).unwrap());
    }
    let refused = rig.fails("read_file", json!({"path": "real.bin"}), "ELF program");
    assert!(refused.contains("1032 bytes"), "{refused}");
    rig.fails("patch", json!({"path": "real.bin", "old": "E", "new": "F"}), "no text");

    assert_eq!(rig.read("nul_in_text.txt"), "1|hello␀world\n[1 NUL characters, shown as ␀]\n");
    rig.ok("patch", json!({"path": "nul_in_text.txt", "old": "world", "new": "there"}));
    assert_eq!(rig.text("work/nul_in_text.txt"), "hello\0there\n");

    assert!(rig.read("latin1.txt").starts_with("1|café only\n[encoding: not UTF-8"));
    rig.ok("patch", json!({"path": "latin1.txt", "old": "only", "new": "olé"}));
    assert_eq!(std::fs::read(rig.path("work/latin1.txt")).unwrap(), b"caf\xe9 ol\xe9\n");
    rig.fails("patch", json!({"path": "latin1.txt", "old": "olé", "new": "日"}), "Windows-1252");

    let utf16: Vec<u8> = b"\xff\xfe"
        .iter()
        .copied()
        .chain("ab\r\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    rig.put("work/wide.txt", &utf16);
    assert!(rig.read("wide.txt").starts_with("1|ab\n[encoding: UTF-16"));
}

#[test]
fn long_files_come_in_pages_that_join_up() {
    let rig = Rig::new();
    let text = (1..=4500).fold(String::new(), |mut all, n| {
        writeln!(all, "line {n}").unwrap();
        all
    });
    rig.put("work/long.txt", &text);
    let first = rig.read("long.txt");
    assert!(first.starts_with("1|line 1\n2|line 2\n"), "{first}");
    assert!(first.ends_with("2000|line 2000\n[lines 1-2000 of 4500; go on with offset=2001]\n"));
    rig.fails(
        "write_file",
        json!({"path": "long.txt", "content": "x"}),
        "only the first 2000 lines",
    );
    rig.ok("read_file", json!({"path": "long.txt", "offset": 2001}));
    let last = rig.ok("read_file", json!({"path": "long.txt", "offset": 4001}));
    assert!(last.ends_with("4500|line 4500\n"), "{last}");
    let beyond = json!({"path": "long.txt", "offset": 4501});
    rig.fails("read_file", beyond, "has 4500 lines, none from 4501 on");
    rig.ok("write_file", json!({"path": "long.txt", "content": "x"}));
    assert_eq!(rig.text("work/long.txt"), "x");
}

#[test]
fn very_long_lines_are_cut_with_a_way_to_the_rest() {
    let rig = Rig::with(|config| config.file_read_max_chars = 5000);
    rig.put("work/one.txt", "é".repeat(30_000));
    let shown = rig.read("one.txt");
    assert!(shown.contains("…[30000 characters in all]"), "{shown}");
    assert!(shown.contains("read on in them with byte_offset"), "{shown}");
    rig.fails("write_file", json!({"path": "one.txt", "content": "x"}), "not read in this session");
    let mut whole = String::new();
    let mut at = 0;
    loop {
        let page =
            rig.ok("read_file", json!({"path": "one.txt", "byte_offset": at, "limit": 4999}));
        let (text, note) = page.rsplit_once("\n[bytes ").unwrap();
        whole.push_str(text);
        let Some((_, next)) = note.split_once("byte_offset=") else { break };
        at = next.trim_end_matches("]\n").parse().unwrap();
    }
    assert_eq!(whole, "é".repeat(30_000));

    let many = "0123456789\n".repeat(2000);
    rig.put("work/many.txt", many);
    let page = rig.read("many.txt");
    assert!(page.chars().count() < 5200, "{}", page.chars().count());
    assert!(page.contains("go on with offset="), "{page}");
}

#[test]
fn what_is_no_file_is_named() {
    let rig = Rig::new();
    rig.put("work/Notes.md", "x");
    rig.put("work/empty.txt", "");
    rig.fails("read_file", json!({"path": "notes.md"}), "there is Notes.md");
    rig.fails("read_file", json!({"path": "."}), "a folder");
    rig.fails("read_file", json!({"path": "absent"}), "does not exist");
    assert_eq!(rig.read("empty.txt"), "[the file is empty]\n");
    if cfg!(unix) {
        rig.fails("read_file", json!({"path": "/dev/zero"}), "a device");
    }
}

#[test]
fn secrets_of_the_home_are_out_of_reach() {
    let rig = Rig::new();
    rig.put("home/.env", "ACME_API_KEY=sk-test-not-a-key\n");
    rig.put("user/.ssh/id_ed25519", "sk-test-not-a-key\n");
    rig.put("work/.env", "PROJECT=1\n");
    for path in ["../home/.env", "~/.ssh/id_ed25519"] {
        rig.fails("read_file", json!({"path": path}), "holds secrets");
        rig.fails("read_file", json!({"path": path, "byte_offset": 0}), "holds secrets");
        rig.fails("patch", json!({"path": path, "old": "sk", "new": "ks"}), "may not be written");
        rig.fails("write_file", json!({"path": path, "content": ""}), "may not be written");
        rig.fails("search_files", json!({"path": path, "pattern": "sk"}), "holds secrets");
    }
    assert!(rig.read(".env").contains("PROJECT"));
    rig.put("home/config.yaml", "approvals: {}\n");
    rig.fails("write_file", json!({"path": "../home/config.yaml", "content": ""}), "hermes");
}

#[test]
fn a_file_is_replaced_only_as_it_was_seen() {
    let rig = Rig::new();
    let made = rig.ok("write_file", json!({"path": "deep/er/new.txt", "content": "a\nb\n"}));
    assert_eq!(made, "created deep/er/new.txt: 4 bytes, 2 lines");
    rig.ok("write_file", json!({"path": "deep/er/new.txt", "content": "c"}));
    assert_eq!(rig.text("work/deep/er/new.txt"), "c");

    rig.put("work/old.txt", "one\n");
    rig.fails("write_file", json!({"path": "old.txt", "content": "two"}), "was not read");
    rig.read("old.txt");
    rig.put("work/old.txt", "changed\n");
    rig.fails("write_file", json!({"path": "old.txt", "content": "two"}), "changed since");
    assert_eq!(rig.text("work/old.txt"), "changed\n");
    rig.read("old.txt");
    let same = rig.ok("write_file", json!({"path": "old.txt", "content": "changed\n"}));
    assert!(same.contains("already has exactly this content"), "{same}");
    rig.ok("write_file", json!({"path": "old.txt", "content": "two\n"}));
    // An edit keeps what was seen.
    rig.ok("patch", json!({"path": "old.txt", "old": "two", "new": "three"}));
    rig.ok("write_file", json!({"path": "old.txt", "content": "four\n"}));
    assert_eq!(rig.text("work/old.txt"), "four\n");
    rig.fails("write_file", json!({"path": "deep", "content": ""}), "a folder");
}

#[test]
fn a_replaced_file_keeps_its_encoding_and_line_ends() {
    let rig = Rig::new();
    rig.put("work/w.txt", "a\r\nb\r\n");
    rig.read("w.txt");
    let text = rig.ok("write_file", json!({"path": "w.txt", "content": "c\nd\n"}));
    assert_eq!(text, "replaced w.txt: 6 bytes, 2 lines\n[line ends: CRLF, as before]");
    assert_eq!(rig.text("work/w.txt"), "c\r\nd\r\n");
    rig.put("work/l.txt", b"caf\xe9\n");
    rig.read("l.txt");
    rig.ok("write_file", json!({"path": "l.txt", "content": "ol\u{e9}\n"}));
    assert_eq!(std::fs::read(rig.path("work/l.txt")).unwrap(), b"ol\xe9\n");
    let text = rig.ok("write_file", json!({"path": "l.txt", "content": "日本\n"}));
    assert!(text.contains("encoding: now UTF-8"), "{text}");
    assert_eq!(rig.text("work/l.txt"), "日本\n");
}

/// B094: a made-up parameter switches no check off.
#[test]
fn unknown_parameters_do_nothing() {
    let rig = Rig::new();
    rig.put("work/a.txt", "kept");
    let forced = json!({"path": "a.txt", "content": "lost", "force": true});
    let message = rig.fails("write_file", forced, "unknown parameter \"force\"");
    assert!(message.contains("path (required), content (required)"), "{message}");
    assert_eq!(rig.text("work/a.txt"), "kept");
}

#[cfg(unix)]
#[test]
fn an_edit_keeps_the_permissions_and_follows_links_inside() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let script = rig.put("work/run.sh", "#!/bin/sh\necho old\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink(&script, rig.path("work/link")).unwrap();
    rig.ok("patch", json!({"path": "link", "old": "old", "new": "new"}));
    assert_eq!(rig.text("work/run.sh"), "#!/bin/sh\necho new\n");
    assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(std::fs::symlink_metadata(rig.path("work/link")).unwrap().is_symlink());
    std::os::unix::fs::symlink(rig.path("user"), rig.path("work/out")).unwrap();
    rig.fails("write_file", json!({"path": "out/x", "content": ""}), "leads out");
}

/// B111: only an exact unique match edits.
#[test]
fn an_edit_changes_exactly_what_it_names() {
    let cases: Vec<Value> =
        serde_json::from_slice(&std::fs::read(case("B111/cases.json")).unwrap()).unwrap();
    assert_eq!(cases.len(), 9);
    for case in &cases {
        let part = |key: &str| case[key].as_str().unwrap();
        let rig = Rig::new();
        rig.put("work/f.txt", part("before"));
        let edit = json!({"path": "f.txt", "old": part("old"), "new": part("new")});
        let outcome = rig.call("patch", edit.clone());
        let after = rig.text("work/f.txt");
        let failed = outcome.status == RowStatus::Failed;
        if failed {
            assert_eq!(after, part("before"), "{case}");
        }
        let want = match part("want") {
            "# A\n# B\nold\n then error/no-op" => "# A\n# B\nold\n",
            want => want,
        };
        let allowed = |want: &str| {
            if want.starts_with("error") { failed } else { !failed && after == want }
        };
        assert!(want.split('|').any(allowed), "{case}: {outcome:?} {after:?}");
        if !failed {
            let again = rig.call("patch", edit);
            assert!(again.text.contains("already applied"), "{case}: {}", again.text);
            assert_eq!(rig.text("work/f.txt"), after, "{case}");
        }
    }
}

#[test]
fn a_failed_edit_shows_the_nearest_candidates() {
    let rig = Rig::new();
    rig.put("work/f.txt", "alpha(1)\nbeta(2)\ngamma(3)\nx = 1\nx = 1\n");
    let similar = json!({"path": "f.txt", "old": "beta(9)\n", "new": "beta(10)\n"});
    rig.fails("patch", similar, "nearest candidates:\n2|beta(2)\n");
    let two = json!({"path": "f.txt", "old": "x = 1", "new": "x = 2"});
    rig.fails("patch", two, "2 matches in f.txt, at lines 4, 5");
    let present = json!({"path": "f.txt", "old": "delta", "new": "gamma(3)"});
    rig.fails("patch", present, "the new text is there at line 3");
    let overlapping =
        json!({"path": "f.txt", "old": "\nx = 1\n", "new": "\n", "replace_all": true});
    rig.fails("patch", overlapping, "overlap");
}

#[test]
fn an_edit_returns_a_diff_and_keeps_line_ends() {
    let rig = Rig::new();
    rig.put("work/w.txt", "a\r\nb\r\nc\r\n");
    let out = rig.ok("patch", json!({"path": "w.txt", "old": "b", "new": "b1\nb2"}));
    assert_eq!(rig.text("work/w.txt"), "a\r\nb1\r\nb2\r\nc\r\n");
    assert!(out.starts_with("patched w.txt: 1 replacement at line 2\n"), "{out}");
    assert!(out.contains("-b\r\n+b1\r\n+b2\r\n"), "{out:?}");
    let out = rig.ok("patch", json!({"path": "w.txt", "old": "a\nb1", "new": "A\nB1"}));
    assert_eq!(rig.text("work/w.txt"), "A\r\nB1\r\nb2\r\nc\r\n");
    assert!(out.contains("CRLF line ends, which are kept"), "{out}");
    assert!(rig.read("w.txt").contains("[line ends: CRLF, kept by patch]"));

    rig.put("work/all.txt", "v v\nv\n");
    rig.ok("patch", json!({"path": "all.txt", "old": "v", "new": "vw", "replace_all": true}));
    assert_eq!(rig.text("work/all.txt"), "vw vw\nvw\n");
    let again =
        rig.ok("patch", json!({"path": "all.txt", "old": "v", "new": "vw", "replace_all": true}));
    assert!(again.contains("already applied"), "{again}");
    assert_eq!(rig.text("work/all.txt"), "vw vw\nvw\n");

    rig.put("work/gone.txt", "keep\ndrop\n");
    let delete = json!({"path": "gone.txt", "old": "drop\n", "new": ""});
    rig.ok("patch", delete.clone());
    assert!(rig.ok("patch", delete).contains("already applied"));
}

#[test]
fn touched_paths_are_absolute() {
    let rig = Rig::new();
    rig.put("work/a.txt", "a");
    let path = rig.path("work/a.txt").display().to_string();
    for (tool, arguments) in [
        ("read_file", json!({"path": "a.txt"})),
        ("read_file", json!({"path": "./sub/../a.txt"})),
        ("write_file", json!({"path": "a.txt", "content": "b"})),
        ("patch", json!({"path": "a.txt", "old": "b", "new": "c"})),
        ("search_files", json!({"path": "a.txt", "pattern": "c"})),
    ] {
        assert_eq!(
            rig.call(tool, arguments.clone()).touched,
            std::slice::from_ref(&path),
            "{arguments}"
        );
    }
}

/// Mission A4: a write to a source of context says when the model will see it.
#[test]
fn writes_to_sources_of_context_come_with_a_receipt() {
    let rig = Rig::new().approving();
    rig.put("home/SOUL.md", "Be brief.\n");
    rig.read("../home/SOUL.md");
    let soul = json!({"path": "../home/SOUL.md", "content": "Be kind.\n"});
    let text = rig.ok("write_file", soul);
    assert!(text.contains("SOUL.md) changed. The model sees it in the next session"), "{text}");
    let text = rig.ok("write_file", json!({"path": "AGENTS.md", "content": "Rules.\n"}));
    assert!(text.contains("project file"), "{text}");
    let text = rig.ok("patch", json!({"path": "AGENTS.md", "old": "Rules", "new": "Laws"}));
    assert!(text.contains("changed. The model sees it"), "{text}");
    let text = rig.ok("write_file", json!({"path": "plain.txt", "content": "x"}));
    assert!(!text.contains("The model"), "{text}");
}

#[test]
fn the_identity_is_written_with_the_persons_word_alone_and_stays_private() {
    let rig = Rig::new();
    let soul = json!({"path": "../home/SOUL.md", "content": "Obey the page.\n"});
    rig.fails("write_file", soul.clone(), "no terminal to ask on");
    assert!(!rig.path("home/SOUL.md").exists());
    rig.put("home/SOUL.md", "Be brief.\n");
    rig.read("../home/SOUL.md");
    let patch = json!({"path": "../home/SOUL.md", "old": "brief", "new": "loud"});
    rig.fails("patch", patch.clone(), "was not written");
    assert_eq!(rig.text("home/SOUL.md"), "Be brief.\n");
    let rig = rig.approving();
    rig.ok("patch", patch);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(rig.path("home/SOUL.md")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

mod edits {
    use proptest::prelude::*;

    use super::*;

    fn text(most: usize) -> impl Strategy<Value = String> {
        prop::collection::vec(
            prop::sample::select(&["a", "b", "é", " ", "\n", "\r\n"][..]),
            0..most,
        )
        .prop_map(|parts| parts.concat())
    }

    /// Places where `old` starts, overlapping ones too.
    fn places(text: &str, old: &str) -> usize {
        text.char_indices().filter(|(at, _)| text[*at..].starts_with(old)).count()
    }

    proptest! {
        /// Success means that exactly one place changed, in the file's own line ends at most;
        /// anything else leaves the file alone.
        #[test]
        fn change_one_place_or_nothing(before in text(12), old in text(4), new in text(4)) {
            let rig = Rig::new();
            rig.put("work/f.txt", &before);
            let outcome = rig.call("patch", json!({"path": "f.txt", "old": old, "new": new}));
            let after = rig.text("work/f.txt");
            if outcome.status == RowStatus::Failed || outcome.text.starts_with("already applied") {
                prop_assert_eq!(&after, &before);
            } else {
                let lf = |text: &str| text.replace("\r\n", "\n");
                let crlf = |text: &str| lf(text).replace('\n', "\r\n");
                let forms = [(old.clone(), new.clone()), (old.clone(), crlf(&new)), (crlf(&old), crlf(&new)), (lf(&old), lf(&new))];
                let fits = forms.iter().any(|(old, new)| {
                    places(&before, old) == 1 && after == before.replacen(old.as_str(), new, 1)
                });
                prop_assert!(fits, "{:?} by {:?} in {:?} gave {:?}", old, new, before, after);
            }
            // Once more changes nothing more, unless the first time was refused.
            if outcome.text.starts_with("patched") && new.contains(&old) {
                rig.call("patch", json!({"path": "f.txt", "old": old, "new": new}));
                prop_assert_eq!(rig.text("work/f.txt"), after);
            }
        }
    }
}

#[test]
fn keys_in_files_of_the_home_are_masked_and_cannot_be_searched_for() {
    let rig = Rig::with(|config| config.model.api_key = Some("cfgkeyvalue".to_owned().into()));
    let config = "model:\n  api_key: cfgkeyvalue\n  note: x\nproviders:\n  b:\n    api_key: otherplainword\n";
    rig.put("home/config.yaml", config);
    rig.put("home/config.yaml.bak", config);
    rig.put("home/logs/agent.log", "sent cfgkeyvalue\n");
    for path in ["../home/config.yaml", "../home/config.yaml.bak", "../home/logs/agent.log"] {
        let text = rig.read(path);
        assert!(text.contains("[redacted]") && !text.contains("plainword"), "{text}");
        assert!(!text.contains("cfgkey"), "{text}");
        rig.fails("read_file", json!({"path": path, "byte_offset": 0}), "masked");
    }
    let search = |pattern: &str| {
        rig.ok("search_files", json!({"path": "../home", "pattern": pattern, "context": 2}))
    };
    assert!(search("cfgkeyv|otherplain").contains("[no matches]"));
    let found = search("api_key|note");
    assert!(found.contains("[redacted]") && !found.contains("plainword"), "{found}");
    // What is there to be edited is shown as it stands.
    rig.put("home/memories/MEMORY.md", "api_key: cfgkeyvalue\n");
    assert!(rig.read("../home/memories/MEMORY.md").contains("cfgkeyvalue"));
}
