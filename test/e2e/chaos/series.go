// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package chaos takes components of a sandbox away in the middle of what Dovetail does there, one fault after the other in one cluster, and
// holds what is left against what must be true at rest: every pod runs, each NodeClaim has one instance and one node and each of these its
// NodeClaim, no taint, annotation or condition is left over, nothing moves, and the controller needs no more than it did.
//
// `make chaos` draws a long series (test/chaos), TestChaos of test/e2e a short one. It looks from outside, through the API server, the
// simulated cloud and the metrics pages. Start reading at Series.Inflict; what is drawn is in draw.go, what is looked at in cluster.go.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	pools      = "/apis/karpenter.sh/v1/nodepools"
	leasePath  = "/apis/coordination.k8s.io/v1/namespaces/dovetail-system/leases/dovetail-leader"
	briefTaint = "example.com/brief"

	// lifetime is how long the nodes live that expire.
	lifetime = 20 * time.Second
)

// patience ends the wait for a cluster that does not come to rest, so that its failure says how far it came.
func patience() time.Duration { return testwait.Scale(3 * time.Minute) }

// workloads are the Deployments that grow and shrink. The last one's pods are spread over zones, so only kube-scheduler places them.
var workloads = []struct {
	name, cpu, memory string
	most              int
	spread            bool
}{{"web", "700m", "1Gi", 16, false}, {"db", "1500m", "2Gi", 10, false}, {"edge", "300m", "512Mi", 9, true}}

// Outcome is what a fault came to.
type Outcome struct {
	Fault
	SecondsToRest float64  `json:"secondsToRest"` // since the last component was back
	Held          bool     `json:"held"`
	Problems      []string `json:"problems,omitempty"` // what does not hold
	Usage         Usage    `json:"usage"`
}

// Series is a cluster in which one fault follows the other.
type Series struct {
	sb       *sandbox.Sandbox
	after    time.Duration // the NodePools' consolidateAfter
	limit    time.Duration // to be at rest within, after the last component is back
	replicas []int
	brief    int // pods on nodes that expire
	template int // how often the NodePool's template was changed
	base     Usage
}

// Start prepares a sandbox that has no NodePool yet, and waits until its first pods run. Nodes are consolidated after so long; the cluster is at
// rest when nothing has changed for twice that, which is to be so within the limit after the last component is back.
func Start(ctx context.Context, sb *sandbox.Sandbox, consolidateAfter, limit time.Duration) (*Series, error) {
	s := &Series{sb: sb, after: consolidateAfter, limit: limit, replicas: []int{6, 4, 3}}
	if err := s.createPools(ctx); err != nil {
		return nil, err
	}
	for i, w := range workloads {
		if err := s.deploy(ctx, w.name, s.replicas[i], w.cpu, w.memory, spreadText(w.name, w.spread)); err != nil {
			return nil, err
		}
	}
	if err := s.deploy(ctx, "brief", 0, "1", "1Gi", `nodeSelector: {karpenter.sh/nodepool: brief}, tolerations: [{key: `+briefTaint+`, operator: Exists}], `); err != nil {
		return nil, err
	}
	if _, last := s.rest(ctx, time.Now()); len(last.problems) > 0 {
		return nil, fmt.Errorf("not settled before the first fault: %s", strings.Join(last.problems, "; "))
	}
	var err error
	s.base, err = s.usage(ctx)
	return s, err
}

// Replicas are those of the Deployments now.
func (s *Series) Replicas() []int { return s.replicas }

// Inflict has the change begin, does the harm, and waits until the cluster is at rest. An error is one of the series itself: what does not hold is
// in the Outcome.
func (s *Series) Inflict(ctx context.Context, f Fault) (Outcome, error) {
	o := Outcome{Fault: f}
	if err := s.endBrief(ctx); err != nil {
		return o, err
	}
	began, err := s.begin(ctx, f)
	if err != nil {
		return o, fmt.Errorf("begin %s: %w", f.Change, err)
	}
	changed := make(chan error, 1)
	go func() { changed <- s.goOn(ctx, f) }()
	if wait(ctx, time.Until(began.Add(f.After))); ctx.Err() != nil {
		return o, ctx.Err()
	}
	err = s.harm(ctx, f)
	back := time.Now()
	if err := errors.Join(err, <-changed); err != nil {
		return o, err
	}
	rested, last := s.rest(ctx, back)
	o.SecondsToRest, o.Problems = math.Round(max(0, rested.Sub(back).Seconds())*10)/10, last.problems
	if rested.Sub(back) > s.limit && len(o.Problems) == 0 {
		o.Problems = []string{fmt.Sprintf("settled only %.0f s after the last component was back", o.SecondsToRest)}
	}
	if o.Usage, err = s.usage(ctx); err != nil {
		return o, err
	}
	o.Problems = append(o.Problems, s.base.exceeded(o.Usage)...)
	o.Held = len(o.Problems) == 0
	return o, nil
}

