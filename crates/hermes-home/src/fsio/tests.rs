use super::*;

#[test]
fn texts_in_every_encoding_are_read_and_named() {
    let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    };
    let check = |bytes: Vec<u8>, text: &str, encoding, replaced| {
        assert_eq!(decode(bytes, false), (text.to_owned(), encoding, replaced));
    };
    check("plain é".into(), "plain é", Encoding::Utf8, 0);
    check("\u{feff}marked".into(), "marked", Encoding::Utf8Bom, 0);
    check(utf16("\u{feff}wide é", u16::to_le_bytes), "wide é", Encoding::Utf16Le, 0);
    check(utf16("\u{feff}wide é", u16::to_be_bytes), "wide é", Encoding::Utf16Be, 0);
    check(utf16("no mark", u16::to_le_bytes), "no mark", Encoding::Utf16Le, 0);
    check(utf16("no mark", u16::to_be_bytes), "no mark", Encoding::Utf16Be, 0);
    check(b"caf\xe9 ol\xe9".to_vec(), "café olé", Encoding::Latin1, 0);
    check(b"caf\xc3\xa9 \xc3\xa8 \xff".to_vec(), "café è \u{fffd}", Encoding::Utf8, 1);
    check(b"\x7fELF\0\0\0\x01".to_vec(), "\x7fELF\0\0\0\x01", Encoding::Binary, 0);
    check(Vec::new(), "", Encoding::Utf8, 0);
}

#[test]
fn a_limit_cuts_between_characters_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "ab é cd").unwrap();
    let read = read_text(&path, 4).unwrap();
    assert_eq!((read.text.as_str(), read.truncated, read.size, read.replaced), ("ab ", true, 8, 0));
    let read = read_text(&path, 8).unwrap();
    assert_eq!((read.text.as_str(), read.truncated), ("ab é cd", false));
    assert_eq!(read_text(folder.path(), 8).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    assert_eq!(read_text(&folder.path().join("b"), 8).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[cfg(unix)]
#[test]
fn writing_replaces_the_whole_file_keeps_links_and_modes_and_leaves_no_rest() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = tempfile::tempdir().unwrap();
    let private_file = folder.path().join("private");
    write_atomic(&private_file, b"one", Privacy::Private).unwrap();
    write_atomic(&private_file, b"two", Privacy::Private).unwrap();
    assert_eq!((fs::read(&private_file).unwrap(), mode(&private_file)), (b"two".to_vec(), 0o600));

    let public = folder.path().join("public");
    fs::write(&public, "x").unwrap();
    fs::set_permissions(&public, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&public, &link).unwrap();
    write_atomic(&link, b"y", Privacy::Public).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((fs::read(&public).unwrap(), mode(&public)), (b"y".to_vec(), 0o640));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);

    let nested = folder.path().join("a/b");
    create_private_dir(&nested).unwrap();
    assert_eq!(mode(&nested), 0o700);
    drop(open_private_append(&nested.join("log")).unwrap());
    assert_eq!(mode(&nested.join("log")), 0o600);
}

#[cfg(unix)]
#[test]
fn paths_and_links_that_leave_a_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("in/side")).unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
    std::os::unix::fs::symlink("in/side", root.join("short")).unwrap();
    std::os::unix::fs::symlink("../not-there", root.join("dangling")).unwrap();
    let inside =
        |path: &str| resolve_inside(&root, Path::new(path)).map_err(|error| error.to_string());
    let real = fs::canonicalize(&root).unwrap();
    assert_eq!(inside("short/new/file.txt").unwrap(), real.join("in/side/new/file.txt"));
    assert_eq!(inside("in/../in/side").unwrap(), real.join("in/side"));
    assert_eq!(inside(".").unwrap(), real);
    for path in
        ["out", "../secret", "/etc/passwd", "dangling", "in/missing/../../../secret", "dangling/x"]
    {
        assert!(inside(path).unwrap_err().contains("leads out"), "{path}");
    }
}

#[test]
fn names_made_from_ids_are_safe_and_differ() {
    let long = "a".repeat(121);
    let ids = [
        "20260101_120000_ab12cd",
        "a:b",
        "a_b",
        "A_B",
        "con",
        "com1.txt",
        "..",
        ".hidden",
        "",
        "é",
        long.as_str(),
        "a/b",
        "trailing.",
        "x-0123456789abcdef",
    ];
    let names: Vec<String> = ids.iter().map(|id| safe_file_name(id)).collect();
    assert_eq!(names[0], ids[0]);
    assert_eq!(names[2], "a_b");
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), ids.len(), "{names:?}");
    for name in &names {
        assert!(name.len() <= 124 && !name.starts_with('.') && !name.ends_with('.'), "{name}");
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b)),
            "{name}"
        );
    }
    // The name of a changed id, taken as an id, is changed again.
    assert_ne!(safe_file_name(&names[1]), names[1]);
}
