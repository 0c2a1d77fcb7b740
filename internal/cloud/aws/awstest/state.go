// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// template is a launch template; its versions never change.
type template struct {
	ID, Name string
	Created  time.Time
	Token    string `json:",omitempty"`
	Digest   string `json:",omitempty"` // of the request that made it, for Token
	Tags     map[string]string
	Versions []templateVersion // Versions[i] is number i+1, the last one the default
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

// instance is what EC2 knows of a machine beside what cloud/machines has.
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
	Preference  string   `json:",omitempty"` // for capacity reservations, as the launch template has it
	Targeted    string   `json:",omitempty"` // the reservation that the launch template names
	HopLimit    *int64   `json:",omitempty"`
	Tags        map[string]string
	Runs        time.Time // when it is no longer pending
	Group       string    `json:",omitempty"` // Auto Scaling group
	Protected   bool      `json:",omitempty"` // from the group's scale-in
	Reboots     int       `json:",omitempty"` // that were asked for
	Goes        time.Time `json:",omitzero"`  // an interruption takes it then
	Reason      string    `json:",omitempty"` // why it was ended, by whom
	NeverJoins  string    `json:",omitempty"` // what keeps its kubelet from joining
	Event       string    `json:",omitempty"` // code of a scheduled event
	Impaired    time.Time `json:",omitzero"`  // since when its status checks fail
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

// digest tells two requests apart.
func digest(request any) string {
	raw, err := json.Marshal(request)
	if err != nil {
		panic(err) // plain data
	}
	return fmt.Sprintf("%x", hash(string(raw)))
}

// checkTags refuses tags that AWS keeps for itself.
func checkTags(tags []shapes.EC2Tag) error {
	for _, t := range tags {
		if len(t.Key) > 3 && t.Key[:4] == "aws:" {
			return wire.Refuse("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use: %s", t.Key)
		}
		if t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256 {
			return wire.Refuse("InvalidParameterValue", "Tag %q=%q: a key has 1 to 128 characters, a value at most 256", t.Key, t.Value)
		}
	}
	if len(tags) > 50 {
		return wire.Refuse("TagLimitExceeded", "The maximum number of tags for a resource is 50; the request has %d", len(tags))
	}
	return nil
}

// specified are the tags that a request gives to resources of a type.
func specified(specs []shapes.EC2TagSpecification, resource string) ([]shapes.EC2Tag, error) {
	var out []shapes.EC2Tag
	for _, s := range specs {
		if err := checkTags(s.Tags); err != nil {
			return nil, err
		}
		if s.ResourceType == resource {
			out = append(out, s.Tags...)
		}
	}
	return out, nil
}

// createTags also serves the empty tag update of what doesn't exist: InvalidID.
func (t *tx) createTags(in *shapes.EC2CreateTagsRequest) (*wire.None, error) {
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	return t.retag(in.Resources, in.DryRun, func(tags map[string]string) { maps.Copy(tags, tagMap(in.Tags)) })
}

func (t *tx) deleteTags(in *shapes.EC2DeleteTagsRequest) (*wire.None, error) {
	return t.retag(in.Resources, in.DryRun, func(tags map[string]string) {
		for _, tag := range in.Tags {
			delete(tags, tag.Key)
		}
	})
}

// retag changes the tags of instances and launch templates, of all or of none.
func (t *tx) retag(resources []string, dry *bool, do func(map[string]string)) (*wire.None, error) {
	for _, id := range resources {
		if in := t.instances.items[id]; in != nil && t.visible(in) {
			continue
		}
		if t.templates.items[id] == nil {
			return nil, wire.Refuse("InvalidInstanceID.NotFound", "The ID '%s' does not exist", id)
		}
	}
	if err := dryRun(dry); err != nil {
		return nil, err
	}
	changed := func(tags map[string]string) map[string]string {
		tags = maps.Clone(tags)
		if tags == nil {
			tags = map[string]string{}
		}
		do(tags)
		return tags
	}
	for _, id := range resources {
		if in := t.instances.items[id]; in != nil {
			is := *in
			is.Tags = changed(in.Tags)
			t.instances.put(t, id, is)
		} else {
			is := *t.templates.items[id]
			is.Tags = changed(is.Tags)
			t.templates.put(t, id, is)
		}
	}
	return &wire.None{}, nil
}

// machine is an instance's machine.
func (t *tx) machine(in *instance) *machines.Instance { return t.m.Instance(in.ID) }

// gone reports whether an instance is on its way out, or ended.
func gone(m *machines.Instance) bool {
	return m.State == machines.ShuttingDown || m.State == machines.Terminated
}

// alive are the instances that run or boot, by id.
func (t *tx) alive() []*instance {
	return slices.DeleteFunc(t.instances.sorted(), func(in *instance) bool { return gone(t.machine(in)) })
}
