// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"slices"
	"time"
)

// Change is applied to a Board; whoever watches the cluster makes one for each object that changed.
type Change func(*Board)

// mostEvents is how many decisions known from events are kept.
const mostEvents = 1000

// Board holds what is known of a cluster. Sums over pods follow each change, so that a View costs what there are nodes and pending pods,
// whatever the number of pods. It is not safe for concurrent use.
type Board struct {
	cluster     Cluster
	prices      Prices
	priced      map[offering]priced // prices that were looked up before
	nodes       map[string]*Node
	offers      map[string]Offer // by name of the node
	claims      map[string]*Claim
	claimOf     map[string]string // name of the claim by name of its node
	pools       map[string]*Pool
	pods        map[string]*Pod            // by namespace/name
	loads       map[string]*load           // by name of the node, which may not be known yet
	causes      map[string]map[string]*Pod // pending pods by the scheduler's message (causeText), then by key
	causeOf     map[string]string          // text of the cause by PodScheduled message
	starting    int                        // pods that are bound and not running yet
	use         map[string]Amounts
	useKnown    bool // metrics-server has answered
	useAsked    bool // and has been asked
	ledger      []Decision
	ledgerKnown bool
	events      map[string]Decision
	refusals    map[string]Decision     // the last one by namespace/name of the pod, from events
	signs       map[string][]Autoscaler // of autoscalers, by what was looked at
	problems    map[string]string       // what can't be shown and why, by kind
	reading     map[string]bool         // kinds not read yet
	skew        time.Duration           // how far the local clock is ahead of the API server's
}

type offering struct{ instanceType, zone, capacityType string }

type priced struct {
	Price
	known bool
}

// load is what the pods bound to a node ask for.
type load struct {
	requests Amounts
	pods     int
	movable  int // pods that need a place elsewhere when the node goes
	kept     int // of these, those whose annotation keeps the node
}

// NewBoard returns one that knows nothing yet.
func NewBoard(c Cluster, prices Prices) *Board {
	return &Board{
		cluster: c, prices: prices, priced: map[offering]priced{},
		nodes: map[string]*Node{}, claims: map[string]*Claim{}, claimOf: map[string]string{}, pools: map[string]*Pool{},
		pods: map[string]*Pod{}, loads: map[string]*load{}, causes: map[string]map[string]*Pod{}, causeOf: map[string]string{},
		events: map[string]Decision{}, refusals: map[string]Decision{}, signs: map[string][]Autoscaler{}, problems: map[string]string{}, reading: map[string]bool{},
	}
}

// SetPrices replaces the catalog.
func (b *Board) SetPrices(p Prices) {
	b.prices = p
	clear(b.priced)
}

// SetNode adds or replaces a node.
func (b *Board) SetNode(n *Node) { b.nodes[n.Name] = n }

// DeleteNode forgets a node.
func (b *Board) DeleteNode(name string) { delete(b.nodes, name) }

// SetClaim adds or replaces a NodeClaim.
func (b *Board) SetClaim(c *Claim) {
	b.DeleteClaim(c.Name)
	b.claims[c.Name] = c
	if c.Node != "" {
		b.claimOf[c.Node] = c.Name
	}
}

// DeleteClaim forgets a NodeClaim.
func (b *Board) DeleteClaim(name string) {
	if old := b.claims[name]; old != nil && b.claimOf[old.Node] == name {
		delete(b.claimOf, old.Node)
	}
	delete(b.claims, name)
}

// SetPool adds or replaces a NodePool or a Provisioner.
func (b *Board) SetPool(p *Pool) { b.pools[p.Key] = p }

// DeletePool forgets one, by kind and name.
func (b *Board) DeletePool(key string) { delete(b.pools, key) }

// SetPod adds or replaces a pod.
func (b *Board) SetPod(p *Pod) {
	key := p.Namespace + "/" + p.Name
	if old := b.pods[key]; old != nil {
		b.count(key, old, -1)
	}
	b.pods[key] = p
	b.count(key, p, 1)
}

// DeletePod forgets a pod, by namespace/name; so does a pod that has ended.
func (b *Board) DeletePod(key string) {
	if old := b.pods[key]; old != nil {
		b.count(key, old, -1)
		delete(b.pods, key)
		delete(b.refusals, key)
	}
}

// count adds a pod to the sums (by 1) or takes it out of them (by -1).
func (b *Board) count(key string, p *Pod, by int) {
	if p.Starting {
		b.starting += by
	}
	if p.Node != "" {
		l := b.loads[p.Node]
		if l == nil {
			l = &load{}
			b.loads[p.Node] = l
		}
		if by > 0 {
			l.requests.add(p.Requests)
		} else {
			l.requests.sub(p.Requests)
		}
		l.pods += by
		if !p.Daemon {
			l.movable += by
			if p.DoNotDisrupt {
				l.kept += by
			}
		}
		if l.pods == 0 {
			delete(b.loads, p.Node)
		}
		return
	}
	if p.Deleting {
		return
	}
	text := b.causeText(&p.Waits)
	pods := b.causes[text]
	if by > 0 {
		if pods == nil {
			pods = map[string]*Pod{}
			b.causes[text] = pods
		}
		pods[key] = p
		return
	}
	delete(pods, key)
	if len(pods) == 0 {
		delete(b.causes, text)
	}
}

