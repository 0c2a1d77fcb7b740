// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestOfferingsAreTheCatalogue: what is made of EC2's answers by the published rules is what is published of every
// type: labels, allocatable, prices.
func TestOfferingsAreTheCatalogue(t *testing.T) {
	all := some(t)
	a := open(t, all, cloud.Wall{})
	have, err := a.provider().Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*model.InstanceType{}
	for _, it := range have {
		by[it.Name] = it
	}
	missing, memory := 0, 0
	for i := range all.Types {
		want := &all.Types[i]
		it := by[want.Name]
		if it == nil {
			if strings.HasPrefix(want.Name, "a1.") {
				continue // AL2023 does not boot there
			}
			if want.Labels[awsv1.LabelInstanceGPUManufacturer] == "" || want.Labels[awsv1.LabelInstanceGPUManufacturer] == "nvidia" {
				missing++ // there is no image for GPUs of others
				t.Errorf("%s is not offered", want.Name)
			}
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(want.Labels)) {
			if it.Labels[k] != want.Labels[k] {
				t.Errorf("%s: label %s is %q, want %q", want.Name, k, it.Labels[k], want.Labels[k])
			}
		}
		for r, v := range want.Allocatable {
			d := a.resources.Dim(r)
			switch got := it.Allocatable.At(d); {
			case r == "memory" && got/(1<<20) == v/(1<<20), r == "ephemeral-storage" && got/(1<<30) == v/(1<<30):
				memory++
			case r == "memory" && (got-v)/(1<<20) <= 1 && (v-got)/(1<<20) <= 1: // rounded on the way
			case got != v:
				t.Errorf("%s: %s of %d is allocatable, want %d", want.Name, r, got, v)
			}
		}
	}
	if len(have) < 1000 || memory < 2000 {
		t.Fatalf("%d types, %d amounts agree: too few to mean anything", len(have), memory)
	}
}

func statusOf(t *testing.T, p *aws.Provider, nc cloud.NodeClass) (map[string]model.Condition, awsv1.EC2NodeClassStatus) {
	t.Helper()
	st, err := p.ClassStatus(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	var rest awsv1.EC2NodeClassStatus
	if len(st.Status) > 0 {
		if err := json.Unmarshal(st.Status, &rest); err != nil {
			t.Fatal(err)
		}
	}
	return st.Conditions, rest
}

func TestClassStatus(t *testing.T) {
	a := open(t, some(t, "m5.large", "m6g.large"), cloud.Wall{})
	conditions, st := statusOf(t, a.provider(), class(""))
	for _, k := range []string{"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"} {
		if !conditions[k].True() {
			t.Errorf("%s is %+v", k, conditions[k])
		}
	}
	if len(st.Subnets) != 3 || len(st.SecurityGroups) != 1 || len(st.AMIs) < 2 || st.InstanceProfile == "" || st.Subnets[0].ZoneID == "" || len(st.AMIs[0].Requirements) == 0 {
		t.Errorf("status is %+v", st)
	}
	again, _ := a.provider().ClassStatus(t.Context(), class(""))
	first, _ := a.provider().ClassStatus(t.Context(), class(""))
	if string(again.Status) != string(first.Status) {
		t.Error("asked twice, the status is written in two ways")
	}
}

// TestDeprecatedImages: images that their owner has deprecated are found as ever, so that a class that names one stays Ready.
func TestDeprecatedImages(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock)
	_, status := statusOf(t, a.provider(), class(""))
	if len(status.AMIs) == 0 {
		t.Fatal("the class has no image")
	}
	clock.ahead.Store(int64(3 * 365 * 24 * time.Hour))
	for _, terms := range []string{`[{"id":"` + status.AMIs[0].ID + `"}]`, `[{"alias":"al2023@latest"}]`} {
		conditions, status := statusOf(t, a.provider(), class(`{"role":"sandbox-node","amiFamily":"AL2023","amiSelectorTerms":`+terms+`,`+discovery+`}`))
		if !conditions["AMIsReady"].True() || len(status.AMIs) == 0 || !status.AMIs[0].Deprecated {
			t.Errorf("%s: %+v, %+v; want a deprecated image", terms, conditions["AMIsReady"], status.AMIs)
		}
	}
}

// TestRoleWithPath: a role may be written with its path, as consoles show it.
func TestRoleWithPath(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	conditions, _ := statusOf(t, a.provider(), class(`{"role":"/platform/sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],`+discovery+`}`))
	if !conditions["InstanceProfileReady"].True() {
		t.Errorf("%+v", conditions["InstanceProfileReady"])
	}
}

