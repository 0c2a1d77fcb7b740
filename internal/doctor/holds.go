// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	clusterview "github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Codes of findings that keep consolidation from removing or replacing nodes.
const (
	PodDoNotDisrupt  Code = "PodDoNotDisrupt"
	SafeToEvict      Code = "SafeToEvict"
	NoController     Code = "NoController"
	PDBNeverAllows   Code = "PDBNeverAllows" // Have: its current value
	PDBUnhealthy     Code = "PDBUnhealthy"   // it allows no eviction while pods are not ready
	SeveralPDBs      Code = "SeveralPDBs"    // the eviction API rejects evictions of pods that several PodDisruptionBudgets select
	NodeDoNotDisrupt Code = "NodeDoNotDisrupt"
	BudgetZero       Code = "BudgetZero"
	BudgetUnreadable Code = "BudgetUnreadable" // its schedule is not a valid cron expression, so it allows no disruption
	ConsolidationOff Code = "ConsolidationOff"
	ConsolidateNever Code = "ConsolidateNever"
	StaticPool       Code = "StaticPool"
	NodeWithoutPool  Code = "NodeWithoutPool" // the cluster has NodePools, but the node belongs to none of them
	PinnedToNode     Code = "PinnedToNode"    // the pod selects a node by name
)

// holder collects holds: one for each combination of code, subject and key.
type holder struct {
	x  *exam
	at map[string]*hold
}

func (h *holder) add(n *model.Node, code Code, subject, key, have, pod string) *hold {
	id := string(code) + "\x00" + subject + "\x00" + key
	one := h.at[id]
	if one == nil {
		one = &hold{code: code, subject: subject, key: key, have: have, pods: map[string]bool{}, nodes: map[*model.Node]bool{}}
		h.at[id] = one
		h.x.holds = append(h.x.holds, one)
	}
	if pod != "" {
		one.pods[pod] = true
	}
	if !one.nodes[n] {
		one.nodes[n] = true
		h.x.heldBy[n] = append(h.x.heldBy[n], one)
	}
	return one
}

// collectHolds finds the obstacles of each node: to its consolidation, or to its drain if it is being deleted. A node
// without a price counts only if the same hold also affects a node with a price.
func (x *exam) collectHolds() {
	h := &holder{x: x, at: map[string]*hold{}}
	guard := disrupt.NewEligibility(x.structuralPDBs(), x.Now)
	for _, n := range x.Snapshot.Nodes {
		price, known := x.prices[n]
		switch {
		case !x.deletedAt(n).IsZero() || x.surplus[n]:
			h.addDrain(n, guard)
		case known:
			h.addStaying(n, price, guard)
		default:
			h.addPods(n, plan.Underutilized, guard, func(plan.Reason) bool { return true })
		}
	}
	x.collectBudgets(h)
	x.holds = slices.DeleteFunc(x.holds, func(one *hold) bool {
		for n := range one.nodes {
			if _, known := x.prices[n]; known {
				return false
			}
		}
		return true
	})
	slices.SortFunc(x.holds, func(a, b *hold) int {
		return cmp.Or(strings.Compare(string(a.code), string(b.code)), strings.Compare(a.subject, b.subject), strings.Compare(a.key, b.key))
	})
}

