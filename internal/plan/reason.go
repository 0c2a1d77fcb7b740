// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Reason says why something is done, or why it is not: data for programs, which report turns into a sentence. It is true in this
// sense: make what there is satisfy what is wanted, and this check passes (contract 3). Two reasons are the same if they are
// equal by ==.
type Reason struct {
	Code    Code
	Pool    string
	Subject Object    // what it is about, unless the Detail names something more exact
	Detail  Detail    // of the type that belongs to the code (details); nil: nothing but the code
	Command CommandID // of the disruption command that the action is part of
}

// Detail holds the facts behind a Code: comparable structs of this package, one type for each Code, named Of and the code. Its
// fields say in their tags where they stand on the wire (wire.go).
type Detail interface{ isDetail() }

// detail makes the struct that embeds it a Detail.
type detail struct{}

func (detail) isDetail() {}

// DependsOnUnread reports whether a refusal may not hold: among its reasons is a NodePool of which it is not known yet what it is offered, as after
// a start. It is decided anew as soon as that is known; until then nobody is told of it, and nothing is given up for it.
func DependsOnUnread(reasons []Reason, pools []*model.NodePool) bool {
	return slices.ContainsFunc(reasons, func(r Reason) bool {
		return r.Code == PoolNotReady && slices.ContainsFunc(pools, func(p *model.NodePool) bool { return p.Name == r.Pool && p.IsUnread() })
	})
}

// DetailOf returns the reason's Detail; the zero value if it has none, or one of another type.
func DetailOf[T Detail](r Reason) T {
	d, _ := r.Detail.(T)
	return d
}

// Fields are a Detail as it stands on the wire: in JSON, in logs, in a sentence for a code that has no words of its own. They
// are for output: nothing reads a meaning out of them but decode.
type Fields struct {
	Subject, Key, Want, Have string
}

// Fields returns the reason's Detail as it stands on the wire.
func (r Reason) Fields() Fields {
	if r.Detail == nil {
		return Fields{Subject: string(r.Subject)}
	}
	f := encode(r.Detail)
	f.Subject = cmp.Or(f.Subject, string(r.Subject))
	return f
}

// Summary returns the most telling of the facts as they stand on the wire: a few words for a condition's message or a fact.
func (r Reason) Summary() string {
	f := r.Fields()
	return strings.TrimSpace(cmp.Or(f.Have, f.Want, f.Subject))
}

// IsSameCheck reports whether two reasons are of one check: of the same label, resource, port, or what else it is about.
func (r Reason) IsSameCheck(o Reason) bool {
	return r.Code == o.Code && r.Fields().Key == o.Fields().Key
}

// IsLike reports whether two reasons say the same, be it of another object.
func (r Reason) IsLike(o Reason) bool {
	a, b := r.Fields(), o.Fields()
	return r.IsSameCheck(o) && r.Pool == o.Pool && a.Want == b.Want && a.Have == b.Have
}

// About names the object, instance type or limit that the reason is about; empty: none in particular.
func (r Reason) About() string {
	if r.Detail == nil || !namesSubject(r.Detail) {
		return string(r.Subject)
	}
	return r.Fields().Subject
}

// String writes a reason in one line, for tests and for an order that is the same everywhere.
func (r Reason) String() string {
	f := r.Fields()
	return "{" + strings.Join([]string{string(r.Code), r.Pool, f.Subject, f.Key, f.Want, f.Have, string(r.Command)}, " ") + "}"
}

// wireReason is a reason in JSON, which docs/reference/json.md describes.
type wireReason struct {
	Code    Code      `json:"code"`
	Pool    string    `json:"nodePool,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Key     string    `json:"key,omitempty"`
	Want    string    `json:"want,omitempty"`
	Have    string    `json:"have,omitempty"`
	Command CommandID `json:"command,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Reason) MarshalJSON() ([]byte, error) {
	f := r.Fields()
	return json.Marshal(wireReason{r.Code, r.Pool, f.Subject, f.Key, f.Want, f.Have, r.Command})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reason) UnmarshalJSON(b []byte) error {
	var w wireReason
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = ReadReason(w.Code, Fields{w.Subject, w.Key, w.Want, w.Have})
	r.Pool, r.Command = w.Pool, w.Command
	return nil
}

