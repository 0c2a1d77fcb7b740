// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// example is a Book with a node of two devices, a class for all of them and a template for one.
func example() (*Book, *world) {
	w := &world{classes: map[string]*resourceapi.DeviceClass{"gpu": class("gpu", `device.driver == "gpu.example.com"`)}}
	w.slices = []*resourceapi.ResourceSlice{sliceOn("n1", "n1", device("d0", "a", "16Gi"), device("d1", "b", "80Gi"))}
	w.templates = []*resourceapi.ResourceClaimTemplate{template("one", exactly("gpu", "gpu", 1)), template("large", exactly("gpu", "gpu", 1, `device.capacity[device.driver].memory.compareTo(quantity("40Gi")) >= 0`))}
	b := New()
	w.tell(b)
	return b, w
}

func named(pod, claim string) *corev1.Pod {
	p := podOf(pod)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
	return p
}

func TestPodWithoutClaimsNeedsNothing(t *testing.T) {
	b, _ := example()
	p := podOf("p")
	if n := b.OfPod(p); !reflect.DeepEqual(n, Need{}) || len(b.pods) != 0 {
		t.Errorf("need %+v, %d pods remembered", n, len(b.pods))
	}
	if n := testing.AllocsPerRun(10, func() { b.OfPod(p) }); n > 1 {
		t.Errorf("%v allocations for a pod without claims", n)
	}
}

// TestNestedRequests: a request for any device and one for a large device are two resources; the large one counts for both.
func TestNestedRequests(t *testing.T) {
	b, _ := example()
	anyOne, large := b.OfPod(podOf("p1", "one")), b.OfPod(podOf("p2", "large"))
	if !b.Changes().All {
		t.Error("new resources are not reported")
	}
	anyOne = b.OfPod(podOf("p1", "one"))
	free := b.OfNode("n1")
	if len(anyOne.Amounts) != 1 || len(large.Amounts) != 2 || anyOne.Amounts["devices/gpu"] != 1 || large.Amounts["devices/gpu"] != 1 || free["devices/gpu"] != 2 || len(free) != 2 {
		t.Fatalf("any %v, large %v, free %v", anyOne.Amounts, large.Amounts, free)
	}
	for name := range large.Amounts {
		if name != "devices/gpu" && (free[name] != 1 || !strings.HasPrefix(name, "devices/gpu#")) {
			t.Errorf("%s: %d are free, want the one large device", name, free[name])
		}
	}
	if c := b.Changes(); c.All {
		t.Error("the same pods change the resources")
	}
	// The pod with the large request goes: its resource does too, and the other keeps its name.
	b.ForgetPod("default/p2")
	if c := b.Changes(); !c.All {
		t.Error("a resource that is gone is not reported")
	}
	if got := b.OfNode("n1"); !maps.Equal(got, map[string]int64{"devices/gpu": 2}) {
		t.Errorf("free %v", got)
	}
}

// TestExtendedNextToClaims: what claims request counts in the extended resource of their class too, but not the other way around: a node with a
// device plugin has the resource, and no devices for claims.
func TestExtendedNextToClaims(t *testing.T) {
	b := New()
	c := class("gpu")
	c.Spec.ExtendedResourceName = new("example.com/gpu")
	b.SetClass("gpu", c)
	b.SetTemplate("default/one", template("one", exactly("gpu", "gpu", 1)))
	claiming, requesting, byClass := podOf("a", "one"), withExtended(podOf("b"), "example.com/gpu", 1), withExtended(podOf("c"), resourceapi.ResourceDeviceClassPrefix+"gpu", 1)
	const ofClaims, named, implied = "devices/gpu", "devices/example.com/gpu", "devices/" + resourceapi.ResourceDeviceClassPrefix + "gpu"
	for range 2 { // the second time, all pods are known
		for _, p := range []*corev1.Pod{claiming, requesting, byClass} {
			b.OfPod(p)
		}
	}
	b.SetSlice("n", sliceOn("n", "p", device("d0", "a", "16Gi"), device("d1", "a", "16Gi")))
	for p, want := range map[*corev1.Pod]map[string]int64{claiming: {ofClaims: 1, named: 1, implied: 1}, byClass: {named: 1, implied: 1}, requesting: {named: 1}} {
		if got := b.OfPod(p).Amounts; !maps.Equal(got, want) {
			t.Errorf("pod %s needs %v, want %v", p.Name, got, want)
		}
	}
	if got, want := b.OfNode("n"), (map[string]int64{ofClaims: 2, named: 2, implied: 2}); !maps.Equal(got, want) {
		t.Errorf("a node with two devices has %v, want %v", got, want)
	}
	if got, want := b.OfPlugins(map[string]int64{"example.com/gpu": 3, "example.com/other": 1}), (map[string]int64{named: 3}); !maps.Equal(got, want) {
		t.Errorf("a node with a device plugin has %v, want %v", got, want)
	}
}

