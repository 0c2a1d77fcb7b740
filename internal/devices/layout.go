// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// signature is what all claims of a pod ask, but for those that it shares with others. Pods with equal signatures are alike.
type signature struct {
	key    string
	simple bool             // numbers of devices by want
	admin  bool             // admin access only, which consumes nothing
	counts map[string]int64 // want's key -> devices, if simple
	wants  map[string]*want // of all requests, by key
	claims []resourceapi.DeviceClaim
	pods   int
}

func signatureOf(list []*asks) *signature {
	s := &signature{simple: true, counts: map[string]int64{}, wants: map[string]*want{}}
	admins, others := 0, 0
	for _, a := range list {
		s.simple = s.simple && a.simple
		s.claims = append(s.claims, a.devices)
		for w, n := range a.counts {
			s.counts[w.key] += n
		}
		for _, r := range a.list {
			if r.admin {
				admins++
			} else {
				others++
			}
			for _, w := range r.wants {
				s.wants[w.key] = w
			}
		}
	}
	s.admin = admins > 0 && others == 0
	// The allocator gives no device twice to one pod, so access to one is a condition for the others.
	s.simple = s.simple && admins == 0 || len(s.wants) == 0
	var of any = s.claims
	if s.simple {
		of = s.counts
	}
	text, _ := json.Marshal(of)
	s.key = string(text)
	return s
}

// name is the name of the resource that counts how often the devices of a signature that is not simple can be allocated.
func (s *signature) name() string { return Prefix + s.class() + "#" + shortHash(s.key) }

// mark names a signature in Need.Mark and Need.Apart.
func (s *signature) mark() string { return shortHash(s.key) }

