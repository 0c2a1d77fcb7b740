// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Somebody else is at work during two bursts: a rival binds a third of the pods itself, to nodes that are reserved and to standing ones, deletes
// a tenth of them, and puts taints and labels on reserved nodes that it takes off again after some seconds.
//
// In the end every pod runs, no node ever held more than it has, and every reservation ends. No machine is bought but for a reason: the machines after a burst are at most those
// planned for it, and those that the room needs which the rival took. Taken is what the pods ask for that it bound to reserved nodes, but for those
// that it bound to where they were planned; what was planned for a node and had not landed when it put a label there that the pods refuse;
// and what the pods asked for that it deleted from nodes which it kept pods off. Room that was taken is bought again on machines of which all but
// one are more than three quarters full: no pod asks for more than a quarter, and one that has room on a machine that comes is not bought for.
func TestRival(t *testing.T) {
	verifyOnly(t)
	s, races := own(t, "--catalog", tightCatalog(t)), 0
	for seed := 1; seed <= kills(1); seed++ {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			e := newEnv(t, s, fmt.Sprintf("rival-%d", seed))
			e.refusesPods("the rival takes the room of others, and keeps pods off nodes")
			l := e.watchLanding()
			r := &rival{env: e, rand: rand.New(rand.NewPCG(uint64(seed), 4)), landing: l, nodes: map[string]*rivalled{}, cpu: map[string]int64{}}
			// What is a kubelet here starts when it is told to: so the plan stands before the first node is Ready, and they come one by one.
			e.nodePool(map[string]any{"spec.template.spec.requirements": only("exact-16"),
				"spec.template.metadata.annotations": map[string]string{kubeletAnnotation: "stopped"}})
			wanted := r.burst(1)
			e.scale("big-1", 10) // and there is room on what stands
			wanted -= 10
			e.podsRun(wanted)
			r.closeStanding()
			wanted += r.burst(2)
			pods := e.podsRun(wanted)

			e.notReserved()
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.err != nil {
				t.Fatalf("the record of landings is not whole: %v", l.err)
			}
			for _, uid := range r.ours {
				if w := l.pods[uid]; w != nil {
					w.rival = true
				}
			}
			l.check(t)
			longest := time.Duration(0)
			for i := range pods {
				p := l.pods[pods[i].UID]
				from := p.seen
				if ready := l.nodes[pods[i].Spec.NodeName]; ready.After(from) {
					from = ready
				}
				longest = max(longest, p.bound.Sub(from))
			}
			t.Logf("the rival bound %d pods, %d of them where they were planned, and came too late for %d; it deleted %d, and kept pods off %d nodes; "+
				"the longest that a pod waited while its node was Ready: %s", r.bound, r.inPlace, r.late, r.deleted, r.kept, longest.Round(time.Millisecond))
			races += r.inPlace + r.late
			if r.bound == 0 || r.deleted == 0 || r.kept == 0 {
				t.Error("the rival did not do all that it does, so this proves little")
			}
		})
	}
	if kills(1) > 1 && races == 0 { // it races only for nodes that it has left alone, and of one seed they may hold no pod of its kind
		t.Error("the rival and the controller never wanted to bind one pod at once, so this proves little")
	}
}

// kubeletAnnotation keeps a node of the sandbox from becoming Ready while its value is "stopped".
const kubeletAnnotation = "sandbox.dovetail.sh/kubelet"

// witnessed is when something was seen of a pod.
type witnessed struct {
	pod         *corev1.Pod
	seen, bound time.Time
	rival       bool // it was the rival who bound it
}

// landings keeps what happens to the test's pods, and when nodes became Ready. Watches tell of every change in order, so it knows what each
// node held at every moment.
type landings struct {
	mu       sync.Mutex
	pods     map[types.UID]*witnessed
	nodes    map[string]time.Time           // when it was first seen Ready
	reserved map[string]bool                // nodes that bore a reservation at some time
	holds    map[string]map[types.UID]int64 // by node: the CPU of its pods, in thousandths
	has      map[string]int64
	wrong    []func() string // told in the end, when it is known who bound what and what each node has; empty: it was right
	err      error
}

