// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// resolvedClass is what a node class stands for in the account. What can't be resolved is a problem under the condition it makes false.
type resolvedClass struct {
	*nodeClass
	subnets        []*subnet // by id
	securityGroups []securityGroup
	images         []image // preferred first
	profile        string
	reservations   []reservation // by id
	placement      *types.PlacementGroup
	hash           string
	cluster        clusterFacts
	problems       map[string]model.Condition
}

// readyError is nil, or says which condition keeps the class from being bought with.
func (r *resolvedClass) readyError(op string) error {
	for _, k := range conditionOrder {
		if p, ok := r.problems[k]; ok {
			return notReadyError(op, r.name, "EC2NodeClass %s: %s", r.name, p.Message)
		}
	}
	return nil
}

// conditionOrder is that in which problems are told: causes before what follows from them.
var conditionOrder = []string{
	awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady,
	awsv1.ConditionCapacityReservationsReady, awsv1.ConditionPlacementGroupReady, awsv1.ConditionValidationSucceeded,
}

// subnet is where machines may stand.
type subnet struct {
	id, zone, zoneID string
	free             int64
	taken            atomic.Int64 // addresses of machines bought since free was asked for
}

type securityGroup struct{ id, name string }

// reservation is capacity that is paid for.
type reservation struct {
	awsv1.CapacityReservation
	free  int64
	taken *atomic.Int64
}

// clusterFacts are what a machine must know to join.
type clusterFacts struct{ endpoint, caBundle, cidr, ipFamily, version string }

