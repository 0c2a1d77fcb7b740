#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Fails if a module file lacks a requirement or a checksum for an imported package. A change to one go.mod affects the requirements of other
# modules, so this check reports it before their builds fail.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOFLAGS=-mod=readonly
status=0
# Module files in testdata are templates, which are copied next to sources before use.
for file in $(git ls-files '*.mod' ':!:*/testdata/*'); do
	module=$(dirname "$file")
	of=(./...)
	[ "$file" = go.tools.mod ] && of=(tool)
	args=(list -deps)
	[ "$(basename "$file")" = go.mod ] && args+=(-test) || args+=("-modfile=$(basename "$file")")
	if ! errors=$(bash test/withgo.sh "$module" go -C "$module" "${args[@]}" "${of[@]}" 2>&1 >/dev/null); then
		printf '%s: run "go mod tidy" (with -modfile if the file is not go.mod):\n%s\n' "$file" "$(grep -v '^go: downloading' <<<"$errors" | head -5)" >&2
		status=1
	elif [[ $errors == *"NOT RUN"* ]]; then
		printf '%s\n' "$errors" >&2
	fi
done
exit "$status"
