// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savingskeeper

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// shelf is a Store in memory, which each keeper writes to only if nobody else has since it has read or written.
type shelf struct {
	mu      sync.Mutex
	slots   [2]map[string][]byte
	version [2]int
	err     error
}

type hand struct {
	*shelf
	seen [2]int
}

func (h *hand) LoadHistories(_ context.Context, slot int) (map[string][]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[slot] = h.version[slot]
	return h.slots[slot], h.err
}

func (h *hand) StoreHistories(_ context.Context, slot int, entries map[string][]byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	if h.seen[slot] != h.version[slot] {
		return errors.New("the object has been modified")
	}
	h.version[slot]++
	h.seen[slot], h.slots[slot] = h.version[slot], entries
	return nil
}

// oneNode is a cluster with a machine of $1.00/h that was launched at an instant.
func oneNode(launched, now time.Time) *model.Snapshot {
	l := model.Labels{model.LabelInstanceType: "t", model.LabelZone: "a", model.LabelCapacityType: model.Spot}
	types := []*model.InstanceType{{Name: "t", Offerings: []model.Offering{{Zone: "a", CapacityType: model.Spot, PriceMicro: 1_000_000}, {Zone: "a", CapacityType: model.OnDemand, PriceMicro: 3_000_000}}}}
	return &model.Snapshot{InstancesAt: now, Pools: []*model.NodePool{{Name: "p", Types: types}},
		Claims:    []*model.Claim{{Name: "c", UID: "u", Pool: "p", ProviderID: "i", Labels: l, Created: launched, ExpireAfter: -1}},
		Instances: []*model.Instance{{ProviderID: "i", ClaimUID: "u", Launched: launched}}}
}

// TestAccountSurvives: an account goes on after a restart, after a failing store, and when a second leader has written: each second is counted
// once.
func TestAccountSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := &shelf{}
		launched := time.Now()
		live := func(k *Keeper, d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				k.Sample(time.Now(), oneNode(launched, time.Now()))
				time.Sleep(5 * time.Second)
				synctest.Wait()
			}
		}
		begin := func() (k *Keeper, end func()) {
			k = New(slog.New(slog.NewTextHandler(&text, nil)), &hand{shelf: s})
			ctx, cancel := context.WithCancel(t.Context())
			go k.Keep(ctx)
			synctest.Wait()
			return k, func() { cancel(); synctest.Wait() }
		}
		check := func(k *Keeper) {
			t.Helper()
			live(k, 10*time.Second)
			a, err := k.Since(launched)
			if err != nil {
				t.Fatal(err)
			}
			if age := int64(time.Since(launched).Seconds()); a.Total.Cost/1e6 > age || a.Total.Cost/1e6 < age-10 {
				t.Errorf("%d seconds counted of %d", a.Total.Cost/1e6, age)
			}
			if c := a.Causes(); c.Spot != 2*a.Total.Cost || c.Total() != c.Spot {
				t.Errorf("causes %+v of a cost of %d", c, a.Total.Cost)
			}
		}
		first, end := begin()
		live(first, 10*time.Minute)
		check(first)
		end()
		time.Sleep(3 * time.Minute)
		second, end := begin()
		live(second, 5*time.Minute)
		check(second)
		third, endThird := begin() // two that take themselves for the leader
		live(second, 2*time.Minute)
		live(third, 3*time.Minute)
		live(second, 3*time.Minute)
		check(second)
		endThird()
		s.mu.Lock()
		s.err = errors.New("not now")
		s.mu.Unlock()
		live(second, 5*time.Minute)
		if _, err := second.Since(launched); err == nil {
			t.Error("nothing is said of an account that is not known")
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		live(second, 5*time.Minute)
		check(second)
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(NewMetrics(second))
		if families, err := r.Gather(); err != nil || len(families) != 4 {
			t.Errorf("%d families of metrics: %v", len(families), err)
		}
		end()
		if !strings.Contains(text.String(), "not now") || !strings.Contains(text.String(), "modified") {
			t.Errorf("logged: %s", text.String())
		}
	})
}

// TestRefusedAccount: what can't be read is kept as it is, and said.
func TestRefusedAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := &shelf{}
		s.slots[recentSlot] = map[string][]byte{key: []byte("not gzip")}
		k := New(slog.New(slog.NewTextHandler(&text, nil)), &hand{shelf: s})
		ctx, cancel := context.WithCancel(t.Context())
		go k.Keep(ctx)
		time.Sleep(5 * time.Minute)
		cancel()
		synctest.Wait()
		if string(s.slots[recentSlot][key]) != "not gzip" || strings.Count(text.String(), "delete both to start over") != 1 {
			t.Errorf("stored %q, said: %s", s.slots[recentSlot], text.String())
		}
	})
}

// TestShortRemovals: a node whose pods, or whose deletion, is seen for an instant only, between two samples, is credited.
func TestShortRemovals(t *testing.T) {
	for _, deleting := range []int{1, 50} { // Snapshots; 50 are ten times what lies between two samples
		testShortRemoval(t, deleting)
	}
}

func testShortRemoval(t *testing.T, deleting int) {
	synctest.Test(t, func(t *testing.T) {
		k := New(slog.New(slog.DiscardHandler), nil)
		launched := time.Now()
		show := func(change func(*model.Snapshot)) {
			snap := oneNode(launched, time.Now())
			snap.Claims[0].NodeName, snap.Claims[0].Allocatable = "n", model.Resources{1000}
			pod := &model.Pod{Namespace: "default", Name: "web-0", Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: "w"}, Class: &model.Class{Namespace: "default", Requests: model.Resources{1000}}, Node: "n"}
			snap.Nodes = []*model.Node{{Name: "n", Pods: []*model.Pod{pod}}}
			change(snap)
			k.Sample(time.Now(), snap)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		disrupt := func(snap *model.Snapshot) {
			snap.Claims[0].Conditions = map[string]model.Condition{lifecycle.Disrupted: {Status: "True", Reason: string(plan.Underutilized), Message: plan.CommandID("x").Message()}}
		}
		show(func(*model.Snapshot) {})
		show(disrupt)
		for range deleting {
			show(func(snap *model.Snapshot) {
				disrupt(snap)
				snap.Claims[0].Deleting = time.Now()
				snap.Pending, snap.Nodes[0].Pods = snap.Nodes[0].Pods, nil
			})
		}
		for range 50 {
			show(func(snap *model.Snapshot) {
				snap.Pending = snap.Nodes[0].Pods
				snap.Claims, snap.Instances, snap.Nodes = nil, nil, nil
			})
		}
		a, err := k.Since(launched)
		if err != nil {
			t.Fatal(err)
		}
		if a.Total.Removed == 0 {
			t.Errorf("deletion seen in %d Snapshots: nothing is credited: %+v", deleting, a.Total)
		}
	})
}
