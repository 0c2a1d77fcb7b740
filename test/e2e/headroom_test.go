// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// headroom makes a Headroom for Deployment web whose window opens by a schedule.
func (e *env) headroom(schedule, duration string, replicas int) {
	e.t.Helper()
	e.must(e.s.Create(e.ctx, e.headroomPath(""), fmt.Sprintf(`{"apiVersion":"dovetail.sh/v1alpha1","kind":"Headroom","metadata":{"name":"web"},"spec":{"mode":"Active",
		"target":{"workload":{"kind":"Deployment","name":"web"}},"calendar":[{"name":"window","schedule":%q,"duration":%q,"replicas":%d}]}}`, schedule, duration, replicas)))
}

func (e *env) headroomPath(name string) string {
	path := "/apis/dovetail.sh/v1alpha1/namespaces/" + e.name + "/headrooms"
	if name != "" {
		path += "/" + name
	}
	return path
}

// holding waits until a condition of the Headroom says why something or nothing is held.
func (e *env) holding(reason string) *dovetailv1alpha1.Headroom {
	e.t.Helper()
	var h *dovetailv1alpha1.Headroom
	e.until("the Headroom says "+reason, func() (err error) {
		if h, err = sandbox.Get[dovetailv1alpha1.Headroom](e.ctx, e.s, e.headroomPath("web")); err != nil {
			return err
		}
		c := conditionOf(h.Status.Conditions, dovetailv1alpha1.ConditionHolding)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("%s", conditionsText(h.Status.Conditions))
		}
		return nil
	})
	return h
}

func (e *env) buffers() []bufferv1beta1.CapacityBuffer {
	e.t.Helper()
	list, err := sandbox.Get[bufferv1beta1.CapacityBufferList](e.ctx, e.s, "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/"+e.name+"/capacitybuffers")
	e.must(err)
	return list.Items
}

func (e *env) bufferReplicas() []int32 {
	e.t.Helper()
	var out []int32
	for _, b := range e.buffers() {
		out = append(out, *b.Spec.Replicas)
	}
	return out
}

// A Headroom whose window is open has nodes launched for pods that are still to come. They take that room, nothing more
// is launched, nobody is evicted; and when the Headroom is turned off and the pods have gone, so have the nodes.
func TestHeadroom(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "headroom")
	e.nodePool(moves("m5.2xlarge"))
	e.deploy("web", 0, e.pod("900m", "1Gi"))
	e.headroom("0 * * * *", "1h", 20)
	e.claimsAre(3, "Ready", ready)
	if h := e.holding("Held"); h.Status.Held != 20 || h.Status.NextWindow == nil || len(h.Status.Workloads) != 1 || len(e.pods()) > 0 {
		t.Errorf("with %d pods the status is %+v", len(e.pods()), h.Status)
	}
	seen := e.watchPods(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	e.scale("web", 20)
	e.podsRun(20)
	e.until("nothing is held any more", func() error {
		if n := e.bufferReplicas(); len(n) > 0 {
			return fmt.Errorf("buffers of %v", n)
		}
		return nil
	})
	a, err := e.answer("headroom/" + e.name + "/web")
	e.must(err)
	if !strings.Contains(fmt.Sprint(a.Facts), "20 replicas") {
		t.Errorf("why: %+v", a.Facts)
	}
	if n := len(e.launches(e.name)); n != 3 {
		t.Errorf("%d nodes were launched, want those 3 that were there before the pods", n)
	}
	if _, leaving := seen.get(t); len(leaving) > 0 {
		t.Errorf("pods were evicted: %v", leaving)
	}
	e.must(s.Patch(e.ctx, e.headroomPath("web"), `{"spec":{"mode":"Off"}}`))
	e.holding("Off")
	e.scale("web", 0)
	e.claimsAre(0, "gone", ready)
}

