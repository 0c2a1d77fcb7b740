# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# `make help` lists the targets. Only Go and make are required.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export CGO_ENABLED := 0
# Binaries, vet and tests share one set of flags: -trimpath is part of the build cache key, so a second set would compile everything twice.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# test/upstream and test/oracle need the newer Go version of Karpenter's module; the go command downloads it.
export GOTOOLCHAIN := auto

# Kubernetes versions of the sandbox's control plane, and of the one that `make sandbox-1.36` builds.
K8S_VERSION := v1.37.2
K8S_BEFORE := v1.36.3
# End-to-end tests that also run on Kubernetes 1.36: those that depend most on kube-scheduler and kube-controller-manager.
SERIES_1.36 := TestExactLanding|TestMixedLanding|TestDaemonsKeepTheirRoom|TestDrainHonoursPDB|TestConsolidation|TestDrift|TestExpiry|TestFaults
KV := k8s.io/component-base/version
SANDBOX_LDFLAGS = -s -w -X $(KV).gitVersion=$(1) -X $(KV).gitMajor=1 -X $(KV).gitMinor=$(word 2,$(subst ., ,$(1))) -X $(KV).gitTreeState=clean
UNIT = $$(go list ./... | grep -v /test/e2e)

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9.-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/dovetail bin/dovetail-sandbox ## Build bin/dovetail and bin/dovetail-sandbox (the first build takes several minutes)

.PHONY: bin/dovetail
bin/dovetail:
	@bash build/progress.sh "dovetail" . -o bin/dovetail ./cmd/dovetail

.PHONY: bin/dovetail-sandbox
bin/dovetail-sandbox:
	@bash build/progress.sh "the control plane" sandbox -ldflags "$(call SANDBOX_LDFLAGS,$(K8S_VERSION))" -o ../bin/dovetail-sandbox .

.PHONY: sandbox-1.36
sandbox-1.36: bin/dovetail-sandbox-1.36 ## Build bin/dovetail-sandbox-1.36 with a Kubernetes 1.36 control plane (the first build takes several minutes)

.PHONY: bin/dovetail-sandbox-1.36
bin/dovetail-sandbox-1.36:
	@bash build/progress.sh "the control plane of Kubernetes 1.36" sandbox -modfile=go.kubernetes-1.36.mod -ldflags "$(call SANDBOX_LDFLAGS,$(K8S_BEFORE))" -o ../bin/dovetail-sandbox-1.36 .

.PHONY: kubelet
kubelet: bin/dovetail-kubelet ## Build bin/dovetail-kubelet, which `bin/dovetail-sandbox up --kubelets` runs for each machine (the first build takes 3 minutes)

.PHONY: bin/dovetail-kubelet
bin/dovetail-kubelet:
	@bash build/progress.sh "the kubelet" sandbox -ldflags "$(call SANDBOX_LDFLAGS,$(K8S_VERSION))" -o ../bin/dovetail-kubelet ./kubelet

.PHONY: image
image: ## Build the container image for linux/amd64 and linux/arm64 without Docker: OCI layout and tarball in bin/image, with SBOM and provenance
	@go -C build/image run . $(if $(REPOSITORY),-repository $(REPOSITORY)) $(if $(VERSION),-version $(VERSION)) $(if $(PLATFORMS),-platforms $(PLATFORMS))

.PHONY: release
release: ## Build release artifacts in bin/release without publishing them: archives with checksums, image, chart, krew manifest (VERSION=0.2.0)
	@bash build/release.sh "$(VERSION)"

.PHONY: demo
demo: build ## Run a demo: start a control plane, scale a workload up and down, launch and terminate nodes
	@bin/dovetail-sandbox demo

.PHONY: check
check: ## Run fast checks: format, vet, lint, unit tests
	@out=$$(gofmt -l api charts cmd internal sandbox test build 2>/dev/null); if [ -n "$$out" ]; then echo "not formatted; run gofmt -w on:"; echo "$$out"; exit 1; fi
	go vet ./...
	go tool -modfile=go.tools.mod staticcheck ./...
	go test -short $(UNIT)

# Each step is a target, so that `make -k verify` continues after a failed step, and each step can be run alone.
.PHONY: test
test: test-unit test-modules test-live ## Run the tests required before a push: vet, unit tests, and short end-to-end tests on a real control plane (10 minutes with warm caches)

.PHONY: verify
verify: verify-requirements test-unit verify-sandbox verify-modules verify-upstream verify-oracle verify-live verify-live-1.36 ## Run all tests: every module, Karpenter's suites, the oracle, and full end-to-end tests on a real control plane (30 minutes or more)

