// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Codes for refused pods. A code that ends the checks of a NodePool has a row in poolChecks, any other in refusals.
const (
	NoPools          Code = "NoPools"          // no NodePool is ready
	Taint            Code = "Taint"            // Key: the taint that the pod does not tolerate
	Requirement      Code = "Requirement"      // Key: the label; Want: the pod's requirement, Have: the pool's
	NoInstanceType   Code = "NoInstanceType"   // no instance type satisfies both pod and pool; Key: the label that excludes the last ones
	Resource         Code = "Resource"         // Key: the resource; Want: request plus DaemonSets, Have: the largest allocatable
	CameShort        Code = "CameShort"        // nodes of the type were smaller than specified, twice; Key: the resource; Have: the nodes' amount
	ShortAgain       Code = "CameShortTwice"   // two nodes launched for the pod were smaller than specified; Subject: the last instance type; Key, Have: the resource that is too small for the pod alone
	Offering         Code = "Offering"         // instance types fit, but none in the required zone and capacity type
	ZonalShift       Code = "ZonalShift"       // all offerings that fit are in a zone that the cluster is shifted away from; of a node: it is in such a zone; Key: the zone, Have: the shift, Want: its end, empty: unknown
	OutOfCapacity    Code = "OutOfCapacity"    // all offerings that fit are marked unavailable; Subject: an exhausted quota of the cheapest such offering, and the remedy
	GroupMaximum     Code = "NodeGroupMaximum" // all offerings that fit are of node groups at their maximum size; Subject: the cheapest group, Have: its size
	UnusedLaunches   Code = "UnusedLaunches"   // no pod ran on the nodes launched for it; Subject: the last launch, empty: its NodeClaim was rejected, Key: the code of the most likely cause, Have: its message, Want: the time of the next launch, empty: after the result of Subject
	Limit            Code = "Limit"            // Key: the resource of spec.limits
	SharedLimit      Code = "SharedLimit"      // a limit of the cluster or a CapacityQuota is reached; Subject: the limit; Key: its resource, "nodes" or "dollars-per-hour"; Want: requirement of the smallest node, Have: usage
	MinValues        Code = "MinValues"        // fewer distinct values left than minValues requires
	TopologySpread   Code = "TopologySpread"   // Key: the topology key
	PodAffinity      Code = "PodAffinity"      // Key: the topology key
	PodAntiAffinity  Code = "PodAntiAffinity"  // Key: the topology key; Subject: a conflicting pod, if known
	HostPortConflict Code = "HostPort"         // Key: the port
	VolumeTopology   Code = "VolumeTopology"   // Key: the claim
	VolumeLimit      Code = "VolumeLimit"      // Key: the CSI driver
	VolumeExclusive  Code = "VolumeExclusive"  // ReadWriteOncePod volume in use
	VolumeClaim      Code = "VolumeClaim"      // Key: the PVC, which no node can use; Subject: the missing or faulty object, empty: the PVC; Want: a model.VolumeProblemKind; Have: kube-scheduler's message
	VolumeStorage    Code = "VolumeStorage"    // Key: the PVC; Subject: the StorageClass, whose driver reports too little free storage
	Unsupported      Code = "Unsupported"      // Have: the unsupported constraint
	NodeName         Code = "NodeName"         // the pod selects nodes by name or hostname; the reason of each of them
	Mismatch         Code = "Mismatch"         // kube-scheduler rejected, twice, a node that passes all checks; Subject: the node
	PlanRefused      Code = "PlanRefused"      // the plan for the pod failed verification, or planning failed, because of a bug in Dovetail; this part is not carried out; Key: the violated rule, or "panic"; Have: the violation; Want: the time of the next attempt
	PoolNotReady     Code = "PoolNotReady"     // labels and taints match, but the pool is not Ready; Have: reason and message of its condition
	TooComplex       Code = "TooComplex"       // the pod exceeds a limit; Key: of what; Have: the number, Want: the limit
	WorkShare        Code = "WorkShare"        // not evaluated in this step: its namespace's share of work is used; Key: the most expensive property of the pod, Have: its work, Want: the share
	ResourceShare    Code = "ResourceShare"    // not evaluated in this step: the pods request too many different resources; Key: namespace, Have: number of the pod's resources, Want: the limit
	NotSchedulable   Code = "NotSchedulable"   // the pod is gated, nominated, or of another scheduler
	GangIncomplete   Code = "GangIncomplete"   // the gang has fewer pods than its minimum; Subject: the gang, Want: the minimum, Have: the existing pods
	GangTooLarge     Code = "GangTooLarge"     // fewer pods of the gang can be placed than its minimum; Subject: the gang, Want: the minimum, Have: the pods that fit. The reasons of the others follow
	PodsNotCreated   Code = "PodsNotCreated"   // the API server rejects pods of a ReplicaSet, Subject; Want: the number, Have: its message
	OldRevision      Code = "OldRevision"      // the pod is of a ReplicaSet that its Deployment's rollout replaces; Subject: the Deployment, Key: the ReplicaSet
	CapacityChecked  Code = "CapacityChecked"  // the pod's ProvisioningRequest only checks for free capacity; Subject: the request
)

