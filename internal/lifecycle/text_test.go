// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The text form of an Input, one thing a line. Instants are distances from the claim's creation: +90s. The claim is
// called "c", its machine "m".
//
//	now AT
//	claim [launched=AT] [registered=AT] [initialized=AT] [consolidatable=AT] [is=TYPE:STATUS:REASON] [drained=AT] [node=NAME] [deleting=AT]
//	      [provisional] [nofinalizer] [orphan] [expire=DURATION] [grace=DURATION] [until=AT] [reserved] [gpu=N] [cpu=N] [podevent=AT]
//	      [label=K=V] [annotation=K=V] [taint=K:EFFECT] [startup=K:EFFECT]      (launched means: has machine "m")
//	pool [after=DURATION|Never] [provision=DURATION] [longest=DURATION] [band=PRIORITY:DURATION]… [delay=DURATION|Never] [keep=empty|other]
//	     (longest: of grace periods, and pods of DaemonSets stay on empty nodes; band: of priorities, ascending; delay: of the deletion, by annotations;
//	      keep: pods of DaemonSets stay on nodes that go for being empty, or for anything else)
//	node NAME [created=AT] [notready] [registered] [initialized] [deleting] [finalizer] [otherfinalizer[=NAME]] [taint=K[=V]:EFFECT] [label=K=V]
//	     [cordon] [annotation=K=V] [gpu=N] [podevent=AT] [attached=VA[:PVC]] [balanced]      (cordon: its reservation is written as one; balanced: load balancers have not been told that it goes, as when a move tainted it)
//	pod NODE NAME [deleting=AT] [daemon] [critical] [mirror] [ended] [tolerates=K] [keep=true|DURATION] [bound=AT] [grace=DURATION] [priority=N] [volume=PVC] [ds=VALUE]
//	    [rolls] [rolling] [cantroll=KEY]    (goes after its successor: may be asked for, is on its way, can't)
//	machine ID [gone|coming|unreserved]
//	listed AT|never              (when the cloud last answered; at the beginning, if this isn't there)
//	outage AT AT                 (of the cloud, from and to)
//	shift ZONE                   (the cluster is shifted away from the claim's zone; unread: that is not known yet)
//	failure KIND MESSAGE…
//	awaits CLAIM AT              (another claim's launch, until when)
//	awaited N
//	daemons N [off] [last=AT]    (pods of DaemonSets that are to come; off: some not while the reservation's taint is there; last: when one last came)
//	nodeless AT
//	type CPU                     (milli-CPU of the type that was bought)
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const gpu = model.FirstExtended

type inputText struct {
	t  *testing.T
	in Input
}

func parseInput(t *testing.T, text string) Input {
	t.Helper()
	x := &inputText{t: t, in: Input{Policy: DefaultPolicy(), Now: epoch, InstancesAt: epoch, ResourceNames: append(model.FixedNames(), "gpu")}}
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			x.line(f)
		}
	}
	if x.in.Claim == nil {
		t.Fatalf("no claim in\n%s", text)
	}
	return x.in
}