// addStaying adds the obstacles to the consolidation of a node that has a price and is not being deleted.
func (h *holder) addStaying(n *model.Node, price int64, guard *disrupt.Eligibility) {
	x := h.x
	pool := x.poolOf(n)
	if pool == nil {
		pool = x.pools[0]
		if !x.assumed {
			group := cmp.Or(n.Labels[model.LabelNodeGroup], n.Labels["eks.amazonaws.com/nodegroup"], n.Labels["alpha.eksctl.io/nodegroup-name"])
			subject := "node/" + n.Name
			if group != "" {
				subject = "nodegroup/" + group
			}
			one := h.add(n, NodeWithoutPool, subject, "", "", "")
			one.changes = append(one.changes, plan.Change{Object: "node/" + n.Name, Op: plan.Remove})
		}
	}
	claim := x.claims[n.Name]
	if claim == nil {
		claim = &model.Claim{Name: n.Name, Pool: pool.Name, TerminationGracePeriod: -1, ExpireAfter: -1}
	}
	c := disrupt.NewCandidate(claim, n, pool, model.PriorityCutoff{})
	c.PriceMicro, c.Initialized = price, true
	cause := plan.Underutilized
	if !disrupt.HasWorkloadPods(n) {
		cause = plan.Empty
	}
	for _, r := range guard.Blockers(c, cause, false) {
		h.addReason(n, pool, r)
	}
	for _, p := range n.Pods {
		if p.IsReschedulable() && selectsNode(p.Class) {
			one := h.add(n, PinnedToNode, workloadOf(p), model.LabelHostname, n.Name, p.Key())
			one.changes = nil
			for _, field := range p.Class.NodeFields(model.LabelHostname) {
				one.changes = append(one.changes, templateChange(p, field, plan.Remove, "")...)
			}
			one.edit = func(s *model.Snapshot) { editPods(s, one.subject, freeOfNode) }
		}
	}
}

// addDrain adds the obstacles that permanently prevent the drain of a node that is being deleted or about to be
// deleted: pods that must not be evicted, unless a terminationGracePeriod, the end of an interrupted instance, or time
// ends that. Pods that are not healthy are not a permanent obstacle, because they may become healthy.
func (h *holder) addDrain(n *model.Node, guard *disrupt.Eligibility) {
	if c := h.x.claims[n.Name]; c != nil {
		_, forced := lifecycle.Deadline(c)
		if _, interrupted := clusterview.ReadNotice(c); interrupted || forced && !c.Deleting.IsZero() || h.x.surplus[n] && c.TerminationGracePeriod >= 0 {
			return
		}
	}
	h.addPods(n, plan.Draining, guard, func(r plan.Reason) bool {
		b := h.x.pdbNamed(plan.DetailOf[plan.OfPDB](r).Name)
		switch r.Code {
		case plan.PodDoNotDisrupt:
			return plan.DetailOf[plan.OfPodHeld](r).Until.IsZero()
		case plan.DisruptionBudgetPDB:
			if b == nil {
				return false
			}
			field, _ := h.x.neverAllows(b)
			return field != ""
		}
		return true
	})
}

// addPods adds the reasons that prevent the eviction of the pods of a node, if counts returns true for them.
func (h *holder) addPods(n *model.Node, cause plan.Code, guard *disrupt.Eligibility, counts func(plan.Reason) bool) {
	pool := h.x.poolOf(n)
	if pool == nil {
		pool = h.x.pools[0]
	}
	for _, p := range n.Pods {
		for _, r := range guard.PodBlockers(pool, p, cause) {
			if counts(r) {
				h.addReason(n, pool, r)
			}
		}
	}
}

// pdbNamed returns the PodDisruptionBudget with the given namespace/name, or nil if it does not exist.
func (x *exam) pdbNamed(key string) *model.PDB {
	i := slices.IndexFunc(x.Snapshot.PDBs, func(b *model.PDB) bool { return b.Key() == key })
	if i < 0 {
		return nil
	}
	return x.Snapshot.PDBs[i]
}

// selectsNode reports whether the pods of a class can run only on nodes selected by name.
func selectsNode(c *model.Class) bool {
	if len(c.Terms) == 0 {
		return false
	}
	for i := range c.Terms {
		q := c.Terms[i].Requirements.Get(model.LabelHostname)
		if c.Terms[i].Names == nil && (q == nil || q.Complement) {
			return false
		}
	}
	return true
}

