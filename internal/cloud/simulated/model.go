// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Validate returns an error if the settings are invalid.
func (s Settings) Validate() error {
	if s.Boot < 0 {
		return fmt.Errorf("machines: boot is %s, need at least 0", s.Boot)
	}
	return nil
}

// NewModel returns a cloud without machines.
func NewModel(c *catalog.Catalog, s Settings) *Model {
	return &Model{catalog: c, settings: s, instances: map[string]*machines.Instance{}, tombs: map[string]struct{}{}, byClaim: map[string]*machines.Instance{}, byNode: map[string]*machines.Instance{}}
}

// Take returns the records made since the last Take.
func (m *Model) Take() []machines.Record {
	r := m.records
	m.records = nil
	return r
}

// record makes a record and applies it.
func (m *Model) record(at time.Time, kind string, in *machines.Instance) {
	m.recordUntil(at, kind, in, time.Time{})
}

// Apply replays one record. It is the only place where machines change.
func (m *Model) Apply(r machines.Record) error {
	if r.Kind == machines.RecordCompacted {
		return m.restore(r)
	}
	if r.Seq != m.seq+1 {
		return fmt.Errorf("record %d follows record %d", r.Seq, m.seq)
	}
	if r.Kind == machines.RecordNote {
		if m.guest == nil {
			return fmt.Errorf("record %d: a note without anybody to read it; serve what wrote it, too", r.Seq)
		}
		if err := m.guest.Apply(r.At, r.Data); err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		m.seq = r.Seq
		return nil
	}
	in := m.instances[r.ID]
	if (r.Kind == machines.RecordLaunched) != (in == nil) {
		return fmt.Errorf("record %d: %s of machine %s: machine known: %t", r.Seq, r.Kind, r.ID, in != nil)
	}
	switch r.Kind {
	case machines.RecordLaunched:
		if r.Instance == nil || r.Instance.ID != r.ID {
			return fmt.Errorf("record %d: launched without its machine", r.Seq)
		}
		fresh := *r.Instance
		in = &fresh
		m.instances[in.ID] = in
		m.byNode[in.Node.Name] = in
		if in.ClaimUID != "" {
			m.byClaim[in.ClaimUID] = in
		}
	case machines.RecordNodeCreated:
		if in.State == machines.Pending {
			in.State = machines.Running
		}
	case machines.RecordTerminating:
		in.State, in.Terminated = machines.ShuttingDown, r.At
	case machines.RecordInterrupted:
		in.Interrupted, in.Goes = r.At, r.Until
	case machines.RecordNoticed:
		in.Noticed = true
	case machines.RecordRebooted:
		in.Reboots++
	case machines.RecordTerminated:
		in.State = machines.Terminated
		delete(m.byNode, in.Node.Name)
		m.ended(in)
	default:
		return fmt.Errorf("record %d: unknown kind %q", r.Seq, r.Kind)
	}
	m.seq = r.Seq
	if m.guest != nil {
		m.guest.Moved(in.ID)
	}
	return nil
}

// choice is an offering that a request allows.
type choice struct {
	t *catalog.Type
	o *model.Offering
}

func (c choice) key() cloud.OfferingKey {
	return cloud.OfferingKey{InstanceType: c.t.Name, Zone: c.o.Zone, CapacityType: c.o.CapacityType}
}

// choices are the offerings allowed, cheapest first, those in prices as they say; ties by type, zone, capacity type.
func (m *Model) choices(types, zones, capacityTypes []string, prices []machines.PricedOffering) []choice {
	var out []choice
	seen := map[string]bool{}
	for _, name := range types {
		t := m.catalog.Find(name)
		if t == nil || seen[name] {
			continue
		}
		seen[name] = true
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if (len(zones) == 0 || slices.Contains(zones, o.Zone)) && (len(capacityTypes) == 0 || slices.Contains(capacityTypes, o.CapacityType)) {
				out = append(out, choice{t, o})
			}
		}
	}
	set := make(map[cloud.OfferingKey]int64, len(prices))
	for _, p := range prices {
		set[cloud.OfferingKey{InstanceType: p.InstanceType, Zone: p.Zone, CapacityType: p.CapacityType}] = p.PriceMicro
	}
	price := func(c choice) int64 {
		if v, ok := set[c.key()]; ok {
			return v
		}
		return c.o.PriceMicro
	}
	sort.Slice(out, func(i, j int) bool {
		if a, b := price(out[i]), price(out[j]); a != b {
			return a < b
		}
		return out[i].key().Less(out[j].key())
	})
	return out
}

