// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// failer is what tests and properties have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// clock is the time of a test. It moves by a second with every look.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time {
	c.now = c.now.Add(time.Second)
	return c.now
}

func newClock() *clock { return &clock{time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)} }

func config(path string, c *clock) Config {
	return Config{Path: path, Header: Header{Program: "test", Cluster: "uid-1", Kinds: recordedKinds()}, Now: c.Now, Idle: time.Minute, hasty: true}
}

func begin(t failer, c Config) *Writer {
	t.Helper()
	w, _, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Namespace, p.Spec.NodeName = name, "shop", node
	p.Labels = map[string]string{"app": "web"}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry/app", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}}}
	return p
}

func set(w *Writer, p *corev1.Pod) { w.Set("v1", "Pod", p.Namespace+"/"+p.Name, p) }

// keys returns the objects at the end of a recording, as key=node.
func keys(t failer, path string) ([]string, *Report) {
	t.Helper()
	have, report, err := Objects(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range have {
		var p corev1.Pod
		if err := json.Unmarshal(c.Object, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, c.Key+"="+p.Spec.NodeName)
	}
	return out, report
}

func same(t failer, what string, have, want []string) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Fatalf("%s: have %q, want %q", what, have, want)
	}
}

// A recording that was ended, resumed and ended again holds what there is; the time between is a gap.
func TestResume(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "r.zst"), newClock()
	w := begin(t, config(path, c))
	set(w, pod("a", ""))
	set(w, pod("b", "n1"))
	if err := errors.Join(w.Synced(), w.Close()); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Hour)
	w, resumed, err := Open(config(path, c))
	if err != nil || !resumed {
		t.Fatalf("resumed: %t, %v", resumed, err)
	}
	set(w, pod("b", "n1"))
	set(w, pod("d", "n1"))
	if err := w.Synced(); err != nil {
		t.Fatal(err)
	}
	set(w, pod("b", "n1")) // as it was: not written
	set(w, pod("b", "n2"))
	w.Delete("Pod", "shop/d")
	w.Delete("Pod", "shop/never")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	have, report := keys(t, path)
	same(t, "objects", have, []string{"shop/b=n2"})
	if report.Runs != 2 || len(report.Gaps) != 1 || report.Gaps[0].To.Sub(report.Gaps[0].From) < time.Hour || report.Changes["Pod"] != 2 || len(report.Problems) > 0 {
		t.Errorf("report: %+v", report)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(z); err != nil { // any zstd reads it
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "hunter2") || strings.Contains(text.String(), "registry/app") {
		t.Errorf("the recording holds what nobody needs:\n%s", text.String())
	}
}