func (x *inputText) duration(s string) time.Duration {
	if s == "Never" {
		return -1
	}
	d, err := time.ParseDuration(strings.TrimPrefix(s, "+"))
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

func (x *inputText) when(s string) time.Time { return epoch.Add(x.duration(s)) }

func (x *inputText) line(f []string) {
	switch f[0] {
	case "now":
		x.in.Now = x.when(f[1])
	case "claim":
		x.claim(f[1:])
	case "pool":
		x.pool(f[1:])
	case "node":
		x.node(f[1], f[2:])
	case "pod":
		x.pod(f[1], f[2], f[3:])
	case "machine":
		i := &model.Instance{ProviderID: f[1], ClaimUID: "uid-c", Gone: len(f) > 2 && f[2] == "gone", Coming: len(f) > 2 && f[2] == "coming"}
		if len(f) > 2 && f[2] == "unreserved" {
			i.Unreserved = model.Labels{model.LabelCapacityType: model.OnDemand, "reservation": ""}
		}
		x.in.Instances = append(x.in.Instances, i)
	case "listed":
		if x.in.InstancesAt = (time.Time{}); f[1] != "never" {
			x.in.InstancesAt = x.when(f[1])
		}
	case "outage":
		x.in.Outages = append(x.in.Outages, model.Outage{From: x.when(f[1]), To: x.when(f[2])})
	case "shift":
		if x.in.ShiftsUnread = f[1] == "unread"; !x.in.ShiftsUnread {
			x.in.Shift = &model.ZonalShift{Zone: f[1], ID: "zs-1", Until: x.when("+1h")}
		}
	case "failure":
		x.in.Failure = &model.LaunchFailure{Kind: f[1], Message: strings.Join(f[2:], " ")}
	case "awaits":
		x.in.Awaits = AwaitedLaunch{Claim: f[1], Until: x.when(f[2])}
	case "type":
		x.in.Type = &model.InstanceType{Name: "t", Capacity: model.Resources{int64(x.number(f[1]))}}
	case "nodeless":
		x.in.NodelessSince = x.when(f[1])
	case "awaited":
		x.in.Awaited = x.number(f[1])
	case "daemons":
		x.in.Daemons.Pods = x.number(f[1])
		for _, o := range f[2:] {
			if v, ok := strings.CutPrefix(o, "last="); ok {
				x.in.Daemons.Since = x.when(v)
			} else {
				x.in.Daemons.KeptOff = true
			}
		}
	default:
		x.t.Fatalf("unknown line %q", strings.Join(f, " "))
	}
}

func (x *inputText) pool(opts []string) {
	p := &model.NodePool{Name: "p", UID: "uid-p"}
	x.in.Pool = p
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		if k == "after" {
			p.ConsolidateAfter = x.duration(v)
			continue
		}
		if p.Scaling == nil {
			p.Scaling = &model.GroupScaling{}
		}
		rules := &p.Scaling.Eviction
		switch k {
		case "provision":
			p.Scaling.Provision = x.duration(v)
		case "longest":
			rules.DrainBands, rules.KeepEmptyDaemons = []model.DrainBand{{MaxGrace: x.duration(v)}}, true
		case "band":
			priority, grace, _ := strings.Cut(v, ":")
			rules.DrainBands = append(rules.DrainBands, model.DrainBand{Priority: int32(x.number(priority)), MaxGrace: x.duration(grace)})
		case "keep":
			rules.KeepEmptyDaemons, rules.KeepOtherDaemons = v == "empty", v == "other"
		case "delay":
			p.Scaling.DeletionDelay = x.duration(v)
		default:
			x.t.Fatalf("pool option %q", o)
		}
	}
}

func (x *inputText) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		x.t.Fatal(err)
	}
	return n
}

func taint(s string) model.Taint {
	kv, effect, _ := strings.Cut(s, ":")
	k, v, _ := strings.Cut(kv, "=")
	return model.Taint{Key: k, Value: v, Effect: effect}
}

func put(l model.Labels, kv string) {
	k, v, _ := strings.Cut(kv, "=")
	l[k] = v
}

func (x *inputText) claim(opts []string) {
	c := &model.Claim{Name: "c", UID: "uid-c", Pool: "p", Created: epoch, HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1,
		Labels: model.Labels{}, Annotations: model.Labels{}, Conditions: map[string]model.Condition{}}
	x.in.Claim = c
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "launched":
			c.ProviderID = "m"
			c.Conditions[Launched] = model.Condition{Status: "True", Reason: Launched, Since: x.when(v)}
		case "registered":
			c.Conditions[Registered] = model.Condition{Status: "True", Reason: Registered, Since: x.when(v)}
		case "initialized":
			c.Conditions[Initialized] = model.Condition{Status: "True", Reason: Initialized, Since: x.when(v)}
		case "consolidatable":
			c.Conditions[Consolidable] = model.Condition{Status: "True", Reason: Consolidable, Since: x.when(v)}
		case "is":
			p := strings.SplitN(v, ":", 4)
			c.Conditions[p[0]] = model.Condition{Status: p[1], Reason: p[2], Message: strings.ReplaceAll(strings.Join(p[3:], ""), "_", " ")}
		case "drained":
			c.Conditions[Drained] = model.Condition{Status: "True", Reason: Drained, Since: x.when(v)}
		case "node":
			c.NodeName = v
		case "deleting":
			c.Deleting = x.when(v)
		case "provisional":
			c.Provisional, c.UID = true, ""
		case "orphan":
			c.Orphan = true
		case "nofinalizer":
			c.HasFinalizer = false
		case "expire":
			c.ExpireAfter = x.duration(v)
		case "grace":
			c.TerminationGracePeriod = x.duration(v)
		case "until":
			c.Annotations[TerminationTime] = x.when(v).Format(time.RFC3339)
		case "reserved":
			c.Reserved = true
		case "gpu":
			c.Requests = c.Requests.With(gpu, int64(x.number(v)))
		case "cpu":
			c.Requests = c.Requests.With(model.CPU, int64(x.number(v)))
		case "podevent":
			c.LastPodEvent = x.when(v)
		case "label":
			put(c.Labels, v)
		case "annotation":
			put(c.Annotations, v)
		case "taint":
			c.Taints = append(c.Taints, taint(v))
		case "startup":
			c.StartupTaints = append(c.StartupTaints, taint(v))
		default:
			x.t.Fatalf("claim option %q", o)
		}
	}
}

