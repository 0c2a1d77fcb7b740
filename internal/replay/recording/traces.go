// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"archive/zip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// traceReaders read the public traces of other clusters, by format. docs/REPLAY.md states how each is mapped.
var traceReaders = map[string]func(*traceReader, string) error{"openb": (*traceReader).readOpenb, "tianchi": (*traceReader).readTianchi}

// TraceFormats returns the formats that ReadTrace supports, sorted.
func TraceFormats() []string { return slices.Sorted(maps.Keys(traceReaders)) }

// traceBegin is when traces begin: their times are relative.
var traceBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	traceNamespace = "default"
	tianchiDay     = 24 * time.Hour // that its usage curves cover
	gpuResource    = "nvidia.com/gpu"
)

// traceReader makes a Trace of a public one, which has pods and no nodes.
type traceReader struct {
	out     *Recording
	t       *translate.Translator
	classes map[string]*model.Class
	owners  map[string]*replay.Owner
}

// ReadTrace reads a public trace in one of the TraceFormats. The result has no NodePools.
func ReadTrace(path, format string, table *state.ResourceTable) (*Recording, error) {
	lookup := manifests.New()
	r := &traceReader{
		out:     &Recording{Path: path, Trace: &replay.Trace{From: traceBegin}, Table: table},
		t:       &translate.Translator{Table: table, Lookup: lookup},
		classes: map[string]*model.Class{}, owners: map[string]*replay.Owner{},
	}
	if err := traceReaders[format](r, path); err != nil {
		return nil, fmt.Errorf("read %s as a trace of format %s: %w", path, format, err)
	}
	r.out.Assumed = append(r.out.Assumed, "the trace has no nodes: the column recorded has no cost")
	return r.out, nil
}

// tracePod is a pod of a trace. Times are since its begin; a time below 0 is missing.
type tracePod struct {
	name, ownerKind, owner   string
	milli, mebibytes, gpus   int64
	apartFrom                []string // owners whose pods are kept off its node
	created, scheduled, ends time.Duration
	completes                bool // it ends by itself, else it is deleted
}

// add adds a pod to the Trace.
func (r *traceReader) add(x *tracePod) {
	yes, grace := true, int64(30)
	requests := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(x.milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(x.mebibytes<<20, resource.BinarySI)}
	if x.gpus > 0 {
		requests[gpuResource] = *resource.NewQuantity(x.gpus, resource.DecimalSI)
	}
	at := func(d time.Duration) time.Time {
		if d < 0 {
			return time.Time{}
		}
		return traceBegin.Add(d)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: traceNamespace, Name: x.name, UID: types.UID(x.name), Labels: map[string]string{"app": x.owner}, CreationTimestamp: metav1.Time{Time: at(x.created)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: x.ownerKind, Name: x.owner, UID: types.UID("uid-" + x.owner), Controller: &yes}}}}
	p.Spec.SchedulerName, p.Spec.TerminationGracePeriodSeconds, p.Status.Phase = corev1.DefaultSchedulerName, &grace, corev1.PodPending
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: corev1.ResourceList{}}}}
	if x.gpus > 0 {
		p.Spec.Containers[0].Resources.Limits[gpuResource] = requests[gpuResource]
	}
	for _, other := range x.apartFrom {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		}
		a := p.Spec.Affinity.PodAntiAffinity
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution,
			corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": other}}})
	}
	m := r.t.Pod(p)
	if have := r.classes[m.Class.Key]; have != nil {
		m.Class = have
	}
	r.classes[m.Class.Key] = m.Class
	o, t := r.owners[x.owner], r.out.Trace
	if o == nil {
		o = &replay.Owner{Key: x.ownerKind + "/" + traceNamespace + "/" + x.owner, Owner: m.Owner}
		r.owners[x.owner] = o
		t.Owners = append(t.Owners, o)
	}
	life := &replay.Pod{Pod: m, Owner: o, Born: at(x.created), Bound: at(x.scheduled), Ended: at(x.ends), Gone: at(x.ends), Completed: x.completes}
	o.Pods = append(o.Pods, life)
	o.Slots = append(o.Slots, &replay.Slot{Owner: o, Pods: []*replay.Pod{life}})
	for _, d := range []time.Duration{x.created, x.scheduled, x.ends} {
		t.To = model.LaterOf(t.To, at(d))
	}
}

