// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// DefaultNodeClass is the node class of a Provisioner that names none.
const DefaultNodeClass = "default"

// ProvisionerDefaults are what a Provisioner leaves to its cluster.
type ProvisionerDefaults struct {
	OnAWS             bool   // node classes are EC2NodeClasses; else KWOKNodeClasses
	InstanceProfile   string // of a spec.provider that names none; empty: there is none
	KubernetesVersion string // minor, such as 1.36; empty: not known
}

// TranslateProvisioner is the NodePool that means what a Provisioner says, the EC2NodeClass where it has AWS's settings in place
// (else nil), and what came over and what did not. Both have every field that the API server would default, so that they can be
// compared with what is there.
func TranslateProvisioner(p *karpv1alpha5.Provisioner, defaults ProvisionerDefaults) (*karpv1.NodePool, *awsv1.EC2NodeClass, karpv1alpha5.Translation) {
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
			out.Spec.Template.Labels[label(k)] = v
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
		ruled[label(k)] = true
	}
	spec.Requirements = []karpv1.Requirement{}
	for _, r := range s.Requirements {
		ruled[label(r.Key)] = true
		spec.Requirements = append(spec.Requirements, karpv1.Requirement{Key: label(r.Key), Operator: r.Operator, Values: slices.Clone(r.Values)})
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

// Provisioners keeps for each Provisioner a NodePool that it owns, and on AWS for each AWSNodeTemplate an EC2NodeClass, until the
// context ends. It works on what Watch sees.
func Provisioners(ctx context.Context, c *Client, log *slog.Logger) error {
	wait := newBackoff(100*time.Millisecond, 10*time.Second)
	for {
		failed := c.syncNodeTemplates(ctx, log)
		for _, p := range c.provisioners.sorted() {
			if p.DeletionTimestamp != nil {
				continue // its NodePool goes with it
			}
			if err := c.syncProvisioner(ctx, p); err != nil && ctx.Err() == nil {
				failed = err
				log.Warn("writing the NodePool for a Provisioner failed, trying again", "provisioner", p.Name, "error", err)
			}
		}
		var again <-chan time.Time
		if failed != nil {
			again = time.After(wait.next())
		} else {
			wait.reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.provisionerChanged.c():
		case <-c.poolChanged.c():
		case <-again:
		}
	}
}

func (c *Client) syncProvisioner(ctx context.Context, p *karpv1alpha5.Provisioner) error {
	want, class, translation := TranslateProvisioner(p, c.Provisioners)
	translated := model.Condition{Status: string(metav1.ConditionTrue), Reason: karpv1alpha5.ReasonTranslated}
	if len(translation.Untranslated) > 0 {
		var fields []string
		for _, u := range translation.Untranslated {
			fields = append(fields, u.Field)
		}
		translated = model.Condition{
			Status: string(metav1.ConditionFalse), Reason: karpv1alpha5.ReasonPartlyTranslated, Message: "without effect: " + strings.Join(fields, ", "),
		}
	}
	var trouble error
	if r := want.Spec.Template.Spec.NodeClassRef; r.Group == kwokv1alpha1.Group && r.Name == DefaultNodeClass {
		trouble = c.ensureDefaultClass(ctx)
	}
	if class != nil {
		trouble = c.writeClass(ctx, p, class)
	}
	have, exists := c.pools.get(p.Name)
	if exists && !metav1.IsControlledBy(have, p) {
		exists = false
		trouble = nil
		translated = model.Condition{
			Status: string(metav1.ConditionFalse), Reason: karpv1alpha5.ReasonNodePoolConflict,
			Message: "NodePool " + p.Name + " exists and was not made from this Provisioner; rename one of them",
		}
		have = nil
	} else if err := c.writePool(ctx, have, want); err != nil {
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
			return fmt.Errorf("write nodepool %q: %w", p.Name, err)
		}
		translated = model.Condition{Status: string(metav1.ConditionFalse), Reason: karpv1alpha5.ReasonNodePoolRejected, Message: err.Error()}
	}
	return errors.Join(trouble, c.provisionerStatus(ctx, p, have, translation, translated))
}

