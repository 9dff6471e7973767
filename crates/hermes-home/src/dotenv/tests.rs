use super::*;

fn check(text: &str, expected: &[(&str, &str)], problems: &[u32]) {
    let parsed = DotEnv::parse(text);
    let found: Vec<_> =
        parsed.entries.iter().map(|e| (e.name.as_str(), e.value.as_str())).collect();
    assert_eq!(found, expected, "{text:?}");
    assert_eq!(parsed.problems.iter().map(|p| p.line).collect::<Vec<_>>(), problems, "{text:?}");
}

#[test]
fn every_usual_form_of_a_line_is_read() {
    check("A=1\nB = two words # note\n\n# C=3\n", &[("A", "1"), ("B", "two words")], &[]);
    check(
        "\u{feff}export A='x # y'\r\nB=\"a\\n\\\"b\\\" \\q\"\r\n",
        &[("A", "x # y"), ("B", "a\n\"b\" \\q")],
        &[],
    );
    check("A=\"one\ntwo\"\nB=u#v\nC=\n", &[("A", "one\ntwo"), ("B", "u#v"), ("C", "")], &[]);
    check("A=http://x/y?z=1&w==\n", &[("A", "http://x/y?z=1&w==")], &[]);
}

#[test]
fn a_bad_line_is_a_problem_with_its_number_and_the_rest_is_read() {
    check(
        "A=1\nno sign here\n2B=x\nC=\"open\nD=4\nA=5\n",
        &[("A", "5"), ("D", "4")],
        &[2, 3, 4, 6],
    );
    check("A='x' y\n", &[("A", "x")], &[1]);
    check("A_API_KEY=\u{200b}sk-x\u{2019}\n", &[("A_API_KEY", "sk-x")], &[1]);
}

#[test]
fn debug_output_holds_no_value() {
    assert!(!format!("{:?}", DotEnv::parse("A=hidden-value\n")).contains("hidden-value"));
}

proptest::proptest! {
    #[test]
    fn what_is_set_is_read_back_and_the_other_lines_stay(
        lines in proptest::collection::vec("(# [a-z ]{0,8})|([A-F]=[a-z0-9]{0,6})|", 0..8),
        value in "[ -~é\\n\\t]{0,20}",
    ) {
        let text = lines.join("\n") + "\n";
        let edited = set(&text, "B_NAME", &value);
        let again = set(&edited, "B_NAME", "other");
        for (text, value) in [(&edited, value.as_str()), (&again, "other")] {
            let parsed = DotEnv::parse(text);
            let found = parsed.entries.iter().find(|entry| entry.name == "B_NAME").unwrap();
            proptest::prop_assert_eq!(&found.value, value);
            for line in lines.iter().filter(|line| !line.is_empty()) {
                proptest::prop_assert!(text.lines().any(|kept| kept == line));
            }
        }
    }
}
