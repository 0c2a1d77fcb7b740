// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// syncNodeTemplates makes EC2NodeClasses of all AWSNodeTemplates, and returns the last failure to do so, which is logged.
func (s *provisionerSync) syncNodeTemplates(ctx context.Context) (failed error) {
	if !s.defaults.OnAWS {
		return nil
	}
	for _, n := range s.c.Seen.NodeTemplates.Sorted() {
		if n.DeletionTimestamp != nil {
			continue // its EC2NodeClass goes with it
		}
		if err := s.syncNodeTemplate(ctx, n); err != nil && ctx.Err() == nil {
			failed = err
			s.log.Warn("writing the EC2NodeClass for an AWSNodeTemplate failed, trying again", "awsnodetemplate", n.Name, "error", err)
		}
	}
	return failed
}

func (s *provisionerSync) syncNodeTemplate(ctx context.Context, n *awsv1alpha1.AWSNodeTemplate) error {
	class, said, unusable := translate.NodeTemplate(n, s.defaults)
	verdict := model.Condition{Status: string(metav1.ConditionTrue), Reason: karpv1alpha5.ReasonTranslated}
	switch {
	case unusable != nil:
		verdict = model.Condition{Status: string(metav1.ConditionFalse), Reason: awsv1alpha1.ReasonNotTranslated, Message: unusable.Error()}
	case len(said.Untranslated) > 0:
		var fields []string
		for _, u := range said.Untranslated {
			fields = append(fields, u.Field)
		}
		verdict = model.Condition{Status: string(metav1.ConditionFalse), Reason: karpv1alpha5.ReasonPartlyTranslated, Message: "without effect: " + strings.Join(fields, ", ")}
	}
	var trouble error
	if class != nil {
		trouble = s.writeClass(ctx, n, class)
		if errors.Is(trouble, errNotOwned) {
			verdict = model.Condition{Status: string(metav1.ConditionFalse), Reason: awsv1alpha1.ReasonEC2NodeClassConflict, Message: trouble.Error()}
			trouble = nil
		}
	}
	return errors.Join(trouble, s.nodeTemplateStatus(ctx, n, said, verdict))
}

// nodeTemplateStatus writes what became of an AWSNodeTemplate where its status says something else.
func (s *provisionerSync) nodeTemplateStatus(ctx context.Context, n *awsv1alpha1.AWSNodeTemplate, said awsv1alpha1.Translation, translated model.Condition) error {
	status := map[string]any{}
	want := map[string]model.Condition{karpv1alpha5.ConditionTranslated: translated}
	if list, changed := mergeConditions(n.Status.Conditions, want, n.Generation, time.Now()); changed {
		status["conditions"] = list
	}
	if !sameJSON(n.Status.Translation, said) {
		status["translation"] = said
	}
	if len(status) == 0 {
		return nil
	}
	k := kind[*awsv1alpha1.AWSNodeTemplate]{name: "awsnodetemplate", resource: "awsnodetemplates", client: s.c.AWSAlpha, have: &s.c.Seen.NodeTemplates}
	return k.patchStatus(ctx, n, status)
}
