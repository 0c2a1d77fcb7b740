// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// mostDecisions is how many decisions a View holds.
const mostDecisions = 200

// View is a Board at one instant. It shares nothing that changes with the Board: pods and decisions are replaced there, never written to.
type View struct {
	At          time.Time
	Cluster     Cluster
	Prices      Prices
	Autoscalers []Autoscaler
	Reading     []string // kinds that are being read for the first time
	Problems    []string // what can't be shown and why, by kind
	Notes       []string // what the reader should know of the figures
	UseKnown    bool
	Total       Total
	Pools       []PoolRow     // by key
	Nodes       []NodeRow     // by name
	Pending     []CauseRow    // most pods first
	Decisions   []Decision    // newest first
	From        string        // where decisions are known from
	Next        []string      // operations in progress, their blockers, and pods that fit no node; empty: unknown
	Underway    []string      // the parts of Next that are in progress
	Blocked     []string      // the parts of Next that are blocked
	passive     bool          // Dovetail launches and disrupts nothing while another autoscaler runs
	Skew        time.Duration // how far this machine's clock is ahead of the API server's
}

// Total sums up the cluster.
type Total struct {
	Nodes, NotReady        int            // NotReady: its Node is there and started, and its condition Ready is not True
	States                 map[string]int // nodes by NodeRow.State
	Allocatable, Requested Amounts
	Used                   Amounts
	Micro                  int64 // micro-dollars an hour of the nodes with a price
	Unpriced               int   // nodes without one
	Pods                   int
	Pending, Starting      int // pods bound to no node, and pods bound and not running yet
	modelled               bool
}

// NodeRow is a node, or a NodeClaim that has none yet.
type NodeRow struct {
	Name, Claim            string // Name is the claim's where there is no node
	IsClaim                bool   // there is no node yet
	Pool, Type, Zone       string
	CapacityType           string
	Age                    time.Duration
	Allocatable, Requested Amounts
	Used                   Amounts
	UseKnown               bool
	Pods, PodsMax          int64
	Price                  Price
	Priced                 bool
	State, Doing           string
	Blocked                string    // who keeps a node that is being drained from it; empty: nobody is known to
	Disrupted              bool      // it is to be drained, and is not yet
	Kept                   string    // why it is kept, by the autoscaler's last decision, or by an annotation; empty: not known
	Saving                 int64     // what the command that removes it saves, in micro-dollars an hour; 0: unknown
	left                   int       // pods to be evicted from a node that is being drained
	ends                   time.Time // when the cloud ends its instance; zero: nobody has announced that
	NotReady               bool      // the Node is there, has started before, and its condition Ready is not True
}

// PoolRow is a NodePool, a Provisioner, or a node group known by its nodes' label.
type PoolRow struct {
	Key                    string // kind and name; empty: the nodes of no pool
	Nodes, NotReady        int
	Allocatable, Requested Amounts
	Micro                  int64
	Unpriced               int
	modelled               bool
	Limits                 string
	State                  string // Ready, or why not
	Takeover               string // whose it is while NodePools are divided with another autoscaler; empty: they are not
}

// isPriced reports whether the price of a node of the pool is known, or it has none.
func (r *PoolRow) isPriced() bool { return r.Unpriced < r.Nodes || r.Nodes == 0 }

// CauseRow is the pending pods for which an autoscaler gives the same reason. Pods without such a reason are grouped by the
// scheduler's message.
type CauseRow struct {
	Cause    string // the scheduler's message, without counts; several are joined
	Pods     []*Pod // by age, oldest first
	Requests Amounts
	Oldest   time.Duration
	Said     string // the autoscaler's reason; empty: none is known
	SaidBy   string
	causes   []string
	waits    bool // nodes are being launched for them
}

