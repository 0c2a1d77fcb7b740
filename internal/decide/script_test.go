// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// describeQuery tells what an expander outside is to be asked, and how many pods wait for its next answer.
func (x *script) describeQuery() {
	if q := x.last.Query; q != nil {
		for _, o := range q.Options {
			names := make([]string, len(o.Pods))
			for i, p := range o.Pods {
				names[i] = p.Name
			}
			fmt.Fprintf(&x.out, "  ask whether %s grows by %d for %s\n", o.Group, o.Nodes, strings.Join(names, " "))
		}
	}
	if x.answer != nil && x.last.Waiting > 0 {
		fmt.Fprintf(&x.out, "  %d wait to be asked about again\n", x.last.Waiting)
	}
}

// A script tells a cluster's story, one thing a line; what is decided at its instants is the output. Instants are distances from
// the beginning: +90s. A thing that is named again is changed: its line is the whole of it.
//
//	at AT                        decide, with a look at demand
//	glance AT [tell]             decide without; tell: and say what blocks disruption
//	halt AT                      decide while another autoscaler is live
//	begin                        what was decided last is under way: recorded as the controller does
//	done                         what was decided last has been done and is read back
//	refuse                       the writes of what was decided last have failed, and may be repeated at once
//	refused POD                  the API server refuses the pod's toleration
//	forget                       the controller starts anew: nothing of it is remembered but what the API server has
//	restart                      and what it has kept: what it has learned of machines that came short
//	repair CONDITION STATUS AFTER [drain=DURATION] [reason=REGEXP] [priority=N] [reboot]    nodes like that are broken; drain: how long their drains wait
//	legacyrepair                 they are ended by force in the end
//	terminatefirst               the feature gates TerminateFirstDrift and TerminateFirstRepair are on
//	serves GROUP/KIND…           the node classes of the provider
//	pace N                       so many pods are on their way at a time
//	pool NAME [weight=N] [limit.RES=AMOUNT] [limit.nodes=N] [taint=K=V:EFFECT] [startup=K:EFFECT] [after=DURATION|Never]
//	     [budget=N|N%[;REASON,…][;CRON_WITH_UNDERSCORES;DURATION]] [notready] [unasked] [deleting] [static] [surge] [status]    (status: not yet written)
//	     [policy=all|balanced|empty] [label=K:V] [replicas=N] [discovered] [provisioner=NAME] [hash=H] [only=KEY:VALUE] [healthy=STATUS] [min=KEY:N]    (min: minValues)
//	     [group=NAME:MIN[:REFRESH]] [expand=RULE,…] [priority=N:REGEXP] [balance] [class=NAME] [cutoff=N] [delay=DURATION]    (class: of nodes, which a requirement of the pool names)
//	     [chosen=GROUP,…] [after-add=DURATION] [after-delete=DURATION] [after-failure=DURATION] [own-delays] [tainted=DURATION]    (tainted: so long at least)
//	type NAME RES=AMOUNT… price=DOLLARS [zones=a,b] [gone=ZONE] [quota=NAME] [boots=IMAGE] [label=K:V] [group=NAME] [left=N] [max=N]
//	     (offered to every pool above; quota: of the account, which keeps it from being launched in ZONE; left, max: what the group's provider last said of it)
//	claim NAME pool=P types=T,… [zones=a,…] [created=AT] [launched=AT] [registered=AT] [initialized=AT] [deleting=AT] [reserved] [slot=PODS:N]
//	     [rebooting=REASON,SINCE] [interrupted=KIND,SEEN[,AT]] [ends=AT] [held] [buffer] [group=NAME] [otherfinalizer=NAME] [nofinalizer] [orphan] [RES=AMOUNT…]    (what was asked for)
//	     [price=DOLLARS] [waits=AT]    (an hour, when it was launched; since when it has waited for other launches of its maker)
//	     [drifted=AT] [drained=AT] [hash=H] [expire=DURATION] [tgp=DURATION] [keep=AT] [failed=AT] [aborted=AT] [moving=CAUSE]    (failed: a move failed; aborted: one was taken back since a pod came; moving: the mark of the move that was decided on last for it)
//	     [label=K:V] [annotation=K:V] [sold=CAPACITYTYPE,ZONE] [replaces=CLAIM,…] [marked]      (it was made for a move that these go in, it alone; it bears that move's mark)
//	node NAME type=T [sold=CAPACITYTYPE] [zone=Z] [label=K:V] [claim=C] [notready] [registered] [initialized] [deleting] [finalizer] [taint=…] [created=AT] [keep] [disabled] [annotation=K:V] [otherfinalizer=NAME]
//	     [cordon] [boot=ID] [bad=CONDITION,STATUS,SINCE[,REASON]] [driver=NAME] [RES=AMOUNT…]    (driver: of CSI, registered there; allocatable, where it is not its type's; cordon: its reservation is written as one)
//	pod NAME [xN] [RES=AMOUNT] [owner=NAME|none] [on=NODE] [bound=AT] [for=CLAIM] [created=AT] [unseen] [deleting=AT] [gated] [nominated[=NODE]]
//	    [gang=NAME:LEAST[:staged|:scheduler] [domain=KEY] [prefers=KEY] [podset=NAME]] [done]    (done: it has succeeded)
//	    [in=NAMESPACE] [kind=KIND] [dnd=VALUE] [donotevict] [evict=VALUE] [local=VOLUME] [later=DURATION] [port=N] [tolerate=K|*] [select=K=V] [spread=KEY:SKEW[:min=N][:honor][:soft]] [priority=N] [daemon] [scheduler=NAME]
//	    [mirror] [finalizer=NAME] [grace=DURATION] [deploy=NAME] [restarted=WORD] [surge] [onenode=CLAIM]
//	    [anti=KEY] [near=KEY:POD] [volume=CLAIM:ZONE[:KEY]] [untold=CLAIM:STORAGECLASS] [registers=CLAIM:DRIVER] [alone=CLAIM] [problem=KIND:CLAIM[:OBJECT]] [unsolved=WORDS] [named=NODE] [hosted=HOSTNAME:NODE]    (anti: to its own kind; KEY: the label by which the volume's driver tells zones apart)
//	    (x0: only so that slots can speak of it; seen by kube-scheduler when created unless unseen; owner is NAME's own unless said)
//	machine ID [claim=C] [launched=AT] [gone] [coming] [unreserved] [member=CLASS,GROUP,TYPE,ZONE]    (member: of a node group, and nobody's)
//	listed AT
//	landing bind|tolerate|off    (bind where nothing is said)
//	expander ask|none|GROUP,…    an expander outside is to be asked from now on; is not; has answered so
//	notbound                     verify is against the bindings of the last step
//	unbindable POD               the API server refused to have it bound
//	failure CLAIM KIND MESSAGE…
//	unmade CLAIM pool=P slot=PODS:N|for=static|for=buffer/NAME [group=NAME] at=AT MESSAGE…    the API server has refused the NodeClaim
//	said POD MESSAGE…            kube-scheduler's words for why the pod fits nowhere
//	pdb NAME app=NAME allowed=N [healthy=N] [expected=N] [unready]    (of one healthy pod: minAvailable says the rest; unready: such pods may always be evicted)
//	daemon NAME [port=N] [RES=AMOUNT] [tolerate=K|*] [select=K=V] [anti=POD]    (anti: on its hosts)
//	buffer NAME N POD [max=DOLLARS] [group=NAME]    a CapacityBuffer of N pods like those of a pod line; max: an hour of it, at most
//	deployment NAME [replicas=N] [nosurge] [recreate] [paused] [restarted=WORD] [rolling]    (seen from now on; one replica, surges by one)
//	replicas OWNER N             a ReplicaSet is to have so many pods
//	revision OWNER DEPLOYMENT N  the ReplicaSet is of that revision of the Deployment
//	limit NAME [select=REQ] [nodes=N] [RESOURCE=N] [dollars=N] [least.RESOURCE=N]    a limit over several pools; cluster: the flags'
//	shift ZONE [ID AT]           the cluster is shifted away from the zone until AT; without: not any more
//	quota NAME [gone]            the namespace has a ResourceQuota
//	ending                       the namespace is being deleted
//	why SUBJECT                  what is in the way of it
//	planted SUBJECT CODE         a reason of that code is in the answer; where a change is offered with it, the change ends it
//	ended SUBJECT CODE           none is any more
//	undone NODE TIMES            a label that was written is removed so often by somebody else
//	fails KEY MESSAGE…           the call with that key (plan.Action) is answered so, until it works
//	works KEY
//	attach NODE NAME [PVC]       a VolumeAttachment
//	detach NAME
//	flip SUBJECT                 make the first way's changes, and decide: what becomes of it must be another
//	gone pod|node|claim|pdb|buffer|daemon NAME it was deleted
//	gone type NAME               no pool is offered it any more
type script struct {
	t        testing.TB
	ask      bool
	answer   *nodegroups.Answer
	st       *state.State
	mem      Memory
	pol      Policy
	pools    map[string]*model.NodePool
	status   map[string]bool
	types    map[string]*model.InstanceType
	claims   map[string]*model.Claim
	groups   map[string]*model.Pod // by the name of a pod line: one pod of it
	listed   time.Time
	list     []*model.Instance
	last     Output
	notBound []RefusedBinding // Request.NotBound of the next step
	tell     bool             // Request.Tell of the next step

	streaming, undecided map[string]bool // Request.Streaming and Undecided of the next step

	marks  map[string]string // by claim: the mark of the last move it was to go in
	now    time.Time
	serial uint64 // pods seen so far
	out    strings.Builder
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newScript(t testing.TB) *script {
	x := &script{t: t, st: state.New(), pol: DefaultPolicy(), pools: map[string]*model.NodePool{}, status: map[string]bool{}, now: epoch,
		types: map[string]*model.InstanceType{}, claims: map[string]*model.Claim{}, groups: map[string]*model.Pod{}, marks: map[string]string{}}
	x.st.SetNow(epoch)
	x.listed = epoch
	x.st.SetInstances(nil, x.listed)
	x.st.Resources().Dim("gpu")
	x.st.SetNamespace("default", nil, time.Time{})
	return x
}

// run plays a script and returns what was decided.
func run(t testing.TB, text string) string {
	t.Helper()
	x := newScript(t)
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			x.line(f)
		}
	}
	return x.out.String()
}

