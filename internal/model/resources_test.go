// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

func drawResources(t *rapid.T, what string) Resources {
	return rapid.SliceOfN(rapid.Int64Range(-3, 9), 0, 6).Draw(t, what)
}

// TestResourcesAreVectors holds each operation against the same thing done resource by resource.
func TestResourcesAreVectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawResources(t, "a"), drawResources(t, "b")
		n := rapid.Int64Range(-2, 3).Draw(t, "n")
		a0, b0 := slices.Clone(a), slices.Clone(b)
		each := func(what string, got Resources, f func(x, y int64) int64) {
			for d := range Dim(8) {
				if g, w := got.At(d), f(a.At(d), b.At(d)); g != w {
					t.Fatalf("%v %s %v: %d of resource %d, want %d", a, what, b, g, d, w)
				}
			}
		}
		each("plus", a.Add(b), func(x, y int64) int64 { return x + y })
		each("minus", a.Sub(b), func(x, y int64) int64 { return x - y })
		each("max", a.Max(b), func(x, y int64) int64 { return max(x, y) })
		each("min", a.Min(b), func(x, y int64) int64 { return min(x, y) })
		each("plus n times", a.Clone().AddInto(b, n), func(x, y int64) int64 { return x + n*y })
		fits, equal, zero := true, true, true
		for d := range Dim(8) {
			fits = fits && (a.At(d) <= 0 || a.At(d) <= b.At(d))
			equal = equal && a.At(d) == b.At(d)
			zero = zero && a.At(d) == 0
		}
		if a.Fits(b) != fits || a.Equal(b) != equal || (a.Key() == b.Key()) != equal || a.IsZero() != zero {
			t.Fatalf("%v, %v: fits %t, equal %t, keys %q %q, zero %t", a, b, a.Fits(b), a.Equal(b), a.Key(), b.Key(), a.IsZero())
		}
		d := Dim(rapid.IntRange(0, 7).Draw(t, "resource"))
		for e, with := Dim(0), a.With(d, 42); e < 8; e++ {
			if want := map[bool]int64{true: 42, false: a.At(e)}[e == d]; with.At(e) != want {
				t.Fatalf("%v with 42 of %d is %v", a, d, with)
			}
		}
		if !slices.Equal(a, a0) || !slices.Equal(b, b0) {
			t.Fatalf("an operand was changed: %v was %v, %v was %v", a, a0, b, b0)
		}
	})
}

func TestResourcesReadWell(t *testing.T) {
	names := append(FixedNames(), "nvidia.com/gpu")
	for want, r := range map[string]Resources{
		"":                                    {0, 0},
		"cpu=1500m memory=2Gi":                {1500, 2 << 30},
		"cpu=4 pods=110 nvidia.com/gpu=1":     {4000, 0, 0, 110, 1},
		"memory=1025Mi ephemeral-storage=1Ti": {0, 1025 << 20, 1 << 40},
		"memory=1000001":                      {0, 1000001},
		"cpu=1 resource-5=7":                  {1000, 0, 0, 0, 0, 7},
		"cpu=-100m memory=-1Gi":               {-100, -1 << 30},
	} {
		if got := r.Format(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestToleratesAsKubernetesDoes compares with Kubernetes, numeric tolerations on.
func TestToleratesAsKubernetesDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{"", "a", "4", "5", "6", "x5"})
		effect := rapid.SampledFrom([]string{"", NoSchedule, NoExecute, PreferNoSchedule})
		x := Taint{Key: rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"), Value: value.Draw(t, "value"), Effect: effect.Filter(func(s string) bool { return s != "" }).Draw(t, "effect")}
		op := rapid.SampledFrom([]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt}).Draw(t, "operator")
		theirs := corev1.Toleration{Key: rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "toleration key"), Operator: op, Value: value.Draw(t, "toleration value"),
			Effect: corev1.TaintEffect(effect.Draw(t, "toleration effect"))}
		if theirs.Key == "" {
			theirs.Operator = corev1.TolerationOpExists // the API allows no other
		}
		if theirs.Operator == corev1.TolerationOpExists {
			theirs.Value = ""
		}
		ours := Toleration{Key: theirs.Key, Value: theirs.Value, Effect: string(theirs.Effect), Exists: theirs.Operator == corev1.TolerationOpExists}
		if op := theirs.Operator; op == corev1.TolerationOpGt || op == corev1.TolerationOpLt {
			ours.Operator = string(op)
		}
		want := theirs.ToleratesTaint(klog.Logger{}, &corev1.Taint{Key: x.Key, Value: x.Value, Effect: corev1.TaintEffect(x.Effect)}, true)
		if got := ours.Tolerates(x); got != want {
			t.Fatalf("%+v on %+v: %t, Kubernetes says %t", ours, x, got, want)
		}
		hard := x.Effect != PreferNoSchedule && !want
		if got := Untolerated([]Taint{x}, []Toleration{ours}) != nil; got != hard {
			t.Fatalf("%+v on %+v: keeps out %t, want %t", ours, x, got, hard)
		}
	})
}