// poolChecks are the codes that end the checks of a NodePool for a pod, each with the type of its Detail, in the order of the checks: the later
// a NodePool fails, the nearer the miss. Code that returns a reason is in package solve/explain.
var poolChecks = []poolCheck{
	{NoPools, OfNoPools{}}, {Taint, OfTaint{}}, {Requirement, OfRequirement{}}, {NoInstanceType, OfNoInstanceType{}}, {Resource, OfSize{}},
	{CameShort, OfSize{}}, {Offering, OfOffering{}}, {ZonalShift, OfZonalShift{}}, {OutOfCapacity, OfOutOfCapacity{}}, {GroupMaximum, OfGroupMaximum{}},
	{UnusedLaunches, OfUnusedLaunches{}}, {Limit, OfLimit{}}, {SharedLimit, OfSharedLimit{}}, {MinValues, OfMinValues{}},
	{TopologySpread, OfTopologySpread{}}, {PodAffinity, OfPodAffinity{}}, {PodAntiAffinity, OfPodAntiAffinity{}}, {HostPortConflict, OfHostPort{}},
	{VolumeTopology, OfVolumeTopology{}}, {VolumeStorage, OfVolumeStorage{}}, {VolumeLimit, OfVolumeLimit{}}, {VolumeExclusive, OfVolumeExclusive{}},
	{VolumeClaim, OfVolumeClaim{}}, {Unsupported, OfUnsupported{}}, {NodeName, OfNodeName{}}, {PlanRefused, OfPlanRefused{}},
	{PoolNotReady, OfPoolNotReady{}}, {TooComplex, OfTooComplex{}}, {WorkShare, OfWorkShare{}}, {ResourceShare, OfResourceShare{}},
	{NotSchedulable, OfNotSchedulable{}},
}

type poolCheck struct {
	code   Code
	detail Detail
}

// refusals are the other codes of a refused pod, with the type of their Detail.
var refusals = map[Code]Detail{
	ShortAgain: OfSize{}, Mismatch: OfMismatch{}, GangIncomplete: OfGangIncomplete{}, GangTooLarge: OfGangTooLarge{},
	PodsNotCreated: OfPodsNotCreated{}, OldRevision: OfOldRevision{}, CapacityChecked: Nothing{},
}

// CheckRank returns the position of a code among the checks of a NodePool, -1 if it is none of them. The higher, the nearer the miss.
func CheckRank(code Code) int {
	return slices.IndexFunc(poolChecks, func(x poolCheck) bool { return x.code == code })
}