// View returns what there is at an instant of this machine's clock. Times in it are by the API server's.
func (b *Board) View(local time.Time) *View {
	now := local.Add(-b.skew)
	v := &View{At: now, Cluster: b.cluster, Prices: b.prices, UseKnown: b.useKnown, Skew: b.skew}
	v.Autoscalers = b.autoscalers(now)
	var turned Decision // active or passive
	for _, d := range b.ledger {
		if d.Subject == "controller" && !d.LastAt().Before(turned.LastAt()) {
			turned, v.passive = d, d.Kind == "passive"
		}
	}
	v.Reading = slices.Sorted(maps.Keys(b.reading))
	for _, k := range slices.Sorted(maps.Keys(b.problems)) {
		v.Problems = append(v.Problems, k+": "+clean(b.problems[k]))
	}
	pools := map[string]*PoolRow{}
	pool := func(key string) *PoolRow {
		p := pools[key]
		if p == nil {
			p = &PoolRow{Key: key}
			pools[key] = p
		}
		return p
	}
	for key, p := range b.pools {
		row := pool(key)
		row.State, row.Limits, row.Takeover = "Ready", limitsText(p.Limits), b.takeover(p)
		switch {
		case p.Deleting:
			row.State = "Being deleted"
		case p.NotReady != "":
			row.State = clean(p.NotReady)
		}
	}
	unknown := map[string]int{}
	v.Total.States = map[string]int{}
	v.Nodes = make([]NodeRow, 0, len(b.nodes)+8)
	other, launched := false, 0
	annotated := 0
	add := func(r NodeRow, c *Claim, annotations map[string]string) {
		offer := b.offers[r.Name]
		if r.Type == "" {
			r.Type, r.Zone = offer.Type, cmp.Or(r.Zone, offer.Zone)
		}
		if p := b.price(r.Type, r.Zone, r.CapacityType); p.known {
			r.Price, r.Priced = p.Price, true
			other = other || p.Other
		} else if c != nil && c.LaunchMicro > 0 {
			r.Price, r.Priced = Price{Micro: c.LaunchMicro}, true
			launched++
		} else if micro := cmp.Or(model.AnnotatedPriceMicro(annotations), offer.Micro); micro > 0 {
			r.Price, r.Priced = Price{Micro: micro}, true
			annotated++
		} else if r.Type != "" {
			unknown[r.Type]++
		}
		v.Nodes = append(v.Nodes, r)
		p := pool(r.Pool)
		v.Total.Nodes++
		p.Nodes++
		v.Total.States[r.State]++
		if r.NotReady {
			v.Total.NotReady++
			p.NotReady++
		}
		v.Total.Allocatable.add(r.Allocatable)
		v.Total.Requested.add(r.Requested)
		v.Total.Used.add(r.Used)
		p.Allocatable.add(r.Allocatable)
		p.Requested.add(r.Requested)
		if r.Priced {
			v.Total.Micro += r.Price.Micro
			p.Micro += r.Price.Micro
			v.Total.modelled = v.Total.modelled || r.Price.Modelled
			p.modelled = p.modelled || r.Price.Modelled
		} else {
			v.Total.Unpriced++
			p.Unpriced++
		}
	}
	blockers, kept, savings := b.drainBlockers(), b.keptNodes(), b.savings()
	for _, n := range b.nodes {
		c, l := b.claims[b.claimOf[n.Name]], load{}
		if have := b.loads[n.Name]; have != nil {
			l = *have
		}
		r := NodeRow{Name: n.Name, Pool: n.Pool, Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType, Age: max(0, now.Sub(n.Created)),
			Allocatable: n.Allocatable, Requested: l.requests, Pods: int64(l.pods), PodsMax: n.Pods, State: state(n, c, l), Doing: doing(n, c, l)}
		r.ends = interruptedAt(c)
		r.Disrupted = r.State == Ready && slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintDisrupted })
		if r.State == Draining {
			r.left = l.movable
			if r.Blocked = blockers[n.Name]; r.Blocked != "" {
				r.Doing = "Draining: blocked by " + r.Blocked + ", " + strings.TrimPrefix(r.Doing, "Draining: ")
			}
		}
		switch {
		case r.State == Ready && !r.Disrupted:
			stays, _ := strings.CutPrefix(r.Doing, keptFor)
			if stays == r.Doing {
				stays = ""
			}
			if r.Kept = cmp.Or(clean(kept[n.Name].Text), stays); r.Kept != "" && r.Doing == conditionConsolidatable {
				r.Doing = keptFor + r.Kept
			}
		case r.State != Starting:
			r.Saving = savings[n.Name].Micro
		}
		r.NotReady = n.Ready != "True" && r.State != Starting
		r.Used, r.UseKnown = b.use[n.Name]
		if c != nil {
			r.Claim = c.Name
		}
		add(r, c, n.Annotations)
	}
	for _, c := range b.claims {
		if b.nodes[c.Node] != nil {
			continue
		}
		add(NodeRow{Name: c.Name, Claim: c.Name, IsClaim: true, Pool: c.Pool, Type: c.Type, Zone: c.Zone, CapacityType: c.CapacityType,
			Age: max(0, now.Sub(c.Created)), Allocatable: c.Allocatable, State: state(nil, c, load{}), Doing: doing(nil, c, load{})}, c, nil)
	}
	slices.SortFunc(v.Nodes, func(a, b NodeRow) int { return cmp.Compare(a.Name, b.Name) })
	for _, key := range slices.Sorted(maps.Keys(pools)) {
		v.Pools = append(v.Pools, *pools[key])
	}
	v.Total.Pods, v.Total.Starting = len(b.pods), b.starting
	b.viewPending(v)
	b.viewDecisions(v)
	b.readNext(v)
	v.note(unknown, other, launched, annotated)
	if b.useAsked && !b.useKnown {
		v.Notes = append(v.Notes, "metrics-server is not installed, so usage is not shown.")
	}
	return v
}