// reserve writes what the last step wanted of nodes that stand and host a move: that is done and seen by the next.
func (x *script) reserve() {
	hosts := map[string]bool{} // claims
	for _, a := range x.last.Actions {
		u, ok := a.(plan.UpdateClaim)
		if _, hosted := u.Annotations[cluster.AnnotationHost]; !ok || !hosted || x.st.FindClaim(u.Claim) == nil {
			continue
		}
		hosts[u.Claim] = true
		c := *x.st.FindClaim(u.Claim)
		c.Annotations, c.Slots, c.Reserved = sim.Edited(c.Annotations, u.Annotations), u.Slots, u.Annotations[cluster.AnnotationHost] != plan.Unset
		x.serial++
		x.st.SetClaim(&c, x.serial)
	}
	for _, a := range x.last.Actions {
		u, ok := a.(plan.UpdateNode)
		if !ok || !slices.ContainsFunc(slices.Concat(u.AddTaints, u.RemoveTaints), func(t model.Taint) bool {
			return t.Key == model.TaintReserved && (hosts[t.Value] || x.st.FindClaim(t.Value) != nil && x.st.FindClaim(t.Value).Annotations[cluster.AnnotationHost] != "")
		}) {
			continue
		}
		for _, n := range x.st.Snapshot(x.now).Nodes {
			if n.Name == u.Node {
				m := *n
				m.Pods, m.Used, m.Claim = nil, nil, ""
				m.Taints = append(slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return slices.Contains(u.RemoveTaints, t) }), u.AddTaints...)
				x.serial++
				x.st.SetNode(&m, x.serial)
			}
		}
	}
}

