// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// NewResolver returns an empty Resolver. Expressions are evaluated for the instance types of the store's Catalogue.
func NewResolver(a *awsapi.Account, store *catalogue.Store) *Resolver {
	return &Resolver{
		aws:            a,
		subnets:        awsapi.NewCache[[]*Subnet](a.Clock, a.Config.SubnetRefresh),
		securityGroups: awsapi.NewCache[[]SecurityGroup](a.Clock, a.Config.SecurityGroupRefresh),
		reservations:   awsapi.NewCache[[]Reservation](a.Clock, time.Minute),
		placements:     awsapi.NewCache[*types.PlacementGroup](a.Clock, 5*time.Minute),
		images:         awsapi.NewCache[[]Image](a.Clock, a.Config.AMIRefresh),
		profiles:       awsapi.NewCache[string](a.Clock, 15*time.Minute),
		cluster:        awsapi.NewCache[Cluster](a.Clock, 15*time.Minute),
		kubelets:       awsapi.NewCache[KubeletsByType](a.Clock, time.Hour),
		catalogue:      store,
		expressionEnv:  sync.OnceValues(newExpressionEnv),
	}
}

// EndClass prevents the creation of resources for the class with this UID. false: a resource is being created for it at
// this moment.
func (cr *Resolver) EndClass(uid string) bool { return cr.ended.markEnded(uid) }

// Resolve resolves a class. Each part is read again when its cached data expires. An error is an error of a request that
// may succeed later; problems that a user must correct are in the result. Under cloud.LooksOnly, nothing is created.
func (cr *Resolver) Resolve(ctx context.Context, c *Class) (*Resolved, error) {
	r := &Resolved{Class: c, Problems: map[string]model.Condition{}}
	// part settles what one part's calls answered.
	part := func(condition, field string, err error) error {
		if err == nil {
			return nil
		}
		var unresolved *awsapi.UnresolvedError
		switch e := awsapi.ClassifyError(ctx, "resolve", c.Name, err); {
		case errors.As(err, &unresolved):
			r.Problems[condition] = FalseCondition(unresolved.Reason, unresolved.Text)
		case cloud.KindOf(e) == cloud.Denied:
			r.Problems[condition] = FalseCondition(awsv1.ReasonAccessDenied, field+": "+awsapi.ReadableError(err).Error()+"; allow the call in the controller's IAM policy")
		default:
			return e
		}
		return nil
	}
	var err error
	if r.Subnets, err = cr.subnets.Get(ctx, awsapi.SelectorKey(c.Spec.SubnetSelectorTerms), func(ctx context.Context) ([]*Subnet, error) {
		return cr.findSubnets(ctx, c.Spec.SubnetSelectorTerms)
	}); part(awsv1.ConditionSubnetsReady, "spec.subnetSelectorTerms", err) != nil {
		return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
	}
	if r.SecurityGroups, err = cr.securityGroups.Get(ctx, awsapi.SelectorKey(c.Spec.SecurityGroupSelectorTerms), func(ctx context.Context) ([]SecurityGroup, error) {
		return cr.findSecurityGroups(ctx, c.Spec.SecurityGroupSelectorTerms)
	}); part(awsv1.ConditionSecurityGroupsReady, "spec.securityGroupSelectorTerms", err) != nil {
		return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
	}
	if len(c.Spec.CapacityReservationSelectorTerms) > 0 && !cr.aws.Config.NoReservedCapacity {
		if r.Reservations, err = cr.ActiveReservations(ctx, c.Spec.CapacityReservationSelectorTerms); part(awsv1.ConditionCapacityReservationsReady, "spec.capacityReservationSelectorTerms", err) != nil {
			return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
		}
	}
	if s := c.Spec.PlacementGroupSelector; s != nil {
		if r.Placement, err = cr.placements.Get(ctx, awsapi.SelectorKey(s), func(ctx context.Context) (*types.PlacementGroup, error) {
			return cr.findPlacementGroup(ctx, s)
		}); part(awsv1.ConditionPlacementGroupReady, "spec.placementGroupSelector", err) != nil {
			return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
		}
	}
	r.Cluster, err = cr.cluster.Get(ctx, "", cr.findCluster)
	if part(awsv1.ConditionValidationSucceeded, "cluster "+cr.aws.Config.ClusterName, err) != nil {
		return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
	}
	if r.Cluster.Version != "" {
		if r.Images, err = cr.images.Get(ctx, r.Cluster.Version+" "+c.Family+" "+awsapi.SelectorKey(c.Spec.AMISelectorTerms), func(ctx context.Context) ([]Image, error) {
			return cr.findImages(ctx, c, r.Cluster.Version)
		}); part(awsv1.ConditionAMIsReady, "spec.amiSelectorTerms", err) != nil {
			return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
		}
	} else {
		r.Problems[awsv1.ConditionAMIsReady] = FalseCondition(awsv1.ReasonDependenciesNotReady, "spec.amiSelectorTerms: the cluster's Kubernetes version is not known")
	}
	if c.Spec.InstanceProfile != nil {
		r.Profile = *c.Spec.InstanceProfile
	} else if cloud.LooksOnly(ctx) {
		r.Profile = cr.profileName(c) // as it will be called once it is made
	} else if r.Profile, err = cr.profiles.Get(ctx, c.UID+" "+c.Spec.Role, func(ctx context.Context) (string, error) {
		if !cr.ended.beginMaking(c.UID) {
			return "", awsapi.NewUnresolvedError(awsv1.ReasonInstanceProfileNotFound, "spec.role: the EC2NodeClass is being deleted; no instance profile is created for it")
		}
		defer cr.ended.endMaking(c.UID)
		return cr.ensureProfile(ctx, c)
	}); part(awsv1.ConditionInstanceProfileReady, "spec.role", err) != nil {
		return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
	}
	if r.Hash, err = c.Spec.Hash(r.Cluster.CABundle); err != nil {
		r.Problems[awsv1.ConditionValidationSucceeded] = FalseCondition(awsv1.ReasonInvalidKubeletConfiguration, err.Error())
	}
	if _, ok := r.Problems[awsv1.ConditionValidationSucceeded]; !ok {
		if bad := cr.Validate(r); bad.Status != "" {
			r.Problems[awsv1.ConditionValidationSucceeded] = bad
		} else if r.Kubelets, err = cr.kubeletsOf(ctx, c); part(awsv1.ConditionValidationSucceeded, "spec.kubelet", err) != nil {
			return nil, awsapi.ClassifyError(ctx, "resolve", c.Name, err)
		}
	}
	return r, nil
}

