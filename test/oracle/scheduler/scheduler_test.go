// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var (
	oneSeed = flag.Uint64("seed", 0, "run this seed only, and log the scenario and the plan")
	seeds   = flag.Int("seeds", 6, "run this many seeds")
	first   = flag.Uint64("first", 1, "the first of them")
	shrink  = flag.Bool("shrink", false, "with -seed: take away what the disagreement does not need, and log what is left")
	dump    = flag.String("dump", "", "write each scenario that fails into this directory, as dovetail plan reads it")
)

// TestScheduler holds plans against kube-scheduler; see the package's comment.
func TestScheduler(t *testing.T) {
	file := os.Getenv("DOVETAIL_KUBECONFIG")
	if file == "" {
		t.Skip("needs a sandbox without the autoscaler: DOVETAIL_KUBECONFIG names its kubeconfig; make oracle brings one up")
	}
	k, err := newCluster(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	from, n := *first, *seeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	var total tally
	for seed := from; seed < from+uint64(n); seed++ {
		t.Run("seed-"+strconv.FormatUint(seed, 10), func(t *testing.T) {
			total.add(check(t, k, seed))
		})
	}
	t.Logf("%d seeds: %d pods landed on %d planned and %d standing nodes, %d left alone; %d classes refused, by %d empty nodes, %d of %d reasons compared; %d found room last of all; %d seeds disagree",
		n, total.landed, total.planned, total.standing, total.ignored, total.refused, total.probed, total.compared, total.reasons, total.late, total.wrong)
	if n > 1 && (total.landed == 0 || total.refused == 0 || total.compared == 0) {
		t.Error("the seeds had nothing to check")
	}
}

// tally counts what was checked.
type tally struct {
	wrong, landed, planned, standing, ignored, refused, late, probed, reasons, compared int

	bought, unbought int            // classes of pods for which Karpenter too buys a node, or too buys none
	excused          map[string]int // classes on which it differs, by name of the difference
}

func (a *tally) add(b tally) {
	a.wrong, a.landed, a.planned, a.standing, a.ignored = a.wrong+b.wrong, a.landed+b.landed, a.planned+b.planned, a.standing+b.standing, a.ignored+b.ignored
	a.refused, a.late, a.probed, a.reasons, a.compared = a.refused+b.refused, a.late+b.late, a.probed+b.probed, a.reasons+b.reasons, a.compared+b.compared
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

// trial is one scenario being tried.
type trial struct {
	k     *cluster
	s     *scenario
	a     *answer
	r     *rand.Rand
	tally tally
	found []disagreement
	notes []string
	err   error

	planned []*corev1.Node // by claim, in order
	attach  map[string]int64
	pods    map[string]*corev1.Pod // of the scenario, pending, by namespace and name
	landing []*corev1.Pod          // as they are made
	target  map[string]string      // their node
	daemons []*corev1.Pod
}

// check holds one seed's scenario against kube-scheduler.
func check(t *testing.T, k *cluster, seed uint64) tally {
	k.seed = fmt.Sprintf("s%d", seed)
	s := newScenario(seed, k.seed)
	x, err := run(k, s)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if *shrink && len(x.found) > 0 {
		kind := x.found[0].kind
		s = smaller(s, func(c *scenario) bool {
			x, err := run(k, c)
			return err == nil && hasKind(x.found, kind)
		})
		if x, err = run(k, s); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	text, err := s.manifests()
	if err != nil {
		t.Fatal(err)
	}
	words := s.catalogue() + x.a.describe()
	if *oneSeed != 0 {
		t.Logf("%s\n%s", text, words)
	}
	for _, n := range x.notes {
		t.Logf("seed %d: %s", seed, n)
	}
	for _, f := range x.found {
		t.Errorf("seed %d: disagreement (%s): %s", seed, f.kind, f.text)
	}
	if len(x.found) > 0 {
		x.tally.wrong++
	}
	if len(x.found) > 0 && *dump != "" {
		name := fmt.Sprintf("%s/seed-%d.yaml", *dump, seed)
		if err := os.WriteFile(name, slices.Concat(text, []byte("\n# "+strings.ReplaceAll(words, "\n", "\n# ")+"\n")), 0o644); err != nil {
			t.Error(err)
		}
	}
	return x.tally
}

// run makes a scenario true and says where the plan and kube-scheduler differ. An error is of the test's own.
func run(k *cluster, s *scenario) (x *trial, err error) {
	a, err := newAnswer(s)
	if err != nil {
		return nil, err
	}
	x = &trial{k: k, s: s, a: a, r: rand.New(rand.NewPCG(s.seed, 21)), attach: map[string]int64{}, pods: map[string]*corev1.Pod{}, target: map[string]string{}}
	defer func() { err = errors.Join(err, x.err, k.tearDown()) }()
	if a.broken != nil {
		x.disagree("verify", "%v", a.broken)
	}
	x.prepare()
	if x.must(k.setUp(s)) && x.land() && x.comeDaemons() {
		x.refusals()
	}
	return x, nil
}

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

func (x *trial) disagree(kind, format string, args ...any) {
	x.found = append(x.found, disagreement{kind, fmt.Sprintf(format, args...)})
}

func (x *trial) must(err error) bool {
	x.err = errors.Join(x.err, err)
	return err == nil
}

// prepare says which nodes and pods the plan means.
func (x *trial) prepare() {
	for _, p := range x.s.pods {
		x.pods[p.Namespace+"/"+p.Name] = p
	}
	reserved := map[string]string{} // by pod
	for i, c := range x.a.claims() {
		names := make([]string, len(c.Types))
		for j, t := range c.Types {
			names[j] = t.Name
		}
		all := x.s.choices(c.Requirements, names)
		if len(all) == 0 {
			x.disagree("claim", "%s: no offering is allowed by %s", c.Name, c.Requirements)
			continue
		}
		ch := all[x.r.IntN(len(all))]
		n := ch.node(fmt.Sprintf("%s-new%d", x.k.seed, i+1), c.Pool, x.s.fixed(c.Requirements))
		if c.Reserved {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: reservedKey, Value: n.Name, Effect: corev1.TaintEffectNoSchedule})
		}
		x.planned = append(x.planned, n)
		x.attach[n.Name] = ch.m.attach
		for _, p := range c.Pods {
			x.target[p.Key()] = n.Name
			if c.Reserved {
				reserved[p.Key()] = n.Name
			}
		}
	}
	for _, p := range x.a.out.Pods {
		switch p.Outcome {
		case plan.OnNode:
			x.target[p.Pod.Key()] = p.Target
		case plan.NotOurs:
			x.tally.ignored++
		}
	}
	for _, p := range x.s.pods {
		node := x.target[p.Namespace+"/"+p.Name]
		if node == "" {
			continue
		}
		q := p.DeepCopy()
		r := &q.Spec.Containers[0].Resources
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		r.Requests[pin(node)], r.Limits[pin(node)] = resource.MustParse("1"), resource.MustParse("1")
		if c := reserved[p.Namespace+"/"+p.Name]; c != "" {
			q.Spec.Tolerations = append(q.Spec.Tolerations, corev1.Toleration{Key: reservedKey, Operator: corev1.TolerationOpEqual, Value: c, Effect: corev1.TaintEffectNoSchedule})
		}
		x.landing = append(x.landing, q)
	}
}

// land makes the planned machines and has kube-scheduler bind the placed pods, each where it was planned.
func (x *trial) land() bool {
	if !x.must(x.k.nodes(x.planned, x.attach)) || !x.must(each(x.landing, x.k.pod)) {
		return false
	}
	open := map[string]bool{}
	left, err := x.k.landed(x.landing, len(x.s.storage) > 0, func(have map[string]*corev1.Pod) error {
		for _, n := range x.planned {
			if open[n.Name] || len(n.Spec.Taints) == 0 || n.Spec.Taints[len(n.Spec.Taints)-1].Key != reservedKey {
				continue
			}
			there := true
			for key, node := range x.target {
				if node == n.Name {
					there = there && have[key] != nil && have[key].Spec.NodeName != ""
				}
			}
			if there { // the reservation is over
				n.Spec.Taints = n.Spec.Taints[:len(n.Spec.Taints)-1]
				if err := x.k.taint(n); err != nil {
					return err
				}
				open[n.Name] = true
			}
		}
		return nil
	})
	if !x.must(err) {
		return false
	}
	have, err := x.k.list()
	if !x.must(err) {
		return false
	}
	for _, p := range left {
		if h := have[p.Namespace+"/"+p.Name]; h != nil {
			x.disagree("landing", "%s/%s was planned on %s: %s", p.Namespace, p.Name, x.target[p.Namespace+"/"+p.Name], verdict(h))
		}
	}
	standing := map[string]bool{}
	for _, p := range x.landing {
		key := p.Namespace + "/" + p.Name
		if h := have[key]; h != nil && h.Spec.NodeName != "" && h.Spec.NodeName != x.target[key] {
			x.disagree("landing", "%s was planned on %s and is on %s", key, x.target[key], h.Spec.NodeName)
		}
		standing[x.target[key]] = true
	}
	x.tally.landed, x.tally.planned = len(x.landing)-len(left), len(x.planned)
	x.tally.standing = len(standing) - len(x.planned)
	return len(left) == 0
}

// daemonPods are the pods that the DaemonSet controller would make on a node, but for those that are there.
func (x *trial) daemonPods(n *corev1.Node, bind bool) (out []*corev1.Pod) {
	for _, d := range x.s.daemons {
		if !daemonGoesTo(d, n) || slices.ContainsFunc(x.s.standing, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == n.Name && p.Labels["daemon"] == d.Name
		}) {
			continue
		}
		p := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
		p.Name, p.Namespace = d.Name+"-"+n.Name, d.Namespace
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		p.Spec.Tolerations = daemonTolerations(p)
		if bind {
			p.Spec.NodeName = n.Name
		} else {
			affinityOf(p).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}}}}}}}
		}
		out = append(out, p)
	}
	return out
}

