// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// liveCluster is a cluster at work in virtual time: an API server, kube-scheduler, kubelets, Deployments and a cloud.
// Any number of loops watch it, each with a lag of its own; what one of them does has its effect after some milliseconds,
// as on a real API server.
type liveCluster struct {
	bench // for the calls that have no effect here, and as the cloud
	loops []*watchingLoop

	mu        sync.Mutex
	rnd       *rand.Rand // lags and the time that calls take
	version   uint64
	serial    int
	pods      map[string]*model.Pod
	nodes     map[string]*model.Node
	claims    map[string]*model.Claim
	owners    map[string]string // by node: uid of its NodeClaim
	instances map[string]*liveInstance
	apps      map[string]*liveApp
}

// liveInstance is a machine of the cloud.
type liveInstance struct {
	model.Instance
	node string
	typ  *model.InstanceType
}

// liveApp is a Deployment.
type liveApp struct {
	name string
	want int
	cpu  int64 // of each pod, in milli-CPU
}

// watchingLoop is a loop with the changes that are on their way to it, a queue for each kind of object.
type watchingLoop struct {
	c      *Controller
	lag    time.Duration // at most, of each change
	queues map[string]chan lateChange
	last   map[string]time.Time
}

// lateChange is a change that a loop is shown at an instant.
type lateChange struct {
	at     time.Time
	change state.Change
}

// runLive plays a test in virtual time on a cluster at work.
func runLive(t *testing.T, seed uint64, play func(t *testing.T, l *liveCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &liveCluster{rnd: rand.New(rand.NewPCG(seed, 7)), pods: map[string]*model.Pod{}, nodes: map[string]*model.Node{}, claims: map[string]*model.Claim{},
			owners: map[string]string{}, instances: map[string]*liveInstance{}, apps: map[string]*liveApp{}}
		l.bench.notices = make(chan cloud.Interruption)
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { l.work(ctx) })
		play(t, l)
		cancel()
		ended.Wait()
		for _, end := range l.atEnd {
			end()
		}
		synctest.Wait()
	})
}

// liveTypes are what the cloud sells.
var liveTypes = []*model.InstanceType{instanceType("large", 8000, 380_000), instanceType("medium", 4000, 195_000), instanceType("small", 2000, 100_000)}

