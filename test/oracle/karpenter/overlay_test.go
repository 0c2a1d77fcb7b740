// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package karpenter

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	karpstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// typesCloud offers every pool the same types, and can do nothing else.
type typesCloud struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (c typesCloud) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}

// drawOverlays draws NodeOverlays, at most two of which add resources with the same weight: of a third Karpenter
// forgets what the first has set, and applies it where it should conflict.
func drawOverlays(r *rand.Rand, p *problem) []*karpv1alpha1.NodeOverlay {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	var out []*karpv1alpha1.NodeOverlay
	adding := map[int32]int{}
	for i := range r.IntN(7) {
		o := &karpv1alpha1.NodeOverlay{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1alpha1", Kind: "NodeOverlay"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o%d", i)}}
		weight := int32(r.IntN(3))
		if weight > 0 {
			o.Spec.Weight = &weight
		}
		switch r.IntN(4) {
		case 0:
			o.Spec.Price = pointer(one("0.5", "1", "0.0125", "3.75"))
		case 1, 2:
			o.Spec.PriceAdjustment = pointer(one("+10%", "-25%", "-0.01", "+1.5", "-99.5%", "+.25"))
		}
		if r.IntN(3) == 0 && adding[weight] < 2 {
			adding[weight]++
			o.Spec.Capacity = corev1.ResourceList{corev1.ResourceName(one("example.com/fuse", "example.com/kvm")): resource.MustParse(one("1", "4", "2k"))}
		}
		require := func(key, op string, values ...string) {
			o.Spec.Requirements = append(o.Spec.Requirements, karpv1alpha1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOperator(op), Values: values})
		}
		if r.IntN(2) == 0 {
			require(corev1.LabelInstanceTypeStable, one("In", "NotIn"), p.machines[r.IntN(len(p.machines))].name, p.machines[r.IntN(len(p.machines))].name)
		}
		if r.IntN(3) == 0 {
			require(corev1.LabelTopologyZone, one("In", "NotIn"), one(zones...))
		}
		if r.IntN(3) == 0 {
			require(karpv1.CapacityTypeLabelKey, "In", one(model.OnDemand, model.Spot))
		}
		if r.IntN(4) == 0 {
			require(karpv1.NodePoolLabelKey, one("In", "NotIn"), p.pools[r.IntN(len(p.pools))].Name)
		}
		if r.IntN(4) == 0 {
			require(corev1.LabelArchStable, one("In", "NotIn"), one("amd64", "arm64"))
		}
		if r.IntN(4) == 0 {
			switch op := one("In", "NotIn", "Exists", "DoesNotExist"); op {
			case "In", "NotIn":
				require(teamKey, op, one("red", "blue"))
			default:
				require(teamKey, op)
			}
		}
		if r.IntN(12) == 0 {
			require("karpenter.sh/other", "Exists") // a label of a reserved domain
		}
		out = append(out, o)
	}
	return out
}

