// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// world is a server with node groups in memory whose calls take drawn times, and a record. What it does wrong is drawn too.
type world struct {
	mu      sync.Mutex
	rng     *rand.Rand
	groups  map[string]*group
	made    int
	text    string          // the record
	claims  map[string]bool // that have asked
	wrong   []string        // what must not happen
	history []string

	latency time.Duration // of a call, at most
	boot    time.Duration // of a machine, at most
	lose    float64       // how often the reply of a call that changes something is lost
	lag     time.Duration // of targets, at most
	slow    func(call, group string) bool
	before  func(call string) // called once, before a call
	short   map[string]bool   // groups that have no capacity
	refused int               // how often one of them was asked for some
	same    bool              // the groups are of one instance type
	fails   map[string]bool   // groups whose machines fail
	failed  int               // how many machines have failed
	ill     map[string]bool   // groups whose running machines have an error
	bad     map[string]bool   // groups whose templates are invalid
	created map[string]time.Time
}

type group struct {
	min, max int64
	fails    map[string]bool      // machines that fail
	ended    map[string]time.Time // when the end of a machine that fails was last requested
	price    int64
	target   int64
	targets  []change // earlier targets
	machines map[string]time.Time
}

type change struct {
	until time.Time
	was   int64
}

func newWorld(seed uint64, max ...int64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), groups: map[string]*group{}, claims: map[string]bool{}, created: map[string]time.Time{}}
	for i, n := range max {
		w.groups[fmt.Sprintf("group-%d", i)] = &group{max: n, price: int64(100 * (i + 1)), machines: map[string]time.Time{}, fails: map[string]bool{}, ended: map[string]time.Time{}}
	}
	return w
}

func (w *world) provider() *nodegroups.Provider {
	return nodegroups.New(nodegroups.Settings{Name: "test", Server: w, Timeout: 5 * time.Second, Records: w, Resources: state.New().Resources(), Clock: cloud.Wall{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func (w *world) drawn(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rng.Int64N(int64(most) + 1))
}

// call takes the time of a call. An error: no answer comes.
func (w *world) call(ctx context.Context, name, group string) error {
	w.mu.Lock()
	before := w.before
	w.before = nil
	w.mu.Unlock()
	if before != nil {
		before(name)
	}
	d := w.drawn(w.latency)
	w.mu.Lock()
	if w.slow != nil && w.slow(name, group) {
		d = 10 * time.Second
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if (cloud.Wall{}).Wait(ctx, d) != nil {
		return &nodegroups.CallError{Kind: cloud.Unknown, Uncertain: true, Err: fmt.Errorf("%s: no answer", name)}
	}
	return nil
}

// changes takes the time of a call that changes something. The reply may be lost after the change or with it.
func (w *world) changes(ctx context.Context, name, group string, do func() error) error {
	if err := w.call(ctx, name, group); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := w.rng.Float64() < w.lose
	if lost && w.rng.IntN(2) == 0 {
		return &nodegroups.CallError{Kind: cloud.Unknown, Uncertain: true, Err: errors.New("the call is lost")}
	}
	err := do()
	w.history = append(w.history, fmt.Sprintf("%s %s %s", time.Now().Format("05.000"), name, group))
	if lost {
		return &nodegroups.CallError{Kind: cloud.Unknown, Uncertain: true, Err: errors.New("the reply is lost")}
	}
	return err
}

func (w *world) setTarget(g *group, to int64) {
	if w.lag > 0 {
		g.targets = append(g.targets, change{time.Now().Add(time.Duration(w.rng.Int64N(int64(w.lag)))), g.target})
	}
	g.target = to
	var sum int64
	for _, g := range w.groups {
		sum += g.target - int64(len(g.fails)) // whose end may have been lost
	}
	if sum > int64(len(w.claims)) {
		w.wrong = append(w.wrong, fmt.Sprintf("groups are to have %d machines for %d claims", sum, len(w.claims)))
	}
	for int64(len(g.machines)) < g.target {
		w.made++
		id := fmt.Sprintf("test://%d", w.made)
		w.created[id] = time.Now()
		g.machines[id] = time.Now().Add(time.Duration(w.rng.Int64N(int64(w.boot) + 1)))
		for name := range w.fails {
			if w.groups[name] == g {
				g.fails[id] = true
				w.failed++
			}
		}
	}
}

// grow has somebody else raise the size of a group.
func (w *world) grow(name string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range by {
		w.claims[fmt.Sprint("somebody else's ", len(w.claims))] = true
		w.setTarget(w.groups[name], w.groups[name].target+1)
	}
}

// replace ends a machine, and has another come in its place.
func (w *world) replace(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		if _, ok := g.machines[id]; ok {
			delete(g.machines, id)
			w.setTarget(g, g.target)
		}
	}
}

func (w *world) Refresh(ctx context.Context) error { return w.call(ctx, "Refresh", "") }

func (w *world) Groups(ctx context.Context) (out []nodegroups.Group, err error) {
	err = w.call(ctx, "Groups", "")
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, g := range w.groups {
		out = append(out, nodegroups.Group{Name: name, Min: g.min, Max: g.max})
	}
	return out, err
}

func (w *world) Target(ctx context.Context, name string) (int64, error) {
	err := w.call(ctx, "Target", name)
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.groups[name]
	if g == nil {
		return 0, &nodegroups.CallError{Kind: cloud.Unknown, Err: errors.New("no such group")}
	}
	for _, old := range g.targets {
		if time.Now().Before(old.until) {
			return old.was, err
		}
	}
	return g.target, err
}

func (w *world) Describe(ctx context.Context, name string) (nodegroups.Description, error) {
	err := w.call(ctx, "Describe", name)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bad[name] {
		return nodegroups.Description{Problem: "its template is invalid"}, err
	}
	typeName := "type-" + name
	if w.same {
		typeName = "type"
	}
	return nodegroups.Description{PriceMicro: w.groups[name].price, Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{model.LabelInstanceType: typeName}},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}},
	}}, err
}

