#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# run.sh [GO_TEST_ARGS...] runs the oracle tests with a real control plane: it starts a separate sandbox without the autoscaler. Without a
# package argument, all packages are tested.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'bin/dovetail-sandbox down --dir "$dir" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
bin/dovetail-sandbox up --dir "$dir" --no-autoscaler >"$dir.log" 2>&1 || { cat "$dir.log"; exit 1; }
case " $* " in
*" ./"*) ;;
*) set -- "$@" ./... ;;
esac
DOVETAIL_KUBECONFIG="$dir/kubeconfig" go -C test/oracle test -count=1 "$@"
