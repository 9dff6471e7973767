//! The hermes command.
fn main() {}
