// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"errors"
	"fmt"
	"time"
)

// Config says for which cluster machines are bought, and how. Durations say how old what is known may be before AWS
// is asked again.
type Config struct {
	ClusterName       string
	ClusterEndpoint   string // of the API server; empty: EKS says
	ClusterCABundle   string // of the API server, PEM in base64; empty: EKS says
	KubernetesVersion string // minor, such as 1.36; empty: EKS says

	InterruptionQueue  string  // name of the queue; empty: none
	VMMemoryOverhead   float64 // share of a machine's memory that a node has not, until one was seen
	ReservedENIs       int     // network interfaces that pods get no addresses from
	IsolatedVPC        bool    // the price list can't be reached
	NoReservedCapacity bool    // capacity reservations are not looked at; EC2 fills those that are open as it does for anybody
	RebootForRepair    bool    // nodes with errors of GPUs that a reboot clears are rebooted
	ZonalShift         bool    // nothing is launched in zones that the cluster is shifted away from
	KubeletExpressions bool    // spec.kubelet of EC2NodeClasses may have CEL expressions

	DisableDryRun        bool          // permissions are not tried out before they are needed
	AMIRefresh           time.Duration // cache TTL of AMIs
	SubnetRefresh        time.Duration // cache TTL of subnets
	SecurityGroupRefresh time.Duration // cache TTL of security groups
	TypesRefresh         time.Duration // cache TTL of instance types
	PricesRefresh        time.Duration // cache TTL of prices
	GroupRefresh         time.Duration // cache TTL of node groups; a group is read again before it is changed

	StatusCheckInterval time.Duration // how often EC2's status checks of machines are asked for; 0: never
}

// DefaultConfig is the configuration that holds where nothing else is said. The cluster's name has no default.
func DefaultConfig() Config {
	return Config{
		VMMemoryOverhead: 0.075, AMIRefresh: time.Minute, SubnetRefresh: time.Minute, SecurityGroupRefresh: time.Minute, TypesRefresh: 12 * time.Hour, PricesRefresh: time.Hour, GroupRefresh: 10 * time.Second,
		StatusCheckInterval: time.Minute,
	}
}

// Validate says what is wrong with a configuration, and which flag or variable mends it; nil: nothing.
func (c Config) Validate() error {
	switch {
	case c.ClusterName == "":
		return errors.New("cluster name: missing; set --cluster-name or CLUSTER_NAME")
	case len(c.ClusterName) > 100:
		return fmt.Errorf("cluster name %q: longer than the 100 characters that EKS allows", c.ClusterName)
	case c.VMMemoryOverhead < 0 || c.VMMemoryOverhead >= 1:
		return fmt.Errorf("vm memory overhead: %v, need a share from 0 to less than 1, such as 0.075 (--vm-memory-overhead-percent or VM_MEMORY_OVERHEAD_PERCENT)", c.VMMemoryOverhead)
	case c.ReservedENIs < 0:
		return fmt.Errorf("reserved ENIs: %d, need at least 0 (--reserved-enis or RESERVED_ENIS)", c.ReservedENIs)
	case c.AMIRefresh <= 0 || c.SubnetRefresh <= 0 || c.SecurityGroupRefresh <= 0 || c.TypesRefresh <= 0 || c.PricesRefresh <= 0 || c.GroupRefresh <= 0:
		return errors.New("refresh intervals must be positive (AMI_REFRESH_INTERVAL, SUBNET_REFRESH_INTERVAL, SECURITY_GROUP_REFRESH_INTERVAL)")
	}
	return nil
}
