// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	theirkwok "sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	theirbuffer "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	theirs "sigs.k8s.io/karpenter/pkg/apis/v1"
	theiralpha "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	ourbuffer "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	ours "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	ouralpha "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	ourkwok "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// What one writes the other reads, and writes again the same.
func TestJSON(t *testing.T) {
	t.Run("NodePool", func(t *testing.T) { sameJSON[ours.NodePool, theirs.NodePool](t) })
	t.Run("NodeClaim", func(t *testing.T) { sameJSON[ours.NodeClaim, theirs.NodeClaim](t) })
	t.Run("NodeOverlay", func(t *testing.T) { sameJSON[ouralpha.NodeOverlay, theiralpha.NodeOverlay](t) })
	t.Run("CapacityBuffer", func(t *testing.T) { sameJSON[ourbuffer.CapacityBuffer, theirbuffer.CapacityBuffer](t) })
	t.Run("KWOKNodeClass", func(t *testing.T) { sameJSON[ourkwok.KWOKNodeClass, theirkwok.KWOKNodeClass](t) })
}

func sameJSON[Ours, Theirs any](t *testing.T) {
	t.Run("theirs through ours", rapid.MakeCheck(func(t *rapid.T) { through[Theirs, Ours](t) }))
	t.Run("ours through theirs", rapid.MakeCheck(func(t *rapid.T) { through[Ours, Theirs](t) }))
}

func through[From, To any](t *rapid.T) {
	written := marshal(t, generator[From]().Draw(t, "object"))
	var to To
	if err := json.Unmarshal(written, &to); err != nil {
		t.Fatalf("read %s: %v", written, err)
	}
	before, after := plain(t, written), plain(t, marshal(t, to))
	if reflect.TypeFor[From]().Name() == "NodeOverlay" {
		// Karpenter's type leaves an empty list out, which the definition requires.
		for _, v := range []map[string]any{before, after} {
			if spec, ok := v["spec"].(map[string]any); ok && cmp.Equal(spec["requirements"], []any{}) {
				delete(spec, "requirements")
			}
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("written again it differs (-first +second):\n%s", diff)
	}
}

// The hash that Karpenter left on a NodePool and its NodeClaims is the one that we compute, so nothing drifts when one takes over
// from the other.
func TestNodePoolHash(t *testing.T) {
	if ours.NodePoolHashVersion != theirs.NodePoolHashVersion {
		t.Fatalf("our hash is of version %s, theirs of %s", ours.NodePoolHashVersion, theirs.NodePoolHashVersion)
	}
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		pool := generator[theirs.NodePool]().Draw(t, "pool")
		seen[sameHash(t, pool)] = true

		// What the hash leaves out, and an order that it doesn't see.
		hash := pool.Hash()
		pool.Spec.Template.Spec.Requirements = nil
		pool.Spec.Weight = nil
		pool.Spec.Limits = nil
		pool.Spec.Template.Spec.ExpireAfter.Raw = nil
		slices.Reverse(pool.Spec.Template.Spec.Taints)
		slices.Reverse(pool.Spec.Template.Spec.StartupTaints)
		if pool.Hash() != hash {
			t.Fatalf("Karpenter's hash sees what it is documented not to")
		}
		sameHash(t, pool)
	})
	if len(seen) < 10 {
		t.Errorf("only %d different hashes were compared", len(seen))
	}
}

func sameHash(t *rapid.T, pool theirs.NodePool) string {
	// Both read the same text, as they do from an API server.
	written := marshal(t, pool)
	var our ours.NodePool
	var their theirs.NodePool
	if err := json.Unmarshal(written, &our); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &their); err != nil {
		t.Fatal(err)
	}
	got, err := our.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if want := their.Hash(); got != want {
		t.Fatalf("hash %s, Karpenter's %s, of %s", got, want, written)
	}
	return got
}

