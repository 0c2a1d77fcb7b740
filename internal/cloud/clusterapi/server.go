// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// Config names the Cluster whose node groups are used.
type Config struct {
	Namespace, Name string // namespace and name of the Cluster in the management cluster
}

// ReadConfig parses NAMESPACE/NAME.
func ReadConfig(text string) (Config, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Config{}, fmt.Errorf("%q: use NAMESPACE/NAME of the Cluster object in the management cluster, for example default/workload", text)
	}
	return Config{namespace, name}, nil
}

// New returns a provider. It makes no requests.
func New(c Config, api API, records nodegroups.Records, resources nodegroups.Resources, clock cloud.Clock, log *slog.Logger) *nodegroups.Provider {
	return nodegroups.New(nodegroups.Settings{Name: "clusterapi", Server: newServer(c, api, clock, log), HasTags: true, Other: memberClass, Adopts: true, Timeout: callTimeout, Records: records, Resources: resources, Clock: clock, Log: log})
}

func newServer(c Config, api API, clock cloud.Clock, log *slog.Logger) *server {
	return &server{api: api, namespace: c.Namespace, name: c.Name, clock: clock, log: log, rights: map[string]permission{}, versions: map[string]string{}}
}

// Refresh implements nodegroups.Server. It reads the Cluster, which also checks the connection to the management
// cluster. Other objects are read when needed.
func (s *server) Refresh(ctx context.Context) error {
	owner, err := s.get(ctx, resourceClusters, s.name)
	if apierrors.IsNotFound(err) {
		return &nodegroups.CallError{Kind: cloud.NotReady, Err: fmt.Errorf("the management cluster has no Cluster %s/%s; set --cluster-api-cluster to NAMESPACE/NAME of the Cluster object", s.namespace, s.name)}
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner = owner
	return nil
}

// Groups implements nodegroups.Server. The name of a group is the name of its object.
func (s *server) Groups(ctx context.Context) ([]nodegroups.Group, error) {
	s.mu.Lock()
	owner := s.owner
	s.mu.Unlock()
	if owner == nil {
		return nil, errors.New("the Cluster was not read yet") // Refresh is called first
	}
	seen, err := s.listGroups(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.seen = seen
	s.mu.Unlock()
	var out []nodegroups.Group
	for _, g := range seen {
		if isGroup(g.object) {
			out = append(out, s.groupOf(g.resource, g.object, owner))
		}
	}
	return out, nil
}

// listGroups returns all objects that have Machines, by name.
func (s *server) listGroups(ctx context.Context) (map[string]seenGroup, error) {
	out := map[string]seenGroup{}
	for _, resource := range []string{resourceDeployments, resourceSets, resourcePools} {
		list, err := s.list(ctx, resource, labelCluster+"="+s.name)
		if resource == resourcePools && apierrors.IsNotFound(err) {
			continue // not installed
		}
		if err != nil {
			return nil, err
		}
		for i := range list {
			o := &list[i]
			if o.controller() != nil {
				continue
			}
			if _, taken := out[o.Metadata.Name]; taken {
				if isGroup(o) {
					s.log.Warn("two objects of a cluster have the same name; the second is not used as a node group", "first", kindOf(out[o.Metadata.Name].resource), "second", kindOf(resource), "name", s.namespace+"/"+o.Metadata.Name)
				}
				continue
			}
			out[o.Metadata.Name] = seenGroup{resource, o}
		}
	}
	return out, nil
}

// isGroup reports whether an object says that it may be scaled.
func isGroup(o *object) bool {
	_, low := o.Metadata.Annotations[annotationMin]
	_, high := o.Metadata.Annotations[annotationMax]
	return low && high
}

// groupOf describes a group.
func (s *server) groupOf(resource string, o, owner *object) nodegroups.Group {
	target := o.replicas()
	g := nodegroups.Group{Name: o.Metadata.Name, Tags: o.Metadata.Labels, Target: &target}
	object := kindOf(resource) + " " + s.namespace + "/" + o.Metadata.Name
	for _, x := range []struct {
		key string
		to  *int64
	}{{annotationMin, &g.Min}, {annotationMax, &g.Max}} {
		n, err := strconv.ParseInt(o.Metadata.Annotations[x.key], 10, 32)
		if err != nil || n < 0 {
			g.Problem = fmt.Sprintf("%s: annotation %s: %q: use a number of machines, 0 or more", object, x.key, o.Metadata.Annotations[x.key])
		}
		*x.to = n
	}
	if g.Problem == "" && g.Min > g.Max {
		g.Problem = fmt.Sprintf("%s: annotation %s: %d is above %s: %d; lower it", object, annotationMin, g.Min, annotationMax, g.Max)
	}
	if why := cmp.Or(s.paused(resource, o, owner), s.managed(resource, o, owner)); why != "" {
		g.Problem = why
	}
	if g.Problem == "" {
		g.Problem = s.blocked(resource, o)
	}
	if isRollingOut(o) {
		g.Replaces = conditionRollingOut
		s.mu.Lock()
		if late := s.overdue[o.Metadata.Name]; late != "" && g.Problem == "" {
			g.Problem = fmt.Sprintf("%s is rolling out, but Machine %s/%s has had no node for %d minutes; fix the template or delete the Machine", object, s.namespace, late, int(joinTime.Minutes()))
		}
		s.mu.Unlock()
	}
	return g
}

func kindOf(resource string) string {
	switch resource {
	case resourceSets:
		return kindMachineSet
	case resourcePools:
		return kindMachinePool
	}
	return kindMachineDeployment
}

// managed returns which other component sets the size of a group; empty: none.
func (s *server) managed(resource string, o, owner *object) string {
	if by, ok := o.Metadata.Annotations[annotationManagedBy]; ok && resource == resourcePools {
		return fmt.Sprintf("MachinePool %s/%s: annotation %s: %q: its size is managed externally; remove the annotation, or those for minimum and maximum size", s.namespace, o.Metadata.Name, annotationManagedBy, by)
	}
	field, label, list := "machineDeployments", labelTopologyDeployment, owner.Spec.Topology.Workers.MachineDeployments
	if resource == resourcePools {
		field, label, list = "machinePools", labelTopologyPool, owner.Spec.Topology.Workers.MachinePools
	}
	name := o.Metadata.Labels[label]
	i := slices.IndexFunc(list, func(g topologyGroup) bool { return g.Name == name && g.Replicas != nil })
	if name == "" || i < 0 {
		return ""
	}
	return fmt.Sprintf("Cluster %s/%s: spec.topology.workers.%s[%d].replicas: %d: the ClusterClass would undo each change of %s %s; remove the field", s.namespace, s.name, field, i, *list[i].Replicas, kindOf(resource), o.Metadata.Name)
}

// paused returns why an object is left alone; empty: it is not.
func (s *server) paused(resource string, o, owner *object) string {
	object := kindOf(resource) + " " + s.namespace + "/" + o.Metadata.Name
	_, annotated := o.Metadata.Annotations[annotationPaused]
	_, all := owner.Metadata.Annotations[annotationPaused]
	switch {
	case o.Metadata.DeletionTimestamp != nil:
		return object + " is being deleted"
	case o.Spec.Paused:
		return object + ": spec.paused: true; set it to false"
	case annotated:
		return object + ": annotation " + annotationPaused + "; remove it"
	case owner.Spec.Paused:
		return "Cluster " + s.namespace + "/" + s.name + ": spec.paused: true; set it to false"
	case all:
		return "Cluster " + s.namespace + "/" + s.name + ": annotation " + annotationPaused + "; remove it"
	}
	return ""
}

// blocked returns why Cluster API creates no Machines for an object, such as a template that does not exist; empty: it creates them.
func (s *server) blocked(resource string, o *object) string {
	i := slices.IndexFunc(o.Status.Conditions, func(c condition) bool {
		return c.Type == conditionScalingUp && strings.Contains(c.Message, "blocked because")
	})
	if i < 0 {
		return ""
	}
	text := strings.Join(strings.Fields(o.Status.Conditions[i].Message), " ")
	out := fmt.Sprintf("%s %s/%s: condition %s: %s", kindOf(resource), s.namespace, o.Metadata.Name, conditionScalingUp, text)
	spec := &o.Spec.Template.Spec
	for _, x := range []struct {
		field string
		ref   reference
	}{{"bootstrap.configRef", spec.Bootstrap.ConfigRef}, {"infrastructureRef", spec.InfrastructureRef}} {
		if x.ref.Kind != "" && strings.Contains(text, x.ref.Kind+" ") {
			out += fmt.Sprintf("; spec.template.spec.%s: create %s %s/%s, or name one that exists", x.field, x.ref.Kind, s.namespace, x.ref.Name)
		}
	}
	return out
}

// isRollingOut reports whether Machines of an object are being replaced. MachinePools do not say.
func isRollingOut(o *object) bool {
	if n := o.Status.UpdatedReplicas; n != nil {
		return *n < o.Status.Replicas
	}
	return slices.ContainsFunc(o.Status.Conditions, func(c condition) bool {
		return c.Type == conditionRollingOut && c.Status == metav1.ConditionTrue && !isVersionOnly(c.Message)
	})
}

// isVersionOnly reports whether the message of a condition RollingOut has one reason alone: that kubelets tell another version than the template, which
// may have none, or one without the suffix that a distribution adds. Cluster API replaces no Machine for that, and the condition stays True.
func isVersionOnly(message string) bool {
	reasons := strings.Split(message, "\n")[1:] // after how many replicas
	return len(reasons) > 0 && !slices.ContainsFunc(reasons, func(r string) bool {
		return !strings.HasPrefix(r, "* Node.status.nodeInfo.kubeletVersion ")
	})
}

// find returns the object of a group, and its resource.
func (s *server) find(ctx context.Context, group string) (*object, string, error) {
	s.mu.Lock()
	seen := s.seen[group]
	s.mu.Unlock()
	if seen.resource != "" {
		o, err := s.get(ctx, seen.resource, group)
		return o, seen.resource, err
	}
	var err error
	for _, resource := range []string{resourceDeployments, resourceSets, resourcePools} {
		var o *object
		if o, err = s.get(ctx, resource, group); !apierrors.IsNotFound(err) {
			return o, resource, err
		}
	}
	return nil, "", err
}

// Target implements nodegroups.Server.
func (s *server) Target(ctx context.Context, group string) (int64, error) {
	o, _, err := s.find(ctx, group)
	if err != nil {
		return 0, err
	}
	return o.replicas(), nil
}

// machinesOf returns the Machines of a group.
func (s *server) machinesOf(ctx context.Context, resource string, o *object) ([]object, error) {
	selector := labelCluster + "=" + s.name
	if resource == resourceDeployments {
		selector += "," + labelDeployment + "=" + o.Metadata.Name
	}
	list, err := s.list(ctx, resourceMachines, selector)
	if resource != resourceDeployments {
		list = slices.DeleteFunc(list, func(m object) bool { owner := m.controller(); return owner == nil || owner.UID != o.Metadata.UID })
	}
	return list, err
}

// Members implements nodegroups.Server.
func (s *server) Members(ctx context.Context, group string) ([]nodegroups.Member, error) {
	o, resource, err := s.find(ctx, group)
	if err != nil {
		return nil, err
	}
	machines, err := s.machinesOf(ctx, resource, o)
	if err != nil {
		return nil, err
	}
	return s.membersOf(o, machines), nil
}

// AllMembers implements nodegroups.AllMembers, with three requests for any number of groups.
func (s *server) AllMembers(ctx context.Context) (map[string][]nodegroups.Member, error) {
	groups, err := s.listGroups(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := s.machinesByGroup(ctx, groups)
	if err != nil {
		return nil, err
	}
	out, overdue := make(map[string][]nodegroups.Member, len(groups)), map[string]string{}
	for name, g := range groups {
		out[name] = s.membersOf(g.object, machines[name])
		if late := s.notJoined(machines[name]); late != "" && isRollingOut(g.object) {
			overdue[name] = late
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overdue = overdue
	return out, nil
}

// joinTime is how long a Machine of a rollout may have no node before nothing more is launched in its group: the others that the rollout makes most likely
// don't join either.
const joinTime = 15 * time.Minute

// notJoined returns the first Machine by name that has had no node for joinTime; empty: there is none. One that has failed is seen by its phase.
func (s *server) notJoined(machines []object) (name string) {
	now := s.clock.Now()
	for i := range machines {
		m := &machines[i]
		if m.Status.NodeRef.Name == "" && m.Metadata.DeletionTimestamp == nil && !m.isFailed() && now.Sub(m.Metadata.CreationTimestamp.Time) >= joinTime && (name == "" || m.Metadata.Name < name) {
			name = m.Metadata.Name
		}
	}
	return name
}

// machinesByGroup returns the Machines of all groups, by the name of the group.
func (s *server) machinesByGroup(ctx context.Context, groups map[string]seenGroup) (map[string][]object, error) {
	list, err := s.list(ctx, resourceMachines, labelCluster+"="+s.name)
	if err != nil {
		return nil, err
	}
	machines := map[string][]object{}
	for _, m := range list {
		name := m.Metadata.Labels[labelDeployment]
		if g := groups[name]; g.resource != resourceDeployments {
			owner := m.controller()
			if owner == nil {
				continue
			}
			if name = owner.Name; groups[name].object == nil || groups[name].object.Metadata.UID != owner.UID {
				continue
			}
		}
		machines[name] = append(machines[name], m)
	}
	return machines, nil
}

// membersOf describes the Machines of a group. One that the group's size does not count any more is on its way out.
func (s *server) membersOf(o *object, machines []object) (out []nodegroups.Member) {
	for i := range machines {
		m := &machines[i]
		one := nodegroups.Member{ID: s.idOf(m), Created: m.Metadata.CreationTimestamp.Time, Deleting: m.Metadata.DeletionTimestamp != nil || m.isRemoved(o)}
		one.Stuck = one.Deleting && m.Metadata.DeletionTimestamp == nil && isStuck(o, len(machines))
		if m.isFailed() {
			one.Code, one.Message = phaseFailed, m.failure()
		}
		one.Running = m.Spec.ProviderID != "" && !one.Deleting && (one.Code == "" || m.Status.NodeRef.Name != "")
		out = append(out, one)
	}
	return out
}

// idOf returns the id of a Machine: the provider id of its node, or a placeholder.
func (s *server) idOf(m *object) string {
	switch {
	case m.Spec.ProviderID != "":
		return m.Spec.ProviderID
	case m.isFailed():
		return placeholderFailed + s.namespace + "/" + m.Metadata.Name
	}
	return placeholderPending + s.namespace + "/" + m.Metadata.Name
}

func (o *object) isFailed() bool {
	return o.Status.Phase == phaseFailed || o.Status.FailureReason != "" || o.Status.Deprecated.V1Beta1.FailureReason != ""
}

// failure returns why a Machine has failed, for people.
func (o *object) failure() string {
	for _, text := range []string{o.Status.FailureMessage, o.Status.Deprecated.V1Beta1.FailureMessage, o.Status.FailureReason, o.Status.Deprecated.V1Beta1.FailureReason} {
		if text != "" {
			return text
		}
	}
	return "status.phase is Failed"
}

// removedOf returns the uids of the Machines that a group's size does not count any more.
func removedOf(o *object) []string {
	if text := o.Metadata.Annotations[annotationRemoved]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}
