// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
)

// idsKeys are the keys of a selector whose value is ids, with commas between.
var idsKeys = []string{"aws-ids", "aws::ids"}

// provisionerClass converts spec.provider of a Provisioner to an EC2NodeClass. It returns nil and an error if none is
// equivalent.
func provisionerClass(p *karpv1alpha5.Provisioner, defaults ProvisionerDefaults, came func(from, to string), lost func(field, why string)) (*awsv1.EC2NodeClass, error) {
	var in awsv1alpha1.AWSNodeTemplateSpec
	d := json.NewDecoder(bytes.NewReader(p.Spec.Provider.Raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in.AWS); err != nil {
		return nil, fmt.Errorf("it is not a valid AWS provider: %w", err)
	}
	out := &awsv1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: awsv1.GroupVersion.String(), Kind: awsv1.KindEC2NodeClass},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, karpv1alpha5.GroupVersion.WithKind("Provisioner"))}},
	}
	t := ec2Translation{in: &in, at: "spec.provider", defaults: defaults, out: &out.Spec, came: came, lost: lost}
	if err := t.run(); err != nil {
		return nil, err
	}
	if k := p.Spec.KubeletConfiguration; k != nil {
		out.Spec.Kubelet = k.DeepCopy()
		came("spec.kubeletConfiguration", "EC2NodeClass spec.kubelet")
	}
	return out, nil
}

// ec2Translation makes the spec of an EC2NodeClass of settings in the form of Karpenter before v0.33.
type ec2Translation struct {
	in       *awsv1alpha1.AWSNodeTemplateSpec
	at       string // the field that in is: spec.provider of a Provisioner, spec of an AWSNodeTemplate
	defaults ProvisionerDefaults
	out      *awsv1.EC2NodeClassSpec
	came     func(from, to string)   // a field, and where its meaning is now
	lost     func(field, why string) // a field without effect
}

// run fills in the spec. An error says why no EC2NodeClass can mean this.
func (t *ec2Translation) run() error {
	in, s := t.in, t.out
	if len(in.SubnetSelector) == 0 || len(in.SecurityGroupSelector) == 0 {
		return errors.New("subnetSelector and securityGroupSelector are required")
	}
	profile, profileFrom, profileTo := t.defaults.InstanceProfile, t.at+" without instanceProfile", "EC2NodeClass spec.instanceProfile="+t.defaults.InstanceProfile+", the controller's default"
	if in.InstanceProfile != nil && *in.InstanceProfile != "" {
		profile, profileFrom, profileTo = *in.InstanceProfile, t.at+".instanceProfile", "EC2NodeClass spec.instanceProfile"
	}
	if profile == "" {
		return errors.New("instanceProfile is required: set it here, or set a default with --default-instance-profile")
	}
	family, err := t.family()
	if err != nil {
		return err
	}
	tags, ids := selected(in.SubnetSelector)
	for _, id := range ids {
		s.SubnetSelectorTerms = append(s.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{ID: id})
	}
	if len(tags) > 0 {
		s.SubnetSelectorTerms = append(s.SubnetSelectorTerms, awsv1.SubnetSelectorTerm{Tags: tags})
	}
	t.came(t.at+".subnetSelector", "EC2NodeClass spec.subnetSelectorTerms")
	tags, ids = selected(in.SecurityGroupSelector)
	for _, id := range ids {
		s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{ID: id})
	}
	if len(tags) > 0 {
		s.SecurityGroupSelectorTerms = append(s.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{Tags: tags})
	}
	t.came(t.at+".securityGroupSelector", "EC2NodeClass spec.securityGroupSelectorTerms")
	s.InstanceProfile = &profile
	t.came(profileFrom, profileTo)
	t.images(family)
	t.rest()
	t.metadata()
	return nil
}

// family returns the AMI family, AL2 by default. It returns an error if no family of an EC2NodeClass is equivalent, or
// the family requires AMIs to be named.
func (t *ec2Translation) family() (string, error) {
	if t.in.AMIFamily == nil {
		return awsv1.AMIFamilyAL2, nil
	}
	family := *t.in.AMIFamily
	switch {
	case family == awsv1.AMIFamilyAL2, family == awsv1.AMIFamilyBottlerocket, family == awsv1.AMIFamilyCustom && len(t.in.AMISelector) > 0:
		return family, nil
	case t.at == "spec": // an AWSNodeTemplate can name images
		return "", fmt.Errorf("amiFamily %s: use AL2 or Bottlerocket, or Custom with an amiSelector; or write an EC2NodeClass and name it in spec.providerRef", family)
	}
	return "", fmt.Errorf("amiFamily %s: there is no image for it without a selector; use AL2 or Bottlerocket, or name an EC2NodeClass in spec.providerRef", family)
}

