// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// awsGroups are the Auto Scaling groups of a series. It implements seriesCloud.
type awsGroups struct {
	*series
	family  string
	made    map[string]bool // groups
	stopped map[string]bool // instances
}

func newAWSGroups(x *series) seriesCloud {
	return &awsGroups{series: x, family: seriesFamilies[(x.seed-1)%len(seriesFamilies)], made: map[string]bool{}, stopped: map[string]bool{}}
}

func (a *awsGroups) instanceType(g *seriesGroup) string {
	if g.large {
		return a.family + ".xlarge"
	}
	return a.family + ".large"
}

func (a *awsGroups) define(g *seriesGroup) {
	a.t.Helper()
	all := awstest.Group{Name: g.name, Min: g.min, Max: g.max, InstanceTypes: []string{a.instanceType(g)}, Zones: []string{"us-east-1a", "us-east-1b"}, Tags: nodesOf(a.name), DesiredLeftAsItIs: true}
	if !a.made[g.name] {
		a.made[g.name], all.Desired = true, g.min
	}
	a.must(a.s.AWS(a.ctx, http.MethodPut, "/_aws/groups", all, nil))
}

func (a *awsGroups) group(name string) (want int, members []string) {
	a.t.Helper()
	is := a.groupNamed(name)
	return is.Desired, is.Members
}

func (a *awsGroups) fault(f awstest.Fault) {
	a.t.Helper()
	a.must(a.s.AWS(a.ctx, http.MethodPost, "/_aws/faults", awstest.FaultList{Faults: []awstest.Fault{f}}, nil))
}

func (a *awsGroups) failed(*seriesGroup, string) bool { return false } // it is replaced

func (a *awsGroups) noCapacity(g *seriesGroup, d time.Duration) {
	a.t.Helper()
	a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: a.instanceType(g), Duration: machines.Duration(d)})
}

func (a *awsGroups) notJoining(g *seriesGroup, n int) {
	a.t.Helper()
	a.fault(awstest.Fault{Kind: machines.NeverRegisters, InstanceType: a.instanceType(g), Count: n, Duration: machines.Duration(20 * time.Second)})
}

// end stops an instance at once.
func (a *awsGroups) end(_ *seriesGroup, id string) error {
	a.stopped[id] = true
	return a.s.AWS(a.ctx, http.MethodPost, "/_aws/interrupt", awstest.Interruption{Kind: awstest.StateChange, Instances: []string{id}}, nil)
}

func (a *awsGroups) replace(g *seriesGroup) string {
	var who awstest.Interrupted
	if err := a.s.AWS(a.ctx, http.MethodPost, "/_aws/rebalance", awstest.GroupName{Name: g.name}, &who); err != nil {
		return "AZRebalance of " + g.name + ": " + err.Error()
	}
	return "AZRebalance of " + g.name + ": " + strings.Join(who.Instances, " ")
}

func (a *awsGroups) kills() []seriesKill { return nil }

// sizes implements seriesCloud by the journal.
func (a *awsGroups) sizes(name string) (out []sizeAt) {
	a.t.Helper()
	for _, n := range a.notes() {
		if n.Kind == "group" && n.Key == name && (len(out) == 0 || out[len(out)-1].n != n.Value.Desired) {
			out = append(out, sizeAt{n.at, n.Value.Desired})
		}
	}
	return out
}

// journalNote is what the simulated AWS has noted of a group or of what a group did.
type journalNote struct {
	at        time.Time
	Kind, Key string
	Value     struct {
		Desired                           int
		Group, Description, Cause, Status string
	}
}

func (a *awsGroups) notes() (out []journalNote) {
	a.t.Helper()
	records, err := a.s.Journal(context.WithoutCancel(a.ctx)) // also when the test has failed
	if err != nil {
		a.t.Error(err)
	}
	for _, r := range records {
		n := journalNote{at: r.At}
		if len(r.Data) > 0 && json.Unmarshal(r.Data, &n) == nil {
			out = append(out, n)
		}
	}
	return out
}

func (a *awsGroups) failures(name string, since time.Time) (n int) {
	a.t.Helper()
	records, err := a.s.Journal(a.ctx)
	a.must(err)
	neverJoins := map[string]bool{}
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordLaunched:
			neverJoins[r.ID] = r.Instance.NeverRegisters
		case r.Kind == machines.RecordTerminating && neverJoins[r.ID] && r.At.After(since):
			n++
		}
	}
	for _, note := range a.notes() {
		if note.Kind == "activity" && note.Value.Group == name && note.Value.Status == "Failed" && note.at.After(since) {
			n++
		}
	}
	return n
}

func (a *awsGroups) ended() (out []endedMachine) {
	a.t.Helper()
	records, err := a.s.Journal(a.ctx)
	a.must(err)
	by := map[string]string{}
	for id := range a.stopped {
		by[id] = "stopped"
	}
	for _, n := range a.notes() {
		if id, is := strings.CutPrefix(n.Value.Description, "Terminating EC2 instance: "); is && !strings.Contains(n.Value.Cause, "user request") {
			by[id] = n.Value.Cause
		}
	}
	nodeOf := map[string]string{}
	for _, r := range records {
		switch {
		case r.Kind == machines.RecordLaunched:
			nodeOf[r.ID] = r.Instance.Node.Name
		case r.Kind == machines.RecordTerminating:
			out = append(out, endedMachine{r.ID, nodeOf[r.ID], r.At, by[r.ID]})
		}
	}
	if len(nodeOf) == 0 {
		a.t.Error("no node was launched, so nothing was tested")
	}
	return out
}

func (a *awsGroups) judge() {}