func (e *env) watchLanding() *landings {
	l := &landings{pods: map[types.UID]*witnessed{}, nodes: map[string]time.Time{}, reserved: map[string]bool{}, holds: map[string]map[types.UID]int64{}, has: map[string]int64{}}
	end := func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.err = err
		}
	}
	go func() {
		end(sandbox.Watch(e.ctx, e.s, "/api/v1/namespaces/"+e.name+"/pods", func(kind string, p *corev1.Pod) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.see(kind, p)
		}))
	}()
	go func() {
		end(sandbox.Watch(e.ctx, e.s, "/api/v1/nodes", func(_ string, n *corev1.Node) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.has[n.Name] = n.Status.Allocatable.Cpu().MilliValue()
			if reserved(n) && n.Labels[karpv1.LabelNodePool] == e.name {
				l.reserved[n.Name] = true
			}
			if _, ok := l.nodes[n.Name]; !ok && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				l.nodes[n.Name] = time.Now()
			}
		}))
	}()
	return l
}

// check reports what was wrong. The caller holds mu.
func (l *landings) check(t *testing.T) {
	t.Helper()
	for _, what := range l.wrong {
		if text := what(); text != "" {
			t.Error(text)
		}
	}
}

// see keeps a change of a pod. The caller holds mu.
func (l *landings) see(kind string, p *corev1.Pod) {
	w, now := l.pods[p.UID], time.Now()
	if w == nil {
		w = &witnessed{seen: now}
		l.pods[p.UID] = w
	}
	w.pod = p
	if p.Status.Phase == corev1.PodFailed {
		l.wrong = append(l.wrong, func() string {
			return fmt.Sprintf("pod %s has failed: %s %s", p.Name, p.Status.Reason, p.Status.Message)
		})
	}
	node := p.Spec.NodeName
	if kind == "DELETED" {
		delete(l.holds[node], p.UID)
		return
	}
	if node == "" || !w.bound.IsZero() {
		return
	}
	w.bound = now
	if l.holds[node] == nil {
		l.holds[node] = map[types.UID]int64{}
	}
	l.holds[node][p.UID] = cpuOf(p)
	sum := int64(0)
	for _, cpu := range l.holds[node] {
		sum += cpu
	}
	if sum > l.has[node] {
		on := slices.Collect(maps.Keys(l.holds[node]))
		l.wrong = append(l.wrong, func() string {
			if sum <= l.has[node] { // the node was seen after its pod
				return ""
			}
			text := fmt.Sprintf("node %s held %dm CPU and has %dm:", node, sum, l.has[node])
			slices.SortFunc(on, func(a, b types.UID) int { return l.pods[a].bound.Compare(l.pods[b].bound) })
			for _, uid := range on {
				w := l.pods[uid]
				text += fmt.Sprintf("\n%s %s, %dm, bound by the rival: %t", w.bound.Format(time.RFC3339Nano), w.pod.Name, cpuOf(w.pod), w.rival)
			}
			return text
		})
	}
}

