//! The whole of it through the real Python process.
#![expect(clippy::unwrap_used, reason = "tests")]

mod hooks;
mod rig;
