// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const bufferTemplate = `
metadata: {labels: {app: web}}
spec:
  priorityClassName: high
  schedulingGates: [{name: wait}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: tmp, emptyDir: {}}]
  containers:
    - name: web
      resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 2Gi}}
`

// decode reads YAML, or fails the test.
func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	x := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), x); err != nil {
		t.Fatal(err)
	}
	return x
}

func bufferOf(t *testing.T, name, spec string) *bufferv1beta1.CapacityBuffer {
	t.Helper()
	b := &bufferv1beta1.CapacityBuffer{Spec: *decode[bufferv1beta1.CapacityBufferSpec](t, spec)}
	b.Namespace, b.Name, b.UID = "shop", name, "uid"
	return b
}

// TestBufferReplicas: for how many pods a buffer wants capacity, as Karpenter and Cluster Autoscaler have it.
func TestBufferReplicas(t *testing.T) {
	shape := PodShape{Template: decode[corev1.PodTemplateSpec](t, bufferTemplate), Replicas: 11}
	for spec, want := range map[string]int{
		`{podTemplateRef: {name: p}, replicas: 3}`:                                                    3,
		`{podTemplateRef: {name: p}, replicas: 0}`:                                                    0,
		`{podTemplateRef: {name: p}, replicas: -1}`:                                                   0,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: -20}`:                 0,
		`{podTemplateRef: {name: p}, limits: {cpu: "2"}}`:                                             4,
		`{podTemplateRef: {name: p}, limits: {cpu: "2", memory: 2500Mi}}`:                             2,
		`{podTemplateRef: {name: p}, replicas: 9, limits: {cpu: 1200m}}`:                              2,
		`{podTemplateRef: {name: p}, replicas: 9, limits: {nvidia.com/gpu: "1"}}`:                     9,
		`{podTemplateRef: {name: p}, limits: {nvidia.com/gpu: "1"}}`:                                  0,
		`{podTemplateRef: {name: p}, limits: {pods: "7"}}`:                                            7,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: 20}`:                  3,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: 1}`:                   1,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: 300}`:                 33,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: 20, replicas: 2}`:     3,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: 20, replicas: 5}`:     5,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, replicas: 2000000000}`:            mostVirtual,
		`{scalableRef: {apiGroup: apps, kind: Deployment, name: d}, limits: {cpu: 9000000000000000}}`: mostVirtual,
	} {
		b := (&Translator{Table: state.NewResourceTable()}).CapacityBuffer(bufferOf(t, "b", spec), shape)
		if b.Ready.Status != "True" || b.Replicas != want {
			t.Errorf("%s: %d pods, want %d; %+v", spec, b.Replicas, want, b.Ready)
		}
	}
}

// TestVirtualPod: what a virtual pod has of its template, and what not.
func TestVirtualPod(t *testing.T) {
	b := bufferOf(t, "b", `{podTemplateRef: {name: p}, replicas: 1}`)
	b.Annotations = map[string]string{model.AnnotationMaxHour: "0.5", model.AnnotationShareGroup: "night"}
	m := (&Translator{Table: state.NewResourceTable()}).CapacityBuffer(b, PodShape{Template: decode[corev1.PodTemplateSpec](t, bufferTemplate), templateName: "p", generation: 2})
	c := m.Like.Class
	if c.Priority != model.VirtualPriority || len(c.Volumes)+len(c.Unsolved) > 0 || m.Like.Gated || c.Labels["app"] != "web" || c.Requests.At(model.CPU) != 500 {
		t.Errorf("class %+v", c)
	}
	if m.MaxHourMicro != 500_000 || m.Group != "night" || m.TemplateName != "p" || m.TemplateGeneration != 2 || m.Like.Buffer != "shop/b" {
		t.Errorf("buffer %+v", m.Buffer)
	}
}

// TestBufferMistakes: a condition names field, value and remedy, and nothing is held.
func TestBufferMistakes(t *testing.T) {
	template := decode[corev1.PodTemplateSpec](t, bufferTemplate)
	for _, x := range []struct {
		spec, price  string
		shape        PodShape
		reason, says string
	}{
		{`{podTemplateRef: {name: p}, replicas: 1, provisioningStrategy: buffer.x-k8s.io/cold}`, "", PodShape{Template: template}, BufferResolutionFailed, `spec.provisioningStrategy "buffer.x-k8s.io/cold" is not supported; use`},
		{`{podTemplateRef: {name: p}, replicas: 1}`, "cheap", PodShape{Template: template}, BufferResolutionFailed, `max-price-per-hour] "cheap" is not a price; use`},
		{`{podTemplateRef: {name: p}, replicas: 1}`, "", ShapeOfTemplate(bufferOf(t, "b", `{podTemplateRef: {name: p}}`), nil), bufferPodTemplateNotFound, "PodTemplate shop/p not found; create it"},
		{`{scalableRef: {kind: Rollout, name: r}, replicas: 1}`, "", ShapeOfMissing(bufferOf(t, "b", `{scalableRef: {kind: Rollout, name: r}}`)), bufferScalableRefNotFound, "Rollout shop/r not found; create it"},
		{`{replicas: 1}`, "", ShapeWithoutReference(), BufferResolutionFailed, "set one of them"},
	} {
		b := bufferOf(t, "b", x.spec)
		if x.price != "" {
			b.Annotations = map[string]string{model.AnnotationMaxHour: x.price}
		}
		m := (&Translator{Table: state.NewResourceTable()}).CapacityBuffer(b, x.shape)
		if m.Like != nil || m.Ready.Status != "False" || m.Ready.Reason != x.reason || !strings.Contains(m.Ready.Message, x.says) {
			t.Errorf("%s: %+v", x.spec, m.Ready)
		}
	}
}

