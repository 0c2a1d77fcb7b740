// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package demo scales a workload up and down on a running sandbox, and prints
// what Dovetail does: for each step a timeline of watch events, then the nodes
// with their cost and utilization.
//
// It only observes and scales. Processes are started and stopped by
// internal/verbs. It uses only the Kubernetes API and the simulated cloud's
// price list. Printed times are those at which its watch received the event.
// Modelled prices are marked.
//
// cluster.go, timeline.go and table.go are pure functions from observations to
// text, tested with text cases. Start reading at Run.
package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// Options are what a person chooses about the show.
type Options struct {
	ConsolidateAfter time.Duration // of the NodePool, in whole seconds; with groups how long a node is unneeded before it goes
	Settle           time.Duration // how long nothing may change before a scale-down is over
	Slack            time.Duration // how much longer than it should a step may take
	Terminal         bool          // the output can overwrite its last line
	Source           Source        // what nodes are launched from, on the simulated AWS
}

// Source is what nodes are launched from. The node class alone, of whichever
// cloud, is the empty one.
type Source string

// With groups each group becomes a NodePool.
const (
	Groups Source = "only" // Auto Scaling groups
	Both   Source = "both" // these, and beside them a NodePool on an EC2NodeClass
)

// Default is the show at a pace that can be read.
func Default() Options {
	return Options{ConsolidateAfter: 10 * time.Second, Settle: 4 * time.Second, Slack: 2 * time.Minute}
}

// Fast is the show for a test.
func Fast() Options {
	o := Default()
	o.ConsolidateAfter, o.Settle = 3*time.Second, time.Second
	return o
}

// replicas of the Deployment, step by step: one that fits on the node that
// stands, a burst, a scale-down that leaves nodes half empty, and the end.
var replicas = []int{1, 30, 10, 0}

// Run plays the show on the sandbox that state describes. An error says why the
// show ended early, or what was left at its end.
func Run(ctx context.Context, out io.Writer, state *supervise.State, o Options) error {
	s := &show{out: &screen{w: out, terminal: o.Terminal}, state: state, options: o}
	s.out.status("reading the simulated cloud's price list")
	prices, err := readPrices(ctx, state.MachinesURL)
	if err != nil {
		return err
	}
	s.cluster = newCluster(prices)
	s.out.status("watching the cluster")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.api, err = connect(ctx, state.Kubeconfig); err != nil {
		return err
	}
	s.changes = s.api.changes
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for i, n := range replicas {
		before := 0
		if i > 0 {
			before = replicas[i-1]
		}
		if err := s.scale(ctx, before, n); err != nil {
			return err
		}
	}
	return s.finish(ctx)
}

type show struct {
	out     *screen
	state   *supervise.State
	options Options
	api     *api
	changes <-chan change
	cluster *cluster
}

// prepare fills the node that is not Dovetail's and says what may be launched.
func (s *show) prepare(ctx context.Context) error {
	var base node
	err := s.wait(ctx, nil, "base node", time.Minute, 0, func() string {
		for _, n := range s.cluster.sortedNodes() {
			if n.pool == "" && n.ready {
				base = n
				return ""
			}
		}
		return "the base node is not Ready"
	})
	if err != nil {
		return err
	}
	const pods, percent = 4, 73
	each := base.cpu * percent / 100 / pods
	if err := s.apply(ctx, "platform", map[string]string{"NODE": base.name, "CPU": strconv.FormatInt(each, 10) + "m"}); err != nil {
		return err
	}
	err = s.wait(ctx, nil, "system pods", time.Minute+2*s.state.Options.Pull, 0, func() string {
		if n := s.cluster.podsOn(base.name); n < pods {
			return fmt.Sprintf("%d of %d system pods running", n, pods)
		}
		return ""
	})
	if err != nil {
		return err
	}
	s.out.print(fmt.Sprintf("Node %s (%s) is not managed by Dovetail; system pods request %d %% of its CPU.",
		base.name, base.machine, share(s.cluster.requests()[base.name].cpu, base.cpu)))
	if s.options.Source != "" {
		err = s.offerGroups(ctx)
	} else {
		err = s.offerNodePool(ctx)
	}
	if err != nil {
		return err
	}
	return s.apply(ctx, "deployment", nil)
}