// killed records three batches, the first of which is the snapshot, and returns the file's bytes without its proper end, with what
// was flushed by how many bytes.
func killed(t failer, path string) (whole []byte, flushed []int) {
	w := begin(t, config(path, newClock()))
	set(w, pod("a", ""))
	if err := w.Synced(); err != nil {
		t.Fatal(err)
	}
	note := func() {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		flushed = append(flushed, int(info.Size()))
	}
	note()
	for _, node := range []string{"n1", "n2"} {
		set(w, pod("a", node))
		set(w, pod("b-"+node, node))
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		note()
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return whole, flushed
}

// A recorder that is killed at any byte loses what was not flushed and no more, and the next run goes on with the file.
func TestKilledAtEveryByte(t *testing.T) {
	whole, flushed := killed(t, filepath.Join(t.TempDir(), "whole.zst"))
	want := [][]string{{"shop/a="}, {"shop/a=n1", "shop/b-n1=n1"}, {"shop/a=n2", "shop/b-n1=n1", "shop/b-n2=n2"}}
	path := filepath.Join(t.TempDir(), "r.zst")
	for cut := 0; cut <= len(whole); cut += 1 + cut%3 { // all kinds of places, in half the time
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		done := 0
		for done < len(flushed) && flushed[done] <= cut {
			done++
		}
		if done == 0 {
			if _, _, err := Objects(path); err == nil {
				t.Fatalf("cut at %d: there are objects before the first snapshot was complete", cut)
			}
		} else {
			have, _ := keys(t, path)
			same(t, fmt.Sprintf("cut at %d", cut), have, want[done-1])
		}
		if cut%23 > 0 && cut < len(whole) {
			continue // each run waits for the disk
		}
		w := begin(t, config(path, newClock()))
		set(w, pod("later", "n9"))
		if err := errors.Join(w.Synced(), w.Close()); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		have, report := keys(t, path)
		same(t, fmt.Sprintf("resumed after a cut at %d", cut), have, []string{"shop/later=n9"})
		if len(report.Problems) > 0 {
			t.Fatalf("resumed after a cut at %d: %v", cut, report.Problems)
		}
		if done > 0 && report.Runs != 2 {
			t.Fatalf("resumed after a cut at %d: %d runs", cut, report.Runs)
		}
	}
}

// A file with wrong bytes: what is read is right, the rest has a place, and a later run is read.
func TestCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.zst")
	whole, _ := killed(t, path)
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := begin(t, config(path, newClock()))
	set(w, pod("later", "n9"))
	if err := errors.Join(w.Synced(), w.Close()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for at := 0; at < len(first); at += 1 + at%5 {
		for _, flip := range []byte{1 << (at % 8), 0xff} {
			bad := slices.Clone(good)
			bad[at] ^= flip
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			have, report := keys(t, path)
			same(t, fmt.Sprintf("byte %d ^ %#x", at, flip), have, []string{"shop/later=n9"})
			if len(report.Problems) > 0 {
				told++
				if p := report.Problems[0]; p.File != path || p.Offset > int64(len(first)) || !strings.Contains(p.Why, "restore") && !strings.Contains(p.Why, "damaged") && !strings.Contains(p.Why, "not by") {
					t.Fatalf("byte %d ^ %#x: %s", at, flip, p)
				}
			}
		}
	}
	if told < len(whole)/3 {
		t.Errorf("of %d wrong bytes only %d were told", len(first), told)
	}
}

// What can't be read is an error that names the file and what to do.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty: nothing was recorded":               nil,
		"byte 0: not a recording; need a file that": []byte("apiVersion: v1\n"),
		"byte 0: compressed, but not by":            z.EncodeAll([]byte("{}\n"), nil),
		"byte 0: newer format: format version 2, by dovetail 9.9; this dovetail reads version 1 and older: use a newer": z.EncodeAll([]byte(`{"t":1,"recording":{"version":2,"program":"9.9"}}`+"\n"), nil),
	} {
		path := filepath.Join(dir, "f.zst")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Objects(path); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), path) {
			t.Errorf("want %q, have %v", name, err)
		}
		if _, _, err := Open(config(path, newClock())); (err == nil) != (len(data) == 0) {
			t.Errorf("%s: recorded over it: %v", name, err)
		}
		if have, err := os.ReadFile(path); err != nil || len(data) > 0 && !bytes.Equal(have, data) {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
	if _, _, err := Objects(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
	if _, _, err := Objects(dir); err == nil || !strings.Contains(err.Error(), "is a directory; need the file") {
		t.Errorf("a directory: %v", err)
	}
}

// Another cluster, another key, another process: the file stays as it is.
func TestRefusesOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.zst")
	key, err := OpenAnonymizer(path+".key", true)
	if err != nil {
		t.Fatal(err)
	}
	c := config(path, newClock())
	w := begin(t, c)
	if _, _, err := Open(c); err == nil || !strings.Contains(err.Error(), "another process is recording to it") {
		t.Errorf("two at once: %v", err)
	}
	if err := errors.Join(w.Synced(), w.Close()); err != nil {
		t.Fatal(err)
	}
	other := c
	other.Header.Cluster = "uid-2"
	if _, _, err := Open(other); err == nil || !strings.Contains(err.Error(), "is a recording of another cluster (uid-1, not uid-2); record to another file") {
		t.Errorf("another cluster: %v", err)
	}
	hidden := c
	hidden.Anonymizer = key
	if _, _, err := Open(hidden); err == nil || !strings.Contains(err.Error(), "holds a recording without --anonymize") {
		t.Errorf("anonymized after plain: %v", err)
	}
	hidden.Path = filepath.Join(dir, "h.zst")
	w = begin(t, hidden)
	set(w, pod("a", "n1"))
	if err := errors.Join(w.Synced(), w.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := OpenAnonymizer(path+".key", false)
	if err != nil {
		t.Fatal(err)
	}
	hidden.Anonymizer = again
	w = begin(t, hidden)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if hidden.Anonymizer, err = OpenAnonymizer(filepath.Join(dir, "other.key"), true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(hidden); err == nil || !strings.Contains(err.Error(), "was anonymized with another key") {
		t.Errorf("another key: %v", err)
	}
	if _, err := OpenAnonymizer(filepath.Join(dir, "gone.key"), false); err == nil || !strings.Contains(err.Error(), "is missing: it holds the anonymization key") {
		t.Errorf("no key: %v", err)
	}
}

// However often a recorder is started again, no file grows far beyond its size.
func TestRotationOfRestarts(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "r.zst"), newClock()
	conf := config(path, c)
	conf.MaxBytes, conf.MaxFiles = 4<<10, 3
	r := rand.New(rand.NewSource(1))
	for range 40 {
		w := begin(t, conf)
		for i := range 10 {
			set(w, pod(fmt.Sprint("x", i), fmt.Sprint("n", r.Int63()))) // text that does not compress
		}
		if err := errors.Join(w.Synced(), w.Flush(), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Files(path)
	if err != nil || len(files) != 4 {
		t.Fatalf("%q, %v: want four files", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 2*conf.MaxBytes {
			t.Errorf("%s: %d bytes, %v", f, info.Size(), err)
		}
	}
}

// A full file gets a number, and the next one begins with all there is, so that any of them can be read alone.
func TestRotation(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "r.zst"), newClock()
	conf := config(path, c)
	conf.MaxBytes, conf.MaxFiles = 4<<10, 3
	w := begin(t, conf)
	set(w, pod("first", "n1"))
	if err := w.Synced(); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(1))
	var changes int64
	for w.Stats().Files < 6 {
		set(w, pod("x", fmt.Sprint("n", r.Int63()))) // text that does not compress
		if changes++; changes%10 == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "files", files, []string{path + ".4", path + ".5", path + ".6", path})
	have, report := keys(t, path)
	if len(have) != 2 || have[0] != "shop/first=n1" || len(report.Gaps) > 0 || report.Runs != 4 {
		t.Errorf("%q, %+v", have, report)
	}
	for _, f := range files {
		if have, _ := keys(t, f); len(have) != 2 {
			t.Errorf("%s alone: %q", f, have)
		}
	}
	// The number of a file is not given twice after another start either, and another cluster does not go on with these.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	conf.Header.Cluster = "uid-2"
	if _, _, err := Open(conf); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("another cluster's files: %v", err)
	}
}

// While nothing changes a recording says so now and then, so that it is known how far it goes.
func TestIdle(t *testing.T) {
	path, c := filepath.Join(t.TempDir(), "r.zst"), newClock()
	w := begin(t, config(path, c))
	if err := w.Synced(); err != nil {
		t.Fatal(err)
	}
	before := w.Stats().Bytes
	if err := w.Flush(); err != nil || w.Stats().Bytes != before {
		t.Fatalf("nothing has changed, and %d bytes were written: %v", w.Stats().Bytes-before, err)
	}
	c.now = c.now.Add(2 * time.Minute)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	at := c.now
	c.now = c.now.Add(-time.Hour) // the clock is set back: time stands still until it is reached again
	set(w, pod("a", ""))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, report := keys(t, path); !report.To.Equal(at) {
		t.Errorf("it goes up to %s, want %s", report.To, at)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Names that belong together do so afterwards.
func TestTokens(t *testing.T) {
	a := &Anonymizer{key: []byte("a key")}
	of := func(kind string, x map[string]any) map[string]any { return project(kind, x, a) }
	meta := func(name string, more map[string]any) map[string]any {
		out := map[string]any{"name": name, "namespace": "shop"}
		for k, v := range more {
			out[k] = v
		}
		return map[string]any{"metadata": out}
	}
	hash := map[string]any{"pod-template-hash": "6868699558"}
	owned := func(kind, name string) []any {
		return []any{map[string]any{"kind": kind, "name": name, "controller": true}}
	}
	rs := of("ReplicaSet", meta("web-6868699558", map[string]any{"labels": hash, "ownerReferences": owned("Deployment", "web")}))
	p := of("Pod", meta("web-6868699558-abcde", map[string]any{"labels": hash, "ownerReferences": owned("ReplicaSet", "web-6868699558")}))
	claim := of("PersistentVolumeClaim", meta("web-6868699558-abcde-data", map[string]any{"ownerReferences": owned("Pod", "web-6868699558-abcde")}))
	get := func(x map[string]any, path ...any) string {
		var v any = x
		for _, k := range path {
			switch k := k.(type) {
			case string:
				v = v.(map[string]any)[k]
			case int:
				v = v.([]any)[k]
			}
		}
		return v.(string)
	}
	rsName := get(rs, "metadata", "name")
	if got := get(p, "metadata", "ownerReferences", 0, "name"); got != rsName {
		t.Errorf("the pod's owner is %s, the ReplicaSet %s", got, rsName)
	}
	if want := get(rs, "metadata", "ownerReferences", 0, "name") + "-" + get(p, "metadata", "labels", "pod-template-hash"); rsName != want {
		t.Errorf("the ReplicaSet is %s, want %s", rsName, want)
	}
	if got, want := get(claim, "metadata", "name"), get(p, "metadata", "name")+"-"+a.Token("data"); got != want {
		t.Errorf("the claim of an ephemeral volume is %s, want %s", got, want)
	}
	for have, want := range map[string]string{
		a.labelValue("topology.kubernetes.io/zone", "us-east-1a"): "us-east-1a",
		a.labelValue("karpenter.sh/nodepool", "default"):          "default",
		a.labelValue("example.com/generation", "7"):               "7", // Gt and Lt compare it
		a.labelValue("app", "web"):                                a.Token("web"),
		a.labelValue("kubernetes.io/hostname", "node-1"):          a.Token("node-1"),
		a.providerID("aws:///us-east-1a/i-0abc"):                  "aws:///us-east-1a/" + a.Token("i-0abc"),
		a.Token("kube-system"):                                    "kube-system",
	} {
		if have != want {
			t.Errorf("have %s, want %s", have, want)
		}
	}
}

// Whatever was recorded is read: drawn changes, runs, kills and sizes of files.
func TestDrawnRecordings(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path, c := filepath.Join(dir, fmt.Sprint(n, ".zst")), newClock()
		conf := config(path, c)
		conf.MaxBytes = int64(rapid.IntRange(0, 1).Draw(t, "rotates")) * 500
		var want []string
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			w := begin(t, conf)
			have := map[string]string{}
			change := func() {
				name := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "pod"))
				if node := rapid.IntRange(-1, 3).Draw(t, "node"); node < 0 {
					w.Delete("Pod", "shop/"+name)
					delete(have, name)
				} else {
					have[name] = fmt.Sprint("n", node)
					set(w, pod(name, have[name]))
				}
			}
			for range rapid.IntRange(0, 5).Draw(t, "at first") {
				change()
			}
			if err := w.Synced(); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 20).Draw(t, "changes") {
				change()
				if rapid.Bool().Draw(t, "flush") {
					if err := w.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			want = nil
			for name, node := range have {
				want = append(want, "shop/"+name+"="+node)
			}
			slices.Sort(want)
			if rapid.Bool().Draw(t, "killed") {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				if err := w.file.Close(); err != nil { // as the end of the process does
					t.Fatal(err)
				}
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					t.Fatal(err)
				}
				_, err = f.Write([]byte{0x10, 0x00, 0x01, 0xab, 0xcd}[:rapid.IntRange(0, 5).Draw(t, "begun")]) // of a block of 8 KiB
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			} else if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := keys(t, path)
		same(t, "objects", got, want)
	})
}

// recordedKinds returns the kinds that a recording can hold, sorted.
func recordedKinds() []string { return slices.Sorted(maps.Keys(fields().kinds)) }