// images chooses images: those of the selector, or the newest of the family.
func (t *ec2Translation) images(family string) {
	s, from := t.out, t.at+" without amiFamily"
	if t.in.AMIFamily != nil {
		from = t.at + ".amiFamily"
	}
	if len(t.in.AMISelector) > 0 {
		s.AMIFamily, s.AMISelectorTerms = &family, imageTerms(t.in.AMISelector)
		t.came(from, "EC2NodeClass spec.amiFamily="+family)
		t.came(t.at+".amiSelector", "EC2NodeClass spec.amiSelectorTerms")
		return
	}
	why := ""
	if family == awsv1.AMIFamilyAL2 && !publishesAL2(t.defaults.KubernetesVersion) {
		family, why = awsv1.AMIFamilyAL2023, "; AL2 is not published for Kubernetes "+t.defaults.KubernetesVersion
	}
	s.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: strings.ToLower(family) + "@latest"}}
	t.came(from, "EC2NodeClass spec.amiSelectorTerms: alias "+s.AMISelectorTerms[0].Alias+why)
}

// imageTerms are the terms of a selector of images: one for each id, else tags and name with each owner.
func imageTerms(in map[string]string) (out []awsv1.AMISelectorTerm) {
	tags, ids := selected(in)
	for _, id := range ids {
		out = append(out, awsv1.AMISelectorTerm{ID: id})
	}
	name, owners := tags["aws::name"], tags["aws::owners"]
	delete(tags, "aws::name")
	delete(tags, "aws::owners")
	if len(tags) == 0 && name == "" && owners == "" {
		return out
	}
	for owner := range strings.SplitSeq(owners, ",") {
		out = append(out, awsv1.AMISelectorTerm{Tags: tags, Name: name, Owner: strings.TrimSpace(owner)})
	}
	return out
}

// rest translates what has the same meaning in both forms.
func (t *ec2Translation) rest() {
	in, s := t.in, t.out
	if in.LaunchTemplate != nil {
		t.lost(t.at+".launchTemplate", "EC2NodeClass has no such field; set the settings of launch template "+*in.LaunchTemplate+" in the EC2NodeClass")
	}
	if len(in.Tags) > 0 {
		s.Tags = maps.Clone(in.Tags)
		t.came(t.at+".tags", "EC2NodeClass spec.tags")
	}
	if in.Context != nil {
		s.Context = in.Context
		t.came(t.at+".context", "EC2NodeClass spec.context")
	}
	if len(in.BlockDeviceMappings) > 0 {
		s.BlockDeviceMappings = in.BlockDeviceMappings
		t.came(t.at+".blockDeviceMappings", "EC2NodeClass spec.blockDeviceMappings")
	}
	if in.UserData != nil {
		s.UserData = in.UserData
		t.came(t.at+".userData", "EC2NodeClass spec.userData")
	}
	if in.DetailedMonitoring != nil {
		s.DetailedMonitoring = in.DetailedMonitoring
		t.came(t.at+".detailedMonitoring", "EC2NodeClass spec.detailedMonitoring")
	}
}

// metadata sets the instance metadata options, with the former default of two hops.
func (t *ec2Translation) metadata() {
	on, off, required, hops := "enabled", "disabled", "required", int64(2)
	out := &awsv1.MetadataOptions{HTTPEndpoint: &on, HTTPProtocolIPv6: &off, HTTPPutResponseHopLimit: &hops, HTTPTokens: &required}
	t.out.MetadataOptions = out
	m := t.in.MetadataOptions
	if m == nil {
		t.came(t.at+" without metadataOptions", "EC2NodeClass spec.metadataOptions.httpPutResponseHopLimit=2")
		return
	}
	for _, f := range []struct{ to, v **string }{
		{&out.HTTPEndpoint, &m.HTTPEndpoint}, {&out.HTTPProtocolIPv6, &m.HTTPProtocolIPv6}, {&out.HTTPTokens, &m.HTTPTokens},
	} {
		if *f.v != nil {
			*f.to = *f.v
		}
	}
	if m.HTTPPutResponseHopLimit != nil {
		out.HTTPPutResponseHopLimit = m.HTTPPutResponseHopLimit
	}
	t.came(t.at+".metadataOptions", "EC2NodeClass spec.metadataOptions")
}

// lastMinorWithAL2 is the last minor version of Kubernetes for which EKS publishes images of AL2.
const lastMinorWithAL2 = 32

// publishesAL2 reports whether AL2 images are published for a Kubernetes version such as 1.36; true if the version is
// unknown.
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
