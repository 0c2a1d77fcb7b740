// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// deviceTally counts what was checked.
type deviceTally struct {
	planned, greedy, bound, bought, extra, refused, probed int

	empty   int // nodes without pods in the end, as kube-scheduler has placed these on other nodes than planned
	failing int // pods that are refused as selectors fail on devices
	agents  int // pods that are kept off the nodes of a DaemonSet whose pods request some of the same devices in another way
}

func (a *deviceTally) add(b deviceTally) {
	a.planned, a.greedy, a.bound, a.bought = a.planned+b.planned, a.greedy+b.greedy, a.bound+b.bound, a.bought+b.bought
	a.extra, a.refused, a.probed = a.extra+b.extra, a.refused+b.refused, a.probed+b.probed
	a.empty, a.failing, a.agents = a.empty+b.empty, a.failing+b.failing, a.agents+b.agents
}

// deviceJudge lets a cluster with devices run until nothing is planned any more: Dovetail plans, the nodes come with their devices, and
// kube-scheduler allocates the claims of pods and binds them, where it likes.
type deviceJudge struct {
	c      *deviceCluster
	m      *deviceMutant
	found  []disagreement
	tally  deviceTally
	bought []string // nodes

	answers []*answer
}

// newDeviceFilters starts kube-scheduler with what a cluster has, and more nodes with their devices.
func newDeviceFilters(ctx context.Context, c *deviceCluster, more ...*corev1.Node) (*filters, error) {
	var all []runtime.Object
	for _, o := range c.deviceObjects() {
		o = o.DeepCopyObject()
		if x, ok := o.(metav1.Object); ok {
			x.SetResourceVersion("1")
		}
		all = append(all, o)
	}
	all = append(all, namespaceOfDevices)
	for _, n := range more {
		for _, s := range c.slicesOf(n.Name, n.Labels[typeKey]) {
			all = append(all, s)
		}
	}
	var stored []runtime.Object
	for _, o := range all {
		if _, ok := o.(*resourceapi.ResourceClaim); ok {
			stored = append(stored, o.DeepCopyObject())
		}
	}
	for _, p := range slices.Concat(c.pods, c.standing) {
		stored = append(stored, p.DeepCopy())
	}
	client := fake.NewClientset(stored...)
	version := 1
	client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		version++
		if u, ok := a.(clienttesting.UpdateAction); ok {
			if x, ok := u.GetObject().(metav1.Object); ok {
				x.SetResourceVersion(strconv.Itoa(version))
			}
		}
		return false, nil, nil
	})
	// kube-scheduler creates claims for extended resources, and goes on when it sees them.
	var f *filters
	client.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		version++
		made, ok := a.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim)
		if !ok {
			return false, nil, nil
		}
		made = made.DeepCopy()
		made.Name = made.GenerateName + strconv.Itoa(version)
		made.UID, made.ResourceVersion = types.UID(made.Name), strconv.Itoa(version)
		if err := client.Tracker().Add(made); err != nil {
			return true, nil, err
		}
		return true, made, f.change(made.DeepCopy())
	})
	var err error
	if f, err = newFiltersWith(ctx, client, all); err != nil {
		return nil, err
	}
	for _, n := range slices.Concat(c.nodes, more) {
		f.setNode(n)
	}
	for _, p := range c.standing {
		if err := f.addPod(p); err != nil {
			return nil, err
		}
	}
	return f, nil
}

var namespaceOfDevices = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: devicesIn, ResourceVersion: "1", Labels: map[string]string{corev1.LabelMetadataName: devicesIn}}}

// schedule has kube-scheduler choose a node for a pod and bind it there; nil: no node takes it.
func (f *filters) schedule(p *corev1.Pod) (*corev1.Pod, error) {
	if err := f.cache.UpdateSnapshot(logr.Discard(), f.snapshot); err != nil {
		return nil, err
	}
	info, err := schedulerframework.NewPodInfo(p)
	if err != nil {
		return nil, err
	}
	cycle := schedulerframework.NewCycleState()
	result, err := f.whole.SchedulePod(f.ctx, f.profile, cycle, &schedulerframework.QueuedPodInfo{PodInfo: info})
	var unfit *schedulerframework.FitError
	switch {
	case errors.As(err, &unfit) || errors.Is(err, kubescheduler.ErrNoNodesAvailable):
		return nil, nil
	case err != nil:
		return nil, nil // a selector fails on a device: the pod waits
	}
	return f.bind(cycle, p, result.SuggestedHost)
}

// scheduleOn has kube-scheduler bind a pod to a node; nil: it does not take it, and why.
func (f *filters) scheduleOn(p *corev1.Pod, node string) (*corev1.Pod, string, error) {
	cycle := schedulerframework.NewCycleState()
	plugin, message, err := f.filter(cycle, p, f.nodes[node])
	if err != nil || plugin != "" {
		return nil, plugin + ": " + message, err
	}
	bound, err := f.bind(cycle, p, node)
	return bound, "", err
}

