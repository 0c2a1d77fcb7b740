// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

func (a *account) queue() *string {
	a.t.Helper()
	return check[*sqs.GetQueueUrlOutput](a.t)(a.sqs.GetQueueUrl(a.t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("sandbox")})).QueueUrl
}

func (a *account) receive(waitSeconds int32) []sqstypes.Message {
	a.t.Helper()
	return check[*sqs.ReceiveMessageOutput](a.t)(a.sqs.ReceiveMessage(a.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: a.queue(), MaxNumberOfMessages: 10, WaitTimeSeconds: waitSeconds, VisibilityTimeout: 20,
	})).Messages
}

// told receives and deletes messages until the queue has told of so many states of instances, which it returns in the order of the messages: "pending i-1".
// It fails for a message of another kind.
func (a *account) told(n int) (out []string) {
	a.t.Helper()
	testwait.Until(a.t, fmt.Sprintf("%d state-change notifications", n), func() error {
		for _, m := range a.receive(0) {
			var e struct {
				DetailType string      `json:"detail-type"`
				Detail     stateDetail `json:"detail"`
			}
			if err := json.Unmarshal([]byte(*m.Body), &e); err != nil || e.DetailType != "EC2 Instance State-change Notification" {
				a.t.Fatalf("have message %s, %v", *m.Body, err)
			}
			out = append(out, e.Detail.State+" "+e.Detail.InstanceID)
			if _, err := a.sqs.DeleteMessage(a.t.Context(), &sqs.DeleteMessageInput{QueueUrl: a.queue(), ReceiptHandle: m.ReceiptHandle}); err != nil {
				a.t.Fatal(err)
			}
		}
		if len(out) < n {
			return fmt.Errorf("told of %v", out)
		}
		return nil
	})
	return out
}

// TestInterruption: a spot interruption is told in EventBridge's words, hidden while somebody works on it, comes again, and two
// minutes later the instance is gone whatever was done; also when the cloud was restarted between.
func TestInterruption(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("nodes", nodeadmData)
	out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, a.fleetOf(lt, "t", "c1", 2, types.DefaultTargetCapacityTypeSpot, "m5.large")))
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 2 })
	a.told(4)
	if err := a.control("POST", "interrupt", Interruption{Kind: SpotInterruption, Count: 3}, nil); err == nil {
		t.Error("three of two were interrupted")
	}
	var hit Interrupted
	if err := a.control("POST", "interrupt", Interruption{Kind: SpotInterruption, Instances: ids(out)[:1]}, &hit); err != nil {
		t.Fatal(err)
	}
	got := a.receive(0)
	if len(got) != 1 {
		t.Fatalf("have %d messages, want 1", len(got))
	}
	var e struct {
		DetailType string `json:"detail-type"`
		Source     string `json:"source"`
		Detail     struct {
			InstanceID string `json:"instance-id"`
			Action     string `json:"instance-action"`
		} `json:"detail"`
	}
	if err := json.Unmarshal([]byte(*got[0].Body), &e); err != nil {
		t.Fatal(err)
	}
	if e.DetailType != "EC2 Spot Instance Interruption Warning" || e.Source != "aws.ec2" || e.Detail.InstanceID != hit.Instances[0] || e.Detail.Action != "terminate" {
		t.Errorf("have %+v", e)
	}
	if again := a.receive(0); len(again) != 0 {
		t.Error("a message was received twice within its time")
	}
	a.clock.forward(20 * time.Second)
	again := a.receive(0)
	if len(again) != 1 || *again[0].MessageId != *got[0].MessageId || *again[0].ReceiptHandle == *got[0].ReceiptHandle {
		t.Fatalf("after its time: have %d messages", len(again))
	}
	a.restart()
	afresh := a.receive(0)
	if len(afresh) != 1 {
		t.Fatalf("after a restart: have %d messages", len(afresh))
	}
	if _, err := a.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: a.queue(), ReceiptHandle: afresh[0].ReceiptHandle}); err != nil {
		t.Fatal(err)
	}
	a.clock.forward(21 * time.Second)
	if left := a.receive(0); len(left) != 0 {
		t.Errorf("%d messages are left", len(left))
	}
	// Not a moment before its time.
	if b := a.books(); len(b.Alive) != 2 {
		t.Errorf("have %d instances before the two minutes are over", len(b.Alive))
	}
	a.clock.forward(2 * time.Minute)
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 1 })
	state := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: hit.Instances})).Reservations[0].Instances[0]
	if *state.StateReason.Code != "Server.SpotInstanceTermination" {
		t.Errorf("have reason %s", *state.StateReason.Code)
	}
	if ended := a.told(2); !slices.Equal(ended, []string{"shutting-down " + hit.Instances[0], "terminated " + hit.Instances[0]}) {
		t.Errorf("of its end the queue told %v", ended)
	}
}

