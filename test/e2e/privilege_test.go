// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// The controller's identity can do what the chart gives it and no more.
func TestLeastPrivilege(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "rights")
	us, err := s.As(sandbox.Dovetail)
	e.must(err)
	raw := func(method, path, body string) error {
		kind := "application/json"
		if method == "PATCH" {
			kind = "application/merge-patch+json"
		}
		return us.CoreV1().RESTClient().Verb(method).AbsPath(path).SetHeader("Content-Type", kind).Body([]byte(body)).Do(e.ctx).Error()
	}
	for what, err := range map[string]error{
		"create a node":             raw("POST", "/api/v1/nodes", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"forged"}}`),
		"create a pod":              raw("POST", "/api/v1/namespaces/"+e.name+"/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"forged"}}`),
		"read secrets":              raw("GET", "/api/v1/secrets", ""),
		"delete all nodepools":      raw("DELETE", pools, ""), // one it may: see ownObjects
		"delete a provisioner":      raw("DELETE", provisioners+"/"+e.name, ""),
		"update a node's status":    raw("PUT", "/api/v1/nodes/forged/status", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"forged"}}`),
		"bind a pod by the old way": raw("POST", "/api/v1/namespaces/"+e.name+"/bindings", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"forged"},"target":{"kind":"Node","name":"n"}}`),
		"take another's lease":      raw("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", ""),
		"give itself rights":        raw("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/dovetail", "{}"),
		"change the pod policy":     raw("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/dovetail-pod-updates", ""),
		"change the bind policy":    raw("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/dovetail-bindings", ""),
		"change the node class":     raw("DELETE", classes+"/default", ""),
		"create a nodepool's scale": raw("PUT", pools+"/"+e.name+"/scale", "{}"),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}

	e.ownObjects(raw)
	e.bindings(us)

	pod := e.pod("100m", "64Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "example.com/own", Operator: corev1.TolerationOpExists}}
	})
	made, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: map[string]string{"a": "b"}}, Spec: pod.Spec}, metav1.CreateOptions{})
	e.must(err)
	patch := func(text string) error {
		_, err := us.CoreV1().Pods(e.name).Patch(e.ctx, "pod", types.JSONPatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	test := fmt.Sprintf(`{"op":"test","path":"/metadata/uid","value":%q}`, made.UID)
	for what, p := range map[string]string{
		"a label":                   `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
		"an annotation":             `[{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}]`,
		"an image":                  `[{"op":"replace","path":"/spec/containers/0/image","value":"other"}]`,
		"a finalizer":               `[{"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]`,
		"another toleration":        `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"example.com/x","operator":"Exists","effect":"NoSchedule"}}]`,
		"a toleration of all":       `[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`,
		"NoExecute":                 `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Equal","value":"c","effect":"NoExecute"}}]`,
		"its deadline":              `[{"op":"add","path":"/spec/activeDeadlineSeconds","value":5}]`,
		"its reservation and label": `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Equal","value":"c","effect":"NoSchedule"}},{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
	} {
		if err := patch(p); err == nil || !strings.Contains(err.Error(), "dovetail-pod-updates") {
			t.Errorf("it may change %s of a pod, or the policy does not say why not: %v", what, err)
		}
	}
	e.must(patch(`[` + test + `,{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Equal","value":"claim","effect":"NoSchedule"}}]`))
	now, err := s.Kube.CoreV1().Pods(e.name).Get(e.ctx, "pod", metav1.GetOptions{})
	e.must(err)
	if r := reservations(now); len(r) != 1 || r[0] != "claim" {
		t.Errorf("the reservation's toleration was taken, but the pod has %q", r)
	}
	// The policy is about this identity alone.
	e.must(s.Patch(e.ctx, "/api/v1/namespaces/"+e.name+"/pods/pod", `{"metadata":{"labels":{"x":"y"}}}`))
}

// Whoever may make pods can't take capacity that is reserved for others' pods: nobody but the controller adds the toleration of a reservation, and
// in a namespace that is labelled so nobody tolerates every taint, but for what runs on every node. A pod that has such a toleration keeps it.
func TestReservedTolerations(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "tolerations")
	restricted := newEnv(t, s, "restricted")
	e.must(s.Patch(e.ctx, "/api/v1/namespaces/"+restricted.name, `{"metadata":{"labels":{"dovetail.sh/tolerations":"restricted"}}}`))
	config, err := s.Config(sandbox.Admin)
	e.must(err)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:daemon-set-controller", Groups: []string{"system:masters"}}
	daemons, err := kubernetes.NewForConfig(config)
	e.must(err)
	create := func(client kubernetes.Interface, namespace string, tolerations ...corev1.Toleration) error {
		spec := e.pod("100m", "64Mi", func(p *corev1.PodTemplateSpec) { p.Spec.SchedulerName, p.Spec.Tolerations = "nobody", tolerations }).Spec
		_, err := client.CoreV1().Pods(namespace).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"}, Spec: spec}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const reserved, limited = "dovetail-reserved-tolerations", "dovetail-restricted-tolerations"
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for _, x := range []struct {
		what, namespace string
		client          kubernetes.Interface
		toleration      corev1.Toleration
		policy          string // that refuses it; empty: it is made
	}{
		{"another claim", e.name, s.Kube, corev1.Toleration{Key: reservedTaint, Operator: corev1.TolerationOpEqual, Value: "default-abc", Effect: corev1.TaintEffectNoSchedule}, reserved},
		{"any claim", e.name, s.Kube, corev1.Toleration{Key: reservedTaint, Operator: corev1.TolerationOpExists}, reserved},
		{"any claim, for a DaemonSet", e.name, daemons, corev1.Toleration{Key: reservedTaint, Operator: corev1.TolerationOpExists}, reserved},
		{"a taint of its own", e.name, s.Kube, corev1.Toleration{Key: "example.com/x", Operator: corev1.TolerationOpExists}, ""},
		{"everything, where that is allowed", e.name, s.Kube, everything, ""},
		{"everything", restricted.name, s.Kube, everything, limited},
		{"every NoSchedule taint", restricted.name, s.Kube, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}, limited},
		{"cordons", restricted.name, s.Kube, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}, limited},
		{"cordons, where that is allowed", e.name, s.Kube, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}, ""},
		{"every NoExecute taint", restricted.name, s.Kube, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, ""},
		{"everything, for a DaemonSet", restricted.name, daemons, everything, ""},
		{"a taint of its own in a restricted namespace", restricted.name, s.Kube, corev1.Toleration{Key: "example.com/x", Operator: corev1.TolerationOpExists}, ""},
	} {
		err := create(x.client, x.namespace, x.toleration)
		if x.policy == "" && err != nil || x.policy != "" && (err == nil || !strings.Contains(err.Error(), x.policy)) {
			t.Errorf("a pod that tolerates %s: %v, want %q to refuse it", x.what, err, x.policy)
		}
	}

	// What the controller has given to a pod stays, whoever changes the pod; nobody else adds one.
	spec := e.pod("100m", "64Mi", func(p *corev1.PodTemplateSpec) { p.Spec.SchedulerName = "nobody" }).Spec
	_, err = s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: spec}, metav1.CreateOptions{})
	e.must(err)
	us, err := s.As(sandbox.Dovetail)
	e.must(err)
	add := func(client kubernetes.Interface, claim string) error {
		_, err := client.CoreV1().Pods(e.name).Patch(e.ctx, "pod", types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/tolerations/-","value":{"key":"`+reservedTaint+
			`","operator":"Equal","value":"`+claim+`","effect":"NoSchedule"}}]`), metav1.PatchOptions{})
		return err
	}
	e.must(add(us, "ours"))
	e.must(s.Patch(e.ctx, "/api/v1/namespaces/"+e.name+"/pods/pod", `{"metadata":{"labels":{"x":"y"}}}`))
	if err := add(s.Kube, "theirs"); err == nil || !strings.Contains(err.Error(), reserved) {
		t.Errorf("somebody adds the toleration of another claim: %v", err)
	}
}

// bindings: it binds a pod by its uid to a node, and changes nothing else of it by the way. Nothing is bound here: these are dry runs.
func (e *env) bindings(us *kubernetes.Clientset) {
	e.t.Helper()
	template := e.pod("100m", "64Mi", func(p *corev1.PodTemplateSpec) { p.Spec.SchedulerName = "nobody" })
	pod, err := e.s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "unbound"}, Spec: template.Spec}, metav1.CreateOptions{})
	e.must(err)
	bind := func(change func(*corev1.Binding)) error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: e.name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: e.name}}
		change(b)
		return us.CoreV1().Pods(e.name).Bind(e.ctx, b, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	e.must(bind(func(*corev1.Binding) {}))
	e.must(bind(func(b *corev1.Binding) { b.Target.Kind = "" }))
	for what, change := range map[string]func(*corev1.Binding){
		"without its uid":    func(b *corev1.Binding) { b.UID = "" },
		"with a label":       func(b *corev1.Binding) { b.Labels = map[string]string{"x": "y"} },
		"with an annotation": func(b *corev1.Binding) { b.Annotations = map[string]string{"x": "y"} },
	} {
		if err := bind(change); err == nil || !strings.Contains(err.Error(), "dovetail-bindings") {
			e.t.Errorf("it may bind a pod %s, or the policy does not say why not: %v", what, err)
		}
	}
	for what, change := range map[string]func(*corev1.Binding){
		"to another kind": func(b *corev1.Binding) { b.Target.Kind = "Pod" },
		"to no node":      func(b *corev1.Binding) { b.Target.Name = "" },
		"by another uid":  func(b *corev1.Binding) { b.UID = "another" },
	} {
		if bind(change) == nil {
			e.t.Errorf("it may bind a pod %s", what)
		}
	}
}

