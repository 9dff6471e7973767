#!/usr/bin/env bash
# The store beside Hermes Agent 0.19.0 on the same messages, in one run: inserts, size, search speed;
# a store of a million rows; and how well questions find what was said in conversations made from
# seeds. Prints a table of what is found beside what is wanted.
#
#   bench/search.sh [--check] [--part insert|compare|large|questions] [--rows N] [--large N] ...
#
# --check: exit code 1 if something is short. Needs what compare/run.sh needs: run that once before,
# for the environment with the original.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
cache="${HERMES_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hermes-bench}"
original="$cache/hermes-agent-0.19.0/bin/python"
if [ ! -x "$original" ]; then
  printf 'search: %s is missing; hint: run bench/compare/run.sh once\n' "$original" >&2
  exit 1
fi
cargo build --quiet --release --manifest-path "$repository/Cargo.toml" -p hermes-store --example store_bench
exec "${PYTHON:-python3}" "$here/search_table.py" --original "$original" \
  --store-bench "${CARGO_TARGET_DIR:-$repository/target}/release/examples/store_bench" "$@"