func (f *filters) bind(cycle framework.CycleState, p *corev1.Pod, node string) (*corev1.Pod, error) {
	bound := p.DeepCopy()
	bound.Spec.NodeName = node
	if status := f.profile.RunReservePluginsReserve(f.ctx, cycle, bound, node); !status.IsSuccess() {
		return nil, fmt.Errorf("reserve for pod %s on node %s: %w", p.Name, node, status.AsError())
	}
	if status := f.profile.RunPreBindPlugins(f.ctx, cycle, bound, node); !status.IsSuccess() {
		return nil, fmt.Errorf("bind pod %s to node %s: %w", p.Name, node, status.AsError())
	}
	bound.Status.Phase = corev1.PodRunning
	return bound, f.addPod(bound)
}

// take takes over what kube-scheduler has written: which claims are allocated, and which pods are bound.
func (c *deviceCluster) take(f *filters, bound []*corev1.Pod) error {
	list, err := f.client.ResourceV1().ResourceClaims(devicesIn).List(f.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.wanted = nil
	for i := range list.Items {
		x := &list.Items[i]
		x.ManagedFields, x.ResourceVersion = nil, ""
		if x.Status.Allocation != nil {
			x.Status.Allocation.AllocationTimestamp = nil // the time of the test
		}
		c.wanted = append(c.wanted, x)
	}
	for _, p := range bound {
		c.pods = slices.DeleteFunc(c.pods, func(q *corev1.Pod) bool { return q.Name == p.Name })
		c.standing = append(c.standing, p)
	}
	return nil
}

// mostRounds is how often a cluster is planned at most: each time, kube-scheduler may have chosen other devices than fit best.
const mostRounds = 8

// judgeDevices runs a cluster. An error is of the test's own.
func judgeDevices(c *deviceCluster, m *deviceMutant) (*deviceJudge, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x := &deviceJudge{c: c, m: m}
	x.agents(c.nodes)
	first, err := newDeviceFilters(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := x.scheduleAll(first); err != nil { // only pods that kube-scheduler cannot place are planned for
		return nil, err
	}
	for round := 0; ; round++ {
		a, err := c.answerFor(m.seenBy(c))
		if err != nil {
			return nil, err
		}
		if x.answers = append(x.answers, a); a.broken != nil {
			x.disagree("verify", "round %d: %v", round, a.broken)
		}
		come := x.comingNodes(a)
		x.agents(come)
		for _, p := range c.pods {
			c.makeClaims(p)
		}
		if err := x.landing(ctx, a, come); err != nil {
			return nil, err
		}
		f, err := newDeviceFilters(ctx, c, come...)
		if err != nil {
			return nil, err
		}
		for _, n := range come {
			c.nodes = append(c.nodes, n)
			c.slices = append(c.slices, c.slicesOf(n.Name, n.Labels[typeKey])...)
			x.bought = append(x.bought, n.Name)
		}
		if x.tally.bought += len(come); round > 0 {
			x.tally.extra += len(come)
		}
		bound, err := x.scheduleAll(f)
		if err != nil {
			return nil, err
		}
		x.tally.bound += bound
		if bound == 0 && len(come) == 0 {
			return x, x.end(ctx, a)
		}
		if round == mostRounds {
			x.disagree("endless", "after %d rounds there are %d nodes, and pods still come to new ones", round, len(x.bought))
			return x, nil
		}
	}
}

func (x *deviceJudge) disagree(kind, format string, args ...any) {
	x.found = append(x.found, disagreement{kind, fmt.Sprintf(format, args...)})
}

// scheduleAll has kube-scheduler try pending pods, the oldest first, until it places none any more.
func (x *deviceJudge) scheduleAll(f *filters) (int, error) {
	var all []*corev1.Pod
	for again := true; again; {
		again = false
		for _, p := range x.c.pods {
			if slices.ContainsFunc(all, func(q *corev1.Pod) bool { return q.Name == p.Name }) {
				continue
			}
			bound, err := f.schedule(p)
			if err != nil {
				return 0, err
			}
			if bound != nil {
				all, again = append(all, bound), true
			}
		}
	}
	return len(all), x.c.take(f, all)
}

// agents makes the pods of DaemonSets on nodes, which are pending first of all.
func (x *deviceJudge) agents(nodes []*corev1.Node) []*corev1.Pod {
	made := x.c.agentsOn(nodes)
	x.c.pods = append(made, x.c.pods...)
	for _, p := range made {
		x.c.makeClaims(p)
	}
	return made
}

// comingNodes are the nodes that a plan buys, of the first type that its claim allows.
func (x *deviceJudge) comingNodes(a *answer) (out []*corev1.Node) {
	for _, c := range a.claims() {
		names := make([]string, len(c.Types))
		for j, t := range c.Types {
			names[j] = t.Name
		}
		all := x.c.choices(c.Requirements, names)
		if len(all) == 0 {
			x.disagree("claim", "%s: no offering is allowed by %s", c.Name, c.Requirements)
			continue
		}
		n := registered(all[int(x.c.seed)%len(all)].node(fmt.Sprintf("new%d", len(x.bought)+len(out)+1), c.Pool, nil))
		n.CreationTimestamp = metav1.NewTime(time.Unix(1_799_999_500, 0))
		out = append(out, n)
	}
	return out
}

// orders is how many orders of pods are tried.
const orders = 40

// landing has kube-scheduler take each pod where it was planned, in the order of their age or, if that leaves one without devices, in any other.
func (x *deviceJudge) landing(ctx context.Context, a *answer, come []*corev1.Node) error {
	target := map[string]string{}
	i := 0
	for _, c := range a.claims() {
		if i < len(come) {
			for _, p := range c.Pods {
				target[p.Key()] = come[i].Name
			}
			i++
		}
	}
	for _, p := range a.out.Pods {
		if p.Outcome == plan.OnNode {
			target[p.Pod.Key()] = p.Target
		}
	}
	for _, n := range come {
		for _, p := range x.c.pods {
			if p.Name == "agent-"+n.Name {
				target[p.Namespace+"/"+p.Name] = n.Name
			}
		}
	}
	open := slices.DeleteFunc(slices.Clone(x.c.pods), func(p *corev1.Pod) bool { return target[p.Namespace+"/"+p.Name] == "" })
	if len(open) == 0 {
		return nil
	}
	x.tally.planned += len(open)
	r := rand.New(rand.NewPCG(x.c.seed, 63))
	why := ""
	for try := range orders {
		f, err := newDeviceFilters(ctx, x.c, come...)
		if err != nil {
			return err
		}
		failed := false
		for _, p := range open {
			bound, message, err := f.scheduleOn(p, target[p.Namespace+"/"+p.Name])
			if err != nil {
				message = err.Error()
			}
			if bound == nil && p.Labels["daemon"] == "" { // nobody buys a node for an agent
				failed = true
				if why == "" {
					why = fmt.Sprintf("%s was planned on %s: %s", p.Name, target[p.Namespace+"/"+p.Name], message)
				}
				break
			}
		}
		if !failed {
			if try > 0 {
				x.tally.greedy++
			}
			return nil
		}
		r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	}
	x.disagree("landing", "%s", why)
	return nil
}

// end judges what is left when nothing is planned any more: every pod without a node fits on no empty node of any type.
func (x *deviceJudge) end(ctx context.Context, a *answer) error {
	for _, n := range x.bought {
		if !slices.ContainsFunc(x.c.standing, func(p *corev1.Pod) bool { return p.Spec.NodeName == n && p.Labels["daemon"] == "" }) {
			x.tally.empty++
		}
	}
	var probes []*corev1.Node
	for _, p := range x.c.pools {
		nodes, _ := x.c.probes(a, a.pools[p.Name], func() string { return fmt.Sprintf("probe%d", len(probes)+1) })
		for _, n := range nodes {
			n.Name = fmt.Sprintf("probe%d", len(probes)+1)
			n.Labels[hostKey] = n.Name
			probes = append(probes, registered(n))
		}
	}
	agents := x.agents(probes)
	f, err := newDeviceFilters(ctx, x.c, probes...)
	if err != nil {
		return err
	}
	waits := map[string]bool{} // nodes on which an agent would wait for ever, so that none is launched
	for _, p := range agents {
		node := strings.TrimPrefix(p.Name, p.Labels["daemon"]+"-")
		bound, message, err := f.scheduleOn(p, node)
		if err != nil {
			return fmt.Errorf("%s on %s: %s: %w", p.Name, node, message, err)
		}
		waits[node] = bound == nil
	}
	for _, p := range a.out.Pods {
		i := slices.IndexFunc(x.c.pods, func(q *corev1.Pod) bool { return q.Namespace+"/"+q.Name == p.Pod.Key() })
		if i < 0 {
			return fmt.Errorf("%s is planned for and not there", p.Pod.Key())
		}
		if x.c.pods[i].Labels["daemon"] != "" {
			continue
		}
		if p.Outcome != plan.Refused {
			x.disagree("stuck", "%s: %s %s, and kube-scheduler does not place it", p.Pod.Key(), p.Outcome, p.Target)
			continue
		}
		x.tally.refused++
		for _, n := range probes {
			if waits[n.Name] {
				continue
			}
			x.tally.probed++
			plugin, _, err := f.filter(schedulerframework.NewCycleState(), x.c.pods[i], n)
			if err != nil || plugin != "" {
				continue
			}
			if x.c.kinds["broken selectors"] && (p.Reasons[0].Code == plan.Resource || strings.Contains(plan.DetailOf[plan.OfUnsupported](p.Reasons[0]).Field, "waits until")) {
				x.tally.failing++ // whether kube-scheduler comes upon such a device depends on the order of the devices; others may wait for the pod
				break
			}
			if p.Reasons[0].Code == plan.PodAntiAffinity {
				if d := plan.DetailOf[plan.OfPodAntiAffinity](p.Reasons[0]); d.OfDevices && d.Daemons {
					x.tally.agents++ // an agent requests some of the same devices in a way that is not counted with others
					break
				}
			}
			x.disagree("refusal", "%s is refused (%v), and kube-scheduler takes it on an empty node of type %s", p.Pod.Key(), p.Reasons, n.Labels[typeKey])
			break
		}
	}
	return nil
}