// writePool makes the NodePool, or makes the one there what it should be. Metadata that others wrote stays.
func (c *Client) writePool(ctx context.Context, have, want *karpv1.NodePool) error {
	if have == nil {
		err := c.Karpenter.Post().Resource("nodepools").Body(want).Do(ctx).Error()
		if apierrors.IsAlreadyExists(err) {
			return nil // the watch is about to tell whose it is
		}
		return err
	}
	next := have.DeepCopy()
	next.TypeMeta = want.TypeMeta
	next.Spec = want.Spec
	if v, ok := want.Annotations[karpv1.AnnotationProviderCompatibility]; ok {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, karpv1.AnnotationProviderCompatibility, v)
	} else {
		delete(next.Annotations, karpv1.AnnotationProviderCompatibility)
	}
	if sameJSON(have.Spec, next.Spec) && maps.Equal(have.Annotations, next.Annotations) {
		return nil
	}
	err := c.Karpenter.Put().Resource("nodepools").Name(next.Name).Body(next).Do(ctx).Error()
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it has changed or gone: the watch will tell, and this runs again
	}
	return err
}

func (c *Client) ensureDefaultClass(ctx context.Context) error {
	if _, ok := c.kwokClasses.get(DefaultNodeClass); ok {
		return nil
	}
	class := &kwokv1alpha1.KWOKNodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: kwokv1alpha1.GroupVersion.String(), Kind: kwokv1alpha1.KindKWOKNodeClass},
		ObjectMeta: metav1.ObjectMeta{Name: DefaultNodeClass},
	}
	err := c.KWOK.Post().Resource("kwoknodeclasses").Body(class).Do(ctx).Error()
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("create kwoknodeclass %q: %w", DefaultNodeClass, err)
}

func (c *Client) provisionerStatus(ctx context.Context, p *karpv1alpha5.Provisioner, pool *karpv1.NodePool, t karpv1alpha5.Translation, translated model.Condition) error {
	want := map[string]model.Condition{karpv1alpha5.ConditionTranslated: translated, karpv1alpha5.ConditionReady: {
		Status: string(metav1.ConditionUnknown), Reason: karpv1.ReasonAwaitingReconciliation, Message: "NodePool " + p.Name + " has not been validated yet",
	}}
	status := map[string]any{}
	now := time.Now()
	if pool != nil {
		if r, ok := conditions(pool.Status.Conditions)[karpv1.ConditionReady]; ok {
			want[karpv1alpha5.ConditionReady] = r
		}
		if !sameJSON(p.Status.Resources, pool.Status.Resources) {
			status["resources"] = replaceList(p.Status.Resources, pool.Status.Resources)
			if a, b := p.Status.Resources[karpv1.ResourceNodes], pool.Status.Resources[karpv1.ResourceNodes]; a.Cmp(b) != 0 {
				status["lastScaleTime"] = metav1.NewTime(now)
			}
		}
	} else if translated.Reason == karpv1alpha5.ReasonNodePoolConflict || translated.Reason == karpv1alpha5.ReasonNodePoolRejected {
		want[karpv1alpha5.ConditionReady] = model.Condition{Status: string(metav1.ConditionFalse), Reason: translated.Reason, Message: translated.Message}
	}
	if list, changed := mergeConditions(p.Status.Conditions, want, p.Generation, now); changed {
		status["conditions"] = list
	}
	if !sameJSON(p.Status.Translation, t) {
		status["translation"] = t
	}
	if len(status) == 0 {
		return nil
	}
	k := kind[*karpv1alpha5.Provisioner]{name: "provisioner", resource: "provisioners", client: c.provisioner, have: &c.provisioners}
	body := map[string]any{"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion}, "status": status}
	_, err := k.patch(ctx, p.Name, types.MergePatchType, body, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it has changed or gone: the watch will tell, and this runs again
	}
	return classify(err, "update status of", "provisioner", p.Name)
}
