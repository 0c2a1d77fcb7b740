// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plane

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serviceRange holds the virtual addresses of Services; nothing answers there.
const (
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
	podRange     = "10.0.0.0/9"
)

// Options are what a person chooses about a sandbox.
type Options struct {
	Dovetail       string        `json:"dovetail,omitempty"` // path of the dovetail binary; empty: no manifests, no cloud, no controller
	NoAutoscaler   bool          `json:"noAutoscaler"`
	Boot           time.Duration `json:"boot"`
	Pull           time.Duration `json:"pull"`
	Seed           int64         `json:"seed"`
	Catalog        string        `json:"catalog,omitempty"`
	Base           string        `json:"base,omitempty"`
	Replicas       int           `json:"replicas"`
	Cloud          string        `json:"cloud"`              // what the controller buys from: CloudKwok or CloudAWS
	Groups         string        `json:"groups,omitempty"`   // Auto Scaling groups of the simulated AWS: OwnGroups, a file, or none
	NodePool       bool          `json:"nodePool,omitempty"` // the example NodePool of the cloud is created
	ManagerQPS     int           `json:"managerQPS"`         // requests a second of kube-controller-manager
	Kubelets       string        `json:"kubelets,omitempty"` // path of the dovetail-kubelet binary, run once a node; empty: kwok plays the kubelets
	Audit          bool          `json:"audit,omitempty"`    // Dovetail's requests are written to Dir.AuditLog
	ControllerArgs []string      `json:"controllerArgs,omitempty"`
	MachinesArgs   []string      `json:"machinesArgs,omitempty"`
	FeatureGates   []string      `json:"featureGates,omitempty"` // of the control plane, each as NAME=true or NAME=false; with any, beta APIs are served
}

// What the controller buys from. The machines are the same.
const (
	CloudKwok = "kwok"
	CloudAWS  = "aws"
)

// FastManager is how many requests a second kube-controller-manager may make here: at its own default of 20 a Deployment of a thousand pods takes
// 48 s to exist.
const FastManager = 5000