// offerNodePool applies a node class of the sandbox's cloud and a NodePool on it.
func (s *show) offerNodePool(ctx context.Context) error {
	class, ref := "kwoknodeclass", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}"
	if s.state.Options.Cloud == plane.CloudAWS {
		class, ref = "ec2nodeclass", "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
		if err := s.shown(ctx, "Nodes are instances on the simulated AWS, launched with this node class:", class, nil); err != nil {
			return err
		}
	} else if err := s.apply(ctx, class, nil); err != nil {
		return err
	}
	err := s.shown(ctx, "Dovetail launches and consolidates nodes of this NodePool (Karpenter API):", "nodepool",
		map[string]string{"NODE_CLASS": ref, "AFTER": s.consolidateAfter()})
	if err != nil {
		return err
	}
	return s.ready(ctx, nodePoolsGVR, 1)
}

// consolidateAfter is the option as a NodePool has it.
func (s *show) consolidateAfter() string {
	return strconv.Itoa(int(s.options.ConsolidateAfter.Seconds())) + "s"
}

// offerGroups says which groups there are and waits until Dovetail has found
// them, and with Both applies the NodePool beside them.
func (s *show) offerGroups(ctx context.Context) error {
	groups, err := plane.ReadGroups(s.state.Options.Groups)
	if err != nil {
		return err
	}
	s.out.print("", "The simulated AWS has these Auto Scaling groups. Dovetail discovers them by Cluster Autoscaler's tags:", "")
	for _, g := range groups {
		s.out.print(fmt.Sprintf("    %-8s %d to %d of %s", g.Name, g.Min, g.Max, strings.Join(g.InstanceTypes, " or ")))
	}
	s.out.print("", "    --node-group-auto-discovery="+plane.GroupDiscovery)
	for _, arg := range s.state.Options.ControllerArgs {
		s.out.print("    " + arg)
	}
	pools := len(groups)
	if s.options.Source == Both {
		pools++
		if err := s.shown(ctx, "Nodes can also be launched directly on EC2, with this node class and NodePool:", "ec2nodeclass", nil); err != nil {
			return err
		}
		if err := s.shown(ctx, "", "fleet", map[string]string{"AFTER": s.consolidateAfter()}); err != nil {
			return err
		}
	}
	if err := s.ready(ctx, nodePoolsGVR, pools); err != nil {
		return err
	}
	s.out.print("", "Each group now has a NodePool.")
	return nil
}

// shown prints a manifest below what introduces it, and applies it.
func (s *show) shown(ctx context.Context, what, name string, settings map[string]string) error {
	text, err := manifest(name, settings)
	if err != nil {
		return err
	}
	if what != "" {
		s.out.print("", what)
	}
	s.out.print("", indent(uncommented(text), "    "))
	return s.apply(ctx, name, settings)
}

// ready waits until the controller says of so many objects that it can launch nodes by them.
func (s *show) ready(ctx context.Context, resource schema.GroupVersionResource, n int) error {
	if err := s.api.waitReady(ctx, resource, n, s.options.Slack); err != nil {
		return fmt.Errorf("%w; controller log: %s", err, s.log())
	}
	return nil
}

