# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Few verbs; `make help` lists them. Nothing but Go and make is needed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export CGO_ENABLED := 0
# One set of flags for binaries, vet and tests: -trimpath is part of the build cache's key, and with two sets everything is compiled twice.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# test/upstream and test/oracle need a later Go than the rest, that of Karpenter's module, which the go command then gets.
export GOTOOLCHAIN := auto

# The control plane of the sandbox, and the one that `make sandbox-1.36` builds.
K8S_VERSION := v1.37.2
K8S_BEFORE := v1.36.3
# The end-to-end tests that run on the latter, too: what depends most on how kube-scheduler and controllers behave.
SERIES_1.36 := TestExactLanding|TestMixedLanding|TestDaemonsKeepTheirRoom|TestDrainHonoursPDB|TestConsolidation|TestDrift|TestExpiry|TestFaults
KV := k8s.io/component-base/version
SANDBOX_LDFLAGS = -s -w -X $(KV).gitVersion=$(1) -X $(KV).gitMajor=1 -X $(KV).gitMinor=$(word 2,$(subst ., ,$(1))) -X $(KV).gitTreeState=clean
UNIT = $$(go list ./... | grep -v /test/e2e)

.PHONY: help
help: ## list the verbs
	@awk -F':.*## ' '/^[a-z0-9.-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/dovetail bin/dovetail-sandbox ## build bin/dovetail and bin/dovetail-sandbox (the first time some minutes, with progress)

.PHONY: bin/dovetail
bin/dovetail:
	@bash build/progress.sh "dovetail" . -o bin/dovetail ./cmd/dovetail

.PHONY: bin/dovetail-sandbox
bin/dovetail-sandbox:
	@bash build/progress.sh "the control plane" sandbox -ldflags "$(call SANDBOX_LDFLAGS,$(K8S_VERSION))" -o ../bin/dovetail-sandbox .

.PHONY: sandbox-1.36
sandbox-1.36: bin/dovetail-sandbox-1.36 ## build bin/dovetail-sandbox-1.36, the same with a control plane of Kubernetes 1.36 (the first time some minutes, with progress)

.PHONY: bin/dovetail-sandbox-1.36
bin/dovetail-sandbox-1.36:
	@bash build/progress.sh "the control plane of Kubernetes 1.36" sandbox -modfile=go.kubernetes-1.36.mod -ldflags "$(call SANDBOX_LDFLAGS,$(K8S_BEFORE))" -o ../bin/dovetail-sandbox-1.36 .

.PHONY: kubelet
kubelet: bin/dovetail-kubelet ## build bin/dovetail-kubelet, which `bin/dovetail-sandbox up --kubelets` runs for each machine (the first time two or three minutes, with progress)

.PHONY: bin/dovetail-kubelet
bin/dovetail-kubelet:
	@bash build/progress.sh "the kubelet" sandbox -ldflags "$(call SANDBOX_LDFLAGS,$(K8S_VERSION))" -o ../bin/dovetail-kubelet ./kubelet

.PHONY: image
image: ## write the container image for linux/amd64 and linux/arm64, without Docker: an OCI layout and a tarball in bin/image, with SBOM and provenance
	@go -C build/image run . $(if $(REPOSITORY),-repository $(REPOSITORY)) $(if $(VERSION),-version $(VERSION)) $(if $(PLATFORMS),-platforms $(PLATFORMS))

.PHONY: release
release: ## write what a release publishes to bin/release: archives with checksums, image, chart, krew manifest; VERSION=0.2.0; publishes nothing
	@bash build/release.sh "$(VERSION)"

.PHONY: demo
demo: build ## show the whole: a control plane, a workload that grows and shrinks, machines bought and given back
	@bin/dovetail-sandbox demo

.PHONY: check
check: ## the fast loop: format, vet, archtest, unit tests
	@out=$$(gofmt -l api charts cmd internal sandbox test build 2>/dev/null); if [ -n "$$out" ]; then echo "not gofmt'ed, run gofmt -w on:"; echo "$$out"; exit 1; fi
	go vet ./...
	go tool -modfile=go.tools.mod staticcheck ./...
	go test -short $(UNIT)

