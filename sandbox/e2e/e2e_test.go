// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package e2e runs the built dovetail-sandbox, as a person would, and looks at
// what it leaves behind. It needs bin/dovetail-sandbox (or the path in
// DOVETAIL_SANDBOX_BIN) and fails without it: nothing is skipped.
//
// Where a test needs a `dovetail` beside the sandbox it is this test binary,
// called again: what is tested here is the sandbox's side of their contract.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play, ok := roles[os.Args[1]]; ok {
			os.Exit(play(os.Args[2:]))
		}
	}
	flag.Parse()
	// The tests mostly wait for processes other than this one.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("3"); err != nil {
			panic(err) // the flag is a number
		}
	}
	os.Exit(m.Run())
}

// verifyOnly skips a test with -short, which is what `make test` gives: `make verify` runs it.
func verifyOnly(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("part of make verify; -short was given")
	}
}

// roles are what the stand-in for the dovetail binary does.
var roles = map[string]func(args []string) int{
	"manifests": func([]string) int {
		fmt.Println(`apiVersion: v1
kind: Namespace
metadata:
  name: dovetail-system
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.dovetail.sh
spec:
  group: example.dovetail.sh
  scope: Cluster
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object}`)
		return 0
	},
	"controller": func(args []string) int { return serve(value(args, "--health-address"), "/readyz", args) },
}

func serve(address, health string, args []string) int {
	if contains(args, "--fall-over") {
		fmt.Fprintln(os.Stderr, "this is the last thing it said")
		return 3
	}
	if marker := value(args, "--lose-port-once"); marker != "" {
		if file, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = file.Close()
			fmt.Fprintln(os.Stderr, "listen tcp "+address+": bind: address already in use")
			return 1
		}
	}
	http.HandleFunc(health, func(http.ResponseWriter, *http.Request) {})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, nil))
	return 1
}

func value(args []string, flag string) string {
	for i, arg := range args[:len(args)-1] {
		if arg == flag {
			return args[i+1]
		}
	}
	return ""
}

func contains(args []string, want string) bool {
	for _, arg := range args {
		if arg == want {
			return true
		}
	}
	return false
}

// sandbox is one directory and the binary under test.
type sandbox struct {
	t   *testing.T
	bin string
	dir plane.Dir
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	bin := os.Getenv("DOVETAIL_SANDBOX_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin", "dovetail-sandbox")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("no sandbox to test: %v: build it with `make build` or set DOVETAIL_SANDBOX_BIN", err)
	}
	dir, err := plane.Resolve(filepath.Join(t.TempDir(), "sandbox"))
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, bin: bin, dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"supervisor", "manifests", plane.Kwok, plane.APIServer} {
				t.Logf("end of the log of %s:\n%s", name, supervise.LogTail(dir.Log(name), 10))
			}
		}
		if out, _, err := s.try("", "down"); err != nil {
			t.Errorf("down in the end: %v\n%s", err, out)
		}
		s.noProcess()
	})
	return s
}

func (s *sandbox) command(args ...string) *exec.Cmd {
	return exec.Command(s.bin, append([]string{"--dir", string(s.dir)}, args...)...)
}

// try runs a verb and returns its output, both streams, and exit status.
func (s *sandbox) try(stdin string, args ...string) (string, int, error) {
	cmd := s.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode(), err
}

func (s *sandbox) run(stdin string, args ...string) string {
	s.t.Helper()
	out, _, err := s.try(stdin, args...)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *sandbox) state() *supervise.State {
	s.t.Helper()
	state, err := supervise.Read(s.dir)
	if err != nil || state == nil {
		s.t.Fatalf("no state: %v", err)
	}
	return state
}

func (s *sandbox) child(name string) supervise.Child {
	s.t.Helper()
	for _, child := range s.state().Components {
		if child.Name == name {
			return child
		}
	}
	s.t.Fatalf("no component %s in %+v", name, s.state().Components)
	return supervise.Child{}
}

func (s *sandbox) kill(p supervise.Process) {
	s.t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		s.t.Fatalf("kill %d: %v", p.PID, err)
	}
}

// noProcess looks for any process that was told about the directory: every
// child is, in its arguments.
func (s *sandbox) noProcess() {
	s.t.Helper()
	eventually(s.t, "no process of the sandbox is left", func() error {
		out, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
		if err != nil {
			return fmt.Errorf("ps: %w", err)
		}
		if !bytes.Contains(out, []byte("ps -A")) {
			return errors.New("ps did not list itself, so it proves nothing")
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, string(s.dir)) {
				return fmt.Errorf("still there: %.200s", line)
			}
		}
		return nil
	})
}