// TestLongPoll: a call that waits for a message is answered when one comes.
func TestLongPoll(t *testing.T) {
	a := newAccount(t)
	queue := a.queue()
	got := make(chan *sqs.ReceiveMessageOutput, 1)
	go func() {
		out, err := a.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20})
		if err != nil {
			t.Error(err)
		}
		got <- out
	}()
	if _, err := a.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("hello")}); err != nil {
		t.Fatal(err)
	}
	if out := testwait.Receive(t, "the answer to a long poll", got); out == nil || len(out.Messages) != 1 || *out.Messages[0].Body != "hello" {
		t.Errorf("have %+v", out)
	}
	if _, err := a.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("other")}); code(err) != "AWS.SimpleQueueService.NonExistentQueue" && code(err) != "QueueDoesNotExist" {
		t.Errorf("an unknown queue: have %v", err)
	}
}

// TestNotices: the other notices, each in its own words.
func TestNotices(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", nodeadmData)
	out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "t", "c1", 1, types.DefaultTargetCapacityTypeSpot, "m5.large")))
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 1 })
	a.told(2)
	status := func() types.SummaryStatus {
		return check[*ec2.DescribeInstanceStatusOutput](t)(a.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: ids(out)})).InstanceStatuses[0].InstanceStatus.Status
	}
	if have := status(); have != types.SummaryStatusOk {
		t.Errorf("have status %s", have)
	}
	if err := a.control("POST", "interrupt", Interruption{Kind: Impaired, Instances: ids(out)}, nil); err != nil {
		t.Fatal(err)
	}
	if have := status(); have != types.SummaryStatusImpaired {
		t.Errorf("have status %s after its checks failed", have)
	}
	for _, c := range []struct{ kind, want string }{
		{Rebalance, "EC2 Instance Rebalance Recommendation"}, {ScheduledChange, "AWS Health Event"}, {StateChange, "EC2 Instance State-change Notification"},
	} {
		if err := a.control("POST", "interrupt", Interruption{Kind: c.kind, Instances: ids(out)}, nil); err != nil {
			t.Fatal(err)
		}
		if got := a.receive(0); len(got) < 1 || !strings.Contains(*got[0].Body, `"detail-type":"`+c.want+`"`) || !strings.Contains(*got[0].Body, ids(out)[0]) {
			t.Errorf("%s: have %d messages", c.kind, len(got))
		}
	}
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 0 })
}