// takeover says whose a pool is while NodePools are divided between Dovetail and another autoscaler.
func (b *Board) takeover(p *Pool) string {
	divided := false
	for _, x := range b.pools {
		divided = divided || x.Taken || x.Manager != ""
	}
	switch {
	case !divided:
		return ""
	case p.Release == model.ReleaseHold:
		return "being released, paused in Dovetail"
	case p.Release != "":
		return "being released, Dovetail completes operations in progress"
	case p.Manager != "":
		return "released to " + clean(p.Manager)
	case p.Taken:
		return "taken over by Dovetail"
	}
	return "managed by the other autoscaler"
}

// eventSign is how long an autoscaler is taken to be there after its last event.
const eventSign = time.Hour

// autoscalers returns who autoscales here, each with the first sign of it: those that were set, by name of the place, then events.
func (b *Board) autoscalers(now time.Time) []Autoscaler {
	found := map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(b.signs)) {
		for _, a := range b.signs[from] {
			if found[a.Name] == "" {
				found[a.Name] = a.Sign
			}
		}
	}
	last := map[string]time.Time{}
	for _, d := range b.events {
		if at := d.LastAt(); at.After(last[d.By]) {
			last[d.By] = at
		}
	}
	for name, at := range last {
		if found[name] == "" && now.Sub(at) < eventSign {
			found[name] = "its last event is " + ageText(now.Sub(at)) + " old"
		}
	}
	var out []Autoscaler
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, Autoscaler{name, found[name]})
	}
	return out
}