.PHONY: test-unit
test-unit: build
	go vet ./...
	go test -timeout 30m $(UNIT)

.PHONY: test-modules
test-modules: build
	go -C sandbox test -count=1 -short -timeout 30m ./...
	go -C test/awsmodels test ./...
	go -C test/expander test ./...
	go -C test/chart test -count=1 -short -timeout 30m ./...

.PHONY: test-live
test-live: build kubelet
	go test -short -count=1 -timeout 60m ./test/e2e/...

.PHONY: verify-requirements
verify-requirements:
	@bash build/modules.sh

.PHONY: verify-sandbox
verify-sandbox: build kubelet
	@nice -n 19 bash build/ahead.sh >/dev/null 2>&1 &
	go -C sandbox test -count=1 -timeout 30m ./...

.PHONY: verify-modules
verify-modules: build
	go -C test/awsmodels test ./...
	go -C test/expander test ./...
	go -C test/dashboards test -count=1 -timeout 30m ./...
	go -C test/chart test -count=1 -timeout 30m ./...
	go -C test/ui test -count=1 -timeout 30m ./...
	go -C build/image test -count=1 -timeout 30m ./...

.PHONY: verify-upstream
verify-upstream: build
	bash test/withgo.sh test/upstream go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	KARPENTER_BIN="$(CURDIR)/bin/karpenter" bash test/withgo.sh test/upstream go -C test/upstream test -count=1 -timeout 60m ./...

.PHONY: verify-oracle
verify-oracle: build
	bash test/withgo.sh test/oracle bash test/oracle/run.sh -timeout 60m

# The result depends on the installed versions, so this is not part of verify.
.PHONY: verify-clients
verify-clients: ## Test the simulated AWS with aws-cli and boto3, and Dovetail's AWS client with moto, if installed (1 minute)
	DOVETAIL_AWS_CLIENTS=1 go test -count=1 -v ./test/awsclients

# Not part of verify: compiling Karpenter for AWS takes 10 minutes. The test binary runs without `go test`, which does not forward SIGTERM.
.PHONY: karpenter-aws
karpenter-aws: build ## Run Karpenter's AWS controller, then Dovetail, through the same scenario on the simulated AWS, and compare their AWS calls (10 minutes)
	go -C test/karpenteraws/controller build -o ../../../bin/karpenter-aws github.com/aws/karpenter-provider-aws/cmd/controller
	go test -c -o bin/karpenteraws.test ./test/karpenteraws
	KARPENTER_AWS_BIN="$(CURDIR)/bin/karpenter-aws" bin/karpenteraws.test -test.v -test.timeout 60m

# Not part of verify: the first compilation takes 30 minutes on two cores.
.PHONY: kueue
kueue: build ## Test Jobs and JobSets with the Kueue and JobSet controllers (5 minutes, plus 30 minutes for the first compilation)
	go -C test/kueue build -o ../../bin/kueue sigs.k8s.io/kueue/cmd/kueue
	go -C test/jobset build -o ../../bin/jobset sigs.k8s.io/jobset
	KUEUE_BIN="$(CURDIR)/bin/kueue" JOBSET_BIN="$(CURDIR)/bin/jobset" go test -count=1 -v -timeout 60m -run '^TestKueue$$' ./test/e2e

.PHONY: verify-live
verify-live: build kubelet
	go -C test/clusterapi build -o ../../bin/cluster-api sigs.k8s.io/cluster-api/core
	go test -count=1 -timeout 90m ./test/e2e/...
	DOVETAIL_KUBELETS=1 go test -count=1 -timeout 60m ./test/e2e

.PHONY: verify-live-1.36
verify-live-1.36: build sandbox-1.36
	DOVETAIL_SANDBOX_BIN="$(CURDIR)/bin/dovetail-sandbox-1.36" go test -count=1 -timeout 60m -run '^($(SERIES_1.36))$$' ./test/e2e

.PHONY: oracle
oracle: ## Compare plans for 600 random clusters (half of them with devices) and 10,000 bindings with kube-scheduler, and 300 plans with Karpenter
	go -C test/oracle test -count=1 -v -timeout 6h -run '^TestKarpenter$$' ./karpenter -args -seeds 300
	go -C test/oracle test -count=1 -v -run '^TestBindings$$' ./scheduler -args -bindings 10000
	go -C test/oracle test -count=1 -v -run '^TestDrawn$$' ./scheduler -args -seeds 300 -mutants
	go -C test/oracle test -count=1 -v -run '^TestDrawnDevices$$' ./scheduler -args -devices 300 -mutants

