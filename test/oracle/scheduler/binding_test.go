// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	podresources "k8s.io/component-helpers/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/verify"
)

var bindingsWanted = flag.Int("bindings", 1000, "TestBindings: run more seeds than -seeds says, until so many bindings have been made")

// strictPercent bounds how often BindingCheck is stricter than kube-scheduler: of a hundred pairs of a pod and a node that kube-scheduler accepts
// it may refuse so many. It does so on purpose in two cases. Where a topology spread constraint honours taints, it counts the nodes that are
// still reserved. And where a node has no host label, it still keeps pods apart that have anti-affinity over hosts.
const strictPercent = 1

// TestBindings holds verify.BindingCheck against the filters of the real kube-scheduler: wherever BindingCheck lets a pod be bound to a node,
// every filter must accept, with all earlier bindings counted. Before kube-scheduler is asked, the node's own reservation is taken off it, since
// the pod is bound for that, and so is the taint not-ready of a node that is Ready, where the pod tolerates the NoExecute form of that taint.
// The test needs no sandbox.
func TestBindings(t *testing.T) {
	from, n := *first, *seeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	total := newBindingTally()
	for seed := from; seed < from+uint64(n) || *oneSeed == 0 && total.bound < *bindingsWanted; seed++ {
		t.Run("seed-"+strconv.FormatUint(seed, 10), func(t *testing.T) { tryBindings(t, seed, total) })
		total.seeds++
	}
	t.Log(total)
	if *oneSeed != 0 {
		return
	}
	for _, kind := range bindingKinds {
		if total.kinds[kind] == 0 {
			t.Errorf("no binding was made that concerns %s", kind)
		}
	}
	for _, plugin := range bindingPlugins {
		if total.refused[plugin] == 0 {
			t.Errorf("no binding was refused by %s and by BindingCheck", plugin)
		}
	}
	if 100*total.strict > strictPercent*total.fit {
		t.Errorf("BindingCheck refuses %d of %d nodes that kube-scheduler accepts, more than %d %%", total.strict, total.fit, strictPercent)
	}
}

// bindingKinds are what at least one binding must concern, or the test had nothing to check.
var bindingKinds = []string{"host ports", "own anti-affinity over hosts", "others' anti-affinity over zones", "others' anti-affinity over hosts", "spread over hosts",
	"tolerated taint", "own reservation", "taint not-ready", "node selection", "volume", "volume limit", "registered driver", "full node", "extended resource"}

// bindingPlugins are the plugins of kube-scheduler that must have refused something that BindingCheck refused too.
var bindingPlugins = []string{"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "NodeVolumeLimits", "VolumeBinding",
	"PodTopologySpread", "InterPodAffinity"}

// bindingTally counts pairs of a pod and a node.
type bindingTally struct {
	seeds, wrong int
	asked        int            // answered by both
	left         int            // kube-scheduler accepts, and BindingCheck answers for no such pod, or for no such node: one that is not Ready or being deleted
	fit          int            // kube-scheduler accepts, all others
	strict       int            // of these BindingCheck refuses
	why          map[string]int // strict, by BindingCheck's reason
	bound        int
	kinds        map[string]int // bound, by what they concern
	refused      map[string]int // both refuse, by the plugin
}

func newBindingTally() *bindingTally {
	return &bindingTally{why: map[string]int{}, kinds: map[string]int{}, refused: map[string]int{}}
}

func (a *bindingTally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d questions, %d bindings; %d accepted wrongly; of %d that kube-scheduler accepts BindingCheck refuses %d (and leaves %d more to it)",
		a.seeds, a.asked, a.bound, a.wrong, a.fit, a.strict, a.left)
	for _, x := range []struct {
		title string
		count map[string]int
	}{{"bindings with", a.kinds}, {"both refuse for", a.refused}, {"BindingCheck alone refuses for", a.why}} {
		b.WriteString("\n" + x.title + ":")
		for _, k := range slices.Sorted(maps.Keys(x.count)) {
			fmt.Fprintf(&b, " %s %d;", k, x.count[k])
		}
	}
	return b.String()
}

// binder binds the pending pods of a drawn cluster, one after the other.
type binder struct {
	*rand.Rand
	c       *bindingCase
	filters *filters
	state   *state.State
	tr      *translate.Translator
	check   *verify.BindingCheck
	tally   *bindingTally
}

