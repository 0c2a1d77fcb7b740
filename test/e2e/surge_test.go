// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// allowSurge gives the controller the right that is not in its default role, with the policy that narrows it.
func (e *env) allowSurge() {
	e.t.Helper()
	e.allow("surge")
}

// allow gives the controller rights of charts/dovetail/optional.
func (e *env) allow(name string) {
	e.t.Helper()
	bin, _, err := sandbox.Binaries()
	e.must(err)
	if out, err := exec.CommandContext(e.ctx, bin, "--dir", e.s.Dir, "kubectl", "apply", "--server-side", "-f", "../../charts/dovetail/optional/"+name+".yaml").CombinedOutput(); err != nil {
		e.t.Fatalf("apply the optional rights %s: %v\n%s", name, err, out)
	}
}

// answer asks the controller why.
func (e *env) answer(subject string) (report.Why, error) {
	var a report.Why
	err := e.get("why/"+subject, &a)
	return a, err
}

func (e *env) get(path string, into any) error {
	all, err := e.s.Components(sandbox.Controller)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(e.ctx, testwait.Scale(20*time.Second))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%s", all[0].Ports["metrics"], path), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s %w", path, res.Status, body, err)
	}
	return json.Unmarshal(body, into)
}

// endpoints follows a Service's EndpointSlices and notes every version of them in which nobody is ready, from the first on in which
// somebody is. It returns what ends it and says what was seen.
func (e *env) endpoints(service string) (end func() (versions int, empty []string)) {
	e.t.Helper()
	o := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}
	list, err := e.s.Kube.DiscoveryV1().EndpointSlices(e.name).List(e.ctx, o)
	e.must(err)
	o.ResourceVersion = list.ResourceVersion
	w, err := e.s.Kube.DiscoveryV1().EndpointSlices(e.name).Watch(e.ctx, o)
	e.must(err)
	ready := map[string]int{}
	count := func(s *discoveryv1.EndpointSlice) {
		n := 0
		for _, p := range s.Endpoints {
			if p.Conditions.Ready == nil || *p.Conditions.Ready {
				n += len(p.Addresses)
			}
		}
		ready[s.Name] = n
	}
	for i := range list.Items {
		count(&list.Items[i])
	}
	type seen struct {
		versions int
		empty    []string
	}
	done := make(chan seen, 1)
	var stopping atomic.Bool
	go func() {
		var s seen
		for ev := range w.ResultChan() {
			slice, ok := ev.Object.(*discoveryv1.EndpointSlice)
			switch {
			case !ok && stopping.Load():
				continue // a watch that is stopped says so
			case !ok:
				s.empty = append(s.empty, fmt.Sprintf("the watch broke: %v", ev.Object))
				continue
			case ev.Type == watch.Deleted:
				delete(ready, slice.Name)
			default:
				count(slice)
			}
			s.versions++
			sum := 0
			for _, n := range ready {
				sum += n
			}
			if sum == 0 {
				text, err := json.Marshal(slice.Endpoints)
				s.empty = append(s.empty, fmt.Sprintf("version %s at %s: %s %v", slice.ResourceVersion, time.Now().Format(time.TimeOnly), text, err))
			}
		}
		done <- s
	}()
	return func() (int, []string) {
		stopping.Store(true)
		w.Stop()
		s := <-done
		return s.versions, s.empty
	}
}