func (b *Board) viewPending(v *View) {
	said := b.refusals
	if b.ledgerKnown { // then Dovetail's events, whose text differs, say nothing that its ledger does not
		said = maps.Clone(b.refusals)
		maps.DeleteFunc(said, func(_ string, d Decision) bool { return d.By == Dovetail })
		for _, d := range b.ledger {
			if pod, ok := podOf(d.Subject); ok && d.Refusal && !d.LastAt().Before(said[pod].LastAt()) {
				said[pod] = d
			}
		}
	}
	rows, booting := map[string]*CauseRow{}, b.bootingFor()
	for text, pods := range b.causes {
		byOwner := map[string]Decision{} // the newest: it stands for pods of the same owner that have none recorded
		for key, p := range pods {
			if d, ok := said[key]; ok && p.Owner != "" && newestFirst(d, byOwner[p.ownerKey()]) < 0 {
				byOwner[p.ownerKey()] = d
			}
		}
		for key, p := range pods {
			d, ok := said[key]
			if !ok {
				d = byOwner[p.ownerKey()]
			}
			reason, waits := clean(d.Text), false
			if launch, ok := booting[key]; ok && !d.LastAt().After(launch.At) {
				d, reason, waits = launch, waitsForNodes, true
			}
			row := rows[cmp.Or(reason, text)]
			if row == nil {
				row = &CauseRow{Said: reason, SaidBy: d.By, waits: waits}
				rows[cmp.Or(reason, text)] = row
			}
			if !slices.Contains(row.causes, text) {
				row.causes = append(row.causes, text)
			}
			row.Pods = append(row.Pods, p)
			row.Requests.add(p.Requests)
			row.Oldest = max(row.Oldest, v.At.Sub(p.Created))
			row.SaidBy = min(row.SaidBy, d.By)
			v.Total.Pending++
		}
	}
	for _, row := range rows {
		slices.Sort(row.causes)
		row.Cause = strings.Join(row.causes, ", or ")
		slices.SortFunc(row.Pods, func(a, b *Pod) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		v.Pending = append(v.Pending, *row)
	}
	slices.SortFunc(v.Pending, func(a, b CauseRow) int {
		return cmp.Or(cmp.Compare(len(b.Pods), len(a.Pods)), cmp.Compare(a.Why(), b.Why()))
	})
}

// waitsForNodes is the reason of pods for which nodes are being launched.
const waitsForNodes = "waiting for nodes that are being launched for them"

// bootingFor returns the decisions to launch nodes that are not initialized yet, by namespace/name of the pods that they are for.
func (b *Board) bootingFor() map[string]Decision {
	out := map[string]Decision{}
	for _, d := range b.ledger {
		c := b.claims[strings.TrimPrefix(d.Subject, "nodeclaim/")]
		if len(d.Pods) == 0 || c == nil || !c.Deleting.IsZero() || c.is(conditionInitialized) {
			continue
		}
		for _, pod := range d.Pods {
			out[pod] = d
		}
	}
	return out
}

// Why returns the autoscaler's reason, or the scheduler's message if no autoscaler has given one. No two rows have the same.
func (r *CauseRow) Why() string { return cmp.Or(r.Said, r.Cause) }

// viewDecisions takes Dovetail's decisions from its ledger where that is known, and all others from events.
func (b *Board) viewDecisions(v *View) {
	v.From = "Kubernetes events"
	if b.ledgerKnown {
		v.From = "Dovetail's ledger"
		for _, d := range b.ledger {
			if !d.Keeps {
				v.Decisions = append(v.Decisions, d)
			}
		}
	}
	others := 0
	for _, d := range b.events {
		if !b.ledgerKnown || d.By != Dovetail {
			v.Decisions = append(v.Decisions, d)
			others++
		}
	}
	if b.ledgerKnown && others > 0 {
		v.From += " and Kubernetes events"
	}
	slices.SortFunc(v.Decisions, newestFirst)
	v.Decisions = v.Decisions[:min(len(v.Decisions), mostDecisions)]
}

// Names of the autoscalers that are known.
const (
	Dovetail          = "Dovetail"
	Karpenter         = "Karpenter"
	ClusterAutoscaler = "Cluster Autoscaler"
)

// clockTolerance is how far this machine's clock may be off before it is said.
const clockTolerance = 5 * time.Second

// note says what the figures rest on: unknown counts the nodes without a price by instance type, other tells that prices are of another zone, launched
// counts the nodes whose price is that of their NodeClaim, annotated those whose price is that of their own annotation or of their MachineDeployment's.
func (v *View) note(unknown map[string]int, other bool, launched, annotated int) {
	say := func(text string) { v.Notes = append(v.Notes, text) }
	if v.Prices.Name != "" {
		text := "Prices are from the catalog " + v.Prices.Name
		if v.Prices.AsOf != "" {
			text += " as of " + v.Prices.AsOf
		}
		switch {
		case other && v.Total.modelled:
			text += "; zones that it does not contain have prices of another zone, and ~ marks an estimated spot price"
		case other:
			text += "; zones that it does not contain have prices of another zone"
		case v.Total.modelled:
			text += "; ~ marks an estimated spot price"
		}
		say(text + ".")
	}
	if launched > 0 {
		say("The price at launch, from the NodeClaim, is used for " + model.Count(launched, "node") + ".")
	}
	if annotated > 0 {
		say("The price of annotation " + model.AnnotationPrice + " is used for " + model.Count(annotated, "node") + ".")
	}
	if len(unknown) > 0 {
		names := slices.Sorted(maps.Keys(unknown))
		n := 0
		for _, k := range unknown {
			n += k
		}
		text := strings.Join(names[:min(3, len(names))], ", ")
		if more := len(names) - 3; more > 0 {
			text += " and " + strconv.Itoa(more) + " more"
		}
		say("No price is known for " + model.Count(n, "node") + " of type " + clean(text) + "; totals leave them out.")
	}
	if typeless := v.Total.Unpriced - sum(unknown); typeless > 0 {
		say(model.Count(typeless, "node") + " without the label node.kubernetes.io/instance-type; totals leave them out.")
	}
	if d := v.Skew; d > clockTolerance || d < -clockTolerance {
		where := "ahead of"
		if d < 0 {
			where, d = "behind", -d
		}
		say("This machine's clock is " + ageText(d) + " " + where + " the API server's; ages use the API server's clock.")
	}
}

func sum(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

func limitsText(limits map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(limits)) {
		parts = append(parts, k+" "+limits[k])
	}
	return clean(strings.Join(parts, ", "))
}

// Node returns the row of a node or a claim, nil if there is none.
func (v *View) Node(name string) *NodeRow {
	i, ok := slices.BinarySearchFunc(v.Nodes, name, func(r NodeRow, name string) int { return cmp.Compare(r.Name, name) })
	if !ok {
		return nil
	}
	return &v.Nodes[i]
}

// PodsOn returns the pods of a node, those that ask for most CPU first.
func (b *Board) PodsOn(node string) []*Pod {
	var out []*Pod
	for _, p := range b.pods {
		if p.Node == node {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(b.Requests.CPU, a.Requests.CPU), cmp.Compare(b.Requests.Memory, a.Requests.Memory),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// NodeFacts returns what is known of a node and of its claim; either may be nil.
func (b *Board) NodeFacts(name string) (*Node, *Claim) {
	if n := b.nodes[name]; n != nil {
		return n, b.claims[b.claimOf[name]]
	}
	return nil, b.claims[name]
}