// TestClassMistakes: whatever a person has to mend is a False condition that names field and cause; what can't be
// bought with is not bought with.
func TestClassMistakes(t *testing.T) {
	const head = `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],`
	for _, c := range []struct {
		name, spec, condition, reason string
		says                          []string
		fault                         *awstest.Fault
		gate                          bool // NodeClassCEL is on
	}{
		{name: "no subnet", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"tags":{"no":"such"}}],"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}]}`,
			condition: "SubnetsReady", reason: "SubnetsNotFound", says: []string{"spec.subnetSelectorTerms", `"no":"such"`}},
		{name: "no security group", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}],"securityGroupSelectorTerms":[{"name":"nobody"}]}`,
			condition: "SecurityGroupsReady", reason: "SecurityGroupsNotFound", says: []string{"spec.securityGroupSelectorTerms", "nobody"}},
		{name: "unknown alias version", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@v19990101"}],` + discovery + `}`,
			condition: "AMIsReady", reason: "AMINotFound", says: []string{"spec.amiSelectorTerms[0].alias", "al2023@v19990101", "1.36"}},
		{name: "an alias that has ended", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2@latest"}],` + discovery + `}`,
			condition: "AMIsReady", reason: "AMINotFound", says: []string{"al2@latest"}},
		{name: "no image of that id", spec: `{"role":"sandbox-node","amiFamily":"AL2023","amiSelectorTerms":[{"id":"ami-0123456789abcdef0"}],` + discovery + `}`,
			condition: "AMIsReady", reason: "AMINotFound", says: []string{"spec.amiSelectorTerms", "ami-0123456789abcdef0"}},
		{name: "no such parameter", spec: `{"role":"sandbox-node","amiFamily":"AL2023","amiSelectorTerms":[{"ssmParameter":"/no/such"}],` + discovery + `}`,
			condition: "AMIsReady", reason: "AMINotFound", says: []string{"spec.amiSelectorTerms[0].ssmParameter", "/no/such"}},
		{name: "no such role", spec: `{"role":"nobody","amiSelectorTerms":[{"alias":"al2023@latest"}],` + discovery + `}`,
			condition: "InstanceProfileReady", reason: "InstanceProfileNotFound", says: []string{"spec.role", "nobody"}},
		{name: "a kubelet configuration that is none", spec: head + discovery + `,"kubelet":{"evictionHard":{"memory.available":"lots"}}}`,
			condition: "ValidationSucceeded", reason: "InvalidKubeletConfiguration", says: []string{"spec.kubelet.evictionHard.memory.available", "lots"}},
		{name: "less than nothing reserved", gate: true, spec: head + discovery + `,"kubelet":{"kubeReserved":{"memory":"-100 + 200"}}}`,
			condition: "ValidationSucceeded", reason: "InvalidKubeletConfiguration", says: []string{"spec.kubelet.kubeReserved.memory", "-100 + 200"}},
		{name: "a number of pods that is none", spec: head + discovery + `,"kubelet":{"maxPods":1.5}}`,
			condition: "ValidationSucceeded", reason: "InvalidKubeletConfiguration", says: []string{"spec.kubelet.maxPods", "1.5", "need a whole number"}},
		{name: "an expression for the number of pods, without the gate", spec: head + discovery + `,"kubelet":{"maxPods":"vcpus * 10"}}`,
			condition: "ValidationSucceeded", reason: "KubeletExpressionsDisabled", says: []string{"spec.kubelet.maxPods", "vcpus * 10", "NodeClassCEL is off", "Write a number", "AWS_FEATURE_GATES=NodeClassCEL=true"}},
		{name: "an expression for what is reserved, without the gate", spec: head + discovery + `,"kubelet":{"kubeReserved":{"memory":"lots"}}}`,
			condition: "ValidationSucceeded", reason: "KubeletExpressionsDisabled", says: []string{"spec.kubelet.kubeReserved.memory", "lots", "is not a quantity", "Write a quantity", "AWS_FEATURE_GATES=NodeClassCEL=true"}},
		{name: "an expression that can't be compiled", gate: true, spec: head + discovery + `,"kubelet":{"kubeReserved":{"memory":"lots"}}}`,
			condition: "ValidationSucceeded", reason: "KubeletExpressionInvalid", says: []string{"spec.kubelet.kubeReserved.memory", "undeclared reference to 'lots'", "Correct it"}},
		{name: "an expression without a value on a type", gate: true, spec: head + discovery + `,"kubelet":{"systemReserved":{"cpu":"vcpus - 3"}}}`,
			condition: "ValidationSucceeded", reason: "KubeletExpressionEvaluationFailed", says: []string{"spec.kubelet.systemReserved.cpu", "vcpus - 3", "m5.large", "the result is -1", "Correct it"}},
		{name: "a kubelet configuration that the family can't be told", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"bottlerocket@latest"}],` + discovery + `,"kubelet":{"shutdownGracePeriod":"30s"}}`,
			condition: "ValidationSucceeded", reason: "UnsupportedKubeletConfiguration", says: []string{"spec.kubelet", "shutdownGracePeriod", "Bottlerocket"}},
		{name: "user data that is no TOML", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"bottlerocket@latest"}],` + discovery + `,"userData":"echo hello"}`,
			condition: "ValidationSucceeded", reason: "InvalidUserData", says: []string{"spec.userData", "not TOML"}},
		{name: "MIME user data without the empty line after its header", spec: head + discovery + `,"userData":"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n--B\nContent-Type: text/x-shellscript\n\n#!/bin/bash\n--B--\n"}`,
			condition: "ValidationSucceeded", reason: "InvalidUserData", says: []string{"spec.userData", "MIME header", "empty line", "--B"}},
		{name: "MIME user data that is not multipart", spec: head + discovery + `,"userData":"Content-Type: text/x-shellscript\n\n#!/bin/bash\n"}`,
			condition: "ValidationSucceeded", reason: "InvalidUserData", says: []string{"spec.userData", "text/x-shellscript", "multipart/mixed"}},
		{name: "MIME user data whose boundary occurs nowhere", spec: head + discovery + `,"userData":"Content-Type: multipart/mixed; boundary=A\n\n--B\n\n#!/bin/bash\n--B--\n"}`,
			condition: "ValidationSucceeded", reason: "InvalidUserData", says: []string{"spec.userData", "MIME"}},
		{name: "a kubelet configuration with a field that the kubelet does not have", spec: head + discovery + `,"kubelet":{"maxpods":110}}`,
			condition: "ValidationSucceeded", reason: "InvalidKubeletConfiguration", says: []string{"spec.kubelet.maxpods", "write it maxPods"}},
		{name: "user data that is too long", spec: head + discovery + `,"userData":"#!` + strings.Repeat("x", 16<<10) + `"}`,
			condition: "ValidationSucceeded", reason: "UserDataSizeLimitExceeded", says: []string{"spec.userData", "16384"}},
		{name: "a reserved tag", spec: head + discovery + `,"tags":{"aws:mine":"x"}}`,
			condition: "ValidationSucceeded", reason: "TagValidationFailed", says: []string{"spec.tags", "aws:mine"}},
		{name: "subnets may not be asked for", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "DescribeSubnets"},
			condition: "SubnetsReady", reason: "AccessDenied", says: []string{"spec.subnetSelectorTerms", "DescribeSubnets", "IAM"}},
		{name: "security groups may not be asked for", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "DescribeSecurityGroups"},
			condition: "SecurityGroupsReady", reason: "AccessDenied", says: []string{"spec.securityGroupSelectorTerms", "DescribeSecurityGroups", "IAM"}},
		{name: "images may not be described", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "DescribeImages"},
			condition: "AMIsReady", reason: "AccessDenied", says: []string{"spec.amiSelectorTerms", "DescribeImages", "IAM"}},
		{name: "an alias of no family", spec: `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2024@latest"}],` + discovery + `}`,
			condition: "ValidationSucceeded", reason: "DependenciesNotReady", says: []string{"spec.amiSelectorTerms[0].alias", "al2024@latest", "al2023"}},
		{name: "reservations may not be asked for", spec: head + discovery + `,"capacityReservationSelectorTerms":[{"tags":{"for":"us"}}]}`, fault: &awstest.Fault{Kind: awstest.Deny, Action: "DescribeCapacityReservations"},
			condition: "CapacityReservationsReady", reason: "AccessDenied", says: []string{"spec.capacityReservationSelectorTerms", "DescribeCapacityReservations", "IAM"}},
		{name: "images may not be asked for", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "GetParameters"},
			condition: "AMIsReady", reason: "AccessDenied", says: []string{"spec.amiSelectorTerms", "GetParameters"}},
		{name: "profiles may not be made", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "CreateInstanceProfile"},
			condition: "InstanceProfileReady", reason: "AccessDenied", says: []string{"spec.role", "CreateInstanceProfile"}},
		{name: "fleets may not be made", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "CreateFleet"},
			condition: "ValidationSucceeded", reason: "CreateFleetAuthCheckFailed", says: []string{"ec2:CreateFleet", "IAM"}},
		{name: "machines may not be run", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "RunInstances"},
			condition: "ValidationSucceeded", reason: "RunInstancesAuthCheckFailed", says: []string{"ec2:RunInstances"}},
		{name: "launch templates may not be made", spec: "", fault: &awstest.Fault{Kind: awstest.Deny, Action: "CreateLaunchTemplate"},
			condition: "ValidationSucceeded", reason: "CreateLaunchTemplateAuthCheckFailed", says: []string{"ec2:CreateLaunchTemplate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := open(t, some(t, "m5.large"), cloud.Wall{})
			if c.fault != nil {
				a.fault(*c.fault)
			}
			p := a.provider(func(config *awsapi.Config) { config.KubeletExpressions = c.gate })
			conditions, _ := statusOf(t, p, class(c.spec))
			bad := conditions[c.condition]
			if bad.Status != "False" || bad.Reason != c.reason || conditions["Ready"].Status != "False" {
				t.Errorf("%s is %+v, Ready is %+v", c.condition, bad, conditions["Ready"])
			}
			for _, s := range c.says {
				if !strings.Contains(bad.Message, s) || !strings.Contains(conditions["Ready"].Message, s) {
					t.Errorf("the message does not say %q: %s", s, bad.Message)
				}
			}
			if c.fault != nil && c.condition == "ValidationSucceeded" {
				return // seen by a dry run, not by the class
			}
			if _, err := p.Offerings(t.Context(), nil, class(c.spec)); cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), c.says[0]) {
				t.Errorf("offerings: %v", err)
			}
			res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "a", ClaimUID: "a", Class: class(c.spec)}})[0]
			if cloud.KindOf(res.Err) != cloud.NotReady {
				t.Errorf("launch: %v", res.Err)
			}
			if c.fault != nil {
				return // of the account: no class is spared
			}
			other := class("")
			other.Name, other.UID = "other", "other-uid"
			if conditions, _ := statusOf(t, p, other); !conditions["Ready"].True() {
				t.Errorf("another class is not Ready: %+v", conditions["Ready"])
			}
			if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "b", ClaimUID: "b", Class: other}})[0]; res.Err != nil {
				t.Errorf("launch of another class: %v", res.Err)
			}
		})
	}
}