// TestProfiles: the life of an instance profile; an instance can't be launched with one that isn't there.
func TestProfiles(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	name := aws.String("p")
	get := func() (*iam.GetInstanceProfileOutput, error) {
		return a.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	}
	if _, err := get(); code(err) != "NoSuchEntity" {
		t.Errorf("have %v", err)
	}
	create := &iam.CreateInstanceProfileInput{InstanceProfileName: name, Path: aws.String("/karpenter/us-east-1/sandbox/")}
	if _, err := a.iam.CreateInstanceProfile(ctx, create); err != nil {
		t.Fatal(err)
	}
	if _, err := a.iam.CreateInstanceProfile(ctx, create); code(err) != "EntityAlreadyExists" {
		t.Errorf("have %v", err)
	}
	if _, err := a.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("nobody")}); code(err) != "NoSuchEntity" {
		t.Errorf("have %v", err)
	}
	if _, err := a.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("sandbox-node")}); err != nil {
		t.Fatal(err)
	}
	a.restart()
	p := check[*iam.GetInstanceProfileOutput](t)(get()).InstanceProfile
	if len(p.Roles) != 1 || *p.Roles[0].RoleName != "sandbox-node" || *p.Arn != "arn:aws:iam::111122223333:instance-profile/karpenter/us-east-1/sandbox/p" {
		t.Errorf("have %+v", p)
	}
	all := check[*iam.ListInstanceProfilesOutput](t)(a.iam.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/")}))
	if len(all.InstanceProfiles) != 1 {
		t.Errorf("have %d profiles", len(all.InstanceProfiles))
	}
	if _, err := a.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name}); code(err) != "DeleteConflict" {
		t.Errorf("have %v", err)
	}
	if _, err := a.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("sandbox-node")}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name}); err != nil {
		t.Fatal(err)
	}
}

// TestClusterAndPrices: what EKS says of the cluster, and the price list of a type.
func TestClusterAndPrices(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	c := check[*eks.DescribeClusterOutput](t)(a.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("sandbox")})).Cluster
	if *c.Version != "1.36" || *c.Endpoint != "https://127.0.0.1:6443" || *c.KubernetesNetworkConfig.ServiceIpv4Cidr == "" || *c.CertificateAuthority.Data == "" || c.Status != "ACTIVE" {
		t.Errorf("have %+v", c)
	}
	if _, err := a.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("other")}); code(err) != "ResourceNotFoundException" {
		t.Errorf("have %v", err)
	}
	match := func(field, value string) pricingtypes.Filter {
		return pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: &field, Value: &value}
	}
	seen := 0
	for p := pricing.NewGetProductsPaginator(a.pricing, &pricing.GetProductsInput{
		ServiceCode: aws.String("AmazonEC2"), Filters: []pricingtypes.Filter{match("regionCode", "us-east-1"), match("operatingSystem", "Linux"), match("tenancy", "Shared"), match("capacitystatus", "Used")},
	}); p.HasMorePages(); {
		for _, text := range check[*pricing.GetProductsOutput](t)(p.NextPage(ctx)).PriceList {
			seen++
			if strings.Contains(text, `"m5.large"`) && !strings.Contains(text, `"USD":"0.0960000000"`) {
				t.Errorf("have %s", text)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("have %d prices", seen)
	}
	block, _ := pem.Decode(check[[]byte](t)(base64.StdEncoding.DecodeString(*c.CertificateAuthority.Data)))
	if block == nil || block.Type != "CERTIFICATE" {
		t.Errorf("the authority of the cluster is no PEM: %s", *c.CertificateAuthority.Data)
	}
	// The service has one spelling of its name for each client, and bare metal is somebody's alone.
	for _, c := range []struct {
		filters []pricingtypes.Filter
		some    bool
	}{
		{[]pricingtypes.Filter{match("serviceCode", "AmazonEC2"), match("instanceType", "m5.large")}, true},
		{[]pricingtypes.Filter{match("ServiceCode", "AmazonEC2"), match("instanceType", "m5.metal"), match("tenancy", "Dedicated"), match("productFamily", "Compute Instance (bare metal)")}, true},
		{[]pricingtypes.Filter{match("serviceCode", "AmazonEC2"), match("instanceType", "m5.metal"), match("tenancy", "Shared")}, false},
	} {
		have := check[*pricing.GetProductsOutput](t)(a.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), Filters: c.filters}))
		if have.PriceList == nil || len(have.PriceList) > 0 != c.some {
			t.Errorf("%v: have %d prices, want some: %t", c.filters, len(have.PriceList), c.some)
		}
	}
}

