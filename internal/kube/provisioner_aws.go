// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
)

// awsProvider is what a Provisioner's spec.provider says on AWS.
type awsProvider struct {
	APIVersion            string                      `json:"apiVersion"`
	Kind                  string                      `json:"kind"`
	AMIFamily             *string                     `json:"amiFamily"`
	Context               *string                     `json:"context"`
	InstanceProfile       *string                     `json:"instanceProfile"`
	SubnetSelector        map[string]string           `json:"subnetSelector"`
	SecurityGroupSelector map[string]string           `json:"securityGroupSelector"`
	Tags                  map[string]string           `json:"tags"`
	LaunchTemplate        *string                     `json:"launchTemplate"`
	MetadataOptions       *awsv1.MetadataOptions      `json:"metadataOptions"`
	BlockDeviceMappings   []*awsv1.BlockDeviceMapping `json:"blockDeviceMappings"`
}

// idsKeys are the keys of a selector whose value is ids, with commas between.
var idsKeys = []string{"aws-ids", "aws::ids"}

// provisionerClass is the EC2NodeClass that means what a Provisioner's spec.provider says. nil with an error: it can't be one.
func provisionerClass(p *karpv1alpha5.Provisioner, defaults ProvisionerDefaults, came func(from, to string), lost func(field, why string)) (*awsv1.EC2NodeClass, error) {
	var in awsProvider
	d := json.NewDecoder(bytes.NewReader(p.Spec.Provider.Raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("it is not AWS's: %w", err)
	}
	yes := true
	out := &awsv1.EC2NodeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: awsv1.GroupVersion.String(), Kind: awsv1.KindEC2NodeClass},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: karpv1alpha5.GroupVersion.String(), Kind: "Provisioner", Name: p.Name, UID: p.UID, Controller: &yes, BlockOwnerDeletion: &yes,
		}}},
	}
	s := &out.Spec
	if len(in.SubnetSelector) == 0 || len(in.SecurityGroupSelector) == 0 {
		return nil, errors.New("subnetSelector and securityGroupSelector are needed; give both")
	}
	profile, profileFrom := defaults.InstanceProfile, "spec.provider without instanceProfile"
	if in.InstanceProfile != nil && *in.InstanceProfile != "" {
		profile, profileFrom = *in.InstanceProfile, "spec.provider.instanceProfile"
	}
	if profile == "" {
		return nil, errors.New("instanceProfile is needed: name it here, or give the controller a default with --default-instance-profile")
	}
	family, from := awsv1.AMIFamilyAL2, "spec.provider without amiFamily"
	if in.AMIFamily != nil {
		family, from = *in.AMIFamily, "spec.provider.amiFamily"
	}
	switch family {
	case awsv1.AMIFamilyAL2, awsv1.AMIFamilyBottlerocket:
	default:
		return nil, fmt.Errorf("amiFamily %s: there is no image for it without a selector; use AL2 or Bottlerocket, or name an EC2NodeClass in spec.providerRef", family)
	}
	tags, ids := selected(in.SubnetSelector)
	for _, id := range ids {
		s.SubnetSelectorTerms = append(s.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{ID: id})
	}
	if len(tags) > 0 {
		s.SubnetSelectorTerms = append(s.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{Tags: tags})
	}
	came("spec.provider.subnetSelector", "EC2NodeClass spec.subnetSelectorTerms")
	tags, ids = selected(in.SecurityGroupSelector)
	for _, id := range ids {
		s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{ID: id})
	}
	if len(tags) > 0 {
		s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{Tags: tags})
	}
	came("spec.provider.securityGroupSelector", "EC2NodeClass spec.securityGroupSelectorTerms")
	s.InstanceProfile = &profile
	if profileFrom == "spec.provider.instanceProfile" {
		came(profileFrom, "EC2NodeClass spec.instanceProfile")
	} else {
		came(profileFrom, "EC2NodeClass spec.instanceProfile="+profile+", the controller's default")
	}
	why := ""
	if family == awsv1.AMIFamilyAL2 && !publishesAL2(defaults.KubernetesVersion) {
		family, why = awsv1.AMIFamilyAL2023, "; AL2 is not published for Kubernetes "+defaults.KubernetesVersion
	}
	s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: strings.ToLower(family) + "@latest"}}
	came(from, "EC2NodeClass spec.amiSelectorTerms: alias "+s.AMISelectorTerms[0].Alias+why)
	if in.LaunchTemplate != nil {
		lost("spec.provider.launchTemplate", "an EC2NodeClass has none; machines are launched from templates made of its fields: say there what "+*in.LaunchTemplate+" says")
	}
	if len(in.Tags) > 0 {
		s.Tags = maps.Clone(in.Tags)
		came("spec.provider.tags", "EC2NodeClass spec.tags")
	}
	if in.Context != nil {
		s.Context = in.Context
		came("spec.provider.context", "EC2NodeClass spec.context")
	}
	if len(in.BlockDeviceMappings) > 0 {
		s.BlockDeviceMappings = in.BlockDeviceMappings
		came("spec.provider.blockDeviceMappings", "EC2NodeClass spec.blockDeviceMappings")
	}
	on, off, required, hops := "enabled", "disabled", "required", int64(2)
	s.MetadataOptions = &awsv1.MetadataOptions{HTTPEndpoint: &on, HTTPProtocolIPv6: &off, HTTPPutResponseHopLimit: &hops, HTTPTokens: &required}
	if m := in.MetadataOptions; m != nil {
		for _, f := range []struct{ to, v **string }{
			{&s.MetadataOptions.HTTPEndpoint, &m.HTTPEndpoint}, {&s.MetadataOptions.HTTPProtocolIPv6, &m.HTTPProtocolIPv6}, {&s.MetadataOptions.HTTPTokens, &m.HTTPTokens},
		} {
			if *f.v != nil {
				*f.to = *f.v
			}
		}
		if m.HTTPPutResponseHopLimit != nil {
			s.MetadataOptions.HTTPPutResponseHopLimit = m.HTTPPutResponseHopLimit
		}
		came("spec.provider.metadataOptions", "EC2NodeClass spec.metadataOptions")
	} else {
		came("spec.provider without metadataOptions", "EC2NodeClass spec.metadataOptions.httpPutResponseHopLimit=2")
	}
	if k := p.Spec.KubeletConfiguration; k != nil {
		s.Kubelet = k.DeepCopy()
		came("spec.kubeletConfiguration", "EC2NodeClass spec.kubelet")
	}
	return out, nil
}