// single is a Deployment of one pod that is opted in, behind a Service and a PodDisruptionBudget that allows no eviction; it is there when
// the pod runs, the Service has it and the controller knows that it may restart the Deployment.
func (e *env) single() {
	e.t.Helper()
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large")})
	e.deploy("web", 1, e.pod("1500m", "2Gi", func(p *corev1.PodTemplateSpec) { p.Annotations["dovetail.sh/surge"] = "true" }))
	one := intstr.FromInt32(1)
	_, err := e.s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
	e.must(err)
	_, err = e.s.Kube.CoreV1().Services(e.name).Create(e.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	e.must(err)
	pod := e.podsRun(1)[0]
	e.until("the controller may restart Deployments", func() error {
		a, err := e.answer("pod/" + e.name + "/" + pod.Name)
		if err == nil && !slices.ContainsFunc(a.Facts, func(f plan.Fact) bool {
			return f.Name == "eviction" && strings.HasPrefix(f.Value, "after its replacement")
		}) {
			err = fmt.Errorf("its facts: %v", a.Facts)
		}
		return err
	})
	e.until("the Service has a ready endpoint", func() error {
		list, err := e.s.Kube.DiscoveryV1().EndpointSlices(e.name).List(e.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err == nil && (len(list.Items) == 0 || len(list.Items[0].Endpoints) == 0) {
			err = fmt.Errorf("it has none")
		}
		return err
	})
}

// elsewhere waits until the only pod runs on the only machine, which is another one than it was.
func (e *env) elsewhere(what string, old types.UID) {
	e.t.Helper()
	e.until(what+": another machine has the pod, and the old one is gone", func() error {
		list := e.claims()
		if len(list) != 1 || list[0].UID == old || !isTrue(&list[0], karpv1.ConditionReady) {
			return fmt.Errorf("%d claims", len(list))
		}
		all := e.pods()
		if len(all) != 1 || all[0].Spec.NodeName != list[0].Status.NodeName || all[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%d pods", len(all))
		}
		return nil
	})
}

// restarts is how often the Deployment has been restarted.
func (e *env) restarts() int64 {
	e.t.Helper()
	d, err := e.s.Kube.AppsV1().Deployments(e.name).Get(e.ctx, "web", metav1.GetOptions{})
	e.must(err)
	return d.Generation - 1
}

// A Deployment of one replica that is opted in has a ready endpoint at every instant, however often its machine is taken away: replaced
// because it has drifted, or ended by hand. Its PodDisruptionBudget allows no eviction, and none is needed.
func TestSurge(t *testing.T) {
	s := shared(t)
	t.Parallel()
	rounds := 4
	if os.Getenv("DOVETAIL_SOAK") != "" {
		rounds = 20
	}
	e := newEnv(t, s, "surge")
	e.allowSurge()
	e.single()
	us, err := s.As(sandbox.Dovetail)
	e.must(err)
	refused := func(patch string) error {
		_, err := us.AppsV1().Deployments(e.name).Patch(e.ctx, "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "dovetail may") {
			return fmt.Errorf("the controller may: %v", err)
		}
		return nil
	}
	e.until("the API server knows the policy, which it reads once in a while", func() error { return refused(`{"spec":{"replicas":3}}`) })
	for what, patch := range map[string]string{
		"scale it":                  `{"spec":{"replicas":3}}`,
		"change its image":          `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"other"}]}}}}`,
		"annotate its pods":         `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`,
		"take an annotation off":    `{"spec":{"template":{"metadata":{"annotations":{"dovetail.sh/surge":null}}}}}`,
		"label its pods":            `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		"label it":                  `{"metadata":{"labels":{"a":"b"}}}`,
		"pause it":                  `{"spec":{"paused":true}}`,
		"have it end the old first": `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`,
	} {
		if err := refused(patch); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	end := e.endpoints("web")
	for i := range rounds {
		old := e.claimsAre(1, "Ready", ready)[0]
		if i%2 == 0 {
			e.must(s.Patch(e.ctx, pools+"/"+e.name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"example.com/round":"%d"}}}}}`, i)))
		} else {
			e.must(s.Delete(e.ctx, claims+"/"+old.Name, ""))
		}
		e.elsewhere(fmt.Sprintf("round %d", i+1), old.UID)
	}
	versions, empty := end()
	if versions < 2*rounds {
		t.Errorf("the EndpointSlices had %d versions in %d rounds, that proves nothing", versions, rounds)
	}
	if len(empty) > 0 {
		t.Errorf("%d of %d versions of the EndpointSlices have no ready endpoint:\n%s", len(empty), versions, strings.Join(empty, "\n"))
	}
	if n := len(e.launches(e.name)); n != rounds+1 {
		t.Errorf("%d machines were bought, want %d", n, rounds+1)
	}
	if n := e.restarts(); n != int64(rounds) {
		t.Errorf("the Deployment was restarted %d times, want %d: once a move", n, rounds)
	}
	t.Logf("%d moves, %d versions of the EndpointSlices, all with a ready endpoint", rounds, versions)
}

