#!/usr/bin/env bash
# Kills hermes with signal 9 at many random points of a scripted conversation, in mid-stream too,
# and checks after each that nothing acknowledged or shown is lost. The test is the one that
# `cargo test` runs at a few points; here it runs at full size.
#
# usage: bench/kill9.sh [KILLS] [SEED]
set -euo pipefail
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export HERMES_TEST_KILLS="${1:-100}"
export HERMES_TEST_SEED="${2:-$(date +%s)}"
printf 'killing %s times, seed %s\n' "$HERMES_TEST_KILLS" "$HERMES_TEST_SEED" >&2
cd "$repository"
output="$(mktemp)"
trap 'rm -f "$output"' EXIT
cargo test --release --package hermes --test it -- kill9 --nocapture | tee "$output"
# A filter that matches nothing passes too; that would prove nothing.
if ! grep -q '^test result: ok\. [1-9]' "$output"; then
  printf 'kill9: no test ran whose name holds kill9\n' >&2
  exit 1
fi
