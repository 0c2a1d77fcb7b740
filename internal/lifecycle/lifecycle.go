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
	Rebooting    = "Rebooting" // True: the node is being rebooted; the reason shows the progress or the result
)

const (
	excludeBalancersLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	// TerminationTime on a NodeClaim is the time after which its drain no longer waits for pods.
	TerminationTime = "karpenter.sh/nodeclaim-termination-timestamp"
	trueValue       = "true"
)

// wholeSecond is how much earlier than the truth a time read from the API server may be: it keeps no fractions.
const wholeSecond = time.Second

// StartTime is how long a pod that is bound may take to start before that counts as a fault of its own: its image may be missing. A CSI driver
// runs in such a pod, so that pods whose volumes need it wait as long for it on the node that was launched for them.
const StartTime = 5 * time.Minute

// Policy contains the timeouts of a NodeClaim's lifecycle.
type Policy struct {
	LaunchTimeout       time.Duration // from creation to an instance
	RegistrationTimeout time.Duration // from creation to a registered node; for a node group: from creation to an instance, and from there to a registered node
	LandingTimeout      time.Duration // from the initialization of a node, or the last pod bound to it, to the end of its reservation or booking
	SchedulerLag        time.Duration // maximum lag of kube-scheduler's watch of pods behind its watch of nodes
	BindingDelay        time.Duration // maximum time from kube-scheduler's choice of a node to the binding: by default, it sends 50 bindings per second
	MinDrain            time.Duration // minimum time from the deletion to the termination of the instance, so that load balancers are updated
	StuckPod            time.Duration // maximum wait for a pod after its deletionTimestamp
	ListDelay           time.Duration // maximum lag of the cloud's list of instances behind a launch
	QuickBoot           time.Duration // a new node that is not Ready is registered after this time
	NodeGone            time.Duration // how long a registered NodeClaim without a node is kept
	EventDedup          time.Duration // minimum interval between writes of lastPodEventTime
	DeletionDelay       time.Duration // maximum delay of the deletion of a drained node by annotations
	SurgeTimeout        time.Duration // maximum wait for a pod's replacement before the pod is evicted
	RebootIssueTimeout  time.Duration // from the end of a drain to the request of the reboot
	RebootTimeout       time.Duration // from the reboot to a Ready node
	ExpireGrace         time.Duration // how long after expireAfter a usable node waits for its replacement
}

// DefaultPolicy returns Karpenter's timeouts, and those for landing (contract 9).
func DefaultPolicy() Policy {
	return Policy{
		LaunchTimeout: 5 * time.Minute, RegistrationTimeout: 15 * time.Minute, LandingTimeout: 30 * time.Second, SchedulerLag: time.Second, BindingDelay: 10 * time.Second,
		MinDrain: 5 * time.Second, StuckPod: time.Minute, ListDelay: 2 * time.Second, QuickBoot: 3 * time.Second,
		NodeGone: 30 * time.Second, EventDedup: 10 * time.Second, DeletionDelay: 2 * time.Minute, SurgeTimeout: 10 * time.Minute,
		RebootIssueTimeout: 5 * time.Minute, RebootTimeout: 20 * time.Minute,
	}
}

// WithTimeoutsOf returns the policy for a NodeClaim of a pool: node groups may have their own timeouts for launch,
// registration and deletion delays. pool is nil for a NodeClaim without one.
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

// Input contains a NodeClaim and everything that its next step depends on.
type Input struct {
	Claim         *model.Claim
	Pool          *model.NodePool     // nil: none, or it no longer exists
	Nodes         []*model.Node       // all nodes with the NodeClaim's provider ID; more than one is an error
	Type          *model.InstanceType // the launched instance type, to compare with the node; nil: not compared
	Instances     []*model.Instance   // the NodeClaim's instance in the last list: at most one
	InstancesAt   time.Time           // when that list was requested; zero: never
	Outages       []model.Outage      // of the cloud, oldest first
	Shift         *model.ZonalShift   // zonal shift away from the NodeClaim's zone; nil: none
	ShiftsUnread  bool                // zonal shifts have not been read yet
	Failure       *model.LaunchFailure
	Awaits        AwaitedLaunch
	Barred        BarredLaunch
	NodelessSince time.Time          // since when the launched NodeClaim has had no node; zero: always
	Binding       bool               // pods are being bound to its node
	Promised      bool               // its capacity is reserved for a ProvisioningRequest
	Awaited       int                // slots whose pods are not bound to its node yet
	Coming        bool               // some of these pods certainly follow: they still run elsewhere, or are being created
	Landed        time.Time          // when Coming was last true, or a pod was last bound
	Daemons       DaemonWait         // DaemonSet pods that are still missing on its node
	ResourceNames []string           // by Dim
	Rollouts      map[string]Rollout // by UID: pods that are evicted after their replacements are ready
	Now           time.Time
	Policy        Policy
	Explain       bool // also fill Output.Holds
}

// BarredLaunch is the reason not to launch the instance of a NodeClaim created by someone else: earlier launches for the same
// creator were unused.
type BarredLaunch struct {
	Why   plan.Reason // an empty code: nothing prevents the launch
	Until time.Time   // zero: until the result of another launch is known
	Tried time.Time   // when the last back-off ended; zero: never
}

// AwaitedLaunch is the launch of another NodeClaim that a NodeClaim without an instance waits for: before its own launch,
// because both would learn the same about capacity; after a launch that failed for lack of capacity, so that the pods of both
// get one plan.
type AwaitedLaunch struct {
	Claim string    // empty: none
	Until time.Time // end of the wait
}

// DaemonWait is what a new node waits for before it admits all pods: its capacity for DaemonSet pods is reserved until they
// exist.
type DaemonWait struct {
	Pods    int       // number of missing pods
	KeptOff bool      // the DaemonSet controller creates one of them only without the reservation taint
	Since   time.Time // when one was last created, here or on another node; zero: never
}

// Rollout describes how a pod is replaced before its eviction, by a rollout of its Deployment.
type Rollout struct {
	Deployment *model.Deployment
	Begun      bool        // the rollout has started
	By         time.Time   // latest time of the eviction; zero: only Policy.SurgeTimeout applies
	Refused    plan.Reason // why the pod cannot be replaced first although requested; an empty code: it can
}

// Output is the next step of a NodeClaim.
type Output struct {
	Actions []plan.Action // in order of execution
	Next    time.Time     // when to evaluate again without any change; zero: not necessary
	Holds   []Hold        // with Input.Explain: what the next step waits for
}

func (o *Output) addActions(a ...plan.Action) { o.Actions = append(o.Actions, a...) }

// lookAgainAt asks to look again at a time, or earlier where something else asks for that.
func (o *Output) lookAgainAt(t time.Time) {
	if o.Next.IsZero() || t.Before(o.Next) {
		o.Next = t
	}
}

// IsExpired reports whether a NodeClaim is older than its expireAfter; false if that is not set.
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

// HasTimedOut reports whether the registration timeout of a NodeClaim has passed.
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

// Hold is one thing that a NodeClaim's next step waits for. Blocking annotations and PodDisruptionBudgets of its pods are not
// included: package disrupt reports them.
type Hold struct {
	Of    plan.Code // the step that waits: Launching, Registering, Initializing, Landed, Draining or Terminating
	Why   plan.Reason
	Until time.Time // when it ends without any change; zero: never
}