// What is wrong with a Headroom is said by its condition Ready: the field, its value, and what to do; and nothing is
// bought for it.
func TestHeadroomMistakes(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "mistakes")
	e.nodePool(nil)
	create := func(name, target, spec string) {
		e.must(s.Create(e.ctx, e.headroomPath(""), fmt.Sprintf(`{apiVersion: dovetail.sh/v1alpha1, kind: Headroom, metadata: {name: %s},
			spec: {mode: Active, target: {workload: {kind: Deployment, name: %s}}, %s}}`, name, target, spec)))
	}
	for _, c := range []struct {
		name, spec, reason string
		says               []string
	}{
		{"never", "calendar: [{name: w, schedule: 0 8 30 2 *, duration: 1h, replicas: 20}]", "InvalidSpec",
			[]string{`spec.calendar[0].schedule "0 8 30 2 *"`, "Use a day that the month has"}},
		{"zone", "calendar: [{name: w, schedule: 0 * * * *, timeZone: Europe/Atlantis, duration: 1h, replicas: 20}]", "InvalidSpec",
			[]string{`spec.calendar[0].timeZone "Europe/Atlantis"`, "Use an IANA name"}},
		{"learned-zone", "calendar: [{name: w, schedule: 0 * * * *, duration: 1h, replicas: 20}], learned: {timeZone: Mars/Olympus}", "InvalidSpec",
			[]string{`spec.learned.timeZone "Mars/Olympus"`, "Use an IANA name"}},
		{"long", "calendar: [{name: w, schedule: 0 * * * *, duration: 61m, replicas: 20}]", "InvalidSpec",
			[]string{"spec.calendar[0].duration 1h1m0s", "Give at most 1h"}},
		{"cpu", `calendar: [{name: w, schedule: 0 * * * *, duration: 1h, replicas: 20}], limits: {resources: {cpu: 100m}}`, "InvalidSpec",
			[]string{"spec.limits.resources[cpu] 100m", "Raise it to what one pod of deployment/mistakes/cpu needs"}},
		{"no-replicas", `calendar: [{name: w, schedule: 0 * * * *, duration: 1h, replicas: 20}], limits: {replicas: 0}`, "InvalidSpec",
			[]string{"spec.limits.replicas 0", "Raise it"}},
		{"dollars", `calendar: [{name: w, schedule: 0 * * * *, duration: 1h, replicas: 20}], limits: {dollarsPerHour: "0.001"}`, "InvalidSpec",
			[]string{"spec.limits.dollarsPerHour 0.0010", "Raise it to what one pod of deployment/mistakes/dollars needs"}},
		{"gone", "calendar: [{name: w, schedule: 0 * * * *, duration: 1h, replicas: 20}]", "TargetNotFound",
			[]string{"spec.target.workload", "gone", "Create it, or name another"}},
		{"twice", "calendar: [{name: w, schedule: 0 * * * *, duration: 1h, replicas: 20}]", "TargetHeldTwice",
			[]string{"spec.target deployment/mistakes/twice", "Headroom mistakes/older", "Delete one of them"}},
	} {
		if c.name != "gone" {
			e.deploy(c.name, 0, e.pod("900m", "1Gi"))
		}
		if c.name == "twice" {
			create("older", "twice", "learned: {}") // or of the same second, and the first by name
		}
		create(c.name, c.name, c.spec)
		var got *metav1.Condition
		e.until("Headroom "+c.name+" is not Ready", func() error {
			h, err := sandbox.Get[dovetailv1alpha1.Headroom](e.ctx, s, e.headroomPath(c.name))
			if err != nil {
				return err
			}
			if got = conditionOf(h.Status.Conditions, "Ready"); got == nil || got.Status != metav1.ConditionFalse {
				return fmt.Errorf("conditions: %s", conditionsText(h.Status.Conditions))
			}
			return nil
		})
		if got.Reason != c.reason || slices.ContainsFunc(c.says, func(w string) bool { return !strings.Contains(got.Message, w) }) {
			t.Errorf("%s: %s %q, want %s and the words %q", c.name, got.Reason, got.Message, c.reason, c.says)
		}
	}
	if n, m := e.bufferReplicas(), e.launches(e.name); len(n)+len(m) > 0 {
		t.Errorf("buffers of %v were written, and %d nodes launched", n, len(m))
	}
}

