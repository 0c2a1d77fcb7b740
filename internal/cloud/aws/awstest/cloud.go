// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
)

// Settings configure the account and the cluster of the simulated AWS.
type Settings struct {
	Account           string // 12 digits
	Cluster           string // name of the EKS cluster, and of the discovery tags of subnets and security group
	Endpoint          string // URL of the API server. Empty: none, and user data may name any
	Authority         string // its CA certificate, base64; empty: a placeholder
	KubernetesVersion string // minor version, e.g. 1.36
	IPv6              bool   // Services and pods have IPv6 addresses
	Queue             string // name of the interruption queue
	Role              string // role of the nodes; an instance profile with this name also exists
	Seed              int64  // seed of all random values
	Notice            time.Duration
	GroupDelay        time.Duration // from a change of a group's desired capacity to the launch
}

// Default returns the settings of the sandbox.
func Default() Settings {
	return Settings{
		Account: "111122223333", Cluster: "sandbox", KubernetesVersion: "1.36", Queue: "sandbox", Role: "sandbox-node", Seed: 1,
		Notice: 2 * time.Minute, GroupDelay: time.Second,
	}
}

// Validate returns an error if the settings are invalid.
func (s Settings) Validate() error {
	for _, f := range []struct{ name, value string }{{"account", s.Account}, {"cluster", s.Cluster}, {"kubernetes version", s.KubernetesVersion}, {"queue", s.Queue}, {"role", s.Role}} {
		if f.value == "" {
			return fmt.Errorf("simulated AWS: %s is missing", f.name)
		}
	}
	if s.Notice < 0 || s.GroupDelay < 0 {
		return fmt.Errorf("simulated AWS: notice %s and group delay %s: need at least 0", s.Notice, s.GroupDelay)
	}
	return nil
}

// Cloud is the simulated AWS. It is the Guest of the machines that represent its instances.
type Cloud struct {
	settings Settings
	catalog  *catalog.Catalog
	world    world
	types    []shapes.EC2InstanceTypeInfo // of the catalog, by name
	log      *slog.Logger
	clock    cloud.Clock
	server   *simulated.Server
	requests atomic.Int64

	// What follows changes only while the machines' model is held, by put and drop. See state.go.
	shelves      map[string]applier
	templates    *shelf[template]
	fleets       *shelf[fleet]
	instances    *shelf[instance]
	profiles     *shelf[profile]
	images       *shelf[image]
	prices       *shelf[price]
	reserved     *shelf[reservation]
	groups       *shelf[group]
	activities   *shelf[activity]
	messages     *shelf[message]
	told         *shelf[toldState]
	shifts       *shelf[shift]
	faults       []*activeFault
	calls        map[string]*Calls
	inFlight     map[string]time.Time // messages received and not deleted, until when they are hidden; in memory only
	receipts     map[string]string    // receipt handle to message; in memory only
	receiptCount int64

	differs map[string]time.Time // groups that don't have their desired capacity: when something is done about it; in memory only

	wake chan struct{} // something is to be done at another time than known
	mail chan struct{} // closed and made anew when a message comes
	mu   sync.Mutex    // holds for mail
}