// SetUse replaces what nodes use by metrics-server, by name; nil: there is no metrics-server.
func (b *Board) SetUse(use map[string]Amounts) { b.use, b.useKnown, b.useAsked = use, use != nil, true }

// SetSigns replaces what is known of who autoscales here from one place, such as leases.
func (b *Board) SetSigns(from string, a []Autoscaler) { b.signs[from] = a }

// SetSkew says how far the clock that View is called with is ahead of the API server's.
func (b *Board) SetSkew(d time.Duration) { b.skew = d }

// SetOffers sets what objects of Cluster API say of nodes, by the name of the node. If not all of them could be read, what was known before and is not
// among it stays.
func (b *Board) SetOffers(offers map[string]Offer, all bool) {
	if !all {
		for name, known := range b.offers {
			x := offers[name]
			x.Micro = cmp.Or(x.Micro, known.Micro)
			if x.Type == "" {
				x.Type, x.Zone = known.Type, known.Zone
			}
			offers[name] = x
		}
	}
	b.offers = offers
}

// ClusterAPINodes returns the nodes that belong to a Cluster object, by its namespace and name, and whether each has no instance type of its own.
func (b *Board) ClusterAPINodes() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, n := range b.nodes {
		if n.ClusterAPI == "" {
			continue
		}
		if out[n.ClusterAPI] == nil {
			out[n.ClusterAPI] = map[string]bool{}
		}
		out[n.ClusterAPI][n.Name] = n.Type == ""
	}
	return out
}

// SetProblem says why something can't be shown; an empty text: it can again. what is the kind of object, or what was tried.
func (b *Board) SetProblem(what, text string) {
	if text == "" {
		delete(b.problems, what)
		return
	}
	b.problems[what] = text
}

// SetReading says that objects of a kind are being read for the first time, or that they have been.
func (b *Board) SetReading(kind string, reading bool) {
	if reading {
		b.reading[kind] = true
		return
	}
	delete(b.reading, kind)
}

// IsReading reports whether objects of some kind are still being read for the first time.
func (b *Board) IsReading() bool { return len(b.reading) > 0 }

// SetVersion says the version of Kubernetes once it is known.
func (b *Board) SetVersion(v string) { b.cluster.Version = v }

// SetLedger replaces what is known of Dovetail's ledger.
func (b *Board) SetLedger(d []Decision) { b.ledger, b.ledgerKnown = d, true }

// ForgetLedger says that the ledger can't be read: decisions are known from events again.
func (b *Board) ForgetLedger() { b.ledger, b.ledgerKnown = nil, false }

// SetEvent adds or replaces a decision known from the event of that key.
func (b *Board) SetEvent(key string, d Decision) {
	d.key = key
	b.events[key] = d
	if pod, ok := podOf(d.Subject); ok && d.Refusal && !d.LastAt().Before(b.refusals[pod].LastAt()) {
		b.refusals[pod] = d
	}
	if len(b.events) <= mostEvents+mostEvents/4 {
		return
	}
	all := make([]Decision, 0, len(b.events))
	for _, e := range b.events {
		all = append(all, e)
	}
	slices.SortFunc(all, newestFirst)
	for _, e := range all[mostEvents:] {
		delete(b.events, e.key)
	}
}

// DeleteEvent forgets an event. What it said of a pod that still waits stays.
func (b *Board) DeleteEvent(key string) { delete(b.events, key) }

// LastAt is when the decision was made for the last time.
func (d Decision) LastAt() time.Time {
	if d.Last.After(d.At) {
		return d.Last
	}
	return d.At
}

func newestFirst(a, b Decision) int {
	return cmp.Or(b.LastAt().Compare(a.LastAt()), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
}

// podOf returns namespace/name of the pod that a subject is.
func podOf(subject string) (string, bool) {
	const prefix = "pod/"
	if len(subject) > len(prefix) && subject[:len(prefix)] == prefix {
		return subject[len(prefix):], true
	}
	return "", false
}

// price returns what a node of this type costs.
func (b *Board) price(instanceType, zone, capacityType string) priced {
	if instanceType == "" || b.prices.Find == nil {
		return priced{}
	}
	key := offering{instanceType, zone, capacityType}
	p, ok := b.priced[key]
	if !ok {
		p.Price, p.known = b.prices.Find(instanceType, zone, capacityType)
		b.priced[key] = p
	}
	return p
}
