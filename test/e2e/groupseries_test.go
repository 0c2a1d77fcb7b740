// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// seriesFamilies are the instance families of series that run side by side: each has groups of its own, and so have
// the faults that strike instance types.
var seriesFamilies = []string{"c5", "m5", "r5", "c5a", "m5a"}

// provisionTime is how long the groups of a series have to give a node.
const provisionTime = 8 * time.Second

// Drawn series over two groups that misbehave: instances fail to come, come without joining, are ended by AWS or
// somebody else, are moved between zones, and the maximum shrinks below what runs, while pods come and go and the
// controller is killed amid it. In the end every pod runs and nothing moves. No node with pods on it was ended by
// Dovetail, and after the last of it no group's desired capacity went up and down again and again. One seed; twenty in
// the soak, five side by side; GROUP_SERIES=4-6 plays some.
func TestGroupSeries(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	first, last := seriesSeeds(t)
	for from := first; from <= last; from += len(seriesFamilies) {
		to := min(last, from+len(seriesFamilies)-1)
		t.Run(fmt.Sprintf("seeds-%d-%d", from, to), func(t *testing.T) {
			s := onEC2(t)
			for seed := from; seed <= to; seed++ {
				t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
					t.Parallel()
					newSeries(t, s, seed).play(last > first)
				})
			}
			t.Run("kills", func(t *testing.T) {
				t.Parallel()
				killTwice(t, s, rand.New(rand.NewPCG(uint64(from), 7)))
			})
		})
	}
}

// seriesSeeds are the first and the last seed to play.
func seriesSeeds(t *testing.T) (first, last int) {
	t.Helper()
	if some := os.Getenv("GROUP_SERIES"); some != "" {
		a, b, is := strings.Cut(some, "-")
		if !is {
			b = a
		}
		var errs [2]error
		first, errs[0] = strconv.Atoi(a)
		last, errs[1] = strconv.Atoi(b)
		if errs[0] != nil || errs[1] != nil || first < 1 || last < first {
			t.Fatalf("GROUP_SERIES=%s: want a seed, or the first and the last as in 4-6", some)
		}
		return first, last
	}
	return 1, kills(1)
}

// killTwice kills the controller at two drawn moments of the first quarter of a minute.
func killTwice(t *testing.T, s *sandbox.Sandbox, draw *rand.Rand) {
	e := &env{t: t, ctx: t.Context(), s: s, name: "kills"}
	for range 2 {
		e.pause(2*time.Second + time.Duration(draw.Int64N(int64(6*time.Second))))
		all, err := s.Components(sandbox.Controller)
		e.must(err)
		e.kill(all[0])
	}
}

// pause lets time pass in which something else happens.
func (e *env) pause(d time.Duration) {
	e.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
		e.t.Fatal(e.ctx.Err())
	}
}

// series is one drawn series: a cheap group whose nodes hold one pod each, and one whose nodes hold two, which always has
// capacity: without any a pod waits for the three minutes that an offering is set aside.
type series struct {
	*env
	draw         *rand.Rand
	seed         int
	small, large awstest.Group
	replicas     int
	said         []string // what happened, with times
	began, calm  time.Time
	pods         *podPlaces
}

func newSeries(t *testing.T, s *sandbox.Sandbox, seed int) *series {
	e := newEnv(t, s, fmt.Sprintf("series-%d", seed))
	family := seriesFamilies[(seed-1)%len(seriesFamilies)]
	draw := rand.New(rand.NewPCG(uint64(seed), 1))
	zones := []string{"us-east-1a", "us-east-1b"}
	group := func(name, size string, most int) awstest.Group {
		return awstest.Group{Name: e.name + name, Max: most, InstanceTypes: []string{family + "." + size}, Zones: zones, Tags: nodesOf(e.name), DesiredLeftAsItIs: true}
	}
	x := &series{env: e, draw: draw, seed: seed, small: group("-small", "large", 3+draw.IntN(6)), large: group("-large", "xlarge", 12), began: time.Now()}
	if draw.IntN(3) == 0 {
		x.small.Min = 1 + draw.IntN(2)
		x.small.Desired = x.small.Min
	}
	return x
}