# Each step is a target, so that `make -k verify` runs those after one that failed, and one of them can be run by itself.
.PHONY: test
test: test-unit test-modules test-live ## before each push, ten minutes with warm caches: vet, all unit tests, and on the real control plane what shows most of it

.PHONY: verify
verify: verify-requirements test-unit verify-sandbox verify-modules verify-upstream verify-oracle verify-live verify-live-1.36 ## everything, on the real control plane: all that make test runs a part of, whole; half an hour or more

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

# What it finds depends on which versions are installed, so it is no part of verify.
.PHONY: verify-clients
verify-clients: ## aws-cli and boto3 read the simulated AWS, moto's server answers Dovetail's client, each as far as it is installed; a minute
	DOVETAIL_AWS_CLIENTS=1 go test -count=1 -v ./test/awsclients

# The first compilation of Karpenter for AWS takes ten minutes, so it is not part of verify. The test runs without `go test`, which would not pass SIGTERM on.
.PHONY: karpenter-aws
karpenter-aws: build ## run Karpenter's own controller for AWS and then Dovetail through the same life on the simulated AWS, and compare their calls to AWS: ten minutes
	go -C test/karpenteraws/controller build -o ../../../bin/karpenter-aws github.com/aws/karpenter-provider-aws/cmd/controller
	go test -c -o bin/karpenteraws.test ./test/karpenteraws
	KARPENTER_AWS_BIN="$(CURDIR)/bin/karpenter-aws" bin/karpenteraws.test -test.v -test.timeout 60m

# The first compilation takes half an hour on two processors, so it is not part of verify.
.PHONY: kueue
kueue: build ## run Kueue's and JobSet's own controllers next to Dovetail: Jobs and JobSets get ProvisioningRequests, nodes, and run; five minutes, plus half an hour for the first compilation
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
oracle: ## hold plans for 600 drawn clusters, half of them with devices, and 10,000 bindings against the real kube-scheduler, and 300 more plans against Karpenter's
	go -C test/oracle test -count=1 -v -timeout 6h -run '^TestKarpenter$$' ./karpenter -args -seeds 300
	go -C test/oracle test -count=1 -v -run '^TestBindings$$' ./scheduler -args -bindings 10000
	go -C test/oracle test -count=1 -v -run '^TestDrawn$$' ./scheduler -args -seeds 300 -mutants
	go -C test/oracle test -count=1 -v -run '^TestDrawnDevices$$' ./scheduler -args -devices 300 -mutants

.PHONY: optima
optima: ## have HiGHS (from npm) find the optima that TestOptima holds plans and bounds against
	rm -rf .cache/optima && mkdir -p .cache/optima
	go test -count=1 ./internal/solve -run '^TestOptima$$' -args -write-lp "$(CURDIR)/.cache/optima"
	npm install --silent --no-audit --no-fund --prefix .cache/optima highs@1.15.3
	node internal/solve/testdata/optima/solve.mjs .cache/optima internal/solve/testdata/optima/optima.txt

.PHONY: soak
soak: build ## the long series: every seed of every test that make verify runs a few of
	DOVETAIL_SOAK=1 go test -count=1 -timeout 6h ./internal/... ./test/e2e/...
	DOVETAIL_SOAK=1 go -C test/upstream test -count=1 -timeout 2h -run "^TestTakeover$$" .
	FUZZTIME=10m bash build/fuzz.sh

.PHONY: vulncheck
vulncheck: ## hold every module against Go's vulnerability database (needs the internet; VULNDB=URL for a mirror)
	@for m in . build/image; do (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./...); done

.PHONY: fuzz
fuzz: ## run each native fuzz test for FUZZTIME (1m); ONLY=pattern runs some
	FUZZTIME="$(or $(FUZZTIME),1m)" bash build/fuzz.sh $(ONLY)

