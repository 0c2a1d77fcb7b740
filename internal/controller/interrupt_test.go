// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// stand has machines stand, spot, with three pods each.
func (b *bench) stand(n int) {
	since := model.Condition{Status: "True", Since: time.Now().Add(-20 * time.Minute)}
	for i := range n {
		name := fmt.Sprintf("old-%02d", i)
		labels := model.Labels{model.LabelNodePool: "p", model.LabelRegistered: "true", model.LabelInitialized: "true", model.LabelInstanceType: "cheap", model.LabelZone: "a", model.LabelCapacityType: model.Spot}
		c := &model.Claim{Name: name, UID: "uid-" + name, Pool: "p", ProviderID: "m-" + name, NodeName: name, HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1,
			Created: since.Since, ClassGroup: "g", ClassKind: "K", ClassName: "c", Labels: labels, Capacity: catalogue[0].Capacity, Allocatable: catalogue[0].Allocatable,
			Conditions: map[string]model.Condition{"Launched": since, "Registered": since, "Initialized": since}}
		b.mu.Lock()
		b.claims[name] = c
		b.bought = append(b.bought, model.Instance{ProviderID: c.ProviderID, ClaimUID: c.UID, ClaimName: name, Launched: since.Since})
		b.mu.Unlock()
		b.c.Emit(func(s *state.State) {
			s.SetClaim(c, 1)
			s.SetNode(&model.Node{Name: name, UID: "uid-n-" + name, ProviderID: c.ProviderID, Ready: true, HasFinalizer: true, Labels: labels, Created: since.Since,
				Capacity: catalogue[0].Capacity, Allocatable: catalogue[0].Allocatable}, 1)
			for j := range 3 {
				s.SetPod(&model.Pod{Namespace: "default", Name: fmt.Sprint(name, "-", j), UID: fmt.Sprint("uid-", name, "-", j), Node: name, Created: since.Since, Bound: since.Since,
					Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: "uid-web"}, GracePeriod: 30 * time.Second,
					Class: &model.Class{Key: "web", Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}})
			}
		})
	}
}

// Fifty machines are announced to be taken away: each notice is written down before it is done with, but room for every pod is bought
// within a second, however slowly that is written; what spot takes back is not bought again for now, and nothing is drained before there is room.
func TestFiftyInterruptions(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.stand(50)
		b.lead()
		b.updateClaim = func(plan.UpdateClaim) error {
			time.Sleep(200 * time.Millisecond) // four at once: fifty take 2.5 s
			return nil
		}
		gone := time.Now().Add(2 * time.Minute)
		for i := range 50 {
			b.notices <- cloud.Interruption{ProviderID: fmt.Sprintf("m-old-%02d", i), Kind: "SpotInterruption", At: gone, Sent: time.Now()}
		}
		b.notices <- cloud.Interruption{ProviderID: "m-of-somebody", Kind: "SpotInterruption", At: gone}
		time.Sleep(10 * time.Second)
		created := b.made("create")
		if n := len(created); n < 38 || n > 50 {
			t.Errorf("%d machines were bought for 150 pods of which four go on one", n)
		}
		for _, m := range created {
			if m.after > time.Second {
				t.Errorf("%s was bought %s after the notices", m.what, m.after)
			}
		}
		if made := b.made("delete"); len(made) > 0 {
			t.Errorf("drained before there was room: %v", made)
		}
		if taken := b.made("notice taken"); len(taken) != 51 {
			t.Errorf("%d notices were taken, want all 51", len(taken))
		}
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(b.claims)) {
			if n, ok := cluster.ReadNotice(b.claims[name]); strings.HasPrefix(name, "old-") != ok || ok && (n.Kind != "SpotInterruption" || !n.At.Equal(gone)) {
				t.Errorf("claim %s says %+v, %t", name, n, ok)
			}
		}
		if asides := b.c.Provider.Asides(); len(asides) != 1 || asides[0].Offering != (cloud.OfferingKey{InstanceType: "cheap", Zone: "a", CapacityType: model.Spot}) {
			t.Errorf("set aside: %v", asides)
		}
	})
}

// A notice that could not be written down comes again. One that only recommends is told and nothing else.
func TestANoticeIsNotLost(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.stand(2)
		b.lead()
		fails := 2
		b.updateClaim = func(a plan.UpdateClaim) error {
			if a.Annotations[cluster.AnnotationInterrupted] != "" {
				if fails--; fails >= 0 {
					return errors.New("connection refused")
				}
			}
			return nil
		}
		b.notices <- cloud.Interruption{ProviderID: "m-old-00", Kind: "SpotInterruption", At: time.Now().Add(2 * time.Minute)}
		b.notices <- cloud.Interruption{ProviderID: "m-old-01", Kind: "Rebalance"}
		b.notices <- cloud.Interruption{ProviderID: "m-old-00", Kind: "StateChange", At: time.Now(), Stops: true}
		time.Sleep(30 * time.Second)
		if n := len(b.made("notice refused")); n != 2 {
			t.Errorf("came again %d times, want 2", n)
		}
		if made := b.made("create"); len(made) != 1 {
			t.Errorf("bought %v, want one machine", made)
		}
		said := map[string]bool{}
		for _, e := range b.made("event") {
			said[strings.Join(strings.Fields(e.what)[:3], " ")] = true
		}
		for _, want := range []string{"NodeClaim old-00 SpotInterrupted:", "Node old-00 SpotInterrupted:", "NodeClaim old-01 SpotRebalanceRecommendation:", "NodeClaim old-00 InstanceStopping:"} {
			if !said[want] {
				t.Errorf("not said: %s", want)
			}
		}
	})
}

// A machine in a reservation that its owner takes back is one that goes: it is told by the reference's name, and its offering is not bought again at once.
func TestAReservationIsTakenBack(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.stand(1)
		b.lead()
		b.notices <- cloud.Interruption{ProviderID: "m-old-00", Kind: "CapacityReservationInterruption", At: time.Now().Add(2 * time.Minute), Sent: time.Now()}
		b.notices <- cloud.Interruption{ProviderID: "m-old-00", Kind: "ScheduledChange", At: time.Now().Add(24 * time.Hour)}
		time.Sleep(30 * time.Second)
		if n, ok := cluster.ReadNotice(b.claims["old-00"]); !ok || n.Kind != "CapacityReservationInterruption" {
			t.Errorf("kept as %+v, %t", n, ok)
		}
		said := false
		for _, e := range b.made("event") {
			said = said || strings.HasPrefix(e.what, "NodeClaim old-00 CapacityReservationInstanceInterrupted:")
		}
		if !said {
			t.Errorf("not said: %v", b.made("event"))
		}
		if made := b.made("create"); len(made) != 1 {
			t.Errorf("bought %v, want one machine", made)
		}
	})
}

// The provider is asked for drift at once when a node class changes, and its word becomes the claim's condition.
func TestDriftIsAskedFor(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.stand(1)
		b.drifts = func(q cloud.DriftQuery) string {
			if q.Class.Generation > 1 {
				return "NodeClassDrift"
			}
			return ""
		}
		b.lead()
		asked := len(b.made("drift asked"))
		time.Sleep(6 * time.Minute)
		if n := len(b.made("drift asked")) - asked; n < 1 || n > 2 {
			t.Errorf("asked %d times in six minutes", n)
		}
		b.c.Emit(func(s *state.State) {
			s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 2})
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if d := b.claims["old-00"].Conditions["Drifted"]; !d.True() || d.Reason != "NodeClassDrift" {
			t.Errorf("Drifted is %+v", d)
		}
	})
}
