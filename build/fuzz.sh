#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors
#
# Runs every native fuzz test for FUZZTIME, one after another, those named by the pattern $1 alone if there is one. An input that
# fails is written below testdata/fuzz of its package, where the next go test runs it too: commit it with its mend.
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
if [[ $count == 0 ]]; then echo "no fuzz test matches ${1:-}"; exit 1; fi
if [[ ${#failed[@]} -gt 0 ]]; then echo "failed: ${failed[*]}"; exit 1; fi
echo "$count fuzz tests passed, 0 failed"
