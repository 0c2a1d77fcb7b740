// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import "github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"

// services returns all services and calls that are simulated, of an account. c is nil if none of them is made.
func services(c *Cloud) []*wire.Service {
	queue := map[string]*wire.Operation{
		"DeleteMessage":      change(c, (*tx).deleteMessage),
		"DeleteMessageBatch": change(c, (*tx).deleteMessages),
		"GetQueueAttributes": change(c, (*tx).queueAttributes),
		"GetQueueUrl":        read(c, (*tx).queueURL),
		"ListQueues":         read(c, (*tx).listQueues),
		"ReceiveMessage":     c.receiving(),
		"SendMessage":        change(c, (*tx).sendMessage),
	}
	legacyCodes := map[string]string{"QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue"}
	return []*wire.Service{
		{
			Name: "ec2", Protocol: wire.EC2Query, Version: "2016-11-15", Namespace: "http://ec2.amazonaws.com/doc/2016-11-15/",
			Throttled: "RequestLimitExceeded", Denied: "UnauthorizedOperation",
			Operations: map[string]*wire.Operation{
				"CreateFleet":                              change(c, (*tx).createFleet),
				"CreateLaunchTemplate":                     change(c, (*tx).createLaunchTemplate),
				"CreateTags":                               change(c, (*tx).createTags),
				"DeleteLaunchTemplate":                     change(c, (*tx).deleteLaunchTemplate),
				"DeleteTags":                               change(c, (*tx).deleteTags),
				"DescribeAvailabilityZones":                read(c, (*tx).describeAvailabilityZones),
				"DescribeCapacityReservations":             read(c, (*tx).describeCapacityReservations),
				"DescribeImages":                           read(c, (*tx).describeImages),
				"DescribeInstanceStatus":                   read(c, (*tx).describeInstanceStatus),
				"DescribeInstanceTypeOfferings":            read(c, (*tx).describeInstanceTypeOfferings),
				"DescribeInstanceTypes":                    read(c, (*tx).describeInstanceTypes),
				"DescribeInstances":                        read(c, (*tx).describeInstances),
				"DescribeLaunchTemplateVersions":           read(c, (*tx).describeLaunchTemplateVersions),
				"DescribeLaunchTemplates":                  read(c, (*tx).describeLaunchTemplates),
				"DescribeNetworkInterfaces":                read(c, (*tx).describeNetworkInterfaces),
				"DescribePlacementGroups":                  read(c, (*tx).describePlacementGroups),
				"DescribeRegions":                          read(c, (*tx).describeRegions),
				"DescribeSecurityGroups":                   read(c, (*tx).describeSecurityGroups),
				"DescribeSpotPriceHistory":                 read(c, (*tx).describeSpotPriceHistory),
				"DescribeSubnets":                          read(c, (*tx).describeSubnets),
				"DescribeTags":                             read(c, (*tx).describeTags),
				"DescribeVolumes":                          read(c, (*tx).describeVolumes),
				"DescribeVpcs":                             read(c, (*tx).describeVpcs),
				"GetInstanceTypesFromInstanceRequirements": read(c, (*tx).typesFromRequirements),
				"RebootInstances":                          change(c, (*tx).rebootInstances),
				"RunInstances":                             change(c, (*tx).runInstances),
				"TerminateInstances":                       change(c, (*tx).terminateInstances),
			},
		},
		{
			Name: "autoscaling", Protocol: wire.AWSQuery, Version: "2011-01-01", Namespace: "http://autoscaling.amazonaws.com/doc/2011-01-01/",
			Throttled: "Throttling", Denied: "AccessDenied",
			Operations: map[string]*wire.Operation{
				"CreateOrUpdateTags":                  change(c, (*tx).tagGroups),
				"DeleteTags":                          change(c, (*tx).untagGroups),
				"DescribeAccountLimits":               read(c, (*tx).describeAccountLimits),
				"DescribeAutoScalingGroups":           read(c, (*tx).describeGroups),
				"DescribeAutoScalingInstances":        read(c, (*tx).describeGroupInstances),
				"DescribeInstanceRefreshes":           read(c, (*tx).describeRefreshes),
				"DescribeLaunchConfigurations":        read(c, (*tx).describeLaunchConfigurations),
				"DescribePolicies":                    read(c, (*tx).describePolicies),
				"DescribeScalingActivities":           read(c, (*tx).describeActivities),
				"DescribeTags":                        read(c, (*tx).describeGroupTags),
				"DescribeWarmPool":                    read(c, (*tx).describeWarmPool),
				"SetDesiredCapacity":                  change(c, (*tx).setDesired),
				"SetInstanceProtection":               change(c, (*tx).protect),
				"TerminateInstanceInAutoScalingGroup": change(c, (*tx).terminateMember),
				"UpdateAutoScalingGroup":              change(c, (*tx).updateGroup),
			},
		},
		{
			Name: "iam", Protocol: wire.AWSQuery, Version: "2010-05-08", Namespace: "https://iam.amazonaws.com/doc/2010-05-08/",
			Throttled: "Throttling", Denied: "AccessDenied",
			Operations: map[string]*wire.Operation{
				"AddRoleToInstanceProfile":      change(c, (*tx).addRole),
				"CreateInstanceProfile":         change(c, (*tx).createProfile),
				"DeleteInstanceProfile":         change(c, (*tx).deleteProfile),
				"GetInstanceProfile":            read(c, (*tx).getProfile),
				"GetRole":                       read(c, (*tx).getRole),
				"ListInstanceProfiles":          read(c, (*tx).listProfiles),
				"RemoveRoleFromInstanceProfile": change(c, (*tx).removeRole),
				"TagInstanceProfile":            change(c, (*tx).tagProfile),
			},
		},
		{
			Name: "sts", Protocol: wire.AWSQuery, Version: "2011-06-15", Namespace: "https://sts.amazonaws.com/doc/2011-06-15/",
			Throttled: "Throttling", Denied: "AccessDenied",
			Operations: map[string]*wire.Operation{"GetCallerIdentity": read(c, (*tx).callerIdentity)},
		},
		{
			Name: "ssm", Protocol: wire.AWSJSON11, Target: "AmazonSSM", Throttled: "ThrottlingException", Denied: "AccessDeniedException",
			Operations: map[string]*wire.Operation{
				"GetParameter": read(c, (*tx).getParameter), "GetParameters": read(c, (*tx).getParameters), "GetParametersByPath": read(c, (*tx).getParametersByPath),
			},
		},
		{
			Name: "sqs", Protocol: wire.AWSJSON10, Target: "AmazonSQS", Throttled: "RequestThrottled", Denied: "AccessDeniedException",
			ErrorPrefix: "com.amazonaws.sqs#", LegacyCodes: legacyCodes, Operations: queue,
			Query: &wire.Service{
				Name: "sqs", Protocol: wire.AWSQuery, Version: "2012-11-05", Namespace: "http://queue.amazonaws.com/doc/2012-11-05/", Throttled: "RequestThrottled", Denied: "AccessDenied",
				LegacyCodes: legacyCodes, Operations: queue,
			},
		},
		{
			Name: "pricing", Protocol: wire.AWSJSON11, Target: "AWSPriceListService", Throttled: "ThrottlingException", Denied: "AccessDeniedException",
			Operations: map[string]*wire.Operation{"DescribeServices": read(c, (*tx).describeServices), "GetProducts": read(c, (*tx).getProducts)},
		},
		{
			Name: "arc-zonal-shift", Protocol: wire.RESTJSON, Throttled: "ThrottlingException", Denied: "AccessDeniedException",
			Operations: map[string]*wire.Operation{"GetManagedResource": read(c, (*tx).getManagedResource).At("GET", "/managedresources/{resourceIdentifier}")},
		},
		{
			Name: "eks", Protocol: wire.RESTJSON, Throttled: "ThrottlingException", Denied: "AccessDeniedException",
			Operations: map[string]*wire.Operation{
				"DescribeCluster":       read(c, (*tx).describeCluster).At("GET", "/clusters/{name}"),
				"DescribeNodegroup":     read(c, (*tx).describeNodegroup).At("GET", "/clusters/{name}/node-groups/{nodegroupName}"),
				"ListClusters":          read(c, (*tx).listClusters).At("GET", "/clusters"),
				"UpdateNodegroupConfig": change(c, (*tx).updateNodegroup).At("POST", "/clusters/{name}/node-groups/{nodegroupName}/update-config"),
			},
		},
	}
}