// TestQueryProtocolOfTheQueue: clients of before November 2023 speak to SQS in forms and read XML.
func TestQueryProtocolOfTheQueue(t *testing.T) {
	a := newAccount(t)
	post := func(form string) string {
		r := check[*http.Request](t)(http.NewRequestWithContext(t.Context(), "POST", a.url, strings.NewReader(form+"&Version=2012-11-05")))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0")
		res := check[*http.Response](t)(http.DefaultClient.Do(r))
		defer func() { _ = res.Body.Close() }() // read to its end
		return string(check[[]byte](t)(io.ReadAll(res.Body)))
	}
	part := func(text, name string) string {
		_, after, _ := strings.Cut(text, "<"+name+">")
		inside, _, _ := strings.Cut(after, "</"+name+">")
		return inside
	}
	queue := part(post("Action=GetQueueUrl&QueueName=sandbox"), "QueueUrl")
	if queue != *a.queue() {
		t.Fatalf("have %q", queue)
	}
	in := "&QueueUrl=" + url.QueryEscape(queue)
	if sent := post("Action=SendMessage&MessageBody=first" + in); part(sent, "MD5OfMessageBody") != md5Of("first") {
		t.Errorf("sent: %s", sent)
	}
	got := post("Action=ReceiveMessage&MaxNumberOfMessages=10&AttributeName.1=All" + in)
	if one := part(got, "Message"); part(one, "Body") != "first" || part(part(one, "Attribute"), "Name") != "SentTimestamp" || part(one, "ReceiptHandle") == "" {
		t.Errorf("received: %s", got)
	}
	if have := post("Action=GetQueueAttributes&AttributeName.1=ApproximateNumberOfMessagesNotVisible" + in); part(part(have, "Attribute"), "Value") != "1" {
		t.Errorf("attributes: %s", have)
	}
	gone := post("Action=DeleteMessageBatch&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle=" + part(got, "ReceiptHandle") +
		"&DeleteMessageBatchRequestEntry.2.Id=b&DeleteMessageBatchRequestEntry.2.ReceiptHandle=none" + in)
	if part(part(gone, "DeleteMessageBatchResultEntry"), "Id") != "a" || part(part(gone, "BatchResultErrorEntry"), "Id") != "b" {
		t.Errorf("deleted: %s", gone)
	}
	if refused := post("Action=GetQueueUrl&QueueName=other"); part(refused, "Code") != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("refused: %s", refused)
	}
}

