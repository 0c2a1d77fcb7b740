// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// profileName is the name of the instance profile that is made for a class: the same for the same class, in every
// process.
func (cr *Resolver) profileName(c *Class) string {
	sum := sha256.Sum256([]byte(cr.aws.Region + "/" + c.Name))
	name := cr.aws.Config.ClusterName
	if len(name) > 100 {
		name = name[:100]
	}
	return name + "_" + hex.EncodeToString(sum[:8])
}

// ensureProfile makes the instance profile of a class with a role, unless it exists, and has it bear that role and no
// other. It returns the profile's name.
func (cr *Resolver) ensureProfile(ctx context.Context, c *Class) (string, error) {
	name := cr.profileName(c)
	get := func() (*iamtypes.InstanceProfile, error) {
		res, err := cr.aws.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		if awsapi.ErrorCode(err) == "NoSuchEntity" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return res.InstanceProfile, nil
	}
	profile, err := get()
	if err != nil {
		return "", err
	}
	if profile == nil {
		res, err := cr.aws.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
			InstanceProfileName: &name, Path: sdk.String(fmt.Sprintf("/karpenter/%s/%s/%s/", cr.aws.Region, cr.aws.Config.ClusterName, c.UID)),
			Tags: []iamtypes.Tag{
				{Key: sdk.String("kubernetes.io/cluster/" + cr.aws.Config.ClusterName), Value: sdk.String("owned")},
				{Key: sdk.String(awsv1.TagClusterName), Value: &cr.aws.Config.ClusterName},
				{Key: sdk.String(awsv1.LabelNodeClass), Value: &c.Name},
				{Key: sdk.String("topology.kubernetes.io/region"), Value: &cr.aws.Region},
			},
		})
		switch {
		case awsapi.ErrorCode(err) == "EntityAlreadyExists":
			if profile, err = get(); err != nil || profile == nil {
				return "", fmt.Errorf("instance profile %s exists but can't be read: %w", name, err)
			}
		case err != nil:
			return "", err
		default:
			profile = res.InstanceProfile
		}
	}
	role := c.Spec.Role[strings.LastIndex(c.Spec.Role, "/")+1:] // IAM's calls take a role by its name, without its path
	for _, r := range profile.Roles {
		if awsapi.Deref(r.RoleName) == role {
			return name, nil
		}
	}
	for _, r := range profile.Roles {
		if _, err := cr.aws.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName}); err != nil && awsapi.ErrorCode(err) != "NoSuchEntity" {
			return "", err
		}
	}
	_, err = cr.aws.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	switch awsapi.ErrorCode(err) {
	case "NoSuchEntity":
		return "", awsapi.NewUnresolvedError(awsv1.ReasonInstanceProfileNotFound, "spec.role: %s: there is no such role in this account; create it or name another", c.Spec.Role)
	case "LimitExceeded": // another process has just added it
		return name, nil
	}
	return name, err
}

// DeleteProfile deletes the instance profile created for a class, identified by tags with the names of the class and the
// cluster. Instance profiles named by users are kept. A missing profile is not an error.
func (cr *Resolver) DeleteProfile(ctx context.Context, c *Class) error {
	name := cr.profileName(c)
	if awsapi.Deref(c.Spec.InstanceProfile) == name {
		return nil
	}
	defer cr.profiles.Forget(c.UID + " " + c.Spec.Role)
	res, err := cr.aws.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch code := awsapi.ErrorCode(err); {
	case code == "NoSuchEntity":
		return nil
	case awsapi.IsDenied(code) && c.Spec.InstanceProfile != nil:
		return nil // a class that names its own has none of ours, so nobody had to allow the call
	case err != nil:
		return awsapi.ExplainDenied("instance profile "+name, err)
	}
	if !cr.bearsClassTags(c, res.InstanceProfile.Tags) {
		cr.aws.Log.Warn("the instance profile of a node class exists with other tags, and is left unchanged", "instanceProfile", name, "nodeClass", c.Name)
		return nil
	}
	for _, r := range res.InstanceProfile.Roles {
		_, err := cr.aws.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
		if err != nil && awsapi.ErrorCode(err) != "NoSuchEntity" {
			return awsapi.ExplainDenied("instance profile "+name, err)
		}
	}
	_, err = cr.aws.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && awsapi.ErrorCode(err) != "NoSuchEntity" {
		return awsapi.ExplainDenied("instance profile "+name, err)
	}
	return nil
}

// bearsClassTags reports whether something with these tags was made for the class on behalf of this cluster.
func (cr *Resolver) bearsClassTags(c *Class, tags []iamtypes.Tag) bool {
	have := map[string]string{}
	for _, t := range tags {
		have[awsapi.Deref(t.Key)] = awsapi.Deref(t.Value)
	}
	return have["kubernetes.io/cluster/"+cr.aws.Config.ClusterName] == "owned" && have[awsv1.LabelNodeClass] == c.Name
}
