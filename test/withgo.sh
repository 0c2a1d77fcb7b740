#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# withgo.sh MODULE_DIR COMMAND... runs a command that requires the Go version of a module. The go command downloads this version from the
# module proxy. If the download fails, the command is not run, which is reported on standard error.
set -euo pipefail
module=$1
shift
if ! why=$(go -C "$module" list -m 2>&1) && [[ $why == *toolchain* || $why == *"requires go"* ]]; then
	printf 'NOT RUN, because the Go version of %s is not available: %s\n%s\n' "$module" "$*" "$why" >&2
	exit 0
fi
exec "$@"