// eventually waits for something that another process brings about. Its limit only ends a test that hangs: this module does not depend on the
// product's, which has internal/testwait to scale limits, so it is as long as the slowest machine needs.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	const limit = 5 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	if t.Context().Err() != nil { // In a cleanup.
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), limit)
	}
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, err)
		case <-tick.C:
		}
	}
}

const nodeAndPods = `
apiVersion: v1
kind: Node
metadata:
  name: by-hand
  annotations: {kwok.x-k8s.io/node: fake}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "20"}
  allocatable: {cpu: "3", memory: 7Gi, pods: "20"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web, resources: {requests: {cpu: 100m, memory: 100Mi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    metadata: {annotations: {sandbox.dovetail.sh/run-for: 10ms}}
    spec:
      restartPolicy: Never
      containers: [{name: once, image: once}]
`

func TestUpDown(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	if out, status, _ := s.try("", "status"); status != 1 || !strings.Contains(out, "no sandbox runs in") {
		t.Errorf("status before up: exit status %d\n%s", status, out)
	}
	if out, status, _ := s.try("", "kubectl", "get", "pods"); status != 1 || !strings.Contains(out, "no sandbox runs in") {
		t.Errorf("kubectl before up: exit status %d\n%s", status, out)
	}
	out := s.run("", "up", "--no-manifests", "--pull", "0")
	for _, name := range []string{plane.Etcd, plane.APIServer, plane.ControllerManager, plane.Scheduler, plane.Kwok} {
		if !strings.Contains(out, name+" ready") {
			t.Errorf("up does not say that %s is ready:\n%s", name, out)
		}
	}
	if out := s.run("", "kubectl", "version"); !strings.Contains(out, "Client Version: v1.37.2") || !strings.Contains(out, "Server Version: v1.37.2") {
		t.Errorf("wrong versions:\n%s", out)
	}

	s.run(nodeAndPods, "kubectl", "apply", "-f", "-")
	s.run("", "kubectl", "wait", "--for=condition=Ready", "node/by-hand", "--timeout=60s")
	s.run("", "kubectl", "rollout", "status", "deployment/web", "--timeout=60s")
	s.run("", "kubectl", "wait", "--for=condition=Complete", "job/once", "--timeout=60s")
	if got := s.run("", "kubectl", "get", "node/by-hand", "-o", "jsonpath={.status.capacity.cpu} {.status.allocatable.cpu}"); got != "4 3" {
		t.Errorf("capacity and allocatable are %q, want what the node was made with: 4 3", got)
	}
	// A Job's running pod is held by a finalizer; deleting it must not hang.
	s.run("", "kubectl", "delete", "job/once", "deployment/web", "--timeout=60s")
	s.run("", "kubectl", "wait", "--for=delete", "pod", "--all", "--timeout=60s")

	if out := s.run("", "up", "--no-manifests"); !strings.Contains(out, "already running") || !strings.Contains(out, s.dir.Kubeconfig(plane.Admin)) {
		t.Errorf("a second up should say that it runs, and where the kubeconfig is:\n%s", out)
	}
	if out, code, err := s.try("", "up", "--no-manifests", "--seed", "7"); code != 1 || !strings.Contains(out, "--seed 7 (it runs with 1)") || !strings.Contains(out, "down") {
		t.Errorf("a second up with another seed should name it, and how to stop what runs; it ended with %v:\n%s", err, out)
	}
	var status struct {
		Running     bool
		Version     string
		Nodes, Pods int
	}
	if err := json.Unmarshal([]byte(s.run("", "status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if !status.Running || status.Version != "v1.37.2" || status.Nodes != 1 {
		t.Errorf("status says %+v", status)
	}

	state := s.state()
	assertLoopbackOnly(t, state)
	s.run("", "down")
	processes := append([]supervise.Process{state.Supervisor}, nil...)
	ports := 0
	for _, child := range state.Components {
		processes = append(processes, child.Process)
		for _, port := range child.Ports {
			ports++
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			if connection, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				_ = connection.Close()
				t.Errorf("%s still listens on %s", child.Name, address)
			}
		}
	}
	for _, process := range processes {
		if process.Alive() {
			t.Errorf("process %d is alive after down", process.PID)
		}
	}
	if len(processes) != 6 || ports != 6 {
		t.Errorf("looked at %d processes and %d ports, want 6 and 6", len(processes), ports)
	}
	s.noProcess()
	for path, want := range map[string]bool{s.dir.Kubeconfig(plane.Admin): false, s.dir.State(): false, s.dir.Log(plane.APIServer): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", path, err == nil, want)
		}
	}
}