// play plays the series and checks what came of it. Orphans, members that AWS launched by itself, become claims after
// half a minute: whole waits for that, too.
func (x *series) play(whole bool) {
	e := x.env
	t := e.t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d (GROUP_SERIES=%d):\n%s", x.seed, x.seed, strings.Join(x.said, "\n"))
			for _, g := range []string{x.small.Name, x.large.Name} {
				t.Logf("%s: %s", g, strings.Join(x.capacities(g), " "))
			}
		}
	})
	x.define(&x.small)
	x.define(&x.large)
	x.pods = watchPlaces(e)
	x.classAndPool()
	x.replicas = 2 + x.draw.IntN(5)
	e.deploy("web", int32(x.replicas), e.pod("1500m", "1Gi"))
	for range 6 {
		e.pause(500*time.Millisecond + time.Duration(x.draw.Int64N(int64(2500*time.Millisecond))))
		x.disturb()
	}
	x.calm = time.Now()
	e.podsRun(x.replicas)
	x.rests(whole)
	x.nobodyEndedWithPods()
	for _, g := range []string{x.small.Name, x.large.Name} {
		x.noOscillation(g)
	}
	t.Logf("seed %d: %d events, %d pods run and nothing moves %s after the last event; %s of %s, %s of %s", x.seed, len(x.said), x.replicas,
		time.Since(x.calm).Round(time.Second), x.small.Name, strings.Join(x.capacities(x.small.Name), " "), x.large.Name, strings.Join(x.capacities(x.large.Name), " "))
	x.small.Min = 0 // so that the nodes can go
	x.define(&x.small)
}

// classAndPool makes the class over both groups, and the pool.
func (x *series) classAndPool() {
	x.fromGroups(map[string]any{"spec.disruption.consolidationPolicy": "WhenEmptyOrUnderutilized", "spec.disruption.consolidateAfter": "1s"}, x.small.Name, x.large.Name)
	x.must(x.s.Patch(x.ctx, groupClasses+"/"+x.name, fmt.Sprintf(`{"spec":{"options":{"maxNodeProvisionTime":%q}}}`, provisionTime)))
}

func (x *series) define(g *awstest.Group) {
	x.t.Helper()
	x.must(x.s.AWS(x.ctx, http.MethodPut, "/_aws/groups", *g, nil))
}

// say notes something that happened.
func (x *series) say(format string, args ...any) {
	x.said = append(x.said, fmt.Sprintf("%6.2fs ", time.Since(x.began).Seconds())+fmt.Sprintf(format, args...))
}

// disturb does one drawn thing.
func (x *series) disturb() {
	x.t.Helper()
	g := &x.small
	if x.draw.IntN(3) == 0 {
		g = &x.large
	}
	switch x.draw.IntN(8) {
	case 0, 1:
		x.replicas = 1 + x.draw.IntN(9)
		x.say("%d replicas", x.replicas)
		x.scale("web", x.replicas)
	case 2:
		d := time.Duration(2+x.draw.IntN(8)) * time.Second
		x.say("no capacity for %s in %s", d, x.small.InstanceTypes[0])
		x.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: x.small.InstanceTypes[0], Duration: machines.Duration(d)})
	case 3:
		n := 1 + x.draw.IntN(2)
		x.say("the next %d of %s don't join", n, g.InstanceTypes[0])
		x.fault(awstest.Fault{Kind: machines.NeverRegisters, InstanceType: g.InstanceTypes[0], Count: n, Duration: machines.Duration(20 * time.Second)})
	case 4:
		x.endMember(g.Name)
	case 5:
		var who awstest.Interrupted
		err := x.s.AWS(x.ctx, http.MethodPost, "/_aws/rebalance", awstest.GroupName{Name: g.Name}, &who)
		x.say("AZRebalance of %s: %v, %v", g.Name, who.Instances, err)
	case 6:
		has := len(x.groupNamed(x.small.Name).Members)
		x.small.Max = max(x.small.Min, has-1-x.draw.IntN(2), 0)
		x.say("maximum of %s, which has %d: %d", x.small.Name, has, x.small.Max)
		x.define(&x.small)
	case 7:
		n := x.draw.IntN(4)
		x.say("maxSize of the class for %s: %d", x.small.Name, n)
		x.must(x.s.Patch(x.ctx, groupClasses+"/"+x.name, fmt.Sprintf(`{"spec":{"selectorTerms":[{"name":%q,"maxSize":%d},{"name":%q}]}}`, x.small.Name, n, x.large.Name)))
	}
}

func (x *series) fault(f awstest.Fault) {
	x.t.Helper()
	x.must(x.s.AWS(x.ctx, http.MethodPost, "/_aws/faults", awstest.FaultList{Faults: []awstest.Fault{f}}, nil))
}

