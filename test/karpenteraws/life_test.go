// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package karpenteraws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

const (
	pools   = "/apis/karpenter.sh/v1/nodepools"
	claims  = "/apis/karpenter.sh/v1/nodeclaims"
	classes = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"

	controllerVariable = "KARPENTER_AWS_BIN"
)

// TestLife leads Karpenter's controller and then Dovetail through the same life, checks Karpenter's log, and logs the figures of both next to each other.
func TestLife(t *testing.T) {
	binary := os.Getenv(controllerVariable)
	if binary == "" {
		t.Skipf("%s does not name a controller of Karpenter for AWS; `make karpenter-aws` compiles it and runs this test", controllerVariable)
	}
	var all []*account
	t.Run("Karpenter", func(t *testing.T) {
		ctx := untilSignalled(t)
		a := startKarpenter(ctx, t, binary)
		all = append(all, live(ctx, t, a))
		for _, log := range a.logs {
			for _, line := range unexpected(t, log) {
				t.Errorf("Karpenter's log: %s", line)
			}
		}
	})
	t.Run("Dovetail", func(t *testing.T) {
		ctx := untilSignalled(t)
		all = append(all, live(ctx, t, startDovetail(ctx, t)))
	})
	if len(all) == 2 { // -run may select one
		t.Log("\n" + table(all[0], all[1]))
	}
}

// account is what a life has cost.
type account struct {
	parts    []partAccount
	calls    map[string]int // to AWS, by service and action
	ordinary *bill          // nil without -ordinary
}

// partAccount is what one part of a life has cost, and what was there at its end.
type partAccount struct {
	name             string
	calls, instances int
	dollars          float64 // per hour
}

// table returns the accounts of Karpenter and of Dovetail as two tables in Markdown.
func table(karpenter, dovetail *account) string {
	var b strings.Builder
	b.WriteString("| part | Karpenter | Dovetail |\n|---|---|---|\n")
	text := func(p partAccount) string {
		return fmt.Sprintf("%d calls, %d nodes, $%.4f/h", p.calls, p.instances, p.dollars)
	}
	for i, p := range karpenter.parts {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.name, text(p), text(dovetail.parts[i]))
	}
	if karpenter.ordinary != nil {
		fmt.Fprintf(&b, "\nOrdinary life of %s, Karpenter: %s; Dovetail: %s.\n", *ordinary, karpenter.ordinary, dovetail.ordinary)
	}
	b.WriteString("\n| call | Karpenter | Dovetail |\n|---|---|---|\n")
	names := maps.Clone(karpenter.calls)
	maps.Copy(names, dovetail.calls)
	of := [2]int{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", name, karpenter.calls[name], dovetail.calls[name])
		of[0] += karpenter.calls[name]
		of[1] += dovetail.calls[name]
	}
	fmt.Fprintf(&b, "| all | %d | %d |\n", of[0], of[1])
	return b.String()
}

// life is one cluster and what happens in it.
type life struct {
	t   *testing.T
	a   *autoscaler
	s   *sandbox.Sandbox
	ctx context.Context
}