func (x *script) line(f []string) {
	switch f[0] {
	case "at", "glance":
		x.now = x.when(f[1])
		x.tell = len(f) > 2 && f[2] == "tell"
		x.streaming, x.undecided = nil, nil
		for _, o := range f[2:] {
			switch namespace, undecided := strings.CutPrefix(o, "undecided="); {
			case o == "more":
				x.streaming = map[string]bool{"default": true}
			case undecided:
				x.undecided = map[string]bool{namespace: true}
			}
		}
		x.decide(f[0] == "at")
		fmt.Fprintf(&x.out, "%s %s\n%s", f[0], f[1], x.describe())
		x.describeQuery()
	case "expander":
		x.ask, x.answer = f[1] == "ask", nil
		if f[1] != "ask" && f[1] != "none" {
			x.answer = &nodegroups.Answer{Groups: strings.Split(f[1], ",")}
		}
	case "halt":
		x.now = x.when(f[1])
		x.st.SetNow(x.now)
		x.st.ExpireActions(x.now)
		x.last, x.mem = Step(x.st.Snapshot(x.now), x.mem, x.now, x.pol, Request{OngoingOnly: true, PassiveReason: "another is live"})
		fmt.Fprintf(&x.out, "%s %s\n%s", f[0], f[1], x.describe())
	case "begin":
		for _, a := range x.last.Actions {
			x.st.Begin(a, x.now, x.now.Add(time.Minute))
		}
	case "done":
		for _, a := range x.last.Actions {
			x.st.InFlight.EndAction(a.Key())
		}
	case "refuse", "lose": // no answer came of what is lost
		for _, a := range x.last.Actions {
			sim.Fail(x.st, a, x.now, f[0] == "refuse")
		}
	case "refused":
		x.st.Overlay.RefuseToleration("default/"+f[1], "uid-"+f[1])
	case "forget":
		x.mem = Memory{}
	case "restart":
		text, err := json.Marshal(x.mem.Learned(x.st.Resources().Names()))
		if err != nil {
			x.t.Fatal(err)
		}
		var kept LearnedCapacity
		if err := json.Unmarshal(text, &kept); err != nil {
			x.t.Fatal(err)
		}
		x.mem = Memory{}.WithLearned(kept, x.st.Resources().Dim)
	case "pace":
		x.pol.EvictionConcurrency = int(x.number(f[1]))
	case "repair":
		p := claims.RepairPolicy{Condition: f[1], Status: f[2], After: x.duration(f[3])}
		for _, w := range f[4:] {
			switch k, v, _ := strings.Cut(w, "="); k {
			case "drain":
				p.Drain = x.duration(v)
			case "reason":
				p.Reason = regexp.MustCompile(v)
			case "priority":
				p.Priority = int(x.number(v))
			case "reboot":
				p.Reboot = true
			default:
				x.t.Fatalf("repair: unknown word %q", w)
			}
		}
		x.pol.Repair = append(x.pol.Repair, p)
	case "legacyrepair":
		x.pol.LegacyRepair = true
	case "terminatefirst":
		x.pol.TerminateFirstDrift, x.pol.TerminateFirstRepair = true, true
	case "landing":
		x.pol.Landing.Mode = landing.Mode(f[1])
	case "notbound": // verify refuses the bindings of the last step
		for _, a := range x.last.Actions {
			if b, ok := a.(plan.Bind); ok {
				x.notBound = append(x.notBound, RefusedBinding{b.UID, model.PodKey(b.Namespace, b.Pod), b.Node, plan.Reason{Code: plan.Resource, Subject: plan.ObjectOf("node", b.Node)}})
			}
		}
	case "unbindable":
		x.st.Overlay.RefuseBinding("default/"+f[1], "uid-"+f[1])
	case "serves":
		x.pol.NodeClasses = f[1:]
	case "pool":
		x.pool(f[1], f[2:])
	case "type":
		x.instanceType(f[1], f[2:])
	case "claim":
		x.claim(f[1], f[2:])
	case "node":
		x.node(f[1], f[2:])
	case "pod":
		x.pod(f[1], f[2:])
	case "machine":
		x.machine(f[1], f[2:])
	case "listed":
		x.listed = x.when(f[1])
		x.st.SetInstances(x.list, x.listed)
	case "failure":
		x.st.RecordLaunchFailure("uid-"+f[1], model.LaunchFailure{Kind: f[2], Message: strings.Join(f[3:], " ")})
	case "unmade":
		u := model.UnmadeClaim{Claim: f[1]}
		for i, o := range f[2:] {
			k, v, _ := strings.Cut(o, "=")
			switch k {
			case "pool":
				u.Pool = v
			case "group":
				u.Group = v
			case "slot":
				group, n, _ := strings.Cut(v, ":")
				for range x.number(n) {
					u.Slots = cluster.MergeSlots(u.Slots, []*model.Pod{x.groups[group]})
				}
			case "for": // no pod
				if v == "static" {
					u.Slots = append(u.Slots, unused.LaunchSlots(plan.CreateClaim{Pool: x.pools[u.Pool], NoReserve: plan.Reason{Code: plan.Static}})...)
					continue
				}
				key := "default/" + strings.TrimPrefix(v, "buffer/")
				for _, b := range x.st.Snapshot(x.now).Buffers {
					if b.Key() == key {
						u.Slots = append(u.Slots, unused.LaunchSlots(plan.CreateClaim{NoReserve: plan.Reason{Code: plan.HeldForBuffer}, Pods: []*model.Pod{b.Like}})...)
					}
				}
			case "at":
				u.At, u.Message = x.when(v), strings.Join(f[i+3:], " ")
			}
		}
		x.st.RecordUnmadeClaim(u)
	case "said":
		for _, p := range x.st.Snapshot(x.now).Pending {
			if p.Name == f[1] {
				q := *p
				q.Refusal = strings.Join(f[2:], " ")
				x.st.SetPod(&q)
			}
		}
	case "gone":
		switch f[1] {
		case "pod":
			x.st.DeletePod("default/" + f[2])
		case "node":
			x.st.DeleteNode(f[2])
		case "claim":
			x.st.DeleteClaim(f[2])
		case "pdb":
			x.st.DeletePDB("default/" + f[2])
		case "buffer":
			x.st.DeleteBuffer("default/" + f[2])
		case "daemon":
			x.st.DeleteDaemon("default/" + f[2])
		case "type":
			for _, n := range slices.Sorted(maps.Keys(x.pools)) {
				q := *x.pools[n]
				q.Types = slices.DeleteFunc(slices.Clone(q.Types), func(t *model.InstanceType) bool { return t.Name == f[2] })
				x.pools[n] = &q
				x.st.Pools.SetPool(&q)
			}
		}
	case "pdb":
		q := model.NewRequirements(model.OneOf("app", strings.TrimPrefix(f[2], "app=")))
		b := &model.PDB{Namespace: "default", Name: f[1], Selector: &q, DisruptionsAllowed: int32(x.number(strings.TrimPrefix(f[3], "allowed="))), Healthy: 1, Expected: 1}
		for _, o := range f[4:] {
			switch k, v, _ := strings.Cut(o, "="); k {
			case "healthy":
				b.Healthy = int32(x.number(v))
				b.Expected = max(b.Expected, b.Healthy)
			case "expected":
				b.Expected = int32(x.number(v))
			case "unready": // may always be evicted
				b.AlwaysAllowUnready = true
			default:
				x.t.Fatalf("pdb option %q", o)
			}
		}
		b.Desired = max(0, b.Healthy-b.DisruptionsAllowed)
		b.MinAvailable = strconv.Itoa(int(b.Desired))
		x.st.SetPDB(b)
	case "why":
		x.why(f[1])
	case "planted":
		x.planted(f[1], plan.Code(f[2]))
	case "ended":
		x.ended(f[1], plan.Code(f[2]))
	case "fails":
		x.st.InFlight.RecordFailure(model.ActionKey(f[1]), func(int) time.Time { return x.now.Add(time.Hour) })
		x.st.InFlight.DescribeFailure(model.ActionKey(f[1]), strings.Join(f[2:], " "), x.now)
	case "undone":
		for i := range x.number(f[2]) {
			u := plan.UpdateNode{Node: f[1], UID: "uid-" + f[1], Labels: map[string]string{"ours": "true"}}
			x.st.Begin(u, x.now, x.now.Add(time.Minute))
			x.st.InFlight.RecordAnswer(u.Key(), uint64(1+i), x.now, x.now.Add(time.Minute))
		}
	case "attach":
		x.st.SetAttachment(model.Attachment{Name: f[2], Claim: strings.Join(f[3:], " ")}, f[1])
	case "detach":
		x.st.DeleteAttachment(f[1])
	case "works":
		x.st.InFlight.EndAction(model.ActionKey(f[1]))
	case "flip":
		x.flip(f[1])
	case "buffer":
		x.buffer(f[1], int(x.number(f[2])), x.groups[f[3]], f[4:])
	case "deployment":
		d := &model.Deployment{Namespace: "default", Name: f[1], UID: "uid-" + f[1], Replicas: 1, MaxSurge: 1}
		for _, o := range f[2:] {
			k, v, _ := strings.Cut(o, "=")
			switch k {
			case "replicas":
				d.Replicas = int32(x.number(v))
			case "nosurge":
				d.MaxSurge = 0
			case "recreate":
				d.Recreate = true
			case "paused":
				d.Paused = true
			case "restarted":
				d.RestartedAt = v
			case "rolling":
				d.Rolling = true
			default:
				x.t.Fatalf("deployment option %q", o)
			}
		}
		x.st.SetDeployment(d)
	case "replicas":
		x.st.SetReplicas("rs-"+f[1], int(x.number(f[2])))
	case "revision":
		x.st.SetTemplate("rs-"+f[1], &model.Template{Deployment: f[2], Revision: x.number(f[3])})
	case "ending":
		x.st.SetNamespace("default", nil, x.now)
	case "shift":
		x.shift(f[1], f[2:])
	case "quota":
		if len(f) > 2 {
			x.st.DeleteQuota("default/" + f[1])
		} else {
			x.st.SetQuota("default/" + f[1])
		}
	case "limit":
		x.limit(f[1], f[2:])
	case "daemon":
		d := &model.Daemon{Namespace: "default", Name: f[1]}
		c := model.Class{Namespace: "default", Labels: model.Labels{"app": f[1]}, Requests: model.Resources{100, 0, 0, 1}, Daemon: true, Scheduler: model.DefaultScheduler}
		for _, o := range f[2:] {
			k, v, _ := strings.Cut(o, "=")
			switch k {
			case "port":
				c.HostPorts = append(c.HostPorts, model.HostPort{Protocol: "TCP", Port: int32(x.number(v))})
			case "tolerate":
				c.Tolerations = append(c.Tolerations, model.Toleration{Key: strings.TrimPrefix(v, "*"), Exists: true, For: -1})
			case "select":
				key, value, _ := strings.Cut(v, "=")
				c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(key, value))}}
			case "anti":
				rs := model.NewRequirements(model.OneOf("app", v))
				c.AntiAffinity = append(c.AntiAffinity, model.PodTerm{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &rs}})
			default:
				dim, n := x.amount(k, v)
				c.Requests = c.Requests.With(dim, n)
			}
		}
		d.Class = classOf(c)
		x.st.SetDaemon(d)
	default:
		x.t.Fatalf("unknown line %q", strings.Join(f, " "))
	}
}

