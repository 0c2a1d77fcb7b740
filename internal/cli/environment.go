// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// variable is one of Karpenter's environment variables: the flag that it stands for, or why it has no effect.
type variable struct {
	name, flag string
	turn       func(string) string // its value to the flag's; nil: they are alike
	why        string              // no flag
	same       []string            // values that ask for what holds anyway
}

// variables are those of every cloud; awsVariables are AWS' own. The first that is set stands for a flag.
var variables = []variable{
	{name: "METRICS_PORT", flag: "metrics-address", turn: port},
	{name: "HEALTH_PROBE_PORT", flag: "health-address", turn: port},
	{name: "ENABLE_PROFILING", flag: "profiling"},
	{name: "DISABLE_LEADER_ELECTION", flag: "leader-elect", turn: opposite},
	{name: "LEADER_ELECTION_NAMESPACE", flag: "leader-elect-namespace"},
	{name: "SYSTEM_NAMESPACE", flag: "leader-elect-namespace"},
	{name: "LEADER_ELECTION_NAME", flag: "leader-elect-name"},
	{name: "LOG_LEVEL", flag: "log-level"},
	{name: "BATCH_IDLE_DURATION", flag: "batch-idle-duration"},
	{name: "BATCH_MAX_DURATION", flag: "batch-max-duration"},
	{name: "PREFERENCE_POLICY", flag: "preference-policy"},
	{name: "KUBE_CLIENT_QPS", flag: "kube-client-qps"},
	{name: "KUBE_CLIENT_BURST", flag: "kube-client-burst"},
	{name: "MIN_VALUES_POLICY", flag: "min-values-policy"},
	{name: "IGNORE_DRA_REQUESTS", same: []string{"true", "false"}, why: "devices that pods claim are always counted"},
	{name: "SCHEDULER_CONFIG", flag: "scheduler-config"},
	{name: "LEGACY_NODE_REPAIR", flag: "legacy-node-repair"},
	{name: "LOG_OUTPUT_PATHS", same: []string{"stdout", "stderr"}, why: "the log goes to standard error"},
	{name: "LOG_ERROR_OUTPUT_PATHS", same: []string{"stderr"}, why: "the log goes to standard error"},
	{name: "DISABLE_CONTROLLER_WARMUP", same: []string{"true"}, why: "standby replicas always watch the cluster"},
	{name: "DISABLE_CLUSTER_STATE_OBSERVABILITY", flag: "disable-cluster-state-observability"},
	{name: "EKS_CONTROL_PLANE", same: []string{"false"}, why: "missing settings are read from EKS"},
}

// Karpenter's feature gates that turn something on and off here.
const (
	gateNodeRepair           = "NodeRepair"
	gateSpotToSpot           = "SpotToSpotConsolidation"
	gateReservedCapacity     = "ReservedCapacity"
	gatePodDeletionCost      = "PodDeletionCostManagement"
	gateTerminateFirstDrift  = "TerminateFirstDrift"
	gateTerminateFirstRepair = "TerminateFirstRepair"
	gateNodeClassCEL         = "NodeClassCEL" // of its provider for AWS, as the next
	gateRebootForRepair      = "RebootForRepair"
)

// switchable are the gates that turn something on and off, and how they stand where nothing is said, as there.
var switchable = map[string]bool{gateNodeRepair: false, gateSpotToSpot: false, gateReservedCapacity: true, gateTerminateFirstDrift: false, gateTerminateFirstRepair: false, gatePodDeletionCost: false, gateNodeClassCEL: false, gateRebootForRepair: false}

// gateVariable is an environment variable that sets feature gates, and the flag that it stands for: the gates that turn
// something on and off, and the others by whether what they stand for is there.
type gateVariable struct {
	name, flag string
	served     []string
	fixed      map[string]bool
}

// gateVariables are those of Karpenter and of its provider for AWS.
var gateVariables = []gateVariable{
	{"FEATURE_GATES", "feature-gates", []string{gateNodeRepair, gateSpotToSpot, gateReservedCapacity, gateTerminateFirstDrift, gateTerminateFirstRepair, gatePodDeletionCost},
		map[string]bool{"Drift": true, "StaticCapacity": true, "NodeOverlay": true, "CapacityBuffer": true}},
	{"AWS_FEATURE_GATES", "aws-feature-gates", []string{gateNodeClassCEL, gateRebootForRepair}, map[string]bool{"DRANVIDIAGPU": false, "DRAEFA": false}},
}

