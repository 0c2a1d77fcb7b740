// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/refusals"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// observed is what pods were refused in the sandboxes of all tests.
var observed = struct {
	sync.Mutex
	watching map[*sandbox.Sandbox]watched
	planted  map[string]string // by namespace: why a test brings refusals about on purpose
	sum      refusals.Report   // of sandboxes that are down; Wrong without what is planted
	onPlan   []refusals.Refusal
	ended    int
}{watching: map[*sandbox.Sandbox]watched{}, planted: map[string]string{}}

// watched is a sandbox that is up.
type watched struct {
	record *refusals.Record
	stop   context.CancelFunc
}

// observe notes, from now on, what happens to the pods of a sandbox.
func observe(s *sandbox.Sandbox) error {
	config, err := s.Config(sandbox.Admin)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := refusals.NewRecord()
	if err := refusals.Watch(ctx, config, r); err != nil {
		stop()
		return fmt.Errorf("observe the sandbox's pods: %w", err)
	}
	observed.Lock()
	defer observed.Unlock()
	observed.watching[s] = watched{r, stop}
	return nil
}

// unobserve ends observe, and takes in what was seen.
func unobserve(s *sandbox.Sandbox) {
	observed.Lock()
	defer observed.Unlock()
	w, ok := observed.watching[s]
	if !ok {
		return
	}
	delete(observed.watching, s)
	w.stop()
	got := w.record.Judge(time.Now(), time.Duration(float64(2*time.Second)*testwait.Factor()))
	observed.ended++
	observed.sum.Pods += got.Pods
	observed.sum.Bound += got.Bound
	observed.sum.Verdicts += got.Verdicts
	observed.sum.LateTaints = append(observed.sum.LateTaints, got.LateTaints...)
	for _, x := range got.Wrong {
		if observed.planted[x.Namespace] != "" {
			observed.onPlan = append(observed.onPlan, x)
		} else {
			observed.sum.Wrong = append(observed.sum.Wrong, x)
		}
	}
}

// refusesPods says that this test has pods of its namespace refused on nodes that were launched for them, and why that is no fault of Dovetail.
func (e *env) refusesPods(why string) {
	observed.Lock()
	defer observed.Unlock()
	observed.planted[e.name] = why
}

// wrongRefusals prints how many pods were seen, bound and refused in all sandboxes, and returns the refusals that Dovetail did not foretell.
func wrongRefusals() (wrong []string) {
	observed.Lock()
	defer observed.Unlock()
	sum := &observed.sum
	if observed.ended == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "%d sandboxes: %d pods, %d of them bound to nodes that Dovetail launched; kube-scheduler said %d times why a pod has no node; "+
		"refused on nodes that were launched for them: %d, and %d that tests bring about\n", observed.ended, sum.Pods, sum.Bound, sum.Verdicts, len(sum.Wrong), len(observed.onPlan))
	if len(sum.LateTaints) > 0 {
		fmt.Fprintf(os.Stderr, "deleted by kube-controller-manager for a taint that was gone: %s\n", strings.Join(sum.LateTaints, ", "))
	}
	for _, x := range observed.onPlan {
		fmt.Fprintf(os.Stderr, "brought about (%s): %s\n", observed.planted[x.Namespace], x)
	}
	for _, x := range sum.Wrong {
		wrong = append(wrong, "not foretold: "+x.String())
	}
	return wrong
}