// The names that are part of the interface are the same.
func TestNames(t *testing.T) {
	for _, pair := range [][2]string{
		{ours.LabelNodePool, theirs.NodePoolLabelKey},
		{ours.LabelCapacityType, theirs.CapacityTypeLabelKey},
		{ours.LabelRegistered, theirs.NodeRegisteredLabelKey},
		{ours.LabelInitialized, theirs.NodeInitializedLabelKey},
		{ours.LabelDoNotSyncTaints, theirs.NodeDoNotSyncTaintsLabelKey},
		{ours.CapacityTypeSpot, theirs.CapacityTypeSpot},
		{ours.CapacityTypeOnDemand, theirs.CapacityTypeOnDemand},
		{ours.CapacityTypeReserved, theirs.CapacityTypeReserved},
		{ours.ArchitectureAMD64, theirs.ArchitectureAmd64},
		{ours.ArchitectureARM64, theirs.ArchitectureArm64},
		{ours.AnnotationDoNotDisrupt, theirs.DoNotDisruptAnnotationKey},
		{ours.AnnotationNodePoolHash, theirs.NodePoolHashAnnotationKey},
		{ours.AnnotationNodePoolHashVersion, theirs.NodePoolHashVersionAnnotationKey},
		{ours.AnnotationTerminationTimestamp, theirs.NodeClaimTerminationTimestampAnnotationKey},
		{ours.AnnotationMinValuesRelaxed, theirs.NodeClaimMinValuesRelaxedAnnotationKey},
		{ours.AnnotationDRADrivers, theirs.DRADriversAnnotationKey},
		{ours.AnnotationDisruptionCost, theirs.DisruptionCostAnnotationKey},
		{disrupt.DoNotRepair, theirs.DoNotRepairAnnotationKey},
		{model.AnnotationBootID, theirs.RebootPreBootIDAnnotationKey},
		{model.AnnotationRebootDrain, theirs.RebootTerminationGracePeriodAnnotationKey},
		{fmt.Sprint(lifecycle.RebootingTaint.Key, lifecycle.RebootingTaint.Effect), fmt.Sprint(theirs.RebootingTaintKey, corev1.TaintEffectNoSchedule)},
		{lifecycle.Rebooting, theirs.ConditionTypeRebooting},
		{lifecycle.RebootRequested, theirs.RebootReasonRequested},
		{lifecycle.RebootIssued, theirs.RebootReasonIssued},
		{lifecycle.RebootSucceeded, theirs.RebootReasonSucceeded},
		{lifecycle.RebootFailed, theirs.RebootReasonFailed},
		{ours.FinalizerTermination, theirs.TerminationFinalizer},
		{ours.TaintKeyDisrupted, theirs.DisruptedTaintKey},
		{ours.TaintKeyUnregistered, theirs.UnregisteredTaintKey},
		{fmt.Sprint(ours.TaintDisrupted()), fmt.Sprint(theirs.DisruptedNoScheduleTaint)},
		{fmt.Sprint(ours.TaintUnregistered()), fmt.Sprint(theirs.UnregisteredNoExecuteTaint)},
		{ours.NodeClassLabel("a.b", "CamelCase"), theirs.NodeClassLabelKey((&theirs.NodeClassReference{Group: "a.b", Kind: "CamelCase"}).GroupKind())},
		{ours.ConditionValidationSucceeded, theirs.ConditionTypeValidationSucceeded},
		{ours.ConditionNodeClassReady, theirs.ConditionTypeNodeClassReady},
		{ours.ConditionNodeRegistrationHealthy, theirs.ConditionTypeNodeRegistrationHealthy},
		{ours.ConditionLaunched, theirs.ConditionTypeLaunched},
		{ours.ConditionRegistered, theirs.ConditionTypeRegistered},
		{ours.ConditionInitialized, theirs.ConditionTypeInitialized},
		{ours.ConditionConsolidatable, theirs.ConditionTypeConsolidatable},
		{ours.ConditionDrifted, theirs.ConditionTypeDrifted},
		{ours.ConditionDrained, theirs.ConditionTypeDrained},
		{ours.ConditionVolumesDetached, theirs.ConditionTypeVolumesDetached},
		{ours.ConditionInstanceTerminating, theirs.ConditionTypeInstanceTerminating},
		{ours.ConditionConsistentStateFound, theirs.ConditionTypeConsistentStateFound},
		{ours.ConditionDisruptionReason, theirs.ConditionTypeDisruptionReason},
		{string(ours.NodeSelectorOpGte), string(theirs.NodeSelectorOpGte)},
		{string(ours.NodeSelectorOpLte), string(theirs.NodeSelectorOpLte)},
		{string(ours.ConsolidationPolicyBalanced), string(theirs.ConsolidationPolicyBalanced)},
		{string(ours.ConsolidationPolicyWhenEmpty), string(theirs.ConsolidationPolicyWhenEmpty)},
		{string(ours.ConsolidationPolicyWhenEmptyOrUnderutilized), string(theirs.ConsolidationPolicyWhenEmptyOrUnderutilized)},
		{string(ours.DisruptionReasonDrifted), string(theirs.DisruptionReasonDrifted)},
		{string(ours.DisruptionReasonEmpty), string(theirs.DisruptionReasonEmpty)},
		{string(ours.DisruptionReasonUnhealthy), string(theirs.DisruptionReasonUnhealthy)},
		{string(ours.DisruptionReasonUnderutilized), string(theirs.DisruptionReasonUnderutilized)},
		{ourkwok.LabelInstanceSize, theirkwok.InstanceSizeLabelKey},
		{ourkwok.LabelInstanceFamily, theirkwok.InstanceFamilyLabelKey},
		{ourkwok.LabelInstanceCPU, theirkwok.InstanceCPULabelKey},
		{ourkwok.LabelInstanceMemory, theirkwok.InstanceMemoryLabelKey},
		{ourkwok.LabelKWOKNode, theirkwok.KwokLabelKey},
		{ourkwok.LabelKWOKNodeValue, theirkwok.KwokLabelValue},
		{ourkwok.LabelPartition, theirkwok.KwokPartitionLabelKey},
		{ourkwok.LabelInstancePrice, theirkwok.NodeViewerLabelKey},
	} {
		if pair[0] != pair[1] {
			t.Errorf("ours %q, theirs %q", pair[0], pair[1])
		}
	}
}

