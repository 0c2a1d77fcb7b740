// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

import "time"

// The shapes of IAM, version 2010-05-08: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type IAMGetInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
}

type IAMGetInstanceProfileResponse struct {
	InstanceProfile *IAMInstanceProfile `xml:"InstanceProfile,omitempty"`
}

type IAMInstanceProfile struct {
	Path                string     `xml:"Path,omitempty"`
	InstanceProfileName string     `xml:"InstanceProfileName,omitempty"`
	InstanceProfileId   string     `xml:"InstanceProfileId,omitempty"`
	Arn                 string     `xml:"Arn,omitempty"`
	CreateDate          *time.Time `xml:"CreateDate,omitempty"`
	Roles               []IAMRole  `xml:"Roles>member,omitempty"`
	Tags                []IAMTag   `xml:"Tags>member,omitempty"`
}

type IAMRole struct {
	Path       string     `xml:"Path,omitempty"`
	RoleName   string     `xml:"RoleName,omitempty"`
	RoleId     string     `xml:"RoleId,omitempty"`
	Arn        string     `xml:"Arn,omitempty"`
	CreateDate *time.Time `xml:"CreateDate,omitempty"`
}

type IAMTag struct {
	Key   string `in:"Key" xml:"Key,omitempty"`
	Value string `in:"Value" xml:"Value,omitempty"`
}

type IAMCreateInstanceProfileRequest struct {
	InstanceProfileName string   `in:"InstanceProfileName"`
	Path                string   `in:"Path"`
	Tags                []IAMTag `in:"Tags.member"`
}

type IAMCreateInstanceProfileResponse struct {
	InstanceProfile *IAMInstanceProfile `xml:"InstanceProfile,omitempty"`
}

type IAMDeleteInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
}

type IAMAddRoleToInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
	RoleName            string `in:"RoleName"`
}

type IAMRemoveRoleFromInstanceProfileRequest struct {
	InstanceProfileName string `in:"InstanceProfileName"`
	RoleName            string `in:"RoleName"`
}

type IAMTagInstanceProfileRequest struct {
	InstanceProfileName string   `in:"InstanceProfileName"`
	Tags                []IAMTag `in:"Tags.member"`
}

type IAMListInstanceProfilesRequest struct {
	PathPrefix string `in:"PathPrefix"`
	Marker     string `in:"Marker"`
	MaxItems   *int64 `in:"MaxItems"`
}

type IAMListInstanceProfilesResponse struct {
	InstanceProfiles []IAMInstanceProfile `xml:"InstanceProfiles>member,omitempty"`
	IsTruncated      *bool                `xml:"IsTruncated,omitempty"`
	Marker           string               `xml:"Marker,omitempty"`
}

type IAMGetRoleRequest struct {
	RoleName string `in:"RoleName"`
}

type IAMGetRoleResponse struct {
	Role *IAMRole `xml:"Role,omitempty"`
}
