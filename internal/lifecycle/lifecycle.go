// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package lifecycle computes the next step of one NodeClaim: launch, register, initialize, end its reservation,
// expire, drain, terminate.
//
// It reads the current state of one NodeClaim, its node and its pods, and returns the actions of the next step and
// the time of the next evaluation. It keeps no state between calls, so a crash at any point leads to the same next
// step. It performs no I/O and reads no clock.
//
// The phases and timeouts are Karpenter's: 5 minutes to launch, 15 minutes to register, a drain in four tiers, and at
// least 5 seconds between the disrupted taint and the termination of the instance. Priority groups of a drain, and
// annotations that delay the deletion of a drained node, follow Cluster Autoscaler. Start reading at Next, then
// stepLiveClaim (launch.go, node.go, status.go) and stepDeletion (deletion.go, drain.go).
package lifecycle

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Conditions of a NodeClaim that a claim passes through, in order.
const (
	Launched     = "Launched"
	Registered   = "Registered"
	Initialized  = "Initialized"
	Drained      = "Drained"
	Detached     = "VolumesDetached"
	Terminating  = "InstanceTerminating"
	Consistent   = "ConsistentStateFound"
	Disrupted    = "DisruptionReason"
	Consolidable = "Consolidatable"
	Drifted      = "Drifted"
	Rebooting    = "Rebooting" // True: its node is rebooted; the reason says how far that is, or how it ended
)

const (
	excludeBalancersLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	// TerminationTime on a NodeClaim is the instant at which its pods are no longer waited for.
	TerminationTime = "karpenter.sh/nodeclaim-termination-timestamp"
	trueValue       = "true"
)

// wholeSecond is how much earlier than the truth a time read from the API server may be: it keeps no fractions.
const wholeSecond = time.Second

// StartTime is how long a pod that is bound may take to start before that counts as a fault of its own: its image may be missing. A CSI driver
// runs in such a pod, so that pods whose volumes need it wait as long for it on the node that was launched for them.
const StartTime = 5 * time.Minute

// Policy are the time limits of a claim's life.
type Policy struct {
	LaunchTimeout       time.Duration // from creation to an instance
	RegistrationTimeout time.Duration // from creation to a registered node; of a node group: from creation to an instance, and from there to a registered node
	LandingTimeout      time.Duration // from an initialized node, or the last pod that landed there, to the end of its reservation or booking
	SchedulerLag        time.Duration // kube-scheduler may hear of a pod on a node this much later than of a change of the node: it watches each kind on its own
	BindingDelay        time.Duration // kube-scheduler may bind a pod this much later than it chose the node: it sends 50 bindings a second, as set by default
	MinDrain            time.Duration // from the deletion to the instance's termination, so that load balancers hear of it
	StuckPod            time.Duration // a pod past its deletionTimestamp is waited for this long
	ListDelay           time.Duration // how long the cloud's list of instances may lag behind a launch
	QuickBoot           time.Duration // a new node that is not Ready is registered as it is after this long
	NodeGone            time.Duration // a registered claim without a node is kept this long
	EventDedup          time.Duration // lastPodEventTime is written at most this often
	DeletionDelay       time.Duration // a drained node is kept this long for annotations that delay its deletion
	SurgeTimeout        time.Duration // a pod's successor is waited for this long; then the pod is evicted
	RebootIssueTimeout  time.Duration // from the end of a drain to the reboot that it was for
	RebootTimeout       time.Duration // from the reboot to a node that is back
	ExpireGrace         time.Duration // past expireAfter a usable node is left this long to be replaced first
}

// DefaultPolicy are Karpenter's limits, and contract 9's for landing.
func DefaultPolicy() Policy {
	return Policy{
		LaunchTimeout: 5 * time.Minute, RegistrationTimeout: 15 * time.Minute, LandingTimeout: 30 * time.Second, SchedulerLag: time.Second, BindingDelay: 10 * time.Second,
		MinDrain: 5 * time.Second, StuckPod: time.Minute, ListDelay: 2 * time.Second, QuickBoot: 3 * time.Second,
		NodeGone: 30 * time.Second, EventDedup: 10 * time.Second, DeletionDelay: 2 * time.Minute, SurgeTimeout: 10 * time.Minute,
		RebootIssueTimeout: 5 * time.Minute, RebootTimeout: 20 * time.Minute,
	}
}

// WithTimeoutsOf returns the policy for a claim of a pool: a node group may have limits of its own for launch,
// registration and delays of the deletion. nil: of no pool.
func (p Policy) WithTimeoutsOf(pool *model.NodePool, c *model.Claim) Policy {
	if pool == nil || pool.Scaling == nil {
		return p
	}
	scaling := pool.Scaling.Of(c.NodeGroup())
	if d := scaling.Provision; d > 0 {
		p.LaunchTimeout, p.RegistrationTimeout = d, d
	}
	if d := scaling.DeletionDelay; d != 0 {
		p.DeletionDelay = max(d, 0)
	}
	return p
}

