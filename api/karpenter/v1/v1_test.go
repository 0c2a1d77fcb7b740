// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// The numbers are Karpenter's own; test/oracle compares many more. They are here so that a field that is moved or renamed below the
// template fails at once: every NodePool in every cluster would drift.
func TestHash(t *testing.T) {
	for name, test := range map[string]struct{ pool, want string }{
		"the least": {
			`{spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: [], expireAfter: 720h}}}}`,
			"12745407319442031341",
		},
		"every field": {
			`{spec: {template: {metadata: {labels: {team: search}, annotations: {note: b}}, spec: {
				nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: [{key: a, operator: Exists}],
				taints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}], startupTaints: [{key: d, effect: NoExecute}],
				terminationGracePeriod: 1h, expireAfter: Never}}}}`,
			"7618460363385193152",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var pool NodePool
			if err := yaml.UnmarshalStrict([]byte(test.pool), &pool); err != nil {
				t.Fatal(err)
			}
			got, err := pool.Hash()
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("hash %s, want %s", got, test.want)
			}
		})
	}
}

func TestNillableDuration(t *testing.T) {
	hour := time.Hour
	for name, test := range map[string]struct {
		in, out string
		want    *time.Duration
		err     string
	}{
		"a duration keeps its spelling": {in: `"60m"`, out: `"60m"`, want: &hour},
		"never":                         {in: `"Never"`, out: `"Never"`},
		"days are no unit":              {in: `"30d"`, err: `read duration "30d": want hours, minutes and seconds such as 1h30m, or Never: time: unknown unit "d" in duration "30d"`},
		"a number":                      {in: `30`, err: "read duration 30: json: cannot unmarshal number into Go value of type string"},
	} {
		t.Run(name, func(t *testing.T) {
			d := NillableDurationOf(time.Minute)
			err := json.Unmarshal([]byte(test.in), &d)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case (d.Duration == nil) != (test.want == nil):
				t.Errorf("duration %v, want %v", d.Duration, test.want)
			case d.Duration != nil && *d.Duration != *test.want:
				t.Errorf("duration %v, want %v", *d.Duration, *test.want)
			}
			out, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != test.out {
				t.Errorf("written %s, want %s", out, test.out)
			}
		})
	}
}

// The converter that dynamic clients use writes durations as encoding/json does.
func TestUnstructured(t *testing.T) {
	pool := NodePool{Spec: NodePoolSpec{Disruption: Disruption{ConsolidateAfter: NillableDurationOf(90 * time.Second)}}}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pool)
	if err != nil {
		t.Fatal(err)
	}
	spec := object["spec"].(map[string]any)
	if got := spec["disruption"].(map[string]any)["consolidateAfter"]; got != "1m30s" {
		t.Errorf("consolidateAfter %v, want 1m30s", got)
	}
	var back NodePool
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &back); err != nil {
		t.Fatal(err)
	}
	if d := back.Spec.Disruption.ConsolidateAfter.Duration; d == nil || *d != 90*time.Second {
		t.Errorf("consolidateAfter read back as %v", d)
	}
}

func TestAddToScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, object := range []runtime.Object{&NodePool{}, &NodePoolList{}, &NodeClaim{}, &NodeClaimList{}} {
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		if kinds[0].GroupVersion() != GroupVersion {
			t.Errorf("%T is of %v", object, kinds[0])
		}
	}
	if taint := TaintUnregistered(); taint.Effect != corev1.TaintEffectNoExecute {
		t.Errorf("unregistered taint has effect %s", taint.Effect)
	}
}