func TestToleratesEverything(t *testing.T) {
	for _, c := range []struct {
		t    Toleration
		want bool
	}{
		{Toleration{Exists: true}, true},
		{Toleration{Exists: true, Effect: NoSchedule}, true},
		{Toleration{Exists: true, Effect: NoExecute}, false},
		{Toleration{Exists: true, Key: "k"}, false},
		{Toleration{Key: "k", Value: "v"}, false},
	} {
		if got := (&Class{Tolerations: []Toleration{{Key: "other", Exists: true}, c.t}}).ToleratesEverything(); got != c.want {
			t.Errorf("%+v: %t", c.t, got)
		}
	}
}

func TestHostPortsConflict(t *testing.T) {
	tcp := func(ip string, port int32) HostPort { return HostPort{IP: ip, Protocol: "TCP", Port: port} }
	for _, c := range []struct {
		a, b HostPort
		want bool
	}{
		{tcp("", 80), tcp("", 80), true},
		{tcp("", 80), tcp("", 81), false},
		{tcp("", 80), HostPort{Protocol: "UDP", Port: 80}, false},
		{tcp("10.0.0.1", 80), tcp("10.0.0.2", 80), false},
		{tcp("10.0.0.1", 80), tcp("10.0.0.1", 80), true},
		{tcp("10.0.0.1", 80), tcp("0.0.0.0", 80), true},
		{tcp("10.0.0.1", 80), tcp("", 80), true},
	} {
		if c.a.Conflicts(c.b) != c.want || c.b.Conflicts(c.a) != c.want {
			t.Errorf("%+v and %+v: want %t", c.a, c.b, c.want)
		}
	}
}

// TestUnusedDevices: machines with GPUs are kept for who asks for them; what every machine of a cloud has is no device.
func TestUnusedDevices(t *testing.T) {
	names := append(FixedNames(), "nvidia.com/gpu", "vpc.amazonaws.com/pod-eni", "hugepages-2Mi")
	general := &InstanceType{Capacity: Resources{4000, 1, 1, 58, 0, 54, 8}}
	gpu := &InstanceType{Capacity: Resources{4000, 1, 1, 58, 1, 54, 8}}
	for _, c := range []struct {
		types    []*InstanceType
		requests Resources
		want     bool
	}{
		{nil, nil, false}, {[]*InstanceType{general}, Resources{100}, false}, {[]*InstanceType{gpu}, Resources{100}, true}, {[]*InstanceType{gpu, general}, Resources{100}, false},
		{[]*InstanceType{gpu}, Resources{100, 0, 0, 1, 1}, false},
	} {
		if got := HaveUnusedDevice(c.types, c.requests, names); got != c.want {
			t.Errorf("%d types, requests %v: %t", len(c.types), c.requests, got)
		}
	}
}
