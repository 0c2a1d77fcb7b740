// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

// services are all services and calls that are simulated.
func services() []*service {
	queue := map[string]*operation{
		"DeleteMessage":      change((*tx).deleteMessage),
		"DeleteMessageBatch": change((*tx).deleteMessages),
		"GetQueueAttributes": change((*tx).queueAttributes),
		"GetQueueUrl":        read((*tx).queueURL),
		"ListQueues":         read((*tx).listQueues),
		"ReceiveMessage":     receiveMessage,
		"SendMessage":        change((*tx).sendMessage),
	}
	legacyCodes := map[string]string{"QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue"}
	return []*service{
		{
			name: "ec2", protocol: ec2Query, version: "2016-11-15", namespace: "http://ec2.amazonaws.com/doc/2016-11-15/",
			throttled: "RequestLimitExceeded", denied: "UnauthorizedOperation",
			operations: map[string]*operation{
				"CreateFleet":                              change((*tx).createFleet),
				"CreateLaunchTemplate":                     change((*tx).createLaunchTemplate),
				"CreateTags":                               change((*tx).createTags),
				"DeleteLaunchTemplate":                     change((*tx).deleteLaunchTemplate),
				"DeleteTags":                               change((*tx).deleteTags),
				"DescribeAvailabilityZones":                read((*tx).describeAvailabilityZones),
				"DescribeCapacityReservations":             read((*tx).describeCapacityReservations),
				"DescribeImages":                           read((*tx).describeImages),
				"DescribeInstanceStatus":                   read((*tx).describeInstanceStatus),
				"DescribeInstanceTypeOfferings":            read((*tx).describeInstanceTypeOfferings),
				"DescribeInstanceTypes":                    read((*tx).describeInstanceTypes),
				"DescribeInstances":                        read((*tx).describeInstances),
				"DescribeLaunchTemplateVersions":           read((*tx).describeLaunchTemplateVersions),
				"DescribeLaunchTemplates":                  read((*tx).describeLaunchTemplates),
				"DescribeNetworkInterfaces":                read((*tx).describeNetworkInterfaces),
				"DescribePlacementGroups":                  read((*tx).describePlacementGroups),
				"DescribeRegions":                          read((*tx).describeRegions),
				"DescribeSecurityGroups":                   read((*tx).describeSecurityGroups),
				"DescribeSpotPriceHistory":                 read((*tx).describeSpotPriceHistory),
				"DescribeSubnets":                          read((*tx).describeSubnets),
				"DescribeTags":                             read((*tx).describeTags),
				"DescribeVolumes":                          read((*tx).describeVolumes),
				"DescribeVpcs":                             read((*tx).describeVpcs),
				"GetInstanceTypesFromInstanceRequirements": read((*tx).typesFromRequirements),
				"RebootInstances":                          change((*tx).rebootInstances),
				"RunInstances":                             change((*tx).runInstances),
				"TerminateInstances":                       change((*tx).terminateInstances),
			},
		},
		{
			name: "autoscaling", protocol: awsQuery, version: "2011-01-01", namespace: "http://autoscaling.amazonaws.com/doc/2011-01-01/",
			throttled: "Throttling", denied: "AccessDenied",
			operations: map[string]*operation{
				"DescribeAccountLimits":               read((*tx).describeAccountLimits),
				"DescribeAutoScalingGroups":           read((*tx).describeGroups),
				"DescribeAutoScalingInstances":        read((*tx).describeGroupInstances),
				"DescribeInstanceRefreshes":           read((*tx).describeRefreshes),
				"DescribeLaunchConfigurations":        read((*tx).describeLaunchConfigurations),
				"DescribePolicies":                    read((*tx).describePolicies),
				"DescribeScalingActivities":           read((*tx).describeActivities),
				"DescribeTags":                        read((*tx).describeGroupTags),
				"DescribeWarmPool":                    read((*tx).describeWarmPool),
				"SetDesiredCapacity":                  change((*tx).setDesired),
				"SetInstanceProtection":               change((*tx).protect),
				"TerminateInstanceInAutoScalingGroup": change((*tx).terminateMember),
				"UpdateAutoScalingGroup":              change((*tx).updateGroup),
			},
		},
		{
			name: "iam", protocol: awsQuery, version: "2010-05-08", namespace: "https://iam.amazonaws.com/doc/2010-05-08/",
			throttled: "Throttling", denied: "AccessDenied",
			operations: map[string]*operation{
				"AddRoleToInstanceProfile":      change((*tx).addRole),
				"CreateInstanceProfile":         change((*tx).createProfile),
				"DeleteInstanceProfile":         change((*tx).deleteProfile),
				"GetInstanceProfile":            read((*tx).getProfile),
				"GetRole":                       read((*tx).getRole),
				"ListInstanceProfiles":          read((*tx).listProfiles),
				"RemoveRoleFromInstanceProfile": change((*tx).removeRole),
				"TagInstanceProfile":            change((*tx).tagProfile),
			},
		},
		{
			name: "sts", protocol: awsQuery, version: "2011-06-15", namespace: "https://sts.amazonaws.com/doc/2011-06-15/",
			throttled: "Throttling", denied: "AccessDenied",
			operations: map[string]*operation{"GetCallerIdentity": read((*tx).callerIdentity)},
		},
		{
			name: "ssm", protocol: awsJSON11, target: "AmazonSSM", throttled: "ThrottlingException", denied: "AccessDeniedException",
			operations: map[string]*operation{
				"GetParameter": read((*tx).getParameter), "GetParameters": read((*tx).getParameters), "GetParametersByPath": read((*tx).getParametersByPath),
			},
		},
		{
			name: "sqs", protocol: awsJSON10, target: "AmazonSQS", throttled: "RequestThrottled", denied: "AccessDeniedException",
			errorPrefix: "com.amazonaws.sqs#", legacyCodes: legacyCodes, operations: queue,
			query: &service{
				name: "sqs", protocol: awsQuery, version: "2012-11-05", namespace: "http://queue.amazonaws.com/doc/2012-11-05/", throttled: "RequestThrottled", denied: "AccessDenied",
				legacyCodes: legacyCodes, operations: queue,
			},
		},
		{
			name: "pricing", protocol: awsJSON11, target: "AWSPriceListService", throttled: "ThrottlingException", denied: "AccessDeniedException",
			operations: map[string]*operation{"DescribeServices": read((*tx).describeServices), "GetProducts": read((*tx).getProducts)},
		},
		{
			name: "eks", protocol: restJSON, throttled: "ThrottlingException", denied: "AccessDeniedException",
			operations: map[string]*operation{
				"DescribeCluster":       read((*tx).describeCluster).at("GET", "/clusters/{name}"),
				"DescribeNodegroup":     read((*tx).describeNodegroup).at("GET", "/clusters/{name}/node-groups/{nodegroupName}"),
				"ListClusters":          read((*tx).listClusters).at("GET", "/clusters"),
				"UpdateNodegroupConfig": change((*tx).updateNodegroup).at("POST", "/clusters/{name}/node-groups/{nodegroupName}/update-config"),
			},
		},
	}
}
