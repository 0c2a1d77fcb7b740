// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// The text form of a problem, one thing a line. Short names: zone, host, type, arch, ct (capacity type), pool stand for the
// well-known labels.
//
//	pool NAME [weight=N] [limit.RES=AMOUNT] [limit.nodes=N] [taint=K=V:EFFECT] [label=K=V] [req=K:OP:V,V] [minvalues=K:N] [relax] [notready]
//	type NAME RES=AMOUNT… price=DOLLARS [spot=DOLLARS] [zones=a,b] [spotzones=a,b] [label=K=V] [gone=ZONE] [csi=DRIVER:N] [reserved=N]
//	                                                                (offered to every pool above; reserved: so many for nothing)
//	node NAME RES=AMOUNT… [label=K=V] [taint=…] [inflight] [open=K:OP:V,V] [closed] [drained] [csi=DRIVER:N] [driver=NAME]
//	on NODE POD-OPTIONS                                             (pods on the node; their requests come off its free capacity)
//	daemon NAME POD-OPTIONS
//	newest NAME POD-OPTIONS	what the newest pod of a daemon asks for
//	namespace NAME [label=K=V]
//	pod NAME [xN] POD-OPTIONS
//
// Pod options: RES=AMOUNT, ns=NAME, label=K=V, select=K:OP:V,V (one term), or=K:OP:V (starts a further term), empty (a further term, which is empty), name=NODE,
// tolerate=K[=V][:EFFECT], spread=KEY:SKEW:K=V[:soft][:min=N][:ignore][:honor], near=KEY:K=V[:SCOPE], apart=KEY:K=V[:SCOPE], port=N, disk=NAME[:ro], volume=CLAIM[:DRIVER][:only][:unmade][:K=V][:standing/K=V][:migrated/K=V][:intree][:registers][:reported][:kept/PV][:problem/KIND],
// SCOPE is ns=NAME,NAME or nsl=K=V: other namespaces than the pod's own. ignore is nodeAffinityPolicy Ignore, honor nodeTaintsPolicy Honor.
//
// priority=N, unsupported=TEXT, prefer=WEIGHT:K:OP:V, preferNear=WEIGHT:KEY:K=V, preferApart=WEIGHT:KEY:K=V.
type problemText struct {
	t testing.TB
	p *Problem
	n int
}

var shortKeys = map[string]string{"zone": model.LabelZone, "host": model.LabelHostname, "type": model.LabelInstanceType,
	"arch": model.LabelArch, "ct": model.LabelCapacityType, "pool": model.LabelNodePool}

func longKey(k string) string {
	if l, ok := shortKeys[k]; ok {
		return l
	}
	return k
}

func parseProblem(t testing.TB, text string) *Problem {
	t.Helper()
	x := &problemText{t: t, p: &Problem{ResourceNames: append(model.FixedNames(), "gpu"), Namespaces: map[string]model.Labels{"default": {}}}}
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			x.line(f)
		}
	}
	return x.p
}

func (x *problemText) line(f []string) {
	switch f[0] {
	case "pool":
		x.pool(f[1], f[2:])
	case "limit":
		x.limit(f[1], f[2:])
	case "type":
		x.instanceType(f[1], f[2:])
	case "node":
		x.node(f[1], f[2:])
	case "on":
		i := slices.IndexFunc(x.p.Nodes, func(r ExistingNode) bool { return r.Name == f[1] })
		if i < 0 {
			x.t.Fatalf("no node %s", f[1])
		}
		r := &x.p.Nodes[i]
		for _, p := range x.pods(fmt.Sprintf("standing%d", len(r.Pods)), f[2:]) {
			p.Node = r.Name
			r.Pods = append(r.Pods, p)
			r.Free = r.Free.Sub(p.Class.Requests)
		}
	case "daemon":
		p := x.pods(f[1], f[2:])[0]
		x.p.Daemons = append(x.p.Daemons, &model.Daemon{Namespace: p.Namespace, Name: f[1], Class: p.Class})
	case "newest":
		i := slices.IndexFunc(x.p.Daemons, func(d *model.Daemon) bool { return d.Name == f[1] })
		if i < 0 {
			x.t.Fatalf("no daemon %s", f[1])
		}
		x.p.Daemons[i].Newest = x.pods(f[1], f[2:])[0].Class
	case "namespace":
		l := model.Labels{}
		for _, o := range f[2:] {
			k, v, _ := strings.Cut(strings.TrimPrefix(o, "label="), "=")
			l[k] = v
		}
		x.p.Namespaces[f[1]] = l
	case "pod":
		x.p.Demand = append(x.p.Demand, x.pods(f[1], f[2:])...)
	default:
		x.t.Fatalf("unknown line %q", f[0])
	}
}

