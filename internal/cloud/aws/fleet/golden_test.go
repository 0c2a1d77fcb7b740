// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/model"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestGolden: testdata/golden.txt holds node classes and claims, and what is asked of EC2 for them: the launch
// templates, what a machine boots with, and the CreateFleet request. The account is that of goldenAccount.
func TestGolden(t *testing.T) {
	count := 0
	casetest.Run(t, func(t *testing.T, input string) string { count++; return golden(t, input) })
	if count < 15 {
		t.Errorf("%d cases, want at least 15", count)
	}
}

type goldenTable struct{ names []string }

func (g *goldenTable) Dim(name string) model.Dim {
	if i := slices.Index(g.names, name); i >= 0 {
		return model.Dim(i)
	}
	g.names = append(g.names, name)
	return model.Dim(len(g.names) - 1)
}

func (g *goldenTable) Names() []string { return g.names }

// goldenAccount has five types in two zones, two subnets in the first of them, and images for every kind of machine.
func goldenAccount(t *testing.T, spec awsv1.EC2NodeClassSpec, change ...func(*awsapi.Config)) (*Provider, *nodeclass.Resolved, *catalogue.Catalogue) {
	t.Helper()
	config := awsapi.DefaultConfig()
	config.ClusterName = "prod"
	for _, f := range change {
		f(&config)
	}
	a := &awsapi.Account{Clients: &awsapi.Clients{Region: "eu-west-1"}, Config: config, Resources: &goldenTable{model.FixedNames()}, Clock: cloud.Wall{}}
	store, err := catalogue.NewStore(a)
	if err != nil {
		t.Fatal(err)
	}
	p := New(a, store, offering.NewTypeBuilder(a, &catalogue.NodeMemory{}), instances.NewIndex(a, nil, nil), quota.NewTracker(a.Clock))
	machine := func(name, arch string, cpus, mib, enis, addresses int64, more map[string]int64, labels model.Labels) *catalogue.TypeInfo {
		l := model.Labels{model.LabelInstanceType: name, model.LabelArch: arch, model.LabelRegion: "eu-west-1"}
		for k, v := range labels {
			l[k] = v
		}
		return &catalogue.TypeInfo{Name: name, Arch: arch, Labels: l, CPUs: cpus, MemoryMiB: mib, ENIs: enis, Addresses: addresses, ExtendedResources: more, Spot: true, OnDemand: true, Enclaves: cpus >= 4}
	}
	gpu := func(count string) model.Labels {
		return model.Labels{awsv1.LabelInstanceGPUManufacturer: "nvidia", awsv1.LabelInstanceGPUCount: count}
	}
	g := &catalogue.Catalogue{
		Version: 1, OnDemandPublished: true,
		Types: []*catalogue.TypeInfo{
			machine("c5.xlarge", "amd64", 4, 8192, 4, 15, nil, nil),
			machine("g5.xlarge", "amd64", 4, 16384, 4, 15, map[string]int64{catalogue.ResourceNVIDIA: 1}, gpu("1")),
			machine("m5d.large", "amd64", 2, 8192, 3, 10, nil, nil),
			machine("m6g.large", "arm64", 2, 8192, 3, 10, nil, nil),
			machine("p5.48xlarge", "amd64", 192, 2097152, 2, 50, map[string]int64{catalogue.ResourceNVIDIA: 8, catalogue.ResourceEFA: 3}, gpu("8")),
		},
		Zones: map[string][]string{}, SpotMicro: map[string]int64{},
		OnDemandMicro: map[string]int64{"c5.xlarge": 192_000, "g5.xlarge": 1_123_000, "m5d.large": 126_000, "m6g.large": 86_000, "p5.48xlarge": 55_040_000},
	}
	g.Types[0].NestedVirtualization = true
	g.Types[2].LocalGB = 75
	for i, m := range g.Types {
		g.Zones[m.Name] = []string{"eu-west-1a", "eu-west-1b"}
		for j, z := range g.Zones[m.Name] {
			g.SpotMicro[m.Name+"/"+z] = g.OnDemandMicro[m.Name] * int64(35+3*i+j) / 100
		}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nodeclass.Read("golden", cloud.NodeClass{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass, Name: "web", UID: "uid", Generation: 1, Spec: raw})
	if err != nil {
		t.Fatal(err)
	}
	r := &nodeclass.Resolved{
		Class: c, Profile: "prod_profile", Problems: map[string]model.Condition{},
		Subnets:        []*nodeclass.Subnet{{ID: "subnet-a1", Zone: "eu-west-1a", ZoneID: "euw1-az1", Free: 10}, {ID: "subnet-a2", Zone: "eu-west-1a", ZoneID: "euw1-az1", Free: 200}, {ID: "subnet-b1", Zone: "eu-west-1b", ZoneID: "euw1-az2", Free: 100}},
		SecurityGroups: []nodeclass.SecurityGroup{{ID: "sg-cluster", Name: "cluster"}, {ID: "sg-nodes", Name: "nodes"}},
		Cluster:        nodeclass.Cluster{Endpoint: "https://prod.eks.example", CABundle: "Q0E=", CIDR: "10.100.0.0/16", DNS: "10.100.0.10", Version: "1.36"},
	}
	if c.Spec.InstanceProfile != nil {
		r.Profile = *c.Spec.InstanceProfile
	}
	noGPU, err := model.NewRequirement(awsv1.LabelInstanceGPUCount, model.OpDoesNotExist)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		id    string
		wants []model.Requirement
	}{
		{"ami-standard-amd64", []model.Requirement{model.OneOf(model.LabelArch, "amd64"), noGPU}},
		{"ami-standard-arm64", []model.Requirement{model.OneOf(model.LabelArch, "arm64")}},
		{"ami-nvidia-amd64", []model.Requirement{model.OneOf(model.LabelArch, "amd64"), model.OneOf(awsv1.LabelInstanceGPUManufacturer, "nvidia")}},
	} {
		r.Images = append(r.Images, nodeclass.Image{ID: v.id, Requirements: model.NewRequirements(v.wants...)})
	}
	if len(c.Spec.CapacityReservationSelectorTerms) > 0 {
		r.Reservations = []nodeclass.Reservation{{Free: 2, Taken: &atomic.Int64{}, CapacityReservation: awsv1.CapacityReservation{
			ID: "cr-1", InstanceType: "c5.xlarge", AvailabilityZone: "eu-west-1b", State: "active", ReservationType: "default",
		}}}
		switch c.Spec.CapacityReservationSelectorTerms[0].ID {
		case "cr-interruptible":
			r.Reservations[0].Interruptible = true
		case "cr-block":
			r.Reservations[0].ReservationType = "capacity-block"
		}
	}
	if s := c.Spec.PlacementGroupSelector; s != nil {
		r.Placement = &types.PlacementGroup{GroupName: &s.Name, GroupId: ptr("pg-1"), Strategy: types.PlacementStrategyCluster}
		if s.Name == "apart" {
			r.Placement.Strategy, r.Placement.PartitionCount = types.PlacementStrategyPartition, ptr(int32(3))
		}
	}
	if bad := p.classes.Validate(r); bad.Status != "" {
		t.Fatalf("the class is not valid: %s: %s", bad.Reason, bad.Message)
	}
	if r.Kubelets, err = p.classes.EvaluateKubelet(t.Context(), c, g); err != nil {
		t.Fatal(err)
	}
	return p, r, g
}

