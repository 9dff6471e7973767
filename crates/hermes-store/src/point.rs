//! Named places at which a test kills the process.
//!
//! In a debug build with `HERMES_STORE_POINT=NAME` (or `NAME:N`), the process says so on its standard
//! output and stands still when it comes to NAME (for the Nth time), so that whoever started it can
//! kill it exactly there. A release build has none of this.

/// Comes to a place.
#[cfg(debug_assertions)]
pub(crate) fn reach(name: &str) {
    use std::io::Write as _;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("HERMES_STORE_POINT").ok()?;
        let (name, nth) = text.rsplit_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), nth.parse().unwrap_or(1)))
    });
    let Some((_, nth)) = wanted.as_ref().filter(|(wanted, _)| wanted == name) else { return };
    if COUNT.fetch_add(1, Ordering::Relaxed) + 1 != *nth {
        return;
    }
    let mut out = std::io::stdout().lock();
    // Whoever set the point reads this; if nobody does, standing still is seen as well.
    let _said = writeln!(out, "at {name}").and_then(|()| out.flush());
    drop(out);
    loop {
        std::thread::park();
    }
}

/// Comes to a place.
#[cfg(not(debug_assertions))]
pub(crate) const fn reach(_: &str) {}
