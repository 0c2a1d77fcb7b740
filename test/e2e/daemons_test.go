// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// daemonSet makes a DaemonSet of an app.
func (e *env) daemonSet(app string, template corev1.PodTemplateSpec, change ...func(*corev1.PodTemplateSpec)) {
	e.t.Helper()
	template.Labels = map[string]string{"app": app}
	for _, f := range change {
		f(&template)
	}
	_, err := e.s.Kube.AppsV1().DaemonSets(e.name).Create(e.ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template}}, metav1.CreateOptions{})
	e.must(err)
}

// daemonsRun waits until every node of this test, of which there are at least so many, has a running pod of each DaemonSet, all pods run,
// so many of the Deployment's among them, and no node is reserved or cordoned.
func (e *env) daemonsRun(nodes int, deployment string, replicas int, apps ...string) {
	e.t.Helper()
	e.until("every node has its pods of DaemonSets, and every pod runs", func() error {
		on, pods, have := map[string][]string{}, e.pods(), 0
		for i := range pods {
			p := &pods[i]
			if p.Labels["app"] == deployment {
				have++
			}
			if p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s on %q is %s: %s", p.Name, p.Spec.NodeName, p.Status.Phase, podMessage(p))
			}
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p.Labels["app"])
		}
		all := e.nodes()
		if len(all) < nodes || have != replicas {
			return fmt.Errorf("%d nodes, %d pods of %s", len(all), have, deployment)
		}
		for i := range all {
			n := &all[i]
			for _, app := range apps {
				if !slices.Contains(on[n.Name], app) {
					return fmt.Errorf("node %s has no pod of DaemonSet %s: %v, taints %v, unschedulable %t", n.Name, app, on[n.Name], n.Spec.Taints, n.Spec.Unschedulable)
				}
			}
			if n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == model.TaintReserved || t.Key == corev1.TaintNodeUnschedulable
			}) {
				return fmt.Errorf("node %s is kept: taints %v, unschedulable %t", n.Name, n.Spec.Taints, n.Spec.Unschedulable)
			}
		}
		return nil
	})
}

// A Deployment grows while new nodes wait for pods of DaemonSets, one of which tolerates the reservation of a node and one of which does
// not: the room for them is kept, whoever else is pending.
func TestDaemonsKeepTheirRoom(t *testing.T) {
	e := newEnv(t, own(t, "--catalog", tightCatalog(t)), "daemons")
	e.daemonSet("agent", e.pod("1", "64Mi"))
	e.daemonSet("proxy", e.pod("500m", "64Mi"), func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	})
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("exact-16")})
	e.deploy("web", 40, e.pod("1450m", "128Mi")) // ten on a node beside the DaemonSets' pods
	for _, n := range []int{52, 63, 74, 85} {
		e.pause(2 * time.Second) // it grows so, whatever has been decided meanwhile
		e.scale("web", n)
	}
	e.daemonsRun(9, "web", 85, "agent", "proxy")
	if got := len(e.launches(e.name)); got > 10 {
		t.Errorf("%d nodes were launched for 85 pods, ten of which fit on one", got)
	}
}

// Pods that only kube-scheduler can place, and that want to be near a DaemonSet's pod, wait for it on a node that is bought for them.
func TestNearDaemon(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "near")
	e.daemonSet("agent", e.pod("100m", "64Mi"))
	term := []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}}}
	e.nodePool(nil)
	e.deploy("near", 3, e.pod("700m", "128Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
	}))
	e.until("the pods run beside the DaemonSet's", func() error {
		running, pods := 0, e.pods()
		for i := range pods {
			if pods[i].Labels["app"] == "near" && pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != 3 {
			return fmt.Errorf("%d of 3 run", running)
		}
		return nil
	})
	launched := len(e.launches(e.name))
	e.deploy("apart", 1, e.pod("700m", "128Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}}
	}))
	e.until("the pod that wants to be away from the DaemonSet's is refused for that", func() error {
		for _, p := range e.pods() {
			if p.Labels["app"] == "apart" {
				return e.because("pod/"+e.name+"/"+p.Name, plan.PodAntiAffinity)
			}
		}
		return fmt.Errorf("the pod is not there")
	})
	if got := len(e.launches(e.name)); got != launched {
		t.Errorf("%d nodes were launched for a pod that can't be on any", got-launched)
	}
}

// A DaemonSet's pods ask for more than its template: a RuntimeClass adds to them. Nodes are launched for what they ask for.
func TestDaemonLargerThanTemplate(t *testing.T) {
	e := newEnv(t, own(t, "--catalog", tightCatalog(t)), "overhead")
	_, err := e.s.Kube.NodeV1().RuntimeClasses().Create(e.ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "heavy",
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}, metav1.CreateOptions{})
	e.must(err)
	heavy := "heavy"
	e.daemonSet("agent", e.pod("1", "64Mi"), func(p *corev1.PodTemplateSpec) { p.Spec.RuntimeClassName = &heavy })
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("exact-16")})
	e.deploy("web", 26, e.pod("1", "128Mi")) // thirteen on a node beside a pod of three CPUs
	e.daemonsRun(2, "web", 26, "agent")
	if got := len(e.launches(e.name)); got != 2 {
		t.Errorf("%d nodes were launched, want two", got)
	}
}
