// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// tight is a catalog of one type with 16 CPUs for pods, in the form of Karpenter's KWOK instance types: 100m and 10Mi are kept back.
const tight = `[{"name": "exact-16", "architecture": "amd64", "operatingSystems": ["linux"],
  "resources": {"cpu": "16100m", "memory": "65546Mi", "pods": "110", "ephemeral-storage": "20Gi"},
  "offerings": [{"Price": 1.6, "Available": true, "Requirements": [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]`

// The 25-pod example: ten nodes hold 5 pods of 10 CPUs, 5 of 6 and 15 of 16/3 with nothing to spare, so every pod has to go where the
// plan put it, and kube-scheduler on its own spreads the small ones over all.
func tightPods(e *env) {
	e.t.Helper()
	e.deploy("large", 5, e.pod("10", "1Gi"))
	e.deploy("middle", 5, e.pod("6", "1Gi"))
	e.deploy("small", 15, e.pod("5330m", "1Gi"))
	// One plan for all of them: the pool comes when kube-scheduler has refused them all.
	e.podsRefused(25)
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("exact-16")})
}

func tightCatalog(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tight.json")
	if err := os.WriteFile(file, []byte(tight), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A node takes just the pods that its plan named, whichever of the machines comes up first: we bind them, or let them in with a toleration.
func TestExactLanding(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	for _, landing := range []string{"bind", "tolerate"} {
		t.Run(landing, func(t *testing.T) {
			if landing == "bind" && os.Getenv("DOVETAIL_SOAK") == "" {
				t.Skip("runs in the soak; TestExactMany binds, too")
			}
			e := newEnv(t, own(t, "--catalog", tightCatalog(t), "--controller-arg", "--landing="+landing), "tight")
			h := e.watchClaims()
			tightPods(e)
			pods := e.podsRun(25)
			e.asPlanned(h, pods, 10)
			for i := range pods {
				if r := reservations(&pods[i]); landing == "bind" && len(r) > 0 {
					t.Errorf("pod %s tolerates the reservations of %q; it is bound, and needs none", pods[i].Name, r)
				} else if landing == "tolerate" && len(r) != 1 {
					t.Errorf("pod %s tolerates the reservations of %q, want one", pods[i].Name, r)
				}
			}
			e.landed()
			binder := map[string]string{"bind": ours, "tolerate": corev1.DefaultSchedulerName}[landing]
			e.until("every pod has the event of who bound it", func() error {
				by := e.binders()
				for i := range pods {
					if who := by[pods[i].UID]; !slices.Equal(who, []string{binder}) {
						return fmt.Errorf("pod %s was bound by %q, want %s", pods[i].Name, who, binder)
					}
				}
				return nil
			})
		})
	}
}

// 250 pods, in a soak a thousand, fill 18 or 72 nodes to the last CPU, and the nodes come one by one over some seconds, in an order that has
// nothing to do with the plan.
func TestExactMany(t *testing.T) {
	e := newEnv(t, own(t, "--catalog", tightCatalog(t), "--boot", "15s"), "thousand") // spread by ±10 %: 3 s for 72 machines
	h := e.watchClaims()
	times := int32(1)
	if os.Getenv("DOVETAIL_SOAK") != "" {
		times = 4
	}
	nodes, count := int(18*times), int(250*times)
	for _, d := range []struct {
		app   string
		count int32
		cpu   string
	}{{"huge", 9, "10"}, {"large", 9, "6"}, {"middle", 56, "1"}, {"small", 176, "500m"}} { // 288 CPUs: 16 for each node
		e.deploy(d.app, d.count*times, e.pod(d.cpu, "256Mi"))
	}
	// One plan for all of them: the pool comes when all are there, and kube-scheduler has refused one of each kind, which says the same of its like.
	e.until("all pods are there, and of each kind one was refused", func() error {
		pods, refused := e.pods(), map[string]bool{}
		for i := range pods {
			refused[pods[i].Labels["app"]] = refused[pods[i].Labels["app"]] || podMessage(&pods[i]) != ""
		}
		if len(pods) != count || slices.Contains(slices.Collect(maps.Values(refused)), false) {
			return fmt.Errorf("%d pods, refused: %v", len(pods), refused)
		}
		return nil
	})
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("exact-16")})
	pods := e.podsRun(count)
	e.asPlanned(h, pods, nodes)
	for i := range pods {
		if r := reservations(&pods[i]); len(r) > 0 {
			t.Errorf("pod %s tolerates the reservations of %q; it is bound, and needs none", pods[i].Name, r)
		}
	}
	e.landed()
	var first, last time.Time
	for _, in := range e.launches(e.name) {
		if first.IsZero() || in.Registers.Before(first) {
			first = in.Registers
		}
		if in.Registers.After(last) {
			last = in.Registers
		}
	}
	t.Logf("the nodes came one by one over %s", last.Sub(first).Round(time.Millisecond))
	// Our events are written at leisure, some in a second; kube-scheduler writes its own at once.
	e.until("some pods have the event of who bound them", func() error {
		told := 0
		for uid, who := range e.binders() {
			if !slices.Equal(who, []string{ours}) {
				t.Fatalf("pod %s was bound by %q, want %s", uid, who, ours)
			}
			told++
		}
		if told < 40 {
			return fmt.Errorf("%d have", told)
		}
		return nil
	})
}

