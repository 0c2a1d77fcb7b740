// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/replay/recording"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const openbHead = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"

// writeTianchi writes a data set of the contest.
func writeTianchi(t *testing.T, path string, parts map[string]string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for part, text := range parts {
		w, err := z.Create("scheduling_b_" + part + "_2018.csv")
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// playTrace plays a public trace with the NodePool of labs.
func playTrace(t *testing.T, path, format string) (*recording.Recording, *replay.Result) {
	t.Helper()
	table := state.NewResourceTable()
	types := labTypes(table)
	r, err := recording.ReadTrace(path, format, table)
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := r.Variant(func(m *manifests.Set) error { return m.Read("pool", poolText) }, offerLab)
	if err != nil {
		t.Fatal(err)
	}
	v.Policy, v.Types = decide.DefaultPolicy(), types
	return r, replay.Play(r.Trace, v)
}

var poolText = []byte(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default},
	requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}, disruption: {consolidateAfter: Never}}}`)

// TestOpenb: pods run for as long as they did, or until they were deleted; one that was never scheduled is there until then; a GPU that no type has
// refuses its pod.
func TestOpenb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pods.csv")
	if err := os.WriteFile(path, []byte(openbHead+
		"served,1000,2048,0,0,,LS,Running,0,7200,0\n"+
		"batch,3000,4096,0,0,,BE,Succeeded,600,4200,620\n"+
		"waited,2000,2048,0,0,,BE,Pending,100,700,\n"+
		"gpu,2000,2048,1,460,V100M32,BE,Failed,100,700,101\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, played := playTrace(t, path, "openb")
	if len(r.Assumed) != 3 || !strings.HasPrefix(r.Assumed[0], "1 pods that take a part of a GPU") || !strings.HasPrefix(r.Assumed[1], "1 pods that name GPU types") {
		t.Errorf("assumed %q", r.Assumed)
	}
	measured := replay.Measure(r.Trace, nil)
	if measured.Pods != 4 || measured.Unbound != 1 || measured.Waiting != (20+600+1)*time.Second || measured.Micro != 0 {
		t.Errorf("measured %+v", measured)
	}
	// 40 s for each node to boot; "waited" is bound now; the pod of a GPU waits until the end.
	if played.Pods != 4 || played.Unbound != 1 || len(played.Refused) == 0 || played.Launched < 2 || played.Micro == 0 || played.To.Sub(r.Trace.From) != 2*time.Hour {
		t.Errorf("played %+v", played.Figures)
	}
	if waits := played.Waiting - 7100*time.Second; waits < 40*time.Second || waits > 4*time.Minute {
		t.Errorf("pods waited %s", waits)
	}
}

// TestTianchi: all instances run for a day, those of applications that exclude each other on nodes of their own.
func TestTianchi(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.zip")
	writeTianchi(t, path, map[string]string{
		"app_resources":    "app_1,0.5|0.6|0.5,1|2|2,60,0,0,0\napp_2,0.25|0.25,1|1,60,0,0,0\n",
		"app_interference": "app_1,app_1,0\napp_1,app_2,0\napp_2,app_2,1\n",
		"instance_deploy":  "inst_1,app_1,m_1\ninst_2,app_1,\ninst_3,app_2,m_2\ninst_4,app_2,m_2\n",
	})
	r, played := playTrace(t, path, "tianchi")
	if c := r.Trace.Owners[0].Pods[0].Pod.Class; c.Requests[0] != 750 || c.Requests[1] != 2<<30 || len(c.AntiAffinity) != 2 {
		t.Errorf("requests %v, %d rules", c.Requests, len(c.AntiAffinity))
	}
	if played.Launched != 3 || played.Unbound != 0 || played.To.Sub(r.Trace.From) != 24*time.Hour {
		t.Errorf("played %+v, want 3 nodes", played.Figures)
	}
	if !strings.Contains(strings.Join(r.Assumed, "\n"), "1 rules that allow some instances") {
		t.Errorf("assumed %q", r.Assumed)
	}
}

// TestBadTraces: what can't be read is named with its line.
func TestBadTraces(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct{ text, want string }{
		{"", "has no lines"},
		{"name,cpu\n", "line 1: no column cpu_milli; need name, cpu_milli"},
		{openbHead + "a,1,1,0,0,,LS,Running,,5,\n", "line 2: creation_time is missing"},
		{openbHead + "a,1,1,0,0,,LS,Running,0,5,\nb,-1,1,0,0,,LS,Running,0,5,\n", `line 3, cpu_milli: "-1": need a whole number`},
		{openbHead + "a,1,1,0,0,,LS,Running,soon,5,\n", `"soon": need a number of seconds`},
		{openbHead + "a,1\n", "record on line 2: wrong number of fields"},
	} {
		path := filepath.Join(dir, "bad.csv")
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := recording.ReadTrace(path, "openb", state.NewResourceTable())
		if err == nil || !strings.HasPrefix(err.Error(), "read "+path+" as a trace of format openb: ") || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %s", x.text, err, x.want)
		}
	}
	path := filepath.Join(dir, "bad.zip")
	writeTianchi(t, path, map[string]string{"app_resources": "app_1,1,1\n", "app_interference": "a,b,1\n", "instance_deploy": "i,app_2,m\n"})
	if _, err := recording.ReadTrace(path, "tianchi", state.NewResourceTable()); err == nil || !strings.HasSuffix(err.Error(), "instance_deploy: line 1: app_resources has no app_2") {
		t.Error(err)
	}
}
