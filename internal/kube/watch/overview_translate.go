// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// poolLabels are the labels by which nodes of the usual autoscalers and clouds name their pool or group, the first that a node has counting,
// each with the kind that it names.
var poolLabels = []struct{ label, kind string }{
	{model.LabelNodePool, "nodepool"},
	{model.LabelProvisioner, "provisioner"},
	{model.LabelNodeGroup, "nodegroup"},
	{"eks.amazonaws.com/nodegroup", "nodegroup"},
	{"alpha.eksctl.io/nodegroup-name", "nodegroup"},
	{"cloud.google.com/gke-nodepool", "nodegroup"},
	{"kubernetes.azure.com/agentpool", "nodegroup"},
	{"kops.k8s.io/instancegroup", "nodegroup"},
}

func poolOf(labels map[string]string) string {
	for _, p := range poolLabels {
		if name := labels[p.label]; name != "" {
			return p.kind + "/" + name
		}
	}
	return ""
}

func amountsOf(r corev1.ResourceList) top.Amounts {
	return top.Amounts{CPU: translate.MilliOf(*r.Cpu()), Memory: translate.AmountOf(*r.Memory())}
}

// Node is what top shows of a Node.
func (o *overview) node(n *corev1.Node) *top.Node {
	out := &top.Node{
		Name: n.Name, Pool: o.texts.of(poolOf(n.Labels)), Type: o.texts.of(cmp.Or(n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelInstanceType])),
		Zone:         o.texts.of(cmp.Or(n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelFailureDomainBetaZone])),
		CapacityType: o.texts.of(model.CapacityTypeOf(n.Labels)), Created: n.CreationTimestamp.Time, Deleting: timeOf(n.DeletionTimestamp),
		Allocatable: amountsOf(n.Status.Allocatable), Pods: translate.AmountOf(*n.Status.Allocatable.Pods()), Cordoned: n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, translate.IsCordonOwner),
	}
	if name := n.Annotations[model.AnnotationClusterName]; name != "" {
		out.ClusterAPI = o.texts.of(n.Annotations[model.AnnotationClusterNamespace] + "/" + name)
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			if out.Ready = string(c.Status); c.Status != corev1.ConditionTrue {
				out.NotReady = c.Message
			}
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Key != corev1.TaintNodeUnschedulable {
			out.Taints = append(out.Taints, model.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	for k, v := range n.Annotations {
		if k == karpv1.AnnotationDoNotDisrupt || strings.HasPrefix(k, "cluster-autoscaler.kubernetes.io/") || strings.HasPrefix(k, "dovetail.sh/") {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[k] = v
		}
	}
	return out
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// overviewClaim is what top shows of a NodeClaim.
func overviewClaim(n *karpv1.NodeClaim) *top.Claim {
	out := &top.Claim{
		Name: n.Name, Pool: poolOf(n.Labels), Node: n.Status.NodeName, Type: n.Labels[corev1.LabelInstanceTypeStable], Zone: n.Labels[corev1.LabelTopologyZone],
		CapacityType: model.CapacityTypeOf(n.Labels), Created: n.CreationTimestamp.Time, Deleting: timeOf(n.DeletionTimestamp),
		Allocatable: amountsOf(n.Status.Allocatable), Conditions: make(map[string]model.Condition, len(n.Status.Conditions)),
	}
	out.LaunchMicro = model.LaunchPriceMicro(n.Annotations)
	for _, c := range n.Status.Conditions {
		out.Conditions[c.Type] = model.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
	}
	return out
}

// notReady returns why the conditions of a pool are not Ready; empty: they are, or they are not set.
func notReady(conditions []metav1.Condition) string {
	text := ""
	for _, c := range conditions {
		if c.Status == metav1.ConditionTrue {
			continue
		}
		if c.Type == karpv1.ConditionReady && text == "" {
			text = "NotReady" + withColon(cmp.Or(c.Message, c.Reason))
		}
		if (c.Type == karpv1.ConditionValidationSucceeded || c.Type == karpv1.ConditionNodeClassReady) && c.Status == metav1.ConditionFalse {
			text = "NotReady" + withColon(cmp.Or(c.Message, c.Reason))
		}
	}
	return text
}

func withColon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func limitTexts(limits corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for k, v := range limits {
		out[string(k)] = v.String()
	}
	return out
}

// pod is what top shows of a Pod.
func (o *overview) pod(p *corev1.Pod) *top.Pod {
	out := &top.Pod{
		Namespace: o.texts.of(p.Namespace), Name: p.Name, Node: o.texts.of(p.Spec.NodeName), Created: p.CreationTimestamp.Time,
		Deleting: p.DeletionTimestamp != nil, DoNotDisrupt: p.Annotations[karpv1.AnnotationDoNotDisrupt] == "true",
	}
	out.Requests = amountsOf(podresources.PodRequests(p, podresources.PodResourcesOptions{
		UseStatusResources: translate.HasStatusResources(p), InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		out.Daemon = owner.Kind == "DaemonSet" || owner.Kind == "Node"
		kind, name := strings.ToLower(owner.Kind), owner.Name
		if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && owner.Kind == "ReplicaSet" {
			if deployment, ok := strings.CutSuffix(name, "-"+hash); ok {
				kind, name = "deployment", deployment
			}
		}
		out.Owner = o.texts.of(kind + "/" + name)
	}
	if p.Spec.NodeName != "" {
		out.Starting = p.Status.Phase == corev1.PodPending && !out.Deleting
		return out
	}
	out.Waits = top.Waits{Nominated: p.Status.NominatedNodeName, Scheduler: o.texts.of(p.Spec.SchedulerName)}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out.Waits.Reason, out.Waits.Message = o.texts.of(c.Reason), o.texts.of(c.Message)
		}
	}
	return out
}

// overviewEvent is an event as a decision.
func overviewEvent(e *corev1.Event, by string) top.Decision {
	kind := strings.ToLower(e.InvolvedObject.Kind)
	name := e.InvolvedObject.Name
	if e.InvolvedObject.Namespace != "" {
		name = e.InvolvedObject.Namespace + "/" + name
	}
	first, last, count := e.FirstTimestamp.Time, e.LastTimestamp.Time, int(e.Count)
	if first.IsZero() {
		first = e.EventTime.Time
	}
	if e.Series != nil {
		last, count = e.Series.LastObservedTime.Time, int(e.Series.Count)
	}
	if first.IsZero() {
		first = e.CreationTimestamp.Time
	}
	blocker := ""
	if kind == "node" && e.Reason == "FailedDraining" {
		blocker = e.Message
		if budget, ok := translate.BudgetOf(e.Message); ok {
			blocker = "PodDisruptionBudget " + budget
		}
	}
	return top.Decision{
		Blocker: blocker, At: first, Last: last, Count: count, By: by, Kind: e.Reason, Subject: kind + "/" + name, Text: e.Message, Warning: e.Type == corev1.EventTypeWarning,
		Refusal: kind == "pod" && (e.Reason == "FailedScheduling" || e.Reason == "NotTriggerScaleUp"),
	}
}

// interner keeps one copy of texts that many objects have.
type interner struct {
	mu sync.Mutex
	m  map[string]string
}

// internMost is the maximum number of cached texts. Then the cache is cleared, because it also contains texts of deleted
// objects.
const internMost = 200_000

func (i *interner) of(s string) string {
	if s == "" {
		return ""
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if have, ok := i.m[s]; ok {
		return have
	}
	if i.m == nil || len(i.m) >= internMost {
		i.m = map[string]string{}
	}
	i.m[s] = s
	return s
}

// overview hands what `dovetail top` shows of a cluster to emit. It reads and never writes. A kind that may not be read, or that the API
// server does not have, keeps nothing else from being shown.
type overview struct {
	c     *client.Client
	emit  func(top.Change)
	texts interner
	skew  atomic.Int64 // how far this machine's clock is ahead of the API server's, a time.Duration
}
