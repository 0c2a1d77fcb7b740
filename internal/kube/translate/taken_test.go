// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A NodePool that was taken over is the same to a decision: its class is the one that it was of, and its hash is that of
// the NodeClaims that it has, so that they don't drift. The NodeClaims that are made for it are hidden from Karpenter.
func TestTakenPool(t *testing.T) {
	pool := func(group string) *karpv1.NodePool {
		p := &karpv1.NodePool{}
		p.Name, p.UID = "p", "uid"
		p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: "KWOKNodeClass", Name: "default"}
		return p
	}
	tr := &Translator{Table: state.NewResourceTable()}
	theirs, ours := tr.NodePool(pool("karpenter.kwok.sh")), tr.NodePool(pool("kwok.dovetail.sh"))
	if theirs.Taken || !ours.Taken || ours.ClassGroup != theirs.ClassGroup || ours.Hash != theirs.Hash || ours.Hash == "" {
		t.Errorf("theirs: taken %t, class of %s, hash %s; ours: taken %t, class of %s, hash %s",
			theirs.Taken, theirs.ClassGroup, theirs.Hash, ours.Taken, ours.ClassGroup, ours.Hash)
	}
	const theirLabel, ourLabel = "karpenter.kwok.sh/kwoknodeclass", "kwok.dovetail.sh/kwoknodeclass"
	if theirs.Requirements.Get(theirLabel) == nil || ours.Requirements.Get(theirLabel) != nil || ours.Requirements.Get(ourLabel) != nil {
		t.Errorf("requirements: theirs %v, ours %v", theirs.Requirements, ours.Requirements)
	}
	for _, x := range []struct {
		c     plan.CreateClaim
		group string
		label string
	}{{plan.CreateClaim{Name: "c", Pool: theirs}, "karpenter.kwok.sh", theirLabel}, {plan.CreateClaim{Name: "c", Pool: ours}, "kwok.dovetail.sh", ourLabel}} {
		claim, err := tr.ClaimObject(x.c)
		if err != nil {
			t.Fatal(err)
		}
		if claim.Spec.NodeClassRef.Group != x.group || claim.Labels[x.label] != "default" || claim.Labels[theirLabel] != "" && x.label != theirLabel {
			t.Errorf("its NodeClaim names %+v and has labels %v", claim.Spec.NodeClassRef, claim.Labels)
		}
		if m := tr.NodeClaim(claim); m.ClassGroup != "karpenter.kwok.sh" {
			t.Errorf("its NodeClaim is read as one of class group %s", m.ClassGroup)
		}
	}
}

// A NodePool of node groups bears who scales them: Dovetail after a takeover, or the autoscaler that it was given back to.
// Its NodeClaims stay of the class that it names, and one of other classes can't be taken over that way.
func TestTakenGroupPool(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	pool := func(group, kind, manager string) *model.NodePool {
		p := &karpv1.NodePool{}
		p.Name, p.UID, p.Annotations = "p", "uid", map[string]string{AnnotationManagedBy: manager}
		p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: kind, Name: "default"}
		return tr.NodePool(p)
	}
	const groups, label = dovetailv1alpha1.Group, dovetailv1alpha1.Group + "/nodegroupclass"
	for _, x := range []struct {
		group, kind, manager string
		ofGroups, taken      bool
		managerIs            string
	}{
		{groups, dovetailv1alpha1.KindNodeGroupClass, "", true, false, ""},
		{groups, dovetailv1alpha1.KindNodeGroupClass, ManagedByDovetail, true, true, ""},
		{groups, dovetailv1alpha1.KindNodeGroupClass, ManagedByClusterAutoscaler, true, false, ManagedByClusterAutoscaler},
		{"karpenter.kwok.sh", "KWOKNodeClass", ManagedByDovetail, false, false, ""},
	} {
		p := pool(x.group, x.kind, x.manager)
		if p.OfGroups != x.ofGroups || p.Taken != x.taken || p.Manager != x.managerIs {
			t.Errorf("%s of %q: of groups %t, taken %t, manager %q; want %t, %t, %q", x.kind, x.manager, p.OfGroups, p.Taken, p.Manager, x.ofGroups, x.taken, x.managerIs)
		}
		if x.ofGroups && p.Requirements.Get(label) == nil {
			t.Errorf("%s of %q requires no label %s: %v", x.kind, x.manager, label, p.Requirements)
		}
		claim, err := tr.ClaimObject(plan.CreateClaim{Name: "c", Pool: p})
		if err != nil {
			t.Fatal(err)
		}
		if claim.Spec.NodeClassRef.Group != x.group {
			t.Errorf("%s of %q: its NodeClaim names %+v", x.kind, x.manager, claim.Spec.NodeClassRef)
		}
	}
}