// nodes are the Nodes that the kubelets of a simulated AWS have made, by instance type.
type nodes struct {
	cloudtest.NoNodes
	made chan machines.NodeSpec
}

func (n nodes) CreateNode(_ context.Context, node machines.NodeSpec) error {
	n.made <- node
	return nil
}

// TestExpressionsOnNodes: what a class with CEL expressions offers of a type is what the kubelet of a machine of it
// keeps from pods, whichever image family the machine boots from; and a class that is changed offers what it says now.
func TestExpressionsOnNodes(t *testing.T) {
	const kubelet = `"kubelet":{"maxPods":"min(max_pods, vcpus * 8)","kubeReserved":{"cpu":"vcpus * 35","memory":"11 * max_pods + 255"},"systemReserved":{"memory":"max(100, memory_mib / 64)","ephemeral-storage":"2"}}`
	for _, alias := range []string{"al2023@latest", "bottlerocket@latest"} {
		t.Run(alias, func(t *testing.T) {
			made := nodes{made: make(chan machines.NodeSpec, 10)}
			a := openWith(t, some(t, "m5.4xlarge", "m5.large"), &skipping{}, made)
			p := a.provider(func(config *awsapi.Config) { config.KubeletExpressions = true })
			nc := class(`{"role":"sandbox-node","amiSelectorTerms":[{"alias":"` + alias + `"}],` + discovery + `,` + kubelet + `}`)
			types, err := p.Offerings(t.Context(), nil, nc)
			if err != nil || len(types) != 2 {
				t.Fatalf("%d types, %v", len(types), err)
			}
			for i, it := range types {
				if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: it.Name, ClaimUID: strconv.Itoa(i), Class: nc, Types: []string{it.Name}}})[0]; res.Err != nil {
					t.Fatal(res.Err)
				}
				node := testwait.Receive(t, "the node of "+it.Name, made.made)
				for dim, name := range []string{"cpu", "memory", "ephemeral-storage", "pods"} {
					have := quantity(t, name, node.Capacity[name]) - quantity(t, name, node.Allocatable[name])
					want := it.Capacity.At(model.Dim(dim)) - it.Allocatable.At(model.Dim(dim))
					if name == "pods" {
						have, want = quantity(t, name, node.Allocatable[name]), map[string]int64{"m5.large": 16, "m5.4xlarge": 128}[it.Name]
						if it.Allocatable.At(model.Pods) != want {
							t.Errorf("%s is offered for %d pods, want %d", it.Name, it.Allocatable.At(model.Pods), want)
						}
					}
					if have != want {
						t.Errorf("%s: of %s the node has or keeps %d, offered was %d", it.Name, name, have, want)
					}
				}
			}
			nc.Generation, nc.Spec = 2, []byte(strings.Replace(string(nc.Spec), "vcpus * 8", "vcpus * 4", 1))
			if types, err = p.Offerings(t.Context(), nil, nc); err != nil || len(types) != 2 || types[0].Allocatable.At(model.Pods) != 64 && types[1].Allocatable.At(model.Pods) != 64 {
				t.Errorf("the changed class offers %v, %v", types, err)
			}
		})
	}
}

