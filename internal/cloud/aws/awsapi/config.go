// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"errors"
	"fmt"
	"time"
)

// Config configures the AWS provider of one cluster.
type Config struct {
	ClusterName       string
	ClusterEndpoint   string // URL of the API server; empty: read from EKS
	ClusterCABundle   string // CA certificates of the API server, PEM in base64; empty: read from EKS
	KubernetesVersion string // minor version, e.g. 1.36; empty: read from EKS

	InterruptionQueue  string  // name of the queue; empty: none
	VMMemoryOverhead   float64 // share of a machine's memory that is not available to its node, until a node has been observed
	ReservedENIs       int     // network interfaces not used for pod addresses
	IsolatedVPC        bool    // use built-in prices instead of the AWS Price List API
	NoReservedCapacity bool    // ignore capacity reservations; EC2 still uses open ones by default
	RebootForRepair    bool    // reboot nodes to repair GPU errors that a reboot clears
	ZonalShift         bool    // launch nothing in zones that the cluster is shifted away from
	KubeletExpressions bool    // allow CEL expressions in spec.kubelet of EC2NodeClasses

	DisableDryRun        bool          // do not check permissions in advance
	AMIRefresh           time.Duration // cache TTL of AMIs
	SubnetRefresh        time.Duration // cache TTL of subnets
	SecurityGroupRefresh time.Duration // cache TTL of security groups
	TypesRefresh         time.Duration // cache TTL of instance types
	PricesRefresh        time.Duration // cache TTL of prices
	GroupRefresh         time.Duration // cache TTL of node groups; a group is always read before it is changed

	StatusCheckInterval time.Duration // polling interval of EC2 status checks; 0: disabled
}

// DefaultConfig returns the default configuration. ClusterName has no default.
func DefaultConfig() Config {
	return Config{
		VMMemoryOverhead: 0.075, AMIRefresh: time.Minute, SubnetRefresh: time.Minute, SecurityGroupRefresh: time.Minute, TypesRefresh: 12 * time.Hour, PricesRefresh: time.Hour, GroupRefresh: 10 * time.Second,
		StatusCheckInterval: time.Minute,
	}
}

// Validate returns an error that names the invalid setting and its flag or environment variable.
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
