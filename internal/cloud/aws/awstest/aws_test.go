// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// hand is a clock that a test sets.
type hand struct {
	mu      sync.Mutex
	now     time.Time
	waiting []*waiter
}

type waiter struct {
	until time.Time
	done  chan struct{}
}

func (h *hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	h.mu.Lock()
	w := &waiter{h.now.Add(d), make(chan struct{})}
	h.waiting = append(h.waiting, w)
	h.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forward moves the clock and wakes who waited for that.
func (h *hand) forward(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
	left := h.waiting[:0]
	for _, w := range h.waiting {
		if w.until.After(h.now) {
			left = append(left, w)
		} else {
			close(w.done)
		}
	}
	h.waiting = left
}

// cluster is where Nodes are made.
type cluster struct {
	mu    sync.Mutex
	nodes map[string]machines.NodeSpec
	moved chan struct{} // closed and made anew with every change
}

func (c *cluster) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *cluster) CreateNode(_ context.Context, n machines.NodeSpec) error {
	c.change(func() { c.nodes[n.Name] = n })
	return nil
}

func (c *cluster) RebootNode(_ context.Context, n machines.NodeSpec) error {
	c.change(func() { c.nodes[n.Name] = n })
	return nil
}

func (c *cluster) DeleteNode(_ context.Context, name, providerID string) error {
	c.change(func() {
		if c.nodes[name].ProviderID == providerID {
			delete(c.nodes, name)
		}
	})
	return nil
}

// until waits for a condition of the nodes.
func (c *cluster) until(t *testing.T, ok func(map[string]machines.NodeSpec) bool) {
	t.Helper()
	for end := time.After(testwait.Left(t, testwait.Limit)); ; {
		c.mu.Lock()
		good, moved := ok(c.nodes), c.moved
		c.mu.Unlock()
		if good {
			return
		}
		select {
		case <-moved:
		case <-end:
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Fatalf("the nodes never were as expected; now there are %d: %v", len(c.nodes), slices.Sorted(maps.Keys(c.nodes)))
		}
	}
}

// account is a simulated AWS on a socket, and the real SDK's clients.
type account struct {
	t             *testing.T
	clock         *hand
	cluster       *cluster
	cloud         *Cloud
	journal       string
	url           string
	cloudTemplate string // of groups
	stop          func()

	ec2     *ec2.Client
	asg     *autoscaling.Client
	ssm     *ssm.Client
	sqs     *sqs.Client
	pricing *pricing.Client
	sts     *sts.Client
	iam     *iam.Client
	eks     *eks.Client
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{
		t: t, clock: &hand{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}, journal: filepath.Join(t.TempDir(), "journal"),
		cluster: &cluster{nodes: map[string]machines.NodeSpec{}, moved: make(chan struct{})},
	}
	a.start()
	t.Cleanup(func() { a.stop() })
	return a
}

var builtin = sync.OnceValues(catalog.Builtin)

// start serves the account; it goes on from the journal.
func (a *account) start() {
	a.t.Helper()
	c, err := builtin()
	if err != nil {
		a.t.Fatal(err)
	}
	settings := Default()
	settings.Endpoint = "https://127.0.0.1:6443"
	if a.cloud, err = New(c, settings, a.clock, nil); err != nil {
		a.t.Fatal(err)
	}
	m, err := simulated.Open(simulated.Config{Journal: a.journal, Catalog: c, Clock: a.clock, Guest: a.cloud}, a.cluster)
	if err != nil {
		a.t.Fatal(err)
	}
	a.cloud.Attach(m)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	serve := func(what func(context.Context, net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			a.t.Fatal(err)
		}
		running.Go(func() {
			if err := what(ctx, l); err != nil {
				a.t.Error(err)
			}
		})
		return "http://" + l.Addr().String()
	}
	serve(m.Serve)
	a.url = serve(a.cloud.Serve)
	a.stop = func() {
		cancel()
		running.Wait()
	}
	cfg := aws.Config{
		Region: c.Region, BaseEndpoint: &a.url, HTTPClient: awsapi.PlainBodies(nil), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "none"}, nil
		}),
	}
	a.ec2, a.asg, a.ssm, a.sqs = ec2.NewFromConfig(cfg), autoscaling.NewFromConfig(cfg), ssm.NewFromConfig(cfg), sqs.NewFromConfig(cfg)
	a.pricing, a.sts, a.iam, a.eks = pricing.NewFromConfig(cfg), sts.NewFromConfig(cfg), iam.NewFromConfig(cfg), eks.NewFromConfig(cfg)
}

// restart ends the process, as far as it is one, and starts it again.
func (a *account) restart() {
	a.t.Helper()
	a.stop()
	a.start()
}

// control posts to /_aws/ and decodes the answer; a status other than 200 is the error.
func (a *account) control(method, path string, in, out any) error {
	a.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		a.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+"/_aws/"+path, bytes.NewReader(raw))
	if err != nil {
		a.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(string(body))
	}
	if out != nil {
		if err := json.Unmarshal(body, out); err != nil {
			a.t.Fatal(err)
		}
	}
	return nil
}