// Details of why a pod has no node.
type (
	// OfTaint is a taint that the pod does not tolerate.
	OfTaint struct {
		detail
		Node   string `subject:"node/%s|"` // the node with the taint, if it is on a node
		Key    string `key:"%s" have:"%s"`
		Value  string `have:"=%s|"`
		Effect string `have:":%s|"`
		Want   bool   `want:"a toleration"` // true if it is a taint of the NodePool
	}
	// OfRequirement is a requirement of the pod that the NodePool's labels do not meet.
	OfRequirement struct {
		detail
		Label     string `key:"%s"`
		Want      Rule   `want:"%s"`
		Undefined bool   `have:"the pool does not define the label"`
		Empty     bool   `have:"an empty term matches no node"` // the term of the pod's node affinity is empty, without a label
		Have      Rule   `have:"%s"`                            // the NodePool's requirement, or the value of its label
		Terms     int    `have:" (nearest of %s terms)|"`       // number of terms of the pod's node affinity if there are several; this is the nearest one
	}
	// OfNoPools reports that no NodePool can launch nodes for pods.
	OfNoPools struct {
		detail
		Static List `have:"static: %s|"` // the existing NodePools, which are static
	}
	// OfNoInstanceType is the requirement that excludes the last instance types of the NodePool. Without a label, the
	// NodePool's own requirements exclude all.
	OfNoInstanceType struct {
		detail
		Label      string `key:"%s"`
		Want       Rule   `want:"%s"`
		With       Rules  `want:", together with %s|"` // requirements, of the pod or of the NodePool, that exclude all types together with the last one
		OfPool     bool   `want:" of the NodePool"`    // Want is the NodePool's, not the pod's
		None       bool   `have:"the pool is offered no instance type"`
		ExcludedBy Rule   `have:"excluded by %s|"`         // the NodePool's requirement that excludes every type with the label's value
		Have       List   `have:"%s"`                      // the label's values among the types that meet the previous requirements
		More       int    `have:" and %s more|"`           // number of further values
		Terms      int    `have:" (nearest of %s terms)|"` // as in OfRequirement
	}
	// OfSize is an instance type that is too small in one resource, or whose nodes were smaller than specified.
	OfSize struct {
		detail
		InstanceType string       `subject:"%s"`
		Resource     ResourceName `key:"%s"`
		Need         Amount       `want:"%s"`       // request of the pod and the DaemonSets
		DaemonSet    Object       `want:", of %s|"` // the DaemonSet that requests more than half, if DaemonSets leave nothing on any type; the type is then the largest
		Have         Amount       `have:"%s"`       // allocatable
	}
	// OfOffering is a zone or capacity type in which no type that fits is offered.
	OfOffering struct {
		detail
		Label    string `key:"%s"`
		Want     Rule   `want:"%s"`
		Apart    bool   `have:"no offering meets the pool's requirements and the pod's together"`
		Together bool   `have:"no type that fits is offered in zone and capacity type wanted together"`
		OfPool   bool   `have:"the NodePool requires it; offered: "` // Want is the NodePool's, not the pod's
		Have     List   `have:"%s"`                                  // the offered values of the label
	}
	// OfZonalShift is a zonal shift and its end; zero: unknown.
	OfZonalShift struct {
		detail
		Zone  string    `key:"%s"`
		Until time.Time `want:"%s"`
		Shift string    `have:"%s"` // its ID; empty: an autoshift of the cloud
	}
	// OfOutOfCapacity is the number of offerings that fit and are marked unavailable; 0: other pods used the last capacity.
	OfOutOfCapacity struct {
		detail
		Quota    Words    `subject:"%s"` // an exhausted quota of the cheapest such offering, and the remedy
		_        struct{} `want:"an offering with capacity"`
		SetAside int      `have:"%s offerings set aside|other pods took the last"`
	}
	// OfGroupMaximum is the cheapest node group that fits and is at its maximum size.
	OfGroupMaximum struct {
		detail
		Group Object   `subject:"%s"`
		_     struct{} `key:"maxSize"`
		Most  int64    `want:"more than %s" have:"%s"`
	}
	// OfUnusedLaunches is why no pod ran on the last launched node, and when the next one may be launched: without a time,
	// after the result of that one is known.
	OfUnusedLaunches struct {
		detail
		Cause Code      `key:"%s"`  // the most likely cause
		Until time.Time `want:"%s"` // when the next node may be launched
		Said  Words     `have:"%s"` // message of the cause
	}
	// OfLimit is a limit of the NodePool that leaves too little. Without a resource, other pods used the remainder.
	OfLimit struct {
		detail
		Replacing    string       `subject:"nodepool/%s|"` // a static NodePool without capacity for a replacement; Left is then its limit
		InstanceType string       `subject:"%s"`           // the smallest instance type that fits
		Resource     ResourceName `key:"%s"`               // or "nodes"
		Need         Amount       `want:"%s"`
		Taken        bool         `have:"other pods took what the pool's limits left"`
		Left         Amount       `have:"%s"`
	}
	// OfSharedLimit is a limit of the cluster or a CapacityQuota that is reached.
	OfSharedLimit struct {
		detail
		Limit    string       `subject:"%s"` // model.CapacityLimit.Name
		Resource ResourceName `key:"%s"`     // or "nodes", or model.DollarsPerHour
		Need     Amount       `want:"%s"`    // requirement of the smallest node
		Taken    bool         `have:"other pods took what the limit left"`
		Used     Amount       `have:"%s of "`
		Most     Amount       `have:"%s"`
	}
	// OfMinValues is a label with too few remaining values.
	OfMinValues struct {
		detail
		Label    string `key:"%s"`
		Want     int    `want:"%s"`
		Together bool   `have:"fewer that hold the pods together in one zone and capacity type"`
		OneNode  bool   `have:"on one node: "`                                      // more values fit the pod, but not one node for it
		Bound    bool   `have:"on one node, bound by spread, affinity or volume: "` // as OneNode, because of the pod's topology spread, affinity or shared volume
		Have     int    `have:"%s"`
	}
	// OfTopologySpread is a topology spread constraint that every domain would violate.
	OfTopologySpread struct {
		detail
		TopologyKey string    `key:"%s"`
		MaxSkew     int64     `want:"skew at most %s"`
		OfOthers    bool      `want:" of pods that count this one|" have:"every domain with room would exceed it|every domain would exceed it"`
		MinDomains  int       `want:" in at least %s domains|"` // minDomains of the constraint, if the pods can run in fewer domains
		Domains     int       `have:"; %s can have its pods|"`  // number of those domains; only with MinDomains
		Fewest      List      `have:"; fewest in %s|"`          // the domains with the fewest pods, if the NodePool cannot launch a node for the pod there
		Shifted     string    `have:"; shifted away from %s|"`  // one of these that the cluster is shifted away from
		Shift       string    `have:" by %s|"`                  // ID of that shift; empty: an autoshift of the cloud
		Until       time.Time `have:" until %s|"`               // end of that shift; zero: unknown
		Undefined   bool      `have:"; the pool does not define the label|"`
	}
	// OfPodAffinity is an affinity term that no domain with free capacity satisfies.
	OfPodAffinity struct {
		detail
		DaemonSet   Object   `subject:"%s"` // the DaemonSet that it selects, which has no pods on the NodePool's nodes
		TopologyKey string   `key:"%s"`
		_           struct{} `want:"a domain with a pod that the term selects"`
		OfGang      bool     `want:" of the pod's gang"`
		Daemons     bool     `have:"the DaemonSet has none on the pool's nodes|none with room"`
		Nowhere     bool     `have:"; no domain has one|"` // no domain has, or will have, a pod that the term selects
		Undefined   bool     `have:"; the pool does not define the label|"`
	}
	// OfPodAntiAffinity is an anti-affinity term that every domain with free capacity violates.
	OfPodAntiAffinity struct {
		detail
		DaemonSet   Object `subject:"%s"` // the DaemonSet whose pods conflict
		TopologyKey string `key:"%s"`
		OfOthers    bool   `want:"a domain without a pod whose term selects this one|a domain without a pod that the term selects"`
		OfDevices   bool   `want:", which requests some of the same devices in another way"` // generated because of devices, not from the pod's spec
		Daemons     bool   `have:"the DaemonSet has a pod on every node|none with room"`
	}
	// OfHostPort is a host port, or a disk in the pod's spec, that a DaemonSet pod uses on every node.
	OfHostPort struct {
		detail
		DaemonSet string   `subject:"%s"` // namespace/name
		Port      Port     `key:"%s"`
		_         struct{} `want:"a free port"`
		_         struct{} `have:"a DaemonSet's pod has it on every node"`
	}
	// OfPodsNotCreated is why the API server rejects pods of a ReplicaSet, and the number of missing pods.
	OfPodsNotCreated struct {
		detail
		Count int   `want:"%s"`
		Said  Words `have:"%s"`
	}
	// OfOldRevision is the ReplicaSet of a pod, whose Deployment has one of a later revision.
	OfOldRevision struct {
		detail
		Deployment Object `subject:"%s"`
		ReplicaSet string `key:"%s"` // namespace/name
	}
	// OfVolumeTopology is a volume that cannot be used where nodes can be launched for the pod; or a shared volume that will
	// be created in a domain where the pod cannot run.
	OfVolumeTopology struct {
		detail
		Name      string `key:"%s"` // name of the PVC; if ToCreate, the topology key
		ToCreate  bool   `want:"the domain in which the volume will be made" have:"none with room"`
		Want      Rules  `want:"%s"`
		Nowhere   bool   `have:"no offering there"`
		Unfit     bool   `have:"no offering there that fits"` // no offering there is allowed by the NodePool and the pod, and large enough
		Together  bool   `have:"no offering meets it together with the pod's other requirements"`
		Pool      Rule   `have:"the NodePool requires %s|"` // the NodePool's requirement that excludes every offering there
		Pod       Rule   `have:"the pod requires %s|"`      // the pod's requirement that does
		Other     string `have:"PVC %s|"`                   // the PVC of another volume of the pod that does
		OtherWant Rules  `have:" requires %s|"`
	}
	// OfVolumeStorage is a PVC for which the driver of a StorageClass reports too little free storage.
	OfVolumeStorage struct {
		detail
		StorageClass string   `subject:"storageclass/%s|"`
		Claim        string   `key:"%s"`
		Tried        bool     `have:"other nodes are tried first|no offering there"` // nodes are being launched to see whether the driver reports storage on them
		_            struct{} `want:"free storage reported for the node"`
	}
	// OfVolumeLimit is the maximum number of volumes of a driver that a node can attach.
	OfVolumeLimit struct {
		detail
		InstanceType string `subject:"%s"`
		Driver       string `key:"%s"`
		Want         int    `want:"%s"`
		Have         int    `have:"%s"`
	}
	// OfVolumeExclusive is a ReadWriteOncePod PVC that another pod uses.
	OfVolumeExclusive struct {
		detail
		Claim string   `key:"%s"`
		_     struct{} `want:"the volume to itself"`
		_     struct{} `have:"another pod uses it"`
	}
	// OfVolumeClaim is a PVC that no node can use.
	OfVolumeClaim struct {
		detail
		Object  Object                  `subject:"%s"` // the missing or faulty object; empty: the PVC
		Claim   string                  `key:"%s"`
		Problem model.VolumeProblemKind `want:"%s"`
		Said    Words                   `have:"%s"` // by kube-scheduler
	}
	// OfUnsupported is a constraint of the pod that is not supported.
	OfUnsupported struct {
		detail
		Field string `have:"%s"`
	}
	// OfNodeName describes a node that the pod selects by name. If Node is empty, it states that a new node would not
	// have a selected name.
	OfNodeName struct {
		detail
		Node  string `subject:"node/%s|"`
		Label string `key:"%s"`
		Want  Rule   `want:"%s"`
		Said  Words  `have:"%s"` // why the node rejects the pod
	}
	// OfMismatch is the last node that kube-scheduler rejected.
	OfMismatch struct {
		detail
		Node  string `subject:"node/%s|"`
		Twice bool   `want:"kube-scheduler to bind the pod" have:"it refused nodes that hold the pod by every check"` // kube-scheduler rejected this node and another one
		Said  Words  `have:"%s"`                                                                                      // otherwise: message of kube-scheduler
	}
	// OfPlanRefused is a rule that a plan violated.
	OfPlanRefused struct {
		detail
		Rule  string    `key:"%s"`  // or Panic
		Until time.Time `want:"%s"` // time of the next attempt
		Said  Words     `have:"%s"`
	}
	// OfPoolNotReady is the condition because of which a NodePool launches nothing.
	OfPoolNotReady struct {
		detail
		NodePool  string `subject:"nodepool/%s|"`
		Condition string `key:"%s"`
		Status    string `want:"%s"` // the required status
		Said      Words  `have:"%s"`
	}
	// OfTooComplex is the limit that the pod exceeds.
	OfTooComplex struct {
		detail
		What string `key:"%s"`
		Most int64  `want:"%s"`
		Have int64  `have:"%s"`
	}
	// OfWorkShare is the work of a namespace's pods, and the namespace's share.
	OfWorkShare struct {
		detail
		Namespace string `key:"%s"`
		Share     int64  `want:"%s"`
		More      bool   `have:"more than "` // the count is a lower bound
		Work      int64  `have:"%s"`
	}
	// OfResourceShare is the number of extended resources that the pod requests, and the limit of one step.
	OfResourceShare struct {
		detail
		Namespace string `key:"%s"`
		Most      int    `want:"%s"`
		Have      int    `have:"%s"`
	}
	// OfGangIncomplete is the number of existing pods of a gang, and the minimum before nodes are launched.
	OfGangIncomplete struct {
		detail
		Gang  Object `subject:"%s"`
		Least int    `want:"%s"`
		Have  int    `have:"%s"`
	}
	// OfGangTooLarge is the number of pods of a gang that can be placed, and the minimum before nodes are launched.
	OfGangTooLarge struct {
		detail
		Gang   Object `subject:"%s"`
		Domain Rule   `key:"%s"` // the label of which their nodes must have the same value, and the value with the most placeable pods
		Least  int    `want:"%s"`
		Have   int    `have:"%s"`        // including running pods
		Member string `have:"; not %s|"` // the pod (namespace/name) without a place that the following reasons refer to; empty: they refer to any
	}
	// OfNotSchedulable is why a pod is not demand.
	OfNotSchedulable struct {
		detail
		Because  NotSchedulableCause
		Name     string    // name of the node or the scheduler
		Priority int32     // of the pod
		Least    int32     // minimum priority for which nodes are launched
		Until    time.Time // time from which a node may be launched for it
	}
)

