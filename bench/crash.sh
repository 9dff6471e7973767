#!/usr/bin/env bash
# kill -9 at named places in append (side file included), delete, import, repair and migration of the
# store until 500 kills have landed, or as many as said, those in moving and restoring on top; then a fifth as many
# at random times. After each the store must be whole. Prints every kill and a table of those that
# landed by work. HERMES_CRASH_SEED=N runs the same kills again.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export HERMES_CRASH_KILLS="${1:-500}"
export HERMES_CRASH_AT_RANDOM="$((HERMES_CRASH_KILLS / 5))"
export HERMES_CRASH_SEED="${HERMES_CRASH_SEED:-$RANDOM}"
cd "$here/.."
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
cargo test --quiet -p hermes-store --test it crash:: -- --nocapture --test-threads 1 | tee "$output"
# A filter that matches nothing passes too; that would prove nothing.
landed="$(awk '/ kills landed of .* tried, .* in append/ && !n++ { print $7 }' "$output")"
[ "${landed:-0}" -ge "$HERMES_CRASH_KILLS" ] || {
  printf 'crash: only %s kills landed in the five works\n' "${landed:-0}" >&2
  exit 1
}
