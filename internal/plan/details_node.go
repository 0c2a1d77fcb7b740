// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Details of what keeps a node, and of why it goes.
type (
	// OfMoving is the disruption command under way.
	OfMoving struct {
		detail
		Command CommandID `key:"%s"`
	}
	// OfNotInitialized is why the node is not initialized, as far as it is known.
	OfNotInitialized struct {
		detail
		_    struct{} `key:"karpenter.sh/initialized"`
		_    struct{} `want:"true"`
		Said Words    `have:"%s"`
	}
	// OfNoPrice is a type and offering that the catalog does not have.
	OfNoPrice struct {
		detail
		_            struct{} `key:"node.kubernetes.io/instance-type"`
		_            struct{} `want:"a type and offering of the catalog"`
		InstanceType string   `have:"%s "`
		Zone         string   `have:"%s "`
		CapacityType string   `have:"%s"`
	}
	// OfNodeHeld is an annotation that keeps a node.
	OfNodeHeld struct {
		detail
		Annotation string   `key:"%s"`
		_          struct{} `want:"not true"`
		_          struct{} `have:"true"`
	}
	// OfPodHeld is an annotation that keeps a pod: until an instant, if it gives one.
	OfPodHeld struct {
		detail
		Annotation string    `key:"%s"`
		Unreadable bool      `want:"true, or a duration such as 10m"`
		Until      time.Time `want:"past %s|not set"`
		Value      string    `have:"%s"`
	}
	// OfSafeToEvict is an annotation by which a pod may not be evicted.
	OfSafeToEvict struct {
		detail
		Annotation string   `key:"%s"`
		_          struct{} `want:"true"`
		Value      string   `have:"%s"`
	}
	// OfDriftBackOff is how often nodes of a NodePool drifted soon after they were launched, how long the NodePool must not have changed before
	// one is replaced for drift, and when it last did.
	OfDriftBackOff struct {
		detail
		Times   int           `key:"%s times"`
		Rest    time.Duration `want:"unchanged for %s"`
		Changed time.Time     `have:"changed %s"`
	}
	// OfNominated is a node that pods are on their way to.
	OfNominated struct {
		detail
		_ struct{} `want:"no pods expected on it"`
		_ struct{} `have:"pods are on their way to it"`
	}
	// OfConsolidationOff is the consolidation policy of a NodePool.
	OfConsolidationOff struct {
		detail
		_      struct{} `key:"spec.disruption.consolidationPolicy"`
		_      struct{} `want:"WhenEmptyOrUnderutilized"`
		Policy string   `have:"%s"`
	}
	// OfStatic is how many nodes a static NodePool keeps.
	OfStatic struct {
		detail
		_        struct{} `key:"spec.replicas"`
		_        struct{} `want:"not set"`
		Replicas int64    `have:"%s"`
	}
	// OfReplicas is how many nodes a static NodePool is to have, and has.
	OfReplicas struct {
		detail
		_    struct{} `key:"spec.replicas"`
		Want int64    `want:"%s"`
		Have int64    `have:"%s"`
	}
	// OfGroupMinimum is the minimum size of a node group, and how many of its nodes nothing takes away yet.
	OfGroupMinimum struct {
		detail
		_       struct{} `key:"minSize"`
		Least   int64    `want:"%s"`
		Staying int64    `have:"%s"`
	}
	// OfGroupNotChosen is a node group that no term of its class chooses.
	OfGroupNotChosen struct {
		detail
		_ struct{} `key:"spec.selectorTerms"`
		_ struct{} `want:"a term that chooses the group"`
		_ struct{} `have:"none"`
	}
	// OfGroupUnread is a node group whose class has no status yet.
	OfGroupUnread struct {
		detail
		_ struct{} `key:"status"`
		_ struct{} `want:"written"`
		_ struct{} `have:"not yet"`
	}
	// OfGroupRefresh is how an instance refresh of the node group stands.
	OfGroupRefresh struct {
		detail
		_      struct{} `want:"no instance refresh"`
		Status string   `have:"%s"`
	}
	// OfWellUsed is how much of a resource of the node its pods request, in percent.
	OfWellUsed struct {
		detail
		Resource string `key:"%s"`
		Most     int32  `want:"%s %"`
		Used     int32  `have:"%s %"`
	}
	// OfQuiet is how long ago pods came or left, and how long they must not have.
	OfQuiet struct {
		detail
		_     struct{}      `key:"spec.disruption.consolidateAfter"`
		Never bool          `want:"a duration" have:"Never"`
		After time.Duration `want:"%s"`
		Since time.Duration `have:"%s"`
	}
	// OfDelay is how long nothing is removed after something happened, and how long ago it did.
	OfDelay struct {
		detail
		Field string        `key:"%s"`
		Delay time.Duration `want:"%s"`
		Since time.Duration `have:"%s"`
	}
	// OfPayback is when a replacement will have paid for itself.
	OfPayback struct {
		detail
		_     struct{}  `key:"dovetail.sh/keep-until"`
		Until time.Time `want:"%s"`
		Now   time.Time `have:"%s"`
	}
	// OfLaunchesPaused is until when consolidation launches no node.
	OfLaunchesPaused struct {
		detail
		Until time.Time `want:"after %s"`
	}
	// OfNoController is a pod that nobody would make again.
	OfNoController struct {
		detail
		_ struct{} `key:"metadata.ownerReferences"`
		_ struct{} `want:"a controller, or cluster-autoscaler.kubernetes.io/safe-to-evict=true"`
		_ struct{} `have:"none"`
	}
	// OfLocalStorage is a volume that the pod would lose.
	OfLocalStorage struct {
		detail
		Volume string   `key:"%s" have:"%s"`
		_      struct{} `want:"no local volume, or cluster-autoscaler.kubernetes.io/safe-to-evict=true"`
	}
	// OfSystemPod is how old a pod of kube-system is, and how old it must be.
	OfSystemPod struct {
		detail
		_     struct{}      `key:"spec.options.eviction.keepSystemPods"`
		After time.Duration `want:"%s"`
		Age   time.Duration `have:"%s"`
	}
	// OfCustomController is the kind of the pod's controller.
	OfCustomController struct {
		detail
		_    struct{} `key:"metadata.ownerReferences"`
		_    struct{} `want:"a controller of Kubernetes' own, or cluster-autoscaler.kubernetes.io/safe-to-evict=true"`
		Kind string   `have:"%s"`
	}
	// OfFewReplicas is how many pods the pod's controller has, and how many it must have.
	OfFewReplicas struct {
		detail
		_     struct{} `key:"spec.options.eviction.keepBelowReplicas"`
		Least int32    `want:"%s"`
		Have  int32    `have:"%s"`
	}
	// OfPDB is a PodDisruptionBudget, namespace/name, that allows no disruption: as its status says, or the eviction API.
	OfPDB struct {
		detail
		Name      string `key:"%s"`
		Exhausted bool   `want:"disruptionsAllowed of at least 1" have:"0"`
	}
	// OfSeveralPDBs are PodDisruptionBudgets that select the same pod.
	OfSeveralPDBs struct {
		detail
		Names List     `key:"%s"`
		_     struct{} `want:"at most 1"`
		Count int      `have:"%s"`
	}
	// OfGangApart is a gang that has pods on several nodes, or too few on one and others without a node.
	OfGangApart struct {
		detail
		Gang    Object   `key:"%s"`
		_       struct{} `want:"on 1 node"`
		Nodes   int      `have:"%s"`
		Waiting int      `have:", and %s pending|"` // pods without which it does not run
	}
	// OfSpotToSpot is the feature gate that is off.
	OfSpotToSpot struct {
		detail
		Gate string `key:"%s"`
	}
	// OfNotCheaper is what the node costs an hour, and what its pods cost elsewhere: at least, or exactly.
	OfNotCheaper struct {
		detail
		Now       Micro `want:"less than %s"`
		AtLeast   bool  `have:"at least "`
		Elsewhere Micro `have:"%s"`
	}
	// OfDoesNotPay is a saving that is too small: an hour; or, OverTime, in all, beside what the disruption costs once.
	OfDoesNotPay struct {
		detail
		Least    Micro
		Saving   Micro
		OverTime bool
		AnyType  bool // whichever of the instance types is launched that minValues keep, or that the node group chooses from
	}
	// OfShortLived is when a workload is expected to scale, what is saved until then, and what the disruption costs once.
	OfShortLived struct {
		detail
		After  time.Duration `key:"%s"`
		Cost   Micro         `want:"more than %s"`
		Saving Micro         `have:"at most %s"`
	}
	// OfNotBalanced is the score of the best command.
	OfNotBalanced struct {
		detail
		_     struct{} `key:"spec.disruption.consolidationPolicy"`
		_     struct{} `want:"a score of at least 0.5"`
		Score float64  `have:"%s"` // two decimals
	}
	// OfNotKept is why a replacement can't be reserved.
	OfNotKept struct {
		detail
		Because Code     `key:"%s"`
		_       struct{} `want:"one machine for all pods of the move, or machines kept to theirs"`
		_       struct{} `have:"machines that can't be kept to their pods"`
	}
	// OfBadRestartCost is a restart cost that can't be read.
	OfBadRestartCost struct {
		detail
		_     struct{} `key:"metadata.annotations[dovetail.sh/restart-cost]"`
		_     struct{} `want:"dollars from 0 to 1000000, such as 0.05"`
		Value string   `have:"%s"`
	}
	// OfRepairBlocked is how many nodes of a NodePool are unhealthy, and how many may be to repair them.
	OfRepairBlocked struct {
		detail
		Most      int `want:"at most %s"`
		Total     int `want:" of %s nodes unhealthy"`
		Unhealthy int `have:"%s"`
	}
	// OfNoReplacementFound is how often a way to remove the node was looked for, and when it is again.
	OfNoReplacementFound struct {
		detail
		Until time.Time `want:"past %s"`
		Times int       `have:"%s"`
	}
	// OfUnderutilized is what a command saves an hour, and what its disruptions cost once.
	OfUnderutilized struct {
		detail
		Cost   Micro `want:"%s once"`
		Saving Micro `have:"%s an hour"`
	}
	// OfEmpty is how long a node must have been empty.
	OfEmpty struct {
		detail
		_     struct{}      `key:"consolidateAfter"`
		After time.Duration `want:"%s"`
	}
	// OfExpired is expireAfter, and how old the node is if that is told.
	OfExpired struct {
		detail
		_     struct{}      `key:"expireAfter"`
		After time.Duration `want:"%s"`
		Age   time.Duration `have:"%s|"`
	}
	// OfDrifted is a kind of drift: NodePoolDrifted, RequirementsDrifted, InstanceTypeNotFound or the provider's; or the
	// annotation that was missing, with its value.
	OfDrifted struct {
		detail
		Kind string `key:"%s"`
		Want string `want:"%s"`
		Said Words  `have:"%s"`
	}
	// OfInterrupted is the kind of a notice, and when the instance ends.
	OfInterrupted struct {
		detail
		Kind  string    `key:"%s"`
		Until time.Time `want:"%s"`
	}
	// OfRebooting is by when a node that is rebooted must be back.
	OfRebooting struct {
		detail
		Until time.Time `want:"%s"`
	}
	// OfBudget is the disruption budget that decided, of so many; none: all nodes of the NodePool are down.
	OfBudget struct {
		detail
		Budget      int // from 1
		Allows      int64
		Unavailable int64
		Total       int64
		Schedule    string
		Unreadable  bool // the schedule is no cron expression, so that the budget allows nothing
	}
	// OfAborted is why a disruption command was taken back; or, with Until, how often commands were and when the next may
	// begin.
	OfAborted struct {
		detail
		Cause Code  // of the command
		Said  Words // why it was taken back
		Last  Words // why the last one was
		Until time.Time
		Times int
	}
	// OfUnhealthy is a condition of the node, its status and reason, since when, and how long it may last if that is told.
	OfUnhealthy struct {
		detail
		Condition, Status string
		Said              Words
		Since             time.Time
		After             time.Duration
	}
	// OfClusterMinimum is a resource of which the cluster would have too little.
	OfClusterMinimum struct {
		detail
		Resource ResourceName `key:"%s"`
		Least    Amount       `want:"%s"`
		Have     Amount       `have:"%s"`
	}
	// OfNoHome is why no node can be launched for a pod.
	OfNoHome struct {
		detail
		Code   Code // empty: not known
		Detail Detail
	}
)