// ours is who an event of ours says that it is from.
const ours = "dovetail"

// binders are the controllers that said of a pod of the test that they bound it, by the pod's uid. kube-scheduler says so with the same reason.
func (e *env) binders() map[types.UID][]string {
	e.t.Helper()
	list, err := e.s.Kube.CoreV1().Events(e.name).List(e.ctx, metav1.ListOptions{FieldSelector: "reason=Scheduled"})
	e.must(err)
	out := map[types.UID][]string{}
	for _, ev := range list.Items {
		out[ev.InvolvedObject.UID] = append(out[ev.InvolvedObject.UID], ev.ReportingController)
	}
	return out
}

// slot is what a NodeClaim says of the pods that its machine is for: so many of one owner, which are all of one class here.
type slot struct {
	Owner string `json:"owner"`
	Count int    `json:"count"`
}

// slots are those of a claim by the name of the Deployment whose pods they are for.
func (e *env) slots(c *karpv1.NodeClaim) map[string]int {
	e.t.Helper()
	var list []slot
	if text := c.Annotations["dovetail.sh/slots"]; text != "" {
		e.must(json.Unmarshal([]byte(text), &list))
	}
	out := map[string]int{}
	for _, s := range list {
		app, ok := strings.CutPrefix(s.Owner, "deployment/"+e.name+"/")
		if !ok {
			e.t.Fatalf("claim %s has a slot of owner %q, want one of a Deployment of %s", c.Name, s.Owner, e.name)
		}
		out[app] += s.Count
	}
	return out
}

// asPlanned checks that so many machines were planned, that no other was bought, and that each holds just what it was planned for when it was
// bought. A plan speaks of how many pods of each kind a node gets: pods alike may change places.
func (e *env) asPlanned(h *history, pods []corev1.Pod, nodes int) {
	e.t.Helper()
	nodeOf := map[string]string{}
	for _, c := range e.claimsAre(nodes, "Ready", ready) {
		nodeOf[c.Name] = c.Status.NodeName
	}
	planned, landed, overwritten := map[string]int{}, map[string]int{}, 0
	seen := h.seen(e.t)
	for i := range seen {
		for app, n := range e.slots(&seen[i]) {
			planned[app+" on "+nodeOf[seen[i].Name]] += n
		}
	}
	for i := range pods {
		landed[pods[i].Labels["app"]+" on "+pods[i].Spec.NodeName]++
		if !slices.ContainsFunc(pods[i].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
		}) {
			overwritten++
		}
	}
	// kube-scheduler writes what its last vain look has found even where the pod was bound meanwhile: how often depends on how slow it is. A kubelet
	// sets that right; kwok does not.
	e.t.Logf("of %d pods %d are not PodScheduled", len(pods), overwritten)
	if len(seen) != nodes {
		e.t.Errorf("%d machines were planned, want %d", len(seen), nodes)
	}
	if n := len(e.launches(e.name)); n != nodes {
		e.t.Errorf("%d machines were launched, want %d", n, nodes)
	}
	off := 0
	for what, n := range landed {
		off += max(0, n-planned[what])
	}
	if !maps.Equal(planned, landed) {
		e.t.Errorf("%d of %d pods are not where they were planned:\nlanded  %v\nplanned %v", off, len(pods), landed, planned)
	}
	e.t.Logf("%d of %d pods are where they were planned, on %d machines", len(pods)-off, len(pods), len(seen))
}

