// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"context"
	"encoding/json"
	stdflag "flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	realv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpreqs "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The keys of drivers and clouds that a provider of Karpenter's declares.
func init() {
	realv1.WellKnownLabels.Insert(coresKey)
	realv1.NormalizedLabels[ebsKey] = zoneKey
	for _, x := range driversWithKeys {
		realv1.NormalizedLabels[x.key] = zoneKey
	}
}

// alone is a cluster without nodes in which one pod is pending.
func (c *drawn) alone(p *corev1.Pod) *drawn {
	s, x := *c.scenario, *c
	s.nodes, s.standing, s.pods = nil, nil, []*corev1.Pod{p}
	x.scenario, x.claimed, x.attached = &s, nil, nil
	return &x
}

// purchases asks Dovetail and Karpenter about each class of pending pods, alone in a cluster without nodes: whether a node is bought for it. Only
// then does the answer not depend on how pods are packed. A difference that is no fault has a name in differences.
func (x *judge) purchases() error {
	ask, err := x.c.karpenter()
	if err != nil {
		return err
	}
	class := map[string]*model.Class{}
	for _, p := range x.a.out.Pods {
		if p.Outcome != plan.NotOurs {
			class[p.Pod.Key()] = p.Pod.Class
		}
	}
	seen := map[*model.Class]bool{}
	for _, p := range x.c.pods {
		k := class[p.Namespace+"/"+p.Name]
		if k == nil || seen[k] {
			continue
		}
		seen[k] = true
		alone := x.c.alone(p)
		a, err := alone.answerFor(alone.objects())
		if err != nil {
			return err
		}
		theirs := ask(x.pod(p))
		var reasons []plan.Reason
		for _, q := range a.out.Pods {
			reasons = append(reasons, q.Reasons...)
		}
		ours, why := len(a.claims()) > 0, ""
		if ours == (theirs != nil) {
			q := &question{x: x, pod: p, bought: ours, reasons: reasons}
			if ours {
				q.theirs = theirs.Error()
			}
			why = q.explanation()
		}
		// Of domains that count the same Karpenter takes any, and does not try the others.
		for n := 0; n < 20 && ours && theirs != nil && why == "" && len(domainKeys(p)) > 0; n++ {
			theirs = ask(x.pod(p))
		}
		switch {
		case ours && theirs == nil:
			x.tally.bought++
		case !ours && theirs != nil:
			x.tally.unbought++
		case why != "":
			x.tally.excuse(why, 1)
		case ours:
			x.disagree("purchase", "a node is bought for %s/%s alone; Karpenter buys none: %v", p.Namespace, p.Name, theirs)
		default:
			x.disagree("purchase", "no node is bought for %s/%s alone (%+v); Karpenter buys one", p.Namespace, p.Name, reasons)
		}
	}
	return nil
}

// karpenter returns a function that asks Karpenter's provisioner about one pod, and returns why no node is bought for it, nil: one is.
func (c *drawn) karpenter() (func(*corev1.Pod) error, error) {
	crlog.SetLogger(logr.Discard())
	opts := &options.Options{}
	fs := &options.FlagSet{FlagSet: stdflag.NewFlagSet("karpenter", stdflag.ContinueOnError)}
	opts.AddFlags(fs)
	if err := opts.Parse(fs); err != nil {
		return nil, err
	}
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), opts)
	var objects []runtime.Object
	for _, o := range c.alone(nil).storageObjects() {
		objects = append(objects, o.DeepCopyObject())
	}
	for _, p := range c.pools {
		n, err := asKarpenters(p)
		if err != nil {
			return nil, err
		}
		objects = append(objects, n)
	}
	for _, d := range c.daemons {
		d = d.DeepCopy()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace}, Spec: d.Spec.Template.Spec}
		c.admit(p)
		d.Spec.Template.Spec = p.Spec
		objects = append(objects, d)
	}
	client := crfake.NewClientBuilder().WithRuntimeObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c crclient.WithWatch, key crclient.ObjectKey, o crclient.Object, how ...crclient.GetOption) error {
			if _, ok := o.(*corev1.PersistentVolume); ok {
				key.Namespace = "" // Karpenter gives one, which only the real client overlooks
			}
			return c.Get(ctx, key, o, how...)
		}}).Build()
	cloud := machinesCloud{types: c.scenario.karpenterTypes()}
	cluster := karpstate.NewCluster(clock.RealClock{}, client, cloud)
	provisioner := provisioning.NewProvisioner(client, events.NewRecorder(&record.FakeRecorder{}), cloud, cluster, clock.RealClock{}, nil, nil)
	return func(p *corev1.Pod) error {
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodPending
		if err := provisioner.Validate(ctx, p); err != nil {
			return err
		}
		s, err := provisioner.NewScheduler(ctx, []*corev1.Pod{p}, nil, nil, scheduling.DisableReservedCapacityFallback, scheduling.NumConcurrentReconciles(1),
			scheduling.MinValuesPolicy(opts.MinValuesPolicy))
		if err != nil {
			return err
		}
		res, err := s.Solve(ctx, []*corev1.Pod{p})
		if err != nil {
			return err
		}
		res = res.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
		for _, err := range res.PodErrors {
			return err
		}
		if len(res.NewNodeClaims) == 0 {
			return fmt.Errorf("it is in no NodeClaim")
		}
		return nil
	}, nil
}