func cpuOf(p *corev1.Pod) (milli int64) {
	for i := range p.Spec.Containers {
		milli += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return milli
}

// rival acts on a test's pods and nodes beside the controller. It overfills no node: it binds only to nodes to which nobody else binds just now,
// as they are not Ready or have borne its own taint for a while, and pods of which there is only one, to where they were planned.
type rival struct {
	*env
	rand    *rand.Rand
	landing *landings
	nodes   map[string]*rivalled
	cpu     map[string]int64 // of a pod of each Deployment, in thousandths
	taken   int64            // the room of which TestRival speaks

	mu                                  sync.Mutex // guards what follows, and nodes, while pods are bound at the side
	bound, inPlace, late, deleted, kept int
	ours                                []types.UID
}

// rivalled is a node as the rival sees it.
type rivalled struct {
	starts   time.Time // its kubelet does then
	started  bool
	standing bool      // from a burst before
	closed   time.Time // when the rival's taint was put on
	opens    time.Time // when it goes
	shunned  time.Time // when the label that the pods refuse goes
	touched  bool      // what lands there is not all as planned
}

const (
	rivalTaint = "example.com/rival"
	rivalLabel = "example.com/rival" // with the value here it is on no node that the test's pods may go to
)

// calm is for how long before and after the rival nobody binds to a node: time enough for whoever had begun to be done, and to see what it did.
// What the rival does takes longer on a slow machine, as what the others do.
var calm = pace(1500 * time.Millisecond)

// within draws how long the rival does something.
func (r *rival) within(least, spread int) time.Duration {
	return pace(time.Duration(least+r.rand.IntN(spread)) * time.Millisecond)
}

// burst makes 100 pods of 180 CPUs, waits until a machine is planned for each, and has the rival act until all run. It returns how many pods it made.
func (r *rival) burst(number int) int {
	e := r.env
	e.t.Helper()
	made := 0
	deploy := func(app string, n int32, cpu string) {
		p := e.pod(cpu, "256Mi", func(p *corev1.PodTemplateSpec) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: rivalLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"here"}}}}}}}}
		})
		e.deploy(app, n, p)
		r.cpu[app] = p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		made += int(n)
	}
	have := len(e.pods())
	deploy(fmt.Sprintf("big-%d", number), 20, "4")
	deploy(fmt.Sprintf("small-%d", number), 60, "1")
	for i := range 20 {
		deploy(fmt.Sprintf("single-%d-%02d", number, i), 1, "2")
	}
	var planned int
	e.until("a machine is planned for every pod", func() error {
		room, pending, all := 0, 0, e.pods()
		for _, p := range all {
			if p.Spec.NodeName == "" {
				pending++
			}
		}
		list := e.claims()
		planned = len(list)
		for i := range list {
			if n := r.nodes[list[i].Status.NodeName]; n == nil {
				for _, count := range e.slots(&list[i]) {
					room += count
				}
			}
		}
		if len(all) != have+made || room < pending {
			return fmt.Errorf("%d pods, %d of them pending, and room for %d", len(all), pending, room)
		}
		return nil
	})
	r.taken = 0
	r.act(number, made)
	e.podsRun(have + made)
	now := len(e.claims())
	const full = 12000 // three quarters of a machine
	most := planned + int((r.taken+full-1)/full)
	e.t.Logf("burst %d: %d machines were planned and there are %d; the rival took room for %d CPUs, which explains %d", number, planned, now, r.taken/1000, most-planned)
	if now > most {
		e.t.Errorf("burst %d: there are %d machines, of which %d were planned; the rival took room for %dm CPU, which explains %d more", number, now, planned, r.taken, most-planned)
	}
	return made
}

// closeStanding keeps everybody else off the nodes that stand, for some seconds of the next burst.
func (r *rival) closeStanding() {
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		r.nodes[name].standing = true
		r.close(name, pace(5*time.Second))
	}
}