// notReserved waits until no node of the pool is reserved any more.
func (e *env) notReserved() {
	e.t.Helper()
	e.until("no node is reserved any more", func() error {
		for _, n := range e.nodes() {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reservedTaint }) {
				return fmt.Errorf("%s has taints %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
}

// landed waits until no node of the pool is reserved any more, and checks that each was opened because its pods had come, not because the controller
// had waited for them long enough.
func (e *env) landed() {
	e.t.Helper()
	e.notReserved()
	late := e.landingTimeouts()
	for _, n := range e.nodes() {
		if slices.Contains(late, "node/"+n.Name) {
			e.t.Errorf("%s was opened before its pods had come", n.Name)
		}
	}
}

// landingTimeouts returns the nodes, as subjects, whose reservations the controllers have ended because they had waited for the pods long enough.
func (e *env) landingTimeouts() (late []string) {
	e.t.Helper()
	all, err := e.s.Components(sandbox.Controller)
	e.must(err)
	for _, c := range all {
		h, err := e.historyOf(c)
		e.must(err)
		for i := range h.Entries {
			if x := &h.Entries[i]; slices.ContainsFunc(x.Why, func(r plan.Reason) bool { return r.Code == plan.LandingTimeout }) {
				late = append(late, x.Subject)
			}
		}
	}
	return late
}

// Pods that only kube-scheduler can place come in one burst with others, in one plan: it binds the former, and we bind the rest. Two pods fill a
// machine, so that kube-scheduler finds room for no pod of ours on a node that has been opened.
func TestMixedLanding(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "mixed")
	e.deploy("spread", 12, e.pod("1900m", "1Gi", spread(corev1.LabelTopologyZone, 1, "spread")))
	e.deploy("plain", 24, e.pod("1900m", "1Gi"))
	e.podsRefused(36)
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	pods := e.podsRun(36)
	if n := len(e.launches(e.name)); n != 18 {
		t.Errorf("%d machines were launched for 36 pods, two of which fill one", n)
	}
	binder := map[string]string{"spread": corev1.DefaultSchedulerName, "plain": ours}
	e.until("every pod has the event of who bound it", func() error {
		by := e.binders()
		for i := range pods {
			if who := by[pods[i].UID]; len(who) == 0 {
				return fmt.Errorf("pod %s has none", pods[i].Name)
			} else if !slices.Equal(who, []string{binder[pods[i].Labels["app"]]}) {
				t.Fatalf("pod %s was bound by %q, want %s", pods[i].Name, who, binder[pods[i].Labels["app"]])
			}
		}
		return nil
	})
	e.landed()
}

// A DaemonSet's pod doesn't tolerate the reservation, so the node is cordoned until it is there: on each node there are just the pods that it was
// planned for, and the daemon, and no reservation ended because the controller had waited long enough.
func TestDaemonWaits(t *testing.T) {
	for _, landing := range []string{"bind", "tolerate"} {
		t.Run(landing, func(t *testing.T) {
			var s *sandbox.Sandbox
			if landing == "bind" {
				s = shared(t)
			} else {
				verifyOnly(t)
				s = own(t, "--boot", "1s", "--controller-arg", "--landing="+landing)
			}
			t.Parallel()
			e := newEnv(t, s, "daemons")
			p := e.pod("300m", "64Mi")
			p.Labels["app"] = "daemon"
			_, err := e.s.Kube.AppsV1().DaemonSets(e.name).Create(e.ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
				Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: p.Labels}, Template: p}}, metav1.CreateOptions{})
			e.must(err)
			w := e.watchLanding()
			e.deploy("web", 60, e.pod("1800m", "1Gi")) // four to a machine of 7,910m: without the daemon there is no room for it
			e.podsRefused(60)
			e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.2xlarge")})
			pods := e.podsRun(60 + 15)
			on := map[string]map[string]int{}
			for i := range pods {
				if on[pods[i].Spec.NodeName] == nil {
					on[pods[i].Spec.NodeName] = map[string]int{}
				}
				on[pods[i].Spec.NodeName][pods[i].Labels["app"]]++
			}
			if n := len(e.launches(e.name)); n != 15 || len(on) != 15 {
				t.Errorf("%d machines were launched and %d hold pods, want 15", n, len(on))
			}
			for node, apps := range on {
				if apps["web"] != 4 || apps["daemon"] != 1 {
					t.Errorf("node %s has %v, want four pods and a daemon", node, apps)
				}
			}
			e.landed()
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.err != nil {
				t.Fatalf("the record of landings is not whole: %v", w.err)
			}
			w.check(t)
			var waits []time.Duration
			for _, l := range w.pods {
				if ready := w.nodes[l.pod.Spec.NodeName]; l.pod.Labels["app"] == "daemon" && !l.bound.IsZero() && !ready.IsZero() {
					waits = append(waits, l.bound.Sub(ready))
				}
			}
			if slices.Sort(waits); len(waits) > 0 {
				t.Logf("--landing=%s: from Ready to bound a daemon waits %s in the middle, %s at the longest", landing, waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond))
			}
		})
	}
}

