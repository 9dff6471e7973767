//! The newcomer's first command.

use crate::rig::Rig;

#[test]
fn the_tour_proves_every_claim_without_a_key_and_leaves_the_home_alone() {
    let rig = Rig::new();
    let text = rig.ok(["tour"]);
    assert!(!text.contains("FAILS"), "{text}");
    assert!(text.matches("holds:").count() >= 9, "{text}");
    assert!(text.contains("byte for byte"), "{text}");
    assert_eq!(std::fs::read_dir(rig.home()).unwrap().count(), 0, "the tour wrote into the home");
}
