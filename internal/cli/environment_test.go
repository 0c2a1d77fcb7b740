// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Every one of Karpenter's variables sets its flag, gives way to the flag where that is given, or is said to do nothing.
func TestEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		args, env []string
		want      []string // FLAG=VALUE
		idle      []string // NAME: why
		err       string
	}{
		"a whole deployment of Karpenter's": {
			env: []string{"METRICS_PORT=8000", "HEALTH_PROBE_PORT=8082", "ENABLE_PROFILING=true", "DISABLE_LEADER_ELECTION=true", "SYSTEM_NAMESPACE=kube-system",
				"LEGACY_NODE_REPAIR=true", "LOG_LEVEL=debug", "BATCH_IDLE_DURATION=1s", "BATCH_MAX_DURATION=10s", "PREFERENCE_POLICY=Ignore", "KUBE_CLIENT_QPS=200", "KUBE_CLIENT_BURST=300", "SCHEDULER_CONFIG=/etc/s.yaml",
				"MIN_VALUES_POLICY=BestEffort", "IGNORE_DRA_REQUESTS=true", "LOG_OUTPUT_PATHS=stdout", "FEATURE_GATES=NodeRepair=true,SpotToSpotConsolidation=true,NodeOverlay=true,CapacityBuffer=false"},
			want: []string{"metrics-address=:8000", "health-address=:8082", "profiling=true", "leader-elect=false", "leader-elect-namespace=kube-system",
				"legacy-node-repair=true", "log-level=debug", "batch-idle-duration=1s", "batch-max-duration=10s", "preference-policy=Ignore", "min-values-policy=BestEffort", "kube-client-qps=200", "kube-client-burst=300", "scheduler-config=/etc/s.yaml"},
			idle: []string{"FEATURE_GATES: the feature is always on"},
		},
		"the election's namespace before the system's": {
			env: []string{"SYSTEM_NAMESPACE=a", "LEADER_ELECTION_NAMESPACE=b", "LEADER_ELECTION_NAME=c"}, want: []string{"leader-elect-namespace=b", "leader-elect-name=c"},
		},
		"a flag before its variable": {
			args: []string{"--log-level=warn", "--leader-elect=true"}, env: []string{"LOG_LEVEL=debug", "DISABLE_LEADER_ELECTION=true"}, want: []string{"log-level=warn", "leader-elect=true"},
		},
		"what has no counterpart": {
			env:  []string{"FEATURE_GATES=NodeRepair=false,StaticCapacity=false,CapacityBuffer=true,NodeClassCEL=true,Levitation=true", "AWS_FEATURE_GATES=NodeRepair=true,NodeClassCEL=true,DRAEFA=true"},
			want: []string{"feature-gates=NodeRepair=false,StaticCapacity=false,CapacityBuffer=true,NodeClassCEL=true,Levitation=true", "aws-feature-gates=NodeRepair=true,NodeClassCEL=true,DRAEFA=true"},
			idle: []string{"FEATURE_GATES: the feature is always on",
				"FEATURE_GATES: it belongs in AWS_FEATURE_GATES", "FEATURE_GATES: unknown feature gate", "AWS_FEATURE_GATES: it belongs in FEATURE_GATES", "AWS_FEATURE_GATES: the feature is not supported"},
		},
		"a Service's variable":        {env: []string{"METRICS_PORT=tcp://10.0.0.1:80"}, want: []string{"metrics-address=:8080"}},
		"a duration that is none":     {env: []string{"BATCH_IDLE_DURATION=soon"}, err: `environment variable BATCH_IDLE_DURATION: "soon": need a duration such as 1m`},
		"a bool that is none":         {env: []string{"DISABLE_LEADER_ELECTION=maybe"}, err: `environment variable DISABLE_LEADER_ELECTION: "maybe": need true or false`},
		"a number that is none":       {env: []string{"KUBE_CLIENT_QPS=many"}, err: `environment variable KUBE_CLIENT_QPS: "many": need a number`},
		"feature gates without value": {env: []string{"FEATURE_GATES=NodeRepair"}, err: `environment variable FEATURE_GATES: "NodeRepair": need NAME=true or NAME=false`},
		"AWS' without value":          {env: []string{"AWS_FEATURE_GATES=NodeClassCEL"}, err: `environment variable AWS_FEATURE_GATES: "NodeClassCEL": need NAME=true or NAME=false`},
	} {
		t.Run(name, func(t *testing.T) {
			flags := controllerCommand().Flags()
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			idle, err := readEnvironment(flags, func(name string) string {
				for _, v := range test.env {
					if k, value, _ := strings.Cut(v, "="); k == name {
						return value
					}
				}
				return ""
			})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range test.want {
				flag, value, _ := strings.Cut(w, "=")
				if have := flags.Lookup(flag).Value.String(); have != value {
					t.Errorf("--%s is %s, want %s", flag, have, value)
				}
			}
			for i, v := range idle {
				if i >= len(test.idle) || !strings.HasPrefix(v.name+": "+v.why, test.idle[i]) {
					t.Errorf("unexpected: %s=%s %s", v.name, v.value, v.why)
				}
			}
			if len(idle) < len(test.idle) {
				t.Errorf("%d said to do nothing, want %q", len(idle), test.idle)
			}
		})
	}
}