// assertLoopbackOnly tries every recorded port on the machine's other addresses.
func assertLoopbackOnly(t *testing.T, state *supervise.State) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		ip, _, err := net.ParseCIDR(address.String())
		if err != nil || ip.IsLoopback() || ip.To4() == nil {
			continue
		}
		for _, child := range state.Components {
			for _, port := range child.Ports {
				target := net.JoinHostPort(ip.String(), strconv.Itoa(port))
				if connection, err := net.DialTimeout("tcp", target, time.Second); err == nil {
					_ = connection.Close()
					t.Errorf("%s can be reached from outside: %s", child.Name, target)
				}
			}
		}
	}
}

// TestStoppedWhileStarting ends up at its first words: by Ctrl-C, and by a
// signal that it can't answer.
func TestStoppedWhileStarting(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	for _, test := range []struct {
		signal syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 130}, {syscall.SIGKILL, -1}} {
		t.Run(test.signal.String(), func(t *testing.T) {
			s := newSandbox(t)
			cmd := s.command("up", "--no-manifests")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			first := make([]byte, 4)
			if _, err := out.Read(first); err != nil || string(first) != "etcd" {
				t.Fatalf("the first words are %q (%v), want etcd's", first, err)
			}
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // The status says it.
			if status := cmd.ProcessState.ExitCode(); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			s.noProcess()
			if test.signal != syscall.SIGKILL && s.dir.HasData() {
				t.Error("the data of a cluster that never was are still there")
			}
		})
	}
}

func TestDeadChild(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	s.run("", "up", "--no-manifests")
	s.kill(s.child(plane.Kwok).Process)
	eventually(t, "status reports the death", func() error {
		out, status, _ := s.try("", "status")
		if status != 1 || !strings.Contains(out, "kwok died (signal: killed); the end of "+s.dir.Log(plane.Kwok)) {
			return fmt.Errorf("exit status %d:\n%s", status, out)
		}
		return nil
	})
	if out, status, _ := s.try("", "up", "--no-manifests"); status != 1 || !strings.Contains(out, "kwok died") {
		t.Errorf("a second up should report the dead child and fail: exit status %d\n%s", status, out)
	}
}

func TestDeadSupervisor(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	s.run("", "up", "--no-manifests")
	s.run("", "kubectl", "create", "configmap", "kept", "--from-literal=a=b")
	s.kill(s.state().Supervisor)
	s.noProcess()
	if out := s.run("", "up", "--no-manifests"); !strings.Contains(out, "using the data of an earlier run") {
		t.Errorf("up does not say that it goes on with old data:\n%s", out)
	}
	s.run("", "kubectl", "get", "configmap", "kept")
}

func TestKeep(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	s.run("", "up", "--no-manifests")
	s.run("", "kubectl", "create", "configmap", "kept", "--from-literal=a=b")
	s.run("", "down", "--keep")
	s.noProcess()
	s.run("", "up", "--no-manifests")
	s.run("", "kubectl", "get", "configmap", "kept")
}