func (x *problemText) amount(k, v string) (model.Dim, int64, bool) {
	d := slices.Index(x.p.ResourceNames, map[string]string{"mem": "memory", "disk": "ephemeral-storage"}[k])
	if d < 0 {
		d = slices.Index(x.p.ResourceNames, k)
	}
	if d < 0 && strings.Contains(k, "/") { // an extended resource; types, nodes and pods bring theirs
		d = len(x.p.ResourceNames)
		x.p.ResourceNames = append(x.p.ResourceNames, k)
	}
	if d < 0 {
		return 0, 0, false
	}
	mult := int64(1)
	for suffix, m := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if strings.HasSuffix(v, suffix) {
			v, mult = strings.TrimSuffix(v, suffix), m
		}
	}
	if model.Dim(d) == model.CPU {
		if strings.HasSuffix(v, "m") {
			v = strings.TrimSuffix(v, "m")
		} else {
			mult = 1000
		}
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		x.t.Fatalf("amount %s=%s: %v", k, v, err)
	}
	return model.Dim(d), n * mult, true
}

func (x *problemText) requirement(v string) model.Requirement {
	parts := strings.SplitN(v, ":", 3)
	var values []string
	if len(parts) > 2 {
		values = strings.Split(parts[2], ",")
	}
	r, err := model.NewRequirement(longKey(parts[0]), model.Operator(parts[1]), values...)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

func taint(v string) model.Taint {
	kv, effect, _ := strings.Cut(v, ":")
	k, val, _ := strings.Cut(kv, "=")
	if effect == "" {
		effect = model.NoSchedule
	}
	return model.Taint{Key: k, Value: val, Effect: effect}
}

func (x *problemText) pool(name string, opts []string) {
	p := Pool{NodePool: &model.NodePool{Name: name, Ready: true, Replicas: -1, NodeLimit: -1, Labels: model.Labels{},
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, name))}, NodesLeft: -1}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch {
		case k == "weight":
			n, _ := strconv.Atoi(v)
			p.Weight = int32(n)
		case k == "limit.nodes":
			p.NodesLeft, _ = strconv.ParseInt(v, 10, 64)
		case strings.HasPrefix(k, "limit."):
			d, n, _ := x.amount(strings.TrimPrefix(k, "limit."), v)
			p.Left = p.Left.With(d, n)
			for len(p.HasLimit) <= int(d) {
				p.HasLimit = append(p.HasLimit, false)
			}
			p.HasLimit[d] = true
		case k == "taint":
			p.Taints = append(p.Taints, taint(v))
		case k == "label":
			lk, lv, _ := strings.Cut(v, "=")
			p.Labels[longKey(lk)] = lv
			p.Requirements = p.Requirements.With(model.OneOf(longKey(lk), lv))
		case k == "req":
			p.Requirements = p.Requirements.With(x.requirement(v))
		case k == "minvalues":
			lk, n, _ := strings.Cut(v, ":")
			r, _ := model.NewRequirement(longKey(lk), model.OpExists)
			r.MinValues, _ = strconv.Atoi(n)
			p.Requirements = p.Requirements.With(r)
		case k == "relax":
			p.RelaxMinValues = true
		case k == "notready":
			p.Ready, p.NotReady = false, model.Condition{Reason: "NodeClassNotReady", Message: "no such class"}
		default:
			x.t.Fatalf("pool option %q", o)
		}
	}
	x.p.Pools = append(x.p.Pools, p)
}

// limit reads a limit that pools share: what is left of it.
func (x *problemText) limit(name string, opts []string) {
	l := model.LimitUse{CapacityLimit: &model.CapacityLimit{Name: name, Nodes: -1, MicroPerHour: -1}}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "pools":
			l.Selector = model.NewRequirements(model.OneOf(model.LabelNodePool, strings.Split(v, ",")...))
			for i := range x.p.Pools {
				if slices.Contains(strings.Split(v, ","), x.p.Pools[i].Name) {
					x.p.Pools[i].Shared = append(x.p.Pools[i].Shared, len(x.p.Limits))
				}
			}
		case "nodes":
			l.Nodes, _ = strconv.ParseInt(v, 10, 64)
		case "dollars":
			l.MicroPerHour = dollars(v)
		default:
			d, n, _ := x.amount(k, v)
			l.SetMost(d, n)
		}
	}
	x.p.Limits = append(x.p.Limits, l)
}