func ptr[T any](v T) *T { return &v }

func golden(t *testing.T, input string) string {
	t.Helper()
	var in struct {
		Class   awsv1.EC2NodeClassSpec
		Cluster string // ipv6; empty: IPv4
		Gates   string // without-reserved-capacity, with-expressions; empty: Karpenter's defaults
		Claim   struct {
			Name, Pool                  string
			Types, Zones, CapacityTypes []string
			Labels                      model.Labels
			Taints, StartupTaints       []model.Taint
			Requests                    map[string]int64
			Requires                    map[string][]string // values by label
			Prices                      map[string]int64    // by type/zone/capacity type, as NodeOverlays set them
		}
	}
	if err := yaml.Unmarshal([]byte(input), &in); err != nil {
		t.Fatal(err)
	}
	if len(in.Class.AMISelectorTerms) == 0 {
		in.Class.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	}
	p, r, g := goldenAccount(t, in.Class, func(c *awsapi.Config) { c.KubeletExpressions = in.Gates == "with-expressions" })
	if in.Gates == "without-reserved-capacity" {
		p.aws.Config.NoReservedCapacity = true
		r.Reservations = nil
	}
	if in.Cluster == "ipv6" {
		r.Cluster.IPv6, r.Cluster.CIDR, r.Cluster.DNS = true, "fd12:3456:789a::/108", "fd12:3456:789a::a"
	}
	var rules []model.Requirement
	for _, key := range slices.Sorted(maps.Keys(in.Claim.Requires)) {
		rules = append(rules, model.OneOf(key, in.Claim.Requires[key]...))
	}
	o := &offering.Set{ByName: map[string]*offering.Type{}}
	for _, m := range g.Types {
		if made := p.buildType(r, g, m, placementRulesOf(rules, r)); made != nil {
			o.Types, o.ByName[m.Name] = append(o.Types, made.InstanceType), made
		}
	}
	req := cloud.LaunchRequest{
		ClaimName: in.Claim.Name, ClaimUID: "5f0c", Pool: in.Claim.Pool, Types: in.Claim.Types, Zones: in.Claim.Zones, CapacityTypes: in.Claim.CapacityTypes,
		Requirements: model.NewRequirements(rules...), NodeLabels: in.Claim.Labels, Taints: in.Claim.Taints, StartupTaints: in.Claim.StartupTaints,
	}
	for name, v := range in.Claim.Requests {
		req.Requests = req.Requests.With(p.aws.Resources.Dim(name), v)
	}
	for k, v := range in.Claim.Prices {
		part := strings.Split(k, "/")
		if req.Prices == nil {
			req.Prices = map[cloud.OfferingKey]int64{}
		}
		req.Prices[cloud.OfferingKey{InstanceType: part[0], Zone: part[1], CapacityType: part[2]}] = v
	}
	all := splitByCapacityType(o.Options(req))
	if len(all) == 0 {
		return "nothing to buy"
	}
	b, err := p.buildRequest(r, req, all[0], req.ClaimUID)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.buildRequest(r, req, all[0], req.ClaimUID)
	if err != nil || text(t, again.input) != text(t, b.input) {
		t.Errorf("asked again, the request is another one: %v", err)
	}
	var out strings.Builder
	var pairs []string
	booted := map[string]string{}
	for i, made := range b.templates {
		short := fmt.Sprintf("template-%d", i+1)
		pairs = append(pairs, made.name, short)
		data := *made.data
		boot := decodeUserData(awsapi.Deref(data.UserData))
		data.UserData = nil
		fmt.Fprintf(&out, "%s:\n%s", short, indent(text(t, data)))
		switch other, ok := booted[boot]; {
		case boot == "":
			fmt.Fprintf(&out, "%s boots with nothing\n\n", short)
		case ok:
			fmt.Fprintf(&out, "%s boots with what %s does\n\n", short, other)
		default:
			booted[boot] = short
			fmt.Fprintf(&out, "%s boots with:\n%s\n", short, indent(boot))
		}
	}
	names := strings.NewReplacer(pairs...)
	fmt.Fprintf(&out, "CreateFleet:\n%s", indent(names.Replace(text(t, b.input))))
	for _, s := range all[1:] {
		fmt.Fprintf(&out, "then, where there is no capacity: %s\n", s[0].Offering.CapacityType)
	}
	return out.String()
}

// text writes a request without what it leaves out.
func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(lean(m))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// lean takes away what is not said, and writes tags in one line.
func lean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if k, ok := v["Key"].(string); ok && len(v) == 2 {
			return k + "=" + fmt.Sprint(v["Value"])
		}
		out := map[string]any{}
		for k, x := range v {
			if x = lean(x); x != nil && x != "" {
				out[k] = x
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, x := range v {
			out = append(out, lean(x))
		}
		if out == nil {
			return nil
		}
		return out
	}
	return v
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(s, "\n")) {
		b.WriteString("  " + strings.TrimRight(line, " \r\n") + "\n")
	}
	return b.String()
}

var scriptLine = regexp.MustCompile(`\r\n?`)

// decodeUserData writes user data as a person reads it.
func decodeUserData(encoded string) string {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return encoded
	}
	return scriptLine.ReplaceAllString(string(b), "\n")
}
