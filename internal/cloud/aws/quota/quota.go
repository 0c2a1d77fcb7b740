// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package quota records which EC2 quotas of the account are exhausted, based on EC2's and Auto Scaling's responses to
// launches, because the controller has no permission to call Service Quotas. EC2 counts vCPUs per instance family
// group, separately for on-demand and spot, over all zones. The package makes no calls. Start reading at Tracker.
package quota

import (
	"cmp"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// EC2 error codes for an exhausted quota, and for an account that cannot use spot yet.
const (
	codeVCPUs     = "VcpuLimitExceeded"
	codeSpot      = "MaxSpotInstanceCountExceeded"
	codeInstances = "InstanceLimitExceeded"
	codeSpotRole  = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
)

// key names a quota: what an account may have of a capacity type.
type key struct{ capacityType, family string }

// allFamilies is the family of what holds for every type.
const allFamilies = ""

// reached says that less than so many virtual CPUs are left of a quota, zero: none at all, and for how long that is
// believed.
type reached struct {
	cpus  int64
	until time.Time
	text  string
}

// Tracker stores exhausted quotas. It is safe for concurrent use.
type Tracker struct {
	clock cloud.Clock
	mu    sync.Mutex
	known map[key]reached
}

// NewTracker returns an empty Tracker.
func NewTracker(clock cloud.Clock) *Tracker { return &Tracker{clock: clock, known: map[key]reached{}} }

// Covers reports whether an EC2 error code means that a quota is exhausted in all zones, and whether for all instance
// families.
func Covers(code string) (wide, all bool) {
	switch code {
	case codeSpot, codeVCPUs, codeInstances:
		return true, false
	case codeSpotRole:
		return true, true
	}
	return false, false
}

// CodeIn returns the error code of the exhausted quota in a message without a code, such as that of a scaling activity;
// empty: the message is about something else.
func CodeIn(message string) string {
	low := strings.ToLower(message)
	switch {
	case strings.Contains(low, "vcpu limit"), strings.Contains(message, codeVCPUs):
		return codeVCPUs
	case strings.Contains(low, "max spot instance count exceeded"), strings.Contains(message, codeSpot):
		return codeSpot
	case strings.Contains(low, "current instance limit"), strings.Contains(message, codeInstances):
		return codeInstances
	}
	return ""
}

// NameIn returns the name of the exhausted quota in a message and its size, if known. The name is that of Service Quotas
// in messages of Dovetail, otherwise a description; empty: the message is about something else. Messages of other
// autoscalers quote EC2's.
func NameIn(message string) (name, size string) {
	if m := saidName.FindStringSubmatch(message); m != nil {
		return m[1], m[2]
	}
	code := CodeIn(message)
	names := map[string]string{codeVCPUs: "vCPUs of On-Demand instances", codeSpot: "Spot Instance Requests", codeInstances: "On-Demand instances of the type"}
	return names[code], sizeIn(code, message)
}

// sizeIn is the size of a quota where EC2's message tells it.
func sizeIn(code, message string) string {
	m := saidLimit.FindStringSubmatch(message)
	switch {
	case m == nil:
		return ""
	case code == codeVCPUs:
		return m[1] + " vCPUs"
	}
	return m[1]
}

// familyOf is the group of families that share a quota, for a type's name.
func familyOf(name string) string {
	letters := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' })
	if letters < 0 {
		return name
	}
	switch l := name[:letters]; l {
	case "inf", "trn", "dl", "hpc", "f", "p", "x", "u":
		return l
	case "g", "gr", "vt":
		return "g"
	}
	return "standard" // A, C, D, H, I, M, R, T, Z
}

// onDemandNames and spotNames are the names of the quotas of instance families in Service Quotas.
var (
	onDemandNames = map[string]string{
		"standard": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "g": "Running On-Demand G and VT instances",
		"inf": "Running On-Demand Inf instances", "trn": "Running On-Demand Trn instances", "dl": "Running On-Demand DL instances",
		"hpc": "Running On-Demand HPC instances", "f": "Running On-Demand F instances", "p": "Running On-Demand P instances",
		"x": "Running On-Demand X instances", "u": "Running On-Demand High Memory instances",
	}
	spotNames = map[string]string{
		"standard": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "g": "All G and VT Spot Instance Requests",
		"inf": "All Inf Spot Instance Requests", "trn": "All Trn Spot Instance Requests", "dl": "All DL Spot Instance Requests",
		"f": "All F Spot Instance Requests", "p": "All P Spot Instance Requests", "x": "All X Spot Instance Requests",
	}
	saidLimit = regexp.MustCompile(`limit of (\d+)`)
	saidName  = regexp.MustCompile(regexp.QuoteMeta(prefix) + `(.+?)(?:, (\d+(?: vCPUs)?))? \((?:` + strings.Join([]string{codeVCPUs, codeSpot, codeInstances}, "|") + `)\)`)
)

// prefix is the prefix of messages about an exhausted quota.
const prefix = "EC2 quota reached: "

// describe says which quota is reached and what to do. message is EC2's, which may tell the quota's size.
func describe(of key, code, message string) string {
	if code == codeSpotRole {
		return "the account may not use spot yet (" + code + "): aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
	}
	names := onDemandNames
	if of.capacityType == model.Spot {
		names = spotNames
	}
	name := cmp.Or(names[of.family], of.capacityType+" instances of family "+of.family)
	if size := sizeIn(code, message); size != "" {
		name += ", " + size
	}
	return prefix + name + " (" + code + "); request an increase in Service Quotas"
}

// Note records that a launch failed because a quota is exhausted. cpus is the vCPU count of instanceType. It returns a
// message that names the quota and the remedy.
func (t *Tracker) Note(code, message, capacityType, instanceType string, cpus int64) string {
	of := key{capacityType, familyOf(instanceType)}
	if _, all := Covers(code); all {
		of.family, cpus = allFamilies, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	if have, ok := t.known[of]; ok && now.Before(have.until) {
		cpus = min(cpus, have.cpus)
	}
	text := describe(of, code, message)
	t.known[of] = reached{cpus, now.Add(cloud.SetAsideFor), text}
	return text
}

// Find returns the exhausted quota that prevents the launch of an instance of a type with this number of vCPUs, with the
// remedy; empty: none is known, or the remainder may suffice for this size.
func (t *Tracker) Find(capacityType, instanceType string, cpus int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	for _, f := range [...]string{allFamilies, familyOf(instanceType)} {
		if q, known := t.known[key{capacityType, f}]; known && now.Before(q.until) && cpus >= q.cpus {
			return q.text
		}
	}
	return ""
}

// IsEmpty reports whether no exhausted quota is known.
func (t *Tracker) IsEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known) == 0
}
