// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// The control API, which is not part of AWS, is below /_aws/, JSON over HTTP:
//
//	GET    /_aws/healthz
//	POST   /_aws/faults        FaultList      adds faults
//	GET    /_aws/faults                       answers FaultList
//	DELETE /_aws/faults                       clears all
//	POST   /_aws/interrupt     Interruption   answers Interrupted
//	POST   /_aws/prices        PriceMove      moves a spot price
//	POST   /_aws/releases      Release        Amazon publishes images
//	POST   /_aws/reservations  Reservation    answers it with its ID
//	POST   /_aws/cancel        Cancellation   ends a reservation early
//	POST   /_aws/shifts        Shift          starts a zonal shift of the cluster; answers it with its ID
//	POST   /_aws/shifts/end    ShiftEnd       ends zonal shifts early
//	PUT    /_aws/groups        Group          creates or changes an Auto Scaling group
//	GET    /_aws/groups                       answers GroupList
//	POST   /_aws/upgrade       Upgrade        EKS upgrades a managed node group; answers GroupSeen
//	POST   /_aws/drained       Drain          a node of such an upgrade has been drained; answers GroupSeen
//	POST   /_aws/rebalance     GroupName      AZRebalance replaces one member; answers Interrupted: the new and the old member
//	GET    /_aws/books         ?tag=KEY       answers Books
//	DELETE /_aws/calls                        resets the counts of calls

// PriceMove is a new spot price of a type in a zone, or in all zones.
type PriceMove struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone,omitempty"`
	PriceMicro   int64  `json:"priceMicroUSDPerHour"`
}

// Release is a release of images.
type Release struct {
	KubernetesVersion string `json:"kubernetesVersion,omitempty"` // default: the cluster's version
	Bottlerocket      string `json:"bottlerocket,omitempty"`      // Bottlerocket version; default: derived from the release date
}