// TestReservations: an instance that targets a reservation runs in it, and one too many is refused with the code that says so.
func TestReservations(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	var r Reservation
	if err := a.control("POST", "reservations", Reservation{InstanceType: "m5.large", Zone: "us-east-1a", Count: 1, Tags: map[string]string{"team": "x"}}, &r); err != nil {
		t.Fatal(err)
	}
	lt := a.template("nodes", nodeadmData)
	v := check[*ec2.DescribeLaunchTemplateVersionsOutput](t)(a.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: &lt})).LaunchTemplateVersions[0].LaunchTemplateData
	_, err := a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("reserved"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: v.ImageId, UserData: v.UserData, SecurityGroupIds: v.SecurityGroupIds,
		CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &r.ID}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	one := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, a.fleetOf("reserved", "1", "c1", 2, types.DefaultTargetCapacityTypeOnDemand, "m5.large")))
	if len(ids(one)) != 1 || len(one.Errors) == 0 || *one.Errors[0].ErrorCode != "ReservationCapacityExceeded" {
		t.Fatalf("have %d instances and %d errors", len(ids(one)), len(one.Errors))
	}
	i := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids(one)})).Reservations[0].Instances[0]
	if *i.CapacityReservationId != r.ID || *i.Placement.AvailabilityZone != "us-east-1a" || *i.Placement.AvailabilityZoneId != "use1-az1" {
		t.Errorf("have %+v", i)
	}
	if s := i.CapacityReservationSpecification; s == nil || s.CapacityReservationPreference != "capacity-reservations-only" || *s.CapacityReservationTarget.CapacityReservationId != r.ID {
		t.Errorf("have %+v", s)
	}
	open := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, a.fleetOf(lt, "2", "c2", 1, types.DefaultTargetCapacityTypeOnDemand, "m5.large")))
	for _, f := range []types.Filter{
		{Name: aws.String("iam-instance-profile.arn"), Values: []string{"*"}}, {Name: aws.String("launch-time"), Values: []string{a.clock.Now().UTC().Format("2006-01-02") + "*"}},
		{Name: aws.String("network-interface.subnet-id"), Values: []string{"subnet-*"}}, {Name: aws.String("instance.group-id"), Values: []string{"sg-*"}},
	} {
		out := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{f, {Name: aws.String("instance-id"), Values: ids(open)}}}))
		if len(out.Reservations) != 1 {
			t.Errorf("filter %s: have %d instances", *f.Name, len(out.Reservations))
		} else if s := out.Reservations[0].Instances[0].CapacityReservationSpecification; s == nil || s.CapacityReservationPreference != "open" || s.CapacityReservationTarget != nil {
			t.Errorf("have %+v", s)
		}
	}
	d := check[*ec2.DescribeCapacityReservationsOutput](t)(a.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{
		Filters: []types.Filter{{Name: aws.String("tag:team"), Values: []string{"x"}}, {Name: aws.String("state"), Values: []string{"active"}}},
	})).CapacityReservations
	if len(d) != 1 || *d[0].AvailableInstanceCount != 0 || *d[0].TotalInstanceCount != 1 {
		t.Errorf("have %+v", d)
	}
	// Cancelled, it leaves its instance running, in no reservation.
	if err := a.control("POST", "cancel", Cancellation{Reservation: r.ID}, nil); err != nil {
		t.Fatal(err)
	}
	i = check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids(one)})).Reservations[0].Instances[0]
	if i.CapacityReservationId != nil || i.State.Name == types.InstanceStateNameTerminated || i.State.Name == types.InstanceStateNameShuttingDown {
		t.Errorf("have %+v", i)
	}
	d = check[*ec2.DescribeCapacityReservationsOutput](t)(a.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{r.ID}})).CapacityReservations
	if len(d) != 1 || d[0].State != types.CapacityReservationStateCancelled || *d[0].AvailableInstanceCount != 0 {
		t.Errorf("have %+v", d)
	}
}

