// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
)

// m5Large and m5Metal are types of the two ends of a family, with the figures that EC2 publishes.
var (
	m5Large = &catalogue.TypeInfo{Name: "m5.large", CPUs: 2, MemoryMiB: 8192, ENIs: 3, Addresses: 10}
	m5Metal = &catalogue.TypeInfo{Name: "m5.metal", CPUs: 96, MemoryMiB: 393216, ENIs: 15, Addresses: 50}
)

// evaluated is a spec.kubelet with its expressions evaluated on a type, on AL2023 with one interface without pods.
func evaluated(t testing.TB, spec string, on *catalogue.TypeInfo) (*KubeletConfig, error) {
	t.Helper()
	k, err := readKubeletConfig([]byte(spec))
	if err != nil {
		return nil, err
	}
	env, err := newExpressionEnv()
	if err != nil {
		t.Fatal(err)
	}
	list, err := compileExpressions(env, k.expressions)
	if err != nil {
		return nil, err
	}
	return k.evaluateOn(on, FamilyAL2023, 1, list)
}

// TestKubeletExpressions: what expressions come to on a small and on a large type. The units, the steps and the order
// are the reference's, as its documentation gives them.
func TestKubeletExpressions(t *testing.T) {
	for _, c := range []struct{ name, spec, large, metal string }{
		{"the number of pods by interfaces", `{"maxPods":"((default_enis - 1) * (ips_per_eni - 1)) + 2"}`, `{"maxPods":20}`, `{"maxPods":688}`},
		{"the number of pods without the expression, without the interface that is reserved", `{"maxPods":"max_pods"}`, `{"maxPods":20}`, `{"maxPods":688}`},
		{"a bound, and a double whose fraction is cut off", `{"maxPods":"min(110, double(vcpus) * 10.95)"}`, `{"maxPods":21}`, `{"maxPods":110}`},
		{"a number as text", `{"maxPods":"42"}`, `{"maxPods":42}`, `{"maxPods":42}`},
		{"milli-cores by tens, MiB by sixteens, GiB and processes as they are", `{"kubeReserved":{"cpu":"70 + vcpus","memory":"memory_mib / 100","ephemeral-storage":"vcpus","pid":"vcpus * 100 + 1"}}`,
			`{"kubeReserved":{"cpu":"80m","ephemeral-storage":"2Gi","memory":"96Mi","pid":"201"}}`, `{"kubeReserved":{"cpu":"170m","ephemeral-storage":"96Gi","memory":"3936Mi","pid":"9601"}}`},
		{"what is reserved by the number of pods that came of the other expression, and a quantity beside it",
			`{"maxPods":"min(max_pods, vcpus * 8)","kubeReserved":{"cpu":"100m","memory":"max_pods * 10"},"systemReserved":{"memory":"max(100, memory_mib / 64)"}}`,
			`{"kubeReserved":{"cpu":"100m","memory":"160Mi"},"maxPods":16,"systemReserved":{"memory":"128Mi"}}`,
			`{"kubeReserved":{"cpu":"100m","memory":"6880Mi"},"maxPods":688,"systemReserved":{"memory":"6144Mi"}}`},
		{"the number of pods that podsPerCore bounds", `{"podsPerCore":5,"systemReserved":{"pid":"max_pods"}}`, `{"podsPerCore":5,"systemReserved":{"pid":"10"}}`, `{"podsPerCore":5,"systemReserved":{"pid":"480"}}`},
		{"by the type's name", `{"maxPods":"instance_type.endsWith('.metal') ? 250 : {'m5.large': 29}[instance_type]"}`, `{"maxPods":29}`, `{"maxPods":250}`},
		{"min and max of whole numbers and others, either way round", `{"systemReserved":{"cpu":"max(min(double(vcpus) * 1.5, 100), max(2.5, vcpus - 1))"}}`, `{"systemReserved":{"cpu":"10m"}}`, `{"systemReserved":{"cpu":"100m"}}`},
		{"no expression", `{"maxPods":58,"kubeReserved":{"cpu":"1"}}`, `{"kubeReserved":{"cpu":"1"},"maxPods":58}`, `{"kubeReserved":{"cpu":"1"},"maxPods":58}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for on, want := range map[*catalogue.TypeInfo]string{m5Large: c.large, m5Metal: c.metal} {
				k, err := evaluated(t, c.spec, on)
				if err != nil {
					t.Fatal(err)
				}
				have, err := json.Marshal(k.fields)
				if err != nil || string(have) != want {
					t.Errorf("on %s: %s, %v, want %s", on.Name, have, err, want)
				}
			}
		})
	}
}

// TestPodlessENIs: pods get no addresses from interfaces that are reserved, nor from those of the first network card
// that are for EFA alone.
func TestPodlessENIs(t *testing.T) {
	c := &Class{KubeletConfig: &KubeletConfig{}, Spec: awsv1.EC2NodeClassSpec{NetworkInterfaces: []*awsv1.NetworkInterface{
		{InterfaceType: awsv1.InterfaceTypeInterface}, {DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly},
	}}}
	for reserved, want := range map[int]int64{0: 20, 1: 11, 2: 0} {
		if have := c.KubeletConfig.MaxPodsOn(m5Large, FamilyAL2023, c.PodlessENIs(reserved)); have != want {
			t.Errorf("%d reserved: %d pods, want %d", reserved, have, want)
		}
	}
}

// TestKubeletExpressionMistakes: an expression that has no value says so with field, cause and what to do.
func TestKubeletExpressionMistakes(t *testing.T) {
	const invalid, fails = awsv1.ReasonKubeletExpressionInvalid, awsv1.ReasonKubeletExpressionEvaluationFailed
	for _, c := range []struct {
		spec, reason string
		says         []string
	}{
		{`{"maxPods":"min(110,"}`, invalid, []string{"spec.kubelet.maxPods", `"min(110,"`, "line 1, column 9", "Syntax error", "its variables are instance_type, a string, and vcpus, memory_mib, default_enis, ips_per_eni and max_pods, ints (double(vcpus) is a double)"}},
		{`{"kubeReserved":{"cpu":"cores * 10"}}`, invalid, []string{"spec.kubelet.kubeReserved.cpu", "undeclared reference to 'cores'"}},
		{`{"systemReserved":{"memory":"instance_type"}}`, invalid, []string{"spec.kubelet.systemReserved.memory", "is of type string, and must be an int or a double"}},
		{`{"systemReserved":{"memory":"10%"}}`, invalid, []string{"spec.kubelet.systemReserved.memory", "Syntax error"}},
		{`{"maxPods":"max(1, 2, 3)"}`, invalid, []string{"spec.kubelet.maxPods", "max"}},
		{`{"maxPods":""}`, invalid, []string{"spec.kubelet.maxPods", `""`}},
		{`{"maxPods":"vcpus - 4"}`, fails, []string{"spec.kubelet.maxPods", "fails on m5.large", "the result is -2, and must be from 0 to 2147483647", "Correct it"}},
		{`{"maxPods":"vcpus * 2000000000"}`, fails, []string{"the result is 4000000000"}},
		{`{"kubeReserved":{"memory":"9223372036854775807 + vcpus"}}`, fails, []string{"overflow"}},
		{`{"kubeReserved":{"memory":"memory_mib / (vcpus - 2)"}}`, fails, []string{"spec.kubelet.kubeReserved.memory", "division by zero"}},
		{`{"kubeReserved":{"memory":"1.0 / double(vcpus - 2)"}}`, fails, []string{"the result is +Inf"}},
		{`{"kubeReserved":{"memory":"0.0 / double(vcpus - 2)"}}`, fails, []string{"the result is NaN"}},
		{`{"maxPods":"{'m5.xlarge': 58}[instance_type]"}`, fails, []string{"no such key: m5.large"}},
		{`{"maxPods":"` + strings.Repeat("[1,2,3,4,5,6,7,8,9,10].map(a, ", 5) + "1" + strings.Repeat(")", 5) + `.size()"}`, fails, []string{"cost limit exceeded"}},
		{`{"maxPods":"vcpus * ` + strings.Repeat("1 * ", 100) + `-1"}`, fails, []string{`1 * "…`}},
		{`{"maxPods":"` + strings.Repeat("(", 300) + `1` + strings.Repeat(")", 300) + `"}`, invalid, []string{"can't be compiled: expression recursion limit exceeded"}},
	} {
		_, err := evaluated(t, c.spec, m5Large)
		var u *awsapi.UnresolvedError
		if !errors.As(err, &u) || u.Reason != c.reason {
			t.Errorf("%s: %v, want %s", c.spec, err, c.reason)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(u.Text, s) {
				t.Errorf("%s: the message does not say %q: %s", c.spec, s, u.Text)
			}
		}
	}
}

// TestExpressionsAsTheReference: testdata/expressions.tsv holds expressions and what the reference makes of them on two
// types. So do we.
func TestExpressionsAsTheReference(t *testing.T) {
	text, err := os.ReadFile("testdata/expressions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	valued := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), "\t")
		quoted, err := json.Marshal(fields[0])
		if err != nil || len(fields) != 3 {
			t.Fatalf("%q: want an expression and two values", line)
		}
		for i, on := range []*catalogue.TypeInfo{m5Large, m5Metal} {
			k, err := evaluated(t, fmt.Sprintf(`{"systemReserved":{"cpu":%s,"memory":%[1]s,"ephemeral-storage":%[1]s,"pid":%[1]s}}`, quoted), on)
			have := "invalid"
			var u *awsapi.UnresolvedError
			switch {
			case err == nil:
				r := k.SystemReserved
				have = strings.Join([]string{r["cpu"], r["memory"], r["ephemeral-storage"], r["pid"]}, " ")
				valued++
			case errors.As(err, &u) && u.Reason == awsv1.ReasonKubeletExpressionEvaluationFailed:
				have = "refused"
			}
			if have != fields[i+1] {
				t.Errorf("%s on %s: %s, the reference says %s (%v)", fields[0], on.Name, have, fields[i+1], err)
			}
		}
	}
	if valued < 500 {
		t.Errorf("only %d values were compared", valued)
	}
}

// FuzzKubeletExpression: whatever an expression is, it is refused with its field, or its value is a quantity that can be
// reserved and a number of pods.
func FuzzKubeletExpression(f *testing.F) {
	for _, s := range []string{"min(110, vcpus * 20)", "11 * max_pods + 255", "max(100, memory_mib / 64)", "instance_type.startsWith('m5') ? 1 : 2.5", "[1,2].map(x, x)[0]",
		"1.0/0.0", "-0.5", "vcpus % 0", "'a'.matches('(a+)+$') ? 1 : 0", "2147483647", "size(instance_type)", "dyn(1)", "5%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Skip()
		}
		k, err := evaluated(t, fmt.Sprintf(`{"maxPods":%s,"kubeReserved":{"cpu":%[1]s,"memory":%[1]s,"ephemeral-storage":%[1]s,"pid":%[1]s}}`, quoted), m5Metal)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "spec.kubelet.") {
				t.Errorf("the error names no field: %v", err)
			}
			return
		}
		if k.MaxPods == nil || *k.MaxPods < 0 {
			t.Errorf("%v pods", k.MaxPods)
		}
		for key, amount := range k.KubeReserved {
			if _, err := parseAmount(key, amount, 0, false); err != nil {
				t.Errorf("%s %s: %v", key, amount, err)
			}
		}
	})
}
