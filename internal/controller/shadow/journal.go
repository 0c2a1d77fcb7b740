// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shadow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	followFor         = 15 * time.Minute // a decision that the other has not taken by then, it does not take
	settleAfter       = 3 * time.Minute  // a node whose pods all came from elsewhere by then was launched by the other alone
	freshFor          = 3 * time.Second  // younger pods may not have been decided on yet
	mostDisagreements = 500              // that are kept
	mostDelays        = 10000            // of the latest pods, for the median
	mostOpen          = 10000            // decisions that are followed at once; more are counted and let go
	sameSeconds       = 0.1              // seconds: a smaller difference is none
)

// Watcher follows what was decided in shadow mode until the cluster shows what became of it, and sums up the differences.
// Only the loop uses it. What it keeps is bounded by the cluster and by the constants above.
type Watcher struct {
	state  *state.State
	loop   Loop
	others []string
	since  time.Time // when the cluster was first seen; zero: not yet
	at     time.Time // up to when dollars are summed up

	claims      map[string]*claim      // by uid: all NodeClaims that there are
	byNode      map[string]*claim      // the same, by name of the node
	launches    map[string]*launch     // open, by the name of Dovetail's NodeClaim
	disruptions map[string]*disruption // by uid of the NodeClaim: decided, as long as that is there
	bindings    map[string]*binding    // open, by pod uid

	commands  map[plan.CommandID]*command  // that the other has not begun, by id
	dropped   []plan.CommandID             // ids of those that are forgotten, and decide does not know yet
	begun     map[plan.CommandID]time.Time // the other's commands, by id: when they were last heard of
	lastBegun time.Time                    // when the last of them was first seen
	recent    []seenSnapshot               // of the last milliseconds, the latest last
	slots     map[string]time.Time         // by NodeClaim: when slots were decided on that it is shown with since
	going     map[string]plan.CommandID    // the ids of those that delete NodeClaims, by uid of these; empty: it is not known

	differences []*difference // as long as the nodes run that differ

	out    report.Shadow
	delays []float64 // seconds, of the latest pods that would have run sooner; a ring
	delay  int       // where the next goes
}

// claim is a NodeClaim of whoever acts.
type claim struct {
	name, node, pool string
	uid              string
	first            time.Time // when it was first seen
	before           bool      // it was there when watching began
	micro            int64     // price an hour; 0: not known yet
	kind             nodeKind  // what it is; zero: not known yet
	text             string    // the same, for people
	initialized      time.Time // when that was first seen
	deleting         bool
	explained        bool // it is the answer to a decision of Dovetail, or was told as a disagreement
	charged          bool // its price stands beside that of a decision of Dovetail
	interrupted      bool
	sooner           bool // it came while there were pods that Dovetail may not have decided on yet
}

// disruption is a NodeClaim that Dovetail would have disrupted.
type disruption struct {
	at       time.Time
	command  plan.CommandID // its id; empty: of none
	claim    string
	node     string
	text     string
	micro    int64 // its share of the saving, an hour
	resolved bool
}

// binding is a pod that Dovetail would have bound.
type binding struct {
	at   time.Time
	pod  waitingPod
	node string
}

func New(s *state.State, loop Loop, now time.Time) *Watcher {
	return &Watcher{
		state: s, loop: loop, claims: map[string]*claim{}, byNode: map[string]*claim{}, launches: map[string]*launch{},
		disruptions: map[string]*disruption{}, bindings: map[string]*binding{}, out: report.Shadow{From: now},
		commands: map[plan.CommandID]*command{}, begun: map[plan.CommandID]time.Time{}, going: map[string]plan.CommandID{}, slots: map[string]time.Time{},
	}
}

