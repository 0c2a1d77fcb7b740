// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// KWOKNodeClass translates the node class of simulated nodes.
func (t *Translator) KWOKNodeClass(k *kwokv1alpha1.KWOKNodeClass) state.NodeClass {
	out := nodeClass(k, kwokv1alpha1.Group, kwokv1alpha1.KindKWOKNodeClass, k.Spec, k.Status.Conditions)
	out.RegistrationDelay = k.Spec.NodeRegistrationDelay.Duration
	return out
}

// EC2NodeClass translates the node class of EC2 instances.
func (t *Translator) EC2NodeClass(k *awsv1.EC2NodeClass) state.NodeClass {
	out := nodeClass(k, awsv1.Group, awsv1.KindEC2NodeClass, k.Spec, k.Status.Conditions)
	out.HasFinalizer = slices.Contains(k.Finalizers, awsv1.FinalizerTermination)
	rest := k.Status
	rest.Conditions = nil
	if status, err := json.Marshal(rest); err == nil { // of plain fields: it can't fail
		out.Status = status
	}
	return out
}

// NodeGroupClass translates the node class of node groups.
func (t *Translator) NodeGroupClass(k *dovetailv1alpha1.NodeGroupClass) state.NodeClass {
	return t.groupClass(nodeClass(k, dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, k.Spec, k.Status.Conditions), k.Status, k.Spec.Options)
}

// ClusterAPINodeClass translates the node class of Cluster API machines.
func (t *Translator) ClusterAPINodeClass(k *clusterapiv1alpha1.ClusterAPINodeClass) state.NodeClass {
	return t.groupClass(nodeClass(k, clusterapiv1alpha1.Group, clusterapiv1alpha1.KindClusterAPINodeClass, k.Spec, k.Status.Conditions), k.Status, nil)
}

// IsGroupClass reports whether a kind of node class selects node groups.
func IsGroupClass(kind string) bool {
	return kind == dovetailv1alpha1.KindNodeGroupClass || kind == clusterapiv1alpha1.KindClusterAPINodeClass
}