// endMember has AWS stop a drawn member of a group at once.
func (x *series) endMember(group string) {
	x.t.Helper()
	m := x.groupNamed(group).Members
	if len(m) == 0 {
		x.say("%s has no member to end", group)
		return
	}
	id := m[x.draw.IntN(len(m))]
	err := x.s.AWS(x.ctx, http.MethodPost, "/_aws/interrupt", awstest.Interruption{Kind: awstest.StateChange, Instances: []string{id}}, nil)
	x.say("%s of %s is stopped: %v", id, group, err) // it may have gone in between
}

// rests waits until the groups have what they should, each member is the instance of a Ready claim, and nothing has
// changed for a while. Unless it is whole, members may be nobody's yet.
func (x *series) rests(whole bool) {
	x.t.Helper()
	last, since := "", time.Now()
	x.until("nothing moves", func() error {
		now, err := x.state(whole)
		if now != last {
			last, since = now, time.Now()
		}
		if d := time.Since(since); err == nil && d < 4*time.Second {
			err = fmt.Errorf("the same for %s", d.Round(time.Second))
		}
		return err
	})
}

// state is everything that may move, as text, and what of it is not as it should be.
func (x *series) state(whole bool) (string, error) {
	text, claimed := "", map[string]bool{}
	var wrong error
	for _, c := range x.claims() {
		text += fmt.Sprintln(c.Name, c.Status.ProviderID, c.Status.NodeName, c.DeletionTimestamp != nil)
		if !ready(&c) || c.DeletionTimestamp != nil || isTrue(&c, karpv1.ConditionDisruptionReason) {
			wrong = fmt.Errorf("nodeclaim %s: deleting %v, %s", c.Name, c.DeletionTimestamp, conditionsText(c.Status.Conditions))
		}
		claimed[c.Status.ProviderID[strings.LastIndexByte(c.Status.ProviderID, '/')+1:]] = true
	}
	for _, n := range x.nodes() {
		text += fmt.Sprintln(n.Name, n.Spec.Taints)
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disrupted || t.Key == reservedTaint }) {
			wrong = fmt.Errorf("node %s has taints %v", n.Name, n.Spec.Taints)
		}
	}
	members := 0
	for _, g := range []string{x.small.Name, x.large.Name} {
		is := x.groupNamed(g)
		text += fmt.Sprintln(g, is.Desired, is.Members)
		if is.Desired != len(is.Members) {
			wrong = fmt.Errorf("group %s has %d members and should have %d", g, len(is.Members), is.Desired)
		}
		for _, id := range is.Members {
			members++
			if !claimed[id] && whole {
				wrong = fmt.Errorf("member %s of %s is no claim's", id, g)
			}
		}
	}
	if members < len(claimed) {
		wrong = fmt.Errorf("%d members for %d claims", members, len(claimed))
	}
	for _, p := range x.env.pods() {
		text += fmt.Sprintln(p.Name, p.Spec.NodeName)
	}
	return text, wrong
}

// capacities are a group's desired capacities by the journal, each with the second of the series.
func (x *series) capacities(group string) []string {
	x.t.Helper()
	var out []string
	for _, c := range x.desiredOver(group) {
		out = append(out, fmt.Sprintf("%d@%.1f", c.n, c.at.Sub(x.began).Seconds()))
	}
	return out
}

type capacityAt struct {
	at time.Time
	n  int
}

// desiredOver is what a group's desired capacity ever was, and since when.
func (x *series) desiredOver(group string) (out []capacityAt) {
	x.t.Helper()
	for _, n := range x.notes() {
		if n.Kind == "group" && n.Key == group && (len(out) == 0 || out[len(out)-1].n != n.Value.Desired) {
			out = append(out, capacityAt{n.at, n.Value.Desired})
		}
	}
	return out
}

// journalNote is what the simulated AWS has noted of a group or of what a group did.
type journalNote struct {
	at        time.Time
	Kind, Key string
	Value     struct {
		Desired                           int
		Group, Description, Cause, Status string
	}
}

func (x *series) notes() (out []journalNote) {
	x.t.Helper()
	records, err := x.s.Journal(context.WithoutCancel(x.ctx)) // also when the test has failed
	if err != nil {
		x.t.Error(err)
	}
	for _, r := range records {
		n := journalNote{at: r.At}
		if len(r.Data) > 0 && json.Unmarshal(r.Data, &n) == nil {
			out = append(out, n)
		}
	}
	return out
}

