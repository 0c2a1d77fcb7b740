// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsclients

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

//go:embed read.py
var read string

// environment keeps a person's own configuration of AWS out.
func environment() []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	return append(own, "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=none", "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=")
}

// account is a simulated AWS in which an instance runs.
func account(t *testing.T) string {
	t.Helper()
	url := simulatedAWS(t)
	s := &side{Clients: connect(t, url)}
	for _, name := range []string{"DescribeSubnets", "DescribeSecurityGroups", "DescribeImages of Amazon", "CreateLaunchTemplate", "CreateFleet"} {
		for _, r := range requests {
			if r.name == name {
				if _, err := r.do(t.Context(), s); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
	out, err := s.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{s.instance}})
	if err != nil || len(out.Reservations) != 1 || out.Reservations[0].Instances[0].State.Name == types.InstanceStateNameTerminated || sdk.ToString(out.Reservations[0].Instances[0].InstanceId) == "" {
		t.Fatalf("have %+v, %v", out, err)
	}
	return url
}

// TestBoto3 has boto3 make every call that only reads, and read the answer.
func TestBoto3(t *testing.T) {
	python := program(t, "python3")
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import boto3").CombinedOutput(); err != nil {
		t.Skipf("boto3 is not installed here: not run: %s", out)
	}
	cmd := exec.CommandContext(t.Context(), python, "-", account(t))
	cmd.Stdin, cmd.Env = strings.NewReader(read), environment()
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// TestCLI has aws-cli make one call of each service and protocol and more of EC2, and print the answer as JSON; errors have AWS's codes.
func TestCLI(t *testing.T) {
	cli := program(t, "aws")
	url := account(t)
	for _, c := range []struct{ command, code string }{
		{"sts get-caller-identity", ""}, {"ec2 describe-instances", ""}, {"ec2 describe-instances --instance-ids i-0123456789abcdef0", "InvalidInstanceID.NotFound"},
		{"ec2 describe-instance-types --instance-types m5.large", ""}, {"ec2 describe-volumes", ""}, {"ec2 describe-tags", ""}, {"ec2 describe-instance-types --instance-types m99.large", "InvalidInstanceType"},
		{"autoscaling describe-auto-scaling-groups", ""}, {"autoscaling describe-account-limits", ""}, {"autoscaling set-desired-capacity --auto-scaling-group-name none --desired-capacity 1", "ValidationError"},
		{"sqs list-queues", ""}, {"sqs get-queue-url --queue-name none", "NonExistentQueue"}, {"ssm get-parameters-by-path --path /aws/service/eks/optimized-ami/1.36 --recursive --max-items 3", ""},
		{"eks list-clusters", ""}, {"eks describe-cluster --name sandbox", ""}, {"eks describe-cluster --name none", "ResourceNotFoundException"},
		{"iam list-instance-profiles", ""}, {"iam get-instance-profile --instance-profile-name none", "NoSuchEntity"}, {"pricing describe-services", ""}, {"pricing get-products --service-code AmazonEC2 --max-items 1", ""},
	} {
		out, err := run(t.Context(), cli, append(strings.Fields(c.command), "--endpoint-url", url, "--output", "json")...)
		switch {
		case c.code == "" && (err != nil || !json.Valid([]byte(out))):
			t.Errorf("aws %s: %v: %s", c.command, err, out)
		case c.code != "" && (err == nil || !strings.Contains(out, c.code)):
			t.Errorf("aws %s: have %q, want code %s", c.command, out, c.code)
		}
	}
}

func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}
