// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// API makes requests to the API server of the management cluster. Errors are those of the API server.
type API interface {
	// Read returns the JSON response for a path.
	Read(ctx context.Context, path string, query url.Values) ([]byte, error)
	// Patch applies a JSON merge patch to the object at a path.
	Patch(ctx context.Context, path string, patch []byte) error
}

// apiGroup is Cluster API's.
const apiGroup = "cluster.x-k8s.io"

// Annotations and labels of Cluster API, and of Cluster Autoscaler for Cluster API.
const (
	annotationMin           = apiGroup + "/cluster-api-autoscaler-node-group-min-size"
	annotationMax           = apiGroup + "/cluster-api-autoscaler-node-group-max-size"
	annotationDelete        = apiGroup + "/delete-machine"
	annotationPaused        = apiGroup + "/paused"
	annotationManagedBy     = apiGroup + "/replicas-managed-by" // of a MachinePool whose cloud changes its size
	annotationOption        = apiGroup + "/autoscaling-options-"
	annotationCapacity      = "capacity.cluster-autoscaler.kubernetes.io/"
	labelCluster            = apiGroup + "/cluster-name"
	labelDeployment         = apiGroup + "/deployment-name"
	labelTopologyDeployment = "topology." + apiGroup + "/deployment-name"
	labelTopologyPool       = "topology." + apiGroup + "/pool-name"
	resourceDeployments     = "machinedeployments"
	resourceSets            = "machinesets"
	resourcePools           = "machinepools"
	resourceMachines        = "machines"
	resourceClusters        = "clusters"
	annotationRemoved       = "dovetail.sh/removed-machines"
	deletedBy               = "dovetail.sh" // value of annotationDelete
	conditionRollingOut     = "RollingOut"
	conditionScalingUp      = "ScalingUp"
	versionLatest           = "v1beta2"
	phaseFailed             = "Failed"
	placeholderPending      = "pending-machine-"
	placeholderFailed       = "failed-machine-"
	kindMachineDeployment   = "MachineDeployment"
	kindMachineSet          = "MachineSet"
	kindMachinePool         = "MachinePool"
	infrastructureFieldType = "instanceType"
)

// object is the part of a Cluster, MachineDeployment, MachineSet, MachinePool or Machine that is read, in all API
// versions.
type object struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Paused   bool   `json:"paused"`
		Replicas *int64 `json:"replicas"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec machineSpec `json:"spec"`
		} `json:"template"`
		ProviderID string   `json:"providerID"`
		Topology   topology `json:"topology"`
	} `json:"spec"`
	Status struct {
		Phase           string      `json:"phase"`
		Replicas        int64       `json:"replicas"`
		UpdatedReplicas *int64      `json:"updatedReplicas"` // v1beta1
		Conditions      []condition `json:"conditions"`
		NodeRef         struct {
			Name string `json:"name"`
		} `json:"nodeRef"` // of a Machine that has, or had, a node
		FailureReason  string `json:"failureReason"` // v1beta1
		FailureMessage string `json:"failureMessage"`
		Deprecated     struct {
			V1Beta1 struct {
				FailureReason  string `json:"failureReason"`
				FailureMessage string `json:"failureMessage"`
			} `json:"v1beta1"`
		} `json:"deprecated"`
	} `json:"status"`
}

// condition is what is read of metav1.Condition. A Machine has about ten, whose times and reasons nobody here needs.
type condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Message string                 `json:"message"`
}

// metadata is what is read of metav1.ObjectMeta: managed fields are half of an object, and are skipped.
type metadata struct {
	Name              string                  `json:"name"`
	UID               types.UID               `json:"uid"`
	ResourceVersion   string                  `json:"resourceVersion"`
	Labels            map[string]string       `json:"labels"`
	Annotations       map[string]string       `json:"annotations"`
	CreationTimestamp metav1.Time             `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
	OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
}

