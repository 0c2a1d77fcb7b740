// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
)

// template is a launch template; its versions never change.
type template struct {
	ID, Name string
	Created  time.Time
	Token    string `json:",omitempty"`
	Digest   string `json:",omitempty"` // digest of the request that created it, for Token
	Tags     map[string]string
	Versions []templateVersion // Versions[i] has number i+1; the last one is the default
}

type templateVersion struct {
	Description string
	Created     time.Time
	Data        shapes.EC2RequestLaunchTemplateData
}

// fleet is a CreateFleet that was answered: asked again with its token, the answer is the same.
type fleet struct {
	Digest  string
	Created time.Time
	Answer  shapes.EC2CreateFleetResult
}

// instance is the state of an instance in EC2 that package machines does not have.
type instance struct {
	ID          string
	Reservation string
	Fleet       string `json:",omitempty"`
	Token       string `json:",omitempty"`
	Template    string
	Version     int
	Image       string
	Subnet      string
	IP          string
	Groups      []string
	Volumes     []volume `json:",omitempty"`
	PublicIP    string   `json:",omitempty"`
	Profile     string   `json:",omitempty"`
	SpotRequest string   `json:",omitempty"`
	Reserved    string   `json:",omitempty"` // capacity reservation
	Preference  string   `json:",omitempty"` // capacity reservation preference of the launch template
	Targeted    string   `json:",omitempty"` // capacity reservation named by the launch template
	HopLimit    *int64   `json:",omitempty"`
	Tags        map[string]string
	Runs        time.Time // when it is no longer pending
	Group       string    `json:",omitempty"` // Auto Scaling group
	Protected   bool      `json:",omitempty"` // scale-in protection
	Reboots     int       `json:",omitempty"` // number of requested reboots
	Goes        time.Time `json:",omitzero"`  // when it is interrupted
	Reason      string    `json:",omitempty"` // state transition reason
	NeverJoins  string    `json:",omitempty"` // why its kubelet does not join
	Event       string    `json:",omitempty"` // code of a scheduled event
	Impaired    time.Time `json:",omitzero"`  // start of failed status checks
}

// profile is an instance profile.
type profile struct {
	Name, ID, Path string
	Role           string
	Created        time.Time
	Tags           map[string]string
}

// price is a spot price that has moved.
type price struct {
	Micro int64
	At    time.Time
}

// reservation is a capacity reservation.
type reservation struct {
	ID, InstanceType, Zone string
	Count                  int
	Criteria               string // open or targeted
	Type                   string // default or capacity-block
	Created, End           time.Time
	Cancelled              bool
	Tags                   map[string]string
}

// group is a group as it is kept.
type group struct {
	Group
	Created time.Time
}

// activity is something that a group did, or tried.
type activity struct {
	ID, Group, Description, Cause, Status, Message string
	Start, End                                     time.Time
}

// image is a machine image, and the SSM parameters that name it. Of images with the same parameter the newest is meant.
type image struct {
	ID, Name   string
	Arch       string // x86_64 or arm64
	Family     string // format of its user data: al2, al2023, bottlerocket or custom
	Owner      string
	Alias      string // alias of the owner: amazon, or empty
	Created    time.Time
	Deprecated time.Time `json:",omitzero"`
	Parameters []string
	Tags       map[string]string
}

// message is one in the interruption queue.
type message struct {
	ID   string
	Body string
	Sent time.Time
}

// volume is a volume of an instance, made with it and deleted with it.
type volume struct {
	Device           string
	SizeGB           int64
	Type             string
	IOPS, Throughput *int64            `json:",omitempty"`
	Encrypted        bool              `json:",omitempty"`
	Key, Snapshot    string            `json:",omitempty"`
	Tags             map[string]string `json:",omitempty"`
}

// toldState is the state of an instance that the queue was last told of, empty before the first. One that has ended and was told of has none.
type toldState struct{ ID, State string }