// scaleUp scales a Deployment up, and returns how long it took until 99 of 100 of its pods ran.
func (e *env) scaleUp(app string, replicas int) time.Duration {
	e.t.Helper()
	leader, err := e.s.Leader()
	e.must(err)
	had, unknown := sandbox.ProcessorSeconds(leader.PID) // a test may just have killed it
	began := time.Now()
	e.scale(app, replicas)
	var took time.Duration
	e.until("99 of 100 pods run", func() error {
		running := 0
		for _, p := range e.pods() {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if took = time.Since(began); running < (99*replicas+99)/100 {
			return fmt.Errorf("%d run after %s", running, took)
		}
		return nil
	})
	if has, err := sandbox.ProcessorSeconds(leader.PID); err == nil && unknown == nil {
		e.t.Logf("99 of 100 pods run after %s, in which the controller had %.2f s of processor time", took, has-had)
	}
	return took
}

// On nodes that take 35 seconds: 300 pods scaled up the moment that a window opens run as soon as on nodes of no autoscaler,
// nothing is evicted, and when the window has closed and the pods have gone, so have the nodes.
func TestHeadroomWindow(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("it waits for whole minutes: set DOVETAIL_SOAK=1")
	}
	e := newEnv(t, own(t, "--boot", "35s"), "window")
	e.nodePool(moves("m5.4xlarge", "m5.8xlarge"))
	e.deploy("web", 0, e.pod("900m", "1Gi"))
	opens := time.Now().UTC().Add(50 * time.Second).Truncate(time.Minute).Add(time.Minute)
	e.headroom(fmt.Sprintf("%d %d * * *", opens.Minute(), opens.Hour()), "1m", 300)
	e.until("the window opens", func() error {
		if left := time.Until(opens); left > 0 {
			return fmt.Errorf("in %s", left)
		}
		return nil
	})
	before := len(e.launches(e.name))
	seen := e.watchPods(func(p *corev1.Pod) bool { return p.Labels["app"] == "web" })
	took := e.scaleUp("web", 300)
	e.podsRun(300)
	if before == 0 {
		t.Error("no node was there when the window opened")
	}
	if _, leaving := seen.get(t); len(leaving) > 0 {
		t.Errorf("pods were evicted: %v", leaving)
	}
	if n := len(e.launches(e.name)); n != before {
		t.Errorf("%d nodes were launched, %d of them for the window", n, before)
	}
	e.event("Headroom", "web", "SpikeMet", "300")
	e.soonEnough("web", 300, took)
	e.scale("web", 0)
	h := e.holding("NothingWanted")
	if h.Status.LastWeek.Hits != 1 || h.Status.LastWeek.Misses != 0 || h.Status.LastWeek.SparedPodMinutes == 0 {
		t.Errorf("record of the week: %+v", h.Status.LastWeek)
	}
	e.claimsAre(0, "gone", ready)
}

// seedDemand has Deployment web want 5 replicas for so many past days and 300 more at this time of each day, for half an
// hour. It writes what the controller stores, in the place where it does, and has it start anew.
func (e *env) seedDemand(days int) {
	e.t.Helper()
	const day, spike = 24 * 60, 30
	now := time.Now().Unix() / 60
	history := forecast.New()
	for m := now - int64(days)*day; m <= now; m++ {
		replicas := 5
		if age := (m - now + int64(days)*day) % day; age < spike && m < now {
			replicas = 305
		}
		e.must(history.Observe(m, replicas))
	}
	hash := fnv.New32a()
	_, err := hash.Write([]byte(model.Workload{Namespace: e.name, Kind: "Deployment", Name: "web"}.String()))
	e.must(err)
	_, err = e.s.Kube.CoreV1().ConfigMaps(historyNamespace).Create(e.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("dovetail-demand-", hash.Sum32()%8)},
		BinaryData: map[string][]byte{"Deployment." + e.name + ".web": history.Encode()},
	}, metav1.CreateOptions{})
	e.must(err)
	e.killLeader()
}

// historyNamespace is where the controller stores demand.
const historyNamespace = "dovetail-system"

// learnedRise has room held for 300 pods of Deployment web that its past days foretell, and waits until the nodes are
// quiet. It returns how many there are.
func (e *env) learnedRise() (nodes int) {
	e.t.Helper()
	e.nodePool(moves("m5.4xlarge", "m5.8xlarge"))
	e.seedDemand(4)
	e.deploy("web", 5, e.pod("900m", "1Gi"))
	e.must(e.s.Create(e.ctx, e.headroomPath(""), `{apiVersion: dovetail.sh/v1alpha1, kind: Headroom, metadata: {name: web}, spec: {mode: Active, target: {workload: {kind: Deployment, name: web}}}}`))
	e.podsRun(5)
	e.until("room for 300 pods is ready on nodes that have been quiet", func() error {
		buffers, claims := e.buffers(), e.claims()
		if len(buffers) != 1 || *buffers[0].Spec.Replicas != 300 {
			return fmt.Errorf("buffers of %v", e.bufferReplicas())
		}
		if c := conditionOf(buffers[0].Status.Conditions, "Provisioning"); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the buffer's conditions: %s", conditionsText(buffers[0].Status.Conditions))
		}
		for i := range claims {
			if !isTrue(&claims[i], karpv1.ConditionConsolidatable) {
				return fmt.Errorf("%s: %s", claims[i].Name, conditionsText(claims[i].Status.Conditions))
			}
		}
		nodes = len(claims)
		return nil
	})
	return nodes
}

// arrivals are what is seen of the pods of Deployment web from now on.
type arrivals struct {
	*podsOver
	refused map[string]string // by name: what kube-scheduler said of those that it found no node for
}