// NoHomeFor returns the Detail of a refused pod: the reason why no node can be launched for it.
func NoHomeFor(r Reason) OfNoHome {
	return OfNoHome{Code: r.Code, Detail: r.Detail}
}

func (d OfDoesNotPay) fields() Fields {
	least, saving := "$"+model.Dollars(int64(d.Least)), "$"+model.Dollars(int64(d.Saving))
	if d.OverTime {
		return Fields{Want: "more than " + least, Have: "at most " + saving}
	}
	f := Fields{Want: "at least " + least + " an hour", Have: saving + " an hour"}
	if d.AnyType {
		f.Want += anyType
	}
	return f
}

// anyType is what OfDoesNotPay says of AnyType.
const anyType = ", whichever of the possible types is launched"

func (OfDoesNotPay) read(f Fields) Detail {
	d := OfDoesNotPay{}
	f.Want, d.AnyType = strings.CutSuffix(f.Want, anyType)
	least, overTime := strings.CutPrefix(f.Want, "more than ")
	d.OverTime = overTime
	least = strings.TrimSuffix(strings.TrimPrefix(least, "at least "), " an hour")
	saving := strings.TrimSuffix(strings.TrimPrefix(f.Have, "at most "), " an hour")
	a, err1 := parseMoney(least)
	b, err2 := parseMoney(saving)
	if err1 != nil || err2 != nil {
		return nil
	}
	d.Least, d.Saving = Micro(a), Micro(b)
	return d
}