// TestKubelets: a machine's kubelet goes with the sandbox, however that ends, and is back with the machine.
func TestKubelets(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	const kubelet = "kubelet-base-0"
	up := func() {
		t.Helper()
		s.run("", "up", "--dovetail", os.Args[0], "--kubelets", "--base", "m5.large")
		eventually(t, "the node is Ready, and its kubelet answers", func() error {
			out, _, err := s.try("", "kubectl", "get", "node/base-0", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
			if err != nil || out != "True" {
				return fmt.Errorf("Ready is %q: %v", out, err)
			}
			answer, err := http.Get(s.child(kubelet).Health)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		})
	}
	up()
	if got := s.run("", "kubectl", "get", "node/base-0", "-o", "jsonpath={.status.nodeInfo.kubeletVersion}"); got != "v1.37.2" {
		t.Errorf("the node's kubelet has version %q", got)
	}
	s.run("", "down", "--keep")
	s.noProcess()
	up()
	if err := syscall.Kill(s.child(kubelet).PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.kill(s.state().Supervisor)
	s.noProcess()
}

// TestChildThatFailsAtStart: the cause is named, and nothing is left.
func TestChildThatFailsAtStart(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	out, status, _ := s.try("", "up", "--dovetail", os.Args[0], "--controller-arg=--fall-over")
	if status != 1 || !strings.Contains(out, "dovetail died (exit status 3)") || !strings.Contains(out, "this is the last thing it said") {
		t.Errorf("exit status %d:\n%s", status, out)
	}
	s.noProcess()
}

// TestLostPort: a port can be taken between its choice and its use; the sandbox
// tries again with others.
func TestLostPort(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	marker := filepath.Join(t.TempDir(), "lost")
	out := s.run("", "up", "--dovetail", os.Args[0], "--controller-arg=--lose-port-once", "--controller-arg="+marker)
	if !strings.Contains(out, "dovetail lost its port to another process") {
		t.Errorf("up does not say that it started again:\n%s", out)
	}
	s.run("", "status")
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--dovetail", "/nowhere/dovetail"}, "no dovetail binary at /nowhere/dovetail"},
		{[]string{"--boot", "-1s"}, "--boot -1s: must not be negative"},
		{[]string{"--no-manifests", "--kubelets"}, "--kubelets: only the simulated cloud has machines, and --no-manifests starts none"},
		{[]string{"--replicas", "0"}, "--replicas 0: must be at least 1"},
		{[]string{"--dovetail", os.Args[0], "--catalog", "/nowhere/catalog.json"}, "--catalog /nowhere/catalog.json"},
		{[]string{"--dovetail", os.Args[0], "--groups"}, "--groups: only the simulated AWS has Auto Scaling groups; add --cloud aws"},
		{[]string{"--dovetail", os.Args[0], "--cloud", "aws", "--groups", "mine.yaml"}, "--groups=mine.yaml"},
		{[]string{"--dovetail", os.Args[0], "--cloud", "aws", "--groups=/nowhere/groups.yaml"}, "/nowhere/groups.yaml"},
	} {
		if out, status, _ := s.try("", append([]string{"up"}, test.args...)...); status != 1 || !strings.Contains(out, test.want) {
			t.Errorf("up %v: exit status %d, want 1 and %q:\n%s", test.args, status, test.want, out)
		}
	}
}

// TestReplicas: two controllers are started, one is killed, comes back, and is
// counted.
func TestReplicas(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newSandbox(t)
	s.run("", "up", "--dovetail", os.Args[0], "--replicas", "2", "--base", "m5.large")
	s.run("", "kubectl", "get", "crd/things.example.dovetail.sh", "namespace/dovetail-system")
	if got := s.run("", "kubectl", "get", "node/base-0", "-o", "jsonpath={.metadata.labels.node\\.kubernetes\\.io/instance-type}"); got != "m5.large" {
		t.Errorf("the base node's instance type is %q", got)
	}
	before := s.child("dovetail-1")
	s.kill(before.Process)
	eventually(t, "the controller is back", func() error {
		now := s.child("dovetail-1")
		if now.Restarts != 1 || now.State != supervise.Running || now.PID == before.PID || !now.Alive() {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	s.run("", "status")
	if other := s.child("dovetail-0"); other.Restarts != 0 {
		t.Errorf("the other controller was restarted too: %+v", other)
	}
}

// TestNodesBornTogether: a DaemonSet's pod is bound as soon as its node exists,
// before kwok has taken the node in hand. None may be forgotten.
func TestNodesBornTogether(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	const nodes = 200
	s := newSandbox(t)
	s.run("", "up", "--no-manifests", "--pull", "0")
	s.run(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: c, image: c}]
`, "kubectl", "apply", "-f", "-")
	client, err := plane.NewClient(s.dir, s.state().Server)
	if err != nil {
		t.Fatal(err)
	}
	var makers sync.WaitGroup
	for i := range nodes {
		makers.Go(func() {
			node := map[string]any{
				"apiVersion": "v1", "kind": "Node",
				"metadata": map[string]any{
					"name":        "n-" + strconv.Itoa(i),
					"annotations": map[string]string{"kwok.x-k8s.io/node": "fake"},
				},
				"status": map[string]any{"allocatable": map[string]string{"cpu": "4", "memory": "8Gi", "pods": "20"}},
			}
			if _, err := client.SendJSON(t.Context(), http.MethodPost, s.state().Server+"/api/v1/nodes", node); err != nil {
				t.Error(err)
			}
		})
	}
	makers.Wait()
	eventually(t, "every node has its running pod", func() error {
		got := s.run("", "kubectl", "get", "daemonset/everywhere", "-o", "jsonpath={.status.numberReady}")
		if got != strconv.Itoa(nodes) {
			return fmt.Errorf("%s of %d", got, nodes)
		}
		return nil
	})
}