func (e *env) watchArrivals() *arrivals {
	x := &arrivals{refused: map[string]string{}}
	x.podsOver = e.watchPods(func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				x.refused[p.Name] = c.Message // with podsOver.mu
			}
		}
		return p.Labels["app"] == "web"
	})
	return x
}

// soonEnough checks how long 99 of 100 pods of a Deployment took to run on nodes that stood ready for them: three seconds, or,
// where this machine's control plane can't do that, at most 1.25 times as long as it takes for as many on the same nodes while
// the controller is stopped. It scales the Deployment down and up again to measure that.
func (e *env) soonEnough(app string, replicas int, took time.Duration) {
	e.t.Helper()
	leader, err := e.s.Leader()
	e.must(err)
	e.must(syscall.Kill(leader.PID, syscall.SIGSTOP))
	defer func() { e.must(syscall.Kill(leader.PID, syscall.SIGCONT)) }()
	e.scale(app, 0)
	e.until("the pods are gone", func() error { return e.noPods(e.ctx) })
	floor := e.scaleUp(app, replicas)
	e.t.Logf("99 of 100 pods ran after %s; while the controller is stopped after %s: %.2f times as long", took, floor, took.Seconds()/floor.Seconds())
	if took > 3*time.Second && took > floor*5/4 {
		e.t.Errorf("99 of 100 pods ran after %s, want 3s or 1.25 times %s at most", took, floor)
	}
}

// tookRoom checks that pods have taken the room that was held for them: kube-scheduler found a node for each at once, none
// was evicted, and no further node was launched.
func (e *env) tookRoom(seen *arrivals, nodes int) {
	e.t.Helper()
	if _, leaving := seen.get(e.t); len(leaving) > 0 {
		e.t.Errorf("pods were evicted: %v", leaving)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.refused) > 0 {
		e.t.Errorf("kube-scheduler refused %v", seen.refused)
	}
	if n := len(e.launches(e.name)); n != nodes {
		e.t.Errorf("%d nodes were launched, want those %d that were there before the pods", n, nodes)
	}
}

// On nodes that take 35 seconds: demand rose at this time on each of four days, and today room for 300 pods is there before
// them. None waits for a node, none is evicted, and when they have gone, so have the nodes.
func TestHeadroomLearned(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	e := newEnv(t, own(t, "--boot", "35s"), "learned")
	nodes := e.learnedRise()
	seen := e.watchArrivals()
	took := e.scaleUp("web", 305)
	e.podsRun(305)
	e.tookRoom(seen, nodes)
	if os.Getenv("DOVETAIL_SOAK") != "" {
		e.soonEnough("web", 305, took)
	}
	e.must(e.s.Patch(e.ctx, e.headroomPath("web"), `{"spec":{"mode":"Off"}}`))
	e.scale("web", 0)
	e.claimsAre(0, "gone", ready)
}

// The same while all fails that the forecast comes from: Prometheus takes questions and never answers, what is stored of
// the past is deleted, and the leader is killed as the pods come. The next one forecasts nothing: room for further pods is
// given up, and no pod notices.
func TestHeadroomLearnedFaults(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("it waits for whole minutes: set DOVETAIL_SOAK=1")
	}
	asked := make(chan struct{}, 1000)
	prometheus := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		if _, err := io.Copy(io.Discard, r.Body); err == nil { // until then nobody notices that who asked has gone
			<-r.Context().Done()
		}
	}))
	t.Cleanup(prometheus.Close)
	e := newEnv(t, own(t, "--boot", "35s", "--controller-arg", "--prometheus-url="+prometheus.URL), "faults")
	nodes := e.learnedRise()
	select {
	case <-asked:
	case <-time.After(testwait.Scale(limit)):
		t.Fatal("Prometheus was not asked")
	}
	lost := 0
	for i := range 8 {
		err := e.s.Kube.CoreV1().ConfigMaps(historyNamespace).Delete(e.ctx, fmt.Sprint("dovetail-demand-", i), metav1.DeleteOptions{})
		if err == nil {
			lost++
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if lost == 0 {
		t.Fatal("no history was stored, so none was lost")
	}
	seen := e.watchArrivals()
	leader, err := e.s.Leader()
	e.must(err)
	e.must(syscall.Kill(leader.PID, syscall.SIGKILL))
	took := e.scaleUp("web", 305)
	e.podsRun(305)
	e.t.Logf("99 of 100 pods run after %s", took)
	e.holding("NothingWanted")
	e.until("no buffer is left", func() error {
		if n := e.bufferReplicas(); len(n) > 0 {
			return fmt.Errorf("buffers of %v", n)
		}
		return nil
	})
	e.tookRoom(seen, nodes)
	e.podsRun(305)
	e.scale("web", 0)
	e.claimsAre(0, "gone", ready)
}
