// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// requestLookup has one ProvisioningRequest, and nothing else.
type requestLookup struct {
	Lookup
	key string
	o   *GangObject
}

func (requestLookup) Volumes() *volume.Index                             { return volume.NewIndex() }
func (requestLookup) LimitRanges(string) []*corev1.LimitRange            { return nil }
func (requestLookup) PriorityClasses() []*schedulingv1.PriorityClass     { return nil }
func (requestLookup) RuntimeClass(string) *nodev1.RuntimeClass           { return nil }
func (requestLookup) Services(string) []*corev1.Service                  { return nil }
func (requestLookup) OwnerSelector(_, _, _ string) *metav1.LabelSelector { return nil }

func (l requestLookup) Gang(k *GangKind, key string) (*GangObject, bool) {
	if k == provisioningRequests && key == l.key {
		return l.o, true
	}
	return nil, k == provisioningRequests
}

const requestText = `
metadata: {namespace: a, name: train, uid: u, creationTimestamp: "2026-01-02T03:04:05Z"}
spec:
  provisioningClassName: CLASS
  parameters: {PARAMETERS}
  podSets:
  - {count: 2, podTemplateRef: {name: small}}
  - {count: 1, podTemplateRef: {name: large}}
status: {conditions: [{type: TYPE, status: "True", reason: R, message: why, lastTransitionTime: "2026-01-02T03:05:05Z"}],
  provisioningClassDetails: {dovetail.sh/retry-at: "2026-01-02T03:06:05Z", dovetail.sh/attempts: "3"}}`

// TestProvisioningRequest translates requests with a part of them changed.
func TestProvisioningRequest(t *testing.T) {
	t.Parallel()
	templates := map[string]*corev1.PodTemplate{}
	for name, cpu := range map[string]string{"small": "1", "large": "4"} {
		pt := &corev1.PodTemplate{}
		if err := yaml.Unmarshal([]byte(`template: {spec: {containers: [{name: c, resources: {requests: {cpu: "`+cpu+`"}}}]}}`), pt); err != nil {
			t.Fatal(err)
		}
		templates[name] = pt
	}
	for _, c := range []struct {
		name, class, parameters, condition string
		without                            string // a PodTemplate that does not exist
		accepted                           string // reason; empty: the request is another autoscaler's
		least                              int    // of its pods' gang
		refuse                             bool   // its pods
		kept                               bool   // they are a gang without a minimum, which is disrupted as one
	}{
		{name: "atomic", class: classAtomicScaleUp, condition: "Accepted", accepted: "Accepted", least: 3},
		{name: "check", class: classCheckCapacity, parameters: `noRetry: "true"`, condition: "Accepted", accepted: "Accepted", least: 3},
		{name: "another class", class: "queued-provisioning.gke.io", condition: "Accepted"},
		{name: "another instance", class: classCheckCapacity, parameters: "processorInstance: x", condition: "Accepted"},
		{name: "no template", class: classAtomicScaleUp, condition: "Accepted", without: "large", accepted: "PodTemplateNotFound", least: 3},
		{name: "bad validity", class: classAtomicScaleUp, parameters: "ValidUntilSeconds: soon", condition: "Accepted", accepted: "InvalidParameter", least: 3},
		{name: "validity", class: classAtomicScaleUp, parameters: `ValidUntilSeconds: "60"`, condition: "Accepted", accepted: "Accepted", least: 3},
		{name: "failed", class: classAtomicScaleUp, condition: "Failed", accepted: "Accepted", refuse: true},
		{name: "expired", class: classAtomicScaleUp, condition: "BookingExpired", accepted: "Accepted", kept: true},
		{name: "revoked", class: classAtomicScaleUp, condition: "CapacityRevoked", accepted: "Accepted", kept: true},
		{name: "another class, expired", class: "queued-provisioning.gke.io", condition: "BookingExpired"},
	} {
		text := strings.NewReplacer("CLASS", c.class, "PARAMETERS", c.parameters, "TYPE", c.condition).Replace(requestText)
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		said := provisioningRequests.Read(u)
		tr := &Translator{Table: state.New().Resources(), Lookup: requestLookup{key: "a/train", o: &said}}
		r := tr.ProvisioningRequest(u, func(name string) *corev1.PodTemplate {
			if name == c.without {
				return nil
			}
			return templates[name]
		})
		pod := &corev1.Pod{Spec: templates["small"].Template.Spec}
		pod.Namespace, pod.Name, pod.Labels = "a", "train-0", map[string]string{"job": "train"}
		pod.Annotations = map[string]string{formerConsumesRequest: "train"}
		p := tr.Pod(pod)
		if (r == nil) != (c.accepted == "") {
			t.Errorf("%s: translated to %+v", c.name, r)
			continue
		}
		if p.Gang.Least != c.least || p.HasGang() != (c.least > 0 || c.kept) || len(p.Class.Unsolved) > 0 != c.refuse {
			t.Errorf("%s: a pod for it has gang %+v and is refused for %q", c.name, p.Gang, p.Class.Unsolved)
		}
		if r == nil {
			continue
		}
		if r.Accepted.Reason != c.accepted || r.CheckOnly != (c.class == classCheckCapacity) || r.NoRetry != (c.name == "check") || r.Attempts != 3 || r.RetryAt.IsZero() {
			t.Errorf("%s: %+v", c.name, r)
		}
		if want := map[bool]time.Duration{true: time.Minute, false: requestValidity}[c.name == "validity"]; r.ValidFor != want {
			t.Errorf("%s: valid for %s, want %s", c.name, r.ValidFor, want)
		}
		if c.accepted != "Accepted" {
			continue
		}
		if len(r.Sets) != 2 || r.Total() != 3 || r.Sets[0].Class.SlotKey == r.Sets[1].Class.SlotKey {
			t.Errorf("%s: pod sets %+v", c.name, r.Sets)
		}
		if p.Class.SlotKey != r.Sets[0].Class.SlotKey || p.Consumes != (model.Consumed{Request: "a/train", UID: "u"}) {
			t.Errorf("%s: a pod of the first set takes slots %q, want %q; it consumes %+v", c.name, p.Class.SlotKey, r.Sets[0].Class.SlotKey, p.Consumes)
		}
		r.MakePlaceholders()
		if n := len(r.Placeholders(map[string]int{p.Class.SlotKey: 1})); n != 2 {
			t.Errorf("%s: %d placeholders beside one pod, want 2", c.name, n)
		}
	}
}
