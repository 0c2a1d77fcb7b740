// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
)

// templatePrefix is the name prefix of Dovetail's launch templates. It differs from Karpenter's, because during a
// migration both exist, and each deletes its own.
const templatePrefix = "dovetail.sh/"

// templateStore makes launch templates in the account, and deletes those that are not needed any more.
type templateStore struct {
	aws  *awsapi.Account
	made *awsapi.Cache[struct{}] // by name: what is known to be there
}

// newTemplateStore returns an empty store.
func newTemplateStore(a *awsapi.Account) *templateStore {
	return &templateStore{aws: a, made: awsapi.NewCache[struct{}](a.Clock, time.Hour)}
}

// ensure creates a launch template in EC2, unless it exists.
func (s *templateStore) ensure(ctx context.Context, t *launchTemplate) error {
	_, err := s.made.Get(ctx, t.name, func(ctx context.Context) (struct{}, error) {
		// The name says what is in it: one that is there is this one, whoever made it.
		_, err := s.aws.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &t.name, LaunchTemplateData: t.data,
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: t.tags}},
		})
		if err != nil && awsapi.ErrorCode(err) == awsapi.CodeTemplateExists {
			err = nil
		}
		return struct{}{}, err
	})
	return err
}

// unusedTemplateAge is for how long a launch template is left alone that this process does not use.
const unusedTemplateAge = 24 * time.Hour

// deleteUnused deletes the cluster's launch templates that are older than unusedTemplateAge and that this process has
// not used for as long as it remembers. One that is needed again is made again.
func (s *templateStore) deleteUnused(ctx context.Context) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(s.aws.EC2, &ec2.DescribeLaunchTemplatesInput{
		Filters: []types.Filter{awsapi.NewFilter("tag:"+awsv1.TagClusterName, s.aws.Config.ClusterName)},
	})
	var errs []error
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, t := range page.LaunchTemplates {
			name := awsapi.Deref(t.LaunchTemplateName)
			if !strings.HasPrefix(name, templatePrefix) || s.made.Has(name) || s.aws.Clock.Now().Sub(awsapi.Deref(t.CreateTime)) < unusedTemplateAge {
				continue
			}
			if _, err := s.aws.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId}); err != nil && !awsapi.IsTemplateNotFound(awsapi.ErrorCode(err)) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// deleteOfClass deletes our launch templates of a class. The error is the first one; the other templates are deleted
// all the same.
func (s *templateStore) deleteOfClass(ctx context.Context, c *nodeclass.Class) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(s.aws.EC2, &ec2.DescribeLaunchTemplatesInput{
		Filters: []types.Filter{awsapi.NewFilter("tag:"+awsv1.TagClusterName, s.aws.Config.ClusterName), awsapi.NewFilter("tag:"+awsv1.LabelNodeClass, c.Name)},
	})
	var failure error
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return awsapi.ExplainDenied("launch templates", err)
		}
		for _, t := range page.LaunchTemplates {
			name := awsapi.Deref(t.LaunchTemplateName)
			if !strings.HasPrefix(name, templatePrefix) {
				continue // another autoscaler's, which deletes its own
			}
			if _, err := s.aws.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId}); err != nil && !awsapi.IsTemplateNotFound(awsapi.ErrorCode(err)) {
				if failure == nil {
					failure = awsapi.ExplainDenied("launch template "+name, err) // the others are deleted all the same
				}
				continue
			}
			s.made.Forget(name)
		}
	}
	return failure
}

// forget makes the store create templates again when they are needed next.
func (s *templateStore) forget(list []*launchTemplate) {
	for _, t := range list {
		s.made.Forget(t.name)
	}
}

// launchTemplate is a launch template. Its name is derived from its contents.
type launchTemplate struct {
	name string
	data *types.RequestLaunchTemplateData
	tags []types.Tag
}

// templateVariant are the properties in which launch templates of one class and claim differ, in addition to user data.
type templateVariant struct {
	imageID          string
	efaInterfaces    int64
	reservationID    string // empty: none is to be used
	kind             reservationKind
	spot             bool
	tenancy          string // empty: the default
	openReservations bool   // EC2 may put the machine into an open reservation
	partition        string // number of the placement group's partition; empty: EC2 chooses
}

// reservationKind is how EC2 wants to be asked for a reserved machine.
type reservationKind int
