#!/usr/bin/env bash
# What plugins cost: the start of their process above the interpreter's own, a no-op hook with a
# megabyte of history, twenty observers on every API call. Arguments: --runs N (the median of each
# figure counts), --check (exit code 1 if a limit is broken). Needs Rust, a C compiler and Python.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
manifest="$repository/Cargo.toml"
cargo build --quiet --release --manifest-path "$manifest" -p hermes-plugins --example overhead
example="${CARGO_TARGET_DIR:-$repository/target}/release/examples/overhead"
exec "${PYTHON:-python3}" "$here/plugins.py" --example "$example" "$@"