// ownObjects: of NodePools and the classes that it may write it changes and deletes those that it has made, and no others.
func (e *env) ownObjects(raw func(method, path, body string) error) {
	e.t.Helper()
	const policy, discovered = "dovetail-own-objects", `"labels":{"dovetail.sh/discovered":"true"}`
	classes := "/apis/dovetail.sh/v1alpha1/nodegroupclasses"
	pool := func(meta string) string {
		return `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{` + meta + `},"spec":{"template":{"spec":{"requirements":[],
			"nodeClassRef":{"group":"dovetail.sh","kind":"NodeGroupClass","name":"` + e.name + `"}}}}}`
	}
	class := func(meta string) string {
		return `{"apiVersion":"dovetail.sh/v1alpha1","kind":"NodeGroupClass","metadata":{` + meta + `},"spec":{"selectorTerms":[{"name":"g"}]}}`
	}
	theirs, ours := e.name+"-theirs", e.name+"-ours"
	provisioner := `"ownerReferences":[{"apiVersion":"karpenter.sh/v1alpha5","kind":"Provisioner","name":"p","uid":"1-2-3","controller":true}]`
	e.must(e.s.Create(e.ctx, pools, pool(`"name":"`+theirs+`","labels":{"a":"b"},"annotations":{"c":"d"}`)))
	e.must(e.s.Create(e.ctx, classes, class(`"name":"`+theirs+`"`)))
	e.t.Cleanup(func() {
		for _, path := range []string{pools, classes} {
			if err := e.s.Delete(context.Background(), path+"/"+theirs, ""); err != nil {
				e.t.Error(err)
			}
		}
	})
	for _, x := range []struct{ what, method, path, body string }{
		{"delete a NodePool", "DELETE", pools + "/" + theirs, ""},
		{"delete a NodeGroupClass", "DELETE", classes + "/" + theirs, ""},
		{"create a NodePool that is nobody's", "POST", pools, pool(`"name":"` + ours + `"`)},
		{"create a NodeGroupClass that is nobody's", "POST", classes, class(`"name":"` + ours + `"`)},
		{"change a NodePool's spec", "PATCH", pools + "/" + theirs, `{"spec":{"limits":{"cpu":"1"}}}`},
		{"change a NodePool's label", "PATCH", pools + "/" + theirs, `{"metadata":{"labels":{"a":"c"}}}`},
		{"call a NodePool its own", "PATCH", pools + "/" + theirs, `{"metadata":{` + discovered + `}}`},
		{"call a NodePool a Provisioner's", "PATCH", pools + "/" + theirs, `{"metadata":{` + provisioner + `}}`},
		{"add an annotation to a NodePool", "PATCH", pools + "/" + theirs, `{"metadata":{"annotations":{"x":"y"}}}`},
		{"change an annotation of a NodePool", "PATCH", pools + "/" + theirs, `{"metadata":{"annotations":{"c":"e"}}}`},
		{"take an annotation from a NodePool", "PATCH", pools + "/" + theirs, `{"metadata":{"annotations":{"c":null}}}`},
	} {
		if err := raw(x.method, x.path, x.body); err == nil || !strings.Contains(err.Error(), policy) {
			e.t.Errorf("it may %s, or the policy does not say why not: %v", x.what, err)
		}
	}
	buffers := "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/" + e.name + "/capacitybuffers"
	buffer := func(name, meta string) string {
		return `{"apiVersion":"autoscaling.x-k8s.io/v1beta1","kind":"CapacityBuffer","metadata":{"name":"` + name + `"` + meta + `},"spec":{"podTemplateRef":{"name":"p"},"replicas":1}}`
	}
	headroom := `,"ownerReferences":[{"apiVersion":"dovetail.sh/v1alpha1","kind":"Headroom","name":"h","uid":"1-2-3","controller":true}]`
	e.must(e.s.Create(e.ctx, buffers, buffer("theirs", "")))
	for _, x := range []struct{ what, method, path, body string }{
		{"delete a CapacityBuffer", "DELETE", buffers + "/theirs", ""},
		{"create a CapacityBuffer that is nobody's", "POST", buffers, buffer("ours", "")},
		{"change a CapacityBuffer's replicas", "PATCH", buffers + "/theirs", `{"spec":{"replicas":2}}`},
	} {
		if err := raw(x.method, x.path, x.body); err == nil || !strings.Contains(err.Error(), policy) {
			e.t.Errorf("it may %s, or the policy does not say why not: %v", x.what, err)
		}
	}
	// Its owner is not there, so the garbage collector deletes it: the finalizer keeps it until all was tried.
	e.must(raw("POST", buffers, buffer("ours", headroom+`,"finalizers":["example.com/kept"]`)))
	e.must(raw("PATCH", buffers+"/ours", `{"spec":{"replicas":2}}`))
	e.must(raw("DELETE", buffers+"/ours", ""))
	e.must(e.s.Patch(e.ctx, buffers+"/ours", `{"metadata":{"finalizers":null}}`))
	// What it has to do it may.
	e.must(raw("PATCH", pools+"/"+theirs, `{"metadata":{"annotations":{"karpenter.sh/nodepool-hash":"1","karpenter.sh/nodepool-hash-version":"v3"}}}`))
	e.must(raw("POST", classes, class(`"name":"`+ours+`",`+discovered)))
	e.must(raw("POST", pools, pool(`"name":"`+ours+`",`+discovered)))
	e.must(raw("PATCH", pools+"/"+ours, `{"spec":{"limits":{"cpu":"1"}},"metadata":{"annotations":{"x":"y"}}}`))
	e.must(raw("DELETE", pools+"/"+ours, ""))
	e.must(raw("DELETE", classes+"/"+ours, ""))
}
