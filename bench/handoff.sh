#!/usr/bin/env bash
# How long `hermes handoff build` takes for a session of 800 messages when no model writes, as a whole
# process. Arguments: --runs N, --check (exit code 1 if the limit is broken). Needs Rust, a C compiler
# and Python 3.11 or later. The library alone:
#   cargo run --release -p hermes-handoff --example build_bench
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
if [ -z "${HERMES:-}" ]; then
  cargo build --quiet --release --package hermes --manifest-path "$repository/Cargo.toml"
  HERMES="${CARGO_TARGET_DIR:-$repository/target}/release/hermes"
fi
exec "${PYTHON:-python3}" "$here/handoff.py" --hermes "$HERMES" "$@"