// watch starts a loop that is shown each change at most lag after it is made. It ends with the test.
func (l *liveCluster) watch(t *testing.T, lag time.Duration, shadow bool) *Controller {
	t.Helper()
	c := New(&Controller{ReadOnly: shadow, Cluster: l, Provider: cloud.NewSetAside(l, cloud.Wall{}, cloud.SetAsideFor), State: state.New(), Ledger: ledger.New(1000),
		Metrics: metrics.New(prometheus.NewRegistry(), "test", cloud.Traits{}), Log: slog.New(slog.DiscardHandler), Config: DefaultConfig(), Policy: decide.DefaultPolicy()})
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("a loop ended with %v", err)
		}
	})
	w := &watchingLoop{c: c, lag: lag, queues: map[string]chan lateChange{}, last: map[string]time.Time{}}
	for _, kind := range []string{"pods", "nodes", "claims", "replicas"} {
		q := make(chan lateChange, 10000)
		w.queues[kind] = q
		ended.Go(func() {
			for {
				select {
				case x := <-q:
					time.Sleep(time.Until(x.at))
					if ctx.Err() == nil {
						c.Emit(x.change)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	l.mu.Lock()
	l.loops = append(l.loops, w)
	l.mu.Unlock()
	l.atEnd = append(l.atEnd, func() { cancel(); ended.Wait() })
	c.Emit(func(s *state.State) {
		s.SetNamespace("default", nil, time.Time{})
		s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1})
		s.Pools.SetPool(&model.NodePool{Name: "p", UID: "uid-p", Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidationPolicy: "WhenEmptyOrUnderutilized",
			Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p")), ClassGroup: "g", ClassKind: "K", ClassName: "c"})
	})
	c.MarkSynced()
	c.StartActing()
	return c
}

// tell has every loop shown a change, in order among those of its kind. The lock is held.
func (l *liveCluster) tell(kind string, ch state.Change) {
	for _, w := range l.loops {
		at := time.Now()
		if w.lag > 0 {
			at = at.Add(time.Duration(l.rnd.Int64N(int64(w.lag))))
		}
		if at.Before(w.last[kind]) {
			at = w.last[kind]
		}
		w.last[kind] = at
		w.queues[kind] <- lateChange{at, ch}
	}
}

// scale sets how many pods a Deployment is to have, each asking for so much CPU.
func (l *liveCluster) scale(app string, pods int, cpu int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.apps[app]
	if a == nil {
		a = &liveApp{name: app, cpu: cpu}
		l.apps[app] = a
	}
	a.want = pods
	l.tell("replicas", func(s *state.State) { s.SetReplicas("uid-"+app, pods) })
}

func (l *liveCluster) setPod(p model.Pod) {
	l.version++
	l.pods[p.Key()] = &p
	l.tell("pods", func(s *state.State) { q := p; s.SetPod(&q) })
}

func (l *liveCluster) dropPod(p *model.Pod) {
	delete(l.pods, p.Key())
	key := p.Key()
	l.tell("pods", func(s *state.State) { s.DeletePod(key) })
}

func (l *liveCluster) setNode(n model.Node) uint64 {
	l.version++
	v := l.version
	l.nodes[n.Name] = &n
	l.tell("nodes", func(s *state.State) { m := n; s.SetNode(&m, v) })
	return v
}

func (l *liveCluster) dropNode(name string) {
	delete(l.nodes, name)
	delete(l.owners, name)
	l.tell("nodes", func(s *state.State) { s.DeleteNode(name) })
	for _, key := range slices.Sorted(maps.Keys(l.pods)) {
		if l.pods[key].Node == name {
			l.dropPod(l.pods[key])
		}
	}
}

func (l *liveCluster) deleteNode(n *model.Node) uint64 {
	switch {
	case !n.HasFinalizer:
		l.dropNode(n.Name)
	case n.Deleting.IsZero():
		m := *n
		m.Deleting = time.Now()
		return l.setNode(m)
	}
	return l.version
}

func (l *liveCluster) setClaim(c model.Claim) uint64 {
	l.version++
	v := l.version
	l.claims[c.Name] = &c
	l.tell("claims", func(s *state.State) { d := c; s.SetClaim(&d, v) })
	return v
}

// call takes the time that a call to the API server takes, and holds the lock for what it does there.
func (l *liveCluster) call() (done func()) {
	l.mu.Lock()
	before, after := time.Duration(l.rnd.IntN(6000))*time.Microsecond, time.Duration(l.rnd.IntN(3000))*time.Microsecond
	l.mu.Unlock()
	time.Sleep(before)
	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		time.Sleep(after)
	}
}

// CreateClaim implements Cluster.
func (l *liveCluster) CreateClaim(_ context.Context, a plan.CreateClaim) (uint64, error) {
	defer l.call()()
	if l.claims[a.Name] != nil {
		return l.version, nil
	}
	l.serial++
	labels := sim.Edited(a.Pool.Labels, map[string]string{model.LabelNodePool: a.Pool.Name})
	return l.setClaim(model.Claim{Name: a.Name, UID: fmt.Sprintf("uid-%s-%d", a.Name, l.serial), Pool: a.Pool.Name, Requirements: a.Requirements, Requests: a.Requests,
		Labels: labels, Annotations: sim.Edited(a.Annotations, nil), ClassGroup: a.Pool.ClassGroup, ClassKind: a.Pool.ClassKind, ClassName: a.Pool.ClassName,
		ExpireAfter: -1, TerminationGracePeriod: -1, Created: time.Now(), HasFinalizer: true, Conditions: map[string]model.Condition{}, Reserved: a.Reserved, Slots: a.Slots,
		NoReserve: string(a.NoReserve.Code)}), nil
}

// UpdateClaim implements Cluster.
func (l *liveCluster) UpdateClaim(_ context.Context, a plan.UpdateClaim) (uint64, error) {
	defer l.call()()
	have := l.claims[a.Claim]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	c := *have
	c.Labels, c.Annotations, c.Conditions = sim.Edited(c.Labels, a.Labels), sim.Edited(c.Annotations, a.Annotations), maps.Clone(c.Conditions)
	if a.NodeName != "" {
		c.NodeName = a.NodeName
	}
	if a.ProviderID != "" {
		c.ProviderID, c.Capacity, c.Allocatable = a.ProviderID, a.Capacity, a.Allocatable
	}
	if !a.LastPodEvent.IsZero() {
		c.LastPodEvent = a.LastPodEvent
	}
	if v, ok := a.Annotations["dovetail.sh/reserved"]; ok {
		c.Reserved = v == "true"
	}
	if a.SetSlots {
		c.Slots = a.Slots
	}
	for k, v := range a.Conditions {
		if v.Since = c.Conditions[k].Since; v.Status != c.Conditions[k].Status {
			v.Since = time.Now()
		}
		c.Conditions[k] = v
	}
	if a.RemoveFinalizer {
		c.HasFinalizer = false
		if !c.Deleting.IsZero() {
			delete(l.claims, c.Name)
			l.tell("claims", func(s *state.State) { s.DeleteClaim(c.Name) })
			for _, name := range slices.Sorted(maps.Keys(l.nodes)) { // the garbage collector
				if l.owners[name] == c.UID {
					l.deleteNode(l.nodes[name])
				}
			}
			return l.version, nil
		}
	}
	return l.setClaim(c), nil
}

// DeleteClaim implements Cluster.
func (l *liveCluster) DeleteClaim(_ context.Context, a plan.DeleteClaim) (uint64, error) {
	defer l.call()()
	have := l.claims[a.Claim]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	if c := *have; c.Deleting.IsZero() {
		c.Deleting = time.Now()
		l.setClaim(c)
	}
	return 0, nil
}

// UpdateNode implements Cluster.
func (l *liveCluster) UpdateNode(_ context.Context, a plan.UpdateNode) (uint64, error) {
	defer l.call()()
	have := l.nodes[a.Node]
	if have == nil || have.UID != a.UID {
		return 0, plan.ErrGone
	}
	n := *have
	n.Labels, n.Annotations = sim.Edited(n.Labels, a.Labels), sim.Edited(n.Annotations, a.Annotations)
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return slices.ContainsFunc(slices.Concat(a.RemoveTaints, a.AddTaints), func(r model.Taint) bool { return r.Key == t.Key && r.Effect == t.Effect })
	})
	n.Taints = append(n.Taints, a.AddTaints...)
	n.DaemonsOnly = n.HasTaint(model.TaintReserved) && (a.DaemonsOnly || n.DaemonsOnly && len(a.AddTaints) == 0)
	if a.OwnerUID != "" {
		l.owners[n.Name] = a.OwnerUID
	}
	n.HasFinalizer = n.HasFinalizer || a.AddFinalizer
	if a.RemoveFinalizer {
		n.HasFinalizer = false
		if !n.Deleting.IsZero() {
			l.dropNode(n.Name)
			return l.version, nil
		}
	}
	return l.setNode(n), nil
}

// DeleteNode implements Cluster.
func (l *liveCluster) DeleteNode(_ context.Context, a plan.DeleteNode) (uint64, error) {
	defer l.call()()
	n := l.nodes[a.Node]
	if n == nil || n.UID != a.UID {
		return 0, plan.ErrGone
	}
	return l.deleteNode(n), nil
}

// Bind implements Cluster.
func (l *liveCluster) Bind(_ context.Context, a plan.Bind) (uint64, error) {
	defer l.call()()
	p := l.pods[model.PodKey(a.Namespace, a.Pod)]
	switch {
	case p == nil || p.UID != a.UID:
		return 0, plan.ErrGone
	case p.Node != "" || !p.Deleting.IsZero():
		return 0, plan.ErrConflict
	}
	q := *p
	q.Node, q.Bound = a.Node, time.Now()
	l.setPod(q)
	return 0, nil
}

// Evict implements Cluster.
func (l *liveCluster) Evict(_ context.Context, a plan.Evict) (uint64, error) {
	return l.removePod(model.PodKey(a.Namespace, a.Pod), a.UID)
}

// DeletePod implements Cluster.
func (l *liveCluster) DeletePod(_ context.Context, a plan.DeletePod) (uint64, error) {
	return l.removePod(model.PodKey(a.Namespace, a.Pod), a.UID)
}

func (l *liveCluster) removePod(key, uid string) (uint64, error) {
	defer l.call()()
	p := l.pods[key]
	if p == nil || p.UID != uid {
		return 0, plan.ErrGone
	}
	l.endPod(p)
	return 0, nil
}

// endPod has a pod end within a second, or at once where it has no node. The lock is held.
func (l *liveCluster) endPod(p *model.Pod) {
	switch q := *p; {
	case q.Node == "":
		l.dropPod(p)
	case q.Deleting.IsZero():
		q.Deleting = time.Now().Add(time.Second)
		l.setPod(q)
	}
}

// Claimed implements Cluster.
func (l *liveCluster) Claimed(_ context.Context, a plan.Terminate) (bool, error) {
	defer l.call()()
	c := l.claims[a.Of]
	return c != nil && c.UID == a.OfUID, nil
}

// Offerings implements cloud.Provider.
func (l *liveCluster) Offerings(context.Context, *model.NodePool, cloud.NodeClass) ([]*model.InstanceType, error) {
	return liveTypes, nil
}

// Launch implements cloud.Provider.
func (l *liveCluster) Launch(_ context.Context, reqs []cloud.LaunchRequest) []cloud.LaunchResult {
	defer l.call()()
	out := make([]cloud.LaunchResult, len(reqs))
	for i, r := range reqs {
		m := l.instances[r.ClaimUID]
		if m == nil {
			l.serial++
			m = &liveInstance{Instance: model.Instance{ProviderID: fmt.Sprint("i-", l.serial), ClaimUID: r.ClaimUID, ClaimName: r.ClaimName, Launched: time.Now()}}
			for _, x := range liveTypes {
				if q := r.Requirements.Get(model.LabelInstanceType); (q == nil || q.Matches(x.Name, true)) && r.Requests.Fits(x.Allocatable) {
					m.typ = x // the last is the cheapest
				}
			}
			l.instances[r.ClaimUID] = m
		}
		out[i] = cloud.LaunchResult{ClaimUID: r.ClaimUID, ProviderID: m.ProviderID, InstanceType: m.typ.Name, Zone: "a", CapacityType: model.OnDemand, PriceMicro: m.typ.Offerings[0].PriceMicro,
			Capacity: m.typ.Capacity, Allocatable: m.typ.Allocatable, Labels: model.Labels{model.LabelInstanceType: m.typ.Name, model.LabelZone: "a", model.LabelCapacityType: model.OnDemand}}
	}
	return out
}

// List implements cloud.Provider.
func (l *liveCluster) List(context.Context) ([]model.Instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []model.Instance
	for _, uid := range slices.Sorted(maps.Keys(l.instances)) {
		out = append(out, l.instances[uid].Instance)
	}
	return out, nil
}

// Terminate implements cloud.Provider.
func (l *liveCluster) Terminate(_ context.Context, ids []string) []error {
	defer l.call()()
	for _, m := range l.instances {
		if slices.Contains(ids, m.ProviderID) {
			m.Gone = true
		}
	}
	return make([]error, len(ids))
}

// work is everybody who has a part in the cluster, until the context ends.
func (l *liveCluster) work(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		l.mu.Lock()
		l.runKubelets()
		l.runDeployments()
		l.runScheduler()
		l.mu.Unlock()
	}
}

// liveBoot is how long an instance takes until its node has come, and half as long again until that is Ready.
const liveBoot = 600 * time.Millisecond

var notReadyTaint = model.Taint{Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}

// runKubelets has instances become nodes, nodes become Ready, and pods end.
func (l *liveCluster) runKubelets() {
	now := time.Now()
	for _, uid := range slices.Sorted(maps.Keys(l.instances)) {
		m := l.instances[uid]
		n := l.nodes[m.node]
		switch {
		case m.Gone:
			if n == nil {
				delete(l.instances, uid)
			}
		case m.node == "" && now.Sub(m.Launched) >= liveBoot:
			m.node = "n-" + m.ProviderID
			l.setNode(model.Node{Name: m.node, UID: "uid-" + m.node, ProviderID: m.ProviderID, Created: now, Capacity: m.typ.Capacity, Allocatable: m.typ.Allocatable,
				Labels: model.Labels{model.LabelHostname: m.node, model.LabelInstanceType: m.typ.Name, model.LabelZone: "a", model.LabelCapacityType: model.OnDemand, model.LabelNodePool: "p"},
				Taints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}, notReadyTaint}})
		case n != nil && !n.Ready && now.Sub(m.Launched) >= liveBoot*3/2:
			r := *n
			r.Ready, r.ReadySince, r.Conditions = true, now, map[string]model.Condition{"Ready": {Status: "True", Since: now}}
			r.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t == notReadyTaint })
			l.setNode(r)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.pods)) {
		if p := l.pods[key]; p.Node != "" && (l.nodes[p.Node] == nil || !p.Deleting.IsZero() && !now.Before(p.Deleting)) {
			l.dropPod(p)
		}
	}
}

