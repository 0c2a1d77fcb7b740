// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
)

// nodeClass is a NodeGroupClass as its owner wrote it.
type nodeClass struct {
	name, uid, generationKey string // generationKey changes with the class's generation
	created                  time.Time
	spec                     dovetailv1alpha1.NodeGroupClassSpec
	discovered               bool // it was made for groups that were found, and its options from their tags
}

// Serves reports whether a node class is a NodeGroupClass.
func Serves(c cloud.NodeClass) bool {
	return c.Group == dovetailv1alpha1.Group && c.Kind == dovetailv1alpha1.KindNodeGroupClass
}

// readNodeClass reads a NodeGroupClass for an operation op. An error is NotReady: the spec can't be used.
func readNodeClass(op string, c cloud.NodeClass) (*nodeClass, error) {
	out := &nodeClass{name: c.Name, uid: c.UID, created: c.Created, generationKey: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation), discovered: c.Annotations[dovetailv1alpha1.AnnotationGroups] != ""}
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

// defaultProvisionTime is the maximum time until AWS launches a machine of a group, if the class does not set it.
const defaultProvisionTime = 15 * time.Minute

// provisionTime is how long AWS has to give a group of the class a machine.
func (c *nodeClass) provisionTime() time.Duration {
	if o := c.spec.Options; o != nil && o.MaxNodeProvisionTime != nil && o.MaxNodeProvisionTime.Duration > 0 {
		return o.MaxNodeProvisionTime.Duration
	}
	return defaultProvisionTime
}

// adoptAfter is how long a member that is nobody's is left alone: a claim that is open, after a restart, say, may
// want it.
const adoptAfter = 30 * time.Second

// Provider launches machines through Auto Scaling groups, for node classes of kind NodeGroupClass.
type Provider struct {
	aws       *awsapi.Account
	catalogue *catalogue.Store
	types     *offering.TypeBuilder
	instances *instances.Index
	registry  *Registry
	reader    *reader
	scaler    *scaler
	offerings *offering.Cache // by class and the taints of the pool
	launches  *launch.Registry[claimLaunch]
	quotas    *quota.Tracker
}

// reader asks AWS for Auto Scaling groups and what they are made of, and changes nothing.
type reader struct {
	aws           *awsapi.Account
	registry      *Registry                                        // for calls that are not permitted
	descriptions  *awsapi.Cache[description]                       // by selector term
	templates     *awsapi.Cache[*types.ResponseLaunchTemplateData] // by id, or name, and version
	managed       *awsapi.Cache[*managedGroup]                     // by cluster and managed node group
	refreshes     *awsapi.Cache[string]                            // by group
	memberships   *awsapi.Cache[map[string]bool]                   // by group: see memberIDs
	architectures *awsapi.Cache[types.ArchitectureType]            // by image id
	types         *awsapi.Cache[[]string]                          // by architecture and instance requirements

	groups  *awsapi.Batcher[string, groupAnswer]   // by name
	members *awsapi.Batcher[string, membersAnswer] // by group
}

// scaler has Auto Scaling groups grow and shrink: it counts what each should have, hands its members to claims, and
// gives them back.
type scaler struct {
	aws       *awsapi.Account
	reader    *reader
	instances *instances.Index
	registry  *Registry
	started   time.Time // when this process began
}

// description is what AWS said of the groups of one selector term, and when it was asked.
type description struct {
	groups []*group
	at     time.Time
}

// claimOutcome is the result of reconciling a group for one claim. The zero value means that a machine is expected.
type claimOutcome struct {
	member     *instances.Instance
	group      string
	full       bool // the group has as many as it may
	noCapacity bool // AWS had none
	err        error
}