.PHONY: bench
bench: build ## one table: how good plans are, how soon they are there and what they need, beside the bar of each
	go run ./test/bench

.PHONY: bench-karpenter
bench-karpenter: ## ours and Karpenter's scheduler in one run, on the mix of Karpenter's own benchmark: minutes, most of them Karpenter's
	go -C test/oracle test -run '^$$' -bench Mix -benchtime 1x -timeout 30m ./karpenter

.PHONY: bench-reaction
bench-reaction: build ## from pending pod to NodeClaim and to Running, beside the floor, as JSON
	go run ./test/reaction

.PHONY: bench-groups
bench-groups: build ## the same pods on Cluster API, with its own core manager, and on Auto Scaling groups: seconds to run, dollars beside the bound, scale-down, writes, as JSON; six minutes, plus the first compilation
	go test -run '^$$' -bench '^BenchmarkNodeGroups$$' -benchtime 1x -timeout 30m ./test/e2e

.PHONY: bench-consolidation
bench-consolidation: build ## three pods of ten leave a thousand: how soon it is at rest, what it costs, who was moved, as JSON
	go run ./test/consolidation

.PHONY: bench-life
bench-life: build ## one controller through twenty rounds of an ordinary day: dollars over the bound, evictions, seconds to rest, as JSON
	go run ./test/life

# ARGS are flags of test/priorities: ARGS="-series 1m" is a trial, ARGS=-h lists them.
.PHONY: bench-priorities
bench-priorities: build ## 72 Deployments in five priority classes, half of them with PodDisruptionBudgets: nodes launched again, commands taken back, preemptions, cost at rest, as JSON; ten minutes; ARGS="-karpenter bin/karpenter" runs Karpenter's KWOK controller instead
	go run ./test/priorities $(ARGS)

# ARGS are flags of test/adversaries: ARGS="-series 1m -only dovetail" is a trial, ARGS=-list lists the adversaries, ARGS=-h the flags.
.PHONY: bench-adversaries
bench-adversaries: build ## an honest Deployment alone, then beside 25 adversaries, with Dovetail and with Karpenter's KWOK controller: launches, unused launches and their dollars, waits, evictions, as one table; three quarters of an hour
	go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	go run ./test/adversaries $(ARGS)

# ARGS are flags of test/kubelets: ARGS="-rounds 2" is a trial, ARGS="-landing off" leaves binding to kube-scheduler, ARGS=-h lists them.
.PHONY: bench-kubelets
bench-kubelets: build kubelet ## 300 pods onto nodes planned to the last CPU, each with Kubernetes' own kubelet; twenty rounds of growing and shrinking, interruptions, drains: how many pods kubelets reject, and what a kubelet takes, as JSON; a quarter of an hour
	go run ./test/kubelets $(ARGS)

.PHONY: bench-life-karpenter
bench-life-karpenter: build ## the same rounds with Karpenter's own KWOK controller in Dovetail's place
	go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	go run ./test/life -karpenter bin/karpenter

.PHONY: bench-replay
bench-replay: ## replay an hour of a drawn recording of 100 nodes: processor seconds and memory; NODES=1000, HOURS=168 and PACE=30s with it is the week
	DOVETAIL_PACE=$(PACE) go test ./internal/replay/recording -run '^$$' -bench 'Replay/nodes=$(or $(NODES),100)$$/hours=$(or $(HOURS),1)$$' -benchtime 1x -timeout 24h

.PHONY: bench-ui
bench-ui: build ## top --once, doctor and the page's first paint in Chromium with 1,000 nodes and 20,000 pods, with memory; minutes, most of them to make the pods
	go -C test/ui run ./bench $(ARGS)

.PHONY: pictures
pictures: build ## take the screenshots in README and docs: a sandbox of about sixty nodes in Chromium, light and dark; three minutes
	go -C test/ui run ./pictures -out ../../docs $(ARGS)