// Field returns the field of the NodePool that has the budget; empty: none decided.
func (d OfBudget) Field() string {
	if d.Budget == 0 {
		return ""
	}
	return "spec.disruption.budgets[" + strconv.Itoa(d.Budget-1) + "]"
}

func (d OfBudget) fields() Fields {
	f := Fields{Key: d.Field(), Want: "at least 1 more"}
	if d.Budget == 0 {
		f.Have = fmt.Sprintf("%d of %d down", d.Unavailable, d.Total)
		return f
	}
	f.Have = fmt.Sprintf("allows %d, %d down", d.Allows, d.Unavailable)
	switch {
	case d.Unreadable:
		f.Have += ", unreadable schedule " + strconv.Quote(d.Schedule)
	case d.Schedule != "":
		f.Have += ", schedule " + strconv.Quote(d.Schedule)
	}
	return f
}

func (OfBudget) read(f Fields) Detail {
	d := OfBudget{}
	if f.Key == "" {
		if n, err := fmt.Sscanf(f.Have, "%d of %d down", &d.Unavailable, &d.Total); n != 2 || err != nil {
			return nil
		}
		return d
	}
	if _, err := fmt.Sscanf(f.Key, "spec.disruption.budgets[%d]", &d.Budget); err != nil {
		return nil
	}
	d.Budget++
	counts, schedule, unreadable := strings.Cut(f.Have, ", unreadable schedule ")
	if d.Unreadable = unreadable; !unreadable {
		counts, schedule, _ = strings.Cut(f.Have, ", schedule ")
	}
	if n, err := fmt.Sscanf(counts, "allows %d, %d down", &d.Allows, &d.Unavailable); n != 2 || err != nil {
		return nil
	}
	d.Schedule, _ = strconv.Unquote(schedule)
	return d
}