// generator makes any value of an API type whose JSON an API server could give.
func generator[T any]() *rapid.Generator[T] {
	word := rapid.StringMatching(`[a-z]{1,8}`)
	durationText := rapid.SampledFrom([]string{"0s", "30s", "5m", "1h", "720h", "1h30m", "30m1h", "1h1h", "90s"})
	nillable := rapid.OneOf(durationText, rapid.Just("Never"))
	types := map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[resource.Quantity](): rapid.Map(
			rapid.SampledFrom([]string{"0", "1", "100m", "1500m", "4Gi", "1k", "3e2", "1.5Gi", "-1"}), resource.MustParse).AsAny(),
		reflect.TypeFor[metav1.Time](): rapid.Map(rapid.Int64Range(0, 4e9), func(s int64) metav1.Time {
			return metav1.NewTime(time.Unix(s, 0).UTC())
		}).AsAny(),
		reflect.TypeFor[metav1.Duration](): rapid.Map(durationText, func(text string) metav1.Duration {
			d, err := time.ParseDuration(text)
			if err != nil {
				panic(err)
			}
			return metav1.Duration{Duration: d}
		}).AsAny(),
		reflect.TypeFor[corev1.NodeSelectorOperator](): rapid.SampledFrom([]corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpExists, ours.NodeSelectorOpGte,
		}).AsAny(),
		reflect.TypeFor[theirs.NillableDuration](): rapid.Map(nillable, theirs.MustParseNillableDuration).AsAny(),
		reflect.TypeFor[ours.NillableDuration](): rapid.Custom(func(t *rapid.T) ours.NillableDuration {
			var d ours.NillableDuration
			if err := json.Unmarshal(fmt.Appendf(nil, "%q", nillable.Draw(t, "duration")), &d); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "made in Go") {
				d.Text = ""
			}
			return d
		}).AsAny(),
		reflect.TypeFor[runtime.RawExtension](): rapid.Map(rapid.SampledFrom([]string{
			`{"maxPods":110}`, `{"systemReserved":{"memory":"1Gi","cpu":"100m"},"maxPods":20}`, `{"evictionSoft":{"nodefs.inodesFree":"5%"},"podsPerCore":0}`, `{}`,
		}), func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }).AsAny(),
		reflect.TypeFor[metav1.ObjectMeta](): rapid.Custom(func(t *rapid.T) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Name:        word.Draw(t, "name"),
				Labels:      rapid.MapOf(word, word).Draw(t, "labels"),
				Annotations: rapid.MapOf(word, word).Draw(t, "annotations"),
				Finalizers:  rapid.SliceOf(word).Draw(t, "finalizers"),
			}
		}).AsAny(),
		reflect.TypeFor[corev1.Taint](): rapid.Custom(func(t *rapid.T) corev1.Taint {
			taint := corev1.Taint{
				Key:    word.Draw(t, "key"),
				Value:  rapid.OneOf(word, rapid.Just("")).Draw(t, "value"),
				Effect: rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}).Draw(t, "effect"),
			}
			if rapid.Bool().Draw(t, "timed") {
				at := metav1.NewTime(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "time"), 0).UTC())
				taint.TimeAdded = &at
			}
			return taint
		}).AsAny(),
	}
	return rapid.MakeCustom[T](rapid.MakeConfig{Types: types})
}

// plain is JSON as a value, less the nulls that Karpenter writes for a status that is not known yet and that an API server drops.
func plain(t *rapid.T, b []byte) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if status, ok := v["status"].(map[string]any); ok {
		for _, field := range []string{"nodes", "lastPodEventTime"} {
			if value, present := status[field]; present && value == nil {
				delete(status, field)
			}
		}
	}
	return v
}

func marshal(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