func quantity(t *testing.T, resource, text string) int64 {
	t.Helper()
	v, err := catalog.ParseQuantity(resource, text)
	if err != nil {
		t.Fatalf("%s %q: %v", resource, text, err)
	}
	return v
}

// TestPrices: without the price list the built-in one is used, without a history the model, and both are said on the
// offerings.
func TestPrices(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	a.fault(awstest.Fault{Kind: awstest.Deny, Action: "GetProducts"}, awstest.Fault{Kind: awstest.Deny, Action: "DescribeSpotPriceHistory"})
	types, err := a.provider().Offerings(t.Context(), nil, class(""))
	if err != nil || len(types) != 1 || len(types[0].Offerings) != 6 {
		t.Fatalf("%v, %v", types, err)
	}
	for _, o := range types[0].Offerings {
		if o.PriceMicro <= 0 || o.Modelled != (o.CapacityType == model.Spot) {
			t.Errorf("offering %+v", o)
		}
	}
	isolated := a.provider(func(c *awsapi.Config) { c.IsolatedVPC = true })
	if _, err := isolated.Offerings(t.Context(), nil, class("")); err != nil {
		t.Error(err)
	}
}

// TestThrottledStart: what there is to buy is found out though a third of the calls is throttled; it takes dozens.
func TestThrottledStart(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t), clock)
	a.fault(awstest.Fault{Kind: awstest.Throttle, Percent: 30})
	p := cloud.Retry(a.provider(), clock, cloud.RetryPolicy{Attempts: 10, Base: 10 * time.Millisecond, MaxWait: time.Minute})
	types, err := p.Offerings(t.Context(), nil, class(""))
	if err != nil || len(types) < 1000 {
		t.Errorf("%d types, %v", len(types), err)
	}
	refused := 0
	for _, c := range a.books().Calls {
		refused += c.Errors["RequestLimitExceeded"] + c.Errors["ThrottlingException"] + c.Errors["Throttling"]
	}
	if refused < 3 {
		t.Fatalf("%d calls were throttled: there was nothing to check", refused)
	}
}

