#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors
#
# fuzz.sh [PATTERN] runs each fuzz test that matches the regular expression (default: all) for FUZZTIME, one after another. A failing input
# is written to testdata/fuzz of its package, where `go test` also runs it. Commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()
count=0
while IFS=: read -r file name; do
  if [[ -n "${1:-}" && ! "$name" =~ $1 ]]; then continue; fi
  count=$((count + 1))
  echo "== $name in $(dirname "$file")"
  if ! go test "./$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-1m}"; then failed+=("$name"); fi
done < <(grep -rHo '^func Fuzz[A-Za-z0-9]*' --include='*_test.go' internal | sed 's/:func /:/' | sort)
if [[ $count == 0 ]]; then echo "no fuzz test matches pattern ${1:-}" >&2; exit 1; fi
if [[ ${#failed[@]} -gt 0 ]]; then echo "failed: ${failed[*]}" >&2; exit 1; fi
echo "$count fuzz tests passed, 0 failed"