// Reservation is a capacity reservation.
type Reservation struct {
	ID           string            `json:"id,omitempty"`
	InstanceType string            `json:"instanceType"`
	Zone         string            `json:"zone"`
	Count        int               `json:"count"`
	Criteria     string            `json:"instanceMatchCriteria,omitempty"` // open or targeted; default targeted
	Type         string            `json:"type,omitempty"`                  // default or capacity-block; default default
	End          time.Time         `json:"end,omitzero"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// Cancellation is the cancellation of a reservation by its owner.
type Cancellation struct {
	Reservation string `json:"reservation"`
}

// Books are the records that tests examine.
type Books struct {
	Calls     map[string]Calls    `json:"calls"`    // by service and action, such as ec2:CreateFleet
	Started   int                 `json:"started"`  // all instances ever launched, with or without the requested tag
	Launches  map[string][]string `json:"launches"` // all instances ever launched by value of the requested tag
	Twice     []string            `json:"twice"`    // tag values with more than one launch
	Alive     []BookedInstance    `json:"alive"`    // running and pending instances, by ID
	Untagged  []string            `json:"untagged"` // of these, those without the requested tag
	Templates int                 `json:"templates"`
	Profiles  int                 `json:"profiles"` // number of instance profiles created by clients
	Messages  int                 `json:"messages"`
}

// BookedInstance is a running or pending instance.
type BookedInstance struct {
	ID           string            `json:"id"`
	InstanceType string            `json:"instanceType"`
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	Node         string            `json:"node"`
	State        string            `json:"state"`
	Launched     time.Time         `json:"launched"`
	Goes         time.Time         `json:"goes,omitzero"`
	NeverJoins   string            `json:"neverJoins,omitempty"`
	Reboots      int               `json:"reboots,omitempty"`
	Group        string            `json:"group,omitempty"`
	PriceMicro   int64             `json:"priceMicroUSDPerHour"`
	Tags         map[string]string `json:"tags"`
}

func (c *Cloud) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /_aws/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("POST /_aws/faults", controlled(c, false, func(t *tx, in FaultList) (FaultList, error) {
		for i, f := range in.Faults {
			if err := f.Validate(); err != nil {
				return in, fmt.Errorf("faults[%d]: %w", i, err)
			}
		}
		for _, f := range in.Faults {
			if err := t.addFault(f); err != nil {
				return in, err
			}
		}
		return FaultList{t.listFaults()}, nil
	}))
	mux.HandleFunc("GET /_aws/faults", controlled(c, false, func(t *tx, _ struct{}) (FaultList, error) { return FaultList{t.listFaults()}, nil }))
	mux.HandleFunc("DELETE /_aws/faults", controlled(c, false, func(t *tx, _ struct{}) (FaultList, error) {
		t.clearFaults()
		return FaultList{[]Fault{}}, nil
	}))
	mux.HandleFunc("POST /_aws/interrupt", controlled(c, true, (*tx).interrupt))
	mux.HandleFunc("POST /_aws/prices", controlled(c, true, (*tx).movePrice))
	mux.HandleFunc("POST /_aws/releases", controlled(c, true, (*tx).release))
	mux.HandleFunc("POST /_aws/reservations", controlled(c, true, (*tx).reserve))
	mux.HandleFunc("POST /_aws/cancel", controlled(c, true, (*tx).cancelReservation))
	mux.HandleFunc("POST /_aws/shifts", controlled(c, true, (*tx).startShift))
	mux.HandleFunc("POST /_aws/shifts/end", controlled(c, true, (*tx).endShift))
	mux.HandleFunc("PUT /_aws/groups", controlled(c, true, (*tx).defineGroup))
	mux.HandleFunc("GET /_aws/groups", controlled(c, false, func(t *tx, _ struct{}) (GroupList, error) { return t.listGroups(), nil }))
	mux.HandleFunc("POST /_aws/upgrade", controlled(c, true, (*tx).upgrade))
	mux.HandleFunc("POST /_aws/drained", controlled(c, true, (*tx).drain))
	mux.HandleFunc("POST /_aws/rebalance", controlled(c, true, (*tx).rebalance))
	mux.HandleFunc("GET /_aws/books", func(w http.ResponseWriter, r *http.Request) {
		tag := r.URL.Query().Get("tag")
		if tag == "" {
			tag = ClaimTag
		}
		controlled(c, true, func(t *tx, _ struct{}) (Books, error) { return t.books(tag), nil })(w, r)
	})
	mux.HandleFunc("DELETE /_aws/calls", controlled(c, false, func(t *tx, _ struct{}) (struct{}, error) {
		t.Cloud.calls = map[string]*Calls{}
		return struct{}{}, nil
	}))
}

// controlled serves one path of the control.
func controlled[I, O any](c *Cloud, durable bool, do func(*tx, I) (O, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, err error) { http.Error(w, err.Error(), status) }
		var in I
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, wire.MaxBody))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&in); err != nil {
				refuse(http.StatusBadRequest, fmt.Errorf("read request: %w", err))
				return
			}
		}
		var out O
		var err error
		if broken := c.transact(durable, func(t *tx) { out, err = do(t, in) }); broken != nil {
			refuse(http.StatusInternalServerError, broken)
			return
		}
		if err != nil {
			refuse(http.StatusBadRequest, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // whoever asked has gone
	}
}

func (t *tx) movePrice(in PriceMove) (struct{}, error) {
	it := t.catalog.Find(in.InstanceType)
	if it == nil || in.PriceMicro < 1 {
		return struct{}{}, fmt.Errorf("price: %q, %d: need a type of the catalog and at least one micro-dollar", in.InstanceType, in.PriceMicro)
	}
	moved := false
	for _, o := range it.Offerings {
		if o.CapacityType == model.Spot && (in.Zone == "" || in.Zone == o.Zone) {
			t.prices.put(t, it.Name+"/"+o.Zone, price{Micro: in.PriceMicro, At: t.now})
			moved = true
		}
	}
	if !moved {
		return struct{}{}, fmt.Errorf("price: zone %q: %s is not sold there as spot", in.Zone, in.InstanceType)
	}
	return struct{}{}, nil
}

func (t *tx) release(in Release) (Released, error) {
	version, rocket := in.KubernetesVersion, in.Bottlerocket
	if version == "" {
		version = t.settings.KubernetesVersion
	}
	// The day after the last one: ids are made from names, and names from the day.
	newest := releases[len(releases)-1].day
	for _, im := range t.images.items {
		if im.Created.After(newest) {
			newest = im.Created
		}
	}
	day := newest.AddDate(0, 0, 1)
	if rocket == "" {
		rocket = "1." + day.Format("60102") + ".0-" + id("x", day.String())[2:10]
	}
	var out Released
	for _, im := range release(version, day, rocket) {
		t.images.put(t, im.ID, im)
		out.Images = append(out.Images, im.ID)
	}
	return out, nil
}

// Released are the IDs of released images.
type Released struct {
	Images []string `json:"images"`
}

func (t *tx) reserve(in Reservation) (Reservation, error) {
	if t.offering(in.InstanceType, in.Zone, model.OnDemand) == nil || in.Count < 1 {
		return in, fmt.Errorf("reservation: %d of %s in %s: need at least one of a type that is sold in the zone", in.Count, in.InstanceType, in.Zone)
	}
	set(&in.Criteria, map[string]string{"": "targeted"}[in.Criteria])
	set(&in.Type, map[string]string{"": "default"}[in.Type])
	if in.Criteria != "open" && in.Criteria != "targeted" || in.Type != "default" && in.Type != "capacity-block" {
		return in, errors.New("reservation: instanceMatchCriteria is open or targeted, type default or capacity-block")
	}
	in.ID = t.freshID("cr")
	t.reserved.put(t, in.ID, reservation{
		ID: in.ID, InstanceType: in.InstanceType, Zone: in.Zone, Count: in.Count, Criteria: in.Criteria, Type: in.Type, Created: t.now, End: in.End, Tags: in.Tags,
	})
	return in, nil
}

func (t *tx) cancelReservation(in Cancellation) (struct{}, error) {
	have := t.reserved.items[in.Reservation]
	if have == nil {
		return struct{}{}, fmt.Errorf("cancel: there is no reservation %q", in.Reservation)
	}
	r := *have
	r.Cancelled = true
	t.reserved.put(t, r.ID, r)
	return struct{}{}, nil
}

func (t *tx) books(tag string) Books {
	t.collect()
	b := Books{Calls: map[string]Calls{}, Launches: map[string][]string{}, Alive: []BookedInstance{}, Twice: []string{}, Untagged: []string{}, Started: len(t.instances.items), Templates: len(t.templates.items), Profiles: len(t.profiles.items), Messages: len(t.messages.items)}
	for name, c := range t.calls {
		b.Calls[name] = Calls{Count: c.Count, Errors: maps.Clone(c.Errors)}
	}
	for _, i := range t.instances.sorted() {
		m := t.machine(i)
		value, tagged := i.Tags[tag]
		if tagged {
			b.Launches[value] = append(b.Launches[value], i.ID)
		}
		if m.State == machines.ShuttingDown || m.State == machines.Terminated {
			continue
		}
		if !tagged {
			b.Untagged = append(b.Untagged, i.ID)
		}
		b.Alive = append(b.Alive, BookedInstance{
			ID: i.ID, InstanceType: m.InstanceType, Zone: m.Zone, CapacityType: m.CapacityType, Node: m.Node.Name, State: t.state(i).Name, Launched: m.Launched,
			Goes: i.Goes, NeverJoins: i.NeverJoins, Reboots: i.Reboots, Group: i.Group, PriceMicro: m.PriceMicro, Tags: i.Tags,
		})
	}
	for _, value := range slices.Sorted(maps.Keys(b.Launches)) {
		if len(b.Launches[value]) > 1 {
			b.Twice = append(b.Twice, value)
		}
	}
	return b
}