// lastMinorWithAL2 is the last minor version of Kubernetes for which EKS publishes images of AL2.
const lastMinorWithAL2 = 32

// publishesAL2 says whether there are images of AL2 for a version of Kubernetes such as 1.36; also where it is not known.
func publishesAL2(version string) bool {
	minor, err := strconv.Atoi(strings.TrimPrefix(version, "1."))
	return err != nil || minor <= lastMinorWithAL2
}

// selected takes a selector apart: tags, and ids.
func selected(in map[string]string) (tags map[string]string, ids []string) {
	tags = maps.Clone(in)
	for _, k := range idsKeys {
		for id := range strings.SplitSeq(tags[k], ",") {
			if id = strings.TrimSpace(id); id != "" {
				ids = append(ids, id)
			}
		}
		delete(tags, k)
	}
	slices.Sort(ids)
	return tags, ids
}

// writeClass makes the EC2NodeClass of a Provisioner, or makes the one there what it should be.
func (c *Client) writeClass(ctx context.Context, p *karpv1alpha5.Provisioner, want *awsv1.EC2NodeClass) error {
	have, ok := c.ec2Classes.get(want.Name)
	if !ok {
		err := c.aws.Post().Resource("ec2nodeclasses").Body(want).Do(ctx).Error()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("create ec2nodeclass %q: %w", want.Name, err)
	}
	if !metav1.IsControlledBy(have, p) {
		return fmt.Errorf("create ec2nodeclass %q for spec.provider: one is there and is not this Provisioner's; rename one of them, or name it in spec.providerRef", want.Name)
	}
	if sameJSON(have.Spec, want.Spec) {
		return nil
	}
	next := have.DeepCopy()
	next.TypeMeta, next.Spec = want.TypeMeta, want.Spec
	err := c.aws.Put().Resource("ec2nodeclasses").Name(next.Name).Body(next).Do(ctx).Error()
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // in the last two cases the watch will tell, and this runs again
	}
	return fmt.Errorf("update ec2nodeclass %q: %w", want.Name, err)
}