func (w *world) Members(ctx context.Context, name string) (out []nodegroups.Member, err error) {
	err = w.call(ctx, "Members", name)
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.groups[name]
	if g == nil {
		return nil, &nodegroups.CallError{Kind: cloud.Unknown, Err: errors.New("no such group")}
	}
	for id, ready := range g.machines {
		m := nodegroups.Member{ID: id, Created: w.created[id], Running: !time.Now().Before(ready)}
		switch {
		case m.Running && g.fails[id]:
			m.Running, m.Code, m.Message = false, "Failed", "out of stock"
		case m.Running && w.ill[name]:
			m.Code, m.Message = "Ill", "its disk is full"
		}
		out = append(out, m)
	}
	return out, err
}

func (w *world) Raise(ctx context.Context, name string, by, _ int64) error {
	return w.changes(ctx, "Raise", name, func() error {
		g := w.groups[name]
		if w.short[name] {
			w.refused++
			return &nodegroups.CallError{Kind: cloud.Unknown, Err: errors.New("out of stock")}
		}
		if g.target+by > g.max {
			return &nodegroups.CallError{Kind: cloud.Unknown, Err: errors.New("above the maximum")}
		}
		w.setTarget(g, g.target+by)
		return nil
	})
}

func (w *world) Lower(ctx context.Context, name string, by int64) error {
	return w.changes(ctx, "Lower", name, func() error {
		return &nodegroups.CallError{Kind: cloud.Unknown, Err: errors.New("its machines are there")}
	})
}

func (w *world) End(ctx context.Context, name string, ids []string) error {
	w.mu.Lock()
	g := w.groups[name]
	if g.target-int64(len(ids)) < g.min {
		w.wrong = append(w.wrong, fmt.Sprintf("%s has %d of at least %d machines, and is to end %q", name, g.target, g.min, ids))
	}
	for _, id := range ids {
		if g.fails[id] && time.Since(g.ended[id]) < 14*time.Second { // a call has 5 seconds, and the target 10 more
			w.wrong = append(w.wrong, fmt.Sprintf("%s is to end %s again after %s", name, id, time.Since(g.ended[id])))
		}
		g.ended[id] = time.Now()
	}
	w.mu.Unlock()
	return w.changes(ctx, "End", name, func() error {
		for _, id := range ids {
			if _, ok := g.machines[id]; !ok {
				return &nodegroups.CallError{Kind: cloud.Unknown, Err: errors.New("no such machine")}
			}
		}
		for _, id := range ids {
			delete(g.machines, id)
			delete(g.fails, id)
			w.setTarget(g, g.target-1)
		}
		return nil
	})
}

func (w *world) Load(context.Context) (string, error) {
	time.Sleep(w.drawn(w.latency / 4))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text, nil
}

func (w *world) Swap(_ context.Context, old, text string) (bool, error) {
	time.Sleep(w.drawn(w.latency / 4))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text != old {
		return false, nil
	}
	w.text = text
	return true, nil
}

// request is what a claim asks for. The world counts it.
func (w *world) request(uid string) cloud.LaunchRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[uid] = true
	return cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: time.Now(), Class: groupClass()}
}

func groupClass() cloud.NodeClass {
	return cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "groups", Spec: []byte(`{"selectorTerms":[{"name":"*"}]}`)}
}

// machines returns the ids of all machines, sorted.
func (w *world) machines() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		for id := range g.machines {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