// unheeded is a variable that is set and does nothing.
type unheeded struct{ name, value, why string }

// readEnvironment sets the flags that are not given by the environment variables that stand for them, and says which of the others that
// are set do nothing.
func readEnvironment(flags *pflag.FlagSet, getenv func(string) string) ([]unheeded, error) {
	var out []unheeded
	for _, v := range variables {
		value := getenv(v.name)
		switch {
		case value == "" || slices.Contains(v.same, value):
		case v.flag == "":
			out = append(out, unheeded{v.name, value, v.why})
		case flags.Changed(v.flag):
		case strings.HasPrefix(value, "tcp://"): // Kubernetes sets NAME_PORT so for a Service called name
		default:
			to := value
			if v.turn != nil {
				to = v.turn(value)
			}
			if err := flags.Set(v.flag, to); err != nil {
				return nil, exit{2, fmt.Errorf("environment variable %s: %q: %s", v.name, value, wanted(flags.Lookup(v.flag)))}
			}
		}
	}
	for _, v := range gateVariables {
		more, err := v.read(flags, getenv)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// read sets the flag by the variable, unless it is given, and says which of the gates do nothing.
func (v gateVariable) read(flags *pflag.FlagSet, getenv func(string) string) ([]unheeded, error) {
	if text := getenv(v.name); text != "" && !flags.Changed(v.flag) {
		if err := flags.Set(v.flag, text); err != nil {
			return nil, exit{2, fmt.Errorf("environment variable %s: %w", v.name, err)}
		}
	}
	list, err := readGates(flags.Lookup(v.flag).Value.String())
	if err != nil {
		return nil, exit{2, fmt.Errorf("environment variable %s: %w", v.name, err)}
	}
	var out []unheeded
	for _, g := range list {
		there, known := v.fixed[g.name]
		value := g.name + "=" + strconv.FormatBool(g.on)
		elsewhere := slices.IndexFunc(gateVariables, func(o gateVariable) bool { return slices.Contains(o.served, g.name) })
		switch {
		case slices.Contains(v.served, g.name):
		case elsewhere >= 0:
			out = append(out, unheeded{v.name, value, "it belongs in " + gateVariables[elsewhere].name})
		case !known:
			out = append(out, unheeded{v.name, value, "unknown feature gate"})
		case g.on && !there:
			out = append(out, unheeded{v.name, value, "the feature is not supported"})
		case !g.on && there:
			out = append(out, unheeded{v.name, value, "the feature is always on"})
		}
	}
	return out, nil
}

// gate is a feature gate that is set.
type gate struct {
	name string
	on   bool
}

// readGates reads gates as Karpenter writes them: NAME=true,NAME=false.
func readGates(text string) ([]gate, error) {
	var out []gate
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%q: need NAME=true or NAME=false, separated by commas", part)
		}
		out = append(out, gate{name, on})
	}
	return out, nil
}

// isGateOn says how a switchable gate stands when gates are set so; of several the last counts.
func isGateOn(text, name string) (bool, error) {
	list, err := readGates(text)
	on := switchable[name]
	for _, g := range list {
		if g.name == name {
			on = g.on
		}
	}
	return on, err
}

// port is an address of all interfaces.
func port(value string) string { return ":" + value }

// opposite of a bool; what is none stays as it is, to be refused.
func opposite(value string) string {
	if on, err := strconv.ParseBool(value); err == nil {
		return strconv.FormatBool(!on)
	}
	return value
}

// limitMemory keeps the process to nine tenths of the container's limit (MEMORY_LIMIT in bytes, as the downward API gives it), unless
// GOMEMLIMIT says otherwise. Without, the garbage of a large plan may be more than the container has.
func limitMemory(getenv func(string) string) {
	if limit, err := strconv.ParseInt(getenv("MEMORY_LIMIT"), 10, 64); err == nil && limit > 0 && getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// wanted is what a flag takes.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "need true or false"
	case "int":
		return "need a whole number"
	case "float32", "float64":
		return "need a number such as 0.075"
	case "duration":
		return "need a duration such as 1m"
	}
	return "need a " + f.Value.Type()
}