// decideCommand notes the nodes that Dovetail would disrupt, each with its share of the saving.
func (s *Watcher) decideCommand(now time.Time, m *decide.StartedCommand) {
	s.commands[m.ID] = &command{at: now, candidates: candidateUIDs(m)}
	for _, u := range m.Candidates {
		saving := m.OldMicroPerHour - m.NewMicroPerHour
		if m.OldMicroPerHour > 0 {
			saving = int64(float64(saving) * float64(max(u.PriceMicro, 0)) / float64(m.OldMicroPerHour))
		} else {
			saving = 0
		}
		text := fmt.Sprintf("remove it: %s, saves $%s an hour", m.Cause, model.Dollars(saving))
		if len(m.Replacements) > 0 {
			text = fmt.Sprintf("replace it: %s, %d nodes become %d, saves $%s an hour", m.Cause, len(m.Candidates), len(m.Replacements), model.Dollars(saving))
		}
		s.decideDisruption(now, u.Claim.UID, disruption{command: m.ID, claim: u.Claim.Name, node: u.Node.Name, text: text, micro: saving})
	}
}

// decideDeletion notes a NodeClaim that Dovetail would delete.
func (s *Watcher) decideDeletion(now time.Time, a plan.DeleteClaim) {
	if cl := s.state.FindClaim(a.Claim); cl != nil {
		s.decideDisruption(now, cl.UID, disruption{claim: cl.Name, node: cl.NodeName, text: "remove it: " + string(a.Why.Code)})
	}
}

// decideDisruption notes that the NodeClaim of a uid is to go.
func (s *Watcher) decideDisruption(now time.Time, uid string, d disruption) {
	have := s.disruptions[uid]
	if have != nil && d.command != "" {
		have.command = d.command
	}
	if have != nil && (!have.resolved || d.micro == 0) {
		return
	}
	if have != nil { // decided anew after the other has not done it: its saving counts again, its disagreement does not
		have.at, have.micro = now, d.micro
		return
	}
	if s.tooMany() {
		return
	}
	d.at = now
	s.disruptions[uid] = &d
}

// decideBinding notes a pod that Dovetail would bind.
func (s *Watcher) decideBinding(now time.Time, a plan.Bind) {
	if s.bindings[a.UID] == nil && !s.tooMany() {
		s.bindings[a.UID] = &binding{at: now, pod: waitingPod{a.Namespace + "/" + a.Pod, a.UID}, node: a.Node}
	}
}

// tooMany reports whether another decision is not followed, and counts that.
func (s *Watcher) tooMany() bool {
	if len(s.launches)+len(s.disruptions)+len(s.bindings) < mostOpen {
		return false
	}
	s.out.Decisions.NoAnswer++
	return true
}

// dropClaim no longer takes a NodeClaim to be on its way that was only decided.
func (s *Watcher) dropClaim(name string) {
	s.state.InFlight.EndAction(plan.CreateClaim{Name: name}.Key())
	s.state.Overlay.DropProvisionalClaim(name)
}

// observe takes in what the cluster shows of decisions that are open.
func (s *Watcher) observe(now time.Time, snap *model.Snapshot) {
	s.chargeUntil(now)
	s.observeClaims(now, snap)
	for _, name := range slices.Sorted(maps.Keys(s.launches)) {
		s.followLaunch(now, s.launches[name])
	}
	s.compareLanded()
	for _, uid := range slices.Sorted(maps.Keys(s.disruptions)) {
		s.followDisruption(now, s.disruptions[uid])
	}
	for _, uid := range slices.Sorted(maps.Keys(s.bindings)) {
		s.followBinding(now, s.bindings[uid])
	}
}

