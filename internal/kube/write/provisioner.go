// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// provisionerSync writes what Provisioners and AWSNodeTemplates become.
type provisionerSync struct {
	c        *client.Client
	defaults translate.ProvisionerDefaults // what Provisioners leave to their cluster
	log      *slog.Logger
}

// Provisioners maintains a NodePool for each Provisioner, which owns it, and on AWS an EC2NodeClass for each
// AWSNodeTemplate, until the context ends. It uses objects seen by Watch.
func Provisioners(ctx context.Context, c *client.Client, defaults translate.ProvisionerDefaults, log *slog.Logger) error {
	s := &provisionerSync{c: c, defaults: defaults, log: log}
	wait := client.Backoff(100*time.Millisecond, 10*time.Second)
	for {
		failed := s.syncNodeTemplates(ctx)
		for _, p := range c.Seen.Provisioners.Sorted() {
			if p.DeletionTimestamp != nil {
				continue // its NodePool goes with it
			}
			if err := s.syncProvisioner(ctx, p); err != nil && ctx.Err() == nil {
				failed = err
				log.Warn("writing the NodePool for a Provisioner failed, trying again", "provisioner", p.Name, "error", err)
			}
		}
		var again <-chan time.Time
		if failed != nil {
			again = time.After(wait.Step())
		} else {
			wait = client.Backoff(100*time.Millisecond, 10*time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.Seen.ProvisionerChanged.C():
		case <-c.Seen.PoolChanged.C():
		case <-again:
		}
	}
}

func (s *provisionerSync) syncProvisioner(ctx context.Context, p *karpv1alpha5.Provisioner) error {
	want, class, translation := translate.Provisioner(p, s.defaults)
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
	if r := want.Spec.Template.Spec.NodeClassRef; r.Group == kwokv1alpha1.Group && r.Name == translate.DefaultNodeClass {
		trouble = s.ensureDefaultClass(ctx)
	}
	if class != nil {
		trouble = s.writeClass(ctx, p, class)
	}
	have, exists := s.c.Seen.Pools.Get(p.Name)
	if exists && !metav1.IsControlledBy(have, p) {
		exists = false
		trouble = nil
		translated = model.Condition{
			Status: string(metav1.ConditionFalse), Reason: karpv1alpha5.ReasonNodePoolConflict,
			Message: "NodePool " + p.Name + " exists and was not made from this Provisioner; rename one of them",
		}
		have = nil
	} else if err := s.writePool(ctx, have, want); err != nil {
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
			return fmt.Errorf("write nodepool %q: %w", p.Name, err)
		}
		translated = model.Condition{Status: string(metav1.ConditionFalse), Reason: karpv1alpha5.ReasonNodePoolRejected, Message: err.Error()}
	}
	return errors.Join(trouble, s.provisionerStatus(ctx, p, have, translation, translated))
}

// writePool creates or updates the NodePool. Metadata of other writers is kept.
func (s *provisionerSync) writePool(ctx context.Context, have, want *karpv1.NodePool) error {
	if have == nil {
		err := s.c.Karpenter.Post().Resource("nodepools").Body(want).Do(ctx).Error()
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
	err := s.c.Karpenter.Put().Resource("nodepools").Name(next.Name).Body(next).Do(ctx).Error()
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it has changed or gone: the watch will tell, and this runs again
	}
	return err
}

func (s *provisionerSync) ensureDefaultClass(ctx context.Context) error {
	if _, ok := s.c.Seen.KWOKClasses.Get(translate.DefaultNodeClass); ok {
		return nil
	}
	class := &kwokv1alpha1.KWOKNodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: kwokv1alpha1.GroupVersion.String(), Kind: kwokv1alpha1.KindKWOKNodeClass},
		ObjectMeta: metav1.ObjectMeta{Name: translate.DefaultNodeClass},
	}
	err := s.c.KWOK.Post().Resource("kwoknodeclasses").Body(class).Do(ctx).Error()
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("create kwoknodeclass %q: %w", translate.DefaultNodeClass, err)
}

func (s *provisionerSync) provisionerStatus(ctx context.Context, p *karpv1alpha5.Provisioner, pool *karpv1.NodePool, t karpv1alpha5.Translation, translated model.Condition) error {
	want := map[string]model.Condition{karpv1alpha5.ConditionTranslated: translated, karpv1alpha5.ConditionReady: {
		Status: string(metav1.ConditionUnknown), Reason: karpv1.ReasonAwaitingReconciliation, Message: "NodePool " + p.Name + " has not been validated yet",
	}}
	status := map[string]any{}
	now := time.Now()
	if pool != nil {
		if r, ok := translate.Conditions(pool.Status.Conditions)[karpv1.ConditionReady]; ok {
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
	k := kind[*karpv1alpha5.Provisioner]{name: "provisioner", resource: "provisioners", client: s.c.Provisioner, have: &s.c.Seen.Provisioners}
	return k.patchStatus(ctx, p, status)
}

// errNotOwned: an EC2NodeClass of the name is there and somebody else's.
var errNotOwned = errors.New("it exists and was not created from this Provisioner; rename one of them")

// writeClass creates or updates the EC2NodeClass of a Provisioner or an AWSNodeTemplate.
func (s *provisionerSync) writeClass(ctx context.Context, owner metav1.Object, want *awsv1.EC2NodeClass) error {
	have, ok := s.c.Seen.EC2Classes.Get(want.Name)
	if !ok {
		err := s.c.AWS.Post().Resource("ec2nodeclasses").Body(want).Do(ctx).Error()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("create ec2nodeclass %q: %w", want.Name, err)
	}
	if !metav1.IsControlledBy(have, owner) {
		return fmt.Errorf("create ec2nodeclass %q: %w", want.Name, errNotOwned)
	}
	if sameJSON(have.Spec, want.Spec) {
		return nil
	}
	next := have.DeepCopy()
	next.TypeMeta, next.Spec = want.TypeMeta, want.Spec
	err := s.c.AWS.Put().Resource("ec2nodeclasses").Name(next.Name).Body(next).Do(ctx).Error()
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // in the last two cases the watch will tell, and this runs again
	}
	return fmt.Errorf("update ec2nodeclass %q: %w", want.Name, err)
}
