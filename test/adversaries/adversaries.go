// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// adversaries are all of them.
var adversaries = []adversary{
	{"taint-kept", "nodes join with a taint that the NodePool doesn't declare; it stays", taintKept},
	{"taint-40s", "nodes join with a taint that the NodePool doesn't declare; an agent removes it after 40 seconds", taintRemoved},
	{"label-overwriter", "an agent overwrites a label that the NodePool sets on its nodes", overwriteLabel},
	{"never-joins", "instances of the NodePool never join", neverJoin},
	{"node-deleter", "every Node object is deleted as soon as it is seen", deleteNodes},
	{"claim-deleter", "every NodeClaim is deleted as soon as it is seen", deleteClaims},
	{"claims-refused", "an admission policy refuses NodeClaims of the NodePool that is taken first; another has room", refuseClaims},
	{"evictions-refused", "an admission policy refuses evictions, on nodes that drift every two minutes", refuseEvictions},
	{"bindings-refused", "an admission policy refuses bindings of the pods", refuseBindings},
	{"node-patches-refused", "an admission policy refuses updates of nodes, so that none can be registered", refuseNodeUpdates},
	{"expires-early", "expireAfter is shorter than the boot time", expireEarly},
	{"pool-remade", "the NodePool is deleted and made again, in turns with --cascade=orphan", remakePool},
	{"long-name", "the NodePool that is taken first has a name of 70 characters, which is no label value; another has room", longName},
	{"no-storage", "the driver of the pods' volumes reports no capacity", noStorage},
	{"pod-finalizer", "pods have a finalizer that stays, and are deleted again and again", podFinalizer},
	{"daemon-pdb", "a PodDisruptionBudget allows no disruption of a DaemonSet's pods, on nodes that become empty", daemonPDB},
	{"node-finalizer", "somebody else's finalizers are added to nodes, which then become empty", nodeFinalizer},
	{"limits-writer", "a rival writer sets the NodePool's limits to nothing and back", writeLimits},
	{"pod-churn", "pods are created and deleted in a loop", churnPods},
	{"impossible-pods", "pods that no node can hold are created again and again", impossiblePods},
	{"large-daemon", "a DaemonSet leaves no room for the pods on any node of the NodePool", largeDaemon},
	{"cordoner", "every node is cordoned as soon as it is seen", cordonNodes},
	{"template-flapper", "two writers disagree about a label of the NodePool's template", flapTemplate},
	{"do-not-disrupt", "the annotation karpenter.sh/do-not-disrupt is set on pods and removed again, on nodes that can be consolidated", toggleDoNotDisrupt},
	{"min-values", "the NodePool's minValues can't be met", minValues},
}

func taintKept(ctx context.Context, f *field) error {
	seen := map[types.UID]bool{}
	f.onNodes(ctx, func(n *corev1.Node) error {
		if isTainted(n) && !seen[n.UID] {
			seen[n.UID] = true
			f.acts.Add(1)
		}
		return nil
	})
	return errors.Join(f.taintJoining(ctx), f.usual(ctx))
}

func isTainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == agentTaint })
}

func taintRemoved(ctx context.Context, f *field) error {
	seen := map[types.UID]time.Time{}
	f.onNodes(ctx, func(n *corev1.Node) error {
		if _, ok := seen[n.UID]; !ok {
			seen[n.UID] = time.Now()
		}
		if !isTainted(n) || time.Since(seen[n.UID]) < 40*time.Second {
			return nil
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == agentTaint })
		_, err := f.s.Kube.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return f.did(err)
	})
	return errors.Join(f.taintJoining(ctx), f.usual(ctx))
}

func overwriteLabel(ctx context.Context, f *field) error {
	f.onNodes(ctx, func(n *corev1.Node) error {
		if n.Labels["team"] == "moved" {
			return nil
		}
		return f.did(f.s.Patch(ctx, nodes+"/"+n.Name, `{"metadata":{"labels":{"team":"moved"}}}`))
	})
	f.breathe(ctx, 40*time.Second, 1, 4)
	return errors.Join(f.createPools(ctx, pool{labels: ", team: own"}), f.work(ctx, 1, "500m"))
}

func neverJoin(ctx context.Context, f *field) error {
	f.acts.Add(1)
	return errors.Join(f.create(ctx, classes, "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: never-joins}, spec: {nodeRegistrationDelay: 24h}}"),
		f.createPools(ctx, pool{class: "never-joins"}), f.work(ctx, 1, "500m"))
}

func deleteNodes(ctx context.Context, f *field) error {
	f.onNodes(ctx, func(n *corev1.Node) error {
		if n.DeletionTimestamp != nil {
			return nil
		}
		return f.did(f.s.Delete(ctx, nodes+"/"+n.Name, ""))
	})
	return f.usual(ctx)
}