// auditPolicy has kube-apiserver record who asked for what, without the objects, where it was the controller's identity that asked.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["` + dovetailUser + `"]}
- {level: None}
`

// Component is one child process: how to start it and how to ask whether it is
// ready.
type Component struct {
	Name    string
	Args    []string // after the executable
	Env     []string // added to the environment
	Exe     string   // empty: this binary
	Ports   map[string]int
	Health  string // URL that answers 200 when ready
	Restart bool   // started again when it dies, as a kubelet would
}

// Ports draws free loopback ports. They are drawn below the range from which
// kernels take the source ports of outgoing connections: a port found free by
// listening on port 0 could be taken by one of our own connections before its
// server listens.
type Ports struct{ given map[int]bool }

// Next is a port that nobody listened on a moment ago.
func (p *Ports) Next() (int, error) {
	if p.given == nil {
		p.given = map[int]bool{}
	}
	const low, high, tries = 15000, 32000, 1000
	for range tries {
		port := low + rand.IntN(high-low)
		if p.given[port] {
			continue
		}
		listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("release port %d: %w", port, err)
		}
		p.given[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d after %d tries", low, high, tries)
}

// Plan is every component of one sandbox, with its ports drawn.
type Plan struct {
	Server            string // URL of the API server
	MachinesURL       string
	KubeletsAddress   string // where the supervisor starts and ends kubelets; empty without
	AWSURL            string // of the simulated AWS, empty without
	Etcd              Component
	APIServer         Component
	ControllerManager Component
	Scheduler         Component
	Kwok              Component
	Machines          *Component
	Controllers       []Component
	ports             *Ports
}

// Components draws ports, writes the configuration files that name them and
// says how each component is started.
func Components(d Dir, o Options) (*Plan, error) {
	ports := &Ports{}
	next := make([]int, 6+3+2*o.Replicas)
	for i := range next {
		port, err := ports.Next()
		if err != nil {
			return nil, err
		}
		next[i] = port
	}
	etcd, peer, api, kcm, sched, kwok, machines, aws, kubelets := next[0], next[1], next[2], next[3], next[4], next[5], next[6], next[7], next[8]
	server := "https://" + loopback(api)
	if err := d.WriteKubeconfigs(server); err != nil {
		return nil, err
	}
	if err := os.WriteFile(d.kwokConfig(), []byte(KwokConfig(o.Pull, o.Seed)), 0o600); err != nil {
		return nil, fmt.Errorf("write kwok's configuration: %w", err)
	}
	// The collector would otherwise take a fifth of both cores while a burst of
	// a thousand pods goes through; memory is the cheaper of the two here.
	gc := []string{"GOGC=400"}
	var audit []string
	if o.Audit {
		if err := os.WriteFile(d.auditPolicy(), []byte(auditPolicy), 0o600); err != nil {
			return nil, fmt.Errorf("write the audit policy: %w", err)
		}
		audit = []string{"--audit-policy-file=" + d.auditPolicy(), "--audit-log-path=" + d.AuditLog(), "--audit-log-mode=batch"}
	}
	var gates, served []string
	if len(o.FeatureGates) > 0 {
		gates, served = []string{"--feature-gates=" + strings.Join(o.FeatureGates, ",")}, []string{"--runtime-config=api/beta=true"}
	}
	etcdURL, peerURL := "https://"+loopback(etcd), "https://"+loopback(peer)
	serving := []string{"--tls-cert-file=" + d.Cert("serving.crt"), "--tls-private-key-file=" + d.Cert("serving.key")}
	p := &Plan{
		Server: server, ports: ports,
		Etcd: Component{
			Name: Etcd, Env: gc, Ports: map[string]int{"client": etcd, "peer": peer}, Health: etcdURL + "/readyz",
			Args: []string{Etcd,
				"--name=sandbox", "--data-dir=" + d.etcdData(), "--log-level=warn",
				"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
				"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
				"--initial-cluster=sandbox=" + peerURL,
				"--client-cert-auth", "--trusted-ca-file=" + d.Cert("ca.crt"),
				"--cert-file=" + d.Cert("serving.crt"), "--key-file=" + d.Cert("serving.key"),
				"--peer-client-cert-auth", "--peer-trusted-ca-file=" + d.Cert("ca.crt"),
				"--peer-cert-file=" + d.Cert("serving.crt"), "--peer-key-file=" + d.Cert("serving.key"),
				// A sandbox that loses its last second when the machine loses
				// power is no loss; an fsync for every write is.
				"--unsafe-no-fsync", "--snapshot-count=10000", "--quota-backend-bytes=4294967296",
			},
		},
		APIServer: Component{
			Name: APIServer, Env: gc, Ports: map[string]int{"https": api}, Health: server + "/readyz",
			Args: append([]string{APIServer,
				"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(api), "--advertise-address=127.0.0.1",
				// Endpoints on loopback are refused by validation, and no pod
				// here would call them.
				"--endpoint-reconciler-type=none",
				"--etcd-servers=" + etcdURL, "--etcd-cafile=" + d.Cert("ca.crt"),
				"--etcd-certfile=" + d.Cert(etcdClient+".crt"), "--etcd-keyfile=" + d.Cert(etcdClient+".key"),
				"--client-ca-file=" + d.Cert("ca.crt"), "--authorization-mode=Node,RBAC", "--allow-privileged",
				"--service-cluster-ip-range=" + serviceRange,
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + d.Cert("sa.key"), "--service-account-signing-key-file=" + d.Cert("sa.key"),
				// Fair queuing stays on as in any cluster, with room enough that
				// a burst is limited by the cores and not by it.
				"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
				"--profiling=false",
			}, slices.Concat(audit, gates, served, serving)...),
		},
		ControllerManager: Component{
			Name: ControllerManager, Env: gc, Ports: map[string]int{"https": kcm}, Health: "https://" + loopback(kcm) + "/healthz",
			Args: append([]string{ControllerManager,
				"--kubeconfig=" + d.Kubeconfig(ControllerManager), "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(kcm),
				"--use-service-account-credentials", "--service-account-private-key-file=" + d.Cert("sa.key"),
				"--root-ca-file=" + d.Cert("ca.crt"), "--leader-elect=false", "--profiling=false",
				"--kube-api-qps=" + strconv.Itoa(o.ManagerQPS), "--kube-api-burst=" + strconv.Itoa(o.ManagerQPS*3/2),
				"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=20", "--concurrent-statefulset-syncs=10",
				"--concurrent-daemonset-syncs=5", "--concurrent-job-syncs=10", "--concurrent-gc-syncs=20",
				// Five seconds by default; it is how long a new Node may keep
				// its not-ready:NoExecute taint after it is ready.
				"--node-monitor-period=1s",
				// It annotates every new Node for the benefit of kubelets' caches.
				// That write collides with the one that takes the not-ready taint
				// away, which is then tried again 150 ms later.
				"--controllers=*,-ttl-controller",
			}, slices.Concat(gates, serving)...),
		},
		Scheduler: Component{
			Name: Scheduler, Env: gc, Ports: map[string]int{"https": sched}, Health: "https://" + loopback(sched) + "/readyz",
			Args: append([]string{Scheduler,
				"--kubeconfig=" + d.Kubeconfig(Scheduler), "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(sched),
				"--leader-elect=false", "--profiling=false", "--kube-api-qps=5000", "--kube-api-burst=10000",
			}, slices.Concat(gates, serving)...),
		},
		Kwok: Component{
			Name: Kwok, Ports: map[string]int{"http": kwok}, Health: "http://" + loopback(kwok) + "/healthz",
			// kwok reads a configuration of the user's, where there is one,
			// from its work directory.
			Env: append(gc, "KWOK_WORKDIR="+d.kwokHome()),
			Args: []string{Kwok,
				"--kubeconfig=" + d.Kubeconfig(Kwok), "--config=" + d.kwokConfig(),
				"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
				"--v=WARN", // At INFO it is a line for each change of each pod.
				// With leases it forgets a pod that is bound before its own cache
				// shows the lease it has just taken, for ever: 1 in 200 on a busy
				// machine. So a Node's status is its heartbeat (see stages/node.yaml).
				"--node-lease-duration-seconds=0", "--cidr=" + podRange, "--server-address=" + loopback(kwok),
			},
		},
	}
	if o.Dovetail == "" {
		return p, nil
	}
	p.MachinesURL = "http://" + loopback(machines)
	args := []string{Machines,
		"--kubeconfig", d.Kubeconfig(Machines), "--listen", loopback(machines), "--journal", d.Journal(),
		"--boot", o.Boot.String(), "--seed", strconv.FormatInt(o.Seed, 10)}
	if o.Catalog != "" {
		args = append(args, "--catalog", o.Catalog)
	}
	if o.Kubelets != "" {
		p.KubeletsAddress = loopback(kubelets)
		args = append(args, "--kubelets", "http://"+p.KubeletsAddress)
	}
	p.Machines = &Component{
		Name: Machines, Ports: map[string]int{"http": machines}, Health: p.MachinesURL + "/healthz",
	}
	cloud := []string{"--cloud", "kwok", "--machines", p.MachinesURL}
	var env []string
	if o.Cloud == CloudAWS {
		p.AWSURL = "http://" + loopback(aws)
		p.Machines.Ports["aws"] = aws
		args = append(args, "--aws-address", loopback(aws), "--aws-cluster-name", clusterName, "--aws-cluster-endpoint", server,
			"--aws-interruption-queue", clusterName)
		var err error
		if env, err = awsEnv(d, server, p.AWSURL); err != nil {
			return nil, err
		}
		cloud = []string{"--cloud", "aws"}
		if o.Groups != "" {
			cloud = append(cloud, "--node-group-auto-discovery", GroupDiscovery)
		}
	}
	p.Machines.Args = append(args, o.MachinesArgs...)
	if o.NoAutoscaler {
		return p, nil
	}
	for i := range o.Replicas {
		metrics, health := next[9+2*i], next[10+2*i]
		c := Component{
			Name: Dovetail, Exe: o.Dovetail, Restart: true,
			Ports:  map[string]int{"metrics": metrics, "health": health},
			Health: "http://" + loopback(health) + "/readyz",
			Env:    env,
			Args: slices.Concat([]string{"controller", "--kubeconfig", d.Kubeconfig(Dovetail)}, cloud, []string{
				"--leader-elect=" + strconv.FormatBool(o.Replicas > 1), "--feature-gates=NodeRepair=true,SpotToSpotConsolidation=true",
				"--metrics-address", loopback(metrics), "--health-address", loopback(health),
			}, o.ControllerArgs),
		}
		if o.Replicas > 1 {
			c.Name = fmt.Sprintf("%s-%d", Dovetail, i)
		}
		p.Controllers = append(p.Controllers, c)
	}
	return p, nil
}

// awsEnv is the environment of a controller in an account of the simulated AWS,
// in the names that Karpenter reads. A person's own configuration of AWS is
// kept out: nothing here may ever reach a real account.
func awsEnv(d Dir, server, url string) ([]string, error) {
	ca, err := os.ReadFile(d.Cert("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's authority: %w", err)
	}
	return append(AWSClientEnv(url),
		"AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_EC2_METADATA_DISABLED=true",
		"CLUSTER_NAME="+clusterName, "CLUSTER_ENDPOINT="+server, "CLUSTER_CA_BUNDLE="+base64.StdEncoding.EncodeToString(ca),
		"INTERRUPTION_QUEUE="+clusterName, "ENABLE_ZONAL_SHIFT=true",
	), nil
}

// AWSClientEnv returns the environment variables, as NAME=VALUE, with which an AWS client uses the simulated AWS at an URL. The keys are fictitious.
func AWSClientEnv(url string) []string {
	return []string{"AWS_ENDPOINT_URL=" + url, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=AKIDSANDBOX", "AWS_SECRET_ACCESS_KEY=sandbox"}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