// resolveClass asks what a class stands for. An error is one of the calls that may work next time; whatever a person has to mend is a
// problem.
func (p *Provider) resolveClass(ctx context.Context, c *nodeClass) (*resolvedClass, error) {
	r := &resolvedClass{nodeClass: c, problems: map[string]model.Condition{}}
	// part settles what one part's calls answered.
	part := func(condition, field string, err error) error {
		if err == nil {
			return nil
		}
		var unresolved *unresolvedError
		switch e := classifyError(ctx, "resolve", c.name, err); {
		case asError(err, &unresolved):
			r.problems[condition] = falseCondition(unresolved.reason, unresolved.text)
		case cloud.KindOf(e) == cloud.Denied:
			r.problems[condition] = falseCondition(awsv1.ReasonAccessDenied, field+": "+readableError(err).Error()+"; allow the call in the controller's IAM policy")
		default:
			return e
		}
		return nil
	}
	var err error
	if r.subnets, err = p.subnetCache.get(ctx, selectorKey(c.spec.SubnetSelectorTerms), func(ctx context.Context) ([]*subnet, error) {
		return p.findSubnets(ctx, c.spec.SubnetSelectorTerms)
	}); part(awsv1.ConditionSubnetsReady, "spec.subnetSelectorTerms", err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if r.securityGroups, err = p.securityGroupCache.get(ctx, selectorKey(c.spec.SecurityGroupSelectorTerms), func(ctx context.Context) ([]securityGroup, error) {
		return p.findSecurityGroups(ctx, c.spec.SecurityGroupSelectorTerms)
	}); part(awsv1.ConditionSecurityGroupsReady, "spec.securityGroupSelectorTerms", err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if len(c.spec.CapacityReservationSelectorTerms) > 0 {
		if r.reservations, err = p.reservationCache.get(ctx, selectorKey(c.spec.CapacityReservationSelectorTerms), func(ctx context.Context) ([]reservation, error) {
			return p.findReservations(ctx, c.spec.CapacityReservationSelectorTerms)
		}); part(awsv1.ConditionCapacityReservationsReady, "spec.capacityReservationSelectorTerms", err) != nil {
			return nil, classifyError(ctx, "resolve", c.name, err)
		}
	}
	if s := c.spec.PlacementGroupSelector; s != nil {
		if r.placement, err = p.placementCache.get(ctx, selectorKey(s), func(ctx context.Context) (*types.PlacementGroup, error) {
			return p.findPlacementGroup(ctx, s)
		}); part(awsv1.ConditionPlacementGroupReady, "spec.placementGroupSelector", err) != nil {
			return nil, classifyError(ctx, "resolve", c.name, err)
		}
	}
	r.cluster, err = p.clusterCache.get(ctx, "", p.findCluster)
	if part(awsv1.ConditionValidationSucceeded, "cluster "+p.config.ClusterName, err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if r.cluster.version != "" {
		if r.images, err = p.imageCache.get(ctx, r.cluster.version+" "+c.family+" "+selectorKey(c.spec.AMISelectorTerms), func(ctx context.Context) ([]image, error) {
			return p.findImages(ctx, c, r.cluster.version)
		}); part(awsv1.ConditionAMIsReady, "spec.amiSelectorTerms", err) != nil {
			return nil, classifyError(ctx, "resolve", c.name, err)
		}
	} else {
		r.problems[awsv1.ConditionAMIsReady] = falseCondition(awsv1.ReasonDependenciesNotReady, "spec.amiSelectorTerms: the cluster's Kubernetes version is not known")
	}
	if c.spec.InstanceProfile != nil {
		r.profile = *c.spec.InstanceProfile
	} else if cloud.LooksOnly(ctx) {
		r.profile = p.profileName(c) // as it will be called once it is made
	} else if r.profile, err = p.profileCache.get(ctx, c.uid+" "+c.spec.Role, func(ctx context.Context) (string, error) {
		if !p.endedClasses.beginMaking(c.uid) {
			return "", newUnresolvedError(awsv1.ReasonInstanceProfileNotFound, "spec.role: the class is being deleted, and nothing is made for it any more")
		}
		defer p.endedClasses.endMaking(c.uid)
		return p.ensureProfile(ctx, c)
	}); part(awsv1.ConditionInstanceProfileReady, "spec.role", err) != nil {
		return nil, classifyError(ctx, "resolve", c.name, err)
	}
	if r.hash, err = c.spec.Hash(r.cluster.caBundle); err != nil {
		r.problems[awsv1.ConditionValidationSucceeded] = falseCondition(awsv1.ReasonInvalidKubeletConfiguration, err.Error())
	}
	if _, ok := r.problems[awsv1.ConditionValidationSucceeded]; !ok {
		if bad := p.validateClass(r); bad.Status != "" {
			r.problems[awsv1.ConditionValidationSucceeded] = bad
		}
	}
	return r, nil
}

func falseCondition(reason, message string) model.Condition {
	return model.Condition{Status: "False", Reason: reason, Message: message}
}

// unresolvedError is what a person has to mend.
type unresolvedError struct{ reason, text string }

func (e *unresolvedError) Error() string { return e.text }

func newUnresolvedError(reason, format string, args ...any) error {
	return &unresolvedError{reason, fmt.Sprintf(format, args...)}
}

// selectorKey is the text of a selector, as a key.
func selectorKey(terms any) string {
	b, err := json.Marshal(terms)
	if err != nil {
		return fmt.Sprint(terms) // of plain fields: it can't fail
	}
	return string(b)
}

// tagFilters select by tags; the value * is any.
func tagFilters(tags map[string]string) []types.Filter {
	var out []types.Filter
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if v := tags[k]; v == "*" {
			out = append(out, newFilter("tag-key", k))
		} else {
			out = append(out, newFilter("tag:"+k, strings.Split(v, ",")...))
		}
	}
	return out
}

func newFilter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

func (p *Provider) findSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]*subnet, error) {
	found := map[string]*subnet{}
	ask := func(filters []types.Filter) error {
		pages := ec2.NewDescribeSubnetsPaginator(p.ec2, &ec2.DescribeSubnetsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, s := range page.Subnets {
				found[deref(s.SubnetId)] = &subnet{
					id: deref(s.SubnetId), zone: deref(s.AvailabilityZone), zoneID: deref(s.AvailabilityZoneId), free: int64(deref(s.AvailableIpAddressCount)),
				}
			}
		}
		return nil
	}
	var ids []string
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
		} else if err := ask(tagFilters(t.Tags)); err != nil {
			return nil, err
		}
	}
	if len(ids) > 0 {
		if err := ask([]types.Filter{newFilter("subnet-id", ids...)}); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonSubnetsNotFound, "spec.subnetSelectorTerms: no subnet of region %s matches %s; tag one so or choose others", p.region, selectorKey(terms))
	}
	out := make([]*subnet, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}

func (p *Provider) findSecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]securityGroup, error) {
	found := map[string]string{}
	ask := func(filters []types.Filter) error {
		pages := ec2.NewDescribeSecurityGroupsPaginator(p.ec2, &ec2.DescribeSecurityGroupsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, g := range page.SecurityGroups {
				found[deref(g.GroupId)] = deref(g.GroupName)
			}
		}
		return nil
	}
	var ids, names []string
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		default:
			if err := ask(tagFilters(t.Tags)); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range []struct {
		name   string
		values []string
	}{{"group-id", ids}, {"group-name", names}} {
		if len(f.values) > 0 {
			if err := ask([]types.Filter{newFilter(f.name, f.values...)}); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonSecurityGroupsNotFound, "spec.securityGroupSelectorTerms: no security group of region %s matches %s; tag one so or choose others", p.region, selectorKey(terms))
	}
	var out []securityGroup
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, securityGroup{id, found[id]})
	}
	return out, nil
}

