// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"errors"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// classResolver finds what EC2NodeClasses stand for in the account, and makes the instance profiles of those that name a role.
type classResolver struct {
	aws            *account
	subnets        *cache[[]*subnet]
	securityGroups *cache[[]securityGroup]
	reservations   *cache[[]reservation]
	placements     *cache[*types.PlacementGroup]
	images         *cache[[]image]
	profiles       *cache[string]
	cluster        *cache[clusterFacts]
	ended          endedClasses
}

func newClassResolver(a *account) *classResolver {
	return &classResolver{
		aws:            a,
		subnets:        newCache[[]*subnet](a.clock, a.config.SubnetRefresh),
		securityGroups: newCache[[]securityGroup](a.clock, 5*time.Minute),
		reservations:   newCache[[]reservation](a.clock, time.Minute),
		placements:     newCache[*types.PlacementGroup](a.clock, 5*time.Minute),
		images:         newCache[[]image](a.clock, a.config.AMIRefresh),
		profiles:       newCache[string](a.clock, 15*time.Minute),
		cluster:        newCache[clusterFacts](a.clock, 15*time.Minute),
	}
}

// endClass says that nothing is to be made for a class any more, and whether nothing is being made now.
func (cr *classResolver) endClass(uid string) bool { return cr.ended.markEnded(uid) }

// resolve asks what a class stands for. An error is one of the calls that may work next time; whatever a person has to mend is a
// problem.
func (cr *classResolver) resolve(ctx context.Context, c *nodeClass) (*resolvedClass, error) {
	r := &resolvedClass{nodeClass: c, problems: map[string]model.Condition{}}
	// part settles what one part's calls answered.
	part := func(condition, field string, err error) error {
		if err == nil {
			return nil
		}
		var unresolved *unresolvedError
		switch e := classifyError(ctx, "resolve", c.name, err); {
		case errors.As(err, &unresolved):
			r.problems[condition] = falseCondition(unresolved.reason, unresolved.text)
		case cloud.KindOf(e) == cloud.Denied:
			r.problems[condition] = falseCondition(awsv1.ReasonAccessDenied, field+": "+readableError(err).Error()+"; allow the call in the controller's IAM policy")
		default:
			return e
		}
		return nil
	}
	var err error
	if r.subnets, err = cr.subnets.get(ctx, selectorKey(c.spec.SubnetSelectorTerms), func(ctx context.Context) ([]*subnet, error) {
		return cr.findSubnets(ctx, c.spec.SubnetSelectorTerms)
	}); part(awsv1.ConditionSubnetsReady, "spec.subnetSelectorTerms", err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if r.securityGroups, err = cr.securityGroups.get(ctx, selectorKey(c.spec.SecurityGroupSelectorTerms), func(ctx context.Context) ([]securityGroup, error) {
		return cr.findSecurityGroups(ctx, c.spec.SecurityGroupSelectorTerms)
	}); part(awsv1.ConditionSecurityGroupsReady, "spec.securityGroupSelectorTerms", err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if len(c.spec.CapacityReservationSelectorTerms) > 0 {
		if r.reservations, err = cr.activeReservations(ctx, c.spec.CapacityReservationSelectorTerms); part(awsv1.ConditionCapacityReservationsReady, "spec.capacityReservationSelectorTerms", err) != nil {
			return nil, classifyError(ctx, "resolve", c.name, err)
		}
	}
	if s := c.spec.PlacementGroupSelector; s != nil {
		if r.placement, err = cr.placements.get(ctx, selectorKey(s), func(ctx context.Context) (*types.PlacementGroup, error) {
			return cr.findPlacementGroup(ctx, s)
		}); part(awsv1.ConditionPlacementGroupReady, "spec.placementGroupSelector", err) != nil {
			return nil, classifyError(ctx, "resolve", c.name, err)
		}
	}
	r.cluster, err = cr.cluster.get(ctx, "", cr.findCluster)
	if part(awsv1.ConditionValidationSucceeded, "cluster "+cr.aws.config.ClusterName, err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if r.cluster.version != "" {
		if r.images, err = cr.images.get(ctx, r.cluster.version+" "+c.family+" "+selectorKey(c.spec.AMISelectorTerms), func(ctx context.Context) ([]image, error) {
			return cr.findImages(ctx, c, r.cluster.version)
		}); part(awsv1.ConditionAMIsReady, "spec.amiSelectorTerms", err) != nil {
			return nil, classifyError(ctx, "resolve", c.name, err)
		}
	} else {
		r.problems[awsv1.ConditionAMIsReady] = falseCondition(awsv1.ReasonDependenciesNotReady, "spec.amiSelectorTerms: the cluster's Kubernetes version is not known")
	}
	if c.spec.InstanceProfile != nil {
		r.profile = *c.spec.InstanceProfile
	} else if cloud.LooksOnly(ctx) {
		r.profile = cr.profileName(c) // as it will be called once it is made
	} else if r.profile, err = cr.profiles.get(ctx, c.uid+" "+c.spec.Role, func(ctx context.Context) (string, error) {
		if !cr.ended.beginMaking(c.uid) {
			return "", newUnresolvedError(awsv1.ReasonInstanceProfileNotFound, "spec.role: the class is being deleted, and nothing is made for it any more")
		}
		defer cr.ended.endMaking(c.uid)
		return cr.ensureProfile(ctx, c)
	}); part(awsv1.ConditionInstanceProfileReady, "spec.role", err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if r.hash, err = c.spec.Hash(r.cluster.caBundle); err != nil {
		r.problems[awsv1.ConditionValidationSucceeded] = falseCondition(awsv1.ReasonInvalidKubeletConfiguration, err.Error())
	}
	if _, ok := r.problems[awsv1.ConditionValidationSucceeded]; !ok {
		if bad := cr.validate(r); bad.Status != "" {
			r.problems[awsv1.ConditionValidationSucceeded] = bad
		}
	}
	return r, nil
}

// findCluster is what the configuration says, and for the rest what EKS does.
func (cr *classResolver) findCluster(ctx context.Context) (clusterFacts, error) {
	f := clusterFacts{endpoint: cr.aws.config.ClusterEndpoint, caBundle: cr.aws.config.ClusterCABundle, version: cr.aws.config.KubernetesVersion}
	res, err := cr.aws.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cr.aws.config.ClusterName)})
	if err != nil {
		if f.endpoint != "" && f.caBundle != "" && f.version != "" && !isThrottled(errorCode(err)) && errorCode(err) != "" {
			return f, nil // a cluster that is not EKS's: the configuration is enough, but for AL2023, which validate tells
		}
		if errorCode(err) == "ResourceNotFoundException" {
			return f, newUnresolvedError(awsv1.ReasonDependenciesNotReady, "cluster %q is not an EKS cluster of region %s: mend CLUSTER_NAME, or set CLUSTER_ENDPOINT and CLUSTER_CA_BUNDLE", cr.aws.config.ClusterName, cr.aws.Region)
		}
		return f, err
	}
	if c := res.Cluster; c != nil {
		set := func(into *string, v *string) {
			if *into == "" {
				*into = deref(v)
			}
		}
		set(&f.endpoint, c.Endpoint)
		set(&f.version, c.Version)
		if c.CertificateAuthority != nil {
			set(&f.caBundle, c.CertificateAuthority.Data)
		}
		if n := c.KubernetesNetworkConfig; n != nil {
			f.ipFamily = string(n.IpFamily)
			set(&f.cidr, n.ServiceIpv4Cidr)
			if n.IpFamily == "ipv6" {
				f.cidr = deref(n.ServiceIpv6Cidr)
			}
		}
	}
	return f, nil
}