// TestLifeOfAClaim follows a pod from its template to its end.
// TestExtendedUnserved: where the gate for extended resources is off by default, no class stands for one unless a class names one.
func TestExtendedUnserved(t *testing.T) {
	b, _ := example()
	p := withExtended(podOf("p"), resourceapi.ResourceDeviceClassPrefix+"gpu", 1)
	if need := b.OfPod(p); need.Extended == nil {
		t.Errorf("need %+v", need)
	}
	b.Changes()
	b.SetExtendedUnserved(true)
	if need := b.OfPod(p); !b.Changes().All || !reflect.DeepEqual(need, Need{}) {
		t.Errorf("need %+v, want nothing", need)
	}
	c := class("other")
	c.Spec.ExtendedResourceName = new("example.com/gpu")
	b.SetClass("other", c)
	if need := b.OfPod(p); need.Extended == nil {
		t.Errorf("need %+v, though the gate is on", need)
	}
}

func TestLifeOfAClaim(t *testing.T) {
	b, w := example()
	p := podOf("p", "one")
	want := map[string]int64{"devices/gpu": 1}
	claims := ""
	check := func(when string, wanted Need, free int64) {
		t.Helper()
		if n := b.OfPod(p); claims == "" {
			claims = n.Claims
		}
		wanted.Claims = claims
		if n := b.OfPod(p); claims == "" || !reflect.DeepEqual(n, wanted) {
			t.Errorf("%s: need %+v, want %+v", when, n, wanted)
		}
		if got := b.OfNode("n1")["devices/gpu"]; got != free {
			t.Errorf("%s: %d devices are free, want %d", when, got, free)
		}
	}
	check("before its claim exists", Need{Amounts: want}, 2)
	b.Changes()

	c := w.claimsOf(p)[0]
	b.SetClaim("default/"+c.Name, c)
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "one", ResourceClaimName: &c.Name}}
	check("before it is allocated", Need{Amounts: want}, 2)
	b.Changes()

	if ok, err := w.allocate("n1", c); !ok {
		t.Fatal("not allocated", err)
	}
	c = w.claims[0]
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	b.SetClaim("default/"+c.Name, c)
	if x := b.Changes(); x.All || !slices.Equal(x.Nodes, []string{"n1"}) || !slices.Equal(x.Pods, []string{"default/p"}) {
		t.Errorf("an allocation changes %+v", x)
	}
	check("allocated", Need{Amounts: want, Node: "n1", NodeTerms: []corev1.NodeSelector{*c.Status.Allocation.NodeSelector}}, 1)

	p.Spec.NodeName = "n1"
	check("bound: another pod of its kind may go elsewhere", Need{Amounts: want, Node: "n1"}, 1)

	b.ForgetPod("default/p")
	b.SetClaim("default/"+c.Name, nil)
	if got := b.OfNode("n1")["devices/gpu"]; got != 0 || len(b.pods)+len(b.users)+len(b.signatures)+len(b.claims)+len(b.inPool) != 0 {
		t.Errorf("after its end: %d devices counted, remembered %v %v %v", got, b.pods, b.users, b.signatures)
	}
}

// TestSharedClaim: of several pods with one claim, the first is placed by its devices, and the others where it is.
func TestSharedClaim(t *testing.T) {
	b, w := example()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{exactly("gpu", "gpu", 1)}
	b.SetClaim("default/shared", c)
	p1, p2 := named("p1", "shared"), named("p2", "shared")
	claims := b.OfPod(p2).Claims
	if n := b.OfPod(p2); claims == "" || len(n.Unsupported) > 0 || n.Amounts["devices/gpu"] != 1 {
		t.Errorf("alone: %+v", n)
	}
	b.Changes()
	if n := b.OfPod(p1); len(n.Unsupported) > 0 || n.Amounts["devices/gpu"] != 1 {
		t.Errorf("first: %+v", n)
	}
	if x := b.Changes(); !slices.Contains(x.Pods, "default/p2") {
		t.Errorf("a second user changes %+v", x)
	}
	n := b.OfPod(p2)
	if want := []string{"waits until kube-scheduler has allocated ResourceClaim default/shared, which pod default/p1 uses too"}; !slices.Equal(n.Unsupported, want) || n.Amounts != nil || n.Claims != claims {
		t.Errorf("second: %+v", n)
	}
	// One that kube-scheduler can't place does not keep the others waiting, whenever that turns out; it waits for them.
	gone, unplaced := "none", named("p0", "shared")
	for name, set := range map[string]func(){
		"gated":     func() { unplaced.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} },
		"of others": func() { unplaced.Spec.SchedulerName = "volcano" },
		"without a claim": func() {
			unplaced.Spec.ResourceClaims = append(unplaced.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "d", ResourceClaimName: &gone})
		},
	} {
		unplaced = named("p0", "shared")
		b.OfPod(unplaced)
		if n := b.OfPod(p1); len(n.Unsupported) != 1 || n.Amounts != nil {
			t.Errorf("behind another: %+v", n)
		}
		b.Changes()
		set()
		n := b.OfPod(unplaced)
		if x := b.Changes(); !slices.Contains(x.Pods, "default/p1") {
			t.Errorf("%s: changes %+v", name, x)
		}
		if first := b.OfPod(p1); len(first.Unsupported) > 0 || first.Amounts["devices/gpu"] != 1 || len(n.Unsupported) == 0 {
			t.Errorf("%s: %+v; the next %+v", name, n, first)
		}
	}
	b.ForgetPod("default/p0")
	if ok, err := w.allocate("n1", c); !ok {
		t.Fatal("not allocated", err)
	}
	c = w.claims[0]
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p1", UID: p1.UID}}
	b.SetClaim("default/shared", c)
	if n := b.OfPod(p1); n.Amounts["devices/gpu"] != 1 || n.Node != "n1" || len(n.NodeTerms) != 1 {
		t.Errorf("first, when allocated: %+v", n)
	}
	want := Need{NodeTerms: []corev1.NodeSelector{*c.Status.Allocation.NodeSelector}, Claims: claims}
	if n := b.OfPod(p2); !reflect.DeepEqual(n, want) {
		t.Errorf("second, when allocated: %+v", n)
	}
	example := named("template/x", "shared")
	example.UID = ""
	b.OfPod(example)
	b.ForgetPod("default/p1")
	c = c.DeepCopy()
	c.Status.ReservedFor[0].UID = p2.UID
	b.SetClaim("default/shared", c)
	p2.Spec.NodeName = "n1"
	if n := b.OfPod(p2); n.Node != "n1" || n.NodeTerms != nil || n.Amounts["devices/gpu"] != 1 {
		t.Errorf("second, alone again: %+v", n)
	}
}

