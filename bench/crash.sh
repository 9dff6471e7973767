#!/usr/bin/env bash
# kill -9 in the middle of append, delete, import, repair and migration of the store: 500 times, or as
# often as said. A failure prints the seed; HERMES_CRASH_SEED=N runs the same points again.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export HERMES_CRASH_KILLS="${1:-500}"
export HERMES_CRASH_SEED="${HERMES_CRASH_SEED:-$RANDOM}"
cd "$here/.."
exec cargo test --quiet -p hermes-store --test it crash:: -- --nocapture
