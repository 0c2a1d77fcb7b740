// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func (a *Actor) bufferKind() kind[*bufferv1beta1.CapacityBuffer] {
	return kind[*bufferv1beta1.CapacityBuffer]{
		"capacitybuffer", "capacitybuffers", a.c.Buffers, &a.c.Seen.CapacityBuffers, func() *bufferv1beta1.CapacityBuffer { return &bufferv1beta1.CapacityBuffer{} },
	}
}

// UpdateBuffer writes the status of a CapacityBuffer.
func (a *Actor) UpdateBuffer(ctx context.Context, u plan.UpdateBuffer) (uint64, error) {
	k := a.bufferKind()
	return k.edit(ctx, "update", u.Namespace+"/"+u.Buffer, u.UID, func(cur *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
		list, changed := mergeConditions(cur.Status.Conditions, u.Conditions, cur.Generation, a.now())
		have := translate.BufferStatus(cur)
		if !changed && have.Replicas == u.Replicas && have.TemplateName == u.TemplateName && have.TemplateGeneration == u.TemplateGeneration && have.Strategy != "" {
			return cur, nil
		}
		status := map[string]any{"conditions": list, "replicas": nil, "podTemplateRef": nil, "podTemplateGeneration": nil, "provisioningStrategy": bufferv1beta1.StrategyActiveCapacity}
		if s := cur.Spec.ProvisioningStrategy; s != nil && *s != "" {
			status["provisioningStrategy"] = *s
		}
		if u.Replicas >= 0 {
			status["replicas"] = u.Replicas
		}
		if u.TemplateName != "" {
			status["podTemplateRef"], status["podTemplateGeneration"] = map[string]any{"name": u.TemplateName}, u.TemplateGeneration
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": status}
		return k.patch(ctx, u.Namespace+"/"+u.Buffer, types.MergePatchType, body, "status")
	})
}