func (d OfAborted) fields() Fields {
	if d.Until.IsZero() {
		return Fields{Want: string(d.Cause), Have: string(d.Said)}
	}
	return Fields{Key: string(d.Last), Want: "past " + d.Until.UTC().Format(time.RFC3339), Have: strconv.Itoa(d.Times)}
}

func (OfAborted) read(f Fields) Detail {
	until, again := strings.CutPrefix(f.Want, "past ")
	if !again {
		return OfAborted{Cause: Code(f.Want), Said: Words(f.Have)}
	}
	t, err1 := time.Parse(time.RFC3339, until)
	n, err2 := strconv.Atoi(f.Have)
	if err1 != nil || err2 != nil {
		return nil
	}
	return OfAborted{Last: Words(f.Key), Until: t, Times: n}
}

func (d OfUnhealthy) fields() Fields {
	f := Fields{Key: d.Condition, Have: d.State()}
	if d.After > 0 {
		f.Want = "not " + d.Status + " for " + d.After.String()
	}
	return f
}

// State returns the condition's status, its reason if it has one, and since when it has the status if that is known.
func (d OfUnhealthy) State() string {
	out := d.Status
	if d.Said != "" {
		out += " (" + string(d.Said) + ")"
	}
	if d.Since.IsZero() {
		return out
	}
	return out + " since " + d.Since.UTC().Format(time.RFC3339)
}

func (OfUnhealthy) read(f Fields) Detail {
	d := OfUnhealthy{Condition: f.Key}
	if f.Have == "" {
		return d
	}
	status, since, ok := strings.Cut(f.Have, " since ")
	d.Status = status
	if status, said, found := strings.Cut(status, " ("); found {
		d.Status, d.Said = status, Words(strings.TrimSuffix(said, ")"))
	}
	if !ok {
		return d
	}
	var err error
	if d.Since, err = time.Parse(time.RFC3339, since); err != nil {
		return nil
	}
	if _, after, ok := strings.Cut(f.Want, " for "); ok {
		d.After, err = time.ParseDuration(after)
	}
	if err != nil {
		return nil
	}
	return d
}

func (d OfNoHome) fields() Fields {
	f := Reason{Code: d.Code, Detail: d.Detail}.Fields()
	f.Subject, f.Key = "", strings.TrimSpace(string(d.Code)+" "+f.Key)
	return f
}

func (OfNoHome) read(f Fields) Detail {
	code, key, _ := strings.Cut(f.Key, " ")
	f.Key = key
	return NoHomeFor(ReadReason(Code(code), f))
}