// comeDaemons has the DaemonSets' pods bound on every planned node, and on the standing ones as far as they fitted before.
func (x *trial) comeDaemons() bool {
	for _, n := range x.planned {
		x.daemons = append(x.daemons, x.daemonPods(n, false)...)
	}
	fitting := map[string]bool{}
	for _, n := range x.s.nodes {
		if n.Spec.Unschedulable {
			continue
		}
		all := x.daemonPods(n, false)
		if x.fitted(n, all) {
			for _, p := range all {
				fitting[p.Name] = true
			}
			x.daemons = append(x.daemons, all...)
		}
	}
	if len(x.daemons) == 0 {
		return true
	}
	if !x.must(each(x.daemons, x.k.pod)) {
		return false
	}
	left, err := x.k.landed(x.daemons, false, func(map[string]*corev1.Pod) error { return nil })
	if !x.must(err) {
		return false
	}
	have, err := x.k.list()
	if !x.must(err) {
		return false
	}
	for _, p := range left {
		if h := have[p.Namespace+"/"+p.Name]; h != nil {
			x.disagree("daemon", "%s found no room: %s", p.Name, verdict(h))
		}
	}
	return len(left) == 0
}

// fitted reports whether a standing node had room for pods before anything was planned on it.
func (x *trial) fitted(n *corev1.Node, pods []*corev1.Pod) bool {
	cpu, mem, count := n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value(), n.Status.Allocatable.Pods().Value()
	ports := map[int32]bool{}
	for _, p := range x.s.standing {
		if p.Spec.NodeName == n.Name {
			pods = append(pods, p)
		}
	}
	for _, p := range pods {
		count--
		for _, c := range p.Spec.Containers {
			cpu, mem = cpu-c.Resources.Requests.Cpu().MilliValue(), mem-c.Resources.Requests.Memory().Value()
			for _, port := range c.Ports {
				if ports[port.HostPort] {
					return false
				}
				ports[port.HostPort] = port.HostPort > 0
			}
		}
	}
	return cpu >= 0 && mem >= 0 && count >= 0
}