// The leader is killed at seeded moments of such a move: from when it is begun, while the replacement comes and the old machine is marked
// and tainted, and from when the Deployment has been restarted, while its new pod comes and the old one goes. The move is finished or taken
// back and made anew, with one restart in all, a ready endpoint at every instant, and nothing left over.
func killedSurging(t *testing.T, s *sandbox.Sandbox) {
	for seed := 1; seed <= kills(1); seed++ {
		for kind, within := range map[string]time.Duration{"begun": 3 * time.Second, "restarted": 2 * time.Second} {
			if kind == "begun" && kills(1) == 1 {
				continue // a soak plays both
			}
			t.Run(fmt.Sprintf("%s-%d", kind, seed), func(t *testing.T) {
				e := newEnv(t, s, fmt.Sprintf("surge-%s-%d", kind, seed))
				if _, err := s.Kube.RbacV1().ClusterRoles().Get(e.ctx, "dovetail-surge", metav1.GetOptions{}); apierrors.IsNotFound(err) {
					e.allowSurge()
				}
				e.single()
				old := e.claimsAre(1, "Ready", ready)[0]
				end := e.endpoints("web")
				if seed%2 == 0 {
					e.must(s.Delete(e.ctx, claims+"/"+old.Name, ""))
				} else {
					e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"template":{"metadata":{"annotations":{"example.com/new":"yes"}}}}}`))
				}
				if kind == "restarted" {
					e.until("the Deployment has been restarted", func() error {
						if e.restarts() == 0 {
							return errors.New("it has not")
						}
						return nil
					})
				}
				when := e.killMoving(time.Duration(rand.New(rand.NewPCG(uint64(seed), 3)).Int64N(int64(within))))
				e.elsewhere("killed "+when, old.UID)
				e.settled(5 * time.Second)
				versions, empty := end()
				if versions < 2 {
					t.Errorf("the EndpointSlices had %d versions, that proves nothing", versions)
				}
				if len(empty) > 0 {
					t.Errorf("%d of %d versions of the EndpointSlices have no ready endpoint:\n%s", len(empty), versions, strings.Join(empty, "\n"))
				}
				if n := e.restarts(); n != 1 {
					t.Errorf("the Deployment was restarted %d times, want once", n)
				}
				count, _ := e.matched()
				t.Logf("killed %s: %d machine in the end, %d bought in all, %d versions of the EndpointSlices", when, count, len(e.launches(e.name)), versions)
				e.nothingLeft()
			})
		}
	}
}

// What is opted in and can't have two pods at a time goes by eviction, and the ledger says why.
func TestNoSurge(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "nosurge")
	e.nodePool(map[string]any{"metadata.annotations": map[string]string{"dovetail.sh/surge": "true"}, "spec.template.spec.requirements": only("m5.large")})
	replicas := int32(1)
	p := e.pod("500m", "1Gi")
	p.Labels["app"] = "db"
	_, err := s.Kube.AppsV1().StatefulSets(e.name).Create(e.ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: p}}, metav1.CreateOptions{})
	e.must(err)
	e.podsRun(1)
	old := e.claimsAre(1, "Ready", ready)[0]
	e.must(s.Delete(e.ctx, claims+"/"+old.Name, ""))
	e.until("the ledger says why it was evicted", func() error {
		var entries []ledger.Entry
		if err := e.get("ledger", &entries); err != nil {
			return err
		}
		if !slices.ContainsFunc(entries, func(x ledger.Entry) bool {
			return x.Subject == "pod/"+e.name+"/db-0" && slices.ContainsFunc(x.Why, func(r plan.Reason) bool {
				return r.Code == plan.NoSurge && plan.DetailOf[plan.OfNoSurge](r).Kind == "StatefulSet"
			})
		}) {
			return fmt.Errorf("none of %d entries does", len(entries))
		}
		return nil
	})
	e.until("it runs elsewhere", func() error {
		list := e.claims()
		if len(list) != 1 || list[0].UID == old.UID {
			return fmt.Errorf("%d claims", len(list))
		}
		return nil
	})
	e.podsRun(1)
}