// observeClaims takes in which NodeClaims there are.
func (s *Watcher) observeClaims(now time.Time, snap *model.Snapshot) {
	first := s.since.IsZero()
	if first {
		s.since, s.out.From, s.at = now, now, now
	}
	pools := map[string]*model.NodePool{}
	for _, p := range snap.Pools {
		pools[p.Name] = p
	}
	nodes := make(map[string]*model.Node, len(snap.Nodes)) // by NodeClaim
	for _, n := range snap.Nodes {
		nodes[n.Claim] = n
	}
	there := make(map[string]bool, len(snap.Claims))
	for _, cl := range snap.Claims {
		if cl.Provisional || cl.UID == "" {
			continue
		}
		there[cl.UID] = true
		have := s.claims[cl.UID]
		if have == nil {
			have = &claim{name: cl.Name, uid: cl.UID, pool: cl.Pool, first: now, before: first, explained: first}
			s.claims[cl.UID] = have
			if l := s.launches[cl.Name]; l != nil {
				s.agreeByName(now, l, have)
			} else {
				_, replaced := cluster.ReplacedBy(cl)
				s.dropReplaced(replaced)
				have.sooner = slices.ContainsFunc(snap.Pending, func(p *model.Pod) bool { return now.Sub(p.Created) < freshFor })
			}
		}
		n := nodes[cl.Name] // before the claim says so: a pod may be bound to it already
		if n != nil {
			have.node = n.Name
			s.byNode[have.node] = have
		}
		if n != nil && have.micro == 0 && pools[cl.Pool] != nil {
			have.micro = max(disrupt.NewCandidate(cl, n, pools[cl.Pool], model.PriorityCutoff{}).PriceMicro, 0)
			have.kind = nodeKind{cl.Pool, n.Labels[model.LabelInstanceType], n.Labels[model.LabelCapacityType]}
			have.text = describeNode(have.kind, n.Labels[model.LabelZone], have.micro)
		}
		if cl.Is(lifecycle.Initialized) && have.initialized.IsZero() {
			have.initialized = now
		}
		if _, ok := cluster.ReadNotice(cl); ok {
			have.interrupted = true
		}
		if !cl.Deleting.IsZero() && !have.deleting {
			have.deleting = true
			s.observeDeletion(now, cl.UID, have)
		}
		if !have.explained && !have.initialized.IsZero() && now.Sub(have.initialized) > settleAfter {
			have.explained = true
			if s.explainAlone(have) {
				continue
			}
			if have.sooner {
				s.out.Decisions.NoAnswer++
				continue
			}
			s.disagree(now, "launch", "nodeclaim/"+have.name, "launch no node: the pods had a place", "launched "+have.text)
		}
	}
	for uid, have := range s.claims {
		if there[uid] {
			continue
		}
		if !have.deleting {
			have.deleting = true
			s.observeDeletion(now, uid, have)
		}
		delete(s.claims, uid)
		delete(s.disruptions, uid)
		delete(s.begun, s.going[uid])
		delete(s.going, uid)
		if s.byNode[have.node] == have {
			delete(s.byNode, have.node)
		}
	}
}

// observeDeletion takes in that a NodeClaim is being deleted.
func (s *Watcher) observeDeletion(now time.Time, uid string, have *claim) {
	s.dropReplaced([]string{uid})
	if d := s.disruptions[uid]; d != nil {
		if !d.resolved {
			d.resolved = true
			s.agree(1)
			s.out.Disruptions.Both++
		}
		d.micro = 0
		return
	}
	if have.before && s.since.Equal(now) || have.initialized.IsZero() || have.interrupted {
		return // it was going before anybody watched, it never came, or the cloud takes it
	}
	s.out.Disruptions.OnlyOther++
	subject := "nodeclaim/" + have.name
	if have.node != "" {
		subject = "node/" + have.node
	}
	s.disagree(now, "disrupt", subject, "keep it", "removed it: "+have.text)
}

// followDisruption takes in that the other has not disrupted a node, and has had the time to.
func (s *Watcher) followDisruption(now time.Time, d *disruption) {
	if now.Sub(d.at) < followFor {
		return
	}
	d.micro = 0
	if d.resolved {
		return
	}
	d.resolved = true
	s.out.Disruptions.OnlyDovetail++
	subject := "nodeclaim/" + d.claim
	if d.node != "" {
		subject = "node/" + d.node
	}
	s.disagree(d.at, "disrupt", subject, d.text, fmt.Sprintf("kept it for %s", followFor))
}

// followBinding looks where a pod is that Dovetail would have bound.
func (s *Watcher) followBinding(now time.Time, b *binding) {
	have := s.state.FindPod(b.pod.key)
	switch {
	case have == nil || have.UID != b.pod.uid || !have.Deleting.IsZero():
		s.out.Decisions.NoAnswer++
	case have.Node == "" && now.Sub(b.at) < pauseFor:
		return
	case have.Node == "":
		s.state.Overlay.DropBinding(b.pod.key, b.pod.uid)
		s.out.Placements.Compared++
	default:
		s.out.Placements.Compared++
		if have.Node == b.node {
			s.out.Placements.Agreed++
		}
	}
	delete(s.bindings, b.pod.uid)
}

