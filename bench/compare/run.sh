#!/usr/bin/env bash
# Compares hermes with Hermes Agent 0.19.0 from the public Python registry and prints a table of
# medians and ratios. Arguments go to compare.py: --runs N, --json FILE, --write-readme.
#
# Needs: Rust, a C compiler, Python 3.11 to 3.13 with venv, and a network on the first run. Nothing
# outside the cache folder and a temporary folder is touched; no account or key is used.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
repository="$(cd "$here/../.." && pwd)"
version=0.19.0

python=''
for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
  if [ -n "$candidate" ] && "$candidate" -c \
    'import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    python="$candidate"
    break
  fi
done
if [ -z "$python" ]; then
  printf 'compare: Hermes Agent needs Python 3.11 to 3.13 with the module venv\n' >&2
  printf '  hint: install one, or name it: PYTHON=/path/to/python3.11 %s\n' "$0" >&2
  exit 1
fi

export HERMES_BENCH_CACHE="${HERMES_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hermes-bench}"
environment="$HERMES_BENCH_CACHE/hermes-agent-$version"
if [ ! -x "$environment/bin/hermes" ]; then
  printf 'installing hermes-agent %s into %s\n' "$version" "$environment" >&2
  mkdir -p "$HERMES_BENCH_CACHE"
  "$python" -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "hermes-agent==$version" aiohttp
fi

printf 'building hermes\n' >&2
cargo build --quiet --release --manifest-path "$repository/Cargo.toml"
hermes="${CARGO_TARGET_DIR:-$repository/target}/release/hermes"

exec "$python" "$here/compare.py" --hermes "$hermes" --original "$environment/bin/hermes" "$@"