// exceeded says what is in use beyond what was before the first fault, with an allowance for connections that are still open and for what the
// garbage collector has not returned yet.
func (u Usage) exceeded(now Usage) (problems []string) {
	if most := u.Goroutines + 40; now.Goroutines > most {
		problems = append(problems, fmt.Sprintf("a controller has %.0f goroutines, and had %.0f before the first fault", now.Goroutines, u.Goroutines))
	}
	if most := 1.5*u.ResidentBytes + 50e6; now.ResidentBytes > most {
		problems = append(problems, fmt.Sprintf("a controller uses %.0f MB of memory, and used %.0f MB before the first fault", now.ResidentBytes/1e6, u.ResidentBytes/1e6))
	}
	return problems
}

// harm does what the fault says and returns when every component is back.
func (s *Series) harm(ctx context.Context, f Fault) error {
	if f.Kind == Lease {
		return s.holdLease(ctx, f.For)
	}
	names := make([]string, len(f.Components))
	for i, name := range f.Components {
		if names[i] = name; name == sandbox.Controller {
			leader, err := s.sb.Leader()
			if err != nil {
				return err
			}
			names[i] = leader.Name
		}
	}
	return s.sb.Fault(ctx, f.Kind, f.For, names...)
}

// holdLease writes the lease as another's for a while, which then lets go of it.
func (s *Series) holdLease(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); wait(ctx, 500*time.Millisecond) {
		now := time.Now().UTC().Format(metav1.RFC3339Micro)
		if err := s.patch(ctx, leasePath, fmt.Sprintf(`{"spec":{"holderIdentity":"another","acquireTime":%q,"renewTime":%[1]q}}`, now)); err != nil {
			return err
		}
	}
	return s.patch(ctx, leasePath, `{"spec":{"holderIdentity":""}}`)
}

// rest waits until the cluster is at rest, and says since when it is. It gives up after a time, with what is still wrong.
func (s *Series) rest(ctx context.Context, since time.Time) (time.Time, sight) {
	var last sight
	calm := time.Now()
	for ctx.Err() == nil {
		seen, err := s.look(ctx)
		if err != nil {
			seen.problems = []string{err.Error()}
		}
		now := time.Now()
		if len(seen.problems) > 0 || seen.marks != last.marks {
			calm = now
		}
		last = seen
		if now.Sub(calm) >= 2*s.after {
			return calm, last
		}
		if now.Sub(since) > patience() {
			if len(last.problems) == 0 {
				last.problems = []string{"still changing after " + patience().String()}
			}
			return now, last
		}
		wait(ctx, 250*time.Millisecond)
	}
	return time.Now(), sight{problems: []string{ctx.Err().Error()}}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// want is how many pods of each app shall run.
func (s *Series) want() map[string]int {
	out := map[string]int{"brief": s.brief}
	for i, w := range workloads {
		out[w.name] = s.replicas[i]
	}
	return out
}

// patch merges JSON into an object, again and again while the API server can't take it.
func (s *Series) patch(ctx context.Context, path, merge string) error {
	ctx, cancel := context.WithTimeout(ctx, patience())
	defer cancel()
	for {
		err := s.sb.Patch(ctx, path, merge)
		if err == nil {
			return nil
		}
		if wait(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("patch %s: %w", path, err)
		}
	}
}

func (s *Series) scale(ctx context.Context, name string, replicas int) error {
	return s.patch(ctx, "/apis/apps/v1/namespaces/default/deployments/"+name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (s *Series) scaleAll(ctx context.Context, replicas []int) error {
	for i, w := range workloads {
		if err := s.scale(ctx, w.name, replicas[i]); err != nil {
			return err
		}
	}
	s.replicas = replicas
	return nil
}

// briefClaims are the NodeClaims of nodes that expire.
func (s *Series) briefClaims(ctx context.Context) ([]karpv1.NodeClaim, error) {
	list, err := sandbox.Get[karpv1.NodeClaimList](ctx, s.sb, "/apis/karpenter.sh/v1/nodeclaims", "labelSelector", karpv1.LabelNodePool+"=brief")
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
