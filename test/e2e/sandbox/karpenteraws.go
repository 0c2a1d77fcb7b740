// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// karpenterAWSModule is the folder of the module that names the version of Karpenter for AWS.
var karpenterAWSModule = filepath.Join("test", "karpenteraws", "controller")

// ApplyKarpenterAWSCRDs replaces Dovetail's CRDs in the cluster with those of Karpenter for AWS, as its chart installs them.
func (s *Sandbox) ApplyKarpenterAWSCRDs(ctx context.Context) error {
	root, err := Root()
	if err != nil {
		return err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws")
	list.Dir = filepath.Join(root, karpenterAWSModule)
	module, err := list.Output()
	if err != nil {
		return fmt.Errorf("find the module of Karpenter for AWS in %s: %w", list.Dir, err)
	}
	return s.ApplyCRDs(ctx, filepath.Join(strings.TrimSpace(string(module)), "pkg", "apis", "crds"))
}

// StartKarpenterAWS runs Karpenter's controller for AWS next to a sandbox that is up with --cloud aws --no-autoscaler and has its CRDs. The controller
// has the defaults of its chart, no lease, and the rights of the cluster's administrator. It writes to the file log.
func (s *Sandbox) StartKarpenterAWS(binary, log string) (*Process, error) {
	var ports [2]string
	for i := range ports {
		var err error
		if ports[i], err = FreePort(); err != nil {
			return nil, fmt.Errorf("find a port for Karpenter: %w", err)
		}
	}
	cmd := exec.Command(binary)
	cmd.Env = append(append(os.Environ(), s.awsEnvironment()...), "KUBECONFIG="+s.Kubeconfig(Admin),
		"CLUSTER_NAME=sandbox", "INTERRUPTION_QUEUE=sandbox", "DISABLE_LEADER_ELECTION=true", "SYSTEM_NAMESPACE=kube-system", "KUBERNETES_MIN_VERSION=1.19.0-0", "KARPENTER_SERVICE=karpenter",
		"LOG_LEVEL=info", "METRICS_PORT="+ports[0], "HEALTH_PROBE_PORT="+ports[1], "BATCH_MAX_DURATION=10s", "BATCH_IDLE_DURATION=1s", "VM_MEMORY_OVERHEAD_PERCENT=0.075",
		"FEATURE_GATES=ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false")
	return startProcess(cmd, log)
}

// awsEnvironment returns the environment in which the AWS SDK of another program reaches the simulated AWS, and nothing of a person's own account.
func (s *Sandbox) awsEnvironment() []string {
	return []string{"AWS_ENDPOINT_URL=" + s.AWSURL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=AKIDSANDBOX", "AWS_SECRET_ACCESS_KEY=sandbox", "AWS_SESSION_TOKEN=", "AWS_PROFILE=",
		"AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_CA_BUNDLE=", "AWS_EC2_METADATA_DISABLED=true"}
}