// ReadReason returns the reason that stands on the wire as f.
func ReadReason(code Code, f Fields) Reason {
	r := Reason{Code: code}
	kind, known := details[code]
	if !known || !namesSubject(kind) {
		r.Subject, f.Subject = Object(f.Subject), ""
	}
	if f == (Fields{}) {
		return r
	}
	if known {
		r.Detail = decode(kind, f)
	}
	if r.Detail == nil {
		r.Detail = Unread(f)
	}
	return r
}

// Shorten returns the reason with at most so many bytes in each text that it holds.
func (r Reason) Shorten(most int) Reason {
	cut := func(s string) string {
		if len(s) > most {
			return strings.ToValidUTF8(s[:most], "") + "…"
		}
		return s
	}
	if r.Detail == nil {
		return r
	}
	v := reflect.New(reflect.TypeOf(r.Detail)).Elem()
	v.Set(reflect.ValueOf(r.Detail))
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.Len() > most {
			f.SetString(cut(f.String()))
		}
	}
	r.Detail = v.Interface().(Detail)
	return r
}

// Unread is the Detail of a reason that was read and is not as this version writes it.
type Unread Fields

func (Unread) isDetail() {}

func (u Unread) fields() Fields { return Fields(u) }

func (Unread) read(f Fields) Detail { return Unread(f) }

// Types of fields.
type (
	// Object names an object: kind in lower case, namespace if it has one, and name, separated by slashes.
	Object string
	// Rule is a requirement of one label, as Kubernetes writes it.
	Rule string
	// Rules are requirements of several labels.
	Rules string
	// List is several names, none of which contains a space.
	List string
	// Words are somebody else's, for people: a message of the API server, of the cloud, of a condition.
	Words string
	// Holdings are CapacityBuffers, each with the number of its pods that a node has room for.
	Holdings string
	// ResourceName is the name of a resource, "nodes" or model.DollarsPerHour. It is the unit of the amounts beside it.
	ResourceName string
	// Amount is how much there is of the ResourceName beside it: milli-CPU, bytes, micro-dollars an hour, or a number of things.
	Amount int64
	// Micro is an amount of money in micro-dollars.
	Micro int64
)

// ObjectOf names an object by its kind and its name, which begins with its namespace if it has one. Without a kind the name
// alone is given.
func ObjectOf(kind, name string) Object {
	if kind == "" {
		return Object(name)
	}
	return Object(kind + "/" + name)
}

// Kind returns the object's kind.
func (o Object) Kind() string {
	kind, _, _ := strings.Cut(string(o), "/")
	return kind
}

// Name returns the object's name, with its namespace if it has one.
func (o Object) Name() string {
	_, name, _ := strings.Cut(string(o), "/")
	return name
}

// RuleOf returns a requirement as a Rule.
func RuleOf(r *model.Requirement) Rule { return Rule(r.String()) }

// Split returns the label's key, the values of a rule that lists all that are allowed (in: true), and else what it says.
func (r Rule) Split() (key string, in bool, values []string, rest string) {
	key, rest, _ = strings.Cut(string(r), " ")
	if list, ok := strings.CutPrefix(rest, "In ["); ok && strings.HasSuffix(list, "]") {
		return key, true, strings.Fields(list[:len(list)-1]), ""
	}
	return key, false, nil, rest
}

// RulesOf returns requirements as Rules.
func RulesOf(rs model.Requirements) Rules { return Rules(rs.String()) }

// All returns the rules, one for each label.
func (rs Rules) All() []Rule {
	var out []Rule
	for s := range strings.SplitSeq(string(rs), ", ") {
		out = append(out, Rule(s))
	}
	return out
}

// ListOf returns names as a List, an empty one as "".
func ListOf(names []string) List { return List(model.ValuesText(names)) }

// HoldingsOf returns the CapacityBuffers whose virtual pods are among pods; empty: there are none.
func HoldingsOf(pods []*model.Pod) Holdings {
	count := map[string]int{}
	for _, p := range model.VirtualPods(pods) {
		count[p.Buffer]++
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("CapacityBuffer %s (%d)", name, count[name]))
	}
	return Holdings(strings.Join(out, ", "))
}

// Names returns the names.
func (l List) Names() []string { return strings.Fields(string(l)) }