// TestSelectorThatFails: on a node with one device on which a selector fails, kube-scheduler may not look at the others.
func TestSelectorThatFails(t *testing.T) {
	b, w := example()
	s := w.slices[0].DeepCopy()
	delete(s.Spec.Devices[0].Attributes, "model")
	b.SetSlice(s.Name, s)
	b.SetTemplate("default/a", template("a", exactly("gpu", "gpu", 1, `device.attributes["gpu.example.com"].model != "x"`)))
	b.OfPod(podOf("p1", "one"))
	need := b.OfPod(podOf("p2", "a"))
	free := b.OfNode("n1")
	if len(need.Amounts) < 2 || len(need.Unsupported) > 0 || free["devices/gpu"] != 2 {
		t.Fatalf("need %+v, free %v", need, free)
	}
	for name := range need.Amounts {
		if name != "devices/gpu" && free[name] == 0 {
			return
		}
	}
	t.Errorf("need %v, free %v: they fit", need.Amounts, free)
}

// TestRefusals has every reason for which a pod is refused, with what a person has to do.
func TestRefusals(t *testing.T) {
	first := resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "a", DeviceClassName: "gpu", Selectors: selectorsOf(requestSelectors[0])}, {Name: "b", DeviceClassName: "gpu"}}}
	admin := exactly("watch", "gpu", 1)
	admin.Exactly.AdminAccess = new(true)
	all := exactly("gpu", "gpu", 0)
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	capacity := exactly("gpu", "gpu", 1)
	capacity.Exactly.Capacity = &resourceapi.CapacityRequirements{}
	constrained := template("pair", exactly("gpu", "gpu", 2))
	constrained.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: new(resourceapi.FullyQualifiedName(driver + "/model"))}}
	costly := "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, device.attributes.all(e, true)))))"
	for _, tt := range []struct {
		name     string
		template *resourceapi.ResourceClaimTemplate
		others   bool // other pods have one device each
		want     string
	}{
		{"none", nil, false, "ResourceClaimTemplate default/x not found; create it or correct spec.resourceClaims[0]"},
		{"class", template("x", exactly("gpu", "gp", 1)), false, `ResourceClaimTemplate default/x, request gpu: DeviceClass "gp" not found; create it or correct deviceClassName`},
		{"empty", template("x", resourceapi.DeviceRequest{Name: "gpu"}), false, "ResourceClaimTemplate default/x request gpu: neither exactly nor firstAvailable is set; set one of them"},
		{"many", template("x", exactly("gpu", "gpu", 33)), false, "ResourceClaimTemplate default/x requests 33 devices, at most 32 can be allocated to one claim; use several claims"},
		{"cel", template("x", exactly("gpu", "gpu", 1, "device.modell == 3")), false, `ResourceClaimTemplate default/x, request gpu: selectors[0]: CEL expression "device.modell == 3" does not compile: compilation failed: ERROR: <input>:1:7: undefined field 'modell' | device.modell == 3 | ......^; correct it`},
		{"no cel", template("x", resourceapi.DeviceRequest{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Selectors: []resourceapi.DeviceSelector{{}}}}), false, "ResourceClaimTemplate default/x, request gpu: selectors[0]: no CEL expression; set cel.expression"},
		{"cost", template("x", exactly("gpu", "gpu", 1, costly)), false, fmt.Sprintf("ResourceClaimTemplate default/x, request gpu: selectors[0]: CEL expression %q may cost 107157699 units, at most 1000000 are allowed; simplify it", costly)},
		{"attribute", template("x", exactly("gpu", "gpu", 1, `device.attributes["other.example.com"].size > 3`)), false, "no device satisfies its request of class gpu; device d1 of ResourceSlice n1-n1: no such key: size; correct the selector"},
		{"alternatives", template("x", first), true, ""},
		{"alternatives alone", template("x", first), false, ""},
		{"constraints", constrained, true, ""},
		{"constraints alone", constrained, false, ""},
		{"all", template("x", all), true, ""},
		{"all alone", template("x", all), false, ""},
		{"capacity", template("x", capacity), true, ""},
		{"admin", template("x", admin), true, ""},
		{"admin and more", template("x", admin, exactly("gpu", "gpu", 1)), true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := example()
			name := "x"
			if tt.template != nil {
				name = tt.template.Name
				b.SetTemplate("default/"+name, tt.template)
			}
			if tt.others {
				b.OfPod(podOf("other", "one"))
			}
			n := b.OfPod(podOf("p", name))
			if got := strings.Join(n.Unsupported, "\n"); got != tt.want {
				t.Errorf("%s\nwant\n%s", got, tt.want)
			}
			if (tt.want == "") != (len(n.Amounts) > 0) {
				t.Errorf("amounts %v", n.Amounts)
			}
			// Pods that request devices in a way that can't be counted with others are kept apart from these.
			if apart := tt.others && tt.want == "" && tt.name != "admin"; apart != (len(n.Apart) == 1 && n.Apart[0] == b.OfPod(podOf("other", "one")).Mark) {
				t.Errorf("kept apart from %v", n.Apart)
			}
			if other := b.OfPod(podOf("other", "one")); len(other.Unsupported) > 0 {
				t.Errorf("the other pods are refused too: %v", other.Unsupported)
			}
		})
	}

	t.Run("claims", func(t *testing.T) {
		b, _ := example()
		if n, want := b.OfPod(named("p", "c")), "ResourceClaim default/c not found; create it or correct spec.resourceClaims[0]"; !slices.Equal(n.Unsupported, []string{want}) {
			t.Errorf("%q, want %q", n.Unsupported, want)
		}
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", DeletionTimestamp: &metav1.Time{}}}
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{exactly("gpu", "gpu", 1)}
		b.SetClaim("default/c", c)
		if n, want := b.OfPod(named("p", "c")), "ResourceClaim default/c is being deleted; wait, or create it again"; !slices.Equal(n.Unsupported, []string{want}) {
			t.Errorf("%q, want %q", n.Unsupported, want)
		}
		p := podOf("p", "one")
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "one", ResourceClaimName: &c.Name}}
		c.DeletionTimestamp = nil
		if n, want := b.OfPod(p), "ResourceClaim default/c was not created for Pod default/p (Pod is not owner); delete one of them"; !slices.Equal(n.Unsupported, []string{want}) {
			t.Errorf("%q, want %q", n.Unsupported, want)
		}
		p = podOf("p")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		if n, want := b.OfPod(p), "spec.resourceClaims[0] names neither a ResourceClaim nor a ResourceClaimTemplate, which is not supported; set one of them"; !slices.Equal(n.Unsupported, []string{want}) {
			t.Errorf("%q, want %q", n.Unsupported, want)
		}
	})

	t.Run("devices of several nodes", func(t *testing.T) {
		b, w := example()
		s := w.slices[0].DeepCopy()
		s.Name, s.Spec.NodeName, s.Spec.AllNodes, s.Spec.Pool.Name = "net", nil, new(true), "net"
		b.SetSlice("net", s)
		want := "devices of class gpu can be used from several nodes (their ResourceSlices have no nodeName), which is not supported; select devices of one node"
		if n := b.OfPod(podOf("p", "one")); !slices.Equal(n.Unsupported, []string{want}) {
			t.Errorf("%q, want %q", n.Unsupported, want)
		}
	})

	t.Run("too many", func(t *testing.T) {
		b, _ := example()
		refused := 0
		for i := range maxWants + 10 {
			name := fmt.Sprintf("t%d", i)
			b.SetTemplate("default/"+name, template(name, exactly("gpu", "gpu", 1, fmt.Sprintf("%d > 0", i))))
			b.OfPod(podOf(name, name))
		}
		for i := range maxWants + 10 {
			name := fmt.Sprintf("t%d", i)
			if n := b.OfPod(podOf(name, name)); len(n.Unsupported) > 0 {
				refused++
			}
		}
		if refused != 10 {
			t.Errorf("%d of %d are refused", refused, maxWants+10)
		}
	})

	t.Run("too many combinations", func(t *testing.T) {
		b, _ := example()
		var pods []*corev1.Pod
		for i := range maxSignatures + 10 {
			name := fmt.Sprintf("t%d", i)
			// The number in base 32 has a digit for each of two claims.
			b.SetTemplate("default/"+name+"a", template(name+"a", exactly("gpu", "gpu", int64(i%32+1))))
			b.SetTemplate("default/"+name+"b", template(name+"b", exactly("gpu", "gpu", int64(i/32+1), "1 > 0")))
			pods = append(pods, podOf(name, name+"a", name+"b"))
			b.OfPod(pods[i])
		}
		refused := 0
		for _, p := range pods {
			if n := b.OfPod(p); len(n.Unsupported) > 0 {
				refused++
				if want := "pods request devices in more than 512 different combinations; use fewer different claims"; n.Unsupported[0] != want {
					t.Fatalf("%q, want %q", n.Unsupported, want)
				}
			}
		}
		if refused != 10 {
			t.Errorf("%d of %d are refused", refused, len(pods))
		}
	})
}

