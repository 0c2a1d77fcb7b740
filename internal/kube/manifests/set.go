// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Set is a set of API objects read from files, written by hand or printed by kubectl, for use without a cluster. It
// applies the defaults of the API server, and creates the objects that controllers would create for a workload or a
// Provisioner. If an object occurs twice, the last one counts.
type Set struct {
	// Skipped are the objects read that do not affect an autoscaler, each as kind and name.
	Skipped []string
	// Scheduler are the default topology spread constraints of the schedulers. Set it before reading.
	Scheduler translate.SchedulerDefaults
	// Custom are the kinds of custom resources read, sorted. The objects that their controllers would create are
	// unknown.
	Custom []string
	// Assumed are the assumptions about the controllers of input objects, each as a clause. Feed sets it.
	Assumed []string
	// Missing are objects that pods refer to and that are not in the input, with the objects that refer to them. Feed
	// sets it.
	Missing []string
	// NotMade are the pods of the input that an API server would refuse to create. Feed sets it.
	NotMade []NotMade

	// Templates are pod templates of controllers that are not among the objects, because all their pods are, by uid.
	Templates map[string]*model.Template

	// At is the time of the state of the objects; zero: now.
	At time.Time

	unchecked  bool // objects are as a cluster may have them, uid or not: for tests of their translation
	objects    []object
	at         map[string]int // of an object in objects, by kind and key
	generated  map[string]int // how often a generateName was used
	volumes    *volume.Index
	devices    *translate.Devices
	csi        map[string]*storagev1.CSINode
	limits     map[string]*corev1.LimitRange
	priorities map[string]*schedulingv1.PriorityClass
	runtimes   map[string]*nodev1.RuntimeClass
	horizontal map[string]horizontal // by the workload that is scaled
	services   map[string]*corev1.Service
	gangs      map[string]*translate.GangObject      // by the name of the gang
	requests   map[string]*unstructured.Unstructured // ProvisioningRequests, by namespace/name
	gangKinds  map[*translate.GangKind]bool          // of which there are objects

	claimants      map[string]claimant // pods with resource claims that Feed has made, by namespace/name
	deviceObjects  map[string]bool     // of dynamic resource allocation, by kind and key
	resourceQuotas map[string]*corev1.ResourceQuota
	podQuotas      map[string]*translate.PodQuotas // by namespace: what they leave for pods that are yet to be created
}

// NotMade are pods that the API server would refuse to create.
type NotMade struct {
	Owner string // kind, namespace and name of their workload, or of the pod if it has none
	Pods  int
	Why   string
}

// object is an object used by Feed.
type object struct {
	kind string
	metav1.Object
}

// Nodes returns the nodes of the set. Callers may change them.
func (m *Set) Nodes() (out []*corev1.Node) {
	for _, o := range m.objects {
		if n, ok := o.Object.(*corev1.Node); ok {
			out = append(out, n)
		}
	}
	return out
}

// demand says of a pod that is bound to no node and is kube-scheduler's what that would say if there were one.
func demand(p *model.Pod) *model.Pod {
	if p.Node == "" && p.Unschedulable.IsZero() && p.Class.Scheduler == corev1.DefaultSchedulerName {
		p.Unschedulable = p.Created
		if p.Unschedulable.IsZero() {
			p.Unschedulable = time.Unix(0, 0)
		}
	}
	return p
}

// Error is an error in a manifest, with its location.
type Error struct {
	File   string
	Line   int    // starts at 1
	Object string // kind and name, if known
	Field  string // path, e.g. spec.template.spec.containers[0].resources.requests.cpu; empty: the whole object
	Value  string // the value as written; empty: none
	Reason string // what is invalid, and what is valid
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s line %d: ", e.File, e.Line)
	for _, s := range []string{e.Object, e.Field, e.Value} {
		if s != "" {
			b.WriteString(s + ": ")
		}
	}
	b.WriteString(e.Reason)
	return b.String()
}

// fileUID is how the uids of objects begin that have none because no API server has stored them.
const fileUID = "file:"

// reader reads one document of a file.
type reader struct {
	m    *Set
	file string
	line int    // of the document's first line
	text []byte // as it is written
	json json.RawMessage
}

// horizontal are the bounds of a HorizontalPodAutoscaler, of any of its versions.
type horizontal struct {
	name        string // namespace/name
	least, most int
}