// freeOfNode removes the selection of nodes by name from a class.
func freeOfNode(c *model.Class) {
	terms := make([]model.NodeTerm, 0, len(c.Terms))
	for _, t := range c.Terms {
		t.Names = nil
		for _, rs := range []*model.Requirements{&t.Requirements, &t.Standing} {
			*rs = slices.DeleteFunc(slices.Clone(*rs), func(r model.Requirement) bool { return r.Key == model.LabelHostname })
		}
		terms = append(terms, t)
	}
	if c.Terms = terms; slices.ContainsFunc(terms, func(t model.NodeTerm) bool { return len(t.Requirements) == 0 }) {
		c.Terms = nil // this term accepts every node
	}
}

// addReason adds a hold for a reason that prevents the disruption of a node, unless time alone ends it.
func (h *holder) addReason(n *model.Node, pool *model.NodePool, r plan.Reason) {
	pod := h.x.podOf(n, string(r.Subject))
	switch r.Code {
	case plan.NodeDoNotDisrupt:
		key := plan.DetailOf[plan.OfNodeHeld](r).Annotation
		one := h.add(n, NodeDoNotDisrupt, "nodepool/"+pool.Name, key, "true", "")
		one.changes = append(one.changes, plan.Change{Object: string(r.Subject), Field: annotation(key), Op: plan.Remove})
		template := plan.Change{Object: "nodepool/" + pool.Name, Field: "spec.template." + annotation(key), Op: plan.Remove}
		if pool.Annotations[key] == "true" && !slices.Contains(one.changes, template) {
			one.changes = append(one.changes, template)
		}
	case plan.PodDoNotDisrupt, plan.SafeToEvict:
		if pod == nil {
			return
		}
		code, key, value := PodDoNotDisrupt, plan.DetailOf[plan.OfPodHeld](r).Annotation, pod.DoNotDisrupt
		if r.Code == plan.SafeToEvict {
			code, key, value = SafeToEvict, plan.DetailOf[plan.OfSafeToEvict](r).Annotation, pod.SafeToEvict
		}
		one := h.add(n, code, workloadOf(pod), key, value, pod.Key())
		if ch := h.x.removeAnnotation(pod, key); !slices.Contains(one.changes, ch) {
			one.changes = append(one.changes, ch)
		}
	case plan.NoController:
		if pod == nil {
			return
		}
		h.add(n, NoController, "pod/"+pod.Key(), "", "", pod.Key()).changes = []plan.Change{
			{Object: "pod/" + pod.Key(), Field: annotation(disrupt.SafeToEvict), Op: plan.Set, Value: "true"}}
	case plan.SeveralPDBs:
		if pod == nil {
			return
		}
		pdbs := plan.DetailOf[plan.OfSeveralPDBs](r)
		one := h.add(n, SeveralPDBs, workloadOf(pod), string(pdbs.Names), strconv.Itoa(pdbs.Count), pod.Key())
		one.changes = nil
		for _, name := range pdbs.Names.Names()[1:] {
			one.changes = append(one.changes, plan.Change{Object: "poddisruptionbudget/" + name, Op: plan.Remove})
		}
	case plan.DisruptionBudgetPDB:
		h.addPDB(n, r, pod)
	case plan.ConsolidationOff:
		h.add(n, ConsolidationOff, "nodepool/"+pool.Name, consolidationPolicy, pool.ConsolidationPolicy, "").changes = []plan.Change{
			{Object: "nodepool/" + pool.Name, Field: consolidationPolicy, Op: plan.Set, Value: "WhenEmptyOrUnderutilized"}}
	case plan.Quiet:
		if pool.ConsolidateAfter < 0 {
			h.add(n, ConsolidateNever, "nodepool/"+pool.Name, consolidateAfter, "Never", "").changes = []plan.Change{
				{Object: "nodepool/" + pool.Name, Field: consolidateAfter, Op: plan.Set, Value: "1m"}}
		}
	case plan.Static:
		one := h.add(n, StaticPool, "nodepool/"+pool.Name, "spec.replicas", strconv.FormatInt(pool.Replicas, 10), "") // findHolds determines how many nodes may be removed
		if h.x.assumed {                                                                                              // no node is launched for pods of its nodes
			one.edit = func(s *model.Snapshot) { s.Pools = closed(s.Pools) }
		}
	}
}