func deleteClaims(ctx context.Context, f *field) error {
	f.every(ctx, 500*time.Millisecond, func() error {
		all, err := sandbox.Get[metav1.PartialObjectMetadataList](ctx, f.s, claims, "labelSelector", marker+"="+f.name)
		if err != nil {
			return err
		}
		for _, c := range all.Items {
			if c.DeletionTimestamp == nil {
				err = errors.Join(err, f.did(f.s.Delete(ctx, claims+"/"+c.Name, "")))
			}
		}
		return err
	})
	return f.usual(ctx)
}

func refuseClaims(ctx context.Context, f *field) error {
	return errors.Join(f.refuse(ctx, `{apiGroups: [karpenter.sh], apiVersions: ["*"], resources: [nodeclaims], operations: [CREATE]}`,
		"object.metadata.?labels[?'karpenter.sh/nodepool'].orValue('') != '"+f.name+"'"),
		f.createPools(ctx, pool{weight: 50}, pool{name: f.name + "-other"}), f.work(ctx, 1, "500m"))
}

func refuseEvictions(ctx context.Context, f *field) error {
	f.flap(ctx, 2*time.Minute, func(err error) error { return err }) // what counts is what the policy has refused
	return errors.Join(f.refuse(ctx, `{apiGroups: [""], apiVersions: ["*"], resources: [pods/eviction], operations: [CREATE]}`, "request.namespace != '"+f.name+"'"),
		f.createPools(ctx, pool{}), f.work(ctx, 3, "700m"))
}

func refuseBindings(ctx context.Context, f *field) error {
	return errors.Join(f.refuse(ctx, `{apiGroups: [""], apiVersions: ["*"], resources: [pods/binding, bindings], operations: [CREATE]}`, "request.namespace != '"+f.name+"'"),
		f.usual(ctx))
}

func refuseNodeUpdates(ctx context.Context, f *field) error {
	return errors.Join(f.refuse(ctx, `{apiGroups: [""], apiVersions: ["*"], resources: [nodes], operations: [UPDATE]}`, "object.metadata.?labels[?'"+marker+"'].orValue('') != '"+f.name+"'"),
		f.usual(ctx))
}

func expireEarly(ctx context.Context, f *field) error {
	f.acts.Add(1)
	return errors.Join(f.createPools(ctx, pool{expireAfter: "3s"}), f.work(ctx, 1, "500m"))
}

func remakePool(ctx context.Context, f *field) error {
	times := 0
	f.every(ctx, 20*time.Second, func() error {
		times++
		policy := metav1.DeletePropagationBackground
		if times%2 == 0 {
			policy = metav1.DeletePropagationOrphan
		}
		return f.did(f.s.Kube.CoreV1().RESTClient().Delete().AbsPath(pools + "/" + f.name).Body(&metav1.DeleteOptions{PropagationPolicy: &policy}).Do(ctx).Error())
	})
	f.every(ctx, time.Second, func() error { return f.createPools(ctx, pool{}) })
	return f.usual(ctx)
}

func longName(ctx context.Context, f *field) error {
	f.acts.Add(1)
	return errors.Join(f.createPools(ctx, pool{name: strings.Repeat("long-", 13) + "name1", weight: 50}, pool{}), f.work(ctx, 1, "500m"))
}

