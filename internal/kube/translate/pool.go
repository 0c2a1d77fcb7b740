// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Annotations of a NodeClaim that store its reservation (contract 9) and its devices across restarts of the controller.
const (
	// AnnotationSlots is a JSON list of model.Slot.
	AnnotationSlots = "dovetail.sh/slots"
	// AnnotationRequestedDevices and AnnotationDevices are the devices requested by the pods of a NodeClaim, and the
	// devices its node will have for pods, as a JSON object of counts by resource name. The resources of a NodeClaim
	// cannot express them.
	AnnotationRequestedDevices = "dovetail.sh/requested-devices"
	AnnotationDevices          = "dovetail.sh/devices"
)

// NodePool translates a NodePool. An invalid NodePool is not Ready, and NotReady names the object, the field, the value
// and the remedy. The provider sets Types.
func (t *Translator) NodePool(p *karpv1.NodePool) *model.NodePool {
	spec := &p.Spec.Template.Spec
	out := &model.NodePool{
		Name: p.Name, UID: string(p.UID), Labels: p.Spec.Template.Labels, Annotations: p.Spec.Template.Annotations,
		Taints: taints(spec.Taints), StartupTaints: taints(spec.StartupTaints), NodeLimit: -1, Replicas: -1,
		ExpireAfter: nillable(spec.ExpireAfter), TerminationGracePeriod: duration(spec.TerminationGracePeriod),
		ConsolidateAfter:    nillable(p.Spec.Disruption.ConsolidateAfter),
		ConsolidationPolicy: string(cmp.Or(p.Spec.Disruption.ConsolidationPolicy, karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized)),
		Deleting:            p.DeletionTimestamp != nil, Ready: true,
	}
	out.Surge, out.RestartCost = p.Annotations[model.AnnotationSurge], p.Annotations[model.AnnotationRestartCost]
	out.StatusHash = p.Annotations[karpv1.AnnotationNodePoolHash]
	if p.Annotations[karpv1.AnnotationNodePoolHashVersion] != karpv1.NodePoolHashVersion {
		out.StatusHash = "" // another rule's number: not comparable
	}
	out.Conditions = Conditions(p.Status.Conditions)
	if p.Status.Nodes != nil {
		out.StatusNodes = *p.Status.Nodes
	}
	out.StatusClassGeneration = p.Status.NodeClassObservedGeneration
	if len(p.Status.Resources) > 0 {
		have := maps.Clone(p.Status.Resources)
		delete(have, karpv1.ResourceNodes)
		out.StatusResources = t.Resources(have, 0)
	}
	out.LetGo = IsDiscovered(p) && p.Annotations[dovetailv1alpha1.AnnotationLetGo] == karpv1.LabelValueTrue
	if p.Spec.Weight != nil {
		out.Weight = *p.Spec.Weight
	}
	if p.Spec.Replicas != nil {
		out.Replicas = *p.Spec.Replicas
	}
	for i := range p.OwnerReferences {
		if o := &p.OwnerReferences[i]; o.Kind == "Provisioner" && strings.HasPrefix(o.APIVersion, karpv1alpha5.Group+"/") {
			out.Provisioner = o.Name
		}
	}
	fail := func(field, message string) {
		if out.Ready {
			out.Ready = false
			out.NotReady = model.Condition{
				Status: string(metav1.ConditionFalse), Reason: karpv1.ReasonNodePoolValidationFailed,
				Message: "nodepool " + p.Name + ": " + field + ": " + message,
			}
		}
	}

	if len(p.Name) > validation.LabelValueMaxLength {
		fail("metadata.name", fmt.Sprintf("%d characters, want at most %d: it is the value of label %s on each NodeClaim and node; create the NodePool under a shorter name",
			len(p.Name), validation.LabelValueMaxLength, model.LabelNodePool))
	}
	if r := spec.NodeClassRef; r == nil || r.Kind == "" || r.Name == "" || r.Group == "" {
		fail("spec.template.spec.nodeClassRef", "group, kind and name are required; set those of the node class")
	} else {
		out.ClassGroup, out.Taken = ClassGroup(r.Group)
		out.ClassKind, out.ClassName = r.Kind, r.Name
	}
	aliased := out.Taken
	out.OfGroups = IsGroupClass(out.ClassKind)
	out.Discovered = p.Labels[dovetailv1alpha1.LabelDiscovered] == karpv1.LabelValueTrue
	out.Manager, out.Release = p.Annotations[AnnotationManagedBy], p.Annotations[AnnotationRelease]
	if out.Manager == ManagedByDovetail {
		out.Manager, out.Taken = "", out.Taken || out.OfGroups
	}

	for _, k := range slices.Sorted(maps.Keys(p.Spec.Template.Labels)) {
		if why := restricted(k); why != "" {
			fail("spec.template.metadata.labels["+k+"]", why)
		}
		out.Requirements = out.Requirements.With(model.OneOf(CanonicalLabel(k), p.Spec.Template.Labels[k]))
	}
	for i := range spec.Requirements {
		field := "spec.template.spec.requirements[" + strconv.Itoa(i) + "]"
		if why := restricted(spec.Requirements[i].Key); why != "" {
			fail(field+".key", why)
			continue
		}
		r, err := Requirement(&spec.Requirements[i])
		if err != nil {
			fail(field, err.Error())
			continue
		}
		if spec.Requirements[i].Key == karpv1.LabelCapacityType && !r.Complement &&
			!slices.ContainsFunc(r.Values, func(v string) bool { return v == model.OnDemand || v == model.Spot || v == model.Reserved }) {
			fail(field+".values", fmt.Sprintf("none of %q is a capacity type; use on-demand, spot or reserved", r.Values))
		}
		for _, v := range spec.Requirements[i].Values {
			if wrong := validation.IsValidLabelValue(v); len(wrong) > 0 {
				fail(field+".values", fmt.Sprintf("%q can't be the value of a label: %s", v, wrong[0]))
			}
		}
		out.Requirements = out.Requirements.With(r)
	}
	for i := range out.Requirements {
		if out.Requirements[i].Empty() {
			fail("spec.template.spec.requirements", "no value of label "+out.Requirements[i].Key+
				" meets all requirements and template labels; remove one of them")
		}
	}
	own := map[string]string{model.LabelNodePool: p.Name}
	if out.ClassKind != "" && !aliased { // nodes that came before are labelled otherwise than those that come
		own[karpv1.NodeClassLabel(out.ClassGroup, out.ClassKind)] = out.ClassName
	}
	if out.Provisioner != "" {
		own[model.LabelProvisioner] = out.Provisioner
		// The API forbids this label in the template; it follows from the owner.
		out.Labels = maps.Clone(out.Labels)
		if out.Labels == nil {
			out.Labels = model.Labels{}
		}
		out.Labels[model.LabelProvisioner] = out.Provisioner
	}
	for k, v := range own {
		out.Requirements = out.Requirements.With(model.OneOf(k, v))
	}

	seen := map[string]string{}
	for _, f := range []struct {
		field string
		list  []corev1.Taint
	}{{"spec.template.spec.taints", spec.Taints}, {"spec.template.spec.startupTaints", spec.StartupTaints}} {
		for i := range f.list {
			k, at := f.list[i].Key+":"+string(f.list[i].Effect), f.field+"["+strconv.Itoa(i)+"]"
			if first, ok := seen[k]; ok {
				fail(at, "duplicates taint "+k+" of "+first+"; a node has each key and effect once, remove one")
			}
			seen[k] = at
		}
	}

	for _, name := range sortedNames(corev1.ResourceList(p.Spec.Limits)) {
		q := p.Spec.Limits[name]
		if name == karpv1.ResourceNodes {
			out.NodeLimit = AmountOf(q)
			continue
		}
		d := t.Table.Dim(string(name))
		v := AmountOf(q)
		if d == model.CPU {
			v = MilliOf(q)
		}
		out.Limits = out.Limits.With(d, v)
		for len(out.HasLimit) <= int(d) {
			out.HasLimit = append(out.HasLimit, false)
		}
		out.HasLimit[d] = true
	}
	for i := range p.Spec.Disruption.Budgets {
		b, err := Budget(&p.Spec.Disruption.Budgets[i])
		if err != nil {
			fail("spec.disruption.budgets["+strconv.Itoa(i)+"].nodes", err.Error())
		}
		out.Budgets = append(out.Budgets, b)
	}
	hash, err := untaken(p).Hash() // that of its claims, which stay as they are
	if err != nil {
		fail("spec.template", err.Error())
	}
	out.Hash = hash
	return out
}