// TestMissingTemplate: a launch template that somebody deletes is made again.
func TestMissingTemplate(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	p := a.provider()
	launch := func(uid string) cloud.LaunchResult {
		return p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class("")}})[0]
	}
	if res := launch("a"); res.Err != nil {
		t.Fatal(res.Err)
	}
	if n := a.deleteTemplates(); n == 0 {
		t.Fatal("there was no template to delete")
	}
	if res := launch("b"); res.Err != nil {
		t.Error(res.Err)
	}
	if have := a.launches(); have["a"] != 1 || have["b"] != 1 {
		t.Errorf("launches: %v", have)
	}
}

// TestTemplateNotMadeAgain: where a deleted launch template may not be made again, the claim is told what is not
// permitted, the class's condition names it, and what runs on goes on.
func TestTemplateNotMadeAgain(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock)
	p := a.provider()
	launch := func(uid string) cloud.LaunchResult {
		return p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class("")}})[0]
	}
	if res := launch("a"); res.Err != nil {
		t.Fatal(res.Err)
	}
	if n := a.deleteTemplates(); n == 0 {
		t.Fatal("there was no template to delete")
	}
	a.fault(awstest.Fault{Kind: awstest.Deny, Action: "CreateLaunchTemplate"})
	if res := launch("b"); cloud.KindOf(res.Err) != cloud.Denied || !strings.Contains(res.Err.Error(), "CreateLaunchTemplate") {
		t.Errorf("launched %+v, %v", res, res.Err)
	}
	clock.ahead.Store(int64(time.Hour))
	conditions, _ := statusOf(t, p, class(""))
	if bad := conditions["ValidationSucceeded"]; bad.Reason != "CreateLaunchTemplateAuthCheckFailed" || !strings.Contains(bad.Message, "ec2:CreateLaunchTemplate") {
		t.Errorf("the class says %+v", bad)
	}
	if list, err := p.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("listed %+v, %v", list, err)
	}
	a.control("DELETE", "faults", nil, nil)
	if res := launch("b"); res.Err != nil {
		t.Error(res.Err)
	}
}