// scale plays one step.
func (s *show) scale(ctx context.Context, before, n int) error {
	o := s.options
	oldCost, _ := s.cluster.launchedCost()
	s.cluster.wanted = n
	line := &timeline{}
	title := fmt.Sprintf("%d replicas at once", n)
	limit := s.state.Options.Boot*2 + s.state.Options.Pull*2 + o.Slack
	settle := 300 * time.Millisecond
	awaited := s.cluster.untilRunning
	switch {
	case before == 0:
		title = "1 replica, of 500m CPU and 512Mi of memory: it fits on " + s.cluster.baseName()
		settle = 1500 * time.Millisecond // Long enough to see that nothing is launched.
		awaited = func() string {
			if len(s.cluster.claims) > 0 {
				return "a node is launched for a pod that fits the base node"
			}
			return s.cluster.untilRunning()
		}
	case n == 0:
		title = fmt.Sprintf("no replicas: empty nodes are removed after %s", o.ConsolidateAfter)
		limit += o.ConsolidateAfter
		awaited = s.cluster.untilEmpty
	case n < before:
		title = fmt.Sprintf("%d replicas: nodes without a change for %s are consolidated", n, o.ConsolidateAfter)
		limit += o.ConsolidateAfter
		settle = o.Settle
		awaited = func() string { return s.cluster.untilCheaper(oldCost) }
	}
	s.out.print("", "── "+title+" "+strings.Repeat("─", max(2, 96-len(title))), "")

	s.cluster.epoch = time.Now()
	if err := s.api.scale(ctx, n); err != nil {
		return err
	}
	line.add(moment{what: scaled, text: strconv.Itoa(n)})
	if err := s.wait(ctx, line, fmt.Sprintf("step to %d replicas", n), limit, settle, awaited); err != nil {
		return err
	}
	s.out.print("", s.cluster.table())
	s.out.print("", s.cluster.total(oldCost))
	return nil
}

// finish looks at the end with the cloud's own eyes as well.
func (s *show) finish(ctx context.Context) error {
	const limit = 30 * time.Second // for instances that are shutting down
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := instancesLeft(ctx, s.state.MachinesURL, s.state.AWSURL)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			s.out.print("", "All nodes launched by Dovetail are removed, and the simulated cloud has no instances left.")
			return s.once(ctx)
		}
		s.out.status("shutting down: " + strings.Join(left, ", "))
		select {
		case <-ctx.Done():
			s.out.flush()
			return context.Cause(ctx)
		case <-deadline.C:
			s.out.flush()
			return fmt.Errorf("all nodes are removed, but the simulated cloud still has %s after %s: %s; controller log: %s",
				count(len(left), "instance that Dovetail launched", "instances that Dovetail launched"), limit, strings.Join(left, ", "), s.log())
		case <-tick.C:
		}
	}
}

// once says from where the instances came, and that no more of them were started
// than there were NodeClaims, by the simulated AWS' own books.
func (s *show) once(ctx context.Context) error {
	if s.state.AWSURL == "" {
		return nil
	}
	b, err := readBooks(ctx, s.state.AWSURL)
	if err != nil {
		return err
	}
	if n := len(s.cluster.had); b.Started != n || len(b.Twice) > 0 || n == 0 {
		return fmt.Errorf("%s launched for %s; NodeClaims with several instances: %v", count(b.Started, "instance was", "instances were"), count(n, "NodeClaim", "NodeClaims"), b.Twice)
	}
	s.out.print(fmt.Sprintf("The simulated AWS launched %d instances for %d NodeClaims, none twice: %s.", b.Started, len(s.cluster.had), s.cluster.origins()))
	return nil
}

func (s *show) apply(ctx context.Context, name string, settings map[string]string) error {
	text, err := manifest(name, settings)
	if err != nil {
		return err
	}
	return s.api.apply(ctx, name, text)
}

func (s *show) log() string {
	for _, child := range s.state.Components {
		if strings.HasPrefix(child.Name, "dovetail") {
			return child.Log
		}
	}
	return "not available, no controller is running"
}