// Launch launches one machine, or returns the one that was launched before.
func (m *Model) Launch(r machines.LaunchRequest, now time.Time) machines.LaunchResult {
	res := machines.LaunchResult{ClaimUID: r.ClaimUID}
	fail := func(kind cloud.Kind, format string, args ...any) machines.LaunchResult {
		res.Error = &machines.Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
		return res
	}
	if r.ClaimUID == "" {
		return fail(cloud.Denied, "claimUID: missing")
	}
	if in := m.byClaim[r.ClaimUID]; in != nil {
		if in.State == machines.ShuttingDown || in.State == machines.Terminated {
			return fail(cloud.NotFound, "machine %s was launched for this claim and is %s", in.ID, in.State)
		}
		res.Instance = clone(in)
		return res
	}
	if _, over := m.tombs[machineID(r.ClaimUID)]; over {
		return fail(cloud.NotFound, "machine %s was launched for this claim and is %s", machineID(r.ClaimUID), machines.Terminated)
	}
	allowed := m.choices(r.Types, r.Zones, r.CapacityTypes, r.Prices)
	if len(allowed) == 0 {
		return fail(cloud.Denied, "the catalog has no offering with type in %s, zone in %s and capacity type in %s", listed(r.Types), listed(r.Zones), listed(r.CapacityTypes))
	}
	var took *choice
	struck := map[*activeFault]bool{}
	for i, c := range allowed {
		if slices.Contains(r.Unavailable, c.key()) {
			res.Unavailable = append(res.Unavailable, c.key())
			continue
		}
		f := m.offeringFault(machines.OutOfCapacity, c.key(), now, false)
		if f == nil && c.o.Available {
			took = &allowed[i]
			break
		}
		if f != nil {
			struck[f] = true
		}
		res.Unavailable = append(res.Unavailable, c.key())
	}
	for f := range struck { // a fault counts launches, not offerings
		f.left--
	}
	if took == nil {
		sort.Slice(res.Unavailable, func(i, j int) bool { return res.Unavailable[i].Less(res.Unavailable[j]) })
		res.Error = &machines.Error{Kind: cloud.InsufficientCapacity, Message: "none of the offerings allowed has capacity", Offerings: res.Unavailable}
		res.Unavailable = nil
		return res
	}
	in := m.machine(machineID(r.ClaimUID), *took, r.Labels, now)
	in.ClaimUID, in.ClaimName, in.Pool = r.ClaimUID, r.ClaimName, r.Pool
	in.Registers = now.Add(time.Duration(r.RegistrationDelay) + jitter(m.settings.Seed, in.ID, m.settings.Boot))
	in.NeverRegisters = m.offeringFault(machines.NeverRegisters, took.key(), now, true) != nil
	in.NeverReady = m.offeringFault(machines.NeverReady, took.key(), now, true) != nil
	maps.Copy(in.Node.Annotations, r.Annotations)
	if in.NeverReady {
		delete(in.Node.Annotations, KwokNode)
		delete(in.Node.Labels, KwokNode)
	}
	in.Node.Taints = []machines.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}
	for _, t := range r.Taints {
		if !slices.ContainsFunc(in.Node.Taints, func(o machines.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }) {
			in.Node.Taints = append(in.Node.Taints, t)
		}
	}
	m.record(now, machines.RecordLaunched, in)
	res.Instance = clone(m.instances[in.ID])
	return res
}

func listed(v []string) string {
	switch n := len(v); {
	case n == 0:
		return "all"
	case n > 5:
		return "[" + strings.Join(v[:5], " ") + " and " + strconv.Itoa(n-5) + " more]"
	}
	return "[" + strings.Join(v, " ") + "]"
}