// storageObjects are the objects other than nodes, pods, NodePools and DaemonSets that Karpenter reads.
func (c *drawn) storageObjects() (out []runtime.Object) {
	for _, n := range namespaces {
		out = append(out, n)
	}
	for _, s := range c.storage {
		out = append(out, s)
	}
	for _, v := range c.volumes {
		out = append(out, v)
	}
	for _, p := range c.claims {
		out = append(out, p)
	}
	for _, d := range c.drivers {
		out = append(out, d)
	}
	return out
}

// asKarpenters is a NodePool in Karpenter's own type, ready, of the node class that its test provider supports.
func asKarpenters(p *karpv1.NodePool) (*realv1.NodePool, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	out := &realv1.NodePool{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, err
	}
	out.Spec.Template.Spec.NodeClassRef = &realv1.NodeClassReference{Group: v1alpha1.Group, Kind: "TestNodeClass", Name: className}
	out.StatusConditions().SetTrue(realv1.ConditionTypeValidationSucceeded)
	out.StatusConditions().SetTrue(realv1.ConditionTypeNodeClassReady)
	return out, nil
}

// machinesCloud offers every NodePool the machines of a scenario, and launches none.
type machinesCloud struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (c machinesCloud) GetInstanceTypes(context.Context, *realv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}

func (c machinesCloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}

