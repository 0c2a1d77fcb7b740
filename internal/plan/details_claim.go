// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Details of what the next step of a NodeClaim waits for, of why it was taken, and of why kube-scheduler binds a pod.
type (
	// OfSaid contains a message of the API server or of the cloud, or an interruption notice.
	OfSaid struct {
		detail
		Said Words `have:"%s"`
	}
	// OfCallFailed is a call that fails and is retried: the number of failures since a time, or when it is given up.
	OfCallFailed struct {
		detail
		Call       string    `key:"%s"`
		GivenUp    time.Time `want:"given up after %s"`
		Times      int       `want:"%s since |"`
		FirstTried time.Time `want:"%s"`
		Said       Words     `have:"%s"` // the last answer
	}
	// OfChangeUndone is a change that another client reverts each time: how often, and since when.
	OfChangeUndone struct {
		detail
		Times int       `want:"%s since |"`
		Since time.Time `want:"%s"`
	}
	// OfRegistering reports whether a node joined without the taint that repels pods, or contains the message of its
	// NodeClaim's condition.
	OfRegistering struct {
		detail
		Untainted bool  `key:"karpenter.sh/unregistered" want:"NoExecute"`
		Said      Words `have:"%s"`
	}
	// OfInitializing contains what is written to a node in addition to its initialization, and the message of its NodeClaim's
	// condition.
	OfInitializing struct {
		detail
		Field string `key:"%s"`
		Said  Words  `have:"%s"`
	}
	// OfTimeout is a timeout that has passed.
	OfTimeout struct {
		detail
		Within time.Duration `want:"%s|"`
		Said   Words         `have:"%s"` // the last answer
	}
	// OfReservationEnded is the capacity type of an instance after its capacity reservation ended.
	OfReservationEnded struct {
		detail
		CapacityType string   `want:"%s"`
		_            struct{} `have:"reserved"`
	}
	// OfGracePeriod is the termination grace period that ends the wait for pods.
	OfGracePeriod struct {
		detail
		Ends  bool          `key:"terminationGracePeriod"`
		After time.Duration `want:"%s|"`
	}
	// OfLeftover is a taint that another autoscaler left on a node.
	OfLeftover struct {
		detail
		Taint string `key:"%s"`
	}
	// OfHeldForBuffer lists the CapacityBuffers that a node holds capacity for.
	OfHeldForBuffer struct {
		detail
		Held Holdings `have:"%s"`
	}
	// OfNodeTaint is a taint that its owner removes from a new node: its key and, if it is on the node, key:effect.
	OfNodeTaint struct {
		detail
		Key   string `key:"%s"`
		Stays bool   `want:"taken off by whoever it waits for"`
		Taint string `have:"%s"`
	}
	// OfExtendedResource is a resource that a device plugin must register.
	OfExtendedResource struct {
		detail
		Resource string `key:"%s"`
	}
	// OfSpreadTaints is the topology key of a spread constraint with nodeTaintsPolicy Honor.
	OfSpreadTaints struct {
		detail
		TopologyKey string `key:"%s"`
	}
	// OfNodeMissing is when an instance without a registered node is terminated.
	OfNodeMissing struct {
		detail
		GivenUp time.Time `want:"%s"`
	}
	// OfSeveralNodes lists the nodes with the same provider ID.
	OfSeveralNodes struct {
		detail
		_     struct{} `want:"one node"`
		Nodes List     `have:"%s"`
	}
	// OfNodeNotReady contains the message of the node's condition Ready.
	OfNodeNotReady struct {
		detail
		_    struct{} `key:"Ready"`
		_    struct{} `want:"True"`
		Said Words    `have:"%s"`
	}
	// OfResourceMissing is a requested extended resource that the node does not have yet.
	OfResourceMissing struct {
		detail
		Resource ResourceName `key:"%s"`
		Need     Amount       `want:"%s"`
		_        struct{}     `have:"0"`
	}
	// OfPods is a number of pods: awaited pods, missing DaemonSet pods, or pods that are evicted first.
	OfPods struct {
		detail
		Count int `have:"%s"`
	}
	// OfAwaitsLaunch reports whether the launch that waits for another one has failed.
	OfAwaitsLaunch struct {
		detail
		Failed bool `have:"failed"`
	}
	// OfAwaitsMachine is the stage of a replacement.
	OfAwaitsMachine struct {
		detail
		_     struct{} `want:"Initialized"`
		Stage Code     `have:"%s"`
	}
	// OfPodTerminating is the end of a deleted pod's grace period, and its finalizers.
	OfPodTerminating struct {
		detail
		Finalizers List      `key:"%s"`
		End        time.Time `have:"%s"`
	}
	// OfEvictionPace is the maximum number of evicted pods without a new node.
	OfEvictionPace struct {
		detail
		Most int `want:"%s"`
	}
	// OfSuccessorFirst is the Deployment that creates a pod's replacement first.
	OfSuccessorFirst struct {
		detail
		Deployment Object `have:"%s"`
	}
	// OfHolders lists what holds an object: finalizers, or VolumeAttachments.
	OfHolders struct {
		detail
		Names List `key:"%s"`
	}
	// OfDeletionDelayed is an annotation of a node that delays its deletion.
	OfDeletionDelayed struct {
		detail
		Annotation string `key:"%s"`
	}
	// OfMinimumDrain is the minimum duration of a drain.
	OfMinimumDrain struct {
		detail
		Least time.Duration `want:"%s"`
	}
	// OfNoSurge is the field that prevents a pod from being replaced before its eviction, and how.
	OfNoSurge struct {
		detail
		Field        string        `key:"%s"`
		Waited       time.Duration `want:"%s|"`
		Late         bool          `have:"its successor has not come in time"`
		Expendable   bool          `have:"the pod is expendable: no node would be launched for its successor"`
		NoController bool          `have:"it has no controller that would make another"`
		NoRights     bool          `have:"the controller may not restart Deployments"`
		Recreate     bool          `have:"Recreate ends the old pod first"`
		ZeroSurge    bool          `have:"0 ends the old pod first"`
		Paused       bool          `have:"the Deployment is paused"`
		OneNode      bool          `have:"the volume can be used on one node at a time"`
		Kind         string        `have:"a %s has no second pod beside the one it replaces|"` // of its controller
		Missing      string        `have:"there is no Deployment %s|"`                         // namespace/name
	}
	// OfNotBindable is the field of a pod because of which only kube-scheduler can place it.
	OfNotBindable struct {
		detail
		Field     string `key:"%s"`
		Gone      bool   `want:"pending" have:"not in the Snapshot"`
		Elsewhere bool   `have:"a rule about more than the node"`
		TooMany   string `have:"more %s than are looked at|"`
		Value     string `have:"%s"`
	}
	// OfBindingUnfit is the reason why a kube-scheduler filter rejects a node for a pod.
	OfBindingUnfit struct {
		detail
		Filter     Filter
		Cause      UnfitCause
		What       string // the taint, resource, port, disk, claim, driver or topology key
		Pod        Object // the conflicting pod
		Need, Have int64
	}
)

