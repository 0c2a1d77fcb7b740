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
	// OfMoving is the running disruption command.
	OfMoving struct {
		detail
		Command CommandID `key:"%s"`
	}
	// OfNotInitialized is why the node is not initialized, if known.
	OfNotInitialized struct {
		detail
		_    struct{} `key:"karpenter.sh/initialized"`
		_    struct{} `want:"true"`
		Said Words    `have:"%s"`
	}
	// OfNoPrice is an instance type and offering that the catalog does not contain.
	OfNoPrice struct {
		detail
		_            struct{} `key:"node.kubernetes.io/instance-type"`
		_            struct{} `want:"a type and offering of the catalog"`
		InstanceType string   `have:"%s "`
		Zone         string   `have:"%s "`
		CapacityType string   `have:"%s"`
	}
	// OfNodeHeld is an annotation that blocks the disruption of a node, or would block it with a valid value.
	OfNodeHeld struct {
		detail
		Annotation string `key:"%s"`
		Unreadable bool   `want:"true or false|not true"`
		Value      string `have:"%s|true"` // empty: true
	}
	// OfPodHeld is an annotation of a pod that blocks the disruption of its node, with its end if it has one.
	OfPodHeld struct {
		detail
		Annotation string    `key:"%s"`
		Unreadable bool      `want:"true, or a duration such as 10m"`
		Until      time.Time `want:"past %s|not set"`
		Value      string    `have:"%s"`
	}
	// OfSafeToEvict is an annotation that forbids the eviction of a pod.
	OfSafeToEvict struct {
		detail
		Annotation string   `key:"%s"`
		_          struct{} `want:"true"`
		Value      string   `have:"%s"`
	}
	// OfDriftBackOff contains how often nodes of a NodePool drifted soon after they were launched, how long the NodePool must
	// be unchanged before a drifted node is replaced, and when it last changed.
	OfDriftBackOff struct {
		detail
		Times   int           `key:"%s times"`
		Rest    time.Duration `want:"unchanged for %s"`
		Changed time.Time     `have:"changed %s"`
	}
	// OfNominated is a node on which kube-scheduler is expected to place pods.
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
	// OfStatic is the number of nodes of a static NodePool.
	OfStatic struct {
		detail
		_        struct{} `key:"spec.replicas"`
		_        struct{} `want:"not set"`
		Replicas int64    `have:"%s"`
	}
	// OfReplicas is the desired and the current number of nodes of a static NodePool.
	OfReplicas struct {
		detail
		_    struct{} `key:"spec.replicas"`
		Want int64    `want:"%s"`
		Have int64    `have:"%s"`
	}
	// OfGroupMinimum is the minimum size of a node group, and the number of its nodes that are not being removed.
	OfGroupMinimum struct {
		detail
		_       struct{} `key:"minSize"`
		Least   int64    `want:"%s"`
		Staying int64    `have:"%s"`
	}
	// OfGroupNotChosen is a node group that its node class no longer selects.
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
	// OfGroupRefresh is the status of the node group's instance refresh.
	OfGroupRefresh struct {
		detail
		_      struct{} `want:"no instance refresh"`
		Status string   `have:"%s"`
	}
	// OfWellUsed is the requested share of a resource of the node, in percent.
	OfWellUsed struct {
		detail
		Resource string `key:"%s"`
		Most     int32  `want:"%s %"`
		Used     int32  `have:"%s %"`
	}
	// OfQuiet is the time since pods were added or removed, and the required time.
	OfQuiet struct {
		detail
		_     struct{}      `key:"spec.disruption.consolidateAfter"`
		Never bool          `want:"a duration" have:"Never"`
		After time.Duration `want:"%s"`
		Since time.Duration `have:"%s"`
	}
	// OfDelay is a delay of removals after an event, and the time since that event.
	OfDelay struct {
		detail
		Field string        `key:"%s"`
		Delay time.Duration `want:"%s"`
		Since time.Duration `have:"%s"`
	}
	// OfPayback is when a replacement will have paid off.
	OfPayback struct {
		detail
		_     struct{}  `key:"dovetail.sh/keep-until"`
		Until time.Time `want:"%s"`
		Now   time.Time `have:"%s"`
	}
	// OfLaunchesPaused is the time until which consolidation launches no node.
	OfLaunchesPaused struct {
		detail
		Until time.Time `want:"after %s"`
	}
	// OfNoController is a pod that no controller would recreate.
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
	// OfSystemPod is the age of a kube-system pod, and the required age.
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
	// OfFewReplicas is the number of pods of the pod's controller, and the minimum.
	OfFewReplicas struct {
		detail
		_     struct{} `key:"spec.options.eviction.keepBelowReplicas"`
		Least int32    `want:"%s"`
		Have  int32    `have:"%s"`
	}
	// OfPDB is a PodDisruptionBudget (namespace/name) that allows no disruption, by its status or by the eviction API.
	OfPDB struct {
		detail
		Name      string `key:"%s"`
		Exhausted bool   `want:"disruptionsAllowed of at least 1" have:"0"`
	}
	// OfSeveralPDBs lists PodDisruptionBudgets that select the same pod.
	OfSeveralPDBs struct {
		detail
		Names List     `key:"%s"`
		_     struct{} `want:"at most 1"`
		Count int      `have:"%s"`
	}
	// OfGangApart is a gang with pods on several nodes, or on one node while others have none.
	OfGangApart struct {
		detail
		Gang    Object   `key:"%s"`
		_       struct{} `want:"on 1 node"`
		Nodes   int      `have:"%s"`
		Waiting int      `have:", and %s pending|"` // number of missing pods without which it does not run
	}
	// OfSpotToSpot is the feature gate that is off.
	OfSpotToSpot struct {
		detail
		Gate string `key:"%s"`
	}
	// OfNotCheaper is the price of the node per hour, and the cost of its pods elsewhere: a minimum, or exact.
	OfNotCheaper struct {
		detail
		Now       Micro `want:"less than %s"`
		AtLeast   bool  `have:"at least "`
		Elsewhere Micro `have:"%s"`
	}
	// OfDoesNotPay is a saving that is too small: per hour or, with OverTime, in total, compared with the one-time cost of
	// the disruption.
	OfDoesNotPay struct {
		detail
		Least    Micro
		Saving   Micro
		OverTime bool
		AnyType  bool // for any of the instance types that minValues require, or that the node group chooses from
	}
	// OfShortLived is when a workload is expected to scale, the saving until then, and the one-time cost of the disruption.
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
	// OfNotKept is why a replacement cannot be reserved.
	OfNotKept struct {
		detail
		Because Code     `key:"%s"`
		_       struct{} `want:"one machine for all pods of the move, or machines kept to theirs"`
		_       struct{} `have:"machines that can't be kept to their pods"`
	}
	// OfBadRestartCost is an invalid restart cost.
	OfBadRestartCost struct {
		detail
		_     struct{} `key:"metadata.annotations[dovetail.sh/restart-cost]"`
		_     struct{} `want:"dollars from 0 to 1000000, such as 0.05"`
		Value string   `have:"%s"`
	}
	// OfRepairBlocked is the number of unhealthy nodes of a NodePool, and the maximum at which nodes are repaired.
	OfRepairBlocked struct {
		detail
		Most      int `want:"at most %s"`
		Total     int `want:" of %s nodes unhealthy"`
		Unhealthy int `have:"%s"`
	}
	// OfNoReplacementFound is the number of searches for a way to remove the node, and the time of the next one.
	OfNoReplacementFound struct {
		detail
		Until time.Time `want:"past %s"`
		Times int       `have:"%s"`
	}
	// OfUnderutilized is the saving of a command per hour, and the one-time cost of its disruptions.
	OfUnderutilized struct {
		detail
		Cost   Micro `want:"%s once"`
		Saving Micro `have:"%s an hour"`
	}
	// OfEmpty is the required time without pods.
	OfEmpty struct {
		detail
		_     struct{}      `key:"consolidateAfter"`
		After time.Duration `want:"%s"`
	}
	// OfExpired is expireAfter, and the age of the node if known.
	OfExpired struct {
		detail
		_     struct{}      `key:"expireAfter"`
		After time.Duration `want:"%s"`
		Age   time.Duration `have:"%s|"`
	}
	// OfDrifted is a kind of drift: NodePoolDrifted, RequirementsDrifted, InstanceTypeNotFound or the provider's; or a
	// missing annotation, with its value.
	OfDrifted struct {
		detail
		Kind string `key:"%s"`
		Want string `want:"%s"`
		Said Words  `have:"%s"`
	}
	// OfInterrupted is the kind of a notice, and when the instance is terminated.
	OfInterrupted struct {
		detail
		Kind  string    `key:"%s"`
		Until time.Time `want:"%s"`
	}
	// OfRebooting is the time by which a rebooted node must be Ready.
	OfRebooting struct {
		detail
		Until time.Time `want:"%s"`
	}
	// OfBudget is the disruption budget that applies, and the number of budgets; none: all nodes of the NodePool are
	// unavailable.
	OfBudget struct {
		detail
		Budget      int // from 1
		Allows      int64
		Unavailable int64
		Total       int64
		Schedule    string
		Unreadable  bool // the schedule is no cron expression, so that the budget allows nothing
	}
	// OfAborted is why a disruption command was cancelled or, with Until, how often this happened and when the next one may
	// start.
	OfAborted struct {
		detail
		Cause Code  // of the command
		Said  Words // why it was cancelled
		Last  Words // why the last one was cancelled
		Until time.Time
		Times int
	}
	// OfUnhealthy is a node condition, its status and reason, since when, and the tolerated duration if known.
	OfUnhealthy struct {
		detail
		Condition, Status string
		Said              Words
		Since             time.Time
		After             time.Duration
	}
	// OfClusterMinimum is a resource of which the cluster would have less than its minimum.
	OfClusterMinimum struct {
		detail
		Resource ResourceName `key:"%s"`
		Least    Amount       `want:"%s"`
		Have     Amount       `have:"%s"`
	}
	// OfNoHome is the reason why no node can be launched for a pod.
	OfNoHome struct {
		detail
		Code   Code // empty: not known
		Detail Detail
	}
)

// NoHomeFor returns the Detail for a refused pod: the reason why no node can be launched for it.
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

// Field returns the NodePool field of the budget; empty: none applies.
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
