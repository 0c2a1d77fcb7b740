// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// clusterAutoscalerGroup is the label of a template that names its node group.
const clusterAutoscalerGroup = "sandbox.dovetail.sh/node-group"

// StartClusterAutoscaler runs Cluster Autoscaler with its kwok provider beside a sandbox that is up with --no-autoscaler, with
// the rights of the cluster's administrator, without a lease, and with its own defaults but for flags. Each template is a node
// group of its own, of none to a thousand nodes, named as the template is. It writes to the file log, and returns when
// its health check answers. stop ends it and returns when it has ended.
func (s *Sandbox) StartClusterAutoscaler(ctx context.Context, binary string, templates []corev1.Node, log string, flags ...string) (stop func(), err error) {
	if err := s.createTemplates(ctx, templates); err != nil {
		return nil, err
	}
	return s.runClusterAutoscaler(ctx, binary, log, append([]string{"--cloud-provider=kwok"}, flags...), "KWOK_PROVIDER_MODE=local")
}

// StartClusterAutoscalerAWS runs Cluster Autoscaler with its AWS provider next to a sandbox that is up with --cloud aws, groups and --no-autoscaler. It finds the groups by their
// tags. Apart from that it is as StartClusterAutoscaler.
func (s *Sandbox) StartClusterAutoscalerAWS(ctx context.Context, binary, log string, flags ...string) (stop func(), err error) {
	config := "[Global]\n" // AWS_ENDPOINT_URL is not heeded by all of its clients
	for i, service := range []string{"ec2", "autoscaling", "eks"} {
		config += fmt.Sprintf("[ServiceOverride \"%d\"]\nService = %s\nRegion = us-east-1\nURL = %s\nSigningRegion = us-east-1\n", i, service, s.AWSURL)
	}
	file := filepath.Join(s.Dir, "cluster-autoscaler.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of Cluster Autoscaler: %w", err)
	}
	return s.runClusterAutoscaler(ctx, binary, log, append([]string{"--cloud-provider=aws", "--cloud-config=" + file,
		"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/sandbox"}, flags...), s.awsEnvironment()...)
}

func (s *Sandbox) runClusterAutoscaler(ctx context.Context, binary, log string, flags []string, environment ...string) (stop func(), err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port for Cluster Autoscaler: %w", err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(binary, append([]string{"--leader-elect=false", "--namespace=kube-system",
		"--address=" + address, "--kubeconfig=" + s.Kubeconfig(Admin), "--v=1"}, flags...)...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(Admin), "POD_NAMESPACE=kube-system"), environment...)
	p, err := startProcess(cmd, log)
	if err != nil {
		return nil, err
	}
	if err := awaitHealth(ctx, "http://"+address+"/health-check", p); err != nil {
		p.Stop()
		return nil, fmt.Errorf("cluster autoscaler does not answer; %s says why: %w", log, err)
	}
	return p.Stop, nil
}

// createTemplates writes the two ConfigMaps that the kwok provider reads.
func (s *Sandbox) createTemplates(ctx context.Context, templates []corev1.Node) error {
	text := ""
	for i := range templates {
		t := templates[i].DeepCopy()
		t.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		t.Labels[clusterAutoscalerGroup] = t.Name
		t.Annotations = map[string]string{"cluster-autoscaler.kwok.nodegroup/max-count": "1000"}
		one, err := yaml.Marshal(t)
		if err != nil {
			return fmt.Errorf("encode the template of node group %s: %w", t.Name, err)
		}
		text += "---\n" + string(one)
	}
	const config = `apiVersion: v1alpha1
readNodesFrom: configmap
nodegroups: {fromNodeLabelKey: ` + clusterAutoscalerGroup + `}
nodes: {skipTaint: true}
configmap: {name: kwok-provider-templates}
`
	for name, data := range map[string]map[string]string{"kwok-provider-config": {"config": config}, "kwok-provider-templates": {"templates": text}} {
		_, err := s.Kube.CoreV1().ConfigMaps("kube-system").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create configmap kube-system/%s: %w", name, err)
		}
	}
	return nil
}

// awaitHealth returns when a URL of a process answers 200, or an error after a minute or when the process has ended.
func awaitHealth(ctx context.Context, url string, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, testwait.Scale(time.Minute))
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return p.Ended()
		case <-tick.C:
		}
	}
}