// live goes through a life, from the first NodePool until nothing is left.
func live(ctx context.Context, t *testing.T, a *autoscaler) *account {
	l := &life{t: t, a: a, s: a.s, ctx: ctx}
	total := &account{calls: map[string]int{}}
	part := func(name string, do func()) {
		l.aws(http.MethodDelete, "/_aws/calls", nil, nil)
		t.Logf("%s: %s", time.Now().Format(time.TimeOnly), name)
		do()
		b := l.books()
		p := partAccount{name: name, instances: len(b.Alive), dollars: dollars(b)}
		for call, c := range b.Calls {
			total.calls[call] += c.Count
			p.calls += c.Count
		}
		total.parts = append(total.parts, p)
		t.Logf("%s: %d calls, %d instances, $%.4f/h", name, p.calls, p.instances, p.dollars)
	}
	part("first start and launch", func() {
		l.must(l.s.Create(l.ctx, classes, `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default}, spec: {role: sandbox-node, amiSelectorTerms: [{alias: al2023@v20260615}],
			tags: {team: first}, subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}], securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]}}`))
		l.must(l.s.Create(l.ctx, pools, pool("default", "on-demand", "")))
		l.must(scaledown.Deploy(l.ctx, l.s, scaledown.Deployment("web", 20, 1, "500m", "512Mi")))
		l.run("web", 20)
		l.until("instances have their tags", func(b awstest.Books) error {
			for _, i := range b.Alive {
				for _, key := range []string{"karpenter.sh/nodeclaim", "karpenter.sh/nodepool", "eks:eks-cluster-name", "kubernetes.io/cluster/sandbox", "Name", "team"} {
					if i.Tags[key] == "" {
						return fmt.Errorf("%s has no tag %s", i.ID, key)
					}
				}
			}
			return nil
		})
	})
	part("consolidation", func() {
		before := dollars(l.books())
		l.scale("web", 4)
		l.until("the instances cost less than half", func(b awstest.Books) error {
			if now := dollars(b); now*2 >= before {
				return fmt.Errorf("$%.4f/h, before it was $%.4f/h", now, before)
			}
			return nil
		})
		l.run("web", 4)
	})
	part("drift of the class", func() {
		l.replaced(func() { l.must(l.s.Patch(l.ctx, classes+"/default", `{"spec":{"tags":{"team":"second"}}}`)) })
		for _, i := range l.books().Alive {
			if i.Tags["team"] != "second" {
				t.Errorf("%s has tags %v", i.ID, i.Tags)
			}
		}
	})
	part("drift of the image", func() {
		// Karpenter keeps what @latest means for a day; a version is another at once.
		l.replaced(func() {
			l.must(l.s.Patch(l.ctx, classes+"/default", `{"spec":{"amiSelectorTerms":[{"alias":"al2023@v20260713"}]}}`))
		})
	})
	part("drift of the security group", func() {
		l.replaced(func() {
			l.must(l.s.Patch(l.ctx, classes+"/default", `{"spec":{"securityGroupSelectorTerms":[{"name":"default"}]}}`))
		})
	})
	part("expiry", func() {
		l.must(l.s.Create(l.ctx, pools, pool("short", "on-demand", "20s")))
		d := scaledown.Deployment("short", 1, 1, "500m", "512Mi")
		d.Spec.Template.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": "short"}
		l.must(scaledown.Deploy(l.ctx, l.s, d))
		l.run("short", 1)
		first := l.claimsOf("short")
		l.wait("the node of the pod that expires is replaced", func() error {
			now := l.claimsOf("short")
			if len(now) == 0 || slices.ContainsFunc(now, func(name string) bool { return slices.Contains(first, name) }) {
				return fmt.Errorf("NodeClaims %v, before %v", now, first)
			}
			return nil
		})
		l.run("short", 1)
		l.must(l.s.Kube.AppsV1().Deployments("default").Delete(l.ctx, "short", metav1.DeleteOptions{}))
		l.must(l.s.Delete(l.ctx, pools+"/short", ""))
		l.wait("its NodeClaims are gone", func() error {
			if now := l.claimsOf("short"); len(now) > 0 {
				return fmt.Errorf("NodeClaims %v", now)
			}
			return nil
		})
	})
	part("from on demand to spot", func() {
		l.replaced(func() { l.requires("spot") })
		l.onlyOf("spot")
	})
	part("interruptions", func() {
		interrupt := func(kind, id string, notice time.Duration) {
			l.aws(http.MethodPost, "/_aws/interrupt", awstest.Interruption{Kind: kind, Instances: []string{id}, Notice: machines.Duration(notice)}, nil)
		}
		one := l.books().Alive[0].ID
		interrupt(awstest.Rebalance, one, 0)
		l.replaced(func() { interrupt(awstest.SpotInterruption, one, 90*time.Second) }, one)
		one = l.books().Alive[0].ID
		l.replaced(func() { interrupt(awstest.ScheduledChange, one, time.Hour) }, one)
		l.until("every message is deleted", func(b awstest.Books) error {
			if b.Messages > 0 {
				return fmt.Errorf("%d are left", b.Messages)
			}
			return nil
		})
	})
	part("no spot capacity", func() {
		l.requires("spot", "on-demand")
		l.fault(awstest.Fault{Kind: awstest.LaunchError, CapacityType: "spot", Code: "InsufficientInstanceCapacity"})
		l.scale("web", 24)
		l.run("web", 24)
		if !slices.ContainsFunc(l.books().Alive, func(i awstest.BookedInstance) bool { return i.CapacityType == "on-demand" }) {
			t.Error("no instance is on demand, though there is no spot capacity")
		}
	})
	part("no capacity in a zone", func() {
		l.aws(http.MethodDelete, "/_aws/faults", nil, nil)
		l.fault(awstest.Fault{Kind: awstest.LaunchError, Zone: "us-east-1a", Code: "InsufficientInstanceCapacity"}, awstest.Fault{Kind: machines.OutOfCapacity, Zone: "us-east-1b"})
		l.scale("web", 48)
		l.run("web", 48)
		l.aws(http.MethodDelete, "/_aws/faults", nil, nil)
	})
	part("a lost reply and a kill", func() {
		l.fault(awstest.Fault{Kind: awstest.LostReply, Action: "CreateFleet", Count: 1})
		started := l.books().Started
		l.scale("web", 72)
		l.until("an instance is launched", func(b awstest.Books) error {
			if b.Started == started {
				return errors.New("none is")
			}
			return nil
		})
		l.must(a.kill())
		l.run("web", 72)
		l.until("every instance has its NodeClaim", func(b awstest.Books) error {
			ids := l.instancesOfClaims()
			for _, i := range b.Alive {
				if !ids[i.ID] {
					return fmt.Errorf("%s has none", i.ID)
				}
			}
			return nil
		})
	})
	if *ordinary > 0 {
		part(fmt.Sprintf("ordinary life of %s", *ordinary), func() {
			total.ordinary = l.ordinaryLife(*ordinary)
			t.Logf("ordinary life: %s", total.ordinary)
		})
	}
	part("the end", func() {
		l.scale("web", 0)
		l.until("no instance is left", func(b awstest.Books) error {
			if len(b.Alive) > 0 {
				return fmt.Errorf("%d are", len(b.Alive))
			}
			return nil
		})
		l.must(l.s.Delete(l.ctx, pools+"/default", ""))
		l.must(l.s.Delete(l.ctx, classes+"/default", ""))
		l.until("no launch template and no instance profile is left", func(b awstest.Books) error {
			if b.Templates+b.Profiles > 0 {
				return fmt.Errorf("%d templates and %d profiles are", b.Templates, b.Profiles)
			}
			return nil
		})
	})
	return total
}

