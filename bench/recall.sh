#!/usr/bin/env bash
# What is still known after compaction, at full size: 20 seeds, 200 to 20,000 messages, 1 to 40
# compactions, beside five other ways of keeping as many tokens. Needs Rust and a C compiler. The
# arguments are those of `hermes lab recall`.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
cargo build --quiet --release --manifest-path "$repository/Cargo.toml"
hermes="${CARGO_TARGET_DIR:-$repository/target}/release/hermes"
exec "$hermes" lab recall "$@"