// controller returns the object's controlling owner; nil if it has none.
func (o *object) controller() *metav1.OwnerReference {
	return metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: o.Metadata.OwnerReferences})
}

// topology is the part of a Cluster about groups managed by its ClusterClass.
type topology struct {
	Workers struct {
		MachineDeployments []topologyGroup `json:"machineDeployments"`
		MachinePools       []topologyGroup `json:"machinePools"`
	} `json:"workers"`
}

type topologyGroup struct {
	Name     string `json:"name"`
	Replicas *int64 `json:"replicas"`
}

// machineSpec is the part of a Machine template that is read.
type machineSpec struct {
	FailureDomain string         `json:"failureDomain"`
	Taints        []corev1.Taint `json:"taints"`
	Bootstrap     struct {
		ConfigRef reference `json:"configRef"`
	} `json:"bootstrap"`
	InfrastructureRef reference `json:"infrastructureRef"`
}

// reference names an object of another provider of Cluster API.
type reference struct {
	APIVersion string `json:"apiVersion"` // v1beta1
	APIGroup   string `json:"apiGroup"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

func (o *object) replicas() int64 {
	if o.Spec.Replicas == nil {
		return 1 // Cluster API's default
	}
	return *o.Spec.Replicas
}

// rightsSettle is how long an API server may deny permitted requests after it starts, because it has not loaded all
// roles yet.
const rightsSettle = 2 * time.Minute

// permission is the last known result of a request for a permission.
type permission struct {
	granted bool      // it was permitted before
	denied  time.Time // since when it is forbidden; zero: it is not
}

// noteCall notes whether a call that needs a right was permitted, and reports whether the right is missing: it never was permitted, or has been forbidden for
// rightsSettle.
func (s *server) noteCall(right string, err error) (missing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, now := s.rights[right], s.clock.Now()
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err): // asked for after the right
		have = permission{granted: true}
	case !apierrors.IsForbidden(err):
		return false
	case have.denied.IsZero():
		have.denied = now
	}
	s.rights[right] = have
	return apierrors.IsForbidden(err) && (!have.granted || now.Sub(have.denied) >= rightsSettle)
}

// callError gives an error of the API server its kind. missing says that a right is missing.
func callError(what string, err error, missing bool) error {
	out := &nodegroups.CallError{Kind: cloud.Unknown, Err: fmt.Errorf("%s: %w%s", what, err, remedyOf(err, missing))}
	var known *nodegroups.CallError
	if errors.As(err, &known) {
		out.Kind, out.After, out.Uncertain = known.Kind, known.After, known.Uncertain
		return out
	}
	switch after, asked := apierrors.SuggestsClientDelay(err); {
	case apierrors.IsTooManyRequests(err):
		out.Kind, out.After = cloud.Throttled, throttlePause
		if asked {
			out.After = time.Duration(after) * time.Second
		}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		out.Kind = cloud.Denied
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err):
		out.Uncertain = true // no answer, or one that says nothing
	}
	return out
}

// remedyOf returns the remedy for an error of the API server; empty: unknown. missing means that a permission is
// missing.
func remedyOf(err error, missing bool) string {
	switch {
	case apierrors.IsForbidden(err) && missing:
		return "; grant the rights that \"dovetail manifests --cluster-api\" prints, in the namespace of the Cluster object"
	case apierrors.IsUnauthorized(err):
		return "; the management cluster rejects the credentials of --management-kubeconfig: renew them"
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return "; if this persists, check that the management cluster runs and that --management-kubeconfig names it"
	}
	return ""
}

// version returns the version of an API group that is used: the latest that this package knows of Cluster API's, and of others the one that the API
// server prefers. It is asked once.
func (s *server) version(ctx context.Context, group string) (string, error) {
	s.mu.Lock()
	have := s.versions[group]
	s.mu.Unlock()
	if have != "" {
		return have, nil
	}
	data, err := s.read(ctx, "/apis/"+group, nil)
	if apierrors.IsNotFound(err) && group == apiGroup {
		return "", &nodegroups.CallError{Kind: cloud.NotReady, Err: errors.New("the management cluster has no API group " + apiGroup + "; install Cluster API there, or name another cluster with --management-kubeconfig")}
	}
	if err != nil {
		return "", callError("read the versions of "+group+" in the management cluster", err, true)
	}
	var g metav1.APIGroup
	if err := json.Unmarshal(data, &g); err != nil {
		return "", fmt.Errorf("read the versions of %s: %w", group, err)
	}
	out := g.PreferredVersion.Version
	if group == apiGroup && slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == versionLatest }) {
		out = versionLatest
	}
	s.mu.Lock()
	s.versions[group] = out
	s.mu.Unlock()
	return out, nil
}

// forgetVersion makes the version of an API group be read again: an object was not found, perhaps because the version is
// no longer served.
func (s *server) forgetVersion(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.versions, group)
}

func (s *server) read(ctx context.Context, at string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.api.Read(ctx, at, query)
}

// pathOf returns the path of objects of the cluster's namespace.
func (s *server) pathOf(ctx context.Context, parts ...string) (string, error) {
	v, err := s.version(ctx, apiGroup)
	return path.Join(append([]string{"/apis", apiGroup, v, "namespaces", s.namespace}, parts...)...), err
}

// list returns the objects of a resource that belong to the cluster.
func (s *server) list(ctx context.Context, resource, selector string) ([]object, error) {
	at, err := s.pathOf(ctx, resource)
	if err != nil {
		return nil, err
	}
	data, err := s.read(ctx, at, url.Values{"labelSelector": {selector}})
	missing := s.noteCall("list "+resource, err)
	if err != nil {
		if apierrors.IsNotFound(err) && resource != resourcePools { // those are behind a feature gate
			s.forgetVersion(apiGroup)
		}
		return nil, callError("list "+resource+" of namespace "+s.namespace, err, missing)
	}
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read the list of %s of namespace %s: %w", resource, s.namespace, err)
	}
	return list.Items, nil
}

// get returns one object.
func (s *server) get(ctx context.Context, resource, name string) (*object, error) {
	at, err := s.pathOf(ctx, resource, name)
	if err != nil {
		return nil, err
	}
	data, err := s.read(ctx, at, nil)
	missing := s.noteCall("get "+resource, err)
	if err != nil {
		return nil, callError("read "+singular(resource)+" "+s.namespace+"/"+name, err, missing)
	}
	out := &object{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", singular(resource), s.namespace, name, err)
	}
	return out, nil
}

// patch changes an object.
func (s *server) patch(ctx context.Context, resource, name string, change any) error {
	at, err := s.pathOf(ctx, resource, name)
	if err != nil {
		return err
	}
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = s.api.Patch(ctx, at, body)
	missing := s.noteCall("patch "+resource, err)
	if err != nil {
		return callError("change "+singular(resource)+" "+s.namespace+"/"+name, err, missing)
	}
	return nil
}

func singular(resource string) string { return strings.TrimSuffix(resource, "s") }

const (
	// callTimeout is how long a request may take.
	callTimeout = 10 * time.Second
	// throttlePause is how long is waited before a request is repeated that the management cluster can't take now.
	throttlePause = 500 * time.Millisecond
	// writes is how often a change is computed anew because somebody else has changed the object.
	writes = 5
)

// server is a cluster's node groups.
type server struct {
	api             API
	namespace, name string
	clock           cloud.Clock
	log             *slog.Logger

	mu       sync.Mutex
	rights   map[string]permission // by verb and resource
	owner    *object               // the Cluster, as Refresh has read it last
	versions map[string]string     // the version that is used, by API group
	seen     map[string]seenGroup  // by name, as they were listed last
	overdue  map[string]string     // by group: a Machine that has not joined for joinTime while the group rolls out
}

// seenGroup is the object of a group.
type seenGroup struct {
	resource string
	object   *object
}