// wait takes what the watches tell until awaited, which says what is missing,
// has had nothing to say for as long as settle. A nil line shows no timeline.
func (s *show) wait(ctx context.Context, line *timeline, what string, limit, settle time.Duration, awaited func() string) error {
	const (
		tickEvery = 50 * time.Millisecond
		lookEvery = time.Second // at whether everything still runs
	)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	began := time.Now()
	missing, since, looked := "", time.Time{}, began
	ready := true // whether what is missing may have changed
	for {
		select {
		case <-ctx.Done():
			s.out.flush()
			return context.Cause(ctx)
		case c := <-s.changes:
			for _, m := range s.cluster.take(c) {
				if line != nil {
					line.add(m)
				}
			}
			ready = true
			continue // Whatever else has come is taken before anything is judged.
		case <-tick.C:
		}
		now := time.Now()
		if line != nil {
			s.out.print(line.take(now.Sub(s.cluster.epoch))...)
		}
		if ready || missing != "" {
			before := missing
			if missing = awaited(); missing == "" && (before != "" || since.IsZero()) {
				since = now
			}
			ready = false
		}
		if missing == "" && now.Sub(since) >= settle {
			if line != nil {
				s.out.print(line.rest()...)
			}
			s.out.flush()
			return nil
		}
		if missing != "" && now.Sub(began) > limit {
			s.out.flush()
			return fmt.Errorf("%s: not complete after %s: %s; controller log: %s", what, limit, missing, s.log())
		}
		if missing != "" {
			s.out.status(fmt.Sprintf("%5.0f s  %s", now.Sub(began).Seconds(), missing))
		}
		if now.Sub(looked) > lookEvery {
			looked = now
			if err := s.alive(); err != nil {
				s.out.flush()
				return err
			}
		}
	}
}

// alive says which part of the sandbox died.
func (s *show) alive() error {
	var died []error
	for _, child := range s.state.Components {
		// The controller is started again by its supervisor.
		if !child.Alive() && !strings.HasPrefix(child.Name, "dovetail") {
			died = append(died, errors.New(supervise.DeathReport(child.Name, "the demo cannot continue without it", child.Log)))
		}
	}
	return errors.Join(died...)
}

// manifest is one of the embedded files with its settings filled in.
func manifest(name string, settings map[string]string) (string, error) {
	raw, err := manifests.ReadFile("manifests/" + name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("read the manifest of %s: %w", name, err)
	}
	var unset []string
	text := os.Expand(string(raw), func(key string) string {
		if _, ok := settings[key]; !ok {
			unset = append(unset, key)
		}
		return settings[key]
	})
	if len(unset) > 0 {
		slices.Sort(unset)
		return "", fmt.Errorf("the manifest of %s needs %s", name, strings.Join(unset, ", "))
	}
	return text, nil
}

func uncommented(text string) string {
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			out.WriteString(line)
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

func indent(text, by string) string { return by + strings.ReplaceAll(text, "\n", "\n"+by) }

// screen prints lines, and says what it waits for when nothing was printed for
// a while: on a terminal in a line that is overwritten, else now and then.
type screen struct {
	w        io.Writer
	terminal bool
	last     time.Time // when something was printed
	said     time.Time // when a status was
	shown    bool      // a status stands in the terminal's last line
}

const (
	patience  = 2 * time.Second        // silence after which a status is due
	repeat    = 10 * time.Second       // between two where each takes a line
	overwrite = 250 * time.Millisecond // between two where none does
	width     = 78                     // of a line that is overwritten: it must not wrap
)

func (s *screen) print(lines ...string) {
	if len(lines) == 0 {
		return
	}
	s.flush()
	_, _ = fmt.Fprintln(s.w, strings.Join(lines, "\n")) // Nobody to tell when the output is gone.
	s.last, s.said = time.Now(), time.Time{}
}

func (s *screen) status(text string) {
	now := time.Now()
	if s.last.IsZero() {
		s.last = now
	}
	every := repeat
	if s.terminal {
		every = overwrite
	}
	if now.Sub(s.last) < patience || now.Sub(s.said) < every {
		return
	}
	s.said = now
	if s.terminal {
		line := []rune("  …" + text)
		_, _ = fmt.Fprintf(s.w, "\r\x1b[K%s", string(line[:min(len(line), width)]))
		s.shown = true
		return
	}
	_, _ = fmt.Fprintf(s.w, "  …%s\n", text)
}

// flush takes the status away.
func (s *screen) flush() {
	if s.shown {
		_, _ = fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}
