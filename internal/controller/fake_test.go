// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
	"github.com/dovetail-sh/dovetail/internal/state"
)

// bench is a loop in virtual time with a cluster and a cloud that do as they are told. What a test does not say succeeds and has
// the effect that the watch then shows.
type bench struct {
	c     *Controller
	start time.Time
	also  []*Controller // loops that see the same changes
	atEnd []func()      // what is to be ended before the test is

	mu      sync.Mutex
	version uint64
	calls   []made
	claims  map[string]*model.Claim
	bought  []model.Instance
	request *model.ProvisioningRequest // as the API server had it at first; there is one at most
	unshown []state.Change             // that the watch is to show, oldest first

	createClaim  func(plan.CreateClaim) error
	updateClaim  func(plan.UpdateClaim) error
	updatePool   func() error
	deleteClaim  func(plan.DeleteClaim) error
	claimed      func(plan.Terminate) error
	launch       func(context.Context, cloud.LaunchRequest) cloud.LaunchResult
	offerings    func() ([]*model.InstanceType, error)
	notices      chan cloud.Interruption
	shifts       []model.ZonalShift
	shiftsUnread bool
	shifted      chan struct{} // whenever shifts are others
	registry     *prometheus.Registry
	drifts       func(cloud.DriftQuery) string
	updateClass  func(plan.UpdateNodeClass) error
	endClass     func() error // nil: nothing is made for node classes
	reboot       func() error
	classStatus  func(cloud.NodeClass) cloud.ClassStatus
	webhook      func(namespace string) error
}

// made is a call that the loop made.
type made struct {
	after time.Duration // since the bench began
	kind  string        // create, launch, delete, event …
	what  string
}

func (m made) String() string { return fmt.Sprintf("+%s %s %s", m.after, m.kind, m.what) }

// run plays a test in virtual time: the loop leads and has seen a cluster with one pool. What else a test gives the loop it
// gives before the loop is made.
func run(t *testing.T, play func(t *testing.T, b *bench), given ...func(b *bench, c *Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{claims: map[string]*model.Claim{}, notices: make(chan cloud.Interruption), shifted: make(chan struct{}), registry: prometheus.NewRegistry()}
		c := &Controller{Cluster: b, Provider: cloud.NewSetAside(b, cloud.Wall{}, cloud.SetAsideFor), State: state.New(), Ledger: ledger.New(1000),
			Metrics: metrics.New(b.registry, "test", b.Traits()), Log: slog.New(slog.DiscardHandler), Config: DefaultConfig(), Policy: decide.DefaultPolicy()}
		for _, give := range given {
			give(b, c)
		}
		b.c = New(c)
		b.registry.MustRegister(metrics.NewState(b.c.Metrics, b.c, nil, true, b.c.Log), metrics.NewGroups(b.c.Metrics, b.c))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.c.Run(ctx) }()
		b.c.Emit(showPool)
		b.start = time.Now()
		play(t, b)
		cancel()
		for _, end := range b.atEnd {
			end()
		}
		synctest.Wait()
		if err := <-ended; err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
}

// showPool shows a cluster with one pool.
func showPool(s *state.State) {
	s.SetNamespace("default", nil, time.Time{})
	s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1})
	s.Pools.SetPool(&model.NodePool{Name: "p", UID: "uid-p", Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
		Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p"), model.OneOf(model.LabelInstanceType, "cheap", "dear")), ClassGroup: "g", ClassKind: "K", ClassName: "c"})
}

// emit shows a change to every loop. A change may be taken twice, so it makes what it shows.
func (b *bench) emit(ch state.Change) {
	b.c.Emit(ch)
	for _, c := range b.also {
		c.Emit(ch)
	}
}

// lead has the loop act, from now on.
func (b *bench) lead() {
	b.c.MarkSynced()
	b.c.StartActing()
	time.Sleep(5 * time.Second)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.start = nil, time.Now()
}

func (b *bench) note(kind, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, made{time.Since(b.start), kind, what})
}

// made are the calls of a kind so far, when all that was to happen has.
func (b *bench) made(kind string) []made {
	synctest.Wait()
	return b.made0(kind)
}

// made0 is made for what is itself called by the loop.
func (b *bench) made0(kind string) []made {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []made
	for _, m := range b.calls {
		if m.kind == kind {
			out = append(out, m)
		}
	}
	return out
}

// pod has a pod come that kube-scheduler has refused, a class a name unless said.
func (b *bench) pod(name, class string) { b.podIn("default", name, class) }

