//! Names that say that their value is a secret.

/// Words that make a name secret when they stand last.
const LAST: &[&str] = &[
    "accesskey",
    "accesstoken",
    "apikey",
    "apitoken",
    "authtoken",
    "authorization",
    "bearer",
    "clientsecret",
    "credential",
    "credentials",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "secrets",
    "token",
];

/// Words before `key` that make it a secret.
const BEFORE_KEY: &[&str] = &[
    "access",
    "admin",
    "api",
    "auth",
    "client",
    "deploy",
    "encryption",
    "hmac",
    "master",
    "private",
    "secret",
    "server",
    "service",
    "shared",
    "signing",
    "subscription",
    "webhook",
];

/// Words before `token` that make it something else.
const BEFORE_TOKEN: &[&str] = &[
    "bos",
    "cls",
    "continuation",
    "eos",
    "mask",
    "next",
    "pad",
    "page",
    "sep",
    "special",
    "stop",
    "sync",
    "unk",
];

/// Whether a name (of a variable, a setting, a JSON field or a header) is that of a secret.
/// `OPENAI_API_KEY`, `apiKey`, `x-api-key`, `client_secret` are; `max_tokens`, `primary_key` and
/// `token_count` are not. A name in capitals that ends in `_KEY` is, as the original has it.
pub fn is_secret_name(name: &str) -> bool {
    let mut words = words(name);
    let Some(last) = words.pop() else { return false };
    let before = words.last().map(String::as_str);
    match last.as_str() {
        "token" => before.is_none_or(|word| !BEFORE_TOKEN.contains(&word)),
        "key" => before.is_some_and(|word| BEFORE_KEY.contains(&word)) || is_env_key(name),
        "pass" | "pwd" | "pw" => before.is_some_and(|word| word != "old"),
        word => LAST.contains(&word),
    }
}

/// Words of a variable's name that may stand for a secret, wherever they stand in it.
const WITHHELD_WORDS: &[&str] = &[
    "ACCESSKEY",
    "APIKEY",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "DSN",
    "JWT",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PSK",
    "TOKEN",
    "TOKENS",
];

/// Parts of a variable's name that say so even inside a word (`PGPASSWORD`).
const WITHHELD_PARTS: &[&str] =
    &["APIKEY", "CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET", "CONNECTION_STRING"];

/// Whether a variable may hold a secret, by its name: in doubt yes. For what is handed on to
/// commands, where a variable too few is told soon and one too many is not.
pub fn may_hold_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    words.iter().any(|word| WITHHELD_WORDS.contains(word))
        || WITHHELD_PARTS.iter().any(|part| name.contains(part))
        || (words.len() > 1 && matches!(words.last(), Some(&("PW" | "PWD" | "AUTH"))))
        || is_secret_name(&name)
}

/// Whether it is a variable's name in capitals that ends in `_KEY`.
fn is_env_key(name: &str) -> bool {
    name.ends_with("_KEY")
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && !matches!(name, "PRIMARY_KEY" | "FOREIGN_KEY" | "PUBLIC_KEY" | "SORT_KEY" | "CACHE_KEY")
        && !name.ends_with("_PUBLIC_KEY")
}

/// The words of a name in small letters: split at punctuation and where small letters turn to
/// capitals.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    let mut small = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            open = false;
            continue;
        }
        if !open || (small && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(c.to_ascii_lowercase());
        }
        open = true;
        small = c.is_ascii_lowercase();
    }
    words
}