// TestTemplateChangesUnderWay: a pod without its claim follows its template, to a fault and back; one that has its claim keeps what that asks; and other
// pods' needs stay as they are.
func TestTemplateChangesUnderWay(t *testing.T) {
	b, w := example()
	b.SetTemplate("default/x", template("x", exactly("gpu", "gpu", 1)))
	waiting, made, other := podOf("waiting", "x"), podOf("made", "x"), podOf("other", "one")
	c := w.claimsOf(podOf("made", "one"))[0]
	made.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x", ResourceClaimName: &c.Name}}
	b.SetClaim("default/"+c.Name, c)
	for _, p := range []*corev1.Pod{waiting, made, other} {
		b.OfPod(p)
	}
	before := b.OfPod(other)
	b.Changes()
	for _, tt := range []struct {
		template *resourceapi.ResourceClaimTemplate
		want     int64
		why      string
	}{
		{template("x", exactly("gpu", "gpu", 2)), 2, ""},
		{template("x", exactly("gpu", "gpu", 1, "device.modell == 3")), 0, "does not compile"},
		{template("x", exactly("gpu", "gp", 1)), 0, "DeviceClass \"gp\" not found"},
		{nil, 0, "ResourceClaimTemplate default/x not found"},
		{template("x", exactly("gpu", "gpu", 1)), 1, ""},
	} {
		b.SetTemplate("default/x", tt.template)
		if x := b.Changes(); !x.All && !slices.Contains(x.Pods, "default/waiting") {
			t.Errorf("%v: the pod without a claim is not looked at again: %+v", tt.template, x)
		}
		need := b.OfPod(waiting)
		if why := strings.Join(need.Unsupported, "\n"); need.Amounts["devices/gpu"] != tt.want || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%v: need %+v, want %d devices, or the reason %q", tt.template, need, tt.want, tt.why)
		}
		if need := b.OfPod(made); need.Amounts["devices/gpu"] != 1 || len(need.Unsupported) > 0 {
			t.Errorf("%v: the pod with its claim needs %+v", tt.template, need)
		}
		if need := b.OfPod(other); !reflect.DeepEqual(need, before) {
			t.Errorf("%v: another pod needs %+v, before %+v", tt.template, need, before)
		}
	}
}