// groupClass adds the groups that the status of a node class has, and how they are scaled.
func (t *Translator) groupClass(out state.NodeClass, status dovetailv1alpha1.NodeGroupClassStatus, options *dovetailv1alpha1.NodeGroupOptions) state.NodeClass {
	out.Scaling = t.scaling(&status, options)
	status.Conditions = nil
	if raw, err := json.Marshal(status); err == nil { // of plain fields: it can't fail
		out.Status = raw
	}
	for _, g := range status.Groups {
		out.Groups = append(out.Groups, model.NodeGroup{Name: g.Name, Min: int64(g.Min), Max: int64(g.Max), Desired: int64(g.Desired), Problem: g.Problem, Refresh: g.Refresh})
	}
	slices.SortFunc(out.Groups, func(a, b model.NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// gpus are the resources that are GPUs.
var gpus = []string{"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi"}

func (t *Translator) scaling(status *dovetailv1alpha1.NodeGroupClassStatus, o *dovetailv1alpha1.NodeGroupOptions) *model.GroupScaling {
	out := &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1}
	if meta.FindStatusCondition(status.Conditions, dovetailv1alpha1.ConditionGroupsResolved) == nil {
		out.Unread = true
	} else {
		out.Chosen = []string{} // it may choose none
	}
	for _, g := range status.Groups {
		if !out.Unread {
			out.Chosen = append(out.Chosen, g.Name)
		}
		if options := ownOptions(g.Options); g.Min > 0 || g.Refresh != "" || options != nil {
			out.Groups = append(out.Groups, model.NodeGroup{Name: g.Name, Min: int64(g.Min), Refresh: g.Refresh, Options: options})
		}
		if g.Options != nil && g.Options.GPUUtilizationThresholdPercent != nil {
			out.GPUs = t.gpuDims()
		}
	}
	slices.Sort(out.Chosen)
	if o == nil {
		return out
	}
	if o.UtilizationThresholdPercent != nil {
		out.UtilizationPercent = *o.UtilizationThresholdPercent
	}
	if o.GPUUtilizationThresholdPercent != nil {
		out.GPUPercent = *o.GPUUtilizationThresholdPercent
		out.GPUs = t.gpuDims()
	}
	out.IgnoreDaemons = o.IgnoreDaemonSetsUtilization != nil && *o.IgnoreDaemonSetsUtilization
	out.IgnoreMirrors = boolOf(o.IgnoreMirrorPodsUtilization)
	if o.UnreadyTime != nil {
		out.Unready = o.UnreadyTime.Duration
	}
	for _, e := range o.Expanders {
		out.Expanders = append(out.Expanders, string(e))
	}
	for _, p := range o.Priorities {
		x := model.GroupPriority{Priority: p.Priority}
		for _, name := range p.Names {
			if re, err := regexp.Compile(name); err == nil { // one that is none is told by the class's status
				x.Names = append(x.Names, re)
			}
		}
		out.Priorities = append(out.Priorities, x)
	}
	if out.Balance = o.BalanceSimilarGroups != nil && *o.BalanceSimilarGroups; out.Balance {
		out.Ignore = slices.Concat(balancingIgnored, o.BalancingIgnoreLabels)
	}
	if o.MaxNodeProvisionTime != nil {
		out.Provision = o.MaxNodeProvisionTime.Duration
	}
	groupRules(o, out)
	return out
}

func (t *Translator) gpuDims() (out []model.Dim) {
	for _, name := range gpus {
		out = append(out, t.Table.Dim(name))
	}
	return out
}

// ownOptions translates the options of a group itself; nil: none.
func ownOptions(o *dovetailv1alpha1.NodeGroupOwnOptions) *model.GroupOptions {
	if o == nil {
		return nil
	}
	out := &model.GroupOptions{UtilizationPercent: -1, GPUPercent: -1, Unready: durationOf(o.UnreadyTime), Provision: durationOf(o.MaxNodeProvisionTime),
		IgnoreDaemons: boolOf(o.IgnoreDaemonSetsUtilization), SaysDaemons: o.IgnoreDaemonSetsUtilization != nil}
	if o.UtilizationThresholdPercent != nil {
		out.UtilizationPercent = *o.UtilizationThresholdPercent
	}
	if o.GPUUtilizationThresholdPercent != nil {
		out.GPUPercent = *o.GPUUtilizationThresholdPercent
	}
	return out
}

// groupRules translates which pods keep a node, and which pods get nodes launched.
func groupRules(o *dovetailv1alpha1.NodeGroupOptions, out *model.GroupScaling) {
	if e := o.Eviction; e != nil {
		out.Eviction = model.EvictionRules{
			LocalStorage: boolOf(e.KeepLocalStorage), CustomControllers: boolOf(e.KeepCustomControllers), SystemPods: durationOf(e.KeepSystemPods),
			KeepEmptyDaemons: boolOf(e.KeepDaemonSetsOfEmptyNodes), KeepOtherDaemons: boolOf(e.KeepDaemonSetsOfOccupiedNodes), DrainBands: drainBands(e),
		}
		if e.KeepBelowReplicas != nil {
			out.Eviction.MinReplicas = *e.KeepBelowReplicas
		}
	}
	out.Delays = model.ScaleDownDelays{AfterAdd: durationOf(o.DelayAfterAdd), AfterDelete: durationOf(o.DelayAfterDelete),
		AfterFailure: durationOf(o.DelayAfterFailure), PerGroup: boolOf(o.DelaysPerGroup)}
	out.TaintDelay, out.PodDelay = durationOf(o.DelayAfterTaint), durationOf(o.NewPodDelay)
	if o.DeletionDelayTimeout != nil {
		if out.DeletionDelay = o.DeletionDelayTimeout.Duration; out.DeletionDelay == 0 {
			out.DeletionDelay = -1
		}
	}
	if o.PriorityCutoff != nil {
		out.Cutoff = model.PriorityCutoff{Set: true, Below: *o.PriorityCutoff}
	}
}

// drainBands translates how pods are grouped for eviction: a longest grace period alone is one group of all pods.
func drainBands(e *dovetailv1alpha1.NodeGroupEviction) (out []model.DrainBand) {
	for _, p := range e.DrainPriorities {
		out = append(out, model.DrainBand{Priority: p.Priority, MaxGrace: p.GracePeriod.Duration})
	}
	slices.SortFunc(out, func(a, b model.DrainBand) int { return cmp.Compare(a.Priority, b.Priority) })
	if most := durationOf(e.MaxGracePeriod); len(out) == 0 && most > 0 {
		out = []model.DrainBand{{MaxGrace: most}}
	}
	return out
}

// boolOf is a bool that may be left out; false then.
func boolOf(b *bool) bool { return b != nil && *b }

// durationOf is a duration that may be left out; 0 then.
func durationOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func nodeClass(k metav1.Object, group, kind string, spec any, have []metav1.Condition) state.NodeClass {
	raw, err := json.Marshal(spec)
	if err != nil {
		raw = nil // of plain fields: it can't fail
	}
	out := state.NodeClass{
		Group: group, Kind: kind, Name: k.GetName(), UID: string(k.GetUID()), Generation: k.GetGeneration(), Created: k.GetCreationTimestamp().Time, Version: ResourceVersion(k.GetResourceVersion()),
		Annotations: k.GetAnnotations(), Spec: raw, Conditions: Conditions(have),
	}
	if at := k.GetDeletionTimestamp(); at != nil {
		out.Deleting = at.Time
	}
	return out
}
