// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// AMI families.
const (
	FamilyAL2          = awsv1.AMIFamilyAL2
	FamilyAL2023       = awsv1.AMIFamilyAL2023
	FamilyBottlerocket = awsv1.AMIFamilyBottlerocket
	familyCustom       = awsv1.AMIFamilyCustom
)

// IsWindows reports whether machines of an AMI family run Windows.
func IsWindows(family string) bool { return strings.HasPrefix(family, "Windows") }