// refusals has kube-scheduler look at each class of refused pods: on the cluster as planned, then with every offering of each pool.
func (x *trial) refusals() {
	var all []*corev1.Pod
	reasons := map[*corev1.Pod][]plan.Reason{}
	seen := map[*model.Class]bool{}
	for _, p := range x.a.out.Pods {
		if p.Outcome != plan.Refused || seen[p.Pod.Class] {
			continue
		}
		seen[p.Pod.Class] = true
		q := x.pods[p.Pod.Key()]
		all, reasons[q] = append(all, q), p.Reasons
	}
	x.tally.refused = len(all)
	if len(all) == 0 {
		return
	}
	base := len(x.s.nodes) + len(x.planned)
	_, on, err := x.k.refused(all, base, len(x.s.storage) > 0)
	if !x.must(err) {
		return
	}
	// A plan holds in whichever order its pods come, so that it may leave out one that fits when it is the last: that is worth knowing, and
	// no mistake.
	for p, node := range on {
		x.tally.late++
		x.notes = append(x.notes, fmt.Sprintf("%s/%s was refused (%v), and last of all found room on %s", p.Namespace, p.Name, reasons[p], node))
	}
	// From here on only new nodes will do.
	for i, p := range all {
		q := p.DeepCopy()
		r := &q.Spec.Containers[0].Resources
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		r.Requests[pin("probe")], r.Limits[pin("probe")] = resource.MustParse("1"), resource.MustParse("1")
		all[i], reasons[q] = q, reasons[p]
	}
	without, _, err := x.k.refused(all, base, len(x.s.storage) > 0)
	if !x.must(err) {
		return
	}
	count := 0
	for _, pool := range x.s.pools {
		m := x.a.pools[pool.Name]
		probes, attach := x.s.probes(x.a, m, func() string { count++; return fmt.Sprintf("%s-probe%d", x.k.seed, count) })
		var asked []*corev1.Pod
		for _, p := range all {
			if reasonOf(reasons[p], pool.Name).Code != plan.MinValues {
				asked = append(asked, p)
			}
		}
		if len(probes) == 0 || len(asked) == 0 {
			continue
		}
		if !x.probe(pool.Name, probes, attach, base, asked, without, reasons) {
			return
		}
	}
}

