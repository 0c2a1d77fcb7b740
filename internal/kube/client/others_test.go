// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOthers runs days in the life of a lease: at each instant how it looks, by its holder's own clock, and whether that is a sign of life.
func TestOthers(t *testing.T) {
	type look struct {
		at      int    // seconds by our clock
		holder  string // "gone": there is no lease
		renewed int    // seconds by its holder's clock
		live    bool
	}
	for name, looks := range map[string][]look{
		"it is renewed": {{0, "a", 0, true}, {14, "a", 10, true}, {24, "a", 20, true}},
		"it is renewed by a clock an hour behind": {{3600, "a", 3590, true}, {3610, "a", 3592, true}, {3620, "a", 3594, true}},
		"its holder died":                         {{0, "a", 0, true}, {14, "a", 0, true}, {15, "a", 0, false}, {60, "a", 0, false}},
		"another holder comes":                    {{0, "a", 0, true}, {30, "a", 0, false}, {31, "b", 31, true}},
		"it was left behind long ago":             {{10000, "a", 0, false}, {10002, "a", 0, false}},
		"it was left behind and is taken again":   {{10000, "a", 0, false}, {10002, "b", 10001, true}},
		"it may have been left behind just now":   {{60, "a", 0, true}, {74, "a", 0, true}, {75, "a", 0, false}},
		"it was given up":                         {{0, "a", 0, true}, {2, "", 1, false}},
		"it is deleted":                           {{0, "a", 0, true}, {2, "gone", 0, false}, {4, "gone", 0, false}},
		"it is deleted and comes back":            {{0, "a", 0, true}, {2, "gone", 0, false}, {4, "a", 3, true}},
		"a clock ahead":                           {{0, "a", 9000, true}, {15, "a", 9000, false}},
	} {
		t.Run(name, func(t *testing.T) {
			start, seen := time.Unix(1_000_000, 0), Sightings{}
			for _, l := range looks {
				var leases []coordinationv1.Lease
				if l.holder != "gone" {
					renewed, seconds := metav1.NewMicroTime(start.Add(time.Duration(l.renewed)*time.Second)), int32(15)
					leases = append(leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"},
						Spec: coordinationv1.LeaseSpec{HolderIdentity: &l.holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds}})
				}
				have := seen.Live(leases, DefaultLease(), start.Add(time.Duration(l.at)*time.Second))
				if (len(have) > 0) != l.live {
					t.Fatalf("after %d s: %v, want live=%t", l.at, have, l.live)
				}
				if l.live && have[0] != "lease kube-system/karpenter-leader-election is held by "+l.holder {
					t.Errorf("it is called %q", have[0])
				}
			}
		})
	}
	seen, now, holder := Sightings{}, time.Unix(1_000_000, 0), "us"
	renewed := metav1.NewMicroTime(now)
	own := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "karpenter-leader-election"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed}}
	elsewhere := *own.DeepCopy()
	elsewhere.Namespace = "b"
	have := seen.Live([]coordinationv1.Lease{own, elsewhere}, Lease{Namespace: "a", Name: "karpenter-leader-election"}, now)
	if !slices.Equal(have, []string{"lease b/karpenter-leader-election is held by us"}) {
		t.Errorf("beside our own lease: %v", have)
	}
}
