// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// profileName is the instance profile that is made for a class: the same name for the same class, in every process.
func (p *Provider) profileName(c *nodeClass) string {
	sum := sha256.Sum256([]byte(p.region + "/" + c.name))
	name := p.config.ClusterName
	if len(name) > 100 {
		name = name[:100]
	}
	return name + "_" + hex.EncodeToString(sum[:8])
}

// ensureProfile makes the instance profile of a class with a role, and has it bear that role and no other.
func (p *Provider) ensureProfile(ctx context.Context, c *nodeClass) (string, error) {
	name := p.profileName(c)
	get := func() (*iamtypes.InstanceProfile, error) {
		res, err := p.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		if errorCode(err) == "NoSuchEntity" {
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
		res, err := p.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
			InstanceProfileName: &name, Path: sdk.String(fmt.Sprintf("/karpenter/%s/%s/%s/", p.region, p.config.ClusterName, c.uid)),
			Tags: []iamtypes.Tag{
				{Key: sdk.String("kubernetes.io/cluster/" + p.config.ClusterName), Value: sdk.String("owned")},
				{Key: sdk.String(awsv1.TagClusterName), Value: &p.config.ClusterName},
				{Key: sdk.String(awsv1.LabelNodeClass), Value: &c.name},
				{Key: sdk.String("topology.kubernetes.io/region"), Value: &p.region},
			},
		})
		switch {
		case errorCode(err) == "EntityAlreadyExists":
			if profile, err = get(); err != nil || profile == nil {
				return "", fmt.Errorf("instance profile %s is there and is not: %w", name, err)
			}
		case err != nil:
			return "", err
		default:
			profile = res.InstanceProfile
		}
	}
	for _, r := range profile.Roles {
		if deref(r.RoleName) == c.spec.Role {
			return name, nil
		}
	}
	for _, r := range profile.Roles {
		if _, err := p.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName}); err != nil && errorCode(err) != "NoSuchEntity" {
			return "", err
		}
	}
	_, err = p.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &c.spec.Role})
	switch errorCode(err) {
	case "NoSuchEntity":
		return "", newUnresolvedError(awsv1.ReasonInstanceProfileNotFound, "spec.role: %s: there is no such role in this account; create it or name another", c.spec.Role)
	case "LimitExceeded": // another process has just added it
		return name, nil
	}
	return name, err
}