// TestBufferQuotas: pods that a ResourceQuota would refuse get no capacity; the older buffer comes first.
func TestBufferQuotas(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	shape := PodShape{Template: decode[corev1.PodTemplateSpec](t, bufferTemplate)}
	list := []SizedBuffer{
		tr.CapacityBuffer(bufferOf(t, "b", `{podTemplateRef: {name: p}, replicas: 3}`), shape),
		tr.CapacityBuffer(bufferOf(t, "a", `{podTemplateRef: {name: p}, replicas: 4}`), shape),
	}
	ApplyQuotas(list, []*corev1.ResourceQuota{
		decode[corev1.ResourceQuota](t, `{metadata: {name: cpu}, spec: {hard: {requests.cpu: "4", pods: "50"}}, status: {used: {requests.cpu: "1"}}}`),
		decode[corev1.ResourceQuota](t, `{metadata: {name: scoped}, spec: {scopes: [BestEffort], hard: {pods: "0"}}}`),
	})
	have := map[string]int{}
	for _, b := range list {
		have[b.Name] = b.Replicas
		if want := map[string]string{"a": "False", "b": "True"}[b.Name]; b.Limited.Status != want {
			t.Errorf("%s: %+v, want %s", b.Name, b.Limited, want)
		}
	}
	if have["a"] != 4 || have["b"] != 2 {
		t.Errorf("%v", have)
	}
}

// TestBufferQuotaScopes: a quota with scopes bounds the buffers whose pods it would select, and no others. The template has
// requests, PriorityClass high and neither a deadline nor affinity.
func TestBufferQuotaScopes(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	for quota, selects := range map[string]bool{
		`{scopes: [BestEffort]}`:                 false,
		`{scopes: [NotBestEffort]}`:              true,
		`{scopes: [NotBestEffort, Terminating]}`: false,
		`{scopes: [NotTerminating]}`:             true,
		`{scopes: [PriorityClass]}`:              true,
		`{scopes: [CrossNamespacePodAffinity]}`:  false,
		`{scopes: [VolumeAttributesClass]}`:      false,
		`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low, high]}]}}`:                           true,
		`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}}`:                                 false,
		`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [low]}]}}`:                              true,
		`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}}`:                                      false,
		`{scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}, {scopeName: BestEffort, operator: Exists}]}}`: false,
		`{scopes: [NotTerminating], scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}`:      true,
	} {
		shape := PodShape{Template: decode[corev1.PodTemplateSpec](t, bufferTemplate)}
		list := []SizedBuffer{tr.CapacityBuffer(bufferOf(t, "b", `{podTemplateRef: {name: p}, replicas: 3}`), shape)}
		q := &corev1.ResourceQuota{Spec: *decode[corev1.ResourceQuotaSpec](t, quota)}
		q.Name, q.Spec.Hard = "q", corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
		ApplyQuotas(list, []*corev1.ResourceQuota{q})
		if want := map[bool]int{true: 1, false: 3}[selects]; list[0].Replicas != want {
			t.Errorf("%s: capacity for %d pods, want %d", quota, list[0].Replicas, want)
		}
	}
	shape := PodShape{Template: decode[corev1.PodTemplateSpec](t, `
spec:
  activeDeadlineSeconds: 60
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: t, namespaces: [other]}}]}}
  containers: [{name: c}]`)}
	list := []SizedBuffer{tr.CapacityBuffer(bufferOf(t, "b", `{podTemplateRef: {name: p}, replicas: 3}`), shape)}
	q := decode[corev1.ResourceQuota](t, `{metadata: {name: q}, spec: {scopes: [BestEffort, Terminating, CrossNamespacePodAffinity], hard: {pods: "2"}}}`)
	ApplyQuotas(list, []*corev1.ResourceQuota{q})
	if list[0].Replicas != 2 || list[0].Limited.Status != "True" {
		t.Errorf("capacity for %d pods, want 2; %+v", list[0].Replicas, list[0].Limited)
	}
}