// TestSlicesThatLie: a node whose slices are incomplete or contradict each other counts for no device, nor as an example of its type, and nodes
// beside it count as before.
func TestSlicesThatLie(t *testing.T) {
	for name, lie := range map[string]func(s *resourceapi.ResourceSlice){
		"more slices are promised":  func(s *resourceapi.ResourceSlice) { s.Spec.Pool.ResourceSliceCount = 2 },
		"two devices have one name": func(s *resourceapi.ResourceSlice) { s.Spec.Devices[1].Name = s.Spec.Devices[0].Name },
		"counters are not in the slices": func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "none"}}
		},
	} {
		b, _ := example()
		if need := b.OfPod(podOf("p", "one")); len(need.Unsupported) > 0 {
			t.Fatalf("need %+v", need)
		}
		s := sliceOn("n2", "n2", device("x0", "a", "16Gi"), device("x1", "a", "16Gi"))
		lie(s)
		b.SetSlice(s.Name, s)
		if got := b.OfNode("n2"); len(got) > 0 || b.SlicesOfNode("n2") != nil {
			t.Errorf("%s: the node has %v, and is an example: %v", name, got, b.SlicesOfNode("n2"))
		}
		need := b.OfPod(podOf("p", "one"))
		if len(need.Unsupported) > 0 || len(need.Amounts) != 1 {
			t.Fatalf("%s: need %+v", name, need)
		}
		for resource := range need.Amounts {
			if got := b.OfNode("n1")[resource]; got != 2 {
				t.Errorf("%s: another node has %d of %s, want 2", name, got, resource)
			}
		}
	}
}

// TestSearchIsBounded: a claim over which the allocator would search for ages costs a bounded number of steps.
func TestSearchIsBounded(t *testing.T) {
	b, _ := example()
	var list []resourceapi.Device
	for i := range 60 {
		list = append(list, device(fmt.Sprintf("x%d", i), fmt.Sprintf("m%d", i/2), "1Gi"))
	}
	s := sliceOn("n2", "n2", list...)
	s.Spec.Driver = "slow.example.com"
	b.SetSlice(s.Name, s)
	b.SetClass("slow", class("slow", `device.driver == "slow.example.com"`))
	// Twenty devices of distinct models, then three of one: every way to choose the twenty is tried.
	x := template("slow", exactly("many", "slow", 20), exactly("three", "slow", 3))
	x.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: new(resourceapi.FullyQualifiedName("slow.example.com/model")), Requests: []string{"many"}},
		{MatchAttribute: new(resourceapi.FullyQualifiedName("slow.example.com/model")), Requests: []string{"three"}}}
	b.SetTemplate("default/slow", x)
	if n := b.OfPod(podOf("p", "slow")); len(n.Unsupported) > 0 || len(n.Amounts) != 1 {
		t.Fatalf("need %+v", n)
	}
	if got := b.OfNode("n2"); len(got) != 0 {
		t.Errorf("free %v", got)
	}
}