// Input is a claim and all that its next step depends on.
type Input struct {
	Claim         *model.Claim
	Pool          *model.NodePool     // nil: the claim has none, or it is gone
	Nodes         []*model.Node       // all nodes with the claim's provider id; more than one is a fault
	Type          *model.InstanceType // what was bought, to compare the node with; nil: it is not compared
	Instances     []*model.Instance   // the claim's instances in the last list: one, or none
	InstancesAt   time.Time           // when that list was asked for; zero: never
	Outages       []model.Outage      // of the cloud, oldest first
	Shift         *model.ZonalShift   // away from the claim's zone; nil: there is none
	ShiftsUnread  bool                // it is not known yet whether there is one
	Failure       *model.LaunchFailure
	Awaits        AwaitedLaunch
	Barred        BarredLaunch
	NodelessSince time.Time          // since when the claim, launched, has been seen without a node; zero: for ever
	Binding       bool               // pods are being bound to its node
	Promised      bool               // its capacity is promised to a ProvisioningRequest
	Awaited       int                // slots of its reservation whose pods are not bound on its node yet
	Coming        bool               // some of these pods are certain to come: they still run elsewhere, or are being created
	Landed        time.Time          // when Coming was last true, or a pod was last bound
	Daemons       DaemonWait         // pods of DaemonSets that are still to come to its node
	ResourceNames []string           // by Dim
	Rollouts      map[string]Rollout // by uid: pods that go after their successors have come
	Now           time.Time
	Policy        Policy
	Explain       bool // Output.Holds is asked for too
}

// BarredLaunch is why the instance of a claim that somebody else has created is not launched: earlier ones of the same maker were of no use.
type BarredLaunch struct {
	Why   plan.Reason // an empty code: it may be launched
	Until time.Time   // zero: until it is known what becomes of another one
	Tried time.Time   // when the last rest ended; zero: there was none
}

// AwaitedLaunch is another claim's launch that a claim without an instance waits for. A launch that has not begun waits because both
// would find out the same about capacity; one that failed for want of it, so that the pods of both get one plan.
type AwaitedLaunch struct {
	Claim string    // empty: none
	Until time.Time // when it is not waited for any longer
}

// DaemonWait is what a new node waits for before it is open to all pods: its room for pods of DaemonSets is kept until they are there.
type DaemonWait struct {
	Pods    int       // how many are still to come
	KeptOff bool      // for one of them the DaemonSet controller makes no pod while the node has the reservation's taint
	Since   time.Time // when one last came, here or to another node; zero: none did
}

// Rollout is how a pod goes after its successor has come: by a rollout of its Deployment.
type Rollout struct {
	Deployment *model.Deployment
	Begun      bool        // the rollout is under way
	By         time.Time   // when the pod must be evicted at the latest; zero: Policy.SurgeTimeout alone counts
	Refused    plan.Reason // why the pod cannot go so though that was asked for; an empty code: it can
}

// Output is the next step.
type Output struct {
	Actions []plan.Action // in the order in which they are to be carried out
	Next    time.Time     // when to look again though nothing happens; zero: no need
	Holds   []Hold        // with Input.Explain: what the next step waits for
}

func (o *Output) addActions(a ...plan.Action) { o.Actions = append(o.Actions, a...) }

// lookAgainAt asks to look again at a time, or earlier where something else asks for that.
func (o *Output) lookAgainAt(t time.Time) {
	if o.Next.IsZero() || t.Before(o.Next) {
		o.Next = t
	}
}

// IsExpired reports whether a claim's expireAfter has passed; never where it has none.
func IsExpired(c *model.Claim, now time.Time) bool {
	return c.ExpireAfter >= 0 && !now.Before(c.Created.Add(c.ExpireAfter))
}

// bootsSince is the instant from which the time for a claim's node to register counts: its creation. It is the launch for a claim that may have waited
// long for its instance: one that somebody else has created (BarredLaunch), and one of a node group, whose instance has as long to come as to register.
func bootsSince(c *model.Claim) time.Time {
	if launched := c.Conditions[Launched]; launched.True() && (c.Maker != "" || c.NodeGroup() != "") {
		return model.LaterOf(c.Created, launched.Since)
	}
	return c.Created
}

// HasTimedOut reports whether the time for a claim's node to register is over.
func HasTimedOut(c *model.Claim, pool *model.NodePool, pol Policy, outages []model.Outage, now time.Time) bool {
	return !now.Before(registrationLimit(c, pol.WithTimeoutsOf(pool, c), outages))
}

// registrationLimit is when the time for a claim's node to register is over.
func registrationLimit(c *model.Claim, timeouts Policy, outages []model.Outage) time.Time {
	return withoutOutages(bootsSince(c), timeouts.RegistrationTimeout, outages)
}

// IsStuck reports whether a claim's node has come and is still not initialized when a claim without a node would be given up:
// nothing waits for it any longer, though it may yet become usable. A node that registered late, after an outage, has a moment more. If not, it may be
// so at an instant. A claim of no pool has nil for it.
func IsStuck(c *model.Claim, pool *model.NodePool, pol Policy, outages []model.Outage, now time.Time) (bool, time.Time) {
	if c.Is(Initialized) {
		return false, time.Time{}
	}
	due := registrationLimit(c, pol.WithTimeoutsOf(pool, c), outages)
	if r := c.Conditions[Registered]; r.True() {
		due = model.LaterOf(due, r.Since.Add(pol.NodeGone))
	}
	if now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// Hold is one thing that a claim's next step waits for. Holds are found by the code that waits, with Input.Explain.
//
// What annotations and PodDisruptionBudgets of its pods hold up is not among them: disrupt knows that.
type Hold struct {
	Of    plan.Code // the step that waits: Launching, Registering, Initializing, Landed, Draining or Terminating
	Why   plan.Reason
	Until time.Time // when time alone ends it; zero: it does not
}