// blockExpiryMargin is how long before its end a capacity block is no longer bought from.
const blockExpiryMargin = 40 * time.Minute

// findReservations are the active reservations that the terms choose. None is no problem: there may be some tomorrow.
func (p *Provider) findReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]reservation, error) {
	found := map[string]reservation{}
	ask := func(in *ec2.DescribeCapacityReservationsInput) error {
		in.Filters = append(in.Filters, newFilter("state", "active"))
		pages := ec2.NewDescribeCapacityReservationsPaginator(p.ec2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, c := range page.CapacityReservations {
				r := reservation{free: int64(deref(c.AvailableInstanceCount)), taken: &atomic.Int64{}, CapacityReservation: awsv1.CapacityReservation{
					ID: deref(c.CapacityReservationId), InstanceType: deref(c.InstanceType), AvailabilityZone: deref(c.AvailabilityZone),
					InstanceMatchCriteria: string(c.InstanceMatchCriteria), OwnerID: deref(c.OwnerId), Interruptible: deref(c.Interruptible),
					ReservationType: "default", State: "active",
				}}
				if c.ReservationType == types.CapacityReservationTypeCapacityBlock {
					r.ReservationType = "capacity-block"
				}
				if c.EndDate != nil {
					end := metaTime(*c.EndDate)
					r.EndTime = &end
					if r.ReservationType == "capacity-block" && p.clock.Now().After(c.EndDate.Add(-blockExpiryMargin)) {
						r.State = "expiring"
					}
				}
				found[r.ID] = r
			}
		}
		return nil
	}
	for _, t := range terms {
		in := &ec2.DescribeCapacityReservationsInput{}
		if t.ID != "" {
			in.CapacityReservationIds = []string{t.ID}
		}
		in.Filters = tagFilters(t.Tags)
		if t.OwnerID != "" {
			in.Filters = append(in.Filters, newFilter("owner-id", t.OwnerID))
		}
		if t.InstanceMatchCriteria != "" {
			in.Filters = append(in.Filters, newFilter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		if err := ask(in); err != nil {
			if strings.HasPrefix(errorCode(err), "InvalidCapacityReservationId") {
				continue
			}
			return nil, err
		}
	}
	var out []reservation
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}

func (p *Provider) findPlacementGroup(ctx context.Context, s *awsv1.PlacementGroupSelector) (*types.PlacementGroup, error) {
	in := &ec2.DescribePlacementGroupsInput{}
	if s.Name != "" {
		in.GroupNames = []string{s.Name}
	} else {
		in.GroupIds = []string{s.ID}
	}
	res, err := p.ec2.DescribePlacementGroups(ctx, in)
	if err != nil && !strings.HasPrefix(errorCode(err), "InvalidPlacementGroup") {
		return nil, err
	}
	if err != nil || len(res.PlacementGroups) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonPlacementGroupNotFound, "spec.placementGroupSelector: no placement group of region %s is %s; create it or choose another", p.region, selectorKey(s))
	}
	return &res.PlacementGroups[0], nil
}

// findCluster is what the configuration says, and for the rest what EKS does.
func (p *Provider) findCluster(ctx context.Context) (clusterFacts, error) {
	f := clusterFacts{endpoint: p.config.ClusterEndpoint, caBundle: p.config.ClusterCABundle, version: p.config.KubernetesVersion}
	res, err := p.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(p.config.ClusterName)})
	if err != nil {
		if f.endpoint != "" && f.caBundle != "" && f.version != "" && !isThrottled(errorCode(err)) && errorCode(err) != "" {
			return f, nil // a cluster that is not EKS's: the configuration is enough, but for AL2023, which validate tells
		}
		if errorCode(err) == "ResourceNotFoundException" {
			return f, newUnresolvedError(awsv1.ReasonDependenciesNotReady, "cluster %q is not an EKS cluster of region %s: mend CLUSTER_NAME, or set CLUSTER_ENDPOINT and CLUSTER_CA_BUNDLE", p.config.ClusterName, p.region)
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

// subnetZones are those that the class has a subnet in, sorted.
func (r *resolvedClass) subnetZones() []string {
	var out []string
	for _, s := range r.subnets {
		if !slices.Contains(out, s.zone) {
			out = append(out, s.zone)
		}
	}
	slices.Sort(out)
	return out
}

// bestSubnet is the subnet of a zone that has the most addresses left; nil if there is none.
func (r *resolvedClass) bestSubnet(zone string) *subnet {
	var best *subnet
	for _, s := range r.subnets {
		if s.zone == zone && (best == nil || s.free-s.taken.Load() > best.free-best.taken.Load()) {
			best = s
		}
	}
	return best
}