// TestOthersAreNotDelayed: a claim that no node can meet, over which the allocator searches as long as it may, costs one search for each kind of node and
// not one for each node, and nodes of one kind are told apart by what of them is allocated.
func TestOthersAreNotDelayed(t *testing.T) {
	const nodes = 300
	b, _ := example()
	b.SetClass("all", class("all", `device.driver == "gpu.example.com"`))
	x := template("slow", exactly("many", "all", 8), exactly("three", "all", 3))
	model := new(resourceapi.FullyQualifiedName("gpu.example.com/model"))
	x.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: model, Requests: []string{"many"}}, {MatchAttribute: model, Requests: []string{"three"}}}
	b.SetTemplate("default/slow", x)
	y := template("pair", exactly("pair", "all", 2))
	y.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: model}}
	b.SetTemplate("default/pair", y)
	slow, pair := b.OfPod(podOf("p", "slow")), b.OfPod(podOf("q", "pair"))
	if len(slow.Amounts) != 1 || len(pair.Amounts) != 1 {
		t.Fatalf("needs %+v, %+v", slow, pair)
	}
	for i := range nodes {
		node := fmt.Sprintf("x%d", i)
		var list []resourceapi.Device
		for j := range 16 {
			list = append(list, device(fmt.Sprintf("%s-d%d", node, j), fmt.Sprintf("m%d", j/2), "80Gi"))
			list[j].Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: new(list[j].Name)}
		}
		s := sliceOn(node, node, list...)
		b.SetSlice(s.Name, s)
		want := int64(8)
		if i%10 == 0 { // one device of a pair is taken
			want--
			c := template("", exactly("one", "all", 1)).Spec.Spec
			b.SetClaim("default/"+node, &resourceapi.ResourceClaim{Spec: c, Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
				Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "one", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: list[3].Name}}}}}})
		}
		got := b.OfNode(node)
		for resource := range pair.Amounts {
			if got[resource] != want {
				t.Fatalf("node %d has devices for %d pods, want %d", i, got[resource], want)
			}
		}
		for resource := range slow.Amounts {
			if got[resource] != 0 {
				t.Fatalf("node %d has devices for %d pods of the claim that no node can meet", i, got[resource])
			}
		}
	}
	if most := int64(4 * maxSearch); b.steps > most {
		t.Errorf("%d steps of searches on %d nodes, at most %d expected", b.steps, nodes, most)
	}
}

// TestTaintedIsNotAlike: a claim to all devices that a selector matches can't be met if one of them is tainted; a node whose tainted device it does not match is
// counted by itself, whichever of the two comes first.
func TestTaintedIsNotAlike(t *testing.T) {
	for _, order := range [][]string{{"met", "other"}, {"other", "met"}} {
		b, _ := example()
		b.SetClass("all", class("all", `device.attributes["gpu.example.com"].model == "x"`))
		x := template("every", exactly("every", "all", 0))
		x.Spec.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		b.SetTemplate("default/every", x)
		need := b.OfPod(podOf("p", "every"))
		if len(need.Amounts) != 1 {
			t.Fatalf("need %+v", need)
		}
		for _, node := range order {
			tainted := device("d1", map[string]string{"met": "x", "other": "y"}[node], "80Gi")
			tainted.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
			s := sliceOn(node, node, device("d0", "x", "80Gi"), tainted)
			b.SetSlice(s.Name, s)
			for resource := range need.Amounts {
				if got, want := b.OfNode(node)[resource], map[string]int64{"other": 1}[node]; got != want {
					t.Errorf("%v: node %s has devices for %d pods, want %d", order, node, got, want)
				}
			}
		}
	}
}

// TestAdminAccessToPartitions: a pod with admin access to partitions is kept apart from pods that use up their counters until it has its access,
// but the agent of a DaemonSet is refused, as no other pod could be on its nodes.
func TestAdminAccessToPartitions(t *testing.T) {
	b, _ := example()
	whole, half := device("whole", "whole", "80Gi"), device("half", "half", "40Gi")
	for d, slots := range map[*resourceapi.Device]string{&whole: "2", &half: "1"} {
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{"slots": {Value: resource.MustParse(slots)}}}}
	}
	list := []TypeSlice{{Driver: driver, Devices: []resourceapi.Device{whole, half}, SharedCounters: []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"slots": {Value: resource.MustParse("2")}}}}}}
	b.SetType("type", list)
	admin := exactly("watch", "gpu", 1, `device.attributes[device.driver].model == "whole"`)
	admin.Exactly.AdminAccess = new(true)
	b.SetTemplate("default/admin", template("admin", admin))
	b.SetTemplate("default/half", template("half", exactly("gpu", "gpu", 1, `device.attributes[device.driver].model == "half"`)))
	agent := podOf("agent", "admin")
	agent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	agentAlone := b.OfPod(agent)
	if len(agentAlone.Unsupported) > 0 || b.OfType("type")[slices.Collect(maps.Keys(agentAlone.Amounts))[0]] == 0 {
		t.Errorf("the agent alone needs %+v, nodes to come have %v", agentAlone, b.OfType("type"))
	}

	other := b.OfPod(podOf("other", "half"))
	need := b.OfPod(podOf("p", "admin"))
	if len(need.Unsupported) > 0 || other.Mark == "" || !slices.Equal(need.Apart, []string{other.Mark}) {
		t.Errorf("need %+v, want it kept apart from %q", need, other.Mark)
	}
	if got := b.OfPod(agent); len(got.Unsupported) != 1 || !strings.Contains(got.Unsupported[0], "admin access") || got.Amounts != nil {
		t.Errorf("the agent needs %+v", got)
	}

	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{admin}
	b.SetClaim("default/c", c)
	if got := b.OfPod(named("q", "c")); len(got.Apart) != 1 {
		t.Errorf("need %+v before it has its access", got)
	}
	c = c.DeepCopy()
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "watch", Driver: driver, Pool: "n1", Device: "whole", AdminAccess: new(true)}}}}
	b.SetClaim("default/c", c)
	if got := b.OfPod(named("q", "c")); len(got.Unsupported) > 0 || got.Apart != nil || len(got.Amounts) != 1 {
		t.Errorf("need %+v after it has its access", got)
	}
}