// act is all that the rival does in a burst.
func (r *rival) act(number, made int) {
	e := r.env
	e.t.Helper()
	binds, deletes, taints, labels := made/3, made/10, 4, 3
	var aside sync.WaitGroup
	defer aside.Wait()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testwait.Left(e.t, limit)); ; {
		now := time.Now()
		list, err := e.s.Kube.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{LabelSelector: karpv1.LabelNodePool + "=" + e.name})
		e.must(err)
		all, claims := e.pods(), map[string]*karpv1.NodeClaim{}
		for _, c := range e.claims() {
			claims[c.Status.NodeName] = &c
		}
		busy := r.timely(list.Items, claims, all, &aside)

		for range r.rand.IntN(2) {
			if deletes == 0 {
				break
			}
			p := &all[r.rand.IntN(len(all))]
			if n := r.nodes[p.Spec.NodeName]; p.DeletionTimestamp == nil && r.delete(p) {
				deletes--
				if n != nil && (now.Before(n.opens) || now.Before(n.shunned)) {
					r.taken += cpuOf(p)
				}
			}
		}
		if i := r.rand.IntN(len(list.Items)); taints > 0 && claims[list.Items[i].Name] != nil && reserved(&list.Items[i]) {
			if name := list.Items[i].Name; r.nodes[name].opens.IsZero() {
				r.close(name, later(r.nodes[name].starts.Sub(now))+r.within(1500, 2000))
				taints--
			}
		}
		if i := r.rand.IntN(len(list.Items)); labels > 0 && claims[list.Items[i].Name] != nil && reserved(&list.Items[i]) {
			if name := list.Items[i].Name; r.nodes[name].shunned.IsZero() {
				r.shun(name, later(r.nodes[name].starts.Sub(now))+r.within(1000, 2000), claims[name], all)
				labels--
			}
		}
		binds -= r.bind(list.Items, min(binds, 10))

		waiting := 0
		for i := range all {
			if all[i].Spec.NodeName == "" {
				waiting++
			}
		}
		if waiting == 0 && !busy && len(all) > 0 && deletes == 0 {
			return
		}
		if now.After(deadline) {
			e.dump()
			e.t.Fatalf("burst %d: %d pods have no node, and nodes are kept shut: %t; %d deletions are still to come", number, waiting, busy, deletes)
		}
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			e.must(e.ctx.Err())
		}
	}
}

func later(d time.Duration) time.Duration { return max(0, d) }

func reserved(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reservedTaint })
}

// timely does what is due: starts kubelets, and undoes what the rival did to nodes. It reports whether more will be.
func (r *rival) timely(list []corev1.Node, claims map[string]*karpv1.NodeClaim, pods []corev1.Pod, aside *sync.WaitGroup) (busy bool) {
	e, now := r.env, time.Now()
	for i := range list {
		n := r.nodes[list[i].Name]
		if n == nil {
			n = &rivalled{starts: now.Add(r.within(500, 3500))}
			r.nodes[list[i].Name] = n
		}
		name := list[i].Name
		if !n.started && now.After(n.starts) {
			e.must(e.s.Patch(e.ctx, "/api/v1/nodes/"+name, `{"metadata":{"annotations":{"`+kubeletAnnotation+`":null}}}`))
			n.started = true
			if c := claims[name]; c != nil && !n.touched && n.opens.IsZero() {
				r.race(name, e.slots(c), pods, aside)
			}
		}
		if !n.opens.IsZero() && now.After(n.opens) && slices.ContainsFunc(list[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == rivalTaint }) {
			r.taint(name, false)
		}
		if _, shunned := list[i].Labels[rivalLabel]; shunned && now.After(n.shunned) {
			e.must(e.s.Patch(e.ctx, "/api/v1/nodes/"+name, `{"metadata":{"labels":{"`+rivalLabel+`":null}}}`))
		}
		busy = busy || !n.started || r.keepsOff(&list[i])
	}
	return busy
}

// keepsOff reports whether a node bears something of the rival's that keeps pods off.
func (r *rival) keepsOff(n *corev1.Node) bool {
	return n.Labels[rivalLabel] != "" || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == rivalTaint })
}

// race binds the pods of Deployments of one to the node that is planned for them, at the moment at which it becomes Ready: somebody wins.
func (r *rival) race(node string, slots map[string]int, pods []corev1.Pod, aside *sync.WaitGroup) {
	after := time.Duration(r.rand.IntN(250)) * time.Millisecond
	aside.Go(func() {
		select {
		case <-time.After(after):
		case <-r.ctx.Done():
			return
		}
		for i := range pods {
			app := pods[i].Labels["app"]
			if slots[app] == 1 && pods[i].Spec.NodeName == "" && r.cpu[app] == 2000 {
				if r.bindOne(&pods[i], node) {
					r.mu.Lock()
					r.inPlace++
					r.mu.Unlock()
				}
			}
		}
	})
}

