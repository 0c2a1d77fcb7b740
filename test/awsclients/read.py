# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

"""Makes every call of the simulated AWS that only reads, and fails for an answer that boto3 can't read or that lacks what it must have."""

import sys

import boto3

url = sys.argv[1]
queue = "https://sqs.us-east-1.amazonaws.com/111122223333/sandbox"


def client(service):
    return boto3.client(service, endpoint_url=url)


# service, call, parameters, the member that must not be empty ("" if it may)
calls = [
    ("ec2", "describe_instances", {}, "Reservations"), ("ec2", "describe_instance_status", {"IncludeAllInstances": True}, "InstanceStatuses"),
    ("ec2", "describe_instance_types", {"MaxResults": 100}, "InstanceTypes"), ("ec2", "describe_instance_type_offerings", {"LocationType": "availability-zone"}, "InstanceTypeOfferings"),
    ("ec2", "describe_subnets", {}, "Subnets"), ("ec2", "describe_security_groups", {}, "SecurityGroups"), ("ec2", "describe_vpcs", {}, "Vpcs"),
    ("ec2", "describe_images", {"Owners": ["amazon"]}, "Images"), ("ec2", "describe_availability_zones", {}, "AvailabilityZones"), ("ec2", "describe_regions", {}, "Regions"),
    ("ec2", "describe_tags", {}, "Tags"), ("ec2", "describe_volumes", {}, "Volumes"), ("ec2", "describe_network_interfaces", {}, "NetworkInterfaces"),
    ("ec2", "describe_spot_price_history", {"MaxResults": 100}, "SpotPriceHistory"), ("ec2", "describe_launch_templates", {}, "LaunchTemplates"),
    ("ec2", "describe_launch_template_versions", {"LaunchTemplateName": "nodes"}, "LaunchTemplateVersions"),
    ("ec2", "describe_capacity_reservations", {}, ""), ("ec2", "describe_placement_groups", {}, ""),
    ("ec2", "get_instance_types_from_instance_requirements", {"ArchitectureTypes": ["x86_64"], "VirtualizationTypes": ["hvm"], "InstanceRequirements": {"VCpuCount": {"Min": 8, "Max": 8}, "MemoryMiB": {"Min": 32768}}}, "InstanceTypes"),
    ("autoscaling", "describe_auto_scaling_groups", {}, ""), ("autoscaling", "describe_auto_scaling_instances", {}, ""), ("autoscaling", "describe_tags", {}, ""),
    ("autoscaling", "describe_scaling_activities", {}, ""), ("autoscaling", "describe_launch_configurations", {}, ""), ("autoscaling", "describe_account_limits", {}, "MaxNumberOfAutoScalingGroups"), ("autoscaling", "describe_policies", {}, ""),
    ("sqs", "list_queues", {}, "QueueUrls"), ("sqs", "get_queue_url", {"QueueName": "sandbox"}, "QueueUrl"), ("sqs", "get_queue_attributes", {"QueueUrl": queue, "AttributeNames": ["All"]}, "Attributes"),
    ("sqs", "receive_message", {"QueueUrl": queue, "AttributeNames": ["All"], "MaxNumberOfMessages": 10}, "Messages"),
    ("iam", "get_role", {"RoleName": "sandbox-node"}, "Role"), ("iam", "list_instance_profiles", {}, "InstanceProfiles"), ("iam", "get_instance_profile", {"InstanceProfileName": "sandbox-node"}, "InstanceProfile"),
    ("sts", "get_caller_identity", {}, "Account"), ("eks", "list_clusters", {}, "clusters"), ("eks", "describe_cluster", {"name": "sandbox"}, "cluster"),
    ("ssm", "get_parameters_by_path", {"Path": "/aws/service/eks/optimized-ami/1.36", "Recursive": True}, "Parameters"),
    ("pricing", "describe_services", {}, "Services"), ("pricing", "get_products", {"ServiceCode": "AmazonEC2", "MaxResults": 10}, "PriceList"),
]
failed = 0
for service, call, parameters, must in calls:
    try:
        answer = getattr(client(service), call)(**parameters)
        if must and not answer.get(must):
            raise ValueError("no %s in %s" % (must, sorted(answer)))
    except Exception as e:  # whatever it is, it is told, and the next call is made
        failed += 1
        print("%s %s: %s: %s" % (service, call, type(e).__name__, e))
pages = list(client("ec2").get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 100}))
names = [t["InstanceType"] for page in pages for t in page["InstanceTypes"]]
if len(pages) < 2 or len(set(names)) != len(names):
    failed += 1
    print("ec2 describe_instance_types: %d pages, %d types, %d of them different" % (len(pages), len(names), len(set(names))))
print("%d calls read, %d failed" % (len(calls), failed))
sys.exit(failed > 0)
