// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package archtest tests the architecture: allowed imports, restrictions of pure packages, and requirements for every
// file. It contains only tests. Start reading at Policy.
package archtest

// Policy lists which package may import which: in "a < b", b may import a, and whatever a may import. A package is a folder under
// internal, or one of the top-level folders api, charts, cmd, examples. A folder below a package belongs to it unless Policy names it. A new package
// is added here with its first file. Policy is the design, not a list of the imports that the code happens to have.
const Policy = `
model < plan < solve < disrupt
plan < lifecycle, verify
model < forecast < decide
lifecycle < cluster < decide
forecast < headroom < controller/headrooms
lifecycle < controller/headrooms < cli
disrupt, lifecycle < deletioncost < controller/deletioncosts < cli
model < nodeoverlay < state
plan < groupstatus < kube, controller/view, controller/record
model < prometheus
access < web
cluster, disrupt < savings < report, controller/savingskeeper
solve < decide/shares < decide
disrupt < decide/scaleforecast < decide
cluster, disrupt < decide/nodegroups < decide
cluster, disrupt < decide/limits < decide/unused < decide
cluster, disrupt, solve < decide/demand < decide
cluster, disrupt < decide/disruption < decide
cluster, lifecycle, disrupt < decide/claims < decide
cluster, lifecycle < decide/landing < decide
cluster, lifecycle, disrupt < decide/pods < decide
cluster, lifecycle < decide/requests < decide
cluster, lifecycle, disrupt, decide/limits < decide/pools < decide
solve, disrupt, lifecycle < decide
model, plan < state, cloud, ledger, cloud/catalog
state, lifecycle < sim < sim/adversary
sim, approve < replay < replay/recording, report
record, kube/manifests < replay/recording < cli
disrupt < top < top/screen, web
decide, verify < approve < doctor, controller, cli
kube/translate < convert < cli
charts < kube/manifests
decide < explain < doctor, controller/answer
decide < doctor < report
decide < expander
api, state, plan, headroom, deletioncost < kube/volume < kube/translate < kube/client, kube/manifests < kube/watch < kube/write < kube/takeover, kube/freeze
model < devices < kube/translate
kube/inventory
access < kube/client
top < kube/watch
groupstatus < kube/write
kube/write < kube
cloud < cloud/machines < cloud/kwok
cloud/machines, cloud/catalog < cloud/simulated < cloud/cloudtest
api, cloud, cloud/catalog < cloud/kwok, cloud/aws, cloud/nodegroups < cloud/externalgrpc, cloud/clusterapi
cloud/simulated, cloud/aws/awstest/shapes, cloud/aws/awstest/wire < cloud/aws/awstest
cloud/externalgrpc < cloud/externalgrpc/externalgrpctest
plan, ledger < report
disrupt, forecast < controller/demandhistory < controller
controller/savingskeeper < controller
decide, state, report < controller/view, controller/shadow
controller/shadow < controller
approve, state, report < controller/record < controller
explain, controller/view < controller/answer < controller
cloud, controller/view < controller/metrics < controller
decide, verify, state, cloud, report < controller
controller, kube/takeover, kube/freeze, prometheus, cloud/kwok, cloud/aws, cloud/nodegroups, cloud/externalgrpc, cloud/clusterapi, cloud/catalog, report, charts, expander, top/screen, web < cli < cmd
record, examples < cli
testwait < cloud/cloudtest, kube/kubetest
casetest
`

// Pure are the packages between a Snapshot and a Plan, what they ask, and what a person is shown of a cluster.
var Pure = []string{"model", "plan", "solve", "disrupt", "lifecycle", "forecast", "headroom", "deletioncost", "cluster", "decide", "decide/shares", "decide/scaleforecast", "decide/nodegroups", "decide/limits", "decide/unused", "decide/demand", "decide/disruption", "decide/claims", "decide/landing", "decide/pods", "decide/pools", "decide/requests", "explain", "verify", "approve", "nodeoverlay", "top", "doctor", "groupstatus", "sim", "sim/adversary", "replay", "savings"}

// Banned maps each import prefix that pure packages must not use to the reason.
var Banned = map[string]string{
	"k8s.io/":      "kube translates; a decision knows no Kubernetes type",
	"sigs.k8s.io/": "kube translates; a decision knows no Kubernetes type",
	"context":      "a decision can't be cancelled: its budget is work (contract 7)",
	"log":          "a decision explains itself in its Plan; controller logs",
	"os":           "a decision does no I/O",
	"net":          "a decision does no I/O",
	"sync":         "a decision runs in one goroutine",
	"math/rand":    "randomness is an input, never a source of the package's own",
	"crypto/rand":  "randomness is an input, never a source of the package's own",
	"unsafe":       "nothing here is worth it",
}

// NotLinked are packages that the product binary does not link, not even through others: simulated clouds and what only tests need. sim is not
// among them: 'dovetail replay' plays recordings on it.
var NotLinked = []string{"cloud/simulated", "cloud/aws/awstest", "cloud/aws/awstest/shapes", "cloud/aws/awstest/wire", "cloud/externalgrpc/externalgrpctest", "cloud/cloudtest", "sim/adversary", "casetest", "testwait"}

// KubernetesOnly maps each restricted import prefix (Kubernetes and AWS clients) to the only packages that may import
// it.
var KubernetesOnly = map[string][]string{
	"k8s.io/client-go":               {"kube/client", "kube/watch", "kube/write", "kube/takeover", "kube/freeze", "kube", "cmd"},
	"sigs.k8s.io/controller-runtime": {"cmd"},
	"github.com/aws/":                {"cloud/aws", "cli", "cmd"},
}