# ARGS are flags of test/compare: ARGS="-runs 1 -pods 200" is a trial, ARGS=-h lists them.
.PHONY: compare
compare: build ## Dovetail, Karpenter and, with CLUSTER_AUTOSCALER=path of its binary, Cluster Autoscaler at the same work: tables and pictures in bench-out/compare; about an hour a system
	go -C test/upstream build -o ../../bin/karpenter sigs.k8s.io/karpenter/kwok
	go run ./test/compare -karpenter bin/karpenter $(if $(CLUSTER_AUTOSCALER),-cluster-autoscaler $(CLUSTER_AUTOSCALER)) $(ARGS)

.PHONY: compare-aws
compare-aws: build ## Dovetail on EC2 Fleet and on Auto Scaling groups, Karpenter's own controller for AWS and, with CLUSTER_AUTOSCALER=path of its binary, Cluster Autoscaler, at the same work on the same simulated AWS: tables and a picture in bench-out/compare-aws; 45 minutes
	go -C test/karpenteraws/controller build -o ../../../bin/karpenter-aws github.com/aws/karpenter-provider-aws/cmd/controller
	go run ./test/compare -boot 35s -pods 300 -runs 3 -consolidate-after 10s -still 45s -longest 4m -karpenter-aws bin/karpenter-aws $(if $(CLUSTER_AUTOSCALER),-cluster-autoscaler $(CLUSTER_AUTOSCALER)) -dir bench-out/compare-aws $(ARGS)

.PHONY: bench-hostile
bench-hostile: ## one tenant asks for what costs most to decide on, 46 ways: how long ten ordinary pods of another namespace wait, and what a step costs; then the same with nine in ten of its pods running
	go run ./test/hostile
	go run ./test/hostile -landed

.PHONY: chaos
chaos: build ## kill, stop or slow down components of the sandbox 200 times, in the middle of growing, shrinking, drift and expiry: at rest again within a minute, nothing left over; some hours; ARGS="-faults 20 -seed 3 -json"
	go run ./test/chaos $(ARGS)

.PHONY: house
house: ## for each package: lines, longest function, methods per type with promoted ones, uses that run upwards; files per check-list; DIR=checkout measures another, ARGS="-json" or "-arrows" says more
	@go run ./test/house $(ARGS) $(if $(DIR),-dir $(DIR),cmd internal sandbox)

.PHONY: bench-headroom
bench-headroom: ## two months of a web log replayed (half an hour), and drawn series: how much pods wait and how much is idle, ours beside standing buffers; ARGS="-trace counts.csv.gz -step 1m -target 200" replays yours, ARGS=-json prints JSON, ARGS=-plain takes seconds
	go run ./test/headroom $(ARGS)
	go run ./test/headroom -drawn $(filter -json,$(ARGS))

# ARGS are flags of test/upstream, such as ARGS="-focus Basic"; ARGS=-h lists them.
UPSTREAM = go -C test/upstream build -o ../../bin/upstream . && bin/upstream

.PHONY: upstream
upstream: build ## Karpenter's own regression suite, unmodified, against Dovetail on the sandbox: about an hour
	@$(UPSTREAM) -suite regression $(ARGS)

.PHONY: upstream-performance
upstream-performance: build ## Karpenter's own performance suite against Dovetail and against Karpenter, one table: about two hours
	@$(UPSTREAM) -suite performance -both $(ARGS)

.PHONY: gen
gen: ## regenerate the CRDs, the deep copies, the built-in catalog and the command reference
	go tool -modfile=go.tools.mod controller-gen object:headerFile=api/gen/header.txt crd paths=./api/... output:crd:dir=charts/dovetail/crds
	go run ./api/gen charts/dovetail/crds
	go generate ./internal/...
	go test ./internal/cli -run TestReference -update

.PHONY: clean
clean: ## stop sandboxes of this user and remove what was built
	@if [ -x bin/dovetail-sandbox ]; then bin/dovetail-sandbox down || true; fi
	rm -rf bin bench-out