// removeAnnotation returns the change that removes an annotation from a pod. The change is made in the pod template of
// the workload if the template has the annotation, or else on the pod itself. If the template is unknown, it is assumed
// to have the annotation if all pods of the workload have it.
func (x *exam) removeAnnotation(p *model.Pod, key string) plan.Change {
	t, known := x.Snapshot.Templates[p.Owner.UID]
	_, has := t.Annotations[key]
	if !known {
		has = !slices.ContainsFunc(x.owners[workloadOf(p)].pods, func(o *model.Pod) bool {
			return o.SafeToEvict != p.SafeToEvict && key == disrupt.SafeToEvict || o.DoNotDisrupt != p.DoNotDisrupt && key == p.HoldAnnotation()
		})
	}
	if !has || t.Superseded {
		return plan.Change{Object: "pod/" + p.Key(), Field: annotation(key), Op: plan.Remove}
	}
	return templateChange(p, annotation(key), plan.Remove, "")[0]
}

// Fields of a NodePool that prevent the removal of nodes.
const (
	consolidationPolicy = "spec.disruption.consolidationPolicy"
	consolidateAfter    = "spec.disruption.consolidateAfter"
)

// podOf returns the pod of a node to which the subject of a reason refers, or nil if it refers to no pod.
func (x *exam) podOf(n *model.Node, subject string) *model.Pod {
	key, ok := strings.CutPrefix(subject, "pod/")
	if !ok {
		return nil
	}
	i := slices.IndexFunc(n.Pods, func(p *model.Pod) bool { return p.Key() == key })
	if i < 0 {
		return nil
	}
	return n.Pods[i]
}

func annotation(key string) string { return "metadata.annotations[" + key + "]" }

// addPDB adds a hold for a PodDisruptionBudget that allows no eviction.
func (h *holder) addPDB(n *model.Node, r plan.Reason, pod *model.Pod) {
	name := plan.DetailOf[plan.OfPDB](r).Name
	b := h.x.pdbNamed(name)
	if b == nil || pod == nil {
		return
	}
	object := "poddisruptionbudget/" + name
	if field, value := h.x.neverAllows(b); field != "" {
		one := h.add(n, PDBNeverAllows, object, field, value, pod.Key())
		one.changes = []plan.Change{{Object: object, Field: "spec.maxUnavailable", Op: plan.Set, Value: "1"}}
		if b.MinAvailable != "" {
			one.changes = append(one.changes, plan.Change{Object: object, Field: "spec.minAvailable", Op: plan.Remove})
		}
		return
	}
	h.add(n, PDBUnhealthy, object, "status.currentHealthy", strconv.Itoa(int(b.Healthy))+" of "+strconv.Itoa(int(b.Desired))+" needed", pod.Key())
}

// neverAllows returns the field, and its value, because of which a PodDisruptionBudget allows no eviction even if all
// of its pods are healthy. field is empty if it allows some.
func (x *exam) neverAllows(b *model.PDB) (field, value string) {
	selects := int64(0)
	for _, w := range x.list {
		for _, p := range w.pods {
			if b.Selector != nil && p.Namespace == b.Namespace && b.Selector.Matches(p.Class.Labels) {
				selects++
			}
		}
	}
	selects = max(selects, int64(b.Expected))
	switch amount, percent, ok := parseShare(b.MaxUnavailable); {
	case ok && amount == 0:
		return "spec.maxUnavailable", b.MaxUnavailable
	case ok && percent: // rounded up: every percentage except 0 allows one
		return "", ""
	}
	switch amount, percent, ok := parseShare(b.MinAvailable); {
	case ok && percent && (amount >= 100 || (selects*amount+99)/100 >= selects), ok && !percent && amount >= selects:
		return "spec.minAvailable", b.MinAvailable
	}
	return "", ""
}