// agree counts decisions that are the same.
func (s *Watcher) agree(n int) {
	s.out.Decisions.Compared += n
	s.out.Decisions.Agreed += n
}

// disagree counts and keeps one decision that differs.
func (s *Watcher) disagree(at time.Time, kind, subject, ours, theirs string) {
	s.tellDisagreement(1, report.ShadowDisagreement{At: at, Kind: kind, Subject: subject, Dovetail: ours, Other: theirs})
}

// tellDisagreement counts decisions that differ, and keeps what they are together.
func (s *Watcher) tellDisagreement(n int, d report.ShadowDisagreement) {
	s.out.Decisions.Compared += n
	s.out.Disagreements = append(s.out.Disagreements, d)
	if n := len(s.out.Disagreements); n > mostDisagreements {
		s.out.Disagreements = slices.Clone(s.out.Disagreements[n-mostDisagreements:])
	}
}

// countDelay counts how much sooner a pod's node was decided on by Dovetail.
func (s *Watcher) countDelay(d time.Duration) {
	switch x := d.Seconds(); {
	case x > sameSeconds:
		s.out.Pods.Sooner++
		s.out.Pods.SecondsSaved += x
		if len(s.delays) < mostDelays {
			s.delays = append(s.delays, x)
		} else {
			s.delays[s.delay%mostDelays] = x
		}
		s.delay++
	case x < -sameSeconds:
		s.out.Pods.Later++
	default:
		s.out.Pods.Same++
	}
}

// rates are what the nodes cost an hour, and what they would with Dovetail, in micro-dollars.
func (s *Watcher) rates() (paid, ours, undone int64) {
	for _, c := range s.claims {
		paid += c.micro
	}
	ours = paid
	s.differences = slices.DeleteFunc(s.differences, func(d *difference) bool {
		return !slices.ContainsFunc(d.on, func(c *claim) bool { return !c.deleting })
	})
	for _, d := range s.differences {
		ours += d.micro
	}
	for _, d := range s.disruptions {
		undone += d.micro
	}
	return paid, max(ours-undone, 0), undone
}

// chargeUntil sums up dollars until an instant, at the prices of the nodes that were there until then.
func (s *Watcher) chargeUntil(now time.Time) {
	if s.since.IsZero() {
		return
	}
	paid, ours, _ := s.rates()
	hours := now.Sub(s.at).Hours()
	s.out.Cost.PaidUSD += dollars(paid) * hours
	s.out.Cost.DovetailUSD += dollars(ours) * hours
	s.at = now
}

// SetOthers says for the report which other autoscalers are live.
func (s *Watcher) SetOthers(others []string) { s.others = others }

// Report returns what was decided so far beside what was done, until now if the cluster has been read.
func (s *Watcher) Report(now time.Time, isRead bool) report.Shadow {
	if isRead {
		s.observe(now, s.state.Snapshot(now))
	}
	out := s.out
	out.To, out.Others = now, append([]string{}, s.others...)
	out.Disagreements = append([]report.ShadowDisagreement{}, s.out.Disagreements...)
	paid, ours, undone := s.rates()
	out.Cost.PaidUSDPerHour, out.Cost.DovetailUSDPerHour, out.Cost.WouldSaveUSDPerHour = dollars(paid), dollars(ours), dollars(undone)
	if len(s.delays) > 0 {
		sorted := slices.Sorted(slices.Values(s.delays))
		out.Pods.MedianSeconds = sorted[len(sorted)/2]
	}
	for _, d := range s.disruptions {
		if !d.resolved {
			out.Disruptions.Open++
		}
	}
	out.Decisions.Open = len(s.launches) + len(s.bindings) + out.Disruptions.Open
	out.Decisions.Agreement = 1
	if n := out.Decisions.Compared; n > 0 {
		out.Decisions.Agreement = float64(out.Decisions.Agreed) / float64(n)
	}
	return out
}

func dollars(micro int64) float64 { return float64(micro) / 1e6 }

// describeNode says what a node is, for people.
func describeNode(k nodeKind, zone string, micro int64) string {
	return fmt.Sprintf("%s (%s) of NodePool %s in %s, $%s an hour", k.instanceType, k.capacityType, k.pool, zone, model.Dollars(micro))
}
