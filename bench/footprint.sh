#!/usr/bin/env bash
# Start-up, first request, exit, peak memory, tool definitions, export and size of hermes alone,
# beside the limits this project sets itself. Arguments: --runs N, --check (exit code 1 if one is
# broken). Needs Rust, a C compiler and Python 3.11 or later.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
cargo build --quiet --release --manifest-path "$repository/Cargo.toml"
hermes="${CARGO_TARGET_DIR:-$repository/target}/release/hermes"
exec "${PYTHON:-python3}" "$here/footprint.py" --hermes "$hermes" "$@"
