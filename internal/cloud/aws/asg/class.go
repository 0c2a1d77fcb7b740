// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"encoding/json"
	"fmt"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// nodeClass is a NodeGroupClass as its owner wrote it.
type nodeClass struct {
	name, uid, generationKey string // generationKey changes with the class's generation
	created                  time.Time
	spec                     dovetailv1alpha1.NodeGroupClassSpec
}

// Serves reports whether a node class is a NodeGroupClass.
func Serves(c cloud.NodeClass) bool {
	return c.Group == dovetailv1alpha1.Group && c.Kind == dovetailv1alpha1.KindNodeGroupClass
}

// readNodeClass reads a NodeGroupClass for an operation op. An error is NotReady: the spec can't be used.
func readNodeClass(op string, c cloud.NodeClass) (*nodeClass, error) {
	out := &nodeClass{name: c.Name, uid: c.UID, created: c.Created, generationKey: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation)}
	if len(c.Spec) > 0 {
		if err := json.Unmarshal(c.Spec, &out.spec); err != nil {
			return nil, awsapi.NotReadyError(op, c.Name, "NodeGroupClass %s: spec: %w", c.Name, err)
		}
	}
	if len(out.spec.SelectorTerms) == 0 {
		return nil, awsapi.NotReadyError(op, c.Name, "NodeGroupClass %s: spec.selectorTerms: empty; name a group or its tags", c.Name)
	}
	return out, nil
}

// fillsToMinSize reports whether groups of the class that have fewer members than its minSize are filled up to it.
func (c *nodeClass) fillsToMinSize() bool {
	o := c.spec.Options
	return o != nil && o.FillToMinSize != nil && *o.FillToMinSize
}

// defaultProvisionTime is how long AWS has to give a group a machine, where the group's class does not say.
const defaultProvisionTime = 15 * time.Minute

// provisionTime is how long AWS has to give a group of the class a machine.
func (c *nodeClass) provisionTime() time.Duration {
	if o := c.spec.Options; o != nil && o.MaxNodeProvisionTime != nil && o.MaxNodeProvisionTime.Duration > 0 {
		return o.MaxNodeProvisionTime.Duration
	}
	return defaultProvisionTime
}