// NodeTaintOf returns the Detail of a taint that is on a node.
func NodeTaintOf(t model.Taint) OfNodeTaint {
	return OfNodeTaint{Key: t.Key, Stays: true, Taint: t.Key + ":" + t.Effect}
}

// Filter is a filter of kube-scheduler, by the name of its plugin.
type Filter string

// The filters.
const (
	FilterNodeName     Filter = "NodeName"
	FilterTaints       Filter = "TaintToleration"
	FilterNodeAffinity Filter = "NodeAffinity"
	FilterResources    Filter = "NodeResourcesFit"
	FilterPorts        Filter = "NodePorts"
	FilterDisks        Filter = "VolumeRestrictions"
	FilterVolumes      Filter = "VolumeBinding"
	FilterVolumeLimits Filter = "NodeVolumeLimits"
	FilterPodAffinity  Filter = "InterPodAffinity"
	FilterSpread       Filter = "PodTopologySpread"
)

// UnfitCause is the check of a filter that fails.
type UnfitCause int

// The causes.
const (
	UnfitGone        UnfitCause = iota // the node no longer exists
	UnfitNotReady                      // the node is not Ready
	UnfitTaint                         // the pod does not tolerate What
	UnfitLabels                        // the pod selects other nodes
	UnfitResource                      // Need of What is requested, Have is free
	UnfitPort                          // What is used by Pod
	UnfitVolume                        // the volume of PVC What cannot be attached
	UnfitVolumeLimit                   // Need volumes of driver What are required, Have can be attached
	UnfitDriver                        // driver What is not registered on the node
	UnfitPod                           // the pod's anti-affinity selects Pod
	UnfitRepelled                      // another pod's anti-affinity over What selects the pod
	UnfitNoHost                        // the node has no label What
	UnfitSkew                          // the skew would be Need, at most Have is allowed
)

func (d OfBindingUnfit) fields() Fields {
	f := Fields{Key: string(d.Filter)}
	switch d.Cause {
	case UnfitGone:
		f.Have = "a node that is gone or being deleted"
	case UnfitNotReady:
		f.Want, f.Have = "a node that is Ready", "a node that is not Ready"
	case UnfitTaint:
		f.Want, f.Have = "a toleration of the taint", d.What
	case UnfitLabels:
		f.Want, f.Have = "labels that the pod selects", "a node with other labels"
	case UnfitResource:
		dim := model.DimOf(d.What)
		f.Want, f.Have = model.FormatAmount(dim, d.Need)+" of "+d.What, "a node with "+model.FormatAmount(dim, d.Have)+" of "+d.What+" free"
	case UnfitPort:
		f.Have = "host port " + d.What + " in use by " + string(d.Pod)
	case UnfitVolume:
		f.Have = "a node to which the volume of PVC " + d.What + " can't be attached"
	case UnfitVolumeLimit:
		f.Want, f.Have = strconv.FormatInt(d.Need, 10)+" volumes of driver "+d.What, "a node that can attach "+strconv.FormatInt(d.Have, 10)
	case UnfitDriver:
		f.Want, f.Have = "a node on which CSI driver "+d.What+" is registered", "one without CSI driver "+d.What
	case UnfitPod:
		f.Want, f.Have = "no pod on the node that its anti-affinity selects", string(d.Pod)
	case UnfitRepelled:
		f.Have = "a pod in the same " + d.What + " with anti-affinity to this pod"
	case UnfitNoHost:
		f.Want, f.Have = "label "+d.What, "a node without it"
	case UnfitSkew:
		f.Want, f.Have = "a skew over hosts of at most "+strconv.FormatInt(d.Have, 10), "a skew over hosts of "+strconv.FormatInt(d.Need, 10)
	}
	return f
}

func (OfBindingUnfit) read(Fields) Detail { return nil } // nobody asks for more of one that was kept than its texts