func (x *script) decide(look bool) {
	x.st.SetNow(x.now)
	x.reserve()
	x.st.ExpireActions(x.now)
	snap := x.st.Snapshot(x.now)
	x.last, x.mem = stepTwice(snap, x.mem, x.now, x.pol, Request{Solve: look, NoteBlockers: x.tell, Streaming: x.streaming, Undecided: x.undecided, NotBound: x.notBound, AskExpander: x.ask, Expander: x.answer}, x.t.Fatalf)
	x.notBound = nil
	if refused, err := SecondOpinion(snap, &x.last); err != nil || len(refused) > 0 {
		x.t.Errorf("refused by verify: %v %v", err, refused)
	}
	for _, m := range x.last.Commands {
		for _, u := range m.Candidates {
			x.marks[u.Claim.Name] = m.ID.Message()
		}
	}
}

func (x *script) duration(s string) time.Duration {
	if s == "Never" {
		return -1
	}
	d, err := time.ParseDuration(strings.TrimPrefix(s, "+"))
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

func (x *script) when(s string) time.Time { return epoch.Add(x.duration(s)) }

func (x *script) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		x.t.Fatal(err)
	}
	return n
}

// amount reads RES=AMOUNT.
func (x *script) amount(k, v string) (model.Dim, int64) {
	if k == "mem" {
		k = "memory"
	}
	d := slices.Index(x.st.Resources().Names(), k)
	if d < 0 {
		x.t.Fatalf("option %s=%s", k, v)
	}
	mult := int64(1)
	for suffix, m := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if s, ok := strings.CutSuffix(v, suffix); ok {
			v, mult = s, m
		}
	}
	if model.Dim(d) == model.CPU {
		s, milli := strings.CutSuffix(v, "m")
		if v = s; !milli {
			mult = 1000
		}
	}
	return model.Dim(d), x.number(v) * mult
}

func (x *script) taint(v string) model.Taint {
	kv, effect, ok := strings.Cut(v, ":")
	k, val, _ := strings.Cut(kv, "=")
	if !ok {
		effect = model.NoSchedule
	}
	return model.Taint{Key: k, Value: val, Effect: effect}
}

var shortKeys = map[string]string{"zone": model.LabelZone, "host": model.LabelHostname}

func longKey(k string) string {
	if l, ok := shortKeys[k]; ok {
		return l
	}
	return k
}

func (x *script) limit(name string, opts []string) {
	l := &model.CapacityLimit{Name: name, Nodes: -1, MicroPerHour: -1}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch key, least := strings.CutPrefix(k, "least."); {
		case k == "select":
			key, value, _ := strings.Cut(v, ":")
			l.Selector = l.Selector.With(model.OneOf(longKey(key), strings.Split(value, ",")...))
		case k == "nodes":
			l.Nodes = x.number(v)
		case k == "dollars":
			micro, ok := model.ParseDollars(v)
			if !ok {
				x.t.Fatalf("limit %s: %q", name, o)
			}
			l.MicroPerHour = micro
		case least:
			d, n := x.amount(key, v)
			l.Least = l.Least.With(d, n)
		default:
			d, n := x.amount(k, v)
			l.SetMost(d, n)
		}
	}
	x.st.SetLimit(l)
}