func dollars(v string) int64 {
	f, _ := strconv.ParseFloat(v, 64)
	return int64(math.Round(f * 1e6))
}

func (x *problemText) instanceType(name string, opts []string) {
	t := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}}
	zones, gone, price, spot, reserved := []string{"a", "b", "c"}, "", int64(0), int64(0), int64(-1)
	var spotZones []string // nil: all
	var groups []string    // name:how many more it may have
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "price":
			price = dollars(v)
		case "spot":
			spot = dollars(v)
		case "zones":
			zones = strings.Split(v, ",")
		case "spotzones":
			spotZones = strings.Split(v, ",")
		case "gone":
			gone = v
		case "group":
			groups = append(groups, v)
		case "reserved":
			reserved, _ = strconv.ParseInt(v, 10, 64)
		case "csi":
			d, n, _ := strings.Cut(v, ":")
			limit, _ := strconv.ParseInt(n, 10, 64)
			t.CSILimits = map[string]int64{d: limit}
		case "label":
			lk, lv, _ := strings.Cut(v, "=")
			t.Labels[longKey(lk)] = lv
		default:
			d, n, ok := x.amount(k, v)
			if !ok {
				x.t.Fatalf("type option %q", o)
			}
			t.Allocatable = t.Allocatable.With(d, n)
		}
	}
	if t.Allocatable.At(model.Pods) == 0 {
		t.Allocatable = t.Allocatable.With(model.Pods, 110)
	}
	t.Capacity = t.Allocatable
	for _, z := range zones {
		t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: price, Available: z != gone, Remaining: -1})
		if spot > 0 && (spotZones == nil || slices.Contains(spotZones, z)) {
			t.Offerings = append(t.Offerings, model.Offering{Zone: z, CapacityType: model.Spot, PriceMicro: spot, Available: z != gone, Remaining: -1})
		}
	}
	if reserved >= 0 {
		t.Offerings = append(t.Offerings, model.Offering{Zone: zones[0], CapacityType: model.Reserved, Available: true, Remaining: reserved,
			Labels: model.Labels{"reservation-id": name + "-r"}})
	}
	for i, g := range groups {
		name, left, _ := strings.Cut(g, ":")
		n, err := strconv.ParseInt(left, 10, 64)
		if err != nil {
			x.t.Fatalf("group=%s: want group=NAME:LEFT", g)
		}
		of := slices.Clone(t.Offerings)
		if i == 0 {
			t.Offerings = nil
		} else {
			of = of[:len(of)/i]
		}
		for _, o := range of {
			o.Remaining, o.Most, o.Available, o.Labels = n, n+10, n > 0, model.Labels{model.LabelNodeGroup: name}
			t.Offerings = append(t.Offerings, o)
		}
	}
	for i := range x.p.Pools {
		x.p.Pools[i].Types = append(x.p.Pools[i].Types, t)
	}
}

func (x *problemText) node(name string, opts []string) {
	r := ExistingNode{Name: name, Labels: model.Labels{model.LabelHostname: name}}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "label":
			lk, lv, _ := strings.Cut(v, "=")
			r.Labels[longKey(lk)] = lv
		case "taint":
			r.Taints = append(r.Taints, taint(v))
		case "inflight":
			r.InFlight = true
		case "open":
			r.Open = r.Open.With(x.requirement(v))
		case "closed":
			r.Closed = true
		case "fresh":
			r.Fresh = true
		case "driver":
			r.CSIDrivers = append(r.CSIDrivers, v)
		case "migrated":
			r.Migrated = append(r.Migrated, v)
		case "attached":
			d, h, _ := strings.Cut(v, ":")
			r.Attached = append(r.Attached, model.Attachment{Name: h, Driver: d, Handle: h})
		case "drained":
			r.Drained = true
		case "csi":
			d, n, _ := strings.Cut(v, ":")
			limit, _ := strconv.ParseInt(n, 10, 64)
			r.CSILimits = map[string]int64{d: limit}
		default:
			d, n, ok := x.amount(k, v)
			if !ok {
				x.t.Fatalf("node option %q", o)
			}
			r.Allocatable = r.Allocatable.With(d, n)
		}
	}
	if r.Allocatable.At(model.Pods) == 0 {
		r.Allocatable = r.Allocatable.With(model.Pods, 110)
	}
	r.Free = r.Allocatable
	x.p.Nodes = append(x.p.Nodes, r)
}