// tellLandings logs, in the order of time, what the controller has decided on claims, for which pods, when nodes were Ready, and when pods were bound.
func (e *env) tellLandings(w *landings) {
	e.t.Helper()
	var lines []string
	line := func(at time.Time, format string, args ...any) {
		lines = append(lines, at.UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
	all, err := e.s.Components(sandbox.Controller)
	e.must(err)
	for _, c := range all {
		h, err := e.historyOf(c)
		e.must(err)
		for i := range h.Entries {
			if x := &h.Entries[i]; strings.HasPrefix(x.Subject, "nodeclaim/") {
				line(x.At, "%s %s for %v and %d more %s", x.Kind, x.Subject, x.Pods, x.MorePods, x.Outcome)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, at := range w.nodes {
		line(at, "node %s is Ready", name)
	}
	for _, p := range w.pods {
		line(p.bound, "pod %s is bound to %s", p.pod.Name, p.pod.Spec.NodeName)
	}
	slices.Sort(lines)
	e.t.Log("what was decided, and what came of it:\n" + strings.Join(lines, "\n"))
}

// Where nodes are not reserved everything runs in the end as well: kube-scheduler binds every pod where it likes, no node is reserved for a moment,
// each claim says why, and what is bought besides the ten machines of the plan holds a pod that they left over.
func TestWithoutExactLanding(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	e := newEnv(t, own(t, "--catalog", tightCatalog(t), "--controller-arg", "--landing=off"), "loose")
	e.refusesPods("kube-scheduler places pods on new nodes as it likes")
	w := e.watchLanding()
	tightPods(e)
	pods := e.podsRun(25)
	launches := e.launches(e.name)
	if len(launches) < 10 {
		t.Fatalf("%d machines were launched for what fills 10", len(launches))
	}
	first, last := map[string]bool{}, map[string]int{}
	for _, in := range launches[:10] {
		first[in.Node.Name] = true
	}
	left := 0
	for i := range pods {
		if last[pods[i].Spec.NodeName]++; !first[pods[i].Spec.NodeName] {
			left++
		}
		if r := reservations(&pods[i]); len(r) > 0 {
			t.Errorf("pod %s tolerates the reservations of %q, and there are none", pods[i].Name, r)
		}
	}
	t.Logf("landing off: %d of 25 pods were left over by the ten nodes planned for them, and %d more nodes were bought", left, len(launches)-10)
	for _, in := range launches[10:] {
		if last[in.Node.Name] == 0 {
			t.Errorf("machine %s was bought besides the ten planned ones, and node %s holds none of the pods", in.ID, in.Node.Name)
		}
	}
	if t.Failed() {
		e.tellLandings(w)
	}
	for _, c := range e.claimsAre(len(launches), "Ready", ready) {
		if c.Annotations["dovetail.sh/not-reserved"] == "" {
			t.Errorf("claim %s does not say why it is not reserved: %v", c.Name, c.Annotations)
		}
	}
	e.until("kube-scheduler has said of every pod that it bound it", func() error {
		by := e.binders()
		for i := range pods {
			if who := by[pods[i].UID]; len(who) == 0 {
				return fmt.Errorf("pod %s has no such event", pods[i].Name)
			} else if !slices.Equal(who, []string{corev1.DefaultSchedulerName}) {
				t.Fatalf("pod %s was bound by %q", pods[i].Name, who)
			}
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		t.Fatalf("the record of landings is not whole: %v", w.err)
	}
	w.check(t)
	for node := range w.reserved {
		t.Errorf("node %s was reserved", node)
	}
}