func (b *bench) podIn(namespace, name, class string) {
	now := time.Now()
	b.emit(func(s *state.State) {
		s.SetPod(&model.Pod{Namespace: namespace, Name: name, UID: "uid-" + name, Created: now, Unschedulable: now,
			Owner: model.Owner{Kind: "ReplicaSet", Name: class, UID: "uid-" + class},
			Class: &model.Class{Key: class, Namespace: namespace, Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}})
	})
}

// watch has the watch show a change of the API server, in the order of these. The caller holds mu.
func (b *bench) watch(ch state.Change) {
	if b.unshown = append(b.unshown, ch); len(b.unshown) > 1 {
		return
	}
	go func() {
		for {
			b.emit(ch)
			b.mu.Lock()
			b.unshown = b.unshown[1:]
			if len(b.unshown) == 0 {
				b.mu.Unlock()
				return
			}
			ch = b.unshown[0]
			b.mu.Unlock()
		}
	}()
}

// show has the watch show a claim.
func (b *bench) show(c *model.Claim, v uint64) {
	b.emit(func(s *state.State) { s.SetClaim(c, v) })
}

// CreateClaim implements Cluster.
func (b *bench) CreateClaim(_ context.Context, a plan.CreateClaim) (uint64, error) {
	b.note("create", a.Name)
	if b.createClaim != nil {
		if err := b.createClaim(a); err != nil {
			return 0, err
		}
	}
	return b.make(a), nil
}

// make makes a claim, once.
func (b *bench) make(a plan.CreateClaim) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claims[a.Name] == nil {
		b.version++
		b.claims[a.Name] = &model.Claim{Name: a.Name, UID: "uid-" + a.Name, Pool: a.Pool.Name, Requirements: a.Requirements, Requests: a.Requests,
			Created: time.Now(), Annotations: a.Annotations, HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1, Reserved: a.Reserved, Slots: a.Slots,
			ClassGroup: a.Pool.ClassGroup, ClassKind: a.Pool.ClassKind, ClassName: a.Pool.ClassName, Conditions: map[string]model.Condition{}, Labels: model.Labels{}}
	}
	c, v := b.claims[a.Name], b.version
	b.watch(func(s *state.State) { s.SetClaim(c, v) })
	return v
}