func newBinder(ctx context.Context, c *bindingCase, tally *bindingTally) (*binder, error) {
	x := &binder{Rand: rand.New(rand.NewPCG(c.seed, 41)), c: c, state: state.New(), tally: tally}
	storage := *c.scenario
	storage.standing, storage.pods = nil, nil
	text, err := storage.manifests()
	if err != nil {
		return nil, err
	}
	lookup, err := manifests.Read("storage.yaml", text)
	if err != nil {
		return nil, err
	}
	if c.registered != nil {
		lookup.Volumes().SetDriver(driver, c.registered)
	}
	x.tr = &translate.Translator{Table: x.state.Resources(), Lookup: lookup}
	if x.filters, err = newFilters(ctx, c.others()); err != nil {
		return nil, err
	}
	for _, n := range c.namespaces {
		x.state.SetNamespace(n.Name, n.Labels, time.Time{})
	}
	for _, n := range c.nodes {
		x.state.SetNode(x.tr.Node(n), 0)
		x.filters.setNode(n)
	}
	for _, m := range c.machines {
		x.state.SetClaim(x.tr.NodeClaim(m), 0)
	}
	for _, a := range c.attached {
		y, node := x.tr.VolumeAttachment(a)
		x.state.SetAttachment(y, node)
	}
	for _, p := range c.standing {
		x.state.SetPod(x.tr.Pod(p))
		if err := x.filters.addPod(p); err != nil {
			return nil, err
		}
	}
	for _, p := range c.pods {
		x.state.SetPod(x.tr.Pod(p))
	}
	x.renew()
	return x, nil
}

// renew makes the check anew, from a snapshot that has all bindings before.
func (x *binder) renew() {
	snap := x.state.Snapshot(time.Unix(1_800_000_000, 0))
	x.check = verify.NewBindingCheck(snap.ResourceNames, snap.Nodes, snap.Namespaces)
}

// tryBindings binds the pods of one seed's cluster, and reports every binding that BindingCheck accepts and kube-scheduler would not.
func tryBindings(t *testing.T, seed uint64, tally *bindingTally) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := newBindingCase(seed)
	if *oneSeed != 0 {
		text, err := c.manifests()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", text)
	}
	x, err := newBinder(ctx, c, tally)
	if err != nil {
		t.Fatal(err)
	}
	x.Shuffle(len(c.pods), func(i, j int) { c.pods[i], c.pods[j] = c.pods[j], c.pods[i] })
	for _, p := range c.pods {
		var may []*corev1.Node
		for _, n := range c.nodes {
			ok, wrong, err := x.ask(p, n)
			if err != nil {
				t.Fatal(err)
			}
			if wrong != "" {
				tally.wrong++
				t.Errorf("seed %d: BindingCheck lets %s/%s be bound to %s, kube-scheduler refuses: %s\n%s", seed, p.Namespace, p.Name, n.Name, wrong, x.describe(p, n))
				return // all that follows would rest on it
			}
			if ok {
				may = append(may, n)
			}
		}
		if len(may) == 0 {
			continue
		}
		n := may[x.IntN(len(may))]
		if x.IntN(2) == 0 { // so that nodes get full
			n = may[0]
		}
		if err := x.bind(p, n); err != nil {
			t.Fatal(err)
		}
	}
}

// ask has both say whether a pod may be bound to a node. wrong is the filter that refuses what BindingCheck accepts.
func (x *binder) ask(p *corev1.Pod, n *corev1.Node) (ok bool, wrong string, err error) {
	why := x.check.Refusal(x.state.FindPod(p.Namespace+"/"+p.Name), n.Name)
	plugin, message, err := x.filters.refusal(p, x.c.asBound(p, n))
	if err != nil {
		return false, "", err
	}
	x.tally.asked++
	accepts := plugin == ""
	switch {
	case why.Code == "" && !accepts:
		return false, plugin + ": " + message, nil
	case why.Code != "" && accepts && (why.Code == plan.NotBindable || !isReady(n) || n.DeletionTimestamp != nil):
		x.tally.left++
	case why.Code != "" && accepts:
		x.tally.fit, x.tally.strict = x.tally.fit+1, x.tally.strict+1
		x.tally.why[string(why.Code)+" "+string(plan.DetailOf[plan.OfBindingUnfit](why).Filter)]++
	case accepts:
		x.tally.fit++
	default:
		x.tally.refused[plugin]++
	}
	return why.Code == "", "", nil
}

// bind makes both count a pod as bound to a node.
func (x *binder) bind(p *corev1.Pod, n *corev1.Node) error {
	q := x.c.bound(p, n)
	for _, kind := range x.kinds(q, n) {
		x.tally.kinds[kind]++
	}
	x.tally.bound++
	if err := x.filters.addPod(q); err != nil {
		return err
	}
	x.check.Bind(x.state.FindPod(p.Namespace+"/"+p.Name), n.Name)
	x.state.SetPod(x.tr.Pod(q))
	x.c.standing = append(x.c.standing, q)
	if x.IntN(8) == 0 {
		x.renew()
	}
	return nil
}

