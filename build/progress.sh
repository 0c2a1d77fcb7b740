#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# progress.sh NAME MODULE_DIR GO_BUILD_ARGS... runs `go build`, and prints its progress if it takes longer than two seconds.
set -euo pipefail
name=$1 dir=$2
shift 2
pkg=${*: -1}
start=$SECONDS
count=$(mktemp)
trap 'rm -f "$count"; [ -z "${ticker:-}" ] || kill "$ticker" 2>/dev/null || true' EXIT
(
  sleep 2
  echo "building $name: downloading modules and counting packages" >&2
  total=$(go -C "$dir" list -deps "$pkg" 2>/dev/null | wc -l)
  step=5
  [ -t 2 ] && step=2
  while sleep "$step"; do
    done=$(wc -l <"$count")
    line="building $name: $done of at most $total packages compiled, $((SECONDS - start)) s"
    if [ -t 2 ]; then printf '\r\033[K%s' "$line" >&2; else echo "$line" >&2; fi
  done
) &
ticker=$!
status=0
errors=$(mktemp)
go -C "$dir" build -v "$@" 2> >(tee -a "$count" >"$errors") || status=$?
sleep 0.1
kill "$ticker" 2>/dev/null || true
wait "$ticker" 2>/dev/null || true
ticker=
if [ "$status" != 0 ]; then
  echo >&2
  grep -v -E '^[a-z0-9./_-]+$' "$errors" >&2 || true
  rm -f "$errors"
  exit "$status"
fi
rm -f "$errors"
if [ $((SECONDS - start)) -ge 2 ]; then
  [ -t 2 ] && printf '\r\033[K' >&2
  echo "built $name in $((SECONDS - start)) s" >&2
fi
