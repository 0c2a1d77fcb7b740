// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const clusterAPIRole = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/dovetail-cluster-api"

// mistaken is a sandbox with Cluster API's objects and no controllers of Cluster API, and what people are told there.
type mistaken struct {
	*env
	infra *kwokInfra
	serve string // address of the controller's metrics
}

// TestClusterAPIMistakes: what is wrong in the management cluster is told in conditions, in the events of pods and by "dovetail why", with the object, the field, the
// value and a remedy: an odd annotation, a template that does not exist, each right of the role that is missing, a management cluster that is gone.
func TestClusterAPIMistakes(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	s := own(t, "--no-autoscaler")
	if err := s.ApplyClusterAPICRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &mistaken{env: newEnv(t, s, "mistakes"), infra: startInfra(t, s)}
	port, err := sandbox.FreePort()
	m.must(err)
	m.serve = "127.0.0.1:" + port
	m.allow("cluster-api")
	m.infra.addDeployment("lost", nil)
	m.infra.addDeployment("odd", nil, "capacity.cluster-autoscaler.kubernetes.io/cpu", "four", "capacity.cluster-autoscaler.kubernetes.io/memory", "16Gi")
	m.fromGroups(nil, "lost", "odd")
	m.deploy("waits", 1, m.pod("1", "1Gi"))
	server := newSevered(t, s)
	flags := []string{"--cloud", "clusterapi", "--cluster-api-cluster", "default/workload", "--management-kubeconfig", server.kubeconfig, "--metrics-address", m.serve}
	stop := m.controllerOf(flags...)
	for _, want := range []string{
		`MachineDeployment default/odd: annotation capacity.cluster-autoscaler.kubernetes.io/cpu: "four": use an amount above 0, for example 4 or 16Gi`,
		`MachineDeployment default/lost: annotations capacity.cluster-autoscaler.kubernetes.io/cpu and capacity.cluster-autoscaler.kubernetes.io/memory: missing, and its infrastructure template has no status.capacity; set both (spec.template.spec.infrastructureRef: KwokMachineTemplate default/lost does not exist; create it, or name one that exists)`,
	} {
		m.tells("class", want)
		m.tells("pool", want)
	}
	m.tells("pod", "odd")
	m.tells("why", "odd")

	server.sever()
	for _, where := range []string{"pool", "pod", "why"} {
		m.tells(where, "check that the management cluster runs and that --management-kubeconfig names it")
	}
	server.mend()
	m.tells("pool", "default/odd: annotation")

	m.infra.addTemplate("lost", "type-lost", 4, map[string]string{testLabel: m.name})
	stop(syscall.SIGTERM)
	m.eachRight(flags)
}

// eachRight: without each of the rights that growing from zero needs, people are told which is missing, of what, and what grants it. TestEachRight has those by which groups shrink.
func (m *mistaken) eachRight(flags []string) {
	m.t.Helper()
	type rule struct {
		APIGroups []string `json:"apiGroups"`
		Resources []string `json:"resources"`
		Verbs     []string `json:"verbs"`
	}
	role, err := sandbox.Get[struct{ Rules []rule }](m.ctx, m.s, clusterAPIRole)
	m.must(err)
	var all []rule // of one right each
	for _, r := range role.Rules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				all = append(all, rule{r.APIGroups, []string{resource}, []string{verb}})
			}
		}
	}
	used := []string{"get clusters", "list machinedeployments", "list machinesets", "list machinepools", "list machines", "get *", "patch machinedeployments"}
	for i, r := range all {
		group, resource, verb := r.APIGroups[0], r.Resources[0], r.Verbs[0]
		at := slices.Index(used, verb+" "+resource)
		if at < 0 {
			continue
		}
		used = slices.Delete(used, at, at+1)
		text, err := json.Marshal(map[string]any{"rules": slices.Concat(all[:i:i], all[i+1:])})
		m.must(err)
		m.must(m.s.Patch(m.ctx, clusterAPIRole, string(text)))
		stop := m.controllerOf(flags...)
		if resource == "*" {
			resource = "kwokmachinetemplates"
		}
		where := "pool"
		if verb == "patch" || resource == "machines" {
			where = "claim" // what is launched tells it
		}
		m.tells(where, fmt.Sprintf("cannot %s resource %q in API group %q", verb, resource, group))
		m.tells(where, `grant the rights that "dovetail manifests --cluster-api" prints`)
		stop(syscall.SIGTERM)
	}
	if len(used) > 0 {
		m.t.Errorf("the role does not grant %q", used)
	}
}

// told returns what people read in a place.
func (m *mistaken) told(where string) (text string, err error) {
	switch where {
	case "class":
		c, err := sandbox.Get[dovetailv1alpha1.NodeGroupClass](m.ctx, m.s, groupClasses+"/"+m.name)
		if err != nil {
			return "", err
		}
		return falseText(c.Status.Conditions), nil
	case "pool":
		return falseText(m.pool().Status.Conditions), nil
	case "claim":
		list, err := sandbox.Get[karpv1.NodeClaimList](m.ctx, m.s, claims)
		if err != nil {
			return "", err
		}
		for _, c := range list.Items {
			text += falseText(c.Status.Conditions)
		}
		return text, nil
	case "pod":
		list, err := m.s.Kube.CoreV1().Events(m.name).List(m.ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		if err != nil {
			return "", err
		}
		for _, e := range list.Items {
			text += e.Message + "\n"
		}
		return text, nil
	}
	_, bin, err := sandbox.Binaries()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(m.ctx, bin, "why", "pod/"+m.name+"/"+m.pods()[0].Name, "--server", "http://"+m.serve).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("dovetail why: %w: %s", err, out)
	}
	return string(out), nil
}

// falseText returns the messages of conditions that are not True, a line each.
func falseText(conditions []metav1.Condition) (text string) {
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			text += c.Type + ": " + c.Message + "\n"
		}
	}
	return text
}

// tells waits until people read something in a place.
func (m *mistaken) tells(where, want string) {
	m.t.Helper()
	said := ""
	m.until(fmt.Sprintf("%s says %q", where, want), func() error {
		text, err := m.told(where)
		if err == nil && !strings.Contains(text, want) {
			err = errors.New(text)
		}
		said = text
		return err
	})
	m.t.Logf("%s:\n%s", where, said)
}

// severed is a way to the API server of a sandbox that can be cut.
type severed struct {
	kubeconfig string // of the controller, by this way

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func newSevered(t *testing.T, s *sandbox.Sandbox) *severed {
	t.Helper()
	config, err := s.Config(sandbox.Dovetail)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.Kubeconfig(sandbox.Dovetail))
	if err != nil {
		t.Fatal(err)
	}
	w := &severed{kubeconfig: filepath.Join(t.TempDir(), "management.kubeconfig")}
	if err := os.WriteFile(w.kubeconfig, bytes.ReplaceAll(text, []byte(to.Host), []byte(l.Addr().String())), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			w.carry(from, to.Host)
		}
	}()
	t.Cleanup(func() { l.Close(); w.sever() })
	return w
}

// carry copies what a connection sends and gets, unless the way is cut.
func (w *severed) carry(from net.Conn, address string) {
	to, err := net.Dial("tcp4", address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.cut {
		from.Close()
		if err == nil {
			to.Close()
		}
		return
	}
	w.conns = append(w.conns, from, to)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // it ends when the way is cut
			way[0].Close()
		}()
	}
}

func (w *severed) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

func (w *severed) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}
