#!/usr/bin/env bash
# kill -9 at named places in append, side file, delete, import, repair, migration and restore of the
# store: 500 times, or as often as said; and a fifth as often at random times. A failure prints the
# seed; HERMES_CRASH_SEED=N runs the same points again.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export HERMES_CRASH_KILLS="${1:-500}"
export HERMES_CRASH_SEED="${HERMES_CRASH_SEED:-$RANDOM}"
cd "$here/.."
cargo test --quiet -p hermes-store --test it crash_points:: -- --nocapture
export HERMES_CRASH_KILLS="$((HERMES_CRASH_KILLS / 5))"
exec cargo test --quiet -p hermes-store --test it crash:: -- --nocapture