// TestTriedAgain: what buying takes is tried out again when it was not allowed, or when EC2 has not heard yet of a
// profile that has just been made: it is not remembered against a class for half an hour.
func TestTriedAgain(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	p := a.provider()
	a.fault(awstest.Fault{Kind: awstest.CallError, Action: "RunInstances", Code: "InvalidIamInstanceProfile.NotFound", Count: 1})
	if _, err := p.ClassStatus(t.Context(), class("")); cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), "spec.role") {
		t.Errorf("EC2 does not know the profile yet: %v", err)
	}
	if conditions, _ := statusOf(t, p, class("")); !conditions["Ready"].True() {
		t.Errorf("and knows it now: %+v", conditions["Ready"])
	}
	p = a.provider()
	a.fault(awstest.Fault{Kind: awstest.Deny, Action: "CreateFleet"})
	if conditions, _ := statusOf(t, p, class("")); conditions["ValidationSucceeded"].Reason != "CreateFleetAuthCheckFailed" {
		t.Errorf("not allowed: %+v", conditions["ValidationSucceeded"])
	}
	a.control("DELETE", "faults", nil, nil)
	if conditions, _ := statusOf(t, p, class("")); !conditions["Ready"].True() {
		t.Errorf("the policy is mended: %+v", conditions["Ready"])
	}
}

// TestDrift: hash, image, subnet and group of a machine against its class as it is now.
func TestDrift(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	p := a.provider()
	res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "a", ClaimUID: "a", Class: class("")}})[0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	if err := clock.Wait(t.Context(), 2*time.Minute); err != nil { // until it is listed
		t.Fatal(err)
	}
	if have := res.Labels[awsv1.LabelInstanceTenancy]; have != "default" {
		t.Errorf("the tenancy is %q", have)
	}
	claim := &model.Claim{Name: "a", UID: "a", ProviderID: res.ProviderID, ImageID: res.ImageID, Labels: res.Labels, Annotations: res.Annotations}
	drift := func(what, want string, nc cloud.NodeClass, claim *model.Claim) {
		t.Helper()
		have, err := p.Drifted(t.Context(), []cloud.DriftQuery{{Claim: claim, Class: nc}})
		if err != nil || have[0] != want {
			t.Errorf("%s: drift %q, %v; want %q", what, have, err, want)
		}
	}
	changed := func(spec string) cloud.NodeClass {
		nc := class(spec)
		nc.Generation++
		return nc
	}
	_, st := statusOf(t, p, class(""))
	const head = `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],`
	drift("nothing has changed", "", class(""), claim)
	drift("user data", "NodeClassDrift", changed(head+discovery+`,"userData":"#!/bin/sh"}`), claim)
	placed := *claim
	placed.Labels = maps.Clone(claim.Labels)
	placed.Labels[awsv1.LabelPlacementGroupID] = "pg-1"
	drift("it is in a placement group that its class has not", "PlacementGroupDrift", class(""), &placed)
	migrated := *claim
	migrated.Annotations = model.Labels{awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: "v5"}
	drift("another's hash", "", class(""), &migrated)
	drift("another image", "AMIDrift", changed(`{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@v20260615"}],`+discovery+`}`), claim)
	elsewhere := st.Subnets[0].ID
	if st.Subnets[0].Zone == res.Zone {
		elsewhere = st.Subnets[1].ID
	}
	drift("other subnets", "SubnetDrift", changed(fmt.Sprintf(`%s"subnetSelectorTerms":[{"id":%q}],"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}]}`, head, elsewhere)), claim)
	drift("other groups", "SecurityGroupDrift", changed(head+`"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}],"securityGroupSelectorTerms":[{"name":"default"}]}`), claim)
	drift("a class that is not ready", "", changed(head+`"subnetSelectorTerms":[{"tags":{"no":"such"}}],"securityGroupSelectorTerms":[{"name":"default"}]}`), claim)
	// A machine that was launched after the last list was made is looked for in a new one.
	young := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "b", ClaimUID: "b", Class: class("")}})[0]
	if young.Err != nil {
		t.Fatal(young.Err)
	}
	drift("other groups of a young machine", "SecurityGroupDrift", changed(head+`"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}],"securityGroupSelectorTerms":[{"name":"default"}]}`),
		&model.Claim{Name: "b", UID: "b", ProviderID: young.ProviderID, ImageID: young.ImageID, Labels: young.Labels, Annotations: young.Annotations})
	// Amazon publishes a new image: a little later the old one has drifted.
	a.control("POST", "releases", awstest.Release{}, nil)
	if err := clock.Wait(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	drift("a new image", "AMIDrift", class(""), claim)
}