// bind binds up to so many pending pods to nodes to which nobody else binds, and says how many it was.
func (r *rival) bind(list []corev1.Node, most int) (done int) {
	e, now := r.env, time.Now()
	pods := e.pods() // anew: what has landed by now is seen
	free := map[string]int64{}
	for i := range list {
		n, name := r.nodes[list[i].Name], list[i].Name
		shut := !n.opens.IsZero() && now.After(n.closed.Add(calm)) && now.Before(n.opens.Add(-calm/2))
		if (!n.started && now.Before(n.starts.Add(-calm)) || shut) && list[i].Labels[rivalLabel] == "" {
			free[name] = list[i].Status.Allocatable.Cpu().MilliValue()
		}
	}
	var pending []*corev1.Pod
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" {
			free[node] -= cpuOf(&pods[i]) // of a node that is not looked at: below nothing
		} else if pods[i].DeletionTimestamp == nil {
			pending = append(pending, &pods[i])
		}
	}
	r.rand.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
	names := slices.Sorted(maps.Keys(free))
	for _, p := range pending {
		if done >= most {
			break
		}
		fits := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return free[name] < cpuOf(p) })
		if len(fits) == 0 {
			continue
		}
		node := fits[r.rand.IntN(len(fits))]
		if r.bindOne(p, node) {
			free[node] -= cpuOf(p)
			if n := r.nodes[node]; !n.standing {
				r.taken += cpuOf(p)
				n.touched = true
			}
			done++
		}
	}
	return done
}

// bindOne reports whether it has bound a pod, and not somebody else.
func (r *rival) bindOne(p *corev1.Pod, node string) bool {
	err := r.s.Kube.CoreV1().Pods(r.name).Bind(r.ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.bound++
		r.ours = append(r.ours, p.UID)
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // bound, or deleted
		r.late++
	case r.ctx.Err() == nil:
		r.t.Errorf("the rival could not bind pod %s to %s: %v", p.Name, node, err)
	}
	return false
}

func (r *rival) delete(p *corev1.Pod) bool {
	err := r.s.Kube.CoreV1().Pods(r.name).Delete(r.ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			r.must(err)
		}
		return false
	}
	r.deleted++
	return true
}

// close puts the rival's taint on a node for a while.
func (r *rival) close(name string, long time.Duration) {
	r.taint(name, true)
	n := r.nodes[name]
	n.closed = time.Now()
	n.opens = n.closed.Add(long)
	r.kept++
}

// taint puts the rival's taint on a node, or takes it off, and leaves what others change meanwhile as it is.
func (r *rival) taint(name string, on bool) {
	e := r.env
	e.t.Helper()
	e.until("the rival's taint of node "+name+" is written", func() error {
		n, err := e.s.Kube.CoreV1().Nodes().Get(e.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == rivalTaint })
		if on {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: rivalTaint, Effect: corev1.TaintEffectNoSchedule})
		}
		_, err = e.s.Kube.CoreV1().Nodes().Update(e.ctx, n, metav1.UpdateOptions{})
		return err
	})
}

// shun labels a node for a while so that pods may not go there; what was planned for it and is not there is lost.
func (r *rival) shun(name string, long time.Duration, c *karpv1.NodeClaim, pods []corev1.Pod) {
	e := r.env
	e.must(e.s.Patch(e.ctx, "/api/v1/nodes/"+name, `{"metadata":{"labels":{"`+rivalLabel+`":"here"}}}`))
	there := map[string]int{}
	for i := range pods {
		if pods[i].Spec.NodeName == name {
			there[pods[i].Labels["app"]]++
		}
	}
	for app, n := range e.slots(c) {
		r.taken += int64(max(0, n-there[app])) * r.cpu[app]
	}
	n := r.nodes[name]
	n.shunned, n.touched = time.Now().Add(long), true
	r.kept++
}
