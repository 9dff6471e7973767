//! The experiments against the rehearsal provider.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use hermes_lab::{FindingVerdict, Receipt, Target, compare, published_receipt, run_context};

fn verdict(receipt: &Receipt, id: &str) -> FindingVerdict {
    receipt.findings.iter().find(|finding| finding.id == id).unwrap().verdict
}

#[test]
fn the_context_experiment_agrees_with_what_was_published_and_is_better_where_that_was_a_fault() {
    let receipt = run_context(&Target::Rehearsal).unwrap();
    assert_eq!(receipt.turns, 16);
    assert_eq!(receipt.verified, receipt.calls, "every request was rebuilt");
    for id in ["P1", "P2", "P5", "P6", "P8", "P11"] {
        let finding = receipt.findings.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(finding.verdict, FindingVerdict::Agrees, "{finding:?}");
    }
    assert_eq!(verdict(&receipt, "P7"), FindingVerdict::Better);
    let p5 = receipt.findings.iter().find(|finding| finding.id == "P5").unwrap();
    assert!(p5.better.as_deref().unwrap().contains("part of its own"));
    for id in ["P3", "P4", "P9", "P10", "P12", "P13"] {
        assert_eq!(verdict(&receipt, id), FindingVerdict::NotRun, "{id}");
    }
    let p8 = receipt.findings.iter().find(|finding| finding.id == "P8").unwrap();
    assert_eq!(p8.facts["a miss under an unchanged prompt"], "true");

    // The receipt holds no prompt and nothing of the experiment's texts but the marker words.
    let json = receipt.to_json();
    for private in ["favourite", "Working directory", "/repo", "rule of", "http"] {
        assert!(!json.contains(private), "{private}: {json}");
    }
    let again = run_context(&Target::Rehearsal).unwrap();
    assert_eq!(again, receipt);
    assert_eq!(again.digest(), receipt.digest());
}

#[test]
fn a_receipt_is_read_back_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let receipt = run_context(&Target::Rehearsal).unwrap();
    receipt.write(folder.path()).unwrap();
    let read = Receipt::read(&folder.path().join("receipt.json")).unwrap();
    assert_eq!(read, receipt);
    assert!(compare(&receipt, &read).same);
    let markdown = std::fs::read_to_string(folder.path().join("receipt.md")).unwrap();
    assert!(markdown.contains("| P7 |") && markdown.contains("better"), "{markdown}");

    let published = compare(&published_receipt(), &receipt);
    let differing: Vec<&str> = published.verdicts.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(differing, ["P3", "P4", "P7", "P9", "P10", "P12"]);

    let path = folder.path().join("other.json");
    std::fs::write(&path, r#"{"format":"x"}"#).unwrap();
    assert!(Receipt::read(&path).unwrap_err().to_string().contains("hint:"));
    let later = receipt.to_json().replace("\"version\": 1", "\"version\": 99");
    std::fs::write(&path, later).unwrap();
    assert!(Receipt::read(&path).unwrap_err().to_string().contains("knows up to 1"));
}
