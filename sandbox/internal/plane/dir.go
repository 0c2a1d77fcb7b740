// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package plane says what the sandbox's control plane consists of: the layout
// of its directory, the ports, certificates and kubeconfigs, each component's
// command line, kwok's stages, and a small client that asks the API server
// whether it is well. It starts no process and stops none (internal/supervise
// does), and it writes nowhere but below the sandbox's directory.
//
// Every address in it is 127.0.0.1. Start reading at Components.
package plane

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dovetail-sh/dovetail/sandbox/internal/pki"
)

// Dir is a sandbox's directory. Everything a sandbox writes is below it.
type Dir string

// DefaultDir is where a sandbox lives when nobody says otherwise:
// $DOVETAIL_SANDBOX_DIR, or a per-user state directory.
func DefaultDir() (Dir, error) {
	if dir := os.Getenv("DOVETAIL_SANDBOX_DIR"); dir != "" {
		return Resolve(dir)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("no home directory for the sandbox: set --dir or DOVETAIL_SANDBOX_DIR")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return Resolve(filepath.Join(state, "dovetail", "sandbox"))
}

// Resolve makes a directory's name independent of the working directory.
func Resolve(dir string) (Dir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve the sandbox directory %q: %w", dir, err)
	}
	return Dir(abs), nil
}

func (d Dir) path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// State is the supervisor's record of what runs.
func (d Dir) State() string { return d.path("state.json") }

// Lock is held by the one supervisor of the directory.
func (d Dir) Lock() string { return d.path("lock") }

// Log is a child's standard output and error.
func (d Dir) Log(name string) string { return d.path("logs", name+".log") }

// AuditLog is what the controller's identity asked kube-apiserver for, an audit event a line, where that is recorded.
func (d Dir) AuditLog() string { return d.path("logs", "audit.log") }

// ComeBack is the wish that a killed component be started again.
func (d Dir) ComeBack(name string) string { return d.path("come-back", name) }

// Cert is one of the files below pki.
func (d Dir) Cert(file string) string { return d.path("pki", file) }

// Journal is the simulated cloud's durable memory.
func (d Dir) Journal() string { return d.path("machines.journal") }

// Cache is where kubectl keeps what it learned about the API.
func (d Dir) Cache() string { return d.path("cache") }

func (d Dir) etcdData() string    { return d.path("etcd") }
func (d Dir) kwokHome() string    { return d.path("kwok") }
func (d Dir) kwokConfig() string  { return d.path("kwok", "sandbox.yaml") }
func (d Dir) auditPolicy() string { return d.path("cache", "audit.yaml") }

// Kubeconfig is the named identity's; Admin's is DIR/kubeconfig.
func (d Dir) Kubeconfig(identity string) string {
	if identity == Admin {
		return d.path("kubeconfig")
	}
	return d.path(identity + ".kubeconfig")
}

// The identities that a kubeconfig is written for.
const (
	Admin    = "admin"
	Dovetail = "dovetail"
	Machines = "machines"
)

// dovetailUser is who the controller is to kube-apiserver.
const dovetailUser = "system:serviceaccount:dovetail-system:dovetail"

var identities = []pki.Identity{
	{File: Admin, User: "sandbox-admin", Groups: []string{"system:masters"}},
	{File: ControllerManager, User: "system:kube-controller-manager"},
	{File: Scheduler, User: "system:kube-scheduler"},
	// kwok stands for every kubelet at once, which no built-in role describes;
	// its privileges are not what the sandbox tests.
	{File: Kwok, User: "kwok", Groups: []string{"system:masters"}},
	{File: Machines, User: "dovetail-machines"},
	// The controller is its ServiceAccount, without the token: the bindings
	// that the chart makes for the account are what it may do here.
	{File: Dovetail, User: dovetailUser,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:dovetail-system"}},
	{File: etcdClient, User: "kube-apiserver"},
}

const etcdClient = "etcd-client"

var serverNames = []string{
	"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
	"kubernetes.default.svc.cluster.local", serviceIP,
}

// Prepare makes the directory and the files that don't depend on ports.
func (d Dir) Prepare() error {
	for _, dir := range []string{"", "logs", "kwok", "cache", "come-back"} {
		if err := os.MkdirAll(d.path(dir), 0o700); err != nil {
			return fmt.Errorf("make the sandbox directory: %w", err)
		}
	}
	return pki.Ensure(d.path("pki"), serverNames, identities)
}

// RemoveData takes away everything but the logs.
func (d Dir) RemoveData() error {
	for _, elem := range []string{"etcd", "pki", "kwok", "cache", "come-back", "kubelets", "machines.journal"} {
		if err := os.RemoveAll(d.path(elem)); err != nil {
			return fmt.Errorf("remove the sandbox's data: %w", err)
		}
	}
	return d.removeKubeconfigs()
}

// removeKubeconfigs is part of RemoveData: a kubeconfig without its server
// would send a later kubectl to whoever has the port then.
func (d Dir) removeKubeconfigs() error {
	for _, identity := range identities {
		if err := os.RemoveAll(d.Kubeconfig(identity.File)); err != nil {
			return fmt.Errorf("remove a kubeconfig: %w", err)
		}
	}
	return nil
}

// HasData reports whether an earlier run left a cluster behind.
func (d Dir) HasData() bool {
	_, err := os.Stat(d.path("etcd", "member"))
	return err == nil
}

// WriteKubeconfigs writes one kubeconfig for each identity. Certificates are
// inline so that a copied file still works.
func (d Dir) WriteKubeconfigs(server string) error {
	for _, identity := range identities {
		if identity.File == etcdClient {
			continue
		}
		if err := d.writeKubeconfig(server, identity.File, d.Kubeconfig(identity.File)); err != nil {
			return err
		}
	}
	return nil
}

func (d Dir) writeKubeconfig(server, identity, path string) error {
	var data [3]string
	for i, file := range []string{"ca.crt", identity + ".crt", identity + ".key"} {
		raw, err := os.ReadFile(d.Cert(file))
		if err != nil {
			return fmt.Errorf("write the kubeconfig of %s: %w", identity, err)
		}
		data[i] = base64.StdEncoding.EncodeToString(raw)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: dovetail-sandbox
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: dovetail-sandbox
  context:
    cluster: dovetail-sandbox
    user: %[3]s
current-context: dovetail-sandbox
`, server, data[0], identity, data[1], data[2])
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", identity, err)
	}
	return nil
}

// The components inside the binary, by the names they are called and logged by.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)