// class is a class of a signature.
func (s *signature) class() string {
	return s.wants[slices.Min(slices.Collect(maps.Keys(s.wants)))].class
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// layout is how signatures become resources.
//
// A request for n devices can be honoured by any device of a set: those that satisfy its want. Simple signatures ask for numbers of devices of
// such sets, nothing else. By Hall's theorem, devices for all requests of all pods of a node exist if and only if, for every union U of the
// sets, the requests whose set lies within U ask for no more devices than U has there. It is enough to look at the unions of sets that
// overlap. So each of those is a resource: a request asks for n of every union that its set lies within, and a node has as many as it has free
// devices in the union.
//
// The devices of one class may be requested by claims and as an extended resource, whose set then counts both: see want.yields.
//
// Any other signature (constraints, alternatives, capacity, all devices, counters) is a resource of its own: the number of times that the
// allocator finds devices for it on the node. That number says nothing once pods of another signature have taken some of these devices, so
// pods of such signatures are kept apart: they get no place on one node. Pods of DaemonSets with admin access are not kept apart but refused:
// these agents would keep the pods that they watch off every node.
type layout struct {
	text    string              // of demand, refused, apart and agents
	apart   map[string][]string // signature's key -> names of the signatures that its pods are kept apart from, sorted
	marked  map[string]bool     // keys of the signatures that others are kept apart from
	sets    []*set
	demand  map[string]map[string]int64 // signature's key -> resource -> amount
	refused map[string]string           // signature's key -> why
	agents  map[string]string           // signature's key -> why pods of DaemonSets are refused
	names   map[string]bool             // of the resources in demand
	counted map[string]*signature       // resource -> signature that is counted by the allocator

	constrained map[string]bool // names, without domain, of the attributes that constraints of counted signatures read
}

// set is a union of sets of devices.
type set struct {
	name  string
	want  string // key of the want whose devices these are; empty: of several
	kinds map[*kind]bool
}

// refresh brings the layout up to date.
func (b *Book) refresh() {
	if b.staleWants {
		b.refreshWants()
	}
	if !b.staleWants && !b.staleKinds {
		return
	}
	b.staleWants, b.staleKinds = false, false
	l := b.newLayout()
	if l.text == b.layout.text {
		// Cached amounts stay right: the devices of a resource are those that satisfy one of the wants that ask for it.
		for _, n := range b.nodes {
			if n.layout == b.layout {
				n.layout = l
			}
		}
	} else {
		b.all = true
	}
	b.layout = l
}

// refreshWants judges all devices by new wants and forgets the wants that nobody has any more.
func (b *Book) refreshWants() {
	used := map[string]*want{}
	for _, key := range slices.Sorted(maps.Keys(b.signatures)) {
		if s := b.signatures[key]; len(s.wants)+len(used) <= maxWants {
			maps.Copy(used, s.wants)
		}
	}
	for key, w := range b.wants {
		if used[key] == nil {
			delete(b.wants, key)
			for _, s := range b.slices {
				for i := range s.met {
					delete(s.met[i], w)
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if b.wants[key] != nil {
			continue
		}
		w := *used[key]
		b.nextWant++
		w.number, w.faults = b.nextWant, map[string]string{}
		b.wants[key] = &w
		for _, s := range b.slices {
			b.judge(s, &w)
		}
	}
	for _, s := range b.slices {
		b.sortKinds(s)
	}
	for id := range b.pools {
		b.linkPool(id)
	}
}

func (b *Book) newLayout() *layout {
	l := &layout{demand: map[string]map[string]int64{}, refused: map[string]string{}, agents: map[string]string{}, counted: map[string]*signature{}, apart: map[string][]string{}, marked: map[string]bool{}, constrained: map[string]bool{}}
	satisfying := map[*want]map[*kind]bool{}
	for _, w := range b.wants {
		satisfying[w] = map[*kind]bool{}
	}
	for _, k := range b.kinds {
		for w := range k.wants {
			satisfying[w][k] = true
		}
	}

	// What can be counted at all, and by whom.
	var simple, other []*signature
	devices, admins := map[*signature]map[*kind]bool{}, map[*signature]map[*kind]bool{}
	for i, key := range slices.Sorted(maps.Keys(b.signatures)) {
		if i >= maxSignatures {
			l.refused[key] = fmt.Sprintf("pods request devices in more than %d different combinations; use fewer different claims", maxSignatures)
			continue
		}
		s := b.signatures[key]
		of := map[*kind]bool{}
		reason := ""
		for _, k := range slices.Sorted(maps.Keys(s.wants)) {
			w := b.wants[k]
			if w == nil {
				reason = fmt.Sprintf("pods request devices in more than %d different ways (by class, selectors and tolerations); use fewer different requests", maxWants)
				break
			}
			if len(satisfying[w]) == 0 && len(w.faults) > 0 {
				reason = fmt.Sprintf("no device satisfies its request of class %s; %s; correct the selector", w.class, w.faults[slices.Min(slices.Collect(maps.Keys(w.faults)))])
			}
			maps.Copy(of, satisfying[w])
		}
		for k := range of {
			if k.shared {
				reason = fmt.Sprintf("devices of class %s can be used from several nodes (their ResourceSlices have no nodeName), which is not supported; select devices of one node", b.sharedClass(s))
			}
		}
		switch {
		case reason != "":
			l.refused[key] = reason
			continue
		case s.admin:
			admins[s] = of
			continue
		case s.simple && !odd(of):
			simple = append(simple, s)
		default:
			other = append(other, s)
		}
		devices[s] = of
	}
	for s, of := range admins {
		// Access to a device takes nothing from others, but counters that others have used up prevent it.
		if odd(of) {
			other = append(other, s)
		} else {
			l.count(s)
		}
	}
	for _, s := range other {
		of := devices[s]
		if s.admin {
			of = admins[s]
		}
		with := b.overlapping(s, of, devices)
		if s.admin && len(with) > 0 {
			l.agents[s.key] = fmt.Sprintf("it requests admin access to devices of class %s that are partitions or are shared, and other pods request some of them, which is not supported", s.class())
		}
		l.count(s)
		for _, with := range with {
			l.apart[s.key] = append(l.apart[s.key], with.mark())
			l.marked[with.key] = true
		}
		slices.Sort(l.apart[s.key])
	}
	b.addSets(l, simple, satisfying)

	l.names = map[string]bool{}
	for _, amounts := range l.demand {
		for name := range amounts {
			l.names[name] = true
		}
	}
	text, _ := json.Marshal([]any{l.demand, l.refused, l.apart, l.agents})
	l.text = string(text)
	return l
}

// count makes a signature a resource of its own.
func (l *layout) count(s *signature) {
	l.counted[s.name()] = s
	for _, devices := range s.claims {
		for _, c := range devices.Constraints {
			for _, attribute := range []*resourceapi.FullyQualifiedName{c.MatchAttribute, c.DistinctAttribute} {
				if attribute != nil {
					l.constrained[attributeName(string(*attribute))] = true
				}
			}
		}
	}
	l.demand[s.key] = map[string]int64{s.name(): 1}
}

func odd(kinds map[*kind]bool) bool {
	for k := range kinds {
		if k.odd {
			return true
		}
	}
	return false
}

// sharedClass is the class of a request of a signature that devices of no single node satisfy.
func (b *Book) sharedClass(s *signature) string {
	class := ""
	for _, k := range b.kinds {
		for w := range k.wants {
			if k.shared && s.wants[w.key] != nil && (class == "" || w.class < class) {
				class = w.class
			}
		}
	}
	return class
}

// overlapping returns the other signatures that ask for devices that s asks for too (its), or for devices that draw on the same counters.
func (b *Book) overlapping(s *signature, its map[*kind]bool, devices map[*signature]map[*kind]bool) (with []*signature) {
	tied := maps.Clone(its)
	for l := range b.links {
		if its[l.a] {
			tied[l.b] = true
		}
	}
	for other, of := range devices {
		if other != s && overlap(of, tied) {
			with = append(with, other)
		}
	}
	return with
}

func overlap(a, b map[*kind]bool) bool {
	if len(b) < len(a) {
		a, b = b, a
	}
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

func within(a, b map[*kind]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}

// addSets makes the resources of simple signatures.
func (b *Book) addSets(l *layout, simple []*signature, satisfying map[*want]map[*kind]bool) {
	wanted := map[string]*want{}
	for _, s := range simple {
		for key := range s.wants {
			wanted[key] = b.wants[key]
		}
	}
	keys := slices.Sorted(maps.Keys(wanted))
	of := map[string][]*set{} // want's key -> sets that its devices lie within
	for len(keys) > 0 {
		// The wants whose devices overlap, directly or through others.
		part, all := []string{keys[0]}, maps.Clone(satisfying[wanted[keys[0]]])
		keys = keys[1:]
		for {
			i := slices.IndexFunc(keys, func(key string) bool { return overlap(satisfying[wanted[key]], all) })
			if i < 0 {
				break
			}
			part = append(part, keys[i])
			maps.Copy(all, satisfying[wanted[keys[i]]])
			keys = slices.Delete(keys, i, i+1)
		}
		slices.Sort(part)
		sets := b.unions(part, wanted, satisfying)
		for _, key := range part {
			if sets == nil {
				of[key] = nil
				continue
			}
			for _, s := range sets {
				if within(satisfying[wanted[key]], s.kinds) {
					of[key] = append(of[key], s)
				}
			}
		}
		l.sets = append(l.sets, sets...)
	}
	slices.SortFunc(l.sets, func(a, b *set) int { return cmp.Compare(a.name, b.name) })
	for _, s := range simple {
		demand := map[string]int64{}
		for _, key := range slices.Sorted(maps.Keys(s.counts)) {
			if s.counts[key] == 0 {
				continue
			}
			if of[key] == nil {
				l.refused[s.key] = fmt.Sprintf("its devices of class %s overlap with those of other requests in more than %d ways; use classes whose devices are distinct or nested", wanted[key].class, maxSets)
				break
			}
			for _, u := range of[key] {
				if !wanted[key].yields(wanted[u.want]) {
					demand[u.name] += s.counts[key]
				}
			}
		}
		if l.refused[s.key] == "" {
			l.demand[s.key] = demand
		}
	}
}

// unions returns the sets of wants whose devices overlap, and the unions of those that do; nil if there are more than maxSets different ones.
// Wants that the same devices satisfy have a set each: which names a want has must not depend on the devices that there are, as NodeClaims are
// written with these names before their devices come.
func (b *Book) unions(part []string, wanted map[string]*want, satisfying map[*want]map[*kind]bool) []*set {
	var sets []*set
	different := 0
	has := func(kinds map[*kind]bool) bool {
		return slices.ContainsFunc(sets, func(s *set) bool { return len(s.kinds) == len(kinds) && within(s.kinds, kinds) })
	}
	for _, key := range part {
		kinds := satisfying[wanted[key]]
		if !has(kinds) {
			different++
		}
		sets = append(sets, &set{name: wanted[key].name(), want: key, kinds: kinds})
	}
	for i := 0; i < len(sets) && different <= maxSets; i++ {
		for j := range i {
			if !overlap(sets[i].kinds, sets[j].kinds) {
				continue
			}
			union := maps.Clone(sets[i].kinds)
			maps.Copy(union, sets[j].kinds)
			if has(union) {
				continue
			}
			members, class := "", ""
			for _, key := range part {
				if within(satisfying[wanted[key]], union) {
					members += key + "\n"
					if class == "" {
						class = wanted[key].class
					}
				}
			}
			different++
			sets = append(sets, &set{name: Prefix + class + "#" + shortHash("union\n"+members), kinds: union})
		}
	}
	if different > maxSets {
		return nil
	}
	return sets
}
