// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// endedClasses is which classes have been ended, so that a call that began before makes nothing for one afterwards.
type endedClasses struct {
	mu     sync.Mutex
	making map[string]int // by class uid: how many calls are making something for it
	ended  map[string]bool
}

// beginMaking says whether something may be made for a class; if so, endMaking is to be called when that is done.
func (o *endedClasses) beginMaking(uid string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended[uid] {
		return false
	}
	if o.making == nil {
		o.making = map[string]int{}
	}
	o.making[uid]++
	return true
}

func (o *endedClasses) endMaking(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.making[uid]--; o.making[uid] == 0 {
		delete(o.making, uid)
	}
}

// markEnded says that nothing is to be made for a class any more, and whether nothing is being made.
func (o *endedClasses) markEnded(uid string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended == nil {
		o.ended = map[string]bool{}
	}
	o.ended[uid] = true
	return o.making[uid] == 0
}

// EndsClasses implements cloud.ClassEnder: an EC2NodeClass has an instance profile, if it has a role, and launch templates.
func (p *Provider) EndsClasses(group, kind string) bool {
	return group == awsv1.Group && kind == awsv1.KindEC2NodeClass
}

// EndClass implements cloud.ClassEnder.
func (p *Provider) EndClass(ctx context.Context, nc cloud.NodeClass) error {
	const op = "end"
	if !p.EndsClasses(nc.Group, nc.Kind) {
		return nil
	}
	if !p.endedClasses.markEnded(nc.UID) {
		return &cloud.Error{Kind: cloud.Throttled, Op: op, Object: nc.Name, After: time.Second, Err: errors.New("its instance profile is being made")}
	}
	c := &nodeClass{name: nc.Name, uid: nc.UID}
	_ = json.Unmarshal(nc.Spec, &c.spec) // one that can't be read ends, too
	err := p.deleteProfile(ctx, c)
	if e := p.deleteTemplates(ctx, c); err == nil {
		err = e // else told the next time
	}
	return classifyError(ctx, op, c.name, err)
}

// deleteProfile deletes the instance profile that was made for a class: it bears the class's name and the cluster's among its tags. One that a
// person named is theirs.
func (p *Provider) deleteProfile(ctx context.Context, c *nodeClass) error {
	name := p.profileName(c)
	if deref(c.spec.InstanceProfile) == name {
		return nil
	}
	defer p.profileCache.forget(c.uid + " " + c.spec.Role)
	res, err := p.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch code := errorCode(err); {
	case code == "NoSuchEntity":
		return nil
	case isDenied(code) && c.spec.InstanceProfile != nil:
		return nil // a class that names its own has none of ours, so nobody had to allow the call
	case err != nil:
		return explainDenied("instance profile "+name, err)
	}
	if !p.bearsClassTags(c, res.InstanceProfile.Tags) {
		p.log.Warn("an instance profile bears the name of one that would be made for a node class, but not its tags: left as it is", "instanceProfile", name, "nodeClass", c.name)
		return nil
	}
	for _, r := range res.InstanceProfile.Roles {
		_, err := p.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
		if err != nil && errorCode(err) != "NoSuchEntity" {
			return explainDenied("instance profile "+name, err)
		}
	}
	_, err = p.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && errorCode(err) != "NoSuchEntity" {
		return explainDenied("instance profile "+name, err)
	}
	return nil
}

// bearsClassTags says whether something with these tags was made for the class by this cluster's autoscaler.
func (p *Provider) bearsClassTags(c *nodeClass, tags []iamtypes.Tag) bool {
	have := map[string]string{}
	for _, t := range tags {
		have[deref(t.Key)] = deref(t.Value)
	}
	return have["kubernetes.io/cluster/"+p.config.ClusterName] == "owned" && have[awsv1.LabelNodeClass] == c.name
}

// deleteTemplates deletes our launch templates of a class.
func (p *Provider) deleteTemplates(ctx context.Context, c *nodeClass) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(p.ec2, &ec2.DescribeLaunchTemplatesInput{
		Filters: []types.Filter{newFilter("tag:"+awsv1.TagClusterName, p.config.ClusterName), newFilter("tag:"+awsv1.LabelNodeClass, c.name)},
	})
	var failure error
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explainDenied("launch templates", err)
		}
		for _, t := range page.LaunchTemplates {
			name := deref(t.LaunchTemplateName)
			if !strings.HasPrefix(name, templatePrefix) {
				continue // another autoscaler's, which deletes its own
			}
			if _, err := p.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId}); err != nil && !isTemplateNotFound(errorCode(err)) {
				if failure == nil {
					failure = explainDenied("launch template "+name, err) // the others are deleted all the same
				}
				continue
			}
			p.templateCache.forget(name)
		}
	}
	return failure
}

// explainDenied says what has to be mended where a call is not allowed.
func explainDenied(what string, err error) error {
	if isDenied(errorCode(err)) {
		return &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("%s: %w; allow the call in the controller's IAM policy", what, readableError(err))}
	}
	return err
}