func pool(name, capacityType, expires string) string {
	expireAfter := ""
	if expires != "" {
		expireAfter = "expireAfter: " + expires + ", "
	}
	return `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: ` + name + `}, spec: {disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5s, budgets: [{nodes: "100%"}]}, template: {spec: {` + expireAfter + `
		nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: ` + requirements(capacityType) + `}}}}`
}

func requirements(capacityTypes ...string) string {
	return `[{"key":"karpenter.sh/capacity-type","operator":"In","values":["` + strings.Join(capacityTypes, `","`) + `"]},{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},` +
		`{"key":"karpenter.k8s.aws/instance-category","operator":"In","values":["c","m","r"]},{"key":"karpenter.k8s.aws/instance-generation","operator":"Gt","values":["2"]},{"key":"karpenter.k8s.aws/instance-cpu","operator":"Lt","values":["17"]}]`
}

func dollars(b awstest.Books) float64 {
	micro := int64(0)
	for _, i := range b.Alive {
		micro += i.PriceMicro
	}
	return float64(micro) / 1e6
}

func (l *life) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) aws(method, path string, in, out any) {
	l.t.Helper()
	l.must(l.s.AWS(l.ctx, method, path, in, out))
}

func (l *life) fault(faults ...awstest.Fault) {
	l.t.Helper()
	l.aws(http.MethodPost, "/_aws/faults", awstest.FaultList{Faults: faults}, nil)
}

