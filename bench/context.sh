#!/usr/bin/env bash
# How long it takes to look into a large store: `context --json` on 10,000 rows, `trace` over 100,000
# requests, 300 skills. Arguments: --runs N, --check (exit code 1 if a limit is broken). Needs Rust, a
# C compiler and Python 3.11 or later.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
cargo build --quiet --release --manifest-path "$repository/Cargo.toml"
hermes="${CARGO_TARGET_DIR:-$repository/target}/release/hermes"
exec "${PYTHON:-python3}" "$here/context.py" --hermes "$hermes" "$@"