// kinds are what a binding concerns.
func (x *binder) kinds(p *corev1.Pod, n *corev1.Node) (out []string) {
	add := func(kind string, concerns bool) {
		if concerns {
			out = append(out, kind)
		}
	}
	ports, extended := false, false
	for _, c := range p.Spec.Containers {
		ports = ports || len(c.Ports) > 0
		extended = extended || !c.Resources.Requests.Name(gpu, "").IsZero()
	}
	add("host ports", ports)
	add("extended resource", extended)
	a := p.Spec.Affinity
	add("own anti-affinity over hosts", a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
	add("node selection", len(p.Spec.NodeSelector) > 0 || a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil)
	add("spread over hosts", slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}))
	for kind, key := range map[string]string{"others' anti-affinity over zones": zoneKey, "others' anti-affinity over hosts": hostKey} {
		if ok, err := x.filters.repelledFrom(p, key, x.c.labelsOf(p.Namespace)); err == nil {
			add(kind, ok)
		}
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		add("own reservation", t.Key == reservedKey)
		add("taint not-ready", t.Key == corev1.TaintNodeNotReady)
		add("tolerated taint", t.Key != reservedKey && t.Key != corev1.TaintNodeNotReady && t.Effect != corev1.TaintEffectPreferNoSchedule)
	}
	volumes := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	add("volume", volumes)
	add("volume limit", volumes && x.c.attach[n.Name] > 0)
	add("registered driver", volumes && x.c.registered != nil)
	var cpu, pods int64
	for _, q := range append(slices.Clone(x.c.standing), p) {
		if q.Spec.NodeName == n.Name && q.Status.Phase != corev1.PodSucceeded {
			asks := podresources.PodRequests(q, podresources.PodResourcesOptions{})
			cpu, pods = cpu+asks.Cpu().MilliValue(), pods+1
		}
	}
	add("full node", 10*cpu >= 9*n.Status.Allocatable.Cpu().MilliValue() || pods == n.Status.Allocatable.Pods().Value())
	slices.Sort(out)
	return slices.Compact(out)
}

// describe writes a pod, a node, what is on it, and what else a filter may have looked at.
func (x *binder) describe(p *corev1.Pod, n *corev1.Node) string {
	var b strings.Builder
	write := func(o runtime.Object) {
		text, err := yaml.Marshal(o)
		if err != nil {
			text = []byte(err.Error())
		}
		b.WriteString("---\n" + string(text))
	}
	write(p)
	write(n)
	for _, q := range x.c.standing {
		if q.Spec.NodeName == n.Name {
			write(q)
		}
	}
	if len(p.Spec.Volumes) > 0 {
		for _, o := range x.c.others() {
			write(o)
		}
	}
	b.WriteString("--- all nodes and pods: the same with -args -seed " + strconv.FormatUint(x.c.seed, 10) + "\n")
	for _, m := range x.c.nodes {
		fmt.Fprintf(&b, "%s labels %v taints %v:\n", m.Name, m.Labels, m.Spec.Taints)
		for _, q := range x.c.standing {
			if q.Spec.NodeName == m.Name {
				fmt.Fprintf(&b, "  %s/%s labels %v, ends %t, %s\n", q.Namespace, q.Name, q.Labels, q.DeletionTimestamp != nil, q.Status.Phase)
			}
		}
	}
	return b.String()
}

// asBound is a node without the taints that do not keep a pod from being bound to it by Dovetail.
func (c *bindingCase) asBound(p *corev1.Pod, n *corev1.Node) *corev1.Node {
	executes := &corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	soon := isReady(n) && corehelpers.TolerationsTolerateTaint(logr.Discard(), p.Spec.Tolerations, executes, false)
	off := func(t corev1.Taint) bool {
		return t.Key == reservedKey && t.Value != "" && t.Value == c.claimOf(n) || t.Key == corev1.TaintNodeNotReady && soon
	}
	if !slices.ContainsFunc(n.Spec.Taints, off) {
		return n
	}
	n = n.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, off)
	return n
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// labelsOf are those of a namespace.
func (c *bindingCase) labelsOf(namespace string) labels.Set {
	for _, n := range c.namespaces {
		if n.Name == namespace {
			return n.Labels
		}
	}
	return nil
}
