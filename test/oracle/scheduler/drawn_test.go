// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/inventory"
)

var (
	oneSeed     = flag.Uint64("seed", 0, "run this seed only, and log the scenario and the plan")
	seeds       = flag.Int("seeds", 6, "run this many seeds")
	first       = flag.Uint64("first", 1, "the first of them")
	shrink      = flag.Bool("shrink", false, "with -seed: take away what the disagreement does not need, and log what is left")
	dump        = flag.String("dump", "", "write each scenario that fails into this directory, as dovetail plan reads it")
	putBack     = flag.Bool("mutants", false, "TestDrawn: also put each of the sixteen faults back, one by one, and find it within -within clusters")
	within      = flag.Int("within", 100, "with -mutants: a fault must be found within this many clusters")
	deviceSeeds = flag.Int("devices", 10, "TestDrawnDevices: draw this many clusters")
	only        = flag.Int("mutant", 0, "with -mutants: put only the fault of this row back")
)

// leastReached is how many of 300 clusters each drawn field must be in.
const leastReached = 50

// TestDrawn holds plans of clusters that are drawn from the fields of the inventory (internal/kube/inventory) against three judges, in this
// process: the filters of the real kube-scheduler say whether a node would take a pod, the real DaemonSet controller's predicate whether a pod of
// it comes, the API server's own defaults what a pod is once it is admitted. It counts in how many clusters each field is. With -mutants the
// faults of mutants are put back. The test needs no sandbox.
func TestDrawn(t *testing.T) {
	from, n := *first, *seeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	reached := newFieldTally(t)
	var total tally
	for seed := from; seed < from+uint64(n); seed++ {
		t.Run("seed-"+strconv.FormatUint(seed, 10), func(t *testing.T) {
			c := newDrawn(seed, fmt.Sprintf("s%d", seed))
			reached.count(c)
			found, a, tallied, err := try(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if *shrink && len(found) > 0 {
				kind := found[0].kind
				c.scenario = smaller(c.scenario, func(s *scenario) bool {
					x := *c
					x.scenario = s
					found, _, _, err := try(&x, nil)
					return err == nil && hasKind(found, kind)
				})
				if found, a, tallied, err = try(c, nil); err != nil {
					t.Fatal(err)
				}
			}
			total.add(tallied)
			if *oneSeed != 0 || *dump != "" && len(found) > 0 {
				describeDrawn(t, c, a)
			}
			for _, f := range found {
				t.Errorf("seed %d: disagreement (%s): %s", seed, f.kind, f.text)
			}
		})
	}
	t.Logf("Karpenter too buys a node for %d classes of pods alone, and too buys none for %d; where it differs: %v", total.bought, total.unbought, total.excused)
	t.Logf("%d clusters: %d pods landed, %d nodes planned, %d left alone; %d classes refused, %d times asked of an empty node, %d reasons compared", n, total.landed, total.planned, total.ignored, total.refused, total.probed, total.reasons)
	if *oneSeed != 0 {
		return
	}
	t.Log(reached)
	if total.landed == 0 || total.refused == 0 || total.probed == 0 || total.reasons == 0 {
		t.Error("the clusters had nothing to check")
	}
	for _, f := range reached.rare(n) {
		t.Errorf("%s of %d clusters, at least %d of 300 are wanted", f, n, leastReached)
	}
	if *putBack {
		t.Run("mutants", tryMutants)
	}
}

// tally counts what was checked.
type tally struct {
	landed, planned, ignored, refused, probed, reasons int

	bought, unbought int            // classes of pods for which Karpenter too buys a node, or too buys none
	excused          map[string]int // classes on which it differs, by name of the difference
}

func (a *tally) add(b tally) {
	a.landed, a.planned, a.ignored = a.landed+b.landed, a.planned+b.planned, a.ignored+b.ignored
	a.refused, a.probed, a.reasons = a.refused+b.refused, a.probed+b.probed, a.reasons+b.reasons
	a.bought, a.unbought = a.bought+b.bought, a.unbought+b.unbought
	for name, n := range b.excused {
		a.excuse(name, n)
	}
}

func (a *tally) excuse(difference string, n int) {
	if a.excused == nil {
		a.excused = map[string]int{}
	}
	a.excused[difference] += n
}

// disagreement is where a plan and kube-scheduler differ. kind sorts them.
type disagreement struct{ kind, text string }

// hasKind reports whether some of the disagreements are of a kind.
func hasKind(found []disagreement, kind string) bool {
	return slices.ContainsFunc(found, func(d disagreement) bool { return d.kind == kind })
}

// smaller takes parts of a scenario away, one after the other, as long as still holds for what is left.
func smaller(s *scenario, still func(*scenario) bool) *scenario {
	try := func(change func(c *scenario)) bool {
		c := *s
		change(&c)
		if !still(&c) {
			return false
		}
		s = &c
		return true
	}
	for again := true; again; {
		again = false
		for i := len(s.pods) - 1; i >= 0; i-- {
			again = i < len(s.pods) && try(func(c *scenario) { c.pods = slices.Delete(slices.Clone(c.pods), i, i+1) }) || again
		}
		for i := len(s.standing) - 1; i >= 0; i-- {
			again = try(func(c *scenario) { c.standing = slices.Delete(slices.Clone(c.standing), i, i+1) }) || again
		}
		for i := len(s.nodes) - 1; i >= 0; i-- {
			name := s.nodes[i].Name
			again = try(func(c *scenario) {
				c.nodes = slices.Delete(slices.Clone(c.nodes), i, i+1)
				c.standing = slices.DeleteFunc(slices.Clone(c.standing), func(p *corev1.Pod) bool { return p.Spec.NodeName == name })
			}) || again
		}
		for i := len(s.pools) - 1; i >= 0; i-- {
			again = try(func(c *scenario) { c.pools = slices.Delete(slices.Clone(c.pools), i, i+1) }) || again
		}
		for i := len(s.machines) - 1; i >= 0; i-- {
			again = try(func(c *scenario) { c.machines = slices.Delete(slices.Clone(c.machines), i, i+1) }) || again
		}
		for i := len(s.daemons) - 1; i >= 0; i-- {
			again = try(func(c *scenario) { c.daemons = slices.Delete(slices.Clone(c.daemons), i, i+1) }) || again
		}
	}
	return s
}

// catalogue writes the machines.
func (s *scenario) catalogue() string {
	var b strings.Builder
	for _, m := range s.machines {
		fmt.Fprintf(&b, "type %s %v allocatable", m.name, m.labels)
		for _, k := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, gpu} {
			if q, ok := m.allocatable[k]; ok {
				fmt.Fprintf(&b, " %s=%s", k, q.String())
			}
		}
		fmt.Fprintf(&b, " attach=%d offered", m.attach)
		for _, o := range m.offerings {
			fmt.Fprintf(&b, " %s/%s:%d", o.Zone, o.CapacityType, o.PriceMicro)
			if !o.Available {
				b.WriteString("(gone)")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// newOnes are the disagreements that a cluster does not have without a fault.
func newOnes(found, without []disagreement) []disagreement {
	return slices.DeleteFunc(slices.Clone(found), func(d disagreement) bool { return slices.Contains(without, d) })
}

// tryMutants puts each fault back, and says in which cluster it is found: where a judge disagrees that does not without the fault.
func tryMutants(t *testing.T) {
	for i := range mutants {
		m := &mutants[i]
		if *only != 0 && m.row != *only {
			continue
		}
		at, by := uint64(0), disagreement{}
		for seed := uint64(1); seed <= uint64(*within) && at == 0; seed++ {
			c := newDrawn(seed, fmt.Sprintf("s%d", seed))
			found, _, _, err := try(c, m)
			if err != nil {
				found = []disagreement{{"error", err.Error()}}
			}
			if len(found) == 0 {
				continue
			}
			without, _, _, err := try(c, nil)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if found = newOnes(found, without); len(found) > 0 {
				at, by = seed, found[0]
			}
		}
		if at == 0 {
			t.Errorf("fault %d (%s) is not found within %d clusters", m.row, m.name, *within)
			continue
		}
		t.Logf("fault %d (%s) is found in cluster %d, by: %s: %.160s", m.row, m.name, at, by.kind, by.text)
	}
}

// try plans a cluster as a mutant sees it, nil: as it is, and has it judged.
func try(c *drawn, m *mutant) ([]disagreement, *answer, tally, error) {
	a, work, err := c.plan(m.seenBy(c), m != nil && m.repeat)
	if err != nil {
		return nil, nil, tally{}, err
	}
	if m != nil && m.spoil != nil {
		m.spoil(c, a)
	}
	x, err := judgePlan(c, a)
	if err != nil {
		return nil, a, tally{}, err
	}
	if err := x.minValuesWork(work); err != nil {
		return nil, a, tally{}, err
	}
	if err := x.preferences(m); err != nil {
		return nil, a, tally{}, err
	}
	if m == nil {
		if err := x.purchases(); err != nil {
			return nil, a, tally{}, err
		}
	}
	return x.found, a, x.tally, nil
}

// plan plans from objects, and counts the allocations: a measure of work that is the same on a slow machine.
func (c *drawn) plan(objects []apiruntime.Object, repeat bool) (*answer, uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	times := 1
	if repeat {
		times += len(c.machines) + len(zones)
	}
	var a *answer
	var err error
	for range times {
		a, err = c.answerFor(objects)
	}
	runtime.ReadMemStats(&after)
	return a, after.Mallocs - before.Mallocs, err
}

// minValuesWork plans again without minValues: with them it may take a little more, never a multiple.
func (x *judge) minValuesWork(work uint64) error {
	has := slices.ContainsFunc(x.c.pools, func(p *karpv1.NodePool) bool {
		return slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(r karpv1.Requirement) bool { return r.MinValues != nil })
	})
	if !has {
		return nil
	}
	_, without, err := x.c.plan(mutants[0].seenBy(x.c), false)
	if err != nil {
		return err
	}
	if work > 3*without {
		x.disagree("work", "%d allocations with minValues, %d without", work, without)
	}
	return nil
}

// preferences plans again without preferences for pods that are not there, as a mutant sees the rest: the plan costs the same.
func (x *judge) preferences(m *mutant) error {
	objects := m.seenBy(x.c)
	any := false
	for i, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && towardsNobody(p) {
			any = true
			objects[i] = changed(p, func(p *corev1.Pod) { p.Spec.Affinity.PodAffinity = nil })
		}
	}
	if !any {
		return nil
	}
	without, _, err := x.c.plan(objects, false)
	if err != nil {
		return err
	}
	if have, want := x.a.out.Cost.NewMicroPerHour, without.out.Cost.NewMicroPerHour; have != want {
		x.disagree("preference", "the plan costs %d, without preferences for pods that are not there %d", have, want)
	}
	return nil
}

func describeDrawn(t *testing.T, c *drawn, a *answer) {
	text, err := manifestsOf(c.objects())
	if err != nil {
		t.Fatal(err)
	}
	words := c.catalogue() + a.describe()
	if *oneSeed != 0 {
		t.Logf("%s\n%s", text, words)
	}
	if *dump != "" {
		name := fmt.Sprintf("%s/drawn-%d.yaml", *dump, c.seed)
		if err := errors.Join(os.WriteFile(name, slices.Concat(text, []byte("\n# "+strings.ReplaceAll(words, "\n", "\n# ")+"\n")), 0o644)); err != nil {
			t.Error(err)
		}
	}
}

// fieldTally counts in how many clusters each field of the inventory is that changes a plan.
type fieldTally struct {
	fields   []inventory.Field
	clusters map[inventory.Field]int
	shapes   map[string]int
}

func newFieldTally(t *testing.T) *fieldTally {
	all, err := inventory.All()
	if err != nil {
		t.Fatal(err)
	}
	out := &fieldTally{clusters: map[inventory.Field]int{}, shapes: map[string]int{}}
	for _, b := range all {
		if b.Verdict != inventory.Irrelevant {
			out.fields = append(out.fields, b.Fields...)
		}
	}
	return out
}

// count counts the fields of a cluster.
func (f *fieldTally) count(c *drawn) {
	for _, s := range c.shapes {
		f.shapes[s]++
	}
	byKind := map[string][]apiruntime.Object{}
	for _, o := range c.objects() {
		kind := inventory.KindOf(o)
		byKind[kind] = append(byKind[kind], o)
	}
	for _, x := range f.fields {
		if slices.ContainsFunc(byKind[x.Kind], func(o apiruntime.Object) bool { return inventory.IsSet(o, x.Path) }) {
			f.clusters[x]++
		}
	}
}

// notDrawn are fields that are heeded and that no cluster has, each with where it is tried instead.
var notDrawn = []struct{ prefix, instead string }{
	{"Pod spec.activeDeadlineSeconds", "counts for the scopes of ResourceQuotas: internal/kube/translate"},
	{"PodDisruptionBudget ", "keeps nodes, buys none: internal/disrupt"},
	{"ResourceQuota ", "bounds CapacityBuffers: TestBufferQuotas"},
	{"Pod status.", "pods that run: internal/kube/manifests, TestTranslate"},
	{"Pod metadata.", "internal/kube/manifests, TestTranslate"},
	{"Node status.nodeInfo.bootID", "repair by reboot: TestRepairStorm"},
	{"Node status.conditions", "TestBindings"}, {"Node status.phase", "internal/kube/manifests, TestTranslate"}, {"Node metadata.", "TestBindings"},
	{"Pod spec.terminationGracePeriodSeconds", "drains: internal/lifecycle"},
	{"Pod spec.schedulerName", "internal/kube/translate, TestTranslate"},
	{"Pod spec.volumes[].hostPath", "keeps nodes, buys none"}, {"Pod spec.volumes[].emptyDir", "keeps nodes, buys none"},
	{"Pod spec.volumes[].azureDisk", "internal/kube/manifests, TestTranslate"}, {"PersistentVolume spec.azureDisk", "internal/kube, TestTranslate"},
	{"PersistentVolume spec.gcePersistentDisk", "internal/kube/manifests, TestTranslate"}, {"Pod spec.volumes[].cinder", "internal/kube, TestTranslate"},
	{"Pod spec.volumes[].portworxVolume", "internal/kube/manifests, TestHeeded"}, {"PersistentVolume spec.azureFile", "internal/kube, TestHeeded"},
	{"PersistentVolume spec.cinder", "internal/kube/manifests, TestHeeded"}, {"PersistentVolume spec.vsphereVolume", "internal/kube, TestHeeded"},
	{"PersistentVolume spec.portworxVolume", "internal/kube/manifests, TestHeeded"},
	{"Pod spec.volumes[].vsphereVolume", "internal/kube/manifests, TestTranslate"}, {"Pod spec.volumes[].azureFile", "internal/kube, TestTranslate"},
	{"Pod spec.volumes[].ephemeral.volumeClaimTemplate.metadata", "internal/kube/manifests, TestHeeded"}, {"Pod spec.volumes[].ephemeral.volumeClaimTemplate.spec.selector", "internal/kube, TestHeeded"},
	{"Pod spec.volumes[].ephemeral.volumeClaimTemplate.spec.volume", "internal/kube/manifests, TestHeeded"}, {"PersistentVolumeClaim spec.volumeAttributesClassName", "internal/kube, TestHeeded"},
	{"PersistentVolumeClaim spec.selector", "internal/kube/manifests, TestHeeded"}, {"PersistentVolume spec.volumeAttributesClassName", "internal/kube, TestHeeded"},
	// Without the feature gate VolumeBindMountOptions the API server drops them.
	{"Pod spec.containers[].volumeMounts[].bindMountOptions", "internal/kube/manifests, TestTranslate"},
	{"Pod spec.initContainers[].volumeMounts[].bindMountOptions", "internal/kube/manifests, TestTranslate"},
	{"Pod spec.ephemeralContainers[].volumeMounts[].bindMountOptions", "internal/kube/manifests, TestTranslate"},
}

func (f *fieldTally) excuse(x inventory.Field) string {
	for _, n := range notDrawn {
		if strings.HasPrefix(x.String(), n.prefix) {
			return n.instead
		}
	}
	return ""
}

// rare are the fields and shapes that are in too few of n clusters.
func (f *fieldTally) rare(n int) (out []string) {
	if n < 300 {
		return nil
	}
	for _, x := range f.fields {
		if f.clusters[x]*300 < leastReached*n && f.excuse(x) == "" {
			out = append(out, fmt.Sprintf("%s: %d", x, f.clusters[x]))
		}
	}
	for _, s := range shapes {
		if f.shapes[s]*300 < leastReached*n {
			out = append(out, fmt.Sprintf("%s: %d", s, f.shapes[s]))
		}
	}
	return out
}

func (f *fieldTally) String() string {
	var b strings.Builder
	b.WriteString("clusters that have a shape or field:")
	for _, s := range shapes {
		fmt.Fprintf(&b, "\n%5d  %s", f.shapes[s], s)
	}
	fields := slices.Clone(f.fields)
	sort.SliceStable(fields, func(i, j int) bool { return f.clusters[fields[i]] > f.clusters[fields[j]] })
	for _, x := range fields {
		fmt.Fprintf(&b, "\n%5d  %s", f.clusters[x], x)
		if e := f.excuse(x); e != "" {
			fmt.Fprintf(&b, "  (%s)", e)
		}
	}
	return b.String()
}