// machine describes a machine of an offering, and the Node it will have. The labels of the offering are the truth and win.
func (m *Model) machine(id string, c choice, labels model.Labels, now time.Time) *machines.Instance {
	in := &machines.Instance{
		ID: id, ProviderID: providerID(c.o.Zone, id), InstanceType: c.t.Name, Zone: c.o.Zone, CapacityType: c.o.CapacityType,
		PriceMicro: c.o.PriceMicro, Modelled: c.o.Modelled, State: machines.Pending, Launched: now, Registers: now,
		ImageID: "image-" + c.t.Labels[model.LabelOS] + "-" + c.t.Labels[model.LabelArch],
	}
	name := nodeName(id, 0)
	for n := 1; m.byNode[name] != nil; n++ {
		name = nodeName(id, n)
	}
	l := model.Labels{}
	maps.Copy(l, labels)
	maps.Copy(l, c.t.Labels)
	maps.Copy(l, c.o.Labels)
	l[model.LabelZone], l[model.LabelCapacityType], l[model.LabelHostname] = c.o.Zone, c.o.CapacityType, name
	l[KwokNode] = KwokNodeValue
	l[NodeViewerPrice] = fmt.Sprintf("%d.%06d", c.o.PriceMicro/1_000_000, c.o.PriceMicro%1_000_000)
	in.Node = machines.NodeSpec{
		Name: name, ProviderID: in.ProviderID, Labels: l, Annotations: model.Labels{KwokNode: KwokNodeValue},
		Capacity: Quantities(c.t.Capacity), Allocatable: Quantities(c.t.Allocatable),
	}
	return in
}

// Base launches a machine without a claim. Its Node has nothing of Karpenter.
func (m *Model) Base(r machines.BaseNode, now time.Time) (*machines.Instance, *machines.Error) {
	t := m.catalog.Find(r.InstanceType)
	if t == nil {
		return nil, &machines.Error{Kind: cloud.Denied, Message: fmt.Sprintf("instanceType: %q: not in catalog %s", r.InstanceType, m.catalog.Name)}
	}
	if r.Name == "" {
		r.Name = "base-" + strings.ReplaceAll(r.InstanceType, ".", "-")
	}
	if in := m.byNode[r.Name]; in != nil {
		if in.ClaimUID != "" || in.InstanceType != r.InstanceType {
			return nil, &machines.Error{Kind: cloud.Denied, Message: fmt.Sprintf("name: %q: a %s has this name", r.Name, in.InstanceType)}
		}
		return clone(in), nil
	}
	var zones []string
	if r.Zone != "" {
		zones = []string{r.Zone}
	}
	// List price where there is one; beside it only what the type has.
	allowed := m.choices([]string{r.InstanceType}, zones, []string{model.OnDemand}, nil)
	if len(allowed) == 0 {
		allowed = m.choices([]string{r.InstanceType}, zones, nil, nil)
	}
	if len(allowed) == 0 {
		return nil, &machines.Error{Kind: cloud.Denied, Message: fmt.Sprintf("zone: %q: %s is not offered there", r.Zone, r.InstanceType)}
	}
	in := m.machine(machineID("base "+r.Name+" "+strconv.FormatInt(m.seq, 10)), allowed[0], nil, now)
	in.Node.Name = r.Name
	in.Node.Labels[model.LabelHostname] = r.Name
	maps.DeleteFunc(in.Node.Labels, func(k, _ string) bool {
		domain, _, _ := strings.Cut(k, "/")
		return domain == NodeViewerDomain || domain == "karpenter.sh" || strings.HasPrefix(domain, "karpenter.")
	})
	m.record(now, machines.RecordLaunched, in)
	return clone(m.instances[in.ID]), nil
}

// Terminate requests the termination of a machine.
func (m *Model) Terminate(providerID string, now time.Time) machines.TerminateResult {
	res := machines.TerminateResult{ProviderID: providerID}
	in := m.find(providerID)
	if in == nil || in.State == machines.ShuttingDown || in.State == machines.Terminated {
		state := "unknown"
		if in != nil {
			state = string(in.State)
		}
		res.Error = &machines.Error{Kind: cloud.NotFound, Message: "machine is " + state}
		return res
	}
	m.record(now, machines.RecordTerminating, in)
	return res
}

