// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// recorder is a process that records.
type recorder struct {
	*env
	log bytes.Buffer
	cmd *exec.Cmd
}

// record starts a recording of the sandbox by a user.
func (e *env) record(user, file string, flags ...string) *recorder {
	e.t.Helper()
	_, bin, err := sandbox.Binaries()
	e.must(err)
	r := &recorder{env: e, cmd: exec.Command(bin, append([]string{"record", "--out", file, "--kubeconfig", e.as(user)}, flags...)...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	e.must(r.cmd.Start())
	e.t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// end sends a signal to the recorder and waits until it has ended.
func (r *recorder) end(s syscall.Signal) error {
	r.t.Helper()
	r.must(r.cmd.Process.Signal(s))
	return r.cmd.Wait()
}

// holds waits until a recording has so many pods of the test that run, and returns its report.
func (e *env) holds(file string, runs, want int) (out *record.Report) {
	e.t.Helper()
	e.until(fmt.Sprintf("run %d of %s has %d running pods", runs, file, want), func() error {
		pods := 0
		running := map[string]bool{}
		var err error
		out, err = record.Read(file, record.Visitor{Change: func(c record.Change) {
			if c.Kind == "Pod" && strings.HasPrefix(c.Key, e.name+"/") {
				running[c.Key] = c.Object != nil && strings.Contains(string(c.Object), `"phase":"Running"`)
			}
		}})
		for _, is := range running {
			if is {
				pods++
			}
		}
		if err == nil && (out.Runs != runs || pods != want) {
			err = fmt.Errorf("%d runs, %d pods", out.Runs, pods)
		}
		return err
	})
	return out
}

// A recorder with read rights alone is killed and resumed: the file has what happened in both runs, no secret, and a plan can be made
// of it.
func TestRecord(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shared(t), "record")
	e.grant("recorder", []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}})
	file := filepath.Join(t.TempDir(), "r.zst")
	first := e.record("recorder", file)
	e.nodePool(nil)
	secret := func(p *corev1.PodTemplateSpec) {
		p.Annotations = map[string]string{"example.com/token": "planted-1"}
		c := &p.Spec.Containers[0]
		c.Env, c.Args, c.Command = []corev1.EnvVar{{Name: "TOKEN", Value: "planted-2"}}, []string{"--token=planted-3"}, []string{"planted-4"}
	}
	e.deploy("a", 2, e.pod("500m", "256Mi", secret))
	e.podsRun(2)
	e.holds(file, 1, 2)
	if err := first.end(syscall.SIGKILL); err == nil {
		t.Fatal("a process that was killed has succeeded")
	}
	e.deploy("b", 1, e.pod("500m", "256Mi", secret))
	e.podsRun(3)
	second := e.record("recorder", file)
	report := e.holds(file, 2, 3)
	if len(report.Problems) > 0 || len(report.Gaps) != 1 || len(report.Header.Denied) > 0 {
		t.Errorf("resumed: %+v", report)
	}
	if err := second.end(syscall.SIGINT); err != nil || !strings.Contains(second.log.String(), "Recorded ") {
		t.Errorf("interrupted: %v, it said:\n%s", err, second.log.String())
	}
	objects, _, err := record.Objects(file)
	e.must(err)
	for _, o := range objects {
		if strings.Contains(string(o.Object), "planted-") {
			t.Errorf("%s %s: %s", o.Kind, o.Key, o.Object)
		}
	}
	for _, kind := range []string{"Pod", "Node", "NodePool", "NodeClaim", "KWOKNodeClass", "ReplicaSet", "Deployment"} {
		if !slices.ContainsFunc(objects, func(c record.Change) bool { return c.Kind == kind }) {
			t.Errorf("no %s was recorded", kind)
		}
	}
	if status, out := e.dovetail("plan", "--compare", "-f", file); status != 0 && status != 3 {
		t.Errorf("plan --compare of the recording: status %d: %s", status, out)
	}
	// Without rights it says which are missing, and leaves no file.
	other := filepath.Join(t.TempDir(), "none.zst")
	nobody := e.record("nobody", other)
	if err := nobody.cmd.Wait(); err == nil || !strings.Contains(nobody.log.String(), "no permission to list and watch nodes in all namespaces; bind a ClusterRole that grants it") {
		t.Errorf("without rights: %v, it said:\n%s", err, nobody.log.String())
	}
	if _, err := record.Read(other, record.Visitor{}); err == nil {
		t.Error("without rights it has written a file")
	}
}