// TestOverlays lays drawn NodeOverlays over drawn instance types by Karpenter's own controller and by ours: the same
// prices, to a micro-dollar, the same resources, and the same verdict on each overlay.
func TestOverlays(t *testing.T) {
	changed, refused := 0, 0
	for seed := uint64(1); seed <= 20*uint64(*seeds); seed++ {
		p := newProblem(seed)
		overlays := drawOverlays(rand.New(rand.NewPCG(seed, 31)), p)

		objects := []crclient.Object{}
		for _, n := range p.pools {
			objects = append(objects, n.DeepCopy())
		}
		for _, o := range overlays {
			objects = append(objects, o.DeepCopy())
		}
		client := crfake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&karpv1alpha1.NodeOverlay{}).Build()
		store := nodeoverlay.NewInstanceTypeStore()
		theirTypes := instanceTypes(p.machines)
		cloud := typesCloud{types: theirTypes}
		c := nodeoverlay.NewController(clock.RealClock{}, client, cloud, store, karpstate.NewCluster(clock.RealClock{}, client, cloud))
		if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatalf("seed %d: Karpenter: %v", seed, err)
		}

		var text bytes.Buffer
		write := func(x any) {
			y, err := yaml.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString("---\n")
			text.Write(y)
		}
		for _, n := range p.pools {
			n := n.DeepCopy()
			n.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
			n.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("720h")
			write(n)
		}
		for _, o := range overlays {
			o := o.DeepCopy()
			o.UID = "as from a cluster: what is wrong with it is for the status to say"
			write(o)
		}
		m, err := manifests.Read("problem.yaml", text.Bytes())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text.String())
		}
		st := state.New()
		m.Feed(st)
		for _, n := range p.pools {
			st.Pools.SetTypes(n.Name, modelTypes(p.machines))
		}
		names := st.Resources().Names()

		for _, n := range p.pools {
			theirs, err := store.ApplyAll(n.Name, theirTypes)
			if err != nil {
				t.Fatal(err)
			}
			ours := st.Pools.FindPool(n.Name).Types
			for i, x := range theirs {
				y := ours[i]
				if x.Name != y.Name {
					t.Fatalf("seed %d: type %d is %s and %s", seed, i, x.Name, y.Name)
				}
				for j, o := range x.Offerings {
					want := max(1, int64(o.Price*1e6+0.5))
					if got := y.Offerings[j].PriceMicro; got < want-1 || got > want+1 {
						t.Errorf("seed %d: %s %s %v: %d, Karpenter says %d\n%s", seed, n.Name, x.Name, o.Requirements, got, want, text.String())
					}
					if o.IsPriceOverlaid() != (y.Offerings[j].PriceOverlay != "") {
						t.Errorf("seed %d: %s %s %v: overlaid %q, Karpenter says %t", seed, n.Name, x.Name, o.Requirements, y.Offerings[j].PriceOverlay, o.IsPriceOverlaid())
					}
					if o.IsPriceOverlaid() {
						changed++
					}
				}
				want, got := map[string]int64{}, map[string]int64{}
				for name, q := range x.Capacity {
					if v := q.Value(); v != 0 && name != corev1.ResourceCPU {
						want[string(name)] = v
					}
				}
				for d, v := range y.Capacity {
					if v != 0 && model.Dim(d) != model.CPU {
						got[names[d]] = v
					}
				}
				if !maps.Equal(want, got) {
					t.Errorf("seed %d: %s %s has %v, Karpenter says %v\n%s", seed, n.Name, x.Name, got, want, text.String())
				}
			}
		}
		for _, o := range st.Pools.ListNodeOverlays() {
			var have karpv1alpha1.NodeOverlay
			if err := client.Get(t.Context(), crclient.ObjectKey{Name: o.Name}, &have); err != nil {
				t.Fatal(err)
			}
			theirs := ""
			if c := have.StatusConditions().Get(karpv1alpha1.ConditionTypeValidationSucceeded); !c.IsTrue() {
				theirs = c.Reason
				refused++
			}
			ours := ""
			if o.Verdict.Invalid != "" {
				ours = "RuntimeValidation"
			} else if o.Verdict.Conflict != "" {
				ours = "Conflict"
			}
			if ours != theirs {
				t.Errorf("seed %d: %s: %q, Karpenter says %q\n%s", seed, o.Name, ours, theirs, text.String())
			}
		}
		if t.Failed() {
			return
		}
	}
	if changed == 0 || refused == 0 {
		t.Fatalf("%d prices changed and %d overlays refused: nothing was compared", changed, refused)
	}
}

// modelTypes are machines as a provider of ours has them.
func modelTypes(ms []machine) (out []*model.InstanceType) {
	for _, x := range ms {
		amounts := model.Resources{x.cpu, x.mem << 20, 0, x.pods}
		out = append(out, &model.InstanceType{Name: x.name, Labels: model.Labels{corev1.LabelInstanceTypeStable: x.name, corev1.LabelArchStable: x.arch, corev1.LabelOSStable: "linux"},
			Capacity: amounts, Allocatable: amounts, Offerings: x.offerings})
	}
	return out
}