// karpenterTypes are the machines in Karpenter's own type.
func (s *scenario) karpenterTypes() (out []*cloudprovider.InstanceType) {
	in := func(key string, values ...string) *karpreqs.Requirement {
		return karpreqs.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	for _, m := range s.machines {
		t := &cloudprovider.InstanceType{Name: m.name, Capacity: maps.Clone(m.capacity), Requirements: karpreqs.NewRequirements()}
		reserved := corev1.ResourceList{}
		for k, v := range m.capacity {
			v = v.DeepCopy()
			v.Sub(m.allocatable[k])
			reserved[k] = v
		}
		t.Overhead = &cloudprovider.InstanceTypeOverhead{KubeReserved: reserved}
		for _, key := range slices.Sorted(maps.Keys(m.labels)) {
			t.Requirements.Add(in(key, m.labels[key]))
		}
		var at, how []string
		for _, o := range m.offerings {
			at, how = append(at, o.Zone), append(how, o.CapacityType)
			t.Offerings = append(t.Offerings, &cloudprovider.Offering{Available: o.Available, Price: float64(o.PriceMicro) / 1e6,
				Requirements: karpreqs.NewRequirements(in(realv1.CapacityTypeLabelKey, o.CapacityType), in(corev1.LabelTopologyZone, o.Zone))})
		}
		t.Requirements.Add(in(corev1.LabelTopologyZone, at...), in(realv1.CapacityTypeLabelKey, how...))
		out = append(out, t)
	}
	return out
}

// question is one class of pods on which the two differ.
type question struct {
	x       *judge
	pod     *corev1.Pod
	bought  bool          // by Dovetail; Karpenter does the opposite
	reasons []plan.Reason // Dovetail's
	theirs  string        // Karpenter's reason
}

// differences lists the accepted differences from Karpenter, by their names in docs/compatibility/pods.md.
var differences = []struct {
	name     string
	explains func(*question) bool
}{
	{"matchFields of node affinity", func(q *question) bool { return q.bought && strings.Contains(q.theirs, "matchFields is not supported") }},
	{"matchFields of a PersistentVolume", func(q *question) bool {
		return q.bought && slices.ContainsFunc(q.x.c.volumes, func(v *corev1.PersistentVolume) bool {
			return usesVolume(q.pod, v) && v.Spec.NodeAffinity != nil && slices.ContainsFunc(v.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 })
		})
	}},
	{"required terms that Karpenter drops before preferences", func(q *question) bool {
		return q.bought && requiredTerms(q.pod) > 1 && (hasPreferences(q.pod) || q.x.c.prefersNone())
	}},
	{"contradictory node affinity", func(q *question) bool {
		return strings.Contains(q.theirs, "configured to not run on a Karpenter provisioned node") ||
			q.refusedFor(func(r plan.Reason) bool {
				return r.Code == plan.Requirement && strings.HasSuffix(r.Fields().Want, "In []")
			})
	}},
	{"PreferNoSchedule taints", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "unsatisfiable topology") && q.x.c.prefersNone()
	}},
	{"topology keys with names from before Kubernetes 1.17", func(q *question) bool {
		return q.bought && slices.ContainsFunc(domainKeys(q.pod), func(k string) bool { return formerLabels[k] != "" })
	}},
	{"topology keys without values in a NodePool", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "unsatisfiable topology") && slices.ContainsFunc(domainKeys(q.pod), func(key string) bool {
			return !q.x.c.provided(key) && slices.ContainsFunc(q.x.c.pools, func(p *karpv1.NodePool) bool { return !listsValues(p, key) })
		})
	}},
	{"DaemonSets limited to some zones", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "no instance type") && slices.ContainsFunc(q.x.c.daemons, func(d *appsv1.DaemonSet) bool {
			return d.Spec.Template.Spec.NodeSelector[zoneKey] != ""
		})
	}},
	{"claims not created yet", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "persistentvolumeclaims") && strings.Contains(q.theirs, "not found") &&
			slices.ContainsFunc(q.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
	}},
	{"claims not bound yet", func(q *question) bool { return q.bought && strings.Contains(q.theirs, bindCompleted) }},
	{"PersistentVolumes being deleted, if the driver attaches nothing", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "persistentvolume is being deleted") && q.x.c.deletedVolumeOf(q.pod) == nil
	}},
	{"affinity to the pods of a DaemonSet", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "pod affinity, key="+hostKey) && q.x.requiresDaemon(q.pod)
	}},
	{"anti-affinity to the pods of a DaemonSet", func(q *question) bool {
		return q.refusedFor(func(r plan.Reason) bool {
			return r.Code == plan.PodAntiAffinity && strings.HasPrefix(r.Fields().Subject, "daemonset/")
		})
	}},
	{"unsupported features, and features that nodes must declare", func(q *question) bool {
		return q.refusedFor(func(r plan.Reason) bool { return r.Code == plan.Unsupported })
	}},
	{"the operating system of a pod", func(q *question) bool {
		return q.pod.Spec.OS != nil && q.refusedFor(func(r plan.Reason) bool { return r.Fields().Key == corev1.LabelOSStable })
	}},
	{"claims for existing volumes, and claims of other pods", func(q *question) bool {
		return !q.bought && slices.ContainsFunc(q.x.c.claims, func(c *corev1.PersistentVolumeClaim) bool {
			class := q.x.classOf(c)
			return usesClaim(q.pod, c.Namespace, c.Name) && class != nil && class.Provisioner == noProvisioner
		}) || q.refusedFor(func(r plan.Reason) bool { return plan.DetailOf[plan.OfVolumeClaim](r).Problem == model.ClaimNotOwned })
	}},
	{"storage capacity reported by CSI drivers", func(q *question) bool {
		return q.refusedFor(func(r plan.Reason) bool { return r.Code == plan.VolumeStorage })
	}},
	{"zone labels of a PersistentVolume", func(q *question) bool {
		return !q.bought && slices.ContainsFunc(q.x.c.volumes, func(v *corev1.PersistentVolume) bool {
			return (v.Labels[zoneKey] != "" || v.Labels[corev1.LabelFailureDomainBetaZone] != "") && usesVolume(q.pod, v)
		})
	}},
	{"minValues counted by type instead of by offering", func(q *question) bool {
		return q.refusedFor(func(r plan.Reason) bool { return r.Code == plan.MinValues })
	}},
	{"minValues of pods that must share a domain", func(q *question) bool {
		return q.bought && strings.Contains(q.theirs, "minValues requirement is not met") && len(domainKeys(q.pod)) > 0
	}},
}