func (x *script) pool(name string, opts []string) {
	p := &model.NodePool{Name: name, UID: "uid-" + name, Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1,
		ConsolidateAfter: -1, Labels: model.Labels{model.LabelNodePool: name}, Hash: "h", StatusHash: "h",
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, name)), Conditions: map[string]model.Condition{
			"ValidationSucceeded": {Status: "True", Reason: "ValidationSucceeded"}, "NodeClassReady": {Status: "True", Reason: "NodeClassReady"}}}
	scaling := func() *model.GroupScaling {
		if p.Scaling == nil {
			p.Scaling = &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1}
		}
		return p.Scaling
	}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch {
		case k == "weight":
			p.Weight = int32(x.number(v))
		case k == "limit.nodes":
			p.NodeLimit = x.number(v)
		case strings.HasPrefix(k, "limit."):
			d, n := x.amount(strings.TrimPrefix(k, "limit."), v)
			p.Limits = p.Limits.With(d, n)
			p.HasLimit = append(p.HasLimit, make([]bool, max(0, int(d)+1-len(p.HasLimit)))...)
			p.HasLimit[d] = true
		case k == "taint":
			p.Taints = append(p.Taints, x.taint(v))
		case k == "startup":
			p.StartupTaints = append(p.StartupTaints, x.taint(v))
		case k == "after":
			p.ConsolidateAfter = x.duration(v)
		case k == "budget":
			p.Budgets = append(p.Budgets, x.budget(v))
		case k == "notready":
			p.Ready, p.NotReady = false, model.Condition{Status: "False", Reason: "NodeClassNotFound", Message: "no such class"}
		case k == "unasked":
			p.Ready, p.NotReady = false, model.Condition{Status: "False", Reason: model.OfferingsNotAsked, Message: "the provider has not been asked yet"}
		case k == "deleting":
			p.Deleting = true
		case k == "label":
			key, val, _ := strings.Cut(v, ":")
			p.Labels[longKey(key)] = val
			p.Requirements = p.Requirements.With(model.OneOf(longKey(key), val))
		case k == "replicas":
			p.Replicas = x.number(v)
		case k == "discovered":
			p.Discovered = true
		case k == "provisioner":
			p.Provisioner = v
		case k == "surge":
			p.Surge = "true"
		case k == "restart":
			p.RestartCost = v
		case k == "static":
			p.Replicas = 1
		case k == "status":
			x.status[name] = true
		case k == "policy":
			p.ConsolidationPolicy = map[string]string{"all": "WhenEmptyOrUnderutilized", "balanced": "Balanced", "empty": "WhenEmpty"}[v]
		case k == "healthy":
			p.Conditions[pools.RegistrationHealthy] = model.Condition{Status: v, Reason: "RegistrationFailed"}
			p.ClassGeneration = 1
		case k == "hash":
			p.Hash = v
			if x.pools[name] == nil {
				p.StatusHash = v
			}
		case k == "class":
			p.ClassGroup, p.ClassKind, p.ClassName = "dovetail.sh", "NodeGroupClass", v
			p.Requirements = p.Requirements.With(model.OneOf("dovetail.sh/nodegroupclass", v))
		case k == "only":
			key, val, _ := strings.Cut(v, ":")
			p.Requirements = p.Requirements.With(model.OneOf(longKey(key), val))
		case k == "expand":
			scaling().Expanders = strings.Split(v, ",")
		case k == "priority":
			n, re, _ := strings.Cut(v, ":")
			scaling().Priorities = append(scaling().Priorities, model.GroupPriority{Priority: int32(x.number(n)), Names: []*regexp.Regexp{regexp.MustCompile(re)}})
		case k == "cutoff":
			scaling().Cutoff = model.PriorityCutoff{Set: true, Below: int32(x.number(v))}
		case k == "delay":
			scaling().PodDelay = x.duration(v)
		case k == "chosen":
			scaling().Chosen = strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
			slices.Sort(scaling().Chosen)
		case k == "unread":
			scaling().Unread = true
		case k == "after-add":
			scaling().Delays.AfterAdd = x.duration(v)
		case k == "after-delete":
			scaling().Delays.AfterDelete = x.duration(v)
		case k == "after-failure":
			scaling().Delays.AfterFailure = x.duration(v)
		case k == "own-delays":
			scaling().Delays.PerGroup = true
		case k == "tainted":
			scaling().TaintDelay = x.duration(v)
		case k == "balance":
			scaling().Balance, scaling().Ignore = true, []string{"eks.amazonaws.com/nodegroup"}
		case k == "group":
			parts := strings.Split(v, ":")
			g := model.NodeGroup{Name: parts[0], Min: x.number(parts[1])}
			if len(parts) > 2 {
				g.Refresh = parts[2]
			}
			scaling().Groups = append(scaling().Groups, g)
		case k == "min":
			key, n, _ := strings.Cut(v, ":")
			q, err := model.NewRequirement(longKey(key), model.OpExists)
			if err != nil {
				x.t.Fatal(err)
			}
			q.MinValues = int(x.number(n))
			p.Requirements = p.Requirements.With(q)
		default:
			x.t.Fatalf("pool option %q", o)
		}
	}
	if old := x.pools[name]; old != nil {
		p.Types = old.Types // still offered
	}
	x.pools[name] = p
	x.st.Pools.SetPool(p)
}

func (x *script) budget(v string) model.Budget {
	parts := strings.Split(v, ";")
	var b model.Budget
	n, percent := strings.CutSuffix(parts[0], "%")
	b.Nodes, b.Percent = x.number(n), percent
	if len(parts) > 1 && parts[1] != "" {
		b.Reasons = strings.Split(parts[1], ",")
	}
	if len(parts) > 3 {
		b.Schedule, b.Duration = strings.ReplaceAll(parts[2], "_", " "), x.duration(parts[3])
	}
	return b
}

func (x *script) instanceType(name string, opts []string) {
	t := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}}
	quota := ""
	zones, groups, gone, group, only, price, left, most := []string{"a", "b"}, []string(nil), "", "", "", int64(0), int64(100), int64(0)
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "price":
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				x.t.Fatal(err)
			}
			price = int64(math.Round(f * 1e6))
		case "zones":
			zones = strings.Split(v, ",")
		case "gone":
			gone = v
		case "quota":
			quota = v
		case "boots":
			t.Boots = v
		case "group":
			group = v
		case "groups":
			zones = nil
			for _, s := range strings.Split(v, ",") {
				g, z, _ := strings.Cut(s, ":")
				zones, groups = append(zones, z), append(groups, g)
			}
		case "left":
			left = x.number(v)
		case "max":
			most = x.number(v)
		case "in":
			only = v
		case "label":
			key, val, _ := strings.Cut(v, ":")
			t.Labels[key] = val
		default:
			d, n := x.amount(k, v)
			t.Allocatable = t.Allocatable.With(d, n)
		}
	}
	t.Allocatable = t.Allocatable.With(model.Pods, 110)
	t.Capacity = t.Allocatable
	for i, z := range zones {
		if groups != nil {
			group = groups[i]
		}
		o := model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: price, Available: z != gone, Remaining: -1}
		if !o.Available {
			o.Quota = quota
		}
		if group != "" {
			o.Labels, o.Remaining, o.Most = model.Labels{model.LabelNodeGroup: group}, left, cmp.Or(most, left+10)
			o.Available = o.Available && left > 0
		}
		t.Offerings = append(t.Offerings, o)
	}
	x.types[name] = t
	for _, n := range slices.Sorted(maps.Keys(x.pools)) {
		if only != "" && n != only {
			continue
		}
		q := *x.pools[n]
		q.Types = append(slices.DeleteFunc(slices.Clone(q.Types), func(o *model.InstanceType) bool { return o.Name == name }), t)
		x.pools[n] = &q
		x.st.Pools.SetPool(&q)
	}
}