// TaintOf returns the Detail of a NodePool's taint.
func TaintOf(t model.Taint) OfTaint {
	return OfTaint{Key: t.Key, Value: t.Value, Effect: t.Effect, Want: true}
}

// String returns the taint in kubectl's format.
func (d OfTaint) String() string {
	s := d.Key
	if d.Value != "" {
		s += "=" + d.Value
	}
	if d.Effect != "" {
		s += ":" + d.Effect
	}
	return s
}

// Panic is the OfPlanRefused.Rule of a decision that failed.
const Panic = "panic"

// Port identifies a port and protocol, or a disk in the pod's spec.
type Port string

// PortOf returns the Port of a host port.
func PortOf(p model.HostPort) Port { return Port(p.String()) }

// IsDisk reports whether the Port is a disk.
func (p Port) IsDisk() bool {
	for i, c := range p {
		if c == '/' {
			return i > 0 && (p[0] < '0' || p[0] > '9')
		}
	}
	return false
}

// NotSchedulableCause is the field of a pod because of which it is not demand.
type NotSchedulableCause string

// The causes.
const (
	IsDaemon       NotSchedulableCause = "daemon"
	OwnerCause     NotSchedulableCause = "owner"
	GatesCause     NotSchedulableCause = "schedulingGates"
	NominatedCause NotSchedulableCause = "nominatedNodeName"
	PriorityCause  NotSchedulableCause = "priority"
	DelayCause     NotSchedulableCause = "scaleUpDelay"
	SchedulerCause NotSchedulableCause = "schedulerName"
)

