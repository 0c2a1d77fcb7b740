#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Runs a command that needs the Go version of a module, which the go command gets from the module proxy. Where the proxy does not serve it, the
# command is said not to have run. Arguments: the module's directory, then the command.
set -euo pipefail
module=$1
shift
if ! why=$(go -C "$module" list -m 2>&1) && [[ $why == *toolchain* || $why == *"requires go"* ]]; then
	printf 'NOT RUN, because the Go version of %s cannot be had: %s\n%s\n' "$module" "$*" "$why" >&2
	exit 0
fi
exec "$@"