func (x *inputText) node(name string, opts []string) {
	n := &model.Node{Name: name, UID: "uid-" + name, ProviderID: "m", Ready: true, Created: epoch, Labels: model.Labels{}, Annotations: model.Labels{},
		Capacity: model.Resources{4000}, Allocatable: model.Resources{3900}}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "created":
			n.Created = x.when(v)
		case "notready":
			n.Ready = false
		case "registered":
			n.Labels[model.LabelRegistered] = "true"
		case "initialized":
			n.Labels[model.LabelRegistered], n.Labels[model.LabelInitialized] = "true", "true"
		case "deleting":
			n.Deleting = epoch
		case "finalizer":
			n.HasFinalizer = true
		case "otherfinalizer":
			n.OtherFinalizers = []string{cmp.Or(v, "example.com/other")}
		case "balanced":
		case "cordon":
			n.DaemonsOnly = true
		case "attached":
			name, pvc, _ := strings.Cut(v, ":")
			n.Attached = append(n.Attached, model.Attachment{Name: name, Claim: pvc})
		case "taint":
			n.Taints = append(n.Taints, taint(v))
		case "label":
			put(n.Labels, v)
		case "annotation":
			put(n.Annotations, v)
		case "gpu":
			n.Allocatable = n.Allocatable.With(gpu, int64(x.number(v)))
		case "podevent":
			n.LastPodEvent = x.when(v)
		default:
			x.t.Fatalf("node option %q", o)
		}
	}
	if hasTaint(n.Taints, model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}) && !slices.Contains(opts, "balanced") {
		n.Labels[excludeBalancersLabel] = "karpenter"
	}
	x.in.Nodes = append(x.in.Nodes, n)
}

func (x *inputText) pod(node, name string, opts []string) {
	i := slices.IndexFunc(x.in.Nodes, func(n *model.Node) bool { return n.Name == node })
	if i < 0 {
		x.t.Fatalf("no node %s", node)
	}
	p := &model.Pod{Namespace: "default", Name: name, UID: "uid-" + name, Node: node, Class: &model.Class{}, GracePeriod: 30 * time.Second}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "deleting":
			p.Deleting = x.when(v)
		case "daemon":
			p.Class.Daemon = true
		case "critical":
			p.Class.Critical = true
		case "mirror":
			p.Mirror = true
		case "ended":
			p.Terminal = true
		case "tolerates":
			p.Class.Tolerations = append(p.Class.Tolerations, model.Toleration{Key: v, Exists: true})
		case "keep":
			p.DoNotDisrupt = v
		case "ds":
			p.DaemonEviction = v
		case "volume":
			p.Class.Volumes = append(p.Class.Volumes, model.Volume{Claim: v})
		case "rolls", "rolling", "cantroll":
			r := Rollout{Deployment: &model.Deployment{Namespace: "default", Name: "d", UID: "uid-d", RestartedAt: "before"}, Begun: k == "rolling"}
			if k == "cantroll" {
				r = Rollout{Refused: plan.Reason{Code: plan.NoSurge, Subject: plan.ObjectOf("pod", "default/"+name), Detail: plan.OfNoSurge{Field: v}}}
			}
			if x.in.Rollouts == nil {
				x.in.Rollouts = map[string]Rollout{}
			}
			x.in.Rollouts[p.UID] = r
		case "by":
			r := x.in.Rollouts[p.UID]
			r.By = x.when(v)
			x.in.Rollouts[p.UID] = r
		case "priority":
			p.Class.Priority = int32(x.number(v))
		case "bound":
			p.Bound = x.when(v)
		case "grace":
			p.GracePeriod = x.duration(v)
		default:
			x.t.Fatalf("pod option %q", o)
		}
	}
	x.in.Nodes[i].Pods = append(x.in.Nodes[i].Pods, p)
}