// TestDifferences compares the names of differences with the table in docs/compatibility/pods.md.
func TestDifferences(t *testing.T) {
	page, err := os.ReadFile("../../../docs/compatibility/pods.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| difference | Karpenter | Dovetail |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed, named []string
	for _, row := range strings.Split(table, "\n") {
		listed = append(listed, strings.Split(row, " | ")[0])
	}
	for _, d := range differences {
		named = append(named, "| "+d.name)
	}
	if !slices.Equal(listed, named) {
		t.Errorf("docs/compatibility/pods.md lists\n%s\nand the judge excuses\n%s", strings.Join(listed, "\n"), strings.Join(named, "\n"))
	}
}

// refusedFor reports whether Dovetail buys nothing, in some NodePool for a reason.
func (q *question) refusedFor(is func(plan.Reason) bool) bool {
	return !q.bought && slices.ContainsFunc(q.reasons, is)
}

// explanation names the first difference that explains an answer; empty: none does.
func (q *question) explanation() string {
	for _, d := range differences {
		if d.explains(q) {
			return d.name
		}
	}
	return ""
}

// prefersNone reports whether a NodePool has a PreferNoSchedule taint.
func (c *drawn) prefersNone() bool {
	return slices.ContainsFunc(c.pools, func(p *karpv1.NodePool) bool {
		return slices.ContainsFunc(p.Spec.Template.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
	})
}

// requiredTerms is how many terms of required node affinity a pod has, one of which is enough.
func requiredTerms(p *corev1.Pod) int {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	}
	return 0
}

// listsValues reports whether a NodePool says which values of a label its nodes have.
func listsValues(p *karpv1.NodePool, key string) bool {
	return p.Spec.Template.Labels[key] != "" || slices.ContainsFunc(p.Spec.Template.Spec.Requirements, func(r karpv1.Requirement) bool {
		return r.Key == key && r.Operator == corev1.NodeSelectorOpIn
	})
}

// hasPreferences reports whether a pod has preferences that Karpenter takes for requirements at first.
func hasPreferences(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	return a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution != nil || a.PodAffinity != nil && a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution != nil ||
		a.PodAntiAffinity != nil && a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution != nil ||
		slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.ScheduleAnyway })
}

// usesVolume reports whether the claim of a volume is a pod's.
func usesVolume(p *corev1.Pod, v *corev1.PersistentVolume) bool {
	return v.Spec.ClaimRef != nil && usesClaim(p, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
}

// usesClaim reports whether a claim is a pod's.
func usesClaim(p *corev1.Pod, namespace, name string) bool {
	return namespace == p.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(x corev1.Volume) bool {
		return x.PersistentVolumeClaim != nil && x.PersistentVolumeClaim.ClaimName == name || x.Ephemeral != nil && p.Name+"-"+x.Name == name
	})
}

// requiresDaemon reports whether a pod requires to be near the pods of a DaemonSet.
func (x *judge) requiresDaemon(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && a.PodAffinity != nil && slices.ContainsFunc(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(t corev1.PodAffinityTerm) bool {
		return t.LabelSelector != nil && t.LabelSelector.MatchLabels["daemon"] != ""
	})
}
