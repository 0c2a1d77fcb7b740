// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// seedObjects adds the objects of one kind in testdata/*.txt as JSON.
func seedObjects(f *testing.F, kind string) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	added := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(data), "\n\n") {
			input, _, _ := strings.Cut(c, "\n----\n")
			for _, doc := range strings.Split(input, "\n---\n") {
				var of struct{ Kind string }
				if text, err := yaml.YAMLToJSON([]byte(doc)); err == nil && json.Unmarshal(text, &of) == nil && of.Kind == kind {
					f.Add(text)
					added++
				}
			}
		}
	}
	if added == 0 {
		f.Fatalf("no %s in testdata", kind)
	}
}

// FuzzTranslatePod: whatever a pod is, its class is small, the same each time, asks for nothing below zero, and within
// the limits of what is looked at.
func FuzzTranslatePod(f *testing.F) {
	seedObjects(f, "Pod")
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"containers":[{"resources":{"requests":{"cpu":"9223372036854775807","memory":"9223372036854775807E","pods":"1e30"}}},{"resources":{"requests":{"cpu":"1n"}}}]}}`))
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"9e18"},"containers":[{"ports":[{"hostPort":-1},{"hostPort":70000}]}],"topologySpreadConstraints":[{"maxSkew":-2147483648}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p corev1.Pod
		if json.Unmarshal(data, &p) != nil {
			return
		}
		tr := &Translator{Table: state.NewResourceTable()}
		out := tr.Pod(&p)
		again := (&Translator{Table: state.NewResourceTable()}).Pod(p.DeepCopy())
		if !reflect.DeepEqual(out.Class, again.Class) {
			t.Errorf("two translations differ:\n%+v\n%+v", out.Class, again.Class)
		}
		c := out.Class
		if n := max(len(c.Key), len(c.SlotKey)); n > mostClassBytes {
			t.Errorf("the key has %d bytes", n)
		}
		for d, v := range c.Requests {
			if v < 0 && !hasNegative(&p) {
				t.Errorf("it requests %d of resource %d", v, d)
			}
		}
		if len(c.HostPorts) > mostHostPorts || len(c.Tolerations) > mostTolerations || len(c.Terms) > mostSelectorTerms || len(c.Requests) > mostResourceNames+8 {
			t.Errorf("%d ports, %d tolerations, %d terms, %d resources", len(c.HostPorts), len(c.Tolerations), len(c.Terms), len(c.Requests))
		}
		tr.PodFacts(&p)
	})
}

// hasNegative reports whether a pod asks for an amount below zero, which the API server never lets pass.
func hasNegative(p *corev1.Pod) bool {
	text, err := json.Marshal(p)
	return err != nil || strings.Contains(string(text), `"-`)
}

// FuzzTranslateNode: whatever a node says of itself is read.
func FuzzTranslateNode(f *testing.F) {
	seedObjects(f, "Node")
	f.Fuzz(func(t *testing.T, data []byte) {
		var n corev1.Node
		if json.Unmarshal(data, &n) != nil {
			return
		}
		out := (&Translator{Table: state.NewResourceTable()}).Node(&n)
		if again := (&Translator{Table: state.NewResourceTable()}).Node(n.DeepCopy()); !reflect.DeepEqual(out, again) {
			t.Errorf("two translations differ:\n%+v\n%+v", out, again)
		}
	})
}

