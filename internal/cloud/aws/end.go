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

// over is which classes have been ended, so that a call that began before makes nothing for one afterwards.
type over struct {
	mu     sync.Mutex
	making map[string]int // by class uid: how many calls are making something for it
	ended  map[string]bool
}

// enter says whether something may be made for a class; if so, leave says when that is done.
func (o *over) enter(uid string) bool {
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

func (o *over) leave(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.making[uid]--; o.making[uid] == 0 {
		delete(o.making, uid)
	}
}

// end says that nothing is to be made for a class any more, and whether nothing is being made.
func (o *over) end(uid string) bool {
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
	if !p.over.end(nc.UID) {
		return &cloud.Error{Kind: cloud.Throttled, Op: op, Object: nc.Name, After: time.Second, Err: errors.New("its instance profile is being made")}
	}
	c := &class{name: nc.Name, uid: nc.UID}
	_ = json.Unmarshal(nc.Spec, &c.spec) // one that can't be read ends, too
	err := p.endProfile(ctx, c)
	if e := p.endTemplates(ctx, c); err == nil {
		err = e // else told the next time
	}
	return failed(ctx, op, c.name, err)
}

// endProfile deletes the instance profile that was made for a class: it bears the class's name and the cluster's among its tags. One that a
// person named is theirs.
func (p *Provider) endProfile(ctx context.Context, c *class) error {
	name := p.profileName(c)
	if deref(c.spec.InstanceProfile) == name {
		return nil
	}
	defer p.profiles.forget(c.uid + " " + c.spec.Role)
	res, err := p.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch code := codeOf(err); {
	case code == "NoSuchEntity":
		return nil
	case denied(code) && c.spec.InstanceProfile != nil:
		return nil // a class that names its own has none of ours, so nobody had to allow the call
	case err != nil:
		return denial("instance profile "+name, err)
	}
	if !p.madeFor(c, res.InstanceProfile.Tags) {
		p.log.Warn("an instance profile bears the name of one that would be made for a node class, but not its tags: left as it is", "instanceProfile", name, "nodeClass", c.name)
		return nil
	}
	for _, r := range res.InstanceProfile.Roles {
		_, err := p.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
		if err != nil && codeOf(err) != "NoSuchEntity" {
			return denial("instance profile "+name, err)
		}
	}
	_, err = p.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && codeOf(err) != "NoSuchEntity" {
		return denial("instance profile "+name, err)
	}
	return nil
}

// madeFor says whether something with these tags was made for the class by this cluster's autoscaler.
func (p *Provider) madeFor(c *class, tags []iamtypes.Tag) bool {
	have := map[string]string{}
	for _, t := range tags {
		have[deref(t.Key)] = deref(t.Value)
	}
	return have["kubernetes.io/cluster/"+p.config.ClusterName] == "owned" && have[awsv1.LabelNodeClass] == c.name
}

// endTemplates deletes our launch templates of a class.
func (p *Provider) endTemplates(ctx context.Context, c *class) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(p.ec2, &ec2.DescribeLaunchTemplatesInput{
		Filters: []types.Filter{filter("tag:"+awsv1.TagClusterName, p.config.ClusterName), filter("tag:"+awsv1.LabelNodeClass, c.name)},
	})
	var failure error
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return denial("launch templates", err)
		}
		for _, t := range page.LaunchTemplates {
			name := deref(t.LaunchTemplateName)
			if !strings.HasPrefix(name, templatePrefix) {
				continue // another autoscaler's, which deletes its own
			}
			if _, err := p.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId}); err != nil && !noTemplate(codeOf(err)) {
				if failure == nil {
					failure = denial("launch template "+name, err) // the others are deleted all the same
				}
				continue
			}
			p.templates.forget(name)
		}
	}
	return failure
}

// denial says what has to be mended where a call is not allowed.
func denial(what string, err error) error {
	if denied(codeOf(err)) {
		return &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("%s: %w; allow the call in the controller's IAM policy", what, brief(err))}
	}
	return err
}