func (x *problemText) selector(ns, kv string) model.Selector {
	var rs model.Requirements // app=x, app!=x|y, or several of them with +
	for _, part := range strings.Split(kv, "+") {
		k, v, _ := strings.Cut(part, "=")
		r := model.OneOf(strings.TrimSuffix(k, "!"), strings.Split(v, "|")...)
		if strings.HasSuffix(k, "!") {
			r.Complement, r.AllowAbsent = true, true
		}
		rs = rs.With(r)
	}
	return model.Selector{Namespaces: []string{ns}, Pods: &rs}
}

func (x *problemText) pods(name string, opts []string) []*model.Pod {
	c := &model.Class{Namespace: "default", Labels: model.Labels{}, Requests: model.Resources{}.With(model.Pods, 1)}
	for _, o := range opts {
		if v, ok := strings.CutPrefix(o, "ns="); ok {
			c.Namespace = v
		}
	}
	count := 1
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		if n, err := strconv.Atoi(strings.TrimPrefix(o, "x")); err == nil && strings.HasPrefix(o, "x") {
			count = n
			continue
		}
		x.podOption(c, k, v)
	}
	key, _ := json.Marshal(c)
	c.Key = string(key)
	var out []*model.Pod
	for i := range count {
		x.n++
		pn := name
		if count > 1 {
			pn = fmt.Sprintf("%s-%03d", name, i)
		}
		out = append(out, &model.Pod{Namespace: c.Namespace, Name: pn, UID: fmt.Sprint("uid", x.n), Class: c, Created: time.Unix(0, 0)})
	}
	return out
}

func (x *problemText) podOption(c *model.Class, k, v string) {
	parts := strings.Split(v, ":")
	switch k {
	case "ns":
	case "label":
		lk, lv, _ := strings.Cut(v, "=")
		c.Labels[lk] = lv
	case "select":
		if len(c.Terms) == 0 {
			c.Terms = []model.NodeTerm{{}}
		}
		t := &c.Terms[len(c.Terms)-1]
		t.Requirements = t.Requirements.With(x.requirement(v))
	case "or":
		c.Terms = append(c.Terms, model.NodeTerm{Requirements: model.NewRequirements(x.requirement(v))})
	case "empty":
		c.Terms = append(c.Terms, model.NodeTerm{})
	case "name":
		r := model.OneOf("metadata.name", v)
		c.Terms = append(c.Terms, model.NodeTerm{Names: &r})
	case "tolerate":
		t := taint(v)
		tol := model.Toleration{Key: t.Key, Value: t.Value, Exists: !strings.Contains(v, "="), For: -1}
		if strings.Contains(v, ":") {
			tol.Effect = t.Effect
		}
		if v == "*" {
			tol = model.Toleration{Exists: true, For: -1}
		}
		c.Tolerations = append(c.Tolerations, tol)
	case "spread":
		skew, _ := strconv.Atoi(parts[1])
		sel := x.selector(c.Namespace, parts[2])
		s := model.SpreadConstraint{TopologyKey: longKey(parts[0]), MaxSkew: int32(skew), Hard: true, Selector: sel.Pods}
		for _, o := range parts[3:] {
			if n, ok := strings.CutPrefix(o, "min="); ok {
				m, _ := strconv.Atoi(n)
				s.MinDomains = int32(m)
			} else if o == "soft" {
				s.Hard = false
			}
			s.IgnoreAffinity, s.HonorTaints = s.IgnoreAffinity || o == "ignore", s.HonorTaints || o == "honor"
		}
		c.Spread = append(c.Spread, s)
	case "prefer", "preferNear", "preferApart":
		n, _ := strconv.Atoi(parts[0])
		rest := strings.Join(parts[1:], ":")
		if k == "prefer" {
			c.Preferred = append(c.Preferred, model.WeightedNodeTerm{Weight: int32(n), Term: model.NodeTerm{
				Requirements: model.NewRequirements(x.requirement(rest))}})
			break
		}
		w := model.WeightedPodTerm{Weight: int32(n), Term: model.PodTerm{TopologyKey: longKey(parts[1]), Selector: x.selector(c.Namespace, parts[2])}}
		if k == "preferNear" {
			c.PreferredAffinity = append(c.PreferredAffinity, w)
		} else {
			c.PreferredAntiAffinity = append(c.PreferredAntiAffinity, w)
		}
	case "near", "apart":
		t := model.PodTerm{TopologyKey: longKey(parts[0]), Selector: x.selector(c.Namespace, parts[1])}
		for _, o := range parts[2:] {
			if l, ok := strings.CutPrefix(o, "nsl="); ok {
				lk, lv, _ := strings.Cut(l, "=")
				rs := model.NewRequirements(model.OneOf(lk, lv))
				t.Selector.Namespaces, t.Selector.NamespaceL = nil, &rs
			} else {
				t.Selector.Namespaces = strings.Split(strings.TrimPrefix(o, "ns="), ",")
			}
		}
		if k == "near" {
			c.Affinity = append(c.Affinity, t)
		} else {
			c.AntiAffinity = append(c.AntiAffinity, t)
		}
	case "port":
		n, _ := strconv.Atoi(v)
		c.HostPorts = append(c.HostPorts, model.HostPort{Protocol: "TCP", Port: int32(n)})
	case "disk":
		disk, how, _ := strings.Cut(v, ":")
		c.HostPorts = append(c.HostPorts, model.HostPort{Disk: disk, ReadOnly: how == "ro"})
	case "volume":
		vol := model.Volume{Claim: c.Namespace + "/" + parts[0], Handle: parts[0]}
		for _, o := range parts[1:] {
			if o == "only" {
				vol.Exclusive = true
			} else if o == "unmade" {
				vol.Unmade = true
			} else if o == "registers" {
				vol.Registers = true
			} else if o == "intree" {
				vol.InTree = "intree"
			} else if pv, ok := strings.CutPrefix(o, "kept/"); ok {
				vol.Kept = pv
			} else if o == "reported" {
				vol.Reported = "class"
			} else if lk, lv, ok := strings.Cut(o, "="); ok && strings.HasPrefix(o, "standing/") {
				vol.Standing = append(vol.Standing, model.NewRequirements(model.OneOf(longKey(strings.TrimPrefix(lk, "standing/")), lv)))
			} else if ok && strings.HasPrefix(o, "migrated/") {
				vol.Migrated = append(vol.Migrated, model.NewRequirements(model.OneOf(longKey(strings.TrimPrefix(lk, "migrated/")), lv)))
			} else if kind, ok := strings.CutPrefix(o, "problem/"); ok {
				vol.Problem = model.VolumeProblem{Kind: model.VolumeProblemKind(kind), Words: "words"}
			} else if lk, lv, ok := strings.Cut(o, "="); ok {
				vol.Topology = append(vol.Topology, model.NewRequirements(model.OneOf(longKey(lk), lv)))
			} else {
				vol.Driver = o
			}
		}
		c.Volumes = append(c.Volumes, vol)
	case "priority":
		n, _ := strconv.Atoi(v)
		c.Priority = int32(n)
	case "unsupported":
		c.Unsolved = append(c.Unsolved, v)
	default:
		d, n, ok := x.amount(k, v)
		if !ok {
			x.t.Fatalf("pod option %s=%s", k, v)
		}
		c.Requests = c.Requests.With(d, n)
	}
}

