#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Compiles what the later parts of `make verify` need. With nothing cached that is some minutes of work, and the sandbox's tests, beside which
# it runs at the lowest priority, mostly wait. What fails here fails again where it is needed, and is told there.
cd "$(dirname "$0")/.." || exit
make kubelet
go -C test/chart tool helm version
go -C test/upstream build -o /dev/null sigs.k8s.io/karpenter/kwok
go -C test/clusterapi build -o /dev/null sigs.k8s.io/cluster-api/core
for module in test/awsmodels test/chart build/image test/upstream test/dashboards test/ui test/oracle; do
	go -C "$module" test -exec true ./...
done
go test -exec true ./test/e2e/...
make sandbox-1.36