// TestTypesInOtherOrders: a node to come counts for the pods that find devices in the order of its slices and in others. The first of two pods with
// access to one of two devices (model a), and two devices to use, must not leave the other pod the devices that it needs for its access.
func TestTypesInOtherOrders(t *testing.T) {
	admin := exactly("watch", "gpu", 1, `device.attributes[device.driver].model == "a"`)
	admin.Exactly.AdminAccess = new(true)
	for _, tt := range []struct {
		models string
		onNode int64
	}{{"aabb", 2}, {"bbaa", 1}, {"abba", 1}} {
		b, _ := example()
		var list []resourceapi.Device
		for i, model := range strings.Split(tt.models, "") {
			list = append(list, device(fmt.Sprintf("x%d", i), model, "16Gi"))
		}
		b.SetSlice("n2-n2", sliceOn("n2", "n2", list...))
		b.SetType("type", []TypeSlice{{Driver: driver, Devices: list}})
		b.SetTemplate("default/two", template("two", admin, exactly("use", "gpu", 2)))
		need := b.OfPod(podOf("p", "two"))
		if len(need.Unsupported) > 0 || len(need.Amounts) != 1 {
			t.Fatalf("need %+v", need)
		}
		name := slices.Collect(maps.Keys(need.Amounts))[0]
		if got := b.OfNode("n2")[name]; got != tt.onNode {
			t.Errorf("%s: a node counts for %d pods, want %d", tt.models, got, tt.onNode)
		}
		if got := b.OfType("type")[name]; got != 1 {
			t.Errorf("%s: a node to come counts for %d pods, want 1", tt.models, got)
		}
	}
}

// TestTypesOfSeveralSizes: the order of devices matters too if claims can share some of them, which satisfy the same requests: the first pod must not
// leave the other only those that it cannot share.
func TestTypesOfSeveralSizes(t *testing.T) {
	two := resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "a", DeviceClassName: "gpu", Count: 2}}}
	for _, kinds := range []string{"swww", "wwws", "wwsw"} {
		b, _ := example()
		var list []resourceapi.Device
		for i, kind := range kinds {
			d := device(fmt.Sprintf("x%d", i), "a", "16Gi")
			if kind == 's' {
				d.AllowMultipleAllocations = new(true)
				c := d.Capacity["memory"]
				c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: new(resource.MustParse("1Gi")), ValidValues: []resource.Quantity{resource.MustParse("1Gi")}}
				d.Capacity["memory"] = c
			}
			list = append(list, d)
		}
		b.SetType("type", []TypeSlice{{Driver: driver, Devices: list}})
		b.SetTemplate("default/two", template("two", two))
		need := b.OfPod(podOf("p", "two"))
		if len(need.Unsupported) > 0 || len(need.Amounts) != 1 {
			t.Fatalf("need %+v", need)
		}
		// The shared one and another, three times; but the first pod may take two of the others.
		if got := b.OfType("type")[slices.Collect(maps.Keys(need.Amounts))[0]]; got != 2 {
			t.Errorf("%s: a node to come counts for %d pods, want 2", kinds, got)
		}
	}
}

func TestTypes(t *testing.T) {
	b, _ := example()
	b.OfPod(podOf("p", "one"))
	list, err := ParseTypeSlices(`
- driver: gpu.example.com
  devices:
  - name: d0
    attributes: {model: {string: a}}
    capacity: {memory: {value: 16Gi}}
  - name: d1
    attributes: {model: {string: a}}
`)
	if err != nil {
		t.Fatal(err)
	}
	b.Changes()
	if !b.SetType("g5.xlarge", list) || b.SetType("g5.xlarge", slices.Clone(list)) {
		t.Error("SetType reports a change that there is not, or none that there is")
	}
	if x := b.Changes(); x.All || len(x.Nodes) > 0 {
		t.Errorf("a type changes %+v", x)
	}
	if got := b.OfType("g5.xlarge"); got["devices/gpu"] != 2 {
		t.Errorf("%v", got)
	}
	if got := b.OfNode("type:g5.xlarge"); got != nil {
		t.Errorf("a type is a node: %v", got)
	}
	if !b.SetType("g5.xlarge", nil) || b.OfType("g5.xlarge") != nil || len(b.slices) != 1 || len(b.nodes) != 1 {
		t.Error("a type that is gone has left something")
	}
}

