#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Fails for each module file that lacks a requirement or a checksum of what its packages import. One module's go.mod decides what others have
# to require, so a change of one is seen here and not in the build that comes last.
set -uo pipefail
cd "$(dirname "$0")/.."
export GOFLAGS=-mod=readonly
status=0
# Files in testdata are copied into a directory of sources before they are used.
for file in $(git ls-files '*.mod' ':!:*/testdata/*'); do
	module=$(dirname "$file")
	of=(./...)
	[ "$file" = go.tools.mod ] && of=(tool)
	args=(list -deps)
	[ "$(basename "$file")" = go.mod ] && args+=(-test) || args+=("-modfile=$(basename "$file")")
	if ! errors=$(bash test/withgo.sh "$module" go -C "$module" "${args[@]}" "${of[@]}" 2>&1 >/dev/null); then
		printf '%s: run "go mod tidy", with -modfile for a file that is not go.mod:\n%s\n' "$file" "$(grep -v '^go: downloading' <<<"$errors" | head -5)" >&2
		status=1
	elif [[ $errors == *"NOT RUN"* ]]; then
		printf '%s\n' "$errors" >&2
	fi
done
exit "$status"
