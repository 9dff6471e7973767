use super::*;

fn scrubbed(text: &str, secrets: &Secrets) -> String {
    Mechanical.scrub(text, secrets).unwrap()
}

#[test]
fn each_kind_of_value_is_taken_out() {
    for (text, gone) in [
        ("mail jane.doe@example.org now", "example"),
        ("see https://example.org/a?b=1 there", "example"),
        ("see example.com/contract there", "example"),
        ("auf beispiel.museum, heute", "beispiel"),
        ("join t3.example/abc now", "example"),
        ("call +49 170 123 45 67 today", "123"),
        ("call (030) 123-4567 today", "123"),
        ("card 4111 1111 1111 1111 ok", "1111"),
        ("iban DE89 3704 0044 0532 0130 00 ok", "3704"),
        ("account 12-345-678 open", "345"),
        ("case INV-20441 open", "20441"),
        ("lives at 12 Baker Street in town", "Baker"),
        ("wohnt Große Hamburger Straße 5, 10115 Berlin bei", "Hamburger"),
        ("vive en Calle Mayor 3 ahora", "Mayor"),
        ("file reports/q3_final.xlsx done", "q3"),
        ("file contract.pdf done", "contract"),
        ("born 14.03.1987 there", "1987"),
        ("wide ４１１１１１１１１１１１１１１１ digits", "111"),
        ("hidden jane\u{200b}.doe@example.org mail", "doe"),
    ] {
        let out = scrubbed(text, &Secrets::default());
        assert!(!out.contains(gone), "{text} -> {out}");
        assert!(out.contains('['), "{text} -> {out}");
    }
    let plain = "The person asked for a summary; two of 12 steps are done.";
    assert_eq!(scrubbed(plain, &Secrets::default()), plain);
}

#[test]
fn names_that_the_session_gives_go_in_every_form() {
    let mut secrets = Secrets::default();
    secrets.learn(
        "My name is Zoë van Dijk-Smith. Dr. Okafor agreed; the client Ana Lima too. 我叫王小明",
    );
    secrets.add_name("王小明");
    let out = scrubbed("ZOE met Dijk's lawyer, okafor and Lima, then Smith, 王小明先生.", &secrets);
    for gone in ["ZOE", "Dijk", "okafor", "Lima", "Smith", "王小明"] {
        assert!(!out.contains(gone), "{gone}: {out}");
    }
    assert!(out.contains("lawyer"), "{out}");

    let mut secrets = Secrets::default();
    secrets.learn("write to jane.brontë7@example.org, or info@example.org");
    let out = scrubbed("Jane and Bronte were told; the information is out.", &secrets);
    assert_eq!(out, "[name] and [name] were told; the information is out.");

    let mut secrets = Secrets::default();
    secrets.learn("Ich bin Wilhelmina Čapek. Kollege Nowak; client José Brandão.");
    for (said, gone) in [
        ("Wilhelminas Konto", "ilhelmina"),
        ("wilhelminacapek ist da", "capek"),
        ("bei C\u{30c}apek und CAPEK", "apek"),
        ("Jose\u{301} und Branda\u{303}o", "os"),
        ("an Capeka", "apek"),
    ] {
        let out = scrubbed(said, &secrets);
        assert!(!out.to_lowercase().contains(gone), "{said} -> {out}");
    }
    assert_eq!(scrubbed("the brand is a cape", &secrets), "the brand is a cape");
}

#[test]
fn what_the_session_holds_goes_even_without_its_shape() {
    let mut secrets = Secrets::default();
    secrets.learn("Please open /srv/files/quarterly_report.xlsx and Merger-Plan.docx");
    let out = scrubbed("The quarterly_report and the merger-plan are open.", &secrets);
    assert!(!out.to_lowercase().contains("quarterly") && !out.contains("merger"), "{out}");
}

#[test]
fn a_name_that_nothing_introduces_goes_and_a_mark_is_no_value() {
    let mut secrets = Secrets::default();
    let said =
        "Please ask Marguerite whether the house in Baker Street 12 is sold; see number.txt.";
    secrets.learn(said);
    secrets.learn_lone_names([said].into_iter());
    let out = scrubbed("Asked marguerite about the Baker house; the number is [number].", &secrets);
    assert_eq!(out, "Asked [name] about the [removed] house; the number is [number].");
}

#[test]
fn check_digits_are_those_of_the_standards() {
    assert!(find::luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
    assert!(!find::luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]));
    assert!(find::iban_checks(b"GB82WEST12345698765432"));
    assert!(!find::iban_checks(b"GB82WEST12345698765433"));
}