// parseShare parses a number or a percentage. ok is false for other text.
func parseShare(s string) (amount int64, percent, ok bool) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, percent, err == nil && n >= 0
}

// structuralPDBs returns the PodDisruptionBudgets in the state in which nothing is being disrupted. A budget that
// allows no disruption because of its settings, or because pods are not healthy, allows none. All others allow one.
func (x *exam) structuralPDBs() []*model.PDB {
	out := make([]*model.PDB, len(x.Snapshot.PDBs))
	for i, b := range x.Snapshot.PDBs {
		c := *b
		field, _ := x.neverAllows(b)
		unhealthy := b.Expected > 0 && b.DisruptionsAllowed <= 0 && b.Healthy < b.Expected
		if c.DisruptionsAllowed = 1; field != "" || unhealthy {
			c.DisruptionsAllowed = 0
		}
		out[i] = &c
	}
	return out
}

// collectBudgets adds a hold for each pool whose disruption budgets never allow consolidation, and records the pools
// whose budgets allow it only later.
func (x *exam) collectBudgets(h *holder) {
	of := map[string][]*model.Node{}
	for _, n := range x.Snapshot.Nodes {
		if p := x.poolOf(n); p != nil && x.prices[n] > 0 && x.deletedAt(n).IsZero() && !x.surplus[n] {
			of[p.Name] = append(of[p.Name], n)
		}
	}
	for _, p := range x.Snapshot.Pools {
		nodes := of[p.Name]
		count := disrupt.NodeCount{Total: int64(len(nodes))}
		left, why := disrupt.AllowedDisruptions(p, count, plan.Underutilized, x.Now)
		if len(nodes) == 0 || left > 0 {
			continue
		}
		if until := disrupt.BudgetOpensAt(p, count, plan.Underutilized, x.Now); !until.IsZero() {
			x.compared.Paused = append(x.compared.Paused, Pause{"nodepool/" + p.Name, plan.DetailOf[plan.OfBudget](why).Field(), until})
			continue
		}
		for _, shut := range shutBudgets(p, count, x.Now) {
			for _, n := range nodes {
				h.add(n, shut.code, "nodepool/"+p.Name, shut.fields, shut.have, "").changes = shut.changes
			}
		}
	}
}

// shut are disruption budgets of a pool that never allow consolidation.
type shut struct {
	code         Code
	fields, have string
	changes      []plan.Change
}

// shutBudgets returns the budgets of a pool because of which it never allows consolidation: those that would never
// allow it if they were the only budget. If there are none, for example if windows follow each other without a gap, it
// returns all budgets that allow no disruption while they are active.
func shutBudgets(p *model.NodePool, count disrupt.NodeCount, now time.Time) (out []shut) {
	alone := func(b model.Budget) *model.NodePool { return &model.NodePool{Name: p.Name, Budgets: []model.Budget{b}} }
	never := func(b model.Budget) bool {
		left, _ := disrupt.AllowedDisruptions(alone(b), count, plan.Underutilized, now)
		return left <= 0 && disrupt.BudgetOpensAt(alone(b), count, plan.Underutilized, now).IsZero()
	}
	none := func(b model.Budget) bool {
		b.Schedule = ""
		left, _ := disrupt.AllowedDisruptions(alone(b), count, plan.Underutilized, now)
		return left <= 0
	}
	is := never
	if !slices.ContainsFunc(p.Budgets, never) {
		is = none
	}
	zero := shut{code: BudgetZero, have: "0"}
	for i, b := range p.Budgets {
		if !is(b) {
			continue
		}
		field := plan.OfBudget{Budget: i + 1}.Field()
		if b.Schedule != "" {
			if _, err := cron.ParseStandard(b.Schedule); err != nil {
				out = append(out, shut{BudgetUnreadable, field, b.Schedule, []plan.Change{{Object: "nodepool/" + p.Name, Field: field, Op: plan.Remove}}})
				continue
			}
		}
		if zero.fields != "" {
			zero.fields += ", "
		}
		zero.fields += field
		zero.changes = append(zero.changes, plan.Change{Object: "nodepool/" + p.Name, Field: field + ".nodes", Op: plan.Set, Value: "10%"})
	}
	if zero.fields != "" {
		out = append(out, zero)
	}
	return out
}