func reasonOf(rs []plan.Reason, pool string) plan.Reason {
	for _, r := range rs {
		if r.Pool == pool {
			return r
		}
	}
	return plan.Reason{}
}

// probe adds one pool's empty nodes for a while.
func (x *trial) probe(pool string, probes []*corev1.Node, attach map[string]int64, base int, asked []*corev1.Pod, without map[*corev1.Pod]string,
	reasons map[*corev1.Pod][]plan.Reason) bool {
	var daemons []*corev1.Pod
	for _, n := range probes {
		daemons = append(daemons, x.daemonPods(n, true)...)
		n.Status.Capacity[pin("probe")], n.Status.Allocatable[pin("probe")] = resource.MustParse("1000"), resource.MustParse("1000")
	}
	if !x.must(x.k.nodes(probes, attach)) || !x.must(each(daemons, x.k.pod)) {
		return false
	}
	with, on, err := x.k.refused(asked, base+len(probes), len(x.s.storage) > 0)
	if !x.must(err) {
		return false
	}
	x.tally.probed += len(probes) * len(asked)
	for _, p := range asked {
		r := reasonOf(reasons[p], pool)
		if node, ok := on[p]; ok {
			x.disagree("refusal", "%s/%s was refused (%v) and kube-scheduler bound it to %s, an empty node of pool %s: %v", p.Namespace, p.Name, reasons[p], node, pool, labelsOf(probes, node))
			continue
		}
		x.tally.reasons++
		seen, known := checksNamed(without[p], with[p])
		if !known || r.Code == "" {
			continue
		}
		x.tally.compared++
		if want := checkOf(r.Code); want != "" && !slices.Contains(seen, want) && order(want) < order(seen[0]) {
			x.disagree("reason", "%s/%s is refused by pool %s for %v, kube-scheduler names %v: %s; without the pool: %s", p.Namespace, p.Name, pool, r, seen, with[p], without[p])
		}
	}
	return x.must(x.k.deletePods(daemons)) && x.must(x.k.deleteNodes(probes, attach))
}