func (a *account) fault(faults ...Fault) {
	a.t.Helper()
	if err := a.control("POST", "faults", FaultList{faults}, nil); err != nil {
		a.t.Fatal(err)
	}
}

func (a *account) books() Books {
	a.t.Helper()
	var b Books
	if err := a.control("GET", "books?tag=claim", nil, &b); err != nil {
		a.t.Fatal(err)
	}
	return b
}

func check[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// code is the code of an API error.
func code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return fmt.Sprint(err)
}

const nodeadmData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: sandbox
    apiServerEndpoint: https://127.0.0.1:6443
    certificateAuthority: Y2E=
    cidr: 10.96.0.0/16
  kubelet:
    config:
      maxPods: 42
      registerWithTaints:
      - {key: karpenter.sh/unregistered, effect: NoExecute}
    flags:
    - --node-labels="karpenter.sh/nodepool=default,karpenter.sh/capacity-type=spot"
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/sh
echo hello
--//--
`

// template makes a launch template with user data, for amd64, and returns its name.
func (a *account) template(name, userData string) string {
	a.t.Helper()
	image := check[*ssm.GetParameterOutput](a.t)(a.ssm.GetParameter(a.t.Context(), &ssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"),
	})).Parameter.Value
	groups := check[*ec2.DescribeSecurityGroupsOutput](a.t)(a.ec2.DescribeSecurityGroups(a.t.Context(), &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{{Name: aws.String("tag:" + DiscoveryTag), Values: []string{"sandbox"}}},
	})).SecurityGroups
	if len(groups) != 1 {
		a.t.Fatalf("have %d security groups, want the nodes' one", len(groups))
	}
	_, err := a.ec2.CreateLaunchTemplate(a.t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name,
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId: image, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData))), SecurityGroupIds: []string{*groups[0].GroupId},
			IamInstanceProfile:  &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("sandbox-node")},
			MetadataOptions:     &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(1)},
			BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(50)}}},
		},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return name
}

// subnets are by zone.
func (a *account) subnets() map[string]string {
	a.t.Helper()
	out := map[string]string{}
	for _, s := range check[*ec2.DescribeSubnetsOutput](a.t)(a.ec2.DescribeSubnets(a.t.Context(), &ec2.DescribeSubnetsInput{
		Filters: []types.Filter{{Name: aws.String("tag:" + DiscoveryTag), Values: []string{"*"}}},
	})).Subnets {
		out[*s.AvailabilityZone] = *s.SubnetId
	}
	return out
}

// fleetOf asks for n spot instances of these types in all zones.
func (a *account) fleetOf(template, token, claim string, n int32, capacityType types.DefaultTargetCapacityType, instanceTypes ...string) *ec2.CreateFleetInput {
	a.t.Helper()
	var overrides []types.FleetLaunchTemplateOverridesRequest
	subnets := a.subnets()
	for _, zone := range slices.Sorted(maps.Keys(subnets)) {
		for _, it := range instanceTypes {
			overrides = append(overrides, types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(it), SubnetId: aws.String(subnets[zone]), AvailabilityZone: aws.String(zone)})
		}
	}
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &template, Version: aws.String("$Latest")}, Overrides: overrides,
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{DefaultTargetCapacityType: capacityType, TotalTargetCapacity: &n},
		SpotOptions:                 &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized},
		OnDemandOptions:             &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice},
		TagSpecifications:           []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("claim"), Value: &claim}}}},
	}
	if token != "" {
		in.ClientToken = &token
	}
	return in
}

func ids(out *ec2.CreateFleetOutput) []string {
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceIds...)
	}
	sort.Strings(ids)
	return ids
}

func encode(userData string) string { return base64.StdEncoding.EncodeToString([]byte(userData)) }

func kibOf(t *testing.T, quantity string) int64 {
	t.Helper()
	v, err := catalog.ParseQuantity("memory", quantity)
	if err != nil {
		t.Fatal(err)
	}
	return v >> 10
}

// TestStopsWithTheMachines: whoever ends both servers with one context ends the machines' a moment before, at times; that is no
// failure of the account's.
func TestStopsWithTheMachines(t *testing.T) {
	c, err := builtin()
	if err != nil {
		t.Fatal(err)
	}
	clock := &hand{now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	account, err := New(c, Default(), clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := simulated.Open(simulated.Config{Journal: filepath.Join(t.TempDir(), "journal"), Catalog: c, Clock: clock, Guest: account}, &cluster{nodes: map[string]machines.NodeSpec{}, moved: make(chan struct{})})
	if err != nil {
		t.Fatal(err)
	}
	account.Attach(m)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Serve(ended, listen()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, served := listen(), make(chan error, 1)
	go func() { served <- account.Serve(ctx, l) }()
	testwait.Until(t, "the account's server answers", func() error {
		res, err := http.Get("http://" + l.Addr().String() + "/_aws/healthz")
		if err == nil {
			err = res.Body.Close()
		}
		return err
	})
	cancel()
	if err := testwait.Receive(t, "the end of the account's server", served); err != nil {
		t.Errorf("the account's server ended with: %v", err)
	}
}