func noStorage(ctx context.Context, f *field) error {
	f.acts.Add(1)
	return errors.Join(f.create(ctx,
		"/apis/storage.k8s.io/v1/csidrivers", "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: no-storage.example.com}, spec: {storageCapacity: true}}",
		"/apis/storage.k8s.io/v1/storageclasses", "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: no-storage}, provisioner: no-storage.example.com, volumeBindingMode: WaitForFirstConsumer}"),
		f.createPools(ctx, pool{}),
		f.work(ctx, 1, "500m", func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}),
		f.create(ctx, "/api/v1/namespaces/"+f.name+"/persistentvolumeclaims", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data},
			spec: {storageClassName: no-storage, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`))
}

func podFinalizer(ctx context.Context, f *field) error {
	f.every(ctx, 15*time.Second, func() error {
		return f.did(f.s.Delete(ctx, "/api/v1/namespaces/"+f.name+"/pods", "app=work"))
	})
	return errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 1, "500m", func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{"example.com/hold"} }))
}

// daemon creates a DaemonSet on the adversary's nodes.
func (f *field) daemon(ctx context.Context, cpu string) error {
	labels := map[string]string{"app": "daemon"}
	grace := int64(2)
	_, err := f.s.Kube.AppsV1().DaemonSets(f.name).Create(ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{marker: f.name}, TerminationGracePeriodSeconds: &grace,
				Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}}}, metav1.CreateOptions{})
	return err
}

func daemonPDB(ctx context.Context, f *field) error {
	f.acts.Add(1)
	f.breathe(ctx, 40*time.Second, 1, 0)
	return errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 1, "500m"), f.daemon(ctx, "100m"),
		f.create(ctx, "/apis/policy/v1/namespaces/"+f.name+"/poddisruptionbudgets", `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: daemon},
			spec: {maxUnavailable: 0, selector: {matchLabels: {app: daemon}}}}`))
}

func nodeFinalizer(ctx context.Context, f *field) error {
	const hold = "example.com/hold"
	f.onNodes(ctx, func(n *corev1.Node) error {
		if slices.Contains(n.Finalizers, hold) || n.DeletionTimestamp != nil {
			return nil
		}
		n.Finalizers = append(n.Finalizers, hold)
		_, err := f.s.Kube.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return f.did(err)
	})
	f.breathe(ctx, 40*time.Second, 1, 0)
	return f.usual(ctx)
}

func writeLimits(ctx context.Context, f *field) error {
	some := false
	f.every(ctx, 2*time.Second, func() error {
		limit := "0"
		if some = !some; some {
			limit = "1000"
		}
		return f.did(f.s.Patch(ctx, pools+"/"+f.name, fmt.Sprintf(`{"spec":{"limits":{"cpu":%q}}}`, limit)))
	})
	f.breathe(ctx, 30*time.Second, 1, 4)
	return errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 1, "700m"))
}

// barePod returns a pod without an owner.
func (f *field) barePod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.name, Labels: map[string]string{"app": "work"}},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{marker: f.name}, Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}
}

// replacePods creates a pod again and again and deletes the one before at once.
func (f *field) replacePods(ctx context.Context, interval time.Duration, cpu string) {
	n := 0
	now := int64(0)
	f.every(ctx, interval, func() error {
		before := fmt.Sprintf("work-%d", n)
		n++
		if _, err := f.s.Kube.CoreV1().Pods(f.name).Create(ctx, f.barePod(fmt.Sprintf("work-%d", n), cpu), metav1.CreateOptions{}); f.did(err) != nil {
			return err
		}
		return f.s.Kube.CoreV1().Pods(f.name).Delete(ctx, before, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
}

func churnPods(ctx context.Context, f *field) error {
	err := errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 0, "500m"))
	f.replacePods(ctx, 400*time.Millisecond, "500m")
	return err
}

func impossiblePods(ctx context.Context, f *field) error {
	err := errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 0, "500m"))
	f.replacePods(ctx, 2*time.Second, "1000")
	return err
}

func largeDaemon(ctx context.Context, f *field) error {
	f.acts.Add(1)
	return errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 1, "900m"), f.daemon(ctx, "1500m"))
}

func cordonNodes(ctx context.Context, f *field) error {
	f.onNodes(ctx, func(n *corev1.Node) error {
		if n.Spec.Unschedulable {
			return nil
		}
		return f.did(f.s.Patch(ctx, nodes+"/"+n.Name, `{"spec":{"unschedulable":true}}`))
	})
	return f.usual(ctx)
}

// flap sets a label of the NodePool's template to one value and to another in turns.
func (f *field) flap(ctx context.Context, interval time.Duration, did func(error) error) {
	n := 0
	f.every(ctx, interval, func() error {
		n++
		return did(f.s.Patch(ctx, pools+"/"+f.name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"release":"r%d"}}}}}`, n%2)))
	})
}

func flapTemplate(ctx context.Context, f *field) error {
	f.flap(ctx, 15*time.Second, f.did)
	return f.usual(ctx)
}

func toggleDoNotDisrupt(ctx context.Context, f *field) error {
	set := false
	f.every(ctx, 3*time.Second, func() error {
		all, err := f.s.Kube.CoreV1().Pods(f.name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		value := "null"
		if set = !set; set {
			value = `"true"`
		}
		for _, p := range all.Items {
			err = errors.Join(err, f.did(f.s.Patch(ctx, "/api/v1/namespaces/"+f.name+"/pods/"+p.Name, fmt.Sprintf(`{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":%s}}}`, value))))
		}
		return err
	})
	f.breathe(ctx, 40*time.Second, 2, 6)
	return errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 2, "700m"))
}

func minValues(ctx context.Context, f *field) error {
	f.acts.Add(1)
	return errors.Join(f.createPools(ctx, pool{requirements: ", {key: karpenter.kwok.sh/instance-family, operator: Exists, minValues: 5}"}), f.work(ctx, 1, "500m"))
}
