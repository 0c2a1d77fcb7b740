// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Details of why a pod has no node.
type (
	// OfTaint is a taint that the pod does not tolerate.
	OfTaint struct {
		detail
		Node   string `subject:"node/%s|"` // that bears it, if one does
		Key    string `key:"%s" have:"%s"`
		Value  string `have:"=%s|"`
		Effect string `have:":%s|"`
		Want   bool   `want:"a toleration"` // it is the NodePool's
	}
	// OfRequirement is a requirement of the pod that the NodePool's labels do not meet.
	OfRequirement struct {
		detail
		Label     string `key:"%s"`
		Want      Rule   `want:"%s"`
		Undefined bool   `have:"the pool does not define the label"`
		Empty     bool   `have:"an empty term matches no node"` // of the pod's node affinity; there is no label
		Have      Rule   `have:"%s"`                            // the NodePool's requirement, or the value of its label
		Terms     int    `have:" (nearest of %s terms)|"`       // of the pod's node affinity, if there are several: any would do, and this is of the one that comes nearest
	}
	// OfNoPools is the lack of a NodePool that could launch nodes for pods.
	OfNoPools struct {
		detail
		Static List `have:"static: %s|"` // the NodePools that there are, which keep a number of nodes
	}
	// OfNoInstanceType is the requirement that leaves no instance type of the NodePool. Without a label the NodePool's own
	// requirements leave none.
	OfNoInstanceType struct {
		detail
		Label      string `key:"%s"`
		Want       Rule   `want:"%s"`
		With       Rules  `want:", together with %s|"` // requirements, of the pod or of the NodePool that excludes types, that leave none together with the last
		OfPool     bool   `want:" of the NodePool"`    // Want is the NodePool's, not the pod's
		None       bool   `have:"the pool is offered no instance type"`
		ExcludedBy Rule   `have:"excluded by %s|"`         // the NodePool's requirement that excludes every type that has the label's value
		Have       List   `have:"%s"`                      // the label's values of the types that met all before
		More       int    `have:" and %s more|"`           // and so many more values
		Terms      int    `have:" (nearest of %s terms)|"` // as in OfRequirement
	}
	// OfSize is an instance type that is too small, because of one resource; or that came up smaller than it was said to be.
	OfSize struct {
		detail
		InstanceType string       `subject:"%s"`
		Resource     ResourceName `key:"%s"`
		Need         Amount       `want:"%s"`       // of the pod and the DaemonSets
		DaemonSet    Object       `want:", of %s|"` // that needs more than half, if DaemonSets leave nothing on any type; the type is then the largest
		Have         Amount       `have:"%s"`       // allocatable
	}
	// OfOffering is where a pod may run and no type that fits is offered.
	OfOffering struct {
		detail
		Label    string `key:"%s"`
		Want     Rule   `want:"%s"`
		Apart    bool   `have:"no offering meets the pool's requirements and the pod's together"`
		Together bool   `have:"no type that fits is offered in zone and capacity type wanted together"`
		OfPool   bool   `have:"the NodePool requires it; offered: "` // Want is the NodePool's, not the pod's
		Have     List   `have:"%s"`                                  // the label's values that are offered
	}
	// OfZonalShift is a zonal shift, and until when it lasts; zero: until the cloud ends it.
	OfZonalShift struct {
		detail
		Zone  string    `key:"%s"`
		Until time.Time `want:"%s"`
		Shift string    `have:"%s"` // its id; empty: the cloud has started it by itself
	}
	// OfOutOfCapacity counts the offerings that fit and are set aside; 0: other pods took the last.
	OfOutOfCapacity struct {
		detail
		Quota    Words    `subject:"%s"` // a reached quota of the account that keeps the cheapest of those it keeps, and what to do
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
	// OfUnusedLaunches is why no pod came to the last node that was launched, and when the next may be: when it is known what
	// comes of that one, if no instant is given.
	OfUnusedLaunches struct {
		detail
		Cause Code      `key:"%s"`  // the likeliest
		Until time.Time `want:"%s"` // when the next node may be launched
		Said  Words     `have:"%s"` // the cause in the cluster's own words
	}
	// OfLimit is a limit of the NodePool that leaves too little. Without a resource other pods took what was left.
	OfLimit struct {
		detail
		Replacing    string       `subject:"nodepool/%s|"` // a static NodePool that has no place for a replacement; Left is its limit then
		InstanceType string       `subject:"%s"`           // the smallest that fits
		Resource     ResourceName `key:"%s"`               // or "nodes"
		Need         Amount       `want:"%s"`
		Taken        bool         `have:"other pods took what the pool's limits left"`
		Left         Amount       `have:"%s"`
	}
	// OfSharedLimit is a limit over the cluster, or a CapacityQuota, that allows no more.
	OfSharedLimit struct {
		detail
		Limit    string       `subject:"%s"` // model.CapacityLimit.Name
		Resource ResourceName `key:"%s"`     // or "nodes", or model.DollarsPerHour
		Need     Amount       `want:"%s"`    // of the smallest node
		Taken    bool         `have:"other pods took what the limit left"`
		Used     Amount       `have:"%s of "`
		Most     Amount       `have:"%s"`
	}
	// OfMinValues is a label of which too few values are left.
	OfMinValues struct {
		detail
		Label    string `key:"%s"`
		Want     int    `want:"%s"`
		Together bool   `have:"fewer that hold the pods together in one zone and capacity type"`
		OneNode  bool   `have:"on one node: "`                                      // more fit the pod than a node for it can have
		Bound    bool   `have:"on one node, bound by spread, affinity or volume: "` // the same, because of the pod's topology spread, affinity or shared volume
		Have     int    `have:"%s"`
	}
	// OfTopologySpread is a spread constraint that every domain would break.
	OfTopologySpread struct {
		detail
		TopologyKey string    `key:"%s"`
		MaxSkew     int64     `want:"skew at most %s"`
		OfOthers    bool      `want:" of pods that count this one|" have:"every domain with room would exceed it|every domain would exceed it"`
		MinDomains  int       `want:" in at least %s domains|"` // the constraint's, if fewer can have its pods
		Domains     int       `have:"; %s can have its pods|"`  // how many can; only with MinDomains
		Fewest      List      `have:"; fewest in %s|"`          // the domains with the fewest pods, if the NodePool can launch no node for the pod there
		Shifted     string    `have:"; shifted away from %s|"`  // one of these, if it is a zone that the cluster is shifted away from
		Shift       string    `have:" by %s|"`                  // the id of that shift; empty: the cloud has started it by itself
		Until       time.Time `have:" until %s|"`               // when that expires; zero: when the cloud ends it
		Undefined   bool      `have:"; the pool does not define the label|"`
	}
	// OfPodAffinity is an affinity term that no domain with room satisfies.
	OfPodAffinity struct {
		detail
		DaemonSet   Object   `subject:"%s"` // whose pods it selects and which has none on the NodePool's nodes
		TopologyKey string   `key:"%s"`
		_           struct{} `want:"a domain with a pod that the term selects"`
		OfGang      bool     `want:" of the pod's gang"`
		Daemons     bool     `have:"the DaemonSet has none on the pool's nodes|none with room"`
		Nowhere     bool     `have:"; no domain has one|"` // no pod that the term selects is, or would be, in a domain
		Undefined   bool     `have:"; the pool does not define the label|"`
	}
	// OfPodAntiAffinity is an anti-affinity term that every domain with room breaks.
	OfPodAntiAffinity struct {
		detail
		DaemonSet   Object `subject:"%s"` // whose pods conflict
		TopologyKey string `key:"%s"`
		OfOthers    bool   `want:"a domain without a pod whose term selects this one|a domain without a pod that the term selects"`
		OfDevices   bool   `want:", which requests some of the same devices in another way"` // no pod's own term
		Daemons     bool   `have:"the DaemonSet has a pod on every node|none with room"`
	}
	// OfHostPort is a port of the node, or a disk that the pod names itself, that a DaemonSet's pod has on every node.
	OfHostPort struct {
		detail
		DaemonSet string   `subject:"%s"` // namespace/name
		Port      Port     `key:"%s"`
		_         struct{} `want:"a free port"`
		_         struct{} `have:"a DaemonSet's pod has it on every node"`
	}
	// OfPodsNotCreated is why the API server refuses to create pods of a ReplicaSet, and how many it is to have more.
	OfPodsNotCreated struct {
		detail
		Count int   `want:"%s"`
		Said  Words `have:"%s"`
	}
	// OfVolumeTopology is a volume that can't be used where nodes could be launched for the pod; or one that pods share, to be
	// created in a domain where the pod can't run.
	OfVolumeTopology struct {
		detail
		Name      string `key:"%s"` // of the claim; if ToCreate, the topology key
		ToCreate  bool   `want:"the domain in which the volume will be made" have:"none with room"`
		Want      Rules  `want:"%s"`
		Nowhere   bool   `have:"no offering there"`
		Unfit     bool   `have:"no offering there that fits"` // that the NodePool and the pod allow and that is large enough
		Together  bool   `have:"no offering meets it together with the pod's other requirements"`
		Pool      Rule   `have:"the NodePool requires %s|"` // the NodePool's requirement that excludes every offering there
		Pod       Rule   `have:"the pod requires %s|"`      // the pod's own that does
		Other     string `have:"PVC %s|"`                   // the claim of another volume of the pod that does
		OtherWant Rules  `have:" requires %s|"`
	}
	// OfVolumeStorage is a claim for which the driver of a StorageClass reports too little free storage.
	OfVolumeStorage struct {
		detail
		StorageClass string   `subject:"storageclass/%s|"`
		Claim        string   `key:"%s"`
		Tried        bool     `have:"other nodes are tried first|no offering there"` // nodes are being launched to see whether the driver reports storage on them
		_            struct{} `want:"free storage reported for the node"`
	}
	// OfVolumeLimit is how many volumes of a driver a node can attach.
	OfVolumeLimit struct {
		detail
		InstanceType string `subject:"%s"`
		Driver       string `key:"%s"`
		Want         int    `want:"%s"`
		Have         int    `have:"%s"`
	}
	// OfVolumeExclusive is a ReadWriteOncePod claim that another pod uses.
	OfVolumeExclusive struct {
		detail
		Claim string   `key:"%s"`
		_     struct{} `want:"the volume to itself"`
		_     struct{} `have:"another pod uses it"`
	}
	// OfVolumeClaim is a claim that no node can use.
	OfVolumeClaim struct {
		detail
		Object  Object                  `subject:"%s"` // what is missing or at fault; empty: the claim
		Claim   string                  `key:"%s"`
		Problem model.VolumeProblemKind `want:"%s"`
		Said    Words                   `have:"%s"` // by kube-scheduler
	}
	// OfUnsupported is what of the pod's spec can't be honoured.
	OfUnsupported struct {
		detail
		Field string `have:"%s"`
	}
	// OfNodeName is one of the nodes that the pod may run on; without one, the pod asks for a node by name, and new nodes have others.
	OfNodeName struct {
		detail
		Node  string `subject:"node/%s|"`
		Label string `key:"%s"`
		Want  Rule   `want:"%s"`
		Said  Words  `have:"%s"` // why it does not take the pod
	}
	// OfMismatch is the last node that kube-scheduler refused.
	OfMismatch struct {
		detail
		Node  string `subject:"node/%s|"`
		Twice bool   `want:"kube-scheduler to bind the pod" have:"it refused nodes that hold the pod by every check"` // this and another
		Said  Words  `have:"%s"`                                                                                      // else: by kube-scheduler
	}
	// OfPlanRefused is a rule that a plan broke.
	OfPlanRefused struct {
		detail
		Rule  string    `key:"%s"`  // or Panic
		Until time.Time `want:"%s"` // when it is tried again
		Said  Words     `have:"%s"`
	}
	// OfPoolNotReady is the condition for which a NodePool launches nothing.
	OfPoolNotReady struct {
		detail
		NodePool  string `subject:"nodepool/%s|"`
		Condition string `key:"%s"`
		Status    string `want:"%s"` // the status that is wanted
		Said      Words  `have:"%s"`
	}
	// OfTooComplex is of what the pod asks for more than is looked at.
	OfTooComplex struct {
		detail
		What string `key:"%s"`
		Most int64  `want:"%s"`
		Have int64  `have:"%s"`
	}
	// OfWorkShare is how much work the pods of a namespace are, and its share.
	OfWorkShare struct {
		detail
		Namespace string `key:"%s"`
		Share     int64  `want:"%s"`
		More      bool   `have:"more than "` // not all was counted
		Work      int64  `have:"%s"`
	}
	// OfResourceShare is how many extended resources the pod asks for, and for how many there is room in one step.
	OfResourceShare struct {
		detail
		Namespace string `key:"%s"`
		Most      int    `want:"%s"`
		Have      int    `have:"%s"`
	}
	// OfGangIncomplete is how many pods of a gang exist, and how many must before nodes are launched for them.
	OfGangIncomplete struct {
		detail
		Gang  Object `subject:"%s"`
		Least int    `want:"%s"`
		Have  int    `have:"%s"`
	}
	// OfGangTooLarge is how many pods of a gang can have a place, and how many must for nodes to be launched for them.
	OfGangTooLarge struct {
		detail
		Gang   Object `subject:"%s"`
		Domain Rule   `key:"%s"` // label that their nodes must have one value of, and the value with which most can be placed
		Least  int    `want:"%s"`
		Have   int    `have:"%s"`        // those that run already among them
		Member string `have:"; not %s|"` // pod that has no place, by namespace and name, which the reasons that follow are of; empty: they are of any
	}
	// OfNotSchedulable is why a pod is not looked at.
	OfNotSchedulable struct {
		detail
		Because  NotSchedulableCause
		Name     string    // of the node or the scheduler
		Priority int32     // of the pod
		Least    int32     // priority for which nodes are launched
		Until    time.Time // when a node may be launched for it
	}
)

// TaintOf returns the Detail of a NodePool's taint.
func TaintOf(t model.Taint) OfTaint {
	return OfTaint{Key: t.Key, Value: t.Value, Effect: t.Effect, Want: true}
}

// String writes the taint as kubectl does.
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

// Port names a port with its protocol, or a disk that the pod names itself.
type Port string

// PortOf returns the name of a port.
func PortOf(p model.HostPort) Port { return Port(p.String()) }

// IsDisk reports whether it is a disk.
func (p Port) IsDisk() bool {
	for i, c := range p {
		if c == '/' {
			return i > 0 && (p[0] < '0' || p[0] > '9')
		}
	}
	return false
}

// NotSchedulableCause is the field of a pod for which it is not looked at.
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
