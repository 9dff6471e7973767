#!/usr/bin/env bash
# Formats are checked, the linter and the type check run, then the tests of the Python side.
# The tools go into an environment of their own below the build folder. Run it from anywhere;
# `--fix` formats and fixes what can be fixed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tools="${CARGO_TARGET_DIR:-../target}/python-tools"
python="${PYTHON:-python3}"
versions='ruff==0.14.5 mypy==1.18.2'

if [ ! -x "$tools/bin/mypy" ] || [ "$(cat "$tools/versions" 2>/dev/null)" != "$versions" ]; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  # shellcheck disable=SC2086
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check $versions
  printf '%s' "$versions" >"$tools/versions"
fi

if [ "${1:-}" = --fix ]; then
  "$tools/bin/ruff" check --quiet --fix . || true
  "$tools/bin/ruff" format --quiet .
fi
"$tools/bin/ruff" format --check .
"$tools/bin/ruff" check .
"$tools/bin/mypy" --no-error-summary start.py hermes_host compat/run.py conformance/run.py tests
"$python" -W error::ResourceWarning -m unittest discover --quiet --start-directory tests --top-level-directory .
printf 'python: everything holds\n'