// Reboot requests the restart of a machine.
func (m *Model) Reboot(providerID string, now time.Time) (*machines.Instance, *machines.Error) {
	in := m.find(providerID)
	if in == nil || in.State != machines.Running {
		state := "unknown"
		if in != nil {
			state = string(in.State)
		}
		return nil, &machines.Error{Kind: cloud.NotFound, Message: "machine is " + state}
	}
	m.record(now, machines.RecordRebooted, in)
	return clone(in), nil
}

func (m *Model) find(providerID string) *machines.Instance {
	i := strings.LastIndexByte(providerID, '/')
	if in := m.instances[providerID[i+1:]]; in != nil && in.ProviderID == providerID {
		return in
	}
	return nil
}

// Note records a note of the guest.
func (m *Model) Note(data any, now time.Time) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // plain data of the guest's own
	}
	r := machines.Record{Seq: m.seq + 1, At: now, Kind: machines.RecordNote, Data: raw}
	if err := m.Apply(r); err != nil {
		panic(err) // it was made here, of what is here
	}
	m.records = append(m.records, r)
}

// Add adds a machine that the guest has chosen and described; ID and node name must be free (see Seq, NodeNamed). The
// Node is created at Registers. Faults of its offering apply.
func (m *Model) Add(in machines.Instance, now time.Time) *machines.Instance {
	key := cloud.OfferingKey{InstanceType: in.InstanceType, Zone: in.Zone, CapacityType: in.CapacityType}
	in.State, in.Launched = machines.Pending, now
	in.NeverRegisters = m.offeringFault(machines.NeverRegisters, key, now, true) != nil || in.NeverRegisters
	in.NeverReady = m.offeringFault(machines.NeverReady, key, now, true) != nil
	if in.NeverReady {
		in.Node.Annotations = maps.Clone(in.Node.Annotations)
		delete(in.Node.Annotations, KwokNode)
	}
	m.record(now, machines.RecordLaunched, &in)
	return clone(m.instances[in.ID])
}

// OutOfCapacity reports whether an offering has no capacity because of a fault. The call counts as a launch affected by
// the fault.
func (m *Model) OutOfCapacity(k cloud.OfferingKey, now time.Time) bool {
	return m.offeringFault(machines.OutOfCapacity, k, now, true) != nil
}

// Seq returns the number of the last record. It never repeats, and is the same after a replay.
func (m *Model) Seq() int64 { return m.seq }

// NodeNamed reports whether a machine has or will have a Node with this name.
func (m *Model) NodeNamed(name string) bool { return m.byNode[name] != nil }

// Boot returns how long a machine takes to register.
func (m *Model) Boot(id string) time.Duration { return jitter(m.settings.Seed, id, m.settings.Boot) }

// NodeCreated records that the Node of a machine was created.
func (m *Model) NodeCreated(id string, now time.Time) {
	m.record(now, machines.RecordNodeCreated, m.instances[id])
}

// NodeDeleted records that the Node of a terminating machine was deleted.
func (m *Model) NodeDeleted(id string, now time.Time) {
	m.record(now, machines.RecordTerminated, m.instances[id])
}

// Instance returns a machine by ID, nil if there is none.
func (m *Model) Instance(id string) *machines.Instance {
	if in := m.instances[id]; in != nil {
		return clone(in)
	}
	return nil
}

// List returns all machines by ID, including terminated ones if all is set.
func (m *Model) List(all bool, now time.Time) []machines.Instance {
	var lag time.Duration
	for _, f := range m.faults {
		if f.Kind == machines.ListLag && !f.over(now) {
			lag = max(lag, time.Duration(f.Delay))
			f.left--
		}
	}
	out := make([]machines.Instance, 0, len(m.byNode))
	for _, in := range m.instances {
		if (all || in.State != machines.Terminated) && (lag == 0 || now.Sub(in.Launched) >= lag) {
			out = append(out, *clone(in))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// clone copies an instance. It shares the Node's maps, which are never changed after the launch.
func clone(in *machines.Instance) *machines.Instance {
	c := *in
	return &c
}
