// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// implied are the actions that AWS asks for beside the calls made, each with the call that needs it.
var implied = map[string]string{
	"ec2:CreateTags":         "tags given to CreateFleet, CreateLaunchTemplate and RunInstances",
	"iam:PassRole":           "an instance profile given to RunInstances",
	"iam:TagInstanceProfile": "tags given to CreateInstanceProfile",
}

// TestPolicy: the policy document of the chart allows exactly the calls that this package makes of EC2, Auto Scaling,
// SSM, SQS, IAM, EKS, ARC zonal shift and the price list for node classes.
func TestPolicy(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "dovetail", "aws-iam-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Sid, Effect string
			Action      any
		}
	}
	if err := json.Unmarshal(raw, &policy); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for _, s := range policy.Statement {
		actions, ok := s.Action.([]any)
		if !ok {
			actions = []any{s.Action}
		}
		for _, a := range actions {
			name, _ := a.(string)
			if s.Effect != "Allow" || strings.Contains(name, "*") {
				t.Errorf("statement %s: %s %q: only single actions are allowed", s.Sid, s.Effect, name)
			}
			allowed[name] = true
		}
	}
	files, err := filepath.Glob(filepath.Join("*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "awstest") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.aws\.(EC2|AutoScaling|SSM|SQS|Pricing|IAM|EKS|ZonalShift)\.([A-Z]\w+)\(|\b(ec2|pricing)\.New(\w+)Paginator\(`).FindAllStringSubmatch(string(source), -1) {
			action := strings.ToLower(m[1]) + m[3] + ":" + m[2] + m[4]
			action = strings.Replace(action, "zonalshift:", "arc-zonal-shift:", 1)
			if action == "sqs:DeleteMessageBatch" {
				action = "sqs:DeleteMessage" // the batch has no action of its own
			}
			called[action] = true
		}
	}
	if len(called) < 15 {
		t.Fatalf("only %d calls were found in the source", len(called))
	}
	for a := range called {
		if !allowed[a] {
			t.Errorf("%s is called and not allowed", a)
		}
	}
	for a := range allowed {
		if _, ok := implied[a]; !called[a] && !ok {
			t.Errorf("%s is allowed and never called", a)
		}
	}
	for a := range implied {
		if !allowed[a] {
			t.Errorf("%s, which AWS asks for beside, is not allowed", a)
		}
	}
}