// TestReservations: reserved capacity is offered as long as there is some, is bought first, and is said on the node.
func TestReservations(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large", "r5.large"), clock)
	var made awstest.Reservation
	a.control("POST", "reservations", awstest.Reservation{InstanceType: "m5.large", Zone: "us-east-1b", Count: 1, Tags: map[string]string{"for": "us"}}, &made)
	spec := `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],"capacityReservationSelectorTerms":[{"tags":{"for":"us"}}],` + discovery + `}`
	p := a.provider()
	offered := func() (out []model.Offering) {
		types, err := p.Offerings(t.Context(), nil, class(spec))
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range types {
			for _, o := range it.Offerings {
				if o.CapacityType == model.Reserved {
					out = append(out, o)
				}
			}
		}
		return out
	}
	if o := offered(); len(o) != 1 || o[0].Remaining != 1 || o[0].Zone != "us-east-1b" || !o[0].Available || o[0].Labels[awsv1.LabelCapacityReservationID] != made.ID {
		t.Fatalf("offered %+v of %+v", o, made)
	}
	launch := func(uid string) cloud.LaunchResult {
		return p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class(spec), Types: []string{"m5.large"}}})[0]
	}
	if res := launch("a"); res.Err != nil || res.CapacityType != model.Reserved || res.Labels[awsv1.LabelCapacityReservationID] != made.ID || res.PriceMicro != 1 {
		t.Errorf("bought %+v", res)
	}
	if o := offered(); len(o) != 1 || o[0].Available || o[0].Remaining != 0 {
		t.Errorf("offered %+v", o)
	}
	if res := launch("b"); res.Err != nil || res.CapacityType != model.Spot {
		t.Errorf("bought %+v", res)
	}
	if _, st := statusOf(t, p, class(spec)); len(st.CapacityReservations) != 1 || st.CapacityReservations[0].ID != made.ID {
		t.Errorf("status %+v", st.CapacityReservations)
	}
}