// describe writes the answer, an action a line, and when to look again.
func describe(out Output) string {
	var b strings.Builder
	for _, a := range out.Actions {
		b.WriteString(action(a))
		b.WriteByte('\n')
	}
	if len(out.Actions) == 0 {
		b.WriteString("nothing to do\n")
	}
	if !out.Next.IsZero() {
		fmt.Fprintf(&b, "again +%s\n", out.Next.Sub(epoch))
	}
	return b.String()
}

func action(a plan.Action) string {
	var w words
	switch a := a.(type) {
	case plan.LaunchClaim:
		w.add("launch", a.Claim)
	case plan.DeleteClaim:
		w.add("delete claim", a.Claim)
	case plan.UpdateClaim:
		w.add("update claim", a.Claim)
		w.when(a.AddFinalizer, "+finalizer")
		w.when(a.RemoveFinalizer, "-finalizer")
		w.pairs("label", a.Labels)
		w.pairs("annotation", a.Annotations)
		w.when(a.OwnerPool != "", "owner="+a.OwnerPool)
		w.when(a.NodeName != "", "node="+a.NodeName)
		w.when(a.ProviderID != "", "provider="+a.ProviderID)
		for _, k := range keys(a.Conditions) {
			c := a.Conditions[k]
			w.add(k + "=" + c.Status)
			w.when(c.Reason != k, c.Reason)
			w.when(c.Message != "", strconv.Quote(c.Message))
		}
		w.when(!a.Capacity.IsZero(), "capacity")
		w.when(!a.LastPodEvent.IsZero(), "podevent=+"+a.LastPodEvent.Sub(epoch).String())
	case plan.UpdateNode:
		w.add("update node", a.Node)
		w.when(a.AddFinalizer, "+finalizer")
		w.when(a.RemoveFinalizer, "-finalizer")
		w.when(a.OwnerClaim != "", "owner="+a.OwnerClaim)
		w.pairs("label", a.Labels)
		w.pairs("annotation", a.Annotations)
		for _, t := range a.AddTaints {
			w.add("+" + taintText(t))
		}
		w.when(a.DaemonsOnly, "as a cordon")
		for _, t := range a.RemoveTaints {
			w.add("-" + taintText(t))
		}
		if a.Uncordon {
			w.add("uncordon")
		}
	case plan.DeleteNode:
		w.add("delete node", a.Node)
	case plan.Evict:
		if w.add("evict", a.Pod); a.Grace > 0 {
			w.add("  in", a.Grace.String())
		}
	case plan.Restart:
		w.add("restart", a.Deployment, "for", a.Pod)
	case plan.DeletePod:
		w.add("delete pod", a.Pod, "grace="+a.Grace.String())
	case plan.Terminate:
		w.add("terminate", a.ProviderID)
	default:
		w.add(fmt.Sprintf("%T", a))
	}
	why := a.Because()
	w.add("(" + string(why.Code))
	f := why.Fields()
	for _, kv := range [][2]string{{"subject", f.Subject}, {"key", f.Key}, {"want", f.Want}, {"have", f.Have}} {
		w.when(kv[1] != "", kv[0]+"="+kv[1])
	}
	return strings.Join(w, " ") + ")"
}

type words []string

func (w *words) add(s ...string) { *w = append(*w, s...) }

func (w *words) when(yes bool, s string) {
	if yes {
		w.add(s)
	}
}

func (w *words) pairs(what string, m map[string]string) {
	for _, k := range keys(m) {
		if m[k] == plan.Unset {
			w.add(what + " -" + k)
			continue
		}
		w.add(what + " " + k + "=" + m[k])
	}
}

func keys[T any](m map[string]T) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func taintText(t model.Taint) string {
	if t.Value != "" {
		return t.Key + "=" + t.Value + ":" + t.Effect
	}
	return t.Key + ":" + t.Effect
}