// A NodeClaim that keeps fewer values than its pool's minValues asks for says so, and asks for no more than it has.
func TestMinValuesRelaxed(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	for _, relaxed := range []bool{false, true} {
		r := model.OneOf(model.LabelInstanceType, "a", "b")
		r.MinValues = 2
		claim, err := tr.ClaimObject(plan.CreateClaim{Name: "c", Pool: &model.NodePool{Name: "p", ClassGroup: "karpenter.kwok.sh", ClassKind: "KWOKNodeClass", ClassName: "default"},
			Requirements: model.NewRequirements(r), MinValuesRelaxed: relaxed})
		if err != nil {
			t.Fatal(err)
		}
		if _, says := claim.Annotations[karpv1.AnnotationMinValuesRelaxed]; says != relaxed {
			t.Errorf("relaxed %t: annotations %v", relaxed, claim.Annotations)
		}
		if q := claim.Spec.Requirements; len(q) != 1 || q[0].MinValues == nil || *q[0].MinValues != 2 {
			t.Errorf("requirements %+v, want one with minValues 2", q)
		}
	}
}

// A node bears every label that its NodePool requires, whatever the operator: else it has drifted as soon as it is there,
// and so has each that replaces it.
func TestClaimBearsRequiredLabels(t *testing.T) {
	require := func(key string, op model.Operator, values ...string) model.Requirement {
		r, err := model.NewRequirement(key, op, values...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	pool := &model.NodePool{Name: "p", ClassGroup: "karpenter.kwok.sh", ClassKind: "KWOKNodeClass", ClassName: "default", Labels: model.Labels{"example.com/given": "x"},
		Requirements: model.NewRequirements(require("example.com/cpu", model.OpLt, "9"), require("example.com/team", model.OpIn, "b", "a"),
			require("example.com/any", model.OpExists), require("example.com/not", model.OpNotIn, "z"), require("example.com/given", model.OpExists),
			require("example.com/size", model.OpGt, "1"), require("topology.kubernetes.io/zone", model.OpIn, "a", "b"))}
	claim, err := (&Translator{Table: state.NewResourceTable()}).ClaimObject(plan.CreateClaim{Name: "c", Pool: pool, Requirements: pool.Requirements,
		Types: []*model.InstanceType{{Name: "small", Labels: model.Labels{"example.com/size": "2"}}, {Name: "large", Labels: model.Labels{"example.com/size": "4"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"example.com/cpu": "8", "example.com/team": "a", "example.com/any": "any", "example.com/not": "", "example.com/given": "x",
		"example.com/size": "", "topology.kubernetes.io/zone": ""} { // size and zone are those of the instance that will be launched
		if have := claim.Labels[key]; have != want {
			t.Errorf("label %s is %q, want %q", key, have, want)
		}
	}
}

// A NodeClaim of somebody else names its maker, in the same way when it is created again; one of Dovetail's has none.
func TestMakerOfClaim(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	pool := &model.NodePool{Name: "p", ClassGroup: "karpenter.kwok.sh", ClassKind: "KWOKNodeClass", ClassName: "default"}
	for _, reserved := range []bool{true, false} {
		own, err := tr.ClaimObject(plan.CreateClaim{Name: "c", Pool: pool, Reserved: reserved})
		if err != nil {
			t.Fatal(err)
		}
		if c := tr.NodeClaim(own); c.Maker != "" {
			t.Errorf("reserved %t: a NodeClaim of Dovetail's is for %q", reserved, c.Maker)
		}
	}
	other := &karpv1.NodeClaim{}
	other.Name = "web-x7"
	for want, change := range map[string]func(*karpv1.NodeClaim){
		"web-x7": func(c *karpv1.NodeClaim) { c.OwnerReferences = []metav1.OwnerReference{PoolReference("p", "uid-p")} },
		"web-":   func(c *karpv1.NodeClaim) { c.GenerateName = "web-" },
		"machineset/web": func(c *karpv1.NodeClaim) {
			c.GenerateName, c.OwnerReferences = "web-", []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "MachineSet", Name: "web"}}
		},
	} {
		c := other.DeepCopy()
		change(c)
		if have := tr.NodeClaim(c).Maker; have != want {
			t.Errorf("a NodeClaim is for %q, want %q", have, want)
		}
	}
}