// TestReservationEnds: a machine of a reservation that has ended is listed as one that runs in none, is no longer
// offered as reserved, and has not drifted, however old what is known of either. One whose reservation the class does
// not choose any more has, and so has one in a block that EC2 is about to empty.
func TestReservationEnds(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	made := map[string]awstest.Reservation{}
	for name, r := range map[string]awstest.Reservation{
		"ends":  {End: clock.Now().Add(time.Hour)},
		"stays": {}, "cancelled": {}, "block": {Type: "capacity-block", End: clock.Now().Add(100 * time.Minute)},
	} {
		r.InstanceType, r.Zone, r.Count, r.Tags = "m5.large", "us-east-1b", 1, map[string]string{"for": name}
		a.control("POST", "reservations", r, &r)
		made[name] = r
	}
	spec := func(names ...string) cloud.NodeClass {
		var terms []string
		for _, n := range names {
			terms = append(terms, fmt.Sprintf(`{"tags":{"for":%q}}`, n))
		}
		nc := class(`{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],"capacityReservationSelectorTerms":[` + strings.Join(terms, ",") + `],` + discovery + `}`)
		nc.Name, nc.UID = strings.Join(names, "-"), strings.Join(names, "-")+"-uid"
		return nc
	}
	p := a.provider()
	claims := map[string]*model.Claim{}
	for name, r := range made {
		res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: name, ClaimUID: name, Class: spec(name), CapacityTypes: []string{model.Reserved}}})[0]
		if res.Err != nil || res.Labels[awsv1.LabelCapacityReservationID] != r.ID {
			t.Fatalf("%s: bought %+v", name, res)
		}
		claims[name] = &model.Claim{Name: name, UID: name, ProviderID: res.ProviderID, ImageID: res.ImageID, Labels: res.Labels}
	}
	look := func(when string, unreserved ...string) {
		t.Helper()
		list, err := p.List(t.Context())
		if err != nil || len(list) != len(made) {
			t.Fatalf("%s: %d machines, %v", when, len(list), err)
		}
		for _, in := range list {
			if want := slices.Contains(unreserved, in.ClaimName); want != (in.Unreserved != nil) {
				t.Errorf("%s: %s: unreserved %v, want %t", when, in.ClaimName, in.Unreserved, want)
			}
			for k, v := range in.Unreserved {
				if k == model.LabelCapacityType && v != model.OnDemand || k != model.LabelCapacityType && v != "" || claims[in.ClaimName].Labels[k] == "" {
					t.Errorf("%s: %s is to say %s=%q of what was bought as %v", when, in.ClaimName, k, v, claims[in.ClaimName].Labels)
				}
			}
			if in.Unreserved != nil && len(in.Unreserved) != 4 {
				t.Errorf("%s: %s: unreserved %v", when, in.ClaimName, in.Unreserved)
			}
		}
	}
	drift := func(when, name, want string, nc cloud.NodeClass) {
		t.Helper()
		have, err := p.Drifted(t.Context(), []cloud.DriftQuery{{Claim: claims[name], Class: nc}})
		if err != nil || have[0] != want {
			t.Errorf("%s: %s: drift %q, %v; want %q", when, name, have, err, want)
		}
	}
	wait := func(d time.Duration) {
		t.Helper()
		if err := clock.Wait(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	wait(5 * time.Minute)
	look("at first")
	for name := range made {
		drift("at first", name, "", spec(name))
	}
	// What was listed is older than what is known of the reservation.
	a.control("POST", "cancel", awstest.Cancellation{Reservation: made["cancelled"].ID}, nil)
	another := spec("cancelled", "nobody")
	drift("just cancelled", "cancelled", "", another)
	look("just cancelled", "cancelled")
	drift("another's now", "stays", "CapacityReservationDrift", spec("cancelled"))
	wait(60 * time.Minute)
	look("an hour later", "cancelled", "ends")
	for name, want := range map[string]string{"ends": "", "stays": "", "cancelled": "", "block": "CapacityReservationDrift"} {
		drift("an hour later", name, want, spec(name))
	}
	types, err := p.Offerings(t.Context(), nil, spec("ends"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range types[0].Offerings {
		if o.CapacityType == model.Reserved {
			t.Errorf("offered %+v", o)
		}
	}
}

// TestLearned: what a node really has replaces the estimate, outlives the process, and the smallest counts.
func TestLearned(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	kept := &memory{}
	make := func() *aws.Provider {
		p := a.provider()
		p.KeepNodeMemory(kept)
		return p
	}
	p := make()
	before, err := p.Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	_, st := statusOf(t, p, class(""))
	image := st.AMIs[0].ID
	estimate := before[0].Capacity.At(model.Memory)
	for _, bytes := range []int64{estimate + 500<<20, estimate + 400<<20, estimate + 450<<20} {
		if err := p.Learn(t.Context(), "m5.large", image, bytes); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*aws.Provider{p, make()} {
		types, err := p.Offerings(t.Context(), nil, class(""))
		if err != nil || types[0].Capacity.At(model.Memory) != estimate+400<<20 || types[0].Allocatable.At(model.Memory)-before[0].Allocatable.At(model.Memory) != 400<<20 {
			t.Errorf("%v, %v", types, err)
		}
		again, err := p.Offerings(t.Context(), nil, class(""))
		if err != nil || &again[0] != &types[0] {
			t.Error("nothing has changed, but the slice is another one")
		}
	}
}

type memory struct{ known map[string]int64 }

func (m *memory) Load(context.Context) (map[string]int64, error) { return maps.Clone(m.known), nil }

func (m *memory) Store(_ context.Context, all map[string]int64) error {
	m.known = maps.Clone(all)
	return nil
}
