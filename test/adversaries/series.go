// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// honestName is the name of the honest workload's namespace, of its NodePool, and of the marker of its nodes.
const honestName = "honest"

// Part is one series: one autoscaler, with adversaries or without.
type Part struct {
	Autoscaler string              `json:"autoscaler"`
	Alone      bool                `json:"alone"` // without adversaries
	Seed       uint64              `json:"seed"`
	Seconds    float64             `json:"seconds"`
	Honest     Honest              `json:"honest"`
	Accounts   map[string]*Account `json:"accounts"` // by adversary, and of honestName

	// By the simulated cloud's own journal, which only Dovetail launches from: to compare with the sum of the accounts.
	CloudLaunches int     `json:"cloudLaunches,omitempty"`
	CloudUSD      float64 `json:"cloudUSD,omitempty"`
}

// series is a part under way.
type series struct {
	options
	*watch.Cluster
	rnd    *rand.Rand
	fields map[string]*field
}

// play starts a sandbox, lets the honest workload grow and shrink beside the adversaries, and returns what it came to.
func play(ctx context.Context, o options, autoscaler string, alone bool, chosen []adversary) (p *Part, err error) {
	dir, err := os.MkdirTemp("", "dovetail-adversaries-")
	if err != nil {
		return nil, err
	}
	if !o.keep {
		defer os.RemoveAll(dir)
	}
	catalog, err := scaledown.WriteCatalogue(dir)
	if err != nil {
		return nil, err
	}
	say("%s, %s: starting a sandbox in %s", autoscaler, beside(alone, len(chosen)), dir)
	s := &series{options: o, rnd: rand.New(rand.NewPCG(o.seed, 20)), fields: map[string]*field{}}
	start := watch.Options{Dir: dir, Catalog: catalog, Flags: []string{"--boot", "0", "--pull", "1s"}}
	if autoscaler == karpenter {
		start.Karpenter = o.karpenter
	}
	cluster, stop, err := watch.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	s.Cluster = cluster
	acting, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		for _, f := range s.fields {
			f.loops.Wait()
		}
	}()
	if err := s.startHonest(ctx); err != nil {
		return nil, err
	}
	if !alone {
		if err := s.startAdversaries(acting, chosen); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	if err := s.growAndShrink(ctx, begun); err != nil {
		return nil, err
	}
	p = &Part{Autoscaler: autoscaler, Alone: alone, Seed: o.seed, Seconds: round(time.Since(begun).Seconds())}
	return p, s.measure(ctx, p, autoscaler)
}

// startAdversaries starts all adversaries at once, since some wait until a policy is in force.
func (s *series) startAdversaries(ctx context.Context, chosen []adversary) error {
	var all sync.WaitGroup
	failed := make([]error, len(chosen))
	for i, a := range chosen {
		f := &field{s: s.Sandbox, name: a.name}
		s.fields[a.name] = f
		all.Go(func() {
			if err := a.start(ctx, f); err != nil {
				failed[i] = fmt.Errorf("adversary %s: %w", a.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// startHonest creates the node class with the boot time, and the honest workload with its NodePool.
func (s *series) startHonest(ctx context.Context) error {
	f := &field{s: s.Sandbox, name: honestName}
	return errors.Join(
		f.create(ctx, classes, fmt.Sprintf("{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {nodeRegistrationDelay: %ds}}", int(s.boot.Seconds()))),
		f.createPools(ctx, pool{}),
		f.work(ctx, 1, "900m"))
}

// growAndShrink sets how many honest pods are wanted again and again until the series is over, and reports progress.
func (s *series) growAndShrink(ctx context.Context, begun time.Time) error {
	told, changed, wanted := time.Time{}, time.Time{}, 1
	for time.Since(begun) < s.length {
		if now := time.Now(); now.Sub(changed) >= s.every {
			changed, wanted = now, 4+s.rnd.IntN(37)
			if err := s.Sandbox.Patch(ctx, fmt.Sprintf(deployments, honestName, "work"), fmt.Sprintf(`{"spec":{"replicas":%d}}`, wanted)); err != nil {
				return err
			}
		}
		if now := time.Now(); now.Sub(told) >= 5*time.Second {
			told = now
			if err := s.progress(begun, wanted); err != nil {
				return err
			}
		}
		if err := s.Idle(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// whose returns the account of a NodeClaim.
func whose(c *watch.Claim) string { return c.Labels[marker] }

func (s *series) progress(begun time.Time, wanted int) error {
	now := time.Now()
	all, err := account(s.Cluster, whose, now)
	if err != nil {
		return err
	}
	running := 0
	for _, p := range s.Pods {
		if p.Namespace == honestName && p.Runs {
			running++
		}
	}
	launches, vain := 0, 0
	for _, a := range all {
		launches, vain = launches+a.Launches, vain+a.Vain
	}
	h := honest(s.Cluster, honestName, now)
	say("%4.0f s of %.0f: honest pods %d of %d run, p99 %.1f s; %d launches, %d unused", now.Sub(begun).Seconds(), s.length.Seconds(), running, wanted, h.P99, launches, vain)
	return nil
}

// measure fills in a part at the end of its series.
func (s *series) measure(ctx context.Context, p *Part, autoscaler string) (err error) {
	now := time.Now()
	p.Honest = honest(s.Cluster, honestName, now)
	if p.Accounts, err = account(s.Cluster, whose, now); err != nil {
		return err
	}
	refused, err := refusals(ctx, s.Sandbox)
	if err != nil {
		return err
	}
	for name, f := range s.fields {
		a := p.Accounts[name]
		if a == nil {
			a = &Account{}
			p.Accounts[name] = a
		}
		a.Acts = f.acts.Load()
		for _, policy := range f.policies {
			a.Acts += int64(refused[policy])
		}
	}
	for _, a := range p.Accounts {
		a.USD, a.VainUSD = round(a.USD), round(a.VainUSD)
	}
	if autoscaler == dovetail {
		p.CloudLaunches, p.CloudUSD, err = journal(ctx, s.Sandbox, now)
	}
	return err
}

// journal returns how many instances the simulated cloud launched, and what they cost until an instant.
func journal(ctx context.Context, s *sandbox.Sandbox, now time.Time) (launches int, usd float64, err error) {
	records, err := s.Journal(ctx)
	if err != nil {
		return 0, 0, err
	}
	running := map[string]*machines.Instance{}
	pay := func(in *machines.Instance, until time.Time) {
		usd += float64(in.PriceMicro) / 1e6 * until.Sub(in.Launched).Hours()
	}
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordLaunched && r.Instance.ClaimUID != "":
			running[r.ID] = r.Instance
			launches++
		case r.Kind == machines.RecordTerminated && running[r.ID] != nil:
			pay(running[r.ID], r.At)
			delete(running, r.ID)
		case r.Kind == machines.RecordCompacted:
			return 0, 0, errors.New("the simulated cloud has compacted its journal")
		}
	}
	for _, in := range running {
		pay(in, now)
	}
	return launches, round(usd), nil
}

// refusals returns how many requests each admission policy has refused, by the API server's own count.
func refusals(ctx context.Context, s *sandbox.Sandbox) (map[string]float64, error) {
	body, err := s.Kube.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	defer body.Close()
	parser := expfmt.NewTextParser(prommodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	out := map[string]float64{}
	for _, m := range families["apiserver_validating_admission_policy_check_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["enforcement_action"] == "deny" {
			out[labels["policy"]] += m.GetCounter().GetValue()
		}
	}
	return out, nil
}
