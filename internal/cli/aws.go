// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// awsFlags are the settings of --cloud aws: each a flag and, where the flag is not given, Karpenter's environment variable.
type awsFlags struct {
	config  *awsapi.Config
	profile string // instance profile of Provisioners that name none
	gates   string // feature gates
	flags   *pflag.FlagSet
}

// awsVariables are the environment variables by flag.
var awsVariables = []struct{ flag, variable string }{
	{"cluster-name", "CLUSTER_NAME"}, {"cluster-endpoint", "CLUSTER_ENDPOINT"}, {"cluster-ca-bundle", "CLUSTER_CA_BUNDLE"},
	{"interruption-queue", "INTERRUPTION_QUEUE"}, {"vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT"}, {"reserved-enis", "RESERVED_ENIS"},
	{"isolated-vpc", "ISOLATED_VPC"}, {"disable-dry-run", "DISABLE_DRY_RUN"}, {"enable-zonal-shift", "ENABLE_ZONAL_SHIFT"}, {"ami-refresh-interval", "AMI_REFRESH_INTERVAL"},
	{"subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL"}, {"security-group-refresh-interval", "SECURITY_GROUP_REFRESH_INTERVAL"}, {"default-instance-profile", "AWS_DEFAULT_INSTANCE_PROFILE"},
}

func (f *awsFlags) add(g *pflag.FlagSet) {
	config := awsapi.DefaultConfig()
	f.config, f.flags = &config, g
	c := f.config
	g.StringVar(&c.ClusterName, "cluster-name", "", "Name of the EKS cluster. Required with --cloud=aws (CLUSTER_NAME)")
	g.StringVar(&c.ClusterEndpoint, "cluster-endpoint", "", "URL of the API server that nodes join. If unset, read from EKS (CLUSTER_ENDPOINT)")
	g.StringVar(&c.ClusterCABundle, "cluster-ca-bundle", "", "CA certificate of the API server for nodes, base64-encoded PEM. If unset, read from EKS (CLUSTER_CA_BUNDLE)")
	g.StringVar(&f.profile, "default-instance-profile", "", "Instance profile for Provisioners (v1alpha5) that do not set one (AWS_DEFAULT_INSTANCE_PROFILE)")
	g.StringVar(&f.gates, "aws-feature-gates", "", "Feature gates of the AWS provider, as NAME=true|false. NodeClassCEL (default false): CEL expressions in spec.kubelet of an EC2NodeClass. RebootForRepair (default false): reboot nodes to repair GPU errors that a reboot clears, which needs ec2:RebootInstances (AWS_FEATURE_GATES)")
	g.StringVar(&c.InterruptionQueue, "interruption-queue", "", "Name of the SQS queue for interruption events. If unset, no queue is read (INTERRUPTION_QUEUE)")
	g.Float64Var(&c.VMMemoryOverhead, "vm-memory-overhead-percent", c.VMMemoryOverhead, "Fraction of an instance's memory assumed unavailable to its node, until a node of that type has registered (VM_MEMORY_OVERHEAD_PERCENT)")
	g.IntVar(&c.ReservedENIs, "reserved-enis", c.ReservedENIs, "Number of network interfaces per instance that are not used for pod IPs (RESERVED_ENIS)")
	g.BoolVar(&c.IsolatedVPC, "isolated-vpc", false, "Use built-in prices instead of the AWS Price List API (ISOLATED_VPC)")
	g.BoolVar(&c.DisableDryRun, "disable-dry-run", false, "Do not check EC2 permissions with dry-run requests in advance (DISABLE_DRY_RUN)")
	g.BoolVar(&c.ZonalShift, "enable-zonal-shift", false, "Do not launch, consolidate, drift or repair nodes in a zone that an ARC zonal shift moves the EKS cluster away from. Needs arc-zonal-shift:GetManagedResource (ENABLE_ZONAL_SHIFT)")
	g.DurationVar(&c.AMIRefresh, "ami-refresh-interval", c.AMIRefresh, "How long discovered AMIs are cached (AMI_REFRESH_INTERVAL)")
	g.DurationVar(&c.SubnetRefresh, "subnet-refresh-interval", c.SubnetRefresh, "How long discovered subnets are cached (SUBNET_REFRESH_INTERVAL)")
	g.DurationVar(&c.SecurityGroupRefresh, "security-group-refresh-interval", c.SecurityGroupRefresh, "How long discovered security groups are cached (SECURITY_GROUP_REFRESH_INTERVAL)")
}

// read takes in the environment and says what is wrong with the settings.
func (f *awsFlags) read(getenv func(string) string) (awsapi.Config, error) {
	for _, v := range awsVariables {
		value := getenv(v.variable)
		if value == "" || f.flags.Changed(v.flag) {
			continue
		}
		if err := f.flags.Set(v.flag, value); err != nil {
			return *f.config, exit{2, fmt.Errorf("environment variable %s: %q: %s", v.variable, value, wanted(f.flags.Lookup(v.flag)))}
		}
	}
	var err error
	if f.config.KubeletExpressions, err = isGateOn(f.gates, gateNodeClassCEL); err != nil {
		return *f.config, exit{2, fmt.Errorf("--aws-feature-gates: %w", err)}
	}
	f.config.RebootForRepair, _ = isGateOn(f.gates, gateRebootForRepair)
	if err := f.config.Validate(); err != nil {
		return *f.config, exit{2, fmt.Errorf("--cloud aws: %w", err)}
	}
	return *f.config, nil
}

// connectAWS connects to the account of Auto Scaling groups with the credentials of the person who runs a command. instead is what to do if the groups
// are not of AWS.
func connectAWS(ctx context.Context, instead string) (*awsapi.Clients, error) {
	clients, err := awsapi.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("read Auto Scaling groups: %w; set AWS_REGION and AWS_PROFILE, or %s", err, instead)
	}
	return clients, nil
}

// awsProvider connects to AWS.
func awsProvider(ctx context.Context, clients *awsapi.Clients, config *awsapi.Config, cluster *client.Client, resources *state.ResourceTable, log *slog.Logger) (*aws.Provider, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	version, err := cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	config.KubernetesVersion = version
	log.Info("launching from EC2", "region", clients.Region, "cluster", config.ClusterName, "kubernetes", version)
	return aws.New(clients, *config, resources, cloud.Wall{}, log)
}
