// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestReboots reboots a node: the cloud is asked once, after the claim speaks of it, and again only where it said that it was busy. A reboot that is refused, or of
// which nothing is heard and that changes no boot ID, has failed. Metrics and events tell which.
func TestReboots(t *testing.T) {
	for name, test := range map[string]struct {
		answers []error // of the cloud, nil after these
		noted   error   // of the first write into the claim before the cloud is asked
		back    bool    // the node comes back
		calls   int
		result  string
	}{
		"it is back":        {back: true, calls: 1, result: "succeeded"},
		"busy first":        {answers: []error{&cloud.Error{Kind: cloud.Throttled}}, back: true, calls: 2, result: "succeeded"},
		"refused":           {answers: []error{&cloud.Error{Kind: cloud.Denied, Op: "reboot"}}, calls: 1, result: "provider_error"},
		"not back":          {calls: 1, result: "recovery_timeout"},
		"answer lost, back": {answers: []error{errors.New("connection reset")}, back: true, calls: 1, result: "succeeded"},
		"note refused":      {noted: plan.ErrConflict, back: true, calls: 1, result: "succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.stand(1)
				b.lead()
				var claim model.Claim
				noted := test.noted
				b.updateClaim = func(a plan.UpdateClaim) error {
					if a.Given[model.AnnotationBootID] != "" {
						err := noted
						noted = nil
						return err
					}
					return nil
				}
				answers := test.answers
				b.reboot = func() error {
					b.mu.Lock()
					defer b.mu.Unlock()
					if b.claims["old-00"].Annotations[model.AnnotationBootID] != "boot-1" {
						t.Errorf("the cloud is asked before the claim speaks of it: %v", b.claims["old-00"].Annotations)
					}
					if len(answers) == 0 {
						return nil
					}
					err := answers[0]
					answers = answers[1:]
					return err
				}
				node := func(boot string, taints ...model.Taint) {
					b.emit(func(s *state.State) {
						for i := range 3 {
							s.DeletePod(model.PodKey("default", "old-00-"+string(rune('0'+i))))
						}
						s.SetNode(&model.Node{Name: "old-00", UID: "uid-n-old-00", ProviderID: "m-old-00", Ready: true, HasFinalizer: true, Labels: claim.Labels, Created: claim.Created,
							Capacity: claim.Capacity, Allocatable: claim.Allocatable, BootID: boot, Taints: taints}, 0)
					})
				}
				b.mu.Lock()
				claim = *b.claims["old-00"]
				claim.Conditions = maps.Clone(claim.Conditions)
				claim.Conditions[lifecycle.Rebooting] = model.Condition{Status: "True", Reason: lifecycle.RebootRequested, Since: time.Now()}
				b.version++
				b.claims["old-00"] = &claim
				version := b.version
				b.mu.Unlock()
				node("boot-1", lifecycle.RebootingTaint)
				b.show(&claim, version)
				time.Sleep(2 * time.Minute)
				if test.back {
					node("boot-2", lifecycle.RebootingTaint)
				}
				time.Sleep(30 * time.Minute) // it is to be given up by then
				if test.back || test.result == "recovery_timeout" {
					boot := "boot-1"
					if test.back {
						boot = "boot-2"
					}
					node(boot) // the taint was taken off
					time.Sleep(time.Minute)
				}
				if n := len(b.made("reboot")); n != test.calls {
					t.Errorf("the cloud was asked %d times, want %d", n, test.calls)
				}
				values, _ := b.scrape(t)
				for _, of := range []string{"karpenter_nodes_reboots_total", "karpenter_nodes_reboot_duration_seconds"} {
					for _, result := range []string{"succeeded", "provider_error", "recovery_timeout"} {
						want := 0.0
						if result == test.result {
							want = 1
						}
						if have := values[of+"{result="+result+"}"]; have != want {
							t.Errorf("%s of %s is %v, want %v", of, result, have, want)
						}
					}
				}
				event := "RebootFailed"
				if test.result == "succeeded" {
					event = "RebootObserved"
				}
				told := 0
				for _, m := range b.made("event") {
					if strings.HasPrefix(m.what, "NodeClaim old-00 "+event+":") {
						told++
					}
				}
				if told != 1 {
					t.Errorf("event %s was told %d times: %v", event, told, b.made("event"))
				}
			})
		})
	}
}