// mostWhatIfs is the maximum number of holds that are priced by a what-if, highest cost of held nodes first.
const mostWhatIfs = 16

// findHolds converts holds to findings and prices them.
func (x *exam) findHolds() []Finding {
	out := make([]Finding, 0, len(x.holds))
	order := make([]int, 0, len(x.holds))
	for i, h := range x.holds {
		f := Finding{Code: h.code, Severity: Costly, Subject: h.subject, Key: h.key, Have: h.have, Pods: sorted(h.pods), Changes: h.changes}
		others := map[string]bool{}
		alone := false
		for n := range h.nodes {
			f.Nodes = append(f.Nodes, n.Name)
			f.HeldMicro += x.prices[n]
			if !x.deletedAt(n).IsZero() { // its deletion was requested, but cannot complete
				f.Severity = Broken
				f.Draining = append(f.Draining, n.Name)
				f.DrainingMicro += x.prices[n]
			}
			if _, known := x.prices[n]; known && len(x.heldBy[n]) == 1 {
				alone = true
			}
			for _, o := range x.heldBy[n] {
				if o != h {
					others[string(o.code)] = true
				}
			}
		}
		slices.Sort(f.Nodes)
		slices.Sort(f.Draining)
		if f.Priced = !alone; f.Priced {
			for _, c := range sorted(others) {
				f.AlsoHeld = append(f.AlsoHeld, Code(c))
			}
		} else {
			order = append(order, i)
		}
		out = append(out, f)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(out[b].HeldMicro, out[a].HeldMicro) })
	for _, i := range order[:min(len(order), mostWhatIfs)] {
		h := x.holds[i]
		free := x.reach(func(n *model.Node) bool {
			return slices.ContainsFunc(x.heldBy[n], func(o *hold) bool { return o != h })
		}, h.edit, x.whatIfPolicy())
		out[i].SavingMicro, out[i].Priced = max(0, x.baseline-free.micro), true
		if out[i].SavingMicro == 0 && free.ideal.micro < min(x.ideal, free.micro) && len(free.short) > 0 { // only the limit prevents the saving then
			out[i].AlsoHeld = []Code{LimitBlocks}
		} else if out[i].SavingMicro == 0 && out[i].Severity == Costly {
			out[i].Severity = Risky // there is no cheaper alternative for its nodes now
		}
		switch {
		case h.code != StaticPool || out[i].SavingMicro == 0:
		case x.hasOthers(strings.TrimPrefix(h.subject, "nodepool/"), free.gone):
			out[i].SavingMicro, out[i].Priced = 0, false // users cannot choose which nodes a lower number removes
		default: // the API server rejects the removal of the field
			out[i].Changes = []plan.Change{{Object: h.subject, Field: h.key, Op: plan.Set, Value: "0"}}
		}
	}
	return out
}

// hasOthers reports whether a NodePool has other nodes than the given ones, or NodeClaims without a node, that are not
// being deleted.
func (x *exam) hasOthers(pool string, nodes []*model.Node) bool {
	return slices.ContainsFunc(x.Snapshot.Nodes, func(n *model.Node) bool {
		p := x.poolOf(n)
		return p != nil && p.Name == pool && x.deletedAt(n).IsZero() && !slices.Contains(nodes, n)
	}) || slices.ContainsFunc(x.Snapshot.Claims, func(c *model.Claim) bool { return c.Pool == pool && c.Deleting.IsZero() && !x.hasNode[c.Name] })
}