.PHONY: optima
optima: ## Compute the optima for TestOptima with the HiGHS solver (installed from npm)
	rm -rf .cache/optima && mkdir -p .cache/optima
	go test -count=1 ./internal/solve -run '^TestOptima$$' -args -write-lp "$(CURDIR)/.cache/optima"
	npm install --silent --no-audit --no-fund --prefix .cache/optima highs@1.15.3
	node internal/solve/testdata/optima/solve.mjs .cache/optima internal/solve/testdata/optima/optima.txt

.PHONY: soak
soak: build ## Run the randomized tests with all seeds; make verify runs a few seeds of each (several hours)
	DOVETAIL_SOAK=1 go test -count=1 -timeout 6h ./internal/... ./test/e2e/...
	DOVETAIL_SOAK=1 go -C test/upstream test -count=1 -timeout 2h -run "^TestTakeover$$" .
	FUZZTIME=10m bash build/fuzz.sh

.PHONY: vulncheck
vulncheck: ## Check all modules for known vulnerabilities with govulncheck (requires internet access; VULNDB=URL sets a mirror)
	@for m in . build/image; do (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./...); done

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (default 1m; ONLY=PATTERN selects tests)
	FUZZTIME="$(or $(FUZZTIME),1m)" bash build/fuzz.sh $(ONLY)

.PHONY: bench
bench: build ## Print a table of plan cost, decision time, CPU and memory, each with its target
	go run ./test/bench

.PHONY: bench-karpenter
bench-karpenter: ## Compare the solver with Karpenter's scheduler on Karpenter's benchmark workload (several minutes)
	go -C test/oracle test -run '^$$' -bench Mix -benchtime 1x -timeout 30m ./karpenter

.PHONY: bench-reaction
bench-reaction: build ## Measure the time from pending pod to NodeClaim and to Running, next to the minimum possible, as JSON
	go run ./test/reaction

.PHONY: bench-groups
bench-groups: build ## Compare Cluster API with Auto Scaling groups: time to run, cost over the lower bound, scale-down, writes, as JSON (6 minutes, plus the first compilation)
	go test -run '^$$' -bench '^BenchmarkNodeGroups$$' -benchtime 1x -timeout 30m ./test/e2e

.PHONY: bench-consolidation
bench-consolidation: build ## Measure consolidation after scaling 1,000 pods to 700: time, cost, and evictions, as JSON
	go run ./test/consolidation

.PHONY: bench-life
bench-life: build ## Measure 20 rounds of typical workload changes: cost over the lower bound, evictions, settling time, as JSON
	go run ./test/life

# ARGS are flags of test/priorities: ARGS="-series 1m" for a short run, ARGS=-h for a list.
.PHONY: bench-priorities
bench-priorities: build ## Measure 72 Deployments in five priority classes: relaunched nodes, cancelled commands, preemptions, final cost, as JSON (10 minutes; ARGS="-karpenter bin/karpenter" runs Karpenter's KWOK controller)
	go run ./test/priorities $(ARGS)

# ARGS are flags of test/adversaries: ARGS="-series 1m -only dovetail" for a short run, ARGS=-list for the adversaries, ARGS=-h for the flags.
.PHONY: bench-adversaries
bench-adversaries: build ## Compare Dovetail with Karpenter's KWOK controller for one Deployment, alone and next to each of 25 adversaries: launches, unused launches and their cost, waits, evictions (45 minutes)
	go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	go run ./test/adversaries $(ARGS)

# ARGS are flags of test/kubelets: ARGS="-rounds 2" for a short run, ARGS="-landing off" to let kube-scheduler bind pods, ARGS=-h for a list.
.PHONY: bench-kubelets
bench-kubelets: build kubelet ## Measure pods rejected by kubelets, and resources used by a kubelet: 300 pods on full nodes, 20 rounds of scaling, interruptions and drains, as JSON (15 minutes)
	go run ./test/kubelets $(ARGS)

.PHONY: bench-life-karpenter
bench-life-karpenter: build ## Run bench-life with Karpenter's KWOK controller instead of Dovetail
	go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	go run ./test/life -karpenter bin/karpenter

.PHONY: bench-replay
bench-replay: ## Measure CPU time and memory of replaying one hour of a random recording of 100 nodes (one week of 1,000 nodes: NODES=1000 HOURS=168 PACE=30s)
	DOVETAIL_PACE=$(PACE) go test ./internal/replay/recording -run '^$$' -bench 'Replay/nodes=$(or $(NODES),100)$$/hours=$(or $(HOURS),1)$$' -benchtime 1x -timeout 24h

