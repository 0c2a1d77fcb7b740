// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// seriesFamilies are the instance families of series that run side by side: each has groups of its own, and so have
// the faults that strike instance types.
var seriesFamilies = []string{"c5", "m5", "r5", "c5a", "m5a"}

// provisionTime is how long the groups of a series have to give a node on a quiet machine where nothing between Dovetail and their cloud is killed. The class
// takes no fractions.
const provisionTime = 8 * time.Second

// Drawn series over two groups that misbehave: machines fail to come, come without joining, are ended by their cloud or
// somebody else, are replaced, and the maximum shrinks below what runs, while pods come and go and the controller is
// killed amid it. In the end every pod runs and nothing moves. No node with pods on it was ended by Dovetail, and after
// the last of it no group's size went up and down again and again. One seed for each cloud; twenty in the soak;
// GROUP_SERIES=4-6 plays some.
func TestGroupSeries(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	t.Run("asg", func(t *testing.T) { t.Parallel(); seriesOnAWS(t) })
	t.Run("clusterapi", func(t *testing.T) { t.Parallel(); seriesOnClusterAPI(t) })
}

// seriesOnAWS plays series over Auto Scaling groups, five side by side.
func seriesOnAWS(t *testing.T) {
	first, last := seriesSeeds(t)
	for from := first; from <= last; from += len(seriesFamilies) {
		to := min(last, from+len(seriesFamilies)-1)
		t.Run(fmt.Sprintf("seeds-%d-%d", from, to), func(t *testing.T) {
			s := onEC2(t)
			for seed := from; seed <= to; seed++ {
				t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
					t.Parallel()
					newSeries(t, s, seed, newAWSGroups).play(last > first)
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
	cloud        seriesCloud
	small, large *seriesGroup
	provision    time.Duration // how long the groups have to give a node
	replicas     int
	said         []string // what happened, with times
	began, calm  time.Time
	pods         *podPlaces
}

// seriesGroup is a group of a series.
type seriesGroup struct {
	name     string
	large    bool // its nodes hold two pods, not one
	min, max int
}

// seriesCloud is where the groups of a series are, and what goes wrong there.
type seriesCloud interface {
	// define makes or changes a group. A new one is to have its minimum of machines.
	define(g *seriesGroup)
	// group returns how many machines a group is to have, and those that it has, each by the last part of its provider id.
	group(name string) (want int, members []string)
	// failed reports whether a member of a group failed to come and is kept, which only a group at its minimum size does.
	failed(g *seriesGroup, id string) bool
	// noCapacity has machines of a group fail to come for a while.
	noCapacity(g *seriesGroup, d time.Duration)
	// notJoining has the next n machines of a group come without joining.
	notJoining(g *seriesGroup, n int)
	// end ends a machine of a group; an error says that it has gone in between.
	end(g *seriesGroup, id string) error
	// replace has the cloud replace machines of a group, and says what it does.
	replace(g *seriesGroup) string
	// kills are the processes that are killed amid the series, besides what the test does to all series of a sandbox.
	kills() []seriesKill
	// sizes is what a group's size ever was, and since when.
	sizes(name string) []sizeAt
	// failures is how many launches of a group failed since, and how many machines that never joined were ended since.
	failures(name string, since time.Time) int
	// ended are the machines that were ended.
	ended() []endedMachine
	// judge holds what is particular to the cloud.
	judge()
}

// seriesKill is a process that is killed with SIGKILL and started again.
type seriesKill struct {
	name string
	do   func()
}

type sizeAt struct {
	at time.Time
	n  int
}

type endedMachine struct {
	id, node string
	at       time.Time
	by       string // who ended it; empty: Dovetail
}

func newSeries(t *testing.T, s *sandbox.Sandbox, seed int, on func(*series) seriesCloud) *series {
	e := newEnv(t, s, fmt.Sprintf("series-%d", seed))
	draw := rand.New(rand.NewPCG(uint64(seed), 1))
	x := &series{env: e, draw: draw, seed: seed, provision: pace(provisionTime).Round(time.Second), began: time.Now(),
		small: &seriesGroup{name: e.name + "-small", max: 3 + draw.IntN(6)}, large: &seriesGroup{name: e.name + "-large", large: true, max: 12}}
	if draw.IntN(3) == 0 {
		x.small.min = 1 + draw.IntN(2)
	}
	x.cloud = on(x)
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
			for _, g := range []*seriesGroup{x.small, x.large} {
				t.Logf("%s: %s", g.name, x.sizesText(g))
			}
		}
	})
	x.cloud.define(x.small)
	x.cloud.define(x.large)
	x.pods = watchPlaces(e)
	x.classAndPool()
	x.replicas = 2 + x.draw.IntN(5)
	e.deploy("web", int32(x.replicas), e.pod("1500m", "1Gi"))
	const events = 6
	kills := map[int]seriesKill{} // by event that each follows
	when := rand.New(rand.NewPCG(uint64(x.seed), 7))
	after := when.Perm(events)
	for i, k := range x.cloud.kills() {
		kills[after[i]] = k
	}
	for i := range events {
		e.pause(500*time.Millisecond + time.Duration(x.draw.Int64N(int64(2500*time.Millisecond))))
		x.disturb()
		if k, ok := kills[i]; ok {
			e.pause(time.Duration(when.Int64N(int64(time.Second))))
			x.say("%s is killed", k.name)
			k.do()
		}
	}
	x.calm = time.Now()
	e.podsRun(x.replicas)
	x.rests(whole)
	x.nobodyEndedWithPods()
	x.cloud.judge()
	x.noOscillation(x.small)
	x.noOscillation(x.large)
	t.Logf("seed %d: %d events, %d pods run and nothing moves %s after the last event; %s of %s, %s of %s", x.seed, len(x.said), x.replicas,
		time.Since(x.calm).Round(time.Second), x.small.name, x.sizesText(x.small), x.large.name, x.sizesText(x.large))
	x.small.min = 0 // so that the nodes can go
	x.cloud.define(x.small)
}

// classAndPool makes the class over both groups, and the pool.
func (x *series) classAndPool() {
	x.fromGroups(map[string]any{"spec.disruption.consolidationPolicy": "WhenEmptyOrUnderutilized", "spec.disruption.consolidateAfter": "1s"}, x.small.name, x.large.name)
	x.must(x.s.Patch(x.ctx, groupClasses+"/"+x.name, fmt.Sprintf(`{"spec":{"options":{"maxNodeProvisionTime":%q}}}`, x.provision)))
}

// say notes something that happened.
func (x *series) say(format string, args ...any) {
	x.said = append(x.said, fmt.Sprintf("%6.2fs ", time.Since(x.began).Seconds())+fmt.Sprintf(format, args...))
}

// disturb does one drawn thing.
func (x *series) disturb() {
	x.t.Helper()
	g := x.small
	if x.draw.IntN(3) == 0 {
		g = x.large
	}
	switch x.draw.IntN(8) {
	case 0, 1:
		x.replicas = 1 + x.draw.IntN(9)
		x.say("%d replicas", x.replicas)
		x.scale("web", x.replicas)
	case 2:
		d := time.Duration(2+x.draw.IntN(8)) * time.Second
		x.say("no capacity for %s in %s", d, x.small.name)
		x.cloud.noCapacity(x.small, d)
	case 3:
		n := 1 + x.draw.IntN(2)
		x.say("the next %d of %s don't join", n, g.name)
		x.cloud.notJoining(g, n)
	case 4:
		_, m := x.cloud.group(g.name)
		if len(m) == 0 {
			x.say("%s has no member to end", g.name)
			return
		}
		id := m[x.draw.IntN(len(m))]
		x.say("%s of %s is ended: %v", id, g.name, x.cloud.end(g, id)) // it may have gone in between
	case 5:
		x.say("%s", x.cloud.replace(g))
	case 6:
		_, has := x.cloud.group(x.small.name)
		x.small.max = max(x.small.min, len(has)-1-x.draw.IntN(2), 0)
		x.say("maximum of %s, which has %d: %d", x.small.name, len(has), x.small.max)
		x.cloud.define(x.small)
	case 7:
		n := x.draw.IntN(4)
		x.say("maxSize of the class for %s: %d", x.small.name, n)
		x.must(x.s.Patch(x.ctx, groupClasses+"/"+x.name, fmt.Sprintf(`{"spec":{"selectorTerms":[{"name":%q,"maxSize":%d},{"name":%q}]}}`, x.small.name, n, x.large.name)))
	}
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
	for _, g := range []*seriesGroup{x.small, x.large} {
		want, has := x.cloud.group(g.name)
		text += fmt.Sprintln(g.name, want, has)
		if want != len(has) {
			wrong = fmt.Errorf("group %s has %d members and should have %d", g.name, len(has), want)
		}
		for _, id := range has {
			members++
			if !claimed[id] && whole && !(want <= g.min && x.cloud.failed(g, id)) {
				wrong = fmt.Errorf("member %s of %s is no claim's", id, g.name)
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

// sizesText is what a group's size ever was, each with the second of the series.
func (x *series) sizesText(g *seriesGroup) string {
	x.t.Helper()
	var out []string
	for _, c := range x.cloud.sizes(g.name) {
		out = append(out, fmt.Sprintf("%d@%.1f", c.n, c.at.Sub(x.began).Seconds()))
	}
	return strings.Join(out, " ")
}

// noOscillation: after the last event a group's size turns twice at most: what was lost comes again, what is too much then
// goes, and the other way round where it had begun to go. A machine that could not be launched, or has not joined, is given
// up and asked for anew: twice more for each.
func (x *series) noOscillation(g *seriesGroup) {
	x.t.Helper()
	turns, up, before := 0, 0, 0
	for i, c := range x.cloud.sizes(g.name) {
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
	if most := 2 + 2*x.cloud.failures(g.name, x.calm); turns > most {
		x.t.Errorf("the size of %s turned %d times after the last event, want at most %d", g.name, turns, most)
	}
}

// nobodyEndedWithPods: who was ended by Dovetail held no pod.
func (x *series) nobodyEndedWithPods() {
	x.t.Helper()
	for _, m := range x.cloud.ended() {
		if m.by != "" {
			continue
		}
		for _, p := range x.pods.on(m.node) {
			if p.bound.Before(m.at) && (p.gone.IsZero() || p.gone.After(m.at.Add(time.Second))) {
				x.t.Errorf("node %s, %s, was ended at %.2fs with pod %s on it", m.node, m.id, m.at.Sub(x.began).Seconds(), p.name)
			}
		}
	}
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