// shift begins or ends the zonal shift away from a zone. The types that are there then know of it.
func (x *script) shift(zone string, opts []string) {
	var now []model.ZonalShift
	if len(opts) > 0 {
		now = []model.ZonalShift{{Zone: zone, ZoneID: "id-" + zone, ID: opts[0], Until: x.when(opts[1])}}
	}
	x.st.SetZonalShifts(now, true)
	for _, n := range slices.Sorted(maps.Keys(x.pools)) {
		q := *x.pools[n]
		q.Types = slices.Clone(q.Types)
		for i, was := range q.Types {
			t := *was
			t.Offerings = slices.Clone(t.Offerings)
			for j := range t.Offerings {
				if o := &t.Offerings[j]; o.Zone == zone {
					o.Available, o.Shift = len(now) == 0, nil
					if len(now) > 0 {
						o.Shift = &now[0]
					}
				}
			}
			q.Types[i] = &t
		}
		x.pools[n] = &q
		x.st.Pools.SetPool(&q)
	}
}

func (x *script) claim(name string, opts []string) {
	c := &model.Claim{ClassGroup: "karpenter.kwok.sh", ClassKind: "KWOKNodeClass", Name: name, UID: "uid-" + name, ExpireAfter: -1, TerminationGracePeriod: -1, Created: epoch, HasFinalizer: true,
		Labels: model.Labels{}, Conditions: map[string]model.Condition{}, Requests: model.Resources{}.With(model.CPU, 1)}
	var types, zones []string
	reserved := false
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "pool":
			c.Pool = v
			c.Labels[model.LabelNodePool] = v
			c.Taints, c.StartupTaints = x.pools[v].Taints, x.pools[v].StartupTaints
		case "created":
			c.Created = x.when(v)
		case "types":
			types = strings.Split(v, ",")
		case "zones":
			zones = strings.Split(v, ",")
		case "launched", "registered", "initialized", "consolidatable", "drifted", "drained":
			k = strings.ToUpper(k[:1]) + k[1:]
			c.Conditions[k] = model.Condition{Status: "True", Reason: k, Since: x.when(v)}
			if k == lifecycle.Initialized { // and its node is what was bought
				c.Conditions[lifecycle.Consistent] = model.Condition{Status: "True", Reason: lifecycle.Consistent, Since: x.when(v)}
			}
			if k == lifecycle.Drifted {
				c.Conditions[k] = model.Condition{Status: "True", Reason: "NodePoolDrifted", Since: x.when(v)}
			}
		case "waits":
			c.Conditions[lifecycle.Launched] = model.Condition{Status: "Unknown", Reason: string(plan.UnusedLaunches), Since: x.when(v)}
		case "failed", "aborted":
			code := plan.CommandFailed
			if k == "aborted" {
				code = plan.Aborted
			}
			c.Conditions["DisruptionReason"] = model.Condition{Status: "False", Reason: string(code), Since: x.when(v)}
		case "rebooting": // REASON,SINCE; one that has ended is False
			reason, since, _ := strings.Cut(v, ",")
			status := "True"
			if reason == lifecycle.RebootSucceeded || reason == lifecycle.RebootFailed {
				status = "False"
			}
			c.Conditions[lifecycle.Rebooting] = model.Condition{Status: status, Reason: reason, Since: x.when(since)}
		case "marked":
			c.Conditions["DisruptionReason"] = model.Condition{Status: "True", Reason: string(plan.Underutilized), Message: "move m1", Since: x.now}
		case "moving":
			c.Conditions["DisruptionReason"] = model.Condition{Status: "True", Reason: v, Message: x.moveMark(name), Since: x.now}
		case "price":
			c.Annotations = model.Labels{model.AnnotationLaunchPrice: v}
		case "replaces":
			r := cluster.CommandRecord{ID: "m1", Cause: plan.Underutilized, Of: 1}
			for _, old := range strings.Split(v, ",") {
				r.Claims = append(r.Claims, "uid-"+old)
			}
			text, err := json.Marshal(r)
			if err != nil {
				x.t.Fatal(err)
			}
			c.Annotations = model.Labels{cluster.AnnotationCommand: string(text)}
		case "sold":
			c.Labels[model.LabelCapacityType], c.Labels[model.LabelZone], _ = strings.Cut(v, ",")
			c.Labels["reservation"] = "cr"
		case "label":
			key, val, _ := strings.Cut(v, ":")
			c.Labels[longKey(key)] = val
		case "buffer":
			c.NoReserve = string(plan.HeldForBuffer)
		case "orphan":
			c.Orphan = true
		case "maker": // somebody else
			c.Maker = v
		case "held":
			c.Annotations = model.Labels{disrupt.DoNotDisrupt: "true"}
		case "ends":
			c.Annotations = model.Labels{lifecycle.TerminationTime: x.when(v).Format(time.RFC3339)}
		case "interrupted":
			parts := strings.Split(v, ",")
			n := cluster.Notice{Kind: parts[0], Seen: x.when(parts[1])}
			if len(parts) > 2 {
				n.At = x.when(parts[2])
			}
			text, err := n.Text()
			if err != nil {
				x.t.Fatal(err)
			}
			c.Annotations = model.Labels{cluster.AnnotationInterrupted: text}
		case "hash":
			c.Annotations = model.Labels{hashAnnotation: v, hashVersionAnnotation: hashVersion}
		case "annotation":
			key, val, _ := strings.Cut(v, ":")
			c.Annotations = model.MergeLabels(c.Annotations, model.Labels{key: val})
		case "deleting":
			c.Deleting = x.when(v)
		case "reserved":
			reserved = true
		case "keep":
			c.Annotations = model.Labels{disrupt.KeepUntil: x.when(v).Format(time.RFC3339)}
		case "group":
			c.Labels[model.LabelNodeGroup] = v
		case "otherfinalizer":
			c.OtherFinalizers = append(c.OtherFinalizers, v)
		case "nofinalizer":
			c.HasFinalizer = false
		case "expire":
			c.ExpireAfter = x.duration(v)
		case "tgp":
			c.TerminationGracePeriod = x.duration(v)
		case "slot":
			group, n, _ := strings.Cut(v, ":")
			p := x.groups[group]
			if p == nil {
				x.t.Fatalf("slot for %q: no such pods", group)
			}
			for range x.number(n) {
				c.Slots = cluster.MergeSlots(c.Slots, []*model.Pod{p})
			}
		default:
			d, amount := x.amount(k, v)
			c.Requests = c.Requests.With(d, amount)
		}
	}
	c.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, c.Pool), model.OneOf(model.LabelInstanceType, types...))
	if len(zones) > 0 {
		c.Requirements = c.Requirements.With(model.OneOf(model.LabelZone, zones...))
	}
	if c.Is("Launched") {
		t := x.types[types[0]]
		c.ProviderID, c.Capacity, c.Allocatable = "m-"+name, t.Capacity, t.Allocatable
		c.Labels[model.LabelInstanceType] = t.Name
		if len(zones) > 0 {
			c.Labels[model.LabelZone] = zones[0]
		}
	}
	c.Reserved = reserved || len(c.Slots) == 0
	x.claims[name] = c
	x.st.SetClaim(c, 1)
}

