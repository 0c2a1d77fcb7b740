#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Compiles the dependencies of later steps of `make verify`, at the lowest priority, during the sandbox's tests, which mostly wait. Without a
# build cache this takes several minutes. Errors are ignored: the later steps report them.
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