// UpdateClaim implements Cluster.
func (b *bench) UpdateClaim(_ context.Context, a plan.UpdateClaim) (uint64, error) {
	b.note("update", a.Claim)
	if b.updateClaim != nil {
		if err := b.updateClaim(a); err != nil {
			return 0, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.claims[a.Claim]
	if have == nil {
		return 0, plan.ErrGone
	}
	if a.RemoveFinalizer {
		delete(b.claims, a.Claim)
		b.watch(func(s *state.State) { s.DeleteClaim(a.Claim) })
		return 0, nil
	}
	c := *have
	c.Conditions = map[string]model.Condition{}
	for k, v := range have.Conditions {
		c.Conditions[k] = v
	}
	for k, v := range a.Conditions {
		v.Since = time.Now()
		c.Conditions[k] = v
	}
	c.Annotations = model.Labels{}
	for _, from := range []map[string]string{have.Annotations, a.Annotations} {
		for k, v := range from {
			if c.Annotations[k] = v; v == plan.Unset {
				delete(c.Annotations, k)
			}
		}
	}
	if a.ProviderID != "" {
		c.ProviderID, c.Capacity, c.Allocatable = a.ProviderID, a.Capacity, a.Allocatable
	}
	if a.SetSlots {
		c.Slots = a.Slots
	}
	b.version++
	b.claims[a.Claim] = &c
	v := b.version
	b.watch(func(s *state.State) { s.SetClaim(&c, v) })
	return v, nil
}

// DeleteClaim implements Cluster.
func (b *bench) DeleteClaim(_ context.Context, a plan.DeleteClaim) (uint64, error) {
	b.note("delete", a.Claim)
	if b.deleteClaim != nil {
		if err := b.deleteClaim(a); err != nil {
			return 0, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if have := b.claims[a.Claim]; have != nil {
		c := *have
		c.Deleting = time.Now()
		b.version++
		b.claims[a.Claim] = &c
		v := b.version
		b.watch(func(s *state.State) { s.SetClaim(&c, v) })
	}
	return 0, nil
}

// UpdateNode implements Cluster.
func (b *bench) UpdateNode(_ context.Context, a plan.UpdateNode) (uint64, error) {
	b.note("node", a.Node)
	return 0, nil
}

// DeleteNode implements Cluster.
func (b *bench) DeleteNode(context.Context, plan.DeleteNode) (uint64, error) { return 0, nil }

// Bind implements Cluster.
func (b *bench) Bind(_ context.Context, a plan.Bind) (uint64, error) {
	b.note("bind", model.PodKey(a.Namespace, a.Pod))
	return 0, b.admit(a.Namespace)
}

// Tolerate implements Cluster.
func (b *bench) Tolerate(_ context.Context, a plan.Tolerate) (uint64, error) {
	b.note("tolerate", model.PodKey(a.Namespace, a.Pod))
	return 0, b.admit(a.Namespace)
}

// admit asks a namespace's admission webhooks.
func (b *bench) admit(namespace string) error {
	if b.webhook == nil {
		return nil
	}
	return b.webhook(namespace)
}

// Evict implements Cluster.
func (b *bench) Evict(_ context.Context, a plan.Evict) (uint64, error) {
	b.note("evict", model.PodKey(a.Namespace, a.Pod))
	return 0, b.admit(a.Namespace)
}

// Restart implements Cluster.
func (b *bench) Restart(context.Context, plan.Restart) (uint64, error) { return 0, nil }

// DeletePod implements Cluster.
func (b *bench) DeletePod(context.Context, plan.DeletePod) (uint64, error) { return 0, nil }

// UpdatePool implements Cluster.
func (b *bench) UpdatePool(context.Context, plan.UpdatePool) (uint64, error) {
	b.note("pool", "")
	if b.updatePool != nil {
		return 0, b.updatePool()
	}
	return 0, nil
}

// UpdateRequest implements Cluster.
func (b *bench) UpdateRequest(_ context.Context, a plan.UpdateRequest) (uint64, error) {
	for _, name := range slices.Sorted(maps.Keys(a.Conditions)) {
		v := a.Conditions[name]
		b.note("request", a.Request+" "+name+"="+v.Status+" "+v.Reason+": "+v.Message)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	r, v := *b.request, b.version
	r.Status, r.RetryAt, r.Attempts = a.Conditions, a.RetryAt, a.Attempts
	b.watch(func(s *state.State) { s.SetRequest(&r, v) })
	return v, nil
}

// UpdateBuffer implements Cluster.
func (b *bench) UpdateBuffer(_ context.Context, a plan.UpdateBuffer) (uint64, error) {
	v := a.Conditions["Provisioning"]
	b.note("buffer", a.Buffer+" "+v.Status+" "+v.Reason+": "+v.Message)
	return 0, nil
}

// UpdateQuota implements Cluster.
func (b *bench) UpdateQuota(context.Context, plan.UpdateQuota) (uint64, error) { return 0, nil }

// UpdateNodeOverlay implements Cluster.
func (b *bench) UpdateNodeOverlay(_ context.Context, a plan.UpdateNodeOverlay) (uint64, error) {
	v := a.Conditions["ValidationSucceeded"]
	b.note("overlay", a.Overlay+" "+v.Status+" "+v.Reason+": "+v.Message)
	return 0, nil
}

// UpdateNodeClass implements Cluster.
func (b *bench) UpdateNodeClass(_ context.Context, a plan.UpdateNodeClass) (uint64, error) {
	switch {
	case a.AddFinalizer:
		b.note("class", "+finalizer "+a.UID)
	case a.RemoveFinalizer:
		b.note("class", "-finalizer "+a.UID)
	default:
		r := a.Conditions["Ready"]
		b.note("class", r.Status+" "+r.Reason+": "+r.Message)
	}
	if b.updateClass != nil {
		return 0, b.updateClass(a)
	}
	return 0, nil
}

// EndsClasses implements cloud.ClassEnder.
func (b *bench) EndsClasses(string, string) bool { return b.endClass != nil }

// EndClass implements cloud.ClassEnder.
func (b *bench) EndClass(_ context.Context, k cloud.NodeClass) error {
	b.note("end", k.Name)
	return b.endClass()
}

// ClassStatus implements cloud.ClassStatuser.
func (b *bench) ClassStatus(_ context.Context, k cloud.NodeClass) (cloud.ClassStatus, error) {
	if b.classStatus == nil {
		return cloud.ClassStatus{}, nil
	}
	return b.classStatus(k), nil
}

// Claimed implements Cluster.
func (b *bench) Claimed(_ context.Context, a plan.Terminate) (bool, error) {
	if b.claimed != nil {
		if err := b.claimed(a); err != nil {
			return false, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[a.Of] != nil && b.claims[a.Of].UID == a.OfUID, nil
}

// Event implements Cluster.
func (b *bench) Event(kind, _, name, _ string, _ bool, reason, message string) {
	b.note("event", kind+" "+name+" "+reason+": "+message)
}

// WriteReported implements Cluster.
func (b *bench) WriteReported(kind, _, name, _ string, w plan.WriteReport) {
	b.note("event", kind+" "+name+" "+w.Reason()+": "+w.Text())
}

// Traits implements cloud.Provider.
func (b *bench) Traits() cloud.Traits {
	return cloud.Traits{Name: "bench", Classes: []cloud.ClassKind{{Group: "g", Kind: "K"}}}
}

var catalogue = []*model.InstanceType{instanceType("cheap", 4000, 100_000), instanceType("dear", 4000, 300_000)}

func instanceType(name string, cpu, price int64) *model.InstanceType {
	r := model.Resources{cpu, 16 << 30, 0, 110}
	return &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}, Capacity: r, Allocatable: r,
		Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: price, Available: true, Remaining: -1}}}
}

// Offerings implements cloud.Provider.
func (b *bench) Offerings(context.Context, *model.NodePool, cloud.NodeClass) ([]*model.InstanceType, error) {
	if b.offerings != nil {
		return b.offerings()
	}
	return catalogue, nil
}

// ZonalShifts implements cloud.ZoneShifter.
func (b *bench) ZonalShifts() (shifts []model.ZonalShift, read bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shifts, !b.shiftsUnread
}

// WatchZonalShifts implements cloud.ZoneShifter.
func (b *bench) WatchZonalShifts(ctx context.Context, changed func()) {
	for {
		select {
		case <-b.shifted:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// shift has the cluster shifted away from these zones and no others.
func (b *bench) shift(list ...model.ZonalShift) {
	b.mu.Lock()
	b.shifts = list
	b.mu.Unlock()
	b.shifted <- struct{}{}
}

// Launch implements cloud.Provider.
func (b *bench) Launch(ctx context.Context, reqs []cloud.LaunchRequest) []cloud.LaunchResult {
	out := make([]cloud.LaunchResult, len(reqs))
	for i, r := range reqs {
		b.note("launch", r.ClaimName)
		if b.launch != nil {
			out[i] = b.launch(ctx, r)
			continue
		}
		out[i] = b.buy(r)
	}
	return out
}

// buy buys what is asked for.
func (b *bench) buy(r cloud.LaunchRequest) cloud.LaunchResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := "m-" + r.ClaimName
	b.bought = append(b.bought, model.Instance{ProviderID: id, ClaimUID: r.ClaimUID, ClaimName: r.ClaimName, Launched: time.Now()})
	return cloud.LaunchResult{ClaimUID: r.ClaimUID, ProviderID: id, InstanceType: r.Types[0], Capacity: catalogue[0].Capacity, Allocatable: catalogue[0].Allocatable}
}

// List implements cloud.Provider.
func (b *bench) List(context.Context) ([]model.Instance, error) {
	b.note("list", "")
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.bought), nil
}

// Terminate implements cloud.Provider.
func (b *bench) Terminate(_ context.Context, ids []string) []error {
	for _, id := range ids {
		b.note("terminate", id)
	}
	return make([]error, len(ids))
}

// Reboot implements cloud.Rebooter.
func (b *bench) Reboot(_ context.Context, id string) error {
	b.note("reboot", id)
	if b.reboot != nil {
		return b.reboot()
	}
	return nil
}

// Interruptions implements cloud.Interrupter: all that come are handed on at once, and again until they are taken.
func (b *bench) Interruptions(ctx context.Context, handle func(context.Context, cloud.Interruption) error) error {
	for {
		select {
		case i := <-b.notices:
			go func() {
				for handle(ctx, i) != nil && ctx.Err() == nil {
					b.note("notice refused", i.ProviderID)
					time.Sleep(time.Second)
				}
				b.note("notice taken", i.ProviderID)
			}()
		case <-ctx.Done():
			return nil
		}
	}
}

// RepairPolicies implements cloud.Repairer.
func (b *bench) RepairPolicies(bool) []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{Condition: "Ready", Status: "False", After: 10 * time.Minute}}
}

// Drifted implements cloud.Drifter.
func (b *bench) Drifted(_ context.Context, queries []cloud.DriftQuery) ([]string, error) {
	out := make([]string, len(queries))
	for i, q := range queries {
		b.note("drift asked", q.Claim.Name)
		if b.drifts != nil {
			out[i] = b.drifts(q)
		}
	}
	return out, nil
}