// moveMark is the message that the last decisions wrote into a claim that goes in a move.
func (x *script) moveMark(claim string) string {
	if x.marks[claim] == "" {
		x.t.Fatalf("claim %s goes in no move", claim)
	}
	return x.marks[claim]
}

func (x *script) node(name string, opts []string) {
	n := &model.Node{Name: name, UID: "uid-" + name, Ready: true, Created: epoch.Add(-time.Hour), Labels: model.Labels{model.LabelHostname: name}, Annotations: model.Labels{}}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "type":
			t := x.types[v]
			n.Capacity, n.Allocatable = t.Capacity, t.Allocatable
			n.Labels[model.LabelInstanceType], n.Labels[model.LabelCapacityType] = v, model.OnDemand
		case "zone":
			n.Labels[model.LabelZone] = v
		case "label":
			key, val, _ := strings.Cut(v, ":")
			n.Labels[key] = val
		case "sold":
			n.Labels[model.LabelCapacityType], n.Labels["reservation"] = v, "cr"
		case "claim":
			n.ProviderID = "m-" + v
			if c := *x.claims[v]; c.Is("Registered") {
				c.NodeName = name
				x.claims[v] = &c
				x.st.SetClaim(&c, 1)
			}
			n.Labels[model.LabelNodePool] = x.claims[v].Pool
			n.HasFinalizer = true
		case "notready":
			n.Ready = false
		case "cordon":
			n.DaemonsOnly = true
		case "driver":
			n.CSIDrivers = append(n.CSIDrivers, v)
		case "registered":
			n.Labels[model.LabelRegistered] = "true"
		case "initialized":
			n.Labels[model.LabelRegistered], n.Labels[model.LabelInitialized] = "true", "true"
		case "deleting":
			n.Deleting = x.now
			n.Labels["node.kubernetes.io/exclude-from-external-load-balancers"] = "karpenter"
		case "finalizer":
			n.HasFinalizer = true
		case "taint":
			n.Taints = append(n.Taints, x.taint(v))
		case "created":
			n.Created = x.when(v)
		case "boot":
			n.BootID = v
		case "bad":
			parts := strings.Split(v, ",")
			bad := model.Condition{Status: parts[1], Since: x.when(parts[2])}
			if len(parts) > 3 {
				bad.Reason = parts[3]
			}
			if n.Conditions == nil {
				n.Conditions = map[string]model.Condition{}
			}
			n.Conditions[parts[0]] = bad
			n.Ready = n.Ready && parts[0] != "Ready"
		case "annotation":
			key, val, _ := strings.Cut(v, ":")
			n.Annotations[key] = val
		case "otherfinalizer":
			n.OtherFinalizers = append(n.OtherFinalizers, v)
		case "keep":
			n.Annotations["karpenter.sh/do-not-disrupt"] = "true"
		case "disabled":
			n.Annotations[disrupt.ScaleDownDisabled] = "true"
		default:
			d, amount := x.amount(k, v)
			n.Allocatable = n.Allocatable.With(d, amount)
		}
	}
	x.st.SetNode(n, 1)
}

// classOf makes a class whose key says all of it.
func classOf(c model.Class) *model.Class {
	c.Key = ""
	key, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	c.Key = string(key)
	return &c
}

