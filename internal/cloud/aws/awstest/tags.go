// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"maps"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

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
