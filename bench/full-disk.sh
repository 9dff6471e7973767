#!/usr/bin/env bash
# A store on a file system of 2 MiB that fills up during turns: nothing acknowledged is lost. And a
# home on a file system mounted read-only: lists, searches and exports show the newest data. And a
# capsule that cannot be written leaves the one that waits where it is; a repair without room for its
# copy leaves the store as it is.
#
# Needs root for mount, and a built hermes (cargo build --release).
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
hermes="${HERMES:-$here/../target/release/hermes}"
work="$(mktemp -d)"
clean() {
  umount "$work/small" 2>/dev/null || true
  rm -rf "$work"
}
trap clean EXIT
mkdir "$work/small"
mount -t tmpfs -o size=2m tmpfs "$work/small"
export HERMES_HOME="$work/small/home"
mkdir "$HERMES_HOME"
cd "$work"

first="$("$hermes" chat -q 'the first message' --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["session_id"])')"
mount -o remount,ro "$work/small"
"$hermes" sessions list | grep -q "$first"
"$hermes" sessions search 'first message' | grep -q "$first"
"$hermes" sessions export --session-id "$first" | grep -q 'the first message'
printf 'read-only home: list, search and export work\n'
mount -o remount,rw "$work/small"

# All but 200 KiB is taken, so that the store is full after some turns and the side file later.
dd if=/dev/zero of="$work/small/ballast" bs=4k 2>/dev/null || true
truncate -s -200K "$work/small/ballast"
answered=0
refused=0
text="$(printf 'word %.0s' {1..300})"
for turn in $(seq 1 "${1:-60}"); do
  if "$hermes" --resume "$first" chat -Q -q "turn $turn $text" >/dev/null 2>"$work/said"; then
    answered=$((answered + 1))
    printf 'turn %s \n' "$turn" >>"$work/answered"
  else
    # Never "in use": a process that could not give the session back holds it no longer.
    grep -Eqi 'space|full' "$work/said" || { cat "$work/said" >&2; exit 1; }
    refused=$((refused + 1))
  fi
done
[ "$refused" -gt 0 ] || { printf 'the disk never filled up\n' >&2; exit 1; }
rm "$work/small/ballast"
mount -o remount,size=64m "$work/small"
"$hermes" sessions export --session-id "$first" >"$work/out.jsonl"
while read -r said; do
  grep -q "$said " "$work/out.jsonl" || { printf 'lost: %s\n' "$said" >&2; exit 1; }
done <"$work/answered"
"$hermes" sessions check
printf 'full disk: %s turns answered and kept, %s refused with a message\n' "$answered" "$refused"

# Between nothing and 64 KiB is left: the capsule cannot be written, which is said, and the older one
# of the conversation still waits.
umount "$work/small"
mount -t tmpfs -o size=6m tmpfs "$work/small"
mkdir "$HERMES_HOME"
first="$("$hermes" chat -q 'the first message' --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["session_id"])')"
"$hermes" --resume "$first" chat -Q -q 'the second message' >/dev/null
capsule() { "$hermes" handoff list --json | python3 -c 'import json, sys; print([it["record"]["id"] for it in json.load(sys.stdin) if it["record"]["state"] == "pending"])'; }
"$hermes" handoff build --session-id "$first" >/dev/null
waiting="$(capsule)"
for left in 0 4 16 64; do
  dd if=/dev/zero of="$work/small/ballast" bs=4k 2>/dev/null || true
  truncate -s "-${left}K" "$work/small/ballast"
  if "$hermes" handoff build --session-id "$first" >"$work/said" 2>&1; then
    printf 'a capsule was built on a full disk: %s KiB were left\n' "$left" >&2
    exit 1
  fi
  rm "$work/small/ballast"
  [ "$(capsule)" = "$waiting" ] || { printf 'the capsule that waited is gone\n' >&2; exit 1; }
done
printf 'full disk: no capsule was built, and the one that waited still does\n'

# A page in the middle of the store is rubbish, and there is no room for a copy.
"$hermes" sessions optimize >/dev/null
pages=$(($(stat -c %s "$HERMES_HOME/state.db") / 4096))
head -c 4096 /dev/zero | tr '\0' '\245' |
  dd of="$HERMES_HOME/state.db" bs=4096 seek=$((pages / 2)) conv=notrunc iflag=fullblock 2>/dev/null
cp "$HERMES_HOME/state.db" "$work/damaged"
for left in 0 16 128; do
  dd if=/dev/zero of="$work/small/ballast" bs=4k 2>/dev/null || true
  truncate -s "-${left}K" "$work/small/ballast"
  if "$hermes" sessions repair >"$work/said" 2>&1; then
    printf 'repaired without room: %s KiB were left\n' "$left" >&2
    exit 1
  fi
  rm "$work/small/ballast"
  cmp "$HERMES_HOME/state.db" "$work/damaged"
  if ls "$HERMES_HOME" | grep -E 'repairing|damaged'; then
    printf 'a repair that failed left something behind\n' >&2
    exit 1
  fi
done
"$hermes" sessions repair >/dev/null
"$hermes" sessions check
"$hermes" sessions export --session-id "$first" | grep -q 'the second message'
printf 'full disk: no repair without room for it, and one with\n'