// restricted returns why a label is not allowed in a pool's template, empty if it is allowed.
func restricted(key string) string {
	switch {
	case key == corev1.LabelHostname:
		return "label " + key + " is reserved: a node has no name before it is launched; remove it"
	case key == karpv1.LabelNodePool:
		return "label " + key + " is reserved: Dovetail sets it to the NodePool's name; remove it"
	case key == karpv1.LabelCapacityType:
		return ""
	}
	domain, _, ok := strings.Cut(key, "/")
	if ok && (domain == karpv1.Group || strings.HasSuffix(domain, "."+karpv1.Group)) {
		return "label " + key + ": labels of the domain " + karpv1.Group + " are reserved, except " + karpv1.LabelCapacityType + "; remove it"
	}
	if !ok || domain != awsv1.Group && !strings.HasSuffix(domain, "."+awsv1.Group) {
		return ""
	}
	if known := awsv1.WellKnownLabels(); !slices.Contains(known, key) {
		why := "label " + key + " is unknown: no node would ever have it, since labels of the domain " + awsv1.Group + " are set by Dovetail alone"
		if like := nearest(key, known); like != "" {
			why += "; did you mean " + like + "?"
		}
		return why
	}
	return ""
}

// nearest is the one of several words with the fewest letters to add, remove or replace, the first of those; empty if
// that takes more than three.
func nearest(word string, words []string) (best string) {
	least := 4
	for _, w := range words {
		if d := model.EditDistance(word, w, least); d < least {
			least, best = d, w
		}
	}
	return best
}

// Requirement translates one requirement.
func Requirement(r *karpv1.Requirement) (model.Requirement, error) {
	out, err := model.NewRequirement(CanonicalLabel(r.Key), model.Operator(r.Operator), r.Values...)
	if r.MinValues != nil {
		out.MinValues = *r.MinValues
	}
	return out, err
}

func nillable(d karpv1.NillableDuration) time.Duration {
	if d.Duration == nil {
		return -1
	}
	return *d.Duration
}

func duration(d *metav1.Duration) time.Duration {
	if d == nil {
		return -1
	}
	return d.Duration
}

// Budget returns a disruption budget. With an error, the budget allows no nodes: a mistake must not make things move.
func Budget(b *karpv1.Budget) (model.Budget, error) {
	out := model.Budget{}
	for _, r := range b.Reasons {
		out.Reasons = append(out.Reasons, string(r))
	}
	sort.Strings(out.Reasons)
	if b.Schedule != nil {
		out.Schedule = *b.Schedule
	}
	if b.Duration != nil {
		out.Duration = b.Duration.Duration
	}
	digits, percent := strings.CutSuffix(b.Nodes, "%")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || percent && n > 100 {
		return out, fmt.Errorf("%q is neither a count nor a percentage up to 100%%", b.Nodes)
	}
	out.Nodes, out.Percent = n, percent
	return out, nil
}