// findCluster returns the cluster data of the configuration, and missing data from EKS.
func (cr *Resolver) findCluster(ctx context.Context) (Cluster, error) {
	f := Cluster{Endpoint: cr.aws.Config.ClusterEndpoint, CABundle: cr.aws.Config.ClusterCABundle, Version: cr.aws.Config.KubernetesVersion}
	res, err := cr.aws.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cr.aws.Config.ClusterName)})
	if err != nil {
		if f.Endpoint != "" && f.CABundle != "" && f.Version != "" && !awsapi.IsThrottled(awsapi.ErrorCode(err)) && awsapi.ErrorCode(err) != "" {
			// A cluster that is not EKS's: the configuration is enough, but for AL2023, which Validate tells.
			return f, nil
		}
		if awsapi.ErrorCode(err) == "ResourceNotFoundException" {
			return f, awsapi.NewUnresolvedError(awsv1.ReasonDependenciesNotReady, "cluster %q is not an EKS cluster in region %s: correct CLUSTER_NAME, or set CLUSTER_ENDPOINT and CLUSTER_CA_BUNDLE", cr.aws.Config.ClusterName, cr.aws.Region)
		}
		return f, err
	}
	if c := res.Cluster; c != nil {
		set := func(into *string, v *string) {
			if *into == "" {
				*into = awsapi.Deref(v)
			}
		}
		set(&f.Endpoint, c.Endpoint)
		set(&f.Version, c.Version)
		if c.CertificateAuthority != nil {
			set(&f.CABundle, c.CertificateAuthority.Data)
		}
		if n := c.KubernetesNetworkConfig; n != nil {
			set(&f.CIDR, n.ServiceIpv4Cidr)
			if f.IPv6 = n.IpFamily == ekstypes.IpFamilyIpv6; f.IPv6 {
				f.CIDR = awsapi.Deref(n.ServiceIpv6Cidr)
			}
			f.DNS = dnsAddress(f.CIDR)
		}
	}
	return f, nil
}
