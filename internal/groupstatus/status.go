// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package groupstatus

import (
	"fmt"
	"reflect"
	"time"
)

// mostGroups are listed in a status: as many as a ConfigMap has room for.
const mostGroups = 800

// Status is the content of the ConfigMap. Its fields and their YAML and JSON names are Cluster Autoscaler's.
type Status struct {
	Time             string        `json:"time,omitempty"`
	AutoscalerStatus string        `json:"autoscalerStatus,omitempty"`
	Message          string        `json:"message,omitempty"`
	ClusterWide      ClusterWide   `json:"clusterWide"`
	NodeGroups       []GroupStatus `json:"nodeGroups,omitempty"`
}

// ClusterWide is the status of all node groups together.
type ClusterWide struct {
	Health    Health    `json:"health"`
	ScaleUp   ScaleUp   `json:"scaleUp"`
	ScaleDown ScaleDown `json:"scaleDown"`
}

// GroupStatus is the status of a node group.
type GroupStatus struct {
	Name      string      `json:"name"`
	Health    GroupHealth `json:"health"`
	ScaleUp   ScaleUp     `json:"scaleUp"`
	ScaleDown ScaleDown   `json:"scaleDown"`
}

// Times are the times of the last probe and the last transition of a condition, in RFC 3339.
type Times struct {
	LastProbeTime      string `json:"lastProbeTime"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

// Health reports whether nodes can be launched, and counts them.
type Health struct {
	Status     string     `json:"status"`
	NodeCounts NodeCounts `json:"nodeCounts"`
	Times
}

// GroupHealth is the Health of a node group, with its sizes.
type GroupHealth struct {
	Status              string     `json:"status"`
	NodeCounts          NodeCounts `json:"nodeCounts"`
	CloudProviderTarget int64      `json:"cloudProviderTarget"`
	MinSize             int64      `json:"minSize"`
	MaxSize             int64      `json:"maxSize"`
	Times
}

// NodeCounts are the numbers of nodes by state.
type NodeCounts struct {
	Registered       RegisteredNodes `json:"registered"`
	LongUnregistered int             `json:"longUnregistered"`
	Unregistered     int             `json:"unregistered"`
}

// RegisteredNodes are the numbers of nodes in the cluster.
type RegisteredNodes struct {
	Total        int          `json:"total"`
	Ready        int          `json:"ready"`
	NotStarted   int          `json:"notStarted"`
	BeingDeleted int          `json:"beingDeleted,omitempty"`
	Unready      UnreadyNodes `json:"unready"`
}

// UnreadyNodes are the numbers of nodes that are not Ready. Nodes that only lack a resource are not counted separately.
type UnreadyNodes struct {
	Total           int `json:"total"`
	ResourceUnready int `json:"resourceUnready"`
}

// ScaleUp reports whether nodes are being added and, for a group that cannot grow now, why.
type ScaleUp struct {
	Status      string       `json:"status"`
	BackoffInfo *BackoffInfo `json:"backoffInfo,omitempty"`
	Times
}

// BackoffInfo is why a group is in backoff.
type BackoffInfo struct {
	ErrorCode    string `json:"errorCode"`
	ErrorMessage string `json:"errorMessage"`
}

// ScaleDown reports the number of candidates for removal.
type ScaleDown struct {
	Status     string `json:"status"`
	Candidates int    `json:"candidates,omitempty"`
	Times
}

// Values of Status and of its conditions.
const (
	Running           = "Running"
	Healthy           = "Healthy"
	Unhealthy         = "Unhealthy"
	InProgress        = "InProgress"
	NoActivity        = "NoActivity"
	InBackoff         = "Backoff"
	CandidatesPresent = "CandidatesPresent"
	NoCandidates      = "NoCandidates"

	// CodeNoCapacity is the error code of a group that is in backoff for lack of capacity.
	CodeNoCapacity = "InsufficientCapacity"
)

// Build returns the status of a view. It keeps the transition times of unchanged conditions from last, which may be nil.
func Build(v *View, last *Status, now time.Time) *Status {
	if last == nil {
		last = &Status{}
	}
	before := map[string]*GroupStatus{}
	for i := range last.NodeGroups {
		before[last.NodeGroups[i].Name] = &last.NodeGroups[i]
	}
	out := &Status{Time: now.UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"), AutoscalerStatus: Running}
	at := now.UTC().Format(time.RFC3339)
	healthy, growing, candidates := len(v.Groups) == 0, false, 0
	for i := range v.Groups {
		g := &v.Groups[i]
		was := before[g.Name]
		if was == nil {
			was = &GroupStatus{}
		}
		s := groupStatus(g, was, at)
		healthy, growing, candidates = healthy || g.IsHealthy(), growing || s.ScaleUp.Status == InProgress, candidates+g.Candidates
		if i < mostGroups {
			out.NodeGroups = append(out.NodeGroups, s)
		}
	}
	if len(v.Groups) > mostGroups {
		out.Message = fmt.Sprintf("%d of %d node groups are listed (size limit); kubectl get nodegroupclasses -o yaml shows all", mostGroups, len(v.Groups))
	}
	w := &out.ClusterWide
	w.Health = Health{Status: either(healthy, Healthy, Unhealthy), NodeCounts: nodeCounts(v.Nodes)}
	w.Health.Times = since(last.ClusterWide.Health.Status == w.Health.Status, last.ClusterWide.Health.Times, at)
	w.ScaleUp = ScaleUp{Status: either(growing, InProgress, NoActivity)}
	w.ScaleUp.Times = since(last.ClusterWide.ScaleUp.Status == w.ScaleUp.Status, last.ClusterWide.ScaleUp.Times, at)
	w.ScaleDown = scaleDown(candidates, &last.ClusterWide.ScaleDown, at)
	return out
}

func groupStatus(g *Group, was *GroupStatus, at string) GroupStatus {
	s := GroupStatus{Name: g.Name}
	s.Health = GroupHealth{Status: either(g.IsHealthy(), Healthy, Unhealthy), NodeCounts: nodeCounts(g.Nodes), CloudProviderTarget: g.Desired, MinSize: g.Min, MaxSize: g.Max}
	s.Health.Times = since(was.Health.Status == s.Health.Status, was.Health.Times, at)
	switch {
	case g.Nodes.Unregistered > 0:
		s.ScaleUp.Status = InProgress
	case g.FailingCode != "" && g.Problem == "":
		s.ScaleUp.Status = InBackoff
		s.ScaleUp.BackoffInfo = &BackoffInfo{ErrorCode: g.FailingCode, ErrorMessage: g.Failing}
	case !g.IsHealthy():
		s.ScaleUp.Status = Unhealthy
		s.ScaleUp.BackoffInfo = &BackoffInfo{ErrorCode: "GroupNotLaunchable", ErrorMessage: g.Problem}
	case g.Backoff:
		s.ScaleUp.Status = InBackoff
		s.ScaleUp.BackoffInfo = &BackoffInfo{ErrorCode: CodeNoCapacity, ErrorMessage: "no instance type of the group had capacity; retried within 3m"}
	default:
		s.ScaleUp.Status = NoActivity
	}
	s.ScaleUp.Times = since(was.ScaleUp.Status == s.ScaleUp.Status, was.ScaleUp.Times, at)
	s.ScaleDown = scaleDown(g.Candidates, &was.ScaleDown, at)
	return s
}

func nodeCounts(c Counts) NodeCounts {
	return NodeCounts{
		Registered:       RegisteredNodes{Total: c.Registered(), Ready: c.Ready, NotStarted: c.NotStarted, BeingDeleted: c.BeingDeleted, Unready: UnreadyNodes{Total: c.Unready}},
		LongUnregistered: c.LongUnregistered, Unregistered: c.Unregistered,
	}
}

func scaleDown(candidates int, was *ScaleDown, at string) ScaleDown {
	s := ScaleDown{Status: either(candidates > 0, CandidatesPresent, NoCandidates), Candidates: candidates}
	s.Times = since(was.Status == s.Status, was.Times, at)
	return s
}

// since are the times of a condition that is as it was, or has changed now.
func since(same bool, was Times, at string) Times {
	if same {
		return Times{LastProbeTime: at, LastTransitionTime: was.LastTransitionTime}
	}
	return Times{LastProbeTime: at, LastTransitionTime: at}
}

func either(yes bool, is, isNot string) string {
	if yes {
		return is
	}
	return isNot
}

// SaysSame reports whether two statuses are equal except for their timestamps.
func SaysSame(a, b *Status) bool {
	return reflect.DeepEqual(a.withoutProbes(), b.withoutProbes())
}

// withoutProbes is a copy that does not say when it was made.
func (s *Status) withoutProbes() *Status {
	out := *s
	out.Time = ""
	for _, t := range []*Times{&out.ClusterWide.Health.Times, &out.ClusterWide.ScaleUp.Times, &out.ClusterWide.ScaleDown.Times} {
		t.LastProbeTime = ""
	}
	out.NodeGroups = make([]GroupStatus, len(s.NodeGroups))
	copy(out.NodeGroups, s.NodeGroups)
	for i := range out.NodeGroups {
		g := &out.NodeGroups[i]
		for _, t := range []*Times{&g.Health.Times, &g.ScaleUp.Times, &g.ScaleDown.Times} {
			t.LastProbeTime = ""
		}
	}
	return &out
}
