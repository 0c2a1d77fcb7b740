// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import "time"

// The shapes of IAM, version 2010-05-08: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type iamGetInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
}

type iamGetInstanceProfileResponse struct {
	InstanceProfile *iamInstanceProfile `xml:"InstanceProfile,omitempty"`
}

type iamInstanceProfile struct {
	Path                string     `xml:"Path,omitempty"`
	InstanceProfileName string     `xml:"InstanceProfileName,omitempty"`
	InstanceProfileId   string     `xml:"InstanceProfileId,omitempty"`
	Arn                 string     `xml:"Arn,omitempty"`
	CreateDate          *time.Time `xml:"CreateDate,omitempty"`
	Roles               []iamRole  `xml:"Roles>member,omitempty"`
	Tags                []iamTag   `xml:"Tags>member,omitempty"`
}

type iamRole struct {
	Path       string     `xml:"Path,omitempty"`
	RoleName   string     `xml:"RoleName,omitempty"`
	RoleId     string     `xml:"RoleId,omitempty"`
	Arn        string     `xml:"Arn,omitempty"`
	CreateDate *time.Time `xml:"CreateDate,omitempty"`
}

type iamTag struct {
	Key   string `in:"Key" xml:"Key,omitempty"`
	Value string `in:"Value" xml:"Value,omitempty"`
}

type iamCreateInstanceProfileRequest struct {
	InstanceProfileName string   `in:"InstanceProfileName"`
	Path                string   `in:"Path"`
	Tags                []iamTag `in:"Tags.member"`
}

type iamCreateInstanceProfileResponse struct {
	InstanceProfile *iamInstanceProfile `xml:"InstanceProfile,omitempty"`
}

type iamDeleteInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
}

type iamAddRoleToInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
	RoleName            string `in:"RoleName"`
}

type iamRemoveRoleFromInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
	RoleName            string `in:"RoleName"`
}

type iamTagInstanceProfileRequest struct {
	InstanceProfileName string   `in:"InstanceProfileName"`
	Tags                []iamTag `in:"Tags.member"`
}

type iamListInstanceProfilesRequest struct {
	PathPrefix string `in:"PathPrefix"`
	Marker     string `in:"Marker"`
	MaxItems   *int64 `in:"MaxItems"`
}

type iamListInstanceProfilesResponse struct {
	InstanceProfiles []iamInstanceProfile `xml:"InstanceProfiles>member,omitempty"`
	IsTruncated      *bool                `xml:"IsTruncated,omitempty"`
	Marker           string               `xml:"Marker,omitempty"`
}

type iamGetRoleRequest struct {
	RoleName string `in:"RoleName"`
}

type iamGetRoleResponse struct {
	Role *iamRole `xml:"Role,omitempty"`
}