func TestParseTypeSlicesRejects(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                                              "no slices; want a list of {driver, devices, sharedCounters}",
		"- driver: g.example.com\n  devces: []":           `error unmarshaling JSON: while decoding JSON: json: unknown field "devces"`,
		"- driver: g_x\n  devices: [{name: d}]":           `[0]: driver "g_x": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character`,
		"- driver: g.example.com":                         "[0]: neither devices nor sharedCounters are set",
		"- driver: g.example.com\n  devices: [{name: D}]": `[0]: devices[0].name "D": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character`,
		"- driver: g.example.com\n  devices: [{name: d}, {name: d}]":                                       `[0]: devices[1].name "d" is used twice in one pool`,
		"- driver: g.example.com\n  devices: [{name: d}]\n- driver: g.example.com\n  devices: [{name: d}]": `[1]: devices[0].name "d" is used twice in one pool`,
		"- driver: g.example.com\n  devices: [{name: d, nodeName: n}]":                                     "[0]: devices[0]: nodeName, nodeSelector and allNodes are not allowed: a device belongs to the node",
		"- driver: g.example.com\n  devices: [{name: d, attributes: {a: {int: 3, bool: true}}}]":           "[0]: devices[0].attributes[a]: 2 values; set one of int, bool, string and version",
	} {
		_, err := ParseTypeSlices(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant\n%s", text, err, want)
		}
	}
}

// TestTaintRules: a rule takes devices away, from nodes to come too if it names no pool.
func TestTaintRules(t *testing.T) {
	b, w := example()
	b.OfPod(podOf("p", "one"))
	list := []TypeSlice{{Driver: driver, Devices: w.slices[0].Spec.Devices}}
	b.SetType("g5.xlarge", list)
	b.Changes()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoExecute}
	for _, tt := range []struct {
		selector       *resourceapi.DeviceTaintSelector
		node, typ      int64
		typeHasChanged bool
	}{
		{nil, 2, 2, false},
		{&resourceapi.DeviceTaintSelector{Pool: new("n1"), Device: new("d0")}, 1, 2, false},
		{&resourceapi.DeviceTaintSelector{Driver: new(driver), Device: new("d0")}, 1, 1, true},
		{&resourceapi.DeviceTaintSelector{}, 0, 0, true},
		{&resourceapi.DeviceTaintSelector{Driver: new("nic.example.com")}, 2, 2, true},
	} {
		rule = rule.DeepCopy()
		rule.Spec.DeviceSelector = tt.selector
		if got := b.SetTaintRule("r", rule); got != tt.typeHasChanged {
			t.Errorf("%v: types have changed: %v", tt.selector, got)
		}
		if node, typ := b.OfNode("n1")["devices/gpu"], b.OfType("g5.xlarge")["devices/gpu"]; node != tt.node || typ != tt.typ {
			t.Errorf("%v: the node has %d, the type %d", tt.selector, node, typ)
		}
		for _, name := range b.Changes().Nodes {
			if name != "n1" {
				t.Errorf("node %q has changed", name)
			}
		}
	}
	b.SetTaintRule("r", nil)
	if got := b.OfNode("n1")["devices/gpu"]; got != 2 {
		t.Errorf("without the rule: %d", got)
	}
}

// TestLearning: a node to come has what a node of its type has published, but for what identifies one device.
func TestLearning(t *testing.T) {
	b, w := example()
	b.OfPod(podOf("p", "one"))
	s := w.slices[0].DeepCopy()
	s.Spec.Devices[0].Attributes["UUID"] = resourceapi.DeviceAttribute{StringValue: new("GPU-1")}
	s.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	b.SetSlice(s.Name, s)
	got := b.SlicesOfNode("n1")
	if len(got) != 1 || len(got[0].Devices) != 2 || len(got[0].Devices[0].Attributes) != 1 || got[0].Devices[0].Taints != nil {
		t.Fatalf("%+v", got)
	}
	if len(s.Spec.Devices[0].Attributes) != 2 {
		t.Error("the slice itself was changed")
	}
	b.SetType("g5.xlarge", got)
	if b.OfType("g5.xlarge")["devices/gpu"] != 2 || b.OfNode("n1")["devices/gpu"] != 1 {
		t.Errorf("type %v, node %v", b.OfType("g5.xlarge"), b.OfNode("n1"))
	}
	s = s.DeepCopy()
	s.Spec.Pool.ResourceSliceCount = 2
	b.SetSlice(s.Name, s)
	if got := b.SlicesOfNode("n1"); got != nil {
		t.Errorf("learned from an incomplete pool: %+v", got)
	}
	if b.SlicesOfNode("none") != nil {
		t.Error("learned from nothing")
	}
}

// BenchmarkThousandNodes takes in 1,000 nodes with 8 devices each, and 8,000 pods with 10 different claims.
func BenchmarkThousandNodes(bench *testing.B) {
	for bench.Loop() {
		b := New()
		b.SetClass("gpu", class("gpu", `device.driver == "gpu.example.com"`))
		for i := range 10 {
			name := fmt.Sprintf("t%d", i)
			b.SetTemplate("default/"+name, template(name, exactly("gpu", "gpu", int64(i%3+1), requestSelectors[i%4])))
			b.OfPod(podOf(name, name))
		}
		for i := range 1000 {
			node := fmt.Sprintf("n%d", i)
			var list []resourceapi.Device
			for j := range 8 {
				list = append(list, device(fmt.Sprintf("d%d", j), "a", "80Gi"))
				list[j].Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: new(fmt.Sprintf("%s-%d", node, j))}
			}
			b.SetSlice(node, sliceOn(node, node, list...))
			b.Changes()
			b.OfNode(node)
		}
		for i := range 8000 {
			p := podOf(fmt.Sprintf("p%d", i), fmt.Sprintf("t%d", i%10))
			p.UID = types.UID(p.Name)
			b.OfPod(p)
		}
	}
}
