// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"encoding/json"
	"fmt"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// nodeGroupClass is a NodeGroupClass, read.
type nodeGroupClass struct {
	name, generationKey string // generationKey changes with the class's generation
	spec                dovetailv1alpha1.NodeGroupClassSpec
}

func isNodeGroupClass(c cloud.NodeClass) bool {
	return c.Group == dovetailv1alpha1.Group && c.Kind == dovetailv1alpha1.KindNodeGroupClass
}

func readNodeGroupClass(op string, c cloud.NodeClass) (*nodeGroupClass, error) {
	out := &nodeGroupClass{name: c.Name, generationKey: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation)}
	if len(c.Spec) > 0 {
		if err := json.Unmarshal(c.Spec, &out.spec); err != nil {
			return nil, notReadyError(op, c.Name, "NodeGroupClass %s: spec: %w", c.Name, err)
		}
	}
	if len(out.spec.SelectorTerms) == 0 {
		return nil, notReadyError(op, c.Name, "NodeGroupClass %s: spec.selectorTerms: empty; name a group or its tags", c.Name)
	}
	return out, nil
}

// defaultProvisionTime is how long AWS has to give a group a machine, where the group's class does not say.
const defaultProvisionTime = 15 * time.Minute

func (c *nodeGroupClass) provisionTime() time.Duration {
	if o := c.spec.Options; o != nil && o.MaxNodeProvisionTime != nil && o.MaxNodeProvisionTime.Duration > 0 {
		return o.MaxNodeProvisionTime.Duration
	}
	return defaultProvisionTime
}