func (l *life) books() awstest.Books {
	l.t.Helper()
	var b awstest.Books
	l.aws(http.MethodGet, "/_aws/books", nil, &b)
	return b
}

// wait waits until holds returns no error. The timers of an autoscaler may take minutes.
func (l *life) wait(what string, holds func() error) {
	l.t.Helper()
	testwait.UntilFor(l.t, 5*time.Minute, what, func() error {
		if l.ctx.Err() != nil {
			l.t.Fatalf("told to end while waiting until %s", what)
		}
		if err := l.a.ended(); err != nil {
			l.t.Fatal(err)
		}
		return holds()
	})
}

func (l *life) until(what string, holds func(awstest.Books) error) {
	l.t.Helper()
	l.wait(what, func() error { return holds(l.books()) })
}

// run waits until a Deployment has n pods and all of them are running.
func (l *life) run(name string, n int) {
	l.t.Helper()
	l.wait(fmt.Sprintf("%d pods of %s run", n, name), func() error {
		list, err := l.s.Kube.CoreV1().Pods("default").List(l.ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		running := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil {
				running++
			}
		}
		if running != n || len(list.Items) != n {
			return fmt.Errorf("%d of %d are running", running, len(list.Items))
		}
		return nil
	})
}

func (l *life) scale(name string, n int) {
	l.t.Helper()
	l.must(l.s.Patch(l.ctx, "/apis/apps/v1/namespaces/default/deployments/"+name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)))
}

// requires sets the capacity types that the NodePool requires.
func (l *life) requires(capacityTypes ...string) {
	l.t.Helper()
	l.must(l.s.Patch(l.ctx, pools+"/default", `{"spec":{"template":{"spec":{"requirements":`+requirements(capacityTypes...)+`}}}}`))
}

// replaced waits until the instances with these ids, or all that run if none is given, are replaced after do, and the pods run on the new ones.
func (l *life) replaced(do func(), ids ...string) {
	l.t.Helper()
	if len(ids) == 0 {
		for _, i := range l.books().Alive {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		l.t.Fatal("no instance is running, so none can be replaced")
	}
	do()
	l.until("the instances are replaced", func(b awstest.Books) error {
		for _, i := range b.Alive {
			if slices.Contains(ids, i.ID) {
				return fmt.Errorf("%s is not, of %v; %d instances run", i.ID, ids, len(b.Alive))
			}
		}
		if len(b.Alive) == 0 {
			return errors.New("no instance is running")
		}
		return nil
	})
	l.run("web", 4)
}

// onlyOf checks that all instances are of one capacity type.
func (l *life) onlyOf(capacityType string) {
	l.t.Helper()
	for _, i := range l.books().Alive {
		if i.CapacityType != capacityType {
			l.t.Errorf("%s is %s, want %s", i.ID, i.CapacityType, capacityType)
		}
	}
}

func (l *life) listClaims() []karpv1.NodeClaim {
	l.t.Helper()
	list, err := sandbox.Get[karpv1.NodeClaimList](l.ctx, l.s, claims)
	l.must(err)
	return list.Items
}

func (l *life) claimsOf(pool string) (names []string) {
	l.t.Helper()
	for _, c := range l.listClaims() {
		if c.Labels["karpenter.sh/nodepool"] == pool {
			names = append(names, c.Name)
		}
	}
	return names
}

// instancesOfClaims returns the ids of the instances that NodeClaims name.
func (l *life) instancesOfClaims() map[string]bool {
	l.t.Helper()
	ids := map[string]bool{}
	for _, c := range l.listClaims() {
		ids[c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:]] = true
	}
	return ids
}