// noOscillation: after the last event a group's desired capacity turns twice at most: what was lost comes again, what
// is too much then goes, and the other way round where it had begun to go. An instance that could not be launched, or has
// not joined, is given up and asked for anew: twice more for each.
func (x *series) noOscillation(group string) {
	x.t.Helper()
	turns, up, before := 0, 0, 0
	for i, c := range x.desiredOver(group) {
		if i > 0 && c.at.After(x.calm) {
			now := 1
			if c.n < before {
				now = -1
			}
			if up != 0 && now != up {
				turns++
			}
			up = now
		}
		before = c.n
	}
	if most := 2 + 2*x.failedAfterCalm(group); turns > most {
		x.t.Errorf("the desired capacity of %s turned %d times after the last event, want at most %d", group, turns, most)
	}
}

// failedAfterCalm is how many launches of a group failed after the last event, and how many instances that never joined
// were ended then.
func (x *series) failedAfterCalm(group string) (n int) {
	x.t.Helper()
	records, err := x.s.Journal(x.ctx)
	x.must(err)
	neverJoins := map[string]bool{}
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordLaunched:
			neverJoins[r.ID] = r.Instance.NeverRegisters
		case r.Kind == machines.RecordTerminating && neverJoins[r.ID] && r.At.After(x.calm):
			n++
		}
	}
	for _, note := range x.notes() {
		if note.Kind == "activity" && note.Value.Group == group && note.Value.Status == "Failed" && note.at.After(x.calm) {
			n++
		}
	}
	return n
}

// nobodyEndedWithPods: who was ended by request, and not by AWS, held no pod.
func (x *series) nobodyEndedWithPods() {
	x.t.Helper()
	records, err := x.s.Journal(x.ctx)
	x.must(err)
	nodeOf, endedAt := map[string]string{}, map[string]time.Time{}
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordLaunched:
			nodeOf[r.ID] = r.Instance.Node.Name
		case r.Kind == machines.RecordTerminating:
			endedAt[r.ID] = r.At
		}
	}
	if len(nodeOf) == 0 {
		x.t.Error("no node was launched, so nothing was tested")
	}
	byAWS := x.endedByAWS()
	for id, at := range endedAt {
		if byAWS[id] != "" {
			continue
		}
		for _, p := range x.pods.on(nodeOf[id]) {
			if p.bound.Before(at) && (p.gone.IsZero() || p.gone.After(at.Add(time.Second))) {
				x.t.Errorf("node %s, %s, was ended at %.2fs with pod %s on it", nodeOf[id], id, at.Sub(x.began).Seconds(), p.name)
			}
		}
	}
}

// endedByAWS are the instances that a group ended by itself, or that were stopped, with the cause.
func (x *series) endedByAWS() map[string]string {
	x.t.Helper()
	out := map[string]string{}
	for _, line := range x.said {
		if before, _, is := strings.Cut(line, " is stopped"); is {
			id, _, _ := strings.Cut(before[strings.LastIndex(before, "i-"):], " ")
			out[id] = "stopped"
		}
	}
	for _, n := range x.notes() {
		if id, is := strings.CutPrefix(n.Value.Description, "Terminating EC2 instance: "); is && !strings.Contains(n.Value.Cause, "user request") {
			out[id] = n.Value.Cause
		}
	}
	return out
}

// podPlaces remembers where pods were, from when until when.
type podPlaces struct {
	mu   sync.Mutex
	pods map[string]*podPlace // by uid
}

type podPlace struct {
	name, node  string
	bound, gone time.Time
}

func watchPlaces(e *env) *podPlaces {
	p := &podPlaces{pods: map[string]*podPlace{}}
	go func() {
		err := sandbox.Watch(e.ctx, e.s, "/api/v1/namespaces/"+e.name+"/pods", func(kind string, pod *corev1.Pod) {
			p.mu.Lock()
			defer p.mu.Unlock()
			have := p.pods[string(pod.UID)]
			if have == nil {
				have = &podPlace{name: pod.Name}
				p.pods[string(pod.UID)] = have
			}
			if have.node == "" && pod.Spec.NodeName != "" {
				have.node, have.bound = pod.Spec.NodeName, time.Now()
			}
			if have.gone.IsZero() && (kind == "DELETED" || pod.DeletionTimestamp != nil) {
				have.gone = time.Now()
			}
		})
		if err != nil && e.ctx.Err() == nil {
			e.t.Errorf("the record of pods is not whole: %v", err)
		}
	}()
	return p
}

// on are the pods that were bound to a node.
func (p *podPlaces) on(node string) (out []podPlace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.pods {
		if x.node == node && node != "" {
			out = append(out, *x)
		}
	}
	return out
}
