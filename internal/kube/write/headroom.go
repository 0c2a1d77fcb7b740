// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Headrooms are the watched Headrooms, with methods that write their CapacityBuffers and their status.
type Headrooms struct {
	*watch.Headrooms
	c       *client.Client
	now     func() time.Time
	counted map[string]time.Time // by namespace/name: when the counters of a status were last written
}

// NewHeadrooms returns the Headrooms of a cluster. It is not safe for concurrent use.
func NewHeadrooms(c *client.Client, t *translate.Translator, now func() time.Time) *Headrooms {
	return &Headrooms{Headrooms: watch.NewHeadrooms(c, t), c: c, now: now, counted: map[string]time.Time{}}
}

// buffersPath returns the API path of the CapacityBuffers of a namespace.
func buffersPath(namespace string) string {
	return "/apis/" + bufferv1beta1.GroupVersion.String() + "/namespaces/" + namespace + "/capacitybuffers"
}

// WriteBuffers creates, changes and deletes the CapacityBuffers of a Headroom so that they match holds: none for a
// workload without held capacity. It is idempotent, because names are derived from the Headroom and the workload.
func (x *Headrooms) WriteBuffers(ctx context.Context, s *headroom.Spec, holds []headroom.Hold) error {
	raw, err := x.c.Dovetail.Get().AbsPath(buffersPath(s.Namespace)).Param("labelSelector", dovetailv1alpha1.LabelHeadroom+"="+headroomLabel(s.Name)).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("hold capacity for Headroom %s: API server %s does not serve capacitybuffers.%s: install the CustomResourceDefinitions of charts/dovetail/crds",
			s.Key(), x.c.Address, bufferv1beta1.GroupVersion)
	}
	var have bufferv1beta1.CapacityBufferList
	if err == nil {
		err = json.Unmarshal(raw, &have)
	}
	if err != nil {
		return fmt.Errorf("list capacitybuffers of headroom %s: %w", s.Key(), err)
	}
	wanted := map[string]headroom.Hold{}
	for _, d := range holds {
		if d.Held+d.Coming > 0 {
			wanted[bufferName(s.Name, d.Workload)] = d
		}
	}
	for i := range have.Items {
		b := &have.Items[i]
		if !ownedBy(b, s.UID) || b.DeletionTimestamp != nil {
			continue
		}
		d, ok := wanted[b.Name]
		if ok {
			if b.Spec.Replicas != nil && int(*b.Spec.Replicas) == d.Held+d.Coming && maps.Equal(bufferAnnotations(s, d), b.Annotations) {
				delete(wanted, b.Name)
			}
			continue
		}
		err := x.c.Dovetail.Delete().AbsPath(buffersPath(s.Namespace), b.Name).Body(deleteOptions(string(b.UID), nil)).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete capacitybuffer %s/%s of headroom %s: %w", s.Namespace, b.Name, s.Key(), err)
		}
	}
	for _, d := range holds { // in their order
		name := bufferName(s.Name, d.Workload)
		if _, ok := wanted[name]; !ok {
			continue
		}
		body, err := json.Marshal(x.buffer(s, d))
		if err != nil {
			return fmt.Errorf("write capacitybuffer %s/%s: %w", s.Namespace, name, err)
		}
		err = x.c.Dovetail.Patch(types.ApplyYAMLPatchType).AbsPath(buffersPath(s.Namespace), name).Param("fieldManager", "dovetail-headroom").
			Param("force", "true").Body(body).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("write capacitybuffer %s/%s of headroom %s: %w", s.Namespace, name, s.Key(), err)
		}
	}
	return nil
}

// buffer is the CapacityBuffer that holds the room of d, as server-side apply takes it.
func (x *Headrooms) buffer(s *headroom.Spec, d headroom.Hold) map[string]any {
	spec := map[string]any{"provisioningStrategy": bufferv1beta1.StrategyActiveCapacity, "replicas": d.Held + d.Coming}
	if s.Template {
		spec["podTemplateRef"] = map[string]any{"name": d.Workload.Name}
	} else {
		spec["scalableRef"] = map[string]any{"apiGroup": d.Workload.Group, "kind": d.Workload.Kind, "name": d.Workload.Name}
	}
	return map[string]any{
		"apiVersion": bufferv1beta1.GroupVersion.String(), "kind": "CapacityBuffer",
		"metadata": map[string]any{
			"name": bufferName(s.Name, d.Workload), "namespace": s.Namespace, "labels": map[string]any{dovetailv1alpha1.LabelHeadroom: headroomLabel(s.Name)},
			"annotations": bufferAnnotations(s, d),
			"ownerReferences": []any{map[string]any{
				"apiVersion": dovetailv1alpha1.GroupVersion.String(), "kind": dovetailv1alpha1.KindHeadroom, "name": s.Name, "uid": s.UID, "controller": true,
			}},
		},
		"spec": spec,
	}
}

// bufferAnnotations has a workload's buffer give way as the workload grows, before it is written anew.
func bufferAnnotations(s *headroom.Spec, d headroom.Hold) map[string]string {
	if s.Template {
		return nil
	}
	return map[string]string{model.AnnotationTotalReplicas: strconv.Itoa(d.Replicas + d.Held)}
}

// bufferName is the name of the CapacityBuffer that a Headroom has for a workload.
func bufferName(owner string, w headroom.WorkloadName) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + w.Group + "\x00" + w.Kind + "\x00" + w.Name))
	name := strings.ToLower(owner + "-" + w.Name)
	return strings.TrimRight(name[:min(len(name), 200)], "-.") + "-" + hex.EncodeToString(sum[:4])
}

// headroomLabel is a Headroom's name as a label can have it. Longer names share one; their buffers are told apart by
// their owner.
func headroomLabel(name string) string { return strings.TrimRight(name[:min(len(name), 63)], "-.") }

func ownedBy(b *bufferv1beta1.CapacityBuffer, uid string) bool {
	return slices.ContainsFunc(b.OwnerReferences, func(o metav1.OwnerReference) bool { return string(o.UID) == uid })
}
