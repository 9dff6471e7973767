#!/usr/bin/env bash
# Search speed, insert rate and size beside Hermes Agent 0.19.0 on the same messages, in one run; and
# how well questions find what was said, on conversations made from seeds.
#
#   bench/search.sh [ROWS [SESSIONS]]     200000 rows in 2000 sessions where nothing is said
#
# Needs what compare/run.sh needs: run that once before, for the environment with the original.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/.." && pwd)"
rows="${1:-200000}"
sessions="${2:-$((rows / 100))}"
cache="${HERMES_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hermes-bench}"
original="$cache/hermes-agent-0.19.0/bin/python"
if [ ! -x "$original" ]; then
  printf 'search: %s is missing; hint: run bench/compare/run.sh once\n' "$original" >&2
  exit 1
fi
cargo build --quiet --release --manifest-path "$repository/Cargo.toml" -p hermes-store --example store_bench
bench="${CARGO_TARGET_DIR:-$repository/target}/release/examples/store_bench"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export HERMES_HOME="$work/home"
mkdir "$HERMES_HOME"

"$bench" generate "$rows" "$sessions" >"$work/messages.jsonl"
"$bench" questions >"$work/questions.json"
head -n 20000 "$work/messages.jsonl" >"$work/some.jsonl"
printf 'insert, one row a transaction, 20000 rows: original, hermes\n'
"$original" "$here/search.py" fill "$work/original-some" "$work/some.jsonl"
"$bench" fill "$work/hermes-some" 1 <"$work/some.jsonl"
printf 'insert, hermes in transactions of 8 rows\n'
"$bench" fill "$work/hermes" 8 <"$work/messages.jsonl"
printf 'the same messages, original\n'
"$original" "$here/search.py" fill "$work/original" "$work/messages.jsonl"
for round in 1 2; do
  printf 'search, milliseconds, round %s: original, hermes\n' "$round"
  "$original" "$here/search.py" ask "$work/original" "$work/questions.json" 10
  "$bench" ask "$work/hermes" "$work/questions.json" 10
done
printf 'questions in other words\n'
for seed in 1 2 3 4 5; do "$bench" eval "$seed" 10; done