// A controller records what it watches, and StatefulSets, goes on after a SIGKILL, and can be replayed.
func TestControllerRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := own(t, "--controller-arg", "--record-dir="+dir)
	e := newEnv(t, s, "records")
	host, err := os.Hostname()
	e.must(err)
	file := filepath.Join(dir, host+".zst")
	e.nodePool(nil)
	e.deploy("a", 1, e.pod("500m", "256Mi", planted))
	e.stateful("db", e.pod("500m", "256Mi", planted))
	e.podsRun(2)
	e.holds(file, 1, 2)
	leader, err := s.Leader()
	e.must(err)
	e.must(syscall.Kill(leader.PID, syscall.SIGKILL))
	e.deploy("b", 1, e.pod("500m", "256Mi", planted))
	e.podsRun(3)
	if report := e.holds(file, 2, 3); len(report.Problems) > 0 || len(report.Gaps) != 1 || !slices.Equal(report.Header.Denied, []string{"Deployment"}) {
		t.Errorf("after a SIGKILL: %+v", report)
	}
	e.isWhole(file)
}

// Shadow mode records what a controller does, with the rights that the chart ships for it, which are to read only.
func TestShadowRecords(t *testing.T) {
	t.Parallel()
	e := newEnv(t, shared(t), "shadowrecords")
	dir := t.TempDir()
	host, err := os.Hostname()
	e.must(err)
	file := filepath.Join(dir, host+".zst")
	p := e.besideIt("--record-dir=" + dir)
	e.nodePool(nil)
	e.deploy("a", 1, e.pod("500m", "256Mi", planted))
	e.stateful("db", e.pod("500m", "256Mi", planted))
	e.podsRun(2)
	if report := e.holds(file, 1, 2); len(report.Problems) > 0 || !slices.Equal(report.Header.Denied, []string{"Deployment"}) {
		t.Errorf("recorded: %+v", report)
	}
	p.end()
	e.isWhole(file)
}

// planted gives a pod a secret.
func planted(p *corev1.PodTemplateSpec) {
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TOKEN", Value: "planted-1"}}
}

// stateful creates a StatefulSet of one pod.
func (e *env) stateful(app string, p corev1.PodTemplateSpec) {
	e.t.Helper()
	p.Labels["app"] = app
	one := int32(1)
	_, err := e.s.Kube.AppsV1().StatefulSets(e.name).Create(e.ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, Template: p}}, metav1.CreateOptions{})
	e.must(err)
}

// isWhole checks that a recording of a controller has all that a replay needs and no secret, and that it can be replayed.
func (e *env) isWhole(file string) {
	e.t.Helper()
	objects, _, err := record.Objects(file)
	e.must(err)
	for _, o := range objects {
		if strings.Contains(string(o.Object), "planted-") {
			e.t.Errorf("%s %s: %s", o.Kind, o.Key, o.Object)
		}
	}
	for _, kind := range []string{"Pod", "Node", "NodePool", "NodeClaim", "KWOKNodeClass", "ReplicaSet", "StatefulSet", "Namespace"} {
		if !slices.ContainsFunc(objects, func(c record.Change) bool { return c.Kind == kind }) {
			e.t.Errorf("no %s was recorded", kind)
		}
	}
	if status, out := e.dovetail("replay", file); status != 0 || !strings.Contains(out, "CURRENT") {
		e.t.Errorf("replay of the recording: status %d: %s", status, out)
	}
}