func (d OfNotSchedulable) fields() Fields {
	f := Fields{Key: string(d.Because)}
	switch d.Because {
	case IsDaemon:
		f.Key, f.Have = "", "the pod is a DaemonSet's"
	case OwnerCause:
		f.Have = "made for one node: a DaemonSet's or a static pod"
	case GatesCause:
		f.Have = "not to be scheduled before its gates are taken away"
	case NominatedCause:
		f.Have = d.Name
	case PriorityCause:
		f.Want, f.Have = strconv.Itoa(int(d.Least)), strconv.Itoa(int(d.Priority))
	case DelayCause:
		f.Want = "past " + d.Until.UTC().Format(time.RFC3339)
	case SchedulerCause:
		f.Want, f.Have = model.DefaultScheduler, d.Name
	}
	return f
}

func (OfNotSchedulable) read(f Fields) Detail {
	d := OfNotSchedulable{Because: NotSchedulableCause(f.Key)}
	switch d.Because {
	case "":
		d.Because = IsDaemon
	case NominatedCause, SchedulerCause:
		d.Name = f.Have
	case PriorityCause:
		least, err1 := strconv.ParseInt(f.Want, 10, 32)
		priority, err2 := strconv.ParseInt(f.Have, 10, 32)
		if d.Least, d.Priority = int32(least), int32(priority); err1 != nil || err2 != nil {
			return nil
		}
	case DelayCause:
		var err error
		if d.Until, err = time.Parse(time.RFC3339, strings.TrimPrefix(f.Want, "past ")); err != nil {
			return nil
		}
	}
	return d
}