// readOpenb reads the list of pods of Alibaba's GPU cluster trace of 2023.
func (r *traceReader) readOpenb(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csvRows(f, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
	if err != nil {
		return err
	}
	shared, typed := 0, 0
	for _, row := range rows {
		x := &tracePod{name: row.text[0], ownerKind: "Job", owner: row.text[0]}
		x.milli, x.mebibytes, x.gpus = row.number(1), row.number(2), row.number(3)
		if share := row.number(4); x.gpus == 1 && 0 < share && share < 1000 {
			shared++
		}
		if row.text[5] != "" {
			typed++
		}
		x.completes = row.text[6] == "Succeeded" || row.text[6] == "Failed"
		x.created, x.ends, x.scheduled = row.seconds(7), row.seconds(8), row.seconds(9)
		if row.err != nil {
			return row.err
		}
		if x.completes = x.completes && x.scheduled >= 0 && x.ends >= 0; x.created < 0 {
			return fmt.Errorf("line %d: creation_time is missing", row.line)
		}
		r.add(x)
	}
	if shared > 0 {
		r.out.Assumed = append(r.out.Assumed, fmt.Sprintf("%d pods that take a part of a GPU request a whole one", shared))
	}
	if typed > 0 {
		r.out.Assumed = append(r.out.Assumed, fmt.Sprintf("%d pods that name GPU types run on any GPU", typed))
	}
	return nil
}

// readTianchi reads the zip file of a data set of the Tianchi scheduling contest of 2018.
func (r *traceReader) readTianchi(path string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer z.Close()
	table := func(part string) ([]csvRow, error) {
		for _, f := range z.File {
			if !strings.Contains(f.Name, "_"+part+"_") {
				continue
			}
			in, err := f.Open()
			if err != nil {
				return nil, err
			}
			defer in.Close()
			rows, err := csvRows(in)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			return rows, nil
		}
		return nil, fmt.Errorf("has no file *_%s_*.csv", part)
	}
	resources, err1 := table("app_resources")
	rules, err2 := table("app_interference")
	instances, err3 := table("instance_deploy")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	apps, left := map[string]*tracePod{}, 0
	for _, row := range resources {
		apps[row.cell(0)] = &tracePod{milli: row.peak(1, 250), mebibytes: row.peak(2, 256)}
		if row.err != nil {
			return fmt.Errorf("app_resources: %w", row.err)
		}
	}
	for _, row := range rules {
		a, b, n := apps[row.cell(0)], row.cell(1), row.number(2)
		switch {
		case row.err != nil:
			return fmt.Errorf("app_interference: %w", row.err)
		case a != nil && n == 0:
			a.apartFrom = append(a.apartFrom, b)
		default:
			left++
		}
	}
	for _, row := range instances {
		name, app := row.cell(0), row.cell(1)
		if row.err != nil {
			return fmt.Errorf("instance_deploy: %w", row.err)
		}
		if apps[app] == nil {
			return fmt.Errorf("instance_deploy: line %d: app_resources has no %s", row.line, app)
		}
		x := *apps[app]
		x.name, x.ownerKind, x.owner, x.ends = traceName(name), "ReplicaSet", traceName(app), tianchiDay
		if x.apartFrom = nil; row.cell(2) == "" {
			x.scheduled = -1
		}
		for _, other := range apps[app].apartFrom {
			x.apartFrom = append(x.apartFrom, traceName(other))
		}
		r.add(&x)
	}
	r.out.Assumed = append(r.out.Assumed, "each instance requests the peak of its application's usage, in steps of 250m and 256Mi, from the begin of the day to its end")
	if left > 0 {
		r.out.Assumed = append(r.out.Assumed, fmt.Sprintf("%d rules that allow some instances of an application on a machine were left out: Kubernetes has no equivalent", left))
	}
	return nil
}

// traceName returns a name that Kubernetes allows.
func traceName(s string) string { return strings.ReplaceAll(s, "_", "-") }

// csvRow is a line of a CSV file. Its methods note the first cell that can't be read in err.
type csvRow struct {
	text    []string
	columns []string // their names; nil: they have none
	line    int
	err     error
}

// csvRows reads a CSV file: of its first line, those columns; without columns, all of every line.
func csvRows(in io.Reader, columns ...string) (out []csvRow, err error) {
	c := csv.NewReader(in)
	var at []int
	for {
		cells, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		if len(columns) > 0 && at == nil {
			for _, k := range columns {
				i := slices.Index(cells, k)
				if i < 0 {
					return nil, fmt.Errorf("line %d: no column %s; need %s", line, k, strings.Join(columns, ", "))
				}
				at = append(at, i)
			}
			continue
		}
		if row := (csvRow{text: cells, line: line}); len(columns) == 0 {
			out = append(out, row)
		} else {
			row.text, row.columns = make([]string, len(at)), columns
			for j, i := range at {
				row.text[j] = cells[i]
			}
			out = append(out, row)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("has no lines")
	}
	return out, nil
}

func (r *csvRow) wrong(i int, need string) {
	column := fmt.Sprint("column ", i+1)
	if len(r.columns) > 0 {
		column = r.columns[i]
	}
	if r.err == nil {
		r.err = fmt.Errorf("line %d, %s: %q: need %s", r.line, column, r.cell(i), need)
	}
}

// cell returns a cell; one that is missing is empty, and an error.
func (r *csvRow) cell(i int) string {
	if i >= len(r.text) {
		if r.err == nil {
			r.err = fmt.Errorf("line %d: %d columns, need %d", r.line, len(r.text), i+1)
		}
		return ""
	}
	return r.text[i]
}

// number returns a whole number, which is not negative.
func (r *csvRow) number(i int) int64 {
	n, err := strconv.ParseInt(r.cell(i), 10, 64)
	if err != nil || n < 0 {
		r.wrong(i, "a whole number")
	}
	return n
}

// seconds returns a number of seconds, -1 if the cell is empty.
func (r *csvRow) seconds(i int) time.Duration {
	if r.cell(i) == "" {
		return -1
	}
	n, err := strconv.ParseFloat(r.cell(i), 64)
	if err != nil || n < 0 || n > 1e9 {
		r.wrong(i, "a number of seconds")
		return -1
	}
	return time.Duration(n * float64(time.Second))
}

// peak returns the highest of the numbers that | separates, in quarters rounded up, of so much each.
func (r *csvRow) peak(i int, quarter int64) int64 {
	most := 0.0
	for x := range strings.SplitSeq(r.cell(i), "|") {
		v, err := strconv.ParseFloat(x, 64)
		if err != nil || v < 0 || v > 1e6 {
			r.wrong(i, "numbers that | separates")
			return 0
		}
		most = max(most, v)
	}
	return int64(math.Ceil(most*4)) * quarter
}
