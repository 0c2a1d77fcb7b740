// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// The work of BenchmarkNodeGroups.
const (
	figurePods   = 300
	figureKept   = 100
	figureMax    = 10 // machines of a group
	figureBoot   = 10 * time.Second
	figureAfter  = 10 * time.Second // consolidateAfter
	figureStill  = 30 * time.Second // nothing has happened for so long: at rest
	figureZone   = "us-east-1a"
	figureCPU    = "900m"
	figureMemory = "3100Mi"
)

// figureTypes are the instance types of the twelve groups.
func figureTypes() (out []string) {
	for _, family := range []string{"c5", "c5a", "m5", "m5a"} {
		for _, size := range []string{"xlarge", "2xlarge", "4xlarge"} {
			out = append(out, family+"."+size)
		}
	}
	return out
}

// groupFigures are the figures of one run. Seconds count from the creation or the scaling of the pods.
type groupFigures struct {
	On        string  `json:"on"`
	Load      string  `json:"loadAverage"` // when it began
	FirstPod  float64 `json:"firstPodRunningSeconds"`
	AllPods   float64 `json:"allPodsRunningSeconds"`
	Groups    int     `json:"groupsWithNodes"`
	Nodes     int     `json:"nodes"`
	USD       float64 `json:"usdPerHour"`
	Bound     float64 `json:"usdPerHourBound"` // the solver's, for the same pods on twelve empty groups
	ScaleDown float64 `json:"scaleDownSeconds"`
	Left      int     `json:"nodesLeft"`
	USDLeft   float64 `json:"usdPerHourLeft"`
	BoundLeft float64 `json:"usdPerHourBoundLeft"`
	Evictions int     `json:"evictions"`
	Sizes     int     `json:"writesOfSizes"`   // of groups
	Marks     int     `json:"writesOfMembers"` // instances terminated, Machines marked
}

// BenchmarkNodeGroups runs the same work on Cluster API with its own core manager and on Auto Scaling groups of the simulated AWS: twelve groups of
// the same instance types, prices and sizes, machines that boot in the same time. One pod, then 300, of which 100 stay. It prints the
// figures as JSON.
func BenchmarkNodeGroups(b *testing.B) {
	var all []groupFigures
	for name, start := range map[string]func(testing.TB) (*env, func(*groupFigures)){"Cluster API": figuresOnClusterAPI, "Auto Scaling groups": figuresOnAWS} {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			for range b.N {
				f := groupFigures{On: name}
				e, writes := start(b)
				e.measureGroups(&f)
				writes(&f)
				all = append(all, f)
				b.ReportMetric(f.AllPods, "s/all-pods")
				b.ReportMetric(f.ScaleDown, "s/scale-down")
			}
		})
	}
	slices.SortFunc(all, func(a, b groupFigures) int { return strings.Compare(a.On, b.On) })
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(all); err != nil {
		b.Fatal(err)
	}
}

// figuresOnClusterAPI returns an environment with MachineDeployments. writes fills in what was written to the management cluster.
func figuresOnClusterAPI(t testing.TB) (e *env, writes func(*groupFigures)) {
	w := newCoreWorld(t, "figures", "--base", "t3.nano")
	w.infra.set(func() { w.infra.boot = figureBoot })
	labels := map[string]string{testLabel: w.name, corev1.LabelTopologyZone: figureZone}
	for name, of := range figureCatalog(t) {
		have := corev1.ResourceList{}
		for resourceName, n := range of.Allocatable {
			have[corev1.ResourceName(resourceName)] = *resource.NewQuantity(n, resource.BinarySI)
		}
		have[corev1.ResourceCPU] = *resource.NewMilliQuantity(of.Allocatable["cpu"], resource.DecimalSI)
		group := strings.ReplaceAll(name, ".", "-")
		w.infra.addShape(group, name, have, labels)
		w.infra.addDeployment(group, labels, model.AnnotationPrice, fmt.Sprintf("%.6f", float64(of.Offerings[0].PriceMicro)/1e6),
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", fmt.Sprint(figureMax))
	}
	return w.env, func(f *groupFigures) {
		file, err := os.Open(filepath.Join(w.s.Dir, "logs", "audit.log"))
		w.must(err)
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var event struct {
				Verb, UserAgent, Stage string
				ObjectRef              struct{ Resource, APIGroup string }
			}
			if json.Unmarshal(lines.Bytes(), &event) != nil || !strings.HasPrefix(event.UserAgent, "dovetail") || event.ObjectRef.APIGroup != "cluster.x-k8s.io" || event.Verb != "patch" {
				continue
			}
			switch event.ObjectRef.Resource {
			case "machinedeployments":
				f.Sizes++
			case "machines":
				f.Marks++
			}
		}
	}
}

