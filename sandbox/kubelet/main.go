// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command dovetail-kubelet is the kubelet of one simulated machine: Kubernetes'
// own kubelet (k8s.io/kubernetes/pkg/kubemark) on a container runtime that only
// records what it is asked for. Registration, lease, node status, admission,
// allocatable, the pods' lives and their ends are the kubelet's; the machine's
// size (machine.go) and its containers (runtime.go) are played.
//
// `dovetail-sandbox up --kubelets` starts one process for each machine and ends
// it with the machine. It is a binary of its own because the kubelet's code
// would otherwise be compiled into, and loaded by, every component of the
// sandbox. Start reading at run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubemark"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Machine is the file that --machine names.
type Machine struct {
	Node     machines.NodeSpec
	NotReady bool // the runtime reports that it has no network, as on a machine whose CNI plugin does not start
}

// settings are the command's flags.
type settings struct {
	kubeconfig, machine, root string
	listen                    netip.AddrPort
	pull                      time.Duration
}

func main() {
	var s settings
	listen := flag.String("listen", "", "loopback `address` of the kubelet's server, which answers /healthz")
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the node's identity")
	flag.StringVar(&s.machine, "machine", "", "JSON file that describes the machine")
	flag.StringVar(&s.root, "root-dir", "", "directory of the kubelet's own files")
	flag.DurationVar(&s.pull, "pull", 0, "how long an image takes to be pulled")
	flag.Parse()
	var err error
	if s.listen, err = netip.ParseAddrPort(*listen); err != nil {
		err = fmt.Errorf("--listen %q: want ADDRESS:PORT", *listen)
	} else {
		err = run(context.Background(), s)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "dovetail-kubelet: %v\n", err)
		os.Exit(1)
	}
}

// run runs the kubelet. It returns only with an error: a signal ends the process, as it ends a kubelet whose machine is turned off.
func run(ctx context.Context, s settings) error {
	text, err := os.ReadFile(s.machine)
	if err != nil {
		return fmt.Errorf("read the machine's description (--machine): %w", err)
	}
	var m Machine
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("--machine %s: %w", s.machine, err)
	}
	size, err := newSize(m.Node)
	if err != nil {
		return fmt.Errorf("--machine %s: %w", s.machine, err)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %q: %w", s.kubeconfig, err)
	}
	// The limits of a real kubelet: 50 requests a second, 100 at once.
	rest.QPS, rest.Burst, rest.UserAgent = 50, 100, "dovetail-kubelet"
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("connect to API server %s: %w", rest.Host, err)
	}
	beat := *rest
	beat.Timeout, beat.QPS = 10*time.Second, -1 // So that its requests never wait behind the others'.
	heartbeats, err := kubernetes.NewForConfig(&beat)
	if err != nil {
		return fmt.Errorf("connect to API server %s: %w", rest.Host, err)
	}
	// Its Unix sockets are below its directory, and their paths may have a hundred bytes: this name of it is short.
	if err := os.Chdir(s.root); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	s.root = "/proc/self/cwd"
	flags, config, err := configure(s, m, size)
	if err != nil {
		return err
	}
	runtime, err := newRuntime(client, filepath.Join(s.root, "runtime.json"), !m.NotReady)
	if err != nil {
		return err
	}
	k := kubemark.NewHollowKubelet(flags, config, client, heartbeats, size, newImages(s.pull), runtime, size.manager())
	k.KubeletDeps.ProbeManager = noProbes{}
	k.Run(klog.NewContext(ctx, klog.Background()))
	return errors.New("the kubelet exited")
}

// configure returns the kubelet's flags and its configuration: its own defaults, but for what the machine and the absence of
// containers make different.
func configure(s settings, m Machine, size *size) (*options.KubeletFlags, *kubeletconfig.KubeletConfiguration, error) {
	flags := options.NewKubeletFlags()
	flags.RootDirectory, flags.HostnameOverride = s.root, m.Node.Name
	flags.NodeLabels = m.Node.Labels
	config, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, nil, fmt.Errorf("the kubelet's default configuration: %w", err)
	}
	config.ProviderID = m.Node.ProviderID
	config.Address, config.Port, config.ReadOnlyPort = s.listen.Addr().String(), int32(s.listen.Port()), 0
	config.EnableDebuggingHandlers = false
	config.MaxPods = size.pods
	config.PodLogsDir = filepath.Join(s.root, "logs")
	config.StaticPodPath = ""
	config.MakeIPTablesUtilChains, config.MaxOpenFiles = false, 4096 // It must change nothing of the computer that it runs on.
	config.ResolverConfig, config.ClusterDNS = "", nil
	config.CgroupsPerQOS, config.EnforceNodeAllocatable = false, nil
	config.LocalStorageCapacityIsolation = true
	config.EnableControllerAttachDetach = true
	// The fake runtime reports no file systems to collect images and containers by.
	config.ImageGCHighThresholdPercent = 100
	config.EvictionHard = nil // The thresholds are part of what the machine has reserved.
	for _, t := range m.Node.Taints {
		config.RegisterWithTaints = append(config.RegisterWithTaints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return flags, config, nil
}