// Every variable stands for a flag that there is and says so in its help, or has a reason.
func TestVariables(t *testing.T) {
	flags, names := controllerCommand().Flags(), map[string]bool{}
	for _, v := range variables {
		names[v.name] = true
		switch f := flags.Lookup(v.flag); {
		case v.flag == "" && v.why == "":
			t.Errorf("%s has neither flag nor reason", v.name)
		case v.flag != "" && (f == nil || !strings.Contains(f.Usage, v.name)):
			t.Errorf("%s: flag --%s is missing or its help does not name it", v.name, v.flag)
		}
	}
	for _, v := range awsVariables {
		names[v.variable] = true
		if f := flags.Lookup(v.flag); f == nil || !strings.Contains(f.Usage, v.variable) {
			t.Errorf("%s: flag --%s is missing or its help does not name it", v.variable, v.flag)
		}
	}
	// The reference's list of settings, less those that Go's runtime or a command line sees to (docs/COMPATIBILITY.md).
	for _, name := range strings.Fields(`METRICS_PORT HEALTH_PROBE_PORT KUBE_CLIENT_QPS KUBE_CLIENT_BURST ENABLE_PROFILING DISABLE_LEADER_ELECTION LEADER_ELECTION_NAME
		LEADER_ELECTION_NAMESPACE DISABLE_CONTROLLER_WARMUP DISABLE_CLUSTER_STATE_OBSERVABILITY LOG_LEVEL LOG_OUTPUT_PATHS LOG_ERROR_OUTPUT_PATHS BATCH_MAX_DURATION
		BATCH_IDLE_DURATION PREFERENCE_POLICY MIN_VALUES_POLICY IGNORE_DRA_REQUESTS SCHEDULER_CONFIG CLUSTER_NAME CLUSTER_ENDPOINT CLUSTER_CA_BUNDLE EKS_CONTROL_PLANE
		ISOLATED_VPC VM_MEMORY_OVERHEAD_PERCENT INTERRUPTION_QUEUE RESERVED_ENIS DISABLE_DRY_RUN ENABLE_ZONAL_SHIFT AMI_REFRESH_INTERVAL SUBNET_REFRESH_INTERVAL SECURITY_GROUP_REFRESH_INTERVAL`) {
		if !names[name] {
			t.Errorf("%s is neither read nor said to do nothing", name)
		}
	}
	if slices.ContainsFunc(variables, func(v variable) bool { return v.flag != "" && v.why != "" }) {
		t.Error("a variable with a flag needs no reason")
	}
}

// The gates that turn something on and off stand as Karpenter's do where nothing is said.
func TestGates(t *testing.T) {
	for text, want := range map[string][8]bool{ // node repair, spot to spot, reserved capacity, expressions, reboots, terminate first for drift and for repair, pod deletion cost
		"":                {false, false, true, false, false, false, false, false},
		"NodeRepair=true": {true, false, true, false, false, false, false, false},
		"SpotToSpotConsolidation=true, ReservedCapacity=false,StaticCapacity=true": {false, true, false, false, false, false, false, false},
		"NodeClassCEL=true":              {false, false, true, true, false, false, false, false},
		"RebootForRepair=true":           {false, false, true, false, true, false, false, false},
		"TerminateFirstDrift=true":       {false, false, true, false, false, true, false, false},
		"TerminateFirstRepair=true":      {false, false, true, false, false, false, true, false},
		"PodDeletionCostManagement=true": {false, false, true, false, false, false, false, true},
	} {
		for i, name := range []string{gateNodeRepair, gateSpotToSpot, gateReservedCapacity, gateNodeClassCEL, gateRebootForRepair, gateTerminateFirstDrift, gateTerminateFirstRepair, gatePodDeletionCost} {
			if on, err := isGateOn(text, name); err != nil || on != want[i] {
				t.Errorf("gates %q: %s is %v, %v", text, name, on, err)
			}
		}
	}
}

// SCHEDULER_CONFIG as Karpenter has it, a document and no file.
func TestInlineSchedulerConfig(t *testing.T) {
	have, err := schedulerConfig("podTopologySpread:\n  defaultConstraints:\n  - {maxSkew: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}\n")
	if list := have["default-scheduler"]; err != nil || len(have) != 1 || len(list) != 1 || list[0].MaxSkew != 3 || list[0].TopologyKey != "topology.kubernetes.io/zone" || list[0].WhenUnsatisfiable != "DoNotSchedule" {
		t.Errorf("have %v, %v", have, err)
	}
	for text, want := range map[string]string{
		"{podTopologySpread: {defaultConstraint: []}}":                                                                   "defaultConstraint",
		"{podTopologySpread: {defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}": "maxSkew",
	} {
		if _, err := schedulerConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to name %s", text, err, want)
		}
	}
}

// A process keeps to nine tenths of its container's memory, unless GOMEMLIMIT says otherwise.
func TestLimitMemory(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	limitMemory(func(name string) string {
		return map[string]string{"MEMORY_LIMIT": "1000000000", "GOMEMLIMIT": "1GiB"}[name]
	})
	if n := debug.SetMemoryLimit(-1); n != was {
		t.Errorf("the limit is %d with GOMEMLIMIT set, was %d", n, was)
	}
	limitMemory(func(name string) string { return map[string]string{"MEMORY_LIMIT": "10000000000"}[name] })
	if n := debug.SetMemoryLimit(-1); n != 9_000_000_000 {
		t.Errorf("the limit is %d, want nine tenths of 10000000000", n)
	}
}