func labelsOf(nodes []*corev1.Node, name string) map[string]string {
	for _, n := range nodes {
		if n.Name == name {
			return n.Labels
		}
	}
	return nil
}

// checkOf is kube-scheduler's check behind a code of ours, empty where it has none of its own.
func checkOf(c plan.Code) string {
	switch c {
	case plan.Taint:
		return "taints"
	case plan.Requirement, plan.NoInstanceType, plan.Offering, plan.NodeName:
		return "node affinity"
	case plan.Resource:
		return "resources"
	case plan.TopologySpread:
		return "spread"
	case plan.PodAffinity:
		return "affinity"
	case plan.PodAntiAffinity:
		return "anti-affinity"
	case plan.HostPortConflict:
		return "ports"
	case plan.VolumeTopology:
		return "volume place"
	case plan.VolumeLimit:
		return "volume limit"
	case plan.VolumeExclusive:
		return "volume use"
	}
	return ""
}

// order is a check's place among kube-scheduler's: of a node that several refuse it names only the first.
func order(check string) int {
	for i, t := range texts {
		if t.check == check {
			return i
		}
	}
	return len(texts)
}

// texts are kube-scheduler's words for its checks, in the order it makes them.
var texts = []struct {
	check string
	says  *regexp.Regexp
}{
	{"node names", regexp.MustCompile(`didn't satisfy plugin\(s\) \[NodeAffinity\]`)}, // before all: only nodes named are looked at
	{"taints", regexp.MustCompile(`untolerated taint|were unschedulable`)},
	{"node affinity", regexp.MustCompile(`didn't match Pod's node affinity/selector`)},
	{"ports", regexp.MustCompile(`free ports`)},
	{"resources", regexp.MustCompile(`Insufficient |Too many pods`)},
	{"volume use", regexp.MustCompile(`ReadWriteOncePod`)},
	{"volume limit", regexp.MustCompile(`exceed max volume count`)},
	{"volume place", regexp.MustCompile(`volume node affinity conflict|didn't match PersistentVolume's node affinity|didn't find available persistent volumes to bind|no available volume zone|no matching PersistentVolume`)},
	{"spread", regexp.MustCompile(`pod topology spread constraints`)},
	{"affinity", regexp.MustCompile(`didn't match pod affinity rules`)},
	{"anti-affinity", regexp.MustCompile(`didn't match pod anti-affinity rules|didn't satisfy existing pods anti-affinity rules`)},
}

var counted = regexp.MustCompile(`(\d+) ((?:[^{},]|\{[^}]*\})+)`)

// tallyOf counts the nodes that a message says each check refused, whether it says so of nodes at all.
func tallyOf(message string) (map[string]int, bool) {
	out := map[string]int{}
	m := ofNodes.FindString(message)
	if m == "" {
		return out, strings.HasPrefix(message, "no nodes")
	}
	body, _, _ := strings.Cut(message[len(m):], ". preemption:")
	body, _, _ = strings.Cut(body, ". no new claims")
	found := counted.FindAllStringSubmatch(body, -1)
	for _, f := range found {
		n, _ := strconv.Atoi(f[1])
		for _, t := range texts {
			if !strings.Contains(f[2], pinDomain) && t.says.MatchString(f[2]) {
				out[t.check] += n
			}
		}
	}
	return out, len(found) > 0
}

// checksNamed are the checks that refused more nodes with a pool's nodes there than without.
func checksNamed(without, with string) ([]string, bool) {
	a, ok := tallyOf(without)
	b, also := tallyOf(with)
	var out []string
	for _, t := range texts {
		if b[t.check] > a[t.check] {
			out = append(out, t.check)
		}
	}
	return out, ok && also && len(out) > 0
}