// runDeployments makes pods that are missing and ends those that are too many.
func (l *liveCluster) runDeployments() {
	have := map[string][]*model.Pod{}
	for _, key := range slices.Sorted(maps.Keys(l.pods)) {
		if p := l.pods[key]; p.Deleting.IsZero() {
			have[p.Owner.Name] = append(have[p.Owner.Name], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.apps)) {
		a := l.apps[name]
		for n := len(have[name]); n < a.want; n++ {
			l.serial++
			l.setPod(model.Pod{Namespace: "default", Name: fmt.Sprintf("%s-%d", name, l.serial), UID: fmt.Sprintf("uid-%s-%d", name, l.serial), Seen: uint64(l.serial), Created: time.Now(),
				GracePeriod: time.Second, Owner: model.Owner{Kind: "ReplicaSet", Name: name, UID: "uid-" + name},
				Class: &model.Class{Key: name, Namespace: "default", Labels: model.Labels{"app": name}, Requests: model.Resources{a.cpu, 64 << 20, 0, 1}, Scheduler: "default-scheduler"}})
		}
		for n := len(have[name]); n > a.want; n-- {
			l.endPod(have[name][n-1])
		}
	}
}

// runScheduler binds each pod to the node with the most free CPU that holds it, or says that there is none.
func (l *liveCluster) runScheduler() {
	var waiting []string
	for _, key := range slices.Sorted(maps.Keys(l.pods)) {
		if p := l.pods[key]; p.Node == "" && p.Deleting.IsZero() {
			waiting = append(waiting, key)
		}
	}
	if len(waiting) == 0 {
		return
	}
	used := map[string]model.Resources{}
	for _, p := range l.pods {
		if p.Node != "" {
			used[p.Node] = used[p.Node].Add(p.Class.Requests)
		}
	}
	for _, key := range waiting {
		q, best, most := *l.pods[key], "", int64(-1)
		for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
			n := l.nodes[name]
			free := n.Allocatable.Sub(used[name])
			if model.Untolerated(n.Taints, nil) == nil && q.Class.Requests.Fits(free) && free.At(model.CPU) > most {
				best, most = name, free.At(model.CPU)
			}
		}
		switch {
		case best != "":
			q.Node, q.Bound = best, time.Now()
			used[best] = used[best].Add(q.Class.Requests)
		case q.Unschedulable.IsZero():
			q.Unschedulable = time.Now()
		default:
			continue
		}
		l.setPod(q)
	}
}

// pending returns how many pods have no node.
func (l *liveCluster) pending() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pods {
		if p.Node == "" {
			n++
		}
	}
	return n
}