// TestUserData: what the images make of their user data.
func TestUserData(t *testing.T) {
	unregistered := machines.Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}
	for _, c := range []struct {
		name, family, data, wrong string
		labels                    map[string]string
		taints                    []machines.Taint
		pods                      int64
	}{
		{name: "nodeadm in MIME", family: al2023, data: nodeadmData, labels: map[string]string{"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"}, taints: []machines.Taint{unregistered}, pods: 42},
		{name: "nodeadm alone", family: al2023, data: "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: sandbox, apiServerEndpoint: x}, kubelet: {flags: [\"--node-labels=a=b\"]}}", labels: map[string]string{"a": "b"}},
		{name: "a script alone configures nothing", family: al2023, data: "#!/bin/sh\necho hello: [", labels: map[string]string{}},
		{name: "bottlerocket", family: bottlerocket, data: "[settings.kubernetes]\ncluster-name = 'sandbox'\napi-server = 'x'\nmax-pods = 7\n[settings.kubernetes.node-labels]\na = 'b'\n[settings.kubernetes.node-taints]\n'karpenter.sh/unregistered' = [':NoExecute']",
			labels: map[string]string{"a": "b"}, taints: []machines.Taint{unregistered}, pods: 7},
		{name: "bootstrap.sh", family: al2, data: "#!/bin/bash\n/etc/eks/bootstrap.sh 'sandbox' --apiserver-endpoint 'x' --kubelet-extra-args '--node-labels=\"a=b,c=d\" --register-with-taints=\"karpenter.sh/unregistered:NoExecute\" --max-pods=9'",
			labels: map[string]string{"a": "b", "c": "d"}, taints: []machines.Taint{unregistered}, pods: 9},
		{name: "a label that no kubelet may set", family: al2, data: "bootstrap.sh sandbox --apiserver-endpoint x --node-labels=kubernetes.io/colour=red", wrong: "unknown 'kubernetes.io' or 'k8s.io' labels"},
		{name: "labels that a kubelet may set", family: al2, data: "--node-labels=node.kubernetes.io/colour=red,kubernetes.io/arch=amd64", labels: map[string]string{"node.kubernetes.io/colour": "red", "kubernetes.io/arch": "amd64"}},
		{name: "no TOML", family: bottlerocket, data: "hello", wrong: "no TOML"},
		{name: "a broken part", family: al2023, data: strings.Replace(nodeadmData, "kind: NodeConfig", "kind: [", 1), wrong: "nodeadm"},
		{name: "a taint without effect", family: al2, data: "--register-with-taints=a=b", wrong: "need key=value:Effect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, err := readUserData(c.family, encode(c.data))
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("have error %v, want one with %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(k.labels) != len(c.labels) || !slices.Equal(k.taints, c.taints) || k.maxPods != c.pods {
				t.Errorf("have labels %v, taints %v, %d pods", k.labels, k.taints, k.maxPods)
			}
			for key, v := range c.labels {
				if k.labels[key] != v {
					t.Errorf("label %s: have %q, want %q", key, k.labels[key], v)
				}
			}
		})
	}
}

// TestEvicted: what the kubelet keeps free by an eviction threshold; 0% and 100% switch it off.
func TestEvicted(t *testing.T) {
	for signal, want := range map[string]int64{"": 7, "10%": 100, "0%": 0, "100%": 0, "99%": 990, "64": 64} {
		if have := evicted(signal, 1000, 7); have != want {
			t.Errorf("%q of 1000: have %d, want %d", signal, have, want)
		}
	}
}

// TestNeverJoins: an instance whose user data is not the cluster's runs, and never becomes a node; the books say why.
func TestNeverJoins(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", strings.Replace(nodeadmData, "name: sandbox", "name: other", 1))
	check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "t", "c1", 1, types.DefaultTargetCapacityTypeSpot, "m5.large")))
	a.clock.forward(time.Hour)
	b := a.books()
	if len(b.Alive) != 1 || b.Alive[0].State != "running" || !strings.Contains(b.Alive[0].NeverJoins, `names cluster "other"`) {
		t.Errorf("have %+v", b.Alive)
	}
	if len(a.cluster.nodes) != 0 {
		t.Error("it became a node")
	}
}

// TestMemory: a node has less memory than its type, by what is drawn for type and image, or by a fault.
func TestMemory(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", nodeadmData)
	a.fault(Fault{Kind: Overhead, InstanceType: "m5.xlarge", Percent: 20})
	check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "1", "c1", 1, types.DefaultTargetCapacityTypeSpot, "m5.large")))
	check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "2", "c2", 1, types.DefaultTargetCapacityTypeSpot, "m5.xlarge")))
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 2 })
	for _, n := range a.cluster.nodes {
		kib := kibOf(t, n.Capacity["memory"])
		switch n.Labels["node.kubernetes.io/instance-type"] {
		case "m5.large":
			if share := float64(kib) / (8192 << 10); share < 0.93 || share > 0.975 {
				t.Errorf("m5.large has %.3f of its memory", share)
			}
		case "m5.xlarge":
			if share := float64(kib) / (16384 << 10); share < 0.799 || share > 0.801 {
				t.Errorf("m5.xlarge has %.3f of its memory, want 0.8", share)
			}
		}
		if reserved := kib - kibOf(t, n.Allocatable["memory"]); reserved != (11*42+255+100)<<10 {
			t.Errorf("%d KiB are reserved, want what 42 pods need", reserved)
		}
	}
}