// describe writes a result as a person would want to read it.
func describe(p *Problem, r Result) string {
	var b strings.Builder
	for _, a := range r.OnNodes {
		fmt.Fprintf(&b, "on %s: %s\n", a.Node, podNames(a.Pods))
	}
	for _, n := range r.New {
		names := make([]string, len(n.Choices))
		for i, t := range n.Choices {
			names[i] = t.Name
		}
		fmt.Fprintf(&b, "new %s %s $%s %s in %s, or %s: %s\n", n.Pool, n.Type.Name, money(n.PriceMicro), strings.Join(n.CapacityTypes, ","),
			strings.Join(n.Zones, ","), strings.Join(names, ","), podNames(n.Pods))
		if n.MinValuesRelaxed {
			for _, r := range n.Requirements {
				if r.MinValues > 0 {
					fmt.Fprintf(&b, "  relaxed: minValues %d of %s\n", r.MinValues, r.Key)
				}
			}
		}
	}
	for _, x := range r.Refused {
		fmt.Fprintf(&b, "refused %s:", x.Pod.Name)
		for i, y := range x.Reasons {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %s", y.Code)
			f := y.Fields()
			for _, kv := range [][2]string{{"pool", y.Pool}, {"subject", f.Subject}, {"key", f.Key}, {"want", f.Want}, {"have", f.Have}} {
				if kv[1] != "" {
					fmt.Fprintf(&b, " %s=%q", kv[0], kv[1])
				}
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "cost $%s bound $%s", money(r.Cost.NewMicroPerHour), money(r.Cost.BoundMicroPerHour))
	if r.Cost.PremiumMicroPerHour > 0 {
		fmt.Fprintf(&b, " premium $%s", money(r.Cost.PremiumMicroPerHour))
	}
	b.WriteByte('\n')
	return b.String()
}

func money(micro int64) string { return strconv.FormatFloat(float64(micro)/1e6, 'f', -1, 64) }

func podNames(pods []*model.Pod) string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	return strings.Join(names, " ")
}