// New returns an empty account. Open the machines with it as their Guest, then call Attach.
func New(c *catalog.Catalog, s Settings, clock cloud.Clock, log *slog.Logger) (*Cloud, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if clock == nil {
		clock = cloud.Wall{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &Cloud{
		settings: s, catalog: c, clock: clock, log: log, shelves: map[string]applier{},
		calls: map[string]*Calls{}, inFlight: map[string]time.Time{}, receipts: map[string]string{}, differs: map[string]time.Time{},
		wake: make(chan struct{}, 1), mail: make(chan struct{}),
	}
	a.world = newWorld(c, s)
	a.types = instanceTypes(c)
	a.templates = newShelf[template](a, "template")
	a.fleets = newShelf[fleet](a, "fleet")
	a.instances = newShelf[instance](a, "instance")
	a.profiles = newShelf[profile](a, "profile")
	a.images = newShelf[image](a, "image")
	a.prices = newShelf[price](a, "price")
	a.reserved = newShelf[reservation](a, "reservation")
	a.groups = newShelf[group](a, "group")
	a.activities = newShelf[activity](a, "activity")
	a.messages = newShelf[message](a, "message")
	a.told = newShelf[toldState](a, "told")
	a.shifts = newShelf[shift](a, "shift")
	return a, nil
}

// Attach sets the machines that represent instances. Call it before Serve and Handler.
func (c *Cloud) Attach(s *simulated.Server) { c.server = s }

// Serve serves requests on a listener and runs background activities (groups, interruptions), until the context ends
// (nil) or something fails. It closes the listener.
func (c *Cloud) Serve(ctx context.Context, l net.Listener) error {
	if c.server == nil {
		return errors.New("serve simulated AWS: no machines are attached")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	web := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(c.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 2)
	var running sync.WaitGroup
	running.Go(func() {
		if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve simulated AWS: %w", err)
		}
	})
	running.Go(func() {
		// The machines may have been told to stop a moment before this context ends.
		if err := c.live(ctx); err != nil && !errors.Is(err, simulated.ErrStopped) {
			failed <- err
		}
	})
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	cancel()
	web.Close()
	running.Wait()
	return err
}

// tx is one change of the account: a call's, or of something that happens by itself.
type tx struct {
	*Cloud
	m   *simulated.Model
	now time.Time
}

// transact has something done while nothing else is. With durable, what it did is on disk when it returns.
func (c *Cloud) transact(durable bool, do func(t *tx)) error {
	return c.server.Change(durable, func(m *simulated.Model, now time.Time) { do(&tx{c, m, now}) })
}

// note is a line of the journal: the current state of an object, or its deletion.
type note struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Apply implements machines.Guest.
func (c *Cloud) Apply(_ time.Time, data json.RawMessage) error {
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("note of the simulated AWS: %w", err)
	}
	s := c.shelves[n.Kind]
	if s == nil {
		return fmt.Errorf("note of the simulated AWS: unknown kind %q", n.Kind)
	}
	return s.apply(n.Key, n.Value)
}

type applier interface {
	apply(key string, value json.RawMessage) error
}

// shelf holds the objects of one kind by their keys. What is on it is never changed but by put and drop.
type shelf[T any] struct {
	kind  string
	items map[string]*T
	moved func(was, is *T) // told of every change; nil: nobody
}

func newShelf[T any](c *Cloud, kind string) *shelf[T] {
	s := &shelf[T]{kind: kind, items: map[string]*T{}}
	c.shelves[kind] = s
	return s
}

func (s *shelf[T]) apply(key string, value json.RawMessage) error {
	var is *T
	if len(value) > 0 {
		is = new(T)
		if err := json.Unmarshal(value, is); err != nil {
			return fmt.Errorf("%s %s: %w", s.kind, key, err)
		}
	}
	was := s.items[key]
	if is == nil {
		delete(s.items, key)
	} else {
		s.items[key] = is
	}
	if s.moved != nil {
		s.moved(was, is)
	}
	return nil
}

// put records an object as it is now.
func (s *shelf[T]) put(t *tx, key string, value T) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain data
	}
	t.m.Note(note{s.kind, key, raw}, t.now)
}

// drop records the deletion of an object.
func (s *shelf[T]) drop(t *tx, key string) { t.m.Note(note{Kind: s.kind, Key: key}, t.now) }

// sorted are the objects by key.
func (s *shelf[T]) sorted() []*T {
	keys := make([]string, 0, len(s.items))
	for k := range s.items {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	out := make([]*T, len(keys))
	for i, k := range keys {
		out[i] = s.items[k]
	}
	return out
}

// hash is the source of everything that looks random here: the same words, the same bits, in every process.
func hash(words ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, w := range words {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(w))))
		h.Write([]byte(w))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// draw is a number below n.
func draw(n uint64, words ...string) uint64 {
	h := hash(words...)
	return binary.BigEndian.Uint64(h[:]) % n
}

// id is an id as AWS makes them: i-0123456789abcdef0.
func id(prefix string, words ...string) string {
	h := hash(append([]string{prefix}, words...)...)
	return prefix + "-" + hex.EncodeToString(h[:])[:17]
}

// freshID is an id that was never given before.
func (t *tx) freshID(prefix string) string {
	return id(prefix, strconv.FormatInt(t.settings.Seed, 10), strconv.FormatInt(t.m.Seq(), 10))
}

func (c *Cloud) arn(service, resource string) string {
	region := c.catalog.Region
	if service == "iam" {
		region = ""
	}
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, region, c.settings.Account, resource)
}

// activeFault is a fault being had.
type activeFault struct {
	Fault
	until  time.Time // zero: not limited
	left   int       // with Count
	asked  int64     // how often Percent was drawn
	tokens float64   // Bucket
	at     time.Time // Bucket: when tokens were counted
}

// digest tells two requests apart.
func digest(request any) string {
	raw, err := json.Marshal(request)
	if err != nil {
		panic(err) // plain data
	}
	return fmt.Sprintf("%x", hash(string(raw)))
}

// machine is an instance's machine.
func (t *tx) machine(in *instance) *machines.Instance { return t.m.Instance(in.ID) }

// gone reports whether an instance is being terminated or has been terminated.
func gone(m *machines.Instance) bool {
	return m.State == machines.ShuttingDown || m.State == machines.Terminated
}

// alive are the instances that run or boot, by id.
func (t *tx) alive() []*instance {
	return slices.DeleteFunc(t.instances.sorted(), func(in *instance) bool { return gone(t.machine(in)) })
}

// visible reports whether the API already knows an instance: Describe lags behind what made it.
func (t *tx) visible(in *instance) bool {
	m := t.machine(in)
	if m == nil {
		return false
	}
	if m.State == machines.Terminated && t.now.Sub(m.Terminated) > keepTerminated {
		return false
	}
	return t.now.Sub(m.Launched) >= t.lag()
}