// figuresOnAWS returns an environment with Auto Scaling groups. writes fills in which calls changed them.
func figuresOnAWS(t testing.TB) (e *env, writes func(*groupFigures)) {
	s := onEC2(t, "--base", "t3.nano", "--boot", figureBoot.String())
	e = newEnv(t, s, "figures")
	for name := range figureCatalog(t) {
		e.group(strings.ReplaceAll(name, ".", "-"), name, func(g *awstest.Group) { g.Max, g.Zones = figureMax, []string{figureZone} })
	}
	e.must(s.AWS(e.ctx, http.MethodDelete, "/_aws/calls", nil, nil))
	return e, func(f *groupFigures) {
		books, err := e.books(e.ctx)
		e.must(err)
		for name, calls := range books.Calls {
			switch name {
			case "autoscaling:SetDesiredCapacity":
				f.Sizes = calls.Count
			case "autoscaling:TerminateInstanceInAutoScalingGroup":
				f.Marks = calls.Count
			}
		}
	}
}

// figureCatalog returns the types of the groups, by name, each with the one offering that the groups have.
func figureCatalog(t testing.TB) map[string]*catalog.Type {
	t.Helper()
	all, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*catalog.Type{}
	for _, name := range figureTypes() {
		one := *all.Find(name)
		one.Offerings = []model.Offering{figureOffering(one.Offerings)}
		out[name] = &one
	}
	return out
}

// figureOffering returns the offering that a group has, of those of its type.
func figureOffering(all []model.Offering) model.Offering {
	o := all[slices.IndexFunc(all, func(o model.Offering) bool { return o.Zone == figureZone && o.CapacityType == model.OnDemand })]
	o.Available, o.Remaining, o.Most = true, figureMax, figureMax
	return o
}

// figureBound returns what so many pods cost at least on the twelve groups, in dollars per hour.
func (e *env) figureBound(pods int) float64 {
	e.t.Helper()
	all, err := catalog.Builtin()
	e.must(err)
	bound, err := scaledown.LowerBoundOf(all, func(t *model.InstanceType) bool {
		if !slices.Contains(figureTypes(), t.Name) {
			return false
		}
		t.Offerings = []model.Offering{figureOffering(t.Offerings)}
		return true
	}, pods)
	e.must(err)
	return bound
}

// measureGroups runs the work.
func (e *env) measureGroups(f *groupFigures) {
	e.t.Helper()
	var groups []string
	for _, name := range figureTypes() {
		groups = append(groups, strings.ReplaceAll(name, ".", "-"))
	}
	e.fromGroups(map[string]any{"spec.disruption.consolidationPolicy": "WhenEmptyOrUnderutilized", "spec.disruption.consolidateAfter": figureAfter.String()}, groups...)
	e.poolCondition(e.name, "Ready", "True")
	load, err := os.ReadFile("/proc/loadavg")
	e.must(err)
	f.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	c, err := watch.Follow(e.ctx, e.s, e.name)
	e.must(err)
	until := func(what string, done func() bool) {
		e.t.Helper()
		e.must(c.Until(e.ctx, what, testwait.Scale(limit), done))
	}
	begin := time.Now()
	e.deploy("first", 1, e.pod(figureCPU, figureMemory))
	until("the first pod to run", func() bool { return c.Running() == 1 })
	f.FirstPod = inSeconds(c.Moved.Sub(begin))

	begin = time.Now()
	e.deploy("burst", figurePods, e.pod(figureCPU, figureMemory))
	until("all pods to run", func() bool { return c.Running() == figurePods+1 })
	f.AllPods = inSeconds(c.Moved.Sub(begin))
	e.must(c.Idle(e.ctx, 5*time.Second)) // machines that come later are paid for as well
	f.Nodes, f.Groups, f.USD = e.nodesBill(c)
	f.Bound = e.figureBound(figurePods + 1)

	begin = time.Now()
	e.scale("burst", figureKept)
	until("the scale-down to be at rest", func() bool {
		return c.Running() == figureKept+1 && time.Since(c.Moved) > figureStill
	})
	f.ScaleDown = inSeconds(c.Moved.Sub(begin))
	f.Left, _, f.USDLeft = e.nodesBill(c)
	f.BoundLeft = e.figureBound(figureKept + 1)
	for _, p := range c.Pods {
		if p.Created.After(begin) {
			f.Evictions++
		}
	}
}

// nodesBill returns how many nodes there are, of how many groups, and what they cost per hour.
func (e *env) nodesBill(c *watch.Cluster) (nodes, groups int, usd float64) {
	e.t.Helper()
	types := figureCatalog(e.t)
	used, micro := map[string]bool{}, int64(0)
	for name, n := range c.Nodes {
		if n.Earlier || n.Gone {
			continue
		}
		of := types[n.InstanceType]
		if of == nil {
			e.t.Fatalf("node %s has instance type %q, which no group has", name, n.InstanceType)
		}
		used[n.InstanceType] = true
		nodes, micro = nodes+1, micro+of.Offerings[0].PriceMicro
	}
	return nodes, len(used), float64(micro) / 1e6
}

func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*10) / 10 }