// FuzzTranslatePool: whatever a NodePool is, it becomes a pool, or one that isn't ready and says why.
func FuzzTranslatePool(f *testing.F) {
	seedObjects(f, "NodePool")
	f.Add([]byte(`{"spec":{"disruption":{"budgets":[{"nodes":"10%","schedule":"0 0 30 2 *","duration":"1h"},{"nodes":"-1"}],"consolidateAfter":"Never"},"template":{"spec":{"requirements":[{"key":"a","operator":"Gt","values":["99999999999999999999"]}],"expireAfter":"1e9h"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p karpv1.NodePool
		if json.Unmarshal(data, &p) != nil {
			return
		}
		out := (&Translator{Table: state.NewResourceTable()}).NodePool(&p)
		if out == nil || out.Name != p.Name {
			t.Errorf("pool %+v", out)
		}
	})
}

// FuzzTranslateClaim: whatever a NodeClaim's annotations say of its slots, it becomes a claim, the same each time.
func FuzzTranslateClaim(f *testing.F) {
	f.Add(`[{"class":"c","owner":"o","count":3}]`, "true", "{}")
	f.Add(`[{"count":-9223372036854775808}]`, "false", "null")
	f.Add("a=1,b=2", "", `{"cpu":"1e30"}`)
	f.Fuzz(func(t *testing.T, slots, reserved, rest string) {
		c := karpv1.NodeClaim{}
		c.Name, c.Annotations = "c", map[string]string{AnnotationSlots: slots, model.AnnotationReserved: reserved}
		for _, key := range []string{"dovetail.sh/command", "dovetail.sh/host", "dovetail.sh/not-reserved"} {
			c.Annotations[key] = rest
		}
		out := (&Translator{Table: state.NewResourceTable()}).NodeClaim(&c)
		if again := (&Translator{Table: state.NewResourceTable()}).NodeClaim(c.DeepCopy()); !reflect.DeepEqual(out, again) {
			t.Errorf("two translations differ:\n%+v\n%+v", out, again)
		}
		for _, s := range out.Slots {
			if s.Count < 0 {
				t.Errorf("slots %+v of %q", out.Slots, slots)
			}
		}
	})
}

// FuzzTranslateProvisioner: whatever a Provisioner is, it becomes a NodePool or says what keeps it from that.
func FuzzTranslateProvisioner(f *testing.F) {
	seedObjects(f, "Provisioner")
	f.Fuzz(func(t *testing.T, data []byte) {
		var p karpv1alpha5.Provisioner
		if json.Unmarshal(data, &p) != nil {
			return
		}
		for _, aws := range []bool{false, true} {
			if pool, _, said := Provisioner(&p, ProvisionerDefaults{OnAWS: aws}); pool == nil && reflect.DeepEqual(said, karpv1alpha5.Translation{}) {
				t.Error("nothing came of it, and nothing is said")
			}
		}
	})
}

// FuzzQuantity: an amount that a pod requests counts for what it is, rounded up, and for very much where it is more
// than can be counted; never for less.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"1", "100m", "1n", "1e3", "9223372036854775807", "9223372036854775808", "9223372036854776", "9.3e15", "9e18", "1e30", "999999E", "16Ei", "0.0000000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := resource.ParseQuantity(s)
		if err != nil || q.Sign() < 0 {
			return
		}
		exact, ok := new(big.Rat).SetString(q.AsDec().String())
		if !ok || len(s) > 100 {
			return
		}
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s), corev1.ResourceMemory: resource.MustParse(s), "example.com/x": resource.MustParse(s)}
		have := (&Translator{Table: state.NewResourceTable()}).Resources(list, 1)
		for d, scale := range map[model.Dim]int64{model.CPU: 1000, model.Memory: 1, model.FirstExtended: 1} {
			want := new(big.Rat).Mul(exact, big.NewRat(scale, 1))
			got := big.NewRat(have.At(d), 1)
			if got.Cmp(want) < 0 && have.At(d) < mostAmount || have.At(d) > mostAmount || have.At(d) < 0 {
				t.Errorf("%s of resource %d counts for %d", s, d, have.At(d))
			}
		}
	})
}

// FuzzBufferReplicas: a CapacityBuffer's limits hold as many pods as they say, whatever amounts they and the pods have.
func FuzzBufferReplicas(f *testing.F) {
	for _, x := range [][2]string{{"10", "3"}, {"1", "9300000000000000"}, {"9e18", "1m"}, {"16Ei", "16Ei"}, {"1n", "1n"}, {"1e30", "9223372036854776"}, {"9007199254740", "1n"}} {
		f.Add(x[0], x[1])
	}
	f.Fuzz(func(t *testing.T, limit, request string) {
		amount, err1 := resource.ParseQuantity(limit)
		r, err2 := resource.ParseQuantity(request)
		if err1 != nil || err2 != nil {
			return
		}
		pods, bounded := podsWithin(corev1.ResourceList{"cpu": amount}, corev1.ResourceList{"cpu": r})
		if bounded != (r.Sign() > 0) || bounded && (pods < 0 || pods == 0 && r.Cmp(amount) <= 0 || pods > 0 && r.Cmp(amount) > 0) {
			t.Errorf("limits of %s hold %d pods of %s (bounded: %t)", limit, pods, request, bounded)
		}
	})
}

// FuzzGroupTexts: whatever the flags, tags and ConfigMaps say of node groups is read or refused.
func FuzzGroupTexts(f *testing.F) {
	for _, s := range []string{
		"1:10:web", "0:0:", "-1:5:a", "9999999999999999999999:1:x", "asg:tag=a,b=c", "asg:tag=", "10:\n  - .*large\n20:\n  - \"[\"\n", "1: {}\n",
		"k8s.io/cluster-autoscaler/node-template/taint/a=b:NoSchedule\nk8s.io/cluster-autoscaler/node-template/resources/cpu=-1\nk8s.io/cluster-autoscaler/node-template/label/x=y\n" +
			"k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownutilizationthreshold=NaN\nk8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime=1e9h",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := ParseNodes(s); err == nil && (*g.Min < 0 || *g.Max < *g.Min) {
			t.Errorf("%q is %d to %d", s, *g.Min, *g.Max)
		}
		_, _ = ParseDiscovery(s)
		_, _ = ParsePriorities(s)
		tags := map[string]string{}
		for _, line := range strings.Split(s, "\n") {
			if k, v, ok := strings.Cut(line, "="); ok {
				tags[k] = v
			}
		}
		_, _ = TaggedGroups(tags, GroupSettings{})
	})
}
