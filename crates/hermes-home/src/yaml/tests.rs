use super::*;

fn json(text: &str) -> String {
    parse(text).unwrap().root.map_or_else(|| "-".to_owned(), |root| Datum::of(&root).to_json())
}

#[test]
fn files_as_people_write_them_are_read() {
    let check = |text: &str, expected: &str| assert_eq!(json(text), expected, "{text:?}");
    check("", "-");
    check("# only a comment\n", "-");
    check(
        "a: yes\nb: 'no'\nc: 1_0\nd: 1.5\ne:\nf: ~\n",
        r#"{"a": true, "b": "no", "c": "1_0", "d": 1.5, "e": null, "f": null}"#,
    );
    check("a: 1\r\nb:\r\n- x\r\n- {y: z}\r\n", r#"{"a": 1, "b": ["x", {"y": "z"}]}"#);
    check(
        "x: &m {p: 1, q: 2}\ny:\n  <<: *m\n  q: 3\n",
        r#"{"x": {"p": 1, "q": 2}, "y": {"q": 3, "p": 1}}"#,
    );
    check("a: !!str 5\nb: |\n  one\n  two\n", r#"{"a": "5", "b": "one\ntwo\n"}"#);
}

#[test]
fn mistakes_have_a_place_and_a_hint() {
    let check = |text: &str, place: &str, what: &str| {
        let error = parse(text).unwrap_err();
        assert_eq!(error.place.to_string(), place, "{error}");
        let all = error.to_string();
        assert!(all.contains(what) && all.contains("hint: "), "{all}");
    };
    check("a: 1\nb: 2\na: 3\n", "3:1", "\"a\" stands here and at 1:1");
    check("a:\n\tb: 1\n", "2:2", "indent with spaces");
    check("a: 'x\n", "1:4", "close the quote");
    check("a: @x\n", "1:4", "put the value in quotes");
    check("a: 1\nb\nc: 2\n", "2:1", "key: value");
    check("a: 1\n---\nb: 2\n", "2:1", "second document");
    check("a: !secret b\n", "1:12", "not understood");
    check("a: *b\n", "1:4", "quotes");
    check("a: &a [*a]\n", "1:8", "alias");
}

#[test]
fn an_alias_bomb_is_stopped() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        text = format!("{text}a{level}: &a{level} [{items}]\n");
    }
    assert!(parse(&text).unwrap_err().what.contains("values"));
}

fn set(text: &str, key: &str, value: &Datum) -> Result<String, String> {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    set_value(text, &path, value).map_err(|error| error.to_string())
}

fn text(value: &str) -> Datum {
    Datum::Text(value.to_owned())
}

#[test]
fn a_value_is_set_in_its_place_and_everything_else_stays() {
    let check = |before: &str, key: &str, value: &Datum, after: &str| {
        assert_eq!(set(before, key, value).unwrap(), after, "{before:?} {key}");
    };
    let list = Datum::List(vec![text("a"), text("b c")]);
    check("", "a.b", &text("x"), "a:\n  b: x\n");
    check("# c\n", "a", &Datum::Bool(true), "# c\na: true\n");
    check("a: 1 # n\nb: 2", "a", &text("off"), "a: \"off\" # n\nb: 2");
    check(
        "a:   'old'   # n\r\nb: 2\r\n",
        "c.d",
        &Datum::Number("5".into()),
        "a:   'old'   # n\r\nb: 2\r\nc:\r\n  d: 5\r\n",
    );
    check("a: # n\nb: 2\n", "a", &list, "a: [a, \"b c\"] # n\nb: 2\n");
    check("a: # n\n  # m\nb: 2\n", "a.x", &text("k"), "a: # n\n  x: k\n  # m\nb: 2\n");
    check(
        "a:\n    x: 1\n\n    # last\nb: 2\n",
        "a.w",
        &text("z"),
        "a:\n    x: 1\n    w: z\n\n    # last\nb: 2\n",
    );
    check("a:\n- 1\n- 2\nb: 3\n", "a", &list, "a: [a, \"b c\"]\nb: 3\n");
    check("a: {x: 1}\n", "a.v.z", &text("w"), "a: {x: 1, v: {z: w}}\n");
    check("a: {}\nb: 1\n", "a.x", &text("w"), "a: {x: w}\nb: 1\n");
    check("a: |\n  one\n  two\n\nb: 1\n", "a", &text("w"), "a: w\n\nb: 1\n");
    check("a: 'one\n  two'\nb: 1\n", "a", &text("w"), "a: w\nb: 1\n");
    check(
        "a:\n  - name: x\n    url: y\n  - name: z\n",
        "a.0.key",
        &text("k"),
        "a:\n  - name: x\n    url: y\n    key: k\n  - name: z\n",
    );
    check("a:\n  - name: x\n", "a.0.name", &text("k"), "a:\n  - name: k\n");
    check("a: null\n", "a.b", &text("k"), "a:\n  b: k\n");
    check(
        "x: &m {p: 1}\ny:\n  q: 1\n  <<: *m\n",
        "y.p",
        &text("k"),
        "x: &m {p: 1}\ny:\n  q: 1\n  p: k\n  <<: *m\n",
    );
    let chain = Datum::List(vec![Datum::Map(vec![
        ("provider".into(), text("x")),
        ("model".into(), text("y")),
    ])]);
    check("a: 'old' # n\nb: 1\n", "a", &chain, "a: # n\n  - {provider: x, model: \"y\"}\nb: 1\n");
    check(
        "a:\n  - {provider: q}\n# m\nb: 1\n",
        "a",
        &chain,
        "a:\n  - {provider: x, model: \"y\"}\n# m\nb: 1\n",
    );
    check("a: 1\n...\n", "b", &text("k"), "a: 1\nb: k\n...\n");
    check("a: 1\n", "a", &Datum::Number("1".into()), "a: 1\n");
}

#[test]
fn what_cannot_be_set_safely_is_refused() {
    let check = |before: &str, key: &str, value: &Datum, why: &str| {
        let error = set(before, key, value).unwrap_err();
        assert!(error.contains(why) && error.contains("hint: "), "{before:?}: {error}");
    };
    let x = text("x");
    check("a: 1\n", "a.b", &x, "single value");
    check("a:\n  b: 1\n", "a", &x, "mapping");
    check("a: &m 1\nb: *m\n", "a", &x, "anchor");
    check("a: &m {b: 1}\nc: *m\n", "c.b", &x, "alias");
    check("a: &m {b: 1}\nc: *m\n", "a.b", &x, "other keys would change");
    check("a: [1, # one\n  2]\n", "a", &x, "comments");
    check("a:\n  # c\n  - 1\n  # d\n  - 2\n", "a", &Datum::List(vec![x.clone()]), "comments");
    check("a: [1]\n", "a.3", &x, "no item 3");
    check("a:\n\tb: 1\n", "a", &x, "tabs");
    check("? a\n: b\n", "a", &x, "key: value");
}