func (x *script) pod(name string, opts []string) {
	c := model.Class{Namespace: "default", Labels: model.Labels{"app": name}, Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: model.DefaultScheduler}
	p := model.Pod{Namespace: "default", Created: epoch, Owner: model.Owner{Kind: "ReplicaSet", Name: name, UID: "rs-" + name}}
	count, unseen := int64(-1), false
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		if n, err := strconv.ParseInt(strings.TrimPrefix(o, "x"), 10, 64); err == nil && o[0] == 'x' {
			count = n
			continue
		}
		switch k {
		case "owner":
			c.Labels["app"] = v
			p.Owner = model.Owner{Kind: "ReplicaSet", Name: v, UID: "rs-" + v}
			if v == "none" {
				p.Owner = model.Owner{}
			}
		case "kind":
			p.Owner.Kind = v
		case "on":
			p.Node = v
		case "starting":
			p.Starting = true
		case "bound":
			p.Bound = x.when(v)
		case "for":
			p.Reservations = append(p.Reservations, v)
		case "created":
			p.Created = x.when(v)
		case "unseen":
			unseen = true
		case "deleting":
			p.Deleting = x.when(v)
		case "gated":
			p.Gated = true
		case "gang":
			g, least, _ := strings.Cut(v, ":")
			least, staged := strings.CutSuffix(least, ":staged")
			least, scheduler := strings.CutSuffix(least, ":scheduler")
			p.Gang = model.Gang{Name: "podgroup/default/" + g, Least: int(x.number(least)), Staged: staged, LeftToScheduler: scheduler}
		case "domain":
			p.Gang.Domain = v
		case "prefers":
			p.Gang.Prefers = v
		case "podset":
			p.Gang.PodSet = v
		case "done":
			p.Terminal = true
		case "in":
			p.Namespace, c.Namespace = v, v
		case "finalizer":
			p.Finalizers = append(p.Finalizers, v)
		case "grace":
			p.GracePeriod = x.duration(v)
		case "dnd":
			p.DoNotDisrupt = v
		case "donotevict": // the annotation that is older
			p.DoNotDisrupt, p.DoNotEvict = "true", true
		case "restart":
			p.RestartCost = v
		case "evict":
			p.SafeToEvict = v
		case "local":
			p.LocalVolume = v
		case "later":
			p.ScaleUpDelay = x.duration(v)
		case "port":
			c.HostPorts = append(c.HostPorts, model.HostPort{Protocol: "TCP", Port: int32(x.number(v))})
		case "nominated":
			p.Nominated = cmp.Or(v, "somewhere")
		case "tolerate":
			if v == "*" {
				v = ""
			}
			c.Tolerations = append(c.Tolerations, model.Toleration{Key: v, Exists: true, For: -1})
		case "select":
			sk, sv, _ := strings.Cut(v, "=")
			c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(longKey(sk), sv))}}
		case "spread":
			parts := strings.Split(v, ":")
			sel := model.NewRequirements(model.OneOf("app", c.Labels["app"]))
			s := model.SpreadConstraint{TopologyKey: longKey(parts[0]), MaxSkew: int32(x.number(parts[1])), Hard: true, Selector: &sel}
			for _, o := range parts[2:] {
				if m, ok := strings.CutPrefix(o, "min="); ok {
					s.MinDomains = int32(x.number(m))
				}
				s.HonorTaints = s.HonorTaints || o == "honor"
				s.Hard = s.Hard && o != "soft"
			}
			c.Spread = append(c.Spread, s)
		case "anti":
			sel := model.NewRequirements(model.OneOf("app", c.Labels["app"]))
			c.AntiAffinity = append(c.AntiAffinity, model.PodTerm{TopologyKey: longKey(v), Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}})
		case "near":
			key, app, _ := strings.Cut(v, ":")
			sel := model.NewRequirements(model.OneOf("app", app))
			c.Affinity = append(c.Affinity, model.PodTerm{TopologyKey: longKey(key), Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}})
		case "volume":
			claim, place, _ := strings.Cut(v, ":")
			zone, key, _ := strings.Cut(place, ":")
			vol := model.Volume{Claim: "default/" + claim, Handle: claim, Topology: []model.Requirements{model.NewRequirements(model.OneOf(model.LabelZone, zone))}}
			if key != "" {
				vol.Standing = []model.Requirements{model.NewRequirements(model.OneOf(key, zone))}
				vol.Driver, _, _ = strings.Cut(key, "/")
			}
			c.Volumes = append(c.Volumes, vol)
		case "registers":
			claim, driver, _ := strings.Cut(v, ":")
			c.Volumes = append(c.Volumes, model.Volume{Claim: "default/" + claim, Driver: driver, Handle: claim, Registers: true})
		case "untold": // CLAIM:STORAGECLASS, whose driver reports storage on no node
			claim, class, _ := strings.Cut(v, ":")
			c.Volumes = append(c.Volumes, model.Volume{Claim: "default/" + claim, Handle: claim, Unmade: true, Reported: class, Standing: []model.Requirements{{{Key: model.LabelHostname}}}})
		case "problem": // KIND:CLAIM[:OBJECT]
			w := strings.SplitN(v, ":", 3)
			vol := model.Volume{Claim: "default/" + w[1], Problem: model.VolumeProblem{Kind: model.VolumeProblemKind(w[0]), Words: "words"}}
			if len(w) > 2 {
				vol.Problem.Object = w[2]
			}
			c.Volumes = append(c.Volumes, vol)
		case "alone":
			c.Volumes = append(c.Volumes, model.Volume{Claim: "default/" + v, Handle: v, Exclusive: true})
		case "deploy":
			p.Deployment = v
			c.Labels["app"] = v
			p.Owner = model.Owner{Kind: "ReplicaSet", Name: name, UID: "rs-" + name}
		case "restarted":
			p.RestartedAt = v
		case "surge":
			p.Surge = "true"
		case "onenode":
			c.Volumes = append(c.Volumes, model.Volume{Claim: "default/" + v, Handle: v, OneNode: true})
		case "unsolved":
			c.Unsolved = append(c.Unsolved, strings.ReplaceAll(v, "_", " "))
		case "named":
			q := model.OneOf("metadata.name", v)
			c.Terms = append(c.Terms, model.NodeTerm{Names: &q})
		case "hosted": // HOSTNAME:NODE, any node of that host name but this one
			host, name, _ := strings.Cut(v, ":")
			q, err := model.NewRequirement("metadata.name", model.Operator("NotIn"), name)
			if err != nil {
				x.t.Fatal(err)
			}
			c.Terms = append(c.Terms, model.NodeTerm{Names: &q, Requirements: model.NewRequirements(model.OneOf(model.LabelHostname, host))})
		case "priority":
			c.Priority, c.Preempts = int32(x.number(v)), true
		case "daemon":
			c.Daemon = true
			p.Owner.Kind = "DaemonSet"
		case "mirror":
			p.Mirror = true
		case "scheduler":
			c.Scheduler = v
		default:
			d, n := x.amount(k, v)
			c.Requests = c.Requests.With(d, n)
		}
	}
	c.StayTogether(p.Gang)
	p.Class = classOf(c)
	if p.Node == "" && !unseen {
		p.Unschedulable = p.Created
	}
	x.groups[name] = &p
	for i := range max(count, 1) {
		q := p
		q.Name = name
		if count >= 0 {
			q.Name = fmt.Sprintf("%s-%d", name, i)
		}
		q.UID = "uid-" + q.Name
		if count != 0 {
			x.serial++
			q.Seen = x.serial
			x.st.SetPod(&q)
		}
	}
}

func (x *script) buffer(name string, replicas int, like *model.Pod, opts []string) {
	b := &model.Buffer{Namespace: "default", Name: name, UID: "uid-" + name, Created: epoch, Replicas: replicas, MaxHourMicro: -1, Total: -1,
		Ready: model.Condition{Status: "True", Reason: "Resolved"}}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "max":
			b.MaxHourMicro, _ = model.ParseDollars(v)
		case "group":
			b.Group = v
		case "total": // of the workload whose pods it is like
			b.Total, b.Workload = int(x.number(v)), model.Workload{Namespace: "default", Kind: "ReplicaSet", Name: like.Owner.Name}
		default:
			x.t.Fatalf("buffer option %q", o)
		}
	}
	if like != nil {
		c := *like.Class
		c.Priority = model.VirtualPriority
		b.Like = &model.Pod{Namespace: "default", Class: classOf(c), Expected: true, Buffer: b.Key()}
	}
	x.st.SetBuffer(b, 1)
}

func (x *script) machine(id string, opts []string) {
	i := &model.Instance{ProviderID: id, Launched: epoch}
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "claim":
			i.ClaimName, i.ClaimUID = v, "uid-"+v
		case "launched":
			i.Launched = x.when(v)
		case "gone":
			i.Gone = true
		case "coming":
			i.Coming = true
		case "unreserved":
			i.Unreserved = model.Labels{model.LabelCapacityType: model.OnDemand, "reservation": ""}
		case "member":
			f := strings.Split(v, ",")
			i.ClassKind, i.Class = "NodeGroupClass", f[0]
			i.Labels = model.Labels{model.LabelNodeGroup: f[1], model.LabelInstanceType: f[2], model.LabelZone: f[3], model.LabelCapacityType: model.OnDemand}
		case "replacing":
			i.Replacing = true
		case "given-up":
			i.GivenUp = x.when(v)
		default:
			x.t.Fatalf("machine option %q", o)
		}
	}
	x.list = slices.DeleteFunc(slices.Clone(x.list), func(o *model.Instance) bool { return o.ProviderID == id })
	x.list = append(x.list, i)
	x.st.SetInstances(x.list, x.listed)
}