.PHONY: bench-ui
bench-ui: build ## Measure top --once, doctor and the first paint of the page in Chromium with 1,000 nodes and 20,000 pods (several minutes)
	go -C test/ui run ./bench $(ARGS)

.PHONY: pictures
pictures: build ## Take the screenshots for README and docs in Chromium: a sandbox with about 60 nodes, light and dark theme (3 minutes)
	go -C test/ui run ./pictures -out ../../docs $(ARGS)

# ARGS are flags of test/compare: ARGS="-runs 1 -pods 200" for a short run, ARGS=-h for a list.
.PHONY: compare
compare: build ## Compare Dovetail with Karpenter and, if CLUSTER_AUTOSCALER=PATH is set, Cluster Autoscaler: tables and charts in bench-out/compare (1 hour per system)
	go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	go run ./test/compare -karpenter bin/karpenter $(if $(CLUSTER_AUTOSCALER),-cluster-autoscaler $(CLUSTER_AUTOSCALER)) $(ARGS)

.PHONY: compare-aws
compare-aws: build ## Compare Dovetail (EC2 Fleet and Auto Scaling groups) with Karpenter and, if CLUSTER_AUTOSCALER=PATH is set, Cluster Autoscaler, on the simulated AWS: tables and a chart in bench-out/compare-aws (45 minutes)
	go -C test/karpenteraws/controller build -o ../../../bin/karpenter-aws github.com/aws/karpenter-provider-aws/cmd/controller
	go run ./test/compare -boot 35s -pods 300 -runs 3 -consolidate-after 10s -still 45s -longest 4m -karpenter-aws bin/karpenter-aws $(if $(CLUSTER_AUTOSCALER),-cluster-autoscaler $(CLUSTER_AUTOSCALER)) -dir bench-out/compare-aws $(ARGS)

.PHONY: bench-hostile
bench-hostile: ## Measure how long pods of one namespace wait while another namespace creates the most expensive pods to plan, in 46 variants: all pending, then 90 % running
	go run ./test/hostile
	go run ./test/hostile -landed

.PHONY: chaos
chaos: build ## Kill, stop or slow down components 200 times during scaling, drift and expiry, and check that the cluster settles within a minute without leftovers (several hours; ARGS="-faults 20 -seed 3 -json")
	go run ./test/chaos $(ARGS)

.PHONY: house
house: ## Print code structure metrics per package: lines, longest function, methods per type, upward uses; files per checklist (DIR=PATH measures another checkout; ARGS=-json, ARGS=-arrows)
	@go run ./test/house $(ARGS) $(if $(DIR),-dir $(DIR),cmd internal sandbox)

.PHONY: bench-headroom
bench-headroom: ## Compare the demand forecast with fixed buffers on two months of a web log and random series: pod wait and idle capacity (30 minutes, ARGS=-plain takes seconds; ARGS="-trace counts.csv.gz -step 1m -target 200" replays a trace; ARGS=-json)
	go run ./test/headroom $(ARGS)
	go run ./test/headroom -drawn $(filter -json,$(ARGS))

# ARGS are flags of test/upstream, such as ARGS="-focus Basic"; ARGS=-h for a list.
UPSTREAM = go -C test/upstream build -o ../../bin/upstream . && bin/upstream

.PHONY: upstream
upstream: build ## Run Karpenter's regression suite, unmodified, with Dovetail on the sandbox (1 hour)
	@$(UPSTREAM) -suite regression $(ARGS)

.PHONY: upstream-performance
upstream-performance: build ## Run Karpenter's performance suite with Dovetail and with Karpenter, and print one table (2 hours)
	@$(UPSTREAM) -suite performance -both $(ARGS)

.PHONY: gen
gen: ## Regenerate CRDs, deep-copy functions, the built-in catalog and the command reference
	go tool -modfile=go.tools.mod controller-gen object:headerFile=api/gen/header.txt crd paths=./api/... output:crd:dir=charts/dovetail/crds
	go run ./api/gen charts/dovetail/crds
	go generate ./internal/...
	go test ./internal/cli -run TestReference -update

.PHONY: clean
clean: ## Stop sandboxes of this user and delete build output
	@if [ -x bin/dovetail-sandbox ]; then bin/dovetail-sandbox down || true; fi
	rm -rf bin bench-out
