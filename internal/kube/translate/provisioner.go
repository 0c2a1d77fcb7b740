// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

// DefaultNodeClass is the node class of a Provisioner without one.
const DefaultNodeClass = "default"

// ProvisionerDefaults are cluster-wide settings for Provisioners.
type ProvisionerDefaults struct {
	OnAWS             bool   // node classes are EC2NodeClasses; otherwise KWOKNodeClasses
	InstanceProfile   string // for a spec.provider without one; empty: none
	KubernetesVersion string // minor version, e.g. 1.36; empty: unknown
}

// Provisioner converts a Provisioner to a NodePool, with an EC2NodeClass if it has inline AWS settings (otherwise nil),
// and returns which fields were converted. All API server defaults are set, so that they can be compared with stored
// objects.
func Provisioner(p *karpv1alpha5.Provisioner, defaults ProvisionerDefaults) (*karpv1.NodePool, *awsv1.EC2NodeClass, karpv1alpha5.Translation) {
	s := &p.Spec
	yes := true
	out := &karpv1.NodePool{
		TypeMeta: metav1.TypeMeta{APIVersion: karpv1.GroupVersion.String(), Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: karpv1alpha5.GroupVersion.String(), Kind: "Provisioner", Name: p.Name, UID: p.UID, Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
	}
	t := karpv1alpha5.Translation{ObservedGeneration: p.Generation, NodePool: p.Name}
	came := func(from, to string) {
		t.Translated = append(t.Translated, karpv1alpha5.TranslatedField{Field: from, NodePoolField: to})
	}
	lost := func(field, why string) {
		t.Untranslated = append(t.Untranslated, karpv1alpha5.UntranslatedField{Field: field, Message: why})
	}
	spec := &out.Spec.Template.Spec

	if len(s.Annotations) > 0 {
		out.Spec.Template.Annotations = maps.Clone(s.Annotations)
		came("spec.annotations", "spec.template.metadata.annotations")
	}
	if len(s.Labels) > 0 {
		out.Spec.Template.Labels = map[string]string{}
		for k, v := range s.Labels {
			out.Spec.Template.Labels[CanonicalLabel(k)] = v
		}
		came("spec.labels", "spec.template.metadata.labels")
	}
	if len(s.Taints) > 0 {
		spec.Taints = slices.Clone(s.Taints)
		came("spec.taints", "spec.template.spec.taints")
	}
	if len(s.StartupTaints) > 0 {
		spec.StartupTaints = slices.Clone(s.StartupTaints)
		came("spec.startupTaints", "spec.template.spec.startupTaints")
	}
	ruled := map[string]bool{}
	for k := range s.Labels {
		ruled[CanonicalLabel(k)] = true
	}
	spec.Requirements = []karpv1.Requirement{}
	for _, r := range s.Requirements {
		ruled[CanonicalLabel(r.Key)] = true
		spec.Requirements = append(spec.Requirements, karpv1.Requirement{Key: CanonicalLabel(r.Key), Operator: r.Operator, Values: slices.Clone(r.Values)})
	}
	if len(s.Requirements) > 0 {
		came("spec.requirements", "spec.template.spec.requirements")
	}
	for _, d := range [][2]string{
		{karpv1.LabelCapacityType, karpv1.CapacityTypeOnDemand}, {corev1.LabelArchStable, karpv1.ArchitectureAMD64}, {corev1.LabelOSStable, "linux"},
	} {
		if !ruled[d[0]] {
			spec.Requirements = append(spec.Requirements, karpv1.Requirement{Key: d[0], Operator: corev1.NodeSelectorOpIn, Values: []string{d[1]}})
			came("spec.requirements without "+d[0], "spec.template.spec.requirements: "+d[0]+" In ["+d[1]+"]")
		}
	}
	// What Karpenter's AWS webhook wrote into Provisioners that chose no instance types, from v0.19 on.
	if defaults.OnAWS && !slices.ContainsFunc([]string{corev1.LabelInstanceTypeStable, awsv1.LabelInstanceFamily, awsv1.LabelInstanceCategory, awsv1.LabelInstanceGeneration}, func(key string) bool { return ruled[key] }) {
		spec.Requirements = append(spec.Requirements,
			karpv1.Requirement{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
			karpv1.Requirement{Key: awsv1.LabelInstanceGeneration, Operator: corev1.NodeSelectorOpGt, Values: []string{"2"}})
		came("spec.requirements without instance type, family, category and generation", "spec.template.spec.requirements: "+awsv1.LabelInstanceCategory+" In [c m r], "+awsv1.LabelInstanceGeneration+" Gt [2]")
	}
	var owned *awsv1.EC2NodeClass
	var unusable error
	if s.Provider != nil {
		owned, unusable = provisionerClass(p, defaults, came, lost)
	}
	if s.KubeletConfiguration != nil && owned == nil {
		lost("spec.kubeletConfiguration", "the kubelet is configured by the node class; set it there")
	}
	spec.NodeClassRef = &karpv1.NodeClassReference{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: DefaultNodeClass}
	if defaults.OnAWS {
		spec.NodeClassRef.Group, spec.NodeClassRef.Kind = awsv1.Group, awsv1.KindEC2NodeClass
	}
	if owned != nil {
		spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass, Name: owned.Name}
	} else if s.Provider != nil {
		out.Annotations = map[string]string{karpv1.AnnotationProviderCompatibility: string(s.Provider.Raw)}
		lost("spec.provider", "kept in annotation "+karpv1.AnnotationProviderCompatibility+" of the NodePool, where nothing reads it: "+unusable.Error())
	}
	ref := s.ProviderRef
	if ref != nil {
		class := spec.NodeClassRef
		group, _, _ := strings.Cut(ref.APIVersion, "/")
		switch {
		case ref.Name == "":
			lost("spec.providerRef", "it has no name; the "+class.Kind+" named "+class.Name+" is used")
			ref = nil
		case ref.Kind == "":
			class.Name = ref.Name
		case ref.Kind == kwokv1alpha1.KindKWOKNodeClass:
			class.Name = ref.Name
		case ref.Kind == awsv1alpha1.KindAWSNodeTemplate && defaults.OnAWS: // it becomes an EC2NodeClass of its name
			class.Group, class.Kind, class.Name = awsv1.Group, awsv1.KindEC2NodeClass, ref.Name
		case group == "" && ref.Kind == awsv1alpha1.KindAWSNodeTemplate:
			class.Group, class.Kind, class.Name = "karpenter.k8s.aws", ref.Kind, ref.Name
		case group == "" || !strings.Contains(ref.APIVersion, "/"):
			lost("spec.providerRef", "apiVersion "+strconv.Quote(ref.APIVersion)+" names no group; the "+class.Kind+" named "+class.Name+" is used")
			ref = nil
		default:
			class.Group, class.Kind, class.Name = group, ref.Kind, ref.Name
		}
	}
	from := "spec.providerRef"
	switch {
	case owned != nil && ref == nil:
		from = "spec.provider"
	case ref == nil:
		from = "spec without a usable providerRef"
	}
	came(from, "spec.template.spec.nodeClassRef: "+spec.NodeClassRef.Group+"/"+spec.NodeClassRef.Kind+" "+spec.NodeClassRef.Name)

	d := &out.Spec.Disruption
	seconds := func(n int64) karpv1.NillableDuration {
		v := karpv1.NillableDurationOf(time.Duration(n) * time.Second)
		v.Text = strconv.FormatInt(n, 10) + "s"
		return v
	}
	consolidates := s.Consolidation != nil && s.Consolidation.Enabled != nil && *s.Consolidation.Enabled
	d.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
	switch {
	case s.TTLSecondsAfterEmpty != nil && !consolidates:
		d.ConsolidateAfter = seconds(*s.TTLSecondsAfterEmpty)
		came("spec.ttlSecondsAfterEmpty", "spec.disruption: consolidationPolicy=WhenEmpty consolidateAfter="+d.ConsolidateAfter.String())
	case consolidates:
		d.ConsolidationPolicy, d.ConsolidateAfter = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, seconds(0)
		came("spec.consolidation.enabled", "spec.disruption: consolidationPolicy=WhenEmptyOrUnderutilized consolidateAfter=0s")
	default:
		came("spec without ttlSecondsAfterEmpty and consolidation", "spec.disruption: consolidationPolicy=WhenEmpty consolidateAfter=Never")
	}
	if s.TTLSecondsAfterEmpty != nil && consolidates {
		lost("spec.ttlSecondsAfterEmpty", "spec.consolidation.enabled excludes it")
	}
	if s.TTLSecondsUntilExpired != nil {
		spec.ExpireAfter = seconds(*s.TTLSecondsUntilExpired)
		came("spec.ttlSecondsUntilExpired", "spec.template.spec.expireAfter="+spec.ExpireAfter.String())
	} else {
		came("spec without ttlSecondsUntilExpired", "spec.template.spec.expireAfter=Never")
	}
	if s.Limits != nil && len(s.Limits.Resources) > 0 {
		out.Spec.Limits = karpv1.Limits(maps.Clone(s.Limits.Resources))
		came("spec.limits.resources", "spec.limits")
	}
	if s.Weight != nil {
		w := *s.Weight
		out.Spec.Weight = &w
		came("spec.weight", "spec.weight="+strconv.FormatInt(int64(w), 10))
	}
	d.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	came("spec without budgets", "spec.disruption.budgets: nodes=100%")
	return out, owned, t
}
