//! `skills_list` and `skill_view`.

use hermes_core::{Digest, Origin, ToolRegistry as _};
use serde_json::json;

use crate::rig::Rig;

const SKILL: &str =
    "---\nname: deploy\ndescription: How to deploy.\n---\nBODY-MARK ${HERMES_SKILL_DIR}\n";

#[test]
fn without_skills_the_tools_are_not_offered() {
    let rig = Rig::new();
    assert!(rig.tools.definitions().iter().all(|def| !def.name.starts_with("skill")));
}

#[test]
fn a_loaded_skill_is_a_part_of_its_own_with_the_digest_of_its_file() {
    let rig = Rig::new();
    rig.put("home/skills/ops/deploy/SKILL.md", SKILL);
    rig.put("home/skills/ops/deploy/references/more.md", "MORE-MARK");
    rig.put("home/skills/other/SKILL.md", "no header");
    let list = rig.ok("skills_list", json!({}));
    assert!(list.contains("- deploy in ops: How to deploy."), "{list}");
    let loaded = rig.call("skill_view", json!({"name": "deploy"}));
    let digest = Digest::of(SKILL);
    assert!(loaded.text.contains(&format!("sha256:{digest}")), "{}", loaded.text);
    assert!(loaded.text.contains("files: references/more.md"), "{}", loaded.text);
    assert!(!loaded.text.contains("BODY-MARK"));
    let [(origin, label, text)] = &loaded.parts[..] else { panic!("{:?}", loaded.parts) };
    assert_eq!(*origin, Origin::Skill);
    assert_eq!(label.as_deref(), Some(&*format!("deploy@{}", digest.short())));
    assert!(text.contains("BODY-MARK"), "{text}");
    // The label of an earlier load names the skill.
    rig.ok("skill_view", json!({"name": format!("deploy@{}", digest.short())}));
    let more = rig.call("skill_view", json!({"name": "deploy", "file": "references/more.md"}));
    assert!(more.parts[0].2.contains("MORE-MARK"));
    assert!(more.parts[0].1.as_deref().unwrap().starts_with("deploy/references/more.md@"));
    rig.fails("skill_view", json!({"name": "deplo"}), "did you mean deploy?");
    rig.fails("skill_view", json!({"name": "deploy", "file": "../other/SKILL.md"}), "not a file");
}
